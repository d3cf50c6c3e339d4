/* Start and end of a recording, and what must hold in between: it never makes its host fail. */
#include "trace/capture/tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "trace/capture/hash_ids.h"
#include "trace/capture/rank_identity.h"

enum {
	N_BUFFERS = 16,
	BUFFER_KIB = 2048,
	WAIT_MS = 2000,
	MAX_WAIT_MS = 600000,
	US_PER_S = 1000000,
	POLL_US = 1000,
	FLUSH_S = 1,
	FINAL_FLUSH_MS = 4000, /* CUPTI's last flush can hang */
	CONFLICT_ROUNDS = 10   /* seconds with calls and without records */
};
enum { FLUSHED = 1, NO_FLUSHER }; /* sc_tracer.flushed */

struct sc_tracer sc_tracer = {.identity_lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of start and stop */
static pthread_mutex_t flusher_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t flusher_wakes;

static int64_t read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * SC_NS_PER_S + now.tv_nsec;
}

int64_t sc_tracer_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

int64_t sc_tracer_utc_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

int64_t sc_tracer_thread_cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

void sc_tracer_sleep_us(long us)
{
	struct timespec time = {us / US_PER_S, us % US_PER_S * SC_NS_PER_US};

	nanosleep(&time, NULL);
}

/* Eight buckets a power of two: a percentile is within 1/8. */
void sc_latency_add(struct sc_latency *latency, int64_t ns)
{
	uint64_t n = ns > 0 ? (uint64_t)ns : 0, max;
	unsigned power = n < 8 ? 0 : 60 - (unsigned)__builtin_clzll(n);
	unsigned bucket = n < 8 ? (unsigned)n : (power + 1) * 8 + (unsigned)(n >> power) % 8;

	if (bucket >= SC_LATENCY_BUCKETS)
		bucket = SC_LATENCY_BUCKETS - 1;
	atomic_fetch_add_explicit(&latency->n, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&latency->sum_ns, n, memory_order_relaxed);
	atomic_fetch_add_explicit(&latency->buckets[bucket], 1, memory_order_relaxed);
	max = atomic_load_explicit(&latency->max_ns, memory_order_relaxed);
	while (n > max && !atomic_compare_exchange_weak(&latency->max_ns, &max, n))
		;
}

int64_t sc_latency_percentile_ns(const struct sc_latency *latency, double pct)
{
	uint64_t seen = 0;
	double want = pct / SC_PCT * (double)atomic_load(&latency->n);

	for (unsigned i = 0; i < SC_LATENCY_BUCKETS; i++) {
		seen += atomic_load(&latency->buckets[i]);
		if ((double)seen >= want && seen)
			return i < 8 ? (int64_t)i : (int64_t)(i % 8 + 9) << (i / 8 - 1);
	}
	return 0;
}

/* --- settings --- */

static const char *environment(void *ctx, const char *name)
{
	(void)ctx;
	return getenv(name);
}

static int64_t setting(const char *name, int64_t usual, int64_t min, int64_t max)
{
	const char *text = getenv(name);
	char *end;
	long long value;

	if (!text || !*text)
		return usual;
	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno || *end || value < min || value > max)
		return usual;
	return value;
}

static void learn_identity(void)
{
	struct sc_trace_identity *identity = &sc_tracer.identity;
	const char *run = getenv("STEPCAST_RUN_ID"), *dir = getenv("STEPCAST_DIR");

	memset(identity, 0, sizeof(*identity));
	sc_rank_identity_read(identity, environment, NULL);
	identity->pid = sc_tracer.pid;
	if (gethostname(sc_tracer.host, sizeof(sc_tracer.host) - 1))
		snprintf(sc_tracer.host, sizeof(sc_tracer.host), "host");
	for (char *c = sc_tracer.host; *c; c++) {
		if (*c == '/' || *c == '.')
			*c = '-';
	}
	snprintf(identity->host, sizeof(identity->host), "%s", sc_tracer.host);
	snprintf(identity->source, sizeof(identity->source), "capture");
	identity->host_hash = sc_hash_bytes(sc_tracer.host, strlen(sc_tracer.host));
	snprintf(sc_tracer.run, sizeof(sc_tracer.run), "%s", run && *run ? run : "trace");
	snprintf(sc_tracer.dir, sizeof(sc_tracer.dir), "%s", dir && *dir ? dir : ".");
}

void sc_tracer_identity(struct sc_trace_identity *out)
{
	pthread_mutex_lock(&sc_tracer.identity_lock);
	*out = sc_tracer.identity;
	pthread_mutex_unlock(&sc_tracer.identity_lock);
}

