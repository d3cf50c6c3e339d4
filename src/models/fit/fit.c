/* A fit from table to result: rows, checks of plausibility, folds, errors by region. The K-fold
 * error is of rows that the fit did not see; each fold starts from the whole fit's coefficients. */
#include "models/fit/fit.h"

#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/fnv.h"
#include "base/search.h"
#include "models/fit/fit_priv.h"

/* Fits what rows show by size, beside the coefficients. A sweep of a collective: the median time of
 * each size, made to rise with size by pooling neighbours that do not (pool adjacent violators,
 * with medians: Robertson, Wright and Dykstra, "Order Restricted Statistical Inference", 1988). A
 * product's weight matrix: the measured time over the formula's, by rows of the input. */

#define FACTOR_MAX 100.0
enum { MIN_SIZES = 3 }; /* of a curve */

/* A point of a curve: of a collective, ranks and nodes; or of a type, n and k. */
struct point {
	int kind;
	double a, b;
	double x, y; /* bytes and us; m and ln(factor) */
};

/* As by_curve, but for where on their curve. */
static int compare_curves(const struct point *p, const struct point *q)
{
	return 4 * SC_ORDER(p->kind, q->kind) + 2 * SC_ORDER(p->a, q->a) + SC_ORDER(p->b, q->b);
}

SC_COMPARE(by_curve, struct point,
	   4 * compare_curves(a, b) + 2 * SC_ORDER(a->x, b->x) + SC_ORDER(a->y, b->y));

/* False if a product's row says nothing of a kernel: a gradient, a batch, a time all launch. */
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
	us = sc_fit_predict_us(model, row, NULL);
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

static void fit_curves_set(struct sc_fit_model *model, struct sc_structs curves)
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

/* The rows as curves; build them while the model has none. */
static struct sc_structs fit_curves_build(const struct sc_fit_work *work,
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
	SC_SORT(points, n, by_curve);
	for (size_t i = 0, end; i < n && n_curves < max; i = end) {
		struct point *p = &points[i];
		size_t n_sizes;

		for (end = i; end < n && compare_curves(p, &points[end]) == 0;)
			end++;
		n_sizes = merge_sizes(p, end - i);
		if (n_sizes < MIN_SIZES)
			continue;
		if (of_gemm) {
			struct sc_gemm_curve *c = &products[n_curves++];

			*c = (struct sc_gemm_curve){.dtype = p->kind, .n = p->a, .k = p->b};
			put_points(p, n_sizes, true, arena, &c->m, &c->factor);
		} else {
			struct sc_fabric_curve *c = &sweeps[n_curves++];

			*c = (struct sc_fabric_curve){.collective = sc_collective_names[p->kind],
						      .ranks = (int64_t)p->a,
						      .nodes = (int64_t)p->b};
			make_rising(p, n_sizes);
			put_points(p, n_sizes, false, arena, &c->bytes, &c->time_us);
		}
	}
	free(points);
	return (struct sc_structs){of_gemm ? (void *)products : sweeps, n_curves};
}

#define SLOW_RATIO 100.0 /* against the profile as it is: units, not a slow machine */
/* The pull of machines: each is off in its own way, and what one alone shows stays near what others
 * do. A factor 2 must save 0.2 % of the mean error. */
#define MACHINES_PULL 0.004
#define MACHINES_STEP 0.02 /* which algorithm is chosen jumps */
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
		double us = to_model ? sc_fit_predict_us(&w->model, row, NULL) : row->bound_us;

		ratio[i] = us > 0 ? row->time_us / us : HUGE_VAL;
	}
	median = sc_median_sorting(ratio, w->set.n);
	sc_arena_rewind(w->arena, mark);
	return median;
}

