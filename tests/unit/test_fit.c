/* Fits: known coefficients come back, from exact, noisy and partly wrong rows; tables that cannot
 * be fitted are refused with the reason. */
#include "base/rng.h"
#include "base/strbuf.h"
#include "models/fit/fit_priv.h"
#include "models/op_model.h"
#include "models/rowwise.h"
#include "runner.h"

static struct sc_arena arena;
static struct sc_err err;

static void setup(void)
{
	sc_arena_init(&arena, 1 << 16);
	err = (struct sc_err){.code = SC_OK};
}

static void teardown(void)
{
	sc_arena_release(&arena);
}

static struct sc_device load(const char *id)
{
	struct sc_device device;

	ck_assert_msg(sc_device_load(id, &arena, &device, &err) == 0, "%s", err.text);
	return device;
}

static double op_us(const struct sc_device *device, const struct sc_op *op)
{
	struct sc_op_time time;

	sc_op_model_get(op->kind)->time(device, op, &time);
	return time.total_us;
}

static int run(const struct sc_strbuf *text, struct sc_fit_opts opts, struct sc_fit *out)
{
	struct sc_csv *csv = sc_arena_alloc(&arena, sizeof(*csv));

	opts.table = csv;
	if (!opts.device)
		opts.device = "a100-sxm-80gb";
	if (!opts.n_folds)
		opts.n_folds = SC_FIT_FOLDS;
	ck_assert_int_eq(sc_csv_parse(&(struct sc_source){sc_strbuf_get(text), text->n, "t.csv"},
				      &arena, csv, &err),
			 0);
	return sc_fit_run(&opts, &arena, out, &err);
}

static void run_well(struct sc_strbuf *text, struct sc_fit_opts opts, struct sc_fit *out)
{
	int rc = run(text, opts, out);

	ck_assert_msg(rc == 0, "%s", err.text);
	sc_strbuf_release(text);
}

static void run_badly(struct sc_strbuf *text, struct sc_fit_opts opts, const char *message)
{
	struct sc_fit fit;

	ck_assert_int_ne(run(text, opts, &fit), 0);
	ck_assert_msg(strstr(err.text, message), "\"%s\" not in \"%s\"", message, err.text);
	sc_strbuf_release(text);
}

static const struct sc_fit_param *coef(const struct sc_fit *fit, const char *name)
{
	for (size_t i = 0; i < fit->coefs->n; i++)
		if (strcmp(fit->coefs->at[i].name, name) == 0)
			return &fit->coefs->at[i];
	ck_abort_msg("no coefficient %s", name);
	return NULL;
}

static void is_near(const struct sc_fit *fit, const char *name, double want, double tolerance)
{
	double got = coef(fit, name)->value;

	ck_assert_msg(fabs(got / want - 1) <= tolerance, "%s: %g, not %g", name, got, want);
}

/* ---- GEMM ---- */

/* What becomes of a row's time. */
struct trouble {
	double noise, launch_us, scale;
	bool outliers; /* each tenth three to ten times as long */
};

static struct sc_device other_a100(void)
{
	struct sc_device d = load("a100-sxm-80gb");

	d.gemm.eff_max = 0.7;
	d.gemm.tile_half = 40;
	d.gemm.k_half = 300;
	d.gemm.wave_frac = 0.5;
	d.gemm.hbm_eff = 0.6;
	d.gemm.fixed_us = 8;
	d.gemm.power_eff = 1;
	d.gemm.tensor_pj = 2.5; /* the limit is felt */
	return d;
}

static void add_gemms(struct sc_strbuf *text, const char *source, size_t n, enum sc_dtype dtype,
		      struct trouble trouble)
{
	static const double SIZES[] = {64, 96, 128, 384, 512, 1024, 1536, 2048, 4096, 6144, 8192};
	struct sc_device d = other_a100();
	struct sc_rng rng;

	sc_rng_init(&rng, 7);
	for (size_t i = 0; i < n; i++) {
		struct sc_op op = {.kind = SC_OP_GEMM, .dtype = dtype};
		double us;

		op.u.gemm = (struct sc_gemm_shape){.batch = 1,
						   .m = SIZES[sc_rng_below(&rng, 11)],
						   .n = SIZES[sc_rng_below(&rng, 11)],
						   .k = SIZES[sc_rng_below(&rng, 11)],
						   .load = SC_LOAD_SECOND};
		us = op_us(&d, &op) + trouble.launch_us;
		us *= exp(trouble.noise * sc_rng_normal(&rng));
		if (trouble.outliers && i % 10 == 3)
			us *= 3 + 7 * sc_rng_uniform(&rng);
		sc_strbuf_printf(text, "%s,a100-sxm-80gb,%s,linear,fwd,%g,%g,%g,%.9g\n", source,
				 dtype == SC_FP32 ? "fp32" : "fp16", op.u.gemm.m, op.u.gemm.n,
				 op.u.gemm.k, us * (trouble.scale > 0 ? trouble.scale : 1));
	}
}

static struct sc_strbuf gemm_table(size_t n, struct trouble trouble)
{
	struct sc_strbuf text = {0};

	sc_strbuf_append(&text, "source,device,dtype,op,pass,m,n,k,time_us\n");
	add_gemms(&text, "mine", n, SC_FP16, trouble);
	return text;
}

