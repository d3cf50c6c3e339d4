/* Rows of a measured table as shapes of ops. The columns are those of the op's shape; rows of other
 * devices, and those that --where leaves out, are counted and passed over. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fields.h"
#include "base/num.h"
#include "base/units.h"
#include "models/fit_priv.h"

enum { MAX_DEVICES_SHOWN = 8 };
#define MAX_SIZE 1e12
#define MAX_TIME_US 1e12
/* A cache is not this many times faster than memory: of what fits in it, the bound is this much lower. */
#define CACHE_GAIN 8.0
#define BACKWARD_ATTENTION_FLOP 2.5 /* of forward; five products against two */
/* Mixed-precision Adam: 4 + 3 * 4 bytes read, 3 * 4 + 2 written a parameter. */
#define ADAM_BYTES 30.0

static const char *const GEMM_DIMS[] = {"batch", "m", "n", "k", NULL};
static const char *const ATTENTION_DIMS[] = {"batch", "heads", "seq", "head_dim", NULL};
static const char *const ROWWISE_DIMS[] = {"rows", "cols", NULL};
static const char *const OPTIMIZER_DIMS[] = {"params", NULL};
static const char *const HOST_DIMS[] = {"launches", NULL};
static const char *const COLLECTIVE_DIMS[] = {"bytes", "ranks", "nodes", NULL};
static const char *const *const DIMS[SC_N_FIT_KINDS] = {
	[SC_FIT_GEMM] = GEMM_DIMS,       [SC_FIT_ATTENTION] = ATTENTION_DIMS,
	[SC_FIT_ROWWISE] = ROWWISE_DIMS, [SC_FIT_OPTIMIZER] = OPTIMIZER_DIMS,
	[SC_FIT_HOST] = HOST_DIMS,       [SC_FIT_COLLECTIVE] = COLLECTIVE_DIMS,
};
static const struct sc_name DTYPES[] = {
	{"fp32", SC_FP32}, {"tf32", SC_TF32}, {"fp16", SC_FP16},
	{"bf16", SC_BF16}, {"fp8", SC_FP8},   {0},
};
static const struct sc_name PASSES[] = {{"fwd", 0}, {"bwd", 1}, {0}};
static const struct sc_name YES_NO[] = {{"false", 0}, {"true", 1}, {0}};
static const struct sc_name GEMM_OPS[] = {{"linear", 0}, {"bmm", 1}, {0}};
static const struct sc_name ATTENTION_OPS[] = {{"flash", 0}, {0}};

/* Elements read and written for one element of the result. Backward reads the incoming gradient and
 * what forward saved. */
struct traffic {
	const char *op;
	double read[2], write[2]; /* fwd, bwd */
};
static const struct traffic TRAFFIC[] = {
	{"add", {2, 1}, {1, 2}},       {"gelu", {1, 2}, {1, 1}},    {"softmax", {1, 2}, {1, 1}},
	{"layernorm", {1, 2}, {1, 1}}, {"rmsnorm", {1, 2}, {1, 1}},
};
enum { N_TRAFFIC = sizeof(TRAFFIC) / sizeof(TRAFFIC[0]) };

/* ---- cells ---- */

static int cell_error(const struct sc_fit_table *t, size_t row, const char *column,
		      const char *expected, struct sc_err *err)
{
	int col = sc_csv_column(t->csv, column);

	return sc_err_at(err, SC_EVALUE, t->csv->file, t->csv->line[row], 0,
			 "%s: expected %s, got \"%.64s\"", column, expected,
			 sc_csv_cell(t->csv, row, (size_t)col));
}

static int no_column(const struct sc_fit_table *t, const char *column, struct sc_err *err)
{
	return sc_err_at(err, SC_EFORMAT, t->csv->file, 1, 0,
			 "no column \"%s\"; --kind %s needs it", column,
			 sc_fit_kind_names[t->opts->kind]);
}

