/* A maximum a posteriori estimate. The prior of a number is how far profiles are from each other in
 * it; a run costs ln(1 + (error / 5 %)^2) / 2, Cauchy's loss, so that one strange run has little
 * say. Gauss-Newton steps find the minimum: slopes are secants over half the width of a prior,
 * since a host that nothing waits for may be slower unseen, and later steps, those that fail too,
 * mend them by Broyden's rank-one update. */
#include "study/calibrate/calibrate.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/stats.h"
#include "base/units.h"
#include "study/fit/iteration_rows.h"

#define CAUCHY 0.05
#define GAIN 0.05      /* share of the cost that one more step must bring */
#define DEAD 0.9999    /* share of a prior's width below which a number moves no run */
#define TOLD 0.7       /* share of a prior's width below which runs tell a number */
#define SECANT 0.5     /* of a prior's width */
#define FAR 2.0        /* prior's widths to where a search begins again */
#define WORST 10.0     /* ln of a time that is no number */
#define PRIOR_RUNS 1.0 /* that the start of a band counts as */
#define LEVELLED 0.9   /* of a start's band, what is left when its level is known */
#define MOST_LEVERAGE 0.9
enum {
	N = SC_CALIBRATE_NUMBERS,
	MOST_ROWS = 32, /* that are fitted: evenly taken */
	N_STEPS = 4,
	N_WEIGHTINGS = 8,
};

/* The spread sd is that of ln of the shipped profiles' values around their middle; `floor` is added
 * before the ln, for a latency may be 0. */
static const struct number {
	const char *key;
	double sd, floor;
	const char *runs;
} NUMBERS[N] = {
	{"elementwise_factor", 0.45, 0, "small hidden sizes"},
	{"attention_eff", 0.4, 0, "long sequences before Hopper"},
	{"attention_eff_hopper", 0.4, 0, "long sequences from Hopper on"},
	{"link_eff", 0.4, 0, "tensor parallelism"},
	{"net_eff", 0.5, 0, "several nodes with small batches"},
	{"comm_latency_us", 1.5, 10, "many small collectives"},
	{"host_op_us", 0.7, 0, "short sequences"},
	{"host_layer_us", 1.2, 0, "small micro-batches of many layers"},
	{"host_micro_batch_us", 1.2, 0, "many micro-batches"},
	{"host_step_us", 1.3, 0, "iterations below a second"},
	{"comm_host_us", 0.9, 0, "tensor parallelism of small layers"},
	{"level", 0.15, 0, "any"},
};

struct calibrator {
	struct sc_itrows set;
	struct sc_fit_problem problem; /* the rows that are fitted */
	const struct sc_field *key[N];
	double old[N];
	double x[N]; /* ln over the old, less the prior's */
	double *r, *slopes, *trial,
		*left; /* ln of predicted over measured; slopes by number, then row */
	double cost;
	gsl_matrix_view all_slopes; /* of slopes and left */
	gsl_vector_view all_left;
	gsl_matrix *normal;
	gsl_vector *step;
};

static double number_value(const struct calibrator *c, size_t j, double x)
{
	const double value =
		(c->old[j] + NUMBERS[j].floor) * exp(x * NUMBERS[j].sd) - NUMBERS[j].floor;

	return fmin(fmax(value, c->key[j]->min), c->key[j]->max);
}

/* Errors of the problem's rows at n settings x. */
static void find_errors(const struct calibrator *c, const double *x, size_t n, double *r)
{
	double values[N * N];

	for (size_t i = 0; i < n * N; i++)
		values[i] = number_value(c, i % N, x[i]);
	sc_itrows_times(&c->problem, values, n, r);
	for (size_t i = 0; i < n * c->problem.n; i++) {
		r[i] = log(r[i] / c->problem.rows[i % c->problem.n]->time_us);
		if (!isfinite(r[i]))
			r[i] = WORST;
	}
}

static double cost_of(const struct calibrator *c, const double *x, const double *r)
{
	double cost = 0;

	for (size_t i = 0; i < c->problem.n; i++)
		cost += log1p(r[i] * r[i] / (CAUCHY * CAUCHY)) / 2;
	for (size_t j = 0; j < N; j++)
		cost += x[j] * x[j] / 2;
	return cost;
}

