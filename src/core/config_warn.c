/* What a checked request says without effect, or against what frameworks do: warnings. */
#include "core/config/config_priv.h"

static void warn_model(struct sc_request *req)
{
	const struct sc_model *model = &req->config.model;
	const struct {
		const char *key;
		int64_t value;
	} of_experts[] = {
		{"top_k", model->top_k},
		{"expert_ffn_hidden", model->expert_ffn_hidden},
		{"shared_experts", model->shared_experts},
		{"dense_layers", model->dense_layers},
	};

	if (sc_model_is_moe(model))
		return;
	for (size_t i = 0; i < sizeof(of_experts) / sizeof(of_experts[0]); i++)
		if (of_experts[i].value != SC_NOT_GIVEN)
			sc_warn(&req->warnings, "model.%s has no effect: the model has no experts",
				of_experts[i].key);
}

static void warn_parallel(struct sc_request *req)
{
	const struct sc_parallel *par = &req->config.parallel;

	if (par->tp_overlap && par->tp == 1)
		sc_warn(&req->warnings, "parallel.tp_overlap has no effect with tp 1");
	if (par->shard_ranks > 0 && par->sharding == SC_SHARD_NONE &&
	    !req->software.distributed_optimizer)
		sc_warn(&req->warnings,
			"parallel.shard_ranks has no effect with parallel.sharding none");
	if (par->cp > 1 && req->config.training.attention == SC_ATT_UNFUSED)
		sc_warn(&req->warnings,
			"training.attention unfused with parallel.cp above 1: frameworks pass keys "
			"and values round a ring of fused kernels only");
}

static void warn_training(struct sc_request *req)
{
	const struct sc_training *tr = &req->config.training;
	bool moe = sc_model_is_moe(&req->config.model);

	if (tr->expert_imbalance >= 0 && !moe)
		sc_warn(&req->warnings,
			"training.expert_imbalance has no effect: the model has no experts");
	if (tr->trainable == SC_TRAIN_LORA)
		return;
	if (tr->lora_rank != SC_NOT_GIVEN)
		sc_warn(&req->warnings,
			"training.lora_rank has no effect without training.trainable lora");
	if ((int)tr->lora_targets != SC_NOT_GIVEN)
		sc_warn(&req->warnings,
			"training.lora_targets has no effect without training.trainable lora");
}

/* Keys of recommendation models in a Transformer, and the other way round. */
static void warn_other_family(struct sc_request *req)
{
	const struct sc_model *m = &req->config.model;
	const struct sc_sharding_plan *plan = &req->config.sharding;
	bool is_dlrm = m->family == SC_DLRM;
	const struct {
		const char *key;
		bool of_dlrm, given;
	} keys[] = {
		{"model.layers", false, m->layers != SC_NOT_GIVEN},
		{"model.hidden", false, m->hidden != SC_NOT_GIVEN},
		{"model.heads", false, m->heads != SC_NOT_GIVEN},
		{"model.vocab", false, m->vocab != SC_NOT_GIVEN},
		{"model.seq", false, m->seq != SC_NOT_GIVEN},
		{"model.experts", false, m->experts != SC_NOT_GIVEN},
		{"model.dense_features", true, m->dense_features != SC_NOT_GIVEN},
		{"model.bottom_mlp", true, m->bottom_mlp.n > 0},
		{"model.top_mlp", true, m->top_mlp.n > 0},
		{"model.interaction", true, (int)m->interaction != SC_NOT_GIVEN},
		{"model.tables", true, m->tables.n > 0},
		{"model.tables_csv", true, m->tables_csv != NULL},
		{"sharding.plan", true, plan->plan != NULL},
		{"sharding.planner", true, plan->planner != SC_PLANNER_NONE},
		{"sharding.bw_ratio", true, plan->bw_ratio >= 0},
		{"sharding.dp_threshold_gb", true, plan->dp_threshold_gb >= 0},
		{"sharding.column_slice_elements", true, plan->column_slice_elements >= 0},
		{"sharding.hbm_gib", true, plan->hbm_gib >= 0},
		{"sharding.hbm_reserve_frac", true, plan->hbm_reserve_frac >= 0},
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].given && keys[i].of_dlrm != is_dlrm)
			sc_warn(&req->warnings, "%s has no effect: the model is %s", keys[i].key,
				is_dlrm ? "a DLRM" : "no DLRM");
}

int sc_config_warn(const struct sc_resolver *res)
{
	warn_other_family(res->request);
	if (res->request->config.model.family == SC_DLRM) {
		sc_config_warn_dlrm(res->request);
		return 0;
	}
	warn_model(res->request);
	warn_parallel(res->request);
	warn_training(res->request);
	return 0;
}
