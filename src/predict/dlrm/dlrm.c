/* Prepares a DLRM request for building: a sharding plan becomes what each rank looks up, sends and
 * stores; ranks with like work are folded into classes, whose blocks are costed. */
#include "predict/dlrm/dlrm.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/fnv.h"
#include "models/collective/collective_files.h"
#include "models/row_reuse.h"

/* Pooled vectors are copied this often for TorchRec's all-to-all, on average of both ways
 * (dist_data.py, comm_ops.py: _all_to_all_pooled): forward for it and into rows after it; backward
 * they are cut, put in the order of ranks, and divided by their number. */
#define POOLED_COPIES 2.5

/* Adds what ranks store of a table. */
static void store_table(const struct sc_dlrm *dlrm, const struct sc_table_placement *p,
			struct sc_dlrm_work *ranks)
{
	const enum sc_row_optimizer optimizer = sc_dlrm_row_optimizer(dlrm->request);
	const double on_gpu = p->tier == SC_TIER_CACHED ? p->cache_frac : p->tier == SC_TIER_HBM;
	const struct sc_table *table = &dlrm->tables.at[dlrm->plan.shards.at[p->first_shard].table];
	const struct sc_shard *like = NULL;
	double bytes = 0, state = 0;

	for (uint32_t s = 0; s < p->n_shards; s++) {
		const struct sc_shard *shard = &dlrm->plan.shards.at[p->first_shard + s];
		struct sc_dlrm_work *work = &ranks[shard->rank];

		if (!like || shard->rows != like->rows || shard->cols != like->cols) {
			bytes = (double)shard->rows * (double)shard->cols *
				sc_dtype_bytes(table->dtype);
			state = (double)shard->rows *
				sc_row_state_bytes(optimizer, (double)shard->cols);
			like = shard;
		}
		work->n_tables++;
		work->table_bytes += on_gpu * bytes;
		work->state_bytes += on_gpu * state;
		if (p->tier == SC_TIER_SSD)
			work->ssd_bytes += bytes + state;
		else if (p->tier != SC_TIER_HBM)
			work->host_bytes += bytes + state;
	}
}

/* Adds what all ranks store of hot rows, and what these move. */
static void store_hot_rows(struct sc_dlrm *dlrm, const struct sc_table_placement *p,
			   struct sc_dlrm_work *ranks)
{
	const struct sc_table *table = &dlrm->tables.at[dlrm->plan.shards.at[p->first_shard].table];
	const struct sc_dlrm_hot_bytes bytes =
		sc_dlrm_hot_bytes_of(dlrm->request, table, p, dlrm->rows);
	const enum sc_row_optimizer optimizer = sc_dlrm_row_optimizer(dlrm->request);

