/* Compares predicted and measured times over a table with a `measured_ms` column: how far off, by
 * group, and how often the band holds. Cases that cannot be predicted are named, not dropped. */
#pragma once

#include "base/stats.h"
#include "models/fit/fit.h"
#include "study/sweep/sweep.h"

struct sc_validate_opts {
	const struct sc_csv *table;
	/* Rows are times of one kind of operation, in time_us, each on its own device, and base,
	 * n_jobs, predict and progress are not read. NULL: rows are iterations, in measured_ms. */
	const enum sc_fit_kind *kind;
	const struct sc_config *base;
	const struct sc_where *where;
	size_t n_where;
	const char *const *by; /* columns */
	size_t n_by;
	/* The columns (1 << column of sc_like_columns) by which rows are alike: a row's band is
	 * made without the measured rows that are alike in all of these; its suite is in its column
	 * suite, else source. 0: the band has all rows. */
	unsigned leave_out;
	unsigned n_jobs;
	struct sc_catalog *catalog; /* of the cases' bands; not read with a kind */
	const struct sc_predict_opts *predict;
	struct sc_progress *(*progress)(void *ctx, size_t n_rows); /* may be NULL */
	void *progress_ctx;
};
struct sc_case {
	const char *name; /* the `case` column, or "row N" */
	size_t row;       /* of the table */
	double measured_ms;
	/* The memory of the fullest GPU, 0 if not given, and its prediction: of tensors where
	 * memory_kind says it is a peak, as PyTorch's allocator counts them, else all that the GPU
	 * has given away. */
	double memory_gib, predicted_gib;
	struct sc_outcome outcome;
	double error_pct;    /* predicted over measured - 1; 0 if it was not predicted */
	const char *skipped; /* why, or NULL */
	const char *kin; /* of a run unlike its kin (study/validate/kin.h): the fastest; or NULL */
	double over_kin; /* its time for a micro-batch over that of kin */
};
struct sc_score {
	size_t n_rows; /* asked for; accuracy.n of them were predicted */
	struct sc_accuracy accuracy;
	double coverage_pct;       /* measured inside low..high */
	double band_pct;           /* median half-width of the band */
	struct sc_accuracy memory; /* of the cases with a memory_gib */
	const struct sc_case **skipped;
	size_t n_skipped;
};
struct sc_group_score {
	const char *column, *value;
	struct sc_score score;
};
struct sc_choices;
struct sc_validation {
	const struct sc_csv *table;
	const char *const *by; /* as it was asked */
	size_t n_by;
	struct sc_case *cases; /* rows that `where` chose, in table order */
	size_t n_cases;
	int confidence_pct;               /* of the bands */
	const struct sc_choices *choices; /* study/validate/choices.h; NULL: not asked for */
	size_t n_failed;                  /* skipped for another reason than SC_EUNSUPPORTED */
	size_t n_bad;                     /* of these: skipped for a cell that cannot be read */
	struct sc_err bad;                /* the first of them */
	size_t n_warned;                  /* predicted, with warnings */
	const char *first_warning;        /* of a kind of operation; NULL: none */
	size_t n_unlike;                  /* cases that are not like their kin */
	bool has_memory;                  /* the table has a column memory_gib */
	struct sc_score all;
	struct sc_group_score *groups; /* by column as asked, then by value */
	size_t n_groups;
};
/* The suite names who measured it; NULL: the table does not say. */
const char *sc_validation_suite(const struct sc_csv *table, size_t row);
/* Numbers of a score with n = 0 are NAN. A bad --where or --by column is SC_EUSAGE. Everything
 * lives in the arena; `table` is borrowed. */
int sc_validate(const struct sc_validate_opts *opts, struct sc_arena *arena,
		struct sc_validation *out, struct sc_err *err);
