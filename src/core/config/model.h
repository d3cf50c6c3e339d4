/* The model of a request: its family, its layers by kind, and a DLRM's tables. Keys:
 * docs/keys.md. */
#pragma once

#include "base/fields.h"
#include "core/embedding/embedding.h"

enum sc_family {
	SC_FAMILY_NONE,
	SC_GPT,
	SC_LLAMA,
	SC_MPT,
	SC_BERT,
	SC_OPT,
	SC_MOE,
	SC_MOE_MLA,
	SC_DLRM,
	SC_LAYERS, /* rows of a table, data parallel */
	SC_NEMOTRON_H,
	SC_DIT,   /* diffusion transformers */
	SC_VISION /* a tower's layers; no config names it */
};
/* A layer's tokens are mixed by: nothing; attention, with the model's window or without; in a
 * diffusion transformer joint attention of two streams, of one, or of one that then reads a text;
 * linear attention. */
enum sc_mixer {
	SC_MIX_NONE,
	SC_MIX_ATTENTION,
	SC_MIX_FULL,
	SC_MIX_DOUBLE,
	SC_MIX_SINGLE,
	SC_MIX_CROSS,
	SC_MIX_DSA,        /* an indexer chooses the keys (DeepSeek-V3.2, arXiv:2512.02556) */
	SC_MIX_DSA_SHARED, /* the same keys as the layer before */
	SC_MIX_CSA,        /* the best compressed keys beside a window (DeepSeek-V4) */
	SC_MIX_HCA,        /* all heavily compressed ones beside a window */
	SC_MIX_GDN,        /* gated delta net (Yang et al., arXiv:2412.06464) */
	SC_MIX_MAMBA2,     /* Dao and Gu, arXiv:2405.21060; keys are its B, key_heads its groups */
	SC_MIX_KDA,        /* Kimi delta attention (Kimi Linear, arXiv:2510.26692) */
	SC_MIX_LIGHTNING,  /* MiniMax-01, arXiv:2501.08313 */
	SC_MIX_MAMBA1,     /* Gu and Dao, arXiv:2312.00752; value_heads are its channels */
	SC_N_MIXERS,
	SC_MIX_FIRST_LINEAR = SC_MIX_GDN
};
/* Heads with a state of key_dim x value_dim each; a key's head is shared by as many of values. */
struct sc_linear_mixer {
	int64_t key_heads, value_heads, key_dim, value_dim, conv;
	int64_t gate_rank; /* of the output's gate, kda; 0: full; of the steps, mamba1 */
};
static inline bool sc_mixer_is_sparse(enum sc_mixer mixer)
{
	return mixer >= SC_MIX_DSA && mixer < SC_MIX_FIRST_LINEAR;
}
/* Sparse: the indexer's heads score all keys by one of theirs; attention reads top_k. */
struct sc_sparse_mixer {
	int64_t index_heads, index_dim, top_k;
	int64_t block; /* neighbouring keys that are chosen together; 1: each alone */
};
/* Compressed attention: one key and value for all heads, and outputs that groups of heads project
 * on their own. */
struct sc_compressed_mixer {
	int64_t compression, heavy_compression; /* tokens of a key: csa, hca */
	int64_t output_groups, output_rank;
	int64_t streams; /* of the residual, mixed by each layer (hyper-connections); 1: a sum */
};
/* Tokens of a text, beside or among model.seq; widths of a text's tokens, of a patch, of what is
 * known of a text as a whole. */
struct sc_dit {
	int64_t text_seq, text_dim, patch_dim, pooled_dim;
};
/* An encoder of images in front of a language model. `images`: of a sample, on average; `merge`:
 * patches that become one of its tokens, by each of the connectors. */
struct sc_tower {
	int64_t layers, hidden, heads, ffn_hidden, patch_dim, patches, merge, connectors;
	double images;
	int frozen;
	const char *left_out; /* the section of the model's file that says it, where keys do not */
};
/* A DLRM that reads sequences: layers of pointwise attention over the tokens of a sample, of which
 * there are so many on average, with this coefficient of variation from sample to sample. */
