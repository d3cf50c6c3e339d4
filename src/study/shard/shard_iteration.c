/* The options of each table under the iteration objective: a shard costs what its kernels and
 * exchanges add to its rank's step. The sum is a proxy; whole steps are simulated later
 * (shard_step.c). */
#include "study/shard/shard_iteration.h"

#include <math.h>
#include <string.h>

#include "base/units.h"
#include "models/collective/collective_files.h"
#include "models/op_model.h"
#include "predict/dlrm/dlrm.h"
#include "study/shard/shard_solve_priv.h"

/* Only tables of at most so many bytes may be replicated: beyond, their gradients' all-reduce never
 * pays. */
#define MAX_REPLICA_BYTES (256 * SC_BYTES_PER_MIB)
enum { MIN_COLS = 16, MAX_SLICES = 64 };

struct sc_iteration_costs {
	const struct sc_request *request;
	const struct sc_device *device;
	struct sc_table_list tables;
	struct sc_fabric fabric;
	uint32_t world, per_host;
	/* Column slices costed so far, by memory and width (slice_of); zero where not yet. */
	struct sc_option_shard **slices;
	struct sc_arena *arena;
	bool hbm_alone; /* all tables fit in HBM, so no other memory is looked at */
	bool *named;    /* except for tables that a constraint names */
	bool ssd;       /* nodes have SSD for tables */
	struct sc_exchange_rates rates;
	struct sc_row_memo *rows; /* the problem's */
};

/* The time of one more byte in a collective that moves much. */
static double ms_per_byte(const struct sc_iteration_costs *x, enum sc_collective kind,
			  struct sc_span span)
{
	const double bytes = 64 * SC_BYTES_PER_MIB;
	struct sc_collective_shape shape = {kind, bytes, SC_FP16};
	struct sc_cost cost;

	if (span.n_ranks <= 1)
		return 0;
	cost = sc_collective_cost(&x->fabric, &shape, &span, NULL);
	return cost.work_us / bytes / SC_US_PER_MS;
}

static void find_rates(const struct sc_iteration_costs *x, struct sc_exchange_rates *out)
{
	int world = (int)x->world, host = (int)x->per_host, node = x->fabric.gpus_per_node;
	int n_hosts = (world + host - 1) / host;
	struct sc_span all = {world, (world + node - 1) / node, world < node ? world : node};
	struct sc_span in_host = {host, 1, host}, one_a_host = {n_hosts, n_hosts, 1};
	bool summed = x->request->software.dlrm.partial_sums;

	*out = (struct sc_exchange_rates){
		.partial_sums = summed,
		.by_node = summed && n_hosts > 1,
		.a2a = ms_per_byte(x, SC_ALL_TO_ALL, all),
		.scatter = ms_per_byte(x, SC_REDUCE_SCATTER, all),
		.host_scatter = ms_per_byte(x, SC_REDUCE_SCATTER, in_host),
		.reduce = ms_per_byte(x, SC_ALL_REDUCE, all),
	};
	if (out->by_node) {
		out->host_scatter = ms_per_byte(x, SC_ALL_TO_ALL, in_host);
		out->a2a = ms_per_byte(x, SC_ALL_TO_ALL, one_a_host);
	}
}

/* Times the kernels without their start-up: forward with the prefetch of cached rows, and the
 * update. */
static void time_kernels(const struct sc_iteration_costs *x, const struct sc_embedding_use *use,
			 struct sc_option_shard *out)
{
	struct sc_embedding_shape shapes[SC_N_EMBEDDING_PASSES];

	sc_embedding_shapes_of(x->device, use, 1, shapes);
	for (int pass = 0; pass < SC_N_EMBEDDING_PASSES; pass++) {
		struct sc_op op = {.kind = SC_OP_EMBEDDING, .dtype = use->dtype};
		struct sc_op_time time;
		double ms;

		op.u.embedding = shapes[pass];
		if (!(op.u.embedding.lookups > 0) && !(op.u.embedding.host_bytes > 0))
			continue;
		sc_op_model_get(SC_OP_EMBEDDING)->time(x->device, &op, &time);
		ms = (time.total_us - time.fixed_us) / x->request->software.dlrm.embedding_eff /
		     SC_US_PER_MS;
		*(pass == SC_EMBEDDING_BACKWARD ? &out->backward_ms : &out->forward_ms) += ms;
	}
}

/* Forward and backward move the same bytes; within a node, sums may be added up before they leave
 * it. */
