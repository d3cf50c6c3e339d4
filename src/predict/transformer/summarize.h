/* A simulated iteration as people read it: breakdown, path, classes, contributors, memory; and
 * whether a short run proves the steady state of a long one (steady_state.c). */
#pragma once

#include "predict/predict.h"
#include "predict/transformer/build_transformer.h"

/* A steady state that a run skips. */
struct sc_steady {
	struct sc_repeat *repeats; /* a period of each phase on the timeline */
	size_t n_repeats;
	struct sc_repeat *own; /* by class, where some need less than that; or NULL */
};
struct sc_run {
	const struct sc_transformer *tf;
	const struct sc_graph *graph;
	const struct sc_timeline *timeline;
	const struct sc_built *built;
	struct sc_steady steady;
	const double *in_flight; /* by stage; NULL: the passes say it */
};
void sc_run_op_info(const struct sc_run *run, struct sc_reading_input *out);
/* Returns the node that ends the iteration. */
uint32_t sc_run_last(const struct sc_run *run);
/* Adds memory, rates and warnings after the reading. */
void sc_run_conclude(const struct sc_run *run, struct sc_prediction *out);
/* Warns of sizes that kernels dislike, and of modules that are not there (transformer_warn.c). */
void sc_transformer_warn(const struct sc_request *request, struct sc_warnings *out);
/* Returns the micro-batches whose activations a stage holds at once at its peak, over its chunks.
 */
double sc_micro_batches_in_flight(const struct sc_run *run, int stage);
/* Finds the memory of a class that holds the activations of so many micro-batches. */
void sc_memory_of_class(const struct sc_run *run, uint32_t c, double in_flight,
			struct sc_memory *out);
/* Finds the memory of the class nearest to its capacity; run->built need only have passes. */
void sc_fullest_memory(const struct sc_run *run, struct sc_memory *out);

/* An iteration that ran, with what it leaves out. */
struct sc_steady_run {
	const struct sc_run *run;
	double n_left_out; /* periods that are not run */
	struct sc_arena *arena;
};
/* Returns how many periods must be like the one before, where a schedule skips some. */
uint32_t sc_steady_n_to_check(const struct sc_schedule_shape *shape);
/* Says whether the run shows that those left out are as those that ran; `out` then says where they
 * belong. */
bool sc_steady_detect(const struct sc_steady_run *run, struct sc_steady *out);
