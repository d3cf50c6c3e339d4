/* The search for a plan: bound, construction, local search, proof; then the plan is written out and rated
 * like any other, so that what is reported never rests on the solver's own sums. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/shard/shard_solve_priv.h"

/* Work of the quick answer, in candidates looked at, where construction leaves some. */
enum { QUICK_WORK = 9000000 };

static const double HOME_KAPPA = 50.0;

const char *const sc_solve_parts[] = {"splits", "targets", "sides", "shakes",
				      "swaps",  "cuts",    "moves", NULL};

bool sc_shard_search_has(const struct sc_shard_search *q, const char *part)
{
	return !q->without || strcmp(q->without, part) != 0;
}

void sc_solve_opts_init(struct sc_solve_opts *opts)
{
	*opts = (struct sc_solve_opts){
		.seed = 1, .stop_gap = 1e-6, .max_moved_bytes = -1.0, .max_moved_tables = -1};
}

struct keyed {
	double key;
	uint32_t unit;
};

static int by_key(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;

	if (x->key < y->key || x->key > y->key)
		return x->key > y->key ? -1 : 1;
	return x->unit < y->unit ? -1 : 1;
}

/* Units, dearest first; by memory instead when room is what is short. */
static void sort_units(struct sc_shard_search *q, bool by_memory)
{
	const struct sc_shard_model *m = q->model;
	struct keyed *keys = sc_xrealloc(NULL, m->units.n + 1, sizeof(*keys));

	for (uint32_t u = 0; u < m->units.n; u++) {
		double least = HUGE_VAL;

		for (uint32_t i = 0; i < m->units.at[u].n_choices; i++) {
			const struct sc_choice *c = &m->choices.at[m->units.at[u].first_choice + i];

			least = fmin(least, by_memory ? c->hbm : c->total);
		}
		keys[u] = (struct keyed){.key = least, .unit = u};
	}
	qsort(keys, m->units.n, sizeof(*keys), by_key);
	for (uint32_t u = 0; u < m->units.n; u++)
		q->order[u] = keys[u].unit;
	free(keys);
}

/* Tries orders and sharpnesses until some plan fits the memory. */
static void first_plan(struct sc_shard_search *q, double scale)
{
	static const double KAPPAS[] = {6.0, 1.0, 0.1};

	for (int by_memory = 0; by_memory < 2 && !q->found; by_memory++) {
		sort_units(q, by_memory != 0);
		for (int i = 0; i < 3 && !q->found; i++) {
			sc_shard_state_clear(q->s);
			sc_shard_state_sharpen(q->s, KAPPAS[i], scale);
			sc_shard_construct(q);
		}
	}
	if (!q->found) {
		sc_shard_make_room(q);
		sc_shard_construct(q);
	}
	sort_units(q, false);
}

static void take(double bound, double lp_bound, double stop_gap, struct sc_shard_solution *out)
{
	out->bound = fmin(bound, out->cost);
	out->lp_bound = fmin(lp_bound, out->cost);
	out->proven = out->cost - out->bound <= stop_gap * fmax(out->bound, 0.0);
}

struct run {
	const struct sc_shard_problem *problem;
	const struct sc_solve_opts *opts;
	struct sc_shard_model model;
	struct sc_shard_state states[3], home;
	struct sc_shard_search q;
	double bound, lp_bound, start_s;
};

