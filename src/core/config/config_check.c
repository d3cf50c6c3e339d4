/* Does a filled request fit together? Each message says what to do about it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/units.h"
#include "core/config/config_priv.h"
#include "core/config/config_schedule.h"

/* Keys that are given, and have no effect without what the request has not (sc_field.needs). */
static void warn_needs(struct sc_request *req, const struct sc_field *table, const char *section,
		       const unsigned char *place)
{
	const struct sc_config *cfg = &req->config;
	const bool is_dlrm = cfg->model.family == SC_DLRM;
	const struct {
		unsigned bit;
		bool has;
		const char *why;
	} needs[] = {
		{SC_NEEDS_TRANSFORMER, sc_model_is_transformer(&cfg->model),
		 is_dlrm ? ": the model is a DLRM" : ": the model is a table of layers"},
		{SC_NEEDS_DLRM, is_dlrm, ": the model is no DLRM"},
		{SC_NEEDS_EXPERTS, sc_model_is_moe(&cfg->model), ": the model has no experts"},
		{SC_NEEDS_LORA, cfg->training.trainable == SC_TRAIN_LORA,
		 " without training.trainable lora"},
		{SC_NEEDS_LAYERS, cfg->model.family == SC_LAYERS,
		 ": the model is no table of layers (family layers)"},
		{SC_NEEDS_TORUS, cfg->cluster.torus.dims.n > 0, " without cluster.torus"},
		{SC_NEEDS_KFAC, cfg->training.optimizer == SC_OPT_KFAC,
		 " without training.optimizer kfac"},
	};

	for (; table->key; table++) {
		const unsigned char *at = place + table->offset;

		if (table->type == SC_F_STRUCT && !*section)
			warn_needs(req, table->sub, table->key, at);
		for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
			if ((table->needs & needs[i].bit) && !needs[i].has &&
			    !sc_field_is_absent(table, at))
				sc_warn(&req->warnings, "%s.%s has no effect%s", section,
					table->key, needs[i].why);
	}
}

/* Warns of parts of training.offload that divide, and find nothing to divide. */
static void warn_offload(struct sc_request *req)
{
	const struct sc_parallel *par = &req->config.parallel;
	const struct sc_offload *off = &req->config.training.offload;
	const struct sc_sharding_rule rule = sc_sharding_rule(req);

	if (off->tiles > 1 && !rule.weights && !rule.gradients && off->weights <= SC_TIER_NONE &&
	    off->gradients <= SC_TIER_NONE)
		sc_warn(&req->warnings,
			"training.offload.tiles has no effect: no layer is gathered, see "
			"parallel.sharding and training.offload.weights");
	if (off->partition_activations && (par->tp == 1 || par->sequence_parallel ||
					   req->config.training.recompute != SC_RECOMPUTE_FULL))
		sc_warn(&req->warnings,
			"training.offload.partition_activations has no effect without "
			"parallel.tp, training.recompute full and whole sequences "
			"(parallel.sequence_parallel false)");
}

/* Numbers of another unit than the key's: what was understood. */
static void warn_units(struct sc_request *req)
{
	enum { MANY_SEQUENCES = 100000, SLOW_NIC = 100, FAST_NIC = 1600, FAST_USUAL = 400 };
	const struct sc_config *cfg = &req->config;
	const double gbit_s = cfg->cluster.nic_gbit_s;

	if (sc_model_is_transformer(&cfg->model) && cfg->training.global_batch > MANY_SEQUENCES)
		sc_warn(&req->warnings,
			"training.global_batch %lld is taken as sequences, %.3g tokens a step: divide tokens "
			"by model.seq",
			(long long)cfg->training.global_batch,
			(double)cfg->training.global_batch * (double)cfg->model.seq);
	if (sc_config_origin(cfg, "cluster.nic_gbit_s") &&
	    (gbit_s > FAST_NIC ||
	     (gbit_s < SLOW_NIC && req->device.usual_nic_gbit_s >= FAST_USUAL)))
		sc_warn(&req->warnings,
			"cluster.nic_gbit_s %g is taken as Gbit/s of one NIC, %.4g GB/s each, %lld a node",
			gbit_s, gbit_s / SC_BITS_PER_BYTE, (long long)cfg->cluster.nics_per_node);
}

