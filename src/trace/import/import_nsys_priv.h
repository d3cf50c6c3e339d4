/* Shared by import_nsys.c (which tables and columns there are, and the processes) and
 * import_nsys_events.c (rows as events). */
#pragma once

#include <sqlite3.h>

#include "trace/import/import_priv.h"

/* The columns that rows of any table may have; a table has some, in columns of various names. */
enum nsys_column {
	NSYS_START,
	NSYS_END,
	NSYS_WHOSE, /* globalTid or globalPid: bits 24-47 the process, 0-23 the thread */
	NSYS_DEVICE,
	NSYS_CONTEXT,
	NSYS_STREAM,
	NSYS_CORRELATION,
	NSYS_NAME, /* text */
	NSYS_BYTES,
	NSYS_KIND,
	NSYS_LABEL, /* text: what the kind is called */
	NSYS_FROM,  /* kinds of memory */
	NSYS_TO,
	NSYS_EVENT,
	NSYS_RECORD, /* that a wait is for: its correlation */
	NSYS_GRID_X,
	NSYS_GRID_Y,
	NSYS_GRID_Z,
	NSYS_BLOCK_X,
	NSYS_BLOCK_Y,
	NSYS_BLOCK_Z,
	NSYS_REGISTERS,
	NSYS_STATIC_SHARED,
	NSYS_DYNAMIC_SHARED,
	NSYS_GRAPH,
	NSYS_N_COLUMNS
};
struct nsys_table {
	const char *name;
	uint8_t cls;
	const char *kind, *labels; /* column of the kind, and the table that names kinds */
};
struct nsys_import {
	const char *path;
	sqlite3 *db;
	struct sc_import_output out;
	struct sc_import_stats *stats;
	int64_t process; /* the one that is read now */
	bool has_calls;  /* records of calls besides those of their wrappers */
};

/* Writes the event of a row, whose columns are enum nsys_column, or counts why there is none. */
void nsys_emit(struct nsys_import *im, const struct nsys_table *table, sqlite3_stmt *row);
