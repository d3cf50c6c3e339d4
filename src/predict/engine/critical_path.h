/* The chain of nodes that decides when the last one ends, walked backwards over binding reasons.
 * Segments are contiguous and cover [0, total_us] exactly: each microsecond has one owner. */
#pragma once

#include "core/graph/graph.h"
#include "core/graph/timeline.h"

struct sc_segment {
	uint32_t node;
	uint32_t cost;  /* of its own work, or of the holder of the SMs it waited for */
	uint8_t reason; /* enum sc_reason: why this node could not start sooner */
	uint8_t gap;    /* enum sc_gap: the wait that this is; SC_GAP_NONE: work */
	double start_us, end_us;
};
struct sc_critical_path {
	SC_VEC(struct sc_segment) segments; /* in time order */
};
/* Adds a time on the path to its owners by owner_frac of the cost, the rest to OTHER; a gap goes to
 * its kind's owner. */
void sc_segment_own(const struct sc_graph *graph, const struct sc_segment *segment, double us,
		    double *owner_us);
/* Walks back from `last`, or if that is SC_NONE from the node that ends last (lowest id on a tie).
 */
void sc_critical_path_walk(const struct sc_graph *graph, const struct sc_timeline *timeline,
			   uint32_t last, struct sc_critical_path *path);
