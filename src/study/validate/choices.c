/* Groups the rows of a validation into decisions, batches and splits, and judges the split of the
 * least predicted time by its measured one. Suites weigh alike, and within one its decisions. */
#include "study/validate/choices.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "base/search.h"
#include "base/strbuf.h"
#include "base/units.h"

/* The part that a column has in a row, in the order in which rows are sorted. */
enum part { DECISION, BATCH, SPLIT, N_PARTS };

struct row {
	const char *suite, *text[N_PARTS];
	const struct sc_case *c;
};
struct split {
	double measured_ms, predicted_ms; /* means */
	const struct sc_case *c;          /* its first */
};
struct tally {
	double won, gain, possible;
	size_t n;
};

/* Returns N_PARTS for notes, which have no part. */
static enum part part_of(const char *name)
{
	if (sc_begins_with(name, "parallel.") || strcmp(name, "training.micro_batch") == 0 ||
	    sc_begins_with(name, "training.recompute") || sc_begins_with(name, "training.offload."))
		return SPLIT;
	if (strcmp(name, "training.global_batch") == 0)
		return BATCH;
	return strchr(name, '.') || strcmp(name, "gpus") == 0 || strcmp(name, "model") == 0
		       ? DECISION
		       : N_PARTS;
}

static void take_case_row(const struct sc_csv *table, const struct sc_case *c,
			  struct sc_arena *arena, struct row *out)
{
	struct sc_strbuf text[N_PARTS] = {{0}};
	const char *suite = sc_validation_suite(table, c->row);

	*out = (struct row){.suite = suite ? suite : "", .c = c};
	for (size_t i = 0; i < table->n_cols; i++) {
		const enum part part = part_of(table->header[i]);
		const char *cell = sc_csv_cell(table, c->row, i);
		double number;

		if (part == N_PARTS)
			continue;
		if (sc_parse_double(cell, &number)) /* 8 and 8.0 */
			sc_strbuf_printf(&text[part], "%.9g,", number);
		else
			sc_strbuf_printf(&text[part], "%s,", cell);
	}
	for (int p = 0; p < N_PARTS; p++) {
		out->text[p] = sc_arena_strdup(arena, sc_strbuf_get(&text[p]));
		sc_strbuf_release(&text[p]);
	}
}

/* Compares rows up to a part: below, at or above 0, as the rows are sorted. */
static int compare_to(const struct row *a, const struct row *b, int last)
{
	int order = strcmp(a->suite, b->suite);

	for (int p = 0; p <= last && order == 0; p++)
		order = strcmp(a->text[p], b->text[p]);
	return order;
}

SC_COMPARE(by_text, struct row,
	   2 * SC_ORDER(compare_to(a, b, N_PARTS - 1), 0) + SC_ORDER(a->c, b->c));

/* Counts the rows from the first on that are alike up to a part. */
static size_t run_of(const struct row *rows, size_t n, int last)
{
	size_t i = 1;

	while (i < n && compare_to(rows, rows + i, last) == 0)
		i++;
	return i;
}

static size_t list_splits(const struct row *rows, size_t n, struct split *out)
{
	size_t n_out = 0;

	for (size_t i = 0, len; i < n; i += len) {
		struct split *s = &out[n_out++];

		len = run_of(rows + i, n - i, SPLIT);
		*s = (struct split){.c = rows[i].c};
		for (size_t k = i; k < i + len; k++) {
			s->measured_ms += rows[k].c->measured_ms / (double)len;
			s->predicted_ms += rows[k].c->outcome.iteration_ms / (double)len;
		}
	}
	return n_out;
}

/* Judges one choice among n splits, at least 2. */
static void choose(const struct split *splits, size_t n, struct sc_choice *choice,
		   struct tally *tally)
{
	const struct split *chosen = splits, *best = splits, *worst = splits;
	double loss;

	for (size_t i = 1; i < n; i++) {
		if (splits[i].predicted_ms < chosen->predicted_ms)
			chosen = &splits[i];
		if (splits[i].measured_ms < best->measured_ms)
			best = &splits[i];
		if (splits[i].measured_ms > worst->measured_ms)
			worst = &splits[i];
	}
	loss = chosen->measured_ms / best->measured_ms - 1;
	if (!choice->n_repeats ||
	    loss > choice->chosen->measured_ms / choice->best->measured_ms - 1) {
		choice->chosen = chosen->c;
		choice->best = best->c;
		choice->n_splits = n;
	}
	choice->loss += loss;
	choice->n_repeats++;
	choice->n_won += chosen->measured_ms <= (1 + SC_CHOICE_WON) * best->measured_ms;
	tally->possible += worst->measured_ms / best->measured_ms - 1;
	tally->gain += (worst->measured_ms - chosen->measured_ms) / best->measured_ms;
}

/* Judges all batches of one decision, which have one vote in the tally of their suite. */
static void decide(const struct row *rows, size_t n, struct split *splits, struct sc_choices *out,
		   struct tally *suite)
{
	struct sc_choice *choice = &out->at[out->n];
	struct tally own = {0};
	double repeats;

	*choice = (struct sc_choice){.suite = rows->suite};
	for (size_t i = 0, len; i < n; i += len) {
		size_t n_splits;

		len = run_of(rows + i, n - i, BATCH);
		n_splits = list_splits(rows + i, len, splits);
		if (n_splits > 1)
			choose(splits, n_splits, choice, &own);
	}
	if (!choice->n_repeats)
		return;
	repeats = (double)choice->n_repeats;
	choice->loss /= repeats;
	suite->won += (double)choice->n_won / repeats;
	suite->gain += own.gain / repeats;
	suite->possible += own.possible / repeats;
	suite->n++;
	out->n++;
}

void sc_choices_find(const struct sc_validation *v, struct sc_arena *arena, struct sc_choices *out)
{
	struct row *rows = sc_arena_calloc(arena, v->n_cases + 1, sizeof(*rows));
	struct split *splits = sc_arena_calloc(arena, v->n_cases + 1, sizeof(*splits));
	struct tally all = {0};
	size_t n = 0;

	*out = (struct sc_choices){.at = sc_arena_calloc(arena, v->n_cases + 1, sizeof(*out->at))};
	for (size_t i = 0; i < v->n_cases; i++)
		if (!v->cases[i].skipped)
			take_case_row(v->table, &v->cases[i], arena, &rows[n++]);
	SC_SORT(rows, n, by_text);
	for (size_t i = 0, len; i < n; i += len) {
		struct tally suite = {0};

		len = run_of(rows + i, n - i, -1);
		for (size_t k = i, one; k < i + len; k += one) {
			one = run_of(rows + k, i + len - k, DECISION);
			decide(rows + k, one, splits, out, &suite);
		}
		if (!suite.n)
			continue;
		out->n_suites++;
		all.won += suite.won / (double)suite.n;
		all.gain += suite.gain / (double)suite.n;
		all.possible += suite.possible / (double)suite.n;
	}
	out->won_pct = out->n ? SC_PCT * all.won / (double)out->n_suites : (double)NAN;
	out->gain_pct = all.possible > 0 ? SC_PCT * all.gain / all.possible : (double)NAN;
}
