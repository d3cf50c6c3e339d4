/* TorchRec's estimates of a shard: its times and its bytes, as in planner/estimator/estimator.py and
 * planner/shard_estimators.py (meta-pytorch/torchrec 376cac6a), so that its plans are rated as it rates
 * them. It knows nothing of how well they describe a GPU. */
#include <math.h>

#include "core/graph/op.h"
#include "study/shard/shard_torchrec_priv.h"

/* planner/constants.py */
static const double INDEX_BYTES = 8;       /* BIGINT_DTYPE */
static const double BWD_COMPUTE = 2;       /* BWD_COMPUTE_MULTIPLIER */
static const double WEIGHTED_BWD = 1.1;    /* WEIGHTED_KERNEL_MULTIPLIER */
static const double BATCHED_COPY = 2.455;  /* BATCHED_COPY_PERF_FACTOR */
static const double DP_ELEMENTWISE = 9.22; /* DP_ELEMENTWISE_KERNELS_PERF_FACTOR */
static const double FULL_BLOCK_COLS = 128, HALF_BLOCK_COLS = 64, MIN_LOOKUP_COLS = 32;
static const double HALF_BLOCK_PENALTY = 1.15, QUARTER_BLOCK_PENALTY = 1.75;
static const double DENSE_KERNEL = 0.5; /* share of HBM's rate */
static const double UVM_SLOWDOWN = 10;  /* of kernels that go through unified memory */
/* calculate_pipeline_io_cost: inputs that are alive at once, and those a prefetch adds */
static const double TRAIN_INPUTS = 2, PREFETCH_INPUTS = 3, PREFETCH_BURST = 7;
/* _calculate_cache_aux_state_sizes: bytes of a row, and of a row of the cache */
static const double CACHE_ROW_BYTES = 4, CACHE_SLOT_BYTES = 16;

/* What a shard looks up and puts out in a batch. */
struct flow {
	double lookups, outputs;       /* of the table, for one rank's samples */
	double indices, rows;          /* of the shard, for all it serves */
	double table_bytes, out_bytes; /* of an element */
	double world, local, hosts;
};

static bool by_rows_of_host(enum sc_shard_type type)
{
	return type == SC_TABLE_ROW_WISE || type == SC_GRID;
}

static bool by_rows(enum sc_shard_type type)
{
	return type == SC_ROW_WISE || by_rows_of_host(type);
}

/* How many ranks share the lookups of a column. */
static double row_ranks(const struct flow *flow, enum sc_shard_type type)
{
	if (type == SC_ROW_WISE)
		return flow->world;
	return by_rows_of_host(type) ? flow->local : 1;
}

/* In TorchRec's order of operations, so that what it rounds up to whole bytes is the same here. */
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

/* kernel_bw_lookup */
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
		if (t->prefetch)
			return t->hbm_bw;
		return (cached * t->hbm_bw + (1 - cached) * t->hbm_ddr_bw) / UVM_SLOWDOWN;
	case SC_TIER_SSD:
		return t->ssd_bw;
	case SC_TIER_HBM:
	case SC_N_TIERS:
		break;
	}
	return t->hbm_bw;
}

/* compute_block_usage_penalty: of the kernels for whole rows of few columns */
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

/* One rate for all-to-all, reduce-scatter and all-gather, that of the slowest link between any two
 * ranks; no latency, and what stays on a rank counts as if it left. */
static double world_bw(const struct sc_torchrec_topology *t)
{
	return t->world <= t->ranks_per_host ? t->intra_bw : t->inter_bw;
}

/* DataParallelEvaluator: a ring over at most two nodes, doubled for more; then the gradient's elementwise
 * kernels. The rate is the network's even where there is none. */
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
	if (by_rows_of_host(ask->type)) {
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

/* Of an LRU cache with that share of the rows, between the points given. */
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

/* Rows that the cache must fetch. TorchRec counts them only for a table that came with a miss-ratio curve
 * and its distinct rows in a batch; without the latter, each lookup is one, up to the table's rows. */
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

/* _get_optimizer_multipler */
static double optimizer_factor(enum sc_optimizer_state state, int64_t dim)
{
	switch (state) {
	case SC_STATE_ROW:
		return 1 / (double)dim;
	case SC_STATE_SAME:
		return 1;
	case SC_STATE_TWICE:
		return 2;
	case SC_STATE_NONE:
		break;
	}
	return 0;
}

/* _calculate_storage_specific_sizes: a shard's part of `whole_bytes`, with the optimizer's */
static double held_bytes(const struct sc_torchrec_ask *ask, const struct sc_option_shard *shard,
			 double whole_bytes)
{
	double elements = (double)ask->table->rows * (double)ask->table->dim;
	double bytes = ceil(whole_bytes * ((double)shard->rows * (double)shard->cols) / elements);

	if (ask->type == SC_DATA_PARALLEL)
		bytes = whole_bytes;
	return bytes + ceil(bytes * optimizer_factor(ask->topology->optimizer, ask->table->dim));
}

/* calculate_pipeline_io_cost; a shard without rows has neither inputs nor outputs */
static double io_bytes(const struct sc_torchrec_ask *ask, const struct sc_option_shard *shard)
{
	const struct sc_torchrec_topology *t = ask->topology;
	bool cached = ask->tier == SC_TIER_CACHED || ask->tier == SC_TIER_SSD;
	struct flow flow = find_flow(ask);
	double input = ceil(flow.indices * INDEX_BYTES);

	if (shard->rows == 0)
		return 0;
	if (t->prefetch)
		return PREFETCH_INPUTS * input + (cached ? PREFETCH_BURST * input : 0);
	if (t->train_pipeline)
		return TRAIN_INPUTS * input;
	return input + ceil(flow.rows * (double)shard->cols * flow.out_bytes);
}

static void set_storage(const struct sc_torchrec_ask *ask, struct sc_option_shard *shard)
{
	const struct sc_table *table = ask->table;
	double cached = ask->topology->uvm_cache_frac;
	double whole = (double)table->rows * (double)table->dim * sc_dtype_bytes(table->dtype);
	double aux = ceil((double)shard->rows * (CACHE_ROW_BYTES + cached * CACHE_SLOT_BYTES));

	shard->hbm_bytes = io_bytes(ask, shard);
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
	set_storage(ask, shard);
	if (perf)
		*perf = own;
}
