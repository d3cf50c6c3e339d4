/* Shared by the files that predict a pair: the graph that is built for a policy, the costs of its
 * nodes, and the policies of products that need the collective or make what it sends. */
#pragma once

#include "core/graph/graph.h"
#include "core/graph/timeline.h"
#include "predict/engine/simulate.h"
#include "study/c3/c3.h"

/* A kernel, and how much longer it takes on the SMs that a collective leaves it than on its own. */
struct squeezed_kernel {
	struct sc_cost cost;
	double squeeze;
};
struct sc_c3_study {
	struct sc_simulator *sim;
	struct sc_graph graph;
	struct sc_timeline timeline;
	/* These are of the graph being built: */
	uint32_t compute, comm, host; /* lanes */
	uint32_t first_kernel, last_kernel, first_comm, last_comm;
	double own_us[2]; /* of the kernels and of the collective, as the policy runs them, alone */
	/* These are of the pair being predicted: */
	const struct sc_c3_pair *pair;
	const struct sc_op *kernels; /* a layer's, or the product */
	size_t n_kernels;
	SC_VEC(struct squeezed_kernel) squeezed; /* scratch */
	double scale;      /* measured time of the kernels alone over the predicted one */
	double copy_scale; /* the same of the collective, where it is not above 1 */
	struct sc_c3_result result;
	struct sc_err *err;
};

void sc_c3_begin(struct sc_c3_study *s);
uint32_t sc_c3_add(struct sc_c3_study *s, uint32_t lane, const struct sc_cost *cost,
		   uint32_t after);
int sc_c3_run(struct sc_c3_study *s); /* sets the result's times and limits */
void sc_c3_scale(struct sc_cost *cost, double factor);
/* The cost of a kernel on its first `sms` SMs (0: all). */
void sc_c3_kernel_cost(const struct sc_c3_study *s, const struct sc_op *op, double sms,
		       struct sc_cost *out);
/* The cost of sc_interfere_copy; as a whole it is a call of the library. A collective that was
 * measured to be faster than predicted had faster links, which copies have, too; one that was
 * slower may be the library's alone (eight L20: NCCL takes three times as long as the bytes in a
 * fused product). */
void sc_c3_copy_cost(const struct sc_c3_study *s, double n_pieces, double n_copies,
		     struct sc_cost *out);
int sc_c3_run_serial(struct sc_c3_study *s);
/* n is the number of pieces, or of chunks; 0: as many as ranks. */
int sc_c3_run_chunked(struct sc_c3_study *s, double n);
int sc_c3_run_copied(struct sc_c3_study *s, double chunks);
int sc_c3_run_fused(struct sc_c3_study *s);
