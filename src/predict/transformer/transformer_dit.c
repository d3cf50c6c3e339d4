/* Layers of diffusion transformers, as lists of parts. A double layer has two streams, patches and
 * a text, with weights of their own and one attention over both; a single layer runs attention and
 * feed-forward side by side (Esser et al., arXiv:2403.03206; black-forest-labs/flux,
 * modules/layers.py; in products as NeMo has it, flux/layers.py); a cross layer reads the text by
 * an attention of its own (Wan, arXiv:2503.20314). Norms have no weights: a sample's time and text
 * modulate them. The encoders of texts and images are frozen, and their outputs computed before. */
#include "predict/transformer/transformer_priv.h"

#define TIME_WIDTH 256.0 /* a time's sines and cosines (flux, timestep_embedding) */

/* Returns the text's share of the tokens; patches are the rest. */
static double text_share(const struct dims *x)
{
	return (double)x->model->dit.text_seq / x->s_all;
}

/* Puts a part that `share` of the tokens go through. */
static struct part *put_shared(struct part_list *to, double share, struct part part)
{
	struct part *out;

	part.share = share;
	part.kept *= share;
	out = part.kind == SC_PART_LINEAR ? put_linear(to, part) : part_put(to, part);
	out->macs *= share;
	return out;
}

/* Puts a product that every tensor-parallel rank has whole, in the storage's precision. */
static void put_apart(struct part_list *to, double share, struct part part)
{
	part.kind = SC_PART_APART;
	part.joined = part.copies = 1;
	part.macs = part.n * part.k;
	part.flags |= PART_REPLICATED;
	put_shared(to, share, part);
}

static void put_modulation(struct part_list *to, double widths)
{
	const double h = to->x->h;

	put_apart(to, 1 / to->x->s_all,
		  (struct part){0, SC_NAME_MODULATION, widths * h, h, widths * h, 0,
				.flags = PART_ONCE});
}

/* Puts a norm; unless fused (NeMo, AdaLN.modulated_layernorm) another kernel shifts and scales. */
static void put_modulated_norm(struct part_list *to, double share)
{
	const struct dims *x = to->x;

	put_shared(to, share,
		   (struct part){SC_PART_NORM, 0, x->h, x->sw->fused_chains ? 0 : x->h, x->h, 0,
				 PART_WHOLE, .scope = SC_GRAPH_ATTN});
}

static void put_gated_join(struct part_list *to, double share)
{
	const double h = to->x->h;

	put_shared(to, share,
		   (struct part){SC_PART_GATED_JOIN, 0, h, 0, to->x->lora ? h : 2 * h, 0,
				 .flags = PART_WHOLE});
}

/* Puts queries, keys and values of tokens; norms of queries and keys follow, for all streams. */
static void put_heads(struct part_list *to, double share)
{
	const struct dims *x = to->x;
	double n = x->heads * x->d + 2 * x->kv_heads * x->d;

	put_shared(to, share,
		   (struct part){SC_PART_LINEAR, SC_NAME_QKV, n, x->h, n * x->tp, 0,
				 .flags = PART_ADAPTED | PART_ENTERS});
}

/* Puts attention; `weights` are those of its norms, which are as wide as a head, or as all. */
static void put_attention_core(struct part_list *to, double weights)
{
	const struct dims *x = to->x;
	double q = x->heads * x->d, k = x->kv_heads * x->d;

	if (x->model->qk_norm > 0)
		part_put(to,
			 (struct part){SC_PART_NORM, 0, q, k, (q + k) * x->tp, .params = weights});
	part_put(to, (struct part){.kind = SC_PART_ROTARY});
	part_put(to, (struct part){SC_PART_ATTENTION, .kept = x->ctx * x->tp});
}

static void put_projection(struct part_list *to, double share)
{
	const struct dims *x = to->x;

	put_shared(to, share,
		   (struct part){SC_PART_LINEAR, SC_NAME_PROJ, x->h, x->ctx, 0, 0,
				 .flags = PART_ADAPTED | PART_LEAVES});
}

static void put_feed(struct part_list *to, double share)
{
	const struct dims *x = to->x;
	const double width = (double)x->model->ffn_hidden;
	const int adapted = x->req->config.training.lora_targets == SC_LORA_ALL ? PART_ADAPTED : 0;

	put_shared(to, share,
		   (struct part){SC_PART_LINEAR, SC_NAME_MLP_UP, x->ffn, x->h, width, 0,
				 adapted | PART_ENTERS, .scope = SC_GRAPH_MLP});
	put_shared(to, share,
		   (struct part){SC_PART_ACTIVATION, 0, x->ffn, width * share, .kept = width});
	put_shared(to, share,
		   (struct part){SC_PART_LINEAR, SC_NAME_MLP_DOWN, x->h, x->ffn, 0, 0,
				 adapted | PART_LEAVES, .scope = SC_GRAPH_MLP});
}

