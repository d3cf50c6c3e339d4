/* Computation and communication together: the limits of every policy, over random pairs. */
#include "base/rng.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "models/fit/fit.h"
#include "predict/engine/simulate.h"
#include "request_fixture.h"
#include "runner.h"
#include "study/c3/c3.h"
#include "study/c3/c3_recording.h"

enum { N_PAIRS = 1000 };
#define CLOSE 1e-6

static struct sc_c3_study *study;
static struct sc_request machine[2];
static struct sc_fabric fabric[2];

static void set_up(void)
{
	static const char *const ids[] = {"h100-sxm-80gb", "mi300x"};

	requests_begin();
	study = sc_c3_study_create();
	for (int i = 0; i < 2; i++) {
		struct sc_cluster *cluster = &machine[i].config.cluster;

		sc_config_init(&machine[i].config);
		ck_assert_int_eq(sc_device_load(ids[i], &arena, &machine[i].device, NULL), 0);
		ck_assert_int_eq(
			sc_fabric_profile_load("default", &arena, &machine[i].fabric_profile, NULL),
			0);
		machine[i].config.gpus = cluster->gpus_per_node = cluster->scale_up_gpus = 8;
		cluster->nics_per_node = 0;
		ck_assert_int_eq(sc_fabric_from_request(&machine[i], &fabric[i], NULL), 0);
	}
}

static void tear_down(void)
{
	sc_c3_study_destroy(study);
	requests_end();
}

static struct sc_c3_pair random_pair(struct sc_rng *rng)
{
	int i = (int)sc_rng_below(rng, 2);
	struct sc_c3_pair pair = {.kind = (enum sc_c3_kind)sc_rng_below(rng, 3)};

	pair.gemm = (struct sc_op){.kind = SC_OP_GEMM, .dtype = SC_FP16};
	pair.gemm.u.gemm = (struct sc_gemm_shape){
		.batch = 1,
		.m = 512.0 * (double)(1 + sc_rng_below(rng, 32)),
		.n = 512.0 * (double)(1 + sc_rng_below(rng, 32)),
		.k = 512.0 * (double)(1 + sc_rng_below(rng, 32)),
	};
	pair.transfer = (struct sc_transfer){
		.device = &machine[i].device,
		.fabric = &fabric[i],
		.shape = {pair.kind == SC_C3_GEMM_SCATTER ? SC_REDUCE_SCATTER : SC_ALL_GATHER,
			  ldexp(1, 16 + (int)sc_rng_below(rng, 14)), SC_FP16},
		.n_ranks = 8,
	};
	return pair;
}

static struct sc_c3_result predict(const struct sc_c3_pair *pair, enum sc_c3_policy policy)
{
	struct sc_c3_choice choice = {.policy = policy};
	struct sc_c3_result r;

	ck_assert_int_eq(sc_c3_predict(study, pair, &choice, &r, NULL), 0);
	return r;
}

FIXTURE(set_up, tear_down)

/* Together never faster than the longer alone, nor slower than one after the other by more than the
 * load of the path to memory and the later begin of the second; serial gains nothing. */
TEST(limits_of_two_streams)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 1);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		struct sc_c3_pair pair = random_pair(&rng);
		const struct sc_interference_coef *c = &pair.transfer.device->interference;
		double worst = fmax(1, c->path_compute + c->path_comm);
		static const enum sc_c3_policy policies[] = {SC_C3_PLAIN, SC_C3_COMM_FIRST,
							     SC_C3_COMM_FIRST_RESERVE};

		pair.kind = SC_C3_INDEPENDENT;
		for (size_t p = 0; p < 3; p++) {
			struct sc_c3_result r = predict(&pair, policies[p]);

			ck_assert_double_ge(r.time_us, fmax(r.compute_us, r.comm_us) * (1 - CLOSE));
			ck_assert_double_le(r.time_us, r.serial_us * worst * (1 + CLOSE));
			ck_assert_double_le(r.speedup, r.ideal * (1 + CLOSE));
		}
		ck_assert_double_eq_tol(predict(&pair, SC_C3_SERIAL).speedup, 1, CLOSE);
	}
}

static struct sc_c3_kernels together(const struct sc_device *device, const struct sc_op *a,
				     const struct sc_op *b)
{
	const struct sc_op both[2] = {*a, *b};
	struct sc_c3_kernels k;

	ck_assert_int_eq(sc_c3_two_kernels(study, device, both, &k, NULL), 0);
	return k;
}

static struct sc_op random_kernel(struct sc_rng *rng, bool product)
{
	struct sc_op op = {.kind = product ? SC_OP_GEMM : SC_OP_ROWWISE, .dtype = SC_FP16};

	if (product)
		op.u.gemm = (struct sc_gemm_shape){
			.batch = 1,
			.m = 256.0 * (double)(1 + sc_rng_below(rng, 32)),
			.n = 256.0 * (double)(1 + sc_rng_below(rng, 32)),
			.k = 256.0 * (double)(1 + sc_rng_below(rng, 32)),
		};
	else
		op.u.rowwise = (struct sc_rowwise_shape){
			.read_bytes = ldexp(1, 20 + (int)sc_rng_below(rng, 10)),
			.write_bytes = ldexp(1, 20 + (int)sc_rng_below(rng, 10)),
			.rows = 4096,
			.cols = 4096,
			.n_kernels = 1};
	return op;
}

/* Two kernels take no less than the longer, and no more than one after the other. Two products that
 * fill the GPU gain next to nothing; of a long kernel that memory bounds, and that leaves SMs, and
 * a product behind it a good part is hidden. */
TEST(two_kernels)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 19);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		const struct sc_device *device = &machine[i % 2].device;
		const struct sc_op a = random_kernel(&rng, sc_rng_below(&rng, 2));
		const struct sc_op b = random_kernel(&rng, sc_rng_below(&rng, 2));
		const struct sc_c3_kernels k = together(device, &a, &b);
		const double end = fmax(k.end_us[0], k.end_us[1]);

		ck_assert_double_ge(end, fmax(k.alone_us[0], k.alone_us[1]) * (1 - CLOSE));
		ck_assert_double_le(end, (k.alone_us[0] + k.alone_us[1]) * (1 + CLOSE));
		for (int n = 0; n < 2; n++)
			ck_assert_double_ge(k.end_us[n], k.alone_us[n] * (1 - CLOSE));
	}
	for (int i = 0; i < 2; i++) {
		const struct sc_device *device = &machine[i].device;
		const struct sc_op product = {
			.kind = SC_OP_GEMM,
			.dtype = SC_FP16,
			.u.gemm = {.batch = 1, .m = 8192, .n = 8192, .k = 8192}};
		const struct sc_op add = {.kind = SC_OP_ROWWISE,
					  .dtype = SC_FP16,
					  .u.rowwise = {.read_bytes = 4e9,
							.write_bytes = 2e9,
							.rows = 1e5,
							.cols = 1e4,
							.n_kernels = 1}};
		struct sc_c3_kernels k = together(device, &product, &product);

		ck_assert_double_ge(k.end_us[1], 1.95 * k.alone_us[0]);
		k = together(device, &add, &product);
		ck_assert_double_le(fmax(k.end_us[0], k.end_us[1]),
				    0.95 * (k.alone_us[0] + k.alone_us[1]));
	}
}

