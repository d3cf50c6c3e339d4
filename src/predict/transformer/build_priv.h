/* The interface between the parts of the Transformer graph builder: the state of a class of ranks
 * while its passes are added, and the functions that one build_*.c file has for the others. */
#pragma once

#include "models/offload.h"
#include "predict/op_names.h"
#include "predict/transformer/build_transformer.h"

/* The lanes of one class. Transfers have a lane per peer and direction, as each is its own queue.
 */
struct class_lanes {
	uint32_t host, compute, tp, dp;
	uint32_t p2p[2][2][2];       /* [the peer is on the next stage][gradient][sends] */
	uint32_t from_host, to_host; /* only with training.offload */
};
/* The way on which a chunk's output goes, or its input comes. */
struct route {
	uint32_t peer, peer_chunk; /* a class; SC_NONE: none, or a chunk of the same stage */
	bool remote, is_next;      /* the peer is on the next stage */
};
/* A run of equal blocks in a pass. */
struct run {
	int block; /* enum sc_block_id */
	double n;
	const struct sc_params *params; /* of one block */
	enum sc_op_name name;           /* as a part of the pass */
	bool is_layer;
};
enum { MAX_RUNS = 3 + SC_N_LAYER_KINDS };
/* A pass has [embedding] layers, kind by kind, the usual ones last, [head]; backward the other way
 * round. */
struct pass {
	struct class_state *st;
	const struct sc_slot *slot;
	struct run run[MAX_RUNS];
	int n_runs;
	enum sc_pass_kind kind;
	bool backward, partial;
	bool by_op;          /* full detail, or as builder.by_op */
	struct sc_emit emit; /* by_op */
};
struct builder;
struct class_state {
	struct builder *b;
	uint32_t id;
	struct class_lanes lanes;
	/* By block step of the variant, in full detail: graph cost ids. Of costs alone: NULL. */
	uint32_t *(*costs)[SC_N_BLOCKS], *(*pair_costs)[SC_N_BLOCKS];
	struct route *routes;  /* [chunk][gradient][incoming] */
	uint32_t last_compute; /* last node on the compute lane, or the collective it waits for */
	/* The node that the next pass, or the iteration's end, waits for beside its lane: the
	 * step's start, a synchronous transfer, the tied embeddings; or SC_NONE. */
	uint32_t awaited;
	uint32_t last[SC_N_BESIDE]; /* the last node that runs beside passes, or SC_NONE */
	uint32_t n_dp;              /* dp collectives emitted so far */
	/* slots of a peer that were searched for what it sends: as p2p */
	uint32_t n_received[2][2];
	bool joins; /* some of its groups have several classes */
	/* Counts collectives and joins on groups of several classes, by axis. */
	uint32_t n_joined[SC_N_COMM_AXES];
	double ahead_us, owed_us; /* see build_launch */
	uint32_t host_after;      /* the host waits for it before its next launch; or SC_NONE */
	/* start of the pass before, after which copies may run ahead; or SC_NONE */
	uint32_t began_after;
};
/* The graph costs of a pass's nodes: the host's part before the GPU can start, the same behind what
 * it owed the last time (build_launch), the GPU's part; SC_NONE: no such node. Behind them stand
 * the times of the host before and in all, and of the GPU. */
struct pass_costs {
	uint32_t lead, late, gpu;
	double lead_us, late_us, host_us, gpu_us;
	bool host_waits; /* the host waits until the GPU has done its part */
};
/* The costs of a pass whose weights are sharded: its own, and the data-parallel lane's before it,
 * while it waits for that, or also for its host, beside it and after it. */
