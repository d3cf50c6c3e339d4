/* model.layers_pattern: the kinds of a model's layers in order, as in (3*gdn,1*attn)*12; as the list of names that
 * Hugging Face's layer_types is; or as Nemotron's letters, MEMEM*E. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/config/config_priv.h"

/* Names of a mixer stand for a layer with a feed-forward part, but beside names of that part, where each stands alone.
 * SC_N_MIXERS: the one kind of linear attention that the model has a section of. */
static const struct word {
	const char *name;
	int mixer;
	enum sc_feed alone;
} WORDS[] = {
	{"attn", SC_MIX_ATTENTION, SC_FEED_NONE},
	{"full_attn", SC_MIX_FULL, SC_FEED_NONE},
	{"gdn", SC_MIX_GDN, SC_FEED_NONE},
	{"moe", SC_MIX_NONE, SC_FEED_EXPERTS},
	{"mlp", SC_MIX_NONE, SC_FEED_MLP},
	/* Hugging Face's; its chunks count as windows. */
	{"attention", SC_MIX_ATTENTION, SC_FEED_NONE},
	{"sliding_attention", SC_MIX_ATTENTION, SC_FEED_NONE},
	{"full_attention", SC_MIX_FULL, SC_FEED_NONE},
	{"linear_attention", SC_N_MIXERS, SC_FEED_NONE},
	/* Nemotron's (Megatron Core, mamba_hybrid_layer_allocation.py). */
	{"*", SC_MIX_ATTENTION, SC_FEED_NONE},
	{"E", SC_MIX_NONE, SC_FEED_EXPERTS},
	{"-", SC_MIX_NONE, SC_FEED_MLP},
};
enum { N_WORDS = sizeof(WORDS) / sizeof(WORDS[0]), N_OWN = 5, MAX_DEPTH = 8, MAX_NAME = 32 };

struct reader {
	const char *text, *at;
	struct sc_pattern *out;
	int depth;
	struct sc_err *err;
};

static int wrong(const struct reader *r, const char *expected)
{
	return sc_err_set(r->err, SC_EVALUE, "character %zu: expected %s",
			  (size_t)(r->at - r->text) + 1, expected);
}

static int too_many(const struct reader *r)
{
	return sc_err_set(r->err, SC_ELIMIT, "more than %d layers", SC_MAX_PATTERN);
}

/* With what spaces are round it. */
static bool take(struct reader *r, char c)
{
	r->at += strspn(r->at, " \t\n");
	if (*r->at != c)
		return false;
	r->at++;
	r->at += strspn(r->at, " \t\n");
	return true;
}

/* The word of the next `n` characters. */
static int read_word(struct reader *r, size_t n)
{
	const char *own[N_OWN], *near;
	char name[MAX_NAME] = "";
	size_t i = 0;

	if (n == 0 || n >= MAX_NAME)
		return wrong(r, "a kind of layer, a number or \"(\"");
	memcpy(name, r->at, n);
	while (i < N_WORDS && strcmp(WORDS[i].name, name) != 0)
		i++;
	if (i < N_WORDS && r->out->n == SC_MAX_PATTERN)
		return too_many(r);
	if (i < N_WORDS) {
		r->out->at[r->out->n++] = (uint8_t)i;
		r->at += n;
		return 0;
	}
	for (i = 0; i < N_OWN; i++)
		own[i] = WORDS[i].name;
	near = sc_nearest(name, own, N_OWN);
	return sc_err_set(
		r->err, SC_EVALUE,
		"character %zu: unknown kind \"%s\"%s%s%s; known kinds: attn, full_attn, gdn, "
		"moe, mlp",
		(size_t)(r->at - r->text) + 1, name, near ? " (did you mean \"" : "",
		near ? near : "", near ? "\"?)" : "");
}

static int read_count(struct reader *r, size_t *times)
{
	size_t n = 0;

	if (!isdigit((unsigned char)*r->at))
		return wrong(r, "a number");
	while (isdigit((unsigned char)*r->at) && n <= SC_MAX_PATTERN)
		n = 10 * n + (size_t)(*r->at++ - '0');
	*times *= n;
	if (n < 1)
		return wrong(r, "a count above 0 before this");
	return *times > SC_MAX_PATTERN ? too_many(r) : 0;
}

static int read_list(struct reader *r);

