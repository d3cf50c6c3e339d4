/* Prepares a DLRM request for building: a sharding plan becomes what each rank looks up, sends and
 * stores; ranks with like work are folded into classes, whose blocks are costed. */
#include "predict/dlrm/dlrm.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/fnv.h"
#include "models/collective/collective_files.h"
#include "models/row_reuse.h"

enum { INDEX_BYTES = 8, WEIGHT_BYTES = 4 };
/* Pooled vectors are copied this often for TorchRec's all-to-all, on average of both ways
 * (dist_data.py, comm_ops.py: _all_to_all_pooled): forward for it and into rows after it; backward
 * they are cut, put in the order of ranks, and divided by their number. */
#define POOLED_COPIES 2.5
#define NO_SHARE 1e-9 /* a share of lookups as good as none */

/* Vectors are in fp16 where they are kept in less than fp32; a sequence's are as its tables are
 * (DlrmHSTU, which casts its layers alone). */
static double dlrm_output_elem_bytes(const struct sc_request *req)
{
	const enum sc_dtype kept = sc_storage_dtype(req->config.training.precision);

	if (req->config.model.hstu.layers > 0)
		return sc_dtype_bytes(SC_FP32);
	return sc_dtype_bytes(sc_dtype_bytes(kept) < sc_dtype_bytes(SC_FP32) ? SC_FP16 : SC_FP32);
}

double sc_table_outputs(const struct sc_table *table)
{
	double features = (double)table->features;

	return table->sequence ? features * table->pooling : features;
}

void sc_dlrm_tables(const struct sc_request *req, struct sc_arena *arena, struct sc_table_list *out)
{
	const struct sc_model *model = &req->config.model;

	sc_tables_expand(model->tables.at, model->tables.n, arena, out);
	out->world = (uint32_t)req->config.gpus;
	for (size_t i = 0; i < out->n; i++)
		out->at[i].dtype =
			out->at[i].storage ? (enum sc_dtype)(out->at[i].storage - 1) : SC_FP32;
}

/* Rows are stepped by plain SGD, or not at all, under any other optimizer. */
static const enum sc_row_optimizer ROW_OPTIMIZERS[SC_OPT_KFAC + 1] = {
	[SC_OPT_ADAM] = SC_ROW_ADAM,
	[SC_OPT_ADAGRAD] = SC_ROW_ADAGRAD,
	[SC_OPT_ROWWISE_ADAGRAD] = SC_ROW_ROWWISE_ADAGRAD,
	[SC_OPT_ATOMIC_SGD] = SC_ROW_ATOMIC_SGD,
};

/* Returns the lookups of so many samples. */
static double table_lookups(const struct sc_table *table, double samples)
{
	return samples * (double)table->features * table->pooling;
}

static double samples_of_rank(const struct sc_request *request)
{
	return ceil((double)request->config.training.global_batch /
		    (double)request->config.parallel.dp);
}

static double hot_fact(const struct sc_table *table, const struct sc_table_placement *p,
		       struct sc_row_memo *memo, enum sc_row_fact fact, double lookups)
{
	const struct sc_row_question q = {fact, (double)table->rows, lookups, (double)p->hot_rows};

	return sc_row_fact(memo, &table->reuse, &q);
}

/* Returns the share of bags that contain any of the rows with so large a share of the lookups. */
static double bag_frac(const struct sc_table *table, double share)
{
	if (table->sequence || table->pooling <= 1)
		return share;
	return -expm1(table->pooling * log1p(-fmin(share, 1 - 1e-12)));
}

/* HugeCTR's hybrid embedding has no other step than SGD, by atomic additions
 * (frequent_embedding.cu). */
static enum sc_row_optimizer hot_optimizer(const struct sc_request *request)
{
	const enum sc_row_optimizer own = ROW_OPTIMIZERS[request->config.training.optimizer];

	return own == SC_ROW_SGD ? SC_ROW_ATOMIC_SGD : own;
}

/* Leaves a shard the rows that are not hot, where every rank has the hot ones: fewer lookups, of
 * rows that are dealt out by their frequency, so that no slice has more than others. */
