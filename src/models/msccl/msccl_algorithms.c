/* Common algorithms, as MSCCLang would write them: thread blocks and steps of one GPU. */
#include "models/msccl/msccl_algorithms.h"

static void add_tb(struct sc_msccl_builder *b, int send, int recv, int channel)
{
	SC_VEC_PUSH(&b->tbs,
		    ((struct sc_msccl_tb){
			    .send = send, .recv = recv, .channel = channel, .first = b->steps.n}));
}

struct place {
	enum sc_msccl_buffer buffer;
	int off;
};

static struct sc_msccl_step *add_step(struct sc_msccl_builder *b, enum sc_msccl_op op,
				      struct place src, struct place dst, int count)
{
	SC_VEC_PUSH(&b->steps, ((struct sc_msccl_step){.op = (unsigned char)op,
						       .src = (unsigned char)src.buffer,
						       .dst = (unsigned char)dst.buffer,
						       .src_off = src.off,
						       .dst_off = dst.off,
						       .count = count,
						       .dep_tb = -1,
						       .dep_step = -1}));
	b->tbs.at[b->tbs.n - 1].n++;
	return &b->steps.at[b->steps.n - 1];
}

/* The next step waits for one of this GPU; steps are numbered as added (see fold_waits). */
static void wait_for(struct sc_msccl_builder *b, int tb, int step)
{
	struct sc_msccl_step *nop = add_step(b, SC_MSCCL_NOP, (struct place){SC_MSCCL_INPUT, -1},
					     (struct place){SC_MSCCL_INPUT, -1}, 0);

	nop->dep_tb = tb;
	nop->dep_step = step;
}

static int around(const struct sc_msccl_builder *b, int rank)
{
	return (rank % b->n + b->n) % b->n;
}

static void move(struct sc_msccl_builder *b, enum sc_msccl_op op, struct place at, int count)
{
	add_step(b, op, at, at, count);
}

static void step_in(struct sc_msccl_builder *b, enum sc_msccl_op op, enum sc_msccl_buffer buffer,
		    int off)
{
	move(b, op, (struct place){buffer, off}, 1);
}

/* ---- rings: a thread block for each channel and instance ---- */

void sc_msccl_ring_all_gather(struct sc_msccl_builder *b)
{
	const struct sc_msccl_recipe *r = b->recipe;
	bool fused = r->kind == SC_MSCCL_RING_ALL_GATHER_FUSED;

	for (int lane = 0; lane < r->channels * r->instances; lane++) {
		int channel = lane / r->instances, part = lane % r->instances;

		add_tb(b, around(b, b->gpu + 1), around(b, b->gpu - 1), lane);
		for (int s = 0; s < b->n; s++) {
			int rank = around(b, b->gpu - s);
			enum sc_msccl_op op =
				s == b->n - 1 ? SC_MSCCL_RECV : SC_MSCCL_RECV_COPY_SEND;

			if (rank % r->channels != channel)
				continue;
			if (s > 0 && (fused || op == SC_MSCCL_RECV))
				step_in(b, op, SC_MSCCL_OUTPUT, rank * r->instances + part);
			else if (s > 0)
				step_in(b, SC_MSCCL_RECV, SC_MSCCL_OUTPUT,
					rank * r->instances + part);
			if (s == 0 || (!fused && s < b->n - 1))
				step_in(b, SC_MSCCL_SEND, SC_MSCCL_OUTPUT,
					rank * r->instances + part);
		}
	}
}

/* The op of step s of an all-reduce among n, which has 2n - 1. */
static enum sc_msccl_op ring_op(int s, int n)
{
	return s == 0          ? SC_MSCCL_SEND
	       : s < n - 1     ? SC_MSCCL_RECV_REDUCE_SEND
	       : s == n - 1    ? SC_MSCCL_RECV_REDUCE_COPY_SEND
	       : s < 2 * n - 2 ? SC_MSCCL_RECV_COPY_SEND
			       : SC_MSCCL_RECV;
}

