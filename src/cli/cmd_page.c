/* stepcast page: the page of a result that was saved as JSON. */
#include <errno.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/start.h"

static int page(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct sc_common *common = into;
	const char *path = common->words.at[0];
	bool is_stdin = strcmp(path, "-") == 0;
	FILE *in = is_stdin ? stdin : fopen(path, "r");
	json_error_t at;
	json_t *document;
	int rc;

	(void)call;
	if (!in)
		return sc_err_at(err, SC_EIO, path, 0, 0, "cannot open: %s", strerror(errno));
	document = json_loadf(in, JSON_REJECT_DUPLICATES, &at);
	if (!is_stdin)
		fclose(in);
	if (!document)
		return sc_err_at(err, SC_EFORMAT, path, (unsigned)at.line, (unsigned)at.column,
				 "%s", at.text);
	rc = sc_cli_write_document(common->output, document, err);
	json_decref(document);
	return rc;
}

static const struct sc_cli_option OPTIONS[] = {{0}};

const struct sc_command sc_command_page = {
	.name = "page",
	.n_words = 1,
	.words_asked = "one FILE.json",
	.summary = "make the HTML page of a result that was saved as JSON",
	.synopsis = "FILE.json [-o FILE.html]",
	.details =
		"Turns what a command wrote with --json into the page that the same command writes with --report, byte for "
		"byte (- is stdin). A page is one file: it loads nothing from elsewhere, and it holds the JSON.\n\n"
		"  stepcast predict run.yaml --explain --json -o run.json\n"
		"  stepcast page run.json -o run.html",
	.words = "file",
	.options = OPTIONS,
	.args_bytes = sizeof(struct sc_common),
	.run = page,
};
