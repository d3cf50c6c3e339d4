/* stepcast compare: configs side by side. */
#include <string.h>

#include "cli/commands.h"
#include "cli/start.h"
#include "report/compare_report.h"

struct compare_args {
	struct sc_common common;
	struct sc_arg_list sets;
	int json;
};

#define AT(member) offsetof(struct compare_args, member)
static const struct sc_cli_option OPTIONS[] = {
	{.name = "set",
	 .kind = SC_ARG_LIST,
	 .arg = "PATH=VALUE",
	 .offset = AT(sets),
	 .help = "override one key of every config; may be given again"},
	{.name = "json", .kind = SC_ARG_FLAG, .offset = AT(json), .help = "write JSON to stdout"},
	{0},
};

static int put_json(const void *ctx, FILE *out, struct sc_err *err)
{
	return sc_compare_to_json(ctx, out, err);
}

static int write_result(const struct compare_args *args, const struct sc_compare *compare,
			struct sc_err *err)
{
	struct sc_strbuf text = {0};
	int rc;

	for (size_t i = 0; i < compare->n; i++)
		sc_cli_warn_all(&args->common, &compare->at[i].prediction.warnings);
	if (args->json)
		return sc_cli_write(args->common.output, put_json, compare, err);
	sc_compare_to_text(compare, &text);
	rc = sc_cli_write_text(args->common.output, &text, err);
	sc_strbuf_release(&text);
	return rc;
}

static int compare(const struct compare_args *args, struct sc_arena *arena, struct sc_err *err)
{
	const struct sc_arg_list *words = &args->common.words;
	struct sc_compare all = {.n = words->n};
	struct sc_config *configs = sc_arena_calloc(arena, words->n + 1, sizeof(*configs));
	struct sc_catalog *catalog;
	size_t n_stdin = 0;
	int rc = 0;

	if (words->n < 2 || words->n > SC_COMPARE_MAX)
		return sc_err_set(err, SC_EUSAGE, "compare needs 2 to %d CONFIGs, got %zu",
				  SC_COMPARE_MAX, words->n);
	for (size_t i = 0; i < words->n; i++)
		n_stdin += strcmp(words->at[i], "-") == 0;
	if (n_stdin > 1)
		return sc_err_set(err, SC_EUSAGE, "- is stdin, which can be read once");
	all.at = sc_arena_calloc(arena, all.n, sizeof(*all.at));
	for (size_t i = 0; i < all.n && rc == 0; i++) {
		all.at[i].name = words->at[i];
		all.at[i].config = &configs[i];
		rc = sc_cli_config(words->at[i], &args->sets, arena, &configs[i], err);
	}
	if (rc)
		return rc;
	catalog = sc_catalog_create();
	rc = sc_compare_run(&all, catalog, err);
	if (rc == 0)
		rc = write_result(args, &all, err);
	sc_catalog_destroy(catalog);
	return rc;
}

static int run_compare(const struct sc_line *line)
{
	struct compare_args args = {.json = 0};
	struct sc_err err = {.code = SC_OK};
	struct sc_arena arena;
	int exit_code = SC_EXIT_DONE;

	sc_arena_init(&arena, SC_CLI_ARENA_BYTES);
	if (sc_cli_begin(line, &args, &arena, &exit_code) && compare(&args, &arena, &err))
		exit_code = sc_cli_fail(&err);
	sc_arena_release(&arena);
	return exit_code;
}

const struct sc_command sc_command_compare = {
	.name = "compare",
	.summary = "predict configs side by side: what differs, and what it does",
	.synopsis = "CONFIG CONFIG... [--set PATH=VALUE]... [--json]",
	.details =
		"Shows the keys in which the configs differ, their times by what takes them, and their memory. "
		"The ratio of the times has a band of its own: speeds of kernels, memory, links, network and "
		"host are drawn anew 100 times, the same for all configs, so that errors that all share "
		"cancel.\n\n"
		"  stepcast compare a.yaml b.yaml",
	.words = "file",
	.options = OPTIONS,
	.run = run_compare,
};
