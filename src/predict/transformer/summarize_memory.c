/* Memory of the rank class that is nearest to its GPU's capacity: what its pipeline stage holds at the
 * peak. */
#include <math.h>
#include <stdlib.h>

#include "models/activations.h"
#include "predict/transformer/summarize_priv.h"

static void fill_shape(const struct sc_run *run, uint32_t c, double in_flight,
		       struct sc_memory_shape *shape)
{
	const struct sc_transformer *tf = run->tf;
	const struct sc_request *request = tf->request;
	const struct sc_class_plan *plan = &tf->classes[c];
	int stage = tf->placement.classes[c].stage;
	struct sc_stage_parts parts = sc_transformer_stage(tf, stage);
	const struct sc_params *layer = parts.layers > 0 ? &tf->layer : &tf->dense_layer;
	struct sc_update update = {.layers = parts.layers,
				   .dense_layers = parts.dense,
				   .replicas = plan->replicas.dense.all};

	*shape = (struct sc_memory_shape){
		.params = plan->params,
		.expert_params = plan->expert_params,
		.trainable = plan->trainable,
		.trainable_expert = plan->trainable_expert,
		.shard_ranks = plan->replicas.dense.shard.n_ranks,
		.expert_shard_ranks = plan->replicas.expert.shard.n_ranks,
		.layer_params = layer->dense + layer->expert,
		.layers_in_flight = parts.layers * in_flight,
		.dense_layers_in_flight = parts.dense * in_flight,
		.samples = (double)request->config.training.micro_batch,
		.micro_batches_in_flight = in_flight,
		.matrix_bytes = sc_transformer_matrix_bytes(request, &update, false),
		.expert_matrix_bytes = sc_transformer_matrix_bytes(request, &update, true),
		.embed = parts.embed,
		.head = parts.head,
	};
}

void sc_memory_of_class(const struct sc_run *run, uint32_t c, double in_flight,
			struct sc_memory *out)
{
	const struct sc_transformer *tf = run->tf;
	struct sc_memory_shape shape;

	fill_shape(run, c, in_flight, &shape);
	sc_memory_estimate(tf->request, &shape, out);
	out->capacity_gib = sc_request_device(tf->request, tf->placement.classes[c].kind)->hbm_gib;
}

double sc_micro_batches_in_flight(const struct sc_run *run, int stage)
{
	struct sc_stage_parts parts = sc_transformer_stage(run->tf, stage);
	double kept = sc_weight_inputs_frac(run->tf->request, parts.layers, parts.dense);

	return sc_passes_peak(&run->built->passes, (uint32_t)stage, kept) / run->tf->map.n_chunks;
}

/* The ranks of a class's node hold together. */
static void sum_node(const struct sc_run *run, uint32_t c, struct sc_memory *out)
{
	const struct sc_placement *p = &run->tf->placement;

	out->host_gib = out->ssd_gib = 0;
	for (uint32_t d = 0; d < p->n_classes; d++) {
		const struct sc_rank_class *rc = &p->classes[d];
		struct sc_memory one;

		if (rc->nic_domain != p->classes[c].nic_domain)
			continue;
		sc_memory_of_class(run, d, sc_micro_batches_in_flight(run, rc->stage), &one);
		out->host_gib += rc->ranks_per_domain * one.host_gib;
		out->ssd_gib += rc->ranks_per_domain * one.ssd_gib;
	}
}

static bool is_first_of_node(const struct sc_run *run, uint32_t c)
{
	const struct sc_rank_class *classes = run->tf->placement.classes;
	uint32_t d = 0;

	while (classes[d].nic_domain != classes[c].nic_domain)
		d++;
	return d == c;
}

static void find_fullest_node(const struct sc_run *run, struct sc_memory *out)
{
	struct sc_memory node, most = {0};

	for (uint32_t c = 0; c < run->tf->placement.n_classes; c++) {
		if (!is_first_of_node(run, c))
			continue;
		sum_node(run, c, &node);
		most.host_gib = fmax(most.host_gib, node.host_gib);
		most.ssd_gib = fmax(most.ssd_gib, node.ssd_gib);
	}
	out->host_gib = most.host_gib;
	out->ssd_gib = most.ssd_gib;
}

void sc_fullest_memory(const struct sc_run *run, struct sc_memory *out)
{
	const struct sc_transformer *tf = run->tf;
	struct sc_memory now;

	for (uint32_t c = 0; c < tf->placement.n_classes; c++) {
		sc_memory_of_class(run, c,
				   sc_micro_batches_in_flight(run, tf->placement.classes[c].stage),
				   &now);
		if (c == 0 || sc_memory_fullness(&now) > sc_memory_fullness(out))
			*out = now;
	}
	if (out->host_gib > 0 || out->ssd_gib > 0)
		find_fullest_node(run, out);
}

void sc_memory_without_pipeline(const struct sc_request *request, struct sc_memory *out)
{
	const double on_node =
		fmin((double)sc_request_node_gpus(request), (double)request->config.gpus);
	struct sc_transformer *tf = sc_xcalloc(1, sizeof(*tf));
	const struct sc_run run = {.tf = tf};
	struct sc_arena arena;

	sc_arena_init(&arena, 0);
	sc_transformer_init_held(tf, request, &arena);
	sc_memory_of_class(&run, 0,
			   request->config.parallel.schedule == SC_SCHED_GPIPE
				   ? (double)request->n_micro_batches
				   : 1,
			   out);
	for (size_t k = 0; k < sc_request_n_kinds(request); k++)
		out->capacity_gib = fmin(out->capacity_gib, sc_request_device(request, k)->hbm_gib);
	out->host_gib *= on_node;
	out->ssd_gib *= on_node;
	sc_arena_release(&arena);
	free(tf);
}

static void warn_hosts(const struct sc_memory *m, struct sc_warnings *warnings)
{
	if (m->host_gib > 0 && m->host_gib > m->host_capacity_gib)
		sc_warn(warnings,
			"training.offload keeps %.0f GiB in a node's memory, which has %.0f GiB "
			"(cluster.host_memory_gib): it will not fit",
			m->host_gib, m->host_capacity_gib);
	if (m->ssd_gib > 0 && m->ssd_capacity_gib >= 0 && m->ssd_gib > m->ssd_capacity_gib)
		sc_warn(warnings,
			"training.offload keeps %.0f GiB on a node's SSDs, which have %.0f GiB "
			"(cluster.ssd_gib): it will not fit",
			m->ssd_gib, m->ssd_capacity_gib);
}

void sc_summarize_memory(const struct sc_run *run, struct sc_prediction *out)
{
	sc_fullest_memory(run, &out->memory);
	warn_hosts(&out->memory, &out->warnings);
	if (out->memory.total_gib > out->memory.capacity_gib)
		sc_warn(&out->warnings,
			"needs %.1f GiB per GPU, which has %.1f GiB: it will not fit; raise tp, pp or "
			"recompute, or lower micro_batch",
			out->memory.total_gib, out->memory.capacity_gib);
}
