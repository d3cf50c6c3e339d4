/* training.offload: what leaves GPUs for hosts' memory and SSDs, and which keys have no effect. */
#include "core/config/config_priv.h"

static int check_offload(const struct sc_resolver *res)
{
	const struct sc_cluster *cl = &res->request->config.cluster;
	const struct sc_offload *off = &res->request->config.training.offload;
	const bool has_ssd = cl->ssd_read_gbps > 0 && cl->ssd_write_gbps > 0;
	const struct {
		const char *path;
		int tier;
	} parts[] = {{"training.offload.optimizer", off->optimizer},
		     {"training.offload.gradients", off->gradients},
		     {"training.offload.weights", off->weights},
		     {"training.offload.activations", off->activations}};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (parts[i].tier == SC_TIER_NVME && !has_ssd)
			return sc_resolve_fail(res, SC_ECONFLICT, parts[i].path,
					       "%s: nvme needs the rates of a node's SSDs; give "
					       "cluster.ssd_read_gbps and cluster.ssd_write_gbps",
					       parts[i].path);
	if (off->optimizer == SC_TIER_NONE && off->optimizer_fraction > 0)
		return sc_resolve_fail(res, SC_ECONFLICT, "training.offload.optimizer_fraction",
				       "training.offload.optimizer_fraction: "
				       "training.offload.optimizer is none; write cpu or nvme");
	if (off->activations == SC_TIER_NONE && off->activation_layers > 0)
		return sc_resolve_fail(res, SC_ECONFLICT, "training.offload.activation_layers",
				       "training.offload.activation_layers: "
				       "training.offload.activations is none; write cpu or nvme");
	if (off->gradients > SC_TIER_NONE && off->optimizer_fraction < 1)
		return sc_resolve_fail(res, SC_ECONFLICT, "training.offload.gradients",
				       "training.offload.gradients: the GPU's optimizer reads "
				       "them; offload the whole optimizer, too");
	return 0;
}

int sc_config_resolve_offload(const struct sc_resolver *res)
{
	struct sc_request *req = res->request;
	struct sc_offload *off = &req->config.training.offload;

	if (off->optimizer <= SC_TIER_NONE && off->gradients <= SC_TIER_NONE &&
	    off->weights <= SC_TIER_NONE && off->activations <= SC_TIER_NONE &&
	    !(off->optimizer_fraction > 0) && off->activation_layers < 1 && off->tiles <= 1 &&
	    !off->partition_activations)
		return 0;
	if (!sc_model_is_transformer(&req->config.model)) {
		sc_warn(&req->warnings, "training.offload has no effect on a model of this family");
		*off = (struct sc_offload){0};
		return 0;
	}
	sc_config_host_memory(req);
	/* A share or number of layers without a place means host memory; a place alone, all. */
	if (off->optimizer_fraction > 0 && off->optimizer == SC_NOT_GIVEN)
		off->optimizer = SC_TIER_CPU;
	if (off->optimizer > SC_TIER_NONE && off->optimizer_fraction < 0)
		off->optimizer_fraction = 1;
	if (off->activation_layers > 0 && off->activations == SC_NOT_GIVEN)
		off->activations = SC_TIER_CPU;
	if (off->prefetch_layers == SC_NOT_GIVEN)
		off->prefetch_layers = 1;
	if (req->config.training.optimizer == SC_OPT_NONE && off->optimizer > SC_TIER_NONE) {
		sc_warn(&req->warnings, "training.offload.optimizer has no effect: there is none");
		off->optimizer = SC_TIER_NONE;
		off->optimizer_fraction = SC_NOT_GIVEN;
	}
	return check_offload(res);
}

void sc_config_warn_offload(struct sc_request *req)
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
