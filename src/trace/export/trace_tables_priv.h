/* One table being written. */
#ifndef SC_TRACE_TRACE_TABLES_PRIV_H
#define SC_TRACE_TRACE_TABLES_PRIV_H

#include "trace/export/trace_tables.h"
#include "trace/format/trace_file.h"

struct trace_table_run {
	const char *const *files;
	size_t n_files;
	const char *device;
	FILE *out;
};
/* Of matrix products and host times: needs ops, so one trace at a time (trace_tables_ops.c). */
int sc_trace_table_ops(const struct trace_table_run *run, struct sc_err *err);
int sc_trace_table_host(const struct trace_table_run *run, struct sc_err *err);
/* From compact runs (trace_tables_comm.c). */
int sc_trace_table_collectives(const struct trace_table_run *table, struct sc_err *err);
int sc_trace_table_overlaps(const struct trace_table_run *table, struct sc_err *err);

#endif
