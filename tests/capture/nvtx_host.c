/* nvtx_host LIBRARY DIR: calls the NVTX functions that the library puts into a table, as the header
 * of NVTX does. With a third argument, the path of a real libnccl: lets that make the calls,
 * without a GPU. Reads the trace that comes out. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "trace/capture/nvtx_abi.h"
#include "trace/format/trace_file.h"

#define REQUIRE(condition)                                                      \
	do {                                                                    \
		if (!(condition)) {                                             \
			printf("problem: line %d: %s\n", __LINE__, #condition); \
			exit(1);                                                \
		}                                                               \
	} while (0)
enum { N_FUNCTIONS = 16, N_TIMED = 20000, N_ROUND = 1000, N_BURST = 100000 };

static sc_nvtx_function core[N_FUNCTIONS], core2[N_FUNCTIONS];
static sc_nvtx_function *core_table[N_FUNCTIONS], *core2_table[N_FUNCTIONS];

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

static void *domain(const char *name)
{
	return ((void *(*)(const char *))core2[SC_NVTX_DOMAIN_CREATE_A])(name);
}

static void push_in(void *of, const struct sc_nvtx_attributes *attributes)
{
	((int (*)(void *, const struct sc_nvtx_attributes *))core2[SC_NVTX_DOMAIN_PUSH_EX])(
		of, attributes);
}

static void pop_in(void *of)
{
	((int (*)(void *))core2[SC_NVTX_DOMAIN_POP])(of);
}

static void push(const char *text)
{
	((int (*)(const char *))core[SC_NVTX_PUSH_A])(text);
}

static int pop(void)
{
	return ((int (*)(void))core[SC_NVTX_POP])();
}

static void call_ranges(void)
{
	void *own = domain("mylib");
	void *registered = ((void *(*)(void *, const char *))core2[SC_NVTX_DOMAIN_REGISTER_A])(
		own, "registered name");
	struct sc_nvtx_attributes attributes = {.version = 3,
						.size = 48,
						.message_type = SC_NVTX_MESSAGE_REGISTERED,
						.message = registered};
	uint64_t id = ((uint64_t(*)(const char *))core[SC_NVTX_START_A])("started");

	push("outer");
	((int (*)(const wchar_t *))core[SC_NVTX_PUSH_W])(L"wide \u00e9");
	pop();
	REQUIRE(pop() == 0);
	REQUIRE(pop() == -1);
	push_in(own, &attributes);
	pop_in(own);
	((void (*)(const char *))core[SC_NVTX_MARK_A])("a mark");
	((void (*)(uint64_t))core[SC_NVTX_END])(id);
	((void (*)(uint32_t, const char *))core[SC_NVTX_NAME_THREAD_A])(77, "loader");
	for (int i = 0; i < 200; i++)
		push("deep");
	for (int i = 0; i < 200; i++)
		pop();
}

static void call_nccl_payload(void)
{
	struct {
		uint64_t hash;
		size_t bytes;
		int op;
	} values = {UINT64_C(0x1234567890abcdef), 4096, 0};
	struct sc_nvtx_payload payload = {(1 << 24) + 5, sizeof(values), &values};
	struct sc_nvtx_attributes attributes = {.version = 3,
						.size = 48,
						.payload_type = SC_NVTX_PAYLOAD_EXT,
						.n_payloads = 1,
						.payload = (uintptr_t)&payload,
						.message_type = SC_NVTX_MESSAGE_ASCII,
						.message = "ncclAllReduce"};
	void *nccl = domain("NCCL");

	push_in(nccl, &attributes);
	pop_in(nccl);
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The best of some rounds that fit in a ring, with time to read it between them. */
static void time_ranges(void)
{
	const struct timespec pause = {0, 20000000};
	int64_t best = INT64_MAX;

	for (int i = 0; i < N_TIMED; i += N_ROUND) {
		int64_t begin = now_ns(), ns;

		for (int k = 0; k < N_ROUND; k++) {
			push("timed");
			pop();
		}
		ns = now_ns() - begin;
		best = ns < best ? ns : best;
		nanosleep(&pause, NULL);
	}
	printf("ns_per_range=%.1f\n", (double)best / N_ROUND);
	for (int i = 0; i < N_BURST; i++) { /* faster than it is read: held back, not lost */
		push("burst");
		pop();
	}
}

