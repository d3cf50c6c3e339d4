/* Field tables: looking up keys, and the nearest one when there is none such. */
#include "base/fields.h"

#include <string.h>

#include "base/fields_priv.h"
#include "base/fnv.h"

size_t sc_field_bytes(const struct sc_field *field)
{
	static const size_t bytes[] = {
		[SC_F_INT] = sizeof(int64_t),
		[SC_F_DOUBLE] = sizeof(double),
		[SC_F_BOOL] = sizeof(bool),
		[SC_F_ENUM] = sizeof(int),
		[SC_F_FLAGS] = sizeof(int),
		[SC_F_STR] = sizeof(const char *),
		[SC_F_INTS] = sizeof(struct sc_ints),
		[SC_F_DOUBLES] = sizeof(struct sc_doubles),
		[SC_F_STRUCTS] = sizeof(struct sc_structs),
		[SC_F_IGNORE] = 0,
	};

	return field->type == SC_F_STRUCT ? sc_fields_extent(field->sub) : bytes[field->type];
}

size_t sc_fields_extent(const struct sc_field *table)
{
	size_t extent = 0;

	for (; table->key; table++) {
		size_t end = table->offset + sc_field_bytes(table);

		if (table->type != SC_F_IGNORE && end > extent)
			extent = end;
	}
	return extent;
}

void sc_fields_init(const struct sc_field *table, void *object)
{
	for (; table->key; table++) {
		unsigned char *place = (unsigned char *)object + table->offset;
		int64_t integer = (int64_t)table->absent;
		int name = (int)table->absent;

		if (table->type == SC_F_STRUCT)
			sc_fields_init(table->sub, place);
		else if (table->type == SC_F_DOUBLE)
			memcpy(place, &table->absent, sizeof(table->absent));
		else if (table->type == SC_F_INT)
			memcpy(place, &integer, sizeof(integer));
		else if (table->type == SC_F_ENUM || table->type == SC_F_FLAGS)
			memcpy(place, &name, sizeof(name));
		else
			memset(place, 0, sc_field_bytes(table));
	}
}

bool sc_field_is_absent(const struct sc_field *field, const void *place)
{
	double absent = field->absent, value;

	switch (field->type) {
	case SC_F_INT:
		return *(const int64_t *)place == (int64_t)absent;
	case SC_F_DOUBLE:
		value = *(const double *)place;
		return !(value < absent) && !(value > absent);
	case SC_F_ENUM:
	case SC_F_FLAGS:
		return *(const int *)place == (int)absent;
	case SC_F_BOOL:
		return !*(const bool *)place;
	case SC_F_STR:
		return !*(const char *const *)place;
	case SC_F_INTS:
		return ((const struct sc_ints *)place)->n == 0;
	case SC_F_DOUBLES:
		return ((const struct sc_doubles *)place)->n == 0;
	case SC_F_STRUCTS:
		return ((const struct sc_structs *)place)->n == 0;
	case SC_F_STRUCT:
		for (field = field->sub; field->key; field++)
			if (!sc_field_is_absent(field,
						(const unsigned char *)place + field->offset))
				return false;
		return true;
	case SC_F_IGNORE:
		break;
	}
	return true;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return text ? sc_fnv(hash, text, strlen(text) + 1) : sc_fnv(hash, "\1", 2);
}

static uint64_t hash_value(uint64_t hash, const struct sc_field *field, const void *place)
{
	const struct sc_doubles *doubles = place;
	const struct sc_structs *structs = place;
	const struct sc_ints *ints = place;

	switch (field->type) {
	case SC_F_INT:
	case SC_F_DOUBLE:
	case SC_F_ENUM:
	case SC_F_FLAGS:
	case SC_F_BOOL:
		return sc_fnv(hash, place, sc_field_bytes(field));
	case SC_F_STR:
		return hash_text(hash, *(const char *const *)place);
	case SC_F_INTS:
		hash = sc_fnv(hash, &ints->n, sizeof(ints->n));
		return sc_fnv(hash, ints->at, ints->n * SC_NUMBER_BYTES);
	case SC_F_DOUBLES:
		hash = sc_fnv(hash, &doubles->n, sizeof(doubles->n));
		return sc_fnv(hash, doubles->at, doubles->n * SC_NUMBER_BYTES);
	case SC_F_STRUCTS:
		hash = sc_fnv(hash, &structs->n, sizeof(structs->n));
		for (size_t i = 0; i < structs->n; i++)
			hash = sc_fields_hash(hash, field->sub,
					      (const unsigned char *)structs->at +
						      i * field->elem_bytes);
		return hash;
	case SC_F_STRUCT:
		return sc_fields_hash(hash, field->sub, place);
	case SC_F_IGNORE:
		break;
	}
	return hash;
}

uint64_t sc_fields_hash(uint64_t hash, const struct sc_field *table, const void *object)
{
	const unsigned char *at = object;

	for (; table->key; table++) {
		hash = hash_value(hash, table, at + table->offset);
		if (table->file_offset)
			hash = hash_text(hash, *(const char *const *)(at + table->file_offset));
	}
	return hash;
}

