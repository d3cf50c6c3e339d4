/* Mixed clusters: nodes with different kinds of GPU in one job (cluster.nodes). */
#include <inttypes.h>
#include <string.h>

#include "core/config/catalog_priv.h"
#include "core/config/config_priv.h"

size_t sc_request_n_kinds(const struct sc_request *request)
{
	return request->n_kinds > 1 ? request->n_kinds : 1;
}

const struct sc_device *sc_request_device(const struct sc_request *request, size_t kind)
{
	return kind == 0 ? &request->device : request->kinds[kind];
}

size_t sc_request_kind_of(const struct sc_request *request, const struct sc_gpu_nodes *nodes)
{
	for (size_t k = 1; k < request->n_kinds; k++)
		if (strcmp(request->kinds[k]->id, nodes->gpu) == 0)
			return k;
	return 0;
}

static bool is_known_kind(const struct sc_request *req, const struct sc_device *device)
{
	for (size_t k = 0; k < req->n_kinds; k++)
		if (req->kinds[k] == device)
			return true;
	return false;
}

int sc_nodes_resolve(const struct sc_resolver *res)
{
	struct sc_request *req = res->request;
	struct sc_cluster *cl = &req->config.cluster;
	const struct sc_gpu_nodes *nodes = cl->nodes.at;
	struct sc_err own = {.code = SC_OK};
	const struct sc_device *device;

	for (size_t i = 0; i < cl->nodes.n; i++) {
		if (sc_catalog_device(res->catalog, nodes[i].gpu, &device, &own))
			return sc_resolve_profile_error(res, "cluster.nodes", &own);
		if (is_known_kind(req, device))
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

/* AMD's collectives do not talk to NVIDIA's. */
static int check_vendors(const struct sc_resolver *res)
{
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
	return check_vendors(res);
}
