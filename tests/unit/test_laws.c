/* Laws of an iteration: its bytes fit through its NICs, full detail says the same, and what an
 * explanation says of a change is the prediction with it. Every example and configs at random. */
#include "base/units.h"
#include "predict/transformer/build_transformer.h"
#include "random_config.h"
#include "runner.h"
#include "study/explain/explain.h"

#include "example_fixture.h"

enum { N_RANDOM = 1000, N_AT_ONCE = 100 };
#define NEAR 0.01
#define FAR 0.1

static struct sc_request request;
static struct sc_prediction out;

/* False: refused. */
static bool predict(void)
{
	struct sc_err err = {0};

	if (sc_predict(predictor, &request, &opts, &out, &err))
		return false;
	ck_assert_double_le(out.mfu, 1);
	size_t ranks = out.reading.ranks_left_out;

	for (size_t i = 0; i < out.reading.n_classes; i++)
		ranks += out.reading.classes[i].ranks;
	ck_assert_uint_eq(ranks, (size_t)request.config.gpus);
	return true;
}

static bool resolve_random(int seed)
{
	struct sc_config config;
	struct sc_err err = {0};

	load_random((uint64_t)seed, &config);
	return sc_config_resolve(&config, catalog, NULL, &request, &err) == 0 && predict();
}

/* A rank's part of what leaves its node, where each of its group has to have what all others bring:
 * what is in the node need not. */
static double out_of_node(const struct sc_span *span, double bytes)
{
	return bytes * (1.0 / span->max_ranks_per_node - 1.0 / span->n_ranks);
}

static double reduced_bytes(bool scatters, const struct sc_replica_spans *spans, double bytes)
{
	if (!scatters)
		return 2 * out_of_node(&spans->all, bytes);
	return out_of_node(&spans->shard, bytes) +
	       2 * out_of_node(&spans->copies, bytes / spans->shard.n_ranks);
}

/* Of one rank of a class, whatever the algorithms: its weights and gradients. */
static double exchanged_bytes(const struct sc_transformer *tf, uint32_t c)
{
	const struct sc_class_plan *plan = &tf->classes[c];
	const struct sc_sharding_rule rule = sc_sharding_rule(tf->request);
	const double n = (double)tf->request->n_micro_batches;
	double grads = sc_grad_bytes(tf->request), weights = 0;
	const struct sc_replicas *spans = &plan->replicas;

	if (rule.gradients && rule.each)
		grads *= n;
	if (rule.weights)
		weights = (rule.each ? n : 1) * (rule.each ? 2 : 1) *
			  sc_transformer_gathered_bytes(tf->request);
	return reduced_bytes(rule.scatters, &spans->dense, grads * plan->params.trainable) +
	       reduced_bytes(rule.scatters, &spans->expert, grads * plan->params.trainable_expert) +
	       out_of_node(&spans->dense.shard, weights * plan->params.dense) +
	       out_of_node(&spans->expert.shard, weights * plan->params.expert);
}

/* Of one rank, in one run of a block: its collectives of tensor, context and expert parallelism.
 * Tokens that are sent once to a node are fewer than the ranks' bytes say: left out. */
static double block_bytes(const struct sc_block_env *env, enum sc_block_id id)
{
	struct sc_block_list list = {0};
	struct sc_block block = {.list = &list};
	double bytes = 0;

	sc_transformer_block(env, id, (double)request.config.training.micro_batch, &block);
	for (size_t i = 0; i < list.items.n; i++) {
		const struct sc_block_item *item = &list.items.at[i];
		const struct sc_collective_shape *shape = &item->op.u.collective;
		const struct sc_span *span = &env->span[item->axis];

		if (item->op.kind != SC_OP_COLLECTIVE || span->n_nodes < 2)
			continue;
		if (shape->kind == SC_SEND_RECV)
			bytes += shape->bytes / span->max_ranks_per_node;
		else if (shape->kind != SC_ALL_TO_ALL)
			bytes += out_of_node(span, shape->bytes) *
				 (shape->kind == SC_ALL_REDUCE ? 2 : 1);
		else if (request.config.training.moe_dispatcher == SC_DISPATCH_ALL_TO_ALL)
			bytes += shape->bytes / span->n_ranks *
				 (span->n_ranks - span->max_ranks_per_node);
	}
	sc_block_release(&block);
	SC_VEC_RELEASE(&list.items);
	return bytes;
}

