/* Graphs of operator timelines: simulated, they give the times they were built from, and under
 * changed costs what a pipeline with those costs would have taken. */
#include "graph_check.h"
#include "job_fixture.h"
#include "predict/engine/simulate.h"
#include "runner.h"
#include "trace/graph/job.h"

#define TOLERANCE_US 0.01 /* of rounding to ns, over a path */

static struct job_trace trace;
static struct job_times times;
static struct sc_trace_run run;
static struct sc_trace_graph graph;
static struct sc_timeline timeline;
static struct sc_simulator *sim;
static struct sc_err err;

static void setup(void)
{
	err = (struct sc_err){.code = SC_OK};
	sim = sc_simulator_create();
	sc_graph_init(&graph.graph);
}

static void teardown(void)
{
	sc_trace_run_release(&run);
	run = (struct sc_trace_run){.world = -1};
	sc_trace_graph_release(&graph);
	sc_timeline_release(&timeline);
	sc_simulator_destroy(sim);
}

static const struct job_shape SHAPES[] = {
	{.n_dp = 1, .n_stages = 1, .n_batches = 1, .forward_us = 10, .backward_us = 20},
	{.n_dp = 2,
	 .n_stages = 1,
	 .n_batches = 3,
	 .forward_us = 10,
	 .backward_us = 20,
	 .gather_us = 5,
	 .scatter_us = 6,
	 .slow = {{1}, {1.5}}},
	{.n_dp = 1,
	 .n_stages = 2,
	 .n_batches = 4,
	 .forward_us = 10,
	 .backward_us = 20,
	 .send_us = 1,
	 .optimizer_us = 7},
	{.n_dp = 2,
	 .n_stages = 4,
	 .n_batches = 8,
	 .forward_us = 11,
	 .backward_us = 23,
	 .send_us = 1.5,
	 .gather_us = 4,
	 .scatter_us = 9,
	 .clip_us = 2,
	 .optimizer_us = 5,
	 .first_gap_us = 3,
	 .slow = {{1, 1.1, 1, 1.4}, {1, 1, 2, 1}}},
	{.n_dp = 3,
	 .n_stages = 3,
	 .n_batches = 2,
	 .forward_us = 4,
	 .backward_us = 7,
	 .send_us = 30,
	 .scatter_us = 1},
};
enum { N_SHAPES = sizeof(SHAPES) / sizeof(SHAPES[0]) };

static void load(void)
{
	ck_assert_msg(sc_trace_run_of_job(&trace.trace, &run, &err) == 0, "%s", err.text);
	sc_build_trace(&run, 0, &graph);
}

/* Of a node that is an operation, else NULL. */
static const struct sc_act *act_of(uint32_t node)
{
	const struct sc_trace_rank *rank = &run.ranks.at[sc_graph_class_of(&graph.graph, node)];

	return graph.refs.at[node].kind == SC_TRACE_NODE_ACT
		       ? &rank->acts.at[graph.refs.at[node].index]
		       : NULL;
}

static double *cost_us(uint32_t node)
{
	return &graph.graph.costs.at[graph.graph.nodes.at[node].cost].work_us;
}

static void build(const struct job_shape *shape)
{
	job_trace_begin(&trace);
	job_simulate(shape, &times);
	job_trace_add(&trace, &times, 7);
	load();
}

static double simulate(void)
{
	const struct sc_sim_opts opts = {.no_contention = 1};

	ck_assert_msg(graph_check(&graph.graph, &err) == 0, "%s", err.text);
	ck_assert_msg(sc_simulate(sim, &graph.graph, &opts, &timeline, &err) == 0, "%s", err.text);
	return timeline.total_us;
}

FIXTURE(setup, teardown)

