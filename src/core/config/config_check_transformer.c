/* Does a Transformer fit together with its split: widths, experts, stages, latent attention,
 * adapters? Each message says what to do about it. */
#include <inttypes.h>
#include <math.h>

#include "core/config/config_priv.h"
#include "core/config/config_schedule.h"

/* Stages with sharding, experts with the family. */
static int check_family(const struct sc_resolver *res)
{
	static const char *const names[] = {"none", "zero1", "zero2", "zero3", "fsdp"};
	const struct sc_config *cfg = &res->request->config;
	const struct sc_parallel *par = &cfg->parallel;
	const struct sc_software *sw = &res->request->software;
	const struct sc_model *model = &cfg->model;

	if (model->wide_first + model->wide_last > model->layers)
		return sc_resolve_fail(res, SC_ECONFLICT, "training.bf16_last_layers",
				       "training.bf16_first_layers %" PRId64
				       " and bf16_last_layers %" PRId64
				       " are more than the %" PRId64 " layers",
				       model->wide_first, model->wide_last, model->layers);
	if (par->pp > 1 && par->sharding >= SC_ZERO2 && sw->sharded_pipeline == SC_SHARDED_REFUSED)
		return sc_resolve_fail(
			res, SC_ECONFLICT, "parallel.sharding",
			"parallel.sharding %s with parallel.pp %" PRId64
			": %s refuses it; use zero1, pp 1 or another training.software",
			names[par->sharding], par->pp, sw->id);
	if (sc_family_traits(model->family)->experts && !sc_model_is_moe(model) &&
	    model->family != SC_NEMOTRON_H)
		return sc_resolve_fail(
			res, SC_EVALUE, "model",
			"model.experts is not given, and no model of configs/models has this "
			"family, hidden and heads; write experts, top_k and expert_ffn_hidden");
	if (model->experts > 0 && !sc_model_is_moe(model))
		return sc_resolve_fail(res, SC_ECONFLICT, "model.experts",
				       "model.experts needs family moe or one like it, not %s",
				       sc_family_name(model->family));
	if (par->ep > 1 && !sc_model_is_moe(model))
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.ep",
				       "parallel.ep is %" PRId64
				       ", but the model has no experts; remove "
				       "it, or choose family moe",
				       par->ep);
	return sc_config_check_pattern(res);
}

static bool is_given(const struct sc_resolver *res, const char *path)
{
	return sc_config_origin(&res->request->config, path) != NULL;
}

static int check_experts(const struct sc_resolver *res)
{
	const struct sc_model *model = &res->request->config.model;
	const struct sc_parallel *par = &res->request->config.parallel;
	const int64_t etp = par->etp, ranks = par->tp * par->cp * par->dp;

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
	if (etp != 1 && etp != par->tp)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.etp",
				       "parallel.etp %" PRId64
				       " is neither 1 nor parallel.tp %" PRId64,
				       etp, par->tp);
	if (ranks % (etp * par->ep))
		return sc_resolve_fail(
			res, SC_ECONFLICT, "parallel.ep",
			"parallel.ep %" PRId64 " x etp %" PRId64 " does not divide the %" PRId64
			" ranks of tp x cp x dp, which expert groups are cut out of; change gpus or parallel.ep",
			par->ep, etp, ranks);
	if (model->experts % par->ep)
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

	if (sc_model_is_mla(model) && (sc_model_full_differs(model) || model->attention_sinks > 0))
		return sc_resolve_fail(res, SC_EUNSUPPORTED, "model.kv_lora_rank",
				       "latent attention is modelled without attention_sinks and "
				       "with the same heads in all layers; remove the full_ keys");
	if (!sc_model_is_mla(model) && model->csa.output_rank > 0)
		return 0; /* compressed queries of another kind (config_pattern.c) */
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

static int check_tower(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	const struct sc_tower *tower = &cfg->model.tower;
	const int64_t tp = cfg->parallel.tp;

	if (tower->layers < 1 && tower->hidden < 1 && tower->patches < 1 && !(tower->images >= 0)) {
		if (tower->left_out)
			sc_warn(&res->request->warnings,
				"the tower of %.40s is left out, so the language model alone is "
				"predicted; model.tower describes it",
				tower->left_out);
		return 0;
	}
	if (tower->layers < 1 || tower->hidden < 1 || tower->heads < 1 || tower->ffn_hidden < 1 ||
	    tower->patch_dim < 1 || tower->patches < 1 || !(tower->images >= 0))
		return sc_resolve_fail(
			res, SC_EVALUE, "model.tower",
			"model.tower: give layers, hidden, heads, ffn_hidden, patch_dim, "
			"patches and images (of a sample)");
	if (tower->hidden % tower->heads || tower->heads % tp || tower->ffn_hidden % tp)
		return sc_resolve_fail(res, SC_ECONFLICT, "model.tower",
				       "model.tower: heads %" PRId64 " split hidden %" PRId64
				       ", and parallel.tp %" PRId64
				       " heads and ffn_hidden; choose numbers that divide",
				       tower->heads, tower->hidden, tp);
	if (tower->images * (double)tower->patches / fmax(1, (double)tower->merge) >
	    (double)cfg->model.seq)
		return sc_resolve_fail(
			res, SC_ECONFLICT, "model.tower",
			"model.tower: a sample's images (images x patches / merge) are "
			"more tokens than model.seq %" PRId64 ", which counts them",
			cfg->model.seq);
	if (cfg->parallel.cp > 1 || sc_family_traits(cfg->model.family)->denoises)
		return sc_resolve_fail(
			res, SC_EUNSUPPORTED, "model.tower",
			"model.tower is modelled in front of a language model, without "
			"parallel.cp; remove it, or set cp 1");
	if (cfg->training.trainable == SC_TRAIN_LORA && tower->frozen <= 0)
		return sc_resolve_fail(
			res, SC_EUNSUPPORTED, "model.tower",
			"model.tower has no adapters; with training.trainable lora set "
			"model.tower.frozen true");
	return 0;
}

