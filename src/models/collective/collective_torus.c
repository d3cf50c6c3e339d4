/* Collectives over a whole torus, after ACE (Rashidi et al., "Enabling Compute-Communication
 * Overlap in Distributed Deep Learning Training Platforms", ISCA 2021): an all-reduce of S bytes is
 * a reduce-scatter along the first dimension (L GPUs), all-reduces of S/L along each other one, an
 * all-gather along the first. Phases of these rings are pipelined, so that the slowest sets the
 * rate. All-to-all takes the shortest way, dimension by dimension. */
#include <math.h>

#include "base/units.h"
#include "models/collective/collective_priv.h"

static double of_dim(const struct sc_doubles *list, size_t dim)
{
	return list->n ? list->at[list->n > 1 ? dim : 0] : 0;
}

/* The number of reduce-scatters or all-gathers in a collective; 0: it has no rings. */
static double ring_passes(enum sc_collective kind)
{
	if (sc_collective_is_direct(kind))
		return 0;
	return kind == SC_ALL_REDUCE ? 2 : 1;
}

/* The mean way along a ring of n to all its members, itself too, either way round. */
static double mean_hops(double n)
{
	return floor(n * n / 4) / n;
}

/* The bytes that a GPU sends along a dimension: its own, and those that it passes on. */
static double sent_along(const struct sc_torus *torus, const struct sc_collective_shape *shape,
			 size_t dim)
{
	const double n = (double)torus->dims.at[dim], passes = ring_passes(shape->kind);
	double parts = dim ? (double)torus->dims.at[0] : 1;

	if (shape->kind == SC_SEND_RECV)
		return dim ? 0 : shape->bytes;
	if (!(passes > 0))
		return shape->bytes * mean_hops(n);
	for (size_t d = 1; d < dim && shape->kind != SC_ALL_REDUCE; d++)
		parts *= (double)torus->dims.at[d]; /* scattered along each in turn */
	return passes * (n - 1) / n * shape->bytes / parts;
}

/* The reads of memory for each byte that kernels on SMs send: twice to add, once to pass on. An
 * engine reads each byte of the payload once, and what is in flight lies in its SRAM. */
static double reads_per_byte(enum sc_collective kind)
{
	return kind == SC_ALL_REDUCE ? 1.5 : kind == SC_REDUCE_SCATTER ? 2 : 1;
}

void sc_torus_traffic(const struct sc_fabric *fabric, const struct sc_collective_shape *shape,
		      struct sc_torus_traffic *out)
{
	const struct sc_torus *t = &fabric->torus;
	const bool rings = ring_passes(shape->kind) > 0;

	*out = (struct sc_torus_traffic){0};
	for (size_t d = 0; d < t->dims.n; d++) {
		out->sent += sent_along(t, shape, d);
		out->links += of_dim(&t->link_gbps, d) * (t->dims.at[d] > 1);
	}
	/* Bytes of an all-to-all that network interfaces pass on never reach memory. */
	out->bus = rings && fabric->endpoint.kind == SC_ENDPOINT_SMS
			   ? out->sent
			   : fmin(out->sent, shape->bytes);
	out->read = out->bus *
		    (fabric->endpoint.kind == SC_ENDPOINT_SMS ? reads_per_byte(shape->kind) : 1);
}

static double rate_us(double bytes, double gbps)
{
	return gbps > 0 ? sc_bytes_us(bytes, gbps) : 0;
}

static double endpoint_us(const struct sc_fabric *fabric, const struct sc_collective_shape *shape,
			  double latency_us)
{
	const struct sc_endpoint *end = &fabric->endpoint;
	struct sc_torus_traffic traffic;
	double us;

	if (end->kind == SC_ENDPOINT_IDEAL)
		return 0;
	sc_torus_traffic(fabric, shape, &traffic);
	us = fmax(rate_us(traffic.read, end->memory_gbps),
		  rate_us(traffic.bus, fabric->torus.bus_gbps));
	if (end->kind == SC_ENDPOINT_SMS)
		return fmax(us, rate_us(traffic.read, fabric->torus.sm_gbps * (double)end->sms));
	return fmax(us, fabric->torus.engine_sram_mib > 0
				? latency_us * shape->bytes /
					  (fabric->torus.engine_sram_mib * SC_BYTES_PER_MIB)
				: 0);
}

struct sc_cost sc_torus_cost(const struct sc_fabric *fabric,
			     const struct sc_collective_shape *shape)
{
	const struct sc_torus *t = &fabric->torus;
	const double eff = t->link_eff > 0 ? t->link_eff : 1, passes = ring_passes(shape->kind);
	struct sc_cost out = {.owner_frac[SC_OWN_COMM] = 1};
	double links_us = 0, end_us;

	for (size_t d = 0; d < t->dims.n; d++) {
		const double n = (double)t->dims.at[d];
		const double hops = passes > 0 ? passes * (n - 1) : floor(n / 2);

		links_us = fmax(links_us,
				rate_us(sent_along(t, shape, d), of_dim(&t->link_gbps, d) * eff));
		out.latency_us += hops * of_dim(&t->hop_us, d);
	}
	end_us = endpoint_us(fabric, shape, out.latency_us);
	out.work_us = fmax(links_us, end_us);
	if (out.work_us > 0) {
		out.demand[SC_RES_LINK] = links_us / out.work_us;
		out.demand[SC_RES_COPY] = end_us / out.work_us;
	}
	return out;
}
