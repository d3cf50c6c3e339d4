/* FAKE_CUPTI is a list of these, with commas:
 * old: the records of CUDA 11.0
 * none: no kind at all, for the reason FAKE_CUPTI_RESULT (999)
 * hang: a last flush that does not return
 * foreign: GetNextRecord refuses buffers that are not its own
 * thief: a second client, as Kineto, takes the buffers and the clock at launch 1,000 and finalizes
 * CUPTI at 2,000 dropped: seven records are dropped before launch 1,000 incomplete: kernels take
 * 0.3 s; some records are reserved at their launch and written at their end, and a plain flush
 *   returns only buffers whose records are all complete
 * late: nothing but names until cuInit has ended (15)
 * FAKE_CUPTI_VERSION: what GetVersion says. */
#include "capture/fake_cupti.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "trace/capture/cupti_abi.h"

enum {
	MAX_THREADS = 64,
	N_SAMPLES = 1 << 16,
	MAX_CBID = 64,
	MAX_PENDING = 1 << 12,
	KERNEL_NS = 300000000, /* of an incomplete one */
	TAKEN_AT = 1000,
	FINALIZED_AT = 2000,
	N_DROPPED = 7,
	INVALID_PARAMETER = 1,
	NOT_INITIALIZED = 15,
	CBID_IS_CAPTURING = 3
};

int cuptiGetVersion(uint32_t *version);
int cuptiActivityRegisterCallbacks(sc_cupti_request_fn request, sc_cupti_complete_fn complete);
int cuptiActivityEnable(int kind);
int cuptiActivityDisable(int kind);
int cuptiActivityFlushAll(uint32_t flags);
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record);
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *n);
int cuptiActivityRegisterTimestampCallback(sc_cupti_timestamp_fn now);
int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id);
int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last);
int cuptiActivitySetAttribute(int attribute, size_t *size, void *value);
int cuptiSetThreadIdType(int type);
int cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t enable);
int cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t enable);
int cuptiActivityEnableAllSyncRecords(uint8_t enable);
int cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable);
int cuptiFinalize(void);
int cuptiGetCallbackName(int domain, uint32_t cbid, const char **name);
int cuptiGetResultString(int result, const char **text);

/* A record whose place is reserved. */
struct pending {
	struct sc_cupti_kernel record;
	uint8_t *at;
};
struct slot {
	pthread_mutex_t lock;
	uint8_t *buffer;
	size_t size, used;
	uint64_t complete_ns; /* when the last of the buffer's records is */
	struct pending *pending;
	unsigned n_pending, n_written;
};
static struct slot slots[MAX_THREADS];
static _Atomic unsigned n_slots = 1; /* the first: what a device tells, and waits */
static _Thread_local struct slot *mine;
static _Thread_local uint64_t external[16];
static _Thread_local unsigned n_external;
static _Thread_local uint32_t tid;
static _Atomic(sc_cupti_request_fn) request;
static _Atomic(sc_cupti_complete_fn) complete;
static _Atomic(sc_cupti_timestamp_fn) now;
static _Atomic uint64_t enabled;
static _Atomic bool is_off[2][MAX_CBID]; /* calls of the runtime and of the driver */
static _Atomic bool all_syncs = true, event_times, zeroed_by_client, system_tids;
static _Atomic long n_dropped;
static pthread_mutex_t stats_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_stats stats;
static _Atomic uint64_t n_records;
static uint64_t samples[N_SAMPLES];

static const char *const NAMES[FAKE_N_NAMES] = {
	"ampere_sgemm_128x64_nn",
	"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15FillFunctorIfEE",
	"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
	"volta_fp16_s884gemm",
	"softmax_warp_forward",
	"layer_norm_kernel",
	"embedding_lookup",
	"x",
};

