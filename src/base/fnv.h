/* The hash of tables and provenance: FNV-1a, 64 bits (Fowler, Noll, Vo); no secret one. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SC_FNV_START UINT64_C(14695981039346656037)

/* The hash of what was hashed before, or SC_FNV_START, and these bytes. */
static inline uint64_t sc_fnv(uint64_t hash, const void *bytes, size_t n)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ at[i]) * UINT64_C(1099511628211);
	return hash;
}

/* The same of numbers, bit by bit, eight bytes at a time: faster, and another hash. */
static inline uint64_t sc_fnv_words(uint64_t hash, const double *numbers, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t bits;

		memcpy(&bits, &numbers[i], sizeof(bits));
		hash = (hash ^ bits) * UINT64_C(1099511628211);
		hash ^= hash >> 32;
	}
	return hash;
}
