/* One self-contained HTML page: what every report is written with. Nothing is loaded from elsewhere; its one script
 * sorts tables by a click on their heads; it follows the reader's light or dark setting and prints.
 * All texts are escaped here. */
#ifndef SC_REPORT_PAGE_H
#define SC_REPORT_PAGE_H

#include <stdbool.h>

#include "base/strbuf.h"
#include "core/config/config.h"

struct sc_page {
	struct sc_strbuf *out;
	const char *columns; /* heads of the table that is open, or NULL */
	unsigned column;     /* of the next cell */
};
/* How it stands: green, yellow, red. */
enum sc_verdict { SC_VERDICT_GOOD, SC_VERDICT_FAIR, SC_VERDICT_BAD };

/* Up to the head line. `command`: "predict"; `title`: as a config's path. */
void sc_page_begin(struct sc_page *page, const char *command, const char *title,
		   struct sc_strbuf *out);
/* With the version that wrote it. */
void sc_page_end(struct sc_page *page);
void sc_page_heading(struct sc_page *page, const char *text);
void sc_page_text(struct sc_page *page, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The figure that the page is about, large, and what it is. */
void sc_page_figure(struct sc_page *page, const char *figure, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void sc_page_verdict(struct sc_page *page, enum sc_verdict verdict, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A table: its heads in one text, "operation|ms#|%#", with # behind those of numbers; then cell after cell, a row ends
 * with its last column. */
void sc_page_table(struct sc_page *page, const char *heads);
/* Appends a head of any text to such a list. */
void sc_page_head(struct sc_strbuf *heads, const char *text, bool is_number);
void sc_page_cell(struct sc_page *page, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* So many digits after the point; empty if not finite. */
void sc_page_number(struct sc_page *page, int digits, double value);
/* A cell with the colour that a chart gives it. */
void sc_page_key(struct sc_page *page, const char *color, const char *text);
void sc_page_table_end(struct sc_page *page);

void sc_page_warnings(struct sc_page *page, const struct sc_warnings *warnings);
/* Text as it is, folded away under a summary; as a resolved config or a plan. */
void sc_page_folded(struct sc_page *page, const char *summary, const char *text);
/* The resolved config and its hash. */
void sc_page_config(struct sc_page *page, const struct sc_request *request);

void sc_page_escape(struct sc_strbuf *out, const char *text);

#endif
