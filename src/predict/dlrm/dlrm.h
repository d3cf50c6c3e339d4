/* One training step of a DLRM on many GPUs: what each rank looks up, exchanges and multiplies, by
 * its sharding plan. Ranks whose work is alike are one class. */
#pragma once

#include "base/arena.h"
#include "core/config/config.h"
#include "core/embedding/shard_plan.h"
#include "models/embedding_kernel.h"
#include "predict/block.h"
#include "predict/predict.h"
#include "predict/workload.h"

/* The steps of a rank that are built as runs of kernels. */
enum sc_dlrm_block {
	SC_DLRM_LOCATE,   /* finds which rank has the row of each id, where some rows are hot */
	SC_DLRM_INDEX,    /* sorts incoming indices by table */
	SC_DLRM_PREFETCH, /* fetches rows from the host */
	SC_DLRM_LOOKUP,   /* looks up in the rank's shards, for the whole batch */
	SC_DLRM_REPLICA,  /* looks up in replicated tables, for its samples */
	SC_DLRM_BOTTOM,   /* the MLP of the dense features */
	SC_DLRM_DENSE,    /* interaction, top MLP, loss, and their gradients */
	SC_DLRM_BOTTOM_GRAD,
	SC_DLRM_REPLICA_GRAD,
	SC_DLRM_UPDATE,    /* steps its shards with their optimizer */
	SC_DLRM_OPTIMIZER, /* steps the dense parameters */
	SC_N_DLRM_BLOCKS
};
/* The embedding work and memory of one rank. Shapes of ranks with like work have the same bytes. */
struct sc_dlrm_work {
	struct sc_embedding_shape lookup, update, prefetch; /* its shards' */
	struct sc_embedding_shape replica, replica_grad;
	double n_tables;                 /* shards on it, replicas included */
	double index_bytes;              /* lookups that come to it from all ranks */
	double output_bytes;             /* the vectors it sends, to all ranks together */
	double table_bytes, state_bytes; /* in GPU memory */
	double host_bytes, ssd_bytes;
};
struct sc_dlrm_class {
	struct sc_dlrm_work work;
	uint32_t representative, multiplicity;
	uint8_t kind;  /* its GPU */
	bool bottom;   /* it runs the bottom MLP */
	double tokens; /* the mean of a sample's sequence */
	double slowdown;
	struct sc_block_env env;
	struct sc_block block[SC_N_DLRM_BLOCKS];
};
/* The exchanges of all ranks; bytes as sc_collective_shape has them. */
struct sc_dlrm_exchange {
	double index_bytes;   /* all-to-all: sent by the busiest */
	double output_bytes;  /* all-to-all: the time it takes, as bytes sent by each rank */
	double scatter_bytes; /* reduce-scatter over all ranks: row-wise tables */
	/* A reduce-scatter within each host, for table-row-wise tables; where slices send partial
	 * sums, an all-to-all there. */
	double host_scatter_bytes;
	double replica_grad_bytes; /* all-reduce: replicated tables */
	double hot_grad_bytes;     /* all-reduce, with the bottom MLP's: hot rows */
	double pulled_bytes;       /* the part of output_bytes that is hot rows, within one node */
	/* A rank's samples bring ids, sorted by the rank that has the row, and rows, which come
	 * back and are put in the samples' order. */
	double bucketed_ids, ordered_bytes;
	double dense_grad_bytes;
};
struct sc_dlrm {
	const struct sc_request *request;
	const struct sc_predict_opts *opts;
	struct sc_arena *arena;
	struct sc_row_memo *rows;
	struct sc_lookups_known *known;
	struct sc_fabric fabric;
	struct sc_table_list tables;
	struct sc_shard_plan plan;
	struct sc_dlrm_class *classes; /* sorted by representative */
	size_t n_classes;
	struct sc_dlrm_exchange exchange;
	double batch; /* samples of a rank in the dense part */
	double output_elem_bytes;
	/* vectors that one sample yields from all tables; their columns */
	double vectors, vector_columns;
	double dense_params;
	double model_flop;            /* matrix products for one sample, forward and backward */
	double kept_bytes;            /* a rank's activations */
	double host_bytes, ssd_bytes; /* tables on the node with most of them */
};

