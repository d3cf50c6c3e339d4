/* thread_end LIBRARY DIR CASE: what a program may do that ends threads, forks and has slow disks,
 * marked by NVTX. Cases: stack (ranges in a destructor that comes after the tracer's, of two
 * threads, one of which has one open), ring (marks in such a destructor beside those of another
 * thread), disk (the tracer's disk hangs for HANG_MS), fork (a child's first NCCL call while the
 * parent stops), start (records without a driver). Says on stdout what it marked. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "trace/capture/nccl_abi.h"
#include "trace/capture/nvtx_abi.h"

enum { N_FUNCTIONS = 16, N_LATE = 30000, N_OTHER = 100000, N_HUNG = 20000, HANG_MS = 3000 };

static sc_nvtx_function core[N_FUNCTIONS], core2[N_FUNCTIONS];
static sc_nvtx_function *core_table[N_FUNCTIONS], *core2_table[N_FUNCTIONS];
static pthread_key_t late_key;
static atomic_int late_begun;
static atomic_llong hangs_until_ns;

static void sleep_ms(int ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Found before the C library's. */
ssize_t write(int fd, const void *at, size_t n);
ssize_t write(int fd, const void *at, size_t n)
{
	while (fd > 2 && now_ns() < hangs_until_ns)
		sleep_ms(10);
	return syscall(SYS_write, fd, at, n);
}

static void *symbol(const char *library, const char *name)
{
	void *at = dlopen(library, RTLD_NOW), *found = at ? dlsym(at, name) : NULL;

	if (!found) {
		printf("problem: no %s\n", name);
		exit(1);
	}
	return found;
}

static int get_functions(int module, sc_nvtx_function ***table, unsigned *n)
{
	if (module != SC_NVTX_MODULE_CORE && module != SC_NVTX_MODULE_CORE2)
		return 0;
	*table = module == SC_NVTX_MODULE_CORE ? core_table : core2_table;
	*n = N_FUNCTIONS;
	return 1;
}

static const void *get_table(uint32_t id)
{
	static const struct sc_nvtx_callbacks callbacks = {sizeof(callbacks), get_functions};

	return id == SC_NVTX_TABLE_CALLBACKS ? &callbacks : NULL;
}

static void attach(const char *library)
{
	void *found = symbol(library, "InitializeInjectionNvtx2");
	int (*entry)(sc_nvtx_get_table);

	for (int i = 0; i < N_FUNCTIONS; i++) {
		core_table[i] = &core[i];
		core2_table[i] = &core2[i];
	}
	memcpy(&entry, &found, sizeof(entry));
	if (entry(get_table) != 1)
		exit(2);
}

static void mark(const char *text)
{
	((void (*)(const char *))core[SC_NVTX_MARK_A])(text);
}

static void push(const char *text)
{
	((int (*)(const char *))core[SC_NVTX_PUSH_A])(text);
}

static void pop(void)
{
	((int (*)(void))core[SC_NVTX_POP])();
}

/* ---- destructors after the tracer's: keys run in the order in which they were made ---- */

static void end_stack(void *unused)
{
	(void)unused;
	pop(); /* of the thread's body */
	push("clean-up");
	pop();
}

static void *run_stack(void *is_closed)
{
	push("work");
	if (is_closed)
		pop();
	pthread_setspecific(late_key, &late_key);
	return NULL;
}

static void end_ring(void *unused)
{
	(void)unused;
	late_begun = 1;
	sleep_ms(400); /* the writer gives the ring away */
	for (int i = 0; i < N_LATE; i++)
		mark("clean-up");
}

static void *run_ring(void *unused)
{
	mark("work");
	pthread_setspecific(late_key, &late_key);
	return unused;
}

static void *run_other(void *unused)
{
	while (!late_begun)
		sleep_ms(1);
	sleep_ms(300);
	for (int i = 0; i < N_OTHER; i++)
		mark("other");
	return unused;
}

static void end_threads(void (*at_end)(void *), void *(*run)(void *))
{
	pthread_t thread, other;

	push("main"); /* makes the tracer's keys */
	pop();
	pthread_key_create(&late_key, at_end);
	pthread_create(&thread, NULL, run, NULL);
	if (at_end == end_ring)
		pthread_create(&other, NULL, run_other, NULL);
	pthread_join(thread, NULL);
	if (at_end == end_stack)
		pthread_create(&other, NULL, run, &late_key);
	pthread_join(other, NULL);
}

/* ---- a disk that hangs ---- */

static void hang_disk(void)
{
	long long begin;

	mark("first");
	sleep_ms(300);
	begin = now_ns();
	hangs_until_ns = begin + HANG_MS * 1000000LL;
	for (int i = 0; i < N_HUNG; i++)
		mark("a mark while the disk hangs");
	printf("held_ms=%lld\n", (now_ns() - begin) / 1000000);
	sleep_ms(HANG_MS);
	mark("last");
}

/* ---- a child of a process that stops ---- */

static void *run_stop(void *library)
{
	void *found = symbol(library, "sc_capture_stop");
	void (*stop)(void);

	memcpy(&stop, &found, sizeof(stop));
	stop();
	return NULL;
}

static void fork_while_stopping(char *library)
{
	const struct sc_nccl_plugin_v4 *plugin = symbol(library, "ncclProfiler_v4");
	void *context = NULL;
	int mask = 0, status = 1;
	pthread_t stopper;
	pid_t child;

	mark("before");
	pthread_create(&stopper, NULL, run_stop, library);
	sleep_ms(500); /* CUPTI hangs in its last flush */
	child = fork();
	if (child == 0) {
		alarm(2);
		plugin->at.init(&context, &mask, "pg", 1, 1, 2, 0, NULL);
		_exit(mask);
	}
	waitpid(child, &status, 0);
	printf("child=%s\n", WIFSIGNALED(status) ? "hung" : "went on");
	pthread_join(stopper, NULL);
}

int main(int argc, char **argv)
{
	const char *which = argc == 4 ? argv[3] : "";

	if (argc != 4)
		return 2;
	setenv("STEPCAST_DIR", argv[2], 1);
	if (strcmp(which, "start") == 0) {
		void *found = symbol(argv[1], "sc_capture_start");
		int (*start)(void);

		memcpy(&start, &found, sizeof(start));
		printf("start=%d\n", start());
		return 0;
	}
	if (strcmp(which, "fork") == 0) { /* CUPTI too, so that stopping takes its time */
		void *found = symbol("libcuda.so.1", "cuInit");
		int (*init)(unsigned);

		memcpy(&init, &found, sizeof(init));
		init(0);
	}
	attach(argv[1]);
	if (strcmp(which, "stack") == 0)
		end_threads(end_stack, run_stack);
	else if (strcmp(which, "ring") == 0)
		end_threads(end_ring, run_ring);
	else if (strcmp(which, "disk") == 0)
		hang_disk();
	else if (strcmp(which, "fork") == 0)
		fork_while_stopping(argv[1]);
	else
		return 2;
	run_stop(argv[1]);
	return 0;
}
