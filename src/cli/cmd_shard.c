/* stepcast shard: where the embedding tables of a DLRM go. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/shard_run.h"
#include "cli/start.h"
#include "study/shard/shard_watch.h"

struct shard_args {
	struct sc_common common;
	struct sc_arg_list sets, plans, baselines, constraints;
	struct sc_shard_ask ask;
	int objective, json, pareto, device_constants;
	const char *report;
};
enum { MAX_SECONDS = 86400, MAX_TABLES = 1 << 20, MAX_SAMPLES = 1000000 };

#define AT(member) offsetof(struct shard_args, member)
static const struct sc_cli_option OPTIONS[] = {
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
	{.name = "task-tables",
	 .kind = SC_ARG_TEXT,
	 .file = SC_FILE_IN,
	 .arg = "FILE",
	 .offset = AT(ask.task_tables),
	 .help = "the table_configs.json of DreamShard or NeuroShard: with --tasks, its tables are "
		 "placed in place of the CONFIG's"},
	{.name = "tasks",
	 .kind = SC_ARG_TEXT,
	 .file = SC_FILE_IN,
	 .arg = "FILE",
	 .offset = AT(ask.tasks),
	 .help = "their tasks: on each line numbers of tables, and perhaps their dims"},
	{.name = "task",
	 .kind = SC_ARG_INT,
	 .arg = "LINE",
	 .offset = AT(ask.task),
	 .min = 1,
	 .max = MAX_TABLES,
	 .help = "which of them (default 1)"},
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

static int put_json(const void *ctx, FILE *out, struct sc_err *err)
{
	return sc_shard_run_json(ctx, out, err);
}

struct page {
	const struct shard_args *args;
	const struct sc_shard_run *run;
};

static void put_page(const void *ctx, struct sc_strbuf *out)
{
	const struct page *page = ctx;

	sc_shard_run_html(page->run, page->args->common.words.at[0], out);
}

static int write_result(const struct shard_args *args, const struct sc_shard_run *run,
			struct sc_err *err)
{
	const char *output = args->common.output;
	struct sc_strbuf text = {0};
	int rc = 0;

	if (strcmp(output, "-") != 0) {
		sc_shard_run_plan(run, &text);
		rc = sc_cli_write_text(output, &text, err);
	}
	if (rc == 0)
		rc = sc_cli_write_page(args->report, put_page, &(struct page){args, run}, err);
	if (rc == 0 && args->json) {
		rc = sc_cli_write("-", put_json, run, err);
	} else if (rc == 0) {
		sc_strbuf_clear(&text);
		sc_shard_run_text(run, &text);
		rc = sc_cli_write_text("-", &text, err);
	}
	sc_strbuf_release(&text);
	return rc;
}

static struct sc_texts texts(const struct sc_arg_list *list)
{
	return (struct sc_texts){.at = list->at, .n = list->n};
}

/* Ends early, if asked, with the best so far. */
static struct sc_shard_run *search(struct shard_args *args, const struct sc_request *request,
				   struct sc_arena *arena, struct sc_err *err)
{
	double seconds = args->ask.seconds > 0 ? ceil(args->ask.seconds) : 0;
	struct sc_search_watch watch = {
		.stop = sc_cli_catch_stop(),
		.progress = sc_cli_progress(&args->common, "search, seconds", (size_t)seconds),
		.start_s = sc_shard_now_s(),
	};
	struct sc_shard_run *run;

	args->ask.watch = &watch;
	run = sc_shard_run_create(&args->ask, request, arena, err);
	sc_progress_destroy(watch.progress);
	if (run && *watch.stop)
		sc_cli_warn(&args->common,
			    "the search was stopped; its best plan so far is listed");
	return run;
}

static int shard(struct shard_args *args, struct sc_catalog *catalog, struct sc_arena *arena,
		 struct sc_err *err)
{
	const char *path = args->common.words.at[0];
	struct sc_request *request = sc_arena_calloc(arena, 1, sizeof(*request));
	struct sc_shard_run *run;
	struct sc_config config;
	int rc = sc_cli_config(path, &args->sets, arena, &config, err);

	if (rc == 0)
		rc = sc_shard_ask_tables(&args->ask, arena, &config, err);
	if (rc == 0)
		rc = sc_config_resolve(&config, catalog, path, request, err);
	if (rc)
		return rc;
	sc_cli_warn_all(&args->common, &request->warnings);
	args->ask.objective = (enum sc_objective_kind)args->objective;
	args->ask.plans = texts(&args->plans);
	args->ask.baselines = texts(&args->baselines);
	args->ask.constraints = texts(&args->constraints);
	args->ask.pareto = args->pareto;
	args->ask.device_constants = args->device_constants;
	run = search(args, request, arena, err);
	if (!run)
		return -1;
	rc = write_result(args, run, err);
	sc_shard_run_destroy(run);
	return rc;
}

