/* Ranges, marks and thread names of NVTX, with what NCCL says in its payloads. */
#ifndef SC_TRACE_CAPTURE_NVTX_HANDLER_H
#define SC_TRACE_CAPTURE_NVTX_HANDLER_H

#include <stdbool.h>

#include "trace/capture/host_ring.h"
#include "trace/capture/nvtx_abi.h"

/* Puts our functions into NVTX's tables. False: it is not an NVTX we understand. */
bool sc_nvtx_attach(sc_nvtx_get_table get_table);
/* What a payload of NCCL's domain says; false if it is none. Payloads since 2.25 begin with the
 * communicator's hash, before with the bytes: the length tells. */
bool sc_nvtx_nccl_payload(const struct sc_nvtx_payload *payload, struct sc_host_comm *out);

#endif
