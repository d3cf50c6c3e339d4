/* The search. A prediction costs tens of microseconds, a simplex needs hundreds of them a row: so the
 * simplex runs on a model of the times around a point, and the point moves as far as the model proves
 * right (a trust region; Conn, Gould and Toint 2000). An iteration is a sum of parts that grow with a
 * cost or shrink with an efficiency: a part that a coefficient c has a share s of goes with 1 + s (c'/c
 * - 1), or with 1 + s (c/c' - 1). Mean absolute error in logs: a row that no model explains pulls no
 * more than another. */
#include <gsl/gsl_multimin.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "study/fit/fit_iterations_priv.h"
#include "study/shard/shard_choose.h"

/* What a distance x in logs from the start costs: PRIOR ln(1 + x^2). A factor 2 must save 0.08 % of the
 * error, a factor 100 0.6 %: a start may be a guess. */
#define PRIOR 0.002
#define LN_FAILED 50.0  /* of a time that could not be predicted */
#define SLOPE_STEP 0.02 /* in logs */
#define FACTOR_FLOOR 1e-3
#define FIRST_RADIUS 0.5
#define MAX_RADIUS 1.5
#define MIN_RADIUS 4e-3
#define MIN_GAIN 1e-6 /* of the mean error */
#define ENOUGH 0.05   /* share of the promised gain that a step must keep */
#define GOOD 0.5
#define SIMPLEX_SIZE 1e-3 /* of the radius */
enum { MAX_ROUNDS = 40, SIMPLEX_STEPS = 150, N_SIMPLEX = 2, POINTS_AT_A_TIME = 16 };

/* ---- predicting with changed profiles ---- */

struct worker {
	struct sc_predictor *predictor;
	struct sc_request request;
	struct sc_device kinds[SC_MAX_GPU_KINDS];
	struct sc_prediction prediction;
};

void sc_itfit_crew_init(struct sc_itfit_crew *crew, unsigned n)
{
	crew->n = n ? n : 1;
	crew->workers = sc_xrealloc(NULL, crew->n, sizeof(*crew->workers));
	for (unsigned i = 0; i < crew->n; i++) {
		struct worker *worker = sc_xmalloc(sizeof(*worker));

		worker->predictor = sc_predictor_create();
		crew->workers[i] = worker;
	}
}

void sc_itfit_crew_release(struct sc_itfit_crew *crew)
{
	for (unsigned i = 0; i < crew->n; i++) {
		struct worker *worker = crew->workers[i];

		sc_predictor_destroy(worker->predictor);
		free(worker);
	}
	free(crew->workers);
}

static void patch(void *object, const char *id, const struct sc_itfit_param *param, double value)
{
	if (strcmp(id, param->id) == 0)
		memcpy((char *)object + param->offset, &value, sizeof(value));
}

/* The worker's own copy of the request, with the values at x. */
static void take_request(struct worker *worker, const struct sc_itfit_problem *problem,
			 const struct sc_request *from, const double *x)
{
	struct sc_request *req = &worker->request;

	*req = *from;
	for (size_t k = 0; k < from->n_kinds; k++) {
		worker->kinds[k] = *from->kinds[k];
		req->kinds[k] = &worker->kinds[k];
	}
	for (size_t j = 0; j < problem->n_params; j++) {
		const struct sc_itfit_param *param = &problem->params[j];
		double value = exp(x[j]);

		if (!param->of_device) {
			patch(&req->software, req->software.id, param, value);
			continue;
		}
		patch(&req->device, req->device.id, param, value);
		for (size_t k = 0; k < req->n_kinds; k++)
			patch(&worker->kinds[k], worker->kinds[k].id, param, value);
	}
}

struct batch {
	const struct sc_itfit_problem *problem;
	const double *points;
	double *ln_time;
};

static int predict_item(void *shared, void *thread_ctx, size_t index, struct sc_err *err)
{
	const struct batch *batch = shared;
	const struct sc_itfit_problem *problem = batch->problem;
	struct worker *worker = thread_ctx;
	const double *x = batch->points + index / problem->n_requests * problem->n_params;
	struct sc_prediction *p = &worker->prediction;
	bool good;

	(void)err; /* values that cannot be are worse than any */
	take_request(worker, problem, &problem->requests[index % problem->n_requests], x);
	good = sc_predict_chosen(worker->predictor, &worker->request, problem->predict, p, NULL) ==
		       0 &&
	       isfinite(p->iteration_ms) && p->iteration_ms > 0;
	batch->ln_time[index] = good ? log(p->iteration_ms) : LN_FAILED;
	return 0;
}

