/* Names of event classes, and rows that say nothing. */
#include "trace/format/event.h"

#include <stdio.h>

#include <assert.h>

const char *sc_event_class_name(enum sc_event_class cls)
{
	static const char *const names[SC_N_EVENT_CLASSES] = {
		[SC_EV_KERNEL] = "kernel",
		[SC_EV_COPY] = "copy",
		[SC_EV_SET] = "set",
		[SC_EV_API] = "api",
		[SC_EV_SYNC] = "sync",
		[SC_EV_EVENT_RECORD] = "event_record",
		[SC_EV_OP] = "op",
		[SC_EV_RANGE] = "range",
		[SC_EV_GPU_RANGE] = "gpu_range",
		[SC_EV_PYTHON] = "python",
		[SC_EV_OVERHEAD] = "overhead",
		[SC_EV_COMM] = "comm",
		[SC_EV_JOB_OP] = "job_op",
		[SC_EV_GRAPH] = "graph",
		[SC_EV_MARK] = "mark",
		[SC_EV_OTHER] = "other",
	};

	assert((unsigned)cls < SC_N_EVENT_CLASSES);
	return names[cls];
}

void sc_trace_comm_init(struct sc_trace_comm *comm)
{
	*comm = (struct sc_trace_comm){.in_elems = -1,
				       .out_elems = -1,
				       .bytes = -1,
				       .group_size = -1,
				       .peer = -1,
				       .root = -1,
				       .seq = -1};
}

const char *sc_copy_name(enum sc_copy_kind kind, uint32_t from, uint32_t to, char text[64])
{
	static const char *const kinds[] = {"Memcpy",      "Memcpy HtoD", "Memcpy DtoH",
					    "Memcpy DtoD", "Memcpy PtoP", "Memcpy HtoH"};
	/* CUpti_ActivityMemoryKind */
	static const char *const memory[] = {
		"",      "Pageable", "Pinned",        "Device",
		"Array", "Managed",  "Device Static", "Managed Static"};
	enum { N = sizeof(memory) / sizeof(memory[0]) };

	if (from == 0 || from >= N || to == 0 || to >= N)
		return kinds[kind];
	snprintf(text, 64, "%s (%s -> %s)", kinds[kind], memory[from], memory[to]);
	return text;
}
