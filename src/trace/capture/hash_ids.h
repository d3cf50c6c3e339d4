/* Ids of things by a 64-bit hash of them, without the things: constant bytes an entry. Two of a
 * million different ones share a hash once in 40 million runs. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct sc_hash_ids {
	struct sc_hash_id {
		uint64_t hash;
		uint32_t id; /* 0: a free slot */
	} * slots;
	size_t n_slots;
	uint32_t n, limit; /* entries; no more than `limit` are taken */
};
uint64_t sc_hash_bytes(const void *data, size_t n);
/* The id of `hash`, 0 if it is new and there is no room; *is_new says that the id was given now. */
uint32_t sc_hash_ids_put(struct sc_hash_ids *ids, uint64_t hash, int *is_new);
void sc_hash_ids_release(struct sc_hash_ids *ids);
