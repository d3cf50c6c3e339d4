/* The release of a software that a request means: by its GPUs, its version, or a sign in the config
 * that only one of them has. */
#include <string.h>

#include "core/config/catalog_priv.h"
#include "core/config/config_priv.h"

/* Only what the config says, so that a key that it leaves out chooses nothing but by its GPU. */
static bool has_sign(const struct sc_request *req, enum sc_stack_sign sign)
{
	const struct sc_config *cfg = &req->config;
	const bool is_given = (int)cfg->training.precision != SC_NOT_GIVEN;
	const enum sc_dtype dtype = is_given ? sc_precision_dtype(cfg->training.precision)
				    : sc_kind_without(req, SC_BF16) ? SC_FP16
								    : SC_BF16;

	if (sign == SC_STACK_ANY || !sc_model_is_transformer(&cfg->model))
		return sign == SC_STACK_ANY;
	return sign == SC_STACK_SHARDED ? (int)cfg->parallel.sharding >= (int)SC_ZERO2
	       : sign == SC_STACK_FP8   ? sc_dtype_bytes(dtype) < 2
	       : sign == SC_STACK_FP16  ? dtype == SC_FP16 || dtype == SC_TF32 || dtype == SC_FP32
	       : sign == SC_STACK_UNTIES
		       ? !cfg->training.software_version &&
				 !(cfg->model.tied_embeddings == SC_NOT_GIVEN
					   ? sc_family_traits(cfg->model.family)->tied
					   : cfg->model.tied_embeddings)
	       : sign == SC_STACK_UNPADDED
		       ? cfg->training.unpadded && cfg->training.fill_fraction < 0
	       : sign == SC_STACK_AMP ? is_given && (cfg->training.precision == SC_P_AMP_FP16 ||
						     cfg->training.precision == SC_P_AMP_BF16)
				      : true;
}

/* Returns whether a version is a release's number without the program's name before it. */
static bool is_bare_number(const char *version, const char *release)
{
	const char *number = strrchr(release, ' ');

	return number && strncmp(version, number + 1, strlen(number + 1)) == 0;
}

/* Warns where only the program's name is missing for a release: another's habits are simulated. */
static void warn_bare_number(const struct sc_resolver *res, const struct sc_software *software)
{
	struct sc_request *req = res->request;
	const char *version = req->config.training.software_version;

	for (size_t i = 0; i < software->releases.n && version; i++) {
		const struct sc_release *release =
			(const struct sc_release *)software->releases.at + i;

		if (!release->version || !is_bare_number(version, release->version))
			continue;
		sc_warn(&req->warnings,
			"training.software_version %s names no release: %s is simulated; \"%s\" "
			"has habits of its own",
			version, software->id, release->version);
		return;
	}
}

/* The release for the GPUs, of that version, or with a sign; without a version, the first that can
 * do what the model asks for. */
static bool is_release(const struct sc_request *req, const struct sc_release *release)
{
	const char *version = req->config.training.software_version;

	if (!has_sign(req, release->sign))
		return false;
	if (release->capability > 0) {
		/* One program runs everywhere, and it must know the newest GPU. */
		int64_t newest = 0;

		for (size_t k = 0; k < sc_request_n_kinds(req); k++)
			if (sc_request_device(req, k)->cuda_capability > newest)
				newest = sc_request_device(req, k)->cuda_capability;
		return newest >= release->capability;
	}
	if (release->sign)
		return true;
	return version && release->version &&
	       strncmp(version, release->version, strlen(release->version)) == 0;
}

int sc_config_take_release(const struct sc_resolver *res, const struct sc_software **software)
{
	struct sc_request *req = res->request;
	const struct sc_release *release = (*software)->releases.at;
	const struct sc_software *before = *software;
	struct sc_err own = {.code = SC_OK};

	for (size_t i = 0; i < before->releases.n; i++, release++) {
		if (!is_release(req, release))
			continue;
		if (sc_catalog_software(res->catalog, release->profile, software, &own))
			return sc_resolve_profile_error(res, "training.software", &own);
		if (release->capability > 0 && strcmp(before->id, SC_DEFAULT_SOFTWARE) != 0)
			sc_warn(&req->warnings,
				release->sign
					? "training.software %s is taken as its release %s in this "
					  "precision on this GPU"
					: "training.software %s has no release for this GPU: its "
					  "successor %s is simulated",
				before->id, (*software)->id);
		else if (release->sign == SC_STACK_UNTIES)
			sc_warn(&req->warnings,
				"training.software %s ties embeddings: its release %s, which need not, "
				"is simulated; training.software_version names another",
				before->id, (*software)->id);
		return 0;
	}
	warn_bare_number(res, before);
	return 0;
}
