/* Descent by whole steps: moves come sorted by an estimate, which does not know what overlaps and
 * so is made under several weightings of the phases; the first few of each list are simulated.
 * Where none helps, the best plan is shaken and descended from again. */
#include "study/shard/shard_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/units.h"
#include "study/shard/shard_iteration.h"
#include "study/shard/shard_objective.h"
#include "study/shard/shard_solve_priv.h"

static const struct sc_phase_weights WEIGHTS[] = {
	{1, 1, 0.5}, {2, 1, 0.2}, {0.4, 1, 0.5}, {1, 0.3, 0.1}, {1, 1.5, 1.5},
};
enum {
	N_WEIGHTS = sizeof(WEIGHTS) / sizeof(WEIGHTS[0]),
	N_TRIED_OF_LIST = 4,
	N_SHAKES = 3,         /* moves of a shake */
	MAX_IDLE_SHAKES = 12, /* without gain: the end */
	MAX_SHAKE_RANK = 40,  /* of the list */
	N_IMPROVED = 3        /* starts of a round */
};
#define LEAST_GAIN 1e-6      /* of the step */
#define LEAST_ESTIMATED 1e-4 /* of the estimate, where steps are equal */
#define DEFAULT_WORK 3e6
#define QUICK_WORK 4e5
#define MANY_CELLS 1e6    /* tables times ranks: above it only the quick work is done */
#define WORK_OF_SHARD 8.0 /* beside a node's */

struct descent {
	struct sc_step_search *q;
	struct sc_shard_model model;
	struct sc_shard_state s, best;
	struct sc_shard_plan trial;
	double best_ms, ms, estimate, work, end_s;
	struct sc_rng rng;
	struct sc_step_hunt hunt;
	sc_step_moves moves;
	sc_step_moves tried; /* of the plan at hand */
};

static bool is_over(const struct descent *d)
{
	if (sc_search_is_stopped(d->q->solve.watch))
		return true;
	if (d->end_s > 0)
		return sc_now_s() >= d->end_s;
	return d->work <= 0;
}

static int measure(struct sc_step_search *q, const struct sc_shard_plan *plan, double *ms,
		   struct sc_err *err)
{
	int rc = sc_iteration_rate(q->predictor, q->request, plan, q->prediction, err);

	*ms = q->prediction->iteration_ms;
	q->n_simulated++;
	return rc;
}

static int simulate(struct descent *d, double *ms, struct sc_err *err)
{
	int rc;

	sc_shard_state_plan(&d->s, &d->trial);
	rc = measure(d->q, &d->trial, ms, err);
	d->work -= (double)d->q->prediction->n_nodes + WORK_OF_SHARD * (double)d->trial.shards.n;
	return rc;
}

static bool is_tried(const struct descent *d, const struct sc_step_move *move)
{
	for (size_t i = 0; i < d->tried.n; i++)
		if (d->tried.at[i].kind == move->kind && d->tried.at[i].unit == move->unit &&
		    d->tried.at[i].other == move->other && d->tried.at[i].shard == move->shard &&
		    d->tried.at[i].other_shard == move->other_shard &&
		    d->tried.at[i].rank == move->rank && d->tried.at[i].choice == move->choice)
			return true;
	return false;
}

/* Tries moves of one weighting's list until one helps. */
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
		if (rc == 0 && (ms < d->ms * (1 - LEAST_GAIN) ||
				(ms <= d->ms * (1 + LEAST_GAIN / 10) &&
				 estimate < d->estimate * (1 - LEAST_ESTIMATED)))) {
			d->ms = ms;
			d->estimate = estimate;
			d->tried.n = 0;
			*helped = true;
			break;
		}
		sc_shard_state_swap(&d->s, &d->hunt.change);
		SC_VEC_PUSH(&d->tried, *move);
	}
	return rc;
}

/* Descends until no weighting's list helps any more. */
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

static bool keep_best(struct descent *d)
{
	if (d->ms >= d->best_ms * (1 - LEAST_GAIN))
		return false;
	d->best_ms = d->ms;
	sc_shard_state_copy(&d->best, &d->s);
	return true;
}

/* Makes some moves at random, of those that cost least. */
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

static int run_descent(struct descent *d, struct sc_err *err)
{
	int rc = simulate(d, &d->ms, err), n_idle = 0;

	d->best_ms = d->ms;
	if (rc == 0)
		rc = descend(d, err);
	keep_best(d);
	while (rc == 0 && !is_over(d) && n_idle < MAX_IDLE_SHAKES) {
		rc = shake(d, err);
		if (rc == 0)
			rc = descend(d, err);
		n_idle = rc == 0 && keep_best(d) ? 0 : n_idle + 1;
	}
	return rc;
}

