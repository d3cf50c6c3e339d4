/* TorchRec's EmbeddingShardingPlanner: proposers that choose an option for each table, and the best of
 * what its partitioner makes of them (planner/planners.py and proposers.py of meta-pytorch/torchrec
 * 376cac6a). A baseline: it stops where TorchRec stops. */
#include <math.h>
#include <string.h>

#include "base/search.h"
#include "study/shard/shard.h"
#include "study/shard/shard_solve_priv.h"

/* What its shards cost so far, and what is left. */
struct rank {
	double cost;
	struct sc_shard_memory left;
};
/* Arrays live in the arena of sc_placer_init. */
struct sc_placer {
	const struct sc_shard_problem *problem;
	const struct sc_shard_memory *storage; /* of each option */
	struct rank *ranks, *saved;            /* each; those of a host */
	double limit;
	bool over;          /* a rank reached the limit */
	double work;        /* shards placed so far, and half the tables looked at */
	uint32_t *order;    /* tables, those of more storage first, as of the last proposal */
	size_t *first_rank; /* where a table's shards begin in rank[] */
	int32_t *rank;      /* of each shard of the proposal */
	uint32_t *by_cost;  /* ranks, once they are sorted */
	bool is_sorted;
	uint32_t *hosts; /* by cost */
	double *host_sum;
};

/* TorchRec's GreedyPerfPartitioner (planner/partitioners.py of meta-pytorch/torchrec 376cac6a): uniform
 * options first, then table by table from the largest storage down, each shard to the rank that costs
 * least. Its order is that of bytes, not of cost, and nothing placed is ever moved. */

static struct sc_shard_memory sum_storage(const struct sc_shard_problem *problem,
					  const struct sc_option *option)
{
	struct sc_shard_memory sum = {0};

	for (uint32_t i = 0; i < sc_option_n_shards(problem, option); i++) {
		const struct sc_option_shard *shard =
			&problem->shards.at[sc_option_shard_index(problem, option, i)];

		sum.hbm_bytes += shard->hbm_bytes;
		sum.host_bytes += shard->host_bytes;
		sum.ssd_bytes += shard->ssd_bytes;
	}
	return sum;
}

static void placer_init(struct sc_placer *placer, const struct sc_shard_problem *problem,
			struct sc_arena *arena)
{
	size_t world = problem->world, n_hosts = world / problem->ranks_per_host, n_ranks = 0;
	struct sc_shard_memory *storage =
		sc_arena_calloc(arena, problem->options.n, sizeof(*storage));

	*placer = (struct sc_placer){
		.problem = problem,
		.ranks = sc_arena_calloc(arena, world, sizeof(struct rank)),
		.saved = sc_arena_calloc(arena, problem->ranks_per_host, sizeof(struct rank)),
		.storage = storage,
		.order = sc_arena_calloc(arena, problem->n_tables, sizeof(uint32_t)),
		.first_rank = sc_arena_calloc(arena, problem->n_tables, sizeof(size_t)),
		.by_cost = sc_arena_calloc(arena, world, sizeof(uint32_t)),
		.hosts = sc_arena_calloc(arena, n_hosts, sizeof(uint32_t)),
		.host_sum = sc_arena_calloc(arena, n_hosts, sizeof(double)),
	};
	for (size_t i = 0; i < problem->options.n; i++)
		storage[i] = sum_storage(problem, &problem->options.at[i]);
	for (size_t t = 0; t < problem->n_tables; t++) {
		uint32_t most = 0;

		for (uint32_t o = problem->first_option.at[t]; o < problem->first_option.at[t + 1];
		     o++)
			if (most < sc_option_n_shards(problem, &problem->options.at[o]))
				most = sc_option_n_shards(problem, &problem->options.at[o]);
		placer->order[t] = (uint32_t)t;
		placer->first_rank[t] = n_ranks;
		n_ranks += most;
	}
	placer->rank = sc_arena_calloc(arena, n_ranks, sizeof(*placer->rank));
}

static void reset(struct sc_placer *placer, double limit)
{
	const struct sc_shard_problem *problem = placer->problem;

	for (uint32_t r = 0; r < problem->world; r++) {
		placer->ranks[r] = (struct rank){
			.left = {.hbm_bytes = sc_rank_budget(problem, r),
				 /* The planner gives each rank its part of the host's memory. */
				 .host_bytes = problem->host_bytes / problem->ranks_per_host,
				 .ssd_bytes = problem->ssd_bytes / problem->ranks_per_host}};
	}
	placer->is_sorted = false;
	placer->limit = limit;
	placer->over = false;
}

static bool fits(const struct sc_placer *placer, const struct sc_option_shard *shard, uint32_t rank)
{
	const struct sc_shard_memory *left = &placer->ranks[rank].left;

	return shard->hbm_bytes <= left->hbm_bytes && shard->host_bytes <= left->host_bytes &&
	       shard->ssd_bytes <= left->ssd_bytes;
}

