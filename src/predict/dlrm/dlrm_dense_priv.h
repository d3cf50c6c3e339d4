/* The kernels from which the files of a DLRM's dense part build their blocks: products and passes
 * over memory of one rank. */
#pragma once

#include "predict/dlrm/dlrm.h"
#include "predict/op_names.h"

/* The parameters that the ops of a block have in common. */
struct dense_part {
	const struct sc_dlrm *dlrm;
	const struct sc_dlrm_class *cls;
	const struct sc_model *model;
	const struct sc_dlrm_habits *habits;
	struct sc_block *block;
	enum sc_dtype dtype, storage;
	double b; /* samples */
	double e; /* bytes of an element */
};
/* Adds a product, or a pass, with p->b rows. */
void dense_gemm(const struct dense_part *p, enum sc_op_name name, double n, double k);
void dense_wgrad(const struct dense_part *p, enum sc_op_name name, double n, double k);
void dense_rowwise(const struct dense_part *p, enum sc_op_name name, double bytes, int n_kernels);

/* dlrm_hstu.c: adds parameters, FLOP and activations of model.hstu, and its kernels between lookups
 * and top MLP. */
void sc_hstu_sizes(struct sc_dlrm *dlrm);
void sc_hstu_ops(const struct dense_part *p, bool backward);
