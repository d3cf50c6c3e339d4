/* How long a collective takes between so many GPUs: all that the recording wing asks of the planning one. */
#ifndef SC_CORE_COLLECTIVE_TIME_H
#define SC_CORE_COLLECTIVE_TIME_H

#include "core/graph/op.h"

struct sc_collective_time {
	/* Alone, its ranks on as few nodes as can be. */
	double (*us)(const void *network, const struct sc_collective_shape *shape, int n_ranks);
	const void *network; /* borrowed */
};

#endif
