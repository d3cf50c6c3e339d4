/* N independent items over J threads. Items are handed out in order; the result does not depend on
 * timing: when items fail, the error is that of the lowest one. */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct sc_work {
	size_t n_items;
	size_t chunk; /* items taken at a time; 0 = 1. Larger where an item is a few microseconds */
	unsigned n_jobs; /* threads, the caller's own among them; 0 = 1 */
	/* Returns 0, or a negative code with *err set; then no later item is begun. `thread_ctx` is
	 * contexts[job] (NULL if contexts is NULL), never used by two threads at once. */
	int (*item)(void *shared, void *thread_ctx, size_t index, struct sc_err *err);
	void *shared;
	void *const *contexts; /* n_jobs of them, or NULL */
};

/* Items after a failed one may have run too; all before it have. If threads cannot be started, the
 * rest do the work. */
int sc_parallel_for(const struct sc_work *work, struct sc_err *err);
unsigned sc_cpu_count(void); /* processors online, at least 1 */
