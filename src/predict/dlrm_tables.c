/* From a sharding plan to what each rank looks up, sends and stores. */
#include <math.h>
#include <string.h>

#include "models/row_reuse.h"
#include "predict/dlrm.h"

enum { INDEX_BYTES = 8, WEIGHT_BYTES = 4 };

static bool is_half(const struct sc_request *req)
{
	return sc_dtype_bytes(sc_storage_dtype(req->config.training.precision)) <
	       sc_dtype_bytes(SC_FP32);
}

double sc_dlrm_output_elem_bytes(const struct sc_request *req)
{
	return sc_dtype_bytes(req->software.dlrm.half_exchange && is_half(req) ? SC_FP16 : SC_FP32);
}

double sc_table_outputs(const struct sc_table *table)
{
	double features = (double)table->features;

	return table->sequence ? features * table->pooling : features;
}

void sc_dlrm_tables(const struct sc_request *req, struct sc_arena *arena, struct sc_table_list *out)
{
	const struct sc_model *model = &req->config.model;
	bool half = req->software.dlrm.half_tables && is_half(req);

	sc_tables_expand(model->tables.at, model->tables.n, arena, out);
	for (size_t i = 0; i < out->n; i++)
		out->at[i].dtype = out->at[i].storage ? (enum sc_dtype)(out->at[i].storage - 1)
				   : half	      ? SC_FP16
						      : SC_FP32;
}

static enum sc_row_optimizer row_optimizer(const struct sc_request *req)
{
	const struct sc_dlrm_habits *habits = &req->software.dlrm;

	switch (req->config.training.optimizer) {
	case SC_OPT_ADAM:
		return SC_ROW_ADAM;
	case SC_OPT_ADAGRAD:
		return habits->row_wise_adagrad ? SC_ROW_ROWWISE_ADAGRAD : SC_ROW_ADAGRAD;
	case SC_OPT_SGD:
	case SC_OPT_NONE:
		break;
	}
	return habits->atomic_sgd ? SC_ROW_ATOMIC_SGD : SC_ROW_SGD;
}

void sc_dlrm_shard_use(const struct sc_request *req, const struct sc_table *table,
		       const struct sc_table_placement *placement, const struct sc_shard *shard,
		       struct sc_embedding_use *out)
{
	double row_frac = (double)shard->rows / (double)table->rows;

	*out = (struct sc_embedding_use){
		.table = table,
		.samples = (double)req->config.training.global_batch,
		.cols = (double)shard->cols,
		.row_frac = row_frac,
		.skew = 1,
		.tier = placement->tier,
		.cache_frac = placement->cache_frac,
		.dtype = table->dtype,
		.output_bytes = sc_dlrm_output_elem_bytes(req),
		.optimizer = row_optimizer(req),
	};
	if (placement->type == SC_DATA_PARALLEL)
		out->samples = (double)((req->config.training.global_batch +
					 req->config.parallel.dp - 1) /
					req->config.parallel.dp);
	/* the most popular row is on the first of the slices, by convention */
	else if (shard->rows < table->rows && shard->row_offset == 0)
		out->skew = sc_reuse_row_skew(&table->reuse, (double)table->rows, 1 / row_frac);
}

/* Bytes that stay on the GPU of a shard's `bytes`. */
static double hbm_share(const struct sc_table_placement *p)
{
	static const double share[SC_N_TIERS] = {[SC_TIER_HBM] = 1};

	return p->tier == SC_TIER_CACHED ? p->cache_frac : share[p->tier];
}

static void store(const struct sc_embedding_use *use, const struct sc_table_placement *p,
		  const struct sc_shard *shard, struct sc_dlrm_work *work)
{
	double bytes = (double)shard->rows * (double)shard->cols * sc_dtype_bytes(use->dtype);
	double state =
		(double)shard->rows * sc_row_state_bytes(use->optimizer, (double)shard->cols);
	double on_gpu = hbm_share(p);

	work->table_bytes += on_gpu * bytes;
	work->state_bytes += on_gpu * state;
	if (p->tier == SC_TIER_SSD)
		work->ssd_bytes += bytes + state;
	else if (p->tier != SC_TIER_HBM)
		work->host_bytes += bytes + state;
}

