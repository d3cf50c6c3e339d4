/* Start and end of a recording, and what must hold in between: it never makes its host fail. */
#include "trace/capture/tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "trace/capture/hash_ids.h"
#include "trace/capture/rank_identity.h"

/* The writer's thread: turns full buffers and rings into frames, writes them, gives the memory
 * back. It never calls CUPTI, which may hold a lock that waits for a buffer. */

enum {
	WRITER_POLL_US = 25000,
	BUSY_US = 200,        /* while rings fill faster than they are read */
	DRAIN_NS = 100000000, /* rings are read at least so often */
	CLOCK_NS = 1000000000,
	REPORT_NS = 2000000000,
	RING_EAGER = SC_RAW_RING_BYTES / 4,
	N_CLOCK_TRIES = 5
};

/* A process in which nothing happens leaves no file. */
static bool is_empty(void)
{
	return sc_tracer.decoder.counts.n_events == 0 && sc_tracer.decoder.counts.n_ended == 0 &&
	       !atomic_load(&sc_tracer.has_conflict);
}

static void open_trace(void)
{
	struct sc_raw_header *header = sc_tracer.raw.header;
	struct sc_trace_identity identity;
	char name[SC_RAW_TRACE_NAME], rank[16] = "x", path[4096];

	if (sc_capture_file_is_open(sc_tracer.file) || is_empty())
		return;
	sc_tracer_identity(&identity);
	if (identity.rank >= 0)
		snprintf(rank, sizeof(rank), "%d", identity.rank);
	snprintf(name, sizeof(name), "%s.%s.%s.%d" SC_TRACE_SUFFIX, sc_tracer.run, sc_tracer.host,
		 rank, sc_tracer.pid);
	snprintf(path, sizeof(path), "%s/%s", sc_tracer.dir, name);
	/* The name first: a trace without a name in the raw file would be taken for another's. */
	memcpy(header->trace_name, name, sizeof(name));
	sc_capture_file_open(sc_tracer.file, path, &identity);
}

static int64_t read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * SC_NS_PER_S + now.tv_nsec;
}

/* Bracketed by our clock; the narrowest of a few. */
static void add_clock_pair(void)
{
	int64_t best_width = INT64_MAX, best_mono = 0, best_utc = 0;

	for (int i = 0; i < N_CLOCK_TRIES; i++) {
		int64_t before = sc_tracer_now_ns(), utc = read_clock(CLOCK_REALTIME);
		int64_t after = sc_tracer_now_ns();

		if (after - before < best_width) {
			best_width = after - before;
			best_mono = before + (after - before) / 2;
			best_utc = utc;
		}
	}
	sc_capture_file_clock(sc_tracer.file, best_mono - sc_tracer.raw.header->base_mono_ns,
			      best_utc);
}

static void write_buffer(uint32_t index)
{
	struct sc_raw_buffer *buffer = &sc_tracer.raw.header->buffers[index];
	const bool is_lent = atomic_load(&buffer->state) == SC_RAW_LENT;
	uint64_t begin, end;

	sc_tracer.decoder.now_ns = sc_tracer_now_ns() - sc_tracer.raw.header->base_mono_ns;
	sc_decode_buffer(&sc_tracer.decoder, sc_raw_buffer_at(&sc_tracer.raw, index),
			 is_lent ? sc_tracer.raw.header->buffer_bytes : buffer->valid_bytes,
			 is_lent);
	atomic_store(&sc_tracer.n_own_calls, (uint64_t)sc_tracer.decoder.counts.n_own);
	open_trace();
	sc_capture_file_prepare(sc_tracer.file, &begin, &end);
	atomic_store_explicit(&buffer->frames_begin, begin, memory_order_relaxed);
	atomic_store_explicit(&buffer->frames_end, end, memory_order_release);
	sc_capture_file_write(sc_tracer.file);
	sc_raw_recycle(&sc_tracer.raw, index);
	atomic_store_explicit(&sc_tracer.starved, 0, memory_order_relaxed);
}

