/* Facts that follow from a resolved request and are stored nowhere: the type that a precision
 * computes in, the layers of each stage, the bytes of an optimizer's state, the peak of the GPU.
 * Nothing here changes a request. */
#include <math.h>
#include <string.h>

#include "core/config/config_priv.h"

const struct sc_device *sc_kind_without(const struct sc_request *req, enum sc_dtype dtype)
{
	for (size_t k = 0; k < sc_request_n_kinds(req); k++)
		if (!(sc_request_device(req, k)->peak_tflops[dtype] > 0))
			return sc_request_device(req, k);
	return NULL;
}

enum sc_dtype sc_precision_dtype(enum sc_precision precision)
{
	static const enum sc_dtype dtypes[] = {
		[SC_P_FP32] = SC_FP32,     [SC_P_TF32] = SC_TF32, [SC_P_FP16] = SC_FP16,
		[SC_P_BF16] = SC_BF16,     [SC_P_FP8] = SC_FP8,   [SC_P_AMP_FP16] = SC_FP16,
		[SC_P_AMP_BF16] = SC_BF16, [SC_P_MXFP8] = SC_FP8, [SC_P_NVFP4] = SC_FP4,
		[SC_P_MXFP4] = SC_FP4,
	};

	return dtypes[precision];
}

bool sc_order_parse(const char *order, int axes[SC_N_ORDER_AXES], int *n_named)
{
	static const char names[SC_N_ORDER_AXES][3] = {"tp", "cp", "ep", "dp", "pp"};
	bool seen[SC_N_ORDER_AXES] = {false};
	int n = 0;

	for (;;) {
		int axis = 0;

		while (axis < SC_N_ORDER_AXES && strncmp(order, names[axis], 2) != 0)
			axis++;
		if (axis == SC_N_ORDER_AXES || seen[axis] || (order[2] && order[2] != '-'))
			return false;
		seen[axis] = true;
		axes[n++] = axis;
		if (!order[2])
			break;
		order += 3;
	}
	if (n_named)
		*n_named = n;
	for (int axis = 0; axis < SC_N_ORDER_AXES; axis++)
		if (!seen[axis])
			axes[n++] = axis;
	return true;
}

/* With ends counted, the later chunks have one more, and those with an end that counts one less. */
static void count_ends(int64_t layers, int64_t n_chunks, const bool counts[2], int64_t *out)
{
	int64_t all = layers + counts[0] + counts[1];
	int64_t each = all / n_chunks, n_more = all % n_chunks;

	for (int64_t i = 0; i < n_chunks; i++)
		out[i] = each + (i >= n_chunks - n_more);
	out[0] -= counts[0];
	out[n_chunks - 1] -= counts[1];
}

/* The last stage has its layers' worth less for the output layer, counted in FLOP (Narayanan et
 * al., SC21, §3.3: of a layer 72 b s h^2 (1 + s / 6 h), of the output 6 b s h V); the others share
 * alike, the later ones, which hold fewer micro-batches, one more where it does not divide. */
static void balance_layers(const struct sc_model *m, int64_t n_chunks, int64_t *layers)
{
	double h = (double)m->hidden, least = INFINITY;
	double head = (double)m->vocab / (12 * h * (1 + (double)m->seq / (6 * h)));
	int64_t others = n_chunks - 1, best = 0, n_fewer;

	for (int64_t last = 0; last <= m->layers; last++) {
		double each = ceil((double)(m->layers - last) / (double)others);
		double most = fmax(each, (double)last + head);

		if (most <= least) {
			least = most;
			best = last;
		}
	}
	n_fewer = others - (m->layers - best) % others;
	for (int64_t i = 0; i < others; i++)
		layers[i] = (m->layers - best) / others + (i >= n_fewer);
	layers[others] = best;
}

/* A stage ends with the layer that brings the multiply-adds so far to its share of all, the output
 * layer's among them; the last one has the rest (huggingface/nanotron, models/base.py: build_model,
 * models/llama.py: get_block_compute_costs). */
