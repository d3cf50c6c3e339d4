/* Plans what a class of ranks holds and does once a step: the parameters of its stage, the replicas
 * that share them, and its optimizer. */
#include <math.h>

#include "core/config/config_schedule.h"
#include "models/offload.h"
#include "predict/transformer/build_transformer.h"

/* Returns the span of each n-th rank of a group, or of n neighbours, spread over nodes alike. */
static struct sc_span part_of_span(const struct sc_span *all, int n_ranks, bool neighbours)
{
	int stride = neighbours ? 1 : all->n_ranks / n_ranks;
	int per_node = (all->max_ranks_per_node + stride - 1) / stride;

	per_node = per_node < n_ranks ? per_node : n_ranks;
	return (struct sc_span){n_ranks, (n_ranks + per_node - 1) / per_node, per_node};
}

static struct sc_replica_spans replica_spans(const struct sc_span *all, int n_shard)
{
	return (struct sc_replica_spans){
		.all = *all,
		.shard = part_of_span(all, n_shard, true),
		.copies = part_of_span(all, all->n_ranks / n_shard, false),
	};
}

/* Finds a class's replicas; parallel.shard_ranks makes as many copies of experts as of all else. */
static void find_replicas(const struct sc_parallel *par, const struct sc_rank_class *rc,
			  struct sc_class_plan *plan)
{
	const struct sc_span *all = &rc->group[SC_AXIS_DP].span;
	int copies = par->shard_ranks > 0 ? all->n_ranks / (int)par->shard_ranks : 1;
	/* Each etp x ep-th rank of a stage has the same experts. */
	int group = (int)((par->etp > 0 ? par->etp : par->tp) * par->ep);
	int n = (int)(par->tp * par->cp * par->dp) / group;
	int per_node = (int)ceil(rc->stage_ranks_per_node / group);

	per_node = per_node < n ? per_node : n;
	struct sc_span expert = {n, (n + per_node - 1) / per_node, per_node};

	plan->replicas.dense = replica_spans(all, all->n_ranks / copies);
	plan->replicas.expert = replica_spans(&expert, expert.n_ranks / copies);
	plan->is_replicated = all->n_ranks > 1 || (plan->params.expert > 0 && expert.n_ranks > 1);
}

void sc_transformer_ends(const struct sc_transformer *tf, uint32_t stage, uint32_t chunk,
			 bool *embed, bool *head)
{
	uint32_t vs = sc_virtual_stage(&tf->map, stage, chunk);

	*embed = vs == 0;
	*head = vs + 1 == tf->map.depth;
	/* a stage's first and last chunk share them */
	if (sc_vocab_shares(&tf->request->config.parallel) > 1) {
		*embed = chunk == 0;
		*head = chunk + 1 == tf->map.n_chunks;
	}
}

struct sc_stage_parts sc_transformer_stage(const struct sc_transformer *tf, int stage)
{
	struct sc_stage_parts out = {0};

	for (uint32_t chunk = 0; chunk < tf->map.n_chunks; chunk++) {
		uint32_t vs = sc_virtual_stage(&tf->map, (uint32_t)stage, chunk);
		bool embed, head;

		for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
			out.layers.of[kind] += tf->stage_layers[vs].of[kind];
		sc_transformer_ends(tf, (uint32_t)stage, chunk, &embed, &head);
		out.embed = out.embed || embed;
		out.head = out.head || head;
	}
	return out;
}

void sc_transformer_plan_class(const struct sc_transformer *tf, uint32_t class_id)
{
	const struct sc_rank_class *rc = &tf->placement.classes[class_id];
	struct sc_class_plan *plan = &tf->classes[class_id];
	struct sc_stage_parts parts = sc_transformer_stage(tf, rc->stage);

	for (int kind = SC_N_LAYER_KINDS - 1; kind >= 0; kind--)
		sc_params_add(&plan->params, &tf->layer[kind], parts.layers.of[kind]);
	sc_params_add(&plan->params, &tf->embed, parts.embed);
	/* With several stages the tied word embedding has a copy. */
	if (!parts.embed || !tf->request->config.model.tied_embeddings)
		sc_params_add(&plan->params, &tf->head, parts.head);
	find_replicas(&tf->request->config.parallel, rc, plan);
}

int sc_transformer_plan_optimizer(struct sc_transformer *tf, uint32_t c, struct sc_err *err)
{
	const struct sc_rank_class *rc = &tf->placement.classes[c];
	struct sc_class_plan *plan = &tf->classes[c];
	struct sc_sharding_rule rule = sc_sharding_rule(tf->request);
	struct sc_stage_parts parts = sc_transformer_stage(tf, rc->stage);
	double shard = 1, expert_shard = 1, updated, held;
	struct sc_update update;
	int status;

	for (uint32_t before = 0; before < c; before++)
		if (tf->classes[before].variant == plan->variant &&
		    fabs(tf->classes[before].params.trainable - plan->params.trainable) < 0.5 &&
		    fabs(tf->classes[before].params.trainable_expert -
			 plan->params.trainable_expert) < 0.5) {
			plan->optimizer = tf->classes[before].optimizer;
			plan->host_optimizer_us = tf->classes[before].host_optimizer_us;
			return 0;
		}
	if (rule.states) {
		shard = plan->replicas.dense.shard.n_ranks;
		expert_shard = plan->replicas.expert.shard.n_ranks;
	}
	updated = plan->params.trainable / shard + plan->params.trainable_expert / expert_shard;
	held = plan->params.trainable + plan->params.trainable_expert;
	if (rule.scatters)
		held = updated; /* gradients are scattered, too */
	plan->host_optimizer_us = sc_quantize_us(sc_host_step_us(
		tf->request, &tf->fabric, updated, sc_transformer_update_bytes(tf->request)));
	updated *= 1 - sc_offload_states_frac(&tf->request->config.training.offload);
	update = (struct sc_update){.params = held,
				    .updated = updated,
				    .trainable = plan->params.trainable,
				    .replicas = plan->replicas.dense.all};
	if (updated > 0) {
		double share =
			update.updated / (plan->params.trainable + plan->params.trainable_expert);

		/* Each rank lists all of Muon's matrices, which steps share out by themselves. */
		if (rule.states && tf->request->config.training.optimizer == SC_OPT_MUON) {
			update.shard = plan->replicas.dense.shard;
			update.expert_shard = plan->replicas.expert.shard;
			share = 1;
		}

		for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
			update.layers.of[kind] = parts.layers.of[kind] * share;
	}
	sc_transformer_optimizer(&tf->variant[plan->variant]->env, &update, &tf->optimizer);
	status = sc_block_summarize(&tf->optimizer, &tf->variant[plan->variant]->env, tf->scratch,
				    err);
	plan->optimizer = tf->optimizer.sum;
	return status;
}
