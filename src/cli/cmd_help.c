/* stepcast help: the list of commands, one command's help, or its man page; the reference of keys. */
#include <stddef.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/start.h"
#include "report/keys.h"

struct help_args {
	struct sc_common common;
	int man, markdown;
};

#define SC_ARGS struct help_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_FLAG(man, "man", "print the man page (roff) instead"),
	SC_OPT_FLAG(markdown, "markdown", "of keys: as Markdown tables"),
	{0},
};

static void append_overview(struct sc_strbuf *out)
{
	sc_strbuf_append(
		out, "usage: stepcast COMMAND [ARGUMENT]...\n\n"
		     "Predicts the time of one training step on a GPU cluster, and says why, from a"
		     " YAML config.\n\nCommands:\n");
	for (size_t i = 0; sc_commands[i]; i++)
		sc_strbuf_printf(out, "  %-12s%s\n", sc_commands[i]->name, sc_commands[i]->summary);
	sc_strbuf_append(out,
			 "\n`stepcast COMMAND --help` says more. Also: stepcast --version, "
			 "stepcast --completion bash (or zsh, fish).\n"
			 "Exit code: 0 done, 1 bad data or system error, 2 wrong usage, 3 a check "
			 "did not hold.\n");
}

static void append_overview_page(struct sc_strbuf *out)
{
	sc_strbuf_append(out, ".TH STEPCAST 1 \"" SC_DATE "\" \"stepcast " SC_VERSION
			      "\"\n.SH NAME\nstepcast \\- predicts the time "
			      "of one training step on a GPU cluster\n.SH SYNOPSIS\n.B stepcast\n"
			      "COMMAND [ARGUMENT]...\n.SH COMMANDS\n");
	for (size_t i = 0; sc_commands[i]; i++)
		sc_strbuf_printf(out, ".TP\n.BR stepcast\\-%s (1)\n%s\n", sc_commands[i]->name,
				 sc_commands[i]->summary);
	sc_strbuf_append(
		out,
		".SH OPTIONS\n.TP\n.B \\-\\-help\nlist the commands\n"
		".TP\n.B \\-\\-version\nshow the version\n"
		".TP\n.B \\-\\-completion bash\nprint a completion script; also for zsh and fish\n"
		".SH ENVIRONMENT\n.TP\n.B STEPCAST_CONFIGS\na folder of configs (devices, "
		"clusters, models, software) to look in first\n"
		".SH EXIT STATUS\n.TP\n.B 0\ndone\n.TP\n.B 1\nbad data, or a system "
		"error\n.TP\n.B 2\nwrong usage\n.TP\n.B 3\na check that was asked for did "
		"not hold\n");
}

static void append_page(const struct sc_command *about, int man, struct sc_strbuf *out)
{
	if (about && man)
		sc_options_man(about, out);
	else if (about)
		sc_options_help(about, out);
	else if (man)
		append_overview_page(out);
	else
		append_overview(out);
}

static int append_keys(const struct help_args *args, struct sc_arena *arena, struct sc_strbuf *out,
		       struct sc_err *err)
{
	const struct sc_arg_list *words = &args->common.words;
	struct sc_strbuf pattern = {0};
	size_t n;

	for (size_t i = 1; i < words->n; i++)
		sc_strbuf_printf(&pattern, "%s%s", i > 1 ? " " : "", words->at[i]);
	if (args->markdown)
		sc_strbuf_append(
			out,
			"# Keys\n\nWritten by `stepcast help keys --markdown`. Every key can be set "
			"on the command line: `--set parallel.tp=4`.\n");
	n = sc_keys_write(sc_arena_strdup(arena, sc_strbuf_get(&pattern)), args->markdown, out);
	sc_strbuf_release(&pattern);
	return n > 0 ? 0
		     : sc_err_set(err, SC_EUSAGE,
				  "no key has \"%.64s\"; `stepcast help keys` lists all",
				  words->n > 1 ? words->at[1] : "");
}

static int help(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct help_args *args = into;
	const struct sc_arg_list *words = &args->common.words;
	const struct sc_command *about = words->n ? sc_command_find(words->at[0]) : NULL;
	struct sc_strbuf out = {0};
	int rc = 0;

	if (words->n && strcmp(words->at[0], "keys") == 0)
		rc = append_keys(args, call->arena, &out, err);
	else if (words->n && !about)
		rc = sc_cli_unknown_command(words->at[0], err);
	else
		append_page(about, args->man, &out);
	if (rc == 0)
		rc = sc_cli_write_text(args->common.output, &out, err);
	sc_strbuf_release(&out);
	return rc;
}

const struct sc_command sc_command_help = {
	.name = "help",
	.summary = "show what a command does",
	.synopsis = "[COMMAND] [--man] | keys [WORD]... [--markdown]",
	.details =
		"Without COMMAND lists the commands. With --man prints the man page of COMMAND, or "
		"of stepcast.\n\nkeys lists every key of configs, devices, fabrics and software with its "
		"values, default and meaning: all, or those whose name, values or meaning have each WORD.",
	.words = "command",
	.options = OPTIONS,
	.args_bytes = sizeof(struct help_args),
	.run = help,
};
