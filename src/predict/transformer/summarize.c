/* The reading of a Transformer's graph: waits, names, the period of the iteration, contributors by
 * op; and its rates and the memory of its fullest rank. */

#include "predict/transformer/summarize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/config/config_schedule.h"
#include "models/collective/collective_files.h"
#include "models/memory.h"
#include "predict/op_names.h"
#include "predict/transformer/build_priv.h"
#include "predict/transformer/transformer_memory.h"
#include "predict/transformer/transformer_tower.h"

/* ---- memory of the rank class nearest to its GPU's capacity, at its stage's peak ---- */

void sc_memory_of_class(const struct sc_run *run, uint32_t c, double in_flight,
			struct sc_memory *out)
{
	const struct sc_transformer *tf = run->tf;
	const struct sc_request *request = tf->request;
	const struct sc_class_plan *plan = &tf->classes[c];
	int stage = tf->placement.classes[c].stage;
	struct sc_stage_parts parts = sc_transformer_stage(tf, stage);
	struct sc_update update = {.trainable = plan->params.trainable,
				   .layers = parts.layers,
				   .replicas = plan->replicas.dense.all,
				   .shard = plan->replicas.dense.shard,
				   .expert_shard = plan->replicas.expert.shard};
	struct sc_layers_held held = {
		.bytes = tf->layer_bytes,
		.samples = (double)request->config.training.micro_batch,
		.micro_batches_in_flight = in_flight,
		.head = parts.head,
	};

	struct sc_memory_shape shape = {
		.params = plan->params.dense,
		.expert_params = plan->params.expert,
		.trainable = plan->params.trainable,
		.trainable_expert = plan->params.trainable_expert,
		.shard_ranks = plan->replicas.dense.shard.n_ranks,
		.expert_shard_ranks = plan->replicas.expert.shard.n_ranks,
		.matrix_bytes = sc_transformer_matrix_bytes(request, &update, false),
		.expert_matrix_bytes = sc_transformer_matrix_bytes(request, &update, true),
		.embed = parts.embed,
		.head = parts.head,
	};

	for (int kind = SC_N_LAYER_KINDS - 1; kind >= 0; kind--) {
		held.layers.of[kind] = parts.layers.of[kind] * in_flight;
		if (parts.layers.of[kind] > 0) {
			double params = tf->layer[kind].dense + tf->layer[kind].expert;

			shape.layer_params = request->config.model.layers_pattern
						     ? fmax(shape.layer_params, params)
						     : params;
		}
	}
	shape.activation_bytes = sc_activation_bytes(request, &held, &shape.off_bytes);
	if (parts.embed)
		shape.activation_bytes += in_flight * sc_tower_kept_bytes(request, held.samples);
	sc_memory_estimate(request, &shape, out);
	out->capacity_gib = sc_request_device(tf->request, tf->placement.classes[c].kind)->hbm_gib;
}

double sc_micro_batches_in_flight(const struct sc_run *run, int stage)
{
	struct sc_stage_parts parts = sc_transformer_stage(run->tf, stage);

	if (run->in_flight)
		return run->in_flight[stage];
	return sc_passes_peak(&run->built->passes, (uint32_t)stage,
			      sc_transformer_left(run->tf, &parts.layers)) /
	       run->tf->map.n_chunks;
}

/* Sums what the ranks of a class's host hold: of an NVLink domain of many hosts the fullest one's.
 */
static void sum_node(const struct sc_run *run, uint32_t c, struct sc_memory *out)
{
	const struct sc_placement *p = &run->tf->placement;
	double of_host = (double)run->tf->request->config.cluster.gpus_per_node;
	double most_host = 0, most_ssd = 0;

	out->host_gib = out->ssd_gib = 0;
	for (uint32_t d = 0; d < p->n_classes; d++) {
		const struct sc_rank_class *rc = &p->classes[d];
		struct sc_memory one;

		if (rc->nic_domain != p->classes[c].nic_domain)
			continue;
		sc_memory_of_class(run, d, sc_micro_batches_in_flight(run, rc->stage), &one);
		out->host_gib += rc->ranks_per_domain * one.host_gib;
		out->ssd_gib += rc->ranks_per_domain * one.ssd_gib;
		most_host = fmax(most_host, one.host_gib);
		most_ssd = fmax(most_ssd, one.ssd_gib);
	}
	out->host_gib = fmin(out->host_gib, of_host * most_host);
	out->ssd_gib = fmin(out->ssd_gib, of_host * most_ssd);
}

