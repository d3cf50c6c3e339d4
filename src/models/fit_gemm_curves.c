/* Measured products as curves: of each weight matrix the measured times over the formula's, by rows of
 * the input; of several times at one size the median. Points that a straight line in logs between others
 * gives to TOLERANCE are left out (Douglas and Peucker, 1973). */
#include <math.h>
#include <stdlib.h>

#include "models/fit_priv.h"

#define TOLERANCE 0.02 /* of ln(factor), a fraction of the scatter between sizes */
#define FACTOR_MAX 100.0
enum { MIN_SIZES = 3 }; /* of a curve */

struct point {
	int dtype;
	double n, k, m, log_factor;
};

static int compare(double a, double b)
{
	return (a > b) - (a < b);
}

static int by_product(const void *a, const void *b)
{
	const struct point *x = a, *y = b;
	int order = (x->dtype > y->dtype) - (x->dtype < y->dtype);

	order = order ? order : compare(x->n, y->n);
	order = order ? order : compare(x->k, y->k);
	order = order ? order : compare(x->m, y->m);
	return order ? order : compare(x->log_factor, y->log_factor);
}

static bool is_same_product(const struct point *a, const struct point *b)
{
	return a->dtype == b->dtype && !(a->n < b->n || b->n < a->n) &&
	       !(a->k < b->k || b->k < a->k);
}

/* False where the row says nothing of a kernel: a gradient, a batch, a time that is all launch. */
static bool point_of(const struct sc_fit_model *model, const struct sc_fit_row *row,
		     struct point *out)
{
	const struct sc_gemm_shape *s = &row->op[0].u.gemm;
	double launch_us = model->launch_us[row->origin], us = sc_fit_predict_us(model, row);
	double factor = (row->time_us - launch_us) / (us - launch_us);

	*out = (struct point){(int)row->op[0].dtype, s->n, s->k, s->m, 0};
	if (row->n_ops != 1 || s->bmm || s->batch > 1 || us <= model->floor_us[row->origin] ||
	    us <= launch_us || factor < 1 / FACTOR_MAX || factor > FACTOR_MAX)
		return false;
	out->log_factor = log(factor);
	return true;
}

/* Sorted points of one product, several of a size: the median of each. */
static size_t merge_sizes(struct point *points, size_t n)
{
	size_t n_sizes = 0;

	for (size_t i = 0, end; i < n; i = end) {
		double low, high;

		for (end = i; end < n && points[end].m <= points[i].m;)
			end++;
		low = points[i + (end - i - 1) / 2].log_factor;
		high = points[i + (end - i) / 2].log_factor;
		points[n_sizes] = points[i];
		points[n_sizes++].log_factor = (low + high) / 2;
	}
	return n_sizes;
}

/* The point between two that a line through them misses most, if by more than the tolerance; else
 * `first`. */
static size_t worst_between(const struct point *points, size_t first, size_t last)
{
	double worst = TOLERANCE, span = log(points[last].m / points[first].m);
	double rise = points[last].log_factor - points[first].log_factor;
	size_t at = first;

	for (size_t i = first + 1; i < last; i++) {
		double x = log(points[i].m / points[first].m) / span;
		double miss = fabs(points[i].log_factor - points[first].log_factor - rise * x);

		if (miss > worst) {
			worst = miss;
			at = i;
		}
	}
	return at;
}

/* Marks the points to keep. Each stretch is cut at its worst point; the right part waits on a stack,
 * whose ends fall, so that it is never deeper than there are points. */
static void thin(const struct point *points, size_t n, bool *keep, size_t *ends)
{
	size_t first = 0, depth = 1;

	keep[0] = keep[n - 1] = true;
	ends[0] = n - 1;
	while (depth > 0) {
		size_t at = worst_between(points, first, ends[depth - 1]);

		if (at > first) {
			keep[at] = true;
			ends[depth++] = at;
		} else {
			first = ends[--depth];
		}
	}
}

static void fill(const struct point *points, size_t n, struct sc_arena *arena,
		 struct sc_gemm_curve *out)
{
	bool *keep = sc_arena_calloc(arena, n, sizeof(*keep));
	size_t *ends = sc_arena_alloc(arena, n * sizeof(*ends)), n_kept = 0;

	thin(points, n, keep, ends);
	*out = (struct sc_gemm_curve){.dtype = points[0].dtype, .n = points[0].n, .k = points[0].k};
	out->m.at = sc_arena_alloc(arena, n * sizeof(double));
	out->factor.at = sc_arena_alloc(arena, n * sizeof(double));
	for (size_t i = 0; i < n; i++) {
		if (!keep[i])
			continue;
		out->m.at[n_kept] = points[i].m;
		out->factor.at[n_kept++] = exp(points[i].log_factor);
	}
	out->m.n = out->factor.n = n_kept;
}

struct sc_structs sc_fit_gemm_curves(const struct sc_fit_problem *problem, struct sc_arena *arena)
{
	struct point *points = sc_arena_alloc(arena, (problem->n + 1) * sizeof(*points));
	struct sc_gemm_curve *curves =
		sc_arena_calloc(arena, SC_FIT_MAX_GEMM_CURVES, sizeof(*curves));
	size_t n = 0, n_curves = 0;

	for (size_t i = 0; i < problem->n; i++)
		if (point_of(problem->model, problem->rows[i], &points[n]))
			n++;
	qsort(points, n, sizeof(*points), by_product);
	for (size_t i = 0, end; i < n && n_curves < SC_FIT_MAX_GEMM_CURVES; i = end) {
		size_t n_sizes;

		for (end = i; end < n && is_same_product(&points[i], &points[end]);)
			end++;
		n_sizes = merge_sizes(points + i, end - i);
		if (n_sizes >= MIN_SIZES)
			fill(points + i, n_sizes, arena, &curves[n_curves++]);
	}
	return (struct sc_structs){curves, n_curves};
}
