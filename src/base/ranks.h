/* Processes that share the work of a command, as mpirun starts them: rank 0 leads, the others help. All of them take
 * part in each call, in the same order; a wait sleeps, since MPI itself would spin. A process that is lost is the
 * system's to find: mpirun names it and tells the others to end. All functions are for the thread that began. */
#ifndef SC_BASE_RANKS_H
#define SC_BASE_RANKS_H

#include <signal.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/strbuf.h"

struct sc_ranks {
	int self, count, on_node;            /* on_node: the ranks of this machine */
	const volatile sig_atomic_t *signal; /* NULL, or not 0 once nothing is to be waited for */
	bool is_open, is_over,
		is_lost;   /* helpers wait for work; nothing is shared any more; for a loss */
	struct sc_err why; /* a helper's failure, which rank 0 tells */
	struct sc_ranks_mpi *mpi;
	const struct sc_ranks_ops *ops;
};

/* *out is NULL where the process is alone: no mpirun (of Open MPI, MPICH, Slurm) started it. SC_EUNSUPPORTED where one
 * did and this build has no MPI. */
int sc_ranks_begin(struct sc_ranks **out, struct sc_err *err);
/* The helpers end, too; none is waited for after a loss. NULL is fine. */
void sc_ranks_end(struct sc_ranks *ranks);
/* Before work is shared: rank 0 gets SC_EIO where a helper failed before, or has another `same`. */
int sc_ranks_agree(struct sc_ranks *ranks, uint64_t same, struct sc_err *err);
/* All get rank 0's bytes; without any, there is no more work of what was agreed on. False: the ranks are over. */
bool sc_ranks_share(struct sc_ranks *ranks, struct sc_strbuf *bytes);
/* The first of n items, shared last, that no other takes; it may be past the end. */
size_t sc_ranks_take(struct sc_ranks *ranks, size_t n);
/* Rank 0 gets the bytes of all, one rank's after the other's, less than 2 GiB. False: the ranks are over. */
bool sc_ranks_gather(struct sc_ranks *ranks, struct sc_strbuf *bytes);

static inline bool sc_ranks_helps(const struct sc_ranks *ranks)
{
	return ranks && ranks->self > 0;
}

#endif
