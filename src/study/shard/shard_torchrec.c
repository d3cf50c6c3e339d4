/* The options that TorchRec's planner has for a table (planner/enumerators.py,
 * distributed/sharding_plan.py of meta-pytorch/torchrec 376cac6a), as a sharding problem, with the
 * costs that its estimators give them. */
#include <assert.h>
#include <math.h>

#include "base/units.h"
#include "core/graph/op.h"
#include "study/shard/shard_solve_priv.h"

/* TorchRec estimates a shard's times and bytes in planner/estimator/estimator.py and
 * planner/shard_estimators.py (meta-pytorch/torchrec 376cac6a). The estimates are repeated here, so
 * that its plans are rated as it rates them, however well they describe a GPU. */

/* The constants are those of planner/constants.py. */
static const double INDEX_BYTES = 8;       /* BIGINT_DTYPE */
static const double BWD_COMPUTE = 2;       /* BWD_COMPUTE_MULTIPLIER */
static const double WEIGHTED_BWD = 1.1;    /* WEIGHTED_KERNEL_MULTIPLIER */
static const double BATCHED_COPY = 2.455;  /* BATCHED_COPY_PERF_FACTOR */
static const double DP_ELEMENTWISE = 9.22; /* DP_ELEMENTWISE_KERNELS_PERF_FACTOR */
static const double FULL_BLOCK_COLS = 128, HALF_BLOCK_COLS = 64, MIN_LOOKUP_COLS = 32;
static const double HALF_BLOCK_PENALTY = 1.15, QUARTER_BLOCK_PENALTY = 1.75;
static const double DENSE_KERNEL = 0.5; /* share of HBM's rate */
static const double UVM_SLOWDOWN = 10;  /* of kernels that go through unified memory */
/* The bytes of a row, and of a row of the cache, of _calculate_cache_aux_state_sizes. */
static const double CACHE_ROW_BYTES = 4, CACHE_SLOT_BYTES = 16;

/* The elements that a shard looks up and puts out in a batch. */
struct flow {
	double lookups, outputs;       /* of the table, for one rank's samples */
	double indices, rows;          /* of the shard, for all it serves */
	double table_bytes, out_bytes; /* of an element */
	double world, local, hosts;
};

static bool by_rows(enum sc_shard_type type)
{
	return type == SC_ROW_WISE || type == SC_TABLE_ROW_WISE;
}

/* The number of ranks that share the lookups of a column. */
static double row_ranks(const struct flow *flow, enum sc_shard_type type)
{
	if (type == SC_ROW_WISE)
		return flow->world;
	return type == SC_TABLE_ROW_WISE ? flow->local : 1;
}

/* Operations are in TorchRec's order, so that what it rounds up to whole bytes is the same here. */
static struct flow find_flow(const struct sc_torchrec_ask *ask)
{
	const struct sc_torchrec_topology *t = ask->topology;
	const struct sc_table *table = ask->table;
	double samples = (double)table->features * ask->poolings * t->batch_per_rank, spread;
	struct flow flow = {
		.lookups = table->pooling * samples,
		.outputs = samples,
		.table_bytes = sc_dtype_bytes(table->dtype),
		.out_bytes = t->comm_bytes > 0 ? t->comm_bytes : sc_dtype_bytes(table->dtype),
		.world = t->world,
		.local = t->ranks_per_host,
		.hosts = (double)t->world / t->ranks_per_host,
	};

	if (table->sequence)
		flow.outputs = flow.lookups;
	else if (t->outputs_min_pooling)
		flow.outputs = fmin(1, table->pooling) * samples;
	flow.indices = flow.lookups;
	flow.rows = flow.outputs;
	if (ask->type == SC_DATA_PARALLEL)
		return flow;
	spread = row_ranks(&flow, ask->type);
	flow.indices = flow.lookups / spread * flow.world;
	flow.rows = (table->sequence ? flow.outputs / spread : flow.outputs) * flow.world;
	return flow;
}

/* The rate of a lookup kernel (kernel_bw_lookup). */
static double kernel_bw(const struct sc_torchrec_ask *ask)
{
	const struct sc_torchrec_topology *t = ask->topology;
	double cached = t->uvm_cache_frac;

	if (ask->type == SC_DATA_PARALLEL)
		return DENSE_KERNEL * t->hbm_bw;
	switch (ask->tier) {
	case SC_TIER_UVM:
		return t->hbm_ddr_bw / UVM_SLOWDOWN;
	case SC_TIER_CACHED:
		return (cached * t->hbm_bw + (1 - cached) * t->hbm_ddr_bw) / UVM_SLOWDOWN;
	case SC_TIER_SSD:
		return t->ssd_bw;
	case SC_TIER_HBM:
	case SC_N_TIERS:
		break;
	}
	return t->hbm_bw;
}

