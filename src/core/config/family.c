/* The parts of the layers of each model family. */
#include "base/fields.h"
#include "core/config/config_priv.h"

const struct sc_name sc_family_names[] = {
	{"gpt", SC_GPT},       {"llama", SC_LLAMA},
	{"mpt", SC_MPT},       {"bert", SC_BERT},
	{"opt", SC_OPT},       {"moe", SC_MOE},
	{"dlrm", SC_DLRM},     {"moe-mla", SC_MOE_MLA},
	{"layers", SC_LAYERS}, {"nemotron-h", SC_NEMOTRON_H},
	{"dit", SC_DIT},       {NULL, 0},
};

const char *sc_family_name(enum sc_family family)
{
	const char *name = sc_enum_name(sc_family_names, family);

	return name ? name : "?";
}

/* Brown et al. 2020; Shoeybi et al. 2019 */
#define GPT .learned_positions = true, .biases = true, .causal = true, .dropout = true, .tied = true
/* Touvron et al. 2023 */
#define LLAMA .gated = true, .rms_norm = true, .rope = true, .causal = true

const struct sc_family_traits *sc_family_traits(enum sc_family family)
{
	static const struct sc_family_traits TRAITS[] = {
		[SC_FAMILY_NONE] = {0},
		[SC_GPT] = {GPT},
		[SC_LLAMA] = {LLAMA},
		/* MosaicML llm-foundry: ALiBi positions, no biases, no dropout */
		[SC_MPT] = {.causal = true, .tied = true},
		/* Devlin et al. 2019 */
		[SC_BERT] = {.learned_positions = true,
			     .biases = true,
			     .dropout = true,
			     .tied = true,
			     .masked_lm = true},
		[SC_OPT] = {GPT}, /* Zhang et al. 2022: with ReLU */
		/* Mixtral, Qwen3 MoE, DeepSeek-V2/V3: a llama whose feed-forward layer is experts
		 */
		[SC_MOE] = {LLAMA, .experts = true},
		[SC_MOE_MLA] = {LLAMA, .experts = true},
		[SC_DLRM] = {0},
		[SC_LAYERS] = {0},
		/* NVIDIA, arXiv:2504.03624: squared ReLU, no positions */
		[SC_NEMOTRON_H] = {.rms_norm = true, .causal = true, .experts = true},
		/* Peebles and Xie, arXiv:2212.09748; Esser et al., arXiv:2403.03206 */
		[SC_VISION] = {.biases = true}, /* Dosovitskiy et al., arXiv:2010.11929 */
		[SC_DIT] = {.rope = true, .biases = true, .denoises = true},
	};

	return &TRAITS[family];
}

enum sc_feed sc_model_layer_feed(const struct sc_model *model, int64_t layer)
{
	int64_t mixed =
		layer - model->dense_layers; /* of those the last of each so many has experts */

	return sc_model_is_moe(model) && mixed >= 0 && (mixed + 1) % model->experts_every == 0
		       ? SC_FEED_EXPERTS
		       : SC_FEED_MLP;
}

/* A pattern holds the kind of those that predict later tokens behind its last. */
static int kind_at(const struct sc_model *model, int64_t layer)
{
	int kind = 0;

	if (model->layers_pattern)
		return model->kind_of[layer < model->layers ? layer : model->layers];
	if (layer >= model->layers)
		return 0;
	if (sc_model_is_moe(model) && sc_model_layer_feed(model, layer) == SC_FEED_MLP)
		kind |= SC_LAYER_DENSE;
	if ((sc_model_has_windows(model) || sc_model_full_differs(model)) &&
	    model->full_attention_every > 0 && (layer + 1) % model->full_attention_every == 0)
		kind |= SC_LAYER_FULL;
	if (sc_model_layer_is_wide(model, layer))
		kind |= SC_LAYER_WIDE;
	return kind;
}

struct sc_layer_counts sc_model_count(const struct sc_model *model, int64_t begin, int64_t end)
{
	struct sc_layer_counts out = {{0}};

	for (int64_t i = begin; i < end; i++)
		out.of[kind_at(model, i)]++;
	return out;
}
