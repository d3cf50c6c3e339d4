/* Parts of sc_run_conclude that have files of their own. */
#ifndef SC_PREDICT_SUMMARIZE_PRIV_H
#define SC_PREDICT_SUMMARIZE_PRIV_H

#include "predict/predict.h"
#include "predict/transformer/build_transformer.h"
#include "predict/transformer/summarize.h"

/* Micro-batches whose activations a stage holds at once at its peak, over its chunks. */
double sc_micro_batches_in_flight(const struct sc_run *run, int stage);
/* Of a class that holds those of so many. */
void sc_memory_of_class(const struct sc_run *run, uint32_t c, double in_flight,
			struct sc_memory *out);
/* Memory of the class nearest to its capacity; of run->built its passes count. */
void sc_fullest_memory(const struct sc_run *run, struct sc_memory *out);
/* Sets out->memory to that of the class nearest to its capacity, and warns where that does not fit. */
void sc_summarize_memory(const struct sc_run *run, struct sc_prediction *out);

#endif