void sc_tracer_learn_rank(int32_t rank, int32_t world)
{
	struct sc_trace_identity now;

	sc_tracer_identity(&now);
	sc_rank_identity_read(&now, environment, NULL);
	pthread_mutex_lock(&sc_tracer.identity_lock);
	/* The largest communicator is the best guess when no launcher says. */
	if (now.rank < 0 && world > sc_tracer.identity.world) {
		now.rank = rank;
		now.world = world;
	}
	if (now.rank >= 0 &&
	    (now.rank != sc_tracer.identity.rank || now.world != sc_tracer.identity.world)) {
		sc_tracer.identity = now;
		atomic_store(&sc_tracer.identity_changed, 1);
	}
	pthread_mutex_unlock(&sc_tracer.identity_lock);
}

/* --- threads --- */

static void start_thread(pthread_t *thread, void *(*run)(void *), int *rc)
{
	sigset_t all, before;

	/* Signals are for the host's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	*rc = pthread_create(thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

struct watch {
	uint64_t calls, buffers;
	int rounds;
	bool said;
};

/* Calls that must have launched kernels, and no records: another client has taken CUPTI's callbacks. */
static void watch_for_conflict(struct watch *watch)
{
	uint64_t calls = atomic_load(&sc_tracer.n_comm_calls);
	uint64_t buffers = atomic_load(&sc_tracer.n_completed);
	int64_t now = sc_tracer_now_ns();

	if (buffers != watch->buffers || calls == watch->calls)
		watch->rounds = 0;
	else
		watch->rounds++;
	watch->buffers = buffers;
	watch->calls = calls;
	if (watch->rounds < CONFLICT_ROUNDS || watch->said || !atomic_load(&sc_tracer.cupti_on))
		return;
	watch->said = true;
	sc_host_emit_meta("conflict",
			  "another CUPTI client seems to have taken the activity records");
	sc_host_emit_gap(&(struct sc_trace_gap){SC_EV_KERNEL, -1,
						now - CONFLICT_ROUNDS * SC_NS_PER_S, now,
						"conflict: another CUPTI client"});
}

/* Until the next flush is due, or the last. */
static void wait_for_flush(void)
{
	struct timespec due;

	clock_gettime(CLOCK_MONOTONIC, &due);
	due.tv_sec += FLUSH_S;
	pthread_mutex_lock(&flusher_lock);
	while (!atomic_load(&sc_tracer.stop_flusher) &&
	       pthread_cond_timedwait(&flusher_wakes, &flusher_lock, &due) == 0)
		;
	pthread_mutex_unlock(&flusher_lock);
}

static void *flusher_run(void *unused)
{
	struct watch watch = {0};

	while (!atomic_load(&sc_tracer.stop_flusher)) {
		wait_for_flush();
		sc_cupti_session_flush(false);
		watch_for_conflict(&watch);
	}
	sc_cupti_session_flush(false); /* what is finished comes even if the rest does not */
	sc_cupti_session_stop();
	sc_cupti_session_flush(true);
	atomic_store(&sc_tracer.flushed, FLUSHED);
	return unused;
}

/* A child of fork has neither the threads nor CUPTI's: it stays off for good. */
static void in_child(void)
{
	atomic_store(&sc_tracer.state, SC_TRACER_ENDED);
	atomic_store(&sc_tracer.cupti_on, 0);
}

/* --- start and stop --- */

/* For who looks why there is no trace. An empty file fits on a full disk, too. */
static void leave_reason(int error)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s.%s.%d" SC_RAW_FAILED "%d", sc_tracer.dir, sc_tracer.run,
		 sc_tracer.host, sc_tracer.pid, error);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd >= 0)
		close(fd);
}

static int make_memory(void)
{
	struct sc_raw_header *header;
	char path[4096];
	uint32_t n = (uint32_t)setting("STEPCAST_BUFFERS", N_BUFFERS, 2, SC_RAW_MAX_BUFFERS);
	uint32_t kib = (uint32_t)setting("STEPCAST_BUFFER_KIB", BUFFER_KIB, 16, 16384);
	struct sc_event_sink sink;
	int rc;

	mkdir(sc_tracer.dir, 0777);
	snprintf(path, sizeof(path), "%s/%s.%s.%d" SC_RAW_SUFFIX, sc_tracer.dir, sc_tracer.run,
		 sc_tracer.host, sc_tracer.pid);
	rc = sc_raw_create(&sc_tracer.raw, path, n, kib << 10);
	if (rc) {
		leave_reason(-rc);
		return -1;
	}
	header = sc_tracer.raw.header;
	header->pid = sc_tracer.pid;
	header->run_id = sc_tracer.identity.run_id;
	header->base_mono_ns = sc_tracer_now_ns();
	header->base_utc_ns = sc_tracer_utc_ns();
	sc_tracer.file = sc_capture_file_create();
	if (!sc_tracer.file)
		return -1;
	sc_capture_file_sink(sc_tracer.file, &sink);
	return sc_decoder_init(&sc_tracer.decoder, &sc_tracer.raw, &sink, true) ? 0 : -1;
}

