/* Rows of collective sweeps: which collective, over which ranks, on which network. */
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/fnv.h"
#include "base/units.h"
#include "models/collective/collective_priv.h"
#include "models/fit/fit_priv.h"
#include "models/op_model.h"

/* The network that a row of a sweep was measured on, from its columns `intra` and `inter`:
 *
 *   intra  NVLink<g>_NVSwitch, NVLink<g>_direct_mesh, NVLink<g>_NVL<n>, NVLink_bridge, xGMI...,
 * PCIe..., none; "<n>x<r>GB/s" in it gives the port's rate inter  <n>x<Gbit>Gb_<net>,
 * <net>_<n>x<Gbit>Gb, <net>_<Gbit>Gb; <net> by the words below; _SHARP where the switches add; a
 * text of intra where one domain of links spans the hosts; none
 *
 * What is empty or says nothing is the device's usual node, and the row has a warning. */

enum { MAX_COUNT = 4096, MAX_RATE = 100000 };

/* The fabric that a text of `inter` names, and one port's Gbit/s; the first that occurs counts. */
struct net_word {
	const char *word, *kind;
	double gbit_s; /* 0: the word does not say */
};
static const struct net_word NET_WORDS[] = {
	{"EFA", "efa", 0},          {"Slingshot", "slingshot", 200}, {"Omni", "omni-path", 100},
	{"RoCE", "ethernet", 0},    {"GbE", "ethernet", 0},          {"Ethernet", "ethernet", 0},
	{"TCP", "ethernet", 0},     {"XDR", "infiniband", 800},      {"NDR", "infiniband", 400},
	{"HDR", "infiniband", 200}, {"EDR", "infiniband", 100},      {"FDR", "infiniband", 56},
	{"IB", "infiniband", 0},    {"InfiniBand", "infiniband", 0},
};
/* A port of a GPU's links by generation, 1e9 bytes/s one way, where the device has none. */
static const double NVLINK_GBPS[] = {0, 80, 150, 300, 450, 900};
enum { N_NET_WORDS = sizeof(NET_WORDS) / sizeof(NET_WORDS[0]) };
enum { N_NVLINKS = sizeof(NVLINK_GBPS) / sizeof(NVLINK_GBPS[0]) };

/* The numbers of the first place that an expression matches, whose last groups they are; 0: it does
 * not, or one is none of 1 to `most`. */
static bool find_numbers(const char *text, const char *expression, double most, size_t n,
			 double *out)
{
	regmatch_t at[4];
	regex_t regex;
	bool found;

	if (regcomp(&regex, expression, REG_EXTENDED))
		return false;
	found = regexec(&regex, text, sizeof(at) / sizeof(at[0]), at, 0) == 0;
	for (size_t i = 0; i < n && found; i++) {
		out[i] = strtod(text + at[regex.re_nsub - n + 1 + i].rm_so, NULL);
		found = out[i] >= 1 && out[i] <= most;
	}
	regfree(&regex);
	return found;
}

/* "4x200Gb_Slingshot11", "8xHDR200_IB", "7x64GB/s": a count, a rate of one. */
static bool find_product(const char *text, double of[2])
{
	return find_numbers(text, "([0-9]+)x[[:alpha:]]*([0-9]+)", MAX_RATE, 2, of) &&
	       of[0] <= MAX_COUNT;
}

static bool has(const char *text, const char *word)
{
	return strstr(text, word) != NULL;
}

/* "..._NVL72": GPUs of one domain; 0 where the text has none. */
static int64_t domain_of(const char *text)
{
	double n;

	return find_numbers(text, "NVL([0-9]+)", MAX_COUNT, 1, &n) && n >= 2 ? (int64_t)n : 0;
}

/* The rate of a port; -1: the device's own. */
static double port_gbps(const char *intra, const struct sc_device *device)
{
	double generation, of[2];

	if (has(intra, "PCI") || strcmp(intra, "none") == 0)
		return 0;
	if (find_product(intra, of))
		return of[0] * of[1];
	if (device->nvlink_links > 0)
		return -1;
	if (has(intra, "bridge") && device->bridge_gbps > 0)
		return device->bridge_gbps;
	return find_numbers(intra, "NVLink([0-9]+)", N_NVLINKS - 1, 1, &generation)
		       ? NVLINK_GBPS[(size_t)generation]
		       : -1;
}

static enum sc_links links_of(const char *intra, const struct sc_cluster *c)
{
	if (has(intra, "Switch"))
		return SC_LINKS_SWITCH;
	if (has(intra, "cube"))
		return SC_LINKS_CUBE_MESH;
	/* Without a switch, over four GPUs cannot all be neighbours over NVLink: a cube mesh. */
	if (has(intra, "mesh"))
		return has(intra, "NVLink") && c->gpus_per_node > 4 ? SC_LINKS_CUBE_MESH
								    : SC_LINKS_MESH;
	return domain_of(intra) > 4 ? SC_LINKS_SWITCH : SC_LINKS_USUAL;
}

