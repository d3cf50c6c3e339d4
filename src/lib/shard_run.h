/* One run of `stepcast shard`: what was asked for, and its result in each form. Apart from the command's
 * option table, which has names that sharding has too. */
#ifndef SC_LIB_SHARD_RUN_H
#define SC_LIB_SHARD_RUN_H

#include <stdio.h>

#include "base/strbuf.h"
#include "core/config/config.h"
#include "study/shard/objective_kind.h"

struct sc_texts {
	const char **at;
	size_t n;
};
/* -1: not given, of numbers. */
struct sc_shard_ask {
	enum sc_objective_kind objective;
	struct sc_texts plans, baselines, constraints;
	const char *constraints_file, *current, *diff; /* or NULL */
	double seconds, max_moved_gib;
	double kernel_pct, collective_pct, drift_pct; /* one sigma */
	int64_t max_moved_tables, samples, seed;
	bool pareto, device_constants;
	struct sc_search_watch *watch;
};
struct sc_shard_run;
/* The request outlives the run; NULL and the error set on failure. */
struct sc_shard_run *sc_shard_run_create(const struct sc_shard_ask *ask,
					 const struct sc_request *request, struct sc_arena *arena,
					 struct sc_err *err);
void sc_shard_run_destroy(struct sc_shard_run *run);
void sc_shard_run_text(const struct sc_shard_run *run, struct sc_strbuf *out);
int sc_shard_run_json(const struct sc_shard_run *run, FILE *out, struct sc_err *err);
void sc_shard_run_plan(const struct sc_shard_run *run, struct sc_strbuf *out); /* the best one */

#endif
