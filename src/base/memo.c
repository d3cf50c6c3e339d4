/* Open addressing; keys and answers lie in an arena, the answer behind its key. */
#include "base/memo.h"

#include <stdint.h>
#include <string.h>

enum { MOST_BYTES = 16 << 20 };

struct entry {
	uint64_t hash;
	size_t n_key;
	double *at; /* NULL: empty */
};
struct sc_memo {
	struct sc_memo_key key;
	struct sc_arena arena;
	size_t n_entries, n_bytes, n_slots;
	struct entry entries[];
};

struct sc_memo *sc_memo_create(size_t n_slots)
{
	struct sc_memo *memo = sc_xcalloc(1, sizeof(*memo) + n_slots * sizeof(*memo->entries));

	memo->n_slots = n_slots;
	sc_arena_init(&memo->arena, 1 << 16);
	return memo;
}

void sc_memo_destroy(struct sc_memo *memo)
{
	if (!memo)
		return;
	SC_VEC_RELEASE(&memo->key.numbers);
	sc_arena_release(&memo->arena);
	free(memo);
}

struct sc_memo_key *sc_memo_begin(struct sc_memo *memo)
{
	memo->key.numbers.n = 0;
	return &memo->key;
}

static uint64_t mix(uint64_t h, uint64_t bits)
{
	h = (h ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 32;
}

/* Every second number goes its own way: their products need not wait for each other. */
static uint64_t key_hash(const struct sc_memo_key *key)
{
	uint64_t h[2] = {key->numbers.n, 0}, bits[2] = {0};

	for (size_t i = 0; i + 1 < key->numbers.n; i += 2) {
		memcpy(bits, &key->numbers.at[i], sizeof(bits));
		h[0] = mix(h[0], bits[0]);
		h[1] = mix(h[1], bits[1]);
	}
	if (key->numbers.n % 2)
		memcpy(bits, &key->numbers.at[key->numbers.n - 1], sizeof(bits[0]));
	return mix(mix(h[0], h[1]), bits[0]);
}

/* The slot where the key is, or would be. */
static struct entry *memo_find(struct sc_memo *memo)
{
	const struct sc_memo_key *key = &memo->key;
	size_t n_bytes = key->numbers.n * sizeof(*key->numbers.at);
	uint64_t h = key_hash(key);
	struct entry *e = &memo->entries[h & (memo->n_slots - 1)];

	while (e->at && (e->hash != h || e->n_key != key->numbers.n ||
			 (n_bytes && memcmp(e->at, key->numbers.at, n_bytes) != 0)))
		e = e + 1 < memo->entries + memo->n_slots ? e + 1 : memo->entries;
	e->hash = h;
	return e;
}

const double *sc_memo_find(struct sc_memo *memo)
{
	const struct entry *e = memo_find(memo);

	return e->at ? e->at + e->n_key : NULL;
}

double *sc_memo_add(struct sc_memo *memo, size_t n)
{
	size_t n_key = memo->key.numbers.n, n_bytes = (n_key + n) * sizeof(double);
	struct entry *e;

	if (memo->n_entries >= memo->n_slots / 2 || memo->n_bytes + n_bytes > MOST_BYTES) {
		const struct sc_arena_mark start = {0};

		memset(memo->entries, 0, memo->n_slots * sizeof(*memo->entries));
		memo->n_entries = memo->n_bytes = 0;
		sc_arena_rewind(&memo->arena, start);
	}
	e = memo_find(memo);
	e->n_key = n_key;
	e->at = sc_arena_alloc(&memo->arena, n_bytes);
	if (n_key)
		memcpy(e->at, memo->key.numbers.at, n_key * sizeof(double));
	memo->n_entries++;
	memo->n_bytes += n_bytes;
	return e->at + n_key;
}
