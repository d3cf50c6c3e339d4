/* Folds the ranks of any layout by colour refinement: ranks start with a colour made of what they are
 * and how their groups sit, and take on new ones from the colours of their groups, pipeline
 * neighbours and node until nothing splits any more (Weisfeiler and Leman, 1968). */
#include <string.h>

#include "base/vec.h"
#include "predict/placement_priv.h"

struct refinement {
	const struct layout_dims *d;
	struct sc_arena *arena;
	uint32_t *color; /* by rank, dense */
	uint32_t n_colors;
	uint64_t *key; /* by rank, of the next round */
	uint64_t *group_sum, *node_sum;
	struct sc_span *span[SC_AXIS_PP]; /* by base rank */
	double *slowdown;                 /* by rank */
	uint32_t *table_color, n_table;   /* open-addressing table of keys -> colours */
	uint64_t *table_key;
};

/* splitmix64's finalizer (Steele, Lea and Flood, 2014). */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t mix2(uint64_t a, uint64_t b)
{
	return mix(mix(a) ^ (b + 0x632be59bd9b4e019u));
}

static uint32_t node_of(const struct refinement *r, uint32_t rank)
{
	return rank / r->d->gpus_per_node;
}

/* Ranks come in rising order, so a group's nodes do, too. */
static void find_spans(struct refinement *r, enum sc_axis axis)
{
	uint32_t n = r->d->world;
	uint32_t *last = sc_arena_calloc(r->arena, n, sizeof(*last));
	int *here = sc_arena_calloc(r->arena, n, sizeof(*here));

	r->span[axis] = sc_arena_calloc(r->arena, n, sizeof(*r->span[axis]));
	for (uint32_t rank = 0; rank < n; rank++) {
		uint32_t base = placement_base(r->d, axis, rank);
		struct sc_span *s = &r->span[axis][base];

		if (s->n_ranks == 0 || last[base] != node_of(r, rank)) {
			s->n_nodes++;
			here[base] = 0;
			last[base] = node_of(r, rank);
		}
		s->n_ranks++;
		if (++here[base] > s->max_ranks_per_node)
			s->max_ranks_per_node = here[base];
	}
}

/* Colours by key, numbered by first appearance. */
static void relabel(struct refinement *r)
{
	uint32_t mask = r->n_table - 1;

	memset(r->table_color, 0xff, r->n_table * sizeof(*r->table_color));
	r->n_colors = 0;
	for (uint32_t rank = 0; rank < r->d->world; rank++) {
		uint32_t at = (uint32_t)mix(r->key[rank]) & mask;

		while (r->table_color[at] != UINT32_MAX && r->table_key[at] != r->key[rank])
			at = (at + 1) & mask;
		if (r->table_color[at] == UINT32_MAX) {
			r->table_color[at] = r->n_colors++;
			r->table_key[at] = r->key[rank];
		}
		r->color[rank] = r->table_color[at];
	}
}

static void first_colors(struct refinement *r)
{
	for (uint32_t rank = 0; rank < r->d->world; rank++) {
		uint64_t key = placement_coord(r->d, SC_AXIS_PP, rank), bits;

		memcpy(&bits, &r->slowdown[rank], sizeof(bits));
		key = mix2(key, bits);
		for (int a = 0; a < SC_AXIS_PP; a++) {
			const struct sc_span *s =
				&r->span[a][placement_base(r->d, (enum sc_axis)a, rank)];

			key = mix2(key,
				   (uint64_t)s->n_nodes << 32 | (uint32_t)s->max_ranks_per_node);
		}
		r->key[rank] = key;
	}
	relabel(r);
}

/* Adds the colours of each rank's axis group to its key. */
static void add_groups(struct refinement *r, enum sc_axis axis)
{
	uint32_t n = r->d->world;

	memset(r->group_sum, 0, n * sizeof(*r->group_sum));
	for (uint32_t rank = 0; rank < n; rank++)
		r->group_sum[placement_base(r->d, axis, rank)] += mix(r->color[rank]);
	for (uint32_t rank = 0; rank < n; rank++)
		r->key[rank] = mix2(r->key[rank], r->group_sum[placement_base(r->d, axis, rank)]);
}