const char *sc_fit_text(const struct sc_fit_table *table, size_t row, const char *column)
{
	int col = sc_csv_column(table->csv, column);

	return col < 0 ? "" : sc_csv_cell(table->csv, row, (size_t)col);
}

int sc_fit_cell_read(const struct sc_fit_table *table, size_t row, const struct sc_fit_cell *cell,
		     double *out, struct sc_err *err)
{
	const char *text = sc_fit_text(table, row, cell->column);
	char expected[96];

	*out = cell->fallback;
	if (*text == '\0' && !isnan(cell->fallback))
		return 0;
	if (sc_csv_column(table->csv, cell->column) < 0)
		return no_column(table, cell->column, err);
	if (sc_parse_double(text, out) && *out >= cell->lower && *out <= cell->upper)
		return 0;
	snprintf(expected, sizeof(expected), "a number from %g to %g", cell->lower, cell->upper);
	return cell_error(table, row, cell->column, expected, err);
}

/* -1 for an empty cell or a missing column. */
static int read_name(const struct sc_fit_table *t, size_t row, const char *column,
		     const struct sc_name *names, int *out, struct sc_err *err)
{
	const char *text = sc_fit_text(t, row, column);
	char expected[128] = "";

	*out = -1;
	if (*text == '\0')
		return 0;
	for (const struct sc_name *name = names; name->name; name++) {
		size_t used = strlen(expected);

		if (strcmp(name->name, text) == 0) {
			*out = name->value;
			return 0;
		}
		snprintf(expected + used, sizeof(expected) - used, "%s%s", used ? " or " : "",
			 name->name);
	}
	return cell_error(t, row, column, expected, err);
}

static int read_dims(const struct sc_fit_table *t, size_t row, struct sc_fit_row *out,
		     struct sc_err *err)
{
	const char *const *names = DIMS[t->opts->kind];
	int rc = 0;

	for (size_t i = 0; names[i] && rc == 0; i++) {
		bool optional = strcmp(names[i], "batch") == 0 ||
				strcmp(names[i], "launches") == 0 || strcmp(names[i], "nodes") == 0;
		struct sc_fit_cell cell = {names[i], 1, MAX_SIZE, optional ? 1 : NAN};

		rc = sc_fit_cell_read(t, row, &cell, &out->dim[i], err);
	}
	return rc;
}

/* ---- bounds ---- */

static double memory_bound_us(const struct sc_device *device, double bytes)
{
	double us = sc_bytes_us(bytes, device->hbm_gbps);

	return bytes <= device->l2_mib * SC_BYTES_PER_MIB ? us / CACHE_GAIN : us;
}

/* fp32 units may be driven above their peak by packed math; the profile then says so. */
static double math_bound_us(const struct sc_device *device, enum sc_dtype dtype, double flop)
{
	double fp32 = device->peak_tflops.fp32 * fmax(1, device->gemm.eff_simt);

	return sc_flop_us(flop, fmax(sc_device_peak_tflops(device, dtype), fp32));
}

/* ---- kinds ---- */

static void set_gemm(const struct sc_device *device, int is_bmm, bool backward,
		     struct sc_fit_row *out)
{
	struct sc_gemm_shape s = {.batch = out->dim[0],
				  .m = out->dim[1],
				  .n = out->dim[2],
				  .k = out->dim[3],
				  .bmm = is_bmm == 1 || (is_bmm < 0 && out->dim[0] > 1)};
	double e = sc_dtype_bytes(out->op[0].dtype);
	double flop = 2 * s.batch * s.m * s.n * s.k;
	double bytes = e * s.batch * (s.m * s.k + s.k * s.n + s.m * s.n);

