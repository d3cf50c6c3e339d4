/* The ops of a Transformer, as blocks: what each part of the model runs on one rank, in order. Shapes only;
 * when and where the blocks run is the pipeline builder's matter. */
#ifndef SC_PREDICT_TRANSFORMER_OPS_H
#define SC_PREDICT_TRANSFORMER_OPS_H

#include "core/config/config.h"
#include "predict/block.h"

enum sc_block_id {
	SC_BLOCK_EMBED_F,
	SC_BLOCK_HEAD_F,
	SC_BLOCK_HEAD_B,
	SC_BLOCK_EMBED_B,
	SC_BLOCK_HEAD_I, /* backward in two: of the input, which keeps what the weights' needs; of the weights */
	SC_BLOCK_HEAD_W,
	SC_BLOCK_EMBED_W, /* nothing: that of the input has it */
	/* Layers, kind by kind. */
	SC_BLOCK_LAYER_F,
	SC_BLOCK_LAYER_B,
	SC_BLOCK_LAYER_I,
	SC_BLOCK_LAYER_W,
	SC_N_LAYER_BLOCKS = 4, /* of a kind */
	SC_BLOCK_DENSE_F = SC_BLOCK_LAYER_F + SC_LAYER_DENSE * SC_N_LAYER_BLOCKS,
	SC_BLOCK_DENSE_B,
	SC_N_BLOCKS = SC_BLOCK_LAYER_F + SC_N_LAYER_KINDS * SC_N_LAYER_BLOCKS
};
/* The same block of another kind of layer. */
static inline int sc_block_of(enum sc_block_id layer, int kind)
{
	return (int)layer + kind * SC_N_LAYER_BLOCKS;
}
/* Builds one block for micro-batches of `samples` sequences. */
void sc_transformer_block(const struct sc_block_env *env, enum sc_block_id id, double samples,
			  struct sc_block *out);

/* Micro-batches of an iteration, as blocks ask for them: those that only ask whether there are more than one hear of two
 * at most, so that they are the same for all batches. */
double sc_transformer_batches(const struct sc_request *request);

/* Parameters that one tensor-parallel rank holds. */
struct sc_params {
	double dense, expert;               /* all but the experts'; the experts' */
	double trainable, trainable_expert; /* of them */
};
void sc_params_add(struct sc_params *sum, const struct sc_params *one, double n); /* n of them */
void sc_transformer_layer_params(const struct sc_request *request, int kind, struct sc_params *out);
void sc_transformer_embed_params(const struct sc_request *request, struct sc_params *out);
/* Of the output layer: with tied embeddings a copy of them, on another stage than the embedding. */
void sc_transformer_head_params(const struct sc_request *request, struct sc_params *out);
struct sc_model_params;
/* Parameters of the whole model, as its paper counts them: without padding, replicas, adapters and the
 * layers that predict further tokens. */
void sc_transformer_model_params(const struct sc_request *request, struct sc_model_params *out);
/* Bytes of a weight where sharded weights are gathered. */
double sc_transformer_gathered_bytes(const struct sc_request *request);
/* FLOP of the model's matrix products for one sequence, forward and backward, without recompute. */
/* `causal`: with attention to later tokens left out where the model has none; may be NULL. */
double sc_transformer_model_flop(const struct sc_request *request, double *causal);

/* Bytes that an update reads and writes per parameter: fp32 gradient read; weight in fp32 and moments read and
 * written in fp32; working copy written if it is not the master. */
double sc_transformer_update_bytes(const struct sc_request *request);
/* The end of an iteration on a rank. */
struct sc_update {
	double params, updated;        /* that it holds, and those of them that it updates */
	struct sc_layer_counts layers; /* among these: what is done matrix by matrix */
	struct sc_span replicas;       /* ranks that hold the same */
	struct sc_span shard,
		expert_shard; /* that Muon's states are spread over; none: all have them */
};
/* States of an optimizer that are not of its parameters' size (Shampoo, K-FAC): the experts', or all others. */
double sc_transformer_matrix_bytes(const struct sc_request *request, const struct sc_update *update,
				   bool experts);
void sc_transformer_optimizer(const struct sc_block_env *env, const struct sc_update *update,
			      struct sc_block *out);

#endif
