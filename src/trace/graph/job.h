/* A training job as its workers' timelines of operations tell it: who did what when, step by step.
 * It becomes a run like those of GPU streams. A rank is one worker, of a data-parallel replica and
 * pipeline stage; its tensor-parallel mates do the same. A step is an iteration: its first call
 * starts all operations, its last one waits for them.
 *
 * Streams of a worker: computation with what ends the step; each direction of sending and
 * receiving; collectives over replicas. What waits for what:
 * - a computation for what its chunk received; a send for its computation; a receive for the
 * computation before (one receive is posted ahead); operations that start at the same instant are
 * one batched call, and all wait for what any of them sends;
 * - the first forward of a chunk for its parameters; gradients of a chunk, where they overlap, for
 * its last backward, else after the last computation; then norms, embedding, clipping, optimizer in
 * turn. After the dependency model of ByteDance-Seed/StragglerAnalysis
 * (analyzer/dependency_model.py), batched calls excepted. Collectives and pairs are instances: the
 * transfer is the time from the last arrival to the first end, so that it never has waiting in it.
 * What is left before an operation is its gap. */
#pragma once

#include "trace/graph/build_trace.h"

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
	int collective;   /* enum sc_collective; -1: no communication */
	enum sc_job_span span;
	enum sc_owner owner;
	uint16_t lane; /* operations of one do not overlap */
};
extern const struct sc_job_type_info sc_job_types[SC_N_JOB_TYPES];

/* Makes a run of the JOB_OP events; SC_EVALUE where a worker is not there. Release with
 * sc_trace_run_release. */
int sc_trace_run_of_job(const struct sc_trace *trace, struct sc_trace_run *out, struct sc_err *err);
