/* The rules for what several keys of another program's file say together: applied in order once all
 * files are taken, each where its conditions hold. What no rule then read is listed. */
#include "core/foreign/foreign_priv.h"

#include <inttypes.h>
#include <string.h>

#include "base/num.h"

static bool has_value(const struct sc_yaml *node, const char *form)
{
	const struct sc_foreign_word words[] = {{form, form}, {0}};

	if (node->kind != SC_YAML_SEQ)
		return sc_foreign_word_of(words, node);
	for (node = node->child; node; node = node->next)
		if (has_value(node, form))
			return true;
	return false;
}

/* Returns the count that the first of these names holds, 0 for none; -1: no such name is there. */
static int64_t factor_of(const struct sc_foreign *file, const char *names)
{
	char name[SC_FOREIGN_MAX_NAME];
	int64_t n;

	while (sc_foreign_next(&names, "|", name)) {
		const struct sc_foreign_leaf *leaf = sc_foreign_get(file, name);

		if (strcmp(name, "replicas") == 0)
			return sc_foreign_gpus(file) / sc_foreign_replica(file);
		if (strcmp(name, "replica") == 0)
			return sc_foreign_replica(file);
		if (sc_parse_int(name, &n))
			return n;
		if (leaf || sc_foreign_line_of(file->lines, name))
			return leaf ? sc_foreign_count_of(leaf->node, 0)
				    : sc_foreign_ours(file, name, 0);
	}
	return -1;
}

/* Returns whether a key of ours is given beside the files. */
static bool is_given(const struct sc_foreign_lines *lines, const char *name)
{
	const size_t n = strlen(name);
	size_t i = 0;

	while (i < lines->n_given &&
	       (strncmp(lines->given[i], name, n) != 0 || lines->given[i][n] != '='))
		i++;
	return i < lines->n_given;
}

bool sc_foreign_holds(const struct sc_foreign *file, const char *condition)
{
	const bool no = condition[0] == '!';
	char name[SC_FOREIGN_MAX_NAME];
	bool any = false;
	int64_t n;

	condition += no;
	while (!any && sc_foreign_next(&condition, "|", name)) {
		char *value = name + strcspn(name, "=>"), sign = *value;
		const struct sc_foreign_leaf *leaf;
		const struct sc_yaml *node;

		*value = '\0';
		leaf = sc_foreign_get(file, name);
		node = leaf ? leaf->node : sc_foreign_line_of(file->lines, name);
		if (strcmp(name, "arguments") == 0)
			any = file->format->mark != NULL;
		else if (strcmp(name, "gpus") == 0)
			any = sc_foreign_gpus(file) > 0;
		else if (sign == '=')
			any = node && has_value(node, value + 1);
		else if (sign == '>')
			any = sc_parse_int(value + 1, &n) && sc_foreign_count_of(node, 0) > n;
		else
			any = is_given(file->lines, name) ||
			      (node && !sc_yaml_is_null(node) &&
			       !sc_foreign_is_text(node, "false") &&
			       !sc_foreign_is_text(node, "False") &&
			       (node->kind == SC_YAML_SCALAR || node->child));
	}
	return any != no;
}

/* A factor that is not known yet says nothing. */
static int put_product(struct sc_foreign *file, const struct sc_foreign_says *rule,
		       const struct sc_foreign_leaf *leaf, struct sc_err *err)
{
	const int64_t max = INT64_C(1) << 40;
	const char *times = rule->times, *over = rule->over;
	int64_t n = sc_foreign_count_of(leaf->node, 0);
	char name[SC_FOREIGN_MAX_NAME];

	while (n > 0 && sc_foreign_next(&times, " ", name)) {
		int64_t by = factor_of(file, name);

		if (by > 0 && n > max / by)
			return sc_foreign_fail(leaf, err, "is too large");
		n = by > 0 ? n * by : 0;
	}
	while (n > 0 && sc_foreign_next(&over, " ", name)) {
		int64_t by = factor_of(file, name);

		name[strcspn(name, "|")] = '\0';
		if (by < 0)
			return sc_foreign_fail(
				leaf, err, sc_arena_printf(file->lines->arena, "needs %s", name));
		if (by > 0 && n % by)
			return sc_foreign_fail(leaf, err,
					       sc_arena_printf(file->lines->arena,
							       "does not divide by %s, %" PRId64,
							       name, by));
		n = by > 0 ? n / by : 0;
	}
	return n > 0 ? sc_foreign_put_count(file, leaf, rule->ours, n, err) : 0;
}

static bool rule_holds(const struct sc_foreign *file, const struct sc_foreign_says *rule)
{
	char condition[SC_FOREIGN_MAX_NAME];
	const char *when = rule->when;
	bool holds = true;

	while (holds && sc_foreign_next(&when, " ", condition))
		holds = sc_foreign_holds(file, condition);
	return holds;
}

