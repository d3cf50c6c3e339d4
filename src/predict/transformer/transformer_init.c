/* Prepares a Transformer request for building: fabric, placement, and each variant's blocks. */
#include <gsl/gsl_cdf.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "core/config/config_schedule.h"
#include "models/collective/collective_files.h"
#include "predict/transformer/build_transformer.h"
#include "predict/transformer/transformer_memory.h"

const struct sc_fabric *sc_transformer_fabric(const struct sc_transformer *tf, uint32_t class_id,
					      enum sc_axis axis)
{
	const struct sc_placement *p = &tf->placement;
	const struct sc_axis_group *group = &p->classes[class_id].group[axis];
	const struct sc_member *m = p->members + group->first_member;
	uint8_t kind = p->classes[class_id].kind;

	if (sc_request_n_kinds(tf->request) == 1 || p->is_approximate)
		return &tf->fabric;
	for (uint32_t i = 0; i < group->n_members; i++)
		if (p->classes[m[i].class_id].kind != kind)
			return &tf->fabric;
	return &tf->kind_fabric[kind];
}

/* Sets the load of a collective beside a layer: of its sharded weights, or its gradients. */
static void beside(const struct sc_transformer *tf, uint32_t class_id, struct sc_block_env *env)
{
	const struct sc_rank_class *rc = &tf->placement.classes[class_id];
	struct sc_sharding_rule rule = sc_sharding_rule(tf->request);
	struct sc_block_env dp;
	struct sc_collective_shape shape = {
		rule.weights    ? SC_ALL_GATHER
		: rule.scatters ? SC_REDUCE_SCATTER
				: SC_ALL_REDUCE,
		(tf->layer->trainable + tf->layer->trainable_expert) * sc_grad_bytes(tf->request),
		SC_FP32,
	};

	if (rule.weights)
		shape.bytes = (tf->layer->dense + tf->layer->expert) *
			      sc_transformer_gathered_bytes(tf->request);
	dp = *env;
	dp.fabric = sc_transformer_fabric(tf, class_id, SC_AXIS_DP);
	sc_block_comm_by(&dp, SC_C3_DP, &shape, &rc->group[SC_AXIS_DP].span, &env->beside);
	for (int r = SC_RES_SM + 1; env->beside.beside_frac > 0 && r < SC_N_RES; r++)
		env->beside.demand[r] *= env->beside.beside_frac;
}

const enum sc_axis sc_comm_axis_of[SC_N_COMM_AXES] = {
	[SC_COMM_TP] = SC_AXIS_TP,
	[SC_COMM_CP] = SC_AXIS_CP,
	[SC_COMM_EP] = SC_AXIS_EP,
};

/* Returns how many ranks of the most crowded node share its NICs, as a group is as slow as that:
 * ranks there, of a stage, whose groups of the axis leave it. */
static double axis_node_peers(const struct sc_transformer *tf, const struct sc_rank_class *rc,
			      enum sc_axis axis)
{
	const struct sc_axis_group *group = &rc->group[axis];
	const struct sc_member *m = tf->placement.members + group->first_member;
	const struct sc_rank_class *all = tf->placement.classes;
	double most = 0;

	if (group->span.n_nodes <= 1)
		return 0;
	for (uint32_t i = 0; i < group->n_members; i++) {
		double n = 0;

		for (size_t c = 0; c < tf->placement.n_classes; c++)
			if (all[c].nic_domain == all[m[i].class_id].nic_domain &&
			    all[c].stage == all[m[i].class_id].stage &&
			    all[c].group[axis].span.n_nodes > 1)
				n += all[c].ranks_per_domain;
		most = fmax(most, n);
	}
	return most;
}

enum { HOPPER = 90 }; /* CUDA capability */

/* Synchronous training goes at the pace of the slowest of its GPUs, whose clocks differ under their
 * power limit (Sinha et al., "Not All GPUs Are Created Equal", SC22): the expected maximum of n
 * normal deviates (Blom 1958). */
static double slowest_clock(const struct sc_device *device, double n)
{
	double sigmas = gsl_cdf_ugaussian_Pinv((n - 0.375) / (n + 0.25));

	return 1 + device->gemm.clock_spread_frac * sigmas;
}