#define EQUALLY_FULL 1e-12

void sc_fullest_memory(const struct sc_run *run, struct sc_memory *out)
{
	const struct sc_transformer *tf = run->tf;
	struct sc_memory now;

	for (uint32_t c = 0; c < tf->placement.n_classes; c++) {
		sc_memory_of_class(run, c,
				   sc_micro_batches_in_flight(run, tf->placement.classes[c].stage),
				   &now);
		/* The first of equally full classes counts, whatever their last digits are. */
		if (c == 0 ||
		    sc_memory_fullness(&now) > sc_memory_fullness(out) * (1 + EQUALLY_FULL))
			*out = now;
	}
	if (out->host_gib > 0 || out->ssd_gib > 0) {
		struct sc_memory node, most = {0};

		for (uint32_t c = 0; c < run->tf->placement.n_classes; c++) {
			const struct sc_rank_class *classes = run->tf->placement.classes;
			uint32_t d = 0;

			while (classes[d].nic_domain != classes[c].nic_domain)
				d++;
			if (d != c)
				continue;
			sum_node(run, c, &node);
			most.host_gib = fmax(most.host_gib, node.host_gib);
			most.ssd_gib = fmax(most.ssd_gib, node.ssd_gib);
		}
		out->host_gib = most.host_gib;
		out->ssd_gib = most.ssd_gib;
	}
}

static unsigned node_name(const struct sc_run *run, uint32_t node)
{
	return sc_op_unpack_name(run->graph->nodes.at[node].op);
}

static bool is_transfer(unsigned name)
{
	return name == SC_NAME_SEND_ACTIVATION || name == SC_NAME_SEND_GRADIENT;
}

/* Returns what a node waits for. Receives are posted early; all others are members of a group when
 * they are done. */
static enum sc_wait wait_of(const void *ctx, uint32_t node)
{
	const struct sc_run *run = ctx;
	const struct sc_group *group = &run->graph->groups.at[run->graph->nodes.at[node].group];
	const struct sc_member *members = &run->graph->members.at[group->first_member];
	const struct sc_rank_class *classes = run->tf->placement.classes;

	if (is_transfer(node_name(run, node)))
		return SC_WAIT_POSTED;
	for (uint32_t i = 1; i < group->n_members; i++)
		if (classes[members[i].class_id].stage != classes[members[0].class_id].stage)
			return SC_WAIT_STAGE;
	return SC_WAIT_PEERS;
}

enum { STRETCH_PASSES = SC_N_OP_NAMES };

static struct sc_place run_place(const void *ctx, uint32_t node, uint32_t before)
{
	const struct sc_run *run = ctx;
	unsigned name = node_name(run, node);
	const bool is_whole = name >= SC_NAME_FORWARD && name <= SC_NAME_BACKWARD_BESIDE;

	(void)before;
	if (sc_op_is_of_pass(name)) /* turns are passes; those of one in parts, its directions */
		return (struct sc_place){
			.what = STRETCH_PASSES,
			.at = (uint32_t)run->tf->placement
				      .classes[sc_graph_class_of(run->graph, node)]
				      .stage,
			.turn = is_whole ? run->graph->nodes.at[node].op
					 : name >= SC_NAME_BACKWARD_LEAD,
			.hops = true,
		};
	return (struct sc_place){.what = name, .any = is_transfer(name)};
}

static void run_describe(const void *ctx, const struct sc_stretch *stretch, char *buf, size_t n_buf)
{
	const struct sc_run *run = ctx;

	if (stretch->what != STRETCH_PASSES)
		snprintf(buf, n_buf, "%s", sc_op_name(stretch->what));
	else if (run->built->shape.pp == 1)
		snprintf(buf, n_buf, "forward and backward");
	else if (stretch->at[0] == stretch->at[1])
		snprintf(buf, n_buf, "stage %u passes", (unsigned)stretch->at[0]);
	else
		snprintf(buf, n_buf, "passes of stages %u to %u", (unsigned)stretch->at[0],
			 (unsigned)stretch->at[1]);
}