static void put_double(struct part_list *to)
{
	const double text = text_share(to->x), shares[2] = {1 - text, text};

	for (int i = 0; i < 2; i++)
		put_modulation(to, 6);
	for (int i = 0; i < 2; i++) {
		put_modulated_norm(to, shares[i]);
		put_heads(to, shares[i]);
	}
	part_put(to, (struct part){SC_PART_CONCAT, .n = 3 * to->x->ctx});
	put_attention_core(to, 4 * to->x->d);
	for (int i = 0; i < 2; i++) {
		put_projection(to, shares[i]);
		put_gated_join(to, shares[i]);
		put_modulated_norm(to, shares[i]);
		put_feed(to, shares[i]);
		put_gated_join(to, shares[i]);
	}
}

static void put_single(struct part_list *to)
{
	put_modulation(to, 3);
	put_modulated_norm(to, 1);
	put_heads(to, 1);
	put_attention_core(to, 2 * to->x->d);
	put_projection(to, 1);
	put_feed(to, 1);
	part_put(to, (struct part){SC_PART_CONCAT, .n = to->x->h, .flags = PART_WHOLE});
	put_gated_join(to, 1);
}

/* Puts a cross layer: one modulation, to which each adds a table; the text's norm has weights. */
static void put_cross(struct part_list *to)
{
	const struct dims *x = to->x;
	const double text = text_share(x), q = x->heads * x->d, kv = x->kv_heads * x->d;

	put_modulated_norm(to, 1);
	to->at[to->n - 1].params = 6 * x->h;
	put_heads(to, 1);
	put_attention_core(to, q + kv);
	put_projection(to, 1);
	put_gated_join(to, 1);
	part_put(to, (struct part){SC_PART_NORM, 0, x->h, 0, x->h, 0, PART_WHOLE, SC_GRAPH_ATTN,
				   .params = 2 * x->h});
	put_linear(to, (struct part){0, SC_NAME_Q_UP, q, x->h, 2 * q * x->tp, 0,
				     .flags = PART_ADAPTED | PART_ENTERS});
	put_shared(to, text,
		   (struct part){SC_PART_LINEAR, SC_NAME_KV_UP, 2 * kv, x->h, 3 * kv * x->tp, 0,
				 .flags = PART_ADAPTED | PART_ENTERS});
	part_put(to, (struct part){SC_PART_NORM, 0, q, 0, .params = q + kv});
	part_put(to, (struct part){SC_PART_CROSS, .kept = x->ctx * x->tp,
				   .macs = 2 * (double)x->model->dit.text_seq * q * x->tp});
	put_projection(to, 1);
	part_put(to, (struct part){SC_PART_JOIN, 0, x->h, 0, x->h, 0, .flags = PART_WHOLE});
	put_modulated_norm(to, 1);
	put_feed(to, 1);
	put_gated_join(to, 1);
}

void put_dit_layer(struct part_list *to, enum sc_mixer mixer)
{
	if (mixer == SC_MIX_DOUBLE)
		put_double(to);
	else if (mixer == SC_MIX_SINGLE)
		put_single(to);
	else
		put_cross(to);
}

/* Puts two layers from so wide an input to what modulates norms. */
static void put_condition(struct part_list *to, double width)
{
	const double h = to->x->h, once = 1 / to->x->s_all;

	put_apart(to, once,
		  (struct part){0, SC_NAME_MODULATION, h, width, h, 0, .flags = PART_INPUT});
	put_apart(to, once, (struct part){0, SC_NAME_MODULATION, h, h, h, 0, .flags = PART_ONCE});
}

static bool has_cross(const struct dims *x)
{
	return x->model->kinds[0].mixer == SC_MIX_CROSS;
}

