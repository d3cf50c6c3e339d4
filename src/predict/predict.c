/* The pipeline: request -> workload -> graph -> simulate -> reading -> prediction. The first
 * workload that takes it builds its graph and reads its times: no model is known here. */
#include "predict/predict.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "predict/block.h"
#include "predict/workload.h"

enum { ARENA_BLOCK_BYTES = 1 << 20 };

static const struct sc_workload *const WORKLOADS[] = {&sc_transformer_workload, &sc_dlrm_workload,
						      &sc_layers_workload};
enum { N_WORKLOADS = sizeof(WORKLOADS) / sizeof(WORKLOADS[0]) };

struct sc_predictor {
	struct sc_arena arena;
	struct sc_build_scratch scratch;
	void *self[N_WORKLOADS];
	struct sc_graph graph; /* of the last prediction */
	size_t last;           /* the index of its workload */
	struct sc_timeline timeline;
	struct sc_reader reader;
};

void sc_predict_opts_init(struct sc_predict_opts *opts)
{
	*opts = (struct sc_predict_opts){.confidence_pct = SC_CONFIDENCE,
					 .gemm_speed = 1,
					 .hbm_speed = 1,
					 .link_speed = 1,
					 .nic_speed = 1,
					 .host_speed = 1};
}

struct sc_predictor *sc_predictor_create(void)
{
	struct sc_predictor *p = sc_xcalloc(1, sizeof(*p));

	sc_arena_init(&p->arena, ARENA_BLOCK_BYTES);
	sc_build_scratch_init(&p->scratch, &p->arena);
	for (size_t i = 0; i < N_WORKLOADS; i++)
		p->self[i] = sc_xcalloc(1, WORKLOADS[i]->self_bytes);
	sc_graph_init(&p->graph);
	return p;
}

void sc_predictor_destroy(struct sc_predictor *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < N_WORKLOADS; i++) {
		if (WORKLOADS[i]->destroy)
			WORKLOADS[i]->destroy(p->self[i]);
		free(p->self[i]);
	}
	sc_graph_release(&p->graph);
	sc_build_scratch_release(&p->scratch);
	sc_timeline_release(&p->timeline);
	sc_reader_release(&p->reader);
	sc_arena_release(&p->arena);
	free(p);
}

void sc_predictor_lend(struct sc_predictor *p, struct sc_predictor *to)
{
	const struct sc_graph graph = p->graph;
	const struct sc_timeline timeline = p->timeline;
	struct sc_simulator *sim = p->scratch.sim;

	p->graph = to->graph;
	p->timeline = to->timeline;
	p->scratch.sim = to->scratch.sim;
	to->graph = graph;
	to->timeline = timeline;
	to->scratch.sim = sim;
}

static size_t find_workload(const struct sc_request *request)
{
	size_t i = 0;

	while (!WORKLOADS[i]->takes(request))
		i++;
	assert(i < N_WORKLOADS);
	return i;
}

void sc_prediction_add_traffic(struct sc_prediction *prediction, const struct sc_fabric *fabric,
			       const struct sc_collective_shape *shape)
{
	const double comm_us = prediction->reading.classes[0].comm_ms * SC_US_PER_MS;
	struct sc_torus_traffic traffic;

	if (!fabric->torus.dims.n || !(comm_us > 0))
		return;
	sc_torus_traffic(fabric, shape, &traffic);
	prediction->network_gbps += traffic.sent * sc_bytes_us(1, 1) / comm_us;
	prediction->network_frac = prediction->network_gbps / traffic.links;
}

void sc_prediction_set_rates(struct sc_prediction *prediction, const struct sc_request *request,
			     double flop, double peak_tflops)
{
	const double batch = (double)request->config.training.global_batch;

	prediction->samples_per_s = batch / (prediction->iteration_ms / SC_MS_PER_S);
	prediction->model_flop = batch * flop;
	prediction->tflops_gpu = sc_flop_us(prediction->model_flop, 1) /
				 (double)request->config.gpus /
				 (prediction->iteration_ms * SC_US_PER_MS);
	/* MFU is the time at peak on all GPUs over the time that the iteration takes. */
	prediction->mfu = sc_flop_us(prediction->model_flop, peak_tflops) /
			  (double)request->config.gpus / (prediction->iteration_ms * SC_US_PER_MS);
}

int sc_predict(struct sc_predictor *p, const struct sc_request *request,
	       const struct sc_predict_opts *opts, struct sc_prediction *out, struct sc_err *err)
{
	const struct sc_setup setup = {request, opts, &p->scratch, &p->graph};
	const struct sc_arena_mark start = {0};
	const size_t i = find_workload(request);
	const struct sc_workload *w = WORKLOADS[i];
	void *self = p->self[i];
	struct sc_reading_input in;
	bool again;
	int rc;

	sc_arena_rewind(&p->arena, start);
	sc_simulator_stop_by(p->scratch.sim, opts->stop);
	rc = w->init(self, &setup, err);
	do {
		if (rc == 0)
			rc = w->build(self, err);
		if (rc == 0)
			rc = sc_simulate(p->scratch.sim, &p->graph, NULL, &p->timeline, err);
		again = rc == 0 && w->again && w->again(self, &p->timeline);
	} while (again);
	if (rc == 0) {
		p->last = i;
		const struct sc_warnings *warnings = &request->warnings;

		out->network_gbps = out->network_frac = 0;
		out->mfu = out->mfu_bf16 = out->mfu_causal = out->samples_per_s =
			out->tokens_per_s = out->model_flop = out->tflops_gpu =
				out->tflops_gpu_causal = 0;
		out->warnings.n = warnings->n;
		memcpy(out->warnings.text, warnings->text, warnings->n * sizeof(warnings->text[0]));
		w->fill_reading(self, &p->timeline, &in);
		in.brief = opts->brief;
		sc_read_timeline(&p->reader, &in, &out->reading);
		out->iteration_ms = out->reading.iteration_ms;
		out->n_nodes = p->graph.nodes.n;
		w->conclude(self, out);
		const double factor = sc_band_factor(request->band, opts->confidence_pct);

		out->confidence_pct = opts->confidence_pct;
		out->band = request->band;
		out->low_ms = out->iteration_ms / factor;
		out->high_ms = out->iteration_ms * factor;
	}
	if (w->release)
		w->release(self);
	return rc;
}

bool sc_predictor_play(const struct sc_predictor *p, struct sc_arena *arena,
		       struct sc_schedule_play *out)
{
	const struct sc_workload *w = WORKLOADS[p->last];

	return w->play && w->play(p->self[p->last], &p->timeline, arena, out);
}

int sc_predict_floor(struct sc_predictor *p, const struct sc_request *request,
		     const struct sc_predict_opts *opts, struct sc_floor *out, struct sc_err *err)
{
	const struct sc_setup setup = {request, opts, &p->scratch, &p->graph};
	const struct sc_arena_mark start = {0};
	const size_t i = find_workload(request);
	const struct sc_workload *w = WORKLOADS[i];
	int rc;

	if (!w->floor)
		return sc_err_set(err, SC_EUNSUPPORTED, "model.family: nothing bounds a %s yet",
				  sc_family_name(request->config.model.family));
	sc_arena_rewind(&p->arena, start);
	rc = w->floor(p->self[i], &setup, out, err);
	if (w->release)
		w->release(p->self[i]);
	return rc;
}

struct sc_ran sc_predictor_ran(const struct sc_predictor *predictor)
{
	return (struct sc_ran){.graph = &predictor->graph, .timeline = &predictor->timeline};
}
