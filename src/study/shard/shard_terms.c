/* Splits a plan into its terms: a placement is looked up among its table's options by type, tier
 * and shard sizes. Rating a plan and adopting one as a state rest on the same lookup. */
#include "study/shard/shard_terms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "models/row_reuse.h"
#include "study/shard/shard_solve_priv.h"

static bool option_matches(const struct sc_shard_problem *p, const struct sc_option *o,
			   const struct sc_shard_plan *plan, const struct sc_table_placement *at)
{
	const struct sc_shard *shards = &plan->shards.at[at->first_shard];

	if (o->type != at->type || o->tier != at->tier || o->hot_rows != at->hot_rows)
		return false;
	if (o->tier == SC_TIER_CACHED && fabs(o->cache_frac - at->cache_frac) > 1e-9)
		return false;
	if (sc_option_n_shards(p, o) != at->n_shards)
		return false;
	for (uint32_t i = 0; i < at->n_shards; i++) {
		struct sc_option_shard own;

		sc_option_shard_get(p, o, i, &own);
		if (own.rows != shards[i].rows || own.cols != shards[i].cols)
			return false;
	}
	return true;
}

/* The option that a placement has, or SC_UNPLACED. */
static uint32_t match_option(const struct sc_shard_problem *p, const struct sc_shard_plan *plan,
			     const struct sc_table_placement *at, uint32_t table)
{
	for (uint32_t o = p->first_option.at[table]; o < p->first_option.at[table + 1]; o++)
		if (option_matches(p, &p->options.at[o], plan, at))
			return o;
	return SC_UNPLACED;
}

static int add_table_terms(const struct sc_shard_problem *problem, uint32_t table,
			   const struct sc_shard_plan *plan, const struct sc_table_placement *t,
			   struct sc_shard_terms *out)
{
	uint32_t match = match_option(problem, plan, t, table);

	for (uint32_t i = 0; i < t->n_shards; i++) {
		const struct sc_shard *s = &plan->shards.at[t->first_shard + i];
		struct sc_shard_term term = {
			.table = table,
			.rank = (uint32_t)s->rank,
			.option_shard = UINT32_MAX,
			.rows = s->rows,
			.cols = s->cols,
			.hot_rows = t->hot_rows,
			.type = t->type,
			.tier = t->tier,
		};
		struct sc_option_shard cost;
		double speed;

		if (s->rank < 0 || term.rank >= problem->world)
			return -1;
		if (match != SC_UNPLACED) {
			term.option_shard =
				sc_option_shard_index(problem, &problem->options.at[match], i);
			cost = problem->shards.at[term.option_shard];
		} else if (!sc_shard_cost_of(problem, table, t, s, &cost)) {
			return -1;
		}
		speed = sc_rank_speed(problem, term.rank);
		term.ms = cost.cost / speed;
		term.comms_ms = cost.comms / speed;
		term.prefetch_ms = cost.prefetch_ms / speed;
		term.hbm_bytes = cost.hbm_bytes;
		term.host_bytes = cost.host_bytes;
		term.ssd_bytes = cost.ssd_bytes;
		SC_VEC_PUSH(&out->at, term);
	}
	return 0;
}

int sc_shard_terms_of(const struct sc_shard_problem *problem, const struct sc_shard_plan *plan,
		      struct sc_shard_terms *out, struct sc_err *err)
{
	struct sc_shard_terms terms = {.at = {0}};
	int rc = 0;