/* 3*NAME, NAME*3, (LIST)*3. */
static int read_item(struct reader *r)
{
	struct sc_pattern *out = r->out;
	size_t begin = out->n, times = 1, n = 0;
	int rc = 0;

	if (isdigit((unsigned char)*r->at)) {
		rc = read_count(r, &times);
		if (rc == 0 && !take(r, '*'))
			rc = wrong(r, "\"*\" behind the number");
	}
	if (rc)
		return rc;
	if (*r->at == '(' || *r->at == '[') {
		char end = *r->at == '(' ? ')' : ']';

		if (++r->depth > MAX_DEPTH)
			return wrong(r, "fewer brackets in each other");
		take(r, *r->at);
		rc = read_list(r);
		if (rc == 0 && !take(r, end))
			rc = wrong(r, end == ')' ? "\",\" or \")\"" : "\",\" or \"]\"");
		r->depth--;
	} else {
		while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_')
			n++;
		rc = read_word(r, n);
	}
	if (rc == 0 && take(r, '*'))
		rc = read_count(r, &times);
	n = out->n - begin;
	if (rc == 0 && begin + times * n > SC_MAX_PATTERN)
		rc = too_many(r);
	for (; rc == 0 && times > 1; times--, out->n += n)
		memcpy(out->at + out->n, out->at + begin, n);
	return rc;
}

static int read_list(struct reader *r)
{
	int rc;

	do
		rc = read_item(r);
	while (rc == 0 && take(r, ','));
	return rc;
}

int sc_pattern_parse(const char *text, struct sc_pattern *out, struct sc_err *err)
{
	struct sc_err own = {.code = SC_OK};
	struct reader r = {.text = text, .at = text, .out = out, .err = &own};
	int rc = 0;

	out->n = 0;
	r.at += strspn(text, " \t\n");
	if (*text && strspn(text, "ME*-") == strlen(text))
		while (*r.at && rc == 0)
			rc = read_word(&r, 1);
	else {
		rc = read_list(&r);
		if (rc == 0 && *r.at)
			rc = wrong(&r, "\",\", \"*\" or the end");
	}
	return rc ? sc_err_set(err, own.code, "%s", own.text) : 0;
}

static bool has_section(const struct sc_model *model, int mixer)
{
	return sc_model_linear(model, (enum sc_mixer)mixer)->value_heads != SC_NOT_GIVEN;
}

/* Of the word of a layer: an unknown linear attention is the first with a section. */
static enum sc_mixer mixer_of(const struct sc_model *model, const struct word *word)
{
	int mixer = SC_MIX_FIRST_LINEAR;

	if (word->mixer == SC_MIX_FULL && !sc_model_has_windows(model))
		return SC_MIX_ATTENTION;
	if (word->mixer < SC_N_MIXERS)
		return (enum sc_mixer)word->mixer;
	while (mixer + 1 < SC_N_MIXERS && !has_section(model, mixer))
		mixer++;
	return (enum sc_mixer)mixer;
}

/* Kinds in the order in which they come, then that of most layers first. */
static bool number_kinds(struct sc_model *model, const struct sc_pattern *pattern)
{
	size_t count[SC_N_LAYER_KINDS] = {0};
	int n_kinds = 0, most = 0;
	bool apart = false;

	for (size_t i = 0; i < pattern->n; i++)
		apart = apart || WORDS[pattern->at[i]].alone != SC_FEED_NONE;
	for (size_t i = 0; i < pattern->n; i++) {
		const struct word *word = &WORDS[pattern->at[i]];
		struct sc_layer_kind one = {mixer_of(model, word), word->alone};
		int kind = 0;

		if (!apart)
			one.feed = sc_model_layer_feed(model, (int64_t)i);
		while (kind < n_kinds && !(model->kinds[kind].mixer == one.mixer &&
					   model->kinds[kind].feed == one.feed))
			kind++;
		if (kind == SC_N_LAYER_KINDS)
			return false;
		n_kinds = kind < n_kinds ? n_kinds : kind + 1;
		model->kinds[kind] = one;
		model->kind_of[i] = (uint8_t)kind;
		count[kind]++;
	}
	for (int kind = 1; kind < n_kinds; kind++)
		most = count[kind] > count[most] ? kind : most;
	struct sc_layer_kind first = model->kinds[0];
	model->kinds[0] = model->kinds[most];
	model->kinds[most] = first;
	for (size_t i = 0; i < pattern->n; i++)
		if (model->kind_of[i] == 0 || model->kind_of[i] == most)
			model->kind_of[i] = (uint8_t)(most - model->kind_of[i]);
	return true;
}

static const char *mixer_name(int mixer)
{
	const struct word *word = WORDS;

	while (word->mixer != mixer)
		word++;
	return word->name;
}

