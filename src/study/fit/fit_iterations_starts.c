/* Where else to begin. A host that nothing waits for may be slower unseen, so the search stands still
 * where a cost many times as high would explain the rows: only points far off show it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "study/fit/fit_iterations_priv.h"

#define PROBE_SPREAD 3.0 /* probes lie within a factor 20 of the starts */
#define MIN_GAIN 1e-5    /* of the mean error, for a search that begins anew */
enum { N_PROBES = 48, MAX_SCANS = 3, SEED = 1 };

static const double SCAN[] = {-3, -2, -1.2, -0.6, 0.6, 1.2, 2, 3}; /* in logs */
enum { N_SCAN = sizeof(SCAN) / sizeof(SCAN[0]) };

static double clamp(const struct sc_itfit_param *param, double x)
{
	return fmax(param->lower, fmin(param->upper, x));
}

/* Copies the cheapest of n points to x; returns its cost. */
static double cheapest(const struct sc_itfit_job *job, const double *points, size_t n, double *x)
{
	const struct sc_itfit_problem *problem = job->problem;
	size_t k = problem->n_params;
	double *ln_time = sc_xrealloc(NULL, n * problem->n_requests, sizeof(*ln_time));
	double least = HUGE_VAL;

	sc_itfit_predict(problem, job->crew, points, n, ln_time);
	for (size_t i = 0; i < n; i++) {
		const double *point = points + i * k;
		double cost = sc_itfit_cost(job, point, ln_time + i * problem->n_requests);

		if (cost < least) {
			least = cost;
			memcpy(x, point, k * sizeof(*x));
		}
	}
	free(ln_time);
	return least;
}

/* The cheapest of points spread at random. */
static void probe(const struct sc_itfit_job *job, double *x)
{
	size_t k = job->problem->n_params;
	double *points = sc_xrealloc(NULL, N_PROBES * k, sizeof(*points));
	struct sc_rng rng;

	sc_rng_init(&rng, SEED);
	for (size_t i = 0; i < N_PROBES * k; i++) {
		const struct sc_itfit_param *param = &job->problem->params[i % k];

		points[i] =
			clamp(param, param->start + PROBE_SPREAD * (2 * sc_rng_uniform(&rng) - 1));
	}
	cheapest(job, points, N_PROBES, x);
	free(points);
}

/* The cheapest of points that differ from local->x in one coefficient; returns its cost. */
static double scan(const struct sc_itfit_job *job, const struct sc_itfit_local *local, double *x)
{
	size_t k = job->problem->n_params;
	double *points = sc_xrealloc(NULL, N_SCAN * k * k, sizeof(*points)), cost;

	for (size_t i = 0; i < N_SCAN * k; i++) {
		size_t j = i / N_SCAN;

		memcpy(points + i * k, local->x, k * sizeof(*points));
		points[i * k + j] = clamp(&job->problem->params[j], local->x[j] + SCAN[i % N_SCAN]);
	}
	cost = cheapest(job, points, N_SCAN * k, x);
	free(points);
	return cost;
}

/* Searches, and again from where one coefficient far off is better. */
static double search_scanning(const struct sc_itfit_job *job, struct sc_itfit_local *local)
{
	double x[SC_ITFIT_MAX_COEFS] = {0}, cost;

	for (int i = 0;; i++) {
		sc_itfit_search(job, local);
		cost = sc_itfit_cost(job, local->x, local->ln_time);
		if (i == MAX_SCANS || scan(job, local, x) > cost - MIN_GAIN)
			return cost;
		memcpy(local->x, x, sizeof(x));
		sc_itfit_linearize(job->problem, job->crew, local);
	}
}

void sc_itfit_search_far(const struct sc_itfit_job *job, struct sc_itfit_local *local)
{
	struct sc_itfit_local other;
	struct sc_arena scratch;
	double cost;

	sc_arena_init(&scratch, 1 << 16);
	sc_itfit_local_init(&other, job->problem, &scratch);
	probe(job, other.x);
	sc_itfit_linearize(job->problem, job->crew, &other);
	cost = search_scanning(job, local);
	if (search_scanning(job, &other) < cost)
		sc_itfit_local_copy(local, &other, job->problem);
	sc_arena_release(&scratch);
}
