/* model.layers_pattern: the kinds of a model's layers in order, as in (3*gdn,1*attn)*12; as the
 * list of names that Hugging Face's layer_types is; or as Nemotron's letters, MEMEM*E. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/config/config_priv.h"

/* A mixer stands for a layer with a feed-forward part, but beside names of that part, where each is
 * a layer alone. SC_N_MIXERS: the one kind of linear attention that the model has a section of.
 * Other programs' names follow ours: Hugging Face's, and Nemotron's letters (Megatron Core,
 * mamba_hybrid_layer_allocation.py). */
enum { ALONE = 4, MIXER = (1 << ALONE) - 1, MAX_DEPTH = 8, MAX_NAME = 32 };
static const struct sc_name WORDS[] = {
	{"attn", SC_MIX_ATTENTION},
	{"full_attn", SC_MIX_FULL},
	{"dsa", SC_MIX_DSA},
	{"dsa_shared", SC_MIX_DSA_SHARED},
	{"csa", SC_MIX_CSA},
	{"hca", SC_MIX_HCA},
	{"gdn", SC_MIX_GDN},
	{"mamba2", SC_MIX_MAMBA2},
	{"kda", SC_MIX_KDA},
	{"lightning", SC_MIX_LIGHTNING},
	{"mamba1", SC_MIX_MAMBA1},
	{"double", SC_MIX_DOUBLE},
	{"single", SC_MIX_SINGLE},
	{"cross", SC_MIX_CROSS},
	{"moe", SC_FEED_EXPERTS << ALONE},
	{"mlp", SC_FEED_MLP << ALONE},
	{"attention", SC_MIX_ATTENTION},
	{"sliding_attention", SC_MIX_ATTENTION},
	{"full_attention", SC_MIX_FULL},
	{"linear_attention", SC_N_MIXERS},
	{"mamba", SC_MIX_MAMBA2},
	{"M", SC_MIX_MAMBA2},
	{"*", SC_MIX_ATTENTION},
	{"E", SC_FEED_EXPERTS << ALONE},
	{"-", SC_FEED_MLP << ALONE},
	{0},
};
const char *sc_mixer_name(enum sc_mixer mixer)
{
	return sc_enum_name(WORDS, (int)mixer);
}

#define TOO_MANY "too many layers" /* SC_MAX_PATTERN */

struct reader {
	const char *text, *at;
	struct sc_pattern *out;
	int depth;
	struct sc_err *err;
};

static int pattern_fail(const struct reader *r, const char *why)
{
	return sc_err_set(r->err, SC_EVALUE, "character %zu: %s", (size_t)(r->at - r->text) + 1,
			  why);
}

/* With the spaces before it. */
static bool pattern_take(struct reader *r, char c)
{
	r->at += strspn(r->at, " \t\n");
	if (*r->at != c)
		return false;
	r->at++;
	return true;
}

/* The word of the next `n` characters. */
static int read_word(struct reader *r, size_t n)
{
	struct sc_err own = {.code = SC_OK};
	char name[MAX_NAME] = "";
	int word;

	if (n == 0 || n >= MAX_NAME)
		return pattern_fail(r, "expected a kind of layer, a number or \"(\"");
	memcpy(name, r->at, n);
	if (sc_enum_parse(WORDS, name, &word, &own))
		return pattern_fail(r, own.text);
	if (r->out->n == SC_MAX_PATTERN)
		return pattern_fail(r, TOO_MANY);
	r->out->at[r->out->n++] = (uint8_t)word;
	r->out->apart = r->out->apart || word >> ALONE;
	r->at += n;
	return 0;
}

static int read_count(struct reader *r, size_t *times)
{
	size_t n = 0;

	r->at += strspn(r->at, " \t\n");
	while (isdigit((unsigned char)*r->at) && n <= SC_MAX_PATTERN)
		n = 10 * n + (size_t)(*r->at++ - '0');
	*times *= n;
	return n < 1                     ? pattern_fail(r, "expected a number above 0")
	       : *times > SC_MAX_PATTERN ? pattern_fail(r, TOO_MANY)
					 : 0;
}

