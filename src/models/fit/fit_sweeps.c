/* Rows of collective sweeps: which collective, over which ranks, on which network. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fields.h"
#include "base/fnv.h"
#include "base/units.h"
#include "models/collective_priv.h"
#include "models/fit/fit_priv.h"

/* The network that a row of a sweep was measured on, from its columns `intra` and `inter`:
 *
 *   intra  NVLink<g>_NVSwitch, NVLink<g>_direct_mesh, NVLink<g>_NVL<n>, NVLink_bridge, xGMI..., PCIe...,
 *          none; "<n>x<r>GB/s" in it gives the port's rate
 *   inter  <n>x<Gbit>Gb_<net>, <net>_<n>x<Gbit>Gb, <net>_<Gbit>Gb; <net> by the words below; _SHARP
 *          where the switches add; a text of intra where one domain of links spans the hosts; none
 *
 * What is empty or says nothing is the device's usual node, and the row has a warning. */

enum { MAX_COUNT = 4096, MAX_RATE = 100000 };

/* What a text of `inter` says of the fabric, and one port's Gbit/s; the first that occurs counts. */
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
/* A port of a GPU's links by generation, 1e9 bytes/s one way, where the device has none of its own. */
static const double NVLINK_GBPS[] = {0, 80, 150, 300, 450, 900};
enum { N_NET_WORDS = sizeof(NET_WORDS) / sizeof(NET_WORDS[0]) };
enum { N_NVLINKS = sizeof(NVLINK_GBPS) / sizeof(NVLINK_GBPS[0]) };

/* A whole number that begins here and ends before `*end`; 0 where there is none. */
static long number_at(const char *at, const char **end)
{
	char *after = (char *)(uintptr_t)at;
	long n = isdigit((unsigned char)*at) ? strtol(at, &after, 10) : 0;

	*end = after;
	return n;
}

/* "4x200Gb_Slingshot11", "8xHDR200_IB", "7x64GB/s": a count, a rate of one. */
static bool find_product(const char *text, long *count, double *rate)
{
	for (const char *at = text; *at; at++) {
		const char *end;
		long n, r;

		if (at > text && isdigit((unsigned char)at[-1]))
			continue;
		n = number_at(at, &end);
		if (n < 1 || n > MAX_COUNT || *end != 'x')
			continue;
		for (end++; isalpha((unsigned char)*end);)
			end++;
		r = number_at(end, &end);
		if (r < 1 || r > MAX_RATE)
			continue;
		*count = n;
		*rate = (double)r;
		return true;
	}
	return false;
}

/* "RoCE_200Gb": of one NIC, how many is not said. */
static double find_rate(const char *text)
{
	for (const char *at = text; *at; at++) {
		const char *end;
		long r;

		if (at > text && isalnum((unsigned char)at[-1]))
			continue;
		r = number_at(at, &end);
		if (r > 0 && r <= MAX_RATE && strncmp(end, "Gb", 2) == 0)
			return (double)r;
	}
	return 0;
}

static bool has(const char *text, const char *word)
{
	return strstr(text, word) != NULL;
}

/* "..._NVL72": GPUs of one domain; 0 where the text has none. */
static int64_t domain_of(const char *text)
{
	const char *at = strstr(text, "NVL"), *end;

	for (; at; at = strstr(at + 1, "NVL")) {
		long n = number_at(at + strlen("NVL"), &end);

		if (n >= 2 && n <= MAX_COUNT)
			return n;
	}
	return 0;
}

/* Of a port; -1: the device's own. */
static double port_gbps(const char *intra, const struct sc_device *device)
{
	const char *at = strstr(intra, "NVLink"), *end;
	long generation = at ? number_at(at + strlen("NVLink"), &end) : 0, count;
	double rate;

	if (has(intra, "PCI") || strcmp(intra, "none") == 0)
		return 0;
	if (find_product(intra, &count, &rate))
		return (double)count * rate;
	if (device->nvlink_links > 0)
		return -1;
	if (has(intra, "bridge") && device->bridge_gbps > 0)
		return device->bridge_gbps;
	return generation > 0 && generation < N_NVLINKS ? NVLINK_GBPS[generation] : -1;
}

static enum sc_links links_of(const char *intra, const struct sc_cluster *c)
{
	if (has(intra, "Switch"))
		return SC_LINKS_SWITCH;
	if (has(intra, "cube"))
		return SC_LINKS_CUBE_MESH;
	/* Without a switch, more than four GPUs cannot all be neighbours over NVLink: a cube mesh. */
	if (has(intra, "mesh"))
		return has(intra, "NVLink") && c->gpus_per_node > 4 ? SC_LINKS_CUBE_MESH
								    : SC_LINKS_MESH;
	return domain_of(intra) > 4 ? SC_LINKS_SWITCH : SC_LINKS_USUAL;
}

