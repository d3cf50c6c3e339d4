/* Reads the plan that a request names, or has a planner make one: the one that the request names,
 * else the one that its software has by habit, else ours. */
#include "study/shard/shard_choose.h"

#include "predict/dlrm/dlrm.h"
#include "study/shard/shard_objective.h"
#include "study/shard/shard_step.h"

enum { ARENA_BLOCK_BYTES = 64 << 10 };

enum sc_planner sc_request_planner(const struct sc_request *req)
{
	enum sc_planner own = req->config.sharding.planner;
	const struct sc_habit *habit = sc_habit_of(req, "sharding.planner");

	if (own == SC_PLANNER_NONE && habit)
		own = *(const enum sc_planner *)habit->value;
	return own == SC_PLANNER_NONE ? SC_PLANNER_STEPCAST : own;
}

int sc_chosen_plan_init(struct sc_chosen_plan *chosen, const struct sc_request *request,
			struct sc_err *err)
{
	const struct sc_start_ask ask = {.request = request, .arena = &chosen->arena};
	enum sc_planner planner = sc_request_planner(request);
	const struct sc_key_text given = {"sharding.plan", request->config.sharding.plan};
	struct sc_table_list tables;
	const char *path;
	int rc = 0;

	*chosen = (struct sc_chosen_plan){.is_there = request->config.model.family == SC_DLRM};
	sc_arena_init(&chosen->arena, ARENA_BLOCK_BYTES);
	if (!chosen->is_there)
		return 0;
	if (given.text) {
		rc = sc_config_file_of(&request->config, given, &chosen->arena, &path, err);
		sc_dlrm_tables(request, &chosen->arena, &tables);
		if (rc == 0)
			rc = sc_shard_plan_load(path, &tables, &chosen->arena, &chosen->made.plan,
						err);
	} else if (planner != SC_PLANNER_STEPCAST) {
		const struct sc_start *by =
			sc_start_find(sc_enum_name(sc_planner_names, (int)planner));

		rc = by->make(by, &ask, &chosen->made, err);
	} else {
		rc = sc_shard_check_size(&request->config.model, err);
		if (rc == 0)
			rc = sc_step_plan(request, &chosen->arena, &chosen->made.plan, err);
	}
	if (rc) {
		chosen->is_there = false;
		sc_chosen_plan_release(chosen);
	}
	return rc;
}

void sc_chosen_plan_release(struct sc_chosen_plan *chosen)
{
	sc_shard_plan_release(&chosen->made.plan);
	sc_arena_release(&chosen->arena);
}

void sc_chosen_plan_warn(const struct sc_chosen_plan *chosen, struct sc_prediction *out)
{
	if (chosen->made.cut_short_tables)
		sc_warn(&out->warnings,
			"TorchRec's planner would go on for long with %zu tables; the best of its "
			"first proposals is taken",
			chosen->made.cut_short_tables);
}
