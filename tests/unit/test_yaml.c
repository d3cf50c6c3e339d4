/* The YAML parser: what it takes, and the exact message for what it does not. */
#include <unistd.h>

#include "arena_fixture.h"
#include "base/strbuf.h"
#include "base/yaml.h"
#include "runner.h"

static struct sc_err err;
static struct sc_yaml *root;

static void set_up(void)
{
	arena_begin();
	memset(&err, 0, sizeof(err));
	root = NULL;
}

static int parse(const char *text)
{
	return sc_yaml_parse(&(struct sc_source){text, strlen(text), "t.yaml"}, &arena, &root,
			     &err);
}

static const char *error_text(void)
{
	static char buf[600];

	return sc_err_format(&err, buf, sizeof(buf));
}

FIXTURE(set_up, arena_end)

TEST(test_tree)
{
	const struct sc_yaml *a, *list, *map;

	ck_assert_int_eq(parse("# head\na: 1\n\nlist: [x, 'y', {z: 3}]\nmap:\n  k: \"v\"\n"), 0);
	ck_assert_int_eq(root->kind, SC_YAML_MAP);
	ck_assert_uint_eq(root->n_children, 3);
	a = sc_yaml_get(root, "a");
	ck_assert_str_eq(a->text, "1");
	ck_assert_str_eq(a->file, "t.yaml");
	ck_assert(!a->quoted);
	ck_assert_uint_eq(a->line, 2);
	ck_assert_uint_eq(a->column, 4);
	ck_assert_uint_eq(a->key_line, 2);
	ck_assert_uint_eq(a->key_column, 1);
	list = a->next;
	ck_assert_int_eq(list->kind, SC_YAML_SEQ);
	ck_assert_uint_eq(list->n_children, 3);
	ck_assert_ptr_null(list->child->key);
	ck_assert(list->child->next->quoted);
	ck_assert_str_eq(sc_yaml_get(list->child->next->next, "z")->text, "3");
	map = sc_yaml_get(root, "map");
	ck_assert_uint_eq(map->line, 6);
	ck_assert(sc_yaml_get(map, "k")->quoted);
	ck_assert_ptr_null(sc_yaml_get(map, "a"));
	ck_assert_ptr_null(map->next);
}

static const struct {
	const char *text, *value;
	bool quoted;
} scalars[] = {
	{"k: plain text\n", "plain text", false},
	{"k: 'it''s'\n", "it's", true},
	{"k: \"a\\tb\"\n", "a\tb", true},
	{"k: |\n  one\n  two\n", "one\ntwo\n", true},
	{"k: >-\n  one\n  two\n", "one two", true},
	{"k: caf\xC3\xA9\n", "caf\xC3\xA9", false},
	{"k: a # comment\n", "a", false},
	{"k: a#b\n", "a#b", false},
	{"\xEF\xBB\xBFk: bom\n", "bom", false},
	{"\xEF\xBB\xBFj: 1\nk: bom before\n", "bom before", false},
	{"k: crlf\r\n", "crlf", false},
	{"k: no newline", "no newline", false},
	{"---\nk: marked\n...\n", "marked", false},
	{"%YAML 1.1\n---\nk: directive\n", "directive", false},
	{"\"k\": quoted key\n", "quoted key", false},
	{"k: ''\n", "", true},
	{"k:\n", "", false},
};

LOOP_TEST(test_scalar, N_OF(scalars))
{
	const struct sc_yaml *node;

	ck_assert_msg(parse(scalars[_i].text) == 0, "%s", error_text());
	node = sc_yaml_get(root, "k");
	ck_assert_str_eq(node->text, scalars[_i].value);
	ck_assert_int_eq(node->quoted, scalars[_i].quoted);
}

TEST(test_null)
{
	const char *expected = "yyyyyynnnnn";

	ck_assert_int_eq(parse("a: ~\nb: null\nc: Null\nd: NULL\ne:\nf: \ng: ''\nh: \"null\"\n"
			       "i: nULL\nj: {}\nk: []\n"),
			 0);
	for (const struct sc_yaml *node = root->child; node; node = node->next)
		ck_assert_msg(sc_yaml_is_null(node) == (*expected++ == 'y'), "%s", node->key);
}

