/* Answers remembered by all that was asked: a key of numbers, compared bit by bit. Emptied when
 * full, so that it never grows without bound. One thread. */
#pragma once

#include <stddef.h>
#include <string.h>

#include "base/vec.h"

struct sc_memo;
struct sc_memo_key {
	SC_VEC(double) numbers;
};

/* For at most half as many answers as slots, a power of 2, and 16 MiB of them. */
struct sc_memo *sc_memo_create(size_t n_slots);
void sc_memo_destroy(struct sc_memo *memo);
/* The key to fill, empty; valid until the next. */
struct sc_memo_key *sc_memo_begin(struct sc_memo *memo);
/* The answer to what the key says, which holds until the next is added; NULL: not known. */
const double *sc_memo_find(struct sc_memo *memo);
/* `n` numbers to fill: the answer to what the key says, which must not be known. */
double *sc_memo_add(struct sc_memo *memo, size_t n);

static inline void sc_memo_put(struct sc_memo_key *key, double number)
{
	SC_VEC_PUSH(&key->numbers, number);
}
/* The bytes of plain data, whose pointers are none or to what lives as long as the memo. */
static inline void sc_memo_put_bytes(struct sc_memo_key *key, const void *bytes, size_t n_bytes)
{
	const size_t n = (n_bytes + sizeof(double) - 1) / sizeof(double);

	SC_VEC_RESERVE(&key->numbers, key->numbers.n + n);
	if (n)
		key->numbers.at[key->numbers.n + n - 1] = 0;
	memcpy(key->numbers.at + key->numbers.n, bytes, n_bytes);
	key->numbers.n += n;
}
static inline void sc_memo_put_all(struct sc_memo_key *key, const double *numbers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		SC_VEC_PUSH(&key->numbers, numbers[i]);
}
