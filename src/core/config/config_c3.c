/* c3.policy: which family of collectives shares the GPU how, what the software does where nothing
 * is said, and what the schedule has to know of it. */
#include <inttypes.h>
#include <math.h>

#include "core/config/config_priv.h"

static const char *const PATHS[SC_N_C3_FAMILIES] = {
	[SC_C3_TP] = "c3.policy.tp", [SC_C3_CP] = "c3.policy.cp", [SC_C3_EP] = "c3.policy.ep",
	[SC_C3_DP] = "c3.policy.dp", [SC_C3_PP] = "c3.policy.pp",
};

static int parse_choice(const struct sc_resolver *res, const char *text, const char *path,
			struct sc_c3_choice *out)
{
	struct sc_err own = {.code = SC_OK};

	if (sc_c3_choice_parse(text, "", out, &own) == 0 &&
	    !(sc_c3_copies(out->policy) && out->n > 0))
		return 0;
	if (own.code == SC_OK)
		sc_err_set(&own, SC_EUNSUPPORTED,
			   "\"%.64s\": `stepcast c3` alone counts the chunks of copies; give "
			   "copy_engine",
			   text);
	return sc_resolve_fail(res, own.code, path, "%s: %s", path, own.text);
}

/* Tensor parallelism alone has products that wait for their collective, piece by piece. */
static bool can_have(enum sc_c3_family family, enum sc_c3_policy policy)
{
	bool in_pieces = policy == SC_C3_CHUNKED || policy == SC_C3_TILE_FUSED;

	return family == SC_C3_TP || !in_pieces;
}

static const char *usual_policy(const struct sc_request *req, enum sc_c3_family family)
{
	const struct sc_software *sw = &req->software;
	const struct sc_habit *piece = sc_habit_of(req, PATHS[family]);

	if (family == SC_C3_TP && req->config.parallel.tp_overlap)
		return "chunked";
	if (piece)
		return *(const char *const *)piece->value;
	/* Tensor parallelism has what is behind weight gradients. */
	return family == SC_C3_DP && sw->grad_sync == SC_GRAD_AFTER && !sw->gather_ahead
		       ? "serial"
		       : "comm_first";
}

/* Applies the part of the schedule that a policy decides. */
static void apply_policy(struct sc_request *req, enum sc_c3_family family)
{
	bool serial = req->c3[family].policy == SC_C3_SERIAL;

	if (family == SC_C3_TP)
		req->config.parallel.tp_overlap = req->c3[family].policy == SC_C3_CHUNKED ||
						  req->c3[family].policy == SC_C3_TILE_FUSED;
	if (family == SC_C3_EP && serial && req->config.training.moe_overlap) {
		req->config.training.moe_overlap = false;
		if (!sc_habit_taken(req, "training.moe_overlap"))
			sc_warn(&req->warnings,
				"training.moe_overlap has no effect: c3.policy serial takes turns");
	}
	if (family == SC_C3_DP) {
		req->software.grad_sync = serial ? SC_GRAD_AFTER : SC_GRAD_OVERLAP;
		req->software.gather_ahead = !serial;
	}
}

/* Copy engines reach their own node, and do not add: the rest stays on SMs. `stepcast c3` searches
 * what is not said here. */
static void warn_policy(struct sc_request *req, enum sc_c3_family family)
{
	const struct sc_c3_choice *choice = &req->c3[family];
	const char *name = sc_enum_name(sc_c3_policy_names, (int)choice->policy);

	if (sc_c3_copies(choice->policy) && req->config.gpus > req->config.cluster.scale_up_gpus)
		sc_warn(&req->warnings,
			"%s %s: copy engines reach GPUs of one NVLink domain (%" PRId64
			"); collectives that go further stay on SMs",
			PATHS[family], name, req->config.cluster.scale_up_gpus);
	if (sc_c3_copies(choice->policy) && (family == SC_C3_TP || family == SC_C3_DP))
		sc_warn(&req->warnings, "%s %s: copy engines do not add: reductions stay on SMs",
			PATHS[family], name);
	if ((choice->policy == SC_C3_RESERVE || choice->policy == SC_C3_COMM_FIRST_RESERVE) &&
	    !(choice->n > 0))
		sc_warn(&req->warnings,
			"%s %s: without N collectives have the fewest SMs that do not slow them; "
			"`stepcast c3` searches the best N",
			PATHS[family], name);
}

/* Whether any rank sends anything of that family: gradients go over context ranks, too, those of
 * experts over all that hold the same ones. */
