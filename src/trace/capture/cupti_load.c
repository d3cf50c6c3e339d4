/* Finds a CUPTI that goes with the driver, opens it while the program runs, and takes its functions
 * by name, so that nothing of NVIDIA's is linked. A library without a REQUIRED function is refused
 * by name; OPTIONAL ones came with later versions. */
#include "trace/capture/cupti_load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SONAME is libcupti.so.<major> since 12.0 and libcupti.so.11.<minor> before. */
static const char *const NAMES[] = {
	"libcupti.so.13",   "libcupti.so.12",   "libcupti.so.14",   "libcupti.so.11.8",
	"libcupti.so.11.7", "libcupti.so.11.6", "libcupti.so.11.5", "libcupti.so.11.4",
	"libcupti.so.11.3", "libcupti.so.11.2", "libcupti.so.11.1", "libcupti.so.11.0",
	"libcupti.so",
};
enum { N_NAMES = sizeof(NAMES) / sizeof(NAMES[0]) };

enum need { OPTIONAL, REQUIRED, DRIVER };
struct symbol {
	const char *name;
	size_t at;
	enum need need;
};
#define AT(member) offsetof(struct sc_cupti, member)
static const struct symbol SYMBOLS[] = {
	{"cuptiGetVersion", AT(get_version), REQUIRED},
	{"cuptiActivityRegisterCallbacks", AT(register_callbacks), REQUIRED},
	{"cuptiActivityEnable", AT(enable), REQUIRED},
	{"cuptiActivityDisable", AT(disable), REQUIRED},
	{"cuptiActivityFlushAll", AT(flush_all), REQUIRED},
	{"cuptiActivityGetNextRecord", AT(get_next_record), REQUIRED},
	{"cuptiActivityGetNumDroppedRecords", AT(get_dropped), OPTIONAL},
	{"cuptiActivitySetAttribute", AT(set_attribute), OPTIONAL},
	{"cuptiSetThreadIdType", AT(set_thread_id_type), OPTIONAL},
	{"cuptiActivityRegisterTimestampCallback", AT(register_timestamp), OPTIONAL},
	{"cuptiActivityPushExternalCorrelationId", AT(push_external), OPTIONAL},
	{"cuptiActivityPopExternalCorrelationId", AT(pop_external), OPTIONAL},
	{"cuptiActivityEnableRuntimeApi", AT(enable_runtime_api), OPTIONAL},
	{"cuptiActivityEnableDriverApi", AT(enable_driver_api), OPTIONAL},
	{"cuptiActivityEnableAllSyncRecords", AT(enable_all_sync), OPTIONAL},
	{"cuptiActivityEnableCudaEventDeviceTimestamps", AT(enable_event_times), OPTIONAL},
	{"cuptiGetCallbackName", AT(get_callback_name), OPTIONAL},
	{"cuptiGetResultString", AT(get_result_string), OPTIONAL},
	{"cuDriverGetVersion", AT(get_driver_version), DRIVER},
	{"cuDeviceGetCount", AT(get_device_count), DRIVER},
};

/* --- finding it --- */

static void open_named(struct sc_cupti *out, const char *name, int mode)
{
	if (!out->library && name && *name && (out->library = dlopen(name, mode)))
		snprintf(out->path, sizeof(out->path), "%s", name);
}

static void open_in(struct sc_cupti *out, const char *dir, const char *below)
{
	char path[4096];

	for (size_t i = 0; i < N_NAMES; i++) {
		snprintf(path, sizeof(path), "%s/%s%s", dir, below, NAMES[i]);
		open_named(out, path, RTLD_NOW | RTLD_LOCAL);
	}
}

/* A program may map CUPTI later than now (JAX), or never: that of the same CUDA is beside its
 * runtime, or, in wheels before CUDA 13, in a folder beside that one's. */
static void open_beside(struct sc_cupti *out)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096];

	while (!out->library && maps && fgets(line, sizeof(line), maps)) {
		char *dir = strchr(line, '/'), *end = dir ? strstr(dir, "/libcudart.so") : NULL;

		if (!end && (!dir || !(end = strstr(dir, "/libcublas.so"))))
			continue;
		*end = '\0';
		open_in(out, dir, "");
		open_in(out, dir, "../../cuda_cupti/lib/");
	}
	if (maps)
		fclose(maps);
}

/* CUPTI 13.2, told by what came with it and what came only after it, calls itself without end where
 * it cannot start its driver's side: nothing of it is called below a driver of its own version. */
static bool would_crash(const struct sc_cupti *cupti)
{
	enum { CUDA_13_2 = 13020 };
	int version = 0;

	return dlsym(cupti->library, "cuptiActivityEnable_v2") &&
	       !dlsym(cupti->library, "cuptiActivityGetNextRecord_v2") &&
	       (!cupti->get_driver_version || cupti->get_driver_version(&version) != 0 ||
		version < CUDA_13_2);
}

