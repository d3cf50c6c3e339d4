/* Source: the configuration_*.py of transformers. */
#include "core/foreign/hf_model.h"

#include <string.h>

/* GPT-2, Falcon and OPT have names of their own. */
static const struct sc_foreign_key KEYS_ROWS[] = {
	SC_TAKE("hidden_size", "model.hidden"),
	SC_TAKE("n_embd", "model.hidden"),
	SC_TAKE("num_hidden_layers", "model.layers"),
	SC_TAKE("n_layer", "model.layers"),
	SC_TAKE("num_attention_heads", "model.heads"),
	SC_TAKE("n_head", "model.heads"),
	SC_TAKE("num_key_value_heads", "model.kv_heads"),
	SC_TAKE("intermediate_size", "model.ffn_hidden"),
	SC_TAKE("n_inner", "model.ffn_hidden"),
	SC_TAKE("ffn_dim", "model.ffn_hidden"),
	SC_TAKE("ffn_hidden_size", "model.ffn_hidden"),
	SC_TAKE("vocab_size", "model.vocab"),
	SC_TAKE("num_local_experts", "model.experts"),
	SC_TAKE("num_experts", "model.experts"),
	SC_TAKE("n_routed_experts", "model.experts"),
	SC_TAKE("num_experts_per_tok", "model.top_k"),
	SC_TAKE("moe_intermediate_size", "model.expert_ffn_hidden"),
	SC_TAKE("n_shared_experts", "model.shared_experts"),
	SC_TAKE("first_k_dense_replace", "model.dense_layers"),
	SC_TAKE("decoder_sparse_step", "model.experts_every"),
	SC_TAKE("n_group", "model.expert_groups"),
	SC_TAKE("topk_group", "model.top_groups"),
	SC_TAKE("q_lora_rank", "model.q_lora_rank"),
	SC_TAKE("kv_lora_rank", "model.kv_lora_rank"),
	SC_TAKE("qk_nope_head_dim", "model.head_dim"),
	SC_TAKE("qk_rope_head_dim", "model.rope_head_dim"),
	SC_TAKE("v_head_dim", "model.v_head_dim"),
	SC_TAKE("num_nextn_predict_layers", "model.mtp_layers"),
	SC_TAKE("tie_word_embeddings", "model.tied_embeddings"),
	SC_TAKE("enable_bias", "model.biases"),
	SC_TAKE("mlp_bias", "model.biases"),
	SC_TAKE("bias", "model.biases"),
	SC_ONLY("moe_layer_freq", sc_words_one),
	SC_ONLY("is_encoder_decoder", sc_words_off),
	SC_ONLY("add_cross_attention", sc_words_off),
	SC_ONLY("shared_expert_intermediate_size", sc_words_off),
	SC_ONLY("use_bidirectional_attention", sc_words_off),
	SC_ONLY("num_kv_shared_layers", sc_words_off),
	{0},
};
static const struct sc_foreign_keys KEYS = {
	.rows = KEYS_ROWS,
	.read = "model_type num_kv_heads multi_query new_decoder_architecture sliding_window "
		"use_sliding_window max_window_layers *sliding_window_pattern layer_types "
		"mlp_only_layers word_embed_proj_dim max_position_embeddings n_positions head_dim",
	.free = "*_token_id *_eps *_epsilon *_std *_range *dropout* *_pdrop *theta* *rotary* "
		"*rope* *scal* *_coef *_alpha *_gamma *softcapping *_limit *_factor "
		"*max_position_embeddings layerdrop n_ctx initial_context_length "
		"type_vocab_size pretraining_tp ep_size query_pre_attn_scalar head_dim_v "
		"experts_per_token num_labels qk_head_dim attention_bias qkv_bias use_cache "
		"norm_topk_prob use_qk_norm alibi parallel_attn use_parallel_residual "
		"do_layer_norm_before *elementwise_affine _remove_final_layer_norm "
		"gradient_checkpointing output_* return_dict summary_* reorder_and_upcast_attn "
		"quantization_config.* task_specific_params.* id2label.* label2id.*",
};

