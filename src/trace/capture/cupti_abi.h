/* The part of CUPTI's interface that the tracer uses, in our own words: nothing of NVIDIA's is
 * needed to build. tests/capture checks each size and offset against the real headers where they
 * are installed. Every record family only ever grew at its end, so the oldest part is always there,
 * and later fields are read if the stride of the loaded library reaches them (SC_CUPTI_HAS). */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum sc_cupti_kind {
	SC_CUPTI_MEMCPY = 1,
	SC_CUPTI_MEMSET = 2,
	SC_CUPTI_DRIVER = 4,
	SC_CUPTI_RUNTIME = 5,
	SC_CUPTI_KERNEL = 10, /* concurrent kernels */
	SC_CUPTI_OVERHEAD = 17,
	SC_CUPTI_MEMCPY_P2P = 22,
	SC_CUPTI_CUDA_EVENT = 36,
	SC_CUPTI_SYNC = 38,
	SC_CUPTI_EXTERNAL = 39,
	SC_CUPTI_MAX_KIND = 63 /* of what is walked; kinds beyond end a walk */
};
enum sc_cupti_result { SC_CUPTI_OK = 0, SC_CUPTI_NOT_COMPATIBLE = 14, SC_CUPTI_UNKNOWN = 999 };
/* cuDeviceGetCount's answers while cuInit runs, and when it has failed for want of a GPU. */
enum { SC_CUDA_NOT_INITIALIZED = 3, SC_CUDA_NO_DEVICE = 100 };
enum { SC_CUPTI_OBJECT_DEVICE = 3 };    /* from here on not a process or thread */
enum { SC_CUPTI_CUSTOM2 = 5 };          /* external correlation kind: ours */
enum { SC_CUPTI_ATTR_ZEROED = 5 };      /* we hand out zeroed buffers */
enum { SC_CUPTI_ATTR_PER_THREAD = 9 };  /* a buffer holds the calls of one thread */
enum { SC_CUPTI_THREAD_ID_SYSTEM = 1 }; /* Linux tid */
enum { SC_CUPTI_FLUSH_FORCED = 1 };
enum { SC_CUPTI_DOMAIN_DRIVER = 1, SC_CUPTI_DOMAIN_RUNTIME = 2, SC_CUPTI_DOMAIN_STATE = 6 };

#define SC_CUPTI_RECORD __attribute__((packed, aligned(8)))
#define SC_CUPTI_HAS(stride, type, field) \
	((stride) >= offsetof(type, field) + sizeof(((const type *)NULL)->field))

struct sc_cupti_kernel {
	uint32_t kind;
	uint8_t cache_config, shared_config;
	uint16_t registers;
	int32_t cache_requested, cache_executed;
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3], static_shared, dynamic_shared;
	uint32_t local_per_thread, local_total, correlation;
	int64_t grid_id;
	const char *name;
	void *reserved;
	uint64_t queued, submitted;
	uint8_t launch_type, carveout_requested, carveout, pad;
	uint32_t shared_executed; /* 144 bytes until here: CUDA 9.0 */
	uint64_t graph_node;      /* 11.0 has this (with shmem limit: 160) */
	uint32_t shmem_limit, graph_id;
	void *access_policy;
	uint32_t channel, channel_type;
	uint32_t cluster[3], cluster_policy;
	uint64_t local_total_v2;
	uint32_t max_cluster, max_active_clusters;
	uint8_t device_launched, pad3[7];
} SC_CUPTI_RECORD;

struct sc_cupti_memcpy {
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation, runtime_correlation, pad;
	void *reserved; /* 64 bytes until here */
	uint64_t graph_node;
	uint32_t graph_id, channel, channel_type;
	uint8_t device_launched, pad2[3];
	uint64_t copy_count;
} SC_CUPTI_RECORD;

struct sc_cupti_memcpy_p2p {
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	uint32_t src_device, src_context, dst_device, dst_context, correlation;
	void *reserved; /* 72 bytes until here */
	uint64_t graph_node;
	uint32_t graph_id, channel, channel_type;
} SC_CUPTI_RECORD;

struct sc_cupti_memset {
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint16_t flags, memory_kind;
	uint32_t pad;
	void *reserved; /* 64 bytes until here */
	uint64_t graph_node;
	uint32_t graph_id, channel, channel_type;
	uint8_t device_launched, pad2[3];
} SC_CUPTI_RECORD;

struct sc_cupti_api {
	uint32_t kind, cbid;
	uint64_t start, end;
	uint32_t process, thread, correlation, result;
} SC_CUPTI_RECORD;

struct sc_cupti_sync {
	uint32_t kind, type;
	uint64_t start, end;
	uint32_t correlation, context, stream, event; /* 40 bytes until here */
	uint64_t event_sync;
	uint32_t result, pad;
} SC_CUPTI_RECORD;

struct sc_cupti_event {
	uint32_t kind, correlation, context, stream, event, pad; /* 24 bytes until here */
	uint32_t device, pad2;
	void *reserved;
	uint64_t device_timestamp, event_sync;
} SC_CUPTI_RECORD;

struct sc_cupti_external {
	uint32_t kind, external_kind;
	uint64_t external_id;
	uint32_t correlation, reserved;
} SC_CUPTI_RECORD;

struct sc_cupti_overhead {
	uint32_t kind, overhead_kind, object_kind;
	uint32_t object[3];  /* process and thread, or device, context and stream */
	uint64_t start, end; /* 40 bytes until here */
	uint32_t correlation, reserved;
	void *data; /* allocated by CUPTI with malloc: the reader frees it */
} SC_CUPTI_RECORD;

typedef void (*sc_cupti_request_fn)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*sc_cupti_complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
				     size_t valid);
typedef uint64_t (*sc_cupti_timestamp_fn)(void);
typedef void (*sc_cupti_callback_fn)(void *ctx, int domain, uint32_t cbid, const void *data);
