/* The trace file as the tracer writes it: what events refer to and the events themselves are
 * gathered in memory, and go out with one write per buffer of records. Never ends the program,
 * never waits for anything but the disk; what cannot be written is counted and becomes a gap. One
 * thread. */
#pragma once

#include "trace/capture/record_decode.h"
#include "trace/format/trace_file.h"

struct sc_capture_file;
struct sc_capture_file *sc_capture_file_create(void); /* NULL: no memory */
void sc_capture_file_destroy(struct sc_capture_file *file);
void sc_capture_file_sink(struct sc_capture_file *file, struct sc_event_sink *out);

/* Opens `path`, new, and puts the head of the file there. 0 or -errno. Until then prepare and write
 * do nothing and what was added waits. */
int sc_capture_file_open(struct sc_capture_file *file, const char *path,
			 const struct sc_trace_identity *identity);
bool sc_capture_file_is_open(const struct sc_capture_file *file);
void sc_capture_file_identity(struct sc_capture_file *file,
			      const struct sc_trace_identity *identity);
void sc_capture_file_clock(struct sc_capture_file *file, int64_t trace_ns, int64_t utc_ns);

/* Everything that was added becomes frames in memory: where they will begin and end in the file. */
void sc_capture_file_prepare(struct sc_capture_file *file, uint64_t *begin, uint64_t *end);
/* Writes what was prepared: all of it, or, when that cannot be, nothing. 0 or -errno. */
int sc_capture_file_write(struct sc_capture_file *file);
/* End, close. 0 or -errno. */
int sc_capture_file_finish(struct sc_capture_file *file);
int64_t sc_capture_file_lost(const struct sc_capture_file *file);
