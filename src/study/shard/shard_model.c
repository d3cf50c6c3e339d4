/* The problem with its constraints worked in: tables that go together become one unit, options that
 * a constraint forbids or another option beats are left out. */
#include <assert.h>
#include <math.h>

#include "study/shard/shard_solve_priv.h"

/* Memory decides little when all options together would take less than this share of it. */
static const double TIGHT_SHARE = 0.5;

/* Sums up cost, total and memory of a choice from its shards. */
static void choice_sum_up(struct sc_choice *c)
{
	c->same_cost = true;
	for (uint32_t i = 0; i < sc_choice_n_listed(c); i++) {
		const struct sc_option_shard *s = &c->shards[i];
		double each = sc_choice_repeats(c, i);

		c->cost = fmax(c->cost, s->cost);
		c->hbm = fmax(c->hbm, s->hbm_bytes);
		c->total += s->cost * each;
		c->host += s->host_bytes * each;
		c->ssd += s->ssd_bytes * each;
		if (s->cost < c->shards[0].cost || s->cost > c->shards[0].cost)
			c->same_cost = false;
	}
}

static struct sc_choice choice_of_option(const struct sc_shard_model *m, uint32_t option)
{
	const struct sc_option *o = &m->problem->options.at[option];
	struct sc_choice c = {
		.spread = o->spread,
		.type = o->type,
		.tier = o->tier,
		.cache_frac = o->cache_frac,
		.hot_rows = o->hot_rows,
		.n = o->n_shards,
		.shards = &m->problem->shards.at[o->first_shard],
	};

	if (o->spread == SC_SPREAD_HOST && m->n_hosts == 1)
		c.spread = SC_SPREAD_UNIFORM;
	if (o->spread == SC_SPREAD_ON_HOST && (m->n_hosts == 1 || o->n_shards == 1))
		c.spread = SC_SPREAD_FREE;
	if (c.spread == SC_SPREAD_UNIFORM)
		c.n = m->world;
	if (c.spread == SC_SPREAD_HOST)
		c.n = m->per_host;
	if (c.n != o->n_shards) {
		assert(o->n_shards <= SC_MAX_RUNS && o->n_shards < c.n);
		c.n_runs = o->n_shards;
		for (uint32_t i = 0; i + 1 < o->n_shards; i++)
			c.run_end[i] = o->run_end[i];
		c.run_end[c.n_runs - 1] = c.n;
	}
	choice_sum_up(&c);
	return c;
}

/* `a` is never worse than `b`. */
static bool beats(const struct sc_choice *a, const struct sc_choice *b)
{
	return a->spread == b->spread && a->n == b->n && a->cost <= b->cost &&
	       a->total <= b->total && a->hbm <= b->hbm && a->host <= b->host && a->ssd <= b->ssd;
}

typedef SC_VEC(struct sc_choice) choice_list;

/* Lists the options of a table that are worth looking at. A choice's first_option is its option. */
static void table_choices(const struct sc_shard_model *m, uint32_t table, choice_list *out)
{
	const struct sc_shard_problem *p = m->problem;

	out->n = 0;
	for (uint32_t o = p->first_option.at[table]; o < p->first_option.at[table + 1]; o++) {
		struct sc_choice c;
		size_t kept = 0;
		bool beaten = false;
		uint32_t rule = m->first_rule[table];

		while (rule < m->first_rule[table + 1] &&
		       sc_shard_rule_allows(p, &p->constraints[m->rules[rule]], &p->options.at[o]))
			rule++;
		if (rule < m->first_rule[table + 1])
			continue;
		c = choice_of_option(m, o);
		c.first_option = o;
		for (size_t i = 0; i < out->n && !beaten; i++)
			beaten = beats(&out->at[i], &c);
		if (beaten)
			continue;
		for (size_t i = 0; i < out->n; i++)
			if (!beats(&c, &out->at[i]))
				out->at[kept++] = out->at[i];
		out->n = kept;
		SC_VEC_PUSH(out, c);
	}
}

/* Finds the cheapest, or the smallest, choice with shards that lie like those of `like`. */
static const struct sc_choice *matching(const choice_list *from, const struct sc_choice *like,
					bool smallest)
{
	const struct sc_choice *found = NULL;

	for (size_t i = 0; i < from->n; i++) {
		const struct sc_choice *c = &from->at[i];

		if (c->spread != like->spread || c->n != like->n)
			continue;
		if (!found || (smallest ? c->hbm < found->hbm : c->total < found->total))
			found = c;
	}
	return found;
}

