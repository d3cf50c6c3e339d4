/* TorchRec's GreedyPerfPartitioner (planner/partitioners.py of meta-pytorch/torchrec 376cac6a): uniform
 * options first, then table by table from the largest storage down, each shard to the rank that costs
 * least. Its order is that of bytes, not of cost, and nothing placed is ever moved. */
#include <string.h>

#include "study/shard/shard_torchrec_search_priv.h"

static struct sc_storage sum_storage(const struct sc_shard_problem *problem,
				     const struct sc_option *option)
{
	struct sc_storage sum = {0};

	for (uint32_t i = 0; i < sc_option_n_shards(problem, option); i++) {
		const struct sc_option_shard *shard =
			&problem->shards.at[sc_option_shard_index(problem, option, i)];

		sum.hbm += shard->hbm_bytes;
		sum.host += shard->host_bytes;
		sum.ssd += shard->ssd_bytes;
	}
	return sum;
}

void sc_placer_init(struct sc_placer *placer, const struct sc_shard_problem *problem,
		    struct sc_arena *arena)
{
	size_t world = problem->world, n_hosts = world / problem->ranks_per_host, n_ranks = 0;
	struct sc_storage *storage = sc_arena_calloc(arena, problem->options.n, sizeof(*storage));

	*placer = (struct sc_placer){
		.problem = problem,
		.cost = sc_arena_calloc(arena, world, sizeof(double)),
		.hbm_left = sc_arena_calloc(arena, world, sizeof(double)),
		.host_left = sc_arena_calloc(arena, world, sizeof(double)),
		.ssd_left = sc_arena_calloc(arena, world, sizeof(double)),
		.storage = storage,
		.order = sc_arena_calloc(arena, problem->n_tables, sizeof(uint32_t)),
		.first_rank = sc_arena_calloc(arena, problem->n_tables, sizeof(size_t)),
		.heap = sc_arena_calloc(arena, world, sizeof(uint32_t)),
		.passed = sc_arena_calloc(arena, world, sizeof(uint32_t)),
		.hosts = sc_arena_calloc(arena, n_hosts, sizeof(uint32_t)),
		.host_sum = sc_arena_calloc(arena, n_hosts, sizeof(double)),
		.saved =
			sc_arena_calloc(arena, 4 * (size_t)problem->ranks_per_host, sizeof(double)),
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
		placer->cost[r] = 0;
		placer->hbm_left[r] = sc_rank_budget(problem, r);
		/* The planner gives each rank its part of the host's memory. */
		placer->host_left[r] = problem->host_bytes / problem->ranks_per_host;
		placer->ssd_left[r] = problem->ssd_bytes / problem->ranks_per_host;
	}
	placer->n_heap = 0;
	placer->limit = limit;
	placer->over = false;
}

static bool fits(const struct sc_placer *placer, const struct sc_option_shard *shard, uint32_t rank)
{
	return shard->hbm_bytes <= placer->hbm_left[rank] &&
	       shard->host_bytes <= placer->host_left[rank] &&
	       shard->ssd_bytes <= placer->ssd_left[rank];
}

static void put(struct sc_placer *placer, const struct sc_option_shard *shard, uint32_t rank,
		int32_t *at)
{
	placer->cost[rank] += shard->cost;
	placer->hbm_left[rank] -= shard->hbm_bytes;
	placer->host_left[rank] -= shard->host_bytes;
	placer->ssd_left[rank] -= shard->ssd_bytes;
	*at = (int32_t)rank;
	if (placer->cost[rank] >= placer->limit)
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

/* The heap's order: cost, then the place on the host, so that hosts fill evenly, then the rank. */
static bool before(const struct sc_placer *placer, uint32_t a, uint32_t b)
{
	uint32_t local = placer->problem->ranks_per_host;

	if (placer->cost[a] < placer->cost[b] || placer->cost[b] < placer->cost[a])
		return placer->cost[a] < placer->cost[b];
	return a % local != b % local ? a % local < b % local : a < b;
}

static void sift_down(struct sc_placer *placer, uint32_t at)
{
	uint32_t *heap = placer->heap, moved = heap[at];

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= placer->n_heap)
			break;
		if (child + 1 < placer->n_heap && before(placer, heap[child + 1], heap[child]))
			child++;
		if (!before(placer, heap[child], moved))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moved;
}

