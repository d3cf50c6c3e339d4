/* A block is a run of steps that one rank does in order: the ops of a layer's forward, of its
 * backward, of the embedding, of the head. It is described once, then either put into a graph op by
 * op (full detail), or simulated alone and summarised (coarse).
 *
 * The summary is exact for in-order host and compute lanes without contention, where a block maps
 * the times (h, g) at which host and compute lane are free to
 *     h' = h + host_us,   g' = max(g, h + lead_us) + gpu_us
 * and such maps compose (a max-plus linear system; Baccelli et al., Synchronization and Linearity).
 */
#pragma once

#include "base/arena.h"
#include "base/memo.h"
#include "base/vec.h"
#include "core/graph/cost.h"
#include "core/graph/graph.h"
#include "models/interference.h"
#include "models/op_model.h"
#include "predict/engine/simulate.h"

enum sc_step_kind { SC_STEP_KERNEL, SC_STEP_COMM, SC_STEP_HOST };
/* Groups that a block's collectives run over. */
enum sc_comm_axis { SC_COMM_TP, SC_COMM_CP, SC_COMM_EP, SC_N_COMM_AXES };

struct sc_step {
	struct sc_cost cost; /* isolated; zero for a host step */
	double host_us;      /* CPU time to issue it */
	double us;           /* on the GPU, slowed by the steps that run beside it */
	double flop;
	uint16_t name; /* enum sc_op_name, predict/op_names.h */
	uint8_t kind;
	uint8_t model;  /* KERNEL: enum sc_op_kind */
	uint8_t axis;   /* COMM: enum sc_comm_axis */
	uint8_t hidden; /* COMM: the number of next kernels that need not wait for it */
	bool in_turn;   /* COMM: nothing runs beside it */
};
struct sc_summary {
	double host_us, gpu_us, lead_us;
	bool host_waits; /* the host waits at the end: h' = g', host_us = lead_us + gpu_us */
	double owner_us[SC_N_OWNERS]; /* sums to gpu_us */
	double hidden_us;             /* communication that kernels hide */
	/* The GPU time with a data-parallel collective beside all of it, and with one that only
	 * holds its SMs. */
	double beside_us, beside_sm_us;
	double load_us[SC_N_RES]; /* work times demand, by resource */
	/* Kernel time squared over its waves: divided by kernel time, the mean wave that one meets.
	 */
	double wave_us2;
	double flop;
};
/* An op of a block, with its shape: for studies of single ops. */
struct sc_block_item {
	struct sc_op op;     /* a collective has kind SC_OP_COLLECTIVE */
	struct sc_span span; /* the span of a collective */
	double alone_us;
	uint16_t name;
	uint8_t axis, hidden;
};
struct sc_block_list {
	SC_VEC(struct sc_block_item) items;
};
struct sc_block {
	SC_VEC(struct sc_step) steps;
	struct sc_summary sum;
	struct sc_block_list *list; /* filled beside the steps; NULL: no list is asked for */
	int scope;                  /* SC_GRAPH_ flag of the steps that are added next; 0 = none */
	uint64_t print;             /* the result of sc_block_print; 0: not yet made */
};
/* The surroundings that every op of a block needs to be costed. */
struct sc_block_env {
	const struct sc_device *device;
	const struct sc_request *request;
	const struct sc_software *software; /* the request's */
	const struct sc_fabric *fabric;
	/* The fabric of each axis whose groups have one kind of GPU only; NULL = `fabric`. */
	const struct sc_fabric *axis_fabric[SC_N_COMM_AXES];
	struct sc_span span[SC_N_COMM_AXES];
	/* Ranks of a node, the own one included, that use its NICs for the same thing at the same
	 * time: for transfers between stages, and for the groups of each axis (0 where they stay in
	 * the node). */
	double node_peers, axis_node_peers[SC_N_COMM_AXES];
	double slowdown;
	double progress_us;    /* cluster.progress_us */
	bool stages_apart;     /* stages lie on several nodes */
	int cuda_graphs;       /* 0; 1: a block is one launch; else flags of such scopes */
	struct sc_cost beside; /* a data-parallel collective that runs beside the block */
	double kernel_sms;     /* SMs that c3.policy leaves to kernels; 0 = all */
	bool host_waits;       /* the host waits after each block, which ends on the GPU */
	bool launch_blocking;  /* as host_waits, after each kernel; all policies are serial */
	double attention_eff;  /* the software's kernels on this device */
	double gemm_speed, hbm_speed, link_speed, nic_speed, host_speed; /* what-if factors */
};

