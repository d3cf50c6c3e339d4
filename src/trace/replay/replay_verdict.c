/* Finds what a step loses most by: gaps of the host, exposed communication, a slow rank, bubbles,
 * kernels bound by memory, copies, or waits. What it would take without is known for most; of
 * transfers, copies and memory it is simulated, for the largest alone. */
#include <math.h>

#include "trace/replay/replay_study.h"

#define LEAST_LOSS 0.05 /* of a step; below it nothing costs much */

static double mean_part(const struct sc_replay_result *r, enum sc_part part)
{
	double sum = 0;

	for (size_t i = 0; i < r->ranks.n; i++)
		sum += r->ranks.at[i].part_ms[part] / (double)r->ranks.n;
	return sum;
}

enum replay_pick sc_replay_find_worst_loss(struct sc_replay_result *r)
{
	const double bubble_ms = mean_part(r, SC_PART_PIPELINE);
	double cost_ms = 0, memory_ms = 0;

	for (size_t i = 0; i < r->ranks.n; i++) {
		memory_ms += r->ranks.at[i].memory_bound_ms / (double)r->ranks.n;
		if (r->reference_ms - r->ranks.at[i].without_ms > cost_ms) {
			cost_ms = r->reference_ms - r->ranks.at[i].without_ms;
			r->slowest = i;
		}
	}
	/* Others' wait for a slow rank is its cost, and neither a bubble nor chance. */
	const struct {
		double ms, without_ms;
	} losses[SC_N_LOSSES] = {
		[SC_LOSS_NONE] = {LEAST_LOSS * r->simulated_ms, NAN},
		[SC_LOSS_HOST] = {mean_part(r, SC_PART_HOST), r->no_gaps_ms},
		[SC_LOSS_COMM] = {mean_part(r, SC_PART_COMM), NAN},
		[SC_LOSS_STRAGGLER] = {cost_ms, r->reference_ms - cost_ms},
		[SC_LOSS_BUBBLE] = {bubble_ms - cost_ms, r->typical_ms},
		[SC_LOSS_MEMORY] = {memory_ms / 2, NAN}, /* at twice their speed */
		[SC_LOSS_COPIES] = {mean_part(r, SC_PART_MEMORY), NAN},
		[SC_LOSS_WAITS] = {mean_part(r, SC_PART_PEERS) - cost_ms, r->typical_ms},
	};

	for (int k = 0; k < SC_N_LOSSES; k++)
		if (losses[k].ms > losses[r->loss_by].ms)
			r->loss_by = (enum sc_replay_loss)k;
	r->loss_ms = r->loss_by == SC_LOSS_NONE     ? mean_part(r, SC_PART_COMPUTE)
		     : r->loss_by == SC_LOSS_MEMORY ? memory_ms
						    : losses[r->loss_by].ms;
	r->without_loss_ms = losses[r->loss_by].without_ms;
	return r->loss_by == SC_LOSS_COMM     ? PICK_TRANSFERS
	       : r->loss_by == SC_LOSS_COPIES ? PICK_COPIES
	       : r->loss_by == SC_LOSS_MEMORY ? PICK_MEMORY
					      : PICK_NONE;
}
