/* Kernels of token mixers beside full attention: FLOP by an independent count, and over random
 * shapes and GPUs never under the roofline, never faster with more, twice as long with twice as
 * many sequences. */
#include "base/rng.h"
#include "models/linear_attention.h"
#include "models/op_model.h"
#include "models/sparse_attention.h"
#include "runner.h"

static double between(struct sc_rng *rng, double low, double high)
{
	return floor(low * pow(high / low, sc_rng_uniform(rng)) + 0.5);
}

static struct sc_device any_device(struct sc_rng *rng)
{
	struct sc_device d = {.sm_count = (int64_t)between(rng, 20, 200),
			      .cuda_capability = sc_rng_below(rng, 2) ? 80 : 90,
			      .boost_mhz = between(rng, 1000, 2500),
			      .hbm_gbps = between(rng, 300, 8000),
			      .l2_mib = between(rng, 4, 256),
			      .rowwise = {.hbm_eff = 0.87}};

	d.peak_tflops[SC_BF16] = between(rng, 50, 2500);
	d.peak_tflops[SC_FP32] = between(rng, 10, 100);
	return d;
}

static double time_us(const struct sc_device *d, const struct sc_op *op)
{
	struct sc_op_time t;

	sc_op_model_get(op->kind)->time(d, op, &t);
	ck_assert(isfinite(t.total_us) && t.total_us >= t.fixed_us);
	return t.total_us;
}

static struct sc_op any_scan(struct sc_rng *rng)
{
	struct sc_op op = {SC_OP_SCAN, SC_BF16, {.scan = {0}}};
	const double k_heads = between(rng, 1, 32);

	op.u.scan = (struct sc_scan_shape){
		.rule = (enum sc_scan_rule)sc_rng_below(rng, SC_N_SCAN_RULES),
		.kernel = (enum sc_scan_kernel)sc_rng_below(rng, SC_N_SCAN_KERNELS),
		.batch = between(rng, 1, 64),
		.seq = between(rng, 1, 65536),
		.k_heads = k_heads,
		.v_heads = k_heads * between(rng, 1, 8),
		.k_dim = 64 * between(rng, 1, 4),
		.v_dim = 64 * between(rng, 1, 4),
		.backward = sc_rng_below(rng, 2),
		.recurrent = sc_rng_below(rng, 4) == 0,
		.load = sc_rng_below(rng, 2) ? SC_LOAD_BURST : SC_LOAD_RUN};
	if (op.u.scan.rule == SC_SCAN_SELECTIVE) { /* channels, which share one B and C */
		op.u.scan.v_heads *= 64 * k_heads;
		op.u.scan.k_heads = op.u.scan.v_dim = 1;
		op.u.scan.k_dim /= 4;
		op.u.scan.recurrent = false;
	}
	if (op.u.scan.recurrent) {
		op.u.scan.seq = 1 + (double)sc_rng_below(rng, 8);
		op.u.scan.backward = false;
	}
	return op;
}

static struct sc_op any_conv(struct sc_rng *rng)
{
	struct sc_op op = {SC_OP_CONV, SC_BF16, {.conv = {0}}};

	op.u.conv = (struct sc_conv_shape){
		.kernel = (enum sc_conv_kernel)sc_rng_below(rng, SC_N_CONV_KERNELS),
		.batch = between(rng, 1, 64),
		.seq = between(rng, 1, 65536),
		.channels = between(rng, 64, 16384),
		.width = 4,
		.backward = sc_rng_below(rng, 2),
		.load = sc_rng_below(rng, 2) ? SC_LOAD_BURST : SC_LOAD_RUN};
	return op;
}

static struct sc_op any_sparse(struct sc_rng *rng)
{
	struct sc_op op = {SC_OP_SPARSE, SC_BF16, {.sparse = {0}}};

	op.u.sparse = (struct sc_sparse_shape){
		.kind = (enum sc_sparse_kind)sc_rng_below(rng, SC_N_SPARSE_KINDS),
		.batch = between(rng, 1, 64),
		.seq = between(rng, 1, 4096),
		.past = between(rng, 1, 65536) - 1,
		.heads = between(rng, 1, 128),
		.dims = between(rng, 128, 1100),
		.entry_bytes = between(rng, 256, 1152),
		.top_k = sc_rng_below(rng, 2) ? between(rng, 64, 2048) : 0,
		.compression = sc_rng_below(rng, 2) ? between(rng, 1, 128) : 0,
		.window = sc_rng_below(rng, 2) ? 128 : 0,
		.index_heads = sc_rng_below(rng, 2) ? 32 : 0,
		.index_dim = 128,
		.cached = sc_rng_below(rng, 2)};
	op.u.sparse.backward = !op.u.sparse.cached && sc_rng_below(rng, 2);
	return op;
}

static struct sc_op any_op(struct sc_rng *rng, int i)
{
	return i % 3 == 0 ? any_scan(rng) : i % 3 == 1 ? any_conv(rng) : any_sparse(rng);
}

