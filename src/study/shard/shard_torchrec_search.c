/* TorchRec's EmbeddingShardingPlanner: proposers that choose an option for each table, and the best
 * of what its partitioner makes of them (planner/planners.py and proposers.py of
 * meta-pytorch/torchrec 376cac6a). A baseline: it stops where TorchRec stops. */
#include <math.h>
#include <string.h>

#include "base/search.h"
#include "study/shard/shard.h"
#include "study/shard/shard_solve_priv.h"

/* The cost and memory of all shards of an option, and those of the dearest and the largest of them.
 */
struct option_sums {
	double cost, most_cost;
	struct sc_shard_memory all, most;
};
/* Arrays live in the arena of sc_placer_init. */
struct sc_placer {
	const struct sc_shard_problem *problem;
	const struct option_sums *sums;        /* of each option */
	const struct sc_shard_memory *storage; /* of each option, packed: sorting reads it most */
	struct sc_ledger used, saved;
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

/* TorchRec's GreedyPerfPartitioner (planner/partitioners.py of meta-pytorch/torchrec 376cac6a)
 * takes uniform options first, then table by table from the largest storage down, each shard to the
 * rank that costs least. Its order is that of bytes, not of cost, and nothing placed is ever moved.
 */

static struct option_sums sum_option(const struct sc_shard_problem *problem,
				     const struct sc_option *option)
{
	struct option_sums sums = {.cost = 0};
	const struct sc_option_shard *last = NULL; /* equal ones come in runs */

	for (uint32_t i = 0; i < sc_option_n_shards(problem, option); i++) {
		const struct sc_option_shard *shard =
			&problem->shards.at[sc_option_shard_index(problem, option, i)];

		sums.cost += shard->cost;
		sums.all.hbm_bytes += shard->hbm_bytes;
		sums.all.host_bytes += shard->host_bytes;
		sums.all.ssd_bytes += shard->ssd_bytes;
		if (shard == last)
			continue;
		last = shard;
		sums.most_cost = fmax(sums.most_cost, shard->cost);
		sums.most.hbm_bytes = fmax(sums.most.hbm_bytes, shard->hbm_bytes);
		sums.most.host_bytes = fmax(sums.most.host_bytes, shard->host_bytes);
	}
	return sums;
}

static void placer_init(struct sc_placer *placer, const struct sc_shard_problem *problem,
			struct sc_arena *arena)
{
	size_t world = problem->world, n_hosts = world / problem->ranks_per_host, n_ranks = 0;
	double *hbm_cap = sc_arena_calloc(arena, world, sizeof(*hbm_cap));
	struct option_sums *sums = sc_arena_calloc(arena, problem->options.n, sizeof(*sums));
	struct sc_shard_memory *storage =
		sc_arena_calloc(arena, problem->options.n, sizeof(*storage));

