/* Time of a collective: a + W + least(L - W, E) + h*sat(k*B/R, e) + F for each algorithm that NCCL
 * may take, the smallest wins. Step counts, slots and channels are NCCL's (collective_nccl.c;
 * src/enqueue.cc, src/graph/connect.cc); rates, and latencies above NCCL's, come from the fabric
 * profile. Congestion by others, adaptive routing and user buffers are not known here. */
#include "models/collective/collective_times_priv.h"

#include <math.h>

#include "base/units.h"

/* The terms: least(x, c) = x*c/sqrt(x^2 + c^2), sat(x, c) = x*c/(x + c). W is the bytes over the
 * slowest of links and NICs at achieved rates; a the latency of its steps in the low-latency
 * protocol; L is W in that protocol, by NCCL's caps; E is what the bandwidth protocol adds. Each of
 * h hops between nodes waits for the B bytes that it takes at once, a ring's chunk, a tree's whole
 * message: at the NICs' rate R k times slower while small, e at most. F fills a tree between nodes:
 * its last chunk goes along all hops, one slot of every channel's buffer at a time, over links at a
 * channel's rate, over NICs at R. So small messages cost a + L, large ones a + E + h*e + F + W, and
 * time never falls as bytes grow. */

/* A channel of NCCL takes so much at once: a slot of Simple's buffer, or NVLS's chunk. */
#define CHUNK_BYTES (512 * SC_BYTES_PER_KIB)
#define NVLS_CHUNK_BYTES (128 * SC_BYTES_PER_KIB)
enum { P2P_CHANNELS = 32, P2P_STEPS = 32 };
enum { MOST_FOUND = 16, FEW_CHANNELS = 16, FAST_CHANNEL_GBPS = 45 };

/* The HBM traffic per byte through the port: a reduction reads the FIFO and its own data and
 * writes; a forward reads and writes once (interference of collectives, traffic factors). */
static const double HBM_PER_BYTE_REDUCE = 3, HBM_PER_BYTE_MOVE = 2;

/* The ranks on the node with the fewest. */
static int fewest_ranks(const struct sc_span *span)
{
	int fewest = span->n_ranks - span->max_ranks_per_node * (span->n_nodes - 1);

	if (fewest < 1)
		fewest = 1;
	return fewest < span->max_ranks_per_node ? fewest : span->max_ranks_per_node;
}

/* The NICs of a node that so many of its ranks drive. */
static int nics_of(const struct sc_fabric *f, int ranks)
{
	int per_gpu = f->gpus_per_node > 0 ? f->nics_per_node / f->gpus_per_node : 1;
	int nics = ranks * (per_gpu > 1 ? per_gpu : 1);

	return nics < f->nics_per_node ? nics : f->nics_per_node;
}

int sc_span_nics(const struct sc_fabric *f, const struct sc_span *span)
{
	return nics_of(f, fewest_ranks(span));
}

int sc_collective_driven_nics(const struct sc_fabric *f, enum sc_collective kind,
			      const struct sc_span *span)
{
	if (kind == SC_ALL_TO_ALL) /* no ring goes through the node with the fewest */
		return nics_of(f, span->max_ranks_per_node);
	return kind == SC_SEND_RECV || sc_collective_has_root(kind) ? nics_of(f, 1)
								    : sc_span_nics(f, span);
}

/* The share of a port's links that a ring through `n` GPUs of the domain uses. */
double sc_ring_link_share(const struct sc_fabric *f, int n)
{
	if (n < 2 || f->topology == SC_LINK_SWITCH)
		return 1;
	if (f->topology == SC_LINK_WIRED)
		return sc_wiring_share(&f->wiring, n);
	return n >= f->link_gpus ? 1 : (n - 1.0) / (f->link_gpus - 1.0);
}

bool sc_is_over_pcie(const struct sc_fabric *f, int n)
{
	return f->link_gbps <= 0 || n > f->link_gpus || !(sc_ring_link_share(f, n) > 0);
}

/* Rings over PCIe go as fast as the wiring lets them, at most as the GPU itself. */
static double pcie_gbps(const struct sc_fabric *f, int n)
{
	double wired =
		f->topology == SC_LINK_WIRED && n <= SC_WIRING_MOST ? f->wiring.pcie_gbps[n] : 0;

	return wired > 0 ? fmin(wired, f->pcie_gbps) : f->pcie_gbps;
}