/* Puts what each of a list says as one text with commas between; what stands behind the model's
 * layers is of later tokens'. */
static int put_list(struct sc_foreign *file, const struct sc_foreign_says *rule,
		    const struct sc_foreign_leaf *leaf, struct sc_err *err)
{
	int64_t left = sc_foreign_ours(file, "model.layers", SC_FOREIGN_MAX_LAYERS);
	const char *text = "";

	left = left < SC_FOREIGN_MAX_LAYERS ? left : SC_FOREIGN_MAX_LAYERS;

	for (const struct sc_yaml *one = leaf->node->child; one && left > 0;
	     one = one->next, left--) {
		const struct sc_foreign_word *word = sc_foreign_word_of(rule->words, one);

		if (!word || !word->ours)
			return sc_foreign_not_understood(leaf, err);
		text = sc_arena_printf(file->lines->arena, "%s%s%s", text, *text ? "," : "",
				       word->ours);
	}
	return sc_foreign_put(file, leaf, rule->ours, text, err);
}

/* Takes what a rule says. Its conditions come last: a rule without a value needs none. */
static int apply_rule(struct sc_foreign *file, const struct sc_foreign_says *rule,
		      struct sc_err *err)
{
	const struct sc_foreign_line *old =
		rule->ours ? sc_foreign_line_at(file->lines, rule->ours) : NULL;
	const struct sc_foreign_word *word = NULL;
	struct sc_foreign_leaf *leaf = NULL;
	const char *names = rule->of, *text = rule->value;
	char name[SC_FOREIGN_MAX_NAME], first[SC_FOREIGN_MAX_NAME] = "";

	if (old && old->of == file)
		return 0;
	while (!leaf && sc_foreign_next(&names, " ", name)) {
		if (!*first)
			memcpy(first, name, sizeof(first));
		leaf = sc_foreign_find(file, name);
		word = leaf && rule->words ? sc_foreign_word_of(rule->words, leaf->node) : NULL;
		if (leaf && sc_yaml_is_null(leaf->node) && !word)
			leaf = NULL;
	}
	if ((!leaf && rule->of && !rule->absent && !rule->refuse) || !rule_holds(file, rule))
		return 0;
	if (rule->refuse && leaf)
		return sc_foreign_fail(leaf, err, rule->refuse);
	if (rule->refuse)
		return sc_err_at(err, SC_EVALUE, SC_AT(file->map), "%s", rule->refuse);
	if (rule->software) {
		sc_foreign_note_ignored(file->lines, file->map, rule->software,
					SC_IGNORED_SOFTWARE);
		return 0;
	}
	if (!leaf)
		return rule->absent ? sc_foreign_put_absent(file, *first ? first : NULL, rule->ours,
							    rule->absent, err)
				    : 0;
	leaf->is_read = true;
	if (rule->times || rule->over)
		return put_product(file, rule, leaf, err);
	if (rule->words && leaf->node->kind == SC_YAML_SEQ)
		return put_list(file, rule, leaf, err);
	if (rule->words && !word)
		return sc_foreign_not_understood(leaf, err);
	if (word && !word->ours)
		return 0;
	return sc_foreign_put(file, leaf, rule->ours, word ? word->ours : text, err);
}

static int apply_rules(struct sc_foreign *file, const struct sc_foreign_table *table,
		       struct sc_err *err)
{
	int rc = 0;

	for (size_t i = 0; table && i < table->n_rules && rc == 0; i++)
		rc = apply_rule(file, &table->rules[i], err);
	return rc;
}

/* Keys that rules would take, and did not beside the others: none goes without a word. */
static void list_unread(struct sc_foreign *file)
{
	const struct sc_foreign_key *row;

	for (const struct sc_foreign_leaf *leaf = file->leaves; leaf; leaf = leaf->next)
		if (!leaf->is_read && !sc_yaml_is_null(leaf->node) &&
		    sc_foreign_rule_of(file, leaf, &row) == SC_KEY_READ)
			sc_foreign_note_ignored(file->lines, leaf->node, leaf->path,
						SC_IGNORED_BESIDE);
}

int sc_foreign_finish(struct sc_foreign_lines *lines, struct sc_err *err)
{
	enum { N_ORDERS = 3 };
	int rc = 0;

	for (int order = 0; order < N_ORDERS; order++)
		for (struct sc_foreign *file = lines->files; file && rc == 0; file = file->next) {
			if (file->format->order != order)
				continue;
			if (file->format->finish)
				rc = file->format->finish(file, err);
			if (rc == 0)
				rc = apply_rules(file, file->table, err);
			if (rc == 0)
				rc = apply_rules(file, file->more, err);
			if (rc == 0)
				list_unread(file);
		}
	return rc;
}
