/* sc_yaml_parse on any bytes, then sc_yaml_decode by a table with every type of field; mappings
 * that may be a config.json of Hugging Face are taken as one. */
#include "base/yaml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/foreign/foreign.h"
#include "fuzz.h"

enum { CAP_ORIGINS = 4 };

struct part {
	int64_t count;
	double rate;
	const char *name;
};
struct request {
	int64_t gpus;
	double ratio;
	bool fused;
	const char *name;
	int kind;
	struct part part, model;
	struct sc_ints ints;
	struct sc_doubles doubles;
	struct sc_structs parts;
};

static const struct sc_name kinds[] = {{"none", 0}, {"ring", 1}, {"tree", 2}, {NULL, 0}};
static const struct sc_field part_fields[] = {
	{.key = "count",
	 .type = SC_F_INT,
	 .offset = offsetof(struct part, count),
	 .required = true},
	{.key = "rate", .type = SC_F_DOUBLE, .offset = offsetof(struct part, rate), .max = 1.0},
	{.key = "name", .type = SC_F_STR, .offset = offsetof(struct part, name)},
	{.key = NULL},
};
static const struct sc_field request_fields[] = {
	{.key = "gpus",
	 .type = SC_F_INT,
	 .offset = offsetof(struct request, gpus),
	 .min = 1.0,
	 .max = 65536.0,
	 .help = "number of GPUs"},
	{.key = "ratio", .type = SC_F_DOUBLE, .offset = offsetof(struct request, ratio)},
	{.key = "fused", .type = SC_F_BOOL, .offset = offsetof(struct request, fused)},
	{.key = "name", .type = SC_F_STR, .offset = offsetof(struct request, name)},
	{.key = "kind",
	 .type = SC_F_ENUM,
	 .offset = offsetof(struct request, kind),
	 .names = kinds},
	{.key = "part",
	 .type = SC_F_STRUCT,
	 .offset = offsetof(struct request, part),
	 .sub = part_fields},
	{.key = "model",
	 .type = SC_F_STRUCT,
	 .offset = offsetof(struct request, model),
	 .sub = part_fields,
	 .may_be_file = true},
	{.key = "ints",
	 .type = SC_F_INTS,
	 .offset = offsetof(struct request, ints),
	 .min = 1.0,
	 .max = HUGE_VAL},
	{.key = "doubles", .type = SC_F_DOUBLES, .offset = offsetof(struct request, doubles)},
	{.key = "parts",
	 .type = SC_F_STRUCTS,
	 .offset = offsetof(struct request, parts),
	 .sub = part_fields,
	 .elem_bytes = sizeof(struct part)},
	{.key = "notes", .type = SC_F_IGNORE},
	{.key = NULL},
};

static void expect(int holds)
{
	if (!holds)
		abort();
}

/* Every file named holds one count; names with an x do not exist. */
static int open_ref(const struct sc_yaml *node, struct sc_arena *arena, struct sc_yaml **out,
		    struct sc_err *err)
{
	static const char text[] = "count: 3\n";

	if (strchr(node->text, 'x'))
		return sc_err_set(err, SC_EIO, "no file \"%s\"", node->text);
	return sc_yaml_parse(&(struct sc_source){text, sizeof(text) - 1, node->text}, arena, out,
			     err);
}

static void check_error(int rc, const struct sc_err *err)
{
	char line[600];

	expect(rc < 0 && rc == -(int)err->code && err->text[0]);
	expect(strlen(sc_err_format(err, line, sizeof(line))) > strlen("error: "));
}

static void check_node(const struct sc_yaml *node)
{
	size_t n = 0;

	expect(node->line > 0 && node->column > 0);
	expect((node->kind == SC_YAML_SCALAR) == (node->text != NULL));
	for (const struct sc_yaml *child = node->child; child; child = child->next) {
		expect((node->kind == SC_YAML_MAP) == (child->key != NULL));
		if (child->key)
			expect(sc_yaml_get(node, child->key) == child);
		check_node(child);
		n++;
	}
	expect(n == node->n_children);
}

/* Writes through the values, so that a sanitizer sees a wrong length or pointer. */
static void check_request(const struct request *request)
{
	const struct part *part = request->parts.at;

	expect(request->gpus >= 1 && request->gpus <= 65536);
	expect(isfinite(request->ratio) && request->part.rate <= 1.0);
	expect(sc_enum_name(kinds, request->kind) != NULL);
	for (size_t i = 0; i < request->ints.n; i++)
		expect(request->ints.at[i] >= 1);
	for (size_t i = 0; i < request->doubles.n; i++)
		expect(isfinite(request->doubles.at[i]));
	for (size_t i = 0; i < request->parts.n; i++)
		expect(isfinite(part[i].rate) &&
		       (!part[i].name || strlen(part[i].name) < SIZE_MAX));
}

static void decode(const struct sc_yaml *root, struct sc_arena *arena)
{
	struct request request = {.gpus = 1};
	unsigned char before[sizeof(request)];
	const unsigned char *after = (const unsigned char *)&request;
	struct sc_origin origins[CAP_ORIGINS];
	struct sc_yaml_opts opts = {
		.open_ref = open_ref, .origins = origins, .cap_origins = CAP_ORIGINS};
	struct sc_err err = {.code = SC_OK};
	int rc;

	memcpy(before, &request, sizeof(request));
	rc = sc_yaml_decode(root, request_fields, &request, arena, &opts, &err);
	if (rc == 0) {
		check_request(&request);
	} else {
		check_error(rc, &err);
		expect(memcmp(after, before, sizeof(before)) == 0);
	}
}

/* Scalars also as they come from --set and tables. */
static void set_texts(const struct sc_yaml *root, struct sc_arena *arena)
{
	for (const struct sc_yaml *child = root->child; child; child = child->next) {
		struct request request = {.gpus = 1};
		struct sc_err err = {.code = SC_OK};
		struct sc_field_place to = sc_field_find(request_fields, child->key, arena);
		int rc;

		if (!to.field || child->kind != SC_YAML_SCALAR)
			continue;
		rc = sc_field_set_text(&to, child->text, &request, &err);
		if (rc)
			check_error(rc, &err);
		else
			check_request(&request);
	}
}

static void take_hf(struct sc_yaml *root, struct sc_arena *arena)
{
	struct sc_err err = {.code = SC_OK};
	int rc = sc_yaml_get(root, SC_HF_MARK) ? sc_hf_model_take(root, arena, &err) : 0;

	if (rc)
		check_error(rc, &err);
	else
		check_node(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_yaml *root;
	struct sc_arena arena;
	int rc;

	sc_arena_init(&arena, 1024);
	rc = sc_yaml_parse(&(struct sc_source){(const char *)data, size, "fuzz.yaml"}, &arena,
			   &root, &err);
	if (rc) {
		check_error(rc, &err);
	} else {
		check_node(root);
		decode(root, &arena);
		set_texts(root, &arena);
		take_hf(root, &arena);
	}
	sc_arena_release(&arena);
	return 0;
}
