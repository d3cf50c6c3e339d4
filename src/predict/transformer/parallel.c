/* Places ranks on nodes. Layouts whose groups all sit alike fold to one class a stage by
 * arithmetic; others are coloured rank by rank (placement_refine.c). */
#include "predict/transformer/parallel.h"

#include <assert.h>
#include <string.h>

#include "predict/transformer/placement_priv.h"

enum { MAX_WORLD = 1 << 24 };

static int parse_axis(const char **text)
{
	static const char *const NAMES[SC_N_AXES] = {"tp", "cp", "ep", "dp", "pp"};

	for (int a = 0; a < SC_N_AXES; a++)
		if (strncmp(*text, NAMES[a], 2) == 0 && ((*text)[2] == '-' || (*text)[2] == '\0')) {
			*text += (*text)[2] ? 3 : 2;
			return a;
		}
	return -1;
}

/* Each etp-th rank of a stage, ep of them; the stage's ranks may come in runs with other stages between. Where
 * whole tensor-parallel groups split the experts and that order does not fit, of the dp axis. */
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

/* Strides by the order, innermost first; `ep` only holds a place. */
static int dims_init(const struct sc_layout *layout, struct layout_dims *d, struct sc_err *err)
{
	const char *text = layout->order ? layout->order : "tp-cp-ep-dp-pp";
	bool seen[SC_N_AXES] = {false};
	uint64_t stride = 1;

	memset(d, 0, sizeof(*d));
	while (*text) {
		int axis = parse_axis(&text);

		if (axis < 0 || seen[axis])
			return sc_err_set(
				err, SC_EVALUE,
				"parallel.order: expected tp, cp, ep, dp and pp once each, "
				"joined by \"-\", got \"%s\"",
				layout->order);
		seen[axis] = true;
		d->size[axis] = (uint32_t)layout->size[axis];
		d->stride[axis] = (uint32_t)stride;
		if (axis != SC_AXIS_EP)
			stride *= (uint64_t)layout->size[axis];
		if (stride > MAX_WORLD)
			return sc_err_set(err, SC_ELIMIT, "more than %d ranks", MAX_WORLD);
	}
	for (int a = 0; a < SC_N_AXES; a++)
		if (!seen[a] && a != SC_AXIS_EP && layout->size[a] > 1)
			return sc_err_set(err, SC_EVALUE,
					  "parallel.order \"%s\" lacks an axis in use",
					  layout->order);
		else if (!seen[a])
			d->size[a] = 1, d->stride[a] = (uint32_t)stride;
	d->world = (uint32_t)stride;
	d->gpus_per_node = layout->gpus_per_node > 0 && layout->gpus_per_node < d->world
				   ? (uint32_t)layout->gpus_per_node
				   : d->world;
	return cut_experts(layout, d, err);
}

struct axis_shape placement_axis(const struct layout_dims *d, enum sc_axis axis)
{
	struct axis_shape shape = {d->size[axis], 1, d->stride[axis], 0};

	if (axis == SC_AXIS_EP)
		return d->experts;
	if (axis != SC_AXIS_DP)
		return shape;
	/* gradients are reduced over cp and dp together */
	if (d->size[SC_AXIS_CP] == 1)
		return shape;
	shape = (struct axis_shape){d->size[SC_AXIS_CP], d->size[SC_AXIS_DP], d->stride[SC_AXIS_CP],
				    d->stride[SC_AXIS_DP]};
	if (shape.stride_b == shape.stride_a * shape.n_a)
		shape = (struct axis_shape){shape.n_a * shape.n_b, 1, shape.stride_a, 0};
	return shape;
}

void sc_layout_coords(const struct sc_layout *layout, uint32_t rank, int64_t coord[SC_N_AXES])
{
	struct layout_dims d;

	if (dims_init(layout, &d, NULL))
		return;
	for (int a = 0; a < SC_N_AXES; a++)
		coord[a] = placement_coord(&d, (enum sc_axis)a, rank);
	coord[SC_AXIS_EP] = rank / d.experts.stride_a % d.experts.n_a;
	if (d.experts.n_b > 1)
		coord[SC_AXIS_EP] +=
			(int64_t)d.experts.n_a * (rank / d.experts.stride_b % d.experts.n_b);
}

/* If every group of the axis sits alike on its nodes, its span; else false. */
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

/* Stage s of a regular layout. */
static void regular_class(const struct layout_dims *d, const struct sc_span span[SC_N_AXES],
			  uint32_t s, struct sc_placement *out)
{
	struct sc_rank_class *c = &out->classes[s];
	uint32_t pp = d->size[SC_AXIS_PP];
	/* stages that share a node, and ranks of each of them there */
	uint32_t together = (uint32_t)span[SC_AXIS_PP].max_ranks_per_node;
	uint32_t here = d->gpus_per_node / together;

	*c = (struct sc_rank_class){
		.stage = (int)s,
		.multiplicity = d->world / pp,
		.nic_domain = s / together,
		.ranks_per_domain = here,
		.stage_ranks_per_node = here,
		.slowdown = 1,
		.representative = s * d->stride[SC_AXIS_PP],
		.next_class = (s + 1) % pp,
		.prev_class = (s + pp - 1) % pp,
		.next_remote = s / together != (s + 1) % pp / together,
		.prev_remote = s / together != (s + pp - 1) % pp / together,
	};
	for (int a = 0; a < SC_AXIS_PP; a++) {
		c->group[a] = (struct sc_axis_group){
			.span = span[a],
			.first_member = (uint32_t)out->n_members,
			.n_members = 1,
			.instance = (uint32_t)out->n_instances++,
		};
		out->members[out->n_members++] = (struct sc_member){s, (uint32_t)span[a].n_ranks};
	}
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
	} else if (!placement_refine(&ranks)) {
		placement_approximate(&ranks, out);
		return;
	}
	placement_fold(&ranks, out);
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
	for (uint32_t s = 0; s < out->n_classes; s++)
		regular_class(&d, span, s, out);
	return 0;
}
