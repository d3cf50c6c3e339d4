/* The execution graph of one training iteration of a Transformer: pipeline schedule, transfers
 * between stages, gradient reduction, optimizer. The same builder makes the coarse graph (a chunk
 * of layers is one to three nodes) and the full one (every op); only how a chunk is emitted
 * differs. */
#pragma once

#include "base/arena.h"
#include "core/config/config.h"
#include "predict/block.h"
#include "predict/predict.h"
#include "predict/schedule/schedule.h"
#include "predict/schedule/schedule_file.h"
#include "predict/transformer/parallel.h"
#include "predict/transformer/transformer_memory.h"
#include "predict/transformer/transformer_ops.h"
#include "predict/workload.h"

/* The blocks of ranks that cost the same: same tensor-parallel span, node load, speed. */
struct sc_variant {
	struct sc_block_env env;
	struct sc_block block[2][SC_N_BLOCKS]; /* [1]: for the last, partial micro-batch */
	double uneven[SC_N_LAYER_KINDS];       /* sc_block_uneven of backward passes */
	bool has_steps;                        /* else the blocks are remembered sums */
};

/* The groups of the placement that a block's collectives run over. */
extern const enum sc_axis sc_comm_axis_of[SC_N_COMM_AXES];

/* The ranks that hold the same parameters: all of them; those that one copy is sharded over; and
 * over the copies, those with the same shard. */
struct sc_replica_spans {
	struct sc_span all, shard, copies;
};
struct sc_replicas {
	struct sc_replica_spans dense, expert; /* for parameters but the experts'; for theirs */
};
struct sc_class_plan {
	uint32_t variant;
	struct sc_replicas replicas;
	bool is_replicated; /* some of its parameters are */
	struct sc_summary optimizer;
	double host_optimizer_us; /* the part of training.offload, beside it */
	struct sc_params params;  /* on one rank, before sharding over data-parallel ranks */
};
/* The ops of one name in one of two passes side by side, us on the GPU that nothing hides. */
struct sc_pair_part {
	uint32_t name;
	double us, count;
};
struct sc_pair {
	/* Both passes: on the host, and as sc_summary. */
	double host_us, lead_us;
	/* Each pass: its kernels, and its share of the exchanges that nothing hides; they sum to
	 * what both take. */
	struct sc_pair_alone {
		double gpu_us, owner_us[SC_N_OWNERS];
		double hidden_us; /* its exchanges */
		struct sc_pair_part *parts;
		size_t n_parts;
	} side[2];
};
/* All of a request that does not depend on the number of micro-batches simulated. */
struct sc_transformer {
	const struct sc_request *request;
	const struct sc_predict_opts *opts;
	struct sc_build_scratch *scratch;
	struct sc_fabric fabric; /* between GPUs of any kind */
	/* between GPUs of one kind, in mixed clusters */
	struct sc_fabric kind_fabric[SC_MAX_GPU_KINDS];
	struct sc_placement placement;
	struct sc_variant **variant;
	size_t n_variants, variants_made; /* in this request; in all, kept from one to the next */
	struct sc_class_plan *classes;    /* placement.n_classes, in the arena */
	struct sc_block optimizer;        /* of the class planned last */
	struct sc_stage_map map;
	struct sc_schedule_file file;         /* where the schedule is a file */
	enum sc_schedule schedule;            /* as asked for, or the named one that the file is */
	struct sc_layer_counts layers;        /* the whole model's */
	struct sc_layer_counts *stage_layers; /* by virtual stage */
	struct sc_params layer[SC_N_LAYER_KINDS], embed, head; /* on one rank */
	struct sc_layer_bytes layer_bytes[SC_N_LAYER_KINDS];   /* of a whole micro-batch */
	bool partial;                                          /* the last micro-batch is smaller */
	struct sc_pass_times *stage_times;                     /* by pp stages with a chunk each */
	uint32_t period;              /* where the order of passes depends on these times */
	struct sc_schedule_way *way;  /* kept from one request to the next */
	struct sc_graph_store *store; /* kept, too */
	/* Passes that run beside each other, [class][chunk of the forward pass][of the backward
	 * one][partial: 1 forward, 2 backward]; NULL: all run alone. */
	const struct sc_pair **pairs;
};

/* Sets the sums of a variant whose environment is set: remembered ones, or those of blocks that it
 * makes. */
