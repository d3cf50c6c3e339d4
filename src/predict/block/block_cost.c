/* The costs of a block's steps: kernels by the op models, collectives by the fabric's and by how
 * the ranks of a node share its NICs, and the host's time to issue them. This file knows nothing of
 * models or schedules. */
#include "predict/block.h"

#include <math.h>
#include <string.h>

#include "predict/op_names.h"
#include "predict/predict.h"

/* A CUDA graph costs the host the launches of so many kernels (NVIDIA, "Constant Time Launch for
 * Straight-Line CUDA Graphs", 2024: 2.5 us and more against 2 us). */
#define LAUNCH_WAYS 2.0
#define GRAPH_LAUNCHES 2.0
/* Kernels that send a token once reach their rate on so many SMs (deepseek-ai/DeepEP, buffer.py:
 * num_sms). */
#define DISPATCH_SMS 20.0
/* The NIC on which they do so: a faster one gives them no more. */
#define DISPATCH_NIC_GBPS 50.0
/* Their share over links of what NCCL's exchange reaches: HybridEP's kernels on 16 SMs of B200 and
 * 8 to 36 GB200 0.82 to 0.92 (same repository, docs/README_Hybrid-EP.md, without the own rank's
 * bytes), DeepEP's on H20 0.85 (issue 16). */
#define DISPATCH_LINK_EFF 0.87

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
				     .progress_us = fmax(0, request->config.cluster.progress_us),
				     .cuda_graphs = request->config.training.cuda_graphs,
				     .attention_eff = 1,
				     .gemm_speed = opts->gemm_speed / level,
				     .hbm_speed = opts->hbm_speed / level,
				     .link_speed = opts->link_speed / level,
				     .nic_speed = opts->nic_speed / level,
				     .host_speed = opts->host_speed / level};
}

void sc_block_copy(const struct sc_block *from, struct sc_block *to)
{
	sc_block_clear(to);
	for (size_t i = 0; i < from->steps.n; i++)
		SC_VEC_PUSH(&to->steps, from->steps.at[i]);
	to->sum = from->sum;
	to->print = from->print;
}

void sc_block_clear(struct sc_block *block)
{
	block->steps.n = 0;
	block->scope = 0;
	block->print = 0;
	memset(&block->sum, 0, sizeof(block->sum));
}

static void scale_unrounded(struct sc_cost *cost, double factor)
{
	cost->latency_us *= factor;
	cost->work_us *= factor;
}