static void gemm_is_near(const struct sc_fit *fit, double tolerance)
{
	is_near(fit, "eff_max", 0.7, tolerance);
	is_near(fit, "fixed_us", 8, tolerance);
	is_near(fit, "hbm_eff", 0.6, 2 * tolerance);
	is_near(fit, "k_half", 300, 3 * tolerance);
	is_near(fit, "tile_half", 40, 5 * tolerance);
	is_near(fit, "wave_frac", 0.5, 5 * tolerance);
}

FIXTURE(setup, teardown)

TEST(gemm_comes_back)
{
	struct sc_strbuf text = gemm_table(600, (struct trouble){0});
	struct sc_fit fit;

	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM}, &fit);
	gemm_is_near(&fit, 2e-3);
	ck_assert_double_lt(fit.held_out.mape_pct, 0.2);
	ck_assert_double_gt(fit.before.mape_pct, 10);
	ck_assert_uint_eq(fit.n_rows, 600);
	ck_assert_uint_eq(fit.n_used, 600);
	ck_assert_double_eq_tol(fit.device.gemm.eff_max, coef(&fit, "eff_max")->value, 1e-12);
	/* set for sustained load, not by tables of kernels timed alone */
	ck_assert_double_eq_tol(fit.device.gemm.power_eff, load("a100-sxm-80gb").gemm.power_eff,
				1e-12);
}

LOOP_TEST(gemm_with_noise_is_within_its_errors, many_cases() ? 1 : 0)
{
	struct sc_strbuf text = gemm_table(800, (struct trouble){.noise = 0.05});
	struct sc_fit fit;

	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM}, &fit);
	gemm_is_near(&fit, 0.05);
	ck_assert_double_lt(fabs(coef(&fit, "eff_max")->value - 0.7),
			    4 * coef(&fit, "eff_max")->standard_error);
	ck_assert_double_lt(fabs(coef(&fit, "fixed_us")->value - 8),
			    4 * coef(&fit, "fixed_us")->standard_error);
	ck_assert_double_eq_tol(fit.spread_frac, 0.05, 0.01);
}

LOOP_TEST(gemm_outliers_have_no_say, many_cases() ? 1 : 0)
{
	struct sc_strbuf text = gemm_table(800, (struct trouble){.noise = 0.02, .outliers = true});
	struct sc_strbuf clean = gemm_table(800, (struct trouble){.noise = 0.02});
	struct sc_fit fit, want;

	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM}, &fit);
	run_well(&clean, (struct sc_fit_opts){.kind = SC_FIT_GEMM}, &want);
	gemm_is_near(&fit, 0.02);
	for (size_t i = 0; i < fit.coefs->n; i++)
		if (want.coefs->at[i].status == SC_FIT_FITTED &&
		    want.coefs->at[i].standard_error < want.coefs->at[i].value / 20)
			is_near(&fit, want.coefs->at[i].name, want.coefs->at[i].value, 0.05);
}

TEST(unused_coefficients_stay_and_are_named)
{
	struct sc_strbuf text = gemm_table(300, (struct trouble){0});
	struct sc_device d = load("a100-sxm-80gb");
	struct sc_fit fit;

	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM}, &fit);
	ck_assert_int_eq(coef(&fit, "eff_simt")->status, SC_FIT_UNDETERMINED);
	ck_assert_double_eq_tol(coef(&fit, "eff_simt")->value, d.gemm.eff_simt, 1e-12);
	ck_assert_int_eq(coef(&fit, "k_half_batched")->status, SC_FIT_UNDETERMINED);
	ck_assert_int_eq(coef(&fit, "misaligned_eff")->status, SC_FIT_UNDETERMINED);
	ck_assert_int_eq(coef(&fit, "eff_max")->status, SC_FIT_FITTED);
	ck_assert(isnan(coef(&fit, "eff_simt")->standard_error));
}

TEST(launch_is_told_apart)
{
	struct sc_strbuf text = gemm_table(400, (struct trouble){0});
	struct sc_fit fit;

	add_gemms(&text, "theirs", 400, SC_FP32, (struct trouble){.launch_us = 40});
	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM}, &fit);
	is_near(&fit, "theirs", 40, 0.02);
	ck_assert_str_eq(coef(&fit, "theirs")->block, "launch");
	is_near(&fit, "fixed_us", 8, 0.02); /* the kernel's own, from the other source */
	for (size_t i = 0; i < fit.coefs->n; i++)
		ck_assert_str_ne(fit.coefs->at[i].name, "mine");
}

LOOP_TEST(launch_alone_keeps_fixed_us, many_cases() ? 1 : 0)
{
	struct sc_strbuf text = gemm_table(400, (struct trouble){.launch_us = 40});
	struct sc_fit fit;

	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM}, &fit);
	ck_assert_int_eq(coef(&fit, "fixed_us")->status, SC_FIT_UNDETERMINED);
	is_near(&fit, "mine", 48 - load("a100-sxm-80gb").gemm.fixed_us, 0.02);
	text = gemm_table(400, (struct trouble){.launch_us = 40});
	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM, .launch = SC_FIT_LAUNCH_NONE},
		 &fit);
	is_near(&fit, "fixed_us", 48, 0.02);
}

TEST(same_bytes_twice)
{
	struct sc_fit fit[2];

	if (!many_cases())
		return;
	for (int i = 0; i < 2; i++) {
		struct sc_strbuf text = gemm_table(300, (struct trouble){.noise = 0.1});

		run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM}, &fit[i]);
	}
	for (size_t i = 0; i < fit[0].coefs->n; i++)
		ck_assert_mem_eq(&fit[0].coefs->at[i].value, &fit[1].coefs->at[i].value,
				 sizeof(double));
	for (size_t i = 0; i < fit[0].n_rows; i++)
		ck_assert_mem_eq(&fit[0].points[i], &fit[1].points[i], sizeof(fit[0].points[i]));
}