/* What a shard's rank sends of pooled vectors to all ranks. Rows of one host add up their parts first. */
static double sent_bytes(const struct sc_dlrm *dlrm, const struct sc_table *table,
			 const struct sc_table_placement *p, const struct sc_shard *shard)
{
	double bytes = (double)dlrm->request->config.training.global_batch *
		       sc_table_outputs(table) * (double)shard->cols * dlrm->output_elem_bytes;

	if (p->type == SC_DATA_PARALLEL)
		return 0;
	if (dlrm->request->software.dlrm.partial_sums)
		return bytes;
	if (p->type == SC_ROW_WISE)
		return 0;
	if (p->type == SC_TABLE_ROW_WISE || p->type == SC_GRID)
		return bytes / (double)dlrm->plan.ranks_per_host;
	return bytes;
}

struct rank_uses {
	SC_VEC(struct sc_embedding_use) shards, replicas;
};

static void add_shard(struct sc_dlrm *dlrm, const struct sc_table_placement *p,
		      const struct sc_shard *shard, struct rank_uses *uses,
		      struct sc_dlrm_work *work)
{
	const struct sc_table *table = &dlrm->tables.at[shard->table];
	struct sc_embedding_use use;
	double lookups;

	sc_dlrm_shard_use(dlrm->request, table, p, shard, &use);
	work->n_tables++;
	store(&use, p, shard, work);
	if (p->type == SC_DATA_PARALLEL) {
		SC_VEC_PUSH(&uses->replicas, use);
		return;
	}
	SC_VEC_PUSH(&uses->shards, use);
	lookups = use.samples * table->pooling * (double)table->features * use.row_frac * use.skew;
	work->index_bytes += lookups * (INDEX_BYTES + (table->weighted ? WEIGHT_BYTES : 0));
	work->output_bytes += sent_bytes(dlrm, table, p, shard);
}

static void find_shapes(const struct sc_device *device, const struct rank_uses *uses,
			struct sc_dlrm_work *work)
{
	const struct sc_embedding_use *shards = uses->shards.at, *replicas = uses->replicas.at;

	sc_embedding_shape_of(device, shards, uses->shards.n, SC_EMBEDDING_FORWARD, &work->lookup);
	sc_embedding_shape_of(device, shards, uses->shards.n, SC_EMBEDDING_BACKWARD, &work->update);
	sc_embedding_shape_of(device, shards, uses->shards.n, SC_EMBEDDING_PREFETCH,
			      &work->prefetch);
	sc_embedding_shape_of(device, replicas, uses->replicas.n, SC_EMBEDDING_FORWARD,
			      &work->replica);
	sc_embedding_shape_of(device, replicas, uses->replicas.n, SC_EMBEDDING_BACKWARD,
			      &work->replica_grad);
}

/* Bytes that are reduced: partial sums of row slices, and gradients of replicas. */
static void add_reductions(struct sc_dlrm *dlrm)
{
	double batch = (double)dlrm->request->config.training.global_batch;
	double per_host = fmax(1, (double)dlrm->plan.world / (double)dlrm->plan.ranks_per_host);
	struct sc_dlrm_exchange *x = &dlrm->exchange;

	for (size_t i = 0; i < dlrm->plan.tables.n; i++) {
		const struct sc_table_placement *p = &dlrm->plan.tables.at[i];
		const struct sc_table *t =
			&dlrm->tables.at[dlrm->plan.shards.at[p->first_shard].table];
		double bytes = batch * sc_table_outputs(t) * (double)t->dim *
			       dlrm->output_elem_bytes;

		bool summed = dlrm->request->software.dlrm.partial_sums;

		if (p->type == SC_ROW_WISE && !summed)
			x->scatter_bytes += bytes;
		else if ((p->type == SC_TABLE_ROW_WISE || p->type == SC_GRID) && !summed)
			x->host_scatter_bytes += bytes / per_host; /* tables spread over hosts */
		else if (p->type == SC_DATA_PARALLEL)
			x->replica_grad_bytes +=
				(double)t->rows * (double)t->dim * sc_dtype_bytes(SC_FP32);
	}
}

