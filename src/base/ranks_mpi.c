/* Over MPI. Nothing blocks in MPI, which would spin, and would never return from a rank that is lost. Messages go in
 * pieces that MPI sends at once: the rest of a longer one is fetched from its sender, which may be lost by then. */
#include <math.h>
#include <mpi.h>
#include <time.h>

#include "base/arena.h"
#include "base/progress.h"
#include "base/ranks.h"
#include "base/ranks_priv.h"
#include "base/units.h"

#define SEND_PATIENCE_S 5.0
#define END_PATIENCE_S 0.3 /* where the program was told to end */
enum { TEST_US = 50 };
/* In tags beside the kind: of a message's first piece, so that the rest of one that was not taken in time is left; of
 * all pieces but the last. */
enum { PIECE_BYTES = 2048, FIRST = 1 << 13, MORE = 1 << 14 };

struct sc_ranks {
	MPI_Comm comm;
	int self, count, on_node;
	bool broken;
	const volatile sig_atomic_t *signal;
	/* Of each rank. */
	bool *has_left;
	struct sc_strbuf *came; /* of the message that is on its way, or was the last */
	bool *is_whole;         /* it was the last */
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
	(*out)->came = sc_xcalloc((size_t)(*out)->count, sizeof(*(*out)->came));
	(*out)->is_whole = sc_xcalloc((size_t)(*out)->count, sizeof(*(*out)->is_whole));
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
	for (int rank = 0; rank < ranks->count; rank++)
		sc_strbuf_release(&ranks->came[rank]);
	free(ranks->came);
	free(ranks->is_whole);
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

void sc_ranks_heed(struct sc_ranks *ranks, const volatile sig_atomic_t *signal)
{
	ranks->signal = signal;
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

/* False: not taken by until_s, and still on its way. */
static bool wait_sent(const struct sc_ranks *ranks, MPI_Request *request, double until_s)
{
	const struct timespec pause = {.tv_nsec = TEST_US * SC_NS_PER_US};
	bool told = false;
	int done = 0;

	while (MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done &&
	       sc_now_s() < until_s) {
		if (!told && ranks->signal && *ranks->signal) {
			told = true;
			until_s = fmin(until_s, sc_now_s() + END_PATIENCE_S);
		}
		nanosleep(&pause, NULL);
	}
	if (!done)
		MPI_Request_free(request);
	return done;
}

bool sc_ranks_send(struct sc_ranks *ranks, int to, int kind, struct sc_strbuf *bytes)
{
	double until_s = sc_now_s() + SEND_PATIENCE_S;
	size_t sent = 0, n;

	do {
		MPI_Request request;
		bool more = bytes->n - sent > PIECE_BYTES;

		n = more ? PIECE_BYTES : bytes->n - sent;
		if (MPI_Isend(sc_strbuf_get(bytes) + sent, (int)n, MPI_BYTE, to,
			      kind | (sent == 0 ? FIRST : 0) | (more ? MORE : 0), ranks->comm,
			      &request))
			return false;
		if (!wait_sent(ranks, &request, until_s)) {
			*bytes = (struct sc_strbuf){0};
			return false;
		}
		sent += n;
	} while (sent < bytes->n);
	return true;
}

/* A piece that has come, at the end of its message's others. */
static bool take_piece(struct sc_ranks *ranks, MPI_Status *status)
{
	struct sc_strbuf *came;
	char piece[PIECE_BYTES];
	int has = 0, n = 0, from;

	if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, ranks->comm, &has, status) || !has)
		return false;
	from = status->MPI_SOURCE;
	MPI_Get_count(status, MPI_BYTE, &n);
	if (n < 0 || n > PIECE_BYTES ||
	    MPI_Recv(piece, n, MPI_BYTE, from, status->MPI_TAG, ranks->comm, MPI_STATUS_IGNORE))
		return false;
	came = &ranks->came[from];
	if (status->MPI_TAG & FIRST)
		sc_strbuf_clear(came);
	sc_strbuf_append_n(came, piece, (size_t)n);
	ranks->is_whole[from] = !(status->MPI_TAG & MORE);
	return true;
}

bool sc_ranks_next(struct sc_ranks *ranks, struct sc_message *out)
{
	MPI_Status status;

	while (take_piece(ranks, &status)) {
		const struct sc_strbuf *came = &ranks->came[status.MPI_SOURCE];

		if (!ranks->is_whole[status.MPI_SOURCE])
			continue;
		*out = (struct sc_message){.from = status.MPI_SOURCE,
					   .kind = status.MPI_TAG & ~(FIRST | MORE),
					   .bytes = sc_strbuf_get(came),
					   .n = came->n};
		return true;
	}
	return false;
}
