/* A hash of bytes, and a table from a hash to a number that grows by doubling. The hash is after
 * wyhash, without its secret; a hash stands for its bytes, so two texts of one hash are one. */
#include "trace/capture/hash_ids.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 1024 };

/* wyhash's mixing of 64-bit words (Wang Yi), without its secret. */
static uint64_t mum(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 wide;
	wide product = (wide)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t sc_hash_bytes(const void *data, size_t n)
{
	const uint8_t *at = data;
	uint64_t hash = UINT64_C(0xa0761d6478bd642f) ^ n, word;

	for (; n >= 8; n -= 8, at += 8) {
		memcpy(&word, at, 8);
		hash = mum(hash ^ word, UINT64_C(0xe7037ed1a0b428db));
	}
	word = 0;
	memcpy(&word, at, n);
	hash = mum(hash ^ word, UINT64_C(0x8ebc6af09c88c6e3));
	return mum(hash ^ UINT64_C(0x589965cc75374cc3), UINT64_C(0xe7037ed1a0b428db));
}

static struct sc_hash_id *id_slot(const struct sc_hash_ids *ids, uint64_t hash)
{
	size_t mask = ids->n_slots - 1, i = (size_t)hash & mask;

	while (ids->slots[i].id && ids->slots[i].hash != hash)
		i = (i + 1) & mask;
	return &ids->slots[i];
}

static int ids_grow(struct sc_hash_ids *ids)
{
	struct sc_hash_ids bigger = *ids;

	bigger.n_slots = ids->n_slots ? ids->n_slots * 2 : FIRST_SLOTS;
	bigger.slots = calloc(bigger.n_slots, sizeof(*bigger.slots));
	if (!bigger.slots)
		return 0;
	for (size_t i = 0; i < ids->n_slots; i++)
		if (ids->slots[i].id)
			*id_slot(&bigger, ids->slots[i].hash) = ids->slots[i];
	free(ids->slots);
	*ids = bigger;
	return 1;
}

uint32_t sc_hash_ids_put(struct sc_hash_ids *ids, uint64_t hash, int *is_new)
{
	struct sc_hash_id *slot;

	*is_new = 0;
	if ((size_t)ids->n * 4 >= ids->n_slots * 3 && !ids_grow(ids))
		return 0;
	slot = id_slot(ids, hash);
	if (slot->id)
		return slot->id;
	if (ids->n >= ids->limit)
		return 0;
	*is_new = 1;
	slot->hash = hash;
	slot->id = ++ids->n;
	return slot->id;
}

void sc_hash_ids_release(struct sc_hash_ids *ids)
{
	free(ids->slots);
	ids->slots = NULL;
	ids->n_slots = 0;
	ids->n = 0;
}
