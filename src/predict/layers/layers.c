/* A table of layers as a workload: kernels by FLOP and bytes, gradients in buckets, and some
 * training steps in a row, of which one is read. */
#include "predict/layers/layers.h"

#include <math.h>
#include <stdio.h>

#include "base/units.h"
#include "models/collective/collective_files.h"
#include "predict/matrix_steps.h"
#include "predict/op_names.h"
#include "predict/predict.h"

/* ---- costs of kernels, buckets of gradients ---- */

static double or_default(double given, double def)
{
	return given > 0 ? given : def;
}

struct sc_op sc_layers_op(const struct sc_layers *layers, size_t row, bool backward)
{
	const struct sc_training *tr = &layers->request->config.training;
	const struct sc_layer_row *r = sc_layers_row(layers, row);
	const double samples = (double)tr->micro_batch;
	const double weights = r->params * sc_dtype_bytes(sc_storage_dtype(tr->precision));
	struct sc_op op = {.kind = SC_OP_LAYER, .dtype = sc_precision_dtype(tr->precision)};

	op.u.layer = (struct sc_layer_shape){samples * r->flop, samples * r->bytes + weights};
	if (backward) /* weights are read, and their gradients written */
		op.u.layer = (struct sc_layer_shape){
			samples * or_default(r->grad_flop, 2 * r->flop),
			samples * or_default(r->grad_bytes, 2 * r->bytes) + 2 * weights};
	return op;
}

static void add_row(struct sc_layers *l, size_t row, bool backward, struct sc_block *out)
{
	const struct sc_op op = sc_layers_op(l, row, backward);

	sc_block_add_op(out, &l->env, backward ? SC_NAME_LAYER_BACKWARD : SC_NAME_LAYER_FORWARD,
			&op);
	l->flop += op.u.layer.flop / (double)l->request->config.training.micro_batch;
}

static struct sc_matrix matrix_of(const struct sc_request *request, const struct sc_layer_row *row)
{
	const double samples =
		(double)(request->config.training.micro_batch * request->n_micro_batches);

	return (struct sc_matrix){.m = row->outputs,
				  .n = row->inputs,
				  .count = row->outputs > 0 && row->inputs > 0,
				  .rows = samples * or_default(row->positions, 1)};
}

static void fill_forward(struct sc_layers *l)
{
	for (size_t i = l->n_buckets; i-- > 0;) {
		struct sc_layer_bucket *b = &l->buckets[i];
		double params = 0;

		for (size_t row = b->last_row + 1 - b->n_rows; row <= b->last_row; row++) {
			add_row(l, row, false, &b->forward);
			params += sc_layers_row(l, row)->params;
		}
		l->params += params;
		if (l->request->software.layer_updates)
			sc_block_add_optimizer(&b->update, &l->env, params);
	}
	if (!l->request->software.layer_updates) {
		/* Rows that say their matrix are stepped as matrices. */
		const size_t n_rows = l->request->config.model.rows.n;
		struct sc_matrix *a = sc_arena_calloc(l->arena, n_rows, sizeof(*a));
		int n = 0;

		for (size_t row = 0; row < n_rows; row++) {
			a[n] = matrix_of(l->request, sc_layers_row(l, row));
			n += a[n].count > 0;
		}
		sc_matrix_steps(&l->env, a, n, &l->span, &l->optimizer);
		sc_block_add_optimizer(&l->optimizer, &l->env, l->params);
	}
}

void sc_layers_memory(const struct sc_request *request, struct sc_memory *out)
{
	const struct sc_layer_row *rows = request->config.model.rows.at;
	double params = 0, kept_bytes = 0, matrix_bytes = 0;

	for (size_t i = 0; i < request->config.model.rows.n; i++) {
		const struct sc_matrix a = matrix_of(request, &rows[i]);

		if (a.count > 0)
			matrix_bytes += sc_matrix_bytes(request, &a, (double)request->config.gpus);
		params += rows[i].params;
		kept_bytes += or_default(rows[i].kept_bytes, rows[i].bytes / 2);
	}
	sc_memory_replica(request, params, matrix_bytes,
			  kept_bytes * (double)request->config.training.micro_batch, out);
}

