#include "core/config/hf_model.h"

#include <string.h>

#include "base/num.h"

/* What a number of config.json is to the cost of a step. */
struct hf_key {
	const char *hf, *ours;
};
/* GPT-2, Falcon and OPT have names of their own. */
static const struct hf_key KEYS[] = {
	{"hidden_size", "hidden"},
	{"n_embd", "hidden"},
	{"num_hidden_layers", "layers"},
	{"n_layer", "layers"},
	{"num_attention_heads", "heads"},
	{"n_head", "heads"},
	{"num_key_value_heads", "kv_heads"},
	{"num_kv_heads", "kv_heads"},
	{"intermediate_size", "ffn_hidden"},
	{"n_inner", "ffn_hidden"},
	{"ffn_dim", "ffn_hidden"},
	{"ffn_hidden_size", "ffn_hidden"},
	{"vocab_size", "vocab"},
	{"head_dim", "head_dim"},
	{"num_local_experts", "experts"},
	{"num_experts", "experts"},
	{"n_routed_experts", "experts"},
	{"num_experts_per_tok", "top_k"},
	{"moe_intermediate_size", "expert_ffn_hidden"},
	{"n_shared_experts", "shared_experts"},
	{"first_k_dense_replace", "dense_layers"},
	{"q_lora_rank", "q_lora_rank"},
	{"kv_lora_rank", "kv_lora_rank"},
	{"qk_nope_head_dim", "head_dim"},
	{"qk_rope_head_dim", "rope_head_dim"},
	{"v_head_dim", "v_head_dim"},
	{"num_nextn_predict_layers", "mtp_layers"},
	{"tie_word_embeddings", "tied_embeddings"},
	{"sliding_window", "sliding_window"},
	{0},
};
/* Numbers that cost nothing, or next to it: whole names, and ends of names that begin with '*'. */
static const char *const FREE[] = {
	"*_token_id",
	"*_eps",
	"*_epsilon",
	"*_std",
	"*_range",
	"*dropout*",
	"*_pdrop",
	"*theta*",
	"*rotary*",
	"*rope*",
	"*scal*",
	"*_coef",
	"*_alpha",
	"*_gamma",
	"*softcapping",
	"*_limit",
	"*_factor",
	"*max_position_embeddings",
	"layerdrop",
	"n_positions",
	"n_ctx",
	"initial_context_length",
	"max_window_layers",
	"type_vocab_size",
	"pretraining_tp",
	"ep_size",
	"n_group",
	"topk_group",
	"query_pre_attn_scalar",
	"head_dim_v",
	"experts_per_token",
	"num_labels",
	"word_embed_proj_dim",
	"moe_layer_freq",
	"decoder_sparse_step",
	"qk_head_dim",
	NULL,
};
/* Must be so, if it is there: else the step costs something that no key of ours says. */
static const struct {
	const char *key, *value;
} FIXED[] = {
	{"moe_layer_freq", "1"},
	{"decoder_sparse_step", "1"},
	{"is_encoder_decoder", "false"},
	{"add_cross_attention", "false"},
	{"shared_expert_intermediate_size", "0"},
};

enum hf_experts { DENSE, MIXTURE };
/* What kind of layers a model_type has; `positions` names the learned ones' number, the sample's length. */
static const struct hf_type {
	const char *name, *family, *positions;
	enum hf_experts experts;
	bool tied;           /* where config.json does not say */
	bool ffn_of_experts; /* intermediate_size is the width of an expert */
} TYPES[] = {
	{"llama", "llama", NULL, DENSE, false, false},
	{"mistral", "llama", NULL, DENSE, false, false},
	{"qwen2", "llama", NULL, DENSE, false, false},
	{"qwen3", "llama", NULL, DENSE, false, false},
	{"gemma", "llama", NULL, DENSE, true, false},
	{"phi3", "llama", NULL, DENSE, false, false},
	{"mixtral", "moe", NULL, MIXTURE, false, true},
	{"qwen3_moe", "moe", NULL, MIXTURE, false, false},
	{"gpt_oss", "moe", NULL, MIXTURE, false, true},
	{"deepseek_v2", "moe-mla", NULL, MIXTURE, false, false},
	{"deepseek_v3", "moe-mla", NULL, MIXTURE, false, false},
	{"gpt2", "gpt", "n_positions", DENSE, true, false},
	{"opt", "opt", "max_position_embeddings", DENSE, true, false},
	{"bert", "bert", "max_position_embeddings", DENSE, true, false},
	/* Rotary positions or ALiBi, plain MLP: what mpt is. */
	{"gpt_neox", "mpt", NULL, DENSE, false, false},
	{"falcon", "mpt", NULL, DENSE, true, false},
	{0},
};

bool sc_hf_is_model(const struct sc_yaml *map)
{
	return sc_yaml_get(map, "model_type") != NULL;
}

static int fail(const struct sc_yaml *at, struct sc_err *err, const char *why)
{
	return sc_err_at(err, SC_EVALUE, at->file, at->key_line, at->key_column, "%.64s: %s",
			 at->key, why);
}

