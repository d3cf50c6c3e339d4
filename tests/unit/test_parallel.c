/* Placement: hand cases, sums, and the arithmetic fold against colour refinement on random layouts.
 */
#include "arena_fixture.h"
#include "base/rng.h"
#include "predict/transformer/parallel.h"
#include "runner.h"

static struct sc_layout layout(int64_t tp, int64_t dp, int64_t pp, int64_t gpus_per_node)
{
	struct sc_layout l = {.size = {tp, 1, 1, dp, pp},
			      .order = "tp-cp-ep-dp-pp",
			      .gpus_per_node = gpus_per_node};

	return l;
}

static struct sc_placement place(const struct sc_layout *l)
{
	struct sc_placement p;

	ck_assert_int_eq(sc_placement_build(l, &arena, &p, NULL), 0);
	return p;
}

static void check_span(struct sc_span s, int ranks, int nodes, int most)
{
	ck_assert_int_eq(s.n_ranks, ranks);
	ck_assert_int_eq(s.n_nodes, nodes);
	ck_assert_int_eq(s.max_ranks_per_node, most);
}

/* Invariants of any placement. */
static void check_sums(const struct sc_layout *l, const struct sc_placement *p)
{
	uint32_t world = 0;

	for (size_t c = 0; c < p->n_classes; c++) {
		const struct sc_rank_class *rc = &p->classes[c];

		world += rc->multiplicity;
		ck_assert(rc->ranks_per_domain >= 1 &&
			  rc->ranks_per_domain <= (double)rc->multiplicity);
		ck_assert_uint_eq(p->classes[rc->next_class].prev_class, c);
		for (int a = 0; a < SC_AXIS_PP; a++) {
			const struct sc_axis_group *g = &rc->group[a];
			uint32_t ranks = 0;
			bool self = false;

			for (uint32_t i = 0; i < g->n_members; i++) {
				ranks += p->members[g->first_member + i].count;
				self |= p->members[g->first_member + i].class_id == c;
			}
			ck_assert(self);
			ck_assert_int_eq(g->span.n_ranks, (int)ranks);
			ck_assert_uint_lt(g->instance, p->n_instances);
		}
	}
	ck_assert_uint_eq(world, p->world);
	ck_assert_int_eq((int64_t)world, l->size[0] * l->size[1] * l->size[3] * l->size[4]);
}

FIXTURE(arena_begin, arena_end)

TEST(tp_inside_a_node)
{
	struct sc_layout l = layout(2, 8, 4, 8);
	struct sc_placement p = place(&l);

	check_sums(&l, &p);
	ck_assert_uint_eq(p.n_classes, 4);
	for (int s = 0; s < 4; s++) {
		check_span(p.classes[s].group[SC_AXIS_TP].span, 2, 1, 2);
		check_span(p.classes[s].group[SC_AXIS_DP].span, 8, 2, 4);
		ck_assert(p.classes[s].next_remote);
		ck_assert(p.classes[s].ranks_per_domain == 8);
	}
}

TEST(tp_over_two_nodes)
{
	struct sc_layout l = layout(8, 2, 1, 4);
	struct sc_placement p = place(&l);

	check_sums(&l, &p);
	ck_assert_uint_eq(p.n_classes, 1);
	check_span(p.classes[0].group[SC_AXIS_TP].span, 8, 2, 4);
	check_span(p.classes[0].group[SC_AXIS_DP].span, 2, 2, 1);
}

TEST(stages_share_a_node)
{
	struct sc_layout l = layout(2, 1, 8, 8);
	struct sc_placement p = place(&l);

	check_sums(&l, &p);
	ck_assert_uint_eq(p.n_classes, 8);
	ck_assert(!p.classes[0].next_remote && !p.classes[2].next_remote);
	ck_assert(p.classes[3].next_remote && p.classes[7].next_remote);
	ck_assert_uint_eq(p.classes[0].nic_domain, p.classes[3].nic_domain);
	ck_assert_uint_ne(p.classes[3].nic_domain, p.classes[4].nic_domain);
	ck_assert(p.classes[0].ranks_per_domain == 2);
}

TEST(straddling_groups_split_classes)
{
	struct sc_layout l = layout(3, 8, 1, 8);
	struct sc_placement p = place(&l);
	bool inside = false, across = false;

	check_sums(&l, &p);
	ck_assert_uint_gt(p.n_classes, 1);
	for (size_t c = 0; c < p.n_classes; c++) {
		inside |= p.classes[c].group[SC_AXIS_TP].span.n_nodes == 1;
		across |= p.classes[c].group[SC_AXIS_TP].span.n_nodes == 2;
	}
	ck_assert(inside && across);
}

