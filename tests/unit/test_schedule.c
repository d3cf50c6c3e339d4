/* Pipeline schedules: every pass once and none that waits for ever, the published orders, and in
 * unit times the published bubbles and memory. */
#include "arena_fixture.h"
#include "predict/schedule/schedule_file.h"
#include "runner.h"
#include "study/schedule/schedule_play.h"

enum { MAX_PP = 16, MAX_M = 8 * MAX_PP, MAX_DEPTH = 4 * MAX_PP };

static struct sc_stage_map map;
static struct sc_passes passes;

static void build(const struct sc_schedule_shape *shape)
{
	struct sc_arena_mark start = {0};

	sc_arena_rewind(&arena, start);
	sc_stage_map_init(shape, &arena, &map);
	sc_passes_build(shape, &map, &arena, &passes);
}

/* ---- a simulation apart from the engine's: each stage runs its slots in order, in unit times ----
 */

struct play {
	double end[SC_N_PASS_KINDS][MAX_DEPTH][MAX_M]; /* negative: not yet */
	uint32_t at[MAX_PP];
	double now[MAX_PP], first[MAX_PP];
};

static double cost_of(enum sc_pass_kind kind)
{
	return kind == SC_PASS_BACKWARD ? 2 : 1;
}

/* Slow builds take short pipelines. */
static uint32_t most_stages(void)
{
	return many_cases() ? MAX_PP : 6;
}

/* When the slot can begin, or negative. */
static double ready(const struct play *p, const struct sc_slot *x)
{
	uint32_t v = x->virtual_stage, m = x->micro_batch;
	double own = p->end[SC_PASS_FORWARD][v][m];

	if (x->kind == SC_PASS_FORWARD)
		return v == 0 ? 0 : p->end[SC_PASS_FORWARD][v - 1][m];
	if (x->kind == SC_PASS_BACKWARD_WEIGHT)
		return p->end[SC_PASS_BACKWARD_INPUT][v][m];
	if (v + 1 == map.depth || own < 0)
		return own;
	own = fmax(p->end[SC_PASS_BACKWARD][v + 1][m], p->end[SC_PASS_BACKWARD_INPUT][v + 1][m]);
	return own;
}

/* The next slot of a stage, or two that run together; false if it has to wait. */
static bool step(struct play *p, uint32_t s)
{
	const struct sc_slot *x = sc_passes_of(&passes, s) + p->at[s];
	double begin = p->now[s], took = 0;
	uint32_t n;

	if (p->at[s] == passes.n[s])
		return false;
	n = x->paired ? 2 : 1;
	for (uint32_t i = 0; i < n; i++) {
		double input = ready(p, &x[i]);

		if (input < 0)
			return false;
		begin = fmax(begin, input);
		took += cost_of((enum sc_pass_kind)x[i].kind);
	}
	if (p->at[s] == 0)
		p->first[s] = begin;
	p->now[s] = begin + took;
	p->at[s] += n;
	for (uint32_t i = 0; i < n; i++) {
		double *end = &p->end[x[i].kind][x[i].virtual_stage][x[i].micro_batch];

		ck_assert(*end < 0); /* every pass once */
		*end = p->now[s];
	}
	return true;
}

static struct play played;

/* True if all slots ran. */
static bool completes(void)
{
	bool moved = true;

	memset(played.at, 0, sizeof(played.at));
	memset(played.now, 0, sizeof(played.now));
	for (int k = 0; k < SC_N_PASS_KINDS; k++)
		for (uint32_t v = 0; v < map.depth; v++)
			for (uint32_t m = 0; m < passes.micro_batches; m++)
				played.end[k][v][m] = -1;
	while (moved) {
		moved = false;
		for (uint32_t s = 0; s < map.pp; s++)
			while (step(&played, s))
				moved = true;
	}
	for (uint32_t s = 0; s < map.pp; s++)
		if (played.at[s] < passes.n[s])
			return false;
	return true;
}

