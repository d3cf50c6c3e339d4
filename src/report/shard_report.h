/* A study of sharding plans, as text and as JSON. */
#pragma once

#include "report/forms.h"
#include "study/shard/shard_study.h"

enum { SC_SHARD_REPORT_TABLES = 8, SC_SHARD_REPORT_MOVES = 20 };
struct sc_shard_report {
	const struct sc_study *study;
	const struct sc_warnings *warnings; /* of the best plan's step and the request */
	const struct sc_pareto *pareto;     /* or NULL */
	const struct sc_shard_diff *diff;   /* from another plan to the best one, or NULL */
	const char *diff_from;              /* its name */
	double diff_cost;                   /* the other's; < 0: not known */
	int confidence_pct;                 /* of the bands of steps */
};
extern const struct sc_forms sc_shard_forms; /* of a struct sc_shard_report */