/* A copy engine takes no SMs: the kernel is never slower beside it than beside a collective on SMs
 * that runs as fast; and with engines that cost nothing it never loses. */
TEST(copy_engines_spare_the_kernel)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 2);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		struct sc_c3_pair pair = random_pair(&rng);
		struct sc_device device = *pair.transfer.device;

		pair.kind = SC_C3_INDEPENDENT;
		pair.transfer.shape.kind = SC_ALL_GATHER;
		pair.transfer.device = &device;
		device.interference.copy_us = 0;
		device.interference.copy_speed = 100;
		ck_assert_double_le(predict(&pair, SC_C3_COPY_ENGINE).time_us,
				    predict(&pair, SC_C3_COMM_FIRST).time_us * (1 + CLOSE));
	}
}

/* With nothing shared but SMs, the path to memory costs nothing. */
TEST(an_idle_path_costs_nothing)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 3);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		struct sc_c3_pair pair = random_pair(&rng);
		struct sc_device device = *pair.transfer.device;
		double loaded;

		pair.kind = SC_C3_INDEPENDENT;
		loaded = predict(&pair, SC_C3_COMM_FIRST).time_us;
		device.interference.path_compute = device.interference.path_comm = 0;
		pair.transfer.device = &device;
		ck_assert_double_le(predict(&pair, SC_C3_COMM_FIRST).time_us, loaded * (1 + CLOSE));
	}
}

/* Rows of more ranks never make a fused product faster; weights that the cache holds are read once
 * for all of them, and others no more often than once for each. */
TEST(fused_products)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 12);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		const struct sc_c3_pair pair = random_pair(&rng);
		struct sc_device device = *pair.transfer.device;
		const double n_ranks = 2 + (double)sc_rng_below(&rng, 62);
		double few, many;

		device.interference.fused_loss = 0;
		few = sc_interfere_fused_factor(&device, &pair.gemm, n_ranks);
		many = sc_interfere_fused_factor(&device, &pair.gemm, 2 * n_ranks);
		ck_assert_double_ge(few, 1 - CLOSE);
		ck_assert_double_le(few, n_ranks * (1 + CLOSE));
		ck_assert_double_ge(many, few * (1 - CLOSE));
		device.l2_mib = 1e6;
		ck_assert_double_eq_tol(sc_interfere_fused_factor(&device, &pair.gemm, n_ranks), 1,
					CLOSE);
	}
}

/* Cheaper copies never make a pair slower by more than 1 % (a piece that comes earlier may meet
 * another one). Faster links do by little where a transfer then takes more of the memory's rate:
 * shares are alike for all who use it, whoever needs it longer. */
TEST(more_of_a_resource_is_never_slower)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 4);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		struct sc_c3_pair pair = random_pair(&rng);
		struct sc_fabric faster = *pair.transfer.fabric;
		struct sc_device device = *pair.transfer.device;
		enum sc_c3_policy policy = pair.kind == SC_C3_INDEPENDENT
						   ? SC_C3_COPY_ENGINE
						   : (i & 1 ? SC_C3_CHUNKED : SC_C3_TILE_FUSED);
		double before = predict(&pair, policy).time_us;

		device.interference.copy_us *= 0.5;
		device.interference.push_us *= 0.5;
		pair.transfer.device = &device;
		ck_assert_double_le(predict(&pair, policy).time_us, before * 1.01);
		faster.link_gbps *= 1.5;
		pair.transfer.fabric = &faster;
		ck_assert_double_le(predict(&pair, policy).time_us, before * 1.05);
	}
}

/* Fewer SMs make a kernel never faster, one that computes slower by their share and more; a
 * collective no slower on more of them; the best split is no worse than any. */
TEST(a_split_of_the_sms)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 5);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		struct sc_c3_pair pair = random_pair(&rng);
		const struct sc_device *device = pair.transfer.device;
		const double k = 1 + (double)sc_rng_below(&rng, 64);
		const struct sc_c3_choice choice = {SC_C3_RESERVE, k};
		struct sc_c3_result r, best;
		struct sc_cost all, some, fewer;

		pair.kind = SC_C3_INDEPENDENT;
		best = predict(&pair, SC_C3_RESERVE);
		ck_assert_int_eq(sc_c3_predict(study, &pair, &choice, &r, NULL), 0);
		ck_assert_double_le(best.time_us, r.time_us * (1 + CLOSE));
		sc_interfere_kernel(device, &pair.gemm, 0, 0, &all);
		sc_interfere_kernel(device, &pair.gemm, (double)device->sm_count - k, 0, &some);
		sc_interfere_kernel(device, &pair.gemm, (double)device->sm_count - 2 * k, 0,
				    &fewer);
		ck_assert_double_le(sc_cost_alone_us(&all), sc_cost_alone_us(&some) * (1 + CLOSE));
		ck_assert_double_le(sc_cost_alone_us(&some),
				    sc_cost_alone_us(&fewer) * (1 + CLOSE));
		sc_interfere_collective(&pair.transfer, k, 0, &some);
		sc_interfere_collective(&pair.transfer, 2 * k, 0, &fewer);
		ck_assert_double_le(sc_cost_alone_us(&fewer),
				    sc_cost_alone_us(&some) * (1 + CLOSE));
	}
}

static double alone_on(const struct sc_device *device, double m, double n, double k, double sms)
{
	const struct sc_op gemm = {.kind = SC_OP_GEMM,
				   .dtype = SC_FP16,
				   .u.gemm = {.batch = 1, .m = m, .n = n, .k = k}};
	struct sc_cost cost;

	sc_interfere_kernel(device, &gemm, sms, 0, &cost);
	return sc_cost_alone_us(&cost);
}

/* Products lose whole waves of tiles, as measured on an MI300X (ROCm/tritonBLAS: 303, 301 and 461
 * us of 4096^3 on 304, 256 and 240 units; 1860, 1848, 2068 of 8192^3; 14658, 15377, 16011, 15723 of
 * 16384^3 on 304, 288, 272, 256). ConCCL's mean over its products is by area (17 % on 272). One
 * wave of an H100 that has no place beside 24 channels becomes two. */
TEST(whole_waves)
{
	static const struct {
		double size, sms, loss;
	} measured[] = {{4096, 256, 0.993}, {4096, 240, 1.521},  {8192, 256, 0.994},
			{8192, 240, 1.112}, {16384, 288, 1.049}, {16384, 272, 1.092},
			{16384, 256, 1.073}};
	const struct sc_device *mi = &machine[1].device;
	struct sc_c3_pair pair = {
		.transfer = {.device = &machine[0].device,
			     .fabric = &fabric[0],
			     .shape = {SC_ALL_GATHER, 1 << 30, SC_FP16},
			     .n_ranks = 8,
			     .channels = 24},
		.gemm = {.kind = SC_OP_GEMM,
			 .dtype = SC_FP16,
			 .u.gemm = {.batch = 1, .m = 1536, .n = 2816, .k = 8192}}};
	double full, part;

	for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++) {
		const double size = measured[i].size;

		ck_assert_double_eq_tol(alone_on(mi, size, size, size, measured[i].sms) /
						alone_on(mi, size, size, size, 0),
					measured[i].loss, 0.045);
	}
	full = predict(&pair, SC_C3_COMM_FIRST).compute_slowdown; /* 132 tiles */
	pair.gemm.u.gemm.n = 2304;                                /* 108 */
	part = predict(&pair, SC_C3_COMM_FIRST).compute_slowdown;
	ck_assert_double_gt(full, 1.3 * part);
}

