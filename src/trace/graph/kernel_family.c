/* Families by whole words of names. The first row that fits decides, special ones before general
 * ones: of the function itself, then of its template arguments, since
 * "elementwise_kernel<FillFunctor>" is known by what it applies; what only says how a kernel runs
 * over its elements comes last. */
#include "trace/graph/kernel_family.h"

#include <stddef.h>

#include "trace/import/import.h"
#include "trace/import/kernel_words.h"

struct family_row {
	enum sc_kernel_family family;
	const char *words[36]; /* up to the first NULL */
};
/* These names say what is computed. */
static const struct family_row SPECIAL[] = {
	{SC_FAMILY_COPY, {"memcpy", "memset"}},
	{SC_FAMILY_ATTENTION,
	 {"flash", "fmha", "mha", "mla", "attn", "attention", "sage", "batchprefill", "batchdecode",
	  "pagedkvcache", "mqalogits",
	  /* linear: gated delta nets, Mamba */
	  "deltarule", "chunkfwd", "chunkbwd", "recomputewu", "dotkkt", "chunkscan", "chunkstate",
	  "statepassing", "selectivescan"}},
	{SC_FAMILY_EMBEDDING,
	 {"embedding", "embeddings", "embeddingbag", "embs", "jagged", "boundscheckindices",
	  "linearizeindex", "sparsedata", "blockbucketize", "recat"}},
	{SC_FAMILY_OPTIMIZER,
	 {"multitensorapply", "adam", "adamw", "adagrad", "sgd", "lamb", "optimizer", "muon",
	  "newtonschulz", "nsline", "xxt"}},
	{SC_FAMILY_NORM,
	 {"layernorm", "rmsnorm", "batchnorm", "batchnormalization", "groupnorm", "instancenorm",
	  "bnfw", "bnbw", "gammabeta", "rowwisemoments"}},
	{SC_FAMILY_SOFTMAX, {"softmax", "logsoftmax", "crossentropy"}},
	{SC_FAMILY_GEMM,
	 {"gemm",        "sgemm",    "dgemm",    "hgemm",        "cgemm",     "zgemm",
	  "gcgemm",      "igemm",    "bgemm",    "gridwisegemm", "gemv",      "gemvx",
	  "gemk",        "matmul",   "mm",       "bmm",          "gmm",       "splitkreduce",
	  "cijk",        "nvjet",    "xmma",     "dotkernel",    "conv",      "convolve",
	  "convolution", "wgrad",    "dgrad",    "winograd",     "scudnn",    "caskcudnn",
	  "fft2dr2c",    "fft2dc2r", "884cudnn", "1688cudnn",    "16816cudnn"}},
	{SC_FAMILY_ELEMENTWISE, {"quantize", "dequantize"}},
	{SC_FAMILY_COPY,
	 {"nchwtonhwc", "nhwctonchw", "catarraybatchedcopy", "copykernel", "directcopy",
	  "copydevicetodevice", "copytensor", "subtensorop", "transpose", "fillfunctor", "fill",
	  "im2col"}},
	{SC_FAMILY_SORT, {"reducebykey"}},
	{SC_FAMILY_REDUCTION, {"devicereduce"}},
	{SC_FAMILY_SORT,
	 {"radixsort",    "segmentedsort",    "bitonicsort",     "mergesort",   "sort",
	  "topk",         "devicescan",       "runlengthencode", "cub",         "cumsum",
	  "searchsorted", "indexing",         "indexfunc",       "indexselect", "indexput",
	  "indexkernel",  "indexelementwise", "scatter",         "gather",      "nonzero"}},
	{SC_FAMILY_ELEMENTWISE,
	 {"swiglu", "silu", "gelu", "rotary", "rope", "cast", "scalepackedtensor", "epilogueimpl",
	  "hadamard"}},
	{SC_FAMILY_REDUCTION, {"nllloss", "nllcriterion", "amax"}},
};
/* How it runs over its elements. */
static const struct family_row GENERAL[] = {
	{SC_FAMILY_GEMM, {"cutlass"}},
	{SC_FAMILY_REDUCTION, {"reduce", "reduction", "tritonred", "tritonper"}},
	{SC_FAMILY_EMBEDDING, {"fbgemmgpu"}},
	{SC_FAMILY_SORT, {"permute", "unpermute", "routing"}},
	{SC_FAMILY_ELEMENTWISE,
	 {"elementwise", "pointwise", "dropout", "pool", "pooling", "triton"}},
};

static bool family_find(const struct sc_words *words, const struct family_row *rows, size_t n,
			enum sc_kernel_family *family)
{
	for (size_t i = 0; i < n; i++)
		for (const char *const *word = rows[i].words; *word; word++)
			if (sc_words_have(words, *word)) {
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
	if (!family_find(&words.own, SPECIAL, n_special, &family) &&
	    !family_find(&words.arguments, SPECIAL, n_special, &family) &&
	    !family_find(&words.own, GENERAL, n_general, &family))
		family_find(&words.arguments, GENERAL, n_general, &family);
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