struct sharded_costs {
	struct pass_costs pass;
	uint32_t gather, wait, late_wait, beside, after; /* SC_NONE: nothing */
};
/* Groups that several classes join, found by (instance, sequence number on that instance). */
struct group_list {
	SC_VEC(uint32_t) ids;
};
struct builder {
	const struct sc_transformer *tf;
	struct sc_graph *graph;
	struct sc_arena *arena;
	struct sc_built *built;
	struct class_state *cls;
	struct group_list *instance; /* by placement instance id */
	/* Transfers and their receiving members, [gradient][class][chunk][micro-batch] of the
	 * sender. */
	uint32_t *transfer[2], *received[2];
	/* By [class][chunk][pass kind][partial]; gpu == SC_NONE: not yet made. */
	struct pass_costs *pass_costs;
	/* By the same and [gathers][reduces]; NULL: weights are not sharded. */
	struct sharded_costs *sharded_costs;
	struct alone *alone;       /* the pass that this builder runs alone; else NULL */
	struct dp_cost **dp_costs; /* the known ones (build_dp.c) */
	struct sc_build_scratch *scratch;
	/* By index as tf->pairs: the costs of both passes, and the backward pass's part for the
	 * GPU. */
	struct pair_costs {
		struct pass_costs first;
		uint32_t second;
	} * pair_costs;
	uint32_t zero_cost;
	uint32_t (*act_cost)[2][2]; /* [variant][remote][partial] */
	struct sc_sharding_rule sharding;
	struct sc_host_rates host_rates;
	/* Bytes of a layer's activations, where they leave the GPU, [partial][kind]. */
	double layer_kept[2][SC_N_LAYER_KINDS];
	struct copy_cost {
		double us;
		uint32_t cost;
	} last_copy[2]; /* [to the host] */
	bool offloads;  /* something comes and goes with the passes */
	bool sync_p2p, posts_late, full, loops, validates_after;
	/* builds costs of nodes that are kept: no transfers, no edges (build_store.c) */
	bool only_costs;
	bool by_op; /* passes are built by op where reductions run beside them unevenly */
};

static inline bool build_is_partial(const struct builder *b, uint32_t micro_batch)
{
	return b->tf->partial && micro_batch + 1 == b->built->shape.micro_batches;
}
const struct sc_variant *build_variant(const struct class_state *st);
/* The seq-th group on an axis group's instance, made at first use of this cost and op. */
struct group_use {
	uint32_t seq, cost, op;
};
uint32_t build_shared_group(struct builder *b, const struct sc_axis_group *axis,
			    struct group_use use);

/* Returns a slot with the kind and the place of a class's pass, on which its time depends,
 * `partial` apart. */
static inline struct sc_slot build_slot_of(const struct sc_transformer *tf, uint32_t class_id,
					   uint32_t chunk, enum sc_pass_kind kind)
{
	const uint32_t stage = (uint32_t)tf->placement.classes[class_id].stage;

	return (struct sc_slot){.virtual_stage = sc_virtual_stage(&tf->map, stage, chunk),
				.chunk = (uint16_t)chunk,
				.kind = (uint8_t)kind};
}

/* build_chunk.c: adds one pass of a chunk of layers; returns the node whose end is the pass's end.
 */
uint32_t build_chunk(struct class_state *st, const struct sc_slot *slot, uint32_t recv);
/* Goes over passes from the i-th on, of which costs alone are made: returns the first that has any
 * to add, or decides something. */
uint32_t build_go_on(struct class_state *st, const struct sc_slot *slots, uint32_t i, uint32_t n);
/* build_dp.c: says whether passes and the reductions beside them are too uneven for a pass, or part
 * of one, as a node. */
bool build_reduces_unevenly(struct builder *b);
struct pass build_pass_of(struct class_state *st, const struct sc_slot *slot, bool partial);
/* These two make the same pass: the first one without its runs, which are seldom asked for. */
struct pass build_pass_begun(struct class_state *st, const struct sc_slot *slot, bool partial);
void build_pass_runs(struct pass *p);
/* Begins a pass in full detail. */
void build_full_begin(struct pass *p, uint32_t recv);
/* build_pair.c: adds two passes beside each other, `recv` and `node` of each as of build_chunk. */
void build_pair(struct class_state *st, const struct sc_slot *slots, const uint32_t recv[2],
		uint32_t node[2]);
/* Returns the GPU time of a pass whose blocks run alone, us, without the exchanges that a pass
 * beside it may hide; only kind and place of the slot count. */
double build_pass_us(const struct sc_transformer *tf, uint32_t class_id, const struct sc_slot *slot,
		     bool partial);
