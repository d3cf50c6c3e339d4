/* In which order a pipeline stage runs its forward and backward passes. */
#ifndef SC_PREDICT_SCHEDULE_H
#define SC_PREDICT_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#include "core/config/config.h"

struct sc_slot {
	uint32_t micro_batch;
	uint16_t chunk;
	uint8_t backward;
};
struct sc_schedule_shape {
	enum sc_schedule kind;
	uint32_t pp, virtual_stages, micro_batches;
};
/* Writes 2 * micro_batches * virtual_stages slots. GPipe: all forward, then all backward; 1F1B: Narayanan
 * et al., SC21 §2.2.1; interleaved: §2.2.2, with groups larger than pp where pp does not divide the
 * micro-batches. */
void sc_schedule_stage(const struct sc_schedule_shape *shape, uint32_t stage,
		       struct sc_slot *slots);

#endif
