/* The options TorchRec's planner has for a table (planner/enumerators.py, distributed/sharding_plan.py of
 * meta-pytorch/torchrec 376cac6a), as a sharding problem. What they cost: shard_torchrec_costs.c. */
#include <assert.h>
#include <math.h>

#include "base/units.h"
#include "study/shard/shard_torchrec_priv.h"

/* planner/constants.py */
static const double GIB_PER_S = SC_BYTES_PER_GIB / SC_MS_PER_S; /* in bytes per ms, as there */
static const double MIB_PER_S = SC_BYTES_PER_MIB / SC_MS_PER_S;
enum { NARROWEST_COLS = 4, MAX_WORLD = 1 << 20, MAX_SHARDS = 1 << 28 };

void sc_torchrec_topology_init(struct sc_torchrec_topology *topology)
{
	*topology = (struct sc_torchrec_topology){
		.world = 1,
		.ranks_per_host = 1,
		.batch_per_rank = 512,
		.hbm_cap_bytes = 32 * SC_BYTES_PER_GIB,
		.ddr_cap_bytes = 128 * SC_BYTES_PER_GIB,
		.ssd_cap_bytes = 2 * SC_BYTES_PER_KIB * SC_BYTES_PER_GIB,
		.hbm_bw = 897 * GIB_PER_S,
		.ddr_bw = 51 * GIB_PER_S,
		.hbm_ddr_bw = 32 * GIB_PER_S,
		.ssd_bw = 100 * MIB_PER_S,
		.intra_bw = 600 * GIB_PER_S,
		.inter_bw = 12.5 * GIB_PER_S,
		.uvm_cache_frac = 0.2,
		.min_cw_dim = 128,
		.reserved_frac = 0.15, /* HeuristicalStorageReservation */
		.optimizer = SC_STATE_NONE,
		.outputs_min_pooling = true,
	};
}

struct builder {
	const struct sc_torchrec_topology *topology;
	const struct sc_table_list *tables;
	struct sc_shard_problem *problem;
};

static struct sc_torchrec_ask make_ask(const struct sc_torchrec_topology *topology,
				       const struct sc_table *table, uint32_t index)
{
	return (struct sc_torchrec_ask){
		.topology = topology,
		.table = table,
		.poolings = topology->poolings ? topology->poolings[index] : 1,
	};
}

/* Widths of the column slices: all of min_cw_dim but the last. */
static int64_t slice_cols(const struct sc_torchrec_topology *topology, const struct sc_table *table)
{
	int64_t least = (int64_t)topology->min_cw_dim;

	return least < table->dim ? least : table->dim;
}

static uint32_t n_slices(const struct sc_torchrec_topology *topology, const struct sc_table *table)
{
	int64_t cols = slice_cols(topology, table);

	return (uint32_t)((table->dim + cols - 1) / cols);
}

/* Row slices of a type: 1, over the world, or over a host. */
static uint32_t n_row_slices(const struct sc_torchrec_topology *topology, enum sc_shard_type type)
{
	if (type == SC_ROW_WISE)
		return topology->world;
	return type == SC_TABLE_ROW_WISE || type == SC_GRID ? topology->ranks_per_host : 1;
}

static enum sc_spread spread_of(const struct sc_torchrec_ask *ask)
{
	switch (ask->type) {
	case SC_DATA_PARALLEL:
	case SC_ROW_WISE:
		return SC_SPREAD_UNIFORM;
	case SC_TABLE_ROW_WISE:
		return SC_SPREAD_HOST;
	case SC_TABLE_COLUMN_WISE:
		return SC_SPREAD_ON_HOST;
	case SC_GRID:
		return n_slices(ask->topology, ask->table) == 1 ? SC_SPREAD_HOST
								: SC_SPREAD_UNIFORM;
	case SC_TABLE_WISE:
	case SC_COLUMN_WISE:
	case SC_N_SHARD_TYPES:
		break;
	}
	return SC_SPREAD_FREE;
}

static void cost_shard(const void *ctx, const struct sc_option *option,
		       struct sc_option_shard *shard)
{
	(void)option;
	sc_torchrec_cost(ctx, shard, NULL);
}

