/* A DLRM as a workload: the graph of some training steps in a row, of which one that is like the
 * one before is read, and the memory of its ranks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "models/collective/collective_files.h"
#include "predict/dlrm/dlrm.h"
#include "predict/op_names.h"

/* In the graph of DLRM training steps each class of ranks has a host, a compute stream, one for
 * embeddings (the same, if the software has none), and one each for exchanges of vectors, of
 * indices, and for gradient reduction. All collectives are over all ranks: there classes wait for
 * each other. */

enum exchange {
	X_INDEX,
	X_OUTPUT,
	X_SCATTER,
	X_HOST_SCATTER,
	X_GRAD,
	X_GATHER,
	X_HOST_GATHER,
	X_REPLICAS,
	X_TOP_GRADS,
	X_BOTTOM_GRADS,
	N_EXCHANGES
};
struct class_lanes {
	uint32_t host, compute, embedding, vectors, indices, reduction;
	uint32_t ids; /* finding rows, beside all else */
};
struct class_state {
	struct class_lanes lanes;
	uint32_t *costs[SC_N_DLRM_BLOCKS];
	uint32_t index_ready; /* the node that brought the next step's indices */
	uint32_t step_end;    /* the end of the step before */
};
struct builder {
	const struct sc_dlrm *dlrm;
	struct sc_graph *graph;
	struct class_state *cls;
	struct sc_member *members; /* of all classes */
	uint32_t zero_cost;
	uint32_t exchange_cost[N_EXCHANGES]; /* SC_NONE: there is none */
	uint32_t issue_cost;                 /* the host side of a collective */
	uint32_t group[N_EXCHANGES];         /* in the step being built */
};
/* One class in one step. */
struct pass {
	struct builder *b;
	uint32_t c;
	const struct sc_dlrm_class *cls;
	struct class_state *st;
};

static const struct {
	enum sc_collective kind;
	uint16_t name;
} EXCHANGES[N_EXCHANGES] = {
	[X_INDEX] = {SC_ALL_TO_ALL, SC_NAME_INDEX_EXCHANGE},
	[X_OUTPUT] = {SC_ALL_TO_ALL, SC_NAME_OUTPUT_EXCHANGE},
	[X_SCATTER] = {SC_REDUCE_SCATTER, SC_NAME_OUTPUT_SCATTER},
	[X_HOST_SCATTER] = {SC_REDUCE_SCATTER, SC_NAME_OUTPUT_SCATTER},
	[X_GRAD] = {SC_ALL_TO_ALL, SC_NAME_GRAD_EXCHANGE},
	[X_GATHER] = {SC_ALL_GATHER, SC_NAME_GRAD_GATHER},
	[X_HOST_GATHER] = {SC_ALL_GATHER, SC_NAME_GRAD_GATHER},
	[X_REPLICAS] = {SC_ALL_REDUCE, SC_NAME_GRAD_REDUCE},
	[X_TOP_GRADS] = {SC_ALL_REDUCE, SC_NAME_GRAD_REDUCE},
	[X_BOTTOM_GRADS] = {SC_ALL_REDUCE, SC_NAME_GRAD_REDUCE},
};

/* Returns the share of the dense gradients that are reduced after the backward pass: the bottom
 * MLP's, or all. */
static double bottom_share(const struct sc_dlrm *dlrm)
{
	const struct sc_model *model = &dlrm->request->config.model;
	double k = (double)model->dense_features, sum = 0;

	/* A torus issues a collective for each layer. */
	if (dlrm->request->software.grad_sync == SC_GRAD_AFTER && !dlrm->fabric.torus.dims.n &&
	    !sc_dlrm_one_rank_bottom(dlrm->request))
		return 1;

	for (size_t i = 0; i < model->bottom_mlp.n; i++) {
		sum += (k + 1) * (double)model->bottom_mlp.at[i];
		k = (double)model->bottom_mlp.at[i];
	}
	return dlrm->dense_params > 0 ? sum / dlrm->dense_params : 0;
}

/* Says whether nodes add up sums first: then a rank exchanges with one of every other node. */
static bool sums_by_node(const struct sc_dlrm *dlrm)
{
	return dlrm->request->software.dlrm.partial_sums &&
	       dlrm->plan.world > dlrm->plan.ranks_per_host;
}

static struct sc_span exchange_span(const struct sc_dlrm *dlrm, enum exchange x)
{
	int world = (int)dlrm->plan.world, node = dlrm->fabric.gpus_per_node;
	int host = (int)dlrm->plan.ranks_per_host, n_hosts = (world + host - 1) / host;