/* The slowdown of kernels for whole rows of few columns (compute_block_usage_penalty). */
static double block_penalty(double cols)
{
	if (cols >= FULL_BLOCK_COLS)
		return 1;
	return cols >= HALF_BLOCK_COLS ? HALF_BLOCK_PENALTY : QUARTER_BLOCK_PENALTY;
}

static double fwd_compute_ms(const struct sc_torchrec_ask *ask, const struct flow *flow,
			     double cols)
{
	bool replica = ask->type == SC_DATA_PARALLEL, whole_rows = !replica && !by_rows(ask->type);
	double input = ceil(flow->indices * INDEX_BYTES) * (ask->table->weighted ? 2 : 1);
	double lookup_cols = whole_rows ? fmax(cols, MIN_LOOKUP_COLS) : cols;
	double lookup = flow->indices * lookup_cols * flow->table_bytes;
	double output = flow->rows * cols * (replica ? flow->table_bytes : flow->out_bytes);

	return (input + lookup + output) * (whole_rows ? block_penalty(cols) : 1) / kernel_bw(ask);
}

/* All-to-all, reduce-scatter and all-gather have one rate, that of the slowest link between any two
 * ranks; there is no latency, and what stays on a rank counts as if it left. */
static double world_bw(const struct sc_torchrec_topology *t)
{
	return t->world <= t->ranks_per_host ? t->intra_bw : t->inter_bw;
}

/* DataParallelEvaluator has a ring over at most two nodes, doubled for more, and then the
 * gradient's elementwise kernels. The rate is the network's even where there is none. */
static double all_reduce_ms(const struct sc_torchrec_ask *ask, const struct flow *flow,
			    const struct sc_option_shard *shard)
{
	const struct sc_torchrec_topology *t = ask->topology;
	double bytes = (double)shard->rows * (double)shard->cols * flow->table_bytes;
	double nodes = fmin(flow->hosts, 2);
	double ms = bytes * (2 * nodes - 1) / nodes / (t->inter_bw * flow->local);

	if (t->world > 2 * t->ranks_per_host)
		ms *= 2;
	return ms + bytes * DP_ELEMENTWISE / kernel_bw(ask);
}

static void find_comms(const struct sc_torchrec_ask *ask, const struct flow *flow,
		       const struct sc_option_shard *shard, struct sc_torchrec_perf *perf)
{
	const struct sc_torchrec_topology *t = ask->topology;
	double cols = (double)shard->cols, bytes = flow->rows * cols * flow->out_bytes;

	if (ask->type == SC_DATA_PARALLEL) {
		perf->bwd_comms = all_reduce_ms(ask, flow, shard);
		return;
	}
	perf->fwd_comms = bytes / world_bw(t);
	if (ask->type == SC_TABLE_ROW_WISE) {
		perf->fwd_comms = bytes / t->intra_bw;
		if (flow->hosts > 1)
			perf->fwd_comms +=
				flow->outputs * flow->hosts * cols * flow->out_bytes / t->inter_bw;
	}
	perf->bwd_comms = perf->fwd_comms;
	if (by_rows(ask->type))
		perf->bwd_comms += bytes * BATCHED_COPY / kernel_bw(ask);
	perf->input_dist = ceil(flow->lookups * flow->world * INDEX_BYTES) / world_bw(t);
}

/* The miss rate of an LRU cache with that share of the rows, between the points given. */
static double miss_frac(const struct sc_reuse *reuse, double cached)
{
	const double *x = reuse->cached_frac.at, *y = reuse->miss_frac.at;
	size_t n = reuse->cached_frac.n, i = 0;

	if (n == 0 || reuse->miss_frac.n != n)
		return 0;
	while (i < n && x[i] < cached)
		i++;
	if (i == 0 || i == n)
		return i == 0 ? y[0] : y[n - 1];
	return y[i - 1] + (y[i] - y[i - 1]) * (cached - x[i - 1]) / (x[i] - x[i - 1]);
}

/* The rows that the cache must fetch. TorchRec counts them only for a table that came with a
 * miss-ratio curve and its distinct rows in a batch; without the latter, each lookup is one, up to
 * the table's rows. */
static double prefetch_ms(const struct sc_torchrec_ask *ask, const struct flow *flow, double cols)
{
	const struct sc_reuse *reuse = &ask->table->reuse;
	double rows = fmin(flow->lookups * flow->world, (double)ask->table->rows);

	if (ask->tier != SC_TIER_CACHED || reuse->kind != SC_REUSE_MRC)
		return 0;
	if (reuse->n_unique > 0)
		rows = reuse->n_unique;
	return miss_frac(reuse, ask->topology->uvm_cache_frac) * rows / row_ranks(flow, ask->type) *
	       cols * flow->table_bytes / ask->topology->hbm_ddr_bw;
}

