/* Fits numbers of software and device profiles that no kernel table shows (host costs, sustained
 * clocks, communication delays) to whole measured iterations, a table as `validate` reads it, and
 * says what the fit is worth on rows that it did not see. */
#pragma once

#include "models/fit/fit.h"
#include "study/validate/validate.h"

enum { SC_ITFIT_MAX_COEFS = 16 };

/* A name is "software.host_op_us" or "device.gemm.power_eff"; "software:megatron-lm.host_op_us" or
 * "device:v100-sxm-16gb.gemm.power_eff" where the rows have several profiles. */
struct sc_itfit_name {
	const char *name;
	double start; /* NAN: the profile's */
};
struct sc_itfit_opts {
	const struct sc_config *base;
	const struct sc_csv *table;
	const struct sc_where *where;
	size_t n_where;
	const struct sc_itfit_name *coefs;
	size_t n_coefs;
	/* The columns by which rows are left out: rows that are equal in all of them are left out
	 * together, and predicted by a fit of the others. None: nothing is left out. */
	const char *const *leave_out;
	size_t n_leave_out;
	bool start_from_profile; /* one search, from the starts; else from other places, too */
	unsigned n_jobs;         /* the result does not depend on it */
	const struct sc_predict_opts *predict;
	struct sc_progress *(*progress)(void *ctx, size_t n_fits); /* may be NULL */
	void *progress_ctx;
};
/* Everything in `out` lives in the arena. Equal input gives equal output. A name or column that is
 * not there is SC_EUSAGE; too few rows are SC_EVALUE. */
int sc_itfit_run(const struct sc_itfit_opts *opts, struct sc_arena *arena, struct sc_fit *out,
		 struct sc_err *err);
