/* Residuals are zigzag coded: small ones of both signs are small numbers. */
#include "trace/format/column_forms.h"

#include <string.h>

enum {
	N_SAMPLED = 2048,  /* rows from which the form is chosen */
	MIN_UNIT_GAIN = 16 /* bits that a unit must save */
};

/* --- what is predicted from --- */

void sc_column_roles_clear(struct sc_column_roles *roles, size_t n)
{
	memset(roles->durations, 0, n * sizeof(*roles->durations));
	memset(roles->calls, 0, n * sizeof(*roles->calls));
	memset(roles->keys, 0, n * sizeof(*roles->keys));
	roles->has_keys = roles->has_calls = false;
}

void sc_column_roles_keep(struct sc_column_roles *roles, const struct sc_column_field *field,
			  const int64_t *values, size_t n)
{
	if (field->role == SC_FIELD_DURATION)
		memcpy(roles->durations, values, n * sizeof(*values));
	if (field->role == SC_FIELD_CALL)
		memcpy(roles->calls, values, n * sizeof(*values));
	for (size_t i = 0; field->role == SC_FIELD_KEY && i < n; i++)
		roles->keys[i] = (uint32_t)values[i];
	roles->has_calls |= field->role == SC_FIELD_CALL;
	roles->has_keys |= field->role == SC_FIELD_KEY;
}

/* --- forms --- */

bool sc_form_is_number(unsigned form)
{
	return form <= SC_FORM_BY_KEY || form == SC_FORM_LIKE_CALL;
}

static void by_key_residuals(struct sc_column_roles *roles, const int64_t *v, size_t n,
			     uint64_t *out)
{
	memset(roles->last, 0, sizeof(roles->last));
	for (size_t i = 0; i < n; i++) {
		int64_t *last = &roles->last[roles->keys[i] % SC_FORM_KEYS];

		out[i] = sc_zigzag((uint64_t)v[i] - (uint64_t)*last);
		*last = v[i];
	}
}

static void by_key_values(struct sc_column_roles *roles, const uint64_t *residuals, size_t n,
			  int64_t *v)
{
	memset(roles->last, 0, sizeof(roles->last));
	for (size_t i = 0; i < n; i++) {
		int64_t *last = &roles->last[roles->keys[i] % SC_FORM_KEYS];

		v[i] = *last = (int64_t)(sc_unzigzag(residuals[i]) + (uint64_t)*last);
	}
}

void sc_form_residuals(struct sc_column_roles *roles, enum sc_column_form form,
		       const int64_t *values, size_t n, uint64_t *residuals)
{
	uint64_t last = 0;

	if (form == SC_FORM_BY_KEY) {
		by_key_residuals(roles, values, n, residuals);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		uint64_t value = (uint64_t)values[i];

		if (form == SC_FORM_LIKE_CALL)
			last = (uint64_t)roles->calls[i];
		residuals[i] = sc_zigzag(value - last);
		if (form == SC_FORM_DELTA)
			last = value;
		else if (form == SC_FORM_GAP)
			last = value + (uint64_t)roles->durations[i];
	}
}

void sc_form_values(struct sc_column_roles *roles, enum sc_column_form form,
		    const uint64_t *residuals, size_t n, int64_t *values)
{
	uint64_t last = 0;

	if (form == SC_FORM_BY_KEY) {
		by_key_values(roles, residuals, n, values);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (form == SC_FORM_LIKE_CALL)
			last = (uint64_t)roles->calls[i];
		values[i] = (int64_t)(sc_unzigzag(residuals[i]) + last);
		if (form == SC_FORM_DELTA)
			last = (uint64_t)values[i];
		else if (form == SC_FORM_GAP)
			last = (uint64_t)values[i] + (uint64_t)roles->durations[i];
	}
}

/* --- which one --- */

/* About the bits that residuals take; 0 is nearly free. */
static uint64_t cost(const uint64_t *residuals, size_t n)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < n; i++)
		bits += residuals[i] ? 66 - (unsigned)__builtin_clzll(residuals[i]) : 0;
	return bits;
}

unsigned sc_form_candidates(const struct sc_column_roles *roles,
			    const struct sc_column_field *field)
{
	unsigned forms = 1u << SC_FORM_PLAIN | 1u << SC_FORM_DELTA;

	if (field->role == SC_FIELD_START)
		return forms | 1u << SC_FORM_GAP;
	if (roles->has_keys)
		forms |= 1u << SC_FORM_BY_KEY;
	if (roles->has_calls && field->role == SC_FIELD_LIKE_CALL)
		forms |= 1u << SC_FORM_LIKE_CALL;
	return forms;
}

enum sc_column_form sc_form_choose(struct sc_column_roles *roles, unsigned forms,
				   const int64_t *values, size_t n, uint64_t *scratch)
{
	uint64_t least = UINT64_MAX;
	enum sc_column_form best = SC_FORM_PLAIN;

	if (n > N_SAMPLED)
		n = N_SAMPLED;
	for (unsigned form = SC_FORM_PLAIN; form < SC_N_FORMS; form++) {
		uint64_t bits;

		if (!(forms >> form & 1))
			continue;
		sc_form_residuals(roles, (enum sc_column_form)form, values, n, scratch);
		bits = cost(scratch, n);
		if (bits < least) {
			least = bits;
			best = (enum sc_column_form)form;
		}
	}
	return best;
}

/* --- units --- */

static uint64_t magnitude(uint64_t residual)
{
	return (residual >> 1) + (residual & 1);
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

uint64_t sc_form_divide(uint64_t *residuals, size_t n)
{
	uint64_t unit = 0;

	for (size_t i = 1; i < n && unit != 1; i++) {
		if (residuals[i] && (!unit || magnitude(residuals[i]) % unit))
			unit = common_divisor(magnitude(residuals[i]), unit);
	}
	if (unit < 2 || (n - 1) * (63 - (unsigned)__builtin_clzll(unit)) < MIN_UNIT_GAIN)
		return 1;
	for (size_t i = 1; i < n; i++) {
		if (residuals[i])
			residuals[i] = magnitude(residuals[i]) / unit * 2 - (residuals[i] & 1);
	}
	return unit;
}

void sc_form_multiply(uint64_t *residuals, size_t n, uint64_t unit)
{
	for (size_t i = 1; i < n; i++)
		residuals[i] = sc_zigzag(sc_unzigzag(residuals[i]) * unit);
}