/* Of one rank of a class in a step, without what it sends to other stages. */
static double layers_bytes(const struct sc_transformer *tf, uint32_t c)
{
	const struct sc_block_env *env = &tf->variant[tf->classes[c].variant]->env;
	const struct sc_stage_parts parts =
		sc_transformer_stage(tf, tf->placement.classes[c].stage);
	const double batches =
		(double)request.n_micro_batches - 1 +
		request.last_micro_batch / (double)request.config.training.micro_batch;

	double bytes = 0;

	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
		for (int of = SC_BLOCK_LAYER_F; of <= SC_BLOCK_LAYER_B; of++)
			if (parts.layers.of[kind] > 0)
				bytes += parts.layers.of[kind] *
					 block_bytes(env, (enum sc_block_id)sc_block_of(
								  (enum sc_block_id)of, kind));
	return batches * bytes;
}

/* How long the NICs of the busiest node take at line rate for what the data-parallel ranks must
 * exchange; with `all`, for what the layers' own collectives must, too. */
static double nic_ms(bool all)
{
	static struct sc_transformer tf;
	struct sc_build_scratch scratch;
	const struct sc_setup setup = {&request, &opts, &scratch, NULL};
	struct sc_arena own;
	struct sc_err err = {0};
	double most = 0, gbps;

	sc_arena_init(&own, 1 << 16);
	sc_build_scratch_init(&scratch, &own);
	ck_assert_msg(sc_transformer_init(&tf, &setup, &err) == 0, "%s", err.text);
	for (uint32_t node = 0; node < tf.placement.n_classes; node++) {
		double bytes = 0;

		for (uint32_t c = 0; c < tf.placement.n_classes; c++)
			if (tf.placement.classes[c].nic_domain == node)
				bytes += tf.placement.classes[c].ranks_per_domain *
					 (exchanged_bytes(&tf, c) +
					  (all ? layers_bytes(&tf, c) : 0));
		most = fmax(most, bytes);
	}
	gbps = tf.fabric.nics_per_node * tf.fabric.nic_gbps;
	sc_transformer_release(&tf);
	sc_build_scratch_release(&scratch);
	sc_arena_release(&own);
	return most > 0 ? sc_bytes_us(most, gbps) / SC_US_PER_MS : 0;
}

/* Of the request that was predicted last; with twice the NICs its time is between half and all of
 * it. Returns what these cost, as a share, where they cost something. */
static double check_nics(const char *what)
{
	double ms = out.iteration_ms, least_ms = nic_ms(false);

	ck_assert_msg(least_ms <= ms, "%s: %g ms, its NICs take %g", what, ms, least_ms);
	request.config.cluster.nics_per_node *= 2;
	ck_assert(predict());
	ck_assert_msg(out.iteration_ms >= ms / 2, "%s: %g ms, of twice the NICs %g", what, ms,
		      out.iteration_ms);
	ck_assert_msg(out.iteration_ms <= ms * (1 + FAR), "%s: %g ms, of twice the NICs %g", what,
		      ms, out.iteration_ms);
	return out.iteration_ms / ms - 1;
}

FIXTURE(set_up, tear_down)

LOOP_TEST(bytes_of_examples_fit_their_nics, find_examples())
{
	struct sc_config config;
	struct sc_err err = {0};

	load_example(_i, &config);
	ck_assert_msg(sc_config_resolve(&config, catalog, NULL, &request, &err) == 0, "%s",
		      err.text);
	if (!sc_model_is_transformer(&request.config.model) || !predict())
		return;
	ck_assert_double_lt(check_nics(example_name(_i)), NEAR);
}

/* NCCL's channels are more with more NICs, and an engine of lanes is not monotone (Graham 1969): of
 * the first 5,300 configs two take more than 1 % longer with twice the NICs. */
LOOP_TEST(bytes_fit_the_nics, N_RANDOM / N_AT_ONCE)
{
	int n_slower = 0;

	for (int i = 0; i < n_cases(N_AT_ONCE); i++) {
		char what[32];

		snprintf(what, sizeof(what), "config %d", _i * N_AT_ONCE + i);
		if (resolve_random(_i * N_AT_ONCE + i))
			n_slower += check_nics(what) > NEAR;
	}
	ck_assert_int_le(n_slower, 1);
}

