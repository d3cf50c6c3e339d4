/* TorchRec's EmbeddingShardingPlanner: proposers that choose an option for each table, and the best of
 * what its partitioner makes of them (planner/planners.py and proposers.py of meta-pytorch/torchrec
 * 376cac6a). A baseline: it stops where TorchRec stops. */
#include <math.h>
#include <string.h>

#include "study/shard/shard_solve_priv.h"
#include "study/shard/shard_torchrec_search_priv.h"

enum { MAX_GRID_PROPOSALS = 10000 }; /* MAX_PROPOSALS */
static const double STOP_GAP = 1e-6;
static const double MAX_WORK = 1e8; /* of the placer: about a second */

/* The options of a table that constraints leave, sorted by one of two scores. */
struct ranked {
	const uint32_t *option;
	uint32_t n;
};
struct search {
	const struct sc_shard_problem *problem;
	struct sc_placer placer;
	struct ranked *by_depth, *by_sum; /* of each table */
	uint32_t *at;                     /* index of each table's option in a list */
	uint32_t *chosen, *best_chosen;   /* options of a proposal, of the best one */
	double best;
	struct sc_arena *arena;
};

/* _sharding_option_score: the costliest shard, or all of them */
static double score(const struct sc_shard_problem *problem, const struct sc_option *option,
		    bool depth)
{
	double most = 0, sum = 0;

	for (uint32_t i = 0; i < sc_option_n_shards(problem, option); i++) {
		double cost = problem->shards.at[sc_option_shard_index(problem, option, i)].cost;

		sum += cost;
		if (most < cost)
			most = cost;
	}
	return depth ? most : sum;
}

static bool is_allowed(const struct sc_shard_problem *problem, const struct sc_option *option)
{
	for (size_t i = 0; i < problem->n_constraints; i++) {
		if (!sc_shard_rule_allows(problem, &problem->constraints[i], option))
			return false;
	}
	return true;
}

static int check_constraints(const struct sc_shard_problem *problem, struct sc_err *err)
{
	for (size_t i = 0; i < problem->n_constraints; i++) {
		const struct sc_shard_constraint *c = &problem->constraints[i];

		if (c->rank >= 0 || sc_rule_is_pair(c))
			return sc_err_set(
				err, SC_EUNSUPPORTED,
				"TorchRec's planner constrains types and tiers of a table, "
				"not ranks or other tables; table %.64s",
				problem->tables[c->table].name);
	}
	return 0;
}

/* Options of a table from the lowest score up, those alike in the planner's order. */
static struct ranked rank_options(const struct search *search, size_t table, bool depth)
{
	const struct sc_shard_problem *problem = search->problem;
	uint32_t first = problem->first_option.at[table];
	uint32_t end = problem->first_option.at[table + 1], n = 0;
	uint32_t *list = sc_arena_calloc(search->arena, end - first, sizeof(*list));
	double *scores = sc_arena_calloc(search->arena, end - first, sizeof(*scores));

	for (uint32_t o = first; o < end; o++) {
		const struct sc_option *option = &problem->options.at[o];
		double own = score(problem, option, depth);
		uint32_t k;

		if (!is_allowed(problem, option))
			continue;
		for (k = n++; k > 0 && scores[k - 1] > own; k--) {
			scores[k] = scores[k - 1];
			list[k] = list[k - 1];
		}
		scores[k] = own;
		list[k] = o;
	}
	return (struct ranked){list, n};
}

static int init(struct search *search, const struct sc_shard_problem *problem,
		struct sc_arena *arena, struct sc_err *err)
{
	size_t n = problem->n_tables;

	*search = (struct search){
		.problem = problem,
		.by_depth = sc_arena_calloc(arena, n, sizeof(struct ranked)),
		.by_sum = sc_arena_calloc(arena, n, sizeof(struct ranked)),
		.at = sc_arena_calloc(arena, n, sizeof(uint32_t)),
		.chosen = sc_arena_calloc(arena, n, sizeof(uint32_t)),
		.best_chosen = sc_arena_calloc(arena, n, sizeof(uint32_t)),
		.best = -1,
		.arena = arena,
	};
	sc_placer_init(&search->placer, problem, arena);
	for (size_t t = 0; t < n; t++) {
		search->by_depth[t] = rank_options(search, t, true);
		search->by_sum[t] = rank_options(search, t, false);
		if (search->by_depth[t].n == 0)
			return sc_err_set(err, SC_ECONFLICT,
					  "the constraints leave table %.64s no type and tier",
					  problem->tables[t].name);
	}
	return 0;
}

static bool is_cut_short(const struct search *search)
{
	return search->placer.work > MAX_WORK;
}

static void try_chosen(struct search *search)
{
	double cost, limit = search->best < 0 ? HUGE_VAL : search->best;

	if (!sc_placer_place(&search->placer, search->chosen, limit, &cost))
		return;
	search->best = cost;
	memcpy(search->best_chosen, search->chosen,
	       search->problem->n_tables * sizeof(*search->chosen));
}