void sc_msccl_ring_all_reduce(struct sc_msccl_builder *b)
{
	const struct sc_msccl_recipe *r = b->recipe;
	int lanes = r->channels * r->instances, n = b->n;

	for (int lane = 0; lane < lanes; lane++) {
		add_tb(b, around(b, b->gpu + 1), around(b, b->gpu - 1), lane);
		for (int s = 0; s < 2 * n - 1; s++)
			step_in(b, ring_op(s, n), SC_MSCCL_INPUT,
				around(b, b->gpu - s) * lanes + lane);
	}
}

/* ---- all pairs: a thread block for each peer and instance ---- */

void sc_msccl_pairs(struct sc_msccl_builder *b)
{
	const struct sc_msccl_recipe *r = b->recipe;
	bool gathers = r->kind == SC_MSCCL_PAIRS_ALL_GATHER;

	for (int p = 0; p < b->n; p++) {
		for (int i = 0; i < r->instances; i++) {
			int own = b->gpu * r->instances + i, other = p * r->instances + i;
			struct place from = gathers ? (struct place){SC_MSCCL_OUTPUT, own}
						    : (struct place){SC_MSCCL_INPUT, other};
			struct place to = {SC_MSCCL_OUTPUT, own};

			if (p == b->gpu && gathers)
				continue;
			add_tb(b, p == b->gpu ? -1 : p, p == b->gpu ? -1 : p, i);
			add_step(b, p == b->gpu ? SC_MSCCL_COPY : SC_MSCCL_SEND, from, to, 1);
			if (p != b->gpu)
				step_in(b, SC_MSCCL_RECV, SC_MSCCL_OUTPUT, other);
		}
	}
}

/* Blocks of an instance: 0 adds the first part of the own segment. The t-th peer has one that
 * sends, receives and adds part t, as the published files have it; where a connection has no room
 * for a whole segment a pair would wait on both sides, and then a block of its own sends. */
struct pairs {
	int first_tb, base, scratch; /* of the instance: its block 0, its chunks */
	int each, received; /* blocks of a peer; the step of the last one that has received */
};

static struct pairs pairs_of(const struct sc_msccl_builder *b, int instance)
{
	const int n = b->n, one = n <= sc_msccl_slots(b->recipe->proto), each = one ? 1 : 2;

	return (struct pairs){.first_tb = instance * (1 + each * (n - 1)),
			      .base = instance * n * n,
			      .scratch = instance * (n - 1) * n,
			      .each = each,
			      .received = one};
}

static void add_parts(struct sc_msccl_builder *b, const struct pairs *at, int t)
{
	const int n = b->n;

	for (int other = 1; other < n; other++)
		if (other != t)
			wait_for(b, at->first_tb + at->each * other, at->received);
	for (int other = 0; other < n - 1; other++)
		add_step(b, SC_MSCCL_REDUCE,
			 (struct place){SC_MSCCL_SCRATCH, at->scratch + other * n + t},
			 (struct place){SC_MSCCL_INPUT, at->base + b->gpu * n + t}, 1);
}

/* The own segment goes out when all parts are added: by the last step of every block's sums. */
static void send_sum(struct sc_msccl_builder *b, const struct pairs *at, int t)
{
	const int n = b->n;

	for (int other = 0; other < n; other++)
		if (at->each > 1 || other != t)
			wait_for(b, at->first_tb + at->each * other,
				 2 * n - 3 + (other > 0 ? at->received : 0));
	move(b, SC_MSCCL_SEND, (struct place){SC_MSCCL_INPUT, at->base + b->gpu * n}, n);
}

void sc_msccl_pairs_all_reduce(struct sc_msccl_builder *b)
{
	const int n = b->n;

	for (int i = 0; i < b->recipe->instances; i++) {
		const struct pairs at = pairs_of(b, i);

		add_tb(b, -1, -1, i);
		add_parts(b, &at, 0);
		for (int t = 1; t < n; t++) {
			const int peer = t - 1 < b->gpu ? t - 1 : t;
			const struct place other = {SC_MSCCL_INPUT, at.base + peer * n};

			add_tb(b, peer, at.each > 1 ? -1 : peer, i);
			move(b, SC_MSCCL_SEND, other, n);
			if (at.each > 1) {
				send_sum(b, &at, t);
				add_tb(b, -1, peer, i);
			}
			add_step(b, SC_MSCCL_RECV, (struct place){SC_MSCCL_INPUT, at.base},
				 (struct place){SC_MSCCL_SCRATCH, at.scratch + (t - 1) * n}, n);
			add_parts(b, &at, t);
			if (at.each == 1)
				send_sum(b, &at, t);
			move(b, SC_MSCCL_RECV, other, n);
		}
	}
}

