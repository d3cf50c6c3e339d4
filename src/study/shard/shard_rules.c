/* Constraints: those that contradict each other, whatever memory there is, named as people write them; and
 * whether a plan at hand keeps to them. */
#include <stdlib.h>

#include "base/strbuf.h"
#include "study/shard/shard_solve_priv.h"

#define NO_RULE SIZE_MAX

static const char *name_of(const struct sc_shard_model *m, uint32_t table)
{
	return m->problem->tables[table].name;
}

static void put_rule(const struct sc_shard_model *m, const struct sc_shard_constraint *c,
		     struct sc_strbuf *out)
{
	static const char *const kinds[] = {
		[SC_PIN] = "pin",
		[SC_FORBID] = "forbid",
		[SC_TOGETHER] = "together",
		[SC_APART] = "apart",
	};

	sc_strbuf_printf(out, "\"%s %.40s", kinds[c->kind], name_of(m, c->table));
	if (sc_rule_is_pair(c))
		sc_strbuf_printf(out, " %.40s", name_of(m, c->other));
	if (!sc_rule_is_pair(c) && c->rank >= 0)
		sc_strbuf_printf(out, " rank=%d", (int)c->rank);
	if (!sc_rule_is_pair(c) && c->type >= 0)
		sc_strbuf_printf(out, " type=%s", sc_enum_name(sc_shard_type_names, c->type));
	if (!sc_rule_is_pair(c) && c->tier >= 0)
		sc_strbuf_printf(out, " tier=%s", sc_enum_name(sc_tier_names, c->tier));
	sc_strbuf_append_char(out, '"');
}

/* The rules of a table. */
struct rules {
	const struct sc_shard_model *m;
	uint32_t table;
	const size_t *at; /* in the problem's constraints */
	size_t n;
};

/* Is an option of the table left by the rules kept? */
static bool is_left(const struct rules *r, const bool *kept)
{
	const struct sc_shard_problem *p = r->m->problem;
	const uint32_t table = r->table;

	for (uint32_t o = p->first_option.at[table]; o < p->first_option.at[table + 1]; o++) {
		size_t i = 0;

		while (i < r->n && (!kept[i] || sc_shard_rule_allows(p, &p->constraints[r->at[i]],
								     &p->options.at[o])))
			i++;
		if (i == r->n)
			return true;
	}
	return false;
}

/* Drops what is not needed for the conflict, one after the other. */
static void put_needed(const struct rules *r, struct sc_strbuf *out)
{
	const size_t n = r->n;
	bool *kept = sc_xrealloc(NULL, n + 1, sizeof(*kept));
	const char *join = "";

	for (size_t i = 0; i < n; i++)
		kept[i] = true;
	for (size_t i = 0; i < n; i++) {
		kept[i] = false;
		if (is_left(r, kept))
			kept[i] = true;
	}
	for (size_t i = 0; i < n; i++) {
		if (!kept[i])
			continue;
		sc_strbuf_append(out, join);
		put_rule(r->m, &r->m->problem->constraints[r->at[i]], out);
		join = ", ";
	}
	free(kept);
}

/* False if the table has an option within its own rules. */
static bool put_reason(const struct sc_shard_model *m, uint32_t table, struct sc_strbuf *out)
{
	const struct sc_shard_problem *p = m->problem;
	size_t *rules = sc_xrealloc(NULL, p->n_constraints + 1, sizeof(*rules));
	struct rules own = {.m = m, .table = table, .at = rules};
	bool *all = sc_xrealloc(NULL, p->n_constraints + 1, sizeof(*all)), found;

	for (size_t i = 0; i < p->n_constraints; i++) {
		const struct sc_shard_constraint *c = &p->constraints[i];

		if (c->table != table && !(sc_rule_is_pair(c) && c->other == table))
			continue;
		all[own.n] = true;
		rules[own.n++] = i;
	}
	found = !is_left(&own, all);
	if (found)
		put_needed(&own, out);
	free(rules);
	free(all);
	return found;
}

int sc_shard_no_choice(const struct sc_shard_model *m, uint32_t unit, struct sc_err *err)
{
	const uint32_t *tables = m->tables.at + m->units.at[unit].first_table;
	struct sc_strbuf text = {0};
	uint32_t i = 0;
	int rc;

	while (i < m->units.at[unit].n_tables && !put_reason(m, tables[i], &text))
		i++;
	if (i < m->units.at[unit].n_tables)
		rc = sc_err_set(err, SC_ECONFLICT, "no option of table %.64s is left by %s",
				name_of(m, tables[i]), sc_strbuf_get(&text));
	else
		rc = sc_err_set(err, SC_ECONFLICT,
				"tables %.64s and %.64s are to be together, but have no options "
				"that lie on the same ranks",
				name_of(m, tables[0]), name_of(m, tables[1]));
	sc_strbuf_release(&text);
	return rc;
}

