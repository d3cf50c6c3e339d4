/* Megatron Core's text of which chunk of a pipeline has what (megatron/core/transformer/pipeline_parallel_layer_layout.py),
 * as Et*4|(t*4|)*14tmL: chunks in the model's order, parted by |; E is the embedding, t a layer, m a layer that predicts
 * later tokens, L the output layer. t*4 is tttt; a group in parentheses may be repeated likewise. Commas say nothing. */
#include <inttypes.h>
#include <string.h>

#include "core/config/config_priv.h"

static const char PARTS[] = "EtmL";
enum { EMBEDDING, LAYER, LATER, OUTPUT, N_PARTS, MAX_CHUNKS = 1 << 16, MAX_TIMES = 1 << 16 };
struct chunk {
	int64_t n[N_PARTS];
};
struct layout {
	const char *why; /* it is wrong; or NULL */
	int64_t *layers, max;
	int64_t n_chunks; /* that are whole */
	struct chunk now, all;
};

static int64_t times_at(struct layout *out, const char **at, const char *end)
{
	int64_t n = 0;
	const char *digit = *at + 1;

	if (*at >= end || **at != '*')
		return 1;
	for (; digit < end && *digit >= '0' && *digit <= '9' && n < MAX_TIMES; digit++)
		n = 10 * n + (*digit - '0');
	if (n < 1 || n >= MAX_TIMES)
		out->why = "a number from 1 on is expected after *";
	*at = digit;
	return n;
}

static void end_chunk(struct layout *out)
{
	const struct chunk *now = &out->now;

	if (now->n[EMBEDDING] + now->n[LAYER] + now->n[LATER] + now->n[OUTPUT] == 0)
		out->why = "a chunk has nothing";
	else if (now->n[EMBEDDING] != (out->n_chunks == 0))
		out->why = "the embedding (E) must be in the first chunk, once";
	else if (out->all.n[OUTPUT])
		out->why = "the output layer (L) must be in the last chunk, once";
	else if (now->n[LATER] && !now->n[OUTPUT])
		out->why =
			"layers that predict later tokens (m) must be in the chunk of the output layer (L)";
	else if (out->n_chunks >= MAX_CHUNKS)
		out->why = "it has too many chunks";
	if (out->why)
		return;
	if (out->n_chunks < out->max)
		out->layers[out->n_chunks] = now->n[LAYER];
	out->n_chunks++;
	for (int i = 0; i < N_PARTS; i++)
		out->all.n[i] += now->n[i];
	out->now = (struct chunk){{0}};
}

static void read_parts(struct layout *out, const char *at, const char *end)
{
	while (at < end && !out->why) {
		const char c = *at++, *part = c ? strchr(PARTS, c) : NULL;
		int64_t times = times_at(out, &at, end);

		if (c == ',')
			continue;
		if (part)
			out->now.n[part - PARTS] += times;
		else if (c != '|')
			out->why = "it is made of E, t, m, L, |, *n and groups in parentheses";
		for (int64_t i = 0; c == '|' && i < times && !out->why; i++)
			end_chunk(out);
	}
}

static void read_layout(struct layout *out, const char *at)
{
	while (*at && !out->why) {
		const char *open = at + strcspn(at, "("), *close = open + strcspn(open, ")"), *end;
		int64_t times;

		read_parts(out, at, open);
		if (!*open || out->why)
			break;
		if (!*close)
			out->why = "a parenthesis is not closed";
		at = *close ? close + 1 : close;
		end = at + strlen(at);
		times = times_at(out, &at, end);
		for (int64_t i = 0; i < times && !out->why; i++)
			read_parts(out, open + 1, close);
	}
	if (!out->why)
		end_chunk(out);
	if (!out->why && out->all.n[OUTPUT] != 1)
		out->why = "the output layer (L) must be in the last chunk, once";
}

int64_t sc_layout_chunks(const char *text, int64_t max, int64_t *layers)
{
	struct layout layout = {.layers = layers, .max = max};

	read_layout(&layout, text);
	return layout.why ? 0 : layout.n_chunks;
}

int sc_config_check_layout(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	const struct sc_parallel *par = &cfg->parallel;
	const struct sc_model *m = &cfg->model;
	struct layout layout = {.max = 0};
	int64_t n_chunks = par->pp * par->virtual_stages;

	if (par->stage_layers.n || par->count_embedding || par->count_loss)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.layout",
				       "parallel.layout says where all layers are: remove "
				       "stage_layers, count_embedding and count_loss");
	read_layout(&layout, par->layout);
	if (layout.why)
		return sc_resolve_fail(res, SC_EVALUE, "parallel.layout", "parallel.layout: %s",
				       layout.why);
	if (layout.n_chunks != n_chunks)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.layout",
				       "parallel.layout has %" PRId64 " chunks; pp %" PRId64
				       " x virtual_stages %" PRId64 " is %" PRId64,
				       layout.n_chunks, par->pp, par->virtual_stages, n_chunks);
	if (layout.all.n[LAYER] != m->layers || layout.all.n[LATER] != m->mtp_layers)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.layout",
				       "parallel.layout has %" PRId64 " layers and %" PRId64
				       " for later tokens; the model has %" PRId64 " and %" PRId64,
				       layout.all.n[LAYER], layout.all.n[LATER], m->layers,
				       m->mtp_layers);
	return 0;
}
