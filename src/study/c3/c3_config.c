/* Lists the pairs of a config: its kernels and collectives, as the builders list them. */
#include "predict/dlrm/dlrm.h"
#include "predict/layers/layers.h"
#include "predict/op_names.h"
#include "predict/transformer/build_transformer.h"
#include "study/c3/c3.h"
#include "study/shard/shard_choose.h"

struct lister {
	const struct sc_transformer *tf;
	struct sc_arena *arena;
	struct sc_c3_pairs *out;
	/* These are of the rank and the block at hand. */
	uint32_t class_id;
	const struct sc_block_env *env;
	struct sc_block_list list;
	const struct sc_fabric *fabric; /* of a recommendation model */
	double count;
	int n_exchanges; /* all-to-alls so far: the first brings tokens to experts, the next back */
};

static bool is_comm(const struct sc_block_item *item)
{
	return item->op.kind == SC_OP_COLLECTIVE;
}

static struct sc_c3_named named(struct lister *l, const struct sc_block_item *comm,
				const struct sc_fabric *fabric)
{
	struct sc_transfer transfer =
		sc_block_transfer(l->env, &comm->op.u.collective, &comm->span);

	transfer.fabric = fabric;
	return (struct sc_c3_named){
		.count = l->count,
		.pair = {.transfer = transfer, .comm_us = comm->alone_us},
	};
}

/* Finds the next product after or before a collective, with none between. */
static const struct sc_block_item *find_gemm(const struct lister *l, size_t at, int step)
{
	for (size_t i = at + (size_t)step; i < l->list.items.n; i += (size_t)step) {
		const struct sc_block_item *item = &l->list.items.at[i];

		if (is_comm(item))
			return NULL;
		if (item->op.kind == SC_OP_GEMM)
			return item;
	}
	return NULL;
}

/* Kernels from..to run beside the collective, and neither needs the other. */
static void set_layer(struct lister *l, size_t from, size_t to, struct sc_c3_pair *pair)
{
	struct sc_op *ops = sc_arena_calloc(l->arena, to - from + 1, sizeof(*ops));

	pair->layer = ops;
	for (size_t i = from; i < to; i++) {
		const struct sc_block_item *item = &l->list.items.at[i];

		if (is_comm(item))
			continue;
		ops[pair->n_layer++] = item->op;
		pair->compute_us += item->alone_us;
	}
}

static void add_in_layer(struct lister *l, size_t at)
{
	const struct sc_block_item *comm = &l->list.items.at[at], *gemm;
	const struct sc_fabric *own = l->env->axis_fabric[comm->axis];
	struct sc_c3_named pair = named(l, comm, own ? own : l->env->fabric);
	const bool exchanges = comm->op.u.collective.kind == SC_ALL_TO_ALL;
	const bool first =
		exchanges ? l->n_exchanges++ % 2 == 0 : comm->op.u.collective.kind == SC_ALL_GATHER;
	size_t end = at + 1 + comm->hidden;

	end = end < l->list.items.n ? end : l->list.items.n;
	if (comm->hidden) {
		set_layer(l, at + 1, end, &pair.pair);
		pair.name = sc_arena_printf(l->arena, "%s beside %s", "kernels",
					    sc_op_name(comm->name));
		if (pair.pair.n_layer)
			SC_VEC_PUSH(&l->out->list, pair);
		return;
	}
	gemm = find_gemm(l, at, first ? 1 : -1);
	if (gemm && exchanges && comm->axis == SC_COMM_EP)
		pair.pair.kind = first ? SC_C3_DISPATCH_EXPERTS : SC_C3_EXPERTS_COMBINE;
	else if (!gemm || !sc_c3_kind_of(first ? SC_C3_GATHER_GEMM : SC_C3_GEMM_SCATTER,
					 comm->op.u.collective.kind, &pair.pair.kind))
		return;
	pair.pair.gemm = gemm->op;
	pair.pair.compute_us = gemm->alone_us;
	pair.name = sc_arena_printf(l->arena, "%s beside %s", sc_op_name(gemm->name),
				    sc_op_name(comm->name));
	SC_VEC_PUSH(&l->out->list, pair);
}

static void list_block(struct lister *l, enum sc_block_id id)
{
	struct sc_block block = {.list = &l->list};

	l->list.items.n = 0;
	l->n_exchanges = 0;
	sc_transformer_block(l->env, id, (double)l->tf->request->config.training.micro_batch,
			     &block);
	sc_block_release(&block);
	for (size_t i = 0; i < l->list.items.n; i++)
		if (is_comm(&l->list.items.at[i]))
			add_in_layer(l, i);
}

/* ---- data parallel ---- */

struct replica_comm {
	const char *what;
	enum sc_op_name name;
	enum sc_collective kind;
	double bytes;
	struct sc_span span;
};

