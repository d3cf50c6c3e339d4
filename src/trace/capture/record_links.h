/* Joins what records say of each other, once all are there. CUPTI promises no order: a kernel may
 * come before the external id of its call, a wait before the record of the event that it waits for
 * (pytorch/kineto #1318), anything before the first record that says which device a context is of.
 * The writer takes what it has seen by then; the rest is found here, when the trace is packed. */
#pragma once

#include "base/vec.h"
#include "trace/format/trace_file.h"

struct api_call {
	uint32_t correlation;
	int64_t start_ns, external_id;
};
struct event_record {
	uint64_t key;     /* context and event */
	int64_t start_ns; /* of its call */
	uint32_t correlation;
};
struct context {
	int32_t context, device;
};
/* The NCCL calls that a recorded kernel was launched for: both have the external id of their group,
 * the call from the plugin or NVTX, the kernel from CUPTI. What replay, export and fits know of a
 * collective kernel (communicator, number, bytes) comes from there. */
struct nccl_call {
	int64_t id, start_ns;
	uint32_t comm;
};
struct launch {
	int64_t id;
	uint32_t correlation;
};
struct sc_links {
	SC_VEC(struct api_call)
	api; /* with an external id, or that record an event or wait for one */
	SC_VEC(struct event_record) records;
	SC_VEC(struct context) contexts;
	SC_VEC(struct nccl_call) calls; /* by id, then start */
	SC_VEC(struct launch) launches; /* by id; a runtime call and the driver's in it are one */
	uint32_t *used; /* by call, of the first of an id: kernels of it that were asked for */
};

/* Every event of the trace, in any order; names, lanes and comms as in `from`. Then once
 * sc_links_settle. */
void sc_links_see(struct sc_links *links, const struct sc_trace *from,
		  const struct sc_trace_event *event);
void sc_links_settle(struct sc_links *links);
/* The device of a context, -1 = not known. */
int32_t sc_links_device(const struct sc_links *links, int32_t context);
/* External id of what a call started; the record's correlation of a wait. What is known stays. */
void sc_links_complete(const struct sc_links *links, const struct sc_trace *from,
		       struct sc_trace_event *event);
/* The call of a kernel without one of its own, to be asked once for each in the trace's order;
 * false: not known. Of several calls that one kernel serves the bytes are summed, and what differs
 * is not said. A group whose calls cannot be told apart (other communicators, other numbers of
 * launches) gives none. */
bool sc_links_call(struct sc_links *links, const struct sc_trace *from,
		   const struct sc_trace_event *kernel, struct sc_trace_comm *out);
void sc_links_release(struct sc_links *links);
