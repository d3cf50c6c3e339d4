/* An open-addressing hash table of ids; the texts lie in an arena. */
#include "base/intern.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 64 };

/* Eight bytes a step: the longest texts, operators' shapes, are looked up for each event. */
static uint32_t hash_bytes(const char *at, size_t n)
{
	const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15); /* 2^64 / golden ratio */
	uint64_t hash = n * factor, word;

	for (; n >= 8; n -= 8, at += 8) {
		memcpy(&word, at, sizeof(word));
		hash = (hash ^ word) * factor;
		hash ^= hash >> 32;
	}
	word = 0;
	if (n)
		memcpy(&word, at, n);
	hash = (hash ^ word) * factor;
	return (uint32_t)(hash >> 32);
}

void sc_intern_release(struct sc_intern *table)
{
	sc_arena_release(&table->texts);
	SC_VEC_RELEASE(&table->entries);
	free(table->slots);
	*table = (struct sc_intern){0};
}

/* The slot that holds the text, or the free one where it belongs. The table is never full. */
static uint32_t *find_slot(const struct sc_intern *table, const char *text, size_t n, uint32_t hash)
{
	size_t at = hash & (table->n_slots - 1);

	for (;; at = (at + 1) & (table->n_slots - 1)) {
		uint32_t id = table->slots[at];
		const struct sc_intern_entry *entry;

		if (id == SC_INTERN_NONE)
			return &table->slots[at];
		entry = &table->entries.at[id];
		if (entry->hash == hash && entry->n_bytes == n && memcmp(entry->text, text, n) == 0)
			return &table->slots[at];
	}
}

/* At most half of the slots are used, so that searches stay short. */
static void make_room(struct sc_intern *table)
{
	if (table->entries.n * 2 < table->n_slots)
		return;
	table->n_slots = table->n_slots ? table->n_slots * 2 : FIRST_SLOTS;
	table->slots = sc_xrealloc(table->slots, table->n_slots, sizeof(*table->slots));
	memset(table->slots, 0xFF, table->n_slots * sizeof(*table->slots));
	for (size_t id = 0; id < table->entries.n; id++) {
		const struct sc_intern_entry *entry = &table->entries.at[id];

		*find_slot(table, entry->text, entry->n_bytes, entry->hash) = (uint32_t)id;
	}
}

uint32_t sc_intern_add_n(struct sc_intern *table, const char *text, size_t n)
{
	uint32_t hash = hash_bytes(text, n), *slot;
	struct sc_intern_entry entry;

	assert(n < UINT32_MAX && table->entries.n < SC_INTERN_NONE - 1);
	make_room(table);
	slot = find_slot(table, text, n, hash);
	if (*slot == SC_INTERN_NONE) {
		entry.text = sc_arena_memdup(&table->texts, text, n);
		entry.n_bytes = (uint32_t)n;
		entry.hash = hash;
		*slot = (uint32_t)table->entries.n;
		SC_VEC_PUSH(&table->entries, entry);
	}
	return *slot;
}

uint32_t sc_intern_find(const struct sc_intern *table, const char *text)
{
	size_t n = strlen(text);

	if (!table->n_slots)
		return SC_INTERN_NONE;
	return *find_slot(table, text, n, hash_bytes(text, n));
}

const char *sc_intern_get(const struct sc_intern *table, uint32_t id)
{
	assert(id < table->entries.n);
	return table->entries.at[id].text;
}
