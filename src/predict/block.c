/* Blocks: costing their steps, emitting them op by op, composing their summaries.
 * Knows nothing of models or schedules. */
#include "predict/block.h"

#include <math.h>
#include <string.h>

#include "base/fnv.h"
#include "models/row_reuse.h"
#include "predict/op_names.h"
#include "predict/predict.h"

/* What launching a CUDA graph costs the host, in launches of one kernel (NVIDIA, "Constant Time Launch
 * for Straight-Line CUDA Graphs", 2024: 2.5 us and more against 2 us). */
#define LAUNCH_WAYS 2.0
#define GRAPH_LAUNCHES 2.0
/* With which kernels that send a token once reach their rate (deepseek-ai/DeepEP, buffer.py: num_sms). */
#define DISPATCH_SMS 20.0
#define SLOWEST_RATE 1e-3        /* that counts: of what has no room at all */
enum { N_REMEMBERED = 1 << 12 }; /* slots */

void sc_build_scratch_init(struct sc_build_scratch *scratch, struct sc_arena *arena)
{
	*scratch = (struct sc_build_scratch){
		.arena = arena,
		.sim = sc_simulator_create(),
		.rows = sc_row_memo_create(),
		.memo = sc_memo_create(N_REMEMBERED),
	};
	sc_graph_init(&scratch->graph);
}

void sc_build_scratch_release(struct sc_build_scratch *scratch)
{
	sc_graph_release(&scratch->graph);
	sc_timeline_release(&scratch->timeline);
	SC_VEC_RELEASE(&scratch->ids);
	sc_simulator_destroy(scratch->sim);
	sc_row_memo_destroy(scratch->rows);
	sc_memo_destroy(scratch->memo);
}

struct sc_block_env sc_block_env_of(const struct sc_request *request,
				    const struct sc_fabric *fabric,
				    const struct sc_predict_opts *opts)
{
	const double level = request->software.level;

	return (struct sc_block_env){.request = request,
				     .device = &request->device,
				     .software = &request->software,
				     .fabric = fabric,
				     .slowdown = 1,
				     .cuda_graphs = request->config.training.cuda_graphs,
				     .attention_eff = 1,
				     .gemm_speed = opts->gemm_speed / level,
				     .hbm_speed = opts->hbm_speed / level,
				     .link_speed = opts->link_speed / level,
				     .nic_speed = opts->nic_speed / level,
				     .host_speed = opts->host_speed / level};
}

void sc_block_clear(struct sc_block *block)
{
	block->steps.n = 0;
	block->scope = 0;
	block->print = 0;
	memset(&block->sum, 0, sizeof(block->sum));
}

static void scale(struct sc_cost *cost, double factor)
{
	cost->latency_us *= factor;
	cost->work_us *= factor;
}

static void scale_cost(struct sc_cost *cost, double factor)
{
	scale(cost, factor);
	cost->latency_us = sc_quantize_us(cost->latency_us);
	cost->work_us = sc_quantize_us(cost->work_us);
}

void sc_block_share(struct sc_block *block, size_t first, double share)
{
	for (size_t i = first; (share < 1 || share > 1) && i < block->steps.n; i++) {
		struct sc_step *step = &block->steps.at[i];

		step->cost.waves *= share;
		scale_cost(&step->cost, share);
		step->cost.amount *= share;
		step->host_us = sc_quantize_us(step->host_us * share);
		step->flop *= share;
	}
}

/* The step that was added last. */
static void list_step(struct sc_block *block, const struct sc_op *op, const struct sc_span *span)
{
	const struct sc_step *step = &block->steps.at[block->steps.n - 1];
	struct sc_block_item item = {.op = *op,
				     .alone_us = sc_cost_alone_us(&step->cost),
				     .name = step->name,
				     .axis = step->axis,
				     .hidden = step->hidden};

	if (!block->list)
		return;
	if (span)
		item.span = *span;
	SC_VEC_PUSH(&block->list->items, item);
}

static double kernel_speed(const struct sc_block_env *env, const struct sc_op *op,
			   const struct sc_cost *cost)
{
	double eff = op->kind == SC_OP_ATTENTION ? env->attention_eff : 1;

	if (cost->owner_frac[SC_OWN_COMPUTE] > 0)
		return eff * (op->kind == SC_OP_GEMM || op->kind == SC_OP_ATTENTION ||
					      op->kind == SC_OP_SCAN
				      ? env->gemm_speed
				      : 1 / env->software->level);
	return eff * env->hbm_speed;
}

bool sc_block_is_replayed(const struct sc_block *block, const struct sc_block_env *env)
{
	return env->cuda_graphs == 1 || (env->cuda_graphs & block->scope);
}

void sc_block_add_op(struct sc_block *block, const struct sc_block_env *env, uint16_t name,
		     const struct sc_op *op)
{
	sc_block_add_pieces(block, env, &(struct sc_block_pieces){name, op, 1, 0, 1});
}