void sc_itfit_predict(const struct sc_itfit_problem *problem, const struct sc_itfit_crew *crew,
		      const double *points, size_t n, double *ln_time)
{
	struct batch batch = {problem, points, ln_time};
	struct sc_work work = {.n_items = n * problem->n_requests,
			       .chunk = POINTS_AT_A_TIME,
			       .n_jobs = crew->n,
			       .item = predict_item,
			       .shared = &batch,
			       .contexts = crew->workers};

	sc_parallel_for(&work, NULL);
}

/* ---- the times around a point ---- */

void sc_itfit_local_init(struct sc_itfit_local *local, const struct sc_itfit_problem *problem,
			 struct sc_arena *arena)
{
	*local = (struct sc_itfit_local){0};
	local->ln_time = sc_arena_calloc(arena, problem->n_requests, sizeof(double));
	local->slope =
		sc_arena_calloc(arena, problem->n_requests * problem->n_params, sizeof(double));
}

void sc_itfit_local_copy(struct sc_itfit_local *to, const struct sc_itfit_local *from,
			 const struct sc_itfit_problem *problem)
{
	memcpy(to->x, from->x, sizeof(to->x));
	memcpy(to->ln_time, from->ln_time, problem->n_requests * sizeof(double));
	memcpy(to->slope, from->slope, problem->n_requests * problem->n_params * sizeof(double));
}

void sc_itfit_linearize(const struct sc_itfit_problem *problem, const struct sc_itfit_crew *crew,
			struct sc_itfit_local *local)
{
	size_t n = problem->n_requests, k = problem->n_params;
	double *points = sc_xrealloc(NULL, (k + 1) * k, sizeof(*points));
	double *ln_time = sc_xrealloc(NULL, (k + 1) * n, sizeof(*ln_time));

	for (size_t i = 0; i <= k; i++)
		memcpy(points + i * k, local->x, k * sizeof(*points));
	for (size_t j = 0; j < k; j++) {
		bool at_top = local->x[j] + SLOPE_STEP > problem->params[j].upper;

		points[(j + 1) * k + j] += at_top ? -SLOPE_STEP : SLOPE_STEP;
	}
	sc_itfit_predict(problem, crew, points, k + 1, ln_time);
	memcpy(local->ln_time, ln_time, n * sizeof(*ln_time));
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < k; j++) {
			double there = ln_time[(j + 1) * n + i];
			double step = points[(j + 1) * k + j] - local->x[j];
			bool good = there < LN_FAILED && ln_time[i] < LN_FAILED;

			local->slope[i * k + j] = good ? (there - ln_time[i]) / step : 0;
		}
	}
	free(points);
	free(ln_time);
}

/* ---- cost ---- */

double sc_itfit_error(const struct sc_itfit_job *job, const double *ln_time)
{
	const struct sc_itfit_problem *problem = job->problem;
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < problem->n_rows; i++) {
		const struct sc_itfit_row *row = &problem->rows[i];

		if (job->in && !job->in[i])
			continue;
		sum += fabs(ln_time[row->request] - row->ln_measured);
		n++;
	}
	return n ? sum / (double)n : 0;
}

double sc_itfit_cost(const struct sc_itfit_job *job, const double *x, const double *ln_time)
{
	const struct sc_itfit_problem *problem = job->problem;
	double cost = sc_itfit_error(job, ln_time);

	for (size_t j = 0; j < problem->n_params; j++) {
		double far = x[j] - problem->params[j].start;

		cost += PRIOR * log1p(far * far);
	}
	return cost;
}

/* What the simplex sees. */
struct around {
	const struct sc_itfit_job *job;
	const struct sc_itfit_local *local;
	double lower[SC_ITFIT_MAX_COEFS], upper[SC_ITFIT_MAX_COEFS];
	double *ln_time; /* scratch */
};

static void model_times(const struct around *a, const double *x)
{
	const struct sc_itfit_problem *problem = a->job->problem;
	size_t k = problem->n_params;
	double grow[SC_ITFIT_MAX_COEFS], shrink[SC_ITFIT_MAX_COEFS];

	for (size_t j = 0; j < k; j++) {
		grow[j] = expm1(x[j] - a->local->x[j]);
		shrink[j] = -expm1(a->local->x[j] - x[j]);
	}
	for (size_t i = 0; i < problem->n_requests; i++) {
		const double *slope = a->local->slope + i * k;
		double factor = 1;

		for (size_t j = 0; j < k; j++)
			factor += slope[j] * (slope[j] > 0 ? grow[j] : shrink[j]);
		a->ln_time[i] = a->local->ln_time[i] + log(fmax(factor, FACTOR_FLOOR));
	}
}