#define EXACT_LIMIT 9007199254740992.0 /* 2^53: above it a double skips integers */

static int check_model_given(const struct sc_resolver *res)
{
	static const char file[] = "write it, or name a file as in `model: models/gpt-22b.yaml`";
	const struct sc_model *model = &res->request->config.model;
	const struct {
		const char *path, *how;
		int64_t value;
	} needed[] = {
		{"model.layers", file, model->layers},
		{"model.hidden", file, model->hidden},
		{"model.heads", file, model->heads},
		{"model.seq",
		 "it is the tokens of a sample; beside a file, as --set model.seq=4096",
		 model->seq},
	};

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (needed[i].value == SC_NOT_GIVEN)
			return sc_resolve_fail(res, SC_EVALUE, "model", "%s is not given; %s",
					       needed[i].path, needed[i].how);
	return 0;
}

static int check_widths(const struct sc_resolver *res)
{
	const struct sc_model *model = &res->request->config.model;
	const struct sc_parallel *par = &res->request->config.parallel;
	const int64_t tp = par->tp, seq = model->seq;

	if (model->head_dim < 1 ||
	    (model->hidden % model->heads && model->head_dim == model->hidden / model->heads &&
	     !sc_config_origin(&res->request->config, "model.head_dim")))
		return sc_resolve_fail(res, SC_ECONFLICT, "model.heads",
				       "model.hidden %" PRId64
				       " is no multiple of model.heads %" PRId64
				       "; a head needs a whole width, or give model.head_dim",
				       model->hidden, model->heads);
	if (model->heads % model->kv_heads)
		return sc_resolve_fail(res, SC_ECONFLICT, "model.kv_heads",
				       "model.heads %" PRId64
				       " is no multiple of model.kv_heads %" PRId64
				       "; as many query heads must share each key-value head",
				       model->heads, model->kv_heads);
	if (model->full_kv_heads > 0 && (model->heads % model->full_kv_heads ||
					 (model->full_kv_heads % tp && tp % model->full_kv_heads)))
		return sc_resolve_fail(res, SC_ECONFLICT, "model.full_kv_heads",
				       "model.full_kv_heads %" PRId64 ": model.heads %" PRId64
				       " and parallel.tp %" PRId64 " do not divide evenly by it",
				       model->full_kv_heads, model->heads, tp);
	if (model->heads % tp)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.tp",
				       "model.heads %" PRId64
				       " do not split over parallel.tp %" PRId64
				       "; choose a tp that divides them",
				       model->heads, tp);
	if (model->kv_heads % tp && tp % model->kv_heads)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.tp",
				       "model.kv_heads %" PRId64
				       " neither split nor copy evenly over parallel.tp %" PRId64
				       "; one must be a multiple of the other",
				       model->kv_heads, tp);
	if (model->ffn_hidden % tp)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.tp",
				       "model.ffn_hidden %" PRId64
				       " does not split over parallel.tp "
				       "%" PRId64 "; choose a tp that divides it",
				       model->ffn_hidden, tp);
	if (seq % par->cp)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.cp",
				       "model.seq %" PRId64
				       " does not split over parallel.cp %" PRId64,
				       seq, par->cp);
	if (par->sequence_parallel && seq / par->cp % tp)
		return sc_resolve_fail(
			res, SC_ECONFLICT, "parallel.sequence_parallel",
			"the %" PRId64 " tokens of a rank do not split over parallel.tp %" PRId64
			", as parallel.sequence_parallel true needs; pad model.seq to %" PRId64
			", or set it false",
			seq / par->cp, tp, (seq / par->cp + tp - 1) / tp * tp * par->cp);
	return 0;
}

