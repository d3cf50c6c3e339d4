/* Errors of a fit: of all rows, of those held out, and of these by region. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "models/fit_priv.h"

#define SPREAD_PCT 80.0
#define TIME_REGIONS 3u
enum { MAX_REGIONS = 128 };

double sc_fit_spread(const double *predicted, const double *measured, size_t n,
		     struct sc_arena *scratch)
{
	struct sc_arena_mark mark = sc_arena_mark(scratch);
	double *r = sc_arena_alloc(scratch, (n + 1) * sizeof(*r)), spread;

	for (size_t i = 0; i < n; i++)
		r[i] = fabs(log(predicted[i] / measured[i]));
	spread = sc_percentile(r, n, SPREAD_PCT, scratch) / SC_Z_CENTRAL_80;
	sc_arena_rewind(scratch, mark);
	return spread;
}

/* ---- errors by region ---- */

typedef const char *(*label_of)(const struct sc_fit_work *w, const struct sc_fit_row *row);

static const char *pass_of(const struct sc_fit_work *w, const struct sc_fit_row *row)
{
	(void)w;
	return row->pass;
}

static const char *op_of(const struct sc_fit_work *w, const struct sc_fit_row *row)
{
	(void)w;
	return row->op_name;
}

static const char *source_of(const struct sc_fit_work *w, const struct sc_fit_row *row)
{
	return w->set.source[row->source];
}

static const char *device_of(const struct sc_fit_work *w, const struct sc_fit_row *row)
{
	return w->set.device[row->device]->id;
}

static const char *ranks_of(const struct sc_fit_work *w, const struct sc_fit_row *row)
{
	return w->opts->kind == SC_FIT_COLLECTIVE
		       ? sc_arena_printf(w->arena, "%d on %d", row->span.n_ranks, row->span.n_nodes)
		       : NULL;
}

/* Columns that are regions anyhow are not told twice. */
static const char *left_out_of(const struct sc_fit_work *w, const struct sc_fit_row *row)
{
	static const char *const shown[] = {"op", "pass", "source", "device", NULL};

	for (size_t i = 0; w->opts->leave_out && shown[i]; i++)
		if (strcmp(w->opts->leave_out, shown[i]) == 0)
			return NULL;
	return w->opts->leave_out ? row->group : NULL;
}

static const char *nodes_of(const struct sc_fit_work *w, const struct sc_fit_row *row)
{
	if (w->opts->kind != SC_FIT_COLLECTIVE)
		return NULL;
	return row->span.n_nodes > 1 ? "several" : "one";
}

struct by {
	const char *name;
	label_of label;
};
static const struct by BY[] = {{"op", op_of},         {"pass", pass_of},     {"nodes", nodes_of},
			       {"ranks", ranks_of},   {"source", source_of}, {"device", device_of},
			       {"group", left_out_of}};
enum { N_BY = sizeof(BY) / sizeof(BY[0]) };

/* Errors of the chosen rows, if there are any. */
static void add_region(const struct sc_fit_work *w, struct sc_fit *out, struct sc_fit_region named,
		       const bool *chosen)
{
	double *predicted = sc_arena_alloc(w->arena, out->n_rows * sizeof(*predicted));
	double *measured = sc_arena_alloc(w->arena, out->n_rows * sizeof(*measured));
	struct sc_fit_region *region = &out->regions[out->n_regions];
	size_t n = 0;

	for (size_t i = 0; i < out->n_rows; i++) {
		if (!chosen[i] || isnan(out->points[i].held_out_us))
			continue;
		predicted[n] = out->points[i].held_out_us;
		measured[n++] = out->points[i].measured_us;
	}
	if (n == 0 || out->n_regions == MAX_REGIONS)
		return;
	*region = named;
	region->accuracy = sc_accuracy_compute(predicted, measured, n, w->arena);
	region->spread_frac = sc_fit_spread(predicted, measured, n, w->arena);
	out->n_regions++;
}

