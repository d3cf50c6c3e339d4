/* Events per second and bytes per event of trace files, on launches of an iteration that repeats
 * with jitter. Usage: bench_trace [EVENTS...]; or bench_trace FILE.sctrace..., which are read and
 * written again; or bench_trace STEPSxRANKS..., how the traces of a loop grow, alike in all steps
 * and with jitter. Lines of three fields parted by tabs. Not a test: it has no expectations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "trace/format/trace_file.h"

enum { N_KERNELS = 400 }; /* of an iteration */

static const char OUT[] = "bench_trace.sctrace";

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

static void fail(const struct sc_err *err)
{
	char text[512];

	fprintf(stderr, "%s\n", sc_err_format(err, text, sizeof(text)));
	exit(1);
}

static struct sc_trace_writer *create(void)
{
	const struct sc_trace_identity identity = {.rank = 0, .world = 1, .source = "bench"};
	struct sc_err err = {.code = SC_OK};
	struct sc_trace_writer *w;

	if (sc_trace_writer_create(OUT, &identity, &w, &err))
		fail(&err);
	return w;
}

static void finish(struct sc_trace_writer *w)
{
	struct sc_err err = {.code = SC_OK};

	if (sc_trace_writer_finish(w, NULL, &err))
		fail(&err);
}

/* A call and its kernel at a time: tables first, so that only events are timed. */
static double write_launches(size_t n_events)
{
	struct sc_trace_lane thread = {.pid = 1, .tid = 1}, stream = {.is_stream = 1, .stream = 7};
	struct sc_trace_event call = {.cls = SC_EV_API}, kernel = {.cls = SC_EV_KERNEL};
	struct sc_trace_writer *w = create();
	uint32_t names[N_KERNELS], configs[N_KERNELS];
	struct sc_rng rng;
	double begin;

	sc_rng_init(&rng, 1);
	call.lane = sc_trace_writer_lane(w, &thread);
	kernel.lane = sc_trace_writer_lane(w, &stream);
	call.name = sc_trace_writer_string(w, "cudaLaunchKernel", 16);
	for (unsigned i = 0; i < N_KERNELS; i++) {
		struct sc_trace_config config = {.grid = {i / 3 + 1, 1, 1}, .block = {128, 1, 1}};
		char name[32];

		snprintf(name, sizeof(name), "kernel_%u", i / 2);
		names[i] = sc_trace_writer_string(w, name, strlen(name));
		configs[i] = sc_trace_writer_config(w, &config);
	}
	begin = cpu_s();
	for (size_t i = 0; i < n_events / 2; i++) {
		size_t which = i % N_KERNELS;

		call.correlation = kernel.correlation = (uint32_t)i + 1;
		call.start_ns += call.dur_ns + 500 + (int64_t)sc_rng_below(&rng, 1000);
		call.dur_ns = 3000 + (int64_t)sc_rng_below(&rng, 2000);
		kernel.start_ns += kernel.dur_ns + 900 + 32 * (int64_t)sc_rng_below(&rng, 20);
		kernel.dur_ns =
			2000 * (int64_t)(which % 50 + 1) + 32 * (int64_t)sc_rng_below(&rng, 100);
		kernel.name = names[which];
		kernel.config = configs[which];
		sc_trace_writer_add(w, &call);
		sc_trace_writer_add(w, &kernel);
	}
	finish(w);
	return cpu_s() - begin;
}

static int skip_event(void *ctx, const struct sc_trace *trace, const struct sc_trace_event *event,
		      struct sc_err *err)
{
	int64_t *sum = ctx;

	(void)trace, (void)err;
	*sum += event->dur_ns;
	return 0;
}

static void put(const char *path, const char *what, double value, const char *unit)
{
	const char *name = strrchr(path, '/');

	printf("%s %s\t%.2f\t%s\n", name ? name + 1 : path, what, value, unit);
}

static void read_back(const char *path, double write_s)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_trace trace;
	struct sc_trace_info info;
	double n_million, begin;
	int64_t sum = 0;

	begin = cpu_s();
	if (sc_trace_stat(path, &trace, &info, &err))
		fail(&err);
	sc_trace_release(&trace);
	put(path, "stat", (cpu_s() - begin) * 1e3, "ms");
	n_million = (double)info.counts.total * 1e-6;
	put(path, "size", (double)info.file_bytes / (double)info.counts.total, "B/event");
	put(path, "write", n_million / write_s, "M events/s");
	begin = cpu_s();
	if (sc_trace_scan(path, skip_event, &sum, &trace, &err))
		fail(&err);
	sc_trace_release(&trace);
	put(path, "scan", n_million / (cpu_s() - begin), "M events/s");
	put(path, "peak of write and scan", peak_mib(), "MiB");
	begin = cpu_s();
	if (sc_trace_load(path, NULL, &trace, &err))
		fail(&err);
	sc_trace_release(&trace);
	put(path, "load", n_million / (cpu_s() - begin), "M events/s");
}

/* A file of another source, written again: its strings and other tables first. */
static double rewrite(const char *path)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_trace trace;
	struct sc_trace_writer *w;
	double begin;

	if (sc_trace_load(path, NULL, &trace, &err))
		fail(&err);
	w = create();
	for (size_t i = 1; i < trace.strings.n; i++)
		sc_trace_writer_string(w, trace.strings.at[i], strlen(trace.strings.at[i]));
	for (size_t i = 1; i < trace.lanes.n; i++)
		sc_trace_writer_lane(w, &trace.lanes.at[i]);
	for (size_t i = 1; i < trace.configs.n; i++)
		sc_trace_writer_config(w, &trace.configs.at[i]);
	for (size_t i = 1; i < trace.comms.n; i++)
		sc_trace_writer_comm(w, &trace.comms.at[i]);
	begin = cpu_s();
	for (size_t i = 0; i < trace.events.n; i++)
		sc_trace_writer_add(w, &trace.events.at[i]);
	finish(w);
	sc_trace_release(&trace);
	return cpu_s() - begin;
}