static void add_node(struct refinement *r)
{
	uint32_t n = r->d->world;

	memset(r->node_sum, 0, n * sizeof(*r->node_sum));
	for (uint32_t rank = 0; rank < n; rank++)
		r->node_sum[node_of(r, rank)] += mix(r->color[rank]);
	for (uint32_t rank = 0; rank < n; rank++)
		r->key[rank] = mix2(r->key[rank], r->node_sum[node_of(r, rank)]);
}

static void refine_round(struct refinement *r)
{
	uint32_t n = r->d->world, back = r->d->size[SC_AXIS_PP] - 1;

	for (uint32_t rank = 0; rank < n; rank++) {
		uint32_t next = placement_neighbour(r->d, rank, 1);
		uint32_t prev = placement_neighbour(r->d, rank, back);
		uint64_t key = mix2(r->color[rank], r->color[next]);

		key = mix2(key, r->color[prev]);
		key = mix2(key, (uint64_t)(node_of(r, rank) == node_of(r, next)) << 1 |
					(node_of(r, rank) == node_of(r, prev)));
		r->key[rank] = key;
	}
	for (int a = 0; a < SC_AXIS_PP; a++)
		add_groups(r, (enum sc_axis)a);
	add_node(r);
	relabel(r);
}

static void refine(struct refinement *r, bool unfolded)
{
	uint32_t before = 0;

	if (unfolded) {
		for (uint32_t rank = 0; rank < r->d->world; rank++)
			r->color[rank] = rank;
		r->n_colors = r->d->world;
		return;
	}
	first_colors(r);
	while (r->n_colors != before) {
		before = r->n_colors;
		refine_round(r);
	}
}

/* ---- from colours to classes ---- */

/* Class ids by stage, then by lowest rank. */
static uint32_t *order_classes(const struct refinement *r, struct sc_placement *out)
{
	uint32_t *class_of = sc_arena_calloc(r->arena, r->n_colors, sizeof(*class_of));
	uint32_t n = 0;

	memset(class_of, 0xff, r->n_colors * sizeof(*class_of));
	for (uint32_t stage = 0; stage < r->d->size[SC_AXIS_PP]; stage++)
		for (uint32_t rank = 0; rank < r->d->world; rank++) {
			uint32_t *id = &class_of[r->color[rank]];

			if (placement_coord(r->d, SC_AXIS_PP, rank) != stage || *id != UINT32_MAX)
				continue;
			out->classes[n].representative = rank;
			out->classes[n].stage = (int)stage;
			*id = n++;
		}
	for (uint32_t rank = 0; rank < r->d->world; rank++)
		out->classes[class_of[r->color[rank]]].multiplicity++;
	return class_of;
}

/* Adds one rank of class `id` to the member list under construction, kept sorted by class. */
static void count_member(struct sc_placement *out, struct sc_axis_group *group, uint32_t id)
{
	struct sc_member *m = out->members + group->first_member;
	uint32_t i = 0, n = group->n_members;

	while (i < n && m[i].class_id < id)
		i++;
	if (i < n && m[i].class_id == id) {
		m[i].count++;
		return;
	}
	memmove(&m[i + 1], &m[i], (n - i) * sizeof(*m));
	m[i] = (struct sc_member){id, 1};
	group->n_members++;
}

static void list_members(const struct refinement *r, const uint32_t *class_of, enum sc_axis axis,
			 struct sc_rank_class *c, struct sc_placement *out)
{
	struct axis_shape x = placement_axis(r->d, axis);
	uint32_t base = placement_base(r->d, axis, c->representative);
	struct sc_axis_group *group = &c->group[axis];

	group->span = r->span[axis][base];
	group->first_member = (uint32_t)out->n_members;
	for (uint32_t j = 0; j < x.n_b; j++)
		for (uint32_t i = 0; i < x.n_a; i++) {
			uint32_t rank = base + i * x.stride_a + j * x.stride_b;

			count_member(out, group, class_of[r->color[rank]]);
		}
	out->n_members += group->n_members;
}

/* Classes whose groups have the same members are in one folded group. */
static void number_instance(struct sc_placement *out, enum sc_axis axis, uint32_t c)
{
	struct sc_axis_group *mine = &out->classes[c].group[axis];
	const struct sc_member *m = out->members + mine->first_member;
	uint32_t lowest = m[0].class_id;

	if (lowest < c)
		mine->instance = out->classes[lowest].group[axis].instance;
	else
		mine->instance = (uint32_t)out->n_instances++;
}