static double clamp(double x, double lower, double upper)
{
	return fmax(lower, fmin(upper, x));
}

/* Outside the box: its border's cost, and the way back. */
static double model_cost(const gsl_vector *v, void *ctx)
{
	struct around *a = ctx;
	double x[SC_ITFIT_MAX_COEFS], outside = 0;

	for (size_t j = 0; j < v->size; j++) {
		double want = gsl_vector_get(v, j);

		x[j] = clamp(want, a->lower[j], a->upper[j]);
		outside += fabs(want - x[j]);
	}
	model_times(a, x);
	return sc_itfit_cost(a->job, x, a->ln_time) + outside;
}

static void set_box(struct around *a, double radius)
{
	const struct sc_itfit_problem *problem = a->job->problem;

	for (size_t j = 0; j < problem->n_params; j++) {
		a->lower[j] = fmax(problem->params[j].lower, a->local->x[j] - radius);
		a->upper[j] = fmin(problem->params[j].upper, a->local->x[j] + radius);
	}
}

/* One descent from x, which it moves. */
static void run_simplex(struct around *a, gsl_multimin_fminimizer *simplex, double radius,
			double *x)
{
	size_t k = a->job->problem->n_params;
	gsl_multimin_function function = {.f = model_cost, .n = k, .params = a};
	gsl_vector *at = gsl_vector_alloc(k), *step = gsl_vector_alloc(k);
	int status = GSL_CONTINUE;

	for (size_t j = 0; j < k; j++) {
		bool at_top = x[j] + radius / 2 > a->upper[j];

		gsl_vector_set(at, j, x[j]);
		gsl_vector_set(step, j, at_top ? -radius / 2 : radius / 2);
	}
	if (gsl_multimin_fminimizer_set(simplex, &function, at, step) == GSL_SUCCESS) {
		for (size_t i = 0; i < SIMPLEX_STEPS * k && status == GSL_CONTINUE; i++) {
			if (gsl_multimin_fminimizer_iterate(simplex) != GSL_SUCCESS)
				break;
			status = gsl_multimin_test_size(gsl_multimin_fminimizer_size(simplex),
							SIMPLEX_SIZE * radius);
		}
		for (size_t j = 0; j < k; j++)
			x[j] = clamp(gsl_vector_get(simplex->x, j), a->lower[j], a->upper[j]);
	}
	gsl_vector_free(at);
	gsl_vector_free(step);
}

/* The lowest point of the model in the box around local->x; its cost is returned. */
static double model_minimum(struct around *a, double radius, double *x)
{
	size_t k = a->job->problem->n_params;
	gsl_multimin_fminimizer *simplex =
		gsl_multimin_fminimizer_alloc(gsl_multimin_fminimizer_nmsimplex2, k);

	set_box(a, radius);
	memcpy(x, a->local->x, k * sizeof(*x));
	/* A simplex may collapse on a ridge; one more, at full size, goes on from there. */
	for (int i = 0; i < N_SIMPLEX && simplex; i++)
		run_simplex(a, simplex, radius, x);
	gsl_multimin_fminimizer_free(simplex);
	model_times(a, x);
	return sc_itfit_cost(a->job, x, a->ln_time);
}

void sc_itfit_search(const struct sc_itfit_job *job, struct sc_itfit_local *local)
{
	size_t n = job->problem->n_requests;
	struct around around = {
		.job = job, .local = local, .ln_time = sc_xrealloc(NULL, n, sizeof(double))};
	double *there = sc_xrealloc(NULL, n, sizeof(*there));
	double cost = sc_itfit_cost(job, local->x, local->ln_time), radius = FIRST_RADIUS;

	for (int round = 0; round < MAX_ROUNDS && radius > MIN_RADIUS; round++) {
		double x[SC_ITFIT_MAX_COEFS] = {0};
		double promised = cost - model_minimum(&around, radius, x), gain;

		if (promised < MIN_GAIN)
			break;
		sc_itfit_predict(job->problem, job->crew, x, 1, there);
		gain = cost - sc_itfit_cost(job, x, there);
		if (gain < ENOUGH * promised) {
			radius /= 3;
			continue;
		}
		memcpy(local->x, x, sizeof(x));
		sc_itfit_linearize(job->problem, job->crew, local);
		cost -= gain;
		if (gain > GOOD * promised)
			radius = fmin(2 * radius, MAX_RADIUS);
	}
	free(there);
	free(around.ln_time);
}
