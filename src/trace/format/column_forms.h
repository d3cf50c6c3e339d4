/* What the values of a column are told as: differences from what the rows before, or other columns, let
 * one expect. For trace_columns.c. */
#ifndef SC_TRACE_COLUMN_FORMS_H
#define SC_TRACE_COLUMN_FORMS_H

#include "trace/format/trace_columns.h"

enum { SC_FORM_KEYS = 1024 }; /* keys that are told apart, by their low bits */

/* Columns of the frame so far that others are predicted from; 0 in all rows without them. */
struct sc_column_roles {
	int64_t durations[SC_FRAME_MAX_ROWS], calls[SC_FRAME_MAX_ROWS];
	uint32_t keys[SC_FRAME_MAX_ROWS];
	bool has_keys, has_calls;
	int64_t last[SC_FORM_KEYS];
};
void sc_column_roles_clear(struct sc_column_roles *roles, size_t n);
void sc_column_roles_keep(struct sc_column_roles *roles, const struct sc_column_field *field,
			  const int64_t *values, size_t n);

bool sc_form_is_number(unsigned form);
/* Differences wrap: any values are exact. */
void sc_form_residuals(struct sc_column_roles *roles, enum sc_column_form form,
		       const int64_t *values, size_t n, uint64_t *residuals);
void sc_form_values(struct sc_column_roles *roles, enum sc_column_form form,
		    const uint64_t *residuals, size_t n, int64_t *values);
/* The form whose residuals have the fewest bits, of those in `forms`: 1 << enum sc_column_form. */
enum sc_column_form sc_form_choose(struct sc_column_roles *roles, unsigned forms,
				   const int64_t *values, size_t n, uint64_t *scratch);
/* Those that are possible for this field. */
unsigned sc_form_candidates(const struct sc_column_roles *roles,
			    const struct sc_column_field *field);

/* Residuals after the first are multiples of the unit, and then told as how many. Returns it; 1: there is
 * none that is worth its byte. */
uint64_t sc_form_divide(uint64_t *residuals, size_t n);
void sc_form_multiply(uint64_t *residuals, size_t n, uint64_t unit);

#endif