void sc_collective_set_links(struct sc_collective_problem *p)
{
	const struct sc_fabric *f = p->f;
	int local =
		p->kind == SC_SEND_RECV && p->span->n_nodes == 1 ? 2 : p->span->max_ranks_per_node;

	p->link_share =
		p->kind == SC_SEND_RECV ? sc_ring_link_share(f, 2) : sc_ring_link_share(f, local);
	p->pcie = sc_is_over_pcie(f, p->span->max_ranks_per_node);
	if (p->pcie)
		p->link_share = 1;
	p->link_gbps = p->pcie ? pcie_gbps(f, local) * f->ramp.pcie_eff
			       : f->link_gbps * f->link.eff * p->link_share;
	if (!p->pcie && sc_collective_is_direct(p->kind))
		p->link_gbps *= f->link.p2p_eff;
	p->nics = p->span->n_nodes > 1 ? sc_collective_driven_nics(f, p->kind, p->span) : 0;
	sc_nccl_graph_from(f, p->kind, p->span, &p->graph);
}

static double net_gbps(const struct sc_collective_problem *p, double eff)
{
	return p->nics * p->f->nic_gbps * p->f->net.eff * eff;
}

/* The value rises by `x` while that is small, to `most`. */
static double saturated(double x, double most)
{
	return x > 0 && most > 0 ? x * most / (x + most) : 0;
}

/* The value rises likewise, but is near the smaller of both where they differ: of two protocols the
 * faster is taken. */
static double least(double x, double most)
{
	return x > 0 && most > 0 ? x * most / hypot(x, most) : 0;
}

bool sc_span_is_oversubscribed(const struct sc_fabric *f, const struct sc_span *span)
{
	const struct sc_net_tier *tiers = f->tiers.at;

	for (size_t i = 0; i < f->tiers.n; i++)
		if (tiers[i].oversubscription > 1 && (double)span->n_nodes * f->gpus_per_node >
							     (double)tiers[i].nodes * f->host_gpus)
			return true;
	return false;
}

/* The slowdown of the network over oversubscribed uplinks. Nodes of the span are neighbours, so a
 * switch's uplinks carry what one node sends of rings and trees, and of an all-to-all the part of
 * all its nodes that goes elsewhere. */
double sc_collective_tier_slowdown(const struct sc_collective_problem *p)
{
	const struct sc_net_tier *tiers = p->f->tiers.at;
	double nodes = p->span->n_nodes, over = 1, slowdown = 1;

	for (size_t i = 0; i < p->f->tiers.n; i++) {
		double below = (double)tiers[i].nodes * p->f->host_gpus / p->f->gpus_per_node;

		below = fmax(below, 1);
		over *= tiers[i].oversubscription;
		if (nodes > below)
			slowdown = fmax(slowdown, p->kind == SC_ALL_TO_ALL
							  ? over * (nodes - below) / (nodes - 1)
							  : over / below);
	}
	return slowdown;
}

/* Channels between nodes at run time: two for each that the search found; on Hopper and later twice
 * as many where they are few, and fast (src/graph/connect.cc: bwIntra > 45.0 && nChannels < 16). */
double sc_collective_net_channels(const struct sc_collective_problem *p)
{
	double channels = 2.0 * fmin(p->graph.channels, MOST_FOUND);

	return p->f->sm_arch >= 90 && channels < FEW_CHANNELS &&
			       p->graph.channel_gbps > FAST_CHANNEL_GBPS
		       ? 2 * channels
		       : channels;
}

/* The time until a tree's last chunk has gone all hops: each waits for one of every channel. */
static double fill_us(const struct sc_collective_problem *p, const struct sc_collective_parts *t)
{
	const struct sc_fabric *f = p->f;
	double channels, bytes, us;

	if (!(t->chunk_bytes > 0) || p->nics == 0)
		return 0;
	channels = sc_collective_net_channels(p);
	bytes = saturated(p->bytes, channels * t->chunk_bytes);
	us = t->net_hops * sc_bytes_us(bytes, net_gbps(p, 1));
	if (t->hops > 0)
		us += t->hops * sc_bytes_us(bytes, fmin(channels * f->link.search.channel_gbps,
							p->link_gbps));
	return us;
}

