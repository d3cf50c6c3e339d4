/* What is said of the best: what each of its settings is worth, and how sure it is under model error. */
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/search.h"
#include "base/stats.h"
#include "base/vec.h"
#include "study/search/search_priv.h"

enum { FEW_ROWS = 16 }; /* predictions between looks at the clock */

/* ---- one setting at a time ---- */

/* Those that a floor kept from being simulated. */
static int simulate_unknown(struct sc_searching *s, const size_t *rows, size_t n,
			    struct sc_err *err)
{
	const struct sc_search_row *at = s->out->rows;
	size_t *unknown = sc_arena_calloc(s->arena, n + 1, sizeof(*unknown)), n_unknown = 0;
	struct sc_outcome *outcomes;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		if (at[rows[i]].state == SC_SEARCH_PRUNED || at[rows[i]].state == SC_SEARCH_LEFT)
			unknown[n_unknown++] = rows[i];
	if (n_unknown == 0)
		return 0;
	outcomes = sc_arena_calloc(s->arena, n_unknown, sizeof(*outcomes));
	for (size_t i = 0; i < n_unknown && rc == 0 && !sc_search_is_over(s, 1); i += FEW_ROWS) {
		size_t n_now = n_unknown - i < FEW_ROWS ? n_unknown - i : FEW_ROWS;

		rc = sc_search_predict(s, &(struct sc_sweep){.rows = unknown + i, .n_rows = n_now},
				       s->arena, outcomes + i, err);
	}
	for (size_t i = 0; i < n_unknown && rc == 0; i++)
		s->out->fits[at[unknown[i]].at].outcome = &outcomes[i];
	return rc;
}

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
	else
		other->loss = c.factor[0] * c.outcome->iteration_ms / out->shown[0].value[0] - 1;
}

static int compare_codes(const void *a, const void *b)
{
	return SC_ORDER(*(const uint64_t *)a, *(const uint64_t *)b);
}

/* out->others: rows of codes that differ from the best's in one digit. Without them where the search is over before. */
int sc_search_others(struct sc_searching *s, struct sc_err *err)
{
	struct sc_search_result *out = s->out;
	const struct sc_csv_codes *codes = out->cases.codes;
	const size_t best = out->shown[0].row;
	SC_VEC(size_t) rows = {0};
	SC_VEC(size_t) columns = {0};
	int rc = 0;

	for (size_t column = 0; column < out->cases.n_cols && !sc_search_is_over(s, 1); column++)
		for (size_t i = 0; i < codes->column[column].n; i++) {
			const struct sc_csv_digit *digit = &codes->column[column];
			const uint64_t code =
				codes->row[best] +
				(i - sc_csv_digit(&out->cases, best, column)) * digit->unit;
			const uint64_t *found = bsearch(&code, codes->row, out->cases.n_rows,
							sizeof(code), compare_codes);
			const size_t row = found ? (size_t)(found - codes->row) : best;

			if (row == best || !sc_search_is_judged(&out->rows[row]))
				continue;
			SC_VEC_PUSH(&rows, row);
			SC_VEC_PUSH(&columns, column);
		}
	rc = simulate_unknown(s, rows.at, rows.n, err);
	out->others = sc_arena_calloc(s->arena, rows.n + 1, sizeof(*out->others));
	for (size_t i = 0; i < rows.n && rc == 0 && !sc_search_is_over(s, 1); i++)
		take_other(s, rows.at[i], columns.at[i]);
	SC_VEC_RELEASE(&rows);
	SC_VEC_RELEASE(&columns);
	return rc;
}

/* ---- model error ---- */

static double drawn_value(const struct sc_search_result *r, size_t i,
			  const struct sc_outcome *outcomes)
{
	return r->fits[r->rows[r->shown[i].row].at].factor[0] * outcomes[i].iteration_ms;
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

/* best_in and regret_frac of out->shown, and its order; without them where the search is over before. */
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
			s->arena, outcomes, err);
		if (rc == 0)
			judge(s, outcomes);
	}
	for (size_t i = 0; i < out->n_shown && d < SC_SEARCH_DRAWS; i++)
		out->shown[i].best_in = out->shown[i].regret_frac = (double)NAN;
	out->by_regret = rc == 0 && d == SC_SEARCH_DRAWS && !s->search->pareto;
	/* the least expected regret first; equal ones stay in their order */
	for (size_t i = 1, k; out->by_regret && i < out->n_shown; i++) {
		const struct sc_search_shown now = out->shown[i];

		for (k = i; k > 0 && now.regret_frac < out->shown[k - 1].regret_frac; k--)
			out->shown[k] = out->shown[k - 1];
		out->shown[k] = now;
	}
	return rc;
}
