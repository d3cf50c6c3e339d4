/* A DLRM as a workload: some training steps in a row, of which one is read. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/stats.h"
#include "base/units.h"
#include "models/collective_files.h"
#include "predict/dlrm/dlrm.h"
#include "predict/op_names.h"

/* ---- One of the simulated steps of a DLRM, the last that has another beside its end: breakdown, path, contributors, classes, memory ---- */

static double step_end_us(const struct sc_dlrm_run *run, uint32_t step)
{
	double end = 0;

	for (size_t c = 0; c < run->dlrm->n_classes; c++) {
		uint32_t node = run->built->step_end[step * run->dlrm->n_classes + c];

		end = fmax(end, run->timeline->end_us[node]);
	}
	return end;
}

static uint32_t last_node(const struct sc_dlrm_run *run, uint32_t step)
{
	const uint32_t *ends = run->built->step_end + step * run->dlrm->n_classes;
	uint32_t last = ends[0];

	for (size_t c = 1; c < run->dlrm->n_classes; c++)
		if (run->timeline->end_us[ends[c]] > run->timeline->end_us[last])
			last = ends[c];
	return last;
}

static enum sc_wait wait_of(const void *ctx, uint32_t node)
{
	(void)ctx;
	(void)node;
	return SC_WAIT_PEERS;
}

/* ---- path ---- */

/* Stretches of the path: by the name of an operation, or one of these. */
enum stretch { STRETCH_JOIN = SC_N_OP_NAMES, STRETCH_BOTTOM, STRETCH_TOP, STRETCH_START };

static const char *stretch_name(uint32_t what)
{
	static const char *const names[] = {
		[STRETCH_JOIN - STRETCH_JOIN] = "join",
		[STRETCH_BOTTOM - STRETCH_JOIN] = "bottom MLP",
		[STRETCH_TOP - STRETCH_JOIN] = "interaction and top MLP",
		[STRETCH_START - STRETCH_JOIN] = "waiting to be started",
	};

	return what < STRETCH_JOIN ? sc_op_name(what) : names[what - STRETCH_JOIN];
}

/* Activations belong to the MLP before them; the bottom MLP's backward begins with one. */
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

static struct sc_place place_of(const void *ctx, uint32_t node, uint32_t before)
{
	const struct sc_dlrm_run *run = ctx;

	return (struct sc_place){.what = stretch_of(run->graph->nodes.at[node].op, before)};
}

static void describe(const void *ctx, const struct sc_stretch *stretch, char *buf, size_t n_buf)
{
	(void)ctx;
	snprintf(buf, n_buf, "%s", stretch_name(stretch->what));
}

static void tally_segment(const void *ctx, const struct sc_path_part *part, struct sc_tally *tally)
{
	const struct sc_segment *s = part->segment;
	const struct sc_dlrm_run *run = ctx;
	const uint32_t op = run->graph->nodes.at[s->node].op;

	if (op != SC_NONE)
		sc_tally_add(tally, sc_op_unpack_name(op), part->us, part->times);
}

static const char *tally_name(const void *ctx, uint32_t id)
{
	(void)ctx;
	return sc_op_name(id);
}

static void class_name(const void *ctx, uint32_t class_id, char *buf, size_t n_buf)
{
	const struct sc_dlrm_run *run = ctx;
	const struct sc_dlrm_class *class = &run->dlrm->classes[class_id];

	snprintf(buf, n_buf, "rank %u, %.0f shards", class->representative, class->work.n_tables);
}

static void dlrm_op_info(const struct sc_dlrm_run *run, struct sc_reading_input *out)
{
	const uint32_t n = run->built->n_steps, step = n > 1 ? n - 2 : 0;

	*out = (struct sc_reading_input){
		.account = {.ran = {run->graph, run->timeline, wait_of, run},
			    .period = {.from_us = step ? step_end_us(run, step - 1) : 0,
				       .to_us = step_end_us(run, step)}},
		.info = {.ctx = run,
			 .tally = tally_segment,
			 .tally_name = tally_name,
			 .place = place_of,
			 .describe = describe,
			 .class_name = class_name},
		.last = last_node(run, step),
	};
}

/* ---- memory ---- */

static double state_bytes(const struct sc_dlrm *dlrm)
{
	static const double per_param[] = {
		[SC_OPT_ADAM] = 8, [SC_OPT_SGD] = 0, [SC_OPT_ADAGRAD] = 4, [SC_OPT_NONE] = 0};

	return dlrm->dense_params *
	       per_param[sc_optimizer_dense(dlrm->request->config.training.optimizer)];
}

/* What the exchanges hold: vectors sent and received, their gradients, indices of two batches. */
static double buffer_bytes(const struct sc_dlrm *dlrm, const struct sc_dlrm_work *work)
{
	double columns = 0;

	for (size_t i = 0; i < dlrm->tables.n; i++)
		columns += sc_table_outputs(&dlrm->tables.at[i]) * (double)dlrm->tables.at[i].dim;
	return 2 * work->output_bytes + 2 * dlrm->batch * columns * dlrm->output_elem_bytes +
	       2 * work->index_bytes;
}