/* The parts of a pass, for the files that build passes from parts. */
enum sc_op_name build_pass_name(enum sc_pass_kind kind);
struct sc_summary build_host_summary(const struct class_state *st);
struct sc_summary build_pass_summary(const struct pass *p);
struct sc_summary build_run_sum(const struct pass *p, int block, double n);
struct pass_costs build_costs(const struct class_state *st, const struct sc_summary *sum,
			      bool shares);
/* Adds what the host does before a kernel of these costs; returns its launch, or SC_NONE where that
 * cannot be late. */
uint32_t build_launch(struct class_state *st, struct pass_costs *costs, uint32_t op);
void build_begins(const struct class_state *st, uint32_t node, uint32_t launch, uint32_t recv);
uint32_t build_kernel(struct class_state *st, const struct pass_costs *costs, uint32_t op);
uint32_t build_join_groups(struct class_state *st, uint32_t node);
uint32_t build_plain_pass(struct class_state *st, const struct sc_slot *slot, bool partial,
			  uint32_t recv);
void build_begin_parts(struct pass *p, uint32_t recv);
uint32_t build_blocks(struct pass *p, const struct run *run, double n);
void build_wait_for(struct pass *p, uint32_t node);
void build_reduce(struct pass *p, const struct run *run, double n, uint32_t node);
bool build_reduces_later(const struct pass *p, const struct run *run);
/* build_sharded.c: adds a pass whose weights are sharded over the data-parallel ranks. */
uint32_t build_sharded_pass(struct class_state *st, const struct sc_slot *slot, bool partial,
			    uint32_t recv);
/* build_step_end.c: adds what follows the last backward of every class. */
void build_step_end(struct builder *b);
/* build_dp.c, as the rest of these. */
enum sc_dtype build_grad_dtype(const struct builder *b);
/* Return the cost of the data-parallel ranks' collectives for n times `params`; for one time. */
struct sc_cost build_reduce_cost(struct class_state *st, const struct sc_params *params, double n);
struct sc_cost build_gather_cost(struct class_state *st, const struct sc_params *params);
/* Reduces the gradients of n times `params` over the data-parallel ranks after node `after`. */
void build_grad_reduce(struct class_state *st, const struct sc_params *params, double n,
		       uint32_t after);
/* Gathers sharded weights, or after the optimizer what its ranks updated. */
uint32_t build_weight_gather(struct class_state *st, const struct sc_params *params,
			     uint32_t after);
void build_compute_after(struct class_state *st, uint32_t dep);

/* build_store.c: graphs that are kept. */
struct kept_graph;
/* Ask, once the builder's lanes are made, whether its graph is kept, and for one whose nodes it
 * would make if it takes the same decisions; NULL: none is known. */
bool build_is_kept(const struct builder *b);
const struct kept_graph *build_find_kept(struct builder *b);
/* Makes the builder's graph, of which costs are kept, the one among these that has its nodes;
 * false: none has. */
bool build_take_kept(struct builder *b, const struct kept_graph *like);
const struct sc_passes *build_kept_passes(const struct kept_graph *kept);
/* Makes room for a graph that is about to be built, and is kept. */
void build_keep_begin(struct builder *b);
void build_keep(struct builder *b);

/* The graph of a pass that ran alone, sealed. Neighbours of a sweep have passes of the same nodes:
 * these make their costs alone. */
struct alone_graph {
	struct sc_graph graph;
	uint64_t print;         /* of all that its nodes and edges follow from */
	SC_VEC(uint32_t) nodes; /* the first and the last of each block on the GPU */
	uint32_t arrives;       /* the host's node, where it is late */
};
/* Finds it by its print, or else an empty one, without nodes, to be built. Of long ones the last
 * is kept. */
struct alone_graph *build_find_alone(struct sc_graph_store *store, uint64_t print, bool is_long);

/* The copies of a pass between its GPU and its host (build_copies.c). */
struct pass_copies {
	uint32_t from_host, to_host, began_after;
};
struct pass_copies build_pass_begin(struct class_state *st, const struct sc_slot *slot,
				    bool partial);
uint32_t build_pass_end(struct class_state *st, const struct pass_copies *copies, uint32_t node);