/* One size of the shape; the first is of sequences. */
static double *size_of(struct sc_op *op, uint64_t which)
{
	struct sc_scan_shape *s = &op->u.scan;
	struct sc_sparse_shape *p = &op->u.sparse;
	double *const of_scan[] = {&s->batch, &s->seq, &s->v_heads, &s->k_dim, &s->v_dim};
	double *const of_conv[] = {&op->u.conv.batch, &op->u.conv.seq, &op->u.conv.channels};
	double *const of_sparse[] = {&p->batch, &p->seq, &p->past, &p->heads, &p->index_heads};

	if (op->kind == SC_OP_SPARSE)
		return of_sparse[which % N_OF(of_sparse)];
	return op->kind == SC_OP_SCAN ? of_scan[which % N_OF(of_scan)]
				      : of_conv[which % N_OF(of_conv)];
}

enum { CASES = 20000 };

TEST(more_is_never_faster)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 3);
	for (int i = 0; i < n_cases(CASES); i++) {
		const struct sc_device d = any_device(&rng);
		struct sc_op op = any_op(&rng, i);
		const double us = time_us(&d, &op);
		double *size = size_of(&op, sc_rng_next(&rng));
		const double was = *size;
		*size += sc_rng_below(&rng, 2) ? 1 : *size;
		ck_assert_msg(time_us(&d, &op) >= us * (1 - 1e-12),
			      "kind %d: %g us; with %g instead of %g %g", op.kind, us, *size, was,
			      time_us(&d, &op));
	}
}

/* Queries, keys and values, or channels, once in and once out; states where they are kept. */
static double least_bytes(const struct sc_op *op)
{
	const struct sc_scan_shape *s = &op->u.scan;
	double bytes;

	if (op->kind == SC_OP_CONV)
		return 2 * 2 * op->u.conv.batch * op->u.conv.seq * op->u.conv.channels;
	bytes = 2 * 2 * s->batch * s->seq * (s->k_heads * s->k_dim + s->v_heads * s->v_dim);
	return s->recurrent ? 2 * 4 * s->batch * s->v_heads * s->k_dim * s->v_dim : bytes;
}

/* Bytes count where no cache can hold them from the run before. */
TEST(roofline_holds)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 4);
	for (int i = 0; i < n_cases(CASES); i++) {
		const struct sc_device d = any_device(&rng);
		struct sc_op op = any_op(&rng, i);
		const double peak = fmax(d.peak_tflops[SC_BF16], d.peak_tflops[SC_FP32]);
		double flop = 0;

		if (op.kind == SC_OP_SPARSE) {
			flop = sc_sparse_flop(&op.u.sparse);
		} else if (op.kind == SC_OP_SCAN) {
			op.u.scan.load = SC_LOAD_RUN;
			flop = sc_scan_flop(&op.u.scan);
		} else
			op.u.conv.load = SC_LOAD_RUN;
		ck_assert_double_ge(time_us(&d, &op), flop / peak / 1e6);
		if (op.kind != SC_OP_SPARSE)
			ck_assert_double_ge(time_us(&d, &op),
					    0.9 * least_bytes(&op) / d.hbm_gbps / 1e3);
	}
}

/* 2 FLOP for each pair of elements that meet, chunk by chunk as the papers have the products. */
static double counted_flop(const struct sc_scan_shape *s, double c)
{
	const double ck = 2 * c * c * s->k_dim, cv = 2 * c * c * s->v_dim,
		     kv = 2 * c * s->k_dim * s->v_dim;
	const double groups = s->k_heads / s->v_heads;
	double chunk = 0;

	if (s->rule == SC_SCAN_SELECTIVE) /* a decay, an input and an output of each element */
		return 7 * s->batch * s->seq * s->v_heads * s->k_dim;
	if (s->rule == SC_SCAN_DECAY) /* C B' of a group; its rows times x; states in, states out */
		chunk = ck * groups + cv + kv + kv;
	else /* k k', T k, q k'; T v, (q k') u; w s, k' u, q s */
		chunk = 3 * ck + 2 * cv + 3 * kv;
	return s->batch * s->v_heads * ceil(s->seq / c) * chunk;
}

/* The kernels of mamba_ssm's _mamba_chunk_scan_combined_bwd, in its order. */
static double counted_decay_backward(const struct sc_scan_shape *s, double c)
{
	const double ck = 2 * c * c * s->k_dim * s->k_heads / s->v_heads, cv = 2 * c * c * s->v_dim,
		     kv = 2 * c * s->k_dim * s->v_dim;
	const double again = ck + kv, dstates = kv, dx = kv + cv, db = kv, dc = kv, dcb = cv,
		     of_cb = 2 * ck, decays = cv;

	return s->batch * s->v_heads * ceil(s->seq / c) *
	       (again + dstates + dx + db + dc + dcb + of_cb + decays);
}

TEST(flop_are_those_of_the_products)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 5);
	for (int i = 0; i < n_cases(1000); i++) {
		struct sc_op op = any_scan(&rng);
		struct sc_scan_shape *s = &op.u.scan;
		double flop;

		s->backward = s->recurrent = false;
		flop = sc_scan_flop(s);
		ck_assert_double_eq_tol(flop / counted_flop(s, s->rule == SC_SCAN_DECAY ? 128 : 64),
					1, 1e-9);
		s->backward = true;
		if (s->rule == SC_SCAN_DECAY)
			ck_assert_double_eq_tol(sc_scan_flop(s) / counted_decay_backward(s, 128), 1,
						1e-9);
		ck_assert_double_gt(sc_scan_flop(s), 2 * flop);
		ck_assert_double_le(sc_scan_flop(s), 3 * flop);
	}
}

