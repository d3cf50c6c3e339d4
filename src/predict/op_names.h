/* Names of the ops that builders put into graphs: an X-macro table, id -> text for reports, and the
 * packing of a name with chunk and micro-batch into a node's op id. */
#pragma once

#include <stdbool.h>

/* Passes are made of the first names, up to MICRO_BATCH_HOST. */
#define SC_OP_NAMES(X)                                                   \
	X(EMBED_LOOKUP, "embedding lookup")                              \
	X(EMBED_DROPOUT, "embedding dropout")                            \
	X(EMBED_GRAD, "embedding gradient")                              \
	X(NORM, "norm")                                                  \
	X(NORM_GRAD, "norm gradient")                                    \
	X(QKV, "gemm qkv")                                               \
	X(QKV_DGRAD, "gemm qkv data gradient")                           \
	X(QKV_WGRAD, "gemm qkv weight gradient")                         \
	X(Q_DOWN, "gemm q down")                                         \
	X(Q_DOWN_DGRAD, "gemm q down data gradient")                     \
	X(Q_DOWN_WGRAD, "gemm q down weight gradient")                   \
	X(Q_UP, "gemm q up")                                             \
	X(Q_UP_DGRAD, "gemm q up data gradient")                         \
	X(Q_UP_WGRAD, "gemm q up weight gradient")                       \
	X(KV_DOWN, "gemm kv down")                                       \
	X(KV_DOWN_DGRAD, "gemm kv down data gradient")                   \
	X(KV_DOWN_WGRAD, "gemm kv down weight gradient")                 \
	X(KV_UP, "gemm kv up")                                           \
	X(KV_UP_DGRAD, "gemm kv up data gradient")                       \
	X(KV_UP_WGRAD, "gemm kv up weight gradient")                     \
	X(GATES, "gemm gates")                                           \
	X(GATES_DGRAD, "gemm gates data gradient")                       \
	X(GATES_WGRAD, "gemm gates weight gradient")                     \
	X(INDEX, "gemm index of keys")                                   \
	X(INDEX_DGRAD, "gemm index of keys data gradient")               \
	X(INDEX_WGRAD, "gemm index of keys weight gradient")             \
	X(ROPE, "rotary positions")                                      \
	X(ROPE_GRAD, "rotary positions gradient")                        \
	X(QKV_LAYOUT, "qkv layout copies")                               \
	X(SCORES, "gemm attention scores")                               \
	X(SOFTMAX, "attention softmax")                                  \
	X(ATTENTION_DROPOUT, "attention dropout")                        \
	X(CONTEXT, "gemm attention context")                             \
	X(CONTEXT_LAYOUT, "context layout copy")                         \
	X(FLASH, "flash attention")                                      \
	X(FLASH_GRAD, "flash attention gradient")                        \
	X(RING_JOIN, "context-parallel join of steps")                   \
	X(SPARSE, "sparse attention")                                    \
	X(SPARSE_GRAD, "sparse attention gradient")                      \
	X(CONTEXT_DGRAD, "gemm attention context gradients")             \
	X(ATTENTION_DROPOUT_GRAD, "attention dropout gradient")          \
	X(SOFTMAX_GRAD, "attention softmax gradient")                    \
	X(SCORES_DGRAD, "gemm attention scores gradients")               \
	X(CONV, "causal convolution")                                    \
	X(CONV_GRAD, "causal convolution gradient")                      \
	X(SCAN, "linear attention")                                      \
	X(SCAN_GRAD, "linear attention gradient")                        \
	X(PROJ, "gemm attention projection")                             \
	X(PROJ_DGRAD, "gemm attention projection data gradient")         \
	X(PROJ_WGRAD, "gemm attention projection weight gradient")       \
	X(BIAS_DROPOUT_ADD, "bias, dropout, residual")                   \
	X(BIAS_DROPOUT_ADD_GRAD, "bias, dropout, residual gradient")     \
	X(MLP_UP, "gemm mlp up")                                         \
	X(MLP_UP_DGRAD, "gemm mlp up data gradient")                     \
	X(MLP_UP_WGRAD, "gemm mlp up weight gradient")                   \
	X(ACTIVATION, "activation")                                      \
	X(ACTIVATION_GRAD, "activation gradient")                        \
	X(MLP_DOWN, "gemm mlp down")                                     \
	X(MLP_DOWN_DGRAD, "gemm mlp down data gradient")                 \
	X(MLP_DOWN_WGRAD, "gemm mlp down weight gradient")               \
	X(ROUTER, "gemm router")                                         \
	X(ROUTER_DGRAD, "gemm router data gradient")                     \
	X(ROUTER_WGRAD, "gemm router weight gradient")                   \
	X(TOP_K, "router top-k")                                         \
	X(PERMUTE, "token permutation")                                  \
	X(UNPERMUTE, "token unpermutation")                              \
	X(LATENT, "gemm expert latent")                                  \
	X(LATENT_DGRAD, "gemm expert latent data gradient")              \
	X(LATENT_WGRAD, "gemm expert latent weight gradient")            \
	X(EXPERT_UP, "grouped gemm expert up")                           \
	X(EXPERT_UP_DGRAD, "grouped gemm expert up data gradient")       \
	X(EXPERT_UP_WGRAD, "grouped gemm expert up weight gradient")     \
	X(EXPERT_DOWN, "grouped gemm expert down")                       \
	X(EXPERT_DOWN_DGRAD, "grouped gemm expert down data gradient")   \
	X(EXPERT_DOWN_WGRAD, "grouped gemm expert down weight gradient") \
	X(EXPERT_BIAS, "expert bias")                                    \
	X(EXPERT_CLAMP, "clamp of experts' activation")                  \
	X(EXPERT_PADDING, "padding of experts' rows")                    \
	X(EXPERT_STASH, "copy of what experts keep")                     \
	X(MODULATION, "gemm modulation")                                 \
	X(MODULATION_DGRAD, "gemm modulation data gradient")             \
	X(MODULATION_WGRAD, "gemm modulation weight gradient")           \
	X(PATCH, "gemm patches and texts")                               \
	X(PATCH_DGRAD, "gemm patches and texts data gradient")           \
	X(PATCH_WGRAD, "gemm patches and texts weight gradient")         \
	X(GATED_ADD, "gated residual")                                   \
	X(GATED_ADD_GRAD, "gated residual gradient")                     \
	X(ADAPTER, "gemm adapters")                                      \
	X(ADAPTER_GRAD, "gemm adapter gradients")                        \
	X(ADAPTER_ADD, "adapter add")                                    \
	X(FP8_CAST, "fp8 casts")                                         \
	X(WEIGHT_CAST, "weight casts")                                   \
	X(MTP_PROJ, "gemm mtp projection")                               \
	X(MTP_PROJ_DGRAD, "gemm mtp projection data gradient")           \
	X(MTP_PROJ_WGRAD, "gemm mtp projection weight gradient")         \
	X(MLM_TRANSFORM, "gemm mlm transform")                           \
	X(MLM_TRANSFORM_DGRAD, "gemm mlm transform data gradient")       \
	X(MLM_TRANSFORM_WGRAD, "gemm mlm transform weight gradient")     \
	X(MASKED_GATHER, "masked positions gather")                      \
	X(RESIDUAL_GRAD, "residual gradient")                            \
	X(GRAD_ACCUMULATE, "gradient accumulation")                      \
	X(TP_ALL_REDUCE, "tensor-parallel all-reduce")                   \
	X(TP_ALL_GATHER, "tensor-parallel all-gather")                   \
	X(TP_REDUCE_SCATTER, "tensor-parallel reduce-scatter")           \
	X(RING_SEND_RECV, "context-parallel send/recv")                  \
	X(HEADS_ALL_TO_ALL, "context-parallel all-to-all of heads")      \
	X(ROUTES, "all-gather of tokens' experts")                       \
	X(DISPATCH, "expert dispatch all-to-all")                        \
	X(COMBINE, "expert combine all-to-all")                          \
	X(EXCHANGE, "expert exchange beside other work")                 \
	X(EXPERTS_HOST, "expert products host work")                     \
	X(EXPERTS_SYNC, "wait for the host, which reads expert counts")  \
	X(LAYER_HOST, "layer host work")                                 \
	X(LOGITS, "gemm logits")                                         \
	X(LOGITS_DGRAD, "gemm logits data gradient")                     \
	X(LOGITS_WGRAD, "gemm logits weight gradient")                   \
	X(CROSS_ENTROPY, "cross entropy")                                \
	X(CROSS_ENTROPY_GRAD, "cross entropy gradient")                  \
	X(LOSS_COMM, "loss all-reduces")                                 \
	X(MICRO_BATCH_HOST, "micro-batch host work")                     \
	X(STEP_HOST, "step host work")                                   \
	X(GRAD_ZERO, "gradient zeroing")                                 \
	X(GRAD_REDUCE, "data-parallel gradient reduction")               \
	X(EMBED_TIE, "tied embedding gradient all-reduce")               \
	X(GRAD_CHECK, "gradient unscale and overflow check")             \
	X(GRAD_NORM, "gradient norm")                                    \
	X(STEP_COMM, "step-wide small all-reduces")                      \
	X(OPTIMIZER, "optimizer update")                                 \
	X(PARAM_GATHER, "parameter all-gather")                          \
	X(ORTHOGONALISE, "gemm orthogonalised update")                   \
	X(FACTORS, "gemm factors of the gradients' covariance")          \
	X(INVERSES, "gemm eigenvectors of factors")                      \
	X(PRECONDITION, "gemm preconditioned update")                    \
	X(MUON_COMM, "exchange of whole matrices")                       \
	X(KFAC_COMM, "factors' and preconditioned gradients' exchange")  \
	X(HOST_OPTIMIZER, "optimizer update on the CPU")                 \
	X(FROM_HOST, "copies from the host")                             \
	X(TO_HOST, "copies to the host")                                 \
	X(SEND_ACTIVATION, "activation send/recv")                       \
	X(SEND_GRADIENT, "gradient send/recv")                           \
	X(FORWARD, "forward")                                            \
	X(BACKWARD, "backward")                                          \
	X(BACKWARD_INPUT, "backward of inputs")                          \
	X(BACKWARD_WEIGHT, "backward of weights")                        \
	X(FORWARD_BESIDE, "forward beside backward")                     \
	X(BACKWARD_BESIDE, "backward beside forward")                    \
	X(FORWARD_LEAD, "forward embedding")                             \
	X(FORWARD_LAYERS, "forward layers")                              \
	X(FORWARD_DENSE, "forward dense layers")                         \
	X(FORWARD_TAIL, "forward head")                                  \
	X(BACKWARD_LEAD, "backward head")                                \
	X(BACKWARD_LAYERS, "backward layers")                            \
	X(BACKWARD_DENSE, "backward dense layers")                       \
	X(INPUT_LEAD, "backward of inputs, head")                        \
	X(INPUT_LAYERS, "backward of inputs, layers")                    \
	X(INPUT_DENSE, "backward of inputs, dense layers")               \
	X(WEIGHT_LEAD, "backward of weights, head")                      \
	X(WEIGHT_LAYERS, "backward of weights, layers")                  \
	X(WEIGHT_DENSE, "backward of weights, dense layers")             \
	X(WEIGHT_TAIL, "backward of weights, embedding")                 \
	X(BACKWARD_TAIL, "backward embedding")                           \
	X(LAYER_FORWARD, "layer forward")                                \
	X(LAYER_BACKWARD, "layer backward")                              \
	X(JOIN, "join")                                                  \
	X(INDEX_EXCHANGE, "embedding index exchange")                    \
	X(INDEX_LAYOUT, "embedding index layout")                        \
	X(ROW_PREFETCH, "embedding row prefetch")                        \
	X(TABLE_LOOKUP, "embedding table lookup")                        \
	X(TABLE_UPDATE, "embedding table update")                        \
	X(REPLICA_LOOKUP, "replicated embedding lookup")                 \
	X(REPLICA_GRAD, "replicated embedding gradient")                 \
	X(OUTPUT_LAYOUT, "embedding output layout")                      \
	X(OUTPUT_EXCHANGE, "embedding output all-to-all")                \
	X(OUTPUT_SCATTER, "embedding output reduce-scatter")             \
	X(GRAD_EXCHANGE, "embedding gradient all-to-all")                \
	X(GRAD_GATHER, "embedding gradient all-gather")                  \
	X(BOTTOM_MLP, "gemm bottom mlp")                                 \
	X(BOTTOM_MLP_DGRAD, "gemm bottom mlp data gradient")             \
	X(BOTTOM_MLP_WGRAD, "gemm bottom mlp weight gradient")           \
	X(CROSS, "gemm cross layer")                                     \
	X(CROSS_DGRAD, "gemm cross layer data gradient")                 \
	X(CROSS_WGRAD, "gemm cross layer weight gradient")               \
	X(CROSS_COMBINE, "cross layer combine")                          \
	X(CROSS_COMBINE_GRAD, "cross layer combine gradient")            \
	X(INTERACTION, "feature interaction")                            \
	X(INTERACTION_GRAD, "feature interaction gradient")              \
	X(TOKEN_MLP, "gemm token mlp")                                   \
	X(TOKEN_MLP_DGRAD, "gemm token mlp data gradient")               \
	X(TOKEN_MLP_WGRAD, "gemm token mlp weight gradient")             \
	X(UVQK, "gemm uvqk")                                             \
	X(UVQK_DGRAD, "gemm uvqk data gradient")                         \
	X(UVQK_WGRAD, "gemm uvqk weight gradient")                       \
	X(JAGGED, "jagged attention")                                    \
	X(JAGGED_GRAD, "jagged attention gradient")                      \
	X(STU_OUTPUT, "gemm transducer output")                          \
	X(STU_OUTPUT_DGRAD, "gemm transducer output data gradient")      \
	X(STU_OUTPUT_WGRAD, "gemm transducer output weight gradient")    \
	X(STU_NORM, "transducer norms and gates")                        \
	X(STU_NORM_GRAD, "transducer norms and gates gradient")          \
	X(TOP_MLP, "gemm top mlp")                                       \
	X(TOP_MLP_DGRAD, "gemm top mlp data gradient")                   \
	X(TOP_MLP_WGRAD, "gemm top mlp weight gradient")                 \
	X(BCE_LOSS, "loss")                                              \
	X(INPUT_HOST, "input pipeline")