static bool any_policy(const struct sc_block_env *env, enum sc_c3_policy policy)
{
	for (int f = 0; f < SC_N_C3_FAMILIES; f++)
		if (env->request->c3[f].policy == policy)
			return true;
	return false;
}

/* Where launches block, the GPU waits for the host before each kernel: until that has seen the last one end (a
 * launch's way to the GPU, and back), and for its own time. */
static void push_step(struct sc_block *block, const struct sc_block_env *env, struct sc_step step)
{
	double host_us = step.host_us;

	if (env->launch_blocking && host_us > 0) {
		step.host_us = 0;
		if (step.kind != SC_STEP_HOST)
			host_us += LAUNCH_WAYS * env->device->host.launch_us / env->host_speed;
		sc_block_add_wait(block, step.name, host_us);
		if (step.kind == SC_STEP_HOST)
			return;
	}
	SC_VEC_PUSH(&block->steps, step);
}

void sc_block_add_pieces(struct sc_block *block, const struct sc_block_env *env,
			 const struct sc_block_pieces *pieces)
{
	const struct sc_op *op = pieces->op;
	uint16_t name = pieces->name;
	struct sc_step step = {.name = name, .kind = SC_STEP_KERNEL, .model = (uint8_t)op->kind};
	struct sc_op_time time;
	double n_launches = 1, n_calls = 1, n = pieces->n;

	/* a grouped GEMM is one call of as many kernels on several streams (Transformer Engine) */
	if (op->kind == SC_OP_GEMM && !op->u.gemm.bmm)
		n_launches = op->u.gemm.batch;
	if ((op->kind == SC_OP_ROWWISE || op->kind == SC_OP_OPTIMIZER) &&
	    op->u.rowwise.n_kernels > 1)
		n_launches = n_calls = op->u.rowwise.n_kernels;
	sc_op_model_get(op->kind)->time(env->device, op, &time);
	/* On the SMs that are left; products bound by memory gain where copies spare their caches. */
	if (env->kernel_sms > 0) {
		sc_interfere_kernel(env->device, op, env->kernel_sms, 0, &step.cost);
	} else {
		sc_op_time_cost(op, &time, &step.cost);
		sc_interfere_load_kernel(env->device, &step.cost);
	}
	if (op->kind == SC_OP_GEMM && time.memory_us > time.math_us &&
	    any_policy(env, SC_C3_COPY_ENGINE_RELIEF))
		scale(&step.cost, 1 / (1 + env->device->interference.relief_gain));
	step.cost.latency_us += pieces->gap_us;
	step.cost.work_us *= pieces->stretch;
	step.cost.waves *= n;
	scale_cost(&step.cost, n * env->slowdown / kernel_speed(env, op, &step.cost));
	if (!sc_block_is_replayed(block, env))
		step.host_us = sc_quantize_us(n *
					      (n_launches * env->device->host.launch_us +
					       n_calls * env->software->host_op_us) /
					      env->host_speed);
	if (op->kind == SC_OP_GEMM)
		step.flop = n * 2 * op->u.gemm.batch * op->u.gemm.m * op->u.gemm.n * op->u.gemm.k;
	else if (op->kind == SC_OP_ATTENTION)
		step.flop = n * sc_attention_flop(&op->u.attention);
	push_step(block, env, step);
	list_step(block, op, NULL);
}

struct sc_transfer sc_block_transfer(const struct sc_block_env *env,
				     const struct sc_collective_shape *shape,
				     const struct sc_span *span)
{
	return (struct sc_transfer){.device = env->device,
				    .fabric = env->fabric,
				    .shape = *shape,
				    .n_ranks = span->n_ranks,
				    .n_nodes = span->n_nodes,
				    .max_ranks_per_node = span->max_ranks_per_node,
				    .channels = fmax(0, (double)env->request->config.c3.channels),
				    .call_us = env->software->comm_latency_us,
				    .eff = span->n_nodes > 1 ? env->software->net_eff
							     : env->software->link_eff};
}

static void say_comm(const struct sc_collective_shape *shape, struct sc_cost *cost)
{
	cost->comm = (unsigned char)(1 + shape->kind);
	cost->amount = shape->bytes;
}

void sc_block_comm_cost(const struct sc_block_env *env, const struct sc_collective_shape *shape,
			const struct sc_span *span, struct sc_cost *out)
{
	const struct sc_transfer transfer = sc_block_transfer(env, shape, span);

	sc_interfere_collective(&transfer, 0, 0, out);
	scale_cost(out, 1 / (span->n_nodes > 1 ? env->nic_speed : env->link_speed));
	say_comm(shape, out);
}

void sc_block_share_nics(double peers, struct sc_cost *cost)
{
	double load = cost->demand[SC_RES_NIC] * peers;

	if (load <= 1)
		return;
	cost->work_us = sc_quantize_us(cost->work_us * load);
	cost->beside_frac = cost->beside_frac * load < 1 ? cost->beside_frac * load : 0;
	for (int r = 0; r < SC_N_RES; r++)
		if (r != SC_RES_SM)
			cost->demand[r] /= load;
}

