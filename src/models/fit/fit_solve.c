/* The solver: GSL's trust-region least squares on ln(predicted / measured), with weights found by
 * iteration so that outliers lose their say: Tukey's bisquare (Holland and Welsch 1977), or, where
 * coefficients are pulled to their like, 1 / |residual|, which makes the mean absolute error small.
 * Each parameter is moved on a logistic scale between its bounds. Parameters that rows do not
 * determine go back to their starts one by one, by the Jacobian's singular values and errors. */
#include "models/fit/fit_solve_priv.h"

#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define TUKEY_C 4.685       /* 95 % efficiency if the errors are normal */
#define MAD_TO_SIGMA 1.4826 /* of a normal */
#define SIGMA_FLOOR 1e-6    /* exact data */
#define SMALL 1e-3          /* errors below this count alike where they count by their size */
#define SQUARE 0.3          /* what their square counts, then */
#define RESIDUAL_CAP 50.0   /* ln of a time that is no number */
#define SCALE_CAP 30.0      /* of the logistic scale */
#define X_TOLERANCE 1e-5
#define WEIGHT_TOLERANCE 1e-4
#define BOUND_LOG 5e-3  /* this close to a bound, of the range in logs */
#define DRIFT_FRAC 5e-3 /* of the mean error */
#define PULL_STEP 1e-6
#define NEAR 1.001      /* a start on a bound would not move */
#define SCAN_GAIN 1e-5  /* of the mean error, for a search that begins anew */
#define ROUND_GAIN 2e-5 /* of the mean error, for one more round */
enum {
	N_STARTS = 6,
	SEARCH_ROWS = 1500, /* of the starts; the best goes on with all */
	SEED = 1,
	SEARCH_ROUNDS = 3,
	MAX_ROUNDS = 12,           /* of weights */
	MAX_ITERATIONS = 12,       /* within one round */
	MAX_PULLED_ITERATIONS = 1, /* where the weights change most */
	N_PULLED_STARTS = 2,
	MAX_SCANS = 3,
};

double sc_fit_to_scale(const struct sc_fit_param *p, double value)
{
	return log((value - p->lower) / (p->upper - value));
}

static double from_scale(const struct sc_fit_param *p, double u)
{
	u = fmax(-SCALE_CAP, fmin(SCALE_CAP, u));
	return p->lower + (p->upper - p->lower) / (1 + exp(-u));
}

/* Residuals of the rows at n settings of all parameters. */
static void row_residuals(const struct sc_fit_problem *problem, const double *values, size_t n,
			  double *out)
{
	problem->times(problem, values, n, out);
	for (size_t s = 0; s < n; s++)
		for (size_t i = 0; i < problem->n; i++) {
			double *r = &out[s * problem->n + i];

			*r = log(*r / problem->rows[i]->time_us);
			*r = isfinite(*r) ? fmax(-RESIDUAL_CAP, fmin(RESIDUAL_CAP, *r))
					  : RESIDUAL_CAP;
		}
}

static void values_of(const struct sc_fit_params *params, double *out)
{
	for (size_t i = 0; i < params->n; i++)
		out[i] = params->at[i].value;
}

/* "links nvlink4" and "links xgmi" are alike; "ramp" is alone. */
static bool is_like_param(const struct sc_fit_param *a, const struct sc_fit_param *b)
{
	size_t n = strcspn(a->block, " ");

	return a->block[n] && strcmp(a->name, b->name) == 0 &&
	       strncmp(a->block, b->block, n + 1) == 0;
}

/* The middle one of its like, in logs: one, as EFA's latency among networks, does not move it. */
static double centre_of(const struct sc_fit_params *params, const struct sc_fit_param *p)
{
	double like[SC_FIT_MAX_PARAMS];
	size_t n = 0;

	for (size_t i = 0; i < params->n; i++)
		if (params->at[i].status == SC_FIT_FITTED && is_like_param(p, &params->at[i]))
			like[n++] = log(params->at[i].value);
	return n ? sc_median_sorting(like, n) : log(p->start);
}

static void job_init(struct sc_fit_job *job, const struct sc_fit_problem *problem)
{
	job->problem = problem;
	job->n_free = 0;
	job->is_known = false;
	memset(job->centre, 0, sizeof(job->centre));
	for (size_t i = 0; i < problem->params->n; i++)
		if (problem->params->at[i].status == SC_FIT_FITTED)
			job->free[job->n_free++] = i;
	job->n = problem->n + (problem->pull > 0 ? job->n_free : 0);
}

struct sc_fit_param *sc_fit_free_param(const struct sc_fit_job *job, size_t j)
{
	return &job->problem->params->at[job->free[j]];
}

