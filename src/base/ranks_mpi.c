/* Ranks over MPI, a library that ranks.c loads: a window on rank 0 has the counter, the rest are broadcasts and gathers whose requests are tested from
 * time to time. After a loss no call of MPI is made: it would never return. */
#include <mpi.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/ranks.h"
#include "base/ranks_priv.h"
#include "base/units.h"

enum { TEST_US = 50, STAY_S = 10 };

struct sc_ranks_mpi {
	MPI_Comm comm;
	MPI_Win win;
	int64_t *counter;        /* in the window; rank 0's counts */
	int64_t n_asked, answer; /* n_asked 0: nothing is asked for */
	int *n_bytes, *at;       /* what a gather gets of each rank */
};
/* Rank 0 shares this in place of work, once there is none to come. */
static const char OVER[] = "over";
/* A rank says this before work is shared. */
struct word {
	uint64_t same;
	struct sc_err why;
};

static int ranks_begin(struct sc_ranks **out, struct sc_err *err)
{
	struct sc_ranks *ranks;
	struct sc_ranks_mpi *mpi;
	MPI_Comm node;
	int level;

	if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) || level < MPI_THREAD_FUNNELED)
		return sc_err_set(err, SC_EIO, "MPI does not start");
	ranks = *out = sc_xcalloc(1, sizeof(*ranks));
	mpi = ranks->mpi = sc_xcalloc(1, sizeof(*mpi));
	MPI_Comm_dup(MPI_COMM_WORLD, &mpi->comm);
	MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN);
	MPI_Comm_rank(mpi->comm, &ranks->self);
	MPI_Comm_size(mpi->comm, &ranks->count);
	MPI_Comm_split_type(mpi->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_size(node, &ranks->on_node);
	MPI_Comm_free(&node);
	MPI_Win_allocate(sizeof(*mpi->counter), sizeof(*mpi->counter), MPI_INFO_NULL, mpi->comm,
			 &mpi->counter, &mpi->win);
	MPI_Win_lock_all(MPI_MODE_NOCHECK, mpi->win);
	mpi->n_bytes = sc_xcalloc((size_t)ranks->count, sizeof(*mpi->n_bytes));
	mpi->at = sc_xcalloc((size_t)ranks->count, sizeof(*mpi->at));
	return 0;
}

/* False: an error of MPI, or a signal before the others came. MPI may use the buffers yet. */
static bool await(struct sc_ranks *ranks, int rc, MPI_Request *request)
{
	int done = 0;

	while (rc == MPI_SUCCESS && (rc = MPI_Test(request, &done, MPI_STATUS_IGNORE)) == 0 &&
	       !done && !(ranks->signal && *ranks->signal))
		nanosleep(&(struct timespec){.tv_nsec = TEST_US * SC_NS_PER_US}, NULL);
	ranks->is_lost = ranks->is_lost || !done;
	ranks->is_over = ranks->is_over || !done;
	return done;
}

static void ask(struct sc_ranks_mpi *mpi, size_t n)
{
	mpi->n_asked = (int64_t)n;
	MPI_Fetch_and_op(&mpi->n_asked, &mpi->answer, MPI_INT64_T, 0, 0, MPI_SUM, mpi->win);
}

/* The next are asked for while these are worked on: rank 0 may be slow to answer while it works. */
static size_t ranks_take(struct sc_ranks *ranks, size_t n)
{
	struct sc_ranks_mpi *mpi = ranks->mpi;
	int64_t first;

	if (!mpi->n_asked)
		ask(mpi, n);
	MPI_Win_flush(0, mpi->win);
	first = mpi->answer;
	ask(mpi, n);
	return (size_t)first;
}

static bool ranks_share(struct sc_ranks *ranks, struct sc_strbuf *bytes)
{
	MPI_Comm comm = ranks->mpi->comm;
	MPI_Win win = ranks->mpi->win;
	const int64_t zero = 0;
	uint64_t n = bytes->n;
	MPI_Request request;
	char *at;

	if (ranks->is_over)
		return false;
	if (ranks->self == 0) {
		MPI_Accumulate(&zero, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_REPLACE, win);
		MPI_Win_flush(0, win);
	}
	if (!await(ranks, MPI_Ibcast(&n, 1, MPI_UINT64_T, 0, comm, &request), &request))
		return false;
	at = sc_xcalloc(n + 1, 1);
	if (ranks->self == 0)
		memcpy(at, sc_strbuf_get(bytes), n);
	if (!await(ranks, MPI_Ibcast(at, (int)n, MPI_BYTE, 0, comm, &request), &request))
		return false;
	sc_strbuf_clear(bytes);
	sc_strbuf_append_n(bytes, at, n);
	free(at);
	ranks->is_over = n == sizeof(OVER) && memcmp(sc_strbuf_get(bytes), OVER, n) == 0;
	return !ranks->is_over;
}