static void fill_stages(const struct sc_model *m, int64_t n_chunks, int64_t *layers)
{
	bool gated = sc_family_traits(m->family)->gated;
	int64_t ffn = m->experts > 0 ? m->top_k * m->expert_ffn_hidden : m->ffn_hidden, at = 0;
	/* of a layer, over the hidden size */
	double each = (double)(4 * m->heads * m->head_dim + (gated ? 3 : 2) * ffn);
	double all = each * (double)m->layers + (double)m->vocab;

	memset(layers, 0, (size_t)n_chunks * sizeof(*layers));
	for (int64_t i = 1; i <= m->layers; i++) {
		layers[at]++;
		if (at < n_chunks - 1 && each * (double)(i * n_chunks) >= all * (double)(at + 1))
			at++;
	}
}

/* Layers that predict later tokens and the loss count as layers of the last chunk, which takes what
 * the others leave; the first ones have one less where that is too little for all (DeepSeek-V3 in
 * Megatron-Bridge's layouts, Et*4|(t*4|)*14tmL and Et|(tt|)*30mL). */
static void count_later_layers(const struct sc_model *m, int64_t n_chunks, int64_t *layers)
{
	int64_t each = (m->layers + m->mtp_layers + n_chunks) / n_chunks, others = n_chunks - 1;
	int64_t n_fewer = each * others > m->layers ? each * others - m->layers : 0;

	for (int64_t i = 0; i < others; i++)
		layers[i] = each - n_fewer / others - (i < n_fewer % others);
	layers[others] = n_fewer > 0 ? 0 : m->layers - each * others;
}

static void split_layers(const struct sc_request *request, int64_t *layers)
{
	const struct sc_parallel *par = &request->config.parallel;
	int64_t n_chunks = par->pp * par->virtual_stages, n_layers = request->config.model.layers;
	int64_t each = n_layers / n_chunks, n_more = n_layers % n_chunks;

	const bool counts[2] = {par->count_embedding, par->count_loss};

	if (par->layout) {
		sc_layout_chunks(par->layout, n_chunks, layers);
		return;
	}
	if (sc_stages_are_balanced(par) && n_chunks > 1) {
		(request->software.fills_stages ? fill_stages : balance_layers)(
			&request->config.model, n_chunks, layers);
		return;
	}
	if ((counts[0] || counts[1]) && !par->stage_layers.n) {
		count_ends(n_layers, n_chunks, counts, layers);
		return;
	}
	if (request->config.model.mtp_layers > 0 && n_chunks > 1 && !par->stage_layers.n) {
		count_later_layers(&request->config.model, n_chunks, layers);
		return;
	}
	for (int64_t i = 0; i < n_chunks; i++)
		layers[i] = par->stage_layers.n && !sc_stages_are_balanced(par)
				    ? par->stage_layers.at[i]
				    : each + (i < n_more);
}

void sc_stage_layers(const struct sc_request *request, int64_t *layers)
{
	const struct sc_parallel *par = &request->config.parallel;

	split_layers(request, layers);
	layers[par->pp * par->virtual_stages - 1] += request->config.model.mtp_layers;
}

double sc_grad_bytes(const struct sc_request *request)
{
	double bytes = sc_dtype_bytes(sc_storage_dtype(request->config.training.precision));

	return fmax(bytes, (double)request->config.training.grad_bytes);
}

double sc_moment_bytes(const struct sc_request *request)
{
	double given = request->config.training.moment_bytes;
	double own = sc_optimizer_traits_of(request->config.training.optimizer)->moment_bytes;

	return given > 0 ? given : own > 0 ? own : sc_dtype_bytes(SC_FP32);
}

double sc_master_bytes(const struct sc_request *request)
{
	double given = request->config.training.master_bytes, f = sc_dtype_bytes(SC_FP32);

	if (sc_dtype_bytes(sc_storage_dtype(request->config.training.precision)) >= f)
		return 0;
	return given >= 0 ? given : f;
}

double sc_updated_bytes(const struct sc_request *request)
{
	double master = sc_master_bytes(request);

	return master > 0 ? master
			  : sc_dtype_bytes(sc_storage_dtype(request->config.training.precision));
}

double sc_request_peak_tflops(const struct sc_request *request)
{
	const enum sc_dtype dtype = sc_precision_dtype(request->config.training.precision);

	return request->device.peak_tflops[dtype] / request->kernel_sm_frac;
}
