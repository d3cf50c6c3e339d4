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

struct symbol {
	const char *name;
	size_t at;
	bool required;
};
#define AT(member) offsetof(struct sc_cupti, member)
static const struct symbol SYMBOLS[] = {
	{"cuptiGetVersion", AT(get_version), true},
	{"cuptiActivityRegisterCallbacks", AT(register_callbacks), true},
	{"cuptiActivityEnable", AT(enable), true},
	{"cuptiActivityDisable", AT(disable), true},
	{"cuptiActivityFlushAll", AT(flush_all), true},
	{"cuptiActivityGetNextRecord", AT(get_next_record), true},
	{"cuptiActivityGetNumDroppedRecords", AT(get_dropped), false},
	{"cuptiActivitySetAttribute", AT(set_attribute), false},
	{"cuptiSetThreadIdType", AT(set_thread_id_type), false},
	{"cuptiActivityRegisterTimestampCallback", AT(register_timestamp), false},
	{"cuptiActivityPushExternalCorrelationId", AT(push_external), false},
	{"cuptiActivityPopExternalCorrelationId", AT(pop_external), false},
	{"cuptiActivityEnableRuntimeApi", AT(enable_runtime_api), false},
	{"cuptiActivityEnableDriverApi", AT(enable_driver_api), false},
	{"cuptiActivityEnableAllSyncRecords", AT(enable_all_sync), false},
	{"cuptiGetCallbackName", AT(get_callback_name), false},
	{"cuptiGetResultString", AT(get_result_string), false},
};

static void open_named(struct sc_cupti *out, const char *name, int mode)
{
	if (!out->library && name && *name && (out->library = dlopen(name, mode)))
		snprintf(out->path, sizeof(out->path), "%s", name);
}

bool sc_cupti_load(struct sc_cupti *out)
{
	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < N_NAMES; i++)
		open_named(out, NAMES[i], RTLD_NOW | RTLD_NOLOAD);
	open_named(out, getenv("STEPCAST_CUPTI"), RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; i < N_NAMES; i++)
		open_named(out, NAMES[i], RTLD_NOW | RTLD_LOCAL);
	if (!out->library) {
		snprintf(out->path, sizeof(out->path), "no libcupti found");
		return false;
	}
	for (size_t i = 0; i < sizeof(SYMBOLS) / sizeof(SYMBOLS[0]); i++) {
		void *found = dlsym(out->library, SYMBOLS[i].name);

		if (!found && SYMBOLS[i].required) {
			snprintf(out->path, sizeof(out->path), "CUPTI without %s", SYMBOLS[i].name);
			return false;
		}
		/* ISO C has no cast from object to function pointers; POSIX says they are alike. */
		memcpy((char *)out + SYMBOLS[i].at, &found, sizeof(found));
	}
	out->get_version(&out->version);
	return true;
}

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

void sc_cupti_learn_strides(const struct sc_cupti *cupti, uint16_t strides[SC_CUPTI_MAX_KIND + 1])
{
	strides[0] = 0;
	for (uint32_t kind = 1; kind <= SC_CUPTI_MAX_KIND; kind++)
		strides[kind] = cupti_learn_stride(cupti, kind);
}
