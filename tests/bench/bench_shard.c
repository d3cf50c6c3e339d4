/* Times sharding plans inside one process, beside the peers' seconds. Not a test: machines are
 * noisy, quote ratios. The peers' figures are TorchRec's planner (HEAD of August 2026, kernels
 * stubbed, 2 shared cores) on as many tables and ranks, default and dynamic-programming proposers.
 * Tables are drawn at random, rows and pooling log-uniform, so costs are not theirs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../unit/place_by.h"
#include "base/rng.h"
#include "base/units.h"
#include "study/shard/shard.h"

struct bench_case {
	uint32_t tables, world;
	const char *peer;
};
static const struct bench_case CASES[] = {
	{26, 8, "TorchRec 1.0 s; MILP 2.3 s"},
	{64, 16, "TorchRec 5.7 s, DP 1.7 s; MILP 60 s"},
	{100, 8, "TorchRec 20.3 s, DP 3.6 s; MILP 60 s"},
	{100, 64, "TorchRec 81.2 s, DP 43.9 s"},
	{100, 128, "TorchRec 131 s, DP 191 s"},
	{200, 64, "TorchRec 229 s, DP 374 s"},
	{400, 64, "TorchRec DP 779 s"},
	{800, 8, "TorchRec 507 s, DP 111 s"},
	{1935, 96, "production planner 48.2 s"},
	{5000, 1024, "-"},
};

static double log_uniform(struct sc_rng *rng, double low, double high)
{
	return low * pow(high / low, sc_rng_uniform(rng));
}

/* Costs that resemble TorchRec's at 2,560 samples a rank: whole, on every rank as rows or as a
 * copy, and as rows on a host. One shard is listed for those that are alike. */
static void add_options(struct sc_shard_problem *p, const struct sc_table *t)
{
	const double bw = 9.6e8, net = 1.3e7; /* bytes a ms */
	double bytes = (double)t->rows * (double)t->dim * 4.0, samples = 2560.0 * p->world;
	double look = samples * t->pooling * (double)t->dim * 4.0;
	double out = samples * (double)t->dim * 4.0, wire = 2.0 * out / net;
	double slow = p->world > p->ranks_per_host ? 1.0 : 0.02;
	const struct {
		enum sc_shard_type type;
		enum sc_spread spread;
		int64_t rows;
		double cost;
	} ways[] = {
		{SC_DATA_PARALLEL, SC_SPREAD_UNIFORM, t->rows,
		 3.0 * look / p->world / bw + 1.75 * bytes / net / 8.0 + bytes * 9.0 / bw},
		{SC_TABLE_WISE, SC_SPREAD_FREE, t->rows, 3.0 * (look + out) / bw + wire * slow},
		{SC_ROW_WISE, SC_SPREAD_UNIFORM, (t->rows + p->world - 1) / p->world,
		 3.0 * (look / p->world + out) / bw + wire * slow},
		{SC_TABLE_ROW_WISE, SC_SPREAD_HOST,
		 (t->rows + p->ranks_per_host - 1) / p->ranks_per_host,
		 3.0 * (look / p->ranks_per_host + out) / bw + wire * slow / p->ranks_per_host},
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct sc_option o = {.table = (uint32_t)(t - p->tables),
				      .type = ways[i].type,
				      .spread = ways[i].spread,
				      .n_shards = 1,
				      .first_shard = (uint32_t)p->shards.n};
		struct sc_option_shard s = {.rows = ways[i].rows,
					    .cols = t->dim,
					    .cost = ways[i].cost,
					    .hbm_bytes =
						    (double)ways[i].rows * (double)t->dim * 4.0};

		SC_VEC_PUSH(&p->shards, s);
		SC_VEC_PUSH(&p->options, o);
	}
}

static void make_problem(const struct bench_case *c, struct sc_arena *arena,
			 struct sc_shard_problem *p)
{
	struct sc_table *tables = sc_arena_calloc(arena, c->tables, sizeof(*tables));
	struct sc_rng rng;

	sc_rng_init(&rng, 7);
	*p = (struct sc_shard_problem){.n_tables = c->tables,
				       .tables = tables,
				       .world = c->world,
				       .ranks_per_host = 8,
				       .hbm_bytes = 68.0 * SC_BYTES_PER_GIB,
				       .host_bytes = 1e13,
				       .ssd_bytes = 1e14};
	for (uint32_t t = 0; t < c->tables; t++) {
		tables[t] = (struct sc_table){.name = sc_arena_printf(arena, "t%u", t),
					      .rows = (int64_t)log_uniform(&rng, 10.0, 2e7),
					      .dim = INT64_C(4) << sc_rng_below(&rng, 6),
					      .pooling = log_uniform(&rng, 0.5, 50.0),
					      .count = 1,
					      .features = 1};
		SC_VEC_PUSH(&p->first_option, (uint32_t)p->options.n);
		add_options(p, &tables[t]);
	}
	SC_VEC_PUSH(&p->first_option, (uint32_t)p->options.n);
}

static void run(const struct bench_case *c)
{
	struct sc_arena arena = {0};
	struct sc_shard_problem problem;
	struct sc_solve_opts opts;
	struct sc_shard_solution s, lpt;
	struct sc_err err = {.code = SC_OK};
	clock_t start;

	sc_arena_init(&arena, 1 << 16);
	make_problem(c, &arena, &problem);
	opts = sc_solve_defaults;
	start = clock();
	if (sc_shard_solve(&problem, &opts, &arena, &s, &err) ||
	    place_by(&problem, "lpt", 1, &arena, &lpt, &err)) {
		printf("%5u x %4u: %s\n", c->tables, c->world, err.text);
	} else {
		printf("%5u x %4u: %8.1f ms (processor), cost %10.4f ms, bound %10.4f, LPT %10.4f; %s\n",
		       c->tables, c->world, 1e3 * (double)(clock() - start) / CLOCKS_PER_SEC,
		       s.cost, s.bound, lpt.cost, c->peer);
		sc_shard_plan_release(&s.plan);
		sc_shard_plan_release(&lpt.plan);
	}
	sc_shard_problem_release(&problem);
	sc_arena_release(&arena);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++)
		run(&CASES[i]);
	return EXIT_SUCCESS;
}