static bool family_communicates(const struct sc_request *req, enum sc_c3_family family)
{
	const struct sc_parallel *par = &req->config.parallel;
	const bool copies_experts = sc_model_is_moe(&req->config.model) &&
				    par->tp * par->cp * par->dp > par->ep * par->etp;
	const bool sends[SC_N_C3_FAMILIES] = {
		[SC_C3_TP] = par->tp > 1, [SC_C3_CP] = par->cp > 1,
		[SC_C3_EP] = par->ep > 1, [SC_C3_DP] = par->cp * par->dp > 1 || copies_experts,
		[SC_C3_PP] = par->pp > 1,
	};

	return req->config.gpus > 1 &&
	       (!sc_model_is_transformer(&req->config.model) || sends[family]);
}

/* Why a policy changes nothing, NULL if it does. A DLRM's collectives are where its step needs
 * them, and a table of layers is data parallel alone. */
static const char *no_effect(const struct sc_request *req, enum sc_c3_family family,
			     const struct sc_c3_choice *choice)
{
	if (!family_communicates(req, family))
		return req->config.gpus > 1 ? "its ranks send nothing" : "one GPU sends nothing";
	if (sc_model_is_transformer(&req->config.model) ||
	    (family == SC_C3_DP &&
	     (req->config.model.family == SC_LAYERS || choice->policy == SC_C3_SERIAL)))
		return NULL;
	return req->config.model.family == SC_DLRM ? "the model is a DLRM"
						   : "the model is a table of layers";
}

/* Kernels have what is left, in the device's granule. */
static int c3_reserve(const struct sc_resolver *res, const char *path, struct sc_c3_choice *choice)
{
	double whole = choice->n;

	if (!sc_c3_keeps(choice))
		return 0;
	for (size_t k = 0; k < sc_request_n_kinds(res->request); k++) {
		const struct sc_device *device = sc_request_device(res->request, k);

		if (choice->n > sc_device_most_reserved(device))
			return sc_resolve_fail(res, SC_ECONFLICT, path,
					       "%s: reserve:%.0f leaves too few of the %" PRId64
					       " SMs of %.40s to kernels; keep at most %.0f",
					       path, choice->n, device->sm_count, device->id,
					       sc_device_most_reserved(device));
		whole = fmax(whole, sc_device_whole_sms(device, choice->n));
	}
	choice->n = whole;
	return 0;
}

static int resolve_family(const struct sc_resolver *res, enum sc_c3_family family,
			  const struct sc_c3_choice *all)
{
	struct sc_request *req = res->request;
	const char *text = req->config.c3.policy.family[family], *why;
	int rc;

	if (req->config.training.launch_blocking) { /* nothing runs beside anything */
		if (text || all)
			sc_warn(&req->warnings, "%s has no effect: launches block",
				text ? PATHS[family] : "c3.policy");
		text = "serial";
	}
	if (!text && !(all && can_have(family, all->policy)))
		return parse_choice(res, usual_policy(req, family), PATHS[family],
				    &req->c3[family]);
	rc = text ? parse_choice(res, text, PATHS[family], &req->c3[family]) : 0;
	if (rc)
		return rc;
	if (!text)
		req->c3[family] = *all;
	if (!can_have(family, req->c3[family].policy))
		return sc_resolve_fail(res, SC_EUNSUPPORTED, PATHS[family],
				       "%s: \"%.64s\" needs products that wait for the collective, "
				       "which tensor parallelism alone has; use it for tp",
				       PATHS[family], text);
	rc = c3_reserve(res, text ? PATHS[family] : "c3.policy", &req->c3[family]);
	if (rc)
		return rc;
	why = req->config.training.launch_blocking ? NULL
						   : no_effect(req, family, &req->c3[family]);
	if (why) {
		if (text || (family == SC_C3_DP &&
			     (req->config.gpus == 1 || family_communicates(req, family))))
			sc_warn(&req->warnings, "%s has no effect: %s",
				text ? PATHS[family] : "c3.policy", why);
		return parse_choice(res, usual_policy(req, family), PATHS[family],
				    &req->c3[family]);
	}
	apply_policy(req, family);
	warn_policy(req, family);
	return 0;
}

int sc_config_resolve_c3(const struct sc_resolver *res)
{
	struct sc_request *req = res->request;
	const char *text = req->config.c3.policy.all;
	struct sc_c3_choice all;
	int rc = 0;

	if (req->config.c3.channels > 0 && req->config.gpus == 1)
		sc_warn(&req->warnings, "c3.channels has no effect: one GPU sends nothing");
	if (text)
		rc = parse_choice(res, text, "c3.policy", &all);
	for (int f = 0; rc == 0 && f < SC_N_C3_FAMILIES; f++)
		rc = resolve_family(res, (enum sc_c3_family)f, text ? &all : NULL);
	return rc;
}