static void sift_up(struct sc_placer *placer, uint32_t at)
{
	uint32_t *heap = placer->heap, moved = heap[at];

	while (at > 0 && before(placer, moved, heap[(at - 1) / 2])) {
		heap[at] = heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	heap[at] = moved;
}

static void build_heap(struct sc_placer *placer)
{
	placer->n_heap = placer->problem->world;
	for (uint32_t i = 0; i < placer->n_heap; i++)
		placer->heap[i] = i;
	for (uint32_t i = placer->n_heap / 2; i-- > 0;)
		sift_down(placer, i);
}

/* The cheapest rank that the shard fits on. */
static bool place_one(struct sc_placer *placer, const struct sc_option_shard *shard, int32_t *at)
{
	uint32_t n_passed = 0;
	bool found = false;

	while (placer->n_heap > 0 && !found) {
		uint32_t rank = placer->heap[0];

		found = fits(placer, shard, rank);
		if (found) {
			put(placer, shard, rank, at);
		} else {
			placer->passed[n_passed++] = rank;
			placer->heap[0] = placer->heap[--placer->n_heap];
		}
		if (placer->n_heap > 0)
			sift_down(placer, 0);
	}
	for (uint32_t i = 0; i < n_passed; i++) {
		placer->heap[placer->n_heap++] = placer->passed[i];
		sift_up(placer, placer->n_heap - 1);
	}
	return found;
}

static bool place_free(struct sc_placer *placer, const struct sc_option *option)
{
	const struct sc_option_shard *shard = placer->problem->shards.at + option->first_shard;
	int32_t *at = placer->rank + placer->first_rank[option->table];

	placer->work += option->n_shards;
	if (placer->n_heap == 0)
		build_heap(placer);
	for (uint32_t i = 0; i < option->n_shards; i++)
		if (!place_one(placer, &shard[i], &at[i]))
			return false;
	return true;
}

/* Copies what a host's ranks have to `saved`, or back. */
static void save_host(struct sc_placer *placer, uint32_t first, bool back)
{
	double *const now[] = {placer->cost, placer->hbm_left, placer->host_left, placer->ssd_left};
	uint32_t local = placer->problem->ranks_per_host;

	for (size_t i = 0; i < sizeof(now) / sizeof(now[0]); i++) {
		double *saved = placer->saved + i * local, *live = now[i] + first;

		memcpy(back ? live : saved, back ? saved : live, local * sizeof(*live));
	}
}

/* Each shard on the cheapest rank of one host; all or none. */
static bool place_on_host(struct sc_placer *placer, const struct sc_option *option, uint32_t first)
{
	const struct sc_option_shard *shard = placer->problem->shards.at + option->first_shard;
	int32_t *at = placer->rank + placer->first_rank[option->table];
	uint32_t end = first + placer->problem->ranks_per_host;

	save_host(placer, first, false);
	for (uint32_t i = 0; i < option->n_shards; i++) {
		uint32_t best = end;

		for (uint32_t r = first; r < end; r++)
			if (fits(placer, &shard[i], r) && (best == end || before(placer, r, best)))
				best = r;
		if (best == end) {
			save_host(placer, first, true);
			return false;
		}
		put(placer, &shard[i], best, &at[i]);
	}
	return true;
}

static struct sc_storage host_left(const struct sc_placer *placer, uint32_t first)
{
	struct sc_storage left = {0};

	for (uint32_t r = first; r < first + placer->problem->ranks_per_host; r++) {
		left.hbm += placer->hbm_left[r];
		left.host += placer->host_left[r];
		left.ssd += placer->ssd_left[r];
	}
	return left;
}

static double host_cost(const struct sc_placer *placer, uint32_t host)
{
	uint32_t local = placer->problem->ranks_per_host;
	double sum = 0;

	for (uint32_t i = 0; i < local; i++)
		sum += placer->cost[host * local + i];
	return sum;
}

/* Hosts by cost, those alike in their order. */
static void sort_hosts(struct sc_placer *placer)
{
	uint32_t n = placer->problem->world / placer->problem->ranks_per_host;

	for (uint32_t i = 0; i < n; i++) {
		double cost = placer->host_sum[i] = host_cost(placer, i);
		uint32_t k = i;

		for (; k > 0 && placer->host_sum[placer->hosts[k - 1]] > cost; k--)
			placer->hosts[k] = placer->hosts[k - 1];
		placer->hosts[k] = i;
	}
}

static bool place_on_some_host(struct sc_placer *placer, const struct sc_option *option)
{
	const struct sc_shard_problem *problem = placer->problem;
	const struct sc_storage *need = &placer->storage[option - problem->options.at];
	uint32_t local = problem->ranks_per_host;

	placer->work += problem->world;
	sort_hosts(placer);
	placer->n_heap = 0; /* costs change behind its back */
	for (uint32_t i = 0; i < problem->world / local; i++) {
		uint32_t first = placer->hosts[i] * local;
		struct sc_storage left = host_left(placer, first);

		if (need->hbm > left.hbm || need->host > left.host || need->ssd > left.ssd)
			continue;
		if (option->spread == SC_SPREAD_HOST ? place_each(placer, option, first)
						     : place_on_host(placer, option, first))
			return true;
	}
	return false;
}

static bool more_storage(const struct sc_storage *a, const struct sc_storage *b)
{
	if (a->hbm < b->hbm || a->hbm > b->hbm)
		return a->hbm > b->hbm;
	if (a->host < b->host || a->host > b->host)
		return a->host > b->host;
	return a->ssd > b->ssd;
}

/* By insertion into the order of the proposal before, from which one table differs; tables alike stay in
 * theirs. */
static void sort_tables(struct sc_placer *placer, const uint32_t *chosen)
{
	uint32_t *order = placer->order;

	for (size_t i = 1; i < placer->problem->n_tables; i++) {
		uint32_t table = order[i];
		const struct sc_storage *own = &placer->storage[chosen[table]];
		size_t k = i;

		for (; k > 0; k--) {
			uint32_t other = order[k - 1];
			const struct sc_storage *its = &placer->storage[chosen[other]];

			if (!more_storage(own, its) && (more_storage(its, own) || other < table))
				break;
			order[k] = other;
		}
		order[k] = table;
	}
}

static bool place_table(struct sc_placer *placer, const struct sc_option *option)
{
	if (option->spread == SC_SPREAD_FREE)
		return place_free(placer, option);
	return place_on_some_host(placer, option);
}

static double busiest(const struct sc_placer *placer)
{
	double most = 0;

	for (uint32_t r = 0; r < placer->problem->world; r++)
		if (most < placer->cost[r])
			most = placer->cost[r];
	return most;
}

bool sc_placer_place(struct sc_placer *placer, const uint32_t *chosen, double limit, double *cost)
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

		if (option->spread != SC_SPREAD_UNIFORM &&
		    (!place_table(placer, option) || placer->over))
			return false;
	}
	*cost = busiest(placer);
	return true;
}
