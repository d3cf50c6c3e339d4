/* The list of a layer's parts, from the model's sizes: norms, projections, attention of any kind,
 * feed-forward or experts. This file does not know what a part costs. */
#include "predict/transformer/transformer_parts.h"

#include "predict/transformer/transformer_priv.h"

enum { MOE_BEGINS = SC_GRAPH_MOE | SC_GRAPH_ROUTER };

struct part *part_put(struct part_list *to, struct part part)
{
	to->at[to->n] = part;
	return &to->at[to->n++];
}

struct part *put_linear(struct part_list *to, struct part part)
{
	double ranks = part.flags & PART_REPLICATED ? 1 : to->x->tp;

	part.kind = SC_PART_LINEAR;
	part.joined = part.copies = 1;
	part.macs = part.n * part.k * ranks;
	return part_put(to, part);
}

/* Puts a norm of the residual stream. */
static void put_norm(struct part_list *to, double kept, int again)
{
	const struct dims *x = to->x;

	part_put(to, (struct part){SC_PART_NORM, 0, x->h, 0, kept, again, PART_WHOLE, SC_GRAPH_ATTN,
				   .params = (x->traits->rms_norm ? 1 : 2) * x->h});
}

/* Puts a sub-layer's end; its output, which the next norm reads, stays whatever is run again. */
static void put_join(struct part_list *to)
{
	const struct dims *x = to->x;
	/* Streams are read twice, once for their weights and sum, and written (DeepSeek-V4,
	 * hyper-connections): as many passes of an addition, which has three. */
	const double m = sc_model_streams(x->model), width = m > 1 ? (4 * m + 2) / 3 * x->h : x->h;
	const double mixing = m > 1 ? (2 + m) * m : 0;

	part_put(to, (struct part){SC_PART_JOIN, 0, width, 0, m * x->h,
				   x->dropout ? SC_RECOMPUTE_DROPOUT : 0, PART_WHOLE,
				   .mask = x->dropout ? x->h : 0, .macs = mixing * m * x->h,
				   .params = mixing > 0 ? mixing * (m * x->h + 1) + 3 : 0});
}

/* Puts norms of queries and of keys, by a kernel each. */
static void put_head_norms(struct part_list *to, double kept)
{
	const struct dims *x = to->x;

	if (x->model->qk_norm > 0)
		part_put(to, (struct part){SC_PART_NORM, 0, x->heads * x->d, x->kv_heads * x->d,
					   .kept = kept});
}

/* Puts queries, keys and values; it keeps queries and keys also before their norm. */
static void put_qkv(struct part_list *to, enum sc_mixer mixer)
{
	const struct dims *x = to->x;
	const double key_value = x->d + (x->keys_as_values ? 0 : x->d_v);
	double q = x->heads * x->d, kv = x->kv_heads * key_value;
	double all_q = q * x->tp, all_kv = x->all_kv_heads * key_value;
	double all_k = x->all_kv_heads * x->d;
	double gate = x->model->attention_gate > 0 ? q : 0;

	put_linear(to, (struct part){0, SC_NAME_QKV, q + kv + gate, x->h,
				     all_q + 2 * all_k + gate * x->tp, 0,
				     .flags = PART_ADAPTED | PART_ENTERS})
		->macs = (all_q + all_kv + gate * x->tp) * x->h;
	if (mixer == SC_MIX_DSA)
		put_indexer(to);
	put_head_norms(to, all_q + all_k);
	part_put(to, (struct part){.kind = SC_PART_ROTARY});
}

/* Puts latent attention (DeepSeek-V2, §2.1): keys are built by joining a rotary part to what is
 * expanded from the compressed ones, which stays for its values; compressed ones stay before and
 * after their norm. */