/* Wrong units are the usual fault of a table made by hand. */
static int check_units(const struct sc_fit_work *w, struct sc_err *err)
{
	double to_bound = median_ratio(w, false), to_model = median_ratio(w, true);

	if (to_bound < 1)
		return sc_err_at(err, SC_EVALUE, w->table.csv.file, 0, 0,
				 "half of the times are below what the peaks of %s allow (median "
				 "time / bound = %.3g): is time_us in ms or s, or is this another "
				 "device?",
				 w->opts->device, to_bound);
	if (to_model < 1 / SLOW_RATIO || to_model > SLOW_RATIO)
		return sc_err_at(
			err, SC_EVALUE, w->table.csv.file, 0, 0,
			"times are %.3g times %s than the model expects (median): is time_us in "
			"%s, or is this another device?",
			fmax(to_model, 1 / to_model), to_model > 1 ? "longer" : "shorter",
			to_model > 1 ? "ns" : "ms or s");
	return 0;
}

static bool is_grouped(const struct sc_fit_opts *opts)
{
	return opts->leave_out || opts->n_hold_out > 0;
}

static int check_enough(const struct sc_fit_work *w, size_t n_fitted, struct sc_err *err)
{
	size_t want = MIN_ROWS_PER_COEF * n_fitted;

	want = want > SC_FIT_MIN_ROWS ? want : SC_FIT_MIN_ROWS;
	if (w->set.n < want)
		return sc_err_at(err, SC_EVALUE, w->table.csv.file, 0, 0,
				 "too few rows: n=%zu; at least %zu are needed%s", w->set.n, want,
				 w->set.n_bound
					 ? sc_arena_printf(w->arena,
							   "; %zu of quality bound were left out, "
							   "--where quality=bound takes them",
							   w->set.n_bound)
					 : "");
	if (w->set.n_shapes == 1)
		return sc_err_at(err, SC_EVALUE, w->table.csv.file, 0, 0,
				 "all %zu rows have one shape; a fit needs several sizes",
				 w->set.n);
	if (!is_grouped(w->opts) && w->set.n_shapes < w->opts->n_folds)
		return sc_err_at(err, SC_EVALUE, w->table.csv.file, 0, 0,
				 "%zu different shapes do not make %zu folds; give fewer with "
				 "--folds, or more sizes",
				 w->set.n_shapes, w->opts->n_folds);
	return 0;
}

/* ---- folds ---- */

static int by_mixed_shape(const void *a, const void *b)
{
	const struct sc_fit_row *const *x = a, *const *y = b;
	uint64_t l = sc_fnv(SC_FNV_START, &(*x)->shape, sizeof((*x)->shape));
	uint64_t r = sc_fnv(SC_FNV_START, &(*y)->shape, sizeof((*y)->shape));

	return 2 * SC_ORDER(l, r) + SC_ORDER(*x, *y);
}

static int deal(struct sc_fit_work *w, struct sc_err *err)
{
	struct sc_fit_set *set = &w->set;
	struct sc_fit_row **order = sc_arena_alloc(w->arena, set->n * sizeof(struct sc_fit_row *));
	size_t n[SC_FIT_MAX_FOLDS + 1] = {0};
	const char *option = w->opts->leave_out ? "--leave-out" : "--hold-out";
	int rc;

	/* shapes in an order of chance, the same in every run, dealt to the folds in turn */
	for (size_t i = 0; i < set->n; i++)
		order[i] = &set->rows[i];
	SC_SORT(order, set->n, by_mixed_shape);
	for (size_t i = 0; i < set->n; i++) {
		set->n_shapes += i == 0 || order[i]->shape != order[i - 1]->shape;
		order[i]->fold = (unsigned)((set->n_shapes - 1) % w->opts->n_folds);
	}
	w->n_folds = w->opts->n_folds;
	if (!is_grouped(w->opts))
		return 0;
	rc = sc_fit_deal_groups(set->rows, set->n, option, w->opts->leave_out, &w->n_folds,
				w->table.csv.file, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < set->n; i++)
		n[set->rows[i].fold]++;
	if (!w->opts->leave_out && (n[0] == 0 || n[0] == set->n))
		return sc_err_at(err, SC_EVALUE, w->table.csv.file, 0, 0,
				 "--hold-out takes %s rows", n[0] ? "all" : "no");
	/* machines weigh alike, however many rows they have */
	for (size_t i = 0; i < set->n && sc_fit_of_machines(w->opts); i++)
		set->rows[i].weight = (double)set->n / (double)(w->n_folds * n[set->rows[i].fold]);
	return 0;
}

