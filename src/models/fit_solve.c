/* The solver: GSL's trust-region least squares on ln(predicted / measured), with Tukey's bisquare
 * weights found by iteration (Holland and Welsch 1977) so that outliers lose their say. Each parameter
 * is moved on a logistic scale between its bounds. Parameters that the rows do not determine are put
 * back to their starts one by one, by the singular values of the Jacobian and the standard errors. */
#include <assert.h>
#include <gsl/gsl_blas.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "models/fit_priv.h"

#define TUKEY_C 4.685       /* 95 % efficiency if the errors are normal */
#define MAD_TO_SIGMA 1.4826 /* of a normal */
#define SIGMA_FLOOR 1e-6    /* exact data */
#define RESIDUAL_CAP 50.0   /* ln of a time that is no number */
#define SCALE_CAP 30.0      /* of the logistic scale */
#define X_TOLERANCE 1e-5
#define WEIGHT_TOLERANCE 1e-4
#define MAX_CONDITION 1e4
#define MAX_RELATIVE_ERROR 1.0 /* of a coefficient: unknown within a factor e */
#define MINOR_FACTOR 2.0
#define BOUND_LOG 5e-3  /* this close to a bound, of the range in logs */
#define DRIFT_FRAC 5e-3 /* of the mean error */
#define JACOBIAN_STEP 1e-4
enum {
	N_STARTS = 6,
	SEARCH_ROWS = 1500, /* of the starts; the best goes on with all */
	SEED = 1,
	SEARCH_ROUNDS = 3,
	MAX_ROUNDS = 12,     /* of weights */
	MAX_ITERATIONS = 12, /* within one round */
};

/* What GSL's callback needs: the free parameters of a problem. */
struct job {
	const struct sc_fit_problem *problem;
	struct sc_fit_params *params;
	size_t free[SC_FIT_MAX_PARAMS];
	size_t n_free;
};

static double to_scale(const struct sc_fit_param *p)
{
	return log((p->value - p->lower) / (p->upper - p->value));
}

static double from_scale(const struct sc_fit_param *p, double u)
{
	u = fmax(-SCALE_CAP, fmin(SCALE_CAP, u));
	return p->lower + (p->upper - p->lower) / (1 + exp(-u));
}

static double residual(const struct sc_fit_model *model, const struct sc_fit_row *row)
{
	double r = log(sc_fit_predict_us(model, row) / row->time_us);

	return isfinite(r) ? fmax(-RESIDUAL_CAP, fmin(RESIDUAL_CAP, r)) : RESIDUAL_CAP;
}

static void residuals(const struct sc_fit_problem *problem, const struct sc_fit_params *params,
		      double *out)
{
	sc_fit_params_apply(params, problem->model);
	for (size_t i = 0; i < problem->n; i++)
		out[i] = residual(problem->model, problem->rows[i]);
}

static void job_init(struct job *job, const struct sc_fit_problem *problem,
		     struct sc_fit_params *params)
{
	*job = (struct job){.problem = problem, .params = params};
	for (size_t i = 0; i < params->n; i++)
		if (params->at[i].status == SC_FIT_FITTED)
			job->free[job->n_free++] = i;
}

static void set_from_scale(const struct job *job, const gsl_vector *u)
{
	for (size_t j = 0; j < job->n_free; j++) {
		struct sc_fit_param *p = &job->params->at[job->free[j]];

		p->value = from_scale(p, gsl_vector_get(u, j));
	}
}

static int on_residuals(const gsl_vector *u, void *ctx, gsl_vector *f)
{
	const struct job *job = ctx;

	set_from_scale(job, u);
	sc_fit_params_apply(job->params, job->problem->model);
	for (size_t i = 0; i < job->problem->n; i++) /* f may be a column of the Jacobian */
		gsl_vector_set(f, i, residual(job->problem->model, job->problem->rows[i]));
	return GSL_SUCCESS;
}

/* ---- weights ---- */

static double robust_sigma(const double *r, size_t n, double *scratch)
{
	for (size_t i = 0; i < n; i++)
		scratch[i] = fabs(r[i]);
	sc_sort_doubles(scratch, n);
	return fmax(MAD_TO_SIGMA * sc_percentile_sorted(scratch, n, 50), SIGMA_FLOOR);
}

static void bisquare(const double *r, size_t n, double *scratch, gsl_vector *weights)
{
	double limit = TUKEY_C * robust_sigma(r, n, scratch);

	for (size_t i = 0; i < n; i++) {
		double x = r[i] / limit, w = 1 - x * x;

		gsl_vector_set(weights, i, fabs(x) < 1 ? w * w : 0);
	}
}

