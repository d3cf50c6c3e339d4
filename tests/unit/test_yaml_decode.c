/* YAML trees into structs by field tables: values, defaults, origins, references, messages. */
#include "arena_fixture.h"
#include "base/yaml.h"
#include "runner.h"

struct part {
	int64_t count;
	double slowdown;
	struct sc_ints ranks;
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
	int after; /* in no table */
};
static const struct sc_name kinds[] = {{"ring", 3}, {"tree", 5}, {NULL, 0}};
#define PART(name, ftype) .key = #name, .type = ftype, .offset = offsetof(struct part, name)
static const struct sc_field part_fields[] = {
	{PART(count, SC_F_INT), .min = 1, .max = 65536, .required = true, .help = "how many"},
	{PART(slowdown, SC_F_DOUBLE), .min = 1, .max = 10},
	{PART(ranks, SC_F_INTS), .min = 0, .max = 99},
	{.key = NULL},
};
#define REQUEST(name, ftype) .key = #name, .type = ftype, .offset = offsetof(struct request, name)
static const struct sc_field fields[] = {
	{REQUEST(gpus, SC_F_INT), .min = 1, .max = 65536},
	{REQUEST(ratio, SC_F_DOUBLE)},
	{REQUEST(fused, SC_F_BOOL)},
	{REQUEST(name, SC_F_STR)},
	{REQUEST(kind, SC_F_ENUM), .names = kinds},
	{REQUEST(part, SC_F_STRUCT), .sub = part_fields},
	{REQUEST(model, SC_F_STRUCT), .sub = part_fields, .may_be_file = true},
	{REQUEST(ints, SC_F_INTS), .min = 1, .max = 100},
	{REQUEST(doubles, SC_F_DOUBLES)},
	{REQUEST(parts, SC_F_STRUCTS), .sub = part_fields, .elem_bytes = sizeof(struct part)},
	{.key = "notes", .type = SC_F_IGNORE},
	{.key = NULL},
};

static struct sc_err err;
static struct request request;

static void set_up(void)
{
	arena_begin();
	memset(&err, 0, sizeof(err));
	memset(&request, 0, sizeof(request));
	request.gpus = 77;
	request.part.slowdown = 1.5;
	request.after = 42;
}

static int decode(const char *text, struct sc_yaml_opts *opts)
{
	struct sc_yaml *root;

	ck_assert_int_eq(sc_yaml_parse(&(struct sc_source){text, strlen(text), "t.yaml"}, &arena,
				       &root, &err),
			 0);
	return sc_yaml_decode(root, fields, &request, &arena, opts, &err);
}

static const char *error_text(void)
{
	static char buf[600];

	return sc_err_format(&err, buf, sizeof(buf));
}

FIXTURE(set_up, arena_end)

TEST(test_every_type)
{
	const struct part *parts;

	ck_assert_int_eq(decode("gpus: 5.12e2\nratio: 1\nfused: true\nname: \"8\"\nkind: tree\n"
				"part: {count: 2, ranks: [0, 7]}\nints: [3, 4]\ndoubles: [.5]\n"
				"parts:\n  - {count: 5}\n  - {count: 6, slowdown: 2}\n"
				"notes: {any: [thing, ~]}\n",
				NULL),
			 0);
	ck_assert_int_eq(request.gpus, 512);
	ck_assert_double_eq(request.ratio, 1.0);
	ck_assert(request.fused);
	ck_assert_str_eq(request.name, "8");
	ck_assert_int_eq(request.kind, 5);
	ck_assert_int_eq(request.part.count, 2);
	ck_assert_double_eq(request.part.slowdown, 1.5);
	ck_assert_uint_eq(request.part.ranks.n, 2);
	ck_assert_int_eq(request.part.ranks.at[1], 7);
	ck_assert_uint_eq(request.ints.n, 2);
	ck_assert_int_eq(request.ints.at[1], 4);
	ck_assert_uint_eq(request.doubles.n, 1);
	ck_assert_double_eq(request.doubles.at[0], 0.5);
	ck_assert_uint_eq(request.parts.n, 2);
	parts = request.parts.at;
	ck_assert_int_eq(parts[0].count, 5);
	ck_assert_double_eq(parts[0].slowdown, 0.0);
	ck_assert_double_eq(parts[1].slowdown, 2.0);
	ck_assert_int_eq(request.after, 42);
}

TEST(test_defaults_stay)
{
	ck_assert_int_eq(decode("notes: ~\nints: []\nparts: []\n", NULL), 0);
	ck_assert_int_eq(request.gpus, 77);
	ck_assert_uint_eq(request.ints.n, 0);
	ck_assert_uint_eq(request.parts.n, 0);
}

