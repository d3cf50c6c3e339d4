/* How fast links and networks really are: achieved shares of line rates, latencies and the ramp
 * between them, from configs/fabrics/ID.yaml. Fitted on published sweeps; provenance there. */
#pragma once

#include "base/fields.h"
#include "core/machine/topology.h"

/* Links inside a node, by GPU generation. */
/* The rates that NCCL's search of the topology settles on, 1e9 bytes/s (src/graph/search.cc): a
 * channel's rate and the port's on links; an NVLS head's, alone and with a network; the highest
 * rate it tries for a NIC. */
struct sc_fabric_search {
	double channel_gbps, port_gbps, max_net_gbps;
};
struct sc_fabric_link {
	const char *id;
	const char *vendor; /* "nvidia", "amd" */
	int64_t capability; /* the lowest CUDA capability it is for; 0 for AMD */
	double eff;         /* share of the port's peak that a ring or a transfer reaches */
	double p2p_eff;     /* of that, peers that send to each other */
	double copy_gbps;   /* rate of the one chunk that is copied, not forwarded */
	double nvls_eff; /* share of the port's peak per payload byte; 0 = no in-switch reduction */
	double latency_us; /* of every collective, before its first hop */
	double hop_us;     /* of each hop in a node, small messages */
	double simple_us;  /* what large ones show more than NCCL's constants, inside a node */
	struct sc_fabric_search search;
};
/* Between nodes, by fabric kind. */
struct sc_fabric_net {
	const char *kind;     /* cluster.fabric */
	double eff;           /* share of the NICs' line rate that rings reach */
	double tree_eff;      /* of that, trees over more than two nodes */
	double p2p_eff;       /* of that, one send/recv */
	double a2a_eff;       /* of that, all-to-all */
	double sharp_eff;     /* of that, all-reduce where the switches add */
	double latency_us;    /* of a network hop of a tree, above NCCL's constant */
	double simple_us;     /* of a network hop, large messages, above small ones */
	int64_t simple_below; /* CUDA capability of GPUs whose NICs of this kind do not keep the
				 order of what is written: no low-latency protocols */
};
/* The formula stands in models/collective/collective_times.c: a = latency of the low-latency
 * protocol, W = bytes at achieved rates, E = the bandwidth protocol's part. */
struct sc_fabric_ramp {
	double nvls_slope;      /* of time over W, small messages */
	double net_slope;       /* of a hop between nodes: over bytes at the NICs' rate, if small */
	double ring_net_frac;   /* share of a network hop's latency that a ring's step shows */
	double nvls_latency_us; /* in-switch reduction: a */
	double nvls_simple_us;  /* and E */
	double p2p_latency_us;  /* send/recv, above the links' */
	double peer_us, local_peer_us; /* all-to-all: a per peer on another node, on this one */
	double peer_fill_us; /* and what a peer on another node adds as its message grows */
	double pcie_eff;
	double p2p_channel_gbps; /* of a channel that sends to one peer over links; 0 = no limit */
	double host_path_gbps; /* of a GPU among more than two without links, where all exchange at
				  once; 0 = no limit */
};
/* One machine's measured times of a collective by size, smoothed; they go before the formulas. */
struct sc_fabric_curve {
	const char *collective; /* "all_reduce" */
	int64_t ranks, nodes;
	struct sc_doubles bytes, time_us; /* as many; both rise, times perhaps not strictly */
};
/* How thread blocks of one protocol move data, for walks of algorithm files (models/msccl). */
struct sc_fabric_walk_proto {
	double block_gbps;  /* of one thread block */
	double step_us;     /* of each primitive; and until its first data is seen by the peer */
	double base_us;     /* of a whole collective */
	double tile_bytes;  /* that a primitive moves of a chunk */
	double wire_factor; /* bytes on the wire for each byte of data */
};
struct sc_fabric_walk {
	const char *links;                     /* id of the links */
	double link_gbps;                      /* between two GPUs; 0: no limit but the ports' */
	double port_gbps;                      /* out of a GPU */
	double local_gbps;                     /* copies and reductions of a thread block */
	struct sc_fabric_walk_proto protos[3]; /* LL, LL128, Simple */
};
struct sc_fabric_profile {
	struct sc_structs links; /* struct sc_fabric_link, by rising capability */
	struct sc_structs nets;  /* struct sc_fabric_net; the first is the default */
	struct sc_fabric_ramp ramp;
	struct sc_structs walks;    /* struct sc_fabric_walk, one for links where it is known */
	struct sc_structs curves;   /* struct sc_fabric_curve; may be none */
	const char *gpu;            /* the curves are of; other GPUs have none. NULL: of any */
	struct sc_wiring cube_mesh; /* DGX-1: eight GPUs with six links each and no switch */
	double spread_frac;         /* residual spread (1 sigma, relative) of times */
};

extern const struct sc_field sc_fabric_fields[];
/* Loads configs/fabrics/ID.yaml ("default"), or the file ID if it ends in .yaml. Strings and lists
 * live in the arena. */
int sc_fabric_profile_load(const char *id, struct sc_arena *arena, struct sc_fabric_profile *out,
			   struct sc_err *err);
/* Is `fabric` (cluster.fabric) the name of a file of its own: FILE.yaml, or one in configs/fabrics?
 * The kinds of network in the default profile are not. */
bool sc_fabric_is_file(const struct sc_fabric_profile *standard, const char *fabric,
		       struct sc_arena *scratch);
/* Never NULL for a loaded profile: an unknown generation gets the nearest below, or the first. */
const struct sc_fabric_link *sc_fabric_link_get(const struct sc_fabric_profile *profile,
						const char *vendor, int64_t capability);
const struct sc_fabric_net *sc_fabric_net_get(const struct sc_fabric_profile *profile,
					      const char *kind);