static void leave_out_hot(struct sc_embedding_use *use, const struct sc_request *request,
			  const struct sc_table_placement *p)
{
	const struct sc_table *table = use->table;
	double lookups = table_lookups(table, use->samples), cold;
	const struct sc_row_question all = {SC_ROWS_UNIQUE, (double)table->rows, lookups, 0};

	if (!(lookups > 0))
		return;
	cold = 1 - hot_fact(table, p, use->memo, SC_ROWS_TOP_SHARE, 0);
	if (cold < NO_SHARE) {
		use->samples = 0;
		return;
	}
	use->skew = cold;
	use->output_frac = bag_frac(table, cold * use->row_frac);
	use->unique_rows = sc_row_fact(use->memo, &table->reuse, &all) -
			   hot_fact(table, p, use->memo, SC_ROWS_TOP_UNIQUE, lookups);
	use->unique_rows = fmax(use->unique_rows * use->row_frac, NO_SHARE);
	use->longest_run = fmax(1, lookups * hot_fact(table, p, use->memo, SC_ROWS_TOP_NEXT, 0));
	use->optimizer = hot_optimizer(request);
}

struct sc_embedding_use sc_dlrm_hot_use(const struct sc_request *request,
					const struct sc_table *table,
					const struct sc_table_placement *placement,
					struct sc_row_memo *memo)
{
	const double samples = samples_of_rank(request), lookups = table_lookups(table, samples);
	const double share = hot_fact(table, placement, memo, SC_ROWS_TOP_SHARE, 0);

	return (struct sc_embedding_use){
		.table = table,
		.samples = samples,
		.cols = (double)table->dim,
		.row_frac = 1,
		.skew = share,
		.output_frac = bag_frac(table, share),
		.unique_rows = hot_fact(table, placement, memo, SC_ROWS_TOP_UNIQUE, lookups),
		.tier = SC_TIER_HBM,
		.dtype = table->dtype,
		.output_bytes = dlrm_output_elem_bytes(request),
		.optimizer = hot_optimizer(request),
		.kernel = request->software.dlrm.embedding_kernel,
		.memo = memo,
	};
}

struct sc_dlrm_hot_bytes sc_dlrm_hot_bytes_of(const struct sc_request *request,
					      const struct sc_table *table,
					      const struct sc_table_placement *placement,
					      struct sc_row_memo *memo)
{
	const double row_bytes = (double)table->dim * dlrm_output_elem_bytes(request);
	const double lookups = table_lookups(table, samples_of_rank(request));

	if (!placement->hot_rows)
		return (struct sc_dlrm_hot_bytes){0};
	if (request->config.gpus > sc_node_gpus_of(request))
		return (struct sc_dlrm_hot_bytes){.reduced =
							  (double)placement->hot_rows * row_bytes};
	return (struct sc_dlrm_hot_bytes){
		.pulled =
			row_bytes * hot_fact(table, placement, memo, SC_ROWS_TOP_UNIQUE, lookups)};
}

double sc_dlrm_sent_frac(const struct sc_table *table, const struct sc_table_placement *placement,
			 double row_frac, struct sc_row_memo *memo)
{
	if (!placement->hot_rows)
		return 1;
	return bag_frac(table,
			row_frac * (1 - hot_fact(table, placement, memo, SC_ROWS_TOP_SHARE, 0)));
}

struct sc_embedding_use sc_dlrm_shard_use(const struct sc_request *request,
					  const struct sc_table *table,
					  const struct sc_table_placement *placement,
					  const struct sc_shard *shard, struct sc_row_memo *memo)
{
	double row_frac = (double)shard->rows / (double)table->rows;

	struct sc_embedding_use out = {
		.table = table,
		.memo = memo,
		.samples = (double)request->config.training.global_batch,
		.cols = (double)shard->cols,
		.row_frac = row_frac,
		.skew = 1,
		.tier = placement->tier,
		.cache_frac = placement->cache_frac,
		.dtype = table->dtype,
		.output_bytes = dlrm_output_elem_bytes(request),
		.optimizer = ROW_OPTIMIZERS[request->config.training.optimizer],
		.kernel = request->software.dlrm.embedding_kernel,
	};
	if (placement->type == SC_DATA_PARALLEL)
		out.samples = samples_of_rank(request);
	else if (shard->rows == 0) /* there are more slices than rows: this one has none */
		out.samples = 0;
	else if (placement->hot_rows)
		leave_out_hot(&out, request, placement);
	/* By convention the most popular row is in the first slice. */
	else if (shard->rows < table->rows && shard->row_offset == 0)
		out.skew = sc_reuse_row_skew(&table->reuse, (double)table->rows, 1 / row_frac);
	return out;
}

