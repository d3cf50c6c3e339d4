/* Rows of a measured table: which are taken, and where their times come from. Rows of other devices, and those
 * that --where leaves out, are counted and passed over. */
#include <fnmatch.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/fields.h"
#include "base/fnv.h"
#include "base/units.h"
#include "models/collective_priv.h"
#include "models/fit/fit_priv.h"
#include "models/op_model.h"

/* Rows of collective sweeps: which collective, over which ranks, on which network. */

/* The network that a row of a sweep was measured on, from its columns `intra` and `inter`:
 *
 *   intra  NVLink<g>_NVSwitch, NVLink<g>_direct_mesh, NVLink<g>_NVL<n>, NVLink_bridge, xGMI..., PCIe...,
 *          none; "<n>x<r>GB/s" in it gives the port's rate
 *   inter  <n>x<Gbit>Gb_<net>, <net>_<n>x<Gbit>Gb, <net>_<Gbit>Gb; <net> by the words below; _SHARP
 *          where the switches add; a text of intra where one domain of links spans the hosts; none
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
/* A port of a GPU's links by generation, 1e9 bytes/s one way, where the device has none of its own. */
static const double NVLINK_GBPS[] = {0, 80, 150, 300, 450, 900};
enum { N_NET_WORDS = sizeof(NET_WORDS) / sizeof(NET_WORDS[0]) };
enum { N_NVLINKS = sizeof(NVLINK_GBPS) / sizeof(NVLINK_GBPS[0]) };

/* The numbers of the first place that an expression matches, whose last groups they are; 0: it does not, or one is none
 * of 1 to `most`. */
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
	/* Without a switch, more than four GPUs cannot all be neighbours over NVLink: a cube mesh. */
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

/* The cluster of a row whose gpus_per_node is set; returns a warning or NULL. `hosts`:
 * where its ranks are. */
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

