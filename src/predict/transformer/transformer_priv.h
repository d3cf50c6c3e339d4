/* The interface between the files that list a Transformer's ops: sizes on one rank (struct dims), a
 * layer as parts, and the functions that add ops to a block. */
#pragma once

#include "predict/op_names.h"
#include "predict/transformer/transformer_ops.h"
#include "predict/transformer/transformer_parts.h"

enum { BLACKWELL = 100, BLACKWELL_ULTRA = 103 }; /* CUDA capability */
#define MASKED_FRACTION 0.15 /* of the positions (Devlin et al. 2019, section 3.1) */

/* Sizes on one rank of a tensor- and context-parallel group. */
struct dims {
	const struct sc_request *req;
	const struct sc_model *model;
	const struct sc_family_traits *traits;
	const struct sc_software *sw;
	const struct sc_block_env *env;
	struct sc_block *block;
	size_t *counted;              /* the first step that needs experts' counts on the host */
	enum sc_dtype dtype, storage; /* the products'; the memory's */
	double e;                     /* bytes of an activation's element */
	double b, s, s_all;           /* sequences; tokens of one on this rank, and in all */
	double tokens;
	double tokens_seq; /* outside the tensor-parallel region: / tp with sequence parallel */
	double tp, etp, h, heads, kv_heads, d, d_v; /* d: queries' and keys'; heads: this rank's */
	double all_kv_heads;                        /* on all ranks */
	double ctx;                                 /* the width of attention's output */
	double ffn, gates, vocab, expert_h;         /* expert_h: the width that experts read */
	bool all_keys;                              /* the layer has no window, where others have */
	bool keys_as_values;                        /* values are keys before their norm */
	bool inputs_only; /* backward leaves out the gradients of weights */
	bool stops_early; /* run again as far as backward needs */
	bool sp, dropout, lora, biases;
	bool quantized; /* products in fp8 or fp4, of tensors in bf16 */
};
struct dims dims_of(const struct sc_request *req, const struct sc_block_env *env, double samples,
		    struct sc_block *block);
/* Returns the sizes of a layer of this kind: heads may differ, and the precision of products. */
struct dims dims_of_kind(const struct dims *x, int kind);

/* A layer of the model, by its parts. */
struct layer {
	const struct dims *x;
	struct part at[SC_MAX_PARTS];
	int n;
	bool has_experts;
};
static inline struct layer layer_of(const struct dims *x, int kind)
{
	struct layer out = {.x = x};

	out.n = sc_parts_of(x, kind, out.at);
	out.has_experts = sc_model_kind(x->model, kind).feed == SC_FEED_EXPERTS;
	return out;
}
/* Returns the parts of a diffusion transformer before its layers, or behind them, where others have
 * a vocabulary. */
static inline struct layer dit_end_of(const struct dims *x, bool tail)
{
	struct layer out = {.x = x};
	struct part_list to = {x, out.at, 0};

	if (tail)
		put_dit_tail(&to);
	else
		put_dit_lead(&to);
	out.n = to.n;
	return out;
}
struct sc_params params_of(const struct layer *l);

struct mnk {
	double m, n, k;
};
void add_gemm(const struct dims *x, enum sc_op_name name, struct mnk size);
/* Says whether both operands of a weight gradient have scales of blocks along what it sums over. */
bool sums_scaled_blocks(const struct dims *x);
/* Adds a weight gradient m x n, summed over k rows. */
void sum_rows(const struct dims *x, enum sc_op_name name, struct mnk size);
/* Casts an operand to the products' fp8 or fp4, for use along its rows and its columns; other
 * precisions need none. */
