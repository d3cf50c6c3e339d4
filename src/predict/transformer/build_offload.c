/* training.offload beside the passes: weights and activations that come from the host, activations and gradients
 * that go there. Copies have a lane each way; those of a pass come while the one before runs, if the software
 * fetches ahead, and the next pass begins when what this one sends is gone. */
#include "base/units.h"
#include "models/activations.h"
#include "predict/op_names.h"
#include "predict/transformer/build_priv.h"

/* What of the model a pass runs. */
static struct sc_stage_parts part_of(const struct class_state *st, const struct sc_slot *slot)
{
	const struct sc_transformer *tf = st->b->tf;
	uint32_t vs = slot->virtual_stage;
	struct sc_stage_parts part = {.dense = (double)tf->stage_dense[vs]};

	part.layers = (double)tf->stage_layers[vs] - part.dense;
	sc_transformer_ends(tf, (uint32_t)tf->placement.classes[st->id].stage, slot->chunk,
			    &part.embed, &part.head);
	return part;
}

static void add_params(struct sc_params *sum, const struct sc_params *one, double n)
{
	sum->dense += n * one->dense;
	sum->expert += n * one->expert;
	sum->trainable += n * one->trainable;
	sum->trainable_expert += n * one->trainable_expert;
}

static struct sc_params params_of(const struct sc_transformer *tf,
				  const struct sc_stage_parts *part)
{
	struct sc_params sum = {0};

	add_params(&sum, &tf->layer, part->layers);
	add_params(&sum, &tf->dense_layer, part->dense);
	add_params(&sum, &tf->embed, part->embed);
	add_params(&sum, &tf->head, part->head);
	return sum;
}

static double kept_bytes(const struct class_state *st, const struct sc_stage_parts *part,
			 bool partial)
{
	const struct sc_transformer *tf = st->b->tf;
	const struct sc_request *req = tf->request;
	double samples = partial ? req->last_micro_batch : (double)req->config.training.micro_batch;
	struct sc_stage_parts stage = sc_transformer_stage(tf, tf->placement.classes[st->id].stage);
	double share =
		sc_offload_layers_frac(&req->config.training.offload, stage.layers + stage.dense);

	return share * (part->layers * sc_layer_kept_bytes(req, samples, false) +
			part->dense * sc_layer_kept_bytes(req, samples, true));
}

/* us each way */
struct traffic {
	double in_us, out_us;
};

/* `gbps`: by enum sc_offload_tier */
static double copy_us(double bytes, const double *gbps, int tier)
{
	return tier > SC_TIER_NONE && bytes > 0 ? sc_bytes_us(bytes, gbps[tier]) : 0;
}

/* Of parameters outside experts and in them what is this rank's, where they are sharded. */
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
	const struct sc_offload *off = &b->tf->request->config.training.offload;
	const struct sc_host_rates *rates = &b->host_rates;
	enum sc_pass_kind kind = (enum sc_pass_kind)slot->kind;
	struct sc_stage_parts part = part_of(st, slot);
	struct sc_params params = params_of(b->tf, &part);
	double kept = kept_bytes(st, &part, partial);
	const struct sc_replicas *copies = &b->tf->classes[st->id].replicas;
	struct traffic out = {0};
	double weights, gradients;

	weights = own_share(copies, b->sharding.weights, params.dense, params.expert) *
		  sc_transformer_gathered_bytes(b->tf->request);
	gradients = own_share(copies, b->sharding.gradients, params.trainable,
			      params.trainable_expert) *
		    sc_grad_bytes(b->tf->request);
	if (kind != SC_PASS_BACKWARD_WEIGHT)
		out.in_us += copy_us(weights, rates->in, off->weights);
	if (kind == SC_PASS_FORWARD)
		out.out_us += copy_us(kept, rates->out, off->activations);
	else if (kind != SC_PASS_BACKWARD_WEIGHT)
		out.in_us += copy_us(kept, rates->in, off->activations);
	if (sc_pass_makes_gradients(kind))
		out.out_us += copy_us(gradients, rates->out, off->gradients);
	return out;
}

static uint32_t add_copy(struct class_state *st, uint32_t lane, double us, unsigned name)
{
	struct sc_cost cost = {.work_us = sc_quantize_us(us), .owner_frac[SC_OWN_COMM] = 1};

	if (us <= 0)
		return SC_NONE;
	return sc_graph_add_node(
		st->b->graph, SC_NODE_COPY, lane,
		(struct sc_node_use){sc_graph_add_cost(st->b->graph, &cost), name});
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

/* The pass's end may be a collective, which is not on the compute lane. */
static uint32_t go_on_after(struct class_state *st, uint32_t copy, uint32_t node)
{
	build_compute_after(st, copy);
	sc_graph_add_dep(st->b->graph, st->last_compute, node);
	return st->last_compute;
}

uint32_t build_pass_end(struct class_state *st, const struct pass_copies *copies, uint32_t node)
{
	if (copies->from_host != SC_NONE)
		node = go_on_after(st, copies->from_host, node);
	if (copies->to_host != SC_NONE)
		go_on_after(st, copies->to_host, node);
	st->began_after = copies->began_after;
	return node;
}
