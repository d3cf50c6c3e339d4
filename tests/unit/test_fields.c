/* Field tables: looking up paths, hints, and scalar text into structs. */
#include "arena_fixture.h"
#include "base/fields.h"
#include "runner.h"

struct inner {
	int64_t tp, pp;
	const char *order;
};
struct outer {
	int64_t gpus, low, high;
	double ratio, free_number;
	bool fused;
	const char *name;
	int kind, scopes;
	struct inner parallel;
	struct sc_ints layers;
	struct sc_doubles weights;
	struct sc_structs list;
};
static const struct sc_name kinds[] = {{"ring", 3}, {"tree", 5}, {"nvls", 7}, {NULL, 0}};
static const struct sc_name scopes[] = {
	{"none", 0}, {"all", 1}, {"attn", SC_FLAG}, {"mlp", SC_FLAG << 1}, {NULL, 0}};
static const struct sc_field inner_fields[] = {
	{.key = "tp", .type = SC_F_INT, .offset = offsetof(struct inner, tp), .min = 1, .max = 64},
	{.key = "pp", .type = SC_F_INT, .offset = offsetof(struct inner, pp), .min = 1, .max = 64},
	{.key = "order", .type = SC_F_STR, .offset = offsetof(struct inner, order)},
	{.key = NULL},
};
#define OUTER(name, ftype) .key = #name, .type = ftype, .offset = offsetof(struct outer, name)
static const struct sc_field outer_fields[] = {
	{OUTER(gpus, SC_F_INT), .min = 1, .max = 65536},
	{OUTER(low, SC_F_INT), .min = 1, .max = HUGE_VAL},
	{OUTER(high, SC_F_INT), .min = -HUGE_VAL, .max = 10},
	{OUTER(ratio, SC_F_DOUBLE), .min = 0, .max = 1},
	{OUTER(free_number, SC_F_DOUBLE)},
	{OUTER(fused, SC_F_BOOL)},
	{OUTER(name, SC_F_STR)},
	{OUTER(kind, SC_F_ENUM), .names = kinds},
	{OUTER(scopes, SC_F_FLAGS), .names = scopes},
	{OUTER(parallel, SC_F_STRUCT), .sub = inner_fields},
	{OUTER(layers, SC_F_INTS), .min = 1, .max = 100},
	{OUTER(weights, SC_F_DOUBLES)},
	{OUTER(list, SC_F_STRUCTS), .sub = inner_fields, .elem_bytes = sizeof(struct inner)},
	{.key = "notes", .type = SC_F_IGNORE},
	{.key = NULL},
};

static struct sc_err err;
static struct outer object;

static void set_up(void)
{
	arena_begin();
	memset(&err, 0, sizeof(err));
	memset(&object, 0, sizeof(object));
}

/* As --set does it. */
static int set(const char *path, const char *text)
{
	struct sc_field_place to = sc_field_find(outer_fields, path, &arena);

	ck_assert_ptr_nonnull(to.field);
	ck_assert_ptr_null(to.nearest);
	return sc_field_set_text(&to, text, &object, &err);
}

FIXTURE(set_up, arena_end)

TEST(test_set_every_type)
{
	ck_assert_int_eq(set("gpus", "5.12e3"), 0);
	ck_assert_int_eq(set("ratio", "0.25"), 0);
	ck_assert_int_eq(set("fused", "true"), 0);
	ck_assert_int_eq(set("name", "a b"), 0);
	ck_assert_int_eq(set("kind", "tree"), 0);
	ck_assert_int_eq(set("parallel.pp", "4"), 0);
	ck_assert_int_eq(set("parallel.order", "tp-pp"), 0);
	ck_assert_int_eq(set("notes", "anything"), 0);
	ck_assert_int_eq(object.gpus, 5120);
	ck_assert_double_eq(object.ratio, 0.25);
	ck_assert(object.fused);
	ck_assert_str_eq(object.name, "a b");
	ck_assert_int_eq(object.kind, 5);
	ck_assert_int_eq(object.parallel.pp, 4);
	ck_assert_int_eq(object.parallel.tp, 0);
	ck_assert_str_eq(object.parallel.order, "tp-pp");
	ck_assert_int_eq(set("fused", "false"), 0);
	ck_assert(!object.fused);
}

static const struct {
	const char *text;
	size_t n;
	int64_t value[3];
} lists[] = {
	{"1,2,3", 3, {1, 2, 3}}, {"[1, 2, 3]", 3, {1, 2, 3}},
	{" [ 4 ] ", 1, {4}},     {"5", 1, {5}},
	{"[]", 0, {0}},          {"", 0, {0}},
	{" 6 , 7 ", 2, {6, 7}},
};

