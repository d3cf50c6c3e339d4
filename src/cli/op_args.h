/* One operation in words: a kind, and keys with values as "m=8192", by tables of fields. */
#pragma once

#include "base/fields.h"
#include "core/embedding/embedding.h"
#include "core/graph/op.h"
#include "core/machine/device.h"

/* Values of all kinds; each kind reads its own. */
struct sc_op_args {
	int dtype, kv_dtype; /* kv_dtype: < 0 = as dtype */
	double batch, m, n, k;
	double heads, kv_heads, seq, seq_kv, head_dim; /* kv_heads, seq_kv: 0 = as heads, seq */
	bool causal, sums_rows;
	int load;
	int pass;                                   /* 1 = bwd */
	double rows, cols, read_bytes, write_bytes; /* bytes: an element; < 0 = the operation's */
	int rowwise;
	double params, param_bytes;
	int collective;
	double bytes;
	int64_t ranks, nodes;
	struct sc_table table; /* reuse resolved */
	int optimizer, kernel;
};
struct sc_op_kind_info {
	const char *name;
	enum sc_op_kind kind;
	const struct sc_field *fields;
};
/* Returns NULL and sets the error if there is no such kind. */
const struct sc_op_kind_info *sc_op_kind_find(const char *name, struct sc_err *err);
/* Takes defaults, then "key=value" texts; keys that are required must be given. */
int sc_op_args_parse(const struct sc_op_kind_info *info, const char *const *words, size_t n_words,
		     struct sc_arena *arena, struct sc_op_args *out, struct sc_err *err);
/* `device` may be NULL for a collective. */
void sc_op_make(const struct sc_op_kind_info *info, const struct sc_op_args *a,
		const struct sc_device *device, struct sc_op *out);
