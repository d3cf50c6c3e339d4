/* Op models: hand-computed cases, never under the roofline, monotone, sane at small and huge sizes.
 */
#include "base/rng.h"
#include "models/op_model.h"
#include "runner.h"

static struct sc_device device(void)
{
	struct sc_device d = {
		.sm_count = 100,
		.peak_tflops = {[SC_FP32] = 20, [SC_TF32] = 150, [SC_FP16] = 300, [SC_BF16] = 300},
		.hbm_gbps = 2000,
		.gemm = {.eff_max = 0.9,
			 .eff_simt = 0.8,
			 .tile_half = 20,
			 .k_half = 64,
			 .k_half_batched = 128,
			 .wave_frac = 1,
			 .hbm_eff = 0.8,
			 .fixed_us = 3,
			 .misaligned_eff = 0.3,
			 .power_eff = 1,
			 .spread_frac = 0.1},
		.attention = {.fwd_eff = 0.6,
			      .bwd_eff = 0.5,
			      .fwd_tile_us = 2,
			      .bwd_tile_us = 2,
			      .fixed_us = 5},
		.rowwise = {.hbm_eff = 0.8, .half_bytes = 1e6, .fixed_us = 4},
	};

	return d;
}

static struct sc_op gemm(double m, double n, double k)
{
	struct sc_op op = {SC_OP_GEMM, SC_FP16, {.gemm = {.batch = 1, .m = m, .n = n, .k = k}}};

	return op;
}

static double time_us(const struct sc_device *d, const struct sc_op *op)
{
	struct sc_op_time t;

	sc_op_model_get(op->kind)->time(d, op, &t);
	ck_assert(isfinite(t.total_us));
	return t.total_us;
}

TEST(gemm_hand_computed)
{
	struct sc_device d = device();
	/* 2560 x 1280 in 256x128 tiles: 100 tiles = one wave of 100 SMs; k 4032 + 64 */
	struct sc_op op = gemm(2560, 1280, 4032);
	double math = 2.0 * 2560 * 1280 * 4096 / (300e6 * 0.9);
	double memory = 2.0 * (2560.0 * 4032 + 4032.0 * 1280 + 2560.0 * 1280) / (2000e3 * 0.8);
	double want = 3 + cbrt(math * math * math + memory * memory * memory);

	ck_assert_double_eq_tol(time_us(&d, &op), want, want * 1e-9);
}

TEST(gemm_tf32_has_its_share)
{
	struct sc_device d = device();
	struct sc_op op = gemm(8192, 8192, 8192);
	double own;

	op.dtype = SC_TF32;
	own = time_us(&d, &op);
	d.gemm.eff_tf32 = 1.08;
	ck_assert_double_eq_tol(time_us(&d, &op), own / 1.08, 0.003 * own);
	op.dtype = SC_FP16;
	own = time_us(&d, &op);
	d.gemm.eff_tf32 = 0;
	ck_assert_double_eq(time_us(&d, &op), own);
}

TEST(gemm_wave_quantization)
{
	struct sc_device d = device();
	struct sc_op one = gemm(2560, 1280, 4096), more = gemm(2560 + 256, 1280, 4096);

	/* ten more tiles: a second wave with the large tile, less with a smaller one */
	ck_assert_double_gt(time_us(&d, &more), 1.2 * time_us(&d, &one));
	d.gemm.wave_frac = 0;
	ck_assert_double_lt(time_us(&d, &more), 1.15 * time_us(&d, &one));
}

TEST(gemm_never_under_roofline)
{
	static const double SIZES[] = {1, 8, 64, 100, 1024, 5000, 51200};
	struct sc_device d = device();

	for (int i = 0; i < 7; i++)
		for (int j = 0; j < 7; j++)
			for (int l = 0; l < 7; l++) {
				struct sc_op op = gemm(SIZES[i], SIZES[j], SIZES[l]);
				double flop = 2 * SIZES[i] * SIZES[j] * SIZES[l];
				double bytes = 2 * (SIZES[i] * SIZES[l] + SIZES[l] * SIZES[j] +
						    SIZES[i] * SIZES[j]);

				ck_assert_double_ge(time_us(&d, &op), flop / 300e6);
				ck_assert_double_ge(time_us(&d, &op), bytes / 2000e3);
			}
}