/* Every pass of every micro-batch is there. */
static bool is_complete(uint32_t micro_batches)
{
	for (uint32_t v = 0; v < map.depth; v++)
		for (uint32_t m = 0; m < micro_batches; m++) {
			bool whole = played.end[SC_PASS_BACKWARD][v][m] >= 0;

			if (played.end[SC_PASS_FORWARD][v][m] < 0 ||
			    whole == (played.end[SC_PASS_BACKWARD_INPUT][v][m] >= 0) ||
			    whole == (played.end[SC_PASS_BACKWARD_WEIGHT][v][m] >= 0))
				return false;
		}
	return true;
}

/* What the longest stage does not work, in times of a stage's pass. */
static double bubble_of_longest(uint32_t micro_batches)
{
	double longest = 0;

	for (uint32_t s = 0; s < map.pp; s++)
		longest = fmax(longest, played.now[s] - played.first[s]);
	return (longest - 3.0 * micro_batches * map.n_chunks / map.replicas) * map.replicas /
	       map.n_chunks;
}

static double peak(void)
{
	double most = 0;

	for (uint32_t s = 0; s < map.pp; s++)
		most = fmax(most, sc_passes_peak(&passes, s, 1));
	return most * map.replicas / map.n_chunks;
}

/* ---- what is published; memory in activations of a stage ---- */

static double p_1f1b_bubble(double p, double m)
{
	(void)m;
	return 3 * (p - 1);
}
static double p_memory(double p, double m)
{
	(void)m;
	return p;
}
static double m_memory(double p, double m)
{
	(void)p;
	return m;
}
static double interleaved_memory(double p, double m)
{
	return m > p ? p * (1 + (p - 1) / (2 * p)) : m;
}
static double h1_bubble(double p, double m)
{
	(void)m;
	return p - 1;
}
static double none(double p, double m)
{
	(void)p;
	(void)m;
	return 0;
}
static double h2_memory(double p, double m)
{
	(void)m;
	return 2 * p - 1;
}
static double p2_memory(double p, double m)
{
	(void)m;
	return 2 * p;
}
static double half_memory(double p, double m)
{
	(void)m;
	return floor((p + 2) / 2);
}
static double min_memory(double p, double m)
{
	(void)m;
	return floor((p + 4) / 3);
}
static double breadth_bubble(double p, double m)
{
	(void)m;
	return 3 * (p - 1) / 2;
}
static double dual_bubble(double p, double m)
{
	(void)m;
	return p - 2;
}
static double dual_v_bubble(double p, double m)
{
	(void)m;
	return p - 1;
}
static double chimera_bubble(double p, double m)
{
	(void)m;
	return 2 * (p - 2);
}
static double dual_memory(double p, double m)
{
	(void)m;
	return p + 1;
}
/* Of a pair of micro-batches 4 D + 2 that are 6 of work: (D - 1) / (D + 1/2) of all. */
static double gems_bubble(double p, double m)
{
	return m * (2 * p - 2);
}

static double gems_memory(double p, double m)
{
	(void)p;
	(void)m;
	return 1;
}

static double dual_v_memory(double p, double m)
{
	(void)m;
	return (2 * p + 1) / 2;
}

