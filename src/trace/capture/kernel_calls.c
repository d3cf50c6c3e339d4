#include "trace/capture/kernel_calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "trace/capture/host_ring.h"

struct call {
	int64_t id, start_ns;
	uint32_t comm;
};
struct launch {
	int64_t id;
	uint32_t correlation;
};
struct sc_kernel_calls {
	SC_VEC(struct call) calls;      /* by id, then start */
	SC_VEC(struct launch) launches; /* by id; a runtime call and the driver's in it are one */
	uint32_t *used; /* by call, of the first of an id: kernels of it that were asked for */
};

struct sc_kernel_calls *sc_kernel_calls_create(void)
{
	return sc_xcalloc(1, sizeof(struct sc_kernel_calls));
}

void sc_kernel_calls_destroy(struct sc_kernel_calls *calls)
{
	if (!calls)
		return;
	SC_VEC_RELEASE(&calls->calls);
	SC_VEC_RELEASE(&calls->launches);
	free(calls->used);
	free(calls);
}

void sc_kernel_calls_see(struct sc_kernel_calls *calls, const struct sc_trace *from,
			 const struct sc_trace_event *event)
{
	/* With a plugin that says nothing of launches, kernels have the id of NVTX's range. */
	bool is_call = event->cls == SC_EV_COMM ||
		       (event->cls == SC_EV_RANGE && event->sub == SC_HOST_SUB_NVTX);

	if (!event->external_id)
		return;
	if (is_call && event->comm)
		SC_VEC_PUSH(&calls->calls,
			    ((struct call){event->external_id, event->start_ns, event->comm}));
	else if (event->cls == SC_EV_API && strstr(from->strings.at[event->name], "LaunchKernel"))
		SC_VEC_PUSH(&calls->launches,
			    ((struct launch){event->external_id, event->correlation}));
}

static int compare_calls(const void *left, const void *right)
{
	const struct call *a = left, *b = right;

	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	return (a->comm > b->comm) - (a->comm < b->comm);
}

static int compare_launches(const void *left, const void *right)
{
	const struct launch *a = left, *b = right;

	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	return (a->correlation > b->correlation) - (a->correlation < b->correlation);
}

void sc_kernel_calls_settle(struct sc_kernel_calls *calls)
{
	struct launch *launches = calls->launches.at;
	size_t n = 0;

	if (calls->calls.n)
		qsort(calls->calls.at, calls->calls.n, sizeof(*calls->calls.at), compare_calls);
	if (calls->launches.n)
		qsort(launches, calls->launches.n, sizeof(*launches), compare_launches);
	for (size_t i = 0; i < calls->launches.n; i++)
		if (n == 0 || compare_launches(&launches[n - 1], &launches[i]) != 0)
			launches[n++] = launches[i];
	calls->launches.n = n;
	calls->used = sc_xcalloc(calls->calls.n + 1, sizeof(*calls->used));
}

/* At least one: the call may not have been recorded. */
static size_t count_launches(const struct sc_kernel_calls *calls, int64_t id)
{
	size_t low, n = 0;

	SC_FIRST_NOT(low, i, 0, calls->launches.n, calls->launches.at[i].id < id);
	while (low + n < calls->launches.n && calls->launches.at[low + n].id == id)
		n++;
	return n ? n : 1;
}

static bool is_p2p(const char *name)
{
	return strstr(name, "Send") != NULL || strstr(name, "Recv") != NULL;
}

static int64_t sum(int64_t a, int64_t b)
{
	return a < 0 || b < 0 || a > INT64_MAX - b ? -1 : a + b;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* What is sent goes beside what is received, all else one after the other. */
static bool merge(const struct sc_trace *from, struct sc_trace_comm *into,
		  const struct sc_trace_comm *next)
{
	const char *name = from->strings.at[into->collective];
	const char *other = from->strings.at[next->collective];
	const bool both_ways = is_p2p(name) && is_p2p(other) && strcmp(name, other) != 0;

	if (into->comm_hash != next->comm_hash || is_p2p(name) != is_p2p(other) ||
	    (!both_ways && strcmp(name, other) != 0))
		return false;
	into->bytes = both_ways ? larger(into->bytes, next->bytes) : sum(into->bytes, next->bytes);
	into->in_elems = both_ways ? larger(into->in_elems, next->in_elems)
				   : sum(into->in_elems, next->in_elems);
	if (into->dtype != next->dtype)
		into->dtype = 0;
	if (into->peer != next->peer)
		into->peer = -1;
	if (into->root != next->root)
		into->root = -1;
	return true;
}

bool sc_kernel_calls_find(struct sc_kernel_calls *calls, const struct sc_trace *from,
			  const struct sc_trace_event *kernel, struct sc_trace_comm *out)
{
	const int64_t id = kernel->external_id;
	size_t first, n_kernels, n = 0;
	const struct call *at;

	if (id == 0 || kernel->comm)
		return false;
	n_kernels = count_launches(calls, id);
	SC_FIRST_NOT(first, i, 0, calls->calls.n, calls->calls.at[i].id < id);
	while (first + n < calls->calls.n && calls->calls.at[first + n].id == id)
		n++;
	if (n == 0 || (n_kernels > 1 && n_kernels != n))
		return false;
	at = &calls->calls.at[first];
	if (n_kernels > 1)
		at += calls->used[first]++ % n;
	*out = from->comms.at[at->comm];
	for (size_t i = 1; n_kernels == 1 && i < n; i++)
		if (!merge(from, out, &from->comms.at[at[i].comm]))
			return false;
	return true;
}
