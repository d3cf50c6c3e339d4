/* Families by parts of names; the first row that fits decides, so that special names stand before general
 * ones. */
#include "predict/recorded/kernel_family.h"

#include <stddef.h>
#include <string.h>

#include "trace/import.h"

static const struct {
	const char *part;
	enum sc_kernel_family family;
} PARTS[] = {
	{"Memcpy", SC_FAMILY_COPY},
	{"Memset", SC_FAMILY_COPY},
	{"flash", SC_FAMILY_ATTENTION},
	{"fmha", SC_FAMILY_ATTENTION},
	{"attention", SC_FAMILY_ATTENTION},
	{"Attention", SC_FAMILY_ATTENTION},
	{"multi_tensor_apply", SC_FAMILY_OPTIMIZER},
	{"adam", SC_FAMILY_OPTIMIZER},
	{"Adam", SC_FAMILY_OPTIMIZER},
	{"sgd", SC_FAMILY_OPTIMIZER},
	{"lamb", SC_FAMILY_OPTIMIZER},
	{"optimizer", SC_FAMILY_OPTIMIZER},
	{"split_embedding", SC_FAMILY_EMBEDDING},
	{"embedding", SC_FAMILY_EMBEDDING},
	{"Embedding", SC_FAMILY_EMBEDDING},
	{"jagged", SC_FAMILY_EMBEDDING},
	{"bounds_check_indices", SC_FAMILY_EMBEDDING},
	{"linearize_index", SC_FAMILY_EMBEDDING},
	{"layer_norm", SC_FAMILY_NORM},
	{"LayerNorm", SC_FAMILY_NORM},
	{"layernorm", SC_FAMILY_NORM},
	{"rms_norm", SC_FAMILY_NORM},
	{"RMSNorm", SC_FAMILY_NORM},
	{"batch_norm", SC_FAMILY_NORM},
	{"batchnorm", SC_FAMILY_NORM},
	{"bn_fw", SC_FAMILY_NORM},
	{"bn_bw", SC_FAMILY_NORM},
	{"GroupNorm", SC_FAMILY_NORM},
	{"softmax", SC_FAMILY_SOFTMAX},
	{"SoftMax", SC_FAMILY_SOFTMAX},
	{"Softmax", SC_FAMILY_SOFTMAX},
	{"gemm", SC_FAMILY_GEMM},
	{"Gemm", SC_FAMILY_GEMM},
	{"GEMM", SC_FAMILY_GEMM},
	{"gemv", SC_FAMILY_GEMM},
	{"splitKreduce", SC_FAMILY_GEMM},
	{"Cijk_", SC_FAMILY_GEMM},
	{"cutlass", SC_FAMILY_GEMM},
	{"nvjet", SC_FAMILY_GEMM},
	{"xmma", SC_FAMILY_GEMM},
	{"dot_kernel", SC_FAMILY_GEMM},
	{"conv", SC_FAMILY_GEMM},
	{"Conv", SC_FAMILY_GEMM},
	{"wgrad", SC_FAMILY_GEMM},
	{"dgrad", SC_FAMILY_GEMM},
	{"winograd", SC_FAMILY_GEMM},
	{"nchwToNhwc", SC_FAMILY_COPY},
	{"nhwcToNchw", SC_FAMILY_COPY},
	{"RadixSort", SC_FAMILY_SORT},
	{"radix", SC_FAMILY_SORT},
	{"DeviceScan", SC_FAMILY_SORT},
	{"RunLengthEncode", SC_FAMILY_SORT},
	{"cub::", SC_FAMILY_SORT},
	{"sort", SC_FAMILY_SORT},
	{"index", SC_FAMILY_SORT},
	{"scatter", SC_FAMILY_SORT},
	{"gather", SC_FAMILY_SORT},
	{"reduce_kernel", SC_FAMILY_REDUCTION},
	{"Reduce", SC_FAMILY_REDUCTION},
	{"reduce", SC_FAMILY_REDUCTION},
	{"CatArray", SC_FAMILY_COPY},
	{"copy_kernel", SC_FAMILY_COPY},
	{"FillFunctor", SC_FAMILY_COPY},
	{"elementwise", SC_FAMILY_ELEMENTWISE},
	{"Elementwise", SC_FAMILY_ELEMENTWISE},
	{"pointwise", SC_FAMILY_ELEMENTWISE},
	{"dropout", SC_FAMILY_ELEMENTWISE},
	{"pool", SC_FAMILY_ELEMENTWISE},
	{"triton_", SC_FAMILY_ELEMENTWISE},
};

enum sc_kernel_family sc_kernel_family_of(const char *name)
{
	if (sc_is_comm_kernel(name, NULL))
		return SC_FAMILY_COLLECTIVE;
	for (size_t i = 0; i < sizeof(PARTS) / sizeof(PARTS[0]); i++)
		if (strstr(name, PARTS[i].part))
			return PARTS[i].family;
	return SC_FAMILY_OTHER;
}

static const struct {
	const char *name;
	enum sc_owner owner;
} FAMILIES[SC_N_KERNEL_FAMILIES] = {
	[SC_FAMILY_GEMM] = {"gemm", SC_OWN_COMPUTE},
	[SC_FAMILY_ATTENTION] = {"attention", SC_OWN_COMPUTE},
	[SC_FAMILY_EMBEDDING] = {"embedding", SC_OWN_MEMORY},
	[SC_FAMILY_NORM] = {"norm", SC_OWN_MEMORY},
	[SC_FAMILY_SOFTMAX] = {"softmax", SC_OWN_MEMORY},
	[SC_FAMILY_REDUCTION] = {"reduction", SC_OWN_MEMORY},
	[SC_FAMILY_ELEMENTWISE] = {"elementwise", SC_OWN_MEMORY},
	[SC_FAMILY_OPTIMIZER] = {"optimizer", SC_OWN_OPTIMIZER},
	[SC_FAMILY_SORT] = {"sort", SC_OWN_MEMORY},
	[SC_FAMILY_COLLECTIVE] = {"collective", SC_OWN_COMM},
	[SC_FAMILY_COPY] = {"copy", SC_OWN_MEMORY},
	[SC_FAMILY_OTHER] = {"other", SC_OWN_OTHER},
};

const char *sc_kernel_family_name(enum sc_kernel_family family)
{
	return FAMILIES[family].name;
}

enum sc_owner sc_kernel_family_owner(enum sc_kernel_family family)
{
	return FAMILIES[family].owner;
}