static double exchange_ms(const struct sc_iteration_costs *x, const struct sc_table *t,
			  enum sc_shard_type type, const struct sc_option_shard *shard)
{
	const struct sc_exchange_rates *rates = &x->rates;
	struct sc_dlrm_sends sends = sc_dlrm_sends_of(t, type, rates->partial_sums, x->per_host);
	double ms_per_byte = sends.to_all * rates->a2a + sends.all_sum * rates->scatter +
			     sends.host_sum * rates->host_scatter;

	if (rates->by_node)
		ms_per_byte = rates->host_scatter + rates->a2a / (double)x->per_host;
	return (type == SC_DATA_PARALLEL ? 0 : 2 * shard->vector_bytes * ms_per_byte) +
	       shard->reduce_bytes * rates->reduce;
}

/* Adds the copies of hot rows: their memory, the kernels for a rank's samples, what the rank pulls
 * or reduces. */
static void add_hot(const struct sc_iteration_costs *x, const struct sc_table *t,
		    const struct sc_table_placement *p, struct sc_option_shard *out)
{
	const struct sc_embedding_use use = sc_dlrm_hot_use(x->request, t, p, x->rows);
	const struct sc_dlrm_hot_bytes moved = sc_dlrm_hot_bytes_of(x->request, t, p, x->rows);

	out->hbm_bytes += (double)p->hot_rows * ((double)t->dim * sc_dtype_bytes(t->dtype) +
						 sc_row_state_bytes(use.optimizer, (double)t->dim));
	out->vector_bytes += moved.pulled;
	out->reduce_bytes += moved.reduced;
	time_kernels(x, &use, out);
}

static void cost_shard(const struct sc_iteration_costs *x, const struct sc_table_placement *p,
		       const struct sc_shard *shard, struct sc_option_shard *out)
{
	const struct sc_table *t = &x->tables.at[shard->table];
	struct sc_embedding_use use;
	double bytes;

	use = sc_dlrm_shard_use(x->request, t, p, shard, x->rows);
	bytes = (double)shard->rows * ((double)shard->cols * sc_dtype_bytes(t->dtype) +
				       sc_row_state_bytes(use.optimizer, (double)shard->cols));
	*out = (struct sc_option_shard){
		.row_offset = shard->row_offset,
		.col_offset = shard->col_offset,
		.rows = shard->rows,
		.cols = shard->cols,
		.hbm_bytes = p->tier == SC_TIER_HBM      ? bytes
			     : p->tier == SC_TIER_CACHED ? bytes * p->cache_frac
							 : 0,
		.host_bytes = p->tier == SC_TIER_HBM || p->tier == SC_TIER_SSD ? 0 : bytes,
		.ssd_bytes = p->tier == SC_TIER_SSD ? bytes : 0,
		.vector_bytes = sc_dlrm_vector_bytes(x->request, p, &use),
		.reduce_bytes =
			p->type == SC_DATA_PARALLEL
				? (double)t->rows * (double)shard->cols * sc_dtype_bytes(SC_FP32)
				: 0,
	};
	time_kernels(x, &use, out);
	if (p->hot_rows)
		add_hot(x, t, p, out);
	out->comms = exchange_ms(x, t, p->type, out);
	out->cost = out->forward_ms + out->backward_ms + out->comms;
}

static bool shard_cost(const void *ctx, uint32_t table, const struct sc_table_placement *p,
		       const struct sc_shard *shard, struct sc_option_shard *out)
{
	struct sc_shard own = *shard;

	own.table = table;
	if ((own.rows <= 0 && !p->hot_rows) || own.cols <= 0)
		*out = (struct sc_option_shard){.row_offset = own.row_offset, .cols = own.cols};
	else
		cost_shard(ctx, p, &own, out);
	return true;
}

/* Searches ask for widths that are multiples of this, unless a table's is none. */
static int64_t width_step(const struct sc_table *t)
{
	return t->dim % SC_WIDTH_STEP ? 1 : SC_WIDTH_STEP;
}

static struct sc_option_shard *slices_of(const struct sc_iteration_costs *x, uint32_t table)
{
	const struct sc_table *t = &x->tables.at[table];

	if (!x->slices[table])
		x->slices[table] =
			sc_arena_calloc(x->arena, SC_N_TIERS * (size_t)(t->dim / width_step(t) + 1),
					sizeof(**x->slices));
	return x->slices[table];
}

