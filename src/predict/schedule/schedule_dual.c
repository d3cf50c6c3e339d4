/* DualPipe (DeepSeek-V3, arXiv:2412.19437, §3.2.1; deepseek-ai/DualPipe, dualpipe.py): micro-batches enter at
 * both ends, and a forward pass of one direction runs beside a backward pass of the other. DualPipeV (the same
 * repository, dualpipev.py) is its first half, with a model folded into a V in the place of two replicas. */
#include "predict/schedule/schedule_priv.h"

struct dual {
	const struct slot_writer *w;
	uint32_t stage, second; /* the second half of the stages has the directions swapped */
	uint32_t n_forward[2], n_backward[2];
	uint32_t *later; /* weight gradients to come: chunk | micro-batch << 1, oldest first */
	uint32_t n_later, n_done;
};

static struct slot_id nth(const struct dual *d, uint32_t chunk, uint32_t n)
{
	uint32_t replicas = d->w->map->replicas;

	return (struct slot_id){d->stage, chunk, n * replicas + (replicas > 1 ? chunk : 0)};
}

static void forward(struct dual *d, uint32_t phase)
{
	uint32_t chunk = phase ^ d->second;

	put_slot(d->w, SC_PASS_FORWARD, nth(d, chunk, d->n_forward[chunk]++));
}

static void backward(struct dual *d, uint32_t phase, bool split)
{
	uint32_t chunk = phase ^ d->second, n = d->n_backward[chunk]++;

	put_slot(d->w, split ? SC_PASS_BACKWARD_INPUT : SC_PASS_BACKWARD, nth(d, chunk, n));
	if (split)
		d->later[d->n_later++] = chunk | n << 1;
}

static void both(struct dual *d, uint32_t forward_phase)
{
	struct sc_passes *out = d->w->out;

	forward(d, forward_phase);
	out->slots[(size_t)d->stage * out->stride + out->n[d->stage] - 1].paired = true;
	backward(d, !forward_phase, false);
}

static void weight(struct dual *d)
{
	uint32_t id = d->later[d->n_done++];

	put_slot(d->w, SC_PASS_BACKWARD_WEIGHT, nth(d, id & 1, id >> 1));
}

static void fill(struct dual *d, uint32_t half)
{
	for (uint32_t i = 0; i < 2 * half; i++)
		forward(d, 0);
}

/* Steps 5 to 8: what is left of backward, the last of it split. */
static void drain(struct dual *d, uint32_t half, uint32_t rank)
{
	bool split = false;

	for (uint32_t i = 0; i < half; i++) {
		backward(d, 1, false);
		both(d, 1);
	}
	for (uint32_t i = 0; i <= rank; i++) {
		split = split || (i == (rank + 1) / 2 && rank % 2 == 1);
		backward(d, 1, split);
		split = split || (i == (rank + 1) / 2 && rank % 2 == 0);
		backward(d, 0, split);
	}
	for (uint32_t i = 0; i < half; i++) {
		weight(d);
		backward(d, 0, true);
	}
	while (d->n_done < d->n_later)
		weight(d);
}

/* `stages`: of a direction to the fold. The first pair of the innermost stage does not run together. */
static void write_stage(struct dual *d, uint32_t stages, uint32_t micro_batches)
{
	uint32_t rank = d->second ? d->w->map->pp - 1 - d->stage : d->stage;
	uint32_t half = stages - 1 - rank, n_main = micro_batches - 2 * stages + rank + 1;

	fill(d, half);
	for (uint32_t i = 0; i <= rank; i++) {
		forward(d, 0);
		forward(d, 1);
	}
	for (uint32_t i = 0; i < half; i++) {
		backward(d, 1, true);
		weight(d);
		forward(d, 1);
	}
	for (uint32_t i = 0; i < n_main; i++) {
		if (i == 0 && half == 0) {
			forward(d, 0);
			backward(d, 1, false);
		} else {
			both(d, 0);
		}
		both(d, 1);
	}
	drain(d, half, rank);
}

void write_dual_pipe(const struct slot_writer *w)
{
	uint32_t replicas = w->map->replicas;

	for (uint32_t stage = 0; stage < w->map->pp; stage++) {
		struct dual d = {
			.w = w, .stage = stage, .second = replicas > 1 && stage >= w->map->pp / 2};

		d.later = sc_arena_calloc(w->arena, 2 * (size_t)w->shape->micro_batches + 1,
					  sizeof(*d.later));
		write_stage(&d, w->map->pp / replicas, w->shape->micro_batches / replicas);
	}
}