const char *sc_enum_name(const struct sc_name *names, int value)
{
	for (; names->name; names++)
		if (names->value == value)
			return names->name;
	return NULL;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Levenshtein, letter case apart, two neighbours swapped counting 1. */
static size_t edit_distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
	size_t rows[3][SC_NEAREST_MAX + 1];
	size_t *before = rows[0], *last = rows[1], *now = rows[2];

	for (size_t j = 0; j <= n_b; j++)
		last[j] = j;
	for (size_t i = 1; i <= n_a; i++) {
		size_t *free_row = before;

		now[0] = i;
		for (size_t j = 1; j <= n_b; j++) {
			size_t differ = lower(a[i - 1]) != lower(b[j - 1]);

			now[j] = (last[j] < now[j - 1] ? last[j] : now[j - 1]) + 1;
			if (last[j - 1] + differ < now[j])
				now[j] = last[j - 1] + differ;
			if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
			    lower(a[i - 2]) == lower(b[j - 1]) && before[j - 2] + 1 < now[j])
				now[j] = before[j - 2] + 1;
		}
		before = last;
		last = now;
		now = free_row;
	}
	return last[n_b];
}

/* Edit distance if near (at most a third of the longer word), else SIZE_MAX. */
static size_t near_distance(const char *word, const char *candidate)
{
	size_t n_word = strnlen(word, SC_NEAREST_MAX + 1);
	size_t n_candidate = strnlen(candidate, SC_NEAREST_MAX + 1);
	size_t longer = n_word > n_candidate ? n_word : n_candidate;
	size_t distance;

	if (longer > SC_NEAREST_MAX)
		return SIZE_MAX;
	distance = edit_distance(word, n_word, candidate, n_candidate);
	return distance * 3 <= longer ? distance : SIZE_MAX;
}

const char *sc_nearest_of(const char *word, const void *list, size_t stride, size_t n)
{
	const char *best = NULL, *name;
	size_t best_distance = SIZE_MAX;

	for (size_t i = 0; i < n; i++) {
		name = *(const char *const *)(const void *)((const char *)list + i * stride);
		if (!name)
			break;
		if (near_distance(word, name) < best_distance) {
			best = name;
			best_distance = near_distance(word, name);
		}
	}
	return best;
}

const char *sc_nearest(const char *word, const char *const *candidates, size_t n)
{
	return sc_nearest_of(word, candidates, sizeof(*candidates), n);
}

const struct sc_field *sc_find_key(const struct sc_field *table, const char *key, size_t n)
{
	for (; table->key; table++)
		if (strncmp(table->key, key, n) == 0 && table->key[n] == '\0')
			return table;
	return NULL;
}

/* "parallel.tp" for "tp": a key that one section alone has; or NULL. */
static const char *path_of_key(const struct sc_field *table, const char *key,
			       struct sc_arena *arena)
{
	const struct sc_field *section = NULL;

	for (; table->key; table++) {
		if (table->type != SC_F_STRUCT || !sc_find_key(table->sub, key, strlen(key)))
			continue;
		if (section)
			return NULL;
		section = table;
	}
	return section ? sc_arena_printf(arena, "%s.%s", section->key, key) : NULL;
}

/* The path's first n_found bytes are right (with their dot); then comes the one that is not. */
static const char *nearest_path(const struct sc_field *table, const char *path, size_t n_found,
				struct sc_arena *arena)
{
	const char *key = path + n_found;
	size_t n_key = strcspn(key, ".");
	const char *best;

	if (n_key > SC_NEAREST_MAX)
		return NULL;
	best = path == key && !key[n_key] ? path_of_key(table, key, arena) : NULL;
	if (best)
		return best;
	best = sc_nearest_of(sc_arena_strndup(arena, key, n_key), table, sizeof(*table), SIZE_MAX);
	if (!best)
		return NULL;
	return sc_arena_printf(arena, "%.*s%s%s", (int)n_found, path, best, key + n_key);
}

struct sc_field_place sc_field_find(const struct sc_field *table, const char *path,
				    struct sc_arena *arena)
{
	struct sc_field_place out = {.path = path, .arena = arena};
	const char *key = path;

	for (;;) {
		size_t n_key = strcspn(key, ".");
		const struct sc_field *field = sc_find_key(table, key, n_key);

		if (!field) {
			out.nearest = nearest_path(table, path, (size_t)(key - path), arena);
			return out;
		}
		if (key[n_key] == '\0') {
			out.field = field;
			if (field->type == SC_F_STRUCT && field->scalar) {
				out.base_offset += field->offset;
				out.field = sc_find_key(field->sub, field->scalar,
							strlen(field->scalar));
			}
			return out;
		}
		if (field->type != SC_F_STRUCT)
			return out;
		out.base_offset += field->offset;
		table = field->sub;
		key += n_key + 1;
	}
}
