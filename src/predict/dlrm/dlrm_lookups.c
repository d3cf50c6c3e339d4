/* Finds what ranks look up, as the shapes of their embedding kernels and the bytes that they send.
 * It is remembered from one prediction to the next by a rank's shards, so that plans that differ in
 * a few ranks share the others'. */
#include <math.h>
#include <string.h>

#include "models/row_reuse.h"
#include "predict/dlrm/dlrm.h"

enum { INDEX_BYTES = 8, WEIGHT_BYTES = 4 };

/* A shard with its table's placement. */
struct placed {
	const struct sc_table_placement *at;
	const struct sc_shard *shard;
};
/* The shards of a plan by rank, in its order; replicas, which are alike on all ranks, are apart. */
struct dealt {
	struct placed *shards; /* by rank: of rank r from first[r] on */
	uint32_t *first;
	struct placed *replicas;
	size_t n_replicas;
	const struct sc_table_placement **hot; /* with hot rows */
	size_t n_hot;
	double context; /* the number of all that a rank's lookups depend on beside its shards */
};
/* The lookups of a rank in its shards, or in replicas and its copies of hot rows. */
struct lookups {
	double index_bytes, output_bytes;
	struct sc_embedding_shape shapes[SC_N_EMBEDDING_PASSES];
};
struct uses {
	struct sc_embedding_use *at;
	size_t n, cap;
};

static struct dealt deal_shards(const struct sc_dlrm *dlrm)
{
	const struct sc_shard_plan *plan = &dlrm->plan;
	struct dealt d = {0};
	uint32_t *next = sc_arena_calloc(dlrm->arena, plan->world + 2, sizeof(*next));

	d.shards = sc_arena_alloc(dlrm->arena, (plan->shards.n + 1) * sizeof(*d.shards));
	d.replicas = sc_arena_alloc(dlrm->arena, (plan->tables.n + 1) * sizeof(*d.replicas));
	d.hot = sc_arena_alloc(dlrm->arena, (plan->tables.n + 1) * sizeof(*d.hot));
	d.first = next;
	for (size_t i = 0; i < plan->tables.n; i++) {
		const struct sc_table_placement *p = &plan->tables.at[i];
		const struct sc_shard *shards = &plan->shards.at[p->first_shard];

		if (p->hot_rows)
			d.hot[d.n_hot++] = p;
		if (p->type == SC_DATA_PARALLEL)
			d.replicas[d.n_replicas++] = (struct placed){p, shards};
		for (uint32_t s = 0; s < p->n_shards && p->type != SC_DATA_PARALLEL; s++)
			next[shards[s].rank + 2]++;
	}
	for (uint32_t r = 1; r <= plan->world; r++)
		next[r + 1] += next[r];
	next++; /* of rank r: where its next shard goes; in the end, where the next rank's begin */
	for (size_t i = 0; i < plan->tables.n; i++) {
		const struct sc_table_placement *p = &plan->tables.at[i];
		const struct sc_shard *shards = &plan->shards.at[p->first_shard];

		for (uint32_t s = 0; s < p->n_shards && p->type != SC_DATA_PARALLEL; s++)
			d.shards[next[shards[s].rank]++] = (struct placed){p, &shards[s]};
	}
	return d;
}

/* Numbers what lookups depend on beside a rank's own shards and its GPU: the request, the tables,
 * and which rows are hot. */
static double context_of(const struct sc_dlrm *dlrm, const struct dealt *d)
{
	const struct sc_request *req = dlrm->request;
	const double facts[] = {
		(double)req->config.training.global_batch,
		(double)req->config.parallel.dp,
		(double)req->config.gpus,
		(double)sc_node_gpus_of(req),
		req->config.training.optimizer,
		req->software.dlrm.embedding_kernel,
		req->software.dlrm.partial_sums,
		dlrm->output_elem_bytes,
		dlrm->plan.ranks_per_host,
	};
	struct sc_memo_key *key;
	const double *known;
	double *reuse = sc_arena_alloc(dlrm->arena, dlrm->tables.n * sizeof(*reuse));

	for (size_t i = 0; i < dlrm->tables.n; i++)
		reuse[i] = sc_row_reuse_number(dlrm->rows, &dlrm->tables.at[i].reuse);
	key = sc_memo_begin(dlrm->known->contexts);
	sc_memo_put_all(key, facts, sizeof(facts) / sizeof(facts[0]));
	for (size_t i = 0; i < dlrm->tables.n; i++) {
		const struct sc_table *t = &dlrm->tables.at[i];
		const double numbers[] = {(double)t->rows, (double)t->dim,      (double)t->count,
					  t->pooling,      (double)t->features, t->storage,
					  t->dtype,        t->weighted,         t->sequence,
					  reuse[i]};

		sc_memo_put_all(key, numbers, sizeof(numbers) / sizeof(numbers[0]));
	}
	for (size_t i = 0; i < d->n_hot; i++) {
		sc_memo_put(key, (double)(d->hot[i] - dlrm->plan.tables.at));
		sc_memo_put(key, (double)d->hot[i]->hot_rows);
	}
	known = sc_memo_find(dlrm->known->contexts);
	return known ? *known
		     : (*sc_memo_add(dlrm->known->contexts, 1) = dlrm->known->n_contexts++);
}

static void add_shard(const struct sc_dlrm *dlrm, const struct placed *x, struct uses *uses,
		      struct lookups *out)
{
	const struct sc_table *table = &dlrm->tables.at[x->shard->table];
	const struct sc_embedding_use use =
		sc_dlrm_shard_use(dlrm->request, table, x->at, x->shard, dlrm->rows);
	double lookups;

