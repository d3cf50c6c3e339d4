/* Tables of measured pairs: reads the rows, predicts each, scores times and speedups. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "base/vec.h"
#include "core/config/config.h"
#include "core/machine/device.h"
#include "models/collective.h"
#include "study/c3/c3_priv.h"

enum {
	COL_DEVICE,
	COL_GPUS,
	COL_DTYPE,
	COL_KIND,
	COL_M,
	COL_N,
	COL_K,
	COL_COLLECTIVE,
	COL_BYTES,
	COL_POLICY,
	N_NEEDED,
	COL_CASE = N_NEEDED,
	COL_COMPUTE,
	COL_COMM,
	COL_SERIAL,
	COL_OVERLAPPED,
	COL_CTAS,
	N_COLS
};
static const char *const NAMES[N_COLS] = {
	"device",  "gpus",       "dtype",         "kind",   "m",    "n",
	"k",       "collective", "bytes",         "policy", "case", "compute_us",
	"comm_us", "serial_us",  "overlapped_us", "ctas"};
/* What scripts/measure-c3 writes beside sc_c3_kind_names: both independent. */
enum { KIND_GEMM = SC_C3_GEMM_SCATTER + 1, KIND_STREAM };
static const struct sc_name MORE_KINDS[] = {{"gemm", KIND_GEMM}, {"stream", KIND_STREAM}, {0}};

struct reader {
	const struct sc_csv *csv;
	struct sc_arena *arena;
	int column[N_COLS];
	SC_VEC(struct sc_c3_machine *) machines;
	struct sc_c3_study *study;
};

static const char *cell(const struct reader *r, size_t row, int column)
{
	return r->column[column] < 0 ? "" : sc_csv_cell(r->csv, row, (size_t)r->column[column]);
}

static int bad_cell(const struct reader *r, size_t row, int column, struct sc_err *err)
{
	return sc_err_set(err, SC_EVALUE, "%s: unexpected \"%.64s\"", NAMES[column],
			  cell(r, row, column));
}

/* An empty cell is 0, which not all columns may be. */
static int read_number(const struct reader *r, size_t row, int column, double *out)
{
	const char *text = cell(r, row, column);

	*out = 0;
	if (!*text && column >= N_NEEDED)
		return 0;
	return sc_parse_double(text, out) && *out > 0 && *out < 1e15 ? 0 : -SC_EVALUE;
}

static int read_name(const struct reader *r, size_t row, int column, const struct sc_name *names)
{
	const char *text = cell(r, row, column);

	for (; names->name; names++)
		if (strcmp(names->name, text) == 0)
			return names->value;
	return -1;
}

/* A copy on one GPU. */
static bool is_local(const struct reader *r, size_t row)
{
	return strcmp(cell(r, row, COL_COLLECTIVE), "copy") == 0;
}

static int read_collective(const struct reader *r, size_t row)
{
	if (is_local(r, row))
		return SC_ALL_GATHER; /* as it, it adds nothing */
	for (int i = 0; i < SC_SEND_RECV; i++)
		if (strcmp(sc_collective_names[i], cell(r, row, COL_COLLECTIVE)) == 0)
			return i;
	return -1;
}

static int find_machine(struct reader *r, const char *id, struct sc_c3_machine **out,
			struct sc_err *err)
{
	struct sc_c3_machine *m;
	int rc;

	for (size_t i = 0; i < r->machines.n; i++)
		if (strcmp(r->machines.at[i]->id, id) == 0) {
			*out = r->machines.at[i];
			return 0;
		}
	m = sc_arena_calloc(r->arena, 1, sizeof(*m));
	rc = sc_c3_machine_load(m, id, r->arena, err);
	if (rc == 0)
		SC_VEC_PUSH(&r->machines, m);
	*out = m;
	return rc;
}

/* The numbers of a row; the first column that is wrong is named. */
static int read_numbers(const struct reader *r, size_t row, int kind, double number[N_COLS],
			struct sc_err *err)
{
	static const int columns[] = {COL_GPUS,   COL_M,          COL_BYTES, COL_COMPUTE, COL_COMM,
				      COL_SERIAL, COL_OVERLAPPED, COL_CTAS,  COL_N,       COL_K};
	const size_t n = sizeof(columns) / sizeof(columns[0]) - (kind == KIND_STREAM ? 2 : 0);
	const double least = is_local(r, row) ? 1 : 2, most = is_local(r, row) ? 1 : 1024;