static bool column_cost(const void *ctx, uint32_t table, enum sc_tier tier, int64_t cols,
			struct sc_option_shard *out)
{
	const struct sc_iteration_costs *x = ctx;
	const struct sc_table *t = &x->tables.at[table];
	struct sc_table_placement p = {.type = SC_COLUMN_WISE,
				       .tier = tier,
				       .cache_frac =
					       tier == SC_TIER_CACHED ? SC_UVM_CACHE_FRAC : 0};
	struct sc_shard shard = {.table = table, .rows = t->rows, .cols = cols};
	const int64_t step = width_step(t);
	struct sc_option_shard *known = NULL;

	if (cols < SC_WIDTH_STEP || cols > t->dim)
		return false;
	if (cols % step == 0)
		known = slices_of(x, table) + tier * (t->dim / step + 1) + cols / step;
	if (known && known->cols == cols) {
		*out = *known;
		return true;
	}
	cost_shard(x, &p, &shard, out);
	if (known)
		*known = *out;
	return true;
}

static void cost_of_option(const void *ctx, const struct sc_option *option,
			   struct sc_option_shard *s)
{
	const struct sc_table_placement p = {.type = option->type,
					     .tier = option->tier,
					     .cache_frac = option->cache_frac,
					     .hot_rows = option->hot_rows};
	const struct sc_shard shard = {.table = option->table,
				       .row_offset = s->row_offset,
				       .col_offset = s->col_offset,
				       .rows = s->rows,
				       .cols = s->cols};

	cost_shard(ctx, &p, &shard, s);
}

static void add_tier_options(const struct sc_option_maker *maker, uint32_t table, enum sc_tier tier)
{
	const struct sc_iteration_costs *x = maker->ctx;
	const struct sc_table *t = &x->tables.at[table];
	struct sc_option o = {.table = table, .tier = tier, .spread = SC_SPREAD_FREE};

	o.cache_frac = tier == SC_TIER_CACHED ? SC_UVM_CACHE_FRAC : 0;
	o.type = SC_TABLE_WISE;
	sc_option_add(maker, &o, 1, t->dim);
	o.type = SC_COLUMN_WISE;
	for (uint32_t n = 2; n <= x->world && n <= MAX_SLICES; n *= 2)
		if (t->dim % (4 * n) == 0 && t->dim / n >= MIN_COLS)
			sc_option_add(maker, &o, 1, t->dim / n);
	o.type = SC_ROW_WISE;
	for (uint32_t n = 2; x->rates.partial_sums && n < x->world && n <= MAX_SLICES; n *= 2)
		if (t->rows >= (int64_t)n * n)
			sc_option_add(maker, &o, n, t->dim);
	o.spread = SC_SPREAD_UNIFORM;
	if (x->world > 1 && t->rows >= x->world)
		sc_option_add(maker, &o, x->world, t->dim);
	o.type = SC_TABLE_ROW_WISE;
	o.spread = SC_SPREAD_HOST;
	if (x->per_host > 1 && x->world > x->per_host && t->rows >= x->per_host)
		sc_option_add(maker, &o, x->per_host, t->dim);
}

/* All rows are dealt out, and the most frequent of them are on every rank, by three frequencies
 * around HugeCTR's own. */
static void add_hot_options(const struct sc_option_maker *maker, uint32_t table)
{
	static const double times[] = {4, 1, 0.25};
	const struct sc_iteration_costs *x = maker->ctx;
	const struct sc_table *t = &x->tables.at[table];
	const struct sc_hybrid_opts opts = {(double)x->request->config.training.global_batch,
					    x->world, x->per_host};
	struct sc_option o = {
		.table = table, .type = SC_ROW_WISE, .spread = SC_SPREAD_UNIFORM, .hot_rows = 0};

	if (!x->rates.partial_sums || x->world < 2 || !sc_hybrid_takes(t) ||
	    x->request->config.training.optimizer != SC_OPT_SGD)
		return;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		const int64_t hot = sc_hybrid_hot_rows(&opts, t, times[i]);

		if (hot <= o.hot_rows)
			continue;
		o.hot_rows = hot;
		sc_option_add(maker, &o, x->world, t->dim);
	}
}

