/* From a simulated iteration to what people read: breakdown, path, classes, contributors, memory. */
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
	struct sc_steady steady;
};
void sc_run_op_info(const struct sc_run *run, struct sc_reading_input *out);
/* The node that ends the iteration. */
uint32_t sc_run_last(const struct sc_run *run);
/* With pp 1, of the fullest GPU and node; of the request alone, before anything is built. */
void sc_memory_without_pipeline(const struct sc_request *request, struct sc_memory *out);
/* After the reading. */
void sc_run_conclude(const struct sc_run *run, struct sc_prediction *out);

#endif