LOOP_TEST(test_same_times, N_SHAPES)
{
	build(&SHAPES[_i]);
	ck_assert_int_eq(run.ranks.at[0].iterations.at[0].step, 7);
	ck_assert_int_eq(run.n_unpaired, 0);
	ck_assert_double_eq_tol(simulate(), job_total_us(&times), TOLERANCE_US);
	for (uint32_t i = 0; i < graph.refs.n; i++)
		if (act_of(i))
			ck_assert_double_eq_tol(timeline.end_us[i],
						(double)sc_act_end(act_of(i)) / 1000, TOLERANCE_US);
}

/* A transfer is never longer than the shape's, however long its members waited. */
LOOP_TEST(test_no_waiting_in_transfers, N_SHAPES)
{
	const struct job_shape *shape = &SHAPES[_i];

	build(shape);
	for (size_t r = 0; r < run.ranks.n; r++)
		for (size_t a = 0; a < run.ranks.at[r].acts.n; a++) {
			const struct sc_act *act = &run.ranks.at[r].acts.at[a];
			const double us = sc_trace_act_work_us(&run, &run.ranks.at[r], act);

			if (sc_job_types[act->name].span == SC_SPAN_PAIR)
				ck_assert_double_eq_tol(us, shape->send_us, TOLERANCE_US);
			if (act->name == SC_JOB_SCATTER)
				ck_assert_double_eq_tol(us, shape->scatter_us, TOLERANCE_US);
			if (act->name == SC_JOB_CLIP)
				ck_assert_double_eq_tol(us, shape->clip_us, TOLERANCE_US);
		}
}

TEST(test_gaps)
{
	const struct job_shape *shape = &SHAPES[3];

	build(shape);
	for (size_t r = 0; r < run.ranks.n; r++)
		for (size_t a = 0; a < run.ranks.at[r].acts.n; a++) {
			const struct sc_act *act = &run.ranks.at[r].acts.at[a];

			ck_assert_double_eq_tol((double)act->gap_us, a ? 0 : shape->first_gap_us,
						TOLERANCE_US);
		}
}

/* With one worker's computation slowed in the graph, the time is that of a job where it was slow.
 */
LOOP_TEST(test_changed_costs, N_SHAPES)
{
	struct job_shape slowed = SHAPES[_i];
	struct job_times would_be;

	build(&SHAPES[_i]);
	slowed.slow[0][0] = 3 * (slowed.slow[0][0] > 0 ? slowed.slow[0][0] : 1);
	job_simulate(&slowed, &would_be);
	for (uint32_t i = 0; i < graph.refs.n; i++)
		if (act_of(i) && act_of(i)->name <= SC_JOB_BACKWARD &&
		    sc_graph_class_of(&graph.graph, i) == 0)
			*cost_us(i) *= 3;
	ck_assert_double_eq_tol(simulate(), job_total_us(&would_be), TOLERANCE_US);
}

/* Receives that started with a send were posted with it: they wait for its computation. */
TEST(test_batched_calls)
{
	const struct sc_trace_rank *rank;
	size_t n = 0;

	job_trace_begin(&trace);
	job_simulate(&SHAPES[2], &times);
	times.at[0][1].recv[FIX_FORWARD][1].start = times.at[0][1].send[FIX_BACKWARD][0].start;
	job_trace_add(&trace, &times, 0);
	load();
	rank = &run.ranks.at[1];
	for (size_t a = 0; a < rank->acts.n; a++)
		if (rank->acts.at[a].name == SC_JOB_FORWARD_RECV && n++ == 1)
			ck_assert_double_eq_tol((double)rank->acts.at[a].gap_us, 0, TOLERANCE_US);
	for (uint32_t i = 0; i < graph.refs.n; i++)
		if (act_of(i) && act_of(i)->name == SC_JOB_BACKWARD)
			*cost_us(i) += 1000;
	ck_assert_double_gt(simulate(), 5000);
}

