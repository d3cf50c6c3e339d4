/* Traces of streams into graphs: what waits for what, gaps, groups, iterations. */
#include "graph_check.h"
#include "predict/engine/simulate.h"
#include "runner.h"
#include "stream_fixture.h"
#include "trace/graph/build_trace.h"

static struct sc_trace_run run;
static struct sc_arena arena;

static int load_dir(void)
{
	const char *const *files;
	size_t n;

	sc_arena_init(&arena, 4096);
	ck_assert_int_eq(sc_trace_list(scratch_dir, &arena, &files, &n, NULL), 0);
	return sc_trace_run_load(&(struct sc_trace_files){files, n}, NULL, &run, NULL);
}

static void begin(const struct stream_script *script)
{
	scratch_begin();
	write_streams(scratch_dir, script);
	ck_assert_int_eq(load_dir(), 0);
}

static void end(void)
{
	sc_trace_run_release(&run);
	sc_arena_release(&arena);
	scratch_end();
}

static const struct stream_script PAIR = {.n_ranks = 2, .n_steps = 3, .gemm_ns = {100000, 300000}};

static const struct sc_act *act_named(const struct sc_trace_rank *r, const char *part)
{
	for (size_t i = 0; i < r->acts.n; i++)
		if (strstr(sc_trace_run_name(&run, r->acts.at[i].name), part))
			return &r->acts.at[i];
	ck_abort_msg("no activity %s", part);
	return NULL;
}

TEST(test_what_waits)
{
	const struct sc_trace_rank *r;
	const struct sc_act *gemm, *reduce, *optimizer;

	begin(&PAIR);
	r = &run.ranks.at[0];
	gemm = act_named(r, "gemm");
	reduce = act_named(r, "AllReduce");
	optimizer = act_named(r, "multi_tensor");
	ck_assert_double_eq_tol(r->launch_latency_us, 6, 1e-9);
	/* The product: only its call; it started as soon as it could. */
	ck_assert_uint_eq(gemm->n_waits, 0);
	ck_assert_double_eq_tol((double)gemm->gap_us, 0, 1e-3);
	/* The collective for the product launched before it; 1 us later. */
	ck_assert_uint_eq(reduce->n_waits, 1);
	ck_assert_ptr_eq(&r->acts.at[r->waits.at[reduce->first_wait]], gemm);
	ck_assert_double_eq_tol((double)reduce->gap_us, 1, 1e-3);
	/* The optimizer, on the stream of the product, for the collective. */
	ck_assert_uint_eq(optimizer->n_waits, 1);
	ck_assert_ptr_eq(&r->acts.at[r->waits.at[optimizer->first_wait]], reduce);
	ck_assert_double_eq_tol((double)optimizer->gap_us, 2.5, 1e-3);
	end();
}

TEST(test_calls)
{
	const struct sc_trace_rank *r;
	const struct sc_call *copy = NULL;

	begin(&PAIR);
	r = &run.ranks.at[0];
	ck_assert_uint_eq(r->n_threads, 1);
	ck_assert_uint_eq(r->calls.n, 3 * (5 + 2));
	for (size_t i = 0; i < r->calls.n && !copy; i++)
		if (r->calls.at[i].kind == SC_CALL_SYNC)
			copy = &r->calls.at[i];
	ck_assert_ptr_nonnull(copy);
	ck_assert_str_eq(sc_trace_run_name(&run, copy->name), "cudaMemcpyAsync");
	ck_assert_uint_eq(copy->n_waits, 1);
	ck_assert_int_eq(r->acts.at[r->waits.at[copy->first_wait]].kind, SC_ACT_COPY);
	/* 10 us after the copy, and the latency that device times were moved by. */
	ck_assert_double_eq_tol((double)copy->tail_us, 16, 1e-3);
	ck_assert_double_eq_tol((double)copy->gap_us, 10, 1e-3);
	end();
}

TEST(test_transfer_without_waiting)
{
	begin(&PAIR);
	ck_assert_uint_eq(run.merge.n_matched, 6);
	ck_assert_uint_eq(run.merge.n_members.n, 3);
	for (size_t i = 0; i < 3; i++)
		ck_assert_double_eq_tol(run.transfer_us.at[i], 50, 1e-9);
	end();
}

