/* What the search over whole steps shares: the parts of a shard's cost apart, a plan that changes table
 * by table with an estimate of its step, and the changes that are tried. */
#ifndef SC_STUDY_SHARD_STEP_PRIV_H
#define SC_STUDY_SHARD_STEP_PRIV_H

#include "base/rng.h"
#include "base/units.h"
#include "predict/dlrm/dlrm.h"
#include "study/shard/shard.h"

/* Tables of at most so many bytes may be replicated: beyond, their gradients' all-reduce never pays. */
#define SC_STEP_MAX_REPLICA_BYTES (256 * SC_BYTES_PER_MIB)
enum { SC_STEP_MIN_COLS = 16, SC_STEP_MAX_SLICES = 64 };

/* A shard of a placement; times of its kernels without their start. */
struct sc_step_part {
	double forward_ms, backward_ms;
	double vector_bytes; /* pooled vectors of its columns, of the whole batch */
	double hbm_bytes, host_bytes, ssd_bytes;
};
/* ms a byte of each collective. */
struct sc_exchange_rates {
	bool partial_sums; /* slices of rows send whole vectors */
	bool by_node;      /* added up within a node first: host_scatter is its all-to-all */
	double a2a, scatter, host_scatter, reduce;
};
/* Of a problem that sc_iteration_problem made; `shard->table` is the problem's. */
void sc_iteration_part(const struct sc_shard_problem *problem, const struct sc_table_placement *p,
		       const struct sc_shard *shard, struct sc_step_part *out);
const struct sc_exchange_rates *sc_iteration_rates(const struct sc_shard_problem *problem);

/* A table's placement; its shards with their parts. */
struct sc_step_shard {
	struct sc_shard at;
	struct sc_step_part part;
};
struct sc_home {
	struct sc_table_placement placement;
	SC_VEC(struct sc_step_shard) shards;
};
/* How much each phase of a step counts: what overlaps counts less. Candidates come by several. */
struct sc_step_weights {
	double exchange, replica, reduce;
};
struct sc_known_part {
	int64_t rows, cols;
	bool first, replica;
	struct sc_step_part part;
};
typedef SC_VEC(struct sc_known_part) sc_known_parts;
struct sc_step_state {
	const struct sc_shard_problem *problem;
	const struct sc_exchange_rates *rates;
	struct sc_home *homes;                   /* of each table of the problem */
	double *forward, *backward, *sent, *hbm; /* of each rank */
	double *node_columns; /* of each host: bytes of vectors that leave it, or are added up in it */
	double scatter_bytes, replica_ms, reduce_bytes;
	sc_known_parts *known; /* of each table, HBM alone */
};
void sc_step_state_init(struct sc_step_state *s, const struct sc_shard_problem *problem);
void sc_step_state_release(struct sc_step_state *s);
/* Takes over a plan: false where it is not of the problem's tables. */
bool sc_step_state_load(struct sc_step_state *s, const struct sc_shard_plan *plan);
void sc_step_state_plan(const struct sc_step_state *s, struct sc_shard_plan *out);
/* Puts a home in place of its table's, which goes to `home`: once more undoes it. */
void sc_step_state_swap(struct sc_step_state *s, uint32_t table, struct sc_home *home);
bool sc_step_state_fits(const struct sc_step_state *s); /* GPU memory */
double sc_step_estimate(const struct sc_step_state *s, const struct sc_step_weights *w);

/* Homes to try; each clears `out` first. */
struct sc_step_slice {
	int32_t rank;
	int64_t row_offset, col_offset, rows, cols;
};
void sc_home_begin(struct sc_home *out, const struct sc_table *table, enum sc_shard_type type);
void sc_home_add(struct sc_step_state *s, uint32_t table, struct sc_home *home,
		 const struct sc_step_slice *slice);
void sc_home_copy(struct sc_home *to, const struct sc_home *from);
void sc_home_release(struct sc_home *home);

#endif
