/* The writer's thread: turns full buffers and rings into frames, writes them, gives the memory back.
 * It never calls CUPTI, which may hold a lock that waits for a buffer. */
#include <stdio.h>
#include <string.h>

#include "trace/capture/tracer.h"

enum {
	POLL_US = 25000,
	BUSY_US = 200,        /* while rings fill faster than they are read */
	DRAIN_NS = 100000000, /* rings are read at least so often */
	CLOCK_NS = 1000000000,
	REPORT_NS = 2000000000,
	RING_EAGER = SC_RAW_RING_BYTES / 4,
	N_CLOCK_TRIES = 5
};

static void open_trace(void)
{
	struct sc_raw_header *header = sc_tracer.raw.header;
	struct sc_trace_identity identity;
	char name[SC_RAW_TRACE_NAME], rank[16] = "x", path[4096];

	/* A process in which nothing happens leaves no file. */
	if (sc_capture_file_is_open(sc_tracer.file) || sc_tracer.decoder.counts.n_events == 0)
		return;
	sc_tracer_identity(&identity);
	if (identity.rank >= 0)
		snprintf(rank, sizeof(rank), "%d", identity.rank);
	snprintf(name, sizeof(name), "%s.%s.%s.%d" SC_TRACE_SUFFIX, sc_tracer.run, sc_tracer.host,
		 rank, sc_tracer.pid);
	snprintf(path, sizeof(path), "%s/%s", sc_tracer.dir, name);
	/* The name first: a trace without a name in the raw file would be taken for another's. */
	memcpy(header->trace_name, name, sizeof(name));
	sc_capture_file_open(sc_tracer.file, path, &identity, header->base_utc_ns);
}

/* Bracketed by our clock; the narrowest of a few. */
static void add_clock_pair(void)
{
	int64_t best_width = INT64_MAX, best_mono = 0, best_utc = 0;

	for (int i = 0; i < N_CLOCK_TRIES; i++) {
		int64_t before = sc_tracer_now_ns(), utc = sc_tracer_utc_ns();
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
	uint64_t begin, end;

	sc_decode_buffer(&sc_tracer.decoder, sc_raw_buffer_at(&sc_tracer.raw, index),
			 buffer->valid_bytes, false);
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

/* What was lost since the last time. */
static void report_losses(void)
{
	int64_t n_host = (int64_t)atomic_load(&sc_tracer.n_host_lost);
	int64_t since = atomic_exchange(&sc_tracer.lost_since_ns, 0);

	for (int cls = 0; cls < SC_N_EVENT_CLASSES; cls++)
		put_gap((enum sc_event_class)cls, atomic_exchange(&sc_tracer.lost[cls], 0),
			since ? since : sc_tracer.losses_said_ns, "no buffer was free");
	put_gap(SC_EV_RANGE, n_host - sc_tracer.n_host_said, sc_tracer.losses_said_ns,
		"no room for records of NVTX and NCCL");
	sc_tracer.n_host_said = n_host;
	sc_tracer.losses_said_ns = sc_tracer_now_ns();
}

/* What the recording itself cost and lost so far; the last value of a key holds. */
static void report(void)
{
	const struct sc_latency *callbacks = &sc_tracer.callbacks;

	report_losses();
	sc_tracer.writer_cpu_ns = sc_tracer_thread_cpu_ns();
	put_number("overhead.writer_cpu_ns", sc_tracer.writer_cpu_ns);
	put_number("overhead.callbacks", (int64_t)callbacks->n);
	put_number("overhead.callback_ns", (int64_t)callbacks->sum_ns);
	put_number("overhead.callback_p99_ns", sc_latency_percentile_ns(callbacks, 99));
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
			sc_capture_file_identity(sc_tracer.file, &identity,
						 sc_tracer.raw.header->base_utc_ns);
		}
		if (is_due(&due->clock_ns, now, CLOCK_NS) || all)
			add_clock_pair();
		if (is_due(&due->report_ns, now, REPORT_NS) || all)
			report();
	}
	if (is_due(&due->drain_ns, now, DRAIN_NS) || all || busy) {
		for (uint32_t i = 0; i < SC_RAW_RINGS; i++)
			write_ring(i);
	}
	return busy;
}

void *sc_tracer_writer_run(void *unused)
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
		busy = write_periodic(&due, stopping);
		if (stopping)
			break;
		sc_tracer_sleep_us(busy ? BUSY_US : POLL_US);
	}
	return unused;
}