int sc_layers_init(struct sc_layers *layers, const struct sc_setup *setup, struct sc_err *err)
{
	const struct sc_request *req = setup->request;
	const int world = (int)req->config.gpus;
	int node, rc;

	*layers = (struct sc_layers){.request = req, .arena = setup->scratch->arena};
	rc = sc_fabric_from_request(req, &layers->fabric, err);
	if (rc == 0)
		rc = sc_collective_files_load(req, layers->arena, &layers->fabric, err);
	if (rc)
		return rc;
	node = layers->fabric.gpus_per_node;
	layers->span =
		(struct sc_span){world, (world + node - 1) / node, world < node ? world : node};
	layers->env = sc_block_env_of(req, &layers->fabric, setup->opts);
	if (world > 1)
		sc_block_comm_by(
			&layers->env, SC_C3_DP,
			&(struct sc_collective_shape){SC_ALL_REDUCE, SC_LARGE_BYTES, SC_FP32},
			&layers->span, &layers->env.beside);
	sc_block_reserve(&layers->env);
	const size_t n = layers->request->config.model.rows.n;
	const enum sc_dtype dtype = sc_storage_dtype(layers->request->config.training.precision);
	const struct sc_software *sw = &req->software;
	struct sc_layer_bucket *b = NULL;
	double bucket_bytes = HUGE_VAL; /* all gradients at once where nothing is to overlap */

	if (sw->grad_sync == SC_GRAD_OVERLAP && sw->bucket_mib > 0)
		bucket_bytes = sw->bucket_mib * SC_BYTES_PER_MIB;
	layers->buckets = sc_arena_calloc(layers->arena, n, sizeof(*layers->buckets));
	for (size_t row = n; row-- > 0;) {
		if (!b || b->shape.bytes >= bucket_bytes) {
			b = &layers->buckets[layers->n_buckets++];
			b->last_row = row;
			b->shape = (struct sc_collective_shape){SC_ALL_REDUCE, 0, dtype};
		}
		add_row(layers, row, true, &b->backward);
		b->n_rows++;
		b->shape.bytes +=
			sc_layers_row(layers, row)->params * sc_grad_bytes(layers->request);
	}
	fill_forward(layers);
	return 0;
}

void sc_layers_release(struct sc_layers *layers)
{
	sc_block_release(&layers->optimizer);
	for (size_t i = 0; i < layers->n_buckets; i++) {
		sc_block_release(&layers->buckets[i].forward);
		sc_block_release(&layers->buckets[i].backward);
		sc_block_release(&layers->buckets[i].update);
	}
}

/* ---- the graph of a table of layers: one class of ranks, a compute lane, one of the gradients'
 * reduction ---- */

struct builder {
	const struct sc_layers *l;
	struct sc_graph *graph;
	uint32_t host, compute, comm;
	uint32_t zero_cost, issue_cost, step_cost, *optimizer_costs;
	struct bucket {
		/* `reduced` is the node of its last reduction, or SC_NONE */
		uint32_t lane, reduce_cost, reduced, *forward_costs, *backward_costs, *update_costs;
	} * buckets;
	uint32_t *nodes; /* the nodes of the block being emitted */
};

/* Begins a bucket; where each has its own update, their reductions run side by side. */
static void begin_bucket(struct builder *b, size_t bucket)
{
	const struct sc_layer_bucket *at = &b->l->buckets[bucket];
	struct sc_cost cost;

	b->buckets[bucket] = (struct bucket){
		.lane = b->l->env.software->layer_updates
				? sc_graph_add_lane(b->graph, 0, SC_LANE_COMM)
				: b->comm,
		.reduce_cost = SC_NONE,
		.reduced = SC_NONE,
		.forward_costs = sc_block_no_costs(&at->forward, b->l->arena),
		.backward_costs = sc_block_no_costs(&at->backward, b->l->arena),
		.update_costs = sc_block_no_costs(&at->update, b->l->arena),
	};
	if (b->l->span.n_ranks < 2 || !(at->shape.bytes > 0))
		return;
	sc_block_comm_by(&b->l->env, SC_C3_DP, &at->shape, &b->l->span, &cost);
	b->buckets[bucket].reduce_cost = sc_graph_add_cost(b->graph, &cost);
}

static void layers_graph_begin(struct builder *b)
{
	const struct sc_layers *l = b->l;
	const struct sc_block_env *env = &l->env;
	const struct sc_cost zero = {0};

	sc_graph_clear(b->graph);
	b->zero_cost = sc_graph_add_cost(b->graph, &zero);
	b->issue_cost = sc_block_host_cost(
		b->graph, env,
		env->cuda_graphs ? 0 : env->device->host.launch_us + env->software->comm_host_us);
	b->step_cost = sc_block_host_cost(b->graph, env, env->software->host_step_us);
	sc_graph_add_class(b->graph,
			   (struct sc_class){.multiplicity = (uint32_t)l->span.n_ranks,
					     .ranks_per_domain = l->span.max_ranks_per_node,
					     .slowdown = 1,
					     .name = SC_NONE});
	b->host = sc_graph_add_lane(b->graph, 0, SC_LANE_HOST);
	b->compute = sc_graph_add_lane(b->graph, 0, SC_LANE_COMPUTE);
	b->comm = sc_graph_add_lane(b->graph, 0, SC_LANE_COMM);
	b->optimizer_costs = sc_block_no_costs(&l->optimizer, b->l->arena);
	b->buckets = sc_arena_calloc(l->arena, l->n_buckets, sizeof(*b->buckets));
	b->nodes = sc_arena_calloc(l->arena, l->request->config.model.rows.n + l->optimizer.steps.n,
				   sizeof(*b->nodes));
	for (size_t i = 0; i < l->n_buckets; i++)
		begin_bucket(b, i);
}

