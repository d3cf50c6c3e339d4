/* What of NCCL's profiler plugin interface the tracer uses, versions 1 to 6, in our own words: the part
 * of each event's description that is read. The union begins at byte 24 in all of them. */
#ifndef SC_TRACE_CAPTURE_NCCL_ABI_H
#define SC_TRACE_CAPTURE_NCCL_ABI_H

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

struct sc_nccl_head { /* the type is one byte in versions 1 to 3, eight in 4 to 6 */
	uint64_t type;
	void *parent;
	int rank;
};
struct sc_nccl_coll_v1 {
	struct sc_nccl_head head;
	const char *name;
	uint64_t comm_hash, seq;
	uint8_t func;
	const void *send;
	void *recv;
	size_t count;
	int root;
	uint8_t dtype;
};
struct sc_nccl_p2p_v1 {
	struct sc_nccl_head head;
	const char *name;
	uint64_t comm_hash;
	uint8_t func;
	void *buffer;
	uint8_t dtype;
	size_t count;
	int peer;
};
struct sc_nccl_coll_v2 { /* and 3 */
	struct sc_nccl_head head;
	const char *name;
	uint64_t comm_hash, seq;
	const char *func;
	const void *send;
	void *recv;
	size_t count;
	int root;
	const char *dtype;
};
struct sc_nccl_p2p_v2 { /* and 3 */
	struct sc_nccl_head head;
	const char *name;
	uint64_t comm_hash;
	const char *func;
	void *buffer;
	const char *dtype;
	size_t count;
	int peer;
};
struct sc_nccl_coll_v4 { /* 4 to 6; also ceColl as far as it goes */
	struct sc_nccl_head head;
	uint64_t seq;
	const char *func;
	const void *send;
	void *recv;
	size_t count;
	int root;
	const char *dtype;
};
struct sc_nccl_p2p_v4 { /* 4 to 6 */
	struct sc_nccl_head head;
	const char *func;
	void *buffer;
	const char *dtype;
	size_t count;
	int peer;
};
struct sc_nccl_api_v5 { /* collApi and p2pApi as far as they are alike */
	struct sc_nccl_head head;
	const char *func;
	size_t count;
	const char *dtype;
};
_Static_assert(offsetof(struct sc_nccl_coll_v1, name) == 24, "union of version 1");
_Static_assert(offsetof(struct sc_nccl_coll_v1, seq) == 40, "coll of version 1");
_Static_assert(offsetof(struct sc_nccl_coll_v1, count) == 72, "coll of version 1");
_Static_assert(offsetof(struct sc_nccl_coll_v1, dtype) == 84, "coll of version 1");
_Static_assert(offsetof(struct sc_nccl_coll_v2, dtype) == 88, "coll of version 2");
_Static_assert(offsetof(struct sc_nccl_coll_v4, seq) == 24, "coll of version 4");
_Static_assert(offsetof(struct sc_nccl_coll_v4, func) == 32, "coll of version 4");
_Static_assert(offsetof(struct sc_nccl_coll_v4, count) == 56, "coll of version 4");
_Static_assert(offsetof(struct sc_nccl_coll_v4, dtype) == 72, "coll of version 4");

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
typedef int (*sc_nccl_init_v1)(void **context, int *mask);
typedef int (*sc_nccl_init_v4)(void **context, int *mask, const char *name, uint64_t comm_hash,
			       int n_nodes, int n_ranks, int rank, void *log);
typedef int (*sc_nccl_init_v5)(void **context, uint64_t comm_hash, int *mask, const char *name,
			       int n_nodes, int n_ranks, int rank, void *log);
struct sc_nccl_plugin_v1 {
	SC_NCCL_TABLE(sc_nccl_init_v1) at;
};
struct sc_nccl_plugin_v4 {
	SC_NCCL_TABLE(sc_nccl_init_v4) at;
};
struct sc_nccl_plugin_v5 {
	SC_NCCL_TABLE(sc_nccl_init_v5) at;
};

#endif
