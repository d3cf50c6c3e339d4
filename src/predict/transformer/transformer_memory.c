/* The bytes that layers keep on one rank from forward to backward, and hold for a moment: counts
 * after Korthikanti et al. 2022, §4, as sums over their parts. This file knows nothing of
 * schedules. */
#include "predict/transformer/transformer_memory.h"

#include <math.h>

#include "core/config/config_schedule.h"
#include "models/offload.h"
#include "predict/transformer/transformer_priv.h"

#define MASK_BYTES 1.0

static double element_bytes(const struct sc_request *request)
{
	return sc_dtype_bytes(sc_storage_dtype(request->config.training.precision));
}

/* Returns the tokens of one context-parallel rank. */
static double tokens(const struct sc_config *cfg, double samples)
{
	return samples * (double)cfg->model.seq * cfg->training.fill_fraction /
	       (double)cfg->parallel.cp;
}

/* Returns the bytes of unfused attention's scores: softmax, with dropout its mask and what it
 * leaves. */
static double score_bytes(const struct sc_request *request, double samples, int kind)
{
	const struct sc_config *cfg = &request->config;
	double seq = (double)cfg->model.seq * cfg->training.fill_fraction;
	double e = element_bytes(request);
	double bytes = sc_family_traits(cfg->model.family)->dropout ? 2 * e + MASK_BYTES : e;

	if (cfg->training.attention != SC_ATT_UNFUSED || !sc_model_has_attention(&cfg->model, kind))
		return 0;
	return bytes * (double)cfg->model.heads * seq * tokens(cfg, samples) /
	       (double)cfg->parallel.tp;
}

static bool gathers_sequence(const struct sc_parallel *par)
{
	return par->sequence_parallel && par->tp > 1;
}

static double sequence_ranks(const struct sc_parallel *par)
{
	return par->sequence_parallel ? (double)par->tp : 1;
}

/* Returns all bytes but attention scores'. With dropout only its masks are made again: the sum
 * stays. What is gathered has a norm's output, a rank's own part of the sequence, in it. */
static double layer_bytes(const struct layer *l, double samples)
{
	const struct sc_request *request = l->x->req;
	const struct sc_config *cfg = &request->config;
	double split = 0, whole = 0, gathered = 0, masks = 0, e = element_bytes(request);
	bool keeps = request->software.keeps_gathered && gathers_sequence(&cfg->parallel);

	for (const struct part *p = l->at; p < l->at + l->n; p++) {
		if (!sc_recomputes(request, p->again & ~SC_RECOMPUTE_DROPOUT)) {
			*(p->flags & PART_WHOLE ? &whole : &split) += p->kept;
			if (keeps && p->flags & PART_ENTERS)
				gathered += (p->share > 0 ? p->share : 1) * p->k *
					    (1 - 1 / (double)cfg->parallel.tp);
		}
		if (!sc_recomputes(request, SC_RECOMPUTE_DROPOUT))
			masks += p->mask;
	}
	return tokens(cfg, samples) * request->software.activation_factor *
	       ((split / (double)cfg->parallel.tp + gathered) * e +
		(whole * e + masks * MASK_BYTES) / sequence_ranks(&cfg->parallel));
}

double sc_checkpoint_ranks(const struct sc_request *request)
{
	const struct sc_parallel *par = &request->config.parallel;
	bool divides = request->config.training.offload.partition_activations;

	return divides && !par->sequence_parallel ? (double)par->tp : 1;
}

/* Returns the bytes of a layer's input, for a micro-batch of `samples` sequences. */
static double layer_input_bytes(const struct sc_request *request, double samples)
{
	const struct sc_config *cfg = &request->config;

	return tokens(cfg, samples) * sc_model_streams(&cfg->model) * (double)cfg->model.hidden *
	       element_bytes(request) / sequence_ranks(&cfg->parallel);
}

/* Returns the bytes that a stage sends to the next, which stay until its backward; 0 without
 * stages. */
static double sent_bytes(const struct sc_request *request, double samples)
{
	return request->config.parallel.pp > 1 ? layer_input_bytes(request, samples) : 0;
}

/* Returns the bytes of products' inputs with weights and gradients of their outputs: one that leads
 * into a tensor-parallel region is whole before and split behind it, one that leads out the other
 * way round. */
