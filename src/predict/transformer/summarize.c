/* Reads a simulated iteration: who owns each microsecond of the critical path, which ops contribute
 * most, what each class did, rates. Memory and the error band are in files of their own. */
#include "predict/transformer/summarize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "predict/band.h"
#include "predict/op_names.h"
#include "predict/transformer/summarize_priv.h"

/* Periods a stretch of the path stands for: 1, or more inside the window that the skipped ones equal. */
static double stretch_weight(const struct sc_run *run, double start_us, double end_us)
{
	double from = fmax(start_us, run->steady.window_us);
	double to = fmin(end_us, run->steady.window_us + run->steady.period_us);

	if (run->n_skipped <= 0 || to <= from || end_us <= start_us)
		return 1;
	return 1 + run->n_skipped * (to - from) / (end_us - start_us);
}

static uint32_t node_class(const struct sc_run *run, uint32_t node)
{
	return run->graph->lanes.at[run->graph->nodes.at[node].lane].class_id;
}

static const struct sc_cost *node_cost(const struct sc_run *run, uint32_t node)
{
	const struct sc_node *n = &run->graph->nodes.at[node];

	if (n->group != SC_NONE)
		return &run->graph->costs.at[run->graph->groups.at[n->group].cost];
	return &run->graph->costs.at[n->cost];
}

/* Part of a pipeline stage's passes, its host's share included. */
static bool runs_layers(const struct sc_run *run, uint32_t node)
{
	uint32_t op = run->graph->nodes.at[node].op;

	return run->built->shape.pp > 1 && op != SC_NONE && sc_op_is_of_pass(sc_op_unpack_name(op));
}

/* On another stage than `home`, which has to wait meanwhile: pipeline bubble. */
static bool is_bubble(const struct sc_run *run, uint32_t node, uint32_t home)
{
	return node_class(run, node) != home && runs_layers(run, node);
}

/* The class on which the path spends most: time on other stages, while this one has to wait, is
 * pipeline bubble. */
static uint32_t home_class(const struct sc_run *run)
{
	size_t n = run->tf->placement.n_classes;
	double *us = sc_xmalloc(n * sizeof(*us));
	uint32_t home = 0;

	memset(us, 0, n * sizeof(*us));
	for (size_t i = 0; i < run->path->segments.n; i++) {
		const struct sc_segment *s = &run->path->segments.at[i];

		us[node_class(run, s->node)] +=
			(s->end_us - s->start_us) * stretch_weight(run, s->start_us, s->end_us);
	}
	for (uint32_t c = 1; c < n; c++)
		if (us[c] > us[home])
			home = c;
	free(us);
	return home;
}

/* Adds a segment's time to its owners. */
static void own_segment(const struct sc_run *run, const struct sc_segment *s, uint32_t home,
			double *owner_us)
{
	double us = (s->end_us - s->start_us) * stretch_weight(run, s->start_us, s->end_us);
	/* time spent waiting for SMs is owned as what their holder did */
	const struct sc_cost *cost = node_cost(run, s->holder);
	double sum = 0;

	if (is_bubble(run, s->node, home)) {
		owner_us[SC_OWN_BUBBLE] += us;
		return;
	}
	for (int o = 0; o < SC_N_OWNERS; o++) {
		owner_us[o] += us * cost->owner_frac[o];
		sum += cost->owner_frac[o];
	}
	owner_us[SC_OWN_OTHER] += us * (1 - sum);
}

/* ---- the path as people read it: stretches of the same work, transfers included ---- */

enum stretch { STRETCH_PASSES = SC_N_OP_NAMES, STRETCH_BUBBLE, STRETCH_REST };

/* What kind of stretch a node begins; transfers go on with whatever was before. */
static unsigned stretch_of(const struct sc_run *run, uint32_t node, uint32_t home, unsigned before)
{
	unsigned name = sc_op_unpack_name(run->graph->nodes.at[node].op);

	if (is_bubble(run, node, home))
		return STRETCH_BUBBLE;
	if (sc_op_is_of_pass(name))
		return STRETCH_PASSES;
	if (before && (name == SC_NAME_SEND_ACTIVATION || name == SC_NAME_SEND_GRADIENT))
		return before;
	return name;
}

