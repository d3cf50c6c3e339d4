/* Dispatch. Options before the command are those of the program as a whole. */
#include "cli/commands.h"

#include <string.h>

#include "base/fields.h"
#include "base/json_out.h"
#include "base/ranks.h"
#include "cli/start.h"

const struct sc_command *const sc_commands[] = {
	&sc_command_predict,    &sc_command_sweep,
	&sc_command_search,     &sc_command_scale,
	&sc_command_compare,    &sc_command_validate,
	&sc_command_shard,      &sc_command_c3,
	&sc_command_schedule,   &sc_command_op,
	&sc_command_collective, &sc_command_fit,
	&sc_command_record,     &sc_command_import,
	&sc_command_export,     &sc_command_info,
	&sc_command_replay,     &sc_command_config,
	&sc_command_devices,    &sc_command_models,
	&sc_command_clusters,   &sc_command_software,
	&sc_command_examples,   &sc_command_page,
	&sc_command_help,       NULL,
};
enum { N_COMMANDS = sizeof(sc_commands) / sizeof(sc_commands[0]) - 1 };

const struct sc_command *sc_command_find(const char *name)
{
	for (size_t i = 0; sc_commands[i]; i++) {
		if (strcmp(sc_commands[i]->name, name) == 0)
			return sc_commands[i];
	}
	return NULL;
}

int sc_cli_unknown_command(const char *name, struct sc_err *err)
{
	const char *names[N_COMMANDS], *near;

	for (size_t i = 0; i < N_COMMANDS; i++)
		names[i] = sc_commands[i]->name;
	near = sc_nearest(name, names, N_COMMANDS);
	if (!near)
		return sc_err_set(err, SC_EUSAGE, "unknown command \"%.64s\"; see stepcast --help",
				  name);
	return sc_err_set(err, SC_EUSAGE, "unknown command \"%.64s\"; did you mean \"%s\"?", name,
			  near);
}

static int wrong_start(const char *word)
{
	struct sc_err err = {.code = SC_OK};

	if (word && *word == '-')
		sc_err_set(&err, SC_EUSAGE,
			   "unknown option \"%.64s\" before a command; see stepcast "
			   "--help",
			   word);
	else
		sc_err_set(&err, SC_EUSAGE, "a command is needed; see stepcast --help");
	return sc_cli_fail(&err);
}

/* As JSON: how it was built, too. */
static int print_version(bool is_json)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_json json;
	int rc;

	if (!is_json) {
		fputs(SC_VERSION_LINE, stdout);
		return SC_EXIT_DONE;
	}
	sc_json_init(&json, "stepcast/version", 1);
	sc_json_text(&json, json.root, "stepcast", SC_VERSION);
	sc_json_text(&json, json.root, "compiler", __VERSION__);
	sc_json_text(&json, json.root, "build", SC_BUILD_TYPE);
	sc_json_bool(&json, json.root, "mpi", SC_BUILT_WITH_MPI);
	sc_json_bool(&json, json.root, "toml", SC_BUILT_WITH_TOML);
	rc = sc_json_write(&json, stdout, &err);
	return rc ? sc_cli_fail(&err) : SC_EXIT_DONE;
}

static int print_completion(const char *shell)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_strbuf text = {0};

	if (!shell || !sc_options_completion(shell, sc_commands, &text)) {
		sc_err_set(&err, SC_EUSAGE,
			   "--completion: expected bash, zsh or fish, got \"%.64s\"",
			   shell ? shell : "");
		return sc_cli_fail(&err);
	}
	sc_cli_print(&text);
	sc_strbuf_release(&text);
	return SC_EXIT_DONE;
}

static int run_command(struct sc_line *line)
{
	struct sc_err err = {.code = SC_OK};
	int exit_code;

	if (line->command->shares && sc_ranks_begin(&line->ranks, &err))
		return sc_cli_fail(&err);
	if (sc_ranks_helps(line->ranks) &&
	    (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)))
		sc_err_set(&err, SC_EIO, "cannot be silent");
	exit_code = sc_cli_start(line);
	sc_ranks_end(line->ranks);
	return exit_code;
}

int sc_cli_run(int argc, char **argv)
{
	struct sc_line line = {.argc = argc - 2, .argv = argv + 2};
	const char *word = argc > 1 ? argv[1] : NULL;
	struct sc_err err = {.code = SC_OK};

	if (!word)
		return wrong_start(NULL);
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		line.command = &sc_command_help;
		line.argc = 0;
		return sc_cli_start(&line);
	}
	if (strcmp(word, "--version") == 0)
		return print_version(argc > 2 && strcmp(argv[2], "--json") == 0);
	if (strcmp(word, "--completion") == 0)
		return print_completion(argc > 2 ? argv[2] : NULL);
	if (*word == '-')
		return wrong_start(word);
	line.command = sc_command_find(word);
	if (line.command)
		return run_command(&line);
	sc_cli_unknown_command(word, &err);
	return sc_cli_fail(&err);
}