TEST(order_decides_who_shares_a_node)
{
	struct sc_layout l = layout(2, 4, 4, 8);
	struct sc_placement p;

	l.order = "tp-pp-dp-cp-ep";
	p = place(&l);
	check_sums(&l, &p);
	ck_assert(!p.classes[0].next_remote);
	check_span(p.classes[0].group[SC_AXIS_DP].span, 4, 4, 1);
}

TEST(one_straggler_is_its_own_class)
{
	int64_t rank[] = {5};
	struct sc_straggler slow = {.ranks = {rank, 1}, .slowdown = 1.3};
	struct sc_layout l = layout(1, 8, 1, 8);
	struct sc_placement p;

	l.stragglers = &slow;
	l.n_stragglers = 1;
	p = place(&l);
	check_sums(&l, &p);
	ck_assert_uint_eq(p.n_classes, 2);
	ck_assert_uint_eq(p.classes[1].representative, 5);
	ck_assert(p.classes[1].slowdown == 1.3 && p.classes[0].slowdown == 1);
	ck_assert_uint_eq(p.classes[0].group[SC_AXIS_DP].n_members, 2);
	ck_assert_uint_eq(p.classes[0].group[SC_AXIS_DP].instance,
			  p.classes[1].group[SC_AXIS_DP].instance);
}

TEST(kinds_of_gpu_are_apart)
{
	static const struct sc_gpu_run runs[] = {{8, 1, 1}, {8, 0, 2}};
	struct sc_layout l = layout(4, 4, 1, 4);
	struct sc_placement p;

	l.runs = runs;
	l.n_runs = 2;
	p = place(&l);
	check_sums(&l, &p);
	ck_assert_uint_eq(p.n_classes, 2);
	ck_assert(p.classes[0].kind == 1 && p.classes[1].kind == 0);
	ck_assert_uint_eq(p.classes[0].multiplicity, 8);
	ck_assert_uint_eq(p.classes[0].group[SC_AXIS_TP].n_members, 1);
	ck_assert_uint_eq(p.classes[0].group[SC_AXIS_DP].n_members, 2);
	ck_assert_uint_eq(p.classes[0].group[SC_AXIS_DP].instance,
			  p.classes[1].group[SC_AXIS_DP].instance);
}

TEST(unfolded_has_a_class_a_rank)
{
	struct sc_layout l = layout(2, 3, 2, 4);
	struct sc_placement p;

	l.unfolded = true;
	p = place(&l);
	check_sums(&l, &p);
	ck_assert_uint_eq(p.n_classes, 12);
	ck_assert_uint_eq(p.classes[0].group[SC_AXIS_TP].n_members, 2);
	ck_assert_uint_eq(p.classes[0].group[SC_AXIS_TP].instance,
			  p.classes[1].group[SC_AXIS_TP].instance);
}

/* Whole experts: neighbouring ranks, tensor-parallel ones too; split over stages' runs they leave a
 * node. */
TEST(whole_experts_are_cut_from_tp_and_dp)
{
	struct sc_layout l = layout(4, 8, 2, 8);
	struct sc_err err = {.code = SC_OK};
	struct sc_placement p;

	l.etp = 1;
	l.size[SC_AXIS_EP] = 8;
	p = place(&l);
	check_sums(&l, &p);
	check_span(p.classes[0].group[SC_AXIS_EP].span, 8, 1, 8);
	l.order = "tp-pp-cp-ep-dp";
	p = place(&l);
	check_sums(&l, &p);
	check_span(p.classes[0].group[SC_AXIS_EP].span, 8, 2, 4);
	l.size[SC_AXIS_EP] = 6;
	ck_assert_int_eq(sc_placement_build(&l, &arena, &p, &err), -SC_ECONFLICT);
}

TEST(expert_groups_are_cut_from_dp)
{
	struct sc_layout l = layout(2, 8, 1, 8);
	struct sc_placement p;

	l.size[SC_AXIS_EP] = 4;
	p = place(&l);
	check_sums(&l, &p);
	check_span(p.classes[0].group[SC_AXIS_EP].span, 4, 1, 4);
	check_span(p.classes[0].group[SC_AXIS_DP].span, 8, 2, 4);
}