static void put_latent(struct part_list *to, enum sc_mixer mixer)
{
	const struct dims *x = to->x;
	const struct sc_model *m = x->model;
	double q_lora = (double)m->q_lora_rank, kv_lora = (double)m->kv_lora_rank;
	double q = x->heads * x->d, up = x->heads * ((double)m->head_dim + x->d_v);
	const int again = SC_RECOMPUTE_MLA_UP;
	/* Sparse attention reads compressed keys: what expands them multiplies its queries and its
	 * outputs. */
	const bool absorbs = sc_mixer_is_sparse(mixer);
	const double joined = absorbs ? x->heads * (kv_lora + (double)m->rope_head_dim) : q;
	int enters = PART_ENTERS;

	/* The first of those that read the layer's input enters for all of them. */
	if (m->attention_gate > 0) {
		put_linear(to, (struct part){0, SC_NAME_GATES, x->ctx, x->h, x->ctx * x->tp,
					     .flags = PART_ADAPTED | PART_ENTERS});
		enters = 0;
	}
	if (q_lora > 0) {
		put_linear(to, (struct part){0, SC_NAME_Q_DOWN, q_lora, x->h, 2 * q_lora, 0,
					     .flags = PART_REPLICATED | enters});
		enters = 0;
	}
	put_linear(to, (struct part){0, SC_NAME_Q_UP, q, q_lora > 0 ? q_lora : x->h, q * x->tp,
				     again, .flags = PART_ADAPTED | enters});
	put_linear(to, (struct part){0, SC_NAME_KV_DOWN, kv_lora + (double)m->rope_head_dim, x->h,
				     2 * kv_lora, 0, .flags = PART_REPLICATED});
	put_linear(to, (struct part){0, SC_NAME_KV_UP, up, kv_lora, absorbs ? 0 : up * x->tp, again,
				     .flags = PART_ADAPTED});
	if (mixer == SC_MIX_DSA)
		put_indexer(to);
	part_put(to, (struct part){SC_PART_NORM, 0, q_lora + kv_lora, 0, 0, .again = again});
	put_head_norms(to, 0);
	part_put(to, (struct part){SC_PART_ROTARY, 0, 0, 0, joined * x->tp, .again = again,
				   .mixer = mixer});
}

static void put_attention(struct part_list *to, enum sc_mixer mixer)
{
	const struct dims *x = to->x;

	if (sc_model_is_mla(x->model))
		put_latent(to, mixer);
	else
		put_qkv(to, mixer);
	if (sc_mixer_is_sparse(mixer))
		put_sparse(to, mixer);
	else
		part_put(to, (struct part){SC_PART_ATTENTION, .kept = x->ctx * x->tp,
					   .params = x->model->attention_sinks > 0 ? x->heads : 0});
	if (x->model->attention_gate > 0)
		part_put(to, (struct part){SC_PART_GATE, 0, x->ctx, .kept = x->ctx * x->tp});
	put_linear(to, (struct part){0, SC_NAME_PROJ, x->h, x->ctx, 0, 0,
				     .flags = PART_ADAPTED | PART_LEAVES});
}

/* Says whether inputs are kept: frozen layers' are only where adapters read them. */
static bool keeps_ffn_inputs(const struct dims *x)
{
	return !x->lora || x->req->config.training.lora_targets == SC_LORA_ALL;
}

/* Returns what an activation of this width keeps beside its input: the next product's, and its own
 * output where another product reads it. */
static double activation_kept(const struct dims *x, double width)
{
	return ((keeps_ffn_inputs(x) ? 1 : 0) + (x->traits->gated && x->sw->keeps_gate ? 1 : 0)) *
	       width;
}

/* Puts a feed-forward part, as wide on all ranks together; `shared`: every token's expert. */
static void put_mlp(struct part_list *to, double width, bool shared)
{
	const struct dims *x = to->x;
	int adapted = x->req->config.training.lora_targets == SC_LORA_ALL ? PART_ADAPTED : 0;
	int again = shared ? SC_RECOMPUTE_MOE | SC_RECOMPUTE_SHARED_EXPERTS : SC_RECOMPUTE_MLP;
	int scope = shared ? MOE_BEGINS : SC_GRAPH_MLP;
	double ffn = width / x->tp, all = x->gates * width;

	put_linear(to, (struct part){0, SC_NAME_MLP_UP, x->gates * ffn, x->h, all, again,
				     adapted | PART_ENTERS, .scope = scope})
		->joined = x->gates;
	part_put(to, (struct part){SC_PART_ACTIVATION, 0, ffn, width, activation_kept(x, width),
				   .again = shared ? again : again | SC_RECOMPUTE_MLP_ACT});
	put_linear(to, (struct part){0, SC_NAME_MLP_DOWN, x->h, ffn, 0, again,
				     adapted | PART_LEAVES, .scope = scope});
}