static void describe(const struct sc_run *run, uint32_t node, unsigned stretch,
		     struct sc_path_step *step)
{
	int stage = run->tf->placement.classes[node_class(run, node)].stage;

	if (stretch == STRETCH_BUBBLE)
		snprintf(step->what, sizeof(step->what), "pipeline fill or drain");
	else if (stretch == STRETCH_REST)
		snprintf(step->what, sizeof(step->what), "rest of the path");
	else if (stretch == STRETCH_PASSES && run->built->shape.pp > 1)
		snprintf(step->what, sizeof(step->what), "stage %d passes", stage);
	else if (stretch == STRETCH_PASSES)
		snprintf(step->what, sizeof(step->what), "forward and backward");
	else
		snprintf(step->what, sizeof(step->what), "%s", sc_op_name(stretch));
}

static void finish_step(struct sc_path_step *step, double start_ms)
{
	double most = 0;

	step->start_ms = start_ms;
	for (int o = 0; o < SC_N_OWNERS; o++) {
		step->owner_ms[o] /= SC_US_PER_MS;
		step->ms += step->owner_ms[o];
		if (step->owner_ms[o] > most) {
			most = step->owner_ms[o];
			step->owner = (enum sc_owner)o;
		}
	}
}

static void find_path(const struct sc_run *run, uint32_t home, struct sc_prediction *out)
{
	unsigned before = 0;
	double start_ms = 0;

	for (size_t i = 0; i < run->path->segments.n; i++) {
		const struct sc_segment *s = &run->path->segments.at[i];
		unsigned stretch = stretch_of(run, s->node, home, before);

		if (s->end_us <= s->start_us)
			continue;
		if (out->n_path == SC_MAX_PATH_SHOWN - 1 && stretch != before)
			stretch = STRETCH_REST;
		if (stretch != before && before != STRETCH_REST) {
			struct sc_path_step *step = &out->path[out->n_path++];

			step->class_id = node_class(run, s->node);
			step->reason = s->reason;
			describe(run, s->node, stretch, step);
			before = stretch;
		}
		own_segment(run, s, home, out->path[out->n_path - 1].owner_ms);
	}
	for (size_t i = 0; i < out->n_path; i++) {
		finish_step(&out->path[i], start_ms);
		start_ms += out->path[i].ms;
		for (int o = 0; o < SC_N_OWNERS; o++)
			out->breakdown_ms[o] += out->path[i].owner_ms[o];
	}
}

/* ---- contributors: op times weighted by how often the path runs their block ---- */

struct tally {
	double us[SC_N_OP_NAMES];
	double count[SC_N_OP_NAMES];
};

/* Time that a hidden collective takes longer than the kernels it runs beside. */
static double exposed_us(const struct sc_block *block, size_t at)
{
	const struct sc_step *comm = &block->steps.at[at];
	double us = comm->cost.latency_us + comm->cost.work_us;
	int left = comm->hidden;

	for (size_t i = at + 1; i < block->steps.n && left > 0; i++) {
		const struct sc_step *step = &block->steps.at[i];

		if (step->kind == SC_STEP_HOST)
			continue;
		us -= step->cost.latency_us + step->cost.work_us;
		left--;
	}
	return fmax(us, 0);
}

static void tally_block(const struct sc_block *block, double times, struct tally *tally)
{
	for (size_t i = 0; i < block->steps.n; i++) {
		const struct sc_step *step = &block->steps.at[i];
		double us = step->cost.latency_us + step->cost.work_us;

		if (step->kind == SC_STEP_HOST)
			continue;
		tally->us[step->name] += times * (step->hidden ? exposed_us(block, i) : us);
		tally->count[step->name] += times;
	}
}