static uint64_t clock_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static bool is_mode(const char *mode)
{
	const char *have = getenv("FAKE_CUPTI");
	const size_t n = strlen(mode);

	for (; have && *have; have += strcspn(have, ","), have += *have == ',')
		if (strncmp(have, mode, n) == 0 && (have[n] == ',' || !have[n]))
			return true;
	return false;
}

/* Read once: it is asked at every launch. */
static bool in_mode(bool *cache, bool *is_known, const char *mode)
{
	if (!*is_known)
		*cache = is_mode(mode);
	*is_known = true;
	return *cache;
}
#define MODE(name)                                         \
	static bool name##_mode(void)                      \
	{                                                  \
		static _Thread_local bool cache, is_known; \
		return in_mode(&cache, &is_known, #name);  \
	}
MODE(old)
MODE(incomplete)
MODE(thief)
MODE(dropped)

static bool cuda_is_up(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *found = cuda ? dlsym(cuda, "fake_cuda_is_up") : NULL;
	int (*is_up)(void) = NULL;

	memcpy(&is_up, &found, sizeof(is_up));
	return is_up && is_up();
}

/* What a call returns that has nothing else against it. */
static int ready(void)
{
	return is_mode("late") && !cuda_is_up() ? NOT_INITIALIZED : SC_CUPTI_OK;
}

static size_t size_of(uint32_t kind)
{
	const bool old = old_mode();

	switch (kind) {
	case SC_CUPTI_KERNEL:
		return old ? 160 : sizeof(struct sc_cupti_kernel);
	case SC_CUPTI_MEMCPY:
		return old ? 72 : sizeof(struct sc_cupti_memcpy);
	case SC_CUPTI_MEMCPY_P2P:
		return old ? 80 : sizeof(struct sc_cupti_memcpy_p2p);
	case SC_CUPTI_MEMSET:
		return old ? 72 : sizeof(struct sc_cupti_memset);
	case SC_CUPTI_RUNTIME:
	case SC_CUPTI_DRIVER:
		return sizeof(struct sc_cupti_api);
	case SC_CUPTI_SYNC:
		return old ? 40 : sizeof(struct sc_cupti_sync);
	case SC_CUPTI_CUDA_EVENT:
		return old ? 24 : sizeof(struct sc_cupti_event);
	case SC_CUPTI_EXTERNAL:
		return sizeof(struct sc_cupti_external);
	case SC_CUPTI_OVERHEAD:
		return old ? 40 : sizeof(struct sc_cupti_overhead);
	default:
		return 0;
	}
}

/* --- CUPTI's calls --- */

int cuptiGetVersion(uint32_t *version)
{
	const char *said = getenv("FAKE_CUPTI_VERSION");

#ifdef FAKE_CRASHES_WITHOUT_DRIVER
	abort();
#endif
	*version = said ? (uint32_t)atoi(said) : is_mode("old") ? 13 : 130001;
	return SC_CUPTI_OK;
}

#ifdef FAKE_CRASHES_WITHOUT_DRIVER
int cuptiActivityEnable_v2(void *subscriber, int kind, const void *config);
int cuptiActivityEnable_v2(void *subscriber, int kind, const void *config)
{
	(void)subscriber, (void)kind, (void)config;
	return SC_CUPTI_UNKNOWN;
}
#endif

int cuptiActivitySetAttribute(int attribute, size_t *size, void *value)
{
	const bool is_zeroed = attribute == SC_CUPTI_ATTR_ZEROED;

	/* Buffers of each thread's own are asked for before the callbacks, by libraries that know
	 * it. */
	if (*size != sizeof(uint8_t) ||
	    (!is_zeroed && (attribute != SC_CUPTI_ATTR_PER_THREAD || is_mode("old") || request)))
		return INVALID_PARAMETER;
	if (is_zeroed)
		zeroed_by_client = *(const uint8_t *)value;
	return ready();
}

int cuptiSetThreadIdType(int type)
{
	system_tids = type == SC_CUPTI_THREAD_ID_SYSTEM;
	return ready();
}

int cuptiActivityRegisterCallbacks(sc_cupti_request_fn request_fn, sc_cupti_complete_fn complete_fn)
{
	if (ready() != SC_CUPTI_OK)
		return ready();
	request = request_fn;
	complete = complete_fn;
	return SC_CUPTI_OK;
}

/* A kind of calls "overrides the settings" of single ones. */
int cuptiActivityEnable(int kind)
{
	const char *result = getenv("FAKE_CUPTI_RESULT");

	if (is_mode("none"))
		return result ? atoi(result) : SC_CUPTI_UNKNOWN;
	if (ready() != SC_CUPTI_OK)
		return ready();
	for (int i = 0; i < MAX_CBID; i++)
		if (kind == SC_CUPTI_RUNTIME || kind == SC_CUPTI_DRIVER)
			is_off[kind == SC_CUPTI_DRIVER][i] = false;
	enabled |= UINT64_C(1) << kind;
	return SC_CUPTI_OK;
}

int cuptiActivityDisable(int kind)
{
	enabled &= ~(UINT64_C(1) << kind);
	return SC_CUPTI_OK;
}

static int enable_call(bool of_driver, uint32_t cbid, uint8_t enable)
{
	if (cbid >= MAX_CBID)
		return INVALID_PARAMETER;
	is_off[of_driver][cbid] = !enable;
	return ready();
}

int cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t enable)
{
	return enable_call(false, cbid, enable);
}

int cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t enable)
{
	return enable_call(true, cbid, enable);
}

int cuptiActivityEnableAllSyncRecords(uint8_t enable)
{
	all_syncs = enable;
	return ready();
}

int cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable)
{
	event_times = enable;
	return ready();
}

int cuptiFinalize(void)
{
	enabled = 0;
	request = NULL;
	complete = NULL;
	now = NULL;
	return SC_CUPTI_OK;
}

static bool is_own(const uint8_t *buffer)
{
	for (unsigned i = 0; i < n_slots; i++)
		if (slots[i].buffer == buffer)
			return true;
	return false;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record)
{
	uint8_t *at = *record ? (uint8_t *)*record : buffer;
	uint32_t kind;

	if (ready() != SC_CUPTI_OK || (is_mode("foreign") && !is_own(buffer)))
		return SC_CUPTI_UNKNOWN;
	if (*record) {
		memcpy(&kind, at, sizeof(kind));
		at += size_of(kind);
	}
	if ((size_t)(at - buffer) + sizeof(uint64_t) > valid)
		return 12;
	memcpy(&kind, at, sizeof(kind));
	if (!size_of(kind))
		return 21;
	if ((size_t)(at - buffer) + size_of(kind) > valid)
		return 12;
	*record = at;
	return SC_CUPTI_OK;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *n)
{
	(void)context, (void)stream;
	*n = (size_t)atomic_exchange(&n_dropped, 0);
	return SC_CUPTI_OK;
}

int cuptiActivityRegisterTimestampCallback(sc_cupti_timestamp_fn fn)
{
	if (ready() == SC_CUPTI_OK)
		now = fn;
	return ready();
}

int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id)
{
	(void)kind;
	if (n_external < 16)
		external[n_external++] = id;
	return SC_CUPTI_OK;
}

int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last)
{
	(void)kind;
	if (n_external)
		*last = external[--n_external];
	return SC_CUPTI_OK;
}

int cuptiGetCallbackName(int domain, uint32_t cbid, const char **name)
{
	static const char *const names[] = {NULL,
					    "cudaLaunchKernel_v7000",
					    "cudaMemcpyAsync_v3020",
					    "cudaStreamIsCapturing_ptsz_v10000",
					    "cudaEventRecord_v3020",
					    "cudaStreamWaitEvent_v3020",
					    "cudaStreamSynchronize_v3020"};
	static const char *const of_driver[] = {NULL, "cuInit", "cuDriverGetVersion", "cuDeviceGet",
						"cuDeviceGetCount"};

	if (domain == SC_CUPTI_DOMAIN_DRIVER && cbid &&
	    cbid < sizeof(of_driver) / sizeof(of_driver[0])) {
		*name = of_driver[cbid];
		return SC_CUPTI_OK;
	}
	if (domain != SC_CUPTI_DOMAIN_RUNTIME || cbid == 0 ||
	    cbid >= sizeof(names) / sizeof(names[0]))
		return 1;
	*name = names[cbid];
	return SC_CUPTI_OK;
}

