/* Times of fused (flash) attention. An SM works on a tile of queries of one head, key by key:
 * products at a share of tensor peak, softmax beside them, which overlap in part; a tile's start
 * and end take a time of their own. Kernels exist for head dimensions in steps of 32 and pad to
 * them. Under a causal mask a tile of queries reads the keys up to its last query: half of them on
 * average, all of them in the longest tile. Backward does 2.5 times the forward's FLOP (Dao,
 * FlashAttention-2, 2023: five matrix products against two, all recomputing the scores). */
#include <math.h>

#include "base/units.h"
#include "models/op_model_priv.h"

#define BACKWARD_FLOP_RATIO 2.5
#define TILE_ROWS 64.0
#define MMA_ROWS 16.0 /* rows of queries that tensor cores multiply at least */
#define HEAD_STEP 32.0
#define WIDE_HEAD 128.0 /* wider heads leave room for smaller tiles only */

/* The distance of the first key beyond the window of the first query; below 0: it is within. */
static double beyond_window(const struct sc_attention_shape *s)
{
	return s->seq_kv + (s->causal ? -s->seq_q : s->gap) - s->window;
}

/* The integral of max(0, t) up to t. */
static double ramp(double t)
{
	return t > 0 ? t * t / 2 : 0;
}

/* Under a window a query has a key fewer for each token that the first is too far, down to none. */
double sc_attention_flop(const struct sc_attention_shape *s)
{
	double area = s->seq_q * s->seq_kv / (s->causal ? 2 : 1), first = beyond_window(s);

	if (s->window > 0)
		area -= ramp(first + s->seq_q) - ramp(first) -
			(ramp(first + s->seq_q - s->seq_kv) - ramp(first - s->seq_kv));
	return 4 * s->batch * s->heads * s->head_dim * fmax(area, 0) *
	       (s->backward ? BACKWARD_FLOP_RATIO : 1);
}

/* A coefficient that a device file leaves out (0) leaves its effect out. */
static double factor(double frac)
{
	return frac > 0 ? frac : 1;
}

static double achieved_eff(const struct sc_attention_coef *c, const struct sc_op *op, double head)
{
	const struct sc_attention_shape *s = &op->u.attention;
	double eff = s->backward ? c->bwd_eff : c->fwd_eff;

	if (head - s->head_dim > 0.5)
		eff *= factor(c->padded_eff);
	if (head > WIDE_HEAD)
		eff *= factor(s->backward ? c->bwd_wide_eff : c->fwd_wide_eff);
	if (op->dtype >= SC_FP8 && !s->backward)
		eff *= factor(head > WIDE_HEAD && c->fp8_wide_eff > 0 ? c->fp8_wide_eff
								      : c->fp8_eff);
	return eff;
}

/* The time of one SM for a row of queries and a key. Exponentials are no faster in a narrower
 * format. A format slower than fp32 (P4's fp16) is computed in fp32, as products are. */
static double score_us(const struct sc_device *device, const struct sc_op *op)
{
	const struct sc_attention_coef *c = &device->attention;
	double head = ceil(op->u.attention.head_dim / HEAD_STEP) * HEAD_STEP;
	double peak = fmax(device->peak_tflops[op->dtype], device->peak_tflops[SC_FP32]);
	double wide = device->peak_tflops[SC_BF16];
	double columns;

	columns = hypot(head / achieved_eff(c, op, head) *
				(op->u.attention.backward ? BACKWARD_FLOP_RATIO : 1),
			c->head_half * (op->dtype >= SC_FP8 && wide > 0 ? peak / wide : 1));
	return sc_flop_us(4 * columns, peak / (double)device->sm_count);
}

/* Decoding has one new token a sequence. The heads that share keys are the rows of a tile, and
 * where these tiles are fewer than the SMs, their keys are split among them (Dao, Flash-Decoding,
 * 2023): the rate at which the cache is read decides. Two blocks on an SM hide half of each other's
 * start. A cache that stays in L2 is read no faster here. */
