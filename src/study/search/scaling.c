/* Runs one search for each number of GPUs, and compares their throughput. */
#include <string.h>

#include "base/strbuf.h"
#include "study/search/split_search.h"

static const char *split_text(const struct sc_search_result *r, struct sc_arena *arena)
{
	struct sc_strbuf text = {0};
	const char *out;

	for (size_t i = 0; i < r->cases.n_cols; i++) {
		const char *dot = strrchr(r->cases.header[i], '.');

		sc_strbuf_printf(&text, "%s%s %s", i ? ", " : "",
				 dot ? dot + 1 : r->cases.header[i],
				 sc_csv_cell(&r->cases, r->shown[0].row, i));
	}
	out = sc_arena_strdup(arena, sc_strbuf_get(&text));
	sc_strbuf_release(&text);
	return out;
}

/* The work that is done in a unit of time. */
static double rate_of(const struct sc_scaling *scaling, const struct sc_scaling_point *p)
{
	double work = scaling->weak ? (double)p->gpus : 1;

	return work / p->best.iteration_ms;
}

static int find_best(const struct sc_scaling *scaling, struct sc_scaling_point *p,
		     struct sc_arena *arena, struct sc_err *err)
{
	struct sc_config config = *scaling->search->base;
	struct sc_search search = *scaling->search;
	struct sc_search_result result;
	struct sc_err own = {.code = SC_OK};
	int rc;

	config.gpus = p->gpus;
	if (scaling->weak && config.training.global_batch > 0)
		config.training.global_batch *= p->gpus / scaling->sizes[0];
	search.base = &config;
	search.best_only = true;
	rc = sc_search_run(&search, arena, &result, &own);
	if (rc && own.code != SC_ECONFLICT && own.code != SC_EVALUE && own.code != SC_EMISFIT)
		return sc_err_at(err, own.code, SC_AT(&own), "%s", own.text);
	if (rc)
		p->error = sc_arena_strdup(arena, own.text);
	if (p->error)
		return 0;
	p->best = *sc_search_case_of(&result, result.shown[0].row).outcome;
	p->proven = result.proven;
	p->split = split_text(&result, arena);
	return 0;
}

int sc_scaling_run(struct sc_scaling *scaling, struct sc_arena *arena, struct sc_err *err)
{
	const struct sc_scaling_point *first = NULL;
	int rc = 0;

	scaling->points = sc_arena_calloc(arena, scaling->n + 1, sizeof(*scaling->points));
	for (size_t i = 0; i < scaling->n && rc == 0; i++) {
		struct sc_scaling_point *p = &scaling->points[i];

		*p = (struct sc_scaling_point){.gpus = scaling->sizes[i]};
		rc = find_best(scaling, p, arena, err);
		if (rc || p->error)
			continue;
		if (!first)
			first = p;
		p->speedup = rate_of(scaling, p) / rate_of(scaling, first);
		p->efficiency = p->speedup * (double)first->gpus / (double)p->gpus;
	}
	return rc;
}