static double with_choice(const struct sc_c3_pair *pair, enum sc_c3_policy policy, double n)
{
	const struct sc_c3_choice choice = {policy, n};
	struct sc_c3_result r;

	ck_assert_int_eq(sc_c3_predict(study, pair, &choice, &r, NULL), 0);
	return r.time_us;
}

/* More channels never make the collective alone slower, and beyond those that feed the links not
 * faster; SMs kept beyond the channels never help, nor does a number help less with the other
 * policy. */
TEST(channels_and_kept_sms)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 39);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		struct sc_c3_pair pair = random_pair(&rng);
		struct sc_transfer *t = &pair.transfer;
		const double n = 1 + (double)sc_rng_below(&rng, 40);
		double before = HUGE_VAL, takes = sc_transfer_sms(t), most;
		struct sc_cost cost, usual;

		pair.kind = SC_C3_INDEPENDENT;
		sc_interfere_collective(t, 0, 0, &usual);
		for (t->channels = 1; t->channels <= 64; t->channels *= 2) {
			sc_interfere_collective(t, 0, 0, &cost);
			ck_assert_double_le(sc_cost_alone_us(&cost), before * (1 + CLOSE));
			ck_assert_double_ge(sc_cost_alone_us(&cost),
					    sc_cost_alone_us(&usual) * (1 - CLOSE));
			before = sc_cost_alone_us(&cost);
		}
		if (takes < 64)
			ck_assert_double_le(before, sc_cost_alone_us(&usual) * (1 + CLOSE));
		t->channels = n;
		most = sc_device_whole_sms(t->device, n);
		before = with_choice(&pair, SC_C3_RESERVE, most);
		ck_assert_double_eq_tol(before, with_choice(&pair, SC_C3_COMM_FIRST_RESERVE, most),
					CLOSE);
		for (int k = 1; k < 4; k++) {
			const double us = with_choice(&pair, SC_C3_RESERVE, most + 8 * k);

			ck_assert_double_ge(us, before * (1 - CLOSE));
			before = us;
		}
	}
}

/* One row of m more changes no time by 10 %: a chunk of few rows is a chunk, said with its pieces,
 * and never serial without a word. */
TEST(one_row_more)
{
	static const enum sc_c3_policy alone[] = {SC_C3_PLAIN, SC_C3_COMM_FIRST, SC_C3_RESERVE,
						  SC_C3_COPY_ENGINE},
				       dependent[] = {SC_C3_CHUNKED, SC_C3_TILE_FUSED,
						      SC_C3_COPY_ENGINE, SC_C3_SERIAL};
	struct sc_rng rng;

	sc_rng_init(&rng, 40);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		struct sc_c3_pair pair = random_pair(&rng);
		const enum sc_c3_policy policy =
			(pair.kind ? dependent : alone)[sc_rng_below(&rng, 4)];
		struct sc_gemm_shape *g = &pair.gemm.u.gemm;
		double us;

		g->m = i % 2 ? 512 : floor(exp(sc_rng_uniform(&rng) * 9)) + 9;
		us = predict(&pair, policy).time_us;
		g->m -= 1;
		ck_assert_msg(fabs(predict(&pair, policy).time_us / us - 1) < 0.1,
			      "%.0fx%.0fx%.0f, %s: %.6g, one row less %.6g", g->m + 1, g->n, g->k,
			      sc_enum_name(sc_c3_policy_names, (int)policy), us,
			      predict(&pair, policy).time_us);
		if (policy == SC_C3_CHUNKED) {
			ck_assert_double_eq(predict(&pair, policy).n, fmin(8, g->m));
			pair.gemm.dtype = SC_FP32; /* as many as pay */
			ck_assert_double_ge(predict(&pair, policy).n, 1);
			ck_assert_double_le(predict(&pair, policy).time_us,
					    predict(&pair, SC_C3_SERIAL).time_us * (1 + CLOSE));
		}
	}
}

/* A later piece reads weights that the cache holds no more from memory; weights that it cannot hold
 * are read each time. */
TEST(weights_that_stay)
{
	const struct sc_device *device = &machine[0].device;
	struct sc_op piece = {.kind = SC_OP_GEMM,
			      .dtype = SC_FP16,
			      .u.gemm = {.batch = 1, .m = 64, .n = 4096, .k = 4096}};

	ck_assert_double_lt(sc_interfere_next_piece_factor(device, &piece), 0.8);
	ck_assert_double_gt(sc_interfere_next_piece_factor(device, &piece), 0.1);
	piece.u.gemm.k *= 2;
	ck_assert_double_eq(sc_interfere_next_piece_factor(device, &piece), 1);
}

/* Copies after a product hide no more than can be sent before its sums are there:
 * of an all-reduce the scatter. A kernel that waits for an all-to-all hides nothing of it. */
TEST(what_copies_hide)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 41);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		struct sc_c3_pair pair = random_pair(&rng);
		struct sc_cost half;
		double us;

		pair.kind = SC_C3_GEMM_SCATTER;
		pair.transfer.shape.kind = SC_REDUCE_SCATTER;
		sc_interfere_copy(&pair.transfer, 1, 0, &half);
		us = predict(&pair, SC_C3_COPY_ENGINE).time_us;
		pair.transfer.shape.kind = SC_ALL_REDUCE;
		ck_assert_double_ge(predict(&pair, SC_C3_COPY_ENGINE).time_us,
				    (us + half.work_us) * (1 - CLOSE));
		pair.kind = SC_C3_GATHER_GEMM;
		pair.transfer.shape.kind = SC_ALL_TO_ALL;
		sc_interfere_copy(&pair.transfer, 1, 1, &half);
		ck_assert_double_ge(predict(&pair, SC_C3_TILE_FUSED).time_us,
				    (predict(&pair, SC_C3_TILE_FUSED).compute_us + half.work_us) *
					    (1 - CLOSE));
	}
}

/* Of copies on engines and collectives on SMs, engines lose below some size and win above. */
TEST(engines_win_from_one_size_on)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 15);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		struct sc_transfer t = {
			.device = &machine[1].device,
			.fabric = &fabric[1],
			.shape = {i & 1 ? SC_ALL_GATHER : SC_ALL_TO_ALL, 0, SC_FP16},
			.n_ranks = 8};
		const double bytes[] = {ldexp(1, 16) * exp(sc_rng_uniform(&rng) * 10),
					ldexp(1, 16) * exp(sc_rng_uniform(&rng) * 10)};
		bool wins[2];

		for (int k = 0; k < 2; k++) {
			struct sc_cost sm, copy;

			t.shape.bytes = k ? fmax(bytes[0], bytes[1]) : fmin(bytes[0], bytes[1]);
			sc_interfere_collective(&t, 0, 0, &sm);
			sc_interfere_copy(&t, 1, t.n_ranks - 1, &copy);
			wins[k] = sc_cost_alone_us(&copy) < sc_cost_alone_us(&sm);
			ck_assert(!wins[k] || t.shape.bytes > 0.7e6); /* about 1 MB */
			ck_assert(wins[k] || t.shape.bytes < 64e6);
		}
		ck_assert(wins[1] || !wins[0]);
	}
}

