/* Inside of the fit of iterations: rows as requests (fit_iterations_rows.c), names of coefficients
 * (fit_iterations_coefs.c), the search (fit_iterations_search.c). */
#ifndef SC_PREDICT_FIT_ITERATIONS_PRIV_H
#define SC_PREDICT_FIT_ITERATIONS_PRIV_H

#include "study/fit/fit_iterations.h"

/* A number in a profile, moved on a logarithmic scale. */
struct sc_itfit_param {
	bool of_device;
	const char *id;
	size_t offset;              /* in struct sc_device or sc_software */
	double start, lower, upper; /* logarithms */
};
struct sc_itfit_row {
	size_t case_idx; /* in the validation */
	size_t request;
	double ln_measured;
};
struct sc_itfit_problem {
	struct sc_itfit_row *rows;
	size_t n_rows;
	struct sc_request *requests; /* of the different configs */
	size_t n_requests;
	struct sc_itfit_param params[SC_ITFIT_MAX_COEFS];
	size_t n_params;
	const struct sc_predict_opts *predict;
};

/* Requests of the rows that the validation could predict. They borrow from the catalog. */
struct sc_itfit_source {
	const struct sc_config *base;
	const struct sc_validation *validation;
	struct sc_catalog *catalog;
	struct sc_arena *arena;
};
int sc_itfit_rows_read(const struct sc_itfit_source *source, struct sc_itfit_problem *out,
		       struct sc_err *err);
/* Resolves the names against the profiles of the requests; fills params and coefs. */
int sc_itfit_coefs_bind(struct sc_itfit_problem *problem, const struct sc_itfit_opts *opts,
			struct sc_arena *arena, struct sc_itfit_coef *coefs, struct sc_err *err);

/* Threads that predict; each has its own request to change. */
struct sc_itfit_crew {
	void **workers;
	unsigned n;
};
void sc_itfit_crew_init(struct sc_itfit_crew *crew, unsigned n);
void sc_itfit_crew_release(struct sc_itfit_crew *crew);

/* The times around a point. */
struct sc_itfit_local {
	double x[SC_ITFIT_MAX_COEFS];
	double *ln_time; /* by request */
	double *slope;   /* d ln_time / d x, by request, then param */
};
void sc_itfit_local_init(struct sc_itfit_local *local, const struct sc_itfit_problem *problem,
			 struct sc_arena *arena);
void sc_itfit_local_copy(struct sc_itfit_local *to, const struct sc_itfit_local *from,
			 const struct sc_itfit_problem *problem);
/* ln of the times in ms at each of n points (n_params apart), by point, then request. */
void sc_itfit_predict(const struct sc_itfit_problem *problem, const struct sc_itfit_crew *crew,
		      const double *points, size_t n, double *ln_time);
/* ln_time and slope at local->x. */
void sc_itfit_linearize(const struct sc_itfit_problem *problem, const struct sc_itfit_crew *crew,
			struct sc_itfit_local *local);
/* A fit of the rows that are in; NULL: all. */
struct sc_itfit_job {
	const struct sc_itfit_problem *problem;
	const struct sc_itfit_crew *crew;
	const bool *in;
};
/* Mean |ln(predicted/measured)|. */
double sc_itfit_error(const struct sc_itfit_job *job, const double *ln_time);
/* The same and what the distance from the starts costs: what the search makes small. */
double sc_itfit_cost(const struct sc_itfit_job *job, const double *x, const double *ln_time);
/* From `local`, which it moves to the best point found. */
void sc_itfit_search(const struct sc_itfit_job *job, struct sc_itfit_local *local);
/* The same, and from places far from it (fit_iterations_starts.c). */
void sc_itfit_search_far(const struct sc_itfit_job *job, struct sc_itfit_local *local);

#endif