/* Items with commas between: 3*NAME, NAME*3, (LIST)*3. */
static int read_list(struct reader *r)
{
	struct sc_pattern *out = r->out;
	int rc = 0;

	do {
		size_t begin = out->n, times = 1, n;

		r->at += strspn(r->at, " \t\n");
		if (isdigit((unsigned char)*r->at)) {
			rc = read_count(r, &times);
			if (rc == 0 && !pattern_take(r, '*'))
				rc = pattern_fail(r, "expected \"*\" behind the number");
		}
		if (rc == 0 && pattern_take(r, '(')) {
			rc = ++r->depth > MAX_DEPTH
				     ? pattern_fail(r, "too many brackets in each other")
				     : read_list(r);
			if (rc == 0 && !pattern_take(r, ')'))
				rc = pattern_fail(r, "expected \",\" or \")\"");
			r->depth--;
		} else if (rc == 0) {
			for (n = 0; isalnum((unsigned char)r->at[n]) || r->at[n] == '_'; n++)
				;
			rc = read_word(r, n);
		}
		if (rc == 0 && pattern_take(r, '*'))
			rc = read_count(r, &times);
		n = out->n - begin;
		if (rc == 0 && begin + times * n > SC_MAX_PATTERN)
			rc = pattern_fail(r, TOO_MANY);
		for (; rc == 0 && times > 1; times--, out->n += n)
			memcpy(out->at + out->n, out->at + begin, n);
	} while (rc == 0 && pattern_take(r, ','));
	return rc;
}

int sc_pattern_parse(const char *text, struct sc_pattern *out, struct sc_err *err)
{
	struct reader r = {.text = text, .at = text, .out = out, .err = err};
	const bool is_list = pattern_take(&r, '['); /* as --set gives it */
	int rc = 0;

	*out = (struct sc_pattern){.n = 0};
	if (*text && strspn(text, "ME*-") == strlen(text))
		while (*r.at && rc == 0)
			rc = read_word(&r, 1);
	else
		rc = read_list(&r);
	if (rc == 0 && is_list && !pattern_take(&r, ']'))
		rc = pattern_fail(&r, "expected \",\" or \"]\"");
	if (rc == 0 && *r.at)
		rc = pattern_fail(&r, "expected \",\", \"*\" or the end");
	return rc;
}

static bool has_section(const struct sc_model *model, int mixer)
{
	return model->linear[mixer - SC_MIX_FIRST_LINEAR].value_heads != SC_NOT_GIVEN;
}

/* The config gives a key of the section, whatever its default is. */
static bool is_section_given(const struct sc_resolver *res, const char *section, char path[64])
{
	static const char *const keys[] = {
		"key_heads", "value_heads", "key_dim",           "value_dim",     "conv",
		"gate_rank", "compression", "heavy_compression", "output_groups", "output_rank"};
	const bool is_any = sc_config_origin_in(&res->request->config, section);

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && is_any; i++) {
		snprintf(path, 64, "%s.%s", section, keys[i]);
		if (sc_config_origin(&res->request->config, path))
			return true;
	}
	return false;
}

/* An unknown linear attention is the first with a section. */
static struct sc_layer_kind pattern_kind(const struct sc_model *model, int word)
{
	int mixer = word & MIXER;

	if (mixer == SC_MIX_FULL && !sc_model_has_windows(model) && !sc_model_full_differs(model))
		mixer = SC_MIX_ATTENTION;
	if (mixer == SC_N_MIXERS)
		for (mixer = SC_MIX_FIRST_LINEAR; mixer + 1 < SC_N_MIXERS; mixer++)
			if (has_section(model, mixer))
				break;
	return (struct sc_layer_kind){(enum sc_mixer)mixer, (enum sc_feed)(word >> ALONE), false};
}

/* Layers of later tokens are as the last; where sub-layers stand alone, each is one of attention
 * with the last feed-forward part behind it (Nemotron 3, mtp_hybrid_override_pattern *E). */
static struct sc_layer_kind later_token_kind(const struct sc_model *model,
					     const struct sc_pattern *pattern)
{
	struct sc_layer_kind later = model->kinds[model->kind_of[pattern->n - 1]];

	for (size_t i = pattern->n; pattern->apart && i-- > 0 && later.feed == SC_FEED_NONE;)
		later.feed = model->kinds[model->kind_of[i]].feed;
	if (pattern->apart && later.feed != SC_FEED_NONE)
		later.mixer = SC_MIX_ATTENTION;
	later.wide = false;
	return later;
}