static void push_option(const struct builder *b, const struct sc_torchrec_ask *ask, uint32_t table)
{
	const struct sc_option option = {
		.table = table,
		.type = ask->type,
		.tier = ask->tier,
		.cache_frac = ask->tier == SC_TIER_CACHED ? b->topology->uvm_cache_frac : 0,
		.spread = spread_of(ask),
	};
	const struct sc_option_maker maker = {b->problem, cost_shard, ask};

	sc_option_add(&maker, &option, n_row_slices(b->topology, ask->type),
		      (ask->type == SC_COLUMN_WISE || ask->type == SC_TABLE_COLUMN_WISE ||
		       ask->type == SC_GRID)
			      ? slice_cols(b->topology, ask->table)
			      : ask->table->dim);
}

/* Can its slices lie as a spread says? */
static bool has_grid(const struct sc_torchrec_topology *t, const struct sc_table *table)
{
	uint32_t slices = n_slices(t, table);

	return t->grid && (slices == 1 || slices == t->world / t->ranks_per_host);
}

/* In the planner's order, which decides between options that cost the same. */
static void push_table(const struct builder *b, uint32_t index)
{
	static const enum sc_shard_type types[] = {SC_TABLE_WISE,        SC_COLUMN_WISE,
						   SC_TABLE_COLUMN_WISE, SC_ROW_WISE,
						   SC_TABLE_ROW_WISE,    SC_GRID};
	static const enum sc_tier tiers[] = {SC_TIER_UVM, SC_TIER_HBM, SC_TIER_CACHED, SC_TIER_SSD};
	const struct sc_table *table = &b->tables->at[index];
	struct sc_torchrec_ask ask = make_ask(b->topology, table, index);

	SC_VEC_PUSH(&b->problem->first_option, (uint32_t)b->problem->options.n);
	ask.type = SC_DATA_PARALLEL;
	ask.tier = SC_TIER_HBM;
	push_option(b, &ask, index);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		ask.type = types[i];
		if (ask.type == SC_GRID && !has_grid(b->topology, table))
			continue;
		for (size_t k = 0; k < sizeof(tiers) / sizeof(tiers[0]); k++) {
			ask.tier = tiers[k];
			if (ask.tier != SC_TIER_SSD || (b->topology->ssd && ask.type != SC_GRID))
				push_option(b, &ask, index);
		}
	}
}

struct column_ctx {
	struct sc_torchrec_topology topology;
	const struct sc_table *tables;
};

/* FBGEMM's kernels read four elements at a time. */
static bool column_cost(const void *ctx, uint32_t table, enum sc_tier tier, int64_t cols,
			struct sc_option_shard *out)
{
	const struct column_ctx *column = ctx;
	const struct sc_table *of = &column->tables[table];
	struct sc_torchrec_ask ask = make_ask(&column->topology, of, table);

	if (cols <= 0 || cols > of->dim || (cols % NARROWEST_COLS != 0 && cols != of->dim))
		return false;
	if (tier == SC_TIER_SSD && !column->topology.ssd)
		return false;
	ask.type = SC_COLUMN_WISE;
	ask.tier = tier;
	*out = (struct sc_option_shard){.rows = of->rows, .cols = cols};
	sc_torchrec_cost(&ask, out, NULL);
	return true;
}

static int check_positive(const char *name, double value, struct sc_err *err)
{
	if (value > 0 && isfinite(value))
		return 0;
	return sc_err_set(err, SC_EVALUE, "%s must be greater than 0, is %g", name, value);
}

static int check_share(const char *name, double value, struct sc_err *err)
{
	if (value >= 0 && value < 1)
		return 0;
	return sc_err_set(err, SC_EVALUE, "%s must be from 0 to below 1, is %g", name, value);
}

