/* GEMM times: output tiles run in waves over the SMs, each a k loop with a prologue and an
 * epilogue, against the HBM traffic of the operands. The smallest predicted time chooses the tile,
 * and the split of k when tiles are fewer than SMs, as the vendor's heuristics try to. Kernels
 * without tensor cores (SIMT) have the same formula with coefficients of their own. Products that
 * would draw more than the card may lose clock; measured ones follow their curve (gemm_curves). */
#include <math.h>
#include <stddef.h>

#include "base/units.h"
#include "models/op_model_priv.h"

struct tile {
	double m, n;
};
static const struct tile TENSOR_TILES[] = {{256, 128}, {128, 256}, {128, 128}, {64, 64}};
static const struct tile SIMT_TILES[] = {{128, 128}, {128, 64}, {64, 128}, {64, 64},
					 {32, 128},  {128, 32}, {32, 32}};
/* Batched kernels that cuBLAS was seen to pick on GPUs without a fixed tile (NeuSight V100, T4). */
static const struct tile SIMT_BATCHED_TILES[] = {{64, 64}, {64, 128}, {128, 32}, {32, 128}};
enum { ADA = 89, BLACKWELL = 100 }; /* CUDA capability */
#define N_OF(a) (sizeof(a) / sizeof((a)[0]))
#define TENSOR_K_STEP 32.0 /* a k loop's step: shorter tails are padded */
#define SIMT_K_STEP 8.0
#define FULL_ALIGN_BYTES 128.0
#define ALIGN_BYTES 16.0 /* of rows, below which tensor cores cannot be fed by wide loads */
#define FP8_PAD 16.0
#define MIN_SPLIT_K 256.0 /* no slice of k is shorter */
#define MAX_SLICES 32.0
#define PARTIAL_BYTES 4.0 /* slices leave fp32 partial sums */
#define BURST_COPIES \
	5.0 /* weights that a repeat of a burst goes through (aiconfigurator, GEMM collectors) */
#define REFERENCE_NM 16.0
/* The power of a card that is not its FLOPs'; 12 to 20 W do as well (tests/accuracy/README.md). */
#define BOARD_W 15.0
/* Exponents of 0.3 to 1 differ little for GPUs left out of a fit; this is the best. */
#define ENERGY_EXPONENT 0.5
#define BURST_LIMIT_US                                                                           \
	3e3 /* a product that repeats some 30 times has lost half of what its power limit takes: \
	       0.1 s */
#define FP4_BITS 4.5 /* with the scale of 16 elements (nvfp4) */
#define SWEEP_TILE 128.0
#define ROWS_OF_SCALES 4.0 /* 16 bytes of scales in fp32, one a row, as wide loads take them */

/* The numbers that the tiles of one GEMM have in common. */
struct problem {
	const struct sc_gemm_shape *shape;
	const struct tile *tiles;
	size_t n_tiles;
	double sms, wave_frac, min_waves;
	double k_step, k_half;         /* k_half: prologue and epilogue in steps of k */
	double us_per_flop, loads_max; /* of the largest tile on the whole device */
	double tile_half;
	double split_us, partial_us; /* of one slice more */
};

static double operand_bytes(const struct sc_op *op)
{
	const struct sc_gemm_shape *s = &op->u.gemm;
	double e = sc_dtype_bytes(op->dtype);
	double out = sc_dtype_bytes(op->dtype >= SC_FP8 ? SC_BF16 : op->dtype);
	double c_bytes = s->accumulate ? 2 * sc_dtype_bytes(SC_FP32) : out;

	return s->batch * (e * (s->m * s->k + s->k * s->n) + c_bytes * s->m * s->n);
}

static double weight_bytes(const struct sc_op *op)
{
	return op->u.gemm.batch * op->u.gemm.k * op->u.gemm.n * sc_dtype_bytes(op->dtype);
}

/* The time of `blocks` of one tile size over k / slices each, with the operand loads of that tile.
 * Wave quantization is after NVIDIA's "Matrix Multiplication Background User's Guide", softened by
 * wave_frac since several blocks share an SM. */
