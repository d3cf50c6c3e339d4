/* Costs of collectives over a topology: ring, tree, in-switch reduction or direct; NVLink or PCIe
 * inside a node, NICs between; protocol and channels after NCCL's cost model. */
#pragma once

#include "core/config/config.h"
#include "core/graph/cost.h"
#include "core/graph/op.h"
#include "core/machine/fabric.h"

/* The wiring of the GPUs of one scale-up domain. */
enum sc_link_topology {
	SC_LINK_SWITCH, /* every pair at the full rate of the port */
	SC_LINK_MESH,   /* the port is split over the peers, all of them */
	SC_LINK_WIRED   /* as a graph says: DGX-1, or a file */
};
struct sc_collective_files; /* models/collective/collective_files.h */
/* The network as the collective model sees it; made once per request. A "node" here and in sc_span
 * is the unit by which the ranks of a span are counted: the scale-up domain where it is larger than
 * a host (its NICs are then those of all its hosts). */
struct sc_fabric {
	double link_gbps; /* per GPU, one direction, inside the scale-up domain (NVLink, xGMI) */
	double pcie_gbps; /* used when link_gbps = 0, or between scale-up domains of one node */
	double nic_gbps;  /* one NIC, one direction */
	int nics_per_node;
	int gpus_per_node; /* of a node or a scale-up domain, whichever is larger */
	int link_gpus;     /* GPUs that reach each other over links; 2 for bridged pairs */
	int sm_arch;       /* 70, 80, 90, 100: NCCL's constants by generation; AMD as the nearest */
	int sm_count;
	double hbm_gbps;
	struct sc_fabric_link link; /* nvls_eff: 0 without a switch */
	struct sc_fabric_net net;   /* latency_us: the cluster's where it is given */
	bool amd;
	bool sharp; /* the network's switches add */
	/* The algorithm of each kind that is taken where it can be, 1 + enum sc_algo; 0: the
	 * library chooses. */
	int asked[SC_N_COLLECTIVES];
	double copy_us, copy_speed; /* a copy engine's, as struct sc_interference_coef has them */
	enum sc_link_topology topology;
	struct sc_wiring wiring;           /* of SC_LINK_WIRED */
	const struct sc_fabric_walk *walk; /* for algorithm files; NULL: not known of these links */
	struct sc_structs curves;          /* struct sc_fabric_curve, of this machine and GPU */
	struct sc_collective_files *files; /* NULL: none; remembers what was walked */
	struct sc_fabric_ramp ramp;
	struct sc_torus torus; /* no dims: none; else all collectives run over all of it */
	struct sc_endpoint endpoint;
	struct sc_structs tiers; /* struct sc_net_tier */
	int host_gpus;           /* their nodes are hosts of so many */
};
/* The blocks of a collective are half an SM's threads or less: blocks on more than half of the SMs
 * share them, and leave room for those of another collective, which its peers may wait for. */
#define SC_COLLECTIVE_MOST_SMS 0.5
/* Makes the fabric from the request's device, cluster and fabric profile; in a mixed cluster it is
 * that of groups with several kinds of GPU. SC_ECONFLICT means several nodes without NICs. */
int sc_fabric_from_request(const struct sc_request *request, struct sc_fabric *out,
			   struct sc_err *err);
/* The GPUs of a host, or those that the job has of a scale-up domain where that is wider. */
int64_t sc_node_gpus_of(const struct sc_request *request);
/* Makes the fabric of groups that have one kind of GPU only. */
int sc_fabric_of_kind(const struct sc_request *request, size_t kind, struct sc_fabric *out,
		      struct sc_err *err);

