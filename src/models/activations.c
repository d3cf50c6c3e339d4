/* Counts after Korthikanti et al. 2022, §4, in elements a token, so that gated layers, grouped heads,
 * latent attention and experts follow the same rules. Knows nothing of schedules. */
#include "models/activations.h"

#include "core/config/config_schedule.h"

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
	return (double)m->heads * (double)(m->head_dim + m->rope_head_dim);
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

double sc_layer_input_bytes(const struct sc_request *request, double samples)
{
	const struct sc_config *cfg = &request->config;

	return tokens(cfg, samples) * (double)cfg->model.hidden * element_bytes(request) /
	       sequence_ranks(&cfg->parallel);
}

/* torchtitan's policy (torchtitan/models, activation checkpointing "op"): attention's output and every
 * second matrix product, in the order they run: queries, values, the gate, and down where gated. */
static double kept_ops_bytes(const struct sc_request *request, double samples, bool is_dense)
{
	const struct sc_config *cfg = &request->config;
	const struct sc_model *m = &cfg->model;
	double inner = sc_model_is_moe(m) && !is_dense
			       ? (double)m->top_k * (double)m->expert_ffn_hidden
			       : (double)m->ffn_hidden;
	double split = query_width(m) + key_width(m) + attention_out_width(m) + inner;
	double down =
		sc_family_traits(m->family)->gated ? sc_layer_input_bytes(request, samples) : 0;

	return sc_layer_input_bytes(request, samples) + down +
	       tokens(cfg, samples) * split * element_bytes(request) / (double)cfg->parallel.tp;
}

double sc_sent_bytes(const struct sc_request *request, double samples)
{
	return request->config.parallel.pp > 1 ? sc_layer_input_bytes(request, samples) : 0;
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
		      sc_sent_bytes(request, samples);
	double inputs = layers * weight_inputs_bytes(request, samples, false) +
			dense_layers * weight_inputs_bytes(request, samples, true);

	return kept > 0 ? inputs / kept : 0;
}

double sc_layer_kept_bytes(const struct sc_request *request, double samples, bool is_dense)
{
	int mode = request->config.training.recompute;
	double frac = mode == SC_RECOMPUTE_FULL ? sc_recompute_frac(request) : 0;
	double whole = layer_bytes(request, samples, is_dense);

	if (mode == SC_RECOMPUTE_SELECTIVE && request->software.selective == SC_SELECTIVE_OPS)
		return kept_ops_bytes(request, samples, is_dense);
	if (!sc_recomputes(request, SC_RECOMPUTE_CORE_ATTN))
		whole += score_bytes(request, samples);
	return frac * sc_layer_input_bytes(request, samples) + (1 - frac) * whole;
}

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

double sc_gathered_sequence_bytes(const struct sc_request *request, double samples)
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
