/* See the header. */
#include "lib/shard_ask.h"

enum { MAX_SECONDS = 86400, MAX_TABLES = 1 << 20, MAX_SAMPLES = 1000000 };

#define SC_ARGS struct sc_shard_args
const struct sc_cli_option sc_shard_options[] = {
	SC_OPT_INS(plans, "plan", "FILE", "rank this plan; may be given again"),
	SC_OPT_NUMBER(
		ask.seconds, "search", "SECONDS", 0, MAX_SECONDS,
		"search for a plan, at most so long; 0 is one quick descent, the same on every machine (default if no --plan and no --baseline is given)"),
	SC_OPT_CHOICE(
		objective, "objective", "iteration|torchrec|hugectr", sc_objective_names,
		"what a plan is ranked by: the predicted step (default), or the busiest rank as that planner costs it"),
	SC_OPT_FLAG(device_constants, "device-constants",
		    "torchrec: the bandwidths of the config's GPU and cluster in place of its own"),
	SC_OPT_LIST(baselines, "baseline", "NAME",
		    "rank this planner's plan, or all of them; may be given again"),
	SC_OPT_LIST(
		constraints, "constraint", "TEXT",
		"hold the search to it: \"pin TABLE rank=R type=T tier=K\", \"forbid TABLE ...\", \"together A B\", \"apart A B\"; may be given again"),
	SC_OPT_IN(ask.constraints_file, "constraints", "FILE", "the same, one a line"),
	SC_OPT_IN(
		ask.current, "current", "FILE",
		"rank this plan, and search from it on, within --max-moved-gib and --max-moved-tables"),
	SC_OPT_NUMBER(ask.max_moved_gib, "max-moved-gib", "GIB", 0, 1e9,
		      "with --current: weights that may move (default: any)"),
	SC_OPT_INT(ask.max_moved_tables, "max-moved-tables", "N", 0, MAX_TABLES,
		   "with --current: tables that may change (default: any)"),
	SC_OPT_IN(ask.diff, "diff", "FILE", "say what changes from this plan to the best one"),
	SC_OPT_FLAG(pareto, "pareto", "the best cost for less and less GPU memory"),
	SC_OPT_INT(
		ask.samples, "samples", "N", 0, MAX_SAMPLES,
		"draws of model error and drift for best %, regret and ties (default 1000, fewer for more than 4,000 tables, 200 for a plan alone; 0: none)"),
	SC_OPT_NUMBER(ask.kernel_pct, "kernel-error", "PCT", 0, 100,
		      "one sigma of the kernels' model (default: the device's embedding spread)"),
	SC_OPT_NUMBER(ask.collective_pct, "collective-error", "PCT", 0, 100,
		      "one sigma of each collective's model (default: the fabric's spread)"),
	SC_OPT_NUMBER(ask.drift_pct, "drift", "PCT", 0, 100,
		      "one sigma of a table's lookups, from those given (default 10)"),
	SC_OPT_INT(ask.seed, "seed", "N", 0, 1e15, "of all that is random (default 1)"),
	SC_OPT_REPORT(report),
	SC_OPT_BASE_SET(sets),
	SC_OPT_FLAG(json, "json", "write JSON to stdout"),
	{0},
};

const struct sc_shard_args sc_shard_defaults = {
	.ask =
		{
			.seconds = -1,
			.max_moved_gib = -1,
			.max_moved_tables = -1,
			.kernel_pct = -1,
			.collective_pct = -1,
			.drift_pct = -1,
			.seed = 1,
			.samples = -1,
		},
};

static struct sc_texts texts(const struct sc_arg_list *list)
{
	return (struct sc_texts){.at = list->at, .n = list->n};
}

void sc_shard_args_ask(struct sc_shard_args *args)
{
	args->ask.objective = (enum sc_objective_kind)args->objective;
	args->ask.plans = texts(&args->plans);
	args->ask.baselines = texts(&args->baselines);
	args->ask.constraints = texts(&args->constraints);
	args->ask.pareto = args->pareto;
	args->ask.device_constants = args->device_constants;
}
