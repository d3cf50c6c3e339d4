/* A table of layers as a workload: some training steps in a row, of which one is read. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/stats.h"
#include "base/units.h"
#include "models/collective_files.h"
#include "models/memory.h"
#include "predict/layers/layers.h"
#include "predict/op_names.h"
#include "predict/predict.h"

/* The first has nothing to wait for; another stands beside the end of the one that is read. */
enum { N_STEPS = 3, READ_STEP = 1 };

struct self {
	struct sc_layers layers;
	struct sc_graph graph;
	struct sc_layers_built built;
};

static bool takes(const struct sc_request *request)
{
	return request->config.model.family == SC_LAYERS;
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

	sc_graph_release(&self->graph);
	free(self);
}

static int init(void *p, const struct sc_setup *setup, struct sc_err *err)
{
	return sc_layers_init(&((struct self *)p)->layers, setup, err);
}

static int build(void *p, struct sc_graph **graph, struct sc_err *err)
{
	struct self *self = p;

	(void)err;
	sc_layers_build(&self->layers, N_STEPS, &self->graph, &self->built);
	*graph = &self->graph;
	return 0;
}

/* ---- reading ---- */

static enum sc_wait wait_of(const void *ctx, uint32_t node)
{
	(void)ctx;
	(void)node;
	return SC_WAIT_PEERS;
}

static bool is_row(unsigned op)
{
	return op != SC_NONE && (sc_op_unpack_name(op) == SC_NAME_LAYER_FORWARD ||
				 sc_op_unpack_name(op) == SC_NAME_LAYER_BACKWARD);
}

/* Of rows: name and row, else the name alone. */
static void tally(const void *ctx, const struct sc_path_part *part, struct sc_tally *out)
{
	const struct self *self = ctx;
	const uint32_t op = self->graph.nodes.at[part->segment->node].op;
	const uint32_t row = is_row(op) ? sc_op_unpack_micro_batch(op) : 0;

	if (op != SC_NONE)
		sc_tally_add(out, row * SC_N_OP_NAMES + sc_op_unpack_name(op), part->us,
			     part->times);
}

static const char *tally_name(const void *ctx, uint32_t id)
{
	const struct self *self = ctx;
	const unsigned name = id % SC_N_OP_NAMES;
	const struct sc_layer_row *row = sc_layers_row(&self->layers, id / SC_N_OP_NAMES);

	if (!is_row(name))
		return sc_op_name(name);
	return name == SC_NAME_LAYER_FORWARD
		       ? row->name
		       : sc_arena_printf(self->layers.arena, "%.64s backward", row->name);
}

static struct sc_place place_of(const void *ctx, uint32_t node, uint32_t before)
{
	const struct self *self = ctx;
	const uint32_t op = self->graph.nodes.at[node].op;

	(void)before;
	return (struct sc_place){.what = op == SC_NONE ? SC_NAME_JOIN : sc_op_unpack_name(op)};
}

static void describe(const void *ctx, const struct sc_stretch *stretch, char *buf, size_t n_buf)
{
	(void)ctx;
	snprintf(buf, n_buf, "%s", sc_op_name(stretch->what));
}

static void class_name(const void *ctx, uint32_t class_id, char *buf, size_t n_buf)
{
	(void)ctx;
	(void)class_id;
	snprintf(buf, n_buf, "every rank");
}

static void op_info(void *p, const struct sc_timeline *timeline, struct sc_reading_input *out)
{
	const struct self *self = p;
	const uint32_t *ends = self->built.step_end;

	*out = (struct sc_reading_input){
		.account = {.ran = {&self->graph, timeline, wait_of, self},
			    .period = {.from_us = timeline->end_us[ends[READ_STEP - 1]],
				       .to_us = timeline->end_us[ends[READ_STEP]]}},
		.info = {.ctx = self,
			 .tally = tally,
			 .tally_name = tally_name,
			 .place = place_of,
			 .describe = describe,
			 .class_name = class_name},
		.last = ends[READ_STEP],
	};
}

/* ---- memory, band, rates ---- */

static void find_memory(const struct sc_layers *l, struct sc_prediction *out)
{
	sc_layers_memory(l->request, &out->memory);
	if (out->memory.total_gib > out->memory.capacity_gib)
		sc_warn(&out->warnings,
			"a rank needs %.1f GiB, and has %.1f GiB: it will not fit; use a smaller "
			"training.micro_batch or more GPUs",
			out->memory.total_gib, out->memory.capacity_gib);
}

static void find_band(const struct sc_layers *l, struct sc_prediction *out)
{
	const struct sc_request *req = l->request;
	const double *b = out->reading.path_owner_ms;
	const double kernels = b[SC_OWN_COMPUTE] + b[SC_OWN_MEMORY] + b[SC_OWN_OPTIMIZER];
	const double parts[] = {
		l->n_buckets ? kernels * l->buckets[0].forward.steps.at[0].level_frac : 0,
		(b[SC_OWN_COMM] + b[SC_OWN_PEER]) * req->fabric_profile.spread_frac,
		b[SC_OWN_HOST] * req->device.host.spread_frac,
		out->iteration_ms * req->software.residual_frac,
	};
	double variance = 0, sigma;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		variance += parts[i] * parts[i];
	sigma = sqrt(variance) / out->iteration_ms;
	out->low_ms = out->iteration_ms * exp(-SC_Z_CENTRAL_80 * sigma);
	out->high_ms = out->iteration_ms * exp(SC_Z_CENTRAL_80 * sigma);
}

static void find_rates(const struct sc_layers *l, struct sc_prediction *out)
{
	const struct sc_request *req = l->request;
	const double batch = (double)req->config.training.global_batch;

	out->model_flop = batch * l->flop;
	out->samples_per_s = batch / (out->iteration_ms / SC_MS_PER_S);
	out->mfu = sc_flop_us(out->model_flop, sc_request_peak_tflops(req)) /
		   (double)req->config.gpus / (out->iteration_ms * SC_US_PER_MS);
}

static void conclude(void *p, struct sc_prediction *out)
{
	const struct sc_layers *l = &((struct self *)p)->layers;
	const struct sc_collective_shape all = {.kind = SC_ALL_REDUCE,
						.bytes = l->params * sc_grad_bytes(l->request)};

	find_memory(l, out);
	find_band(l, out);
	find_rates(l, out);
	sc_collective_files_warn(&l->fabric, &out->warnings);
	sc_prediction_add_traffic(out, &l->fabric, &all);
}

static void release(void *p)
{
	sc_layers_release(&((struct self *)p)->layers);
}

const struct sc_workload sc_layers_workload = {
	.takes = takes,
	.create = create,
	.destroy = destroy,
	.init = init,
	.build = build,
	.op_info = op_info,
	.conclude = conclude,
	.release = release,
};
