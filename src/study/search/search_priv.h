/* Parts of a search: the space, the run, what is said of its leaders. */
#ifndef SC_STUDY_SEARCH_PRIV_H
#define SC_STUDY_SEARCH_PRIV_H

#include "study/search/split_search.h"

/* What the rows of one device share. */
struct sc_search_device {
	const char *id;
	double usd_per_hour, watts;
};
/* A number that rows may differ in, by value; without a column the base's. */
enum { SC_SEARCH_GPUS, SC_SEARCH_BATCH, SC_SEARCH_SEQ, SC_SEARCH_N_NUMBERS };
struct sc_search_number {
	int column;
	double *at;
};
/* What the parts share. */
struct sc_searching {
	const struct sc_search *search;
	struct sc_arena *arena;
	struct sc_search_result *out;
	struct sc_catalog *catalog;
	struct sc_request *facts;         /* of the base with a split of one GPU a replica */
	int device_column;                /* cluster.gpu */
	struct sc_search_device *devices; /* by its value */
	struct sc_search_number numbers[SC_SEARCH_N_NUMBERS];
	double begin_s;
};

/* Whether it was stopped, or has used so much of its time. */
bool sc_search_is_over(const struct sc_searching *s, double frac);
/* search_space.c: out->cases, whose codes ascend. SC_ELIMIT where it is over before millions are listed. */
int sc_search_space(struct sc_searching *s, struct sc_err *err);

#endif