TEST(gemm_monotone_in_k)
{
	struct sc_device d = device();
	double before = 0;

	for (double k = 32; k < 1e6; k *= 2) {
		struct sc_op op = gemm(4096, 4096, k);
		double now = time_us(&d, &op);

		ck_assert_double_gt(now, before);
		before = now;
	}
}

TEST(gemm_misaligned_is_slower)
{
	struct sc_device d = device();
	struct sc_op even = gemm(4096, 50304, 1024), odd = gemm(4096, 50257, 1024);

	ck_assert_double_gt(time_us(&d, &odd), 2.5 * time_us(&d, &even));
	odd.dtype = even.dtype = SC_FP32; /* no tensor cores, no alignment rule */
	ck_assert_double_le(time_us(&d, &odd), time_us(&d, &even));
}

TEST(gemm_without_tensor_cores)
{
	struct sc_device d = device();
	struct sc_op op = gemm(8192, 8192, 8192);

	d.peak_tflops[SC_FP16] = 0;
	ck_assert_double_ge(time_us(&d, &op), 2 * 8192.0 * 8192 * 8192 / (20e6 * 0.8));
}

/* The product would draw 1.44 times what the card may. */
TEST(gemm_at_the_power_limit)
{
	struct sc_device d = device();
	struct sc_op op = gemm(25600, 12800, 65536);
	double us, free_us = time_us(&d, &op) - 3;
	const double rate = 2 * 25600.0 * 12800 * 65536 / 1e6 / free_us;

	d.tdp_w = 415;
	d.gemm.tensor_pj = 1.44 * 400 / rate;
	ck_assert_double_eq_tol(time_us(&d, &op) - 3, 1.2 * free_us, free_us * 1e-3);
	d.gemm.power_eff = 0.8; /* a run's clock is low enough */
	ck_assert_double_eq_tol(time_us(&d, &op) - 3, free_us / 0.8, free_us * 1e-3);
	op.u.gemm.load = SC_LOAD_SECOND;
	us = time_us(&d, &op);
	ck_assert_double_eq_tol(us - 3, 1.2 * free_us, free_us * 1e-3);
	op.u.gemm.load = SC_LOAD_BURST;
	ck_assert_double_lt(time_us(&d, &op), us); /* the longer, the nearer to it */
	op.u.gemm.k /= 64;
	ck_assert_double_lt(time_us(&d, &op), us / 64 * 0.97);
	/* twice the FLOP/s, of half the energy; in a run of them no limit is seen */
	op = gemm(25600, 12800, 65536);
	op.dtype = SC_FP8;
	d.peak_tflops[SC_FP8] = 600;
	d.gemm.power_eff = 1;
	ck_assert_double_eq_tol(time_us(&d, &op) - 3, free_us / 2, free_us * 1e-3);
	op.u.gemm.load = SC_LOAD_SECOND;
	ck_assert_double_eq_tol(time_us(&d, &op) - 3, 0.6 * free_us, free_us * 1e-3);
	op.u.gemm.row_scaled = true;
	ck_assert_double_gt(time_us(&d, &op) - 3, 0.7 * free_us);
}

TEST(gemm_in_fp8_of_unaligned_scales)
{
	struct sc_device d = device();
	struct sc_op odd = gemm(2558, 1280, 65536), even = gemm(2560, 1280, 65536);

	d.peak_tflops[SC_FP8] = 600;
	d.gemm.odd_rows_loss = 0.2;
	odd.dtype = even.dtype = SC_FP8;
	odd.u.gemm.load = even.u.gemm.load = SC_LOAD_BURST;
	ck_assert_double_eq_tol(time_us(&d, &odd), 1.2 * time_us(&d, &even),
				time_us(&d, &odd) * 1e-2);
	odd.dtype = even.dtype = SC_FP16;
	ck_assert_double_eq_tol(time_us(&d, &odd), time_us(&d, &even), time_us(&d, &odd) * 1e-2);
}

