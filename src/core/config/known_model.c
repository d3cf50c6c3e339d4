/* Published mixtures of experts, by their shape: tables often name a model and print its width only. */
#include <inttypes.h>

#include "core/config/catalog_priv.h"
#include "core/config/config_priv.h"

static bool is_or_not_given(int64_t wanted, int64_t known)
{
	return wanted == SC_NOT_GIVEN || wanted == known;
}

/* Tables write moe for a mixture with latent attention too. */
static bool same_family(const struct sc_model *wanted, const struct sc_model *known)
{
	return sc_family_traits(known->family)->experts &&
	       (wanted->family == SC_MOE || known->kv_lora_rank != SC_NOT_GIVEN);
}

static bool matches(const struct sc_model *wanted, const struct sc_model *known)
{
	int64_t kv_heads = known->kv_heads == SC_NOT_GIVEN ? known->heads : known->kv_heads;

	return known->experts != SC_NOT_GIVEN && same_family(wanted, known) &&
	       known->hidden == wanted->hidden && known->heads == wanted->heads &&
	       is_or_not_given(wanted->kv_heads, kv_heads) &&
	       is_or_not_given(wanted->vocab, known->vocab);
}

/* Of several the one with as many layers, else the first by name: benchmarks cut layers off. */
static const struct sc_known_model *find(const struct sc_known_model *known,
					 const struct sc_model *wanted)
{
	const struct sc_known_model *first = NULL;

	for (; known; known = known->next) {
		if (!matches(wanted, &known->model))
			continue;
		if (known->model.layers == wanted->layers)
			return known;
		if (!first)
			first = known;
	}
	return first;
}

static void fill(int64_t *value, int64_t known)
{
	if (*value == SC_NOT_GIVEN)
		*value = known;
}

/* Everything but layers and seq, which belong to the run. */
static void take_shape(struct sc_model *model, const struct sc_model *known)
{
	int64_t dense_layers = known->dense_layers;

	if (model->layers != SC_NOT_GIVEN && dense_layers > model->layers)
		dense_layers = model->layers;
	fill(&model->kv_heads, known->kv_heads);
	fill(&model->ffn_hidden, known->ffn_hidden);
	fill(&model->vocab, known->vocab);
	fill(&model->head_dim, known->head_dim);
	fill(&model->experts, known->experts);
	fill(&model->top_k, known->top_k);
	fill(&model->expert_ffn_hidden, known->expert_ffn_hidden);
	fill(&model->shared_experts, known->shared_experts);
	fill(&model->dense_layers, dense_layers);
	fill(&model->experts_every, known->experts_every);
	fill(&model->expert_groups, known->expert_groups);
	fill(&model->top_groups, known->top_groups);
	fill(&model->q_lora_rank, known->q_lora_rank);
	fill(&model->kv_lora_rank, known->kv_lora_rank);
	fill(&model->rope_head_dim, known->rope_head_dim);
	fill(&model->v_head_dim, known->v_head_dim);
	fill(&model->sliding_window, known->sliding_window);
	fill(&model->full_attention_every, known->full_attention_every);
	if (model->tied_embeddings == SC_NOT_GIVEN)
		model->tied_embeddings = known->tied_embeddings;
	if (model->biases == SC_NOT_GIVEN)
		model->biases = known->biases;
	if (model->qk_norm == SC_NOT_GIVEN)
		model->qk_norm = known->qk_norm;
}

int sc_known_model_fill(struct sc_request *request, struct sc_catalog *catalog, struct sc_err *err)
{
	struct sc_model *model = &request->config.model;
	const struct sc_known_model *known;
	int rc;

	if (model->hidden == SC_NOT_GIVEN || model->heads == SC_NOT_GIVEN)
		return 0;
	rc = sc_catalog_models(catalog, &known, err);
	if (rc)
		return rc;
	known = find(known, model);
	if (!known)
		return 0;
	take_shape(model, &known->model);
	sc_warn(&request->warnings,
		"model.experts is not given; the model is taken for models/%.40s.yaml: experts %" PRId64
		", top_k %" PRId64,
		known->id, model->experts, model->top_k);
	return 0;
}
