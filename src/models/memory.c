/* Memory per GPU: weights, gradients and optimizer states by sharding and precision; activations; what
 * sharding gathers. */
#include "models/memory.h"

#include <math.h>

#include "base/units.h"
#include "core/config/config_schedule.h"
#include "models/offload.h"

/* Counts after Korthikanti et al. 2022, §4, in elements a token, so that gated layers, grouped heads,
 * latent attention and experts follow the same rules. Knows nothing of schedules. */

#define MASK_BYTES 1.0
#define NORMS 2.0            /* of a layer */
#define MASKED_FRACTION 0.15 /* Devlin et al. 2019, §3.1 */

static double element_bytes(const struct sc_request *request)
{
	return sc_dtype_bytes(sc_storage_dtype(request->config.training.precision));
}

/* Of one context-parallel rank. */
static double tokens(const struct sc_config *cfg, double samples)
{
	return samples * (double)cfg->model.seq * cfg->training.fill_fraction /
	       (double)cfg->parallel.cp;
}

static bool has_dropout(const struct sc_request *request)
{
	return sc_family_traits(request->config.model.family)->dropout;
}

/* Inputs of frozen layers are only kept where adapters read them. */
static bool keeps_ffn_inputs(const struct sc_training *tr)
{
	return tr->trainable != SC_TRAIN_LORA || tr->lora_targets == SC_LORA_ALL;
}

static double query_width(const struct sc_model *m)
{
	return (double)m->heads *
	       (double)(m->head_dim + (sc_model_is_mla(m) ? m->rope_head_dim : 0));
}

static double key_width(const struct sc_model *m)
{
	return (double)m->kv_heads * (double)m->head_dim;
}

static double attention_out_width(const struct sc_model *m)
{
	return (double)m->heads * (double)(sc_model_is_mla(m) ? m->v_head_dim : m->head_dim);
}

static double latent_width(const struct sc_model *m)
{
	return (double)(m->q_lora_rank + m->kv_lora_rank);
}

/* Queries and keys, with a norm before and after it, values and the output. Latent attention (DeepSeek-V2, §2.1): keys are built by
 * joining a rotary part to what is expanded from the compressed ones, which stays for its values;
 * compressed ones before and after their norm. */
static double attention_elements(const struct sc_request *request)
{
	const struct sc_model *m = &request->config.model;

	if (!sc_model_is_mla(m))
		return (m->qk_norm > 0 ? 2 : 1) * (query_width(m) + key_width(m)) + key_width(m) +
		       attention_out_width(m);
	if (sc_recomputes(request, SC_RECOMPUTE_MLA_UP))
		return attention_out_width(m) + 2 * latent_width(m);
	return 2 * query_width(m) + (double)m->heads * (double)(m->head_dim + m->v_head_dim) +
	       attention_out_width(m) + 2 * latent_width(m);
}

/* Of one feed-forward layer of `width`, behind its input; `again`: its activation is run again. */
static double ffn_elements(const struct sc_request *request, double width, bool again)
{
	bool gated = sc_family_traits(request->config.model.family)->gated;
	double kept = gated ? 2 : 1;

	if (keeps_ffn_inputs(&request->config.training) && !again)
		kept++;
	return kept * width;
}

/* Tokens sent to experts: their input in the experts' order, and their output, which backward needs
 * for the weights they are added with. Router: logits and probabilities. */
static double experts_elements(const struct sc_request *request)
{
	const struct sc_model *m = &request->config.model;
	double routed = (double)m->top_k * request->config.training.expert_imbalance;
	double width = (double)m->expert_ffn_hidden, logits = 2 * (double)m->experts;
	double inner = ffn_elements(request, width, sc_recomputes(request, SC_RECOMPUTE_MOE_ACT));
	double shared = (double)m->shared_experts * ffn_elements(request, width, false);

	if (sc_recomputes(request, SC_RECOMPUTE_MOE))
		return 0;
	if (sc_recomputes(request, SC_RECOMPUTE_SHARED_EXPERTS))
		shared = 0;
	return routed * (2 * (double)m->hidden + inner) + shared + logits;
}

/* Scores of unfused attention: softmax, with dropout its mask and what it leaves. */
static double score_bytes(const struct sc_request *request, double samples)
{
	const struct sc_config *cfg = &request->config;
	double seq = (double)cfg->model.seq * cfg->training.fill_fraction;
	double e = element_bytes(request);
	double bytes = has_dropout(request) ? 2 * e + MASK_BYTES : e;

	if (cfg->training.attention == SC_ATT_FLASH)
		return 0;
	return bytes * (double)cfg->model.heads * seq * tokens(cfg, samples) /
	       (double)cfg->parallel.tp;
}