/* Takes secants from where c->r is known: upwards, or downwards where a bound is above. */
static void find_slopes(struct calibrator *c)
{
	const size_t n = c->problem.n;
	double x[N * N], h[N];

	for (size_t j = 0; j < N; j++) {
		h[j] = number_value(c, j, c->x[j] + SECANT) > number_value(c, j, c->x[j]) ? SECANT
											  : -SECANT;
		memcpy(x + j * N, c->x, sizeof(c->x));
		x[j * N + j] += h[j];
	}
	find_errors(c, x, N, c->slopes);
	for (size_t i = 0; i < N * n; i++)
		c->slopes[i] = (c->slopes[i] - c->r[i % n]) / h[i / n];
}

/* After a step from c->x to x, where the errors are r, corrects the slopes by what they missed. */
static void mend_slopes(struct calibrator *c, const double *x, const double *r)
{
	double length;

	for (size_t j = 0; j < N; j++)
		gsl_vector_set(c->step, j, x[j] - c->x[j]);
	for (size_t i = 0; i < c->problem.n; i++)
		c->left[i] = r[i] - c->r[i];
	gsl_blas_ddot(c->step, c->step, &length);
	gsl_blas_dgemv(CblasTrans, -1, &c->all_slopes.matrix, c->step, 1, &c->all_left.vector);
	if (length > 0)
		gsl_blas_dger(1 / length, c->step, &c->all_left.vector, &c->all_slopes.matrix);
}

/* Puts Cholesky's factor of the curvature at x, where the errors are r, into c->normal, and the
 * downward slope into c->step. */
static void factor(struct calibrator *c, const double *x, const double *r)
{
	const size_t n = c->problem.n;

	gsl_matrix_set_identity(c->normal);
	for (size_t j = 0; j < N; j++)
		gsl_vector_set(c->step, j, -x[j]);
	for (size_t i = 0; i < n; i++) {
		gsl_vector_view slopes = gsl_matrix_column(&c->all_slopes.matrix, i);
		const double weight = 1 / (CAUCHY * CAUCHY + r[i] * r[i]);

		gsl_blas_daxpy(-weight * r[i], &slopes.vector, c->step);
		gsl_blas_dger(weight, &slopes.vector, &slopes.vector, c->normal);
	}
	gsl_linalg_cholesky_decomp1(c->normal);
}

/* Moves x, where the errors are r, to where the cost would be least if slopes were the same
 * everywhere; returns that cost. */
static double solve_linear(struct calibrator *c, const double *r, double *x)
{
	memcpy(c->left, r, c->problem.n * sizeof(*r));
	for (int w = 0; w < N_WEIGHTINGS; w++) {
		factor(c, x, c->left);
		gsl_linalg_cholesky_svx(c->normal, c->step);
		for (size_t j = 0; j < N; j++)
			x[j] += gsl_vector_get(c->step, j);
		gsl_blas_dgemv(CblasTrans, 1, &c->all_slopes.matrix, c->step, 1,
			       &c->all_left.vector);
	}
	return cost_of(c, x, c->left);
}

/* Descends to the nearest minimum by one set of slopes. */
static void descend(struct calibrator *c)
{
	double x[N], gain = INFINITY;

	find_errors(c, c->x, 1, c->r);
	c->cost = cost_of(c, c->x, c->r);
	find_slopes(c);
	for (int s = 0; s < N_STEPS && fabs(gain) > GAIN; s++) {
		double cost;

		memcpy(x, c->x, sizeof(x));
		solve_linear(c, c->r, x);
		find_errors(c, x, 1, c->trial);
		cost = cost_of(c, x, c->trial);
		mend_slopes(c, x, c->trial);
		gain = c->cost - cost;
		if (!(gain > 0))
			continue;
		memcpy(c->x, x, sizeof(x));
		memcpy(c->r, c->trial, c->problem.n * sizeof(*c->r));
		c->cost = cost;
	}
}

static void take_arrays(struct calibrator *c)
{
	c->r = sc_arena_calloc(c->set.arena, c->problem.n * (2 * N + 2), sizeof(*c->r));
	c->left = c->r + c->problem.n;
	c->slopes = c->left + c->problem.n;
	c->trial = c->slopes + c->problem.n * N;
	c->all_slopes = gsl_matrix_view_array(c->slopes, N, c->problem.n);
	c->all_left = gsl_vector_view_array(c->left, c->problem.n);
}

