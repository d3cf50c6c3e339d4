#include "capture/job_script.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_LAYERS = 2, N_MICRO_BATCHES = 4, N_SHORT = 700 };
#define CALL_US 3.4    /* of a launch on the host */
#define PAUSE_US 2.9   /* of the host between two calls */
#define LATENCY_US 5.2 /* of a launch, on an idle device */
#define WAKE_US 9.0    /* until a host that waited goes on */
#define LOAD_US 240.0  /* of the next batch, before an iteration's first call */
#define SLOWNESS 1.3   /* of the straggler */
#define JITTER 0.03

#define GEMM(tile) "nvjet_tst_" tile "_coopA_TNT"
static const struct job_kernel
	NORM = {"_ZN2at6native28vectorized_layer_norm_kernelIN3c108BFloat16EfEEviT0_PKT_S7_S7_"
		"PS4_S8_PS5_",
		11, 4096, 128},
	NORM_BACKWARD = {"_ZN2at6native28layer_norm_grad_input_kernelIN3c108BFloat16EfEEvPKT_S6_"
			 "PKT0_S9_S6_PS4_i",
			 19, 4096, 128},
	GELU = {"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11GeluFunctorESt5arrayIPc"
		"Lm2EEEEviT0_T1_",
		14, 8192, 128},
	ADD = {"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIN3c10"
	       "8BFloat16EEESt5arrayIPcLm3EEEEviT0_T1_",
	       8, 4096, 128},
	ATTENTION = {"_ZN5flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsEEv16Flash_fwd_params",
		     47, 512, 128},
	ATTENTION_BACKWARD = {"_ZN5flash44flash_bwd_dq_dk_dv_loop_seqk_parallel_kernelI23Flash_"
			      "bwd_kernel_traitsEEv16Flash_bwd_params",
			      118, 256, 256},
	QKV = {GEMM("192x192_64x4_2x1_v_bz"), 58, 132, 384},
	PROJECTION = {GEMM("128x256_64x4_2x1_v_bz"), 21, 132, 384},
	UP = {GEMM("256x128_64x4_1x2_h_bz"), 77, 132, 384},
	DOWN = {GEMM("192x208_64x4_2x1_v_bz"), 75, 132, 384},
	CLIP = {"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_10NormTwoOpsIffEEjLi4E"
		"EEEEvT1_",
		31, 264, 512},
	OPTIMIZER = {"_ZN2at6native25multi_tensor_apply_kernelINS0_32FusedOptimizerTensorListMeta"
		     "dataILi4EEENS0_20FusedAdamMathFunctorIfLi4EEEEEvT_T0_",
		     164, 320, 512},
	SHORT = {"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5array"
		 "IPcLm1EEEEviT0_T1_",
		 17, 2048, 128},
	ALL_REDUCE_TP = {"_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm"
			 "4096EE",
			 36, 16, 544},
	ALL_REDUCE_DP = {"_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm"
			 "4096EE",
			 310, 24, 544},
	ALL_REDUCE_NORM = {"_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageI"
			   "Lm4096EE",
			   22, 2, 544},
	EXCHANGE = {"_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE", 27, 4, 544};

static double random_frac(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (double)(*state >> 40) / (double)(1 << 24);
}

/* ---- what each rank does ---- */

struct maker {
	const struct job_shape *shape;
	struct job_rank *rank;
	uint64_t random;
	double slowness; /* of kernels */
	int thread;
};

static struct job_op *add(struct maker *m, enum job_op_kind kind, int stream)
{
	struct job_rank *r = m->rank;
	struct job_op *op;

	if (r->n_ops == r->n_room) {
		r->n_room = r->n_room ? 2 * r->n_room : 1024;
		r->ops = realloc(r->ops, (size_t)r->n_room * sizeof(*r->ops));
		if (!r->ops)
			abort();
	}
	op = &r->ops[r->n_ops++];
	*op = (struct job_op){.kind = kind,
			      .thread = m->thread,
			      .stream = stream,
			      .comm = -1,
			      .awaited = -1,
			      .pause_us = PAUSE_US * (1 + JITTER * random_frac(&m->random))};
	return op;
}