static void add_shards(struct sc_option_shard *sum, const struct sc_choice *c)
{
	for (uint32_t i = 0; i < c->n; i++) {
		const struct sc_option_shard *s = sc_choice_shard(c, i);

		sum[i].cost += s->cost;
		sum[i].hbm_bytes += s->hbm_bytes;
		sum[i].host_bytes += s->host_bytes;
		sum[i].ssd_bytes += s->ssd_bytes;
	}
}

/* Adds a choice for all tables of a unit: `lead` for the first, and for the others one that lies
 * alike. */
static void add_joint(struct sc_shard_model *m, struct sc_unit *unit, const choice_list *lists,
		      const struct sc_choice *lead, bool smallest)
{
	struct sc_choice joint = {.spread = lead->spread,
				  .type = lead->type,
				  .tier = lead->tier,
				  .n = lead->n,
				  .cache_frac = lead->cache_frac,
				  .first_option = (uint32_t)m->members.n};
	struct sc_option_shard *sum = sc_arena_calloc(&m->arena, lead->n, sizeof(*sum));

	SC_VEC_PUSH(&m->members, lead->first_option);
	add_shards(sum, lead);
	for (uint32_t i = 1; i < unit->n_tables; i++) {
		const struct sc_choice *c = matching(&lists[i], lead, smallest);

		if (!c) {
			m->members.n = joint.first_option;
			return;
		}
		SC_VEC_PUSH(&m->members, c->first_option);
		add_shards(sum, c);
	}
	joint.shards = sum;
	choice_sum_up(&joint);
	SC_VEC_PUSH(&m->choices, joint);
	unit->n_choices++;
}

static void unit_choices(struct sc_shard_model *m, struct sc_unit *unit, choice_list *lists)
{
	const uint32_t *tables = m->tables.at + unit->first_table;
	struct sc_choice *choices;

	unit->first_choice = (uint32_t)m->choices.n;
	for (uint32_t i = 0; i < unit->n_tables; i++)
		table_choices(m, tables[i], &lists[i]);
	for (size_t i = 0; i < lists[0].n; i++) {
		struct sc_choice one = lists[0].at[i];

		if (unit->n_tables > 1) {
			add_joint(m, unit, lists, &lists[0].at[i], false);
			add_joint(m, unit, lists, &lists[0].at[i], true);
			continue;
		}
		one.first_option = (uint32_t)m->members.n;
		SC_VEC_PUSH(&m->members, lists[0].at[i].first_option);
		SC_VEC_PUSH(&m->choices, one);
		unit->n_choices++;
	}
	/* Least work comes first: a later choice can then be seen to be worse without a trial. */
	choices = unit->n_choices ? &m->choices.at[unit->first_choice] : NULL;
	for (uint32_t i = 1, k; i < unit->n_choices; i++) {
		struct sc_choice moved = choices[i];

		for (k = i; k > 0 && choices[k - 1].total > moved.total; k--)
			choices[k] = choices[k - 1];
		choices[k] = moved;
	}
}

static uint32_t root_of(const uint32_t *parent, uint32_t table)
{
	while (parent[table] != table)
		table = parent[table];
	return table;
}

/* Makes unit_of[], the units and the tables of each, by the smallest table. */
static void join_tables(struct sc_shard_model *m)
{
	const struct sc_shard_problem *p = m->problem;
	uint32_t n = (uint32_t)p->n_tables;
	uint32_t *parent = sc_arena_calloc(&m->arena, n + 1, sizeof(*parent));

	for (uint32_t t = 0; t < n; t++)
		parent[t] = t;
	for (size_t i = 0; i < p->n_constraints; i++) {
		const struct sc_shard_constraint *c = &p->constraints[i];

		if (c->kind == SC_TOGETHER) {
			uint32_t a = root_of(parent, c->table), b = root_of(parent, c->other);

			parent[a > b ? a : b] = a > b ? b : a;
		}
	}
	for (uint32_t t = 0; t < n; t++) {
		uint32_t root = root_of(parent, t);

		if (root == t) {
			m->unit_of[t] = (uint32_t)m->units.n;
			SC_VEC_PUSH(&m->units, ((struct sc_unit){0}));
		} else {
			m->unit_of[t] = m->unit_of[root];
		}
		m->units.at[m->unit_of[t]].n_tables++;
	}
}

static void list_tables_by_unit(struct sc_shard_model *m)
{
	uint32_t at = 0;

	SC_VEC_RESERVE(&m->tables, m->problem->n_tables);
	m->tables.n = m->problem->n_tables;
	for (size_t u = 0; u < m->units.n; u++) {
		m->units.at[u].first_table = at;
		at += m->units.at[u].n_tables;
		m->units.at[u].n_tables = 0;
	}
	for (uint32_t t = 0; t < m->problem->n_tables; t++) {
		struct sc_unit *unit = &m->units.at[m->unit_of[t]];

		m->tables.at[unit->first_table + unit->n_tables++] = t;
	}
}

