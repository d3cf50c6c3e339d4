/* Zero-bubble orders for the pass times at hand, stages that differ among them, and how far from the best possible
 * they may be. */
#ifndef SC_STUDY_SCHEDULE_OPTIMIZE_H
#define SC_STUDY_SCHEDULE_OPTIMIZE_H

#include "predict/schedule/schedule.h"

/* The longest stage from its first pass to its last, in an order; and no less than that in any order of so many
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
