/* stepcast shard: where the embedding tables of a DLRM go. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/start.h"
#include "lib/shard_run.h"
#include "study/shard/shard.h"

/* Ends early, if asked, with the best so far. */
static struct sc_shard_report *search_plan(struct sc_shard_args *args,
					   const struct sc_request *request, struct sc_arena *arena,
					   struct sc_err *err)
{
	double seconds = args->seconds > 0 ? ceil(args->seconds) : 0;
	struct sc_search_watch *watch = sc_arena_alloc(arena, sizeof(*watch));
	struct sc_shard_report *report;

	*watch = (struct sc_search_watch){
		.stop = sc_cli_catch_stop(),
		.progress = sc_cli_progress(&args->common, "search, seconds", (size_t)seconds),
		.start_s = sc_now_s(),
	};
	args->watch = watch;
	report = sc_shard_run(args, request, arena, err);
	sc_progress_destroy(watch->progress);
	if (report && *watch->stop)
		sc_cli_warn(&args->common,
			    "the search was stopped; its best plan so far is listed");
	return report;
}

static int shard(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	struct sc_shard_args *args = into;
	struct sc_catalog *catalog = call->catalog;
	struct sc_arena *arena = call->arena;
	const char *path = args->common.words.at[0];
	struct sc_request *request = sc_arena_calloc(arena, 1, sizeof(*request));
	struct sc_shard_report *report;
	struct sc_strbuf text = {0};
	struct sc_config config;
	int rc = sc_cli_config(path, &args->sets, arena, &config, err);

	if (rc == 0)
		rc = sc_config_resolve(&config, catalog, path, request, err);
	if (rc)
		return rc;
	report = search_plan(args, request, arena, err);
	sc_cli_warn_all(&args->common, report ? report->warnings : &request->warnings);
	if (!report)
		return -1;
	if (strcmp(args->common.output, "-") != 0) {
		sc_shard_plan_print(&report->study->plans.at[0].solution.plan, &text);
		rc = sc_cli_write_text(args->common.output, &text, err);
	}
	if (rc == 0)
		rc = sc_cli_give(call, &sc_shard_forms, report, err);
	sc_strbuf_release(&text);
	sc_shard_report_release(report);
	return rc;
}

const struct sc_command sc_command_shard = {
	.name = "shard",
	.n_words = 1,
	.words_asked = "one CONFIG",
	.summary = "rank sharding plans of embedding tables, and search for one",
	.synopsis = "CONFIG [--plan FILE]... [--search SECONDS] [--objective "
		    "iteration|torchrec|hugectr] [-o PLAN.json] [--report FILE.html] [--json]",
	.details =
		"Ranks plans that place the embedding tables of the CONFIG (a DLRM), and searches for a better one. For "
		"each it says what it costs, how far that is at most from the best possible (a lower bound), which rank is "
		"the busiest and why, the memory of each tier, how likely each plan is the best one within the models' "
		"errors, and what is odd about the best.\n\n"
		"A plan is JSON as -o writes it (which mirrors TorchRec's ParameterSharding; "
		"scripts/torchrec_plan_loader.py turns it into a ShardingPlan), the table that TorchRec's planner prints, "
		"or HugeCTR's shard matrix. -o writes the best of the plans that are listed, so with --baseline hugectr "
		"alone it writes HugeCTR's own; the report goes to stdout.\n\n"
		"Baselines: naive, chunk, random, size_greedy, dim_greedy, lookup_greedy, size_lookup_greedy, "
		"norm_lookup_greedy, lpt; the planners of TorchRec (torchrec), HugeCTR (hugectr), distributed-embeddings "
		"(memory_balanced) and NVIDIA's DLRM (lookups); or all.\n\n"
		"Where the host's input is that of the software's example script, which would hide what plans differ in, "
		"the GPUs' step ranks them, without the host. dlrm.host_sample_us of the CONFIG says what your own takes, "
		"and then the whole step ranks them.\n\n"
		"In a constraint, a TABLE may end in *, which stands for all tables that begin so. T is data_parallel, "
		"table_wise, column_wise, row_wise, table_row_wise, table_column_wise or grid_shard; K is fused (GPU "
		"memory), fused_uvm_caching, fused_uvm (host memory) or key_value (SSD). table_row_wise (twrw) and "
		"grid_shard keep the rows of a table, or of a slice of its columns, inside one host: such a table is never "
		"split over hosts by rows; row_wise is. Plans and baselines that break them, or move more than --max-moved "
		"allows, are listed behind those that do not.\n\n"
		"SIGINT and SIGTERM end a search early: the report has the best plan so far, and -o writes it.\n\n"
		"Budgets are keys of the CONFIG, so --set works for them: sharding.hbm_gib of each GPU (or "
		"sharding.hbm_reserve_frac, the share that is kept from tables: 0.1, of TorchRec's planner 0.15, beside "
		"what the software holds), cluster.host_memory_gib of each node (128 for each of its GPUs, as TorchRec's "
		"planner has it) and cluster.ssd_gib of each node (0: no table is placed there). Plans over a budget are "
		"listed behind the others.\n\n"
		"  stepcast shard dlrm.yaml -o plan.json\n"
		"  stepcast shard dlrm.yaml --set sharding.hbm_gib=40 --set cluster.ssd_gib=4000\n"
		"  stepcast shard dlrm.yaml --plan a.json --plan b.json --objective torchrec\n"
		"  stepcast shard dlrm.yaml --plan plan.json --baseline all\n"
		"  stepcast shard dlrm.yaml --baseline hugectr -o hugectr.json\n"
		"  stepcast shard dlrm.yaml --current plan.json --max-moved-gib 20 --diff plan.json\n"
		"  stepcast shard dlrm.yaml --constraint \"forbid user_* type=data_parallel\"",
	.words = "file",
	.options = sc_shard_options,
	.output_arg = "PLAN.json",
	.output_help = "write the best plan here; the report goes to stdout (default: no file)",
	.args_bytes = sizeof(struct sc_shard_args),
	.defaults = &sc_shard_defaults,
	.run = shard,
};
