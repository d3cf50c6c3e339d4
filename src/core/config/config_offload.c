/* training.offload: what leaves the GPUs for their hosts' memory and SSDs. */
#include <inttypes.h>

#include "core/config/config_priv.h"

static bool is_used(const struct sc_offload *off)
{
	return off->optimizer > SC_TIER_NONE || off->gradients > SC_TIER_NONE ||
	       off->weights > SC_TIER_NONE || off->activations > SC_TIER_NONE ||
	       off->optimizer_fraction > 0 || off->activation_layers > 0;
}

/* A share or a number of layers without a place means host memory; a place without them means all. */
static void fill(struct sc_offload *off)
{
	if (off->optimizer_fraction > 0 && off->optimizer == SC_NOT_GIVEN)
		off->optimizer = SC_TIER_CPU;
	if (off->optimizer > SC_TIER_NONE && off->optimizer_fraction < 0)
		off->optimizer_fraction = 1;
	if (off->activation_layers > 0 && off->activations == SC_NOT_GIVEN)
		off->activations = SC_TIER_CPU;
	if (off->prefetch_layers == SC_NOT_GIVEN)
		off->prefetch_layers = 1;
}

static int check_ssd(const struct sc_resolver *res, const char *path, int tier)
{
	const struct sc_cluster *cl = &res->request->config.cluster;

	if (tier != SC_TIER_NVME || (cl->ssd_read_gbps > 0 && cl->ssd_write_gbps > 0))
		return 0;
	return sc_resolve_fail(res, SC_ECONFLICT, path,
			       "%s: nvme needs the rates of a node's SSDs; give "
			       "cluster.ssd_read_gbps and cluster.ssd_write_gbps",
			       path);
}

static int check(const struct sc_resolver *res)
{
	const struct sc_offload *off = &res->request->config.training.offload;
	int rc = check_ssd(res, "training.offload.optimizer", off->optimizer);

	if (rc == 0)
		rc = check_ssd(res, "training.offload.gradients", off->gradients);
	if (rc == 0)
		rc = check_ssd(res, "training.offload.weights", off->weights);
	if (rc == 0)
		rc = check_ssd(res, "training.offload.activations", off->activations);
	if (rc == 0 && off->optimizer == SC_TIER_NONE && off->optimizer_fraction > 0)
		rc = sc_resolve_fail(res, SC_ECONFLICT, "training.offload.optimizer_fraction",
				     "training.offload.optimizer_fraction: "
				     "training.offload.optimizer is none; write cpu or nvme");
	if (rc == 0 && off->activations == SC_TIER_NONE && off->activation_layers > 0)
		rc = sc_resolve_fail(res, SC_ECONFLICT, "training.offload.activation_layers",
				     "training.offload.activation_layers: "
				     "training.offload.activations is none; write cpu or nvme");
	if (rc == 0 && off->gradients > SC_TIER_NONE && off->optimizer_fraction < 1)
		rc = sc_resolve_fail(res, SC_ECONFLICT, "training.offload.gradients",
				     "training.offload.gradients: the GPU's optimizer reads "
				     "them; offload the whole optimizer, too");
	return rc;
}

int sc_config_resolve_offload(const struct sc_resolver *res)
{
	struct sc_request *req = res->request;
	struct sc_offload *off = &req->config.training.offload;

	if (is_used(off) && !sc_model_is_transformer(&req->config.model)) {
		sc_warn(&req->warnings, "training.offload has no effect on a model of this family");
		*off = (struct sc_offload){0};
	}
	if (!is_used(off))
		return 0;
	sc_config_host_memory(req);
	fill(off);
	if (req->config.training.optimizer == SC_OPT_NONE && off->optimizer > SC_TIER_NONE) {
		sc_warn(&req->warnings, "training.offload.optimizer has no effect: there is none");
		off->optimizer = SC_TIER_NONE;
		off->optimizer_fraction = SC_NOT_GIVEN;
	}
	return check(res);
}
