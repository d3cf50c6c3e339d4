/* Shards of an option, of which the problem may list fewer than there are (see sc_option). */
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

void sc_plan_add_option(struct sc_shard_plan *plan, const struct sc_shard_problem *problem,
			uint32_t option, const int32_t *ranks)
{
	const struct sc_option *o = &problem->options.at[option];
	struct sc_table_placement *at =
		sc_plan_begin_table(plan, &problem->tables[o->table], o->type);

	at->tier = o->tier;
	at->cache_frac = o->tier == SC_TIER_CACHED ? o->cache_frac : 0;
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