static int check_topology(const struct sc_torchrec_topology *t, struct sc_err *err)
{
	const struct {
		const char *name;
		double value;
	} positive[] = {
		{"batch of a rank", t->batch_per_rank},
		{"HBM bytes", t->hbm_cap_bytes},
		{"HBM rate", t->hbm_bw},
		{"host memory rate", t->ddr_bw},
		{"HBM to host rate", t->hbm_ddr_bw},
		{"SSD rate", t->ssd_bw},
		{"rate inside a host", t->intra_bw},
		{"rate between hosts", t->inter_bw},
		{"width of a column slice", floor(t->min_cw_dim)},
	};
	int rc;

	if (t->world < 1 || t->world > MAX_WORLD || t->ranks_per_host < 1 ||
	    t->world % t->ranks_per_host != 0)
		return sc_err_set(
			err, SC_EVALUE,
			"%u ranks cannot be hosts of %u; give a multiple of it, at most %d",
			t->world, t->ranks_per_host, MAX_WORLD);
	for (size_t i = 0; i < sizeof(positive) / sizeof(positive[0]); i++) {
		rc = check_positive(positive[i].name, positive[i].value, err);
		if (rc)
			return rc;
	}
	rc = check_share("share of HBM kept free", t->reserved_frac, err);
	return rc ? rc : check_share("cached share of a table's rows", t->uvm_cache_frac, err);
}

static double count_shards(const struct sc_torchrec_topology *t, const struct sc_table *table)
{
	double tiers = t->ssd ? 4 : 3, slices = n_slices(t, table);

	return t->world + tiers * (1 + 2 * slices + t->world + t->ranks_per_host) +
	       (has_grid(t, table) ? tiers * slices * t->ranks_per_host : 0);
}

static int check_tables(const struct sc_torchrec_topology *topology,
			const struct sc_table_list *tables, struct sc_err *err)
{
	double n_shards = 0;

	for (size_t i = 0; i < tables->n; i++) {
		const struct sc_table *table = &tables->at[i];

		assert(table->count == 1);
		if (table->rows < 1 || table->dim < 1 || table->features < 1 ||
		    !(table->pooling >= 0 && isfinite(table->pooling)))
			return sc_err_set(err, SC_EVALUE,
					  "table %.64s: rows, dim and features must be at least 1 "
					  "and pooling 0 or more",
					  table->name);
		if (topology->poolings &&
		    !(topology->poolings[i] >= 0 && isfinite(topology->poolings[i])))
			return sc_err_set(err, SC_EVALUE, "table %.64s: poolings must be 0 or more",
					  table->name);
		n_shards += count_shards(topology, table);
	}
	if (n_shards > MAX_SHARDS)
		return sc_err_set(err, SC_ELIMIT,
				  "%zu tables on %u ranks have %.0f shards to choose from; at most "
				  "%d are handled",
				  tables->n, topology->world, n_shards, MAX_SHARDS);
	return 0;
}

int sc_torchrec_problem(const struct sc_torchrec_topology *topology,
			const struct sc_table_list *tables, struct sc_arena *arena,
			struct sc_shard_problem *out, struct sc_err *err)
{
	struct sc_shard_problem problem = {.n_tables = tables->n, .tables = tables->at};
	struct builder builder = {topology, tables, &problem};
	struct column_ctx *column;
	int rc = check_topology(topology, err);

	if (rc == 0)
		rc = check_tables(topology, tables, err);
	if (rc)
		return rc;
	column = sc_arena_alloc(arena, sizeof(*column));
	*column = (struct column_ctx){*topology, tables->at};
	problem.world = topology->world;
	problem.ranks_per_host = topology->ranks_per_host;
	problem.column_cost = column_cost;
	problem.column_ctx = column;
	problem.min_cols = NARROWEST_COLS;
	problem.hbm_bytes = floor((1 - topology->reserved_frac) * topology->hbm_cap_bytes);
	problem.host_bytes = topology->ddr_cap_bytes * topology->ranks_per_host;
	problem.ssd_bytes = topology->ssd_cap_bytes * topology->ranks_per_host;
	for (size_t i = 0; i < tables->n; i++)
		push_table(&builder, (uint32_t)i);
	SC_VEC_PUSH(&problem.first_option, (uint32_t)problem.options.n);
	*out = problem;
	return 0;
}
