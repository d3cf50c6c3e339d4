/* A collective costs its time by a named file, by measured curves or by the formula
 * (collective_times.c), the choice that NCCL would report, and what it loads while it runs. */
#include "models/collective/collective.h"

#include <assert.h>
#include <math.h>

#include "base/units.h"
#include "models/collective/collective_times_priv.h"

const char *const sc_algo_names[] = {[SC_ALGO_RING] = "ring",
				     [SC_ALGO_TREE] = "tree",
				     [SC_ALGO_NVLS] = "nvls",
				     [SC_ALGO_PAT] = "pat",
				     [SC_ALGO_DIRECT] = "direct",
				     [SC_ALGO_SHARP] = "collnet",
				     [SC_ALGO_SYMMETRIC] = "symmetric",
				     [SC_ALGO_COPY] = "copy_engine",
				     [SC_ALGO_HIERARCHICAL] = "hierarchical",
				     [SC_ALGO_FILE] = "file",
				     [SC_N_ALGOS] = NULL};

/* An algorithm that is impossible here is not taken, and the reason is noted. */
static int possible_asked(const struct sc_fabric *f, enum sc_collective kind,
			  const struct sc_span *span)
{
	int asked = f->asked[kind];
	const char *why = asked ? sc_algo_unfit(f, kind, span, (enum sc_algo)(asked - 1)) : NULL;

	if (asked && f->files)
		sc_collective_files_note(f->files, kind, why);
	return why ? 0 : asked;
}

double sc_collective_formula_us(const struct sc_fabric *fabric, enum sc_collective kind,
				double bytes, const struct sc_span *span)
{
	struct sc_collective_problem p = {.f = fabric,
					  .span = span,
					  .kind = kind,
					  .bytes = bytes,
					  .asked = possible_asked(fabric, kind, span)};
	struct sc_collective_parts t;

	sc_collective_set_links(&p);
	sc_collective_fastest(&p, &t);
	return t.total_us;
}

/* Measured times go before the formula; its parts keep their shares. */
static void follow_curves(const struct sc_collective_problem *p, struct sc_collective_parts *t)
{
	double us = sc_collective_curve_us(p->f, p->kind, p->bytes, p->span);

	if (!(us > 0))
		return;
	t->work_us *= us / t->total_us;
	t->total_us = us;
}

/* The bytes for which NCCL gives a channel to one more 32 KiB (ring Simple: 512 threads of 64 B);
 * LL128 5 KiB; ring LL 8 B * n * 512 threads. */
static double channel_bytes(const struct sc_collective_problem *p, enum sc_proto proto)
{
	if (proto == SC_PROTO_SIMPLE)
		return 32 * SC_BYTES_PER_KIB;
	return proto == SC_PROTO_LL128 ? 5 * SC_BYTES_PER_KIB
				       : 4 * SC_BYTES_PER_KIB * p->span->n_ranks;
}

/* The channels at full size, at most 32: twice what the search found, or what is between nodes at
 * run time; 16 or 24 for NVLS; peers over links take 2 each, over the network one per 14 GB/s. */
static double most_channels(const struct sc_collective_problem *p, enum sc_algo algo)
{
	double per_peer = p->span->n_nodes > 1 ? fmax(2, ceil(p->f->nic_gbps / 14)) : 16;

	if (p->f->amd)
		return p->kind == SC_ALL_TO_ALL ? 64 : 32; /* RCCL: CUs at which it saturates */
	if (algo == SC_ALGO_NVLS)
		return p->f->sm_arch >= 100 ? 24 : 16;
	if (p->kind == SC_SEND_RECV)
		return fmin(32, per_peer);
	if (sc_collective_is_direct(p->kind))
		return fmin(32, per_peer * (p->span->n_ranks - 1));
	return p->span->n_nodes > 1 ? sc_collective_net_channels(p)
				    : fmin(32, 2.0 * p->graph.channels);
}

static void choose(const struct sc_collective_problem *p, const struct sc_collective_parts *t,
		   enum sc_algo algo, struct sc_collective_choice *out)
{
	double most = most_channels(p, algo);

	*out = (struct sc_collective_choice){.algo = algo, .proto = SC_PROTO_SIMPLE};
	if (algo == SC_ALGO_DIRECT) /* LL up to 16 KiB a channel */
		out->proto =
			p->bytes <= 16 * SC_BYTES_PER_KIB * most ? SC_PROTO_LL : SC_PROTO_SIMPLE;
	else if (algo != SC_ALGO_NVLS && algo != SC_ALGO_SHARP && algo != SC_ALGO_PAT)
		sc_nccl_choose(&p->graph, p->bytes, algo, out);
	out->channels = (int)fmax(1, fmin(most, floor(p->bytes / channel_bytes(p, out->proto))));
	out->algbw_gbps = p->bytes * sc_bytes_us(1, 1) / t->total_us;
}

static double share(double used_us, double work_us)
{
	double x = work_us > 0 ? used_us / work_us : 0;

	return x > 1 ? 1 : x;
}