	*placer = (struct sc_placer){
		.problem = problem,
		.sums = sums,
		.storage = storage,
		.order = sc_arena_calloc(arena, problem->n_tables, sizeof(uint32_t)),
		.first_rank = sc_arena_calloc(arena, problem->n_tables, sizeof(size_t)),
		.by_cost = sc_arena_calloc(arena, world, sizeof(uint32_t)),
		.hosts = sc_arena_calloc(arena, n_hosts, sizeof(uint32_t)),
		.host_sum = sc_arena_calloc(arena, n_hosts, sizeof(double)),
	};
	for (uint32_t r = 0; r < problem->world; r++)
		hbm_cap[r] = sc_rank_budget(problem, r);
	/* The planner gives each rank its part of the host's memory. */
	placer->used = (struct sc_ledger){.n_ranks = problem->world,
					  .per_pool = 1,
					  .hbm_cap = hbm_cap,
					  .host_cap = problem->host_bytes / problem->ranks_per_host,
					  .ssd_cap = problem->ssd_bytes / problem->ranks_per_host};
	placer->saved = placer->used;
	sc_ledger_init(&placer->used, arena);
	sc_ledger_init(&placer->saved, arena);
	for (size_t i = 0; i < problem->options.n; i++)
		storage[i] = (sums[i] = sum_option(problem, &problem->options.at[i])).all;
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

static void put(struct sc_placer *placer, const struct sc_option_shard *shard, uint32_t rank,
		int32_t *at)
{
	sc_ledger_add(&placer->used, shard, rank);
	*at = (int32_t)rank;
	if (placer->used.cost[rank] >= placer->limit)
		placer->over = true;
}

/* Places shard i on rank first + i. */
static bool place_each(struct sc_placer *placer, const struct sc_option *option, uint32_t first)
{
	const struct sc_shard_problem *problem = placer->problem;
	const struct sc_option_shard *shards = problem->shards.at;
	int32_t *at = placer->rank + placer->first_rank[option->table];
	uint32_t n = sc_option_n_shards(problem, option);

	placer->work += n;
	for (uint32_t i = 0; i < n; i++)
		if (!sc_ledger_fits(&placer->used,
				    &shards[sc_option_shard_index(problem, option, i)], first + i))
			return false;
	for (uint32_t i = 0; i < n; i++)
		put(placer, &shards[sc_option_shard_index(problem, option, i)], first + i, &at[i]);
	return true;
}

/* The order of ranks: cost, then the place on the host, so that hosts fill evenly, then the rank.
 */
static bool before(const struct sc_placer *placer, uint32_t a, uint32_t b)
{
	uint32_t local = placer->problem->ranks_per_host;
	double cost_a = placer->used.cost[a], cost_b = placer->used.cost[b];

	if (cost_a < cost_b || cost_b < cost_a)
		return cost_a < cost_b;
	return a % local != b % local ? a % local < b % local : a < b;
}

/* Inserts the rank into the first n of the ranks by cost, from place `low` on. */
static void insert(struct sc_placer *placer, uint32_t rank, uint32_t low, uint32_t n)
{
	uint32_t *at = placer->by_cost;
	size_t place;

	SC_FIRST_NOT(place, i, low, n, before(placer, at[i], rank));
	memmove(at + place + 1, at + place, (n - place) * sizeof(*at));
	at[place] = rank;
}

/* Places each shard on the cheapest rank that it fits on. */
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