TEST(bad_orders)
{
	static const char *const ORDERS[] = {"tp-dp", "tp-tp-cp-ep-dp-pp", "tp_cp_ep_dp_pp", "x"};
	struct sc_placement p;

	for (int i = 0; i < 4; i++) {
		struct sc_layout l = layout(2, 2, 2, 8);
		struct sc_err err = {0};

		l.order = ORDERS[i];
		ck_assert_int_ne(sc_placement_build(&l, &arena, &p, &err), 0);
		ck_assert_ptr_nonnull(strstr(err.text, "parallel.order"));
	}
}

/* A straggler with slowdown 1 changes nothing but takes the general way. */
static struct sc_placement place_slowly(struct sc_layout l)
{
	static int64_t rank[] = {0};
	static struct sc_straggler none = {.ranks = {rank, 1}, .slowdown = 1};

	l.stragglers = &none;
	l.n_stragglers = 1;
	return place(&l);
}

static void check_same(const struct sc_placement *a, const struct sc_placement *b)
{
	ck_assert_uint_eq(a->n_classes, b->n_classes);
	for (size_t c = 0; c < a->n_classes; c++) {
		const struct sc_rank_class *x = &a->classes[c], *y = &b->classes[c];

		ck_assert_int_eq(x->stage, y->stage);
		ck_assert_uint_eq(x->multiplicity, y->multiplicity);
		ck_assert_uint_eq(x->representative, y->representative);
		ck_assert(x->ranks_per_domain == y->ranks_per_domain);
		ck_assert_uint_eq(x->next_class, y->next_class);
		ck_assert(x->next_remote == y->next_remote && x->prev_remote == y->prev_remote);
		for (int g = 0; g < SC_AXIS_PP; g++)
			check_span(y->group[g].span, x->group[g].span.n_ranks,
				   x->group[g].span.n_nodes, x->group[g].span.max_ranks_per_node);
		for (size_t d = 0; d < a->n_classes; d++)
			ck_assert((x->nic_domain == a->classes[d].nic_domain) ==
				  (y->nic_domain == b->classes[d].nic_domain));
	}
}

TEST(both_ways_agree)
{
	static const int64_t SIZES[] = {1, 2, 3, 4, 6, 8};
	static const char *const ORDERS[] = {"tp-cp-ep-dp-pp", "tp-pp-dp-cp-ep", "dp-tp-cp-ep-pp"};
	struct sc_rng rng;

	sc_rng_init(&rng, 11);
	for (int i = 0; i < n_cases(600); i++) {
		struct sc_layout l = layout(SIZES[(int)(6 * sc_rng_uniform(&rng))],
					    SIZES[(int)(6 * sc_rng_uniform(&rng))],
					    SIZES[(int)(6 * sc_rng_uniform(&rng))],
					    SIZES[1 + (int)(5 * sc_rng_uniform(&rng))]);
		struct sc_placement fast, slow;

		l.order = ORDERS[(int)(3 * sc_rng_uniform(&rng))];
		l.size[SC_AXIS_CP] = 1 + (int)(2 * sc_rng_uniform(&rng));
		fast = place(&l);
		slow = place_slowly(l);
		check_sums(&l, &fast);
		check_sums(&l, &slow);
		check_same(&fast, &slow);
	}
}

/* ---- against the definition ---- */

enum { MAX_SMALL = 96, N_SETS = SC_AXIS_PP + 1 };

/* The definition of the classes, written as plainly as it goes: O(ranks^2) a round. */
struct oracle {
	const struct sc_layout *layout;
	uint32_t world;
	int64_t coord[MAX_SMALL][SC_N_AXES];
	uint32_t color[MAX_SMALL], n_colors;
};

/* Ranks of one stage that follow each other. */
static uint32_t stage_run(const struct oracle *o)
{
	uint32_t n = 1;

	while (n < o->world && o->coord[n][SC_AXIS_PP] == o->coord[0][SC_AXIS_PP])
		n++;
	return n;
}

/* Are expert groups neighbours in such a run? Else they are of the dp axis. */
static bool cuts_runs(const struct oracle *o)
{
	const int64_t *size = o->layout->size;

	return (size[SC_AXIS_TP] == 1 || strncmp(o->layout->order, "tp", 2) == 0) &&
	       stage_run(o) % (size[SC_AXIS_TP] * size[SC_AXIS_EP]) == 0;
}

