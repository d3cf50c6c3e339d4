/* One model per op kind: shape and device in, cost out. Add a model: one .c file with a
 * `const struct sc_op_model`, one row in the list in op_model.c. */
#pragma once

#include "core/graph/cost.h"
#include "core/graph/op.h"
#include "core/machine/device.h"

/* The answer with its parts, for `stepcast op`. Times are kernel times, launches apart. */
struct sc_op_time {
	double total_us;
	double math_us, memory_us, fixed_us; /* the time by each limit alone */
	double host_us;                      /* over PCIe, at a time when nothing else does */
	double waves;
	double sm_frac;     /* share of the SMs it can use */
	double spread_frac; /* residual spread (1 sigma, relative) of the model here */
	const char *limit;  /* "math", "memory", "issue" (of instructions), "fixed" */
	const char *block;  /* of the device file, whose coefficients made it */
	bool measured;      /* they were, on this device */
	bool extrapolated; /* they were not, or the kernel is shorter or longer than those fitted */
};
struct sc_op_model {
	const char *name;
	void (*time)(const struct sc_device *device, const struct sc_op *op,
		     struct sc_op_time *out);
};
/* The model of a kind; collectives and host ops have none here. */
const struct sc_op_model *sc_op_model_get(enum sc_op_kind kind);
/* Makes time and demand vector a graph cost. */
void sc_op_cost(const struct sc_device *device, const struct sc_op *op, struct sc_cost *out);
/* Makes a graph cost of a time that is known. */
void sc_op_time_cost(const struct sc_op *op, const struct sc_op_time *time, struct sc_cost *out);
/* The FLOP of a fused kernel; a causal mask halves them. */
double sc_attention_flop(const struct sc_attention_shape *shape);
/* The slowdown of products on tensor cores where rows of so many elements are no multiple of
 * *unit_bytes; 1 where they are. */
double sc_gemm_rows_factor(const struct sc_device *device, enum sc_dtype dtype, double elements,
			   double *unit_bytes);
