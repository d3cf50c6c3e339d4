/* Parts of a search: the space, the run, what is said of its leaders. */
#ifndef SC_STUDY_SEARCH_PRIV_H
#define SC_STUDY_SEARCH_PRIV_H

#include "study/search/split_search.h"

/* What the rows of one device share. */
struct sc_search_device {
	const char *text, *id; /* as the rows name it; its own name */
	double usd_per_hour, watts;
};
/* Keys whose numbers decide, beside the device, what a time is worth. */
enum sc_search_number { SC_SEARCH_GPUS, SC_SEARCH_BATCH, SC_SEARCH_SEQ, SC_SEARCH_N_NUMBERS };
/* What the parts share. */
struct sc_searching {
	const struct sc_search *search;
	struct sc_arena *arena;
	struct sc_search_result *out;
	struct sc_catalog *catalog;
	struct sc_request *facts;         /* of the base with a split of one GPU a replica */
	struct sc_search_device *devices; /* by value of cluster.gpu */
	struct sc_csv_digit device_digit, digit[SC_SEARCH_N_NUMBERS];
	const double *number[SC_SEARCH_N_NUMBERS]; /* by value of the digit */
	double begin_s;
};

/* search_space.c: out->cases. Rows that differ in nothing but keys that neither a refusal nor memory depends on follow
 * each other: sc_search_begins says whether a row is the first of these. */
int sc_search_space(struct sc_searching *s, struct sc_err *err);
bool sc_search_begins(const struct sc_csv *cases, size_t row);

#endif
