/* The simulated timeline as MLCommons Chakra execution traces, which network simulators run: one
 * for a class of ranks, with begins, durations, FLOP and what is communicated. */
#pragma once

#include "predict/predict.h"

/* DIR/chakra.N.et for class N of the graph, after sc_predict with keep_graph. Of one detail, coarse
 * or full, all that it simulates is written: collectives inside a coarse pass are not. */
int sc_chakra_write(const struct sc_predictor *predictor, const char *dir, struct sc_err *err);
