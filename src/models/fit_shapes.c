/* A row of a measured table as the shape of an op: which columns, what they may hold, and the time that
 * no machine of these peaks beats. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fields.h"
#include "base/fnv.h"
#include "base/units.h"
#include "models/fit_priv.h"
#include "models/rowwise.h"

#define MAX_SIZE 1e12
/* A cache is not this many times faster than memory: of what fits in it, the bound is this much lower. */
#define CACHE_GAIN 8.0
#define BACKWARD_ATTENTION_FLOP 2.5 /* of forward; five products against two */
/* Mixed-precision Adam: 4 + 3 * 4 bytes read, 3 * 4 + 2 written a parameter. */
#define ADAM_BYTES 30.0

static const char *const GEMM_DIMS[] = {"batch", "m", "n", "k", NULL};
static const char *const ATTENTION_DIMS[] = {"batch", "heads", "seq", "head_dim", NULL};
static const char *const ROWWISE_DIMS[] = {"rows", "cols", NULL};
static const char *const OPTIMIZER_DIMS[] = {"params", NULL};
static const char *const EMBEDDING_DIMS[] = {"tables", "rows", "dim", "batch", NULL};
static const char *const HOST_DIMS[] = {"launches", NULL};
static const char *const INTERFERENCE_DIMS[] = {"alone_us", "beside_frac", "blocks", "comm_blocks",
						NULL};
static const char *const COLLECTIVE_DIMS[] = {"bytes", "ranks", "nodes", NULL};
const char *const *const sc_fit_dims[SC_N_FIT_KINDS] = {
	[SC_FIT_GEMM] = GEMM_DIMS,
	[SC_FIT_ATTENTION] = ATTENTION_DIMS,
	[SC_FIT_ROWWISE] = ROWWISE_DIMS,
	[SC_FIT_OPTIMIZER] = OPTIMIZER_DIMS,
	[SC_FIT_EMBEDDING] = EMBEDDING_DIMS,
	[SC_FIT_HOST] = HOST_DIMS,
	[SC_FIT_COLLECTIVE] = COLLECTIVE_DIMS,
	[SC_FIT_INTERFERENCE] = INTERFERENCE_DIMS,
};
static const struct sc_name PASSES[] = {{"fwd", 0}, {"bwd", 1}, {0}};
static const struct sc_name YES_NO[] = {{"false", 0}, {"true", 1}, {0}};
static const struct sc_name GEMM_OPS[] = {{"linear", 0}, {"bmm", 1}, {0}};
static const struct sc_name ATTENTION_OPS[] = {{"flash", 0}, {0}};

int sc_fit_name_read(const struct sc_fit_table *t, const char *column, const struct sc_name *names,
		     int *out)
{
	const char *text = sc_fit_text(t, column);
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
	return sc_fit_cell_error(t, column, expected);
}

static int read_dims(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	const char *const *names = sc_fit_dims[t->opts->kind];
	int rc = 0;

	for (size_t i = 0; names[i] && rc == 0; i++) {
		bool optional = strcmp(names[i], "batch") == 0 ||
				strcmp(names[i], "launches") == 0 || strcmp(names[i], "nodes") == 0;
		struct sc_fit_cell cell = {names[i], t->opts->kind == SC_FIT_INTERFERENCE ? 0 : 1,
					   MAX_SIZE, optional ? 1 : NAN};

		rc = sc_fit_cell_read(t, &cell, &out->dim[i]);
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
		out->op[1].u.gemm = (struct sc_gemm_shape){.batch = s.batch,
							   .m = s.k,
							   .n = s.n,
							   .k = s.m,
							   .bmm = s.bmm,
							   .sums_rows = true};
		out->n_ops = 2;
	}
	out->bound_us = out->n_ops * fmax(math_bound_us(device, out->op[0].dtype, flop),
					  memory_bound_us(device, bytes));
}

static int read_gemm(const struct sc_fit_table *t, bool backward, struct sc_fit_row *out)
{
	int is_bmm, rc = sc_fit_name_read(t, "op", GEMM_OPS, &is_bmm);

	if (rc == 0)
		set_gemm(t->device, is_bmm, backward, out);
	return rc;
}