	if (plan->world != problem->world)
		return sc_err_at(err, SC_ECONFLICT, plan->file, 0, 0,
				 "a plan for %u ranks; there are %u", plan->world, problem->world);
	SC_VEC_RESERVE(&terms.at, plan->shards.n);
	for (uint32_t i = 0; i < plan->tables.n && rc == 0; i++) {
		const struct sc_table_placement *t = &plan->tables.at[i];

		if (i >= problem->n_tables || strcmp(problem->tables[i].name, t->name) != 0)
			rc = sc_err_at(err, SC_ECONFLICT, plan->file, t->line, t->column,
				       "table \"%.64s\": the model has no such table there",
				       t->name);
		else if (add_table_terms(problem, i, plan, t, &terms))
			rc = sc_err_at(
				err, SC_EUNSUPPORTED, plan->file, t->line, t->column,
				"table \"%.64s\": the objective has no cost for %s %s in %u shards",
				t->name, sc_enum_name(sc_shard_type_names, (int)t->type),
				sc_enum_name(sc_tier_names, (int)t->tier), t->n_shards);
	}
	if (rc)
		SC_VEC_RELEASE(&terms.at);
	else
		*out = terms;
	return rc;
}

/* The sums of each rank and of each host; in the arena. */
struct sums {
	double *cost, *hbm, *host, *ssd;
	uint32_t n_hosts;
};

static void make_sums(struct sums *sums, const struct sc_shard_problem *problem,
		      const struct sc_shard_terms *terms, struct sc_arena *arena)
{
	uint32_t n_hosts = (problem->world + problem->ranks_per_host - 1) / problem->ranks_per_host;

	*sums = (struct sums){
		.cost = sc_arena_calloc(arena, problem->world, sizeof(double)),
		.hbm = sc_arena_calloc(arena, problem->world, sizeof(double)),
		.host = sc_arena_calloc(arena, n_hosts, sizeof(double)),
		.ssd = sc_arena_calloc(arena, n_hosts, sizeof(double)),
		.n_hosts = n_hosts,
	};
	for (size_t i = 0; i < terms->at.n; i++) {
		const struct sc_shard_term *term = &terms->at.at[i];
		uint32_t host = term->rank / problem->ranks_per_host;

		sums->cost[term->rank] += term->ms;
		sums->hbm[term->rank] += term->hbm_bytes;
		sums->host[host] += term->host_bytes;
		sums->ssd[host] += term->ssd_bytes;
	}
}

SC_COMPARE(by_ms, struct sc_rank_part, 2 * SC_ORDER(b->ms, a->ms) + SC_ORDER(a->term, b->term));

size_t sc_rank_parts(const struct sc_shard_terms *terms, uint32_t rank, struct sc_rank_part *out,
		     size_t max)
{
	SC_VEC(struct sc_rank_part) parts = {0};
	size_t n;

	for (size_t i = 0; i < terms->at.n; i++) {
		const struct sc_shard_term *term = &terms->at.at[i];

		if (term->rank != rank)
			continue;
		if (!parts.n || parts.at[parts.n - 1].term->table != term->table)
			SC_VEC_PUSH(&parts, (struct sc_rank_part){.term = term});
		parts.at[parts.n - 1].ms += term->ms;
		parts.at[parts.n - 1].hbm_bytes += term->hbm_bytes;
	}
	SC_SORT(parts.at, parts.n, by_ms);
	n = parts.n < max ? parts.n : max;
	for (size_t i = 0; i < n; i++)
		out[i] = parts.at[i];
	SC_VEC_RELEASE(&parts);
	return n;
}

/* ---- the cost of a given plan under the problem's options ---- */

void sc_shard_problem_release(struct sc_shard_problem *p)
{
	SC_VEC_RELEASE(&p->options);
	SC_VEC_RELEASE(&p->first_option);
	SC_VEC_RELEASE(&p->shards);
	sc_row_memo_destroy(p->rows);
	p->rows = NULL;
}

/* Bytes are whole numbers, but sums of shares of a cache are not. */
static bool is_over(double bytes, double budget)
{
	return bytes > budget * (1.0 + 1e-9);
}