/* What kind of layers a model_type has; `positions` names the learned ones' number, the sample's length. */
static const struct hf_type {
	const char *name, *family, *positions;
	bool tied;           /* where config.json does not say */
	bool ffn_of_experts; /* intermediate_size is the width of an expert */
	bool biases;         /* where the family has none */
	bool qk_norm;        /* queries and keys are normed head by head */
	int windows;         /* one layer in so many has no sliding window; 0 = all have it */
} TYPES[] = {
	{.name = "llama", .family = "llama"},
	{.name = "mistral", .family = "llama"},
	{.name = "qwen2", .family = "llama"},
	{.name = "qwen3", .family = "llama", .qk_norm = true},
	{.name = "gemma", .family = "llama", .tied = true},
	{.name = "gemma2", .family = "llama", .tied = true, .windows = 2},
	{.name = "gemma3_text", .family = "llama", .tied = true, .qk_norm = true, .windows = 6},
	{.name = "phi3", .family = "llama"},
	{.name = "mixtral", .family = "moe", .ffn_of_experts = true},
	{.name = "qwen3_moe", .family = "moe", .qk_norm = true},
	{.name = "gpt_oss", .family = "moe", .ffn_of_experts = true, .biases = true, .windows = 2},
	{.name = "deepseek_v2", .family = "moe-mla"},
	{.name = "deepseek_v3", .family = "moe-mla"},
	{.name = "gpt2", .family = "gpt", .positions = "n_positions", .tied = true},
	{.name = "opt", .family = "opt", .positions = "max_position_embeddings", .tied = true},
	{.name = "bert", .family = "bert", .positions = "max_position_embeddings", .tied = true},
	/* Rotary positions or ALiBi, plain MLP: what mpt is. */
	{.name = "gpt_neox", .family = "mpt", .biases = true},
	{.name = "falcon", .family = "mpt", .tied = true},
	{0},
};

bool sc_hf_is_model(const struct sc_yaml *map)
{
	return sc_yaml_get(map, "model_type") != NULL;
}

