/* Algorithms that a library takes only where it is asked to: kernels over symmetric memory and
 * copies by engines, for buffers that all ranks have registered (NCCL 2.27 and 2.28:
 * src/sym_kernels.cc, src/ce_coll.cc), and calls of the library inside nodes and between them, one
 * after the other. NCCL has latencies and the rate of a block for the first; links' rates are what
 * they achieve in the fabric profile. Overlapping phases and several copy streams are unknown. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "models/collective/collective_priv.h"

/* ---- the possible ones ---- */

/* All ranks reach each other over links. */
static bool is_one_domain(const struct sc_fabric *f, const struct sc_span *span)
{
	return span->n_nodes == 1 && f->link_gbps > 0 && span->n_ranks <= f->link_gpus &&
	       sc_ring_link_share(f, span->n_ranks) > 0;
}

static bool is_even(const struct sc_span *span)
{
	return span->n_nodes > 1 && span->max_ranks_per_node > 1 &&
	       span->n_ranks == span->n_nodes * span->max_ranks_per_node;
}

static const char *place_unfit(const struct sc_fabric *f, const struct sc_span *span,
			       enum sc_algo algo)
{
	switch (algo) {
	case SC_ALGO_NVLS:
		return f->link.nvls_eff > 0 ? NULL : "it needs links whose switches add";
	case SC_ALGO_SHARP:
		return f->sharp && span->n_nodes > 1 ? NULL
						     : "it needs nodes, and cluster.sharp of their "
						       "network";
	case SC_ALGO_PAT:
		return span->n_nodes > 1 ? NULL : "it needs nodes";
	case SC_ALGO_SYMMETRIC:
		if (f->amd)
			return "it is NVIDIA's";
		return is_one_domain(f, span) ? NULL : "it needs links between all ranks";
	case SC_ALGO_COPY:
		return is_one_domain(f, span) ? NULL : "it needs links between all ranks";
	case SC_ALGO_HIERARCHICAL:
		return is_even(span) ? NULL : "it needs nodes with as many ranks, two or more";
	default:
		return NULL;
	}
}

const char *sc_algo_unfit(const struct sc_fabric *fabric, enum sc_collective kind,
			  const struct sc_span *span, enum sc_algo algo)
{
	enum {
		SUMS = 1 << SC_ALL_REDUCE,
		HALVES = 1 << SC_ALL_GATHER | 1 << SC_REDUCE_SCATTER,
		AROUND = SUMS | HALVES | 1 << SC_BROADCAST | 1 << SC_REDUCE
	};
	static const struct {
		unsigned kinds;
		const char *why;
	} of[SC_N_ALGOS] = {
		[SC_ALGO_RING] = {AROUND, "it is of what goes around in rings"},
		[SC_ALGO_TREE] = {SUMS, "it is of all-reduces"},
		[SC_ALGO_NVLS] = {SUMS, "it is of all-reduces"},
		[SC_ALGO_PAT] = {HALVES, "it is of all-gathers and reduce-scatters"},
		[SC_ALGO_SHARP] = {SUMS, "it is of all-reduces"},
		[SC_ALGO_SYMMETRIC] = {SUMS | HALVES,
				       "it is of all-reduces, all-gathers and reduce-scatters"},
		[SC_ALGO_COPY] = {1 << SC_ALL_GATHER | 1 << SC_ALL_TO_ALL | 1 << SC_GATHER |
					  1 << SC_SCATTER,
				  "copy engines do not add: it is of gathers, scatters and "
				  "all-to-alls"},
		[SC_ALGO_HIERARCHICAL] = {AROUND | 1 << SC_ALL_TO_ALL,
					  "it is of rings and all-to-alls"},
	};

	if (!(of[algo].kinds >> kind & 1))
		return of[algo].why;
	return place_unfit(fabric, span, algo);
}

bool sc_algo_by_name(const char *name, enum sc_algo *out)
{
	for (int a = 0; a < SC_N_ALGOS; a++) {
		if (a == SC_ALGO_DIRECT || a == SC_ALGO_FILE || strcmp(name, sc_algo_names[a]) != 0)
			continue;
		*out = (enum sc_algo)a;
		return true;
	}
	return false;
}

/* ---- copy engines ---- */

struct sc_cost sc_copies_cost(const struct sc_fabric *f, const struct sc_copies *copies,
			      int n_ranks)
{
	double share = sc_ring_link_share(f, n_ranks);
	bool pcie = sc_is_over_pcie(f, n_ranks);
	double gbps = copies->speed *
		      (pcie ? f->pcie_gbps * f->ramp.pcie_eff : f->link_gbps * f->link.eff * share);
	struct sc_cost out = {.owner_frac[SC_OWN_COMM] = 1,
			      .latency_us = copies->n * copies->each_us,
			      .work_us = sc_bytes_us(copies->bytes, gbps)};

	out.demand[pcie ? SC_RES_PCIE : SC_RES_LINK] = pcie ? 1 : share;
	out.demand[SC_RES_COPY] = 1;
	/* Each byte is read here for a peer, and written here for itself. */
	out.demand[SC_RES_HBM] = fmin(1, 2 * gbps / f->hbm_gbps);
	return out;
}

/* A copy goes to each peer. */
static struct sc_cost copies_cost(const struct sc_fabric *f,
				  const struct sc_collective_shape *shape,
				  const struct sc_span *span, struct sc_collective_choice *choice)
{
	double peers = span->n_ranks - 1.0;
	const struct sc_copies copies = {.bytes = shape->bytes * peers / span->n_ranks,
					 .n = peers,
					 .each_us = f->copy_us,
					 .speed = f->copy_speed};

	choice->proto = SC_PROTO_SIMPLE;
	return sc_copies_cost(f, &copies, span->n_ranks);
}

