/* See the header. A placement is looked up among its table's options by type, tier and shard sizes. */
#include "study/shard/shard_terms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"

#define SAME_FRAC 1e-6

void sc_shard_terms_release(struct sc_shard_terms *terms)
{
	SC_VEC_RELEASE(&terms->at);
}

static bool fits(const struct sc_shard_problem *problem, const struct sc_option *option,
		 const struct sc_shard_plan *plan, const struct sc_table_placement *t)
{
	const struct sc_shard *s = plan->shards.at + t->first_shard;

	if (option->type != t->type || option->tier != t->tier ||
	    sc_option_n_shards(problem, option) != t->n_shards)
		return false;
	if (t->tier == SC_TIER_CACHED && fabs(option->cache_frac - t->cache_frac) > SAME_FRAC)
		return false;
	for (uint32_t i = 0; i < t->n_shards; i++) {
		struct sc_option_shard o;

		sc_option_shard_get(problem, option, i, &o);
		if (o.rows != s[i].rows || o.cols != s[i].cols)
			return false;
	}
	return true;
}

static const struct sc_option *find_option(const struct sc_shard_problem *problem, uint32_t table,
					   const struct sc_shard_plan *plan,
					   const struct sc_table_placement *t)
{
	uint32_t end = problem->first_option.at[table + 1];

	for (uint32_t i = problem->first_option.at[table]; i < end; i++) {
		if (fits(problem, &problem->options.at[i], plan, t))
			return &problem->options.at[i];
	}
	return NULL;
}

static int no_option(const struct sc_shard_plan *plan, const struct sc_table_placement *t,
		     struct sc_err *err)
{
	return sc_err_at(err, SC_EUNSUPPORTED, plan->file, t->line, t->column,
			 "table \"%.64s\": the objective has no cost for %s %s in %u shards",
			 t->name, sc_enum_name(sc_shard_type_names, (int)t->type),
			 sc_enum_name(sc_tier_names, (int)t->tier), t->n_shards);
}

static bool shard_cost(const struct sc_shard_problem *problem, const struct sc_table_placement *t,
		       const struct sc_shard_term *term, const struct sc_shard *shard,
		       struct sc_option_shard *out)
{
	bool by_columns = t->type == SC_COLUMN_WISE || t->type == SC_TABLE_COLUMN_WISE;

	if (term->option_shard != UINT32_MAX) {
		*out = problem->shards.at[term->option_shard];
		return true;
	}
	if (by_columns && problem->column_cost)
		return problem->column_cost(problem->column_ctx, term->table, t->tier, term->cols,
					    out);
	return problem->shard_cost &&
	       problem->shard_cost(problem->column_ctx, term->table, t, shard, out);
}

static int add_table(const struct sc_shard_problem *problem, uint32_t table,
		     const struct sc_shard_plan *plan, const struct sc_table_placement *t,
		     struct sc_shard_terms *out)
{
	const struct sc_option *option = find_option(problem, table, plan, t);

