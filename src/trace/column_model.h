/* Columns of few rows and texts as bits that are predicted from the rows and letters before: about half
 * of what zstd needs where there is little to learn from, at a tenth of its speed. */
#ifndef SC_TRACE_COLUMN_MODEL_H
#define SC_TRACE_COLUMN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SC_MODEL_MAX_ROWS = 4096, SC_MODEL_MAX_TEXT = 288 << 10 };

struct sc_column_model;
struct sc_column_model *sc_column_model_create(void); /* NULL: no memory */
void sc_column_model_destroy(struct sc_column_model *model);

/* Of rows that have keys, or 0 for all. Bytes written to out; 0: it is more than n_out, or more than can
 * be read. n <= SC_MODEL_MAX_ROWS. */
size_t sc_column_model_put(struct sc_column_model *model, const uint32_t *keys,
			   const uint64_t *values, size_t n, uint8_t *out, size_t n_out);
/* False: these are not the bytes of n values. */
bool sc_column_model_get(struct sc_column_model *model, const uint32_t *keys, const uint8_t *in,
			 size_t n_in, uint64_t *values, size_t n);

/* The same of text. */
size_t sc_column_model_put_text(struct sc_column_model *model, const uint8_t *text, size_t n,
				uint8_t *out, size_t n_out);
bool sc_column_model_get_text(struct sc_column_model *model, const uint8_t *in, size_t n_in,
			      uint8_t *text, size_t n);

#endif