TEST(test_missing_peers)
{
	size_t kept = 0;

	job_trace_begin(&trace);
	job_simulate(&SHAPES[2], &times);
	job_trace_add(&trace, &times, 0);
	for (size_t i = 0; i < trace.trace.events.n; i++)
		if (trace.events[i].name != SC_JOB_FORWARD_SEND + 1)
			trace.events[kept++] = trace.events[i];
	trace.trace.events.n = kept;
	load();
	ck_assert_int_eq(run.n_unpaired, 4);
	ck_assert_double_eq_tol(simulate(), job_total_us(&times), TOLERANCE_US);
}

TEST(test_missing_worker)
{
	size_t kept = 0;

	job_trace_begin(&trace);
	job_simulate(&SHAPES[3], &times);
	job_trace_add(&trace, &times, 0);
	for (size_t i = 0; i < trace.trace.events.n; i++)
		if (trace.events[i].job.dp_rank != 1 || trace.events[i].job.stage != 2)
			trace.events[kept++] = trace.events[i];
	trace.trace.events.n = kept;
	ck_assert_int_eq(sc_trace_run_of_job(&trace.trace, &run, &err), -SC_EVALUE);
	ck_assert_str_eq(err.text, "the trace has no worker of data-parallel rank 1 and stage 2; "
				   "every stage of every replica is needed");
}

TEST(test_empty_and_unknown)
{
	job_trace_begin(&trace);
	ck_assert_int_eq(sc_trace_run_of_job(&trace.trace, &run, &err), -SC_EVALUE);
	ck_assert_str_eq(err.text, "the trace has no operations of a job");
	job_simulate(&SHAPES[0], &times);
	job_trace_add(&trace, &times, 0);
	trace.strings[SC_JOB_GC + 1] = "coffee";
	ck_assert_int_eq(sc_trace_run_of_job(&trace.trace, &run, NULL), 0);
	ck_assert_int_eq(run.n_unknown, 1);
}

/* Two model chunks a stage: the first chunk of the second round comes from the last stage. */
TEST(test_chunks)
{
	/* type, stage, chunk, seq, start, end; two stages, one micro-batch */
	static const struct {
		int type, stage, chunk, seq;
		double start, end;
	} ops[] = {
		{SC_JOB_FORWARD, 0, 0, 0, 0, 10},       {SC_JOB_FORWARD_SEND, 0, 0, 0, 10, 11},
		{SC_JOB_FORWARD_RECV, 1, 0, 0, 0, 11},  {SC_JOB_FORWARD, 1, 0, 0, 11, 21},
		{SC_JOB_FORWARD_SEND, 1, 0, 0, 21, 22}, {SC_JOB_FORWARD_RECV, 0, 1, 0, 10, 22},
		{SC_JOB_FORWARD, 0, 1, 1, 22, 32},      {SC_JOB_FORWARD_SEND, 0, 1, 1, 32, 33},
		{SC_JOB_FORWARD_RECV, 1, 1, 1, 21, 33}, {SC_JOB_FORWARD, 1, 1, 1, 33, 43},
		{SC_JOB_OPTIMIZER, 0, 0, 0, 32, 35},    {SC_JOB_OPTIMIZER, 1, 0, 0, 43, 46},
	};

	job_trace_begin(&trace);
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		const struct job_time time = {ops[i].start, ops[i].end};

		job_put(&trace, ops[i].type, 0, 0, ops[i].stage, ops[i].seq, &time);
		trace.events[i].job.chunk = ops[i].chunk;
	}
	load();
	ck_assert_uint_eq(graph.graph.groups.n, 3);
	ck_assert_int_eq(run.n_unpaired, 0);
	ck_assert_double_eq_tol(simulate(), 46, TOLERANCE_US);
	for (size_t r = 0; r < run.ranks.n; r++)
		for (size_t a = 0; a < run.ranks.at[r].acts.n; a++)
			ck_assert_double_eq_tol((double)run.ranks.at[r].acts.at[a].gap_us, 0,
						TOLERANCE_US);
}