static double simulate(struct sc_trace_graph *g, struct sc_timeline *t, size_t iteration)
{
	static const struct sc_sim_opts opts = {.no_contention = 1};
	struct sc_simulator *sim = sc_simulator_create();
	struct sc_err err = {.code = SC_OK};

	sc_build_trace(&run, iteration, g);
	ck_assert_msg(graph_check(&g->graph, &err) == 0, "%s", err.text);
	ck_assert_msg(sc_simulate(sim, &g->graph, &opts, t, &err) == 0, "%s", err.text);
	sc_simulator_destroy(sim);
	return t->end_us[g->end.at[0]] - t->end_us[g->begin.at[0]];
}

/* The recording again, to the tenth of a microsecond, of all ranks and steps. */
TEST(test_graph_replays_the_recording)
{
	struct sc_trace_graph g = {.refs = {0}};
	struct sc_timeline t = {.n = 0};

	begin(&PAIR);
	sc_graph_init(&g.graph);
	ck_assert_uint_eq(run.n_iterations, 3);
	for (size_t i = 0; i < 3; i++) {
		simulate(&g, &t, i);
		ck_assert_uint_eq(g.graph.groups.n, 1);
		for (size_t r = 0; r < 2; r++) {
			const struct sc_trace_rank *rank = &run.ranks.at[r];
			const struct sc_trace_iteration *it = &rank->iterations.at[i];
			const double us = (double)(rank->calls.at[it->end].start_ns -
						   rank->calls.at[it->begin].start_ns) /
					  1000;

			ck_assert_int_eq(it->step, 10 + (int64_t)i);
			ck_assert_double_eq_tol(t.end_us[g.end.at[r]] - t.end_us[g.begin.at[r]], us,
						0.1);
		}
	}
	sc_trace_graph_release(&g);
	sc_timeline_release(&t);
	end();
}

/* Rank 0 waits for rank 1: with a faster product there, both are done sooner by as much. */
TEST(test_waiting_is_simulated)
{
	struct sc_trace_graph g = {.refs = {0}};
	struct sc_timeline t = {.n = 0};
	double before, after;

	begin(&PAIR);
	sc_graph_init(&g.graph);
	before = simulate(&g, &t, 1);
	for (size_t i = 0; i < run.ranks.at[1].acts.n; i++)
		if (run.ranks.at[1].acts.at[i].dur_ns == 300000)
			run.ranks.at[1].acts.at[i].dur_ns = 180000;
	after = simulate(&g, &t, 1);
	ck_assert_double_eq_tol(before - after, 120, 0.1);
	sc_trace_graph_release(&g);
	sc_timeline_release(&t);
	end();
}

TEST(test_one_rank)
{
	static const struct stream_script one = {.n_ranks = 1, .n_steps = 2, .gemm_ns = {100000}};
	struct sc_trace_graph g = {.refs = {0}};
	struct sc_timeline t = {.n = 0};

	begin(&one);
	ck_assert_uint_eq(run.merge.n_solo, 2);
	ck_assert(isnan(run.transfer_us.at[0]));
	sc_graph_init(&g.graph);
	ck_assert_double_eq_tol(simulate(&g, &t, 0), 20 + 6 + 100 + 1 + 50 + 2.5 + 40 + .5 + 3 + 35,
				0.1);
	ck_assert_uint_eq(g.graph.groups.n, 0);
	sc_trace_graph_release(&g);
	sc_timeline_release(&t);
	end();
}

/* No ranges: iterations by the period of the kernels. Each begins where the longest pause is. */
TEST(test_period)
{
	static const struct stream_script script = {
		.n_ranks = 1, .n_steps = 40, .gemm_ns = {100000}, .no_steps = true};
	const struct sc_trace_rank *r;

	begin(&script);
	r = &run.ranks.at[0];
	ck_assert_int_eq(run.found_by, SC_FOUND_PERIOD);
	ck_assert_uint_eq(run.n_iterations, 40);
	for (size_t i = 0; i + 1 < run.n_iterations; i++)
		ck_assert_int_eq(r->calls.at[r->iterations.at[i].end].start_ns -
					 r->calls.at[r->iterations.at[i].begin].start_ns,
				 FIXTURE_STEP_NS);
	end();
}

TEST(test_nothing_to_replay)
{
	const struct sc_trace_identity identity = {.rank = 0, .world = 1, .source = "kineto"};
	struct sc_trace_writer *w;

	scratch_begin();
	ck_assert_int_eq(sc_trace_writer_create(scratch_path, &identity, &w, NULL), 0);
	ck_assert_int_eq(sc_trace_writer_finish(w, NULL, NULL), 0);
	ck_assert_int_eq(load_dir(), -SC_EUNSUPPORTED);
	sc_arena_release(&arena);
	scratch_end();
}
