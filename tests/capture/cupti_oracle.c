/* The real libcupti that the tracer finds (STEPCAST_CUPTI: another) walks buffers as we do: strides
 * of all kinds, mixed records, a cut last record; and the sizes that its version is known to have
 * are its own. Needs no driver, except from 13.2 on. Exit 77 without. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/capture/cupti_load.h"

enum { N_BYTES = 64 << 10 };

/* Records of all traced kinds in turn, to the end of the buffer. */
static size_t fill(uint8_t *buffer, const uint16_t *strides)
{
	static const uint32_t kinds[] = {SC_CUPTI_KERNEL,  SC_CUPTI_RUNTIME, SC_CUPTI_EXTERNAL,
					 SC_CUPTI_MEMCPY,  SC_CUPTI_SYNC,    SC_CUPTI_CUDA_EVENT,
					 SC_CUPTI_MEMSET,  SC_CUPTI_DRIVER,  SC_CUPTI_MEMCPY_P2P,
					 SC_CUPTI_OVERHEAD};
	size_t at = 0;

	memset(buffer, 0, N_BYTES);
	for (unsigned i = 0; at + 8 <= N_BYTES; i++) {
		uint32_t kind = kinds[i * 7 % (sizeof(kinds) / sizeof(kinds[0]))];

		memcpy(buffer + at, &kind, sizeof(kind));
		at += strides[kind];
	}
	return N_BYTES;
}

static int refuse(uint8_t *buffer, size_t valid, void **record)
{
	(void)buffer, (void)valid, (void)record;
	return SC_CUPTI_UNKNOWN;
}

int main(void)
{
	static uint64_t words[N_BYTES / 8];
	uint8_t *buffer = (uint8_t *)words;
	uint16_t strides[SC_CUPTI_MAX_KIND + 1], known[SC_CUPTI_MAX_KIND + 1];
	int (*walk)(uint8_t *, size_t, void **);
	struct sc_cupti cupti;
	void *record = NULL;
	size_t at = 0, n;
	long n_records = 0;

	if (!sc_cupti_load(&cupti)) {
		printf("skipped: %s\n", cupti.path);
		return 77;
	}
	walk = cupti.get_next_record;
	/* A walk of nothing ends at once, if there are walks at all. */
	if (cupti.get_next_record(buffer, 0, &record) == SC_CUPTI_UNKNOWN) {
		printf("skipped: %s walks nothing without a driver\n", cupti.path);
		return 77;
	}
	record = NULL;
	if (!sc_cupti_learn_strides(&cupti, strides)) {
		printf("problem: no size of kernels\n");
		return 1;
	}
	/* The table against the walk. */
	cupti.get_next_record = refuse;
	if (sc_cupti_learn_strides(&cupti, known)) {
		for (int kind = 0; kind <= SC_CUPTI_MAX_KIND; kind++) {
			if (known[kind] && known[kind] != strides[kind]) {
				printf("problem: kind %d is of %d bytes, not %d\n", kind,
				       strides[kind], known[kind]);
				return 1;
			}
		}
	}
	printf("sizes %s\n", known[SC_CUPTI_KERNEL] ? "known by version" : "not known by version");
	cupti.get_next_record = walk;
	printf("CUPTI %u: kernel %u memcpy %u sync %u event %u\n", cupti.version,
	       strides[SC_CUPTI_KERNEL], strides[SC_CUPTI_MEMCPY], strides[SC_CUPTI_SYNC],
	       strides[SC_CUPTI_CUDA_EVENT]);
	n = fill(buffer, strides);
	while (cupti.get_next_record(buffer, n, &record) == SC_CUPTI_OK) {
		uint32_t kind;

		if ((uint8_t *)record != buffer + at) {
			printf("problem: record %ld at %td, not %zu\n", n_records,
			       (uint8_t *)record - buffer, at);
			return 1;
		}
		memcpy(&kind, record, sizeof(kind));
		at += strides[kind];
		n_records++;
	}
	printf("%ld records walked alike\n", n_records);
	return n_records > 100 && at + strides[SC_CUPTI_KERNEL] >= n ? 0 : 1;
}