/* The ranks that drive NICs of one node together. */
static double node_ranks(enum sc_collective kind, const struct sc_span *span)
{
	return kind == SC_SEND_RECV || sc_collective_has_root(kind) ? 1 : span->max_ranks_per_node;
}

double sc_collective_nic_load(const struct sc_fabric *fabric, enum sc_collective kind,
			      const struct sc_span *span, const struct sc_cost *cost)
{
	double node = cost->demand[SC_RES_NIC] * node_ranks(kind, span) * fabric->nics_per_node;

	return node > 0 ? fmin(1, node / sc_collective_driven_nics(fabric, kind, span)) : 0;
}

static void set_demand(const struct sc_collective_problem *p, const struct sc_collective_parts *t,
		       double channels, struct sc_cost *out)
{
	const struct sc_fabric *f = p->f;
	double port = p->pcie ? f->pcie_gbps * f->ramp.pcie_eff : f->link_gbps * f->link.eff;
	double local = node_ranks(p->kind, p->span);
	double node_gbps = f->nics_per_node * f->nic_gbps * f->net.eff;

	if (port > 0)
		out->demand[p->pcie ? SC_RES_PCIE : SC_RES_LINK] =
			share(sc_bytes_us(t->link_bytes, port), t->work_us);
	if (t->net_bytes > 0 && node_gbps > 0)
		out->demand[SC_RES_NIC] =
			share(sc_bytes_us(t->net_bytes, node_gbps) / local *
				      sc_collective_tier_slowdown(p),
			      t->work_us); /* of the uplinks, where these are slower */
	if (f->hbm_gbps > 0)
		out->demand[SC_RES_HBM] = share(sc_bytes_us(t->hbm_bytes, f->hbm_gbps), t->work_us);
	if (f->sm_count > 0)
		out->demand[SC_RES_SM] = fmin(SC_COLLECTIVE_MOST_SMS, channels / f->sm_count);
	out->holds_sm = 1;
}

/* A named file goes before all. */
static bool follow_file(const struct sc_collective_problem *p,
			const struct sc_collective_shape *shape, struct sc_collective_parts *t,
			struct sc_collective_choice *choice)
{
	struct sc_file_run run;

	if (!p->f->files || !sc_collective_file_run(p->f, shape, p->span, &run))
		return false;
	*t = (struct sc_collective_parts){.total_us = run.total_us,
					  .work_us = run.total_us - run.latency_us,
					  .link_bytes = run.link_bytes,
					  .net_bytes = run.net_bytes,
					  .hbm_bytes = run.hbm_bytes};
	*choice = (struct sc_collective_choice){.algo = SC_ALGO_FILE,
						.proto = run.proto,
						.channels = run.blocks,
						.algbw_gbps = p->bytes * sc_bytes_us(1, 1) /
							      run.total_us};
	return true;
}

struct sc_cost sc_collective_cost(const struct sc_fabric *fabric,
				  const struct sc_collective_shape *shape,
				  const struct sc_span *span, struct sc_collective_choice *choice)
{
	struct sc_collective_problem p = {
		.f = fabric, .span = span, .kind = shape->kind, .bytes = shape->bytes};
	struct sc_collective_choice c = {.algo = SC_ALGO_RING};
	struct sc_cost out = {.owner_frac[SC_OWN_COMM] = 1};
	struct sc_collective_parts t;

	if (choice)
		*choice = c;
	if (span->n_ranks <= 1 || !(shape->bytes > 0))
		return out;
	if (fabric->torus.dims.n)
		return sc_torus_cost(fabric, shape);
	assert(span->max_ranks_per_node >= 1 && span->n_nodes >= 1);
	p.asked = possible_asked(fabric, shape->kind, span);
	if (p.asked > SC_ALGO_SHARP + 1)
		return sc_asked_cost(fabric, shape, span, (enum sc_algo)(p.asked - 1), choice);
	sc_collective_set_links(&p);
	if (!follow_file(&p, shape, &t, &c)) {
		enum sc_algo algo = sc_collective_fastest(&p, &t);

		if (fabric->curves.n > 0 && !p.asked)
			follow_curves(&p, &t);
		choose(&p, &t, algo, &c);
	}
	out.work_us = t.work_us;
	out.latency_us = t.total_us - t.work_us;
	set_demand(&p, &t, c.channels, &out);
	if (choice)
		*choice = c;
	return out;
}

static double time_us(const void *network, const struct sc_collective_shape *shape, int n_ranks)
{
	const struct sc_fabric *fabric = network;
	const int per_node = fabric->gpus_per_node > 0 ? fabric->gpus_per_node : 1;
	const struct sc_span span = {
		.n_ranks = n_ranks,
		.n_nodes = (n_ranks + per_node - 1) / per_node,
		.max_ranks_per_node = n_ranks < per_node ? n_ranks : per_node,
	};
	const struct sc_cost cost = sc_collective_cost(fabric, shape, &span, NULL);

	return sc_cost_alone_us(&cost);
}

struct sc_collective_time sc_collective_time_of(const struct sc_fabric *fabric)
{
	return (struct sc_collective_time){.us = time_us, .network = fabric};
}
