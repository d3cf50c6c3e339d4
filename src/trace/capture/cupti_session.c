/* CUPTI's side of a recording: which kinds, with which settings, and the two callbacks through
 * which buffers come and go. The callbacks run in the host's threads: no lock, no allocation, no
 * system call but the waiting under back-pressure. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/units.h"
#include "trace/capture/tracer.h"

enum {
	RETRY_US = 200,
	N_DISCARDS = 2,
	MAX_MISSED = 1 /* calls of a second each that did not come back */
};

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

static const char NO_KERNELS[] = "CUPTI recorded no kernels";

static uint8_t *discards[N_DISCARDS]; /* for records that there is no room for */
static _Atomic uint32_t next_discard;

/* CUPTI's answers so far: to the thread that began, then to the flusher. */
static _Atomic int has_begun;
static bool is_waiting; /* something was refused: once more when cuInit has ended */
static bool is_up;      /* cuInit has ended, as far as is known */
static bool is_per_thread;
static int clock_result = SC_CUPTI_NOT_COMPATIBLE;
static int results[N_KINDS];
static int64_t last_down_ns;
static bool has_called;  /* the driver, in the last round */
static uint64_t n_seen;  /* buffers, at the last round */
static int n_missed;     /* such calls since then */
static int64_t taken_ns; /* up to when the loss to another client is said; 0: there is none */

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
static void lend_buffer(uint8_t **buffer, size_t *size, size_t *max_records)
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

static void receive_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			   size_t valid)
{
	int64_t begin = sc_tracer_now_ns();
	int index = sc_raw_buffer_index(&sc_tracer.raw, buffer);

	(void)context, (void)stream, (void)size;
	if (index >= 0) {
		sc_raw_give(&sc_tracer.raw, (uint32_t)index, (uint32_t)valid,
			    atomic_fetch_add(&sc_tracer.order, 1));
		atomic_store_explicit(&sc_tracer.last_buffer_ns, begin, memory_order_relaxed);
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

/* "CUPTI_ERROR_UNKNOWN (999)" or "error (999)", as a fact of the trace, or, without a key, as the
 * reason why there are no kernels. */
static void emit_result(const char *key, int result)
{
	const struct sc_cupti *cupti = &sc_tracer.cupti;
	const char *text = NULL;
	char words[128];

	if (!cupti->get_result_string || cupti->get_result_string(result, &text) != SC_CUPTI_OK)
		text = NULL;
	snprintf(words, sizeof(words), "%s (%d)", text ? text : "error", result);
	if (key)
		sc_host_emit_meta(key, words);
	else
		sc_tracer_say_failure(result, NO_KERNELS, words);
}

/* For each call of a domain that has a name: its name into the raw file, so that the writer and a
 * recovery need no CUPTI; or, with `enable_call`, off with it if it is a noisy one. */
static void each_call(int domain, int (*enable_call)(uint32_t cbid, uint8_t enable))
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
		if (!enable_call)
			sc_raw_name_put(&sc_tracer.raw, SC_RAW_API_KEY(domain, cbid), text);
		for (size_t i = 0; enable_call && i < sizeof(NOISY) / sizeof(NOISY[0]); i++)
			if (strcmp(text, NOISY[i]) == 0)
				enable_call(cbid, 0);
	}
}

/* All that CUPTI may refuse, the second time as the first; but the timestamp callback is registered
 * once a process: again would corrupt the first records. False: there will be no kernels. */
