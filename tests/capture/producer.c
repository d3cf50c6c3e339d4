/* A program that uses the GPU, as far as the tracer can see: threads that launch kernels at a given
 * rate through the fake libcupti. Tells on stdout what it did, as key=value; with --progress also
 * while it runs, so that a killed one can be judged: lines "monotonic_ns launches". */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture/fake_cupti.h"

enum { TICK_US = 1000, RECORDS_PER_16 = 51 };

static struct {
	long rate; /* records a second of all threads; 0: as fast as it goes */
	double seconds;
	long launches; /* of each thread; 0: as long as `seconds` say */
	int threads;
	const char *progress, *map;
	bool fork, quick_exit;
} args = {.rate = 300000, .seconds = 1, .threads = 1};
static struct {
	void (*launch)(uint32_t correlation);
	void (*end_thread)(void);
	void (*stats)(struct fake_stats *out);
} fake;
static _Atomic long n_launches;
static int64_t thread_cpu_ns;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A slow disk: the tracer's writes to files take their time when FAKE_DISK_BYTES_PER_S is set. The
 * program's symbol comes before the C library's. */
ssize_t write(int fd, const void *at, size_t n);
ssize_t write(int fd, const void *at, size_t n)
{
	static double rate = -1;

	if (rate < 0)
		rate = getenv("FAKE_DISK_BYTES_PER_S") ? atof(getenv("FAKE_DISK_BYTES_PER_S")) : 0;
	if (rate > 0 && fd > 2) {
		double s = (double)n / rate;
		struct timespec time = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};

		nanosleep(&time, NULL);
	}
	return syscall(SYS_write, fd, at, n);
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void *find(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "producer: no %s\n", name);
		exit(1);
	}
	return found;
}

static void init(void)
{
	/* With a library of CUDA's that is mapped, CUPTI comes only after the tracer, from wherever
	 * that has it. */
	void *map = args.map ? dlopen(args.map, RTLD_NOW) : NULL;
	void *cupti = args.map ? NULL : dlopen("libcupti.so.13", RTLD_NOW);
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
	int (*cu_init)(unsigned);
	void *found;

	if (!cuda || (args.map ? !map : !cupti)) {
		fprintf(stderr, "producer: %s\n", dlerror());
		exit(1);
	}
	found = find(cuda, "cuInit");
	memcpy(&cu_init, &found, sizeof(found));
	cu_init(0);
	if (!cupti)
		cupti = dlopen("libcupti.so.13", RTLD_NOW);
	found = find(cupti, "fake_cupti_launch");
	memcpy(&fake.launch, &found, sizeof(found));
	found = find(cupti, "fake_cupti_end_thread");
	memcpy(&fake.end_thread, &found, sizeof(found));
	found = find(cupti, "fake_cupti_stats");
	memcpy(&fake.stats, &found, sizeof(found));
}

static void *produce(void *number)
{
	uint32_t first = (uint32_t)(uintptr_t)number << 24;
	double per_ns = (double)args.rate * 16 / RECORDS_PER_16 / args.threads / 1e9;
	int64_t begin = clock_ns(CLOCK_MONOTONIC), end = begin + (int64_t)(args.seconds * 1e9);
	int64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	long done = 0;

	for (;;) {
		int64_t now = clock_ns(CLOCK_MONOTONIC);
		long due = args.rate ? (long)((double)(now - begin) * per_ns) : done + 1000;
		struct timespec tick = {0, TICK_US * 1000};

		if (args.launches ? done >= args.launches : now >= end)
			break;
		if (args.launches && due > args.launches)
			due = args.launches;
		for (; done < due; done++) {
			fake.launch(first | (uint32_t)(done + 1));
			n_launches++;
		}
		if (args.rate)
			nanosleep(&tick, NULL);
	}
	pthread_mutex_lock(&lock);
	thread_cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	pthread_mutex_unlock(&lock);
	if (args.threads > 1)
		fake.end_thread();
	return NULL;
}

static void *tell_progress(void *unused)
{
	FILE *out = fopen(args.progress, "w");
	struct timespec tick = {0, 20000000};

	if (!out)
		return unused;
	for (;; nanosleep(&tick, NULL)) {
		long n = n_launches;

		fprintf(out, "%lld %ld\n", (long long)clock_ns(CLOCK_MONOTONIC), n);
		fflush(out);
	}
	return unused;
}

static void parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (strcmp(argv[i], "--fork") == 0)
			args.fork = true;
		else if (strcmp(argv[i], "--quick-exit") == 0)
			args.quick_exit = true;
		else if (strcmp(argv[i], "--rate") == 0)
			args.rate = atol(value), i++;
		else if (strcmp(argv[i], "--seconds") == 0)
			args.seconds = atof(value), i++;
		else if (strcmp(argv[i], "--launches") == 0)
			args.launches = atol(value), i++;
		else if (strcmp(argv[i], "--threads") == 0)
			args.threads = atoi(value), i++;
		else if (strcmp(argv[i], "--progress") == 0)
			args.progress = value, i++;
		else if (strcmp(argv[i], "--map") == 0)
			args.map = value, i++;
		else
			exit(2);
	}
}

/* A child that goes on alone, as a DataLoader's worker does. */
static int run_child(void)
{
	pid_t child = fork();
	int status = 1;

	if (child == 0) {
		for (uint32_t i = 1; i <= 100; i++)
			fake.launch(63u << 24 | i);
		exit(0);
	}
	waitpid(child, &status, 0);
	return status;
}

int main(int argc, char **argv)
{
	pthread_t threads[64], teller;
	struct fake_stats stats;
	struct rusage usage;
	int64_t begin, process_ns;

	parse(argc, argv);
	init();
	if (args.fork && run_child() != 0)
		return 1;
	if (args.progress)
		pthread_create(&teller, NULL, tell_progress, NULL);
	begin = clock_ns(CLOCK_MONOTONIC);
	process_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 1; i < args.threads; i++)
		pthread_create(&threads[i], NULL, produce, (void *)(uintptr_t)i);
	produce(NULL);
	for (int i = 1; i < args.threads; i++)
		pthread_join(threads[i], NULL);
	process_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - process_ns;
	getrusage(RUSAGE_SELF, &usage);
	fake.stats(&stats);
	printf("launches=%ld\nrecords=%llu\nseconds=%.3f\ncallbacks=%llu\ncallback_p99_ns=%llu\n"
	       "callback_max_ns=%llu\nearly_flushes=%llu\ntracer_cpu_pct=%.3f\nmax_rss_kib=%ld\n",
	       (long)n_launches, (unsigned long long)stats.n_records,
	       (double)(clock_ns(CLOCK_MONOTONIC) - begin) / 1e9,
	       (unsigned long long)stats.n_callbacks, (unsigned long long)stats.p99_ns,
	       (unsigned long long)stats.max_ns, (unsigned long long)stats.n_early_flushes,
	       100.0 * (double)(process_ns - thread_cpu_ns + (int64_t)stats.sum_ns) /
		       (double)(clock_ns(CLOCK_MONOTONIC) - begin),
	       usage.ru_maxrss);
	fflush(stdout);
	if (args.quick_exit)
		_exit(0);
	return 0;
}