/* As many folds as shapes: each is held out alone, so all rows of one are predicted alike. */
TEST(folds_never_split_a_shape)
{
	struct sc_strbuf text = {0};
	struct sc_rng rng;
	struct sc_fit fit;

	sc_rng_init(&rng, 3);
	sc_strbuf_append(&text, "device,op,rows,cols,time_us\n");
	for (int i = 0; i < 60; i++)
		sc_strbuf_printf(&text, "a100-sxm-80gb,add,%d,4096,%.9g\n", 4096 * (1 + i % 6),
				 (10 + 60 * (1 + i % 6)) * exp(0.2 * sc_rng_normal(&rng)));
	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_ROWWISE, .n_folds = 6}, &fit);
	ck_assert_uint_eq(fit.n_shapes, 6);
	for (size_t i = 6; i < 60; i++)
		ck_assert_double_eq_tol(fit.points[i].held_out_us, fit.points[i - 6].held_out_us,
					1e-9);
	/* and what a shape says of itself was not used */
	ck_assert_double_gt(fabs(fit.points[0].held_out_us - fit.points[0].in_sample_us), 1e-6);
}

/* ---- other kinds ---- */

TEST(attention_comes_back)
{
	struct sc_device d = load("a100-sxm-80gb");
	struct sc_strbuf text = {0};
	struct sc_fit fit;

	d.attention.fwd_eff = 0.4;
	d.attention.bwd_eff = 0.3;
	d.attention.fwd_tile_us = 7;
	d.attention.fixed_us = 12;
	sc_strbuf_append(&text, "device,pass,causal,heads,seq,head_dim,time_us\n");
	for (int i = 0; i < 120; i++) {
		struct sc_op op = {.kind = SC_OP_ATTENTION, .dtype = SC_FP16};
		double heads = 1 + i % 7 * 4, seq = 256 << (i % 6), dim = i % 2 ? 64 : 128;

		op.u.attention = (struct sc_attention_shape){.batch = 1,
							     .heads = heads,
							     .kv_heads = heads,
							     .seq_q = seq,
							     .seq_kv = seq,
							     .head_dim = dim,
							     .causal = i % 5 == 0,
							     .backward = i % 3 == 0};
		sc_strbuf_printf(&text, "a100-sxm-80gb,%s,%s,%g,%g,%g,%.9g\n",
				 i % 3 == 0 ? "bwd" : "fwd", i % 5 == 0 ? "true" : "false", heads,
				 seq, dim, op_us(&d, &op));
	}
	run_well(&text,
		 (struct sc_fit_opts){.kind = SC_FIT_ATTENTION, .launch = SC_FIT_LAUNCH_NONE},
		 &fit);
	is_near(&fit, "fwd_eff", 0.4, 1e-2);
	is_near(&fit, "bwd_eff", 0.3, 1e-2);
	is_near(&fit, "fwd_tile_us", 7, 2e-2);
	is_near(&fit, "fixed_us", 12, 2e-2);
}

TEST(rowwise_comes_back)
{
	struct sc_device d = load("a100-sxm-80gb");
	struct sc_strbuf text = {0};
	struct sc_fit fit;

	d.rowwise.hbm_eff = 0.6;
	d.rowwise.fixed_us = 9;
	sc_strbuf_append(&text, "device,op,rows,cols,time_us\n");
	for (int i = 0; i < 60; i++) {
		struct sc_op op = {.kind = SC_OP_ROWWISE, .dtype = SC_FP16};
		double n = (64 << (i % 12)) * 3072.0;

		op.u.rowwise = (struct sc_rowwise_shape){.read_bytes = 4 * n,
							 .write_bytes = 2 * n,
							 .rows = 64 << (i % 12),
							 .cols = 3072,
							 .n_kernels = 1};
		sc_strbuf_printf(&text, "a100-sxm-80gb,add,%d,3072,%.9g\n", 64 << (i % 12),
				 op_us(&d, &op));
	}
	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_ROWWISE}, &fit);
	is_near(&fit, "hbm_eff", 0.6, 1e-2);
	ck_assert_double_lt(fit.held_out.mape_pct, 0.5);
	/* half_bytes and fixed_us may add the same to every row: the first then stays */
	if (coef(&fit, "half_bytes")->status == SC_FIT_UNDETERMINED)
		is_near(&fit, "fixed_us", 9, 2e-2);
}

TEST(optimizer_and_host_come_back)
{
	struct sc_device d = load("a100-sxm-80gb");
	struct sc_strbuf text = {0}, host = {0};
	struct sc_fit fit;

	d.rowwise.hbm_eff = 0.5;
	sc_strbuf_append(&text, "device,params,bytes,time_us\n");
	sc_strbuf_append(&host, "device,launches,time_us\n");
	for (int i = 0; i < 40; i++) {
		struct sc_op op = {.kind = SC_OP_OPTIMIZER};

		op.u.rowwise = (struct sc_rowwise_shape){
			.read_bytes = 16.0 * (1 << (10 + i % 18)), .rows = 1, .n_kernels = 1};
		sc_strbuf_printf(&text, "a100-sxm-80gb,%d,16,%.9g\n", 1 << (10 + i % 18),
				 op_us(&d, &op));
		sc_strbuf_printf(&host, "a100-sxm-80gb,%d,%g\n", 1 + i, 7.5 * (1 + i));
	}
	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_OPTIMIZER}, &fit);
	is_near(&fit, "hbm_eff", 0.5, 1e-2);
	run_well(&host, (struct sc_fit_opts){.kind = SC_FIT_HOST}, &fit);
	is_near(&fit, "launch_us", 7.5, 1e-3);
}