	for (uint32_t i = 0; i < t->n_shards; i++) {
		const struct sc_shard *s = &plan->shards.at[t->first_shard + i];
		struct sc_shard_term term = {
			.table = table,
			.rank = (uint32_t)s->rank,
			.option_shard =
				option ? sc_option_shard_index(problem, option, i) : UINT32_MAX,
			.rows = s->rows,
			.cols = s->cols,
			.type = t->type,
			.tier = t->tier,
		};
		struct sc_option_shard cost;

		if (!shard_cost(problem, t, &term, s, &cost))
			return -1;
		term.ms = cost.cost;
		term.comms_ms = cost.comms;
		if (problem->rank_speed) {
			term.ms /= problem->rank_speed[term.rank];
			term.comms_ms /= problem->rank_speed[term.rank];
		}
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
	struct sc_intern names = {.n_slots = 0};
	int rc = 0;

	if (plan->world != problem->world)
		return sc_err_at(err, SC_ECONFLICT, plan->file, 0, 0,
				 "a plan for %u ranks; there are %u", plan->world, problem->world);
	for (size_t i = 0; i < problem->n_tables; i++)
		sc_intern_add(&names, problem->tables[i].name);
	for (size_t i = 0; i < plan->tables.n && rc == 0; i++) {
		const struct sc_table_placement *t = &plan->tables.at[i];
		uint32_t table = sc_intern_find(&names, t->name);

		if (table == SC_INTERN_NONE)
			rc = sc_err_at(err, SC_ECONFLICT, plan->file, t->line, t->column,
				       "table \"%.64s\": the model has no such table", t->name);
		else if (add_table(problem, table, plan, t, &terms))
			rc = no_option(plan, t, err);
	}
	sc_intern_release(&names);
	if (rc)
		sc_shard_terms_release(&terms);
	else
		*out = terms;
	return rc;
}

static uint32_t host_of(const struct sc_shard_problem *problem, uint32_t rank)
{
	return problem->ranks_per_host ? rank / problem->ranks_per_host : 0;
}

void sc_shard_memory_of(const struct sc_shard_problem *problem, const struct sc_shard_terms *terms,
			struct sc_shard_memory *out)
{
	double *sum = sc_xrealloc(NULL, 3 * (size_t)problem->world, sizeof(*sum));
	double *hbm = sum, *host = sum + problem->world, *ssd = host + problem->world;

	memset(sum, 0, 3 * (size_t)problem->world * sizeof(*sum));
	*out = (struct sc_shard_memory){.hbm_bytes = 0};
	for (size_t i = 0; i < terms->at.n; i++) {
		const struct sc_shard_term *term = &terms->at.at[i];

		hbm[term->rank] += term->hbm_bytes;
		host[host_of(problem, term->rank)] += term->host_bytes;
		ssd[host_of(problem, term->rank)] += term->ssd_bytes;
	}
	for (uint32_t i = 0; i < problem->world; i++) {
		if (hbm[i] > out->hbm_bytes) {
			out->hbm_bytes = hbm[i];
			out->hbm_rank = i;
		}
		if (host[i] > out->host_bytes) {
			out->host_bytes = host[i];
			out->host = i;
		}
		if (ssd[i] > out->ssd_bytes) {
			out->ssd_bytes = ssd[i];
			out->ssd_host = i;
		}
	}
	free(sum);
}

static int by_ms(const void *a, const void *b)
{
	const struct sc_rank_part *x = a, *y = b;

	if (x->ms < y->ms || x->ms > y->ms)
		return x->ms > y->ms ? -1 : 1;
	return x->table < y->table ? -1 : x->table > y->table;
}

static int by_table(const void *a, const void *b)
{
	const struct sc_rank_part *x = a, *y = b;

	return x->table < y->table ? -1 : x->table > y->table;
}

size_t sc_rank_parts(const struct sc_shard_terms *terms, uint32_t rank, struct sc_rank_part *out,
		     size_t max)
{
	SC_VEC(struct sc_rank_part) parts = {0};
	size_t n = 0;

	for (size_t i = 0; i < terms->at.n; i++) {
		const struct sc_shard_term *term = &terms->at.at[i];

		if (term->rank == rank)
			SC_VEC_PUSH(&parts, ((struct sc_rank_part){term->table, term->ms,
								   term->hbm_bytes}));
	}
	if (parts.n)
		qsort(parts.at, parts.n, sizeof(*parts.at), by_table);
	for (size_t i = 0; i < parts.n; i++) {
		if (n && parts.at[n - 1].table == parts.at[i].table) {
			parts.at[n - 1].ms += parts.at[i].ms;
			parts.at[n - 1].hbm_bytes += parts.at[i].hbm_bytes;
		} else {
			parts.at[n++] = parts.at[i];
		}
	}
	if (n)
		qsort(parts.at, n, sizeof(*parts.at), by_ms);
	if (n > max)
		n = max;
	for (size_t i = 0; i < n; i++)
		out[i] = parts.at[i];
	SC_VEC_RELEASE(&parts);
	return n;
}