/* Sets the member at `offset` of the points of a fold. */
static void predict_fold(const struct sc_fit_work *w, size_t fold, size_t offset,
			 struct sc_fit_point *points)
{
	for (size_t i = 0; i < w->set.n; i++) {
		double us;

		if (fold != SC_FIT_ALL && w->set.rows[i].fold != fold)
			continue;
		us = sc_fit_predict_us(&w->model, &w->set.rows[i], NULL);
		memcpy((char *)&points[i] + offset, &us, sizeof(us));
	}
}

static void times(const struct sc_fit_problem *problem, const double *values, size_t n, double *us)
{
	struct sc_fit_params at = *problem->params;

	for (size_t s = 0; s < n; s++) {
		for (size_t i = 0; i < at.n; i++)
			at.at[i].value = values[s * at.n + i];
		sc_fit_model_set(problem->model, &at);
		for (size_t i = 0; i < problem->n; i++)
			us[s * problem->n + i] =
				sc_fit_predict_us(problem->model, problem->rows[i], NULL);
	}
}

static struct sc_fit_problem problem_of(struct sc_fit_work *w, const struct sc_fit_row **rows,
					size_t fold, struct sc_fit_params *params)
{
	const bool of_machines = sc_fit_of_machines(w->opts);
	size_t n = sc_fit_pick(w->set.rows, w->set.n, fold, MAX_USED_ROWS, rows);

	return (struct sc_fit_problem){.times = times,
				       .model = &w->model,
				       .rows = rows,
				       .n = n,
				       .params = params,
				       .pull = of_machines ? MACHINES_PULL : 0,
				       .step = of_machines ? MACHINES_STEP : 0};
}

/* The rows outside a fold, and the model that is fitted to them. A fold starts from the whole fit's
 * coefficients. A group's fit starts anew, and knows nothing of the group; nor has it the
 * coefficients of a device that is left out. */
static int fit_fold(struct sc_fit_work *w, size_t fold, const struct sc_fit_row **rows,
		    struct sc_err *err)
{
	struct sc_fit_params params = w->params;
	struct sc_fit_problem problem = problem_of(w, rows, fold, &params);
	const struct sc_device *start = &w->start;
	double condition;
	bool is_in = false;
	int rc;

	if (!is_grouped(w->opts)) {
		rc = sc_fit_search(&problem, NULL, err);
	} else {
		for (size_t i = 0; i < problem.n && !is_in; i++)
			is_in = strcmp(w->set.device[rows[i]->device]->id, start->id) == 0;
		sc_fit_model_start(&w->model, is_in ? start : w->set.device[rows[0]->device]);
		sc_fit_params_list(w, rows, problem.n, &params);
		rc = sc_fit_search(&problem, &condition, err);
	}
	sc_fit_model_set(&w->model, &params);
	for (size_t i = 0; i < params.n && is_grouped(w->opts) && rc == 0; i++) {
		struct sc_fit_param *p = &w->params.at[i];

		p->left_out_lowest = fmin(p->left_out_lowest, params.at[i].value);
		p->left_out_highest = fmax(p->left_out_highest, params.at[i].value);
	}
	return rc;
}

