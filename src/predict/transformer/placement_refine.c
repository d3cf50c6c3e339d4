/* Colours the ranks of any layout by refinement: they start with a colour made of what they are and
 * how their groups sit, and split by the colours of their sets and pipeline neighbours, as sets
 * split by the colours of their ranks, until nothing splits any more (Weisfeiler and Leman, 1968).
 * Only what is next to a change is looked at again, and a part of a split keeps its colour (after
 * Hopcroft, 1971). What is seen is compared by 64-bit hashes. */
#include <string.h>

#include "predict/transformer/placement_priv.h"

enum {
	MIN_MAX_COLORS = 1024, /* more classes than this cost more than they tell */
	WORK_PER_RANK = 24,    /* looks, on average, before giving up */
	MIN_WORK = 1 << 20,    /* looks that small worlds have anyway */
};

struct part { /* vertices of one colour that now see the same */
	uint32_t color, n;
	uint32_t to; /* its colour after the split */
};
struct cell {               /* a colour */
	uint32_t n, n_seen; /* vertices; of them looked at in this round */
	uint32_t largest;   /* part in this round, or UINT32_MAX */
	uint64_t mixed;     /* hash of the colour */
};
/* Vertices are the ranks, then the sets of each kind. */
struct refinement {
	struct placement_ranks *ranks;
	uint32_t n_vertices, n_colors;
	int kinds[PLACEMENT_N_SETS]; /* of sets that have more than one rank */
	int n_kinds;
	uint32_t *set_of[PLACEMENT_N_SETS]; /* by rank: vertex of its set of the k-th kind */
	uint32_t *set_base;                 /* by vertex - world: lowest rank */
	uint8_t *set_kind;                  /* by vertex - world: k */
	uint32_t *color, *part_of;          /* by vertex */
	uint32_t *listed;                   /* by vertex: round in which it was put in todo */
	uint64_t *look; /* by vertex: hash of all that it sees; of a set always up to date */
	uint32_t *todo, n_todo;
	uint32_t *changed, n_changed;
	struct part *parts;
	uint32_t n_parts;
	struct cell *cells;
	uint64_t *table_key; /* open addressing: (colour, look) -> part */
	uint32_t *table_part;
	uint32_t round;
	uint64_t work;
};

/* splitmix64's finalizer (Steele, Lea and Flood, 2014). */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static bool is_rank(const struct refinement *r, uint32_t vertex)
{
	return vertex < r->ranks->d->world;
}

/* ---- splitting ---- */

static void find_parts(struct refinement *r)
{
	uint32_t n_table = 16;

	while (n_table < 2 * r->n_todo)
		n_table *= 2;
	memset(r->table_part, 0xff, n_table * sizeof(*r->table_part));
	r->n_parts = 0;
	for (uint32_t i = 0; i < r->n_todo; i++) {
		const uint32_t mask = n_table - 1;
		uint32_t color = r->color[r->todo[i]];
		uint64_t key = mix(r->look[r->todo[i]] ^ r->cells[color].mixed);
		uint32_t at = (uint32_t)key & mask;

		while (r->table_part[at] != UINT32_MAX && r->table_key[at] != key)
			at = (at + 1) & mask;
		if (r->table_part[at] == UINT32_MAX) {
			r->table_key[at] = key;
			r->table_part[at] = r->n_parts;
			r->parts[r->n_parts++] = (struct part){.color = color};
		}
		uint32_t part = r->table_part[at];

		r->part_of[r->todo[i]] = part;
		r->parts[part].n++;
		r->cells[r->parts[part].color].n_seen++;
	}
}

static uint32_t new_color(struct refinement *r, uint32_t n)
{
	uint32_t color = r->n_colors++;

	r->cells[color] = (struct cell){.n = n, .largest = UINT32_MAX, .mixed = mix(color)};
	return color;
}