/* Prepares a request under setup->opts->plan, which outlives it. Strings and arrays live in the
 * arena of the scratch. */
int sc_dlrm_init(struct sc_dlrm *dlrm, const struct sc_setup *setup, struct sc_err *err);

/* Says whether rank 0 runs the bottom MLP for all samples. */
static inline bool sc_dlrm_one_rank_bottom(const struct sc_request *request)
{
	return request->software.dlrm.one_rank_bottom && request->config.gpus > 1 &&
	       request->config.model.bottom_mlp.n > 0;
}
static inline bool sc_dlrm_has_hot(const struct sc_dlrm *dlrm)
{
	return dlrm->exchange.pulled_bytes > 0 || dlrm->exchange.hot_grad_bytes > 0;
}
/* The kind of GPU that a rank has, and how much slower than others it is. */
size_t sc_dlrm_rank_kind(const struct sc_request *request, uint32_t rank);
double sc_dlrm_rank_slowdown(const struct sc_request *request, uint32_t rank);

/* dlrm_use.c: the optimizer of rows, the bytes of an element of vectors, the lookups of so many
 * samples in a table, and the bytes of all samples' vectors of so many columns. */
enum sc_row_optimizer sc_dlrm_row_optimizer(const struct sc_request *request);
double sc_dlrm_output_elem_bytes(const struct sc_request *request);
double sc_dlrm_lookups(const struct sc_table *table, double samples);
double sc_dlrm_all_vector_bytes(const struct sc_request *request, const struct sc_table *table,
				double cols);
/* Lists the tables of a request with types resolved. */
void sc_dlrm_tables(const struct sc_request *request, struct sc_arena *arena,
		    struct sc_table_list *out);
/* Returns the use of one shard by the rank that has it; `samples` are the whole batch's, or a
 * rank's. A placement with hot rows counts the lookups of its other rows. `memo` may be NULL. */
struct sc_embedding_use sc_dlrm_shard_use(const struct sc_request *request,
					  const struct sc_table *table,
					  const struct sc_table_placement *placement,
					  const struct sc_shard *shard, struct sc_row_memo *memo);
/* Returns the use that each rank makes of its copies of a placement's hot rows, for its samples. */
struct sc_embedding_use sc_dlrm_hot_use(const struct sc_request *request,
					const struct sc_table *table,
					const struct sc_table_placement *placement,
					struct sc_row_memo *memo);
/* The bytes that hot rows move, by rank. Within one node (HugeCTR's NVLink_SingleNode) a rank gets
 * the distinct ones that its samples look up from the ranks that own them, and these get their
 * gradients back; across nodes (IB_NVLink) the gradients of all of them are reduced. Forward and
 * backward move the pulled bytes once each. */
struct sc_dlrm_hot_bytes {
	double pulled, reduced;
};
struct sc_dlrm_hot_bytes sc_dlrm_hot_bytes_of(const struct sc_request *request,
					      const struct sc_table *table,
					      const struct sc_table_placement *placement,
					      struct sc_row_memo *memo);
/* Returns the share of a table's pooled vectors that a share of its rows has a part in, hot rows
 * apart: only these vectors are sent. It is 1 for a placement without hot rows. */
double sc_dlrm_sent_frac(const struct sc_table *table, const struct sc_table_placement *placement,
			 double row_frac, struct sc_row_memo *memo);
/* The exchanges that a shard's vectors take part in, as shares of their bytes: sent to all ranks,
 * summed over all ranks, or over those of its host, to which each of the table's slices of rows
 * adds. */
