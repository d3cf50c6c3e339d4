/* GEMM: output tiles in waves over the SMs, each a k loop with a prologue and an epilogue, against the
 * HBM traffic of the operands. The tile is chosen by the smallest predicted time, as the vendor's
 * heuristics try to. Wave quantization after NVIDIA's "Matrix Multiplication Background User's
 * Guide", softened by wave_frac since several blocks share an SM. */
#include <math.h>
#include <stddef.h>

#include "base/units.h"
#include "models/op_model_priv.h"

struct tile {
	double m, n;
};
static const struct tile TENSOR_TILES[] = {{256, 128}, {128, 256}, {128, 128}, {64, 64}};
static const struct tile SIMT_TILES[] = {{128, 128}, {128, 64}, {64, 128},
					 {64, 64},   {32, 64},  {64, 32}};
#define N_OF(a) (sizeof(a) / sizeof((a)[0]))
#define K_STEP 32.0      /* a k loop's step on tensor cores: shorter tails are padded */
#define ALIGN_BYTES 16.0 /* of rows, below which tensor cores cannot be fed by wide loads */

/* What the tiles of one GEMM have in common. */
struct problem {
	const struct sc_gemm_shape *shape;
	double sms, wave_frac;
	double k, k_half;       /* padded k; prologue and epilogue in steps of k */
	double flop_per_us_max; /* whole device, largest tile */
	double tile_half;
};

static double operand_bytes(const struct sc_op *op)
{
	const struct sc_gemm_shape *s = &op->u.gemm;
	double e = sc_dtype_bytes(op->dtype);
	double out = sc_dtype_bytes(op->dtype == SC_FP8 ? SC_BF16 : op->dtype);
	double c_bytes = s->accumulate ? 2 * sc_dtype_bytes(SC_FP32) : out;

	return s->batch * (e * (s->m * s->k + s->k * s->n) + c_bytes * s->m * s->n);
}

static double tile_math_us(const struct problem *p, const struct tile *tile, double *waves)
{
	const struct sc_gemm_shape *s = p->shape;
	double w = s->batch * ceil(s->m / tile->m) * ceil(s->n / tile->n) / p->sms;
	double loads = 1 + p->tile_half * (1 / tile->m + 1 / tile->n);
	double loads_best = 1 + p->tile_half * (1.0 / 256 + 1.0 / 128);
	double flop = 2 * tile->m * tile->n * (p->k + p->k_half) * p->sms;

	*waves = fmax(1, (1 - p->wave_frac) * w + p->wave_frac * ceil(w));
	return *waves * flop * loads / (loads_best * p->flop_per_us_max);
}

static double best_math_us(const struct problem *p, bool tensor, double *waves)
{
	const struct tile *tiles = tensor ? TENSOR_TILES : SIMT_TILES;
	size_t n = tensor ? N_OF(TENSOR_TILES) : N_OF(SIMT_TILES);
	double best = INFINITY;

	for (size_t i = 0; i < n; i++) {
		double w, us = tile_math_us(p, &tiles[i], &w);

		if (us < best) {
			best = us;
			*waves = w;
		}
	}
	return best;
}

/* n and k are the contiguous dimensions of the operands (and of the transposed ones of gradients). */
static bool is_aligned(const struct sc_op *op)
{
	const struct sc_gemm_shape *s = &op->u.gemm;
	double unit = ALIGN_BYTES / sc_dtype_bytes(op->dtype);

	return fmod(s->m, unit) < 0.5 && fmod(s->n, unit) < 0.5 && fmod(s->k, unit) < 0.5;
}

static void gemm_time(const struct sc_device *device, const struct sc_op *op,
		      struct sc_op_time *out)
{
	const struct sc_gemm_coef *c = &device->gemm;
	const struct sc_gemm_shape *s = &op->u.gemm;
	double peak = sc_device_peak_tflops(device, op->dtype);
	/* cards whose half precision is slower than single run it on the fp32 units */
	bool tensor = op->dtype != SC_FP32 && peak > device->peak_tflops.fp32;
	bool aligned = !tensor || is_aligned(op);
	double eff =
		tensor ? c->eff_max * (aligned ? c->power_eff : c->misaligned_eff) : c->eff_simt;
	struct problem p = {
		.shape = s,
		.sms = (double)device->sm_count,
		.wave_frac = c->wave_frac,
		.k = tensor ? ceil(s->k / K_STEP) * K_STEP : s->k,
		.k_half = s->bmm ? c->k_half_batched : c->k_half,
		.flop_per_us_max =
			1 / sc_flop_us(1, (tensor ? peak : device->peak_tflops.fp32) * eff),
		.tile_half = c->tile_half,
	};
	double waves = 1, math_us = best_math_us(&p, tensor, &waves);
	double memory_us = sc_memory_us(device, operand_bytes(op), c->hbm_eff, 0);

	*out = (struct sc_op_time){
		.total_us = c->fixed_us + sc_smooth_max(math_us, memory_us),
		.math_us = math_us,
		.memory_us = memory_us,
		.fixed_us = c->fixed_us,
		.waves = ceil(waves),
		.sm_frac = 1,
		.spread_frac = c->spread_frac,
		.limit = math_us >= memory_us ? "math" : "memory",
	};
}

const struct sc_op_model sc_gemm_model = {.name = "gemm", .time = gemm_time};
