/* A training job as its workers' timelines of operations tell it: who did what when, step by step. A worker
 * is one rank of a data-parallel replica and pipeline stage; its tensor-parallel mates do the same. */
#ifndef SC_PREDICT_JOB_H
#define SC_PREDICT_JOB_H

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "core/graph/cost.h"
#include "core/graph/graph.h"
#include "trace/format/trace_file.h"
#include "trace/graph/replay_select.h"

/* In this order within a worker. */
enum sc_job_type {
	SC_JOB_FORWARD,
	SC_JOB_BACKWARD,
	SC_JOB_GC,
	SC_JOB_LAYERNORM,
	SC_JOB_EMBEDDING,
	SC_JOB_SEPARATE, /* all-reduce of gradients that overlap left over */
	SC_JOB_CLIP,
	SC_JOB_OPTIMIZER,
	SC_JOB_FORWARD_SEND,
	SC_JOB_FORWARD_RECV,
	SC_JOB_BACKWARD_SEND,
	SC_JOB_BACKWARD_RECV,
	SC_JOB_GATHER,  /* of parameters */
	SC_JOB_SCATTER, /* of gradients, reduced */
	SC_N_JOB_TYPES
};
/* Who takes part in it. */
enum sc_job_span {
	SC_SPAN_SELF,  /* or mates that were not recorded */
	SC_SPAN_PAIR,  /* sender and receiver */
	SC_SPAN_STAGE, /* the replicas of a stage */
	SC_SPAN_ENDS,  /* first and last stage of a replica */
	SC_SPAN_ALL
};
struct sc_job_type_info {
	const char *name; /* as in the trace */
	enum sc_replay_kind kind;
	enum sc_job_span span;
	enum sc_owner owner;
	bool by_mean; /* its typical time is the mean, else the median */
};
extern const struct sc_job_type_info sc_job_types[SC_N_JOB_TYPES];

struct sc_job_worker {
	int32_t rank, dp_rank, stage;
};
struct sc_job_op {
	int64_t start_ns, end_ns; /* from the begin of the step */
	uint32_t worker;          /* index */
	int32_t seq, chunk, micro_batch;
	uint8_t type; /* enum sc_job_type */
};
struct sc_job_step {
	int64_t id;
	size_t first_op, n_ops;
	double measured_us; /* from the first start to the last end */
};
struct sc_job {
	SC_VEC(struct sc_job_worker) workers; /* by stage, then data-parallel rank */
	SC_VEC(struct sc_job_op) ops;         /* by step, worker, type, seq */
	SC_VEC(struct sc_job_step) steps;     /* by id */
	uint32_t n_dp, n_stages, n_chunks;
	int64_t n_unknown; /* events whose operation is not known */
	bool overlaps;     /* gradients are reduced while others are computed */
};
void sc_job_release(struct sc_job *job);
/* Of the JOB_OP events; SC_EVALUE where a worker or step is not whole enough to replay. */
int sc_job_from_trace(const struct sc_trace *trace, struct sc_job *out, struct sc_err *err);

#endif
