/* Compiled where NVIDIA's headers are: our declarations say the same. Records only grow, so that
 * ours may be shorter. */
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_version.h>
#include <nvtx3/nvToolsExt.h>

#include "trace/capture/cupti_abi.h"
#include "trace/capture/nvtx_abi.h"

#define SAME(ours, field, theirs, name) \
	_Static_assert(offsetof(struct ours, field) == offsetof(theirs, name), #theirs " " #name)
#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(theirs), #theirs)
#define NO_LONGER(ours, theirs) _Static_assert(sizeof(struct ours) <= sizeof(theirs), #theirs)

SAME(sc_cupti_kernel, registers, CUpti_ActivityKernel4, registersPerThread);
SAME(sc_cupti_kernel, start, CUpti_ActivityKernel4, start);
SAME(sc_cupti_kernel, device, CUpti_ActivityKernel4, deviceId);
SAME(sc_cupti_kernel, stream, CUpti_ActivityKernel4, streamId);
SAME(sc_cupti_kernel, grid, CUpti_ActivityKernel4, gridX);
SAME(sc_cupti_kernel, block, CUpti_ActivityKernel4, blockX);
SAME(sc_cupti_kernel, dynamic_shared, CUpti_ActivityKernel4, dynamicSharedMemory);
SAME(sc_cupti_kernel, correlation, CUpti_ActivityKernel4, correlationId);
SAME(sc_cupti_kernel, name, CUpti_ActivityKernel4, name);
#if CUPTI_API_VERSION >= 130500
typedef CUpti_ActivityCudaEvent3 newest_event;
#elif CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityCudaEvent2 newest_event;
#endif
#if CUPTI_API_VERSION >= 130400
typedef CUpti_ActivityKernel13 newest_kernel;
typedef CUpti_ActivityMemcpy7 newest_memcpy;
typedef CUpti_ActivityMemset5 newest_memset;
#elif CUPTI_API_VERSION >= 130300
typedef CUpti_ActivityKernel12 newest_kernel;
#elif CUPTI_API_VERSION >= 130100
typedef CUpti_ActivityKernel11 newest_kernel;
#elif CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 newest_kernel;
#endif
#if CUPTI_API_VERSION >= 130000 && CUPTI_API_VERSION < 130400
typedef CUpti_ActivityMemcpy6 newest_memcpy;
typedef CUpti_ActivityMemset4 newest_memset;
#endif
#if CUPTI_API_VERSION >= 130000
NO_LONGER(sc_cupti_kernel, newest_kernel);
SAME(sc_cupti_kernel, name, newest_kernel, name);
SAME(sc_cupti_kernel, graph_node, newest_kernel, graphNodeId);
SAME(sc_cupti_kernel, graph_id, newest_kernel, graphId);
NO_LONGER(sc_cupti_memcpy, newest_memcpy);
SAME(sc_cupti_memcpy, correlation, newest_memcpy, correlationId);
SAME(sc_cupti_memcpy, copy_count, newest_memcpy, copyCount);
NO_LONGER(sc_cupti_memcpy_p2p, CUpti_ActivityMemcpyPtoP4);
SAME(sc_cupti_memcpy_p2p, src_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
SAME(sc_cupti_memcpy_p2p, correlation, CUpti_ActivityMemcpyPtoP4, correlationId);
NO_LONGER(sc_cupti_memset, newest_memset);
SAME(sc_cupti_memset, correlation, newest_memset, correlationId);
NO_LONGER(sc_cupti_sync, CUpti_ActivitySynchronization2);
SAME(sc_cupti_sync, event, CUpti_ActivitySynchronization2, cudaEventId);
SAME(sc_cupti_sync, event_sync, CUpti_ActivitySynchronization2, cudaEventSyncId);
NO_LONGER(sc_cupti_event, newest_event);
SAME(sc_cupti_event, device, newest_event, deviceId);
SAME(sc_cupti_event, device_timestamp, newest_event, deviceTimestamp);
SAME(sc_cupti_event, event_sync, newest_event, cudaEventSyncId);
NO_LONGER(sc_cupti_overhead, CUpti_ActivityOverhead3);
SAME(sc_cupti_overhead, start, CUpti_ActivityOverhead3, start);
SAME(sc_cupti_overhead, data, CUpti_ActivityOverhead3, overheadData);
_Static_assert(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER == (int)SC_CUPTI_ATTR_ZEROED,
	       "attribute");
_Static_assert(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER == (int)SC_CUPTI_ATTR_PER_THREAD,
	       "attribute");
_Static_assert(CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL == 6 << 16, "a launch that waited");
#endif
SAME_SIZE(sc_cupti_api, CUpti_ActivityAPI);
SAME(sc_cupti_api, thread, CUpti_ActivityAPI, threadId);
SAME(sc_cupti_api, correlation, CUpti_ActivityAPI, correlationId);
SAME_SIZE(sc_cupti_external, CUpti_ActivityExternalCorrelation);
SAME(sc_cupti_external, correlation, CUpti_ActivityExternalCorrelation, correlationId);

#define SAME_VALUE(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME_VALUE(SC_CUPTI_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
SAME_VALUE(SC_CUPTI_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
SAME_VALUE(SC_CUPTI_MEMCPY_P2P, CUPTI_ACTIVITY_KIND_MEMCPY2);
SAME_VALUE(SC_CUPTI_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET);
SAME_VALUE(SC_CUPTI_DRIVER, CUPTI_ACTIVITY_KIND_DRIVER);
SAME_VALUE(SC_CUPTI_RUNTIME, CUPTI_ACTIVITY_KIND_RUNTIME);
SAME_VALUE(SC_CUPTI_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD);
SAME_VALUE(SC_CUPTI_CUDA_EVENT, CUPTI_ACTIVITY_KIND_CUDA_EVENT);
SAME_VALUE(SC_CUPTI_SYNC, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
SAME_VALUE(SC_CUPTI_EXTERNAL, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
SAME_VALUE(SC_CUPTI_OBJECT_DEVICE, CUPTI_ACTIVITY_OBJECT_DEVICE);
SAME_VALUE(SC_CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(SC_CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME_VALUE(SC_CUPTI_CUSTOM2, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2);
SAME_VALUE(SC_CUPTI_THREAD_ID_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
SAME_VALUE(SC_CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
SAME_VALUE(SC_CUPTI_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
SAME_VALUE(SC_CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);

SAME_SIZE(sc_nvtx_attributes, nvtxEventAttributes_t);
SAME(sc_nvtx_attributes, payload_type, nvtxEventAttributes_t, payloadType);
SAME(sc_nvtx_attributes, n_payloads, nvtxEventAttributes_t, reserved0);
SAME(sc_nvtx_attributes, payload, nvtxEventAttributes_t, payload);
SAME(sc_nvtx_attributes, message_type, nvtxEventAttributes_t, messageType);
SAME(sc_nvtx_attributes, message, nvtxEventAttributes_t, message);
SAME_VALUE(SC_NVTX_MESSAGE_ASCII, NVTX_MESSAGE_TYPE_ASCII);
SAME_VALUE(SC_NVTX_MESSAGE_WIDE, NVTX_MESSAGE_TYPE_UNICODE);
SAME_VALUE(SC_NVTX_MESSAGE_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
