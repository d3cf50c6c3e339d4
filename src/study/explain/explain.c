/* Makes one prediction per resource for sensitivities, and one per alternative setting. The scratch
 * prediction is large, so it lives on the heap. */
#include "study/explain/explain.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"

struct what_if_row {
	const char *resource, *meaning;
	size_t offset; /* place of its speed in sc_predict_opts */
};
static const struct what_if_row ROWS[SC_N_WHAT_IFS] = {
	{"gemm", "faster GEMMs and attention", offsetof(struct sc_predict_opts, gemm_speed)},
	{"hbm", "more memory bandwidth", offsetof(struct sc_predict_opts, hbm_speed)},
	{"link", "faster links inside the node", offsetof(struct sc_predict_opts, link_speed)},
	{"nic", "faster network between nodes", offsetof(struct sc_predict_opts, nic_speed)},
	{"host", "a faster host", offsetof(struct sc_predict_opts, host_speed)},
};

/* Lets a predictor have the base's room, unless somebody looks at what is there: pages that a deep
 * pipeline fills for the first time take as long as its simulation. */
static void lend_room(const struct sc_evaluator *base, struct sc_predictor *to)
{
	if (!base->opts.keep_graph)
		sc_predictor_lend(base->predictor, to);
}

int sc_explain(const struct sc_evaluator *base, struct sc_explanation *out, struct sc_err *err)
{
	/* the base's predictor keeps its texts */
	struct sc_predictor *predictor = sc_predictor_create();
	struct sc_prediction *faster = sc_xmalloc(sizeof(*faster));
	struct sc_explanation result = {.speed = 1.1};
	int rc = 0;

	lend_room(base, predictor);
	for (size_t i = 0; i < SC_N_WHAT_IFS && rc == 0; i++) {
		struct sc_predict_opts changed = base->opts;
		double *speed = (double *)(void *)((unsigned char *)&changed + ROWS[i].offset);

		changed.keep_graph = false;
		changed.brief = true;
		*speed *= result.speed;
		rc = sc_predict(predictor, &base->request, &changed, faster, err);
		result.what_if[i] = (struct sc_what_if){
			.resource = ROWS[i].resource,
			.meaning = ROWS[i].meaning,
			.iteration_ms = faster->iteration_ms,
			.gain_pct = 100.0 *
				    (1.0 - faster->iteration_ms / base->prediction.iteration_ms),
		};
	}
	if (rc == 0)
		*out = result;
	free(faster);
	sc_predictor_destroy(predictor);
	return rc;
}

/* Each alternative is a few --set texts over the config as it was given. Those that help alone are
 * then put together, the one that helps most first, as long as each helps more. */

/* MAX_DOUBLED limits how often experts are divided once more: a split that begins undivided is a
 * node away from what fits. */
enum { MAX_SETS = 8, MAX_TOGETHER = 4, MAX_DOUBLED = 5 };

struct sets {
	const char *path[MAX_SETS];
	char text[MAX_SETS][24];
	size_t n;
};
struct trying {
	const struct sc_config *config;
	const char *file;
	const struct sc_request *request;
	const struct sc_prediction *base;
	struct sc_evaluator *changed;
	struct sc_arena arena; /* of a candidate's settings */
	struct sc_alternatives *out;
	struct sets sets[SC_MAX_ALTERNATIVES]; /* of out->at */
};

static void add_set(struct sets *sets, const char *path, int64_t value)
{
	sets->path[sets->n] = path;
	snprintf(sets->text[sets->n++], sizeof(sets->text[0]), "%" PRId64, value);
}

static void describe(const struct trying *t, const struct sets *sets, const struct sc_floor *floor,
		     double ms, struct sc_alternative *a)
{
	const struct sc_prediction *base = t->base;
	size_t n = 0;

	*a = (struct sc_alternative){
		.iteration_ms = ms,
		.floor_ms = floor->iteration_ms,
		.gain_pct = 100 * (1 - ms / base->iteration_ms),
		.memory_gib = floor->memory.total_gib,
		.saved_gib = base->memory.total_gib - floor->memory.total_gib,
		.fullness = sc_memory_fullness(&floor->memory),
		.fits = sc_memory_has_margin(&floor->memory),
	};
	for (size_t i = 0; i < sets->n && n < sizeof(a->settings); i++)
		n += (size_t)snprintf(a->settings + n, sizeof(a->settings) - n, "%s%s=%s",
				      i ? " " : "", sets->path[i], sets->text[i]);
}