/* n points on the scale, n_free apart, as settings of all parameters. */
static double *settings(const struct sc_fit_job *job, const double *u, size_t n)
{
	size_t k = job->problem->params->n;
	double *out = sc_xrealloc(NULL, n * k, sizeof(*out));

	for (size_t s = 0; s < n; s++) {
		values_of(job->problem->params, out + s * k);
		for (size_t j = 0; j < job->n_free; j++)
			out[s * k + job->free[j]] =
				from_scale(sc_fit_free_param(job, j), u[s * job->n_free + j]);
	}
	return out;
}

static double pull_residual(const struct sc_fit_job *job, size_t j, double u)
{
	return log(from_scale(sc_fit_free_param(job, j), u)) - job->centre[j];
}

/* Makes job->r those at u. */
void sc_fit_know(struct sc_fit_job *job, const gsl_vector *u)
{
	double *values;

	if (job->is_known && memcmp(job->u, u->data, job->n_free * sizeof(double)) == 0)
		return;
	memcpy(job->u, u->data, job->n_free * sizeof(double));
	values = settings(job, job->u, 1);
	row_residuals(job->problem, values, 1, job->r);
	for (size_t j = 0; job->n > job->problem->n && j < job->n_free; j++)
		job->r[job->problem->n + j] = pull_residual(job, j, job->u[j]);
	job->is_known = true;
	job->has_slopes = false;
	free(values);
}

static int on_residuals(const gsl_vector *u, void *ctx, gsl_vector *f)
{
	struct sc_fit_job *job = ctx;

	sc_fit_know(job, u);
	for (size_t i = 0; i < job->n; i++)
		gsl_vector_set(f, i, job->r[i]);
	return GSL_SUCCESS;
}

/* Forward differences, all parameters in one call; kept, since a round begins where one ended. */
void sc_fit_find_slopes(struct sc_fit_job *job)
{
	size_t k = job->n_free, n = job->problem->n;
	double *points = sc_xrealloc(NULL, k * k, sizeof(*points)), *values;
	double step[SC_FIT_MAX_PARAMS] = {0};

	for (size_t j = 0; j < k; j++) {
		memcpy(points + j * k, job->u, k * sizeof(*points));
		step[j] = job->problem->step > 0 ? job->problem->step
						 : GSL_SQRT_DBL_EPSILON * fabs(job->u[j]);
		if (step[j] <= 0)
			step[j] = GSL_SQRT_DBL_EPSILON;
		points[j * k + j] += step[j];
	}
	values = settings(job, points, k);
	row_residuals(job->problem, values, k, job->slopes);
	for (size_t i = 0; i < k * n; i++)
		job->slopes[i] = (job->slopes[i] - job->r[i % n]) / step[i / n];
	job->has_slopes = true;
	free(points);
	free(values);
}

static int on_jacobian(const gsl_vector *u, void *ctx, gsl_matrix *out)
{
	struct sc_fit_job *job = ctx;
	size_t n = job->problem->n;

	sc_fit_know(job, u);
	if (!job->has_slopes)
		sc_fit_find_slopes(job);
	gsl_matrix_set_zero(out);
	for (size_t j = 0; j < job->n_free; j++) {
		for (size_t i = 0; i < n; i++)
			gsl_matrix_set(out, i, j, job->slopes[j * n + i]);
		if (job->n > n)
			gsl_matrix_set(out, n + j, j,
				       (pull_residual(job, j, job->u[j] + PULL_STEP) -
					pull_residual(job, j, job->u[j])) /
					       PULL_STEP);
	}
	return GSL_SUCCESS;
}

/* ---- costs and weights ---- */

/* The mean error of the rows, and what the distances x cost; NULL: nothing. */
static double cost_of(const struct sc_fit_problem *problem, const double *r, const double *x,
		      size_t n_x)
{
	double sum = 0, weight = 0, pull = 0;

	for (size_t i = 0; i < problem->n; i++) {
		sum += problem->rows[i]->weight * fabs(r[i]) *
		       (problem->pull > 0 ? 1 + SQUARE * fabs(r[i]) : 1);
		weight += problem->rows[i]->weight;
	}
	for (size_t j = 0; j < n_x; j++)
		pull += log1p(x[j] * x[j]);
	return sum / weight + problem->pull * pull;
}

