/* Pipeline schedules as data: in which order a stage runs its passes, on which part of the model each
 * works, whose output it waits for, and how much is in flight. All that depends on the order of passes
 * reads it here.
 *
 * The model is cut into virtual stages, numbered as its layers are. A stage has some of them: its chunks. */
#ifndef SC_PREDICT_SCHEDULE_H
#define SC_PREDICT_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/config/config.h"

/* Backward either computes both gradients in one pass, or that of the input, which the stage before waits
 * for, and that of the weights in passes of their own. */
enum sc_pass_kind {
	SC_PASS_FORWARD,
	SC_PASS_BACKWARD,
	SC_PASS_BACKWARD_INPUT,
	SC_PASS_BACKWARD_WEIGHT,
	SC_N_PASS_KINDS
};
struct sc_slot {
	uint32_t micro_batch;
	uint32_t virtual_stage;
	uint16_t chunk; /* of the stage */
	uint8_t kind;   /* enum sc_pass_kind */
};
struct sc_schedule_shape {
	enum sc_schedule kind;
	uint32_t pp, virtual_stages, micro_batches; /* virtual_stages: chunks of a stage */
};

/* Slots of a stage. */
static inline uint32_t sc_schedule_n_slots(const struct sc_schedule_shape *shape)
{
	return 2 * shape->micro_batches * shape->virtual_stages;
}
static inline uint32_t sc_virtual_stage(const struct sc_schedule_shape *shape, uint32_t stage,
					uint32_t chunk)
{
	return chunk * shape->pp + stage;
}
/* The model's first layers, with the embedding; its last, with the head. */
static inline bool sc_virtual_stage_is_first(uint32_t virtual_stage)
{
	return virtual_stage == 0;
}
static inline bool sc_virtual_stage_is_last(const struct sc_schedule_shape *shape,
					    uint32_t virtual_stage)
{
	return virtual_stage + 1 == shape->pp * shape->virtual_stages;
}
static inline bool sc_pass_is_backward(enum sc_pass_kind kind)
{
	return kind != SC_PASS_FORWARD;
}
struct sc_schedule_shape sc_schedule_shape_of(const struct sc_parallel *parallel,
					      uint32_t micro_batches);

/* Writes sc_schedule_n_slots() slots. GPipe: all forward, then all backward; 1F1B: Narayanan
 * et al., SC21 §2.2.1; interleaved: §2.2.2, with groups larger than pp where pp does not divide the
 * micro-batches. */
void sc_schedule_stage(const struct sc_schedule_shape *shape, uint32_t stage,
		       struct sc_slot *slots);

/* The slot on another stage that this one's output goes to, or (incoming) whose output it waits for. */
struct sc_slot_peer {
	bool is_next; /* it is on the next stage (of the last: on the first), else on the one before */
	uint32_t chunk;
};
/* False where there is none: at the model's ends, with one stage, for gradients of weights. */
bool sc_slot_peer(const struct sc_schedule_shape *shape, const struct sc_slot *slot, bool incoming,
		  struct sc_slot_peer *out);

/* Forward passes whose activations a stage holds at its peak. */
uint32_t sc_schedule_in_flight(const struct sc_schedule_shape *shape, uint32_t stage);
/* Slots before a stage alternates one forward, one backward, where micro-batches are many; and the
 * micro-batches after which the alternation repeats. */
uint32_t sc_schedule_warmup(const struct sc_schedule_shape *shape, uint32_t stage);
uint32_t sc_schedule_period(const struct sc_schedule_shape *shape);

#endif