/* The share of one of `peers` ranks of a node that exchange over its NICs together: each of the node's ranks of the stage has an equal
 * part of what they load, which is what a data-parallel collective finds of them beside it. */
static void fold_nics(const struct sc_block_env *env, double peers, struct sc_cost *cost)
{
	sc_block_share_nics(peers, cost);
	if (env->node_peers > 0)
		cost->demand[SC_RES_NIC] *= peers / env->node_peers;
}

/* One phase of an exchange. */
static struct sc_cost phase_cost(const struct sc_block_env *env,
				 const struct sc_collective_shape *shape,
				 const struct sc_span *span, double peers)
{
	struct sc_cost out;

	sc_block_comm_cost(env, shape, span, &out);
	fold_nics(env, peers, &out);
	out.demand[SC_RES_SM] = 0;
	out.holds_sm = 0;
	return out;
}

struct sc_cost sc_block_comm_alone(const struct sc_block_env *env,
				   const struct sc_collective_shape *shape,
				   const struct sc_span *span, double peers)
{
	struct sc_cost out = phase_cost(env, shape, span, peers);

	memset(out.demand, 0, sizeof(out.demand));
	return out;
}

/* Its kernels hold the SMs that are kept for them. On fewer than they
 * take of themselves they are slower; on more they are no faster. */
static void hold_sms(const struct sc_block_env *env, struct sc_cost *cost)
{
	const struct sc_c3_choice *choice = &env->request->c3[SC_C3_EP];

	if (sc_c3_keeps(choice) && choice->n > 0) {
		const double rate = fmin(1, choice->n / DISPATCH_SMS);

		cost->work_us = sc_quantize_us(cost->work_us / rate);
		for (int r = 0; r < SC_N_RES; r++)
			cost->demand[r] *= rate;
		cost->demand[SC_RES_SM] = choice->n / (double)env->device->sm_count;
	}
	cost->holds_sm = cost->demand[SC_RES_SM] > 0;
}

/* Over the network to nodes, and over links to their ranks, one behind the other in small pieces. The kernels
 * reach the rate of rings (deepseek-ai/DeepEP, README: 43 to 58 of 50 GB/s, tokens of the own node counted). */
static struct sc_cost once_a_node_cost(const struct sc_block_env *env,
				       const struct sc_block_comm *comm, const struct sc_span *span,
				       double peers)
{
	int local_ranks = span->max_ranks_per_node;
	struct sc_span local = {local_ranks, 1, local_ranks},
		       nodes = {span->n_nodes, span->n_nodes, 1};
	struct sc_collective_shape to_nodes = comm->shape;
	struct sc_fabric direct = *env->fabric;
	struct sc_block_env own = *env;
	struct sc_cost links = phase_cost(env, &comm->shape, &local, 0), net, out;

	if (span->n_nodes < 2)
		return links;
	direct.net.a2a_eff = 1;
	own.fabric = &direct;
	to_nodes.bytes = comm->node_bytes;
	net = phase_cost(&own, &to_nodes, &nodes, peers);
	out = net;
	out.latency_us = fmax(net.latency_us, links.latency_us);
	out.work_us = fmax(net.work_us, links.work_us);
	for (int r = 0; r < SC_N_RES && out.work_us > 0; r++)
		out.demand[r] =
			fmin(1, (net.demand[r] * net.work_us + links.demand[r] * links.work_us) /
					out.work_us);
	return out;
}

static void keep_to_sms(const struct sc_transfer *transfer, double sms, struct sc_cost *cost)
{
	sc_interfere_keep_sms(transfer, sms, cost);
	cost->work_us = sc_quantize_us(cost->work_us);
}

/* Copy engines move `n_pieces` one after another, of which one stays with its rank. */
static void copy_cost(const struct sc_block_env *env, const struct sc_transfer *transfer,
		      double n_pieces, struct sc_cost *out)
{
	double n = fmax(n_pieces - 1, 1);

	sc_interfere_copy(transfer, n, 1, out);
	out->latency_us *= n;
	out->work_us *= n;
	scale_cost(out, 1 / env->link_speed);
}

void sc_block_comm_by(const struct sc_block_env *env, enum sc_c3_family family,
		      const struct sc_collective_shape *shape, const struct sc_span *span,
		      struct sc_cost *out)
{
	const struct sc_c3_choice *choice = &env->request->c3[family];
	const struct sc_transfer transfer = sc_block_transfer(env, shape, span);

	if (sc_c3_copies(choice->policy) && !sc_interfere_copy_unfit(&transfer)) {
		copy_cost(env, &transfer, 1, out);
		out->latency_us += sc_quantize_us(
			(span->n_ranks - 2) * env->device->interference.copy_us + transfer.call_us);
		say_comm(shape, out);
		return;
	}
	sc_block_comm_cost(env, shape, span, out);
	/* how many are kept from kernels is not how many the library takes */
	if ((choice->policy == SC_C3_RESERVE || choice->policy == SC_C3_COMM_FIRST_RESERVE) &&
	    !(choice->n > 0))
		keep_to_sms(&transfer, 0, out);
}