/* Of costs of which only the blocks are known: each is slowed, by no more than SMs, memory and the
 * path to it explain; and as the engine slows a kernel beside a collective that outlasts it. */
TEST(known_kernels_slow_each_other)
{
	struct sc_simulator *sim = sc_simulator_create();
	struct sc_timeline timeline = {0};
	struct sc_graph graph;
	struct sc_rng rng;

	sc_graph_init(&graph);
	sc_rng_init(&rng, 7);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		const struct sc_device *device = &machine[sc_rng_below(&rng, 2)].device;
		const struct sc_interfere_seen seen = {
			.alone_us = 1,
			.beside_frac = 1,
			.blocks = 1 + (double)sc_rng_below(&rng, 4096),
			.comm_blocks = (double)sc_rng_below(&rng, 64),
			.comm_load = 1,
			.computes = sc_rng_below(&rng, 2),
			.sums = sc_rng_below(&rng, 2),
		};
		const struct sc_class rank = {
			.multiplicity = 1, .ranks_per_domain = 1, .slowdown = 1};
		struct sc_cost kernel, comm;
		struct sc_slowdowns slow;
		double most = 1;

		sc_interfere_seen_kernel(device, &seen, &kernel);
		sc_interfere_seen_collective(device, &seen, &comm);
		slow = sc_interfere_together(&kernel, &comm);
		for (int r = SC_RES_SM + 1; r < SC_N_RES; r++)
			most = fmax(most, kernel.demand[r] + comm.demand[r]);
		ck_assert_double_ge(slow.kernel, 1 - CLOSE);
		ck_assert_double_le(slow.kernel, most / (1 - comm.demand[SC_RES_SM]) + CLOSE);
		ck_assert_double_ge(slow.comm, 1 - CLOSE);
		ck_assert_double_le(slow.comm, most + CLOSE);
		ck_assert_double_ge(sc_interfere_seen_kernel_us(device, &seen),
				    slow.kernel * (1 - CLOSE));

		comm.work_us = 100;
		comm.holds_sm = 0;
		sc_graph_clear(&graph);
		sc_graph_add_class(&graph, rank);
		for (int n = 0; n < 2; n++) {
			const uint32_t lane =
				sc_graph_add_lane(&graph, 0, n ? SC_LANE_COMPUTE : SC_LANE_COMM);
			const uint32_t id = sc_graph_add_cost(&graph, n ? &kernel : &comm);

			sc_graph_add_node(&graph, SC_NODE_KERNEL, lane,
					  (struct sc_node_use){id, SC_NONE});
		}
		sc_graph_seal(&graph);
		ck_assert_int_eq(sc_simulate(sim, &graph, NULL, &timeline, NULL), 0);
		ck_assert_double_eq_tol(timeline.end_us[1] - timeline.start_us[1], slow.kernel,
					CLOSE);
	}
	sc_timeline_release(&timeline);
	sc_graph_release(&graph);
	sc_simulator_destroy(sim);
}

/* Fits find the coefficients that times were made with, and nothing moves where nothing ran beside.
 */
TEST(fit_of_recorded_kernels)
{
	struct sc_fit_opts opts = {.kind = SC_FIT_INTERFERENCE,
				   .device = "h100-sxm-80gb",
				   .n_folds = 5,
				   .launch = SC_FIT_LAUNCH_NONE};
	struct sc_device truth = machine[0].device;
	struct sc_strbuf text = {0};
	struct sc_source source = {.file = "made"};
	struct sc_csv csv;
	struct sc_rng rng;
	struct sc_fit fit;
	struct sc_err err = {0};

	truth.interference.start_us = 4;
	truth.interference.start_sum_us = 9;
	sc_strbuf_append(&text,
			 "device,computes,blocks,collective,comm_blocks,beside_frac,alone_us,"
			 "time_us\n");
	sc_rng_init(&rng, 10);
	for (int i = 0; i < 200; i++) {
		const struct sc_interfere_seen seen = {
			.alone_us = 2 + (double)sc_rng_below(&rng, 200),
			.beside_frac = 0.25 * (double)(1 + sc_rng_below(&rng, 4)),
			.blocks = 1 + (double)sc_rng_below(&rng, 4096),
			.comm_blocks = 24,
			.comm_load = 1,
			.computes = sc_rng_below(&rng, 2),
			.sums = sc_rng_below(&rng, 2),
		};

		sc_strbuf_printf(&text, "h100-sxm-80gb,%s,%.0f,%s,24,%.2f,%.0f,%.9g\n",
				 seen.computes ? "true" : "false", seen.blocks,
				 seen.sums ? "all_reduce" : "all_gather", seen.beside_frac,
				 seen.alone_us, sc_interfere_seen_kernel_us(&truth, &seen));
	}
	source.text = sc_strbuf_get(&text);
	source.n = text.n;
	ck_assert_int_eq(sc_csv_parse(&source, &arena, &csv, NULL), 0);
	opts.table = &csv;
	ck_assert_msg(sc_fit_run(&opts, &arena, &fit, &err) == 0, "%s", err.text);
	ck_assert_double_eq_tol(fit.device.interference.start_us, 4, 0.05);
	ck_assert_double_eq_tol(fit.device.interference.start_sum_us, 9, 0.1);
	ck_assert_double_lt(fit.held_out.mape_pct, 1);
	sc_strbuf_release(&text);
}

static void append_pairs(const struct sc_device *truth, struct sc_strbuf *text)
{
	const double port_gbps = (double)truth->nvlink_links * truth->nvlink_link_gbps;
	struct sc_rng rng;

	sc_strbuf_append(text, "device,gpus,kind,m,n,k,collective,bytes,policy,compute_us,comm_us,"
			       "overlapped_us,ctas\n");
	sc_rng_init(&rng, 11);
	for (int i = 0; i < 200; i++) {
		const double comm_us = 50 + (double)sc_rng_below(&rng, 200);
		const int tiles[2] = {1 + (int)sc_rng_below(&rng, 64),
				      1 + (int)sc_rng_below(&rng, 64)};
		const struct sc_interfere_seen seen = {
			.alone_us = 50 + (double)sc_rng_below(&rng, 200),
			.comm_us = comm_us,
			.blocks = tiles[0] * tiles[1],
			.comm_blocks = 1 + (double)sc_rng_below(&rng, 32),
			.comm_load = 1,
			.computes = true,
		};

		sc_strbuf_printf(text, "%s,1,gemm,%d,%d,64,copy,%.0f,%s,%.0f,%.0f,%.9g,%.0f\n",
				 truth->id, 128 * tiles[0], 128 * tiles[1],
				 ceil(comm_us * port_gbps * SC_BYTES_US_PER_GBPS),
				 i % 2 ? "plain" : "comm_first", seen.alone_us, comm_us,
				 sc_interfere_seen_pair_us(truth, &seen), seen.comm_blocks);
	}
}

/* So do fits of pairs, from the start of both to the end of the last; those on copy engines, or
 * without a time alone, are left out. */
