/* Colours of ranks into classes, with the groups and nodes that a class's ranks are in. The colours
 * agree on these (equal numbers of each colour), so one rank of a class stands for all. */
#include <stdlib.h>
#include <string.h>

#include "predict/transformer/placement_priv.h"

struct folding {
	const struct placement_ranks *ranks;
	struct sc_placement *out;
	uint32_t *class_of;           /* by colour */
	uint32_t *count;              /* by class, while a set is counted; else 0 */
	uint32_t *found, n_found;     /* classes in that set, ascending */
	bool *done[PLACEMENT_N_SETS]; /* by class: is its set known? */
};

/* Class ids by stage, then by lowest rank. */
static void number_classes(struct folding *f)
{
	const struct placement_ranks *ranks = f->ranks;
	struct sc_arena_mark mark = sc_arena_mark(ranks->arena);
	uint32_t *lowest = sc_arena_alloc(ranks->arena, ranks->n_colors * sizeof(*lowest));
	uint32_t *start =
		sc_arena_calloc(ranks->arena, ranks->d->size[SC_AXIS_PP] + 1, sizeof(*start));

	memset(lowest, 0xff, ranks->n_colors * sizeof(*lowest));
	for (uint32_t rank = 0; rank < ranks->d->world; rank++) {
		uint32_t color = ranks->color[rank];

		if (lowest[color] != UINT32_MAX)
			continue;
		lowest[color] = rank;
		start[ranks->stage[rank] + 1]++;
	}
	for (uint32_t stage = 0; stage < ranks->d->size[SC_AXIS_PP]; stage++)
		start[stage + 1] += start[stage];
	for (uint32_t rank = 0; rank < ranks->d->world; rank++) {
		uint32_t color = ranks->color[rank], stage = ranks->stage[rank];

		if (lowest[color] == rank) {
			uint32_t id = start[stage]++;

			f->class_of[color] = id;
			f->out->classes[id].stage = (int)stage;
			f->out->classes[id].representative = rank;
		}
		f->out->classes[f->class_of[color]].multiplicity++;
	}
	sc_arena_rewind(ranks->arena, mark);
}

static int compare_ids(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void count_set(struct folding *f, int set, uint32_t base)
{
	uint32_t n = placement_set_size(f->ranks, set, base);

	f->n_found = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t rank = placement_member(f->ranks, set, base, i);
		uint32_t id = f->class_of[f->ranks->color[rank]];

		if (f->count[id]++ == 0)
			f->found[f->n_found++] = id;
	}
	qsort(f->found, f->n_found, sizeof(*f->found), compare_ids);
}

/* The group becomes that of all classes in it. */
static void fold_group(struct folding *f, int axis, uint32_t c)
{
	struct sc_placement *out = f->out;
	uint32_t base = f->ranks->base[axis][out->classes[c].representative];
	struct sc_axis_group group = {
		.span = f->ranks->span[axis][base],
		.first_member = (uint32_t)out->n_members,
		.instance = (uint32_t)out->n_instances++,
	};

	count_set(f, axis, base);
	group.n_members = f->n_found;
	for (uint32_t i = 0; i < f->n_found; i++) {
		uint32_t id = f->found[i];

		out->members[out->n_members++] = (struct sc_member){id, f->count[id]};
		out->classes[id].group[axis] = group;
		f->done[axis][id] = true;
		f->count[id] = 0;
	}
}

/* Classes come by stage, so those of one stage are neighbours in found[]. */
static void fold_node(struct folding *f, uint32_t domain, uint32_t c)
{
	struct sc_placement *out = f->out;
	uint32_t first = 0;

	count_set(f, PLACEMENT_NODE, f->ranks->node[out->classes[c].representative]);
	while (first < f->n_found) {
		int stage = out->classes[f->found[first]].stage;
		uint32_t end = first, n_alike = 0;

		for (; end < f->n_found && out->classes[f->found[end]].stage == stage; end++)
			n_alike += f->count[f->found[end]];
		for (; first < end; first++) {
			uint32_t id = f->found[first];

			out->classes[id].nic_domain = domain;
			out->classes[id].ranks_per_domain = f->count[id];
			out->classes[id].stage_ranks_per_node = n_alike;
			f->done[PLACEMENT_NODE][id] = true;
			f->count[id] = 0;
		}
	}
}

static void fold_neighbours(const struct folding *f, struct sc_rank_class *rc)
{
	const struct placement_ranks *ranks = f->ranks;
	uint32_t rank = rc->representative;
	uint32_t next = placement_next(ranks, rank), prev = placement_prev(ranks, rank);

	rc->slowdown = ranks->slowdown[rank];
	rc->kind = ranks->kind[rank];
	rc->next_class = f->class_of[ranks->color[next]];
	rc->prev_class = f->class_of[ranks->color[prev]];
	rc->next_remote = ranks->node[next] != ranks->node[rank];
	rc->prev_remote = ranks->node[prev] != ranks->node[rank];
}