/* Kinds in order, but most layers' first, and layers' of later tokens last. */
static bool number_kinds(struct sc_model *model, const struct sc_pattern *pattern)
{
	const size_t n = pattern->n + (model->mtp_layers > 0 ? 1 : 0);
	size_t count[SC_N_LAYER_KINDS] = {0};
	int n_kinds = 0, most = 0;

	for (size_t i = 0; i < n; i++) {
		struct sc_layer_kind one = i < pattern->n ? pattern_kind(model, pattern->at[i])
							  : later_token_kind(model, pattern);
		int kind = 0;

		if (!pattern->apart && i < pattern->n)
			one.feed = sc_model_layer_feed(model, (int64_t)i);
		one.wide = sc_model_layer_is_wide(model, (int64_t)i);
		while (kind < n_kinds && !(model->kinds[kind].mixer == one.mixer &&
					   model->kinds[kind].feed == one.feed &&
					   model->kinds[kind].wide == one.wide))
			kind++;
		if (kind == SC_N_LAYER_KINDS)
			return false;
		n_kinds = kind < n_kinds ? n_kinds : kind + 1;
		model->kinds[kind] = one;
		model->kind_of[i] = (uint8_t)kind;
		most = ++count[kind] > count[most] ? kind : most;
	}
	struct sc_layer_kind first = model->kinds[0];
	model->kinds[0] = model->kinds[most];
	model->kinds[most] = first;
	for (size_t i = 0; i < n; i++)
		if (model->kind_of[i] == 0 || model->kind_of[i] == most)
			model->kind_of[i] = (uint8_t)(most - model->kind_of[i]);
	return true;
}

int sc_config_resolve_pattern(const struct sc_resolver *res)
{
	static const char path[] = "model.layers_pattern";
	struct sc_model *model = &res->request->config.model;
	struct sc_err own = {.code = SC_OK};
	struct sc_pattern pattern;

	if (!model->layers_pattern)
		return 0;
	if (sc_pattern_parse(model->layers_pattern, &pattern, &own))
		return sc_resolve_fail(res, own.code, path, "%s: %s", path, own.text);
	if (model->layers == SC_NOT_GIVEN)
		model->layers = (int64_t)pattern.n;
	if (model->layers != (int64_t)pattern.n)
		return sc_resolve_fail(res, SC_ECONFLICT, path,
				       "%s lists %zu layers, model.layers is %" PRId64, path,
				       pattern.n, model->layers);
	if (model->full_attention_every != SC_NOT_GIVEN)
		return sc_resolve_fail(res, SC_ECONFLICT, "model.full_attention_every",
				       "model.full_attention_every beside %s: say it there, by "
				       "full_attn, or remove one of them",
				       path);
	if (pattern.apart && (model->dense_layers > 0 || model->experts_every > 1))
		return sc_resolve_fail(res, SC_ECONFLICT, path,
				       "%s says by moe and mlp which layers have experts: remove "
				       "model.dense_layers and model.experts_every",
				       path);
	if (!number_kinds(model, &pattern))
		return sc_resolve_fail(res, SC_ELIMIT, path, "%s has more than %d kinds of layers",
				       path, SC_N_LAYER_KINDS);
	return 0;
}

