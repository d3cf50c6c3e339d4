/* Two walks a buffer: external ids, event records and the devices of contexts first, as they may stand
 * behind what refers to them. The first is only so far ahead that the second finds all in the cache.
 * Ids of CUPTI wrap; tables are direct-mapped and the newest entry holds. */
#include "trace/capture/record_decode.h"

#include <stdlib.h>
#include <string.h>

#include "trace/capture/decode_priv.h"

bool sc_decoder_init(struct sc_decoder *decoder, struct sc_raw_file *raw,
		     const struct sc_event_sink *sink, bool live)
{
	*decoder = (struct sc_decoder){.raw = raw, .sink = *sink, .live = live};
	decoder->tables = calloc(1, sizeof(*decoder->tables));
	return decoder->tables != NULL;
}

void sc_decoder_release(struct sc_decoder *decoder)
{
	free(decoder->tables);
	decoder->tables = NULL;
}

static uint32_t kind_at(const uint8_t *at)
{
	uint32_t kind;

	memcpy(&kind, at, sizeof(kind));
	return kind;
}

/* Bytes of the record at `at`, 0 where the walk ends. */
static size_t stride_at(const struct sc_raw_file *raw, const uint8_t *at, size_t n)
{
	uint32_t kind;
	size_t stride;

	if (n < sizeof(uint64_t))
		return 0;
	kind = kind_at(at);
	stride = kind <= SC_CUPTI_MAX_KIND ? raw->header->strides[kind] : 0;
	return stride <= n ? stride : 0;
}

static void learn(struct sc_decoder *decoder, const uint8_t *at, size_t stride)
{
	struct sc_decoder_tables *tables = decoder->tables;
	const void *record = at;

	if (kind_at(at) == SC_CUPTI_EXTERNAL) {
		const struct sc_cupti_external *external = record;
		struct sc_external_entry *entry;

		if (external->external_kind != SC_CUPTI_CUSTOM2)
			return;
		entry = &tables->externals[external->correlation % SC_EXTERNAL_ENTRIES];
		entry->correlation = external->correlation;
		entry->external_id = (int64_t)external->external_id;
	} else if (kind_at(at) == SC_CUPTI_CUDA_EVENT &&
		   SC_CUPTI_HAS(stride, struct sc_cupti_event, event_sync)) {
		const struct sc_cupti_event *event = record;
		struct sc_event_entry *entry = sc_event_entry(tables->syncs, event->event_sync);

		entry->key = event->event_sync;
		entry->correlation = event->correlation;
	} else if (kind_at(at) == SC_CUPTI_KERNEL) {
		const struct sc_cupti_kernel *kernel = record;

		tables->devices[kernel->context % SC_CONTEXT_ENTRIES] = kernel->device + 1;
	}
}

static bool is_whole(const uint8_t *at)
{
	const void *record = at;
	uint64_t start = 0, end = 0;
	uint32_t correlation = 1;

	switch (kind_at(at)) {
	case SC_CUPTI_KERNEL: {
		const struct sc_cupti_kernel *kernel = record;

		if (!kernel->name || kernel->grid[0] <= 0 || kernel->block[0] <= 0)
			return false;
		start = kernel->start;
		end = kernel->end;
		correlation = kernel->correlation;
		break;
	}
	case SC_CUPTI_RUNTIME:
	case SC_CUPTI_DRIVER: {
		const struct sc_cupti_api *api = record;

		start = api->start;
		end = api->end;
		correlation = api->correlation && api->thread;
		break;
	}
	case SC_CUPTI_MEMCPY: {
		const struct sc_cupti_memcpy *copy = record;

		start = copy->start;
		end = copy->end;
		correlation = copy->correlation;
		break;
	}
	default:
		return true; /* a few words: written in one go */
	}
	return correlation != 0 && start != 0 && end >= start;
}

