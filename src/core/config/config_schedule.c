/* parallel.schedule: its names, how many chunks and replicas each has, and what it needs. */
#include "core/config/config_schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/config/config_priv.h"

/* Megatron Core's text of which chunk of a pipeline has what
 * (megatron/core/transformer/pipeline_parallel_layer_layout.py), as Et*4|(t*4|)*14tmL: chunks in
 * the model's order, parted by |; E is the embedding, t a layer, m one that predicts later tokens,
 * L the output layer. t*4 is tttt; so for a group in parentheses. Commas say nothing. */

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

const struct sc_name sc_schedule_names[] = {
	{"1f1b", SC_SCHED_1F1B},
	{"gpipe", SC_SCHED_GPIPE},
	{"interleaved", SC_SCHED_INTERLEAVED},
	{"breadth-first", SC_SCHED_BREADTH_FIRST},
	{"zb-h1", SC_SCHED_ZB_H1},
	{"zb-h2", SC_SCHED_ZB_H2},
	{"zb-1p", SC_SCHED_ZB_1P},
	{"zb-2p", SC_SCHED_ZB_2P},
	{"zb-v", SC_SCHED_ZB_V},
	{"v-half", SC_SCHED_V_HALF},
	{"v-min", SC_SCHED_V_MIN},
	{"chimera", SC_SCHED_CHIMERA},
	{"hanayo", SC_SCHED_HANAYO},
	{"dualpipe", SC_SCHED_DUALPIPE},
	{"dualpipev", SC_SCHED_DUALPIPEV},
	{"gems", SC_SCHED_GEMS},
	{"auto", SC_SCHED_AUTO}, /* those behind have no passes of one iteration to show */
	{"pipedream-2bw", SC_SCHED_PIPEDREAM_2BW},
	{0},
};

int64_t sc_schedule_replicas(const struct sc_parallel *par)
{
	if (par->schedule == SC_SCHED_DUALPIPE || par->schedule == SC_SCHED_GEMS)
		return 2;
	if (par->schedule != SC_SCHED_CHIMERA)
		return 1;
	return par->chimera_replicas > 0 ? par->chimera_replicas : 2;
}

int64_t sc_schedule_chunks(enum sc_schedule kind)
{
	switch (kind) {
	case SC_SCHED_ZB_V:
	case SC_SCHED_V_HALF:
	case SC_SCHED_V_MIN:
	case SC_SCHED_DUALPIPEV:
		return 2;
	case SC_SCHED_INTERLEAVED:
	case SC_SCHED_BREADTH_FIRST:
	case SC_SCHED_HANAYO:
	case SC_SCHED_FILE:
	case SC_SCHED_AUTO:
		return 0;
	default:
		return 1;
	}
}

bool sc_schedule_validates_after(const struct sc_parallel *par, enum sc_schedule kind)
{
	if (par->optimizer_validation >= 0)
		return par->optimizer_validation > 0;
	return (kind >= SC_SCHED_ZB_H1 && kind <= SC_SCHED_V_MIN) || kind == SC_SCHED_PIPEDREAM_2BW;
}

static bool refuses_replicas(const struct sc_parallel *par, char *buf, size_t n_buf)
{
	int64_t pp = par->pp, replicas = sc_schedule_replicas(par);

	if (replicas % 2 && replicas > 1)
		snprintf(buf, n_buf,
			 "chimera has as many pipelines down the stages as up; parallel."
			 "chimera_replicas %" PRId64 " is odd",
			 replicas);
	else if (pp % replicas)
		snprintf(buf, n_buf,
			 "%s runs %" PRId64
			 " pipelines at once, which have to divide parallel.pp %" PRId64,
			 sc_enum_name(sc_schedule_names, (int)par->schedule), replicas, pp);
	else
		return false;
	return true;
}

bool sc_schedule_refuses(const struct sc_parallel *par, int64_t micro_batches, char *buf,
			 size_t n_buf)
{
	int64_t replicas = sc_schedule_replicas(par);
	bool dual = par->schedule == SC_SCHED_DUALPIPE || par->schedule == SC_SCHED_DUALPIPEV;

	if (refuses_replicas(par, buf, n_buf))
		return true;
	if (par->schedule == SC_SCHED_PIPEDREAM_2BW &&
	    (micro_batches < par->pp || sc_vocab_shares(par) > 1)) {
		snprintf(buf, n_buf,
			 "pipedream-2bw needs a micro-batch a stage, pp = %" PRId64
			 " (there are %" PRId64
			 "), for two versions of the weights to suffice, and "
			 "vocab_stages none; give more samples a replica, or 1f1b",
			 par->pp, micro_batches);
		return true;
	}
	if (!dual || (micro_batches >= 2 * par->pp && micro_batches % replicas == 0))
		return false;
	snprintf(buf, n_buf,
		 "%s needs at least 2 pp = %" PRId64 " micro-batches%s, there are %" PRId64
		 "; give more samples a replica, or 1f1b",
		 sc_enum_name(sc_schedule_names, (int)par->schedule), 2 * par->pp,
		 replicas > 1 ? ", an even number" : "", micro_batches);
	return true;
}