static int check_stage_layers(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	const struct sc_parallel *par = &cfg->parallel;
	int64_t sum = 0;

	if (!par->stage_layers.n || sc_stages_are_balanced(par))
		return 0;
	if (par->virtual_stages > 1)
		return sc_resolve_fail(
			res, SC_ECONFLICT, "parallel.stage_layers",
			"parallel.stage_layers cannot be combined with virtual_stages "
			"above 1; remove one of them");
	for (size_t i = 0; i < par->stage_layers.n; i++)
		sum += par->stage_layers.at[i];
	if ((int64_t)par->stage_layers.n != par->pp)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.stage_layers",
				       "parallel.stage_layers has %zu %s, parallel.pp is %" PRId64
				       "; give one entry a stage",
				       par->stage_layers.n,
				       par->stage_layers.n == 1 ? "entry" : "entries", par->pp);
	if (sum != cfg->model.layers)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.stage_layers",
				       "parallel.stage_layers sums to %" PRId64
				       ", model.layers is %" PRId64,
				       sum, cfg->model.layers);
	return 0;
}

static int check_stages(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	const struct sc_parallel *par = &cfg->parallel;
	int64_t n_chunks = par->pp * par->virtual_stages;
	int64_t n_layers = cfg->model.layers + par->count_embedding + par->count_loss;
	char why[200];

	if (!par->layout && n_layers < n_chunks)
		return sc_resolve_fail(
			res, SC_ECONFLICT,
			par->virtual_stages > 1 ? "parallel.virtual_stages" : "parallel.pp",
			"model.layers %" PRId64 " are fewer than the %" PRId64
			" chunks of pp %" PRId64 " x virtual_stages %" PRId64
			"; each needs a layer%s",
			cfg->model.layers, n_chunks, par->pp, par->virtual_stages,
			cfg->model.layers + 2 < n_chunks
				? ""
				: ", or embedding and head as one each: parallel.count_embedding "
				  "and count_loss true (Megatron Core's --account-for-*)");
	if (sc_schedule_refuses(par, res->request->n_micro_batches, why, sizeof(why)))
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.schedule", "%s", why);
	return par->layout ? sc_config_check_layout(res) : check_stage_layers(res);
}

/* A layer's parameters, and the widest activation of a token. */
static void layer_sizes(const struct sc_config *cfg, double *parameters, double *widest)
{
	const struct sc_model *model = &cfg->model;
	double hidden = (double)model->hidden, ffn = (double)model->ffn_hidden;
	double heads = (double)model->heads, head = (double)model->head_dim;

	if (sc_model_is_mla(model))
		head += (double)model->rope_head_dim;
	if (model->v_head_dim > 0)
		head = fmax(head, (double)model->v_head_dim);
	*parameters = hidden * (4 * heads * head + 3 * ffn);
	*widest =
		fmax(fmax(3 * hidden, 3 * heads * head), fmax(2 * ffn, heads * (double)model->seq));
	if (sc_model_is_moe(model)) {
		double expert = (double)model->expert_ffn_hidden;
		double shared = (double)model->shared_experts;
		double routed = (double)model->top_k * cfg->training.expert_imbalance;

		*parameters += 3 * hidden * expert * ((double)model->experts + shared);
		*widest = fmax(*widest, routed * fmax(2 * expert, hidden));
		*widest = fmax(*widest, 2 * shared * expert);
	}
}

/* Adapters, and products that stay exact. */
static int check_exact(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	const struct sc_model *model = &cfg->model;
	double vocab = (double)model->vocab;
	double tokens = (double)cfg->training.micro_batch * (double)model->seq;
	double parameters, widest;

	if (cfg->training.trainable == SC_TRAIN_LORA && cfg->training.lora_rank > model->hidden)
		return sc_resolve_fail(res, SC_ECONFLICT, "training.lora_rank",
				       "training.lora_rank %" PRId64
				       " is more than model.hidden %" PRId64
				       "; adapters are narrower than the layers they adapt",
				       cfg->training.lora_rank, model->hidden);
	layer_sizes(cfg, &parameters, &widest);
	parameters = (double)model->layers * parameters + 2 * vocab * (double)model->hidden;
	widest = fmax(widest, vocab);
	if (parameters >= EXACT_LIMIT)
		return sc_resolve_fail(
			res, SC_ELIMIT, "model.hidden",
			"the model would have %.3g parameters; at most 2^53 are predicted",
			parameters);
	if (tokens * widest >= EXACT_LIMIT)
		return sc_resolve_fail(
			res, SC_ELIMIT,
			sc_config_origin(cfg, "training.micro_batch") ? "training.micro_batch"
								      : "model.seq",
			"one layer of a micro-batch would have %.3g activations; at most "
			"2^53 are predicted, so lower micro_batch or model.seq",
			tokens * widest);
	return 0;
}

int sc_config_check_transformer(const struct sc_resolver *res)
{
	static int (*const checks[])(const struct sc_resolver *) = {
		check_model_given, check_widths,      check_stages,           check_family,
		check_experts,     check_shard_ranks, check_latent_attention, sc_config_check_dit,
		check_tower,       check_exact,
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(checks) / sizeof(checks[0]); i++)
		rc = checks[i](res);
	return rc;
}