/* Returns a group of all ranks, for an optimizer's collectives. */
static uint32_t group_of_all(void *ctx, const struct sc_step *step, uint32_t graph_cost)
{
	const struct builder *b = ctx;
	const struct sc_member all = {0, (uint32_t)b->l->span.n_ranks};

	return sc_graph_add_group(b->graph, (struct sc_node_use){graph_cost, step->name}, &all, 1);
}

/* Runs a block; returns its last kernel. */
static uint32_t run_block(struct builder *b, const struct sc_block *block, uint32_t *costs)
{
	struct sc_emit emit = {
		.graph = b->graph,
		.lanes = {b->host, b->compute, b->comm},
		.comm_group = group_of_all,
		.ctx = b,
		.in_flight = SC_NONE,
		.zero_cost = b->zero_cost,
		.compute_dep = SC_NONE,
		.shared = true,
		.node = b->nodes,
	};

	sc_block_emit(block, &emit, costs);
	return emit.compute_dep;
}

/* Names kernels after their rows, from `row` on, or backwards from it. */
static void name_rows(struct builder *b, size_t row, size_t n, bool backward)
{
	const unsigned name = backward ? SC_NAME_LAYER_BACKWARD : SC_NAME_LAYER_FORWARD;

	for (size_t i = 0; i < n; i++)
		b->graph->nodes.at[b->nodes[i]].op =
			sc_op_pack(name, 0, (unsigned)(backward ? row - i : row + i));
}

static void reduce(struct builder *b, struct bucket *bucket, uint32_t dep)
{
	const struct sc_member member = {0, (uint32_t)b->l->span.n_ranks};
	const struct sc_node_use use = {bucket->reduce_cost, SC_NAME_GRAD_REDUCE};
	uint32_t group, issue;

	if (bucket->reduce_cost == SC_NONE)
		return;
	group = sc_graph_add_group(b->graph, use, &member, 1);
	issue = sc_graph_add_node(b->graph, SC_NODE_LAUNCH, b->host,
				  (struct sc_node_use){b->issue_cost, SC_NAME_GRAD_REDUCE});
	bucket->reduced =
		sc_graph_add_member(b->graph, bucket->lane, group,
				    (struct sc_node_use){b->zero_cost, SC_NAME_GRAD_REDUCE});
	sc_graph_add_dep(b->graph, bucket->reduced, issue);
	sc_graph_add_dep(b->graph, bucket->reduced, dep);
}

static uint32_t add_mark(struct builder *b, enum sc_node_kind kind, uint32_t dep)
{
	uint32_t node = sc_graph_add_node(b->graph, kind, b->compute,
					  (struct sc_node_use){b->zero_cost, SC_NAME_JOIN});

	sc_graph_add_dep(b->graph, node, dep);
	return node;
}

/* Runs forward and backward of a micro-batch; the last one's gradients are reduced. */
static void run_pass(struct builder *b, bool is_first, bool is_last)
{
	const struct sc_layers *l = b->l;

	for (size_t i = l->n_buckets; i-- > 0;) {
		/* A bucket with its own update makes its weights just before they are used. */
		const struct sc_layer_bucket *at = &b->l->buckets[i];
		struct bucket *bucket = &b->buckets[i];

		if (is_first && at->update.steps.n) {
			run_block(b, &at->update, bucket->update_costs);
			sc_graph_add_dep(b->graph, b->nodes[0], bucket->reduced);
		}
		run_block(b, &at->forward, bucket->forward_costs);
		if (is_first && !at->update.steps.n && bucket->reduced != SC_NONE)
			sc_graph_add_dep(b->graph, b->nodes[0], bucket->reduced);
		name_rows(b, at->last_row + 1 - at->n_rows, at->n_rows, false);
	}
	for (size_t i = 0; i < l->n_buckets; i++) {
		const struct sc_layer_bucket *at = &l->buckets[i];
		uint32_t last = run_block(b, &at->backward, b->buckets[i].backward_costs);

		name_rows(b, at->last_row, at->n_rows, true);
		if (is_last)
			reduce(b, &b->buckets[i], last);
	}
}

/* The first step has nothing to wait for; the last is beside the end of the one that is read. */
enum { N_STEPS = 3, READ_STEP = 1 };

struct self {
	struct sc_layers layers;
	struct sc_graph *graph;
	uint32_t step_end[N_STEPS]; /* the node at which each is over */
};

static bool takes(const struct sc_request *request)
{
	return request->config.model.family == SC_LAYERS;
}

