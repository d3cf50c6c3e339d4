/* Costs of shards under our objective, for planners of others. */
#include <stdlib.h>
#include <string.h>

#include "lib/api_priv.h"
#include "study/shard/shard_iteration.h"
#include "study/shard/shard_objective.h"

enum { BLOCK_BYTES = 64 << 10 };

struct stepcast_costs {
	struct sc_arena arena;
	stepcast_request *given; /* a copy: the request's profiles are its catalog's */
	struct sc_request request;
	struct sc_objective objective;
};

stepcast_costs *stepcast_costs_of(const stepcast_request *request)
{
	stepcast_request *copy = stepcast_request_copy(request);
	const struct sc_config *config;
	stepcast_costs *costs;
	struct sc_api_call call;
	int rc;

	if (!copy)
		return NULL;
	costs = sc_xcalloc(1, sizeof(*costs));
	costs->given = copy;
	sc_arena_init(&costs->arena, BLOCK_BYTES);
	sc_api_enter(&call);
	config = &copy->config;
	rc = sc_config_resolve(config, copy->loaded->catalog, config->file, &costs->request,
			       &call.err);
	if (rc == 0)
		rc = sc_shard_check_size(&costs->request.config.model, &call.err);
	if (rc == 0)
		rc = sc_objective_init(&costs->objective, SC_OBJECTIVE_ITERATION, false,
				       &costs->request, NULL, &costs->arena, &call.err);
	sc_api_leave(&call);
	if (rc == 0)
		return costs;
	stepcast_costs_free(costs);
	return NULL;
}

static int cost_of(const struct sc_shard_problem *problem, const struct sc_table_placement *at,
		   const struct sc_shard *shard, struct stepcast_shard_cost *cost,
		   struct sc_err *err)
{
	const struct sc_table *table = &problem->tables[shard->table];
	struct sc_option_shard s;

	if (shard->rows < 0 || shard->rows > table->rows || shard->cols < 0 ||
	    shard->cols > table->dim)
		return sc_err_set(err, SC_EVALUE, "table \"%.64s\" has no shard of %lld x %lld",
				  table->name, (long long)shard->rows, (long long)shard->cols);
	if (!sc_shard_cost_of(problem, shard->table, at, shard, &s))
		return sc_err_set(err, SC_EUNSUPPORTED, "no cost is known of such a shard");
	*cost = (struct stepcast_shard_cost){
		.forward_ms = s.forward_ms,
		.backward_ms = s.backward_ms,
		.comms_ms = s.comms,
		.prefetch_ms = s.prefetch_ms,
		.hbm_bytes = s.hbm_bytes,
		.host_bytes = s.host_bytes,
		.ssd_bytes = s.ssd_bytes,
	};
	return 0;
}

int stepcast_costs_shard(stepcast_costs *costs, const char *table, const char *type,
			 const char *kernel, long long rows, long long columns,
			 struct stepcast_shard_cost *cost)
{
	const struct sc_shard_problem *problem;
	struct sc_shard shard = {.rows = rows, .cols = columns};
	int kind = 0, tier = 0, rc;
	struct sc_table_placement at;
	struct sc_api_call call;

	if (!costs)
		return -1;
	problem = &costs->objective.problem;
	sc_api_enter(&call);
	while (shard.table < problem->n_tables &&
	       strcmp(problem->tables[shard.table].name, table) != 0)
		shard.table++;
	rc = shard.table < problem->n_tables
		     ? 0
		     : sc_err_set(&call.err, SC_EVALUE, "the model has no table \"%.64s\"", table);
	if (rc == 0)
		rc = sc_enum_parse(sc_shard_type_names, type, &kind, &call.err);
	if (rc == 0)
		rc = sc_enum_parse(sc_tier_names, kernel, &tier, &call.err);
	at = (struct sc_table_placement){
		.type = (enum sc_shard_type)kind,
		.tier = (enum sc_tier)tier,
		.cache_frac = tier == SC_TIER_CACHED ? SC_UVM_CACHE_FRAC : 0,
	};
	if (rc == 0)
		rc = cost_of(problem, &at, &shard, cost, &call.err);
	sc_api_leave(&call);
	return rc ? -1 : 0;
}

void stepcast_costs_free(stepcast_costs *costs)
{
	if (!costs)
		return;
	sc_shard_problem_release(&costs->objective.problem);
	sc_arena_release(&costs->arena);
	stepcast_request_free(costs->given);
	free(costs);
}