/* A host's time that nothing waits for has no slope: the search begins once more where a layer's is
 * ten times as long, and goes on from the better end. */
static void look_far(struct calibrator *c)
{
	const struct calibrator near = *c;
	size_t j = 0;

	while (strcmp(NUMBERS[j].key, "host_layer_us") != 0)
		j++;
	take_arrays(c);
	memset(c->x, 0, sizeof(c->x));
	c->x[j] = FAR;
	descend(c);
	if (!(c->cost < near.cost))
		*c = near;
	descend(c);
}

double sc_calibration_band_ln(double start_ln, double rms_ln, size_t k)
{
	const double start = LEVELLED * start_ln / SC_Z_CENTRAL_80;
	const double n = (double)k;

	return SC_Z_CENTRAL_80 *
	       sqrt((PRIOR_RUNS * start * start + n * rms_ln * rms_ln) / (PRIOR_RUNS + n));
}

/* Finds each row's error without itself, from its leverage on the fit (Allen 1974, PRESS). */
static void hold_out(struct calibrator *c, struct sc_fit *fit)
{
	const size_t n = c->problem.n;

	for (size_t i = 0; i < n; i++) {
		struct sc_fit_point *point = &fit->points[c->problem.rows[i] - c->set.rows];
		gsl_vector_view slopes = gsl_matrix_column(&c->all_slopes.matrix, i);
		double leverage;

		gsl_vector_memcpy(c->step, &slopes.vector);
		gsl_linalg_cholesky_svx(c->normal, c->step);
		gsl_blas_ddot(&slopes.vector, c->step, &leverage);
		leverage /= CAUCHY * CAUCHY + c->r[i] * c->r[i];
		point->held_out_us =
			point->measured_us * exp(c->r[i] / (1 - fmin(leverage, MOST_LEVERAGE)));
	}
}

static void take_numbers(struct calibrator *c, struct sc_calibration *out)
{
	struct sc_fit_params *coefs = out->fit.coefs;

	gsl_linalg_cholesky_invert(c->normal);
	for (size_t j = 0; j < N; j++) {
		const double sd = sqrt(gsl_matrix_get(c->normal, j, j)); /* 1: as before */
		const double value = number_value(c, j, c->x[j]);

		if (sd > DEAD)
			continue;
		out->runs[coefs->n] = NUMBERS[j].runs;
		coefs->at[coefs->n++] = (struct sc_fit_param){
			.block = sc_arena_printf(c->set.arena, "software:%s", out->software),
			.name = NUMBERS[j].key,
			.value = value,
			.start = c->old[j],
			.old = c->old[j],
			.lower = c->key[j]->min,
			.upper = c->key[j]->max,
			.standard_error = (value + NUMBERS[j].floor) * sd * NUMBERS[j].sd,
			.left_out_lowest = (double)NAN,
			.left_out_highest = (double)NAN,
			.status = sd < TOLD ? SC_FIT_FITTED : SC_FIT_LEANT};
	}
}

/* The band of other runs of the stack: they will be off as those of the table are without
 * themselves, if these are enough. */
static void find_band(const struct calibrator *c, struct sc_calibration *out)
{
	const size_t n = out->fit.n_rows;
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		const struct sc_fit_point *p = &out->fit.points[i];
		const double us = isnan(p->held_out_us) ? p->in_sample_us : p->held_out_us;

		sum += pow(log(us / p->measured_us), 2);
	}
	out->rms_ln = sqrt(sum / (double)n);
	out->start_ln = log(sc_band_factor(c->set.requests[0].band, SC_CONFIDENCE));
	out->band_ln = sc_calibration_band_ln(out->start_ln, out->rms_ln, n);
}

/* ---- the rows and their profile ---- */

static void bind_keys(struct calibrator *c)
{
	const struct sc_software *software = &c->set.requests[0].software;

	for (size_t j = 0; j < N; j++) {
		const struct sc_field *key = sc_field_at(sc_software_fields, NUMBERS[j].key);

		c->key[j] = key;
		c->set.places[j] = (struct sc_itplace){false, software->id, key->offset};
		memcpy(&c->old[j], (const char *)software + key->offset, sizeof(c->old[j]));
	}
	c->set.n_places = N;
}