static double sequence_ranks(const struct sc_parallel *par)
{
	return par->sequence_parallel ? (double)par->tp : 1;
}

/* Everything but attention scores. */
static double layer_bytes(const struct sc_request *request, double samples, bool is_dense)
{
	const struct sc_config *cfg = &request->config;
	const struct sc_model *m = &cfg->model;
	double h = (double)m->hidden, e = element_bytes(request);
	bool experts = sc_model_is_moe(m) && !is_dense;
	double split = attention_elements(request); /* over tensor-parallel ranks */
	double whole = NORMS * h * e; /* inputs of the norms; over sequence-parallel ones */
	bool norms_again = sc_recomputes(request, SC_RECOMPUTE_NORMS);

	if (experts)
		split += experts_elements(request);
	else if (!sc_recomputes(request, SC_RECOMPUTE_MLP))
		split += ffn_elements(request, (double)m->ffn_hidden,
				      sc_recomputes(request, SC_RECOMPUTE_MLP_ACT));
	if (!norms_again) /* inputs of attention and of what is behind it */
		whole += h * e;
	if (keeps_ffn_inputs(&cfg->training) &&
	    !(norms_again && (experts || request->software.norms_apart)))
		whole += h * e;
	if (has_dropout(request) && !sc_recomputes(request, SC_RECOMPUTE_DROPOUT))
		whole += 2 * h * MASK_BYTES;
	return tokens(cfg, samples) *
	       (split * e / (double)cfg->parallel.tp + whole / sequence_ranks(&cfg->parallel));
}

double sc_checkpoint_ranks(const struct sc_request *request)
{
	const struct sc_parallel *par = &request->config.parallel;
	bool divides = request->config.training.offload.partition_activations;

	return divides && !par->sequence_parallel ? (double)par->tp : 1;
}

/* A layer's input, for a micro-batch of `samples` sequences. */
static double layer_input_bytes(const struct sc_request *request, double samples)
{
	const struct sc_config *cfg = &request->config;

	return tokens(cfg, samples) * (double)cfg->model.hidden * element_bytes(request) /
	       sequence_ranks(&cfg->parallel);
}

/* What a stage sends to the next stays until its backward; 0 without stages. */
static double sent_bytes(const struct sc_request *request, double samples)
{
	return request->config.parallel.pp > 1 ? layer_input_bytes(request, samples) : 0;
}

/* Inputs of the linear layers and gradients of their outputs. */
static double weight_inputs_bytes(const struct sc_request *request, double samples, bool is_dense)
{
	const struct sc_config *cfg = &request->config;
	const struct sc_model *m = &cfg->model;
	double h = (double)m->hidden, e = element_bytes(request);
	double gates = sc_family_traits(m->family)->gated ? 2 : 1;
	double inner = (double)m->ffn_hidden, inputs = 1;
	double attention = query_width(m) + 2 * key_width(m) + attention_out_width(m);

	if (sc_model_is_moe(m) && !is_dense) {
		inputs = (double)(m->top_k + m->shared_experts);
		inner = inputs * (double)m->expert_ffn_hidden;
	}
	return tokens(cfg, samples) * e *
	       ((attention + (1 + gates) * inner) / (double)cfg->parallel.tp +
		(2 + 2 * inputs) * h / sequence_ranks(&cfg->parallel));
}

double sc_weight_inputs_frac(const struct sc_request *request, double layers, double dense_layers)
{
	double samples = (double)request->config.training.micro_batch;
	double kept = layers * sc_layer_kept_bytes(request, samples, false) +
		      dense_layers * sc_layer_kept_bytes(request, samples, true) +
		      sent_bytes(request, samples);
	double inputs = layers * weight_inputs_bytes(request, samples, false) +
			dense_layers * weight_inputs_bytes(request, samples, true);

	return kept > 0 ? inputs / kept : 0;
}

