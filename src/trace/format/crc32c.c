/* Without the instruction half a byte at a time: a table that fits in a line of cache. */
#include "trace/format/crc32c.h"

#include <string.h>

static uint32_t crc_by_table(uint32_t crc, const uint8_t *at, size_t n)
{
	/* The table is that of the reflected polynomial 0x82F63B78. */
	static const uint32_t table[16] = {
		0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3,
		0x61C69362, 0x7198540D, 0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9,
		0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75,
	};

	for (; n; n--, at++) {
		crc = table[(crc ^ *at) & 15] ^ (crc >> 4);
		crc = table[(crc ^ (uint32_t)(*at >> 4)) & 15] ^ (crc >> 4);
	}
	return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(uint32_t crc,
								     const uint8_t *at, size_t n)
{
	uint64_t wide = crc;

	for (; n >= 8; n -= 8, at += 8) {
		uint64_t word;

		memcpy(&word, at, sizeof(word));
		wide = __builtin_ia32_crc32di(wide, word);
	}
	crc = (uint32_t)wide;
	for (; n; n--, at++)
		crc = __builtin_ia32_crc32qi(crc, *at);
	return crc;
}
#endif

uint32_t sc_crc32c(uint32_t crc, const void *data, size_t n)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("sse4.2"))
		return ~crc_by_instruction(~crc, data, n);
#endif
	return ~crc_by_table(~crc, data, n);
}