	for (size_t i = 0; i < n; i++)
		if (read_number(r, row, columns[i], &number[columns[i]]))
			return bad_cell(r, row, columns[i], err);
	if (number[COL_GPUS] < least || number[COL_GPUS] > most || fmod(number[COL_GPUS], 1) > 0)
		return bad_cell(r, row, COL_GPUS, err);
	if (is_local(r, row) && !(number[COL_COMM] > 0))
		return sc_err_set(err, SC_EVALUE, "comm_us: give the time of a copy on one GPU");
	return 0;
}

/* Two numbers read and one written for each of m. */
static struct sc_op stream_op(double m, enum sc_dtype dtype)
{
	struct sc_op op = {.kind = SC_OP_ROWWISE, .dtype = dtype};

	op.u.rowwise = (struct sc_rowwise_shape){.read_bytes = 2 * m * sc_dtype_bytes(dtype),
						 .write_bytes = m * sc_dtype_bytes(dtype),
						 .n_kernels = 1};
	return op;
}

static struct sc_op gemm_op(const double number[N_COLS], enum sc_dtype dtype)
{
	struct sc_op op = {.kind = SC_OP_GEMM, .dtype = dtype};

	op.u.gemm = (struct sc_gemm_shape){
		.batch = 1, .m = number[COL_M], .n = number[COL_N], .k = number[COL_K]};
	return op;
}

static int read_pair(struct reader *r, size_t row, struct sc_c3_pair *out, struct sc_err *err)
{
	double number[N_COLS] = {0};
	int dtype = read_name(r, row, COL_DTYPE, sc_dtype_names);
	int kind = read_name(r, row, COL_KIND, sc_c3_kind_names);
	int collective = read_collective(r, row), rc;
	struct sc_c3_machine *machine;

	kind = kind < 0 ? read_name(r, row, COL_KIND, MORE_KINDS) : kind;
	if (dtype < 0 || kind < 0 || collective < 0)
		return bad_cell(r, row,
				dtype < 0  ? COL_DTYPE
				: kind < 0 ? COL_KIND
					   : COL_COLLECTIVE,
				err);
	if (kind < KIND_GEMM &&
	    !sc_c3_kind_fits((enum sc_c3_kind)kind, (enum sc_collective)collective))
		return sc_err_set(err, SC_EVALUE, "collective: %s does not go with the kind: %s",
				  sc_collective_names[collective], SC_C3_KIND_FITS);
	rc = read_numbers(r, row, kind, number, err);
	if (rc == 0)
		rc = find_machine(r, cell(r, row, COL_DEVICE), &machine, err);
	if (rc)
		return rc;
	*out = (struct sc_c3_pair){
		.kind = kind < KIND_GEMM ? (enum sc_c3_kind)kind : SC_C3_INDEPENDENT,
		.gemm = kind == KIND_STREAM ? stream_op(number[COL_M], (enum sc_dtype)dtype)
					    : gemm_op(number, (enum sc_dtype)dtype),
		.compute_us = number[COL_COMPUTE],
		.comm_us = number[COL_COMM]};
	out->transfer = (struct sc_transfer){
		.device = &machine->request.device,
		.shape = {(enum sc_collective)collective, number[COL_BYTES], (enum sc_dtype)dtype},
		.n_ranks = (int)number[COL_GPUS],
		.local_us = is_local(r, row) ? number[COL_COMM] : 0,
		.local_blocks = number[COL_CTAS],
	};
	if (is_local(r, row))
		return 0;
	return sc_c3_machine_fabric(machine, (int64_t)number[COL_GPUS], r->arena,
				    &out->transfer.fabric);
}

static int predict_row(struct reader *r, struct sc_c3_case *c, struct sc_err *err)
{
	struct sc_c3_pair pair;
	double serial = 0;
	int rc = sc_c3_choice_parse(cell(r, c->row, COL_POLICY), "policy: ", &c->choice, err);

	if (rc == 0)
		rc = read_pair(r, c->row, &pair, err);
	if (rc == 0)
		rc = sc_c3_predict(r->study, &pair, &c->choice, &c->result, err);
	if (rc)
		return rc;
	read_number(r, c->row, COL_OVERLAPPED, &c->measured_us);
	read_number(r, c->row, COL_SERIAL, &serial);
	if (serial > 0 && c->measured_us > 0)
		c->measured_speedup = serial / c->measured_us;
	return 0;
}

static bool is_in(const struct reader *r, const struct sc_c3_case *c, const struct sc_c3_score *s)
{
	return !s->column ||
	       strcmp(sc_csv_cell(r->csv, c->row, (size_t)sc_csv_column(r->csv, s->column)),
		      s->value) == 0;
}

