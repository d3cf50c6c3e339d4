/* Skipping the steady state of a long pipeline. With every duration fixed, a schedule is a max-plus
 * linear system: once all slot times of two consecutive periods differ by the same constant from
 * those of the period before, they do so until the first stage leaves its steady state; and so does a stage
 * that waits for no other and on which the end depends, if no other slot's times differ by more. A short run that
 * shows this gives the long run exactly. */
#ifndef SC_PREDICT_STEADY_H
#define SC_PREDICT_STEADY_H

#include <stdbool.h>

#include "core/graph/timeline.h"
#include "predict/account.h"
#include "predict/transformer/build_transformer.h"

struct sc_steady {
	struct sc_repeat *repeats; /* a period of each phase on the timeline */
	size_t n_repeats;
	struct sc_repeat *own; /* of each class, where some need less than that; or NULL */
};
/* The fewest micro-batches to simulate in place of `micro_batches` (congruent modulo the period), on the
 * `attempt`-th try; `micro_batches` itself when skipping cannot pay. */
uint32_t sc_steady_choose(const struct sc_schedule_shape *shape, uint32_t micro_batches,
			  unsigned attempt);
/* An iteration that ran; `last`: the node that ends it. */
struct sc_steady_run {
	const struct sc_transformer *tf;
	const struct sc_graph *graph;
	const struct sc_built *built;
	const struct sc_timeline *timeline;
	uint32_t last;
	double n_left_out; /* periods */
	struct sc_arena *arena;
};
bool sc_steady_detect(const struct sc_steady_run *run, struct sc_steady *out);

#endif