struct sc_predict_opts;
/* Returns the environment of the request's GPU, alone and at its own speed but for the what-if
 * speeds. */
struct sc_block_env sc_block_env_of(const struct sc_request *request,
				    const struct sc_fabric *fabric,
				    const struct sc_predict_opts *opts);
void sc_block_clear(struct sc_block *block);
/* Copies the steps and the summary of a block to which nobody adds any more. */
void sc_block_copy(const struct sc_block *from, struct sc_block *to);

static inline void sc_block_release(struct sc_block *block)
{
	SC_VEC_RELEASE(&block->steps);
}

void sc_block_add_op(struct sc_block *block, const struct sc_block_env *env, uint16_t name,
		     const struct sc_op *op);
/* Scales the steps from `first` on by a share, or by a number of times: a block may stand for
 * layers of which not all have them. */
void sc_block_share(struct sc_block *block, size_t first, double share);
/* A product in pieces: `n` kernels, or a share of one, as one step; `gap_us` are lost before each,
 * which takes `stretch` times as long as it would alone. */
struct sc_block_pieces {
	uint16_t name;
	const struct sc_op *op; /* one piece */
	double n, gap_us, stretch;
};
void sc_block_add_pieces(struct sc_block *block, const struct sc_block_env *env,
			 const struct sc_block_pieces *pieces);
/* A collective over the group of an axis, for which none of the next `n_hidden` kernels waits.
 * Send/recv passes `bytes` round the group's ring, one step. */
struct sc_block_comm {
	uint16_t name;
	enum sc_comm_axis axis;
	struct sc_collective_shape shape;
	int n_hidden;
	/* Bytes that a rank sends to nodes, its own included, in an all-to-all whose kernels send a
	 * message once to a node and pass it on there; `shape` then says what goes to ranks. 0 = an
	 * ordinary one. */
	double node_bytes;
	/* Pieces in which copy engines move it within a node; one of them stays with its rank. 1 =
	 * as a whole; 0 = as c3.policy says. */
	double n_pieces;
	double most_sms; /* a limit on its SMs; 0 = none */
};
void sc_block_add_comm(struct sc_block *block, const struct sc_block_env *env,
		       const struct sc_block_comm *comm);
/* Adds an optimizer's update of so many parameters, in one kernel. */
void sc_block_add_optimizer(struct sc_block *block, const struct sc_block_env *env, double params);
/* Adds time on the GPU's lane in which it waits for the host. */
void sc_block_add_wait(struct sc_block *block, uint16_t name, double us);
/* Says whether the launches of what is added next are replayed. */
bool sc_block_is_replayed(const struct sc_block *block, const struct sc_block_env *env);
/* Adds the kernel that sums what a collective's pieces have brought, if one is needed. */
void sc_block_add_sum(struct sc_block *block, const struct sc_block_env *env,
		      const struct sc_block_comm *comm);
void sc_block_add_host(struct sc_block *block, const struct sc_block_env *env, uint16_t name,
		       double host_us);
/* Returns a transfer under the request's software, without what-if speeds. */
struct sc_transfer sc_block_transfer(const struct sc_block_env *env,
				     const struct sc_collective_shape *shape,
				     const struct sc_span *span);
/* Returns a collective's cost with the what-if speeds applied, demands kept. */
void sc_block_comm_cost(const struct sc_block_env *env, const struct sc_collective_shape *shape,
			const struct sc_span *span, struct sc_cost *out);
/* Returns the cost under a family's policy: on copy engines if it adds nothing; else on the SMs
 * kept, or the fewest. */
void sc_block_comm_by(const struct sc_block_env *env, enum sc_c3_family family,
		      const struct sc_collective_shape *shape, const struct sc_span *span,
		      struct sc_cost *out);
#define SC_LARGE_BYTES 6.4e7 /* a collective of this size takes all channels that it likes */
/* Sets the SMs that c3.policy leaves to kernels: all but those of the family that needs most, in
 * granules. */
void sc_block_reserve(struct sc_block_env *env);
/* Returns a collective's cost, without demands, with the load of the node's `peers` ranks folded
 * into its time. */
struct sc_cost sc_block_comm_alone(const struct sc_block_env *env,
				   const struct sc_collective_shape *shape,
				   const struct sc_span *span, double peers);
/* Stretches a cost where `peers` ranks of a node overload its NICs together; its demands fall in
 * the same measure. */
void sc_block_share_nics(double peers, struct sc_cost *cost);

/* Returns the GPU time of a summarised step that nothing hides: a collective's is its time beyond
 * the kernels that it runs beside. */