static const struct {
	const char *text, *message;
} bad[] = {
	{"", "t.yaml: error: empty: expected a mapping"},
	{"# only a comment\n", "t.yaml: error: empty: expected a mapping"},
	{"---\n", "t.yaml: error: empty: expected a mapping"},
	{"~\n", "t.yaml: error: empty: expected a mapping"},
	{"\xEF\xBB\xBF", "t.yaml: error: empty: expected a mapping"},
	{"text\n",
	 "t.yaml:1:1: error: expected a mapping (`key: value` lines), got a single value"},
	{"''\n", "t.yaml:1:1: error: expected a mapping (`key: value` lines), got a single value"},
	{"- a\n", "t.yaml:1:1: error: expected a mapping (`key: value` lines), got a list"},
	{"gpus: 8\nx: 1\ngpus: 16\n",
	 "t.yaml:3:1: error: duplicate key \"gpus\"; it is already given on line 1"},
	{"p:\n  tp: 1\n  \"tp\": 2\n",
	 "t.yaml:3:3: error: duplicate key \"tp\"; it is already given on line 2"},
	{"p: {b: 1, a: 2, b: 3, a: 4}\n",
	 "t.yaml:1:17: error: duplicate key \"b\"; it is already given on line 1"},
	{"a: &x 1\n",
	 "t.yaml:1:4: error: anchors (&name) are not allowed; write the value where it "
	 "is used"},
	{"a: &x [1]\n", "t.yaml:1:4: error: anchors (&name) are not allowed; write the value where "
			"it is used"},
	{"a: &x {b: 1}\n", "t.yaml:1:4: error: anchors (&name) are not allowed; write the value "
			   "where it is used"},
	{"&x a: 1\n",
	 "t.yaml:1:1: error: anchors (&name) are not allowed; write the value where it "
	 "is used"},
	{"a: *x\n", "t.yaml:1:4: error: aliases (*name) are not allowed; write the value out, or "
		    "quote the text"},
	{"a: !!int 8\n", "t.yaml:1:4: error: tags (!name) are not allowed; remove the tag"},
	{"a: !x [1]\n", "t.yaml:1:4: error: tags (!name) are not allowed; remove the tag"},
	{"a: ! 8\n", "t.yaml:1:4: error: tags (!name) are not allowed; remove the tag"},
	{"%TAG ! x:\n---\na: 1\n",
	 "t.yaml:1:1: error: tag directives (%TAG) are not allowed; remove the line"},
	{"a: 1\n---\nb: 2\n",
	 "t.yaml:2:1: error: a second document begins here; keep one per file"},
	{"? [a]\n: 1\n", "t.yaml:1:3: error: a key must be a plain name, not a list or a mapping"},
	{"{a: 1}: 2\n", "t.yaml:1:1: error: a key must be a plain name, not a list or a mapping"},
	{": 1\n", "t.yaml:1:1: error: expected a key; check the indentation of this line"},
	{"{: 1}\n",
	 "t.yaml:1:2: error: a value is missing here; write one, or quote a text that begins with this character"},
	{"a: [: 1]\n",
	 "t.yaml:1:5: error: a value is missing here; write one, or quote a text that begins with this character"},
	{"?\n: 1\n", "t.yaml:1:2: error: a key is missing before the \":\""},
	{"\"\": 1\n", "t.yaml:1:1: error: a key is missing before the \":\""},
	{"a: \"x\\0y\"\n", "t.yaml:1:4: error: a NUL character is not allowed"},
	{"\"x\\0y\": 1\n", "t.yaml:1:1: error: a NUL character is not allowed"},
	{"a:\n\tb: 1\n",
	 "t.yaml:2:1: error: a value cannot begin with this character; quote it, and "
	 "indent with spaces, not tabs"},
	{"a: @x\n", "t.yaml:1:4: error: a value cannot begin with this character; quote it, and "
		    "indent with spaces, not tabs"},
	{"a: b: c\n", "t.yaml:1:5: error: a \":\" is not expected here; check the indentation, or "
		      "quote a text that contains \": \""},
	{"a: 1\n b: 2\n", "t.yaml:2:3: error: a \":\" is not expected here; check the indentation, "
			  "or quote a text that contains \": \""},
	{"a:\n  b: 1\n c: 2\n",
	 "t.yaml:3:2: error: expected a key; check the indentation of this line"},
	{"a:\n  - 1\n  b: 1\n", "t.yaml:3:3: error: expected \"- \" of the list; check the "
				"indentation of this line"},
	{"a: 1\nb\nc: 1\n", "t.yaml:3:1: error: expected \":\" after the key above; write `key: "
			    "value`"},
	{"a: [1, 2\nb: 1\n", "t.yaml:2:2: error: the list is not closed; expected \",\" or \"]\""},
	{"a: {b: 1\n", "t.yaml:2:1: error: the mapping is not closed; expected \",\" or \"}\""},
	{"a: \"x\n", "t.yaml:2:1: error: the file ends inside a quoted text; close the quotes"},
	{"{a: 1} b\n", "t.yaml:1:8: error: expected the end of the file here; keep one mapping at "
		       "the top"},
	{"a: \"\\q\"\n", "t.yaml:1:5: error: not valid YAML: found unknown escape character"},
	{"a: 1\nb: \xFF\n", "t.yaml:2:4: error: not a text file in UTF-8: invalid leading UTF-8 "
			    "octet"},
	{"\xFF\xFE", "t.yaml:1:1: error: not a text file in UTF-8: invalid leading UTF-8 octet"},
	{"a: \xC3\xA9\x01\n", "t.yaml:1:5: error: not a text file in UTF-8: control characters are "
			      "not allowed"},
};