TEST(fit_of_pairs)
{
	struct sc_fit_opts opts = {.kind = SC_FIT_INTERFERENCE,
				   .device = "mi300x",
				   .n_folds = 5,
				   .launch = SC_FIT_LAUNCH_NONE};
	struct sc_device truth = machine[1].device;
	struct sc_strbuf text = {0};
	struct sc_source source = {.file = "made"};
	struct sc_csv csv;
	struct sc_fit fit;
	struct sc_err err = {0};

	truth.interference.path_comm = 0.6;
	append_pairs(&truth, &text);
	sc_strbuf_append(&text, "mi300x,1,gemm,128,128,64,copy,1e6,copy_engine,9,9,9,\n"
				"mi300x,1,gemm,128,128,64,copy,1e6,plain,9,,9,\n");
	source.text = sc_strbuf_get(&text);
	source.n = text.n;
	ck_assert_int_eq(sc_csv_parse(&source, &arena, &csv, NULL), 0);
	opts.table = &csv;
	ck_assert_msg(sc_fit_run(&opts, &arena, &fit, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(fit.n_empty, 2);
	ck_assert_double_eq_tol(fit.device.interference.path_comm, 0.6, 0.06);
	ck_assert_double_lt(fit.held_out.mape_pct, 1);
	sc_strbuf_release(&text);
}

/* Two that run at once: never faster than the longer alone, nor slower than both slowed, one after
 * the other. */
TEST(pairs_by_the_law_of_two)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 13);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		const struct sc_interfere_seen seen = {
			.alone_us = 1 + (double)sc_rng_below(&rng, 1000),
			.comm_us = 1 + (double)sc_rng_below(&rng, 1000),
			.blocks = (double)sc_rng_below(&rng, 4096),
			.comm_blocks = (double)sc_rng_below(&rng, 64),
			.comm_load = (double)(1 + sc_rng_below(&rng, 4)) / 4,
			.computes = sc_rng_below(&rng, 2),
			.sums = sc_rng_below(&rng, 2),
		};
		const struct sc_device *device = &machine[sc_rng_below(&rng, 2)].device;
		const double us = sc_interfere_seen_pair_us(device, &seen);
		struct sc_cost kernel, comm;
		struct sc_slowdowns slow;

		sc_interfere_seen_kernel(device, &seen, &kernel);
		sc_interfere_seen_collective(device, &seen, &comm);
		slow = sc_interfere_together(&kernel, &comm);
		ck_assert_double_ge(us, fmax(seen.alone_us, seen.comm_us) * (1 - CLOSE));
		ck_assert_double_le(us,
				    fmax(seen.alone_us * slow.kernel, seen.comm_us * slow.comm) *
					    (1 + CLOSE));
	}
}

/* The small job runs its collectives beside the same kernels in each iteration: their times alone
 * are not known, so nothing is said of what they lost. Replayed with what the model says that they
 * lost, an iteration is no longer. */
TEST(a_recording)
{
	struct sc_c3_recording r;

	ck_assert_int_eq(sc_c3_recording_load("traces/job", "h800-sxm-80gb", &r, NULL), 0);
	ck_assert_uint_eq(r.kernels.list.n, 160);
	ck_assert_uint_eq(r.kernels.all.n, 160);
	ck_assert_uint_eq(r.kernels.all.n_known, 0);
	ck_assert_uint_eq(r.collectives.all.n_known, 0);
	for (size_t i = 0; i < r.kernels.list.n; i++) {
		ck_assert_double_gt(r.kernels.list.at[i].overlap_us, 0);
		ck_assert_double_nan(r.kernels.list.at[i].alone_us);
		ck_assert_double_nan(r.kernels.list.at[i].predicted_us);
	}
	ck_assert_uint_gt(r.what_if.n, 1);
	ck_assert_double_gt(r.what_if.nothing_lost_us, 0.9 * r.what_if.recorded_us);
	ck_assert_double_lt(r.what_if.nothing_lost_us, r.what_if.recorded_us);
	ck_assert_double_eq_tol(r.what_if.policy_us[SC_C3_COPY_ENGINE], r.what_if.recorded_us,
				CLOSE * r.what_if.recorded_us); /* all of them add */
	ck_assert_double_eq_tol(r.what_if.policy_us[SC_C3_PLAIN], r.what_if.recorded_us,
				CLOSE * r.what_if.recorded_us);
	ck_assert_double_ge(r.what_if.policy_us[SC_C3_SERIAL], r.what_if.nothing_lost_us);
	ck_assert_double_nan(r.what_if.policy_us[SC_C3_TILE_FUSED]);
	sc_c3_recording_release(&r);
}

/* The best is within 1 % of the fastest, and nothing simpler is; the class follows the times alone;
 * over sizes the first is where the search begins, and neighbours differ; what limits holds to the
 * end. */
TEST(advice)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 8);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		const struct sc_c3_named named = {.name = "", .pair = random_pair(&rng)};
		const struct sc_c3_advise_opts opts = {.from_bytes = i % 10 ? 0 : 1 << 20,
						       .to_bytes = 1 << 30};
		const bool alone = named.pair.kind == SC_C3_INDEPENDENT;
		struct sc_c3_advice a;
		double ratio;

		ck_assert_int_eq(sc_c3_advise(study, &named, &opts, &a, NULL), 0);
		ck_assert_int_eq(a.applies[SC_C3_CHUNKED], !alone);
		for (size_t p = 0; p < a.n; p++) {
			const struct sc_c3_result *r = &a.result[p];
			const double best_us = a.result[a.best].time_us;

			if (!a.applies[p])
				continue;
			ck_assert_double_le(best_us, 1.0101 * r->time_us);
			ck_assert(p >= a.best || r->time_us > best_us / 1.0101);
			ck_assert_uint_gt(r->limits.n, 0);
			ck_assert_double_eq_tol(r->limits.at[r->limits.n - 1].until_us, r->time_us,
						CLOSE * r->time_us);
			for (size_t l = 1; l < r->limits.n; l++)
				ck_assert_double_gt(r->limits.at[l].until_us,
						    r->limits.at[l - 1].until_us);
		}
		ratio = a.result[a.best].compute_us / a.result[a.best].comm_us;
		ck_assert_int_eq(a.class, ratio > 1.15       ? SC_C3_G_LONG
					  : ratio < 1 / 1.15 ? SC_C3_C_LONG
							     : SC_C3_GC_EQUAL);
		ck_assert_int_eq(a.n_changes > 0, opts.from_bytes > 0);
		for (size_t c = 1; c < a.n_changes; c++) {
			ck_assert_double_gt(a.changes[c].bytes, a.changes[c - 1].bytes);
			ck_assert_uint_ne(a.changes[c].best, a.changes[c - 1].best);
		}
	}
}

/* Kernels of a layer in order are one longer kernel: the same alone, and no better beside a
 * collective than that they could all be hidden. */
TEST(layers_of_kernels)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 9);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		struct sc_c3_pair pair = random_pair(&rng), one, layer;
		struct sc_op ops[3];
		struct sc_c3_result r;

		pair.kind = SC_C3_INDEPENDENT;
		one = layer = pair;
		for (int k = 0; k < 3; k++)
			ops[k] = pair.gemm;
		layer.layer = ops;
		layer.n_layer = 3;
		r = predict(&layer, SC_C3_COMM_FIRST);
		ck_assert_double_eq_tol(r.compute_us, 3 * predict(&one, SC_C3_PLAIN).compute_us,
					CLOSE * r.compute_us);
		ck_assert_double_ge(r.time_us, fmax(r.compute_us, r.comm_us) * (1 - CLOSE));
		layer.compute_us = 1000;
		ck_assert_double_eq_tol(predict(&layer, SC_C3_SERIAL).compute_us, 1000, CLOSE);
	}
}

