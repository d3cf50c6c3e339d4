/* Each thread that has something to say gets a ring; when there are more threads than rings, they
 * share the last one behind a lock. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trace/capture/tracer.h"

enum { SHARED_RING = SC_RAW_RINGS - 1, RETRY_US = 50 };

struct thread {
	int32_t tid;
	int ring; /* -1: none yet */
};
static _Thread_local struct thread this_thread = {.ring = -1};
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

static int32_t own_tid(void)
{
	if (!this_thread.tid)
		this_thread.tid = (int32_t)syscall(SYS_gettid);
	return this_thread.tid;
}

/* The writer frees the ring when it has read it. Destructors that come later may still have
 * something to say: in the ring of all, since this one is another's by then. */
static void leave_ring(void *ring)
{
	this_thread.ring = SHARED_RING;
	if (sc_tracer_is_on())
		atomic_store_explicit(&sc_tracer.raw.header->rings[(uintptr_t)ring - 1].owner,
				      SC_RAW_RING_LEFT, memory_order_release);
}

static void make_key(void)
{
	pthread_key_create(&key, leave_ring);
}

static int claim_ring(void)
{
	pthread_once(&key_once, make_key);
	for (int i = 0; i < SHARED_RING; i++) {
		struct sc_raw_ring *ring = &sc_tracer.raw.header->rings[i];
		uint32_t owner = SC_RAW_RING_FREE;

		if (atomic_compare_exchange_strong(&ring->owner, &owner, SC_RAW_RING_OWNED)) {
			ring->tid = own_tid();
			pthread_setspecific(key, (void *)(uintptr_t)(i + 1));
			return i;
		}
	}
	return SHARED_RING;
}

/* A full ring holds its thread back until the writer has caught up, for a while; after that in
 * vain, no thread again until the writer has moved. */
static void emit_waiting(uint32_t ring, const struct sc_host_record *record, const char *text)
{
	int64_t begin;

	if (sc_host_ring_put(&sc_tracer.raw, ring, record, text))
		return;
	begin = sc_tracer_now_ns();
	while (sc_tracer_is_on() && !atomic_load(&sc_tracer.rings_starved)) {
		sc_tracer_sleep_us(RETRY_US);
		if (sc_host_ring_put(&sc_tracer.raw, ring, record, text))
			return;
		if (sc_tracer_now_ns() - begin >= sc_tracer.wait_ns)
			atomic_store(&sc_tracer.rings_starved, 1);
	}
	atomic_fetch_add_explicit(&sc_tracer.n_host_lost, 1, memory_order_relaxed);
}

void sc_host_emit(struct sc_host_record *record, const char *text, size_t n_text)
{
	if (!sc_tracer_is_on())
		return;
	record->tid = own_tid();
	record->n_text = n_text < SC_HOST_MAX_TEXT ? (uint32_t)n_text : SC_HOST_MAX_TEXT;
	if (this_thread.ring < 0)
		this_thread.ring = claim_ring();
	if (this_thread.ring == SHARED_RING)
		pthread_mutex_lock(&shared_lock);
	emit_waiting((uint32_t)this_thread.ring, record, text);
	if (this_thread.ring == SHARED_RING)
		pthread_mutex_unlock(&shared_lock);
}

void sc_host_emit_meta(const char *meta_key, const char *value)
{
	char text[SC_HOST_MAX_TEXT];
	size_t n_key = strnlen(meta_key, 128), n_value = strnlen(value, sizeof(text) - 130);

	memcpy(text, meta_key, n_key);
	text[n_key] = '\0';
	memcpy(text + n_key + 1, value, n_value);
	sc_host_emit(&(struct sc_host_record){.kind = SC_HOST_META}, text, n_key + 1 + n_value);
}

void sc_host_emit_gap(const struct sc_trace_gap *gap)
{
	sc_host_emit(&(struct sc_host_record){.kind = SC_HOST_GAP,
					      .sub = gap->cls,
					      .start_ns = gap->first_ns,
					      .end_ns = gap->last_ns,
					      .external_id = gap->n},
		     gap->reason, strlen(gap->reason));
}