/* Freezes tables of constraints, and those that other memories have a part in. */
static void freeze(struct descent *d, struct sc_arena *arena)
{
	const struct sc_shard_problem *p = d->q->problem;
	bool *frozen = sc_arena_calloc(arena, p->n_tables + 1, sizeof(*frozen));

	d->hunt.frozen = frozen;
	for (size_t t = 0; t < p->n_tables; t++) {
		const struct sc_choice *c = &d->model.choices.at[d->s.choice[t]];

		frozen[t] = c->tier != SC_TIER_HBM || c->type == SC_GRID;
	}
	for (size_t i = 0; i < p->n_constraints; i++) {
		const struct sc_shard_constraint *c = &p->constraints[i];

		frozen[c->table] = true;
		if (c->kind == SC_TOGETHER || c->kind == SC_APART)
			frozen[c->other] = true;
	}
}

/* Frozen units keep to the constraints, so the model has none. */
static bool start(struct descent *d, const struct sc_shard_problem *free_problem,
		  const struct sc_shard_plan *plan, struct sc_arena *arena)
{
	sc_shard_model_init_all(&d->model, free_problem, plan);
	d->s = sc_shard_state_make(&d->model, true, arena);
	d->best = sc_shard_state_make(&d->model, false, arena);
	d->hunt = (struct sc_step_hunt){
		.s = &d->s, .rng = &d->rng, .change = sc_change_make(&d->model, arena)};
	if (!sc_shard_state_adopt(&d->s, &d->model, plan))
		return false;
	freeze(d, arena);
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
	if (q->solve.seconds > 0)
		d.end_s = sc_now_s() + q->solve.seconds;
	sc_rng_init(&d.rng, q->solve.seed);
	sc_arena_init(&arena, 1 << 16);
	if (plan->world == free_problem.world && start(&d, &free_problem, plan, &arena)) {
		rc = run_descent(&d, err);
		q->step_ms = d.best_ms;
		if (rc == 0)
			sc_shard_state_plan(&d.best, plan);
	}
	SC_VEC_RELEASE(&d.moves);
	SC_VEC_RELEASE(&d.tried);
	sc_shard_plan_release(&d.trial);
	sc_shard_model_release(&d.model);
	sc_arena_release(&arena);
	return rc;
}

/* ---- rounds ---- */

static bool same_plan(const struct sc_shard_plan *a, const struct sc_shard_plan *b)
{
	if (a->tables.n != b->tables.n || a->shards.n != b->shards.n)
		return false;
	for (size_t i = 0; i < a->tables.n; i++) {
		const struct sc_table_placement *x = &a->tables.at[i], *y = &b->tables.at[i];

		if (x->type != y->type || x->tier != y->tier || x->n_shards != y->n_shards ||
		    x->hot_rows != y->hot_rows)
			return false;
	}
	/* the struct has no padding */
	return memcmp(a->shards.at, b->shards.at, a->shards.n * sizeof(*a->shards.at)) == 0;
}

static bool is_known(const sc_step_candidates *list, const struct sc_shard_plan *plan)
{
	for (size_t i = 0; i < list->n; i++)
		if (same_plan(&list->at[i].plan, plan))
			return true;
	return false;
}

/* Takes the plan, unless the list has one of that name with a step as short. */
static void keep(sc_step_candidates *list, struct sc_step_candidate *made)
{
	size_t i = 0;

	while (i < list->n && list->at[i].name != made->name)
		i++;
	if (i == list->n) {
		SC_VEC_PUSH(list, *made);
	} else if (made->step_ms < list->at[i].step_ms * (1 - LEAST_GAIN)) {
		sc_shard_plan_release(&list->at[i].plan);
		list->at[i] = *made;
	} else {
		sc_shard_plan_release(&made->plan);
	}
}

struct rounds {
	struct sc_step_search *q;
	struct sc_arena *arena;
	sc_step_candidates *out, fresh; /* of all rounds by start; of this one */
	struct sc_step_candidate best;
	struct sc_rng rng;
	double end_s;
	/* Rounds go on from what was found in less memory once all searches but the first had their
	 * turn; idle: the last memory was no gain. */
	bool goes_on, is_idle;
};

static bool is_late(const struct rounds *r)
{
	return sc_search_is_stopped(r->q->solve.watch) || (r->end_s > 0 && sc_now_s() >= r->end_s);
}

/* The plan fits the budget; other planners know other budgets. */
static bool fits(const struct rounds *r, const struct sc_start *start,
		 const struct sc_shard_plan *plan)
{
	struct sc_shard_solution rated = {.cost = 0};
	bool fit = start->is_search ||
		   sc_shard_rate(r->q->problem, plan, false, r->arena, &rated, NULL) == 0;

	sc_shard_plan_release(&rated.plan);
	return fit;
}

static bool start_is_worth(const struct sc_start *start, const struct sc_shard_problem *problem)
{
	return !start->max_cells ||
	       (double)problem->n_tables * (double)problem->world <= start->max_cells;
}

