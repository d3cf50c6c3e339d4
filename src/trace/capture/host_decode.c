/* The tracer's own records as events: NVTX ranges, NCCL calls, what was lost. */
#include <string.h>

#include "trace/capture/record_decode.h"

/* A record's texts follow each other, ended by NULs. A call gives the next, "" after the last. */
static const char *next_text(const char **at, const char *end)
{
	const char *text = *at, *stop;

	if (text >= end)
		return "";
	stop = memchr(text, '\0', (size_t)(end - text));
	*at = stop ? stop + 1 : end;
	return text;
}

static uint32_t string_of(struct sc_decoder *d, const char *text)
{
	return *text ? d->sink.string(d->sink.ctx, text, strlen(text)) : 0;
}

static void add_event(struct sc_decoder *d, const struct sc_host_record *record, const char *text)
{
	const char *at = text, *end = text + record->n_text;
	const char *name = next_text(&at, end), *dtype = next_text(&at, end);
	const char *group = next_text(&at, end);
	const struct sc_host_comm *comm = &record->comm;
	struct sc_trace_event event = {
		.cls = record->kind == SC_HOST_MARK             ? SC_EV_MARK
		       : (record->flags & SC_HOST_IS_CALL) != 0 ? SC_EV_COMM
								: SC_EV_RANGE,
		.sub = record->sub,
		.start_ns = record->start_ns - d->raw->header->base_mono_ns,
		.dur_ns = record->end_ns > record->start_ns ? record->end_ns - record->start_ns : 0,
		.external_id = record->external_id,
		.name = string_of(d, name),
		.lane = sc_decoder_host_lane(d, d->raw->header->pid, record->tid),
	};

	if (record->flags & SC_HOST_HAS_COMM)
		event.comm = d->sink.comm(d->sink.ctx,
					  &(struct sc_trace_comm){.collective = event.name,
								  .dtype = string_of(d, dtype),
								  .group_name = string_of(d, group),
								  .comm_hash = comm->hash,
								  .in_elems = comm->count,
								  .out_elems = -1,
								  .bytes = comm->bytes,
								  .group_size = comm->group_size,
								  .peer = comm->peer,
								  .root = comm->root,
								  .seq = comm->seq});
	d->counts.n_events++;
	d->sink.add(d->sink.ctx, &event);
}

void sc_decode_host(struct sc_decoder *d, const struct sc_host_record *record)
{
	const char *text = (const char *)(record + 1), *at = text, *end = text + record->n_text;
	int64_t base = d->raw->header->base_mono_ns;
	const char *key;

	d->counts.n_records++;
	switch (record->kind) {
	case SC_HOST_RANGE:
	case SC_HOST_MARK:
	case SC_HOST_NCCL:
		add_event(d, record, text);
		break;
	case SC_HOST_META:
		key = next_text(&at, end);
		d->sink.meta(d->sink.ctx, key, next_text(&at, end));
		break;
	case SC_HOST_GAP:
		d->sink.gap(d->sink.ctx,
			    &(struct sc_trace_gap){(uint8_t)record->sub, record->external_id,
						   record->start_ns - base, record->end_ns - base,
						   text});
		break;
	default:
		break;
	}
}