static int check_budgets(const struct sc_shard_problem *p, const struct sums *sums,
			 struct sc_err *err)
{
	for (uint32_t r = 0; r < p->world; r++) {
		double cap = sc_rank_budget(p, r);
		uint32_t host = r / p->ranks_per_host;

		if (is_over(sums->hbm[r], cap))
			return sc_err_set(err, SC_ECONFLICT,
					  "rank %u holds %.0f bytes of HBM, over its %.0f", r,
					  sums->hbm[r], cap);
		if (is_over(sums->host[host], p->host_bytes))
			return sc_err_set(err, SC_ECONFLICT,
					  "host %u holds %.0f bytes in its memory, over its %.0f",
					  host, sums->host[host], p->host_bytes);
		if (is_over(sums->ssd[host], p->ssd_bytes))
			return sc_err_set(err, SC_ECONFLICT,
					  "host %u holds %.0f bytes on its SSD, over its %.0f",
					  host, sums->ssd[host], p->ssd_bytes);
	}
	return 0;
}

int sc_shard_rate(const struct sc_shard_problem *p, const struct sc_shard_plan *plan, bool over_ok,
		  struct sc_arena *arena, struct sc_shard_solution *out, struct sc_err *err)
{
	struct sc_shard_solution rated = {.cost = 0.0};
	struct sc_shard_terms terms = {.at = {0}};
	struct sums sums;
	int rc;

	if (plan->tables.n != p->n_tables)
		return sc_err_set(err, SC_ECONFLICT, "the plan places %zu tables of %zu",
				  plan->tables.n, p->n_tables);
	rc = sc_shard_terms_of(p, plan, &terms, err);
	if (rc)
		return rc;
	make_sums(&sums, p, &terms, arena);
	SC_VEC_RELEASE(&terms.at);
	rc = check_budgets(p, &sums, over_ok ? NULL : err);
	if (rc && !over_ok)
		return rc;
	rated.over_budget = rc != 0;
	rated.rank_cost = sums.cost;
	rated.rank_hbm = sums.hbm;
	for (uint32_t h = 0; h < sums.n_hosts; h++) {
		rated.memory.host_bytes = fmax(rated.memory.host_bytes, sums.host[h]);
		rated.memory.ssd_bytes = fmax(rated.memory.ssd_bytes, sums.ssd[h]);
	}
	for (uint32_t r = 0; r < p->world; r++) {
		rated.memory.hbm_bytes = fmax(rated.memory.hbm_bytes, sums.hbm[r]);
		if (sums.cost[r] > sums.cost[rated.bottleneck])
			rated.bottleneck = r;
	}
	rated.cost = sums.cost[rated.bottleneck];
	sc_shard_plan_copy(plan, &rated.plan);
	*out = rated;
	return 0;
}

/* ---- replanning: adopts the plan at hand, and mends what cannot stay ---- */

enum { MOST_MENDS = 100000 };

/* The choice of a unit whose tables have these options; it is made for a single table if it was
 * left out. */
static uint32_t choice_with(struct sc_shard_model *m, uint32_t unit, const uint32_t *options)
{
	const struct sc_unit *u = &m->units.at[unit];

	for (uint32_t i = u->first_choice; i < u->first_choice + u->n_choices; i++) {
		const struct sc_choice *c = &m->choices.at[i];

		if (!c->made && memcmp(&m->members.at[c->first_option], options,
				       sizeof(*options) * u->n_tables) == 0)
			return i;
	}
	return u->n_tables == 1 ? sc_shard_model_option(m, options[0]) : SC_UNPLACED;
}

enum { MOST_SLICES = 64 };

/* A placement that is no option may be adopted as it is; under constraints only slices of columns
 * within the rules. */
static bool may_make(const struct sc_shard_model *m, uint32_t unit,
		     const struct sc_table_placement *at, const struct sc_shard *shards)
{
	if (m->takes_any)
		return true;
	if (!sc_shard_model_may_split(m, unit, at->tier) || at->n_shards > MOST_SLICES ||
	    at->type == SC_DATA_PARALLEL)
		return false;
	for (uint32_t i = 0; i < at->n_shards; i++)
		if (shards[i].rows != at->rows)
			return false;
	return true;
}

