/* CUPTI's side of a recording: which kinds, with which settings, and the two callbacks through which
 * buffers come and go. The callbacks run in the host's threads: no lock, no allocation, no system call
 * but the waiting under back-pressure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "trace/capture/tracer.h"

enum { RETRY_US = 200, N_DISCARDS = 2 };

static const struct {
	int kind;
	const char *name;
} KINDS[] = {
	{SC_CUPTI_KERNEL, "kernel"},     {SC_CUPTI_MEMCPY, "memcpy"},
	{SC_CUPTI_MEMCPY_P2P, "p2p"},    {SC_CUPTI_MEMSET, "memset"},
	{SC_CUPTI_RUNTIME, "runtime"},   {SC_CUPTI_DRIVER, "driver"},
	{SC_CUPTI_SYNC, "sync"},         {SC_CUPTI_CUDA_EVENT, "event"},
	{SC_CUPTI_EXTERNAL, "external"}, {SC_CUPTI_OVERHEAD, "overhead"},
};
enum { N_KINDS = sizeof(KINDS) / sizeof(KINDS[0]) };

/* Calls that say nothing and come by the thousand: a third of the records of a real run. */
static const char *const NOISY[] = {
	"cudaGetDevice",        "cudaSetDevice",          "cudaGetLastError",
	"cudaPeekAtLastError",  "cudaEventDestroy",       "cudaStreamIsCapturing",
	"cudaEventCreate",      "cuCtxGetCurrent",        "cudaEventCreateWithFlags",
	"cuCtxGetDevice",       "cuPointerGetAttribute",  "cuDevicePrimaryCtxGetState",
	"cuKernelGetAttribute", "cuPointerGetAttributes",
};

static uint8_t *discards[N_DISCARDS]; /* for records that there is no room for */
static _Atomic uint32_t next_discard;

/* --- the callbacks --- */

static int wait_for_buffer(uint32_t start)
{
	int64_t begin = sc_tracer_now_ns(), waited = 0;
	int index = -1;

	atomic_fetch_add_explicit(&sc_tracer.n_waits, 1, memory_order_relaxed);
	while (index < 0 && sc_tracer_is_on() && waited < sc_tracer.wait_ns) {
		sc_tracer_sleep_us(RETRY_US);
		index = sc_raw_lend(&sc_tracer.raw, start);
		waited = sc_tracer_now_ns() - begin;
	}
	atomic_fetch_add_explicit(&sc_tracer.waited_ns, (uint64_t)waited, memory_order_relaxed);
	if (index < 0)
		atomic_store(&sc_tracer.starved, 1);
	return index;
}

/* Without room, into a buffer that is thrown away: a null one would crash libraries before 12.9. */
static void request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	int64_t begin = sc_tracer_now_ns(), none = 0;
	uint32_t start =
		(uint32_t)atomic_load_explicit(&sc_tracer.n_completed, memory_order_relaxed);
	int index = sc_tracer_is_on() ? sc_raw_lend(&sc_tracer.raw, start) : -1;

	*max_records = 0;
	*size = sc_tracer.raw.header->buffer_bytes;
	sc_latency_add(&sc_tracer.callbacks, sc_tracer_now_ns() - begin);
	if (index < 0 && sc_tracer_is_on() && !atomic_load(&sc_tracer.starved))
		index = wait_for_buffer(start);
	if (index >= 0) {
		*buffer = sc_raw_buffer_at(&sc_tracer.raw, (uint32_t)index);
		return;
	}
	atomic_compare_exchange_strong(&sc_tracer.lost_since_ns, &none, begin);
	*buffer = discards[atomic_fetch_add(&next_discard, 1) % N_DISCARDS];
}

