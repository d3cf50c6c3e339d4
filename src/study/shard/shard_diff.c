/* Compares two plans table by table: shards of one plan do not overlap, so the elements that both
 * have in common on a rank can be summed. */
#include "study/shard/shard_diff.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"

static double common(int64_t a, int64_t n_a, int64_t b, int64_t n_b)
{
	int64_t begin = a > b ? a : b;
	int64_t end = a + n_a < b + n_b ? a + n_a : b + n_b;

	return end > begin ? (double)(end - begin) : 0;
}

SC_COMPARE(by_rank, struct sc_shard,
	   4 * SC_ORDER(a->rank, b->rank) + 2 * SC_ORDER(a->col_offset, b->col_offset) +
		   SC_ORDER(a->row_offset, b->row_offset));

/* Counts the elements of `to` that their ranks do not have yet. `scratch` holds the old shards by
 * rank. */
static double missing(const struct sc_shard *from, uint32_t n_from, const struct sc_shard *to,
		      uint32_t n_to, struct sc_shard *scratch)
{
	double sum = 0;

	memcpy(scratch, from, n_from * sizeof(*scratch));
	SC_SORT(scratch, n_from, by_rank);
	for (uint32_t i = 0; i < n_to; i++) {
		size_t low;

		sum += (double)to[i].rows * (double)to[i].cols;
		SC_FIRST_NOT(low, k, 0, n_from, scratch[k].rank < to[i].rank);
		for (; low < n_from && scratch[low].rank == to[i].rank; low++)
			sum -= common(scratch[low].row_offset, scratch[low].rows, to[i].row_offset,
				      to[i].rows) *
			       common(scratch[low].col_offset, scratch[low].cols, to[i].col_offset,
				      to[i].cols);
	}
	return sum;
}

static void compare(const struct sc_shard_plan *from, const struct sc_table_placement *old,
		    const struct sc_shard_plan *to, const struct sc_table_placement *new,
		    struct sc_shard *scratch, double elem_bytes, struct sc_shard_diff *out)
{
	const struct sc_shard *x = from->shards.at + old->first_shard;
	const struct sc_shard *y = to->shards.at + new->first_shard;
	struct sc_shard_move move = {
		.table = new->name,
		.from = {old->type, old->tier, old->n_shards, old->n_shards == 1 ? x->rank : -1},
		.to = {new->type, new->tier, new->n_shards, new->n_shards == 1 ? y->rank : -1},
	};

	move.moved_bytes = elem_bytes * missing(x, old->n_shards, y, new->n_shards, scratch);
	if (new->hot_rows > old->hot_rows) /* all ranks but one have to get the new copies */
		move.moved_bytes += elem_bytes * (double)(new->hot_rows - old->hot_rows) *
				    (double)new->dim *(double)(to->world - 1);
	if (old->type == new->type && old->tier == new->tier && old->n_shards == new->n_shards &&
	    old->hot_rows == new->hot_rows &&move.moved_bytes <= 0)
		return;
	out->moved_bytes += move.moved_bytes;
	SC_VEC_PUSH(&out->moves, move);
}

SC_COMPARE(by_bytes, struct sc_shard_move,
	   2 * SC_ORDER(b->moved_bytes, a->moved_bytes) + SC_ORDER(strcmp(a->table, b->table), 0));

int sc_shard_diff_compute(const struct sc_shard_plan *from, const struct sc_shard_plan *to,
			  const struct sc_table_list *tables, struct sc_shard_diff *out,
			  struct sc_err *err)
{
	struct sc_shard *scratch;

	*out = (struct sc_shard_diff){.moved_bytes = 0};
	if (from->world != to->world)
		return sc_err_set(err, SC_ECONFLICT, "plans for %u and %u ranks cannot be compared",
				  from->world, to->world);
	if (from->tables.n != tables->n || to->tables.n != tables->n)
		return sc_err_at(err, SC_ECONFLICT, from->file, 0, 0,
				 "plans of %zu and of %zu tables cannot be compared",
				 from->tables.n, to->tables.n);
	scratch = sc_xrealloc(NULL, from->shards.n + 1, sizeof(*scratch));
	for (size_t i = 0; i < tables->n; i++)
		compare(from, &from->tables.at[i], to, &to->tables.at[i], scratch,
			sc_dtype_bytes(tables->at[i].dtype), out);
	SC_SORT(out->moves.at, out->moves.n, by_bytes);
	free(scratch);
	return 0;
}
