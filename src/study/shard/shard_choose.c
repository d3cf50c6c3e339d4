/* See the header. */
#include "study/shard/shard_choose.h"

#include <math.h>
#include <string.h>

#include "base/units.h"
#include "core/profile/paths.h"
#include "predict/dlrm/dlrm.h"
#include "study/shard/shard_objective.h"
#include "study/shard/shard_step.h"

/* What distributed-embeddings' benchmarks are run with (README: --column_slice_threshold 1280 Mi). */
#define SLICE_ELEMENTS (1280 * 1048576.0)

struct planning {
	const struct sc_request *request;
	struct sc_arena *arena;
	struct sc_table_list tables;
	struct sc_shard_plan plan;
	bool cut_short;
};

enum { ARENA_BLOCK_BYTES = 64 << 10 };

static double batch_of(const struct sc_request *req)
{
	return (double)req->config.training.micro_batch;
}

enum sc_planner sc_request_planner(const struct sc_request *req)
{
	enum sc_planner own = req->config.sharding.planner;

	if (own == SC_PLANNER_NONE)
		own = req->software.dlrm.planner;
	return own == SC_PLANNER_NONE ? SC_PLANNER_STEPCAST : own;
}

static int plan_hugectr(struct planning *p, struct sc_err *err)
{
	struct sc_hugectr_opts opts;
	struct sc_hugectr_rank *ranks;

	sc_hugectr_opts_of(p->request, &opts);
	ranks = sc_arena_calloc(p->arena, opts.gpus, sizeof(*ranks));
	return sc_hugectr_plan(&opts, &p->tables, p->arena, &p->plan, ranks, err);
}

static int take_solution(struct planning *p, struct sc_shard_problem *problem, int rc,
			 struct sc_shard_solution *solution)
{
	if (rc == 0) {
		p->plan = solution->plan;
		p->cut_short = solution->cut_short;
	}
	sc_shard_problem_release(problem);
	return rc;
}

static int plan_torchrec(struct planning *p, struct sc_err *err)
{
	const struct sc_request *req = p->request;
	struct sc_torchrec_topology topology;
	struct sc_shard_problem problem;
	struct sc_shard_solution solution;
	int rc;

	sc_torchrec_topology_init(&topology);
	topology.world = (uint32_t)req->config.gpus;
	topology.ranks_per_host = sc_shard_ranks_per_host(req);
	topology.batch_per_rank = batch_of(p->request);
	topology.hbm_cap_bytes =
		req->device.hbm_gib * SC_BYTES_PER_GIB * (1 - topology.reserved_frac);
	sc_torchrec_budgets_of(req, &topology);
	rc = sc_torchrec_problem(&topology, &p->tables, p->arena, NULL, &problem, err);
	if (rc)
		return rc;
	return take_solution(p, &problem, sc_torchrec_plan(&problem, p->arena, &solution, err),
			     &solution);
}

/* ---- whole tables, or slices of columns, on the rank with the least so far ---- */

struct piece {
	uint32_t table;
	int64_t col_offset, cols;
	double key;
};

static double table_key(const struct planning *p, const struct sc_table *t, enum sc_planner by)
{
	if (by == SC_PLANNER_LOOKUPS)
		return (double)batch_of(p->request) * t->pooling * (double)t->features *
		       (double)t->dim;
	return (double)t->rows * (double)t->dim;
}

static int by_key_descending(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	if (x->key > y->key || x->key < y->key)
		return x->key > y->key ? -1 : 1;
	return x->table != y->table
		       ? (x->table > y->table) - (x->table < y->table)
		       : (x->col_offset > y->col_offset) - (x->col_offset < y->col_offset);
}

/* Tables above the threshold are halved until below it (distributed-embeddings), at most to the world. */
static int64_t n_slices(const struct planning *p, const struct sc_table *t)
{
	double limit = p->request->config.sharding.column_slice_elements;
	double elements = (double)t->rows * (double)t->dim;
	int64_t n = 1;

	if (!(limit > 0))
		limit = SLICE_ELEMENTS;
	while (elements / (double)n > limit && 2 * n <= (int64_t)p->plan.world &&
	       t->dim % (2 * n) == 0)
		n *= 2;
	return n;
}

static struct piece *cut(const struct planning *p, enum sc_planner by, size_t *n_pieces)
{
	struct piece *pieces;
	size_t n = 0;

	for (size_t i = 0; i < p->tables.n; i++)
		n += (size_t)n_slices(p, &p->tables.at[i]);
	pieces = sc_arena_calloc(p->arena, n, sizeof(*pieces));
	n = 0;
	for (size_t i = 0; i < p->tables.n; i++) {
		const struct sc_table *t = &p->tables.at[i];
		int64_t slices = n_slices(p, t);

		for (int64_t s = 0; s < slices; s++)
			pieces[n++] =
				(struct piece){(uint32_t)i, s * (t->dim / slices), t->dim / slices,
					       table_key(p, t, by) / (double)slices};
	}
	qsort(pieces, n, sizeof(*pieces), by_key_descending);
	*n_pieces = n;
	return pieces;
}

struct load {
	double sum; /* of keys */
	size_t n;   /* pieces */
};

/* The least loaded rank that has room for a piece more: exchanges go by the rank with most of them, so
 * both frameworks that plan so keep counts even. */
static uint32_t least_loaded(const struct load *load, uint32_t first, uint32_t world, size_t max_n)
{
	uint32_t at = world;

	for (uint32_t r = first; r < world; r++)
		if (load[r].n < max_n && (at == world || load[r].sum < load[at].sum))
			at = r;
	return at;
}

static int by_table(const void *a, const void *b)
{
	const struct sc_shard *x = a, *y = b;

	return x->table != y->table
		       ? (x->table > y->table) - (x->table < y->table)
		       : (x->col_offset > y->col_offset) - (x->col_offset < y->col_offset);
}

