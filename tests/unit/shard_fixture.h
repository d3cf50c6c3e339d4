/* Small sharding problems for tests: tables of one element a byte and options of given costs. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "study/shard/shard.h"

enum { FIX_TABLES = 64 };
struct shard_fixture {
	struct sc_table tables[FIX_TABLES];
	char names[FIX_TABLES][16];
	struct sc_shard_problem problem;
	struct sc_arena arena;
};

static void fix_init(struct shard_fixture *f, uint32_t world, uint32_t per_host)
{
	memset(f, 0, sizeof(*f));
	sc_arena_init(&f->arena, 4096);
	f->problem.tables = f->tables;
	f->problem.world = world;
	f->problem.ranks_per_host = per_host;
	f->problem.hbm_bytes = f->problem.host_bytes = f->problem.ssd_bytes = 1e12;
	SC_VEC_PUSH(&f->problem.first_option, 0);
}

static void fix_release(struct shard_fixture *f)
{
	sc_shard_problem_release(&f->problem);
	sc_arena_release(&f->arena);
}

/* Another table, without options yet. */
static inline uint32_t fix_table(struct shard_fixture *f, int64_t rows, int64_t dim)
{
	uint32_t t = (uint32_t)f->problem.n_tables++;

	snprintf(f->names[t], sizeof(f->names[t]), "t%u", t);
	f->tables[t] = (struct sc_table){.name = f->names[t],
					 .rows = rows,
					 .dim = dim,
					 .count = 1,
					 .features = 1,
					 .pooling = 1.0,
					 .dtype = SC_FP32};
	SC_VEC_PUSH(&f->problem.first_option, (uint32_t)f->problem.options.n);
	return t;
}

/* An option of the last table; every shard costs `cost` and holds `bytes`. */
static inline void fix_option(struct shard_fixture *f, enum sc_shard_type type, double cost,
			      double bytes)
{
	static const enum sc_spread SPREADS[] = {
		[SC_DATA_PARALLEL] = SC_SPREAD_UNIFORM, [SC_TABLE_WISE] = SC_SPREAD_FREE,
		[SC_COLUMN_WISE] = SC_SPREAD_FREE,      [SC_ROW_WISE] = SC_SPREAD_UNIFORM,
		[SC_TABLE_ROW_WISE] = SC_SPREAD_HOST,   [SC_TABLE_COLUMN_WISE] = SC_SPREAD_ON_HOST};
	struct sc_shard_problem *p = &f->problem;
	uint32_t table = (uint32_t)p->n_tables - 1;
	const struct sc_table *t = &f->tables[table];
	struct sc_option o = {.table = table,
			      .type = type,
			      .spread = SPREADS[type],
			      .first_shard = (uint32_t)p->shards.n};

	o.n_shards = o.spread == SC_SPREAD_UNIFORM ? p->world
		     : o.spread == SC_SPREAD_HOST  ? p->ranks_per_host
		     : type == SC_TABLE_WISE       ? 1
						   : 2;
	for (uint32_t i = 0; i < o.n_shards; i++) {
		struct sc_option_shard s = {
			.rows = t->rows, .cols = t->dim, .cost = cost, .hbm_bytes = bytes};

		if (type == SC_ROW_WISE || type == SC_TABLE_ROW_WISE) {
			s.rows = t->rows / o.n_shards;
			s.row_offset = s.rows * i;
		}
		if (type == SC_COLUMN_WISE || type == SC_TABLE_COLUMN_WISE) {
			s.cols = t->dim / 2;
			s.col_offset = s.cols * i;
		}
		SC_VEC_PUSH(&p->shards, s);
	}
	SC_VEC_PUSH(&p->options, o);
	p->first_option.at[p->n_tables] = (uint32_t)p->options.n;
}

/* A table that is only placed whole. */
static inline uint32_t fix_whole(struct shard_fixture *f, double cost, double bytes)
{
	uint32_t t = fix_table(f, 64, 16);

	fix_option(f, SC_TABLE_WISE, cost, bytes);
	return t;
}

/* Least cost of the busiest rank over all plans, by trying them; for few tables of single-shard,
 * HOST and UNIFORM options. */
static inline void fix_try(const struct shard_fixture *f, uint32_t table, double *load, double *hbm,
			   double *best)
{
	const struct sc_shard_problem *p = &f->problem;

	if (table == p->n_tables) {
		double most = 0.0;

		for (uint32_t r = 0; r < p->world; r++)
			most = load[r] > most ? load[r] : most;
		*best = most < *best ? most : *best;
		return;
	}
	for (uint32_t i = p->first_option.at[table]; i < p->first_option.at[table + 1]; i++) {
		const struct sc_option *o = &p->options.at[i];
		const struct sc_option_shard *s = &p->shards.at[o->first_shard];
		uint32_t width = o->n_shards;

		for (uint32_t first = 0; first < p->world; first += width) {
			bool fits = true;

			for (uint32_t r = first; r < first + width; r++) {
				load[r] += s->cost / (p->rank_speed ? p->rank_speed[r] : 1.0);
				hbm[r] += s->hbm_bytes;
				fits = fits && hbm[r] <= p->hbm_bytes;
			}
			if (fits)
				fix_try(f, table + 1, load, hbm, best);
			for (uint32_t r = first; r < first + width; r++) {
				load[r] -= s->cost / (p->rank_speed ? p->rank_speed[r] : 1.0);
				hbm[r] -= s->hbm_bytes;
			}
		}
	}
}

static inline double fix_optimum(const struct shard_fixture *f)
{
	double load[32] = {0}, hbm[32] = {0}, best = 1e300;

	fix_try(f, 0, load, hbm, &best);
	return best;
}
