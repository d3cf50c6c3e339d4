/* One of the simulated steps of a DLRM, the last that has another beside its end: breakdown, path, contributors, classes, memory, band. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/units.h"
#include "predict/dlrm/dlrm.h"
#include "predict/op_names.h"

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

static const struct sc_cost *node_cost(const struct sc_dlrm_run *run, uint32_t node)
{
	const struct sc_node *n = &run->graph->nodes.at[node];

	return &run->graph->costs
			.at[n->group != SC_NONE ? run->graph->groups.at[n->group].cost : n->cost];
}

/* ---- path ---- */

/* Stretches of the path, by name. Activations belong to the MLP before them; the bottom MLP's backward
 * begins with one. */
static const char *stretch_of(unsigned name, const struct sc_path_step *before)
{
	static const char top[] = "interaction and top MLP";

	if (name == SC_NAME_ACTIVATION || name == SC_NAME_ACTIVATION_GRAD)
		return before && strcmp(before->what, top) == 0 ? top : "bottom MLP";
	if (name >= SC_NAME_BOTTOM_MLP && name <= SC_NAME_BOTTOM_MLP_WGRAD)
		return "bottom MLP";
	if (name >= SC_NAME_CROSS && name <= SC_NAME_BCE_LOSS)
		return top;
	if (name >= SC_NAME_SEND_ACTIVATION && name <= SC_NAME_JOIN)
		return "waiting to be started";
	return sc_op_name(name);
}

static void own(const struct sc_dlrm_run *run, const struct sc_segment *s, double us,
		double *owner_us)
{
	const struct sc_cost *cost = node_cost(run, s->holder);
	double sum = 0;

	for (int o = 0; o < SC_N_OWNERS; o++) {
		owner_us[o] += us * cost->owner_frac[o];
		sum += cost->owner_frac[o];
	}
	owner_us[SC_OWN_OTHER] += us * (1 - sum);
}

static struct sc_path_step *next_step(const struct sc_dlrm_run *run, const struct sc_segment *s,
				      struct sc_prediction *out)
{
	const struct sc_node *node = &run->graph->nodes.at[s->node];
	struct sc_path_step *step = out->n_path ? &out->path[out->n_path - 1] : NULL;
	const char *what =
		node->op == SC_NONE ? "join" : stretch_of(sc_op_unpack_name(node->op), step);

	if (step && (strcmp(step->what, what) == 0 || out->n_path == SC_MAX_PATH_SHOWN))
		return step;
	step = &out->path[out->n_path++];
	step->class_id = run->graph->lanes.at[node->lane].class_id;
	step->reason = s->reason;
	snprintf(step->what, sizeof(step->what), "%s", what);
	return step;
}

static void finish_path(struct sc_prediction *out)
{
	double start = 0;

	for (size_t i = 0; i < out->n_path; i++) {
		struct sc_path_step *step = &out->path[i];
		double most = 0;

		step->start_ms = start;
		for (int o = 0; o < SC_N_OWNERS; o++) {
			step->owner_ms[o] /= SC_US_PER_MS;
			step->ms += step->owner_ms[o];
			out->breakdown_ms[o] += step->owner_ms[o];
			if (step->owner_ms[o] > most) {
				most = step->owner_ms[o];
				step->owner = (enum sc_owner)o;
			}
		}
		start += step->ms;
	}
}

static int by_ms_descending(const void *a, const void *b)
{
	double x = ((const struct sc_contributor *)a)->ms,
	       y = ((const struct sc_contributor *)b)->ms;

	return x > y ? -1 : x < y;
}

/* Segments of the path after `from_us`. */
static void find_path(const struct sc_dlrm_run *run, double from_us, struct sc_prediction *out)
{
	double us[SC_N_OP_NAMES] = {0}, count[SC_N_OP_NAMES] = {0};
	struct sc_contributor all[SC_N_OP_NAMES] = {0};
	size_t n = 0;

	for (size_t i = 0; i < run->path->segments.n; i++) {
		const struct sc_segment *s = &run->path->segments.at[i];
		double length = s->end_us - fmax(s->start_us, from_us);
		uint32_t op = run->graph->nodes.at[s->node].op;

		if (length <= 0)
			continue;
		own(run, s, length, next_step(run, s, out)->owner_ms);
		if (op == SC_NONE)
			continue;
		us[sc_op_unpack_name(op)] += length;
		count[sc_op_unpack_name(op)]++;
	}
	finish_path(out);
	for (unsigned id = 0; id < SC_N_OP_NAMES; id++) {
		if (us[id] <= 0)
			continue;
		all[n].ms = us[id] / SC_US_PER_MS;
		all[n].count = count[id];
		snprintf(all[n++].what, sizeof(all[0].what), "%s", sc_op_name(id));
	}
	qsort(all, n, sizeof(all[0]), by_ms_descending);
	out->n_contributors = n < SC_MAX_CONTRIBUTORS ? n : SC_MAX_CONTRIBUTORS;
	memcpy(out->contributors, all, out->n_contributors * sizeof(all[0]));
}