/* Below n_free rows with weight nothing is determined: then all weigh alike. */
static void keep_enough(gsl_vector *weights, size_t n_free)
{
	size_t n = 0;

	for (size_t i = 0; i < weights->size; i++)
		n += gsl_vector_get(weights, i) > 0;
	if (n < 2 * n_free + 1)
		gsl_vector_set_all(weights, 1);
}

/* ---- one fit ---- */

struct workspace {
	gsl_multifit_nlinear_workspace *nlinear;
	gsl_vector *u, *weights;
	double *r, *scratch;
};

static void workspace_release(struct workspace *w)
{
	gsl_multifit_nlinear_free(w->nlinear);
	gsl_vector_free(w->u);
	gsl_vector_free(w->weights);
	free(w->r);
	free(w->scratch);
}

static int workspace_init(struct workspace *w, const struct job *job, struct sc_err *err)
{
	gsl_multifit_nlinear_parameters how = gsl_multifit_nlinear_default_parameters();
	size_t n = job->problem->n;

	*w = (struct workspace){.u = gsl_vector_alloc(job->n_free),
				.weights = gsl_vector_alloc(n),
				.r = sc_xrealloc(NULL, n, sizeof(double)),
				.scratch = sc_xrealloc(NULL, n, sizeof(double))};
	how.solver = gsl_multifit_nlinear_solver_cholesky;
	w->nlinear = gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &how, n, job->n_free);
	if (w->nlinear && w->u && w->weights)
		return 0;
	return sc_err_set(err, SC_ELIMIT, "the fit of %zu rows and %zu coefficients has no memory",
			  n, job->n_free);
}

static int run_round(struct job *job, struct workspace *w, struct sc_err *err)
{
	gsl_multifit_nlinear_fdf fdf = {
		.f = on_residuals, .n = job->problem->n, .p = job->n_free, .params = job};
	int info, status = gsl_multifit_nlinear_winit(w->u, w->weights, &fdf, w->nlinear);

	if (status == GSL_SUCCESS)
		status = gsl_multifit_nlinear_driver(MAX_ITERATIONS, X_TOLERANCE, 0, 0, NULL, NULL,
						     &info, w->nlinear);
	/* "No progress" at a minimum of a piecewise formula is an end like any other. */
	if (status != GSL_SUCCESS && status != GSL_EMAXITER && status != GSL_ENOPROG)
		return sc_err_set(err, SC_EVALUE, "the fit failed: %s", gsl_strerror(status));
	return 0;
}

static void take_position(struct job *job, struct workspace *w, double *moved)
{
	const gsl_vector *u = gsl_multifit_nlinear_position(w->nlinear);

	*moved = 0;
	for (size_t j = 0; j < job->n_free; j++) {
		double x = fmax(-SCALE_CAP, fmin(SCALE_CAP, gsl_vector_get(u, j)));

		*moved = fmax(*moved, fabs(x - gsl_vector_get(w->u, j)));
		gsl_vector_set(w->u, j, x);
	}
	set_from_scale(job, w->u);
}

/* From the parameters' current values. `far`: these may be far off, so that at first all rows weigh
 * alike. */
static int fit_once(struct job *job, bool far, struct sc_err *err)
{
	struct workspace w;
	int max_rounds = far ? SEARCH_ROUNDS : MAX_ROUNDS, rc;
	double moved = INFINITY;

	if (job->n_free == 0)
		return 0;
	if (job->problem->n <= job->n_free)
		return sc_err_set(err, SC_EVALUE,
				  "a fold leaves %zu rows for %zu coefficients; the rows need more "
				  "different sizes",
				  job->problem->n, job->n_free);
	rc = workspace_init(&w, job, err);
	for (size_t j = 0; rc == 0 && j < job->n_free; j++)
		gsl_vector_set(w.u, j, to_scale(&job->params->at[job->free[j]]));
	for (int i = 0; rc == 0 && i < max_rounds && moved > WEIGHT_TOLERANCE; i++) {
		residuals(job->problem, job->params, w.r);
		if (i == 0 && far)
			gsl_vector_set_all(w.weights, 1);
		else
			bisquare(w.r, job->problem->n, w.scratch, w.weights);
		keep_enough(w.weights, job->n_free);
		rc = run_round(job, &w, err);
		if (rc == 0)
			take_position(job, &w, &moved);
	}
	workspace_release(&w);
	return rc;
}

/* ---- starts ---- */

static double mean_abs(const struct sc_fit_problem *problem, const struct sc_fit_params *params)
{
	double sum = 0;

	sc_fit_params_apply(params, problem->model);
	for (size_t i = 0; i < problem->n; i++)
		sum += fabs(residual(problem->model, problem->rows[i]));
	return sum / (double)problem->n;
}

