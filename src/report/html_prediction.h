/* A prediction as a page: how it stands and why first, then where time and memory go, and the config. */
#ifndef SC_REPORT_HTML_PREDICTION_H
#define SC_REPORT_HTML_PREDICTION_H

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

#endif
