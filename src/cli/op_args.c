/* Each kind of operation has a table of keys, whose values make the op that its model times. */
#include "cli/op_args.h"

#include <string.h>

#include "cli/network.h"
#include "cli/start.h"
#include "core/embedding/reuse.h"
#include "models/embedding_kernel.h"
#include "models/rowwise.h"

#define MAX_SIZE 1e12
enum { MAX_KEYS = 16, MAX_RANKS = 1 << 20 };
/* Mixed-precision Adam: gradient, master weight and two moments read; the three and the 16-bit
 * weight written: 4 + 3 * 4 + 3 * 4 + 2 bytes. */
#define ADAM_BYTES 30.0

static const struct sc_name PASSES[] = {{"fwd", 0}, {"bwd", 1}, {0}};
static const struct sc_name ROWWISE_OPS[] = {
	{"layernorm", SC_ROW_LAYERNORM}, {"gelu", SC_ROW_GELU},
	{"softmax", SC_ROW_SOFTMAX},     {"add", SC_ROW_ADD},
	{"rmsnorm", SC_ROW_RMSNORM},     {0},
};
static const struct sc_name COLLECTIVES[] = {
	{"all_reduce", SC_ALL_REDUCE},
	{"all_gather", SC_ALL_GATHER},
	{"reduce_scatter", SC_REDUCE_SCATTER},
	{"broadcast", SC_BROADCAST},
	{"all_to_all", SC_ALL_TO_ALL},
	{"send_recv", SC_SEND_RECV},
	{"reduce", SC_REDUCE},
	{"gather", SC_GATHER},
	{"scatter", SC_SCATTER},
	{0},
};

#define KEY(key_, type_, member) \
	.key = key_, .type = type_, .offset = offsetof(struct sc_op_args, member)
#define SIZE(key_, member, lo, is_required)                                 \
	{                                                                   \
		KEY(key_, SC_F_DOUBLE, member), .min = lo, .max = MAX_SIZE, \
						.required = is_required     \
	}
#define CHOICE(key_, member, table)                          \
	{                                                    \
		KEY(key_, SC_F_ENUM, member), .names = table \
	}
#define COUNT(key_, member, is_required)                                                         \
	{                                                                                        \
		KEY(key_, SC_F_INT, member), .min = 1, .max = MAX_RANKS, .required = is_required \
	}

static const struct sc_field GEMM_FIELDS[] = {
	SIZE("m", m, 1, true),
	SIZE("n", n, 1, true),
	SIZE("k", k, 1, true),
	SIZE("batch", batch, 1, false),
	{KEY("sums_rows", SC_F_BOOL, sums_rows)},
	CHOICE("regime", load, sc_load_names),
	CHOICE("dtype", dtype, sc_dtype_names),
	{0},
};
static const struct sc_field ATTENTION_FIELDS[] = {
	SIZE("batch", batch, 1, true),
	SIZE("heads", heads, 1, true),
	SIZE("seq", seq, 1, true),
	SIZE("head_dim", head_dim, 1, true),
	SIZE("kv_heads", kv_heads, 1, false),
	SIZE("seq_kv", seq_kv, 1, false),
	{KEY("causal", SC_F_BOOL, causal)},
	CHOICE("pass", pass, PASSES),
	CHOICE("dtype", dtype, sc_dtype_names),
	{0},
};
static const struct sc_field DECODE_FIELDS[] = {
	SIZE("batch", batch, 1, true),          SIZE("heads", heads, 1, true),
	SIZE("kv_len", seq_kv, 1, true),        SIZE("head_dim", head_dim, 1, true),
	SIZE("kv_heads", kv_heads, 1, false),   CHOICE("kv_dtype", kv_dtype, sc_dtype_names),
	CHOICE("dtype", dtype, sc_dtype_names), {0},
};
static const struct sc_field ROWWISE_FIELDS[] = {
	SIZE("rows", rows, 1, true),
	SIZE("cols", cols, 1, true),
	CHOICE("op", rowwise, ROWWISE_OPS),
	CHOICE("pass", pass, PASSES),
	SIZE("read_bytes", read_bytes, 0, false),
	SIZE("write_bytes", write_bytes, 0, false),
	CHOICE("dtype", dtype, sc_dtype_names),
	{0},
};
static const struct sc_field OPTIMIZER_FIELDS[] = {
	SIZE("params", params, 1, true),
	SIZE("bytes", param_bytes, 1, false),
	{0},
};
#define TABLE_INT(key_, member, hi, is_required)                                                \
	{                                                                                       \
		KEY(key_, SC_F_INT, table.member), .min = 1, .max = hi, .required = is_required \
	}