struct sc_dlrm_sends {
	double to_all, all_sum, host_sum;
	bool lookups; /* one vector a lookup, from one slice of the rows, not one a bag */
};
struct sc_dlrm_sends sc_dlrm_sends_of(const struct sc_table *table, enum sc_shard_type type,
				      bool partial_sums, uint32_t ranks_per_host);
/* Returns the vectors of the whole batch in which a shard has a part. */
double sc_dlrm_vector_bytes(const struct sc_request *request,
			    const struct sc_table_placement *placement,
			    const struct sc_embedding_use *use);
/* Returns the number of ranks that add up their parts before others get them: those of a scale-up
 * domain where partial sums are exchanged, else of a host. */
uint32_t sc_dlrm_ranks_together(const struct sc_request *request);
/* Returns the number of vectors that one sample yields from a table. */
double sc_table_outputs(const struct sc_table *table);
/* dlrm_hstu.c: returns the mean tokens of a sample, on the rank with most or on the others. */
double sc_hstu_tokens(const struct sc_request *request, bool most);

/* dlrm_lookups.c: sets the shapes, index_bytes and output_bytes of all ranks. */
void sc_dlrm_find_lookups(const struct sc_dlrm *dlrm, struct sc_dlrm_work *ranks);

/* dlrm_dense.c */
void sc_dlrm_dense_block(const struct sc_dlrm *dlrm, const struct sc_dlrm_class *cls,
			 enum sc_dlrm_block id, struct sc_block *out);
/* Says whether the block depends on no more of its class than GPU, speed, sequences, and the bottom
 * MLP. */
static inline bool sc_dlrm_is_dense(enum sc_dlrm_block id)
{
	return id == SC_DLRM_LOCATE || id == SC_DLRM_BOTTOM || id == SC_DLRM_DENSE ||
	       id == SC_DLRM_BOTTOM_GRAD || id == SC_DLRM_OPTIMIZER;
}
/* Sets the last fields of dlrm, the dense part's parameters, FLOP and activations, before any block
 * is built. */
void sc_dlrm_dense_sizes(struct sc_dlrm *dlrm);

enum sc_exchange {
	SC_X_INDEX,
	SC_X_OUTPUT,
	SC_X_SCATTER,
	SC_X_HOST_SCATTER,
	SC_X_GRAD,
	SC_X_GATHER,
	SC_X_HOST_GATHER,
	SC_X_REPLICAS,
	SC_X_TOP_GRADS,
	SC_X_BOTTOM_GRADS,
	SC_N_EXCHANGES
};
/* dlrm_build.c: what an exchange moves; 0 bytes: the request does not have it. */
struct sc_collective_shape sc_dlrm_exchange_shape(const struct sc_dlrm *dlrm, enum sc_exchange x);
/* Builds `n_steps` steps, one after another as a training loop runs them. `built` is zeroed before
 * the first and kept for the next, which may find its graph as it was left. */
struct sc_dlrm_built {
	SC_VEC(uint32_t) step_end; /* [step * n_classes + class]: node at which the step is over */
	SC_VEC(uint32_t)
	form, asked;    /* what decides all but the values of costs: built; asked for */
	uint64_t print; /* of the form, also the graph's */
};
void sc_dlrm_build(const struct sc_dlrm *dlrm, uint32_t n_steps, struct sc_graph *graph,
		   struct sc_dlrm_built *built);
void sc_dlrm_built_release(struct sc_dlrm_built *built);
/* Kernels and an exchange of a step that need nothing of each other; false from the end of the list
 * on. An exchange of 0 bytes is one that the request does not have. */
struct sc_dlrm_beside {
	enum sc_dlrm_block block;
	uint16_t exchange; /* enum sc_op_name */
	struct sc_collective_shape shape;
	struct sc_span span;
};
bool sc_dlrm_beside(const struct sc_dlrm *dlrm, size_t i, struct sc_dlrm_beside *out);
