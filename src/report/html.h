/* A prediction as one self-contained HTML page: no scripts, nothing loaded from elsewhere. */
#ifndef SC_REPORT_HTML_H
#define SC_REPORT_HTML_H

#include "base/strbuf.h"
#include "study/explain/explain.h"

/* What a page may have besides; NULL: not asked for, or none. */
struct sc_html_more {
	const struct sc_explanation *explanation;
	const struct sc_schedule_play *play; /* of a pipeline */
};
/* `title` is shown as it is, e.g. the config's path. */
void sc_html_prediction(const char *title, const struct sc_request *request,
			const struct sc_prediction *prediction, const struct sc_html_more *more,
			struct sc_strbuf *out);
/* Of any page: up to its head line, shown as is; text, escaped; the end. */
void sc_html_begin(const char *title, struct sc_strbuf *out);
void sc_html_text(struct sc_strbuf *out, const char *text);
void sc_html_end(struct sc_strbuf *out);

#endif
