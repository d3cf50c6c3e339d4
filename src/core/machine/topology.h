/* The wiring of one host, or of one NVLink domain, as a graph: GPUs, switches, CPUs and NICs are
 * nodes, links have a rate each way. Rings are searched on it as NCCL does (src/graph/search.cc,
 * NVIDIA/nccl 2.30.7): how many at once, at which rate, over any subset of the GPUs. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/file.h"

enum sc_topo_kind { SC_TOPO_GPU, SC_TOPO_NVSWITCH, SC_TOPO_PCIE, SC_TOPO_CPU, SC_TOPO_NIC };
enum { SC_TOPO_MAX_GPUS = 128, SC_TOPO_MAX_NODES = 1024, SC_TOPO_MAX_LINKS = 65536 };

enum { SC_TOPO_MAX_NUMBER = 4095 };
struct sc_topo_node {
	enum sc_topo_kind kind;
	int number;        /* of a GPU, as its host counts */
	double gbit_s;     /* of a NIC; else 0 */
	double latency_us; /* the same */
};
/* One direction. */
struct sc_topo_link {
	int from, to; /* nodes */
	double gbps;  /* all links of a bond together */
	bool nvlink;  /* of GPUs (NVLink, xGMI); else PCIe or between CPUs */
};
/* GPUs are the first nodes, by their numbers, NICs the last. Lives in the arena it was made in. */
struct sc_topology {
	struct sc_topo_node *nodes;
	struct sc_topo_link *links;
	int n_nodes, n_gpus, n_nics, n_links;
};
/* Rings that run at once; each goes through every GPU. */
struct sc_topo_rings {
	int n;
	double gbps; /* of each, out of a GPU */
	bool pcie;   /* some part goes over PCIe or through CPUs */
};

/* Rings through `gpus` (n different ones, 2 to SC_WIRING_MOST); none where they do not reach each
 * other. `load`, which may be NULL: what they put on each link, 1e9 bytes/s. */
struct sc_topo_rings sc_topology_rings(const struct sc_topology *topology, const int *gpus, int n,
				       double *load);
/* The share that is left of the rate of `n` that run at once when each loads the links as loads[i]
 * says, max-min fair: all slow down alike until a link is full, then those not on it go on. */
void sc_topology_share(const struct sc_topology *topology, const double *const *loads, size_t n,
		       double *share);
/* Out of a GPU over its own links, the most of any: 0 without. */
double sc_topology_port_gbps(const struct sc_topology *topology);
/* Eight GPUs with six links each and no switch (DGX-1V); `gbps` of one link. */
void sc_topology_cube_mesh(double gbps, struct sc_arena *arena, struct sc_topology *out);

/* NCCL's topology XML, or what `nvidia-smi topo -m` or `rocm-smi --showtopo` prints. Neither says
 * the rate of an NVLink: SC_TOPO_LINK_GBPS each. */
#define SC_TOPO_LINK_GBPS 25.0
int sc_topology_parse(const struct sc_source *source, struct sc_arena *arena,
		      struct sc_topology *out, struct sc_err *err);

/* The rates that the model of collectives takes from a topology, for rings through its first 2, 3
 * ... GPUs. Beyond SC_WIRING_MOST, where every GPU has the same links, as for so many. */
enum { SC_WIRING_MOST = 16 };
struct sc_wiring {
	const struct sc_topology *graph; /* it is of; lives where that was made */
	int n_gpus, n_nics;
	bool has_switch, is_mesh; /* NVLinks go to a switch; to every other GPU, as many to each */
	int neighbours;           /* that a GPU has NVLinks to, the least of any */
	double port_links;        /* out of a GPU, in NVLinks */
	double nic_gbit_s, nic_latency_us;
	double share[SC_WIRING_MOST + 1];     /* of the port, that rings through so many GPUs use */
	double pcie_gbps[SC_WIRING_MOST + 1]; /* their rate, where they go over PCIe; else 0 */
};
void sc_wiring_of(const struct sc_topology *topology, struct sc_wiring *out);
/* The same of sc_topology_cube_mesh(), at once. */
void sc_wiring_of_cube_mesh(double gbps, struct sc_arena *arena, struct sc_wiring *out);
/* n: 2 and more. */
static inline double sc_wiring_share(const struct sc_wiring *wiring, int n)
{
	const int most = wiring->n_gpus < SC_WIRING_MOST ? wiring->n_gpus : SC_WIRING_MOST;

	return wiring->share[n < most ? n : most];
}