void sc_block_reserve(struct sc_block_env *env)
{
	const double all = (double)env->device->sm_count;
	double most = 0;

	for (int f = 0; f < SC_N_C3_FAMILIES; f++) {
		const struct sc_c3_choice *choice = &env->request->c3[f];
		const struct sc_collective_shape shape = {
			f == SC_C3_EP ? SC_ALL_TO_ALL : SC_ALL_GATHER, SC_LARGE_BYTES, SC_BF16};
		struct sc_cost cost = env->beside; /* of data-parallel ones */

		if (!sc_c3_keeps(choice))
			continue;
		if (!(choice->n > 0) && f < SC_C3_DP && env->span[f].n_ranks > 1)
			sc_block_comm_by(env, (enum sc_c3_family)f, &shape, &env->span[f], &cost);
		else if (f != SC_C3_DP)
			cost.demand[SC_RES_SM] = 0;
		most = fmax(most, choice->n > 0 ? choice->n : cost.demand[SC_RES_SM] * all);
	}
	if (most > 0)
		env->kernel_sms = fmax(1, all - sc_device_whole_sms(env->device, most));
}

void sc_block_add_sum(struct sc_block *block, const struct sc_block_env *env,
		      const struct sc_block_comm *comm)
{
	struct sc_transfer transfer = sc_block_transfer(env, &comm->shape, &env->span[comm->axis]);
	struct sc_step step = {.name = comm->name, .kind = SC_STEP_KERNEL, .model = SC_OP_ROWWISE};

	sc_interfere_reduce(&transfer, &step.cost);
	if (!(sc_cost_alone_us(&step.cost) > 0))
		return;
	scale_cost(&step.cost, env->slowdown / env->hbm_speed);
	if (!sc_block_is_replayed(block, env))
		step.host_us =
			sc_quantize_us((env->device->host.launch_us + env->software->host_op_us) /
				       env->host_speed);
	push_step(block, env, step);
}

void sc_block_add_comm(struct sc_block *block, const struct sc_block_env *env,
		       const struct sc_block_comm *comm)
{
	enum sc_comm_axis axis = comm->axis;
	const struct sc_collective_shape *shape = &comm->shape;
	struct sc_transfer transfer;
	struct sc_step step = {.name = comm->name,
			       .kind = SC_STEP_COMM,
			       .axis = (uint8_t)axis,
			       .hidden = (uint8_t)comm->n_hidden,
			       .in_turn = env->request->c3[axis].policy == SC_C3_SERIAL};
	const struct sc_fabric *fabric = env->axis_fabric[axis];
	struct sc_block_env own;
	struct sc_span span = env->span[axis];
	double peers = env->axis_node_peers[axis];

	if (span.n_ranks <= 1)
		return;
	if (fabric && fabric != env->fabric) {
		own = *env;
		own.fabric = fabric;
		env = &own;
	}
	if (shape->kind == SC_SEND_RECV) { /* of a ring's ranks on a node one sends out of it */
		peers = fmin(peers, fmax(1, peers / span.max_ranks_per_node));
		/* Where send/recv round the ring of a group goes: to a neighbour, on another node if the group leaves
		 * its node. */
		bool remote = span.n_nodes > 1;

		span = (struct sc_span){2, remote ? 2 : 1, remote ? 1 : 2};
	}
	transfer = sc_block_transfer(env, shape, &span);
	if (comm->node_bytes > 0) {
		step.cost = once_a_node_cost(env, comm, &span, peers);
		hold_sms(env, &step.cost);
	} else if (comm->n_pieces > 0 && span.n_nodes <= 1) {
		copy_cost(env, &transfer, comm->n_pieces, &step.cost);
	} else {
		sc_block_comm_by(env, (enum sc_c3_family)axis, shape, &span, &step.cost);
	}
	if (comm->most_sms > 0)
		keep_to_sms(&transfer, comm->most_sms, &step.cost);
	say_comm(shape, &step.cost);
	if (!(comm->node_bytes > 0 && span.n_nodes > 1)) /* whose phases are folded */
		fold_nics(env, peers, &step.cost);
	/* Tensor-parallel collectives come several a layer, and each waits for the host that is last. That is seldom the
	 * same one, so what each adds counts for all: a rank's own CPU time grows with the other ranks of its group. Groups of more
	 * than eight were not measured, and count as eight. */
	if (!sc_block_is_replayed(block, env))
		step.host_us =
			sc_quantize_us((env->device->host.launch_us +
					(axis == SC_COMM_TP ? fmin(span.n_ranks, 8) - 1 : 1) *
						env->software->comm_host_us) /
				       env->host_speed);
	push_step(block, env, step);
	list_step(block, &(struct sc_op){.kind = SC_OP_COLLECTIVE, .u.collective = *shape}, &span);
}