static bool same_env(const struct sc_block_env *a, const struct sc_block_env *b)
{
	for (int axis = 0; axis < SC_N_COMM_AXES; axis++)
		if (!(a->axis_fabric[axis] == b->axis_fabric[axis] &&
		      a->span[axis].n_ranks == b->span[axis].n_ranks &&
		      a->span[axis].n_nodes == b->span[axis].n_nodes &&
		      a->span[axis].max_ranks_per_node == b->span[axis].max_ranks_per_node &&
		      fabs(a->axis_node_peers[axis] - b->axis_node_peers[axis]) < 1e-9))
			return false;
	for (int r = 0; r < SC_N_RES; r++)
		if (fabs(a->beside.demand[r] - b->beside.demand[r]) >= 1e-9)
			return false;
	return fabs(a->node_peers - b->node_peers) < 1e-9 && a->device == b->device &&
	       a->stages_apart == b->stages_apart && fabs(a->slowdown - b->slowdown) < 1e-12;
}

static int add_variant(struct sc_transformer *tf, const struct sc_block_env *env,
		       struct sc_err *err)
{
	if (tf->n_variants == tf->variants_made) {
		tf->variant = sc_xrealloc(tf->variant, ++tf->variants_made, sizeof(*tf->variant));
		tf->variant[tf->n_variants] = sc_xcalloc(1, sizeof(**tf->variant));
	}
	tf->variant[tf->n_variants]->env = *env;
	return sc_variant_sum(tf, tf->variant[tf->n_variants++], err);
}

/* Passes alone do not see what runs beside them, but where it keeps SMs from them. */
static bool sees_beside(const struct sc_request *request, bool alone)
{
	bool keeps = false;

	for (int family = 0; family < SC_N_C3_FAMILIES; family++)
		keeps = keeps || sc_c3_keeps(&request->c3[family]);
	return !alone || keeps;
}

static int find_variant(struct sc_transformer *tf, uint32_t class_id, bool alone,
			struct sc_err *err)
{
	struct sc_block_env env = sc_block_env_of(tf->request, &tf->fabric, tf->opts);

	const struct sc_rank_class *rc = &tf->placement.classes[class_id];
	const struct sc_device *device = sc_request_device(tf->request, rc->kind);

	env.device = device;
	env.host_waits = tf->request->software.host_waits;
	env.launch_blocking = tf->request->config.training.launch_blocking;
	env.node_peers = rc->stage_ranks_per_node;
	env.stages_apart = rc->next_remote || rc->prev_remote;
	env.slowdown = rc->slowdown;
	env.attention_eff = device->cuda_capability >= HOPPER
				    ? tf->request->software.attention_eff_hopper
				    : tf->request->software.attention_eff;
	env.gemm_speed /= slowest_clock(device, (double)tf->request->config.gpus);
	env.host_speed /= device->host.slowdown;
	if (sees_beside(tf->request, alone))
		beside(tf, class_id, &env);
	for (int a = 0; a < SC_N_COMM_AXES; a++) {
		env.span[a] = rc->group[sc_comm_axis_of[a]].span;
		env.axis_node_peers[a] = axis_node_peers(tf, rc, sc_comm_axis_of[a]);
		env.axis_fabric[a] = sc_transformer_fabric(tf, class_id, sc_comm_axis_of[a]);
	}
	sc_block_reserve(&env);
	for (size_t v = 0; v < tf->n_variants; v++)
		if (same_env(&tf->variant[v]->env, &env)) {
			tf->classes[class_id].variant = (uint32_t)v;
			return 0;
		}
	tf->classes[class_id].variant = (uint32_t)tf->n_variants;
	return add_variant(tf, &env, err);
}

double sc_transformer_left(const struct sc_transformer *tf, const struct sc_layer_counts *layers)
{
	if (!sc_schedule_traits(tf->request->config.parallel.schedule).splits)
		return 0;
	return sc_weight_inputs_frac(tf->request, tf->layer_bytes, layers);
}

/* Returns the times of these layers, with or without the ends, on the first class's GPUs. */
static struct sc_pass_times pass_times(const struct sc_transformer *tf,
				       const struct sc_stage_parts *parts)
{
	const struct sc_block *b = tf->variant[tf->classes[0].variant]->block[0];
	bool splits = b[SC_BLOCK_HEAD_W].sum.gpu_us > 0;
	double embed = parts->embed, head = parts->head;
	struct sc_pass_times out = {
		.forward = embed * b[SC_BLOCK_EMBED_F].sum.gpu_us +
			   head * b[SC_BLOCK_HEAD_F].sum.gpu_us,
		.input = embed * b[SC_BLOCK_EMBED_B].sum.gpu_us +
			 head * b[splits ? SC_BLOCK_HEAD_I : SC_BLOCK_HEAD_B].sum.gpu_us,
		.weight = head * b[SC_BLOCK_HEAD_W].sum.gpu_us,
		.kept = sc_transformer_left(tf, &parts->layers),
	};

	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++) {
		const struct sc_block *of = b + sc_block_of(SC_BLOCK_LAYER_F, kind);
		double n = parts->layers.of[kind];

		out.forward += n * of->sum.gpu_us;
		out.input += n * of[splits ? 2 : 1].sum.gpu_us;
		out.weight += n * of[3].sum.gpu_us;
	}
	return out;
}