/* The time by which the low-latency protocol takes longer for the bytes than the other. */
static double slow_us(const struct sc_collective_problem *p, const struct sc_collective_parts *t,
		      enum sc_algo algo)
{
	double slope = algo == SC_ALGO_NVLS ? p->f->ramp.nvls_slope
					    : sc_nccl_ll_over_simple(&p->graph, algo);

	return (slope - 1) * t->work_us;
}

static void finish(const struct sc_collective_problem *p, struct sc_collective_parts *t,
		   enum sc_algo algo)
{
	const struct sc_fabric *f = p->f;
	bool slow = p->span->n_nodes > 1 && !f->amd && f->sm_arch < f->net.simple_below;
	double hop_us = algo < SC_ALGO_DIRECT
				? sc_nccl_hop_us(f->amd, algo, SC_PROTO_SIMPLE,
						 p->pcie ? SC_HOP_PCIE : SC_HOP_NVLINK)
				: 0;
	double hops_us = t->hops * fmax(0, hop_us - f->link.hop_us);
	double net_hop_us = t->net_hop_frac * f->net.simple_us;

	t->net_us *= sc_collective_tier_slowdown(p);
	t->work_us = fmax(t->link_us, t->net_us);
	t->latency_us += f->link.latency_us;
	t->simple_us += p->span->n_nodes > 1 ? 0 : f->link.simple_us;
	if (slow)
		t->latency_us += hops_us;
	else
		t->simple_us += hops_us;
	if (!slow && t->net_hops > 0)
		net_hop_us =
			saturated(f->ramp.net_slope * sc_bytes_us(t->net_hop_bytes, net_gbps(p, 1)),
				  net_hop_us);
	t->total_us = t->latency_us + t->work_us + t->net_hops * net_hop_us + fill_us(p, t) +
		      least(slow_us(p, t, algo), t->simple_us);
}

/* Each port sends steps * S/n bytes, and the last chunk is copied with nothing beside it. */
static void ring(const struct sc_collective_problem *p, struct sc_collective_parts *t)
{
	const struct sc_fabric *f = p->f;
	int n = p->span->n_ranks, nodes = p->span->n_nodes, steps = sc_ring_steps(p->kind, n);
	int inter = nodes < 2 ? 0 : (p->kind == SC_ALL_REDUCE ? 2 : 1) * (nodes - 1);
	int intra = (sc_collective_is_chain(p->kind) ? n - 1 : steps) - inter;
	double chunk = p->bytes / n;

	*t = (struct sc_collective_parts){
		.latency_us = intra * f->link.hop_us,
		.simple_us = sc_nccl_simple_base_us(f->amd, SC_ALGO_RING),
		.hops = intra,
		.net_hops = inter,
		.net_hop_frac = f->ramp.ring_net_frac,
		.net_hop_bytes = chunk,
		.link_us = sc_bytes_us(chunk, f->link.copy_gbps),
		.hbm_bytes = steps * chunk *
			     (p->kind == SC_ALL_REDUCE || p->kind == SC_REDUCE_SCATTER ||
					      p->kind == SC_REDUCE
				      ? HBM_PER_BYTE_REDUCE
				      : HBM_PER_BYTE_MOVE),
	};
	if (p->span->max_ranks_per_node > 1) {
		t->link_bytes = steps * chunk;
		t->link_us += sc_bytes_us(t->link_bytes, p->link_gbps);
	}
	if (nodes > 1) {
		t->net_bytes = steps * chunk;
		t->net_us = sc_bytes_us(t->net_bytes, net_gbps(p, 1));
		t->latency_us +=
			inter * (sc_nccl_hop_us(false, SC_ALGO_RING, SC_PROTO_LL, SC_HOP_NET) +
				 f->ramp.ring_net_frac * f->net.latency_us);
	}
}

/* Between nodes there is a double binary tree: each node is a leaf in one half and has two children
 * in the other, except that two and three nodes are too few for that. */
