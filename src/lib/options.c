/* Parsing: one option at a time, its place found through the table. */
#include "lib/options.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/fields.h"
#include "base/num.h"

enum { MAX_CANDIDATES = 128, MAX_NAME = 64 };

#define SC_ARGS struct sc_common
const struct sc_cli_option sc_common_options[] = {
	SC_OPT(FLAG, help, "help", .letter = 'h', .help = "show this text and end"),
	SC_OPT_FLAG(version, "version", "show the version and end"),
	SC_OPT(TEXT, output, "output", .letter = 'o', .file = SC_FILE_OUT, .arg = "FILE",
	       .help = "write the result here (default: stdout)"),
	SC_OPT(COUNT, verbose, "verbose", .letter = 'v',
	       .help = "say more on stderr; given twice, still more"),
	SC_OPT(FLAG, quiet, "quiet", .letter = 'q', .help = "say nothing on stderr but errors"),
	SC_OPT_SWITCH(progress, "progress",
		      "show progress on stderr (default: if it is a terminal)"),
	{0},
};

const struct sc_common sc_common_defaults = {.progress = -1, .output = "-"};

static bool takes_value(const struct sc_cli_option *option)
{
	return option->kind >= SC_ARG_TEXT;
}

/* Finds an option by its name, `n` bytes of it, or by its letter, where name is NULL. */
static const struct sc_cli_option *find_option(const struct sc_command *command, const char *name,
					       size_t n, char letter)
{
	const struct sc_cli_option *tables[] = {command->options, sc_common_options};

	for (size_t i = 0; i < 2; i++)
		for (const struct sc_cli_option *o = tables[i]; o && o->name; o++)
			if (name ? strncmp(o->name, name, n) == 0 && !o->name[n]
				 : o->letter == letter)
				return o;
	return NULL;
}

static int unknown_option(const struct sc_command *command, const char *name, size_t n,
			  struct sc_err *err)
{
	const struct sc_cli_option *tables[] = {command->options, sc_common_options};
	const char *candidates[MAX_CANDIDATES], *near;
	char word[MAX_NAME];
	size_t n_candidates = 0;

	for (size_t i = 0; i < 2; i++)
		for (const struct sc_cli_option *o = tables[i];
		     o && o->name && n_candidates < MAX_CANDIDATES; o++)
			candidates[n_candidates++] = o->name;
	if (n >= sizeof(word))
		n = sizeof(word) - 1;
	memcpy(word, name, n);
	word[n] = '\0';
	near = sc_nearest(word, candidates, n_candidates);
	if (near)
		return sc_err_set(err, SC_EUSAGE, "unknown option \"--%s\"; did you mean \"--%s\"?",
				  word, near);
	return sc_err_set(err, SC_EUSAGE, "unknown option \"--%s\"", word);
}

static int set_choice(const struct sc_cli_option *option, const char *value, int *place,
		      struct sc_err *err)
{
	const char *near;
	size_t n = 0;

	for (; option->choices[n]; n++) {
		if (strcmp(option->choices[n], value) == 0) {
			*place = (int)n;
			return 0;
		}
	}
	near = sc_nearest(value, option->choices, n);
	if (near)
		return sc_err_set(err, SC_EUSAGE,
				  "--%s: unknown value \"%.64s\"; did you mean \"%s\"?",
				  option->name, value, near);
	return sc_err_set(err, SC_EUSAGE, "--%s: unknown value \"%.64s\"; expected %s",
			  option->name, value, option->arg);
}

/* A number, or one with K, M, B or T behind it: "15T" tokens. */
static bool parse_real(const char *text, double *value)
{
	static const char suffixes[] = "KMBT";
	const char *suffix = *text ? strchr(suffixes, text[strlen(text) - 1]) : NULL;
	char digits[32];

	if (!suffix || strlen(text) > sizeof(digits))
		return sc_parse_double(text, value);
	memcpy(digits, text, strlen(text) - 1);
	digits[strlen(text) - 1] = '\0';
	if (!sc_parse_double(digits, value))
		return false;
	for (const char *at = suffixes; at <= suffix; at++)
		*value *= 1e3;
	return true;
}