static void store(const struct sc_embedding_use *use, const struct sc_table_placement *p,
		  const struct sc_shard *shard, struct sc_dlrm_work *work)
{
	double bytes = (double)shard->rows * (double)shard->cols * sc_dtype_bytes(use->dtype);
	double state =
		(double)shard->rows * sc_row_state_bytes(use->optimizer, (double)shard->cols);
	double on_gpu = p->tier == SC_TIER_CACHED ? p->cache_frac : p->tier == SC_TIER_HBM;

	work->table_bytes += on_gpu * bytes;
	work->state_bytes += on_gpu * state;
	if (p->tier == SC_TIER_SSD)
		work->ssd_bytes += bytes + state;
	else if (p->tier != SC_TIER_HBM)
		work->host_bytes += bytes + state;
}

/* A slice of rows sends whole vectors where software sums what it receives; else rows of one host
 * add up their parts first. Each lookup of a sequence is a vector of its own, which one slice has
 * and sends, and nothing is added up (TorchRec's RwSequenceEmbeddingDist). */
struct sc_dlrm_sends sc_dlrm_sends_of(const struct sc_table *table, enum sc_shard_type type,
				      bool partial_sums, uint32_t ranks_per_host)
{
	const bool by_host = type == SC_TABLE_ROW_WISE || type == SC_GRID;

	if (type == SC_DATA_PARALLEL)
		return (struct sc_dlrm_sends){0};
	if (partial_sums || !(by_host || type == SC_ROW_WISE))
		return (struct sc_dlrm_sends){.to_all = 1};
	if (table->sequence)
		return (struct sc_dlrm_sends){.to_all = 1, .lookups = true};
	if (!by_host)
		return (struct sc_dlrm_sends){.all_sum = 1};
	return (struct sc_dlrm_sends){.to_all = 1 / (double)ranks_per_host, .host_sum = 1};
}

static double all_vector_bytes(const struct sc_request *req, const struct sc_table *table,
			       double cols)
{
	return (double)req->config.training.global_batch * sc_table_outputs(table) * cols *
	       dlrm_output_elem_bytes(req);
}

double sc_dlrm_vector_bytes(const struct sc_request *req,
			    const struct sc_table_placement *placement,
			    const struct sc_embedding_use *use)
{
	const struct sc_dlrm_sends sends =
		sc_dlrm_sends_of(use->table, placement->type, req->software.dlrm.partial_sums, 1);

	return all_vector_bytes(req, use->table, use->cols) *
	       (sends.lookups ? use->row_frac * use->skew
			      : sc_dlrm_sent_frac(use->table, placement, use->row_frac, use->memo));
}

uint32_t sc_dlrm_ranks_together(const struct sc_request *request)
{
	int64_t gpus = request->config.gpus, node = sc_node_gpus_of(request);

	if (!request->software.dlrm.partial_sums || (gpus > node && gpus % node))
		node = request->config.cluster.gpus_per_node;
	return (uint32_t)(node < gpus ? node : gpus);
}

struct uses {
	struct sc_embedding_use *at;
	size_t n, cap;
};
struct rank_uses {
	struct uses shards, replicas;
	SC_VEC(double)
	from; /* the shards that decide them: placement, rows, columns, has the first row */
};

static void add_shard(struct sc_dlrm *dlrm, const struct sc_table_placement *p,
		      const struct sc_shard *shard, struct rank_uses *uses,
		      struct sc_dlrm_work *work)
{
	const struct sc_table *table = &dlrm->tables.at[shard->table];
	struct sc_embedding_use use;
	double lookups;

	use = sc_dlrm_shard_use(dlrm->request, table, p, shard, dlrm->rows);
	const double from[] = {(double)(p - dlrm->plan.tables.at), (double)shard->rows,
			       (double)shard->cols, shard->row_offset == 0};

	for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++)
		SC_VEC_PUSH(&uses->from, from[i]);
	work->n_tables++;
	store(&use, p, shard, work);
	if (p->type == SC_DATA_PARALLEL) {
		SC_VEC_PUSH(&uses->replicas, use);
		return;
	}
	SC_VEC_PUSH(&uses->shards, use);
	lookups = use.samples * table->pooling * (double)table->features * use.row_frac * use.skew;
	work->index_bytes += lookups * (INDEX_BYTES + (table->weighted ? WEIGHT_BYTES : 0));
	work->output_bytes +=
		sc_dlrm_vector_bytes(dlrm->request, p, &use) *
		sc_dlrm_sends_of(table, p->type, dlrm->request->software.dlrm.partial_sums,
				 dlrm->plan.ranks_per_host)
			.to_all;
}

