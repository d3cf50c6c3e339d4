/* The part of NVTX's tool interface that the tracer uses, in our own words. tests/capture checks it
 * against the real headers where they are installed. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

enum { SC_NVTX_TABLE_CALLBACKS = 1 };
enum { SC_NVTX_MODULE_CORE = 1, SC_NVTX_MODULE_CORE2 = 5 };
enum sc_nvtx_core {
	SC_NVTX_MARK_EX = 1,
	SC_NVTX_MARK_A,
	SC_NVTX_MARK_W,
	SC_NVTX_START_EX,
	SC_NVTX_START_A,
	SC_NVTX_START_W,
	SC_NVTX_END,
	SC_NVTX_PUSH_EX,
	SC_NVTX_PUSH_A,
	SC_NVTX_PUSH_W,
	SC_NVTX_POP,
	SC_NVTX_NAME_CATEGORY_A,
	SC_NVTX_NAME_CATEGORY_W,
	SC_NVTX_NAME_THREAD_A,
	SC_NVTX_NAME_THREAD_W
};
enum sc_nvtx_core2 {
	SC_NVTX_DOMAIN_MARK_EX = 1,
	SC_NVTX_DOMAIN_START_EX,
	SC_NVTX_DOMAIN_END,
	SC_NVTX_DOMAIN_PUSH_EX,
	SC_NVTX_DOMAIN_POP,
	SC_NVTX_DOMAIN_REGISTER_A = 10,
	SC_NVTX_DOMAIN_REGISTER_W,
	SC_NVTX_DOMAIN_CREATE_A,
	SC_NVTX_DOMAIN_CREATE_W
};
enum { SC_NVTX_MESSAGE_ASCII = 1, SC_NVTX_MESSAGE_WIDE, SC_NVTX_MESSAGE_REGISTERED };
#define SC_NVTX_PAYLOAD_EXT 0xDFBD0009u

typedef void (*sc_nvtx_function)(void);
struct sc_nvtx_attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	uint32_t payload_type; /* SC_NVTX_PAYLOAD_EXT: `payload` points to `n_payloads` of them */
	int32_t n_payloads;
	uint64_t payload;
	int32_t message_type;
	const void *message;
};
struct sc_nvtx_payload {
	uint64_t schema;
	size_t size;
	const void *data;
};
struct sc_nvtx_callbacks {
	size_t size;
	int (*get_functions)(int module, sc_nvtx_function ***table, unsigned *n);
};
typedef const void *(*sc_nvtx_get_table)(uint32_t id);
