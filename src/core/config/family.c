/* What the layers of each model family are made of. */
#include "base/fields.h"
#include "core/config/config_priv.h"

const struct sc_name sc_family_names[] = {
	{"gpt", SC_GPT},       {"llama", SC_LLAMA},
	{"mpt", SC_MPT},       {"bert", SC_BERT},
	{"opt", SC_OPT},       {"moe", SC_MOE},
	{"dlrm", SC_DLRM},     {"moe-mla", SC_MOE_MLA},
	{"layers", SC_LAYERS}, {0},
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
		/* Mixtral, Qwen3 MoE, DeepSeek-V2/V3: a llama whose feed-forward layer is experts */
		[SC_MOE] = {LLAMA, .experts = true},
		[SC_MOE_MLA] = {LLAMA, .experts = true},
		[SC_DLRM] = {0},
		[SC_LAYERS] = {0},
	};

	return &TRAITS[family];
}

/* Of the first n; layers that predict later tokens come behind all others. */
static struct sc_layer_counts count_below(const struct sc_model *model, int64_t n)
{
	int64_t of_model = n < model->layers ? n : model->layers, dense = of_model;
	struct sc_layer_counts out = {{0}};

	if (!sc_model_is_moe(model))
		dense = 0;
	else if (of_model > model->dense_layers)
		dense -= (of_model - model->dense_layers) / model->experts_every;
	out.of[SC_LAYER_DENSE] = (double)dense;
	out.of[0] = (double)(n - dense);
	return out;
}

struct sc_layer_counts sc_model_count(const struct sc_model *model, int64_t begin, int64_t end)
{
	struct sc_layer_counts out = count_below(model, end), before = count_below(model, begin);

	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
		out.of[kind] -= before.of[kind];
	return out;
}
