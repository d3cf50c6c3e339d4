/* Over MPI. Nothing blocks in MPI, which would spin, and would never return from a rank that is lost. */
#include <limits.h>
#include <mpi.h>
#include <time.h>

#include "base/arena.h"
#include "base/ranks.h"
#include "base/ranks_priv.h"
#include "base/units.h"

enum { SEND_PATIENCE_MS = 5000, TEST_US = 50 };

struct sc_ranks {
	MPI_Comm comm;
	int self, count, on_node;
	bool broken;
	bool *has_left;        /* of each rank */
	struct sc_strbuf last; /* the message that came last */
};

static void count_ranks(struct sc_ranks *ranks)
{
	MPI_Comm node;

	MPI_Comm_dup(MPI_COMM_WORLD, &ranks->comm);
	MPI_Comm_set_errhandler(ranks->comm, MPI_ERRORS_RETURN);
	MPI_Comm_rank(ranks->comm, &ranks->self);
	MPI_Comm_size(ranks->comm, &ranks->count);
	MPI_Comm_split_type(ranks->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_size(node, &ranks->on_node);
	MPI_Comm_free(&node);
}

int sc_ranks_begin(struct sc_ranks **out, struct sc_err *err)
{
	int level;

	*out = NULL;
	if (!sc_is_started_by_mpirun())
		return 0;
	if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) || level < MPI_THREAD_FUNNELED)
		return sc_err_set(err, SC_EIO, "MPI does not start");
	*out = sc_xmalloc(sizeof(**out));
	**out = (struct sc_ranks){.self = 0};
	count_ranks(*out);
	(*out)->has_left = sc_xcalloc((size_t)(*out)->count, sizeof(*(*out)->has_left));
	return 0;
}

void sc_ranks_end(struct sc_ranks *ranks)
{
	struct sc_strbuf nothing = {0};

	if (!ranks)
		return;
	for (int rank = 1; rank < ranks->count && ranks->self == 0 && !ranks->broken; rank++)
		if (!ranks->has_left[rank] && !sc_ranks_send(ranks, rank, SC_RANKS_END, &nothing))
			ranks->broken = true;
	if (!ranks->broken)
		MPI_Finalize();
	sc_strbuf_release(&ranks->last);
	free(ranks->has_left);
	free(ranks);
}

int sc_ranks_self(const struct sc_ranks *ranks)
{
	return ranks->self;
}

int sc_ranks_count(const struct sc_ranks *ranks)
{
	return ranks->count;
}

int sc_ranks_on_node(const struct sc_ranks *ranks)
{
	return ranks->on_node;
}

void sc_ranks_lost(struct sc_ranks *ranks)
{
	ranks->broken = true;
}

void sc_ranks_leave(struct sc_ranks *ranks, int rank)
{
	ranks->has_left[rank] = true;
}

bool sc_ranks_has_left(const struct sc_ranks *ranks, int rank)
{
	return ranks->has_left[rank];
}

bool sc_ranks_send(struct sc_ranks *ranks, int to, int kind, struct sc_strbuf *bytes)
{
	const struct timespec pause = {.tv_nsec = TEST_US * SC_NS_PER_US};
	int64_t left = SEND_PATIENCE_MS * (SC_NS_PER_MS / SC_NS_PER_US) / TEST_US;
	MPI_Request request;
	int done = 0;

	if (bytes->n > INT_MAX || MPI_Isend(sc_strbuf_get(bytes), (int)bytes->n, MPI_BYTE, to, kind,
					    ranks->comm, &request))
		return false;
	while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done && left-- > 0)
		nanosleep(&pause, NULL);
	if (!done) {
		MPI_Request_free(&request);
		*bytes = (struct sc_strbuf){0};
	}
	return done;
}

bool sc_ranks_next(struct sc_ranks *ranks, struct sc_message *out)
{
	MPI_Status status;
	int has = 0, n = 0;

	if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, ranks->comm, &has, &status) || !has)
		return false;
	MPI_Get_count(&status, MPI_BYTE, &n);
	sc_strbuf_clear(&ranks->last);
	sc_strbuf_reserve(&ranks->last, (size_t)n + 1);
	if (MPI_Recv(ranks->last.at, n, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, ranks->comm,
		     MPI_STATUS_IGNORE))
		return false;
	*out = (struct sc_message){.from = status.MPI_SOURCE,
				   .kind = status.MPI_TAG,
				   .bytes = ranks->last.at,
				   .n = (size_t)n};
	return true;
}
