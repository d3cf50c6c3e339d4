/* Sparse attention: an indexer of a few narrow heads scores the keys before a token, and attention
 * reads the best of them (DeepSeek-V3.2, arXiv:2512.02556, section 2.1; its inference/model.py).
 * Over latent attention all heads read the compressed keys, which are the values, too. */
#include <math.h>

#include "predict/transformer/transformer_priv.h"

#define INDEX_BYTES 4.0

/* Return the elements of a key and value in a head's products, and a token's on this rank. */
static double head_width(const struct dims *x)
{
	const struct sc_model *m = x->model;

	return sc_model_is_mla(m) ? (double)(2 * m->kv_lora_rank + m->rope_head_dim)
				  : x->d + x->d_v;
}

static double entry_width(const struct dims *x)
{
	const struct sc_model *m = x->model;

	return sc_model_is_mla(m)       ? (double)(m->kv_lora_rank + m->rope_head_dim)
	       : m->csa.output_rank > 0 ? x->d /* keys are the values */
					: x->kv_heads * (x->d + x->d_v);
}

/* Puts the indexer. Queries come from the compressed ones, if there are any; one key for all heads,
 * with its norm, and a weight for each come from the layer's input. Each rank has all of it. */
void put_indexer(struct part_list *to)
{
	const struct dims *x = to->x;
	const struct sc_sparse_mixer *m = &x->model->dsa;
	const double heads = (double)m->index_heads, d = (double)m->index_dim;
	const bool latent = sc_model_is_mla(x->model);
	const bool compressed = latent && x->model->q_lora_rank > 0;
	/* Blocks are chosen by a head's highest score; scores have no weights (MiniMax-M3). */
	const double weights = m->block > 1 ? 0 : heads;

	put_linear(to, (struct part){0, SC_NAME_INDEX, heads * d,
				     compressed ? (double)x->model->q_lora_rank : x->h, heads * d,
				     .flags = PART_REPLICATED});
	put_linear(to, (struct part){0, SC_NAME_INDEX, d + weights, x->h, d + weights,
				     .flags = PART_REPLICATED})
		->params = weights > 0 ? 2 * d : 0;
}

/* Returns the tokens of a compressed key; 0: keys are not compressed. */
static double compression_of(const struct dims *x, enum sc_mixer mixer)
{
	return mixer == SC_MIX_CSA   ? (double)x->model->csa.compression
	       : mixer == SC_MIX_HCA ? (double)x->model->csa.heavy_compression
				     : 0;
}

/* It keeps what attention gives, before its values are expanded, and which keys it read. */
struct part *put_sparse(struct part_list *to, enum sc_mixer mixer)
{
	const struct dims *x = to->x;
	const double latents =
		sc_model_is_mla(x->model) ? x->heads * (double)x->model->kv_lora_rank : 0;
	const double there = x->s_all / fmax(compression_of(x, mixer), 1);
	const double chosen = mixer == SC_MIX_HCA ? 0 : fmin((double)x->model->dsa.top_k, there);
	const double keys = chosen / (double)x->model->dsa.block;

	return part_put(
		to, (struct part){SC_PART_SPARSE,
				  .kept = (x->ctx + latents + keys * INDEX_BYTES / x->e) * x->tp,
				  .mixer = mixer});
}

/* Puts keys and gates of `d` channels, whose weighted sum over a key's tokens it is; those of
 * neighbouring keys overlap where the best are chosen (DeepSeek-V4, inference/model.py). */
static void put_compressor(struct part_list *to, enum sc_op_name name, double d, bool overlaps)
{
	const double channels = (overlaps ? 2 : 1) * d;
	const double r = compression_of(to->x, overlaps ? SC_MIX_CSA : SC_MIX_HCA);

	put_linear(to, (struct part){0, name, 2 * channels, to->x->h, 2 * channels,
				     .flags = PART_REPLICATED})
		->params = r * channels + d;
}

