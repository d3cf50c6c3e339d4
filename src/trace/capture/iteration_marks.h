/* Puts the iterations of a recording into its trace as ranges "ProfilerStep#0", "ProfilerStep#1"…, the
 * name that Kineto's traces have for them: from the NVTX range that the user named, unless it has
 * ProfilerSteps already. */
#ifndef SC_TRACE_CAPTURE_ITERATION_MARKS_H
#define SC_TRACE_CAPTURE_ITERATION_MARKS_H

#include "trace/format/trace_file.h"

struct sc_iteration_marks;
struct sc_iteration_marks *sc_iteration_marks_create(void);
void sc_iteration_marks_destroy(struct sc_iteration_marks *marks);
/* Every event of the trace, in any order; names and lanes as in `from`. */
void sc_iteration_marks_see(struct sc_iteration_marks *marks, const struct sc_trace *from,
			    const struct sc_trace_event *event);
/* After the last one: adds the ranges, and meta "iteration.source". `from` gives the range's name as
 * meta "iteration.range". */
void sc_iteration_marks_put(struct sc_iteration_marks *marks, const struct sc_trace *from,
			    struct sc_trace_writer *out);

#endif
