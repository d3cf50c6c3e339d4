/* job_host --ranks N --iterations N [--straggler RANK] [--kernels PERCENT] [--overlap 0]: one
 * rank ($RANK) of the job of job_script.h, as the tracer sees it: every call comes through the door
 * that it would come through, at its time, on its thread. Kernels take PERCENT of their time;
 * gradients may be reduced beside nothing. CLOCK_MONOTONIC and CLOCK_REALTIME are the job's, so
 * that a recording is the same each time. Tells on stdout how long each iteration was. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/fake_cupti.h"
#include "capture/job_script.h"
#include "trace/capture/cupti_abi.h"
#include "trace/capture/nccl_abi.h"
#include "trace/capture/nvtx_abi.h"

enum { N_FUNCTIONS = 16, GPUS_A_NODE = 4 };
enum { CALL_LAUNCH = 1, CALL_COPY = 2, CALL_RECORD = 4, CALL_WAIT = 5, CALL_SYNC = 6 }; /* fake's */
#define NS_PER_S INT64_C(1000000000)
#define BOOT_NS (3600 * NS_PER_S)
#define EPOCH_NS (INT64_C(1767225600) * NS_PER_S) /* 2026-01-01 */
#define BEFORE_US 1000.0                          /* from the process's start to the job's */

static struct job job;
static int rank;
static _Atomic int64_t job_ns, real_end_ns; /* the job's time; when it was over */
static sc_nvtx_function core[N_FUNCTIONS];
static sc_nvtx_function *core_table[N_FUNCTIONS];
static const struct sc_nccl_plugin_v5 *plugin;
static void *communicators[JOB_N_COMMS];
static void (*put)(const void *record, size_t n);
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int op;
} turn = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

static void fail(const char *what)
{
	fprintf(stderr, "job_host: %s\n", what);
	exit(1);
}

/* ---- the job's clock and node, found before the C library's ---- */

static int64_t real_ns(void)
{
	struct timespec now;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* After the job the clock goes on, since the tracer ends with deadlines. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	int64_t ns = (clock == CLOCK_REALTIME ? EPOCH_NS : BOOT_NS) + job_ns;

	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, clock, now);
	if (real_end_ns)
		ns += real_ns() - real_end_ns;
	*now = (struct timespec){(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};
	return 0;
}

int gethostname(char *name, size_t n)
{
	snprintf(name, n, "node%d", rank / GPUS_A_NODE);
	return 0;
}

static int64_t to_ns(double us)
{
	return (int64_t)((us + BEFORE_US) * 1000 + 0.5);
}

static uint64_t record_ns(double us)
{
	return (uint64_t)(BOOT_NS + to_ns(us));
}

/* ---- doors ---- */

static void *find(const char *library, const char *name)
{
	void *at = library ? dlopen(library, RTLD_NOW) : NULL, *found = at ? dlsym(at, name) : NULL;

	if (!found)
		fail(name);
	return found;
}

static int get_functions(int module, sc_nvtx_function ***table, unsigned *n)
{
	if (module != SC_NVTX_MODULE_CORE)
		return 0;
	for (int i = 0; i < N_FUNCTIONS; i++)
		core_table[i] = &core[i];
	*table = core_table;
	*n = N_FUNCTIONS;
	return 1;
}

static const void *get_table(uint32_t id)
{
	static const struct sc_nvtx_callbacks callbacks = {sizeof(callbacks), get_functions};

	return id == SC_NVTX_TABLE_CALLBACKS ? &callbacks : NULL;
}

static int member_of(int comm)
{
	int i = 0;

	while (job.ranks[rank].members[comm][i] != rank)
		i++;
	return i;
}

static void open_doors(void)
{
	static const char *const names[] = {"tp", "dp", "pp", "world"};
	void *found = find("libcuda.so.1", "cuInit");
	int (*init)(unsigned), (*attach)(sc_nvtx_get_table), mask;

	memcpy(&init, &found, sizeof(init));
	init(0);
	found = find("libcupti.so.13", "fake_cupti_put");
	memcpy(&put, &found, sizeof(put));
	found = find(getenv("NVTX_INJECTION64_PATH"), "InitializeInjectionNvtx2");
	memcpy(&attach, &found, sizeof(attach));
	attach(get_table);
	plugin = find(getenv("NCCL_PROFILER_PLUGIN"), "ncclProfiler_v5");
	for (int c = 0; job.shape.n_ranks > 1 && c < JOB_N_COMMS; c++)
		plugin->at.init(&communicators[c], job_comm_hash(&job, rank, c), &mask, names[c], 1,
				job.ranks[rank].n_members[c], member_of(c), NULL);
}