struct sc_hstu {
	int64_t layers, hidden, heads, head_dim, token_mlp;
	double tokens, tokens_cv;
};
/* Between the embeddings and the top MLP: dot products of all pairs (DLRM); concatenation; cross
 * layers (DCNv2, Wang et al. 2021). */
enum sc_interaction { SC_INTERACT_DOT, SC_INTERACT_CAT, SC_INTERACT_DCNV2 };
enum sc_feed { SC_FEED_NONE, SC_FEED_MLP, SC_FEED_EXPERTS };
struct sc_layer_kind {
	enum sc_mixer mixer;
	enum sc_feed feed;
	bool wide; /* its products stay in the storage's precision */
};
/* A model has at most so many kinds of layers, and so many layers if it lists their kinds. */
enum { SC_N_LAYER_KINDS = 8, SC_MAX_PATTERN = 512 };
struct sc_model {
	enum sc_family family;
	int64_t layers, hidden, heads, kv_heads, ffn_hidden, vocab, seq;
	int64_t head_dim; /* of queries and keys, less MLA's rotary part; default hidden / heads */
	int64_t experts, top_k, expert_ffn_hidden;
	int64_t shared_experts,
		dense_layers;  /* experts that every token takes; first layers without any */
	int64_t experts_every; /* of later layers the last of each so many has experts; default 1 */
	/* Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): ranks of the compressed
	 * queries (0 = not compressed) and keys-values, rotary part of a head, width of a head's
	 * values. Not given: the model has none. */
	int64_t q_lora_rank, kv_lora_rank, rope_head_dim, v_head_dim;
	/* Experts lie in groups, and a token goes to those of so many (DeepSeek-V3,
	 * arXiv:2412.19437, 2.1.2: node-limited routing); default: all in one. */
	int64_t expert_groups, top_groups;
	int64_t expert_latent; /* experts work on tokens projected to this width; default hidden */
	int64_t mtp_layers;
	int64_t wide_first,
		wide_last;      /* training.bf16_first_layers and bf16_last_layers, resolved */
	int64_t sliding_window; /* tokens that attention reaches back; -1 = all */
	int64_t full_attention_every; /* one layer in so many has no window; -1 = none */
	int tied_embeddings;          /* 0, 1; default: the family's */
	int biases;          /* of the linear layers, experts among them; as tied_embeddings */
	int qk_norm;         /* queries and keys are normed head by head; default no */
	int attention_gate;  /* attention's output is multiplied by a gate, as wide */
	int attention_sinks; /* each head's softmax has one logit more, learned (gpt-oss) */
	/* Layers without a window, where others have: heads of another width and number of keys;
	 * keys that serve as values, without a projection (Gemma 4). Not given: as others. */
	int64_t full_head_dim, full_kv_heads;
	int full_keys_as_values;
	const char *layers_pattern; /* kinds of layers by position; NULL: as the keys above say */
	struct sc_sparse_mixer dsa;
	struct sc_compressed_mixer csa;
	union {
		struct sc_linear_mixer linear[SC_N_MIXERS - SC_MIX_FIRST_LINEAR];
		struct {
			struct sc_linear_mixer gdn, mamba2, kda, lightning, mamba1;
		};
	};
	struct sc_dit dit;
	struct sc_tower tower;
	/* The pattern, resolved: kind 0 is the one of most layers. */
	struct sc_layer_kind kinds[SC_N_LAYER_KINDS];
	uint8_t kind_of[SC_MAX_PATTERN + 1]; /* the last behind all layers: those of later tokens */
	/* DLRM. Layer widths without the input's; top_mlp ends in the one logit. */
	int64_t dense_features;
	struct sc_ints bottom_mlp, top_mlp;
	enum sc_interaction interaction;
	int64_t cross_layers, low_rank;
	struct sc_hstu hstu;
	int64_t interact_stride;  /* cat: embeddings are averaged over so many columns; default 1 */
	struct sc_structs tables; /* struct sc_table */
	const char *tables_csv;   /* a file that lists them instead */
	struct sc_structs rows;   /* of a table of layers: struct sc_layer_row */
	const char *rows_csv;     /* a file that lists them; rows go before it */
};
const char *sc_family_name(enum sc_family family);
/* The parts of the layers of a family. */
struct sc_family_traits {
	bool gated;             /* feed-forward: two matrices up, one down, gate times value */
	bool rms_norm;          /* else layer norm */
	bool rope;              /* rotary positions */
	bool learned_positions; /* a table of seq rows */
	bool biases;            /* of the linear layers */
	bool causal;            /* attention */
	bool dropout;           /* trained with dropout, if the software runs it */
	bool tied;              /* the output layer is the word embedding */
	bool masked_lm;         /* loss on masked positions, behind a transform layer (BERT) */
	bool experts;           /* mixture of experts */
	bool denoises;          /* patches in and out, no vocabulary; norms are modulated */
};
const struct sc_family_traits *sc_family_traits(enum sc_family family);

