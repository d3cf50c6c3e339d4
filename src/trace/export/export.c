/* Chooses the writer of a format, and applies the common clock. */
#include <inttypes.h>

#include "base/csv.h"
#include "trace/export/export_priv.h"

/* ---- One event a row, as base/csv.h reads it; a cell is empty where a class has no value ---- */

struct csv_writer {
	FILE *out;
	const struct sc_export_run *run;
	size_t file;
};

static const char HEADER[] =
	"rank,class,sub,name,start_ns,dur_ns,pid,tid,device,stream,correlation,external_id,grid,block,"
	"bytes,collective,dtype,in_elems,out_elems,group,group_size,group_ranks,peer,comm_seq,shapes,"
	"aux0,aux1,step,dp_rank,stage,micro_batch,chunk,job_seq\n";

static void export_put_text(FILE *out, const char *text)
{
	sc_csv_put_cell(out, text);
	putc(',', out);
}

/* Empty if it is `none`. */
static void put_known(FILE *out, int64_t value, int64_t none)
{
	if (value != none)
		fprintf(out, "%" PRId64, value);
	putc(',', out);
}

static int put_event(void *ctx, const struct sc_trace *trace, const struct sc_trace_event *event,
		     struct sc_err *err)
{
	const struct sc_trace_config *c = &trace->configs.at[event->config];
	const struct sc_trace_lane *lane = &trace->lanes.at[event->lane];
	const struct sc_trace_comm *comm = &trace->comms.at[event->comm];
	const struct sc_trace_job *job = &event->job;
	const struct csv_writer *w = ctx;
	FILE *out = w->out;

	(void)err;
	put_known(out, trace->identity.rank, -1);
	fprintf(out, "%s,%d,", sc_event_class_name((enum sc_event_class)event->cls), event->sub);
	export_put_text(out, trace->strings.at[event->name]);
	fprintf(out, "%" PRId64 ",%" PRId64 ",",
		sc_export_utc(w->run, w->file,
			      sc_time_add(trace->identity.base_utc_ns, event->start_ns)),
		event->dur_ns);
	if (event->lane == SC_TRACE_NO_ID)
		fputs(",,,,", out);
	else if (lane->is_stream)
		fprintf(out, ",,%" PRId32 ",%" PRId32 ",", lane->device, lane->stream);
	else
		fprintf(out, "%" PRId32 ",%" PRId32 ",,,", lane->pid, lane->tid);
	put_known(out, event->correlation, 0);
	put_known(out, event->external_id, 0);
	if (event->config == SC_TRACE_NO_ID)
		fputs(",,", out);
	else
		fprintf(out, "%ux%ux%u,%ux%ux%u,", (unsigned)c->grid[0], (unsigned)c->grid[1],
			(unsigned)c->grid[2], (unsigned)c->block[0], (unsigned)c->block[1],
			(unsigned)c->block[2]);
	put_known(out, event->comm != SC_TRACE_NO_ID ? comm->bytes : event->bytes,
		  event->comm != SC_TRACE_NO_ID ? -1 : 0);
	export_put_text(out, trace->strings.at[comm->collective]);
	export_put_text(out, trace->strings.at[comm->dtype]);
	put_known(out, comm->in_elems, -1);
	put_known(out, comm->out_elems, -1);
	export_put_text(out, trace->strings.at[comm->group_name]);
	put_known(out, comm->group_size, -1);
	export_put_text(out, trace->strings.at[comm->group_ranks]);
	put_known(out, comm->peer, -1);
	put_known(out, comm->seq, -1);
	export_put_text(out, trace->strings.at[event->shapes]);
	put_known(out, event->aux0, 0);
	put_known(out, event->aux1, 0);
	if (event->cls == SC_EV_JOB_OP)
		fprintf(out,
			"%" PRId32 ",%" PRId32 ",%" PRId32 ",%" PRId32 ",%" PRId32 ",%" PRId32 "\n",
			job->step, job->dp_rank, job->stage, job->micro_batch, job->chunk,
			job->seq);
	else
		fputs(",,,,,\n", out);
	return 0;
}

static int export_csv(const struct sc_export_run *run, FILE *out, struct sc_err *err)
{
	struct csv_writer w = {.out = out, .run = run};
	int rc = 0;

	fputs(HEADER, out);
	for (; w.file < run->n_files && rc == 0; w.file++) {
		struct sc_trace tables = {.path = NULL};

		rc = sc_trace_scan(run->files[w.file], put_event, &w, &tables, err);
		sc_trace_release(&tables);
	}
	return rc ? rc : sc_csv_end(out, err);
}

int sc_export_run(enum sc_export_format format, const struct sc_export_run *run, FILE *out,
		  struct sc_err *err)
{
	if (format == SC_EXPORT_CHROME)
		return sc_export_chrome(run, out, err);
	return format == SC_EXPORT_CSV ? export_csv(run, out, err)
				       : sc_export_table(format, run, out, err);
}

int64_t sc_export_utc(const struct sc_export_run *run, size_t file, int64_t utc_ns)
{
	if (!run->merge)
		return utc_ns;
	return sc_time_add(utc_ns, sc_merge_correction(&run->merge->ranks.at[file],
						       sc_time_sub(utc_ns, run->base_utc_ns)));
}
