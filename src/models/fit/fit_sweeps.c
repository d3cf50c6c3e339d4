/* Rows of collective sweeps: which collective, over which ranks, on which network (fit_network.c). */
#include <math.h>
#include <string.h>

#include "base/fields.h"
#include "base/fnv.h"
#include "base/units.h"
#include "models/collective_priv.h"
#include "models/fit/fit_priv.h"

static const struct sc_name COLLECTIVES[] = {
	{"all_reduce", SC_ALL_REDUCE}, {"all_gather", SC_ALL_GATHER},
	{"broadcast", SC_BROADCAST},   {"reduce_scatter", SC_REDUCE_SCATTER},
	{"all_to_all", SC_ALL_TO_ALL}, {"send_recv", SC_SEND_RECV},
	{"reduce", SC_REDUCE},         {"gather", SC_GATHER},
	{"scatter", SC_SCATTER},       {0},
};
static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_network(const struct sc_request *a, const struct sc_request *b)
{
	const struct sc_cluster *x = &a->config.cluster, *y = &b->config.cluster;

	return a->config.gpus == b->config.gpus && x->gpus_per_node == y->gpus_per_node &&
	       x->nics_per_node == y->nics_per_node && fabs(x->nic_gbit_s - y->nic_gbit_s) < 0.5 &&
	       x->scale_up_gpus == y->scale_up_gpus && fabs(x->link_gbps - y->link_gbps) < 0.5 &&
	       x->links == y->links && x->sharp == y->sharp && strcmp(x->gpu, y->gpu) == 0 &&
	       same_text(x->fabric, y->fabric);
}

static int find_network(const struct sc_fit_table *t, int64_t gpus_per_node, struct sc_fit_set *set,
			struct sc_fit_row *out)
{
	struct sc_request *request;

	if (set->n_requests == SC_FIT_MAX_NETWORKS)
		return sc_err_at(t->err, SC_ELIMIT, t->csv.file, t->csv.line[t->row], 0,
				 "more than %d different networks; choose some with --where",
				 SC_FIT_MAX_NETWORKS);
	request = &set->requests[set->n_requests];
	sc_config_init(&request->config);
	request->device = *t->device;
	request->config.cluster.gpus_per_node = gpus_per_node;
	out->warning = sc_fit_network_read(t, &out->span, &request->config.cluster);
	request->config.gpus = out->span.n_nodes > 1
				       ? out->span.n_nodes * request->config.cluster.gpus_per_node
				       : out->span.n_ranks;
	out->span = sc_span_of_hosts(&request->config.cluster, &out->span);
	for (out->request = 0; out->request < set->n_requests; out->request++)
		if (same_network(request, &set->requests[out->request]))
			return 0;
	set->n_requests++;
	return 0;
}

/* What the busiest port must carry at its peak. */
static double bound_us(const struct sc_device *device, const struct sc_cluster *cluster,
		       const struct sc_fit_row *row)
{
	double link = cluster->link_gbps >= 0
			      ? cluster->link_gbps
			      : (double)device->nvlink_links * device->nvlink_link_gbps;
	double nics = (double)cluster->nics_per_node * sc_gbit_to_gbps(cluster->nic_gbit_s);
	bool inside = row->span.n_nodes == 1;
	double parts = inside ? row->span.n_ranks : row->span.n_nodes;
	double gbps = inside ? (link > 0 ? link : device->pcie_gbps) : nics;
	bool whole = row->op[0].u.collective.kind == SC_SEND_RECV;

	return sc_bytes_us(row->op[0].u.collective.bytes * (whole ? 1 : (parts - 1) / parts), gbps);
}

/* The one that was forced, as struct sc_fabric has it; negative: none of the model's. */
static int algo_of(const struct sc_fit_table *t)
{
	static const struct {
		const char *name;
		enum sc_algo algo;
	} known[] = {{"Ring", SC_ALGO_RING}, {"Tree", SC_ALGO_TREE},
		     {"NVLS", SC_ALGO_NVLS}, {"NVLSTree", SC_ALGO_NVLS},
		     {"PAT", SC_ALGO_PAT},   {"CollNet", SC_ALGO_SHARP}};
	const char *algo = t->cells.algo;

	if (strstr(t->cells.library, "MSCCL"))
		return *algo && strcmp(algo, "default") == 0 ? 0 : -1;
	if (*algo == '\0' || strcmp(algo, "default") == 0)
		return 0;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(algo, known[i].name) == 0)
			return (int)known[i].algo + 1;
	return -1;
}

/* Only all-reduce has more than the ring and the pairwise exchange here. */
static bool is_modelled(enum sc_collective kind, int only)
{
	bool direct = sc_collective_is_direct(kind);

	return only == 0 || kind == SC_ALL_REDUCE ||
	       (!direct && (only == SC_ALGO_RING + 1 || only == SC_ALGO_PAT + 1));
}

static int read_kind(const struct sc_fit_table *t, enum sc_collective *out)
{
	const char *text = t->cells.collective;

	for (const struct sc_name *name = COLLECTIVES; name->name; name++) {
		if (strcmp(name->name, text) == 0) {
			*out = (enum sc_collective)name->value;
			return 0;
		}
	}
	return sc_csv_cell_error(
		&t->csv, t->row, "collective",
		"all_reduce, all_gather, reduce_scatter, broadcast, reduce, gather, "
		"scatter, all_to_all or send_recv",
		t->err);
}

static int read_span(const struct sc_fit_table *t, struct sc_span *out, double *gpus_per_node)
{
	const double ranks = t->cells.ranks, nodes = t->cells.nodes;

	*gpus_per_node = t->cells.gpus_per_node > 0 ? t->cells.gpus_per_node : ceil(ranks / nodes);
	if (nodes > ranks || ranks > nodes * *gpus_per_node)
		return sc_err_at(t->err, SC_ECONFLICT, t->csv.file, t->csv.line[t->row], 0,
				 "ranks=%g do not fit on nodes=%g of gpus_per_node=%g", ranks,
				 nodes, *gpus_per_node);
	*out = (struct sc_span){.n_ranks = (int)ranks,
				.n_nodes = (int)nodes,
				.max_ranks_per_node = (int)ceil(ranks / nodes)};
	return 0;
}

int sc_fit_sweep_read(const struct sc_fit_table *table, struct sc_fit_set *set,
		      struct sc_fit_row *out, bool *forced)
{
	struct sc_collective_shape *shape = &out->op[0].u.collective;
	const char *sweep = table->cells.sweep;
	double gpus_per_node;
	int rc;

	out->only = algo_of(table);
	*forced = out->only < 0;
	if (*forced)
		return 0;
	out->op[0] = (struct sc_op){.kind = SC_OP_COLLECTIVE, .dtype = SC_FP16};
	shape->dtype = SC_FP16;
	shape->bytes = out->dim[0];
	rc = read_kind(table, &shape->kind);
	*forced = rc == 0 && !is_modelled(shape->kind, out->only);
	if (*forced)
		return 0;
	if (rc == 0)
		rc = read_span(table, &out->span, &gpus_per_node);
	if (rc == 0)
		rc = find_network(table, (int64_t)gpus_per_node, set, out);
	if (rc)
		return rc;
	out->n_ops = 1;
	out->op_name = table->cells.collective;
	out->shape = sc_fnv(out->shape, sweep, strlen(sweep));
	out->shape = sc_fnv(out->shape, out->op_name, strlen(out->op_name));
	out->bound_us = bound_us(table->device, &set->requests[out->request].config.cluster, out);
	return 0;
}