/* Collectives. *forced: not of NCCL's own choice, nothing was filled. */
static int fit_sweep_read(const struct sc_fit_table *table, struct sc_fit_set *set,
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
	/* Sweeps over switches that add were made to use them (NCCL_COLLNET_ENABLE), at every size. */
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

enum { MAX_DEVICES_SHOWN = 8 };

static const char *text_of(const struct sc_fit_table *t, const char *column)
{
	int col = sc_csv_column(&t->csv, column);

	return col < 0 ? "" : sc_csv_cell(&t->csv, t->row, (size_t)col);
}

bool sc_fit_takes_all(const struct sc_fit_opts *opts)
{
	const char *column = opts->kind == SC_FIT_COLLECTIVE ? "machine" : "device";

	return opts->leave_out && strcmp(opts->leave_out, column) == 0;
}

bool sc_fit_of_machines(const struct sc_fit_opts *opts)
{
	return opts->kind == SC_FIT_COLLECTIVE && sc_fit_takes_all(opts);
}

/* A table without the column is of the one device. */
static const char *row_device(const struct sc_fit_table *t)
{
	return sc_csv_column(&t->csv, "device") < 0 ? t->opts->device : text_of(t, "device");
}

static bool has_value(const struct sc_fit_table *t, const struct sc_where *where)
{
	return fnmatch(where->value, text_of(t, where->column), 0) == 0;
}

static bool is_chosen(const struct sc_fit_table *t)
{
	if (!sc_fit_takes_all(t->opts) && strcmp(row_device(t), t->opts->device) != 0)
		return false;
	for (size_t i = 0; i < t->opts->n_where; i++)
		if (!has_value(t, &t->opts->where[i]))
			return false;
	return true;
}

/* Takes pairs of which both times alone are known, on two streams that wait for nothing. */
static bool has_time(const struct sc_fit_table *t)
{
	const char *policy, *kind;

	if (!t->is_of_pairs)
		return *text_of(t, "time_us");
	policy = text_of(t, "policy");
	kind = text_of(t, "kind");
	return *text_of(t, "overlapped_us") && *text_of(t, "compute_us") &&
	       *text_of(t, "comm_us") &&
	       (strcmp(policy, "plain") == 0 || strcmp(policy, "comm_first") == 0) &&
	       strcmp(kind, "all_gather_gemm") != 0 && strcmp(kind, "gemm_reduce_scatter") != 0;
}

static int check_column(const struct sc_fit_table *t, const char *option, const char *column)
{
	if (sc_csv_column(&t->csv, column) >= 0)
		return 0;
	return sc_err_at(t->err, SC_EUSAGE, t->csv.file, 1, 0, "%s: no column \"%.64s\"", option,
			 column);
}

int sc_fit_table_init(const struct sc_fit_opts *opts, struct sc_arena *arena,
		      struct sc_fit_table *out, struct sc_err *err)
{
	const struct sc_csv *csv = opts->table;
	const char *who;
	int rc = 0;

	*out = (struct sc_fit_table){.csv = *csv, .opts = opts, .arena = arena, .err = err};
	for (size_t i = 0; i < opts->n_where && rc == 0; i++)
		rc = check_column(out, "--where", opts->where[i].column);
	for (size_t i = 0; i < opts->n_hold_out && rc == 0; i++)
		rc = check_column(out, "--hold-out", opts->hold_out[i].column);
	if (rc == 0 && opts->leave_out)
		rc = check_column(out, "--leave-out", opts->leave_out);
	if (rc)
		return rc;
	out->is_of_pairs = opts->kind == SC_FIT_INTERFERENCE && sc_csv_column(csv, "time_us") < 0 &&
			   sc_csv_column(csv, "overlapped_us") >= 0;
	who = sc_arena_printf(arena, "--kind %s", sc_fit_kind_names[opts->kind]);
	if (!out->is_of_pairs && sc_csv_column(&out->csv, "time_us") < 0)
		return sc_err_at(err, SC_EFORMAT, csv->file, 1, 0,
				 "no column \"time_us\"; %s needs it", who);
	out->rows = (struct sc_csv_rows){
		.csv = &out->csv, .fields = sc_fit_reader_of(out)->cells, .who = who};
	return sc_csv_rows_bind(&out->rows, arena, err);
}

/* Finds where the row's time was taken. */
static int find_origin(struct sc_fit_set *set, const struct sc_fit_table *t, struct sc_fit_row *row)
{
	for (row->source = 0; row->source < set->n_sources; row->source++)
		if (strcmp(set->source[row->source], t->cells.source) == 0)
			break;
	if (row->source == SC_FIT_MAX_SOURCES)
		return sc_err_at(t->err, SC_ELIMIT, t->csv.file, 0, 0,
				 "more than %d sources of %s; choose some with --where source=NAME",
				 SC_FIT_MAX_SOURCES, t->opts->device);
	if (row->source == set->n_sources)
		set->source[set->n_sources++] = t->cells.source;
	for (row->origin = 0; row->origin < set->n_origins; row->origin++) {
		const struct sc_fit_origin *o = &set->origin[row->origin];

		if (o->source == row->source && same_text(o->op_name, row->op_name) &&
		    same_text(o->pass, row->pass))
			return 0;
	}
	if (set->n_origins == SC_FIT_MAX_ORIGINS)
		return sc_err_at(t->err, SC_ELIMIT, t->csv.file, 0, 0,
				 "more than %d ops and passes of sources; choose some with --where",
				 SC_FIT_MAX_ORIGINS);
	set->origin[set->n_origins++] = (struct sc_fit_origin){
		.source = row->source, .op_name = row->op_name, .pass = row->pass};
	return 0;
}

/* t->device becomes the row's. */
static int find_device(struct sc_fit_table *t, struct sc_fit_set *set, unsigned *out)
{
	const char *id = row_device(t);
	struct sc_device *device;
	int rc;

	for (*out = 0; *out < set->n_devices; (*out)++) {
		t->device = set->device[*out];
		if (strcmp(t->device->id, id) == 0)
			return 0;
	}
	if (set->n_devices == SC_FIT_MAX_FOLDS)
		return sc_err_at(t->err, SC_ELIMIT, t->csv.file, 0, 0,
				 "more than %d devices; choose some with --where",
				 SC_FIT_MAX_FOLDS);
	device = sc_arena_calloc(t->arena, 1, sizeof(*device));
	rc = sc_device_load(id, t->arena, device, t->err);
	if (rc == 0)
		t->device = set->device[set->n_devices++] = device;
	return rc;
}

/* The row table->row as set->rows[set->n]. *taken: false where it has no time, or is a collective with
 * waiting or of an algorithm that no model is for; the set counts which. */
static int fit_row_read(struct sc_fit_table *t, struct sc_fit_set *set, bool *taken)
{
	const struct sc_fit_reader *reader = sc_fit_reader_of(t);
	struct sc_fit_row *out = &set->rows[set->n];
	struct sc_fit_cells *c = &t->cells;
	bool forced = false, bound;
	int rc;

	*taken = has_time(t);
	set->n_empty += !*taken;
	/* A collective whose time may hold waiting for peers that were not recorded, as `export` marks it. Taken
	 * where --where names the column. */
	bound = *taken && t->opts->kind == SC_FIT_COLLECTIVE &&
		strcmp(text_of(t, "quality"), "bound") == 0;
	for (size_t i = 0; i < t->opts->n_where; i++)
		bound = bound && strcmp(t->opts->where[i].column, "quality") != 0;
	set->n_bound += bound;
	*taken = *taken && !bound;
	if (!*taken)
		return 0;
	sc_fields_init(reader->cells, c);
	c->kernel = c->source = c->collective = c->sweep = c->algo = c->library = c->intra =
		c->inter = "";
	rc = sc_csv_rows_get(&t->rows, t->row, c, t->err);
	if (rc)
		return rc;
	*out = (struct sc_fit_row){
		.weight = 1, .time_us = c->time_us, .pass = c->pass_name, .op_name = c->op_name};
	if (t->opts->leave_out)
		out->group = text_of(t, t->opts->leave_out);
	for (size_t i = 0; i < t->opts->n_hold_out && !out->group; i++)
		out->group = has_value(t, &t->opts->hold_out[i]) ? "chosen" : NULL;
	for (size_t d = 0; d < reader->n_dims; d++)
		memcpy(&out->dim[d], (const char *)c + reader->cells[d].offset, sizeof(double));
	out->shape = sc_fnv(SC_FNV_START, out->dim, sizeof(out->dim));
	rc = find_device(t, set, &out->device);
	if (rc == 0 && reader->read)
		rc = reader->read(t, out);
	if (rc == 0 && t->opts->kind == SC_FIT_COLLECTIVE)
		rc = fit_sweep_read(t, set, out, &forced);
	if (rc == 0 && !forced)
		rc = find_origin(set, t, out);
	set->n_forced += forced;
	*taken = !forced;
	return rc;
}

static int no_rows(struct sc_fit_table *t)
{
	const char *seen[MAX_DEVICES_SHOWN], *names = "";
	size_t n = 0;

	for (t->row = 0; t->row < t->csv.n_rows && n < MAX_DEVICES_SHOWN; t->row++) {
		const char *name = text_of(t, "device");
		size_t j = 0;

		while (j < n && strcmp(name, seen[j]) != 0)
			j++;
		if (j < n || *name == '\0' || strcmp(name, t->opts->device) == 0)
			continue;
		names = sc_arena_printf(t->arena, "%s%s%s", names, n ? ", " : "", name);
		seen[n++] = name;
	}
	return sc_err_at(t->err, SC_EVALUE, t->csv.file, 0, 0,
			 "no row for %s%s; other devices in the table: %s", t->opts->device,
			 t->opts->n_where ? " that --where chooses" : "", n ? names : "none");
}

int sc_fit_set_read(struct sc_fit_table *t, struct sc_fit_set *out)
{
	const size_t n_rows = t->csv.n_rows;
	int rc = 0;

	if (sc_fit_takes_all(t->opts) && sc_csv_column(&t->csv, "device") < 0)
		return sc_err_at(t->err, SC_EFORMAT, t->csv.file, 1, 0,
				 "no column \"device\"; --leave-out %s needs it",
				 t->opts->leave_out);
	*out = (struct sc_fit_set){.n = 0};
	for (t->row = 0; t->row < n_rows; t->row++)
		out->n += is_chosen(t);
	if (out->n == 0)
		return no_rows(t);
	out->n_other = n_rows - out->n;
	out->rows = sc_arena_calloc(t->arena, out->n, sizeof(*out->rows));
	if (t->opts->kind == SC_FIT_COLLECTIVE)
		out->requests =
			sc_arena_calloc(t->arena, SC_FIT_MAX_NETWORKS, sizeof(*out->requests));
	out->n = 0;
	for (t->row = 0; t->row < n_rows && rc == 0; t->row++) {
		bool taken;

		if (!is_chosen(t))
			continue;
		rc = fit_row_read(t, out, &taken);
		if (rc == 0 && taken && out->rows[out->n].only) {
			out->n_forced++;
			taken = false;
		}
		out->n += rc == 0 && taken;
	}
	for (size_t i = 0; i < out->n_origins; i++) {
		struct sc_fit_origin *o = &out->origin[i];
		size_t n = 0;

		for (size_t j = 0; j < out->n_origins; j++)
			n += out->origin[j].source == o->source;
		o->label = out->source[o->source];
		if (n > 1)
			o->label = sc_arena_printf(t->arena, "%s%s%s%s%s", o->label,
						   *o->label && o->op_name ? " " : "",
						   o->op_name ? o->op_name : "", o->pass ? " " : "",
						   o->pass ? o->pass : "");
	}
	return rc;
}

/* Rows of a measured table by the profiles as they are shipped: what `validate --kind` compares. */

/* Device, set and request are row's. */
static int guess_row(const struct sc_fit_table *t, struct sc_fit_set *set,
		     const struct sc_fit_row *row, struct sc_fit_guess *out)
{
	struct sc_fit_row own = *row;
	struct sc_device device = *set->device[row->device];
	struct sc_fabric fabric;
	const struct sc_fit_model model = {.kind = t->opts->kind,
					   .devices = &device,
					   .fabrics = &fabric,
					   .profile = set->requests[0].fabric_profile};
	double spread_frac;
	int rc = 0;

	own.device = 0;
	if (model.kind == SC_FIT_COLLECTIVE)
		rc = sc_fabric_from_request(&set->requests[row->request], &fabric, t->err);
	if (rc)
		return rc;
	out->time_us = sc_fit_predict_us(&model, &own, &spread_frac);
	out->low_us = out->time_us * exp(-SC_Z_CENTRAL_80 * spread_frac);
	out->high_us = out->time_us * exp(SC_Z_CENTRAL_80 * spread_frac);
	out->measured_us = row->time_us;
	out->warning = row->warning;
	return 0;
}

int sc_fit_guess_rows(const struct sc_fit_opts *opts, const size_t *rows, size_t n,
		      struct sc_arena *arena, struct sc_fit_guess *out, struct sc_err *err)
{
	struct sc_fit_row row;
	struct sc_fit_set set = {.rows = &row}; /* of one row; devices are kept */
	struct sc_fabric_profile profile;
	struct sc_fit_table table;
	unsigned device;
	int rc = sc_fit_table_init(opts, arena, &table, err);

	if (rc == 0 && sc_csv_column(opts->table, "device") < 0)
		rc = sc_err_at(err, SC_EFORMAT, opts->table->file, 1, 0,
			       "no column \"device\"; --kind %s needs it",
			       sc_fit_kind_names[opts->kind]);
	if (rc == 0)
		rc = sc_fabric_profile_load("default", arena, &profile, err);
	set.requests = sc_arena_calloc(arena, 1, sizeof(*set.requests));
	for (size_t i = 0; i < n && rc == 0; i++) {
		struct sc_arena_mark mark = sc_arena_mark(arena);
		struct sc_err own = {.code = SC_OK};
		bool taken;

		out[i] = (struct sc_fit_guess){.skipped = NULL};
		table.err = &own;
		table.row = rows[i];
		/* of a GPU that no profile is of, or that is not said */
		if (find_device(&table, &set, &device)) {
			sc_arena_rewind(arena, mark);
			out[i].skipped = sc_arena_strdup(arena, own.text);
			continue;
		}
		set.n_sources = set.n_origins = set.n_requests = 0;
		set.n_empty = set.n_forced = set.n_bound = 0;
		rc = fit_row_read(&table, &set, &taken);
		if (rc && !own.line) {
			sc_err_at(err, own.code, SC_AT(&own), "%s", own.text);
			break;
		}
		table.err = err;
		set.requests[0].fabric_profile = profile;
		if (rc) {
			out[i].bad = memcpy(sc_arena_alloc(arena, sizeof(own)), &own, sizeof(own));
			rc = 0;
		} else if (taken) {
			rc = guess_row(&table, &set, &row, &out[i]);
		} else {
			out[i].skipped =
				set.n_empty ? "time_us is empty"
				: set.n_bound
					? "waiting may be in its time (quality bound)"
					: "its algorithm was forced, and is not one of the model's";
		}
	}
	return rc;
}