/* Adds the copies of hot rows, which are alike on every rank. */
static void add_hot_rows(struct sc_dlrm *dlrm, const struct sc_table_placement *p,
			 struct rank_uses *uses, struct sc_dlrm_work *ranks)
{
	const struct sc_table *table = &dlrm->tables.at[dlrm->plan.shards.at[p->first_shard].table];
	const struct sc_embedding_use use = sc_dlrm_hot_use(dlrm->request, table, p, dlrm->rows);
	const struct sc_dlrm_hot_bytes bytes =
		sc_dlrm_hot_bytes_of(dlrm->request, table, p, dlrm->rows);
	struct sc_embedding_use owned = use;

	/* A rank reads those of its own rows that any other needs, and steps them by what it pulls.
	 */
	if (bytes.pulled > 0) {
		owned.skew = use.unique_rows / table_lookups(table, use.samples);
		owned.output_frac =
			fmin(1, use.unique_rows / (use.samples * (double)table->features));
		owned.unique_rows =
			fmin(use.unique_rows, (double)p->hot_rows / (double)dlrm->plan.world);
	}
	dlrm->exchange.pulled_bytes += bytes.pulled;
	dlrm->exchange.hot_grad_bytes += bytes.reduced;
	for (uint32_t r = 0; r < dlrm->plan.world; r++) {
		SC_VEC_PUSH(&uses[r].replicas, use);
		if (bytes.pulled > 0)
			SC_VEC_PUSH(&uses[r].shards, owned);
		ranks[r].table_bytes +=
			(double)p->hot_rows * (double)table->dim * sc_dtype_bytes(table->dtype);
		ranks[r].state_bytes +=
			(double)p->hot_rows * sc_row_state_bytes(use.optimizer, (double)table->dim);
	}
}

static void find_shapes(const struct sc_device *device, const struct rank_uses *uses,
			struct sc_dlrm_work *work)
{
	struct sc_embedding_shape shapes[SC_N_EMBEDDING_PASSES];

	sc_embedding_shapes_of(device, uses->shards.at, uses->shards.n, shapes);
	work->lookup = shapes[SC_EMBEDDING_FORWARD];
	work->update = shapes[SC_EMBEDDING_BACKWARD];
	work->prefetch = shapes[SC_EMBEDDING_PREFETCH];
	sc_embedding_shapes_of(device, uses->replicas.at, uses->replicas.n, shapes);
	work->replica = shapes[SC_EMBEDDING_FORWARD];
	work->replica_grad = shapes[SC_EMBEDDING_BACKWARD];
}

/* Finds all ranks' shapes: a rank with the shards of another, of other columns, takes its shapes.
 */
static void find_all_shapes(const struct sc_dlrm *dlrm, const struct rank_uses *uses,
			    struct sc_dlrm_work *ranks)
{
	const uint32_t world = dlrm->plan.world;
	uint32_t n_slots = 16, *slot;

	while (n_slots < 2 * world)
		n_slots *= 2;
	slot = sc_arena_calloc(dlrm->arena, n_slots, sizeof(*slot)); /* rank + 1 */
	for (uint32_t r = 0; r < world; r++) {
		const struct sc_device *device =
			sc_request_device(dlrm->request, sc_dlrm_rank_kind(dlrm->request, r));
		const double *from = uses[r].from.at;
		const size_t n = uses[r].from.n;
		uint32_t at = (uint32_t)sc_fnv_words(SC_FNV_START, from, n) & (n_slots - 1), like;

		for (; (like = slot[at]) != 0; at = (at + 1) & (n_slots - 1))
			if (uses[like - 1].from.n == n &&
			    (n == 0 ||
			     memcmp(uses[like - 1].from.at, from, n * sizeof(*from)) == 0) &&
			    sc_request_device(dlrm->request,
					      sc_dlrm_rank_kind(dlrm->request, like - 1)) == device)
				break;
		if (!like || !n) {
			slot[at] = r + 1;
			find_shapes(device, &uses[r], &ranks[r]);
			continue;
		}
		ranks[r].lookup = ranks[like - 1].lookup;
		ranks[r].update = ranks[like - 1].update;
		ranks[r].prefetch = ranks[like - 1].prefetch;
		ranks[r].replica = ranks[like - 1].replica;
		ranks[r].replica_grad = ranks[like - 1].replica_grad;
	}
}