static struct sc_schedule_shape shape_of(const struct sc_transformer *tf, uint32_t micro_batches)
{
	struct sc_parallel par = tf->request->config.parallel;
	struct sc_schedule_shape shape;

	par.schedule = tf->schedule;
	shape = sc_schedule_shape_of(&par, micro_batches);
	if (shape.kind == SC_SCHED_FILE)
		shape.file = &tf->file;
	return shape;
}

uint32_t sc_transformer_micro_batches(const struct sc_transformer *tf)
{
	return (uint32_t)(tf->request->n_micro_batches *
			  sc_schedule_versions(&tf->request->config.parallel));
}

struct sc_schedule_shape sc_transformer_shape(const struct sc_transformer *tf,
					      uint32_t micro_batches)
{
	struct sc_schedule_shape shape = shape_of(tf, micro_batches);

	shape.left_out = sc_transformer_micro_batches(tf) - micro_batches;
	if (tf->n_variants == 0)
		return shape;
	shape.times = pass_times(
		tf, &(struct sc_stage_parts){.layers = tf->stage_layers[tf->map.depth / 2]});
	shape.stage_times = tf->stage_times;
	shape.period = tf->period;
	shape.way = tf->way;
	return shape;
}

static void split_layers(struct sc_transformer *tf, struct sc_arena *arena)
{
	const struct sc_config *cfg = &tf->request->config;
	const struct sc_schedule_shape shape = shape_of(tf, 1);
	size_t n = (size_t)(cfg->parallel.pp * cfg->parallel.virtual_stages);
	int64_t done = 0, *layers;

	sc_stage_map_init(&shape, arena, &tf->map);
	tf->stage_layers = sc_arena_calloc(arena, n, sizeof(*tf->stage_layers));
	layers = sc_arena_calloc(arena, n, sizeof(*layers));
	sc_stage_layers(tf->request, layers);
	for (size_t i = 0; i < n; i++) {
		tf->stage_layers[i] = sc_model_count(&cfg->model, done, done + layers[i]);
		done += layers[i];
	}
	tf->layers = sc_model_count(&cfg->model, 0, done);
	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
		if (kind == 0 || tf->layers.of[kind] > 0) {
			sc_transformer_layer_params(tf->request, kind, &tf->layer[kind]);
			tf->layer_bytes[kind] = sc_layer_bytes_of(
				tf->request, (double)cfg->training.micro_batch, kind);
		}
	sc_transformer_embed_params(tf->request, &tf->embed);
	sc_transformer_head_params(tf->request, &tf->head);
}

/* Sets the kinds of GPU by rank in a mixed cluster. */
static void set_kinds(const struct sc_request *request, struct sc_arena *arena,
		      struct sc_layout *layout)
{
	const struct sc_cluster *cl = &request->config.cluster;
	const struct sc_gpu_nodes *nodes = cl->nodes.at;
	enum sc_dtype dtype = sc_precision_dtype(request->config.training.precision);
	struct sc_gpu_run *runs;

	if (sc_request_n_kinds(request) == 1)
		return;
	runs = sc_arena_calloc(arena, cl->nodes.n, sizeof(*runs));
	for (size_t i = 0; i < cl->nodes.n; i++) {
		size_t kind = sc_request_kind_of(request, &nodes[i]);

		runs[i] = (struct sc_gpu_run){
			.n_ranks = (uint32_t)(nodes[i].count * cl->gpus_per_node),
			.kind = (uint8_t)kind,
			.speed = sc_request_device(request, kind)->peak_tflops[dtype],
		};
	}
	layout->runs = runs;
	layout->n_runs = cl->nodes.n;
}

