/* What each part of the sharding search is worth: the cost of its quick answers over lower bounds,
 * by TorchRec's costs, on seeded random problems and on one of a few large tables; with all parts,
 * and with one left out. A part that goes, or that does no more what it is there for, fails here.
 */
#include "base/rng.h"
#include "base/units.h"
#include "runner.h"
#include "study/shard/shard.h"

enum { N_RANDOM = 40, N_PROBLEMS = N_RANDOM + 1, MOST_TABLES = 300 };

struct problem {
	struct sc_arena arena;
	struct sc_table tables[MOST_TABLES];
	struct sc_shard_problem problem;
};

static double log_uniform(struct sc_rng *rng, double low, double high)
{
	return low * pow(high / low, sc_rng_uniform(rng));
}

/* 26 to 300 tables on 8 to 128 GPUs, most in hosts of 8; a third with little more memory than the
 * tables take. */
static size_t make_random(struct problem *p, struct sc_torchrec_topology *topology, uint64_t seed)
{
	struct sc_rng rng;
	double bytes = 0;
	size_t n;

	sc_rng_init(&rng, seed);
	n = (size_t)log_uniform(&rng, 26, MOST_TABLES + 0.99);
	topology->world = 8U << sc_rng_below(&rng, 5);
	topology->ranks_per_host = sc_rng_below(&rng, 4) ? 8 : 4;
	for (size_t i = 0; i < n; i++) {
		struct sc_table *t = &p->tables[i];

		t->rows = (int64_t)log_uniform(&rng, 100, 1e8);
		t->dim = INT64_C(16) << sc_rng_below(&rng, 5);
		t->pooling = log_uniform(&rng, 0.5, 50);
		bytes += (double)t->rows * (double)t->dim * sc_dtype_bytes(SC_FP32);
	}
	topology->hbm_cap_bytes = 80 * SC_BYTES_PER_GIB;
	if (sc_rng_below(&rng, 3) == 0)
		topology->hbm_cap_bytes = fmax(4 * SC_BYTES_PER_GIB, 1.6 * bytes / topology->world);
	return n;
}

/* MLPerf's DLRM-DCNv2 on two hosts of 8: large single shards beside blocks of hosts. */
static size_t make_dcnv2(struct problem *p, struct sc_torchrec_topology *topology)
{
	static const struct {
		int64_t rows, pooling;
	} tables[] = {
		{40000000, 3},   {39060, 2},     {17295, 1},   {7424, 2},  {20265, 6},
		{3, 1},          {7122, 1},      {1543, 1},    {63, 1},    {40000000, 7},
		{3067956, 3},    {405282, 8},    {10, 1},      {2209, 6},  {11938, 9},
		{155, 5},        {4, 1},         {976, 1},     {14, 1},    {40000000, 12},
		{40000000, 100}, {40000000, 27}, {590152, 10}, {12973, 3}, {108, 1},
		{36, 1},
	};
	const size_t n = sizeof(tables) / sizeof(tables[0]);

	topology->world = 16;
	topology->ranks_per_host = 8;
	topology->batch_per_rank = 3456;
	topology->hbm_cap_bytes = 80 * SC_BYTES_PER_GIB;
	for (size_t i = 0; i < n; i++) {
		p->tables[i].rows = tables[i].rows;
		p->tables[i].pooling = (double)tables[i].pooling;
		p->tables[i].dim = 128;
	}
	return n;
}

static double solve(size_t index, const char *without, double *bound)
{
	static struct problem p;
	struct sc_torchrec_topology topology;
	struct sc_table_list list = {.at = p.tables};
	struct sc_shard_solution s;
	struct sc_solve_opts opts;
	struct sc_err err = {.code = SC_OK};

	memset(&p, 0, sizeof(p));
	sc_arena_init(&p.arena, 1 << 16);
	sc_torchrec_topology_init(&topology);
	list.n = index < N_RANDOM ? make_random(&p, &topology, index + 1)
				  : make_dcnv2(&p, &topology);
	for (size_t i = 0; i < list.n; i++) {
		list.at[i].name = sc_arena_printf(&p.arena, "t%zu", i);
		list.at[i].count = list.at[i].features = 1;
	}
	ck_assert_msg(sc_torchrec_problem(&topology, &list, &p.arena, &p.problem, &err) == 0, "%s",
		      err.text);
	if (index % 2 == 0) /* as HugeCTR's planner, and with the columns of the options alone */
		p.problem.column_cost = NULL;
	opts = sc_solve_defaults;
	opts.without = without;
	ck_assert_msg(sc_shard_solve(&p.problem, &opts, &p.arena, &s, &err) == 0, "%s", err.text);
	*bound = s.bound;
	sc_shard_plan_release(&s.plan);
	sc_shard_problem_release(&p.problem);
	sc_arena_release(&p.arena);
	return s.cost;
}

/* Of a search without a part, over the whole search's; `worst` of one problem. */
static double mean_pct(const char *without, const double *than, double *worst)
{
	double sum = 0, bound;

	*worst = 0;
	for (size_t i = 0; i < N_PROBLEMS; i++) {
		double pct = 100 * log(solve(i, without, &bound) / than[i]);

		sum += pct;
		*worst = fmax(*worst, pct);
	}
	return sum / N_PROBLEMS;
}

/* At least so much, in % of the cost: about half of what it is. */
static const struct {
	const char *part;
	double mean, worst;
} WORTH[] = {
	{"splits", 0.5, 8}, {"targets", 1.3, 6}, {"sides", 0, 3},    {"shakes", 0.5, 5},
	{"swaps", 0.25, 2}, {"cuts", 0.12, 1.4}, {"moves", 0.15, 5},
};

TEST(each_part_is_worth_its_place)
{
	double cost[N_PROBLEMS], bound, over = 0, worst;

	for (size_t i = 0; i < N_PROBLEMS; i++) {
		cost[i] = solve(i, NULL, &bound);
		over += 100 * log(cost[i] / bound) / N_PROBLEMS;
	}
	ck_assert_msg(over <= 7.0, "%.3f %% over the bounds", over);
	for (size_t i = 0; sc_solve_parts[i] && many_cases(); i++) {
		double mean = mean_pct(sc_solve_parts[i], cost, &worst);

		ck_assert_str_eq(sc_solve_parts[i], WORTH[i].part);
		ck_assert_msg(mean >= WORTH[i].mean && worst >= WORTH[i].worst,
			      "without %s: mean %.3f %%, worst %.3f %%", WORTH[i].part, mean,
			      worst);
	}
}