bool sc_cupti_load(struct sc_cupti *out)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < N_NAMES; i++)
		open_named(out, NAMES[i], RTLD_NOW | RTLD_NOLOAD);
	open_named(out, getenv("STEPCAST_CUPTI"), RTLD_NOW | RTLD_LOCAL);
	open_beside(out);
	for (size_t i = 0; i < N_NAMES; i++)
		open_named(out, NAMES[i], RTLD_NOW | RTLD_LOCAL);
	open_in(out, "/usr/local/cuda", "lib64/");
	open_in(out, "/usr/local/cuda", "extras/CUPTI/lib64/");
	if (!out->library) {
		snprintf(out->path, sizeof(out->path),
			 "no libcupti was found; set STEPCAST_CUPTI to its path");
		return false;
	}
	for (size_t i = 0; i < sizeof(SYMBOLS) / sizeof(SYMBOLS[0]); i++) {
		void *library = SYMBOLS[i].need == DRIVER ? driver : out->library;
		void *found = library ? dlsym(library, SYMBOLS[i].name) : NULL;

		if (!found && SYMBOLS[i].need == REQUIRED) {
			snprintf(out->path, sizeof(out->path), "CUPTI without %s", SYMBOLS[i].name);
			return false;
		}
		/* ISO C has no cast from object to function pointers; POSIX says they are alike. */
		memcpy((char *)out + SYMBOLS[i].at, &found, sizeof(found));
	}
	if (would_crash(out)) {
		snprintf(out->path, sizeof(out->path),
			 "CUPTI 13.2 needs a driver of CUDA 13.2 or later");
		return false;
	}
	out->get_version(&out->version);
	return true;
}

/* --- what its records are --- */

/* By version, from its headers: for a library that walks only its own buffers. 18 is both 11.8's
 * and 12.0's, which differ: it is not here. */
static const uint32_t SIZED[] = {SC_CUPTI_KERNEL,   SC_CUPTI_MEMCPY,  SC_CUPTI_MEMCPY_P2P,
				 SC_CUPTI_MEMSET,   SC_CUPTI_SYNC,    SC_CUPTI_CUDA_EVENT,
				 SC_CUPTI_OVERHEAD, SC_CUPTI_RUNTIME, SC_CUPTI_DRIVER,
				 SC_CUPTI_EXTERNAL};
enum { N_SIZED = sizeof(SIZED) / sizeof(SIZED[0]) };
static const struct {
	uint32_t first, last;
	uint16_t bytes[N_SIZED];
} SIZES[] = {
	{22, 24, {208, 88, 96, 88, 40, 24, 56, 40, 40, 24}}, /* CUDA 12.4 */
	{26, 28, {208, 96, 96, 88, 56, 56, 56, 40, 40, 24}}, /* CUDA 12.8 */
	{130000, 130099, {216, 96, 96, 88, 56, 56, 56, 40, 40, 24}},
	{130100, 130299, {224, 96, 96, 88, 56, 56, 56, 40, 40, 24}},
	{130300, 130399, {232, 96, 96, 88, 56, 56, 56, 40, 40, 24}},
	{130400, 130499, {248, 112, 96, 104, 56, 56, 56, 40, 40, 24}},
	{130500, 130599, {248, 112, 96, 104, 56, 80, 56, 40, 40, 24}},
};

enum { PATTERN_BYTES = 4096 };

/* Bytes from one record of a kind to the next in this library, 0 if it does not know the kind: a
 * buffer full of the kind's number is walked two steps. Needs no driver. */
static uint16_t cupti_learn_stride(const struct sc_cupti *cupti, uint32_t kind)
{
	union {
		uint64_t words[PATTERN_BYTES / sizeof(uint64_t)];
		uint8_t bytes[PATTERN_BYTES];
	} pattern;
	void *first = NULL, *second = NULL;
	ptrdiff_t stride;

	for (size_t i = 0; i < PATTERN_BYTES / sizeof(uint64_t); i++)
		pattern.words[i] = kind;
	if (cupti->get_next_record(pattern.bytes, PATTERN_BYTES, &first) != SC_CUPTI_OK)
		return 0;
	second = first;
	if (cupti->get_next_record(pattern.bytes, PATTERN_BYTES, &second) != SC_CUPTI_OK)
		return 0;
	stride = (uint8_t *)second - (uint8_t *)first;
	return stride > 0 && stride % 8 == 0 && stride < PATTERN_BYTES ? (uint16_t)stride : 0;
}

bool sc_cupti_learn_strides(const struct sc_cupti *cupti, uint16_t strides[SC_CUPTI_MAX_KIND + 1])
{
	strides[0] = 0;
	for (uint32_t kind = 1; kind <= SC_CUPTI_MAX_KIND; kind++)
		strides[kind] = cupti_learn_stride(cupti, kind);
	for (size_t i = 0; strides[SC_CUPTI_KERNEL] == 0 && i < sizeof(SIZES) / sizeof(SIZES[0]);
	     i++) {
		if (cupti->version < SIZES[i].first || cupti->version > SIZES[i].last)
			continue;
		for (int k = 0; k < N_SIZED; k++)
			strides[SIZED[k]] = SIZES[i].bytes[k];
	}
	return strides[SC_CUPTI_KERNEL] > 0;
}
