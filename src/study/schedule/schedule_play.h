/* A schedule by itself, with times given for its passes: when each runs, what stages wait, what they hold. */
#ifndef SC_STUDY_SCHEDULE_PLAY_H
#define SC_STUDY_SCHEDULE_PLAY_H

#include "base/arena.h"
#include "base/err.h"
#include "predict/schedule/schedule_run.h"

/* `times`: of each stage's passes, over its chunks; one send, the first's. Paired passes begin and end together, and
 * are said to run one after the other. Memory in micro-batches: activations held, in those of all chunks of a replica.
 * Runs the engine. */
int sc_schedule_play(const struct sc_passes *passes, const struct sc_pass_times *times,
		     struct sc_arena *arena, struct sc_schedule_play *out, struct sc_err *err);

#endif
