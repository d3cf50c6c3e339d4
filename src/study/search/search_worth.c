/* What is said of the best: what each of its settings is worth, and how sure it is under model error. */
#include <math.h>
#include <string.h>

#include "study/search/search_priv.h"

enum { FEW = 16 }; /* predictions between looks at the clock */

/* ---- one setting at a time ---- */

/* The one column in which a row differs from the best; -1: none or several. */
static int differs_in(const struct sc_csv *cases, size_t best, size_t row)
{
	int found = -1;

	for (size_t i = 0; i < cases->n_cols; i++) {
		if (strcmp(sc_csv_cell(cases, best, i), sc_csv_cell(cases, row, i)) == 0)
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

/* Those that a floor kept from being simulated. */
static int simulate_unknown(struct sc_searching *s, const size_t *rows, size_t n,
			    struct sc_err *err)
{
	struct sc_search_case *at = s->out->at;
	size_t *unknown = sc_arena_calloc(s->arena, n + 1, sizeof(*unknown)), n_unknown = 0;
	struct sc_outcome *outcomes;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		if (at[rows[i]].state == SC_SEARCH_PRUNED || at[rows[i]].state == SC_SEARCH_LEFT)
			unknown[n_unknown++] = rows[i];
	if (n_unknown == 0)
		return 0;
	outcomes = sc_arena_calloc(s->arena, n_unknown, sizeof(*outcomes));
	for (size_t i = 0; i < n_unknown && rc == 0 && !sc_search_is_over(s); i += FEW) {
		size_t n_now = n_unknown - i < FEW ? n_unknown - i : FEW;

		rc = sc_search_predict(s, &(struct sc_sweep){.rows = unknown + i, .n_rows = n_now},
				       outcomes + i, err);
	}
	for (size_t i = 0; i < n_unknown && rc == 0; i++)
		at[unknown[i]].outcome = outcomes[i];
	return rc;
}

static void take_other(struct sc_searching *s, size_t row, size_t column)
{
	struct sc_search_result *out = s->out;
	const struct sc_search_case *c = &out->at[row];
	struct sc_search_other *other = &out->others[out->n_others++];

	*other = (struct sc_search_other){.path = out->cases.header[column],
					  .value = sc_csv_cell(&out->cases, row, column)};
	if (c->state == SC_SEARCH_TOO_LARGE)
		other->text = sc_arena_printf(s->arena, "needs %.1f of %.1f GiB", c->memory_gib,
					      c->capacity_gib);
	else if (c->outcome.code != SC_OK)
		other->text = c->outcome.error;
	else
		other->loss = c->factor[0] * c->outcome.iteration_ms / out->shown[0].value[0] - 1;
}

int sc_search_worth(struct sc_searching *s, struct sc_err *err)
{
	struct sc_search_result *out = s->out;
	size_t *rows = sc_arena_calloc(s->arena, out->cases.n_rows, sizeof(*rows)), n = 0;
	size_t best = out->shown[0].row;
	int rc;

	if (sc_search_is_over(s))
		return 0;
	for (size_t row = 0; row < out->cases.n_rows; row++)
		if (differs_in(&out->cases, best, row) >= 0)
			rows[n++] = row;
	rc = simulate_unknown(s, rows, n, err);
	out->others = sc_arena_calloc(s->arena, n + 1, sizeof(*out->others));
	if (rc || sc_search_is_over(s))
		return rc;
	for (size_t column = 0; column < out->cases.n_cols; column++)
		for (size_t i = 0; i < n; i++)
			if (differs_in(&out->cases, best, rows[i]) == (int)column)
				take_other(s, rows[i], column);
	return rc;
}

/* ---- model error ---- */

static double drawn_value(const struct sc_search_result *r, size_t i,
			  const struct sc_outcome *outcomes)
{
	return r->at[r->shown[i].row].factor[0] * outcomes[i].iteration_ms;
}

/* Adds what one draw says of those shown. */
static void judge(struct sc_searching *s, const struct sc_outcome *outcomes)
{
	struct sc_search_result *out = s->out;
	double least = HUGE_VAL, n_least = 0;

	for (size_t i = 0; i < out->n_shown; i++)
		least = fmin(least, drawn_value(out, i, outcomes));
	for (size_t i = 0; i < out->n_shown; i++)
		n_least += drawn_value(out, i, outcomes) <= least;
	for (size_t i = 0; i < out->n_shown; i++) {
		double value = drawn_value(out, i, outcomes);

		out->shown[i].regret_frac += (value / least - 1) / SC_SEARCH_DRAWS;
		if (value <= least)
			out->shown[i].best_in += 1 / n_least / SC_SEARCH_DRAWS;
	}
}

/* The least expected regret first; equal ones stay in their order. */
static void rank_by_regret(struct sc_search_result *out)
{
	for (size_t i = 1; i < out->n_shown; i++) {
		const struct sc_search_shown now = out->shown[i];
		size_t k = i;

		for (; k > 0 && now.regret_frac < out->shown[k - 1].regret_frac; k--)
			out->shown[k] = out->shown[k - 1];
		out->shown[k] = now;
	}
}

int sc_search_regret(struct sc_searching *s, struct sc_err *err)
{
	struct sc_search_result *out = s->out;
	const struct sc_outcome *best = &out->at[out->shown[0].row].outcome;
	struct sc_outcome *outcomes = sc_arena_calloc(s->arena, out->n_shown, sizeof(*outcomes));
	size_t *rows = sc_arena_calloc(s->arena, out->n_shown, sizeof(*rows));
	struct sc_rng rng;
	int rc = 0, d = 0;

	out->error = sc_model_error_of(s->facts, best->low_ms, best->high_ms);
	sc_rng_init(&rng, 1);
	for (size_t i = 0; i < out->n_shown; i++) {
		rows[i] = out->shown[i].row;
		out->shown[i].best_in = out->shown[i].regret_frac = 0;
	}
	for (; d < SC_SEARCH_DRAWS && rc == 0 && !sc_search_is_over(s); d++) {
		struct sc_predict_opts opts;

		sc_model_error_draw(&out->error, &rng, &opts);
		rc = sc_search_predict(
			s, &(struct sc_sweep){.rows = rows, .n_rows = out->n_shown, .opts = &opts},
			outcomes, err);
		if (rc == 0)
			judge(s, outcomes);
	}
	for (size_t i = 0; i < out->n_shown && d < SC_SEARCH_DRAWS; i++)
		out->shown[i].best_in = out->shown[i].regret_frac = (double)NAN;
	out->by_regret = rc == 0 && d == SC_SEARCH_DRAWS && !s->search->pareto;
	if (out->by_regret)
		rank_by_regret(out);
	return rc;
}
