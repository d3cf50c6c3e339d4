/* Events of one class straight into the columns of a frame (docs/trace-format.md), a few nanoseconds
 * each: every column is differences from the row before, nothing is sorted, chosen or compressed. The
 * same format as trace_columns.c writes, larger and in less time; `stepcast record` packs it later. */
#ifndef SC_TRACE_CAPTURE_CLASS_COLUMNS_H
#define SC_TRACE_CAPTURE_CLASS_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#include "trace/format/event.h"

enum { SC_N_COLUMNS = 13 };
struct sc_column {
	int64_t last;
	uint64_t varied;  /* 0 as long as all rows are equal */
	uint32_t n_equal; /* rows like the last one that are not in `at` yet */
	uint8_t *at;
	size_t n, n_first; /* bytes; of the first row */
};
struct sc_class_columns {
	struct sc_column columns[SC_N_COLUMNS];
	uint32_t n;            /* rows, at most SC_FRAME_MAX_ROWS */
	uint32_t n_rare_equal; /* rows whose rare columns are as before, not in `columns` yet */
	int64_t first_ns, last_ns;
	uint8_t *memory;
};
bool sc_class_columns_init(struct sc_class_columns *c); /* false: no memory */
void sc_class_columns_release(struct sc_class_columns *c);
void sc_class_columns_add(struct sc_class_columns *c, const struct sc_trace_event *event);
/* Bytes that put needs at most. */
size_t sc_class_columns_max_bytes(const struct sc_class_columns *c);
/* A whole frame, header and padding included; the columns are empty again. Returns its bytes. */
struct sc_frame_header;
size_t sc_class_columns_put(struct sc_class_columns *c, uint8_t cls, uint64_t seq, uint8_t *out,
			    struct sc_frame_header *header);

#endif
