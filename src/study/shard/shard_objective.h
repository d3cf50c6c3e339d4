/* What a sharding plan is ranked by, and all that it takes to do so: a request's tables, the problem with
 * its costs, the planners that go with it. */
#ifndef SC_STUDY_SHARD_OBJECTIVE_H
#define SC_STUDY_SHARD_OBJECTIVE_H

#include "core/config/config.h"
#include "predict/predict.h"
#include "study/shard/objective_kind.h"
#include "study/shard/shard.h"

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
/* Are there few enough tables to choose among their options? */
int sc_shard_check_size(const struct sc_model *model, struct sc_err *err);
uint32_t sc_shard_ranks_per_host(const struct sc_request *request);
/* `device_constants`: TORCHREC with the bandwidths of the request's GPU in place of its own. */
int sc_objective_init(struct sc_objective *objective, enum sc_objective_kind kind,
		      bool device_constants, const struct sc_request *request,
		      struct sc_arena *arena, struct sc_err *err);
void sc_objective_release(struct sc_objective *objective);

/* TorchRec's planner for a request: its own constants, but for what the GPU holds; on request the GPU's
 * bandwidths too. */
void sc_torchrec_topology_of(const struct sc_request *request, bool device_constants,
			     struct sc_torchrec_topology *out);
/* How HugeCTR's planner is run for a request. */
void sc_hugectr_opts_of(const struct sc_request *request, struct sc_hugectr_opts *out);

#endif