	if (x == X_HOST_SCATTER || x == X_HOST_GATHER)
		return (struct sc_span){host, (host + node - 1) / node, host < node ? host : node};
	if ((x == X_OUTPUT || x == X_GRAD) && sums_by_node(dlrm))
		return (struct sc_span){n_hosts, n_hosts, 1};
	return (struct sc_span){world, (world + node - 1) / node, world < node ? world : node};
}

static struct sc_collective_shape shape_of(const struct sc_dlrm *dlrm, enum exchange x)
{
	const struct sc_dlrm_exchange *e = &dlrm->exchange;
	const double bottom = bottom_share(dlrm);
	const bool one_rank = sc_dlrm_one_rank_bottom(dlrm->request);
	const double bytes[N_EXCHANGES] = {
		[X_INDEX] = dlrm->request->software.dlrm.index_exchange ? e->index_bytes : 0,
		[X_OUTPUT] = e->output_bytes,
		[X_GRAD] = e->output_bytes,
		[X_SCATTER] = e->scatter_bytes,
		[X_GATHER] = e->scatter_bytes,
		[X_HOST_SCATTER] = e->host_scatter_bytes,
		[X_HOST_GATHER] = e->host_scatter_bytes,
		[X_REPLICAS] = e->replica_grad_bytes,
		[X_TOP_GRADS] = e->dense_grad_bytes * (1 - bottom),
		/* Gradients that one rank alone has are not reduced. */
		[X_BOTTOM_GRADS] =
			(one_rank ? 0 : e->dense_grad_bytes * bottom) + e->hot_grad_bytes,
	};
	struct sc_collective_shape shape = {
		EXCHANGES[x].kind, bytes[x],
		dlrm->output_elem_bytes < sc_dtype_bytes(SC_FP32) ? SC_FP16 : SC_FP32};

	if (sums_by_node(dlrm) && (x == X_HOST_SCATTER || x == X_HOST_GATHER))
		shape.kind = SC_ALL_TO_ALL;
	return shape;
}

bool sc_dlrm_beside(const struct sc_dlrm *dlrm, size_t i, struct sc_dlrm_beside *out)
{
	static const struct {
		enum exchange exchange;
		enum sc_dlrm_block block;
	} beside[] = {
		{X_OUTPUT, SC_DLRM_BOTTOM},         {X_SCATTER, SC_DLRM_BOTTOM},
		{X_GRAD, SC_DLRM_BOTTOM_GRAD},      {X_GATHER, SC_DLRM_BOTTOM_GRAD},
		{X_TOP_GRADS, SC_DLRM_BOTTOM_GRAD}, {X_TOP_GRADS, SC_DLRM_UPDATE},
	};

	if (i >= sizeof(beside) / sizeof(beside[0]))
		return false;
	*out = (struct sc_dlrm_beside){
		.block = beside[i].block,
		.exchange = EXCHANGES[beside[i].exchange].name,
		.shape = shape_of(dlrm, beside[i].exchange),
		.span = exchange_span(dlrm, beside[i].exchange),
	};
	return true;
}

static void add_exchange_cost(struct builder *b, enum exchange x)
{
	const struct sc_dlrm *dlrm = b->dlrm;
	const struct sc_collective_shape shape = shape_of(dlrm, x);
	struct sc_span span = exchange_span(dlrm, x);
	struct sc_cost cost;

	b->exchange_cost[x] = SC_NONE;
	if (span.n_ranks <= 1 || !(shape.bytes > 0))
		return;
	sc_block_comm_cost(&dlrm->classes[0].env, &shape, &span, &cost);
	b->exchange_cost[x] = sc_graph_add_cost(b->graph, &cost);
}

static uint32_t wait_on(const struct pass *p, uint32_t lane, uint32_t dep)
{
	uint32_t node;

	if (dep == SC_NONE)
		return SC_NONE;
	node = sc_graph_add_node(p->b->graph, SC_NODE_EVENT, lane,
				 (struct sc_node_use){p->b->zero_cost, SC_NAME_JOIN});
	sc_graph_add_dep(p->b->graph, node, dep);
	return node;
}

static uint32_t no_group(void *ctx, const struct sc_step *step, uint32_t graph_cost)
{
	(void)ctx;
	(void)step;
	return graph_cost; /* these blocks have no collectives */
}

/* Runs a block on a lane after `dep`; returns its last node, or the one that stood for `dep` there.
 */
static uint32_t run_block(const struct pass *p, enum sc_dlrm_block id, uint32_t lane, uint32_t dep)
{
	struct sc_emit emit = {
		.graph = p->b->graph,
		.lanes = {p->st->lanes.host, lane, p->st->lanes.vectors},
		.comm_group = no_group,
		.zero_cost = p->b->zero_cost,
		.compute_dep = dep,
		.shared = true,
	};

	sc_block_emit(&p->cls->block[id], &emit, p->st->costs[id]);
	return emit.compute_dep;
}