static void count_discarded(const uint8_t *buffer, size_t valid)
{
	int64_t counts[SC_N_EVENT_CLASSES] = {0};

	sc_count_records(&sc_tracer.raw, buffer, valid, counts);
	for (int cls = 0; cls < SC_N_EVENT_CLASSES; cls++) {
		if (counts[cls])
			atomic_fetch_add_explicit(&sc_tracer.lost[cls], counts[cls],
						  memory_order_relaxed);
	}
	atomic_fetch_add_explicit(&sc_tracer.n_discarded, 1, memory_order_relaxed);
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	int64_t begin = sc_tracer_now_ns();
	int index = sc_raw_buffer_index(&sc_tracer.raw, buffer);

	(void)context, (void)stream, (void)size;
	if (index >= 0) {
		sc_raw_give(&sc_tracer.raw, (uint32_t)index, (uint32_t)valid,
			    atomic_fetch_add(&sc_tracer.order, 1));
		atomic_fetch_add_explicit(&sc_tracer.n_completed, 1, memory_order_relaxed);
	} else if (valid) {
		count_discarded(buffer, valid);
	}
	sc_latency_add(&sc_tracer.callbacks, sc_tracer_now_ns() - begin);
}

static uint64_t timestamp(void)
{
	return (uint64_t)sc_tracer_now_ns();
}

/* --- start --- */

/* "CUPTI_ERROR_UNKNOWN" or "error 999". */
static void say(const char *what, int result)
{
	const struct sc_cupti *cupti = &sc_tracer.cupti;
	const char *text = NULL;
	char number[32];

	snprintf(number, sizeof(number), "error %d", result);
	if (!cupti->get_result_string || cupti->get_result_string(result, &text) != SC_CUPTI_OK)
		text = NULL;
	sc_host_emit_meta(what, text ? text : number);
}

/* Names of all calls into the raw file, so that the writer and a recovery need no CUPTI; the noisy
 * ones are switched off. */
static void learn_calls(int domain, int (*enable_call)(uint32_t cbid, uint8_t enable))
{
	const struct sc_cupti *cupti = &sc_tracer.cupti;
	enum { MAX_CBID = 4096 };

	for (uint32_t cbid = 1; cupti->get_callback_name && cbid < MAX_CBID; cbid++) {
		const char *name = NULL;
		char text[256];
		size_t n;

		if (cupti->get_callback_name(domain, cbid, &name) != SC_CUPTI_OK || !name)
			break;
		n = sc_api_name_length(name);
		snprintf(text, sizeof(text), "%.*s", (int)n, name);
		sc_raw_name_put(&sc_tracer.raw, SC_RAW_API_KEY(domain, cbid), text);
		for (size_t i = 0; enable_call && i < sizeof(NOISY) / sizeof(NOISY[0]); i++) {
			if (strcmp(text, NOISY[i]) == 0)
				enable_call(cbid, 0);
		}
	}
}

/* All before kinds are enabled. The timestamp callback is registered once a process: again would
 * corrupt the first records. */
static void set_up(const struct sc_cupti *cupti)
{
	uint8_t zeroed = 1;
	size_t size = sizeof(zeroed);
	int result = SC_CUPTI_NOT_COMPATIBLE;

	if (cupti->set_attribute)
		cupti->set_attribute(SC_CUPTI_ATTR_ZEROED, &size, &zeroed);
	if (cupti->set_thread_id_type)
		cupti->set_thread_id_type(SC_CUPTI_THREAD_ID_SYSTEM);
	if (cupti->register_timestamp)
		result = cupti->register_timestamp(timestamp);
	if (result != SC_CUPTI_OK) {
		struct sc_raw_header *header = sc_tracer.raw.header;

		header->cupti_shift_ns = header->base_utc_ns - header->base_mono_ns;
		say("cupti.timestamp_callback", result);
	}
}