static void split(struct refinement *r)
{
	r->work += r->n_todo;
	find_parts(r);
	/* The vertices of a cell that were not looked at all see what they saw: they keep the colour. Where
	 * there are none, the largest part keeps it. */
	for (uint32_t p = 0; p < r->n_parts; p++) {
		struct cell *cell = &r->cells[r->parts[p].color];

		if (cell->largest == UINT32_MAX || r->parts[p].n > r->parts[cell->largest].n)
			cell->largest = p;
	}
	for (uint32_t p = 0; p < r->n_parts; p++) {
		struct part *part = &r->parts[p];
		const struct cell *cell = &r->cells[part->color];
		bool is_whole = cell->n == cell->n_seen;

		part->to = is_whole && cell->largest == p ? part->color : new_color(r, part->n);
	}
	for (uint32_t p = 0; p < r->n_parts; p++) {
		const struct part *part = &r->parts[p];
		struct cell *cell = &r->cells[part->color];

		cell->n_seen = 0;
		cell->largest = UINT32_MAX;
		if (part->to != part->color)
			cell->n -= part->n;
	}
	r->n_changed = 0;
	for (uint32_t i = 0; i < r->n_todo; i++) {
		uint32_t vertex = r->todo[i], to = r->parts[r->part_of[vertex]].to;
		uint64_t change = r->cells[to].mixed - r->cells[r->color[vertex]].mixed;

		if (to == r->color[vertex])
			continue;
		r->color[vertex] = to;
		r->changed[r->n_changed++] = vertex;
		if (!is_rank(r, vertex))
			continue;
		for (int k = 0; k < r->n_kinds; k++)
			r->look[r->set_of[k][vertex]] += change;
	}
}

/* ---- what a vertex sees ---- */

static void look(struct refinement *r)
{
	static const uint64_t odd[PLACEMENT_N_SETS + 2] = {
		0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu, 0xd6e8feb86659fd93u,
		0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu, 0x8ebc6af09c88c6e3u,
	};
	const struct placement_ranks *ranks = r->ranks;

	for (uint32_t i = 0; i < r->n_todo; i++) {
		uint32_t rank = r->todo[i], next, prev;
		uint64_t key;

		if (!is_rank(r, rank))
			continue;
		next = r->color[placement_next(ranks, rank)];
		prev = r->color[placement_prev(ranks, rank)];
		key = r->cells[next].mixed * odd[PLACEMENT_N_SETS] +
		      r->cells[prev].mixed * odd[PLACEMENT_N_SETS + 1];
		for (int k = 0; k < r->n_kinds; k++)
			key += r->cells[r->color[r->set_of[k][rank]]].mixed * odd[k];
		r->look[rank] = key;
	}
}

/* ---- who has to look again ---- */

static void list(struct refinement *r, uint32_t vertex)
{
	if (r->listed[vertex] == r->round)
		return;
	r->listed[vertex] = r->round;
	r->todo[r->n_todo++] = vertex;
}

static void list_members(struct refinement *r, uint32_t vertex)
{
	uint32_t at = vertex - r->ranks->d->world, base = r->set_base[at];
	int set = r->kinds[r->set_kind[at]];
	uint32_t n = placement_set_size(r->ranks, set, base);

	r->work += n;
	for (uint32_t i = 0; i < n; i++)
		list(r, placement_member(r->ranks, set, base, i));
}

static void list_first(struct refinement *r, uint32_t n)
{
	r->n_todo = n;
	for (uint32_t vertex = 0; vertex < n; vertex++)
		r->todo[vertex] = vertex;
}

/* ---- the whole ---- */

/* Sets of one rank tell nothing. */
static void number_sets(struct refinement *r)
{
	const struct placement_ranks *ranks = r->ranks;
	uint32_t world = ranks->d->world, n_most = 0;

	r->n_vertices = world;
	for (int set = 0; set < PLACEMENT_N_SETS; set++) {
		if (placement_set_size(ranks, set, 0) < 2)
			continue;
		r->kinds[r->n_kinds++] = set;
		n_most += world / placement_set_size(ranks, set, 0) + 1;
	}
	r->set_base = sc_arena_alloc(ranks->arena, n_most * sizeof(*r->set_base));
	r->set_kind = sc_arena_alloc(ranks->arena, n_most * sizeof(*r->set_kind));
	for (int k = 0; k < r->n_kinds; k++) {
		const uint32_t *base = ranks->base[r->kinds[k]];

		r->set_of[k] = sc_arena_alloc(ranks->arena, world * sizeof(*r->set_of[k]));
		for (uint32_t rank = 0; rank < world; rank++) {
			if (base[rank] == rank) {
				r->set_base[r->n_vertices - world] = rank;
				r->set_kind[r->n_vertices - world] = (uint8_t)k;
				r->set_of[k][rank] = r->n_vertices++;
			} else {
				r->set_of[k][rank] = r->set_of[k][base[rank]];
			}
		}
	}
}

