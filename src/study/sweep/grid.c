/* Makes axes that are given as text a table of cases. */
#include <string.h>

#include "study/sweep/sweep.h"

enum { MAX_GRID_CASES = 10 * 1000 * 1000, MAX_GRID_AXES = 64 };

/* Brackets are counted because lists and patterns of layers have commas of their own. */
static int bracket(char c)
{
	return (c == '[' || c == '(') - (c == ']' || c == ')');
}

static int split_values(struct sc_axis *axis, const char *text, struct sc_arena *arena,
			struct sc_err *err)
{
	const char *begin = text;
	size_t i = 0;
	int depth = 0;

	axis->n = 1;
	for (const char *at = text; *at; at++) {
		depth += bracket(*at);
		axis->n += *at == ',' && depth == 0;
	}
	depth = 0;
	axis->values = sc_arena_calloc(arena, axis->n, sizeof(*axis->values));
	for (;; text++) {
		depth += bracket(*text);
		if (*text && (*text != ',' || depth != 0))
			continue;
		if (text == begin)
			return sc_err_set(err, SC_EUSAGE, "%s: %.64s has an empty value",
					  axis->option, axis->path);
		axis->values[i++] = sc_arena_strndup(arena, begin, (size_t)(text - begin));
		if (!*text)
			return 0;
		begin = text + 1;
	}
}

/* A key that no prediction reads is refused: a table may carry other columns through, but an axis
 * that changes nothing is a mistake. */
static int check_read(const char *option, const struct sc_field *field, const char *path,
		      struct sc_err *err)
{
	if (field->type == SC_F_STRUCT && !field->may_be_file)
		return sc_err_set(err, SC_EUSAGE,
				  "%s: %.64s is a section; take one of its keys, as \"%.64s.%s\"",
				  option, path, path, field->sub[0].key);
	if (field->type == SC_F_STRUCTS)
		return sc_err_set(err, SC_EUSAGE,
				  "%s: %.64s is a list of mappings, which no axis can hold; "
				  "give it in the config",
				  option, path);
	if (field->type == SC_F_IGNORE || strcmp(path, "schema") == 0 ||
	    strcmp(path, "notes") == 0 || strcmp(path, "measured_ms") == 0)
		return sc_err_set(err, SC_EUSAGE,
				  "%s: no prediction reads %.64s; an axis must change the case",
				  option, path);
	return 0;
}

static int check_key(const struct sc_axis *axis, struct sc_arena *arena, struct sc_err *err)
{
	struct sc_err own = {.code = SC_OK};
	struct sc_field_place place = sc_field_find(sc_config_fields, axis->path, arena);

	if (place.field)
		return check_read(axis->option, place.field, axis->path, err);
	sc_field_unknown(sc_config_fields, &place, &own);
	return sc_err_set(err, SC_EUSAGE, "%s: %s", axis->option, own.text);
}

int sc_axis_parse(const char *option, const char *text, struct sc_arena *arena, struct sc_axis *out,
		  struct sc_err *err)
{
	const char *equals = strchr(text, '=');
	int rc;

	*out = (struct sc_axis){
		.option = option,
		.path = equals ? sc_arena_strndup(arena, text, (size_t)(equals - text))
			       : sc_arena_strdup(arena, text)};
	rc = check_key(out, arena, err);
	return rc || !equals ? rc : split_values(out, equals + 1, arena, err);
}

int sc_grid_build(const char *const *texts, size_t n_axes, struct sc_arena *arena,
		  struct sc_csv *out, struct sc_err *err)
{
	struct sc_axis axes[MAX_GRID_AXES];
	struct sc_csv csv = {.file = "--grid", .n_cols = n_axes, .n_rows = 1};
	size_t repeat;
	int rc = 0;

	if (n_axes > MAX_GRID_AXES)
		return sc_err_set(err, SC_ELIMIT, "--grid: more than %d axes", MAX_GRID_AXES);
	for (size_t i = 0; i < n_axes && rc == 0; i++) {
		const char *equals = strchr(texts[i], '=');

		rc = equals && equals != texts[i]
			     ? sc_axis_parse("--grid", texts[i], arena, &axes[i], err)
			     : sc_err_set(err, SC_EUSAGE,
					  "--grid: expected PATH=A,B,..., got \"%.64s\"", texts[i]);
		if (rc == 0 && axes[i].n > MAX_GRID_CASES / csv.n_rows)
			rc = sc_err_set(err, SC_ELIMIT, "--grid: more than %d cases",
					MAX_GRID_CASES);
		if (rc == 0)
			csv.n_rows *= axes[i].n;
	}
	for (size_t i = 0; i < n_axes && rc == 0; i++)
		for (size_t j = 0; j < i && rc == 0; j++)
			if (strcmp(axes[i].path, axes[j].path) == 0)
				rc = sc_err_set(err, SC_EUSAGE, "--grid: %.64s is given twice",
						axes[i].path);
	if (rc)
		return rc;
	csv.header = sc_arena_calloc(arena, csv.n_cols, sizeof(*csv.header));
	csv.cell = sc_arena_calloc(arena, csv.n_rows * csv.n_cols, sizeof(*csv.cell));
	csv.line = sc_arena_calloc(arena, csv.n_rows, sizeof(*csv.line));
	repeat = csv.n_rows; /* rows over which one value of the axis stays */
	for (size_t a = 0; a < n_axes; a++) {
		csv.header[a] = axes[a].path;
		repeat /= axes[a].n;
		for (size_t row = 0; row < csv.n_rows; row++)
			csv.cell[row * n_axes + a] = axes[a].values[row / repeat % axes[a].n];
	}
	for (size_t row = 0; row < csv.n_rows; row++)
		csv.line[row] = (unsigned)row + 1;
	*out = csv;
	return 0;
}
