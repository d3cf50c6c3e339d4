/* Predictions are of the simplest kind: the row before, what the key had before. What repeats beyond that, as
 * the steps of a run, is left to zstd. Residuals are zigzag coded: small ones of both signs are small. */
#include "trace/format/column_forms.h"

#include <assert.h>
#include <string.h>

enum {
	N_SAMPLED = 2048,  /* rows from which the form is chosen */
	MIN_UNIT_GAIN = 16 /* bits that a unit must save */
};

void sc_column_roles_clear(struct sc_column_roles *roles, size_t n)
{
	for (size_t role = 0; role < SC_N_FIELD_ROLES; role++)
		memset(roles->columns[role], 0, n * sizeof(**roles->columns));
	roles->has = 0;
}

/* --- nesting: of operators in operators --- */

void sc_column_nest(struct sc_column_roles *roles, size_t n)
{
	int64_t *starts = roles->columns[SC_FIELD_START];
	int64_t *durations = roles->columns[SC_FIELD_DURATION];
	uint64_t last = 0, start = 0;
	size_t n_open = 0;

	for (size_t i = 0; i <= n; i++) {
		bool closes_all = i == n || starts[i] < (int64_t)start;

		start = i < n ? (uint64_t)starts[i] : 0;
		while (n_open &&
		       (closes_all || (int64_t)roles->open_ends[n_open - 1] <= (int64_t)start)) {
			uint64_t end = roles->open_ends[--n_open];

			durations[roles->open_rows[n_open]] = (int64_t)(end - last);
			last = end;
		}
		if (i == n)
			break;
		roles->columns[SC_FIELD_DEPTH][i] = (int64_t)n_open;
		starts[i] = (int64_t)(start - last);
		roles->open_ends[n_open] = start + (uint64_t)durations[i];
		roles->open_rows[n_open++] = (uint16_t)i;
		last = start;
	}
}

bool sc_column_unnest(struct sc_column_roles *roles, size_t n)
{
	int64_t *starts = roles->columns[SC_FIELD_START];
	int64_t *durations = roles->columns[SC_FIELD_DURATION];
	uint64_t last = 0;
	int64_t n_open = 0;

	for (size_t i = 0; i <= n; i++) {
		int64_t depth = i < n ? roles->columns[SC_FIELD_DEPTH][i] : 0;

		if (depth < 0 || depth > n_open)
			return false;
		while (n_open > depth) {
			size_t row = roles->open_rows[--n_open];

			last += (uint64_t)durations[row];
			durations[row] = (int64_t)(last - (uint64_t)starts[row]);
		}
		if (i == n)
			break;
		last += (uint64_t)starts[i];
		starts[i] = (int64_t)last;
		roles->open_rows[n_open++] = (uint16_t)i;
	}
	return true;
}

/* --- by key --- */

/* The keys of a column: names; of starts with the name and the depth before, since what follows what takes
 * about as long again. */
static void set_slots(struct sc_column_roles *roles, enum sc_field_role role, size_t n)
{
	const int64_t *keys = roles->columns[SC_FIELD_KEY];
	const int64_t *depths = roles->columns[SC_FIELD_DEPTH];

	static_assert(SC_COLUMN_SLOTS == 1 << 12, "the shift below");
	for (size_t i = 0; i < n; i++) {
		uint32_t hash = (uint32_t)keys[i] * 0x9E3779B1u;

		if (role == SC_FIELD_START)
			hash += i ? (uint32_t)keys[i - 1] * 0x85EBCA6Bu +
						(uint32_t)(depths[i] - depths[i - 1]) * 0xC2B2AE35u
				  : 0;
		roles->slots[i] = (uint16_t)(hash >> 20);
	}
}

static inline int64_t expected(const struct sc_column_recent *r, enum sc_column_form form)
{
	int64_t a = r->at[0], b = r->at[1], c = r->at[2];
	int64_t less = a < b ? a : b, more = a < b ? b : a;

	if (!r->is_seen)
		return 0;
	if (form == SC_FORM_BY_KEY)
		return a;
	/* Without branches: which is which, nothing foretells. */
	more = more < c ? more : c;
	return less > more ? less : more;
}

