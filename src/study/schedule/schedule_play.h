/* A schedule by itself, with times given for its passes: when each runs, what stages wait, what they hold. */
#ifndef SC_STUDY_SCHEDULE_PLAY_H
#define SC_STUDY_SCHEDULE_PLAY_H

#include "base/arena.h"
#include "predict/schedule/schedule.h"

/* sc_passes_run; memory in micro-batches: activations held, in those of all chunks of a replica. */
void sc_schedule_play(const struct sc_passes *passes, const struct sc_pass_times *times,
		      struct sc_arena *arena, struct sc_schedule_play *out);

/* Zero-bubble orders for the pass times at hand, stages that differ among them, and how far from the best possible
 * they may be: the longest stage from its first pass to its last, in an order; and no less than that in any order of so many
 * forward passes before the first backward. Stages have a chunk each. */
struct sc_optimized {
	double longest, bound;
	unsigned n_tried;
};
/* `passes` of zb-1p or zb-2p becomes the best of the orders that their heuristic writes for times that differ a
 * little from those of the shape: a climb from the order for the times themselves, so never worse than it, with
 * its memory. The same on every machine. */
void sc_schedule_optimize(const struct sc_schedule_shape *shape, struct sc_arena *arena,
			  struct sc_passes *passes, struct sc_optimized *out);

#endif