static void tree_of_nodes(const struct sc_collective_problem *p, struct sc_collective_parts *t)
{
	const int nodes = p->span->n_nodes;

	if (nodes < 2)
		return;
	t->net_hops = 2.0 * sc_floor_log2(nodes);
	t->net_hop_frac = 1;
	t->net_hop_bytes = p->bytes;
	t->latency_us +=
		t->net_hops * (sc_nccl_hop_us(false, SC_ALGO_TREE, SC_PROTO_LL, SC_HOP_NET) +
			       p->f->net.latency_us);
	t->net_bytes = nodes == 2 ? p->bytes : nodes == 3 ? 1.5 * p->bytes : 2 * p->bytes;
	t->net_us = sc_bytes_us(t->net_bytes, net_gbps(p, nodes > 2 ? p->f->net.tree_eff : 1));
}

static void tree(const struct sc_collective_problem *p, struct sc_collective_parts *t)
{
	const double hops = 2.0 * (p->span->max_ranks_per_node - 1);

	*t = (struct sc_collective_parts){
		.latency_us = hops * p->f->link.hop_us,
		.simple_us = sc_nccl_simple_base_us(p->f->amd, SC_ALGO_TREE),
		.hops = hops,
		.chunk_bytes = CHUNK_BYTES,
		.hbm_bytes = 2 * p->bytes * HBM_PER_BYTE_REDUCE,
	};
	if (p->span->max_ranks_per_node > 1) {
		t->link_bytes = 2 * p->bytes;
		t->link_us = sc_bytes_us(t->link_bytes, p->link_gbps);
	}
	tree_of_nodes(p, t);
}

/* Most sweeps of older GPUs are of machines before NCCL had PAT (2.23). */
enum { PAT_FROM_ARCH = 90 };

static bool nvls_possible(const struct sc_collective_problem *p)
{
	return p->f->link.nvls_eff > 0 && p->kind == SC_ALL_REDUCE && !p->pcie &&
	       p->f->topology == SC_LINK_SWITCH && p->span->max_ranks_per_node >= SC_NVLS_MIN_RANKS;
}

double sc_nvls_gbps(const struct sc_fabric *f, int ranks)
{
	return f->link_gbps * f->link.nvls_eff / (1 + 1.0 / ranks);
}

/* The switch adds: each port carries every byte once, and the sum of its own part. Between nodes a
 * tree has one head per NIC. */
static void nvls(const struct sc_collective_problem *p, struct sc_collective_parts *t)
{
	*t = (struct sc_collective_parts){
		.latency_us = p->f->ramp.nvls_latency_us,
		.simple_us = p->f->ramp.nvls_simple_us,
		.chunk_bytes = NVLS_CHUNK_BYTES,
		.link_bytes = p->bytes * (1 + 1.0 / p->span->max_ranks_per_node),
		.hbm_bytes = p->bytes * HBM_PER_BYTE_MOVE,
	};
	t->link_us = sc_bytes_us(p->bytes, sc_nvls_gbps(p->f, p->span->max_ranks_per_node));
	tree_of_nodes(p, t);
}

/* Every node sends its data once, and the switches give back the sum; a rank has its share over the
 * links before and after. The latency is NCCL's CollNetDirect's; small messages go by a tree. */
static void sharp(const struct sc_collective_problem *p, struct sc_collective_parts *t)
{
	const struct sc_fabric *f = p->f;
	double local = p->span->max_ranks_per_node, part = (local - 1) / local;

	tree(p, t);
	t->chunk_bytes = 0;
	t->link_bytes = 2 * p->bytes * part;
	t->link_us = p->span->max_ranks_per_node > 1 ? sc_bytes_us(t->link_bytes, p->link_gbps) : 0;
	t->net_bytes = p->bytes;
	t->net_us = sc_bytes_us(t->net_bytes, net_gbps(p, f->net.sharp_eff));
	t->hbm_bytes = t->link_bytes * HBM_PER_BYTE_REDUCE;
}

static bool pat_possible(const struct sc_collective_problem *p)
{
	return (p->kind == SC_ALL_GATHER || p->kind == SC_REDUCE_SCATTER) && p->span->n_nodes > 1 &&
	       p->span->n_nodes == p->span->n_ranks && !p->f->amd && p->f->sm_arch >= PAT_FROM_ARCH;
}

