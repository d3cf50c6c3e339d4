/* Names to small ids and back: equal texts get the same id, ids count up from 0 in the order of
 * first use. A zeroed struct is an empty table. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/vec.h"

#define SC_INTERN_NONE UINT32_MAX

struct sc_intern_entry {
	const char *text;
	uint32_t n_bytes, hash;
};
struct sc_intern {
	struct sc_arena texts;
	SC_VEC(struct sc_intern_entry) entries; /* by id */
	uint32_t *slots;                        /* hash table of ids, n_slots a power of two */
	size_t n_slots;
};

void sc_intern_release(struct sc_intern *table);
/* Adds n bytes, of a text or of a row without padding. */
uint32_t sc_intern_add_n(struct sc_intern *table, const char *text, size_t n);
static inline uint32_t sc_intern_add(struct sc_intern *table, const char *text)
{
	return sc_intern_add_n(table, text, strlen(text));
}
/* The id of a text, or SC_INTERN_NONE. */
uint32_t sc_intern_find(const struct sc_intern *table, const char *text);
/* The text of an id that the table gave; valid until release. */
const char *sc_intern_get(const struct sc_intern *table, uint32_t id);
static inline size_t sc_intern_count(const struct sc_intern *table)
{
	return table->entries.n;
}