static double blocks_us(const struct problem *p, const struct tile *tile, double blocks, double k,
			double *waves)
{
	double w = blocks / p->sms;
	double loads = 1 + p->tile_half * (1 / tile->m + 1 / tile->n);
	double loop = ceil(k / p->k_step) * p->k_step + p->k_half;

	*waves = fmax(p->min_waves, w + p->wave_frac * (ceil(w) - w));
	return *waves * p->sms * 2 * tile->m * tile->n * loop * loads * p->us_per_flop /
	       p->loads_max;
}

static double tile_us(const struct problem *p, const struct tile *tile, double *waves)
{
	const struct sc_gemm_shape *s = p->shape;
	double blocks = s->batch * ceil(s->m / tile->m) * ceil(s->n / tile->n);
	double us = blocks_us(p, tile, blocks, s->k, waves);
	double slices = floor(fmin(fmin(p->sms / blocks, s->k / MIN_SPLIT_K), MAX_SLICES));
	double split_waves, split_us;

	if (slices < 2)
		return us;
	split_us = blocks_us(p, tile, blocks * slices, s->k / slices, &split_waves) + p->split_us +
		   (1 + slices) * p->partial_us;
	if (split_us >= us)
		return us;
	*waves = split_waves;
	return split_us;
}

static double best_tile_us(const struct problem *p, double *waves)
{
	double best = INFINITY;

	for (size_t i = 0; i < p->n_tiles; i++) {
		double w, us = tile_us(p, &p->tiles[i], &w);

		if (us < best) {
			best = us;
			*waves = w;
		}
	}
	return best;
}

/* A dimension's share of full alignment: 1 for rows of 128 n bytes, 0 for 16 n, < 0 below. */
static double alignment_of(double elements, double bytes)
{
	double row = elements * bytes, share = 1;

	for (double unit = FULL_ALIGN_BYTES; unit >= ALIGN_BYTES; unit /= 2, share -= 1.0 / 3)
		if (fmod(row, unit) < 0.5)
			return share;
	return -1;
}

/* The dimensions that must be aligned are those along which operands lie in memory, their leading
 * dimensions. A linear layer of m tokens, y[m,n] = x[m,k] w[n,k]', has k and n; its data gradient,
 * dx[m,k] = dy[m,n] w[n,k], n and k again; its weight gradient, dw[n,k] = dy[m,n]' x[m,k], the same
 * two, as its sum runs over the m rows of both. So m is none of the three: it only fills tiles, and
 * lengthens the weight gradient's k loop. In a shape here, whose k is what is summed over, these
 * are n and k, or m and n where it `sums_rows`. In fp8 before Blackwell tensor cores take operands
 * along k only ("TN", cuBLASLt): the weight gradient then reads transposed copies whose leading
 * dimension is m, and frameworks pad m to 16. */
static double worst_alignment(const struct sc_device *device, const struct sc_op *op)
{
	const struct sc_gemm_shape *s = &op->u.gemm;
	double e = sc_dtype_bytes(op->dtype);
	double worst = fmin(alignment_of(s->n, e), alignment_of(s->sums_rows ? s->m : s->k, e));
	double padded = ceil(s->k / FP8_PAD) * FP8_PAD;

	if (s->sums_rows && op->dtype == SC_FP8 && device->cuda_capability < BLACKWELL)
		worst = fmin(worst, alignment_of(padded, e));
	return worst;
}

/* "Matrix dimensions of multiples of 128 bytes are most efficient on A100, of 16 bytes needed"
 * (NVIDIA, Matrix Multiplication Background User's Guide). */
static double aligned_eff(const struct sc_gemm_coef *c, double share, double clock)
{
	if (share < 0)
		return c->misaligned_eff;
	return clock / (1 + c->align_loss * (1 - share));
}

/* The rate relative to 16 bits: at twice or four times the rate the power limit, operand loads and
 * scales show more, at half of it less. */
static double format_eff(const struct sc_gemm_coef *c, enum sc_dtype dtype)
{
	if (dtype == SC_TF32 && c->eff_tf32 > 0)
		return c->eff_tf32;
	if (dtype == SC_FP4 && c->eff_fp4 > 0)
		return c->eff_fp4;
	return dtype >= SC_FP8 && c->eff_fp8 > 0 ? c->eff_fp8 : 1;
}

