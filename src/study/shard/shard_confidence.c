/* Paired Monte Carlo over plans. Errors are lognormal with mean 1. Draws of a sample come in a
 * fixed order: families, then tables, then kinds of shard by their first appearance; so one more
 * plan changes the draws of the others only by its own new kinds, which come last. */
#include "study/shard/shard_confidence.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/intern.h"
#include "base/rng.h"
#include "base/stats.h"

enum { MAX_SAMPLES = 1 << 20 };
#define TIE_SHARE 0.1
#define SAME_COST 1e-3 /* relative: nobody acts on a smaller difference */
#define MAX_CELLS ((size_t)1 << 28)

/* A term ready to be scaled: its time by family, its table and kind; it is the same on `n_ranks`
 * from `rank` on. */
struct part {
	uint32_t rank, n_ranks, table, kind;
	double ms[SC_N_COST_FAMILIES];
};
struct plan_parts {
	struct part *at;
	size_t n;
	double usual_ms; /* the busiest rank without errors */
};
struct study {
	const struct sc_shard_problem *problem;
	const struct sc_confidence_opts *opts;
	struct plan_parts *plans;
	size_t n_plans, n_kinds;
	double family[SC_N_COST_FAMILIES], rest;
	double *table, *kind, *rank_ms;
	double *cost; /* [plan][sample] */
	struct sc_arena arena;
};

static bool same_kind(const struct sc_shard_term *x, const struct sc_shard_term *y)
{
	return x->table == y->table && x->type == y->type && x->tier == y->tier &&
	       x->cols == y->cols && x->rows == y->rows;
}

/* Returns the number of the term's kind among those known, by first appearance. */
static uint32_t kind_of(const struct sc_shard_term *t, struct sc_intern *kinds)
{
	char text[96];

	snprintf(text, sizeof(text), "%u %d %d %lld %lld", t->table, (int)t->type, (int)t->tier,
		 (long long)t->cols, (long long)t->rows);
	return sc_intern_add(kinds, text);
}

static enum sc_cost_family collective_of(enum sc_shard_type type)
{
	switch (type) {
	case SC_DATA_PARALLEL:
		return SC_COST_REDUCE;
	case SC_ROW_WISE:
	case SC_TABLE_ROW_WISE:
	case SC_GRID:
		return SC_COST_SCATTER;
	default:
		return SC_COST_A2A;
	}
}

static void gather(struct study *study, const struct sc_confidence_plan *plans)
{
	struct sc_intern kinds = {.n_slots = 0};

	for (size_t i = 0; i < study->n_plans; i++) {
		struct plan_parts *out = &study->plans[i];

		out->at =
			sc_arena_calloc(&study->arena, plans[i].terms->at.n + 1, sizeof(*out->at));
		for (size_t k = 0; k < plans[i].terms->at.n; k++) {
			const struct sc_shard_term *term = &plans[i].terms->at.at[k];
			const bool on_host = term->tier == SC_TIER_UVM || term->tier == SC_TIER_SSD;
			struct part *part = &out->at[out->n], *last = part - 1;

			/* the term equals the last part and is on the rank after it */
			if (out->n && term->rank == last->rank + last->n_ranks &&
			    same_kind(term - 1, term) &&
			    term->option_shard == term[-1].option_shard &&
			    term->ms <= term[-1].ms && term->ms >= term[-1].ms) {
				last->n_ranks++;
				continue;
			}
			*part = (struct part){.rank = term->rank,
					      .n_ranks = 1,
					      .table = term->table,
					      .kind = kind_of(term, &kinds)};
			part->ms[collective_of(term->type)] = term->comms_ms;
			part->ms[SC_COST_HOST] += term->prefetch_ms;
			part->ms[on_host ? SC_COST_HOST : SC_COST_LOOKUP] +=
				term->ms - term->comms_ms - term->prefetch_ms;
			out->n++;
		}
	}
	study->n_kinds = sc_intern_count(&kinds);
	sc_intern_release(&kinds);
}

/* Without `rng` the factor is the mean, 1. */
static double draw(struct sc_rng *rng, double frac)
{
	return rng ? exp(frac * sc_rng_normal(rng) - frac * frac / 2) : 1;
}

static void draw_sample(struct study *study, struct sc_rng *rng)
{
	const struct sc_confidence_opts *opts = study->opts;

	for (int family = 0; family < SC_N_COST_FAMILIES; family++) {
		bool is_kernel = family == SC_COST_LOOKUP || family == SC_COST_HOST;

		study->family[family] =
			draw(rng, is_kernel ? opts->kernel_frac : opts->collective_frac);
	}
	study->rest = draw(rng, opts->rest_frac);
	for (size_t i = 0; i < study->problem->n_tables; i++)
		study->table[i] = draw(rng, opts->drift_frac);
	for (size_t i = 0; i < study->n_kinds; i++)
		study->kind[i] = draw(rng, opts->shard_frac);
}

