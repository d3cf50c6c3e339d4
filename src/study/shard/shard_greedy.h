/* Piece by piece on the rank with the least so far: what simple planners and papers' baselines do. */
#ifndef SC_STUDY_SHARD_GREEDY_H
#define SC_STUDY_SHARD_GREEDY_H

#include <stddef.h>
#include <stdint.h>

/* A table, or a slice of its columns. */
struct sc_piece {
	uint32_t table;
	int64_t col_offset, cols;
	double key, bytes;
	int32_t rank; /* result */
};
struct sc_greedy {
	uint32_t world;    /* ranks that take pieces */
	size_t max_pieces; /* of a rank; 0: any number */
	/* Bytes of each rank, or NULL: memory does not matter. Of ranks with equal keys the emptier is taken,
	 * and the emptiest of all where none has room. */
	const double *room;
};
/* Sorts the pieces by falling key, ties by table and columns, and gives each a rank. */
void sc_place_greedily(const struct sc_greedy *how, struct sc_piece *pieces, size_t n);

#endif