	out->op[0].u.gemm = s;
	out->n_ops = 1;
	if (backward) { /* gradients of the input and of the weight */
		out->op[1] = out->op[0];
		out->op[0].u.gemm = (struct sc_gemm_shape){
			.batch = s.batch, .m = s.m, .n = s.k, .k = s.n, .bmm = s.bmm};
		out->op[1].u.gemm = (struct sc_gemm_shape){
			.batch = s.batch, .m = s.k, .n = s.n, .k = s.m, .bmm = s.bmm};
		out->n_ops = 2;
	}
	out->bound_us = out->n_ops * fmax(math_bound_us(device, out->op[0].dtype, flop),
					  memory_bound_us(device, bytes));
}

static int read_gemm(const struct sc_fit_table *t, size_t row, bool backward,
		     struct sc_fit_row *out, struct sc_err *err)
{
	int is_bmm, rc = read_name(t, row, "op", GEMM_OPS, &is_bmm, err);

	if (rc == 0)
		set_gemm(t->device, is_bmm, backward, out);
	return rc;
}

static int read_attention(const struct sc_fit_table *t, size_t row, bool backward,
			  struct sc_fit_row *out, struct sc_err *err)
{
	struct sc_attention_shape *s = &out->op[0].u.attention;
	struct sc_fit_cell kv_heads = {"kv_heads", 1, MAX_SIZE, out->dim[1]};
	struct sc_fit_cell seq_kv = {"seq_kv", 1, MAX_SIZE, out->dim[2]};
	int op, causal, rc = read_name(t, row, "op", ATTENTION_OPS, &op, err);
	double flop, elements;

	if (rc == 0)
		rc = read_name(t, row, "causal", YES_NO, &causal, err);
	if (rc == 0)
		rc = sc_fit_cell_read(t, row, &kv_heads, &s->kv_heads, err);
	if (rc == 0)
		rc = sc_fit_cell_read(t, row, &seq_kv, &s->seq_kv, err);
	if (rc)
		return rc;
	s->batch = out->dim[0];
	s->heads = out->dim[1];
	s->seq_q = out->dim[2];
	s->head_dim = out->dim[3];
	s->causal = causal == 1;
	s->backward = backward;
	out->n_ops = 1;
	flop = 4 * s->batch * s->heads * s->seq_q * s->seq_kv * s->head_dim;
	flop *= (s->causal ? 0.5 : 1) * (backward ? BACKWARD_ATTENTION_FLOP : 1);
	elements = 2 * s->batch * s->head_dim * (s->heads * s->seq_q + s->kv_heads * s->seq_kv);
	out->bound_us =
		fmax(math_bound_us(t->device, out->op[0].dtype, flop),
		     memory_bound_us(t->device, elements * sc_dtype_bytes(out->op[0].dtype)));
	return 0;
}

static void set_bytes(const struct sc_device *device, double read_bytes, double write_bytes,
		      struct sc_fit_row *out)
{
	out->op[0].u.rowwise = (struct sc_rowwise_shape){.read_bytes = read_bytes,
							 .write_bytes = write_bytes,
							 .rows = out->dim[0],
							 .cols = fmax(out->dim[1], 1),
							 .n_kernels = 1};
	out->n_ops = 1;
	out->bound_us = memory_bound_us(device, read_bytes + write_bytes);
}

static int read_rowwise(const struct sc_fit_table *t, size_t row, bool backward,
			struct sc_fit_row *out, struct sc_err *err)
{
	double n_bytes = out->dim[0] * out->dim[1] * sc_dtype_bytes(out->op[0].dtype);
	const char *op = sc_fit_text(t, row, "op");

	if (sc_csv_column(t->csv, "op") < 0)
		return no_column(t, "op", err);
	for (size_t i = 0; i < N_TRAFFIC; i++) {
		if (strcmp(op, TRAFFIC[i].op) != 0)
			continue;
		set_bytes(t->device, n_bytes * TRAFFIC[i].read[backward],
			  n_bytes * TRAFFIC[i].write[backward], out);
		return 0;
	}
	return cell_error(t, row, "op", "add, gelu, softmax, layernorm or rmsnorm", err);
}