/* ---- contributors: op times weighted by how often the path runs their block ---- */

/* Blocks are counted under ids after those of names. */
static uint32_t first_block_id(uint32_t variant, bool partial)
{
	return SC_N_OP_NAMES + (variant * 2 + partial) * SC_N_BLOCKS;
}

/* Counts the blocks that a coarse node of a pass, or of a part of one, stands for. */
static void tally_pass(const struct sc_run *run, const struct sc_segment *s, double times,
		       struct sc_tally *tally)
{
	const struct sc_transformer *tf = run->tf;
	uint32_t op = run->graph->nodes.at[s->node].op, c = sc_graph_class_of(run->graph, s->node);
	unsigned name = sc_op_unpack_name(op), n = sc_op_unpack_micro_batch(op);
	uint32_t chunk = sc_op_unpack_chunk(op);
	struct builder b = {.tf = tf};
	struct class_state st = {.b = &b, .id = c};

	for (int kind = 0; kind < SC_N_PASS_KINDS; kind++) {
		const struct sc_slot slot = build_slot_of(tf, c, chunk, (enum sc_pass_kind)kind);
		const struct pass p = build_pass_of(&st, &slot, false);
		bool whole = name == build_pass_name(p.kind);
		bool partial = whole && tf->partial && n + 1 == run->built->shape.micro_batches;

		for (int i = 0; i < p.n_runs; i++) {
			if (!whole && (name != p.run[i].name || i != (int)sc_op_unpack_run(op)))
				continue;
			sc_tally_add(tally,
				     first_block_id(tf->classes[c].variant, partial) +
					     (uint32_t)p.run[i].block,
				     0, times * (whole ? p.run[i].n : sc_op_unpack_layers(op)));
		}
	}
}

/* Counts the ops of a pass that ran beside another. */
static void tally_beside(const struct sc_built *built, uint32_t cost, double times,
			 struct sc_tally *tally)
{
	const struct sc_beside *b = built->beside;

	while (b < built->beside + built->n_beside && b->cost != cost)
		b++;
	for (size_t i = 0; b < built->beside + built->n_beside && i < b->pass->n_parts; i++) {
		const struct sc_pair_part *part = &b->pass->parts[i];

		sc_tally_add(tally, part->name, times * part->us, times * part->count);
	}
}

static void tally_segment(const void *ctx, const struct sc_path_part *part, struct sc_tally *tally)
{
	const struct sc_segment *s = part->segment;
	const struct sc_run *run = ctx;
	const struct sc_node *node = &run->graph->nodes.at[s->node];
	unsigned name = sc_op_unpack_name(node->op);
	bool of_pass = name >= SC_NAME_FORWARD && name <= SC_NAME_BACKWARD_TAIL;

	if (node->op == SC_NONE)
		return;
	if (name == SC_NAME_FORWARD_BESIDE || name == SC_NAME_BACKWARD_BESIDE) {
		if (node->kind == SC_NODE_KERNEL)
			tally_beside(run->built, node->cost, part->times, tally);
		else
			sc_tally_add(tally, SC_NAME_LAYER_HOST, part->us, part->times);
		return;
	}
	if (node->kind == SC_NODE_KERNEL && of_pass) {
		tally_pass(run, s, part->times, tally);
		/* The host takes its share of the segment's time. */
		sc_tally_add(tally, SC_NAME_LAYER_HOST,
			     part->us * (run->graph->costs.at[run->graph->nodes.at[s->node].cost]
						 .owner_frac[SC_OWN_HOST]),
			     0);
		return;
	}
	sc_tally_add(tally, of_pass ? SC_NAME_LAYER_HOST : name, part->us, part->times);
}

/* Replaces blocks by their ops. */
static void untangle(const void *ctx, struct sc_tally *tally)
{
	const struct sc_run *run = ctx;

	for (uint32_t v = 0; v < run->tf->n_variants; v++)
		for (uint32_t k = 0; k < 2 * SC_N_BLOCKS; k++) {
			const uint32_t id = first_block_id(v, 0) + k;

			if (id < tally->by_id.n && tally->by_id.at[id].count > 0) {
				const struct sc_block *block =
					&run->tf->variant[v]
						 ->block[k / SC_N_BLOCKS][k % SC_N_BLOCKS];
				for (size_t i = 0; i < block->steps.n; i++)
					if (block->steps.at[i].kind != SC_STEP_HOST)
						sc_tally_add(tally, block->steps.at[i].name,
							     tally->by_id.at[id].count *
								     sc_block_exposed_us(block, i),
							     tally->by_id.at[id].count);
			}
		}
}

