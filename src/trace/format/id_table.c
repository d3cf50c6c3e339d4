/* Open addressing; at most half of the slots are used. */
#include "trace/format/id_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 256, FIRST_ROWS = 128 };

/* Eight bytes a step: long texts (shapes) are looked up for every event. */
static uint32_t hash_bytes(const uint8_t *at, size_t n)
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

static void make_room(struct sc_id_table *table, size_t row_bytes)
{
	if (table->n == table->cap) {
		assert(table->cap <= UINT32_MAX / 4);
		table->cap = table->cap ? table->cap * 2 : FIRST_ROWS;
		table->rows = sc_xrealloc(table->rows, table->cap, row_bytes);
		table->hashes = sc_xrealloc(table->hashes, table->cap, sizeof(*table->hashes));
	}
	if ((size_t)table->n * 2 < table->n_slots)
		return;
	table->n_slots = table->n_slots ? table->n_slots * 2 : FIRST_SLOTS;
	table->slots = sc_xrealloc(table->slots, table->n_slots, sizeof(*table->slots));
	memset(table->slots, 0, table->n_slots * sizeof(*table->slots));
	for (uint32_t i = 0; i < table->n; i++) {
		size_t at = table->hashes[i] & (table->n_slots - 1);

		while (table->slots[at])
			at = (at + 1) & (table->n_slots - 1);
		table->slots[at] = i + 1;
	}
}

/* The slot of the row with these bytes, or the free one where it belongs. */
static uint32_t *find_slot(const struct sc_id_table *table, const void *bytes, size_t n,
			   uint32_t hash)
{
	size_t at = hash & (table->n_slots - 1);

	for (; table->slots[at]; at = (at + 1) & (table->n_slots - 1)) {
		const size_t row = table->slots[at] - 1;
		const struct sc_text *text = &sc_id_table_texts(table)[table->row_bytes ? 0 : row];

		if (table->hashes[row] != hash || (!table->row_bytes && text->n != n))
			continue;
		if (memcmp(table->row_bytes ? (const char *)table->rows + row * n : text->at, bytes,
			   n) == 0)
			break;
	}
	return &table->slots[at];
}

uint32_t sc_id_table_add(struct sc_id_table *table, const void *row)
{
	uint32_t hash = hash_bytes(row, table->row_bytes), *slot;

	make_room(table, table->row_bytes);
	slot = find_slot(table, row, table->row_bytes, hash);
	if (!*slot) {
		memcpy(table->rows + table->n * table->row_bytes, row, table->row_bytes);
		table->hashes[table->n++] = hash;
		*slot = table->n;
	}
	return *slot;
}

uint32_t sc_id_table_add_text(struct sc_id_table *table, const char *text, size_t n)
{
	uint32_t hash = hash_bytes((const uint8_t *)text, n), *slot;
	struct sc_text row = {.n = n};

	make_room(table, sizeof(row));
	slot = find_slot(table, text, n, hash);
	if (!*slot) {
		row.at = sc_arena_strndup(&table->texts, text, n);
		memcpy(table->rows + table->n * sizeof(row), &row, sizeof(row));
		table->hashes[table->n++] = hash;
		*slot = table->n;
	}
	return *slot;
}

void sc_id_table_release(struct sc_id_table *table)
{
	free(table->rows);
	free(table->hashes);
	free(table->slots);
	sc_arena_release(&table->texts);
	*table = (struct sc_id_table){0};
}
