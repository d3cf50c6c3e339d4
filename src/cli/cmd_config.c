/* stepcast config: is a config right, and what does it come to. */
#include <string.h>

#include "cli/commands.h"
#include "cli/start.h"
#include "report/config_show.h"
#include "study/schedule/schedule_choose.h"

struct config_args {
	struct sc_common common;
	struct sc_arg_list sets;
};

static const struct sc_cli_option OPTIONS[] = {
	{.name = "set",
	 .kind = SC_ARG_LIST,
	 .arg = "PATH=VALUE",
	 .offset = offsetof(struct config_args, sets),
	 .help = "override one key of the config; may be given again"},
	{0},
};

static int check_verb(const char *verb, struct sc_err *err)
{
	if (strcmp(verb, "check") == 0 || strcmp(verb, "show") == 0)
		return 0;
	return sc_err_set(err, SC_EUSAGE, "config: expected check or show, got \"%.64s\"", verb);
}

static int check_or_show(const struct config_args *args, struct sc_arena *arena, struct sc_err *err)
{
	const char *verb = args->common.words.at[0], *path = args->common.words.at[1];
	struct sc_catalog *catalog = sc_catalog_create();
	struct sc_predictor *predictor = sc_predictor_create();
	struct sc_predict_opts opts;
	struct sc_strbuf text = {0};
	struct sc_request request;
	struct sc_config config;
	int rc = check_verb(verb, err);

	sc_predict_opts_init(&opts);
	if (rc == 0)
		rc = sc_cli_config(path, &args->sets, arena, &config, err);
	if (rc == 0)
		rc = sc_resolve_chosen(
			&(struct sc_schedule_ask){&config, catalog, path, predictor, &opts},
			&request, err);
	if (rc == 0) {
		sc_cli_warn_all(&args->common, &request.warnings);
		if (strcmp(verb, "show") == 0)
			sc_config_show(&request, &text);
		else
			sc_strbuf_append(&text, "ok\n");
		rc = sc_cli_write_text(args->common.output, &text, err);
	}
	sc_strbuf_release(&text);
	sc_predictor_destroy(predictor);
	sc_catalog_destroy(catalog);
	return rc;
}

static int run_config(const struct sc_line *line)
{
	struct config_args args = {.common = {.help = 0}};
	struct sc_err err = {.code = SC_OK};
	struct sc_arena arena;
	int exit_code = SC_EXIT_DONE;

	sc_arena_init(&arena, SC_CLI_ARENA_BYTES);
	if (sc_cli_begin(line, &args, &arena, &exit_code) && check_or_show(&args, &arena, &err))
		exit_code = sc_cli_fail(&err);
	sc_arena_release(&arena);
	return exit_code;
}

const struct sc_command sc_command_config = {
	.name = "config",
	.n_words = 2,
	.words_asked = "check or show, and one FILE",
	.summary = "check a config, or show it with every default filled in",
	.synopsis = "(check|show) FILE [--set PATH=VALUE]...",
	.details =
		"check says ok, or what is wrong and where. show prints the config with every value "
		"filled in, each with where it came from: a file and line, --set, the GPU's usual node, "
		"the software, or a default. What it prints is a config again.",
	.words = "check show",
	.options = OPTIONS,
	.run = run_config,
};