static void scale_cost(struct sc_cost *cost, double factor)
{
	scale_unrounded(cost, factor);
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

/* Lists the step that was added last, if a list is asked for. */
static void list_step(struct sc_block *block, const struct sc_op *op, const struct sc_span *span)
{
	const struct sc_step *step = &block->steps.at[block->steps.n - 1];
	struct sc_block_item item;

	if (!block->list)
		return;
	item = (struct sc_block_item){.op = *op,
				      .alone_us = sc_cost_alone_us(&step->cost),
				      .name = step->name,
				      .axis = step->axis,
				      .hidden = step->hidden};
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

/* Adds a step. Where launches block, the GPU waits for the host before each kernel: for the host's
 * own time, and until it has seen the last kernel end (a launch's way to the GPU, and back). */
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

	/* A grouped GEMM is one call of as many kernels on several streams (Transformer Engine). */
	if (op->kind == SC_OP_GEMM && !op->u.gemm.bmm)
		n_launches = op->u.gemm.batch;
	if ((op->kind == SC_OP_ROWWISE || op->kind == SC_OP_OPTIMIZER) &&
	    op->u.rowwise.n_kernels > 1)
		n_launches = n_calls = op->u.rowwise.n_kernels;
	sc_op_model_get(op->kind)->time(env->device, op, &time);
	/* The kernel runs on the SMs that are left; products bound by memory gain where copies
	 * spare their caches. */
	if (env->kernel_sms > 0) {
		sc_interfere_kernel(env->device, op, env->kernel_sms, 0, &step.cost);
	} else {
		sc_op_time_cost(op, &time, &step.cost);
		sc_interfere_load_kernel(env->device, &step.cost);
	}
	if (op->kind == SC_OP_GEMM && time.memory_us > time.math_us &&
	    any_policy(env, SC_C3_COPY_ENGINE_RELIEF))
		scale_unrounded(&step.cost, 1 / (1 + env->device->interference.relief_gain));
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

/* Folds the other `peers` ranks that exchange over a node's NICs together into a cost. Each of the
 * node's ranks of the stage has an equal part of what they load, which a data-parallel collective
 * finds of them beside it. */
static void fold_nics(const struct sc_block_env *env, double peers, struct sc_cost *cost)
{
	sc_block_share_nics(peers, cost);
	if (env->node_peers > 0)
		cost->demand[SC_RES_NIC] *= peers / env->node_peers;
}

/* Returns the cost of one phase of an exchange. */
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

/* Makes an exchange hold the SMs that are kept for its kernels, which are slower on fewer than they
 * take of themselves, and no faster on more. */
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

/* Returns the cost of an exchange to nodes over the network, and to their ranks over links, in
 * small pieces. Its kernels reach the rate of rings (deepseek-ai/DeepEP, README: 43 to 58 of 50
 * GB/s, tokens of the own node counted). */
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

	links.work_us = sc_quantize_us(links.work_us / DISPATCH_LINK_EFF);
	if (span->n_nodes < 2)
		return links;
	direct.net.a2a_eff = 1;
	direct.ramp.peer_fill_us = 0;
	direct.nic_gbps = fmin(direct.nic_gbps, DISPATCH_NIC_GBPS);
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

/* Returns the cost of `n_pieces` that copy engines move one after another; one of them stays with
 * its rank. */
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
	/* The number kept from kernels is not the number that the library takes. */
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
		struct sc_cost cost = env->beside; /* the cost of data-parallel ones */

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

/* Delays a collective by the threads that move data between nodes: without cores of their own they
 * wait for their turn between launches. Each hop takes one at either end (NCCL's proxies,
 * src/proxy.cc). While stages send to each other each process has such a thread awake: launches
 * that a kernel waits for take as many turns as ranks must have launched. */
static void await_progress(const struct sc_block_env *env, enum sc_collective kind,
			   const struct sc_span *span, struct sc_step *step)
{
	const double hops = (kind == SC_ALL_REDUCE ? 2 : 1) * (span->n_nodes - 1.0);

	step->cost.latency_us += sc_quantize_us(2 * hops * env->progress_us);
	if (env->stages_apart && step->hidden == 0 && step->host_us > 0)
		step->host_us += sc_quantize_us(span->n_ranks * env->progress_us / env->host_speed);
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
	if (shape->kind == SC_SEND_RECV) { /* one of a ring's ranks on a node sends out of it */
		peers = fmin(peers, fmax(1, peers / span.max_ranks_per_node));
		/* Send/recv round a ring goes to a neighbour, on another node if the group leaves
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
	if (!(comm->node_bytes > 0 && span.n_nodes > 1)) /* its phases are folded already */
		fold_nics(env, peers, &step.cost);
	/* Tensor-parallel collectives come several a layer, and each waits for the host that is
	 * last. That is seldom the same one, so all delays count: a rank's own CPU time grows with
	 * the other ranks of its group. Groups of more than eight were not measured, and count as
	 * eight. */
	if (!sc_block_is_replayed(block, env))
		step.host_us =
			sc_quantize_us((env->device->host.launch_us +
					(axis == SC_COMM_TP ? fmin(span.n_ranks, 8) - 1 : 1) *
						env->software->comm_host_us) /
				       env->host_speed);
	if (axis == SC_COMM_TP)
		await_progress(env, shape->kind, &span, &step);
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