/* Drift changes what is looked up; the pooled outputs that are sent stay as many. */
static double busiest(const struct study *study, const struct plan_parts *plan)
{
	uint32_t world = study->problem->world;
	double worst = 0, everywhere = 0;

	memset(study->rank_ms, 0, world * sizeof(*study->rank_ms));
	for (size_t i = 0; i < plan->n; i++) {
		const struct part *part = &plan->at[i];
		double rows = part->ms[SC_COST_LOOKUP] * study->family[SC_COST_LOOKUP] +
			      part->ms[SC_COST_HOST] * study->family[SC_COST_HOST];
		double sent = part->ms[SC_COST_A2A] * study->family[SC_COST_A2A] +
			      part->ms[SC_COST_SCATTER] * study->family[SC_COST_SCATTER] +
			      part->ms[SC_COST_REDUCE] * study->family[SC_COST_REDUCE];

		double ms = (rows * study->table[part->table] + sent) * study->kind[part->kind];

		for (uint32_t k = 0; part->n_ranks < world && k < part->n_ranks; k++)
			study->rank_ms[part->rank + k] += ms;
		if (part->n_ranks == world)
			everywhere += ms;
	}
	for (uint32_t rank = 0; rank < world; rank++)
		if (study->rank_ms[rank] > worst)
			worst = study->rank_ms[rank];
	return worst + everywhere;
}

static void score_sample(const struct study *study, size_t sample, struct sc_confidence *out)
{
	size_t n_samples = (size_t)study->opts->samples, n_best = 0;
	double best = INFINITY;

	for (size_t i = 0; i < study->n_plans; i++)
		best = fmin(best, study->cost[i * n_samples + sample]);
	for (size_t i = 0; i < study->n_plans; i++)
		n_best += study->cost[i * n_samples + sample] <= best * (1 + SAME_COST);
	for (size_t i = 0; i < study->n_plans; i++) {
		double cost = study->cost[i * n_samples + sample];

		out[i].mean_ms += cost / (double)n_samples;
		if (cost <= best * (1 + SAME_COST))
			out[i].p_best += 1.0 / (double)n_best / (double)n_samples;
		else if (best > 0)
			out[i].regret_pct += 100 * (cost / best - 1) / (double)n_samples;
	}
}

static void score_plans(const struct study *study, struct sc_confidence *out)
{
	size_t n_samples = (size_t)study->opts->samples, best = 0;

	for (size_t sample = 0; sample < n_samples; sample++)
		score_sample(study, sample, out);
	for (size_t i = 1; i < study->n_plans; i++)
		if (out[i].regret_pct < out[best].regret_pct)
			best = i;
	for (size_t i = 0; i < study->n_plans; i++) {
		const double *cost = study->cost + i * n_samples;
		const double *than = study->cost + best * n_samples;
		size_t n_no_worse = 0;

		for (size_t sample = 0; sample < n_samples; sample++)
			n_no_worse += cost[sample] <= than[sample] * (1 + SAME_COST);
		out[i].tied = (double)n_no_worse >= TIE_SHARE * (double)n_samples;
	}
	for (size_t i = 0; i < study->n_plans; i++) {
		double *cost = study->cost + i * n_samples;

		sc_sort_doubles(cost, n_samples);
		out[i].low_ms = sc_percentile_sorted(cost, n_samples, 10);
		out[i].high_ms = sc_percentile_sorted(cost, n_samples, 90);
	}
}

int sc_shard_confidence(const struct sc_shard_problem *problem,
			const struct sc_confidence_plan *plans, size_t n_plans,
			const struct sc_confidence_opts *opts, struct sc_confidence *out,
			struct sc_err *err)
{
	struct study study = {.problem = problem, .opts = opts, .n_plans = n_plans};
	struct sc_rng rng;

	if (opts->samples < 1 || opts->samples > MAX_SAMPLES || n_plans < 1 ||
	    n_plans > MAX_CELLS / (size_t)opts->samples)
		return sc_err_set(err, SC_ELIMIT,
				  "%lld samples of %zu plans; at most %d and %zu cells",
				  (long long)opts->samples, n_plans, MAX_SAMPLES, MAX_CELLS);
	sc_arena_init(&study.arena, 1 << 16);
	study.plans = sc_arena_calloc(&study.arena, n_plans, sizeof(*study.plans));
	gather(&study, plans);
	study.table = sc_arena_calloc(&study.arena, problem->n_tables + 1, sizeof(double));
	study.kind = sc_arena_calloc(&study.arena, study.n_kinds + 1, sizeof(double));
	study.rank_ms = sc_arena_calloc(&study.arena, (size_t)problem->world + 1, sizeof(double));
	study.cost = sc_arena_calloc(&study.arena, n_plans * (size_t)opts->samples, sizeof(double));
	sc_rng_init(&rng, opts->seed);
	draw_sample(&study, NULL);
	for (size_t i = 0; i < n_plans; i++)
		study.plans[i].usual_ms = busiest(&study, &study.plans[i]);
	for (size_t sample = 0; sample < (size_t)opts->samples; sample++) {
		draw_sample(&study, &rng);
		for (size_t i = 0; i < n_plans; i++) {
			const struct sc_confidence_plan *p = &plans[i];
			double ms = busiest(&study, &study.plans[i]);

			study.cost[i * (size_t)opts->samples + sample] =
				p->step_ms > 0
					? p->step_ms * study.rest +
						  p->exposed_frac * (ms - study.plans[i].usual_ms)
					: ms;
		}
	}
	memset(out, 0, n_plans * sizeof(*out));
	score_plans(&study, out);
	sc_arena_release(&study.arena);
	return 0;
}