/* Adds the layer listed last beside a collective of its weights or gradients. */
static void add_beside_layer(struct lister *l, const struct replica_comm *c)
{
	const struct sc_rank_class *rc = &l->tf->placement.classes[l->class_id];
	struct sc_block_env env = *l->env;
	struct sc_block_item item = {.name = (uint16_t)c->name, .span = c->span};
	struct sc_c3_named pair;
	struct sc_cost cost;

	if (c->span.n_ranks < 2 || !(c->bytes > 0))
		return;
	env.fabric = sc_transformer_fabric(l->tf, l->class_id, SC_AXIS_DP);
	item.op.u.collective = (struct sc_collective_shape){
		c->kind, c->bytes, sc_storage_dtype(l->tf->request->config.training.precision)};
	cost = sc_block_comm_alone(&env, &item.op.u.collective, &item.span,
				   c->span.n_nodes > 1 ? rc->stage_ranks_per_node : 1);
	item.alone_us = sc_cost_alone_us(&cost);
	pair = named(l, &item, env.fabric);
	set_layer(l, 0, l->list.items.n, &pair.pair);
	pair.name = sc_arena_printf(l->arena, "%s beside %s", c->what, sc_op_name(c->name));
	SC_VEC_PUSH(&l->out->list, pair);
}

static void add_gathers(struct lister *l, const char *what, const struct sc_params *params)
{
	const double bytes = sc_transformer_gathered_bytes(l->tf->request);
	const struct sc_replicas *copies = &l->tf->classes[l->class_id].replicas;

	add_beside_layer(l, &(struct replica_comm){what, SC_NAME_PARAM_GATHER, SC_ALL_GATHER,
						   params->dense * bytes, copies->dense.shard});
	add_beside_layer(l, &(struct replica_comm){what, SC_NAME_PARAM_GATHER, SC_ALL_GATHER,
						   params->expert * bytes, copies->expert.shard});
}

static void add_reduction(struct lister *l, double params, const struct sc_replica_spans *spans)
{
	const bool scatters = sc_sharding_rule(l->tf->request).scatters;
	const double bytes = params * sc_grad_bytes(l->tf->request);

	add_beside_layer(l, &(struct replica_comm){"layer backward", SC_NAME_GRAD_REDUCE,
						   scatters ? SC_REDUCE_SCATTER : SC_ALL_REDUCE,
						   bytes, scatters ? spans->shard : spans->all});
	if (scatters)
		add_beside_layer(l, &(struct replica_comm){
					    "layer backward", SC_NAME_GRAD_REDUCE, SC_ALL_REDUCE,
					    bytes / spans->shard.n_ranks, spans->copies});
}

static void add_layers(struct lister *l, int kind, double n_layers, double passes)
{
	const struct sc_sharding_rule rule = sc_sharding_rule(l->tf->request);
	const struct sc_params *params = &l->tf->layer[kind];
	const struct sc_replicas *copies = &l->tf->classes[l->class_id].replicas;

	l->count = n_layers * passes;
	list_block(l, (enum sc_block_id)sc_block_of(SC_BLOCK_LAYER_F, kind));
	l->count = n_layers * (rule.each ? passes : 1);
	if (rule.weights)
		add_gathers(l, "layer forward", params);
	l->count = n_layers * passes;
	list_block(l, (enum sc_block_id)sc_block_of(SC_BLOCK_LAYER_B, kind));
	l->count = n_layers * passes;
	if (rule.each)
		add_gathers(l, "layer backward", params);
	l->count = n_layers * (rule.each ? passes : 1);
	add_reduction(l, params->trainable, &copies->dense);
	add_reduction(l, params->trainable_expert, &copies->expert);
}

/* Lists the layers of the first class, and the head of the first class that has it. */
static void list_all(struct lister *l)
{
	const struct sc_placement *p = &l->tf->placement;
	const double passes = (double)l->tf->request->n_micro_batches;
	struct sc_stage_parts parts = sc_transformer_stage(l->tf, p->classes[0].stage);

	l->env = &l->tf->variant[l->tf->classes[0].variant]->env;
	for (int kind = SC_N_LAYER_KINDS - 1; kind >= 0; kind--)
		if (parts.layers.of[kind] > 0)
			add_layers(l, kind, parts.layers.of[kind], passes);
	for (uint32_t c = 0; c < p->n_classes; c++) {
		if (!sc_transformer_stage(l->tf, p->classes[c].stage).head)
			continue;
		l->class_id = c;
		l->env = &l->tf->variant[l->tf->classes[c].variant]->env;
		l->count = passes;
		list_block(l, SC_BLOCK_HEAD_F);
		list_block(l, SC_BLOCK_HEAD_B);
		return;
	}
}

/* ---- a table of layers ---- */

/* Adds the gradients of a bucket beside the backward passes of the next. */
static void add_bucket(const struct sc_layers *l, size_t i, struct sc_arena *arena,
		       struct sc_c3_pairs *out)
{
	const struct sc_layer_bucket *at = &l->buckets[i], *next = at + 1;
	struct sc_op *ops = sc_arena_calloc(arena, next->n_rows, sizeof(*ops));
	struct sc_c3_named pair = {
		.count = 1,
		.name = sc_arena_printf(arena, "%s backward beside %s gradients",
					sc_layers_row(l, next->last_row)->name,
					sc_layers_row(l, at->last_row)->name),
		.pair = {.transfer = sc_block_transfer(&l->env, &at->shape, &l->span),
			 .layer = ops,
			 .n_layer = next->n_rows},
	};

