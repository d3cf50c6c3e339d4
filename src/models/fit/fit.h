/* Fits coefficients of profiles to measured times: robust nonlinear least squares in log time. Rows
 * become times by the models as they are, with a copy of the profile whose coefficients are
 * replaced; which ones, and within which bounds, is a table (fit_kinds.c). Whole iterations are one
 * more kind (study/fit). */
#pragma once

#include "base/csv.h"
#include "base/stats.h"
#include "core/machine/device.h"
#include "core/machine/fabric.h"

enum sc_fit_kind {
	SC_FIT_GEMM,
	SC_FIT_ATTENTION,
	SC_FIT_ATTENTION_DECODE,
	SC_FIT_ROWWISE,
	SC_FIT_OPTIMIZER,
	SC_FIT_EMBEDDING,
	SC_FIT_HOST,
	SC_FIT_COLLECTIVE,
	SC_FIT_INTERFERENCE,
	/* Nothing of these is fitted to a GPU; validate compares them (fit_modules.c). */
	SC_FIT_LINEAR_ATTENTION,
	SC_FIT_SPARSE_ATTENTION,
	SC_FIT_MLA,
	SC_FIT_EXPERTS,
	SC_N_FIT_KINDS,
	SC_FIT_ITERATION = SC_N_FIT_KINDS /* of all models together */
};
#define SC_FIT_KIND_NAMES                                                                     \
	"gemm", "attention", "attention_decode", "rowwise", "optimizer", "embedding", "host", \
		"collective", "interference", "linear_attention", "sparse_attention", "mla",  \
		"experts"
extern const char *const sc_fit_kind_names[]; /* NULL-ended: those of one model */

enum { SC_FIT_FOLDS = 5, SC_FIT_MAX_FOLDS = 100, SC_FIT_MIN_ROWS = 20, SC_FIT_MAX_PARAMS = 160 };

/* A row counts only if its `column` is `value`. */
struct sc_where {
	const char *column, *value;
};
/* The sources whose times hold the launch of the kernel beside the kernel itself. */
enum sc_fit_launch {
	SC_FIT_LAUNCH_AUTO, /* those whose shortest rows are far above the model */
	SC_FIT_LAUNCH_NONE,
	SC_FIT_LAUNCH_ALL
};
struct sc_fit_opts {
	const struct sc_csv *table;
	enum sc_fit_kind kind;
	const char *device;
	const struct sc_where
		*where; /* rows must have all of these values, or patterns of the shell: "alps_*" */
	size_t n_where;
	/* Instead of folds: each value of this column is left out in turn, and predicted by a fit
	 * of the others that starts anew. "device": rows of all devices are taken, which differ by
	 * their datasheets and share the coefficients. "machine", of collectives: the same,
	 * machines weigh alike, and the fit starts where no machine is. */
	const char *leave_out;
	/* Coefficients of machines that stay as the profile has them: "links nvlink4.*". */
	const char *const *keep;
	size_t n_keep;
	/* Instead of folds: rows that have any of these values are left out together. */
	const struct sc_where *hold_out;
	size_t n_hold_out;
	/* gemm, collective: keep what the rows show by size, beside the coefficients. */
	bool curves;
	size_t n_folds;
	enum sc_fit_launch launch;
};
/* Do rows of all devices take part? Where devices, or machines of collectives, are left out. */
bool sc_fit_takes_all(const struct sc_fit_opts *opts);

enum sc_fit_status {
	SC_FIT_FITTED,
	SC_FIT_AT_BOUND,     /* fitted, and came out at its lower or upper bound */
	SC_FIT_UNDETERMINED, /* the data do not say: stays as it was */
	SC_FIT_OFF,          /* 0 in the profile: the device has no such thing */
	SC_FIT_KEPT,         /* --keep: stays as it was */
	SC_FIT_LEANT         /* of a calibration: moved, but the rows hardly tell it from others */
};
extern const char *const sc_fit_status_names[];

