/* Ranges, marks and thread names of NVTX, with what NCCL says in its payloads. */
#ifndef SC_TRACE_CAPTURE_NVTX_HANDLER_H
#define SC_TRACE_CAPTURE_NVTX_HANDLER_H

#include <stdbool.h>

#include "trace/capture/host_ring.h"
#include "trace/capture/nvtx_abi.h"

/* Puts our functions into NVTX's tables. False: it is not an NVTX we understand. */
bool sc_nvtx_attach(sc_nvtx_get_table get_table);

#endif
