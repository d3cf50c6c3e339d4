/* Predictions are of the simplest kind: the row before, what the key had before. What repeats beyond that, as
 * the steps of a run, is left to zstd. Residuals are zigzag coded: small ones of both signs are small. */
#include "trace/format/column_forms.h"

#include <assert.h>
#include <string.h>

enum { N_SAMPLED = 2048 /* rows from which the form is chosen */ };

void sc_column_roles_clear(struct sc_column_roles *roles, size_t n)
{
	for (size_t role = 0; role < SC_N_FIELD_ROLES; role++)
		memset(roles->columns[role], 0, n * sizeof(**roles->columns));
	roles->has = 0;
}

static inline int64_t *last_of(struct sc_column_roles *roles, size_t row)
{
	static_assert(SC_COLUMN_SLOTS == 1 << 12, "the shift below");
	return &roles->last[(uint32_t)roles->columns[SC_FIELD_KEY][row] * 0x9E3779B1u >> 20];
}

/* --- forms --- */

/* What is subtracted from the value of row i. */
static inline uint64_t expected(struct sc_column_roles *roles, enum sc_column_form form,
				const int64_t *values, size_t i)
{
	switch (form) {
	case SC_FORM_DELTA:
		return i ? (uint64_t)values[i - 1] : 0;
	case SC_FORM_BY_KEY:
		return (uint64_t)*last_of(roles, i);
	case SC_FORM_LIKE_CALL:
		return (uint64_t)roles->columns[SC_FIELD_CALL][i];
	default:
		return 0;
	}
}

static void residuals_of(struct sc_column_roles *roles, enum sc_column_form form,
			 const int64_t *values, size_t n, uint64_t *residuals)
{
	if (form == SC_FORM_BY_KEY)
		memset(roles->last, 0, sizeof(roles->last));
	for (size_t i = 0; i < n; i++) {
		residuals[i] = sc_zigzag((uint64_t)values[i] - expected(roles, form, values, i));
		if (form == SC_FORM_BY_KEY)
			*last_of(roles, i) = values[i];
	}
}

void sc_column_values(struct sc_column_roles *roles, enum sc_field_role role,
		      enum sc_column_form form, size_t n, const uint64_t *residuals)
{
	int64_t *values = roles->columns[role];

	if (form == SC_FORM_BY_KEY)
		memset(roles->last, 0, sizeof(roles->last));
	for (size_t i = 0; i < n; i++) {
		values[i] = (int64_t)(sc_unzigzag(residuals[i]) + expected(roles, form, values, i));
		if (form == SC_FORM_BY_KEY)
			*last_of(roles, i) = values[i];
	}
}

/* --- which one --- */

enum sc_column_form sc_column_residuals(struct sc_column_roles *roles, enum sc_field_role role,
					size_t n, uint64_t *residuals)
{
	const int64_t *values = roles->columns[role];
	const bool is_possible[SC_N_FORMS] = {
		[SC_FORM_PLAIN] = true,
		[SC_FORM_DELTA] = true,
		[SC_FORM_BY_KEY] = roles->has >> SC_FIELD_KEY & 1,
		[SC_FORM_LIKE_CALL] = roles->has >> SC_FIELD_CALL & 1 && role == SC_FIELD_LIKE_CALL,
	};
	uint64_t least = UINT64_MAX;
	enum sc_column_form best = SC_FORM_PLAIN;

	for (unsigned form = SC_FORM_PLAIN; form < SC_N_FORMS; form++) {
		size_t n_sampled = n < N_SAMPLED ? n : N_SAMPLED;
		uint64_t bits = 0; /* about what they take; 0 is nearly free */

		if (!is_possible[form])
			continue;
		residuals_of(roles, (enum sc_column_form)form, values, n_sampled, residuals);
		for (size_t i = 0; i < n_sampled; i++)
			bits += residuals[i] ? 66 - (unsigned)__builtin_clzll(residuals[i]) : 0;
		if (bits < least) {
			least = bits;
			best = (enum sc_column_form)form;
		}
	}
	residuals_of(roles, best, values, n, residuals);
	return best;
}