static const struct {
	const char *text, *message;
} bad[] = {
	{"gpsu: 8\n", "t.yaml:1:1: error: unknown key \"gpsu\"; did you mean \"gpus\"?"},
	{"xyzzy: 8\n", "t.yaml:1:1: error: unknown key \"xyzzy\"; known keys: gpus, ratio, fused, "
		       "name, kind, part, model, ints, doubles, parts, notes"},
	{"part:\n  cuont: 1\n",
	 "t.yaml:2:3: error: unknown key \"part.cuont\"; did you mean \"part.count\"?"},
	{"part: {count: 0}\n", "t.yaml:1:15: error: part.count: 0 is out of range; expected 1 to "
			       "65536"},
	{"part: {slowdown: 2}\n", "t.yaml:1:7: error: missing key \"part.count\": how many"},
	{"parts: [{count: 1}, {slowdown: 2}]\n",
	 "t.yaml:1:21: error: missing key \"parts[1].count\": how many"},
	{"parts: [{count: 1, ranks: [1, 100]}]\n",
	 "t.yaml:1:31: error: parts[0].ranks[1]: 100 is out of range; expected 0 to 99"},
	{"parts: [1]\n", "t.yaml:1:9: error: parts[0]: expected a mapping, got a single value"},
	{"parts: {count: 1}\n", "t.yaml:1:8: error: parts: expected a list of mappings, got a "
				"mapping"},
	{"gpus: ~\n", "t.yaml:1:7: error: gpus: no value is given; write one, or remove the key"},
	{"gpus:\n", "t.yaml:1:6: error: gpus: no value is given; write one, or remove the key"},
	{"name: null\n",
	 "t.yaml:1:7: error: name: no value is given; write one, or remove the key"},
	{"part:\n", "t.yaml:1:6: error: part: no value is given; write one, or remove the key"},
	{"ints: [1, ~]\n",
	 "t.yaml:1:11: error: ints[1]: no value is given; write one, or remove the key"},
	{"gpus: \"8\"\n",
	 "t.yaml:1:7: error: gpus: expected an integer, got the quoted text \"8\"; "
	 "remove the quotes"},
	{"ratio: '1'\n", "t.yaml:1:8: error: ratio: expected a number, got the quoted text \"1\"; "
			 "remove the quotes"},
	{"fused: 'true'\n", "t.yaml:1:8: error: fused: expected true or false, got the quoted text "
			    "\"true\"; remove the quotes"},
	{"fused: yes\n", "t.yaml:1:8: error: fused: expected true or false, got \"yes\"; write "
			 "true"},
	{"gpus: 1.5\n", "t.yaml:1:7: error: gpus: expected an integer from 1 to 65536, got "
			"\"1.5\""},
	{"gpus: [8]\n", "t.yaml:1:7: error: gpus: expected a single value, got a list"},
	{"name: {a: 1}\n", "t.yaml:1:7: error: name: expected a single value, got a mapping"},
	{"kind: rnig\n", "t.yaml:1:7: error: kind: unknown value \"rnig\"; did you mean \"ring\"? "
			 "Known: ring, tree"},
	{"ints: 4\n", "t.yaml:1:7: error: ints: expected a list as [1, 2, 3], got a single value"},
	{"part: x.yaml\n", "t.yaml:1:7: error: part: expected a mapping, got a single value"},
	{"part: [1]\n", "t.yaml:1:7: error: part: expected a mapping, got a list"},
	{"model: [1]\n",
	 "t.yaml:1:8: error: model: expected a mapping or the path of a file, got a "
	 "list"},
	{"model: x.yaml\n", "t.yaml:1:8: error: model: expected a mapping, got a single value"},
	{"ratio: .inf\n", "t.yaml:1:8: error: ratio: expected a number, got \".inf\""},
};

LOOP_TEST(test_bad, N_OF(bad))
{
	struct request before = request;
	int rc = decode(bad[_i].text, NULL);

	ck_assert_int_eq(rc, -SC_EVALUE);
	ck_assert_str_eq(error_text(), bad[_i].message);
	ck_assert_mem_eq(&request, &before, sizeof(request));
}

TEST(test_nothing_written_on_failure)
{
	ck_assert_int_eq(decode("gpus: 8\nratio: 0.5\npart: {count: 3}\nfused: maybe\n", NULL),
			 -SC_EVALUE);
	ck_assert_int_eq(request.gpus, 77);
	ck_assert_double_eq(request.ratio, 0.0);
	ck_assert_int_eq(request.part.count, 0);
}

/* "good.yaml" holds a mapping, "bad.yaml" one with a wrong value, all else does not exist. */
static const struct sc_yaml *asked;

