/* Tries all ways to give out the GPUs; rings through a set of GPUs are searched once. */
#include "study/collective/collective_place.h"

#include <math.h>

enum { MOST_TRIED = 20000 };

/* The rings through a set of GPUs, alone. */
struct set {
	struct sc_topo_rings rings;
	double *load; /* on each link; NULL: not searched yet */
};
struct placer {
	const struct sc_collective_place_opts *opts;
	const struct sc_topology *graph;
	struct sc_arena arena;
	struct set *sets; /* by their GPUs as bits */
	unsigned mask[SC_PLACE_MOST_JOBS];
	struct sc_collective_place *out;
};

static const struct set *set_of(struct placer *p, unsigned mask)
{
	struct set *set = &p->sets[mask];
	int gpus[SC_WIRING_MOST], n = 0;

	if (set->load)
		return set;
	for (int g = 0; g < p->graph->n_gpus; g++)
		if (mask >> g & 1)
			gpus[n++] = g;
	set->load = sc_arena_calloc(&p->arena, (size_t)p->graph->n_links + 1, sizeof(*set->load));
	if (n > 1)
		set->rings = sc_topology_rings(p->graph, gpus, n, set->load);
	return set;
}

/* A job's time over rings of that rate, in place of the fabric's for so many GPUs. */
static double job_us(const struct placer *p, int n, const struct sc_topo_rings *rings, double gbps)
{
	const struct sc_collective_shape shape = {p->opts->kind, p->opts->bytes, SC_FP32};
	const struct sc_span span = {n, 1, n};
	struct sc_fabric fabric = *p->opts->fabric;
	double port = sc_topology_port_gbps(p->graph);
	struct sc_cost cost;

	fabric.curves.n = 0; /* they are measured on other GPUs of the node */
	fabric.wiring.share[n] = rings->pcie || !(port > 0) ? 0 : gbps / port;
	fabric.wiring.pcie_gbps[n] = rings->pcie ? gbps : 0;
	cost = sc_collective_cost(&fabric, &shape, &span, NULL);
	return sc_cost_alone_us(&cost);
}

static void time_placement(struct placer *p, struct sc_placement *out)
{
	const double *loads[SC_PLACE_MOST_JOBS];
	double share[SC_PLACE_MOST_JOBS];

	*out = (struct sc_placement){.sum_us = 0};
	for (size_t j = 0; j < p->opts->n; j++)
		loads[j] = set_of(p, p->mask[j])->load;
	sc_topology_share(p->graph, loads, p->opts->n, share);
	for (size_t j = 0; j < p->opts->n; j++) {
		const struct sc_topo_rings *rings = &set_of(p, p->mask[j])->rings;
		struct sc_placed_job *job = &out->jobs[j];

		for (int g = 0; g < p->graph->n_gpus; g++)
			if (p->mask[j] >> g & 1)
				job->gpus[job->n++] = g;
		job->gbps = rings->n * rings->gbps * share[j];
		job->time_us = job_us(p, job->n, rings, job->gbps);
		out->sum_us += job->time_us;
		out->longest_us = fmax(out->longest_us, job->time_us);
	}
}

/* Gives `left` more GPUs to job `j` from number `from` on; jobs of one size go by their first. */
static void give(struct placer *p, size_t j, int from, int left)
{
	struct sc_placement now, *best = &p->out->best;
	unsigned taken = 0;

	for (size_t i = 0; i <= j && i < p->opts->n; i++)
		taken |= p->mask[i];
	if (left == 0 && j + 1 == p->opts->n) {
		time_placement(p, &now);
		if (p->out->n_tried++ == 0)
			p->out->in_turn = *best = now;
		else if (fabs(now.sum_us - best->sum_us) > 1e-9 * best->sum_us
				 ? now.sum_us < best->sum_us
				 : now.longest_us < best->longest_us * (1 - 1e-9))
			*best = now;
		return;
	}
	if (left == 0) {
		bool alike = p->opts->sizes[j + 1] == p->opts->sizes[j];
		int first = 0;

		while (alike && !(p->mask[j] >> first & 1))
			first++;
		give(p, j + 1, first, p->opts->sizes[j + 1]);
		return;
	}
	for (int g = from; g < p->graph->n_gpus && p->out->n_tried < MOST_TRIED; g++) {
		if (taken >> g & 1)
			continue;
		p->mask[j] |= 1u << g;
		give(p, j, g + 1, left - 1);
		p->mask[j] &= ~(1u << g);
	}
}

static int check(const struct sc_collective_place_opts *opts, struct sc_err *err)
{
	const struct sc_fabric *f = opts->fabric;
	int sum = 0;

	if (opts->kind == SC_ALL_TO_ALL || opts->kind == SC_SEND_RECV || opts->kind == SC_GATHER ||
	    opts->kind == SC_SCATTER)
		return sc_err_set(err, SC_EUNSUPPORTED,
				  "--place: is of collectives that go around in rings, not of %s",
				  sc_collective_names[opts->kind]);
	if (f->topology != SC_LINK_WIRED || !f->wiring.graph)
		return sc_err_set(
			err, SC_EUNSUPPORTED,
			"--place: every choice of GPUs is alike on these links; cluster.topology "
			"names a node's wiring, cluster.links: cube_mesh is a DGX-1's");
	if (f->wiring.n_gpus > SC_WIRING_MOST)
		return sc_err_set(err, SC_EUNSUPPORTED, "--place: takes nodes of up to %d GPUs",
				  SC_WIRING_MOST);
	for (size_t i = 0; i < opts->n; i++)
		sum += opts->sizes[i];
	if (sum > f->wiring.n_gpus)
		return sc_err_set(err, SC_ECONFLICT, "--place: %d GPUs are asked for, %d are there",
				  sum, f->wiring.n_gpus);
	return 0;
}

int sc_collective_place(const struct sc_collective_place_opts *opts,
			struct sc_collective_place *out, struct sc_err *err)
{
	struct placer p = {.opts = opts, .graph = opts->fabric->wiring.graph, .out = out};
	int rc = check(opts, err);

	if (rc)
		return rc;
	*out = (struct sc_collective_place){.opts = opts};
	sc_arena_init(&p.arena, 1 << 16);
	p.sets = sc_arena_calloc(&p.arena, (size_t)1 << p.graph->n_gpus, sizeof(*p.sets));
	give(&p, 0, 0, opts->sizes[0]);
	sc_arena_release(&p.arena);
	if (out->n_tried == MOST_TRIED)
		return sc_err_set(err, SC_EUNSUPPORTED,
				  "--place: more than %d ways to give out the GPUs; name fewer "
				  "jobs",
				  MOST_TRIED);
	return 0;
}