void sc_block_add_optimizer(struct sc_block *block, const struct sc_block_env *env, double params)
{
	const double moved =
		params * sc_optimizer_step_bytes(env->request->config.training.optimizer);
	const struct sc_op op = {
		SC_OP_OPTIMIZER, SC_FP32, {.rowwise = {.read_bytes = moved, .n_kernels = 1}}};

	if (moved > 0)
		sc_block_add_op(block, env, SC_NAME_OPTIMIZER, &op);
}

void sc_block_add_wait(struct sc_block *block, uint16_t name, double us)
{
	struct sc_step step = {.name = name, .kind = SC_STEP_KERNEL, .model = SC_OP_HOST};

	step.cost.work_us = sc_quantize_us(us);
	step.cost.owner_frac[SC_OWN_HOST] = 1;
	SC_VEC_PUSH(&block->steps, step);
}

void sc_block_add_host(struct sc_block *block, const struct sc_block_env *env, uint16_t name,
		       double host_us)
{
	struct sc_step step = {.name = name, .kind = SC_STEP_HOST};

	if (host_us <= 0)
		return;
	if (sc_block_is_replayed(block, env)) /* the whole block is one graph */
		host_us = fmin(host_us, GRAPH_LAUNCHES * env->device->host.launch_us);
	step.host_us = sc_quantize_us(host_us / env->host_speed);
	push_step(block, env, step);
}

double sc_block_exposed_us(const struct sc_block *block, size_t at)
{
	const struct sc_step *step = &block->steps.at[at];
	double us = step->us;
	int left = step->hidden;

	for (size_t i = at + 1; i < block->steps.n && left > 0; i++) {
		const struct sc_step *beside = &block->steps.at[i];

		if (beside->kind == SC_STEP_COMM)
			break;
		if (beside->kind == SC_STEP_HOST)
			continue;
		us -= beside->us;
		left--;
	}
	return fmax(us, 0);
}

/* Cost ids of a step in this graph: [0] on the GPU, [1] on the host, if it is there. */
static void step_costs(const struct sc_step *step, const struct sc_emit *emit, bool contends,
		       uint32_t cost[2])
{
	struct sc_cost host = {.work_us = step->host_us, .owner_frac[SC_OWN_HOST] = 1};
	struct sc_cost gpu = step->cost;

	if (cost[1] != SC_NONE)
		return;
	if (step->kind == SC_STEP_KERNEL)
		gpu.amount = step->flop;
	if (!contends)
		memset(gpu.demand, 0, sizeof(gpu.demand));
	cost[0] = sc_graph_add_cost(emit->graph, &gpu);
	cost[1] = emit->early ? emit->zero_cost : sc_graph_add_cost(emit->graph, &host);
}

static uint32_t emit_gpu_step(const struct sc_step *step, struct sc_emit *emit, uint32_t launch,
			      uint32_t cost)
{
	struct sc_graph *g = emit->graph;
	uint32_t node;

	if (step->kind == SC_STEP_KERNEL)
		node = sc_graph_add_node(g, SC_NODE_KERNEL, emit->lanes.compute,
					 (struct sc_node_use){cost, step->name});
	else
		node = sc_graph_add_member(g, emit->lanes.comm,
					   emit->comm_group(emit->ctx, step, cost),
					   (struct sc_node_use){emit->zero_cost, step->name});
	sc_graph_add_dep(g, node, launch);
	sc_graph_add_dep(g, node, emit->compute_dep);
	return node;
}

void sc_block_emit_end(struct sc_emit *emit)
{
	if (emit->in_flight == SC_NONE)
		return;
	emit->compute_dep = sc_graph_add_node(emit->graph, SC_NODE_EVENT, emit->lanes.compute,
					      (struct sc_node_use){emit->zero_cost, SC_NONE});
	sc_graph_add_dep(emit->graph, emit->compute_dep, emit->in_flight);
	emit->in_flight = SC_NONE;
}

void sc_block_emit_step(const struct sc_block *block, size_t at, struct sc_emit *emit,
			uint32_t *costs)
{
	const struct sc_step *step = &block->steps.at[at];
	uint32_t *cost = costs + 2 * at, launch = SC_NONE, node;

	if (emit->kernels_left == 0 || step->kind == SC_STEP_COMM)
		sc_block_emit_end(emit);
	step_costs(step, emit, emit->shared || emit->in_flight != SC_NONE || step->hidden > 0,
		   cost);
	if (!emit->early)
		launch = sc_graph_add_node(
			emit->graph, step->kind == SC_STEP_HOST ? SC_NODE_HOST : SC_NODE_LAUNCH,
			emit->lanes.host, (struct sc_node_use){cost[1], step->name});
	if (step->kind == SC_STEP_HOST)
		return;
	node = emit_gpu_step(step, emit, launch, cost[0]);
	if (emit->node)
		emit->node[at] = node;
	if (step->kind == SC_STEP_COMM && step->hidden > 0) {
		emit->in_flight = node;
		emit->kernels_left = step->hidden;
	} else {
		emit->compute_dep = node;
	}
	if (emit->in_flight != SC_NONE && step->kind == SC_STEP_KERNEL)
		emit->kernels_left--;
}

