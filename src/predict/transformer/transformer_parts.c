/* The list of a layer's parts, from the model's sizes. What a part costs is not known here. */
#include "predict/transformer/transformer_parts.h"

#include "predict/transformer/transformer_priv.h"

struct part_list {
	const struct dims *x;
	struct part *at;
	int n;
};

static void part_put(struct part_list *to, struct part part)
{
	to->at[to->n++] = part;
}

static void put_linear(struct part_list *to, struct part part)
{
	part.kind = SC_PART_LINEAR;
	part.copies = 1;
	part.joined = part.joined > 0 ? part.joined : 1;
	part.biased = to->x->biases;
	if (!(part.macs > 0))
		part.macs = part.n * part.k * (part.replicated ? 1 : to->x->tp);
	part_put(to, part);
}

/* A norm of the residual stream. */
static void put_norm(struct part_list *to, double kept, int again)
{
	const struct dims *x = to->x;

	part_put(to, (struct part){.kind = SC_PART_NORM,
				   .n = x->h,
				   .params = (x->traits->rms_norm ? 1 : 2) * x->h,
				   .kept = kept,
				   .whole = true,
				   .again = again,
				   .scope = SC_GRAPH_ATTN});
}

/* Its output, which the next norm reads, stays whatever is run again. */
static void put_join(struct part_list *to)
{
	const struct dims *x = to->x;

	part_put(to, (struct part){.kind = SC_PART_JOIN,
				   .n = x->h,
				   .kept = x->h,
				   .mask = x->dropout ? x->h : 0,
				   .whole = true,
				   .again = x->dropout ? SC_RECOMPUTE_DROPOUT : 0});
}

/* Of queries and of keys, by a kernel each. */
static void put_head_norms(struct part_list *to, double kept)
{
	const struct dims *x = to->x;

	if (x->model->qk_norm > 0)
		part_put(to, (struct part){.kind = SC_PART_NORM,
					   .n = x->heads * x->d,
					   .k = x->kv_heads * x->d,
					   .kept = kept});
}

/* Queries, keys and values; queries and keys also before their norm. */
static void put_qkv(struct part_list *to)
{
	const struct dims *x = to->x;
	const struct sc_model *m = x->model;
	double q = (double)m->heads * (double)m->head_dim;
	double k = (double)m->kv_heads * (double)m->head_dim;
	double kv = x->kv_heads * (x->d + x->d_v), all_kv = (double)m->kv_heads * (x->d + x->d_v);

	put_linear(to, (struct part){.name = SC_NAME_QKV,
				     .n = x->heads * x->d + kv,
				     .k = x->h,
				     .macs = (x->heads * x->d * x->tp + all_kv) * x->h,
				     .kept = q + 2 * k,
				     .adapter = true,
				     .region = SC_REGION_ENTERS});
	put_head_norms(to, q + k);
	part_put(to, (struct part){.kind = SC_PART_ROTARY});
}

/* Latent attention (DeepSeek-V2, §2.1): keys are built by joining a rotary part to what is expanded from the compressed
 * ones, which stays for its values; compressed ones before and after their norm. */
static void put_latent(struct part_list *to)
{
	const struct dims *x = to->x;
	const struct sc_model *m = x->model;
	double q_lora = (double)m->q_lora_rank, kv_lora = (double)m->kv_lora_rank;
	double q = (double)m->heads * (double)(m->head_dim + m->rope_head_dim);
	double up = (double)m->heads * (double)(m->head_dim + m->v_head_dim);
	const int again = SC_RECOMPUTE_MLA_UP;

	if (q_lora > 0)
		put_linear(to, (struct part){.name = SC_NAME_Q_DOWN,
					     .n = q_lora,
					     .k = x->h,
					     .kept = 2 * q_lora,
					     .replicated = true,
					     .region = SC_REGION_ENTERS});
	put_linear(to, (struct part){.name = SC_NAME_Q_UP,
				     .n = x->heads * x->d,
				     .k = q_lora > 0 ? q_lora : x->h,
				     .kept = q,
				     .again = again,
				     .adapter = true,
				     .region = q_lora > 0 ? SC_REGION_NONE : SC_REGION_ENTERS});
	put_linear(to, (struct part){.name = SC_NAME_KV_DOWN,
				     .n = kv_lora + (double)m->rope_head_dim,
				     .k = x->h,
				     .kept = 2 * kv_lora,
				     .replicated = true});
	put_linear(to, (struct part){.name = SC_NAME_KV_UP,
				     .n = x->heads * ((double)m->head_dim + x->d_v),
				     .k = kv_lora,
				     .kept = up,
				     .again = again,
				     .adapter = true});
	part_put(to, (struct part){.kind = SC_PART_NORM, .n = q_lora + kv_lora, .again = again});
	put_head_norms(to, 0);
	part_put(to, (struct part){.kind = SC_PART_ROTARY, .kept = q, .again = again});
}

