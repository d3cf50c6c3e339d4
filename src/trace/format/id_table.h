/* Equal rows get equal ids, counted from 1. Rows are compared as bytes: padding must be zeroed. A zeroed
 * struct with row_bytes set is an empty table. */
#ifndef SC_TRACE_ID_TABLE_H
#define SC_TRACE_ID_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "trace/format/trace_columns.h"

struct sc_id_table {
	size_t row_bytes; /* 0: rows are struct sc_text, the text is what is compared */
	uint8_t *rows;    /* of id 1, 2, ...; n of them */
	uint32_t n, cap;
	uint32_t *hashes, *slots; /* slots: ids, 0 = free; n_slots a power of two */
	size_t n_slots;
	struct sc_arena texts;
	uint32_t n_written; /* rows that the file has */
};
uint32_t sc_id_table_add(struct sc_id_table *table, const void *row);
uint32_t sc_id_table_add_text(struct sc_id_table *table, const char *text, size_t n);
static inline const struct sc_text *sc_id_table_texts(const struct sc_id_table *table)
{
	return (const struct sc_text *)(const void *)table->rows;
}
void sc_id_table_release(struct sc_id_table *table);

#endif
