/* Parts of sc_run_conclude that have files of their own. */
#ifndef SC_PREDICT_SUMMARIZE_PRIV_H
#define SC_PREDICT_SUMMARIZE_PRIV_H

#include "predict/predict.h"
#include "predict/transformer/build_transformer.h"
#include "predict/transformer/summarize.h"

/* Memory of the class nearest to its capacity; of run->built its passes count. */
void sc_fullest_memory(const struct sc_run *run, struct sc_memory *out);
/* Sets out->memory to that of the class nearest to its capacity, and warns where that does not fit. */
void sc_summarize_memory(const struct sc_run *run, struct sc_prediction *out);

#endif