static void put(struct sc_placer *placer, const struct sc_option_shard *shard, uint32_t rank,
		int32_t *at)
{
	struct rank *on = &placer->ranks[rank];

	on->cost += shard->cost;
	on->left.hbm_bytes -= shard->hbm_bytes;
	on->left.host_bytes -= shard->host_bytes;
	on->left.ssd_bytes -= shard->ssd_bytes;
	*at = (int32_t)rank;
	if (on->cost >= placer->limit)
		placer->over = true;
}

/* Shard i on rank first + i. */
static bool place_each(struct sc_placer *placer, const struct sc_option *option, uint32_t first)
{
	const struct sc_shard_problem *problem = placer->problem;
	const struct sc_option_shard *shards = problem->shards.at;
	int32_t *at = placer->rank + placer->first_rank[option->table];
	uint32_t n = sc_option_n_shards(problem, option);

	placer->work += n;
	for (uint32_t i = 0; i < n; i++)
		if (!fits(placer, &shards[sc_option_shard_index(problem, option, i)], first + i))
			return false;
	for (uint32_t i = 0; i < n; i++)
		put(placer, &shards[sc_option_shard_index(problem, option, i)], first + i, &at[i]);
	return true;
}

/* The order of ranks: cost, then the place on the host, so that hosts fill evenly, then the rank. */
static bool before(const struct sc_placer *placer, uint32_t a, uint32_t b)
{
	uint32_t local = placer->problem->ranks_per_host;
	double cost_a = placer->ranks[a].cost, cost_b = placer->ranks[b].cost;

	if (cost_a < cost_b || cost_b < cost_a)
		return cost_a < cost_b;
	return a % local != b % local ? a % local < b % local : a < b;
}

/* Into the first n of the ranks by cost, from place `low` on. */
static void insert(struct sc_placer *placer, uint32_t rank, uint32_t low, uint32_t n)
{
	uint32_t *at = placer->by_cost;
	size_t place;

	SC_FIRST_NOT(place, i, low, n, before(placer, at[i], rank));
	memmove(at + place + 1, at + place, (n - place) * sizeof(*at));
	at[place] = rank;
}

/* Each shard on the cheapest rank that it fits on. */
static bool place_free(struct sc_placer *placer, const struct sc_option *option)
{
	const struct sc_option_shard *shard = placer->problem->shards.at + option->first_shard;
	int32_t *at = placer->rank + placer->first_rank[option->table];
	uint32_t world = placer->problem->world, *by_cost = placer->by_cost;

	placer->work += option->n_shards;
	for (uint32_t r = 0; !placer->is_sorted && r < world; r++)
		insert(placer, r, 0, r);
	placer->is_sorted = true;
	for (uint32_t i = 0; i < option->n_shards; i++) {
		uint32_t k = 0, rank;

		while (k < world && !fits(placer, &shard[i], by_cost[k]))
			k++;
		if (k == world)
			return false;
		rank = by_cost[k];
		put(placer, &shard[i], rank, &at[i]);
		memmove(by_cost + k, by_cost + k + 1, (world - k - 1) * sizeof(*by_cost));
		insert(placer, rank, k, world - 1);
	}
	return true;
}

/* Each shard on the cheapest rank of one host; all or none. */
static bool place_on_host(struct sc_placer *placer, const struct sc_option *option, uint32_t first)
{
	const struct sc_option_shard *shard = placer->problem->shards.at + option->first_shard;
	int32_t *at = placer->rank + placer->first_rank[option->table];
	uint32_t local = placer->problem->ranks_per_host, end = first + local;

	memcpy(placer->saved, placer->ranks + first, local * sizeof(*placer->saved));
	for (uint32_t i = 0; i < option->n_shards; i++) {
		uint32_t best = end;

		for (uint32_t r = first; r < end; r++)
			if (fits(placer, &shard[i], r) && (best == end || before(placer, r, best)))
				best = r;
		if (best == end) {
			memcpy(placer->ranks + first, placer->saved,
			       local * sizeof(*placer->saved));
			return false;
		}
		put(placer, &shard[i], best, &at[i]);
	}
	return true;
}

/* Hosts by cost, those alike in their order. */
static void sort_hosts(struct sc_placer *placer)
{
	uint32_t local = placer->problem->ranks_per_host, n = placer->problem->world / local;

	for (uint32_t i = 0; i < n; i++) {
		double cost = 0;
		uint32_t k = i;

		for (uint32_t r = i * local; r < (i + 1) * local; r++)
			cost += placer->ranks[r].cost;
		placer->host_sum[i] = cost;
		for (; k > 0 && placer->host_sum[placer->hosts[k - 1]] > cost; k--)
			placer->hosts[k] = placer->hosts[k - 1];
		placer->hosts[k] = i;
	}
}

