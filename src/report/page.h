/* One self-contained HTML page that draws the JSON document of a command. All that it shows, and
 * how, is in share/page.html, which the build puts into the program. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "base/err.h"

/* Writes the page of any document of ours, as a command writes it or as it was saved: the same
 * bytes for the same document, which loses what no page draws. SC_EVALUE: not such a document. */
int sc_page_write(json_t *document, FILE *out, struct sc_err *err);