static void warn_all(struct sc_request *req)
{
	for (size_t i = 0; i < sc_request_n_kinds(req); i++) {
		const struct sc_device *device = sc_request_device(req, i);

		if (device->rank_has)
			sc_warn(&req->warnings,
				"a rank has all of a %s here, but software sees it as several GPUs: "
				"write %s for the GPU, and count those",
				device->id, device->rank_has);
	}
	warn_units(req);
	warn_needs(req, sc_config_fields, "", (const unsigned char *)&req->config);
	if (req->config.model.family == SC_DLRM)
		sc_config_warn_dlrm(req);
	else if (req->config.model.family == SC_LAYERS) {
		const struct sc_training *tr = &req->config.training;

		if (tr->recompute != SC_RECOMPUTE_NONE)
			sc_warn(&req->warnings,
				"training.recompute has no effect: the model is a table of layers");
		if (tr->trainable == SC_TRAIN_LORA)
			sc_warn(&req->warnings,
				"training.trainable has no effect: all of a table of layers is trained");
	} else {
		const struct sc_parallel *par = &req->config.parallel;
		const struct sc_model *model = &req->config.model;
		const struct sc_training *tr = &req->config.training;

		if (model->mtp_layers > 0 && par->pp > 1 && !par->stage_layers.n && !par->layout &&
		    !par->count_embedding && !par->count_loss)
			sc_warn(&req->warnings,
				"model.mtp_layers divides the pipeline anew: with the loss they count as layers, and "
				"the last chunk has fewer others; parallel.stage_layers sets them");
		if (model->sliding_window > 0 && model->sliding_window < model->seq &&
		    tr->attention == SC_ATT_UNFUSED)
			sc_warn(&req->warnings,
				"model.sliding_window saves no time with training.attention unfused: all scores "
				"are computed, and the window is a mask laid over them");
		if (tr->recompute_layers > 0 && tr->recompute != SC_RECOMPUTE_FULL)
			sc_warn(&req->warnings, "training.recompute_layers has no effect yet");
		if (par->tp_overlap && par->tp == 1)
			sc_warn(&req->warnings, "parallel.tp_overlap has no effect with tp 1");
		if (par->shard_ranks > 0 && par->sharding == SC_ZERO_NONE)
			sc_warn(&req->warnings,
				"parallel.shard_ranks has no effect with parallel.sharding none");
		if (par->sharding != SC_ZERO_NONE && par->dp * par->cp == 1 &&
		    sc_config_origin(&req->config, "parallel.sharding"))
			sc_warn(&req->warnings,
				"parallel.sharding has no effect: there is one data-parallel rank");
		if (par->cp > 1 && req->config.training.attention == SC_ATT_UNFUSED)
			sc_warn(&req->warnings,
				"training.attention unfused with parallel.cp above 1: frameworks pass keys "
				"and values round a ring of fused kernels only");
		if (tr->master_bytes >= 0 && sc_storage_dtype(tr->precision) == SC_FP32)
			sc_warn(&req->warnings,
				"training.master_bytes has no effect: the optimizer updates fp32 weights");
		if ((tr->master_bytes >= 0 || tr->moment_bytes > 0) && tr->optimizer == SC_OPT_NONE)
			sc_warn(&req->warnings,
				"training.moment_bytes and master_bytes have no effect: there is no optimizer");
		warn_offload(req);
	}
}

/* Stages with sharding, experts with the family. */
static int check_family(const struct sc_resolver *res)
{
	static const char *const names[] = {"none", "zero1", "zero2", "zero3", "fsdp"};
	const struct sc_config *cfg = &res->request->config;
	const struct sc_parallel *par = &cfg->parallel;
	const struct sc_software *sw = &res->request->software;
	const struct sc_model *model = &cfg->model;

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
			"model.experts is not given, and no model of configs/models has "
			"this family, hidden and heads; write experts, top_k and "
			"expert_ffn_hidden");
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

/* Refuses what a step of whole matrices does not go with. */
static int check_matrices(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	enum sc_optimizer optimizer = cfg->training.optimizer;
	enum sc_matrix_step step = sc_optimizer_traits_of(optimizer)->matrices;
	const char *name = sc_enum_name(sc_optimizer_names, (int)optimizer);

	if (step == SC_MATRIX_NONE)
		return 0;
	if (cfg->training.trainable == SC_TRAIN_LORA)
		return sc_resolve_fail(res, SC_EUNSUPPORTED, "training.optimizer",
				       "training.optimizer %s steps whole matrices; with "
				       "training.trainable lora choose another",
				       name);
	if (cfg->training.offload.optimizer > SC_TIER_NONE)
		return sc_resolve_fail(res, SC_EUNSUPPORTED, "training.offload.optimizer",
				       "training.offload.optimizer: %s's matrix products "
				       "run on GPUs; choose another optimizer",
				       name);
	if (step == SC_MATRIX_KFAC &&
	    (cfg->parallel.sharding != SC_ZERO_NONE || sc_model_is_moe(&cfg->model)))
		return sc_resolve_fail(res, SC_EUNSUPPORTED, "training.optimizer",
				       "training.optimizer kfac is for layers without experts that "
				       "each replica holds whole; set parallel.sharding none, or "
				       "choose another optimizer");
	return 0;
}