	SC_VEC_PUSH(uses, use);
	lookups = use.samples * table->pooling * (double)table->features * use.row_frac * use.skew;
	out->index_bytes += lookups * (INDEX_BYTES + (table->weighted ? WEIGHT_BYTES : 0));
	out->output_bytes +=
		sc_dlrm_vector_bytes(dlrm->request, x->at, &use) *
		sc_dlrm_sends_of(table, x->at->type, dlrm->request->software.dlrm.partial_sums,
				 dlrm->plan.ranks_per_host)
			.to_all;
}

/* Adds the copies of a table's hot rows. Where they are pulled, a rank reads those of its own rows
 * that any other needs, and steps them by what it pulls. */
static void add_hot_rows(const struct sc_dlrm *dlrm, const struct sc_table_placement *p,
			 bool is_replica, struct uses *uses)
{
	const struct sc_table *table = &dlrm->tables.at[dlrm->plan.shards.at[p->first_shard].table];
	struct sc_embedding_use use = sc_dlrm_hot_use(dlrm->request, table, p, dlrm->rows);

	if (!is_replica) {
		if (!(sc_dlrm_hot_bytes_of(dlrm->request, table, p, dlrm->rows).pulled > 0))
			return;
		use.skew = use.unique_rows / sc_dlrm_lookups(table, use.samples);
		use.output_frac =
			fmin(1, use.unique_rows / (use.samples * (double)table->features));
		use.unique_rows =
			fmin(use.unique_rows, (double)p->hot_rows / (double)dlrm->plan.world);
	}
	SC_VEC_PUSH(uses, use);
}

/* Returns the lookups in `n` shards of a GPU, which hold until the next are asked for; the first
 * rank may send `output_bytes` beside them. */
static const struct lookups *lookups_of(const struct sc_dlrm *dlrm, const struct dealt *d,
					const struct sc_device *device, const struct placed *shards,
					size_t n, double output_bytes)
{
	const bool is_replica = shards == d->replicas;
	const double facts[] = {d->context,
				is_replica,
				output_bytes,
				device->l2_mib,
				device->embedding.load_cycles,
				(double)device->cuda_capability};
	struct sc_memo_key *key = sc_memo_begin(dlrm->known->lookups);
	struct lookups out = {.output_bytes = output_bytes};
	struct uses uses = {0};
	const double *known;
	size_t h = 0;

	sc_memo_put_all(key, facts, sizeof(facts) / sizeof(facts[0]));
	for (size_t i = 0; i < n; i++) {
		const struct sc_table_placement *at = shards[i].at;
		const struct sc_shard *shard = shards[i].shard;
		const double numbers[] = {shard->table,
					  at->type,
					  at->tier,
					  at->cache_frac,
					  (double)shard->rows,
					  (double)shard->cols,
					  shard->row_offset == 0};

		sc_memo_put_all(key, numbers, sizeof(numbers) / sizeof(numbers[0]));
	}
	known = sc_memo_find(dlrm->known->lookups);
	if (known)
		return (const void *)known;
	for (size_t i = 0; i <= n; i++) {
		for (; h < d->n_hot && (i == n || d->hot[h] < shards[i].at); h++)
			add_hot_rows(dlrm, d->hot[h], is_replica, &uses);
		if (i < n)
			add_shard(dlrm, &shards[i], &uses, &out);
	}
	sc_embedding_shapes_of(device, uses.at, uses.n, out.shapes);
	SC_VEC_RELEASE(&uses);
	return memcpy(sc_memo_add(dlrm->known->lookups, sizeof(out) / sizeof(double)), &out,
		      sizeof(out));
}

void sc_dlrm_find_lookups(const struct sc_dlrm *dlrm, struct sc_dlrm_work *ranks)
{
	const struct sc_request *req = dlrm->request;
	const uint32_t world = dlrm->plan.world;
	const struct sc_device *first = sc_request_device(req, sc_dlrm_rank_kind(req, 0));
	struct dealt d = deal_shards(dlrm);
	double bottom_bytes = 0;

	if (sc_dlrm_one_rank_bottom(req)) {
		const struct sc_ints *widths = &req->config.model.bottom_mlp;

		bottom_bytes = (double)req->config.training.global_batch *
			       (double)widths->at[widths->n - 1] * dlrm->output_elem_bytes;
	}
	d.context = context_of(dlrm, &d);
	for (uint32_t r = 0; r < world; r++) {
		const struct sc_device *device = sc_request_device(req, sc_dlrm_rank_kind(req, r));
		const struct lookups *own =
			lookups_of(dlrm, &d, device, &d.shards[d.first[r]],
				   d.first[r + 1] - d.first[r], r == 0 ? bottom_bytes : 0);

		ranks[r].index_bytes = own->index_bytes;
		ranks[r].output_bytes = own->output_bytes;
		ranks[r].lookup = own->shapes[SC_EMBEDDING_FORWARD];
		ranks[r].update = own->shapes[SC_EMBEDDING_BACKWARD];
		ranks[r].prefetch = own->shapes[SC_EMBEDDING_PREFETCH];
		if (r > 0 && device == first) {
			ranks[r].replica = ranks[0].replica;
			ranks[r].replica_grad = ranks[0].replica_grad;
			continue;
		}
		own = lookups_of(dlrm, &d, device, d.replicas, d.n_replicas, 0);
		ranks[r].replica = own->shapes[SC_EMBEDDING_FORWARD];
		ranks[r].replica_grad = own->shapes[SC_EMBEDDING_BACKWARD];
	}
}
