/* The order of rows by (group, time): stable, in linear time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct sc_row_key {
	uint64_t time; /* of int64 times: less the smallest one */
	uint32_t group;
	uint32_t row;
};
/* Sorts `keys`; `spare` has room for n more. Returns whichever of the two has the result. */
struct sc_row_key *sc_row_sort(struct sc_row_key *keys, struct sc_row_key *spare, size_t n);
