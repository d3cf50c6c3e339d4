/* stepcast scale: the best split at each number of GPUs. */
#include "base/ranks.h"
#include "cli/commands.h"
#include "cli/search_args.h"
#include "cli/start.h"
#include "report/search_report.h"

struct scale_args {
	struct sc_common common;
	struct sc_arg_list sets, fixed, chosen;
	const char *gpus, *report;
	double memory_margin;
	int given, weak, json;
	int64_t jobs;
};

#define SC_ARGS struct scale_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_TEXT(gpus, "gpus", "FROM:TO", "from so many GPUs on, doubled, to so many"),
	SC_OPT_FLAG(weak, "weak", "the batch grows with the GPUs (default: it stays)"),
	SC_OPT_FLAG(given, "given",
		    "what the config gives of the split stays (default: all of it is searched)"),
	SC_OPT_LIST(chosen, "choose", "KEY[=A,B,...]", "search this key too; may be given again"),
	SC_OPT_LIST(fixed, "fix", "KEY=VALUE", "do not search this key; may be given again"),
	SC_OPT_NUMBER(memory_margin, "memory-margin", "SHARE", 0, 0.9,
		      "share of a GPU's memory that stays free (default: 0.05)"),
	SC_OPT_FLAG(json, "json", "write JSON to stdout"),
	SC_OPT_REPORT(report),
	SC_OPT_BASE_SET(sets),
	SC_OPT_JOBS(jobs),
	{0},
};

/* FROM:TO, doubled. */
static int parse_sizes(const char *text, struct sc_arena *arena, struct sc_scaling *out,
		       struct sc_err *err)
{
	int64_t from, to, *sizes = sc_arena_calloc(arena, 64, sizeof(*sizes));
	int rc = sc_cli_parse_gpus(text, &from, &to, err);

	for (int64_t n = from; rc == 0 && n <= to && out->n < 64; n *= 2)
		sizes[out->n++] = n;
	out->sizes = sizes;
	return rc;
}

static struct sc_progress *progress(void *ctx, const char *title, size_t total)
{
	const struct scale_args *args = ctx;

	return sc_cli_progress(&args->common, title, total);
}

static int run_args(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	struct scale_args *args = into;
	struct sc_arena *arena = call->arena;
	const struct sc_arg_list sets = sc_cli_join(&args->sets, &args->fixed, arena);
	struct sc_search search = {
		.all = !args->given,
		.fixed = args->fixed.at,
		.n_fixed = args->fixed.n,
		.chosen = args->chosen.at,
		.n_chosen = args->chosen.n,
		.memory_margin = args->memory_margin,
		.n_jobs = sc_cli_jobs(call, args->jobs),
		.begin_progress = progress,
		.ctx = args,
		.ranks = call->line->ranks,
		.missing = &call->missing,
	};
	struct sc_scaling scaling = {.search = &search, .weak = args->weak};
	struct sc_config config;
	int rc = parse_sizes(args->gpus, arena, &scaling, err);

	if (rc == 0)
		rc = sc_cli_config(args->common.words.at[0], &sets, arena, &config, err);
	if (rc)
		return rc;
	if (search.all)
		sc_cli_open_split(&config);
	search.base = &config;
	search.stop = sc_cli_catch_stop();
	rc = sc_scaling_run(&scaling, arena, err);
	if (rc || sc_ranks_helps(call->line->ranks))
		return rc;
	return sc_cli_give(call, &sc_scaling_forms, &scaling, err);
}

const struct sc_command sc_command_scale = {
	.name = "scale",
	.n_words = 1,
	.words_asked = "one CONFIG",
	.summary = "strong or weak scaling, with the best split at each number of GPUs",
	.synopsis =
		"CONFIG --gpus FROM:TO [--weak] [--given] [--choose KEY[=A,B]]... [--fix KEY=VALUE]... "
		"[--report FILE.html] [--json]",
	.details =
		"Searches the split (stepcast search) at FROM GPUs, twice as many, and so on to TO. Strong "
		"scaling keeps the batch; --weak takes the batch of the CONFIG at FROM and lets it grow with "
		"the GPUs. Speedup and efficiency are those of the throughput against the first size at which "
		"something fits and leaves 5 % of the memory free (--memory-margin 0.05).\n\n"
		"Under mpirun the processes share the candidates of each size; the answer is that of one "
		"alone. If one is lost, the error says which sizes are missing.\n\n"
		"  stepcast scale configs/examples/gpt-175b-selene.yaml --gpus 64:4096\n"
		"  stepcast scale x.yaml --gpus 8:512 --weak --fix parallel.sharding=fsdp",
	.words = "file",
	.options = OPTIONS,
	.shares = true,
	.args_bytes = sizeof(struct scale_args),
	.defaults = &(const struct scale_args){.memory_margin = SC_CLI_MEMORY_MARGIN},
	.run = run_args,
};