static size_t config_pairs(const char *sets, struct sc_c3_pairs *out)
{
	struct sc_request *request = request_of("", sets);
	struct sc_err err = {0};

	*out = (struct sc_c3_pairs){.list = {0}};
	ck_assert_msg(sc_c3_config_pairs(request, &arena, out, &err) == 0, "%s", err.text);
	for (size_t i = 0; i < out->list.n; i++) {
		const struct sc_c3_named *n = &out->list.at[i];
		struct sc_c3_advise_opts opts = {.from_bytes = 0};
		struct sc_c3_advice a;

		ck_assert_int_eq(sc_c3_advise(study, n, &opts, &a, NULL), 0);
		ck_assert_double_gt(n->count, 0);
		ck_assert_double_eq_tol(a.result[a.best].compute_us, n->pair.compute_us,
					CLOSE * n->pair.compute_us);
		ck_assert_double_eq_tol(a.result[a.best].comm_us, n->pair.comm_us,
					CLOSE * n->pair.comm_us);
		for (size_t p = 0; p < a.n; p++)
			ck_assert(!a.applies[p] ||
				  a.result[p].speedup <= a.result[p].ideal * (1 + CLOSE));
	}
	return out->list.n;
}

#define SMALL                                                                              \
	"model.family=gpt model.layers=4 model.hidden=2048 model.heads=16 model.seq=2048 " \
	"model.vocab=51200 cluster.gpu=a100-sxm-80gb cluster.gpus_per_node=8 gpus=16 "     \
	"training.global_batch=16 training.micro_batch=1 "

/* One rank has no collective; each axis brings its own; across nodes copy engines do not apply. */
TEST(pairs_of_a_config)
{
	struct sc_c3_pairs none, tp, dp;
	size_t n_far = 0;

	ck_assert_uint_eq(config_pairs(SMALL "gpus=1 training.global_batch=1", &none), 0);
	ck_assert_uint_gt(
		config_pairs(SMALL "parallel.tp=8 parallel.pp=2 training.global_batch=2", &tp), 4);
	for (size_t i = 0; i < tp.list.n; i++) {
		ck_assert_int_eq(tp.list.at[i].pair.transfer.n_ranks, 8);
		ck_assert_int_eq(tp.list.at[i].pair.transfer.n_nodes, 1);
	}
	ck_assert_uint_eq(config_pairs(SMALL "parallel.sharding=fsdp", &dp), 3);
	for (size_t i = 0; i < dp.list.n; i++) {
		const struct sc_c3_choice copies = {.policy = SC_C3_COPY_ENGINE};
		struct sc_c3_result r;

		ck_assert_int_eq(dp.list.at[i].pair.kind, SC_C3_INDEPENDENT);
		ck_assert_uint_gt(dp.list.at[i].pair.n_layer, 5);
		n_far += dp.list.at[i].pair.transfer.n_nodes == 2;
		ck_assert_int_eq(sc_c3_predict(study, &dp.list.at[i].pair, &copies, &r, NULL),
				 -SC_EUNSUPPORTED);
	}
	ck_assert_uint_eq(n_far, 3);
	SC_VEC_RELEASE(&none.list);
	SC_VEC_RELEASE(&tp.list);
	SC_VEC_RELEASE(&dp.list);
}

/* ConCCL (arXiv:2412.14335) on 8 MI300X: mean shares of the ideal speedup of the library's
 * collective. */
static const struct {
	enum sc_c3_policy policy;
	double share;
} CONCCL[] = {{SC_C3_PLAIN, 0.21},       {SC_C3_COMM_FIRST, 0.42},
	      {SC_C3_RESERVE, 0.41},     {SC_C3_COMM_FIRST_RESERVE, 0.42},
	      {SC_C3_COPY_ENGINE, 0.66}, {SC_C3_COPY_ENGINE_RELIEF, 0.72}};
enum { N_CONCCL = sizeof(CONCCL) / sizeof(CONCCL[0]) };

