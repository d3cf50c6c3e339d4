/* A step of a job while its graph is built. */
#ifndef SC_PREDICT_BUILD_JOB_PRIV_H
#define SC_PREDICT_BUILD_JOB_PRIV_H

#include "trace/graph/build_job.h"

/* Operations of one worker and type in a step. */
struct job_ops {
	uint32_t first, n;
};
struct job_builder {
	const struct sc_job *job;
	const struct sc_job_op *ops; /* of the step */
	struct sc_job_graph *out;
	struct sc_graph *graph;
	struct job_ops *runs; /* [worker][type] */
	uint32_t *group_base; /* [type][slot]: first group; the k-th operation has the k-th */
	uint32_t *n_groups;   /* [type][slot] */
};

/* A walk over a worker's sends or receives with the computation each belongs to. Where the trace has them
 * for all computations, those of the model's ends moved nothing; the very first may be missing. */
struct job_walk {
	const struct job_builder *b;
	const struct job_ops *run, *compute;
	int type;
	bool all;             /* every computation has one */
	uint32_t i, c;        /* next operation, next computation */
	uint32_t op, matched; /* of this step of the walk */
	bool moves;
};

struct job_ops *sc_job_ops_of(const struct job_builder *b, uint32_t worker, int type);
bool sc_job_is_recv(int type);
/* The computations that a type of send or receive belongs to. */
const struct job_ops *sc_job_compute_of(const struct job_builder *b, uint32_t worker, int type);
struct job_walk sc_job_walk_begin(const struct job_builder *b, uint32_t worker, int type);
bool sc_job_walk_next(struct job_walk *walk);
/* Groups of the graph, and which one each operation is of. */
void sc_job_add_groups(struct job_builder *b);

#endif