int cuptiGetResultString(int result, const char **text)
{
	*text = result == SC_CUPTI_UNKNOWN  ? "CUPTI_ERROR_UNKNOWN"
		: result == NOT_INITIALIZED ? "CUPTI_ERROR_NOT_INITIALIZED"
					    : "CUPTI_ERROR";
	return SC_CUPTI_OK;
}

/* --- buffers --- */

static void sample(uint64_t ns)
{
	pthread_mutex_lock(&stats_lock);
	samples[stats.n_callbacks++ % N_SAMPLES] = ns;
	stats.sum_ns += ns;
	if (ns > stats.max_ns)
		stats.max_ns = ns;
	pthread_mutex_unlock(&stats_lock);
}

/* What ended by then gets into its place. */
static void write_pending(struct slot *slot, uint64_t by_ns)
{
	for (; slot->n_written < slot->n_pending &&
	       slot->pending[slot->n_written].record.end <= by_ns;
	     slot->n_written++)
		memcpy(slot->pending[slot->n_written].at, &slot->pending[slot->n_written].record,
		       sizeof(struct sc_cupti_kernel));
}

static void give_back(struct slot *slot)
{
	uint64_t begin = clock_ns();

	if (!slot->buffer)
		return;
	write_pending(slot, UINT64_MAX);
	slot->n_pending = slot->n_written = 0;
	if (complete)
		complete(NULL, 0, slot->buffer, slot->size, slot->used);
	slot->buffer = NULL;
	sample(clock_ns() - begin);
}

int cuptiActivityFlushAll(uint32_t flags)
{
	while ((flags & SC_CUPTI_FLUSH_FORCED) && is_mode("hang"))
		pause();
	if (!cuda_is_up()) {
		pthread_mutex_lock(&stats_lock);
		stats.n_early_flushes++;
		pthread_mutex_unlock(&stats_lock);
	}
	for (unsigned i = 0; i < n_slots; i++) {
		pthread_mutex_lock(&slots[i].lock);
		write_pending(&slots[i], clock_ns());
		if ((flags & SC_CUPTI_FLUSH_FORCED) || slots[i].complete_ns <= clock_ns())
			give_back(&slots[i]);
		pthread_mutex_unlock(&slots[i].lock);
	}
	return SC_CUPTI_OK;
}

__attribute__((constructor)) static void make_slots(void)
{
	for (int i = 0; i < MAX_THREADS; i++)
		pthread_mutex_init(&slots[i].lock, NULL);
}

static struct slot *my_slot(void)
{
	if (!mine) {
		mine = &slots[n_slots++];
		tid = (uint32_t)syscall(SYS_gettid);
	}
	return mine;
}

static void put_locked(struct slot *slot, const void *record, size_t n)
{
	if (slot->buffer && slot->size - slot->used < n)
		give_back(slot);
	if (!request)
		return;
	if (!slot->buffer) {
		uint64_t begin = clock_ns();
		size_t max = 0;

		request(&slot->buffer, &slot->size, &max);
		slot->used = 0;
		slot->complete_ns = 0;
		if (!zeroed_by_client)
			memset(slot->buffer, 0, slot->size);
		sample(clock_ns() - begin);
	}
	memcpy(slot->buffer + slot->used, record, n);
	slot->used += n;
	n_records++;
}

static void put(struct slot *slot, const void *record)
{
	uint32_t kind;

	memcpy(&kind, record, sizeof(kind));
	if (enabled >> kind & 1)
		put_locked(slot, record, size_of(kind));
}

