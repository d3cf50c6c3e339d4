/* Prepares a Transformer request for building: fabric, placement, and the blocks of every variant,
 * costed and summarised. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "predict/build_transformer.h"

/* SMs of a gradient collective of one layer, the size that runs beside the backward pass. */
static double comm_sm_frac(const struct sc_transformer *tf, const struct sc_rank_class *rc)
{
	struct sc_collective_shape shape = {
		SC_ALL_REDUCE,
		sc_transformer_layer_params(tf->request) * sc_grad_bytes(tf->request),
		SC_FP32,
	};
	struct sc_cost cost;

	sc_collective_cost(&tf->fabric, &shape, &rc->group[SC_AXIS_DP].span, &cost, NULL);
	return fmin(cost.demand[SC_RES_SM], 1);
}

/* Ranks of a class's node, of its stage, whose tensor-parallel groups leave the node. */
static double crossing_ranks(const struct sc_placement *p, const struct sc_rank_class *rc)
{
	double n = 0;

	for (size_t c = 0; c < p->n_classes; c++)
		if (p->classes[c].nic_domain == rc->nic_domain &&
		    p->classes[c].stage == rc->stage &&
		    p->classes[c].group[SC_AXIS_TP].span.n_nodes > 1)
			n += p->classes[c].ranks_per_domain;
	return n;
}

/* A group is as slow as its most crowded node. */
static double tp_node_peers(const struct sc_transformer *tf, const struct sc_rank_class *rc)
{
	const struct sc_axis_group *tp = &rc->group[SC_AXIS_TP];
	const struct sc_member *m = tf->placement.members + tp->first_member;
	double most = 0;

	if (tp->span.n_nodes <= 1)
		return 0;
	for (uint32_t i = 0; i < tp->n_members; i++)
		most = fmax(most,
			    crossing_ranks(&tf->placement, &tf->placement.classes[m[i].class_id]));
	return most;
}

static void env_init(const struct sc_transformer *tf, const struct sc_rank_class *rc,
		     struct sc_block_env *env)
{
	const struct sc_predict_opts *o = tf->opts;

	*env = (struct sc_block_env){
		.device = &tf->request->device,
		.software = &tf->request->software,
		.fabric = &tf->fabric,
		.tp = rc->group[SC_AXIS_TP].span,
		.node_peers = rc->stage_ranks_per_node,
		.tp_node_peers = tp_node_peers(tf, rc),
		.slowdown = rc->slowdown,
		.comm_sm_frac = comm_sm_frac(tf, rc),
		.gemm_speed = o->gemm_speed,
		.hbm_speed = o->hbm_speed,
		.link_speed = o->link_speed,
		.nic_speed = o->nic_speed,
		.host_speed = o->host_speed,
	};
}

static bool same_env(const struct sc_block_env *a, const struct sc_block_env *b)
{
	return a->tp.n_ranks == b->tp.n_ranks && a->tp.n_nodes == b->tp.n_nodes &&
	       a->tp.max_ranks_per_node == b->tp.max_ranks_per_node &&
	       fabs(a->node_peers - b->node_peers) < 1e-9 &&
	       fabs(a->tp_node_peers - b->tp_node_peers) < 1e-9 &&
	       fabs(a->slowdown - b->slowdown) < 1e-12 &&
	       fabs(a->comm_sm_frac - b->comm_sm_frac) < 1e-9;
}

static int add_variant(struct sc_transformer *tf, const struct sc_block_env *env,
		       struct sc_build_scratch *scratch, struct sc_err *err)
{
	struct sc_variant *v = &tf->variant[tf->n_variants];
	double samples[2] = {(double)tf->request->config.training.micro_batch,
			     tf->request->last_micro_batch};
	int rc = 0;

	v->env = *env;
	tf->n_variants++;
	for (int partial = 0; partial < (tf->partial ? 2 : 1) && rc == 0; partial++)
		for (int id = 0; id < SC_N_BLOCKS && rc == 0; id++) {
			struct sc_block *block = &v->block[partial][id];

			sc_transformer_block(tf->request, &v->env, (enum sc_block_id)id,
					     samples[partial], block);
			rc = sc_block_summarize(block, &v->env, scratch, err);
		}
	return rc;
}

static int find_variant(struct sc_transformer *tf, const struct sc_rank_class *rc,
			struct sc_build_scratch *scratch, uint32_t *out, struct sc_err *err)
{
	struct sc_block_env env;

	env_init(tf, rc, &env);
	for (size_t v = 0; v < tf->n_variants; v++)
		if (same_env(&tf->variant[v].env, &env)) {
			*out = (uint32_t)v;
			return 0;
		}
	if (tf->n_variants == SC_MAX_VARIANTS)
		return sc_err_set(
			err, SC_ELIMIT,
			"more than %d kinds of ranks; use a layout whose groups sit alike "
			"on their nodes",
			SC_MAX_VARIANTS);
	*out = (uint32_t)tf->n_variants;
	return add_variant(tf, &env, scratch, err);
}