/* 8,192 rows are 64 tiles of the 100 that run at once: 100 columns of tiles take 64 sweeps. */
TEST(gemm_reads_the_input_again)
{
	struct sc_device d = device();
	struct sc_op op = gemm(8192, 12800, 16384);
	struct sc_op_time once, again;
	const double input = 8192.0 * 16384;

	d.peak_tflops[SC_FP8] = 600;
	d.l2_mib = 1;
	op.dtype = SC_FP8;
	sc_op_model_get(op.kind)->time(&d, &op, &once);
	d.gemm.reread_frac = 1;
	sc_op_model_get(op.kind)->time(&d, &op, &again);
	ck_assert_double_eq_tol(again.memory_us - once.memory_us, 63 * input / (2000e3 * 0.8),
				again.memory_us * 1e-6);
	d.l2_mib = 1e4; /* it stays there */
	sc_op_model_get(op.kind)->time(&d, &op, &again);
	ck_assert_double_eq_tol(again.memory_us, once.memory_us, once.memory_us * 1e-3);
}

TEST(gemm_splits_a_long_k)
{
	struct sc_device d = device();
	struct sc_op op = gemm(128, 128, 65536); /* one tile for 100 SMs */
	double unsplit = 2.0 * 128 * 128 * 65536 / (300e6 * 0.9 / 100), split;

	d.gemm.split_us = 5;
	split = time_us(&d, &op);
	ck_assert_double_lt(split, unsplit / 8);
	d.gemm.split_us = 50;
	ck_assert_double_gt(time_us(&d, &op), split + 30);
	d.gemm.split_us = 1e5; /* not worth it */
	ck_assert_double_gt(time_us(&d, &op), 4 * split);
}

static double gemm_us(double m, double n, double k, enum sc_dtype dtype, bool sums_rows)
{
	struct sc_device d = device();
	struct sc_op op = gemm(m, n, k);

	d.peak_tflops[SC_FP8] = 600;
	d.gemm.align_loss = 0.2;
	d.cuda_capability = 90;
	op.dtype = dtype;
	op.u.gemm.sums_rows = sums_rows;
	return time_us(&d, &op);
}

/* Rows are no leading dimension: one less never costs more, one more at most a tile of it. */
TEST(gemm_rows_need_no_alignment)
{
	static const enum sc_dtype dtypes[] = {SC_FP16, SC_BF16, SC_TF32};

	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
		enum sc_dtype t = dtypes[i];
		double even = gemm_us(4096, 4096, 4096, t, false);
		double wgrad = gemm_us(4096, 4096, 4096, t, true);

		ck_assert_double_le(gemm_us(4095, 4096, 4096, t, false), even);
		ck_assert_double_le(gemm_us(4097, 4096, 4096, t, false), 1.1 * even);
		ck_assert_double_gt(gemm_us(4096, 4095, 4096, t, false), 2.5 * even);
		ck_assert_double_gt(gemm_us(4096, 4096, 4095, t, false), 2.5 * even);
		/* of a weight gradient the sum is the rows */
		ck_assert_double_le(gemm_us(4096, 4096, 4095, t, true), wgrad);
		ck_assert_double_le(gemm_us(4096, 4096, 4097, t, true), 1.02 * wgrad);
		ck_assert_double_gt(gemm_us(4095, 4096, 4096, t, true), 2.5 * wgrad);
		ck_assert_double_gt(gemm_us(4096, 4095, 4096, t, true), 2.5 * wgrad);
	}
}

/* In fp8 before Blackwell the weight gradient reads copies, whose rows are padded to 16. */
TEST(gemm_fp8_pads_rows_to_sixteen)
{
	double even = gemm_us(4096, 4096, 4096, SC_FP8, true);
	double odd = gemm_us(4096, 4096, 4095, SC_FP8, true);
	double sixteen = gemm_us(4096, 4096, 4080, SC_FP8, true);

	ck_assert_double_le(odd, even); /* 4095 are 4096 */
	ck_assert_double_gt(sixteen, 1.1 * even);
	ck_assert_double_lt(sixteen, 1.25 * even);
	ck_assert_double_eq_tol(gemm_us(4095, 4096, 4096, SC_FP8, false),
				gemm_us(4096, 4096, 4096, SC_FP8, false), 1e-3 * even);
}

