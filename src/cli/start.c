/* The frame around each command. */
#include "cli/start.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/commands.h"

enum { MAX_MESSAGE = 1024 };

static void print_log(void *ctx, enum sc_log_level level, const char *text)
{
	(void)ctx;
	fprintf(stderr, "%s: %s\n", sc_log_level_name(level), text);
}

static void start_log(const struct sc_common *common)
{
	int level = SC_LOG_WARNING + common->verbose;

	if (common->quiet)
		level = SC_LOG_ERROR;
	sc_log_set_sink(print_log, NULL);
	sc_log_set_level(level > SC_LOG_DEBUG ? SC_LOG_DEBUG : (enum sc_log_level)level);
}

static int usage_error(const struct sc_command *command, const struct sc_err *err)
{
	struct sc_strbuf usage = {0};

	sc_cli_fail(err);
	sc_options_usage(command, &usage);
	fputs(sc_strbuf_get(&usage), stderr);
	sc_strbuf_release(&usage);
	return SC_EXIT_USAGE;
}

bool sc_cli_begin(const struct sc_command *command, int argc, char **argv, void *into,
		  struct sc_arena *arena, int *exit_code)
{
	const struct sc_common *common = into;
	struct sc_err err = {.code = SC_OK};
	struct sc_strbuf help = {0};

	sc_common_init(into);
	if (sc_options_parse(command, argc, argv, into, arena, &err)) {
		*exit_code = usage_error(command, &err);
		return false;
	}
	start_log(common);
	if (!common->help && !common->version)
		return true;
	if (common->help)
		sc_options_help(command, &help);
	else
		sc_strbuf_append(&help, SC_VERSION_LINE);
	sc_cli_print(&help);
	sc_strbuf_release(&help);
	*exit_code = SC_EXIT_DONE;
	return false;
}

bool sc_cli_begin_words(const struct sc_command *command, int argc, char **argv, void *into,
			struct sc_arena *arena, size_t n, const char *what, int *exit_code)
{
	const struct sc_common *common = into;
	struct sc_err err = {.code = SC_OK};

	if (!sc_cli_begin(command, argc, argv, into, arena, exit_code))
		return false;
	if (common->words.n == n)
		return true;
	if (common->words.n < n)
		sc_err_set(&err, SC_EUSAGE, "%s needs %s", command->name, what);
	else
		sc_err_set(&err, SC_EUSAGE, "%s takes only %s; what is \"%.64s\"?", command->name,
			   what, common->words.at[n]);
	*exit_code = usage_error(command, &err);
	return false;
}

int sc_cli_fail(const struct sc_err *err)
{
	char text[MAX_MESSAGE];

	fprintf(stderr, "%s\n", sc_err_format(err, text, sizeof(text)));
	return err->code == SC_EUSAGE ? SC_EXIT_USAGE : SC_EXIT_DATA;
}

void sc_cli_warn(const struct sc_common *common, const char *fmt, ...)
{
	char text[MAX_MESSAGE];
	va_list args;

	if (common->quiet)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fprintf(stderr, "warning: %s\n", text);
}

void sc_cli_warn_all(const struct sc_common *common, const struct sc_warnings *warnings)
{
	for (size_t i = 0; i < warnings->n; i++)
		sc_cli_warn(common, "%s", warnings->text[i]);
}

struct sc_progress *sc_cli_progress(const struct sc_common *common, const char *title, size_t total)
{
	bool wanted =
		common->progress < 0 ? isatty(STDERR_FILENO) && !common->quiet : common->progress;

	return wanted ? sc_progress_create(stderr, title, total) : NULL;
}

void sc_cli_print(const struct sc_strbuf *text)
{
	fwrite(sc_strbuf_get(text), 1, text->n, stdout);
}

/* What a writer could not do gets the name of the file; what is wrong with the result does not. */
static int write_error(const char *path, const struct sc_err *own, struct sc_err *err)
{
	if (own->code == SC_EIO)
		return sc_err_at(err, own->code, path, 0, 0, "%s", own->text);
	return sc_err_at(err, own->code, own->file, own->line, own->column, "%s", own->text);
}

int sc_cli_write(const char *path, sc_cli_writer write, const void *ctx, struct sc_err *err)
{
	bool is_stdout = strcmp(path, "-") == 0;
	FILE *file = is_stdout ? stdout : fopen(path, "w");
	struct sc_err own = {.code = SC_OK};
	int rc;

	if (!file)
		return sc_err_at(err, SC_EIO, path, 0, 0, "cannot write: %s", strerror(errno));
	rc = write(ctx, file, &own);
	if (rc)
		rc = write_error(is_stdout ? NULL : path, &own, err);
	if (!is_stdout && fclose(file) != 0)
		rc = sc_err_at(err, SC_EIO, path, 0, 0, "cannot write: %s", strerror(errno));
	return rc;
}

static int write_text(const void *ctx, FILE *out, struct sc_err *err)
{
	const struct sc_strbuf *text = ctx;

	if (fwrite(sc_strbuf_get(text), 1, text->n, out) == text->n && fflush(out) == 0)
		return 0;
	return sc_err_set(err, SC_EIO, "cannot write the result: %s", strerror(errno));
}

int sc_cli_write_text(const char *path, const struct sc_strbuf *text, struct sc_err *err)
{
	return sc_cli_write(path, write_text, text, err);
}

int sc_cli_split(const char *text, const char *option, const char *form, struct sc_arena *arena,
		 const char **name, const char **value, struct sc_err *err)
{
	const char *equals = strchr(text, '=');

	if (!equals || equals == text)
		return sc_err_set(err, SC_EUSAGE, "%s: expected %s, got \"%.64s\"", option, form,
				  text);
	*name = sc_arena_strndup(arena, text, (size_t)(equals - text));
	*value = equals + 1;
	return 0;
}

int sc_cli_config(const char *path, const struct sc_arg_list *sets, struct sc_arena *arena,
		  struct sc_config *out, struct sc_err *err)
{
	int rc = sc_config_load(path, arena, out, NULL, err);

	for (size_t i = 0; i < sets->n && rc == 0; i++) {
		const char *name = NULL, *value = NULL;

		rc = sc_cli_split(sets->at[i], "--set", "PATH=VALUE", arena, &name, &value, err);
		if (rc == 0)
			rc = sc_config_set(out, name, value, "--set", arena, err);
	}
	return rc;
}
