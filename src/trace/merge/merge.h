/* Ranks of a run on one clock. Collectives are matched across ranks by communicator and number (or
 * order); a collective that nobody leaves before all have come ends on all ranks at about the same
 * time, so that the differences of end times show how the clocks differ; that no member ends before
 * another starts bounds it. Knows nothing of files or events: callers fill in the calls. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

enum { SC_MERGE_NO_INSTANCE = -1 };

/* A collective or point-to-point operation as one rank saw it. */
struct sc_merge_call {
	int64_t start_ns, end_ns; /* on the rank's clock, UTC as far as it is known */
	uint64_t comm;            /* communicator: equal on all its ranks */
	int64_t seq;              /* number of its kind within the communicator; -1 = not said */
	int64_t step;             /* 1 + its number on its rank; 0 = in none */
	int64_t bytes;            /* as the collective models count, or -1 */
	int32_t kind;             /* enum sc_collective, or -1; the same on all ranks */
	bool bytes_differ;        /* by rank, or they may */
	bool barrier;             /* nobody leaves before all have come */
	int32_t instance;         /* out: index in instances, or SC_MERGE_NO_INSTANCE */
	/* Not looked at here: */
	int32_t group_size; /* or -1 */
	bool of_replicas;   /* of a job: its ranks are the replicas of a stage */
	double bound_us;    /* the shortest of its rank, kind and size: the transfer is no longer */
};
/* From a time on: add to the rank's clock offset_ns + drift * (t - from_ns). */
struct sc_merge_piece {
	int64_t from_ns, to_ns; /* on the rank's clock; the first and last go on beyond */
	double offset_ns, drift;
	double low_ns, high_ns; /* what causality leaves for the error of this piece, around 0 */
	size_t n;               /* collectives used */
};
enum sc_merge_basis {
	SC_MERGE_REFERENCE, /* the clock that all others are brought to */
	SC_MERGE_SAME_HOST, /* as the parent: one clock for a host */
	SC_MERGE_COLLECTIVES,
	SC_MERGE_FEW, /* as the parent: hosts that may be one, and fewer collectives than tell two
			 clocks apart */
	SC_MERGE_HOST_CLOCK /* as recorded: no, or too few, collectives shared */
};
struct sc_merge_rank {
	int32_t rank;
	uint64_t host;                      /* hash; 0 = not known */
	SC_VEC(struct sc_merge_call) calls; /* by start */
	/* Out: */
	enum sc_merge_basis basis;
	size_t parent; /* index of the rank it was compared with */
	SC_VEC(struct sc_merge_piece) pieces;
	/* The spread of ends after the correction, against the parent's: half of them are within
	 * it; NAN if unknown. */
	double spread_ns;
};
struct sc_merge {
	SC_VEC(struct sc_merge_rank) ranks; /* the caller adds them; in the order of rank */
	SC_VEC(uint32_t) n_members;         /* by instance */
	size_t n_calls, n_matched;          /* calls, and those with at least one partner */
	size_t n_solo;                      /* calls of communicators that one recorded rank has */
};

void sc_merge_release(struct sc_merge *merge);
/* A new rank at the end; fill in its calls, in order of start. Valid until the next. */
struct sc_merge_rank *sc_merge_add_rank(struct sc_merge *merge, int32_t rank, uint64_t host);
/* Numbers the calls of all ranks: equal instance = the same collective. */
void sc_merge_match(struct sc_merge *merge);
/* After matching: the clock of each rank, against that of the first. */
void sc_merge_clocks(struct sc_merge *merge);
/* The correction to add to a time of the rank's clock. */
int64_t sc_merge_correction(const struct sc_merge_rank *rank, int64_t ns);
/* Half of the width that causality leaves: the largest over pieces; NAN without bounds. */
double sc_merge_bound_ns(const struct sc_merge_rank *rank);
const char *sc_merge_basis_name(enum sc_merge_basis basis);