/* A null communicator is refused by NCCL, after it has told NVTX of the call. */
static void call_real_nccl(const char *path)
{
	void *library = dlopen(path, RTLD_NOW), *found;
	int (*all_reduce)(const void *, void *, size_t, int, int, void *, void *);

	if (!library) {
		printf("skipped: no NCCL: %s\n", dlerror());
		exit(77);
	}
	found = dlsym(library, "ncclAllReduce");
	memcpy(&all_reduce, &found, sizeof(found));
	REQUIRE(all_reduce(NULL, NULL, 1000, 7, 0, NULL, NULL) != 0);
}

static int count(const struct sc_trace *trace, enum sc_event_class cls, const char *name)
{
	int n = 0;

	for (size_t i = 0; i < trace->events.n; i++) {
		const struct sc_trace_event *event = &trace->events.at[i];

		n += event->cls == cls && strcmp(trace->strings.at[event->name], name) == 0;
	}
	return n;
}

static void check_ranges(const struct sc_trace *trace)
{
	REQUIRE(count(trace, SC_EV_RANGE, "outer") == 1);
	REQUIRE(count(trace, SC_EV_RANGE, "wide \xc3\xa9") == 1);
	REQUIRE(count(trace, SC_EV_RANGE, "mylib:registered name") == 1);
	REQUIRE(count(trace, SC_EV_RANGE, "started") == 1);
	REQUIRE(count(trace, SC_EV_RANGE, "deep") == 64);
	REQUIRE(count(trace, SC_EV_RANGE, "timed") == N_TIMED);
	REQUIRE(count(trace, SC_EV_RANGE, "burst") == N_BURST);
	REQUIRE(count(trace, SC_EV_MARK, "a mark") == 1);
	REQUIRE(count(trace, SC_EV_COMM, "ncclAllReduce") == 1);
	for (size_t i = 0; i < trace->events.n; i++) {
		const struct sc_trace_event *event = &trace->events.at[i];
		const struct sc_trace_comm *comm = &trace->comms.at[event->comm];

		REQUIRE(event->dur_ns >= 0);
		if (event->cls != SC_EV_COMM)
			continue;
		REQUIRE(comm->comm_hash == UINT64_C(0x1234567890abcdef) && comm->bytes == 4096);
		REQUIRE(event->external_id > 0);
	}
}

static const char *only_trace(const char *dir, char *path, size_t n)
{
	DIR *at = opendir(dir);
	struct dirent *entry;
	int found = 0;

	while (at && (entry = readdir(at))) {
		size_t length = strlen(entry->d_name), m = strlen(SC_TRACE_SUFFIX);

		if (length > m && strcmp(entry->d_name + length - m, SC_TRACE_SUFFIX) == 0) {
			snprintf(path, n, "%s/%s", dir, entry->d_name);
			found++;
		}
	}
	if (at)
		closedir(at);
	REQUIRE(found == 1);
	return path;
}

static void *symbol(const char *library, const char *name)
{
	void *at = dlopen(library, RTLD_NOW), *found = at ? dlsym(at, name) : NULL;

	REQUIRE(found);
	return found;
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
	REQUIRE(entry(get_table) == 1);
}

int main(int argc, char **argv)
{
	void *found;
	void (*end)(void);
	struct sc_trace trace;
	struct sc_err err = {.code = SC_OK};
	char path[4096];

	REQUIRE(argc >= 3);
	setenv("STEPCAST_DIR", argv[2], 1);
	if (argc > 3) {
		setenv("NVTX_INJECTION64_PATH", argv[1], 1);
		call_real_nccl(argv[3]);
	} else {
		attach(argv[1]);
		call_ranges();
		call_nccl_payload();
		time_ranges();
	}
	found = symbol(argv[1], "sc_capture_stop");
	memcpy(&end, &found, sizeof(end));
	end();
	if (sc_trace_load(only_trace(argv[2], path, sizeof(path)), NULL, &trace, &err)) {
		printf("problem: %s\n", err.text);
		return 1;
	}
	if (argc == 3)
		check_ranges(&trace);
	else
		REQUIRE(count(&trace, SC_EV_COMM, "ncclAllReduce") == 1);
	sc_trace_release(&trace);
	puts("ok");
	return 0;
}