/* Adds a member of the step's collective after `dep`; returns it, or `otherwise` if there is none.
 */
static uint32_t join_exchange(const struct pass *p, enum exchange x, uint32_t dep,
			      uint32_t otherwise)
{
	const struct class_lanes *l = &p->st->lanes;
	uint32_t lane = x == X_INDEX ? l->indices : x < X_REPLICAS ? l->vectors : l->reduction;
	struct sc_graph *g = p->b->graph;
	uint32_t issue, node;

	if (p->b->group[x] == SC_NONE)
		return otherwise;
	issue = sc_graph_add_node(g, SC_NODE_LAUNCH, p->st->lanes.host,
				  (struct sc_node_use){p->b->issue_cost, EXCHANGES[x].name});
	node = sc_graph_add_member(g, lane, p->b->group[x],
				   (struct sc_node_use){p->b->zero_cost, EXCHANGES[x].name});
	sc_graph_add_dep(g, node, issue);
	sc_graph_add_dep(g, node, dep);
	return node;
}

/* Prepares the next step's lookups beside this step, and no sooner: exchanges of many steps ahead
 * would fill the first steps' network and be gone from the last ones'. They are the indices by
 * table, or where each id's row lies. Returns what came beside the step before. */
static uint32_t prepare_indices(const struct pass *p)
{
	const uint32_t ready = p->st->index_ready, lane = p->st->lanes.ids;

	p->st->index_ready = join_exchange(p, X_INDEX, p->st->step_end, SC_NONE);
	if (sc_dlrm_has_hot(p->b->dlrm))
		p->st->index_ready =
			run_block(p, SC_DLRM_LOCATE, lane, wait_on(p, lane, p->st->step_end));
	return ready;
}

/* Goes from indices to vectors of the rank's shards. Where a step is a graph, its start waits for
 * the end of the one before. */
static uint32_t look_up(const struct pass *p)
{
	const struct class_lanes *l = &p->st->lanes;
	uint32_t at = prepare_indices(p);

	if (p->cls->env.cuda_graphs)
		wait_on(p, l->embedding, p->st->step_end);
	at = wait_on(p, l->embedding, at);
	at = run_block(p, SC_DLRM_INDEX, l->embedding, at);
	at = run_block(p, SC_DLRM_PREFETCH, l->embedding, at);
	return run_block(p, SC_DLRM_LOOKUP, l->embedding, at);
}

/* Sends vectors to the ranks that need them. */
static uint32_t send_vectors(const struct pass *p, uint32_t at)
{
	at = join_exchange(p, X_HOST_SCATTER, at, at);
	at = join_exchange(p, X_SCATTER, at, at);
	return join_exchange(p, X_OUTPUT, at, at);
}

/* Exchanges gradients and updates tables; returns the last exchange, or `dense`. */
static uint32_t update_tables(const struct pass *p, uint32_t dense)
{
	const struct class_lanes *l = &p->st->lanes;
	uint32_t at = join_exchange(p, X_GRAD, dense, dense);

	at = join_exchange(p, X_GATHER, at, at);
	at = join_exchange(p, X_HOST_GATHER, at, at);
	run_block(p, SC_DLRM_UPDATE, l->embedding, wait_on(p, l->embedding, at));
	return at;
}

/* Runs up to the loss and back through the top MLP; returns the last node of it. In a graph of two
 * streams the bottom MLP waits for the lookups (HugeCTR's model_pipeline.cpp:
 * bottom_network_fprop). Copies of hot rows are read when their new values are there, which within
 * a node come with the vectors. */
static uint32_t run_forward(const struct pass *p)
{
	const struct class_lanes *l = &p->st->lanes;
	const bool has_hot = sc_dlrm_has_hot(p->b->dlrm), apart = l->embedding != l->compute;
	const bool waits = apart && p->cls->env.cuda_graphs;
	uint32_t at, bottom = SC_NONE;

	if (!waits && !(has_hot && !apart)) {
		bottom = run_block(p, SC_DLRM_BOTTOM, l->compute, SC_NONE);
		if (!has_hot)
			run_block(p, SC_DLRM_REPLICA, l->compute, SC_NONE);
	}
	at = look_up(p);
	if (at == SC_NONE && sc_dlrm_one_rank_bottom(p->b->dlrm->request))
		at = bottom; /* a rank without tables sends this */
	if (waits)
		run_block(p, SC_DLRM_BOTTOM, l->compute, wait_on(p, l->compute, at));
	if (waits && !has_hot)
		run_block(p, SC_DLRM_REPLICA, l->compute, SC_NONE);
	at = send_vectors(p, at);
	if (has_hot)
		at = run_block(p, SC_DLRM_REPLICA, l->embedding, wait_on(p, l->embedding, at));
	if (!apart && has_hot)
		at = run_block(p, SC_DLRM_BOTTOM, l->compute, at);
	return run_block(p, SC_DLRM_DENSE, l->compute, wait_on(p, l->compute, at));
}

