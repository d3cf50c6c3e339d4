/* Prepares a DLRM request for building: plan, ranks folded into classes, blocks costed. */
#include "predict/dlrm/dlrm.h"

#include <math.h>
#include <string.h>

#include "base/fnv.h"
#include "models/collective_files.h"

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

static void env_init(const struct sc_dlrm *dlrm, const struct sc_dlrm_class *cls,
		     struct sc_block_env *env)
{
	const struct sc_request *req = dlrm->request;
	const struct sc_predict_opts *o = dlrm->opts;

	*env = (struct sc_block_env){
		.request = req,
		.device = sc_request_device(req, cls->kind),
		.software = &req->software,
		.fabric = &dlrm->fabric,
		.slowdown = cls->slowdown,
		.cuda_graphs = req->config.training.cuda_graphs,
		.attention_eff = 1,
		.gemm_speed = o->gemm_speed,
		.hbm_speed = o->hbm_speed,
		.link_speed = o->link_speed,
		.nic_speed = o->nic_speed,
		.host_speed = o->host_speed,
	};
}

static bool same(double a, double b)
{
	return !(a < b) && !(a > b);
}

static bool same_shape(const struct sc_embedding_shape *a, const struct sc_embedding_shape *b)
{
	return same(a->tables, b->tables) && same(a->lookups, b->lookups) &&
	       same(a->unique_rows, b->unique_rows) && same(a->outputs, b->outputs) &&
	       same(a->hbm_bytes, b->hbm_bytes) && same(a->l2_bytes, b->l2_bytes) &&
	       same(a->stream_bytes, b->stream_bytes) && same(a->host_bytes, b->host_bytes) &&
	       same(a->ssd_bytes, b->ssd_bytes) && same(a->sort_keys, b->sort_keys) &&
	       same(a->longest_run, b->longest_run);
}

/* Costs depend on these alone. */
static bool same_class(const struct sc_dlrm_class *a, const struct sc_dlrm_class *b)
{
	const struct sc_dlrm_work *x = &a->work, *y = &b->work;

	return a->kind == b->kind && same(a->slowdown, b->slowdown) &&
	       same(x->n_tables, y->n_tables) && same(x->index_bytes, y->index_bytes) &&
	       same_shape(&x->lookup, &y->lookup) && same_shape(&x->update, &y->update) &&
	       same_shape(&x->prefetch, &y->prefetch) && same_shape(&x->replica, &y->replica);
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

static uint64_t work_hash(const struct sc_dlrm_class *cls)
{
	const double keys[] = {cls->work.lookup.lookups,     cls->work.lookup.hbm_bytes,
			       cls->work.update.unique_rows, cls->work.index_bytes,
			       cls->work.n_tables,           cls->slowdown};

	return sc_fnv(SC_FNV_START, keys, sizeof(keys));
}

/* Ranks in order; each joins the class of an earlier one with like work, or founds one. */
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
		uint32_t at;

		*cls = (struct sc_dlrm_class){
			.work = ranks[r],
			.representative = r,
			.multiplicity = 1,
			.kind = (uint8_t)sc_dlrm_rank_kind(dlrm->request, r),
			.slowdown = sc_dlrm_rank_slowdown(dlrm->request, r),
		};
		at = (uint32_t)work_hash(cls) & (n_slots - 1);
		while (slot[at] &&
		       (dlrm->opts->unfolded || !same_class(&dlrm->classes[slot[at] - 1], cls)))
			at = (at + 1) & (n_slots - 1);
		if (slot[at]) {
			dlrm->classes[slot[at] - 1].multiplicity++;
			take_fuller(&dlrm->classes[slot[at] - 1].work, &cls->work);
		} else {
			slot[at] = (uint32_t)++dlrm->n_classes;
		}
	}
}

/* What tables take of a node beside its GPUs. */
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

static void build_blocks(struct sc_dlrm *dlrm)
{
	for (size_t c = 0; c < dlrm->n_classes; c++) {
		struct sc_dlrm_class *cls = &dlrm->classes[c];

		env_init(dlrm, cls, &cls->env);
		for (int id = 0; id < SC_N_DLRM_BLOCKS; id++)
			sc_dlrm_dense_block(dlrm, cls, (enum sc_dlrm_block)id, &cls->block[id]);
	}
}

static int take_plan(struct sc_dlrm *dlrm, struct sc_err *err)
{
	int64_t gpus = dlrm->request->config.gpus;
	int rc;

	if (!dlrm->opts->plan)
		return sc_err_set(err, SC_EVALUE, "no sharding plan was chosen");
	dlrm->plan = *dlrm->opts->plan;
	if (!dlrm->plan.ranks_per_host) /* its file does not say */
		dlrm->plan.ranks_per_host = sc_dlrm_ranks_together(dlrm->request);
	rc = sc_shard_plan_check(&dlrm->plan, err);
	if (rc == 0)
		rc = sc_shard_plan_check_tables(&dlrm->plan, dlrm->tables.at, dlrm->tables.n, err);
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
	sc_dlrm_work(dlrm, ranks);
	fold_ranks(dlrm, ranks);
	fill_nodes(dlrm, ranks);
	sc_dlrm_dense_sizes(dlrm);
	build_blocks(dlrm);
	return 0;
}

void sc_dlrm_release(struct sc_dlrm *dlrm)
{
	for (size_t c = 0; c < dlrm->n_classes; c++)
		for (int id = 0; id < SC_N_DLRM_BLOCKS; id++)
			sc_block_release(&dlrm->classes[c].block[id]);
	memset(dlrm, 0, sizeof(*dlrm));
}