static struct sc_op simt(double batch, double m, double n, double k)
{
	struct sc_op op = {SC_OP_GEMM,
			   SC_FP32,
			   {.gemm = {.batch = batch, .m = m, .n = n, .k = k, .bmm = batch > 1}}};

	return op;
}

TEST(simt_batched_tile_is_paid_whole)
{
	struct sc_device d = device();
	struct sc_op part = simt(300, 130, 20, 640), full = simt(300, 256, 128, 640);
	double math = 3 * 100 * 2.0 * 256 * 128 * 640 / (20e6 * 0.5);

	d.simt = (struct sc_simt_coef){.eff_batched = 0.5, .batched_tile_m = 128};
	/* 600 blocks of 128 x 128 on 100 SMs, whatever part of them is used */
	ck_assert_double_eq_tol(time_us(&d, &full), 3 + math, math * 0.05);
	ck_assert_double_eq_tol(time_us(&d, &part), 3 + math, math * 0.05);
	d.simt.batched_tile_m = 0;
	ck_assert_double_lt(time_us(&d, &part), 0.5 * math);
}

TEST(simt_far_rows_and_clock)
{
	struct sc_device d = device();
	struct sc_op near = simt(1, 4096, 4096, 1000), far = simt(1, 4096, 4096, 100000);
	double near_us = time_us(&d, &near), far_us = time_us(&d, &far);

	d.simt.far_k = 10000;
	d.simt.far_loss = 2;
	ck_assert_double_lt(time_us(&d, &near), 1.03 * near_us);
	ck_assert_double_eq_tol(time_us(&d, &far) / far_us, 1 + 2 * 100.0 / 101, 0.01);
	d.simt = (struct sc_simt_coef){.droop_frac = 1, .droop_us = far_us};
	ck_assert_double_eq_tol(time_us(&d, &far) / far_us, 1.5, 0.01);
	ck_assert_double_lt(time_us(&d, &near), 1.03 * near_us);
	far.dtype = SC_FP16; /* both are of SIMT kernels only */
	far_us = time_us(&d, &far);
	d.simt = (struct sc_simt_coef){0};
	ck_assert_double_eq(time_us(&d, &far), far_us);
}

/* 18.75 pJ a FLOP at 0.8 of 20 TFLOP/s are 300 W: three times what is left of the card's power. */
TEST(simt_clock_falls_to_the_power_limit)
{
	struct sc_device d = device();
	struct sc_op shortest = simt(1, 128, 128, 64), longest = simt(1, 16384, 16384, 16384);
	struct sc_op rows = simt(1, 65536, 65536, 8); /* memory bound */
	double short_us = time_us(&d, &shortest), long_us = time_us(&d, &longest);
	double rows_us = time_us(&d, &rows);

	d.simt = (struct sc_simt_coef){.flop_pj = 18.75, .droop_us = 1000};
	d.tdp_w = 115;
	ck_assert_double_eq(time_us(&d, &longest), long_us); /* process not known */
	d.process_nm = 16;
	ck_assert_double_eq_tol(time_us(&d, &longest) / long_us, 3, 0.02);
	ck_assert_double_lt(time_us(&d, &shortest), 1.01 * short_us);
	ck_assert_double_lt(time_us(&d, &rows), 2 * rows_us);
	d.process_nm = 4; /* half the energy */
	ck_assert_double_eq_tol(time_us(&d, &longest) / long_us, 1.5, 0.01);
	d.tdp_w = 400;
	ck_assert_double_eq(time_us(&d, &longest), long_us);
	d.tdp_w = 115;
	d.simt.droop_frac = 1; /* measured: comes first */
	ck_assert_double_eq_tol(time_us(&d, &longest) / long_us, 2, 0.02);
}

