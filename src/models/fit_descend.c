/* Coefficients that several machines share, by coordinate descent in logs: the weighted mean of |ln(predicted /
 * measured)| and of its square is made small, each capped, so that what a machine has that the model does not know
 * loses its say; and a little is asked for the distance of each value from its like (that of other links, of other
 * networks), or from its start, so that what one machine alone shows stays near what others do. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/fit_priv.h"

#define SQUARE_WEIGHT 0.3
#define CAP 1.0
#define SPREAD_WEIGHT 0.004
#define SPREAD_CAP \
	0.5 /* of the square: some are of another kind, as EFA's latency among networks */
#define FIRST_STEP 3.2
#define LAST_STEP 0.02
enum { MAX_PASSES = 16 }; /* with one step */

/* "links nvlink4" and "links xgmi" are alike; "ramp" is alone. */
static bool is_like(const struct sc_fit_param *a, const struct sc_fit_param *b)
{
	size_t n = strcspn(a->block, " ");

	return a->block[n] && strcmp(a->name, b->name) == 0 &&
	       strncmp(a->block, b->block, n + 1) == 0;
}

/* The middle one of its like, in logs: one of another kind, as EFA's latency among networks, does not move it. */
static double centre(const struct sc_fit_params *params, const struct sc_fit_param *p)
{
	double like[SC_FIT_MAX_PARAMS];
	size_t n = 0;

	for (size_t i = 0; i < params->n; i++)
		if (params->at[i].status == SC_FIT_FITTED && is_like(p, &params->at[i]))
			like[n++] = log(params->at[i].value);
	if (n == 0)
		return log(p->start);
	sc_sort_doubles(like, n);
	return sc_percentile_sorted(like, n, 50);
}

static double spread(const struct sc_fit_params *params)
{
	double sum = 0;

	for (size_t i = 0; i < params->n; i++) {
		double x;

		if (params->at[i].status != SC_FIT_FITTED)
			continue;
		x = log(params->at[i].value) - centre(params, &params->at[i]);
		sum += fmin(x * x, SPREAD_CAP);
	}
	return sum;
}

static double loss(const struct sc_fit_problem *problem, const struct sc_fit_params *params)
{
	double sum = 0, weight = 0;

	sc_fit_params_apply(params, problem->model);
	for (size_t i = 0; i < problem->n; i++) {
		const struct sc_fit_row *row = problem->rows[i];
		double x = fabs(log(sc_fit_predict_us(problem->model, row) / row->time_us));

		sum += row->weight * (fmin(x, CAP) + SQUARE_WEIGHT * fmin(x * x, CAP));
		weight += row->weight;
	}
	return sum / weight + SPREAD_WEIGHT * spread(params);
}

/* All that are like the i-th at once, or it alone. */
static void move(struct sc_fit_params *params, size_t i, bool likes, double step)
{
	const struct sc_fit_param first = params->at[i];

	for (size_t j = 0; j < params->n; j++) {
		struct sc_fit_param *p = &params->at[j];

		if (p->status == SC_FIT_FITTED && (j == i || (likes && is_like(&first, p))))
			p->value = fmin(fmax(p->value * exp(step), p->lower), p->upper);
	}
}

static void try_steps(const struct sc_fit_problem *problem, struct sc_fit_params *params, size_t i,
		      double step, double *best)
{
	for (int way = 0; way < 4; way++) {
		struct sc_fit_params old = *params;
		double now;

		move(params, i, way >= 2, way % 2 ? -step : step);
		now = loss(problem, params);
		if (now < *best)
			*best = now;
		else
			*params = old;
	}
}

static bool pass(const struct sc_fit_problem *problem, struct sc_fit_params *params, double step,
		 double *best)
{
	double before = *best;

	for (size_t i = 0; i < params->n; i++)
		if (params->at[i].status == SC_FIT_FITTED)
			try_steps(problem, params, i, step, best);
	return *best < before;
}

/* Does a step either way change a row's prediction? `us`: what they are. */
static bool is_told(const struct sc_fit_problem *problem, const struct sc_fit_params *params,
		    size_t i, const double *us)
{
	bool told = false;

	for (int way = -1; way <= 1; way += 2) {
		struct sc_fit_params moved = *params;

		move(&moved, i, false, way * FIRST_STEP);
		sc_fit_params_apply(&moved, problem->model);
		for (size_t k = 0; k < problem->n && !told; k++)
			told = sc_fit_predict_us(problem->model, problem->rows[k]) != us[k];
	}
	return told;
}

/* What came out at a bound, and what no row tells: it has its like's value, or its start. */
static void mark(const struct sc_fit_problem *problem, struct sc_fit_params *params)
{
	const struct sc_fit_params found = *params;
	double *us = sc_xcalloc(problem->n, sizeof(*us));

	sc_fit_params_apply(&found, problem->model);
	for (size_t i = 0; i < problem->n; i++)
		us[i] = sc_fit_predict_us(problem->model, problem->rows[i]);
	for (size_t i = 0; i < params->n; i++) {
		struct sc_fit_param *p = &params->at[i];

		if (p->status != SC_FIT_FITTED)
			continue;
		if (!is_told(problem, &found, i, us))
			p->status = SC_FIT_UNDETERMINED;
		else if (p->value <= p->lower || p->value >= p->upper)
			p->status = SC_FIT_AT_BOUND;
	}
	free(us);
}

/* On along the way that a pass went, which follows a valley between coefficients. */
static void follow(const struct sc_fit_problem *problem, const struct sc_fit_params *before,
		   struct sc_fit_params *params, double *best)
{
	struct sc_fit_params on = *params;
	double now;

	for (size_t i = 0; i < on.n; i++) {
		struct sc_fit_param *p = &on.at[i];

		if (p->status == SC_FIT_FITTED)
			p->value = fmin(fmax(p->value * p->value / before->at[i].value, p->lower),
					p->upper);
	}
	now = loss(problem, &on);
	if (now < *best) {
		*best = now;
		*params = on;
	}
}

void sc_fit_descend(const struct sc_fit_problem *problem, struct sc_fit_params *params)
{
	double best = loss(problem, params);

	for (double step = FIRST_STEP; step > LAST_STEP; step /= 2)
		for (int i = 0; i < MAX_PASSES; i++) {
			struct sc_fit_params before = *params;

			if (!pass(problem, params, step, &best))
				break;
			follow(problem, &before, params, &best);
		}
	mark(problem, params);
	sc_fit_params_apply(params, problem->model);
}
