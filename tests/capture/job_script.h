/* A training job that never was: two data-parallel replicas of a pipeline of two stages, each split
 * over two tensor-parallel ranks, or one rank alone whose host runs far ahead of its GPU. What each
 * rank's host calls and what its device does, and when, by a simulator of its own: longest paths by
 * relaxation. Times are microseconds from the job's start; every run gives the same. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { JOB_N_TP = 2, JOB_N_DP = 2, JOB_N_PP = 2, JOB_MAX_RANKS = 8, JOB_QUEUE_DEPTH = 1021 };
enum { JOB_TP, JOB_DP, JOB_PP, JOB_WORLD, JOB_N_COMMS }; /* communicators of a rank */
enum { JOB_STREAM_COMPUTE = 7, JOB_STREAM_OF_COMM = 20 /* and so on */, JOB_N_STREAMS = 24 };

enum job_op_kind {
	JOB_PUSH, /* the range "iteration" */
	JOB_POP,
	JOB_LAUNCH,
	JOB_COPY,
	JOB_RECORD, /* an event on `stream` */
	JOB_WAIT,   /* `stream` waits for the record `awaited` */
	JOB_SYNC    /* the host waits for `stream` */
};
struct job_kernel {
	const char *name; /* as compiled */
	double us;
	int32_t blocks, threads;
};
struct job_op {
	enum job_op_kind kind;
	int thread; /* 0: forward and the optimizer; 1: backward */
	int stream;
	const struct job_kernel *kernel;
	int comm;   /* JOB_TP …; -1 for what does not communicate */
	int number; /* of the call in its communicator */
	const char *collective;
	int64_t bytes; /* of a collective or a copy; of an exchange, what is sent */
	int64_t received_bytes;
	int awaited;
	const struct job_op *peers[JOB_MAX_RANKS]; /* the same call on other ranks, up to a NULL */
	double work_us, pause_us;                  /* on the device; on the host before the call */
	double call_us, return_us, start_us, end_us;
};
struct job_rank {
	struct job_op *ops;
	int n_ops, n_room;
	int members[JOB_N_COMMS][JOB_MAX_RANKS];
	int n_members[JOB_N_COMMS], n_calls[JOB_N_COMMS];
};
struct job_shape {
	int n_ranks; /* 8, or 1: the one with the full queue */
	int n_iterations;
	int straggler;  /* its kernels take longer; -1 = none */
	int kernel_pct; /* of their time that kernels take, but collectives; 100 = as they are */
	int no_overlap; /* of gradients' reduction with backward */
};
struct job {
	struct job_shape shape;
	struct job_rank ranks[JOB_MAX_RANKS];
};
void job_make(struct job *job, const struct job_shape *shape);
uint64_t job_comm_hash(const struct job *job, int rank, int comm);
/* From the beginning of an iteration's range to its end. */
double job_iteration_us(const struct job *job, int rank, int iteration);
/* How many launches found the queue full. */
int job_held_back(const struct job *job, int rank);
void job_release(struct job *job);
