/* Shared by the parts of a search: the space, the run, and the judgement of its leaders. */
#pragma once

#include "base/intern.h"
#include "base/vec.h"
#include "study/search/split_search.h"

#define SC_SEARCH_SOON_S 0.1 /* between looks at the clock, where there is a limit */

/* A number in which rows may differ, by the value of a column; without the column it is the base's.
 */
enum {
	SC_SEARCH_GPUS,
	SC_SEARCH_BATCH,
	SC_SEARCH_SEQ,
	SC_SEARCH_USD, /* an hour of its GPU, and the GPU's power: both by cluster.gpu */
	SC_SEARCH_WATTS,
	SC_SEARCH_N_NUMBERS
};
struct sc_search_number {
	int column;
	double *at;
};
/* A row that is simulated, with the values of both objectives, and its memory. */
struct sc_search_leader {
	double x, y, gib;
	size_t row;
};
/* The state of a search in progress. */
struct sc_searching {
	const struct sc_search *search;
	struct sc_arena *arena;
	struct sc_search_result *out;
	struct sc_catalog *catalog;
	struct sc_sweep sweep;    /* of all rows */
	struct sc_request *facts; /* of the base with a split of one GPU a replica */
	struct sc_search_number numbers[SC_SEARCH_N_NUMBERS];
	double begin_s;
	SC_VEC(struct sc_search_leader) leaders; /* all simulated, by x */
	struct sc_intern errors;
	struct sc_arena scratch; /* of a batch of floors */
	uint32_t large;          /* in fits: the capacity that the last one that is too large has */
	bool fits;               /* any does */
};

/* The time since the search began; with ranks, what all have heard last. */
double sc_search_s(const struct sc_searching *s);
/* The search was stopped, or has used so much of its time. */
bool sc_search_is_over(const struct sc_searching *s, double frac);
/* Makes out->cases, whose codes ascend (search_space.c). SC_ELIMIT means that it is over before
 * millions are listed. */
int sc_search_space(struct sc_searching *s, struct sc_err *err);
/* Predicts the rows that `how` names, as many outcomes; those of floors have scratch texts. */
int sc_search_predict(struct sc_searching *s, const struct sc_sweep *how, struct sc_outcome *out,
		      struct sc_err *err);
/* Simulates rows that fit, which keep their outcomes. */
int sc_search_simulate(struct sc_searching *s, const size_t *rows, size_t n, struct sc_err *err);

/* Reads the numbers and devices that rows name; an objective's value is a factor times a row's time
 * (search_value.c). */
int sc_search_read_values(struct sc_searching *s, struct sc_err *err);
double sc_search_number(const struct sc_searching *s, size_t row, int which);
double sc_search_factor(const struct sc_searching *s, size_t row, int objective);

/* search_floors.c */
int sc_search_floors(struct sc_searching *s, struct sc_err *err);
double sc_search_least_gpu_ms(const struct sc_searching *s);
struct sc_search_row sc_search_refuse(struct sc_searching *s, const char *error);
/* A row becomes what its floor says, or, if it does not fit, its memory alone. */
bool sc_search_fits(const struct sc_searching *s, const struct sc_outcome *outcome);
struct sc_search_row sc_search_judge(struct sc_searching *s, const struct sc_outcome *outcome,
				     size_t row);
static inline bool sc_search_is_judged(const struct sc_search_row *row)
{
	return row->at != SC_SEARCH_NONE;
}

/* search_alike.c: judges the rows that cannot be or do not fit, by one of all that are alike in
 * what decides that. Those that are not judged by it come first of `rows` then. */
int sc_search_screen(struct sc_searching *s, const struct sc_predict_opts *opts, size_t *rows,
		     size_t *n, struct sc_err *err);

/* search_best.c */
int sc_search_others(struct sc_searching *s, struct sc_err *err);
int sc_search_regret(struct sc_searching *s, struct sc_err *err);
