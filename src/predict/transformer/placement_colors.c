/* Colours ranks by what they are and see of others, so that ranks of one colour behave alike. */
#include <string.h>

#include "predict/transformer/placement_ranks.h"

enum {
	MIN_MAX_COLORS = 1024, /* more classes than this cost more than they tell */
	LOOKS_PER_RANK = 32,   /* and one a stage, before giving up */
	MIN_LOOKS = 1 << 20,   /* small worlds have these anyway */
};

/* splitmix64's finalizer (Steele, Lea and Flood, 2014). */
static uint64_t mix_bits(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Returns what a rank is and how its groups sit, to begin with. */
static uint64_t first_look(const struct placement_ranks *ranks, uint32_t rank)
{
	uint32_t node = ranks->node[rank];
	uint64_t key = ((uint64_t)ranks->stage[rank] << 8 | ranks->kind[rank]) << 2, bits;

	key += (uint64_t)(node == ranks->node[placement_beside(ranks, rank, true)]) << 1;
	key += node == ranks->node[placement_beside(ranks, rank, false)];
	memcpy(&bits, &ranks->slowdown[rank], sizeof(bits));
	key = mix_bits(mix_bits(key) ^ bits);
	for (int axis = 0; axis < SC_AXIS_PP; axis++) {
		const struct sc_span *span = &ranks->span[axis][ranks->base[axis][rank]];

		key = mix_bits(
			key ^ ((uint64_t)span->n_nodes << 32 | (uint32_t)span->max_ranks_per_node));
	}
	return key;
}

/* Numbers what ranks see as their colours; returns whether these are no more than `most`. */
static bool number_colors(struct placement_ranks *ranks, const uint64_t *look, uint32_t most)
{
	struct sc_arena_mark mark = sc_arena_mark(ranks->arena);
	uint32_t n_slots = 16;
	struct slot {
		uint64_t look;
		uint32_t color; /* number + 1 */
	} * slots;

	while (n_slots < 2 * most)
		n_slots *= 2;
	slots = sc_arena_calloc(ranks->arena, n_slots, sizeof(*slots));
	ranks->n_colors = 0;
	for (uint32_t rank = 0; rank < ranks->d->world && ranks->n_colors <= most; rank++) {
		uint32_t at = (uint32_t)look[rank] & (n_slots - 1);

		while (slots[at].color && slots[at].look != look[rank])
			at = (at + 1) & (n_slots - 1);
		if (!slots[at].color)
			slots[at] = (struct slot){look[rank], ++ranks->n_colors};
		ranks->color[rank] = slots[at].color - 1;
	}
	sc_arena_rewind(ranks->arena, mark);
	return ranks->n_colors <= most;
}

bool sc_placement_refine(struct placement_ranks *ranks)
{
	const uint32_t world = ranks->d->world, pp = ranks->d->size[SC_AXIS_PP];
	const uint32_t most = 4 * pp > MIN_MAX_COLORS ? 4 * pp : MIN_MAX_COLORS;
	uint64_t *look = sc_arena_alloc(ranks->arena, world * sizeof(*look));
	uint64_t *sum = sc_arena_alloc(ranks->arena, world * sizeof(*sum)); /* by base */
	uint64_t n_looks = 0, max_looks = (uint64_t)(LOOKS_PER_RANK + pp) * world;
	uint32_t before = 0;

	for (uint32_t rank = 0; rank < world; rank++)
		look[rank] = first_look(ranks, rank);
	while (number_colors(ranks, look, most) && ranks->n_colors > before) {
		before = ranks->n_colors;
		n_looks += world;
		if (n_looks > MIN_LOOKS && n_looks > max_looks)
			return false;
		for (uint32_t rank = 0; rank < world; rank++)
			look[rank] = mix_bits(
				mix_bits(mix_bits(ranks->color[rank]) +
					 ranks->color[placement_beside(ranks, rank, true)]) +
				ranks->color[placement_beside(ranks, rank, false)]);
		for (int set = 0; set < PLACEMENT_N_SETS; set++) {
			const uint32_t *base = ranks->base[set];

			if (ranks->shape[set].n_a * ranks->shape[set].n_b < 2)
				continue;
			memset(sum, 0, world * sizeof(*sum));
			for (uint32_t rank = 0; rank < world; rank++)
				sum[base[rank]] += mix_bits(ranks->color[rank]);
			for (uint32_t rank = 0; rank < world; rank++)
				look[rank] = mix_bits(look[rank] + sum[base[rank]]);
		}
	}
	return ranks->n_colors <= most;
}