/* Experts' reductions share NICs, the dense ones do not: both at once are as long as both. */
LOOP_TEST(merged_reductions_fit_their_nics, 3)
{
	static const char TEXT[] =
		"cluster.gpu=h100-sxm-80gb cluster.gpus_per_node=8 cluster.nic_gbit_s=400 "
		"cluster.nics_per_node=%d model=models/llama4-scout.yaml parallel.tp=1 parallel.pp=1 "
		"parallel.cp=2 parallel.dp=12 parallel.sharding=zero3 parallel.ep=8 training.global_batch=12 "
		"training.micro_batch=1 training.precision=bf16";
	struct sc_config config;
	struct sc_err err = {0};
	char text[RANDOM_TEXT];

	snprintf(text, sizeof(text), TEXT, 1 << _i);
	sc_config_init(&config);
	set_all(&config, text);
	ck_assert_msg(sc_config_resolve(&config, catalog, NULL, &request, &err) == 0, "%s",
		      err.text);
	ck_assert(predict());
	ck_assert_double_lt(check_nics(text), 0);
}

/* What the data-parallel ranks exchange passes the NICs of the fuller node: with some ranks more on
 * the other one it takes as long, whatever these are. */
LOOP_TEST(half_filled_node_is_no_slower, 3)
{
	static const char TEXT[] =
		"cluster.gpu=h100-sxm-80gb cluster.gpus_per_node=8 cluster.nic_gbit_s=200 "
		"cluster.nics_per_node=2 model=models/llama3-8b.yaml parallel.tp=1 parallel.pp=1 parallel.dp=%d "
		"training.global_batch=%d training.micro_batch=1 training.precision=bf16 parallel.sharding=%s";
	static const char *const SHARDINGS[] = {"none", "zero1", "zero3"};
	double ms[2];

	for (int i = 0; i < 2; i++) {
		const int ranks = i ? 16 : 10; /* 8 + 8, 8 + 2 */
		struct sc_config config;
		struct sc_err err = {0};
		char text[RANDOM_TEXT];

		snprintf(text, sizeof(text), TEXT, ranks, ranks, SHARDINGS[_i]);
		sc_config_init(&config);
		set_all(&config, text);
		ck_assert_msg(sc_config_resolve(&config, catalog, NULL, &request, &err) == 0, "%s",
			      err.text);
		ck_assert(predict());
		ms[i] = out.iteration_ms;
	}
	ck_assert_double_le(ms[0], ms[1] * (1 + NEAR));
}

/* Of more kinds of ranks than are kept, the others are counted. */
TEST(ranks_that_are_left_out_are_counted)
{
	struct sc_config config;
	char text[] =
		"cluster.gpu=b200-sxm-180gb cluster.gpus_per_node=72 cluster.nics_per_node=8 "
		"cluster.nic_gbit_s=400 gpus=8192 model=models/gpt-175b.yaml parallel.tp=16 parallel.pp=8 "
		"training.global_batch=512 training.micro_batch=1 training.precision=bf16";

	sc_config_init(&config);
	set_all(&config, text);
	ck_assert_int_eq(sc_config_resolve(&config, catalog, NULL, &request, NULL), 0);
	ck_assert(predict());
	ck_assert_uint_eq(out.reading.n_classes, SC_MAX_CLASSES_SHOWN);
	ck_assert_uint_eq(out.reading.classes_left_out, 768);
	ck_assert_uint_eq(out.reading.ranks_left_out, 6144);
}

/* Products of Pascal's P4 run in fp32, 64 times as fast as its fp16. */
TEST(mfu_is_of_the_faster_peak)
{
	struct sc_config config;
	char text[] =
		"cluster.gpu=p4 gpus=1 model=models/opt-350m.yaml parallel.tp=1 training.global_batch=1 "
		"training.precision=fp16";

	sc_config_init(&config);
	set_all(&config, text);
	ck_assert_int_eq(sc_config_resolve(&config, catalog, NULL, &request, NULL), 0);
	ck_assert(predict());
}

/* Of the first 4,947 configs 31 are more than 1 % off, five more than 3 %. One of these, beyond
 * those tried here, is 18 % off: number 3149, whose host decides. */
