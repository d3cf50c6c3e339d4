#include "trace/capture/record_links.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"

struct id_of_call {
	uint32_t correlation;
	int64_t external_id;
};
struct call_time {
	uint32_t correlation;
	int64_t start_ns;
};
struct event_record {
	uint64_t key;     /* context and event */
	int64_t start_ns; /* of its call */
	uint32_t correlation;
};
struct context {
	int32_t context, device;
};
struct sc_record_links {
	SC_VEC(struct id_of_call) ids;
	SC_VEC(struct call_time) times; /* of calls that record an event or wait for one */
	SC_VEC(struct event_record) records;
	SC_VEC(struct context) contexts;
};

struct sc_record_links *sc_record_links_create(void)
{
	return sc_xcalloc(1, sizeof(struct sc_record_links));
}

void sc_record_links_destroy(struct sc_record_links *links)
{
	if (!links)
		return;
	SC_VEC_RELEASE(&links->ids);
	SC_VEC_RELEASE(&links->times);
	SC_VEC_RELEASE(&links->records);
	SC_VEC_RELEASE(&links->contexts);
	free(links);
}

static uint64_t key_of(const struct sc_trace *from, const struct sc_trace_event *event)
{
	return (uint64_t)(uint32_t)from->lanes.at[event->lane].context << 32 |
	       (uint32_t)event->aux0;
}

void sc_record_links_see(struct sc_record_links *links, const struct sc_trace *from,
			 const struct sc_trace_event *event)
{
	const struct sc_trace_lane *lane = &from->lanes.at[event->lane];
	const char *name = from->strings.at[event->name];
	const uint32_t correlation = event->correlation;

	if (event->cls == SC_EV_API && correlation && event->external_id)
		SC_VEC_PUSH(&links->ids, ((struct id_of_call){correlation, event->external_id}));
	if (event->cls == SC_EV_API && correlation &&
	    (strstr(name, "EventRecord") || strstr(name, "WaitEvent") ||
	     strstr(name, "EventSynchronize")))
		SC_VEC_PUSH(&links->times, ((struct call_time){correlation, event->start_ns}));
	if (event->cls == SC_EV_EVENT_RECORD)
		SC_VEC_PUSH(&links->records,
			    ((struct event_record){key_of(from, event), 0, correlation}));
	if (event->cls == SC_EV_KERNEL && lane->device >= 0 &&
	    sc_record_links_device(links, lane->context) < 0)
		SC_VEC_PUSH(&links->contexts, ((struct context){lane->context, lane->device}));
}

static int compare_ids(const void *left, const void *right)
{
	const struct id_of_call *a = left, *b = right;

	return (a->correlation > b->correlation) - (a->correlation < b->correlation);
}

static int compare_times(const void *left, const void *right)
{
	const struct call_time *a = left, *b = right;

	return (a->correlation > b->correlation) - (a->correlation < b->correlation);
}

static int compare_records(const void *left, const void *right)
{
	const struct event_record *a = left, *b = right;

	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	return (a->correlation > b->correlation) - (a->correlation < b->correlation);
}

static bool time_of(const struct sc_record_links *links, uint32_t correlation, int64_t *start_ns)
{
	const struct call_time key = {.correlation = correlation};
	const struct call_time *found =
		links->times.n
			? bsearch(&key, links->times.at, links->times.n, sizeof(key), compare_times)
			: NULL;

	if (found)
		*start_ns = found->start_ns;
	return found != NULL;
}

void sc_record_links_settle(struct sc_record_links *links)
{
	size_t n = 0;

	if (links->ids.n)
		qsort(links->ids.at, links->ids.n, sizeof(*links->ids.at), compare_ids);
	if (links->times.n)
		qsort(links->times.at, links->times.n, sizeof(*links->times.at), compare_times);
	for (size_t i = 0; i < links->records.n; i++) {
		struct event_record record = links->records.at[i];

		if (time_of(links, record.correlation, &record.start_ns))
			links->records.at[n++] = record;
	}
	links->records.n = n;
	if (n)
		qsort(links->records.at, n, sizeof(*links->records.at), compare_records);
}

void sc_record_links_complete(const struct sc_record_links *links, const struct sc_trace *from,
			      struct sc_trace_event *event)
{
	const struct id_of_call key = {.correlation = event->correlation};
	const struct event_record *records = links->records.at;
	const uint64_t awaited = key_of(from, event);
	const struct id_of_call *id = NULL;
	int64_t call_ns;
	size_t at;

	if (event->cls == SC_EV_SYNC && event->aux0 >= 0 && event->aux1 == -1 &&
	    time_of(links, event->correlation, &call_ns)) {
		/* The last record of the event before the call that waits for it. */
		SC_FIRST_NOT(at, i, 0, links->records.n,
			     records[i].key < awaited ||
				     (records[i].key == awaited && records[i].start_ns <= call_ns));
		if (at > 0 && records[at - 1].key == awaited)
			event->aux1 = (int64_t)records[at - 1].correlation;
	}
	if (event->external_id == 0 && event->correlation && links->ids.n)
		id = bsearch(&key, links->ids.at, links->ids.n, sizeof(key), compare_ids);
	if (id)
		event->external_id = id->external_id;
}

int32_t sc_record_links_device(const struct sc_record_links *links, int32_t context)
{
	for (size_t i = 0; i < links->contexts.n; i++)
		if (links->contexts.at[i].context == context)
			return links->contexts.at[i].device;
	return -1;
}
