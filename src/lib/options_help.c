/* What the option tables say to people and shells: --help, man pages. */
#include "lib/options.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 28, HELP_WIDTH = 96, MAX_LABEL = 96 };

/* "-o, --output FILE" */
static void option_label(const struct sc_cli_option *option, char *out, size_t n)
{
	char letter[8] = "    ";

	if (option->letter)
		snprintf(letter, sizeof(letter), "-%c, ", option->letter);
	snprintf(out, n, "%s--%s%s%s%s", letter, option->kind == SC_ARG_SWITCH ? "[no-]" : "",
		 option->name, option->arg ? " " : "", option->arg ? option->arg : "");
}

/* Words of one paragraph, each line indented to `column` and at most HELP_WIDTH wide. */
static void append_wrapped(struct sc_strbuf *out, const char *text, size_t n_text, size_t column)
{
	size_t at = column;
	bool first = true;

	for (size_t i = 0; i < n_text;) {
		size_t n = 0;

		while (i + n < n_text && text[i + n] != ' ' && text[i + n] != '\n')
			n++;
		if (n && !first && at + 1 + n > HELP_WIDTH) {
			sc_strbuf_printf(out, "\n%*s", (int)column, "");
			at = column;
			first = true;
		}
		if (n) {
			sc_strbuf_printf(out, "%s%.*s", first ? "" : " ", (int)n, text + i);
			at += n + !first;
			first = false;
		}
		i += n + 1;
	}
	sc_strbuf_append_char(out, '\n');
}

/* A common option, as the command means it. */
static struct sc_cli_option as_meant(const struct sc_command *command,
				     const struct sc_cli_option *common)
{
	struct sc_cli_option option = *common;

	if (command->output_help && strcmp(option.name, "output") == 0) {
		option.arg = command->output_arg;
		option.help = command->output_help;
	}
	return option;
}

static void append_option(struct sc_strbuf *out, const struct sc_cli_option *option)
{
	char label[MAX_LABEL];

	option_label(option, label, sizeof(label));
	if (strlen(label) + 4 > HELP_COLUMN)
		sc_strbuf_printf(out, "  %s\n%*s", label, HELP_COLUMN, "");
	else
		sc_strbuf_printf(out, "  %-*s", HELP_COLUMN - 2, label);
	append_wrapped(out, option->help, strlen(option->help), HELP_COLUMN);
}

/* Calls `put` for each paragraph; one that starts with a space is kept as it is written. */
static void each_paragraph(const char *text, struct sc_strbuf *out,
			   void (*put)(struct sc_strbuf *out, const char *text, size_t n))
{
	while (*text) {
		const char *end = strstr(text, "\n\n");
		size_t n = end ? (size_t)(end - text) : strlen(text);

		put(out, text, n);
		text += n + (end ? 2 : 0);
	}
}

static void put_help_paragraph(struct sc_strbuf *out, const char *text, size_t n)
{
	sc_strbuf_append_char(out, '\n');
	if (*text == ' ')
		sc_strbuf_printf(out, "%.*s\n", (int)n, text);
	else
		append_wrapped(out, text, n, 0);
}

void sc_options_usage(const struct sc_command *command, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "usage: stepcast %s%s%s\n", command->name,
			 *command->synopsis ? " " : "", command->synopsis);
}

void sc_options_help(const struct sc_command *command, struct sc_strbuf *out)
{
	sc_options_usage(command, out);
	each_paragraph(command->details, out, put_help_paragraph);
	if (command->options && command->options->name)
		sc_strbuf_append(out, "\nOptions:\n");
	for (const struct sc_cli_option *o = command->options; o && o->name; o++)
		append_option(out, o);
	sc_strbuf_append(out, "\nEverywhere:\n");
	for (const struct sc_cli_option *o = sc_common_options; o->name; o++) {
		struct sc_cli_option option = as_meant(command, o);

		append_option(out, &option);
	}
}

/* ---- man pages ---- */

static void append_roff(struct sc_strbuf *out, const char *text, size_t n)
{
	if (n && (*text == '.' || *text == '\''))
		sc_strbuf_append(out, "\\&");
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '\\')
			sc_strbuf_append(out, "\\e");
		else if (text[i] == '-')
			sc_strbuf_append(out, "\\-");
		else
			sc_strbuf_append_char(out, text[i]);
	}
}

static void append_roff_text(struct sc_strbuf *out, const char *text)
{
	append_roff(out, text, strlen(text));
}

static void put_roff_paragraph(struct sc_strbuf *out, const char *text, size_t n)
{
	bool as_is = *text == ' ';

	sc_strbuf_append(out, as_is ? ".PP\n.nf\n" : ".PP\n");
	append_roff(out, text, n);
	sc_strbuf_append(out, as_is ? "\n.fi\n" : "\n");
}

static void append_roff_options(struct sc_strbuf *out, const struct sc_command *command,
				const struct sc_cli_option *options)
{
	char label[MAX_LABEL];

	for (const struct sc_cli_option *o = options; o && o->name; o++) {
		struct sc_cli_option option = as_meant(command, o);

		option_label(&option, label, sizeof(label));
		sc_strbuf_append(out, ".TP\n.B ");
		append_roff_text(out, label + strspn(label, " "));
		sc_strbuf_append_char(out, '\n');
		append_roff_text(out, option.help);
		sc_strbuf_append_char(out, '\n');
	}
}

void sc_options_man(const struct sc_command *command, struct sc_strbuf *out)
{
	static const char exits[] =
		".SH EXIT STATUS\n.TP\n.B 0\ndone\n.TP\n.B 1\nbad data, or a system error\n"
		".TP\n.B 2\nwrong usage\n.TP\n.B 3\na check that was asked for did not hold\n";

	sc_strbuf_append(out, ".TH STEPCAST\\-");
	for (const char *c = command->name; *c; c++)
		sc_strbuf_append_char(out, *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c);
	sc_strbuf_printf(
		out, " 1 \"" SC_DATE "\" \"stepcast " SC_VERSION "\"\n.SH NAME\nstepcast\\-%s \\- ",
		command->name);
	append_roff_text(out, command->summary);
	sc_strbuf_printf(out, "\n.SH SYNOPSIS\n.B stepcast %s\n", command->name);
	append_roff_text(out, command->synopsis);
	sc_strbuf_append(out, "\n.SH DESCRIPTION\n");
	each_paragraph(command->details, out, put_roff_paragraph);
	sc_strbuf_append(out, ".SH OPTIONS\n");
	append_roff_options(out, command, command->options);
	append_roff_options(out, command, sc_common_options);
	sc_strbuf_append(out, exits);
}
