/* The part of NCCL's profiler plugin interface that the tracer uses, versions 2 to 6, in our own
 * words: the part of each event's description that is read. The union begins at byte 24 in all of
 * them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sc_nccl_event {
	SC_NCCL_GROUP = 1 << 0,
	SC_NCCL_COLL = 1 << 1,
	SC_NCCL_P2P = 1 << 2,
	SC_NCCL_GROUP_API = 1 << 8, /* version 5 on */
	SC_NCCL_COLL_API = 1 << 9,
	SC_NCCL_P2P_API = 1 << 10,
	SC_NCCL_KERNEL_LAUNCH = 1 << 11,
	SC_NCCL_CE_COLL = 1 << 12 /* version 6: collectives on copy engines */
};

struct sc_nccl_head { /* the type is one byte in versions 2 and 3, eight in 4 to 6 */
	uint64_t type;
	void *parent;
	int rank;
};
struct sc_nccl_coll { /* also ceColl as far as it goes */
	uint64_t seq;
	const char *func;
	const void *send;
	void *recv;
	size_t count;
	int root;
	const char *dtype;
};
struct sc_nccl_p2p {
	const char *func;
	void *buffer;
	const char *dtype;
	size_t count;
	int peer;
};
struct sc_nccl_api { /* collApi and p2pApi as far as they are alike; version 5 on */
	const char *func;
	size_t count;
	const char *dtype;
};
union sc_nccl_call {
	struct sc_nccl_coll coll;
	struct sc_nccl_p2p p2p;
	struct sc_nccl_api api;
};
struct sc_nccl_event_v2 { /* and 3 */
	struct sc_nccl_head head;
	const char *name;
	uint64_t comm_hash;
	union sc_nccl_call call;
};
struct sc_nccl_event_v4 { /* 4 to 6 */
	struct sc_nccl_head head;
	union sc_nccl_call call;
};
_Static_assert(offsetof(struct sc_nccl_event_v2, name) == 24, "union of version 2");
_Static_assert(offsetof(struct sc_nccl_event_v2, call.coll.dtype) == 88, "coll of version 2");
_Static_assert(offsetof(struct sc_nccl_event_v4, call.coll.seq) == 24, "coll of version 4");
_Static_assert(offsetof(struct sc_nccl_event_v4, call.coll.dtype) == 72, "coll of version 4");

/* The tables that NCCL looks up by name: six pointers each; only init differs. */
typedef int (*sc_nccl_start_fn)(void *context, void **handle, void *description);
typedef int (*sc_nccl_stop_fn)(void *handle);
typedef int (*sc_nccl_state_fn)(void *handle, int state, void *args);
typedef int (*sc_nccl_finalize_fn)(void *context);
#define SC_NCCL_TABLE(init_type)              \
	struct {                              \
		const char *name;             \
		init_type init;               \
		sc_nccl_start_fn start;       \
		sc_nccl_stop_fn stop;         \
		sc_nccl_state_fn state;       \
		sc_nccl_finalize_fn finalize; \
	}
typedef int (*sc_nccl_init_v2)(void **context, int *mask);
typedef int (*sc_nccl_init_v4)(void **context, int *mask, const char *name, uint64_t comm_hash,
			       int n_nodes, int n_ranks, int rank, void *log);
typedef int (*sc_nccl_init_v5)(void **context, uint64_t comm_hash, int *mask, const char *name,
			       int n_nodes, int n_ranks, int rank, void *log);
struct sc_nccl_plugin_v2 {
	SC_NCCL_TABLE(sc_nccl_init_v2) at;
};
struct sc_nccl_plugin_v4 {
	SC_NCCL_TABLE(sc_nccl_init_v4) at;
};
struct sc_nccl_plugin_v5 {
	SC_NCCL_TABLE(sc_nccl_init_v5) at;
};