static void load_conccl(struct sc_c3_pairs *pairs)
{
	struct sc_csv csv;
	struct sc_err err = {0};

	*pairs = (struct sc_c3_pairs){.list = {0}};
	ck_assert_int_eq(sc_csv_load("tests/accuracy/conccl.csv", &arena, &csv, NULL), 0);
	ck_assert_msg(sc_c3_table_pairs(&csv, &arena, pairs, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(pairs->list.n, 30);
}

/* Over pairs of its three classes within 5 points; half of our grid's products are bound by
 * computation or more, the rest by memory. */
TEST(shares_of_conccl)
{
	double sum[SC_N_C3_POLICIES] = {0};
	size_t n_class[3] = {0};
	struct sc_c3_pairs pairs;
	struct sc_c3_advise_opts opts = {.from_bytes = 0};

	load_conccl(&pairs);
	for (size_t i = 0; i < pairs.list.n; i++) {
		struct sc_c3_advice a;
		double ideal;

		ck_assert_int_eq(sc_c3_advise(study, &pairs.list.at[i], &opts, &a, NULL), 0);
		ideal = a.result[SC_C3_PLAIN].ideal; /* of the library's collective */
		n_class[a.class]++;
		for (int p = 0; p < SC_N_C3_POLICIES; p++)
			sum[p] += a.applies[p] ? (a.result[p].speedup - 1) / (ideal - 1) : 0;
	}
	for (int c = 0; c < 3; c++)
		ck_assert_uint_eq(n_class[c], 10);
	for (size_t i = 0; i < N_CONCCL; i++)
		ck_assert_double_eq_tol(sum[CONCCL[i].policy] / (double)pairs.list.n,
					CONCCL[i].share, 0.05);
	SC_VEC_RELEASE(&pairs.list);
}

/* The mean share of a policy with a device's coefficients. */
static double conccl_share(struct sc_c3_pairs *pairs, const struct sc_device *device,
			   enum sc_c3_policy policy)
{
	double sum = 0;

	for (size_t i = 0; i < pairs->list.n; i++) {
		struct sc_c3_pair *pair = &pairs->list.at[i].pair;

		pair->transfer.device = device;
		sum += (predict(pair, policy).speedup - 1) / (predict(pair, SC_C3_PLAIN).ideal - 1);
	}
	return sum / (double)pairs->list.n;
}

/* Sets the load of the path to memory to what the policies of its transfers but one come to on
 * average: more load, less is gained. */
static void fit_load(struct sc_c3_pairs *pairs, struct sc_device *device, bool copies, size_t out)
{
	double *load = copies ? &device->interference.path_copy : &device->interference.path_comm;
	double low = 0, high = 1;

	while (high - low > 0.01) {
		double over = 0;

		*load = (low + high) / 2;
		for (size_t i = 1; i < N_CONCCL; i++)
			if (i != out && copies == sc_c3_copies(CONCCL[i].policy))
				over += conccl_share(pairs, device, CONCCL[i].policy) -
					CONCCL[i].share;
		*(over > 0 ? &low : &high) = *load;
	}
}

/* Each of its policies but one says what the load of the path is, and that one follows within 9
 * points. Plain streams have a coefficient of their own, the wait for a kernel's SMs; the others
 * leave it between no wait and all of the kernel, and what is published lies between what these
 * come to. */
TEST(each_share_of_conccl_from_the_others)
{
	struct sc_device device;
	struct sc_c3_pairs pairs;
	double share[2];

	load_conccl(&pairs);
	device = *pairs.list.at[0].pair.transfer.device;
	for (size_t out = 1; out < N_CONCCL; out++) {
		const bool copies = sc_c3_copies(CONCCL[out].policy);

		fit_load(&pairs, &device, copies, out);
		ck_assert_double_eq_tol(conccl_share(&pairs, &device, CONCCL[out].policy),
					CONCCL[out].share, 0.09);
	}
	for (int whole = 0; whole < 2; whole++) {
		device.interference.wait_frac = whole;
		share[whole] = conccl_share(&pairs, &device, SC_C3_PLAIN);
	}
	ck_assert_double_lt(share[1], CONCCL[0].share);
	ck_assert_double_gt(share[0], CONCCL[0].share);
	SC_VEC_RELEASE(&pairs.list);
}

/* What passes the port of the rank that has most: of a broadcast or an all-reduce at least all of
 * it once. */
static double wire_us(const struct sc_transfer *t)
{
	const struct sc_fabric *f = t->fabric;
	const bool whole = t->shape.kind == SC_ALL_REDUCE || t->shape.kind == SC_BROADCAST;
	const double bytes = t->shape.bytes * (whole ? 1 : (t->n_ranks - 1.0) / t->n_ranks);

	return sc_bytes_us(bytes, f->link_gbps > 0 ? f->link_gbps : f->pcie_gbps);
}

/* Under no policy more passes a port than its rate, or is more hidden than all but the longer side
 * as the policy runs it, whatever was measured of the times alone. Engines do not add beside what
 * does not need it; a kind has its collectives; a choice is what it is alone. */
TEST(no_policy_beats_the_ideal)
{
	static const enum sc_collective kinds[] = {SC_ALL_REDUCE, SC_ALL_GATHER, SC_REDUCE_SCATTER,
						   SC_BROADCAST, SC_ALL_TO_ALL};
	static const char *const choices[] = {"serial",      "plain",
					      "comm_first",  "reserve",
					      "reserve:4",   "reserve:19",
					      "chunked:2",   "comm_first+reserve",
					      "copy_engine", "copy_engine+cache_relief",
					      "chunked:32",  "chunked",
					      "tile_fused"};
	const size_t n = sizeof(choices) / sizeof(choices[0]);
	struct sc_rng rng;

	sc_rng_init(&rng, 16);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		struct sc_c3_named named = {.name = "", .pair = random_pair(&rng)};
		struct sc_c3_pair *pair = &named.pair;
		const struct sc_c3_result alone = predict(pair, SC_C3_SERIAL);
		struct sc_c3_advise_opts opts = {.n = n};
		struct sc_c3_advice a;

		pair->transfer.shape.kind = kinds[sc_rng_below(&rng, 5)];
		if (!sc_c3_kind_of((int)pair->kind, pair->transfer.shape.kind, &pair->kind))
			pair->kind = SC_C3_INDEPENDENT;
		ck_assert(sc_c3_kind_of((int)pair->kind, pair->transfer.shape.kind, &pair->kind));
		pair->transfer.n_ranks = 2 + (int)sc_rng_below(&rng, 7);
		pair->transfer.call_us = i % 3 ? 0 : 700;
		if (i % 2) {
			pair->compute_us = alone.compute_us * exp(4 * sc_rng_uniform(&rng) - 2);
			pair->comm_us = alone.comm_us * exp(4 * sc_rng_uniform(&rng) - 2);
		}
		for (size_t p = 0; p < n; p++)
			ck_assert_int_eq(sc_c3_choice_parse(choices[p], "", &opts.choice[p], NULL),
					 0);
		ck_assert_int_eq(sc_c3_advise(study, &named, &opts, &a, NULL), 0);
		for (size_t p = 0; p < n; p++) {
			const struct sc_c3_result *r = &a.result[p];
			const bool copies = sc_c3_copies(opts.choice[p].policy);
			struct sc_c3_result one;
			struct sc_err err = {0};
			const int rc = sc_c3_predict(study, pair, &opts.choice[p], &one, &err);

			ck_assert_int_eq(rc == 0, a.applies[p]);
			if (copies && pair->kind == SC_C3_INDEPENDENT)
				ck_assert_int_eq(a.applies[p],
						 pair->transfer.shape.kind == SC_ALL_GATHER ||
							 pair->transfer.shape.kind ==
								 SC_ALL_TO_ALL);
			if (!a.applies[p])
				continue;
			ck_assert_double_eq(r->time_us, one.time_us);
			ck_assert_double_le(r->speedup, r->ideal * (1 + CLOSE));
			ck_assert_double_ge(r->ideal * (1 + CLOSE),
					    r->serial_us / fmax(r->compute_us, r->comm_us));
			if (pair->comm_us > 0) /* as it was measured */
				continue;
			/* what adders in switches reach (NVLS): 2 % more was measured */
			ck_assert_double_ge(1.03 * r->time_us, wire_us(&pair->transfer));
			ck_assert_double_ge(1.03 * r->serial_us / r->ideal,
					    fmin(r->comm_us, wire_us(&pair->transfer)));
		}
	}
}

/* A name that says a collective is of no other; what is sent has the name that says it. */
TEST(kinds_by_name)
{
	enum sc_c3_kind kind;
	size_t n = 0;

	for (const struct sc_name *name = sc_c3_kind_names; name->name; name++)
		for (int c = 0; c <= SC_ALL_TO_ALL; c++) {
			const enum sc_collective collective = (enum sc_collective)c;

			if (!sc_c3_kind_of(name->value, collective, &kind) || !kind)
				continue;
			n += name->value != (int)kind;
			ck_assert(name->value == (int)kind ||
				  strcmp(sc_c3_kind_name(kind, collective), name->name) == 0);
		}
	ck_assert_uint_eq(n, 4);
	ck_assert(!sc_c3_kind_of(SC_C3_GATHER_GEMM, SC_REDUCE_SCATTER, &kind));
	ck_assert(!sc_c3_kind_of(SC_C3_GEMM_SCATTER, SC_BROADCAST, &kind));
}

/* Chunks of copies: one is a turn after the other, and what more of them leave at the end is less.
 */
TEST(chunks_of_copies)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 42);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		struct sc_c3_pair pair = random_pair(&rng);
		struct sc_device free_of_issue = *pair.transfer.device;
		struct sc_cost copy;
		double before = HUGE_VAL;

		pair.kind = SC_C3_GEMM_SCATTER;
		pair.transfer.shape.kind = SC_ALL_TO_ALL;
		free_of_issue.interference.push_us = free_of_issue.interference.copy_us = 0;
		free_of_issue.interference.path_copy = 0;
		pair.transfer.device = &free_of_issue;
		sc_interfere_copy(&pair.transfer, 1, 1, &copy);
		for (double chunks = 1; chunks <= 16; chunks *= 2) {
			const double us = with_choice(&pair, SC_C3_COPY_ENGINE, chunks);

			ck_assert_double_le(us, before * (1 + CLOSE));
			if (chunks < 2)
				ck_assert_double_ge(us, (predict(&pair, SC_C3_SERIAL).compute_us +
							 copy.work_us) *
								(1 - CLOSE));
			before = us;
		}
	}
}

/* A second kernel that is launched later begins no earlier, whichever it is; and SMs of a
 * collective's own spare the path. */
