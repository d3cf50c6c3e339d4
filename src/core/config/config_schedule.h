/* Pipeline schedules as a config names them. */
#pragma once

#include "core/config/config.h"

extern const struct sc_name sc_schedule_names[];
/* Copies of the model that micro-batches go through, each on all stages. */
int64_t sc_schedule_replicas(const struct sc_parallel *par);
/* Chunks of a stage in each copy; 0: as parallel.virtual_stages, parallel.waves or the file say. */
int64_t sc_schedule_chunks(enum sc_schedule kind);
/* The versions of the weights, each of a batch in flight: 2 where a pipeline never drains. */
static inline int64_t sc_schedule_versions(const struct sc_parallel *par)
{
	return par->schedule == SC_SCHED_PIPEDREAM_2BW ? 2 : 1;
}

/* Stages that the vocabulary layers are split over: 1 or pp. */
static inline int64_t sc_vocab_shares(const struct sc_parallel *par)
{
	return par->vocab_stages > SC_VOCAB_STAGES_NONE ? par->pp : 1;
}

/* A stage steps before it knows of other stages' gradients (Qi et al., Zero Bubble Pipeline
 * Parallelism, ICLR 2024, §4): parallel.optimizer_validation, else as the authors do. */
bool sc_schedule_validates_after(const struct sc_parallel *par, enum sc_schedule kind);
/* True, and why, if the schedule cannot run these micro-batches on these stages. */
bool sc_schedule_refuses(const struct sc_parallel *par, int64_t micro_batches, char *buf,
			 size_t n_buf);