/* --- a loop: operators in operators, their launches, the kernels, and a collective every 25
 * kernels --- */

struct loop {
	struct sc_trace_writer *w;
	struct sc_rng rng;
	int64_t jitter_ns, host_ns, device_ns, n_calls;
	uint32_t thread, stream, launch, names[N_KERNELS], layers[N_KERNELS];
};

static int64_t pass(struct loop *l, int64_t ns)
{
	return ns + (l->jitter_ns ? (int64_t)sc_rng_below(&l->rng, (uint64_t)l->jitter_ns) : 0);
}

static void write_layer(struct loop *l, unsigned which)
{
	struct sc_trace_event layer = {.cls = SC_EV_OP, .name = l->layers[which]}, op = layer;
	struct sc_trace_event call = {.cls = SC_EV_API, .name = l->launch};
	struct sc_trace_event kernel = {.cls = SC_EV_KERNEL, .name = l->names[which]};

	op.name = l->names[which];
	layer.lane = op.lane = call.lane = l->thread;
	kernel.lane = l->stream;
	call.correlation = kernel.correlation = (uint32_t)++l->n_calls;
	op.external_id = call.external_id = l->n_calls;
	if (which % 25 == 0) {
		struct sc_trace_comm comm;

		sc_trace_comm_init(&comm);
		comm.collective = l->launch;
		comm.bytes = 1 << 20;
		comm.seq = l->n_calls / 25;
		kernel.comm = sc_trace_writer_comm(l->w, &comm);
	}
	layer.start_ns = l->host_ns;
	op.start_ns = l->host_ns += pass(l, 2000);
	call.start_ns = l->host_ns += pass(l, 3000);
	call.dur_ns = pass(l, 4000);
	l->host_ns += call.dur_ns + pass(l, 1000);
	op.dur_ns = l->host_ns - op.start_ns;
	l->host_ns += pass(l, 1500);
	layer.dur_ns = l->host_ns - layer.start_ns;
	kernel.start_ns = l->device_ns > l->host_ns ? l->device_ns + pass(l, 900) : l->host_ns;
	kernel.dur_ns = pass(l, 2000 * (int64_t)(which % 50 + 1));
	l->device_ns = kernel.start_ns + kernel.dur_ns;
	sc_trace_writer_add(l->w, &layer);
	sc_trace_writer_add(l->w, &op);
	sc_trace_writer_add(l->w, &call);
	sc_trace_writer_add(l->w, &kernel);
}

/* Bytes of the trace of one rank; its events are added to *n_events. */
static int64_t write_loop(unsigned n_steps, unsigned rank, int64_t jitter_ns, int64_t *n_events)
{
	struct sc_trace_lane thread = {.pid = 1, .tid = (int32_t)rank + 1};
	struct sc_trace_lane stream = {.is_stream = 1, .device = (int32_t)rank % 8, .stream = 7};
	struct loop l = {.w = create(), .jitter_ns = jitter_ns};
	struct sc_err err = {.code = SC_OK};
	struct sc_trace_info info;
	struct sc_trace trace;

	sc_rng_init(&l.rng, rank + 1);
	l.thread = sc_trace_writer_lane(l.w, &thread);
	l.stream = sc_trace_writer_lane(l.w, &stream);
	l.launch = sc_trace_writer_string(l.w, "cudaLaunchKernel", 16);
	for (unsigned i = 0; i < N_KERNELS; i++) {
		char name[32];

		l.names[i] = sc_trace_writer_string(
			l.w, name, (size_t)snprintf(name, sizeof(name), "kernel_%u", i / 2));
		l.layers[i] = sc_trace_writer_string(
			l.w, name, (size_t)snprintf(name, sizeof(name), "layer_%u", i % 10));
	}
	for (unsigned i = 0; i < n_steps * N_KERNELS; i++)
		write_layer(&l, i % N_KERNELS);
	finish(l.w);
	if (sc_trace_stat(OUT, &trace, &info, &err))
		fail(&err);
	sc_trace_release(&trace);
	*n_events += info.counts.total;
	return info.file_bytes;
}

static void write_loops(const char *name, unsigned n_steps, unsigned n_ranks)
{
	for (int64_t jitter_ns = 0; jitter_ns <= 256; jitter_ns += 256) {
		int64_t n_events = 0, n_bytes = 0;

		for (unsigned rank = 0; rank < n_ranks; rank++)
			n_bytes += write_loop(n_steps, rank, jitter_ns, &n_events);
		put(name, jitter_ns ? "with jitter" : "all steps alike", (double)n_bytes * 1e-3,
		    "kB");
		put(name, jitter_ns ? "with jitter" : "all steps alike",
		    (double)n_bytes / (double)n_events, "B/event");
	}
}

int main(int argc, char **argv)
{
	static char usual[] = "4000000", *usual_args[] = {NULL, usual};

	if (argc < 2) {
		argc = 2;
		argv = usual_args;
	}
	for (int i = 1; i < argc; i++) {
		size_t n_events = (size_t)strtoull(argv[i], NULL, 10);
		unsigned n_steps, n_ranks;
		double write_s;

		if (sscanf(argv[i], "%ux%u", &n_steps, &n_ranks) == 2) {
			write_loops(argv[i], n_steps, n_ranks);
			continue;
		}
		write_s = n_events ? write_launches(n_events) : rewrite(argv[i]);

		read_back(n_events ? OUT : argv[i], write_s);
	}
	unlink(OUT);
	return 0;
}
