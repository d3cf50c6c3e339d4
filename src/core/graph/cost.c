/* Names of cost owners. */
#include "core/graph/cost.h"

#include <assert.h>

static const char *const owner_names[SC_N_OWNERS] = {
	[SC_OWN_COMPUTE] = "compute",     [SC_OWN_MEMORY] = "memory_bound",
	[SC_OWN_COMM] = "exposed_comm",   [SC_OWN_BUBBLE] = "bubble",
	[SC_OWN_HOST] = "host",           [SC_OWN_PEER] = "peer_wait",
	[SC_OWN_OPTIMIZER] = "optimizer", [SC_OWN_OTHER] = "other",
};

const char *sc_owner_name(enum sc_owner owner)
{
	assert((unsigned)owner < SC_N_OWNERS);
	return owner_names[owner];
}