static const struct sc_field EMBEDDING_FIELDS[] = {
	TABLE_INT("rows", rows, SC_MAX_TABLE_ROWS, true),
	TABLE_INT("dim", dim, SC_MAX_TABLE_DIM, true),
	SIZE("batch", batch, 1, true),
	SIZE("pooling", table.pooling, 1e-6, false),
	TABLE_INT("tables", count, SC_MAX_TABLES, false),
	SIZE("zipf", table.reuse.zipf, 0, false),
	{KEY("reuse", SC_F_STR, table.reuse.file)},
	CHOICE("pass", pass, PASSES),
	CHOICE("optimizer", optimizer, sc_row_optimizer_names),
	CHOICE("kernel", kernel, sc_embedding_kernel_names),
	CHOICE("dtype", dtype, sc_dtype_names),
	{0},
};
static const struct sc_field COLLECTIVE_FIELDS[] = {
	CHOICE("kind", collective, COLLECTIVES),
	SIZE("bytes", bytes, 1, true),
	COUNT("ranks", ranks, true),
	COUNT("nodes", nodes, false),
	CHOICE("dtype", dtype, sc_dtype_names),
	{0},
};

static const struct sc_op_kind_info OP_KINDS[] = {
	{"gemm", SC_OP_GEMM, GEMM_FIELDS},
	{"attention", SC_OP_ATTENTION, ATTENTION_FIELDS},
	{"attention_decode", SC_OP_ATTENTION, DECODE_FIELDS},
	{"rowwise", SC_OP_ROWWISE, ROWWISE_FIELDS},
	{"optimizer", SC_OP_OPTIMIZER, OPTIMIZER_FIELDS},
	{"embedding", SC_OP_EMBEDDING, EMBEDDING_FIELDS},
	{"collective", SC_OP_COLLECTIVE, COLLECTIVE_FIELDS},
	{0},
};

void sc_op_make(const struct sc_op_kind_info *info, const struct sc_op_args *a,
		const struct sc_device *device, struct sc_op *out)
{
	const enum sc_dtype dtype = (enum sc_dtype)a->dtype;
	const double n = a->rows * a->cols, dtype_bytes = sc_dtype_bytes(dtype);
	const bool decodes = info->fields == DECODE_FIELDS;
	const struct sc_embedding_use use = {.table = &a->table,
					     .samples = a->batch,
					     .dtype = dtype,
					     .output_bytes = dtype_bytes,
					     .optimizer = (enum sc_row_optimizer)a->optimizer,
					     .kernel = (enum sc_embedding_kernel)a->kernel};
	struct sc_rowwise_shape *row = &out->u.rowwise;

	*out = (struct sc_op){.kind = info->kind, .dtype = dtype};
	switch (info->kind) {
	case SC_OP_GEMM:
		out->u.gemm = (struct sc_gemm_shape){.batch = a->batch,
						     .m = a->m,
						     .n = a->n,
						     .k = a->k,
						     .bmm = a->batch > 1,
						     .sums_rows = a->sums_rows,
						     .load = (enum sc_load)a->load};
		break;
	case SC_OP_ATTENTION:
		out->u.attention = (struct sc_attention_shape){
			.batch = a->batch,
			.heads = a->heads,
			.kv_heads = a->kv_heads > 0 ? a->kv_heads : a->heads,
			.seq_q = decodes ? 1 : a->seq,
			.seq_kv = a->seq_kv > 0 ? a->seq_kv : a->seq,
			.head_dim = a->head_dim,
			.causal = a->causal,
			.backward = a->pass == 1,
			.cache_bytes = !decodes ? 0
				       : a->kv_dtype < 0
					       ? dtype_bytes
					       : sc_dtype_bytes((enum sc_dtype)a->kv_dtype)};
		break;
	case SC_OP_ROWWISE:
		sc_rowwise_shape_set((enum sc_rowwise_kind)a->rowwise, a->pass == 1, dtype_bytes,
				     a->rows, a->cols, row);
		/* Bytes that are given are all there is to the kernel. */
		if (a->read_bytes >= 0 || a->write_bytes >= 0)
			row->reread_bytes = row->flop = row->row_sm_us = 0;
		if (a->read_bytes >= 0)
			row->read_bytes = n * a->read_bytes;
		if (a->write_bytes >= 0)
			row->write_bytes = n * a->write_bytes;
		break;
	case SC_OP_OPTIMIZER:
		*row = (struct sc_rowwise_shape){.read_bytes = a->params * a->param_bytes,
						 .rows = 1,
						 .cols = a->params,
						 .n_kernels = 1};
		break;
	case SC_OP_EMBEDDING:
		out->u.embedding = sc_embedding_shape_of(device, &use, 1,
							 a->pass == 1 ? SC_EMBEDDING_BACKWARD
								      : SC_EMBEDDING_FORWARD);
		break;
	default:
		out->u.collective =
			(struct sc_collective_shape){.kind = (enum sc_collective)a->collective,
						     .bytes = a->bytes,
						     .dtype = dtype};
	}
}

