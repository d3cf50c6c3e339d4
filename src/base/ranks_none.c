/* In place of ranks_mpi.c where MPI is missing: no command gets others to share with. */
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

int sc_ranks_agree(struct sc_ranks *ranks, uint64_t same, struct sc_err *err)
{
	(void)ranks, (void)same, (void)err;
	return 0;
}

bool sc_ranks_share(struct sc_ranks *ranks, struct sc_strbuf *bytes)
{
	(void)ranks, (void)bytes;
	return false;
}

bool sc_ranks_gather(struct sc_ranks *ranks, struct sc_strbuf *bytes)
{
	(void)ranks, (void)bytes;
	return false;
}

size_t sc_ranks_take(struct sc_ranks *ranks, size_t n)
{
	(void)ranks, (void)n;
	return 0;
}
