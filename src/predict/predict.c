/* The one pipeline: request -> blocks and graph -> simulate -> critical path -> prediction. */
#include "predict/predict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "predict/dlrm/dlrm.h"
#include "predict/op_names.h"
#include "predict/transformer/summarize.h"

enum { ARENA_BLOCK_BYTES = 1 << 20 };

struct sc_predictor {
	struct sc_arena arena;
	struct sc_build_scratch scratch;
	struct sc_transformer tf;
	struct sc_graph graph;
	struct sc_timeline timeline;
	struct sc_reader reader;
};

void sc_predict_opts_init(struct sc_predict_opts *opts)
{
	*opts = (struct sc_predict_opts){
		.gemm_speed = 1, .hbm_speed = 1, .link_speed = 1, .nic_speed = 1, .host_speed = 1};
}

struct sc_predictor *sc_predictor_create(void)
{
	struct sc_predictor *p = sc_xmalloc(sizeof(*p));

	memset(p, 0, sizeof(*p));
	sc_arena_init(&p->arena, ARENA_BLOCK_BYTES);
	sc_graph_init(&p->graph);
	sc_graph_init(&p->scratch.graph);
	p->scratch.arena = &p->arena;
	p->scratch.sim = sc_simulator_create();
	p->scratch.rows = sc_row_memo_create();
	return p;
}

void sc_predictor_destroy(struct sc_predictor *p)
{
	if (!p)
		return;
	sc_transformer_release(&p->tf);
	sc_graph_release(&p->graph);
	sc_graph_release(&p->scratch.graph);
	sc_timeline_release(&p->timeline);
	sc_timeline_release(&p->scratch.timeline);
	sc_reader_release(&p->reader);
	SC_VEC_RELEASE(&p->scratch.ids);
	sc_simulator_destroy(p->scratch.sim);
	sc_row_memo_destroy(p->scratch.rows);
	sc_arena_release(&p->arena);
	free(p);
}

static void warn_approximate(const struct sc_transformer *tf, struct sc_warnings *warnings)
{
	if (tf->placement.is_approximate)
		sc_warn(warnings,
			"the layout sits so unevenly on its nodes that one kind of rank a stage is "
			"taken, with its worst groups");
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

static int build_and_run(struct sc_predictor *p, uint32_t micro_batches, struct sc_built *built,
			 struct sc_err *err)
{
	int rc = check_size(&p->tf, micro_batches, err);

	if (rc == 0) {
		built->shape = sc_transformer_shape(&p->tf, micro_batches);
		sc_transformer_build(&p->tf, &p->scratch, &p->graph, built);
		rc = sc_simulate(p->scratch.sim, &p->graph, NULL, &p->timeline, err);
	}
	return rc;
}

/* Simulates as few micro-batches as prove the steady state, or all of them. */
static int run(struct sc_predictor *p, const struct sc_predict_opts *opts, struct sc_built *built,
	       struct sc_run *out, struct sc_err *err)
{
	uint32_t m = (uint32_t)p->tf.request->n_micro_batches;
	bool skip = opts->detail == SC_DETAIL_COARSE && !opts->no_jump && !opts->keep_graph;
	struct sc_schedule_shape shape = sc_transformer_shape(&p->tf, m);

	for (unsigned attempt = 0;; attempt++) {
		uint32_t chosen = skip ? sc_steady_choose(&shape, m, attempt) : m;
		struct sc_arena_mark mark = sc_arena_mark(&p->arena);
		int rc = build_and_run(p, chosen, built, err);

		if (rc)
			return rc;
		if (chosen == m)
			return 0;
		if (sc_steady_detect(&p->tf, built, &p->timeline, &out->steady)) {
			out->n_skipped = (double)(m - chosen) / out->steady.micro_batches;
			return 0;
		}
		sc_arena_rewind(&p->arena, mark);
	}
}

/* Steps until one is like the one before (the first has nothing to wait for), and another beside its end. */
enum { DLRM_STEPS = 4 };

static int predict_dlrm(struct sc_predictor *p, const struct sc_request *request,
			const struct sc_predict_opts *opts, struct sc_prediction *out,
			struct sc_err *err)
{
	struct sc_dlrm dlrm;
	struct sc_dlrm_built built;
	struct sc_dlrm_run result = {.dlrm = &dlrm,
				     .graph = &p->graph,
				     .timeline = &p->timeline,
				     .built = &built,
				     .reader = &p->reader};
	int rc = sc_dlrm_init(&dlrm, request, opts, &p->scratch, err);

	if (rc == 0) {
		sc_dlrm_build(&dlrm, DLRM_STEPS, &p->graph, &built);
		rc = sc_simulate(p->scratch.sim, &p->graph, NULL, &p->timeline, err);
	}
	if (rc == 0) {
		memset(out, 0, sizeof(*out));
		out->warnings = request->warnings;
		sc_dlrm_summarize(&result, out);
	}
	sc_dlrm_release(&dlrm);
	return rc;
}

int sc_predict(struct sc_predictor *p, const struct sc_request *request,
	       const struct sc_predict_opts *opts, struct sc_prediction *out, struct sc_err *err)
{
	struct sc_arena_mark start = {0};
	struct sc_built built = {0};
	struct sc_run result = {.tf = &p->tf,
				.graph = &p->graph,
				.timeline = &p->timeline,
				.built = &built,
				.reader = &p->reader};
	int rc;

	sc_arena_rewind(&p->arena, start);
	if (request->config.model.family == SC_DLRM)
		return predict_dlrm(p, request, opts, out, err);
	rc = sc_transformer_init(&p->tf, request, opts, &p->scratch, err);
	if (rc == 0)
		rc = run(p, opts, &built, &result, err);
	if (rc)
		return rc;
	memset(out, 0, sizeof(*out));
	out->warnings = request->warnings;
	warn_approximate(&p->tf, &out->warnings);
	sc_run_summarize(&result, out);
	return 0;
}

const struct sc_graph *sc_predictor_graph(const struct sc_predictor *predictor)
{
	return &predictor->graph;
}

const struct sc_timeline *sc_predictor_timeline(const struct sc_predictor *predictor)
{
	return &predictor->timeline;
}

const char *sc_predictor_op_name(const struct sc_predictor *predictor, uint32_t op, char *buf,
				 unsigned n_buf)
{
	unsigned name = sc_op_unpack_name(op);

	(void)predictor;
	if (op == SC_NONE)
		snprintf(buf, n_buf, "-");
	else if (name >= SC_NAME_SEND_ACTIVATION && name <= SC_NAME_BACKWARD_TAIL)
		snprintf(buf, n_buf, "%s, micro-batch %u, chunk %u", sc_op_name(name),
			 sc_op_unpack_micro_batch(op), sc_op_unpack_chunk(op));
	else
		snprintf(buf, n_buf, "%s", sc_op_name(name));
	return buf;
}
