/* Families by whole words of names. The first row that fits decides, special ones before general ones: of
 * the function itself, then of its template arguments, since "elementwise_kernel<FillFunctor>" is known by
 * what it applies; what only says how a kernel runs over its elements comes last. */
#include "trace/graph/kernel_family.h"

#include <stddef.h>

#include "trace/import/import.h"
#include "trace/import/kernel_words.h"

struct family_row {
	const char *words;
	enum sc_kernel_family family;
};
/* What is computed. */
static const struct family_row SPECIAL[] = {
	{"memcpy", SC_FAMILY_COPY},
	{"memset", SC_FAMILY_COPY},
	{"flash", SC_FAMILY_ATTENTION},
	{"fmha", SC_FAMILY_ATTENTION},
	{"mha", SC_FAMILY_ATTENTION},
	{"mla", SC_FAMILY_ATTENTION},
	{"attn", SC_FAMILY_ATTENTION},
	{"attention", SC_FAMILY_ATTENTION},
	{"embedding", SC_FAMILY_EMBEDDING},
	{"embeddings", SC_FAMILY_EMBEDDING},
	{"embeddingbag", SC_FAMILY_EMBEDDING},
	{"embs", SC_FAMILY_EMBEDDING},
	{"jagged", SC_FAMILY_EMBEDDING},
	{"boundscheckindices", SC_FAMILY_EMBEDDING},
	{"linearizeindex", SC_FAMILY_EMBEDDING},
	{"sparsedata", SC_FAMILY_EMBEDDING},
	{"blockbucketize", SC_FAMILY_EMBEDDING},
	{"recat", SC_FAMILY_EMBEDDING},
	{"multitensorapply", SC_FAMILY_OPTIMIZER},
	{"adam", SC_FAMILY_OPTIMIZER},
	{"adamw", SC_FAMILY_OPTIMIZER},
	{"adagrad", SC_FAMILY_OPTIMIZER},
	{"sgd", SC_FAMILY_OPTIMIZER},
	{"lamb", SC_FAMILY_OPTIMIZER},
	{"optimizer", SC_FAMILY_OPTIMIZER},
	{"layernorm", SC_FAMILY_NORM},
	{"rmsnorm", SC_FAMILY_NORM},
	{"batchnorm", SC_FAMILY_NORM},
	{"batchnormalization", SC_FAMILY_NORM},
	{"groupnorm", SC_FAMILY_NORM},
	{"instancenorm", SC_FAMILY_NORM},
	{"bnfw", SC_FAMILY_NORM},
	{"bnbw", SC_FAMILY_NORM},
	{"gammabeta", SC_FAMILY_NORM},
	{"rowwisemoments", SC_FAMILY_NORM},
	{"softmax", SC_FAMILY_SOFTMAX},
	{"logsoftmax", SC_FAMILY_SOFTMAX},
	{"crossentropy", SC_FAMILY_SOFTMAX},
	{"gemm", SC_FAMILY_GEMM},
	{"sgemm", SC_FAMILY_GEMM},
	{"dgemm", SC_FAMILY_GEMM},
	{"hgemm", SC_FAMILY_GEMM},
	{"cgemm", SC_FAMILY_GEMM},
	{"zgemm", SC_FAMILY_GEMM},
	{"gcgemm", SC_FAMILY_GEMM},
	{"igemm", SC_FAMILY_GEMM},
	{"bgemm", SC_FAMILY_GEMM},
	{"gridwisegemm", SC_FAMILY_GEMM},
	{"gemv", SC_FAMILY_GEMM},
	{"gemvx", SC_FAMILY_GEMM},
	{"gemk", SC_FAMILY_GEMM},
	{"matmul", SC_FAMILY_GEMM},
	{"mm", SC_FAMILY_GEMM},
	{"bmm", SC_FAMILY_GEMM},
	{"splitkreduce", SC_FAMILY_GEMM},
	{"cijk", SC_FAMILY_GEMM},
	{"nvjet", SC_FAMILY_GEMM},
	{"xmma", SC_FAMILY_GEMM},
	{"dotkernel", SC_FAMILY_GEMM},
	{"conv", SC_FAMILY_GEMM},
	{"convolve", SC_FAMILY_GEMM},
	{"convolution", SC_FAMILY_GEMM},
	{"wgrad", SC_FAMILY_GEMM},
	{"dgrad", SC_FAMILY_GEMM},
	{"winograd", SC_FAMILY_GEMM},
	{"scudnn", SC_FAMILY_GEMM},
	{"caskcudnn", SC_FAMILY_GEMM},
	{"fft2dr2c", SC_FAMILY_GEMM},
	{"fft2dc2r", SC_FAMILY_GEMM},
	{"884cudnn", SC_FAMILY_GEMM},
	{"1688cudnn", SC_FAMILY_GEMM},
	{"16816cudnn", SC_FAMILY_GEMM},
	{"quantize", SC_FAMILY_ELEMENTWISE},
	{"dequantize", SC_FAMILY_ELEMENTWISE},
	{"nchwtonhwc", SC_FAMILY_COPY},
	{"nhwctonchw", SC_FAMILY_COPY},
	{"catarraybatchedcopy", SC_FAMILY_COPY},
	{"copykernel", SC_FAMILY_COPY},
	{"directcopy", SC_FAMILY_COPY},
	{"copydevicetodevice", SC_FAMILY_COPY},
	{"copytensor", SC_FAMILY_COPY},
	{"subtensorop", SC_FAMILY_COPY},
	{"transpose", SC_FAMILY_COPY},
	{"fillfunctor", SC_FAMILY_COPY},
	{"fill", SC_FAMILY_COPY},
	{"im2col", SC_FAMILY_COPY},
	{"reducebykey", SC_FAMILY_SORT},
	{"devicereduce", SC_FAMILY_REDUCTION},
	{"radixsort", SC_FAMILY_SORT},
	{"segmentedsort", SC_FAMILY_SORT},
	{"bitonicsort", SC_FAMILY_SORT},
	{"mergesort", SC_FAMILY_SORT},
	{"sort", SC_FAMILY_SORT},
	{"topk", SC_FAMILY_SORT},
	{"devicescan", SC_FAMILY_SORT},
	{"runlengthencode", SC_FAMILY_SORT},
	{"cub", SC_FAMILY_SORT},
	{"cumsum", SC_FAMILY_SORT},
	{"searchsorted", SC_FAMILY_SORT},
	{"indexing", SC_FAMILY_SORT},
	{"indexfunc", SC_FAMILY_SORT},
	{"indexselect", SC_FAMILY_SORT},
	{"indexput", SC_FAMILY_SORT},
	{"indexkernel", SC_FAMILY_SORT},
	{"indexelementwise", SC_FAMILY_SORT},
	{"scatter", SC_FAMILY_SORT},
	{"gather", SC_FAMILY_SORT},
	{"nonzero", SC_FAMILY_SORT},
	{"swiglu", SC_FAMILY_ELEMENTWISE},
	{"silu", SC_FAMILY_ELEMENTWISE},
	{"gelu", SC_FAMILY_ELEMENTWISE},
	{"rotary", SC_FAMILY_ELEMENTWISE},
	{"rope", SC_FAMILY_ELEMENTWISE},
	{"cast", SC_FAMILY_ELEMENTWISE},
	{"scalepackedtensor", SC_FAMILY_ELEMENTWISE},
	{"epilogueimpl", SC_FAMILY_ELEMENTWISE},
	{"nllloss", SC_FAMILY_REDUCTION},
	{"nllcriterion", SC_FAMILY_REDUCTION},
};
/* How it runs over its elements. */
static const struct family_row GENERAL[] = {
	{"cutlass", SC_FAMILY_GEMM},
	{"reduce", SC_FAMILY_REDUCTION},
	{"reduction", SC_FAMILY_REDUCTION},
	{"tritonred", SC_FAMILY_REDUCTION},
	{"tritonper", SC_FAMILY_REDUCTION},
	{"fbgemmgpu", SC_FAMILY_EMBEDDING},
	{"elementwise", SC_FAMILY_ELEMENTWISE},
	{"pointwise", SC_FAMILY_ELEMENTWISE},
	{"dropout", SC_FAMILY_ELEMENTWISE},
	{"pool", SC_FAMILY_ELEMENTWISE},
	{"pooling", SC_FAMILY_ELEMENTWISE},
	{"triton", SC_FAMILY_ELEMENTWISE},
};

static bool find(const struct sc_words *words, const struct family_row *rows, size_t n,
		 enum sc_kernel_family *family)
{
	for (size_t i = 0; i < n; i++)
		if (sc_words_have(words, rows[i].words)) {
			*family = rows[i].family;
			return true;
		}
	return false;
}

enum sc_kernel_family sc_kernel_family_of(const char *name)
{
	static const size_t n_special = sizeof(SPECIAL) / sizeof(SPECIAL[0]);
	static const size_t n_general = sizeof(GENERAL) / sizeof(GENERAL[0]);
	enum sc_kernel_family family = SC_FAMILY_OTHER;
	struct sc_kernel_words words;

	if (sc_is_comm_kernel(name, NULL))
		return SC_FAMILY_COLLECTIVE;
	sc_kernel_words_split(name, &words);
	if (!find(&words.own, SPECIAL, n_special, &family) &&
	    !find(&words.arguments, SPECIAL, n_special, &family) &&
	    !find(&words.own, GENERAL, n_general, &family))
		find(&words.arguments, GENERAL, n_general, &family);
	return family;
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
