/* Who started this process. */
#ifndef SC_BASE_RANKS_PRIV_H
#define SC_BASE_RANKS_PRIV_H

#include <stdbool.h>
#include <stdlib.h>

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
