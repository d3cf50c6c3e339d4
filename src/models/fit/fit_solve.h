/* The one solver of fits, and the errors of what it found: for kernels and collectives (fit.c) and
 * for whole iterations (study/fit). */
#pragma once

#include "core/graph/op.h"
#include "models/collective/collective.h"
#include "models/fit/fit.h"
#include "models/interference.h"

enum {
	SC_FIT_MAX_OPS = 3, /* kernels of one row: a backward GEMM is two, and a cast */
	SC_FIT_MAX_DIMS = 4,
	SC_FIT_NO_FOLD = SC_FIT_MAX_FOLDS, /* never held out */
	SC_FIT_ALL
}; /* no fold: all rows */

/* A measured time and what was timed. */
struct sc_fit_row {
	struct sc_op op[SC_FIT_MAX_OPS];
	unsigned n_ops;
	unsigned request; /* index: of a collective's network, of an iteration's config */
	struct sc_span span;
	int only;                         /* as struct sc_fabric asks */
	struct sc_interfere_seen seen;    /* interference */
	double told_us, told_spread_frac; /* of parts of layers, by the models; 0: `op` are timed */
	double time_us;
	double weight;   /* 1 on average */
	double bound_us; /* no machine of these peaks is faster */
	double dim[SC_FIT_MAX_DIMS];
	unsigned source, origin, device; /* indices in the set */
	const char *pass, *op_name;      /* NULL where the table has none */
	const char *warning;             /* NULL: none */
	const char *group;               /* --leave-out: the cell; --hold-out: NULL or not */
	uint64_t shape;                  /* equal for rows of one shape: a fold never splits them */
	unsigned fold;
};
struct sc_fit_problem {
	/* Times of the rows at each of n settings of the coefficients: values by setting, then
	 * coefficient; us by setting, then row. */
	void (*times)(const struct sc_fit_problem *problem, const double *values, size_t n,
		      double *us);
	void *model;
	const struct sc_fit_row *const *rows;
	size_t n;
	struct sc_fit_params *params; /* that change */
	/* The price that a fit asks for the distance of a coefficient, in logs, from its like
	 * (those of other links, of other networks) or from its start, of the mean error; then
	 * errors count by their size, not by their square. 0: the rows alone decide. */
	double pull;
	const struct sc_fit_params *near; /* where to start, too; NULL: from places around */
	double step; /* of differences, relative; 0: as small as doubles allow */
};
/* Fits the parameters that are SC_FIT_FITTED to the rows, from several starts; the rest stay as
 * they are. Leaves value, status and standard error in problem->params. `condition` NULL: the same
 * parameters once more, over other rows, from where they are. */
int sc_fit_search(const struct sc_fit_problem *problem, double *condition, struct sc_err *err);

/* Each value of rows[i].group is a fold, by the table; `option` and `column` are for messages. */
int sc_fit_deal_groups(struct sc_fit_row *rows, size_t n, const char *option, const char *column,
		       size_t *n_folds, const char *file, struct sc_err *err);
/* Rows outside `fold` (SC_FIT_ALL: all rows), at most `n_max`, evenly taken. */
size_t sc_fit_pick(const struct sc_fit_row *rows, size_t n, size_t fold, size_t n_max,
		   const struct sc_fit_row **out);
/* The errors that the points have: those of all rows, of those held out, and of these by region. */
struct sc_fit_label {
	const char *by;
	const char **of_row; /* NULL: in none of this region's values */
};
void sc_fit_score(const struct sc_fit_label *labels, size_t n_labels, struct sc_arena *arena,
		  struct sc_fit *out);