static void score(const struct reader *r, const struct sc_c3_table *t, struct sc_c3_score *out)
{
	double *pair[4];
	size_t n[2] = {0};

	for (int i = 0; i < 4; i++)
		pair[i] = sc_arena_calloc(r->arena, t->n_cases + 1, sizeof(double));
	for (size_t i = 0; i < t->n_cases; i++) {
		const struct sc_c3_case *c = &t->cases[i];

		if (!is_in(r, c, out))
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

/* A group for each value of a column, by first appearance. */
static void add_groups(const struct reader *r, const char *column, struct sc_c3_table *t)
{
	size_t at = (size_t)sc_csv_column(r->csv, column), first = t->n_groups;

	for (size_t row = 0; row < r->csv->n_rows; row++) {
		const char *value = sc_csv_cell(r->csv, row, at);
		size_t g = first;

		while (g < t->n_groups && strcmp(t->groups[g].value, value) != 0)
			g++;
		if (g == t->n_groups)
			t->groups[t->n_groups++] =
				(struct sc_c3_score){.column = column, .value = value};
	}
}

static int find_columns(struct reader *r, int n_needed, struct sc_err *err)
{
	for (int i = 0; i < N_COLS; i++) {
		r->column[i] = sc_csv_column(r->csv, NAMES[i]);
		if (i < n_needed && r->column[i] < 0)
			return sc_err_at(err, SC_EVALUE, r->csv->file, 1, 0,
					 "the table has no column \"%s\"", NAMES[i]);
	}
	return 0;
}

static int check_by(const struct reader *r, const struct sc_c3_table_opts *opts, struct sc_err *err)
{
	for (size_t i = 0; i < opts->n_by; i++)
		if (sc_csv_column(r->csv, opts->by[i]) < 0)
			return sc_err_set(err, SC_EUSAGE, "--by: the table has no column \"%.64s\"",
					  opts->by[i]);
	return 0;
}

static void predict_rows(struct reader *r, struct sc_c3_table *out)
{
	for (size_t row = 0; row < r->csv->n_rows; row++) {
		struct sc_c3_case *c = &out->cases[row];
		struct sc_err own = {.code = SC_OK};

		c->row = row;
		c->name = r->column[COL_CASE] < 0 ? "" : cell(r, row, COL_CASE);
		if (predict_row(r, c, &own))
			c->skipped = sc_arena_strdup(r->arena, own.text);
	}
}

int sc_c3_table_predict(const struct sc_csv *csv, const struct sc_c3_table_opts *opts,
			struct sc_arena *arena, struct sc_c3_table *out, struct sc_err *err)
{
	struct reader r = {.csv = csv, .arena = arena};
	int rc = find_columns(&r, N_NEEDED, err);

	if (rc == 0)
		rc = check_by(&r, opts, err);
	if (rc)
		return rc;
	*out = (struct sc_c3_table){.csv = csv, .n_cases = csv->n_rows};
	out->cases = sc_arena_calloc(arena, csv->n_rows + 1, sizeof(*out->cases));
	out->groups = sc_arena_calloc(arena, opts->n_by * csv->n_rows + 1, sizeof(*out->groups));
	r.study = sc_c3_study_create();
	predict_rows(&r, out);
	for (size_t i = 0; i < opts->n_by; i++)
		add_groups(&r, opts->by[i], out);
	score(&r, out, &out->all);
	for (size_t i = 0; i < out->n_groups; i++)
		score(&r, out, &out->groups[i]);
	sc_c3_study_destroy(r.study);
	SC_VEC_RELEASE(&r.machines);
	return 0;
}

int sc_c3_table_pairs(const struct sc_csv *csv, struct sc_arena *arena, struct sc_c3_pairs *out,
		      struct sc_err *err)
{
	struct reader r = {.csv = csv, .arena = arena};
	struct sc_err own = {.code = SC_OK};
	int rc = find_columns(&r, COL_POLICY, err);

	if (rc == 0 && csv->n_rows == 0)
		rc = sc_err_at(err, SC_EVALUE, csv->file, 1, 0, "the table has no rows");
	for (size_t row = 0; rc == 0 && row < csv->n_rows; row++) {
		struct sc_c3_named named = {.name = cell(&r, row, COL_CASE)};

		rc = read_pair(&r, row, &named.pair, &own);
		if (rc == 0 && is_local(&r, row))
			rc = sc_err_set(
				&own, SC_EUNSUPPORTED,
				"collective: a copy on one GPU can be compared with what was "
				"measured (--measured) alone");
		if (rc)
			rc = sc_err_at(err, own.code, csv->file, csv->line[row], 0, "%s", own.text);
		SC_VEC_PUSH(&out->list, named);
	}
	SC_VEC_RELEASE(&r.machines);
	return rc;
}