static void write_ring(uint32_t index)
{
	struct sc_raw_ring *ring = &sc_tracer.raw.header->rings[index];
	uint32_t owner = atomic_load_explicit(&ring->owner, memory_order_acquire);
	uint64_t at = atomic_load_explicit(&ring->tail, memory_order_relaxed), begin, end;
	const struct sc_host_record *record;

	if (at != atomic_load_explicit(&ring->head, memory_order_acquire)) {
		while ((record = sc_host_ring_read(&sc_tracer.raw, index, &at)))
			sc_decode_host(&sc_tracer.decoder, record);
		open_trace();
		sc_capture_file_prepare(sc_tracer.file, &begin, &end);
		atomic_store_explicit(&ring->next_tail, at, memory_order_relaxed);
		atomic_store_explicit(&ring->frames_begin, begin, memory_order_relaxed);
		atomic_store_explicit(&ring->frames_end, end, memory_order_release);
		sc_capture_file_write(sc_tracer.file);
		atomic_store_explicit(&ring->tail, at, memory_order_release);
		atomic_store_explicit(&sc_tracer.rings_starved, 0, memory_order_relaxed);
		atomic_store_explicit(&ring->frames_end, 0, memory_order_release);
	}
	if (owner == SC_RAW_RING_LEFT)
		atomic_store_explicit(&ring->owner, SC_RAW_RING_FREE, memory_order_release);
}

static bool rings_need_reading(void)
{
	for (int i = 0; i < SC_RAW_RINGS; i++) {
		struct sc_raw_ring *ring = &sc_tracer.raw.header->rings[i];

		if (atomic_load_explicit(&ring->head, memory_order_relaxed) -
			    atomic_load_explicit(&ring->tail, memory_order_relaxed) >
		    RING_EAGER)
			return true;
	}
	return false;
}

static void put_number(const char *key, int64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)value);
	sc_tracer.decoder.sink.meta(sc_tracer.decoder.sink.ctx, key, text);
}

static void put_gap(enum sc_event_class cls, int64_t n, int64_t first_ns, const char *reason)
{
	const int64_t base = sc_tracer.raw.header->base_mono_ns, last_ns = sc_tracer_now_ns();

	if (n)
		sc_tracer.decoder.sink.gap(sc_tracer.decoder.sink.ctx,
					   &(struct sc_trace_gap){(uint8_t)cls, n, first_ns - base,
								  last_ns - base, reason});
}

/* Writes what was lost since the last time. */
static void report_losses(void)
{
	int64_t n_host = (int64_t)atomic_load(&sc_tracer.n_host_lost);
	int64_t since = atomic_exchange(&sc_tracer.lost_since_ns, 0);
	const int64_t n_ended = sc_tracer.decoder.counts.n_ended;

	for (int cls = 0; cls < SC_N_EVENT_CLASSES; cls++)
		put_gap((enum sc_event_class)cls, atomic_exchange(&sc_tracer.lost[cls], 0),
			since ? since : sc_tracer.losses_said_ns, "no buffer was free");
	put_gap(SC_EV_RANGE, n_host - sc_tracer.n_host_said, sc_tracer.losses_said_ns,
		"no room for records of NVTX and NCCL");
	if (n_ended > sc_tracer.n_ended_said)
		put_gap(SC_EV_KERNEL, -1, sc_tracer.losses_said_ns, SC_UNWALKABLE);
	sc_tracer.n_ended_said = n_ended;
	sc_tracer.n_host_said = n_host;
	sc_tracer.losses_said_ns = sc_tracer_now_ns();
}

/* Writes what the recording itself cost and lost so far; the last value of a key holds. */
static void report_overhead(void)
{
	const struct sc_latency *callbacks = &sc_tracer.callbacks;

	report_losses();
	put_number("overhead.writer_cpu_ns", read_clock(CLOCK_THREAD_CPUTIME_ID));
	put_number("overhead.callbacks", (int64_t)callbacks->n);
	put_number("overhead.callback_ns", (int64_t)callbacks->sum_ns);
	put_number("overhead.callback_max_ns", (int64_t)callbacks->max_ns);
	put_number("overhead.waits", (int64_t)sc_tracer.n_waits);
	put_number("overhead.waited_ns", (int64_t)sc_tracer.waited_ns);
	put_number("records.seen", sc_tracer.decoder.counts.n_records);
	put_number("records.unknown_kind", sc_tracer.decoder.counts.n_unknown);
	put_number("records.unwalkable_buffers", sc_tracer.decoder.counts.n_ended);
	put_number("lost.buffers", (int64_t)sc_tracer.n_discarded);
	put_number("lost.host_records", (int64_t)sc_tracer.n_host_lost);
	put_number("lost.unwritten_events", sc_capture_file_lost(sc_tracer.file));
}

struct due {
	int64_t drain_ns, clock_ns, report_ns;
};
static bool is_due(int64_t *at_ns, int64_t now_ns, int64_t every_ns)
{
	if (now_ns < *at_ns)
		return false;
	*at_ns = now_ns + every_ns;
	return true;
}

