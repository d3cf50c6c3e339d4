/* Pipeline schedules as data: the order in which a stage runs its passes, the part of the model
 * that each works on, whose output it waits for, and how much is in flight. All that depends on the
 * order of passes reads it here.
 *
 * The model is cut into virtual stages, numbered as its layers are. A stage has some of them: its
 * chunks. Where pipelines run in several directions at once there are replicas of the model, each
 * on all stages; a micro-batch goes through one of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "core/config/config.h"

/* Backward computes both gradients in one pass, or the input's, which the stage before waits for,
 * and the weights' in passes of their own. */
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
	uint16_t chunk; /* within the stage */
	uint8_t kind;   /* enum sc_pass_kind */
	bool paired;    /* runs beside the next slot, which hides its communication */
	bool last;      /* the chunk's gradients of weights are complete after it */
};
/* The times for which greedy schedules are made, in any unit. `kept` is the share of what a forward
 * pass leaves in memory that is still there after the backward of the input. */
struct sc_pass_times {
	double forward, input, weight, send, kept;
};
struct sc_schedule_shape {
	enum sc_schedule kind;
	uint32_t pp, virtual_stages, micro_batches; /* virtual_stages: a replica's on a stage */
	uint32_t left_out;          /* micro-batches of the steady state that are not run */
	uint32_t replicas;          /* 0 is 1 */
	uint32_t delay;             /* micro-batches between forward and backward */
	uint32_t period;            /* the result of sc_schedule_find_period, if asked */
	struct sc_pass_times times; /* a chunk's; all zero: 1, 1, 1, 0 and 1 */
	const struct sc_pass_times *stage_times; /* by stage; NULL: all are alike */
	const struct sc_schedule_file *file;     /* where SC_SCHED_FILE */
	struct sc_schedule_way
		*way; /* for shapes that may ask the same one after another; or NULL */
};
/* The way to take passes found best, and the whole shape it is for; zeroed before the first. */
struct sc_schedule_way {
	struct sc_schedule_shape of;
	uint32_t index;
};
struct sc_schedule_shape sc_schedule_shape_of(const struct sc_parallel *parallel,
					      uint32_t micro_batches);

/* The place of a virtual stage. */
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
/* Says whether the pass leaves gradients of weights. */
static inline bool sc_pass_makes_gradients(enum sc_pass_kind kind)
{
	return kind == SC_PASS_BACKWARD || kind == SC_PASS_BACKWARD_WEIGHT;
}

/* The slots of every stage, in order. */
struct sc_passes {
	const struct sc_stage_map *map;
	uint32_t micro_batches, left_out, n_phases, stride;
	uint32_t *n; /* by stage; its first is at stage * stride */
	struct sc_slot *slots;
};
/* Builds the passes of a shape that sc_schedule_refuses has nothing against. */
void sc_passes_build(const struct sc_schedule_shape *shape, const struct sc_stage_map *map,
		     struct sc_arena *arena, struct sc_passes *out);
static inline const struct sc_slot *sc_passes_of(const struct sc_passes *passes, uint32_t stage)
{
	return passes->slots + (size_t)stage * passes->stride;
}
/* Says whether both have the same passes on the same stages in the same order. */
bool sc_passes_are_equal(const struct sc_passes *a, const struct sc_passes *b);
struct sc_schedule_traits {
	bool splits; /* some passes compute gradients of inputs alone */
	bool pairs;  /* some passes run beside one of the other direction and another chunk */
	/* Stages have later virtual stages than those before, and the first follows the last. */
	bool loops;
	bool is_timed; /* the order of passes depends on their times */
	bool is_found; /* passes are taken as they come, one after another by their times */
};
struct sc_schedule_traits sc_schedule_traits(enum sc_schedule kind);

/* Finds the place of the pass that this one's output goes to, or (incoming) whose output it waits
 * for. It returns false where there is none: at the model's ends, for gradients of weights. The
 * forward pass of the model's last layers is followed by their backward in the same place, and that
 * is not said here. */
bool sc_slot_peer(const struct sc_stage_map *map, const struct sc_slot *slot, bool incoming,
		  struct sc_stage_place *out);

/* Returns after how many micro-batches a schedule repeats itself; 0: it does not.
 * sc_schedule_warmup returns the fewest from which a longer run can be told. */
uint32_t sc_schedule_period(const struct sc_schedule_shape *shape);
/* Finds the period of an order that depends on times, from 5 pp micro-batches; 0: none is found. */
uint32_t sc_schedule_find_period(const struct sc_schedule_shape *shape,
				 const struct sc_stage_map *map, struct sc_arena *arena);
uint32_t sc_schedule_warmup(const struct sc_schedule_shape *shape);
/* Returns the chunks' activations that a stage holds at its peak, where a backward of the input
 * leaves `kept`. */
double sc_passes_peak(const struct sc_passes *passes, uint32_t stage, double kept);

/* ---- a schedule that ran: the passes' times, what stages waited, what they held ---- */

/* The holdings of a stage, in any unit: before its passes; more for each forward pass of a chunk;
 * and the share of that which is left after the backward of the input. */
struct sc_stage_held {
	double before, each, kept;
};
struct sc_schedule_play {
	const struct sc_passes *passes;
	double *start, *end;        /* by slot, [stage * stride + i] */
	struct sc_stage_held *held; /* by stage */
	const char *time_unit, *held_unit;
	/* Set by sc_schedule_measure. */
	double makespan;
	/* The longest stage from first pass to last, and the mean share of idle stages. */
	double longest, bubble_pct;
	double *peak, *after; /* the most held, by stage; and held after each slot, as `start` */
};
/* An order alone: each pass begins once its stage is free and its inputs are there. */
struct sc_passes_ran {
	uint32_t *n;         /* slots that ran, by stage; a next one waits for ever */
	double *done[2];     /* by pass, [micro-batch * depth + virtual stage]; negative: none */
	double *start, *end; /* by slot, [stage * stride + i] */
	double makespan, longest; /* longest: a stage from its first pass to its last */
};
/* Runs passes by each stage's `times`, over its chunks, and the first one's send. Paired passes
 * begin and end together, and are said to run one after the other. Results are in `arena`. */
void sc_passes_run(const struct sc_passes *passes, const struct sc_pass_times *times,
		   struct sc_arena *arena, struct sc_passes_ran *out);

/* Fills in the rest from slots' times and what stages hold; `peak` and `after` are in `arena`. */
void sc_schedule_measure(struct sc_schedule_play *play, struct sc_arena *arena);
