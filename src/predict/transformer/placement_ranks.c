/* Tables over all ranks of any layout: where each sits and in which sets it is. No divisions in the
 * loops: a world has a hundred thousand ranks. */
#include <math.h>
#include <string.h>

#include "predict/transformer/placement_priv.h"

/* Position along an axis, for every rank. */
static uint32_t *positions(struct placement_ranks *ranks, uint32_t stride, uint32_t n)
{
	uint32_t *out = sc_arena_alloc(ranks->arena, ranks->d->world * sizeof(*out));

	for (uint32_t rank = 0; rank < ranks->d->world;)
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t k = 0; k < stride && rank < ranks->d->world; k++)
				out[rank++] = i;
	return out;
}

/* The lowest rank along an axis, for every rank. */
static uint32_t *bases(struct placement_ranks *ranks, uint32_t stride, uint32_t n)
{
	uint32_t *out = sc_arena_alloc(ranks->arena, ranks->d->world * sizeof(*out));
	uint32_t rank = 0;

	while (rank < ranks->d->world) {
		uint32_t block = rank;

		for (uint32_t i = 0; i < n; i++)
			for (uint32_t k = 0; k < stride && rank < ranks->d->world; k++)
				out[rank++] = block + k;
	}
	return out;
}

static void init_set(struct placement_ranks *ranks, int set)
{
	const struct axis_shape *x = &ranks->shape[set];
	uint32_t *outer;

	ranks->base[set] = bases(ranks, x->stride_a, x->n_a);
	if (x->n_b == 1)
		return;
	outer = bases(ranks, x->stride_b, x->n_b);
	for (uint32_t rank = 0; rank < ranks->d->world; rank++)
		ranks->base[set][rank] = ranks->base[set][outer[rank]];
}

/* Ranks come in rising order, so a group's nodes do, too. */
static void find_spans(struct placement_ranks *ranks, enum sc_axis axis)
{
	uint32_t world = ranks->d->world;
	uint32_t *last = sc_arena_calloc(ranks->arena, world, sizeof(*last));
	int *here = sc_arena_calloc(ranks->arena, world, sizeof(*here));
	struct sc_span *spans = sc_arena_calloc(ranks->arena, world, sizeof(*spans));

	ranks->span[axis] = spans;
	for (uint32_t rank = 0; rank < world; rank++) {
		uint32_t base = ranks->base[axis][rank];
		struct sc_span *span = &spans[base];

		if (span->n_ranks == 0 || last[base] != ranks->node[rank]) {
			span->n_nodes++;
			here[base] = 0;
			last[base] = ranks->node[rank];
		}
		span->n_ranks++;
		if (++here[base] > span->max_ranks_per_node)
			span->max_ranks_per_node = here[base];
	}
}

/* Axes of one rank share a table. */
static void init_groups(struct placement_ranks *ranks)
{
	int lone = -1;

	for (int axis = 0; axis < SC_AXIS_PP; axis++) {
		bool is_lone = ranks->shape[axis].n_a * ranks->shape[axis].n_b == 1;

		if (is_lone && lone >= 0) {
			ranks->base[axis] = ranks->base[lone];
			ranks->span[axis] = ranks->span[lone];
			continue;
		}
		init_set(ranks, axis);
		find_spans(ranks, (enum sc_axis)axis);
		if (is_lone)
			lone = axis;
	}
}

static void init_slowdowns(struct placement_ranks *ranks, const struct sc_layout *layout)
{
	ranks->slowdown = sc_arena_alloc(ranks->arena, ranks->d->world * sizeof(*ranks->slowdown));
	for (uint32_t rank = 0; rank < ranks->d->world; rank++)
		ranks->slowdown[rank] = 1;
	for (size_t i = 0; i < layout->n_stragglers; i++) {
		const struct sc_straggler *slow = &layout->stragglers[i];

		for (size_t j = 0; j < slow->ranks.n; j++)
			if (slow->ranks.at[j] >= 0 && slow->ranks.at[j] < ranks->d->world)
				ranks->slowdown[slow->ranks.at[j]] *= slow->slowdown;
	}
}

/* Ranks that no run names are of kind 0. */
static void init_kinds(struct placement_ranks *ranks, const struct sc_layout *layout)
{
	uint32_t world = ranks->d->world, rank = 0;

	ranks->kind = sc_arena_calloc(ranks->arena, world, sizeof(*ranks->kind));
	for (size_t i = 0; i < layout->n_runs; i++)
		for (uint32_t k = 0; k < layout->runs[i].n_ranks && rank < world; k++)
			ranks->kind[rank++] = layout->runs[i].kind;
}

double placement_speed(const struct placement_ranks *ranks, uint8_t kind)
{
	const struct sc_layout *layout = ranks->layout;

	for (size_t i = 0; i < layout->n_runs; i++)
		if (layout->runs[i].kind == kind)
			return layout->runs[i].speed;
	return HUGE_VAL;
}

void placement_ranks_init(struct placement_ranks *ranks, const struct sc_layout *layout,
			  const struct layout_dims *d, struct sc_arena *arena)
{
	*ranks = (struct placement_ranks){.d = d, .arena = arena, .layout = layout};
	for (int axis = 0; axis < SC_AXIS_PP; axis++)
		ranks->shape[axis] = placement_axis(d, (enum sc_axis)axis);
	ranks->shape[PLACEMENT_NODE] = (struct axis_shape){d->gpus_per_node, 1, 1, 0};
	init_set(ranks, PLACEMENT_NODE);
	ranks->node = ranks->base[PLACEMENT_NODE];
	ranks->stage = positions(ranks, d->stride[SC_AXIS_PP], d->size[SC_AXIS_PP]);
	init_groups(ranks);
	init_slowdowns(ranks, layout);
	init_kinds(ranks, layout);
	ranks->color = sc_arena_calloc(arena, d->world, sizeof(*ranks->color));
}

uint32_t placement_set_size(const struct placement_ranks *ranks, int set, uint32_t base)
{
	const struct axis_shape *x = &ranks->shape[set];

	if (set == PLACEMENT_NODE && ranks->d->world - base < x->n_a)
		return ranks->d->world - base; /* the last node may be partly filled */
	return x->n_a * x->n_b;
}
