/* Which table, and what the rows' device is called. */
#include "trace/export/trace_tables.h"

#include <string.h>

#include "trace/export/trace_tables_priv.h"

static const char *device_of(const char *path, char *buf, size_t n_buf, struct sc_err *err)
{
	const struct sc_trace_load_opts only_tables = {.skip_events = true};
	struct sc_trace trace;

	snprintf(buf, n_buf, "unknown");
	if (sc_trace_load(path, &only_tables, &trace, err))
		return NULL;
	for (size_t i = 0; i < trace.meta.n; i++)
		if (strcmp(trace.meta.at[i].key, "device.0.name") == 0)
			snprintf(buf, n_buf, "%s", trace.meta.at[i].value);
	sc_trace_release(&trace);
	for (char *c = buf; *c; c++) /* one cell of a CSV, without quotes */
		if (*c == ',' || *c == '"' || *c == '\n')
			*c = ' ';
	return buf;
}

int sc_trace_table_write(enum sc_trace_table table, const char *const *files, size_t n_files,
			 const char *device, FILE *out, struct sc_err *err)
{
	static int (*const writers[SC_N_TRACE_TABLES])(const struct trace_table_run *,
						       struct sc_err *) = {
		[SC_TRACE_TABLE_OPS] = sc_trace_table_ops,
		[SC_TRACE_TABLE_COLLECTIVES] = sc_trace_table_collectives,
		[SC_TRACE_TABLE_HOST] = sc_trace_table_host,
		[SC_TRACE_TABLE_OVERLAPS] = sc_trace_table_overlaps,
	};
	char name[128];
	struct trace_table_run run = {
		.files = files, .n_files = n_files, .device = device, .out = out};

	if (!run.device)
		run.device = device_of(files[0], name, sizeof(name), err);
	if (!run.device)
		return err ? -(int)err->code : -(int)SC_EIO;
	return writers[table](&run, err);
}
