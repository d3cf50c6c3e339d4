/* A schedule by itself, with times given for its passes: when each runs, what stages wait, what they hold. */
#ifndef SC_STUDY_SCHEDULE_PLAY_H
#define SC_STUDY_SCHEDULE_PLAY_H

#include "base/arena.h"
#include "base/err.h"
#include "predict/schedule/schedule.h"

struct sc_schedule_play {
	const struct sc_passes *passes;
	double *start, *end; /* of each slot, [stage * stride + i] */
	double makespan;
	/* The longest stage from its first pass to its last; and the share of it that the stage has no work. */
	double longest, bubble_pct;
	double *peak; /* by stage: activations held at most, in those of all its chunks of a replica */
};
/* `times`: of each stage's passes, over its chunks; one send, the first's. Paired passes begin and end together. Runs the engine. */
int sc_schedule_play(const struct sc_passes *passes, const struct sc_pass_times *times,
		     struct sc_arena *arena, struct sc_schedule_play *out, struct sc_err *err);

#endif