static double run_clock(const struct sc_gemm_coef *c, enum sc_dtype dtype)
{
	if (dtype == SC_FP4 && c->power_eff_fp4 > 0)
		return c->power_eff_fp4;
	return dtype >= SC_FP8 && c->power_eff_fp8 > 0 ? c->power_eff_fp8 : c->power_eff;
}

/* The clock that a load leaves, beside what the power limit takes. */
static double load_clock(const struct sc_gemm_coef *c, const struct sc_op *op)
{
	return op->u.gemm.load == SC_LOAD_RUN ? run_clock(c, op->dtype) : 1;
}

double sc_gemm_rows_factor(const struct sc_device *device, enum sc_dtype dtype, double elements,
			   double *unit_bytes)
{
	const struct sc_gemm_coef *c = &device->gemm;
	double share = alignment_of(elements, sc_dtype_bytes(dtype));
	double clock = run_clock(c, dtype);

	*unit_bytes = share < 0 ? ALIGN_BYTES : FULL_ALIGN_BYTES;
	return sc_device_has_tensor(device, dtype) ? clock / aligned_eff(c, share, clock) : 1;
}

/* The share of operands that is still in the last cache when it is read again. */
static double kept_share(const struct sc_device *device, double bytes)
{
	double fill = bytes / (device->l2_mib * SC_BYTES_PER_MIB);

	return 1 / (1 + fill * fill * fill * fill);
}

/* A burst reads its operands again: those that stay in the last cache are read at its rate. */
double sc_repeat_us(const struct sc_device *device, double kept_bytes, double memory_us)
{
	double gain = fmax(1, device->gemm.l2_ratio);

	return memory_us * (1 - (1 - 1 / gain) * kept_share(device, kept_bytes));
}

/* The bytes of the input that kernels without a swizzle read again: their tiles go along m, column
 * after column, and a wave ends some columns further, or within one. */
static double reread_bytes(const struct sc_device *device, const struct sc_op *op)
{
	const struct sc_gemm_shape *s = &op->u.gemm;
	double input = s->m * s->k * sc_dtype_bytes(op->dtype);
	double columns = fmax(1, (double)device->sm_count / ceil(s->m / SWEEP_TILE));
	double sweeps = fmax(1, ceil(s->n / SWEEP_TILE) / columns);

	return s->batch * input * (sweeps - 1) * (1 - kept_share(device, input));
}

static double loads_of(double tile_half, double m, double n)
{
	return 1 + tile_half * (1 / m + 1 / n);
}

static void set_tensor(struct problem *p, const struct sc_device *device, const struct sc_op *op)
{
	const struct sc_gemm_coef *c = &device->gemm;
	double clock = load_clock(c, op);
	double eff = c->eff_max * format_eff(c, op->dtype) *
		     aligned_eff(c, worst_alignment(device, op), clock);

	p->tiles = TENSOR_TILES;
	p->n_tiles = N_OF(TENSOR_TILES);
	p->wave_frac = c->wave_frac;
	p->k_step = TENSOR_K_STEP;
	p->k_half = op->u.gemm.bmm ? c->k_half_batched : c->k_half;
	p->us_per_flop = sc_flop_us(1, device->peak_tflops[op->dtype] * eff);
	if (p->shape->block_scaled)
		p->us_per_flop *= 1 + c->block_scale_loss;
	/* training pads its rows */
	if (op->dtype == SC_FP8 && p->shape->load != SC_LOAD_RUN &&
	    fmod(p->shape->m, ROWS_OF_SCALES) > 0.5)
		p->us_per_flop *= 1 + c->odd_rows_loss;
	p->tile_half = c->tile_half;
	p->loads_max = loads_of(c->tile_half, 256, 128);
}

static double simt_eff(const struct sc_device *device, bool bmm)
{
	double batched = device->simt.eff_batched;

	return bmm && batched > 0 ? batched : device->gemm.eff_simt;
}

