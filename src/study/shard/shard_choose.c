/* Where the tables of a request go: a plan from a file, or what the planner of its software makes. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "core/profile/paths.h"
#include "predict/dlrm/dlrm.h"
#include "study/shard/shard_objective.h"
#include "study/shard/shard_step.h"

/* What distributed-embeddings' benchmarks are run with (README: --column_slice_threshold 1280 Mi). */
#define SLICE_ELEMENTS (1280 * 1048576.0)

enum sc_planner sc_dlrm_planner(const struct sc_request *req)
{
	enum sc_planner own = req->config.sharding.planner;

	if (own == SC_PLANNER_NONE)
		own = req->software.dlrm.planner;
	return own == SC_PLANNER_NONE ? SC_PLANNER_STEPCAST : own;
}

static uint32_t ranks_per_host(const struct sc_request *req)
{
	return (uint32_t)fmin((double)req->config.gpus, (double)req->config.cluster.gpus_per_node);
}

static int plan_hugectr(struct sc_dlrm *dlrm, struct sc_err *err)
{
	struct sc_hugectr_opts opts;
	struct sc_hugectr_rank *ranks;

	sc_hugectr_opts_of(dlrm->request, &opts);
	ranks = sc_arena_calloc(dlrm->arena, opts.gpus, sizeof(*ranks));
	return sc_hugectr_plan(&opts, &dlrm->tables, dlrm->arena, &dlrm->plan, ranks, err);
}

static int take_solution(struct sc_dlrm *dlrm, struct sc_shard_problem *problem, int rc,
			 struct sc_shard_solution *solution)
{
	if (rc == 0) {
		dlrm->plan = solution->plan;
		dlrm->plan_cut_short = solution->cut_short;
	}
	sc_shard_problem_release(problem);
	return rc;
}

static int plan_torchrec(struct sc_dlrm *dlrm, struct sc_err *err)
{
	const struct sc_request *req = dlrm->request;
	struct sc_torchrec_topology topology;
	struct sc_shard_problem problem;
	struct sc_shard_solution solution;
	int rc;

	sc_torchrec_topology_init(&topology);
	topology.world = (uint32_t)req->config.gpus;
	topology.ranks_per_host = ranks_per_host(req);
	topology.batch_per_rank = dlrm->batch;
	topology.hbm_cap_bytes =
		req->device.hbm_gib * SC_BYTES_PER_GIB * (1 - topology.reserved_frac);
	sc_torchrec_budgets_of(req, &topology);
	rc = sc_torchrec_problem(&topology, &dlrm->tables, dlrm->arena, NULL, &problem, err);
	if (rc)
		return rc;
	return take_solution(dlrm, &problem,
			     sc_torchrec_plan(&problem, dlrm->arena, &solution, err), &solution);
}

/* ---- whole tables, or slices of columns, on the rank with the least so far ---- */

struct piece {
	uint32_t table;
	int64_t col_offset, cols;
	double key;
};