/* The optimizer's elements for each of the table's (_get_optimizer_multipler). */
static double optimizer_factor(enum sc_optimizer_state state, int64_t dim)
{
	static const double factors[] = {
		[SC_STATE_NONE] = 0, [SC_STATE_SAME] = 1, [SC_STATE_TWICE] = 2};

	return state == SC_STATE_ROW ? 1 / (double)dim : factors[state];
}

/* A shard's part of `whole_bytes`, with the optimizer's (_calculate_storage_specific_sizes). */
static double held_bytes(const struct sc_torchrec_ask *ask, const struct sc_option_shard *shard,
			 double whole_bytes)
{
	double elements = (double)ask->table->rows * (double)ask->table->dim;
	double bytes = ceil(whole_bytes * ((double)shard->rows * (double)shard->cols) / elements);

	if (ask->type == SC_DATA_PARALLEL)
		bytes = whole_bytes;
	return bytes + ceil(bytes * optimizer_factor(ask->topology->optimizer, ask->table->dim));
}

static void set_storage(const struct sc_torchrec_ask *ask, const struct flow *flow,
			struct sc_option_shard *shard)
{
	double cached = ask->topology->uvm_cache_frac;
	double whole = sc_table_bytes(ask->table);
	double aux = ceil((double)shard->rows * (CACHE_ROW_BYTES + cached * CACHE_SLOT_BYTES));

	/* The pipeline costs are those of calculate_pipeline_io_cost without a pipeline; a shard
	 * without rows has neither inputs nor outputs. */
	shard->hbm_bytes =
		shard->rows ? ceil(flow->indices * INDEX_BYTES) +
				      ceil(flow->rows * (double)shard->cols * flow->out_bytes)
			    : 0;
	shard->host_bytes = shard->ssd_bytes = 0;
	switch (ask->tier) {
	case SC_TIER_CACHED:
		shard->hbm_bytes += held_bytes(ask, shard, rint(whole * cached)) + aux;
		shard->host_bytes = held_bytes(ask, shard, whole);
		break;
	case SC_TIER_UVM:
		shard->host_bytes = held_bytes(ask, shard, whole);
		break;
	case SC_TIER_SSD:
		shard->ssd_bytes = held_bytes(ask, shard, whole) + aux;
		break;
	case SC_TIER_HBM:
	case SC_N_TIERS:
		shard->hbm_bytes += held_bytes(ask, shard, whole);
		break;
	}
}

void sc_torchrec_cost(const struct sc_torchrec_ask *ask, struct sc_option_shard *shard,
		      struct sc_torchrec_perf *perf)
{
	struct flow flow = find_flow(ask);
	struct sc_torchrec_perf own = {
		.fwd_compute = fwd_compute_ms(ask, &flow, (double)shard->cols),
		.prefetch = prefetch_ms(ask, &flow, (double)shard->cols),
	};

	own.bwd_compute = BWD_COMPUTE * own.fwd_compute;
	if (ask->table->weighted)
		own.bwd_compute += WEIGHTED_BWD * own.fwd_compute;
	find_comms(ask, &flow, shard, &own);
	shard->forward_ms = own.fwd_compute;
	shard->backward_ms = own.bwd_compute;
	shard->comms = own.fwd_comms + own.bwd_comms;
	shard->prefetch_ms = own.prefetch;
	shard->cost =
		own.fwd_compute + own.bwd_compute + own.fwd_comms + own.bwd_comms + own.prefetch;
	set_storage(ask, &flow, shard);
	if (perf)
		*perf = own;
}

/* The units are those of planner/constants.py. */
/* in bytes per ms, as TorchRec has them */
static const double GIB_PER_S = SC_BYTES_PER_GIB / SC_MS_PER_S;
static const double MIB_PER_S = SC_BYTES_PER_MIB / SC_MS_PER_S;
enum { NARROWEST_COLS = 4, MAX_SHARDS = 1 << 28 };

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

