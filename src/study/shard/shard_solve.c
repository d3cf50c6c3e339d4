/* The search for a plan: bound, construction, local search, proof; then the plan is written out and
 * rated like any other, so that what is reported never rests on the solver's own sums. Where no
 * plan fits, it finds the smallest reason. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/shard/shard.h"
#include "study/shard/shard_solve_priv.h"

bool sc_search_is_stopped(struct sc_search_watch *watch)
{
	double gone_s;

	if (!watch)
		return false;
	if (watch->progress) {
		gone_s = sc_now_s() - watch->start_s;
		if (gone_s >= (double)watch->shown_s + 1) {
			sc_progress_add(watch->progress, (uint64_t)gone_s - watch->shown_s);
			watch->shown_s = (uint64_t)gone_s;
		}
	}
	if (watch->most_asked && ++watch->n_asked > watch->most_asked)
		return true;
	return sc_search_is_ended(watch);
}

int sc_search_no_plan(struct sc_err *err)
{
	return sc_err_set(err, SC_ECONFLICT, "the search was stopped before it had a plan");
}

/* Column splits that are not in the list of options are made here: the objective says what a slice
 * of a width costs. */

enum { MOST_SLICES = 8 };
/* A table whose shard is at least this share of a rank's load is worth a split. */
static const double SPLIT_SHARE = 0.25;

uint32_t sc_shard_model_slices(struct sc_shard_model *m, uint32_t unit, uint32_t like,
			       const int64_t *cols, uint32_t n)
{
	int64_t rows = m->problem->tables[m->tables.at[m->units.at[unit].first_table]].rows, at = 0;
	struct sc_table_placement slices = {.type = SC_COLUMN_WISE,
					    .tier = m->choices.at[like].tier,
					    .cache_frac = m->choices.at[like].cache_frac,
					    .n_shards = n};
	struct sc_shard *shards = sc_xrealloc(NULL, n, sizeof(*shards));
	uint32_t made;

	for (uint32_t i = 0; i < n; at += cols[i++])
		shards[i] = (struct sc_shard){.col_offset = at, .rows = rows, .cols = cols[i]};
	made = sc_shard_model_made(m, unit, &slices, shards);
	free(shards);
	return made;
}

bool sc_shard_model_may_split(const struct sc_shard_model *m, uint32_t unit, enum sc_tier tier)
{
	const struct sc_unit *u = &m->units.at[unit];

	return m->problem->column_cost && u->n_tables == 1 && !u->whole_in[tier];
}

/* The cheapest whole table that could be split: its choice, or SC_UNPLACED. */
static uint32_t whole(const struct sc_shard_model *m, uint32_t index)
{
	const struct sc_unit *unit = &m->units.at[index];
	uint32_t found = SC_UNPLACED;

	for (uint32_t i = unit->first_choice; i < unit->first_choice + unit->n_choices; i++) {
		const struct sc_choice *c = &m->choices.at[i];

		if (c->spread == SC_SPREAD_FREE && sc_shard_model_may_split(m, index, c->tier) &&
		    (found == SC_UNPLACED || c->total < m->choices.at[found].total))
			found = i;
	}
	return found;
}

static void split_evenly(struct sc_shard_model *m, uint32_t unit, uint32_t like)
{
	uint32_t table = m->tables.at[m->units.at[unit].first_table];
	int64_t dim = m->problem->tables[table].dim;
	int64_t cols[MOST_SLICES];

	for (uint32_t n = 2; n <= MOST_SLICES && dim / n >= m->least_cols; n++) {
		int64_t steps = dim / SC_WIDTH_STEP, left = dim;

		for (uint32_t i = 0; i < n; i++) {
			cols[i] = i + 1 == n
					  ? left
					  : (steps / n + (i < steps % n ? 1 : 0)) * SC_WIDTH_STEP;
			left -= cols[i];
		}
		if (cols[n - 1] >= m->least_cols)
			sc_shard_model_slices(m, unit, like, cols, n);
	}
}

/* Adds finer column splits of the tables whose shards are large beside `load`. Choices of a unit
 * lie together, so those of a unit that is split move to the end of the list. */