void sc_block_emit(const struct sc_block *block, struct sc_emit *emit, uint32_t *costs)
{
	emit->in_flight = SC_NONE;
	for (size_t i = 0; i < block->steps.n; i++)
		sc_block_emit_step(block, i, emit, costs);
	sc_block_emit_end(emit);
	if (emit->host_waits && emit->compute_dep != SC_NONE)
		sc_graph_add_dep(emit->graph,
				 sc_graph_add_node(emit->graph, SC_NODE_SYNC, emit->lanes.host,
						   (struct sc_node_use){emit->zero_cost, SC_NONE}),
				 emit->compute_dep);
}

uint32_t *sc_block_no_costs(const struct sc_block *block, struct sc_arena *arena)
{
	const size_t n = 2 * block->steps.n * sizeof(uint32_t);

	return memset(sc_arena_alloc(arena, n + 1), 0xff, n);
}

/* The GPU waits for the host at the start of `n` parts. */
static void add_leads(struct sc_summary *s, double n, double lead_us)
{
	s->gpu_us += n * lead_us;
	s->owner_us[SC_OWN_HOST] += n * lead_us;
	s->beside_us += n * lead_us;
	s->beside_sm_us += n * lead_us;
}

/* Adds all but when the GPU waits for the host. */
static void add_summary(const struct sc_summary *a, double n, struct sc_summary *out)
{
	out->host_us += n * a->host_us;
	out->gpu_us += n * a->gpu_us;
	out->flop += n * a->flop;
	out->hidden_us += n * a->hidden_us;
	out->beside_us += n * a->beside_us;
	out->beside_sm_us += n * a->beside_sm_us;
	out->wave_us2 += n * a->wave_us2;
	for (int o = 0; o < SC_N_OWNERS; o++)
		out->owner_us[o] += n * a->owner_us[o];
	for (int r = 0; r < SC_N_RES; r++)
		out->load_us[r] += n * a->load_us[r];
}

struct sc_summary sc_summary_then(const struct sc_summary *a, const struct sc_summary *b)
{
	struct sc_summary out = *a;

	add_summary(b, 1, &out);
	out.lead_us = fmax(a->lead_us, a->host_us - a->gpu_us + b->lead_us);
	out.host_waits = b->host_waits;
	if (a->host_waits) {
		out.lead_us = a->lead_us;
		add_leads(&out, 1, b->lead_us);
	}
	return out;
}

struct sc_summary sc_summary_repeat(const struct sc_summary *a, double n)
{
	struct sc_summary out = {0};

	if (n <= 0)
		return out;
	add_summary(a, n, &out);
	out.lead_us = a->lead_us + (n - 1) * fmax(a->host_us - a->gpu_us, 0);
	out.host_waits = a->host_waits;
	if (a->host_waits) {
		out.lead_us = a->lead_us;
		add_leads(&out, n - 1, a->lead_us);
	}
	return out;
}

uint32_t sc_block_alone_group(void *ctx, const struct sc_step *step, uint32_t graph_cost)
{
	struct sc_graph *graph = ctx;
	struct sc_member self = {0, 1};

	return sc_graph_add_group(graph, (struct sc_node_use){graph_cost, step->name}, &self, 1);
}

void sc_block_alone_begin(struct sc_build_scratch *scratch, double gpu_free_us, struct sc_emit *out)
{
	struct sc_graph *g = &scratch->graph;
	struct sc_class one = {
		.multiplicity = 1, .ranks_per_domain = 1, .slowdown = 1, .name = SC_NONE};
	struct sc_cost zero = {0}, busy = {.work_us = gpu_free_us, .owner_frac[SC_OWN_OTHER] = 1};

	*out = (struct sc_emit){
		.graph = g, .comm_group = sc_block_alone_group, .ctx = g, .in_flight = SC_NONE};
	sc_graph_clear(g);
	sc_graph_add_class(g, one);
	out->lanes.host = sc_graph_add_lane(g, 0, SC_LANE_HOST);
	out->lanes.compute = sc_graph_add_lane(g, 0, SC_LANE_COMPUTE);
	out->lanes.comm = sc_graph_add_lane(g, 0, SC_LANE_COMM);
	out->zero_cost = sc_graph_add_cost(g, &zero);
	out->compute_dep =
		sc_graph_add_node(g, SC_NODE_KERNEL, out->lanes.compute,
				  (struct sc_node_use){sc_graph_add_cost(g, &busy), SC_NONE});
}

/* Units of a resource for each rank: NICs are the node's. */
static double capacity(int resource, double peers)
{
	return resource == SC_RES_NIC && peers > 1 ? 1 / peers : 1;
}

static double sm_rate(const struct sc_cost *step, const struct sc_cost *comm)
{
	double sms = step->demand[SC_RES_SM];

	return sms > 0 ? fmin(1, (1 - comm->demand[SC_RES_SM]) / sms) : 1;
}