TEST(gemm_as_measured)
{
	struct sc_device plain = device(), d = plain;
	double m[] = {100, 200, 800}, factor[] = {0.5, 2, 1};
	struct sc_gemm_curve curve = {SC_FP16, 512, 1024, {m, 3}, {factor, 3}};
	struct sc_gemm_curve both[] = {curve, {SC_BF16, 512, 1024, {m, 1}, {factor, 1}}};
	static const double at[][2] = {{50, 0.5}, {100, 0.5}, {200, 2}, {400, 1.4142135623730951},
				       {800, 1},  {9000, 1}};
	struct sc_op op;
	struct sc_op_time t;

	d.gemm_curves = (struct sc_structs){&curve, 1};
	d.gemm.curve_spread_frac = 0.02;
	d.fitted = "gemm";
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		op = gemm(at[i][0], 512, 1024);
		ck_assert_double_eq_tol(time_us(&d, &op), at[i][1] * time_us(&plain, &op), 1e-9);
	}
	sc_op_model_get(SC_OP_GEMM)->time(&d, &op, &t);
	ck_assert_double_eq(t.spread_frac, 0.02);
	op.dtype = SC_BF16; /* as fast as fp16 */
	op.u.gemm.m = 200;
	ck_assert_double_eq(time_us(&d, &op), 2 * time_us(&plain, &op));
	d.gemm_curves = (struct sc_structs){both, 2}; /* but its own goes first */
	ck_assert_double_eq(time_us(&d, &op), 0.5 * time_us(&plain, &op));
	op.dtype = SC_TF32;
	ck_assert_double_eq(time_us(&d, &op), time_us(&plain, &op));
	op = gemm(200, 512, 2048);
	ck_assert_double_eq(time_us(&d, &op), time_us(&plain, &op));
	op = gemm(200, 512, 1024);
	op.u.gemm.sums_rows = true;
	ck_assert_double_eq(time_us(&d, &op), time_us(&plain, &op));
	op = gemm(200, 512, 1024);
	op.u.gemm.batch = 4;
	ck_assert_double_eq(time_us(&d, &op), time_us(&plain, &op));
}

TEST(rowwise_ramp_and_floor)
{
	struct sc_device d = device();
	struct sc_op op = {SC_OP_ROWWISE, SC_FP16, {.rowwise = {.read_bytes = 0, .n_kernels = 1}}};

	ck_assert_double_eq_tol(time_us(&d, &op), 4 + 1e6 / 1.6e6, 1e-9);
	op.u.rowwise.read_bytes = 1.6e9; /* 1 ms at 0.8 of 2 TB/s, plus the ramp */
	ck_assert_double_eq_tol(time_us(&d, &op), 4 + 1000 + 0.625, 1e-6);
	op.u.rowwise.n_kernels = 3;
	ck_assert_double_eq_tol(time_us(&d, &op), 12 + 1000 + 3 * 0.625, 1e-6);
}

TEST(rowwise_instructions_limit_fast_memory)
{
	struct sc_device d = device(), slow = d;
	struct sc_op op = {
		SC_OP_ROWWISE, SC_FP16, {.rowwise = {.read_bytes = 1e9, .n_kernels = 1}}};
	struct sc_op_time t;

	d.boost_mhz = slow.boost_mhz = 2000;
	d.rowwise.sm_bytes_clk = slow.rowwise.sm_bytes_clk = 10; /* 100 SMs: 2000 GB/s */
	d.hbm_gbps = 8000;
	sc_op_model_get(op.kind)->time(&d, &op, &t);
	ck_assert_double_eq_tol(t.total_us, 4 + 500, 1e-9);
	ck_assert_str_eq(t.limit, "issue");
	ck_assert_double_eq(t.sm_frac, 1);
	ck_assert_double_eq_tol(t.memory_us, (1e9 + 1e6) / (8000e3 * 0.8), 1e-9);
	sc_op_model_get(op.kind)->time(&slow, &op, &t); /* 1600 GB/s are less than that */
	ck_assert_double_eq_tol(t.total_us, 4 + (1e9 + 1e6) / (2000e3 * 0.8), 1e-9);
	ck_assert_str_eq(t.limit, "memory");
	ck_assert_double_eq(t.sm_frac, 0.7);
}

TEST(attention_causal_and_backward)
{
	struct sc_device d = device();
	struct sc_op op = {SC_OP_ATTENTION,
			   SC_FP16,
			   {.attention = {8, 16, 16, 8192, 8192, 128, false, false}}};
	double full = time_us(&d, &op), causal, backward;

	op.u.attention.causal = true;
	causal = time_us(&d, &op);
	op.u.attention.backward = true;
	backward = time_us(&d, &op);
	ck_assert_double_eq_tol((full - 5) / (causal - 5), 2, 0.05); /* whole tiles; their ends */
	ck_assert_double_eq_tol((backward - 5) / (causal - 5), 2.5 * 0.6 / 0.5, 0.1);
}

