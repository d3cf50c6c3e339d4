/* Iterations that ranges on the host mark: those of a profiler, of an optimizer, or of the user. */
#pragma once

#include "trace/format/trace_file.h"

/* How iterations were found; the first that a trace has. */
enum sc_found_by {
	SC_FOUND_RANGE,     /* of the name that was asked for */
	SC_FOUND_STEPS,     /* ProfilerStep#9 */
	SC_FOUND_ZERO_GRAD, /* from one Optimizer.zero_grad to the next */
	SC_FOUND_OPTIMIZER, /* from the end of one Optimizer.step to that of the next */
	SC_FOUND_NAMED,     /* ranges named step, iteration or batch that nearly all calls are in */
	SC_FOUND_PERIOD,    /* by what repeats */
	SC_FOUND_WHOLE      /* the trace is one */
};
/* From start to end on the clock of the trace. */
struct sc_mark {
	int64_t start_ns, end_ns, step;
	uint32_t lane; /* of the trace; 0 = that of the most calls */
};
struct sc_marks {
	SC_VEC(struct sc_mark) list;
	enum sc_found_by found_by;
	uint32_t name; /* of the trace: of the first range; 0 = none */
};
/* `range`: only ranges of this name, which may be a pattern of the shell. Events are those of
 * ranges and calls, in order of time. False: no range marks iterations, and the list is empty.
 * Release the list. */
bool sc_marks_find(const struct sc_trace *trace, const char *range, struct sc_marks *out);
/* "cut at Optimizer.zero_grad#SGD.zero_grad": how, for people; into text. */
const char *sc_marks_text(enum sc_found_by found_by, const char *name, char text[128]);