TEST(later_and_kept)
{
	struct sc_rng rng;
	int n_spared = 0;

	sc_rng_init(&rng, 43);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		struct sc_c3_pair pair = random_pair(&rng);
		struct sc_device device = *pair.transfer.device;
		const double late = 1000 * sc_rng_uniform(&rng);
		struct sc_c3_result r;
		double spared;

		pair.kind = SC_C3_INDEPENDENT;
		spared = predict(&pair, SC_C3_RESERVE).time_us;
		pair.transfer.device = &device;
		device.interference.kept_relief = 0;
		r = predict(&pair, SC_C3_RESERVE);
		ck_assert_double_le(spared, r.time_us * (1 + CLOSE));
		n_spared += spared < 0.98 * r.time_us;
		pair.second_us = late;
		r = predict(&pair, SC_C3_COMM_FIRST);
		ck_assert_double_ge(r.time_us, (late + r.compute_us) * (1 - CLOSE));
		r = predict(&pair, SC_C3_PLAIN);
		ck_assert_double_ge(r.time_us, (late + r.comm_us) * (1 - CLOSE));
	}
	ck_assert(!many_cases() || n_spared > 0);
}

/* The best fused kernels are no slower than the usual ones, and faster where those read weights
 * again; the band holds both. An all-reduce inside a kernel goes through the adders of the switch,
 * where there are any: on eight H100 a tenth faster than by copies. */
TEST(best_kernels)
{
	struct sc_rng rng;
	int n_faster = 0;

	sc_rng_init(&rng, 44);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		struct sc_c3_pair pair = random_pair(&rng);
		struct sc_fabric no_adders = *pair.transfer.fabric;
		struct sc_c3_result r;
		double by_switch;

		if (pair.kind == SC_C3_INDEPENDENT)
			continue;
		r = predict(&pair, SC_C3_TILE_FUSED);
		ck_assert_double_le(r.best_us, r.time_us * (1 + CLOSE));
		ck_assert_double_le(r.low, r.speedup);
		ck_assert_double_ge(r.high * (1 + CLOSE), r.serial_us / r.best_us);
		n_faster += r.best_us < 0.95 * r.time_us;
		pair.kind = SC_C3_GEMM_SCATTER;
		pair.transfer.shape.kind = SC_ALL_REDUCE;
		by_switch = predict(&pair, SC_C3_TILE_FUSED).best_us;
		no_adders.link.nvls_eff = 0;
		pair.transfer.fabric = &no_adders;
		r = predict(&pair, SC_C3_TILE_FUSED);
		ck_assert_double_le(by_switch, r.best_us * (1 + CLOSE));
		if (pair.transfer.device == &machine[1].device)
			ck_assert_double_eq_tol(by_switch, r.best_us, CLOSE * r.best_us);
		else if (r.comm_us > 10 * r.compute_us && r.comm_us > 1000)
			ck_assert_double_eq_tol(by_switch / r.best_us, 0.9, 0.05);
	}
	ck_assert(!many_cases() || n_faster > 0);
}

/* Experts: their fused products begin with the first expert's tokens, so that more experts on a
 * rank, of products that take together as long, end earlier (but for the path, which they load
 * meanwhile), and one waits for all; no policy beats its ideal, and rows stay continuous. */
TEST(experts)
{
	static const enum sc_c3_policy policies[] = {SC_C3_SERIAL, SC_C3_COPY_ENGINE, SC_C3_CHUNKED,
						     SC_C3_TILE_FUSED};
	struct sc_rng rng;
	int n_earlier = 0;

	sc_rng_init(&rng, 45);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		struct sc_c3_pair pair = random_pair(&rng);
		const enum sc_c3_policy policy = policies[sc_rng_below(&rng, 4)];
		struct sc_gemm_shape *g = &pair.gemm.u.gemm;
		double first;
		struct sc_cost moved;
		struct sc_c3_result r;

		pair.kind = i % 2 ? SC_C3_DISPATCH_EXPERTS : SC_C3_EXPERTS_COMBINE;
		pair.transfer.shape.kind = SC_ALL_TO_ALL;
		g->batch = ldexp(1, (int)sc_rng_below(&rng, 6));
		r = predict(&pair, policy);
		ck_assert_double_le(r.speedup, r.ideal * (1 + CLOSE));
		g->m -= 1;
		ck_assert_double_eq_tol(predict(&pair, policy).time_us / r.time_us, 1, 0.1);
		if (pair.kind != SC_C3_DISPATCH_EXPERTS)
			continue;
		pair.compute_us = r.compute_us;
		g->batch = 1;
		first = predict(&pair, SC_C3_TILE_FUSED).best_us;
		sc_interfere_copy(&pair.transfer, 1, 1, &moved);
		ck_assert_double_ge(first * (1 + CLOSE), r.compute_us + moved.work_us);
		g->batch = 64;
		r = predict(&pair, SC_C3_TILE_FUSED);
		ck_assert_double_le(r.best_us, first * 1.03);
		n_earlier += r.best_us < 0.8 * first;
	}
	ck_assert(!many_cases() || n_earlier > 0);
}

/* The same paper's other figures: an all-gather takes 32 SMs at most, an all-to-all 64; DMA loses
 * to SMs below some size from 1 to 64 MB. */
TEST(figures_of_conccl)
{
	struct sc_transfer t = {.device = &machine[1].device,
				.fabric = &fabric[1],
				.shape = {SC_ALL_GATHER, 1 << 30, SC_FP16},
				.n_ranks = 8};
	struct sc_cost sm, copy;
	double crossover = 0;

	for (double bytes = 1 << 18; bytes <= 1 << 30; bytes *= 2) {
		t.shape.bytes = bytes;
		sc_interfere_collective(&t, 0, 0, &sm);
		sc_interfere_copy(&t, 1, t.n_ranks - 1, &copy);
		if (crossover <= 0 && sc_cost_alone_us(&copy) < sc_cost_alone_us(&sm))
			crossover = bytes;
	}
	t.shape.bytes = 1 << 30;
	ck_assert_double_eq_tol(sc_transfer_sms(&t), 32, CLOSE);
	t.shape.kind = SC_ALL_TO_ALL;
	ck_assert_double_eq_tol(sc_transfer_sms(&t), 64, CLOSE);
	ck_assert_double_ge(crossover, 1e6);
	ck_assert_double_le(crossover, 64e6);
}

TEST(policies_by_name)
{
	struct sc_c3_choice choice;
	struct sc_err err = {0};

	ck_assert_int_eq(sc_c3_choice_parse("chunked:4", "", &choice, NULL), 0);
	ck_assert_int_eq(choice.policy, SC_C3_CHUNKED);
	ck_assert_double_eq_tol(choice.n, 4, CLOSE);
	ck_assert_int_eq(sc_c3_choice_parse("comm_first+reserve", "", &choice, NULL), 0);
	ck_assert_int_eq(choice.policy, SC_C3_COMM_FIRST_RESERVE);
	ck_assert_int_ne(sc_c3_choice_parse("plain:3", "", &choice, NULL), 0);
	ck_assert_int_ne(sc_c3_choice_parse("reserve:0", "", &choice, NULL), 0);
	ck_assert_int_ne(sc_c3_choice_parse("reserve:x", "", &choice, NULL), 0);
	ck_assert_int_ne(sc_c3_choice_parse("magic", "policy: ", &choice, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "policy: unknown policy \"magic\""));
}