static void shard_model_split(struct sc_shard_model *m, double load)
{
	if (!m->problem->column_cost)
		return;
	for (uint32_t u = 0; u < m->units.n; u++) {
		struct sc_unit *unit = &m->units.at[u];
		uint32_t like = whole(m, u);
		uint32_t old = unit->first_choice, first = (uint32_t)m->choices.n;

		if (like == SC_UNPLACED || m->choices.at[like].n != 1 ||
		    m->choices.at[like].cost < SPLIT_SHARE * load)
			continue;
		for (uint32_t i = 0; i < unit->n_choices; i++) {
			struct sc_choice copy = m->choices.at[old + i];

			SC_VEC_PUSH(&m->choices, copy);
		}
		unit->first_choice = first;
		split_evenly(m, u, like);
		unit->n_choices = (uint32_t)m->choices.n - first;
	}
}

/* The reasons why no plan fits the memory: the smallest that can be proved is told, from single
 * tables up to all of them. shard_rules.c finds those of constraints alone. */

/* The least bytes that a rank with a shard of the unit must hold. */
static double least_shard(const struct sc_shard_model *m, uint32_t unit)
{
	const struct sc_unit *u = &m->units.at[unit];
	double least = HUGE_VAL;

	for (uint32_t i = 0; i < u->n_choices; i++) {
		const struct sc_choice *c = &m->choices.at[u->first_choice + i];
		struct sc_option_shard slice = {0};

		least = fmin(least, c->hbm);
		if (c->spread == SC_SPREAD_FREE && sc_shard_model_may_split(m, unit, c->tier) &&
		    m->problem->column_cost(m->problem->column_ctx, m->tables.at[u->first_table],
					    c->tier, m->least_cols, &slice))
			least = fmin(least, slice.hbm_bytes);
	}
	return least;
}

static double hbm_of_all(const struct sc_choice *c)
{
	double sum = 0.0;

	for (uint32_t k = 0; k < sc_choice_n_listed(c); k++)
		sum += c->shards[k].hbm_bytes * sc_choice_repeats(c, k);
	return sum;
}

static double least_total(const struct sc_shard_model *m, uint32_t unit)
{
	const struct sc_unit *u = &m->units.at[unit];
	double least = HUGE_VAL;

	for (uint32_t i = 0; i < u->n_choices; i++)
		least = fmin(least, hbm_of_all(&m->choices.at[u->first_choice + i]));
	return least;
}

static int large_unit(const struct sc_shard_model *m, struct sc_err *err)
{
	const double room = m->hbm_most;

	for (uint32_t u = 0; u < m->units.n; u++) {
		const struct sc_unit *unit = &m->units.at[u];
		double need = least_shard(m, u);
		char together[48] = "";

		if (need <= room)
			continue;
		if (unit->n_tables > 1)
			snprintf(together, sizeof(together), " and the %u together with it",
				 unit->n_tables - 1);
		return sc_err_set(err, SC_ECONFLICT,
				  "table %.64s%s: the smallest shard needs %.0f bytes of HBM, %.0f "
				  "over the largest rank's %.0f",
				  m->problem->tables[m->tables.at[unit->first_table]].name,
				  together, need, need - room, room);
	}
	return 0;
}

/* Finds a table that no kind of memory holds, however it is cut. */
static int table_over_all(const struct sc_shard_model *m, struct sc_err *err)
{
	double hbm = m->hbm_total, host = m->problem->host_bytes * m->n_hosts;
	double ssd = m->problem->ssd_bytes * m->n_hosts;

	for (uint32_t u = 0; u < m->units.n; u++) {
		const struct sc_unit *unit = &m->units.at[u];
		double least = HUGE_VAL;
		bool fits = false, on_ssd = false;

		for (uint32_t i = 0; i < unit->n_choices && !fits; i++) {
			const struct sc_choice *c = &m->choices.at[unit->first_choice + i];
			double on_gpus = hbm_of_all(c);

			fits = on_gpus <= hbm && c->host <= host && c->ssd <= ssd;
			least = fmin(least, on_gpus + c->host + c->ssd);
			on_ssd = on_ssd || c->ssd > 0.0;
		}
		if (!fits)
			return sc_err_set(
				err, SC_ECONFLICT,
				"table %s needs at least %.0f bytes however it is cut; "
				"all ranks have %.0f of HBM, their hosts %.0f of memory%s",
				m->problem->tables[m->tables.at[unit->first_table]].name, least,
				hbm, host, on_ssd ? ", and their SSDs have no room either" : "");
	}
	return 0;
}

