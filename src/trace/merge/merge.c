/* Ranks to be merged, and times on the common clock. */
#include "trace/merge/merge.h"

#include <math.h>
#include <stdlib.h>

void sc_merge_release(struct sc_merge *merge)
{
	for (size_t r = 0; r < merge->ranks.n; r++) {
		SC_VEC_RELEASE(&merge->ranks.at[r].calls);
		SC_VEC_RELEASE(&merge->ranks.at[r].pieces);
	}
	SC_VEC_RELEASE(&merge->ranks);
	SC_VEC_RELEASE(&merge->instances);
}

struct sc_merge_rank *sc_merge_add_rank(struct sc_merge *merge, int32_t rank, uint64_t host)
{
	const struct sc_merge_rank new_rank = {
		.rank = rank,
		.host = host,
		.basis = SC_MERGE_HOST_CLOCK,
		.spread_ns = NAN,
		.bias_ns = NAN,
	};

	SC_VEC_PUSH(&merge->ranks, new_rank);
	return &merge->ranks.at[merge->ranks.n - 1];
}

int64_t sc_merge_correction(const struct sc_merge_rank *rank, int64_t ns)
{
	const struct sc_merge_piece *piece;
	size_t i = 0;

	if (rank->pieces.n == 0)
		return 0;
	while (i + 1 < rank->pieces.n && ns >= rank->pieces.at[i].to_ns)
		i++;
	piece = &rank->pieces.at[i];
	return (int64_t)llround(piece->offset_ns + piece->drift * (double)(ns - piece->from_ns));
}

double sc_merge_bound_ns(const struct sc_merge_rank *rank)
{
	double widest = NAN;

	for (size_t i = 0; i < rank->pieces.n; i++) {
		const double half = (rank->pieces.at[i].high_ns - rank->pieces.at[i].low_ns) / 2;

		if (isnan(widest) || half > widest)
			widest = half;
	}
	return widest;
}

const char *sc_merge_basis_name(enum sc_merge_basis basis)
{
	static const char *const names[] = {
		[SC_MERGE_REFERENCE] = "reference",     [SC_MERGE_SAME_HOST] = "same host",
		[SC_MERGE_COLLECTIVES] = "collectives", [SC_MERGE_FEW] = "few collectives",
		[SC_MERGE_HOST_CLOCK] = "host clock",
	};

	return names[basis];
}