		while (k < world && !sc_ledger_fits(&placer->used, &shard[i], by_cost[k]))
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

/* Places each shard on the cheapest rank of one host; all or none. */
static bool place_on_host(struct sc_placer *placer, const struct sc_option *option, uint32_t first)
{
	const struct sc_option_shard *shard = placer->problem->shards.at + option->first_shard;
	int32_t *at = placer->rank + placer->first_rank[option->table];
	uint32_t local = placer->problem->ranks_per_host, end = first + local;

	sc_ledger_copy(&placer->saved, &placer->used, first, local);
	for (uint32_t i = 0; i < option->n_shards; i++) {
		uint32_t best = end;

		for (uint32_t r = first; r < end; r++)
			if (sc_ledger_fits(&placer->used, &shard[i], r) &&
			    (best == end || before(placer, r, best)))
				best = r;
		if (best == end) {
			sc_ledger_copy(&placer->used, &placer->saved, first, local);
			return false;
		}
		put(placer, &shard[i], best, &at[i]);
	}
	return true;
}

/* Sorts hosts by cost, those alike in their order. */
static void sort_hosts(struct sc_placer *placer)
{
	uint32_t local = placer->problem->ranks_per_host, n = placer->problem->world / local;

	for (uint32_t i = 0; i < n; i++) {
		double cost = 0;
		uint32_t k = i;

		for (uint32_t r = i * local; r < (i + 1) * local; r++)
			cost += placer->used.cost[r];
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
			left.hbm_bytes += placer->used.hbm_cap[r] - placer->used.hbm[r];
			left.host_bytes += placer->used.host_cap - placer->used.host[r];
			left.ssd_bytes += placer->used.ssd_cap - placer->used.ssd[r];
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

/* Insertion starts from the order of the proposal before, from which one table differs; tables
 * alike stay in theirs. */
static void sort_by_storage(struct sc_placer *placer, const uint32_t *chosen)
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

/* Gives every shard of the options chosen (one a table) a rank, and the cost of the busiest in
 * *cost; false: a shard does not fit, or a rank already costs `limit`. */
static bool placer_place(struct sc_placer *placer, const uint32_t *chosen, double limit,
			 double *cost)
{
	const struct sc_shard_problem *problem = placer->problem;

	sc_ledger_clear(&placer->used);
	placer->is_sorted = placer->over = false;
	placer->limit = limit;
	placer->work += 0.5 * (double)problem->n_tables;
	for (size_t t = 0; t < problem->n_tables; t++) {
		const struct sc_option *option = &problem->options.at[chosen[t]];

		if (option->spread == SC_SPREAD_UNIFORM &&
		    (!place_each(placer, option, 0) || placer->over))
			return false;
	}
	sort_by_storage(placer, chosen);
	for (size_t i = 0; i < problem->n_tables; i++) {
		const struct sc_option *option = &problem->options.at[chosen[placer->order[i]]];

		if (option->spread == SC_SPREAD_UNIFORM)
			continue;
		if (!(option->spread == SC_SPREAD_FREE ? place_free(placer, option)
						       : place_on_some_host(placer, option)) ||
		    placer->over)
			return false;
	}
	*cost = sc_ledger_max(&placer->used, NULL);
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
	struct sc_search_watch *watch;
	bool is_stopped;
};

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

/* Lists the options of a table from the lowest score up, those alike in the planner's order. The
 * score is the cost of the costliest shard, or of all of them (_sharding_option_score). */
static struct ranked rank_options(const struct search *search, size_t table, bool depth)
{
	const struct sc_shard_problem *problem = search->problem;
	uint32_t first = problem->first_option.at[table];
	uint32_t end = problem->first_option.at[table + 1], n = 0;
	uint32_t *list = sc_arena_calloc(search->arena, end - first, sizeof(*list));
	double *scores = sc_arena_calloc(search->arena, end - first, sizeof(*scores));

	for (uint32_t o = first; o < end; o++) {
		const struct sc_option *option = &problem->options.at[o];
		const struct option_sums *sums = &search->placer.sums[o];
		double own = depth ? sums->most_cost : sums->cost;
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

static bool is_cut_short(struct search *search)
{
	search->is_stopped = search->is_stopped || sc_search_is_stopped(search->watch);
	return search->is_stopped || search->placer.work > MAX_WORK;
}

static void try_chosen(struct search *search)
{
	double cost, limit = search->best < 0 ? HUGE_VAL : search->best;

	if (search->is_stopped || !placer_place(&search->placer, search->chosen, limit, &cost))
		return;
	search->best = cost;
	memcpy(search->best_chosen, search->chosen,
	       search->problem->n_tables * sizeof(*search->chosen));
}

/* GridSearchProposer tries all combinations, if they are few; the last table's option changes
 * fastest. */
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

/* GreedyProposer compares HBM, then host memory; of the largest shard, then of all. */
static bool heavier(const struct option_sums *a, const struct option_sums *b)
{
	int order = SC_ORDER(a->most.hbm_bytes, b->most.hbm_bytes);

	if (order == 0) /* seldom: it is asked of each table for each proposal */
		order = 4 * SC_ORDER(a->all.hbm_bytes, b->all.hbm_bytes) +
			2 * SC_ORDER(a->most.host_bytes, b->most.host_bytes) +
			SC_ORDER(a->all.host_bytes, b->all.host_bytes);
	return order > 0;
}

/* GreedyProposer begins with each table's best option; then, over and over, it takes the next best
 * of the table that needs most memory, whatever came of the proposal before. */
static void propose_greedy(struct search *search, const struct ranked *ranked)
{
	size_t n = search->problem->n_tables, heaviest;

	memset(search->at, 0, n * sizeof(*search->at));
	for (size_t t = 0; t < n; t++)
		search->chosen[t] = ranked[t].option[0];
	do {
		const struct option_sums none = {.cost = 0}, *most = &none;

		try_chosen(search);
		heaviest = n;
		for (size_t t = 0; t < n; t++) {
			const struct option_sums *own = &search->placer.sums[search->chosen[t]];

			if (search->at[t] + 1 < ranked[t].n && heavier(own, most)) {
				heaviest = t;
				most = own;
			}
		}
		if (heaviest < n)
			search->chosen[heaviest] = ranked[heaviest].option[++search->at[heaviest]];
	} while (heaviest < n && !is_cut_short(search));
}

/* UniformProposer shards all tables by one type, where all have it. */
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

int sc_torchrec_plan(const struct sc_shard_problem *problem, struct sc_search_watch *watch,
		     struct sc_arena *arena, struct sc_shard_solution *out, struct sc_err *err)
{
	struct sc_shard_plan plan = {.world = problem->world,
				     .ranks_per_host = problem->ranks_per_host};
	double cost;
	struct search search;
	int rc = check_constraints(problem, err);

	if (rc == 0)
		rc = init(&search, problem, arena, err);
	if (rc)
		return rc;
	search.watch = watch;
	propose_grid(&search);
	propose_greedy(&search, search.by_depth);
	propose_greedy(&search, search.by_sum);
	propose_uniform(&search);
	if (search.best < 0 && search.is_stopped)
		return sc_err_set(err, SC_ECONFLICT,
				  "TorchRec's planner was stopped before a proposal fitted");
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
