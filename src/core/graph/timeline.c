/* Storage of a timeline; the simulator fills it. */
#include "core/graph/timeline.h"

#include <stdlib.h>

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

	for (uint32_t i = 1; i < tl->n; i++)
		if (tl->end_us[i] > tl->end_us[last])
			last = i;
	return last;
}
