/* Places ranks on nodes. Layouts whose groups all sit alike fold to one class a stage by
 * arithmetic; others are coloured rank by rank. */
#include "predict/transformer/parallel.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/search.h"
#include "predict/transformer/placement_ranks.h"

static struct axis_shape placement_axis(const struct layout_dims *d, enum sc_axis axis)
{
	struct axis_shape shape = {d->size[axis], 1, d->stride[axis], 0};

	if (axis == SC_AXIS_EP)
		return d->experts;
	if (axis != SC_AXIS_DP)
		return shape;
	/* Gradients are reduced over cp and dp together. */
	if (d->size[SC_AXIS_CP] == 1)
		return shape;
	shape = (struct axis_shape){d->size[SC_AXIS_CP], d->size[SC_AXIS_DP], d->stride[SC_AXIS_CP],
				    d->stride[SC_AXIS_DP]};
	if (shape.stride_b == shape.stride_a * shape.n_a)
		shape = (struct axis_shape){shape.n_a * shape.n_b, 1, shape.stride_a, 0};
	return shape;
}

/* Returns the sets' spans by base; ranks come in rising order, so a set's nodes do, too. */
static struct sc_span *find_spans(const struct placement_ranks *ranks, const uint32_t *base_of)
{
	uint32_t world = ranks->d->world;
	uint32_t *last = sc_arena_calloc(ranks->arena, world, sizeof(*last));
	int *here = sc_arena_calloc(ranks->arena, world, sizeof(*here));
	struct sc_span *spans = sc_arena_calloc(ranks->arena, world, sizeof(*spans));

	for (uint32_t rank = 0; rank < world; rank++) {
		uint32_t base = base_of[rank];
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
	return spans;
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

/* Returns the speed of a kind of GPU, in the layout's unit. */
static double placement_speed(const struct placement_ranks *ranks, uint8_t kind)
{
	const struct sc_layout *layout = ranks->layout;

	for (size_t i = 0; i < layout->n_runs; i++)
		if (layout->runs[i].kind == kind)
			return layout->runs[i].speed;
	return HUGE_VAL;
}

static void placement_ranks_init(struct placement_ranks *ranks, const struct sc_layout *layout,
				 const struct layout_dims *d, struct sc_arena *arena)
{
	uint32_t n = 0;

	*ranks = (struct placement_ranks){.d = d, .arena = arena, .layout = layout};
	for (int axis = 0; axis < SC_AXIS_PP; axis++)
		ranks->shape[axis] = placement_axis(d, (enum sc_axis)axis);
	ranks->shape[PLACEMENT_NODE] = (struct axis_shape){d->gpus_per_node, 1, 1, 0};
	for (int set = 0; set < PLACEMENT_N_SETS; set++) {
		const struct axis_shape *x = &ranks->shape[set];

		ranks->base[set] = sc_arena_alloc(arena, d->world * sizeof(uint32_t));
		for (uint32_t rank = 0; rank < d->world; rank++) {
			ranks->base[set][rank] = rank - rank / x->stride_a % x->n_a * x->stride_a;
			if (x->n_b > 1)
				ranks->base[set][rank] -= rank / x->stride_b % x->n_b * x->stride_b;
		}
	}
	ranks->node = ranks->base[PLACEMENT_NODE];
	for (int axis = 0; axis < SC_AXIS_PP; axis++)
		ranks->span[axis] = find_spans(ranks, ranks->base[axis]);
	init_slowdowns(ranks, layout);
	ranks->stage = sc_arena_alloc(arena, d->world * sizeof(*ranks->stage));
	for (uint32_t rank = 0; rank < d->world; rank++)
		ranks->stage[rank] = rank / d->stride[SC_AXIS_PP] % d->size[SC_AXIS_PP];
	/* Ranks that no run names are of kind 0. */
	ranks->kind = sc_arena_calloc(arena, d->world, sizeof(*ranks->kind));
	for (size_t i = 0; i < layout->n_runs; i++)
		for (uint32_t k = 0; k < layout->runs[i].n_ranks && n < d->world; k++)
			ranks->kind[n++] = layout->runs[i].kind;
	ranks->color = sc_arena_calloc(arena, d->world, sizeof(*ranks->color));
}

/* Folds colours of ranks into classes, with the groups and nodes that a class's ranks are in. The
 * colours agree on these (equal numbers of each colour), so one rank of a class stands for all. */

struct folding {
	const struct placement_ranks *ranks;
	struct sc_placement *out;
	uint32_t *class_of;       /* by colour */
	uint32_t *count;          /* by class, while a set is counted; else 0 */
	uint32_t *found, n_found; /* classes in that set, ascending */
};

/* Numbers classes by stage, then by lowest rank. */
static void number_classes(struct folding *f)
{
	const struct placement_ranks *ranks = f->ranks;
	uint32_t *lowest = sc_arena_alloc(ranks->arena, ranks->n_colors * sizeof(*lowest));
	uint32_t n = 0, id = 0;

	for (uint32_t rank = 0; rank < ranks->d->world; rank++)
		if (ranks->color[rank] == n)
			lowest[n++] = rank;
	for (uint32_t stage = 0; stage < ranks->d->size[SC_AXIS_PP]; stage++)
		for (uint32_t color = 0; color < n; color++)
			if (ranks->stage[lowest[color]] == stage) {
				f->out->classes[id].stage = (int)stage;
				f->out->classes[id].representative = lowest[color];
				f->class_of[color] = id++;
			}
	for (uint32_t rank = 0; rank < ranks->d->world; rank++)
		f->out->classes[f->class_of[ranks->color[rank]]].multiplicity++;
}

SC_COMPARE(compare_ids, uint32_t, SC_ORDER(*a, *b));

static void count_set_classes(struct folding *f, int set, uint32_t base)
{
	const struct axis_shape *x = &f->ranks->shape[set];

	f->n_found = 0;
	for (uint32_t i = 0; i < x->n_a * x->n_b; i++) {
		uint32_t rank = base + i % x->n_a * x->stride_a + i / x->n_a * x->stride_b, id;

		if (rank >= f->ranks->d->world) /* the last node may be partly filled */
			break;
		id = f->class_of[f->ranks->color[rank]];
		if (f->count[id]++ == 0)
			f->found[f->n_found++] = id;
	}
	SC_SORT(f->found, f->n_found, compare_ids);
}

/* Makes the group that of all classes in it. */
static void fold_group(struct folding *f, int axis, uint32_t c)
{
	struct sc_placement *out = f->out;
	uint32_t base = f->ranks->base[axis][out->classes[c].representative];
	struct sc_axis_group group = {
		.span = f->ranks->span[axis][base],
		.first_member = (uint32_t)out->n_members,
		.instance = (uint32_t)out->n_instances++,
	};

	count_set_classes(f, axis, base);
	group.n_members = f->n_found;
	for (uint32_t i = 0; i < f->n_found; i++) {
		uint32_t id = f->found[i];

		out->members[out->n_members++] = (struct sc_member){id, f->count[id]};
		out->classes[id].group[axis] = group;
		f->count[id] = 0;
	}
}

/* Gives classes of one node their NICs; they come by stage: neighbours in found[] are of one. */
static void fold_node(struct folding *f, uint32_t domain, uint32_t c)
{
	struct sc_placement *out = f->out;
	uint32_t first = 0;

	count_set_classes(f, PLACEMENT_NODE, f->ranks->node[out->classes[c].representative]);
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
			f->count[id] = 0;
		}
	}
}