/* The sizes of a section: as many value heads a key head, all of a rank's whole. */
static int check_linear(const struct sc_resolver *res, int mixer)
{
	const struct sc_parallel *par = &res->request->config.parallel;
	struct sc_linear_mixer *of =
		&res->request->config.model.linear[mixer - SC_MIX_FIRST_LINEAR];
	const char *name = mixer_name(mixer);
	char path[32];

	snprintf(path, sizeof(path), "model.%s", name);
	if (of->value_heads == SC_NOT_GIVEN || of->key_dim == SC_NOT_GIVEN)
		return sc_resolve_fail(res, SC_EVALUE, "model.layers_pattern",
				       "model.layers_pattern has %s: give %s its value_heads and "
				       "key_dim (and key_heads, value_dim, conv), as in `%s: "
				       "{value_heads: 32, key_dim: 128}`",
				       name, path, name);
	if (of->key_heads == SC_NOT_GIVEN)
		of->key_heads = of->value_heads;
	if (of->value_dim == SC_NOT_GIVEN)
		of->value_dim = of->key_dim;
	if (of->conv == SC_NOT_GIVEN)
		of->conv = 4;
	if (of->value_heads % of->key_heads)
		return sc_resolve_fail(res, SC_ECONFLICT, path,
				       "%s: value_heads %" PRId64
				       " is no multiple of key_heads %" PRId64,
				       path, of->value_heads, of->key_heads);
	if (of->key_heads % par->tp)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.tp",
				       "%s.key_heads %" PRId64
				       " do not split over parallel.tp %" PRId64
				       "; choose a tp that divides them",
				       path, of->key_heads, par->tp);
	if (par->cp > 1)
		return sc_resolve_fail(
			res, SC_EUNSUPPORTED, "parallel.cp",
			"parallel.cp %" PRId64
			": layers of %s carry a state along the sequence, which is not "
			"passed between ranks; set cp 1",
			par->cp, name);
	return 0;
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
	if (!number_kinds(model, &pattern))
		return sc_resolve_fail(res, SC_ELIMIT, path, "%s has more than %d kinds of layers",
				       path, SC_N_LAYER_KINDS);
	return 0;
}

int sc_config_check_pattern(const struct sc_resolver *res)
{
	const struct sc_request *req = res->request;
	const struct sc_model *model = &req->config.model;
	bool used[SC_N_MIXERS] = {false};
	int rc = 0;

	if (model->attention_gate > 0 && sc_model_is_mla(model))
		return sc_resolve_fail(res, SC_EUNSUPPORTED, "model.attention_gate",
				       "model.attention_gate beside latent attention "
				       "(model.kv_lora_rank) is not modelled; remove one of them");
	if ((model->layers_pattern || model->attention_gate > 0) &&
	    req->config.training.recompute == SC_RECOMPUTE_SELECTIVE &&
	    req->software.selective == SC_SELECTIVE_OPS)
		return sc_resolve_fail(res, SC_EUNSUPPORTED, "training.recompute",
				       "training.recompute selective of %s keeps every second "
				       "product of plain attention; with model.layers_pattern or "
				       "attention_gate choose none or full",
				       req->software.id);
	for (int64_t i = 0; model->layers_pattern && i < model->layers && rc == 0; i++) {
		const struct sc_layer_kind kind = model->kinds[model->kind_of[i]];

		if (kind.mixer >= SC_MIX_FIRST_LINEAR && !used[kind.mixer])
			rc = check_linear(res, (int)kind.mixer);
		if (rc == 0 && kind.feed == SC_FEED_EXPERTS && !sc_model_is_moe(model))
			rc = sc_resolve_fail(res, SC_ECONFLICT, "model.layers_pattern",
					     "model.layers_pattern has moe, and the model no "
					     "experts; choose family moe, or write mlp");
		used[kind.mixer] = true;
	}
	for (int mixer = SC_MIX_FIRST_LINEAR; mixer < SC_N_MIXERS && rc == 0; mixer++)
		if (!used[mixer] && has_section(model, mixer))
			sc_warn(&res->request->warnings,
				"model.%s has no effect: model.layers_pattern has no such layer",
				mixer_name(mixer));
		else if (used[mixer] && !sc_family_traits(model->family)->causal)
			rc = sc_resolve_fail(res, SC_EUNSUPPORTED, "model.layers_pattern",
					     "model.layers_pattern: linear attention reads "
					     "backwards only, and family %s both ways",
					     sc_family_name(model->family));
	return rc;
}
