/* Measured curves of a machine: time over size of one collective and span, straight between the points
 * in logs. Between two spans of as many ranks a node the times are joined over log(ranks); beyond the
 * measured sizes the formula goes on from the last point, and beyond the measured spans it goes alone.
 * Every piece rises with size, and so do the times. */
#include <math.h>
#include <string.h>

#include "models/collective_priv.h"

const char *const sc_collective_names[] = {
	[SC_ALL_REDUCE] = "all_reduce",
	[SC_ALL_GATHER] = "all_gather",
	[SC_REDUCE_SCATTER] = "reduce_scatter",
	[SC_BROADCAST] = "broadcast",
	[SC_ALL_TO_ALL] = "all_to_all",
	[SC_SEND_RECV] = "send_recv",
	[SC_N_COLLECTIVES] = NULL,
};

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

/* Same collective, as many ranks on each node, one node or several. */
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

double sc_collective_curve_us(const struct sc_fabric *fabric, enum sc_collective kind, double bytes,
			      const struct sc_span *span)
{
	const struct sc_fabric_curve *curves = fabric->curves.at, *below = NULL, *above = NULL;
	double low_us, high_us;

	for (size_t i = 0; i < fabric->curves.n; i++) {
		const struct sc_fabric_curve *c = &curves[i];

		if (!is_alike(c, kind, span))
			continue;
		if (c->ranks <= span->n_ranks && (!below || c->ranks > below->ranks))
			below = c;
		if (c->ranks >= span->n_ranks && (!above || c->ranks < above->ranks))
			above = c;
	}
	if (!below || !above)
		return 0;
	low_us = at_curve(fabric, below, kind, bytes);
	if (below == above)
		return low_us;
	high_us = at_curve(fabric, above, kind, bytes);
	return low_us *
	       pow(high_us / low_us, log((double)span->n_ranks / (double)below->ranks) /
					     log((double)above->ranks / (double)below->ranks));
}