static bool enable_records(struct sc_cupti *cupti)
{
	struct sc_raw_header *header = sc_tracer.raw.header;
	uint8_t on = 1;
	size_t size = sizeof(on);

	results[0] = cupti->get_version(&cupti->version);
	if (results[0] != SC_CUPTI_OK || !sc_cupti_learn_strides(cupti, header->strides))
		return false;
	if (cupti->set_attribute) {
		cupti->set_attribute(SC_CUPTI_ATTR_ZEROED, &size, &on);
		is_per_thread = cupti->set_attribute(SC_CUPTI_ATTR_PER_THREAD, &size, &on) == 0;
	}
	if (cupti->set_thread_id_type)
		cupti->set_thread_id_type(SC_CUPTI_THREAD_ID_SYSTEM);
	if (cupti->register_timestamp && clock_result != SC_CUPTI_OK)
		clock_result = cupti->register_timestamp(timestamp);
	header->cupti_shift_ns =
		clock_result == SC_CUPTI_OK ? 0 : header->base_utc_ns - header->base_mono_ns;
	results[0] = cupti->register_callbacks(lend_buffer, receive_buffer);
	if (results[0] != SC_CUPTI_OK)
		return false;
	for (int i = 0; i < N_KINDS; i++) {
		results[i] = cupti->enable(KINDS[i].kind);
		if (results[i] == SC_CUPTI_OK)
			atomic_store(&sc_tracer.cupti_on, 1);
	}
	/* After the kinds: enabling one turns all of its calls on again. */
	if (cupti->enable_runtime_api)
		each_call(SC_CUPTI_DOMAIN_RUNTIME, cupti->enable_runtime_api);
	if (cupti->enable_driver_api)
		each_call(SC_CUPTI_DOMAIN_DRIVER, cupti->enable_driver_api);
	if (cupti->enable_all_sync)
		cupti->enable_all_sync(0);
	if (cupti->enable_event_times)
		cupti->enable_event_times(1);
	return results[0] == SC_CUPTI_OK;
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

/* Once all is granted, or refused for good. */
static void emit_session(const struct sc_cupti *cupti)
{
	char text[SC_HOST_MAX_TEXT], key[64], kinds[256] = "";
	size_t n = 0, n_kinds = 0;

	snprintf(text, sizeof(text), "%u", cupti->version);
	sc_host_emit_meta("cupti.version", text);
	sc_host_emit_meta("cupti.library", cupti->path);
	for (int i = 0; i < N_KINDS; i++) {
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s=%u", i ? " " : "",
				      KINDS[i].name, sc_tracer.raw.header->strides[KINDS[i].kind]);
		snprintf(key, sizeof(key), "cupti.not_enabled.%s", KINDS[i].name);
		if (results[i] != SC_CUPTI_OK)
			emit_result(key, results[i]);
		else
			n_kinds += (size_t)snprintf(kinds + n_kinds, sizeof(kinds) - n_kinds,
						    "%s%s", n_kinds ? " " : "", KINDS[i].name);
	}
	sc_host_emit_meta("cupti.strides", text);
	sc_host_emit_meta("cupti.kinds", kinds);
	if (clock_result != SC_CUPTI_OK)
		emit_result("cupti.timestamp_callback", clock_result);
}

bool sc_cupti_session_start(void)
{
	struct sc_cupti *cupti = &sc_tracer.cupti;
	const char *why = NULL;

	if (!sc_cupti_load(cupti))
		why = cupti->path;
	else if (!cupti->get_device_count)
		why = "there is no driver (libcuda.so.1)";
	else if (!make_discards())
		why = "there is no memory for its buffers";
	if (why) {
		sc_host_emit_meta("cupti.missing", why);
		sc_tracer_say_failure(0, NO_KERNELS, why);
		return false;
	}
	each_call(SC_CUPTI_DOMAIN_RUNTIME, NULL);
	each_call(SC_CUPTI_DOMAIN_DRIVER, NULL);
	is_waiting = !enable_records(cupti);
	if (!is_waiting)
		emit_session(cupti);
	atomic_store(&has_begun, 1);
	return true;
}

/* --- while it runs, and the end --- */

/* A call that CUPTI records, to see whether records still come, where there is room for one; and
 * whether cuInit has ended: before that CUPTI is left alone. */
static bool call_driver(void)
{
	const int room = sc_raw_lend(&sc_tracer.raw, 0);
	int n, result = -1;

	if (room >= 0)
		atomic_store(&sc_tracer.raw.header->buffers[room].state, SC_RAW_FREE);
	if (room >= 0 || !is_up)
		result = sc_tracer.cupti.get_device_count(&n);
	if (result == SC_CUDA_NOT_INITIALIZED || result == SC_CUDA_NO_DEVICE)
		last_down_ns = sc_tracer_now_ns();
	else
		is_up = true;
	return result == 0;
}

