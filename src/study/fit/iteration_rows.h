/* The measured iterations of a table as requests, predicted again and again with changed numbers of
 * their profiles: fit and calibrate share them. */
#pragma once

#include "models/fit/fit_solve.h"
#include "study/fit/fit_iterations.h"

/* A place is a number of a profile that changes. */
struct sc_itplace {
	bool of_device; /* else of software */
	const char *id; /* of the profile */
	size_t offset;
};
struct sc_itrows {
	const struct sc_itfit_opts *opts;
	struct sc_validation validation;
	struct sc_fit_row *rows;      /* `request` is an index */
	const struct sc_case **cases; /* of the rows */
	size_t n_rows;
	struct sc_request *requests; /* of the different configs */
	size_t n_requests;
	struct sc_itplace places[SC_ITFIT_MAX_COEFS];
	size_t n_places;
	bool no_unlike; /* rows that are not like their kin are left out */
	void **workers;
	struct sc_arena *arena;
	struct sc_err *err;
};
/* Reads the rows that opts choose; opts, arena and err are given. A cell that cannot be read is an
 * error. The caller closes it even after a failure. */
int sc_itrows_open(struct sc_itrows *rows, struct sc_catalog *catalog);
void sc_itrows_close(struct sc_itrows *rows);
/* The cells of a row in these columns (< 0: not there), as a text of the arena. */
const char *sc_itrows_joined(const struct sc_itrows *rows, size_t row, const int *columns, size_t n,
			     const char *between);
/* `times` of a problem whose model is a struct sc_itrows: takes a value for each of its places. */
void sc_itrows_times(const struct sc_fit_problem *problem, const double *values, size_t n,
		     double *us);
