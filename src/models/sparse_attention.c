/* Times of sparse attention: an indexer scores all keys before a query (or all of its compressed
 * ones), the best are chosen, and attention gathers these. Gathered entries are read anew for each
 * query, whatever its heads: that bounds it, not tensor cores. The choice reads scores. */
#include "models/sparse_attention.h"

#include <math.h>

#include "base/units.h"
#include "models/op_model_priv.h"

#define BACKWARD_FLOP_RATIO 2.5 /* as of flash attention: five products against two */
#define SCORE_BYTES 4.0
#define START_US 4.0 /* of each kernel: attention, and where keys are chosen scores and choice */
#define SPREAD_FRAC 0.25
enum { HOPPER = 90 }; /* CUDA capability */

/* Factors over the ideal of each part: products at tensor peak (core; before Hopper core_old),
 * gathered bytes and scores at HBM's rate, as modules of three serving frameworks ask together
 * (aiconfigurator; 900 to 1,400 rows each). The second entry is that of caches. */
struct sparse_coef {
	double core, core_old, gather, scores;
};
static const struct sparse_coef COEFS[SC_N_SPARSE_KINDS][2] = {
	[SC_SPARSE_ALL] = {{0.28, 0.5, 0, 0}, {0.17, 4.1, 1.3, 0}},
	[SC_SPARSE_TOP_K] = {{0.01, 0.01, 1.31, 31}, {0, 0, 2.62, 50.4}},
	[SC_SPARSE_COMPRESSED_TOP_K] = {{0, 0, 3.4, 21}, {0, 0, 1.45, 457}},
	[SC_SPARSE_COMPRESSED] = {{0, 0, 2.43, 0}, {0, 0, 5.32, 0}},
	[SC_SPARSE_BLOCKS] = {{7.25, 7.25, 0, 3.55}, {13.3, 13.3, 0.7, 75.2}},
};

/* The keys before the queries that are in reach, summed over these: all, or at most so many. */
static double pairs_up_to(const struct sc_sparse_shape *s, double most, double compression)
{
	const double below = fmin(fmax(most * compression - s->past, 0), s->seq);

	return s->batch * ((below * s->past + below * (below + 1) / 2) / compression +
			   (s->seq > below ? (s->seq - below) * most : 0));
}

double sc_sparse_pairs(const struct sc_sparse_shape *s)
{
	const double compression = fmax(1, s->compression);
	double pairs = s->window > 0 ? pairs_up_to(s, s->window, 1) : 0;

	if (s->top_k > 0)
		return pairs + pairs_up_to(s, s->top_k, compression);
	return pairs + pairs_up_to(s, HUGE_VAL, compression);
}

static double scored_pairs(const struct sc_sparse_shape *s)
{
	return s->index_heads > 0 ? pairs_up_to(s, HUGE_VAL, fmax(1, s->compression)) : 0;
}

double sc_sparse_flop(const struct sc_sparse_shape *s)
{
	return (s->backward ? BACKWARD_FLOP_RATIO : 1) *
	       (2 * sc_sparse_pairs(s) * s->heads * s->dims +
		2 * scored_pairs(s) * s->index_heads * s->index_dim);
}

static void sparse_time(const struct sc_device *device, const struct sc_op *op,
			struct sc_op_time *out)
{
	const struct sc_sparse_shape *s = &op->u.sparse;
	const struct sparse_coef *c = &COEFS[s->kind][s->cached];
	const double peak = fmax(device->peak_tflops[op->dtype], device->peak_tflops[SC_FP32]);
	const double fastest = fmax(peak, device->peak_tflops[SC_FP8]); /* of scores */
	const bool is_old = device->cuda_capability > 0 && sc_kernel_capability(device) < HOPPER;
	const double core = is_old ? c->core_old : c->core;
	const double pairs = sc_sparse_pairs(s), flop = 2 * pairs * s->heads * s->dims;
	/* Backward gathers entries again, and their gradients in fp32, which atomics read and write
	 * (tilelang, sparse_mla_bwd.py). */
	const double grads = 2 * sc_dtype_bytes(SC_FP32) / sc_dtype_bytes(op->dtype);
	const double entries = pairs * s->entry_bytes * (s->backward ? 1 + grads : 1);
	const double scores = scored_pairs(s) * SCORE_BYTES * (s->backward ? 2 : 1);

	*out = (struct sc_op_time){.fixed_us = START_US * (s->index_heads > 0 ? 3 : 1),
				   .sm_frac = 1,
				   .waves =
					   1 + floor(s->batch * s->seq / (double)device->sm_count)};
	out->math_us = fmax(sc_flop_us(flop * (s->backward ? BACKWARD_FLOP_RATIO : 1), peak) * core,
			    sc_flop_us(sc_sparse_flop(s), fastest));
	out->memory_us = sc_bytes_us(entries * c->gather + scores * c->scores, device->hbm_gbps);
	out->total_us = out->fixed_us + out->math_us + out->memory_us;
	out->limit = out->math_us >= out->memory_us ? "math" : "memory";
	sc_op_trust(device, "sparse_attention", SPREAD_FRAC, out);
}

const struct sc_op_model sc_sparse_model = {.name = "sparse", .time = sparse_time};
