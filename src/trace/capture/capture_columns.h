/* Events of one class as the columns of a frame, filled row by row in the host's process. */
#pragma once

#include "trace/format/event.h"
#include "trace/format/trace_frames.h"

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
struct sc_class_columns *sc_class_columns_create(void); /* NULL: no memory */
void sc_class_columns_destroy(struct sc_class_columns *c);
void sc_class_columns_add(struct sc_class_columns *c, const struct sc_trace_event *event);
/* The most that sc_class_columns_put will write. */
size_t sc_class_columns_most(const struct sc_class_columns *c);
/* A whole frame, header and padding included; the columns are empty again. Returns its bytes. */
size_t sc_class_columns_put(struct sc_class_columns *c, uint8_t cls, uint64_t seq, uint8_t *out,
			    struct sc_frame_header *header);
