/* Chooses the ranks of a request's tables for whoever predicts it: a plan is read from its file, or
 * made by the planner that the request names, which may search. */
#pragma once

#include "predict/predict.h"
#include "study/shard/shard_objective.h"

/* The planner that the request names, else the one that its software has by habit, else ours. */
enum sc_planner sc_request_planner(const struct sc_request *request);
struct sc_chosen_plan {
	struct sc_made_plan made;
	bool is_there;         /* the request is of a DLRM */
	struct sc_arena arena; /* of the plan's strings */
};
int sc_chosen_plan_init(struct sc_chosen_plan *chosen, const struct sc_request *request,
			struct sc_err *err);
void sc_chosen_plan_release(struct sc_chosen_plan *chosen);
/* Adds warnings about how the plan was made. */
void sc_chosen_plan_warn(const struct sc_chosen_plan *chosen, struct sc_prediction *out);
