/* A validation as text: one line for all, one for each group, and what was skipped. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"

enum { MAX_SKIPPED_REASONS = 8 };

static void append_number(struct sc_strbuf *out, double value)
{
	if (isnan(value))
		sc_strbuf_printf(out, " %8s", "-");
	else
		sc_strbuf_printf(out, " %8.2f", value);
}

static void append_score(struct sc_strbuf *out, const char *name, const struct sc_score *s)
{
	sc_strbuf_printf(out, "%-28.60s %6zu %6zu", *name ? name : "(empty)", s->n_rows,
			 s->accuracy.n);
	append_number(out, s->accuracy.mape_pct);
	append_number(out, s->accuracy.median_ape_pct);
	append_number(out, s->accuracy.p90_ape_pct);
	append_number(out, s->accuracy.geomean_ape_pct);
	append_number(out, s->accuracy.bias_pct);
	append_number(out, s->coverage_pct);
	append_number(out, s->band_pct);
	sc_strbuf_append_char(out, '\n');
}

static void append_header(struct sc_strbuf *out, const char *name)
{
	sc_strbuf_printf(out, "%-28.60s %6s %6s %8s %8s %8s %8s %8s %8s %8s\n", name, "rows", "n",
			 "MAPE %", "median %", "p90 %", "geo %", "bias %", "cover %", "band %");
}

struct reason {
	const char *text, *first_case;
	size_t n, order;
};

static int by_text(const void *a, const void *b)
{
	const struct reason *x = a, *y = b;
	int order = strcmp(x->text, y->text);

	if (order)
		return order;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int by_count(const void *a, const void *b)
{
	const struct reason *x = a, *y = b;

	if (x->n != y->n)
		return x->n > y->n ? -1 : 1;
	return strcmp(x->text, y->text);
}

/* Sorts the reasons and joins equal ones; returns how many are left. */
static size_t count_reasons(const struct sc_score *score, struct reason *reasons)
{
	size_t n = 0;

	for (size_t i = 0; i < score->n_skipped; i++)
		reasons[i] =
			(struct reason){score->skipped[i]->skipped, score->skipped[i]->name, 1, i};
	qsort(reasons, score->n_skipped, sizeof(*reasons), by_text);
	for (size_t i = 0; i < score->n_skipped; i++) {
		if (n && strcmp(reasons[n - 1].text, reasons[i].text) == 0)
			reasons[n - 1].n++;
		else
			reasons[n++] = reasons[i];
	}
	qsort(reasons, n, sizeof(*reasons), by_count);
	return n;
}

static void append_skipped(struct sc_strbuf *out, const struct sc_score *score)
{
	struct reason *reasons;
	size_t n, n_left = 0;

	if (!score->n_skipped)
		return;
	reasons = sc_xrealloc(NULL, score->n_skipped, sizeof(*reasons));
	n = count_reasons(score, reasons);
	sc_strbuf_printf(out, "\nskipped %zu of %zu rows\n", score->n_skipped, score->n_rows);
	for (size_t i = 0; i < n; i++) {
		if (i < MAX_SKIPPED_REASONS)
			sc_strbuf_printf(out, "%6zu  %s (first: %s)\n", reasons[i].n,
					 reasons[i].text, reasons[i].first_case);
		else
			n_left += reasons[i].n;
	}
	if (n_left)
		sc_strbuf_printf(out, "%6zu  for other reasons; --json and --out-cases list them\n",
				 n_left);
	free(reasons);
}

void sc_text_validation(const struct sc_validation *v, struct sc_strbuf *out)
{
	const char *column = NULL;

	append_header(out, "");
	append_score(out, "all", &v->all);
	if (v->has_memory)
		sc_strbuf_printf(out, "memory: memory_mape_pct %.2f over n_memory %zu\n",
				 v->all.memory.mape_pct, v->all.memory.n);
	for (size_t i = 0; i < v->n_groups; i++) {
		const struct sc_group_score *group = &v->groups[i];

		if (group->column != column) {
			sc_strbuf_append_char(out, '\n');
			append_header(out, group->column);
		}
		column = group->column;
		append_score(out, group->value, &group->score);
	}
	append_skipped(out, &v->all);
}
