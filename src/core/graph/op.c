/* Names and sizes of the number formats. */
#include "core/graph/op.h"

const struct sc_name sc_load_names[] = {
	{"step", SC_LOAD_RUN}, {"sustained", SC_LOAD_SECOND}, {"burst", SC_LOAD_BURST}, {0}};
const struct sc_name sc_dtype_names[] = {
	{"fp32", SC_FP32},
	{"tf32", SC_TF32},
	{"fp16", SC_FP16},
	{"bf16", SC_BF16},
	{"fp8", SC_FP8},
	{"fp4", SC_FP4},
	{0},
};

double sc_dtype_bytes(enum sc_dtype dtype)
{
	static const double bytes[] = {
		[SC_FP32] = 4, [SC_TF32] = 4, [SC_FP16] = 2,
		[SC_BF16] = 2, [SC_FP8] = 1,  [SC_FP4] = 0.5,
	};

	return bytes[dtype];
}

const char *const sc_collective_names[] = {
	[SC_ALL_REDUCE] = "all_reduce",
	[SC_ALL_GATHER] = "all_gather",
	[SC_REDUCE_SCATTER] = "reduce_scatter",
	[SC_BROADCAST] = "broadcast",
	[SC_ALL_TO_ALL] = "all_to_all",
	[SC_SEND_RECV] = "send_recv",
	[SC_REDUCE] = "reduce",
	[SC_GATHER] = "gather",
	[SC_SCATTER] = "scatter",
	[SC_N_COLLECTIVES] = NULL,
};