LOOP_TEST(test_set_list, N_OF(lists))
{
	ck_assert_int_eq(set("layers", lists[_i].text), 0);
	ck_assert_uint_eq(object.layers.n, lists[_i].n);
	for (size_t i = 0; i < lists[_i].n; i++)
		ck_assert_int_eq(object.layers.at[i], lists[_i].value[i]);
}

TEST(test_set_doubles)
{
	ck_assert_int_eq(set("weights", "[0.5, -1e3]"), 0);
	ck_assert_uint_eq(object.weights.n, 2);
	ck_assert_double_eq(object.weights.at[0], 0.5);
	ck_assert_double_eq(object.weights.at[1], -1000.0);
}

static const struct {
	const char *path, *text, *message;
} bad[] = {
	{"gpus", "0", "gpus: 0 is out of range; expected 1 to 65536"},
	{"gpus", "65537", "gpus: 65537 is out of range; expected 1 to 65536"},
	{"gpus", "x", "gpus: expected an integer from 1 to 65536, got \"x\""},
	{"gpus", "1.5", "gpus: expected an integer from 1 to 65536, got \"1.5\""},
	{"gpus", "", "gpus: expected an integer from 1 to 65536, got \"\""},
	{"low", "0", "low: 0 is out of range; expected 1 or more"},
	{"low", "a", "low: expected an integer of 1 or more, got \"a\""},
	{"high", "11", "high: 11 is out of range; expected 10 or less"},
	{"high", "a", "high: expected an integer of 10 or less, got \"a\""},
	{"ratio", "1.01", "ratio: 1.01 is out of range; expected 0 to 1"},
	{"ratio", "nan", "ratio: expected a number from 0 to 1, got \"nan\""},
	{"free_number", "inf", "free_number: expected a number, got \"inf\""},
	{"fused", "yes", "fused: expected true or false, got \"yes\"; write true"},
	{"fused", "1", "fused: expected true or false, got \"1\"; write true"},
	{"fused", "0", "fused: expected true or false, got \"0\"; write false"},
	{"fused", "On", "fused: expected true or false, got \"On\"; write true"},
	{"fused", "maybe", "fused: expected true or false, got \"maybe\""},
	{"kind", "tre",
	 "kind: unknown value \"tre\"; did you mean \"tree\"? Known: ring, tree, nvls"},
	{"kind", "star", "kind: unknown value \"star\"; expected one of: ring, tree, nvls"},
	{"kind", "", "kind: unknown value \"\"; expected one of: ring, tree, nvls"},
	{"scopes", "[attn, all]", "scopes[1]: \"all\" stands alone, not in a list"},
	{"scopes", "[attn, mpl]",
	 "scopes[1]: unknown value \"mpl\"; did you mean \"mlp\"? Known: none, all, attn, mlp"},
	{"scopes", "[]", "scopes: expected a single value, got a list"},
	{"parallel", "8", "parallel: is a section; set one of its keys, as \"parallel.tp\""},
	{"list", "8", "list: is a list of sections; it can only be set in a file"},
	{"layers", "1,0", "layers[1]: 0 is out of range; expected 1 to 100"},
	{"layers", "1,x", "layers[1]: expected an integer from 1 to 100, got \"x\""},
	{"layers", "[1", "layers: expected a list as \"[1, 2, 3]\", got \"[1\""},
	{"layers", "1]", "layers: expected a list as \"[1, 2, 3]\", got \"1]\""},
	{"layers", "[", "layers: expected a list as \"[1, 2, 3]\", got \"[\""},
	{"parallel.tp", "0", "parallel.tp: 0 is out of range; expected 1 to 64"},
};

LOOP_TEST(test_bad_text, N_OF(bad))
{
	struct outer before = object;

	ck_assert_int_eq(set(bad[_i].path, bad[_i].text), -SC_EVALUE);
	ck_assert_str_eq(err.text, bad[_i].message);
	ck_assert_mem_eq(&object, &before, sizeof(object));
}

static const struct {
	const char *text;
	int flags;
} flags[] = {
	{"all", 1},
	{"none", 0},
	{"mlp", SC_FLAG * 2},
	{"[mlp]", SC_FLAG * 2},
	{"[ attn, mlp ]", SC_FLAG * 3},
};