const struct sc_op_kind_info *sc_op_kind_find(const char *name, struct sc_err *err)
{
	const char *names[MAX_KEYS], *near;
	enum sc_collective kind;
	size_t n = 0;

	for (; OP_KINDS[n].name; n++) {
		if (strcmp(OP_KINDS[n].name, name) == 0)
			return &OP_KINDS[n];
		names[n] = OP_KINDS[n].name;
	}
	near = sc_cli_collective(name, strlen(name), &kind) ? "collective kind=..."
							    : sc_nearest(name, names, n);
	sc_err_set(
		err, SC_EUSAGE,
		"unknown operation \"%.64s\"; expected gemm, attention, attention_decode, rowwise, "
		"optimizer, embedding or collective%s%s%s",
		name, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
	return NULL;
}

struct parser {
	const struct sc_op_kind_info *info;
	struct sc_arena *arena;
	struct sc_op_args args;
	bool is_given[MAX_KEYS];
};

static int parse_word(struct parser *p, const char *word, struct sc_err *err)
{
	const struct sc_op_kind_info *info = p->info;
	const char *key, *value;
	struct sc_err own = {.code = SC_OK};
	struct sc_field_place to;
	size_t index;
	int rc = sc_cli_split(word, info->name, "KEY=VALUE", p->arena, &key, &value, err);

	if (rc)
		return rc;
	to = sc_field_find(info->fields, key, p->arena);
	if (!to.field && sc_field_unknown(info->fields, &to, &own))
		return sc_err_set(err, SC_EUSAGE, "%s: %s", info->name, own.text);
	index = (size_t)(to.field - info->fields);
	if (p->is_given[index])
		return sc_err_set(err, SC_EUSAGE, "%s: %s is given twice", info->name, key);
	p->is_given[index] = true;
	rc = sc_field_set_text(&to, value, &p->args, err);
	/* Rows that are equally popular are a law, too; no exponent leaves it to `reuse`. */
	if (strcmp(key, "zipf") == 0 && !(p->args.table.reuse.zipf > 0))
		p->args.table.reuse.kind = SC_REUSE_UNIFORM;
	if (rc && err)
		err->code = SC_EUSAGE;
	return rc;
}

int sc_op_args_parse(const struct sc_op_kind_info *info, const char *const *words, size_t n_words,
		     struct sc_arena *arena, struct sc_op_args *out, struct sc_err *err)
{
	struct parser p = {.info = info, .arena = arena};
	int rc = 0;

	p.args = (struct sc_op_args){
		.dtype = SC_FP16,
		.kv_dtype = -1,
		.batch = 1,
		.read_bytes = -1,
		.write_bytes = -1,
		.rowwise = SC_ROW_LAYERNORM,
		.param_bytes = ADAM_BYTES,
		.table = {.pooling = 1},
	};
	for (size_t i = 0; i < n_words && rc == 0; i++)
		rc = parse_word(&p, words[i], err);
	for (size_t i = 0; info->fields[i].key && rc == 0; i++) {
		if (info->fields[i].required && !p.is_given[i])
			rc = sc_err_set(err, SC_EUSAGE, "%s needs %s=", info->name,
					info->fields[i].key);
	}
	if (rc == 0 && info->kind == SC_OP_EMBEDDING)
		rc = sc_reuse_resolve(&p.args.table.reuse, NULL, arena, err);
	if (rc == 0)
		*out = p.args;
	return rc;
}
