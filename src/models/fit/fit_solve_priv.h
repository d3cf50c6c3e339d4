/* The solver's search (fit_solve.c) and its judgement of what the rows determine (fit_judge.c)
 * share a problem at one point. */
#pragma once

#include <gsl/gsl_vector.h>

#include "models/fit/fit_solve.h"

/* A problem's free parameters, and what is known at `u`, where rows were last computed. */
struct sc_fit_job {
	const struct sc_fit_problem *problem;
	size_t free[SC_FIT_MAX_PARAMS];
	size_t n_free, n; /* n: residuals, those of the rows first and then, where there is a pull,
			     one each parameter */
	double centre[SC_FIT_MAX_PARAMS]; /* ln, that a free parameter is pulled to */
	double u[SC_FIT_MAX_PARAMS], *r;
	double *slopes; /* of the rows, by parameter, then row */
	bool is_known, has_slopes;
};
struct sc_fit_judgement {
	double condition;
	size_t weakest;                  /* of the free ones */
	double error[SC_FIT_MAX_PARAMS]; /* standard, of ln(value) */
	bool undetermined;
};

/* A value between its bounds on the logistic scale, -inf to inf. */
double sc_fit_to_scale(const struct sc_fit_param *p, double value);
/* The j-th of those that are fitted. */
struct sc_fit_param *sc_fit_free_param(const struct sc_fit_job *job, size_t j);
/* Makes job->r those at u, and job->slopes those at job->u. */
void sc_fit_know(struct sc_fit_job *job, const gsl_vector *u);
void sc_fit_find_slopes(struct sc_fit_job *job);
/* The spread of n residuals without outliers; scratch has room for n. */
double sc_fit_robust_sigma(const double *r, size_t n, double *scratch);
/* Weights of the rows, and of pulls, by their residuals. */
void sc_fit_weigh_rows(const struct sc_fit_job *job, const double *r, gsl_vector *weights);
/* Judges how well rows determine the free parameters where they are; one they do not is weakest. */
void sc_fit_judge(struct sc_fit_job *job, struct sc_fit_judgement *out);
