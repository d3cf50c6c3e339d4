/* In place of ranks_mpi.c where MPI is missing. */
#include <assert.h>

#include "base/ranks.h"
#include "base/ranks_priv.h"

int sc_ranks_begin(struct sc_ranks **out, struct sc_err *err)
{
	*out = NULL;
	if (!sc_is_started_by_mpirun())
		return 0;
	return sc_err_set(err, SC_EUNSUPPORTED,
			  "this build shares no work between processes; install libopenmpi-dev "
			  "and build again, or start it without mpirun");
}

void sc_ranks_end(struct sc_ranks *ranks)
{
	(void)ranks;
}

int sc_ranks_self(const struct sc_ranks *ranks)
{
	assert(!ranks);
	return 0;
}

int sc_ranks_count(const struct sc_ranks *ranks)
{
	assert(!ranks);
	return 1;
}

int sc_ranks_on_node(const struct sc_ranks *ranks)
{
	assert(!ranks);
	return 1;
}

bool sc_ranks_send(struct sc_ranks *ranks, int to, int kind, struct sc_strbuf *bytes)
{
	(void)ranks;
	(void)to;
	(void)kind;
	(void)bytes;
	return false;
}

bool sc_ranks_next(struct sc_ranks *ranks, struct sc_message *out)
{
	(void)ranks;
	(void)out;
	return false;
}

void sc_ranks_heed(struct sc_ranks *ranks, const volatile sig_atomic_t *signal)
{
	(void)ranks;
	(void)signal;
}

void sc_ranks_lost(struct sc_ranks *ranks)
{
	(void)ranks;
}

void sc_ranks_leave(struct sc_ranks *ranks, int rank)
{
	(void)ranks;
	(void)rank;
}

bool sc_ranks_has_left(const struct sc_ranks *ranks, int rank)
{
	(void)ranks;
	(void)rank;
	return false;
}