static int place_ranks(struct sc_transformer *tf, struct sc_build_scratch *scratch,
		       struct sc_err *err)
{
	const struct sc_config *cfg = &tf->request->config;
	const struct sc_parallel *par = &cfg->parallel;
	struct sc_layout layout = {
		.size = {[SC_AXIS_TP] = par->tp,
			 [SC_AXIS_CP] = par->cp,
			 [SC_AXIS_EP] = par->ep,
			 [SC_AXIS_DP] = par->dp,
			 [SC_AXIS_PP] = par->pp},
		.etp = par->etp,
		.order = par->order,
		.gpus_per_node = tf->fabric.gpus_per_node, /* the scale-up domain's, if wider */
		.unfolded = tf->opts->unfolded,
		.stragglers = cfg->stragglers.at,
		.n_stragglers = cfg->stragglers.n,
	};

	set_kinds(tf->request, scratch->arena, &layout);
	return sc_placement_build(&layout, scratch->arena, &tf->placement, err);
}

/* Says whether activations go to the same stage or one beside it: where transfers have lanes. */
static bool has_neighbours(const struct sc_stage_map *map)
{
	for (uint32_t v = 1; v < map->depth; v++) {
		uint32_t a = map->place[v - 1].stage, b = map->place[v].stage;

		if (a != b && (a + 1) % map->pp != b && (b + 1) % map->pp != a)
			return false;
	}
	return true;
}

/* Returns the software's own schedule whose order the file has, as `stepcast schedule` writes it:
 * that one says how the host waits, and when the optimizer validates its step. */
static enum sc_schedule named_by_file(const struct sc_transformer *tf, struct sc_arena *arena)
{
	static const enum sc_schedule FIXED[] = {SC_SCHED_1F1B,          SC_SCHED_GPIPE,
						 SC_SCHED_ZB_H1,         SC_SCHED_ZB_H2,
						 SC_SCHED_BREADTH_FIRST, SC_SCHED_INTERLEAVED};
	const struct sc_stage_map *of_file = &tf->file.map;

	for (size_t i = of_file->n_chunks > 1 ? 4 : 0; i < (of_file->n_chunks > 1 ? 6 : 4); i++) {
		struct sc_parallel par = tf->request->config.parallel;
		struct sc_schedule_shape shape;
		struct sc_stage_map map;
		struct sc_passes passes;

		par.schedule = FIXED[i];
		shape = sc_schedule_shape_of(&par, tf->file.passes.micro_batches);
		sc_stage_map_init(&shape, arena, &map);
		sc_passes_build(&shape, &map, arena, &passes);
		if (sc_passes_are_equal(&passes, &tf->file.passes))
			return FIXED[i];
	}
	return SC_SCHED_FILE;
}

static int load_schedule(struct sc_transformer *tf, struct sc_arena *arena, struct sc_err *err)
{
	const struct sc_parallel *par = &tf->request->config.parallel;
	const struct sc_key_text given = {"parallel.schedule", par->schedule_file};
	const struct sc_stage_map *map = &tf->file.map;
	const char *path;
	int rc;

	tf->schedule = par->schedule;
	if (par->schedule == SC_SCHED_AUTO)
		return sc_err_set(err, SC_EUNSUPPORTED,
				  "parallel.schedule auto is chosen by predict, sweep, validate "
				  "and config show; name the schedule that they choose");
	if (par->schedule != SC_SCHED_FILE)
		return 0;
	rc = sc_config_file_of(&tf->request->config, given, arena, &path, err);
	if (rc == 0)
		rc = sc_schedule_file_load(path, arena, &tf->file, err);
	if (rc)
		return rc;
	if (map->pp != par->pp || map->n_chunks != par->virtual_stages ||
	    tf->file.passes.micro_batches != tf->request->n_micro_batches)
		return sc_err_set(err, SC_ECONFLICT,
				  "%s has %u ranks with %u stages each and %u micro-batches; the "
				  "request has parallel.pp %" PRId64 ", virtual_stages %" PRId64
				  " and %" PRId64 " micro-batches",
				  par->schedule_file, map->pp, map->n_chunks,
				  tf->file.passes.micro_batches, par->pp, par->virtual_stages,
				  tf->request->n_micro_batches);
	if (!has_neighbours(map))
		return sc_err_set(
			err, SC_EUNSUPPORTED,
			"%s: stages that follow each other are on ranks that do not; only "
			"neighbours can be predicted",
			par->schedule_file);
	tf->schedule = named_by_file(tf, arena);
	return 0;
}

void sc_transformer_init_held(struct sc_transformer *tf, const struct sc_request *request,
			      struct sc_arena *arena)
{
	const int dp = (int)(request->config.parallel.dp * request->config.parallel.cp);

