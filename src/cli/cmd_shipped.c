/* stepcast devices, models, clusters, software: what is shipped. */
#include "cli/commands.h"
#include "cli/start.h"
#include "report/shipped.h"

struct shipped_args {
	struct sc_common common;
	int json;
};

#define SC_ARGS struct shipped_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_FLAG(json, "json", "write JSON"),
	{0},
};

static int put_text(const void *ctx, FILE *out, struct sc_err *err)
{
	return sc_shipped_text(ctx, out, err);
}

static int put_json(const void *ctx, FILE *out, struct sc_err *err)
{
	return sc_shipped_json(ctx, out, err);
}

static int list(const struct sc_line *line, enum sc_shipped kind)
{
	struct shipped_args args = {.json = 0};
	struct sc_err err = {.code = SC_OK};
	struct sc_shipped_list what = {.kind = kind};
	struct sc_arena arena;
	int exit_code = SC_EXIT_DONE;

	sc_arena_init(&arena, SC_CLI_ARENA_BYTES);
	what.arena = &arena;
	if (sc_cli_begin(line, &args, &arena, &exit_code)) {
		what.word = args.common.words.n ? args.common.words.at[0] : NULL;
		if (args.common.words.n > 1)
			sc_err_set(&err, SC_EUSAGE, "%s: expected one WORD at most",
				   line->command->name);
		else
			sc_cli_write(args.common.output, args.json ? put_json : put_text, &what,
				     &err);
		if (err.code != SC_OK)
			exit_code = sc_cli_fail(&err);
	}
	sc_arena_release(&arena);
	return exit_code;
}

static int run_devices(const struct sc_line *line)
{
	return list(line, SC_SHIPPED_DEVICES);
}

static int run_models(const struct sc_line *line)
{
	return list(line, SC_SHIPPED_MODELS);
}

static int run_clusters(const struct sc_line *line)
{
	return list(line, SC_SHIPPED_CLUSTERS);
}

static int run_software(const struct sc_line *line)
{
	return list(line, SC_SHIPPED_SOFTWARE);
}

#define COMMAND(name_, summary_, details_)                                                \
	const struct sc_command sc_command_##name_ = {                                    \
		.name = #name_,                                                           \
		.summary = summary_,                                                      \
		.synopsis = "[WORD] [--json]",                                            \
		.words = "",                                                              \
		.details = details_ "\n\nWith WORD: those whose name, figures or source " \
				    "have it.",                                           \
		.options = OPTIONS,                                                       \
		.run = run_##name_,                                                       \
	}

COMMAND(devices, "list the GPUs that are shipped",
	"One line a GPU: what cluster.gpu takes, SMs, memory (GiB, 1e9 bytes/s), dense peaks "
	"(TFLOP/s), power limit, GPUs in its usual node, and which of its models were fitted on it.");
COMMAND(models, "list the models that are shipped",
	"One line a model: what model: models/ID.yaml takes, its shape and where that is published.");
COMMAND(clusters, "list the clusters that are shipped",
	"One line a cluster: what cluster: clusters/ID.yaml takes, its nodes and their network.");
COMMAND(software, "list the software profiles that are shipped",
	"One line a profile: what training.software takes and what it describes.");
