/* See the header. A placement is looked up among its table's options by type, tier and shard sizes. */
#include "study/shard/shard_terms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "study/shard/shard_solve_priv.h"

void sc_shard_terms_release(struct sc_shard_terms *terms)
{
	SC_VEC_RELEASE(&terms->at);
}

static int no_option(const struct sc_shard_plan *plan, const struct sc_table_placement *t,
		     struct sc_err *err)
{
	return sc_err_at(err, SC_EUNSUPPORTED, plan->file, t->line, t->column,
			 "table \"%.64s\": the objective has no cost for %s %s in %u shards",
			 t->name, sc_enum_name(sc_shard_type_names, (int)t->type),
			 sc_enum_name(sc_tier_names, (int)t->tier), t->n_shards);
}

static bool shard_cost(const struct sc_shard_problem *p, const struct sc_table_placement *t,
		       const struct sc_shard_term *term, const struct sc_shard *shard,
		       struct sc_option_shard *out)
{
	if (term->option_shard == UINT32_MAX)
		return sc_shard_cost_of(p, term->table, t, shard, out);
	*out = p->shards.at[term->option_shard];
	return true;
}

static int add_shard(const struct sc_shard_problem *problem, const struct sc_table_placement *t,
		     const struct sc_shard *shard, struct sc_shard_term *term)
{
	struct sc_option_shard cost;
	double speed = sc_rank_speed(problem, term->rank);

	if (!shard_cost(problem, t, term, shard, &cost))
		return -1;
	term->ms = cost.cost / speed;
	term->comms_ms = cost.comms / speed;
	term->prefetch_ms = cost.prefetch_ms / speed;
	term->hbm_bytes = cost.hbm_bytes;
	term->host_bytes = cost.host_bytes;
	term->ssd_bytes = cost.ssd_bytes;
	return 0;
}

static int add_table(const struct sc_shard_problem *problem, uint32_t table,
		     const struct sc_shard_plan *plan, const struct sc_table_placement *t,
		     struct sc_shard_terms *out)
{
	uint32_t match = sc_shard_match_option(problem, plan, t, table);

	for (uint32_t i = 0; i < t->n_shards; i++) {
		const struct sc_shard *s = &plan->shards.at[t->first_shard + i];
		struct sc_shard_term term = {
			.table = table,
			.rank = (uint32_t)s->rank,
			.option_shard = UINT32_MAX,
			.rows = s->rows,
			.cols = s->cols,
			.type = t->type,
			.tier = t->tier,
		};

		if (match != SC_UNPLACED)
			term.option_shard =
				sc_option_shard_index(problem, &problem->options.at[match], i);
		if (s->rank < 0 || term.rank >= problem->world ||
		    add_shard(problem, t, s, &term) != 0)
			return -1;
		SC_VEC_PUSH(&out->at, term);
	}
	return 0;
}

/* Its table; most plans have them in the problem's order. */
static uint32_t table_of(const struct sc_shard_problem *problem, const char *name, size_t hint,
			 struct sc_intern *names)
{
	if (hint < problem->n_tables && strcmp(problem->tables[hint].name, name) == 0)
		return (uint32_t)hint;
	if (names->n_slots == 0) {
		for (size_t i = 0; i < problem->n_tables; i++)
			sc_intern_add(names, problem->tables[i].name);
	}
	return sc_intern_find(names, name);
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
	for (size_t i = 0; i < plan->tables.n && rc == 0; i++) {
		const struct sc_table_placement *t = &plan->tables.at[i];
		uint32_t table = table_of(problem, t->name, i, &names);

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