struct costs {
	struct sc_torchrec_topology topology;
	const struct sc_table *tables;
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

/* The width of the column slices: all have min_cw_dim but the last. */
static int64_t slice_cols(const struct sc_torchrec_topology *topology, const struct sc_table *table)
{
	int64_t least = (int64_t)topology->min_cw_dim;

	return least < table->dim ? least : table->dim;
}

static void cost_shard(const void *ctx, const struct sc_option *option,
		       struct sc_option_shard *shard)
{
	(void)option;
	sc_torchrec_cost(ctx, shard, NULL);
}

/* Options come in the planner's order, which decides between options that cost the same. */
static void push_table(const struct costs *x, struct sc_shard_problem *problem, uint32_t table)
{
	const struct sc_torchrec_topology *t = &x->topology;
	const int64_t dim = x->tables[table].dim, slice = slice_cols(t, &x->tables[table]);
	const struct {
		enum sc_shard_type type;
		enum sc_spread spread;
		uint32_t n_rows;
		int64_t cols;
	} kinds[] = {
		{SC_DATA_PARALLEL, SC_SPREAD_UNIFORM, 1, dim},
		{SC_TABLE_WISE, SC_SPREAD_FREE, 1, dim},
		{SC_COLUMN_WISE, SC_SPREAD_FREE, 1, slice},
		{SC_TABLE_COLUMN_WISE, SC_SPREAD_ON_HOST, 1, slice},
		{SC_ROW_WISE, SC_SPREAD_UNIFORM, t->world, dim},
		{SC_TABLE_ROW_WISE, SC_SPREAD_HOST, t->ranks_per_host, dim},
	};
	static const enum sc_tier tiers[] = {SC_TIER_UVM, SC_TIER_HBM, SC_TIER_CACHED, SC_TIER_SSD};
	struct sc_torchrec_ask ask = make_ask(t, &x->tables[table], table);
	const struct sc_option_maker maker = {problem, cost_shard, &ask};

	SC_VEC_PUSH(&problem->first_option, (uint32_t)problem->options.n);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		for (size_t k = 0; k < sizeof(tiers) / sizeof(tiers[0]); k++) {
			const struct sc_option option = {
				.table = table,
				.type = kinds[i].type,
				.tier = tiers[k],
				.cache_frac = tiers[k] == SC_TIER_CACHED ? t->uvm_cache_frac : 0,
				.spread = kinds[i].spread,
			};

			if ((option.type == SC_DATA_PARALLEL && option.tier != SC_TIER_HBM) ||
			    (option.tier == SC_TIER_SSD && !t->ssd))
				continue;
			ask.type = option.type;
			ask.tier = option.tier;
			sc_option_add(&maker, &option, kinds[i].n_rows, kinds[i].cols);
		}
	}
}

/* FBGEMM's kernels read four elements at a time. */
static bool column_cost(const void *ctx, uint32_t table, enum sc_tier tier, int64_t cols,
			struct sc_option_shard *out)
{
	const struct costs *x = ctx;
	const struct sc_table *of = &x->tables[table];
	struct sc_torchrec_ask ask = make_ask(&x->topology, of, table);

	if (cols <= 0 || cols > of->dim || (cols % NARROWEST_COLS != 0 && cols != of->dim))
		return false;
	if (tier == SC_TIER_SSD && !x->topology.ssd)
		return false;
	ask.type = SC_COLUMN_WISE;
	ask.tier = tier;
	*out = (struct sc_option_shard){.rows = of->rows, .cols = cols};
	sc_torchrec_cost(&ask, out, NULL);
	return true;
}

static int check_size(const struct sc_torchrec_topology *topology,
		      const struct sc_table_list *tables, struct sc_err *err)
{
	double tiers = topology->ssd ? 4 : 3, n_shards = 0;

	for (size_t i = 0; i < tables->n; i++) {
		const struct sc_table *table = &tables->at[i];
		int64_t cols = slice_cols(topology, table),
			n_slices = (table->dim + cols - 1) / cols;

		assert(table->count == 1);
		n_shards += topology->world + tiers * (1 + 2.0 * (double)n_slices +
						       topology->world + topology->ranks_per_host);
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
	struct costs *x;
	int rc = check_size(topology, tables, err);

	if (rc)
		return rc;
	x = sc_arena_alloc(arena, sizeof(*x));
	*x = (struct costs){*topology, tables->at};
	problem.world = topology->world;
	problem.ranks_per_host = topology->ranks_per_host;
	problem.column_cost = column_cost;
	problem.column_ctx = x;
	problem.min_cols = NARROWEST_COLS;
	problem.hbm_bytes = floor((1 - topology->reserved_frac) * topology->hbm_cap_bytes);
	problem.host_bytes = topology->ddr_cap_bytes * topology->ranks_per_host;
	problem.ssd_bytes = topology->ssd_cap_bytes * topology->ranks_per_host;
	for (size_t i = 0; i < tables->n; i++)
		push_table(x, &problem, (uint32_t)i);
	SC_VEC_PUSH(&problem.first_option, (uint32_t)problem.options.n);
	*out = problem;
	return 0;
}
