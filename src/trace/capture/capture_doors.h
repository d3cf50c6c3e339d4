/* Everything that the library shows to the outside: what CUDA's driver, NVTX and NCCL look up by
 * name, and two calls for programs that attach by themselves (from Python: ctypes). */
#pragma once

#include "trace/capture/nccl_abi.h"
#include "trace/capture/nvtx_abi.h"

#define SC_DOOR __attribute__((visibility("default")))

SC_DOOR int InitializeInjection(void); /* 1, always: the program goes on whatever happens */
SC_DOOR int InitializeInjectionNvtx2(sc_nvtx_get_table get_table); /* 1: attached */

/* Into $STEPCAST_DIR, or the working directory. 0, or -1: CUPTI or the driver is missing, or a
 * recording of this process has ended. What CUPTI itself refuses is said beside the trace. */
SC_DOOR int sc_capture_start(void);
SC_DOOR void sc_capture_stop(void);

extern SC_DOOR const struct sc_nccl_plugin_v2 ncclProfiler_v2, ncclProfiler_v3;
extern SC_DOOR const struct sc_nccl_plugin_v4 ncclProfiler_v4;
extern SC_DOOR const struct sc_nccl_plugin_v5 ncclProfiler_v5, ncclProfiler_v6;