static double weight_inputs_bytes(const struct layer *l, double samples)
{
	const struct sc_request *request = l->x->req;
	const struct sc_config *cfg = &request->config;
	double split = 0, whole = 0;

	for (const struct part *p = l->at; p < l->at + l->n; p++) {
		bool up = p->kind == SC_PART_EXPERTS_UP, down = p->kind == SC_PART_EXPERTS_DOWN;
		double times = up || down ? (double)cfg->model.top_k : 1;

		if (down || p->flags & PART_LEAVES) {
			split += p->macs / p->n;
			whole += times * p->n;
		} else if (up || p->kind == SC_PART_LINEAR || p->kind == SC_PART_INNER) {
			split += p->macs / p->k +
				 (up || p->flags & (PART_ENTERS | PART_REPLICATED) ? 0 : p->k);
			whole += up || p->flags & PART_ENTERS ? times * p->k : 0;
		}
	}
	return tokens(cfg, samples) * element_bytes(request) *
	       (split / (double)cfg->parallel.tp + whole / sequence_ranks(&cfg->parallel));
}

double sc_weight_inputs_frac(const struct sc_request *request, const struct sc_layer_bytes *bytes,
			     const struct sc_layer_counts *layers)
{
	double kept = sent_bytes(request, (double)request->config.training.micro_batch);
	double inputs = 0;

	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
		if (layers->of[kind] > 0) {
			kept += layers->of[kind] * bytes[kind].kept;
			inputs += layers->of[kind] * bytes[kind].inputs;
		}
	return kept > 0 ? inputs / kept : 0;
}

/* Returns a token's part of the first activation, in a mixture the experts'; or half a mixer's
 * first product. */
static double inner_width(const struct layer *l)
{
	double first = 0;

	for (const struct part *p = l->at; p < l->at + l->n; p++) {
		if (p->kind == SC_PART_ACTIVATION || p->kind == SC_PART_EXPERTS_ACTIVATION)
			return p->k;
		if (first <= 0 && p->kind == SC_PART_LINEAR)
			first = p->n * l->x->tp / 2;
	}
	return first;
}

/* Returns what torchtitan's policy keeps (torchtitan/distributed/activation_checkpoint.py, "op"):
 * the layer's input, attention's output, what experts' exchanges bring, and every second matrix
 * product, in the order they run: queries, values, the gate, and down where gated. Experts' grouped
 * products are none of them, nor torchao's in fp4 (nvfp4_linear.py: scaled_mm). */
static double ops_bytes(const struct layer *l, double samples)
{
	const struct dims *x = l->x;
	double inner = l->has_experts
			       ? (double)(x->model->shared_experts * x->model->expert_ffn_hidden)
			       : inner_width(l);
	double inputs = 1, split = x->ctx * x->tp;

	if (x->dtype != SC_FP4) {
		inputs += x->traits->gated && inner > 0;
		split += x->heads * x->d * x->tp + x->all_kv_heads * x->d_v + inner;
	}
	if (l->has_experts)
		split += exchanged_width(x);
	return inputs * layer_input_bytes(x->req, samples) +
	       tokens(&x->req->config, samples) * split * x->e / x->tp;
}

static double kept_by_layer(const struct layer *l, double samples, int kind)
{
	const struct sc_request *request = l->x->req;
	int mode = request->config.training.recompute;
	double frac = mode == SC_RECOMPUTE_FULL ? sc_recompute_frac(request) : 0;
	double whole = layer_bytes(l, samples);

	if (mode == SC_RECOMPUTE_SELECTIVE && request->software.selective == SC_SELECTIVE_OPS)
		return ops_bytes(l, samples);
	if (!sc_recomputes(request, SC_RECOMPUTE_CORE_ATTN))
		whole += score_bytes(request, samples, kind);
	return frac * layer_input_bytes(request, samples) / sc_checkpoint_ranks(request) +
	       (1 - frac) * whole;
}

