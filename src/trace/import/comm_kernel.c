/* Names of collective kernels. NCCL up to 2.18 writes
 * "ncclKernel_AllReduce_RING_LL_Sum_float(...)", later "ncclDevKernel_..."; RCCL also
 * "ncclDevKernel_Generic", where the name does not say which. */
#include <string.h>

#include "core/graph/op.h"
#include "trace/import/import.h"
#include "trace/import/kernel_words.h"

/* Words that make a kernel one that communicates, wherever they stand in the name; lower case. */
static const char *const LIBRARIES[] = {"msccl", "oneccl", "ccl_kernel", "userbuffers", "nvshmem"};
/* The same as whole words of the function's own name: DeepEP (of its second version
 * "hybrid_dispatch_impl"), HybridEP, MORI, Mooncake, vLLM, TensorRT-LLM, PyTorch's symmetric
 * memory, which has all-reduces in the switch as "multimem_all_reduce_kernel". */
static const char *const WORDS[] = {
	"epinternode",  "epintranode",        "epdispatch",        "epcombine",
	"dispatchimpl", "combineimpl",        "a2adispatch",       "a2acombine",
	"epjit",        "hybridepdevicesync", "crossdevicereduce", "multimem",
	"allreduce",    "allgather",          "reducescatter",     "alltoall",
};
/* Within a GPU. */
static const char *const WITHIN[] = {"warpallreduce", "blockallreduce", "ctaallreduce",
				     "groupallreduce"};
/* The first that fits says which. */
static const struct {
	const char *text;
	int collective;
} KINDS[] = {
	{"AllReduce", SC_ALL_REDUCE},
	{"all_reduce", SC_ALL_REDUCE},
	{"allreduce", SC_ALL_REDUCE},
	{"cross_device_reduce", SC_ALL_REDUCE},
	{"userbuffers_fp16_sum", SC_ALL_REDUCE},
	{"AllGather", SC_ALL_GATHER},
	{"all_gather", SC_ALL_GATHER},
	{"allgather", SC_ALL_GATHER},
	{"ReduceScatter", SC_REDUCE_SCATTER},
	{"reduce_scatter", SC_REDUCE_SCATTER},
	{"AllToAll", SC_ALL_TO_ALL},
	{"AlltoAll", SC_ALL_TO_ALL},
	{"all_to_all", SC_ALL_TO_ALL},
	{"alltoall", SC_ALL_TO_ALL},
	{"notify", -1},
	{"dispatch", SC_ALL_TO_ALL},
	{"combine", SC_ALL_TO_ALL},
	{"Dispatch", SC_ALL_TO_ALL},
	{"Combine", SC_ALL_TO_ALL},
	{"Broadcast", SC_BROADCAST},
	{"broadcast", SC_BROADCAST},
	{"SendRecv", SC_SEND_RECV},
	{"Send", SC_SEND_RECV},
	{"Recv", SC_SEND_RECV},
	{"send", SC_SEND_RECV},
	{"recv", SC_SEND_RECV},
};

/* In lower case; of very long names the beginning. */
struct lowered {
	char text[1024];
};

static void lower_name(const char *name, struct lowered *out)
{
	size_t n = 0;

	for (; n < sizeof(out->text) - 1 && name[n]; n++)
		out->text[n] = name[n] >= 'A' && name[n] <= 'Z' ? (char)(name[n] | 0x20) : name[n];
	out->text[n] = '\0';
}

/* As most tools tell them: by /nccl(Dev)?Kernel|^nccl|rccl/ in any case. */
static bool is_nccl(const struct lowered *name)
{
	if (!strstr(name->text, "ccl"))
		return false;
	return strncmp(name->text, "nccl", 4) == 0 || strstr(name->text, "ncclkernel") ||
	       strstr(name->text, "nccldevkernel") || strstr(name->text, "rccl");
}

bool sc_is_nccl_kernel(const char *name)
{
	struct lowered own;

	lower_name(name, &own);
	return is_nccl(&own);
}

static bool has_any(const struct sc_words *words, const char *const *wanted, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (sc_words_have(words, wanted[i]))
			return true;
	return false;
}

static bool is_comm(const char *name)
{
	struct sc_kernel_words words;
	struct lowered own;

	lower_name(name, &own);
	if (is_nccl(&own))
		return true;
	for (size_t i = 0; i < sizeof(LIBRARIES) / sizeof(LIBRARIES[0]); i++)
		if (strstr(own.text, LIBRARIES[i]))
			return true;
	sc_kernel_words_split(name, &words);
	return has_any(&words.own, WORDS, sizeof(WORDS) / sizeof(WORDS[0])) &&
	       !has_any(&words.own, WITHIN, sizeof(WITHIN) / sizeof(WITHIN[0]));
}

/* The arguments in brackets say nothing of the collective: "ncclDevKernel_Generic(...)". */
int sc_collective_of_name(const char *name)
{
	char head[256];
	size_t n = strcspn(name, "(");

	n = n < sizeof(head) ? n : sizeof(head) - 1;
	memcpy(head, name, n);
	head[n] = '\0';
	for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++)
		if (strstr(head, KINDS[i].text))
			return KINDS[i].collective;
	return -1;
}

bool sc_is_comm_kernel(const char *name, int *collective)
{
	bool comm = is_comm(name);

	if (collective)
		*collective = comm ? sc_collective_of_name(name) : -1;
	return comm;
}
