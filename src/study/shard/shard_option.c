/* Makes the shards of options, of which the problem may list fewer than there are (see sc_option),
 * and writes an option into a plan. */
#include "study/shard/shard.h"

uint32_t sc_option_n_shards(const struct sc_shard_problem *problem, const struct sc_option *option)
{
	if (option->spread == SC_SPREAD_UNIFORM)
		return problem->world;
	return option->spread == SC_SPREAD_HOST ? problem->ranks_per_host : option->n_shards;
}

uint32_t sc_option_shard_index(const struct sc_shard_problem *problem,
			       const struct sc_option *option, uint32_t i)
{
	uint32_t run = 0;

	if (option->n_shards == sc_option_n_shards(problem, option))
		return option->first_shard + i;
	while (run + 1 < option->n_shards && i >= option->run_end[run])
		run++;
	return option->first_shard + run;
}

void sc_option_shard_get(const struct sc_shard_problem *problem, const struct sc_option *option,
			 uint32_t i, struct sc_option_shard *out)
{
	int64_t block = problem->shards.at[option->first_shard].rows, rows, at;

	*out = problem->shards.at[sc_option_shard_index(problem, option, i)];
	if (option->type == SC_DATA_PARALLEL ||
	    option->n_shards == sc_option_n_shards(problem, option))
		return;
	rows = problem->tables[option->table].rows;
	at = block * (int64_t)i;
	out->row_offset = at < rows ? at : rows;
	out->rows = rows - out->row_offset < block ? rows - out->row_offset : block;
}

bool sc_shard_cost_of(const struct sc_shard_problem *p, uint32_t table,
		      const struct sc_table_placement *at, const struct sc_shard *shard,
		      struct sc_option_shard *out)
{
	bool known;

	*out = (struct sc_option_shard){.cost = 0};
	if (p->column_cost && !at->hot_rows &&
	    (at->type == SC_TABLE_WISE || at->type == SC_COLUMN_WISE ||
	     at->type == SC_TABLE_COLUMN_WISE) &&
	    shard->rows == p->tables[table].rows && shard->cols > 0)
		known = p->column_cost(p->column_ctx, table, at->tier, shard->cols, out);
	else
		known = p->shard_cost && p->shard_cost(p->column_ctx, table, at, shard, out);
	out->row_offset = shard->row_offset;
	out->col_offset = shard->col_offset;
	out->rows = shard->rows;
	out->cols = shard->cols;
	return known;
}

void sc_plan_add_option(struct sc_shard_plan *plan, const struct sc_shard_problem *problem,
			uint32_t option, const int32_t *ranks)
{
	const struct sc_option *o = &problem->options.at[option];
	struct sc_table_placement *at =
		sc_plan_begin_table(plan, &problem->tables[o->table], o->type);

	at->tier = o->tier;
	at->cache_frac = o->tier == SC_TIER_CACHED ? o->cache_frac : 0;
	at->hot_rows = o->hot_rows;
	for (uint32_t i = 0; i < sc_option_n_shards(problem, o); i++) {
		struct sc_option_shard s;

		sc_option_shard_get(problem, o, i, &s);
		sc_plan_add_shard(plan, &(struct sc_shard){.rank = ranks[i],
							   .row_offset = s.row_offset,
							   .col_offset = s.col_offset,
							   .rows = s.rows,
							   .cols = s.cols});
	}
}

static bool costs_alike(const struct sc_option_shard *a, const struct sc_option_shard *b)
{
	return a->rows == b->rows && a->cost <= b->cost && a->cost >= b->cost &&
	       a->hbm_bytes <= b->hbm_bytes && a->hbm_bytes >= b->hbm_bytes &&
	       a->host_bytes <= b->host_bytes && a->host_bytes >= b->host_bytes &&
	       a->ssd_bytes <= b->ssd_bytes && a->ssd_bytes >= b->ssd_bytes;
}

/* Adds the slices of rows: the first may cost more than others, for its hottest row; after those of
 * a whole block there is one cut short, then some without rows. */
static void add_rows(const struct sc_option_maker *m, struct sc_option *option, uint32_t n,
		     struct sc_option_shard *s, bool in_runs)
{
	struct sc_shard_problem *p = m->problem;
	int64_t rows = p->tables[option->table].rows, block = (rows + n - 1) / n;
	uint32_t whole = (uint32_t)(rows / block), n_runs = 0, next;

	for (uint32_t i = 0; i < n; i = next) {
		next = !in_runs || i == 0 || i >= whole ? i + 1 : whole;
		s->row_offset = block * i < rows ? block * i : rows;
		s->rows = rows - s->row_offset < block ? rows - s->row_offset : block;
		if (i < 2 || i == whole || i == whole + 1)
			m->cost(m->ctx, option, s);
		if (in_runs && i > whole)
			next = n;
		if (in_runs && i > 0 && costs_alike(s, &p->shards.at[p->shards.n - 1]))
			continue;
		if (in_runs && i > 0)
			option->run_end[n_runs++] = i;
		SC_VEC_PUSH(&p->shards, *s);
	}
}

void sc_option_add(const struct sc_option_maker *m, const struct sc_option *like, uint32_t n_rows,
		   int64_t cols)
{
	struct sc_shard_problem *p = m->problem;
	int64_t dim = p->tables[like->table].dim;
	struct sc_option option = *like;
	struct sc_option_shard s = {.cols = 0};
	bool has_each = like->spread == SC_SPREAD_UNIFORM || like->spread == SC_SPREAD_HOST;
	bool in_runs = cols >= dim && n_rows > SC_MAX_RUNS && has_each;

	option.first_shard = (uint32_t)p->shards.n;
	option.n_shards = n_rows;
	for (int64_t at = 0; at < dim; at += cols) {
		int64_t now = dim - at < cols ? dim - at : cols;

		s.col_offset = at;
		if (n_rows == 1 && s.cols == now) {
			SC_VEC_PUSH(&p->shards, s);
			continue;
		}
		s.cols = now;
		add_rows(m, &option, n_rows, &s, in_runs);
	}
	option.n_shards = (uint32_t)p->shards.n - option.first_shard;
	SC_VEC_PUSH(&p->options, option);
}
