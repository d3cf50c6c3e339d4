/* A small problem of whole, column-sliced and replicated tables with costs that can be added by
 * hand. */
#pragma once

#include <string.h>

#include "study/shard/shard.h"

enum { FIXTURE_TABLES = 3, FIXTURE_WORLD = 2 };
static const struct sc_table fixture_tables[FIXTURE_TABLES] = {
	{.name = "a", .rows = 100, .dim = 64, .count = 1, .features = 1, .pooling = 1},
	{.name = "b", .rows = 50, .dim = 64, .count = 1, .features = 1, .pooling = 1},
	{.name = "c", .rows = 10, .dim = 32, .count = 1, .features = 1, .pooling = 1},
};
/* Whole tables: ms 4, 2, 1; as two slices 2.5, 1.2, 0.6 each; replicated 3, 1.5, 0.1 on every rank.
 */
static const double fixture_ms[FIXTURE_TABLES][3] = {{4, 2.5, 3}, {2, 1.2, 1.5}, {1, 0.6, 0.1}};

static inline void fixture_option(struct sc_shard_problem *p, uint32_t table,
				  enum sc_shard_type type)
{
	const struct sc_table *t = &fixture_tables[table];
	uint32_t n = type == SC_TABLE_WISE ? 1 : FIXTURE_WORLD;
	struct sc_option option = {
		.table = table,
		.type = type,
		.spread = type == SC_DATA_PARALLEL ? SC_SPREAD_UNIFORM : SC_SPREAD_FREE,
		.first_shard = (uint32_t)p->shards.n,
		.n_shards = n,
	};

	for (uint32_t i = 0; i < n; i++) {
		int64_t cols = type == SC_COLUMN_WISE ? t->dim / FIXTURE_WORLD : t->dim;
		struct sc_option_shard shard = {
			.rows = t->rows,
			.cols = cols,
			.col_offset = type == SC_COLUMN_WISE ? (int64_t)i * cols : 0,
			.cost = fixture_ms[table][type == SC_TABLE_WISE    ? 0
						  : type == SC_COLUMN_WISE ? 1
									   : 2],
			.hbm_bytes = (double)(t->rows * cols * 4),
		};

		SC_VEC_PUSH(&p->shards, shard);
	}
	SC_VEC_PUSH(&p->options, option);
}

static inline void fixture_problem(struct sc_shard_problem *p)
{
	memset(p, 0, sizeof(*p));
	p->n_tables = FIXTURE_TABLES;
	p->tables = fixture_tables;
	p->world = p->ranks_per_host = FIXTURE_WORLD;
	p->hbm_bytes = 1e6;
	for (uint32_t table = 0; table < FIXTURE_TABLES; table++) {
		SC_VEC_PUSH(&p->first_option, (uint32_t)p->options.n);
		fixture_option(p, table, SC_TABLE_WISE);
		fixture_option(p, table, SC_COLUMN_WISE);
		fixture_option(p, table, SC_DATA_PARALLEL);
	}
	SC_VEC_PUSH(&p->first_option, (uint32_t)p->options.n);
}

/* `how` has a letter a table: '0' and '1' whole on that rank, 'c' sliced over both, 'd' replicated.
 */
static inline void fixture_plan(struct sc_shard_plan *plan, const char *how)
{
	memset(plan, 0, sizeof(*plan));
	plan->world = plan->ranks_per_host = FIXTURE_WORLD;
	for (uint32_t table = 0; table < FIXTURE_TABLES; table++) {
		const struct sc_table *t = &fixture_tables[table];
		bool sliced = how[table] == 'c', whole = how[table] < 'a';
		struct sc_table_placement placement = {
			.name = t->name,
			.rows = t->rows,
			.dim = t->dim,
			.type = sliced  ? SC_COLUMN_WISE
				: whole ? SC_TABLE_WISE
					: SC_DATA_PARALLEL,
			.first_shard = (uint32_t)plan->shards.n,
			.n_shards = whole ? 1 : FIXTURE_WORLD,
		};

		for (int32_t i = 0; i < (int32_t)placement.n_shards; i++) {
			struct sc_shard shard = {
				.table = table,
				.rank = whole ? how[table] - '0' : i,
				.rows = t->rows,
				.cols = sliced ? t->dim / FIXTURE_WORLD : t->dim,
				.col_offset = sliced ? i * t->dim / FIXTURE_WORLD : 0,
			};

			SC_VEC_PUSH(&plan->shards, shard);
		}
		SC_VEC_PUSH(&plan->tables, placement);
	}
}

static inline void fixture_release(struct sc_shard_problem *p)
{
	SC_VEC_RELEASE(&p->options);
	SC_VEC_RELEASE(&p->first_option);
	SC_VEC_RELEASE(&p->shards);
}