/* Adds the bytes that are reduced: partial sums of row slices, and gradients of replicas. Hosts
 * reduce theirs at the same time: the one with most of them is waited for. */
static void add_reductions(struct sc_dlrm *dlrm)
{
	uint32_t per_host = dlrm->plan.ranks_per_host;
	bool summed = dlrm->request->software.dlrm.partial_sums;
	struct sc_dlrm_exchange *x = &dlrm->exchange;
	double *of_host =
		sc_arena_calloc(dlrm->arena, dlrm->plan.world / per_host + 1, sizeof(*of_host));

	for (size_t i = 0; i < dlrm->plan.tables.n; i++) {
		const struct sc_table_placement *p = &dlrm->plan.tables.at[i];
		const struct sc_shard *shards = &dlrm->plan.shards.at[p->first_shard];
		const struct sc_table *t = &dlrm->tables.at[shards->table];
		struct sc_dlrm_sends sends = sc_dlrm_sends_of(t, p->type, summed, per_host);
		/* The endpoints of a torus take vectors where they lie. */
		const bool pooled = dlrm->request->software.dlrm.index_exchange && !t->sequence &&
				    !dlrm->fabric.torus.dims.n;

		if (dlrm->request->software.dlrm.index_exchange && p->type != SC_DATA_PARALLEL &&
		    shards->rows < t->rows)
			x->bucketed_ids += dlrm->batch * t->pooling * (double)t->features;
		if (p->type == SC_DATA_PARALLEL)
			x->replica_grad_bytes +=
				(double)t->rows * (double)t->dim * sc_dtype_bytes(SC_FP32);
		for (uint32_t s = 0; s < p->n_shards; s++) {
			double bytes = all_vector_bytes(dlrm->request, t, (double)shards[s].cols);
			double *host = &of_host[(uint32_t)shards[s].rank / per_host];

			if (shards[s].row_offset > 0) /* once for each slice of columns */
				continue;
			if (sends.lookups)
				x->ordered_bytes += bytes / (double)dlrm->plan.world;
			else if (pooled && sends.to_all >= 1)
				x->ordered_bytes +=
					POOLED_COPIES * bytes / (double)dlrm->plan.world;
			x->scatter_bytes += bytes * sends.all_sum;
			*host += bytes * sends.host_sum;
			x->host_scatter_bytes = fmax(x->host_scatter_bytes, *host);
		}
	}
}

/* Returns what a rank sends to its peers on other nodes once its node has added up its tables'
 * sums: the sums of the node with most columns, for the rank's share of the batch. */
static double node_sum_bytes(const struct sc_dlrm *dlrm)
{
	uint32_t per_host = dlrm->plan.ranks_per_host;
	uint32_t n_nodes = (dlrm->plan.world + per_host - 1) / per_host;
	double *columns = sc_arena_calloc(dlrm->arena, n_nodes, sizeof(*columns)), most = 0;
	double *row_frac = sc_arena_calloc(dlrm->arena, n_nodes, sizeof(*row_frac));
	uint32_t *seen = sc_arena_calloc(dlrm->arena, n_nodes, sizeof(*seen)); /* table + 1 */

	for (size_t i = 0; i < dlrm->plan.tables.n; i++) {
		const struct sc_table_placement *p = &dlrm->plan.tables.at[i];

		for (uint32_t s = 0; s < p->n_shards && p->type != SC_DATA_PARALLEL; s++) {
			const struct sc_shard *shard = &dlrm->plan.shards.at[p->first_shard + s];
			uint32_t node = (uint32_t)shard->rank / per_host;

			if (p->hot_rows) {
				row_frac[node] += (double)shard->rows / (double)p->rows;
				continue;
			}
			if (seen[node] == i + 1 && shard->rows < p->rows)
				continue;
			seen[node] = (uint32_t)i + 1;
			columns[node] += sc_table_outputs(&dlrm->tables.at[shard->table]) *
					 (double)shard->cols;
			most = fmax(most, columns[node]);
		}
		/* A table with hot rows adds the vectors that the node's other rows have a part in.
		 */
		for (uint32_t node = 0; p->hot_rows && node < n_nodes; node++) {
			const struct sc_table *t = &dlrm->tables.at[i];

			columns[node] += sc_table_outputs(t) * (double)t->dim *
					 sc_dlrm_sent_frac(t, p, row_frac[node], dlrm->rows);
			most = fmax(most, columns[node]);
			row_frac[node] = 0;
		}
	}
	return most * (double)dlrm->request->config.training.global_batch / per_host *
	       dlrm->output_elem_bytes;
}