static void memory_of(const struct sc_dlrm *dlrm, const struct sc_dlrm_class *cls,
		      struct sc_memory *out)
{
	const struct sc_request *req = dlrm->request;
	const struct sc_software *sw = &req->software;
	double f = sc_dtype_bytes(SC_FP32);
	double copy = sc_dtype_bytes(sc_storage_dtype(req->config.training.precision));
	double held;

	*out = (struct sc_memory){
		.weights_gib =
			(cls->work.table_bytes + dlrm->dense_params * (f + (copy < f ? copy : 0))) /
			SC_BYTES_PER_GIB,
		.gradients_gib = dlrm->dense_params * sc_grad_bytes(req) / SC_BYTES_PER_GIB,
		.optimizer_gib = (cls->work.state_bytes + state_bytes(dlrm)) / SC_BYTES_PER_GIB,
		.activations_gib = dlrm->kept_bytes / SC_BYTES_PER_GIB,
		.buffers_gib = buffer_bytes(dlrm, &cls->work) / SC_BYTES_PER_GIB,
		.capacity_gib = sc_request_device(req, cls->kind)->hbm_gib,
	};
	held = out->weights_gib + out->gradients_gib + out->optimizer_gib + out->activations_gib +
	       out->buffers_gib;
	out->reserve_gib = sw->reserve_gib + sw->reserve_frac * held;
	out->total_gib = held + out->reserve_gib;
}

/* Of a node: its memory, and its SSD if the config says what it has. */
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

		memory_of(dlrm, &dlrm->classes[c], &now);
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

/* What the prediction rests on that was not measured, or may be another on the user's machine. */
static void warn_of_doubts(const struct sc_dlrm *dlrm, struct sc_prediction *out)
{
	const struct sc_request *req = dlrm->request;
	double input_ms = req->software.dlrm.host_sample_us * dlrm->batch / SC_US_PER_MS;

	if (!sc_device_is_fitted(&req->device, "embedding"))
		sc_warn(&out->warnings, "embedding coefficients of %.40s: trend, not measured",
			req->device.id);
	if (input_ms > out->iteration_ms / 2)
		sc_warn(&out->warnings,
			"the host's input takes %.1f of %.1f ms: software.dlrm.host_sample_us, as "
			"measured with the example script of %.40s; set it to your own",
			input_ms, out->iteration_ms, req->software.id);
}

static void find_rates(const struct sc_dlrm *dlrm, struct sc_prediction *out)
{
	const struct sc_request *req = dlrm->request;
	double batch = (double)req->config.training.global_batch;
	/* products run in fp32 where that is faster, as on P4 */
	double peak = fmax(sc_request_peak_tflops(req), req->device.peak_tflops.fp32);

	out->model_flop = batch * dlrm->model_flop;
	out->samples_per_s = batch / (out->iteration_ms / SC_MS_PER_S);
	out->mfu = sc_flop_us(out->model_flop, peak) / (double)req->config.gpus /
		   (out->iteration_ms * SC_US_PER_MS);
}

/* After the reading. */
static void dlrm_conclude(const struct sc_dlrm_run *run, struct sc_prediction *out)
{
	find_memory(run->dlrm, out);
	warn_of_doubts(run->dlrm, out);
	sc_collective_files_warn(&run->dlrm->fabric, &out->warnings);
	find_rates(run->dlrm, out);
	sc_dlrm_add_traffic(run->dlrm, out);
}

/* Steps until one is like the one before (the first has nothing to wait for), and another beside its end. */
enum { N_STEPS = 4 };

struct self {
	struct sc_dlrm dlrm;
	struct sc_graph graph;
	struct sc_dlrm_built built;
	struct sc_dlrm_run run;
};

static bool takes(const struct sc_request *request)
{
	return request->config.model.family == SC_DLRM;
}

static void *create(void)
{
	struct self *self = sc_xcalloc(1, sizeof(*self));

	sc_graph_init(&self->graph);
	self->run = (struct sc_dlrm_run){
		.dlrm = &self->dlrm, .graph = &self->graph, .built = &self->built};
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
	return sc_dlrm_init(&((struct self *)p)->dlrm, setup, err);
}

static int build(void *p, struct sc_graph **graph, struct sc_err *err)
{
	struct self *self = p;

	(void)err;
	sc_dlrm_build(&self->dlrm, N_STEPS, &self->graph, &self->built);
	*graph = &self->graph;
	return 0;
}

static void op_info(void *p, const struct sc_timeline *timeline, struct sc_reading_input *out)
{
	struct self *self = p;

	self->run.timeline = timeline;
	dlrm_op_info(&self->run, out);
}

static void conclude(void *p, struct sc_prediction *out)
{
	dlrm_conclude(&((struct self *)p)->run, out);
}

static void release(void *p)
{
	sc_dlrm_release(&((struct self *)p)->dlrm);
}

const struct sc_workload sc_dlrm_workload = {
	.takes = takes,
	.create = create,
	.destroy = destroy,
	.init = init,
	.build = build,
	.op_info = op_info,
	.conclude = conclude,
	.release = release,
};
