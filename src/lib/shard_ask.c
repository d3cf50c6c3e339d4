/* See the header. */
#include "lib/shard_ask.h"

enum { MAX_SECONDS = 86400, MAX_TABLES = 1 << 20, MAX_SAMPLES = 1000000 };

#define AT(member) offsetof(struct sc_shard_args, member)
const struct sc_cli_option sc_shard_options[] = {
	{.name = "plan",
	 .kind = SC_ARG_LIST,
	 .file = SC_FILE_IN,
	 .arg = "FILE",
	 .offset = AT(plans),
	 .help = "rank this plan; may be given again"},
	{.name = "search",
	 .kind = SC_ARG_NUMBER,
	 .arg = "SECONDS",
	 .offset = AT(ask.seconds),
	 .min = 0,
	 .max = MAX_SECONDS,
	 .help = "search for a plan, at most so long; 0 is one quick descent, the same on every "
		 "machine (default if no --plan and no --baseline is given)"},
	{.name = "objective",
	 .kind = SC_ARG_CHOICE,
	 .arg = "iteration|torchrec|hugectr",
	 .offset = AT(objective),
	 .choices = sc_objective_names,
	 .help = "what a plan is ranked by: the predicted step (default), or the busiest rank as that "
		 "planner costs it"},
	{.name = "device-constants",
	 .kind = SC_ARG_FLAG,
	 .offset = AT(device_constants),
	 .help = "torchrec: the bandwidths of the config's GPU and cluster in place of its own"},
	{.name = "baseline",
	 .kind = SC_ARG_LIST,
	 .arg = "NAME",
	 .offset = AT(baselines),
	 .help = "rank this planner's plan, or all of them; may be given again"},
	{.name = "constraint",
	 .kind = SC_ARG_LIST,
	 .arg = "TEXT",
	 .offset = AT(constraints),
	 .help = "hold the search to it: \"pin TABLE rank=R type=T tier=K\", \"forbid TABLE ...\", "
		 "\"together A B\", \"apart A B\"; may be given again"},
	{.name = "constraints",
	 .kind = SC_ARG_TEXT,
	 .file = SC_FILE_IN,
	 .arg = "FILE",
	 .offset = AT(ask.constraints_file),
	 .help = "the same, one a line"},
	{.name = "current",
	 .kind = SC_ARG_TEXT,
	 .file = SC_FILE_IN,
	 .arg = "FILE",
	 .offset = AT(ask.current),
	 .help = "rank this plan, and search from it on, within --max-moved-gib and "
		 "--max-moved-tables"},
	{.name = "max-moved-gib",
	 .kind = SC_ARG_NUMBER,
	 .arg = "GIB",
	 .offset = AT(ask.max_moved_gib),
	 .min = 0,
	 .max = 1e9,
	 .help = "with --current: weights that may move (default: any)"},
	{.name = "max-moved-tables",
	 .kind = SC_ARG_INT,
	 .arg = "N",
	 .offset = AT(ask.max_moved_tables),
	 .min = 0,
	 .max = MAX_TABLES,
	 .help = "with --current: tables that may change (default: any)"},
	{.name = "diff",
	 .kind = SC_ARG_TEXT,
	 .file = SC_FILE_IN,
	 .arg = "FILE",
	 .offset = AT(ask.diff),
	 .help = "say what changes from this plan to the best one"},
	{.name = "pareto",
	 .kind = SC_ARG_FLAG,
	 .offset = AT(pareto),
	 .help = "the best cost for less and less GPU memory"},
	{.name = "samples",
	 .kind = SC_ARG_INT,
	 .arg = "N",
	 .offset = AT(ask.samples),
	 .min = 0,
	 .max = MAX_SAMPLES,
	 .help = "draws of model error and drift for best %, regret and ties (default 1000, fewer "
		 "for more than 4,000 tables, 200 for a plan alone; 0: none)"},
	{.name = "kernel-error",
	 .kind = SC_ARG_NUMBER,
	 .arg = "PCT",
	 .offset = AT(ask.kernel_pct),
	 .min = 0,
	 .max = 100,
	 .help = "one sigma of the kernels' model (default: the device's embedding spread)"},
	{.name = "collective-error",
	 .kind = SC_ARG_NUMBER,
	 .arg = "PCT",
	 .offset = AT(ask.collective_pct),
	 .min = 0,
	 .max = 100,
	 .help = "one sigma of each collective's model (default: the fabric's spread)"},
	{.name = "drift",
	 .kind = SC_ARG_NUMBER,
	 .arg = "PCT",
	 .offset = AT(ask.drift_pct),
	 .min = 0,
	 .max = 100,
	 .help = "one sigma of a table's lookups, from those given (default 10)"},
	{.name = "seed",
	 .kind = SC_ARG_INT,
	 .arg = "N",
	 .offset = AT(ask.seed),
	 .min = 0,
	 .max = 1e15,
	 .help = "of all that is random (default 1)"},
	SC_CLI_OPTION_REPORT(AT(report)),
	SC_CLI_OPTION_BASE_SET(AT(sets)),
	{.name = "json", .kind = SC_ARG_FLAG, .offset = AT(json), .help = "write JSON to stdout"},
	{0},
};

void sc_shard_args_init(struct sc_shard_args *args)
{
	*args = (struct sc_shard_args){
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
}

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