static double attention_us(const struct sc_device *d, double heads, double seq, double head_dim)
{
	struct sc_op op = {SC_OP_ATTENTION,
			   SC_FP16,
			   {.attention = {1, heads, heads, seq, seq, head_dim, false, false}}};

	return time_us(d, &op) - d->attention.fixed_us;
}

TEST(attention_heads)
{
	struct sc_device d = device();
	double full = attention_us(&d, 100, 8192, 128);

	/* padded to a multiple of 32: the same work, at less speed */
	ck_assert_double_eq_tol(attention_us(&d, 100, 8192, 104), full, full * 0.01);
	d.attention.padded_eff = 0.8;
	ck_assert_double_eq_tol(attention_us(&d, 100, 8192, 104), full / 0.8, full * 0.01);
	ck_assert_double_eq_tol(attention_us(&d, 100, 8192, 128), full, full * 1e-9);
	d.attention.head_half =
		160; /* softmax, beside 128 / 0.6 and 32 / 0.6 columns of products */
	ck_assert_double_eq_tol(attention_us(&d, 100, 8192, 128), full * 1.25, full * 0.01);
	ck_assert_double_eq_tol(attention_us(&d, 100, 8192, 32), full * hypot(0.25, 0.75),
				full * 0.01);
	d.attention.head_half = 0;
	d.attention.fwd_wide_eff = 0.5;
	ck_assert_double_eq_tol(attention_us(&d, 100, 8192, 256), 2 * full * 2, full * 0.05);
}

/* Where fp16 is slower than fp32 (P4), attention is computed in fp32, as products are. */
TEST(attention_of_a_slow_format)
{
	struct sc_device d = device();
	struct sc_op half = {.kind = SC_OP_ATTENTION,
			     .dtype = SC_FP16,
			     {.attention = {1, 100, 100, 8192, 8192, 128, false, false}}};
	struct sc_op full = half;

	full.dtype = SC_FP32;
	d.peak_tflops[SC_FP16] = d.peak_tflops[SC_FP32] / 64;
	ck_assert_double_eq_tol(time_us(&d, &half), time_us(&d, &full), time_us(&d, &full) * 1e-3);
}

TEST(attention_waves_and_mask)
{
	struct sc_device d = device();
	double one = attention_us(&d, 25, 256, 128), more = attention_us(&d, 26, 256, 128);

	/* 100 and 104 tiles on 100 SMs */
	ck_assert_double_lt(more, 1.05 * one);
	d.attention.wave_frac = 1;
	ck_assert_double_eq_tol(attention_us(&d, 26, 256, 128), 2 * one, one * 0.15);
	ck_assert_double_eq_tol(attention_us(&d, 5, 256, 128), one, one * 0.1);
}

/* A mask halves the keys of a tile on average, not those of the longest one. */
TEST(attention_mask_of_few_tiles)
{
	struct sc_device d = device();
	struct sc_op op = {SC_OP_ATTENTION, SC_FP16, {.attention = {1, 1, 1, 4096, 4096, 128}}};
	double full = time_us(&d, &op), masked;

	op.u.attention.causal = true;
	masked = time_us(&d, &op);
	ck_assert_double_eq_tol(masked, full, full * 1e-9); /* 64 tiles on 100 SMs */
	op.u.attention.seq_q = 64;                          /* the last tokens see all keys */
	op.u.attention.heads = op.u.attention.kv_heads = 6400;
	masked = time_us(&d, &op);
	op.u.attention.causal = false;
	ck_assert_double_eq_tol(masked, time_us(&d, &op), masked * 1e-9);
}

