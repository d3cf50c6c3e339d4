/* A schedule that ran: when each pass did, what stages waited, what they held. */
#ifndef SC_PREDICT_SCHEDULE_RUN_H
#define SC_PREDICT_SCHEDULE_RUN_H

#include "predict/schedule/schedule.h"

/* What a stage holds, in any unit: before its passes; what a forward pass of a chunk adds; the share of it that is
 * left after the backward of the input. */
struct sc_stage_held {
	double before, each, kept;
};
struct sc_schedule_play {
	const struct sc_passes *passes;
	double *start, *end;        /* of each slot, [stage * stride + i] */
	struct sc_stage_held *held; /* by stage */
	const char *time_unit, *held_unit;
	/* of sc_schedule_measure */
	double makespan;
	/* The longest stage from its first pass to its last; and the share of it that stages, on average, have no
	 * work. */
	double longest, bubble_pct;
	double *peak; /* by stage: held at most */
};
/* An order alone: each pass as soon as its stage is free and its inputs are there. */
struct sc_passes_ran {
	uint32_t *n; /* by stage: slots that ran; where there are more, the next waits for ever */
	double *done
		[2]; /* end of forward and backward passes, [micro-batch * depth + virtual stage]; negative: none */
	double *start, *end;      /* of each slot, [stage * stride + i] */
	double makespan, longest; /* longest: stage, from its first pass to its last */
};
/* `times`: of each stage's passes, over its chunks; one send, the first's. Paired passes begin and end together, and
 * are said to run one after the other. Results are in `arena`. */
void sc_passes_run(const struct sc_passes *passes, const struct sc_pass_times *times,
		   struct sc_arena *arena, struct sc_passes_ran *out);

/* What a stage holds after its i-th slot, where `now` is what it held before it. */
double sc_play_held(const struct sc_schedule_play *play, uint32_t stage, uint32_t i, double now);
/* From the slots' times and what stages hold; `peak` in `arena`. */
void sc_schedule_measure(struct sc_schedule_play *play, struct sc_arena *arena);

#endif