static int solve(struct sc_fit_work *w, struct sc_fit *out, struct sc_err *err)
{
	const struct sc_structs none = {NULL, 0};
	const struct sc_fit_row **rows =
		sc_arena_alloc(w->arena, (w->set.n + 1) * sizeof(const struct sc_fit_row *));
	struct sc_fit_problem problem;
	size_t n_fitted = 0;
	int rc;

	out->n_rows = w->set.n;
	out->points = sc_arena_calloc(w->arena, w->set.n, sizeof(*out->points));
	for (size_t i = 0; i < w->set.n; i++) {
		out->points[i].measured_us = w->set.rows[i].time_us;
		out->points[i].held_out_us = out->points[i].formula_us = NAN;
	}
	predict_fold(w, SC_FIT_ALL, offsetof(struct sc_fit_point, before_us), out->points);
	fit_curves_set(&w->model, none);
	problem = problem_of(w, rows, SC_FIT_ALL, &w->params);
	out->n_used = problem.n;
	sc_fit_params_list(w, rows, problem.n, &w->params);
	rc = sc_fit_check_keep(w, err);
	if (rc == 0)
		rc = check_enough(w, 0, err);
	if (rc == 0)
		rc = sc_fit_search(&problem, &out->condition, err);
	for (size_t i = 0; i < w->params.n; i++)
		n_fitted += w->params.at[i].status <= SC_FIT_AT_BOUND;
	if (rc == 0)
		rc = check_enough(w, n_fitted, err);
	if (rc)
		return rc;
	sc_fit_model_set(&w->model, &w->params);
	/* curves are of all rows, those too that the solver did not see */
	if (w->opts->curves)
		out->curves = fit_curves_build(
			w, rows, sc_fit_pick(w->set.rows, w->set.n, SC_FIT_ALL, w->set.n, rows));
	fit_curves_set(&w->model, out->curves);
	predict_fold(w, SC_FIT_ALL, offsetof(struct sc_fit_point, in_sample_us), out->points);
	for (size_t fold = 0; fold < w->n_folds && rc == 0; fold++) {
		fit_curves_set(&w->model, none);
		rc = fit_fold(w, fold, rows, err);
		if (rc == 0 && w->opts->curves) {
			size_t n = sc_fit_pick(w->set.rows, w->set.n, fold, w->set.n, rows);

			predict_fold(w, fold, offsetof(struct sc_fit_point, formula_us),
				     out->points);
			fit_curves_set(&w->model, fit_curves_build(w, rows, n));
		}
		predict_fold(w, fold, offsetof(struct sc_fit_point, held_out_us), out->points);
	}
	sc_fit_model_start(&w->model, &w->start);
	sc_fit_model_set(&w->model, &w->params);
	fit_curves_set(&w->model, out->curves);
	return rc;
}

/* ---- the result ---- */

static void set_ranges(const struct sc_fit_work *w, struct sc_fit *out)
{
	const struct sc_fit_reader *reader = sc_fit_reader_of(&w->table);
	static const char *const pair_names[] = {"alone_us", "beside_frac", "blocks",
						 "comm_blocks"};
	const size_t n_dims = w->table.is_of_pairs ? 4 : reader->n_dims;

	out->ranges = sc_arena_calloc(w->arena, SC_FIT_MAX_DIMS + 1, sizeof(*out->ranges));
	out->n_ranges = n_dims + 1;
	for (size_t d = 0; d <= n_dims; d++) {
		struct sc_fit_range *range = &out->ranges[d];

		*range = (struct sc_fit_range){d == n_dims            ? "time_us"
					       : w->table.is_of_pairs ? pair_names[d]
								      : reader->cells[d].key,
					       HUGE_VAL, -HUGE_VAL};
		for (size_t i = 0; i < w->set.n; i++) {
			const struct sc_fit_row *row = &w->set.rows[i];
			double x = d < n_dims ? row->dim[d] : row->time_us;

			range->lowest = fmin(range->lowest, x);
			range->highest = fmax(range->highest, x);
		}
	}
}

