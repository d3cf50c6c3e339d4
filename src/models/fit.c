/* A fit from table to result: rows, checks of plausibility, folds, errors by region. The K-fold error
 * is of rows that the fit did not see; each fold starts from the whole fit's coefficients. */
#include "models/fit.h"

#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/fit_priv.h"

#define SLOW_RATIO 100.0 /* against the profile as it is: units, not a slow machine */
#define TIME_REGIONS 3
#define SPREAD_PCT 80.0
enum {
	MIN_ROWS_PER_COEF = 3,
	MAX_USED_ROWS = 12000, /* the solver sees; errors are of all */
	MAX_REGIONS = 64
};

/* A fit under way. */
struct work {
	const struct sc_fit_opts *opts;
	const struct sc_csv *table;
	struct sc_arena *arena;
	struct sc_fit_set set;
	struct sc_fit_model model;
	struct sc_fit_params params;
};

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

/* ---- plausibility ---- */

static double median_ratio(const struct work *w, bool to_model)
{
	struct sc_arena_mark mark = sc_arena_mark(w->arena);
	double *ratio = sc_arena_alloc(w->arena, w->set.n * sizeof(*ratio)), median;

	for (size_t i = 0; i < w->set.n; i++) {
		const struct sc_fit_row *row = &w->set.rows[i];
		double us = to_model ? sc_fit_predict_us(&w->model, row) : row->bound_us;

		ratio[i] = us > 0 ? row->time_us / us : HUGE_VAL;
	}
	median = sc_median(ratio, w->set.n, w->arena);
	sc_arena_rewind(w->arena, mark);
	return median;
}

/* Wrong units are the usual fault of a table made by hand. */
static int check_units(const struct work *w, struct sc_err *err)
{
	double to_bound = median_ratio(w, false), to_model = median_ratio(w, true);

	if (to_bound < 1)
		return sc_err_at(err, SC_EVALUE, w->table->file, 0, 0,
				 "half of the times are below what the peaks of %s allow (median "
				 "time / bound = %.3g): is time_us in ms or s, or is this another "
				 "device?",
				 w->opts->device, to_bound);
	if (to_model < 1 / SLOW_RATIO)
		return sc_err_at(err, SC_EVALUE, w->table->file, 0, 0,
				 "times are %.3g times shorter than the model expects (median): is "
				 "time_us in ms or s?",
				 1 / to_model);
	if (to_model > SLOW_RATIO)
		return sc_err_at(err, SC_EVALUE, w->table->file, 0, 0,
				 "times are %.3g times longer than the model expects (median): is "
				 "time_us in ns, or is this another device?",
				 to_model);
	return 0;
}

static int check_enough(const struct work *w, struct sc_err *err)
{
	size_t want = SC_FIT_MIN_ROWS, n_free = 0;

	for (size_t i = 0; i < w->params.n; i++)
		n_free += w->params.at[i].status == SC_FIT_FITTED;
	if (want < MIN_ROWS_PER_COEF * n_free)
		want = MIN_ROWS_PER_COEF * n_free;
	if (w->set.n < want)
		return sc_err_at(err, SC_EVALUE, w->table->file, 0, 0,
				 "too few rows: n=%zu; at least %zu are needed", w->set.n, want);
	if (w->set.n_shapes == 1)
		return sc_err_at(err, SC_EVALUE, w->table->file, 0, 0,
				 "all %zu rows have one shape; a fit needs several sizes",
				 w->set.n);
	if (w->set.n_shapes < w->opts->n_folds)
		return sc_err_at(err, SC_EVALUE, w->table->file, 0, 0,
				 "%zu different shapes do not make %zu folds; give fewer with "
				 "--folds, or more sizes",
				 w->set.n_shapes, w->opts->n_folds);
	return 0;
}

/* ---- folds ---- */

static uint64_t mixed(uint64_t x)
{
	return sc_fit_hash(UINT64_C(0xcbf29ce484222325), &x, sizeof(x));
}