static double sweep_us(const struct sc_fabric_profile *profile, const struct sc_device *device,
		       enum sc_collective kind, double bytes, int nodes)
{
	struct sc_request *request = sc_arena_calloc(&arena, 1, sizeof(*request));
	struct sc_collective_shape shape = {.kind = kind, .bytes = bytes, .dtype = SC_FP16};
	struct sc_span span = {8 * nodes, nodes, 8};
	struct sc_fabric fabric;
	struct sc_cost cost;

	sc_config_init(&request->config);
	request->device = *device;
	request->fabric_profile = *profile;
	request->config.gpus = 8 * nodes;
	request->config.cluster.gpus_per_node = request->config.cluster.scale_up_gpus = 8;
	request->config.cluster.nics_per_node = 4;
	request->config.cluster.nic_gbit_s = 100;
	request->config.cluster.fabric = "slingshot";
	ck_assert_int_eq(sc_fabric_from_request(request, &fabric, &err), 0);
	cost = sc_collective_cost(&fabric, &shape, &span, NULL);
	return cost.latency_us + cost.work_us;
}

TEST(collective_comes_back)
{
	struct sc_device d = load("a100-sxm-80gb");
	struct sc_fabric_profile profile;
	struct sc_strbuf text = {0};
	struct sc_fabric_link *link;
	struct sc_fabric_net *net;
	struct sc_fit fit;

	ck_assert_int_eq(sc_fabric_profile_load("default", &arena, &profile, &err), 0);
	link = (struct sc_fabric_link *)(uintptr_t)sc_fabric_link_get(&profile, "nvidia", 80);
	net = (struct sc_fabric_net *)(uintptr_t)sc_fabric_net_get(&profile, "slingshot");
	link->eff = 0.6;
	link->latency_us = 15;
	net->eff = 0.5;
	net->simple_us = 80;
	sc_strbuf_append(&text,
			 "sweep,device,collective,ranks,nodes,gpus_per_node,intra,inter,bytes,"
			 "time_us\n");
	for (int i = 0; i < 120; i++) {
		int nodes = i % 2 ? 1 : 2;
		enum sc_collective kind = i % 4 < 2 ? SC_ALL_REDUCE : SC_ALL_GATHER;
		double bytes = 1024 << (i / 4 % 20);

		sc_strbuf_printf(&text, "s%d,a100-sxm-80gb,%s,%d,%d,8,NVSwitch,%s,%.0f,%.9g\n",
				 i % 4, kind == SC_ALL_REDUCE ? "all_reduce" : "all_gather",
				 8 * nodes, nodes, nodes > 1 ? "4x100Gb_Slingshot11" : "none",
				 bytes, sweep_us(&profile, &d, kind, bytes, nodes));
	}
	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_COLLECTIVE}, &fit);
	ck_assert_double_lt(fit.held_out.mape_pct, 2);
	for (size_t i = 0; i < fit.coefs->n; i++)
		if (strcmp(fit.coefs->at[i].name, "simple_us") == 0 &&
		    strcmp(fit.coefs->at[i].block, "nets efa") == 0)
			ck_assert_double_eq_tol(fit.coefs->at[i].value, 80, 8);
	ck_assert_str_eq(fit.coefs->at[0].block, "links nvlink3");
	ck_assert_double_eq_tol(fit.coefs->at[0].value, 0.6, 0.02);
}

/* Machines with one truth: each is told by the others, whatever the profile has; what is kept is as
 * it was. */
TEST(a_machine_left_out_is_told_by_the_others)
{
	static const char *const KEPT[] = {"ramp.*", "links nvlink3.copy*"};
	struct sc_device d = load("a100-sxm-80gb");
	struct sc_fabric_profile profile;
	struct sc_strbuf text = {0};
	struct sc_fabric_link *link;
	struct sc_fit fit;

	ck_assert_int_eq(sc_fabric_profile_load("default", &arena, &profile, &err), 0);
	link = (struct sc_fabric_link *)(uintptr_t)sc_fabric_link_get(&profile, "nvidia", 80);
	link->eff = 0.5;
	link->latency_us = 40;
	sc_strbuf_append(&text, "machine,sweep,device,collective,ranks,nodes,gpus_per_node,intra,"
				"inter,bytes,time_us\n");
	for (int i = 0; i < 120; i++) {
		enum sc_collective kind = i % 2 ? SC_ALL_REDUCE : SC_ALL_GATHER;
		double bytes = 1024 << (i / 4 % 20);

		sc_strbuf_printf(&text, "m%d,s%d,a100-sxm-80gb,%s,8,1,8,NVSwitch,none,%.0f,%.9g\n",
				 i % 3, i % 2, i % 2 ? "all_reduce" : "all_gather", bytes,
				 sweep_us(&profile, &d, kind, bytes, 1));
	}
	run_well(&text,
		 (struct sc_fit_opts){.kind = SC_FIT_COLLECTIVE,
				      .leave_out = "machine",
				      .keep = KEPT,
				      .n_keep = 2},
		 &fit);
	ck_assert_double_gt(fit.before.median_ape_pct, 20);
	ck_assert_double_lt(fit.held_out.median_ape_pct, 5);
	ck_assert_double_lt(fit.group_median_pct, 5);
	is_near(&fit, "eff", 0.5, 0.1);
	ck_assert_int_eq(coef(&fit, "copy_gbps")->status, SC_FIT_KEPT);
	ck_assert_int_eq(coef(&fit, "nvls_slope")->status, SC_FIT_KEPT);
	ck_assert_double_eq(coef(&fit, "nvls_slope")->value, profile.ramp.nvls_slope);
	for (size_t i = 0; i < fit.coefs->n; i++) {
		const struct sc_fit_param *c = &fit.coefs->at[i];

		if (c->status == SC_FIT_FITTED)
			ck_assert(c->value > c->lower && c->value < c->upper);
	}
}

