/* See the header. */
#include "study/shard/shard_choose.h"

#include "predict/dlrm/dlrm.h"
#include "study/shard/shard_greedy.h"
#include "study/shard/shard_objective.h"
#include "study/shard/shard_step.h"

/* What distributed-embeddings' benchmarks are run with (README: --column_slice_threshold 1280 Mi). */
#define SLICE_ELEMENTS (1280 * 1048576.0)

enum { ARENA_BLOCK_BYTES = 64 << 10 };

enum sc_planner sc_request_planner(const struct sc_request *req)
{
	enum sc_planner own = req->config.sharding.planner;
	const struct sc_habit *habit = sc_habit_of(req, "sharding.planner");

	if (own == SC_PLANNER_NONE && habit)
		own = *(const enum sc_planner *)habit->value;
	return own == SC_PLANNER_NONE ? SC_PLANNER_STEPCAST : own;
}

/* What is asked, with the request's tables. */
struct planning {
	struct sc_planner_ask ask;
	struct sc_arena *arena;
	struct sc_table_list tables;
	struct sc_planned *out;
};

static int plan_hugectr(const struct planning *p, struct sc_err *err)
{
	struct sc_hugectr_opts opts;

	sc_hugectr_opts_of(p->ask.request, &opts);
	return sc_hugectr_plan(&opts, &p->tables, p->arena, &p->out->plan, NULL, err);
}

static int plan_torchrec(const struct planning *p, struct sc_err *err)
{
	struct sc_shard_solution solution = {.cost = 0};
	struct sc_torchrec_topology topology;
	struct sc_shard_problem problem;
	int rc;

	sc_torchrec_topology_of(p->ask.request, p->ask.device_constants, &topology);
	rc = sc_torchrec_problem(&topology, &p->tables, p->arena, &problem, err);
	if (rc)
		return rc;
	rc = sc_torchrec_plan(&problem, p->arena, &solution, err);
	p->out->plan = solution.plan;
	p->out->cut_short_tables = solution.cut_short ? p->tables.n : 0;
	sc_shard_problem_release(&problem);
	return rc;
}

/* ---- whole tables, or slices of columns, on the rank with the least so far ---- */

static double table_key(const struct sc_table *t, enum sc_planner by)
{
	if (by == SC_PLANNER_LOOKUPS)
		return t->pooling * (double)t->features * (double)t->dim;
	return (double)t->rows * (double)t->dim;
}

/* Tables above the threshold are halved until below it (distributed-embeddings), at most to the world. */
static int64_t n_slices(const struct sc_request *request, const struct sc_table *t)
{
	double limit = request->config.sharding.column_slice_elements;
	double elements = (double)t->rows * (double)t->dim;
	int64_t n = 1;

	if (!(limit > 0))
		limit = SLICE_ELEMENTS;
	while (elements / (double)n > limit && 2 * n <= request->config.gpus &&
	       t->dim % (2 * n) == 0)
		n *= 2;
	return n;
}

static struct sc_piece *cut(const struct planning *p, size_t *n_pieces)
{
	struct sc_piece *pieces;
	size_t n = 0;

	for (size_t i = 0; i < p->tables.n; i++)
		n += (size_t)n_slices(p->ask.request, &p->tables.at[i]);
	pieces = sc_arena_calloc(p->arena, n, sizeof(*pieces));
	n = 0;
	for (size_t i = 0; i < p->tables.n; i++) {
		const struct sc_table *t = &p->tables.at[i];
		int64_t slices = n_slices(p->ask.request, t), cols = t->dim / slices;

		for (int64_t s = 0; s < slices; s++)
			pieces[n++] = (struct sc_piece){.table = (uint32_t)i,
							.col_offset = s * cols,
							.cols = cols,
							.key = table_key(t, p->ask.planner) /
							       (double)slices};
	}
	*n_pieces = n;
	return pieces;
}

static int by_table(const void *a, const void *b)
{
	const struct sc_piece *x = a, *y = b;

	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	return (x->col_offset > y->col_offset) - (x->col_offset < y->col_offset);
}