static const struct hf_type *type_of(const struct sc_yaml *given, struct sc_err *err)
{
	const char *names[sizeof(TYPES) / sizeof(TYPES[0])], *near;
	size_t n = 0;

	for (; given->kind == SC_YAML_SCALAR && TYPES[n].name; n++) {
		if (strcmp(TYPES[n].name, given->text) == 0)
			return &TYPES[n];
		names[n] = TYPES[n].name;
	}
	near = n ? sc_nearest(given->text, names, n) : NULL;
	sc_err_at(err, SC_EVALUE, given->file, given->line, given->column,
		  "model_type \"%.64s\" is not known%s%s%s; write its shape as a model file, as in "
		  "configs/models",
		  given->kind == SC_YAML_SCALAR ? given->text : "?",
		  near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
	return NULL;
}

static bool is_null(const struct sc_foreign_leaf *leaf)
{
	return !leaf || sc_yaml_is_null(leaf->node);
}

static int check_together(const struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *dense = sc_foreign_get(file, "mlp_only_layers");
	const struct sc_foreign_leaf *embed = sc_foreign_get(file, "word_embed_proj_dim");
	int64_t hidden = sc_foreign_count(file, "hidden_size", 0);

	if (dense && dense->node->n_children > 0)
		return sc_foreign_fail(dense, err, "only the first layers may be without experts");
	if (!is_null(embed) && hidden && sc_foreign_count(file, embed->path, hidden) != hidden)
		return sc_foreign_fail(embed, err,
				       "embeddings of another width are not understood");
	return 0;
}

/* The list of layers' kinds as one that is full in so many; 0: all are, -1: none is, -2: another order. */
static int64_t period_of(const struct sc_yaml *types)
{
	int64_t first = 0, i = 0;

	for (const struct sc_yaml *one = types->child; one; one = one->next) {
		bool full = one->kind == SC_YAML_SCALAR && strcmp(one->text, "full_attention") == 0;

		if (!full &&
		    (one->kind != SC_YAML_SCALAR || strcmp(one->text, "sliding_attention") != 0))
			return -2;
		i++;
		first = full && !first ? i : first;
		if (first && full != (i % first == 0))
			return -2;
	}
	return first == 1 ? 0 : first ? first : -1;
}

/* Qwen2's windows are those of the layers from max_window_layers on. */
static bool has_windows(const struct sc_foreign *file)
{
	const struct sc_foreign_leaf *window = sc_foreign_get(file, "sliding_window");
	int64_t layers = sc_foreign_ours(file, "model.layers", 0);

	return !is_null(window) && !sc_foreign_is(file, "use_sliding_window", "false") &&
	       !(sc_foreign_is_on(file, "use_sliding_window") &&
		 sc_foreign_count(file, "max_window_layers", 0) >= layers);
}

static int take_windows(struct sc_foreign *file, const struct hf_type *type, struct sc_err *err)
{
	const struct sc_foreign_leaf *window = sc_foreign_get(file, "sliding_window");
	const struct sc_foreign_leaf *pattern = sc_foreign_get(file, "*sliding_window_pattern");
	const struct sc_foreign_leaf *types = sc_foreign_get(file, "layer_types");
	const struct sc_foreign_leaf *from = sc_foreign_get(file, "max_window_layers");
	int64_t period = type->windows ? type->windows : -1;
	int rc;

	if (!has_windows(file))
		return 0;
	if (sc_foreign_is_on(file, "use_sliding_window") && from &&
	    sc_foreign_count(file, from->path, 0))
		return sc_foreign_fail(from, err,
				       "windows of the last layers alone are not "
				       "understood");
	if (!is_null(pattern))
		period = sc_foreign_count(file, pattern->path, period);
	if (!is_null(types))
		period = period_of(types->node);
	if (period == -2)
		return sc_foreign_fail(types, err,
				       "expected sliding_attention, and every n-th "
				       "layer full_attention");
	if (period == 0)
		return 0;
	rc = sc_foreign_put(file, window, "model.sliding_window", NULL, err);
	return rc || period < 0 ? rc
				: sc_foreign_put_count(file, is_null(types) ? window : types,
						       "model.full_attention_every", period, err);
}

/* Of latent attention, head_dim is what the rotated part has, which has a name of its own. */
static int take_head(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *head = sc_foreign_get(file, "head_dim");

	return is_null(head) || !is_null(sc_foreign_get(file, "qk_nope_head_dim"))
		       ? 0
		       : sc_foreign_put(file, head, "model.head_dim", NULL, err);
}

/* Groups of queries that older files of Falcon call otherwise. */
static int take_groups(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *heads = sc_foreign_get(file, "num_kv_heads");

	if (!is_null(heads) && sc_foreign_is_on(file, "new_decoder_architecture"))
		return sc_foreign_put(file, heads, "model.kv_heads", NULL, err);
	if (sc_foreign_is_on(file, "multi_query"))
		return sc_foreign_put(file, sc_foreign_get(file, "multi_query"), "model.kv_heads",
				      "1", err);
	return 0;
}

/* What a type implies where its file does not say it. */
static int take_implied(struct sc_foreign *file, const struct hf_type *type, struct sc_err *err)
{
	const struct sc_foreign_leaf *at = sc_foreign_get(file, "model_type");
	const struct sc_foreign_leaf *ffn = sc_foreign_get(file, "intermediate_size");
	const struct sc_foreign_leaf *seq =
		type->positions ? sc_foreign_get(file, type->positions) : NULL;
	const struct sc_foreign_leaf *rank = sc_foreign_get(file, "q_lora_rank");
	int rc = sc_foreign_put(file, at, "model.family", type->family, err);

	if (rc == 0)
		rc = sc_foreign_put(file, at, "model.tied_embeddings",
				    type->tied ? "true" : "false", err);
	if (rc == 0 && type->biases)
		rc = sc_foreign_put(file, at, "model.biases", "true", err);
	if (rc == 0 && type->qk_norm)
		rc = sc_foreign_put(file, at, "model.qk_norm", "true", err);
	if (rc == 0 && seq)
		rc = sc_foreign_put(file, seq, "model.seq", NULL, err);
	if (rc == 0 && ffn && type->ffn_of_experts)
		rc = sc_foreign_put(file, ffn, "model.expert_ffn_hidden", NULL, err);
	if (rc == 0 && rank && is_null(rank))
		rc = sc_foreign_put(file, rank, "model.q_lora_rank", "0", err);
	return rc;
}

static int finish(struct sc_foreign *file, struct sc_err *err)
{
	const struct hf_type *type = type_of(sc_yaml_get(file->map, "model_type"), err);
	int rc = type ? check_together(file, err) : -SC_EVALUE;

	if (rc == 0)
		rc = take_windows(file, type, err);
	if (rc == 0)
		rc = take_head(file, err);
	if (rc == 0)
		rc = take_groups(file, err);
	return rc ? rc : take_implied(file, type, err);
}

const struct sc_foreign_format sc_format_hf = {
	.name = "config.json of Hugging Face", .keys = &KEYS, .finish = finish};

int sc_hf_model_take(struct sc_yaml *map, struct sc_arena *arena, struct sc_err *err)
{
	struct sc_foreign_lines lines = {.arena = arena};
	struct sc_foreign file = {.format = &sc_format_hf, .lines = &lines};
	const struct sc_yaml *model;
	int rc = sc_foreign_take(&file, map, err);

	if (rc == 0)
		rc = sc_foreign_finish(&lines, err);
	if (rc)
		return rc;
	model = sc_yaml_get(sc_foreign_tree(&lines, map->file), "model");
	map->child = model->child;
	map->n_children = model->n_children;
	return 0;
}