/* ---- records ---- */

#define PUT(record) put(&(record), sizeof(record))

static void put_call(const struct job_op *op, uint32_t cbid, uint32_t correlation)
{
	const struct sc_cupti_api api = {.kind = SC_CUPTI_RUNTIME,
					 .cbid = cbid,
					 .start = record_ns(op->call_us),
					 .end = record_ns(op->return_us),
					 .process = (uint32_t)getpid(),
					 .thread = (uint32_t)syscall(SYS_gettid),
					 .correlation = correlation};

	PUT(api);
}

static void put_kernel(const struct job_op *op, uint32_t correlation)
{
	const struct sc_cupti_kernel kernel = {.kind = SC_CUPTI_KERNEL,
					       .registers = 64,
					       .start = record_ns(op->start_us),
					       .end = record_ns(op->end_us),
					       .device = (uint32_t)(rank % GPUS_A_NODE),
					       .context = 1,
					       .stream = (uint32_t)op->stream,
					       .correlation = correlation,
					       .grid = {op->kernel->blocks, 1, 1},
					       .block = {op->kernel->threads, 1, 1},
					       .name = op->kernel->name};

	put_call(op, CALL_LAUNCH, correlation);
	PUT(kernel);
}

static void put_copy(const struct job_op *op, uint32_t correlation)
{
	const struct sc_cupti_memcpy copy = {.kind = SC_CUPTI_MEMCPY,
					     .copy_kind = 1,
					     .bytes = (uint64_t)op->bytes,
					     .start = record_ns(op->start_us),
					     .end = record_ns(op->end_us),
					     .device = (uint32_t)(rank % GPUS_A_NODE),
					     .context = 1,
					     .stream = (uint32_t)op->stream,
					     .correlation = correlation};

	put_call(op, CALL_COPY, correlation);
	PUT(copy);
}

static void put_record(const struct job_op *op, uint32_t correlation)
{
	const struct sc_cupti_event event = {.kind = SC_CUPTI_CUDA_EVENT,
					     .correlation = correlation,
					     .context = 1,
					     .device = (uint32_t)(rank % GPUS_A_NODE),
					     .stream = (uint32_t)op->stream,
					     .event = 1 + correlation % 16,
					     .event_sync = correlation};

	put_call(op, CALL_RECORD, correlation);
	PUT(event);
}

/* Of operation i the correlation is i + 1. */
static void put_wait(const struct job_op *op, uint32_t correlation)
{
	const uint32_t awaited = (uint32_t)op->awaited + 1;
	const struct sc_cupti_sync wait = {.kind = SC_CUPTI_SYNC,
					   .type = op->kind == JOB_WAIT ? 2 : 3,
					   .start = record_ns(op->call_us),
					   .end = record_ns(op->return_us),
					   .correlation = correlation,
					   .context = 1,
					   .stream = (uint32_t)op->stream,
					   .event = op->kind == JOB_WAIT ? 1 + awaited % 16 : 0,
					   .event_sync = op->kind == JOB_WAIT ? awaited : 0};

	put_call(op, op->kind == JOB_WAIT ? CALL_WAIT : CALL_SYNC, correlation);
	PUT(wait);
}

/* ---- NCCL ---- */

static void *start(const struct job_op *op, void *description)
{
	void *handle = NULL;

	plugin->at.start(communicators[op->comm], &handle, description);
	if (!handle)
		fail("the plugin did not take an event");
	return handle;
}

static void tell_p2p(const struct job_op *op, void *group, const char *func, int64_t bytes)
{
	struct sc_nccl_event_v4 p2p = {.head = {SC_NCCL_P2P, group, 0},
				       .call.p2p = {.func = func,
						    .count = (size_t)bytes / 2,
						    .dtype = "ncclBfloat16",
						    .peer = !member_of(op->comm)}};

	if (bytes)
		plugin->at.stop(start(op, &p2p));
}