/* ---- classes ---- */

/* A kernel of the step, or a member of a collective. */
struct busy_span {
	uint32_t class_id;
	double start_us, end_us;
};

static int by_class_and_start(const void *a, const void *b)
{
	const struct busy_span *x = a, *y = b;

	if (x->class_id != y->class_id)
		return x->class_id > y->class_id ? 1 : -1;
	return (x->start_us > y->start_us) - (x->start_us < y->start_us);
}

/* Time of each class between two times in which any lane of a kind is busy: embeddings may have a stream
 * of their own. */
static void find_busy(const struct sc_dlrm_run *run, uint8_t kind, const double *window_us,
		      double *us)
{
	size_t n_nodes = run->graph->nodes.n, n = 0;
	struct busy_span *spans = sc_arena_alloc(run->dlrm->arena, n_nodes * sizeof(*spans));

	for (uint32_t i = 0; i < n_nodes; i++) {
		const struct sc_lane *lane = &run->graph->lanes.at[run->graph->nodes.at[i].lane];

		struct busy_span span = {lane->class_id,
					 fmax(run->timeline->start_us[i], window_us[0]),
					 fmin(run->timeline->end_us[i], window_us[1])};

		if (lane->kind == kind && span.end_us > span.start_us)
			spans[n++] = span;
	}
	qsort(spans, n, sizeof(*spans), by_class_and_start);
	for (size_t i = 0, first = 0; i < n; i++) {
		double until = window_us[0];

		if (i > first && spans[i].class_id == spans[first].class_id)
			until = fmax(until, spans[i - 1].end_us);
		else
			first = i;
		us[spans[i].class_id] += fmax(0, spans[i].end_us - fmax(spans[i].start_us, until));
		spans[i].end_us = fmax(spans[i].end_us, until); /* the latest so far */
	}
}

static void describe_classes(const struct sc_dlrm_run *run, const double *window_us,
			     struct sc_prediction *out)
{
	const struct sc_dlrm *dlrm = run->dlrm;
	size_t n = dlrm->n_classes < SC_MAX_CLASSES_SHOWN ? dlrm->n_classes : SC_MAX_CLASSES_SHOWN;
	double *busy = sc_arena_calloc(dlrm->arena, dlrm->n_classes, sizeof(*busy));
	double *comm = sc_arena_calloc(dlrm->arena, dlrm->n_classes, sizeof(*comm));

	find_busy(run, SC_LANE_COMPUTE, window_us, busy);
	find_busy(run, SC_LANE_COMM, window_us, comm);
	out->n_classes = n;
	for (size_t c = 0; c < n; c++) {
		struct sc_class_info *info = &out->classes[c];

		info->ranks = dlrm->classes[c].multiplicity;
		info->busy_ms = busy[c] / SC_US_PER_MS;
		info->comm_ms = comm[c] / SC_US_PER_MS;
		info->idle_ms = fmax(0, out->iteration_ms - info->busy_ms);
		snprintf(info->name, sizeof(info->name), "rank %u, %.0f shards",
			 dlrm->classes[c].representative, dlrm->classes[c].work.n_tables);
	}
}

/* ---- memory ---- */