double sc_layer_kept_bytes(const struct sc_request *request, double samples, bool is_dense)
{
	int mode = request->config.training.recompute;
	double frac = mode == SC_RECOMPUTE_FULL ? sc_recompute_frac(request) : 0;
	double whole = layer_bytes(request, samples, is_dense);

	if (mode == SC_RECOMPUTE_SELECTIVE && request->software.selective == SC_SELECTIVE_OPS) {
		/* torchtitan's policy (torchtitan/models, activation checkpointing "op"): attention's output and every
		 * second matrix product, in the order they run: queries, values, the gate, and down where gated. */
		const struct sc_config *cfg = &request->config;
		const struct sc_model *m = &cfg->model;
		double inner = sc_model_is_moe(m) && !is_dense
				       ? (double)m->top_k * (double)m->expert_ffn_hidden
				       : (double)m->ffn_hidden;
		double split = query_width(m) + key_width(m) + attention_out_width(m) + inner;
		double down = sc_family_traits(m->family)->gated
				      ? layer_input_bytes(request, samples)
				      : 0;

		return layer_input_bytes(request, samples) + down +
		       tokens(cfg, samples) * split * element_bytes(request) /
			       (double)cfg->parallel.tp;
	}
	if (!sc_recomputes(request, SC_RECOMPUTE_CORE_ATTN))
		whole += score_bytes(request, samples);
	return frac * layer_input_bytes(request, samples) / sc_checkpoint_ranks(request) +
	       (1 - frac) * whole;
}

/* What one layer holds for a moment beside that: what is recomputed, and gradients of the widest
 * activations. */
double sc_layer_working_bytes(const struct sc_request *request, double samples, bool is_dense)
{
	const struct sc_config *cfg = &request->config;
	const struct sc_model *m = &cfg->model;
	double inner = sc_model_is_moe(m) && !is_dense
			       ? (double)m->top_k * (double)m->expert_ffn_hidden
			       : (double)m->ffn_hidden;
	double gated = sc_family_traits(m->family)->gated ? 3 : 2;
	double bytes = tokens(cfg, samples) * gated * inner * element_bytes(request) /
		       (double)cfg->parallel.tp;

	if (cfg->training.recompute == SC_RECOMPUTE_NONE)
		return bytes;
	if (cfg->training.recompute >= SC_FLAG || sc_recomputes(request, SC_RECOMPUTE_CORE_ATTN))
		return bytes + (sc_recomputes(request, SC_RECOMPUTE_CORE_ATTN)
					? score_bytes(request, samples)
					: 0);
	return bytes + layer_bytes(request, samples, is_dense) + score_bytes(request, samples);
}

/* Sequence parallelism: the whole sequence gathered before a matrix product, and its part of the sum
 * after the next. */
