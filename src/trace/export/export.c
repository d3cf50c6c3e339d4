/* Which format is written by what, and the common clock. */
#include "trace/export/export_priv.h"

int sc_export_run(enum sc_export_format format, const struct sc_export_run *run, FILE *out,
		  struct sc_err *err)
{
	return format == SC_EXPORT_CSV ? sc_export_csv(run, out, err)
				       : sc_export_chrome(run, out, err);
}

int64_t sc_export_utc(const struct sc_export_run *run, size_t file, int64_t utc_ns)
{
	if (!run->merge)
		return utc_ns;
	return sc_time_add(utc_ns, sc_merge_correction(&run->merge->ranks.at[file],
						       sc_time_sub(utc_ns, run->base_utc_ns)));
}
