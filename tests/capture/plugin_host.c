/* Does what NCCL does with a profiler plugin, in versions 2 to 6, and reads the trace that comes
 * out. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/capture/nccl_abi.h"
#include "trace/format/trace_file.h"

#define REQUIRE(condition)                                                      \
	do {                                                                    \
		if (!(condition)) {                                             \
			printf("problem: line %d: %s\n", __LINE__, #condition); \
			exit(1);                                                \
		}                                                               \
	} while (0)

static const uint64_t HASH = UINT64_C(0xfeedfacecafe0000);

static const struct sc_nccl_plugin_v2 *table(void *library, int version)
{
	char name[32];

	snprintf(name, sizeof(name), "ncclProfiler_v%d", version);
	return dlsym(library, name); /* start and the rest are in the same place in all */
}

static void *init(const void *at, int version)
{
	const struct sc_nccl_plugin_v2 *v2 = at;
	const struct sc_nccl_plugin_v4 *v4 = at;
	const struct sc_nccl_plugin_v5 *v5 = at;
	void *context = NULL;
	int mask = 0;

	if (version < 4)
		v2->at.init(&context, &mask);
	else if (version == 4)
		v4->at.init(&context, &mask, "pg", HASH + 4, 2, 16, 3, NULL);
	else
		v5->at.init(&context, HASH + (uint64_t)version, &mask, "pg", 2, 16, 3, NULL);
	REQUIRE(context && (mask & SC_NCCL_COLL) && (mask & SC_NCCL_P2P));
	REQUIRE(!(mask & (1 << 6))); /* kernel channels would make NCCL work more */
	return context;
}

/* The type is one byte in versions 2 and 3: what is in the other bytes is not ours. */
static struct sc_nccl_head head_of(int version, uint64_t type, void *parent)
{
	struct sc_nccl_head head = {.type = type, .parent = parent, .rank = 3};

	if (version < 4)
		head.type |= UINT64_C(0xabcdef1234567800);
	return head;
}

static void run_coll(const struct sc_nccl_plugin_v2 *plugin, void *context, int version,
		     void *group, uint64_t seq)
{
	struct sc_nccl_head head = head_of(version, SC_NCCL_COLL, group);
	const struct sc_nccl_coll coll = {
		.seq = seq, .func = "AllReduce", .count = 1000, .dtype = "ncclFloat32"};
	struct sc_nccl_event_v2 v2 = {.head = head,
				      .name = "pg",
				      .comm_hash = HASH + (uint64_t)version,
				      .call.coll = coll};
	struct sc_nccl_event_v4 v4 = {.head = head, .call.coll = coll};
	void *handle = NULL;

	plugin->at.start(context, &handle, version < 4 ? (void *)&v2 : (void *)&v4);
	REQUIRE(handle);
	plugin->at.state(handle, 3, NULL);
	plugin->at.stop(handle);
}

static void run_send(const struct sc_nccl_plugin_v2 *plugin, void *context, int version,
		     void *group)
{
	struct sc_nccl_head head = head_of(version, SC_NCCL_P2P, group);
	const struct sc_nccl_p2p p2p = {
		.func = "Send", .count = 50, .dtype = "ncclBfloat16", .peer = 5};
	struct sc_nccl_event_v2 v2 = {
		.head = head, .name = "pg", .comm_hash = HASH + (uint64_t)version, .call.p2p = p2p};
	struct sc_nccl_event_v4 v4 = {.head = head, .call.p2p = p2p};
	void *handle = NULL;

	plugin->at.start(context, &handle, version < 4 ? (void *)&v2 : (void *)&v4);
	REQUIRE(handle);
	plugin->at.stop(handle);
}

static void run_version(void *library, int version)
{
	const struct sc_nccl_plugin_v2 *plugin = table(library, version);
	struct sc_nccl_head group_head = head_of(version, SC_NCCL_GROUP, NULL);
	struct sc_nccl_head unwanted = head_of(version, 1 << 3, NULL);
	void *context, *group = NULL, *none = &group;

	REQUIRE(plugin && strcmp(plugin->at.name, "stepcast") == 0);
	context = init(plugin, version);
	plugin->at.start(context, &group, &group_head);
	REQUIRE(group);
	plugin->at.start(context, &none, &unwanted);
	REQUIRE(!none);
	run_coll(plugin, context, version, group, 41);
	plugin->at.stop(group);
	/* Parents may have stopped already. */
	run_coll(plugin, context, version, group, 42);
	run_send(plugin, context, version, group);
	plugin->at.stop(NULL);
	plugin->at.finalize(context);
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

static void check_event(const struct sc_trace *trace, const struct sc_trace_event *event, int *n_of)
{
	const struct sc_trace_comm *comm = &trace->comms.at[event->comm];
	uint64_t version = comm->comm_hash - HASH;
	bool is_send = strcmp(trace->strings.at[comm->collective], "Send") == 0;

	REQUIRE(version >= 2 && version <= 6);
	n_of[version]++;
	REQUIRE(comm->in_elems == (is_send ? 50 : 1000));
	REQUIRE(comm->bytes == (is_send ? 100 : 4000));
	REQUIRE(comm->peer == (is_send ? 5 : -1));
	REQUIRE(is_send || comm->seq == 41 || comm->seq == 42);
	REQUIRE(comm->group_size == (version < 4 ? -1 : 16));
	REQUIRE(strcmp(trace->strings.at[comm->group_name], "pg") == 0);
	REQUIRE(event->external_id > 0);
}

int main(int argc, char **argv)
{
	void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW), *found;
	void (*end)(void);
	int n_of[7] = {0};
	struct sc_trace trace;
	struct sc_err err = {.code = SC_OK};
	char path[4096];

	REQUIRE(argc == 3 && library);
	setenv("STEPCAST_DIR", argv[2], 1);
	for (int version = 2; version <= 6; version++)
		run_version(library, version);
	found = dlsym(library, "sc_capture_stop");
	memcpy(&end, &found, sizeof(end));
	end();
	if (sc_trace_load(only_trace(argv[2], path, sizeof(path)), NULL, &trace, &err)) {
		printf("problem: %s\n", err.text);
		return 1;
	}
	for (size_t i = 0; i < trace.events.n; i++) {
		if (trace.events.at[i].cls == SC_EV_COMM)
			check_event(&trace, &trace.events.at[i], n_of);
	}
	for (int version = 2; version <= 6; version++)
		REQUIRE(n_of[version] == 3);
	REQUIRE(trace.identity.world == 16 && trace.identity.rank == 3 && !trace.partial);
	sc_trace_release(&trace);
	puts("ok");
	return 0;
}
