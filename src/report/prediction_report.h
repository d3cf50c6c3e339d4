/* A prediction as text and JSON. */
#ifndef SC_REPORT_PREDICTION_REPORT_H
#define SC_REPORT_PREDICTION_REPORT_H

#include <stdio.h>

#include "base/strbuf.h"
#include "study/explain/alternatives.h"
#include "study/explain/explain.h"
#include "study/explain/run_cost.h"

struct sc_prediction_report {
	const struct sc_request *request;
	const struct sc_prediction *prediction;
	/* NULL: not asked for, or none. */
	const struct sc_explanation *explanation;
	const struct sc_alternatives *alternatives;
	const struct sc_run_cost *cost;
	const struct sc_schedule_play *play; /* of a pipeline: pages draw it */
};
/* Numbers are rounded for reading; JSON has them in full. */
void sc_text_prediction(const struct sc_prediction_report *report, struct sc_strbuf *out);
int sc_json_prediction(const struct sc_prediction_report *report, FILE *out, struct sc_err *err);

#endif
