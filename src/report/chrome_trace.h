/* The simulated timeline in the trace event format that Perfetto and chrome://tracing read:
 * one process a class of ranks, one thread a lane. */
#pragma once

#include <stdio.h>

#include "predict/predict.h"

enum { SC_CHROME_NAME = 96 };
/* Writes the name of a node's operation into a buffer of SC_CHROME_NAME bytes. */
void sc_chrome_op_name(uint32_t op, char *buf);

/* After sc_predict with keep_graph. `prediction` names the classes. */
int sc_chrome_trace_write(const struct sc_predictor *predictor,
			  const struct sc_prediction *prediction, FILE *out, struct sc_err *err);
