/* The frame around each command. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "cli/start.h"
#include "trace/format/trace_loss.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/ranks.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "core/profile/paths.h"
#include "models/fit/fit.h"
#include "report/config_export.h"

enum { MAX_MESSAGE = 1024, STDIN_BYTES = 4096 };

static int usage_error(const struct sc_command *command, const struct sc_err *err)
{
	struct sc_strbuf usage = {0};

	sc_cli_fail(err);
	sc_options_usage(command, &usage);
	fputs(sc_strbuf_get(&usage), stderr);
	sc_strbuf_release(&usage);
	return SC_EXIT_USAGE;
}

/* --- no output may be an input --- */

/* One regular file, whatever it is called; or, where there is none yet, one name. */
static bool is_same_file(const char *a, const char *b)
{
	struct stat one, other;
	bool has_one = stat(a, &one) == 0, has_other = stat(b, &other) == 0;

	if (!has_one || !has_other)
		return !has_one && !has_other && strcmp(a, b) == 0;
	return S_ISREG(one.st_mode) && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* A folder as an input stands for the traces in it. */
static bool is_read(const char *input, const char *output)
{
	char folder[PATH_MAX], target[PATH_MAX];
	struct stat st, own;
	int n;

	if (strcmp(input, "-") == 0) /* stdin */
		return false;
	if (is_same_file(input, output))
		return true;
	if (realpath(output, target)) /* a link writes over what it points to */
		output = target;
	n = (int)(sc_file_name(output) - output);
	snprintf(folder, sizeof(folder), "%.*s.", n, output);
	return sc_ends_with(output, SC_TRACE_SUFFIX) && stat(input, &st) == 0 &&
	       S_ISDIR(st.st_mode) && stat(folder, &own) == 0 && st.st_dev == own.st_dev &&
	       st.st_ino == own.st_ino;
}

typedef bool (*relation)(const char *other, const char *output);

/* The first of the command's texts of kind `file` that has the relation to the output. */
static const char *find_file(const struct sc_command *command, const void *into,
			     enum sc_arg_file file, relation holds, const char *output)
{
	for (const struct sc_cli_option *o = command->options; o && o->name; o++) {
		const void *place = (const unsigned char *)into + o->offset;
		const struct sc_arg_list *list = place;
		const char *const *at = o->kind == SC_ARG_LIST ? list->at : place;
		size_t n = o->kind == SC_ARG_LIST ? list->n : o->file && *at;

		for (size_t i = 0; i < n && o->file == file; i++)
			if (at[i] != output && holds(at[i], output))
				return at[i];
	}
	return NULL;
}

static int check_output(const struct sc_command *command, const struct sc_common *common,
			const char *output, struct sc_err *err)
{
	const char *read = find_file(command, common, SC_FILE_IN, is_read, output);
	const char *again = find_file(command, common, SC_FILE_OUT, is_same_file, output);

	for (size_t i = 0; i < common->words.n && !read && !command->runs_another; i++)
		read = is_read(common->words.at[i], output) ? common->words.at[i] : NULL;
	if (read)
		return sc_err_set(err, SC_EUSAGE,
				  "%s is read by this command: write to another file", output);
	if (again)
		return sc_err_set(err, SC_EUSAGE, "two results would be written to %s", output);
	return 0;
}

static int check_outputs(const struct sc_command *command, const struct sc_common *common,
			 struct sc_err *err)
{
	int rc = check_output(command, common, common->output, err), n;
	char folder[PATH_MAX];
	struct stat st;

	for (const struct sc_cli_option *o = command->options; o && o->name && rc == 0; o++) {
		const void *place = (const unsigned char *)(const void *)common + o->offset;
		const char *const *text = place;

		if (o->file != SC_FILE_OUT || !*text)
			continue;
		rc = check_output(command, common, *text, err);
		/* Before hours of work: there must be a folder to write into. */
		n = (int)(sc_file_name(*text) - *text);
		if (rc || n == 0 || n >= PATH_MAX)
			continue;
		snprintf(folder, sizeof(folder), "%.*s", n, *text);
		if (stat(folder, &st) != 0)
			rc = sc_err_at(err, SC_EIO, *text, 0, 0, "cannot write: %s",
				       strerror(errno));
	}
	return rc;
}

static int check_words(const struct sc_line *line, const struct sc_common *common,
		       struct sc_err *err)
{
	const struct sc_command *command = line->command;

	for (size_t i = 0; i < common->words.n && line->ranks; i++)
		if (strcmp(common->words.at[i], "-") == 0)
			return sc_err_set(err, SC_EUSAGE,
					  "mpirun gives stdin to one process alone: name a file "
					  "in place of -");
	if (!command->words_asked || common->words.n == command->n_words)
		return 0;
	if (common->words.n < command->n_words)
		return sc_err_set(err, SC_EUSAGE, "%s needs %s", command->name,
				  command->words_asked);
	return sc_err_set(err, SC_EUSAGE, "%s takes only %s; what is \"%.64s\"?", command->name,
			  command->words_asked, common->words.at[command->n_words]);
}

/* True: go on. False: end with *exit_code: --help was answered, or what is wrong was said. */
static bool command_begin(const struct sc_line *line, void *into, struct sc_arena *arena,
			  int *exit_code)
{
	const struct sc_command *command = line->command;
	const struct sc_common *common = into;
	struct sc_err err = {.code = SC_OK};
	struct sc_strbuf help = {0};

	memcpy(into, &sc_common_defaults, sizeof(sc_common_defaults));
	/* Only the first of several processes writes. */
	if (sc_options_parse(line, into, arena, &err) ||
	    (!sc_ranks_helps(line->ranks) && check_outputs(command, into, &err))) {
		*exit_code = err.code == SC_EUSAGE ? usage_error(command, &err) : sc_cli_fail(&err);
		return false;
	}
	if (!common->help && !common->version) {
		if (check_words(line, common, &err) == 0)
			return true;
		*exit_code = usage_error(command, &err);
		return false;
	}
	if (common->help)
		sc_options_help(command, false, &help);
	else
		sc_strbuf_append(&help, SC_VERSION_LINE);
	fputs(sc_strbuf_get(&help), stdout);
	sc_strbuf_release(&help);
	*exit_code = SC_EXIT_DONE;
	return false;
}

int sc_cli_fail(const struct sc_err *err)
{
	char text[MAX_MESSAGE];

	fprintf(stderr, "%s\n", sc_err_format(err, text, sizeof(text)));
	return err->code == SC_EUSAGE    ? SC_EXIT_USAGE
	       : err->code == SC_EMISFIT ? SC_EXIT_CHECK
					 : SC_EXIT_DATA;
}

static int command_run(const struct sc_line *line, void *args, struct sc_arena *arena)
{
	struct sc_common *common = args;
	struct sc_cli_call call = {
		.line = line, .common = common, .arena = arena, .catalog = sc_catalog_create()};
	struct sc_err err = {.code = SC_OK};

	common->warnings = json_array();
	if (line->command->run(args, &call, &err)) {
		call.exit_code = sc_cli_fail(&err);
		if (line->ranks) /* what a helper cannot do is told by the first */
			line->ranks->why = err;
	}
	json_decref(common->warnings);
	sc_catalog_destroy(call.catalog);
	return call.exit_code;
}

int sc_cli_start(const struct sc_line *line)
{
	const struct sc_command *command = line->command;
	struct sc_arena arena;
	int exit_code = SC_EXIT_DONE;
	void *args;

	sc_arena_init(&arena, SC_CLI_ARENA_BYTES);
	args = sc_arena_calloc(&arena, 1, command->args_bytes);
	if (command->defaults)
		memcpy(args, command->defaults, command->args_bytes);
	if (command_begin(line, args, &arena, &exit_code))
		exit_code = command_run(line, args, &arena);
	sc_arena_release(&arena);
	return exit_code;
}

unsigned sc_cli_jobs(const struct sc_cli_call *call, int64_t asked)
{
	const struct sc_ranks *ranks = call->line->ranks;
	unsigned n = sc_cpu_count() / (ranks ? (unsigned)ranks->on_node : 1);

	return asked > 0 ? (unsigned)asked : n ? n : 1;
}

void sc_cli_say(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs("info: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
}

void sc_cli_warn(const struct sc_common *common, const char *fmt, ...)
{
	char text[MAX_MESSAGE];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (common->warnings)
		json_array_append_new(common->warnings, json_string(text));
	if (!common->quiet)
		fprintf(stderr, "warning: %s\n", text);
}

void sc_cli_warn_all(const struct sc_common *common, const struct sc_warnings *warnings)
{
	for (size_t i = 0; i < warnings->n; i++)
		sc_cli_warn(common, "%s", warnings->text[i]);
}

/* The key of which a bare header is the last word, as "parallel.tp" of "tp"; NULL: of none. */
static const char *config_table_meant(const char *header, struct sc_arena *arena)
{
	if (strchr(header, '.'))
		return NULL;
	for (const struct sc_field *section = sc_config_fields; section->key; section++) {
		const char *path = sc_arena_printf(arena, "%s.%s", section->key, header);

		if (section->type == SC_F_STRUCT && sc_field_find(section, path, arena).field)
			return path;
	}
	return NULL;
}

void sc_cli_warn_headers(const struct sc_common *common, const struct sc_csv *cases)
{
	struct sc_arena arena;

	sc_arena_init(&arena, SC_CLI_ARENA_BYTES);
	for (size_t i = 0; i < cases->n_cols; i++) {
		const char *path = config_table_meant(cases->header[i], &arena);

		if (path && sc_csv_column(cases, path) < 0)
			sc_cli_warn(
				common,
				"column \"%.64s\" is carried through and changes nothing; the key "
				"is %s",
				cases->header[i], path);
	}
	sc_arena_release(&arena);
}

void sc_cli_warn_loss(const struct sc_common *common, const struct sc_trace_loss *loss)
{
	struct sc_strbuf text = {0};

	sc_trace_loss_warning(loss, &text);
	if (text.n)
		sc_cli_warn(common, "%s", sc_strbuf_get(&text));
	sc_strbuf_release(&text);
}

struct sc_progress *sc_cli_progress(const struct sc_common *common, const char *title, size_t total)
{
	bool wanted =
		common->progress < 0 ? isatty(STDERR_FILENO) && !common->quiet : common->progress;

	return wanted ? sc_progress_create(stderr, title, total) : NULL;
}

static volatile sig_atomic_t stop_signal;

static void note_stop(int number)
{
	stop_signal = number;
}

const volatile sig_atomic_t *sc_cli_catch_stop(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction act = {.sa_handler = note_stop, .sa_flags = (int)SA_RESETHAND}, old;

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
			sigaction(signals[i], &act, NULL);
	return &stop_signal;
}

const char *sc_cli_profile_id(const char *path, const char *otherwise, struct sc_arena *arena)
{
	const char *stem = sc_file_name(path);
	size_t n = strlen(stem);

	n -= sc_ends_with(stem, ".yaml") ? strlen(".yaml") : 0;
	return n == 0 || strspn(stem,
				"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") <
				       n
		       ? otherwise
		       : sc_arena_strndup(arena, stem, n);
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

int sc_cli_pairs(const struct sc_arg_list *texts, const char *option, const char *form,
		 struct sc_arena *arena, struct sc_where **out, struct sc_err *err)
{
	int rc = 0;

	*out = sc_arena_calloc(arena, texts->n + 1, sizeof(**out));
	for (size_t i = 0; i < texts->n && rc == 0; i++)
		rc = sc_cli_split(texts->at[i], option, form, arena, &(*out)[i].column,
				  &(*out)[i].value, err);
	return rc;
}

int sc_cli_set(const struct sc_arg_list *sets, struct sc_arena *arena, struct sc_config *config,
	       struct sc_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < sets->n && rc == 0; i++) {
		const char *name = NULL, *value = NULL;

		rc = sc_cli_split(sets->at[i], "--set", "PATH=VALUE", arena, &name, &value, err);
		if (rc == 0)
			rc = sc_config_set(config, &(struct sc_setting){name, value, "--set"},
					   arena, err);
	}
	return rc;
}

/* Stdin's flags are the parent's too: it may be one that does not wait. */
static int load_stdin(struct sc_arena *arena, struct sc_config *out, struct sc_err *err)
{
	struct sc_strbuf text = {0};
	struct sc_yaml *root;
	int rc = 0;
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	char part[STDIN_BYTES];
	ssize_t n = 1;

	while (rc == 0 && n != 0 && text.n <= SC_YAML_MAX_BYTES) {
		poll(&in, 1, -1);
		n = read(STDIN_FILENO, part, sizeof(part));
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			rc = sc_err_at(err, SC_EIO, "-", 0, 0, "cannot be read: %s",
				       strerror(errno));
		if (n > 0)
			sc_strbuf_append_n(&text, part, (size_t)n);
	}
	if (rc == 0 && n)
		rc = sc_err_at(err, SC_ELIMIT, "-", 0, 0, "more than %d bytes", SC_YAML_MAX_BYTES);
	if (rc == 0)
		rc = sc_yaml_parse(&(struct sc_source){sc_strbuf_get(&text), text.n, "-"}, arena,
				   &root, err);
	sc_strbuf_release(&text);
	return rc ? rc : sc_config_take(root, arena, out, err);
}

int sc_cli_config(const char *path, const struct sc_arg_list *sets, struct sc_arena *arena,
		  struct sc_config *out, struct sc_err *err)
{
	static const char shipped[] = "configs/";
	const size_t n = strlen(shipped);
	const char *found = path;
	struct sc_err own = {.code = SC_OK};
	int rc;

	/* A shipped file is found from any folder, as documents and man pages name it. */
	if (strncmp(path, shipped, n) == 0 && access(path, F_OK) != 0 &&
	    sc_config_path((struct sc_config_ref){.at = path + n}, arena, &found, &own))
		found = path;
	rc = strcmp(path, "-") == 0 ? load_stdin(arena, out, err)
				    : sc_config_load(found, arena, out, err);
	return rc ? rc : sc_cli_set(sets, arena, out, err);
}

int sc_cli_export(const struct sc_cli_call *call, const struct sc_request *request, const char *to,
		  struct sc_strbuf *out, struct sc_err *err)
{
	struct sc_strbuf unsaid = {0};
	int rc = sc_config_export(request, to, call->catalog, call->arena, out, &unsaid, err);
	char *rest,
		*one = strtok_r(sc_arena_strdup(call->arena, sc_strbuf_get(&unsaid)), "\n", &rest);

	for (; rc == 0 && one; one = strtok_r(NULL, "\n", &rest))
		sc_cli_warn(call->common, "%s cannot be told: %s", to, one);
	sc_strbuf_release(&unsaid);
	return rc;
}