/* Lists the constraints that name each table, since there may be some for every table. */
static void list_rules(struct sc_shard_model *m)
{
	const struct sc_shard_problem *p = m->problem;
	uint32_t *next;

	m->first_rule = sc_arena_calloc(&m->arena, p->n_tables + 2, sizeof(*m->first_rule));
	m->rules = sc_arena_calloc(&m->arena, 2 * p->n_constraints + 1, sizeof(*m->rules));
	next = m->first_rule + 1;
	for (size_t i = 0; i < p->n_constraints; i++) {
		const struct sc_shard_constraint *c = &p->constraints[i];

		assert(c->table < p->n_tables && (c->rank < 0 || (uint32_t)c->rank < p->world));
		m->first_rule[c->table + 2]++;
		if (sc_rule_is_pair(c)) {
			assert(c->other < p->n_tables && c->other != c->table);
			m->first_rule[c->other + 2]++;
		}
	}
	for (size_t t = 0; t < p->n_tables; t++)
		m->first_rule[t + 2] += m->first_rule[t + 1];
	for (size_t i = 0; i < p->n_constraints; i++) {
		m->rules[next[p->constraints[i].table]++] = (uint32_t)i;
		if (sc_rule_is_pair(&p->constraints[i]))
			m->rules[next[p->constraints[i].other]++] = (uint32_t)i;
	}
}

/* Column slices are no option: a rule is asked as if they were one. */
static void mark_whole(struct sc_shard_model *m, const struct sc_shard_constraint *c)
{
	struct sc_unit *unit = &m->units.at[m->unit_of[c->table]];

	for (int tier = 0; tier < SC_N_TIERS; tier++) {
		const struct sc_option slices = {.table = c->table,
						 .type = SC_COLUMN_WISE,
						 .tier = (enum sc_tier)tier,
						 .spread = SC_SPREAD_FREE,
						 .n_shards = 2};

		if (!sc_shard_rule_allows(m->problem, c, &slices))
			unit->whole_in[tier] = true;
	}
}

static void mark_ruled(struct sc_shard_model *m)
{
	for (size_t i = 0; i < m->problem->n_constraints; i++) {
		const struct sc_shard_constraint *c = &m->problem->constraints[i];

		if (c->kind == SC_APART)
			m->units.at[m->unit_of[c->other]].ruled = true;
		if (c->kind == SC_APART || (c->kind != SC_TOGETHER && c->rank >= 0))
			m->units.at[m->unit_of[c->table]].ruled = true;
		if ((c->kind == SC_PIN || c->kind == SC_FORBID) && (c->type >= 0 || c->tier >= 0)) {
			m->units.at[m->unit_of[c->table]].typed = true;
			mark_whole(m, c);
		}
	}
}

static void set_ranks(struct sc_shard_model *m)
{
	const struct sc_shard_problem *p = m->problem;

	m->hbm_cap = sc_arena_alloc(&m->arena, sizeof(double) * m->world);
	m->speed = sc_arena_alloc(&m->arena, sizeof(double) * m->world);
	m->alike = m->same_cap = true;
	for (uint32_t r = 0; r < m->world; r++) {
		m->hbm_cap[r] = sc_rank_budget(p, r);
		m->speed[r] = sc_rank_speed(p, r);
		m->hbm_total += m->hbm_cap[r];
		m->hbm_most = fmax(m->hbm_most, m->hbm_cap[r]);
		if (m->speed[r] < m->speed[0] || m->speed[r] > m->speed[0])
			m->alike = false;
		if (m->hbm_cap[r] < m->hbm_cap[0] || m->hbm_cap[r] > m->hbm_cap[0])
			m->same_cap = false;
	}
}

/* Makes room for the ranks of every unit, at least for what a plan has (may be NULL), and finds
 * whether memory may decide. */
static void set_room(struct sc_shard_model *m, const struct sc_shard_plan *plan)
{
	double need = 0.0;

	for (size_t u = 0; u < m->units.n; u++) {
		struct sc_unit *unit = &m->units.at[u];
		uint32_t room =
			plan ? plan->tables.at[m->tables.at[unit->first_table]].n_shards : 0;
		double most = 0.0;

		room = room > 8 ? room : 8;
		for (uint32_t i = 0; i < unit->n_choices; i++) {
			const struct sc_choice *c = &m->choices.at[unit->first_choice + i];
			bool listed = c->spread == SC_SPREAD_FREE || c->spread == SC_SPREAD_ON_HOST;

			room = listed && c->n > room ? c->n : room;
			if (c->tier == SC_TIER_HBM && c->type != SC_DATA_PARALLEL)
				most = fmax(most, c->hbm * (double)c->n);
		}
		need += most;
		unit->first_rank = (uint32_t)m->n_ranks_room;
		m->n_ranks_room += room;
	}
	m->tight = need > TIGHT_SHARE * m->hbm_total;
}