/* Asks again for what was refused while cuInit was running. */
static void ask_again(void)
{
	struct sc_cupti *cupti = &sc_tracer.cupti;
	char text[96];

	is_waiting = false;
	if (enable_records(cupti))
		sc_host_emit_gap(&(struct sc_trace_gap){SC_EV_KERNEL, -1, last_down_ns,
							sc_tracer_now_ns(),
							"CUPTI was not ready before"});
	else if (results[0] != SC_CUPTI_OK)
		emit_result(NULL, results[0]);
	else if (snprintf(text, sizeof(text), "the sizes of version %u's records are not known",
			  cupti->version))
		sc_tracer_say_failure(0, NO_KERNELS, text);
	emit_session(cupti);
}

static void flush_records(uint32_t flags)
{
	const struct sc_cupti *cupti = &sc_tracer.cupti;
	size_t n = 0;
	int64_t now;

	cupti->flush_all(flags);
	if (!cupti->get_dropped || cupti->get_dropped(NULL, 0, &n) != SC_CUPTI_OK || n == 0)
		return;
	now = sc_tracer_now_ns();
	sc_host_emit_gap(&(struct sc_trace_gap){SC_EV_KERNEL, (int64_t)n, now, now,
						"CUPTI dropped records of all kinds"});
}

/* From the last buffer that came until now, or from when that was said last. */
static void say_taken(void)
{
	const int64_t now = sc_tracer_now_ns(), came_ns = atomic_load(&sc_tracer.last_buffer_ns);
	const int64_t last = came_ns ? came_ns : sc_tracer.raw.header->base_mono_ns;

	if (!taken_ns) {
		sc_host_emit_meta("conflict", SC_TAKEN);
		sc_tracer_say_failure(0, SC_TAKEN, "torch.profiler, or the like, in the program");
	}
	sc_host_emit_gap(&(struct sc_trace_gap){SC_EV_KERNEL, -1, taken_ns ? taken_ns : last, now,
						SC_TAKEN});
	taken_ns = now;
	atomic_store(&sc_tracer.has_conflict, 1);
}

/* Takes what came since the last round; with CUPTI's answer to the call that was made then, alone
 * in its buffer. */
static void flush_and_watch(uint32_t flags, int may_miss)
{
	uint64_t n;

	flush_records(flags);
	n = atomic_load(&sc_tracer.n_completed);
	n_missed = n == n_seen ? n_missed + has_called : 0;
	n_seen = n;
	/* Another client (torch.profiler) has the callbacks, if such records came before. */
	if (n_missed > may_miss && atomic_load(&sc_tracer.n_own_calls) > 0)
		say_taken();
}

int64_t sc_cupti_session_tick(void)
{
	const int64_t part_ns = (sc_tracer_now_ns() - sc_tracer.raw.header->base_mono_ns) / 256;

	if (atomic_load(&has_begun) && !is_up)
		call_driver();
	if (!is_up) /* what is missed by that is a small part of what cuInit took */
		return part_ns < SC_NS_PER_S ? part_ns + SC_NS_PER_MS : SC_NS_PER_S;
	if (is_waiting)
		ask_again();
	if (!atomic_load(&sc_tracer.cupti_on))
		return SC_NS_PER_S;
	/* If threads share buffers, one that fills has records to wait for. */
	flush_and_watch(0, is_per_thread && !taken_ns ? MAX_MISSED : INT_MAX);
	has_called = call_driver();
	return SC_NS_PER_S;
}

static bool has_lent_buffer(void)
{
	const struct sc_raw_header *header = sc_tracer.raw.header;
	uint32_t i = 0;

	while (i < header->n_buffers && atomic_load(&header->buffers[i].state) != SC_RAW_LENT)
		i++;
	return i < header->n_buffers;
}

void sc_cupti_session_stop(void)
{
	if (!atomic_load(&has_begun))
		return;
	n_seen = atomic_load(&sc_tracer.n_completed);
	call_driver();
	if (is_up && is_waiting)
		ask_again();
	if (!is_up || !atomic_load(&sc_tracer.cupti_on))
		return;
	flush_records(0); /* what is finished comes even if the rest does not */
	for (int i = 0; i < N_KINDS; i++)
		sc_tracer.cupti.disable(KINDS[i].kind);
	flush_records(SC_CUPTI_FLUSH_FORCED);
	/* CUPTI asked for room, and gave nothing back though it was forced to. */
	if (atomic_load(&sc_tracer.n_completed) == n_seen && has_lent_buffer())
		say_taken();
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