typedef double (*formula)(double p, double m);
/* Bubbles of a stage whose passes take F = B = W = 1, from `least` micro-batches a stage on. */
static const struct published {
	enum sc_schedule kind;
	uint32_t chunks, replicas, least, step; /* p is a multiple of step */
	formula bubble, memory;                 /* NULL: not published as a formula */
} PUBLISHED[] = {
	/* Huang et al., NeurIPS 2019, §2; Narayanan et al., SC21, §2.2 */
	{SC_SCHED_GPIPE, 1, 1, 1, 1, p_1f1b_bubble, m_memory},
	{SC_SCHED_1F1B, 1, 1, 1, 1, p_1f1b_bubble, p_memory},
	/* SC21, §2.2.2, with two chunks; memory: Korthikanti et al., 2022, §4.2.3 */
	{SC_SCHED_INTERLEAVED, 2, 1, 1, 1, breadth_bubble, interleaved_memory},
	/* Lamy-Poirier, MLSys 2023, §3: the same bubble, all activations */
	{SC_SCHED_BREADTH_FIRST, 2, 1, 1, 1, breadth_bubble, m_memory},
	/* Qi et al., ICLR 2024, table 1 */
	{SC_SCHED_ZB_H1, 1, 1, 1, 1, h1_bubble, p_memory},
	{SC_SCHED_ZB_H2, 1, 1, 2, 1, none, h2_memory},
	/* §4: ZB-1p is limited to the memory of 1F1B and is no worse than ZB-H1; with twice that,
	   no bubble */
	{SC_SCHED_ZB_1P, 1, 1, 1, 1, h1_bubble, p_memory},
	{SC_SCHED_ZB_2P, 1, 1, 2, 1, none, p2_memory},
	/* §6 */
	{SC_SCHED_ZB_V, 2, 1, 2, 1, none, p_memory},
	/* Qi et al., NeurIPS 2024, and its repository's table: memory by the number of stages */
	{SC_SCHED_V_HALF, 2, 1, 2, 1, NULL, half_memory},
	{SC_SCHED_V_MIN, 2, 1, 2, 1, NULL, min_memory},
	/* Li & Hoefler, SC21, table 2, with backward twice forward: (D - 2) / (3 N / 2 + D - 2) of
	   N = D */
	{SC_SCHED_CHIMERA, 1, 2, 1, 2, chimera_bubble, p_memory},
	/* deepseek-ai/DualPipe, README: (PP/2 - 1)(F&B + B - 3W), PP + 1 activations, with B of
	 * both gradients; DualPipeV has half as many GPUs, each with two chunks */
	{SC_SCHED_DUALPIPE, 1, 2, 2, 2, dual_bubble, dual_memory},
	{SC_SCHED_DUALPIPEV, 2, 1, 2, 1, dual_v_bubble, dual_v_memory},
	/* Li & Hoefler, SC21, table 2; at least one micro-batch in each direction */
	{SC_SCHED_GEMS, 1, 2, 1, 2, gems_bubble, gems_memory},
};
enum { N_PUBLISHED = sizeof(PUBLISHED) / sizeof(PUBLISHED[0]) };

FIXTURE(arena_begin, arena_end)

LOOP_TEST(published_bubbles, N_PUBLISHED)
{
	const struct published *k = &PUBLISHED[_i];

	for (uint32_t p = 2; p <= most_stages(); p += k->step)
		for (uint32_t each = k->least; each <= (k->kind == SC_SCHED_CHIMERA ? 1 : 8);
		     each++) {
			uint32_t m = each * p;
			struct sc_schedule_shape shape = {.kind = k->kind,
							  .pp = p,
							  .virtual_stages = k->chunks,
							  .replicas = k->replicas,
							  .micro_batches = m};

			build(&shape);
			ck_assert(completes() && is_complete(m));
			if (k->bubble)
				ck_assert_double_eq_tol(bubble_of_longest(m), k->bubble(p, m),
							1e-9);
			if (k->memory)
				ck_assert_double_eq_tol(peak(), k->memory(p, m), 1e-9);
		}
}

TEST(one_f_one_b_order)
{
	struct sc_schedule_shape shape = {
		.kind = SC_SCHED_1F1B, .pp = 4, .virtual_stages = 1, .micro_batches = 6};
	const struct sc_slot *first, *last;

	build(&shape);
	first = sc_passes_of(&passes, 0);
	last = sc_passes_of(&passes, 3);
	/* last stage alternates from the start; first stage warms up with three forwards */
	for (uint32_t i = 0; i < 12; i++) {
		ck_assert_uint_eq(last[i].kind == SC_PASS_BACKWARD, i % 2);
		ck_assert_uint_eq(last[i].micro_batch, i / 2);
	}
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_uint_eq(first[i].kind, SC_PASS_FORWARD);
	ck_assert_uint_eq(first[4].kind, SC_PASS_BACKWARD);
	ck_assert_uint_eq(first[4].micro_batch, 0);
}