static double state_bytes(const struct sc_dlrm *dlrm)
{
	static const double per_param[] = {
		[SC_OPT_ADAM] = 8, [SC_OPT_SGD] = 0, [SC_OPT_ADAGRAD] = 4, [SC_OPT_NONE] = 0};

	return dlrm->dense_params * per_param[dlrm->request->config.training.optimizer];
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
		.buffers_gib = sw->buffers_gib + buffer_bytes(dlrm, &cls->work) / SC_BYTES_PER_GIB,
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

/* ---- band ---- */

/* Kernel time of the busiest class by model, weighted by how far the model's level is trusted. */
static void find_band(const struct sc_dlrm *dlrm, struct sc_prediction *out)
{
	const struct sc_request *req = dlrm->request;
	double level[SC_N_OP_KINDS] = {0}, total = 0, variance = 0;
	double kernels = out->breakdown_ms[SC_OWN_COMPUTE] + out->breakdown_ms[SC_OWN_MEMORY];
	double comm = (out->breakdown_ms[SC_OWN_COMM] + out->breakdown_ms[SC_OWN_PEER]) *
		      req->fabric_profile.spread_frac;
	double host = out->breakdown_ms[SC_OWN_HOST] * req->software.spread_frac;
	double rest = out->iteration_ms * req->software.residual_frac, sigma;

	for (size_t c = 0; c < dlrm->n_classes; c++)
		for (int id = 0; id < SC_N_DLRM_BLOCKS; id++)
			for (size_t i = 0; i < dlrm->classes[c].block[id].steps.n; i++) {
				const struct sc_step *s = &dlrm->classes[c].block[id].steps.at[i];
				double w = (s->cost.latency_us + s->cost.work_us) *
					   dlrm->classes[c].multiplicity;

				level[s->model] += w * s->level_frac;
				total += w;
			}
	for (int k = 0; k < SC_N_OP_KINDS && total > 0; k++)
		variance += pow(kernels * level[k] / total, 2);
	sigma = sqrt(variance + comm * comm + host * host + rest * rest) / out->iteration_ms;
	out->low_ms = out->iteration_ms * exp(-SC_Z_CENTRAL_80 * sigma);
	out->high_ms = out->iteration_ms * exp(SC_Z_CENTRAL_80 * sigma);
}

/* What the prediction rests on that was not measured, or may be another on the user's machine. */
static void warn_of_doubts(const struct sc_dlrm *dlrm, struct sc_prediction *out)
{
	const struct sc_request *req = dlrm->request;
	double input_ms = req->software.dlrm.host_sample_us * dlrm->batch / SC_US_PER_MS;

	if (!sc_device_is_fitted(&req->device, "embedding"))
		sc_warn(&out->warnings,
			"embedding coefficients of %.40s: trend, not measured; the band is wider",
			req->device.id);
	if (input_ms > out->iteration_ms / 2)
		sc_warn(&out->warnings,
			"the host's input takes %.1f of %.1f ms: software.dlrm.host_sample_us, as "
			"measured with the example script of %.40s; set it to your own",
			input_ms, out->iteration_ms, req->software.id);
	if (dlrm->plan_cut_short)
		sc_warn(&out->warnings,
			"TorchRec's planner would go on for long with %zu tables; the best of its "
			"first proposals is taken",
			dlrm->tables.n);
}

static void find_rates(const struct sc_dlrm *dlrm, struct sc_prediction *out)
{
	const struct sc_request *req = dlrm->request;
	double batch = (double)req->config.training.global_batch;
	double peak = sc_device_peak_tflops(&req->device,
					    sc_precision_dtype(req->config.training.precision));

	out->model_flop = batch * dlrm->model_flop;
	out->samples_per_s = batch / (out->iteration_ms / SC_MS_PER_S);
	out->mfu = sc_flop_us(out->model_flop, peak) / (double)req->config.gpus /
		   (out->iteration_ms * SC_US_PER_MS);
}

void sc_dlrm_summarize(struct sc_dlrm_run *run, struct sc_prediction *out)
{
	uint32_t n = run->built->n_steps, step = n > 1 ? n - 2 : 0;
	double window_us[2] = {step ? step_end_us(run, step - 1) : 0, step_end_us(run, step)};

	sc_critical_path_walk(run->graph, run->timeline, last_node(run, step), run->path);
	out->iteration_ms = (window_us[1] - window_us[0]) / SC_US_PER_MS;
	out->n_nodes += run->graph->nodes.n;
	find_path(run, window_us[0], out);
	describe_classes(run, window_us, out);
	find_memory(run->dlrm, out);
	find_band(run->dlrm, out);
	warn_of_doubts(run->dlrm, out);
	find_rates(run->dlrm, out);
}
