/* A fit from table to result: rows, checks of plausibility, folds, errors by region. The K-fold error
 * is of rows that the fit did not see; each fold starts from the whole fit's coefficients. */
#include "models/fit.h"

#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fnv.h"
#include "models/fit_priv.h"

#define SLOW_RATIO 100.0 /* against the profile as it is: units, not a slow machine */
enum {
	MIN_ROWS_PER_COEF = 3,
	MAX_USED_ROWS = 12000 /* the solver sees; errors are of all */
};

/* ---- plausibility ---- */

static double median_ratio(const struct sc_fit_work *w, bool to_model)
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
static int check_units(const struct sc_fit_work *w, struct sc_err *err)
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

static int search(const struct sc_fit_work *w, const struct sc_fit_problem *problem,
		  struct sc_fit_params *params, double *condition, struct sc_err *err)
{
	if (!sc_fit_of_machines(w->opts))
		return sc_fit_search(problem, params, condition, err);
	*condition = 0;
	sc_fit_descend(problem, params);
	return 0;
}

static bool is_grouped(const struct sc_fit_opts *opts)
{
	return opts->leave_out || opts->n_hold_out > 0;
}

static int check_enough(const struct sc_fit_work *w, struct sc_err *err)
{
	size_t want = SC_FIT_MIN_ROWS, n_free = 0;

	for (size_t i = 0; i < w->params.n; i++)
		n_free += w->params.at[i].status == SC_FIT_FITTED;
	if (want < MIN_ROWS_PER_COEF * n_free)
		want = MIN_ROWS_PER_COEF * n_free;
	if (w->set.n < want && w->set.n_bound)
		return sc_err_at(
			err, SC_EVALUE, w->table->file, 0, 0,
			"too few rows: n=%zu; at least %zu are needed; %zu of quality bound "
			"were left out, --where quality=bound takes them",
			w->set.n, want, w->set.n_bound);
	if (w->set.n < want)
		return sc_err_at(err, SC_EVALUE, w->table->file, 0, 0,
				 "too few rows: n=%zu; at least %zu are needed", w->set.n, want);
	if (w->set.n_shapes == 1)
		return sc_err_at(err, SC_EVALUE, w->table->file, 0, 0,
				 "all %zu rows have one shape; a fit needs several sizes",
				 w->set.n);
	if (!is_grouped(w->opts) && w->set.n_shapes < w->opts->n_folds)
		return sc_err_at(err, SC_EVALUE, w->table->file, 0, 0,
				 "%zu different shapes do not make %zu folds; give fewer with "
				 "--folds, or more sizes",
				 w->set.n_shapes, w->opts->n_folds);
	return 0;
}

/* ---- folds ---- */