double sc_block_exposed_us(const struct sc_block *block, size_t step);

/* Returns how unevenly the steps and env->beside slow each other: the sum of both standard
 * deviations (1 = alone). */
double sc_block_uneven(const struct sc_block *block, const struct sc_block_env *env);

struct sc_block_lanes {
	uint32_t host, compute, comm;
};
/* Returns the group that a collective of a class joins when it is emitted. `ctx` belongs to the
 * caller. */
typedef uint32_t (*sc_comm_group_fn)(void *ctx, const struct sc_step *step, uint32_t graph_cost);
struct sc_emit {
	struct sc_graph *graph;
	struct sc_block_lanes lanes;
	sc_comm_group_fn comm_group;
	void *ctx;
	uint32_t zero_cost;
	/* node that the first kernel waits for, or SC_NONE; then the last kernel */
	uint32_t compute_dep;
	/* Work from outside the block may run beside it. Otherwise steps that nothing of the block
	 * runs beside are emitted without demands, which nobody would ask for. */
	bool shared;
	bool host_waits; /* the host waits until the block is done */
	bool early;      /* the host has done its part long before: its nodes are left out */
	uint32_t *node;  /* if not NULL: receives each step's node, n steps entries */
	/* a collective that the next `kernels_left` kernels do not wait for, or SC_NONE */
	uint32_t in_flight;
	int kernels_left;
};
/* Appends the block's steps op by op. `costs` caches the graph's cost ids, SC_NONE where not yet
 * added: two per step, op and host. */
void sc_block_emit(const struct sc_block *block, struct sc_emit *emit, uint32_t *costs);
/* Returns such a cache, empty. */
uint32_t *sc_block_no_costs(const struct sc_block *block, struct sc_arena *arena);
/* Fills it with the costs of a block whose kernels may meet others. */
void sc_block_add_costs(const struct sc_block *block, const struct sc_emit *emit, uint32_t *costs);
/* Adds the cost of work that the host does itself. */
static inline uint32_t sc_block_host_cost(struct sc_graph *graph, const struct sc_block_env *env,
					  double us)
{
	const struct sc_cost cost = {.work_us = sc_quantize_us(us / env->host_speed),
				     .owner_frac[SC_OWN_HOST] = 1};

	return sc_graph_add_cost(graph, &cost);
}
/* Appends one step: in_flight is SC_NONE before the first, and sc_block_emit_end lets the compute
 * lane wait for what is left in flight. */
void sc_block_emit_step(const struct sc_block *block, size_t step, struct sc_emit *emit,
			uint32_t *costs);
void sc_block_emit_end(struct sc_emit *emit);
/* Scratch that outlives one prediction, so that a warm predictor does not call malloc. */
struct sc_build_scratch {
	struct sc_arena *arena;
	struct sc_simulator *sim;
	struct sc_graph graph; /* for blocks simulated alone */
	struct sc_timeline timeline;
	SC_VEC(uint32_t) ids;
	struct sc_row_memo *rows; /* embedding tables */
	/* what a rank of a DLRM looks up, by its shards and the number of what else it depends on
	 */
	struct sc_lookups_known {
		struct sc_memo *contexts, *lookups;
		double n_contexts;
	} known;
	struct sc_memo *memo;     /* the blocks that were simulated alone */
	struct sc_memo *variants; /* the sums of their blocks */
};
void sc_build_scratch_init(struct sc_build_scratch *scratch, struct sc_arena *arena);
void sc_build_scratch_release(struct sc_build_scratch *scratch);
/* An sc_comm_group_fn for one GPU alone; `ctx` is the graph. */
uint32_t sc_block_alone_group(void *ctx, const struct sc_step *step, uint32_t graph_cost);
/* Begins scratch->graph for one GPU, whose compute lane is busy until `gpu_free_us`. */
void sc_block_alone_begin(struct sc_build_scratch *scratch, double gpu_free_us,
			  struct sc_emit *out);
/* Fills block->sum and its steps' `us` by simulating the block alone. */
int sc_block_summarize(struct sc_block *block, const struct sc_block_env *env,
		       struct sc_build_scratch *scratch, struct sc_err *err);

/* Returns a print of the steps' costs: blocks that differ have different prints. */
uint64_t sc_block_print(struct sc_block *block);

/* Compose summaries: a then b, and n times a. */
struct sc_summary sc_summary_then(const struct sc_summary *a, const struct sc_summary *b);
struct sc_summary sc_summary_repeat(const struct sc_summary *a, double n);
