/* Who sends to whom: for msccl_check.c, msccl_steps.c and msccl_walk.c. */
#pragma once

#include "models/msccl/msccl.h"

/* A sender's and a receiver's thread block on one channel. */
struct sc_msccl_connection {
	int from, to, channel;   /* ranks */
	size_t sender, receiver; /* thread blocks, + 1; 0: none */
};
struct sc_msccl_connections {
	struct sc_msccl_connection *at; /* by from, to, channel */
	size_t n;
	size_t *from, *to; /* of a thread block in `at`; 0 where it has no peer */
};
/* SC_EVALUE: two thread blocks of a rank send to (or receive from) one rank on one channel. */
int sc_msccl_connect(const struct sc_msccl *algo, struct sc_arena *arena,
		     struct sc_msccl_connections *out, struct sc_err *err);
