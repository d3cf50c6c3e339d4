/* The ops of a Transformer, as blocks: each part of the model on one rank, in order. These are
 * shapes only; when and where the blocks run is the pipeline builder's matter. */
#pragma once

#include "core/config/config.h"
#include "predict/block.h"

enum sc_block_id {
	SC_BLOCK_EMBED_F,
	SC_BLOCK_HEAD_F,
	SC_BLOCK_HEAD_B,
	SC_BLOCK_EMBED_B,
	/* backward in two: the input's, which keeps what the weights' needs; the weights' */
	SC_BLOCK_HEAD_I,
	SC_BLOCK_HEAD_W,
	SC_BLOCK_EMBED_W, /* empty: the input's has it */
	/* The blocks of layers follow, kind by kind. */
	SC_BLOCK_LAYER_F,
	SC_BLOCK_LAYER_B,
	SC_BLOCK_LAYER_I,
	SC_BLOCK_LAYER_W,
	SC_N_LAYER_BLOCKS = 4, /* of each kind */
	SC_BLOCK_DENSE_F = SC_BLOCK_LAYER_F + SC_LAYER_DENSE * SC_N_LAYER_BLOCKS,
	SC_BLOCK_DENSE_B,
	SC_N_BLOCKS = SC_BLOCK_LAYER_F + SC_N_LAYER_KINDS * SC_N_LAYER_BLOCKS
};
/* Returns the same block of another kind of layer. */
static inline int sc_block_of(enum sc_block_id layer, int kind)
{
	return (int)layer + kind * SC_N_LAYER_BLOCKS;
}
/* Builds one block for micro-batches of `samples` sequences. */
void sc_transformer_block(const struct sc_block_env *env, enum sc_block_id id, double samples,
			  struct sc_block *out);

/* Returns the micro-batches of an iteration, as blocks ask for them: those that only ask whether
 * there are more than one hear of two at most, so that they are the same for all batches. */
double sc_transformer_batches(const struct sc_request *request);

/* The parameters that one tensor-parallel rank holds. */
struct sc_params {
	double dense, expert;               /* all but the experts'; the experts' */
	double trainable, trainable_expert; /* the part of them that learns */
};
void sc_params_add(struct sc_params *sum, const struct sc_params *one, double n); /* n of them */
void sc_transformer_layer_params(const struct sc_request *request, int kind, struct sc_params *out);
void sc_transformer_embed_params(const struct sc_request *request, struct sc_params *out);
/* The output layer's: with tied embeddings a copy of them, on another stage than the embedding. */
void sc_transformer_head_params(const struct sc_request *request, struct sc_params *out);
struct sc_model_params;
/* Counts the parameters of the whole model as its paper does: without padding, replicas, adapters
 * and the layers that predict further tokens. */
void sc_transformer_model_params(const struct sc_request *request, struct sc_model_params *out);
/* Returns the bytes of a weight where sharded weights are gathered. */
double sc_transformer_gathered_bytes(const struct sc_request *request);
/* Returns the FLOP of the model's matrix products for a sequence, forward and backward, without
 * recompute; `causal` (or NULL) leaves out later tokens if the model has none. */
double sc_transformer_model_flop(const struct sc_request *request, double *causal);

/* Returns the bytes that an update reads and writes per parameter: fp32 gradient read; weight in
 * fp32 and moments read and written in fp32; working copy written if it is not the master. */
double sc_transformer_update_bytes(const struct sc_request *request);
/* The update at the end of an iteration on a rank. */
struct sc_update {
	double params, updated;             /* held by it, and updated by it */
	double trainable;                   /* of its stage but the experts', on all shards */
	struct sc_layer_counts layers;      /* the share of them that is stepped matrix by matrix */
	struct sc_span replicas;            /* the ranks that hold the same */
	struct sc_span shard, expert_shard; /* ranks of Muon's states; none: all have them */
};
/* Returns the states beside a moment of each parameter: Shampoo's and K-FAC's factors, and what
 * Muon's busiest owner has beyond its share, with the second moment of what Adam steps. They are
 * the experts', or all others. */
double sc_transformer_matrix_bytes(const struct sc_request *request, const struct sc_update *update,
				   bool experts);
void sc_transformer_optimizer(const struct sc_block_env *env, const struct sc_update *update,
			      struct sc_block *out);
