/* The copies of training.offload beside the passes: weights and activations that come from the
 * host, activations and gradients that go there. Copies have a lane each way; those of a pass come
 * while the one before runs, if the software fetches ahead, and the next pass begins when what this
 * one sends is gone. A pass stands between build_pass_begin and build_pass_end, which takes its
 * last node and returns the node after which its output is there. */
#include "base/units.h"
#include "models/offload.h"
#include "predict/op_names.h"
#include "predict/transformer/build_priv.h"

/* The us of copies each way, and of those that kernels wait for. */
struct traffic {
	double in_us, out_us, blocking_us;
};

/* `gbps` is by enum sc_offload_tier. */
static double copy_us(double bytes, const double *gbps, int tier)
{
	return tier > SC_TIER_NONE && bytes > 0 ? sc_bytes_us(bytes, gbps[tier]) : 0;
}

/* Returns this rank's share of parameters outside experts and in them, where they are sharded. */
static double own_share(const struct sc_replicas *copies, bool sharded, double dense, double expert)
{
	if (!sharded)
		return dense + expert;
	return dense / copies->dense.shard.n_ranks + expert / copies->expert.shard.n_ranks;
}

static struct traffic traffic_of(const struct class_state *st, const struct sc_slot *slot,
				 bool partial)
{
	const struct builder *b = st->b;
	const struct sc_transformer *tf = b->tf;
	const struct sc_request *req = tf->request;
	const struct sc_offload *off = &req->config.training.offload;
	const struct sc_host_rates *rates = &b->host_rates;
	const struct sc_replicas *copies = &tf->classes[st->id].replicas;
	const bool forward = slot->kind == SC_PASS_FORWARD;
	const int on = tf->placement.classes[st->id].stage;
	struct sc_stage_parts stage = sc_transformer_stage(tf, on);
	struct sc_stage_parts part = {.layers = tf->stage_layers[slot->virtual_stage]};
	struct sc_params params = {0};
	struct traffic out = {0};
	double kept = 0;

	sc_transformer_ends(tf, (uint32_t)on, slot->chunk, &part.embed, &part.head);
	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++) {
		kept += part.layers.of[kind] * b->layer_kept[partial][kind];
		sc_params_add(&params, &tf->layer[kind], part.layers.of[kind]);
	}
	kept *= sc_offload_layers_frac(off, sc_layers_in_all(&stage.layers));
	sc_params_add(&params, &tf->embed, part.embed);
	sc_params_add(&params, &tf->head, part.head);
	if (slot->kind != SC_PASS_BACKWARD_WEIGHT) {
		out.in_us += copy_us(
			own_share(copies, b->sharding.weights, params.dense, params.expert) *
				sc_transformer_gathered_bytes(req),
			rates->in, off->weights);
		*(req->software.blocking_checkpoints ? &out.blocking_us
		  : forward                          ? &out.out_us
						     : &out.in_us) +=
			copy_us(kept, forward ? rates->out : rates->in, off->activations);
	}
	if (sc_pass_makes_gradients((enum sc_pass_kind)slot->kind))
		out.out_us += copy_us(own_share(copies, b->sharding.gradients, params.trainable,
						params.trainable_expert) *
					      sc_grad_bytes(req),
				      rates->out, off->gradients);
	return out;
}

static uint32_t add_copy(struct class_state *st, uint32_t lane, double us, unsigned name)
{
	struct copy_cost *last = &st->b->last_copy[name == SC_NAME_TO_HOST];

	if (us <= 0)
		return SC_NONE;
	/* Nearly all copies of a class in one direction take as long as the one before. */
	if (us < last->us || us > last->us) {
		const struct sc_cost cost = {.work_us = sc_quantize_us(us),
					     .owner_frac[SC_OWN_COMM] = 1};

		*last = (struct copy_cost){us, sc_graph_add_cost(st->b->graph, &cost)};
	}
	return sc_graph_add_node(st->b->graph, SC_NODE_COPY, lane,
				 (struct sc_node_use){last->cost, name});
}

struct pass_copies build_pass_begin(struct class_state *st, const struct sc_slot *slot,
				    bool partial)
{
	struct traffic us = traffic_of(st, slot, partial);
	bool ahead = st->b->tf->request->config.training.offload.prefetch_layers > 0;
	uint32_t after = ahead ? st->began_after : st->last_compute;
	struct pass_copies out = {
		.from_host = add_copy(st, st->lanes.from_host, us.in_us, SC_NAME_FROM_HOST),
		.to_host = add_copy(st, st->lanes.to_host, us.out_us, SC_NAME_TO_HOST),
		.began_after = st->last_compute,
	};

	uint32_t waited =
		add_copy(st, st->lanes.compute, us.blocking_us,
			 slot->kind == SC_PASS_FORWARD ? SC_NAME_TO_HOST : SC_NAME_FROM_HOST);

	if (waited != SC_NONE)
		build_compute_after(st, waited);
	if (out.from_host != SC_NONE && after != SC_NONE)
		sc_graph_add_dep(st->b->graph, out.from_host, after);
	if (out.to_host != SC_NONE && st->last_compute != SC_NONE)
		sc_graph_add_dep(st->b->graph, out.to_host, st->last_compute);
	if (out.from_host != SC_NONE && !ahead) {
		build_compute_after(st, out.from_host);
		out.from_host = SC_NONE;
	}
	return out;
}

/* Lets compute go on after a copy. The pass's end may be a collective, which is not on the compute
 * lane. */
static uint32_t go_on_after(struct class_state *st, enum sc_beside_kind kind, uint32_t copy,
			    uint32_t node)
{
	st->last[kind] = copy;
	build_compute_after(st, copy);
	sc_graph_add_dep(st->b->graph, st->last_compute, node);
	return st->last_compute;
}

uint32_t build_pass_end(struct class_state *st, const struct pass_copies *copies, uint32_t node)
{
	if (copies->from_host != SC_NONE)
		node = go_on_after(st, SC_BESIDE_FROM_HOST, copies->from_host, node);
	if (copies->to_host != SC_NONE)
		go_on_after(st, SC_BESIDE_TO_HOST, copies->to_host, node);
	st->began_after = copies->began_after;
	return node;
}