/* Returns the last reduction of gradients. Hot rows' gradients, pulled by owners or reduced, are
 * sums over each rank's samples; owners pull them by kernels that need the SMs, after the bottom
 * MLP's. */
static uint32_t run_backward(const struct pass *p, uint32_t dense)
{
	const struct class_lanes *l = &p->st->lanes;
	const struct sc_request *req = p->b->dlrm->request;
	const bool overlaps = req->software.grad_sync == SC_GRAD_OVERLAP;
	/* a torus runs collectives so */
	const bool last_first = req->config.cluster.torus.dims.n > 0;
	const bool has_hot = sc_dlrm_has_hot(p->b->dlrm);
	const bool pulls = p->b->dlrm->exchange.pulled_bytes > 0;
	uint32_t reduced = SC_NONE, summed = dense, last, sent;

	if (overlaps && !last_first)
		reduced = join_exchange(p, X_TOP_GRADS, dense, SC_NONE);
	if (has_hot)
		summed = run_block(p, SC_DLRM_REPLICA_GRAD, l->embedding,
				   wait_on(p, l->embedding, dense));
	sent = pulls ? dense : update_tables(p, summed);
	if (overlaps && last_first)
		reduced = join_exchange(p, X_TOP_GRADS, sent, SC_NONE);
	if (sc_dlrm_one_rank_bottom(req)) /* its gradients come with the vectors' */
		dense = wait_on(p, l->compute, sent);
	last = run_block(p, SC_DLRM_BOTTOM_GRAD, l->compute, dense);
	if (!has_hot)
		last = run_block(p, SC_DLRM_REPLICA_GRAD, l->compute, last);
	else if (!pulls)
		last = wait_on(p, l->compute, summed);
	if (!overlaps) { /* after all that is on the stream, also other blocks */
		last = sc_graph_add_node(p->b->graph, SC_NODE_EVENT, l->compute,
					 (struct sc_node_use){p->b->zero_cost, SC_NAME_JOIN});
		reduced = join_exchange(p, X_TOP_GRADS, last, SC_NONE);
	}
	reduced = join_exchange(p, X_BOTTOM_GRADS, last, reduced);
	reduced = join_exchange(p, X_REPLICAS, last, reduced);
	if (pulls)
		update_tables(p, last);
	return reduced;
}

/* Builds a class's step; returns the last node of the compute lane, where the step is over. */
static uint32_t build_pass(const struct pass *p)
{
	const struct class_lanes *l = &p->st->lanes;
	const struct sc_software *sw = &p->b->dlrm->request->software;
	double us = sw->host_step_us + sw->dlrm.host_sample_us * p->b->dlrm->batch;
	uint32_t reduced, last, node;

	node = sc_graph_add_node(
		p->b->graph, SC_NODE_HOST, l->host,
		(struct sc_node_use){sc_block_host_cost(p->b->graph, &p->cls->env, us),
				     SC_NAME_INPUT_HOST});
	if (sw->host_waits && p->st->step_end != SC_NONE)
		sc_graph_add_dep(p->b->graph, node, p->st->step_end);
	reduced = run_backward(p, run_forward(p));
	run_block(p, SC_DLRM_OPTIMIZER, l->compute, wait_on(p, l->compute, reduced));
	node = sc_graph_add_node(p->b->graph, SC_NODE_EVENT, l->embedding,
				 (struct sc_node_use){p->b->zero_cost, SC_NAME_JOIN});
	last = sc_graph_add_node(p->b->graph, SC_NODE_MARK, l->compute,
				 (struct sc_node_use){p->b->zero_cost, SC_NAME_JOIN});
	sc_graph_add_dep(p->b->graph, last, node);
	p->st->step_end = last;
	return last;
}