/* Adds as many steps as a run of chunks takes. */
static void move_run(struct sc_msccl_builder *b, enum sc_msccl_op op, int first, int count)
{
	for (int at = 0; at < count; at += SC_MSCCL_MAX_COUNT)
		move(b, op, (struct place){SC_MSCCL_INPUT, first + at},
		     count - at < SC_MSCCL_MAX_COUNT ? count - at : SC_MSCCL_MAX_COUNT);
}

/* ---- two steps: first to the peer of the node that stands where the goal does, then over the
 * network ---- */

static void exchange_in_node(struct sc_msccl_builder *b, int node, int local, int other)
{
	int per_node = b->recipe->gpus_per_node, nodes = b->n / per_node;
	int peer = other == local ? -1 : node * per_node + other;

	for (int side = other == local; side < 2; side++) {
		enum sc_msccl_op op = other == local ? SC_MSCCL_COPY
				      : side         ? SC_MSCCL_RECV
						     : SC_MSCCL_SEND;

		add_tb(b, side ? -1 : peer, side ? peer : -1, 0);
		for (int goal = 0; goal < nodes; goal++) {
			struct place from = {SC_MSCCL_INPUT, goal * per_node + other};
			struct place to = {goal == node ? SC_MSCCL_OUTPUT : SC_MSCCL_SCRATCH,
					   goal * per_node + other};

			add_step(b, op, from, to, 1);
		}
	}
}

void sc_msccl_two_step_all_to_all(struct sc_msccl_builder *b)
{
	int per_node = b->recipe->gpus_per_node, nodes = b->n / per_node;
	int node = b->gpu / per_node, local = b->gpu % per_node;

	for (int other = 0; other < per_node; other++)
		exchange_in_node(b, node, local, other);
	for (int goal = 0; goal < nodes; goal++) {
		int peer = goal * per_node + local;

		if (goal == node)
			continue;
		add_tb(b, peer, -1, 0);
		/* Thread block of what local rank `other` gives: of two, but for itself of one. */
		for (int other = 0; other < per_node; other++)
			wait_for(b, other < local ? 2 * other + 1 : 2 * other, goal);
		add_step(b, SC_MSCCL_SEND, (struct place){SC_MSCCL_SCRATCH, goal * per_node},
			 (struct place){SC_MSCCL_OUTPUT, node * per_node}, per_node);
		add_tb(b, -1, peer, 0);
		add_step(b, SC_MSCCL_RECV, (struct place){SC_MSCCL_OUTPUT, goal * per_node},
			 (struct place){SC_MSCCL_OUTPUT, goal * per_node}, per_node);
	}
}

/* ---- to the next rank: in the node straight, from the node's last GPU in parts over all of the
 * node's NICs ---- */

/* Chunks of an instance in a buffer begin where those of the ones before end. */
static struct place chunk_of(const struct sc_msccl_builder *b, enum sc_msccl_buffer buffer,
			     int instance, int i)
{
	int n = buffer == SC_MSCCL_SCRATCH ? 2 : b->recipe->gpus_per_node;

	return (struct place){buffer, instance * n + i};
}

/* Part i of the last GPU's data goes through the i-th GPU of its node to the i-th of the next. */
static void leave_node(struct sc_msccl_builder *b, int node, int instance)
{
	int per_node = b->recipe->gpus_per_node,
	    channel = instance * SC_MSCCL_NEXT_CHANNELS + 1 + node % 2;
	int last = (node + 1) * per_node - 1, over = b->gpu + per_node;

	if (b->gpu != last) {
		add_tb(b, over, last, channel);
		move(b, SC_MSCCL_RECV_COPY_SEND, chunk_of(b, SC_MSCCL_SCRATCH, instance, 0), 1);
		return;
	}
	for (int i = 0; i < per_node; i++) {
		add_tb(b, i == per_node - 1 ? over : node * per_node + i, -1, channel);
		move(b, SC_MSCCL_SEND, chunk_of(b, SC_MSCCL_INPUT, instance, i), 1);
	}
}

