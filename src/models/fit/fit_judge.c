/* Tells which parameters rows determine: by the Jacobian's singular values, and standard errors. */
#include <gsl/gsl_blas.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <stdlib.h>

#include "models/fit/fit_solve_priv.h"

#define MAX_CONDITION 1e4
#define MAX_RELATIVE_ERROR 1.0 /* of a coefficient: unknown within a factor e */
#define MINOR_FACTOR 2.0
#define JUDGE_STEP 1e-4 /* of differences that judge, at least */

/* Makes d ln(time) / d ln(coefficient) from the slopes, weighted. Columns are scaled to length 1,
 * so that singular values say how alike they are. False: a column is zero, the weakest at once. */
static bool jacobian(const struct sc_fit_job *job, const gsl_vector *weights, gsl_matrix *out,
		     double *norm, struct sc_fit_judgement *verdict)
{
	const size_t n = job->problem->n;

	gsl_matrix_set_zero(out);
	for (size_t j = 0; j < job->n_free; j++) {
		gsl_vector_view column = gsl_matrix_column(out, j);
		const struct sc_fit_param *p = sc_fit_free_param(job, j);
		/* d ln(coefficient) / du */
		const double share = (p->value - p->lower) / p->value * (p->upper - p->value) /
				     (p->upper - p->lower);

		for (size_t i = 0; i < n; i++)
			gsl_matrix_set(out, i, j,
				       job->slopes[j * n + i] / share *
					       sqrt(gsl_vector_get(weights, i)));
		if (!(gsl_blas_dnrm2(&column.vector) > 1e-9 * sqrt((double)n))) {
			*verdict = (struct sc_fit_judgement){
				.condition = INFINITY, .weakest = j, .undetermined = true};
			return false;
		}
		if (job->n > n)
			gsl_matrix_set(out, n + j, j, sqrt(gsl_vector_get(weights, n + j)));
		norm[j] = gsl_blas_dnrm2(&column.vector);
		gsl_vector_scale(&column.vector, 1 / norm[j]);
	}
	return true;
}

/* Standard errors from the singular values: cov = sigma^2 V S^-2 V'. */
static void judge_svd(const struct sc_fit_job *job, const gsl_matrix *v, const gsl_vector *s,
		      double sigma, const double *norm, struct sc_fit_judgement *out)
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
		if (sc_fit_free_param(job, i)->minor)
			part *= MINOR_FACTOR;
		if (part > worst) {
			worst = part;
			out->weakest = i;
		}
	}
	if (worst >= 0)
		out->undetermined = true;
}

void sc_fit_judge(struct sc_fit_job *job, struct sc_fit_judgement *out)
{
	const struct sc_fit_problem *given = job->problem;
	struct sc_fit_problem problem = *given;
	size_t n = job->n, p = job->n_free;
	gsl_matrix *j = gsl_matrix_alloc(n, p), *v = gsl_matrix_alloc(p, p);
	gsl_vector *s = gsl_vector_alloc(p), *work = gsl_vector_alloc(p),
		   *weights = gsl_vector_alloc(n);
	double *scratch = sc_xrealloc(NULL, n, sizeof(*scratch)), sigma, norm[SC_FIT_MAX_PARAMS];

	*out = (struct sc_fit_judgement){.condition = 1};
	problem.step = fmax(problem.step, JUDGE_STEP);
	job->problem = &problem;
	job->r = sc_xcalloc(n, sizeof(*job->r));
	job->slopes = sc_xrealloc(NULL, p * problem.n, sizeof(*job->slopes));
	for (size_t i = 0; i < p; i++)
		gsl_vector_set(s, i,
			       sc_fit_to_scale(sc_fit_free_param(job, i),
					       sc_fit_free_param(job, i)->value));
	sc_fit_know(job, s);
	sc_fit_find_slopes(job);
	for (size_t i = problem.n; i < n; i++) /* as if all were at their centres */
		job->r[i] = 0;
	sigma = sc_fit_robust_sigma(job->r, problem.n, scratch);
	sc_fit_weigh_rows(job, job->r, weights);
	if (jacobian(job, weights, j, norm, out)) {
		gsl_linalg_SV_decomp(j, v, s, work);
		judge_svd(job, v, s, sigma, norm, out);
	}
	gsl_matrix_free(j);
	gsl_matrix_free(v);
	gsl_vector_free(s);
	gsl_vector_free(work);
	gsl_vector_free(weights);
	free(job->r);
	free(job->slopes);
	free(scratch);
	job->problem = given;
}
