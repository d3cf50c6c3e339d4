/* `parallel.schedule: auto`: the schedule, with its parameters, that is predicted to take the least time of those that
 * fit the memory. */
#ifndef SC_STUDY_SCHEDULE_CHOOSE_H
#define SC_STUDY_SCHEDULE_CHOOSE_H

#include "study/evaluate/evaluate.h"

/* The evaluator's request, which says auto, becomes that of the choice among the schedules of parallel.auto_among: what
 * none of their floors rules out is predicted. What is given of virtual_stages, chimera_replicas and waves stays. A
 * warning says what was chosen and what the second best loses. Where none fits, the one that needs least memory is
 * taken. Fails where no schedule can run. */
int sc_schedule_choose(struct sc_evaluator *evaluator, const struct sc_config *config,
		       const char *file, struct sc_err *err);

#endif