/* Each value of a label, in the order of the table; one value alone says nothing. */
static void add_labelled(const struct sc_fit_work *w, const struct by *by, struct sc_fit *out)
{
	const char *seen[MAX_REGIONS];
	bool *chosen = sc_arena_calloc(w->arena, out->n_rows, sizeof(*chosen));
	size_t n_seen = 0;

	for (size_t i = 0; i < out->n_rows; i++) {
		const char *label = by->label(w, &w->set.rows[i]);
		size_t j = 0;

		while (label && j < n_seen && strcmp(seen[j], label) != 0)
			j++;
		if (label && j == n_seen && n_seen < MAX_REGIONS)
			seen[n_seen++] = label;
	}
	for (size_t j = 0; n_seen > 1 && j < n_seen; j++) {
		for (size_t i = 0; i < out->n_rows; i++) {
			const char *label = by->label(w, &w->set.rows[i]);

			chosen[i] = label && strcmp(label, seen[j]) == 0;
		}
		add_region(w, out, (struct sc_fit_region){.by = by->name, .value = seen[j]},
			   chosen);
	}
}

/* Short, middle and long times, a third of the rows each. */
static void add_times(const struct sc_fit_work *w, struct sc_fit *out)
{
	static const char *const names[TIME_REGIONS] = {"short", "middle", "long"};
	double *times = sc_arena_alloc(w->arena, out->n_rows * sizeof(*times)), low = -1;
	bool *chosen = sc_arena_calloc(w->arena, out->n_rows, sizeof(*chosen));

	for (size_t i = 0; i < out->n_rows; i++)
		times[i] = out->points[i].measured_us;
	sc_sort_doubles(times, out->n_rows);
	for (size_t part = 0; part < TIME_REGIONS; part++) {
		double high = times[(part + 1) * out->n_rows / TIME_REGIONS - 1];

		for (size_t i = 0; i < out->n_rows; i++)
			chosen[i] = out->points[i].measured_us > low &&
				    out->points[i].measured_us <= high;
		add_region(
			w, out,
			(struct sc_fit_region){.by = "time",
					       .value = sc_arena_printf(w->arena, "%s, to %.4g us",
									names[part], high)},
			chosen);
		low = high;
	}
}

/* Accuracy of one column of the points, of those that were held out or of all. */
static struct sc_accuracy score_points(const struct sc_fit_work *w, const struct sc_fit *fit,
				       size_t offset, double *spread_frac)
{
	double *measured = sc_arena_alloc(w->arena, fit->n_rows * sizeof(*measured));
	double *predicted = sc_arena_alloc(w->arena, fit->n_rows * sizeof(*predicted));
	struct sc_accuracy out;
	size_t n = 0;

	for (size_t i = 0; i < fit->n_rows; i++) {
		memcpy(&predicted[n], (const char *)&fit->points[i] + offset, sizeof(double));
		measured[n] = fit->points[i].measured_us;
		if (!isnan(predicted[n]))
			n++;
	}
	out = sc_accuracy_compute(predicted, measured, n, w->arena);
	if (spread_frac)
		*spread_frac = sc_fit_spread(predicted, measured, n, w->arena);
	return out;
}

/* Each group weighs alike, however many rows it has. */
static double group_median(const struct sc_fit_work *w, const struct sc_fit *fit)
{
	double *medians = sc_arena_alloc(w->arena, (MAX_REGIONS + 1) * sizeof(*medians));
	size_t n = 0;

	for (size_t i = 0; i < fit->n_regions; i++)
		if (strcmp(fit->regions[i].by, "group") == 0)
			medians[n++] = fit->regions[i].accuracy.median_ape_pct;
	return n > 0 ? sc_median(medians, n, w->arena) : (double)NAN;
}

void sc_fit_score(const struct sc_fit_work *work, struct sc_fit *out)
{
	out->before = score_points(work, out, offsetof(struct sc_fit_point, before_us), NULL);
	out->in_sample = score_points(work, out, offsetof(struct sc_fit_point, in_sample_us), NULL);
	out->held_out = score_points(work, out, offsetof(struct sc_fit_point, held_out_us),
				     &out->spread_frac);
	out->formula = score_points(work, out, offsetof(struct sc_fit_point, formula_us),
				    &out->formula_spread_frac);
	out->regions = sc_arena_calloc(work->arena, MAX_REGIONS, sizeof(*out->regions));
	add_times(work, out);
	for (size_t i = 0; i < N_BY; i++)
		add_labelled(work, &BY[i], out);
	out->group_median_pct = group_median(work, out);
}
