/* What rows show by size, beside the coefficients. A sweep of a collective: the median time of each size, made to rise
 * with size by pooling neighbours that do not (pool adjacent violators, with medians: Robertson, Wright and Dykstra,
 * "Order Restricted Statistical Inference", 1988). A product's weight matrix: the measured time over the formula's,
 * by rows of the input; points that a straight line in logs between others gives to TOLERANCE are left out (Douglas and
 * Peucker, 1973). */
#include <math.h>
#include <stdlib.h>

#include "models/fit/fit_priv.h"

#define TOLERANCE 0.02 /* of ln(factor), a fraction of the scatter between sizes */
#define FACTOR_MAX 100.0
enum { MIN_SIZES = 3 }; /* of a curve */

/* Of a curve: a collective, ranks and nodes; or a type, n and k. */
struct point {
	int kind;
	double a, b;
	double x, y; /* bytes and us; m and ln(factor) */
};

static int compare(double a, double b)
{
	return (a > b) - (a < b);
}

static int by_curve(const void *left, const void *right)
{
	const struct point *p = left, *q = right;
	int order = (p->kind > q->kind) - (p->kind < q->kind);

	order = order ? order : compare(p->a, q->a);
	order = order ? order : compare(p->b, q->b);
	order = order ? order : compare(p->x, q->x);
	return order ? order : compare(p->y, q->y);
}

/* False where a product's row says nothing of a kernel: a gradient, a batch, a time that is all launch. */
static bool point_of(const struct sc_fit_model *model, const struct sc_fit_row *row,
		     struct point *out)
{
	const struct sc_gemm_shape *s = &row->op[0].u.gemm;
	double launch_us = model->launch_us[row->origin], us, factor;

	if (model->kind == SC_FIT_COLLECTIVE) {
		*out = (struct point){(int)row->op[0].u.collective.kind, row->span.n_ranks,
				      row->span.n_nodes, row->op[0].u.collective.bytes,
				      row->time_us};
		return true;
	}
	us = sc_fit_predict_us(model, row);
	factor = (row->time_us - launch_us) / (us - launch_us);
	if (row->n_ops != 1 || s->bmm || s->batch > 1 || us <= model->floor_us[row->origin] ||
	    us <= launch_us || factor < 1 / FACTOR_MAX || factor > FACTOR_MAX)
		return false;
	*out = (struct point){(int)row->op[0].dtype, s->n, s->k, s->m, log(factor)};
	return true;
}

/* Sorted points of one curve, several of a size: the median of each. */
static size_t merge_sizes(struct point *points, size_t n)
{
	size_t n_sizes = 0;

	for (size_t i = 0, end; i < n; i = end) {
		double low, high;

		for (end = i; end < n && points[end].x <= points[i].x;)
			end++;
		low = points[i + (end - i - 1) / 2].y;
		high = points[i + (end - i) / 2].y;
		points[n_sizes] = points[i];
		points[n_sizes++].y = (low + high) / 2;
	}
	return n_sizes;
}

/* ---- collectives ---- */

/* Neighbours that have one time. */
struct pool {
	size_t first, n;
	double us;
};

static void make_rising(struct point *points, size_t n)
{
	struct pool *pools = sc_xrealloc(NULL, n, sizeof(*pools));
	double *us = sc_xrealloc(NULL, n, sizeof(*us));
	size_t n_pools = 0;

	for (size_t i = 0; i < n; i++) {
		pools[n_pools++] = (struct pool){i, 1, points[i].y};
		while (n_pools > 1 && pools[n_pools - 2].us > pools[n_pools - 1].us) {
			struct pool *last = &pools[n_pools - 2];

			last->n += pools[--n_pools].n;
			for (size_t j = 0; j < last->n; j++)
				us[j] = points[last->first + j].y;
			last->us = sc_median_sorting(us, last->n);
		}
	}
	for (size_t p = 0; p < n_pools; p++)
		for (size_t i = 0; i < pools[p].n; i++)
			points[pools[p].first + i].y = pools[p].us;
	free(pools);
	free(us);
}

/* In place of what was measured; where it would fall it stays. */
static bool take_segments(struct point *points, size_t n)
{
	double *bytes = sc_xrealloc(NULL, 2 * n, sizeof(*bytes)), *us = bytes + n, last = 0;
	struct sc_fit_segments segments;
	bool found;

	for (size_t i = 0; i < n; i++) {
		bytes[i] = points[i].x;
		us[i] = points[i].y;
	}
	found = sc_fit_segments(bytes, us, n, &segments);
	for (size_t i = 0; i < n && found; i++)
		points[i].y = last = fmax(last, sc_fit_segments_us(&segments, bytes[i]));
	free(bytes);
	return found;
}

