#ifndef SC_TRACE_IMPORT_NSYS_PRIV_H
#define SC_TRACE_IMPORT_NSYS_PRIV_H

#include <sqlite3.h>

#include "trace/import/import_priv.h"

/* What rows of all tables may have; a table has some of it, in columns of various names. */
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
	NSYS_EVENT,
	NSYS_EVENT_SYNC,
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
struct nsys_event_record {
	int64_t sync_id, correlation;
};
struct nsys_import {
	const char *path;
	sqlite3 *db;
	struct sc_import_output out;
	struct sc_import_stats *stats;
	int64_t process; /* the one that is read now */
	bool has_calls;  /* records of calls besides those of their wrappers */
	SC_VEC(struct nsys_event_record) records; /* of the process, by sync_id */
};

extern const struct nsys_table nsys_tables[]; /* ended by a NULL name; event records first */

/* --- queries (import_nsys_query.c) --- */
int nsys_open(struct nsys_import *im, const char *path, struct sc_err *err);
bool nsys_has_table(struct nsys_import *im, const char *table);
bool nsys_has_column(struct nsys_import *im, const char *table, const char *column);
/* Rows of a process as NSYS_N_COLUMNS columns; NULL if there is no such table. */
/* What each table of activities must have; names what is missing. */
int nsys_check(struct nsys_import *im, struct sc_err *err);
sqlite3_stmt *nsys_select(struct nsys_import *im, const struct nsys_table *table);
/* A statement of ours; NULL if the database cannot answer it. */
sqlite3_stmt *nsys_prepare(struct nsys_import *im, const char *sql);
/* The next row: false at the end; damage is noted in the statistics. */
bool nsys_step(struct nsys_import *im, sqlite3_stmt *stmt);
/* One number, or `otherwise`. */
int64_t nsys_number(struct nsys_import *im, const char *sql, int64_t otherwise);

/* --- rows to events (import_nsys_emit.c) --- */
void nsys_load_records(struct nsys_import *im);
void nsys_emit(struct nsys_import *im, const struct nsys_table *table, sqlite3_stmt *row);

#endif