/* GridSearchProposer: all combinations, if they are few; the last table's option changes fastest. */
static void propose_grid(struct search *search)
{
	size_t n = search->problem->n_tables, t;
	double n_proposals = 1;

	for (t = 0; t < n; t++)
		n_proposals *= search->by_depth[t].n;
	if (n_proposals > MAX_GRID_PROPOSALS)
		return;
	memset(search->at, 0, n * sizeof(*search->at));
	do {
		for (t = 0; t < n; t++)
			search->chosen[t] = search->by_depth[t].option[search->at[t]];
		try_chosen(search);
		for (t = n; t > 0 && ++search->at[t - 1] == search->by_depth[t - 1].n; t--)
			search->at[t - 1] = 0;
	} while (t > 0);
}

/* What GreedyProposer compares: HBM, then host memory; of the largest shard, then of all. */
struct weight {
	double of[4];
};

static bool heavier(const struct weight *a, const struct weight *b)
{
	for (size_t i = 0; i < sizeof(a->of) / sizeof(a->of[0]); i++)
		if (a->of[i] < b->of[i] || a->of[i] > b->of[i])
			return a->of[i] > b->of[i];
	return false;
}

static struct weight *weigh_options(const struct search *search)
{
	const struct sc_shard_problem *problem = search->problem;
	struct weight *weights =
		sc_arena_calloc(search->arena, problem->options.n, sizeof(*weights));

	for (size_t o = 0; o < problem->options.n; o++) {
		const struct sc_option *option = &problem->options.at[o];

		for (uint32_t i = 0; i < option->n_shards; i++) {
			const struct sc_option_shard *shard =
				&problem->shards.at[option->first_shard + i];

			if (weights[o].of[0] < shard->hbm_bytes)
				weights[o].of[0] = shard->hbm_bytes;
			if (weights[o].of[2] < shard->host_bytes)
				weights[o].of[2] = shard->host_bytes;
		}
		weights[o].of[1] = search->placer.storage[o].hbm;
		weights[o].of[3] = search->placer.storage[o].host;
	}
	return weights;
}

/* GreedyProposer: each table's best option; then, over and over, the next best of the table that takes
 * most memory, whatever came of the proposal before. */
static void propose_greedy(struct search *search, const struct ranked *ranked,
			   const struct weight *weights)
{
	size_t n = search->problem->n_tables, heaviest;

	memset(search->at, 0, n * sizeof(*search->at));
	for (size_t t = 0; t < n; t++)
		search->chosen[t] = ranked[t].option[0];
	do {
		struct weight most = {{0}};

		try_chosen(search);
		heaviest = n;
		for (size_t t = 0; t < n; t++) {
			const struct weight *own = &weights[search->chosen[t]];

			if (search->at[t] + 1 < ranked[t].n && heavier(own, &most)) {
				heaviest = t;
				most = *own;
			}
		}
		if (heaviest < n)
			search->chosen[heaviest] = ranked[heaviest].option[++search->at[heaviest]];
	} while (heaviest < n && !is_cut_short(search));
}

/* UniformProposer: all tables by one type, where all have it. */
static void propose_uniform(struct search *search)
{
	const struct sc_shard_problem *problem = search->problem;

	for (int type = 0; type < SC_N_SHARD_TYPES; type++) {
		bool all = true;

		for (size_t t = 0; t < problem->n_tables && all; t++) {
			const struct ranked *ranked = &search->by_depth[t];
			uint32_t k = 0;

			while (k < ranked->n &&
			       (int)problem->options.at[ranked->option[k]].type != type)
				k++;
			all = k < ranked->n;
			if (all)
				search->chosen[t] = ranked->option[k];
		}
		if (all)
			try_chosen(search);
	}
}

int sc_torchrec_plan(const struct sc_shard_problem *problem, struct sc_arena *arena,
		     struct sc_shard_solution *out, struct sc_err *err)
{
	struct sc_shard_plan plan = {.world = problem->world,
				     .ranks_per_host = problem->ranks_per_host};
	struct sc_shard_solution solution = {0};
	double begin_s = sc_shard_now_s(), cost;
	struct weight *weights;
	struct search search;
	int rc = check_constraints(problem, err);

	if (rc == 0)
		rc = init(&search, problem, arena, err);
	if (rc)
		return rc;
	weights = weigh_options(&search);
	propose_grid(&search);
	propose_greedy(&search, search.by_depth, weights);
	propose_greedy(&search, search.by_sum, weights);
	propose_uniform(&search);
	if (search.best < 0 ||
	    !sc_placer_place(&search.placer, search.best_chosen, HUGE_VAL, &cost))
		return sc_err_set(err, SC_ECONFLICT,
				  "no proposal of TorchRec's planner fits the memory of %u ranks",
				  problem->world);
	for (size_t t = 0; t < problem->n_tables; t++)
		sc_plan_add_option(&plan, problem, search.best_chosen[t],
				   search.placer.rank + search.placer.first_rank[t]);
	rc = sc_shard_rate(problem, &plan, true, arena, &solution, err);
	sc_shard_plan_release(&plan);
	if (rc)
		return rc;
	solution.bound = sc_shard_bound(problem, &solution.lp_bound);
	solution.proven = solution.cost <= solution.bound * (1 + STOP_GAP);
	solution.cut_short = is_cut_short(&search);
	solution.seconds = sc_shard_now_s() - begin_s;
	*out = solution;
	return 0;
}
