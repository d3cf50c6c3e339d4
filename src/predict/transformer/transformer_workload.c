/* A Transformer as a workload: its iteration over as few micro-batches as prove the steady state, or all. */
#include <stdlib.h>
#include <string.h>

#include "models/offload.h"
#include "predict/transformer/summarize.h"
#include "predict/workload.h"

struct self {
	struct sc_transformer tf;
	struct sc_build_scratch *scratch;
	struct sc_graph graph;
	struct sc_built built;
	struct sc_run run;
	struct sc_arena_mark mark; /* before the graph */
	unsigned attempt;
};

static bool takes(const struct sc_request *request)
{
	return sc_model_is_transformer(&request->config.model);
}

static void *create(void)
{
	struct self *self = sc_xcalloc(1, sizeof(*self));

	sc_graph_init(&self->graph);
	return self;
}

static void destroy(void *p)
{
	struct self *self = p;

	sc_transformer_release(&self->tf);
	sc_graph_release(&self->graph);
	free(self);
}

static int init(void *p, const struct sc_setup *setup, struct sc_err *err)
{
	struct self *self = p;

	self->scratch = setup->scratch;
	self->attempt = 0;
	self->run = (struct sc_run){.tf = &self->tf, .graph = &self->graph, .built = &self->built};
	return sc_transformer_init(&self->tf, setup, err);
}

enum { NODES_A_PASS = 8, NODES_A_LAYER = 90 };
#define MAX_NODES 2e8 /* some 20 GB */

/* An upper estimate of the graph's nodes, refused before memory runs out. */
static int check_size(const struct sc_transformer *tf, double micro_batches, struct sc_err *err)
{
	const struct sc_parallel *par = &tf->request->config.parallel;
	double passes =
		2 * micro_batches * (double)par->virtual_stages * (double)tf->placement.n_classes;
	double layers = 2 * micro_batches * (double)tf->request->config.model.layers *
			(double)tf->placement.n_classes / (double)par->pp;
	double nodes = passes * NODES_A_PASS;

	if (tf->opts->detail == SC_DETAIL_FULL)
		nodes += layers * NODES_A_LAYER;
	if (nodes <= MAX_NODES)
		return 0;
	return sc_err_set(
		err, SC_ELIMIT,
		"some %.1e graph nodes for %g micro-batches on %zu kinds of ranks; use coarse "
		"detail, a 1f1b schedule, a larger micro_batch or fewer stages",
		nodes, micro_batches, tf->placement.n_classes);
}

/* Micro-batches of this attempt. */
static uint32_t choose(const struct self *self)
{
	const struct sc_predict_opts *opts = self->tf.opts;
	const uint32_t all = (uint32_t)self->tf.request->n_micro_batches;
	const struct sc_schedule_shape shape = sc_transformer_shape(&self->tf, all);

	/* copies to and from the host may fall behind slowly */
	if (opts->detail != SC_DETAIL_COARSE || opts->no_jump || opts->keep_graph ||
	    sc_offload_moves(&self->tf.request->config.training.offload))
		return all;
	return sc_steady_choose(&shape, all, self->attempt);
}

static int build(void *p, struct sc_graph **graph, struct sc_err *err)
{
	struct self *self = p;
	const uint32_t n = choose(self);
	int rc = check_size(&self->tf, n, err);

	if (rc)
		return rc;
	self->mark = sc_arena_mark(self->scratch->arena);
	self->built.shape = sc_transformer_shape(&self->tf, n);
	sc_transformer_build(&self->tf, self->scratch, &self->graph, &self->built);
	*graph = &self->graph;
	return 0;
}

static bool again(void *p, const struct sc_timeline *timeline)
{
	struct self *self = p;
	struct sc_run *run = &self->run;
	const uint32_t all = (uint32_t)self->tf.request->n_micro_batches;
	const uint32_t left = all - self->built.shape.micro_batches;
	struct sc_steady_run shown;

	if (left == 0)
		return false;
	run->timeline = timeline;
	shown = (struct sc_steady_run){
		.tf = &self->tf,
		.graph = &self->graph,
		.built = &self->built,
		.timeline = timeline,
		.last = sc_run_last(run),
		.n_left_out = (double)left / sc_schedule_period(&self->built.shape),
		.arena = self->scratch->arena,
	};
	if (sc_steady_detect(&shown, &run->steady))
		return false;
	self->attempt++;
	sc_arena_rewind(self->scratch->arena, self->mark);
	return true;
}

static void floor_of(void *p, struct sc_floor *out)
{
	struct self *self = p;

	self->built.shape = sc_transformer_shape(&self->tf, choose(self));
	sc_run_floor(&self->run, &self->built, self->scratch->arena, out);
}

static void op_info(void *p, const struct sc_timeline *timeline, struct sc_reading_input *out)
{
	struct self *self = p;

	self->run.timeline = timeline;
	sc_run_op_info(&self->run, out);
}

static void conclude(void *p, struct sc_prediction *out)
{
	sc_run_conclude(&((struct self *)p)->run, out);
}

static bool play(void *p, const struct sc_timeline *timeline, struct sc_arena *arena,
		 struct sc_schedule_play *out)
{
	struct self *self = p;

	self->run.timeline = timeline;
	if (self->built.shape.pp < 2)
		return false;
	sc_run_play(&self->run, arena, out);
	return true;
}

const struct sc_workload sc_transformer_workload = {
	.takes = takes,
	.create = create,
	.destroy = destroy,
	.init = init,
	.build = build,
	.again = again,
	.op_info = op_info,
	.conclude = conclude,
	.floor = floor_of,
	.play = play,
};