static void give_up_memory(void)
{
	if (sc_tracer.raw.header)
		unlink(sc_tracer.raw.path);
	sc_capture_file_destroy(sc_tracer.file);
	sc_decoder_release(&sc_tracer.decoder);
	sc_tracer.file = NULL;
}

static int start(void)
{
	const char *range = getenv("STEPCAST_ITERATION_RANGE");
	pthread_condattr_t attr;
	char text[32];
	int rc;

	sc_tracer.pid = (int32_t)getpid();
	sc_tracer.wait_ns = setting("STEPCAST_WAIT_MS", WAIT_MS, 0, MAX_WAIT_MS) * SC_NS_PER_MS;
	learn_identity();
	rc = make_memory();
	if (rc == 0)
		start_thread(&sc_tracer.writer, sc_tracer_writer_run, &rc);
	if (rc) {
		give_up_memory();
		return -1;
	}
	atomic_store_explicit(&sc_tracer.state, SC_TRACER_ON, memory_order_release);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&flusher_wakes, &attr);
	pthread_condattr_destroy(&attr);
	start_thread(&sc_tracer.flusher, flusher_run, &rc);
	if (rc)
		atomic_store(&sc_tracer.flushed, NO_FLUSHER);
	pthread_atfork(NULL, NULL, in_child);
	atexit(sc_tracer_stop);
	snprintf(text, sizeof(text), "%lld", (long long)sc_tracer.raw.header->base_mono_ns);
	sc_host_emit_meta("clock.monotonic_base_ns", text);
	if (range && *range)
		sc_host_emit_meta("iteration.range", range);
	return 0;
}

int sc_tracer_start(void)
{
	int rc = -1;

	pthread_mutex_lock(&lock);
	if (sc_tracer_is_on())
		rc = 0;
	else if (atomic_load(&sc_tracer.state) == SC_TRACER_OFF)
		rc = start();
	if (rc)
		atomic_store(&sc_tracer.state, SC_TRACER_ENDED);
	pthread_mutex_unlock(&lock);
	return rc;
}

/* The last flush, on the flusher's thread and not longer than it may take. False: CUPTI still has
 * buffers. */
static bool flush_with_deadline(void)
{
	int64_t begin = sc_tracer_now_ns();

	pthread_mutex_lock(&flusher_lock);
	atomic_store(&sc_tracer.stop_flusher, 1);
	pthread_cond_signal(&flusher_wakes);
	pthread_mutex_unlock(&flusher_lock);
	while (!atomic_load(&sc_tracer.flushed) &&
	       sc_tracer_now_ns() - begin < FINAL_FLUSH_MS * SC_NS_PER_MS)
		sc_tracer_sleep_us(POLL_US);
	switch (atomic_load(&sc_tracer.flushed)) {
	case FLUSHED:
		pthread_join(sc_tracer.flusher, NULL);
		return true;
	case NO_FLUSHER:
		sc_cupti_session_stop();
		sc_cupti_session_flush(true);
		return true;
	default:
		sc_host_emit_gap(
			&(struct sc_trace_gap){SC_EV_KERNEL, -1, begin, sc_tracer_now_ns(),
					       "CUPTI did not return from its last flush"});
		return false;
	}
}

/* The raw file stays if CUPTI has not given everything back: it can be recovered. */
static void finish(bool flushed)
{
	bool is_empty = sc_tracer.decoder.counts.n_events == 0;
	int rc = sc_capture_file_finish(sc_tracer.file);
	char path[4096];

	sc_tracer.raw.header->write_error = -rc;
	sc_tracer.raw.header->has_ended = 1;
	if (rc == 0 && flushed) {
		unlink(sc_tracer.raw.path);
		if (is_empty && *sc_tracer.raw.header->trace_name) {
			snprintf(path, sizeof(path), "%s/%s", sc_tracer.dir,
				 sc_tracer.raw.header->trace_name);
			unlink(path); /* nothing happened here */
		}
	}
	sc_capture_file_destroy(sc_tracer.file);
	sc_decoder_release(&sc_tracer.decoder);
}

/* The mapping stays: threads of the host may be in the middle of a callback. */
void sc_tracer_stop(void)
{
	/* In a forked child the lock may be held by a thread that is not there. */
	if (!sc_tracer_is_on() || sc_tracer.pid != (int32_t)getpid())
		return;
	pthread_mutex_lock(&lock);
	if (sc_tracer_is_on()) {
		bool flushed = flush_with_deadline();

		atomic_store(&sc_tracer.state, SC_TRACER_ENDED);
		atomic_store(&sc_tracer.cupti_on, 0);
		atomic_store(&sc_tracer.stop_writer, 1);
		pthread_join(sc_tracer.writer, NULL);
		finish(flushed);
	}
	pthread_mutex_unlock(&lock);
}