/* What a coarse node of a pass stands for. */
static void tally_pass(const struct sc_run *run, const struct sc_segment *s, double times,
		       struct tally *tally)
{
	const struct sc_transformer *tf = run->tf;
	const struct sc_schedule_shape *shape = &run->built->shape;
	uint32_t op = run->graph->nodes.at[s->node].op, c = node_class(run, s->node);
	unsigned name = sc_op_unpack_name(op), n = sc_op_unpack_micro_batch(op);
	uint32_t vs = sc_op_unpack_chunk(op) * shape->pp + (uint32_t)tf->placement.classes[c].stage;
	bool first = vs == 0, last = vs + 1 == shape->pp * shape->virtual_stages;
	bool whole = name == SC_NAME_FORWARD || name == SC_NAME_BACKWARD;
	bool forward = name == SC_NAME_FORWARD ||
		       (name >= SC_NAME_FORWARD_LEAD && name <= SC_NAME_FORWARD_TAIL);
	bool partial = whole && tf->partial && n + 1 == shape->micro_batches;
	const struct sc_block *block = tf->variant[tf->classes[c].variant].block[partial];
	double dense = (double)tf->stage_dense[vs], layers = (double)tf->stage_layers[vs] - dense;
	const struct {
		unsigned part;
		int id;
		double n_whole, n_part;
	} runs[] = {
		{SC_NAME_FORWARD_LEAD, SC_BLOCK_EMBED_F, first, first},
		{SC_NAME_FORWARD_DENSE, SC_BLOCK_DENSE_F, dense, n},
		{SC_NAME_FORWARD_LAYERS, SC_BLOCK_LAYER_F, layers, n},
		{SC_NAME_FORWARD_TAIL, SC_BLOCK_HEAD_F, last, last},
		{SC_NAME_BACKWARD_LEAD, SC_BLOCK_HEAD_B, last, last},
		{SC_NAME_BACKWARD_LAYERS, SC_BLOCK_LAYER_B, layers, n},
		{SC_NAME_BACKWARD_DENSE, SC_BLOCK_DENSE_B, dense, n},
		{SC_NAME_BACKWARD_TAIL, SC_BLOCK_EMBED_B, first, first},
	};

	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		if (whole && forward == (runs[i].part <= SC_NAME_FORWARD_TAIL))
			tally_block(&block[runs[i].id], times * runs[i].n_whole, tally);
		else if (name == runs[i].part)
			tally_block(&block[runs[i].id], times * runs[i].n_part, tally);
}

static void tally_path(const struct sc_run *run, struct tally *tally)
{
	for (size_t i = 0; i < run->path->segments.n; i++) {
		const struct sc_segment *s = &run->path->segments.at[i];
		const struct sc_node *node = &run->graph->nodes.at[s->node];
		double weight = stretch_weight(run, s->start_us, s->end_us);
		unsigned name = sc_op_unpack_name(node->op);

		if (node->op == SC_NONE)
			continue;
		if (node->kind == SC_NODE_KERNEL && name >= SC_NAME_FORWARD &&
		    name <= SC_NAME_BACKWARD_TAIL) {
			tally_pass(run, s, weight, tally);
			tally->us[SC_NAME_LAYER_HOST] +=
				weight * (s->end_us - s->start_us) *
				node_cost(run, s->node)->owner_frac[SC_OWN_HOST];
			continue;
		}
		if (name >= SC_NAME_FORWARD && name <= SC_NAME_BACKWARD_TAIL)
			name = SC_NAME_LAYER_HOST;
		tally->us[name] += weight * (s->end_us - s->start_us);
		tally->count[name] += weight;
	}
}

static int by_ms_descending(const void *a, const void *b)
{
	double x = ((const struct sc_contributor *)a)->ms,
	       y = ((const struct sc_contributor *)b)->ms;

	return x > y ? -1 : x < y;
}

static void find_contributors(const struct sc_run *run, struct sc_prediction *out)
{
	struct sc_contributor all[SC_N_OP_NAMES] = {0};
	struct tally tally = {{0}, {0}};
	size_t n = 0;

	tally_path(run, &tally);
	for (unsigned id = 0; id < SC_N_OP_NAMES; id++) {
		if (tally.us[id] <= 0)
			continue;
		all[n].ms = tally.us[id] / SC_US_PER_MS;
		all[n].count = tally.count[id];
		snprintf(all[n++].what, sizeof(all[0].what), "%s", sc_op_name(id));
	}
	qsort(all, n, sizeof(all[0]), by_ms_descending);
	out->n_contributors = n < SC_MAX_CONTRIBUTORS ? n : SC_MAX_CONTRIBUTORS;
	memcpy(out->contributors, all, out->n_contributors * sizeof(all[0]));
}