/* The plan at hand, mended, is the first; what moves from there is counted. */
static void go_home(struct run *r, struct sc_arena *scratch)
{
	struct sc_shard_search *q = &r->q;
	const struct sc_shard_model *m = &r->model;
	double *bytes = sc_arena_calloc(scratch, m->units.n + 1, sizeof(*bytes));

	for (uint32_t t = 0; t < m->problem->n_tables; t++) {
		const struct sc_table *table = &m->problem->tables[t];

		bytes[m->unit_of[t]] +=
			(double)table->rows * (double)table->dim * sc_dtype_bytes(table->dtype);
	}
	r->home = sc_shard_state_make(m, scratch);
	sc_shard_state_adopt(&r->home, &r->model, r->opts->current);
	q->budget = (struct sc_move_budget){.home = &r->home,
					    .unit_bytes = bytes,
					    .max_bytes = r->opts->max_moved_bytes,
					    .max_tables = r->opts->max_moved_tables};
	sc_shard_state_copy(q->s, &r->home);
	sc_shard_state_sharpen(q->s, HOME_KAPPA, fmax(sc_shard_state_max(q->s, NULL), r->bound));
	sort_units(q, false);
	sc_shard_state_mend(q->s);
	sc_shard_search_keep(q);
}

static void search(struct run *r, struct sc_arena *scratch)
{
	struct sc_shard_search *q = &r->q;
	double scale = r->bound > 0.0 ? r->bound : 1.0;

	for (int i = 0; i < 3; i++)
		r->states[i] = sc_shard_state_make(&r->model, scratch);
	q->model = &r->model;
	q->s = &r->states[0];
	q->best = &r->states[1];
	q->spare = &r->states[2];
	q->order = sc_arena_calloc(scratch, r->model.units.n + 1, sizeof(*q->order));
	q->was = sc_arena_calloc(scratch, r->model.n_ranks_room + 1, sizeof(*q->was));
	q->only = sc_arena_calloc(scratch, r->model.units.n + 1, sizeof(*q->only));
	q->change = sc_change_make(&r->model, scratch);
	q->bound = r->bound;
	q->goal = r->bound * (1.0 + r->opts->stop_gap);
	q->max_work = QUICK_WORK;
	q->watch = r->opts->watch;
	if (r->opts->seconds > 0.0)
		q->deadline_s = r->start_s + r->opts->seconds;
	q->is_endless = r->opts->seconds > 0.0 && !r->opts->quick;
	sc_rng_init(&q->rng, r->opts->seed);
	if (r->opts->current)
		go_home(r, scratch);
	else
		first_plan(q, scale);
	if (q->found) {
		sc_shard_state_copy(q->s, q->best);
		q->max_work = (uint64_t)fmax(QUICK_WORK, (double)q->s->work + QUICK_WORK / 4.0);
		sc_shard_improve(q);
		sc_shard_local_search(q);
	}
}

static int no_replan(const struct run *r, struct sc_err *err)
{
	struct sc_err why = {.code = SC_OK};

	sc_shard_conflict(r->problem, &why);
	return sc_err_set(err, SC_ECONFLICT,
			  "the current plan cannot be made to hold within the moves allowed (%s)",
			  why.text);
}

int sc_shard_solve(const struct sc_shard_problem *problem, const struct sc_solve_opts *opts,
		   struct sc_arena *arena, struct sc_shard_solution *out, struct sc_err *err)
{
	struct run r = {.problem = problem, .opts = opts, .start_s = sc_shard_now_s()};
	struct sc_shard_plan plan = {0};
	struct sc_arena scratch;
	int rc = sc_shard_model_init(&r.model, problem, err);

	if (rc)
		return rc;
	sc_arena_init(&scratch, 1 << 16);
	r.bound = sc_shard_model_bound(&r.model, &r.lp_bound);
	r.q.without = opts->without;
	if (sc_shard_search_has(&r.q, "splits"))
		sc_shard_model_split(&r.model, r.lp_bound);
	search(&r, &scratch);
	if (r.q.found) {
		sc_shard_state_plan(r.q.best, &plan);
		rc = sc_shard_rate(problem, &plan, false, arena, out, err);
		sc_shard_plan_release(&plan);
	} else {
		rc = opts->current ? no_replan(&r, err) : sc_shard_conflict(problem, err);
	}
	if (rc == 0) {
		take(r.bound, r.lp_bound, opts->stop_gap, out);
		out->seconds = sc_shard_now_s() - r.start_s;
	}
	sc_arena_release(&scratch);
	sc_shard_model_release(&r.model);
	return rc;
}