static const struct hf_type *type_of(const struct sc_yaml *map, struct sc_err *err)
{
	const struct sc_yaml *given = sc_yaml_get(map, "model_type");
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

/* '*' before or behind a name: any text. */
static bool is_like(const char *key, const char *form)
{
	size_t n = strlen(form), n_key = strlen(key);

	if (*form != '*')
		return strcmp(key, form) == 0;
	if (form[n - 1] == '*') {
		for (; n_key >= n - 2; key++, n_key--)
			if (strncmp(key, form + 1, n - 2) == 0)
				return true;
		return false;
	}
	return n_key >= n - 1 && strcmp(key + n_key - (n - 1), form + 1) == 0;
}

static bool is_free(const char *key)
{
	for (size_t i = 0; FREE[i]; i++)
		if (is_like(key, FREE[i]))
			return true;
	return false;
}

static const char *our_key(const char *hf)
{
	for (const struct hf_key *key = KEYS; key->hf; key++)
		if (strcmp(key->hf, hf) == 0)
			return key->ours;
	return NULL;
}

static bool is_text(const struct sc_yaml *node, const char *text)
{
	return node && node->kind == SC_YAML_SCALAR && strcmp(node->text, text) == 0;
}

static int check_fixed(const struct sc_yaml *map, struct sc_err *err)
{
	const struct sc_yaml *dense = sc_yaml_get(map, "mlp_only_layers");
	const struct sc_yaml *embed = sc_yaml_get(map, "word_embed_proj_dim");
	const struct sc_yaml *hidden = sc_yaml_get(map, "hidden_size");

	for (size_t i = 0; i < sizeof(FIXED) / sizeof(FIXED[0]); i++) {
		const struct sc_yaml *node = sc_yaml_get(map, FIXED[i].key);

		if (node && !sc_yaml_is_null(node) && !is_text(node, FIXED[i].value))
			return fail(node, err, "changes what a step costs, and is not understood");
	}
	if (dense && dense->n_children > 0)
		return fail(dense, err, "only the first layers may be without experts");
	if (embed && hidden && hidden->kind == SC_YAML_SCALAR && !is_text(embed, hidden->text))
		return fail(embed, err, "embeddings of another width are not understood");
	return 0;
}

static bool is_number(const struct sc_yaml *node)
{
	double value;

	return node->kind == SC_YAML_SCALAR && !node->quoted && sc_parse_double(node->text, &value);
}

/* Windows that are off; and groups of queries that older files of Falcon call otherwise. */
static bool is_off(const struct sc_yaml *map, const struct sc_yaml *node)
{
	if (strcmp(node->key, "sliding_window") == 0)
		return is_text(sc_yaml_get(map, "use_sliding_window"), "false");
	if (strcmp(node->key, "num_kv_heads") == 0)
		return !is_text(sc_yaml_get(map, "new_decoder_architecture"), "true");
	return sc_yaml_is_null(node);
}

struct taken {
	struct sc_yaml *first, **link;
	size_t n;
	struct sc_arena *arena;
};

static bool has(const struct taken *taken, const char *key)
{
	for (const struct sc_yaml *node = taken->first; node; node = node->next)
		if (strcmp(node->key, key) == 0)
			return true;
	return false;
}

/* A copy of the node under our key; the first of a key stays. */
static void put(struct taken *taken, const struct sc_yaml *node, const char *key, const char *text)
{
	struct sc_yaml *copy;

	if (has(taken, key))
		return;
	copy = sc_arena_alloc(taken->arena, sizeof(*copy));
	*copy = *node;
	copy->key = key;
	copy->next = NULL;
	if (text) {
		copy->text = text;
		copy->kind = SC_YAML_SCALAR;
		copy->quoted = false;
	}
	*taken->link = copy;
	taken->link = &copy->next;
	taken->n++;
}

static int take(const struct sc_yaml *map, struct taken *taken, struct sc_err *err)
{
	for (const struct sc_yaml *node = map->child; node; node = node->next) {
		const char *ours = our_key(node->key);

		if (ours && strcmp(node->key, "q_lora_rank") == 0 && sc_yaml_is_null(node))
			put(taken, node, ours, "0");
		else if (ours && !is_off(map, node) && !sc_yaml_is_null(node))
			put(taken, node, ours, NULL);
		else if (!ours && is_number(node) && !is_free(node->key))
			return fail(node, err,
				    "a number that may change what a step costs, and is not "
				    "understood; remove it if it does not");
	}
	return 0;
}

/* What a type implies where its file does not say it. */
static void take_implied(const struct sc_yaml *map, const struct hf_type *type, struct taken *taken)
{
	const struct sc_yaml *at = sc_yaml_get(map, "model_type");
	const struct sc_yaml *ffn = sc_yaml_get(map, "intermediate_size");
	const struct sc_yaml *seq = type->positions ? sc_yaml_get(map, type->positions) : NULL;

	put(taken, at, "family", type->family);
	put(taken, at, "tied_embeddings", type->tied ? "true" : "false");
	if (seq)
		put(taken, seq, "seq", NULL);
	if (ffn && type->ffn_of_experts)
		put(taken, ffn, "expert_ffn_hidden", NULL);
	if (is_text(sc_yaml_get(map, "multi_query"), "true"))
		put(taken, sc_yaml_get(map, "multi_query"), "kv_heads", "1");
}

int sc_hf_model_take(struct sc_yaml *map, struct sc_arena *arena, struct sc_err *err)
{
	const struct hf_type *type = type_of(map, err);
	struct taken taken = {.arena = arena};
	int rc = type ? check_fixed(map, err) : -SC_EVALUE;

	taken.link = &taken.first;
	if (rc == 0)
		rc = take(map, &taken, err);
	if (rc)
		return rc;
	take_implied(map, type, &taken);
	map->child = taken.first;
	map->n_children = taken.n;
	return 0;
}