	tf->request = request;
	tf->schedule = request->config.parallel.schedule;
	split_layers(tf, arena);
	tf->placement.n_classes = 1;
	tf->placement.classes = sc_arena_calloc(arena, 1, sizeof(*tf->placement.classes));
	tf->placement.classes->stage_ranks_per_node = 1;
	tf->placement.classes->group[SC_AXIS_DP].span = (struct sc_span){dp, dp, 1};
	tf->classes = sc_arena_calloc(arena, 1, sizeof(*tf->classes));
	sc_transformer_plan_class(tf, 0);
}

int sc_transformer_init_ranks(struct sc_transformer *tf, const struct sc_setup *setup,
			      struct sc_err *err)
{
	const struct sc_request *request = setup->request;
	struct sc_build_scratch *scratch = setup->scratch;
	int rc;

	tf->request = request;
	tf->opts = setup->opts;
	tf->scratch = scratch;
	tf->n_variants = 0;
	tf->period = 0;
	tf->partial = request->last_micro_batch < (double)request->config.training.micro_batch;
	rc = sc_fabric_from_request(request, &tf->fabric, err);
	if (rc == 0)
		rc = sc_collective_files_load(request, scratch->arena, &tf->fabric, err);
	for (size_t k = 0; rc == 0 && k < request->n_kinds; k++)
		rc = sc_fabric_of_kind(request, k, &tf->kind_fabric[k], err);
	if (rc == 0)
		rc = place_ranks(tf, scratch, err);
	if (rc == 0)
		rc = load_schedule(tf, scratch->arena, err);
	if (rc)
		return rc;
	split_layers(tf, scratch->arena);
	tf->classes =
		sc_arena_calloc(scratch->arena, tf->placement.n_classes, sizeof(*tf->classes));
	for (uint32_t c = 0; c < tf->placement.n_classes; c++)
		sc_transformer_plan_class(tf, c);
	return 0;
}

int sc_transformer_init_passes(struct sc_transformer *tf, bool alone, struct sc_err *err)
{
	int rc = 0;

	for (uint32_t c = 0; c < tf->placement.n_classes && rc == 0; c++)
		rc = find_variant(tf, c, alone, err);
	return rc ? rc : sc_transformer_find_pairs(tf, tf->scratch, err);
}

int sc_transformer_init_times(struct sc_transformer *tf, const struct sc_setup *setup,
			      struct sc_err *err)
{
	struct sc_build_scratch *scratch = setup->scratch;
	int rc = sc_transformer_init_passes(tf, false, err);

	for (uint32_t c = 0; c < tf->placement.n_classes && rc == 0; c++)
		rc = sc_transformer_plan_optimizer(tf, c, err);
	if (rc == 0) {
		if (!tf->way)
			tf->way = sc_xcalloc(1, sizeof(*tf->way));
		tf->stage_times =
			sc_arena_calloc(scratch->arena, tf->map.pp, sizeof(*tf->stage_times));
		for (uint32_t s = 0; s < tf->map.pp; s++) {
			struct sc_stage_parts parts = sc_transformer_stage(tf, (int)s);

			tf->stage_times[s] = pass_times(tf, &parts);
		}
		/* A period is sought where a run is long enough that skipping it pays. */
		uint32_t n = (uint32_t)tf->request->n_micro_batches;
		struct sc_schedule_shape shape = sc_transformer_shape(tf, n);

		tf->period = 0;
		if (sc_schedule_traits(shape.kind).is_found && n > 8 * shape.pp &&
		    tf->opts->detail == SC_DETAIL_COARSE)
			tf->period = sc_schedule_find_period(&shape, &tf->map, scratch->arena);
	}
	return rc;
}

int sc_transformer_init(struct sc_transformer *tf, const struct sc_setup *setup, struct sc_err *err)
{
	int rc = sc_transformer_init_ranks(tf, setup, err);

	return rc ? rc : sc_transformer_init_times(tf, setup, err);
}

void sc_transformer_release(struct sc_transformer *tf)
{
	for (size_t v = 0; v < tf->variants_made; v++) {
		for (int p = 0; p < 2; p++)
			for (int id = 0; id < SC_N_BLOCKS; id++)
				sc_block_release(&tf->variant[v]->block[p][id]);
		free(tf->variant[v]);
	}
	free(tf->variant);
	free(tf->way);
	sc_graph_store_destroy(tf->store);
	tf->store = NULL;
	tf->variant = NULL;
	tf->way = NULL;
	tf->variants_made = 0;
	sc_block_release(&tf->optimizer);
}
