/* Where the tables of a request go, for whoever predicts it: a plan from its file, or what the planner that it
 * names makes, which may search. */
#ifndef SC_STUDY_SHARD_CHOOSE_H
#define SC_STUDY_SHARD_CHOOSE_H

#include "predict/predict.h"
#include "study/shard/shard_objective.h"

/* Who makes the plan where the request names none: itself, or the software. */
enum sc_planner sc_request_planner(const struct sc_request *request);
struct sc_chosen_plan {
	struct sc_made_plan made;
	bool is_there;         /* the request is of a DLRM */
	struct sc_arena arena; /* of the plan's strings */
};
int sc_chosen_plan_init(struct sc_chosen_plan *chosen, const struct sc_request *request,
			struct sc_err *err);
void sc_chosen_plan_release(struct sc_chosen_plan *chosen);
/* What is to be said of how it was made. */
void sc_chosen_plan_warn(const struct sc_chosen_plan *chosen, struct sc_prediction *out);

#endif
