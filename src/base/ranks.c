/* The ranks of a build with MPI are of a library of their own, ranks_mpi.c, which is loaded once mpirun started the
 * process: MPI brings eight others, and binding them takes longer than a prediction. */
#include "base/ranks.h"

#include <dlfcn.h>

#include "base/ranks_priv.h"

static int load_ops(const struct sc_ranks_ops **out, struct sc_err *err)
{
#ifdef SC_MPI_LIBRARY
	/* Open MPI's own plugins look for its functions among those of all. */
	void *library = dlopen(SC_MPI_LIBRARY, RTLD_NOW | RTLD_GLOBAL);

	*out = library ? dlsym(library, "sc_ranks_over_mpi") : NULL;
	return *out ? 0 : sc_err_set(err, SC_EIO, "MPI does not start: %.200s", dlerror());
#else
	*out = NULL;
	return sc_err_set(err, SC_EUNSUPPORTED,
			  "this build shares no work between processes; install libopenmpi-dev "
			  "and build again, or start it without mpirun");
#endif
}

int sc_ranks_begin(struct sc_ranks **out, struct sc_err *err)
{
	const struct sc_ranks_ops *ops;
	int rc;

	*out = NULL;
	if (!sc_is_started_by_mpirun())
		return 0;
	rc = load_ops(&ops, err);
	if (rc == 0)
		rc = ops->begin(out, err);
	if (rc == 0)
		(*out)->ops = ops;
	return rc;
}

void sc_ranks_end(struct sc_ranks *ranks)
{
	if (ranks)
		ranks->ops->end(ranks);
}

int sc_ranks_agree(struct sc_ranks *ranks, uint64_t same, struct sc_err *err)
{
	return ranks->ops->agree(ranks, same, err);
}

bool sc_ranks_share(struct sc_ranks *ranks, struct sc_strbuf *bytes)
{
	return ranks->ops->share(ranks, bytes);
}

bool sc_ranks_gather(struct sc_ranks *ranks, struct sc_strbuf *bytes)
{
	return ranks->ops->gather(ranks, bytes);
}

size_t sc_ranks_take(struct sc_ranks *ranks, size_t n)
{
	return ranks->ops->take(ranks, n);
}
