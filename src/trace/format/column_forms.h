/* How the values of a column get small: each is told as what is left of it after a prediction from the
 * rows and columns before it. Of the format, inside src/trace/format. */
#ifndef SC_TRACE_COLUMN_FORMS_H
#define SC_TRACE_COLUMN_FORMS_H

#include "trace/format/trace_columns.h"

enum { SC_COLUMN_SLOTS = 4096 /* keys that are told apart */ };
/* The column of each role: the one at hand, and those before it that it is predicted from; 0 in all rows if the
 * frame has none. */
struct sc_column_roles {
	int64_t columns[SC_N_FIELD_ROLES][SC_FRAME_MAX_ROWS];
	unsigned has;                  /* 1 << role: of those that came before */
	int64_t last[SC_COLUMN_SLOTS]; /* values of a key */
};
void sc_column_roles_clear(struct sc_column_roles *roles, size_t n);

/* Values of the role's column to residuals, in the form that needs fewest bits, and back. All is exact:
 * differences wrap. */
enum sc_column_form sc_column_residuals(struct sc_column_roles *roles, enum sc_field_role role,
					size_t n, uint64_t *residuals);
void sc_column_values(struct sc_column_roles *roles, enum sc_field_role role,
		      enum sc_column_form form, size_t n, const uint64_t *residuals);

#endif
