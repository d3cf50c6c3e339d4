/* NCCL's profiler plugin, versions 2 to 6: one record a collective or point-to-point call, with its
 * number in the communicator; launches between kernelLaunch's start and stop carry the id of their
 * group, so that kernels find their calls without guessing. Handles are NULL for what is not
 * wanted. */
#include <stdlib.h>
#include <string.h>

#include "trace/capture/capture_doors.h"
#include "trace/capture/nccl_abi.h"
#include "trace/capture/tracer.h"

struct communicator {
	uint64_t hash; /* versions 4 on; before, each call says it */
	int32_t n_ranks;
	char name[64];
};
/* Children name their parent's handle after its stop, on other threads: handles are never freed,
 * and the one that was free for the longest is taken next. */
struct handle {
	_Atomic int busy;
	_Atomic int64_t group_id;
	uint64_t type;
	int64_t start_ns;
	const char *func, *dtype, *name; /* NCCL's own: static, or of the communicator */
	struct sc_host_comm comm;
};

static const struct dtype {
	const char *name;
	int64_t bytes;
} DTYPES[] = {
	{"ncclInt8", 1},    {"ncclUint8", 1},    {"ncclInt32", 4},      {"ncclUint32", 4},
	{"ncclInt64", 8},   {"ncclUint64", 8},   {"ncclFloat16", 2},    {"ncclFloat32", 4},
	{"ncclFloat64", 8}, {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1},
};
enum { N_DTYPES = sizeof(DTYPES) / sizeof(DTYPES[0]) };

static int64_t bytes_of(const char *dtype, size_t count)
{
	for (int i = 0; dtype && i < N_DTYPES; i++)
		if (strcmp(dtype, DTYPES[i].name) == 0)
			return DTYPES[i].bytes * (int64_t)count;
	return -1;
}

enum { N_HANDLES = 16 << 10, N_TRIES = 64 };
static struct handle *handles;
static pthread_once_t handles_once = PTHREAD_ONCE_INIT;
static _Atomic uint32_t next_handle;

static void make_handles(void)
{
	handles = calloc(N_HANDLES, sizeof(*handles));
}

static struct handle *take_handle(void)
{
	for (int i = 0; i < N_TRIES; i++) {
		struct handle *handle = &handles[atomic_fetch_add(&next_handle, 1) % N_HANDLES];

		if (!atomic_exchange_explicit(&handle->busy, 1, memory_order_acquire))
			return handle;
	}
	return NULL;
}

/* --- communicators --- */

enum {
	WANTED_V2 = SC_NCCL_GROUP | SC_NCCL_COLL | SC_NCCL_P2P,
	WANTED_V5 = WANTED_V2 | SC_NCCL_GROUP_API | SC_NCCL_COLL_API | SC_NCCL_P2P_API |
		    SC_NCCL_KERNEL_LAUNCH,
	WANTED_V6 = WANTED_V5 | SC_NCCL_CE_COLL
};

static int init_any(void **context, int *mask, int wanted, const struct communicator *from,
		    const char *name, int rank)
{
	struct communicator *communicator;

	*context = NULL;
	*mask = 0;
	if (sc_tracer_start())
		return 0;
	pthread_once(&handles_once, make_handles);
	communicator = handles ? malloc(sizeof(*communicator)) : NULL;
	if (!communicator)
		return 0;
	*communicator = *from;
	if (name)
		memcpy(communicator->name, name, strnlen(name, sizeof(communicator->name) - 1));
	*context = communicator;
	*mask = wanted;
	atomic_store(&sc_tracer.plugin_on, 1);
	if (from->n_ranks > 0)
		sc_tracer_learn_rank(rank, from->n_ranks);
	return 0;
}

static int init_v2(void **context, int *mask)
{
	return init_any(context, mask, WANTED_V2, &(struct communicator){.n_ranks = -1}, NULL, -1);
}

static int init_v4(void **context, int *mask, const char *name, uint64_t comm_hash, int n_nodes,
		   int n_ranks, int rank, void *log)
{
	(void)n_nodes, (void)log;
	return init_any(context, mask, WANTED_V2, &(struct communicator){comm_hash, n_ranks, ""},
			name, rank);
}

static int init_v5(void **context, uint64_t comm_hash, int *mask, const char *name, int n_nodes,
		   int n_ranks, int rank, void *log)
{
	(void)n_nodes, (void)log;
	return init_any(context, mask, WANTED_V5, &(struct communicator){comm_hash, n_ranks, ""},
			name, rank);
}

static int init_v6(void **context, uint64_t comm_hash, int *mask, const char *name, int n_nodes,
		   int n_ranks, int rank, void *log)
{
	(void)n_nodes, (void)log;
	return init_any(context, mask, WANTED_V6, &(struct communicator){comm_hash, n_ranks, ""},
			name, rank);
}

static int plugin_finalize(void *context)
{
	free(context);
	return 0;
}

/* --- events --- */

static struct handle *make_handle(struct communicator *communicator, uint64_t type, void *parent)
{
	struct handle *handle = take_handle(), *of = parent;