/* Finds a rank that is over its memory by what is pinned to it. */
static int full_rank(const struct sc_shard_model *m, struct sc_err *err)
{
	const struct sc_shard_problem *p = m->problem;
	double *left = sc_xrealloc(NULL, m->world, sizeof(*left));
	bool *counted = sc_xcalloc(m->units.n + 1, sizeof(*counted));
	int rc = 0;

	memcpy(left, m->hbm_cap, m->world * sizeof(*left));
	for (size_t i = 0; i < p->n_constraints && rc == 0; i++) {
		const struct sc_shard_constraint *c = &p->constraints[i];
		uint32_t unit = m->unit_of[c->table];

		if (c->kind != SC_PIN || c->rank < 0 || counted[unit])
			continue;
		counted[unit] = true;
		left[c->rank] -= least_total(m, unit);
		if (left[c->rank] < 0.0)
			rc = sc_err_set(err, SC_ECONFLICT,
					"what is pinned to rank %d, up to table %.64s, needs %.0f "
					"bytes of HBM more than its %.0f",
					(int)c->rank, p->tables[c->table].name, -left[c->rank],
					m->hbm_cap[c->rank]);
	}
	free(left);
	free(counted);
	return rc;
}

static int full_cluster(const struct sc_shard_model *m, struct sc_err *err)
{
	double need = 0.0, room = m->hbm_total;

	for (uint32_t u = 0; u < m->units.n; u++)
		need += least_total(m, u);
	if (need <= room)
		return 0;
	return sc_err_set(
		err, SC_ECONFLICT,
		"the tables need at least %.0f bytes of HBM, %.0f over the %.0f of all %u "
		"ranks",
		need, need - room, room, m->world);
}

/* Tells why no plan holds: it always sets an error. */
static int shard_conflict(const struct sc_shard_problem *problem, struct sc_err *err)
{
	static int (*const REASONS[])(const struct sc_shard_model *, struct sc_err *) = {
		large_unit, table_over_all, full_rank, full_cluster};
	struct sc_shard_model m;
	int rc = sc_shard_model_init(&m, problem, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < sizeof(REASONS) / sizeof(REASONS[0]) && rc == 0; i++)
		rc = REASONS[i](&m, err);
	sc_shard_model_release(&m);
	if (rc)
		return rc;
	return sc_err_set(err, SC_ECONFLICT,
			  "found no plan within memory and constraints, though each table fits by "
			  "itself and all do in total");
}

const char *const sc_solve_parts[] = {"splits", "targets", "sides", "shakes",
				      "swaps",  "cuts",    "moves", NULL};

const struct sc_solve_opts sc_solve_defaults = {
	.seed = 1, .stop_gap = 1e-6, .max_moved_bytes = -1.0, .max_moved_tables = -1};

int sc_shard_solve(const struct sc_shard_problem *problem, const struct sc_solve_opts *opts,
		   struct sc_arena *arena, struct sc_shard_solution *out, struct sc_err *err)
{
	const double start_s = sc_now_s();
	struct sc_err why = {.code = SC_OK};
	struct sc_shard_plan plan = {0};
	struct sc_shard_model model;
	double bound, lp_bound;
	int rc;

	if (!opts->current && problem->n_tables > SC_UNITS_AT_ONCE &&
	    sc_search_is_ended(opts->watch))
		return sc_search_no_plan(err);
	rc = sc_shard_model_init(&model, problem, err);
	if (rc)
		return rc;
	bound = sc_shard_model_bound(&model, &lp_bound);
	if (!opts->without || strcmp(opts->without, "splits") != 0)
		shard_model_split(&model, lp_bound);
	if (sc_shard_search_run(&model, opts, bound, start_s, &plan)) {
		rc = sc_shard_rate(problem, &plan, false, arena, out, err);
		sc_shard_plan_release(&plan);
	} else if (sc_search_is_ended(opts->watch)) {
		rc = sc_search_no_plan(err);
	} else {
		rc = shard_conflict(problem, opts->current ? &why : err);
		if (opts->current)
			rc = sc_err_set(err, SC_ECONFLICT,
					"the current plan cannot be made to hold within the moves "
					"allowed (%s)",
					why.text);
	}
	if (rc == 0) {
		out->all_bound = bound;
		out->lp_bound = lp_bound;
		out->bound = fmin(bound, out->cost);
		out->proven = out->cost - out->bound <= opts->stop_gap * fmax(out->bound, 0.0);
	}
	sc_shard_model_release(&model);
	return rc;
}