static int read_optimizer(const struct sc_fit_table *t, size_t row, struct sc_fit_row *out,
			  struct sc_err *err)
{
	struct sc_fit_cell cell = {"bytes", 1, MAX_SIZE, ADAM_BYTES};
	double bytes;
	int rc = sc_fit_cell_read(t, row, &cell, &bytes, err);

	if (rc == 0)
		set_bytes(t->device, out->dim[0] * bytes, 0, out);
	return rc;
}

static int read_op(const struct sc_fit_table *t, size_t row, struct sc_fit_row *out,
		   struct sc_err *err)
{
	static const enum sc_op_kind kinds[SC_N_FIT_KINDS] = {
		[SC_FIT_GEMM] = SC_OP_GEMM,       [SC_FIT_ATTENTION] = SC_OP_ATTENTION,
		[SC_FIT_ROWWISE] = SC_OP_ROWWISE, [SC_FIT_OPTIMIZER] = SC_OP_OPTIMIZER,
		[SC_FIT_HOST] = SC_OP_HOST,       [SC_FIT_COLLECTIVE] = SC_OP_COLLECTIVE,
	};
	int dtype, pass, rc = read_name(t, row, "dtype", DTYPES, &dtype, err);

	if (rc == 0)
		rc = read_name(t, row, "pass", PASSES, &pass, err);
	if (rc)
		return rc;
	out->op[0] = (struct sc_op){.kind = kinds[t->opts->kind],
				    .dtype = dtype < 0 ? SC_FP16 : (enum sc_dtype)dtype};
	switch (t->opts->kind) {
	case SC_FIT_GEMM:
		return read_gemm(t, row, pass == 1, out, err);
	case SC_FIT_ATTENTION:
		return read_attention(t, row, pass == 1, out, err);
	case SC_FIT_ROWWISE:
		return read_rowwise(t, row, pass == 1, out, err);
	case SC_FIT_OPTIMIZER:
		return read_optimizer(t, row, out, err);
	default:
		out->launches = out->dim[0];
		return 0;
	}
}

/* ---- the set ---- */

static bool is_chosen(const struct sc_fit_table *t, const int *where_col, int device_col,
		      size_t row)
{
	if (strcmp(sc_csv_cell(t->csv, row, (size_t)device_col), t->opts->device) != 0)
		return false;
	for (size_t i = 0; i < t->opts->n_where; i++)
		if (strcmp(sc_csv_cell(t->csv, row, (size_t)where_col[i]),
			   t->opts->where[i].value) != 0)
			return false;
	return true;
}

static int find_columns(const struct sc_fit_table *t, int *where_col, int *device_col,
			struct sc_err *err)
{
	*device_col = sc_csv_column(t->csv, "device");
	if (*device_col < 0)
		return no_column(t, "device", err);
	if (sc_csv_column(t->csv, "time_us") < 0)
		return no_column(t, "time_us", err);
	for (size_t i = 0; i < t->opts->n_where; i++) {
		where_col[i] = sc_csv_column(t->csv, t->opts->where[i].column);
		if (where_col[i] < 0)
			return sc_err_at(err, SC_EUSAGE, t->csv->file, 1, 0,
					 "--where: no column \"%.64s\"", t->opts->where[i].column);
	}
	return 0;
}

static int find_source(struct sc_fit_set *set, const char *name, const struct sc_fit_table *t,
		       unsigned *out, struct sc_err *err)
{
	for (*out = 0; *out < set->n_sources; (*out)++)
		if (strcmp(set->source[*out], name) == 0)
			return 0;
	if (set->n_sources == SC_FIT_MAX_SOURCES)
		return sc_err_at(err, SC_ELIMIT, t->csv->file, 0, 0,
				 "more than %d sources of %s; choose some with --where source=NAME",
				 SC_FIT_MAX_SOURCES, t->opts->device);
	set->source[set->n_sources++] = name;
	return 0;
}