/* An all-to-all takes as long as its busiest sender: no rank receives more than (n - 1) times the
 * most that another sends it (max of max, Lin et al. 2024). */
static void dlrm_work(struct sc_dlrm *dlrm, struct sc_dlrm_work *ranks)
{
	uint32_t world = dlrm->plan.world;
	struct rank_uses *uses = sc_arena_calloc(dlrm->arena, world, sizeof(*uses));
	double most_index = 0, most_sent = 0;

	memset(ranks, 0, world * sizeof(*ranks));
	if (sc_dlrm_one_rank_bottom(dlrm->request)) {
		const struct sc_ints *widths = &dlrm->request->config.model.bottom_mlp;

		ranks[0].output_bytes = (double)dlrm->request->config.training.global_batch *
					(double)widths->at[widths->n - 1] * dlrm->output_elem_bytes;
	}
	for (size_t i = 0; i < dlrm->plan.tables.n; i++) {
		const struct sc_table_placement *p = &dlrm->plan.tables.at[i];

		for (uint32_t s = 0; s < p->n_shards; s++) {
			const struct sc_shard *shard = &dlrm->plan.shards.at[p->first_shard + s];

			add_shard(dlrm, p, shard, &uses[shard->rank], &ranks[shard->rank]);
		}
		if (p->hot_rows)
			add_hot_rows(dlrm, p, uses, ranks);
	}
	find_all_shapes(dlrm, uses, ranks);
	for (uint32_t r = 0; r < world; r++) {
		most_index = fmax(most_index, ranks[r].index_bytes);
		most_sent = fmax(most_sent, ranks[r].output_bytes);
		SC_VEC_RELEASE(&uses[r].shards);
		SC_VEC_RELEASE(&uses[r].replicas);
		SC_VEC_RELEASE(&uses[r].from);
	}
	dlrm->exchange.index_bytes = most_index;
	dlrm->exchange.output_bytes = most_sent;
	if (dlrm->request->software.dlrm.partial_sums && world > dlrm->plan.ranks_per_host) {
		dlrm->exchange.host_scatter_bytes = dlrm->exchange.output_bytes;
		dlrm->exchange.output_bytes = node_sum_bytes(dlrm);
	}
	dlrm->exchange.output_bytes += dlrm->exchange.pulled_bytes;
	add_reductions(dlrm);
}

size_t sc_dlrm_rank_kind(const struct sc_request *req, uint32_t rank)
{
	const struct sc_structs *list = &req->config.cluster.nodes;
	const struct sc_gpu_nodes *nodes = list->at;
	int64_t left = rank;

	for (size_t i = 0; i < list->n; i++) {
		left -= nodes[i].count * req->config.cluster.gpus_per_node;
		if (left < 0)
			return sc_request_kind_of(req, &nodes[i]);
	}
	return 0;
}

double sc_dlrm_rank_slowdown(const struct sc_request *req, uint32_t rank)
{
	const struct sc_straggler *at = req->config.stragglers.at;

	for (size_t i = 0; i < req->config.stragglers.n; i++)
		for (size_t k = 0; k < at[i].ranks.n; k++)
			if (at[i].ranks.at[k] == (int64_t)rank)
				return at[i].slowdown;
	return 1;
}

/* A shape is so many numbers, behind its pass. */
enum {
	SHAPE_NUMBERS =
		(sizeof(struct sc_embedding_shape) - offsetof(struct sc_embedding_shape, tables)) /
		sizeof(double)
};
/* The costs of a class depend on these alone. */
struct work_key {
	double kind, bottom, slowdown, n_tables, index_bytes, tokens;
	double shapes[4][SHAPE_NUMBERS];
};

