/* See the header. */
#include "study/shard/shard_watch.h"

#include <time.h>

#include "base/units.h"

double sc_shard_now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / (double)SC_NS_PER_S;
}

bool sc_search_is_stopped(struct sc_search_watch *watch)
{
	double gone_s;

	if (!watch)
		return false;
	if (watch->progress) {
		gone_s = sc_shard_now_s() - watch->start_s;
		if (gone_s >= (double)watch->shown_s + 1) {
			sc_progress_add(watch->progress, (uint64_t)gone_s - watch->shown_s);
			watch->shown_s = (uint64_t)gone_s;
		}
	}
	if (watch->most_asked && ++watch->n_asked > watch->most_asked)
		return true;
	return watch->stop && *watch->stop;
}