static void launch(struct maker *m, const struct job_kernel *kernel)
{
	struct job_op *op = add(m, JOB_LAUNCH, JOB_STREAM_COMPUTE);

	op->kernel = kernel;
	op->work_us = kernel->us * m->slowness * (1 + JITTER * random_frac(&m->random));
}

/* `stream` goes on when `from` is done with what it has now. */
static void join(struct maker *m, int stream, int from)
{
	const int record = m->rank->n_ops;

	add(m, JOB_RECORD, from);
	add(m, JOB_WAIT, stream)->awaited = record;
}

static void collective(struct maker *m, int comm, const struct job_kernel *kernel, int64_t bytes)
{
	const int stream = JOB_STREAM_OF_COMM + comm;
	struct job_op *op;

	join(m, stream, JOB_STREAM_COMPUTE);
	op = add(m, JOB_LAUNCH, stream);
	op->kernel = kernel;
	op->comm = comm;
	op->number = m->rank->n_calls[comm]++;
	op->collective = "AllReduce";
	op->bytes = bytes;
	op->work_us = kernel->us;
}

static void tensor_reduce(struct maker *m)
{
	collective(m, JOB_TP, &ALL_REDUCE_TP, 16 << 20);
	join(m, JOB_STREAM_COMPUTE, JOB_STREAM_OF_COMM + JOB_TP);
}

static void exchange(struct maker *m, int64_t sent, int64_t received)
{
	struct job_op *op;

	collective(m, JOB_PP, &EXCHANGE, sent);
	op = &m->rank->ops[m->rank->n_ops - 1];
	op->collective = "SendRecv";
	op->received_bytes = received;
	join(m, JOB_STREAM_COMPUTE, JOB_STREAM_OF_COMM + JOB_PP);
}

static void forward(struct maker *m)
{
	m->thread = 0;
	for (int layer = 0; layer < N_LAYERS; layer++) {
		launch(m, &NORM);
		launch(m, &QKV);
		launch(m, &ATTENTION);
		launch(m, &PROJECTION);
		tensor_reduce(m);
		launch(m, &ADD);
		launch(m, &NORM);
		launch(m, &UP);
		launch(m, &GELU);
		launch(m, &DOWN);
		tensor_reduce(m);
		launch(m, &ADD);
	}
}

/* As soon as those of a layer are whole; the last bucket is the larger one. */
static void reduce_gradients(struct maker *m, int layer)
{
	static const double layers[N_LAYERS] = {1, 1.5};
	const double size = layers[layer];

	collective(m, JOB_DP, &ALL_REDUCE_DP, (int64_t)(size * (96 << 20)));
	m->rank->ops[m->rank->n_ops - 1].work_us *= size;
	if (m->shape->no_overlap)
		join(m, JOB_STREAM_COMPUTE, JOB_STREAM_OF_COMM + JOB_DP);
}

static void backward(struct maker *m, int is_last)
{
	m->thread = 1;
	for (int layer = 0; layer < N_LAYERS; layer++) {
		static const struct job_kernel *const mlp[] = {&DOWN, &DOWN, &GELU, &UP, &UP};
		static const struct job_kernel *const attention[] = {
			&PROJECTION, &PROJECTION, &ATTENTION_BACKWARD, &QKV, &QKV};

		for (int i = 0; i < 5; i++)
			launch(m, mlp[i]);
		tensor_reduce(m);
		launch(m, &NORM_BACKWARD);
		launch(m, &ADD);
		for (int i = 0; i < 5; i++)
			launch(m, attention[i]);
		tensor_reduce(m);
		launch(m, &NORM_BACKWARD);
		launch(m, &ADD);
		if (is_last)
			reduce_gradients(m, layer);
	}
	m->thread = 0;
}

/* One forward, one backward, as Megatron has it: what goes to the other stage and what comes from
 * there are one exchange. */