uint64_t sc_fit_hash(uint64_t hash, const void *bytes, size_t n)
{
	const unsigned char *at = bytes; /* FNV-1a */

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static const char *text_or_null(const struct sc_fit_table *t, size_t row, const char *column)
{
	const char *text = sc_fit_text(t, row, column);

	return *text ? text : NULL;
}

/* *taken: false where the row has no time, or is a collective of a forced algorithm. */
static int read_row(const struct sc_fit_table *t, size_t row, struct sc_fit_set *set, bool *taken,
		    struct sc_err *err)
{
	static const struct sc_fit_cell time = {"time_us", 1e-6, MAX_TIME_US, NAN};
	struct sc_fit_row *out = &set->rows[set->n];
	bool forced = false;
	int rc;

	*taken = *sc_fit_text(t, row, "time_us") != '\0';
	set->n_empty += !*taken;
	if (!*taken)
		return 0;
	*out = (struct sc_fit_row){.pass = text_or_null(t, row, "pass"),
				   .op_name = text_or_null(t, row, "op")};
	rc = sc_fit_cell_read(t, row, &time, &out->time_us, err);
	if (rc == 0)
		rc = read_dims(t, row, out, err);
	if (rc)
		return rc;
	out->shape = sc_fit_hash(UINT64_C(0xcbf29ce484222325), out->dim, sizeof(out->dim));
	rc = t->opts->kind == SC_FIT_COLLECTIVE ? sc_fit_sweep_read(t, row, set, out, &forced, err)
						: read_op(t, row, out, err);
	if (rc == 0 && !forced)
		rc = find_source(set, sc_fit_text(t, row, "source"), t, &out->source, err);
	set->n_forced += forced;
	*taken = !forced;
	return rc;
}

static int no_rows(const struct sc_fit_table *t, int device_col, struct sc_err *err)
{
	const char *seen[MAX_DEVICES_SHOWN], *names = "";
	size_t n = 0;

	for (size_t i = 0; i < t->csv->n_rows && n < MAX_DEVICES_SHOWN; i++) {
		const char *name = sc_csv_cell(t->csv, i, (size_t)device_col);
		size_t j = 0;

		while (j < n && strcmp(name, seen[j]) != 0)
			j++;
		if (j < n || *name == '\0' || strcmp(name, t->opts->device) == 0)
			continue;
		names = sc_arena_printf(t->arena, "%s%s%s", names, n ? ", " : "", name);
		seen[n++] = name;
	}
	return sc_err_at(err, SC_EVALUE, t->csv->file, 0, 0,
			 "no row for %s%s; other devices in the table: %s", t->opts->device,
			 t->opts->n_where ? " that --where chooses" : "", n ? names : "none");
}

int sc_fit_set_read(const struct sc_fit_table *table, struct sc_fit_set *out, struct sc_err *err)
{
	const struct sc_csv *csv = table->csv;
	int *where_col = sc_arena_calloc(table->arena, table->opts->n_where + 1, sizeof(int));
	int device_col, rc = find_columns(table, where_col, &device_col, err);

	if (rc)
		return rc;
	*out = (struct sc_fit_set){.dim_names = DIMS[table->opts->kind]};
	for (size_t i = 0; i < csv->n_rows; i++)
		out->n += is_chosen(table, where_col, device_col, i);
	if (out->n == 0)
		return no_rows(table, device_col, err);
	out->n_other = csv->n_rows - out->n;
	out->rows = sc_arena_calloc(table->arena, out->n, sizeof(*out->rows));
	if (table->opts->kind == SC_FIT_COLLECTIVE)
		out->requests =
			sc_arena_calloc(table->arena, SC_FIT_MAX_NETWORKS, sizeof(*out->requests));
	out->n = 0;
	for (size_t i = 0; i < csv->n_rows && rc == 0; i++) {
		bool taken;

		if (!is_chosen(table, where_col, device_col, i))
			continue;
		rc = read_row(table, i, out, &taken, err);
		out->n += rc == 0 && taken;
	}
	return rc;
}