static void run_class_name(const void *ctx, uint32_t class_id, char *buf, size_t n_buf)
{
	const struct sc_run *run = ctx;
	const struct sc_rank_class *rank = &run->tf->placement.classes[class_id];

	snprintf(buf, n_buf, "stage %d, rank %u", rank->stage, rank->representative);
}

/* Products run in fp32 where that is faster: Pascal's P4 has 1/64 of it in fp16. */
static double peak_tflops(const struct sc_device *device, enum sc_dtype dtype)
{
	return fmax(device->peak_tflops[dtype], device->peak_tflops[SC_FP32]);
}

/* Returns the mean peak of the cluster's GPUs. */
static double mean_peak_tflops(const struct sc_request *req, enum sc_dtype dtype)
{
	const struct sc_structs *list = &req->config.cluster.nodes;
	const struct sc_gpu_nodes *nodes = list->at;
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
	const enum sc_dtype dtype = sc_precision_dtype(req->config.training.precision);
	double peak = mean_peak_tflops(req, dtype), causal;
	double flop = sc_transformer_model_flop(req, &causal);

	sc_prediction_set_rates(out, req, flop, peak);
	out->tokens_per_s = out->samples_per_s * (double)req->config.model.seq *
			    req->config.training.fill_fraction;
	out->mfu_causal = out->mfu * causal / flop;
	out->tflops_gpu_causal = out->tflops_gpu * causal / flop;
	sc_transformer_model_params(req, &out->params);
	if (sc_dtype_bytes(dtype) < sc_dtype_bytes(SC_BF16))
		out->mfu_bf16 = out->mfu * peak / mean_peak_tflops(req, SC_BF16);
}

/* Returns when a class's first pass begins: its first kernel, so much later as the others wait for
 * their launches. A coarse pass has one kernel, which begins as late. */
static double begin_us(const struct sc_run *run, uint32_t c)
{
	const struct sc_timeline *tl = run->timeline;
	uint32_t last = run->built->slot_node[c * run->built->passes.stride];
	uint32_t lane = run->built->compute[c];
	double begin = 0, end = 0;

	for (uint32_t id = run->graph->lane_first[lane]; id <= last; id++) {
		if (run->graph->nodes.at[id].lane != lane || tl->end_us[id] <= tl->start_us[id])
			continue;
		if (!(end > 0) || tl->reason[id] == SC_BY_LAUNCH)
			begin += tl->start_us[id] - end;
		end = tl->end_us[id];
	}
	return begin;
}

/* Finds the longest class. From its begin on the others wait for their input; where a stage need
 * not hear of the others before it goes on to the next step, that wait is the step's before. The
 * iteration is then the longest of a stage (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024,
 * §4). */
static uint32_t longest_class(const struct sc_run *run, struct sc_period *out)
{
	const struct sc_timeline *tl = run->timeline;
	const struct sc_built *built = run->built;
	uint32_t longest = 0;
	double lead;

	*out = (struct sc_period){.to_us = tl->total_us};
	if (!sc_schedule_validates_after(&run->tf->request->config.parallel, run->tf->schedule) ||
	    built->shape.pp == 1)
		return SC_NONE;
	out->to_us = 0;
	/* The lead lasts until all ranks of the first stage are at their first pass, which the host
	 * prepares. */
	double us = 0;

	for (uint32_t c = 0; c < run->tf->placement.n_classes; c++)
		if (run->tf->placement.classes[c].stage == 0)
			us = fmax(us, begin_us(run, c));
	lead = us;
	for (uint32_t c = 0; c < run->tf->placement.n_classes; c++) {
		double from_us = fmax(begin_us(run, c) - lead, 0);
		double to_us = tl->end_us[built->last[c]];

		if (to_us - from_us > out->to_us - out->from_us) {
			longest = c;
			out->from_us = from_us;
			out->to_us = to_us;
		}
	}
	return built->last[longest];
}

