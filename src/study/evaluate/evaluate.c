/* Resolves a candidate, chooses its schedule and plan, and predicts it. A plan is chosen for each
 * request anew, because it depends on all of the request. */
#include "study/evaluate/evaluate.h"

#include <stdlib.h>

struct sc_evaluator *sc_evaluator_create(struct sc_catalog *catalog)
{
	struct sc_evaluator *e = sc_xcalloc(1, sizeof(*e));

	e->catalog = catalog;
	e->predictor = sc_predictor_create();
	sc_predict_opts_init(&e->opts);
	return e;
}

static void drop_plan(struct sc_evaluator *e)
{
	if (e->plan.is_there)
		sc_chosen_plan_release(&e->plan);
	e->plan.is_there = false;
	e->opts.plan = NULL;
}

void sc_evaluator_destroy(struct sc_evaluator *e)
{
	if (!e)
		return;
	drop_plan(e);
	sc_predictor_destroy(e->predictor);
	free(e);
}

int sc_evaluate_resolve(struct sc_evaluator *e, const struct sc_candidate *candidate,
			struct sc_err *err)
{
	struct sc_config config = *candidate->base;
	int rc = 0;

	for (size_t i = 0; i < candidate->n && rc == 0; i++)
		rc = sc_config_set(&config, &candidate->settings[i], candidate->arena, err);
	if (rc == 0)
		rc = sc_resolve_request(&config, e->catalog, candidate->file, &e->request, err);
	if (rc || e->request.config.parallel.schedule != SC_SCHED_AUTO)
		return rc;
	return sc_evaluate_schedules(e, &config, candidate->file, err);
}

int sc_evaluate_floor(struct sc_evaluator *e, struct sc_err *err)
{
	return sc_predict_floor(e->predictor, &e->request, &e->opts, &e->floor, err);
}

int sc_evaluate_request(struct sc_evaluator *e, struct sc_err *err)
{
	int rc = 0;

	drop_plan(e);
	if (e->request.config.model.family == SC_DLRM)
		rc = sc_chosen_plan_init(&e->plan, &e->request, err);
	if (e->plan.is_there)
		e->opts.plan = &e->plan.made.plan;
	if (rc == 0)
		rc = sc_predict(e->predictor, &e->request, &e->opts, &e->prediction, err);
	if (rc == 0 && e->plan.is_there)
		sc_chosen_plan_warn(&e->plan, &e->prediction);
	return rc;
}

int sc_evaluate(struct sc_evaluator *e, const struct sc_candidate *candidate, struct sc_err *err)
{
	int rc = sc_evaluate_resolve(e, candidate, err);

	return rc ? rc : sc_evaluate_request(e, err);
}
