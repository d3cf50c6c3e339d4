/* See the header. Descent by whole steps: moves come sorted by an estimate, under several weightings of the
 * phases since what overlaps is not known to it; of each list the first few are simulated. Where none
 * helps, the best plan is shaken and descended from again. */
#include "study/shard/shard_step.h"

#include <math.h>
#include <string.h>

#include "study/shard/shard_iteration.h"
#include "study/shard/shard_step_moves.h"

static const struct sc_phase_weights WEIGHTS[] = {
	{1, 1, 0.5}, {2, 1, 0.2}, {0.4, 1, 0.5}, {1, 0.3, 0.1}, {1, 1.5, 1.5},
};
enum {
	N_WEIGHTS = sizeof(WEIGHTS) / sizeof(WEIGHTS[0]),
	N_TRIED_OF_LIST = 4,
	N_SHAKES = 3,         /* moves of a shake */
	MAX_IDLE_SHAKES = 12, /* without gain: the end */
	MAX_SHAKE_RANK = 40   /* of the list */
};
#define LEAST_GAIN 1e-6      /* of the step */
#define LEAST_ESTIMATED 1e-4 /* of the estimate, where steps are equal */
#define DEFAULT_WORK 2e6
#define WORK_OF_SHARD 8.0 /* beside a node's */

struct descent {
	struct sc_step_search *q;
	struct sc_shard_model model;
	struct sc_shard_state s, best;
	struct sc_shard_plan trial;
	double best_ms, ms, estimate, work, end_s;
	bool *frozen;
	struct sc_rng rng;
	struct sc_step_hunt hunt;
	sc_step_moves moves;
	sc_step_moves tried; /* of the plan at hand */
};

void sc_step_search_init(struct sc_step_search *q)
{
	*q = (struct sc_step_search){.work = DEFAULT_WORK, .seed = 1};
}

static bool is_over(const struct descent *d)
{
	if (sc_search_is_stopped(d->q->watch))
		return true;
	if (d->end_s > 0)
		return sc_shard_now_s() >= d->end_s;
	return d->work <= 0;
}

int sc_step_simulate(const struct sc_step_search *q, const struct sc_shard_plan *plan,
		     struct sc_err *err)
{
	return sc_iteration_rate(q->predictor, q->request, plan, q->prediction, err);
}

static int simulate(struct descent *d, double *ms, struct sc_err *err)
{
	struct sc_step_search *q = d->q;
	int rc;

	sc_shard_state_plan(&d->s, &d->trial);
	rc = sc_step_simulate(q, &d->trial, err);
	if (rc)
		return rc;
	*ms = q->prediction->iteration_ms;
	d->work -= (double)q->prediction->n_nodes + WORK_OF_SHARD * (double)d->trial.shards.n;
	q->n_simulated++;
	return 0;
}

static bool same_move(const struct sc_step_move *x, const struct sc_step_move *y)
{
	return x->kind == y->kind && x->unit == y->unit && x->other == y->other &&
	       x->shard == y->shard && x->other_shard == y->other_shard && x->rank == y->rank &&
	       x->choice == y->choice;
}

static bool is_tried(const struct descent *d, const struct sc_step_move *move)
{
	for (size_t i = 0; i < d->tried.n; i++) {
		if (same_move(&d->tried.at[i], move))
			return true;
	}
	return false;
}

static bool is_gain(const struct descent *d, double ms, double estimate)
{
	if (ms < d->ms * (1 - LEAST_GAIN))
		return true;
	return ms <= d->ms * (1 + LEAST_GAIN / 10) &&
	       estimate < d->estimate * (1 - LEAST_ESTIMATED);
}

/* One move that helps, of one weighting's list. */
static int try_list(struct descent *d, const struct sc_phase_weights *w, bool *helped,
		    struct sc_err *err)
{
	int n_tried = 0, rc = 0;

	sc_step_moves_find(&d->hunt, w, &d->moves);
	for (size_t i = 0; i < d->moves.n && n_tried < N_TRIED_OF_LIST && rc == 0; i++) {
		const struct sc_step_move *move = &d->moves.at[i];
		double ms, estimate;

		if (is_tried(d, move))
			continue;
		if (is_over(d))
			break;
		sc_step_move_do(&d->hunt, move);
		n_tried++;
		rc = simulate(d, &ms, err);
		estimate = sc_phases_estimate(&d->s, &WEIGHTS[0]);
		if (rc == 0 && is_gain(d, ms, estimate)) {
			d->ms = ms;
			d->estimate = estimate;
			d->tried.n = 0;
			*helped = true;
			break;
		}
		sc_shard_state_change(&d->s, &d->hunt.change);
		SC_VEC_PUSH(&d->tried, *move);
	}
	return rc;
}

