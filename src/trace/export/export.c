/* Which format is written by what, and the common clock. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/strbuf.h"
#include "trace/export/export_priv.h"

/* ---- One event a row, as base/csv.h reads it; a cell is empty where a class has no such value ---- */

enum { FLUSH_BYTES = 1 << 16 };

struct csv_writer {
	FILE *out;
	struct sc_strbuf buf;
	const struct sc_export_run *run;
	size_t file;
};

static const char HEADER[] =
	"rank,class,sub,name,start_ns,dur_ns,pid,tid,device,stream,correlation,external_id,grid,block,"
	"bytes,collective,dtype,in_elems,out_elems,group,group_size,group_ranks,peer,comm_seq,shapes,"
	"aux0,aux1,step,dp_rank,stage,micro_batch,chunk,job_seq\n";

static void put_text(struct sc_strbuf *buf, const char *text)
{
	if (!strpbrk(text, ",\"\r\n")) {
		sc_strbuf_append(buf, text);
	} else {
		sc_strbuf_append_char(buf, '"');
		for (; *text; text++) {
			if (*text == '"')
				sc_strbuf_append_char(buf, '"');
			sc_strbuf_append_char(buf, *text);
		}
		sc_strbuf_append_char(buf, '"');
	}
	sc_strbuf_append_char(buf, ',');
}

static void put_int(struct sc_strbuf *buf, int64_t value)
{
	sc_strbuf_printf(buf, "%" PRId64 ",", value);
}

/* Empty if it is `none`. */
static void put_known(struct sc_strbuf *buf, int64_t value, int64_t none)
{
	if (value == none)
		sc_strbuf_append_char(buf, ',');
	else
		put_int(buf, value);
}

static void put_comm(struct sc_strbuf *buf, const struct sc_trace *trace, uint32_t id)
{
	const struct sc_trace_comm *comm = &trace->comms.at[id];

	put_text(buf, trace->strings.at[comm->collective]);
	put_text(buf, trace->strings.at[comm->dtype]);
	put_known(buf, comm->in_elems, -1);
	put_known(buf, comm->out_elems, -1);
	put_text(buf, trace->strings.at[comm->group_name]);
	put_known(buf, comm->group_size, -1);
	put_text(buf, trace->strings.at[comm->group_ranks]);
	put_known(buf, comm->peer, -1);
	put_known(buf, comm->seq, -1);
}

static void put_job(struct sc_strbuf *buf, const struct sc_trace_event *event)
{
	const struct sc_trace_job *job = &event->job;

	if (event->cls == SC_EV_JOB_OP)
		sc_strbuf_printf(buf,
				 "%" PRId32 ",%" PRId32 ",%" PRId32 ",%" PRId32 ",%" PRId32
				 ",%" PRId32 "\n",
				 job->step, job->dp_rank, job->stage, job->micro_batch, job->chunk,
				 job->seq);
	else
		sc_strbuf_append(buf, ",,,,,\n");
}

static int flush(struct csv_writer *w, struct sc_err *err)
{
	size_t n = w->buf.n;

	if (n && fwrite(w->buf.at, 1, n, w->out) != n)
		return sc_err_set(err, SC_EIO, "cannot write: %s", strerror(errno));
	sc_strbuf_clear(&w->buf);
	return 0;
}

static int put_event(void *ctx, const struct sc_trace *trace, const struct sc_trace_event *event,
		     struct sc_err *err)
{
	const struct sc_trace_config *c = &trace->configs.at[event->config];
	const struct sc_trace_lane *lane = &trace->lanes.at[event->lane];
	struct csv_writer *w = ctx;
	struct sc_strbuf *buf = &w->buf;

	put_known(buf, trace->identity.rank, -1);
	put_text(buf, sc_event_class_name((enum sc_event_class)event->cls));
	put_int(buf, event->sub);
	put_text(buf, trace->strings.at[event->name]);
	put_int(buf, sc_export_utc(w->run, w->file,
				   sc_time_add(trace->identity.base_utc_ns, event->start_ns)));
	put_int(buf, event->dur_ns);
	if (event->lane == SC_TRACE_NO_ID)
		sc_strbuf_append(buf, ",,,,");
	else if (lane->is_stream)
		sc_strbuf_printf(buf, ",,%" PRId32 ",%" PRId32 ",", lane->device, lane->stream);
	else
		sc_strbuf_printf(buf, "%" PRId32 ",%" PRId32 ",,,", lane->pid, lane->tid);
	put_known(buf, event->correlation, 0);
	put_known(buf, event->external_id, 0);
	if (event->config == SC_TRACE_NO_ID)
		sc_strbuf_append(buf, ",,");
	else
		sc_strbuf_printf(buf, "%ux%ux%u,%ux%ux%u,", (unsigned)c->grid[0],
				 (unsigned)c->grid[1], (unsigned)c->grid[2], (unsigned)c->block[0],
				 (unsigned)c->block[1], (unsigned)c->block[2]);
	put_known(buf,
		  event->comm != SC_TRACE_NO_ID ? trace->comms.at[event->comm].bytes : event->bytes,
		  event->comm != SC_TRACE_NO_ID ? -1 : 0);
	put_comm(buf, trace, event->comm);
	put_text(buf, trace->strings.at[event->shapes]);
	put_known(buf, event->aux0, 0);
	put_known(buf, event->aux1, 0);
	put_job(buf, event);
	return buf->n > FLUSH_BYTES ? flush(w, err) : 0;
}

static int export_csv(const struct sc_export_run *run, FILE *out, struct sc_err *err)
{
	struct csv_writer w = {.out = out, .run = run};
	int rc = 0;

	sc_strbuf_append(&w.buf, HEADER);
	for (; w.file < run->n_files && rc == 0; w.file++) {
		struct sc_trace tables = {.path = NULL};

		rc = sc_trace_scan(run->files[w.file], put_event, &w, &tables, err);
		sc_trace_release(&tables);
	}
	if (rc == 0)
		rc = flush(&w, err);
	if (rc == 0 && fflush(out) != 0)
		rc = sc_err_set(err, SC_EIO, "cannot write: %s", strerror(errno));
	sc_strbuf_release(&w.buf);
	return rc;
}

int sc_export_run(enum sc_export_format format, const struct sc_export_run *run, FILE *out,
		  struct sc_err *err)
{
	return format == SC_EXPORT_CSV ? export_csv(run, out, err)
				       : sc_export_chrome(run, out, err);
}

int64_t sc_export_utc(const struct sc_export_run *run, size_t file, int64_t utc_ns)
{
	if (!run->merge)
		return utc_ns;
	return sc_time_add(utc_ns, sc_merge_correction(&run->merge->ranks.at[file],
						       sc_time_sub(utc_ns, run->base_utc_ns)));
}
