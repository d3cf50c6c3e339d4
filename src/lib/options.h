/* Command lines by table: each command lists its options once; parsing, --help, the man page and
 * shell completion come from that list. Knows nothing of what the options do. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "core/config/likeness.h"

enum sc_arg_kind {
	SC_ARG_FLAG,   /* int = 1 */
	SC_ARG_COUNT,  /* int += 1 */
	SC_ARG_SWITCH, /* int = 1, or 0 with --no-NAME; stays what it was (-1: undecided) if absent
			*/
	SC_ARG_TEXT,   /* const char * */
	SC_ARG_LIST,   /* struct sc_arg_list: may be given again */
	SC_ARG_INT,    /* int64_t within min..max */
	SC_ARG_NUMBER, /* double within min..max */
	SC_ARG_CHOICE  /* int: index in `choices` */
};
/* An option's text may name a file: no output may be an input (sc_cli_begin). */
enum sc_arg_file { SC_FILE_NONE, SC_FILE_IN, SC_FILE_OUT };
struct sc_arg_list {
	const char **at;
	size_t n;
};
struct sc_cli_option {
	const char *name; /* without dashes; NULL ends the table */
	char letter;      /* -o; 0 = none */
	enum sc_arg_kind kind;
	enum sc_arg_file file; /* SC_ARG_TEXT, SC_ARG_LIST */
	bool of_command;       /* for the command only, as what all have and what names an output */
	const char *arg;       /* what the value is called in help: "FILE" */
	size_t offset;         /* in the command's struct, which begins with struct sc_common */
	double min, max;
	const char *const *choices; /* SC_ARG_CHOICE: NULL-ended */
	const char *help;           /* begins in lower case, no full stop; says the default */
};
/* First member of every command's struct. */
struct sc_common {
	struct sc_arg_list words; /* what is not an option, in order */
	int help, version, verbose, quiet;
	int progress;            /* -1: if stderr is a terminal */
	const char *output;      /* a file, or "-": stdout */
	struct json_t *warnings; /* the texts that were said, for the JSON; NULL: none is kept */
};
/* The words after the name of a command. */
struct sc_command;
struct sc_line {
	const struct sc_command *command;
	int argc;
	char **argv;
	struct sc_ranks *ranks; /* of a command that shares its work, or NULL */
	bool of_library;        /* a call's: what writes or speaks is for the command only */
};
/* A command and all it has while it runs. */
struct sc_cli_call {
	const struct sc_line *line;
	const struct sc_common *common; /* of the command's struct */
	struct sc_arena *arena;
	struct sc_catalog *catalog;
	int exit_code; /* where it did not fail */
};
struct sc_command {
	const char *name;
	const char *summary;  /* one line, no full stop */
	const char *synopsis; /* what follows the name: "CONFIG [--set PATH=VALUE]..." */
	const char *details;  /* paragraphs separated by an empty line; for help and the man page */
	const char *
		words; /* how completion fills a word: "file", "command", or words to choose from */
	const struct sc_cli_option *options;  /* its own; those of sc_common_options come besides */
	const char *output_arg, *output_help; /* of -o where it is not the result's file; or NULL */
	size_t n_words;                       /* with words_asked: so many must be given */
	const char *words_asked; /* how a message calls them: "one CONFIG"; NULL: any number */
	bool shares; /* its work with other processes that mpirun starts; the first alone speaks */
	bool runs_another;    /* whose words begin at the first that is no option, or after -- */
	size_t args_bytes;    /* of its struct, which begins with struct sc_common */
	const void *defaults; /* one of these, or NULL: zeros */
	int (*run)(void *args, struct sc_cli_call *call,
		   struct sc_err *err); /* 0, or an error's code */
};

enum { SC_CLI_MAX_JOBS = 1024 };
/* Rows of an option table. `member` is of SC_ARGS: the command's struct, defined before it. */
#define SC_OPT(kind_, member, name_, ...)                                                   \
	{                                                                                   \
		.name = name_, .kind = SC_ARG_##kind_, .offset = offsetof(SC_ARGS, member), \
		__VA_ARGS__                                                                 \
	}