/* The cost that is made small, at n settings. */
static void costs(const struct sc_fit_problem *problem, const double *values, size_t n, double *out)
{
	const struct sc_fit_params *params = problem->params;
	double *r = sc_xrealloc(NULL, n * problem->n, sizeof(*r)), x[SC_FIT_MAX_PARAMS];

	row_residuals(problem, values, n, r);
	for (size_t s = 0; s < n; s++) {
		size_t n_x = 0;

		for (size_t i = 0; problem->pull > 0 && i < params->n; i++)
			if (params->at[i].status == SC_FIT_FITTED)
				x[n_x++] = log(values[s * params->n + i]) -
					   centre_of(params, &params->at[i]);
		out[s] = cost_of(problem, r + s * problem->n, x, n_x);
	}
	free(r);
}

double sc_fit_robust_sigma(const double *r, size_t n, double *scratch)
{
	for (size_t i = 0; i < n; i++)
		scratch[i] = fabs(r[i]);
	return fmax(MAD_TO_SIGMA * sc_median_sorting(scratch, n), SIGMA_FLOOR);
}

void sc_fit_weigh_rows(const struct sc_fit_job *job, const double *r, gsl_vector *weights)
{
	size_t n = job->problem->n, n_with = 0;
	double *scratch, limit;

	if (job->problem->pull > 0) {
		/* The quadratic touches here the cost mean (|r| + SQUARE r^2) + pull * sum ln(1 +
		 * x^2), which is taken times the rows' weights. */
		const struct sc_fit_problem *problem = job->problem;
		double sum = 0;

		for (size_t i = 0; i < problem->n; i++) {
			double weight = problem->rows[i]->weight;

			sum += weight;
			gsl_vector_set(weights, i,
				       weight * (0.5 / fmax(fabs(r[i]), SMALL) + SQUARE));
		}
		for (size_t j = 0; j < job->n_free; j++) {
			double x = r[problem->n + j];

			gsl_vector_set(weights, problem->n + j, problem->pull * sum / (1 + x * x));
		}
		return;
	}
	scratch = sc_xrealloc(NULL, n, sizeof(*scratch));
	limit = TUKEY_C * sc_fit_robust_sigma(r, n, scratch);
	free(scratch);
	for (size_t i = 0; i < n; i++) {
		double x = r[i] / limit, w = 1 - x * x;

		gsl_vector_set(weights, i, fabs(x) < 1 ? w * w : 0);
		n_with += fabs(x) < 1;
	}
	/* with fewer nothing is determined: then all weigh alike */
	if (n_with < 2 * job->n_free + 1)
		gsl_vector_set_all(weights, 1);
}

/* ---- one fit ---- */

/* One descent with these weights from u, which it moves; *moved: how far. */
static int run_round(struct sc_fit_job *job, gsl_multifit_nlinear_workspace *w,
		     const gsl_vector *weights, gsl_vector *u, double *moved, struct sc_err *err)
{
	gsl_multifit_nlinear_fdf fdf = {
		.f = on_residuals, .df = on_jacobian, .n = job->n, .p = job->n_free, .params = job};
	int info, status = gsl_multifit_nlinear_winit(u, weights, &fdf, w);
	const gsl_vector *at = gsl_multifit_nlinear_position(w);

	if (status == GSL_SUCCESS)
		status = gsl_multifit_nlinear_driver(
			job->problem->pull > 0 ? MAX_PULLED_ITERATIONS : MAX_ITERATIONS,
			fmax(X_TOLERANCE, job->problem->step / 10), 0, 0, NULL, NULL, &info, w);
	/* "No progress" at a minimum of a piecewise formula is an end like any other. */
	if (status != GSL_SUCCESS && status != GSL_EMAXITER && status != GSL_ENOPROG)
		return sc_err_set(err, SC_EVALUE, "the fit failed: %s", gsl_strerror(status));
	*moved = 0;
	for (size_t j = 0; j < job->n_free; j++) {
		double x = fmax(-SCALE_CAP, fmin(SCALE_CAP, gsl_vector_get(at, j)));

		*moved = fmax(*moved, fabs(x - gsl_vector_get(u, j)));
		gsl_vector_set(u, j, x);
	}
	for (size_t j = 0; j < job->n_free; j++)
		sc_fit_free_param(job, j)->value =
			from_scale(sc_fit_free_param(job, j), gsl_vector_get(u, j));
	return 0;
}