/* Tensor cores multiply 16 rows at least; plain units one. */
TEST(attention_of_one_row)
{
	struct sc_device d = device();
	struct sc_op op = {SC_OP_ATTENTION, SC_FP16, {.attention = {64, 64, 1, 1, 8192, 128}}};
	double one = time_us(&d, &op), few;

	op.u.attention.seq_q = 16;
	few = time_us(&d, &op);
	ck_assert_double_eq_tol(few, one, few * 0.05);
	op.dtype = SC_FP32;
	few = time_us(&d, &op);
	op.u.attention.seq_q = 1;
	ck_assert_double_lt(time_us(&d, &op), few / 5);
}

/* One new token a sequence reads a cache: keys are split over the SMs, heads that share them are
 * one tile. */
TEST(attention_of_a_cache)
{
	struct sc_device d = device();
	struct sc_op op = {SC_OP_ATTENTION, SC_FP16, {.attention = {8, 32, 8, 1, 65536, 128}}};
	struct sc_op_time t;
	double us;

	op.u.attention.cache_bytes = 2;
	sc_op_model_get(op.kind)->time(&d, &op, &t);
	/* 8 x 8 heads of 65,536 keys and values, 128 wide, and 8 x 32 queries and outputs */
	us = 2 * (64 * 65536.0 + 256) * 128 * 2 / (2000e3 * 0.8);
	ck_assert_double_eq_tol(t.memory_us, us, us * 1e-9);
	ck_assert_str_eq(t.limit, "memory");
	ck_assert_double_gt(t.total_us, us + 5);
	ck_assert_double_lt(t.total_us, 1.05 * us + 5);
	op.u.attention.cache_bytes = 1;
	ck_assert_double_eq_tol(time_us(&d, &op), 5 + us / 2, us * 0.05);
	d.attention.decode_eff = 0.4; /* in place of 0.8 */
	ck_assert_double_eq_tol(time_us(&d, &op), 5 + us, us * 0.05);
	op.u.attention.seq_kv = 1; /* nothing to read: the start of a block */
	ck_assert_double_lt(time_us(&d, &op), 7);
}

/* A kernel of attention with more of something, by one, two or a half: of tokens also across the
 * edge of a tile. */
static struct sc_attention_shape grown(const struct sc_attention_shape *s, struct sc_rng *rng)
{
	struct sc_attention_shape more = *s;
	double *const sizes[] = {&more.batch, &more.heads, &more.seq_q, &more.seq_kv};
	double *size = sizes[sc_rng_below(rng, 4)];
	const double to[] = {*size + 1, *size + 2, ceil(1.5 * *size), 64 * ceil(*size / 64) + 1};

	*size = to[sc_rng_below(rng, 4)];
	if (sc_rng_below(rng, 2))
		more.seq_q = more.seq_kv = fmax(more.seq_q, more.seq_kv);
	return more;
}

TEST(attention_of_more_is_never_faster)
{
	enum { CASES = 20000 };
	struct sc_device d = device();
	struct sc_rng rng;

	sc_rng_init(&rng, 7);
	for (int i = 0; i < n_cases(CASES); i++) {
		double seq = floor(pow(2, 3 + 10 * sc_rng_uniform(&rng)));
		struct sc_op op = {SC_OP_ATTENTION, SC_FP16, {.attention = {0}}};
		double us, more_us;

		op.u.attention = (struct sc_attention_shape){
			.batch = 1 + (double)sc_rng_below(&rng, 8),
			.heads = 1 + (double)sc_rng_below(&rng, 40),
			.kv_heads = 1,
			.seq_q = seq,
			.seq_kv = seq,
			.head_dim = 32 + (double)sc_rng_below(&rng, 225),
			.causal = sc_rng_below(&rng, 2),
			.backward = sc_rng_below(&rng, 2),
		};
		d.attention.wave_frac = sc_rng_uniform(&rng);
		d.attention.fwd_tile_us = d.attention.bwd_tile_us = 5 * sc_rng_uniform(&rng);
		us = time_us(&d, &op);
		op.u.attention = grown(&op.u.attention, &rng);
		more_us = time_us(&d, &op);
		ck_assert_msg(more_us >= us * (1 - 1e-12),
			      "batch %g, heads %g, %g x %g: %g us, less takes %g",
			      op.u.attention.batch, op.u.attention.heads, op.u.attention.seq_q,
			      op.u.attention.seq_kv, more_us, us);
	}
}