static void set_inter(const char *inter, const struct sc_device *device, struct sc_cluster *out,
		      bool *known)
{
	double of[2];

	*known = strcmp(inter, "none") == 0;
	/* NICs of which only the rate is told are as many for a GPU as in the usual node. */
	int64_t usual = device->usual_gpus_per_node > 0 ? device->usual_gpus_per_node : 1;
	int64_t n = device->usual_nics_per_node * out->gpus_per_node / usual;

	out->nics_per_node = n > 0 ? n : 1;
	out->nic_gbit_s = device->usual_nic_gbit_s > 0 ? device->usual_nic_gbit_s : 100;
	for (size_t i = 0; i < N_NET_WORDS && !*known; i++) {
		if (!has(inter, NET_WORDS[i].word))
			continue;
		*known = true;
		out->fabric = NET_WORDS[i].kind;
		if (NET_WORDS[i].gbit_s > 0)
			out->nic_gbit_s = NET_WORDS[i].gbit_s;
	}
	/* "RoCE_200Gb": of one NIC, how many is not said */
	if (find_numbers(inter, "(^|[^[:alnum:]])([0-9]+)Gb", MAX_RATE, 1, of))
		out->nic_gbit_s = of[0];
	if (find_product(inter, of)) {
		out->nics_per_node = (int64_t)of[0];
		out->nic_gbit_s = of[1];
		*known = true;
	}
	out->sharp = has(inter, "SHARP");
}

/* GPUs that reach each other over links: of all hosts where `inter` or the size in `intra` says so,
 * of two where a bridge joins them. */
static int64_t link_domain(const char *intra, const char *inter, const struct sc_device *device,
			   const struct sc_cluster *c, int64_t n_hosts)
{
	int64_t domain = domain_of(inter) > 0 ? domain_of(inter) : domain_of(intra);
	int64_t node = c->gpus_per_node;

	if (domain == 0 && (has(inter, "NVLink") || has(inter, "xGMI")))
		domain = n_hosts * node;
	if (has(intra, "bridge"))
		domain = 2;
	if (*intra == '\0' && *inter == '\0')
		domain = device->usual_scale_up_gpus;
	if (domain < 2)
		return node;
	return domain < node ? domain : domain / node * node;
}

/* The cluster of a row with gpus_per_node; returns a warning or NULL. `hosts`: its ranks'. */
static const char *fit_network_read(const struct sc_fit_table *t, const struct sc_span *hosts,
				    struct sc_cluster *out)
{
	const char *intra = t->cells.intra, *inter = t->cells.inter;
	const struct sc_device *device = t->device;
	bool intra_known = (has(intra, "NVLink") || has(intra, "xGMI") || has(intra, "PCI") ||
			    strcmp(intra, "none") == 0) ||
			   hosts->max_ranks_per_node == 1,
	     inter_known;

	out->gpu = device->id;
	out->links = links_of(intra, out);
	/* Without a word on the wiring, the ranks are some of the device's usual node. */
	if ((out->links == SC_LINKS_USUAL || out->links == SC_LINKS_SWITCH) &&
	    device->usual_gpus_per_node > out->gpus_per_node)
		out->gpus_per_node = device->usual_gpus_per_node;
	out->link_gbps = port_gbps(intra, device);
	out->scale_up_gpus = link_domain(intra, inter, device, out, hosts->n_nodes);
	set_inter(inter, device, out, &inter_known);
	inter_known |= hosts->n_nodes == 1 || out->scale_up_gpus >= hosts->n_ranks;
	if (intra_known && inter_known)
		return NULL;
	return sc_arena_printf(t->arena, "%s \"%.64s\" says nothing; the usual node of %s is taken",
			       intra_known ? "inter" : "intra", intra_known ? inter : intra,
			       device->id);
}

static bool same_network(const struct sc_request *a, const struct sc_request *b)
{
	const struct sc_cluster *x = &a->config.cluster, *y = &b->config.cluster;

	return a->config.gpus == b->config.gpus && x->gpus_per_node == y->gpus_per_node &&
	       x->nics_per_node == y->nics_per_node && fabs(x->nic_gbit_s - y->nic_gbit_s) < 0.5 &&
	       x->scale_up_gpus == y->scale_up_gpus && fabs(x->link_gbps - y->link_gbps) < 0.5 &&
	       x->links == y->links && x->sharp == y->sharp && strcmp(x->gpu, y->gpu) == 0 &&
	       sc_fit_same_text(x->fabric, y->fabric);
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
	out->warning = fit_network_read(t, &out->span, &request->config.cluster);
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

/* The time in which the busiest port carries its bytes at its peak. */
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

static int read_kind(const struct sc_fit_table *t, enum sc_collective *out)
{
	for (int kind = 0; sc_collective_names[kind]; kind++)
		if (strcmp(sc_collective_names[kind], t->cells.collective) == 0) {
			*out = (enum sc_collective)kind;
			return 0;
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
	/* Only all-reduce has more than the ring and the pairwise exchange here. */
	*forced = rc == 0 && out->only != 0 && shape->kind != SC_ALL_REDUCE &&
		  (sc_collective_is_direct(shape->kind) ||
		   (out->only != SC_ALGO_RING + 1 && out->only != SC_ALGO_PAT + 1));
	if (*forced)
		return 0;
	if (rc == 0)
		rc = read_span(table, &out->span, &gpus_per_node);
	if (rc == 0)
		rc = find_network(table, (int64_t)gpus_per_node, set, out);
	if (rc)
		return rc;
	/* Sweeps over switches that add used them (NCCL_COLLNET_ENABLE), at every size. */
	if (!out->only && shape->kind == SC_ALL_REDUCE && out->span.n_nodes > 1 &&
	    set->requests[out->request].config.cluster.sharp)
		out->only = SC_ALGO_SHARP + 1;
	out->n_ops = 1;
	out->op_name = table->cells.collective;
	out->shape = sc_fnv(out->shape, sweep, strlen(sweep));
	out->shape = sc_fnv(out->shape, out->op_name, strlen(out->op_name));
	out->bound_us = bound_us(table->device, &set->requests[out->request].config.cluster, out);
	return 0;
}
