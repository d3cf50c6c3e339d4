/* cluster.topology: a file that says how a node is wired. A graph becomes what the model of collectives takes of it;
 * ASTRA-sim's network YAML has no graph, and fills what it says of nodes and NICs, or a torus. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "core/config/catalog_priv.h"
#include "core/config/config_priv.h"

enum { MAX_DIMS = 8, MAX_FILE_BYTES = 16 << 20 };
#define MAX_NS 1e9

/* ---- ASTRA-sim: topology, npus_count, bandwidth (1e9 bytes/s), latency (ns), innermost dimension first ---- */

static const struct sc_name BLOCK_NAMES[] = {
	{"Ring", 0}, {"FullyConnected", 1}, {"Switch", 2}, {NULL, 0}};
enum block { BLOCK_RING, BLOCK_FULL, BLOCK_SWITCH };

struct astra {
	struct sc_ints npus_count;
	struct sc_doubles bandwidth, latency;
};
static const struct sc_field ASTRA_FIELDS[] = {
	{.key = "topology", .type = SC_F_IGNORE, .required = true},
	SC_FIELD_IN(INTS, astra, npus_count, 1, SC_MAX_GPUS, NULL, .required = true),
	SC_FIELD_IN(DOUBLES, astra, bandwidth, 1e-3, 1e6, NULL, .required = true),
	SC_FIELD_IN(DOUBLES, astra, latency, 0, MAX_NS, NULL, .required = true),
	{0},
};

static int fail_at(const struct sc_yaml *at, const char *text, struct sc_err *err)
{
	return sc_err_at(err, SC_EVALUE, SC_AT(at), "%s", text);
}

static int read_blocks(const struct sc_yaml *list, enum block *out, size_t *n, struct sc_err *err)
{
	if (list->kind != SC_YAML_SEQ || list->n_children == 0 || list->n_children > MAX_DIMS)
		return fail_at(list, "topology: expected a list of 1 to 8 dimensions", err);
	*n = 0;
	for (const struct sc_yaml *at = list->child; at; at = at->next) {
		const struct sc_name *name = BLOCK_NAMES;

		while (name->name && (at->kind != SC_YAML_SCALAR || strcmp(name->name, at->text)))
			name++;
		if (!name->name)
			return fail_at(at, "topology: expected Ring, FullyConnected or Switch",
				       err);
		out[(*n)++] = (enum block)name->value;
	}
	return 0;
}

/* What the config says stays. */
static void fill_int(int64_t *key, int64_t value)
{
	if (*key == SC_NOT_GIVEN)
		*key = value;
}

static void fill_double(double *key, double value)
{
	if (*key < 0)
		*key = value;
}

/* One dimension is a node, a second one joins nodes, a NIC for each GPU. */
static void take_nodes(const struct astra *a, const enum block *blocks, struct sc_cluster *out)
{
	bool networked = a->npus_count.n > 1;

	fill_int(&out->gpus_per_node, a->npus_count.at[0]);
	fill_int(&out->scale_up_gpus, a->npus_count.at[0]);
	fill_double(&out->link_gbps, a->bandwidth.at[0]);
	if (out->links == SC_LINKS_USUAL)
		out->links = blocks[0] == BLOCK_SWITCH ? SC_LINKS_SWITCH : SC_LINKS_MESH;
	fill_int(&out->nics_per_node, networked ? a->npus_count.at[0] : 0);
	if (!networked)
		return;
	fill_double(&out->nic_gbit_s, a->bandwidth.at[1] / sc_gbit_to_gbps(1));
	fill_double(&out->nic_latency_us, a->latency.at[1] / (double)SC_NS_PER_US);
}

static int take_astra(const struct sc_source *source, struct sc_arena *arena,
		      struct sc_cluster *out, struct sc_err *err)
{
	enum block blocks[MAX_DIMS];
	struct astra a = {.npus_count = {.n = 0}};
	struct sc_yaml *root;
	size_t n = 0, rings = 0;
	int rc = sc_yaml_parse(source, arena, &root, err);

