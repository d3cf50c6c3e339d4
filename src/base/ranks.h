/* Processes that share the work of a command, as mpirun starts them: rank 0 leads, the others help. A message is
 * whole, and those from one rank to another come in the order in which they were sent. All functions are for the
 * thread that began. What the messages mean is the users' affair. */
#ifndef SC_BASE_RANKS_H
#define SC_BASE_RANKS_H

#include <signal.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/strbuf.h"

struct sc_ranks;
struct sc_message {
	int from, kind;
	const char *bytes; /* until the next sc_ranks_next */
	size_t n;
};
enum { SC_RANKS_END }; /* the kind that sc_ranks_end sends to the helpers; others are the users' */

/* *out is NULL where the process is alone: no mpirun (of Open MPI, MPICH, Slurm) started it. SC_EUNSUPPORTED where one
 * did and this build has no MPI. */
int sc_ranks_begin(struct sc_ranks **out, struct sc_err *err);
/* Ends the helpers, and waits for all; not after sc_ranks_lost. NULL is fine. */
void sc_ranks_end(struct sc_ranks *ranks);
int sc_ranks_self(const struct sc_ranks *ranks);
int sc_ranks_count(const struct sc_ranks *ranks);
int sc_ranks_on_node(const struct sc_ranks *ranks); /* of them, on this machine */
/* *signal is not 0 once the program was told to end: from then on a send waits for parts of a second. */
void sc_ranks_heed(struct sc_ranks *ranks, const volatile sig_atomic_t *signal);
/* False: the other did not take it within seconds. The bytes may still be on their way then: they are no longer the
 * caller's, and `bytes` is empty. */
bool sc_ranks_send(struct sc_ranks *ranks, int to, int kind, struct sc_strbuf *bytes);
/* A message that has come; false: none now. */
bool sc_ranks_next(struct sc_ranks *ranks, struct sc_message *out);
void sc_ranks_lost(struct sc_ranks *ranks); /* one has ended early: nothing waits for it any more */
/* A helper takes no more messages, to the end of the program: sc_ranks_end sends it none. One may say so of itself. */
void sc_ranks_leave(struct sc_ranks *ranks, int rank);
bool sc_ranks_has_left(const struct sc_ranks *ranks, int rank);

static inline bool sc_ranks_helps(const struct sc_ranks *ranks)
{
	return ranks && sc_ranks_self(ranks) > 0;
}

#endif
