/* Ranks over MPI, a library that ranks.c loads: a window on rank 0 has the counters and who has
 * come; an exchange is a gather to all whose requests are tested from time to time. After a loss no
 * call of MPI is made: it would never return. */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/progress.h"
#include "base/ranks.h"
#include "base/units.h"

/* How long another is waited for: LEAST_S and TIMES the longest own work; a helper for what rank 0
 * writes, END_S. */
enum { TEST_US = 50, STAY_S = 10, LEAST_S = 30, TIMES = 20, END_S = 3600 };

/* Each says this of itself before the bytes. */
struct word {
	uint64_t n, same;
	double elapsed_s;
	bool has_ended;
};
struct sc_ranks_mpi {
	MPI_Comm comm;
	MPI_Win win;
	int64_t *slots; /* in the window, rank 0's count: two counters, taken in turn, and exchanges
			   by rank */
	int64_t n_asked, answer, n_exchanges; /* n_asked 0: nothing is asked for */
	double begin_s, longest_s; /* own work since the last exchange, and the longest */
	bool has_ended;
	struct word *words;
	int *n_bytes, *at; /* what a gather gets of each rank */
};
enum { N_COUNTERS = 2 };

/* False: an error of MPI, a signal, or too long a wait. MPI may use the buffers yet. */
static bool await_request(struct sc_ranks *ranks, int rc, MPI_Request *request)
{
	const struct sc_ranks_mpi *mpi = ranks->mpi;
	const double until =
		sc_now_s() +
		(mpi->has_ended && ranks->self ? END_S : LEAST_S + TIMES * mpi->longest_s);
	int done = 0;

	while (rc == MPI_SUCCESS && (rc = MPI_Test(request, &done, MPI_STATUS_IGNORE)) == 0 &&
	       !done && !(ranks->signal && *ranks->signal) && sc_now_s() < until)
		nanosleep(&(struct timespec){.tv_nsec = TEST_US * SC_NS_PER_US}, NULL);
	return done;
}

static void counter_add(struct sc_ranks_mpi *mpi, size_t n)
{
	mpi->n_asked = (int64_t)n;
	MPI_Fetch_and_op(&mpi->n_asked, &mpi->answer, MPI_INT64_T, 0, mpi->n_exchanges % N_COUNTERS,
			 MPI_SUM, mpi->win);
}

/* The next are asked for while these are worked on: rank 0 may be slow to answer while it works. */
static size_t ranks_take(struct sc_ranks *ranks, size_t n)
{
	struct sc_ranks_mpi *mpi = ranks->mpi;
	int64_t first;

	if (!mpi->n_asked)
		counter_add(mpi, n);
	MPI_Win_flush(0, mpi->win);
	first = mpi->answer;
	counter_add(mpi, n);
	return (size_t)first;
}

/* Sets a slot of rank 0's. */
static void put_slot(struct sc_ranks_mpi *mpi, int64_t value, MPI_Aint slot)
{
	MPI_Accumulate(&value, 1, MPI_INT64_T, 0, slot, 1, MPI_INT64_T, MPI_REPLACE, mpi->win);
	MPI_Win_flush(0, mpi->win);
}

/* Who has not come to the exchange. */
static int tell_lost(struct sc_ranks *ranks, struct sc_err *err)
{
	const struct sc_ranks_mpi *mpi = ranks->mpi;
	struct sc_strbuf text = {0};
	int rc;

	for (int rank = 0; rank < ranks->count && ranks->self == 0; rank++)
		if (mpi->slots[N_COUNTERS + rank] < mpi->n_exchanges)
			sc_strbuf_printf(&text, "%s%d", text.n ? ", " : "", rank);
	ranks->is_over = ranks->is_lost = true;
	rc = ranks->signal && *ranks->signal
		     ? sc_err_set(err, SC_EIO, "a signal ended the wait for other ranks")
		     : sc_err_set(err, SC_EIO, "rank %.200s of %d does not answer",
				  text.n ? sc_strbuf_get(&text) : "0", ranks->count);
	sc_strbuf_release(&text);
	return rc;
}

static int check_words(struct sc_ranks *ranks, const char *bytes, struct sc_err *err)
{
	const struct sc_ranks_mpi *mpi = ranks->mpi;
	int rc = 0;

	for (int rank = 0; rank < ranks->count && rc == 0 && !mpi->has_ended; rank++) {
		ranks->is_lost = mpi->words[rank].has_ended && mpi->n_bytes[rank] == 0;
		if (mpi->words[rank].has_ended)
			rc = sc_err_set(err, SC_EIO, "rank %d of %d%s%.*s", rank, ranks->count,
					ranks->is_lost ? " has ended" : ": ", mpi->n_bytes[rank],
					bytes + mpi->at[rank]);
		else if (mpi->words[rank].same != mpi->words[0].same)
			rc = sc_err_set(err, SC_EIO,
					"rank %d of %d has other cases or another base: are the "
					"program and the files the same there?",
					rank, ranks->count);
	}
	ranks->is_over = mpi->has_ended || rc;
	return rc;
}