/* A 0 among these coefficients leaves its effect out. */
static void set_simt(struct problem *p, const struct sc_device *device, struct tile *own)
{
	const struct sc_simt_coef *c = &device->simt;
	bool bmm = p->shape->bmm;
	double eff = simt_eff(device, bmm);

	*own = (struct tile){c->batched_tile_m, 128};
	p->tiles = bmm ? SIMT_BATCHED_TILES : SIMT_TILES;
	p->n_tiles = bmm ? N_OF(SIMT_BATCHED_TILES) : N_OF(SIMT_TILES);
	if (bmm && own->m > 0) {
		p->tiles = own;
		p->n_tiles = 1;
	}
	p->wave_frac = c->wave_frac;
	if (bmm && c->batched_blocks > 1)
		p->min_waves = c->batched_blocks;
	p->k_step = SIMT_K_STEP;
	p->k_half = bmm ? c->k_half_batched : c->k_half;
	p->us_per_flop = sc_flop_us(1, device->peak_tflops[SC_FP32] * eff);
	p->tile_half = c->tile_half;
	p->loads_max = loads_of(c->tile_half, 128, 128);
}

/* The slowdown by rows of the k-contiguous operands of a linear layer that lie far apart in memory,
 * on GPUs whose address translation does not reach that far. */
static double far_rows_factor(const struct sc_simt_coef *c, const struct sc_gemm_shape *s)
{
	double r = c->far_k > 0 && !s->bmm ? s->k / c->far_k : 0;

	return 1 + c->far_loss * r * r / (1 + r * r);
}

/* The slowdown of a product on tensor cores at the power limit. The energy of a FLOP is in
 * proportion to its bits, and to the clock, as the voltage follows it. So the loss of bursts in
 * bf16 as they get longer also gives that of loops of a second (B200: predicted 1.14, measured 1.14
 * times a burst; nvfp4 1.11 and 1.10). With one scale a tensor or a row, fp8 loses by its own
 * length as much as 16 bits do, why is not known. Iterations in fp8 and fp4 are faster than random
 * operands' power lets them be: power_eff_* alone counts. */
static double tensor_droop(const struct sc_device *device, const struct sc_op *op, double us)
{
	const struct sc_gemm_shape *s = &op->u.gemm;
	double bits = op->dtype == SC_FP4 ? FP4_BITS : sc_dtype_bytes(op->dtype) * 8;
	double share = s->row_scaled ? 1 : fmin(1, bits / 16);
	double pj = device->gemm.tensor_pj * share * fmin(1, load_clock(&device->gemm, op));
	double watts = pj * sc_flop_us(2 * s->batch * s->m * s->n * s->k, 1) / us;
	double over = watts / fmax(1, device->tdp_w - BOARD_W);
	bool starts = s->load == SC_LOAD_BURST || (s->load == SC_LOAD_SECOND && s->row_scaled);

	if (over <= 1 || (s->load == SC_LOAD_RUN && share < 1))
		return 0;
	return (sqrt(over) - 1) * (starts ? us / (us + BURST_LIMIT_US) : 1);
}

/* The slowdown without tensor cores. A FLOP's energy falls with the process. */
static double power_droop(const struct sc_device *device, double eff)
{
	const struct sc_simt_coef *c = &device->simt;
	double pj = c->flop_pj * pow(device->process_nm / REFERENCE_NM, ENERGY_EXPONENT);
	double watts = pj * device->peak_tflops[SC_FP32] * eff;

	return fmax(0, watts / fmax(1, device->tdp_w - BOARD_W) - 1);
}

/* The clock of a card with a tight power limit falls in a long kernel; the memory's does not. */
static double droop_us(const struct sc_device *device, double eff, double math_us, double us)
{
	const struct sc_simt_coef *c = &device->simt;
	double frac = c->droop_frac > 0 ? c->droop_frac : power_droop(device, eff);

	return c->droop_us > 0 ? math_us * frac * us / (us + c->droop_us) : 0;
}

static bool is_half(int dtype)
{
	return dtype == SC_FP16 || dtype == SC_BF16;
}

/* The curve of a product that was measured, one in its own format first, or NULL. */
static const struct sc_gemm_curve *curve_of(const struct sc_device *device, const struct sc_op *op)
{
	const struct sc_gemm_curve *c = device->gemm_curves.at, *alike = NULL;
	const struct sc_gemm_shape *s = &op->u.gemm;

	if (s->bmm || s->sums_rows || s->batch > 1)
		return NULL;
	for (size_t i = 0; i < device->gemm_curves.n; i++, c++) {
		if (fabs(c->n - s->n) > 0.5 || fabs(c->k - s->k) > 0.5)
			continue;
		if (c->dtype == (int)op->dtype)
			return c;
		if (is_half(c->dtype) && is_half((int)op->dtype))
			alike = c;
	}
	return alike;
}