/* From current values. `far`: these may be far off, so that at first all rows weigh alike. */
static int fit_once(const struct sc_fit_problem *problem, bool far, struct sc_err *err)
{
	gsl_multifit_nlinear_parameters how = gsl_multifit_nlinear_default_parameters();
	gsl_multifit_nlinear_workspace *w;
	gsl_vector *u, *weights;
	struct sc_fit_job job;
	const bool pulled = problem->pull > 0;
	int rc = 0, max_rounds = far ? (pulled ? 4 : SEARCH_ROUNDS) : (pulled ? 12 : MAX_ROUNDS);
	double moved = INFINITY, last = HUGE_VAL, cost;

	job_init(&job, problem);
	if (job.n_free == 0)
		return 0;
	if (!pulled && problem->n <= job.n_free)
		return sc_err_set(err, SC_EVALUE,
				  "a fold leaves %zu rows for %zu coefficients; the rows need more "
				  "different sizes",
				  problem->n, job.n_free);
	how.solver = gsl_multifit_nlinear_solver_cholesky;
	w = gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &how, job.n, job.n_free);
	u = gsl_vector_alloc(job.n_free);
	weights = gsl_vector_alloc(job.n);
	job.r = sc_xrealloc(NULL, job.n, sizeof(*job.r));
	job.slopes = sc_xrealloc(NULL, job.n_free * problem->n, sizeof(*job.slopes));
	if (!w || !u || !weights)
		rc = sc_err_set(err, SC_ELIMIT,
				"the fit of %zu rows and %zu coefficients has no memory",
				problem->n, job.n_free);
	for (size_t j = 0; rc == 0 && j < job.n_free; j++)
		gsl_vector_set(u, j,
			       sc_fit_to_scale(sc_fit_free_param(&job, j),
					       sc_fit_free_param(&job, j)->value));
	for (int i = 0; rc == 0 && i < max_rounds && moved > WEIGHT_TOLERANCE; i++) {
		for (size_t j = 0; job.n > problem->n && j < job.n_free; j++)
			job.centre[j] = centre_of(problem->params, sc_fit_free_param(&job, j));
		sc_fit_know(&job, u);
		for (size_t j = 0; job.n > problem->n && j < job.n_free;
		     j++) /* centres may have moved */
			job.r[problem->n + j] = pull_residual(&job, j, job.u[j]);
		cost = pulled ? cost_of(problem, job.r, job.r + problem->n, job.n_free) : 0;
		if (pulled && cost > last - ROUND_GAIN)
			break;
		last = cost;
		if (i == 0 && far && !pulled)
			gsl_vector_set_all(weights, 1);
		else
			sc_fit_weigh_rows(&job, job.r, weights);
		rc = run_round(&job, w, weights, u, &moved, err);
	}
	gsl_multifit_nlinear_free(w);
	gsl_vector_free(u);
	gsl_vector_free(weights);
	free(job.r);
	free(job.slopes);
	return rc;
}

/* ---- starts ---- */

static double cost_here(const struct sc_fit_problem *problem)
{
	double values[SC_FIT_MAX_PARAMS], out;

	values_of(problem->params, values);
	costs(problem, values, 1, &out);
	return out;
}

/* Each free parameter alone, far off: a host that nothing waits for may be slower unseen, so that
 * the search stands still where a cost many times as high would explain the rows. True: the
 * parameters are where the cost is less. */
static bool scan(const struct sc_fit_problem *problem)
{
	static const double steps[] = {-3, -2, -1.2, -0.6, 0.6, 1.2, 2, 3}; /* in logs */
	enum { N_STEPS = sizeof(steps) / sizeof(steps[0]) };
	struct sc_fit_params *params = problem->params;
	struct sc_fit_job job;
	size_t k = params->n, n, best = 0;
	double *values, *cost;
	bool found;

	job_init(&job, problem);
	n = N_STEPS * job.n_free;
	values = sc_xrealloc(NULL, (n + 1) * k, sizeof(*values));
	cost = sc_xrealloc(NULL, n + 1, sizeof(*cost));
	values_of(params, values);
	for (size_t s = 1; s <= n; s++) {
		size_t j = (s - 1) / N_STEPS;
		const struct sc_fit_param *p = sc_fit_free_param(&job, j);

		values_of(params, values + s * k);
		values[s * k + job.free[j]] =
			from_scale(p, sc_fit_to_scale(p, p->value) + steps[(s - 1) % N_STEPS]);
	}
	costs(problem, values, n + 1, cost);
	for (size_t s = 1; s <= n; s++)
		if (cost[s] < cost[best])
			best = s;
	found = cost[best] < cost[0] - SCAN_GAIN;
	for (size_t i = 0; i < k && found; i++)
		params->at[i].value = values[best * k + i];
	free(values);
	free(cost);
	return found;
}

