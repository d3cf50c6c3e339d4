/* Sweeps: what a worker keeps from one case to the next never shows. */
#include "base/rng.h"
#include "request_fixture.h"
#include "runner.h"
#include "study/sweep/sweep.h"

enum { N_AXES = 8, N_ORDERS = 100 };

static const char *const GRID[N_AXES] = {
	"gpus=16,32",
	"parallel.tp=1,2",
	"parallel.pp=1,2,4",
	"parallel.virtual_stages=1,2",
	"parallel.sharding=none,zero1,fsdp",
	"training.micro_batch=1,2",
	"training.recompute=none,full",
	"training.software=megatron-bridge,paddle,torchtitan",
};

static struct sc_config base;
static struct sc_csv cases;
static struct sc_predict_opts opts;

static void set_up(void)
{
	struct sc_err err = {.code = SC_OK};

	sc_arena_init(&arena, 1 << 16);
	sc_config_init(&base);
	set_all(&base,
		"model.family=moe model.layers=8 model.hidden=1024 model.heads=16 "
		"model.kv_heads=4 model.seq=2048 model.vocab=32000 model.experts=16 model.top_k=4 "
		"model.expert_ffn_hidden=512 cluster.gpu=h100-sxm-80gb cluster.gpus_per_node=8 "
		"cluster.nics_per_node=8 cluster.nic_gbit_s=400 parallel.ep=4 "
		"training.global_batch=256 training.precision=bf16");
	ck_assert_int_eq(sc_grid_build(GRID, N_AXES, &arena, &cases, &err), 0);
	sc_predict_opts_init(&opts);
}

static void tear_down(void)
{
	sc_arena_release(&arena);
}

static struct sc_outcome *sweep(const size_t *rows, size_t n, unsigned n_jobs)
{
	struct sc_outcome *out = sc_arena_calloc(&arena, rows ? n : cases.n_rows, sizeof(*out));
	struct sc_sweep what = {.base = &base,
				.cases = &cases,
				.rows = rows,
				.n_rows = n,
				.n_jobs = n_jobs,
				.opts = &opts};
	struct sc_err err = {.code = SC_OK};

	ck_assert_msg(sc_sweep_run(&what, &arena, out, &err) == 0, "%s", err.text);
	return out;
}

static void check_same(const struct sc_outcome *a, const struct sc_outcome *b, size_t row)
{
	ck_assert_int_eq(a->code, b->code);
	ck_assert_str_eq(a->error, b->error);
	ck_assert_msg(a->iteration_ms == b->iteration_ms && a->low_ms == b->low_ms &&
			      a->high_ms == b->high_ms && a->mfu == b->mfu &&
			      a->memory_total_gib == b->memory_total_gib &&
			      memcmp(a->breakdown_ms, b->breakdown_ms, sizeof(a->breakdown_ms)) ==
				      0,
		      "row %zu: %.17g, %.17g", row, a->iteration_ms, b->iteration_ms);
}

FIXTURE(set_up, tear_down)

/* Cases in any order, some twice, through one predictor give what each gives a new one. */
TEST(no_case_depends_on_those_before)
{
	const size_t n = (size_t)n_cases(N_ORDERS);
	size_t *rows = sc_arena_calloc(&arena, n, sizeof(*rows));
	struct sc_outcome *together;
	struct sc_rng rng;

	sc_rng_init(&rng, 1);
	for (size_t i = 0; i < n; i++)
		rows[i] = (size_t)sc_rng_below(&rng, cases.n_rows);
	together = sweep(rows, n, 1);
	for (size_t i = 0; i < n; i++)
		check_same(&together[i], sweep(&rows[i], 1, 1), rows[i]);
}

TEST(threads_do_not_show)
{
	const struct sc_outcome *one = sweep(NULL, 0, 1);

	for (unsigned n_jobs = 2; n_jobs <= 5; n_jobs += 3) {
		const struct sc_outcome *many = sweep(NULL, 0, n_jobs);

		for (size_t row = 0; row < cases.n_rows; row++)
			check_same(&one[row], &many[row], row);
	}
}