/* Share of its speed that a step keeps beside a collective, which holds its SMs: the engine's filling, for two. */
static double rate_beside(const struct sc_cost *step, const struct sc_cost *comm, double peers)
{
	double rate = sm_rate(step, comm), alone = 1;

	if (comm->demand[SC_RES_NIC] > 0)
		alone = fmin(1, capacity(SC_RES_NIC, peers) / comm->demand[SC_RES_NIC]);
	for (int r = SC_RES_SM + 1; r < SC_N_RES; r++) {
		double all = capacity(r, peers), ours = step->demand[r], its = comm->demand[r];

		if (ours > 0)
			rate = fmin(rate, fmax(all / (ours + its), (all - its * alone) / ours));
	}
	return rate;
}

double sc_block_uneven(const struct sc_block *block, const struct sc_block_env *env)
{
	double us = 0, sum[2] = {0}, squares[2] = {0}, out = 0;

	for (size_t i = 0; i < block->steps.n; i++) {
		const struct sc_cost *step = &block->steps.at[i].cost;
		/* The other way round: of the collective's, SMs apart. */
		struct sc_cost own = env->beside, others = *step;

		own.demand[SC_RES_SM] = others.demand[SC_RES_SM] = 0;
		const double rate[2] = {rate_beside(step, &env->beside, env->node_peers),
					rate_beside(&own, &others, env->node_peers)};

		if (block->steps.at[i].kind == SC_STEP_HOST)
			continue;
		us += step->work_us;
		for (int r = 0; r < 2; r++) {
			double slowdown = 1 / fmax(rate[r], SLOWEST_RATE);

			sum[r] += step->work_us * slowdown;
			squares[r] += step->work_us * slowdown * slowdown;
		}
	}
	for (int r = 0; r < 2 && us > 0; r++)
		out += sqrt(fmax(0, squares[r] / us - sum[r] / us * (sum[r] / us)));
	return out;
}

static void add_beside(const struct sc_cost *step, const struct sc_block_env *env,
		       struct sc_summary *s)
{
	double rate = rate_beside(step, &env->beside, env->node_peers);

	s->beside_us += step->latency_us + step->work_us / rate;
	s->beside_sm_us += step->latency_us + step->work_us / sm_rate(step, &env->beside);
	for (int r = 0; r < SC_N_RES; r++)
		s->load_us[r] += step->work_us * step->demand[r];
}

/* The block beside a data-parallel collective. */
static void find_beside(const struct sc_block *block, const struct sc_block_env *env,
			struct sc_summary *s)
{
	struct sc_cost window = {0};
	int hidden = 0;

	for (size_t i = 0; i < block->steps.n; i++) {
		const struct sc_step *step = &block->steps.at[i];

		if (step->kind == SC_STEP_HOST)
			continue;
		if (step->kind == SC_STEP_COMM)
			hidden = step->hidden;
		if (hidden > 0) {
			/* Steps that run beside each other are one load, their average. */
			window.work_us += sc_block_exposed_us(block, i);
			for (int r = 0; r < SC_N_RES; r++)
				window.demand[r] += step->cost.work_us * step->cost.demand[r];
		} else
			add_beside(&step->cost, env, s);
		hidden -= hidden > 0 && step->kind == SC_STEP_KERNEL;
	}
	if (!(window.work_us > 0))
		return;
	for (int r = 0; r < SC_N_RES; r++)
		window.demand[r] = fmin(1, window.demand[r] / window.work_us);
	add_beside(&window, env, s);
}

/* Each step's time in place: alone, unless some run beside others. */
static bool find_times(struct sc_block *block, struct sc_summary *s)
{
	bool overlaps = false;

	for (size_t i = 0; i < block->steps.n; i++) {
		struct sc_step *step = &block->steps.at[i];

		step->us = step->kind == SC_STEP_HOST ? 0 : sc_cost_alone_us(&step->cost);
		s->host_us += step->host_us;
		s->flop += step->flop;
		overlaps = overlaps || step->hidden > 0;
	}
	return overlaps;
}

/* Steps one after another, without a graph: the end of all when the GPU is free at `gpu_us`. */
static double end_in_turn_us(const struct sc_block *block, double gpu_us)
{
	double host_us = 0;

	for (size_t i = 0; i < block->steps.n; i++) {
		const struct sc_step *step = &block->steps.at[i];

		host_us += step->host_us;
		if (step->kind != SC_STEP_HOST)
			gpu_us = fmax(gpu_us, host_us) + step->cost.latency_us + step->cost.work_us;
	}
	return fmax(gpu_us, host_us);
}

/* When the block ends on a GPU that is free once the host has launched all of it, and on one that is free at
 * once; behind them the time of each step on the GPU in the former. */
enum { END_BEHIND, END_AT_ONCE, STEP_TIMES };

static int simulate_at(const struct sc_block *block, double gpu_us,
		       struct sc_build_scratch *scratch, struct sc_err *err)
{
	/* A graph of this block alone. */
	struct sc_emit emit;

