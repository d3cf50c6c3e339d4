/* Chooses the GPUs of a node for jobs that run at once, each with its own collective: on links
 * without a switch the choice decides how many rings a job has, and whose rings share links (MAPA,
 * Ranganath et al., SC 2021). */
#pragma once

#include "models/collective/collective.h"

enum { SC_PLACE_MOST_JOBS = 8 };
struct sc_placed_job {
	int n, gpus[SC_WIRING_MOST]; /* rising */
	double gbps;                 /* of its rings, beside the others; 0: of one GPU */
	double time_us;              /* of the collective */
};
struct sc_placement {
	struct sc_placed_job jobs[SC_PLACE_MOST_JOBS];
	double sum_us, longest_us;
};
struct sc_collective_place_opts {
	enum sc_collective kind; /* one that goes around in rings */
	double bytes;
	const struct sc_fabric *fabric;
	const int *sizes; /* GPUs of each job */
	size_t n;
};
struct sc_collective_place {
	const struct sc_collective_place_opts *opts; /* what was asked */
	struct sc_placement in_turn; /* each job takes the first GPUs that are free */
	struct sc_placement best; /* of all: the least sum of times, of these the least longest */
	size_t n_tried;
};
/* SC_EUNSUPPORTED means that there is nothing to choose on these links, or too much. */
int sc_collective_place(const struct sc_collective_place_opts *opts,
			struct sc_collective_place *out, struct sc_err *err);
