/* Searches that may be ended early, with what they have. */
#ifndef SC_STUDY_SHARD_WATCH_H
#define SC_STUDY_SHARD_WATCH_H

#include <signal.h>
#include <stdbool.h>

#include "base/progress.h"

/* Who waits for a search. */
struct sc_search_watch {
	const volatile sig_atomic_t *stop; /* may be NULL; once it is not 0, searches end */
	struct sc_progress *progress;      /* counts seconds; may be NULL */
	double start_s;                    /* of sc_shard_now_s */
	uint64_t shown_s;
	/* Questions whether to stop; so many are answered no, 0: any number. Where tests stop a search, whatever time
	 * it takes. */
	uint64_t n_asked, most_asked;
};
/* Also draws the progress. NULL: nobody does. */
bool sc_search_is_stopped(struct sc_search_watch *watch);
double sc_shard_now_s(void); /* monotonic */

#endif