/* Exchanges go by the rank with most pieces, so both frameworks that plan so keep counts even. */
static int plan_greedy(const struct planning *p)
{
	const struct sc_request *req = p->ask.request;
	struct sc_shard_plan *plan = &p->out->plan;
	struct sc_greedy how = {.world = (uint32_t)req->config.gpus};
	size_t n, n_ranks = how.world;
	struct sc_piece *pieces = cut(p, &n);

	how.max_pieces = (n + n_ranks - 1) / n_ranks;
	sc_place_greedily(&how, pieces, n);
	qsort(pieces, n, sizeof(*pieces), by_table);
	plan->world = how.world;
	plan->ranks_per_host = sc_shard_ranks_per_host(req);
	for (size_t i = 0; i < n; i++) {
		const struct sc_table *t = &p->tables.at[pieces[i].table];

		if (pieces[i].col_offset == 0)
			sc_plan_begin_table(
				plan, t, pieces[i].cols < t->dim ? SC_COLUMN_WISE : SC_TABLE_WISE);
		sc_plan_add_shard(plan, &(struct sc_shard){.rank = pieces[i].rank,
							   .col_offset = pieces[i].col_offset,
							   .rows = t->rows,
							   .cols = pieces[i].cols});
	}
	return 0;
}

static int load_plan(const struct planning *p, const char *ref, struct sc_err *err)
{
	const struct sc_key_text given = {"sharding.plan", ref};
	const char *path;
	int rc = sc_config_file_of(&p->ask.request->config, given, p->arena, &path, err);

	if (rc == 0)
		rc = sc_shard_plan_load(path, &p->tables, p->arena, &p->out->plan, err);
	return rc;
}

static int run_planner(const struct planning *p, struct sc_err *err)
{
	const struct sc_request *request = p->ask.request;
	int rc;

	switch (p->ask.planner) {
	case SC_PLANNER_HUGECTR:
		return plan_hugectr(p, err);
	case SC_PLANNER_MEMORY_BALANCED:
	case SC_PLANNER_LOOKUPS:
		return plan_greedy(p);
	case SC_PLANNER_TORCHREC:
		rc = sc_shard_check_size(&request->config.model, err);
		return rc ? rc : plan_torchrec(p, err);
	case SC_PLANNER_NONE:
	case SC_PLANNER_STEPCAST:
		break;
	}
	rc = sc_shard_check_size(&request->config.model, err);
	return rc ? rc : sc_step_plan(request, p->arena, &p->out->plan, err);
}

/* `file`: the plan is read from there; NULL: the planner makes it. */
static int make_plan(struct planning *p, const char *file, struct sc_err *err)
{
	int rc;

	*p->out = (struct sc_planned){.cut_short_tables = 0};
	sc_dlrm_tables(p->ask.request, p->arena, &p->tables);
	rc = file ? load_plan(p, file, err) : run_planner(p, err);
	if (rc)
		sc_shard_plan_release(&p->out->plan);
	return rc;
}

int sc_plan_by(const struct sc_planner_ask *ask, struct sc_arena *arena, struct sc_planned *out,
	       struct sc_err *err)
{
	struct planning p = {.ask = *ask, .arena = arena, .out = out};

	return make_plan(&p, NULL, err);
}

int sc_chosen_plan_init(struct sc_chosen_plan *chosen, const struct sc_request *request,
			struct sc_err *err)
{
	struct planning p = {.ask = {.request = request, .planner = sc_request_planner(request)},
			     .arena = &chosen->arena,
			     .out = &chosen->planned};
	int rc;

	*chosen = (struct sc_chosen_plan){.is_there = false};
	sc_arena_init(&chosen->arena, ARENA_BLOCK_BYTES);
	if (request->config.model.family != SC_DLRM)
		return 0;
	rc = make_plan(&p, request->config.sharding.plan, err);
	chosen->is_there = rc == 0;
	if (rc)
		sc_chosen_plan_release(chosen);
	return rc;
}

void sc_chosen_plan_release(struct sc_chosen_plan *chosen)
{
	sc_shard_plan_release(&chosen->planned.plan);
	sc_arena_release(&chosen->arena);
}

int sc_predict_chosen(struct sc_predictor *predictor, const struct sc_request *request,
		      const struct sc_predict_opts *opts, struct sc_prediction *out,
		      struct sc_err *err)
{
	struct sc_predict_opts own = *opts;
	struct sc_chosen_plan chosen;
	int rc;

	if (request->config.model.family != SC_DLRM || opts->plan)
		return sc_predict(predictor, request, opts, out, err);
	rc = sc_chosen_plan_init(&chosen, request, err);
	if (rc)
		return rc;
	own.plan = &chosen.planned.plan;
	rc = sc_predict(predictor, request, &own, out, err);
	if (rc == 0)
		sc_chosen_plan_warn(&chosen, out);
	sc_chosen_plan_release(&chosen);
	return rc;
}

void sc_chosen_plan_warn(const struct sc_chosen_plan *chosen, struct sc_prediction *out)
{
	if (chosen->planned.cut_short_tables)
		sc_warn(&out->warnings,
			"TorchRec's planner would go on for long with %zu tables; the best of its "
			"first proposals is taken",
			chosen->planned.cut_short_tables);
}