static void tell_call(const struct job_op *op, void *group)
{
	const bool is_tp = op->comm == JOB_TP;
	struct sc_nccl_event_v4 coll = {
		.head = {SC_NCCL_COLL, group, 0},
		.call.coll = {.seq = (uint64_t)op->number,
			      .func = op->collective,
			      .count = (size_t)op->bytes / (is_tp ? 2 : 4),
			      .dtype = is_tp ? "ncclBfloat16" : "ncclFloat32"}};

	if (op->comm == JOB_PP) {
		tell_p2p(op, group, "Send", op->bytes);
		tell_p2p(op, group, "Recv", op->received_bytes);
	} else {
		plugin->at.stop(start(op, &coll));
	}
}

/* A group, the launch in it, the calls that the launch was for. */
static void emit_nccl(const struct job_op *op, uint32_t correlation)
{
	struct sc_nccl_head group_head = {SC_NCCL_GROUP_API, NULL, 0};
	void *group = start(op, &group_head), *launch;
	struct sc_nccl_head launch_head = {SC_NCCL_KERNEL_LAUNCH, group, 0};

	job_ns = to_ns(op->call_us);
	tell_call(op, group);
	launch = start(op, &launch_head);
	put_kernel(op, correlation);
	job_ns = to_ns(op->return_us);
	plugin->at.stop(launch);
	plugin->at.stop(group);
}

/* ---- the job ---- */

static void emit(const struct job_op *op, uint32_t correlation)
{
	job_ns = to_ns(op->comm >= 0 ? op->call_us - 1 : op->call_us);
	switch (op->kind) {
	case JOB_PUSH:
		((int (*)(const char *))core[SC_NVTX_PUSH_A])("iteration");
		break;
	case JOB_POP:
		((int (*)(void))core[SC_NVTX_POP])();
		break;
	case JOB_LAUNCH:
		(op->comm >= 0 ? emit_nccl : put_kernel)(op, correlation);
		break;
	case JOB_COPY:
		put_copy(op, correlation);
		break;
	case JOB_RECORD:
		put_record(op, correlation);
		break;
	default:
		put_wait(op, correlation);
	}
}

/* The operations of one thread, each after the one before it, whoever had that. */
static void *run_thread(void *number)
{
	const struct job_rank *r = &job.ranks[rank];

	for (int i = 0; i < r->n_ops; i++) {
		if (r->ops[i].thread != (int)(intptr_t)number)
			continue;
		pthread_mutex_lock(&turn.lock);
		while (turn.op != i)
			pthread_cond_wait(&turn.changed, &turn.lock);
		emit(&r->ops[i], (uint32_t)i + 1);
		turn.op = i + 1;
		pthread_cond_broadcast(&turn.changed);
		pthread_mutex_unlock(&turn.lock);
	}
	return NULL;
}

static int option(int argc, char **argv, const char *name, int usual)
{
	for (int i = 1; i + 1 < argc; i += 2)
		if (strcmp(argv[i], name) == 0)
			return atoi(argv[i + 1]);
	return usual;
}

int main(int argc, char **argv)
{
	const struct job_shape shape = {.n_ranks = option(argc, argv, "--ranks", 1),
					.n_iterations = option(argc, argv, "--iterations", 4),
					.straggler = option(argc, argv, "--straggler", -1),
					.kernel_pct = option(argc, argv, "--kernels", 100),
					.no_overlap = !option(argc, argv, "--overlap", 1)};
	pthread_t other;

	rank = getenv("RANK") ? atoi(getenv("RANK")) : 0;
	if ((shape.n_ranks != 1 && shape.n_ranks != JOB_MAX_RANKS) || rank < 0 ||
	    rank >= shape.n_ranks)
		fail("1 or 8 ranks");
	job_make(&job, &shape);
	open_doors();
	pthread_create(&other, NULL, run_thread, (void *)(intptr_t)1);
	run_thread((void *)(intptr_t)0);
	pthread_join(other, NULL);
	for (int i = 0; i < shape.n_iterations; i++)
		printf("rank=%d iteration_us=%.3f\n", rank, job_iteration_us(&job, rank, i));
	printf("rank=%d held_back=%d\n", rank, job_held_back(&job, rank));
	job_release(&job);
	real_end_ns = real_ns();
	return 0;
}
