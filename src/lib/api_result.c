/* Results of libstepcast: JSON text, and values by name. Each form is made of the other once it is asked for. */
#include <stdlib.h>
#include <string.h>

#include "base/json_out.h"
#include "base/num.h"
#include "lib/api_priv.h"

struct stepcast_result {
	char *json, *plan; /* or NULL */
	json_t *tree;      /* or NULL */
};

stepcast_result *sc_api_result(char *json, char *plan)
{
	stepcast_result *result = sc_xcalloc(1, sizeof(*result));

	result->json = json;
	result->plan = plan;
	return result;
}

static void put_value(struct sc_json *json, const char *name, const char *cell)
{
	int64_t whole;
	double real;

	if (strcmp(cell, "true") == 0 || strcmp(cell, "false") == 0)
		sc_json_bool(json, json->root, name, *cell == 't');
	else if (sc_parse_int(cell, &whole))
		sc_json_int(json, json->root, name, whole);
	else if (sc_parse_double(cell, &real))
		sc_json_real(json, json->root, name, real);
	else
		sc_json_text(json, json->root, name, cell);
}

/* No key with a value of its own (core/config/config_table.h): the same text in every row. */
static bool is_carried(const char *name)
{
	return !strchr(name, '.') && strcmp(name, "gpus") != 0;
}

stepcast_result *sc_api_row(const struct sc_csv *row, size_t n_given, struct sc_err *err)
{
	struct sc_json json = {.root = json_object()};
	stepcast_result *result;

	for (size_t i = 0; i < row->n_cols; i++) {
		const char *name = row->header[i], *cell = sc_csv_cell(row, 0, i);

		if (!*cell || (i < n_given && is_carried(name)))
			sc_json_text(&json, json.root, name, *cell ? cell : NULL);
		else
			put_value(&json, name, cell);
	}
	if (json.err.code != SC_OK) {
		*err = json.err;
		sc_json_release(&json);
		return NULL;
	}
	result = sc_api_result(NULL, NULL);
	result->tree = json.root;
	return result;
}

const char *stepcast_result_json(stepcast_result *result)
{
	if (result && !result->json)
		result->json = json_dumps(result->tree,
					  JSON_COMPACT | JSON_REAL_PRECISION(SC_JSON_DIGITS));
	return result ? result->json : NULL;
}

const char *stepcast_result_plan(stepcast_result *result)
{
	return result ? result->plan : NULL;
}

/* A member of that name, whole or up to its first point; in a list a number. */
static json_t *find(json_t *in, const char *name)
{
	const char *point = strchr(name, '.');
	json_t *at = json_object_get(in, name);
	char first[64];
	int64_t index;

	if (at)
		return at;
	if (!point)
		return sc_parse_int(name, &index) && index >= 0 ? json_array_get(in, (size_t)index)
								: NULL;
	if ((size_t)(point - name) >= sizeof(first))
		return NULL;
	memcpy(first, name, (size_t)(point - name));
	first[point - name] = '\0';
	return find(find(in, first), point + 1);
}

static bool is_number(const json_t *value)
{
	return json_is_number(value) || json_is_boolean(value);
}

static bool is_text(const json_t *value)
{
	return json_is_string(value);
}

static const json_t *value_named(stepcast_result *result, const char *name,
				 bool (*is_wanted)(const json_t *))
{
	struct sc_api_call call;
	const json_t *value;

	if (!result)
		return NULL;
	sc_api_enter(&call);
	if (!result->tree)
		result->tree = json_loads(result->json, 0, NULL);
	value = find(result->tree, name);
	if (!is_wanted(value)) {
		sc_err_set(&call.err, SC_EVALUE, "the result has no %s \"%.64s\"",
			   is_wanted == is_text ? "text" : "number", name);
		value = NULL;
	}
	sc_api_leave(&call);
	return value;
}

int stepcast_result_number(stepcast_result *result, const char *name, double *value)
{
	const json_t *at = value_named(result, name, is_number);

	if (at)
		*value = json_is_boolean(at) ? json_is_true(at) : json_number_value(at);
	return at ? 0 : -1;
}

const char *stepcast_result_text(stepcast_result *result, const char *name)
{
	return json_string_value(value_named(result, name, is_text));
}

void stepcast_result_free(stepcast_result *result)
{
	if (!result)
		return;
	json_decref(result->tree);
	free(result->json);
	free(result->plan);
	free(result);
}
