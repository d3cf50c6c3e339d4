/* Builds the graph of some training steps of a DLRM in a row. Each class of ranks has a host, a
 * compute stream, one for embeddings (the same, if the software has none), and one each for
 * exchanges of vectors, of indices, and for gradient reduction. All collectives are over all ranks:
 * there classes wait for each other. A graph of the form of the one before gets new costs alone. */
#include <string.h>

#include "base/fnv.h"
#include "predict/dlrm/dlrm.h"
#include "predict/op_names.h"

struct class_lanes {
	uint32_t host, compute, embedding, vectors, indices, reduction;
	uint32_t ids; /* finding rows, beside all else */
};
struct class_state {
	struct class_lanes lanes;
	uint32_t *costs[SC_N_DLRM_BLOCKS];
	uint32_t input_cost;
	uint32_t index_ready; /* the node that brought the next step's indices */
	uint32_t step_end;    /* the end of the step before */
};
struct builder {
	const struct sc_dlrm *dlrm;
	struct sc_graph *graph;
	struct class_state *cls;
	struct sc_member *members; /* of all classes */
	uint32_t zero_cost;
	uint32_t exchange_cost[SC_N_EXCHANGES]; /* SC_NONE: there is none */
	uint32_t issue_cost;                    /* the host side of a collective */
	uint32_t group[SC_N_EXCHANGES];         /* in the step being built */
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
} EXCHANGES[SC_N_EXCHANGES] = {
	[SC_X_INDEX] = {SC_ALL_TO_ALL, SC_NAME_INDEX_EXCHANGE},
	[SC_X_OUTPUT] = {SC_ALL_TO_ALL, SC_NAME_OUTPUT_EXCHANGE},
	[SC_X_SCATTER] = {SC_REDUCE_SCATTER, SC_NAME_OUTPUT_SCATTER},
	[SC_X_HOST_SCATTER] = {SC_REDUCE_SCATTER, SC_NAME_OUTPUT_SCATTER},
	[SC_X_GRAD] = {SC_ALL_TO_ALL, SC_NAME_GRAD_EXCHANGE},
	[SC_X_GATHER] = {SC_ALL_GATHER, SC_NAME_GRAD_GATHER},
	[SC_X_HOST_GATHER] = {SC_ALL_GATHER, SC_NAME_GRAD_GATHER},
	[SC_X_REPLICAS] = {SC_ALL_REDUCE, SC_NAME_GRAD_REDUCE},
	[SC_X_TOP_GRADS] = {SC_ALL_REDUCE, SC_NAME_GRAD_REDUCE},
	[SC_X_BOTTOM_GRADS] = {SC_ALL_REDUCE, SC_NAME_GRAD_REDUCE},
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

static struct sc_span exchange_span(const struct sc_dlrm *dlrm, enum sc_exchange x)
{
	int world = (int)dlrm->plan.world, node = dlrm->fabric.gpus_per_node;
	int host = (int)dlrm->plan.ranks_per_host, n_hosts = (world + host - 1) / host;

	if (x == SC_X_HOST_SCATTER || x == SC_X_HOST_GATHER)
		return (struct sc_span){host, (host + node - 1) / node, host < node ? host : node};
	if ((x == SC_X_OUTPUT || x == SC_X_GRAD) && sums_by_node(dlrm))
		return (struct sc_span){n_hosts, n_hosts, 1};
	return (struct sc_span){world, (world + node - 1) / node, world < node ? world : node};
}

struct sc_collective_shape sc_dlrm_exchange_shape(const struct sc_dlrm *dlrm, enum sc_exchange x)
{
	const struct sc_dlrm_exchange *e = &dlrm->exchange;
	const double bottom = bottom_share(dlrm);
	const bool one_rank = sc_dlrm_one_rank_bottom(dlrm->request);
	const double bytes[SC_N_EXCHANGES] = {
		[SC_X_INDEX] = dlrm->request->software.dlrm.index_exchange ? e->index_bytes : 0,
		[SC_X_OUTPUT] = e->output_bytes,
		[SC_X_GRAD] = e->output_bytes,
		[SC_X_SCATTER] = e->scatter_bytes,
		[SC_X_GATHER] = e->scatter_bytes,
		[SC_X_HOST_SCATTER] = e->host_scatter_bytes,
		[SC_X_HOST_GATHER] = e->host_scatter_bytes,
		[SC_X_REPLICAS] = e->replica_grad_bytes,
		[SC_X_TOP_GRADS] = e->dense_grad_bytes * (1 - bottom),
		/* Gradients that one rank alone has are not reduced. */
		[SC_X_BOTTOM_GRADS] =
			(one_rank ? 0 : e->dense_grad_bytes * bottom) + e->hot_grad_bytes,
	};
	struct sc_collective_shape shape = {
		EXCHANGES[x].kind, bytes[x],
		dlrm->output_elem_bytes < sc_dtype_bytes(SC_FP32) ? SC_FP16 : SC_FP32};

	if (sums_by_node(dlrm) && (x == SC_X_HOST_SCATTER || x == SC_X_HOST_GATHER))
		shape.kind = SC_ALL_TO_ALL;
	return shape;
}

bool sc_dlrm_beside(const struct sc_dlrm *dlrm, size_t i, struct sc_dlrm_beside *out)
{
	static const struct {
		enum sc_exchange exchange;
		enum sc_dlrm_block block;
	} beside[] = {
		{SC_X_OUTPUT, SC_DLRM_BOTTOM},         {SC_X_SCATTER, SC_DLRM_BOTTOM},
		{SC_X_GRAD, SC_DLRM_BOTTOM_GRAD},      {SC_X_GATHER, SC_DLRM_BOTTOM_GRAD},
		{SC_X_TOP_GRADS, SC_DLRM_BOTTOM_GRAD}, {SC_X_TOP_GRADS, SC_DLRM_UPDATE},
	};

	if (i >= sizeof(beside) / sizeof(beside[0]))
		return false;
	*out = (struct sc_dlrm_beside){
		.block = beside[i].block,
		.exchange = EXCHANGES[beside[i].exchange].name,
		.shape = sc_dlrm_exchange_shape(dlrm, beside[i].exchange),
		.span = exchange_span(dlrm, beside[i].exchange),
	};
	return true;
}

static void add_exchange_cost(struct builder *b, enum sc_exchange x)
{
	const struct sc_dlrm *dlrm = b->dlrm;
	const struct sc_collective_shape shape = sc_dlrm_exchange_shape(dlrm, x);
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
static uint32_t join_exchange(const struct pass *p, enum sc_exchange x, uint32_t dep,
			      uint32_t otherwise)
{
	const struct class_lanes *l = &p->st->lanes;
	uint32_t lane = x == SC_X_INDEX     ? l->indices
			: x < SC_X_REPLICAS ? l->vectors
					    : l->reduction;
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

	p->st->index_ready = join_exchange(p, SC_X_INDEX, p->st->step_end, SC_NONE);
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
	at = join_exchange(p, SC_X_HOST_SCATTER, at, at);
	at = join_exchange(p, SC_X_SCATTER, at, at);
	return join_exchange(p, SC_X_OUTPUT, at, at);
}

/* Exchanges gradients and updates tables; returns the last exchange, or `dense`. */
static uint32_t update_tables(const struct pass *p, uint32_t dense)
{
	const struct class_lanes *l = &p->st->lanes;
	uint32_t at = join_exchange(p, SC_X_GRAD, dense, dense);

	at = join_exchange(p, SC_X_GATHER, at, at);
	at = join_exchange(p, SC_X_HOST_GATHER, at, at);
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
		reduced = join_exchange(p, SC_X_TOP_GRADS, dense, SC_NONE);
	if (has_hot)
		summed = run_block(p, SC_DLRM_REPLICA_GRAD, l->embedding,
				   wait_on(p, l->embedding, dense));
	sent = pulls ? dense : update_tables(p, summed);
	if (overlaps && last_first)
		reduced = join_exchange(p, SC_X_TOP_GRADS, sent, SC_NONE);
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
		reduced = join_exchange(p, SC_X_TOP_GRADS, last, SC_NONE);
	}
	reduced = join_exchange(p, SC_X_BOTTOM_GRADS, last, reduced);
	reduced = join_exchange(p, SC_X_REPLICAS, last, reduced);
	if (pulls)
		update_tables(p, last);
	return reduced;
}

/* Builds a class's step; returns the last node of the compute lane, where the step is over. */
static uint32_t build_pass(const struct pass *p)
{
	const struct class_lanes *l = &p->st->lanes;
	const struct sc_software *sw = &p->b->dlrm->request->software;
	uint32_t reduced, last, node;

	node = sc_graph_add_node(p->b->graph, SC_NODE_HOST, l->host,
				 (struct sc_node_use){p->st->input_cost, SC_NAME_INPUT_HOST});
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
	const struct sc_span span = exchange_span(b->dlrm, SC_X_TOP_GRADS);
	struct sc_class value = {
		.multiplicity = cls->multiplicity,
		.nic_domain = c,
		.ranks_per_domain = span.max_ranks_per_node,
		.slowdown = 1, /* its costs are slowed */
		.name = SC_NONE,
	};
	struct class_lanes *l = &b->cls[c].lanes;

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
	b->cls[c].index_ready = SC_NONE;
	b->cls[c].step_end = SC_NONE;
	b->members[c] = (struct sc_member){c, cls->multiplicity};
}

static bool is_shared(const struct sc_dlrm *dlrm, uint32_t c, int id)
{
	return c > 0 && dlrm->classes[c].block[id].steps.at == dlrm->classes[0].block[id].steps.at;
}

/* Adds all costs in an order that follows from the graph's form alone; blocks that classes share
 * have one. */
static void add_costs(struct builder *b)
{
	const struct sc_dlrm *dlrm = b->dlrm;
	const struct sc_block_env *env = &dlrm->classes[0].env;
	const struct sc_software *sw = &dlrm->request->software;
	const double input_us = sw->host_step_us + sw->dlrm.host_sample_us * dlrm->batch;
	struct sc_cost zero = {0};

	b->zero_cost = sc_graph_add_cost(b->graph, &zero);
	b->issue_cost = sc_block_host_cost(
		b->graph, env,
		env->cuda_graphs ? 0 : env->device->host.launch_us + env->software->comm_host_us);
	for (int x = 0; x < SC_N_EXCHANGES; x++)
		add_exchange_cost(b, (enum sc_exchange)x);
	for (uint32_t c = 0; c < dlrm->n_classes; c++) {
		const struct sc_dlrm_class *cls = &dlrm->classes[c];
		struct class_state *st = &b->cls[c];

		st->input_cost = sc_block_host_cost(b->graph, &cls->env, input_us);
		for (int id = 0; id < SC_N_DLRM_BLOCKS; id++) {
			if (is_shared(dlrm, c, id)) {
				st->costs[id] = b->cls[0].costs[id];
				continue;
			}
			st->costs[id] = sc_block_no_costs(&cls->block[id], dlrm->arena);
			sc_block_add_costs(&cls->block[id], &(struct sc_emit){.graph = b->graph},
					   st->costs[id]);
		}
	}
}

/* Lists what the form of the graph depends on, so that graphs of the same form differ in the values
 * of their costs alone. */
static void put_form(const struct builder *b, uint32_t n_steps, struct sc_dlrm_built *built)
{
	const struct sc_dlrm *dlrm = b->dlrm;
	const struct sc_request *req = dlrm->request;
	const uint32_t flags[] = {
		n_steps,
		(uint32_t)exchange_span(dlrm, SC_X_TOP_GRADS).max_ranks_per_node,
		(uint32_t)dlrm->classes[0].env.cuda_graphs,
		req->software.dlrm.embedding_stream,
		req->software.grad_sync == SC_GRAD_OVERLAP,
		req->software.host_waits,
		req->config.cluster.torus.dims.n > 0,
		sc_dlrm_one_rank_bottom(req),
		sc_dlrm_has_hot(dlrm),
		dlrm->exchange.pulled_bytes > 0,
	};

	built->asked.n = 0;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		SC_VEC_PUSH(&built->asked, flags[i]);
	for (int x = 0; x < SC_N_EXCHANGES; x++)
		SC_VEC_PUSH(&built->asked, b->exchange_cost[x]);
	for (uint32_t c = 0; c < dlrm->n_classes; c++) {
		SC_VEC_PUSH(&built->asked, dlrm->classes[c].multiplicity);
		for (int id = 0; id < SC_N_DLRM_BLOCKS; id++) {
			const struct sc_block *block = &dlrm->classes[c].block[id];
			const bool shared = is_shared(dlrm, c, id);

			SC_VEC_PUSH(&built->asked, shared ? SC_NONE : (uint32_t)block->steps.n);
			for (size_t i = 0; i < block->steps.n && !shared; i++)
				SC_VEC_PUSH(&built->asked, (uint32_t)block->steps.at[i].kind << 16 |
								   block->steps.at[i].name);
		}
	}
}

/* Says whether the graph is the one that was built last, and of this form. */
static bool is_built(const struct sc_graph *graph, const struct sc_dlrm_built *built)
{
	return built->print && graph->print == built->print && built->form.n == built->asked.n &&
	       memcmp(built->form.at, built->asked.at, built->form.n * sizeof(*built->form.at)) ==
		       0;
}

static void build_steps(struct builder *b, uint32_t n_steps, uint32_t *step_end)
{
	const uint32_t n = (uint32_t)b->dlrm->n_classes;

	for (uint32_t c = 0; c < n; c++)
		add_class(b, c);
	for (uint32_t s = 0; s < n_steps; s++) {
		for (int x = 0; x < SC_N_EXCHANGES; x++)
			b->group[x] = b->exchange_cost[x] == SC_NONE
					      ? SC_NONE
					      : sc_graph_add_group(
							b->graph,
							(struct sc_node_use){b->exchange_cost[x],
									     EXCHANGES[x].name},
							b->members, n);
		for (uint32_t c = 0; c < n; c++) {
			struct pass p = {b, c, &b->dlrm->classes[c], &b->cls[c]};

			step_end[s * n + c] = build_pass(&p);
		}
	}
	sc_graph_seal(b->graph);
}

void sc_dlrm_build(const struct sc_dlrm *dlrm, uint32_t n_steps, struct sc_graph *graph,
		   struct sc_dlrm_built *built)
{
	struct builder b = {.dlrm = dlrm, .graph = graph};
	size_t n_costs;

	b.cls = sc_arena_calloc(dlrm->arena, dlrm->n_classes, sizeof(*b.cls));
	b.members = sc_arena_calloc(dlrm->arena, dlrm->n_classes, sizeof(*b.members));
	graph->costs.n = 0;
	add_costs(&b);
	put_form(&b, n_steps, built);
	if (is_built(graph, built)) {
		graph->sealed = 1; /* its costs alone are new */
		return;
	}
	n_costs = graph->costs.n;
	sc_graph_clear(graph);
	graph->costs.n = n_costs;
	SC_VEC_RESERVE(&built->step_end, n_steps * dlrm->n_classes);
	build_steps(&b, n_steps, built->step_end.at);
	built->form.n = 0;
	for (size_t i = 0; i < built->asked.n; i++)
		SC_VEC_PUSH(&built->form, built->asked.at[i]);
	graph->print = built->print =
		sc_fnv(SC_FNV_START, built->form.at, built->form.n * sizeof(*built->form.at));
}

void sc_dlrm_built_release(struct sc_dlrm_built *built)
{
	SC_VEC_RELEASE(&built->step_end);
	SC_VEC_RELEASE(&built->form);
	SC_VEC_RELEASE(&built->asked);
}
