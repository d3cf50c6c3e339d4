/* Orders that depend on times are those of their first, plain searches, slot by slot: shortcuts of
 * the searches change none. A hash by kind stands for what the plain searches gave. */
#include "arena_fixture.h"
#include "base/fnv.h"
#include "base/rng.h"
#include "predict/schedule/schedule.h"
#include "runner.h"

enum { N_SHAPES = 120, MAX_PP = 16 };

struct hashed_kind {
	enum sc_schedule kind;
	uint32_t virtual_stages, replicas;
	uint64_t hash;
};
static const struct hashed_kind HASHED[] = {
	{SC_SCHED_ZB_1P, 1, 1, UINT64_C(0x57db2210c2024188)},
	{SC_SCHED_ZB_2P, 1, 1, UINT64_C(0xffd4dbb2ee3b6b09)},
	{SC_SCHED_ZB_V, 2, 1, UINT64_C(0x9d00140d9e6cd21b)},
	{SC_SCHED_V_HALF, 2, 1, UINT64_C(0xf50a6a38d0e8f61a)},
	{SC_SCHED_V_MIN, 2, 1, UINT64_C(0xdd6671f64b1426c9)},
	{SC_SCHED_HANAYO, 2, 1, UINT64_C(0x2b6595e893588cd4)},
	{SC_SCHED_HANAYO, 4, 1, UINT64_C(0x742a15629447b91e)},
	{SC_SCHED_CHIMERA, 1, 2, UINT64_C(0x6352d3a01755e70f)},
	{SC_SCHED_GEMS, 1, 2, UINT64_C(0xb7d88f2b35cbaa75)},
};

/* Times of passes are whole in a third of the shapes, so that passes tie; in some a pass takes no
 * time, or all are so long that numbers are coarse. */
static struct sc_pass_times draw_times(struct sc_rng *rng)
{
	const double scale = sc_rng_below(rng, 8) ? 1 : sc_rng_below(rng, 2) ? 1e9 : 1e-9;
	struct sc_pass_times t = {.kept = sc_rng_uniform(rng)};

	if (sc_rng_below(rng, 3)) {
		t.forward = 0.5 + sc_rng_uniform(rng);
		t.input = 0.5 + 2 * sc_rng_uniform(rng);
		t.weight = 0.2 + sc_rng_uniform(rng);
		t.send = 0.3 * sc_rng_uniform(rng);
	} else {
		t.forward = (double)sc_rng_below(rng, 4);
		t.input = 1 + (double)sc_rng_below(rng, 3);
		t.weight = (double)sc_rng_below(rng, 3);
		t.send = 0.5 * (double)sc_rng_below(rng, 3);
	}
	t.forward *= scale;
	t.input *= scale;
	t.weight *= scale;
	t.send *= scale;
	return t;
}

static uint64_t hash_of(uint64_t hash, const struct sc_passes *passes)
{
	for (uint32_t s = 0; s < passes->map->pp; s++)
		for (uint32_t i = 0; i < passes->n[s]; i++) {
			const struct sc_slot *x = &sc_passes_of(passes, s)[i];
			const double slot[] = {s, x->micro_batch, x->chunk, x->kind};

			hash = sc_fnv_words(hash, slot, sizeof(slot) / sizeof(slot[0]));
		}
	return hash;
}

FIXTURE(arena_begin, arena_end)

LOOP_TEST(orders_stay, N_OF(HASHED))
{
	const struct hashed_kind *of = &HASHED[_i];
	struct sc_rng rng;
	uint64_t hash = SC_FNV_START;

	sc_rng_init(&rng, (uint64_t)_i);
	for (int i = 0; i < N_SHAPES; i++) {
		struct sc_pass_times stage_times[MAX_PP];
		struct sc_schedule_shape shape = {.kind = of->kind,
						  .virtual_stages = of->virtual_stages,
						  .replicas = of->replicas};
		struct sc_arena_mark start = {0};
		struct sc_stage_map map;
		struct sc_passes passes;

		shape.pp = of->replicas * (1 + (uint32_t)sc_rng_below(&rng, MAX_PP / of->replicas));
		shape.micro_batches = of->replicas + (uint32_t)sc_rng_below(&rng, 5 * shape.pp);
		shape.micro_batches -= shape.micro_batches % of->replicas;
		shape.times = draw_times(&rng);
		for (uint32_t s = 0; s < shape.pp; s++) {
			stage_times[s] = shape.times;
			stage_times[s].forward *= 0.75 + 0.5 * sc_rng_uniform(&rng);
			stage_times[s].weight *= 0.75 + 0.5 * sc_rng_uniform(&rng);
		}
		if (sc_rng_below(&rng, 2))
			shape.stage_times = stage_times;
		sc_arena_rewind(&arena, start);
		sc_stage_map_init(&shape, &arena, &map);
		sc_passes_build(&shape, &map, &arena, &passes);
		hash = hash_of(hash, &passes);
	}
	ck_assert_msg(hash == of->hash, "kind %d of %u chunks: 0x%llx", of->kind,
		      of->virtual_stages, (unsigned long long)hash);
}