static int set_number(const struct sc_cli_option *option, const char *value, void *place,
		      struct sc_err *err)
{
	bool integer = option->kind == SC_ARG_INT, ok;
	int64_t whole = 0;
	double real = 0;

	ok = integer ? sc_parse_int(value, &whole) : parse_real(value, &real);
	if (ok && integer)
		real = (double)whole;
	if (!ok || real < option->min || real > option->max)
		return sc_err_set(err, SC_EUSAGE,
				  "--%s: expected %s from %.15g to %.15g, got \"%.64s\"",
				  option->name, integer ? "an integer" : "a number", option->min,
				  option->max, value);
	if (integer)
		*(int64_t *)place = whole;
	else
		*(double *)place = real;
	return 0;
}

static int set_value(const struct sc_cli_option *option, const char *value, void *into,
		     struct sc_err *err)
{
	void *place = (unsigned char *)into + option->offset;
	struct sc_arg_list *list = place;

	switch (option->kind) {
	case SC_ARG_FLAG:
	case SC_ARG_SWITCH:
		*(int *)place = 1;
		return 0;
	case SC_ARG_COUNT:
		++*(int *)place;
		return 0;
	case SC_ARG_TEXT:
		*(const char **)place = value;
		return 0;
	case SC_ARG_LIST:
		list->at[list->n++] = value;
		return 0;
	case SC_ARG_INT:
	case SC_ARG_NUMBER:
		return set_number(option, value, place, err);
	case SC_ARG_CHOICE:
		return set_choice(option, value, place, err);
	}
	return 0;
}

struct reader {
	const struct sc_line *line;
	int at;
	void *into;
};

/* The value after "=" or in the next word. */
static int take_value(struct reader *r, const struct sc_cli_option *option, const char *joined,
		      struct sc_err *err)
{
	if (joined)
		return set_value(option, joined, r->into, err);
	if (r->at + 1 >= r->line->argc)
		return sc_err_set(err, SC_EUSAGE, "--%s needs a value: --%s %s", option->name,
				  option->name, option->arg);
	return set_value(option, r->line->argv[++r->at], r->into, err);
}

static int check_caller(const struct reader *r, const struct sc_cli_option *option,
			struct sc_err *err)
{
	const bool of_command = option->of_command || option->file == SC_FILE_OUT ||
				option->offset < sizeof(struct sc_common);

	if (!r->line->of_library || !of_command)
		return 0;
	return sc_err_set(err, SC_EUSAGE, "--%s is for the command only", option->name);
}

static int parse_long(struct reader *r, const char *name, struct sc_err *err)
{
	const char *equals = strchr(name, '=');
	size_t n = equals ? (size_t)(equals - name) : strlen(name);
	const struct sc_cli_option *option = find_option(r->line->command, name, n, 0);

	if (!option && n > 3 && strncmp(name, "no-", 3) == 0) {
		option = find_option(r->line->command, name + 3, n - 3, 0);
		if (option && option->kind == SC_ARG_SWITCH && !equals) {
			if (check_caller(r, option, err))
				return -SC_EUSAGE;
			*(int *)(void *)((unsigned char *)r->into + option->offset) = 0;
			return 0;
		}
		option = NULL;
	}
	if (!option)
		return unknown_option(r->line->command, name, n, err);
	if (check_caller(r, option, err))
		return -SC_EUSAGE;
	if (takes_value(option))
		return take_value(r, option, equals ? equals + 1 : NULL, err);
	if (equals)
		return sc_err_set(err, SC_EUSAGE, "--%s takes no value", option->name);
	return set_value(option, NULL, r->into, err);
}