/* ---- classes ---- */

static void describe_classes(const struct sc_run *run, struct sc_prediction *out)
{
	const struct sc_placement *p = &run->tf->placement;
	size_t n = p->n_classes < SC_MAX_CLASSES_SHOWN ? p->n_classes : SC_MAX_CLASSES_SHOWN;

	out->n_classes = n;
	for (size_t c = 0; c < n; c++) {
		out->classes[c].ranks = p->classes[c].multiplicity;
		out->classes[c].busy_ms = out->classes[c].comm_ms = 0;
		snprintf(out->classes[c].name, sizeof(out->classes[c].name), "stage %d, rank %u",
			 p->classes[c].stage, p->classes[c].representative);
	}
	for (uint32_t i = 0; i < run->graph->nodes.n; i++) {
		const struct sc_lane *lane = &run->graph->lanes.at[run->graph->nodes.at[i].lane];
		double start = run->timeline->start_us[i], end = run->timeline->end_us[i];
		double ms = (end - start) / SC_US_PER_MS * stretch_weight(run, start, end);

		if (lane->class_id >= n)
			continue;
		if (lane->kind == SC_LANE_COMPUTE)
			out->classes[lane->class_id].busy_ms += ms;
		else if (lane->kind == SC_LANE_COMM)
			out->classes[lane->class_id].comm_ms += ms;
	}
	for (size_t c = 0; c < n; c++)
		out->classes[c].idle_ms = fmax(0, out->iteration_ms - out->classes[c].busy_ms);
}

/* ---- rates ---- */

static double peak_tflops(const struct sc_device *device, enum sc_dtype dtype)
{
	double peak = sc_device_peak_tflops(device, dtype);

	return peak > 0 ? peak : device->peak_tflops.fp32;
}

/* Of a GPU of the cluster, on average. */
static double mean_peak_tflops(const struct sc_request *req)
{
	const struct sc_structs *list = &req->config.cluster.nodes;
	const struct sc_gpu_nodes *nodes = list->at;
	enum sc_dtype dtype = sc_precision_dtype(req->config.training.precision);
	double sum = 0, n = 0;

	if (sc_request_n_kinds(req) == 1)
		return peak_tflops(&req->device, dtype);
	for (size_t i = 0; i < list->n; i++) {
		size_t kind = sc_request_kind_of(req, &nodes[i]);

		sum += (double)nodes[i].count * peak_tflops(sc_request_device(req, kind), dtype);
		n += (double)nodes[i].count;
	}
	return sum / n;
}

static void find_rates(const struct sc_run *run, struct sc_prediction *out)
{
	const struct sc_request *req = run->tf->request;
	double batch = (double)req->config.training.global_batch;
	double seconds = out->iteration_ms / SC_MS_PER_S;
	double peak = mean_peak_tflops(req);

	out->model_flop = batch * sc_transformer_model_flop(req);
	out->samples_per_s = batch / seconds;
	out->tokens_per_s = out->samples_per_s * (double)req->config.model.seq;
	/* time at peak on all GPUs over the time it takes */
	out->mfu = sc_flop_us(out->model_flop, peak) / (double)req->config.gpus /
		   (out->iteration_ms * SC_US_PER_MS);
}

void sc_run_summarize(struct sc_run *run, struct sc_prediction *out)
{
	uint32_t home;

	sc_critical_path_walk(run->graph, run->timeline, SC_NONE, run->path);
	home = home_class(run);
	find_path(run, home, out);
	out->iteration_ms =
		sc_quantize_us(run->timeline->total_us + run->n_skipped * run->steady.period_us) /
		SC_US_PER_MS;
	out->n_nodes += run->graph->nodes.n;
	find_contributors(run, out);
	describe_classes(run, out);
	sc_summarize_memory(run->tf, out);
	sc_find_band(run->tf, home, out);
	find_rates(run, out);
}