TEST(interleaved_order)
{
	struct sc_schedule_shape shape = {
		.kind = SC_SCHED_INTERLEAVED, .pp = 2, .virtual_stages = 2, .micro_batches = 4};
	const struct sc_slot *first, *last;

	build(&shape);
	first = sc_passes_of(&passes, 0);
	last = sc_passes_of(&passes, 1);
	/* forward: micro-batches 0, 1 of chunk 0, then of chunk 1, then 2, 3 */
	ck_assert_uint_eq(first[0].chunk, 0);
	ck_assert_uint_eq(first[1].micro_batch, 1);
	ck_assert_uint_eq(first[2].chunk, 1);
	ck_assert_uint_eq(first[2].micro_batch, 0);
	/* the last stage's first backward is of the last chunk */
	for (uint32_t i = 0; i < 16; i++)
		if (last[i].kind == SC_PASS_BACKWARD) {
			ck_assert_uint_eq(last[i].chunk, 1);
			ck_assert_uint_eq(last[i].micro_batch, 0);
			break;
		}
}

static bool has_chunks(enum sc_schedule kind)
{
	return kind == SC_SCHED_INTERLEAVED || kind == SC_SCHED_BREADTH_FIRST;
}

static bool goes_both_ways(enum sc_schedule kind)
{
	return kind == SC_SCHED_DUALPIPE || kind == SC_SCHED_CHIMERA || kind == SC_SCHED_GEMS;
}

static bool is_dual(enum sc_schedule kind)
{
	return kind == SC_SCHED_DUALPIPE || kind == SC_SCHED_DUALPIPEV;
}

static struct sc_schedule_shape shape_of(enum sc_schedule kind, uint32_t pp, uint32_t micro_batches)
{
	bool folded = kind == SC_SCHED_ZB_V || kind == SC_SCHED_V_HALF || kind == SC_SCHED_V_MIN ||
		      kind == SC_SCHED_HANAYO || kind == SC_SCHED_DUALPIPEV;

	return (struct sc_schedule_shape){.kind = kind,
					  .pp = pp,
					  .virtual_stages = folded || has_chunks(kind) ? 2 : 1,
					  .replicas = goes_both_ways(kind) ? 2 : 1,
					  .micro_batches = micro_batches};
}

/* In chunks of a stage, as its slots are in order. */
static double held_at_most(uint32_t stage)
{
	static const double KEEPS[SC_N_PASS_KINDS] = {
		[SC_PASS_FORWARD] = 1, [SC_PASS_BACKWARD] = -1, [SC_PASS_BACKWARD_WEIGHT] = -1};
	double now = 0, most = 0;

	for (uint32_t i = 0; i < passes.n[stage]; i++) {
		now += KEEPS[sc_passes_of(&passes, stage)[i].kind];
		most = fmax(most, now);
	}
	return most;
}

/* The engine says of every schedule what the simulation apart from it does, published or not. */
LOOP_TEST(the_engine_agrees, SC_SCHED_FILE)
{
	enum sc_schedule kind = (enum sc_schedule)_i;
	struct sc_pass_times times[MAX_PP];

	for (uint32_t s = 0; s < MAX_PP; s++)
		times[s] = (struct sc_pass_times){1, 1, 1, 0, 1};
	for (uint32_t pp = 2; pp <= most_stages(); pp += goes_both_ways(kind) ? 2 : 1)
		for (uint32_t each = is_dual(kind) ? 2 : 1; each <= 8; each *= 2) {
			struct sc_schedule_shape shape = shape_of(kind, pp, each * pp);
			struct sc_schedule_play ran;
			double longest = 0, chunks;

			build(&shape);
			ck_assert(completes());
			sc_schedule_play(&passes, times, &arena, &ran);
			chunks = (double)map.n_chunks / map.replicas;
			for (uint32_t s = 0; s < pp; s++) {
				longest = fmax(longest, played.now[s] - played.first[s]);
				ck_assert_double_eq_tol(ran.peak[s] * chunks, held_at_most(s),
							1e-9);
			}
			ck_assert_double_eq_tol(ran.longest * chunks, longest, 1e-9);
			ck_assert_double_eq_tol(ran.bubble_pct,
						100 - 300 * each * pp * chunks / longest, 1e-9);
		}
}

