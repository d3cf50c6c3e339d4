/* Where the search by whole steps starts from. */
#include <math.h>
#include <string.h>

#include "study/shard/shard_choose.h"
#include "study/shard/shard_iteration.h"
#include "study/shard/shard_solve_priv.h"
#include "study/shard/shard_step.h"

/* Tables times ranks up to which a start is worth the time. */
enum { ANY_CELLS = 0, FEW_CELLS = 4096, BASELINE_CELLS = 16384, MANY_CELLS = 1000000 };

/* A way to search by the proxy: how much exchanges count, and which types are left out. */
struct variant {
	const char *name;
	double exchange;
	int types[3]; /* -1 ends */
	int max_cells;
};
static const struct variant VARIANTS[] = {
	{"search", 1, {-1, -1, -1}, ANY_CELLS},
	{"search, no replicas", 1, {SC_DATA_PARALLEL, -1, -1}, MANY_CELLS},
	{"search, no row slices", 1, {SC_ROW_WISE, SC_TABLE_ROW_WISE, -1}, MANY_CELLS},
	{"search, no column slices", 1, {SC_COLUMN_WISE, SC_TABLE_COLUMN_WISE, -1}, ANY_CELLS},
	{"search, exchanges hidden", 0.3, {-1, -1, -1}, FEW_CELLS},
	{"search, exchanges first", 3, {-1, -1, -1}, FEW_CELLS},
};
enum { N_VARIANTS = sizeof(VARIANTS) / sizeof(VARIANTS[0]) };

static const char *const BASELINES[] = {
	"lpt", "naive", "size_greedy", "dim_greedy", "lookup_greedy", "size_lookup_greedy",
};

/* What a search for starts has at hand. */
struct finding {
	const struct sc_request *request;
	const struct sc_shard_problem *problem;
	const struct sc_solve_opts *opts;
	struct sc_arena *arena;
	sc_step_candidates *out;
};
struct weighted {
	const struct sc_shard_problem *problem;
	double exchange;
};

static void weigh(struct sc_option_shard *shard, double exchange)
{
	shard->cost += (exchange - 1) * shard->comms;
	shard->comms *= exchange;
}

static bool weighted_columns(const void *ctx, uint32_t table, enum sc_tier tier, int64_t cols,
			     struct sc_option_shard *out)
{
	const struct weighted *w = ctx;

	if (!w->problem->column_cost(w->problem->column_ctx, table, tier, cols, out))
		return false;
	weigh(out, w->exchange);
	return true;
}

/* The problem with its exchanges weighted; release its shards alone. */
static void reweigh(struct sc_shard_problem *p, const struct weighted *w)
{
	memset(&p->shards, 0, sizeof(p->shards));
	for (size_t i = 0; i < w->problem->shards.n; i++) {
		struct sc_option_shard shard = w->problem->shards.at[i];

		weigh(&shard, w->exchange);
		SC_VEC_PUSH(&p->shards, shard);
	}
	p->column_cost = p->column_cost ? weighted_columns : NULL;
	p->column_ctx = w;
}

static void forbid(struct sc_shard_problem *problem, const struct variant *variant,
		   struct sc_arena *arena)
{
	size_t n_types = 0, n = problem->n_constraints;
	struct sc_shard_constraint *all;

	while (n_types < 3 && variant->types[n_types] >= 0)
		n_types++;
	if (!n_types)
		return;
	all = sc_arena_calloc(arena, n + n_types * problem->n_tables, sizeof(*all));
	for (size_t i = 0; i < n; i++)
		all[i] = problem->constraints[i];
	for (size_t k = 0; k < n_types; k++) {
		for (uint32_t table = 0; table < problem->n_tables; table++)
			all[n++] = (struct sc_shard_constraint){
				.kind = SC_FORBID,
				.table = table,
				.rank = -1,
				.type = variant->types[k],
				.tier = -1,
			};
	}
	problem->constraints = all;
	problem->n_constraints = n;
	problem->column_cost = variant->types[0] == SC_COLUMN_WISE ? NULL : problem->column_cost;
}

/* The plan costs what the problem itself says, not the variant. */
static int solve(const struct finding *f, const struct variant *variant,
		 struct sc_shard_solution *out, struct sc_err *err)
{
	struct weighted weighted = {f->problem, variant->exchange};
	struct sc_shard_problem own = *f->problem;
	struct sc_solve_opts opts = *f->opts;
	struct sc_shard_solution found = {.cost = 0};
	bool is_weighted = fabs(variant->exchange - 1) > 0;
	int rc;

	opts.seconds /= N_VARIANTS;
	if (is_weighted)
		reweigh(&own, &weighted);
	forbid(&own, variant, f->arena);
	rc = sc_shard_solve(&own, &opts, f->arena, &found, err);
	if (is_weighted)
		SC_VEC_RELEASE(&own.shards);
	if (rc || !is_weighted) {
		*out = found;
		return rc;
	}
	rc = sc_shard_rate(f->problem, &found.plan, false, f->arena, out, err);
	sc_shard_plan_release(&found.plan);
	return rc;
}

