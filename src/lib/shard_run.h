/* `stepcast shard`: what may be asked, for the command and the library, and one run of it with its
 * result in each form. */
#pragma once

#include "core/config/config.h"
#include "lib/options.h"
#include "report/shard_report.h"

/* -1: not given, of numbers. */
struct sc_shard_args {
	struct sc_common common;
	struct sc_arg_list sets, plans, baselines, constraints;
	const char *constraints_file, *current, *diff, *report; /* or NULL */
	double seconds, max_moved_gib;
	double kernel_pct, collective_pct, drift_pct; /* one sigma */
	int64_t max_moved_tables, samples, seed, confidence;
	int objective, json, pareto, device_constants;
	struct sc_search_watch *watch; /* may be NULL */
};
extern const struct sc_cli_option sc_shard_options[];
extern const struct sc_shard_args sc_shard_defaults;

/* The arguments and the request outlive the report; NULL and the error set on failure. */
struct sc_shard_report *sc_shard_run(const struct sc_shard_args *args,
				     const struct sc_request *request, struct sc_arena *arena,
				     struct sc_err *err);
void sc_shard_report_release(struct sc_shard_report *report);
