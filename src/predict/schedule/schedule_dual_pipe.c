/* DualPipe (DeepSeek-V3, arXiv:2412.19437, §3.2.1; deepseek-ai/DualPipe, dualpipe.py):
 * micro-batches enter at both ends, and a forward pass of one direction runs beside a backward pass
 * of the other. DualPipeV (the same repository, dualpipev.py) is its first half, with a model
 * folded into a V in the place of two replicas. */
#include "predict/schedule/schedule_priv.h"

struct dual {
	const struct slot_writer *w;
	uint32_t stage, second; /* its half has the directions swapped */
	uint32_t n_forward[2], n_backward[2];
	uint32_t *later; /* weight gradients to come: chunk | micro-batch << 1, oldest first */
	uint32_t n_later, n_done;
};

static struct slot_id dual_nth(const struct dual *d, uint32_t chunk, uint32_t n)
{
	uint32_t replicas = d->w->map->replicas;

	return (struct slot_id){d->stage, chunk, n * replicas + (replicas > 1 ? chunk : 0)};
}

static void dual_forward(struct dual *d, uint32_t phase)
{
	uint32_t chunk = phase ^ d->second;

	put_slot(d->w, SC_PASS_FORWARD, dual_nth(d, chunk, d->n_forward[chunk]++));
}

static void dual_backward(struct dual *d, uint32_t phase, bool split)
{
	uint32_t chunk = phase ^ d->second, n = d->n_backward[chunk]++;

	put_slot(d->w, split ? SC_PASS_BACKWARD_INPUT : SC_PASS_BACKWARD, dual_nth(d, chunk, n));
	if (split)
		d->later[d->n_later++] = chunk | n << 1;
}

static void dual_both(struct dual *d, uint32_t forward_phase)
{
	struct sc_passes *out = d->w->out;

	dual_forward(d, forward_phase);
	out->slots[(size_t)d->stage * out->stride + out->n[d->stage] - 1].paired = true;
	dual_backward(d, !forward_phase, false);
}

static void dual_weight(struct dual *d)
{
	uint32_t id = d->later[d->n_done++];

	put_slot(d->w, SC_PASS_BACKWARD_WEIGHT, dual_nth(d, id & 1, id >> 1));
}

/* Steps 5 to 8 drain the rest of backward, the last of it split. */
static void dual_drain(struct dual *d, uint32_t half, uint32_t rank)
{
	bool split = false;

	for (uint32_t i = 0; i < half; i++) {
		dual_backward(d, 1, false);
		dual_both(d, 1);
	}
	for (uint32_t i = 0; i <= rank; i++) {
		split = split || (i == (rank + 1) / 2 && rank % 2 == 1);
		dual_backward(d, 1, split);
		split = split || (i == (rank + 1) / 2 && rank % 2 == 0);
		dual_backward(d, 0, split);
	}
	for (uint32_t i = 0; i < half; i++) {
		dual_weight(d);
		dual_backward(d, 0, true);
	}
	while (d->n_done < d->n_later)
		dual_weight(d);
}

void write_dual_pipe(const struct slot_writer *w)
{
	uint32_t replicas = w->map->replicas;

	for (uint32_t stage = 0; stage < w->map->pp; stage++) {
		struct dual d = {
			.w = w, .stage = stage, .second = replicas > 1 && stage >= w->map->pp / 2};

		d.later = sc_arena_calloc(w->arena, 2 * (size_t)w->shape->micro_batches + 1,
					  sizeof(*d.later));
		/* `half` and `rank` are of one direction, to the fold; the innermost stage's first
		 * pair runs apart. */
		const uint32_t stages = w->map->pp / replicas;
		uint32_t rank = d.second ? d.w->map->pp - 1 - d.stage : d.stage;
		uint32_t half = stages - 1 - rank,
			 n_main = (w->shape->micro_batches / replicas) - 2 * stages + rank + 1;

		for (uint32_t i = 0; i < 2 * half; i++)
			dual_forward(&d, 0);
		for (uint32_t i = 0; i <= rank; i++) {
			dual_forward(&d, 0);
			dual_forward(&d, 1);
		}
		for (uint32_t i = 0; i < half; i++) {
			dual_backward(&d, 1, true);
			dual_weight(&d);
			dual_forward(&d, 1);
		}
		for (uint32_t i = 0; i < n_main; i++) {
			if (i == 0 && half == 0) {
				dual_forward(&d, 0);
				dual_backward(&d, 1, false);
			} else {
				dual_both(&d, 0);
			}
			dual_both(&d, 1);
		}
		dual_drain(&d, half, rank);
	}
}