static void alloc_refinement(struct refinement *r)
{
	struct sc_arena *arena = r->ranks->arena;
	size_t n = r->n_vertices, n_table = 16;

	while (n_table < 2 * n)
		n_table *= 2;
	r->color = sc_arena_calloc(arena, n, sizeof(*r->color));
	r->part_of = sc_arena_alloc(arena, n * sizeof(*r->part_of));
	r->listed = sc_arena_calloc(arena, n, sizeof(*r->listed));
	r->look = sc_arena_calloc(arena, n, sizeof(*r->look));
	r->todo = sc_arena_alloc(arena, n * sizeof(*r->todo));
	r->changed = sc_arena_alloc(arena, n * sizeof(*r->changed));
	r->parts = sc_arena_alloc(arena, n * sizeof(*r->parts));
	r->cells = sc_arena_alloc(arena, (n + 1) * sizeof(*r->cells));
	r->table_key = sc_arena_alloc(arena, n_table * sizeof(*r->table_key));
	r->table_part = sc_arena_alloc(arena, n_table * sizeof(*r->table_part));
}

/* One colour for all ranks, split by what they are; one for the sets of each kind. */
static void start(struct refinement *r)
{
	uint32_t world = r->ranks->d->world, vertex = world;

	new_color(r, world);
	for (uint32_t rank = 0; rank < world; rank++) {
		const struct placement_ranks *ranks = r->ranks;
		uint32_t node = ranks->node[rank];
		uint64_t key = ((uint64_t)ranks->stage[rank] << 8 | ranks->kind[rank]) << 2, bits;

		key += (uint64_t)(node == ranks->node[placement_next(ranks, rank)]) << 1;
		key += node == ranks->node[placement_prev(ranks, rank)];
		memcpy(&bits, &ranks->slowdown[rank], sizeof(bits));
		key = mix(mix(key) ^ (bits + 0x632be59bd9b4e019u));
		for (int k = 0; k < r->n_kinds; k++) {
			const struct sc_span *span;

			if (r->kinds[k] == PLACEMENT_NODE)
				continue;
			span = &ranks->span[r->kinds[k]][ranks->base[r->kinds[k]][rank]];
			key = mix(key ^ ((uint64_t)span->n_nodes << 32 |
					 (uint32_t)span->max_ranks_per_node));
		}
		r->look[rank] = key;
	}
	list_first(r, world);
	split(r);
	for (int k = 0; k < r->n_kinds; k++) {
		uint32_t color = new_color(r, 0);

		for (; vertex < r->n_vertices && r->set_kind[vertex - world] == k; vertex++) {
			r->color[vertex] = color;
			r->look[vertex] = 0;
			r->cells[color].n++;
		}
		for (uint32_t rank = 0; rank < world; rank++)
			r->look[r->set_of[k][rank]] += r->cells[r->color[rank]].mixed;
	}
}

/* Colours of ranks only, numbered by their lowest rank. */
static void number_colors(struct refinement *r)
{
	struct placement_ranks *ranks = r->ranks;
	uint32_t *number = r->part_of;

	memset(number, 0xff, r->n_colors * sizeof(*number));
	for (uint32_t rank = 0; rank < ranks->d->world; rank++) {
		uint32_t *at = &number[r->color[rank]];

		if (*at == UINT32_MAX)
			*at = ranks->n_colors++;
		ranks->color[rank] = *at;
	}
}

bool placement_refine(struct placement_ranks *ranks)
{
	struct refinement r = {.ranks = ranks};
	uint32_t max_colors = 4 * ranks->d->size[SC_AXIS_PP];
	uint64_t max_work = (uint64_t)WORK_PER_RANK * ranks->d->world;

	if (max_colors < MIN_MAX_COLORS)
		max_colors = MIN_MAX_COLORS;
	if (max_work < MIN_WORK)
		max_work = MIN_WORK;
	number_sets(&r);
	alloc_refinement(&r);
	start(&r);
	list_first(&r, r.n_vertices);
	while (r.n_todo > 0) {
		/* Sets have colours, too: at most as many of each kind as the ranks have. */
		if (r.n_colors > (1 + (uint32_t)r.n_kinds) * max_colors || r.work > max_work)
			return false;
		look(&r);
		split(&r);
		r.round++;
		r.n_todo = 0;
		for (uint32_t i = 0; i < r.n_changed; i++) {
			uint32_t vertex = r.changed[i];

			if (!is_rank(&r, vertex)) {
				list_members(&r, vertex);
				continue;
			}
			for (int k = 0; k < r.n_kinds; k++)
				list(&r, r.set_of[k][vertex]);
			list(&r, placement_next(r.ranks, vertex));
			list(&r, placement_prev(r.ranks, vertex));
		}
	}
	number_colors(&r);
	return ranks->n_colors <= max_colors;
}