static bool tells_links(const char *intra)
{
	return has(intra, "NVLink") || has(intra, "xGMI") || has(intra, "PCI") ||
	       strcmp(intra, "none") == 0;
}

static void set_intra(const char *intra, const struct sc_device *device, struct sc_cluster *out)
{
	out->links = links_of(intra, out);
	/* Without a word on the wiring, the ranks are some of the device's usual node. */
	if ((out->links == SC_LINKS_USUAL || out->links == SC_LINKS_SWITCH) &&
	    device->usual_gpus_per_node > out->gpus_per_node)
		out->gpus_per_node = device->usual_gpus_per_node;
	out->link_gbps = port_gbps(intra, device);
}

/* NICs of which only the rate is told are as many for a GPU as in the usual node. */
static int64_t usual_nics(const struct sc_device *device, int64_t gpus_per_node)
{
	int64_t usual = device->usual_gpus_per_node > 0 ? device->usual_gpus_per_node : 1;
	int64_t n = device->usual_nics_per_node * gpus_per_node / usual;

	return n > 0 ? n : 1;
}

static void set_inter(const char *inter, const struct sc_device *device, struct sc_cluster *out,
		      bool *known)
{
	double rate = find_rate(inter);
	long count;

	*known = strcmp(inter, "none") == 0;
	out->nics_per_node = usual_nics(device, out->gpus_per_node);
	out->nic_gbit_s = device->usual_nic_gbit_s > 0 ? device->usual_nic_gbit_s : 100;
	for (size_t i = 0; i < N_NET_WORDS && !*known; i++) {
		if (!has(inter, NET_WORDS[i].word))
			continue;
		*known = true;
		out->fabric = NET_WORDS[i].kind;
		if (NET_WORDS[i].gbit_s > 0)
			out->nic_gbit_s = NET_WORDS[i].gbit_s;
	}
	if (rate > 0)
		out->nic_gbit_s = rate;
	if (find_product(inter, &count, &rate)) {
		out->nics_per_node = count;
		out->nic_gbit_s = rate;
		*known = true;
	}
	out->sharp = has(inter, "SHARP");
}

/* GPUs that reach each other over links: of all hosts where `inter` or the size in `intra` says so, of
 * two where a bridge joins them. */
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

/* The cluster of a row (fit_sweeps.c), whose gpus_per_node is set; returns a warning or NULL. `hosts`:
 * where its ranks are. */
static const char *fit_network_read(const struct sc_fit_table *t, const struct sc_span *hosts,
				    struct sc_cluster *out)
{
	const char *intra = t->cells.intra, *inter = t->cells.inter;
	const struct sc_device *device = t->device;
	bool intra_known = tells_links(intra) || hosts->max_ranks_per_node == 1, inter_known;

	out->gpu = device->id;
	set_intra(intra, device, out);
	out->scale_up_gpus = link_domain(intra, inter, device, out, hosts->n_nodes);
	set_inter(inter, device, out, &inter_known);
	inter_known |= hosts->n_nodes == 1 || out->scale_up_gpus >= hosts->n_ranks;
	if (intra_known && inter_known)
		return NULL;
	return sc_arena_printf(t->arena, "%s \"%.64s\" says nothing; the usual node of %s is taken",
			       intra_known ? "inter" : "intra", intra_known ? inter : intra,
			       device->id);
}

static const struct sc_name COLLECTIVES[] = {
	{"all_reduce", SC_ALL_REDUCE}, {"all_gather", SC_ALL_GATHER},
	{"broadcast", SC_BROADCAST},   {"reduce_scatter", SC_REDUCE_SCATTER},
	{"all_to_all", SC_ALL_TO_ALL}, {"send_recv", SC_SEND_RECV},
	{"reduce", SC_REDUCE},         {"gather", SC_GATHER},
	{"scatter", SC_SCATTER},       {0},
};

static bool same_network(const struct sc_request *a, const struct sc_request *b)
{
	const struct sc_cluster *x = &a->config.cluster, *y = &b->config.cluster;

	return a->config.gpus == b->config.gpus && x->gpus_per_node == y->gpus_per_node &&
	       x->nics_per_node == y->nics_per_node && fabs(x->nic_gbit_s - y->nic_gbit_s) < 0.5 &&
	       x->scale_up_gpus == y->scale_up_gpus && fabs(x->link_gbps - y->link_gbps) < 0.5 &&
	       x->links == y->links && x->sharp == y->sharp && strcmp(x->gpu, y->gpu) == 0 &&
	       (x->fabric == y->fabric ||
		(x->fabric && y->fabric && strcmp(x->fabric, y->fabric) == 0));
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
	int kind;

	if (sc_enum_parse(COLLECTIVES, t->cells.collective, &kind, NULL) == 0) {
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