static double working_of_layer(const struct layer *l, double samples, int kind)
{
	const struct dims *x = l->x;
	const struct sc_request *request = x->req;
	const struct sc_config *cfg = &request->config;
	double bytes = tokens(cfg, samples) * (x->gates + 1) * inner_width(l) * x->e / x->tp;

	if (cfg->training.recompute == SC_RECOMPUTE_NONE)
		return bytes;
	if (cfg->training.recompute >= SC_FLAG || sc_recomputes(request, SC_RECOMPUTE_CORE_ATTN))
		return bytes + (sc_recomputes(request, SC_RECOMPUTE_CORE_ATTN)
					? score_bytes(request, samples, kind)
					: 0);
	return bytes + layer_bytes(l, samples) + score_bytes(request, samples, kind);
}

struct sc_layer_bytes sc_layer_bytes_of(const struct sc_request *request, double samples, int kind)
{
	const struct dims all = dims_of(request, NULL, 1, NULL), x = dims_of_kind(&all, kind);
	const struct layer l = layer_of(&x, kind);

	return (struct sc_layer_bytes){.kept = kept_by_layer(&l, samples, kind),
				       .inputs = weight_inputs_bytes(&l, samples),
				       .working = working_of_layer(&l, samples, kind)};
}

/* Returns what sequence parallelism gathers: the whole sequence before a matrix product, and its
 * part of the sum after the next. */
static double gathered_sequence_bytes(const struct sc_request *request, double samples)
{
	const struct sc_config *cfg = &request->config;

	if (!gathers_sequence(&cfg->parallel))
		return 0;
	return 2 * tokens(cfg, samples) * (double)cfg->model.hidden * element_bytes(request);
}

/* One kernel works in place; Megatron's keeps the softmax beside the logits in fp32. */
static double loss_copies(const struct sc_software *software)
{
	if (software->loss_copies > 0)
		return software->loss_copies;
	return software->fused_loss ? 1 : 2;
}

double sc_loss_bytes(const struct sc_request *request, double samples)
{
	const struct sc_config *cfg = &request->config;
	const double outputs = (double)(1 + cfg->model.mtp_layers);
	double positions = tokens(cfg, samples), gradient = 0;
	double chunks = fmax(1, request->software.loss_chunks);

	if (sc_family_traits(cfg->model.family)->masked_lm && request->software.mlm_gather)
		positions *= MASKED_FRACTION;
	if (chunks > 1) /* the gradient of what the output layer reads is put together in fp32 */
		gradient =
			positions * outputs * (double)cfg->model.hidden * sc_dtype_bytes(SC_FP32);
	return gradient + positions / chunks * outputs * (double)cfg->model.vocab /
				  (double)(cfg->parallel.tp * sc_vocab_shares(&cfg->parallel)) *
				  (element_bytes(request) +
				   loss_copies(&request->software) * sc_dtype_bytes(SC_FP32));
}

/* Returns the bytes of layers that wait for backward; those that leave the GPU do so but for a few.
 */
static double kept_bytes(const struct sc_request *request, const struct sc_layers_held *held,
			 double *off_bytes)
{
	const struct sc_offload *off = &request->config.training.offload;
	double layers = sc_layers_in_all(&held->layers), bytes = 0, largest = 0;
	double flying = held->micro_batches_in_flight;
	double share = flying > 0 ? sc_offload_layers_frac(off, layers / flying) : 0;

	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
		if (held->layers.of[kind] > 0) {
			bytes += held->layers.of[kind] * held->bytes[kind].kept;
			largest = fmax(largest, held->bytes[kind].kept);
		}
	double moving = (1 + (double)off->prefetch_layers) * largest;

	*off_bytes = share * bytes;
	return fmin(bytes, (1 - share) * bytes + (share > 0 ? moving : 0));
}

double sc_activation_bytes(const struct sc_request *request, const struct sc_layers_held *held,
			   double *off_bytes)
{
	double bytes = kept_bytes(request, held, off_bytes);
	double sent = sent_bytes(request, held->samples) * held->micro_batches_in_flight;
	double loss = held->head ? sc_loss_bytes(request, held->samples) : 0;
	double widest = loss; /* the logits are gone when the first layer runs backward */

	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
		if (held->layers.of[kind] > 0) {
			widest = fmax(widest, held->bytes[kind].working);
			if (!request->config.model.layers_pattern)
				break;
		}
	return bytes + sent + widest + gathered_sequence_bytes(request, held->samples);
}