/* Keys that are in reach of each query, one by one: those of its own tokens and before, or `keys`
 * that end before them. */
static double keys_in_reach(const struct sc_attention_shape *s)
{
	double sum = 0;

	for (double i = 0.5; i < s->seq_q; i++) {
		double oldest = s->causal ? i : i + s->gap + s->seq_kv;
		double hidden = fmax(0, oldest - s->window);

		sum += s->causal ? i - hidden : s->seq_kv - fmin(hidden, s->seq_kv);
	}
	return sum;
}

/* Work is the area in reach; a kernel is no faster than its products, and no slower than without a
 * window. */
TEST(attention_of_a_window_is_its_area)
{
	enum { CASES = 4000 };
	struct sc_device d = device();
	struct sc_rng rng;

	sc_rng_init(&rng, 11);
	for (int i = 0; i < n_cases(CASES); i++) {
		double seq = floor(pow(2, 4 + 8 * sc_rng_uniform(&rng)));
		struct sc_op op = {
			SC_OP_ATTENTION, SC_FP16, {.attention = {2, 16, 4, seq, seq, 128}}};
		struct sc_attention_shape *s = &op.u.attention;
		double whole_us, us, wider_us, area;

		s->causal = sc_rng_below(&rng, 2);
		s->backward = sc_rng_below(&rng, 2);
		if (!s->causal) {
			s->seq_kv = ceil(seq * sc_rng_uniform(&rng));
			s->gap = floor(seq * sc_rng_uniform(&rng));
		}
		whole_us = time_us(&d, &op);
		s->window = 1 + floor(2 * seq * sc_rng_uniform(&rng));
		us = time_us(&d, &op);
		area = 4 * 2 * 16 * 128 * (s->backward ? 2.5 : 1);
		ck_assert_double_eq_tol(sc_attention_flop(s) / area, keys_in_reach(s), 1);
		ck_assert_double_ge(us, sc_attention_flop(s) / d.peak_tflops[SC_FP16] / 1e6);
		s->window += 1 + floor(100 * sc_rng_uniform(&rng));
		wider_us = time_us(&d, &op);
		ck_assert_msg(us <= wider_us * (1 + 1e-12) && wider_us <= whole_us * (1 + 1e-12),
			      "%g x %g: a window of %g takes %g us, less %g, none %g", s->seq_q,
			      s->seq_kv, s->window, wider_us, us, whole_us);
	}
}

/* Of long sequences tiles' edges are little: a window of half of them is three quarters of the
 * triangle. */
TEST(attention_of_half_a_sequence)
{
	struct sc_device d = device();
	struct sc_op op = {SC_OP_ATTENTION, SC_FP16, {.attention = {1, 64, 64, 65536, 65536, 128}}};
	double whole_us, half_us;

	op.u.attention.causal = true;
	whole_us = time_us(&d, &op);
	op.u.attention.window = 32768;
	half_us = time_us(&d, &op);
	ck_assert_double_eq_tol(half_us / whole_us, 0.75, 0.005);
	op.u.attention.window = 1024;
	ck_assert_double_lt(time_us(&d, &op), 0.04 * whole_us);
}

TEST(cost_demand_and_owner)
{
	struct sc_device d = device();
	struct sc_op big = gemm(8192, 8192, 8192);
	struct sc_op copy = {
		SC_OP_ROWWISE, SC_FP16, {.rowwise = {.read_bytes = 1e9, .n_kernels = 1}}};
	struct sc_cost cost;

	sc_op_cost(&d, &big, &cost);
	ck_assert_double_eq(cost.owner_frac[SC_OWN_COMPUTE], 1);
	ck_assert_double_eq(cost.demand[SC_RES_SM], 1);
	ck_assert_double_lt(cost.demand[SC_RES_HBM], 0.5);
	ck_assert_double_gt(cost.waves, 1);
	sc_op_cost(&d, &copy, &cost);
	ck_assert_double_eq(cost.owner_frac[SC_OWN_MEMORY], 1);
	ck_assert_double_gt(cost.demand[SC_RES_HBM], 0.99);
	ck_assert_double_le(cost.demand[SC_RES_HBM], 1);
}
