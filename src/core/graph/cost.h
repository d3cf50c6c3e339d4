/* The cost of a node: a fixed latency, then work at a rate that sharing may lower. demand[r] is the
 * share (0..1) of one unit of resource r that the work uses at full speed. */
#pragma once

enum sc_resource {
	SC_RES_SM,  /* granted by space in launch order, not by rate */
	SC_RES_HBM, /* per rank */
	SC_RES_L2,
	SC_RES_LINK, /* NVLink / xGMI port of the rank */
	SC_RES_PCIE,
	SC_RES_NIC, /* shared: all NICs of the node are one unit, see sc_class.nic_domain */
	SC_RES_COPY,
	SC_RES_HOST,
	SC_N_RES
};

/* Who owns a microsecond of an iteration. */
enum sc_owner {
	SC_OWN_COMPUTE, /* GEMM, attention: tensor or vector math bound */
	SC_OWN_MEMORY,  /* memory-bound kernels */
	SC_OWN_COMM,    /* exposed communication */
	SC_OWN_BUBBLE,
	SC_OWN_HOST,
	SC_OWN_PEER, /* waiting for another rank to arrive */
	SC_OWN_OPTIMIZER,
	SC_OWN_OTHER,
	SC_N_OWNERS
};
extern const char *const sc_owner_names[]; /* the JSON keys of breakdown_ms */

/* The wait of a recorded activity when all that it is known to wait for was done: what ended it. */
enum sc_gap {
	SC_GAP_NONE,   /* the latency is part of the work */
	SC_GAP_HOST,   /* work of the host */
	SC_GAP_LAUNCH, /* the latency of a launch, or of an event */
	SC_GAP_QUEUE,  /* for room in the launch queue */
	SC_GAP_PEER,
	SC_GAP_GRAPH, /* between kernels of one launch */
	SC_GAP_UNEXPLAINED,
	SC_N_GAPS
};
extern const struct sc_gap_traits {
	const char *name; /* "launch latency" */
	enum sc_owner owner;
} sc_gaps[SC_N_GAPS];

struct sc_cost {
	double latency_us; /* not slowed by sharing */
	double work_us;    /* at full rate */
	double demand[SC_N_RES];
	/* Time shares by owner, summing to 1. A leaf op has one entry of 1; a coarse node (a whole
	 * layer block) has the composition of its op-level simulation. */
	double owner_frac[SC_N_OWNERS];
	double hidden_frac; /* of a coarse node: communication its kernels hide, over its time */
	double waves; /* compute kernels: SMs change hands at wave boundaries; 0 or 1 = never */
	unsigned char
		holds_sm;   /* collective: needs all its SMs at once and holds them while waiting */
	unsigned char gap;  /* enum sc_gap: whose latency_us is, if it is not part of the work */
	unsigned char comm; /* of a collective: 1 + enum sc_collective; 0: none, or not one alone */
	double beside_frac; /* of a collective's rate, kept while kernels run beside it; 0 = all */
	double amount; /* bytes of a collective, as nccl-tests count; FLOP of kernels; 0: none */
};
static inline double sc_cost_alone_us(const struct sc_cost *cost)
{
	return cost->latency_us + cost->work_us;
}
/* Adds a time to its owners; what the shares leave over is OTHER's. */
void sc_cost_own(const struct sc_cost *cost, double us, double owner_us[SC_N_OWNERS]);
/* Coarse durations and their sums are multiples of 2^-20 us, so that sums and maxima are exact. */
double sc_quantize_us(double us);
