/* Traces -> tables of measured operations, as CSV that `fit` and people read. */
#ifndef SC_TRACE_TRACE_TABLES_H
#define SC_TRACE_TRACE_TABLES_H

#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

enum sc_trace_table {
	SC_TRACE_TABLE_OPS, /* matrix products with the shapes of the op that launched them */
	SC_TRACE_TABLE_COLLECTIVES, /* without waiting: the shortest of all recorded members */
	SC_TRACE_TABLE_HOST,        /* what the host takes for the launches of each op */
	SC_N_TRACE_TABLES
};
/* `device`: name that rows get, as in configs/devices; NULL: what the trace says, "unknown" if nothing. */
int sc_trace_table_write(enum sc_trace_table table, const char *const *files, size_t n_files,
			 const char *device, FILE *out, struct sc_err *err);

#endif