LOOP_TEST(test_bad, N_OF(bad))
{
	ck_assert_int_eq(parse(bad[_i].text), -SC_EFORMAT);
	ck_assert_str_eq(error_text(), bad[_i].message);
	ck_assert_ptr_null(root);
}

TEST(test_nul_byte)
{
	ck_assert_int_eq(
		sc_yaml_parse(&(struct sc_source){"a: 1\0b: 2", 9, "t.yaml"}, &arena, &root, &err),
		-SC_EFORMAT);
	ck_assert_str_eq(error_text(),
			 "t.yaml:1:5: error: not a text file in UTF-8: control characters are not "
			 "allowed");
}

/* A mapping is the first level, so n lists nest n + 1 deep. */
static void append_nested(struct sc_strbuf *text, int n)
{
	sc_strbuf_append(text, "a: ");
	for (int i = 0; i < n; i++)
		sc_strbuf_append_char(text, '[');
	for (int i = 0; i < n; i++)
		sc_strbuf_append_char(text, ']');
}

TEST(test_depth)
{
	struct sc_strbuf text = {0};

	append_nested(&text, SC_YAML_MAX_DEPTH - 1);
	ck_assert_int_eq(parse(sc_strbuf_get(&text)), 0);
	sc_strbuf_clear(&text);
	append_nested(&text, SC_YAML_MAX_DEPTH);
	ck_assert_int_eq(parse(sc_strbuf_get(&text)), -SC_ELIMIT);
	ck_assert_str_eq(error_text(),
			 "t.yaml:1:35: error: nested too deeply; at most 32 levels are read");
	sc_strbuf_release(&text);
}

/* A million brackets are refused at once, not after a million steps of a quadratic scan. */
TEST(test_depth_bomb)
{
	struct sc_strbuf text = {0};

	append_nested(&text, 1000000);
	ck_assert_int_eq(parse(sc_strbuf_get(&text)), -SC_ELIMIT);
	sc_strbuf_release(&text);
}

TEST(test_too_many_nodes)
{
	struct sc_strbuf text = {0};

	sc_strbuf_append(&text, "a: [");
	for (int i = 0; i < SC_YAML_MAX_NODES; i++)
		sc_strbuf_append(&text, "1,");
	sc_strbuf_append(&text, "]\n");
	ck_assert_int_eq(parse(sc_strbuf_get(&text)), -SC_ELIMIT);
	ck_assert_str_eq(err.text, "too many values; at most 1048576 are read");
	sc_strbuf_release(&text);
}

/* Many keys take time n log n; the duplicate is found among them. */
TEST(test_many_keys)
{
	struct sc_strbuf text = {0};

	for (int i = 0; i < 100000; i++)
		sc_strbuf_printf(&text, "k%d: 1\n", i);
	ck_assert_int_eq(parse(sc_strbuf_get(&text)), 0);
	ck_assert_uint_eq(root->n_children, 100000);
	sc_strbuf_append(&text, "k500: 1\n");
	ck_assert_int_eq(parse(sc_strbuf_get(&text)), -SC_EFORMAT);
	ck_assert_str_eq(error_text(), "t.yaml:100001:1: error: duplicate key \"k500\"; it is "
				       "already given on line 501");
	sc_strbuf_release(&text);
}

TEST(test_too_large)
{
	ck_assert_int_eq(sc_yaml_parse(&(struct sc_source){"", SC_YAML_MAX_BYTES + 1, "t.yaml"},
				       &arena, &root, &err),
			 -SC_ELIMIT);
	ck_assert_str_eq(error_text(),
			 "t.yaml: error: the file is too large; at most 4194304 bytes are read");
}

TEST(test_load)
{
	FILE *file = tmpfile();
	char path[32];

	ck_assert_ptr_nonnull(file);
	snprintf(path, sizeof(path), "/dev/fd/%d", fileno(file));
	ck_assert_int_gt(fputs("gpus: 8\n", file), 0);
	ck_assert_int_eq(fflush(file), 0);
	ck_assert_int_eq(sc_yaml_load(path, &arena, &root, &err), 0);
	ck_assert_str_eq(sc_yaml_get(root, "gpus")->text, "8");
	ck_assert_str_eq(root->file, path);
	/* 100 MB, none of it on disk or read */
	ck_assert_int_eq(ftruncate(fileno(file), 100000000), 0);
	ck_assert_int_eq(sc_yaml_load(path, &arena, &root, &err), -SC_ELIMIT);
	fclose(file);
}

TEST(test_load_nothing)
{
	ck_assert_int_eq(sc_yaml_load("no/such.yaml", &arena, &root, &err), -SC_EIO);
	ck_assert_str_eq(error_text(),
			 "no/such.yaml: error: cannot be opened: No such file or directory");
}