/* Of any number of micro-batches that a schedule takes. */
LOOP_TEST(never_deadlocks, SC_SCHED_FILE)
{
	enum sc_schedule kind = (enum sc_schedule)_i;
	bool dual = is_dual(kind), both_ways = goes_both_ways(kind), chunks = has_chunks(kind);

	for (uint32_t pp = both_ways ? 2 : 1; pp <= (many_cases() ? 8 : 4); pp += both_ways ? 2 : 1)
		for (uint32_t v = 1; v <= (chunks ? 4 : 1); v++)
			for (uint32_t m = dual ? 2 * pp : 1; m <= 24; m += dual ? 2 : 1) {
				struct sc_schedule_shape shape = shape_of(kind, pp, m);

				if (chunks)
					shape.virtual_stages = v;
				build(&shape);
				ck_assert_msg(completes() && is_complete(m),
					      "kind %d pp %u v %u m %u", kind, pp, v, m);
			}
}

/* Of both forms; each pass where it was. */
static void read_again(bool as_json)
{
	struct sc_schedule_file file;
	struct sc_err err = {0};
	char *text = NULL;
	size_t n_text;
	FILE *out = open_memstream(&text, &n_text);

	sc_schedule_file_write(&passes, as_json ? "a note" : NULL, out);
	fclose(out);
	ck_assert_msg(sc_schedule_file_parse(&(struct sc_source){text, n_text, "written"}, &arena,
					     &file, &err) == 0,
		      "%s", err.text);
	for (uint32_t s = 0; s < map.pp; s++) {
		const struct sc_slot *a = sc_passes_of(&passes, s);
		const struct sc_slot *b = sc_passes_of(&file.passes, s);

		ck_assert_uint_eq(passes.n[s], file.passes.n[s]);
		for (uint32_t i = 0; i < passes.n[s]; i++)
			ck_assert(a[i].kind == b[i].kind && a[i].paired == b[i].paired &&
				  a[i].last == b[i].last &&
				  a[i].virtual_stage == b[i].virtual_stage &&
				  a[i].micro_batch == b[i].micro_batch);
	}
	free(text);
}

LOOP_TEST(files_are_read_again, SC_SCHED_FILE)
{
	enum sc_schedule kind = (enum sc_schedule)_i;
	bool folded = kind >= SC_SCHED_ZB_V && !goes_both_ways(kind);
	bool chunks = kind == SC_SCHED_INTERLEAVED || kind == SC_SCHED_BREADTH_FIRST;
	struct sc_schedule_shape shape = {.kind = kind,
					  .pp = 4,
					  .virtual_stages = folded || chunks ? 2 : 1,
					  .micro_batches = 8};

	if (goes_both_ways(kind)) /* stages on several ranks */
		return;
	build(&shape);
	read_again(false);
	read_again(true);
}

LOOP_TEST(peers_agree, SC_SCHED_FILE)
{
	enum sc_schedule kind = (enum sc_schedule)_i;
	bool both_ways = goes_both_ways(kind);
	bool plain = kind == SC_SCHED_GPIPE || kind == SC_SCHED_1F1B ||
		     (kind >= SC_SCHED_ZB_H1 && kind <= SC_SCHED_ZB_2P) || both_ways;
	struct sc_schedule_shape shape = {.kind = kind,
					  .pp = 4,
					  .virtual_stages = plain ? 1 : 2,
					  .replicas = both_ways ? 2 : 1,
					  .micro_batches = 8};

	build(&shape);
	for (uint32_t s = 0; s < shape.pp; s++)
		for (uint32_t i = 0; i < passes.n[s]; i++) {
			struct sc_slot slot = sc_passes_of(&passes, s)[i], other = slot;
			struct sc_stage_place to, back;

			if (!sc_slot_peer(&map, &slot, false, &to))
				continue;
			other.virtual_stage = sc_virtual_stage(&map, to.stage, to.chunk);
			ck_assert(sc_slot_peer(&map, &other, true, &back));
			ck_assert_uint_eq(back.stage, s);
			ck_assert_uint_eq(back.chunk, slot.chunk);
		}
}

/* Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024: bubble rates of ZB-1p and ZB-2p that its
 * table gives for the times it profiled (forward, backward of inputs, of weights, transfer). What
 * backward of weights needs is by its count: 32 of 34 + 5 a s / h. */