/* Two sums of the same parts are the same, whatever their order. */
static bool is_same(double a, double b)
{
	return fabs(a - b) <= 1e-12 * fabs(b);
}

/* Returns false for settings that cannot run, change nothing, or cannot take less than `below_ms`.
 * Memory comes first: where the config itself does not fit, nobody asks for the time of an
 * alternative that does not either. */
static bool predict_alternative(struct trying *t, const struct sets *sets, double below_ms,
				struct sc_alternative *out)
{
	const struct sc_memory *was = &t->base->memory;
	struct sc_evaluator *e = t->changed;
	struct sc_setting settings[MAX_SETS];
	const struct sc_candidate candidate = {t->config, t->file, settings, sets->n, &t->arena};
	struct sc_arena_mark mark = sc_arena_mark(&t->arena);
	struct sc_err ignored = {.code = SC_OK};
	double ms = NAN;
	bool runs;

	for (size_t i = 0; i < sets->n; i++)
		settings[i] = (struct sc_setting){sets->path[i], sets->text[i], "--explain"};
	runs = sc_evaluate_resolve(e, &candidate, &ignored) == 0 &&
	       sc_evaluate_floor(e, &ignored) == 0 && e->floor.iteration_ms < below_ms;
	if (runs && (sc_memory_fullness(was) <= 1 || sc_memory_has_margin(&e->floor.memory))) {
		runs = sc_evaluate_request(e, &ignored) == 0;
		ms = e->prediction.iteration_ms;
	}
	sc_arena_rewind(&t->arena, mark);
	if (!runs || ((isnan(ms) || is_same(ms, t->base->iteration_ms)) &&
		      is_same(e->floor.memory.total_gib, was->total_gib) &&
		      is_same(e->floor.memory.host_gib, was->host_gib)))
		return false;
	describe(t, sets, &e->floor, ms, out);
	return true;
}

static void try_sets(struct trying *t, const struct sets *sets)
{
	struct sc_alternatives *out = t->out;

	if (out->n == SC_MAX_ALTERNATIVES ||
	    !predict_alternative(t, sets, HUGE_VAL, &out->at[out->n]))
		return;
	t->sets[out->n++] = *sets;
}

static bool scale(int64_t *value, int by)
{
	if (by < 0 && *value % -by != 0)
		return false;
	*value = by < 0 ? *value / -by : *value * by;
	return true;
}

/* Each row multiplies every axis by a factor, or divides it where the factor is below 0. */
static void try_splits(struct trying *t)
{
	static const int BY[][4] = {{2, 1, 1, -2}, {-2, 1, 1, 2}, {1, 2, 1, -2}, {1, -2, 1, 2},
				    {2, -2, 1, 1}, {-2, 2, 1, 1}, {1, 1, 2, -2}, {1, 1, -2, 2},
				    {-2, 1, 2, 1}, {2, 1, -2, 1}};
	static const char *const PATHS[] = {"parallel.tp", "parallel.pp", "parallel.cp",
					    "parallel.dp"};
	const struct sc_parallel *par = &t->request->config.parallel;

	for (size_t i = 0; i < sizeof(BY) / sizeof(BY[0]); i++) {
		const int64_t now[4] = {par->tp, par->pp, par->cp, par->dp};
		struct sets sets = {.n = 0};
		bool can = true;

		for (int k = 0; k < 4; k++) {
			int64_t value = now[k];

			can = can && scale(&value, BY[i][k]);
			if (BY[i][k] != 1)
				add_set(&sets, PATHS[k], value);
		}
		if (can)
			try_sets(t, &sets);
	}
}

/* Tries half of a number, and twice it, up to `n` times. */
static void try_values(struct trying *t, const char *path, int64_t now, int n)
{
	int64_t half = now;

	for (int i = scale(&half, -2) ? 0 : 1; i <= n; i++) {
		struct sets sets = {.n = 0};

		add_set(&sets, path, i == 0 ? half : now << i);
		try_sets(t, &sets);
	}
}

static void try_settings(struct trying *t)
{
	static const char *const SETTINGS[][2] = {
		{"training.recompute", "none"},
		{"training.recompute", "selective"},
		{"training.recompute", "full"},
		{"parallel.sharding", "zero1"},
		{"parallel.sharding", "zero2"},
		{"parallel.sharding", "zero3"},
		{"parallel.sequence_parallel", "true"},
		{"parallel.virtual_stages", "2"},
		{"training.offload.optimizer", "cpu"},
		{"training.offload.activations", "cpu"},
		{"parallel.etp", "1"},
	};

	for (size_t i = 0; i < sizeof(SETTINGS) / sizeof(SETTINGS[0]); i++) {
		struct sets sets = {.path = {SETTINGS[i][0]}, .n = 1};

		snprintf(sets.text[0], sizeof(sets.text[0]), "%s", SETTINGS[i][1]);
		try_sets(t, &sets);
	}
}