/* The shards lie as the choice has them; their ranks go to `ranks`. */
static bool take_ranks(const struct sc_shard_model *m, const struct sc_choice *c,
		       const struct sc_shard *shards, int32_t *ranks)
{
	for (uint32_t i = 0; i < c->n; i++) {
		int32_t rank = shards[i].rank, first = shards[0].rank;

		if (rank < 0 || (uint32_t)rank >= m->world)
			return false;
		if (c->spread == SC_SPREAD_UNIFORM && rank != (int32_t)i)
			return false;
		if (c->spread == SC_SPREAD_HOST &&
		    (rank != first + (int32_t)i || first % (int32_t)m->per_host != 0))
			return false;
		if (c->spread == SC_SPREAD_FREE || c->spread == SC_SPREAD_ON_HOST)
			ranks[i] = rank;
	}
	if (c->spread == SC_SPREAD_HOST)
		ranks[0] = shards[0].rank / (int32_t)m->per_host;
	return true;
}

/* The choice of an option for each table of the unit, if the plan has one. */
static uint32_t option_choice(struct sc_shard_model *m, uint32_t unit,
			      const struct sc_shard_plan *plan)
{
	const struct sc_unit u = m->units.at[unit];
	const uint32_t *tables = m->tables.at + u.first_table;
	uint32_t *options = sc_xrealloc(NULL, u.n_tables, sizeof(*options));
	uint32_t choice = SC_UNPLACED, n = 0;

	for (; n < u.n_tables; n++) {
		options[n] = match_option(m->problem, plan, &plan->tables.at[tables[n]], tables[n]);
		if (options[n] == SC_UNPLACED)
			break;
	}
	if (n == u.n_tables)
		choice = choice_with(m, unit, options);
	free(options);
	return choice;
}

static bool adopt_as(struct sc_shard_state *s, uint32_t unit, uint32_t choice,
		     const struct sc_shard *shards)
{
	const struct sc_shard_model *m = s->model;
	int32_t *ranks = sc_unit_ranks(s, unit);

	if (choice == SC_UNPLACED ||
	    sc_choice_n_ranks(&m->choices.at[choice]) > sc_unit_slots(m, unit) ||
	    !take_ranks(m, &m->choices.at[choice], shards, ranks))
		return false;
	sc_shard_state_place(s, unit, choice, ranks);
	return true;
}

static bool adopt_unit(struct sc_shard_state *s, struct sc_shard_model *m, uint32_t unit,
		       const struct sc_shard_plan *plan)
{
	const struct sc_table_placement *first =
		&plan->tables.at[m->tables.at[m->units.at[unit].first_table]];
	const struct sc_shard *shards = &plan->shards.at[first->first_shard];
	uint32_t choice = option_choice(m, unit, plan);

	if (adopt_as(s, unit, choice, shards))
		return true;
	if (m->units.at[unit].n_tables > 1 || (choice != SC_UNPLACED && !m->takes_any) ||
	    !may_make(m, unit, first, shards))
		return false;
	return adopt_as(s, unit, sc_shard_model_made(m, unit, first, shards), shards);
}

bool sc_shard_state_adopt(struct sc_shard_state *s, struct sc_shard_model *m,
			  const struct sc_shard_plan *plan)
{
	bool all = true;

	if (plan->world != m->world || plan->tables.n != m->problem->n_tables)
		return false;
	for (uint32_t u = 0; u < m->units.n; u++)
		all = adopt_unit(s, m, u, plan) && all;
	return all;
}

static void write_table(const struct sc_shard_state *s, uint32_t table, uint32_t member,
			struct sc_shard_plan *plan)
{
	const struct sc_shard_model *m = s->model;
	uint32_t unit = m->unit_of[table];
	const struct sc_choice *c = &m->choices.at[s->choice[unit]];
	const struct sc_option *o =
		c->made ? NULL : &m->problem->options.at[m->members.at[c->first_option + member]];
	struct sc_table_placement *at =
		sc_plan_begin_table(plan, &m->problem->tables[table], o ? o->type : c->type);

