/* Shared inside the collective model: NCCL's own tuning formula (collective_nccl.c), which names
 * the algorithm and protocol that NCCL would take, and the times we return (collective_times.c). */
#pragma once

#include "models/collective/collective.h"

/* PAT has a share of a ring's rate; some steps show; each rank's part takes time (tuning.cc). */
#define SC_PAT_EFF 0.75
#define SC_PAT_STEPS_SEEN 3.5
#define SC_PAT_RANK_US 2.8

/* The result of NCCL's topology search, and the ranks that take part. */
struct sc_nccl_graph {
	enum sc_collective kind;
	int n_ranks, n_nodes;
	int sm_arch;  /* 70, 80, 90, 100 */
	int channels; /* as the search found, before they are doubled at run time */
	double channel_gbps;
	bool pcie; /* GPUs reach each other over PCIe */
	bool rccl; /* AMD's library and its constants */
	bool amd_cpu;
	double nic_latency_us;
};
/* Latency + bytes / bandwidth of each algorithm and protocol; bandwidth 0 = not enabled. */
struct sc_nccl_model {
	double latency_us[SC_ALGO_DIRECT][SC_N_PROTOS];
	double algbw_gbps[SC_ALGO_DIRECT][SC_N_PROTOS];
};
void sc_nccl_tune(const struct sc_nccl_graph *graph, struct sc_nccl_model *out);
/* The time that NCCL expects, with its corrections by size; HUGE_VAL if not enabled. */
double sc_nccl_time_us(const struct sc_nccl_graph *graph, const struct sc_nccl_model *model,
		       const struct sc_collective_choice *choice, double bytes);
/* Fills in algo, proto and algbw_gbps of the fastest by that time. `only` is one algorithm, or
 * SC_N_ALGOS for any. False: none is enabled. */
bool sc_nccl_choose(const struct sc_nccl_graph *graph, double bytes, enum sc_algo only,
		    struct sc_collective_choice *out);
/* The latency of a hop of an algorithm in NCCL's tables: over NVLink, PCIe, the network. */
enum sc_hop { SC_HOP_NVLINK, SC_HOP_PCIE, SC_HOP_NET, SC_N_HOPS };
double sc_nccl_hop_us(bool rccl, enum sc_algo algo, enum sc_proto proto, enum sc_hop hop);
/* The latency of Simple before its first hop, above that of LL. */
double sc_nccl_simple_base_us(bool rccl, enum sc_algo algo);
/* The time of a byte in the low-latency protocol over that in Simple. */
double sc_nccl_ll_over_simple(const struct sc_nccl_graph *graph, enum sc_algo algo);
int sc_floor_log2(int n); /* 0 below 2 */
/* One rank exchanges with all others, without rings. */
static inline bool sc_collective_has_root(enum sc_collective kind)
{
	return kind == SC_GATHER || kind == SC_SCATTER;
}
/* Peers send to each other: there are no rings or trees. */
static inline bool sc_collective_is_direct(enum sc_collective kind)
{
	return kind == SC_ALL_TO_ALL || kind == SC_SEND_RECV || sc_collective_has_root(kind);
}
/* Data goes down a ring from one rank, or up to it. */
static inline bool sc_collective_is_chain(enum sc_collective kind)
{
	return kind == SC_BROADCAST || kind == SC_REDUCE;
}
/* The steps of a ring: 2(n-1) for all-reduce, n for broadcast and reduce, else n-1. */
int sc_ring_steps(enum sc_collective kind, int n_ranks);

/* The cost of a collective on a torus. */
struct sc_cost sc_torus_cost(const struct sc_fabric *fabric,
			     const struct sc_collective_shape *shape);

/* A run by a file of cluster.algorithms. */
struct sc_file_run {
	double total_us, latency_us;
	double link_bytes, net_bytes,
		hbm_bytes; /* as of a ring: of a rank's port, a node, a rank */
	int blocks;        /* SMs of a GPU */
	enum sc_proto proto;
};
/* Notes that an algorithm was asked for by name: `why` it was not taken, or NULL. */
void sc_collective_files_note(struct sc_collective_files *files, enum sc_collective kind,
			      const char *why);
bool sc_collective_file_run(const struct sc_fabric *fabric, const struct sc_collective_shape *shape,
			    const struct sc_span *span, struct sc_file_run *out);
/* The time without curves. */
double sc_collective_formula_us(const struct sc_fabric *fabric, enum sc_collective kind,
				double bytes, const struct sc_span *span);
/* The cost of an algorithm that the library takes only where it is asked to, and that fits. */
struct sc_cost sc_asked_cost(const struct sc_fabric *fabric,
			     const struct sc_collective_shape *shape, const struct sc_span *span,
			     enum sc_algo algo, struct sc_collective_choice *choice);
/* Kernels over symmetric memory; sc_nccl_symmetric finds the fastest that NCCL has for the kind. */
struct sc_nccl_symmetric {
	double latency_us, total_us;
	double bus_bytes; /* through a rank's port, the larger way */
	int blocks;
	enum sc_proto proto;
};
/* `gbps` is the rate that a rank's port achieves; `switch_gbps`: bytes of an all-reduce that the
 * switch adds; 0: it does not. */
void sc_nccl_symmetric(int sm_arch, const struct sc_collective_shape *shape, int n_ranks,
		       double gbps, double switch_gbps, struct sc_nccl_symmetric *out);
/* The time from the fabric's curves; 0 where none is near. */
double sc_collective_curve_us(const struct sc_fabric *fabric, enum sc_collective kind, double bytes,
			      const struct sc_span *span);
enum { SC_NVLS_MIN_RANKS = 4 }; /* of one node, for in-switch reduction */
/* The rate of an all-reduce that `ranks` of a node reduce in its switch; 0: it does not. */
double sc_nvls_gbps(const struct sc_fabric *fabric, int ranks);
/* The share of a port's links that a ring through `n` GPUs of a node uses; 0: none join them. */
double sc_ring_link_share(const struct sc_fabric *fabric, int n);
bool sc_is_over_pcie(const struct sc_fabric *fabric, int n); /* and so over PCIe */
/* NCCL sends to a peer on another node through a buffer that fills before bytes flow: a short
 * message of an all-to-all takes twice its time at the NIC, a long one so much more at most. */
double sc_collective_fill_us(const struct sc_fabric *fabric, double bytes, double gbps);
/* The NICs of one node that a group drives: those of its ranks on the node with the fewest. */
int sc_span_nics(const struct sc_fabric *fabric, const struct sc_span *span);
/* Makes the search's result for a fabric and span. */
void sc_nccl_graph_from(const struct sc_fabric *fabric, enum sc_collective kind,
			const struct sc_span *span, struct sc_nccl_graph *out);
