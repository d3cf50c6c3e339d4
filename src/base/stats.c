/* Means, percentiles, and the error measures of validate. */
#include "base/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/search.h"
#include "base/units.h"

static const double least_ape_pct = 0.01; /* else one perfect case makes a geometric mean 0 */

double sc_mean(const double *x, size_t n)
{
	double sum = 0.0;

	for (size_t i = 0; i < n; i++)
		sum += x[i];
	return n ? sum / (double)n : (double)NAN;
}

SC_COMPARE(compare_doubles, double, SC_ORDER(*a, *b));

void sc_sort_doubles(double *x, size_t n)
{
	SC_SORT(x, n, compare_doubles);
}

double sc_percentile_sorted(const double *sorted, size_t n, double pct)
{
	double at, low;
	size_t i;

	assert(pct >= 0.0 && pct <= 100.0);
	if (!n)
		return (double)NAN;
	at = (double)(n - 1) * pct / SC_PCT;
	low = floor(at);
	i = (size_t)low;
	if (i + 1 >= n)
		return sorted[n - 1];
	return sorted[i] + (at - low) * (sorted[i + 1] - sorted[i]);
}

SC_COMPARE(by_count, struct sc_text_count,
	   a->n != b->n ? SC_ORDER(b->n, a->n) : strcmp(a->text, b->text));

size_t sc_texts_count(const char *const *texts, size_t n, struct sc_text_count *out)
{
	struct sc_intern seen = {.n_slots = 0};
	size_t n_seen;

	for (size_t i = 0; i < n; i++) {
		const size_t n_before = sc_intern_count(&seen), id = sc_intern_add(&seen, texts[i]);

		if (id == n_before)
			out[id] = (struct sc_text_count){texts[i], 0, i};
		out[id].n++;
	}
	n_seen = sc_intern_count(&seen);
	sc_intern_release(&seen);
	SC_SORT(out, n_seen, by_count);
	return n_seen;
}

struct sc_accuracy sc_accuracy_compute(const double *predicted, const double *measured, size_t n,
				       struct sc_arena *scratch)
{
	struct sc_arena_mark mark = sc_arena_mark(scratch);
	double *ape = sc_arena_calloc(scratch, n, sizeof(*ape));
	struct sc_accuracy out = {.n = n};
	double log_sum = 0.0, bias_sum = 0.0;

	for (size_t i = 0; i < n; i++) {
		ape[i] = SC_PCT * fabs(predicted[i] / measured[i] - 1.0);
		log_sum += log(fmax(ape[i], least_ape_pct));
		bias_sum += predicted[i] / measured[i] - 1.0;
	}
	out.mape_pct = sc_mean(ape, n);
	sc_sort_doubles(ape, n);
	out.median_ape_pct = sc_percentile_sorted(ape, n, 50.0);
	out.p90_ape_pct = sc_percentile_sorted(ape, n, 90.0);
	out.geomean_ape_pct = n ? exp(log_sum / (double)n) : (double)NAN;
	out.bias_pct = n ? SC_PCT * bias_sum / (double)n : (double)NAN;
	sc_arena_rewind(scratch, mark);
	return out;
}
