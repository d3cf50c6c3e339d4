/* The first and last steps of every command: parse, answer --help, print errors, write files. The
 * only place that writes to stderr. */
#pragma once

#include <jansson.h>
#include <signal.h>
#include <stdio.h>

#include "base/progress.h"
#include "core/config/config_table.h"
#include "lib/options.h"
#include "report/forms.h"

struct sc_where;
struct sc_trace_loss;
/* Exit codes. */
enum { SC_EXIT_DONE, SC_EXIT_DATA, SC_EXIT_USAGE, SC_EXIT_CHECK };
enum { SC_CLI_ARENA_BYTES = 64 << 10 };

/* A command from its line on: parses, answers --help, runs, says what went wrong; the exit code. */
int sc_cli_start(const struct sc_line *line);
/* Prints "file:line:col: error: text"; returns the exit code of its kind. */
int sc_cli_fail(const struct sc_err *err);
/* Threads: as asked for; 0: one a processor, shared by the ranks of this machine. */
unsigned sc_cli_jobs(const struct sc_cli_call *call, int64_t asked);
/* A line on stderr, of what -v asks for. */
void sc_cli_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sc_cli_warn(const struct sc_common *common, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void sc_cli_warn_all(const struct sc_common *common, const struct sc_warnings *warnings);
/* Names the columns of a table of cases that look like keys and are none. */
void sc_cli_warn_headers(const struct sc_common *common, const struct sc_csv *cases);
/* Says how much the traces lost, if anything. */
void sc_cli_warn_loss(const struct sc_common *common, const struct sc_trace_loss *loss);
/* NULL if progress is not wanted. */
struct sc_progress *sc_cli_progress(const struct sc_common *common, const char *title,
				    size_t total);

/* Makes SIGINT, SIGTERM and SIGHUP set a flag from now on, each once: the second ends the program
 * as ever. Long work looks at it, and gives what it has. A signal that is ignored stays so. */
const volatile sig_atomic_t *sc_cli_catch_stop(void);

/* Writes a file ("-" is stdout, which main checks) through `write`, errors checked. */
typedef int (*sc_cli_writer)(const void *ctx, FILE *out, struct sc_err *err);
int sc_cli_write(const char *path, sc_cli_writer write, const void *ctx, struct sc_err *err);
/* The stem of a profile's file, in the arena; `otherwise` where it cannot be an id. */
const char *sc_cli_profile_id(const char *path, const char *otherwise, struct sc_arena *arena);
int sc_cli_write_text(const char *path, const struct sc_strbuf *text, struct sc_err *err);
/* Gives a result in the form that is asked for: --json, the one that the ending of -o's FILE names,
 * else text; and --report's. Every JSON has `warnings`. */
int sc_cli_give(const struct sc_cli_call *call, const struct sc_forms *forms, const void *result,
		struct sc_err *err);
/* The page of a document, which it takes apart. */
int sc_cli_write_document(const char *path, json_t *document, struct sc_err *err);

/* A commented file of the configs folder, to be answered, where -o says. */
int sc_cli_write_template(const char *name, const struct sc_cli_call *call, struct sc_err *err);
/* sc_config_export; what the program cannot be told is warned of. */
int sc_cli_export(const struct sc_cli_call *call, const struct sc_request *request, const char *to,
		  struct sc_strbuf *out, struct sc_err *err);

/* "name=value" at its first '='; `option` names where it was given. */
int sc_cli_split(const char *text, const char *option, const char *form, struct sc_arena *arena,
		 const char **name, const char **value, struct sc_err *err);
/* All texts of an option, and room for one pair more. */
int sc_cli_pairs(const struct sc_arg_list *texts, const char *option, const char *form,
		 struct sc_arena *arena, struct sc_where **out, struct sc_err *err);
/* The --set texts over a config. */
int sc_cli_set(const struct sc_arg_list *sets, struct sc_arena *arena, struct sc_config *config,
	       struct sc_err *err);
/* A config file with the --set texts applied. */
int sc_cli_config(const char *path, const struct sc_arg_list *sets, struct sc_arena *arena,
		  struct sc_config *out, struct sc_err *err);