	dlrm->exchange.pulled_bytes += bytes.pulled;
	dlrm->exchange.hot_grad_bytes += bytes.reduced;
	for (uint32_t r = 0; r < dlrm->plan.world; r++) {
		ranks[r].table_bytes +=
			(double)p->hot_rows * (double)table->dim * sc_dtype_bytes(table->dtype);
		ranks[r].state_bytes +=
			(double)p->hot_rows * sc_row_state_bytes(optimizer, (double)table->dim);
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
			double bytes =
				sc_dlrm_all_vector_bytes(dlrm->request, t, (double)shards[s].cols);
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
	const struct sc_request *req = dlrm->request;
	const uint32_t world = dlrm->plan.world;
	double most_index = 0, most_sent = 0;

	memset(ranks, 0, world * sizeof(*ranks));
	for (size_t i = 0; i < dlrm->plan.tables.n; i++) {
		const struct sc_table_placement *p = &dlrm->plan.tables.at[i];

		store_table(dlrm, p, ranks);
		if (p->hot_rows)
			store_hot_rows(dlrm, p, ranks);
	}
	sc_dlrm_find_lookups(dlrm, ranks);
	for (uint32_t r = 0; r < world; r++) {
		most_index = fmax(most_index, ranks[r].index_bytes);
		most_sent = fmax(most_sent, ranks[r].output_bytes);
	}
	dlrm->exchange.index_bytes = most_index;
	dlrm->exchange.output_bytes = most_sent;
	if (req->software.dlrm.partial_sums && world > dlrm->plan.ranks_per_host) {
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

static struct work_key key_of(const struct sc_dlrm *dlrm, const struct sc_dlrm_work *w,
			      uint32_t rank)
{
	const struct sc_request *req = dlrm->request;
	const struct sc_embedding_shape *shapes[] = {&w->lookup, &w->update, &w->prefetch,
						     &w->replica};
	struct work_key key = {
		.kind = (double)sc_dlrm_rank_kind(req, rank),
		.bottom = rank == 0 || !sc_dlrm_one_rank_bottom(req),
		.slowdown = sc_dlrm_rank_slowdown(req, rank),
		.n_tables = w->n_tables,
		.index_bytes = w->index_bytes,
		.tokens = sc_hstu_tokens(req, rank == 0),
	};

	for (int k = 0; k < 4; k++)
		memcpy(key.shapes[k], &shapes[k]->tables, sizeof(key.shapes[k]));
	return key;
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
	const uint32_t world = dlrm->plan.world;
	struct work_key *keys = sc_arena_alloc(dlrm->arena, world * sizeof(*keys));
	uint32_t *class_of = sc_arena_alloc(dlrm->arena, world * sizeof(*class_of));
	uint32_t n_slots = 16, *slot;

	while (n_slots < 2 * world)
		n_slots *= 2;
	slot = sc_arena_calloc(dlrm->arena, n_slots, sizeof(*slot)); /* class + 1 */
	for (uint32_t r = 0; r < world; r++) {
		struct work_key *key = &keys[dlrm->n_classes];
		uint32_t at;

		*key = key_of(dlrm, &ranks[r], r);
		at = (uint32_t)sc_fnv_words(SC_FNV_START, (const double *)key,
					    sizeof(*key) / sizeof(double)) &
		     (n_slots - 1);
		while (slot[at] && (dlrm->opts->unfolded ||
				    memcmp(&keys[slot[at] - 1], key, sizeof(*key)) != 0))
			at = (at + 1) & (n_slots - 1);
		if (!slot[at])
			slot[at] = (uint32_t)++dlrm->n_classes;
		class_of[r] = slot[at] - 1;
	}
	dlrm->classes = sc_arena_calloc(dlrm->arena, dlrm->n_classes, sizeof(*dlrm->classes));
	for (uint32_t r = 0; r < world; r++) {
		struct sc_dlrm_class *cls = &dlrm->classes[class_of[r]];
		const struct work_key *key = &keys[class_of[r]];

		if (cls->multiplicity++) {
			take_fuller(&cls->work, &ranks[r]);
			continue;
		}
		cls->work = ranks[r];
		cls->representative = r;
		cls->kind = (uint8_t)key->kind;
		cls->bottom = key->bottom > 0;
		cls->slowdown = key->slowdown;
		cls->tokens = key->tokens;
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

/* Costs the blocks of all classes, in the arena. Most depend on the GPU, its speed and its
 * sequences alone: classes share those of the first. */
static void cost_blocks(struct sc_dlrm *dlrm)
{
	const struct sc_dlrm_class *like = dlrm->classes;
	struct sc_block made = {0};

	for (size_t c = 0; c < dlrm->n_classes; c++) {
		struct sc_dlrm_class *cls = &dlrm->classes[c];
		const bool is_like = c > 0 && like->kind == cls->kind &&
				     like->bottom == cls->bottom &&
				     !(fabs(like->slowdown - cls->slowdown) > 0) &&
				     !(fabs(like->tokens - cls->tokens) > 0);

		cls->env = sc_block_env_of(dlrm->request, &dlrm->fabric, dlrm->opts);
		cls->env.device = sc_request_device(dlrm->request, cls->kind);
		cls->env.slowdown = cls->slowdown;
		for (int id = 0; id < SC_N_DLRM_BLOCKS; id++) {
			struct sc_block *block = &cls->block[id];
			size_t n_bytes;

			if (is_like && sc_dlrm_is_dense((enum sc_dlrm_block)id)) {
				*block = like->block[id];
				continue;
			}
			sc_dlrm_dense_block(dlrm, cls, (enum sc_dlrm_block)id, &made);
			n_bytes = made.steps.n * sizeof(*made.steps.at);
			block->steps.n = made.steps.n;
			block->steps.at = sc_arena_alloc(dlrm->arena, n_bytes + 1);
			if (n_bytes)
				memcpy(block->steps.at, made.steps.at, n_bytes);
		}
	}
	sc_block_release(&made);
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
				 .rows = setup->scratch->rows,
				 .known = &setup->scratch->known};
	dlrm->batch = (double)request->config.training.micro_batch;
	dlrm->output_elem_bytes = sc_dlrm_output_elem_bytes(request);
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
	cost_blocks(dlrm);
	return 0;
}
