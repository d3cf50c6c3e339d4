/* Events per second of a replay end to end: traces loaded, merged, built into graphs and simulated;
 * and the memory it takes. Usage: bench_replay [RANKS [EVENTS_PER_RANK]]; lines of three fields
 * parted by tabs. Not a test: it has no expectations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "trace/format/trace_file.h"
#include "trace/replay/replay.h"

/* A step: kernels of two streams, each with its op and its call, collectives among them. */
enum { KERNELS_PER_STEP = 4000, EVENTS_PER_KERNEL = 4, COMM_EVERY = 40, KERNEL_NS = 5000 };

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double peak_mib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_maxrss / 1024;
}

struct bench_rank {
	struct sc_trace_writer *w;
	uint32_t thread, compute, comm, op, call, kernel[8], reduce, step, collective;
};

static uint32_t text(struct bench_rank *b, const char *t)
{
	return sc_trace_writer_string(b->w, t, strlen(t));
}

static void begin_rank(struct bench_rank *b, const char *path, int rank, int n_ranks)
{
	static const char *const kernels[8] = {
		"ampere_sgemm_128x64_nn", "vectorized_elementwise_kernel",
		"softmax_warp_forward",   "layer_norm_kernel",
		"ampere_sgemm_64x64_nt",  "reduce_kernel",
		"multi_tensor_apply",     "copy_kernel"};
	const struct sc_trace_identity identity = {
		.rank = rank, .world = n_ranks, .source = "capture"};
	struct sc_trace_lane thread = {.pid = 1, .tid = 1, .device = -1, .stream = -1};
	struct sc_trace_lane stream = {.is_stream = 1, .stream = 7};
	struct sc_trace_comm comm = {
		.comm_hash = 1, .bytes = 1 << 20, .group_size = n_ranks, .seq = -1};
	struct sc_err err = {.code = SC_OK};

	if (sc_trace_writer_create(path, &identity, &b->w, &err)) {
		fprintf(stderr, "%s\n", err.text);
		exit(EXIT_FAILURE);
	}
	b->thread = sc_trace_writer_lane(b->w, &thread);
	b->compute = sc_trace_writer_lane(b->w, &stream);
	stream.stream = 20;
	b->comm = sc_trace_writer_lane(b->w, &stream);
	b->op = text(b, "aten::mm");
	b->call = text(b, "cudaLaunchKernel");
	b->reduce = text(b, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
	comm.collective = text(b, "allreduce");
	b->collective = sc_trace_writer_comm(b->w, &comm);
	for (int i = 0; i < 8; i++)
		b->kernel[i] = text(b, kernels[i]);
}

static void put_kernel(struct bench_rank *b, uint32_t i, int64_t at)
{
	const bool comm = i % COMM_EVERY == COMM_EVERY - 1;
	struct sc_trace_event e = {.cls = SC_EV_OP, .lane = b->thread, .name = b->op};

	e.start_ns = at;
	e.dur_ns = 4000;
	sc_trace_writer_add(b->w, &e);
	e.start_ns++;
	sc_trace_writer_add(b->w, &e);
	e = (struct sc_trace_event){.cls = SC_EV_API,
				    .lane = b->thread,
				    .name = b->call,
				    .start_ns = at + 500,
				    .dur_ns = 3000,
				    .correlation = i + 1};
	sc_trace_writer_add(b->w, &e);
	e.cls = SC_EV_KERNEL;
	e.lane = comm ? b->comm : b->compute;
	e.name = comm ? b->reduce : b->kernel[i % 8];
	e.comm = comm ? b->collective : 0;
	e.start_ns = at + 7000 + i % 700;
	e.dur_ns = comm ? 40000 : KERNEL_NS - 1000 - i % 500;
	sc_trace_writer_add(b->w, &e);
}

static void write_rank(const char *dir, int rank, int n_ranks, int64_t n_events)
{
	const int64_t n_kernels = n_events / EVENTS_PER_KERNEL;
	struct bench_rank b = {.w = NULL};
	char path[256], name[32];

	snprintf(path, sizeof(path), "%s/rank%03d" SC_TRACE_SUFFIX, dir, rank);
	begin_rank(&b, path, rank, n_ranks);
	for (int64_t i = 0; i < n_kernels; i++) {
		const int64_t at = i * KERNEL_NS;

		if (i % KERNELS_PER_STEP == 0) {
			struct sc_trace_event e = {.cls = SC_EV_RANGE, .lane = b.thread};

			snprintf(name, sizeof(name), "ProfilerStep#%d",
				 (int)(i / KERNELS_PER_STEP));
			e.name = text(&b, name);
			e.start_ns = at;
			e.dur_ns = (int64_t)KERNELS_PER_STEP * KERNEL_NS;
			sc_trace_writer_add(b.w, &e);
		}
		put_kernel(&b, (uint32_t)i, at);
	}
	sc_trace_writer_finish(b.w, NULL, NULL);
}

int main(int argc, char **argv)
{
	const int n_ranks = argc > 1 ? atoi(argv[1]) : 4;
	const int64_t n_events = argc > 2 ? atoll(argv[2]) : 250000;
	char dir[] = "bench-replay-XXXXXX", command[64];
	struct sc_replay_result result;
	struct sc_replay_opts opts;
	struct sc_err err = {.code = SC_OK};
	double start, seconds;
	int rc;

	if (n_ranks <= 0 || n_events <= 0 || !mkdtemp(dir))
		return EXIT_FAILURE;
	for (int r = 0; r < n_ranks; r++)
		write_rank(dir, r, n_ranks, n_events);
	sc_replay_opts_init(&opts);
	opts.no_what_if = true;
	start = cpu_s();
	rc = sc_replay(dir, &opts, &result, &err);
	seconds = cpu_s() - start;
	if (rc) {
		fprintf(stderr, "%s\n", err.text);
	} else {
		printf("events\t%.0f\tof all ranks\n", (double)n_ranks * (double)n_events);
		printf("replay\t%.3f\ts\n", seconds);
		printf("speed\t%.3f\tM events/s\n",
		       (double)n_ranks * (double)n_events / seconds / 1e6);
		printf("peak memory\t%.1f\tMiB\n", peak_mib());
		sc_replay_result_release(&result);
	}
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command) == 0 && rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
