/* The way from a config to its prediction, the same for every study and command: the config is
 * resolved, the schedule and the plan of its tables are chosen where it leaves them open, and it is
 * predicted. Studies differ only in their candidates and in what they read off each. */
#pragma once

#include "predict/predict.h"
#include "study/shard/shard_choose.h"

/* A candidate is settings over a base. */
struct sc_candidate {
	const struct sc_config *base;
	const char *file; /* that errors name, as sc_config_resolve has it */
	const struct sc_setting *settings;
	size_t n;
	struct sc_arena *arena; /* of what the settings hold; NULL without any */
};
/* One thread uses an evaluator; the caller may change opts between candidates. */
struct sc_evaluator {
	struct sc_catalog *catalog; /* the caller's */
	struct sc_predictor *predictor;
	struct sc_predict_opts opts;
	/* The last candidate's results: */
	struct sc_request request;
	struct sc_floor floor;
	struct sc_chosen_plan plan; /* opts.plan is this one's while it is there */
	struct sc_prediction prediction;
};
struct sc_evaluator *sc_evaluator_create(struct sc_catalog *catalog);
void sc_evaluator_destroy(struct sc_evaluator *evaluator);

/* Makes the request by sc_resolve_request; chooses the schedule with `parallel.schedule: auto`. */
int sc_evaluate_resolve(struct sc_evaluator *evaluator, const struct sc_candidate *candidate,
			struct sc_err *err);
/* The floor and the prediction of the request. */
int sc_evaluate_floor(struct sc_evaluator *evaluator, struct sc_err *err);
int sc_evaluate_request(struct sc_evaluator *evaluator, struct sc_err *err);
/* The request and its prediction. */
int sc_evaluate(struct sc_evaluator *evaluator, const struct sc_candidate *candidate,
		struct sc_err *err);

/* Chooses the schedule that `parallel.schedule: auto` leaves open (schedule_choose.c), among those
 * of parallel.auto_among: the request gets the schedule and parameters of the least predicted time
 * of those that fit the memory. Only candidates that no floor rules out are predicted. Given values
 * of virtual_stages, chimera_replicas and waves stay. A warning says what was chosen and what the
 * second best loses. Where none fits, the one that needs least memory is taken. It fails where no
 * schedule can run. */
int sc_evaluate_schedules(struct sc_evaluator *evaluator, const struct sc_config *config,
			  const char *file, struct sc_err *err);