static const struct {
	uint32_t p, m;
	double times[4], attention; /* a s / h */
	double bubble[2];
} PROFILED[] = {
	{8, 24, {18.522, 18.086, 9.337, 0.601}, 32.0 / 3, {0.1585, 0.0433}},
	{8, 32, {18.513, 18.086, 9.331, 0.626}, 32.0 / 3, {0.1242, 0.0039}},
	{8, 64, {18.546, 18.097, 9.321, 0.762}, 32.0 / 3, {0.0674, 0.0026}},
	{8, 24, {29.718, 29.444, 19.927, 0.527}, 8, {0.1323, 0.0029}},
	{8, 32, {29.802, 29.428, 19.53, 0.577}, 8, {0.1045, 0.0022}},
	{8, 64, {29.935, 29.621, 19.388, 0.535}, 8, {0.0554, 0.0010}},
	{32, 96, {10.419, 10.207, 7.715, 0.408}, 8, {0.1421, 0.0038}},
	{32, 128, {10.408, 10.204, 7.703, 0.408}, 8, {0.1106, 0.0029}},
	{32, 256, {10.402, 10.248, 7.698, 0.46}, 8, {0.0594, 0.0018}},
};
enum { N_PROFILED = sizeof(PROFILED) / sizeof(PROFILED[0]) };

static double bubble_of(const struct sc_pass_times *by_stage)
{
	struct sc_schedule_play play;

	sc_schedule_play(&passes, by_stage, &arena, &play);
	return play.bubble_pct / 100;
}

LOOP_TEST(bubbles_of_profiled_times, N_PROFILED)
{
	const double *t = PROFILED[_i].times;
	struct sc_pass_times by_stage[32];

	for (int twice = 0; twice < 2; twice++) {
		struct sc_schedule_shape shape = {
			.kind = twice ? SC_SCHED_ZB_2P : SC_SCHED_ZB_1P,
			.pp = PROFILED[_i].p,
			.virtual_stages = 1,
			.micro_batches = PROFILED[_i].m,
			.times = {t[0], t[1], t[2], t[3], 32 / (34 + 5 * PROFILED[_i].attention)},
		};
		struct sc_optimized better;

		for (uint32_t s = 0; s < shape.pp; s++)
			by_stage[s] = shape.times;
		build(&shape);
		ck_assert_double_eq_tol(bubble_of(by_stage), PROFILED[_i].bubble[twice], 6e-5);
		if (shape.pp > 8) /* takes long */
			continue;
		sc_schedule_optimize(&shape, &arena, &passes, &better);
		ck_assert_double_le(bubble_of(by_stage), PROFILED[_i].bubble[twice] + 6e-5);
	}
}

/* Stages that differ: never worse than the order it begins with, no better than the bound, with the
 * same memory; here better, where there is room. */
LOOP_TEST(optimized_orders, 2)
{
	struct sc_pass_times by_stage[8];
	struct sc_schedule_shape shape = {.kind = _i ? SC_SCHED_ZB_2P : SC_SCHED_ZB_1P,
					  .pp = 8,
					  .virtual_stages = 1,
					  .micro_batches = 24,
					  .times = {18, 18, 9, 0.5, 0.4},
					  .stage_times = by_stage};
	struct sc_schedule_play play;
	struct sc_optimized better;
	double before;

	for (uint32_t s = 0; s < 8; s++)
		by_stage[s] = shape.times;
	by_stage[0] = (struct sc_pass_times){25, 25, 12, 0.5, 0.4};
	build(&shape);
	sc_schedule_play(&passes, by_stage, &arena, &play);
	before = play.longest;
	sc_schedule_optimize(&shape, &arena, &passes, &better);
	sc_schedule_play(&passes, by_stage, &arena, &play);
	ck_assert_double_eq_tol(better.longest, play.longest, 1e-6);
	ck_assert_double_ge(better.longest, better.bound);
	ck_assert_double_le(better.longest, before);
	ck_assert(_i == 0 || better.longest < before);
	for (uint32_t s = 0; s < 8; s++)
		ck_assert_double_le(sc_passes_peak(&passes, s, 0.4), (_i ? 16 : 8) + 1e-6);
}