static void fold_neighbours(const struct folding *f, struct sc_rank_class *rc)
{
	const struct placement_ranks *ranks = f->ranks;
	uint32_t rank = rc->representative;
	uint32_t next = placement_beside(ranks, rank, true),
		 prev = placement_beside(ranks, rank, false);

	rc->slowdown = ranks->slowdown[rank];
	rc->kind = ranks->kind[rank];
	rc->next_class = f->class_of[ranks->color[next]];
	rc->prev_class = f->class_of[ranks->color[prev]];
	rc->next_remote = ranks->node[next] != ranks->node[rank];
	rc->prev_remote = ranks->node[prev] != ranks->node[rank];
}

/* Names neighbours and groups of a stage's one class, whose spans and ranks on a node are known. */
static void name_stage(const struct layout_dims *d, struct sc_placement *out, uint32_t s)
{
	struct sc_rank_class *rc = &out->classes[s];
	uint32_t pp = d->size[SC_AXIS_PP];
	uint32_t n_together = d->gpus_per_node / (uint32_t)rc->stage_ranks_per_node;

	rc->stage = (int)s;
	rc->representative = s * d->stride[SC_AXIS_PP];
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

/* Takes one class a stage, placed as its worst group. */
static void placement_approximate(const struct placement_ranks *ranks, struct sc_placement *out)
{
	uint32_t pp = ranks->d->size[SC_AXIS_PP];

	out->is_approximate = true;
	out->n_classes = pp;
	out->classes = sc_arena_calloc(ranks->arena, pp, sizeof(*out->classes));
	out->members =
		sc_arena_alloc(ranks->arena, (size_t)pp * SC_AXIS_PP * sizeof(*out->members));
	for (uint32_t rank = 0; rank < ranks->d->world; rank++) {
		struct sc_rank_class *rc = &out->classes[ranks->stage[rank]];
		for (int axis = 0; axis < SC_AXIS_PP; axis++) {
			const struct sc_span *span = &ranks->span[axis][ranks->base[axis][rank]];
			struct sc_span *worst = &rc->group[axis].span;

			if (span->n_nodes > worst->n_nodes ||
			    (span->n_nodes == worst->n_nodes &&
			     span->max_ranks_per_node > worst->max_ranks_per_node))
				*worst = *span;
		}
		if (ranks->slowdown[rank] > rc->slowdown)
			rc->slowdown = ranks->slowdown[rank];
		if (rc->multiplicity == 0 ||
		    placement_speed(ranks, ranks->kind[rank]) < placement_speed(ranks, rc->kind))
			rc->kind = ranks->kind[rank];
		rc->next_remote |=
			ranks->node[placement_beside(ranks, rank, true)] != ranks->node[rank];
		rc->prev_remote |=
			ranks->node[placement_beside(ranks, rank, false)] != ranks->node[rank];
		rc->multiplicity++;
	}
	/* Classes of a stage take the most of its ranks that share a node. */
	const struct sc_span *of_stage = find_spans(ranks, ranks->stage);

	for (uint32_t s = 0; s < pp; s++) {
		out->classes[s].ranks_per_domain = out->classes[s].stage_ranks_per_node =
			of_stage[s].max_ranks_per_node;
		name_stage(ranks->d, out, s);
	}
}

enum { MAX_WORLD = 1 << 24 };

/* Cuts expert groups: ep of each etp-th rank of a stage, whose ranks may come in runs with other
 * stages between. Where whole tensor-parallel groups split the experts and that does not fit, they
 * are cut out of dp. */
static int cut_experts(const struct sc_layout *layout, struct layout_dims *d, struct sc_err *err)
{
	uint32_t pp = d->size[SC_AXIS_PP], run = d->stride[SC_AXIS_PP], ep = d->size[SC_AXIS_EP];
	uint32_t etp = layout->etp > 0 ? (uint32_t)layout->etp : d->size[SC_AXIS_TP];

	bool tp_first = etp == 1 || d->stride[SC_AXIS_TP] == 1;

	if (pp == 1)
		run = d->world;
	if (d->world / pp % (etp * ep))
		return sc_err_set(err, SC_ECONFLICT, "parallel.etp x ep must divide tp x cp x dp");
	d->experts = (struct axis_shape){ep, 1, etp, 0};
	if (ep == 1 || (tp_first && run % (etp * ep) == 0))
		return 0;
	if (etp == d->size[SC_AXIS_TP] && d->size[SC_AXIS_DP] % ep == 0) {
		d->experts.stride_a = d->stride[SC_AXIS_DP];
		return 0;
	}
	if (!tp_first || run % etp || ep % (run / etp))
		return sc_err_set(err, SC_ECONFLICT,
				  "parallel.order: expert groups of etp x ep %u ranks do not fit "
				  "runs of %u ranks of a stage",
				  etp * ep, run);
	d->experts = (struct axis_shape){run / etp, ep / (run / etp), etp, run * pp};
	return 0;
}

/* Sets strides by the order, innermost first; an axis that is not named holds a place. */
static int dims_init(const struct sc_layout *layout, struct layout_dims *d, struct sc_err *err)
{
	int axes[SC_N_ORDER_AXES], n_named;
	uint64_t stride = 1;

	memset(d, 0, sizeof(*d));
	if (!sc_order_parse(layout->order ? layout->order : "tp-cp-ep-dp-pp", axes, &n_named))
		return sc_err_set(err, SC_EVALUE,
				  "parallel.order: expected tp, cp, ep, dp and pp once each, "
				  "joined by \"-\", got \"%s\"",
				  layout->order);
	for (int i = 0; i < SC_N_ORDER_AXES; i++) {
		const int axis = axes[i];
		const int64_t size = axis == SC_AXIS_EP && i >= n_named ? 1 : layout->size[axis];

		if (i >= n_named && size > 1)
			return sc_err_set(err, SC_EVALUE,
					  "parallel.order \"%s\" lacks an axis in use",
					  layout->order);
		d->size[axis] = i < n_named ? (uint32_t)size : 1;
		d->stride[axis] = (uint32_t)stride;
		if (axis != SC_AXIS_EP && i < n_named)
			stride *= (uint64_t)size;
		if (stride > MAX_WORLD)
			return sc_err_set(err, SC_ELIMIT, "more than %d ranks", MAX_WORLD);
	}
	d->world = (uint32_t)stride;
	d->gpus_per_node = layout->gpus_per_node > 0 && layout->gpus_per_node < d->world
				   ? (uint32_t)layout->gpus_per_node
				   : d->world;
	return cut_experts(layout, d, err);
}

/* Finds the span of the axis if all its groups sit alike on their nodes; else returns false. */
static bool regular_span(const struct layout_dims *d, enum sc_axis axis, struct sc_span *span)
{
	struct axis_shape x = placement_axis(d, axis);
	uint32_t n = x.n_a, s = x.stride_a, g = d->gpus_per_node;

	assert(n > 0 && s > 0);
	if (x.n_b > 1)
		return false;
	if (n == 1 || g % (s * n) == 0)
		*span = (struct sc_span){(int)n, 1, (int)n};
	else if (s % g == 0)
		*span = (struct sc_span){(int)n, (int)n, 1};
	else if (g % s == 0 && (uint64_t)s * n % g == 0)
		*span = (struct sc_span){(int)n, (int)(s * n / g), (int)(g / s)};
	else
		return false;
	return true;
}

static bool is_regular(const struct sc_layout *layout, const struct layout_dims *d,
		       struct sc_span span[SC_N_AXES])
{
	assert(d->gpus_per_node > 0);
	if (layout->unfolded || layout->n_stragglers || layout->n_runs ||
	    d->world % d->gpus_per_node)
		return false;
	for (int a = 0; a < SC_N_AXES; a++)
		if (!regular_span(d, (enum sc_axis)a, &span[a]))
			return false;
	return true;
}

static void place_irregular(const struct sc_layout *layout, const struct layout_dims *d,
			    struct sc_arena *arena, struct sc_placement *out)
{
	struct placement_ranks ranks;

	placement_ranks_init(&ranks, layout, d, arena);
	if (layout->unfolded) {
		for (uint32_t rank = 0; rank < d->world; rank++)
			ranks.color[rank] = rank;
		ranks.n_colors = d->world;
	} else if (!sc_placement_refine(&ranks)) {
		placement_approximate(&ranks, out);
		return;
	}
	struct folding f = {.ranks = &ranks, .out = out};
	size_t n = ranks.n_colors;
	uint32_t n_domains = 0;

	out->n_classes = n;
	out->classes = sc_arena_calloc(ranks.arena, n, sizeof(*out->classes));
	/* A class is in one group of each axis. */
	out->members = sc_arena_alloc(ranks.arena, n * SC_AXIS_PP * sizeof(*out->members));
	f.class_of = sc_arena_alloc(ranks.arena, n * sizeof(*f.class_of));
	f.count = sc_arena_calloc(ranks.arena, n, sizeof(*f.count));
	f.found = sc_arena_alloc(ranks.arena, n * sizeof(*f.found));
	number_classes(&f);
	for (uint32_t c = 0; c < n; c++) {
		for (int axis = 0; axis < SC_AXIS_PP; axis++)
			if (!out->classes[c].group[axis].n_members)
				fold_group(&f, axis, c);
		if (!(out->classes[c].ranks_per_domain > 0))
			fold_node(&f, n_domains++, c);
		fold_neighbours(&f, &out->classes[c]);
	}
}

int sc_placement_build(const struct sc_layout *layout, struct sc_arena *arena,
		       struct sc_placement *out, struct sc_err *err)
{
	struct sc_span span[SC_N_AXES];
	struct layout_dims d;
	int rc = dims_init(layout, &d, err);

	if (rc)
		return rc;
	*out = (struct sc_placement){.world = d.world};
	if (!is_regular(layout, &d, span)) {
		place_irregular(layout, &d, arena, out);
		return 0;
	}
	out->n_classes = d.size[SC_AXIS_PP];
	out->classes = sc_arena_calloc(arena, out->n_classes, sizeof(*out->classes));
	out->members = sc_arena_calloc(arena, out->n_classes * SC_AXIS_PP, sizeof(*out->members));
	for (uint32_t s = 0; s < out->n_classes; s++) {
		/* A regular layout has one class for stage s. */
		struct sc_rank_class *c = &out->classes[s];
		uint32_t pp = d.size[SC_AXIS_PP];
		/* `together` stages share a node, with `here` ranks each. */
		uint32_t together = (uint32_t)span[SC_AXIS_PP].max_ranks_per_node;
		uint32_t here = d.gpus_per_node / together;

		*c = (struct sc_rank_class){
			.multiplicity = d.world / pp,
			.ranks_per_domain = here,
			.stage_ranks_per_node = here,
			.slowdown = 1,
			.next_remote = s / together != (s + 1) % pp / together,
			.prev_remote = s / together != (s + pp - 1) % pp / together,
		};
		for (int a = 0; a < SC_AXIS_PP; a++)
			c->group[a].span = span[a];
		name_stage(&d, out, s);
	}
	return 0;
}