static int by_mixed_shape(const void *a, const void *b)
{
	const struct sc_fit_row *const *x = a, *const *y = b;
	uint64_t l = mixed((*x)->shape), r = mixed((*y)->shape);

	if (l != r)
		return l < r ? -1 : 1;
	return *x < *y ? -1 : *x > *y;
}

/* Shapes in an order of chance, the same in every run, dealt to the folds in turn. */
static void deal_folds(struct sc_fit_set *set, size_t n_folds, struct sc_arena *arena)
{
	struct sc_fit_row **order = sc_arena_alloc(arena, set->n * sizeof(struct sc_fit_row *));

	for (size_t i = 0; i < set->n; i++)
		order[i] = &set->rows[i];
	qsort(order, set->n, sizeof(struct sc_fit_row *), by_mixed_shape);
	set->n_shapes = 0;
	for (size_t i = 0; i < set->n; i++) {
		set->n_shapes += i == 0 || order[i]->shape != order[i - 1]->shape;
		order[i]->fold = (unsigned)((set->n_shapes - 1) % n_folds);
	}
}

/* Rows outside `fold` (n_folds: all rows), at most MAX_USED_ROWS, evenly taken. */
static void pick_rows(const struct work *w, size_t fold, struct sc_fit_problem *out,
		      const struct sc_fit_row **rows)
{
	size_t n = 0, used;

	for (size_t i = 0; i < w->set.n; i++)
		if (w->set.rows[i].fold != fold)
			rows[n++] = &w->set.rows[i];
	used = n < MAX_USED_ROWS ? n : MAX_USED_ROWS;
	for (size_t i = 0; i < used; i++)
		rows[i] = rows[i * n / used];
	out->rows = rows;
	out->n = used;
}

static void predict_fold(const struct work *w, size_t fold, struct sc_fit_point *points)
{
	for (size_t i = 0; i < w->set.n; i++)
		if (w->set.rows[i].fold == fold)
			points[i].held_out_us = sc_fit_predict_us(&w->model, &w->set.rows[i]);
}

static int run_folds(struct work *w, const struct sc_fit_row **rows, struct sc_fit *out,
		     struct sc_err *err)
{
	int rc = 0;

	for (size_t fold = 0; fold < w->opts->n_folds && rc == 0; fold++) {
		struct sc_fit_problem problem = {.model = &w->model};
		struct sc_fit_params params = w->params;

		pick_rows(w, fold, &problem, rows);
		rc = sc_fit_refine(&problem, &params, err);
		if (rc == 0)
			predict_fold(w, fold, out->points);
	}
	sc_fit_params_apply(&w->params, &w->model);
	return rc;
}

/* ---- errors by region ---- */

typedef const char *(*label_of)(const struct work *w, const struct sc_fit_row *row);

static const char *pass_of(const struct work *w, const struct sc_fit_row *row)
{
	(void)w;
	return row->pass;
}

static const char *op_of(const struct work *w, const struct sc_fit_row *row)
{
	(void)w;
	return row->op_name;
}

static const char *source_of(const struct work *w, const struct sc_fit_row *row)
{
	return w->set.source[row->source];
}

static const char *nodes_of(const struct work *w, const struct sc_fit_row *row)
{
	if (w->opts->kind != SC_FIT_COLLECTIVE)
		return NULL;
	return row->span.n_nodes > 1 ? "several" : "one";
}

struct by {
	const char *name;
	label_of label;
};
static const struct by BY[] = {
	{"op", op_of}, {"pass", pass_of}, {"nodes", nodes_of}, {"source", source_of}};
enum { N_BY = sizeof(BY) / sizeof(BY[0]) };

