/* Finds the frames of a trace file by one scan of their headers. Frames of types it does not know
 * are left out. */
#pragma once

#include "base/err.h"
#include "base/vec.h"
#include "trace/format/trace_frames.h"

struct sc_frame_file {
	int fd;
	const char *path; /* the caller's */
	int64_t n_bytes;
	struct sc_frame_coder *coder;
	SC_VEC(struct sc_frame_header) frames; /* by offset; without the end */
	bool partial;                          /* it has no end */
	int64_t n_bad_frames;
	uint8_t *payload; /* of the frame read last */
	struct sc_frame_header header;
};
int sc_frame_file_open(const char *path, struct sc_frame_file *out, struct sc_err *err);
void sc_frame_file_close(struct sc_frame_file *file);
/* Into file->header and payload. False, counted: its payload is not what was written. */
bool sc_frame_file_read(struct sc_frame_file *file, const struct sc_frame_header *frame);