	if (rc == 0)
		rc = sc_yaml_decode(root, ASTRA_FIELDS, &a, arena, NULL, err);
	if (rc == 0)
		rc = read_blocks(sc_yaml_get(root, "topology"), blocks, &n, err);
	if (rc)
		return rc;
	if (a.npus_count.n != n || a.bandwidth.n != n || a.latency.n != n)
		return fail_at(root,
			       "topology, npus_count, bandwidth and latency have one value for "
			       "each dimension",
			       err);
	for (size_t d = 0; d < n; d++)
		rings += blocks[d] == BLOCK_RING && a.npus_count.at[d] > 2;
	if (rings == n) {
		double *us = sc_arena_alloc(arena, a.latency.n * sizeof(*us));

		for (size_t d = 0; d < a.latency.n; d++)
			us[d] = a.latency.at[d] / (double)SC_NS_PER_US;
		out->torus.dims = a.npus_count;
		out->torus.link_gbps = a.bandwidth;
		out->torus.hop_us = (struct sc_doubles){us, a.latency.n};
		out->gpus_per_node = 1;
		for (size_t d = 0; d < a.npus_count.n && out->gpus_per_node < SC_MAX_GPUS; d++)
			out->gpus_per_node *= a.npus_count.at[d];
		return 0;
	}
	if (n > 2 || rings > 0)
		return fail_at(root,
			       "only rings have three dimensions or more, and they are not mixed "
			       "with others here",
			       err);
	take_nodes(&a, blocks, out);
	return 0;
}

/* ---- graphs ---- */

static int take_graph(const struct sc_source *source, struct sc_arena *arena,
		      struct sc_cluster *out, struct sc_err *err)
{
	struct sc_wiring *wiring = sc_arena_calloc(arena, 1, sizeof(*wiring));
	struct sc_topology *topology = sc_arena_calloc(arena, 1, sizeof(*topology));
	int rc = sc_topology_parse(source, arena, topology, err);

	if (rc)
		return rc;
	sc_wiring_of(topology, wiring);
	out->wiring = wiring;
	return 0;
}

int sc_cluster_parse_topology(const struct sc_source *source, struct sc_arena *arena,
			      struct sc_cluster *out, struct sc_err *err)
{
	const char *dot = strrchr(source->file, '.');

	return (dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0))
		       ? take_astra(source, arena, out, err)
		       : take_graph(source, arena, out, err);
}

int sc_config_load_topology(struct sc_config *config, const char *path, struct sc_arena *arena,
			    struct sc_err *err)
{
	char *text;
	size_t n;
	int rc = sc_file_read(path, MAX_FILE_BYTES, &text, &n, err);

	if (rc)
		return rc;
	rc = sc_cluster_parse_topology(&(struct sc_source){text, n, path}, arena, &config->cluster,
				       err);
	free(text);
	return rc;
}

void sc_config_take_wiring(struct sc_cluster *cluster, const struct sc_device *device)
{
	const struct sc_wiring *w = cluster->wiring;

	if (!w)
		return;
	fill_int(&cluster->gpus_per_node, w->n_gpus);
	fill_double(&cluster->link_gbps,
		    w->port_links * (device->nvlink_link_gbps > 0 ? device->nvlink_link_gbps
								  : SC_TOPO_LINK_GBPS));
	if (w->n_nics > 0) {
		fill_int(&cluster->nics_per_node, w->n_nics);
		fill_double(&cluster->nic_gbit_s, w->nic_gbit_s);
	}
	if (w->nic_latency_us > 0)
		fill_double(&cluster->nic_latency_us, w->nic_latency_us);
}

/* Mixed clusters: nodes with different kinds of GPU in one job (cluster.nodes). */

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

/* Tori of GPUs, and what is kept of each GPU for communication (c3.endpoint). */

static int check_list(const struct sc_resolver *res, const char *path, size_t n, bool may_miss)
{
	const size_t n_dims = res->request->config.cluster.torus.dims.n;

	if (n == 1 || n == n_dims || (n == 0 && may_miss))
		return 0;
	return sc_resolve_fail(
		res, SC_ECONFLICT, n ? path : "cluster.torus.dims",
		"%s has %zu values and cluster.torus.dims %zu; write one for each, or "
		"one for all",
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
	/* Taken from the device, and so from every kernel: its SMs, their math, its memory's bandwidth. */
	struct sc_device *dev = &req->device;

	req->kernel_sm_frac = (double)(dev->sm_count - sms) / (double)dev->sm_count;
	dev->sm_count -= sms;
	dev->hbm_gbps -= memory_gbps;
	for (int type = 0; type < SC_N_DTYPES; type++)
		dev->peak_tflops[type] *= req->kernel_sm_frac;
	return 0;
}

double sc_request_peak_tflops(const struct sc_request *request)
{
	const enum sc_dtype dtype = sc_precision_dtype(request->config.training.precision);

	return request->device.peak_tflops[dtype] / request->kernel_sm_frac;
}
