/* How the starts and durations of nested rows get small: told as what passes from one begin or end
 * to the next, less what is expected there. Of the format, inside src/trace/format. */
#pragma once

#include "trace/format/trace_columns.h"

enum {
	SC_TIMES_CLASSES = 10,
	SC_TIMES_MAX_PARTS = SC_TIMES_CLASSES + 3,
	/* A begin or end has its token, what goes with it, and a remainder. */
	SC_TIMES_MAX_BYTES = 2 * SC_FRAME_MAX_ROWS * (1 + 8 + 2) + 256
};
struct sc_times *sc_times_create(void); /* NULL: no memory */
void sc_times_destroy(struct sc_times *times);
/* The rows of a frame: starts, durations, names, and how many rows are open where each begins. */
struct sc_times_rows {
	int64_t *starts, *durations, *depths;
	const int64_t *names;
	size_t n;
};
/* Sets the depths. A row is open until one starts at its end or later, or earlier than the row
 * before: on another lane. */
void sc_times_nest(struct sc_times *times, const struct sc_times_rows *rows);
/* Into out, which has room for SC_TIMES_MAX_BYTES. Each of the parts has its own statistics.
 * Returns the bytes. */
size_t sc_times_put(struct sc_times *times, const struct sc_times_rows *rows, uint8_t *out,
		    size_t parts[SC_TIMES_MAX_PARTS], size_t *n_parts);
/* Starts and durations of the names and depths. False: these are not their bytes. */
bool sc_times_get(struct sc_times *times, const struct sc_times_rows *rows, const uint8_t *at,
		  size_t n);
