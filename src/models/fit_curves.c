/* Sweeps as curves: the median time of each size, made to rise with size by pooling neighbours that do
 * not (pool adjacent violators, with medians: Robertson, Wright and Dykstra, "Order Restricted
 * Statistical Inference", 1988). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/fit_priv.h"

enum { MIN_SIZES = 3 }; /* of a curve */

struct point {
	double bytes, us;
};
/* Neighbours that have one time. */
struct pool {
	size_t first, n;
	double us;
};

static int by_size(const void *a, const void *b)
{
	const struct point *x = a, *y = b;

	if (x->bytes < y->bytes || x->bytes > y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return (x->us > y->us) - (x->us < y->us);
}

/* Sorted points, several of a size: the median of each. */
static size_t merge_sizes(struct point *points, size_t n)
{
	size_t n_sizes = 0;

	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && points[end].bytes <= points[i].bytes;)
			end++;
		points[n_sizes++] = (struct point){
			points[i].bytes,
			(points[i + (end - i - 1) / 2].us + points[i + (end - i) / 2].us) / 2};
	}
	return n_sizes;
}

static double median_of(const struct point *points, const struct pool *pool,
			struct sc_arena *scratch)
{
	struct sc_arena_mark mark = sc_arena_mark(scratch);
	double *us = sc_arena_alloc(scratch, pool->n * sizeof(*us)), median;

	for (size_t i = 0; i < pool->n; i++)
		us[i] = points[pool->first + i].us;
	median = sc_median(us, pool->n, scratch);
	sc_arena_rewind(scratch, mark);
	return median;
}

static void make_rising(struct point *points, size_t n, struct sc_arena *scratch)
{
	struct sc_arena_mark mark = sc_arena_mark(scratch);
	struct pool *pools = sc_arena_alloc(scratch, n * sizeof(*pools));
	size_t n_pools = 0;

	for (size_t i = 0; i < n; i++) {
		pools[n_pools++] = (struct pool){i, 1, points[i].us};
		while (n_pools > 1 && pools[n_pools - 2].us > pools[n_pools - 1].us) {
			struct pool *last = &pools[n_pools - 2];

			last->n += pools[--n_pools].n;
			last->us = median_of(points, last, scratch);
		}
	}
	for (size_t p = 0; p < n_pools; p++)
		for (size_t i = 0; i < pools[p].n; i++)
			points[pools[p].first + i].us = pools[p].us;
	sc_arena_rewind(scratch, mark);
}

/* In place of what was measured; where it would fall it stays. */
static bool take_segments(struct point *points, size_t n, struct sc_arena *scratch)
{
	struct sc_arena_mark mark = sc_arena_mark(scratch);
	double *bytes = sc_arena_alloc(scratch, n * sizeof(*bytes));
	double *us = sc_arena_alloc(scratch, n * sizeof(*us)), last = 0;
	struct sc_fit_segments segments;
	bool found;

	for (size_t i = 0; i < n; i++) {
		bytes[i] = points[i].bytes;
		us[i] = points[i].us;
	}
	found = sc_fit_segments(bytes, us, n, &segments);
	for (size_t i = 0; i < n && found; i++)
		points[i].us = last = fmax(last, sc_fit_segments_us(&segments, bytes[i]));
	sc_arena_rewind(scratch, mark);
	return found;
}

static bool is_of_curve(const struct sc_fabric_curve *c, const struct sc_fit_row *row)
{
	return c->ranks == row->span.n_ranks && c->nodes == row->span.n_nodes &&
	       strcmp(c->collective, sc_collective_names[row->op[0].u.collective.kind]) == 0;
}

static bool fill(const struct sc_fit_problem *problem, struct sc_arena *arena,
		 struct sc_fabric_curve *c)
{
	struct point *points = sc_arena_alloc(arena, problem->n * sizeof(*points));
	size_t n = 0;

	for (size_t i = 0; i < problem->n; i++)
		if (is_of_curve(c, problem->rows[i]))
			points[n++] = (struct point){problem->rows[i]->op[0].u.collective.bytes,
						     problem->rows[i]->time_us};
	qsort(points, n, sizeof(*points), by_size);
	n = merge_sizes(points, n);
	if (n < MIN_SIZES)
		return false;
	if (!problem->model->segments || !take_segments(points, n, arena))
		make_rising(points, n, arena);
	c->bytes.at = sc_arena_alloc(arena, n * sizeof(double));
	c->time_us.at = sc_arena_alloc(arena, n * sizeof(double));
	c->bytes.n = c->time_us.n = n;
	for (size_t i = 0; i < n; i++) {
		c->bytes.at[i] = points[i].bytes;
		c->time_us.at[i] = points[i].us;
	}
	return true;
}

static bool is_new(const struct sc_fit_problem *problem, size_t row,
		   const struct sc_fabric_curve *curves, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is_of_curve(&curves[i], problem->rows[row]))
			return false;
	return true;
}

void sc_fit_curves_set(struct sc_fit_model *model, struct sc_structs curves)
{
	if (model->kind == SC_FIT_GEMM) {
		for (size_t i = 0; i < model->n_devices; i++)
			model->devices[i].gemm_curves = curves;
		return;
	}
	model->profile.curves = curves;
	for (size_t i = 0; i < model->n_fabrics; i++)
		model->requests[i].fabric_profile.curves = curves;
	sc_fit_model_refresh(model);
}

static struct sc_structs collective_curves(const struct sc_fit_problem *problem,
					   struct sc_arena *arena)
{
	struct sc_fabric_curve *curves = sc_arena_calloc(arena, SC_FIT_MAX_CURVES, sizeof(*curves));
	size_t n = 0, n_full = 0;

	for (size_t i = 0; i < problem->n && n < SC_FIT_MAX_CURVES; i++) {
		const struct sc_fit_row *row = problem->rows[i];

		if (is_new(problem, i, curves, n))
			curves[n++] = (struct sc_fabric_curve){
				.collective = sc_collective_names[row->op[0].u.collective.kind],
				.ranks = row->span.n_ranks,
				.nodes = row->span.n_nodes};
	}
	for (size_t i = 0; i < n; i++)
		if (fill(problem, arena, &curves[i]))
			curves[n_full++] = curves[i];
	return (struct sc_structs){curves, n_full};
}

struct sc_structs sc_fit_curves_build(const struct sc_fit_problem *problem, struct sc_arena *arena)
{
	struct sc_structs curves = problem->model->kind == SC_FIT_GEMM
					   ? sc_fit_gemm_curves(problem, arena)
					   : collective_curves(problem, arena);

	sc_fit_curves_set(problem->model, curves);
	return curves;
}

void sc_fit_curves_drop(struct sc_fit_model *model)
{
	sc_fit_curves_set(model, (struct sc_structs){NULL, 0});
}