static double class_params(const struct sc_transformer *tf, int stage)
{
	const struct sc_parallel *par = &tf->request->config.parallel;
	double params = 0;

	for (int64_t chunk = 0; chunk < par->virtual_stages; chunk++)
		params += (double)tf->stage_layers[chunk * par->pp + stage] *
			  sc_transformer_layer_params(tf->request);
	if (stage == 0)
		params += sc_transformer_embed_params(tf->request);
	else if (stage + 1 == par->pp) /* a copy of the tied word embedding */
		params += sc_transformer_word_params(tf->request);
	return params;
}

static bool shards_optimizer(const struct sc_transformer *tf)
{
	return tf->request->config.parallel.sharding != SC_SHARD_NONE ||
	       tf->request->software.distributed_optimizer;
}

static int plan_class(struct sc_transformer *tf, uint32_t c, struct sc_build_scratch *scratch,
		      struct sc_err *err)
{
	const struct sc_rank_class *rc = &tf->placement.classes[c];
	struct sc_class_plan *plan = &tf->classes[c];
	double dp = shards_optimizer(tf) ? rc->group[SC_AXIS_DP].span.n_ranks : 1;
	double held = 1;
	int status = find_variant(tf, rc, scratch, &plan->variant, err);

	if (status)
		return status;
	plan->params = class_params(tf, rc->stage);
	for (uint32_t before = 0; before < c; before++)
		if (tf->classes[before].variant == plan->variant &&
		    fabs(tf->classes[before].params - plan->params) < 0.5) {
			plan->optimizer = tf->classes[before].optimizer;
			return 0;
		}
	if (tf->request->config.parallel.sharding >= SC_ZERO2 ||
	    tf->request->software.distributed_optimizer)
		held = dp; /* gradients are scattered, too */
	sc_transformer_optimizer(tf->request, &tf->variant[plan->variant].env, plan->params / held,
				 plan->params / dp, &tf->optimizer);
	status = sc_block_summarize(&tf->optimizer, &tf->variant[plan->variant].env, scratch, err);
	plan->optimizer = tf->optimizer.sum;
	return status;
}

static int place(struct sc_transformer *tf, struct sc_build_scratch *scratch, struct sc_err *err)
{
	const struct sc_config *cfg = &tf->request->config;
	const struct sc_parallel *par = &cfg->parallel;
	struct sc_layout layout = {
		.size = {[SC_AXIS_TP] = par->tp,
			 [SC_AXIS_CP] = par->cp,
			 [SC_AXIS_EP] = par->ep,
			 [SC_AXIS_DP] = par->dp,
			 [SC_AXIS_PP] = par->pp},
		.order = par->order,
		.gpus_per_node = tf->fabric.gpus_per_node, /* the scale-up domain, if wider */
		.unfolded = tf->opts->unfolded,
		.stragglers = cfg->stragglers.at,
		.n_stragglers = cfg->stragglers.n,
	};

	return sc_placement_build(&layout, scratch->arena, &tf->placement, err);
}

int sc_transformer_init(struct sc_transformer *tf, const struct sc_request *request,
			const struct sc_predict_opts *opts, struct sc_build_scratch *scratch,
			struct sc_err *err)
{
	const struct sc_parallel *par = &request->config.parallel;
	int rc;

	tf->request = request;
	tf->opts = opts;
	tf->n_variants = 0;
	tf->partial = request->last_micro_batch < (double)request->config.training.micro_batch;
	rc = sc_fabric_from_request(request, &tf->fabric, err);
	if (rc == 0)
		rc = place(tf, scratch, err);
	if (rc)
		return rc;
	tf->stage_layers = sc_arena_calloc(scratch->arena, (size_t)(par->pp * par->virtual_stages),
					   sizeof(*tf->stage_layers));
	sc_stage_layers(request, tf->stage_layers);
	tf->classes =
		sc_arena_calloc(scratch->arena, tf->placement.n_classes, sizeof(*tf->classes));
	for (uint32_t c = 0; c < tf->placement.n_classes && rc == 0; c++)
		rc = plan_class(tf, c, scratch, err);
	return rc;
}

void sc_transformer_release(struct sc_transformer *tf)
{
	for (size_t v = 0; v < SC_MAX_VARIANTS; v++)
		for (int p = 0; p < 2; p++)
			for (int id = 0; id < SC_N_BLOCKS; id++)
				sc_block_release(&tf->variant[v].block[p][id]);
	sc_block_release(&tf->optimizer);
}