/* The best of several starts on a sample of the rows: the profile's values, and others around. */
static int fit_from_starts(const struct sc_fit_problem *problem, struct sc_err *err)
{
	size_t n = problem->n < SEARCH_ROWS ? problem->n : SEARCH_ROWS;
	const struct sc_fit_row **rows = sc_xrealloc(NULL, n, sizeof(const struct sc_fit_row *));
	struct sc_fit_params first = *problem->params, here;
	struct sc_fit_problem sample = *problem;
	const int n_starts = problem->near ? 2 : problem->pull > 0 ? N_PULLED_STARTS : N_STARTS;
	double best = INFINITY;
	struct sc_rng rng;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		rows[i] = problem->rows[i * problem->n / n];
	sample.rows = rows;
	sample.n = n;
	sample.params = &here;
	sc_rng_init(&rng, SEED);
	for (int i = 0; i < n_starts && rc == 0; i++) {
		double cost;

		here = first;
		for (size_t j = 0; j < here.n && i > 0; j++) {
			struct sc_fit_param *p = &here.at[j];

			if (p->status == SC_FIT_FITTED && problem->near)
				p->value = fmin(fmax(problem->near->at[j].value, p->lower * NEAR),
						p->upper / NEAR);
			else if (p->status == SC_FIT_FITTED)
				p->value = from_scale(p, sc_fit_to_scale(p, p->value) +
								 sc_rng_normal(&rng));
		}
		rc = problem->near ? 0 : fit_once(&sample, true, err);
		cost = rc ? HUGE_VAL : cost_here(&sample);
		if (cost < best) {
			best = cost;
			*problem->params = here;
		}
	}
	free(rows);
	return rc;
}

static void put_back(struct sc_fit_param *p)
{
	p->value = p->start;
	p->status = SC_FIT_UNDETERMINED;
}

/* Those at a bound stay there and are fitted no more. True if there is a new one. */
static bool stop_at_bounds(const struct sc_fit_problem *problem)
{
	struct sc_fit_params *params = problem->params;
	bool any = false;

	for (size_t i = 0; i < params->n; i++) {
		struct sc_fit_param *p = &params->at[i];
		double margin = BOUND_LOG * log(p->upper / p->lower), at_bound, bound;

		if (p->status != SC_FIT_FITTED)
			continue;
		if (log(p->value / p->lower) > margin && log(p->upper / p->value) > margin)
			continue;
		bound = log(p->value / p->lower) > margin ? p->upper : p->lower;
		p->value = bound;
		p->status = SC_FIT_AT_BOUND;
		any = true;
		/* a bound that is no better than the start is drift, not a finding */
		at_bound = cost_here(problem);
		p->value = p->start;
		if (cost_here(problem) < at_bound * (1 + DRIFT_FRAC))
			p->status = SC_FIT_UNDETERMINED;
		else
			p->value = bound;
	}
	return any;
}

/* Before anything is fitted: what no row depends on at all. */
static void drop_unused(const struct sc_fit_problem *problem)
{
	struct sc_fit_judgement verdict;
	struct sc_fit_job job;

	for (;;) {
		job_init(&job, problem);
		if (job.n_free == 0)
			return;
		sc_fit_judge(&job, &verdict);
		if (!isinf(verdict.condition))
			return;
		put_back(sc_fit_free_param(&job, verdict.weakest));
	}
}

int sc_fit_search(const struct sc_fit_problem *problem, double *condition, struct sc_err *err)
{
	struct sc_fit_params *params = problem->params;
	struct sc_fit_judgement verdict = {.condition = 1};
	struct sc_fit_job job = {.n_free = 0};
	bool any = false;
	int rc;

	if (!condition)
		return fit_once(problem, false, err);
	drop_unused(problem);
	rc = fit_from_starts(problem, err);
	for (int i = 0;
	     problem->pull > 0 && !problem->near && rc == 0 && i < MAX_SCANS && scan(problem); i++)
		rc = fit_once(problem, true, err);
	while (rc == 0) {
		job_init(&job, problem);
		if (job.n_free == 0)
			break;
		rc = fit_once(problem, false, err);
		if (rc || stop_at_bounds(problem))
			continue;
		sc_fit_judge(&job, &verdict);
		if (!verdict.undetermined)
			break;
		put_back(sc_fit_free_param(&job, verdict.weakest));
	}
	for (size_t j = 0; rc == 0 && j < job.n_free; j++)
		sc_fit_free_param(&job, j)->standard_error =
			sc_fit_free_param(&job, j)->value * verdict.error[j];
	for (size_t i = 0; i < params->n; i++)
		any |= params->at[i].status <= SC_FIT_AT_BOUND;
	if (rc == 0 && !any && !(problem->pull > 0))
		rc = sc_err_set(
			err, SC_EVALUE,
			"the rows determine no coefficient; they need a wider range of sizes");
	*condition = job.n_free ? verdict.condition : 1;
	return rc;
}
