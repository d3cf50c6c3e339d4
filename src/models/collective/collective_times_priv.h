/* Shared inside collective times: the question to an algorithm, and the parts of its time. */
#pragma once

#include "models/collective/collective_priv.h"

struct sc_collective_parts {
	double latency_us;               /* a */
	double simple_us;                /* E; that of hops in a node comes to it in the end */
	double hops, net_hops;           /* in a node; between nodes: h */
	double net_hop_frac;             /* share of a hop's latency between nodes that shows */
	double net_hop_bytes;            /* B */
	double chunk_bytes;              /* of a channel, that each hop waits for */
	double link_us, net_us, work_us; /* work = W, the larger */
	double link_bytes;               /* through one rank's port */
	double net_bytes;                /* out of one node */
	double hbm_bytes;                /* of one rank */
	double total_us;
};
struct sc_collective_problem {
	const struct sc_fabric *f;
	const struct sc_span *span;
	enum sc_collective kind;
	int asked; /* as fabric->asked, if it is possible */
	double bytes;
	double link_gbps;  /* achieved, for the ranks of one node */
	double link_share; /* of the port that this topology lets them use */
	bool pcie;
	int nics;
	struct sc_nccl_graph graph;
};
/* Sets `links` and the graph from the rest. */
void sc_collective_set_links(struct sc_collective_problem *problem);
/* Finds the algorithm that NCCL takes, of those possible, and its parts. */
enum sc_algo sc_collective_fastest(const struct sc_collective_problem *problem,
				   struct sc_collective_parts *out);
/* The slowdown of the network over oversubscribed uplinks. */
double sc_collective_tier_slowdown(const struct sc_collective_problem *problem);
/* The channels between nodes at run time. */
double sc_collective_net_channels(const struct sc_collective_problem *problem);
/* The NICs of a node that a collective drives. */
int sc_collective_driven_nics(const struct sc_fabric *fabric, enum sc_collective kind,
			      const struct sc_span *span);