static int run_shard(const struct sc_line *line)
{
	struct shard_args args = {
		.ask =
			{
				.seconds = -1,
				.max_moved_gib = -1,
				.max_moved_tables = -1,
				.kernel_pct = -1,
				.collective_pct = -1,
				.drift_pct = -1,
				.seed = 1,
				.task = 1,
				.samples = -1,
			},
	};
	struct sc_err err = {.code = SC_OK};
	struct sc_catalog *catalog;
	struct sc_arena arena;
	int exit_code = SC_EXIT_DONE;

	sc_arena_init(&arena, SC_CLI_ARENA_BYTES);
	if (sc_cli_begin(line, &args, &arena, &exit_code)) {
		catalog = sc_catalog_create();
		if (shard(&args, catalog, &arena, &err))
			exit_code = sc_cli_fail(&err);
		sc_catalog_destroy(catalog);
	}
	sc_arena_release(&arena);
	return exit_code;
}

const struct sc_command sc_command_shard = {
	.name = "shard",
	.n_words = 1,
	.words_asked = "one CONFIG",
	.summary = "rank sharding plans of embedding tables, and search for one",
	.synopsis = "CONFIG [--plan FILE]... [--search SECONDS] [--objective "
		    "iteration|torchrec|hugectr] [-o PLAN.json] [--report FILE.html] [--json]",
	.details =
		"Ranks plans that place the embedding tables of the CONFIG (a DLRM), and searches for a "
		"better one. Says what each costs, how far that is at most from the best possible (a "
		"lower bound), which rank is the busiest and why, the memory of each tier, how likely "
		"each plan is the best one within the models' errors, and what is odd about the best.\n\n"
		"Plans are read as JSON (written by -o, which mirrors TorchRec's ParameterSharding; "
		"scripts/torchrec_plan_loader.py makes a ShardingPlan of it), as the table that "
		"TorchRec's planner prints, as HugeCTR's shard matrix, or as a NeuroShard result. -o "
		"writes the best plan of those listed, so with --baseline hugectr alone HugeCTR's own; the "
		"report goes to stdout.\n\n"
		"Baselines: naive, chunk, random, size_greedy, dim_greedy, lookup_greedy, "
		"size_lookup_greedy, norm_lookup_greedy, lpt; the planners of TorchRec (torchrec), HugeCTR "
		"(hugectr), distributed-embeddings (memory_balanced) and NVIDIA's DLRM (lookups); or "
		"all.\n\n"
		"Constraints: a TABLE may end in *, for all that begin so. T is data_parallel, table_wise, "
		"column_wise, row_wise, table_row_wise, table_column_wise or grid_shard; K is fused (GPU "
		"memory), fused_uvm_caching, fused_uvm (host memory) or key_value (SSD). Plans and "
		"baselines that break them, or move more than --max-moved allows, are listed behind those "
		"that do not.\n\n"
		"SIGINT and SIGTERM end a search early: the best plan so far is listed, and written by -o.\n\n"
		"Budgets are keys of the CONFIG, so --set works for them: sharding.hbm_gib of each GPU (or "
		"sharding.hbm_reserve_frac, the share that is kept from tables: 0.1, of TorchRec's planner "
		"0.15, beside what the software holds), cluster.host_memory_gib of each node (128 for each "
		"of its GPUs, as TorchRec's planner has it) and cluster.ssd_gib of each node (0: no table "
		"is placed there). Plans over a budget are listed behind the others.\n\n"
		"  stepcast shard dlrm.yaml -o plan.json\n"
		"  stepcast shard dlrm.yaml --set sharding.hbm_gib=40 --set cluster.ssd_gib=4000\n"
		"  stepcast shard dlrm.yaml --plan a.json --plan b.json --objective torchrec\n"
		"  stepcast shard dlrm.yaml --baseline all --search 0\n"
		"  stepcast shard dlrm.yaml --baseline hugectr -o hugectr.json\n"
		"  stepcast shard dlrm.yaml --current plan.json --max-moved-gib 20 --diff plan.json\n"
		"  stepcast shard dlrm.yaml --tasks tasks.txt --task-tables table_configs.json --task 7\n"
		"  stepcast shard dlrm.yaml --constraint \"forbid user_* type=data_parallel\"",
	.words = "file",
	.options = OPTIONS,
	.output_arg = "PLAN.json",
	.output_help = "write the best plan here; the report goes to stdout (default: no file)",
	.run = run_shard,
};