/* Puts a mixture. The router keeps logits and probabilities. Tokens sent to experts stay as their
 * input in the experts' order. Their output stays where it is multiplied by those probabilities;
 * stacks since 2025 multiply the activation or the input (Megatron Core, experts.py:
 * weighted_bias_swiglu_impl; torchtitan, moe.py: score_before_experts). */
static void put_experts(struct part_list *to)
{
	const struct dims *x = to->x;
	const struct sc_model *m = x->model;
	double n = (double)m->experts, held = n / (double)x->req->config.parallel.ep;
	double width = (double)m->expert_ffn_hidden, ffn = width / x->etp, h = x->expert_h;
	double takes = (double)m->top_k * width;
	double routed = (double)m->top_k * x->req->config.training.expert_imbalance;
	const int again = SC_RECOMPUTE_MOE;

	part_put(to, (struct part){SC_PART_ROUTER, SC_NAME_ROUTER, n, x->h, 2 * n, again, 0,
				   MOE_BEGINS, .copies = 1, .macs = n * x->h});
	if (m->expert_latent > 0)
		part_put(to, (struct part){SC_PART_LATENT, SC_NAME_LATENT, h, x->h, h, again, 0,
					   MOE_BEGINS, 0, 1, 1, .macs = h * x->h});
	part_put(to, (struct part){SC_PART_EXPERTS_UP, SC_NAME_EXPERT_UP, x->gates * ffn, h,
				   routed * (h + weighed_width(x) + x->gates * width), again, 0,
				   SC_GRAPH_MOE, 0, x->gates, held, .macs = x->gates * takes * h});
	part_put(to, (struct part){SC_PART_EXPERTS_ACTIVATION, 0, ffn, takes,
				   activation_kept(x, routed * width), again | SC_RECOMPUTE_MOE_ACT,
				   0, .scope = SC_GRAPH_MOE});
	part_put(to, (struct part){SC_PART_EXPERTS_DOWN, SC_NAME_EXPERT_DOWN, h, ffn,
				   x->sw->keeps_expert_outputs ? routed * h : 0, again, 0,
				   SC_GRAPH_MOE, 0, 1, held, .macs = takes * h});
	if (m->expert_latent > 0)
		part_put(to, (struct part){SC_PART_LATENT, SC_NAME_LATENT, x->h, h, h, again, 0,
					   MOE_BEGINS, 0, 1, 1, .macs = h * x->h});
	if (m->shared_experts > 0)
		put_mlp(to, width * (double)m->shared_experts, true);
}

int sc_parts_of(const struct dims *x, int kind, struct part out[SC_MAX_PARTS])
{
	const struct sc_layer_kind of = sc_model_kind(x->model, kind);
	const bool experts = of.feed == SC_FEED_EXPERTS;
	struct part_list to = {x, out, 0};
	/* Norms fused with the product behind them are not run again, as those of layers without
	 * experts often are. */
	bool apart = experts || x->sw->norms_apart;

	if (x->traits->denoises) {
		put_dit_layer(&to, of.mixer);
		return to.n;
	}
	if (of.mixer != SC_MIX_NONE) {
		put_norm(&to, x->h, SC_RECOMPUTE_NORMS);
		if (of.mixer >= SC_MIX_FIRST_LINEAR)
			put_linear_attention(&to, of.mixer);
		else if (of.mixer == SC_MIX_CSA || of.mixer == SC_MIX_HCA)
			put_compressed(&to, of.mixer);
		else
			put_attention(&to, of.mixer);
		put_join(&to);
	}
	if (of.feed == SC_FEED_NONE)
		return to.n;
	put_norm(&to, keeps_ffn_inputs(x) ? x->h : 0, apart ? SC_RECOMPUTE_NORMS : 0);
	if (experts)
		put_experts(&to);
	else
		put_mlp(&to, (double)x->model->ffn_hidden, false);
	put_join(&to);
	return to.n;
}