static bool ranks_gather(struct sc_ranks *ranks, struct sc_strbuf *bytes)
{
	struct sc_ranks_mpi *mpi = ranks->mpi;
	struct sc_strbuf own = *bytes;
	int n = (int)own.n, all = 0;
	MPI_Request request;
	char *at;

	*bytes = (struct sc_strbuf){0};
	if (ranks->is_over)
		return false;
	MPI_Win_flush(0, mpi->win);
	mpi->n_asked = 0;
	if (!await(ranks,
		   MPI_Igather(&n, 1, MPI_INT, mpi->n_bytes, 1, MPI_INT, 0, mpi->comm, &request),
		   &request))
		return false;
	for (int rank = 0; rank < ranks->count; rank++) { /* of a helper all are 0 */
		mpi->at[rank] = all;
		all += mpi->n_bytes[rank];
	}
	at = sc_xcalloc((size_t)all + 1, 1);
	if (!await(ranks,
		   MPI_Igatherv(own.at, n, MPI_BYTE, at, mpi->n_bytes, mpi->at, MPI_BYTE, 0,
				mpi->comm, &request),
		   &request))
		return false;
	sc_strbuf_append_n(bytes, at, (size_t)all);
	sc_strbuf_release(&own);
	free(at);
	return true;
}

static int check_words(const struct sc_ranks *ranks, const struct sc_strbuf *bytes,
		       struct sc_err *err)
{
	struct word first, word;

	memcpy(&first, bytes->at, sizeof(first));
	for (int rank = 1; rank < ranks->count; rank++) {
		memcpy(&word, bytes->at + (size_t)rank * sizeof(word), sizeof(word));
		if (word.why.code != SC_OK)
			return sc_err_set(err, SC_EIO, "rank %d of %d: %s", rank, ranks->count,
					  word.why.text);
		if (word.same != first.same)
			return sc_err_set(err, SC_EIO,
					  "rank %d of %d has other cases or another base: are the "
					  "program and the files the same there?",
					  rank, ranks->count);
	}
	return 0;
}

static void tell_over(struct sc_ranks *ranks)
{
	struct sc_strbuf over = {0};

	sc_strbuf_append_n(&over, OVER, sizeof(OVER));
	ranks_share(ranks, &over);
	sc_strbuf_release(&over);
}

static int ranks_agree(struct sc_ranks *ranks, uint64_t same, struct sc_err *err)
{
	struct sc_strbuf bytes = {0};
	struct word word;
	int rc = 0;

	if (ranks->is_open) /* the helpers still wait for work of the last time */
		ranks_share(ranks, &bytes);
	memset(&word, 0, sizeof(word));
	word.same = same;
	word.why = ranks->why;
	sc_strbuf_append_n(&bytes, (const char *)&word, sizeof(word));
	ranks->is_open = ranks_gather(ranks, &bytes) && ranks->self == 0;
	if (ranks->is_open)
		rc = check_words(ranks, &bytes, err);
	if (rc)
		tell_over(ranks);
	sc_strbuf_release(&bytes);
	return rc;
}

static void ranks_end(struct sc_ranks *ranks)
{
	struct sc_strbuf bytes = {0};

	ranks_agree(ranks, 0, NULL);
	if (ranks->self == 0)
		tell_over(ranks);
	while (ranks_share(ranks, &bytes))
		;
	/* mpirun kills all as soon as one ends: rank 0 has something to write before. */
	if (ranks->is_lost && ranks->self)
		sleep(STAY_S);
	if (!ranks->is_lost) {
		MPI_Win_unlock_all(ranks->mpi->win);
		MPI_Win_free(&ranks->mpi->win);
		MPI_Finalize();
	}
	sc_strbuf_release(&bytes);
	free(ranks->mpi->n_bytes);
	free(ranks->mpi->at);
	free(ranks->mpi);
	free(ranks);
}

/* The library shows nothing else. */
extern const struct sc_ranks_ops sc_ranks_over_mpi;
__attribute__((visibility("default"))) const struct sc_ranks_ops sc_ranks_over_mpi = {
	ranks_begin, ranks_end, ranks_agree, ranks_share, ranks_gather, ranks_take};
