/* Resolves clusters that are not all alike nodes of GPUs: nodes with different GPUs in one job
 * (cluster.nodes), tori of GPUs, and what a torus's GPUs keep for communication (c3.endpoint). */
#include <inttypes.h>
#include <string.h>

#include "core/config/catalog_priv.h"
#include "core/config/config_priv.h"

size_t sc_request_kind_of(const struct sc_request *request, const struct sc_gpu_nodes *nodes)
{
	for (size_t k = 1; k < request->n_kinds; k++)
		if (strcmp(request->kinds[k]->id, nodes->gpu) == 0)
			return k;
	return 0;
}

int sc_nodes_resolve(const struct sc_resolver *res)
{
	struct sc_request *req = res->request;
	struct sc_cluster *cl = &req->config.cluster;
	const struct sc_gpu_nodes *nodes = cl->nodes.at;
	struct sc_err own = {.code = SC_OK};
	const struct sc_device *device;

	for (size_t i = 0; i < cl->nodes.n; i++) {
		size_t k = 0;

		if (sc_catalog_device(res->catalog, nodes[i].gpu, &device, &own))
			return sc_resolve_profile_error(res, "cluster.nodes", &own);
		while (k < req->n_kinds && req->kinds[k] != device)
			k++;
		if (k < req->n_kinds)
			continue;
		if (req->n_kinds == SC_MAX_GPU_KINDS)
			return sc_resolve_fail(res, SC_ELIMIT, "cluster.nodes",
					       "cluster.nodes has more than %d kinds of GPU; merge "
					       "those that are alike",
					       SC_MAX_GPU_KINDS);
		req->kinds[req->n_kinds++] = device;
	}
	if (!cl->nodes.n && sc_config_origin(&req->config, "cluster.nodes"))
		return sc_resolve_fail(res, SC_EVALUE, "cluster.nodes",
				       "cluster.nodes is empty; list the kinds of nodes, or remove "
				       "it and give cluster.gpu");
	if (!cl->nodes.n)
		return 0;
	if (!cl->gpu)
		cl->gpu = nodes[0].gpu;
	if (strcmp(cl->gpu, nodes[0].gpu) != 0)
		return sc_resolve_fail(res, SC_ECONFLICT, "cluster.gpu",
				       "cluster.gpu is %.40s, but the first of cluster.nodes have "
				       "%.40s; remove one of the two keys",
				       cl->gpu, nodes[0].gpu);
	return 0;
}

int sc_nodes_check(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	const struct sc_cluster *cl = &cfg->cluster;
	const struct sc_gpu_nodes *nodes = cl->nodes.at;
	int64_t n = 0;

	for (size_t i = 0; i < cl->nodes.n; i++)
		n += nodes[i].count;
	if (cl->nodes.n && n * cl->gpus_per_node != cfg->gpus)
		return sc_resolve_fail(res, SC_ECONFLICT, "cluster.nodes",
				       "cluster.nodes: %" PRId64 " nodes of %" PRId64
				       " GPUs have %" PRId64 ", but gpus is %" PRId64
				       "; change the counts or gpus",
				       n, cl->gpus_per_node, n * cl->gpus_per_node, cfg->gpus);
	/* AMD's collectives do not talk to NVIDIA's. */
	const struct sc_request *req = res->request;

	for (size_t k = 1; k < req->n_kinds; k++)
		if (strcmp(req->kinds[0]->vendor, req->kinds[k]->vendor) != 0)
			return sc_resolve_fail(
				res, SC_ECONFLICT, "cluster.nodes",
				"cluster.nodes: %s and %s are of different vendors "
				"and have no collectives in common; use one vendor's",
				req->kinds[0]->id, req->kinds[k]->id);
	return 0;
}

static int check_list(const struct sc_resolver *res, const char *path, size_t n, bool may_miss)
{
	const size_t n_dims = res->request->config.cluster.torus.dims.n;

	if (n == 1 || n == n_dims || (n == 0 && may_miss))
		return 0;
	return sc_resolve_fail(
		res, SC_ECONFLICT, n ? path : "cluster.torus.dims",
		"%s has %zu values and cluster.torus.dims %zu; write one for each, or one for all",
		path, n, n_dims);
}