TEST(forced_algorithms_are_left_out)
{
	struct sc_strbuf text = {0};
	struct sc_fit fit;

	sc_strbuf_append(&text, "device,collective,algo,library,ranks,bytes,time_us\n");
	for (int i = 0; i < 60; i++)
		sc_strbuf_printf(&text, "a100-sxm-80gb,all_reduce,%s,%s,8,%d,%g\n",
				 i % 3 == 1 ? "ring" : "", i % 3 == 2 ? "MSCCL" : "NCCL",
				 1 << (10 + i % 20), 40 + 1.2e-5 * (1 << (10 + i % 20)));
	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_COLLECTIVE}, &fit);
	ck_assert_uint_eq(fit.n_rows, 20);
	ck_assert_uint_eq(fit.n_forced, 40);
}

/* As export writes them where peers were not recorded. */
LOOP_TEST(times_with_waiting_are_left_out, 2)
{
	static const struct sc_where where[] = {{"quality", "*"}};
	struct sc_fit_opts opts = {.kind = SC_FIT_COLLECTIVE};
	struct sc_strbuf text = {0};
	struct sc_fit fit;

	sc_strbuf_append(&text, "device,collective,ranks,bytes,time_us,quality\n");
	for (int i = 0; i < 60; i++)
		sc_strbuf_printf(&text, "a100-sxm-80gb,all_reduce,8,%d,%g,%s\n", 1 << (10 + i % 20),
				 40 + 1.2e-5 * (1 << (10 + i % 20)), i % 3 ? "good" : "bound");
	if (_i) {
		opts.where = where;
		opts.n_where = 1;
	}
	run_well(&text, opts, &fit);
	ck_assert_uint_eq(fit.n_rows, _i ? 60 : 40);
	ck_assert_uint_eq(fit.n_bound, _i ? 0 : 20);
}

TEST(only_times_with_waiting)
{
	struct sc_strbuf text = {0};

	sc_strbuf_append(&text, "device,collective,ranks,bytes,time_us,quality\n");
	for (int i = 0; i < 60; i++)
		sc_strbuf_printf(&text, "a100-sxm-80gb,all_reduce,8,%d,50,bound\n",
				 1 << (10 + i % 20));
	run_badly(&text, (struct sc_fit_opts){.kind = SC_FIT_COLLECTIVE},
		  "60 of quality bound were left out");
}

/* ---- what cannot be fitted ---- */

TEST(too_few_rows)
{
	struct sc_strbuf text = gemm_table(12, (struct trouble){0});

	run_badly(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM}, "too few rows: n=12");
}

TEST(one_size_only)
{
	struct sc_strbuf text = {0};

	sc_strbuf_append(&text, "device,op,rows,cols,time_us\n");
	for (int i = 0; i < 50; i++)
		sc_strbuf_printf(&text, "a100-sxm-80gb,add,8192,8192,%d\n", 260 + i % 3);
	run_badly(&text, (struct sc_fit_opts){.kind = SC_FIT_ROWWISE},
		  "all 50 rows have one shape");
}

TEST(a_fold_without_enough_rows)
{
	struct sc_strbuf text = {0};

	sc_strbuf_append(&text, "device,op,rows,cols,time_us\n");
	for (int i = 0; i < 50; i++)
		sc_strbuf_printf(&text, "a100-sxm-80gb,add,%d,8192,%d\n", i ? 8192 : 65536,
				 i ? 250 + i % 3 : 1900);
	run_badly(&text, (struct sc_fit_opts){.kind = SC_FIT_ROWWISE, .n_folds = 2},
		  "a fold leaves 1 rows for");
}

LOOP_TEST(units_are_suspected, 3)
{
	static const double SCALES[] = {1e-3, 1e-6, 1e3};
	static const char *const MESSAGES[] = {"is time_us in ms or s", "is time_us in ms or s",
					       "is time_us in ns"};
	struct sc_strbuf text = gemm_table(300, (struct trouble){.scale = SCALES[_i]});

	run_badly(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM}, MESSAGES[_i]);
}

LOOP_TEST(times_must_be_times, 6)
{
	static const char *const TIMES[] = {"nan", "-3", "0", "inf", "x", "1e400"};
	struct sc_strbuf text = gemm_table(30, (struct trouble){0});

	sc_strbuf_printf(&text, "mine,a100-sxm-80gb,fp16,linear,fwd,64,64,64,%s\n", TIMES[_i]);
	run_badly(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM}, "time_us: ");
	ck_assert_uint_eq(err.line, 32);
	ck_assert_str_eq(err.file, "t.csv");
}

