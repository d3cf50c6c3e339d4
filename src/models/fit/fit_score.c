/* Folds and groups; errors of a fit: of all rows, of those held out, and of these by region. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/units.h"
#include "models/fit/fit_solve.h"

#define SPREAD_PCT 80.0
#define TIME_REGIONS 3u
enum { MAX_REGIONS = 256 };

int sc_fit_deal_groups(struct sc_fit_row *rows, size_t n, const char *option, const char *column,
		       size_t *n_folds, const char *file, struct sc_err *err)
{
	const char *seen[SC_FIT_MAX_FOLDS] = {0};
	size_t n_seen = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned j = 0;

		rows[i].fold = SC_FIT_NO_FOLD;
		if (!rows[i].group)
			continue;
		while (j < n_seen && strcmp(seen[j], rows[i].group) != 0)
			j++;
		if (j == SC_FIT_MAX_FOLDS)
			return sc_err_at(err, SC_ELIMIT, file, 0, 0,
					 "%s: more than %d different values of %s", option,
					 SC_FIT_MAX_FOLDS, column);
		if (j == n_seen)
			seen[n_seen++] = rows[i].group;
		rows[i].fold = j;
	}
	*n_folds = n_seen;
	if (column && n_seen < 2)
		return sc_err_at(
			err, SC_EVALUE, file, 0, 0,
			"%s: all rows have one value of %s, \"%.64s\"; nothing is left to fit",
			option, column, n_seen ? seen[0] : "");
	return 0;
}

size_t sc_fit_pick(const struct sc_fit_row *rows, size_t n, size_t fold, size_t n_max,
		   const struct sc_fit_row **out)
{
	size_t n_in = 0, used;

	for (size_t i = 0; i < n; i++)
		if (rows[i].fold != fold)
			out[n_in++] = &rows[i];
	used = n_in < n_max ? n_in : n_max;
	for (size_t i = 0; i < used; i++)
		out[i] = out[i * n_in / used];
	return used;
}

/* Accuracy of the member at `offset` of the chosen points (NULL: all) with it; n = 0: none has. */
static struct sc_accuracy points_accuracy(const struct sc_fit *fit, const bool *chosen,
					  size_t offset, struct sc_arena *arena,
					  double *spread_frac)
{
	struct sc_arena_mark mark = sc_arena_mark(arena);
	double *measured = sc_arena_alloc(arena, (fit->n_rows + 1) * sizeof(*measured));
	double *predicted = sc_arena_alloc(arena, (fit->n_rows + 1) * sizeof(*predicted));
	struct sc_accuracy out;
	size_t n = 0;

	for (size_t i = 0; i < fit->n_rows; i++) {
		const struct sc_fit_point *point = &fit->points[i];

		memcpy(&predicted[n], (const char *)point + offset, sizeof(double));
		measured[n] = point->measured_us;
		n += (!chosen || chosen[i]) && !isnan(predicted[n]);
	}
	out = sc_accuracy_compute(predicted, measured, n, arena);
	for (size_t i = 0; i < n && spread_frac; i++)
		measured[i] = fabs(log(predicted[i] / measured[i]));
	if (spread_frac) {
		sc_sort_doubles(measured, n);
		*spread_frac = sc_percentile_sorted(measured, n, SPREAD_PCT) / SC_Z_CENTRAL_80;
	}
	sc_arena_rewind(arena, mark);
	return out;
}

#define AT(member) offsetof(struct sc_fit_point, member)

static void add_region(struct sc_fit *out, const char *by, const char *value, bool *chosen,
		       struct sc_arena *arena)
{
	struct sc_fit_region *region = &out->regions[out->n_regions];

	for (size_t i = 0; i < out->n_rows; i++)
		chosen[i] &= !isnan(out->points[i].held_out_us);
	if (out->n_regions == MAX_REGIONS)
		return;
	*region = (struct sc_fit_region){.by = by, .value = value};
	region->accuracy =
		points_accuracy(out, chosen, AT(held_out_us), arena, &region->spread_frac);
	region->before_mape_pct = points_accuracy(out, chosen, AT(before_us), arena, NULL).mape_pct;
	out->n_regions += region->accuracy.n > 0;
}

/* Short, middle and long times, a third of the rows each. */
static void add_times(struct sc_fit *out, bool *chosen, struct sc_arena *arena)
{
	static const char *const names[TIME_REGIONS] = {"short", "middle", "long"};
	const bool is_long = out->kind == SC_FIT_ITERATION;
	double *times = sc_arena_alloc(arena, out->n_rows * sizeof(*times)), low = -1;

	if (out->n_rows < TIME_REGIONS)
		return;
	for (size_t i = 0; i < out->n_rows; i++)
		times[i] = out->points[i].measured_us;
	sc_sort_doubles(times, out->n_rows);
	for (size_t part = 0; part < TIME_REGIONS; part++) {
		double high = times[(part + 1) * out->n_rows / TIME_REGIONS - 1];

		for (size_t i = 0; i < out->n_rows; i++)
			chosen[i] = out->points[i].measured_us > low &&
				    out->points[i].measured_us <= high;
		add_region(out, "time",
			   sc_arena_printf(arena, "%s, to %.4g %s", names[part],
					   is_long ? high / SC_US_PER_MS : high,
					   is_long ? "ms" : "us"),
			   chosen, arena);
		low = high;
	}
}

void sc_fit_score(const struct sc_fit_label *labels, size_t n_labels, struct sc_arena *arena,
		  struct sc_fit *out)
{
	bool *chosen = sc_arena_calloc(arena, out->n_rows, sizeof(*chosen));
	double medians[MAX_REGIONS];
	size_t n = 0;

	out->before = points_accuracy(out, NULL, AT(before_us), arena, NULL);
	out->in_sample = points_accuracy(out, NULL, AT(in_sample_us), arena, NULL);
	out->held_out = points_accuracy(out, NULL, AT(held_out_us), arena, &out->spread_frac);
	out->formula = points_accuracy(out, NULL, AT(formula_us), arena, &out->formula_spread_frac);
	out->regions = sc_arena_calloc(arena, MAX_REGIONS + 1, sizeof(*out->regions));
	add_times(out, chosen, arena);
	for (size_t i = 0; i < n_labels; i++) {
		/* Each value of a label, in the table's order; one value alone says nothing. */
		const char *seen[MAX_REGIONS];
		size_t n_seen = 0;

		for (size_t k = 0; k < out->n_rows; k++) {
			const char *mine = labels[i].of_row[k];
			size_t j = 0;

			while (mine && j < n_seen && strcmp(seen[j], mine) != 0)
				j++;
			if (mine && j == n_seen && n_seen < MAX_REGIONS)
				seen[n_seen++] = mine;
		}
		for (size_t j = 0; n_seen > 1 && j < n_seen; j++) {
			for (size_t k = 0; k < out->n_rows; k++)
				chosen[k] = labels[i].of_row[k] &&
					    strcmp(labels[i].of_row[k], seen[j]) == 0;
			add_region(out, labels[i].by, seen[j], chosen, arena);
		}
	}
	for (size_t i = 0; i < out->n_regions;
	     i++) /* each group weighs alike, however many rows it has */
		if (strcmp(out->regions[i].by, "group") == 0)
			medians[n++] = out->regions[i].accuracy.median_ape_pct;
	out->group_median_pct = n ? sc_median_sorting(medians, n) : (double)NAN;
}
