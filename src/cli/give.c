/* Gives results to a file or stdout: as text or JSON, or in the form that the file's ending names.
 * Reports say how a result reads in each form (struct sc_forms); where it goes is told here. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_out.h"
#include "base/output.h"
#include "cli/start.h"
#include "core/profile/paths.h"
#include "report/page.h"
#include "report/parts.h"

int sc_cli_write(const char *path, sc_cli_writer write, const void *ctx, struct sc_err *err)
{
	bool is_stdout = strcmp(path, "-") == 0;
	struct sc_output *out = NULL;
	struct sc_err own = {.code = SC_OK};
	int rc = is_stdout ? 0 : sc_output_create(path, false, &out, err);

	if (rc)
		return rc;
	if (write(ctx, is_stdout ? stdout : sc_output_stream(out), &own) == 0)
		return is_stdout ? 0 : sc_output_commit(out, NULL, err);
	if (!is_stdout)
		sc_output_discard(out);
	/* An error of writing gets the file's name; one of the result has its own place. */
	if (own.code == SC_EIO)
		return sc_err_at(err, own.code, is_stdout ? NULL : path, 0, 0, "%s", own.text);
	return sc_err_at(err, own.code, own.file, own.line, own.column, "%s", own.text);
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

static int write_page(const void *ctx, FILE *out, struct sc_err *err)
{
	return sc_page_write((json_t *)(uintptr_t)ctx, out, err);
}

int sc_cli_write_document(const char *path, json_t *document, struct sc_err *err)
{
	return sc_cli_write(path, write_page, document, err);
}

static int write_document(const void *ctx, FILE *out, struct sc_err *err)
{
	const struct sc_json *document = ctx;
	struct sc_json own = *document; /* writing releases it */

	json_incref(own.root);
	return sc_json_write(&own, out, err);
}

static const void *option_of(const struct sc_cli_call *call, const char *name)
{
	const struct sc_cli_option *o = call->line->command->options;

	while (o->name && strcmp(o->name, name) != 0)
		o++;
	return o->name ? (const unsigned char *)(const void *)call->common + o->offset : NULL;
}

static size_t terminal_width(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40 ? size.ws_col : 80;
}

/* Returns whether a file's ending names a form of a result. */
static bool names_form(const char *path)
{
	return sc_ends_with(path, ".html") || sc_ends_with(path, ".json") ||
	       sc_ends_with(path, ".csv") || sc_ends_with(path, ".svg");
}

/* Writes the result's text, whose lines are folded for a terminal. */
static int write_result_text(const char *path, const struct sc_forms *forms, const void *result,
			     struct sc_err *err)
{
	const bool on_terminal = strcmp(path, "-") == 0 && isatty(STDOUT_FILENO);
	struct sc_strbuf text = {0}, folded = {0};
	int rc = 0;

	forms->text(result, &text);
	if (on_terminal)
		sc_text_fold(sc_strbuf_get(&text), terminal_width(), &folded);
	rc = sc_cli_write_text(path, on_terminal ? &folded : &text, err);
	sc_strbuf_release(&folded);
	sc_strbuf_release(&text);
	return rc;
}

/* Writes the result in the form that the file's ending asks for: a table, a figure, a page or JSON;
 * else as text. A form that the result does not have is refused: another under its name misleads a
 * reader. */
static int write_by_ending(const char *option, const char *path, const struct sc_forms *forms,
			   const void *result, const struct sc_json *document, struct sc_err *err)
{
	const char *ending = names_form(path) ? strrchr(path, '.') : ".text";
	const bool has_own = forms->own_json && strcmp(option, "-o") == 0;
	struct sc_strbuf text = {0};
	int rc = 0;

	if (strcmp(ending, ".html") == 0)
		return sc_cli_write_document(path, document->root, err);
	if (strcmp(ending, ".json") == 0 && !has_own)
		return sc_cli_write(path, write_document, document, err);
	if ((strcmp(ending, ".csv") == 0 || strcmp(ending, ".json") == 0) && forms->csv)
		return sc_cli_write(path, forms->csv, result, err);
	if (strcmp(ending, ".text") == 0 && forms->text)
		return write_result_text(path, forms, result, err);
	if (strcmp(ending, ".svg") == 0 && forms->svg) {
		forms->svg(result, &text);
		rc = sc_cli_write_text(path, &text, err);
		sc_strbuf_release(&text);
		return rc;
	}
	return sc_err_set(err, SC_EUSAGE,
			  "%s: this result has no %s; FILE.html and FILE.json have it", option,
			  ending + 1);
}

int sc_cli_give(const struct sc_cli_call *call, const struct sc_forms *forms, const void *result,
		struct sc_err *err)
{
	const char *path =
		call->line->command->output_arg || !forms->text ? "-" : call->common->output;
	const int *json = option_of(call, "json");
	const char *const *report = option_of(call, "report");
	const bool is_json = json && *json, has_form = !is_json && names_form(path);
	struct sc_json document = {0};
	int rc = 0;

	if (is_json || has_form || (report && *report)) {
		forms->json(result, &document);
		if (!json_array_size(json_object_get(document.root, "warnings")))
			json_object_set(document.root, "warnings", call->common->warnings);
		if (document.err.code != SC_OK)
			rc = sc_err_set(err, document.err.code, "%s", document.err.text);
	}
	if (rc == 0 && is_json)
		rc = sc_cli_write(path, write_document, &document, err);
	else if (rc == 0 && (has_form || forms->text))
		rc = write_by_ending("-o", path, forms, result, &document, err);
	if (rc && has_form && forms->text && document.err.code == SC_OK) /* the run is not lost */
		write_result_text("-", forms, result, err);
	if (rc == 0 && report && *report)
		rc = write_by_ending("--report", *report, forms, result, &document, err);
	json_decref(document.root);
	return rc;
}

int sc_cli_write_template(const char *name, const struct sc_cli_call *call, struct sc_err *err)
{
	struct sc_strbuf text = {0};
	struct sc_source template = {.text = NULL};
	const char *path;
	int rc = sc_config_path((struct sc_config_ref){.at = name}, call->arena, &path, err);

	if (rc == 0)
		rc = sc_file_read(path, SC_FILE_MAX_UNPACKED, &template, err);
	if (rc == 0) {
		sc_strbuf_append(&text, template.text);
		rc = sc_cli_write_text(call->common->output, &text, err);
	}
	sc_source_release(&template);
	sc_strbuf_release(&text);
	return rc;
}