static void decode_one(struct sc_decoder *decoder, const uint8_t *at, size_t stride)
{
	const void *record = at;

	decoder->counts.n_records++;
	switch (kind_at(at)) {
	case SC_CUPTI_KERNEL:
		sc_decode_kernel(decoder, record, stride);
		break;
	case SC_CUPTI_RUNTIME:
	case SC_CUPTI_DRIVER:
		sc_decode_api(decoder, record);
		break;
	case SC_CUPTI_MEMCPY:
		sc_decode_memcpy(decoder, record);
		break;
	case SC_CUPTI_MEMCPY_P2P:
		sc_decode_memcpy_p2p(decoder, record);
		break;
	case SC_CUPTI_MEMSET:
		sc_decode_memset(decoder, record);
		break;
	case SC_CUPTI_SYNC:
		sc_decode_sync(decoder, record, stride);
		break;
	case SC_CUPTI_CUDA_EVENT:
		sc_decode_event_record(decoder, record, stride);
		break;
	case SC_CUPTI_OVERHEAD:
		sc_decode_overhead(decoder, record, stride);
		break;
	case SC_CUPTI_EXTERNAL:
		break;
	default:
		decoder->counts.n_unknown++;
		break;
	}
}

enum {
	PREFETCH_BYTES = 4096,
	AHEAD_BYTES = 128 << 10 /* at least, up to the end of the buffer */
};

/* Records come from another core's cache: the first to look at them waits. Returns how far it came. */
static size_t learn_until(struct sc_decoder *decoder, const uint8_t *at, size_t from, size_t n[2])
{
	size_t i = from, stride;

	for (; i < n[0] && (stride = stride_at(decoder->raw, at + i, n[1] - i)) > 0; i += stride) {
		__builtin_prefetch(at + i + PREFETCH_BYTES);
		learn(decoder, at + i, stride);
	}
	return i;
}

void sc_decode_buffer(struct sc_decoder *decoder, const uint8_t *at, size_t n, bool torn_end)
{
	size_t stride = stride_at(decoder->raw, at, n), next, next_stride, learned = 0;

	for (size_t i = 0; stride > 0; i = next, stride = next_stride) {
		if (learned < n && i + AHEAD_BYTES >= learned) {
			size_t until[2] = {i + 2 * AHEAD_BYTES, n};

			learned = learn_until(decoder, at, learned, until);
			if (learned < until[0])
				learned = n; /* the walk ended */
		}
		next = i + stride;
		next_stride = stride_at(decoder->raw, at + next, n - next);
		if (next_stride == 0 && torn_end && !is_whole(at + i)) {
			decoder->counts.n_torn++;
			return;
		}
		decode_one(decoder, at + i, stride);
		if (next_stride == 0 && !torn_end && n - next >= sizeof(uint64_t) &&
		    kind_at(at + next) != 0)
			decoder->counts.n_ended++;
	}
}

void sc_count_records(const struct sc_raw_file *raw, const uint8_t *at, size_t n,
		      int64_t counts[SC_N_EVENT_CLASSES])
{
	/* One more than the class; 0: no event of its own. */
	static const uint8_t CLASSES[SC_CUPTI_MAX_KIND + 1] = {
		[SC_CUPTI_KERNEL] = SC_EV_KERNEL + 1,
		[SC_CUPTI_RUNTIME] = SC_EV_API + 1,
		[SC_CUPTI_DRIVER] = SC_EV_API + 1,
		[SC_CUPTI_MEMCPY] = SC_EV_COPY + 1,
		[SC_CUPTI_MEMCPY_P2P] = SC_EV_COPY + 1,
		[SC_CUPTI_MEMSET] = SC_EV_SET + 1,
		[SC_CUPTI_SYNC] = SC_EV_SYNC + 1,
		[SC_CUPTI_CUDA_EVENT] = SC_EV_EVENT_RECORD + 1,
		[SC_CUPTI_OVERHEAD] = SC_EV_OVERHEAD + 1,
	};
	size_t stride;

	for (size_t i = 0; (stride = stride_at(raw, at + i, n - i)) > 0; i += stride) {
		uint8_t cls = CLASSES[kind_at(at + i)];

		if (cls)
			counts[cls - 1]++;
	}
}

size_t sc_api_name_length(const char *name)
{
	size_t n = strlen(name), digits = n;

	while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
		digits--;
	if (digits == n || digits < 2 || name[digits - 1] != 'v' || name[digits - 2] != '_')
		return n;
	n = digits - 2;
	for (int i = 0; i < 2; i++) {
		static const char *const suffixes[] = {"_ptsz", "_ptds"};
		size_t m = strlen(suffixes[i]);

		if (n > m && memcmp(name + n - m, suffixes[i], m) == 0)
			n -= m;
	}
	return n;
}