/* Rows of embedding tables, and layers whose matrices are not known, or that are updated one by one. */
static int check_optimizer(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	enum sc_optimizer optimizer = cfg->training.optimizer;
	const struct sc_layer_row *rows = cfg->model.rows.at;
	bool known = sc_optimizer_traits_of(optimizer)->matrices == SC_MATRIX_NONE;

	for (size_t i = 0; i < cfg->model.rows.n && !res->request->software.layer_updates; i++)
		known = known || (rows[i].outputs > 0 && rows[i].inputs > 0);
	if (cfg->model.family == SC_DLRM ? optimizer <= SC_OPT_ATOMIC_SGD
					 : cfg->model.family != SC_LAYERS || known)
		return check_matrices(res);
	if (cfg->model.family == SC_LAYERS)
		return sc_resolve_fail(
			res, SC_EUNSUPPORTED, "training.optimizer",
			"training.optimizer %s steps whole matrices at once: give layers "
			"outputs and inputs, and a training.software without "
			"grad_sync by_layer, or choose adam, sgd or adagrad",
			sc_enum_name(sc_optimizer_names, (int)optimizer));
	return sc_resolve_fail(res, SC_EUNSUPPORTED, "training.optimizer",
			       "training.optimizer %s is for Transformers; choose adam, sgd or "
			       "adagrad",
			       sc_enum_name(sc_optimizer_names, (int)optimizer));
}

static int check_transformer(const struct sc_resolver *res)
{
	static int (*const checks[])(const struct sc_resolver *) = {
		check_model_given, check_widths,      check_stages,           check_family,
		check_experts,     check_shard_ranks, check_latent_attention, check_exact,
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(checks) / sizeof(checks[0]); i++)
		rc = checks[i](res);
	return rc;
}

