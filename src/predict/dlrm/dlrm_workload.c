/* Reads a DLRM's training step: of some steps in a row the last that is like the one before and has
 * another beside its end; and the memory of its ranks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "models/collective/collective_files.h"
#include "predict/dlrm/dlrm.h"
#include "predict/op_names.h"

/* Three steps make one like the one before (the first has nothing to wait for), and another stands
 * beside its end. */
enum { N_STEPS = 4 };

struct self {
	struct sc_dlrm dlrm;
	struct sc_graph *graph;
	const struct sc_timeline *timeline;
	struct sc_dlrm_built built;
};

/* Returns the node at which a step ends. */
static uint32_t last_node(const struct self *self, uint32_t step)
{
	const uint32_t *ends = self->built.step_end.at + step * self->dlrm.n_classes;
	uint32_t last = ends[0];

	for (size_t c = 1; c < self->dlrm.n_classes; c++)
		if (self->timeline->end_us[ends[c]] > self->timeline->end_us[last])
			last = ends[c];
	return last;
}

/* A stretch of the path is named after an operation, or is one of these. */
enum stretch { STRETCH_JOIN = SC_N_OP_NAMES, STRETCH_BOTTOM, STRETCH_TOP, STRETCH_START };

/* Returns a node's stretch. Activations belong to the MLP before them; the bottom MLP's backward
 * begins with one. */
static uint32_t stretch_of(uint32_t op, uint32_t before)
{
	const unsigned name = sc_op_unpack_name(op);

	if (op == SC_NONE)
		return STRETCH_JOIN;
	if (name == SC_NAME_ACTIVATION || name == SC_NAME_ACTIVATION_GRAD)
		return before == STRETCH_TOP ? STRETCH_TOP : STRETCH_BOTTOM;
	if (name >= SC_NAME_BOTTOM_MLP && name <= SC_NAME_BOTTOM_MLP_WGRAD)
		return STRETCH_BOTTOM;
	if (name >= SC_NAME_CROSS && name <= SC_NAME_BCE_LOSS)
		return STRETCH_TOP;
	if (name >= SC_NAME_SEND_ACTIVATION && name <= SC_NAME_JOIN)
		return STRETCH_START;
	return name;
}

static struct sc_place dlrm_place(const void *ctx, uint32_t node, uint32_t before)
{
	const struct self *self = ctx;

	return (struct sc_place){.what = stretch_of(self->graph->nodes.at[node].op, before)};
}

static void dlrm_describe(const void *ctx, const struct sc_stretch *stretch, char *buf,
			  size_t n_buf)
{
	static const char *const names[] = {
		[STRETCH_JOIN - STRETCH_JOIN] = "join",
		[STRETCH_BOTTOM - STRETCH_JOIN] = "bottom MLP",
		[STRETCH_TOP - STRETCH_JOIN] = "interaction and top MLP",
		[STRETCH_START - STRETCH_JOIN] = "waiting to be started",
	};

	(void)ctx;
	snprintf(buf, n_buf, "%s",
		 stretch->what < STRETCH_JOIN ? sc_op_name(stretch->what)
					      : names[stretch->what - STRETCH_JOIN]);
}

static void tally_segment(const void *ctx, const struct sc_path_part *part, struct sc_tally *tally)
{
	const struct sc_segment *s = part->segment;
	const struct self *self = ctx;
	const uint32_t op = self->graph->nodes.at[s->node].op;

	if (op != SC_NONE)
		sc_tally_add(tally, sc_op_unpack_name(op), part->us, part->times);
}

static void dlrm_class_name(const void *ctx, uint32_t class_id, char *buf, size_t n_buf)
{
	const struct self *self = ctx;
	const struct sc_dlrm_class *class = &self->dlrm.classes[class_id];

	snprintf(buf, n_buf, "rank %u, %.0f shards", class->representative, class->work.n_tables);
}

static double state_bytes(const struct sc_dlrm *dlrm)
{
	static const double per_param[] = {
		[SC_OPT_ADAM] = 8, [SC_OPT_SGD] = 0, [SC_OPT_ADAGRAD] = 4, [SC_OPT_NONE] = 0};

	return dlrm->dense_params *
	       per_param[sc_optimizer_dense(dlrm->request->config.training.optimizer)];
}

/* Returns what the exchanges hold: vectors sent and received, their gradients, indices of two
 * batches. */
static double buffer_bytes(const struct sc_dlrm *dlrm, const struct sc_dlrm_work *work)
{
	return 2 * work->output_bytes +
	       2 * dlrm->batch * dlrm->vector_columns * dlrm->output_elem_bytes +
	       2 * work->index_bytes;
}

/* Warns where tables do not fit a node's memory, or its SSD if the config says what it has. */
static void check_node(const struct sc_dlrm *dlrm, struct sc_prediction *out)
{
	const struct sc_cluster *cluster = &dlrm->request->config.cluster;
	const struct {
		const char *what, *key;
		double need_bytes, has_gib;
	} kinds[] = {
		{"memory", "host_memory_gib", dlrm->host_bytes, cluster->host_memory_gib},
		{"SSD", "ssd_gib", dlrm->ssd_bytes, cluster->ssd_gib},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].has_gib >= 0 &&
		    kinds[i].need_bytes > kinds[i].has_gib * SC_BYTES_PER_GIB)
			sc_warn(&out->warnings,
				"tables need %.1f GiB of a node's %s, and it has %.1f GiB "
				"(cluster.%s): they will not fit",
				kinds[i].need_bytes / SC_BYTES_PER_GIB, kinds[i].what,
				kinds[i].has_gib, kinds[i].key);
}

