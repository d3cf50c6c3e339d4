/* One training step of a DLRM on many GPUs: what each rank looks up, exchanges and multiplies, by its
 * sharding plan. Ranks whose work is alike are one class. */
#ifndef SC_PREDICT_DLRM_H
#define SC_PREDICT_DLRM_H

#include "base/arena.h"
#include "core/config/config.h"
#include "core/embedding/shard_plan.h"
#include "models/embedding_kernel.h"
#include "predict/block.h"
#include "predict/predict.h"
#include "predict/workload.h"

/* Steps of a rank that are built as runs of kernels. */
enum sc_dlrm_block {
	SC_DLRM_LOCATE, /* which rank has the row of each id of the batch, where some rows are hot */
	SC_DLRM_INDEX,  /* sort incoming indices by table */
	SC_DLRM_PREFETCH, /* rows from the host */
	SC_DLRM_LOOKUP,   /* in its shards, for the whole batch */
	SC_DLRM_REPLICA,  /* in replicated tables, for its samples */
	SC_DLRM_BOTTOM,   /* MLP of the dense features */
	SC_DLRM_DENSE,    /* interaction, top MLP, loss, and their gradients */
	SC_DLRM_BOTTOM_GRAD,
	SC_DLRM_REPLICA_GRAD,
	SC_DLRM_UPDATE,    /* of its shards, with their optimizer */
	SC_DLRM_OPTIMIZER, /* of dense parameters */
	SC_N_DLRM_BLOCKS
};
/* Embedding work and memory of one rank. Shapes of ranks with like work have the same bytes. */
struct sc_dlrm_work {
	struct sc_embedding_shape lookup, update, prefetch; /* of its shards */
	struct sc_embedding_shape replica, replica_grad;
	double n_tables;                 /* shards on it, replicas included */
	double index_bytes;              /* of lookups that come to it from all ranks */
	double output_bytes;             /* of the vectors it sends, to all ranks together */
	double table_bytes, state_bytes; /* in GPU memory */
	double host_bytes, ssd_bytes;
};
struct sc_dlrm_class {
	struct sc_dlrm_work work;
	uint32_t representative, multiplicity;
	uint8_t kind;  /* of GPU */
	bool bottom;   /* runs the bottom MLP */
	double tokens; /* of a sample of its sequence, mean */
	double slowdown;
	struct sc_block_env env;
	struct sc_block block[SC_N_DLRM_BLOCKS];
};
/* What all ranks exchange; bytes as sc_collective_shape has them. */
struct sc_dlrm_exchange {
	double index_bytes;   /* all-to-all: sent by the busiest */
	double output_bytes;  /* all-to-all: what it takes, told as bytes sent by each rank */
	double scatter_bytes; /* reduce-scatter over all ranks: row-wise tables */
	/* The same within each host: table-row-wise. Where slices send partial sums: an all-to-all there. */
	double host_scatter_bytes;
	double replica_grad_bytes; /* all-reduce: replicated tables */
	double hot_grad_bytes;     /* all-reduce, with the bottom MLP's: hot rows */
	double pulled_bytes;       /* of output_bytes: hot rows, within one node */
	/* A rank's samples bring ids, sorted by the rank that has the row, and rows that come back and are put in the
	 * samples' order. */
	double bucketed_ids, ordered_bytes;
	double dense_grad_bytes;
};
struct sc_dlrm {
	const struct sc_request *request;
	const struct sc_predict_opts *opts;
	struct sc_arena *arena;
	struct sc_row_memo *rows; /* may be NULL */
	struct sc_fabric fabric;
	struct sc_table_list tables;
	struct sc_shard_plan plan;
	struct sc_dlrm_class *classes; /* by representative */
	size_t n_classes;
	struct sc_dlrm_exchange exchange;
	double batch; /* samples of a rank, dense part */
	double output_elem_bytes;
	double vectors, vector_columns; /* that one sample yields of all tables; their columns */
	double dense_params;
	double model_flop;            /* of matrix products, for one sample, forward and backward */
	double kept_bytes;            /* activations of a rank */
	double host_bytes, ssd_bytes; /* of tables, on the node with most of them */
};

/* By setup->opts->plan, which outlives it. Strings and arrays live in the arena of the scratch. */
int sc_dlrm_init(struct sc_dlrm *dlrm, const struct sc_setup *setup, struct sc_err *err);
void sc_dlrm_release(struct sc_dlrm *dlrm);

/* dlrm.c: facts of a request. */
/* Does rank 0 run the bottom MLP for all samples? */
static inline bool sc_dlrm_one_rank_bottom(const struct sc_request *request)
{
	return request->software.dlrm.one_rank_bottom && request->config.gpus > 1 &&
	       request->config.model.bottom_mlp.n > 0;
}
static inline bool sc_dlrm_has_hot(const struct sc_dlrm *dlrm)
{
	return dlrm->exchange.pulled_bytes > 0 || dlrm->exchange.hot_grad_bytes > 0;
}
size_t sc_dlrm_rank_kind(const struct sc_request *request, uint32_t rank);
double sc_dlrm_rank_slowdown(const struct sc_request *request, uint32_t rank);