/* Makes and simulates one plan of each start, if it is new. */
static int make_starts(struct rounds *r, uint64_t round, struct sc_err *err)
{
	struct sc_step_search *q = r->q;
	struct sc_solve_opts solve = q->solve;
	struct sc_search_watch first = {.stop = NULL};
	int rc = 0;

	solve.quick = true;
	solve.seed += round;
	solve.seconds = 0;
	if (solve.watch)
		first = *solve.watch;
	first.most_asked = 0;
	solve.watch = &first;
	for (const struct sc_start *start = sc_starts;
	     start->name && rc == 0 && !(r->out->n && sc_search_is_ended(q->solve.watch));
	     start++) {
		struct sc_step_candidate made = {.name = start->name};
		struct sc_made_plan plan = {.cut_short_tables = 0};
		struct sc_start_ask ask = {q->request, q->problem, &solve, false, 1, r->arena};
		struct sc_err own = {.code = SC_OK};
		bool is_first = !r->out->n;

		if (!start->begins || !start_is_worth(start, q->problem) ||
		    (start->is_search && r->goes_on && (r->is_idle || start != sc_starts)) ||
		    (!start->is_search && (round || solve.current || q->problem->n_constraints)))
			continue;
		/* Only a signal ends the first; the others may be left with something that a longer
		 * search would not see. */
		if (!is_first) {
			solve.watch = q->solve.watch;
			solve.seconds = r->end_s > 0 ? fmax(r->end_s - sc_now_s(), 1e-9) : 0;
		}
		if (round)
			ask.exchange = exp(sc_rng_normal(&r->rng));
		rc = start->make(start, &ask, &plan, &own);
		if (is_first && q->solve.watch)
			q->solve.watch->shown_s = first.shown_s;
		if (rc && is_first)
			return sc_err_at(err, own.code, own.file, own.line, own.column, "%s",
					 own.text);
		made.plan = plan.plan;
		if (!is_first && is_late(r)) {
			sc_shard_plan_release(&made.plan);
			return 0;
		}
		/* a start may fail where it has less than it needs */
		if (rc || is_known(r->out, &made.plan) || is_known(&r->fresh, &made.plan) ||
		    !fits(r, start, &made.plan)) {
			sc_shard_plan_release(&made.plan);
			rc = 0;
			continue;
		}
		rc = measure(q, &made.plan, &made.step_ms, err);
		SC_VEC_PUSH(&r->fresh, made);
		if (!start->is_search)
			continue;
		made.plan = (struct sc_shard_plan){.world = 0};
		sc_shard_plan_copy(&r->fresh.at[r->fresh.n - 1].plan, &made.plan);
		keep(r->out, &made);
	}
	return rc;
}

SC_COMPARE(by_step, struct sc_step_candidate,
	   2 * SC_ORDER(a->step_ms, b->step_ms) + SC_ORDER(a->name, b->name));

/* Improves the best few of the round; the shortest step of all rounds stays. */
static int improve_starts(struct rounds *r, struct sc_err *err)
{
	static const double shares[N_IMPROVED] = {0.5, 0.25, 0.25}; /* of the work */
	int rc = 0;

	SC_SORT(r->fresh.at, r->fresh.n, by_step);
	for (size_t i = 0; i < r->fresh.n && i < N_IMPROVED && rc == 0; i++) {
		struct sc_step_candidate *c = &r->fresh.at[i];
		struct sc_step_search own = *r->q;

		own.work *= r->fresh.n == 1 ? 1 : shares[i];
		if (r->end_s > 0)
			own.solve.seconds = fmax(r->end_s - sc_now_s(), 1e-9);
		rc = sc_step_improve(&own, &c->plan, err);
		r->q->n_simulated = own.n_simulated;
		if (rc ||
		    (r->best.step_ms > 0 && !(own.step_ms < r->best.step_ms * (1 - LEAST_GAIN))))
			continue;
		sc_shard_plan_release(&r->best.plan);
		r->best = *c;
		r->best.step_ms = own.step_ms;
		c->plan = (struct sc_shard_plan){.world = 0};
	}
	return rc;
}

static int run_round(struct rounds *r, uint64_t round, struct sc_err *err)
{
	int rc = make_starts(r, round, err);
	bool is_new = !r->is_idle;

	for (size_t i = 0; i < r->fresh.n; i++)
		is_new = is_new || r->fresh.at[i].step_ms < r->best.step_ms;
	if (rc == 0 && is_new && !r->q->solve.current && !sc_search_is_ended(r->q->solve.watch))
		rc = improve_starts(r, err);
	sc_step_candidates_release(&r->fresh);
	return rc;
}