static void place_node(const struct refinement *r, const uint32_t *class_of,
		       struct sc_placement *out, uint32_t c)
{
	struct sc_rank_class *rc = &out->classes[c];
	uint32_t first = node_of(r, rc->representative) * r->d->gpus_per_node, lowest = c;
	uint32_t end = first + r->d->gpus_per_node, mine = 0, alike = 0;

	for (uint32_t rank = first; rank < end && rank < r->d->world; rank++) {
		uint32_t id = class_of[r->color[rank]];

		mine += id == c;
		alike += placement_coord(r->d, SC_AXIS_PP, rank) == (uint32_t)rc->stage;
		if (id < lowest)
			lowest = id;
	}
	rc->ranks_per_domain = mine;
	rc->stage_ranks_per_node = alike;
	rc->nic_domain = lowest; /* named after the first class on the node */
}

static void fill_class(const struct refinement *r, const uint32_t *class_of,
		       struct sc_placement *out, uint32_t c)
{
	struct sc_rank_class *rc = &out->classes[c];
	uint32_t next = placement_neighbour(r->d, rc->representative, 1);
	uint32_t prev = placement_neighbour(r->d, rc->representative, r->d->size[SC_AXIS_PP] - 1);
	uint32_t node = node_of(r, rc->representative);

	rc->slowdown = r->slowdown[rc->representative];
	rc->next_class = class_of[r->color[next]];
	rc->prev_class = class_of[r->color[prev]];
	rc->next_remote = node_of(r, next) != node;
	rc->prev_remote = node_of(r, prev) != node;
	for (int a = 0; a < SC_AXIS_PP; a++) {
		list_members(r, class_of, (enum sc_axis)a, rc, out);
		number_instance(out, (enum sc_axis)a, c);
	}
	place_node(r, class_of, out, c);
}

static void alloc_refinement(struct refinement *r)
{
	uint32_t n = r->d->world;

	r->color = sc_arena_calloc(r->arena, n, sizeof(*r->color));
	r->key = sc_arena_calloc(r->arena, n, sizeof(*r->key));
	r->group_sum = sc_arena_calloc(r->arena, n, sizeof(*r->group_sum));
	r->node_sum = sc_arena_calloc(r->arena, n, sizeof(*r->node_sum));
	r->slowdown = sc_arena_calloc(r->arena, n, sizeof(*r->slowdown));
	for (r->n_table = 16; r->n_table < 2 * n;)
		r->n_table *= 2;
	r->table_color = sc_arena_calloc(r->arena, r->n_table, sizeof(*r->table_color));
	r->table_key = sc_arena_calloc(r->arena, r->n_table, sizeof(*r->table_key));
}

void placement_refine(const struct sc_layout *layout, const struct layout_dims *d,
		      struct sc_arena *arena, struct sc_placement *out)
{
	struct refinement r = {.d = d, .arena = arena};
	uint32_t *class_of;
	size_t members = 0;

	alloc_refinement(&r);
	for (uint32_t rank = 0; rank < d->world; rank++)
		r.slowdown[rank] = 1;
	for (size_t i = 0; i < layout->n_stragglers; i++)
		for (size_t j = 0; j < layout->stragglers[i].ranks.n; j++) {
			int64_t rank = layout->stragglers[i].ranks.at[j];

			if (rank >= 0 && rank < d->world)
				r.slowdown[rank] *= layout->stragglers[i].slowdown;
		}
	for (int a = 0; a < SC_AXIS_PP; a++)
		find_spans(&r, (enum sc_axis)a);
	refine(&r, layout->unfolded);
	out->n_classes = r.n_colors;
	out->classes = sc_arena_calloc(arena, out->n_classes, sizeof(*out->classes));
	class_of = order_classes(&r, out);
	for (int a = 0; a < SC_AXIS_PP; a++) {
		struct axis_shape x = placement_axis(d, (enum sc_axis)a);

		members += (size_t)x.n_a * x.n_b;
	}
	out->members = sc_arena_calloc(arena, members * out->n_classes + 1, sizeof(*out->members));
	for (uint32_t c = 0; c < out->n_classes; c++)
		fill_class(&r, class_of, out, c);
}
