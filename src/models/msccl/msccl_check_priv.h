/* The machine that runs an algorithm on symbols (msccl_steps.c) for its proof (msccl_check.c). */
#pragma once

#include <stdint.h>

#include "base/vec.h"
#include "models/msccl/msccl_priv.h"

enum { SIMPLE_SLOTS = 2, LOW_LATENCY_SLOTS = 8 };
enum { ROW = 64 }; /* steps that are seen at once */

/* Chunk `chunk` summed over `n` ranks, whose numbers add up to `ranks`. */
struct value {
	int chunk, n; /* chunk < 0: nothing was written */
	uint64_t ranks;
};
/* The number of steps of another thread block that one has seen done, for those of some GPUs. */
typedef int16_t seen_steps;
_Static_assert(SC_MSCCL_MAX_STEPS < INT16_MAX, "seen_steps");
/* The reads of one slot since its last write: the last by each thread block. */
struct access {
	int tb, step; /* tb < 0: none */
	size_t next;  /* read, + 1 */
};
struct order {
	bool local;               /* dependencies alone: each thread block sees those of its GPU */
	size_t first, n, width;   /* thread blocks that are seen; width: a multiple of ROW */
	seen_steps *now;          /* by thread block */
	seen_steps *sent, *taken; /* by connection and slot: by its sender, its receiver */
	seen_steps *done;         /* by step that others wait for */
	struct access *written;   /* by slot; next: its reads */
	SC_VEC(struct access) reads;
};
struct connection {
	size_t n_sent, n_taken; /* primitives */
	struct value *values;   /* slots of max_count chunks */
	int count[LOW_LATENCY_SLOTS];
};
struct machine {
	const struct sc_msccl *algo;
	struct sc_err *err;
	struct value *slots;
	size_t *base[SC_MSCCL_N_BUFFERS]; /* of a GPU's buffer in slots; in place, two are one */
	size_t *at;                       /* next step of a thread block */
	struct sc_msccl_connections peers;
	struct connection *connections; /* of each in `peers` */
	uint64_t *number;               /* of a rank */
	struct value all;               /* of all ranks */
	size_t max_count;               /* chunks of a step */
	size_t n_slots;                 /* of all buffers */
	bool *unordered; /* by GPU: its dependencies alone do not order all accesses */
	size_t *done_at; /* by step that others wait for: its row of order.done, + 1 */
	size_t n_done;
	struct order order;
};

/* Runs all steps from where the machine stands, in any order. SC_EVALUE: one is wrong, waits for
 * ever, or sends what nobody takes. */
int sc_msccl_run(struct machine *m);