/* The first round runs in memory that doubles up to all there is from the least that holds all
 * tables on the GPUs, so that what is found within a budget is known to the search within twice as
 * much; each has half the work of the one before. The second has all starts, too, for the first may
 * be tight; others go on from there, and after one without gain only from what other planners make
 * of more memory. */
static int climb(struct rounds *r, struct sc_err *err)
{
	struct sc_step_search *const q = r->q;
	const struct sc_shard_problem *all = q->problem;
	bool may_climb = all->hold_bytes > 0 && !all->rank_hbm_bytes && !q->solve.current &&
			 !(q->solve.seconds > 0) &&
			 (double)all->n_tables * (double)all->world <= MANY_CELLS;
	int n = may_climb ? (int)fmax(0, floor(log2(all->hbm_bytes / all->hold_bytes))) : 0;
	int rc = 0;

	for (int i = n; i >= 0 && rc == 0 && !(r->out->n && sc_search_is_ended(q->solve.watch));
	     i--) {
		struct sc_step_candidate best = {r->best.name, {0}, r->best.step_ms};
		struct sc_shard_problem problem = *all;
		struct sc_request *request = sc_arena_alloc(r->arena, sizeof(*request));
		struct sc_step_search part = *q;

		problem.hbm_bytes *= exp2(-i);
		*request = *q->request;
		if (i > 0) /* other planners' */
			request->config.sharding.hbm_gib = problem.hbm_bytes / SC_BYTES_PER_GIB;
		part.problem = &problem;
		part.request = request;
		part.work *= exp2(i - n);
		r->goes_on = i < n - 1;
		if (best.step_ms > 0) {
			sc_shard_plan_copy(&r->best.plan, &best.plan);
			SC_VEC_PUSH(&r->fresh, best);
		}
		r->q = &part;
		rc = run_round(r, 0, i ? NULL : err);
		q->n_simulated = part.n_simulated;
		r->is_idle = i < n && r->best.step_ms >= best.step_ms;
		rc = i > 0 ? 0 : rc; /* more memory may suffice */
	}
	r->goes_on = r->is_idle = false;
	r->q = q;
	return rc;
}

int sc_step_search_run(struct sc_step_search *q, struct sc_arena *arena, sc_step_candidates *out,
		       struct sc_err *err)
{
	struct rounds r = {.q = q, .arena = arena, .out = out};
	int rc = 0;

	for (const struct sc_start *start = sc_starts;
	     start->name && !q->solve.current && !q->problem->n_constraints; start++) {
		if (start->begins && !start_is_worth(start, q->problem))
			sc_strbuf_printf(&q->left_out, "%s\"%s\"", q->left_out.n ? ", " : "",
					 start->name);
	}
	q->work = q->work > 0 ? q->work : DEFAULT_WORK;
	if ((double)q->problem->n_tables * (double)q->problem->world > MANY_CELLS)
		q->work = fmin(q->work, QUICK_WORK);
	if (q->solve.seconds > 0)
		r.end_s = sc_now_s() + q->solve.seconds;
	sc_rng_init(&r.rng, q->solve.seed);
	rc = climb(&r, err);
	for (uint64_t round = 1; rc == 0 && r.end_s > 0 && !is_late(&r); round++)
		rc = run_round(&r, round, err);
	if (rc == 0 && r.best.step_ms > 0) {
		r.best.name = "search, by steps";
		if (!sc_search_is_ended(q->solve.watch))
			rc = measure(q, &r.best.plan, &r.best.step_ms, err);
		q->step_ms = r.best.step_ms;
		SC_VEC_PUSH(out, r.best);
	} else {
		sc_shard_plan_release(&r.best.plan);
	}
	return rc;
}

void sc_step_candidates_release(sc_step_candidates *list)
{
	for (size_t i = 0; i < list->n; i++)
		sc_shard_plan_release(&list->at[i].plan);
	SC_VEC_RELEASE(list);
}

int sc_step_plan(const struct sc_request *request, struct sc_arena *arena,
		 struct sc_shard_plan *out, struct sc_err *err)
{
	sc_step_candidates list = {0};
	struct sc_shard_problem problem = {.n_tables = 0};
	struct sc_step_search q;
	int rc = sc_iteration_problem(request, arena, &problem, err);

	if (rc)
		return rc;
	q = (struct sc_step_search){
		.request = sc_ranking_request(request, arena),
		.problem = &problem,
		.predictor = sc_predictor_create(),
		.prediction = sc_arena_calloc(arena, 1, sizeof(*q.prediction)),
		.solve = sc_solve_defaults,
		.work = QUICK_WORK,
	};
	rc = sc_step_search_run(&q, arena, &list, err);
	if (rc == 0)
		*out = list.at[--list.n].plan;
	sc_step_candidates_release(&list);
	sc_strbuf_release(&q.left_out);
	sc_predictor_destroy(q.predictor);
	sc_shard_problem_release(&problem);
	return rc;
}