static bool same_set(const struct oracle *o, uint32_t x, uint32_t y, int set)
{
	const int64_t *a = o->coord[x], *b = o->coord[y], ep = o->layout->size[SC_AXIS_EP],
		      tp = o->layout->size[SC_AXIS_TP];

	if (set == SC_AXIS_PP)
		return x / o->layout->gpus_per_node == y / o->layout->gpus_per_node;
	if (a[SC_AXIS_PP] != b[SC_AXIS_PP] || (set != SC_AXIS_TP && a[SC_AXIS_TP] != b[SC_AXIS_TP]))
		return false;
	if (set == SC_AXIS_DP)
		return true;
	if (set == SC_AXIS_EP && cuts_runs(o))
		return x / stage_run(o) == y / stage_run(o) &&
		       x % stage_run(o) / tp / ep == y % stage_run(o) / tp / ep;
	if (set != SC_AXIS_CP && a[SC_AXIS_CP] != b[SC_AXIS_CP])
		return false;
	if (set == SC_AXIS_EP)
		return a[SC_AXIS_DP] / ep == b[SC_AXIS_DP] / ep;
	return a[SC_AXIS_DP] == b[SC_AXIS_DP];
}

static uint32_t on_stage(const struct oracle *o, uint32_t rank, int64_t step)
{
	int64_t pp = o->layout->size[SC_AXIS_PP];
	int64_t stage = (o->coord[rank][SC_AXIS_PP] + step + pp) % pp;

	for (uint32_t other = 0; other < o->world; other++) {
		const int64_t *a = o->coord[rank], *b = o->coord[other];

		if (b[SC_AXIS_PP] == stage && a[SC_AXIS_TP] == b[SC_AXIS_TP] &&
		    a[SC_AXIS_CP] == b[SC_AXIS_CP] && a[SC_AXIS_DP] == b[SC_AXIS_DP])
			return other;
	}
	ck_abort_msg("no such rank");
}

static struct sc_span span_of(const struct oracle *o, uint32_t rank, int set)
{
	int on_node[MAX_SMALL] = {0};
	struct sc_span span = {0};

	for (uint32_t other = 0; other < o->world; other++) {
		uint32_t node = other / (uint32_t)o->layout->gpus_per_node;

		if (!same_set(o, rank, other, set))
			continue;
		span.n_ranks++;
		span.n_nodes += on_node[node]++ == 0;
		if (on_node[node] > span.max_ranks_per_node)
			span.max_ranks_per_node = on_node[node];
	}
	return span;
}

/* All that a rank sees: own colour, neighbours, and how many of each colour are in its sets. */
struct view {
	uint32_t own, next, prev;
	uint32_t count[N_SETS][MAX_SMALL];
};

static void see(const struct oracle *o, uint32_t rank, struct view *view)
{
	memset(view, 0, sizeof(*view));
	view->own = o->color[rank];
	view->next = o->color[on_stage(o, rank, 1)];
	view->prev = o->color[on_stage(o, rank, -1)];
	for (int set = 0; set < N_SETS; set++)
		for (uint32_t other = 0; other < o->world; other++)
			view->count[set][o->color[other]] += same_set(o, rank, other, set);
}

struct first_view {
	int64_t stage, kind;
	double slowdown;
	struct sc_span span[SC_AXIS_PP];
	bool next_near, prev_near;
};

static int64_t kind_of(const struct sc_layout *l, uint32_t rank)
{
	for (size_t i = 0; i < l->n_runs; i++) {
		if (rank < l->runs[i].n_ranks)
			return l->runs[i].kind;
		rank -= l->runs[i].n_ranks;
	}
	return 0;
}

static void see_first(const struct oracle *o, uint32_t rank, struct first_view *view)
{
	memset(view, 0, sizeof(*view));
	view->stage = o->coord[rank][SC_AXIS_PP];
	view->slowdown = 1;
	view->kind = kind_of(o->layout, rank);
	for (size_t i = 0; i < o->layout->n_stragglers; i++)
		if (o->layout->stragglers[i].ranks.at[0] == (int64_t)rank)
			view->slowdown *= o->layout->stragglers[i].slowdown;
	for (int set = 0; set < SC_AXIS_PP; set++)
		view->span[set] = span_of(o, rank, set);
	view->next_near = same_set(o, rank, on_stage(o, rank, 1), SC_AXIS_PP);
	view->prev_near = same_set(o, rank, on_stage(o, rank, -1), SC_AXIS_PP);
}

