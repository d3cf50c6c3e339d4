/* Do the sizes of a mixture of experts and of latent attention fit together, and with the split? */
#include <inttypes.h>

#include "core/config/config_priv.h"

static int check_family(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	const struct sc_model *model = &cfg->model;

	if (sc_family_traits(model->family)->experts && !sc_model_is_moe(model))
		return sc_resolve_fail(
			res, SC_EVALUE, "model",
			"model.experts is not given, and no model of configs/models has "
			"this family, hidden and heads; write experts, top_k and "
			"expert_ffn_hidden");
	if (model->experts > 0 && !sc_model_is_moe(model))
		return sc_resolve_fail(res, SC_ECONFLICT, "model.experts",
				       "model.experts needs family moe or moe-mla, not %s",
				       sc_family_name(model->family));
	if (cfg->parallel.ep > 1 && !sc_model_is_moe(model))
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.ep",
				       "parallel.ep is %" PRId64
				       ", but the model has no experts; remove "
				       "it, or choose family moe",
				       cfg->parallel.ep);
	return 0;
}

static bool is_given(const struct sc_resolver *res, const char *path)
{
	return sc_config_origin(&res->request->config, path) != NULL;
}

static int check_sizes(const struct sc_resolver *res)
{
	const struct sc_model *model = &res->request->config.model;
	int64_t etp = res->request->config.parallel.etp;

	if (!sc_model_is_moe(model))
		return 0;
	if (res->request->config.training.routing == SC_ROUTING_NATURAL &&
	    !is_given(res, "training.expert_imbalance"))
		return sc_resolve_fail(
			res, SC_EVALUE, "training.routing",
			"natural routing is as uneven as the data make it: give "
			"training.expert_imbalance, the tokens of the busiest expert rank over the "
			"mean (1: as balanced), or routing balanced");
	if (model->dense_layers > model->layers)
		return sc_resolve_fail(res, SC_ECONFLICT, "model.dense_layers",
				       "model.dense_layers %" PRId64 " are more than the %" PRId64
				       " layers",
				       model->dense_layers, model->layers);
	if (model->experts_every > 1 && model->experts_every > model->layers - model->dense_layers)
		return sc_resolve_fail(res, SC_ECONFLICT, "model.experts_every",
				       "no layer has experts: model.experts_every %" PRId64
				       " is more than the %" PRId64 " layers after dense_layers",
				       model->experts_every, model->layers - model->dense_layers);
	if (model->top_k > model->experts)
		return sc_resolve_fail(res, SC_ECONFLICT, "model.top_k",
				       "model.top_k %" PRId64 " is more than the %" PRId64
				       " experts",
				       model->top_k, model->experts);
	if (model->experts % model->expert_groups || model->top_groups > model->expert_groups)
		return sc_resolve_fail(res, SC_ECONFLICT, "model.expert_groups",
				       "model.expert_groups %" PRId64 " do not divide the %" PRId64
				       " experts, or are fewer than top_groups %" PRId64,
				       model->expert_groups, model->experts, model->top_groups);
	if (model->expert_ffn_hidden % etp)
		return sc_resolve_fail(res, SC_ECONFLICT,
				       is_given(res, "parallel.etp") ? "parallel.etp"
								     : "parallel.tp",
				       "model.expert_ffn_hidden %" PRId64
				       " does not split over parallel.etp %" PRId64
				       "; choose one that divides it, or 1",
				       model->expert_ffn_hidden, etp);
	return 0;
}

static int check_split(const struct sc_resolver *res)
{
	const struct sc_model *model = &res->request->config.model;
	const struct sc_parallel *par = &res->request->config.parallel;

	if (sc_model_is_moe(model) && par->etp != 1 && par->etp != par->tp)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.etp",
				       "parallel.etp %" PRId64
				       " is neither 1 nor parallel.tp %" PRId64,
				       par->etp, par->tp);
	if (sc_model_is_moe(model) && par->tp * par->cp * par->dp % (par->etp * par->ep))
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.ep",
				       "parallel.ep %" PRId64 " x etp %" PRId64
				       " does not divide the %" PRId64
				       " ranks of tp x cp x dp, which expert groups are cut out of",
				       par->ep, par->etp, par->tp * par->cp * par->dp);
	if (sc_model_is_moe(model) && model->experts % par->ep)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.ep",
				       "model.experts %" PRId64
				       " do not split over parallel.ep %" PRId64,
				       model->experts, par->ep);
	return 0;
}

/* The ranks that hold the same experts are as many copies. */
static int check_shard_ranks(const struct sc_resolver *res)
{
	const struct sc_parallel *par = &res->request->config.parallel;
	int64_t ranks = par->dp * par->cp;
	int64_t expert_ranks = par->etp > 0 ? par->tp * ranks / (par->etp * par->ep) : ranks;

	if (par->shard_ranks < 1)
		return 0;
	if (ranks % par->shard_ranks)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.shard_ranks",
				       "parallel.shard_ranks %" PRId64
				       " does not divide the %" PRId64 " ranks of dp x cp",
				       par->shard_ranks, ranks);
	if (expert_ranks % (ranks / par->shard_ranks))
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.shard_ranks",
				       "parallel.shard_ranks %" PRId64 " makes %" PRId64
				       " copies, which the %" PRId64
				       " ranks that hold the same experts do not split into",
				       par->shard_ranks, ranks / par->shard_ranks, expert_ranks);
	return 0;
}

/* Rotary positions have their own part of a head (DeepSeek-V2, arXiv:2405.04434, section 2.1.3). */
static int check_latent_attention(const struct sc_resolver *res)
{
	const struct sc_model *model = &res->request->config.model;

	if (!sc_model_is_mla(model)) {
		const char *path = model->q_lora_rank >= 0     ? "model.q_lora_rank"
				   : model->rope_head_dim >= 0 ? "model.rope_head_dim"
							       : NULL;

		return path ? sc_resolve_fail(res, SC_ECONFLICT, path,
					      "%s belongs to latent attention; give "
					      "model.kv_lora_rank, too, or remove it",
					      path)
			    : 0;
	}
	if (!sc_family_traits(model->family)->rope)
		return sc_resolve_fail(res, SC_ECONFLICT, "model.kv_lora_rank",
				       "model.kv_lora_rank needs a family with rotary positions "
				       "(llama, moe or moe-mla), not %s",
				       sc_family_name(model->family));
	if (model->kv_heads != model->heads)
		return sc_resolve_fail(res, SC_ECONFLICT, "model.kv_heads",
				       "model.kv_heads %" PRId64
				       " with latent attention, which has keys and values for "
				       "each of the %" PRId64 " heads; remove kv_heads",
				       model->kv_heads, model->heads);
	return 0;
}

int sc_config_check_experts(const struct sc_resolver *res)
{
	static int (*const checks[])(const struct sc_resolver *) = {
		check_family, check_sizes, check_split, check_shard_ranks, check_latent_attention,
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(checks) / sizeof(checks[0]); i++)
		rc = checks[i](res);
	return rc;
}
