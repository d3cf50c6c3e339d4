/* From a simulated iteration to what people read: breakdown, path, classes, contributors, memory, band. */
#ifndef SC_PREDICT_SUMMARIZE_H
#define SC_PREDICT_SUMMARIZE_H

#include "predict/predict.h"
#include "predict/transformer/build_transformer.h"
#include "predict/transformer/steady.h"

struct sc_run {
	const struct sc_transformer *tf;
	const struct sc_graph *graph;
	const struct sc_timeline *timeline;
	const struct sc_built *built;
	struct sc_reader *reader;
	struct sc_steady steady;
	double n_skipped; /* periods left out of the simulated run */
};
void sc_run_summarize(struct sc_run *run, struct sc_prediction *out);

#endif