#define SC_OPT_FLAG(member, name, text) SC_OPT(FLAG, member, name, .help = text)
#define SC_OPT_SWITCH(member, name, text) SC_OPT(SWITCH, member, name, .help = text)
#define SC_OPT_TEXT(member, name, word, text) SC_OPT(TEXT, member, name, .arg = word, .help = text)
#define SC_OPT_LIST(member, name, word, text) SC_OPT(LIST, member, name, .arg = word, .help = text)
#define SC_OPT_IN(member, name, word, text) \
	SC_OPT(TEXT, member, name, .file = SC_FILE_IN, .arg = word, .help = text)
#define SC_OPT_INS(member, name, word, text) \
	SC_OPT(LIST, member, name, .file = SC_FILE_IN, .arg = word, .help = text)
#define SC_OPT_OUT(member, name, word, text) \
	SC_OPT(TEXT, member, name, .file = SC_FILE_OUT, .arg = word, .help = text)
#define SC_OPT_INT(member, name, word, from, to, text) \
	SC_OPT(INT, member, name, .arg = word, .min = from, .max = to, .help = text)
#define SC_OPT_NUMBER(member, name, word, from, to, text) \
	SC_OPT(NUMBER, member, name, .arg = word, .min = from, .max = to, .help = text)
#define SC_OPT_CHOICE(member, name, word, list, text) \
	SC_OPT(CHOICE, member, name, .arg = word, .choices = list, .help = text)
/* These options belong to the commands that run a table of cases. */
#define SC_OPT_SET(member)                                                   \
	SC_OPT(LIST, member, "set", .arg = "PATH=VALUE", .of_command = true, \
	       .help = "override one key of the config, such as parallel.tp=4; may be given again")
#define SC_OPT_CONFIDENCE(member)                                                        \
	SC_OPT_INT(member, "confidence", "PCT", SC_CONFIDENCE_LEAST, SC_CONFIDENCE_MOST, \
		   "percent of measured times that the band should hold (default 80)")
#define SC_OPT_TIME_LIMIT(member, text) \
	SC_OPT_NUMBER(member, "time-limit", "SECONDS", 0.001, 1e7, text)
#define SC_OPT_JSON(member) \
	SC_OPT(FLAG, member, "json", .of_command = true, .help = "write JSON to stdout")
#define SC_OPT_REPORT(member)                     \
	SC_OPT_OUT(member, "report", "FILE.html", \
		   "also write the result as an HTML page, or as FILE.json")
#define SC_OPT_JOBS(member)                                                                      \
	SC_OPT(INT, member, "jobs", .letter = 'j', .arg = "N", .min = 1, .max = SC_CLI_MAX_JOBS, \
	       .help = "threads (default: one per processor); the result is the same for any number")

/* Costs of a run, which the commands that predict steps share. */
struct sc_cost_args {
	struct sc_arg_list prices;
	double tokens, samples; /* 0: not given */
};
#define SC_OPT_COSTS(member)                                                                                           \
	SC_OPT_LIST(                                                                                                   \
		member.prices, "price", "USD|GPU=USD",                                                                 \
		"price of an hour of any GPU, or of GPUs of one kind (cluster.price_usd_gpu_hour): say what a step "   \
		"costs; may be given again"),                                                                          \
		SC_OPT_NUMBER(                                                                                         \
			member.tokens, "tokens", "N", 1, 1e18,                                                         \
			"say what a run over N tokens, such as 15T, takes and costs; kWh count the GPUs' board power " \
			"(tdp_w) alone"),                                                                              \
		SC_OPT_NUMBER(member.samples, "samples", "N", 1, 1e18,                                                 \
			      "say the same for N samples")

extern const struct sc_cli_option sc_common_options[];

extern const struct sc_common sc_common_defaults;
/* Fills `into` from argv[0..argc-1] (the command's name not among them). A wrong line is SC_EUSAGE.
 * Texts point into argv, lists live in the arena. */
int sc_options_parse(const struct sc_line *line, void *into, struct sc_arena *arena,
		     struct sc_err *err);

void sc_options_usage(const struct sc_command *command, struct sc_strbuf *out); /* one line */
/* Writes the help for a terminal, or as a man page in roff. */
void sc_options_help(const struct sc_command *command, bool man, struct sc_strbuf *out);