/* The places of the members of one group. */
struct sc_span {
	int n_ranks, n_nodes;
	int max_ranks_per_node;
};
/* The span of ranks on hosts: hosts that share a scale-up domain are one node. */
struct sc_span sc_span_of_hosts(const struct sc_cluster *cluster, const struct sc_span *hosts);
/* A span of so many nodes passes switches whose uplinks are slower than what comes up to them. */
bool sc_span_is_oversubscribed(const struct sc_fabric *fabric, const struct sc_span *span);
/* PAT is parallel aggregated trees, for gathers and scatters with one rank on each node. SHARP adds
 * in the network's switches, as NCCL's CollNet. Symmetric is kernels that read and write peers'
 * registered buffers; copy is copy engines; hierarchical is calls of the library inside nodes and
 * between them, one after the other: these three are taken where they are asked for. File is as
 * cluster.algorithms has it. */
enum sc_algo {
	SC_ALGO_RING,
	SC_ALGO_TREE,
	SC_ALGO_NVLS,
	SC_ALGO_PAT,
	SC_ALGO_DIRECT,
	SC_ALGO_SHARP,
	SC_ALGO_SYMMETRIC,
	SC_ALGO_COPY,
	SC_ALGO_HIERARCHICAL,
	SC_ALGO_FILE,
	SC_N_ALGOS
};
extern const char *const sc_algo_names[]; /* "ring"; by sc_algo, NULL-ended */
enum sc_proto { SC_PROTO_LL, SC_PROTO_LL128, SC_PROTO_SIMPLE, SC_N_PROTOS };
struct sc_collective_choice {
	enum sc_algo algo;
	enum sc_proto proto;
	int channels;
	double algbw_gbps;
};
/* The isolated time (latency_us + work_us), the demand on LINK / NIC / SM / HBM as shares of one
 * rank's unit (NIC: of the whole node's NICs), and holds_sm. n_ranks <= 1 or bytes <= 0 gives zero
 * cost. A send/recv is one pair; n_nodes > 1 means over the network. The bytes of an all-to-all are
 * what one rank sends in all. The time is that of the fastest algorithm NCCL may take; it never
 * falls as bytes grow. On a torus LINK is the share of the slowest dimension, COPY that of the
 * endpoint (collective_torus.c). */
struct sc_cost sc_collective_cost(const struct sc_fabric *fabric,
				  const struct sc_collective_shape *shape,
				  const struct sc_span *span,
				  struct sc_collective_choice *choice /* may be NULL */);
/* Finds the algorithm that `fabric->asked` may have by this name; false: none. */
bool sc_algo_by_name(const char *name, enum sc_algo *out);
/* Returns NULL where a collective of this kind and span can take the algorithm; else why not. */
const char *sc_algo_unfit(const struct sc_fabric *fabric, enum sc_collective kind,
			  const struct sc_span *span, enum sc_algo algo);
/* Copies by engines over links, or PCIe where a GPU has none to so many ranks; they take no SMs. */
struct sc_copies {
	double bytes;   /* that a rank receives in all */
	double n;       /* that one rank issues, one after another */
	double each_us; /* to issue one and see its end */
	double speed;   /* engines' rate over that of SMs on links */
};
struct sc_cost sc_copies_cost(const struct sc_fabric *fabric, const struct sc_copies *copies,
			      int n_ranks);
/* Wraps the fabric for code that knows only how many GPUs there are. */
struct sc_collective_time sc_collective_time_of(const struct sc_fabric *fabric);
/* The share of a node's NICs that the collective drives, its own ranks', which its `cost` loads. */
double sc_collective_nic_load(const struct sc_fabric *fabric, enum sc_collective kind,
			      const struct sc_span *span, const struct sc_cost *cost);

/* The traffic of one GPU of a torus in a collective, in bytes. */
struct sc_torus_traffic {
	double sent;  /* on its links, all dimensions */
	double read;  /* from its memory */
	double bus;   /* to its network interface */
	double links; /* 1e9 bytes/s: of all its links */
};
void sc_torus_traffic(const struct sc_fabric *fabric, const struct sc_collective_shape *shape,
		      struct sc_torus_traffic *out);
