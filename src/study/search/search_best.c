/* Judges the best: what each of its settings is worth, and how sure it is under model error. */
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/search.h"
#include "study/search/search_priv.h"

/* ---- one setting at a time ---- */

static void take_other(struct sc_searching *s, size_t row, size_t column)
{
	struct sc_search_result *out = s->out;
	const struct sc_search_case c = sc_search_case_of(out, row);
	struct sc_search_other *other = &out->others[out->n_others++];

	*other = (struct sc_search_other){.path = out->cases.header[column],
					  .value = sc_csv_cell(&out->cases, row, column)};
	if (c.state == SC_SEARCH_TOO_LARGE)
		other->text = sc_arena_printf(s->arena, "needs %s%.1f of %.1f GiB",
					      c.is_least ? "at least " : "", c.memory_gib,
					      c.capacity_gib);
	else if (c.state == SC_SEARCH_REFUSED)
		other->text = c.error;
	else if (c.outcome->code != SC_OK)
		other->text = c.outcome->error;
	else if (c.is_least && !sc_search_fits(s, c.outcome))
		other->text = sc_arena_printf(s->arena, "needs %.1f of %.1f GiB",
					      c.outcome->memory_total_gib, c.capacity_gib);
	else
		other->loss = c.factor[0] * c.outcome->iteration_ms / out->shown[0].value[0] - 1;
}

static int compare_codes(const void *a, const void *b)
{
	return SC_ORDER(*(const uint64_t *)a, *(const uint64_t *)b);
}

/* Fills in out->others: rows of codes that differ from the best's in one digit. There are none
 * where the search is over before. */
int sc_search_others(struct sc_searching *s, struct sc_err *err)
{
	struct sc_search_result *out = s->out;
	const struct sc_csv_codes *codes = out->cases.codes;
	const size_t best = out->shown[0].row;
	size_t n_values = 0;
	int rc = 0;

	for (size_t column = 0; column < out->cases.n_cols; column++)
		n_values += codes->column[column].n;
	out->others = sc_arena_calloc(s->arena, n_values, sizeof(*out->others));
	for (size_t column = 0; column < out->cases.n_cols && rc == 0 && !sc_search_is_over(s, 1);
	     column++) {
		const struct sc_csv_digit *digit = &codes->column[column];
		const uint64_t first = sc_csv_code(&out->cases, best) -
				       sc_csv_digit(&out->cases, best, column) * digit->unit;
		size_t *rows = sc_arena_calloc(s->arena, 2 * digit->n, sizeof(*rows)), n = 0;
		size_t *unknown = rows + digit->n, n_unknown = 0;

		for (size_t i = 0; i < digit->n; i++) {
			const uint64_t code = first + i * digit->unit;
			const uint64_t side = code % codes->n_side, from = code - side;
			const uint64_t *found =
				bsearch(&from, codes->first, out->cases.n_rows / codes->n_side,
					sizeof(from), compare_codes);
			const size_t row =
				found ? (size_t)(found - codes->first) * codes->n_side + side
				      : best;

			if (row == best || !sc_search_is_judged(&out->rows[row]))
				continue;
			rows[n++] = row;
			/* a floor kept the row from being simulated */
			if (out->rows[row].state == SC_SEARCH_PRUNED ||
			    out->rows[row].state == SC_SEARCH_LEFT)
				unknown[n_unknown++] = row;
		}
		rc = sc_search_simulate(s, unknown, n_unknown, err);
		for (size_t i = 0; i < n && rc == 0; i++)
			take_other(s, rows[i], column);
	}
	return rc;
}

/* ---- model error ---- */

static double drawn_value(const struct sc_search_result *r, size_t i,
			  const struct sc_outcome *outcomes)
{
	return sc_search_fit_of(r, r->rows[r->shown[i].row].at)->factor[0] *
	       outcomes[i].iteration_ms;
}

/* Adds one draw's verdict on the rows shown. */
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

/* Fills in best_in and regret_frac of out->shown, and orders it; neither is done where the search
 * is over before. */
int sc_search_regret(struct sc_searching *s, struct sc_err *err)
{
	struct sc_search_result *out = s->out;
	struct sc_outcome *outcomes = sc_arena_calloc(s->arena, out->n_shown, sizeof(*outcomes));
	size_t *rows = sc_arena_calloc(s->arena, out->n_shown, sizeof(*rows));
	struct sc_rng rng;
	int rc = 0, d = 0;

	out->error = sc_model_error_of(s->facts);
	sc_rng_init(&rng, 1);
	for (size_t i = 0; i < out->n_shown; i++) {
		rows[i] = out->shown[i].row;
		out->shown[i].best_in = out->shown[i].regret_frac = 0;
	}
	for (; d < SC_SEARCH_DRAWS && rc == 0 && !sc_search_is_over(s, 1); d++) {
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
	/* The least expected regret comes first; equal ones stay in their order. */
	for (size_t i = 1, k; out->by_regret && i < out->n_shown; i++) {
		const struct sc_search_shown now = out->shown[i];

		for (k = i; k > 0 && now.regret_frac < out->shown[k - 1].regret_frac; k--)
			out->shown[k] = out->shown[k - 1];
		out->shown[k] = now;
	}
	return rc;
}