int sc_variant_sum(const struct sc_transformer *tf, struct sc_variant *variant, struct sc_err *err);
/* Makes the steps of its blocks, where they are not there. */
void sc_variant_make_steps(const struct sc_transformer *tf, struct sc_variant *variant);

/* Sets tf->pairs. */
int sc_transformer_find_pairs(struct sc_transformer *tf, struct sc_build_scratch *scratch,
			      struct sc_err *err);
int sc_transformer_init(struct sc_transformer *tf, const struct sc_setup *setup,
			struct sc_err *err);
/* These are its two halves: ranks and what they hold, which memory depends on; and times, which
 * shapes between them do not know. */
int sc_transformer_init_ranks(struct sc_transformer *tf, const struct sc_setup *setup,
			      struct sc_err *err);
int sc_transformer_init_times(struct sc_transformer *tf, const struct sc_setup *setup,
			      struct sc_err *err);
/* This is what a floor reads of the second half: times of blocks, without the step and the order of
 * passes; `alone`: also without what blocks are beside a data-parallel collective. */
int sc_transformer_init_passes(struct sc_transformer *tf, bool alone, struct sc_err *err);
/* Plans a class of a zeroed tf->classes: what it holds, and who holds the same; then, with its
 * variant set, its optimizer. */
void sc_transformer_plan_class(const struct sc_transformer *tf, uint32_t class_id);
int sc_transformer_plan_optimizer(struct sc_transformer *tf, uint32_t class_id, struct sc_err *err);
void sc_transformer_release(struct sc_transformer *tf);
/* Sets up a zeroed one, without a pipeline, with what a rank holds and nothing that takes time: for
 * its memory. */
void sc_transformer_init_held(struct sc_transformer *tf, const struct sc_request *request,
			      struct sc_arena *arena);
/* Returns the micro-batches of an iteration, and of the one before it where a pipeline does not
 * drain between them. */
uint32_t sc_transformer_micro_batches(const struct sc_transformer *tf);
struct sc_schedule_shape sc_transformer_shape(const struct sc_transformer *tf,
					      uint32_t micro_batches);

/* Returns the share of what layers keep that a backward pass of the input leaves; 0 where backward
 * is one pass. */
double sc_transformer_left(const struct sc_transformer *tf, const struct sc_layer_counts *layers);

/* The parts of the model that a pipeline stage has, over its chunks. */
struct sc_stage_parts {
	struct sc_layer_counts layers;
	bool embed, head;
};
/* Finds whether a chunk of a stage has the embedding (or a share of it), and the head. */
void sc_transformer_ends(const struct sc_transformer *tf, uint32_t stage, uint32_t chunk,
			 bool *embed, bool *head);
struct sc_stage_parts sc_transformer_stage(const struct sc_transformer *tf, int stage);

/* Returns the network of a class's group: that of its own kind of GPU if all its ranks have that.
 */
const struct sc_fabric *sc_transformer_fabric(const struct sc_transformer *tf, uint32_t class_id,
					      enum sc_axis axis);

/* The work beside passes: collectives of gradients, copies of training.offload. */
enum sc_beside_kind { SC_BESIDE_GRAD, SC_BESIDE_FROM_HOST, SC_BESIDE_TO_HOST, SC_N_BESIDE };

/* The nodes at which the steady state can be observed: the compute node of every slot,
 * [class][slot]. */
struct sc_built {
	struct sc_schedule_shape shape;
	struct sc_passes passes;
	uint32_t *slot_node; /* n_classes * passes.stride: node whose end is the slot's end */
	uint32_t *slot_beside[SC_N_BESIDE]; /* the last of each kind up to it, or SC_NONE */
	uint32_t *compute;                  /* by class: its compute lane */
	uint32_t *last;                     /* by class: the last node of all */
	/* The coarse passes that run beside others, by the cost of their node. */
	struct sc_beside {
		uint32_t cost;
		const struct sc_pair_alone *pass;
	} * beside;
	size_t n_beside;
};
/* Builds an iteration of as many micro-batches as built->shape says into an empty graph and seals
 * it. */
void sc_transformer_build(const struct sc_transformer *tf, struct sc_build_scratch *scratch,
			  struct sc_graph *graph, struct sc_built *built);

/* Holds the last graphs of one thread. One is lent out as `graph`, until it is given back. */
struct sc_graph_store *sc_graph_store_create(void);
void sc_graph_store_destroy(struct sc_graph_store *store);
void sc_graph_store_give_back(struct sc_graph_store *store, struct sc_graph *graph);
