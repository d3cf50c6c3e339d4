/* Fits numbers of software and device profiles that no kernel table shows (host costs, sustained
 * clocks, communication delays) to whole measured iterations: a table as `validate` reads it. Says
 * what the fit is worth on rows that it did not see. */
#ifndef SC_PREDICT_FIT_ITERATIONS_H
#define SC_PREDICT_FIT_ITERATIONS_H

#include "study/validate/validate.h"

enum { SC_ITFIT_MAX_COEFS = 16 };

/* "software.host_op_us", "device.gemm.power_eff"; "software:megatron-lm.host_op_us",
 * "device:v100-sxm-16gb.gemm.power_eff" where the rows have several. */
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
	/* Columns: rows that are equal in all of them are left out together, and predicted by a fit of
	 * the others. None: nothing is left out. */
	const char *const *leave_out;
	size_t n_leave_out;
	bool start_from_profile; /* one search, from the starts; else from other places, too */
	unsigned n_jobs;         /* the result does not depend on it */
	const struct sc_predict_opts *predict;
	struct sc_progress *(*progress)(void *ctx, size_t n_fits); /* may be NULL */
	void *progress_ctx;
};

struct sc_itfit_coef {
	bool of_device;    /* else of software */
	const char *id;    /* of the profile */
	const char *field; /* "host_op_us", "gemm.power_eff" */
	double value, start, lower, upper;
	double old;      /* in the profile */
	bool has_effect; /* on any row's time; if not, value is start */
	bool at_bound;
	/* What 0.8 and 1.2 times the value (within its bounds) add to the mean |ln(predicted/measured)|,
	 * in percent. */
	double rise_pct[2];
	double left_out_lowest, left_out_highest; /* over the fits of the others; NAN without */
};
/* Rows that were left out together. */
struct sc_itfit_group {
	const char *value; /* "2048, 24" */
	struct sc_accuracy before, left_out;
	double *values;        /* coefficients of the fit of the others */
	size_t n_undetermined; /* coefficients that no other row depends on: they stay at their starts */
};
struct sc_itfit {
	const char *table; /* base name of its file */
	const struct sc_validation
		*validation; /* with the profiles as they are; names what is skipped */
	size_t n_rows;       /* fitted: chosen, and predicted */
	size_t n_configs;    /* of them different */
	struct sc_itfit_coef *coefs;
	size_t n_coefs;
	struct sc_accuracy before, in_sample, left_out; /* left_out.n is 0 without */
	const char *leave_out;                          /* "model.hidden, model.layers", or NULL */
	struct sc_itfit_group *groups;                  /* by value */
	size_t n_groups;
	/* Rows whose config another row has, too: mean deviation from the mean of their like. No model
	 * of the config is better on them. */
	size_t n_duplicates;
	double duplicate_floor_pct; /* NAN if there is none */
};
/* Everything in `out` lives in the arena; `table` is borrowed. Equal input gives equal output. What
 * the names and columns lack is SC_EUSAGE; too few rows are SC_EVALUE. */
int sc_itfit_run(const struct sc_itfit_opts *opts, struct sc_arena *arena, struct sc_itfit *out,
		 struct sc_err *err);

#endif