static double table_key(const struct sc_dlrm *dlrm, const struct sc_table *t, enum sc_planner by)
{
	if (by == SC_PLANNER_LOOKUPS)
		return (double)dlrm->batch * t->pooling * (double)t->features * (double)t->dim;
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
static int64_t n_slices(const struct sc_dlrm *dlrm, const struct sc_table *t)
{
	double limit = dlrm->request->config.sharding.column_slice_elements;
	double elements = (double)t->rows * (double)t->dim;
	int64_t n = 1;

	if (!(limit > 0))
		limit = SLICE_ELEMENTS;
	while (elements / (double)n > limit && 2 * n <= (int64_t)dlrm->plan.world &&
	       t->dim % (2 * n) == 0)
		n *= 2;
	return n;
}

static struct piece *cut(const struct sc_dlrm *dlrm, enum sc_planner by, size_t *n_pieces)
{
	struct piece *pieces;
	size_t n = 0;

	for (size_t i = 0; i < dlrm->tables.n; i++)
		n += (size_t)n_slices(dlrm, &dlrm->tables.at[i]);
	pieces = sc_arena_calloc(dlrm->arena, n, sizeof(*pieces));
	n = 0;
	for (size_t i = 0; i < dlrm->tables.n; i++) {
		const struct sc_table *t = &dlrm->tables.at[i];
		int64_t slices = n_slices(dlrm, t);

		for (int64_t s = 0; s < slices; s++)
			pieces[n++] =
				(struct piece){(uint32_t)i, s * (t->dim / slices), t->dim / slices,
					       table_key(dlrm, t, by) / (double)slices};
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

static void list_tables(struct sc_dlrm *dlrm)
{
	struct sc_shard_plan *plan = &dlrm->plan;

	qsort(plan->shards.at, plan->shards.n, sizeof(*plan->shards.at), by_table);
	for (uint32_t i = 0; i < plan->shards.n;) {
		uint32_t first = i, table = plan->shards.at[i].table;
		const struct sc_table *t = &dlrm->tables.at[table];
		struct sc_table_placement placement = {
			.name = t->name, .rows = t->rows, .dim = t->dim, .first_shard = first};

		while (i < plan->shards.n && plan->shards.at[i].table == table)
			i++;
		placement.n_shards = i - first;
		placement.type = placement.n_shards > 1 ? SC_COLUMN_WISE : SC_TABLE_WISE;
		SC_VEC_PUSH(&plan->tables, placement);
	}
}

static int plan_greedy(struct sc_dlrm *dlrm, enum sc_planner by)
{
	const struct sc_request *req = dlrm->request;
	uint32_t world = (uint32_t)req->config.gpus;
	uint32_t first = sc_dlrm_one_rank_bottom(req) ? 1 : 0;
	struct load *load = sc_arena_calloc(dlrm->arena, world, sizeof(*load));
	struct piece *pieces;
	size_t n, max_n;

	dlrm->plan.world = world;
	dlrm->plan.ranks_per_host = ranks_per_host(req);
	pieces = cut(dlrm, by, &n);
	max_n = (n + world - first - 1) / (world - first);
	for (size_t i = 0; i < n; i++) {
		uint32_t rank = least_loaded(load, first, world, max_n);
		struct sc_shard shard = {
			.table = pieces[i].table,
			.rank = (int32_t)rank,
			.col_offset = pieces[i].col_offset,
			.rows = dlrm->tables.at[pieces[i].table].rows,
			.cols = pieces[i].cols,
		};

		load[rank].sum += pieces[i].key;
		load[rank].n++;
		SC_VEC_PUSH(&dlrm->plan.shards, shard);
	}
	list_tables(dlrm);
	return 0;
}

static int load_plan(struct sc_dlrm *dlrm, const char *ref, struct sc_err *err)
{
	const struct sc_request *req = dlrm->request;
	const struct sc_origin *origin = sc_config_origin(&req->config, "sharding.plan");
	bool is_typed = origin && sc_origin_is_typed(origin->file);
	const char *path;
	int rc;

	if (is_typed)
		rc = sc_config_path_typed(ref, req->config.file, dlrm->arena, &path, err);
	else
		rc = sc_config_path(ref, req->config.file, dlrm->arena, &path, err);
	if (rc)
		sc_err_prefix(err, "sharding.plan");
	else
		rc = sc_shard_plan_load(path, &dlrm->tables, dlrm->arena, &dlrm->plan, err);
	return rc;
}

static int check_plan(struct sc_dlrm *dlrm, struct sc_err *err)
{
	int rc = sc_shard_plan_check(&dlrm->plan, err);

	if (rc == 0)
		rc = sc_shard_plan_check_tables(&dlrm->plan, dlrm->tables.at, dlrm->tables.n, err);
	if (rc == 0 && (int64_t)dlrm->plan.world != dlrm->request->config.gpus)
		rc = sc_err_set(err, SC_ECONFLICT,
				"the sharding plan is for %u ranks, the request has %lld GPUs",
				dlrm->plan.world, (long long)dlrm->request->config.gpus);
	return rc;
}

static int run_planner(struct sc_dlrm *dlrm, enum sc_planner planner, struct sc_err *err)
{
	switch (planner) {
	case SC_PLANNER_HUGECTR:
		return plan_hugectr(dlrm, err);
	case SC_PLANNER_TORCHREC:
		return plan_torchrec(dlrm, err);
	case SC_PLANNER_MEMORY_BALANCED:
	case SC_PLANNER_LOOKUPS:
		return plan_greedy(dlrm, planner);
	case SC_PLANNER_NONE:
	case SC_PLANNER_STEPCAST:
		break;
	}
	return sc_step_plan(dlrm->request, dlrm->arena, &dlrm->plan, err);
}

int sc_dlrm_plan_by(const struct sc_request *request, enum sc_planner planner,
		    struct sc_arena *arena, struct sc_shard_plan *out, struct sc_err *err)
{
	struct sc_dlrm dlrm = {.request = request, .arena = arena};
	int rc;

	sc_dlrm_tables(request, arena, &dlrm.tables);
	dlrm.batch = (double)request->config.training.micro_batch;
	rc = run_planner(&dlrm, planner, err);
	if (rc)
		sc_shard_plan_release(&dlrm.plan);
	else
		*out = dlrm.plan;
	return rc;
}

int sc_dlrm_choose_plan(struct sc_dlrm *dlrm, struct sc_err *err)
{
	const char *ref = dlrm->request->config.sharding.plan;
	int rc;

	dlrm->owns_plan = !dlrm->opts->plan;
	if (dlrm->opts->plan) {
		dlrm->plan = *dlrm->opts->plan;
		rc = 0;
	} else {
		rc = ref ? load_plan(dlrm, ref, err)
			 : run_planner(dlrm, sc_dlrm_planner(dlrm->request), err);
	}
	if (rc)
		return rc;
	if (!dlrm->plan.ranks_per_host) /* its file does not say */
		dlrm->plan.ranks_per_host = ranks_per_host(dlrm->request);
	return check_plan(dlrm, err);
}