/* ---- resolving ---- */

static const char *schedule_name(enum sc_schedule kind)
{
	return sc_enum_name(sc_schedule_names, (int)kind);
}

/* Without a pipeline there is one order. */
static void drop_schedule(struct sc_request *req)
{
	struct sc_parallel *par = &req->config.parallel;

	if (par->virtual_stages > 1)
		sc_warn(&req->warnings,
			"parallel.virtual_stages %" PRId64
			" has no effect with pp 1; it is taken as 1",
			par->virtual_stages);
	else if (par->schedule > SC_SCHED_INTERLEAVED)
		sc_warn(&req->warnings,
			"parallel.schedule %s has no effect with pp 1; it is taken as 1f1b",
			par->schedule == SC_SCHED_FILE ? par->schedule_file
						       : schedule_name(par->schedule));
	par->virtual_stages = 1;
	if (par->schedule != SC_SCHED_GPIPE)
		par->schedule = SC_SCHED_1F1B;
}

static int fill_chunks(const struct sc_resolver *res)
{
	struct sc_parallel *par = &res->request->config.parallel;
	int64_t chunks = sc_schedule_chunks(par->schedule), given = par->virtual_stages;

	if (par->schedule == SC_SCHED_HANAYO) {
		par->waves = par->waves > 0 ? par->waves : 1;
		chunks = 2 * par->waves;
	}
	if (par->schedule == SC_SCHED_GPIPE && given > 1)
		return sc_resolve_fail(
			res, SC_ECONFLICT, "parallel.schedule",
			"parallel.schedule gpipe has no virtual stages; use 1f1b, or "
			"virtual_stages 1");
	if (par->schedule > SC_SCHED_INTERLEAVED && chunks > 0 && given > 1 && given != chunks)
		return sc_resolve_fail(res, SC_ECONFLICT, "parallel.virtual_stages",
				       "parallel.schedule %s has %" PRId64 " %s a stage; remove "
				       "parallel.virtual_stages %" PRId64,
				       schedule_name(par->schedule), chunks,
				       chunks == 1 ? "chunk" : "chunks", given);
	if (par->schedule > SC_SCHED_INTERLEAVED && chunks > 0)
		par->virtual_stages = chunks;
	if (par->virtual_stages == SC_NOT_GIVEN)
		par->virtual_stages = 1;
	return 0;
}

/* A stack that interleaves by habit: chunks of two layers, where they split so. */
static void interleave_by_default(struct sc_request *req)
{
	struct sc_parallel *par = &req->config.parallel;
	int64_t layers = req->config.model.layers, chunks;

	if (par->pp < 2 || layers < 1 || layers % par->pp || par->stage_layers.n || par->layout ||
	    par->schedule != SC_SCHED_1F1B)
		return;
	chunks = layers / par->pp;
	par->virtual_stages = chunks % 2 ? chunks : chunks / 2;
	sc_warn(&req->warnings,
		"parallel.virtual_stages is not given; %" PRId64 " is taken, as %s's recipes do",
		par->virtual_stages, req->software.id);
}

int sc_config_resolve_schedule(const struct sc_resolver *res)
{
	struct sc_request *req = res->request;
	struct sc_parallel *par = &req->config.parallel;
	int rc;

	/* A layout that is wrong gives none: its check says why. */
	int64_t n_chunks = par->layout ? sc_layout_chunks(par->layout, 0, NULL) : 0;

	if (par->virtual_stages == SC_NOT_GIVEN && n_chunks > 0 && n_chunks % par->pp == 0)
		par->virtual_stages = n_chunks / par->pp;
	if (par->virtual_stages == SC_NOT_GIVEN && req->software.interleaves)
		interleave_by_default(req);
	if (par->pp == 1)
		drop_schedule(req);
	rc = fill_chunks(res);
	if (rc)
		return rc;
	if (par->schedule == SC_SCHED_1F1B && par->virtual_stages > 1)
		par->schedule = SC_SCHED_INTERLEAVED;
	if (par->schedule == SC_SCHED_INTERLEAVED && par->virtual_stages == 1) {
		sc_warn(&req->warnings,
			"parallel.schedule interleaved without virtual_stages above 1 is 1f1b");
		par->schedule = SC_SCHED_1F1B;
	}
	return 0;
}