	if (!(at->shape.bytes > 0))
		return;
	for (size_t k = 0; k < next->n_rows; k++)
		ops[k] = sc_layers_op(l, next->last_row - k, true);
	SC_VEC_PUSH(&out->list, pair);
}

static int list_rows(const struct sc_request *request, struct sc_arena *arena,
		     struct sc_c3_pairs *out, struct sc_err *err)
{
	struct sc_layers *l = sc_arena_calloc(arena, 1, sizeof(*l));
	struct sc_build_scratch scratch = {.arena = arena};
	struct sc_predict_opts opts;
	int rc;

	sc_predict_opts_init(&opts);
	rc = sc_layers_init(l, &(struct sc_setup){request, &opts, &scratch, NULL}, err);
	for (size_t i = 0; rc == 0 && l->span.n_ranks > 1 && i + 1 < l->n_buckets; i++)
		add_bucket(l, i, arena, out);
	sc_layers_release(l); /* its network stays: pairs point to it */
	return rc;
}

/* ---- recommendation models ---- */

static void add_exchange(struct lister *l, const struct sc_dlrm *dlrm,
			 const struct sc_dlrm_beside *beside)
{
	static const char *const what[SC_N_DLRM_BLOCKS] = {
		[SC_DLRM_BOTTOM] = "bottom mlp",
		[SC_DLRM_BOTTOM_GRAD] = "bottom mlp backward",
		[SC_DLRM_UPDATE] = "embedding table update",
	};
	struct sc_block block = {.list = &l->list};
	struct sc_block_item item = {.name = beside->exchange, .span = beside->span};
	struct sc_c3_named pair;
	struct sc_cost cost;

	if (beside->span.n_ranks < 2 || !(beside->shape.bytes > 0))
		return;
	l->list.items.n = 0;
	sc_dlrm_dense_block(dlrm, &dlrm->classes[0], beside->block, &block);
	sc_block_release(&block);
	sc_block_comm_cost(l->env, &beside->shape, &beside->span, &cost);
	item.op.u.collective = beside->shape;
	item.alone_us = sc_cost_alone_us(&cost);
	pair = named(l, &item, l->fabric);
	set_layer(l, 0, l->list.items.n, &pair.pair);
	pair.name = sc_arena_printf(l->arena, "%s beside %s", what[beside->block],
				    sc_op_name(beside->exchange));
	if (pair.pair.n_layer)
		SC_VEC_PUSH(&l->out->list, pair);
}

/* Lists the exchanges of the first class of ranks, under the plan of the request's planner. */
static int list_exchanges(struct lister *l, const struct sc_setup *setup, struct sc_err *err)
{
	struct sc_dlrm *dlrm = sc_arena_calloc(l->arena, 1, sizeof(*dlrm));
	struct sc_fabric *fabric = sc_arena_calloc(l->arena, 1, sizeof(*fabric));
	struct sc_predict_opts opts = *setup->opts;
	const struct sc_setup planned = {setup->request, &opts, setup->scratch, NULL};
	struct sc_chosen_plan chosen;
	struct sc_dlrm_beside beside;
	int rc = sc_chosen_plan_init(&chosen, setup->request, err);

	opts.plan = chosen.is_there ? &chosen.made.plan : NULL;
	if (rc == 0)
		rc = sc_dlrm_init(dlrm, &planned, err);
	if (rc == 0) {
		l->count = 1;
		l->env = &dlrm->classes[0].env;
		*fabric = *l->env->fabric;
		l->fabric = fabric;
		for (size_t i = 0; sc_dlrm_beside(dlrm, i, &beside); i++)
			add_exchange(l, dlrm, &beside);
	}
	sc_chosen_plan_release(&chosen);
	return rc;
}

int sc_c3_config_pairs(const struct sc_request *request, struct sc_arena *arena,
		       struct sc_c3_pairs *out, struct sc_err *err)
{
	struct sc_transformer *tf = sc_arena_calloc(arena, 1, sizeof(*tf));
	struct sc_predict_opts *opts = sc_arena_calloc(arena, 1, sizeof(*opts));
	struct sc_build_scratch scratch;
	const struct sc_setup setup = {request, opts, &scratch, NULL};
	struct lister l = {.tf = tf, .arena = arena, .out = out};
	int rc;

	if (request->config.cluster.torus.dims.n)
		return sc_err_set(err, SC_EUNSUPPORTED,
				  "c3: a torus is driven by c3.endpoint; compare its kinds with "
				  "predict or sweep");
	if (request->config.model.family == SC_LAYERS)
		return list_rows(request, arena, out, err);
	sc_build_scratch_init(&scratch, arena);
	sc_predict_opts_init(opts);
	if (request->config.model.family == SC_DLRM)
		rc = list_exchanges(&l, &setup, err);
	else
		rc = sc_transformer_init(tf, &setup, err);
	if (rc == 0 && request->config.model.family != SC_DLRM)
		list_all(&l);
	SC_VEC_RELEASE(&l.list.items);
	sc_build_scratch_release(&scratch);
	sc_transformer_release(tf);
	return rc;
}
