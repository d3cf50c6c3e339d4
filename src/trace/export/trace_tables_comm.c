/* Tables of collectives, and of kernels that run beside them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/units.h"
#include "core/graph/op.h"
#include "trace/export/trace_tables_priv.h"
#include "trace/graph/build_trace.h"
#include "trace/graph/kernel_family.h"
#include "trace/graph/overlap.h"

static int load(const struct trace_table_run *table, struct sc_trace_run *run, struct sc_err *err)
{
	return sc_trace_run_load(&(struct sc_trace_files){table->files, table->n_files}, NULL, run,
				 err);
}

/* One row an instance. Where one rank was recorded, its time has waiting in it: "bound". */
int sc_trace_table_collectives(const struct trace_table_run *table, struct sc_err *err)
{
	struct sc_trace_run run;
	uint8_t *done;
	int rc = load(table, &run, err);

	if (rc)
		return rc;
	done = sc_xmalloc(run.merge.instances.n + 1);
	memset(done, 0, run.merge.instances.n + 1);
	fprintf(table->out, "source,device,collective,ranks,bytes,time_us,quality\n");
	for (size_t r = 0; r < run.ranks.n; r++)
		for (size_t i = 0; i < run.ranks.at[r].collectives.n; i++) {
			const struct sc_trace_collective *c = &run.ranks.at[r].collectives.at[i];
			const struct sc_merge_call *call = &run.merge.ranks.at[r].calls.at[i];
			const bool split =
				call->instance >= 0 && !isnan(run.transfer_us.at[call->instance]);

			if (c->kind < 0 || c->bytes < 0 ||
			    (call->instance >= 0 && done[call->instance]))
				continue;
			if (call->instance >= 0)
				done[call->instance] = 1;
			fprintf(table->out, "trace,%s,%s,%d,%lld,%.3f,%s\n", table->device,
				sc_collective_names[c->kind],
				sc_trace_ranks_of(&run, c, call->instance), (long long)c->bytes,
				split ? run.transfer_us.at[call->instance] : c->bound_us,
				split ? "good" : "bound");
		}
	free(done);
	sc_trace_run_release(&run);
	return 0;
}

/* ---- overlaps ---- */

static void put_us(FILE *out, double us)
{
	if (isnan(us))
		fputc(',', out);
	else
		fprintf(out, ",%.3f", us);
}

static void put_name(FILE *out, const char *name)
{
	fputc('"', out);
	for (; *name; name++) {
		if (*name == '"')
			fputc('"', out);
		fputc(*name, out);
	}
	fputc('"', out);
}

static void put_overlap(const struct trace_table_run *table, const struct sc_trace_run *run,
			const struct sc_trace_rank *r, const struct sc_beside *b)
{
	const struct sc_act *act = &r->acts.at[b->act], *comm = &r->acts.at[b->beside];
	const struct sc_trace_collective *c = &r->collectives.at[comm->merge_call];

	fprintf(table->out, "%s,%d,", table->device, (int)r->rank);
	put_name(table->out, sc_trace_run_name(run, act->name));
	fprintf(table->out, ",%s,",
		sc_kernel_family_name((enum sc_kernel_family)run->family.at[act->name]));
	put_name(table->out, sc_trace_run_name(run, comm->name));
	fprintf(table->out, ",%s,%lld,%.3f", c->kind < 0 ? "" : sc_collective_names[c->kind],
		(long long)c->bytes, b->time_us);
	put_us(table->out, b->alone_us);
	fprintf(table->out, ",%.3f,%.3f,%.3f\n", sc_ns_us(comm->dur_ns + comm->cut_ns), c->bound_us,
		b->overlap_us);
}

int sc_trace_table_overlaps(const struct trace_table_run *table, struct sc_err *err)
{
	struct sc_trace_run run;
	int rc = load(table, &run, err);

	if (rc)
		return rc;
	fprintf(table->out, "device,rank,kernel,family,comm_kernel,collective,bytes,time_us,"
			    "alone_us,comm_us,comm_alone_us,overlap_us\n");
	for (size_t r = 0; r < run.ranks.n; r++) {
		struct sc_overlaps overlaps;

		sc_overlaps_find(&run, &run.ranks.at[r], &overlaps);
		for (size_t i = 0; i < overlaps.kernels.n; i++)
			put_overlap(table, &run, &run.ranks.at[r], &overlaps.kernels.at[i]);
		sc_overlaps_release(&overlaps);
	}
	sc_trace_run_release(&run);
	return 0;
}
