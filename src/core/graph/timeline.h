/* When each node of a graph ran, and what it waited for last. Times in microseconds from 0. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum sc_reason {
	SC_BY_NONE, /* started at 0 */
	SC_BY_LANE, /* the node before on its lane ended last */
	SC_BY_DEP,
	SC_BY_LAUNCH,  /* the dep that ended last is its launch */
	SC_BY_PEER,    /* group member: another member arrived last */
	SC_BY_RESOURCE /* waited for SMs held by another activity */
};
struct sc_timeline {
	size_t n, cap;
	double *ready_us; /* lane free and deps done; for a member: its own arrival, before it waits
			     for SMs or for its peers */
	double *start_us; /* work began */
	double *end_us;
	uint32_t *bound_by; /* the node whose end let this one start, or SC_NONE */
	uint8_t *reason;    /* enum sc_reason */
	double total_us;    /* end of the last node */
};
uint32_t sc_timeline_last(
	const struct sc_timeline *timeline); /* what ends last, the first of equals */
void sc_timeline_release(struct sc_timeline *timeline);