/* As many value heads a key head, all of a rank's whole. */
static int check_linear(const struct sc_resolver *res, int mixer, bool used)
{
	const struct sc_parallel *par = &res->request->config.parallel;
	struct sc_model *model = &res->request->config.model;
	struct sc_linear_mixer *of = &model->linear[mixer - SC_MIX_FIRST_LINEAR];
	const char *name = sc_mixer_name((enum sc_mixer)mixer);
	char path[32], key[64];

	snprintf(path, sizeof(path), "model.%s", name);
	if (!used && is_section_given(res, path, key))
		sc_warn(&res->request->warnings, "%s has no effect: %s has no such layer", key,
			model->layers_pattern ? "model.layers_pattern" : "the model");
	if (!used)
		return 0;
	if (of->value_heads == SC_NOT_GIVEN || of->key_dim == SC_NOT_GIVEN)
		return sc_resolve_fail(
			res, SC_EVALUE, "model.layers_pattern",
			"model.layers_pattern has %s: give %s value_heads and key_dim "
			"(%s), as in `%s: {value_heads: 32, key_dim: 128}`",
			name, path,
			mixer == SC_MIX_KDA || mixer == SC_MIX_MAMBA1 ? "and conv, gate_rank"
			: mixer == SC_MIX_LIGHTNING                   ? "all that it has"
						    : "and key_heads, value_dim, conv",
			name);
	/* Kinds whose section lacks a key have 0 there. */
	if (of->key_heads < 1)
		of->key_heads = of->value_heads;
	if (of->value_dim < 1)
		of->value_dim = mixer == SC_MIX_MAMBA1 ? 1 : of->key_dim;
	if (of->gate_rank == SC_NOT_GIVEN)
		of->gate_rank = mixer == SC_MIX_MAMBA1 ? (model->hidden + 15) / 16 : of->key_dim;
	if (of->value_heads % of->key_heads || of->key_heads % par->tp)
		return sc_resolve_fail(
			res, SC_ECONFLICT, of->key_heads % par->tp ? "parallel.tp" : path,
			"%s: value_heads %" PRId64 " split over key_heads %" PRId64
			", and these over parallel.tp %" PRId64 "; choose numbers that divide",
			path, of->value_heads, of->key_heads, par->tp);
	if (par->cp > 1)
		return sc_resolve_fail(res, SC_EUNSUPPORTED, "parallel.cp",
				       "parallel.cp %" PRId64
				       ": layers of %s carry a state along the sequence, which is "
				       "modelled on one rank; set 1",
				       par->cp, name);
	if (!sc_family_traits(model->family)->causal)
		return sc_resolve_fail(
			res, SC_EUNSUPPORTED, "model.family",
			"family %s reads both ways, and layers of %s carry a state one "
			"way; choose another",
			sc_family_name(model->family), name);
	return 0;
}

static int check_compressed(const struct sc_resolver *res)
{
	const struct sc_model *m = &res->request->config.model;
	const struct sc_compressed_mixer *of = &m->csa;

	if (of->output_groups < 1 || of->output_rank < 1 || m->q_lora_rank < 1 ||
	    m->sliding_window < 1)
		return sc_resolve_fail(
			res, SC_EVALUE, "model.layers_pattern",
			"model.layers_pattern has compressed attention: give model.csa output_groups and "
			"output_rank, model.q_lora_rank and model.sliding_window, as in `csa: "
			"{output_groups: 16, output_rank: 1024}`");
	if (of->output_groups % res->request->config.parallel.tp)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.tp",
				       "model.csa: output_groups %" PRId64
				       " over parallel.tp %" PRId64 "; choose numbers that divide",
				       of->output_groups, res->request->config.parallel.tp);
	if (m->kv_heads != 1 || sc_model_is_mla(m))
		return sc_resolve_fail(res, SC_ECONFLICT, "model.kv_heads",
				       "compressed attention has one key for all heads, which are "
				       "values, too: set model.kv_heads 1, without kv_lora_rank");
	return 0;
}

/* A request's own default, or what is missing. Without a pattern all layers are sparse. */
static int check_sparse(const struct sc_resolver *res, const bool mixers[SC_N_MIXERS])
{
	const bool compressed = mixers[SC_MIX_CSA] || mixers[SC_MIX_HCA];
	const bool used = mixers[SC_MIX_DSA] || mixers[SC_MIX_DSA_SHARED] || compressed;
	const struct sc_config *cfg = &res->request->config;
	struct sc_sparse_mixer *of = &res->request->config.model.dsa;

	if (!used && (cfg->model.layers_pattern ||
		      (of->top_k == SC_NOT_GIVEN && of->index_heads == SC_NOT_GIVEN)))
		return 0;
	if (of->index_dim == SC_NOT_GIVEN)
		of->index_dim = 128;
	if (of->block == SC_NOT_GIVEN)
		of->block = 1;
	if (of->index_heads == SC_NOT_GIVEN || of->top_k == SC_NOT_GIVEN)
		return sc_resolve_fail(
			res, SC_EVALUE,
			cfg->model.layers_pattern ? "model.layers_pattern" : "model.dsa",
			"layers of sparse attention: give model.dsa index_heads and top_k (and "
			"index_dim, block), as in `dsa: {index_heads: 64, top_k: 2048}`");
	if (cfg->parallel.cp > 1)
		return sc_resolve_fail(
			res, SC_EUNSUPPORTED, "parallel.cp",
			"parallel.cp %" PRId64
			": layers of dsa choose among all keys, which is modelled on "
			"one rank; set 1",
			cfg->parallel.cp);
	if (cfg->training.attention == SC_ATT_UNFUSED ||
	    !sc_family_traits(cfg->model.family)->causal || cfg->model.attention_gate > 0)
		return sc_resolve_fail(
			res, SC_EUNSUPPORTED,
			cfg->training.attention == SC_ATT_UNFUSED ? "training.attention"
								  : "model.dsa",
			"layers of dsa are modelled causal, ungated, by kernels of their own; %s",
			cfg->training.attention == SC_ATT_UNFUSED
				? "choose training.attention flash"
				: "choose another family or leave model.attention_gate "
				  "out");
	return compressed ? check_compressed(res) : 0;
}