	at->tier = o ? o->tier : c->tier;
	if (at->tier == SC_TIER_CACHED)
		at->cache_frac = o ? o->cache_frac : c->cache_frac;
	at->hot_rows = c->hot_rows;
	for (uint32_t i = 0; i < c->n; i++) {
		struct sc_option_shard shard;

		if (o)
			sc_option_shard_get(m->problem, o, i, &shard);
		else
			shard = c->shards[i];
		sc_plan_add_shard(plan,
				  &(struct sc_shard){
					  .rank = sc_choice_rank(m, c, sc_unit_ranks(s, unit), i),
					  .row_offset = shard.row_offset,
					  .col_offset = shard.col_offset,
					  .rows = shard.rows,
					  .cols = shard.cols,
				  });
	}
}

void sc_shard_state_plan(const struct sc_shard_state *s, struct sc_shard_plan *plan)
{
	const struct sc_shard_model *m = s->model;

	plan->world = m->world;
	plan->ranks_per_host = m->problem->ranks_per_host;
	plan->tables.n = plan->shards.n = 0;
	for (uint32_t table = 0; table < m->problem->n_tables; table++) {
		const struct sc_unit *unit = &m->units.at[m->unit_of[table]];
		uint32_t member = 0;

		while (m->tables.at[unit->first_table + member] != table)
			member++;
		write_table(s, table, member, plan);
	}
}

/* A unit's constraints allow it where it lies. */
static bool may_stay(const struct sc_shard_state *s, uint32_t unit)
{
	const struct sc_shard_model *m = s->model;
	const struct sc_unit *u = &m->units.at[unit];
	const struct sc_choice *c = &m->choices.at[s->choice[unit]];
	bool offered = s->choice[unit] >= u->first_choice &&
		       s->choice[unit] < u->first_choice + u->n_choices;

	for (uint32_t r = 0; u->ruled && r < m->world; r++)
		if (sc_shard_state_is_on(s, unit, (int32_t)r) &&
		    !sc_shard_state_allows(s, unit, c, (int32_t)r))
			return false;
	/* slices that are no option were made within the rules of types */
	return offered || !(u->ruled || (u->typed && !c->made));
}

/* A rank that is over its memory, or on a host that is, or -1. A budget may be nothing at all. */
static int32_t full_rank(const struct sc_shard_state *s)
{
	for (uint32_t r = 0; r < s->model->world; r++)
		if (sc_ledger_is_over(&s->used, r))
			return (int32_t)r;
	return -1;
}

static uint32_t largest_on(const struct sc_shard_state *s, int32_t rank)
{
	uint32_t found = SC_UNPLACED;
	double most = -1.0;

	for (uint32_t u = 0; u < s->model->units.n; u++) {
		if (s->choice[u] != SC_UNPLACED && sc_shard_state_is_on(s, u, rank) &&
		    s->model->choices.at[s->choice[u]].hbm > most) {
			most = s->model->choices.at[s->choice[u]].hbm;
			found = u;
		}
	}
	return found;
}

void sc_shard_state_mend(struct sc_shard_state *s)
{
	int32_t rank;

	for (uint32_t u = 0; u < s->model->units.n; u++)
		if (s->choice[u] != SC_UNPLACED && !may_stay(s, u))
			sc_shard_state_remove(s, u);
	for (int i = 0; i < MOST_MENDS && (rank = full_rank(s)) >= 0; i++) {
		uint32_t unit = largest_on(s, rank);

		if (unit == SC_UNPLACED)
			break;
		sc_shard_state_remove(s, unit);
	}
	for (uint32_t u = 0; u < s->model->units.n; u++)
		if (s->choice[u] == SC_UNPLACED)
			sc_shard_state_insert(s, u);
}