double quantized_element_bytes(const struct dims *x);
void quantize(const struct dims *x, double n);
void add_linear(const struct dims *x, const struct part *l);
void add_dgrad(const struct dims *x, const struct part *l);
void add_wgrad(const struct dims *x, const struct part *l);
/* Adds a memory-bound op by the bytes it reads and writes. */
void add_rowwise(const struct dims *x, enum sc_op_name name, double bytes, int n_kernels);
void add_host(const struct dims *x, enum sc_op_name name, double us);
void add_tp(const struct dims *x, enum sc_collective kind, double n, int n_hidden);
/* Add the way into and out of a tensor-parallel region, with its first and its last layer. */
void enter_region(const struct dims *x, const struct part *first);
void leave_region(const struct dims *x, const struct part *last);
/* Add data and weight gradients of a region's last layer, and of its first, with collectives. */
void leave_region_backward(const struct dims *x, const struct part *last);
void enter_region_grad(const struct dims *x, const struct part *first, int n);
/* Adds the weight gradients alone of a region's first layers. */
void region_weights(const struct dims *x, const struct part *first, int n);
/* Add the weights' part of a micro-batch: casts before, accumulation of gradients after. */
void cast_weights(const struct dims *x, double params);
void accumulate_gradients(const struct dims *x, double dense, double expert);

/* Keeps products in the storage's precision. */
void keep_wide(struct dims *x);
/* Add norms and activations of n elements, and their gradients. */
void add_norm(const struct dims *x, double n);
void add_norm_grad(const struct dims *x, double n);
void add_activation(const struct dims *x, double n);
void add_activation_grad(const struct dims *x, double n);

/* These run the ends: the embedding, and the output layer with the loss. */
void embed_forward(const struct dims *x);
void embed_backward(const struct dims *x);
void head_forward(const struct dims *x);
void head_backward(const struct dims *x);
void head_weights(const struct dims *x);

/* These run parts: rotary positions of queries and keys or the gradient, all kinds of attention. */
void rotary(const struct dims *x, const struct part *p);
void rotary_grad(const struct dims *x, const struct part *p);
void attention_forward(const struct dims *x, const struct part *p);
void attention_backward(const struct dims *x, const struct part *p);
void sparse_forward(const struct dims *x, const struct part *p);
void sparse_backward(const struct dims *x, const struct part *p);
void conv_forward(const struct dims *x, const struct part *p);
void conv_backward(const struct dims *x, const struct part *p);
void scan_forward(const struct dims *x, const struct part *p);
void scan_backward(const struct dims *x, const struct part *p);
void apart_forward(const struct dims *x, const struct part *p);
void apart_backward(const struct dims *x, const struct part *p);
void gated_join_forward(const struct dims *x, const struct part *p);
void gated_join_backward(const struct dims *x, const struct part *p);
void concat_forward(const struct dims *x, const struct part *p);
void concat_backward(const struct dims *x, const struct part *p);
void cross_forward(const struct dims *x, const struct part *p);
void cross_backward(const struct dims *x, const struct part *p);
bool softmax_is_fused(const struct dims *x);
/* Says whether passes can run beside each other: tokens travel to experts on other ranks, no pass
 * runs in parts, which run alone, beside what they wait for, and the host waits for no block. */
bool sc_transformer_may_pair(const struct sc_request *req);
/* Adds dispatch and combine beside another micro-batch's layer if training.moe_overlap says so. */
void exchange_beside(const struct dims *x);
/* These run a mixture's parts: forward, backward, and the gradients of weights alone. */
void router_forward(const struct dims *x, const struct part *p);
void router_backward(const struct dims *x, const struct part *p);
void router_weights(const struct dims *x, const struct part *p);
void latent_forward(const struct dims *x, const struct part *p);
void latent_backward(const struct dims *x, const struct part *p);
void latent_weights(const struct dims *x, const struct part *p);
/* Returns what experts' exchanges bring, in elements a token: to its experts, and back. */
double exchanged_width(const struct dims *x);
/* Returns what an expert's input keeps where it is weighed, for the gradient of its weight. */
double weighed_width(const struct dims *x);
void experts_up_forward(const struct dims *x, const struct part *p);
void experts_up_backward(const struct dims *x, const struct part *p);
void experts_act_forward(const struct dims *x, const struct part *p);
void experts_act_again(const struct dims *x, const struct part *p);
void experts_act_backward(const struct dims *x, const struct part *p);
void experts_down_forward(const struct dims *x, const struct part *p);
void experts_down_backward(const struct dims *x, const struct part *p);
void experts_weights(const struct dims *x, const struct part *p);

void whole_layer_forward(const struct dims *x, int kind);
void layer_backward(const struct dims *x, int kind);

/* Add an activation function, and its gradient with the bias gradient's reduction. */
void add_activation(const struct dims *x, double n);
void add_activation_grad(const struct dims *x, double n);
