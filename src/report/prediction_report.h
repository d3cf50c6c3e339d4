/* A prediction as text and JSON. */
#pragma once

#include "report/forms.h"
#include "study/explain/explain.h"
#include "study/sweep/run_cost.h"

struct sc_prediction_report {
	const struct sc_request *request;
	const struct sc_prediction *prediction;
	/* NULL: not asked for, or none. */
	const struct sc_explanation *explanation;
	const struct sc_alternatives *alternatives;
	const struct sc_run_cost *cost;
	const struct sc_schedule_play *play; /* of a pipeline: pages draw it */
};
extern const struct sc_forms
	sc_prediction_forms; /* of a struct sc_prediction_report; text: rounded for reading */
