/* The operations of `stepcast op`: their keys, and how they become shapes. */
#ifndef SC_CLI_OP_ARGS_H
#define SC_CLI_OP_ARGS_H

#include "core/embedding/embedding.h"
#include "core/machine/device.h"

/* Values of all kinds; each kind reads its own. */
struct sc_op_args {
	int dtype;
	double batch, m, n, k;
	double heads, kv_heads, seq, seq_kv, head_dim; /* kv_heads, seq_kv: 0 = as heads, seq */
	bool causal, sums_rows;
	int pass;                                   /* 1 = bwd */
	double rows, cols, read_bytes, write_bytes; /* bytes: an element; < 0 = the operation's */
	int rowwise;
	double params, param_bytes;
	int collective;
	double bytes;
	int64_t ranks, nodes;
	struct sc_table table; /* reuse resolved */
	int optimizer;
};
struct sc_op_kind_info {
	const char *name; /* NULL ends the list */
	enum sc_op_kind kind;
	const struct sc_field *fields;
	/* device: NULL for a collective */
	void (*to_op)(const struct sc_op_args *args, const struct sc_device *device,
		      struct sc_op *out);
};
extern const struct sc_op_kind_info sc_op_kinds[];
#endif
