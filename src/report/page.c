/* The page: the template with the document in its place. */
#include "report/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_out.h"

static const char PLACE[] = "@DOCUMENT@";
/* share/page.html, ended by 0. */
static const unsigned char TEMPLATE[] = {
#include "report/page_html.inc"
};

/* The document without the passes of schedules one by one, which are many times what is drawn of
 * them: a copy, as another form of the result may have them. */
static json_t *without_slots(json_t *document)
{
	json_t *drawn = json_copy(document),
	       *others = json_copy(json_object_get(document, "others"));

	json_object_del(drawn, "slots");
	for (size_t i = 0; i < json_array_size(others); i++) {
		json_array_set_new(others, i, json_copy(json_array_get(others, i)));
		json_object_del(json_array_get(others, i), "slots");
	}
	if (others)
		json_object_set_new(drawn, "others", others);
	return drawn;
}

int sc_page_write(json_t *document, FILE *out, struct sc_err *err)
{
	const char *template = (const char *)TEMPLATE, *place = strstr(template, PLACE);
	const char *schema = json_string_value(json_object_get(document, "schema"));
	json_t *drawn;
	char *text;

	if (!schema || strncmp(schema, "stepcast", strlen("stepcast")) != 0)
		return sc_err_set(err, SC_EVALUE,
				  "not a result of stepcast: it has no schema \"stepcast/...\"");
	drawn = without_slots(document);
	text = json_dumps(drawn,
			  JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(SC_JSON_DIGITS));
	json_decref(drawn);
	if (!text)
		return sc_err_set(err, SC_EVALUE, "the document cannot be written as JSON");
	fwrite(template, 1, (size_t)(place - template), out);
	/* A < could end a script; in JSON it stands in texts alone, which can escape it. */
	for (const char *at = text; *at; at++)
		if (*at == '<')
			fputs("\\u003c", out);
		else
			putc(*at, out);
	fputs(place + strlen(PLACE), out);
	free(text);
	if (fflush(out) || ferror(out))
		return sc_err_set(err, SC_EIO, "cannot write the result: %s", strerror(errno));
	return 0;
}