/* ---- symmetric memory ---- */

static struct sc_cost symmetric(const struct sc_fabric *f, const struct sc_collective_shape *shape,
				const struct sc_span *span, struct sc_collective_choice *choice)
{
	double gbps = f->link_gbps * f->link.eff * sc_ring_link_share(f, span->n_ranks);
	struct sc_cost out = {.owner_frac[SC_OWN_COMM] = 1, .holds_sm = 1};
	struct sc_nccl_symmetric kernel;
	double most;

	sc_nccl_symmetric(f->sm_arch, shape, span->n_ranks, gbps, sc_nvls_gbps(f, span->n_ranks),
			  &kernel);
	out.latency_us = kernel.latency_us;
	out.work_us = kernel.total_us - kernel.latency_us;
	most = sc_bytes_us(kernel.bus_bytes, f->link_gbps * f->link.eff) / out.work_us;
	out.demand[SC_RES_LINK] = fmin(1, most);
	if (f->hbm_gbps > 0) /* what passes the port is read and written once */
		out.demand[SC_RES_HBM] =
			fmin(1, 2 * sc_bytes_us(kernel.bus_bytes, f->hbm_gbps) / out.work_us);
	if (f->sm_count > 0)
		out.demand[SC_RES_SM] =
			fmin(SC_COLLECTIVE_MOST_SMS, (double)kernel.blocks / f->sm_count);
	choice->proto = kernel.proto;
	choice->channels = kernel.blocks;
	return out;
}

/* ---- in nodes and between them ---- */

/* A phase is a call of the library; between nodes one of each rank with its like, at once. */
struct phase {
	enum sc_collective kind;
	bool between;
	bool parts; /* each has what its ranks of a node share */
};
enum { MOST_PHASES = 3 };
static const struct phases {
	int n;
	struct phase at[MOST_PHASES];
} PHASES[SC_N_COLLECTIVES] = {
	[SC_ALL_REDUCE] = {3,
			   {{SC_REDUCE_SCATTER, false, false},
			    {SC_ALL_REDUCE, true, true},
			    {SC_ALL_GATHER, false, false}}},
	[SC_ALL_GATHER] = {2, {{SC_ALL_GATHER, true, true}, {SC_ALL_GATHER, false, false}}},
	[SC_REDUCE_SCATTER] = {2,
			       {{SC_REDUCE_SCATTER, false, false},
				{SC_REDUCE_SCATTER, true, true}}},
	[SC_BROADCAST] = {2, {{SC_BROADCAST, true, false}, {SC_BROADCAST, false, false}}},
	[SC_REDUCE] = {2, {{SC_REDUCE, false, false}, {SC_REDUCE, true, false}}},
	[SC_ALL_TO_ALL] = {2, {{SC_ALL_TO_ALL, false, false}, {SC_ALL_TO_ALL, true, false}}},
};

static void add_phase_cost(struct sc_cost *sum, const struct sc_cost *cost)
{
	double work = sum->work_us + cost->work_us;

	for (int r = 0; r < SC_N_RES && work > 0; r++)
		sum->demand[r] =
			(sum->demand[r] * sum->work_us + cost->demand[r] * cost->work_us) / work;
	sum->latency_us += cost->latency_us;
	sum->work_us = work;
	sum->holds_sm = sum->holds_sm || cost->holds_sm;
}

/* Ranks of a node that have too few NICs for one each take turns. */
static double nic_part(const struct sc_fabric *f, enum sc_collective kind,
		       const struct sc_span *span)
{
	if (sc_collective_is_chain(kind)) /* between one rank of each node */
		return 1;
	return fmin(1, (double)f->nics_per_node / span->max_ranks_per_node);
}

static struct sc_cost hierarchical(const struct sc_fabric *f,
				   const struct sc_collective_shape *shape,
				   const struct sc_span *span, struct sc_collective_choice *choice)
{
	const struct phases *phases = &PHASES[shape->kind];
	int local = span->max_ranks_per_node;
	const struct sc_span spans[] = {{local, 1, local}, {span->n_nodes, span->n_nodes, 1}};
	struct sc_cost sum = {.owner_frac[SC_OWN_COMM] = 1};

	for (int i = 0; i < phases->n; i++) {
		const struct phase *p = &phases->at[i];
		struct sc_collective_shape part = *shape;
		struct sc_collective_choice own;
		struct sc_fabric fabric = *f;
		struct sc_cost cost;
		double nics = p->between ? nic_part(f, p->kind, span) : 1;

		memset(fabric.asked, 0, sizeof(fabric.asked));
		fabric.files = NULL;
		fabric.nic_gbps *= nics;
		part.kind = p->kind;
		part.bytes /= p->parts ? local : 1;
		cost = sc_collective_cost(&fabric, &part, &spans[p->between], &own);
		cost.demand[SC_RES_NIC] *= nics;
		if (own.channels > choice->channels)
			choice->channels = own.channels;
		choice->proto = own.proto;
		add_phase_cost(&sum, &cost);
	}
	return sum;
}

struct sc_cost sc_asked_cost(const struct sc_fabric *fabric,
			     const struct sc_collective_shape *shape, const struct sc_span *span,
			     enum sc_algo algo, struct sc_collective_choice *choice)
{
	struct sc_collective_choice own = {.algo = algo};
	struct sc_cost out;

	if (algo == SC_ALGO_SYMMETRIC)
		out = symmetric(fabric, shape, span, &own);
	else if (algo == SC_ALGO_COPY)
		out = copies_cost(fabric, shape, span, &own);
	else
		out = hierarchical(fabric, shape, span, &own);
	own.algbw_gbps = shape->bytes * sc_bytes_us(1, 1) / (out.latency_us + out.work_us);
	if (choice)
		*choice = own;
	return out;
}