	if (!handle)
		return NULL;
	handle->type = type;
	handle->start_ns = sc_tracer_now_ns();
	/* Everything under one group has its id; what stands alone has its own. */
	handle->group_id =
		of ? of->group_id : (int64_t)atomic_fetch_add(&sc_tracer.next_external, 1) + 1;
	handle->comm = (struct sc_host_comm){
		.hash = communicator->hash,
		.count = -1,
		.bytes = -1,
		.seq = -1,
		.group_size = communicator->n_ranks,
		.peer = -1,
		.root = -1,
	};
	handle->func = handle->dtype = NULL;
	handle->name = communicator->name;
	return handle;
}

static void set_call(struct handle *handle, const char *func, const char *dtype, size_t count)
{
	handle->func = func;
	handle->dtype = dtype;
	handle->comm.count = (int64_t)count;
	handle->comm.bytes = bytes_of(dtype, count);
}

static void fill_handle(struct handle *handle, const union sc_nccl_call *call)
{
	switch (handle->type) {
	case SC_NCCL_COLL:
	case SC_NCCL_CE_COLL:
		set_call(handle, call->coll.func, call->coll.dtype, call->coll.count);
		handle->comm.seq = (int64_t)call->coll.seq;
		handle->comm.root = call->coll.root;
		break;
	case SC_NCCL_P2P:
		set_call(handle, call->p2p.func, call->p2p.dtype, call->p2p.count);
		handle->comm.peer = call->p2p.peer;
		break;
	case SC_NCCL_COLL_API:
	case SC_NCCL_P2P_API:
		set_call(handle, call->api.func, call->api.dtype, call->api.count);
		break;
	}
}

static struct handle *start_any(void *context, uint64_t type, void *parent,
				const union sc_nccl_call *call)
{
	struct handle *handle;

	if (!context || !(type & WANTED_V6) || !sc_tracer_is_on())
		return NULL;
	handle = make_handle(context, type, parent);
	if (!handle)
		return NULL;
	fill_handle(handle, call);
	if (type == SC_NCCL_KERNEL_LAUNCH)
		sc_cupti_session_push_id((uint64_t)handle->group_id);
	return handle;
}

static int start_v2(void *context, void **out, void *description)
{
	const struct sc_nccl_event_v2 *event = description;
	const uint8_t type = *(const uint8_t *)description;
	struct handle *handle = start_any(context, type, event->head.parent, &event->call);

	if (handle && (type == SC_NCCL_COLL || type == SC_NCCL_P2P)) {
		handle->name = event->name;
		handle->comm.hash = event->comm_hash;
	}
	*out = handle;
	return 0;
}

static int start_v4(void *context, void **out, void *description)
{
	const struct sc_nccl_event_v4 *event = description;

	*out = start_any(context, event->head.type, event->head.parent, &event->call);
	return 0;
}

/* Function, data type and communicator, each ended by a NUL. */
static size_t join_texts(const struct handle *handle, char *out, size_t n)
{
	const char *texts[] = {handle->func, handle->dtype, handle->name};
	size_t used = 0;

	for (int i = 0; i < 3; i++) {
		size_t length = texts[i] ? strnlen(texts[i], n / 3 - 1) : 0;

		memcpy(out + used, texts[i] ? texts[i] : "", length);
		used += length;
		out[used++] = '\0';
	}
	return used;
}

static void emit_handle(const struct handle *handle)
{
	bool is_api = handle->type == SC_NCCL_COLL_API || handle->type == SC_NCCL_P2P_API;
	bool is_call = handle->type == SC_NCCL_COLL || handle->type == SC_NCCL_P2P ||
		       handle->type == SC_NCCL_CE_COLL;
	char text[384];

	if (!is_api && !is_call)
		return;
	sc_host_emit(
		&(struct sc_host_record){
			.kind = SC_HOST_NCCL,
			.flags = SC_HOST_HAS_COMM | (is_call ? SC_HOST_IS_CALL : 0),
			.sub = is_api ? SC_HOST_SUB_PLUGIN_API : SC_HOST_SUB_PLUGIN,
			.start_ns = handle->start_ns,
			.end_ns = sc_tracer_now_ns(),
			.external_id = handle->group_id,
			.comm = handle->comm,
		},
		text, join_texts(handle, text, sizeof(text)));
}

static int event_stop(void *at)
{
	struct handle *handle = at;

	if (!handle)
		return 0;
	if (handle->type == SC_NCCL_KERNEL_LAUNCH)
		sc_cupti_session_pop_id();
	emit_handle(handle);
	atomic_store_explicit(&handle->busy, 0, memory_order_release);
	return 0;
}

static int event_state(void *handle, int which, void *args)
{
	(void)handle, (void)which, (void)args;
	return 0;
}

SC_DOOR const struct sc_nccl_plugin_v2 ncclProfiler_v2 = {
	{"stepcast", init_v2, start_v2, event_stop, event_state, plugin_finalize}};
SC_DOOR const struct sc_nccl_plugin_v2 ncclProfiler_v3 = {
	{"stepcast", init_v2, start_v2, event_stop, event_state, plugin_finalize}};
SC_DOOR const struct sc_nccl_plugin_v4 ncclProfiler_v4 = {
	{"stepcast", init_v4, start_v4, event_stop, event_state, plugin_finalize}};
SC_DOOR const struct sc_nccl_plugin_v5 ncclProfiler_v5 = {
	{"stepcast", init_v5, start_v4, event_stop, event_state, plugin_finalize}};
SC_DOOR const struct sc_nccl_plugin_v5 ncclProfiler_v6 = {
	{"stepcast", init_v6, start_v4, event_stop, event_state, plugin_finalize}};