void put_dit_lead(struct part_list *to)
{
	const struct dims *x = to->x;
	const struct sc_dit *dit = &x->model->dit;
	const double text = text_share(x), patches = has_cross(x) ? 1 : 1 - text;

	put_apart(to, patches,
		  (struct part){0, SC_NAME_PATCH, x->h, (double)dit->patch_dim, x->h, 0,
				.flags = PART_INPUT});
	if (text > 0)
		put_apart(to, text,
			  (struct part){0, SC_NAME_PATCH, x->h, (double)dit->text_dim, x->h, 0,
					.flags = PART_INPUT});
	put_condition(to, TIME_WIDTH);
	if (dit->pooled_dim > 0)
		put_condition(to, (double)dit->pooled_dim);
	if (has_cross(x)) {
		put_apart(to, text, (struct part){0, SC_NAME_PATCH, x->h, x->h, .kept = x->h});
		put_modulation(to, 6);
	}
}

void put_dit_tail(struct part_list *to)
{
	const struct dims *x = to->x;
	const double patches = has_cross(x) ? 1 : 1 - text_share(x);

	if (!has_cross(x))
		put_modulation(to, 2);
	put_modulated_norm(to, patches);
	if (has_cross(x))
		to->at[to->n - 1].params = 2 * x->h;
	put_apart(to, patches,
		  (struct part){0, SC_NAME_PATCH, (double)x->model->dit.patch_dim, .k = x->h});
}

static struct dims unquantized(const struct dims *x)
{
	struct dims out = *x;

	out.dtype = x->storage;
	out.quantized = false;
	return out;
}

void apart_forward(const struct dims *x, const struct part *p)
{
	const struct dims own = unquantized(x);

	if (p->flags & PART_ONCE)
		add_rowwise(x, SC_NAME_ACTIVATION, x->tokens * p->k * (2 * x->e), 1);
	add_linear(&own, p);
}

/* Frozen weights leave time and text nothing to learn. */
void apart_backward(const struct dims *x, const struct part *p)
{
	const struct dims own = unquantized(x);

	if (x->lora && p->flags & (PART_ONCE | PART_INPUT))
		return;
	if (!(p->flags & PART_INPUT))
		add_dgrad(&own, p);
	if (p->flags & PART_ONCE)
		add_rowwise(x, SC_NAME_ACTIVATION_GRAD, x->tokens * p->k * (3 * x->e), 1);
	add_wgrad(&own, p);
}

/* Copies streams into one sequence, and their gradients back; or sums a single layer's two
 * branches, whose gradient is that of both (NeMo, JointSelfAttention.forward and
 * FluxSingleTransformerBlock.forward). */
void concat_forward(const struct dims *x, const struct part *p)
{
	add_rowwise(x, SC_NAME_QKV_LAYOUT,
		    x->tokens * p->n * ((p->flags & PART_WHOLE ? 3 : 2) * x->e), 3);
}

void concat_backward(const struct dims *x, const struct part *p)
{
	if (!(p->flags & PART_WHOLE))
		add_rowwise(x, SC_NAME_QKV_LAYOUT, x->tokens * p->n * (2 * x->e), 3);
}

/* A bias is added before the gate by a kernel of its own (NeMo, MMDiTLayer.forward). */
void gated_join_forward(const struct dims *x, const struct part *p)
{
	double n = x->tokens_seq * p->n;

	if (x->biases)
		add_rowwise(x, SC_NAME_GATED_ADD, n * (2 * x->e), 1);
	if (x->sw->fused_chains)
		add_rowwise(x, SC_NAME_GATED_ADD, n * (3 * x->e), 1);
	else
		add_rowwise(x, SC_NAME_GATED_ADD, n * (5 * x->e), 2);
}

/* Adds the branch's gradient; sums over a sample's tokens for the gate, over all for the bias. */
void gated_join_backward(const struct dims *x, const struct part *p)
{
	double n = x->tokens_seq * p->n;

	if (x->lora)
		add_rowwise(x, SC_NAME_GATED_ADD_GRAD, n * (2 * x->e), 1);
	else
		add_rowwise(x, SC_NAME_GATED_ADD_GRAD, n * (5 * x->e), 3);
}

static void attend_text(const struct dims *x, bool backward)
{
	struct sc_op op = {SC_OP_ATTENTION,
			   x->storage,
			   {.attention = {.batch = x->b,
					  .heads = x->heads,
					  .kv_heads = x->kv_heads,
					  .seq_q = x->s,
					  .seq_kv = (double)x->model->dit.text_seq,
					  .head_dim = x->d,
					  .backward = backward}}};

	sc_block_add_op(x->block, x->env, backward ? SC_NAME_FLASH_GRAD : SC_NAME_FLASH, &op);
}

void cross_forward(const struct dims *x, const struct part *p)
{
	(void)p;
	attend_text(x, false);
}

void cross_backward(const struct dims *x, const struct part *p)
{
	(void)p;
	attend_text(x, true);
}