/* ---- products ---- */

/* The point between two that a line through them misses most, if by more than the tolerance; else
 * `first`. */
static size_t worst_between(const struct point *points, size_t first, size_t last)
{
	double worst = TOLERANCE, span = log(points[last].x / points[first].x);
	double rise = points[last].y - points[first].y;
	size_t at = first;

	for (size_t i = first + 1; i < last; i++) {
		double x = log(points[i].x / points[first].x) / span;
		double miss = fabs(points[i].y - points[first].y - rise * x);

		if (miss > worst) {
			worst = miss;
			at = i;
		}
	}
	return at;
}

/* Keeps few points, and returns how many. Each stretch is cut at its worst point; the right part waits on a stack,
 * whose ends fall, so that it is never deeper than there are points. */
static size_t thin(struct point *points, size_t n)
{
	size_t *ends = sc_xrealloc(NULL, n, sizeof(*ends));
	size_t first = 0, depth = 1, n_kept = 0;
	bool *keep = sc_xcalloc(n, sizeof(*keep));

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
	for (size_t i = 0; i < n; i++)
		if (keep[i])
			points[n_kept++] = points[i];
	free(ends);
	free(keep);
	return n_kept;
}

/* ---- both ---- */

static void put_points(const struct point *points, size_t n, bool in_logs, struct sc_arena *arena,
		       struct sc_doubles *x, struct sc_doubles *y)
{
	x->at = sc_arena_alloc(arena, n * sizeof(double));
	y->at = sc_arena_alloc(arena, n * sizeof(double));
	x->n = y->n = n;
	for (size_t i = 0; i < n; i++) {
		x->at[i] = points[i].x;
		y->at[i] = in_logs ? exp(points[i].y) : points[i].y;
	}
}

void sc_fit_curves_set(struct sc_fit_model *model, struct sc_structs curves)
{
	for (size_t i = 0; i < model->n_devices && model->kind == SC_FIT_GEMM; i++)
		model->devices[i].gemm_curves = curves;
	if (model->kind != SC_FIT_COLLECTIVE)
		return;
	model->profile.curves = curves;
	for (size_t i = 0; i < model->n_fabrics; i++) {
		model->requests[i].fabric_profile.curves = curves;
		sc_fabric_from_request(&model->requests[i], &model->fabrics[i], NULL);
	}
}

struct sc_structs sc_fit_curves_build(const struct sc_fit_work *work,
				      const struct sc_fit_row *const *rows, size_t n_rows)
{
	const bool of_gemm = work->opts->kind == SC_FIT_GEMM;
	const size_t max = of_gemm ? SC_FIT_MAX_GEMM_CURVES : SC_FIT_MAX_CURVES;
	struct sc_arena *arena = work->arena;
	struct point *points = sc_xrealloc(NULL, n_rows + 1, sizeof(*points));
	struct sc_gemm_curve *products = sc_arena_calloc(arena, max, sizeof(*products));
	struct sc_fabric_curve *sweeps = sc_arena_calloc(arena, max, sizeof(*sweeps));
	size_t n = 0, n_curves = 0;

	for (size_t i = 0; i < n_rows; i++)
		n += point_of(&work->model, rows[i], &points[n]);
	qsort(points, n, sizeof(*points), by_curve);
	for (size_t i = 0, end; i < n && n_curves < max; i = end) {
		struct point *p = &points[i];
		size_t n_sizes;

		for (end = i; end < n && p->kind == points[end].kind &&
			      compare(p->a, points[end].a) == 0 &&
			      compare(p->b, points[end].b) == 0;)
			end++;
		n_sizes = merge_sizes(p, end - i);
		if (n_sizes < MIN_SIZES)
			continue;
		if (of_gemm) {
			struct sc_gemm_curve *c = &products[n_curves++];

			*c = (struct sc_gemm_curve){.dtype = p->kind, .n = p->a, .k = p->b};
			n_sizes = thin(p, n_sizes);
			put_points(p, n_sizes, true, arena, &c->m, &c->factor);
		} else {
			struct sc_fabric_curve *c = &sweeps[n_curves++];

			*c = (struct sc_fabric_curve){.collective = sc_collective_names[p->kind],
						      .ranks = (int64_t)p->a,
						      .nodes = (int64_t)p->b};
			if (!work->opts->segments || !take_segments(p, n_sizes))
				make_rising(p, n_sizes);
			put_points(p, n_sizes, false, arena, &c->bytes, &c->time_us);
		}
	}
	free(points);
	return (struct sc_structs){of_gemm ? (void *)products : sweeps, n_curves};
}