static double gathered_sequence_bytes(const struct sc_request *request, double samples)
{
	const struct sc_config *cfg = &request->config;

	if (!cfg->parallel.sequence_parallel || cfg->parallel.tp < 2)
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

/* Logits and what the loss makes of them. */
double sc_loss_bytes(const struct sc_request *request, double samples)
{
	const struct sc_config *cfg = &request->config;
	double positions = tokens(cfg, samples);

	if (sc_family_traits(cfg->model.family)->masked_lm && request->software.mlm_gather)
		positions *= MASKED_FRACTION;
	return positions * (double)(1 + cfg->model.mtp_layers) * (double)cfg->model.vocab /
	       (double)(cfg->parallel.tp * sc_vocab_shares(&cfg->parallel)) *
	       (element_bytes(request) + loss_copies(&request->software) * sc_dtype_bytes(SC_FP32));
}

static double state_bytes(const struct sc_request *request)
{
	double moments = sc_optimizer_traits_of(request->config.training.optimizer)->moments;

	if (request->config.training.optimizer == SC_OPT_NONE)
		return 0;
	return moments * sc_moment_bytes(request) + sc_master_bytes(request);
}

/* Bytes of gradients for each trained parameter. */
struct gradient {
	double held; /* from backward to the optimizer */
	double step; /* what the optimizer copies them to; as its states, on the ranks that update */
};

static struct gradient gradient_bytes(const struct sc_request *request)
{
	const struct sc_software *sw = &request->software;
	double e = element_bytes(request);
	bool by_shards = sc_sharding_rule(request).weights;
	double held = by_shards ? e : sc_grad_bytes(request);
	/* apex, DeepSpeed; an optimizer of shards casts its own as it goes */
	double master = by_shards || sw->distributed_optimizer ? 0 : sc_master_bytes(request);
	double step = held < master ? master : 0;

	/* autograd's own gradients, where adding them up in fp32 does not free them at once */
	if (held > e && !sw->fused_grad_accumulation)
		held += e;
	return (struct gradient){.held = held, .step = step};
}

/* Sharded gradients are summed up whole until the last micro-batch's are reduced. */
static bool sums_whole_gradients(const struct sc_request *request)
{
	struct sc_sharding_rule rule = sc_sharding_rule(request);

	return rule.gradients && !rule.each && request->n_micro_batches > 1;
}

/* ---- parameters spread over `ranks` ---- */

struct held {
	const struct sc_request *request;
	double weights, gradients, optimizer; /* bytes */
	double step;                          /* gradients as the optimizer reads them */
	double off[SC_TIER_NVME + 1];         /* bytes on the host, by enum sc_offload_tier */
};

/* Moves a share of bytes to a tier. */
static void move_off(struct held *held, double *bytes, int tier, double share)
{
	if (tier != SC_TIER_CPU && tier != SC_TIER_NVME)
		return;
	held->off[tier] += share * *bytes;
	*bytes *= 1 - share;
}

static void add_held(struct held *held, double params, double trainable, double ranks)
{
	const struct sc_request *request = held->request;
	struct sc_sharding_rule rule = sc_sharding_rule(request);
	struct gradient grad = gradient_bytes(request);

	const struct sc_offload *off = &request->config.training.offload;
	double updated = trainable / (rule.states ? ranks : 1);
	/* Weights that are not trained need no more digits than the matrix products read. */
	double weights =
		(trainable * element_bytes(request) +
		 (params - trainable) *
			 sc_dtype_bytes(sc_precision_dtype(request->config.training.precision))) *
		(double)sc_schedule_versions(&request->config.parallel) /
		(rule.weights ? ranks : 1);
	double gradients = trainable * grad.held / (rule.gradients ? ranks : 1);
	double states = updated * state_bytes(request), step = updated * grad.step;
	double share = sc_offload_states_frac(off);

	if (sums_whole_gradients(request) && ranks > 1 && off->gradients <= SC_TIER_NONE)
		gradients += trainable * sc_grad_bytes(request);
	move_off(held, &weights, off->weights, 1);
	move_off(held, &gradients, off->gradients, 1);
	move_off(held, &states, off->optimizer, share);
	/* the host steps on fp32 gradients; where states come from SSDs, on pieces of them */
	if (off->optimizer == SC_TIER_CPU &&
	    (off->gradients <= SC_TIER_NONE || grad.held < sc_dtype_bytes(SC_FP32)))
		held->off[SC_TIER_CPU] += share * updated * sc_dtype_bytes(SC_FP32);
	held->weights += weights;
	held->gradients += gradients;
	held->step += (1 - share) * step;
	held->optimizer += states;
}

static void add_matrices(struct held *held, double bytes, double ranks)
{
	held->optimizer += bytes / (sc_sharding_rule(held->request).states ? ranks : 1);
}

/* ---- what lies beside them for a while ---- */

/* Word embedding, or output layer. */
static double vocabulary_params(const struct sc_request *request,
				const struct sc_memory_shape *shape)
{
	const struct sc_model *m = &request->config.model;
	double one = (double)m->vocab * (double)m->hidden / (double)request->config.parallel.tp;

	return one * ((shape->embed ? 1 : 0) + (shape->head ? 1 : 0));
}

/* Whole weights and gradients of the layers that run, where sharding keeps parts of them. */
static double gathered_bytes(const struct sc_request *request, const struct sc_memory_shape *shape)
{
	struct sc_sharding_rule rule = sc_sharding_rule(request);
	const struct sc_offload *off = &request->config.training.offload;
	double e = element_bytes(request), layers = request->software.gather_ahead ? 2 : 1;
	double layer = shape->layer_params / (double)(off->tiles > 1 ? off->tiles : 1);
	double weights = 0, gradients = 0;

	if (rule.weights)
		weights = shape->params + shape->expert_params;
	if (off->weights > SC_TIER_NONE) {
		layers = 1 + (double)off->prefetch_layers;
		weights = shape->params + shape->expert_params;
	}
	if (rule.each || off->weights > SC_TIER_NONE)
		weights = fmin(weights, layers * layer + vocabulary_params(request, shape));
	if (off->gradients > SC_TIER_NONE || (rule.gradients && !sums_whole_gradients(request)))
		gradients = fmin(shape->trainable + shape->trainable_expert,
				 layer * (sc_grad_bytes(request) / e + 1));
	return (weights + gradients) * e;
}

/* Of layers that wait for backward. Those that leave the GPU do so but for the ones that come and go. */
static double kept_bytes(const struct sc_request *request, const struct sc_memory_shape *shape,
			 double *off_bytes)
{
	const struct sc_offload *off = &request->config.training.offload;
	double layer = sc_layer_kept_bytes(request, shape->samples, false);
	double dense = sc_layer_kept_bytes(request, shape->samples, true);
	double layers = shape->layers_in_flight + shape->dense_layers_in_flight;
	double bytes = shape->layers_in_flight * layer + shape->dense_layers_in_flight * dense;
	double flying = shape->micro_batches_in_flight;
	double share = flying > 0 ? sc_offload_layers_frac(off, layers / flying) : 0;
	double moving = (1 + (double)off->prefetch_layers) * fmax(layer, dense);

	*off_bytes = share * bytes;
	return fmin(bytes, (1 - share) * bytes + (share > 0 ? moving : 0));
}

static void sum_up(const struct held *held, double activations, double buffers,
		   struct sc_memory *out)
{
	const struct sc_software *sw = &held->request->software;
	const double gib = SC_BYTES_PER_GIB;
	double tensors, room;

	*out = (struct sc_memory){
		.weights_gib = held->weights / gib,
		/* the optimizer's copy takes the place that activations leave */
		.gradients_gib = (held->gradients + fmax(0, held->step - activations)) / gib,
		.optimizer_gib = held->optimizer / gib,
		.activations_gib = activations / gib,
		.buffers_gib = buffers / gib,
		.capacity_gib = held->request->device.hbm_gib,
	};
	tensors = out->weights_gib + out->gradients_gib + out->optimizer_gib +
		  out->activations_gib + out->buffers_gib;
	/* The allocator's cached blocks take what room there is: it gives them back before it fails. */
	room = out->capacity_gib - tensors - sw->reserve_gib;
	out->reserve_gib = sw->reserve_gib + fmin(sw->reserve_frac * tensors, fmax(0, room));
	out->total_gib = tensors + out->reserve_gib;
}

double sc_memory_fullness(const struct sc_memory *m)
{
	double full = m->total_gib / m->capacity_gib;

	if (m->host_gib > 0)
		full = fmax(full, m->host_gib / m->host_capacity_gib);
	if (m->ssd_gib > 0 && m->ssd_capacity_gib >= 0)
		full = fmax(full, m->ssd_gib / m->ssd_capacity_gib);
	return full;
}

void sc_memory_estimate(const struct sc_request *request, const struct sc_memory_shape *shape,
			struct sc_memory *out)
{
	const struct sc_cluster *cl = &request->config.cluster;
	double off_bytes;
	bool is_dense = shape->layers_in_flight <= 0;
	double bytes = kept_bytes(request, shape, &off_bytes);
	double sent = sent_bytes(request, shape->samples) * shape->micro_batches_in_flight;
	double loss = shape->head ? sc_loss_bytes(request, shape->samples) : 0;
	/* the logits are gone when the first layer runs backward */
	double widest = fmax(loss, sc_layer_working_bytes(request, shape->samples, is_dense));

	double activations =
		bytes + sent + widest + gathered_sequence_bytes(request, shape->samples);
	struct held held = {.request = request};

	add_held(&held, shape->params, shape->trainable, shape->shard_ranks);
	add_held(&held, shape->expert_params, shape->trainable_expert, shape->expert_shard_ranks);
	add_matrices(&held, shape->matrix_bytes, shape->shard_ranks);
	add_matrices(&held, shape->expert_matrix_bytes, shape->expert_shard_ranks);
	if (off_bytes > 0)
		held.off[request->config.training.offload.activations] += off_bytes;
	sum_up(&held, activations, gathered_bytes(request, shape), out);
	out->host_gib = held.off[SC_TIER_CPU] / SC_BYTES_PER_GIB;
	out->ssd_gib = held.off[SC_TIER_NVME] / SC_BYTES_PER_GIB;
	out->host_capacity_gib = cl->host_memory_gib;
	out->ssd_capacity_gib = cl->ssd_gib;
}

void sc_memory_replica(const struct sc_request *request, double params, double matrix_bytes,
		       double kept_bytes, struct sc_memory *out)
{
	struct held held = {.request = request};

	add_held(&held, params, params, 1);
	add_matrices(&held, matrix_bytes, 1);
	sum_up(&held, kept_bytes, 0, out);
}