static struct work_key key_of(const struct sc_dlrm_class *cls)
{
	const struct sc_dlrm_work *w = &cls->work;
	const struct sc_embedding_shape *shapes[] = {&w->lookup, &w->update, &w->prefetch,
						     &w->replica};
	struct work_key key = {cls->kind,      cls->bottom, cls->slowdown, w->n_tables,
			       w->index_bytes, cls->tokens, {{0}}};

	for (int k = 0; k < 4; k++)
		memcpy(key.shapes[k], &shapes[k]->tables, sizeof(key.shapes[k]));
	return key;
}

static bool has_key(const struct sc_dlrm_class *cls, const struct work_key *key)
{
	const struct work_key own = key_of(cls);

	return memcmp(&own, key, sizeof(own)) == 0;
}

static void take_fuller(struct sc_dlrm_work *kept, const struct sc_dlrm_work *more)
{
	if (more->table_bytes + more->state_bytes <= kept->table_bytes + kept->state_bytes)
		return;
	kept->table_bytes = more->table_bytes;
	kept->state_bytes = more->state_bytes;
	kept->host_bytes = more->host_bytes;
	kept->ssd_bytes = more->ssd_bytes;
}

/* Goes through ranks in order; each joins the class of an earlier one with like work, or founds
 * one. */
static void fold_ranks(struct sc_dlrm *dlrm, const struct sc_dlrm_work *ranks)
{
	uint32_t world = dlrm->plan.world, n_slots = 16;
	uint32_t *slot;

	while (n_slots < 2 * world)
		n_slots *= 2;
	slot = sc_arena_calloc(dlrm->arena, n_slots, sizeof(*slot)); /* class + 1 */
	dlrm->classes = sc_arena_calloc(dlrm->arena, world, sizeof(*dlrm->classes));
	for (uint32_t r = 0; r < world; r++) {
		struct sc_dlrm_class *cls = &dlrm->classes[dlrm->n_classes];
		struct work_key key;
		uint32_t at;

		*cls = (struct sc_dlrm_class){
			.work = ranks[r],
			.representative = r,
			.multiplicity = 1,
			.kind = (uint8_t)sc_dlrm_rank_kind(dlrm->request, r),
			.bottom = r == 0 || !sc_dlrm_one_rank_bottom(dlrm->request),
			.slowdown = sc_dlrm_rank_slowdown(dlrm->request, r),
			.tokens = sc_hstu_tokens(dlrm->request, r == 0),
		};
		key = key_of(cls);
		at = (uint32_t)sc_fnv_words(SC_FNV_START, (const double *)&key,
					    sizeof(key) / sizeof(double)) &
		     (n_slots - 1);
		while (slot[at] &&
		       (dlrm->opts->unfolded || !has_key(&dlrm->classes[slot[at] - 1], &key)))
			at = (at + 1) & (n_slots - 1);
		if (slot[at]) {
			dlrm->classes[slot[at] - 1].multiplicity++;
			take_fuller(&dlrm->classes[slot[at] - 1].work, &cls->work);
		} else {
			slot[at] = (uint32_t)++dlrm->n_classes;
		}
	}
}

/* Finds the most that tables take of a node beside its GPUs. */
static void fill_nodes(struct sc_dlrm *dlrm, const struct sc_dlrm_work *ranks)
{
	double host = 0, ssd = 0;

	for (uint32_t r = 0; r < dlrm->plan.world; r++) {
		if (r % dlrm->request->config.cluster.gpus_per_node == 0)
			host = ssd = 0;
		host += ranks[r].host_bytes;
		ssd += ranks[r].ssd_bytes;
		dlrm->host_bytes = fmax(dlrm->host_bytes, host);
		dlrm->ssd_bytes = fmax(dlrm->ssd_bytes, ssd);
	}
}

/* Refuses hot rows where software does not add up parts: a vector whose bag has hot rows and others
 * is a sum of parts from several ranks. */
static int check_hot_rows(const struct sc_dlrm *dlrm, struct sc_err *err)
{
	for (size_t i = 0; i < dlrm->plan.tables.n; i++) {
		const struct sc_table_placement *t = &dlrm->plan.tables.at[i];

		if (t->hot_rows && !dlrm->request->software.dlrm.partial_sums)
			return sc_err_at(err, SC_EUNSUPPORTED, dlrm->plan.file, t->line, t->column,
					 "table \"%.64s\": hot_rows needs software that adds up "
					 "parts of vectors (dlrm.partial_sums of its profile), as "
					 "hugectr; %.40s does not",
					 t->name, dlrm->request->software.id);
	}
	return 0;
}

