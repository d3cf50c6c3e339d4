/* The passes of an iteration's pipeline as they ran, for who draws them. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "models/activations.h"
#include "predict/transformer/summarize_priv.h"

static void copy_passes(const struct sc_run *run, struct sc_arena *arena,
			struct sc_schedule_play *out)
{
	const struct sc_passes *from = &run->built->passes;
	struct sc_passes *passes = sc_arena_calloc(arena, 1, sizeof(*passes));
	struct sc_stage_map *map = sc_arena_calloc(arena, 1, sizeof(*map));
	size_t n = (size_t)from->map->pp * from->stride;

	*map = *from->map;
	map->virtual_stage = NULL; /* slots say it */
	map->place = NULL;
	*passes = *from;
	passes->map = map;
	passes->n = sc_arena_alloc(arena, map->pp * sizeof(*passes->n));
	memcpy(passes->n, from->n, map->pp * sizeof(*passes->n));
	passes->slots = sc_arena_alloc(arena, n * sizeof(*passes->slots));
	memcpy(passes->slots, from->slots, n * sizeof(*passes->slots));
	out->passes = passes;
}

/* The first of a slot's nodes that computes; they lie behind those of the slot before. */
static double start_us(const struct sc_run *run, size_t at, uint32_t i)
{
	const uint32_t *node = run->built->slot_node + at;
	const struct sc_timeline *tl = run->timeline;
	uint32_t lane = run->graph->nodes.at[node[i]].lane;
	uint32_t id = i > 0 ? node[i - 1] + 1 : run->graph->lane_first[lane];

	while (id < node[i] &&
	       (run->graph->nodes.at[id].lane != lane || tl->end_us[id] <= tl->start_us[id]))
		id++;
	return tl->start_us[id];
}

static void copy_times(const struct sc_run *run, uint32_t c, struct sc_schedule_play *out)
{
	uint32_t stage = (uint32_t)run->tf->placement.classes[c].stage;
	size_t stride = out->passes->stride, from = c * stride, to = stage * stride;

	for (uint32_t i = 0; i < out->passes->n[stage]; i++) {
		out->start[to + i] = start_us(run, from, i) / SC_US_PER_MS;
		out->end[to + i] =
			run->timeline->end_us[run->built->slot_node[from + i]] / SC_US_PER_MS;
	}
}

/* Activations are what memory grows by with them in flight. */
static struct sc_stage_held held_by(const struct sc_run *run, uint32_t c,
				    const struct sc_memory *peak)
{
	int stage = run->tf->placement.classes[c].stage;
	struct sc_stage_parts parts = sc_transformer_stage(run->tf, stage);
	double n = sc_micro_batches_in_flight(run, stage) * run->tf->map.n_chunks;
	struct sc_memory empty;

	sc_memory_of_class(run, c, 0, &empty);
	return (struct sc_stage_held){
		.before = empty.total_gib,
		.each = n > 0 ? (peak->total_gib - empty.total_gib) / n : 0,
		.kept = sc_weight_inputs_frac(run->tf->request, parts.layers, parts.dense),
	};
}

void sc_run_play(const struct sc_run *run, struct sc_arena *arena, struct sc_schedule_play *out)
{
	const struct sc_placement *placement = &run->tf->placement;
	uint32_t pp = run->tf->map.pp;
	size_t n = (size_t)pp * run->built->passes.stride;
	struct sc_memory *fullest = sc_arena_calloc(arena, pp, sizeof(*fullest)), now;

	*out = (struct sc_schedule_play){
		.start = sc_arena_calloc(arena, n, sizeof(double)),
		.end = sc_arena_calloc(arena, n, sizeof(double)),
		.held = sc_arena_calloc(arena, pp, sizeof(*out->held)),
		.time_unit = " ms",
		.held_unit = "GiB",
	};
	copy_passes(run, arena, out);
	for (uint32_t c = 0; c < placement->n_classes; c++) {
		int stage = placement->classes[c].stage;

		sc_memory_of_class(run, c, sc_micro_batches_in_flight(run, stage), &now);
		if (fullest[stage].capacity_gib > 0 &&
		    sc_memory_fullness(&now) <= sc_memory_fullness(&fullest[stage]))
			continue;
		fullest[stage] = now;
		copy_times(run, c, out);
		out->held[stage] = held_by(run, c, &now);
	}
	sc_schedule_measure(out, arena);
}