static void put_call(struct slot *slot, const struct sc_cupti_api *api)
{
	if (!is_off[api->kind == SC_CUPTI_DRIVER][api->cbid])
		put(slot, api);
}

/* Every other one only reserves its place. */
static void put_long_kernel(struct slot *slot, const struct sc_cupti_kernel *kernel)
{
	static const struct sc_cupti_kernel nothing;
	const uint64_t end_ns = clock_ns() + KERNEL_NS;

	if (!slot->pending)
		slot->pending = calloc(MAX_PENDING, sizeof(*slot->pending));
	write_pending(slot, clock_ns());
	if (!(enabled >> SC_CUPTI_KERNEL & 1))
		return;
	if (kernel->correlation % 16 || !slot->buffer || slot->n_pending == MAX_PENDING ||
	    slot->size - slot->used < sizeof(nothing)) {
		put(slot, kernel);
	} else {
		slot->pending[slot->n_pending] =
			(struct pending){*kernel, slot->buffer + slot->used};
		/* Its duration is what the reader expects, its end when it is written. */
		slot->pending[slot->n_pending].record.start += end_ns - kernel->end;
		slot->pending[slot->n_pending++].record.end = end_ns;
		put_locked(slot, &nothing, sizeof(nothing));
	}
	slot->complete_ns = end_ns;
}

/* --- a second client --- */

static void thief_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	*size = 1 << 16;
	*buffer = calloc(1, *size);
	*max_records = 0;
}

static void thief_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			   size_t valid)
{
	(void)context, (void)stream, (void)buffer, (void)size, (void)valid;
}

static uint64_t thief_now(void)
{
	return clock_ns() + 1000000000000;
}

static void second_client(uint32_t number)
{
	if (number == TAKEN_AT && thief_mode()) {
		cuptiActivityRegisterTimestampCallback(thief_now);
		cuptiActivityRegisterCallbacks(thief_request, thief_complete);
	}
	if (number == FINALIZED_AT && thief_mode())
		cuptiFinalize();
	if (number == TAKEN_AT && dropped_mode())
		n_dropped = N_DROPPED;
}

/* A call under an external id: which, before the call. */
static void put_external(struct slot *slot, const void *record)
{
	struct sc_cupti_external id = {.kind = SC_CUPTI_EXTERNAL,
				       .external_kind = SC_CUPTI_CUSTOM2};
	const struct sc_cupti_api *api = record;
	uint32_t kind;

	memcpy(&kind, record, sizeof(kind));
	if (kind != SC_CUPTI_RUNTIME || n_external == 0)
		return;
	id.external_id = external[n_external - 1];
	id.correlation = api->correlation;
	put_locked(slot, &id, sizeof(id));
}

/* As CUPTI's: one buffer a thread, others for what devices tell; which comes first is not said.
 * Here that of the devices does, before the calls and events that it refers to. */
static struct slot *slot_for(const void *record)
{
	uint32_t kind;

	memcpy(&kind, record, sizeof(kind));
	return kind == SC_CUPTI_KERNEL || kind == SC_CUPTI_SYNC ? &slots[0] : my_slot();
}

void fake_cupti_put(const void *record, size_t n)
{
	struct slot *slot = slot_for(record);

	pthread_mutex_lock(&slot->lock);
	put_external(slot, record);
	put_locked(slot, record, n);
	pthread_mutex_unlock(&slot->lock);
}

