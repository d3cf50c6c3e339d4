/* Reads the rows of a table of measured pairs, predicts each, and scores times and speedups. */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/csv_rows.h"
#include "base/vec.h"
#include "core/config/config.h"
#include "core/machine/device.h"
#include "models/collective/collective.h"
#include "study/c3/c3.h"

enum { MAX_GPUS = 1024 };
#define MAX_NUMBER 1e15
/* Beside the kinds of sc_c3_kind_names, scripts/measure-c3 writes two, both independent, and as a
 * collective a copy on one GPU. */
enum { KIND_GEMM = SC_N_C3_KINDS, KIND_STREAM, LOCAL_COPY = SC_N_COLLECTIVES };
static const struct sc_name KINDS[] = {{"independent", SC_C3_INDEPENDENT},
				       SC_C3_DEPENDENT_KINDS,
				       {"gemm", KIND_GEMM},
				       {"stream", KIND_STREAM},
				       {0}};
static const struct sc_name COLLECTIVES[] = {{"all_reduce", SC_ALL_REDUCE},
					     {"all_gather", SC_ALL_GATHER},
					     {"reduce_scatter", SC_REDUCE_SCATTER},
					     {"broadcast", SC_BROADCAST},
					     {"all_to_all", SC_ALL_TO_ALL},
					     {"copy", LOCAL_COPY},
					     {0}};

/* The cells of a row; numbers that are not given are 0. */
struct cells {
	const char *device, *policy, *name;
	int kind, dtype, collective;
	int64_t gpus;
	double m, n, k, bytes, compute_us, comm_us, serial_us, overlapped_us, second_us, ctas,
		experts;
};
#define CELL(key_, member, type_) \
	.key = key_, .type = type_, .offset = offsetof(struct cells, member)
