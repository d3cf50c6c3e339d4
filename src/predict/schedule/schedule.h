/* Pipeline schedules as data: in which order a stage runs its passes, on which part of the model each
 * works, whose output it waits for, and how much is in flight. All that depends on the order of passes
 * reads it here.
 *
 * The model is cut into virtual stages, numbered as its layers are. A stage has some of them: its chunks.
 * Where pipelines run in several directions at once there are replicas of the model, each on all stages;
 * a micro-batch goes through one of them. */
#ifndef SC_PREDICT_SCHEDULE_H
#define SC_PREDICT_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
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
	bool paired;    /* runs beside the next slot, which hides its communication */
	bool last;      /* the chunk's gradients of weights are complete after it */
};
/* What greedy schedules are made for; in any unit. `kept`: the share of what a forward pass leaves in memory
 * that still is there after the backward of the input. */
struct sc_pass_times {
	double forward, input, weight, send, kept;
};
struct sc_schedule_shape {
	enum sc_schedule kind;
	uint32_t pp, virtual_stages, micro_batches; /* virtual_stages: of a replica, on a stage */
	uint32_t left_out;          /* micro-batches of the steady state beside those */
	uint32_t replicas;          /* 0 is 1 */
	uint32_t delay;             /* micro-batches between forward and backward */
	uint32_t period;            /* of sc_schedule_find_period, if it was asked for */
	struct sc_pass_times times; /* of a chunk; all zero: 1, 1, 1, 0 and 1 */
	const struct sc_pass_times *stage_times; /* of each stage; NULL: all are alike */
	const struct sc_schedule_file *file;     /* of SC_SCHED_FILE */
	struct sc_schedule_way
		*way; /* for shapes that may ask the same one after another; or NULL */
};
/* The way to take passes that was found best, and of which shape with all its micro-batches; zeroed before the first. */
struct sc_schedule_way {
	struct sc_schedule_shape of;
	uint32_t index;
};
struct sc_schedule_shape sc_schedule_shape_of(const struct sc_parallel *parallel,
					      uint32_t micro_batches);

/* Where the virtual stages are. */
struct sc_stage_place {
	uint32_t stage, chunk;
};
struct sc_stage_map {
	uint32_t pp, n_chunks, depth, replicas; /* depth: virtual stages of a replica */
	uint32_t *virtual_stage;                /* [stage * n_chunks + chunk] */
	struct sc_stage_place *place;           /* [replica * depth + virtual stage] */
};
void sc_stage_map_init(const struct sc_schedule_shape *shape, struct sc_arena *arena,
		       struct sc_stage_map *out);
static inline uint32_t sc_virtual_stage(const struct sc_stage_map *map, uint32_t stage,
					uint32_t chunk)
{
	return map->virtual_stage[stage * map->n_chunks + chunk];
}
static inline bool sc_pass_is_backward(enum sc_pass_kind kind)
{
	return kind != SC_PASS_FORWARD;
}
/* It leaves gradients of weights. */
static inline bool sc_pass_makes_gradients(enum sc_pass_kind kind)
{
	return kind == SC_PASS_BACKWARD || kind == SC_PASS_BACKWARD_WEIGHT;
}

/* The slots of every stage, in order. */
struct sc_passes {
	const struct sc_stage_map *map;
	uint32_t micro_batches, left_out, n_phases, stride;
	uint32_t *n; /* of each stage; its first is at stage * stride */
	struct sc_slot *slots;
};
/* The shape is one that sc_schedule_refuses has nothing against. */
void sc_passes_build(const struct sc_schedule_shape *shape, const struct sc_stage_map *map,
		     struct sc_arena *arena, struct sc_passes *out);
static inline const struct sc_slot *sc_passes_of(const struct sc_passes *passes, uint32_t stage)
{
	return passes->slots + (size_t)stage * passes->stride;
}
/* On the same stages in the same order. */
bool sc_passes_are_equal(const struct sc_passes *a, const struct sc_passes *b);
struct sc_schedule_traits {
	bool splits; /* some passes compute gradients of inputs alone */
	bool pairs; /* stages run some passes in pairs, a forward one beside a backward one of another chunk */
	/* Stages run a loop: each has later virtual stages than the one before, and the last is followed by the first. */
	bool loops;
	bool is_timed; /* the order of passes depends on their times */
	bool is_found; /* passes are taken as they come, one after another by their times */
};
struct sc_schedule_traits sc_schedule_traits(enum sc_schedule kind);

/* The place of the pass that this one's output goes to, or (incoming) whose output it waits for; its virtual
 * stage. False where there is none: at the model's ends, for gradients of weights. The forward pass of the
 * model's last layers is followed by their backward in the same place, and that is not said here. */
bool sc_slot_peer(const struct sc_stage_map *map, const struct sc_slot *slot, bool incoming,
		  struct sc_stage_place *out);

/* The micro-batches after which a schedule repeats itself, and how many of them are the fewest from which a
 * longer run can be told; period 0: it does not repeat. */
uint32_t sc_schedule_period(const struct sc_schedule_shape *shape);
/* The period of an order that depends on times, told from that of 5 pp micro-batches; 0: none is found. */
uint32_t sc_schedule_find_period(const struct sc_schedule_shape *shape,
				 const struct sc_stage_map *map, struct sc_arena *arena);
uint32_t sc_schedule_warmup(const struct sc_schedule_shape *shape);
/* Activations of so many chunks a stage holds at its peak, where a backward of the input leaves `kept` of
 * them. */
double sc_passes_peak(const struct sc_passes *passes, uint32_t stage, double kept);

/* ---- a schedule that ran: when each pass did, what stages waited, what they held ---- */

/* What a stage holds, in any unit: before its passes; what a forward pass of a chunk adds; the share of it that is
 * left after the backward of the input. */
struct sc_stage_held {
	double before, each, kept;
};
struct sc_schedule_play {
	const struct sc_passes *passes;
	double *start, *end;        /* of each slot, [stage * stride + i] */
	struct sc_stage_held *held; /* by stage */
	const char *time_unit, *held_unit;
	/* of sc_schedule_measure */
	double makespan;
	/* The longest stage from its first pass to its last; and the share of it that stages, on average, have no
	 * work. */
	double longest, bubble_pct;
	double *peak, *after; /* held at most, by stage; and after each slot, as `start` */
};
/* An order alone: each pass as soon as its stage is free and its inputs are there. */
struct sc_passes_ran {
	uint32_t *n; /* by stage: slots that ran; where there are more, the next waits for ever */
	double *done
		[2]; /* end of forward and backward passes, [micro-batch * depth + virtual stage]; negative: none */
	double *start, *end;      /* of each slot, [stage * stride + i] */
	double makespan, longest; /* longest: stage, from its first pass to its last */
};
/* `times`: of each stage's passes, over its chunks; one send, the first's. Paired passes begin and end together, and
 * are said to run one after the other. Results are in `arena`. */
void sc_passes_run(const struct sc_passes *passes, const struct sc_pass_times *times,
		   struct sc_arena *arena, struct sc_passes_ran *out);

/* From the slots' times and what stages hold; `peak` and `after` in `arena`. */
void sc_schedule_measure(struct sc_schedule_play *play, struct sc_arena *arena);

#endif