static void put_rest(struct slot *slot, uint32_t correlation, uint64_t start)
{
	struct sc_cupti_memcpy copy = {.kind = SC_CUPTI_MEMCPY,
				       .copy_kind = 1,
				       .bytes = fake_bytes(correlation),
				       .start = start,
				       .end = start + fake_duration_ns(correlation),
				       .context = 1,
				       .stream = fake_stream(correlation),
				       .correlation = correlation | 1u << 31};
	struct sc_cupti_event event = {.kind = SC_CUPTI_CUDA_EVENT,
				       .correlation = correlation | 1u << 30,
				       .context = 1,
				       .stream = 7,
				       .event = correlation % 64,
				       .event_sync = correlation};
	struct sc_cupti_sync wait = {.kind = SC_CUPTI_SYNC,
				     .type = 2,
				     .start = start,
				     .end = start + 100,
				     .correlation = correlation | 3u << 30,
				     .context = 1,
				     .stream = 8,
				     .event = correlation % 64,
				     .event_sync = correlation};

	if (event_times)
		event.device_timestamp = start + 500;
	put(slot, &copy);
	put(slot, &event);
	put(slot, &wait);
	if (all_syncs) /* a query that says "not yet" */
		put(slot, &wait);
}

void fake_cupti_driver_call(uint32_t cbid)
{
	struct slot *slot = my_slot();
	const uint64_t start = now ? now() : clock_ns();
	struct sc_cupti_api api = {.kind = SC_CUPTI_DRIVER,
				   .cbid = cbid,
				   .start = start,
				   .end = start + 100,
				   .process = (uint32_t)getpid(),
				   .thread = system_tids ? tid : (uint32_t)pthread_self(),
				   .correlation = 1u << 29 | cbid};

	pthread_mutex_lock(&slot->lock);
	put_call(slot, &api);
	pthread_mutex_unlock(&slot->lock);
}

void fake_cupti_launch(uint32_t correlation)
{
	struct slot *slot = my_slot();
	uint64_t start = now ? now() : clock_ns();
	struct sc_cupti_external id = {.kind = SC_CUPTI_EXTERNAL,
				       .external_kind = SC_CUPTI_CUSTOM2,
				       .external_id =
					       n_external ? external[n_external - 1] : correlation,
				       .correlation = correlation};
	struct sc_cupti_api api = {.kind = SC_CUPTI_RUNTIME,
				   .cbid = 1,
				   .start = start,
				   .end = start + 5000,
				   .process = (uint32_t)getpid(),
				   .thread = system_tids ? tid : (uint32_t)pthread_self(),
				   .correlation = correlation};
	struct sc_cupti_api noisy = api;
	struct sc_cupti_kernel kernel = {.kind = SC_CUPTI_KERNEL,
					 .registers = 32,
					 .start = start + 6000,
					 .end = start + 6000 + fake_duration_ns(correlation),
					 .context = 1,
					 .stream = fake_stream(correlation),
					 .correlation = correlation,
					 .grid = {fake_grid(correlation), 1, 1},
					 .block = {128, 1, 1},
					 .name = NAMES[correlation % FAKE_N_NAMES]};

	noisy.cbid = CBID_IS_CAPTURING;
	noisy.correlation = correlation | 1u << 31;
	second_client(correlation);
	pthread_mutex_lock(&slot->lock);
	put_call(slot, &noisy);
	put(slot, &id);
	put_call(slot, &api);
	if (incomplete_mode())
		put_long_kernel(slot, &kernel);
	else
		put(slot, &kernel);
	if (correlation % 16 == 0)
		put_rest(slot, correlation, start);
	pthread_mutex_unlock(&slot->lock);
}

void fake_cupti_end_thread(void)
{
	struct slot *slot = my_slot();

	pthread_mutex_lock(&slot->lock);
	give_back(slot);
	pthread_mutex_unlock(&slot->lock);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void fake_cupti_stats(struct fake_stats *out)
{
	size_t n;

	pthread_mutex_lock(&stats_lock);
	n = stats.n_callbacks < N_SAMPLES ? (size_t)stats.n_callbacks : N_SAMPLES;
	qsort(samples, n, sizeof(samples[0]), compare);
	stats.p99_ns = n ? samples[n * 99 / 100] : 0;
	*out = stats;
	out->n_records = n_records;
	pthread_mutex_unlock(&stats_lock);
}