static inline void keep(struct sc_column_recent *r, int64_t value)
{
	r->at[2] = r->is_seen ? r->at[1] : value;
	r->at[1] = r->is_seen ? r->at[0] : value;
	r->at[0] = value;
	r->is_seen = true;
}

/* --- forms --- */

static void residuals_of(struct sc_column_roles *roles, enum sc_column_form form,
			 const int64_t *values, size_t n, uint64_t *residuals)
{
	bool by_key = form == SC_FORM_BY_KEY || form == SC_FORM_MEDIAN;
	uint64_t last = 0;

	for (size_t i = 0; by_key && i < n; i++)
		roles->recent[roles->slots[i]].is_seen = false;
	for (size_t i = 0; by_key && i < n; i++) {
		struct sc_column_recent *r = &roles->recent[roles->slots[i]];

		residuals[i] = sc_zigzag((uint64_t)values[i] - (uint64_t)expected(r, form));
		keep(r, values[i]);
	}
	for (size_t i = 0; !by_key && i < n; i++) {
		uint64_t value = (uint64_t)values[i];

		if (form == SC_FORM_LIKE_CALL)
			last = (uint64_t)roles->columns[SC_FIELD_CALL][i];
		residuals[i] = sc_zigzag(value - last);
		if (form == SC_FORM_DELTA)
			last = value;
	}
}

void sc_column_values(struct sc_column_roles *roles, enum sc_field_role role,
		      enum sc_column_form form, size_t n, const uint64_t *residuals)
{
	int64_t *values = roles->columns[role];
	bool by_key = form == SC_FORM_BY_KEY || form == SC_FORM_MEDIAN;
	uint64_t last = 0;

	if (by_key)
		set_slots(roles, role, n);
	for (size_t i = 0; by_key && i < n; i++)
		roles->recent[roles->slots[i]].is_seen = false;
	for (size_t i = 0; by_key && i < n; i++) {
		struct sc_column_recent *r = &roles->recent[roles->slots[i]];

		values[i] = (int64_t)(sc_unzigzag(residuals[i]) + (uint64_t)expected(r, form));
		keep(r, values[i]);
	}
	for (size_t i = 0; !by_key && i < n; i++) {
		if (form == SC_FORM_LIKE_CALL)
			last = (uint64_t)roles->columns[SC_FIELD_CALL][i];
		values[i] = (int64_t)(sc_unzigzag(residuals[i]) + last);
		if (form == SC_FORM_DELTA)
			last = (uint64_t)values[i];
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

enum sc_column_form sc_column_residuals(struct sc_column_roles *roles, enum sc_field_role role,
					size_t n, uint64_t *residuals)
{
	const int64_t *values = roles->columns[role];
	const bool is_time = role == SC_FIELD_START || role == SC_FIELD_DURATION;
	const bool has_keys = roles->has >> SC_FIELD_KEY & 1;
	const bool is_possible[SC_N_FORMS] = {
		[SC_FORM_PLAIN] = true,
		[SC_FORM_DELTA] = !is_time,
		[SC_FORM_BY_KEY] = has_keys && !is_time,
		[SC_FORM_MEDIAN] = has_keys && is_time,
		[SC_FORM_LIKE_CALL] = roles->has >> SC_FIELD_CALL & 1 && role == SC_FIELD_LIKE_CALL,
	};
	uint64_t least = UINT64_MAX;
	enum sc_column_form best = SC_FORM_PLAIN;

	if (has_keys)
		set_slots(roles, role, n);
	for (unsigned form = SC_FORM_PLAIN; form < SC_N_FORMS; form++) {
		size_t n_sampled = n < N_SAMPLED ? n : N_SAMPLED;
		uint64_t bits;

		if (!is_possible[form])
			continue;
		residuals_of(roles, (enum sc_column_form)form, values, n_sampled, residuals);
		bits = cost(residuals, n_sampled);
		if (bits < least) {
			least = bits;
			best = (enum sc_column_form)form;
		}
	}
	residuals_of(roles, best, values, n, residuals);
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

uint64_t sc_column_divide(uint64_t *residuals, size_t n)
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

void sc_column_multiply(uint64_t *residuals, size_t n, uint64_t unit)
{
	for (size_t i = 1; i < n; i++)
		residuals[i] = sc_zigzag(sc_unzigzag(residuals[i]) * unit);
}