static void add_class(struct builder *b, uint32_t c)
{
	const struct sc_dlrm_class *cls = &b->dlrm->classes[c];
	const struct sc_span span = exchange_span(b->dlrm, X_TOP_GRADS);
	struct class_state *st = &b->cls[c];
	struct sc_class value = {
		.multiplicity = cls->multiplicity,
		.nic_domain = c,
		.ranks_per_domain = span.max_ranks_per_node,
		.slowdown = 1, /* its costs are slowed */
		.name = SC_NONE,
	};
	struct class_lanes *l = &st->lanes;

	sc_graph_add_class(b->graph, value);
	l->host = sc_graph_add_lane(b->graph, c, SC_LANE_HOST);
	l->compute = sc_graph_add_lane(b->graph, c, SC_LANE_COMPUTE);
	/* Kernels that reach into other GPUs' memory and products take turns: a large tile leaves
	 * no room beside it. */
	l->embedding = b->dlrm->request->software.dlrm.embedding_stream &&
				       !(b->dlrm->exchange.pulled_bytes > 0)
			       ? sc_graph_add_lane(b->graph, c, SC_LANE_COMPUTE)
			       : l->compute;
	l->ids = sc_dlrm_has_hot(b->dlrm) ? sc_graph_add_lane(b->graph, c, SC_LANE_COMPUTE)
					  : l->compute;
	l->vectors = sc_graph_add_lane(b->graph, c, SC_LANE_COMM);
	l->indices = sc_graph_add_lane(b->graph, c, SC_LANE_COMM);
	l->reduction = sc_graph_add_lane(b->graph, c, SC_LANE_COMM);
	st->index_ready = SC_NONE;
	st->step_end = SC_NONE;
	for (int id = 0; id < SC_N_DLRM_BLOCKS; id++)
		st->costs[id] = sc_block_no_costs(&cls->block[id], b->dlrm->arena);
	b->members[c] = (struct sc_member){c, cls->multiplicity};
}

void sc_dlrm_build(const struct sc_dlrm *dlrm, uint32_t n_steps, struct sc_graph *graph,
		   struct sc_dlrm_built *built)
{
	const struct sc_block_env *env = &dlrm->classes[0].env;
	struct builder b = {.dlrm = dlrm, .graph = graph};
	struct sc_cost zero = {0};

	sc_graph_clear(graph);
	b.cls = sc_arena_calloc(dlrm->arena, dlrm->n_classes, sizeof(*b.cls));
	b.members = sc_arena_calloc(dlrm->arena, dlrm->n_classes, sizeof(*b.members));
	built->step_end = sc_arena_calloc(dlrm->arena, n_steps * dlrm->n_classes, sizeof(uint32_t));
	b.zero_cost = sc_graph_add_cost(graph, &zero);
	b.issue_cost = sc_block_host_cost(
		graph, env,
		env->cuda_graphs ? 0 : env->device->host.launch_us + env->software->comm_host_us);
	for (int x = 0; x < N_EXCHANGES; x++)
		add_exchange_cost(&b, (enum exchange)x);
	for (uint32_t c = 0; c < dlrm->n_classes; c++)
		add_class(&b, c);
	for (uint32_t s = 0; s < n_steps; s++) {
		for (int x = 0; x < N_EXCHANGES; x++)
			b.group[x] = b.exchange_cost[x] == SC_NONE
					     ? SC_NONE
					     : sc_graph_add_group(
						       b.graph,
						       (struct sc_node_use){b.exchange_cost[x],
									    EXCHANGES[x].name},
						       b.members, (uint32_t)b.dlrm->n_classes);
		for (uint32_t c = 0; c < dlrm->n_classes; c++) {
			struct pass p = {&b, c, &dlrm->classes[c], &b.cls[c]};

			built->step_end[s * dlrm->n_classes + c] = build_pass(&p);
		}
	}
	sc_graph_seal(graph);
}

/* ---- the reading of one simulated step, the last that has another beside its end ---- */

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
	const uint32_t *ends = self->built.step_end + step * self->dlrm.n_classes;
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
	double columns = 0;

	for (size_t i = 0; i < dlrm->tables.n; i++)
		columns += sc_table_outputs(&dlrm->tables.at[i]) * (double)dlrm->tables.at[i].dim;
	return 2 * work->output_bytes + 2 * dlrm->batch * columns * dlrm->output_elem_bytes +
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

static void op_info(void *p, const struct sc_timeline *timeline, struct sc_reading_input *out)
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
	for (int x = 0; x < N_EXCHANGES; x++) {
		const struct sc_collective_shape shape = shape_of(dlrm, (enum exchange)x);

		sc_prediction_add_traffic(out, &dlrm->fabric, &shape);
	}
}

const struct sc_workload sc_dlrm_workload = {
	.takes = takes,
	.self_bytes = sizeof(struct self),
	.init = dlrm_workload_init,
	.build = dlrm_workload_build,
	.op_info = op_info,
	.conclude = conclude,
};
