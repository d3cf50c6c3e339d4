/* `parallel.schedule: auto`: the schedule, with its parameters, that is predicted to take the least time of those that
 * fit the memory. */
#ifndef SC_STUDY_SCHEDULE_CHOOSE_H
#define SC_STUDY_SCHEDULE_CHOOSE_H

#include "predict/predict.h"

struct sc_schedule_ask {
	const struct sc_config *config;
	struct sc_catalog *catalog;
	const char *file; /* that errors name, as sc_config_resolve has it */
	struct sc_predictor *predictor;
	const struct sc_predict_opts *opts;
};
/* sc_resolve_request, and with `auto` the choice among the schedules of parallel.auto_among: what none of their
 * floors rules out is predicted. What is given of
 * virtual_stages, chimera_replicas and waves stays. A warning says what was chosen and what the second best loses.
 * Where none fits, the one that needs least memory is taken. Fails where no schedule can run. */
int sc_resolve_chosen(const struct sc_schedule_ask *ask, struct sc_request *out,
		      struct sc_err *err);

#endif