/* The first rule that pins each unit to a rank, or NO_RULE. */
static int find_pins(const struct sc_shard_model *m, size_t *pins, struct sc_err *err)
{
	const struct sc_shard_problem *p = m->problem;

	for (size_t u = 0; u < m->units.n; u++)
		pins[u] = NO_RULE;
	for (size_t i = 0; i < p->n_constraints; i++) {
		const struct sc_shard_constraint *c = &p->constraints[i], *first;
		size_t *pin = &pins[m->unit_of[c->table]];

		if (c->kind != SC_PIN || c->rank < 0)
			continue;
		first = *pin == NO_RULE ? c : &p->constraints[*pin];
		if (first->rank != c->rank && first->table == c->table)
			return sc_err_set(err, SC_ECONFLICT,
					  "table %.64s is pinned to rank %d and to rank %d",
					  name_of(m, c->table), (int)first->rank, (int)c->rank);
		if (first->rank != c->rank)
			return sc_err_set(err, SC_ECONFLICT,
					  "tables %.64s and %.64s are to be together, but pinned "
					  "to rank %d and to rank %d",
					  name_of(m, first->table), name_of(m, c->table),
					  (int)first->rank, (int)c->rank);
		if (*pin == NO_RULE)
			*pin = i;
	}
	return 0;
}

/* A rule that bars a rank for good, against the pins. */
static int check_pinned(const struct sc_shard_model *m, const size_t *pins,
			const struct sc_shard_constraint *c, struct sc_err *err)
{
	const struct sc_shard_problem *p = m->problem;
	size_t pin = pins[m->unit_of[c->table]], other;
	int rank = pin == NO_RULE ? -1 : (int)p->constraints[pin].rank;

	if (c->kind == SC_FORBID && rank >= 0 && c->rank == rank && c->type < 0 && c->tier < 0)
		return sc_err_set(
			err, SC_ECONFLICT, "table %.64s is pinned to rank %d, and %.64s %s",
			name_of(m, p->constraints[pin].table), rank,
			p->constraints[pin].table == c->table ? "it" : name_of(m, c->table),
			"is forbidden there");
	if (c->kind != SC_APART)
		return 0;
	other = pins[m->unit_of[c->other]];
	if (m->unit_of[c->table] == m->unit_of[c->other])
		return sc_err_set(err, SC_ECONFLICT,
				  "tables %.64s and %.64s are to be together and apart",
				  name_of(m, c->table), name_of(m, c->other));
	if (rank >= 0 && other != NO_RULE && p->constraints[other].rank == rank)
		return sc_err_set(
			err, SC_ECONFLICT,
			"tables %.64s and %.64s are to be apart but both pinned to rank %d",
			name_of(m, c->table), name_of(m, c->other), rank);
	return 0;
}

int sc_shard_rules_check(const struct sc_shard_model *m, struct sc_err *err)
{
	size_t *pins = sc_xrealloc(NULL, m->units.n + 1, sizeof(*pins));
	int rc = find_pins(m, pins, err);

	for (size_t i = 0; i < m->problem->n_constraints && rc == 0; i++)
		rc = check_pinned(m, pins, &m->problem->constraints[i], err);
	free(pins);
	return rc;
}

/* ---- plans that were not searched for; a search is built to keep to constraints ---- */

struct placed {
	const struct sc_shard_plan *plan;
	const struct sc_table_placement **at; /* by table of the problem */
};

static bool is_on(const struct placed *x, uint32_t table, int32_t rank)
{
	const struct sc_shard *shards = &x->plan->shards.at[x->at[table]->first_shard];

	for (uint32_t i = 0; i < x->at[table]->n_shards; i++) {
		if (shards[i].rank == rank)
			return true;
	}
	return false;
}

/* How many of the first table's shards lie on ranks that the other has too. */
static uint32_t n_common(const struct placed *x, uint32_t table, uint32_t other)
{
	const struct sc_shard *shards = &x->plan->shards.at[x->at[table]->first_shard];
	uint32_t n = 0;

	for (uint32_t i = 0; i < x->at[table]->n_shards; i++)
		n += is_on(x, other, shards[i].rank);
	return n;
}

static bool holds(const struct placed *x, const struct sc_shard_constraint *c)
{
	const struct sc_table_placement *at = x->at[c->table];
	bool named;

	if (!at || (sc_rule_is_pair(c) && !x->at[c->other]))
		return false;
	named = sc_rule_names(c, at->type, at->tier);
	switch (c->kind) {
	case SC_PIN:
		return named && (c->rank < 0 || (at->n_shards == 1 && is_on(x, c->table, c->rank)));
	case SC_FORBID:
		return !named || (c->rank >= 0 && !is_on(x, c->table, c->rank));
	case SC_TOGETHER:
		return n_common(x, c->table, c->other) == at->n_shards &&
		       n_common(x, c->other, c->table) == x->at[c->other]->n_shards;
	case SC_APART:
		break;
	}
	return n_common(x, c->table, c->other) == 0;
}

bool sc_shard_keeps_constraints(const struct sc_shard_problem *problem,
				const struct sc_shard_plan *plan)
{
	struct placed placed = {.plan = plan};
	size_t i = 0;

	if (!problem->n_constraints)
		return true;
	placed.at = sc_shard_placements(problem, plan);
	while (i < problem->n_constraints && holds(&placed, &problem->constraints[i]))
		i++;
	free(placed.at);
	return i == problem->n_constraints;
}