/* A stack has one profile. Where nobody names one, configs may get several by what they say: then
 * all get that of the first row. */
static int take_one_profile(struct sc_itrows *set)
{
	const struct sc_software *first = &set->requests[set->rows[0].request].software;

	for (size_t i = 0; i < set->n_requests; i++) {
		struct sc_request *req = &set->requests[i];
		const bool waits = req->software.host_waits; /* by training.launch_blocking */

		if (strcmp(req->software.id, first->id) == 0)
			continue;
		if (sc_config_origin(&req->config, "training.software"))
			return sc_err_set(set->err, SC_EUSAGE,
					  "a calibration makes one software profile, and the rows "
					  "have %.64s and %.64s; choose rows with --where",
					  first->id, req->software.id);
		req->software = *first;
		req->software.host_waits |= waits;
	}
	return 0;
}

static void calibrate(struct calibrator *c, struct sc_calibration *out)
{
	struct sc_arena *arena = c->set.arena;
	struct sc_fit *fit = &out->fit;
	const size_t n_all = c->set.n_rows;
	const struct sc_fit_row **rows =
		sc_arena_calloc(arena, n_all, sizeof(const struct sc_fit_row *));
	const size_t n = sc_fit_pick(c->set.rows, n_all, SC_FIT_ALL, MOST_ROWS, rows);
	double *r = sc_arena_calloc(arena, n_all, sizeof(*r));

	c->problem = (struct sc_fit_problem){.model = &c->set, .rows = rows, .n = n};
	take_arrays(c);
	c->normal = gsl_matrix_alloc(N, N);
	c->step = gsl_vector_alloc(N);
	bind_keys(c);
	descend(c);
	look_far(c);
	out->software = c->set.requests[0].software.id;
	*fit = (struct sc_fit){.kind = SC_FIT_ITERATION,
			       .table = sc_file_name(c->set.opts->table->file),
			       .n_rows = n_all,
			       .n_used = n,
			       .n_shapes = c->set.n_requests,
			       .n_folds = n,
			       .condition = (double)NAN,
			       .repeated_pct = (double)NAN,
			       .coefs = sc_arena_calloc(arena, 1, sizeof(*fit->coefs)),
			       .points = sc_arena_calloc(arena, n_all, sizeof(*fit->points))};
	for (size_t i = 0; i < n_all; i++)
		fit->points[i] = (struct sc_fit_point){
			.measured_us = c->set.rows[i].time_us,
			.before_us = c->set.cases[i]->outcome.iteration_ms * SC_US_PER_MS,
			.held_out_us = (double)NAN,
			.formula_us = (double)NAN};
	factor(c, c->x, c->r);
	if (n_all >= SC_CALIBRATE_CROSS)
		hold_out(c, fit);
	take_numbers(c, out);
	c->problem.n = sc_fit_pick(c->set.rows, n_all, SC_FIT_ALL, n_all, rows);
	find_errors(c, c->x, 1, r);
	for (size_t i = 0; i < n_all; i++) {
		struct sc_fit_point *point = &fit->points[i];

		point->in_sample_us = point->measured_us * exp(r[i]);
		if (n_all >= SC_CALIBRATE_CROSS && isnan(point->held_out_us))
			point->held_out_us = point->in_sample_us; /* it was not fitted */
	}
	sc_fit_score(NULL, 0, arena, fit);
	find_band(c, out);
	gsl_matrix_free(c->normal);
	gsl_vector_free(c->step);
}

int sc_calibrate(const struct sc_itfit_opts *opts, struct sc_catalog *catalog,
		 struct sc_arena *arena, struct sc_calibration *out, struct sc_err *err)
{
	gsl_error_handler_t *handler = gsl_set_error_handler_off();
	struct calibrator *c = sc_arena_calloc(arena, 1, sizeof(*c));
	int rc;

	c->set = (struct sc_itrows){.opts = opts, .no_unlike = true, .arena = arena, .err = err};
	rc = sc_itrows_open(&c->set, catalog);
	if (rc == 0)
		rc = take_one_profile(&c->set);
	if (rc == 0) {
		*out = (struct sc_calibration){.validation = &c->set.validation};
		calibrate(c, out);
	}
	sc_itrows_close(&c->set);
	gsl_set_error_handler(handler);
	return rc;
}
