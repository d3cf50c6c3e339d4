/* Sparse attention: an indexer of a few narrow heads scores the keys before a token, and attention reads the best of them
 * (DeepSeek-V3.2, arXiv:2512.02556, section 2.1; its inference/model.py). Over latent attention all heads read the
 * compressed keys, which are the values, too. */
#include <math.h>

#include "predict/transformer/transformer_priv.h"

#define INDEX_BYTES 4.0

/* Elements of a key and a value that a head multiplies, and of those that a token's are on this rank. */
static double head_width(const struct dims *x)
{
	const struct sc_model *m = x->model;

	return sc_model_is_mla(m) ? (double)(2 * m->kv_lora_rank + m->rope_head_dim)
				  : x->d + x->d_v;
}

static double entry_width(const struct dims *x)
{
	const struct sc_model *m = x->model;

	return sc_model_is_mla(m) ? (double)(m->kv_lora_rank + m->rope_head_dim)
				  : x->kv_heads * (x->d + x->d_v);
}

/* Queries come of the compressed ones, if the model has them; one key for all heads, with its norm, and a weight for each
 * come of the layer's input. Each rank has all of it. */
void put_indexer(struct part_list *to)
{
	const struct dims *x = to->x;
	const struct sc_sparse_mixer *m = &x->model->dsa;
	const double heads = (double)m->index_heads, d = (double)m->index_dim;
	const bool latent = sc_model_is_mla(x->model);
	const bool compressed = latent && x->model->q_lora_rank > 0;
	/* Blocks are chosen by the highest of a head's scores, which have no weights (MiniMax-M3). */
	const double weights = m->block > 1 ? 0 : heads;

	put_linear(to, (struct part){0, SC_NAME_INDEX, heads * d,
				     compressed ? (double)x->model->q_lora_rank : x->h, heads * d,
				     .flags = PART_REPLICATED});
	put_linear(to, (struct part){0, SC_NAME_INDEX, d + weights, x->h, d + weights,
				     .flags = PART_REPLICATED})
		->params = weights > 0 ? 2 * d : 0;
}

/* Kept are what attention gives, before its values are expanded, and which keys it read. */
void put_sparse(struct part_list *to, enum sc_mixer mixer)
{
	const struct dims *x = to->x;
	const double latents =
		sc_model_is_mla(x->model) ? x->heads * (double)x->model->kv_lora_rank : 0;
	const double keys =
		fmin((double)x->model->dsa.top_k, x->s_all) / (double)x->model->dsa.block;

	part_put(to, (struct part){SC_PART_SPARSE,
				   .kept = (x->ctx + latents + keys * INDEX_BYTES / x->e) * x->tp,
				   .mixer = mixer});
}

double sparse_macs(const struct dims *x, enum sc_mixer mixer, bool causal)
{
	const struct sc_sparse_mixer *m = &x->model->dsa;
	const double index = mixer == SC_MIX_DSA ? (double)(m->index_heads * m->index_dim) : 0;

	return (double)x->model->heads * head_width(x) *
		       mean_keys((double)m->top_k, x->s_all, causal) +
	       index * mean_keys(x->s_all, x->s_all, causal);
}

static void sparse(const struct dims *x, const struct part *p, bool backward)
{
	const struct sc_sparse_mixer *m = &x->model->dsa;
	const bool scores = p->mixer == SC_MIX_DSA;
	struct sc_op op = {SC_OP_SPARSE,
			   x->storage,
			   {.sparse = {.kind = m->block > 1 ? SC_SPARSE_BLOCKS : SC_SPARSE_TOP_K,
				       .batch = x->b,
				       .seq = x->s,
				       .heads = x->heads,
				       .dims = head_width(x),
				       .entry_bytes = entry_width(x) * x->e,
				       .top_k = (double)m->top_k,
				       .index_heads = scores ? (double)m->index_heads : 0,
				       .index_dim = (double)m->index_dim,
				       .backward = backward}}};

	sc_block_add_op(x->block, x->env, backward ? SC_NAME_SPARSE_GRAD : SC_NAME_SPARSE, &op);
}

void sparse_forward(const struct dims *x, const struct part *p)
{
	sparse(x, p, false);
}

void sparse_backward(const struct dims *x, const struct part *p)
{
	if (sc_recomputes(x->req, SC_RECOMPUTE_CORE_ATTN))
		sparse(x, p, false);
	sparse(x, p, true);
}