/* Orders that are found for times: 1 % more of a pass lengthens them by little, and more
 * micro-batches never make a larger bubble. Greedy orders alone jump by up to a fifth where passes
 * tie. */
static const struct {
	enum sc_schedule kind;
	uint32_t pp, virtual_stages, replicas;
} FOUND[] = {
	{SC_SCHED_HANAYO, 2, 2, 0},  {SC_SCHED_HANAYO, 4, 2, 0},  {SC_SCHED_HANAYO, 4, 4, 0},
	{SC_SCHED_HANAYO, 8, 2, 0},  {SC_SCHED_CHIMERA, 4, 1, 2}, {SC_SCHED_CHIMERA, 8, 1, 2},
	{SC_SCHED_CHIMERA, 8, 1, 4}, {SC_SCHED_ZB_1P, 4, 1, 0},   {SC_SCHED_ZB_2P, 4, 1, 0},
	{SC_SCHED_ZB_2P, 8, 1, 0},
};
enum { N_FOUND = sizeof(FOUND) / sizeof(FOUND[0]) };

static struct sc_schedule_play play_found(int i, uint32_t micro_batches, struct sc_pass_times times)
{
	struct sc_schedule_shape shape = {.kind = FOUND[i].kind,
					  .pp = FOUND[i].pp,
					  .virtual_stages = FOUND[i].virtual_stages,
					  .replicas = FOUND[i].replicas,
					  .micro_batches = micro_batches,
					  .times = times};
	struct sc_pass_times by_stage[8];
	struct sc_schedule_play play;

	for (uint32_t s = 0; s < shape.pp; s++)
		by_stage[s] = times;
	build(&shape);
	sc_schedule_play(&passes, by_stage, &arena, &play);
	return play;
}

LOOP_TEST(found_orders_have_no_cliff, N_FOUND)
{
	for (int send = 0; send < 2; send++) {
		double before = 0;

		for (int i = 0; i <= 110; i++) {
			double half = 0.9 * pow(1.01, i) / 2;
			struct sc_pass_times times = {1, half, half, 0.1 * send, 1};
			double now = play_found(_i, 24, times).longest;

			if (i > 0) {
				ck_assert_double_le(now, before * 1.045);
				ck_assert_double_ge(now, before / 1.045);
			}
			before = now;
		}
	}
}

LOOP_TEST(more_micro_batches_are_no_larger_bubble, N_FOUND)
{
	for (int i = 0; i < 8; i++) {
		double half = 0.5 + 0.125 * i, before = INFINITY;

		for (uint32_t m = FOUND[_i].pp; m <= 16 * FOUND[_i].pp; m *= 2) {
			struct sc_pass_times times = {1, half, half, 0, 1};
			double now = play_found(_i, m, times).bubble_pct;

			ck_assert_double_le(now, before + 0.01);
			before = now;
		}
	}
}

/* The times of passes tell the order, which may repeat itself late or not at all. */
LOOP_TEST(periods_between_fill_and_drain, 2)
{
	struct sc_schedule_shape shape = {.virtual_stages = _i ? 1 : 2, .replicas = _i ? 2 : 1};
	uint32_t n_found = 0, n;

	shape.kind = _i ? SC_SCHED_CHIMERA : SC_SCHED_HANAYO;
	for (shape.pp = 2; shape.pp <= 8; shape.pp += 2)
		for (n = 0; n < 12; n++) {
			struct sc_arena_mark start = {0};
			uint32_t period;

			shape.times =
				(struct sc_pass_times){1, 0.3 + 0.37 * n, 0.1, 0.21 * (n % 5), 1};
			sc_arena_rewind(&arena, start);
			sc_stage_map_init(&shape, &arena, &map);
			period = sc_schedule_find_period(&shape, &map, &arena);
			ck_assert_uint_le(period, shape.pp);
			ck_assert_uint_eq(period % map.replicas, 0);
			n_found += period > 0;
		}
	ck_assert_uint_gt(n_found, 12);
}
