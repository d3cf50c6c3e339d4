/* Storage of a timeline; the simulator fills it. */
#include "core/graph/timeline.h"

#include <stdlib.h>

#include "base/arena.h"

void sc_timeline_resize(struct sc_timeline *timeline, size_t n)
{
	if (n > timeline->cap) {
		sc_timeline_release(timeline);
		timeline->ready_us = sc_xrealloc(NULL, n, sizeof(*timeline->ready_us));
		timeline->start_us = sc_xrealloc(NULL, n, sizeof(*timeline->start_us));
		timeline->end_us = sc_xrealloc(NULL, n, sizeof(*timeline->end_us));
		timeline->bound_by = sc_xrealloc(NULL, n, sizeof(*timeline->bound_by));
		timeline->reason = sc_xrealloc(NULL, n, sizeof(*timeline->reason));
		timeline->cap = n;
	}
	timeline->n = n;
	timeline->total_us = 0;
}

void sc_timeline_release(struct sc_timeline *timeline)
{
	free(timeline->ready_us);
	free(timeline->start_us);
	free(timeline->end_us);
	free(timeline->bound_by);
	free(timeline->reason);
	*timeline = (struct sc_timeline){0};
}

uint32_t sc_timeline_last(const struct sc_timeline *tl)
{
	uint32_t last = 0;

	for (uint32_t i = 1; i < tl->n; i++) {
		if (tl->end_us[i] > tl->end_us[last])
			last = i;
	}
	return last;
}