/* Colours by equal views, numbered by lowest rank. */
static void color_by(struct oracle *o, const void *views, size_t n_bytes)
{
	const unsigned char *at = views;
	uint32_t colors[MAX_SMALL];

	o->n_colors = 0;
	for (uint32_t rank = 0; rank < o->world; rank++) {
		uint32_t like = 0;

		while (memcmp(at + like * n_bytes, at + rank * n_bytes, n_bytes) != 0)
			like++;
		colors[rank] = like == rank ? o->n_colors++ : colors[like];
	}
	memcpy(o->color, colors, sizeof(colors));
}

static void run_oracle(struct oracle *o, const struct sc_layout *l, uint32_t world)
{
	static struct view views[MAX_SMALL];
	static struct first_view first[MAX_SMALL];
	uint32_t before = 0;

	*o = (struct oracle){.layout = l, .world = world};
	ck_assert_uint_le(world, MAX_SMALL);
	for (uint32_t rank = 0; rank < world; rank++) {
		int64_t left = rank;

		for (const char *axis = l->order; *axis; axis += axis[2] ? 3 : 2) {
			int a = axis[0] == 't'   ? SC_AXIS_TP
				: axis[0] == 'c' ? SC_AXIS_CP
				: axis[0] == 'e' ? SC_AXIS_EP
				: axis[0] == 'd' ? SC_AXIS_DP
						 : SC_AXIS_PP;

			o->coord[rank][a] = a == SC_AXIS_EP ? 0 : left % l->size[a];
			left /= a == SC_AXIS_EP ? 1 : l->size[a];
		}
	}
	for (uint32_t rank = 0; rank < world; rank++)
		see_first(o, rank, &first[rank]);
	color_by(o, first, sizeof(first[0]));
	while (o->n_colors != before) {
		before = o->n_colors;
		for (uint32_t rank = 0; rank < world; rank++)
			see(o, rank, &views[rank]);
		color_by(o, views, sizeof(views[0]));
	}
}

static void check_class(const struct oracle *o, const struct sc_placement *p, uint32_t c,
			const uint32_t *class_of)
{
	const struct sc_rank_class *rc = &p->classes[c];
	struct first_view first;
	struct view view;
	uint32_t n = 0;

	see_first(o, rc->representative, &first);
	see(o, rc->representative, &view);
	for (uint32_t rank = 0; rank < o->world; rank++)
		n += class_of[o->color[rank]] == c;
	ck_assert_uint_eq(rc->multiplicity, n);
	ck_assert_int_eq(rc->stage, first.stage);
	ck_assert(rc->slowdown == first.slowdown);
	ck_assert_int_eq(rc->kind, first.kind);
	ck_assert_uint_eq(rc->next_class, class_of[view.next]);
	ck_assert_uint_eq(rc->prev_class, class_of[view.prev]);
	ck_assert(rc->next_remote == !first.next_near && rc->prev_remote == !first.prev_near);
	ck_assert(rc->ranks_per_domain == view.count[SC_AXIS_PP][view.own]);
	for (int set = 0; set < SC_AXIS_PP; set++) {
		const struct sc_axis_group *g = &rc->group[set];

		check_span(g->span, first.span[set].n_ranks, first.span[set].n_nodes,
			   first.span[set].max_ranks_per_node);
		for (uint32_t color = 0; color < o->n_colors; color++) {
			uint32_t count = 0;

			for (uint32_t i = 0; i < g->n_members; i++)
				if (p->members[g->first_member + i].class_id == class_of[color])
					count = p->members[g->first_member + i].count;
			ck_assert_uint_eq(count, view.count[set][color]);
		}
	}
}

static void check_against_definition(const struct sc_layout *l)
{
	static struct oracle o;
	struct sc_placement p = place(l);
	uint32_t class_of[MAX_SMALL];

	check_sums(l, &p);
	ck_assert(!p.is_approximate);
	run_oracle(&o, l, p.world);
	ck_assert_uint_eq(p.n_classes, o.n_colors);
	for (uint32_t c = 0; c < p.n_classes; c++) {
		class_of[o.color[p.classes[c].representative]] = c;
		if (c > 0)
			ck_assert(p.classes[c].stage > p.classes[c - 1].stage ||
				  p.classes[c].representative > p.classes[c - 1].representative);
	}
	for (uint32_t c = 0; c < p.n_classes; c++)
		check_class(&o, &p, c, class_of);
}

