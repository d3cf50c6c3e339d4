/* Records of events that a file does not have, but of which its waits say the stream: profilers wrote no
 * cuda_event before 2026. With them a wait is for one stream, and for what was launched there by then. */
#include <stdlib.h>
#include <string.h>

#include "trace/import/import_kineto_priv.h"

void kineto_note_record(struct kineto_import *im, const struct kineto_record *record)
{
	SC_VEC_PUSH(&im->records, *record);
}

/* What the file has stands first. */
static int compare(const void *left, const void *right)
{
	const struct kineto_record *a = left, *b = right;

	if (a->correlation != b->correlation)
		return a->correlation < b->correlation ? -1 : 1;
	if (a->is_in_file != b->is_in_file)
		return a->is_in_file ? -1 : 1;
	return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static void put(struct kineto_import *im, const struct kineto_record *record)
{
	static const char name[] = "cudaEventRecord";
	const struct sc_trace_lane lane = {
		.is_stream = 1, .device = record->device, .stream = record->stream};
	const struct sc_trace_event event = {
		.cls = SC_EV_EVENT_RECORD,
		.flags = SC_EVF_NO_TIME, /* its call has one */
		.start_ns = record->start_ns,
		.name = sc_trace_writer_string(im->out.writer, name, sizeof(name) - 1),
		.lane = sc_trace_writer_lane(im->out.writer, &lane),
		.correlation = record->correlation,
		.aux0 = record->event,
	};

	sc_trace_writer_add(im->out.writer, &event);
	im->stats->n_derived++;
}

void kineto_put_records(struct kineto_import *im)
{
	const struct kineto_record *records = im->records.at;

	if (im->records.n)
		qsort(im->records.at, im->records.n, sizeof(*im->records.at), compare);
	for (size_t i = 0; i < im->records.n; i++)
		if (!records[i].is_in_file &&
		    (i == 0 || records[i - 1].correlation != records[i].correlation))
			put(im, &records[i]);
	SC_VEC_RELEASE(&im->records);
}
