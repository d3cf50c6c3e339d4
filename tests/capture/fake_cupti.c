/* FAKE_CUPTI=old gives the records of CUDA 11.0, FAKE_CUPTI=none no kind at all (999),
 * FAKE_CUPTI=hang a last flush that does not return. */
#include "capture/fake_cupti.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "trace/capture/cupti_abi.h"

enum { MAX_THREADS = 64, N_SAMPLES = 1 << 16 };

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
int cuptiGetCallbackName(int domain, uint32_t cbid, const char **name);
int cuptiGetResultString(int result, const char **text);

struct slot {
	pthread_mutex_t lock;
	uint8_t *buffer;
	size_t size, used;
};
static struct slot slots[MAX_THREADS];
static _Atomic unsigned n_slots = 1; /* the first: what a device tells, and waits */
static _Thread_local struct slot *mine;
static _Thread_local uint64_t external[16];
static _Thread_local unsigned n_external;
static _Thread_local uint32_t tid;
static sc_cupti_request_fn request;
static sc_cupti_complete_fn complete;
static sc_cupti_timestamp_fn now = NULL;
static _Atomic uint64_t enabled;
static pthread_mutex_t stats_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_stats stats;
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

	return have && strcmp(have, mode) == 0;
}

static size_t size_of(uint32_t kind)
{
	static int old = -1;

	if (old < 0)
		old = is_mode("old");
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
	*version = is_mode("old") ? 13 : 130001;
	return SC_CUPTI_OK;
}

int cuptiActivityRegisterCallbacks(sc_cupti_request_fn request_fn, sc_cupti_complete_fn complete_fn)
{
	request = request_fn;
	complete = complete_fn;
	return SC_CUPTI_OK;
}

int cuptiActivityEnable(int kind)
{
	if (is_mode("none"))
		return SC_CUPTI_UNKNOWN;
	enabled |= UINT64_C(1) << kind;
	return SC_CUPTI_OK;
}

int cuptiActivityDisable(int kind)
{
	enabled &= ~(UINT64_C(1) << kind);
	return SC_CUPTI_OK;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record)
{
	uint8_t *at = *record ? (uint8_t *)*record : buffer;
	uint32_t kind;

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
	*n = 0;
	return SC_CUPTI_OK;
}

int cuptiActivityRegisterTimestampCallback(sc_cupti_timestamp_fn fn)
{
	now = fn;
	return SC_CUPTI_OK;
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

	if (domain != SC_CUPTI_DOMAIN_RUNTIME || cbid == 0 ||
	    cbid >= sizeof(names) / sizeof(names[0]))
		return 1;
	*name = names[cbid];
	return SC_CUPTI_OK;
}

int cuptiGetResultString(int result, const char **text)
{
	*text = result == SC_CUPTI_UNKNOWN ? "CUPTI_ERROR_UNKNOWN" : "CUPTI_ERROR";
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

static void give_back(struct slot *slot)
{
	uint64_t begin = clock_ns();

	if (!slot->buffer)
		return;
	complete(NULL, 0, slot->buffer, slot->size, slot->used);
	slot->buffer = NULL;
	sample(clock_ns() - begin);
}

int cuptiActivityFlushAll(uint32_t flags)
{
	while ((flags & SC_CUPTI_FLUSH_FORCED) && is_mode("hang"))
		pause();
	for (unsigned i = 0; i < n_slots; i++) {
		pthread_mutex_lock(&slots[i].lock);
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
	if (!slot->buffer) {
		uint64_t begin = clock_ns();
		size_t max = 0;

		request(&slot->buffer, &slot->size, &max);
		slot->used = 0;
		sample(clock_ns() - begin);
	}
	memcpy(slot->buffer + slot->used, record, n);
	slot->used += n;
	__atomic_fetch_add(&stats.n_records, 1, __ATOMIC_RELAXED);
}

static void put(struct slot *slot, const void *record)
{
	uint32_t kind;

	memcpy(&kind, record, sizeof(kind));
	if (enabled >> kind & 1)
		put_locked(slot, record, size_of(kind));
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

/* As CUPTI's: one buffer a thread, others for what devices tell; which comes first is not said. Here that
 * of the devices does, before the calls and events that it refers to. */
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

	put(slot, &copy);
	put(slot, &event);
	put(slot, &wait);
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
				   .thread = tid,
				   .correlation = correlation};
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

	pthread_mutex_lock(&slot->lock);
	put(slot, &id);
	put(slot, &api);
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
	pthread_mutex_unlock(&stats_lock);
}
