/* The CUPTI of this process behind a struct of functions: found, not linked. */
#pragma once

#include <stdbool.h>

#include "trace/capture/cupti_abi.h"

struct sc_cupti {
	void *library;
	uint32_t version;
	char path[4096]; /* what was opened, or why nothing was */
	int (*get_version)(uint32_t *version);
	int (*register_callbacks)(sc_cupti_request_fn request, sc_cupti_complete_fn complete);
	int (*enable)(int kind);
	int (*disable)(int kind);
	int (*flush_all)(uint32_t flags);
	int (*get_next_record)(uint8_t *buffer, size_t valid, void **record);
	/* From here on a library may lack them: NULL. */
	int (*get_dropped)(void *context, uint32_t stream, size_t *n);
	int (*set_attribute)(int attribute, size_t *size, void *value);
	int (*set_thread_id_type)(int type);
	int (*register_timestamp)(sc_cupti_timestamp_fn now);
	int (*push_external)(int kind, uint64_t id);
	int (*pop_external)(int kind, uint64_t *last);
	int (*enable_runtime_api)(uint32_t cbid, uint8_t enable);
	int (*enable_driver_api)(uint32_t cbid, uint8_t enable);
	int (*enable_all_sync)(uint8_t enable);
	int (*enable_event_times)(uint8_t enable);
	int (*get_callback_name)(int domain, uint32_t cbid, const char **name);
	int (*get_result_string)(int result, const char **text);
	/* The driver's; NULL without one. */
	int (*get_driver_version)(int *version);
	int (*get_device_count)(int *n);
};

/* The copy that is mapped already comes first: two copies in one process cannot both trace. Then
 * STEPCAST_CUPTI, that of the CUDA whose libraries are mapped, the names of all versions, the usual
 * folder. False: `out->path` says why. */
bool sc_cupti_load(struct sc_cupti *out);
/* Bytes of each kind of records: as the library walks them, or as its version is known to have
 * them. False: neither. */
bool sc_cupti_learn_strides(const struct sc_cupti *cupti, uint16_t strides[SC_CUPTI_MAX_KIND + 1]);