/* And from there to the first. */
static void enter_node(struct sc_msccl_builder *b, int node, int instance)
{
	int per_node = b->recipe->gpus_per_node;
	int channel = instance * SC_MSCCL_NEXT_CHANNELS + 1 + (node - 1) % 2;
	int first = node * per_node, over = b->gpu - per_node;

	if (b->gpu != first) {
		add_tb(b, first, over, channel);
		move(b, SC_MSCCL_RECV_COPY_SEND, chunk_of(b, SC_MSCCL_SCRATCH, instance, 1), 1);
		return;
	}
	for (int i = 0; i < per_node; i++) {
		add_tb(b, -1, i == 0 ? over : first + i, channel);
		move(b, SC_MSCCL_RECV, chunk_of(b, SC_MSCCL_OUTPUT, instance, i), 1);
	}
}

void sc_msccl_all_to_next(struct sc_msccl_builder *b)
{
	int per_node = b->recipe->gpus_per_node;
	int node = b->gpu / per_node, local = b->gpu % per_node;

	for (int i = 0; i < b->recipe->instances; i++) {
		if (local > 0) {
			add_tb(b, -1, b->gpu - 1, i * SC_MSCCL_NEXT_CHANNELS);
			move(b, SC_MSCCL_RECV, chunk_of(b, SC_MSCCL_OUTPUT, i, 0), per_node);
		}
		if (local < per_node - 1) {
			add_tb(b, b->gpu + 1, -1, i * SC_MSCCL_NEXT_CHANNELS);
			move(b, SC_MSCCL_SEND, chunk_of(b, SC_MSCCL_INPUT, i, 0), per_node);
		}
		if (node < b->n / per_node - 1)
			leave_node(b, node, i);
		if (node > 0)
			enter_node(b, node, i);
	}
}

/* ---- chains in nodes and rings between them ---- Of an instance a thread block for each part,
 * which there are as many of as ranks in a node, and one for the ring. A part has a chunk for each
 * node. */
int sc_msccl_blocks_of(const struct sc_msccl_recipe *r)
{
	return r->gpus_per_node + (r->n_gpus > r->gpus_per_node);
}

static int part_at(const struct sc_msccl_builder *b, int instance, int part)
{
	int per_node = b->recipe->gpus_per_node;

	return instance * b->n + (part % per_node + per_node) % per_node * (b->n / per_node);
}

/* A part is added up along the chain from its first rank to the one before that; when the nodes
 * have added theirs it goes the same way again from there. */
static void chain_in_node(struct sc_msccl_builder *b, int instance, int part)
{
	int per_node = b->recipe->gpus_per_node, nodes = b->n / per_node;
	int first = b->gpu / per_node * per_node, local = b->gpu % per_node;
	int s = (local - part + per_node) % per_node,
	    blocks = instance * sc_msccl_blocks_of(b->recipe);

	add_tb(b, first + (local + 1) % per_node, first + (local + per_node - 1) % per_node,
	       blocks + part);
	move_run(b,
		 s == 0             ? SC_MSCCL_SEND
		 : s < per_node - 1 ? SC_MSCCL_RECV_REDUCE_SEND
				    : SC_MSCCL_RECV_REDUCE_COPY,
		 part_at(b, instance, part), nodes);
	if (s == per_node - 1 && nodes > 1)
		wait_for(b, blocks + per_node, 2 * nodes - 1);
	move_run(b,
		 s == per_node - 1   ? SC_MSCCL_SEND
		 : s == per_node - 2 ? SC_MSCCL_RECV
				     : SC_MSCCL_RECV_COPY_SEND,
		 part_at(b, instance, part), nodes);
}

