/* Names of cost owners and gaps. */
#include "core/graph/cost.h"

#include <math.h>

const char *const sc_owner_names[SC_N_OWNERS] = {
	[SC_OWN_COMPUTE] = "compute",     [SC_OWN_MEMORY] = "memory_bound",
	[SC_OWN_COMM] = "exposed_comm",   [SC_OWN_BUBBLE] = "bubble",
	[SC_OWN_HOST] = "host",           [SC_OWN_PEER] = "peer_wait",
	[SC_OWN_OPTIMIZER] = "optimizer", [SC_OWN_OTHER] = "other",
};

const struct sc_gap_traits sc_gaps[SC_N_GAPS] = {
	[SC_GAP_NONE] = {"work", SC_OWN_OTHER},
	[SC_GAP_HOST] = {"host work", SC_OWN_HOST},
	[SC_GAP_LAUNCH] = {"launch latency", SC_OWN_HOST},
	[SC_GAP_QUEUE] = {"full launch queue", SC_OWN_HOST},
	[SC_GAP_PEER] = {"wait for a peer", SC_OWN_PEER},
	[SC_GAP_GRAPH] = {"gap in a graph", SC_OWN_OTHER},
	[SC_GAP_UNEXPLAINED] = {"unexplained wait", SC_OWN_OTHER},
};

#define NO_REST 1e-9 /* shares sum to 1 but for rounding */

void sc_cost_own(const struct sc_cost *cost, double us, double owner_us[SC_N_OWNERS])
{
	double rest = 1;

	for (int o = 0; o < SC_N_OWNERS; o++) {
		owner_us[o] += cost->owner_frac[o] * us;
		rest -= cost->owner_frac[o];
	}
	if (rest > NO_REST)
		owner_us[SC_OWN_OTHER] += rest * us;
}

double sc_quantize_us(double us)
{
	return ceil(us * 0x1p20 - 0.5) * 0x1p-20;
}