	sc_block_alone_begin(scratch, gpu_us, &emit);
	scratch->ids.n = 0;
	for (size_t i = 0; i < 3 * block->steps.n; i++)
		SC_VEC_PUSH(&scratch->ids, SC_NONE);
	emit.node = scratch->ids.at + 2 * block->steps.n;
	sc_block_emit(block, &emit, scratch->ids.at);
	sc_graph_seal(&scratch->graph);
	return sc_simulate(scratch->sim, &scratch->graph, NULL, &scratch->timeline, err);
}

void sc_block_print(struct sc_block *block, struct sc_memo_key *key)
{
	uint64_t print = block->print ? block->print : SC_FNV_START;

	for (size_t i = 0; !block->print && i < block->steps.n; i++) {
		const struct sc_step *step = &block->steps.at[i];
		const double numbers[] = {step->cost.latency_us,
					  step->cost.work_us,
					  step->cost.waves,
					  step->host_us,
					  step->kind,
					  step->hidden,
					  step->cost.holds_sm,
					  step->cost.beside_frac};

		print = sc_fnv_words(print, numbers, sizeof(numbers) / sizeof(numbers[0]));
		print = sc_fnv_words(print, step->cost.demand, SC_N_RES);
	}
	block->print = print;
	sc_memo_put(key, (double)(print >> 32));
	sc_memo_put(key, (double)(uint32_t)print);
}

/* Of a block of which steps run beside others. */
static int overlapping_times(struct sc_block *block, struct sc_build_scratch *scratch,
			     const double **out, struct sc_err *err)
{
	struct sc_memo_key *key = sc_memo_begin(scratch->memo);
	double *times, at_once_us;
	int rc;

	sc_block_print(block, key);
	*out = sc_memo_find(scratch->memo);
	if (*out)
		return 0;
	rc = simulate_at(block, 0, scratch, err);
	at_once_us = scratch->timeline.total_us;
	if (rc == 0)
		rc = simulate_at(block, block->sum.host_us, scratch, err);
	if (rc)
		return rc;
	*out = times = sc_memo_add(scratch->memo, STEP_TIMES + block->steps.n);
	times[END_AT_ONCE] = at_once_us;
	const struct sc_timeline *tl = &scratch->timeline;
	const uint32_t *node = scratch->ids.at + 2 * block->steps.n;

	times[END_BEHIND] = tl->total_us;
	for (size_t i = 0; i < block->steps.n; i++)
		times[STEP_TIMES + i] = block->steps.at[i].kind == SC_STEP_HOST
						? 0
						: tl->end_us[node[i]] - tl->start_us[node[i]];
	return 0;
}

/* The same of any block; steps' times are set. */
static int find_ends(struct sc_block *block, bool overlaps, struct sc_build_scratch *scratch,
		     double ends_us[STEP_TIMES], struct sc_err *err)
{
	const double *times;
	int rc;

	if (!overlaps) {
		ends_us[END_BEHIND] = end_in_turn_us(block, block->sum.host_us);
		ends_us[END_AT_ONCE] = end_in_turn_us(block, 0);
		return 0;
	}
	rc = overlapping_times(block, scratch, &times, err);
	if (rc)
		return rc;
	memcpy(ends_us, times, STEP_TIMES * sizeof(*times));
	for (size_t i = 0; i < block->steps.n; i++)
		block->steps.at[i].us = times[STEP_TIMES + i];
	return 0;
}

int sc_block_summarize(struct sc_block *block, const struct sc_block_env *env,
		       struct sc_build_scratch *scratch, struct sc_err *err)
{
	struct sc_summary *s = &block->sum;
	double ends_us[STEP_TIMES];
	bool overlaps;
	int rc;

	memset(s, 0, sizeof(*s));
	overlaps = find_times(block, s);
	rc = find_ends(block, overlaps, scratch, ends_us, err);
	if (rc)
		return rc;
	s->gpu_us = sc_quantize_us(ends_us[END_BEHIND] - s->host_us);
	s->lead_us = sc_quantize_us(fmin(fmax(ends_us[END_AT_ONCE] - s->gpu_us, 0), s->host_us));
	/* Where the GPU's time goes when it never waits for the host. */
	double sum = 0;

	for (size_t i = 0; i < block->steps.n; i++) {
		const double us = sc_block_exposed_us(block, i);

		for (int o = 0; o < SC_N_OWNERS; o++)
			s->owner_us[o] += us * block->steps.at[i].cost.owner_frac[o];
		if (block->steps.at[i].kind == SC_STEP_COMM)
			s->hidden_us += fmax(0, block->steps.at[i].us - us);
		sum += us;
	}
	for (int o = 0; o < SC_N_OWNERS && sum > 0; o++) /* rounding */
		s->owner_us[o] *= s->gpu_us / sum;
	for (size_t i = 0; i < block->steps.n; i++) {
		const struct sc_step *step = &block->steps.at[i];

		if (step->kind == SC_STEP_KERNEL)
			s->wave_us2 += step->us * step->us / fmax(1, step->cost.waves);
	}
	find_beside(block, env, s);
	s->host_waits = env->host_waits;
	if (s->host_waits)
		s->host_us = s->lead_us + s->gpu_us;
	return 0;
}
