/* Finds the best split of a model over GPUs: every combination of what is left open is a row of a
 * table, as a sweep predicts it. Rows that do not fit the memory are left out, and so are,
 * unsimulated, rows that a floor (sc_predict_floor) shows to be worse than the leaders: the best is
 * the best of all under the model. */
#pragma once

#include "study/compare/model_error.h"
#include "study/sweep/sweep.h"

/* An objective is minimised. All are proportional to the iteration's time. */
enum sc_search_objective {
	SC_SEARCH_TIME, /* ms of an iteration; of batches of other sizes: of as many samples; h of a
			   run */
	SC_SEARCH_THROUGHPUT, /* GPU-ms a sample: the largest throughput of a GPU has the least */
	SC_SEARCH_COST,       /* USD of an iteration, or of as many samples, or of a run */
	SC_SEARCH_ENERGY,     /* kJ at the GPUs' board power, as many samples; kWh of a run */
	SC_SEARCH_N_OBJECTIVES
};
extern const char *const sc_search_objective_names[]; /* "time"..., NULL-ended */

enum { SC_SEARCH_MAX_SHOWN = 11, SC_SEARCH_DRAWS = 40, SC_SEARCH_CHUNK = 1 << 10 };
struct sc_search {
	const struct sc_config
		*base;             /* what it gives is not searched, but for `chosen` and `all` */
	const char *const *chosen; /* "path" (its usual values) or "path=a,b" */
	size_t n_chosen;
	bool all;                 /* the split is searched whatever the config gives */
	const char *const *fixed; /* "path=value", in the base already: not searched */
	size_t n_fixed;
	enum sc_search_objective objective[2]; /* [1] counts if `pareto` */
	bool pareto;
	struct sc_run_size
		size;         /* of a run that is looked at in place of an iteration; and prices */
	bool has_costs;       /* the outcomes of what is simulated have costs */
	int confidence_pct;   /* of the bands; 0: SC_CONFIDENCE */
	double memory_margin; /* share of the GPU's memory that stays free */
	bool best_only; /* neither others nor draws; so too where the search is over before them */
	unsigned n_jobs;
	double time_limit_s; /* 0: none */
	struct sc_progress *(*begin_progress)(void *ctx, const char *title, size_t total);
	void *ctx;
	const volatile sig_atomic_t *stop; /* may be NULL: as a time limit that has come */
	struct sc_ranks *ranks;            /* NULL, or processes that search the same */
};
/* The search looks at a run, not at an iteration. */
static inline bool sc_search_is_run(const struct sc_search *search)
{
	return search->size.tokens > 0 || search->size.samples > 0;
}
enum sc_search_state {
	SC_SEARCH_REFUSED,   /* no such split, as the config's checks say */
	SC_SEARCH_TOO_LARGE, /* for the memory */
	SC_SEARCH_LEFT,      /* a floor, and no time for more */
	SC_SEARCH_PRUNED, /* its floor is above the leaders; that it fits is not known if is_least
			   */
	SC_SEARCH_SIMULATED,
	SC_SEARCH_N_STATES
};
extern const char *const sc_search_state_names[]; /* "refused"... */
/* The record of each candidate, 16 bytes; candidates that fit have more in `fits`. */
struct sc_search_row {
	double number; /* floor_ms; of what is too large memory_gib */
	uint32_t at;   /* refused: in errors; else in fits, or SC_SEARCH_NONE */
	uint8_t state; /* enum sc_search_state */
	bool is_least; /* memory_gib is the least of any order of its passes */
};
#define SC_SEARCH_NONE UINT32_MAX
struct sc_search_fit {
	double memory_gib, capacity_gib, factor[2];
	const struct sc_outcome *outcome; /* NULL: not simulated */
};
struct sc_search_case {
	enum sc_search_state state;
	double floor_ms, memory_gib, capacity_gib; /* 0 where not known */
	bool is_least;                             /* memory_gib, at least */
	double factor[2];                 /* of what fits: value of an objective = factor * ms */
	const char *error;                /* if refused */
	const struct sc_outcome *outcome; /* if simulated */
};
/* Another value of one key of the best, and its loss when it alone changes. */
struct sc_search_other {
	const char *path, *value, *text; /* text: NULL, or why it cannot be */
	double loss;                     /* value over the best's - 1 */
};
struct sc_search_shown {
	size_t row;
	double value[2];
	/* These are NAN where the search was over before the draws. */
	double best_in; /* share of the draws of model error in which it is the best shown; equal
			   ones share */
	double regret_frac; /* mean of value over the draw's best - 1 */
};
struct sc_search_result {
	const struct sc_search *search; /* what was asked */
	struct sc_csv cases;            /* the columns are keys; of codes */
	struct sc_search_row *rows;     /* sc_search_case_of */
	struct sc_search_fit **fits;    /* in chunks: sc_search_fit_of */
	const char **errors;
	size_t n_fits;
	size_t n_in[SC_SEARCH_N_STATES];
	/* The best come first: of the least of objective[0] the one of least expected regret, if
	 * `by_regret`; with `pareto` the front. Candidates that are predicted the same to the last
	 * digit are shown once. */
	struct sc_search_shown *shown;
	size_t n_shown;
	bool by_regret;
	bool proven;        /* nothing left out for time: the best is best */
	double floor_value; /* of what was left out for time: the best is within value / this */
	struct sc_search_other *others;
	size_t n_others;
	struct sc_model_error error; /* of the draws */
};
/* All results live in the arena. SC_EUNSUPPORTED means a family without a floor; SC_ELIMIT more
 * candidates than memory holds; SC_ECONFLICT that none is possible or none fits. */
int sc_search_run(const struct sc_search *search, struct sc_arena *arena,
		  struct sc_search_result *out, struct sc_err *err);
static inline struct sc_search_fit *sc_search_fit_of(const struct sc_search_result *result,
						     uint32_t at)
{
	return &result->fits[at / SC_SEARCH_CHUNK][at % SC_SEARCH_CHUNK];
}
struct sc_search_case sc_search_case_of(const struct sc_search_result *result, size_t row);

/* The best at one number of GPUs. */
struct sc_scaling_point {
	int64_t gpus;
	const char *error; /* why there is none; else NULL */
	const char *split; /* "tp 8, pp 4": the keys that were searched */
	struct sc_outcome best;
	bool proven;
	double speedup, efficiency; /* of throughput, against the first point that has a best */
};
/* `sizes` ascend; search->base->gpus does not count. weak: the batch is the base's at the first
 * size, and grows with the GPUs; else the batch stays. */
struct sc_scaling {
	const struct sc_search *search;
	const int64_t *sizes;
	size_t n;
	bool weak;
	struct sc_scaling_point *points; /* set by sc_scaling_run: one a size */
};
int sc_scaling_run(struct sc_scaling *scaling, struct sc_arena *arena, struct sc_err *err);
