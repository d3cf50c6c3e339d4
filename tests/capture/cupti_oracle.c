/* The real libcupti, where it is installed, walks buffers as we do: strides of all kinds, mixed records,
 * a cut last record. Needs no driver. Exit 77 without it. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/capture/cupti_load.h"

enum { N_BYTES = 64 << 10 };

static bool load(struct sc_cupti *cupti)
{
	static const char *const patterns[] = {
		"/usr/local/cuda*/lib*/libcupti.so.1*",
		"/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.1*"};
	glob_t found;

	if (sc_cupti_load(cupti))
		return true;
	for (int i = 0; i < 2; i++) {
		if (glob(patterns[i], 0, NULL, &found) == 0) {
			setenv("STEPCAST_CUPTI", found.gl_pathv[0], 1);
			globfree(&found);
			return sc_cupti_load(cupti);
		}
	}
	return false;
}

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

int main(void)
{
	static uint64_t words[N_BYTES / 8];
	uint8_t *buffer = (uint8_t *)words;
	uint16_t strides[SC_CUPTI_MAX_KIND + 1];
	struct sc_cupti cupti;
	void *record = NULL;
	size_t at = 0, n;
	long n_records = 0;

	if (!load(&cupti)) {
		printf("skipped: %s\n", cupti.path);
		return 77;
	}
	sc_cupti_learn_strides(&cupti, strides);
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
