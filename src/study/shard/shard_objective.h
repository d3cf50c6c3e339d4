/* The objective by which sharding plans are ranked, with all that the ranking takes: a request's
 * tables, the problem with its costs, the planners that go with it. */
#pragma once

#include "core/config/config.h"
#include "predict/predict.h"
#include "study/shard/shard.h"

enum sc_objective_kind {
	SC_OBJECTIVE_ITERATION, /* the predicted step; its problem is a proxy that adds up */
	SC_OBJECTIVE_TORCHREC,  /* the busiest rank by TorchRec's planner */
	SC_OBJECTIVE_HUGECTR    /* the busiest GPU by HugeCTR's planner */
};
extern const char *const sc_objective_names[]; /* NULL ends */

struct sc_objective {
	enum sc_objective_kind kind;
	const char *unit; /* of a cost: "ms", or "hotness" */
	const struct sc_request *request;
	struct sc_arena *arena;
	struct sc_table_list tables;
	struct sc_shard_problem problem;
	struct sc_torchrec_topology topology;
	bool device_constants; /* of TorchRec's planner: the GPU's bandwidths */
};
/* Fails where there are too many tables to choose among their options. */
int sc_shard_check_size(const struct sc_model *model, struct sc_err *err);
/* `device_constants`: TORCHREC has the bandwidths of the request's GPU in place of its own.
 * `watch`: a signal ends it with an error; may be NULL. */
int sc_objective_init(struct sc_objective *objective, enum sc_objective_kind kind,
		      bool device_constants, const struct sc_request *request,
		      const struct sc_search_watch *watch, struct sc_arena *arena,
		      struct sc_err *err);

/* The options with which the planners of HugeCTR and of TorchRec run for a request. */
void sc_hugectr_opts_of(const struct sc_request *request, struct sc_hugectr_opts *out);
void sc_torchrec_topology_of(const struct sc_request *request, bool device_constants,
			     struct sc_torchrec_topology *out);

/* A start is a named way to make a plan: our search under a variant of its costs, another program's
 * planner, or how a paper places whole tables. A start knows nothing of the others; a search goes
 * on from the best. */
struct sc_start_ask {
	const struct sc_request
		*request; /* whose tables planners place; NULL where none is asked */
	const struct sc_shard_problem *problem; /* NULL where planners alone are asked */
	const struct sc_solve_opts *solve;
	bool device_constants; /* torchrec: the GPU's bandwidths in place of its own */
	double exchange;       /* searches: a factor on what exchanges cost; 0 = 1 */
	struct sc_arena *arena;
};
struct sc_made_plan {
	struct sc_shard_plan plan;
	size_t cut_short_tables; /* not 0: the planner had more to try with so many */
};
struct sc_start {
	const char *name;
	bool is_search;
	bool begins; /* a search by steps goes on from it */
	int (*make)(const struct sc_start *start, const struct sc_start_ask *ask,
		    struct sc_made_plan *out, struct sc_err *err);
	int max_cells; /* tables times ranks up to which to begin from it is worth the time; 0: any
			*/
	/* A search's factor on exchanges, and the types it leaves out, as bits. */
	double exchange;
	unsigned without;
	/* The factors that a greedy placement of whole tables balances, as bits; 0: no greedy
	 * placement. */
	unsigned key;
};
extern const struct sc_start sc_starts[];               /* no name ends */
const struct sc_start *sc_start_find(const char *name); /* NULL: none */