TEST(empty_times_are_counted)
{
	struct sc_strbuf text = gemm_table(300, (struct trouble){0});
	struct sc_fit fit;

	sc_strbuf_append(&text, "mine,a100-sxm-80gb,fp16,linear,fwd,64,64,64,\n");
	sc_strbuf_append(&text, "mine,t4,fp16,linear,fwd,64,64,64,nan\n"); /* not ours */
	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM}, &fit);
	ck_assert_uint_eq(fit.n_rows, 300);
	ck_assert_uint_eq(fit.n_empty, 1);
	ck_assert_uint_eq(fit.n_other, 1);
}

TEST(a_table_without_the_device)
{
	struct sc_strbuf text = gemm_table(30, (struct trouble){0});

	run_badly(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM, .device = "t4"},
		  "no row for t4; other devices in the table: a100-sxm-80gb");
}

TEST(where_chooses)
{
	static const struct sc_where mine = {"source", "mine"}, none = {"nothing", "x"};
	struct sc_strbuf text = gemm_table(200, (struct trouble){0}), again;
	struct sc_fit fit;

	add_gemms(&text, "theirs", 100, SC_FP16, (struct trouble){.scale = 2});
	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM, .where = &mine, .n_where = 1},
		 &fit);
	ck_assert_uint_eq(fit.n_rows, 200);
	ck_assert_uint_eq(fit.n_other, 100);
	gemm_is_near(&fit, 5e-3);
	again = gemm_table(30, (struct trouble){0});
	run_badly(&again, (struct sc_fit_opts){.kind = SC_FIT_GEMM, .where = &none, .n_where = 1},
		  "no column \"nothing\"");
}

/* ---- the table of coefficients ---- */

/* A coefficient that a device file may hold is fitted, or held on purpose: it is the library's
 * choice, or no table of kernels timed alone says it. */
TEST(every_coefficient_has_a_line)
{
	static const char *const not_fitted[] = {
		"spread_frac", "clock_spread_frac", "curve_spread_frac", "batched_tile_m",
		"slowdown",    "block_scale_loss",  "path_copy",         "wait_frac",
		"sm_granule",  "copy_speed",        "copy_us",           "relief_gain",
		"push_us",     "fused_loss",        "run_fixed_us",      "kept_relief",
		"channel_gbps"};
	size_t n = sizeof(not_fitted) / sizeof(not_fitted[0]);

	for (const struct sc_field *section = sc_device_fields; section->key; section++) {
		const struct sc_fit_coef *coefs = sc_fit_coefs_of(section->key);

		for (const struct sc_field *f = coefs ? section->sub : NULL; f && f->key; f++) {
			const struct sc_fit_coef *c = coefs;
			const struct sc_fit_fixed *fixed = sc_fit_fixed;
			size_t i = 0;

			while (i < n && strcmp(f->key, not_fitted[i]) != 0)
				i++;
			while (fixed->key && (strcmp(fixed->key, f->key) != 0 ||
					      strcmp(fixed->section, section->key) != 0))
				fixed++;
			while (c->key && strcmp(c->key, f->key) != 0)
				c++;
			if (f->type != SC_F_DOUBLE || i < n)
				continue;
			ck_assert_msg(c->key || fixed->key, "%s.%s has no line in fit_kinds.c",
				      section->key, f->key);
			ck_assert(!c->key || (c->lower > 0 && c->lower < c->upper &&
					      c->lower >= f->min && c->upper <= f->max));
		}
	}
}

/* ---- hosts, groups, curves ---- */

/* The host is back no earlier than the floor, however short the kernel. */
static void add_adds(struct sc_strbuf *text, const char *device, double eff)
{
	struct sc_device d = load(device);
	struct sc_rng rng;

	sc_rng_init(&rng, 11);
	d.rowwise.hbm_eff = eff;
	d.rowwise.fixed_us = 3;
	for (int i = 0; i < 120; i++) {
		struct sc_op op = {.kind = SC_OP_ROWWISE, .dtype = SC_FP16};
		double rows = 16 << (i % 15), cols = 1024 + 64 * (i % 7);

		sc_rowwise_shape_set(SC_ROW_ADD, false, 2, rows, cols, &op.u.rowwise);
		sc_strbuf_printf(text, "lab,%s,add,fwd,%g,%g,%.9g\n", device, rows, cols,
				 fmax(40, 17 + op_us(&d, &op)) * exp(0.005 * sc_rng_normal(&rng)));
	}
}

TEST(floor_and_launch_come_back)
{
	struct sc_strbuf text = {0};
	struct sc_fit fit;

	sc_strbuf_append(&text, "source,device,op,pass,rows,cols,time_us\n");
	add_adds(&text, "a100-sxm-80gb", 0.8);
	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_ROWWISE}, &fit);
	is_near(&fit, "hbm_eff", 0.8, 1e-2);
	for (size_t i = 0; i < fit.coefs->n; i++)
		if (strcmp(fit.coefs->at[i].block, "floor") == 0)
			ck_assert_double_eq_tol(fit.coefs->at[i].value, 40, 0.2);
	ck_assert_double_lt(fit.held_out.mape_pct, 0.6);
}

