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

static json_t *value_of(const char *cell)
{
	int64_t whole;
	double real;

	if (!*cell)
		return json_null();
	if (strcmp(cell, "true") == 0 || strcmp(cell, "false") == 0)
		return json_boolean(*cell == 't');
	if (sc_parse_int(cell, &whole))
		return json_integer(whole);
	if (sc_parse_double(cell, &real))
		return json_real(real);
	return json_string(cell);
}

stepcast_result *sc_api_row(const struct sc_csv *row)
{
	stepcast_result *result = sc_api_result(NULL, NULL);

	result->tree = json_object();
	for (size_t i = 0; i < row->n_cols; i++)
		json_object_set_new(result->tree, row->header[i], value_of(sc_csv_cell(row, 0, i)));
	return result;
}

const char *stepcast_result_json(stepcast_result *result)
{
	if (!result->json)
		result->json = json_dumps(result->tree,
					  JSON_COMPACT | JSON_REAL_PRECISION(SC_JSON_DIGITS));
	return result->json;
}

const char *stepcast_result_plan(stepcast_result *result)
{
	return result->plan;
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

static json_t *value_named(stepcast_result *result, const char *name)
{
	struct sc_api_call call;
	json_t *value;

	sc_api_enter(&call);
	if (!result->tree)
		result->tree = json_loads(result->json, 0, NULL);
	value = find(result->tree, name);
	sc_api_leave(&call);
	return value;
}

int stepcast_result_number(stepcast_result *result, const char *name, double *value)
{
	const json_t *at = value_named(result, name);

	if (json_is_boolean(at))
		*value = json_is_true(at);
	else if (json_is_number(at))
		*value = json_number_value(at);
	else
		return -1;
	return 0;
}

const char *stepcast_result_text(stepcast_result *result, const char *name)
{
	return json_string_value(value_named(result, name));
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
