/* Collective algorithms as files: MSCCL's XML (Azure/msccl-executor-nccl, tools of
 * microsoft/msccl-tools). A GPU has thread blocks; each has at most one peer to send to, one to
 * receive from and a list of steps. Read (msccl_xml.c), proved (msccl_check.c), built
 * (msccl_build.c) and timed (msccl_walk.c). */
#pragma once

#include "base/file.h"
#include "base/strbuf.h"
#include "models/collective/collective.h"

enum {
	SC_MSCCL_MAX_GPUS = 4096,
	SC_MSCCL_MAX_CHUNKS = 1 << 20, /* of one buffer */
	SC_MSCCL_MAX_CHANNELS = 64,
	SC_MSCCL_MAX_TBS = 4096,   /* of a GPU */
	SC_MSCCL_MAX_STEPS = 4096, /* of a thread block */
	SC_MSCCL_MAX_COUNT = 71,   /* chunks that one step moves */
	SC_MSCCL_MAX_ALL_STEPS = 1 << 24,
	SC_MSCCL_MAX_ALL_CHUNKS = 1 << 24, /* of all buffers, and a loop's for each GPU */
	SC_MSCCL_MAX_BYTES = 1 << 28,      /* of a file */
};
enum sc_msccl_op {
	SC_MSCCL_NOP,
	SC_MSCCL_SEND,
	SC_MSCCL_RECV,
	SC_MSCCL_RECV_COPY_SEND,
	SC_MSCCL_RECV_REDUCE_SEND,
	SC_MSCCL_RECV_REDUCE_COPY,
	SC_MSCCL_RECV_REDUCE_COPY_SEND,
	SC_MSCCL_COPY,
	SC_MSCCL_REDUCE
};
enum sc_msccl_buffer { SC_MSCCL_INPUT, SC_MSCCL_OUTPUT, SC_MSCCL_SCRATCH, SC_MSCCL_N_BUFFERS };
enum sc_msccl_coll {
	SC_MSCCL_ALL_REDUCE,
	SC_MSCCL_ALL_GATHER,
	SC_MSCCL_REDUCE_SCATTER,
	SC_MSCCL_ALL_TO_ALL,
	SC_MSCCL_NEXT,   /* each rank but the first gets the last one's input; "custom" in files */
	SC_MSCCL_CUSTOM, /* and what else there is: only that it ends is proved */
};
struct sc_msccl_step {
	unsigned char op, src, dst;  /* sc_msccl_op, sc_msccl_buffer */
	int src_off, dst_off, count; /* chunks */
	int dep_tb, dep_step;        /* of this GPU, done before; -1: none */
	unsigned line;
};
struct sc_msccl_tb {
	int send, recv, channel; /* peers or -1 */
	size_t first, n;         /* steps */
	unsigned line;
};
struct sc_msccl_gpu {
	int chunks[SC_MSCCL_N_BUFFERS];
	size_t first, n; /* thread blocks */
	unsigned line;
};
struct sc_msccl {
	const char *file, *name;
	enum sc_msccl_coll coll;
	const char *coll_name;
	enum sc_proto proto;
	int n_gpus, n_channels,
		n_chunks; /* chunks of a loop: bytes of a chunk = bytes / n_chunks */
	bool in_place;
	double min_bytes, max_bytes; /* that it is registered for; max 0: no limit */
	struct sc_msccl_gpu *gpus;
	struct sc_msccl_tb *tbs;
	struct sc_msccl_step *steps;
	size_t n_tbs, n_steps;
};
extern const char *const sc_msccl_op_names[];    /* "nop", "s", "r", "rcs"... as in the XML */
extern const char *const sc_msccl_coll_names[];  /* "allreduce"... */
extern const char *const sc_msccl_proto_names[]; /* "LL", "LL128", "Simple" */
static inline bool sc_msccl_receives(enum sc_msccl_op op)
{
	return op >= SC_MSCCL_RECV && op <= SC_MSCCL_RECV_REDUCE_COPY_SEND;
}
static inline bool sc_msccl_sends(enum sc_msccl_op op)
{
	return op == SC_MSCCL_SEND || op == SC_MSCCL_RECV_COPY_SEND ||
	       op == SC_MSCCL_RECV_REDUCE_SEND || op == SC_MSCCL_RECV_REDUCE_COPY_SEND;
}

