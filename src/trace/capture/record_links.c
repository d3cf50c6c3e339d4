/* Finds what records say of each other: the external id of a call's kernels, the record that a wait
 * is for, the NCCL call of a kernel, the device of a context. All events are seen first, in any
 * order; then each is asked for. */
#include "trace/capture/record_links.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "trace/capture/host_ring.h"

static uint64_t key_of(const struct sc_trace *from, const struct sc_trace_event *event)
{
	return (uint64_t)(uint32_t)from->lanes.at[event->lane].context << 32 |
	       (uint32_t)event->aux0;
}

int32_t sc_links_device(const struct sc_links *links, int32_t context)
{
	for (size_t i = 0; i < links->contexts.n; i++)
		if (links->contexts.at[i].context == context)
			return links->contexts.at[i].device;
	return -1;
}

void sc_links_see(struct sc_links *links, const struct sc_trace *from,
		  const struct sc_trace_event *event)
{
	const struct sc_trace_lane *lane = &from->lanes.at[event->lane];
	const char *name = from->strings.at[event->name];
	const uint32_t correlation = event->correlation;
	/* With a plugin that says nothing of launches, kernels have the id of NVTX's range. */
	const bool is_call = event->cls == SC_EV_COMM ||
			     (event->cls == SC_EV_RANGE && event->sub == SC_HOST_SUB_NVTX);

	if (event->cls == SC_EV_API && correlation &&
	    (event->external_id || strstr(name, "EventRecord") || strstr(name, "WaitEvent") ||
	     strstr(name, "EventSynchronize")))
		SC_VEC_PUSH(&links->api,
			    ((struct api_call){correlation, event->start_ns, event->external_id}));
	if (event->cls == SC_EV_API && event->external_id && strstr(name, "LaunchKernel"))
		SC_VEC_PUSH(&links->launches, ((struct launch){event->external_id, correlation}));
	if (is_call && event->external_id && event->comm)
		SC_VEC_PUSH(&links->calls,
			    ((struct nccl_call){event->external_id, event->start_ns, event->comm}));
	if (event->cls == SC_EV_EVENT_RECORD)
		SC_VEC_PUSH(&links->records,
			    ((struct event_record){key_of(from, event), 0, correlation}));
	if (event->cls == SC_EV_KERNEL && lane->device >= 0 &&
	    sc_links_device(links, lane->context) < 0)
		SC_VEC_PUSH(&links->contexts, ((struct context){lane->context, lane->device}));
}

SC_COMPARE(compare_api, struct api_call,
	   2 * SC_ORDER(a->correlation, b->correlation) + SC_ORDER(a->start_ns, b->start_ns));

SC_COMPARE(compare_records, struct event_record,
	   4 * SC_ORDER(a->key, b->key) + 2 * SC_ORDER(a->start_ns, b->start_ns) +
		   SC_ORDER(a->correlation, b->correlation));

SC_COMPARE(compare_calls, struct nccl_call,
	   4 * SC_ORDER(a->id, b->id) + 2 * SC_ORDER(a->start_ns, b->start_ns) +
		   SC_ORDER(a->comm, b->comm));

SC_COMPARE(compare_launches, struct launch,
	   2 * SC_ORDER(a->id, b->id) + SC_ORDER(a->correlation, b->correlation));

static size_t first_of(const struct sc_links *links, uint32_t correlation)
{
	size_t at;

	SC_FIRST_NOT(at, i, 0, links->api.n, links->api.at[i].correlation < correlation);
	return at;
}

static bool time_of(const struct sc_links *links, uint32_t correlation, int64_t *start_ns)
{
	const size_t at = first_of(links, correlation);

	if (at == links->api.n || links->api.at[at].correlation != correlation)
		return false;
	*start_ns = links->api.at[at].start_ns;
	return true;
}