int sc_config_resolve_torus(const struct sc_resolver *res)
{
	struct sc_config *cfg = &res->request->config;
	struct sc_torus *torus = &cfg->cluster.torus;
	int64_t gpus = 1;
	int rc;

	if (!torus->dims.n)
		return 0;
	for (size_t d = 0; d < torus->dims.n && gpus <= SC_MAX_GPUS; d++)
		gpus *= torus->dims.at[d];
	rc = check_list(res, "cluster.torus.link_gbps", torus->link_gbps.n, false);
	if (rc == 0)
		rc = check_list(res, "cluster.torus.hop_us", torus->hop_us.n, true);
	if (rc == 0 && gpus != cfg->gpus)
		rc = sc_resolve_fail(res, SC_ECONFLICT, "cluster.torus.dims",
				     "cluster.torus.dims are %" PRId64
				     " GPUs, the request has %" PRId64 "; make them equal",
				     gpus, cfg->gpus);
	if (rc == 0 && sc_request_n_kinds(res->request) > 1)
		rc = sc_resolve_fail(res, SC_EUNSUPPORTED, "cluster.nodes",
				     "cluster.nodes: the GPUs of a torus are alike; remove it");
	if (rc == 0)
		rc = sc_config_check_data_parallel(res, "collectives run over all GPUs of a torus");
	if (rc)
		return rc;
	for (size_t d = 0; d < torus->link_gbps.n; d++)
		if (!(torus->link_gbps.at[d] > 0))
			return sc_resolve_fail(res, SC_EVALUE, "cluster.torus.link_gbps",
					       "cluster.torus.link_gbps must be above 0");
	cfg->cluster.gpus_per_node = cfg->cluster.scale_up_gpus = cfg->gpus; /* as one node */
	return 0;
}

int sc_config_take_endpoint(const struct sc_resolver *res)
{
	struct sc_request *req = res->request;
	const struct sc_endpoint *end = &req->config.c3.endpoint;
	const int64_t all = req->device.sm_count, sms = end->sms > 0 ? end->sms : 0;
	const double memory_gbps = end->memory_gbps > 0 ? end->memory_gbps : 0;

	if (!req->config.cluster.torus.dims.n)
		return 0;
	if (end->kind == SC_ENDPOINT_SMS && end->sms == 0)
		return sc_resolve_fail(res, SC_ECONFLICT, "c3.endpoint.sms",
				       "c3.endpoint.sms 0: kernels that communicate need SMs; give "
				       "some, or take kind engine or ideal");
	if (sms >= all)
		return sc_resolve_fail(res, SC_ECONFLICT, "c3.endpoint.sms",
				       "c3.endpoint.sms %" PRId64 ": %.40s has %" PRId64
				       "; leave some to computation",
				       sms, req->device.id, all);
	if (memory_gbps >= req->device.hbm_gbps)
		return sc_resolve_fail(res, SC_ECONFLICT, "c3.endpoint.memory_gbps",
				       "c3.endpoint.memory_gbps %g: %.40s has %g; leave some to "
				       "computation",
				       memory_gbps, req->device.id, req->device.hbm_gbps);
	if (end->kind == SC_ENDPOINT_SMS && (sms == 0 || !(memory_gbps > 0)) &&
	    req->c3[SC_C3_DP].policy != SC_C3_SERIAL)
		sc_warn(&req->warnings,
			"c3.endpoint keeps no SMs or no memory bandwidth for communication: what it "
			"uses is not taken from computation beside it; c3.policy serial takes turns");
	/* Taken from the device, and so from every kernel: SMs, their math, memory bandwidth. */
	struct sc_device *dev = &req->device;

	req->kernel_sm_frac = (double)(dev->sm_count - sms) / (double)dev->sm_count;
	dev->sm_count -= sms;
	dev->hbm_gbps -= memory_gbps;
	for (int type = 0; type < SC_N_DTYPES; type++)
		dev->peak_tflops[type] *= req->kernel_sm_frac;
	return 0;
}