uint32_t sc_run_last(const struct sc_run *run)
{
	struct sc_period period;
	uint32_t last = longest_class(run, &period);

	return last == SC_NONE ? sc_timeline_last(run->timeline) : last;
}

void sc_run_op_info(const struct sc_run *run, struct sc_reading_input *out)
{
	const struct sc_steady *steady = &run->steady;
	struct sc_period period;
	uint32_t last = longest_class(run, &period);

	period.repeats = steady->repeats;
	period.n_repeats = steady->n_repeats;
	period.is_quantized = true;
	*out = (struct sc_reading_input){
		.account = {.ran = {run->graph, run->timeline, wait_of, run},
			    .period = period,
			    .staged = run->built->shape.pp > 1,
			    .own = steady->own},
		.info = {.ctx = run,
			 .tally = tally_segment,
			 .tally_name = sc_op_tally_name,
			 .untangle = untangle,
			 .place = run_place,
			 .describe = run_describe,
			 .class_name = run_class_name},
		.last = last,
	};
}

static void warn_unpaired(const struct sc_transformer *tf, struct sc_warnings *warnings)
{
	const struct sc_config *cfg = &tf->request->config;

	if (sc_schedule_traits(cfg->parallel.schedule).pairs && !tf->pairs &&
	    sc_model_is_moe(&cfg->model) && cfg->parallel.ep > 1 && !cfg->training.moe_overlap)
		sc_warn(warnings,
			"parallel.schedule %s: passes run one by one, nothing hides their exchanges of "
			"tokens; %s",
			sc_enum_name(sc_schedule_names, (int)cfg->parallel.schedule),
			tf->request->software.host_waits
				? "the software's host waits for each layer"
				: "sharding or offload work between the layers");
}

/* Warns of each kind of GPU whose matrix products were not measured. */
static void warn_of_trends(const struct sc_request *req, struct sc_warnings *warnings)
{
	enum sc_dtype dtype = sc_precision_dtype(req->config.training.precision);

	for (size_t kind = 0; kind < sc_request_n_kinds(req); kind++) {
		const struct sc_device *device = sc_request_device(req, kind);
		const char *block = sc_device_math_block(device, dtype);

		if (!sc_device_is_fitted(device, block))
			sc_warn(warnings, "%s coefficients of %.40s: trend, not measured", block,
				device->id);
	}
}

void sc_run_conclude(const struct sc_run *run, struct sc_prediction *out)
{
	if (run->tf->placement.is_approximate)
		sc_warn(&out->warnings,
			"the layout sits so unevenly on its nodes that one kind of rank a stage is "
			"taken, with its worst groups");
	warn_unpaired(run->tf, &out->warnings);
	/* Memory is that of the class nearest to its capacity, and a warning where that does not
	 * fit. */
	sc_fullest_memory(run, &out->memory);
	if (out->memory.host_gib > 0 && out->memory.host_gib > out->memory.host_capacity_gib)
		sc_warn(&out->warnings,
			"training.offload keeps %.0f GiB in a node's memory, which has %.0f GiB "
			"(cluster.host_memory_gib): it will not fit",
			out->memory.host_gib, out->memory.host_capacity_gib);
	if (out->memory.ssd_gib > 0 && out->memory.ssd_capacity_gib >= 0 &&
	    out->memory.ssd_gib > out->memory.ssd_capacity_gib)
		sc_warn(&out->warnings,
			"training.offload keeps %.0f GiB on a node's SSDs, which have %.0f GiB "
			"(cluster.ssd_gib): it will not fit",
			out->memory.ssd_gib, out->memory.ssd_capacity_gib);
	if (out->memory.total_gib > out->memory.capacity_gib)
		sc_warn(&out->warnings,
			"needs %.1f GiB per GPU, which has %.1f GiB: it will not fit; raise %stp, pp "
			"or recompute, or lower micro_batch",
			out->memory.total_gib, out->memory.capacity_gib,
			run->tf->request->config.model.experts > 0 ? "ep, " : "");
	sc_transformer_warn(run->tf->request, &out->warnings);
	sc_collective_files_warn(&run->tf->fabric, &out->warnings);
	warn_of_trends(run->tf->request, &out->warnings);
	find_rates(run, out);
}
