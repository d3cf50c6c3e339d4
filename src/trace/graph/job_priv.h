/* Shared by load_job.c (operations in order, steps, the run) and job_rules.c (what the operations
 * of a step are to each other). */
#pragma once

#include "trace/graph/build_trace.h"
#include "trace/graph/job.h"

struct job_op {
	int64_t start_ns, end_ns;
	uint32_t worker, event;
	uint32_t group; /* in its step, or SC_NONE */
	uint32_t act;   /* of its rank */
	int32_t step, seq, chunk;
	uint8_t type; /* enum sc_job_type */
};
/* Operations of one worker and type in a step. */
struct job_ops {
	uint32_t first, n;
};
struct job {
	struct sc_trace_run *run;
	uint32_t n_dp, n_stages, n_workers, n_chunks;
	bool overlaps;             /* gradients are reduced while others are computed */
	SC_VEC(struct job_op) all; /* by step, worker, type, number */
	/* The step at hand: */
	struct job_op *ops;
	uint32_t n_ops;
	struct job_ops *of;           /* [worker][type] */
	uint32_t n_groups;            /* job_find_rules sets them, op.group, and */
	SC_VEC(uint64_t) waits;       /* operation << 32 | one that it waits for; rising */
	uint32_t *first_group, *n_of; /* scratch: [type][worker] */
};
static inline const struct job_ops *job_ops_of(const struct job *job, uint32_t worker, int type)
{
	return &job->of[(size_t)worker * SC_N_JOB_TYPES + (size_t)type];
}

/* Finds which operations of the step are one, and what waits for what. Counts the sends and
 * receives without the other side in the run. */
void job_find_rules(struct job *job);
