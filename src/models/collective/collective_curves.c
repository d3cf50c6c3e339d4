/* Measured curves of a machine: the time over size of one collective and span is straight between
 * the points in logs. Between two spans of as many ranks a node the times are joined over
 * log(ranks). Beyond the measured sizes the formula goes on from the last point, and beyond the
 * measured spans it goes alone. Every piece rises with size, and so do the times. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "models/collective/collective_priv.h"

/* A slot of NCCL's buffer for the Simple protocol: eight in 4 MiB. */
#define BLOCK_BYTES (512 * SC_BYTES_PER_KIB)

static double at_curve(const struct sc_fabric *fabric, const struct sc_fabric_curve *c,
		       enum sc_collective kind, double bytes)
{
	struct sc_span span = {.n_ranks = (int)c->ranks,
			       .n_nodes = (int)c->nodes,
			       .max_ranks_per_node = (int)((c->ranks + c->nodes - 1) / c->nodes)};
	size_t n = c->bytes.n, i = 0;
	double x, y;

	while (i < n && c->bytes.at[i] < bytes)
		i++;
	if (i > 0 && i < n) {
		x = log(bytes / c->bytes.at[i - 1]) / log(c->bytes.at[i] / c->bytes.at[i - 1]);
		return c->time_us.at[i - 1] * pow(c->time_us.at[i] / c->time_us.at[i - 1], x);
	}
	i = i > 0 ? n - 1 : 0;
	y = sc_collective_formula_us(fabric, kind, c->bytes.at[i], &span);
	return c->time_us.at[i] * sc_collective_formula_us(fabric, kind, bytes, &span) / y;
}

/* The curve is of the same collective, as many ranks on each node, and one node or several. */
static bool is_alike(const struct sc_fabric_curve *c, enum sc_collective kind,
		     const struct sc_span *span)
{
	bool remote = span->n_nodes > 1;

	if (strcmp(c->collective, sc_collective_names[kind]) != 0 || (c->nodes > 1) != remote)
		return false;
	return !remote ||
	       (c->ranks % c->nodes == 0 && c->ranks / c->nodes == span->max_ranks_per_node &&
		span->n_ranks == span->n_nodes * span->max_ranks_per_node);
}

/* A collective between two that were measured. */
struct between {
	const struct sc_fabric *fabric;
	enum sc_collective kind;
	int n_ranks;
	const struct sc_fabric_curve *below, *above; /* as many ranks or less, or more */
};

/* Joins at one size, or at one size of a rank's block; `bytes` are those of n_ranks. The smallest
 * size takes what the depth of a tree does, which rises with log(ranks), or the steps of a ring,
 * and the rest is a power. From BLOCK_BYTES a rank on data goes around in rings, whose steps depend
 * on what one rank holds: then times of equal blocks are joined. */
static double join(const struct between *b, double bytes, bool by_block)
{
	double low_bytes = by_block ? bytes * (double)b->below->ranks / b->n_ranks : bytes;
	double high_bytes = by_block ? bytes * (double)b->above->ranks / b->n_ranks : bytes;
	double low_us = at_curve(b->fabric, b->below, b->kind, low_bytes);
	double high_us = at_curve(b->fabric, b->above, b->kind, high_bytes);
	double low_least_us = fmin(low_us, b->below->time_us.at[0]);
	double high_least_us = fmin(high_us, b->above->time_us.at[0]);
	double below = (double)b->below->ranks, above = (double)b->above->ranks;
	double x = log(b->n_ranks / below) / log(above / below);
	double steps = b->kind == SC_ALL_REDUCE ? x : (b->n_ranks - below) / (above - below);

	return low_least_us + steps * (high_least_us - low_least_us) +
	       pow(low_us - low_least_us, 1 - x) * pow(high_us - high_least_us, x);
}

double sc_collective_curve_us(const struct sc_fabric *fabric, enum sc_collective kind, double bytes,
			      const struct sc_span *span)
{
	const struct sc_fabric_curve *curves = fabric->curves.at;
	struct between b = {.fabric = fabric, .kind = kind, .n_ranks = span->n_ranks};
	double rings_from = BLOCK_BYTES * span->n_ranks;

	for (size_t i = 0; i < fabric->curves.n; i++) {
		const struct sc_fabric_curve *c = &curves[i];

		if (!is_alike(c, kind, span))
			continue;
		if (c->ranks <= span->n_ranks && (!b.below || c->ranks > b.below->ranks))
			b.below = c;
		if (c->ranks >= span->n_ranks && (!b.above || c->ranks < b.above->ranks))
			b.above = c;
	}
	if (!b.below || !b.above)
		return 0;
	if (b.below == b.above)
		return at_curve(fabric, b.below, kind, bytes);
	if (kind == SC_SEND_RECV || bytes < rings_from)
		return join(&b, bytes, false);
	return fmax(join(&b, rings_from, false), join(&b, bytes, true));
}