/* Parses and proves the form: ids, peers, ranges of buffers and dependencies. What is wrong is
 * named with line and column. Document types and entities are refused. */
int sc_msccl_parse(const struct sc_source *source, struct sc_arena *arena, struct sc_msccl *out,
		   struct sc_err *err);
int sc_msccl_load(const char *path, struct sc_arena *arena, struct sc_msccl *out,
		  struct sc_err *err);
/* Proves that it ends with the protocol's buffers and gives what the collective promises, by
 * running it on symbols: every send meets a receive of as many chunks, nothing is read before it is
 * written, no rank is added twice; and that no other order of its thread blocks gives another
 * result: of two accesses of a chunk, one of them a write, one comes after the other by
 * dependencies, sends and receives, and the protocol's buffers. What is wrong is named with rank,
 * thread block and step. */
int sc_msccl_check(const struct sc_msccl *algo, struct sc_err *err);
/* Primitives that a connection holds before its receiver takes one. */
int sc_msccl_slots(enum sc_proto proto);
/* As MSCCL's executor reads it. */
void sc_msccl_write(const struct sc_msccl *algo, struct sc_strbuf *out);

/* Common algorithms. `instances`: so many copies, each of one part of every chunk. */
enum sc_msccl_kind {
	SC_MSCCL_RING_ALL_GATHER, /* unfused: sends and receives apart */
	SC_MSCCL_RING_ALL_GATHER_FUSED,
	SC_MSCCL_RING_ALL_REDUCE,
	SC_MSCCL_PAIRS_ALL_GATHER,
	SC_MSCCL_PAIRS_ALL_REDUCE,
	SC_MSCCL_PAIRS_ALL_TO_ALL,
	SC_MSCCL_TWO_STEP_ALL_TO_ALL,
	SC_MSCCL_ALL_TO_NEXT,             /* between nodes over all NICs */
	SC_MSCCL_HIERARCHICAL_ALL_REDUCE, /* chains in nodes, each part in a ring between them */
	SC_MSCCL_TREE_ALL_REDUCE,         /* a chain in each node, their heads in a tree */
	SC_MSCCL_N_KINDS
};
struct sc_msccl_recipe {
	enum sc_msccl_kind kind;
	enum sc_proto proto;
	int n_gpus, gpus_per_node, channels, instances;
};
extern const char *const sc_msccl_kind_names[]; /* "ring_all_gather", NULL-ended */
/* SC_ECONFLICT: it is not for so many GPUs. */
int sc_msccl_recipe_check(const struct sc_msccl_recipe *recipe, struct sc_err *err);
void sc_msccl_build(const struct sc_msccl_recipe *recipe, struct sc_arena *arena,
		    struct sc_msccl *out);

/* The time of one run over `bytes` (nccl-tests' size). `busiest`: what held it back the most. */
struct sc_msccl_time {
	double total_us;
	/* "link", "port", "network", "block" (a thread block's rate), "latency"; "deadlock": at
	 * this size it never ends, and total_us is HUGE_VAL */
	const char *limit;
};
/* The nodes of ranks: so many on each node before the next is filled. */
struct sc_msccl_place {
	const struct sc_fabric *fabric;
	int ranks_per_node; /* <= the fabric's gpus_per_node */
};
/* SC_EUNSUPPORTED: the fabric has no rates for walks of this protocol. */
int sc_msccl_walk(const struct sc_msccl *algo, const struct sc_msccl_place *place, double bytes,
		  struct sc_msccl_time *out, struct sc_err *err);