/* True: there may be more at once. */
static bool write_periodic(struct due *due, bool all)
{
	int64_t now = sc_tracer_now_ns();
	bool busy = rings_need_reading();

	if (sc_capture_file_is_open(sc_tracer.file)) {
		if (atomic_exchange(&sc_tracer.identity_changed, 0)) {
			struct sc_trace_identity identity;

			sc_tracer_identity(&identity);
			sc_capture_file_identity(sc_tracer.file, &identity);
		}
		if (is_due(&due->clock_ns, now, CLOCK_NS) || all)
			add_clock_pair();
		if (is_due(&due->report_ns, now, REPORT_NS) || all)
			report_overhead();
	}
	if (is_due(&due->drain_ns, now, DRAIN_NS) || all || busy)
		for (uint32_t i = 0; i < SC_RAW_RINGS; i++)
			write_ring(i);
	return busy;
}

static void *tracer_writer_run(void *unused)
{
	struct due due = {0};

	for (;;) {
		/* Read before the buffers: what is full by then is written in this round. */
		int stopping = atomic_load(&sc_tracer.stop_writer), index;
		bool busy;

		while ((index = sc_raw_first_full(&sc_tracer.raw)) >= 0) {
			write_buffer((uint32_t)index);
			if (rings_need_reading())
				write_periodic(&due, false);
		}
		/* Those that another client has now come back no more. */
		for (uint32_t i = 0; stopping && atomic_load(&sc_tracer.has_conflict) &&
				     i < sc_tracer.raw.header->n_buffers;
		     i++)
			if (atomic_load(&sc_tracer.raw.header->buffers[i].state) == SC_RAW_LENT)
				write_buffer(i);
		busy = write_periodic(&due, stopping);
		if (stopping)
			break;
		sc_tracer_sleep_us(busy ? BUSY_US : WRITER_POLL_US);
	}
	return unused;
}

enum {
	N_BUFFERS = 16,
	BUFFER_KIB = 2048,
	WAIT_MS = 2000,
	MAX_WAIT_MS = 600000,
	US_PER_S = 1000000,
	POLL_US = 1000,
	FINAL_FLUSH_MS = 4000 /* CUPTI's last flush can hang */
};
enum { FLUSHED = 1, NO_FLUSHER }; /* sc_tracer.flushed */

struct sc_tracer sc_tracer = {.identity_lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of start and stop */
static pthread_mutex_t flusher_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t flusher_wakes;

int64_t sc_tracer_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

void sc_tracer_sleep_us(long us)
{
	struct timespec time = {us / US_PER_S, us % US_PER_S * SC_NS_PER_US};

	nanosleep(&time, NULL);
}

void sc_latency_add(struct sc_latency *latency, int64_t ns)
{
	uint64_t n = ns > 0 ? (uint64_t)ns : 0, max;

	atomic_fetch_add_explicit(&latency->n, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&latency->sum_ns, n, memory_order_relaxed);
	max = atomic_load_explicit(&latency->max_ns, memory_order_relaxed);
	while (n > max && !atomic_compare_exchange_weak(&latency->max_ns, &max, n))
		;
}

/* --- settings --- */

static const char *environment(void *ctx, const char *name)
{
	(void)ctx;
	return getenv(name);
}

static int64_t number_of_env(const char *name, int64_t usual, int64_t min, int64_t max)
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
	for (char *c = sc_tracer.host; *c; c++)
		if (*c == '/' || *c == '.')
			*c = '-';
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

static void wait_for_flush(int64_t ns)
{
	struct timespec due;

	ns += sc_tracer_now_ns();
	due = (struct timespec){ns / SC_NS_PER_S, ns % SC_NS_PER_S};
	pthread_mutex_lock(&flusher_lock);
	while (!atomic_load(&sc_tracer.stop_flusher) &&
	       pthread_cond_timedwait(&flusher_wakes, &flusher_lock, &due) == 0)
		;
	pthread_mutex_unlock(&flusher_lock);
}

static void *flusher_run(void *unused)
{
	atomic_store(&sc_tracer.raw.header->own_tid, (uint32_t)syscall(SYS_gettid));
	while (!atomic_load(&sc_tracer.stop_flusher))
		wait_for_flush(sc_cupti_session_tick());
	sc_cupti_session_stop();
	atomic_store(&sc_tracer.flushed, FLUSHED);
	return unused;
}

/* A child of fork has neither the threads nor CUPTI's: it stays off for good. */
static void in_child(void)
{
	atomic_store(&sc_tracer.state, SC_TRACER_ENDED);
	atomic_store(&sc_tracer.cupti_on, 0);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

/* --- start and stop --- */

void sc_tracer_say_failure(int code, const char *what, const char *why)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s.%s.%d" SC_RAW_FAILED "%s%d", sc_tracer.dir,
		 sc_tracer.run, sc_tracer.host, sc_tracer.pid, what ? "cupti-" : "", code);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd >= 0 && what) /* an empty file fits on a full disk, too */
		dprintf(fd, "%s: %s", what, why);
	if (fd >= 0)
		close(fd);
}

