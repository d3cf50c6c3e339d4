/* stepcast devices, models, clusters, software, examples: what is shipped. */
#include "cli/commands.h"
#include "cli/start.h"
#include "report/shipped.h"

struct shipped_args {
	struct sc_common common;
	enum sc_shipped kind;
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

static int list(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct shipped_args *args = into;
	const struct sc_arg_list *words = &args->common.words;
	const struct sc_shipped_list what = {
		.kind = args->kind, .arena = call->arena, .word = words->n ? words->at[0] : NULL};

	if (words->n > 1)
		return sc_err_set(err, SC_EUSAGE, "%s: expected one WORD at most",
				  call->line->command->name);
	return sc_cli_write(args->common.output, args->json ? put_json : put_text, &what, err);
}

#define COMMAND(name_, kind_, summary_, details_)                                         \
	const struct sc_command sc_command_##name_ = {                                    \
		.name = #name_,                                                           \
		.summary = summary_,                                                      \
		.synopsis = "[WORD] [--json]",                                            \
		.words = "",                                                              \
		.details = details_ "\n\nWith WORD: those whose name, figures or source " \
				    "have it.",                                           \
		.options = OPTIONS,                                                       \
		.args_bytes = sizeof(struct shipped_args),                                \
		.defaults = &(const struct shipped_args){.kind = kind_},                  \
		.run = list,                                                              \
	}

COMMAND(devices, SC_SHIPPED_DEVICES, "list the GPUs that are shipped",
	"One line a GPU: what cluster.gpu takes, SMs, memory (GiB, 1e9 bytes/s), dense peaks "
	"(TFLOP/s), power limit, GPUs in its usual node, and which of its models were fitted on it.");
COMMAND(models, SC_SHIPPED_MODELS, "list the models that are shipped",
	"One line a model: what model: models/ID.yaml takes, its shape and where that is published.");
COMMAND(clusters, SC_SHIPPED_CLUSTERS, "list the clusters that are shipped",
	"One line a cluster: what cluster: clusters/ID.yaml takes, its nodes and their network.");
COMMAND(software, SC_SHIPPED_SOFTWARE, "list the software profiles that are shipped",
	"One line a profile: what training.software takes and what it describes.");
COMMAND(examples, SC_SHIPPED_EXAMPLES, "list the example configs that are shipped",
	"One line an example: its file, as every command takes it, its model's family, GPUs, software, the time that was measured if any, and what it is.");