TEST(classes_are_what_the_header_says)
{
	static const char *const ORDERS[] = {"tp-cp-ep-dp-pp", "tp-pp-dp-cp-ep", "dp-cp-ep-tp-pp",
					     "cp-pp-tp-ep-dp"};
	struct sc_rng rng;
	int n_done = 0;

	sc_rng_init(&rng, 5);
	while (n_done < 120) {
		int64_t ranks[2][1];
		struct sc_gpu_run runs[3];
		struct sc_straggler slow[2] = {{{ranks[0], 1}, 1.5}, {{ranks[1], 1}, 2}};
		int64_t ep = 1 + (int64_t)sc_rng_below(&rng, 3);
		struct sc_layout l = layout(1 + (int64_t)sc_rng_below(&rng, 5),
					    ep * (1 + (int64_t)sc_rng_below(&rng, 4)),
					    1 + (int64_t)sc_rng_below(&rng, 4),
					    2 + (int64_t)sc_rng_below(&rng, 8));
		int64_t world;

		l.order = ORDERS[sc_rng_below(&rng, 4)];
		l.size[SC_AXIS_EP] = ep;
		l.size[SC_AXIS_CP] = 1 + (int64_t)sc_rng_below(&rng, 3);
		world = l.size[SC_AXIS_TP] * l.size[SC_AXIS_CP] * l.size[SC_AXIS_DP] *
			l.size[SC_AXIS_PP];
		if (world > MAX_SMALL)
			continue;
		l.stragglers = slow;
		l.n_stragglers = (size_t)sc_rng_below(&rng, 3);
		/* three runs of nodes of two kinds, in half of the layouts */
		for (int i = 0; i < 3; i++)
			runs[i] = (struct sc_gpu_run){
				.n_ranks = (uint32_t)(l.gpus_per_node *
						      (int64_t)sc_rng_below(&rng, 4)),
				.kind = (uint8_t)(i % 2),
				.speed = 1 + i,
			};
		l.runs = runs;
		l.n_runs = n_done % 2 ? 3 : 0;
		ranks[0][0] = (int64_t)sc_rng_below(&rng, (uint64_t)world);
		ranks[1][0] = (int64_t)sc_rng_below(&rng, (uint64_t)world);
		check_against_definition(&l);
		n_done++;
	}
}

TEST(a_partly_filled_last_node)
{
	struct sc_layout l = layout(1, 11, 1, 8);
	struct sc_placement p = place(&l);

	check_sums(&l, &p);
	ck_assert_uint_eq(p.n_classes, 2);
	ck_assert_uint_eq(p.classes[0].multiplicity, 8);
	ck_assert_uint_eq(p.classes[1].multiplicity, 3);
	ck_assert(p.classes[1].ranks_per_domain == 3);
	ck_assert_uint_ne(p.classes[0].nic_domain, p.classes[1].nic_domain);
	check_span(p.classes[1].group[SC_AXIS_DP].span, 11, 2, 8);
}

TEST(too_irregular_is_one_class_a_stage)
{
	struct sc_layout l = layout(3, 4167, 8, 8);
	struct sc_placement p = place(&l);

	ck_assert(p.is_approximate);
	check_sums(&l, &p);
	ck_assert_uint_eq(p.n_classes, 8);
	for (uint32_t s = 0; s < 8; s++) {
		ck_assert_int_eq(p.classes[s].stage, (int)s);
		ck_assert_uint_eq(p.classes[s].representative, 3 * 4167 * s);
		check_span(p.classes[s].group[SC_AXIS_TP].span, 3, 2, 2);
		ck_assert(p.classes[s].ranks_per_domain == 8 && p.classes[s].next_remote);
		ck_assert_uint_lt(p.classes[s].nic_domain, 8);
	}
	/* of two kinds of GPU the slower is taken, wherever it is */
	l.runs = (const struct sc_gpu_run[]){{16, 0, 2}, {16, 1, 1}, {200000, 0, 2}};
	l.n_runs = 3;
	p = place(&l);
	ck_assert(p.is_approximate);
	ck_assert(p.classes[0].kind == 1 && p.classes[1].kind == 0);
	/* and nothing short of that is */
	l = layout(3, 33334, 1, 8);
	p = place(&l);
	check_sums(&l, &p);
	ck_assert(!p.is_approximate);
	ck_assert_uint_lt(p.n_classes, 64);
}
