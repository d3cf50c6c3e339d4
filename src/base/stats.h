/* Summaries of samples. Sums run in index order, so equal input gives equal bytes.
 * An empty sample gives NAN: the caller decides what to say. */
#pragma once

#include <stddef.h>

#include "base/arena.h"

/* Half-width of the central 80 % of a normal distribution, in standard deviations. */
#define SC_Z_CENTRAL_80 1.2815515655446004

double sc_mean(const double *x, size_t n);
void sc_sort_doubles(double *x, size_t n); /* rising; x has no NAN */
/* `pct` in 0..100 of a sorted sample, linear between neighbours (the usual "type 7"). */
double sc_percentile_sorted(const double *sorted, size_t n, double pct);
static inline double sc_median_sorting(double *x, size_t n) /* x has no NAN */
{
	sc_sort_doubles(x, n);
	return sc_percentile_sorted(x, n, 50);
}

/* A text that occurs n times, first at an index. */
struct sc_text_count {
	const char *text;
	size_t n, first;
};
/* The different ones of n texts, the most frequent first, of as many by the alphabet: how many, at
 * most n, are in `out`. */
size_t sc_texts_count(const char *const *texts, size_t n, struct sc_text_count *out);

/* How far predictions are from measurements; percentages are 0-100. */
struct sc_accuracy {
	size_t n;
	double mape_pct, median_ape_pct, p90_ape_pct;
	double geomean_ape_pct; /* an error under 0.01 % counts as 0.01 % */
	double bias_pct;        /* mean of predicted/measured - 1 */
};
/* Measured values are > 0. */
struct sc_accuracy sc_accuracy_compute(const double *predicted, const double *measured, size_t n,
				       struct sc_arena *scratch);