/* The measured factor at m rows, straight between points in logs; the nearest beyond them. */
static double curve_factor(const struct sc_gemm_curve *c, double m)
{
	size_t low = 0, high = c->m.n - 1;
	double x;

	if (m <= c->m.at[0] || m >= c->m.at[high])
		return c->factor.at[m <= c->m.at[0] ? 0 : high];
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		*(c->m.at[middle] <= m ? &low : &high) = middle;
	}
	x = log(m / c->m.at[low]) / log(c->m.at[high] / c->m.at[low]);
	return c->factor.at[low] * pow(c->factor.at[high] / c->factor.at[low], x);
}

/* Batched products of 16 bits may have rows that are no multiple of 16 bytes: neither are the
 * strides between them, and no kernel on tensor cores takes them on Ampere (BigScience's attention
 * with heads of 150) or before. No such row was measured on later GPUs: their kernels are taken to
 * load such rows as those of one product. */
static bool is_unfed_batch(const struct sc_device *device, const struct sc_op *op)
{
	return op->u.gemm.bmm && is_half((int)op->dtype) && device->cuda_capability > 0 &&
	       device->cuda_capability < ADA && worst_alignment(device, op) < 0;
}

static void formula_time(const struct sc_device *device, const struct sc_op *op,
			 struct sc_op_time *out)
{
	const struct sc_gemm_coef *c = &device->gemm;
	bool tensor = sc_device_has_tensor(device, op->dtype) && !is_unfed_batch(device, op);
	struct problem p = {.shape = &op->u.gemm, .sms = (double)device->sm_count, .min_waves = 1};
	double waves = 1, bytes, math_us, memory_us, kernel_us, slower_us;
	double fixed_us =
		op->u.gemm.load == SC_LOAD_RUN ? fmax(c->fixed_us, c->run_fixed_us) : c->fixed_us;
	struct tile own = {0, 0};

	p.split_us = c->split_us;
	p.partial_us = sc_memory_us(device,
				    PARTIAL_BYTES * p.shape->batch * p.shape->m * p.shape->n, 1, 0);
	if (tensor)
		set_tensor(&p, device, op);
	else
		set_simt(&p, device, &own);
	math_us = best_tile_us(&p, &waves);
	bytes = operand_bytes(op);
	if (op->dtype >= SC_FP8)
		bytes += c->reread_frac * reread_bytes(device, op);
	memory_us = sc_memory_us(device, bytes, c->hbm_eff, 0);
	if (op->u.gemm.load == SC_LOAD_BURST)
		memory_us = sc_repeat_us(device,
					 operand_bytes(op) + (BURST_COPIES - 1) * weight_bytes(op),
					 memory_us);
	if (!tensor)
		math_us *= far_rows_factor(&device->simt, p.shape);
	kernel_us = sc_smooth_max(math_us, memory_us);
	if (tensor)
		slower_us = math_us * tensor_droop(device, op, kernel_us);
	else
		slower_us = droop_us(device, simt_eff(device, p.shape->bmm), math_us, kernel_us);
	*out = (struct sc_op_time){
		.total_us = fixed_us + kernel_us + slower_us,
		.math_us = math_us + slower_us,
		.memory_us = memory_us,
		.fixed_us = fixed_us,
		.waves = ceil(waves),
		.sm_frac = 1,
		.limit = math_us >= memory_us ? "math" : "memory",
	};
}

static void gemm_time(const struct sc_device *device, const struct sc_op *op,
		      struct sc_op_time *out)
{
	const struct sc_gemm_coef *c = &device->gemm;
	const struct sc_gemm_curve *curve = curve_of(device, op);
	double factor = curve ? curve_factor(curve, op->u.gemm.m) : 1;
	double spread_frac =
		curve && c->curve_spread_frac > 0 ? c->curve_spread_frac : c->spread_frac;

	formula_time(device, op, out);
	out->total_us *= factor;
	out->math_us *= factor;
	out->memory_us *= factor;
	out->fixed_us *= factor;
	sc_op_trust(device, sc_device_math_block(device, op->dtype), spread_frac, out);
}

const struct sc_op_model sc_gemm_model = {.name = "gemm", .time = gemm_time};