LOOP_TEST(coarse_is_full, N_RANDOM / N_AT_ONCE)
{
	enum { MOST_LAYERS = 400 }; /* of all micro-batches: full detail takes time */
	int n_off = 0;

	for (int i = 0; i < n_cases(N_AT_ONCE); i++) {
		double coarse_ms;

		if (!resolve_random(_i * N_AT_ONCE + i) ||
		    request.config.model.layers * request.n_micro_batches > MOST_LAYERS)
			continue;
		coarse_ms = out.iteration_ms;
		opts.detail = SC_DETAIL_FULL;
		ck_assert(predict());
		opts.detail = SC_DETAIL_COARSE;
		ck_assert_msg(fabs(coarse_ms / out.iteration_ms - 1) < FAR,
			      "config %d: %g ms, in full detail %g", _i * N_AT_ONCE + i, coarse_ms,
			      out.iteration_ms);
		n_off += fabs(coarse_ms / out.iteration_ms - 1) > NEAR;
	}
	ck_assert_int_le(n_off, 1 + n_cases(N_AT_ONCE) / 50);
}

/* What a predictor remembers of configs before, and leaves out where the reading is brief, shows in
 * no bit. */
LOOP_TEST(what_is_remembered_does_not_show, N_RANDOM / N_AT_ONCE)
{
	struct sc_predictor *const warm = predictor;

	for (int i = 0; i < n_cases(N_AT_ONCE); i++) {
		struct sc_prediction cold;

		predictor = sc_predictor_create();
		const bool is_legal = resolve_random(_i * N_AT_ONCE + i);
		sc_predictor_destroy(predictor);
		predictor = warm;
		if (!is_legal)
			continue;
		cold = out;
		for (int brief = 0; brief < 2; brief++) {
			opts.brief = brief;
			ck_assert(predict());
			ck_assert(out.iteration_ms == cold.iteration_ms &&
				  out.low_ms == cold.low_ms && out.mfu == cold.mfu &&
				  out.n_nodes == cold.n_nodes &&
				  out.network_gbps == cold.network_gbps);
			ck_assert_mem_eq(out.reading.breakdown_ms, cold.reading.breakdown_ms,
					 sizeof(cold.reading.breakdown_ms));
			ck_assert(out.reading.comm_ms == (brief ? 0 : cold.reading.comm_ms));
			ck_assert(out.memory.total_gib == cold.memory.total_gib);
			ck_assert_uint_eq(out.reading.n_path, brief ? 0 : cold.reading.n_path);
		}
		opts.brief = false;
	}
}

/* Switches that add are one way more. Of 2,659 configs none is slower by 1e-4. */
LOOP_TEST(switches_that_add_are_no_slower, N_RANDOM / N_AT_ONCE)
{
	for (int i = 0; i < n_cases(N_AT_ONCE); i++) {
		double ms;

		if (!resolve_random(_i * N_AT_ONCE + i))
			continue;
		ms = out.iteration_ms;
		request.config.cluster.sharp = 1;
		ck_assert(predict());
		ck_assert_msg(out.iteration_ms <= ms * (1 + NEAR),
			      "config %d: %g ms, where switches add %g", _i * N_AT_ONCE + i, ms,
			      out.iteration_ms);
	}
}

/* Gathers of weights and, beside them, of tensor parallelism over one slow NIC a node: the step is
 * no shorter than both. */
TEST(axes_share_their_nics)
{
	char text[] =
		"cluster.gpu=h100-sxm-80gb cluster.gpus_per_node=8 cluster.nic_gbit_s=200 gpus=32 "
		"cluster.nics_per_node=1 model=models/llama3-8b.yaml parallel.tp=16 parallel.cp=1 "
		"training.global_batch=8 training.micro_batch=1 training.precision=bf16 parallel.sharding=zero3";
	struct sc_config config;
	struct sc_err err = {0};

	sc_config_init(&config);
	set_all(&config, text);
	ck_assert_msg(sc_config_resolve(&config, catalog, NULL, &request, &err) == 0, "%s",
		      err.text);
	ck_assert(predict());
	ck_assert_double_le(nic_ms(true), out.iteration_ms);
}