/* The tables of a request with types resolved; each rank's work under the plan. */
void sc_dlrm_tables(const struct sc_request *request, struct sc_arena *arena,
		    struct sc_table_list *out);
/* The use of one shard by the rank that has it; `samples` of the whole batch, or of a rank. Of a placement with hot
 * rows: by the lookups of other rows. `memo` may be NULL. */
struct sc_embedding_use sc_dlrm_shard_use(const struct sc_request *request,
					  const struct sc_table *table,
					  const struct sc_table_placement *placement,
					  const struct sc_shard *shard, struct sc_row_memo *memo);
/* The use of the copies of a placement's hot rows, by each rank for its samples. */
struct sc_embedding_use sc_dlrm_hot_use(const struct sc_request *request,
					const struct sc_table *table,
					const struct sc_table_placement *placement,
					struct sc_row_memo *memo);
/* Bytes that hot rows move, of each rank. Within one node (HugeCTR's NVLink_SingleNode) a rank gets the distinct ones that
 * its samples look up from the ranks that own them, and these get their gradients back; across nodes (IB_NVLink) the
 * gradients of all of them are reduced. Forward and backward move the pulled bytes once each. */
struct sc_dlrm_hot_bytes {
	double pulled, reduced;
};
struct sc_dlrm_hot_bytes sc_dlrm_hot_bytes_of(const struct sc_request *request,
					      const struct sc_table *table,
					      const struct sc_table_placement *placement,
					      struct sc_row_memo *memo);
/* Share of a table's pooled vectors that a share of the rows has a part in, of those that no rank has a copy of: only
 * these are sent. 1 for a placement without hot rows. */
double sc_dlrm_sent_frac(const struct sc_table *table, const struct sc_table_placement *placement,
			 double row_frac, struct sc_row_memo *memo);
/* Which exchanges a shard's vectors take part in, as shares of their bytes: its rank sends to all; sums over
 * all ranks, over those of its host, to which each of the table's slices of rows adds. */
struct sc_dlrm_sends {
	double to_all, all_sum, host_sum;
	bool lookups; /* not bags: each is of one slice of the rows */
};
struct sc_dlrm_sends sc_dlrm_sends_of(const struct sc_table *table, enum sc_shard_type type,
				      bool partial_sums, uint32_t ranks_per_host);
/* Vectors that a shard has a part in, for the whole batch. */
double sc_dlrm_vector_bytes(const struct sc_request *request,
			    const struct sc_table_placement *placement,
			    const struct sc_embedding_use *use);
/* Ranks that add up their parts before others get them: of a scale-up domain where partial sums are exchanged, else
 * of a host. */
uint32_t sc_dlrm_ranks_together(const struct sc_request *request);
/* Vectors of a table that one sample yields. */
double sc_table_outputs(const struct sc_table *table);
/* dlrm_hstu.c: mean tokens of a sample of the rank with most, or of the others. */
double sc_hstu_tokens(const struct sc_request *request, bool most);

/* dlrm_dense.c */
void sc_dlrm_dense_block(const struct sc_dlrm *dlrm, const struct sc_dlrm_class *cls,
			 enum sc_dlrm_block id, struct sc_block *out);
/* Does the block depend on no more of its class than the GPU, its speed, its sequences, and whether it runs the bottom MLP? */
static inline bool sc_dlrm_is_dense(enum sc_dlrm_block id)
{
	return id == SC_DLRM_LOCATE || id == SC_DLRM_BOTTOM || id == SC_DLRM_DENSE ||
	       id == SC_DLRM_BOTTOM_GRAD || id == SC_DLRM_OPTIMIZER;
}
/* Parameters, FLOP and activations of the dense part: fills the last fields of dlrm; before any block. */
void sc_dlrm_dense_sizes(struct sc_dlrm *dlrm);

/* dlrm_workload.c: `n_steps` steps, one after another as a training loop runs them. */
struct sc_dlrm_built {
	uint32_t *step_end; /* [step * n_classes + class]: node at which the step is over */
};
void sc_dlrm_build(const struct sc_dlrm *dlrm, uint32_t n_steps, struct sc_graph *graph,
		   struct sc_dlrm_built *built);
/* Kernels and an exchange of a step that need nothing of each other; false from the end of the list on. bytes 0: the
 * request has no such exchange. */
struct sc_dlrm_beside {
	enum sc_dlrm_block block;
	uint16_t exchange; /* enum sc_op_name */
	struct sc_collective_shape shape;
	struct sc_span span;
};
bool sc_dlrm_beside(const struct sc_dlrm *dlrm, size_t i, struct sc_dlrm_beside *out);

#endif