static void list_tables(struct planning *p)
{
	struct sc_shard_plan *plan = &p->plan;

	qsort(plan->shards.at, plan->shards.n, sizeof(*plan->shards.at), by_table);
	for (uint32_t i = 0; i < plan->shards.n;) {
		uint32_t first = i, table = plan->shards.at[i].table;
		const struct sc_table *t = &p->tables.at[table];
		struct sc_table_placement placement = {
			.name = t->name, .rows = t->rows, .dim = t->dim, .first_shard = first};

		while (i < plan->shards.n && plan->shards.at[i].table == table)
			i++;
		placement.n_shards = i - first;
		placement.type = placement.n_shards > 1 ? SC_COLUMN_WISE : SC_TABLE_WISE;
		SC_VEC_PUSH(&plan->tables, placement);
	}
}

static int plan_greedy(struct planning *p, enum sc_planner by)
{
	const struct sc_request *req = p->request;
	uint32_t world = (uint32_t)req->config.gpus;
	uint32_t first = sc_dlrm_one_rank_bottom(req) ? 1 : 0;
	struct load *load = sc_arena_calloc(p->arena, world, sizeof(*load));
	struct piece *pieces;
	size_t n, max_n;

	p->plan.world = world;
	p->plan.ranks_per_host = sc_shard_ranks_per_host(req);
	pieces = cut(p, by, &n);
	max_n = (n + world - first - 1) / (world - first);
	for (size_t i = 0; i < n; i++) {
		uint32_t rank = least_loaded(load, first, world, max_n);
		struct sc_shard shard = {
			.table = pieces[i].table,
			.rank = (int32_t)rank,
			.col_offset = pieces[i].col_offset,
			.rows = p->tables.at[pieces[i].table].rows,
			.cols = pieces[i].cols,
		};

		load[rank].sum += pieces[i].key;
		load[rank].n++;
		SC_VEC_PUSH(&p->plan.shards, shard);
	}
	list_tables(p);
	return 0;
}

static int load_plan(struct planning *p, const char *ref, struct sc_err *err)
{
	const struct sc_request *req = p->request;
	const struct sc_origin *origin = sc_config_origin(&req->config, "sharding.plan");
	bool is_typed = origin && sc_origin_is_typed(origin->file);
	const char *path;
	int rc;

	if (is_typed)
		rc = sc_config_path_typed((struct sc_config_ref){ref, req->config.file}, p->arena,
					  &path, err);
	else
		rc = sc_config_path((struct sc_config_ref){ref, req->config.file}, p->arena, &path,
				    err);
	if (rc)
		sc_err_prefix(err, "sharding.plan");
	else
		rc = sc_shard_plan_load(path, &p->tables, p->arena, &p->plan, err);
	return rc;
}

static int run_planner(struct planning *p, enum sc_planner planner, struct sc_err *err)
{
	int rc;

	switch (planner) {
	case SC_PLANNER_HUGECTR:
		return plan_hugectr(p, err);
	case SC_PLANNER_TORCHREC:
		rc = sc_shard_check_size(&p->request->config.model, err);
		return rc ? rc : plan_torchrec(p, err);
	case SC_PLANNER_MEMORY_BALANCED:
	case SC_PLANNER_LOOKUPS:
		return plan_greedy(p, planner);
	case SC_PLANNER_NONE:
	case SC_PLANNER_STEPCAST:
		break;
	}
	rc = sc_shard_check_size(&p->request->config.model, err);
	return rc ? rc : sc_step_plan(p->request, p->arena, &p->plan, err);
}

int sc_plan_by(const struct sc_request *request, enum sc_planner planner, struct sc_arena *arena,
	       struct sc_shard_plan *out, struct sc_err *err)
{
	struct planning p = {.request = request, .arena = arena};
	int rc;

	sc_dlrm_tables(request, arena, &p.tables);
	rc = run_planner(&p, planner, err);
	if (rc)
		sc_shard_plan_release(&p.plan);
	else
		*out = p.plan;
	return rc;
}

int sc_chosen_plan_init(struct sc_chosen_plan *chosen, const struct sc_request *request,
			struct sc_err *err)
{
	const char *ref = request->config.sharding.plan;
	struct planning p = {.request = request, .arena = &chosen->arena};
	int rc;

	*chosen = (struct sc_chosen_plan){.plan = {.world = 0}};
	sc_arena_init(&chosen->arena, ARENA_BLOCK_BYTES);
	if (request->config.model.family != SC_DLRM)
		return 0;
	sc_dlrm_tables(request, p.arena, &p.tables);
	rc = ref ? load_plan(&p, ref, err) : run_planner(&p, sc_request_planner(request), err);
	chosen->plan = p.plan;
	chosen->is_there = rc == 0;
	chosen->cut_short_tables = p.cut_short ? p.tables.n : 0;
	if (rc)
		sc_chosen_plan_release(chosen);
	return rc;
}

void sc_chosen_plan_release(struct sc_chosen_plan *chosen)
{
	sc_shard_plan_release(&chosen->plan);
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
	own.plan = &chosen.plan;
	rc = sc_predict(predictor, request, &own, out, err);
	if (rc == 0)
		sc_chosen_plan_warn(&chosen, out);
	sc_chosen_plan_release(&chosen);
	return rc;
}

void sc_chosen_plan_warn(const struct sc_chosen_plan *chosen, struct sc_prediction *out)
{
	if (chosen->cut_short_tables)
		sc_warn(&out->warnings,
			"TorchRec's planner would go on for long with %zu tables; the best of its "
			"first proposals is taken",
			chosen->cut_short_tables);
}