/* Keys of what no layer has. Residual streams are of layers of any kind. */
static void warn_of_idle(const struct sc_resolver *res, const bool used[SC_N_MIXERS],
			 bool has_experts)
{
	const struct sc_model *model = &res->request->config.model;
	const struct sc_sparse_mixer *dsa = &model->dsa;
	const bool compressed = used[SC_MIX_CSA] || used[SC_MIX_HCA];
	const bool full = used[SC_MIX_FULL], attends = full || used[SC_MIX_ATTENTION];
	const bool sparse = compressed || used[SC_MIX_DSA] || used[SC_MIX_DSA_SHARED];
	char csa[64];
	const struct {
		const char *key;
		bool idle;
	} keys[] = {
		/* Without a pattern either number asks for such layers. */
		{"model.dsa",
		 !sparse &&
			 (model->layers_pattern ? dsa->top_k != SC_NOT_GIVEN
						: dsa->top_k == SC_NOT_GIVEN &&
							  dsa->index_heads == SC_NOT_GIVEN &&
							  (dsa->index_dim > 0 || dsa->block > 0))},
		{"model.experts", sc_model_is_moe(model) && !has_experts},
		{"model.attention_gate",
		 model->attention_gate > 0 && !used[SC_MIX_ATTENTION] && !used[SC_MIX_FULL]},
		{"model.sliding_window",
		 model->sliding_window > 0 && !used[SC_MIX_ATTENTION] && !compressed},
		{csa, !compressed && is_section_given(res, "model.csa", csa)},
		{"model.attention_sinks", model->attention_sinks > 0 && !attends},
		{"model.full_head_dim", model->full_head_dim > 0 && !full},
		{"model.full_kv_heads", model->full_kv_heads > 0 && !full},
		{"model.full_keys_as_values", model->full_keys_as_values > 0 && !full},
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].idle)
			sc_warn(&res->request->warnings, "%s has no effect: %s has no such layer",
				keys[i].key,
				model->layers_pattern ? "model.layers_pattern" : "the model");
}

int sc_config_check_pattern(const struct sc_resolver *res)
{
	const struct sc_request *req = res->request;
	const struct sc_model *model = &req->config.model;
	bool used[SC_N_MIXERS] = {false}, plain = model->attention_gate <= 0, has_experts = false;
	int rc = 0;

	for (int64_t i = 0; model->layers_pattern && i < model->layers; i++) {
		const struct sc_layer_kind kind = model->kinds[model->kind_of[i]];

		used[kind.mixer] = true;
		has_experts = has_experts || kind.feed == SC_FEED_EXPERTS;
		plain = plain && kind.mixer < SC_MIX_FIRST_LINEAR && kind.mixer != SC_MIX_NONE &&
			kind.feed != SC_FEED_NONE;
		if (kind.feed == SC_FEED_EXPERTS && !sc_model_is_moe(model))
			return sc_resolve_fail(res, SC_ECONFLICT, "model.layers_pattern",
					       "model.layers_pattern has moe, and the model no "
					       "experts; choose family moe, or write mlp");
	}
	if (!plain && req->config.training.recompute == SC_RECOMPUTE_SELECTIVE &&
	    req->software.selective == SC_SELECTIVE_OPS)
		return sc_resolve_fail(
			res, SC_EUNSUPPORTED, "training.recompute",
			"training.recompute selective of %s keeps every second "
			"product of plain layers; with other kinds in "
			"model.layers_pattern, or attention_gate, choose none or full",
			req->software.id);
	if (!model->layers_pattern) {
		used[sc_model_kind(model, 0).mixer] = true;
		used[SC_MIX_FULL] = model->full_attention_every > 0;
		has_experts = true;
	}
	warn_of_idle(res, used, has_experts);
	rc = check_sparse(res, used);
	for (int mixer = SC_MIX_FIRST_LINEAR; mixer < SC_N_MIXERS && rc == 0; mixer++)
		rc = check_linear(res, mixer, used[mixer]);
	return rc;
}