static void score_fit(const struct sc_fit_work *w, struct sc_fit *out)
{
	static const char *const bys[] = {"op",     "pass",   "nodes", "ranks",
					  "source", "device", "group"};
	enum { OP, PASS, NODES, RANKS, SOURCE, DEVICE, GROUP, N_BY };
	const char *by = w->opts->leave_out;
	struct sc_fit_label labels[N_BY];
	bool is_shown = by != NULL; /* columns that are regions anyhow are not told twice */

	for (size_t i = 0; i < N_BY; i++)
		labels[i] = (struct sc_fit_label){
			bys[i], sc_arena_calloc(w->arena, w->set.n, sizeof(const char *))};
	for (size_t i = 0; by && i < N_BY; i++)
		is_shown &= i == NODES || i == RANKS || i == GROUP || strcmp(by, bys[i]) != 0;
	for (size_t i = 0; i < w->set.n; i++) {
		const struct sc_fit_row *row = &w->set.rows[i];

		labels[OP].of_row[i] = row->op_name;
		labels[PASS].of_row[i] = row->pass;
		labels[SOURCE].of_row[i] = w->set.source[row->source];
		labels[DEVICE].of_row[i] = w->set.device[row->device]->id;
		labels[GROUP].of_row[i] = is_shown ? row->group : NULL;
		if (w->opts->kind != SC_FIT_COLLECTIVE)
			continue;
		labels[NODES].of_row[i] = row->span.n_nodes > 1 ? "several" : "one";
		labels[RANKS].of_row[i] =
			sc_arena_printf(w->arena, "%d on %d", row->span.n_ranks, row->span.n_nodes);
	}
	sc_fit_score(labels, N_BY, w->arena, out);
}

static void describe_fit(struct sc_fit_work *w, struct sc_fit *out)
{
	out->kind = w->opts->kind;
	out->device_id = w->start.id;
	out->table = sc_file_name(w->table.csv.file);
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
	out->sources = w->set.source;
	SC_SORT(out->sources, out->n_sources, sc_compare_texts);
	out->coefs = &w->params;
	set_ranges(w, out);
	score_fit(w, out);
	out->device = w->model.device;
	if (out->kind == SC_FIT_GEMM && out->curves.n > 0)
		out->device.gemm_curves = out->curves;
	out->fabric = w->model.profile;
}

static int check_opts(const struct sc_fit_opts *opts, struct sc_err *err)
{
	const bool of_device = opts->leave_out && strcmp(opts->leave_out, "device") == 0;

	if (opts->leave_out && opts->n_hold_out > 0)
		return sc_err_set(err, SC_EUSAGE, "--leave-out and --hold-out exclude each other");
	if (opts->curves && opts->kind != SC_FIT_COLLECTIVE && opts->kind != SC_FIT_GEMM)
		return sc_err_set(err, SC_EUSAGE, "--curves is for --kind gemm or collective");
	if (opts->curves && of_device)
		return sc_err_set(err, SC_EUSAGE,
				  "--curves are of one device, and --leave-out device of several");
	if (opts->kind == SC_FIT_COLLECTIVE && of_device)
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
	struct sc_fit result = {.n_rows = 0};
	int rc = check_opts(opts, err);

	w->opts = opts;
	w->arena = arena;
	if (rc == 0)
		rc = sc_device_load(opts->device, arena, &w->start, err);
	if (rc == 0)
		rc = sc_fit_table_init(opts, arena, &w->table, err);
	if (rc == 0)
		rc = sc_fit_set_read(&w->table, &w->set);
	if (rc == 0)
		rc = sc_fit_model_init(w, err);
	if (rc == 0)
		rc = check_units(w, err);
	if (rc == 0)
		rc = deal(w, err);
	if (rc == 0)
		rc = solve(w, &result, err);
	if (rc == 0) {
		describe_fit(w, &result);
		*out = result;
	}
	gsl_set_error_handler(handler);
	return rc;
}