static int ranks_exchange(struct sc_ranks *ranks, struct sc_strbuf *bytes, struct sc_err *err)
{
	struct sc_ranks_mpi *mpi = ranks->mpi;
	const struct word own = {bytes->n, ranks->same, sc_now_s() - ranks->begin_s,
				 mpi->has_ended};
	const int n = sizeof(own);
	MPI_Request request;
	char *all = NULL;
	int total = 0, rc;

	mpi->longest_s = fmax(mpi->longest_s, sc_now_s() - mpi->begin_s);
	MPI_Win_flush(0, mpi->win);
	mpi->n_asked = 0;
	put_slot(mpi, ++mpi->n_exchanges, N_COUNTERS + ranks->self);
	if (!await_request(
		    ranks,
		    MPI_Iallgather(&own, n, MPI_BYTE, mpi->words, n, MPI_BYTE, mpi->comm, &request),
		    &request))
		return tell_lost(ranks, err);
	/* None counts by the last counter any more, or will before the next exchange. */
	if (ranks->self == 0)
		put_slot(mpi, 0, (mpi->n_exchanges + 1) % N_COUNTERS);
	for (int rank = 0; rank < ranks->count; rank++) {
		mpi->at[rank] = total;
		total += mpi->n_bytes[rank] = (int)mpi->words[rank].n;
	}
	all = sc_xcalloc((size_t)total + 1, 1);
	if (!await_request(ranks,
			   MPI_Iallgatherv(sc_strbuf_get(bytes), (int)bytes->n, MPI_BYTE, all,
					   mpi->n_bytes, mpi->at, MPI_BYTE, mpi->comm, &request),
			   &request)) {
		*bytes = (struct sc_strbuf){0}; /* stays MPI's, as does `all` */
		return tell_lost(ranks, err);
	}
	ranks->elapsed_s = mpi->words[0].elapsed_s;
	mpi->begin_s = sc_now_s();
	rc = check_words(ranks, all, err);
	sc_strbuf_clear(bytes);
	sc_strbuf_append_n(bytes, all, (size_t)total);
	free(all);
	return rc;
}

static void ranks_end(struct sc_ranks *ranks)
{
	struct sc_ranks_mpi *mpi = ranks->mpi;
	struct sc_strbuf text = {0};

	mpi->has_ended = true;
	if (ranks->why.code != SC_OK)
		sc_strbuf_append(&text, ranks->why.text);
	if (!ranks->is_over)
		ranks_exchange(ranks, &text, NULL);
	/* mpirun kills all as soon as one ends: rank 0 has something to write before. */
	if (ranks->is_lost && ranks->self)
		sleep(STAY_S);
	if (ranks->is_lost)
		return;
	MPI_Win_unlock_all(mpi->win);
	MPI_Win_free(&mpi->win);
	MPI_Finalize();
	sc_strbuf_release(&text);
	free(mpi->words);
	free(mpi->n_bytes);
	free(mpi);
	free(ranks);
}

/* The library shows nothing else. */
int sc_ranks_begin_mpi(struct sc_ranks **out, struct sc_err *err);
__attribute__((visibility("default"))) int sc_ranks_begin_mpi(struct sc_ranks **out,
							      struct sc_err *err)
{
	struct sc_ranks *ranks;
	struct sc_ranks_mpi *mpi;
	MPI_Comm node;
	int level, count;

	if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) || level < MPI_THREAD_FUNNELED)
		return sc_err_set(err, SC_EIO, "MPI does not start");
	MPI_Comm_size(MPI_COMM_WORLD, &count);
	if (count == 1) {
		MPI_Finalize();
		return 0;
	}
	ranks = *out = sc_xcalloc(1, sizeof(*ranks));
	mpi = ranks->mpi = sc_xcalloc(1, sizeof(*mpi));
	mpi->begin_s = sc_now_s();
	ranks->take = ranks_take;
	ranks->exchange = ranks_exchange;
	ranks->end = ranks_end;
	MPI_Comm_dup(MPI_COMM_WORLD, &mpi->comm);
	MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN);
	MPI_Comm_rank(mpi->comm, &ranks->self);
	ranks->count = count;
	MPI_Comm_split_type(mpi->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_size(node, &ranks->on_node);
	MPI_Comm_free(&node);
	MPI_Win_allocate((N_COUNTERS + count) * (MPI_Aint)sizeof(*mpi->slots), sizeof(*mpi->slots),
			 MPI_INFO_NULL, mpi->comm, &mpi->slots, &mpi->win);
	memset(mpi->slots, 0, (size_t)(N_COUNTERS + count) * sizeof(*mpi->slots));
	MPI_Barrier(mpi->comm);
	MPI_Win_lock_all(MPI_MODE_NOCHECK, mpi->win);
	mpi->words = sc_xcalloc((size_t)count, sizeof(*mpi->words));
	mpi->n_bytes = sc_xcalloc(2 * (size_t)count, sizeof(*mpi->n_bytes));
	mpi->at = mpi->n_bytes + count;
	return 0;
}