/* Sizes at which a kernel fills the GPU many times over. */
TEST(twice_the_sequences_take_twice_as_long)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 6);
	for (int i = 0; i < n_cases(CASES / 10); i++) {
		const struct sc_device d = any_device(&rng);
		struct sc_op op = any_op(&rng, i);
		double us;

		*size_of(&op, 0) = 4096;
		*size_of(&op, 1) = 2048;
		us = time_us(&d, &op);
		*size_of(&op, 0) = 8192;
		ck_assert_double_eq_tol(time_us(&d, &op) / us, 2, 0.08);
	}
}

/* A few heads do not fill the GPU: chunks go one after another, and more heads cost nothing until
 * they do. */
TEST(chunks_of_few_heads_go_in_their_order)
{
	struct sc_op op = {SC_OP_SCAN, SC_BF16, {.scan = {0}}};
	struct sc_device d = {.sm_count = 132,
			      .cuda_capability = 90,
			      .boost_mhz = 1830,
			      .hbm_gbps = 3350,
			      .l2_mib = 50,
			      .rowwise = {.hbm_eff = 0.87},
			      .peak_tflops = {[SC_BF16] = 989}};
	double us, many_us;

	op.u.scan = (struct sc_scan_shape){.rule = SC_SCAN_DELTA,
					   .batch = 1,
					   .seq = 32768,
					   .k_heads = 1,
					   .v_heads = 2,
					   .k_dim = 128,
					   .v_dim = 128};
	us = time_us(&d, &op);
	ck_assert_double_gt(us, 32768.0 / 64 * 5000 / 1830); /* steps of some 5,000 cycles */
	op.u.scan.v_heads = 4;
	ck_assert_double_lt(time_us(&d, &op), 1.01 * us);
	op.u.scan.v_heads = 32;
	many_us = time_us(&d, &op);
	ck_assert_double_gt(many_us, 1.3 * us);
	/* of shorter sequences, as many tokens fill the GPU */
	op.u.scan.batch = 16;
	op.u.scan.seq = 2048;
	op.u.scan.v_heads = 2;
	ck_assert_double_lt(time_us(&d, &op), 0.25 * us);
}

/* Query by query: the keys that it may meet, at most top_k of them, and its window. */
static double counted_pairs(const struct sc_sparse_shape *s)
{
	const double compression = fmax(1, s->compression);
	double sum = 0;

	for (double i = 1; i <= s->seq; i++) {
		const double before = s->past + i, keys = before / compression;

		sum += s->top_k > 0 ? fmin(keys, s->top_k) : keys;
		sum += s->window > 0 ? fmin(before, s->window) : 0;
	}
	return s->batch * sum;
}

TEST(pairs_are_those_of_each_query)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 8);
	for (int i = 0; i < n_cases(400); i++) {
		struct sc_op op = any_sparse(&rng);
		const struct sc_sparse_shape *s = &op.u.sparse;
		const double edge =
			s->batch *
			fmax(1, s->compression); /* of the query that reaches the limit */

		ck_assert_double_eq_tol(sc_sparse_pairs(s), counted_pairs(s),
					2 * edge + 1e-9 * counted_pairs(s));
	}
}

/* Beyond its top_k a key costs its score alone: of DSA on H100 twice the past is far from twice as
 * long. */
TEST(chosen_keys_bound_attention)
{
	struct sc_device d = {.sm_count = 132,
			      .cuda_capability = 90,
			      .hbm_gbps = 3350,
			      .peak_tflops = {[SC_BF16] = 989, [SC_FP8] = 1979}};
	struct sc_op op = {SC_OP_SPARSE, SC_BF16, {.sparse = {.kind = SC_SPARSE_TOP_K}}};
	double us, scored_us;

	op.u.sparse = (struct sc_sparse_shape){.kind = SC_SPARSE_TOP_K,
					       .batch = 1,
					       .seq = 4096,
					       .past = 16384,
					       .heads = 128,
					       .dims = 1088,
					       .entry_bytes = 1152,
					       .top_k = 2048};
	us = time_us(&d, &op);
	op.u.sparse.past = 32768;
	ck_assert_double_eq_tol(time_us(&d, &op), us, 1e-6);
	op.u.sparse.index_heads = 64;
	op.u.sparse.index_dim = 128;
	scored_us = time_us(&d, &op);
	op.u.sparse.past = 16384;
	us = time_us(&d, &op);
	ck_assert_double_gt(scored_us, us + 4096 * 16384.0 * 4 / 3350e3); /* scores at HBM's rate */
	op.u.sparse.past = 32768;
	op.u.sparse.top_k = 0;
	op.u.sparse.kind = SC_SPARSE_ALL;
	ck_assert_double_gt(time_us(&d, &op), scored_us);
}
