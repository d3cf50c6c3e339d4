/* See the header. */
#include "study/shard/shard_greedy.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

struct load {
	double key, bytes; /* of its pieces */
	size_t n;
};

static int by_key_descending(const void *a, const void *b)
{
	const struct sc_piece *x = a, *y = b;

	if (x->key > y->key || x->key < y->key)
		return x->key > y->key ? -1 : 1;
	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	return (x->col_offset > y->col_offset) - (x->col_offset < y->col_offset);
}

static uint32_t choose(const struct sc_greedy *how, const struct load *load, double bytes)
{
	uint32_t found = how->world, empty = 0;

	for (uint32_t r = 0; r < how->world; r++) {
		if (load[r].bytes < load[empty].bytes)
			empty = r;
		if ((how->max_pieces && load[r].n >= how->max_pieces) ||
		    (how->room && load[r].bytes + bytes > how->room[r]))
			continue;
		if (found == how->world || load[r].key < load[found].key ||
		    (how->room && load[r].key <= load[found].key &&
		     load[r].bytes < load[found].bytes))
			found = r;
	}
	return found < how->world ? found : empty;
}

void sc_place_greedily(const struct sc_greedy *how, struct sc_piece *pieces, size_t n)
{
	struct load *load = sc_xrealloc(NULL, how->world, sizeof(*load));

	memset(load, 0, how->world * sizeof(*load));
	if (n)
		qsort(pieces, n, sizeof(*pieces), by_key_descending);
	for (size_t i = 0; i < n; i++) {
		uint32_t rank = choose(how, load, pieces[i].bytes);

		pieces[i].rank = (int32_t)rank;
		load[rank].key += pieces[i].key;
		load[rank].bytes += pieces[i].bytes;
		load[rank].n++;
	}
	free(load);
}