/* The slowest part of an all-to-all whose ranks send s_r to each peer: what the rank sends that sends
 * most, or what the one receives that sends least (Lin et al. 2024: max of max). As if all sent alike. */
static double busiest_bytes(const double *sent, uint32_t world)
{
	double sum = 0, most = 0, least = INFINITY, peers = fmax(1, world - 1.0);

	for (uint32_t r = 0; r < world; r++) {
		sum += sent[r];
		most = fmax(most, sent[r]);
		least = fmin(least, sent[r]);
	}
	return fmax(most, (sum - least) / peers);
}

/* What a rank sends to its peers on other nodes after the sums of its node's tables were added up there:
 * those of the node with most columns, for its share of the batch. */
static double node_sum_bytes(const struct sc_dlrm *dlrm)
{
	uint32_t per_host = dlrm->plan.ranks_per_host;
	uint32_t n_nodes = (dlrm->plan.world + per_host - 1) / per_host;
	double *columns = sc_arena_calloc(dlrm->arena, n_nodes, sizeof(*columns)), most = 0;
	uint32_t *seen = sc_arena_calloc(dlrm->arena, n_nodes, sizeof(*seen)); /* table + 1 */

	for (size_t i = 0; i < dlrm->plan.tables.n; i++) {
		const struct sc_table_placement *p = &dlrm->plan.tables.at[i];

		for (uint32_t s = 0; s < p->n_shards && p->type != SC_DATA_PARALLEL; s++) {
			const struct sc_shard *shard = &dlrm->plan.shards.at[p->first_shard + s];
			uint32_t node = (uint32_t)shard->rank / per_host;

			if (seen[node] == i + 1 && shard->rows < p->rows)
				continue;
			seen[node] = (uint32_t)i + 1;
			columns[node] += sc_table_outputs(&dlrm->tables.at[shard->table]) *
					 (double)shard->cols;
			most = fmax(most, columns[node]);
		}
	}
	return most * (double)dlrm->request->config.training.global_batch / per_host *
	       dlrm->output_elem_bytes;
}

static const struct sc_device *rank_device(const struct sc_dlrm *dlrm, uint32_t rank)
{
	return sc_request_device(dlrm->request, sc_dlrm_rank_kind(dlrm->request, rank));
}

void sc_dlrm_work(struct sc_dlrm *dlrm, struct sc_dlrm_work *ranks)
{
	uint32_t world = dlrm->plan.world;
	struct rank_uses *uses = sc_arena_calloc(dlrm->arena, world, sizeof(*uses));
	double *sent = sc_arena_calloc(dlrm->arena, world, sizeof(*sent)), most_index = 0;

	memset(ranks, 0, world * sizeof(*ranks));
	for (size_t i = 0; i < dlrm->plan.tables.n; i++) {
		const struct sc_table_placement *p = &dlrm->plan.tables.at[i];

		for (uint32_t s = 0; s < p->n_shards; s++) {
			const struct sc_shard *shard = &dlrm->plan.shards.at[p->first_shard + s];

			add_shard(dlrm, p, shard, &uses[shard->rank], &ranks[shard->rank]);
		}
	}
	for (uint32_t r = 0; r < world; r++) {
		find_shapes(rank_device(dlrm, r), &uses[r], &ranks[r]);
		sent[r] = ranks[r].output_bytes;
		most_index = fmax(most_index, ranks[r].index_bytes);
		SC_VEC_RELEASE(&uses[r].shards);
		SC_VEC_RELEASE(&uses[r].replicas);
	}
	if (sc_dlrm_one_rank_bottom(dlrm->request)) /* the bottom MLP's vectors are rank 0's */
		sent[0] += (double)dlrm->request->config.training.global_batch *
			   sc_dlrm_bottom_width(dlrm->request) * dlrm->output_elem_bytes;
	dlrm->exchange.index_bytes = most_index;
	dlrm->exchange.output_bytes = busiest_bytes(sent, world);
	if (dlrm->request->software.dlrm.partial_sums && world > dlrm->plan.ranks_per_host) {
		dlrm->exchange.host_scatter_bytes = dlrm->exchange.output_bytes;
		dlrm->exchange.output_bytes = node_sum_bytes(dlrm);
	}
	add_reductions(dlrm);
}