/* Errors of the chosen rows, if there are any. */
static void add_region(const struct work *w, struct sc_fit *out, const char *by, const char *value,
		       const bool *chosen)
{
	double *predicted = sc_arena_alloc(w->arena, out->n_rows * sizeof(*predicted));
	double *measured = sc_arena_alloc(w->arena, out->n_rows * sizeof(*measured));
	struct sc_fit_region *region = &out->regions[out->n_regions];
	size_t n = 0;

	for (size_t i = 0; i < out->n_rows; i++) {
		if (!chosen[i])
			continue;
		predicted[n] = out->points[i].held_out_us;
		measured[n++] = out->points[i].measured_us;
	}
	if (n == 0 || out->n_regions == MAX_REGIONS)
		return;
	*region = (struct sc_fit_region){.by = by, .value = value};
	sc_accuracy_compute(predicted, measured, n, w->arena, &region->accuracy);
	region->spread_frac = sc_fit_spread(predicted, measured, n, w->arena);
	out->n_regions++;
}

/* Each value of a label, in the order of the table; one value alone says nothing. */
static void add_labelled(const struct work *w, const struct by *by, struct sc_fit *out)
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
		add_region(w, out, by->name, seen[j], chosen);
	}
}

/* Short, middle and long times, a third of the rows each. */
static void add_times(const struct work *w, struct sc_fit *out)
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
		add_region(w, out, "time",
			   sc_arena_printf(w->arena, "%s, to %.4g us", names[part], high), chosen);
		low = high;
	}
}

static void score(const struct work *w, struct sc_fit *out)
{
	size_t n = out->n_rows, n_bytes = n * sizeof(double);
	double *measured = sc_arena_alloc(w->arena, n_bytes);
	double *before = sc_arena_alloc(w->arena, n_bytes);
	double *in_sample = sc_arena_alloc(w->arena, n_bytes);
	double *held_out = sc_arena_alloc(w->arena, n_bytes);

	for (size_t i = 0; i < n; i++) {
		measured[i] = out->points[i].measured_us;
		before[i] = out->points[i].before_us;
		in_sample[i] = out->points[i].in_sample_us;
		held_out[i] = out->points[i].held_out_us;
	}
	sc_accuracy_compute(before, measured, n, w->arena, &out->before);
	sc_accuracy_compute(in_sample, measured, n, w->arena, &out->in_sample);
	sc_accuracy_compute(held_out, measured, n, w->arena, &out->held_out);
	out->spread_frac = sc_fit_spread(held_out, measured, n, w->arena);
	out->regions = sc_arena_calloc(w->arena, MAX_REGIONS, sizeof(*out->regions));
	add_times(w, out);
	for (size_t i = 0; i < N_BY; i++)
		add_labelled(w, &BY[i], out);
}

/* ---- the result ---- */

static void add_range(struct sc_fit *out, const char *name, double x, bool first)
{
	struct sc_fit_range *range = &out->ranges[out->n_ranges];

	if (first)
		*range = (struct sc_fit_range){name, x, x};
	range->lowest = fmin(range->lowest, x);
	range->highest = fmax(range->highest, x);
}

static void set_ranges(const struct work *w, struct sc_fit *out)
{
	out->ranges = sc_arena_calloc(w->arena, SC_FIT_MAX_DIMS + 1, sizeof(*out->ranges));
	for (size_t d = 0; w->set.dim_names[d]; d++, out->n_ranges++)
		for (size_t i = 0; i < w->set.n; i++)
			add_range(out, w->set.dim_names[d], w->set.rows[i].dim[d], i == 0);
	for (size_t i = 0; i < w->set.n; i++)
		add_range(out, "time_us", w->set.rows[i].time_us, i == 0);
	out->n_ranges++;
}