static void add_table_options(const struct sc_iteration_costs *x, struct sc_shard_problem *problem,
			      uint32_t table)
{
	const struct sc_table *t = &x->tables.at[table];
	double bytes = (double)t->rows * (double)t->dim * sc_dtype_bytes(SC_FP32);
	const struct sc_option replicas = {
		.table = table, .type = SC_DATA_PARALLEL, .spread = SC_SPREAD_UNIFORM};
	const struct sc_option_maker maker = {problem, cost_of_option, x};

	SC_VEC_PUSH(&problem->first_option, (uint32_t)problem->options.n);
	if (x->world > 1 && bytes <= MAX_REPLICA_BYTES)
		sc_option_add(&maker, &replicas, 1, t->dim);
	for (int tier = SC_TIER_HBM; tier < SC_N_TIERS; tier++)
		if (tier == SC_TIER_HBM ||
		    ((!x->hbm_alone || x->named[table]) && (tier != SC_TIER_SSD || x->ssd)))
			add_tier_options(&maker, table, (enum sc_tier)tier);
	add_hot_options(&maker, table);
}

/* Two tables cost the same in every option. Copies of one (`count`) share the lists of their reuse.
 */
static bool same_table(const struct sc_table *a, const struct sc_table *b)
{
	return a->rows == b->rows && a->dim == b->dim && a->features == b->features &&
	       fabs(a->pooling - b->pooling) <= 0 && a->dtype == b->dtype &&
	       a->weighted == b->weighted && a->sequence == b->sequence &&
	       a->reuse.kind == b->reuse.kind && fabs(a->reuse.zipf - b->reuse.zipf) <= 0 &&
	       a->reuse.row_bins.at == b->reuse.row_bins.at &&
	       a->reuse.cached_frac.at == b->reuse.cached_frac.at;
}

/* Repeats the options of the table before. */
static void copy_table(struct sc_shard_problem *problem, uint32_t table)
{
	size_t first = problem->first_option.at[table - 1], n = problem->options.n;

	SC_VEC_PUSH(&problem->first_option, (uint32_t)n);
	for (size_t i = first; i < n; i++) {
		struct sc_option option = problem->options.at[i];
		uint32_t from = option.first_shard;

		option.table = table;
		option.first_shard = (uint32_t)problem->shards.n;
		for (uint32_t s = 0; s < option.n_shards; s++) {
			struct sc_option_shard shard = problem->shards.at[from + s];

			SC_VEC_PUSH(&problem->shards, shard);
		}
		SC_VEC_PUSH(&problem->options, option);
	}
}

/* This share of GPU memory is kept for vectors, indices and activations of a batch, and for the
 * dense part: MLPs seldom need more. */
#define RESERVE_FRAC 0.1

double sc_shard_table_budget(const struct sc_request *req, const struct sc_device *device)
{
	const struct sc_sharding_plan *given = &req->config.sharding;
	const struct sc_software *sw = &req->software;
	double kept_frac = given->hbm_reserve_frac >= 0 ? given->hbm_reserve_frac : RESERVE_FRAC;

	if (given->hbm_gib > 0)
		return fmin(given->hbm_gib, device->hbm_gib) * SC_BYTES_PER_GIB;
	return fmax(0, (device->hbm_gib * (1 - kept_frac) - sw->reserve_gib) * SC_BYTES_PER_GIB);
}

static void set_ranks(const struct sc_request *req, struct sc_arena *arena,
		      struct sc_shard_problem *out)
{
	double *speed = sc_arena_alloc(arena, out->world * sizeof(*speed));
	double *hbm = sc_arena_alloc(arena, out->world * sizeof(*hbm));
	bool alike = true;

	for (uint32_t r = 0; r < out->world; r++) {
		const struct sc_device *device = sc_request_device(req, sc_dlrm_rank_kind(req, r));

		speed[r] = device->hbm_gbps / req->device.hbm_gbps / sc_dlrm_rank_slowdown(req, r);
		hbm[r] = sc_shard_table_budget(req, device);
		alike = alike && fabs(speed[r] - 1) < 1e-12 && fabs(hbm[r] - hbm[0]) < 1;
	}
	out->hbm_bytes = hbm[0];
	if (!alike) {
		out->rank_speed = speed;
		out->rank_hbm_bytes = hbm;
	}
}

/* Uneven tables leave some memory unused, so the total must fit with room to spare. */
#define FULL_FRAC 0.8