/* Collectives of all axes share the NICs. */
LOOP_TEST(bytes_of_all_axes_fit_the_nics, N_RANDOM / N_AT_ONCE)
{
	for (int i = 0; i < n_cases(N_AT_ONCE); i++) {
		double least_ms;

		if (!resolve_random(_i * N_AT_ONCE + i))
			continue;
		least_ms = nic_ms(true);
		ck_assert_msg(least_ms <= out.iteration_ms, "config %d: %g ms, its NICs take %g",
			      _i * N_AT_ONCE + i, out.iteration_ms, least_ms);
	}
}

/* Kernels leave no more of a collective between nodes than all. A step is shorter for it only by
 * what a slower collective leaves kernels of the path to memory, 3 % at most in the first 2,000
 * configs. */
LOOP_TEST(kernels_never_speed_collectives, N_RANDOM / N_AT_ONCE)
{
	int n_slower = 0;

	for (int i = 0; i < n_cases(N_AT_ONCE); i++) {
		double ms;

		if (!resolve_random(_i * N_AT_ONCE + i))
			continue;
		request.device.interference.channel_gbps = 4;
		ck_assert(predict());
		ms = out.iteration_ms;
		request.device.interference.channel_gbps = 0;
		ck_assert(predict());
		ck_assert_msg(out.iteration_ms <= ms * 1.05, "config %d: %g ms, alone %g",
			      _i * N_AT_ONCE + i, ms, out.iteration_ms);
		n_slower += ms > out.iteration_ms * (1 + NEAR);
	}
	ck_assert_int_ge(n_slower, n_cases(N_AT_ONCE) / 33);
}

/* A profile's level is of everything: an iteration is so much longer, whatever it waits for, but
 * for rounding. */
LOOP_TEST(level_is_of_everything, N_RANDOM / N_AT_ONCE)
{
	for (int i = 0; i < n_cases(N_AT_ONCE); i++) {
		double before;

		if (!resolve_random(_i * N_AT_ONCE + i))
			continue;
		before = out.iteration_ms;
		request.software.level = 1.25;
		ck_assert(predict());
		ck_assert_msg(fabs(out.iteration_ms / before / 1.25 - 1) < NEAR, "config %d: %g",
			      _i * N_AT_ONCE + i, out.iteration_ms / before);
	}
}

/* ---- explanations ---- */

static void check_alternative(const struct sc_config *config, const struct sc_alternative *a)
{
	struct sc_config changed = *config;
	struct sc_err err = {0};

	set_all(&changed, a->settings);
	ck_assert_int_eq(sc_resolve_request(&changed, catalog, NULL, &request, &err), 0);
	ck_assert_int_eq(sc_predict(predictor, &request, &opts, &out, &err), 0);
	ck_assert_double_eq_tol(a->memory_gib, out.memory.total_gib, 1e-9);
	if (!isnan(a->iteration_ms))
		ck_assert_double_eq_tol(a->iteration_ms, out.iteration_ms, 1e-9 * out.iteration_ms);
}

LOOP_TEST(what_ifs_are_predictions, find_examples())
{
	static struct sc_alternatives found;
	const struct sc_predict_opts as_is = opts;
	struct sc_explanation explained;
	struct sc_config config;
	struct sc_err err = {0};

	load_example(_i, &config);
	evaluator->opts = opts;
	ck_assert_int_eq(sc_evaluate(evaluator,
				     &(struct sc_candidate){.base = &config, .file = example[_i]},
				     &err),
			 0);
	ck_assert_int_eq(sc_explain(evaluator, &explained, &err), 0);
	for (int i = 0; i < SC_N_WHAT_IFS; i++) {
		double *const speeds[SC_N_WHAT_IFS] = {&opts.gemm_speed, &opts.hbm_speed,
						       &opts.link_speed, &opts.nic_speed,
						       &opts.host_speed};

		*speeds[i] *= explained.speed;
		opts.plan = evaluator->opts.plan;
		ck_assert_int_eq(sc_predict(predictor, &evaluator->request, &opts, &out, &err), 0);
		ck_assert_double_eq_tol(explained.what_if[i].iteration_ms, out.iteration_ms,
					1e-9 * out.iteration_ms);
		opts = as_is;
	}
	sc_find_alternatives(evaluator, &config, example[_i], &found);
	for (size_t i = 0; i < found.n; i++)
		check_alternative(&config, &found.at[i]);
}
