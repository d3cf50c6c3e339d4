/* Plays a schedule by itself, with given times: when passes run, what stages wait and hold. */
#pragma once

#include "base/arena.h"
#include "predict/schedule/schedule.h"

/* Runs sc_passes_run; memory is in micro-batches: activations held, in all chunks of a replica. */
void sc_schedule_play(const struct sc_passes *passes, const struct sc_pass_times *times,
		      struct sc_arena *arena, struct sc_schedule_play *out);

/* The result of a search for zero-bubble orders for the pass times at hand: the longest stage from
 * its first pass to its last in the order found, and a lower bound of it in any order of so many
 * forward passes before the first backward. Stages have a chunk each. */
struct sc_optimized {
	double longest, bound;
	unsigned n_tried;
};
/* Makes `passes` of zb-1p or zb-2p the best of the orders that their heuristic writes for times
 * that differ a little from those of the shape: a climb from the order for the times themselves, so
 * never worse than it, with its memory. It is the same on every machine. */
void sc_schedule_optimize(const struct sc_schedule_shape *shape, struct sc_arena *arena,
			  struct sc_passes *passes, struct sc_optimized *out);