static bool fits_hbm(const struct sc_iteration_costs *x, struct sc_shard_problem *problem)
{
	double have = 0, need = 0;

	for (uint32_t r = 0; r < problem->world; r++)
		have += sc_rank_budget(problem, r);
	for (uint32_t i = 0; i < x->tables.n; i++) {
		const struct sc_table *t = &x->tables.at[i];
		struct sc_table_placement p = {.type = SC_TABLE_WISE};
		struct sc_shard shard = {.table = i, .rows = t->rows, .cols = t->dim};
		struct sc_embedding_use use;

		use = sc_dlrm_shard_use(x->request, t, &p, &shard, x->rows);
		need += (double)t->rows * ((double)t->dim * sc_dtype_bytes(t->dtype) +
					   sc_row_state_bytes(use.optimizer, (double)t->dim));
	}
	problem->hold_bytes = need / FULL_FRAC / problem->world;
	return need <= FULL_FRAC * have;
}

int sc_iteration_problem(const struct sc_request *request, struct sc_arena *arena,
			 struct sc_shard_problem *out, struct sc_err *err)
{
	const struct sc_shard_problem given = *out;
	struct sc_iteration_costs *x = sc_arena_calloc(arena, 1, sizeof(*x));
	double hosts;
	int rc = sc_fabric_from_request(request, &x->fabric, err);

	if (rc == 0)
		rc = sc_collective_files_load(request, arena, &x->fabric, err);
	if (rc)
		return rc;
	x->request = request;
	x->device = &request->device;
	x->world = (uint32_t)request->config.gpus;
	x->per_host = sc_dlrm_ranks_together(request);
	hosts = fmax(1, (double)x->per_host / (double)request->config.cluster.gpus_per_node);
	sc_dlrm_tables(request, arena, &x->tables);
	x->arena = arena;
	x->slices = sc_arena_calloc(arena, x->tables.n, sizeof(struct sc_option_shard *));
	find_rates(x, &x->rates);
	memset(out, 0, sizeof(*out));
	out->constraints = given.constraints;
	out->n_constraints = given.n_constraints;
	out->watch = given.watch;
	out->n_tables = x->tables.n;
	out->tables = x->tables.at;
	out->world = x->world;
	out->ranks_per_host = x->per_host;
	out->host_bytes = hosts * request->config.cluster.host_memory_gib * SC_BYTES_PER_GIB;
	out->ssd_bytes = hosts * fmax(0, request->config.cluster.ssd_gib) * SC_BYTES_PER_GIB;
	x->ssd = out->ssd_bytes > 0;
	out->min_cols = MIN_COLS;
	out->column_cost = column_cost;
	out->shard_cost = shard_cost;
	out->column_ctx = x;
	out->rates = &x->rates;
	x->rows = out->rows = sc_row_memo_create();
	set_ranks(request, arena, out);
	x->hbm_alone = fits_hbm(x, out);
	x->named = sc_arena_calloc(arena, x->tables.n + 1, sizeof(*x->named));
	for (size_t i = 0; i < out->n_constraints; i++)
		x->named[out->constraints[i].table] |= out->constraints[i].tier >= 0;
	for (uint32_t t = 0; t < x->tables.n; t++) {
		if (sc_search_is_ended(out->watch))
			return sc_search_no_plan(err);
		if (t && x->named[t - 1] == x->named[t] &&
		    same_table(&x->tables.at[t - 1], &x->tables.at[t])) {
			copy_table(out, t);
			x->slices[t] = slices_of(x, t - 1);
		} else {
			add_table_options(x, out, t);
		}
	}
	SC_VEC_PUSH(&out->first_option, (uint32_t)out->options.n);
	return 0;
}

const struct sc_request *sc_ranking_request(const struct sc_request *request,
					    struct sc_arena *arena)
{
	struct sc_request *out;

	if (request->config.dlrm.host_sample_us >= 0 ||
	    !(request->software.dlrm.host_sample_us > 0))
		return request;
	out = sc_arena_alloc(arena, sizeof(*out));
	*out = *request;
	out->software.host_step_us = out->software.host_op_us = 0;
	out->software.comm_host_us = out->software.dlrm.host_sample_us = 0;
	out->device.host.launch_us = 0;
	return out;
}

int sc_iteration_rate(struct sc_predictor *predictor, const struct sc_request *request,
		      const struct sc_shard_plan *plan, struct sc_prediction *out,
		      struct sc_err *err)
{
	struct sc_predict_opts opts;

	sc_predict_opts_init(&opts);
	opts.plan = plan;
	opts.brief = true;
	return sc_predict(predictor, request, &opts, out, err);
}