static int layers_workload_init(void *p, const struct sc_setup *setup, struct sc_err *err)
{
	struct self *self = p;

	self->graph = setup->graph;
	return sc_layers_init(&self->layers, setup, err);
}

static int layers_workload_build(void *p, struct sc_err *err)
{
	struct self *self = p;

	(void)err;
	const int64_t n_passes = self->layers.request->n_micro_batches;
	struct builder b = {.l = &self->layers, .graph = self->graph};

	layers_graph_begin(&b);
	for (uint32_t s = 0; s < N_STEPS; s++) {
		sc_graph_add_node(self->graph, SC_NODE_HOST, b.host,
				  (struct sc_node_use){b.step_cost, SC_NAME_STEP_HOST});
		for (int64_t pass = 1; pass <= n_passes; pass++)
			run_pass(&b, pass == 1, pass == n_passes);
		if (!self->layers.env.software->layer_updates) {
			/* All weights are stepped once all gradients are reduced: a lane's last
			 * reduction ends last. */
			uint32_t reduced = SC_NONE;

			for (size_t i = 0; i < b.l->n_buckets; i++)
				if (b.buckets[i].reduced != SC_NONE)
					reduced = b.buckets[i].reduced;
			if (reduced != SC_NONE)
				add_mark(&b, SC_NODE_EVENT, reduced);
			run_block(&b, &b.l->optimizer, b.optimizer_costs);
		}
		self->step_end[s] = add_mark(&b, SC_NODE_MARK, SC_NONE);
	}
	sc_graph_seal(self->graph);
	return 0;
}

static bool is_row(unsigned op)
{
	return op != SC_NONE && (sc_op_unpack_name(op) == SC_NAME_LAYER_FORWARD ||
				 sc_op_unpack_name(op) == SC_NAME_LAYER_BACKWARD);
}

/* Tallies a row by name and row, anything else by its name alone. */
static void tally(const void *ctx, const struct sc_path_part *part, struct sc_tally *out)
{
	const struct self *self = ctx;
	const uint32_t op = self->graph->nodes.at[part->segment->node].op;
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

static struct sc_place layers_place(const void *ctx, uint32_t node, uint32_t before)
{
	const struct self *self = ctx;
	const uint32_t op = self->graph->nodes.at[node].op;

	(void)before;
	return (struct sc_place){.what = op == SC_NONE ? SC_NAME_JOIN : sc_op_unpack_name(op)};
}

static void layers_describe(const void *ctx, const struct sc_stretch *stretch, char *buf,
			    size_t n_buf)
{
	(void)ctx;
	snprintf(buf, n_buf, "%s", sc_op_name(stretch->what));
}

static void layers_class_name(const void *ctx, uint32_t class_id, char *buf, size_t n_buf)
{
	(void)ctx;
	(void)class_id;
	snprintf(buf, n_buf, "every rank");
}

static void fill_reading(void *p, const struct sc_timeline *timeline, struct sc_reading_input *out)
{
	const struct self *self = p;
	const uint32_t *ends = self->step_end;

	*out = (struct sc_reading_input){
		.account = {.ran = {self->graph, timeline, NULL, NULL},
			    .period = {.from_us = timeline->end_us[ends[READ_STEP - 1]],
				       .to_us = timeline->end_us[ends[READ_STEP]]}},
		.info = {.ctx = self,
			 .tally = tally,
			 .tally_name = tally_name,
			 .place = layers_place,
			 .describe = layers_describe,
			 .class_name = layers_class_name},
		.last = ends[READ_STEP],
		.n_steps = N_STEPS,
	};
}

static void conclude(void *p, struct sc_prediction *out)
{
	const struct sc_layers *l = &((struct self *)p)->layers;
	const struct sc_collective_shape all = {.kind = SC_ALL_REDUCE,
						.bytes = l->params * sc_grad_bytes(l->request)};

	sc_layers_memory(l->request, &out->memory);
	if (out->memory.total_gib > out->memory.capacity_gib)
		sc_warn(&out->warnings,
			"a rank needs %.1f GiB, and has %.1f GiB: it will not fit; use a smaller "
			"training.micro_batch or more GPUs",
			out->memory.total_gib, out->memory.capacity_gib);
	sc_prediction_set_rates(out, l->request, l->flop, sc_request_peak_tflops(l->request));
	out->params.total = out->params.active = l->params;
	sc_collective_files_warn(&l->fabric, &out->warnings);
	sc_prediction_add_traffic(out, &l->fabric, &all);
}

static void release(void *p)
{
	sc_layers_release(&((struct self *)p)->layers);
}

const struct sc_workload sc_layers_workload = {
	.takes = takes,
	.self_bytes = sizeof(struct self),
	.init = layers_workload_init,
	.build = layers_workload_build,
	.fill_reading = fill_reading,
	.conclude = conclude,
	.release = release,
};