static int open_ref(const struct sc_yaml *node, struct sc_arena *in, struct sc_yaml **out,
		    struct sc_err *e)
{
	const char *ref = node->text;
	const char *text = strcmp(ref, "good.yaml") == 0 ? "count: 9\n" : "count: 0\n";

	asked = node;
	if (strcmp(ref, "cut.yaml") == 0)
		text = "count: [";
	else if (strcmp(ref, "good.yaml") != 0 && strcmp(ref, "bad.yaml") != 0)
		return sc_err_set(e, SC_EIO, "no file \"%s\"", ref);
	return sc_yaml_parse(&(struct sc_source){text, strlen(text), ref}, in, out, e);
}

TEST(test_ref)
{
	struct sc_yaml_opts opts = {.open_ref = open_ref};

	ck_assert_int_eq(decode("gpus: 8\nmodel: good.yaml\n", &opts), 0);
	ck_assert_int_eq(request.model.count, 9);
	ck_assert_str_eq(asked->file, "t.yaml");
	ck_assert_uint_eq(asked->line, 2);
	ck_assert_int_eq(decode("model: {count: 4}\n", &opts), 0);
	ck_assert_int_eq(request.model.count, 4);
}

static const struct {
	const char *text;
	int code;
	const char *message;
} bad_refs[] = {
	{"model: none.yaml\n", SC_EIO, "t.yaml:1:8: error: model: no file \"none.yaml\""},
	{"model: bad.yaml\n", SC_EVALUE,
	 "bad.yaml:1:8: error: model.count: 0 is out of range; expected 1 to 65536"},
	{"model: cut.yaml\n", SC_EFORMAT,
	 "cut.yaml:2:1: error: a value is missing here; write one, or quote a text that begins with this character"},
	{"part: good.yaml\n", SC_EVALUE,
	 "t.yaml:1:7: error: part: expected a mapping, got a single "
	 "value"},
};

LOOP_TEST(test_bad_ref, N_OF(bad_refs))
{
	struct sc_yaml_opts opts = {.open_ref = open_ref};

	ck_assert_int_eq(decode(bad_refs[_i].text, &opts), -bad_refs[_i].code);
	ck_assert_str_eq(error_text(), bad_refs[_i].message);
	ck_assert_int_eq(request.model.count, 0);
}

TEST(test_origins)
{
	static const struct {
		const char *path, *file;
		unsigned line, column;
	} expected[] = {
		{"gpus", "t.yaml", 1, 7},
		{"part.count", "t.yaml", 2, 15},
		{"part.ranks", "t.yaml", 2, 25},
		{"model", "t.yaml", 3, 8},
		{"model.count", "good.yaml", 1, 8},
		{"parts[0].count", "t.yaml", 4, 17},
		{"parts[1].count", "t.yaml", 4, 29},
		{"parts", "t.yaml", 4, 8},
		{"notes", "t.yaml", 5, 8},
	};
	struct sc_origin origins[N_OF(expected)];
	struct sc_yaml_opts opts = {
		.open_ref = open_ref, .origins = origins, .cap_origins = N_OF(origins)};
	const char *text = "gpus: 8\npart: {count: 1, ranks: [1]}\nmodel: good.yaml\n"
			   "parts: [{count: 1}, {count: 2}]\nnotes: x\n";

	ck_assert_int_eq(decode(text, &opts), 0);
	ck_assert_uint_eq(opts.n_origins, N_OF(expected));
	for (size_t i = 0; i < N_OF(expected); i++) {
		ck_assert_str_eq(origins[i].path, expected[i].path);
		ck_assert_str_eq(origins[i].file, expected[i].file);
		ck_assert_uint_eq(origins[i].line, expected[i].line);
		ck_assert_uint_eq(origins[i].column, expected[i].column);
	}
	opts.n_origins = 0;
	opts.cap_origins = 2;
	memset(&origins[2], 0, sizeof(origins[2]));
	ck_assert_int_eq(decode(text, &opts), 0);
	ck_assert_uint_eq(opts.n_origins, N_OF(expected));
	ck_assert_ptr_null(origins[2].path);
}

TEST(test_no_err)
{
	struct sc_yaml *root;

	ck_assert_int_eq(
		sc_yaml_parse(&(struct sc_source){"gpus: x\n", 8, "t.yaml"}, &arena, &root, NULL),
		0);
	ck_assert_int_eq(sc_yaml_decode(root, fields, &request, &arena, NULL, NULL), -SC_EVALUE);
	ck_assert_int_eq(sc_yaml_parse(&(struct sc_source){"", 0, "t.yaml"}, &arena, &root, NULL),
			 -SC_EFORMAT);
}