/* The latency is NCCL's: some of the tree's steps show, each rank's part takes time (tuning.cc). */
static void pat(const struct sc_collective_problem *p, struct sc_collective_parts *t)
{
	const struct sc_fabric *f = p->f;
	int n = p->span->n_ranks;
	double net_us =
		sc_nccl_hop_us(false, SC_ALGO_PAT, SC_PROTO_SIMPLE, SC_HOP_NET) + f->net.latency_us;

	*t = (struct sc_collective_parts){
		.latency_us = sc_nccl_simple_base_us(false, SC_ALGO_PAT) +
			      sc_floor_log2(n) * net_us / SC_PAT_STEPS_SEEN + SC_PAT_RANK_US * n,
		.net_bytes = p->bytes * (n - 1) / n,
		.hbm_bytes = p->bytes * (p->kind == SC_REDUCE_SCATTER ? HBM_PER_BYTE_REDUCE
								      : HBM_PER_BYTE_MOVE),
	};
	t->net_us = sc_bytes_us(t->net_bytes, net_gbps(p, SC_PAT_EFF));
}

/* The time of bytes to peers in the node that go through its host: over PCIe all but those of a
 * pair, which shares a root; without a switch those to peers that a GPU has no link to. */
static double host_path_us(const struct sc_collective_problem *p, double to_peer)
{
	double n = p->span->max_ranks_per_node - 1;

	if (!p->pcie)
		n = p->f->topology == SC_LINK_WIRED ? fmax(0, n - p->f->wiring.neighbours) : 0;
	else if (n < 2)
		n = 0;
	if (!(p->f->ramp.host_path_gbps > 0))
		return 0;
	return sc_bytes_us(n * to_peer, p->f->ramp.host_path_gbps);
}

/* The time of an all-to-all out of a node with so many ranks. */
static double exchange_us(const struct sc_collective_problem *p, double ranks, double to_peer)
{
	double bytes = ranks * (p->span->n_ranks - ranks) * to_peer;

	return sc_bytes_us(bytes, nics_of(p->f, (int)ranks) * p->f->nic_gbps * p->f->net.eff *
					  p->f->net.a2a_eff);
}

double sc_collective_fill_us(const struct sc_fabric *f, double bytes, double gbps)
{
	return saturated(sc_bytes_us(bytes, gbps), f->ramp.peer_fill_us);
}

/* Each rank sends to all peers; or one rank gives or takes all parts, over its port and NICs. */
static void exchange(const struct sc_collective_problem *p, struct sc_collective_parts *t)
{
	const struct sc_fabric *f = p->f;
	const bool has_root = p->kind != SC_ALL_TO_ALL;
	double n = p->span->n_ranks, local = p->span->max_ranks_per_node;
	double to_peer = p->bytes / n;

	*t = (struct sc_collective_parts){
		.latency_us = f->ramp.p2p_latency_us + (local - 1) * f->ramp.local_peer_us +
			      (n - local) * f->ramp.peer_us,
		.link_us = has_root ? 0 : sc_bytes_us(to_peer, f->link.copy_gbps),
		.hbm_bytes = (n - 1) * to_peer * (has_root ? 1 : HBM_PER_BYTE_MOVE),
	};
	if (local > 1) {
		t->link_bytes = (local - 1) * to_peer;
		t->link_us += sc_bytes_us(t->link_bytes, p->link_gbps);
		t->link_us = fmax(t->link_us, host_path_us(p, to_peer));
	}
	if (p->span->n_nodes > 1) {
		t->net_bytes = (has_root ? 1 : local) * (n - local) * to_peer;
		t->net_us = has_root ? sc_bytes_us(t->net_bytes, net_gbps(p, f->net.p2p_eff))
				     : fmax(exchange_us(p, local, to_peer),
					    exchange_us(p, fewest_ranks(p->span), to_peer));
		t->latency_us += f->net.latency_us;
		if (!has_root)
			t->latency_us += (n - local) *
					 sc_collective_fill_us(f, to_peer, net_gbps(p, 1) / local);
		t->net_hop_bytes = to_peer;
	}
}

/* NCCL starts to one peer over links with its share of 32 channels, if it were to send to all
 * ranks, and doubles them while a channel has more than 32 steps of its buffer (src/enqueue.cc,
 * addP2pToPlan): so long the time stands still. */
