/* Names of what a prediction is made of. */
#include "report/parts.h"

#include <math.h>

#define DUST_FRAC 1e-9 /* of the iteration */

const char *const sc_owner_labels[] = {
	[SC_OWN_COMPUTE] = "compute",
	[SC_OWN_MEMORY] = "memory bound",
	[SC_OWN_COMM] = "exposed communication",
	[SC_OWN_BUBBLE] = "pipeline bubble",
	[SC_OWN_HOST] = "host",
	[SC_OWN_PEER] = "waiting for a peer",
	[SC_OWN_OPTIMIZER] = "optimizer",
	[SC_OWN_OTHER] = "other",
};

const char *const sc_reason_names[] = {
	[SC_BY_NONE] = "start",    [SC_BY_LANE] = "lane", [SC_BY_DEP] = "dependency",
	[SC_BY_LAUNCH] = "launch", [SC_BY_PEER] = "peer", [SC_BY_RESOURCE] = "resource",
};

const char *const sc_node_kind_names[] = {
	[SC_NODE_HOST] = "host", [SC_NODE_LAUNCH] = "launch", [SC_NODE_KERNEL] = "kernel",
	[SC_NODE_COPY] = "copy", [SC_NODE_MEMBER] = "comm",   [SC_NODE_EVENT] = "event",
	[SC_NODE_SYNC] = "sync", [SC_NODE_MARK] = "mark",
};

const char *const sc_lane_kind_names[] = {
	[SC_LANE_HOST] = "host", [SC_LANE_COMPUTE] = "compute", [SC_LANE_COMM] = "communication",
	[SC_LANE_COPY] = "copy", [SC_LANE_NIC] = "network",
};

double sc_without_dust(double ms, double iteration_ms)
{
	return fabs(ms) < DUST_FRAC * iteration_ms ? 0 : ms;
}

const struct sc_memory_part sc_memory_parts[SC_N_MEMORY_PARTS] = {
	{"weights", offsetof(struct sc_memory, weights_gib)},
	{"gradients", offsetof(struct sc_memory, gradients_gib)},
	{"optimizer", offsetof(struct sc_memory, optimizer_gib)},
	{"activations", offsetof(struct sc_memory, activations_gib)},
	{"buffers", offsetof(struct sc_memory, buffers_gib)},
	{"reserve", offsetof(struct sc_memory, reserve_gib)},
};

double sc_memory_part_gib(const struct sc_memory *memory, size_t part)
{
	const void *at = (const unsigned char *)memory + sc_memory_parts[part].offset;

	return *(const double *)at;
}