static bool same_plan(const struct sc_shard_plan *a, const struct sc_shard_plan *b)
{
	if (a->tables.n != b->tables.n || a->shards.n != b->shards.n)
		return false;
	for (size_t i = 0; i < a->tables.n; i++) {
		const struct sc_table_placement *x = &a->tables.at[i], *y = &b->tables.at[i];

		if (x->type != y->type || x->tier != y->tier || x->n_shards != y->n_shards)
			return false;
	}
	for (size_t i = 0; i < a->shards.n; i++) {
		const struct sc_shard *x = &a->shards.at[i], *y = &b->shards.at[i];

		if (x->table != y->table || x->rank != y->rank || x->cols != y->cols ||
		    x->rows != y->rows)
			return false;
	}
	return true;
}

static bool is_known(const sc_step_candidates *list, const struct sc_shard_plan *plan)
{
	for (size_t i = 0; i < list->n; i++) {
		if (same_plan(&list->at[i].solution.plan, plan))
			return true;
	}
	return false;
}

static void take(sc_step_candidates *out, const char *name, struct sc_shard_solution *solution)
{
	if (is_known(out, &solution->plan)) {
		sc_shard_plan_release(&solution->plan);
		return;
	}
	SC_VEC_PUSH(out, ((struct sc_step_candidate){.name = name, .solution = *solution}));
}

static bool is_worth(const struct sc_shard_problem *problem, int max_cells)
{
	return max_cells == ANY_CELLS ||
	       (double)problem->n_tables * (double)problem->world <= max_cells;
}

static int add_variants(const struct finding *f, struct sc_err *err)
{
	for (size_t i = 0; i < N_VARIANTS; i++) {
		struct sc_shard_solution solution = {.cost = 0};
		struct sc_err none = {.code = SC_OK};

		if (!is_worth(f->problem, VARIANTS[i].max_cells))
			continue;
		if (f->out->n && sc_search_is_stopped(f->opts->watch))
			return 0;
		if (solve(f, &VARIANTS[i], &solution, &none) == 0)
			take(f->out, VARIANTS[i].name, &solution);
		else if (i == 0) /* the others may do with less than they need */
			return sc_err_at(err, none.code, none.file, none.line, none.column, "%s",
					 none.text);
	}
	return 0;
}

/* Rated, and kept if it fits. */
static void add_plan(const struct finding *f, const char *name, struct sc_shard_plan *plan)
{
	struct sc_shard_solution rated = {.cost = 0};
	struct sc_err none = {.code = SC_OK};

	if (sc_shard_rate(f->problem, plan, false, f->arena, &rated, &none) == 0)
		take(f->out, name, &rated);
	sc_shard_plan_release(plan);
}

/* TorchRec's last, for its time. */
static void add_planners(const struct finding *f)
{
	static const struct sc_name planners[] = {{"hugectr", SC_PLANNER_HUGECTR},
						  {"memory_balanced", SC_PLANNER_MEMORY_BALANCED},
						  {"lookups", SC_PLANNER_LOOKUPS},
						  {"torchrec", SC_PLANNER_TORCHREC}};
	size_t n = is_worth(f->problem, FEW_CELLS) ? 4 : 3;

	for (size_t i = 0; i < n; i++) {
		struct sc_planner_ask ask = {.request = f->request,
					     .planner = (enum sc_planner)planners[i].value};
		struct sc_planned planned;

		if (sc_plan_by(&ask, f->arena, &planned, NULL) == 0)
			add_plan(f, planners[i].name, &planned.plan);
	}
}

static void add_baselines(const struct finding *f)
{
	if (!is_worth(f->problem, BASELINE_CELLS))
		return;
	for (size_t i = 0; i < sizeof(BASELINES) / sizeof(BASELINES[0]); i++) {
		struct sc_shard_solution solution = {.cost = 0};
		struct sc_err none = {.code = SC_OK};

		if (sc_shard_baseline(f->problem, BASELINES[i], f->opts->seed, f->arena, &solution,
				      &none) == 0)
			add_plan(f, BASELINES[i], &solution.plan);
	}
}

int sc_step_candidates_find(const struct sc_request *request,
			    const struct sc_shard_problem *problem,
			    const struct sc_solve_opts *opts, struct sc_arena *arena,
			    sc_step_candidates *out, struct sc_err *err)
{
	const struct finding f = {request, problem, opts, arena, out};
	int rc = add_variants(&f, err);

	if (rc || opts->current || problem->n_constraints || sc_search_is_stopped(opts->watch))
		return rc;
	if (is_worth(problem, MANY_CELLS))
		add_planners(&f);
	add_baselines(&f);
	return 0;
}