LOOP_TEST(a_name_or_a_list_of_flags, N_OF(flags))
{
	object.scopes = SC_FLAG << 5; /* is replaced, not added to */
	ck_assert_int_eq(set("scopes", flags[_i].text), 0);
	ck_assert_int_eq(object.scopes, flags[_i].flags);
}

TEST(truth_in_the_three_cases_of_yaml)
{
	static const char *const words[] = {"false", "true", "False", "True", "FALSE", "TRUE"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		object.fused = i % 2 == 0;
		ck_assert_int_eq(set("fused", words[i]), 0);
		ck_assert(object.fused == (i % 2 == 1));
	}
}

TEST(test_long_names_are_cut)
{
	static const struct sc_name names[] = {
		{"a-name-of-forty-characters-0123456789-abcd", 0},
		{"b-name-of-forty-characters-0123456789-abcd", 1},
		{"c-name-of-forty-characters-0123456789-abcd", 2},
		{"d-name-of-forty-characters-0123456789-abcd", 3},
		{NULL, 0},
	};
	static const struct sc_field field = {.key = "k", .type = SC_F_ENUM, .names = names};
	const struct sc_field_place to = {.field = &field, .path = "k", .arena = &arena};
	int value = 9;

	ck_assert_int_eq(sc_field_set_text(&to, "zz", &value, &err), -SC_EVALUE);
	ck_assert_ptr_nonnull(strstr(err.text, "c-name"));
	ck_assert_ptr_null(strstr(err.text, "d-name"));
	ck_assert_int_eq(value, 9);
}

static const struct {
	const char *path, *nearest; /* NULL: none */
} unknown[] = {
	{"gpu", "gpus"},
	{"GPUS", "gpus"},
	{"paralel.tp", "parallel.tp"},
	{"parallel.oder", "parallel.order"},
	{"parallel.xyzzy", NULL},
	{"gpus.tp", NULL},
	{"", NULL},
	{".", NULL},
	{"parallel.", NULL},
	{"a-word-that-is-much-longer-than-any-key-and-than-the-limit-of-hints-by-far", NULL},
};

LOOP_TEST(test_unknown_path, N_OF(unknown))
{
	struct sc_field_place to = sc_field_find(outer_fields, unknown[_i].path, &arena);

	ck_assert_ptr_null(to.field);
	if (unknown[_i].nearest)
		ck_assert_str_eq(to.nearest, unknown[_i].nearest);
	else
		ck_assert_ptr_null(to.nearest);
}

TEST(test_find_gives_the_base)
{
	struct sc_field_place to = sc_field_find(outer_fields, "parallel.pp", &arena);

	ck_assert_str_eq(to.field->key, "pp");
	ck_assert_uint_eq(to.base_offset, offsetof(struct outer, parallel));
	to = sc_field_find(outer_fields, "parallel", &arena);
	ck_assert_int_eq(to.field->type, SC_F_STRUCT);
	ck_assert_uint_eq(to.base_offset, 0);
}

TEST(test_extent)
{
	static const struct sc_field none[] = {{.key = NULL}};

	ck_assert_uint_eq(sc_fields_extent(inner_fields), sizeof(struct inner));
	ck_assert_uint_eq(sc_fields_extent(outer_fields),
			  offsetof(struct outer, list) + sizeof(struct sc_structs));
	ck_assert_uint_eq(sc_fields_extent(none), 0);
}

TEST(test_enum_name)
{
	ck_assert_str_eq(sc_enum_name(kinds, 5), "tree");
	ck_assert_ptr_null(sc_enum_name(kinds, 6));
}

static const struct {
	const char *word, *nearest;
} words[] = {
	{"predict", "predict"},
	{"predcit", "predict"},
	{"Predict", "predict"},
	{"predct", "predict"},
	{"swep", "sweep"},
	{"sweeep", "sweep"},
	{"xyz", NULL},
	{"", NULL},
	{"s", NULL},
	{"opp", "op"},
	{"po", NULL},
};

LOOP_TEST(test_nearest, N_OF(words))
{
	static const char *const candidates[] = {"predict", "sweep", "op"};
	const char *nearest = sc_nearest(words[_i].word, candidates, N_OF(candidates));

	if (words[_i].nearest)
		ck_assert_str_eq(nearest, words[_i].nearest);
	else
		ck_assert_ptr_null(nearest);
}

TEST(test_nearest_takes_the_first_of_equals)
{
	static const char *const candidates[] = {"abcx", "abcy"};

	ck_assert_str_eq(sc_nearest("abcz", candidates, 2), "abcx");
	ck_assert_ptr_null(sc_nearest("abcz", candidates, 0));
}