void placement_fold(struct placement_ranks *ranks, struct sc_placement *out)
{
	struct folding f = {.ranks = ranks, .out = out};
	size_t n = ranks->n_colors;
	uint32_t n_domains = 0;

	out->n_classes = n;
	out->classes = sc_arena_calloc(ranks->arena, n, sizeof(*out->classes));
	/* A class is in one group of each axis. */
	out->members = sc_arena_alloc(ranks->arena, n * SC_AXIS_PP * sizeof(*out->members));
	f.class_of = sc_arena_alloc(ranks->arena, n * sizeof(*f.class_of));
	f.count = sc_arena_calloc(ranks->arena, n, sizeof(*f.count));
	f.found = sc_arena_alloc(ranks->arena, n * sizeof(*f.found));
	for (int set = 0; set < PLACEMENT_N_SETS; set++)
		f.done[set] = sc_arena_calloc(ranks->arena, n, sizeof(*f.done[set]));
	number_classes(&f);
	for (uint32_t c = 0; c < n; c++) {
		for (int axis = 0; axis < SC_AXIS_PP; axis++)
			if (!f.done[axis][c])
				fold_group(&f, axis, c);
		if (!f.done[PLACEMENT_NODE][c])
			fold_node(&f, n_domains++, c);
		fold_neighbours(&f, &out->classes[c]);
	}
}

/* ---- one class a stage ---- */

static bool is_worse(const struct sc_span *a, const struct sc_span *b)
{
	if (a->n_nodes != b->n_nodes)
		return a->n_nodes > b->n_nodes;
	return a->max_ranks_per_node > b->max_ranks_per_node;
}

static void take_worst(const struct placement_ranks *ranks, uint32_t rank, struct sc_rank_class *rc)
{
	for (int axis = 0; axis < SC_AXIS_PP; axis++) {
		const struct sc_span *span = &ranks->span[axis][ranks->base[axis][rank]];

		if (is_worse(span, &rc->group[axis].span))
			rc->group[axis].span = *span;
	}
	if (ranks->slowdown[rank] > rc->slowdown)
		rc->slowdown = ranks->slowdown[rank];
	if (rc->multiplicity == 0 ||
	    placement_speed(ranks, ranks->kind[rank]) < placement_speed(ranks, rc->kind))
		rc->kind = ranks->kind[rank];
	rc->next_remote |= ranks->node[placement_next(ranks, rank)] != ranks->node[rank];
	rc->prev_remote |= ranks->node[placement_prev(ranks, rank)] != ranks->node[rank];
	rc->multiplicity++;
}

/* The most ranks of the stage that share a node; ranks come in rising order, so nodes do, too. */
static void count_on_nodes(const struct placement_ranks *ranks, struct sc_placement *out)
{
	uint32_t pp = ranks->d->size[SC_AXIS_PP];
	uint32_t *last = sc_arena_calloc(ranks->arena, pp, sizeof(*last));
	uint32_t *here = sc_arena_calloc(ranks->arena, pp, sizeof(*here));

	for (uint32_t rank = 0; rank < ranks->d->world; rank++) {
		uint32_t s = ranks->stage[rank];
		struct sc_rank_class *rc = &out->classes[s];

		if (last[s] != ranks->node[rank])
			here[s] = 0;
		last[s] = ranks->node[rank];
		if (++here[s] > rc->ranks_per_domain)
			rc->ranks_per_domain = rc->stage_ranks_per_node = here[s];
	}
}

static void name_stage(const struct placement_ranks *ranks, struct sc_placement *out, uint32_t s)
{
	struct sc_rank_class *rc = &out->classes[s];
	uint32_t pp = ranks->d->size[SC_AXIS_PP];
	uint32_t n_together = ranks->d->gpus_per_node / (uint32_t)rc->stage_ranks_per_node;

	rc->stage = (int)s;
	rc->representative = s * ranks->d->stride[SC_AXIS_PP];
	rc->next_class = (s + 1) % pp;
	rc->prev_class = (s + pp - 1) % pp;
	rc->nic_domain = s / (n_together ? n_together : 1);
	for (int axis = 0; axis < SC_AXIS_PP; axis++) {
		rc->group[axis].first_member = (uint32_t)out->n_members;
		rc->group[axis].n_members = 1;
		rc->group[axis].instance = (uint32_t)out->n_instances++;
		out->members[out->n_members++] =
			(struct sc_member){s, (uint32_t)rc->group[axis].span.n_ranks};
	}
}

void placement_approximate(const struct placement_ranks *ranks, struct sc_placement *out)
{
	uint32_t pp = ranks->d->size[SC_AXIS_PP];

	out->is_approximate = true;
	out->n_classes = pp;
	out->classes = sc_arena_calloc(ranks->arena, pp, sizeof(*out->classes));
	out->members =
		sc_arena_alloc(ranks->arena, (size_t)pp * SC_AXIS_PP * sizeof(*out->members));
	for (uint32_t rank = 0; rank < ranks->d->world; rank++)
		take_worst(ranks, rank, &out->classes[ranks->stage[rank]]);
	count_on_nodes(ranks, out);
	for (uint32_t s = 0; s < pp; s++)
		name_stage(ranks, out, s);
}