struct sc_fit_param {
	const char *block; /* "gemm"; "links nvlink3"; "launch", "floor" of one; "software:ID" */
	const char *name;  /* the key in the profile; of a launch, the source */
	double value, start, lower, upper;
	double old;            /* of an iteration's: in the profile, where `start` was given */
	double standard_error; /* NAN where not fitted */
	double left_out_lowest, left_out_highest; /* over the fits of the others; NAN without */
	enum sc_fit_status status;
	bool minor;    /* of two that the rows do not tell apart, the one to leave as it was */
	double anew;   /* > 0: where it starts in a fit of machines */
	double *place; /* where the model reads it */
};
struct sc_fit_params {
	struct sc_fit_param at[SC_FIT_MAX_PARAMS];
	size_t n;
};
/* Errors of one part of the rows, of fits that did not see them. */
struct sc_fit_region {
	const char *by, *value; /* "pass", "bwd" */
	struct sc_accuracy accuracy;
	double before_mape_pct;
	double spread_frac; /* |ln(predicted/measured)| that holds 80 %, as one sigma of a normal */
};
struct sc_fit_range {
	const char *name; /* "m", "time_us" */
	double lowest, highest;
};
struct sc_fit_point {
	double measured_us, before_us, in_sample_us;
	double held_out_us; /* NAN: never held out */
	double formula_us;  /* the same without curves; NAN where there are none */
};
struct sc_fit_skipped {
	const char *row, *reason;
};
struct sc_fit {
	enum sc_fit_kind kind;
	const char *device_id; /* NULL of iterations */
	const char *table;     /* base name of its file */
	const char *leave_out; /* the column, "chosen rows", or NULL: folds */
	size_t n_rows, n_shapes, n_folds;
	size_t n_other;  /* rows of the table not chosen: other devices, --where */
	size_t n_empty;  /* chosen, but without a time */
	size_t n_forced; /* collectives under an algorithm that was forced */
	size_t n_bound;  /* collectives of quality "bound": waiting may be in their times */
	size_t n_used;   /* of n_rows, that the solver saw: a sample where there are very many */
	struct sc_fit_params *coefs;
	struct sc_accuracy before; /* of the coefficients at their starts */
	struct sc_accuracy in_sample, held_out;
	struct sc_accuracy formula; /* held out, without the curves; n = 0 where there are none */
	double spread_frac;         /* held out */
	double group_median_pct; /* of medians of what was left out, each by itself; NAN without */
	double formula_spread_frac; /* the same without the curves */
	double condition; /* of the fitted coefficients: largest over smallest singular value */
	struct sc_fit_region *regions;
	size_t n_regions;
	struct sc_fit_range *ranges;
	size_t n_ranges;
	const char **sources; /* sorted */
	size_t n_sources;
	struct sc_fit_point *points; /* n_rows */
	struct sc_device device;     /* with the fitted coefficients */
	struct sc_fabric_profile fabric;
	/* Curves of all rows: struct sc_fabric_curve of collectives, sc_gemm_curve of gemm. */
	struct sc_structs curves;
	/* Rows of iterations that could not be predicted; rows whose config another row has, too,
	 * and their mean deviation from the mean of their like: no model of configs is better. */
	struct sc_fit_skipped *skipped;
	size_t n_skipped, n_repeated;
	double repeated_pct;
};
/* A row by the profiles as they are shipped, with the band that holds 80 %. */
struct sc_fit_guess {
	double measured_us, time_us, low_us, high_us;
	const char *skipped;      /* why there is none; NULL: there is one */
	const struct sc_err *bad; /* a cell that cannot be read; or NULL */
	const char *warning;      /* may be NULL */
};
/* Guesses for the rows `rows` of opts->table: `kind` of opts is read, and every row's own device. A
 * row with a cell that cannot be read, or that no model is for, is skipped. */
int sc_fit_guess_rows(const struct sc_fit_opts *opts, const size_t *rows, size_t n,
		      struct sc_arena *arena, struct sc_fit_guess *out, struct sc_err *err);
/* Everything in `out` lives in the arena. Errors name the row (file:line:column) or say what the
 * table lacks. Equal input gives equal output. */
int sc_fit_run(const struct sc_fit_opts *opts, struct sc_arena *arena, struct sc_fit *out,
	       struct sc_err *err);