static double send_channels_us(const struct sc_collective_problem *p)
{
	const double gbps = p->f->ramp.p2p_channel_gbps;
	double channels = P2P_CHANNELS;

	if (!(gbps > 0) || p->pcie || p->f->amd)
		return 0;
	while (channels * p->span->n_ranks > P2P_CHANNELS && channels > 1)
		channels /= 2;
	return sc_bytes_us(fmin(p->bytes / channels, P2P_STEPS * CHUNK_BYTES), gbps);
}

static void send_recv(const struct sc_collective_problem *p, struct sc_collective_parts *t)
{
	const struct sc_fabric *f = p->f;

	*t = (struct sc_collective_parts){
		.latency_us = f->ramp.p2p_latency_us,
		.hbm_bytes = p->bytes, /* a side reads or writes */
	};
	if (p->span->n_nodes > 1) {
		t->net_bytes = p->bytes;
		t->net_us = sc_bytes_us(p->bytes, net_gbps(p, f->net.p2p_eff));
		t->latency_us += sc_nccl_hop_us(false, SC_ALGO_RING, SC_PROTO_LL, SC_HOP_NET) +
				 f->net.latency_us;
		t->net_hop_bytes = p->bytes;
	} else {
		t->link_bytes = p->bytes;
		t->link_us = fmax(sc_bytes_us(p->bytes, p->link_gbps), send_channels_us(p));
	}
}

typedef void (*timer)(const struct sc_collective_problem *p, struct sc_collective_parts *t);
static const timer TIMERS[SC_N_ALGOS] = {[SC_ALGO_RING] = ring,
					 [SC_ALGO_TREE] = tree,
					 [SC_ALGO_NVLS] = nvls,
					 [SC_ALGO_PAT] = pat,
					 [SC_ALGO_SHARP] = sharp};

enum { AMPERE = 80 }; /* CUDA capability */

/* Between two nodes a tree sends half of what a ring does. NCCL's own model does not know that:
 * where the search gives both the same channels it takes the ring for large messages. Runs on V100
 * show it (DLPerf: 1.06 GB of gradients take 183 ms over one NIC of 100 Gbit/s, 1.875 times the
 * bytes at its rate; 203 ms on four nodes), sweeps from Ampere on show trees. */
static bool takes_ring(const struct sc_collective_problem *p)
{
	struct sc_collective_choice choice;

	if (p->f->amd || p->f->sm_arch >= AMPERE || p->span->n_nodes < 2)
		return false;
	return sc_nccl_choose(&p->graph, p->bytes, SC_N_ALGOS, &choice) &&
	       choice.algo == SC_ALGO_RING;
}

/* Switches that add are one way more: NCCL takes of all the one that its tuning holds for the
 * fastest, size by size. */
static bool is_possible(const struct sc_collective_problem *p, enum sc_algo algo)
{
	if (p->asked)
		return (int)algo + 1 == p->asked;
	if (algo == SC_ALGO_RING)
		return true;
	if (algo == SC_ALGO_SHARP)
		return p->f->sharp && p->span->n_nodes > 1 && p->kind == SC_ALL_REDUCE;
	if (algo == SC_ALGO_PAT)
		return pat_possible(p);
	if (algo == SC_ALGO_TREE && takes_ring(p))
		return false;
	return p->kind == SC_ALL_REDUCE && (algo == SC_ALGO_TREE || nvls_possible(p));
}

enum sc_algo sc_collective_fastest(const struct sc_collective_problem *p,
				   struct sc_collective_parts *best)
{
	enum sc_algo algo = SC_ALGO_DIRECT;

	if (sc_collective_is_direct(p->kind)) {
		(p->kind == SC_SEND_RECV ? send_recv : exchange)(p, best);
		best->net_hops = best->net_hop_frac = p->span->n_nodes > 1;
		finish(p, best, SC_ALGO_RING);
		return algo;
	}
	for (int a = 0; a < SC_N_ALGOS; a++) {
		struct sc_collective_parts t;

		if (!TIMERS[a] || !is_possible(p, (enum sc_algo)a))
			continue;
		TIMERS[a](p, &t);
		finish(p, &t, (enum sc_algo)a);
		if (algo != SC_ALGO_DIRECT && !(t.total_us < best->total_us))
			continue;
		*best = t;
		algo = (enum sc_algo)a;
	}
	return algo;
}