static void decode_time(const struct sc_device *device, const struct sc_op *op,
			struct sc_op_time *out)
{
	const struct sc_attention_shape *s = &op->u.attention;
	const struct sc_attention_coef *c = &device->attention;
	bool tensor = sc_device_has_tensor(device, op->dtype);
	double group = s->heads / s->kv_heads;
	double rows = tensor ? ceil(group / MMA_ROWS) * MMA_ROWS : group;
	double w = s->batch * s->kv_heads / (double)device->sm_count;
	double bytes =
		2 * s->batch * s->head_dim *
		(s->kv_heads * s->seq_kv * s->cache_bytes + s->heads * sc_dtype_bytes(op->dtype));
	double eff = c->decode_eff > 0 ? c->decode_eff : device->rowwise.hbm_eff;

	out->math_us =
		score_us(device, op) * rows * s->seq_kv * w + c->fwd_tile_us / 2 * fmax(1, w);
	out->memory_us = sc_memory_us(device, bytes, eff, 0);
	out->waves = ceil(w);
}

/* The sum of max(0, keys + TILE_ROWS t) over n tiles. */
static double stairs(double keys, double n)
{
	double first = keys > 0 ? 0 : floor(-keys / TILE_ROWS) + 1, left = n - first;

	return left > 0 ? left * (keys + first * TILE_ROWS + TILE_ROWS * (left - 1) / 2) : 0;
}

/* The keys that a window saves a tile are those before the ones that its first query reaches, in
 * whole tiles of keys: the mean over n tiles from the t-th on. */
static double saved_keys(const struct sc_attention_shape *s, double t, double n)
{
	double first = beyond_window(s) + (t - 1) * TILE_ROWS;

	return s->window > 0 ? (stairs(first, n) - stairs(first - s->seq_kv, n)) / n : 0;
}

static void prefill_time(const struct sc_device *device, const struct sc_op *op,
			 struct sc_op_time *out)
{
	const struct sc_attention_shape *s = &op->u.attention;
	const struct sc_attention_coef *c = &device->attention;
	bool tensor = sc_device_has_tensor(device, op->dtype);
	double rows = tensor ? ceil(s->seq_q / MMA_ROWS) * MMA_ROWS : s->seq_q;
	double keys = tensor ? fmax(s->seq_kv, TILE_ROWS) : s->seq_kv, mean = keys;
	double n_tiles = ceil(s->seq_q / TILE_ROWS); /* of a head */
	double w = s->batch * s->heads * n_tiles / (double)device->sm_count;
	double waves = fmax(1, w + c->wave_frac * (ceil(w) - w));
	double key_us = score_us(device, op) * fmin(rows, TILE_ROWS);
	double tile_us = s->backward ? c->bwd_tile_us : c->fwd_tile_us;
	double elements =
		2 * s->batch * s->head_dim * (s->heads * s->seq_q + s->kv_heads * s->seq_kv);
	double longest = keys - saved_keys(s, s->causal ? n_tiles - 1 : 0, 1);

	if (s->causal && n_tiles > 1)
		mean = fmax(keys - (n_tiles - 1) * TILE_ROWS / 2, (keys + TILE_ROWS) / 2);
	mean -= saved_keys(s, 0, n_tiles);
	out->math_us = fmax((key_us * mean + tile_us) * waves, key_us * longest + tile_us);
	out->memory_us =
		sc_memory_us(device, elements * (s->backward ? 2 : 1) * sc_dtype_bytes(op->dtype),
			     device->rowwise.hbm_eff, 0);
	out->waves = ceil(w);
}

static void attention_time(const struct sc_device *device, const struct sc_op *op,
			   struct sc_op_time *out)
{
	const struct sc_attention_coef *c = &device->attention;

	*out = (struct sc_op_time){.fixed_us = c->fixed_us, .sm_frac = 1};
	if (op->u.attention.cache_bytes > 0)
		decode_time(device, op, out);
	else
		prefill_time(device, op, out);
	out->total_us = c->fixed_us + sc_smooth_max(out->math_us, out->memory_us);
	out->limit = out->math_us >= out->memory_us ? "math" : "memory";
	sc_op_trust(device, "attention", c->spread_frac, out);
}

const struct sc_op_model sc_attention_model = {.name = "attention", .time = attention_time};
