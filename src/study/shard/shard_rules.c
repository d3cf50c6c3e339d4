/* Constraints: what they say of an option, whether a plan that was not searched for keeps to them,
 * and which of them no plan can keep to. A search is built to keep to them (shard_model.c). */
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "study/shard/shard_solve_priv.h"

const struct sc_name sc_constraint_kind_names[] = {{"pin", SC_PIN},
						   {"forbid", SC_FORBID},
						   {"together", SC_TOGETHER},
						   {"apart", SC_APART},
						   {0}};

static void put_rule(const struct sc_shard_problem *p, const struct sc_shard_constraint *c,
		     struct sc_strbuf *out)
{
	bool is_pair = sc_rule_is_pair(c);

	sc_strbuf_printf(out, "%s\"%s %.40s", out->n ? ", " : "",
			 sc_enum_name(sc_constraint_kind_names, (int)c->kind),
			 p->tables[c->table].name);
	if (is_pair)
		sc_strbuf_printf(out, " %.40s", p->tables[c->other].name);
	if (!is_pair && c->rank >= 0)
		sc_strbuf_printf(out, " rank=%d", (int)c->rank);
	if (!is_pair && c->type >= 0)
		sc_strbuf_printf(out, " type=%s", sc_enum_name(sc_shard_type_names, c->type));
	if (!is_pair && c->tier >= 0)
		sc_strbuf_printf(out, " tier=%s", sc_enum_name(sc_tier_names, c->tier));
	sc_strbuf_append_char(out, '"');
}

/* Drops rules that the contradiction does not need, in ever smaller pieces, so that the error names
 * a smallest set. */
int sc_shard_rules_contradiction(const struct sc_shard_problem *problem, struct sc_err *err)
{
	struct sc_shard_problem p = *problem;
	size_t n = p.n_constraints, bytes = sizeof(*p.constraints);
	struct sc_shard_constraint *left = sc_xrealloc(NULL, 2 * n, bytes), *tried = left + n;
	struct sc_strbuf text = {0};
	struct sc_shard_model m;
	int rc;

	memcpy(left, p.constraints, n * bytes);
	p.constraints = tried;
	for (size_t piece = n - n / 2; n > 1; piece -= piece / 2) {
		for (size_t i = 0; i < n;) {
			size_t end = i + piece < n ? i + piece : n;

			memcpy(tried, left, i * bytes);
			memcpy(tried + i, left + end, (n - end) * bytes);
			p.n_constraints = n - (end - i);
			if (sc_shard_model_init(&m, &p, NULL) == 0) {
				sc_shard_model_release(&m);
				i = end;
				continue;
			}
			n = p.n_constraints;
			memcpy(left, tried, n * bytes);
		}
		if (piece == 1)
			break;
	}
	for (size_t i = 0; i < n; i++)
		put_rule(problem, &left[i], &text);
	rc = sc_err_set(err, SC_ECONFLICT, "no plan keeps to %s", sc_strbuf_get(&text));
	sc_strbuf_release(&text);
	free(left);
	return rc;
}

bool sc_shard_rules_conflict(const struct sc_shard_model *m)
{
	const struct sc_shard_problem *p = m->problem;
	int32_t *pins = sc_xrealloc(NULL, m->units.n + 1, sizeof(*pins));
	bool found = false;

	for (size_t u = 0; u < m->units.n; u++)
		pins[u] = -1;
	for (size_t i = 0; i < p->n_constraints; i++) {
		const struct sc_shard_constraint *c = &p->constraints[i];
		int32_t *pin = &pins[m->unit_of[c->table]];

		if (c->kind != SC_PIN || c->rank < 0)
			continue;
		found = found || (*pin >= 0 && *pin != c->rank);
		*pin = c->rank;
	}
	for (size_t i = 0; i < p->n_constraints; i++) {
		const struct sc_shard_constraint *c = &p->constraints[i];
		uint32_t unit = m->unit_of[c->table];

		if (c->kind == SC_FORBID && c->rank >= 0 && c->rank == pins[unit])
			found = found || (c->type < 0 && c->tier < 0);
		if (c->kind == SC_APART) {
			uint32_t other = m->unit_of[c->other];

			found = found || unit == other ||
				(pins[unit] >= 0 && pins[unit] == pins[other]);
		}
	}
	free(pins);
	return found;
}

/* ---- plans that were not searched for ---- */

static bool is_on(const struct sc_shard_plan *plan, uint32_t table, int32_t rank)
{
	const struct sc_table_placement *t = &plan->tables.at[table];

	for (uint32_t i = 0; i < t->n_shards; i++)
		if (plan->shards.at[t->first_shard + i].rank == rank)
			return true;
	return false;
}

/* Counts the first table's shards that lie on ranks that the other has too. */
static uint32_t n_common(const struct sc_shard_plan *plan, uint32_t table, uint32_t other)
{
	const struct sc_table_placement *t = &plan->tables.at[table];
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n_shards; i++)
		n += is_on(plan, other, plan->shards.at[t->first_shard + i].rank);
	return n;
}

static bool holds(const struct sc_shard_plan *plan, const struct sc_shard_constraint *c)
{
	const struct sc_table_placement *at = &plan->tables.at[c->table];
	bool named = sc_rule_names(c, at->type, at->tier);

	switch (c->kind) {
	case SC_PIN:
		return named &&
		       (c->rank < 0 || (at->n_shards == 1 && is_on(plan, c->table, c->rank)));
	case SC_FORBID:
		return !named || (c->rank >= 0 && !is_on(plan, c->table, c->rank));
	case SC_TOGETHER:
		return n_common(plan, c->table, c->other) == at->n_shards &&
		       n_common(plan, c->other, c->table) == plan->tables.at[c->other].n_shards;
	case SC_APART:
		break;
	}
	return n_common(plan, c->table, c->other) == 0;
}

bool sc_shard_keeps_constraints(const struct sc_shard_problem *problem,
				const struct sc_shard_plan *plan)
{
	size_t i = 0;

	while (i < problem->n_constraints && plan->tables.n == problem->n_tables &&
	       holds(plan, &problem->constraints[i]))
		i++;
	return i == problem->n_constraints;
}

bool sc_shard_rule_allows(const struct sc_shard_problem *p, const struct sc_shard_constraint *c,
			  const struct sc_option *o)
{
	bool everywhere = o->spread == SC_SPREAD_UNIFORM && p->world > 1;
	bool several = sc_option_n_shards(p, o) > 1;

	if (c->table != o->table && !(sc_rule_is_pair(c) && c->other == o->table))
		return true;
	switch (c->kind) {
	case SC_PIN: /* the whole table to one rank */
		return sc_rule_names(c, o->type, o->tier) && !(c->rank >= 0 && several);
	case SC_FORBID:
		return !(sc_rule_names(c, o->type, o->tier) && (c->rank < 0 || everywhere));
	case SC_APART:
		return !everywhere;
	case SC_TOGETHER:
		break;
	}
	return true;
}
