/* The interface between the files that write schedules and schedule.c, which calls them: a writer
 * puts slots stage by stage in the order in which they run. */
#pragma once

#include <assert.h>

#include "predict/schedule/schedule.h"

/* The arguments that every writer of slots gets. */
struct slot_writer {
	const struct sc_schedule_shape *shape;
	const struct sc_stage_map *map;
	struct sc_pass_times times;
	struct sc_arena *arena;
	struct sc_passes *out;
};
struct slot_id {
	uint32_t stage, chunk, micro_batch;
};
static inline void put_slot(const struct slot_writer *w, enum sc_pass_kind kind, struct slot_id id)
{
	struct sc_passes *out = w->out;
	uint32_t *n = &out->n[id.stage];

	assert(*n < out->stride && id.micro_batch < out->micro_batches);
	out->slots[(size_t)id.stage * out->stride + (*n)++] = (struct sc_slot){
		.micro_batch = id.micro_batch,
		.virtual_stage = sc_virtual_stage(w->map, id.stage, id.chunk),
		.chunk = (uint16_t)id.chunk,
		.kind = (uint8_t)kind,
	};
}

/* Sets sc_slot.last. */
void sc_passes_mark_last(struct sc_passes *passes);

/* Each of these writes the kinds that it knows, w->shape->kind. */
void write_zero_bubble(const struct slot_writer *w);
void write_zb_v(const struct slot_writer *w);
void write_v_pattern(const struct slot_writer *w);
void write_waves(const struct slot_writer *w);
void write_dual_pipe(const struct slot_writer *w);