#define NUMBER(member)                                                                \
	{                                                                             \
		CELL(#member, member, SC_F_DOUBLE), .min = DBL_MIN, .max = MAX_NUMBER \
	}
#define NAME(member, names_)                                                        \
	{                                                                           \
		CELL(#member, member, SC_F_ENUM), .names = names_, .required = true \
	}
static const struct sc_field FIELDS[] = {
	{CELL("policy", policy, SC_F_STR)},
	{CELL("case", name, SC_F_STR)},
	{CELL("device", device, SC_F_STR), .required = true},
	NAME(dtype, sc_dtype_names),
	NAME(kind, KINDS),
	NAME(collective, COLLECTIVES),
	{CELL("gpus", gpus, SC_F_INT), .min = 1, .max = MAX_GPUS, .required = true},
	{CELL("m", m, SC_F_DOUBLE), .min = DBL_MIN, .max = MAX_NUMBER, .required = true},
	{CELL("bytes", bytes, SC_F_DOUBLE), .min = DBL_MIN, .max = MAX_NUMBER, .required = true},
	NUMBER(n),
	NUMBER(k),
	NUMBER(compute_us),
	NUMBER(comm_us),
	NUMBER(serial_us),
	NUMBER(overlapped_us),
	NUMBER(second_us),
	NUMBER(ctas),
	{CELL("experts", experts, SC_F_DOUBLE), .min = 1, .max = MAX_NUMBER},
	{0},
};

/* A device, and a node of its GPUs. */
struct machine {
	const char *id;
	struct sc_request request;
};
struct reader {
	const struct sc_csv *csv;
	struct sc_arena *arena;
	struct sc_csv_rows rows;
	struct cells cells; /* of the row that is read now */
	SC_VEC(struct machine *) machines;
	struct sc_c3_study *study;
};

static int find_machine(struct reader *r, const char *id, struct machine **out, struct sc_err *err)
{
	struct machine *m;
	int rc;

	for (size_t i = 0; i < r->machines.n; i++)
		if (strcmp(r->machines.at[i]->id, id) == 0) {
			*out = r->machines.at[i];
			return 0;
		}
	m = sc_arena_calloc(r->arena, 1, sizeof(*m));
	m->id = id;
	sc_config_init(&m->request.config);
	rc = sc_device_load(id, r->arena, &m->request.device, err);
	if (rc == 0)
		rc = sc_fabric_profile_load("default", r->arena, &m->request.fabric_profile, err);
	if (rc == 0)
		SC_VEC_PUSH(&r->machines, m);
	*out = m;
	return rc;
}

static int read_pair(struct reader *r, struct sc_c3_pair *out, struct sc_err *err)
{
	const struct cells *c = &r->cells;
	const bool is_local = c->collective == LOCAL_COPY;
	/* a copy on one GPU adds nothing, as a gather does not */
	const enum sc_collective collective =
		is_local ? SC_ALL_GATHER : (enum sc_collective)c->collective;
	const enum sc_dtype dtype = (enum sc_dtype)c->dtype;
	struct sc_fabric *fabric = sc_arena_calloc(r->arena, 1, sizeof(*fabric));
	enum sc_c3_kind kind = SC_C3_INDEPENDENT;
	struct sc_cluster *cluster;
	struct machine *machine;
	int rc;

	if (c->kind != KIND_GEMM && c->kind != KIND_STREAM &&
	    !sc_c3_kind_of(c->kind, collective, &kind))
		return sc_err_set(err, SC_EVALUE, "collective: %s does not go with the kind: %s",
				  sc_collective_names[collective], SC_C3_KIND_FITS);
	if (c->m < c->experts)
		return sc_err_set(err, SC_EVALUE,
				  "experts: more than the rows of the product, %.6g", c->m);
	if (c->kind != KIND_STREAM && !(c->n > 0 && c->k > 0))
		return sc_err_set(err, SC_EVALUE, "%s is empty", c->n > 0 ? "k" : "n");
	if (is_local ? c->gpus != 1 : c->gpus < 2)
		return sc_err_set(err, SC_EVALUE, "gpus: %s",
				  is_local ? "a copy is on one GPU; give 1"
					   : "a collective is of 2 or more");
	if (is_local && !(c->comm_us > 0))
		return sc_err_set(err, SC_EVALUE, "comm_us: give the time of a copy on one GPU");
	rc = find_machine(r, c->device, &machine, err);
	if (rc)
		return rc;
	*out = (struct sc_c3_pair){.kind = kind,
				   .gemm = {.kind = SC_OP_GEMM,
					    .dtype = dtype,
					    .u.gemm = {.batch = c->experts,
						       .m = c->m / c->experts,
						       .n = c->n,
						       .k = c->k}},
				   .compute_us = c->compute_us,
				   .comm_us = c->comm_us,
				   .second_us = c->second_us};
	if (c->kind == KIND_STREAM) { /* two numbers read and one written for each of m */
		out->gemm.kind = SC_OP_ROWWISE;
		out->gemm.u.rowwise =
			(struct sc_rowwise_shape){.read_bytes = 2 * c->m * sc_dtype_bytes(dtype),
						  .write_bytes = c->m * sc_dtype_bytes(dtype),
						  .n_kernels = 1};
	}
	out->transfer = (struct sc_transfer){
		.device = &machine->request.device,
		.fabric = is_local ? NULL : fabric,
		.shape = {collective, c->bytes, dtype},
		.n_ranks = (int)c->gpus,
		.local_us = is_local ? c->comm_us : 0,
		.local_blocks = c->ctas,
		.channels = c->ctas,
	};
	/* All GPUs are one node. */
	cluster = &machine->request.config.cluster;
	machine->request.config.gpus = cluster->gpus_per_node = cluster->scale_up_gpus = c->gpus;
	cluster->nics_per_node = 0;
	return is_local ? 0 : sc_fabric_from_request(&machine->request, fabric, NULL);
}

static int read_cells(struct reader *r, size_t row, struct sc_err *err)
{
	r->cells = (struct cells){.name = "", .policy = "", .experts = 1};
	return sc_csv_rows_get(&r->rows, row, &r->cells, err);
}

/* Predicts a row by c->policy; NULL: the row's own. */
static int predict_row(struct reader *r, struct sc_c3_case *c, struct sc_err *err)
{
	struct sc_c3_pair pair;
	int read = read_cells(r, c->row, err), rc;
	const bool is_own = !c->policy || strcmp(c->policy, r->cells.policy) == 0;

	c->name = r->cells.name;
	c->policy = c->policy ? c->policy : r->cells.policy;
	rc = sc_c3_choice_parse(c->policy, "policy: ", &c->choice, read ? NULL : err);
	rc = read ? read : rc;
	if (rc == 0)
		rc = read_pair(r, &pair, err);
	if (rc == 0)
		rc = sc_c3_predict(r->study, &pair, &c->choice, &c->result, err);
	if (rc)
		return rc;
	c->measured_us = is_own ? r->cells.overlapped_us : 0;
	if (r->cells.serial_us > 0 && c->measured_us > 0)
		c->measured_speedup = r->cells.serial_us / c->measured_us;
	return 0;
}

static const char *cell_of(const struct reader *r, const struct sc_c3_case *c, const char *column)
{
	return strcmp(column, "policy") == 0
		       ? c->policy
		       : sc_csv_cell(r->csv, c->row, (size_t)sc_csv_column(r->csv, column));
}

static void score_pairs(const struct reader *r, const struct sc_c3_table *t,
			struct sc_c3_score *out)
{
	double *pair[4];
	size_t n[2] = {0};

	for (int i = 0; i < 4; i++)
		pair[i] = sc_arena_calloc(r->arena, t->n_cases + 1, sizeof(double));
	for (size_t i = 0; i < t->n_cases; i++) {
		const struct sc_c3_case *c = &t->cases[i];

		if (out->column && strcmp(cell_of(r, c, out->column), out->value) != 0)
			continue;
		out->n_rows++;
		if (c->skipped || !(c->measured_us > 0))
			continue;
		pair[0][n[0]] = c->result.time_us;
		pair[1][n[0]++] = c->measured_us;
		if (!(c->measured_speedup > 0))
			continue;
		pair[2][n[1]] = c->result.speedup;
		pair[3][n[1]++] = c->measured_speedup;
	}
	out->time = sc_accuracy_compute(pair[0], pair[1], n[0], r->arena);
	out->speedup = sc_accuracy_compute(pair[2], pair[3], n[1], r->arena);
}

/* Adds a group for each value of a column, by first appearance. */
static void add_groups(const struct reader *r, const char *column, struct sc_c3_table *t)
{
	size_t first = t->n_groups;

	for (size_t i = 0; i < t->n_cases; i++) {
		const char *value = cell_of(r, &t->cases[i], column);
		size_t g = first;

		while (g < t->n_groups && strcmp(t->groups[g].value, value) != 0)
			g++;
		if (g == t->n_groups)
			t->groups[t->n_groups++] =
				(struct sc_c3_score){.column = column, .value = value};
	}
}

static int find_columns(struct reader *r, bool has_policies, struct sc_err *err)
{
	static const char *const needed[] = {"n", "k", "policy"};

	r->rows = (struct sc_csv_rows){.csv = r->csv, .fields = FIELDS, .who = "a table of pairs"};
	for (size_t i = 0; i < (has_policies ? 3 : 2); i++)
		if (sc_csv_column(r->csv, needed[i]) < 0)
			return sc_err_at(err, SC_EVALUE, r->csv->file, 1, 0,
					 "no column \"%s\"; a table of pairs needs it", needed[i]);
	return sc_csv_rows_bind(&r->rows, r->arena, err);
}

/* No policy ends before the longer of the two alone does; clocks and noise get a tenth. */
static void check_times(const struct reader *r, const struct sc_c3_case *c, struct sc_c3_table *out)
{
	const double longer = 0.9 * fmax(r->cells.compute_us, r->cells.comm_us);
	const bool is_serial = r->cells.serial_us > 0 && r->cells.serial_us < longer;

	if (!is_serial && !(c->measured_us > 0 && c->measured_us < longer))
		return;
	if (out->n_impossible++ == 0)
		out->first_impossible = sc_arena_printf(
			r->arena,
			"%s:%u: %s %g is shorter than the longer of compute_us %g and comm_us %g",
			r->csv->file, r->csv->line[c->row],
			is_serial ? "serial_us" : "overlapped_us",
			is_serial ? r->cells.serial_us : c->measured_us, r->cells.compute_us,
			r->cells.comm_us);
}

int sc_c3_table_predict(const struct sc_csv *csv, const struct sc_c3_table_opts *opts,
			struct sc_arena *arena, struct sc_c3_table *out, struct sc_err *err)
{
	struct reader r = {.csv = csv, .arena = arena};
	const size_t n = opts->n_policies ? opts->n_policies : 1;
	int rc = find_columns(&r, true, err);

	for (size_t i = 0; i < opts->n_by && rc == 0; i++)
		if (sc_csv_column(csv, opts->by[i]) < 0)
			rc = sc_err_set(err, SC_EUSAGE, "--by: the table has no column \"%.64s\"",
					opts->by[i]);
	if (rc)
		return rc;
	*out = (struct sc_c3_table){.csv = csv, .n_cases = csv->n_rows * n};
	out->cases = sc_arena_calloc(arena, out->n_cases + 1, sizeof(*out->cases));
	out->groups = sc_arena_calloc(arena, opts->n_by * out->n_cases + 1, sizeof(*out->groups));
	r.study = sc_c3_study_create();
	for (size_t i = 0; i < out->n_cases; i++) {
		struct sc_c3_case *c = &out->cases[i];
		struct sc_err own = {.code = SC_OK};

		c->row = i / n;
		c->policy = opts->n_policies ? opts->policies[i % n] : NULL;
		if (predict_row(&r, c, &own))
			c->skipped =
				sc_arena_printf(arena, "line %u: %s", csv->line[c->row], own.text);
		else
			check_times(&r, c, out);
	}
	for (size_t i = 0; i < opts->n_by; i++)
		add_groups(&r, opts->by[i], out);
	score_pairs(&r, out, &out->all);
	for (size_t i = 0; i < out->n_groups; i++)
		score_pairs(&r, out, &out->groups[i]);
	sc_c3_study_destroy(r.study);
	SC_VEC_RELEASE(&r.machines);
	return 0;
}

int sc_c3_table_pairs(const struct sc_csv *csv, struct sc_arena *arena, struct sc_c3_pairs *out,
		      struct sc_err *err)
{
	struct reader r = {.csv = csv, .arena = arena};
	struct sc_err own = {.code = SC_OK};
	int rc = find_columns(&r, false, err);

	if (rc == 0 && csv->n_rows == 0)
		rc = sc_err_at(err, SC_EVALUE, csv->file, 1, 0, "the table has no rows");
	for (size_t row = 0; rc == 0 && row < csv->n_rows; row++) {
		struct sc_c3_named named;

		rc = read_cells(&r, row, &own);
		named = (struct sc_c3_named){.name = r.cells.name};
		if (rc == 0)
			rc = read_pair(&r, &named.pair, &own);
		if (rc == 0 && r.cells.collective == LOCAL_COPY)
			rc = sc_err_set(
				&own, SC_EUNSUPPORTED,
				"collective: a copy on one GPU can be compared with what was "
				"measured (--measured) alone");
		if (rc)
			rc = sc_err_at(err, own.code, csv->file, csv->line[row], own.column, "%s",
				       own.text);
		SC_VEC_PUSH(&out->list, named);
	}
	SC_VEC_RELEASE(&r.machines);
	return rc;
}
