/* The execution graph of one step of a job. Streams of a worker: computation with what ends the step; each
 * direction of sending and receiving; collectives over replicas. What waits for what:
 * - a computation for what its chunk received; a send for its computation; a receive for the computation
 *   before (one receive is posted ahead); operations that start at the same instant are one batched call,
 *   and all wait for what any of them sends;
 * - the first forward of a chunk for its parameters; gradients of a chunk, where they overlap, for its last
 *   backward, else after the last computation; then norms, embedding, clipping, optimizer in turn.
 * After the dependency model of ByteDance-Seed/StragglerAnalysis (analyzer/dependency_model.py), batched
 * calls excepted. Collectives and pairs are groups: the transfer is the time from the last arrival to the
 * first end, so that it never has waiting in it. What is left before an operation is its launch gap. */
#ifndef SC_PREDICT_BUILD_JOB_H
#define SC_PREDICT_BUILD_JOB_H

#include "core/graph/graph.h"
#include "trace/graph/job.h"

struct sc_job_graph {
	struct sc_graph
		graph; /* classes are workers; node.op is the operation's index in the step */
	size_t n_ops, cap;
	/* Of each operation: */
	uint32_t *node;
	uint32_t *group;     /* SC_NONE: none, or its peers are missing */
	double *gap_us;      /* as measured; never negative */
	double *work_us;     /* as measured; of a group's members the transfer */
	uint32_t n_unpaired; /* sends and receives without the other side */
};
void sc_job_graph_release(struct sc_job_graph *out);
/* Costs are those measured. The graph is sealed. Memory is kept for the next step. */
void sc_build_job_step(const struct sc_job *job, size_t step, struct sc_job_graph *out);
/* Other costs, in place; `work_us` is the same for all members of a group. */
void sc_job_graph_set(const struct sc_job *job, size_t step, struct sc_job_graph *graph,
		      const double *gap_us, const double *work_us);

#endif
