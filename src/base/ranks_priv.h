/* Who started this process, and what the library of MPI does for ranks.h. */
#ifndef SC_BASE_RANKS_PRIV_H
#define SC_BASE_RANKS_PRIV_H

#include <stdbool.h>
#include <stdlib.h>

#include "base/ranks.h"

struct sc_ranks_ops {
	int (*begin)(struct sc_ranks **out, struct sc_err *err);
	void (*end)(struct sc_ranks *ranks);
	int (*agree)(struct sc_ranks *ranks, uint64_t same, struct sc_err *err);
	bool (*share)(struct sc_ranks *ranks, struct sc_strbuf *bytes);
	bool (*gather)(struct sc_ranks *ranks, struct sc_strbuf *bytes);
	size_t (*take)(struct sc_ranks *ranks, size_t n);
};

/* The variables that say how many were started: of Open MPI, MPICH and Intel MPI, Slurm. */
static inline bool sc_is_started_by_mpirun(void)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (getenv(names[i]))
			return true;
	return false;
}

#endif
