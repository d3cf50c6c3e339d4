#ifndef SC_TRACE_EXPORT_PRIV_H
#define SC_TRACE_EXPORT_PRIV_H

#include "trace/export.h"
#include "trace/trace_file.h"

int sc_export_chrome(const char *const *files, size_t n_files, FILE *out, struct sc_err *err);
int sc_export_csv(const char *const *files, size_t n_files, FILE *out, struct sc_err *err);

/* Times wrap: a hostile file may have any. */
static inline int64_t sc_time_add(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t sc_time_sub(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

#endif