static void pipeline(struct maker *m, int stage)
{
	const int64_t bytes = 16 << 20;

	if (stage == 0)
		forward(m);
	exchange(m, stage == 0 ? bytes : 0, stage == 0 ? 0 : bytes);
	for (int i = 0; i < N_MICRO_BATCHES; i++) {
		const int is_last = i + 1 == N_MICRO_BATCHES;

		if (stage == 1 || !is_last)
			forward(m);
		if (stage == 1)
			backward(m, is_last);
		exchange(m, stage == 1 || !is_last ? bytes : 0, stage == 0 || !is_last ? bytes : 0);
		if (stage == 0)
			backward(m, is_last);
	}
}

static void copy(struct maker *m, int64_t bytes, double us)
{
	struct job_op *op = add(m, JOB_COPY, JOB_STREAM_COMPUTE);

	op->bytes = bytes;
	op->work_us = us;
}

static void iteration(struct maker *m, int stage)
{
	add(m, JOB_PUSH, 0)->pause_us = LOAD_US * (1 + JITTER * random_frac(&m->random));
	copy(m, 64 << 10, 6);
	pipeline(m, stage);
	join(m, JOB_STREAM_COMPUTE, JOB_STREAM_OF_COMM + JOB_DP);
	launch(m, &CLIP);
	collective(m, JOB_WORLD, &ALL_REDUCE_NORM, 4);
	join(m, JOB_STREAM_COMPUTE, JOB_STREAM_OF_COMM + JOB_WORLD);
	launch(m, &OPTIMIZER);
	launch(m, &OPTIMIZER);
	add(m, JOB_SYNC, JOB_STREAM_COMPUTE);
	add(m, JOB_POP, 0);
}

/* Nothing waits before the end: after a while the queue is full. */
static void run_ahead(struct maker *m, int is_last)
{
	add(m, JOB_PUSH, 0);
	for (int i = 0; i < N_SHORT; i++)
		launch(m, i % 10 ? &SHORT : &UP);
	launch(m, &OPTIMIZER);
	if (is_last)
		add(m, JOB_SYNC, JOB_STREAM_COMPUTE);
	add(m, JOB_POP, 0);
}

/* Tensor-parallel ranks are neighbours, then replicas, then stages. */
static void find_members(struct job_rank *r, int rank)
{
	const int tp = rank % JOB_N_TP, dp = rank / JOB_N_TP % JOB_N_DP;
	const int pp = rank / (JOB_N_TP * JOB_N_DP), stage = JOB_N_TP * JOB_N_DP;

	for (int i = 0; i < 2; i++) {
		r->members[JOB_TP][i] = pp * stage + dp * JOB_N_TP + i;
		r->members[JOB_DP][i] = pp * stage + i * JOB_N_TP + tp;
		r->members[JOB_PP][i] = i * stage + dp * JOB_N_TP + tp;
	}
	for (int c = 0; c < JOB_WORLD; c++)
		r->n_members[c] = 2;
	for (int i = 0; i < JOB_MAX_RANKS; i++)
		r->members[JOB_WORLD][r->n_members[JOB_WORLD]++] = i;
}

static const struct job_op *same_call(const struct job_rank *r, const struct job_op *op)
{
	for (int i = 0; i < r->n_ops; i++)
		if (r->ops[i].comm == op->comm && r->ops[i].number == op->number)
			return &r->ops[i];
	abort();
}

static void find_peers(const struct job *job, int rank)
{
	const struct job_rank *r = &job->ranks[rank];

	for (int i = 0; i < r->n_ops; i++) {
		struct job_op *op = &r->ops[i];
		int n = 0;

		for (int k = 0; op->comm >= 0 && k < r->n_members[op->comm]; k++)
			if (r->members[op->comm][k] != rank)
				op->peers[n++] =
					same_call(&job->ranks[r->members[op->comm][k]], op);
	}
}

/* ---- when it does it ---- */

struct place {
	double host_us, stream_us[JOB_N_STREAMS];
	int launches[JOB_QUEUE_DEPTH]; /* the last ones, around */
	int n_launches;
};

/* A launch that finds the queue full returns when the oldest one in it starts. */
static double queue_free_us(const struct job_rank *r, struct place *at, int op)
{
	int *slot = &at->launches[at->n_launches++ % JOB_QUEUE_DEPTH];
	const double free_us = at->n_launches > JOB_QUEUE_DEPTH ? r->ops[*slot].start_us : 0;

	*slot = op;
	return free_us;
}

