/* The option tables: parsing, hints, and that every option of every command is documented. */
#include "arena_fixture.h"
#include "cli/commands.h"
#include "runner.h"

struct args {
	struct sc_common common;
	struct sc_arg_list sets;
	const char *text;
	int flag, choice;
	int64_t whole;
	double real;
};
#define AT(member) offsetof(struct args, member)
static const char *const CHOICES[] = {"coarse", "full", NULL};
static const struct sc_cli_option OPTIONS[] = {
	{.name = "set", .kind = SC_ARG_LIST, .arg = "A=B", .offset = AT(sets), .help = "h"},
	{.name = "text",
	 .letter = 't',
	 .kind = SC_ARG_TEXT,
	 .arg = "T",
	 .offset = AT(text),
	 .help = "h"},
	{.name = "flag", .letter = 'f', .kind = SC_ARG_FLAG, .offset = AT(flag), .help = "h"},
	{.name = "choice",
	 .kind = SC_ARG_CHOICE,
	 .arg = "coarse|full",
	 .offset = AT(choice),
	 .choices = CHOICES,
	 .help = "h"},
	{.name = "whole",
	 .kind = SC_ARG_INT,
	 .arg = "N",
	 .offset = AT(whole),
	 .min = 1,
	 .max = 64,
	 .help = "h"},
	{.name = "real",
	 .kind = SC_ARG_NUMBER,
	 .arg = "X",
	 .offset = AT(real),
	 .min = 0,
	 .max = 100,
	 .help = "h"},
	{0},
};
static const struct sc_command COMMAND = {
	.name = "test", .synopsis = "", .details = "", .words = "file", .options = OPTIONS};

enum { MAX_WORDS = 32 };
static struct sc_err err;
static struct args args;
static char line_copy[256];

static void set_up(void)
{
	arena_begin();
	memset(&err, 0, sizeof(err));
	memset(&args, 0, sizeof(args));
	args.common = sc_common_defaults;
}