static void put_attention(struct part_list *to)
{
	const struct dims *x = to->x;
	const struct sc_model *m = x->model;
	double v = (double)(sc_model_is_mla(m) ? m->v_head_dim : m->head_dim);

	if (sc_model_is_mla(m))
		put_latent(to);
	else
		put_qkv(to);
	part_put(to, (struct part){.kind = SC_PART_ATTENTION, .kept = (double)m->heads * v});
	put_linear(to, (struct part){.name = SC_NAME_PROJ,
				     .n = x->h,
				     .k = x->ctx,
				     .adapter = true,
				     .region = SC_REGION_LEAVES});
}

/* Inputs of frozen layers are only kept where adapters read them. */
static bool keeps_ffn_inputs(const struct dims *x)
{
	return !x->lora || x->req->config.training.lora_targets == SC_LORA_ALL;
}

/* As wide on all ranks together; `shared`: an expert that every token takes. */
static void put_mlp(struct part_list *to, double width, bool shared)
{
	const struct dims *x = to->x;
	bool adapted = x->req->config.training.lora_targets == SC_LORA_ALL;
	int again = shared ? SC_RECOMPUTE_MOE | SC_RECOMPUTE_SHARED_EXPERTS : SC_RECOMPUTE_MLP;
	int scope = shared ? SC_GRAPH_MOE | SC_GRAPH_ROUTER : SC_GRAPH_MLP;
	double ffn = width / x->tp;

	put_linear(to, (struct part){.name = SC_NAME_MLP_UP,
				     .n = x->gates * ffn,
				     .k = x->h,
				     .joined = x->gates,
				     .kept = x->gates * width,
				     .again = again,
				     .adapter = adapted,
				     .region = SC_REGION_ENTERS,
				     .scope = scope});
	part_put(to, (struct part){.kind = SC_PART_ACTIVATION,
				   .n = ffn,
				   .k = width,
				   .kept = keeps_ffn_inputs(x) ? width : 0,
				   .again = shared ? again : again | SC_RECOMPUTE_MLP_ACT});
	put_linear(to, (struct part){.name = SC_NAME_MLP_DOWN,
				     .n = x->h,
				     .k = ffn,
				     .again = again,
				     .adapter = adapted,
				     .region = SC_REGION_LEAVES,
				     .scope = scope});
}

/* The router keeps logits and probabilities. Tokens sent to experts stay as their input in the experts' order, and as
 * their output, which backward needs for the weights they are added with. */
static void put_experts(struct part_list *to)
{
	const struct dims *x = to->x;
	const struct sc_model *m = x->model;
	double n = (double)m->experts, top_k = (double)m->top_k,
	       width = (double)m->expert_ffn_hidden;
	double held = n / (double)x->req->config.parallel.ep, ffn = width / x->etp;
	double routed = top_k * x->req->config.training.expert_imbalance;

	part_put(to, (struct part){.kind = SC_PART_ROUTER,
				   .scope = SC_GRAPH_MOE | SC_GRAPH_ROUTER,
				   .name = SC_NAME_ROUTER,
				   .n = n,
				   .k = x->h,
				   .copies = 1,
				   .macs = n * x->h,
				   .kept = 2 * n,
				   .again = SC_RECOMPUTE_MOE});
	part_put(to, (struct part){.kind = SC_PART_EXPERTS_UP,
				   .scope = SC_GRAPH_MOE,
				   .name = SC_NAME_EXPERT_UP,
				   .n = x->gates * ffn,
				   .k = x->h,
				   .copies = held,
				   .joined = x->gates,
				   .macs = x->gates * top_k * width * x->h,
				   .kept = routed * ((double)m->hidden + x->gates * width),
				   .again = SC_RECOMPUTE_MOE,
				   .biased = x->biases});
	part_put(to, (struct part){.kind = SC_PART_EXPERTS_ACTIVATION,
				   .scope = SC_GRAPH_MOE,
				   .n = ffn,
				   .k = top_k * width,
				   .kept = keeps_ffn_inputs(x) ? routed * width : 0,
				   .again = SC_RECOMPUTE_MOE | SC_RECOMPUTE_MOE_ACT});
	part_put(to, (struct part){.kind = SC_PART_EXPERTS_DOWN,
				   .scope = SC_GRAPH_MOE,
				   .name = SC_NAME_EXPERT_DOWN,
				   .n = x->h,
				   .k = ffn,
				   .copies = held,
				   .joined = 1,
				   .macs = top_k * width * x->h,
				   .kept = routed * (double)m->hidden,
				   .again = SC_RECOMPUTE_MOE,
				   .biased = x->biases});
	if (m->shared_experts > 0)
		put_mlp(to, width * (double)m->shared_experts, true);
}

int sc_parts_of(const struct dims *x, bool experts, struct part out[SC_MAX_PARTS])
{
	struct part_list to = {x, out, 0};
	/* Norms fused with the product behind them are none of their own, as those of layers without experts often are. */
	bool apart = experts || x->sw->norms_apart;

	put_norm(&to, x->h, SC_RECOMPUTE_NORMS);
	put_attention(&to);
	put_join(&to);
	put_norm(&to, keeps_ffn_inputs(x) ? x->h : 0, apart ? SC_RECOMPUTE_NORMS : 0);
	if (experts)
		put_experts(&to);
	else
		put_mlp(&to, (double)x->model->ffn_hidden, false);
	put_join(&to);
	return to.n;
}