/* A collective's transfer begins when its last member is there. */
static void settle_device(struct job_op *op, double *stream_us)
{
	double begin_us;

	op->start_us = begin_us = fmax(op->call_us + LATENCY_US, *stream_us);
	for (int i = 0; op->peers[i]; i++)
		begin_us = fmax(begin_us, op->peers[i]->start_us);
	op->end_us = begin_us + op->work_us;
	*stream_us = op->end_us;
}

/* One pass over a rank, with what is known of its peers so far; true if something became later. */
static int relax(struct job_rank *r)
{
	struct place at = {.host_us = 0};
	int changed = 0;

	for (int i = 0; i < r->n_ops; i++) {
		struct job_op *op = &r->ops[i];
		const double before_us = op->end_us + op->return_us;
		double *stream_us = &at.stream_us[op->stream];

		op->call_us = at.host_us + op->pause_us;
		op->return_us = op->call_us + CALL_US;
		if (op->kind == JOB_LAUNCH)
			op->return_us = fmax(op->return_us, queue_free_us(r, &at, i));
		if (op->kind == JOB_LAUNCH || op->kind == JOB_COPY)
			settle_device(op, stream_us);
		else if (op->kind == JOB_RECORD)
			op->end_us = *stream_us;
		else if (op->kind == JOB_WAIT)
			*stream_us = fmax(*stream_us, r->ops[op->awaited].end_us);
		else if (op->kind == JOB_SYNC)
			op->return_us = fmax(op->return_us, *stream_us + WAKE_US);
		else
			op->return_us = op->call_us;
		at.host_us = op->return_us;
		changed |= op->end_us + op->return_us > before_us;
	}
	return changed;
}

/* Times only grow, so it ends when none does. */
static void settle(struct job *job)
{
	int changed = 1;

	for (int rank = 0; rank < job->shape.n_ranks; rank++)
		find_peers(job, rank);
	while (changed) {
		changed = 0;
		for (int rank = 0; rank < job->shape.n_ranks; rank++)
			changed |= relax(&job->ranks[rank]);
	}
}

void job_make(struct job *job, const struct job_shape *shape)
{
	memset(job, 0, sizeof(*job));
	job->shape = *shape;
	for (int rank = 0; rank < shape->n_ranks; rank++) {
		struct maker m = {.shape = shape,
				  .rank = &job->ranks[rank],
				  .random = (uint64_t)rank + 1,
				  .slowness = shape->kernel_pct / 100.0};

		m.slowness *= rank == shape->straggler ? SLOWNESS : 1;
		find_members(m.rank, rank);
		for (int i = 0; i < shape->n_iterations; i++) {
			if (shape->n_ranks == 1)
				run_ahead(&m, i + 1 == shape->n_iterations);
			else
				iteration(&m, rank / (JOB_N_TP * JOB_N_DP));
		}
	}
	settle(job);
}

uint64_t job_comm_hash(const struct job *job, int rank, int comm)
{
	return UINT64_C(0x5ca1ab1e00) + (uint64_t)comm * 16 +
	       (uint64_t)job->ranks[rank].members[comm][0];
}

double job_iteration_us(const struct job *job, int rank, int iteration)
{
	const struct job_rank *r = &job->ranks[rank];
	double begin_us = 0;
	int n = -1;

	for (int i = 0; i < r->n_ops; i++) {
		if (r->ops[i].kind == JOB_PUSH && ++n == iteration)
			begin_us = r->ops[i].call_us;
		if (r->ops[i].kind == JOB_POP && n == iteration)
			return r->ops[i].return_us - begin_us;
	}
	return 0;
}

int job_held_back(const struct job *job, int rank)
{
	const struct job_rank *r = &job->ranks[rank];
	int n = 0;

	for (int i = 0; i < r->n_ops; i++)
		n += r->ops[i].kind == JOB_LAUNCH &&
		     r->ops[i].return_us > r->ops[i].call_us + CALL_US + 0.001;
	return n;
}

void job_release(struct job *job)
{
	for (int rank = 0; rank < JOB_MAX_RANKS; rank++)
		free(job->ranks[rank].ops);
}