static void ring_of_nodes(struct sc_msccl_builder *b, int instance)
{
	int per_node = b->recipe->gpus_per_node, nodes = b->n / per_node;
	int node = b->gpu / per_node, part = (b->gpu + 1) % per_node;
	int blocks = instance * sc_msccl_blocks_of(b->recipe);

	add_tb(b, around(b, b->gpu + per_node), around(b, b->gpu - per_node), blocks + per_node);
	wait_for(b, blocks + part, (nodes - 1) / SC_MSCCL_MAX_COUNT); /* its run's last */
	for (int s = 0; s < 2 * nodes - 1; s++)
		step_in(b, ring_op(s, nodes), SC_MSCCL_INPUT,
			part_at(b, instance, part) + ((node - s) % nodes + nodes) % nodes);
}

void sc_msccl_hierarchical_all_reduce(struct sc_msccl_builder *b)
{
	for (int i = 0; i < b->recipe->instances; i++) {
		for (int part = 0; part < b->recipe->gpus_per_node; part++)
			chain_in_node(b, i, part);
		if (b->n > b->recipe->gpus_per_node)
			ring_of_nodes(b, i);
	}
}

/* ---- trees: a chain in each node, as NCCL's; the heads of chains in a binary tree. Each instance
 * has other heads, and every second one the nodes in reverse, so that those in the middle of one
 * tree are at the ends of another. ---- */

enum { MOST_CHILDREN = 3 };
static int tree_rank(const struct sc_msccl_builder *b, int instance, int node, int place)
{
	int per_node = b->recipe->gpus_per_node, nodes = b->n / per_node;

	return (instance % 2 ? nodes - 1 - node : node) * per_node + (place + instance) % per_node;
}

/* A block for each child that adds what comes, the last of them sends it on; one for each that
 * sends the sum down. */
static void tree_of(struct sc_msccl_builder *b, int instance)
{
	int per_node = b->recipe->gpus_per_node, nodes = b->n / per_node;
	int node = instance % 2 ? nodes - 1 - b->gpu / per_node : b->gpu / per_node;
	int place = (b->gpu % per_node + per_node - instance % per_node) % per_node;
	int child[MOST_CHILDREN], n = 0, blocks = (int)(b->tbs.n - b->first_tb);
	int parent = place > 0  ? tree_rank(b, instance, node, place - 1)
		     : node > 0 ? tree_rank(b, instance, (node - 1) / 2, 0)
				: -1;

	if (place + 1 < per_node)
		child[n++] = tree_rank(b, instance, node, place + 1);
	for (int c = 2 * node + 1; c <= 2 * node + 2 && place == 0; c++)
		if (c < nodes)
			child[n++] = tree_rank(b, instance, c, 0);
	if (n == 0) {
		add_tb(b, parent, parent, instance);
		step_in(b, SC_MSCCL_SEND, SC_MSCCL_INPUT, instance);
		step_in(b, SC_MSCCL_RECV, SC_MSCCL_INPUT, instance);
	}
	for (int k = 0; k < n; k++) {
		bool goes_up = k == n - 1 && parent >= 0;

		add_tb(b, goes_up ? parent : -1, child[k], instance);
		if (k > 0)
			wait_for(b, blocks + k - 1, k > 1);
		step_in(b, goes_up ? SC_MSCCL_RECV_REDUCE_SEND : SC_MSCCL_RECV_REDUCE_COPY,
			SC_MSCCL_INPUT, instance);
	}
	for (int k = 0; k < n; k++) {
		bool comes = k == 0 && parent >= 0;

		add_tb(b, child[k], comes ? parent : -1, instance);
		if (!comes)
			wait_for(b, blocks + (parent < 0 ? n - 1 : n), parent < 0 && n > 1);
		step_in(b, comes ? SC_MSCCL_RECV_COPY_SEND : SC_MSCCL_SEND, SC_MSCCL_INPUT,
			instance);
	}
}

void sc_msccl_tree_all_reduce(struct sc_msccl_builder *b)
{
	for (int i = 0; i < b->recipe->instances; i++)
		tree_of(b, i);
}