static int enable_kinds(const struct sc_cupti *cupti)
{
	char enabled[256] = "";
	int n = 0;

	for (int i = 0; i < N_KINDS; i++) {
		char key[64];
		int result = cupti->enable(KINDS[i].kind);

		if (result == SC_CUPTI_OK) {
			size_t used = strlen(enabled);

			snprintf(enabled + used, sizeof(enabled) - used, "%s%s", n++ ? " " : "",
				 KINDS[i].name);
			continue;
		}
		snprintf(key, sizeof(key), "cupti.not_enabled.%s", KINDS[i].name);
		say(key, result);
	}
	sc_host_emit_meta("cupti.kinds", enabled);
	return n;
}

static bool make_discards(void)
{
	size_t n = sc_tracer.raw.header->buffer_bytes;

	for (int i = 0; i < N_DISCARDS; i++) {
		void *map =
			mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (map == MAP_FAILED)
			return false;
		discards[i] = map;
	}
	return true;
}

static void describe(const struct sc_cupti *cupti)
{
	char text[SC_HOST_MAX_TEXT];
	size_t n = 0;

	snprintf(text, sizeof(text), "%u", cupti->version);
	sc_host_emit_meta("cupti.version", text);
	sc_host_emit_meta("cupti.library", cupti->path);
	text[0] = '\0';
	for (int i = 0; i < N_KINDS && n < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s=%u", i ? " " : "",
				      KINDS[i].name, sc_tracer.raw.header->strides[KINDS[i].kind]);
	sc_host_emit_meta("cupti.strides", text);
}

bool sc_cupti_session_start(void)
{
	struct sc_cupti *cupti = &sc_tracer.cupti;
	int result;

	if (!sc_cupti_load(cupti) || !make_discards()) {
		sc_host_emit_meta("cupti.missing", cupti->path);
		return false;
	}
	sc_cupti_learn_strides(cupti, sc_tracer.raw.header->strides);
	set_up(cupti);
	learn_calls(SC_CUPTI_DOMAIN_RUNTIME, cupti->enable_runtime_api);
	learn_calls(SC_CUPTI_DOMAIN_DRIVER, cupti->enable_driver_api);
	result = cupti->register_callbacks(request, complete);
	if (result != SC_CUPTI_OK) {
		say("cupti.not_registered", result);
		return false;
	}
	if (enable_kinds(cupti) == 0)
		return false;
	if (cupti->enable_all_sync)
		cupti->enable_all_sync(0);
	describe(cupti);
	atomic_store(&sc_tracer.cupti_on, 1);
	return true;
}

/* --- while it runs, and the end --- */

void sc_cupti_session_flush(bool forced)
{
	const struct sc_cupti *cupti = &sc_tracer.cupti;
	size_t n = 0;
	int64_t now;

	if (!atomic_load(&sc_tracer.cupti_on))
		return;
	cupti->flush_all(forced ? SC_CUPTI_FLUSH_FORCED : 0);
	if (!cupti->get_dropped || cupti->get_dropped(NULL, 0, &n) != SC_CUPTI_OK || n == 0)
		return;
	now = sc_tracer_now_ns();
	sc_host_emit_gap(&(struct sc_trace_gap){SC_EV_KERNEL, (int64_t)n, now, now,
						"CUPTI dropped records of all kinds"});
}

void sc_cupti_session_stop(void)
{
	for (int i = 0; atomic_load(&sc_tracer.cupti_on) && i < N_KINDS; i++)
		sc_tracer.cupti.disable(KINDS[i].kind);
}

void sc_cupti_session_push_id(uint64_t id)
{
	if (atomic_load_explicit(&sc_tracer.cupti_on, memory_order_relaxed) &&
	    sc_tracer.cupti.push_external)
		sc_tracer.cupti.push_external(SC_CUPTI_CUSTOM2, id);
}

void sc_cupti_session_pop_id(void)
{
	uint64_t last;

	if (atomic_load_explicit(&sc_tracer.cupti_on, memory_order_relaxed) &&
	    sc_tracer.cupti.pop_external)
		sc_tracer.cupti.pop_external(SC_CUPTI_CUSTOM2, &last);
}