static void scatter(struct sc_fit_params *params, struct sc_rng *rng)
{
	for (size_t i = 0; i < params->n; i++) {
		struct sc_fit_param *p = &params->at[i];

		if (p->status == SC_FIT_FITTED)
			p->value = from_scale(p, to_scale(p) + sc_rng_normal(rng));
	}
}

/* The best of several starts on a sample of the rows: the profile's values, and others around. */
static int fit_from_starts(const struct sc_fit_problem *problem, struct sc_fit_params *params,
			   struct sc_err *err)
{
	size_t n = problem->n < SEARCH_ROWS ? problem->n : SEARCH_ROWS;
	const struct sc_fit_row **rows = sc_xrealloc(NULL, n, sizeof(const struct sc_fit_row *));
	struct sc_fit_problem sample = {problem->model, rows, n};
	struct sc_fit_params first = *params;
	double best = INFINITY;
	struct sc_rng rng;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		rows[i] = problem->rows[i * problem->n / n];
	sc_rng_init(&rng, SEED);
	for (int i = 0; i < N_STARTS && rc == 0; i++) {
		struct sc_fit_params here = first;
		struct job job;
		double error;

		if (i > 0)
			scatter(&here, &rng);
		job_init(&job, &sample, &here);
		rc = fit_once(&job, true, err);
		error = mean_abs(&sample, &here);
		if (rc == 0 && error < best) {
			best = error;
			*params = here;
		}
	}
	free(rows);
	return rc;
}

/* ---- what the rows determine ---- */

/* d ln(time) / d ln(coefficient), by central differences, weighted. */
static void jacobian(struct job *job, const gsl_vector *weights, double *scratch, gsl_matrix *out)
{
	size_t n = job->problem->n;

	for (size_t j = 0; j < job->n_free; j++) {
		struct sc_fit_param *p = &job->params->at[job->free[j]];
		double value = p->value, high, low;

		high = p->value = fmin(value * (1 + JACOBIAN_STEP), p->upper);
		residuals(job->problem, job->params, scratch);
		for (size_t i = 0; i < n; i++)
			gsl_matrix_set(out, i, j, scratch[i]);
		low = p->value = fmax(value * (1 - JACOBIAN_STEP), p->lower);
		residuals(job->problem, job->params, scratch);
		for (size_t i = 0; i < n; i++)
			gsl_matrix_set(out, i, j,
				       (gsl_matrix_get(out, i, j) - scratch[i]) / log(high / low) *
					       sqrt(gsl_vector_get(weights, i)));
		p->value = value;
	}
	sc_fit_params_apply(job->params, job->problem->model);
}

struct judgement {
	double condition;
	size_t weakest;                  /* of the free ones */
	double error[SC_FIT_MAX_PARAMS]; /* standard, of ln(value) */
	bool undetermined;
};

/* Scales the columns to length 1, so that singular values say how alike they are. A column of zeros is
 * the weakest at once. */
static bool scale_columns(gsl_matrix *j, double *norm, struct judgement *out)
{
	for (size_t i = 0; i < j->size2; i++) {
		gsl_vector_view column = gsl_matrix_column(j, i);

		norm[i] = gsl_blas_dnrm2(&column.vector);
		if (!(norm[i] > 1e-9 * sqrt((double)j->size1))) {
			*out = (struct judgement){
				.condition = INFINITY, .weakest = i, .undetermined = true};
			return false;
		}
		gsl_vector_scale(&column.vector, 1 / norm[i]);
	}
	return true;
}

/* Standard errors from the singular values: cov = sigma^2 V S^-2 V'. */
static void judge_svd(const struct job *job, const gsl_matrix *v, const gsl_vector *s, double sigma,
		      const double *norm, struct judgement *out)
{
	size_t p = s->size;
	double smallest = gsl_vector_get(s, p - 1), worst = -1;

	out->condition = smallest > 0 ? gsl_vector_get(s, 0) / smallest : HUGE_VAL;
	out->undetermined = !(out->condition < MAX_CONDITION);
	for (size_t i = 0; i < p; i++) {
		double sum = 0, part;

		for (size_t k = 0; k < p; k++) {
			double x = gsl_matrix_get(v, i, k) / gsl_vector_get(s, k);

			sum += x * x;
		}
		out->error[i] = sigma * sqrt(sum) / norm[i];
		part = out->undetermined ? fabs(gsl_matrix_get(v, i, p - 1)) : out->error[i];
		if (!out->undetermined && part <= MAX_RELATIVE_ERROR)
			continue;
		if (job->params->at[job->free[i]].minor)
			part *= MINOR_FACTOR;
		if (part > worst) {
			worst = part;
			out->weakest = i;
		}
	}
	if (worst >= 0)
		out->undetermined = true;
}

