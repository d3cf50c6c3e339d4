/* Processes that do the same command together, as mpirun starts them. Each takes items from a
 * shared counter and gets the results of all, so all know the same and go the same way; only rank 0
 * writes. A wait sleeps, since MPI itself would spin, and ends: at a signal, or after a multiple of
 * the longest that this process itself has worked. All functions are for the thread that began. */
#pragma once

#include <signal.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/strbuf.h"

struct sc_ranks {
	int self, count, on_node;            /* on_node: the ranks of this machine */
	const volatile sig_atomic_t *signal; /* NULL, or not 0 once nothing is to be waited for */
	uint64_t same;                       /* what all must have alike */
	double begin_s, elapsed_s;           /* own clock; rank 0's at the last exchange, since */
	bool is_over; /* nothing is shared any more: one has ended, or does not answer (is_lost) */
	bool is_lost;
	struct sc_err why; /* a failure of this rank, which the others tell */
	/* The first of n items that no other rank takes till the next exchange; or past the end. */
	size_t (*take)(struct sc_ranks *ranks, size_t n);
	/* All get the bytes of all, one rank's after the other's, less than 2 GiB. SC_EIO says
	 * which rank is missing, has failed, or has another `same`; then is_over. */
	int (*exchange)(struct sc_ranks *ranks, struct sc_strbuf *bytes, struct sc_err *err);
	void (*end)(struct sc_ranks *ranks); /* waits for all but the lost */
	struct sc_ranks_mpi *mpi;
};

/* *out is NULL where the process is alone: no mpirun (of Open MPI, MPICH, Slurm) started it.
 * SC_EUNSUPPORTED where one did and this build has no MPI. */
int sc_ranks_begin(struct sc_ranks **out, struct sc_err *err);
static inline bool sc_ranks_helps(const struct sc_ranks *ranks)
{
	return ranks && ranks->self > 0;
}
