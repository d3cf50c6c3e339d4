#ifndef SC_TRACE_TRACE_READER_PRIV_H
#define SC_TRACE_TRACE_READER_PRIV_H

#include "trace/format/frame_file.h"
#include "trace/format/trace_file.h"

/* Is it a frame of events of a class that is known? */
bool sc_has_events(const struct sc_frame_place *place);
/* Its events into `out`, which has room for place->count, with ids that trace's tables have, none before
 * place->first. False, counted: the frame is damaged. */
bool sc_read_events(struct sc_frame_file *file, const struct sc_frame_place *place,
		    const struct sc_trace *trace, struct sc_trace_event *out);
/* What `opts` asks for, by start, into trace->events (trace_load.c). */
int sc_load_events(struct sc_frame_file *file, const struct sc_trace_load_opts *opts,
		   struct sc_trace *trace, struct sc_err *err);

#endif
