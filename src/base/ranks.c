/* The ranks of a build with MPI are of a library of their own, ranks_mpi.c, which is loaded once
 * mpirun started the process: MPI brings eight others, and binding them takes longer than a
 * prediction. */
#include "base/ranks.h"

#include <dlfcn.h>
#include <stdlib.h>

int sc_ranks_begin(struct sc_ranks **out, struct sc_err *err)
{
	/* The variables that say how many were started: of Open MPI, MPICH and Intel MPI, Slurm. */
	*out = NULL;
	if (!getenv("OMPI_COMM_WORLD_SIZE") && !getenv("PMI_SIZE") && !getenv("PMIX_RANK"))
		return 0;
#ifdef SC_MPI_LIBRARY
	/* Open MPI's own plugins look for its functions among those of all. */
	void *library = dlopen(SC_MPI_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
	int (*begin)(struct sc_ranks **, struct sc_err *) = NULL;

	if (library)
		*(void **)&begin = dlsym(library, "sc_ranks_begin_mpi");
	return begin ? begin(out, err)
		     : sc_err_set(err, SC_EIO, "MPI does not start: %.200s", dlerror());
#else
	return sc_err_set(err, SC_EUNSUPPORTED,
			  "this build shares no work between processes; install libopenmpi-dev "
			  "and build again, or start it without mpirun");
#endif
}
