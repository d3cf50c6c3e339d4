/* Bubble and memory of a schedule that ran. */
#include "predict/schedule/schedule_run.h"

#include <math.h>

double sc_play_held(const struct sc_schedule_play *play, uint32_t stage, uint32_t i, double now)
{
	const struct sc_stage_held *held = &play->held[stage];

	return now + held->each * sc_slot_keeps(play->passes, stage, i, held->kept);
}

/* The work of a stage. */
static double measure_stage(struct sc_schedule_play *play, uint32_t s)
{
	size_t at = (size_t)s * play->passes->stride;
	uint32_t n = play->passes->n[s];
	double now = play->held[s].before, work = 0;

	play->peak[s] = now;
	for (uint32_t i = 0; i < n; i++) {
		now = sc_play_held(play, s, i, now);
		play->peak[s] = fmax(play->peak[s], now);
		play->makespan = fmax(play->makespan, play->end[at + i]);
		work += play->end[at + i] - play->start[at + i];
	}
	if (n)
		play->longest = fmax(play->longest, play->end[at + n - 1] - play->start[at]);
	return work;
}

void sc_schedule_measure(struct sc_schedule_play *play, struct sc_arena *arena)
{
	uint32_t pp = play->passes->map->pp;
	double work = 0;

	play->makespan = play->longest = play->bubble_pct = 0;
	play->peak = sc_arena_calloc(arena, pp, sizeof(*play->peak));
	for (uint32_t s = 0; s < pp; s++)
		work += measure_stage(play, s);
	if (play->longest > 0)
		play->bubble_pct = 100 * (1 - work / (pp * play->longest));
}