/* Until no weighting's list helps any more. */
static int descend(struct descent *d, struct sc_err *err)
{
	unsigned n_idle = 0, at = 0;

	d->estimate = sc_phases_estimate(&d->s, &WEIGHTS[0]);
	d->tried.n = 0;
	while (n_idle < N_WEIGHTS && !is_over(d)) {
		bool helped = false;
		int rc = try_list(d, &WEIGHTS[at], &helped, err);

		if (rc)
			return rc;
		n_idle = helped ? 0 : n_idle + 1;
		if (!helped)
			at = (at + 1) % N_WEIGHTS;
	}
	return 0;
}

static bool keep(struct descent *d)
{
	if (!(d->ms < d->best_ms * (1 - LEAST_GAIN)))
		return false;
	d->best_ms = d->ms;
	sc_shard_state_copy(&d->best, &d->s);
	return true;
}

/* Some moves at random, of those that cost least. */
static int shake(struct descent *d, struct sc_err *err)
{
	sc_shard_state_copy(&d->s, &d->best);
	sc_shard_state_sum_anew(&d->s);
	for (int i = 0; i < N_SHAKES; i++) {
		const struct sc_phase_weights *w = &WEIGHTS[sc_rng_below(&d->rng, N_WEIGHTS)];
		size_t n;

		sc_step_moves_find(&d->hunt, w, &d->moves);
		n = d->moves.n < MAX_SHAKE_RANK ? d->moves.n : MAX_SHAKE_RANK;
		if (n)
			sc_step_move_do(&d->hunt, &d->moves.at[sc_rng_below(&d->rng, n)]);
	}
	return simulate(d, &d->ms, err);
}

/* Tables of constraints, and those that other memories have a part in. */
static void freeze(struct descent *d)
{
	const struct sc_shard_problem *p = d->q->problem;

	d->frozen = sc_xrealloc(NULL, p->n_tables + 1, sizeof(*d->frozen));
	for (size_t t = 0; t < p->n_tables; t++) {
		const struct sc_choice *c = &d->model.choices.at[d->s.choice[t]];

		d->frozen[t] = c->tier != SC_TIER_HBM || c->type == SC_GRID;
	}
	for (size_t i = 0; i < p->n_constraints; i++) {
		const struct sc_shard_constraint *c = &p->constraints[i];

		d->frozen[c->table] = true;
		if (c->kind == SC_TOGETHER || c->kind == SC_APART)
			d->frozen[c->other] = true;
	}
}

static int run(struct descent *d, struct sc_err *err)
{
	int rc = simulate(d, &d->ms, err), n_idle = 0;

	d->best_ms = d->ms;
	if (rc == 0)
		rc = descend(d, err);
	keep(d);
	while (rc == 0 && !is_over(d) && n_idle < MAX_IDLE_SHAKES) {
		rc = shake(d, err);
		if (rc == 0)
			rc = descend(d, err);
		n_idle = rc == 0 && keep(d) ? 0 : n_idle + 1;
	}
	return rc;
}

/* Constraints are kept by what is frozen: the model has none. */
static bool start(struct descent *d, const struct sc_shard_problem *free_problem,
		  const struct sc_shard_plan *plan, struct sc_arena *arena)
{
	sc_shard_model_init_all(&d->model, free_problem, plan);
	d->s = sc_shard_state_make(&d->model, arena);
	d->best = sc_shard_state_make(&d->model, arena);
	d->s.phases = sc_phases_make(&d->model, arena);
	d->hunt = (struct sc_step_hunt){
		.s = &d->s, .rng = &d->rng, .change = sc_change_make(&d->model, arena)};
	if (!sc_shard_state_adopt(&d->s, &d->model, plan))
		return false;
	freeze(d);
	d->hunt.frozen = d->frozen;
	sc_shard_state_copy(&d->best, &d->s);
	return true;
}

int sc_step_improve(struct sc_step_search *q, struct sc_shard_plan *plan, struct sc_err *err)
{
	struct sc_shard_problem free_problem = *q->problem;
	struct descent d = {.q = q, .work = q->work};
	struct sc_arena arena;
	int rc = 0;

	free_problem.constraints = NULL;
	free_problem.n_constraints = 0;
	if (q->seconds > 0)
		d.end_s = sc_shard_now_s() + q->seconds;
	sc_rng_init(&d.rng, q->seed);
	sc_arena_init(&arena, 1 << 16);
	if (plan->world == free_problem.world && start(&d, &free_problem, plan, &arena)) {
		rc = run(&d, err);
		q->step_ms = d.best_ms;
		if (rc == 0)
			sc_shard_state_plan(&d.best, plan);
	}
	free(d.frozen);
	SC_VEC_RELEASE(&d.moves);
	SC_VEC_RELEASE(&d.tried);
	sc_shard_plan_release(&d.trial);
	sc_shard_model_release(&d.model);
	sc_arena_release(&arena);
	return rc;
}