static void judge(struct job *job, struct judgement *out)
{
	size_t n = job->problem->n, p = job->n_free;
	gsl_matrix *j = gsl_matrix_alloc(n, p), *v = gsl_matrix_alloc(p, p);
	gsl_vector *s = gsl_vector_alloc(p), *work = gsl_vector_alloc(p),
		   *weights = gsl_vector_alloc(n);
	double *r = sc_xrealloc(NULL, n, sizeof(*r)), *scratch = sc_xrealloc(NULL, n, sizeof(*r));
	double norm[SC_FIT_MAX_PARAMS] = {0}, sigma;

	*out = (struct judgement){.condition = 1};
	residuals(job->problem, job->params, r);
	sigma = robust_sigma(r, n, scratch);
	bisquare(r, n, scratch, weights);
	keep_enough(weights, p);
	jacobian(job, weights, scratch, j);
	if (scale_columns(j, norm, out)) {
		gsl_linalg_SV_decomp(j, v, s, work);
		judge_svd(job, v, s, sigma, norm, out);
	}
	gsl_matrix_free(j);
	gsl_matrix_free(v);
	gsl_vector_free(s);
	gsl_vector_free(work);
	gsl_vector_free(weights);
	free(r);
	free(scratch);
}

static void put_back(struct sc_fit_param *p)
{
	p->value = p->start;
	p->status = SC_FIT_UNDETERMINED;
}

/* A bound that is no better than the start is drift, not a finding. */
static bool is_drift(const struct sc_fit_problem *problem, struct sc_fit_params *params,
		     struct sc_fit_param *p)
{
	double at_bound = mean_abs(problem, params), value = p->value, at_start;

	p->value = p->start;
	at_start = mean_abs(problem, params);
	p->value = value;
	return at_start < at_bound * (1 + DRIFT_FRAC);
}

/* Those at a bound stay there and are fitted no more. True if there is a new one. */
static bool stop_at_bounds(const struct sc_fit_problem *problem, struct sc_fit_params *params)
{
	bool any = false;

	for (size_t i = 0; i < params->n; i++) {
		struct sc_fit_param *p = &params->at[i];
		double margin = BOUND_LOG * log(p->upper / p->lower);

		if (p->status != SC_FIT_FITTED)
			continue;
		if (log(p->value / p->lower) > margin && log(p->upper / p->value) > margin)
			continue;
		p->value = log(p->value / p->lower) > margin ? p->upper : p->lower;
		p->status = SC_FIT_AT_BOUND;
		if (is_drift(problem, params, p))
			put_back(p);
		any = true;
	}
	return any;
}

/* Before anything is fitted: what no row depends on at all. */
static void drop_unused(const struct sc_fit_problem *problem, struct sc_fit_params *params)
{
	struct judgement verdict;
	struct job job;

	for (;;) {
		job_init(&job, problem, params);
		if (job.n_free == 0)
			return;
		judge(&job, &verdict);
		if (!isinf(verdict.condition))
			return;
		put_back(&params->at[job.free[verdict.weakest]]);
	}
}

static int check_any(const struct sc_fit_params *params, struct sc_err *err)
{
	for (size_t i = 0; i < params->n; i++)
		if (params->at[i].status == SC_FIT_AT_BOUND)
			return 0;
	return sc_err_set(err, SC_EVALUE,
			  "the rows determine no coefficient; they need a wider range of sizes");
}

int sc_fit_search(const struct sc_fit_problem *problem, struct sc_fit_params *params,
		  double *condition, struct sc_err *err)
{
	struct judgement verdict = {.condition = 1};
	struct job job = {.n_free = 0};
	int rc;

	drop_unused(problem, params);
	rc = fit_from_starts(problem, params, err);
	while (rc == 0) {
		job_init(&job, problem, params);
		if (job.n_free == 0)
			break;
		rc = fit_once(&job, false, err);
		if (rc || stop_at_bounds(problem, params))
			continue;
		judge(&job, &verdict);
		if (!verdict.undetermined)
			break;
		put_back(&params->at[job.free[verdict.weakest]]);
	}
	for (size_t j = 0; rc == 0 && j < job.n_free; j++) {
		struct sc_fit_param *p = &params->at[job.free[j]];

		p->standard_error = p->value * verdict.error[j];
	}
	if (rc == 0 && job.n_free == 0)
		rc = check_any(params, err);
	*condition = job.n_free ? verdict.condition : 1;
	sc_fit_params_apply(params, problem->model);
	return rc;
}

int sc_fit_refine(const struct sc_fit_problem *problem, struct sc_fit_params *params,
		  struct sc_err *err)
{
	struct job job;
	int rc;

	job_init(&job, problem, params);
	rc = fit_once(&job, false, err);
	sc_fit_params_apply(params, problem->model);
	return rc;
}