/* Adds the choices of all units. False: constraints leave a unit none. */
static bool add_choices(struct sc_shard_model *m)
{
	uint32_t most = 1;
	choice_list *lists;
	bool all = true;

	for (size_t u = 0; u < m->units.n; u++)
		most = m->units.at[u].n_tables > most ? m->units.at[u].n_tables : most;
	lists = sc_arena_calloc(&m->arena, most, sizeof(*lists));
	for (size_t u = 0; u < m->units.n && all; u++) {
		unit_choices(m, &m->units.at[u], lists);
		all = m->units.at[u].n_choices > 0;
	}
	for (uint32_t i = 0; i < most; i++)
		SC_VEC_RELEASE(&lists[i]);
	return all;
}

/* Makes everything but choices and what follows from those. */
static void begin(struct sc_shard_model *m, const struct sc_shard_problem *p)
{
	*m = (struct sc_shard_model){.problem = p,
				     .world = p->world,
				     .per_host = p->ranks_per_host,
				     .least_cols = p->min_cols > SC_WIDTH_STEP ? p->min_cols
									       : SC_WIDTH_STEP};
	assert(m->world > 0 && m->per_host > 0);
	m->n_hosts = (m->world + m->per_host - 1) / m->per_host;
	sc_arena_init(&m->arena, 1 << 16);
	m->unit_of = sc_arena_calloc(&m->arena, p->n_tables + 1, sizeof(*m->unit_of));
	set_ranks(m);
	list_rules(m);
	join_tables(m);
	list_tables_by_unit(m);
}

int sc_shard_model_init(struct sc_shard_model *m, const struct sc_shard_problem *p,
			struct sc_err *err)
{
	begin(m, p);
	mark_ruled(m);
	if (!sc_shard_rules_conflict(m) && add_choices(m)) {
		set_room(m, NULL);
		return 0;
	}
	sc_shard_model_release(m);
	return err ? sc_shard_rules_contradiction(p, err) : -SC_ECONFLICT;
}

void sc_shard_model_init_all(struct sc_shard_model *m, const struct sc_shard_problem *p,
			     const struct sc_shard_plan *plan)
{
	assert(!p->n_constraints);
	begin(m, p);
	m->takes_any = true;
	for (uint32_t o = 0; o < p->options.n; o++)
		sc_shard_model_option(m, o);
	for (uint32_t u = 0; u < m->units.n; u++) {
		m->units.at[u].first_choice = p->first_option.at[u];
		m->units.at[u].n_choices = p->first_option.at[u + 1] - p->first_option.at[u];
	}
	set_room(m, plan);
}

void sc_shard_model_release(struct sc_shard_model *m)
{
	SC_VEC_RELEASE(&m->units);
	SC_VEC_RELEASE(&m->choices);
	SC_VEC_RELEASE(&m->members);
	SC_VEC_RELEASE(&m->tables);
	sc_arena_release(&m->arena);
}

uint32_t sc_shard_model_option(struct sc_shard_model *m, uint32_t option)
{
	struct sc_choice c = choice_of_option(m, option);

	c.first_option = (uint32_t)m->members.n;
	SC_VEC_PUSH(&m->members, option);
	SC_VEC_PUSH(&m->choices, c);
	return (uint32_t)m->choices.n - 1;
}

uint32_t sc_shard_model_made(struct sc_shard_model *m, uint32_t unit,
			     const struct sc_table_placement *at, const struct sc_shard *shards)
{
	uint32_t table = m->tables.at[m->units.at[unit].first_table];
	struct sc_option_shard *costs = sc_arena_calloc(&m->arena, at->n_shards, sizeof(*costs));
	struct sc_choice c = {.spread = SC_SPREAD_FREE,
			      .type = at->type,
			      .tier = at->tier,
			      .cache_frac = at->cache_frac,
			      .hot_rows = at->hot_rows,
			      .made = true,
			      .n = at->n_shards,
			      .shards = costs};

	for (uint32_t i = 0; i < c.n; i++)
		if (!sc_shard_cost_of(m->problem, table, at, &shards[i], &costs[i]))
			return SC_UNPLACED;
	choice_sum_up(&c);
	SC_VEC_PUSH(&m->choices, c);
	return (uint32_t)m->choices.n - 1;
}