static int take_plan(struct sc_dlrm *dlrm, struct sc_err *err)
{
	int64_t gpus = dlrm->request->config.gpus;
	int rc;

	if (!dlrm->opts->plan)
		return sc_err_set(err, SC_EVALUE, "no sharding plan was chosen");
	dlrm->plan = *dlrm->opts->plan;
	if (!dlrm->plan.ranks_per_host) /* the plan's file does not say */
		dlrm->plan.ranks_per_host = sc_dlrm_ranks_together(dlrm->request);
	rc = sc_shard_plan_check(&dlrm->plan, err);
	if (rc == 0)
		rc = sc_shard_plan_check_tables(&dlrm->plan, &dlrm->tables, err);
	if (rc == 0)
		rc = check_hot_rows(dlrm, err);
	if (rc == 0 && (int64_t)dlrm->plan.world != gpus)
		rc = sc_err_set(err, SC_ECONFLICT,
				"the sharding plan is for %u ranks, the request has %lld GPUs",
				dlrm->plan.world, (long long)gpus);
	return rc;
}

int sc_dlrm_init(struct sc_dlrm *dlrm, const struct sc_setup *setup, struct sc_err *err)
{
	const struct sc_request *request = setup->request;
	struct sc_arena *arena = setup->scratch->arena;
	struct sc_dlrm_work *ranks;
	int rc;

	*dlrm = (struct sc_dlrm){.request = request,
				 .opts = setup->opts,
				 .arena = arena,
				 .rows = setup->scratch->rows};
	dlrm->batch = (double)request->config.training.micro_batch;
	dlrm->output_elem_bytes = dlrm_output_elem_bytes(request);
	rc = sc_fabric_from_request(request, &dlrm->fabric, err);
	if (rc == 0)
		rc = sc_collective_files_load(request, arena, &dlrm->fabric, err);
	if (rc)
		return rc;
	sc_dlrm_tables(request, arena, &dlrm->tables);
	rc = take_plan(dlrm, err);
	if (rc)
		return rc;
	ranks = sc_arena_alloc(arena, dlrm->plan.world * sizeof(*ranks));
	dlrm_work(dlrm, ranks);
	/* HugeCTR reduces the gradients of hot rows, and of the dense part with them, by a kernel
	 * of its own, which lets InfiniBand's switches add (ib_comm_ar.cu: one shot, sharp_coll).
	 */
	if (dlrm->exchange.hot_grad_bytes > 0 && strcmp(dlrm->fabric.net.kind, "infiniband") == 0)
		dlrm->fabric.sharp = true;
	fold_ranks(dlrm, ranks);
	fill_nodes(dlrm, ranks);
	sc_dlrm_dense_sizes(dlrm);
	for (size_t c = 0; c < dlrm->n_classes; c++) {
		struct sc_dlrm_class *cls = &dlrm->classes[c];

		cls->env = sc_block_env_of(request, &dlrm->fabric, dlrm->opts);
		cls->env.device = sc_request_device(request, cls->kind);
		cls->env.slowdown = cls->slowdown;
		/* Most blocks depend on the GPU, its speed and its sequences alone. */
		const struct sc_dlrm_class *like = dlrm->classes;
		const bool is_like = c > 0 && like->kind == cls->kind &&
				     like->bottom == cls->bottom &&
				     !(fabs(like->slowdown - cls->slowdown) > 0) &&
				     !(fabs(like->tokens - cls->tokens) > 0);

		for (int id = 0; id < SC_N_DLRM_BLOCKS; id++)
			if (is_like && sc_dlrm_is_dense((enum sc_dlrm_block)id))
				sc_block_copy(&like->block[id], &cls->block[id]);
			else
				sc_dlrm_dense_block(dlrm, cls, (enum sc_dlrm_block)id,
						    &cls->block[id]);
	}
	return 0;
}

void sc_dlrm_release(struct sc_dlrm *dlrm)
{
	for (size_t c = 0; c < dlrm->n_classes; c++)
		for (int id = 0; id < SC_N_DLRM_BLOCKS; id++)
			sc_block_release(&dlrm->classes[c].block[id]);
	memset(dlrm, 0, sizeof(*dlrm));
}