void sc_links_settle(struct sc_links *links)
{
	struct launch *launches = links->launches.at;
	size_t n = 0;

	SC_SORT(links->api.at, links->api.n, compare_api);
	for (size_t i = 0; i < links->records.n; i++) {
		struct event_record record = links->records.at[i];

		if (time_of(links, record.correlation, &record.start_ns))
			links->records.at[n++] = record;
	}
	links->records.n = n;
	SC_SORT(links->records.at, links->records.n, compare_records);
	SC_SORT(links->calls.at, links->calls.n, compare_calls);
	SC_SORT(launches, links->launches.n, compare_launches);
	n = 0;
	for (size_t i = 0; i < links->launches.n; i++)
		if (n == 0 || compare_launches(&launches[n - 1], &launches[i]) != 0)
			launches[n++] = launches[i];
	links->launches.n = n;
	links->used = sc_xcalloc(links->calls.n + 1, sizeof(*links->used));
}

void sc_links_complete(const struct sc_links *links, const struct sc_trace *from,
		       struct sc_trace_event *event)
{
	const struct event_record *records = links->records.at;
	const struct api_call *api = links->api.at;
	const uint64_t awaited = key_of(from, event);
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
	if (event->external_id || !event->correlation)
		return;
	for (at = first_of(links, event->correlation);
	     at < links->api.n && api[at].correlation == event->correlation && !event->external_id;
	     at++)
		event->external_id = api[at].external_id;
}

static bool is_p2p(const char *name)
{
	return strstr(name, "Send") != NULL || strstr(name, "Recv") != NULL;
}

static int64_t sum_or_unknown(int64_t a, int64_t b)
{
	return a < 0 || b < 0 || a > INT64_MAX - b ? -1 : a + b;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Adds one call to another: a send goes beside a receive, all else one after the other. */
static bool merge_call(const struct sc_trace *from, struct sc_trace_comm *into,
		       const struct sc_trace_comm *next)
{
	const char *name = from->strings.at[into->collective];
	const char *other = from->strings.at[next->collective];
	const bool both_ways = is_p2p(name) && is_p2p(other) && strcmp(name, other) != 0;

	if (into->comm_hash != next->comm_hash || is_p2p(name) != is_p2p(other) ||
	    (!both_ways && strcmp(name, other) != 0))
		return false;
	into->bytes = both_ways ? larger(into->bytes, next->bytes)
				: sum_or_unknown(into->bytes, next->bytes);
	into->in_elems = both_ways ? larger(into->in_elems, next->in_elems)
				   : sum_or_unknown(into->in_elems, next->in_elems);
	if (into->dtype != next->dtype)
		into->dtype = 0;
	if (into->peer != next->peer)
		into->peer = -1;
	if (into->root != next->root)
		into->root = -1;
	return true;
}

bool sc_links_call(struct sc_links *links, const struct sc_trace *from,
		   const struct sc_trace_event *kernel, struct sc_trace_comm *out)
{
	const int64_t id = kernel->external_id;
	size_t first, launch, n_kernels = 0, n = 0;
	const struct nccl_call *at;

	if (id == 0 || kernel->comm)
		return false;
	SC_FIRST_NOT(launch, i, 0, links->launches.n, links->launches.at[i].id < id);
	for (; launch < links->launches.n && links->launches.at[launch].id == id; launch++)
		n_kernels++;
	SC_FIRST_NOT(first, i, 0, links->calls.n, links->calls.at[i].id < id);
	while (first + n < links->calls.n && links->calls.at[first + n].id == id)
		n++;
	/* Without a launch that was recorded it is one kernel. */
	if (n == 0 || (n_kernels > 1 && n_kernels != n))
		return false;
	at = &links->calls.at[first];
	if (n_kernels > 1)
		at += links->used[first]++ % n;
	*out = from->comms.at[at->comm];
	for (size_t i = 1; n_kernels <= 1 && i < n; i++)
		if (!merge_call(from, out, &from->comms.at[at[i].comm]))
			return false;
	return true;
}

void sc_links_release(struct sc_links *links)
{
	SC_VEC_RELEASE(&links->api);
	SC_VEC_RELEASE(&links->calls);
	SC_VEC_RELEASE(&links->launches);
	free(links->used);
	SC_VEC_RELEASE(&links->records);
	SC_VEC_RELEASE(&links->contexts);
}