void put_compressed(struct part_list *to, enum sc_mixer mixer)
{
	const struct dims *x = to->x;
	const struct sc_compressed_mixer *m = &x->model->csa;
	const double rank = (double)x->model->q_lora_rank, q = x->heads * x->d;
	const double out = (double)m->output_rank, groups = (double)m->output_groups / x->tp;
	const bool chooses = mixer == SC_MIX_CSA;

	put_linear(to, (struct part){0, SC_NAME_Q_DOWN, rank, x->h, 2 * rank,
				     .flags = PART_REPLICATED | PART_ENTERS})
		->params = rank;
	put_linear(to, (struct part){0, SC_NAME_Q_UP, q, rank, q * x->tp, .flags = PART_ADAPTED});
	put_linear(to, (struct part){0, SC_NAME_KV_DOWN, x->d, x->h, 2 * x->d,
				     .flags = PART_REPLICATED})
		->params = x->d;
	put_compressor(to, SC_NAME_KV_DOWN, x->d, chooses);
	if (chooses) {
		const double index = (double)x->model->dsa.index_heads,
			     d = (double)x->model->dsa.index_dim;

		put_linear(to, (struct part){0, SC_NAME_INDEX, index * d, rank, index * d,
					     .flags = PART_REPLICATED});
		put_linear(to, (struct part){0, SC_NAME_INDEX, index, x->h, index,
					     .flags = PART_REPLICATED});
		put_compressor(to, SC_NAME_INDEX, d, true);
	}
	part_put(to, (struct part){.kind = SC_PART_NORM, .n = rank + x->d});
	part_put(to, (struct part){SC_PART_ROTARY, 0, .kept = q * x->tp, .mixer = mixer});
	put_sparse(to, mixer)->params = x->heads; /* sinks */
	/* Each group's heads have a matrix: as many multiply-adds as one that all heads share. */
	put_linear(to, (struct part){0, SC_NAME_PROJ, out, q, groups * out * x->tp,
				     .flags = PART_ADAPTED})
		->kind = SC_PART_INNER;
	put_linear(to, (struct part){0, SC_NAME_PROJ, x->h, groups * out, 0,
				     .flags = PART_ADAPTED | PART_LEAVES});
}

double sparse_macs(const struct dims *x, enum sc_mixer mixer, bool causal)
{
	const struct sc_sparse_mixer *m = &x->model->dsa;
	const bool scores = mixer == SC_MIX_DSA || mixer == SC_MIX_CSA;
	const double index = scores ? (double)(m->index_heads * m->index_dim) : 0;
	const double r = compression_of(x, mixer);
	const double reach = mixer == SC_MIX_HCA ? x->s_all : (double)m->top_k * r;

	if (r > 0)
		return (double)x->model->heads * head_width(x) *
			       (mean_keys(reach, x->s_all, causal) / r +
				mean_keys((double)x->model->sliding_window, x->s_all, causal)) +
		       index * mean_keys(x->s_all, x->s_all, causal) / r;
	return (double)x->model->heads * head_width(x) *
		       mean_keys((double)m->top_k, x->s_all, causal) +
	       index * mean_keys(x->s_all, x->s_all, causal);
}

static void sparse(const struct dims *x, const struct part *p, bool backward)
{
	const struct sc_sparse_mixer *m = &x->model->dsa;
	const bool scores = p->mixer == SC_MIX_DSA || p->mixer == SC_MIX_CSA;
	const double r = compression_of(x, p->mixer);
	struct sc_op op = {SC_OP_SPARSE,
			   x->storage,
			   {.sparse = {.kind = p->mixer == SC_MIX_CSA   ? SC_SPARSE_COMPRESSED_TOP_K
					       : p->mixer == SC_MIX_HCA ? SC_SPARSE_COMPRESSED
					       : m->block > 1           ? SC_SPARSE_BLOCKS
									: SC_SPARSE_TOP_K,
				       .compression = r,
				       .window = r > 0 ? (double)x->model->sliding_window : 0,
				       .batch = x->b,
				       .seq = x->s,
				       .heads = x->heads,
				       .dims = head_width(x),
				       .entry_bytes = entry_width(x) * x->e,
				       .top_k = p->mixer == SC_MIX_HCA ? 0 : (double)m->top_k,
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
