/* The forms that a command's result has. */
#pragma once

#include <stdio.h>

#include "base/json_out.h"
#include "base/strbuf.h"

/* Each takes the result's struct, which its header names. */
struct sc_forms {
	void (*json)(const void *result, struct sc_json *out);
	void (*text)(const void *result, struct sc_strbuf *out);       /* NULL: was given already */
	int (*csv)(const void *result, FILE *out, struct sc_err *err); /* or NULL */
	void (*svg)(const void *result, struct sc_strbuf *out);        /* its figure, or NULL */
	bool own_json; /* -o FILE.json is written by csv, and not the document */
};

extern const struct sc_forms sc_compare_forms;    /* of a struct sc_compare */
extern const struct sc_forms sc_collective_forms; /* of a struct sc_collective_sizes */
extern const struct sc_forms sc_place_forms;      /* of a struct sc_collective_place */
extern const struct sc_forms
	sc_search_forms; /* of a struct sc_search_result; CSV: all candidates */
extern const struct sc_forms sc_scaling_forms; /* of a struct sc_scaling */
