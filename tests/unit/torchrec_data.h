/* Sharding problems from the data folder beside the checkout: six instances that TorchRec's planner
 * was run on, and a production plan's tables. A file that is not as it should be ends the program.
 */
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/num.h"
#include "base/units.h"
#include "study/shard/shard.h"

#define TORCHREC_DATA "../shared/data/embedding/"

struct torchrec_data {
	struct sc_arena arena;
	struct sc_table_list tables;
	struct sc_torchrec_topology topology;
	struct sc_shard_problem problem;
	struct torchrec_columns *columns; /* of the production plan's tables */
};
struct torchrec_columns {
	sc_column_cost_fn cost;
	const void *ctx;
};

static inline void data_load(const char *path, struct sc_arena *arena, struct sc_csv *csv)
{
	struct sc_err err = {.code = SC_OK};

	if (sc_csv_load(path, arena, csv, &err) == 0)
		return;
	fprintf(stderr, "%s: %s\n", path, err.text);
	exit(EXIT_FAILURE);
}

static inline const char *data_cell(const struct sc_csv *csv, size_t row, const char *column)
{
	int at = sc_csv_column(csv, column);

	if (at >= 0)
		return sc_csv_cell(csv, row, (size_t)at);
	fprintf(stderr, "%s has no column %s\n", csv->file, column);
	exit(EXIT_FAILURE);
}

static inline double data_number(const struct sc_csv *csv, size_t row, const char *column)
{
	double value = 0.0;

	if (sc_parse_double(data_cell(csv, row, column), &value))
		return value;
	fprintf(stderr, "%s:%u: column %s is no number\n", csv->file, csv->line[row], column);
	exit(EXIT_FAILURE);
}

static inline bool data_is(const struct sc_csv *csv, size_t row, const char *column,
			   const char *text)
{
	return strcmp(data_cell(csv, row, column), text) == 0;
}

static inline void data_release(struct torchrec_data *d)
{
	sc_shard_problem_release(&d->problem);
	sc_arena_release(&d->arena);
}

static inline void data_build(const struct sc_torchrec_topology *topology,
			      const struct sc_table_list *tables, struct sc_arena *arena,
			      struct sc_shard_problem *out)
{
	struct sc_err err = {.code = SC_OK};

	if (sc_torchrec_problem(topology, tables, arena, out, &err) == 0)
		return;
	fprintf(stderr, "%s\n", err.text);
	exit(EXIT_FAILURE);
}

/* Only the listed options: those that the optima are of. */
static inline void data_instance(struct torchrec_data *d, const char *name)
{
	struct sc_torchrec_topology *t = &d->topology;
	struct sc_csv csv;

	*d = (struct torchrec_data){0};
	sc_arena_init(&d->arena, 1 << 16);
	data_load(TORCHREC_DATA "torchrec_reference_tables.csv", &d->arena, &csv);
	d->tables.at = sc_arena_calloc(&d->arena, csv.n_rows, sizeof(*d->tables.at));
	sc_torchrec_topology_init(t);
	for (size_t row = 0; row < csv.n_rows; row++) {
		if (!data_is(&csv, row, "instance", name))
			continue;
		t->world = (uint32_t)data_number(&csv, row, "world_size");
		t->ranks_per_host = (uint32_t)data_number(&csv, row, "local_world_size");
		t->batch_per_rank = data_number(&csv, row, "batch_per_rank");
		t->hbm_cap_bytes = data_number(&csv, row, "hbm_gib") * SC_BYTES_PER_GIB;
		d->tables.at[d->tables.n++] = (struct sc_table){
			.name = data_cell(&csv, row, "table"),
			.rows = (int64_t)data_number(&csv, row, "rows"),
			.dim = (int64_t)data_number(&csv, row, "dim"),
			.pooling = data_number(&csv, row, "pooling_factor"),
			.dtype = data_is(&csv, row, "dtype", "fp16") ? SC_FP16 : SC_FP32,
			.count = 1,
			.features = 1,
		};
	}
	data_build(t, &d->tables, &d->arena, &d->problem);
	d->problem.column_cost = NULL;
}

/* The cost of a method in measured_torchrec_vs_optimum.csv. */
static inline double data_recorded(const struct sc_csv *csv, const char *instance,
				   const char *method)
{
	for (size_t row = 0; row < csv->n_rows; row++) {
		if (data_is(csv, row, "instance", instance) && data_is(csv, row, "method", method))
			return data_number(csv, row, "max_rank_cost_ms_torchrec_model");
	}
	fprintf(stderr, "%s has no %s of %s\n", csv->file, method, instance);
	exit(EXIT_FAILURE);
}

