/* Chunks are taken from one counter in rising order, so when an item fails all lower ones have been
 * taken, and they are run to the end: the lowest failure is always found. */
#include "base/threads.h"

#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"

struct pool {
	const struct sc_work *work;
	size_t chunk;
	atomic_size_t next;
	atomic_size_t first_failed; /* SIZE_MAX: none */
	pthread_mutex_t lock;       /* of the two below and changes of first_failed */
	struct sc_err err;
	int rc;
	locale_t locale; /* the caller's, which threads do not inherit */
};
struct worker {
	struct pool *pool;
	void *ctx;
	pthread_t thread;
};

static void pool_fail(struct pool *pool, size_t index, int rc, const struct sc_err *err)
{
	pthread_mutex_lock(&pool->lock);
	if (index < atomic_load(&pool->first_failed)) {
		atomic_store(&pool->first_failed, index);
		pool->err = *err;
		pool->rc = rc;
	}
	pthread_mutex_unlock(&pool->lock);
}

/* The counter never runs past the end, so it cannot wrap around. */
static size_t pool_take(struct pool *pool, size_t *begin)
{
	size_t n = pool->work->n_items, after;

	*begin = atomic_load(&pool->next);
	do {
		if (*begin >= n || atomic_load(&pool->first_failed) != SIZE_MAX)
			return 0;
		after = n - *begin > pool->chunk ? *begin + pool->chunk : n;
	} while (!atomic_compare_exchange_weak(&pool->next, begin, after));
	return after - *begin;
}

static void run_chunk(const struct worker *worker, size_t begin, size_t end)
{
	struct pool *pool = worker->pool;
	const struct sc_work *work = pool->work;

	for (size_t i = begin; i < end && i <= atomic_load(&pool->first_failed); i++) {
		struct sc_err err = {.code = SC_OK};
		int rc = work->item(work->shared, worker->ctx, i, &err);

		if (rc)
			pool_fail(pool, i, rc, &err);
	}
}

static void *run_worker(void *arg)
{
	const struct worker *worker = arg;
	struct pool *pool = worker->pool;
	size_t n, begin;

	while ((n = pool_take(pool, &begin)) > 0)
		run_chunk(worker, begin, begin + n);
	return NULL;
}

static void *start_worker(void *arg)
{
	const struct worker *worker = arg;

	uselocale(worker->pool->locale);
	return run_worker(arg);
}

static void run_all(struct pool *pool, struct worker *workers, unsigned n_jobs)
{
	const struct sc_work *work = pool->work;
	unsigned n_started = 1; /* the first is this thread */

	for (unsigned i = 0; i < n_jobs; i++)
		workers[i] = (struct worker){
			.pool = pool,
			.ctx = work->contexts ? work->contexts[i] : NULL,
		};
	while (n_started < n_jobs && pthread_create(&workers[n_started].thread, NULL, start_worker,
						    &workers[n_started]) == 0)
		n_started++;
	run_worker(&workers[0]);
	for (unsigned i = 1; i < n_started; i++)
		pthread_join(workers[i].thread, NULL);
}

int sc_parallel_for(const struct sc_work *work, struct sc_err *err)
{
	struct pool pool = {.work = work,
			    .chunk = work->chunk ? work->chunk : 1,
			    .locale = uselocale((locale_t)0)};
	unsigned n_jobs = work->n_jobs ? work->n_jobs : 1;
	struct worker *workers;

	if (n_jobs > work->n_items)
		n_jobs = work->n_items ? (unsigned)work->n_items : 1;
	atomic_init(&pool.first_failed, SIZE_MAX);
	pthread_mutex_init(&pool.lock, NULL);
	workers = sc_xrealloc(NULL, n_jobs, sizeof(*workers));
	run_all(&pool, workers, n_jobs);
	free(workers);
	pthread_mutex_destroy(&pool.lock);
	if (pool.rc && err && err->code == SC_OK)
		*err = pool.err;
	return pool.rc;
}

unsigned sc_cpu_count(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > 0 ? (unsigned)n : 1;
}