static uint64_t mixed(uint64_t x)
{
	return sc_fnv(SC_FNV_START, &x, sizeof(x));
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

/* Machines weigh alike, however many rows they have. */
static void weigh_groups(struct sc_fit_work *w)
{
	size_t n[SC_FIT_MAX_FOLDS + 1] = {0};

	if (!sc_fit_of_machines(w->opts))
		return;
	for (size_t i = 0; i < w->set.n; i++)
		n[w->set.rows[i].fold]++;
	for (size_t i = 0; i < w->set.n; i++)
		w->set.rows[i].weight =
			(double)w->set.n / (double)(w->n_folds * n[w->set.rows[i].fold]);
}

/* Each value of the column is a fold, in the order of the table. */
static int deal_groups(struct sc_fit_work *w, struct sc_err *err)
{
	const char *seen[SC_FIT_MAX_FOLDS] = {0};
	const char *option = w->opts->leave_out ? "--leave-out" : "--hold-out";
	size_t n_out = 0;

	w->n_folds = 0;
	for (size_t i = 0; i < w->set.n; i++) {
		struct sc_fit_row *row = &w->set.rows[i];
		unsigned j = 0;

		row->fold = SC_FIT_NO_FOLD;
		if (!row->group)
			continue;
		while (j < w->n_folds && strcmp(seen[j], row->group) != 0)
			j++;
		if (j == SC_FIT_MAX_FOLDS)
			return sc_err_at(err, SC_ELIMIT, w->table->file, 0, 0,
					 "%s: more than %d different values of %s", option,
					 SC_FIT_MAX_FOLDS, w->opts->leave_out);
		if (j == w->n_folds)
			seen[w->n_folds++] = row->group;
		row->fold = j;
		n_out++;
	}
	if (w->opts->leave_out && w->n_folds < 2)
		return sc_err_at(
			err, SC_EVALUE, w->table->file, 0, 0,
			"--leave-out: all rows have one value of %s, \"%.64s\"; nothing is "
			"left to fit",
			w->opts->leave_out, seen[0]);
	weigh_groups(w);
	if (n_out == 0 || (!w->opts->leave_out && n_out == w->set.n))
		return sc_err_at(err, SC_EVALUE, w->table->file, 0, 0, "--hold-out takes %s rows",
				 n_out ? "all" : "no");
	return 0;
}

/* Rows outside `fold` (SC_FIT_ALL: all rows), at most `n_max`, evenly taken. */
static size_t pick_rows(const struct sc_fit_work *w, size_t fold, size_t n_max,
			const struct sc_fit_row **rows)
{
	size_t n = 0, used;

	for (size_t i = 0; i < w->set.n; i++)
		if (w->set.rows[i].fold != fold)
			rows[n++] = &w->set.rows[i];
	used = n < n_max ? n : n_max;
	for (size_t i = 0; i < used; i++)
		rows[i] = rows[i * n / used];
	return used;
}

/* Of all rows outside `fold`, those too that the solver did not see. */
static struct sc_structs build_curves(struct sc_fit_work *w, size_t fold,
				      const struct sc_fit_row **rows)
{
	struct sc_fit_problem problem = {.model = &w->model, .rows = rows};

	problem.n = pick_rows(w, fold, w->set.n, rows);
	return sc_fit_curves_build(&problem, w->arena);
}

/* Sets the field at `offset` of the points of a fold. */
static void predict_fold(const struct sc_fit_work *w, size_t fold, size_t offset,
			 struct sc_fit_point *points)
{
	for (size_t i = 0; i < w->set.n; i++) {
		double us;

		if (w->set.rows[i].fold != fold)
			continue;
		us = sc_fit_predict_us(&w->model, &w->set.rows[i]);
		memcpy((char *)&points[i] + offset, &us, sizeof(us));
	}
}

/* A fold starts from the whole fit's coefficients. */
static int fit_fold(struct sc_fit_work *w, const struct sc_fit_problem *problem, struct sc_err *err)
{
	struct sc_fit_params params = w->params;

	return sc_fit_refine(problem, &params, err);
}

/* A group's fit starts anew, and knows nothing of the group; nor has it the coefficients of a device
 * that is left out. */
static int fit_without(struct sc_fit_work *w, const struct sc_fit_problem *problem,
		       struct sc_err *err)
{
	const struct sc_device *start = w->start;
	struct sc_fit_params params;
	double condition;
	bool is_in = false;

	for (size_t i = 0; i < problem->n && !is_in; i++)
		is_in = strcmp(w->set.device[problem->rows[i]->device]->id, start->id) == 0;
	if (!is_in)
		start = w->set.device[problem->rows[0]->device];
	sc_fit_model_start(&w->model, start);
	sc_fit_params_list(problem, w, &params);
	return search(w, problem, &params, &condition, err);
}

static int run_folds(struct sc_fit_work *w, const struct sc_fit_row **rows, struct sc_fit *out,
		     struct sc_err *err)
{
	int rc = 0;

	for (size_t fold = 0; fold < w->n_folds && rc == 0; fold++) {
		struct sc_fit_problem problem = {.model = &w->model, .rows = rows};

		sc_fit_curves_drop(&w->model);
		problem.n = pick_rows(w, fold, MAX_USED_ROWS, rows);
		rc = is_grouped(w->opts) ? fit_without(w, &problem, err)
					 : fit_fold(w, &problem, err);
		if (rc)
			break;
		if (w->opts->curves) {
			predict_fold(w, fold, offsetof(struct sc_fit_point, formula_us),
				     out->points);
			build_curves(w, fold, rows);
		}
		predict_fold(w, fold, offsetof(struct sc_fit_point, held_out_us), out->points);
	}
	sc_fit_model_start(&w->model, w->start);
	sc_fit_params_apply(&w->params, &w->model);
	return rc;
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

static void set_ranges(const struct sc_fit_work *w, struct sc_fit *out)
{
	out->ranges = sc_arena_calloc(w->arena, SC_FIT_MAX_DIMS + 1, sizeof(*out->ranges));
	for (size_t d = 0; w->set.dim_names[d]; d++, out->n_ranges++)
		for (size_t i = 0; i < w->set.n; i++)
			add_range(out, w->set.dim_names[d], w->set.rows[i].dim[d], i == 0);
	for (size_t i = 0; i < w->set.n; i++)
		add_range(out, "time_us", w->set.rows[i].time_us, i == 0);
	out->n_ranges++;
}

static void set_coefs(const struct sc_fit_work *w, struct sc_fit *out)
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

static void describe(struct sc_fit_work *w, const struct sc_device *device, struct sc_fit *out)
{
	const char *slash = strrchr(w->table->file, '/');

	out->kind = w->opts->kind;
	out->device_id = device->id;
	out->table = slash ? slash + 1 : w->table->file;
	out->n_shapes = w->set.n_shapes;
	out->n_folds = w->n_folds;
	out->leave_out = w->opts->leave_out    ? w->opts->leave_out
			 : w->opts->n_hold_out ? "chosen rows"
					       : NULL;
	out->n_other = w->set.n_other;
	out->n_empty = w->set.n_empty;
	out->n_forced = w->set.n_forced;
	out->n_bound = w->set.n_bound;
	out->n_sources = w->set.n_sources;
	out->sources = sc_arena_calloc(w->arena, w->set.n_sources, sizeof(*out->sources));
	for (size_t i = 0; i < w->set.n_sources; i++)
		out->sources[i] = w->set.source[i];
	qsort(out->sources, out->n_sources, sizeof(*out->sources), by_name);
	set_coefs(w, out);
	set_ranges(w, out);
	sc_fit_score(w, out);
	restore_fixed(device, &w->model);
	out->device = w->model.device;
	if (out->kind == SC_FIT_GEMM && out->curves.n > 0)
		out->device.gemm_curves = out->curves;
	out->fabric = w->model.profile;
}

static int solve(struct sc_fit_work *w, struct sc_fit *out, struct sc_err *err)
{
	const struct sc_fit_row **rows =
		sc_arena_alloc(w->arena, w->set.n * sizeof(const struct sc_fit_row *));
	struct sc_fit_problem problem = {.model = &w->model, .rows = rows};
	int rc;

	out->n_rows = w->set.n;
	out->points = sc_arena_calloc(w->arena, w->set.n, sizeof(*out->points));
	for (size_t i = 0; i < w->set.n; i++)
		out->points[i].before_us = sc_fit_predict_us(&w->model, &w->set.rows[i]);
	sc_fit_curves_drop(&w->model);
	problem.n = pick_rows(w, SC_FIT_ALL, MAX_USED_ROWS, rows);
	sc_fit_params_list(&problem, w, &w->params);
	rc = sc_fit_check_keep(w, err);
	if (rc == 0)
		rc = check_enough(w, err);
	if (rc == 0)
		rc = search(w, &problem, &w->params, &out->condition, err);
	if (rc)
		return rc;
	out->n_used = problem.n;
	if (w->opts->curves)
		out->curves = build_curves(w, SC_FIT_ALL, rows);
	for (size_t i = 0; i < w->set.n; i++) {
		out->points[i].measured_us = w->set.rows[i].time_us;
		out->points[i].in_sample_us = sc_fit_predict_us(&w->model, &w->set.rows[i]);
		out->points[i].held_out_us = out->points[i].formula_us = NAN;
	}
	rc = run_folds(w, rows, out, err);
	sc_fit_curves_set(&w->model, out->curves);
	return rc;
}

static int deal(struct sc_fit_work *w, struct sc_err *err)
{
	w->n_folds = w->opts->n_folds;
	deal_folds(&w->set, w->n_folds, w->arena);
	return is_grouped(w->opts) ? deal_groups(w, err) : 0;
}

static int check_opts(const struct sc_fit_opts *opts, struct sc_err *err)
{
	if (opts->leave_out && opts->n_hold_out > 0)
		return sc_err_set(err, SC_EUSAGE, "--leave-out and --hold-out exclude each other");
	if (opts->segments && (!opts->curves || opts->kind != SC_FIT_COLLECTIVE))
		return sc_err_set(err, SC_EUSAGE,
				  "--segments is for --kind collective with --curves");
	if (opts->curves && opts->kind != SC_FIT_COLLECTIVE && opts->kind != SC_FIT_GEMM)
		return sc_err_set(err, SC_EUSAGE, "--curves is for --kind gemm or collective");
	if (opts->curves && opts->leave_out && strcmp(opts->leave_out, "device") == 0)
		return sc_err_set(err, SC_EUSAGE,
				  "--curves are of one device, and --leave-out device of several");
	if (opts->kind == SC_FIT_COLLECTIVE && opts->leave_out &&
	    strcmp(opts->leave_out, "device") == 0)
		return sc_err_set(err, SC_EUSAGE,
				  "--leave-out device: links differ by more than datasheets; not "
				  "for --kind collective, which has --leave-out machine");
	if (opts->curves && sc_fit_of_machines(opts))
		return sc_err_set(
			err, SC_EUSAGE,
			"--curves are of one machine, and --leave-out machine of several");
	if (opts->n_keep && !sc_fit_of_machines(opts))
		return sc_err_set(err, SC_EUSAGE,
				  "--keep is for --kind collective --leave-out machine");
	return 0;
}

int sc_fit_run(const struct sc_fit_opts *opts, struct sc_arena *arena, struct sc_fit *out,
	       struct sc_err *err)
{
	/* GSL's default ends the program; every status is checked here. */
	gsl_error_handler_t *handler = gsl_set_error_handler_off();
	struct sc_fit_work *w = sc_arena_calloc(arena, 1, sizeof(*w));
	struct sc_device *device = sc_arena_calloc(arena, 1, sizeof(*device));
	struct sc_fit_table rows = {opts->table, opts, device, arena, err, 0};
	struct sc_fit result = {.n_rows = 0};
	int rc = check_opts(opts, err);

	w->opts = opts;
	w->table = opts->table;
	w->arena = arena;
	w->start = device;
	if (rc == 0)
		rc = sc_device_load(opts->device, arena, device, err);
	if (rc == 0)
		rc = sc_fit_set_read(&rows, &w->set);
	if (rc == 0)
		rc = sc_fit_model_init(w, err);
	if (rc == 0)
		rc = check_units(w, err);
	if (rc == 0)
		rc = deal(w, err);
	if (rc == 0)
		rc = solve(w, &result, err);
	if (rc == 0) {
		describe(w, device, &result);
		*out = result;
	}
	gsl_set_error_handler(handler);
	return rc;
}