/* Words separated by single spaces; "''" is an empty one. */
static int parse(const char *line)
{
	char *argv[MAX_WORDS], *save = NULL;
	char nothing[] = "";
	int argc = 0;

	ck_assert_uint_lt(strlen(line), sizeof(line_copy));
	memcpy(line_copy, line, strlen(line) + 1);
	for (char *w = strtok_r(line_copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		ck_assert_int_lt(argc, MAX_WORDS);
		argv[argc++] = strcmp(w, "''") == 0 ? nothing : w;
	}
	return sc_options_parse(&(struct sc_line){.command = &COMMAND, .argc = argc, .argv = argv},
				&args, &arena, &err);
}

FIXTURE(set_up, arena_end)

TEST(test_every_kind)
{
	ck_assert_int_eq(parse("a --set x=1 --set=y=2 --text T -f --choice full --whole 64 "
			       "--real=2.5 b -o out -vv --no-progress"),
			 0);
	ck_assert_uint_eq(args.common.words.n, 2);
	ck_assert_str_eq(args.common.words.at[0], "a");
	ck_assert_str_eq(args.common.words.at[1], "b");
	ck_assert_uint_eq(args.sets.n, 2);
	ck_assert_str_eq(args.sets.at[1], "y=2");
	ck_assert_str_eq(args.text, "T");
	ck_assert_int_eq(args.flag, 1);
	ck_assert_int_eq(args.choice, 1);
	ck_assert_int_eq(args.whole, 64);
	ck_assert_double_eq_tol(args.real, 2.5, 1e-12);
	ck_assert_str_eq(args.common.output, "out");
	ck_assert_int_eq(args.common.verbose, 2);
	ck_assert_int_eq(args.common.progress, 0);
}

TEST(test_defaults)
{
	ck_assert_int_eq(parse(""), 0);
	ck_assert_uint_eq(args.common.words.n, 0);
	ck_assert_int_eq(args.common.progress, -1);
	ck_assert_str_eq(args.common.output, "-");
}

TEST(test_letters)
{
	ck_assert_int_eq(parse("-fqtX -h"), 0);
	ck_assert_int_eq(args.flag, 1);
	ck_assert_int_eq(args.common.quiet, 1);
	ck_assert_str_eq(args.text, "X");
	ck_assert_int_eq(args.common.help, 1);
}

TEST(test_words_after_two_dashes)
{
	ck_assert_int_eq(parse("- -- --flag -x"), 0);
	ck_assert_int_eq(args.flag, 0);
	ck_assert_uint_eq(args.common.words.n, 3);
	ck_assert_str_eq(args.common.words.at[0], "-");
	ck_assert_str_eq(args.common.words.at[2], "-x");
}

static const struct {
	const char *line, *text;
} BAD[] = {
	{"--flg", "unknown option \"--flg\"; did you mean \"--flag\"?"},
	{"--zzzzzz", "unknown option \"--zzzzzz\""},
	{"--quiett", "unknown option \"--quiett\"; did you mean \"--quiet\"?"},
	{"-x", "unknown option \"-x\""},
	{"-fx", "unknown option \"-x\""},
	{"--no-flag", "unknown option \"--no-flag\""},
	{"--no-progress=1", "unknown option \"--no-progress\"; did you mean \"--progress\"?"},
	{"--flag=1", "--flag takes no value"},
	{"--text", "--text needs a value: --text T"},
	{"-t", "--text needs a value: --text T"},
	{"--choice ful", "--choice: unknown value \"ful\"; did you mean \"full\"?"},
	{"--choice zzz", "--choice: unknown value \"zzz\"; expected coarse|full"},
	{"--whole 0", "--whole: expected an integer from 1 to 64, got \"0\""},
	{"--whole 65", "--whole: expected an integer from 1 to 64, got \"65\""},
	{"--whole 1.5", "--whole: expected an integer from 1 to 64, got \"1.5\""},
	{"--whole ''", "--whole: expected an integer from 1 to 64, got \"\""},
	{"--real nan", "--real: expected a number from 0 to 100, got \"nan\""},
	{"--real 1e999", "--real: expected a number from 0 to 100, got \"1e999\""},
	{"--real -1", "--real: expected a number from 0 to 100, got \"-1\""},
};

LOOP_TEST(test_bad_lines, N_OF(BAD))
{
	ck_assert_int_eq(parse(BAD[_i].line), -SC_EUSAGE);
	ck_assert_str_eq(err.text, BAD[_i].text);
}

static size_t n_named(const char *text, const char *name)
{
	char flag[64];

	snprintf(flag, sizeof(flag), "--%s", name);
	return strstr(text, flag) != NULL;
}

/* In help and in completion (where a switch is also there as --no-NAME). */
static void check_documented(const struct sc_command *command, const struct sc_cli_option *table)
{
	char dashes[] = "--", *const words[] = {dashes, dashes};
	struct sc_strbuf help = {0}, completion = {0};

	sc_options_help(command, false, &help);
	sc_complete(command, 2, words, &completion);
	for (const struct sc_cli_option *o = table; o && o->name; o++) {
		ck_assert_msg(o->help && *o->help, "--%s of %s has no help", o->name,
			      command->name);
		ck_assert_msg(o->kind < SC_ARG_TEXT || o->arg, "--%s: its value has no name",
			      o->name);
		ck_assert_msg(o->kind == SC_ARG_SWITCH || n_named(sc_strbuf_get(&help), o->name),
			      "--%s is not in the help of %s", o->name, command->name);
		ck_assert_msg(n_named(sc_strbuf_get(&completion), o->name), "--%s is not completed",
			      o->name);
	}
	sc_strbuf_release(&help);
	sc_strbuf_release(&completion);
}

TEST(test_commands_are_documented)
{
	for (size_t i = 0; sc_commands[i]; i++) {
		const struct sc_command *c = sc_commands[i];

		ck_assert(c->run != NULL);
		ck_assert_uint_gt(strlen(c->summary), 0);
		ck_assert_uint_gt(strlen(c->details), 0);
		check_documented(c, c->options);
		check_documented(c, sc_common_options);
	}
}

/* No option of a command hides a common one. */
TEST(test_names_are_unique)
{
	for (size_t i = 0; sc_commands[i]; i++) {
		for (const struct sc_cli_option *o = sc_commands[i]->options; o && o->name; o++) {
			for (const struct sc_cli_option *c = sc_common_options; c->name; c++) {
				ck_assert_str_ne(o->name, c->name);
				ck_assert(!o->letter || o->letter != c->letter);
			}
			for (const struct sc_cli_option *p = sc_commands[i]->options; p != o; p++) {
				ck_assert_str_ne(o->name, p->name);
				ck_assert(!o->letter || o->letter != p->letter);
			}
		}
	}
}

/* No line of a man page begins with a dot that is not ours, and dashes are escaped. */
TEST(test_man_page)
{
	static const struct sc_cli_option options[] = {
		{.name = "dots",
		 .kind = SC_ARG_FLAG,
		 .offset = AT(flag),
		 .help = ".hidden a\\b -c"},
		{0},
	};
	struct sc_command command = COMMAND;
	struct sc_strbuf page = {0};

	command.options = options;
	command.summary = "tests";
	command.details = "One.\n\n  kept - as it is";
	sc_options_help(&command, true, &page);
	ck_assert_ptr_nonnull(strstr(sc_strbuf_get(&page), ".TH STEPCAST\\-TEST 1"));
	ck_assert_ptr_nonnull(strstr(sc_strbuf_get(&page), "\n\\&.hidden a\\eb \\-c\n"));
	ck_assert_ptr_nonnull(strstr(sc_strbuf_get(&page), ".nf\n  kept \\- as it is\n.fi\n"));
	sc_strbuf_release(&page);
}