TEST(a_device_left_out_is_told_by_its_datasheet)
{
	struct sc_strbuf text = {0}, one = {0};
	struct sc_fit fit;
	size_t n = 0;

	sc_strbuf_append(&text, "source,device,op,pass,rows,cols,time_us\n");
	add_adds(&text, "a100-sxm-80gb", 0.8);
	add_adds(&text, "t4", 0.8);
	add_adds(&text, "h100-sxm-80gb", 0.8);
	run_well(
		&text,
		(struct sc_fit_opts){.kind = SC_FIT_ROWWISE, .leave_out = "device", .device = "t4"},
		&fit);
	ck_assert_uint_eq(fit.n_rows, 360);
	ck_assert_double_lt(fit.held_out.mape_pct, 1);
	for (size_t i = 0; i < fit.n_regions; i++)
		n += strcmp(fit.regions[i].by, "device") == 0 &&
		     fit.regions[i].accuracy.mape_pct < 1.5;
	ck_assert_uint_eq(n, 3);
	sc_strbuf_append(&one, "source,device,op,pass,rows,cols,time_us\n");
	add_adds(&one, "t4", 0.8);
	run_badly(
		&one,
		(struct sc_fit_opts){.kind = SC_FIT_ROWWISE, .leave_out = "device", .device = "t4"},
		"all rows have one value of device");
}

/* fp32 products of one library on several cards: those whose power is short are slower when long.
 */
static void add_simt(struct sc_strbuf *text, const char *device)
{
	struct sc_device d = load(device), shared = load("a100-pcie-40gb");
	struct sc_rng rng;

	sc_rng_init(&rng, 13);
	d.gemm = shared.gemm;
	d.gemm.eff_simt = 0.9;
	d.gemm.hbm_eff = 0.7;
	d.simt = (struct sc_simt_coef){.eff_batched = 0.8,
				       .tile_half = 10,
				       .k_half = 40,
				       .k_half_batched = 7,
				       .wave_frac = 0.9,
				       .batched_tile_m = d.simt.batched_tile_m,
				       .far_k = d.simt.far_k > 0 ? 5000 * d.l2_mib : 0,
				       .far_loss = 1.5,
				       .droop_us = 2000,
				       .flop_pj = 24};
	for (int i = 0; i < 300; i++) {
		double batch = i % 2 ? 16 : 1, m = 64 << (i % 7), n = 64 << (i / 7 % 7);
		struct sc_op op = {SC_OP_GEMM, SC_FP32, {.gemm = {.batch = batch, .m = m, .n = n}}};

		op.u.gemm.k = 100 << (i / 49 % 7);
		op.u.gemm.bmm = batch > 1;
		sc_strbuf_printf(text, "%s,fp32,%s,%g,%g,%g,%g,%.9g\n", device,
				 batch > 1 ? "bmm" : "linear", batch, m, n, op.u.gemm.k,
				 op_us(&d, &op) * exp(0.01 * sc_rng_normal(&rng)));
	}
}

LOOP_TEST(power_and_process_tell_a_card_left_out, many_cases() ? 1 : 0)
{
	static const char *const devices[] = {"a100-pcie-40gb", "t4", "v100-pcie-32gb", "p4"};
	struct sc_strbuf text = {0};
	struct sc_fit fit;
	size_t n = 0;

	sc_strbuf_append(&text, "device,dtype,op,batch,m,n,k,time_us\n");
	for (size_t i = 0; i < 4; i++)
		add_simt(&text, devices[i]);
	run_well(&text,
		 (struct sc_fit_opts){
			 .kind = SC_FIT_GEMM, .leave_out = "device", .device = "a100-pcie-40gb"},
		 &fit);
	is_near(&fit, "flop_pj", 24, 0.02);
	for (size_t i = 0; i < fit.n_regions; i++)
		n += strcmp(fit.regions[i].by, "device") == 0 &&
		     fit.regions[i].accuracy.mape_pct < 4;
	ck_assert_uint_eq(n, 4);
}

/* A group that differs is predicted by the others, not by itself. */
LOOP_TEST(a_group_left_out_has_no_say, many_cases() ? 1 : 0)
{
	struct sc_strbuf text = gemm_table(300, (struct trouble){0});
	struct sc_fit fit;

	add_gemms(&text, "slow", 300, SC_FP16, (struct trouble){.scale = 3});
	run_well(&text,
		 (struct sc_fit_opts){.kind = SC_FIT_GEMM,
				      .hold_out = &(struct sc_where){"source", "sl*"},
				      .n_hold_out = 1},
		 &fit);
	ck_assert_uint_eq(fit.held_out.n, 300);
	ck_assert_double_eq_tol(fit.held_out.bias_pct, 100 / 3.0 - 100, 0.5);
}

TEST(groups_are_checked)
{
	struct sc_strbuf text = gemm_table(30, (struct trouble){0});
	const struct sc_where none = {"source", "x"}, all = {"source", "*"};

	run_badly(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM, .leave_out = "colour"},
		  "--leave-out: no column \"colour\"");
	text = gemm_table(30, (struct trouble){0});
	err = (struct sc_err){.code = SC_OK};
	run_badly(&text,
		  (struct sc_fit_opts){.kind = SC_FIT_GEMM, .hold_out = &none, .n_hold_out = 1},
		  "--hold-out takes no rows");
	text = gemm_table(30, (struct trouble){0});
	err = (struct sc_err){.code = SC_OK};
	run_badly(&text,
		  (struct sc_fit_opts){.kind = SC_FIT_GEMM, .hold_out = &all, .n_hold_out = 1},
		  "--hold-out takes all rows");
	text = gemm_table(30, (struct trouble){0});
	err = (struct sc_err){.code = SC_OK};
	run_badly(&text, (struct sc_fit_opts){.kind = SC_FIT_ROWWISE, .curves = true},
		  "--curves is for --kind gemm or collective");
	text = gemm_table(30, (struct trouble){0});
	err = (struct sc_err){.code = SC_OK};
	run_badly(&text,
		  (struct sc_fit_opts){.kind = SC_FIT_GEMM, .leave_out = "device", .curves = true},
		  "--curves are of one device");
}