static void set_coefs(const struct work *w, struct sc_fit *out)
{
	out->n_coefs = w->params.n;
	out->coefs = sc_arena_calloc(w->arena, w->params.n, sizeof(*out->coefs));
	for (size_t i = 0; i < w->params.n; i++) {
		const struct sc_fit_param *p = &w->params.at[i];

		out->coefs[i] = (struct sc_fit_coef){.block = p->block,
						     .name = p->name,
						     .value = p->value,
						     .start = p->start,
						     .lower = p->lower,
						     .upper = p->upper,
						     .standard_error = p->standard_error,
						     .status = p->status};
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Coefficients that stood at another value while others were fitted go back to the profile's. */
static void restore_fixed(const struct sc_device *device, struct sc_fit_model *model)
{
	const struct sc_fit_coef_row *row = sc_fit_blocks[model->kind].rows;

	for (; row && row->name; row++)
		if (row->at > 0)
			memcpy((char *)&model->device + row->offset,
			       (const char *)device + row->offset, sizeof(row->at));
}

static void describe(struct work *w, const struct sc_device *device, struct sc_fit *out)
{
	const char *slash = strrchr(w->table->file, '/');

	out->kind = w->opts->kind;
	out->device_id = device->id;
	out->table = slash ? slash + 1 : w->table->file;
	out->n_shapes = w->set.n_shapes;
	out->n_folds = w->opts->n_folds;
	out->n_other = w->set.n_other;
	out->n_empty = w->set.n_empty;
	out->n_forced = w->set.n_forced;
	out->n_sources = w->set.n_sources;
	out->sources = sc_arena_calloc(w->arena, w->set.n_sources, sizeof(*out->sources));
	for (size_t i = 0; i < w->set.n_sources; i++)
		out->sources[i] = w->set.source[i];
	qsort(out->sources, out->n_sources, sizeof(*out->sources), by_name);
	set_coefs(w, out);
	set_ranges(w, out);
	score(w, out);
	restore_fixed(device, &w->model);
	out->device = w->model.device;
	out->fabric = w->model.profile;
}

static int solve(struct work *w, struct sc_fit *out, struct sc_err *err)
{
	const struct sc_fit_row **rows =
		sc_arena_alloc(w->arena, w->set.n * sizeof(const struct sc_fit_row *));
	struct sc_fit_problem problem = {.model = &w->model};
	int rc;

	out->n_rows = w->set.n;
	out->points = sc_arena_calloc(w->arena, w->set.n, sizeof(*out->points));
	for (size_t i = 0; i < w->set.n; i++)
		out->points[i].before_us = sc_fit_predict_us(&w->model, &w->set.rows[i]);
	pick_rows(w, w->opts->n_folds, &problem, rows);
	rc = sc_fit_search(&problem, &w->params, &out->condition, err);
	if (rc)
		return rc;
	out->n_used = problem.n;
	for (size_t i = 0; i < w->set.n; i++) {
		out->points[i].measured_us = w->set.rows[i].time_us;
		out->points[i].in_sample_us = sc_fit_predict_us(&w->model, &w->set.rows[i]);
	}
	return run_folds(w, rows, out, err);
}

int sc_fit_run(const struct sc_csv *table, const struct sc_fit_opts *opts, struct sc_arena *arena,
	       struct sc_fit *out, struct sc_err *err)
{
	/* GSL's default ends the program; every status is checked here. */
	gsl_error_handler_t *handler = gsl_set_error_handler_off();
	struct work *w = sc_arena_calloc(arena, 1, sizeof(*w));
	struct sc_device *device = sc_arena_calloc(arena, 1, sizeof(*device));
	struct sc_fit_table rows = {table, opts, device, arena};
	struct sc_fit result = {.n_rows = 0};
	int rc = sc_device_load(opts->device, arena, device, err);

	w->opts = opts;
	w->table = table;
	w->arena = arena;
	if (rc == 0)
		rc = sc_fit_set_read(&rows, &w->set, err);
	if (rc == 0)
		rc = sc_fit_model_init(&w->model, device, &w->set, opts->kind, arena, err);
	if (rc == 0)
		rc = check_units(w, err);
	if (rc == 0) {
		deal_folds(&w->set, opts->n_folds, arena);
		sc_fit_params_list(&w->model, &w->set, opts, arena, &w->params);
		rc = check_enough(w, err);
	}
	if (rc == 0)
		rc = solve(w, &result, err);
	if (rc == 0) {
		describe(w, device, &result);
		*out = result;
	}
	gsl_set_error_handler(handler);
	return rc;
}