/* The key to blame: the last one that was given. */
static const char *product_path(const struct sc_config *cfg)
{
	static const char *const paths[] = {"parallel.dp", "parallel.tp", "parallel.pp",
					    "parallel.cp"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (sc_config_origin(cfg, paths[i]))
			return paths[i];
	return "gpus";
}

static int check_product(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	const struct sc_parallel *par = &cfg->parallel;
	int64_t replica = par->tp * par->pp * par->cp, product = replica * par->dp;
	char advice[64];

	if (product == cfg->gpus)
		return 0;
	if (cfg->gpus % replica)
		snprintf(advice, sizeof(advice), "change gpus or the split");
	else
		snprintf(advice, sizeof(advice), "dp %" PRId64 " would fit", cfg->gpus / replica);
	return sc_resolve_fail(res, SC_ECONFLICT, product_path(cfg),
			       "tp %" PRId64 " x pp %" PRId64 " x cp %" PRId64 " x dp %" PRId64
			       " = %" PRId64 ", but gpus is %" PRId64 "; %s",
			       par->tp, par->pp, par->cp, par->dp, product, cfg->gpus, advice);
}

static int check_order(const struct sc_resolver *res)
{
	static const char names[SC_N_ORDER_AXES][3] = {"tp", "cp", "ep", "dp", "pp"};
	const struct sc_parallel *par = &res->request->config.parallel;
	const int64_t size[SC_N_ORDER_AXES] = {par->tp, par->cp, par->ep, par->dp, par->pp};
	int axes[SC_N_ORDER_AXES], n_named;

	if (!sc_order_parse(par->order, axes, &n_named))
		return sc_resolve_fail(
			res, SC_EVALUE, "parallel.order",
			"parallel.order \"%.40s\": expected each of tp, cp, ep, dp, pp "
			"once, innermost first, as in tp-cp-ep-dp-pp",
			par->order);
	for (int i = n_named; i < SC_N_ORDER_AXES; i++)
		if (size[axes[i]] > 1)
			return sc_resolve_fail(
				res, SC_ECONFLICT, "parallel.order",
				"parallel.order \"%.40s\" does not say where %s stands, "
				"which is %" PRId64,
				par->order, names[axes[i]], size[axes[i]]);
	return 0;
}

static int check_tiers(const struct sc_resolver *res)
{
	const struct sc_structs *tiers = &res->request->config.cluster.tiers;
	const struct sc_net_tier *at = tiers->at;

	if (tiers->n && res->request->config.cluster.torus.dims.n)
		return sc_resolve_fail(res, SC_ECONFLICT, "cluster.tiers",
				       "cluster.tiers are of switches, and cluster.torus has none; "
				       "leave out one of them");
	for (size_t i = 1; i < tiers->n; i++)
		if (at[i].nodes <= at[i - 1].nodes)
			return sc_resolve_fail(res, SC_ECONFLICT, "cluster.tiers",
					       "cluster.tiers: a switch of %" PRId64
					       " nodes stands above one of %" PRId64
					       "; list them from the leaves up",
					       at[i].nodes, at[i - 1].nodes);
	return 0;
}

static int check_cluster(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	const struct sc_cluster *cl = &cfg->cluster;
	int64_t small = cl->scale_up_gpus, large = cl->gpus_per_node;

	if (small > large) {
		small = cl->gpus_per_node;
		large = cl->scale_up_gpus;
	}
	if (large % small)
		return sc_resolve_fail(res, SC_ECONFLICT, "cluster.scale_up_gpus",
				       "cluster.scale_up_gpus %" PRId64
				       " and gpus_per_node %" PRId64
				       " do not fit; one must be a multiple of the other",
				       cl->scale_up_gpus, cl->gpus_per_node);
	if (cfg->gpus <= large)
		return 0;
	if (cl->nics_per_node == 0 || !(cl->nic_gbit_s > 0))
		return sc_resolve_fail(res, SC_ECONFLICT,
				       cl->nics_per_node == 0 ? "cluster.nics_per_node"
							      : "cluster.nic_gbit_s",
				       "%" PRId64 " GPUs on nodes of %" PRId64
				       " need a network; set cluster.nics_per_node and "
				       "cluster.nic_gbit_s above 0",
				       cfg->gpus, cl->gpus_per_node);
	return 0;
}

static int check_precision(const struct sc_resolver *res)
{
	const enum sc_precision precision = res->request->config.training.precision;
	const enum sc_dtype dtype = sc_precision_dtype(precision);
	const struct sc_device *lacks = sc_kind_without(res->request, dtype);
	const bool mx = precision == SC_P_MXFP8 || precision == SC_P_MXFP4;
	struct sc_strbuf peaks = {0};
	int rc;

	for (size_t k = 0; k < sc_request_n_kinds(res->request); k++) {
		const struct sc_device *device = sc_request_device(res->request, k);

		if ((mx && !device->mx_formats) ||
		    (precision == SC_P_NVFP4 && device->cuda_capability == 0))
			lacks = device;
	}
	if (!lacks)
		return 0;
	sc_device_print_peaks(lacks, &peaks);
	rc = sc_resolve_fail(res, SC_ECONFLICT, "training.precision",
			     "training.precision: %s has no %s math; its peaks in TFLOP/s: %s",
			     lacks->id,
			     mx                        ? dtype == SC_FP8 ? "mxfp8" : "mxfp4"
			     : precision == SC_P_NVFP4 ? "nvfp4"
						       : sc_enum_name(sc_dtype_names, (int)dtype),
			     sc_strbuf_get(&peaks));
	sc_strbuf_release(&peaks);
	return rc;
}

SC_COMPARE(compare_ranks, int64_t, SC_ORDER(*a, *b));

static int check_stragglers(const struct sc_resolver *res)
{
	const struct sc_structs *list = &res->request->config.stragglers;
	const struct sc_straggler *at = list->at;
	const int64_t gpus = res->request->config.gpus;
	size_t n = 0, n_copied = 0;
	int64_t *ranks;
	int rc = 0;

	for (size_t i = 0; i < list->n; i++) {
		if (!at[i].ranks.n)
			return sc_resolve_fail(res, SC_EVALUE, "stragglers",
					       "stragglers: entry %zu has no ranks", i + 1);
		n += at[i].ranks.n;
	}
	if (!n)
		return 0;
	ranks = sc_xrealloc(NULL, n, sizeof(*ranks));
	for (size_t i = 0; i < list->n; i++) {
		memcpy(ranks + n_copied, at[i].ranks.at, at[i].ranks.n * sizeof(*ranks));
		n_copied += at[i].ranks.n;
	}
	SC_SORT(ranks, n, compare_ranks);
	for (size_t i = 0; i < n && rc == 0; i++)
		if (ranks[i] >= gpus)
			rc = sc_resolve_fail(res, SC_EVALUE, "stragglers",
					     "stragglers: there is no rank %" PRId64
					     "; the last is %" PRId64,
					     ranks[i], gpus - 1);
		else if (i && ranks[i] == ranks[i - 1])
			rc = sc_resolve_fail(res, SC_ECONFLICT, "stragglers",
					     "stragglers: rank %" PRId64 " is listed twice",
					     ranks[i]);
	free(ranks);
	return rc;
}

int sc_config_check(const struct sc_resolver *res)
{
	static int (*const checks[])(const struct sc_resolver *) = {
		check_product,  check_order,     check_cluster,    check_tiers,
		sc_nodes_check, check_precision, check_stragglers, check_optimizer,
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(checks) / sizeof(checks[0]); i++)
		rc = checks[i](res);
	if (rc == 0)
		rc = res->request->config.model.family == SC_LAYERS ? sc_config_check_layers(res)
		     : res->request->config.model.family == SC_DLRM ? sc_config_check_dlrm(res)
								    : check_transformer(res);
	if (rc == 0)
		warn_all(res->request);
	return rc;
}
