/* Which NCCL calls a recorded kernel was launched for: both have the external id of their group, the call
 * from the plugin or NVTX, the kernel from CUPTI. What replay, export and fits know of a collective kernel
 * (communicator, number, bytes) comes from there. */
#ifndef SC_TRACE_CAPTURE_KERNEL_CALLS_H
#define SC_TRACE_CAPTURE_KERNEL_CALLS_H

#include "trace/format/trace_file.h"

struct sc_kernel_calls;
struct sc_kernel_calls *sc_kernel_calls_create(void);
void sc_kernel_calls_destroy(struct sc_kernel_calls *calls);
/* Every event of the trace, in any order; names and comms as in `from`. Then once `settle`. */
void sc_kernel_calls_see(struct sc_kernel_calls *calls, const struct sc_trace *from,
			 const struct sc_trace_event *event);
void sc_kernel_calls_settle(struct sc_kernel_calls *calls);
/* Of a kernel without a call of its own, to be asked once for each in the trace's order; false: not known.
 * Of several calls that one kernel serves the bytes are summed, and what differs is not said. A group whose
 * calls cannot be told apart (other communicators, other numbers of launches) gives none. */
bool sc_kernel_calls_find(struct sc_kernel_calls *calls, const struct sc_trace *from,
			  const struct sc_trace_event *kernel, struct sc_trace_comm *out);

#endif