static bool place_on_some_host(struct sc_placer *placer, const struct sc_option *option)
{
	const struct sc_shard_problem *problem = placer->problem;
	const struct sc_shard_memory *need = &placer->storage[option - problem->options.at];
	uint32_t local = problem->ranks_per_host;

	placer->work += problem->world;
	sort_hosts(placer);
	placer->is_sorted = false; /* costs change */
	for (uint32_t i = 0; i < problem->world / local; i++) {
		uint32_t first = placer->hosts[i] * local;
		struct sc_shard_memory left = {0};

		for (uint32_t r = first; r < first + local; r++) {
			left.hbm_bytes += placer->ranks[r].left.hbm_bytes;
			left.host_bytes += placer->ranks[r].left.host_bytes;
			left.ssd_bytes += placer->ranks[r].left.ssd_bytes;
		}
		if (need->hbm_bytes > left.hbm_bytes || need->host_bytes > left.host_bytes ||
		    need->ssd_bytes > left.ssd_bytes)
			continue;
		if (option->spread == SC_SPREAD_HOST ? place_each(placer, option, first)
						     : place_on_host(placer, option, first))
			return true;
	}
	return false;
}

static int by_storage(const struct sc_shard_memory *a, const struct sc_shard_memory *b)
{
	return 4 * SC_ORDER(a->hbm_bytes, b->hbm_bytes) +
	       2 * SC_ORDER(a->host_bytes, b->host_bytes) + SC_ORDER(a->ssd_bytes, b->ssd_bytes);
}

/* By insertion into the order of the proposal before, from which one table differs; tables alike stay in
 * theirs. */
static void sort_tables(struct sc_placer *placer, const uint32_t *chosen)
{
	uint32_t *order = placer->order;

	for (size_t i = 1; i < placer->problem->n_tables; i++) {
		uint32_t table = order[i];
		const struct sc_shard_memory *own = &placer->storage[chosen[table]];
		size_t k = i;

		for (; k > 0; k--) {
			uint32_t other = order[k - 1];
			int more = by_storage(own, &placer->storage[chosen[other]]);

			if (more < 0 || (more == 0 && other < table))
				break;
			order[k] = other;
		}
		order[k] = table;
	}
}

/* Gives every shard of the options chosen (one a table) a rank, and the cost of the busiest in *cost;
 * false if one does not fit, or as soon as a rank costs `limit`. */
static bool placer_place(struct sc_placer *placer, const uint32_t *chosen, double limit,
			 double *cost)
{
	const struct sc_shard_problem *problem = placer->problem;

	reset(placer, limit);
	placer->work += 0.5 * (double)problem->n_tables;
	for (size_t t = 0; t < problem->n_tables; t++) {
		const struct sc_option *option = &problem->options.at[chosen[t]];

		if (option->spread == SC_SPREAD_UNIFORM &&
		    (!place_each(placer, option, 0) || placer->over))
			return false;
	}
	sort_tables(placer, chosen);
	for (size_t i = 0; i < problem->n_tables; i++) {
		const struct sc_option *option = &problem->options.at[chosen[placer->order[i]]];

		if (option->spread == SC_SPREAD_UNIFORM)
			continue;
		if (!(option->spread == SC_SPREAD_FREE ? place_free(placer, option)
						       : place_on_some_host(placer, option)) ||
		    placer->over)
			return false;
	}
	*cost = 0;
	for (uint32_t r = 0; r < problem->world; r++)
		*cost = fmax(*cost, placer->ranks[r].cost);
	return true;
}

enum { MAX_GRID_PROPOSALS = 10000 }; /* MAX_PROPOSALS */
static const double MAX_WORK = 1e8;  /* of the placer: about a second */

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
		size_t i = 0;
		uint32_t k;

		while (i < problem->n_constraints &&
		       sc_shard_rule_allows(problem, &problem->constraints[i], option))
			i++;
		if (i < problem->n_constraints)
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
	placer_init(&search->placer, problem, arena);
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

	if (!placer_place(&search->placer, search->chosen, limit, &cost))
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
		weights[o].of[1] = search->placer.storage[o].hbm_bytes;
		weights[o].of[3] = search->placer.storage[o].host_bytes;
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
	double cost;
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
	if (search.best < 0 || !placer_place(&search.placer, search.best_chosen, HUGE_VAL, &cost))
		return sc_err_set(err, SC_ECONFLICT,
				  "no proposal of TorchRec's planner fits the memory of %u ranks",
				  problem->world);
	for (size_t t = 0; t < problem->n_tables; t++)
		sc_plan_add_option(&plan, problem, search.best_chosen[t],
				   search.placer.rank + search.placer.first_rank[t]);
	rc = sc_shard_rate(problem, &plan, true, arena, out, err);
	sc_shard_plan_release(&plan);
	if (rc == 0)
		out->cut_short = is_cut_short(&search);
	return rc;
}
