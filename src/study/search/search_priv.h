/* Parts of a search: the space, the run, what is said of its leaders. */
#ifndef SC_STUDY_SEARCH_PRIV_H
#define SC_STUDY_SEARCH_PRIV_H

#include "study/search/split_search.h"

/* What the rows of one device share. */
struct sc_search_device {
	const char *text, *id; /* as the rows name it; its own name */
	double usd_per_hour, watts;
};
/* What the parts share. */
struct sc_searching {
	const struct sc_search *search;
	struct sc_arena *arena;
	struct sc_search_result *out;
	struct sc_catalog *catalog;
	struct sc_request *facts;         /* of the base with a split of one GPU a replica */
	struct sc_search_device *devices; /* by value of cluster.gpu */
	size_t n_devices;
	double begin_s;
};

/* search_space.c: out->cases, whose codes ascend. */
int sc_search_space(struct sc_searching *s, struct sc_err *err);

#endif
