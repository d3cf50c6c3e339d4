/* NCCL's own cost model: latency + bytes / bandwidth for each algorithm and protocol, by which it
 * chooses. The tables are NCCL's published constants, not coefficients of ours: NVIDIA/nccl 2.30.7
 * (5067397c) src/graph/tuning.cc and src/graph/search.cc. It chooses well, but its times are too
 * short for large messages: collective_times.c has the times. */
#include <math.h>

#include "base/units.h"
#include "models/collective/collective_priv.h"

enum { VOLTA, AMPERE, HOPPER, BLACKWELL, N_GENERATIONS };
enum { ONE_NODE, TWO_NODES, MORE_NODES, N_SCALES };

/* Microseconds, by algorithm (ring, tree, NVLS, PAT) and protocol (LL, LL128, Simple). */
typedef double by_protocol[SC_ALGO_DIRECT][SC_N_PROTOS];
static const by_protocol BASE_US = {{6.6, 14.0, 8.4}, {6.8, 14.0, 8.4}, {0, 0, 0}, {8.0, 8.0, 8.0}};
static const by_protocol HOP_US[SC_N_HOPS] = {
	{{0.6, 1.9, 3.4}, {0.6, 1.25, 4.0}, {0, 0, 25.0}, {0, 0, 4.0}},
	{{1.0, 2.5, 5.7}, {1.0, 1.9, 4.0}, {0, 0, 0}, {0, 0, 4.0}},
	{{2.7, 4.0, 14.0}, {5.0, 8.5, 14.0}, {0, 0, 18.0}, {0, 0, 14.0}},
};
/* RCCL has these for GPUs that are all joined by xGMI (ROCm/rccl src/graph/tuning.cc, tuning model
 * 5); instead of caps it has shares of the ring's rate, up to two nodes and beyond. It does not
 * take LL128 unasked there. */
static const by_protocol RCCL_BASE_US = {{12, 12, 17}, {12, 12, 17}};
static const by_protocol RCCL_HOP_US[SC_N_HOPS] = {
	{{0.8, 0.8, 2.1}, {0.9, 0.9, 2.3}},
	{{2.2, 2.2, 5.7}, {2.2, 2.2, 5.7}},
	{{9.5, 9.5, 320}, {10.5, 10.5, 25}},
};
static const by_protocol RCCL_SHARE[2] = {{{0.08, 0, 1}, {0.06, 0, 0.11}},
					  {{0.08, 0, 1}, {0.06, 0, 0.59}}};
/* RCCL corrects ring and tree, LL and Simple; entry i is for 64 B * 2^i. */
enum { N_RCCL_CORR = 27 };
static const double RCCL_RING_CORR[2][N_RCCL_CORR] = {
	{.1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, 1,  .2, 1,
	 .4, .4, .1, .2, .2, .1, .1, .1, .1, .1, .1, .1, .1},
	{.1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1,
	 .1, .1, .1, .1, .1, .1, .1, .1, 1,  .8, 1,  1,  1},
};
static const double RCCL_TREE_CORR[2][N_RCCL_CORR] = {
	{.1, .1, .1, .1, .1, .1, 1,  1,  1,  1,  1,  .6, 1, .9,
	 1,  1,  .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1},
	{.1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1,
	 .1, .7, 1,  1,  1,  1,  1,  .7, .7, .5, .6, .6, .6},
};

/* The caps are GB/s, by GPU generation and number of nodes. */
static const double LL_MAX[N_GENERATIONS][N_SCALES] = {
	{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}};
static const double RING_LL128[N_GENERATIONS][N_SCALES] = {
	{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}};
static const double TREE_LL128[N_GENERATIONS][N_SCALES] = {
	{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}};
static const double TREE_MAX[N_GENERATIONS][N_SCALES] = {
	{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}};