static inline bool sc_model_is_transformer(const struct sc_model *model)
{
	return model->family != SC_DLRM && model->family != SC_LAYERS;
}

double sc_model_n_tables(const struct sc_model *model);   /* of a DLRM, each counted */
double sc_model_n_elements(const struct sc_model *model); /* of its tables, each counted */
static inline bool sc_model_full_differs(const struct sc_model *model)
{
	return model->full_head_dim > 0 || model->full_kv_heads > 0 ||
	       model->full_keys_as_values > 0;
}
/* Resolved: has experts. */
static inline bool sc_model_is_moe(const struct sc_model *model)
{
	return sc_family_traits(model->family)->experts && model->experts > 0;
}
static inline bool sc_model_has_windows(const struct sc_model *model)
{
	return model->sliding_window > 0 && model->sliding_window < model->seq;
}
/* Without a pattern a layer differs so from most of its model's, whose kind is 0: among layers with
 * a sliding window one without; a mixture's without experts. A pass runs kinds from the last on:
 * layers without experts come first in most mixtures. Beside fp8 or fp4, one in bf16. */
enum { SC_LAYER_FULL = 1, SC_LAYER_DENSE = 2, SC_LAYER_WIDE = 4 };
static inline bool sc_model_layer_is_wide(const struct sc_model *model, int64_t layer)
{
	return layer < model->layers &&
	       (layer < model->wide_first || layer >= model->layers - model->wide_last);
}
static inline double sc_model_streams(const struct sc_model *model)
{
	return model->csa.streams > 1 ? (double)model->csa.streams : 1;
}
static inline bool sc_model_is_sparse(const struct sc_model *model)
{
	return model->dsa.top_k > 0;
}
static inline struct sc_layer_kind sc_model_kind(const struct sc_model *model, int kind)
{
	if (model->layers_pattern)
		return model->kinds[kind];
	return (struct sc_layer_kind){
		sc_model_is_sparse(model) ? SC_MIX_DSA
		: kind & SC_LAYER_FULL    ? SC_MIX_FULL
					  : SC_MIX_ATTENTION,
		sc_model_is_moe(model) && !(kind & SC_LAYER_DENSE) ? SC_FEED_EXPERTS : SC_FEED_MLP,
		(kind & SC_LAYER_WIDE) != 0};
}
static inline bool sc_model_has_attention(const struct sc_model *model, int kind)
{
	const enum sc_mixer mixer = sc_model_kind(model, kind).mixer;

	return mixer != SC_MIX_NONE && mixer < SC_MIX_FIRST_LINEAR;
}
const char *sc_mixer_name(enum sc_mixer mixer); /* as in a pattern, and of its section */
struct sc_layer_counts {
	double of[SC_N_LAYER_KINDS];
};
/* Counts the layers of each kind from `begin` on, below `end`; those that predict later tokens come
 * behind all others and are of kind 0, of a pattern as its last or attention with a feed-forward
 * part. Resolved. */
struct sc_layer_counts sc_model_count(const struct sc_model *model, int64_t begin, int64_t end);
static inline double sc_layers_in_all(const struct sc_layer_counts *counts)
{
	double n = 0;

	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
		n += counts->of[kind];
	return n;
}

static inline bool sc_model_is_mla(const struct sc_model *model)
{
	return model->kv_lora_rank > 0;
}