enum sc_op_name {
#define SC_OP_NAME_ENUM(id, text) SC_NAME_##id,
	SC_OP_NAMES(SC_OP_NAME_ENUM)
#undef SC_OP_NAME_ENUM
		SC_N_OP_NAMES
};
_Static_assert(SC_N_OP_NAMES <= 256, "sc_op_pack has eight bits for the name");
const char *sc_op_name(unsigned id);
/* An sc_op_info.tally_name for ids that are op names. */
const char *sc_op_tally_name(const void *ctx, unsigned id);

/* Says whether an op belongs to the passes and not to the iteration's end. */
static inline bool sc_op_is_of_pass(unsigned name)
{
	return name <= SC_NAME_MICRO_BATCH_HOST ||
	       (name >= SC_NAME_FORWARD && name <= SC_NAME_BACKWARD_TAIL);
}

/* A node's op id packs name, chunk and micro-batch. A part of a pass has in place of the
 * micro-batch its number of layers and, in the bits above, which of the pass's runs it is from. */
enum { SC_OP_LAYERS_BITS = 14 };
static inline unsigned sc_op_pack(unsigned name, unsigned chunk, unsigned micro_batch)
{
	return name | (chunk & 63u) << 8 | (micro_batch & 0x3ffffu) << 14;
}
static inline unsigned sc_op_unpack_name(unsigned op)
{
	return op & 255u;
}
static inline unsigned sc_op_unpack_chunk(unsigned op)
{
	return op >> 8 & 63u;
}
static inline unsigned sc_op_unpack_micro_batch(unsigned op)
{
	return op >> 14;
}
static inline unsigned sc_op_unpack_layers(unsigned op)
{
	return sc_op_unpack_micro_batch(op) & ((1u << SC_OP_LAYERS_BITS) - 1);
}
static inline unsigned sc_op_unpack_run(unsigned op)
{
	return sc_op_unpack_micro_batch(op) >> SC_OP_LAYERS_BITS;
}