static void find_memory(const struct sc_dlrm *dlrm, struct sc_prediction *out)
{
	uint32_t fullest = 0;

	for (size_t c = 0; c < dlrm->n_classes; c++) {
		struct sc_memory now;

		const struct sc_request *req = dlrm->request;
		const struct sc_software *sw = &req->software;
		double f = sc_dtype_bytes(SC_FP32);
		double copy = sc_dtype_bytes(sc_storage_dtype(req->config.training.precision));
		double held;

		now = (struct sc_memory){
			.weights_gib = (dlrm->classes[c].work.table_bytes +
					dlrm->dense_params * (f + (copy < f ? copy : 0))) /
				       SC_BYTES_PER_GIB,
			.gradients_gib = dlrm->dense_params * sc_grad_bytes(req) / SC_BYTES_PER_GIB,
			.optimizer_gib = (dlrm->classes[c].work.state_bytes + state_bytes(dlrm)) /
					 SC_BYTES_PER_GIB,
			.activations_gib = dlrm->kept_bytes / SC_BYTES_PER_GIB,
			.buffers_gib =
				buffer_bytes(dlrm, &dlrm->classes[c].work) / SC_BYTES_PER_GIB,
			.capacity_gib = sc_request_device(req, dlrm->classes[c].kind)->hbm_gib,
		};
		held = now.weights_gib + now.gradients_gib + now.optimizer_gib +
		       now.activations_gib + now.buffers_gib;
		now.reserve_gib = sw->reserve_gib + sw->reserve_frac * held;
		now.total_gib = held + now.reserve_gib;
		if (c && now.total_gib * out->memory.capacity_gib <=
				 out->memory.total_gib * now.capacity_gib)
			continue;
		out->memory = now;
		fullest = dlrm->classes[c].representative;
	}
	if (out->memory.total_gib > out->memory.capacity_gib)
		sc_warn(&out->warnings,
			"rank %u needs %.1f GiB, and has %.1f GiB: it will not fit; use more GPUs, "
			"another plan, a budget (sharding.hbm_gib) or half-precision tables",
			fullest, out->memory.total_gib, out->memory.capacity_gib);
	check_node(dlrm, out);
}

static bool takes(const struct sc_request *request)
{
	return request->config.model.family == SC_DLRM;
}

static int dlrm_workload_init(void *p, const struct sc_setup *setup, struct sc_err *err)
{
	struct self *self = p;

	self->graph = setup->graph;
	return sc_dlrm_init(&self->dlrm, setup, err);
}

static int dlrm_workload_build(void *p, struct sc_err *err)
{
	struct self *self = p;

	(void)err;
	sc_dlrm_build(&self->dlrm, N_STEPS, self->graph, &self->built);
	return 0;
}

static void fill_reading(void *p, const struct sc_timeline *timeline, struct sc_reading_input *out)
{
	struct self *self = p;

	self->timeline = timeline;
	const uint32_t last = last_node(self, N_STEPS - 2), before = last_node(self, N_STEPS - 3);

	*out = (struct sc_reading_input){
		.account = {.ran = {self->graph, timeline, NULL, NULL},
			    .period = {.from_us = timeline->end_us[before],
				       .to_us = timeline->end_us[last]}},
		.info = {.ctx = self,
			 .tally = tally_segment,
			 .tally_name = sc_op_tally_name,
			 .place = dlrm_place,
			 .describe = dlrm_describe,
			 .class_name = dlrm_class_name},
		.last = last,
		.n_steps = N_STEPS,
	};
}

static void conclude(void *p, struct sc_prediction *out)
{
	const struct sc_dlrm *dlrm = &((struct self *)p)->dlrm;
	const struct sc_request *req = dlrm->request;
	double input_ms = req->software.dlrm.host_sample_us * dlrm->batch / SC_US_PER_MS;

	find_memory(dlrm, out);
	/* Warnings name what was not measured, or may differ on the user's machine. */
	if (!sc_device_is_fitted(&req->device, "embedding"))
		sc_warn(&out->warnings, "embedding coefficients of %.40s: trend, not measured",
			req->device.id);
	if (input_ms > out->iteration_ms / 2 && !(req->config.dlrm.host_sample_us >= 0))
		sc_warn(&out->warnings,
			"the host's input takes %.1f of %.1f ms, as in the example script of %.40s: "
			"give your own as dlrm.host_sample_us",
			input_ms, out->iteration_ms, req->software.id);
	sc_collective_files_warn(&dlrm->fabric, &out->warnings);
	/* Products run in fp32 where that is faster, as on P4. */
	sc_prediction_set_rates(
		out, req, dlrm->model_flop,
		fmax(sc_request_peak_tflops(req), req->device.peak_tflops[SC_FP32]));
	out->params.total = out->params.active =
		dlrm->dense_params + sc_model_n_elements(&req->config.model);
	/* On a torus the exchanges of a step are its traffic. */
	for (int x = 0; x < SC_N_EXCHANGES; x++) {
		const struct sc_collective_shape shape =
			sc_dlrm_exchange_shape(dlrm, (enum sc_exchange)x);

		sc_prediction_add_traffic(out, &dlrm->fabric, &shape);
	}
}

static void destroy(void *p)
{
	sc_dlrm_built_release(&((struct self *)p)->built);
}

const struct sc_workload sc_dlrm_workload = {
	.takes = takes,
	.self_bytes = sizeof(struct self),
	.init = dlrm_workload_init,
	.build = dlrm_workload_build,
	.fill_reading = fill_reading,
	.conclude = conclude,
	.destroy = destroy,
};
