/* See the header. */
#include "lib/shard_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"

enum { MAX_WORDS = 8, MAX_TEXT = 512, MAX_BYTES = 16 << 20 };

struct parser {
	const struct sc_constraint_at *at;
	const struct sc_shard_problem *problem;
	char text[MAX_TEXT];
	char *words[MAX_WORDS];
	unsigned column[MAX_WORDS];
	size_t n_words;
	struct sc_err *err;
};

static int bad(const struct parser *p, size_t word, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int bad(const struct parser *p, size_t word, const char *fmt, ...)
{
	char text[sizeof(p->err->text)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (p->at->file)
		return sc_err_at(p->err, SC_EVALUE, p->at->file, p->at->line,
				 word < p->n_words ? p->column[word] : 0, "%s", text);
	return sc_err_set(p->err, SC_EUSAGE, "--constraint: %s", text);
}

static int split(struct parser *p, const char *text)
{
	char *at;

	if (strlen(text) >= sizeof(p->text))
		return bad(p, 0, "longer than %d bytes", MAX_TEXT - 1);
	memcpy(p->text, text, strlen(text) + 1);
	for (at = p->text; *at;) {
		at += strspn(at, " \t\r");
		if (!*at)
			break;
		if (p->n_words == MAX_WORDS)
			return bad(p, 0, "more than %d words", MAX_WORDS);
		p->column[p->n_words] = (unsigned)(at - p->text) + 1;
		p->words[p->n_words++] = at;
		at += strcspn(at, " \t\r");
		if (*at)
			*at++ = '\0';
	}
	return 0;
}

static int find_table(const struct parser *p, size_t word, uint32_t *out)
{
	for (uint32_t i = 0; i < p->problem->n_tables; i++) {
		if (strcmp(p->problem->tables[i].name, p->words[word]) == 0) {
			*out = i;
			return 0;
		}
	}
	return bad(p, word, "the model has no table \"%.64s\"", p->words[word]);
}

/* "a, b, c" */
static void join_names(const char *const *names, size_t n, char *out, size_t size)
{
	size_t at = 0;

	out[0] = '\0';
	for (size_t i = 0; i < n && at < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%s%s", i ? ", " : "", names[i]);
}

static int find_name(const struct parser *p, size_t word, const struct sc_name *names,
		     const char *value, int *out)
{
	const char *all[16], *near;
	char known[160];
	size_t n = 0;

	for (; n < 16 && names[n].name; n++) {
		all[n] = names[n].name;
		if (strcmp(names[n].name, value) == 0) {
			*out = names[n].value;
			return 0;
		}
	}
	near = sc_nearest(value, all, n);
	if (near)
		return bad(p, word, "unknown value \"%.40s\"; did you mean \"%s\"?", value, near);
	join_names(all, n, known, sizeof(known));
	return bad(p, word, "unknown value \"%.40s\"; expected one of: %s", value, known);
}

static bool has_key(const char *word, const char *key)
{
	size_t n = strlen(key);

	return strncmp(word, key, n) == 0 && word[n] == '=';
}

static int parse_place(const struct parser *p, size_t word, struct sc_shard_constraint *out)
{
	const char *text = p->words[word], *value = strchr(text, '=');
	bool is_rank = has_key(text, "rank"), is_type = has_key(text, "type");
	int64_t rank;

	if (!is_rank && !is_type && !has_key(text, "tier"))
		return bad(p, word, "expected rank=, type= or tier=, got \"%.40s\"", text);
	value++;
	if ((is_rank ? out->rank : is_type ? out->type : out->tier) >= 0)
		return bad(p, word, "%.5s is given twice", text);
	if (is_type)
		return find_name(p, word, sc_shard_type_names, value, &out->type);
	if (!is_rank)
		return find_name(p, word, sc_tier_names, value, &out->tier);
	if (!sc_parse_int(value, &rank) || rank < 0 || rank >= p->problem->world)
		return bad(p, word, "expected rank=0 to %u, got \"%.40s\"", p->problem->world - 1,
			   value);
	out->rank = (int32_t)rank;
	return 0;
}

static int parse_placing(const struct parser *p, enum sc_constraint_kind kind, sc_constraints *out)
{
	struct sc_shard_constraint c = {.kind = kind, .rank = -1, .type = -1, .tier = -1};
	size_t n_prefix = strlen(p->words[1]), n_before = out->n;
	int rc = 0;

	if (p->n_words < 3)
		return bad(p, 0, "%s needs a table and rank=, type= or tier=", p->words[0]);
	for (size_t i = 2; i < p->n_words && rc == 0; i++)
		rc = parse_place(p, i, &c);
	if (rc)
		return rc;
	if (p->words[1][n_prefix - 1] != '*') {
		rc = find_table(p, 1, &c.table);
		if (rc == 0)
			SC_VEC_PUSH(out, c);
		return rc;
	}
	for (c.table = 0; c.table < p->problem->n_tables; c.table++) {
		if (strncmp(p->problem->tables[c.table].name, p->words[1], n_prefix - 1) == 0)
			SC_VEC_PUSH(out, c);
	}
	if (out->n == n_before)
		return bad(p, 1, "the model has no table \"%.64s\"", p->words[1]);
	return 0;
}

static int parse_pair(const struct parser *p, enum sc_constraint_kind kind, sc_constraints *out)
{
	struct sc_shard_constraint c = {.kind = kind, .rank = -1, .type = -1, .tier = -1};
	int rc;

	if (p->n_words != 3)
		return bad(p, 0, "%s needs two tables", p->words[0]);
	rc = find_table(p, 1, &c.table);
	if (rc == 0)
		rc = find_table(p, 2, &c.other);
	if (rc == 0 && c.table == c.other)
		rc = bad(p, 2, "%s needs two different tables", p->words[0]);
	if (rc == 0)
		SC_VEC_PUSH(out, c);
	return rc;
}

int sc_constraint_parse(const char *text, const struct sc_constraint_at *at,
			const struct sc_shard_problem *problem, sc_constraints *out,
			struct sc_err *err)
{
	static const struct sc_name kinds[] = {
		{"pin", SC_PIN},
		{"forbid", SC_FORBID},
		{"together", SC_TOGETHER},
		{"apart", SC_APART},
		{0},
	};
	struct parser p = {.at = at, .problem = problem, .err = err};
	int rc = split(&p, text), kind = -1;

	if (rc)
		return rc;
	for (const struct sc_name *name = kinds; p.n_words && name->name; name++) {
		if (strcmp(p.words[0], name->name) == 0)
			kind = name->value;
	}
	if (kind < 0 || p.n_words < 2)
		return bad(&p, 0, "expected pin, forbid, together or apart and a table");
	if (kind == SC_PIN || kind == SC_FORBID)
		return parse_placing(&p, (enum sc_constraint_kind)kind, out);
	return parse_pair(&p, (enum sc_constraint_kind)kind, out);
}

int sc_constraints_load(const char *path, const struct sc_shard_problem *problem,
			sc_constraints *out, struct sc_err *err)
{
	struct sc_constraint_at at = {.file = path};
	char *text = NULL, *line, *next;
	size_t n;
	int rc = sc_file_read(path, MAX_BYTES, &text, &n, err);

	for (line = text; rc == 0 && line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		at.line++;
		if (line[strspn(line, " \t\r")] != '\0' && line[strspn(line, " \t")] != '#')
			rc = sc_constraint_parse(line, &at, problem, out, err);
	}
	free(text);
	return rc;
}
