/* How the values of a column get small: each is told as what is left of it after a prediction from the
 * rows and columns before it. Of the format, inside src/trace/format. */
#ifndef SC_TRACE_COLUMN_FORMS_H
#define SC_TRACE_COLUMN_FORMS_H

#include "trace/format/trace_columns.h"

enum { SC_COLUMN_SLOTS = 4096 /* keys that are told apart */ };
/* The last three values of a key, the latest first; at first all are the first one. */
struct sc_column_recent {
	int64_t at[3];
	bool is_seen;
};
/* The column of each role: the one at hand, and those before it that it is predicted from; 0 in all rows if the
 * frame has none. */
struct sc_column_roles {
	int64_t columns[SC_N_FIELD_ROLES][SC_FRAME_MAX_ROWS];
	unsigned has; /* 1 << role: of those that came before */
	uint16_t slots[SC_FRAME_MAX_ROWS];
	struct sc_column_recent recent[SC_COLUMN_SLOTS];
	/* Rows that are open, the innermost last. */
	uint64_t open_ends[SC_FRAME_MAX_ROWS];
	uint16_t open_rows[SC_FRAME_MAX_ROWS];
};
void sc_column_roles_clear(struct sc_column_roles *roles, size_t n);

/* Starts and durations become times since the last begin or end before them, and get their depths. A row is
 * open until one starts at its end or later, or earlier than the row before: on another lane. */
void sc_column_nest(struct sc_column_roles *roles, size_t n);
/* And back. False: a row is deeper than there are open ones. */
bool sc_column_unnest(struct sc_column_roles *roles, size_t n);

/* Values of the role's column to residuals, in the form that needs fewest bits, and back. All is exact:
 * differences wrap. */
enum sc_column_form sc_column_residuals(struct sc_column_roles *roles, enum sc_field_role role,
					size_t n, uint64_t *residuals);
void sc_column_values(struct sc_column_roles *roles, enum sc_field_role role,
		      enum sc_column_form form, size_t n, const uint64_t *residuals);

/* Residuals after the first are multiples of the unit, and then told as how many. Returns it; 1: there is
 * none that is worth its byte. */
uint64_t sc_column_divide(uint64_t *residuals, size_t n);
void sc_column_multiply(uint64_t *residuals, size_t n, uint64_t unit);

#endif
