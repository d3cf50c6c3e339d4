/* What a checked request says without effect, or against what frameworks do: warnings. */
#include "core/config_priv.h"

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

int sc_config_warn(const struct sc_resolver *res)
{
	if (res->request->config.model.family == SC_DLRM) {
		sc_config_warn_dlrm(res->request);
		return 0;
	}
	warn_model(res->request);
	warn_parallel(res->request);
	warn_training(res->request);
	return 0;
}
