/* Diffusion transformers: whether the request fits one, and what is not modelled of them. */
#include <inttypes.h>

#include "core/config/config_priv.h"

static bool is_dit_mixer(enum sc_mixer mixer)
{
	return mixer == SC_MIX_DOUBLE || mixer == SC_MIX_SINGLE || mixer == SC_MIX_CROSS;
}

/* Its layers are of kinds that no other family has; a text among the tokens is none beside them. */
static int check_kinds(const struct sc_resolver *res)
{
	static const char path[] = "model.layers_pattern";
	const struct sc_model *model = &res->request->config.model;
	const bool is_dit = sc_family_traits(model->family)->denoises;
	int64_t text = model->dit.text_seq, n[SC_N_MIXERS] = {0};

	if (!is_dit && (text > 0 || model->dit.pooled_dim > 0))
		sc_warn(&res->request->warnings, "model.dit has no effect: the model is no dit");
	if (is_dit && !model->layers_pattern)
		return sc_resolve_fail(
			res, SC_EVALUE, "model",
			"%s is not given; a dit's layers are double, single or cross, as "
			"in 19*double,38*single",
			path);
	for (int64_t i = 0; model->layers_pattern && i < model->layers; i++) {
		const struct sc_layer_kind kind = model->kinds[model->kind_of[i]];

		n[kind.mixer]++;
		if (is_dit_mixer(kind.mixer) != is_dit || (is_dit && kind.feed != SC_FEED_MLP))
			return sc_resolve_fail(
				res, SC_ECONFLICT, path,
				"%s: layers of double, single and cross are those of family dit, and "
				"it has no others",
				path);
	}
	if (n[SC_MIX_CROSS] > 0 && n[SC_MIX_CROSS] < model->layers)
		return sc_resolve_fail(
			res, SC_ECONFLICT, path,
			"%s: cross layers read a text beside the tokens, which those of "
			"double and single are joined with; choose one",
			path);
	if ((n[SC_MIX_DOUBLE] > 0 || n[SC_MIX_CROSS] > 0) && text < 1)
		return sc_resolve_fail(
			res, SC_EVALUE, "model",
			"model.dit.text_seq is not given; it is the tokens of a text");
	if (is_dit && n[SC_MIX_CROSS] == 0 && text >= model->seq)
		return sc_resolve_fail(res, SC_ECONFLICT, "model.dit.text_seq",
				       "model.dit.text_seq %" PRId64
				       " leaves no patches of the %" PRId64 " tokens of model.seq",
				       text, model->seq);
	return 0;
}

int sc_config_check_dit(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	const struct sc_model *model = &cfg->model;
	const bool given = sc_config_origin(cfg, "training.attention");
	const struct {
		const char *path, *instead;
		bool asked;
	} refused[] = {
		{"parallel.pp", "set 1", cfg->parallel.pp > 1},
		{"parallel.cp", "set 1", cfg->parallel.cp > 1},
		{"training.recompute", "choose none or full",
		 cfg->training.recompute != SC_RECOMPUTE_NONE &&
			 cfg->training.recompute != SC_RECOMPUTE_FULL},
		/* Some software's own choice is unfused. */
		{given ? "training.attention" : "training.software",
		 given ? "choose flash" : "set training.attention flash",
		 cfg->training.attention == SC_ATT_UNFUSED},
		{"training.unpadded", "set false", cfg->training.fill_fraction < 1},
		{"training.optimizer", "choose adam", cfg->training.optimizer == SC_OPT_KFAC},
		{"model.mtp_layers", "set 0", model->mtp_layers > 0},
		{"model.kv_lora_rank", "remove it", sc_model_is_mla(model)},
		{"model.sliding_window", "remove it", model->sliding_window > 0},
		{"model.attention_gate", "remove it", model->attention_gate > 0},
		{"model.tied_embeddings", "remove it", model->tied_embeddings > 0},
	};
	int rc = check_kinds(res);

	if (rc || !sc_family_traits(model->family)->denoises)
		return rc;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (refused[i].asked)
			return sc_resolve_fail(
				res, SC_EUNSUPPORTED, refused[i].path,
				"%s as it is here is not modelled for family dit; %s",
				refused[i].path, refused[i].instead);
	return 0;
}
