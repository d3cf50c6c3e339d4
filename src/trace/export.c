/* Which format is written by what. */
#include "trace/export_priv.h"

int sc_export(enum sc_export_format format, const char *const *files, size_t n_files, FILE *out,
	      struct sc_err *err)
{
	return format == SC_EXPORT_CSV ? sc_export_csv(files, n_files, out, err)
				       : sc_export_chrome(files, n_files, out, err);
}