/* The correction of the tree's bandwidth; entry i is for 64 B * 2^i. NCCL's last is never read. */
enum { N_TREE_CORR = 23 };
static const double TREE_CORR[SC_N_PROTOS][N_TREE_CORR] = {
	{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
	{1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
	{.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
	 .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
};

static int generation(int sm_arch)
{
	if (sm_arch >= 100)
		return BLACKWELL;
	if (sm_arch >= 90)
		return HOPPER;
	return sm_arch >= 80 ? AMPERE : VOLTA;
}

static int scale(int n_nodes)
{
	return n_nodes <= 1 ? ONE_NODE : n_nodes == 2 ? TWO_NODES : MORE_NODES;
}

int sc_floor_log2(int n)
{
	int log = 0;

	while (n > 1) {
		n >>= 1;
		log++;
	}
	return log;
}

double sc_nccl_hop_us(bool rccl, enum sc_algo algo, enum sc_proto proto, enum sc_hop hop)
{
	return (rccl ? RCCL_HOP_US : HOP_US)[hop][algo][proto];
}

double sc_nccl_simple_base_us(bool rccl, enum sc_algo algo)
{
	const by_protocol *base = rccl ? &RCCL_BASE_US : &BASE_US;

	return (*base)[algo][SC_PROTO_SIMPLE] - (*base)[SC_ALGO_RING][SC_PROTO_LL];
}

int sc_ring_steps(enum sc_collective kind, int n_ranks)
{
	if (kind == SC_ALL_REDUCE)
		return 2 * (n_ranks - 1);
	return sc_collective_is_chain(kind) ? n_ranks : n_ranks - 1;
}

/* The row of LL_MAX: between nodes it is the CPU's, as LL polls through host memory. */
static int ll_row(const struct sc_nccl_graph *g)
{
	if (g->n_nodes <= 1)
		return generation(g->sm_arch);
	return g->amd_cpu ? AMPERE : VOLTA;
}

static double base_us(const struct sc_nccl_graph *g, enum sc_algo algo, enum sc_proto proto)
{
	return g->rccl ? RCCL_BASE_US[algo][proto] : BASE_US[algo][proto];
}

static double intra_hop(const struct sc_nccl_graph *g, enum sc_algo algo, enum sc_proto proto)
{
	return sc_nccl_hop_us(g->rccl, algo, proto, g->pcie ? SC_HOP_PCIE : SC_HOP_NVLINK);
}

/* Simple has the NIC twice: a flush follows the data. With a rank a node the tree's row holds. */
static double inter_hop(const struct sc_nccl_graph *g, enum sc_algo algo, enum sc_proto proto)
{
	enum sc_algo row = g->n_ranks == g->n_nodes && algo == SC_ALGO_RING ? SC_ALGO_TREE : algo;

	return sc_nccl_hop_us(g->rccl, row, proto, SC_HOP_NET) +
	       (proto == SC_PROTO_SIMPLE ? 2 : 1) * g->nic_latency_us;
}

static double ring_latency(const struct sc_nccl_graph *g, enum sc_proto proto)
{
	int steps = sc_ring_steps(g->kind, g->n_ranks), inter = 0;
	double overhead = 0, intra = intra_hop(g, SC_ALGO_RING, proto);

	if (g->n_nodes > 1) {
		inter = g->kind == SC_ALL_REDUCE ? 2 * (g->n_nodes - 1) : g->n_nodes - 1;
		overhead = (g->amd_cpu ? 2.0 : 1.0) * (proto == SC_PROTO_SIMPLE ? 3 : 1);
	}
	if (sc_collective_is_chain(g->kind)) /* pipelined: one hop, when all channels are alike */
		return base_us(g, SC_ALGO_RING, proto) +
		       (inter ? inter_hop(g, SC_ALGO_RING, proto) : intra);
	return base_us(g, SC_ALGO_RING, proto) + (steps - inter) * fmax(intra, overhead) +
	       inter * inter_hop(g, SC_ALGO_RING, proto);
}

double sc_nccl_ll_over_simple(const struct sc_nccl_graph *g, enum sc_algo algo)
{
	bool tree = algo == SC_ALGO_TREE;
	double bus = g->channels * g->channel_gbps;

	if (g->rccl)
		return 1 / RCCL_SHARE[g->n_nodes > 2][tree][SC_PROTO_LL];
	return fmax(tree ? 3.8 : 2, bus / LL_MAX[ll_row(g)][scale(g->n_nodes)]);
}

static void tune_ring(const struct sc_nccl_graph *g, struct sc_nccl_model *out)
{
	int gen = generation(g->sm_arch), sc = scale(g->n_nodes);
	int cpu_gen = ll_row(g);
	double ll_max = LL_MAX[cpu_gen][sc];
	double c = g->channels, bus = c * g->channel_gbps;
	double to_alg = (double)g->n_ranks / sc_ring_steps(g->kind, g->n_ranks);
	double *bw = out->algbw_gbps[SC_ALGO_RING];

	bw[SC_PROTO_LL] = fmin(ll_max, bus / 2) * to_alg;
	bw[SC_PROTO_LL128] = g->pcie ? 0 : fmin(0.92 * bus, c * RING_LL128[gen][sc]) * to_alg;
	bw[SC_PROTO_SIMPLE] = bus * to_alg;
	for (int p = 0; p < SC_N_PROTOS; p++) {
		out->latency_us[SC_ALGO_RING][p] = ring_latency(g, (enum sc_proto)p);
		if (g->rccl)
			bw[p] = bus * RCCL_SHARE[g->n_nodes > 2][SC_ALGO_RING][p] * to_alg;
	}
}

static void tune_tree(const struct sc_nccl_graph *g, struct sc_nccl_model *out)
{
	int gen = generation(g->sm_arch), sc = scale(g->n_nodes);
	int cpu_gen = ll_row(g);
	double c = g->channels, ring_bus = c * g->channel_gbps;
	double bus = fmin(0.92 * ring_bus, c * TREE_MAX[gen][sc]);
	double ll128 =
		fmin(bus * (sc == ONE_NODE ? 7.0 / 9 : 120.0 / 128), c * TREE_LL128[gen][sc]);
	double *bw = out->algbw_gbps[SC_ALGO_TREE];
	double hops = (double)g->n_ranks / g->n_nodes - 1, levels = sc_floor_log2(g->n_nodes);

	if (g->kind != SC_ALL_REDUCE)
		return;
	bw[SC_PROTO_LL] = 0.5 * fmin(bus / 3.8, LL_MAX[cpu_gen][sc]);
	bw[SC_PROTO_LL128] = g->pcie ? 0 : 0.5 * ll128;
	bw[SC_PROTO_SIMPLE] = 0.5 * bus;
	for (int i = 0; i < SC_N_PROTOS; i++) {
		enum sc_proto p = (enum sc_proto)i;

		out->latency_us[SC_ALGO_TREE][p] =
			base_us(g, SC_ALGO_TREE, p) + 2 * (hops * intra_hop(g, SC_ALGO_TREE, p) +
							   levels * inter_hop(g, SC_ALGO_TREE, p));
		if (g->rccl)
			bw[p] = 0.5 * ring_bus * RCCL_SHARE[g->n_nodes > 2][SC_ALGO_TREE][p];
	}
	if (g->rccl && g->n_nodes == 1) /* not taken by GPUs that are all on one node */
		bw[SC_PROTO_SIMPLE] = 0;
}

void sc_nccl_tune(const struct sc_nccl_graph *graph, struct sc_nccl_model *out)
{
	*out = (struct sc_nccl_model){0};
	if (graph->n_ranks < 2 || sc_collective_is_direct(graph->kind))
		return;
	tune_ring(graph, out);
	tune_tree(graph, out);
}

static double correction(const struct sc_nccl_graph *g, const struct sc_collective_choice *choice,
			 double bytes)
{
	bool simple = choice->proto == SC_PROTO_SIMPLE, tree = choice->algo == SC_ALGO_TREE;
	int exponent;

	if (bytes < 64 || (!tree && (!g->rccl || choice->algo != SC_ALGO_RING)))
		return 1;
	frexp(bytes / 64, &exponent); /* floor(log2) + 1 */
	if (exponent > (g->rccl ? N_RCCL_CORR : N_TREE_CORR))
		return 1;
	if (g->rccl)
		return tree ? RCCL_TREE_CORR[simple][exponent - 1]
			    : RCCL_RING_CORR[simple][exponent - 1];
	return TREE_CORR[choice->proto][exponent - 1];
}

double sc_nccl_time_us(const struct sc_nccl_graph *graph, const struct sc_nccl_model *model,
		       const struct sc_collective_choice *choice, double bytes)
{
	double latency = model->latency_us[choice->algo][choice->proto];
	double bw = model->algbw_gbps[choice->algo][choice->proto];

	if (bw <= 0)
		return HUGE_VAL;
	bw *= correction(graph, choice, bytes);
	if (!graph->rccl && choice->algo == SC_ALGO_RING && choice->proto == SC_PROTO_SIMPLE &&
	    graph->kind == SC_ALL_REDUCE && graph->n_nodes > 1 &&
	    bytes >= 64.0 * graph->channels * graph->n_ranks)
		latency *= graph->sm_arch < 80 ? 1.9 : 1.4;
	return latency + sc_bytes_us(bytes, bw);
}

bool sc_nccl_choose(const struct sc_nccl_graph *graph, double bytes, enum sc_algo only,
		    struct sc_collective_choice *out)
{
	struct sc_nccl_model model;
	double best = HUGE_VAL;

	sc_nccl_tune(graph, &model);
	for (int a = 0; a < SC_ALGO_DIRECT; a++) {
		if (only != SC_N_ALGOS && a != (int)only)
			continue;
		for (int p = 0; p < SC_N_PROTOS; p++) {
			struct sc_collective_choice c = {.algo = (enum sc_algo)a,
							 .proto = (enum sc_proto)p};
			double us = sc_nccl_time_us(graph, &model, &c, bytes);

			if (us >= best)
				continue;
			best = us;
			out->algo = c.algo;
			out->proto = c.proto;
			out->algbw_gbps = model.algbw_gbps[a][p];
		}
	}
	return best < HUGE_VAL;
}

static const double SEARCH_NIC_SHARE = 0.96; /* 24 of 25, 48 of 50 GB/s: the next step below */

void sc_nccl_graph_from(const struct sc_fabric *fabric, enum sc_collective kind,
			const struct sc_span *span, struct sc_nccl_graph *out)
{
	int nics;
	double share = sc_ring_link_share(fabric, span->max_ranks_per_node);
	bool pcie = sc_is_over_pcie(fabric, span->max_ranks_per_node);
	double port = pcie ? 0.75 * fabric->pcie_gbps : fabric->link.search.port_gbps * share;
	double channel = pcie ? port : fabric->link.search.channel_gbps;

	*out = (struct sc_nccl_graph){
		.kind = kind,
		.n_ranks = span->n_ranks,
		.n_nodes = span->n_nodes,
		.sm_arch = fabric->sm_arch,
		.pcie = pcie,
		.rccl = fabric->amd,
		.nic_latency_us = fabric->net.latency_us,
		.channels = (int)fmax(1, floor(port / channel)),
		.channel_gbps = channel,
	};
	if (span->n_nodes < 2)
		return;
	nics = sc_span_nics(fabric, span);
	channel = fmin(fabric->link.search.max_net_gbps, SEARCH_NIC_SHARE * fabric->nic_gbps);
	out->channels = (int)fmax(1, fmin(nics, 32));
	if (span->max_ranks_per_node > 1) { /* more than the port feeds are not searched for */
		out->channels = (int)fmin(out->channels, ceil(port / channel));
		channel = fmin(channel, port / out->channels);
	}
	out->channel_gbps = channel;
}

/* ---- kernels over symmetric memory ---- */

/* The constants are those of queryModel (src/sym_kernels.cc): blocks of 512 threads, up to 64;
 * rates of one block in 2^30 bytes/s. */
enum { SYMMETRIC_MOST_BLOCKS = 64, SYMMETRIC_MULTICAST_BLOCKS = 16 };
static const double SYMMETRIC_LL_BYTES = 9; /* flags, and parts that are not unrolled */
static const double SYMMETRIC_MULTICAST = 0.55;
static const double SYMMETRIC_NEAR = 1.025; /* fewer blocks are taken within it */

struct symmetric_kernel {
	enum sc_proto proto;
	bool multicast; /* the switch adds, or gives to all */
	double latency_us, bus_bytes, peak_gbps;
};

static double symmetric_base_us(int sm_arch, enum sc_collective kind, enum sc_proto proto)
{
	bool ll = proto == SC_PROTO_LL;

	if (sm_arch < 100)
		return ll ? 4.5 : 7.8;
	if (ll)
		return kind == SC_ALL_GATHER ? 8.5 : 11;
	return kind == SC_ALL_REDUCE ? 19.5 : 13;
}

static double symmetric_block_gbps(int sm_arch, enum sc_collective kind)
{
	double gib = sm_arch >= 100 ? 55 : kind == SC_ALL_REDUCE ? 65 : 44;

	return gib * SC_BYTES_PER_GIB / SC_BYTES_PER_GB;
}

static double softmin(double x, double ceiling, double softness)
{
	return ceiling - softness * log1p((exp(ceiling / softness) - 1) * exp(-x / softness));
}

static double softplus(double x)
{
	return x > 100 ? x : log1p(exp(x));
}

static double symmetric_us(const struct symmetric_kernel *k, double blocks_gbps, double block_gbps)
{
	double gbps = softmin(blocks_gbps, k->peak_gbps, block_gbps);

	return k->latency_us + softplus(sc_bytes_us(k->bus_bytes, gbps) - 1);
}

/* The kernel takes as long as with all its blocks, on the fewest that are nearly as fast. */
static void time_symmetric(int sm_arch, enum sc_collective kind, int n,
			   const struct symmetric_kernel *k, struct sc_nccl_symmetric *out)
{
	double block = symmetric_block_gbps(sm_arch, kind), each = block, us;
	int most = SYMMETRIC_MOST_BLOCKS, blocks = 1;

	if (k->multicast) {
		each *= kind == SC_ALL_REDUCE ? n : SYMMETRIC_MULTICAST * n;
		most = (SYMMETRIC_MULTICAST_BLOCKS * (sm_arch < 100 ? 1 : 2) + n - 1) / n;
	}
	us = symmetric_us(k, most * each, block);
	if (out->blocks && us >= out->total_us)
		return;
	while (blocks < most && symmetric_us(k, blocks * each, block) > SYMMETRIC_NEAR * us)
		blocks++;
	*out = (struct sc_nccl_symmetric){.latency_us = k->latency_us,
					  .total_us = us,
					  .bus_bytes = k->bus_bytes,
					  .blocks = blocks,
					  .proto = k->proto};
}

void sc_nccl_symmetric(int sm_arch, const struct sc_collective_shape *shape, int n_ranks,
		       double gbps, double switch_gbps, struct sc_nccl_symmetric *out)
{
	bool reduce = shape->kind == SC_ALL_REDUCE;
	double n = n_ranks, part = (n - 1) / n * shape->bytes;
	struct symmetric_kernel kernels[] = {
		{SC_PROTO_LL, false, 0, SYMMETRIC_LL_BYTES * shape->bytes * (reduce ? n : 1), gbps},
		{SC_PROTO_SIMPLE, false, 0, reduce ? 2 * part : part, gbps},
		{SC_PROTO_SIMPLE, true, 0, reduce ? shape->bytes + shape->bytes / n : part,
		 reduce ? switch_gbps * (1 + 1 / n) : gbps},
	};

	*out = (struct sc_nccl_symmetric){0};
	for (int i = 0; i < (switch_gbps > 0 && n_ranks > 2 ? 3 : 2); i++) {
		kernels[i].latency_us = symmetric_base_us(sm_arch, shape->kind, kernels[i].proto);
		time_symmetric(sm_arch, shape->kind, n_ranks, &kernels[i], out);
	}
}