/* The library takes a poor kernel between 700 and 1,100 rows. */
static double odd_factor(double m)
{
	return m > 700 && m < 1100 ? 1.5 : 0.95;
}

static struct sc_op product(double m, double n)
{
	struct sc_op op = {.kind = SC_OP_GEMM, .dtype = SC_FP16};

	op.u.gemm = (struct sc_gemm_shape){.batch = 1, .m = m, .n = n, .k = 4096};
	return op;
}

static struct sc_strbuf odd_table(struct sc_device *device)
{
	struct sc_strbuf text = {0};

	sc_strbuf_append(&text, "source,device,dtype,op,pass,m,n,k,time_us\n");
	for (double n = 4096; n <= 8192; n *= 2)
		for (double m = 64; m <= 2048; m += 32) {
			struct sc_op op = product(m, n), grad = product(4096, n);
			double us = op_us(device, &op) * odd_factor(m);

			sc_strbuf_printf(&text, "a,a100-sxm-80gb,fp16,linear,fwd,%g,%g,4096,%.9g\n",
					 m, n, us);
			if (n > 4096)
				continue;
			grad.u.gemm.k = m;
			sc_strbuf_printf(&text, "a,a100-sxm-80gb,fp16,linear,bwd,%g,%g,4096,%.9g\n",
					 m, n, us + op_us(device, &grad));
		}
	return text;
}

TEST(products_keep_what_was_measured)
{
	struct sc_device device = other_a100();
	struct sc_strbuf text = odd_table(&device);
	struct sc_op seen = product(896, 4096), unseen = product(896, 5120);
	const struct sc_gemm_curve *c;
	struct sc_fit fit;
	double want_us = op_us(&device, &seen) * odd_factor(896);

	run_well(&text, (struct sc_fit_opts){.kind = SC_FIT_GEMM, .curves = true}, &fit);
	ck_assert_uint_eq(fit.curves.n, 2); /* none of the gradients */
	c = fit.curves.at;
	for (size_t i = 1; i < c->m.n; i++)
		ck_assert(c->m.at[i] > c->m.at[i - 1]);
	ck_assert_double_lt(c->m.at[c->m.n - 1], 2049);
	ck_assert_uint_eq(c->m.n, 63);
	for (size_t i = 0; i < fit.n_regions; i++)
		if (strcmp(fit.regions[i].value, "fwd") == 0)
			ck_assert_double_lt(fit.regions[i].accuracy.median_ape_pct, 2);
	ck_assert_uint_eq(fit.formula.n, fit.n_rows);
	ck_assert_double_gt(fit.formula.mape_pct, 1.5 * fit.held_out.mape_pct);
	ck_assert_double_gt(fit.formula_spread_frac, fit.spread_frac);
	fit.device.gemm.power_eff = 1;
	ck_assert_double_eq_tol(op_us(&fit.device, &seen), want_us, 0.03 * want_us);
	fit.device.gemm_curves.n = 0;
	ck_assert_double_lt(op_us(&fit.device, &seen), 0.85 * want_us);
	want_us = op_us(&fit.device, &unseen);
	fit.device.gemm_curves.n = 2;
	ck_assert_double_eq(op_us(&fit.device, &unseen), want_us);
}

/* Times with a bump that no formula has, and one size that falls. */
static double bumpy_us(double bytes, int ranks)
{
	double us = 30 + 4 * ranks + bytes / 100e3;

	return bytes > 1e6 && bytes < 8e6 ? 1.7 * us : us;
}

TEST(curves_follow_sweeps_and_rise)
{
	struct sc_strbuf text = {0};
	struct sc_fit fit;
	const struct sc_fabric_curve *c;

	sc_strbuf_append(&text, "device,collective,ranks,nodes,gpus_per_node,intra,inter,bytes,"
				"time_us\n");
	for (int ranks = 16; ranks <= 64; ranks *= 2)
		for (int i = 0; i < 40; i++) {
			double bytes = round(1024 * pow(1.5, i));

			sc_strbuf_printf(&text,
					 "a100-sxm-80gb,all_gather,%d,%d,8,NVSwitch,"
					 "8xHDR200_IB,%.0f,%.9g\n",
					 ranks, ranks / 8, bytes,
					 i == 20 ? 10 : bumpy_us(bytes, ranks));
		}
	run_well(&text,
		 (struct sc_fit_opts){.kind = SC_FIT_COLLECTIVE,
				      .curves = true,
				      .hold_out = &(struct sc_where){"ranks", "32"},
				      .n_hold_out = 1},
		 &fit);
	ck_assert_double_lt(fit.held_out.median_ape_pct, 8);
	ck_assert_uint_eq(fit.curves.n, 3);
	c = fit.curves.at;
	for (size_t i = 1; i < c->bytes.n; i++)
		ck_assert(c->time_us.at[i] >= c->time_us.at[i - 1] &&
			  c->bytes.at[i] > c->bytes.at[i - 1]);
}