static int make_memory(void)
{
	struct sc_raw_header *header;
	char path[4096];
	uint32_t n = (uint32_t)number_of_env("STEPCAST_BUFFERS", N_BUFFERS, 2, SC_RAW_MAX_BUFFERS);
	uint32_t kib = (uint32_t)number_of_env("STEPCAST_BUFFER_KIB", BUFFER_KIB, 16, 16384);
	struct sc_event_sink sink;
	int rc;

	mkdir(sc_tracer.dir, 0777);
	snprintf(path, sizeof(path), "%s/%s.%s.%d" SC_RAW_SUFFIX, sc_tracer.dir, sc_tracer.run,
		 sc_tracer.host, sc_tracer.pid);
	rc = sc_raw_create(&sc_tracer.raw, path, n, kib << 10);
	if (rc) {
		sc_tracer_say_failure(-rc, NULL, NULL);
		return -1;
	}
	header = sc_tracer.raw.header;
	header->pid = sc_tracer.pid;
	gethostname(header->host, sizeof(header->host) - 1);
	header->run_id = sc_tracer.identity.run_id;
	header->base_mono_ns = sc_tracer_now_ns();
	header->base_utc_ns = sc_tracer.identity.base_utc_ns = read_clock(CLOCK_REALTIME);
	sc_tracer.file = sc_capture_file_create();
	if (!sc_tracer.file)
		return -1;
	sc_capture_file_sink(sc_tracer.file, &sink);
	return sc_decoder_init(&sc_tracer.decoder, &sc_tracer.raw, &sink, true) ? 0 : -1;
}

static int start(void)
{
	const char *range = getenv("STEPCAST_ITERATION_RANGE");
	pthread_condattr_t attr;
	char text[32];
	int rc;

	sc_tracer.pid = (int32_t)getpid();
	sc_tracer.wait_ns =
		number_of_env("STEPCAST_WAIT_MS", WAIT_MS, 0, MAX_WAIT_MS) * SC_NS_PER_MS;
	learn_identity();
	rc = make_memory();
	if (rc == 0)
		start_thread(&sc_tracer.writer, tracer_writer_run, &rc);
	if (rc) {
		if (sc_tracer.raw.header) {
			unlink(sc_tracer.raw.path);
			close(sc_tracer.raw.fd);
		}
		sc_capture_file_destroy(sc_tracer.file);
		sc_decoder_release(&sc_tracer.decoder);
		sc_tracer.file = NULL;
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
	atexit(sc_tracer_stop);
	snprintf(text, sizeof(text), "%lld", (long long)sc_tracer.raw.header->base_mono_ns);
	sc_host_emit_meta("clock.monotonic_base_ns", text);
	if (range && *range)
		sc_host_emit_meta("iteration.range", range);
	return 0;
}

int sc_tracer_start(void)
{
	static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;
	int rc = -1;

	/* Before the lock: in a forked child it may be held by a thread that is not there. */
	pthread_once(&forks_watched, watch_forks);
	if (atomic_load(&sc_tracer.state) != SC_TRACER_OFF)
		return sc_tracer_is_on() ? 0 : -1;
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

/* The last flush, on the flusher's thread, as long as it may take. False: CUPTI has more buffers.
 */
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
		return true;
	default:
		sc_host_emit_gap(
			&(struct sc_trace_gap){SC_EV_KERNEL, -1, begin, sc_tracer_now_ns(),
					       "CUPTI did not return from its last flush"});
		return false;
	}
}

/* The raw file stays if CUPTI has not given everything back: it can be recovered. */
static void finish_file(bool flushed)
{
	bool was_empty = is_empty();
	int rc = sc_capture_file_finish(sc_tracer.file);
	char path[4096];

	sc_tracer.raw.header->write_error = -rc;
	sc_tracer.raw.header->has_ended = 1;
	if (rc == 0 && flushed) {
		unlink(sc_tracer.raw.path);
		close(sc_tracer.raw.fd);
		if (was_empty && *sc_tracer.raw.header->trace_name) {
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
		finish_file(flushed);
	}
	pthread_mutex_unlock(&lock);
}