static int read_attention(const struct sc_fit_table *t, bool backward, struct sc_fit_row *out)
{
	struct sc_attention_shape *s = &out->op[0].u.attention;
	struct sc_fit_cell kv_heads = {"kv_heads", 1, MAX_SIZE, out->dim[1]};
	struct sc_fit_cell seq_kv = {"seq_kv", 1, MAX_SIZE, out->dim[2]};
	int op, causal, rc = sc_fit_name_read(t, "op", ATTENTION_OPS, &op);
	double flop, elements;

	if (rc == 0)
		rc = sc_fit_name_read(t, "causal", YES_NO, &causal);
	if (rc == 0)
		rc = sc_fit_cell_read(t, &kv_heads, &s->kv_heads);
	if (rc == 0)
		rc = sc_fit_cell_read(t, &seq_kv, &s->seq_kv);
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

static int read_rowwise(const struct sc_fit_table *t, bool backward, struct sc_fit_row *out)
{
	struct sc_rowwise_shape *s = &out->op[0].u.rowwise;
	const char *op = sc_fit_text(t, "op");

	if (sc_fit_column(t, "op") < 0)
		return sc_fit_no_column(t, "op");
	for (int kind = 0; kind < SC_N_ROWWISE_KINDS; kind++) {
		if (strcmp(op, sc_rowwise_names[kind]) != 0)
			continue;
		sc_rowwise_shape_set((enum sc_rowwise_kind)kind, backward,
				     sc_dtype_bytes(out->op[0].dtype), out->dim[0], out->dim[1], s);
		out->n_ops = 1;
		out->bound_us = memory_bound_us(t->device, s->read_bytes + s->write_bytes);
		return 0;
	}
	return sc_fit_cell_error(t, "op", "add, gelu, softmax, layernorm or rmsnorm");
}

static int read_optimizer(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	struct sc_fit_cell cell = {"bytes", 1, MAX_SIZE, ADAM_BYTES};
	double bytes;
	int rc = sc_fit_cell_read(t, &cell, &bytes);

	if (rc)
		return rc;
	bytes *= out->dim[0];
	out->op[0].u.rowwise = (struct sc_rowwise_shape){
		.read_bytes = bytes, .rows = out->dim[0], .cols = 1, .n_kernels = 1};
	out->n_ops = 1;
	out->bound_us = memory_bound_us(t->device, bytes);
	return 0;
}

static int read_op(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	static const enum sc_op_kind kinds[SC_N_FIT_KINDS] = {
		[SC_FIT_GEMM] = SC_OP_GEMM,
		[SC_FIT_ATTENTION] = SC_OP_ATTENTION,
		[SC_FIT_ROWWISE] = SC_OP_ROWWISE,
		[SC_FIT_OPTIMIZER] = SC_OP_OPTIMIZER,
		[SC_FIT_EMBEDDING] = SC_OP_EMBEDDING,
		[SC_FIT_HOST] = SC_OP_HOST,
		[SC_FIT_COLLECTIVE] = SC_OP_COLLECTIVE,
	};
	int dtype, pass, rc = sc_fit_name_read(t, "dtype", sc_dtype_names, &dtype);

	if (rc == 0)
		rc = sc_fit_name_read(t, "pass", PASSES, &pass);
	if (rc)
		return rc;
	out->op[0] = (struct sc_op){.kind = kinds[t->opts->kind],
				    .dtype = dtype < 0 ? SC_FP16 : (enum sc_dtype)dtype};
	switch (t->opts->kind) {
	case SC_FIT_GEMM:
		return read_gemm(t, pass == 1, out);
	case SC_FIT_ATTENTION:
		return read_attention(t, pass == 1, out);
	case SC_FIT_ROWWISE:
		return read_rowwise(t, pass == 1, out);
	case SC_FIT_OPTIMIZER:
		return read_optimizer(t, out);
	case SC_FIT_EMBEDDING:
		rc = sc_fit_embedding_read(t, pass == 1, out);
		out->bound_us = memory_bound_us(t->device,
						out->op[0].u.embedding.unique_rows * out->dim[2] *
							sc_dtype_bytes(out->op[0].dtype));
		return rc;
	default:
		out->launches = out->dim[0];
		return 0;
	}
}

static bool sums(const char *collective)
{
	return strcmp(collective, sc_collective_names[SC_ALL_REDUCE]) == 0 ||
	       strcmp(collective, sc_collective_names[SC_REDUCE_SCATTER]) == 0;
}

/* As `stepcast c3 --from` writes them. */
static int read_seen(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	const char *collective = sc_fit_text(t, "collective");
	const struct sc_fit_cell load = {"comm_load", 1e-3, 1, 1};
	struct sc_interfere_seen *seen = &out->seen;
	int computes, rc = sc_fit_name_read(t, "computes", YES_NO, &computes);

	if (rc == 0)
		rc = sc_fit_cell_read(t, &load, &seen->comm_load);
	if (rc == 0 && !(out->dim[0] > 0))
		rc = sc_fit_cell_error(t, "alone_us", "a time above 0");
	if (rc == 0 && out->dim[1] > 1)
		rc = sc_fit_cell_error(t, "beside_frac", "a share from 0 to 1");
	seen->alone_us = out->dim[0];
	seen->beside_frac = out->dim[1];
	seen->blocks = out->dim[2];
	seen->comm_blocks = out->dim[3];
	seen->computes = computes == 1;
	seen->sums = sums(collective);
	return rc;
}

/* Rows and columns of a tile of most products. */
#define TILE 128.0

/* A pair, as `c3 --measured` and scripts/measure-c3 have it; a kernel without n is no product. */
static int read_pair(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	static const struct sc_fit_cell cells[] = {{"compute_us", 1e-6, MAX_SIZE, NAN},
						   {"comm_us", 1e-6, MAX_SIZE, NAN},
						   {"m", 1, MAX_SIZE, NAN},
						   {"n", 0, MAX_SIZE, 0},
						   {"bytes", 1, MAX_SIZE, NAN},
						   {"gpus", 1, MAX_SIZE, 1},
						   {"ctas", 0, MAX_SIZE, 0}};
	enum { COMPUTE, COMM, M, N, BYTES, GPUS, CTAS, N_CELLS };
	struct sc_interfere_seen *seen = &out->seen;
	double x[N_CELLS];
	int rc = 0;

	for (int i = 0; i < N_CELLS && rc == 0; i++)
		rc = sc_fit_cell_read(t, &cells[i], &x[i]);
	if (rc)
		return rc;
	*seen = (struct sc_interfere_seen){
		.alone_us = x[COMPUTE],
		.comm_us = x[COMM],
		.beside_frac = fmin(1, x[COMM] / x[COMPUTE]),
		.blocks = x[N] > 0 ? ceil(x[M] / TILE) * ceil(x[N] / TILE) : 0,
		.comm_blocks = x[CTAS],
		.comm_load = sc_interfere_port_share(t->device, x[BYTES], x[GPUS], x[COMM]),
		.computes = x[N] > 0,
		.sums = sums(sc_fit_text(t, "collective")),
	};
	out->dim[0] = seen->alone_us;
	out->dim[1] = seen->beside_frac;
	out->dim[2] = seen->blocks;
	out->dim[3] = seen->comm_blocks;
	return 0;
}

int sc_fit_shape_read(const struct sc_fit_table *table, struct sc_fit_row *out)
{
	const bool pair = sc_fit_is_of_pairs(table);
	int rc = pair ? read_pair(table, out) : read_dims(table, out);

	out->shape = sc_fnv(SC_FNV_START, out->dim, sizeof(out->dim));
	if (pair)
		return rc;
	if (rc == 0 && table->opts->kind == SC_FIT_INTERFERENCE)
		rc = read_seen(table, out);
	else if (rc == 0 && table->opts->kind != SC_FIT_COLLECTIVE)
		rc = read_op(table, out);
	return rc;
}