static inline bool data_column_cost(const void *ctx, uint32_t table, enum sc_tier tier,
				    int64_t cols, struct sc_option_shard *out)
{
	const struct torchrec_columns *columns = ctx;

	return tier == SC_TIER_HBM && columns[table].cost(columns[table].ctx, 0, tier, cols, out);
}

/* What the printout says of a table; several features as one of all their lookups and outputs. */
static inline void data_production_table(struct torchrec_data *d, const struct sc_csv *csv,
					 size_t row)
{
	const char *fqn = data_cell(csv, row, "fqn");
	bool wide = strstr(fqn, ".position_ebc.") || strstr(fqn, ".score_ebc.");
	double *poolings = sc_arena_alloc(&d->arena, sizeof(*poolings));
	struct sc_table *t = &d->tables.at[d->tables.n];

	*poolings = data_number(csv, row, "sum_num_poolings");
	*t = (struct sc_table){
		.name = sc_arena_printf(&d->arena, "%s:%u", fqn,
					csv->line[row]), /* one is there twice */
		.rows = (int64_t)data_number(csv, row, "hash_size"),
		.dim = (int64_t)data_number(csv, row, "emb_dim"),
		.sequence = data_is(csv, row, "output", "sequence"),
		.dtype = SC_FP16,
		.count = 1,
		.features = 1,
	};
	t->pooling = *poolings > 0 ? data_number(csv, row, "num_indices") / *poolings : 0;
	if (data_is(csv, row, "num_features", "1") && !t->sequence)
		t->pooling = data_number(csv, row, "sum_pooling_factor");
	d->topology.poolings = poolings;
	d->topology.comm_bytes = wide ? 2 : 1;
	d->topology.min_cw_dim = data_is(csv, row, "sharding", "CW")
					 ? data_number(csv, row, "cw_shard_dim")
					 : (double)t->dim;
}

/* The option that the production plan has taken, as TorchRec's formulas cost it. */
static inline void data_production_option(struct torchrec_data *d, enum sc_shard_type type)
{
	uint32_t index = (uint32_t)d->tables.n++;
	struct sc_table_list one = {&d->tables.at[index], 1, 0};
	struct sc_shard_problem *p = &d->problem, own;

	data_build(&d->topology, &one, &d->arena, &own);
	d->columns[index] = (struct torchrec_columns){own.column_cost, own.column_ctx};
	SC_VEC_PUSH(&p->first_option, (uint32_t)p->options.n);
	for (size_t o = 0; o < own.options.n; o++) {
		struct sc_option option = own.options.at[o];
		const struct sc_option_shard *shards = &own.shards.at[option.first_shard];

		if (option.type != type || option.tier != SC_TIER_HBM)
			continue;
		option.table = index;
		option.first_shard = (uint32_t)p->shards.n;
		for (uint32_t i = 0; i < option.n_shards; i++)
			SC_VEC_PUSH(&p->shards, shards[i]);
		SC_VEC_PUSH(&p->options, option);
	}
	sc_shard_problem_release(&own);
}

/* 1,935 tables on 96 ranks, each sharded as it was (row-wise or in those slices); `split`: columns
 * may be cut otherwise. */
static inline void data_production(struct torchrec_data *d, bool split)
{
	struct sc_csv csv;

	*d = (struct torchrec_data){0};
	sc_arena_init(&d->arena, 1 << 16);
	data_load(TORCHREC_DATA "torchrec_prod_plan_1935_tables.csv", &d->arena, &csv);
	d->tables.at = sc_arena_calloc(&d->arena, csv.n_rows, sizeof(*d->tables.at));
	d->columns = sc_arena_calloc(&d->arena, csv.n_rows, sizeof(*d->columns));
	sc_torchrec_topology_init(&d->topology);
	d->topology.world = 96;
	d->topology.ranks_per_host = 8;
	d->topology.batch_per_rank = 2560;
	d->topology.outputs_min_pooling = false; /* older than that rule */
	for (size_t row = 0; row < csv.n_rows; row++) {
		data_production_table(d, &csv, row);
		data_production_option(d, data_is(&csv, row, "sharding", "RW") ? SC_ROW_WISE
									       : SC_COLUMN_WISE);
	}
	SC_VEC_PUSH(&d->problem.first_option, (uint32_t)d->problem.options.n);
	d->problem.n_tables = d->tables.n;
	d->problem.tables = d->tables.at;
	d->problem.world = d->topology.world;
	d->problem.ranks_per_host = d->topology.ranks_per_host;
	d->problem.hbm_bytes = 184 * SC_BYTES_PER_GIB; /* as the printout says */
	d->problem.column_cost = split ? data_column_cost : NULL;
	d->problem.column_ctx = d->columns;
	d->problem.min_cols = 4;
}