/* ---- together ---- */

/* An alternative that fits is better by its time, one that does not by its memory. */
static bool is_better(const struct sc_alternative *a, const struct sc_alternative *b)
{
	if (a->fits && b->fits)
		return a->iteration_ms < b->iteration_ms;
	return a->fullness < b->fullness && !b->fits;
}

static bool join(const struct sets *a, const struct sets *b, struct sets *out)
{
	*out = *a;
	for (size_t i = 0; i < b->n; i++) {
		for (size_t k = 0; k < a->n; k++)
			if (strcmp(a->path[k], b->path[i]) == 0)
				return false;
		if (out->n == MAX_SETS)
			return false;
		out->path[out->n] = b->path[i];
		memcpy(out->text[out->n++], b->text[i], sizeof(out->text[0]));
	}
	return true;
}

/* The floor must be below this for `both` to be worth its prediction. An alternative that fits
 * gains nothing by an offload, which moves bytes, unless the room lets less be done (by another
 * schedule, a larger micro-batch). */
static double most_ms(const struct sc_alternative *now, const struct sc_alternative *best,
		      const struct sets *added)
{
	if (now->fits && strstr(added->path[0], ".offload."))
		return fmin(now->floor_ms, best->iteration_ms);
	return best->fits ? best->iteration_ms : HUGE_VAL;
}

static void combine(struct trying *t)
{
	struct sc_alternatives *out = t->out;
	const size_t n_alone = out->n;
	struct sc_alternative base, now;
	struct sets sets = {.n = 0};

	describe(t, &sets, &(struct sc_floor){.memory = t->base->memory}, t->base->iteration_ms,
		 &base);
	now = base;
	for (int step = 0; step < MAX_TOGETHER; step++) {
		struct sc_alternative best = now, one;
		struct sets both, best_sets = {.n = 0};

		for (size_t i = 0; i < n_alone; i++) {
			if (!is_better(&out->at[i], &base) || !join(&sets, &t->sets[i], &both))
				continue;
			if (step == 0)
				one = out->at[i];
			else if (!predict_alternative(t, &both, most_ms(&now, &best, &t->sets[i]),
						      &one))
				continue;
			if (!is_better(&one, &best))
				continue;
			best = one;
			best_sets = both;
		}
		if (best_sets.n == 0 || (step > 0 && out->n == SC_MAX_ALTERNATIVES))
			return;
		now = best;
		sets = best_sets;
		if (step > 0)
			out->at[out->n++] = now;
	}
}

static int by_use(const void *a, const void *b)
{
	const struct sc_alternative *x = a, *y = b;
	int order = 2 * SC_ORDER(y->fits, x->fits) +
		    (isnan(x->iteration_ms) ? SC_ORDER(x->fullness, y->fullness)
					    : SC_ORDER(x->iteration_ms, y->iteration_ms));

	return order ? order : strcmp(x->settings, y->settings);
}

void sc_find_alternatives(const struct sc_evaluator *base, const struct sc_config *config,
			  const char *file, struct sc_alternatives *out)
{
	const struct sc_request *request = &base->request;
	struct trying trying = {.config = config,
				.file = file,
				.request = request,
				.base = &base->prediction,
				.changed = sc_evaluator_create(base->catalog),
				.out = out};

	out->n = 0;
	sc_arena_init(&trying.arena, 0);
	trying.changed->opts = base->opts;
	trying.changed->opts.keep_graph = false;
	trying.changed->opts.brief = true;
	lend_room(base, trying.changed->predictor);
	if (sc_model_is_transformer(&request->config.model)) {
		try_splits(&trying);
		try_values(&trying, "training.micro_batch", request->config.training.micro_batch,
			   1);
		if (request->config.model.experts > 0)
			try_values(&trying, "parallel.ep", request->config.parallel.ep,
				   MAX_DOUBLED);
		try_settings(&trying);
		combine(&trying);
	}
	qsort(out->at, out->n, sizeof(out->at[0]), by_use);
	sc_evaluator_destroy(trying.changed);
	sc_arena_release(&trying.arena);
}