/* -v, -qv, -o FILE, -oFILE. */
static int parse_letters(struct reader *r, const char *letters, struct sc_err *err)
{
	for (; *letters; letters++) {
		const struct sc_cli_option *option =
			find_option(r->line->command, NULL, 0, *letters);
		int rc;

		if (!option)
			return sc_err_set(err, SC_EUSAGE, "unknown option \"-%c\"", *letters);
		if (check_caller(r, option, err))
			return -SC_EUSAGE;
		if (takes_value(option))
			return take_value(r, option, letters[1] ? letters + 1 : NULL, err);
		rc = set_value(option, NULL, r->into, err);
		if (rc)
			return rc;
	}
	return 0;
}

/* Every list may grow to argc entries: no more checks later. */
static void prepare_lists(const struct reader *r, struct sc_arena *arena)
{
	struct sc_common *common = r->into;
	size_t n = (size_t)r->line->argc + 1;

	common->words.at = sc_arena_calloc(arena, n, sizeof(*common->words.at));
	for (const struct sc_cli_option *o = r->line->command->options; o && o->name; o++) {
		if (o->kind == SC_ARG_LIST) {
			void *place = (unsigned char *)r->into + o->offset;
			struct sc_arg_list *list = place;

			list->at = sc_arena_calloc(arena, n, sizeof(*list->at));
			list->n = 0;
		}
	}
}

int sc_options_parse(const struct sc_line *line, void *into, struct sc_arena *arena,
		     struct sc_err *err)
{
	struct reader r = {.line = line, .into = into};
	struct sc_common *common = into;
	bool only_words = false;
	int rc = 0;

	prepare_lists(&r, arena);
	for (; r.at < line->argc && rc == 0; r.at++) {
		const char *word = line->argv[r.at];

		if (only_words || word[0] != '-' || word[1] == '\0') {
			common->words.at[common->words.n++] = word;
			only_words = only_words || line->command->runs_another;
		} else if (strcmp(word, "--") == 0)
			only_words = true;
		else if (word[1] == '-')
			rc = parse_long(&r, word + 2, err);
		else
			rc = parse_letters(&r, word + 1, err);
	}
	return rc;
}

/* Option tables as people and shells read them: --help, man pages. */

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

/* An option of the table, as the command means it. */
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

static void append_options(struct sc_strbuf *out, const struct sc_command *command,
			   const struct sc_cli_option *options)
{
	char label[MAX_LABEL];

	for (; options && options->name; options++) {
		struct sc_cli_option option = as_meant(command, options);

		option_label(&option, label, sizeof(label));
		if (strlen(label) + 4 > HELP_COLUMN)
			sc_strbuf_printf(out, "  %s\n%*s", label, HELP_COLUMN, "");
		else
			sc_strbuf_printf(out, "  %-*s", HELP_COLUMN - 2, label);
		append_wrapped(out, option.help, strlen(option.help), HELP_COLUMN);
	}
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

/* ---- man pages ---- */

static void append_roff(struct sc_strbuf *out, const char *text, size_t n)
{
	if (n && (*text == '.' || *text == '\''))
		sc_strbuf_append(out, "\\&");
	for (size_t i = 0; i < n; i++)
		if (text[i] == '\\')
			sc_strbuf_append(out, "\\e");
		else if (text[i] == '-')
			sc_strbuf_append(out, "\\-");
		else
			sc_strbuf_append_char(out, text[i]);
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

static void append_man(const struct sc_command *command, struct sc_strbuf *out)
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

void sc_options_help(const struct sc_command *command, bool man, struct sc_strbuf *out)
{
	if (man) {
		append_man(command, out);
		return;
	}
	sc_options_usage(command, out);
	each_paragraph(command->details, out, put_help_paragraph);
	if (command->options && command->options->name)
		sc_strbuf_append(out, "\nOptions:\n");
	append_options(out, command, command->options);
	sc_strbuf_append(out, "\nEverywhere:\n");
	append_options(out, command, sc_common_options);
}