void sc_step_candidates_left_out(const struct sc_shard_problem *problem, struct sc_strbuf *out)
{
	for (size_t i = 0; i < N_VARIANTS; i++) {
		if (!is_worth(problem, VARIANTS[i].max_cells))
			sc_strbuf_printf(out, "\"%s\", ", VARIANTS[i].name);
	}
	if (!is_worth(problem, FEW_CELLS))
		sc_strbuf_append(out, is_worth(problem, MANY_CELLS) ? "TorchRec's planner"
								    : "other planners");
	if (!is_worth(problem, BASELINE_CELLS))
		sc_strbuf_append(out, ", the placements of whole tables");
}

void sc_step_candidates_release(sc_step_candidates *list)
{
	for (size_t i = 0; i < list->n; i++)
		sc_shard_plan_release(&list->at[i].solution.plan);
	SC_VEC_RELEASE(list);
}

/* ---- the best of them, improved ---- */

struct start {
	const struct sc_shard_plan *plan;
	double ms, proxy_ms;
};

static int by_step(const void *a, const void *b)
{
	const struct start *x = a, *y = b;

	if (x->ms < y->ms || x->ms > y->ms)
		return x->ms < y->ms ? -1 : 1;
	if (x->proxy_ms < y->proxy_ms || x->proxy_ms > y->proxy_ms)
		return x->proxy_ms < y->proxy_ms ? -1 : 1;
	return (x->plan > y->plan) - (x->plan < y->plan);
}

static int simulate_all(struct sc_step_search *q, sc_step_candidates *list, struct start *starts,
			struct sc_err *err)
{
	for (size_t i = 0; i < list->n; i++) {
		struct sc_step_candidate *c = &list->at[i];
		int rc = sc_step_simulate(q, &c->solution.plan, err);

		if (rc)
			return rc;
		c->step_ms = q->prediction->iteration_ms;
		c->low_ms = q->prediction->low_ms;
		c->high_ms = q->prediction->high_ms;
		starts[i] = (struct start){&c->solution.plan, c->step_ms, c->solution.cost};
		q->n_simulated++;
	}
	qsort(starts, list->n, sizeof(*starts), by_step);
	return 0;
}

/* Of the work, in the order of the starts. */
static const double SHARES[] = {0.5, 0.25, 0.25};

static int improve(const struct sc_step_search *q, const struct start *starts, size_t n,
		   struct sc_shard_plan *out, double *out_ms, struct sc_err *err)
{
	size_t n_shares = sizeof(SHARES) / sizeof(SHARES[0]);
	int rc = 0;

	*out_ms = INFINITY;
	for (size_t i = 0; i < n && i < n_shares && rc == 0; i++) {
		struct sc_step_search own = *q;
		struct sc_shard_plan plan = {.world = 0};
		double share = i + 1 == n && i == 0 ? 1 : SHARES[i];

		own.seconds *= share;
		own.work *= share;
		own.step_ms = starts[i].ms;
		sc_shard_plan_copy(starts[i].plan, &plan);
		rc = sc_step_improve(&own, &plan, err);
		if (rc == 0 && own.step_ms < *out_ms * (1 - 1e-9)) {
			sc_shard_plan_release(out);
			*out = plan;
			*out_ms = own.step_ms;
		} else {
			sc_shard_plan_release(&plan);
		}
	}
	return rc;
}

#define QUICK_WORK 4e5

int sc_step_best(struct sc_step_search *q, sc_step_candidates *list, struct sc_shard_plan *out,
		 struct sc_err *err)
{
	struct start *starts = sc_xrealloc(NULL, list->n + 1, sizeof(*starts));
	struct sc_shard_plan best = {.world = 0};
	int rc;

	if (!is_worth(q->problem, MANY_CELLS))
		q->work = fmin(q->work, QUICK_WORK);
	rc = simulate_all(q, list, starts, err);
	if (rc == 0)
		rc = improve(q, starts, list->n, &best, &q->step_ms, err);
	free(starts);
	if (rc)
		sc_shard_plan_release(&best);
	else
		*out = best;
	return rc;
}

int sc_step_plan(const struct sc_request *request, struct sc_arena *arena,
		 struct sc_shard_plan *out, struct sc_err *err)
{
	sc_step_candidates list = {0};
	struct sc_shard_problem problem;
	struct sc_step_search q;
	struct sc_solve_opts opts;
	int rc = sc_iteration_problem(request, arena, &problem, err);

	if (rc)
		return rc;
	sc_solve_opts_init(&opts);
	sc_step_search_init(&q);
	q.request = request;
	q.problem = &problem;
	q.predictor = sc_predictor_create();
	q.prediction = sc_arena_calloc(arena, 1, sizeof(*q.prediction));
	q.work = QUICK_WORK;
	rc = sc_step_candidates_find(request, &problem, &opts, arena, &list, err);
	if (rc == 0)
		rc = sc_step_best(&q, &list, out, err);
	sc_step_candidates_release(&list);
	sc_predictor_destroy(q.predictor);
	sc_shard_problem_release(&problem);
	return rc;
}
