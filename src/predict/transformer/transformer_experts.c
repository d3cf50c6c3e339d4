/* The feed-forward part of a mixture of experts on expert-parallel ranks: router, dispatch, grouped
 * GEMMs, combine (Megatron Core's token dispatchers). Every token goes to top_k experts; the
 * busiest rank sets the pace (training.expert_imbalance). */
#include <math.h>

#include "models/offload.h"
#include "predict/schedule/schedule.h"
#include "predict/transformer/transformer_priv.h"

/* Bytes per router logit of a rank: softmax in fp32, top-k, maps, auxiliary loss; in one kernel. */
#define ROUTER_BYTES 40.0
enum { ROUTER_KERNELS = 12 };
enum { ALL_KERNELS = UINT8_MAX }; /* a layer's */

struct experts {
	double n_local; /* experts on this rank */
	double tokens;  /* sent by this rank */
	double copies;  /* of a token, for its experts or their ranks */
	double nodes;   /* nodes that a token's experts are on */
	double sent;    /* copies of an exchange, as the busiest rank sees it */
	double rows;    /* work of the busiest rank */
	double ffn;
};

/* Returns how many of `parts` with as many experts each have one of a token's top_k, which are
 * neighbours: they begin at any multiple of what top_k and a part's experts have in common. Those
 * that go on with the first expert behind the last reach no part twice. */
static double parts_in_turn(const struct sc_model *m, double parts)
{
	const double each = (double)m->experts / parts, k = (double)m->top_k;
	double common = k, rest = each;

	while (rest >= 1) {
		const double next = fmod(common, rest);

		common = rest;
		rest = next;
	}
	return fmin(parts, (k + each - common) / each);
}

/* Returns the same; a token's experts are drawn without repeats, all alike, from the groups that it
 * may go to. */
static double parts_of_token(const struct dims *x, double parts)
{
	const struct sc_model *m = x->model;
	double share = (double)m->top_groups / (double)m->expert_groups;
	double experts = (double)m->experts * share, none = 1;

	if (x->req->config.training.routing == SC_ROUTING_IN_TURN)
		return parts_in_turn(m, parts);
	parts = fmax(parts * share, 1);
	for (double i = 0; i < (double)m->top_k; i++)
		none *= fmax(0, 1 - experts / parts / (experts - i));
	return parts * (1 - none);
}

static struct experts experts_of(const struct dims *x)
{
	const struct sc_parallel *par = &x->req->config.parallel;
	const struct sc_model *m = x->model;
	double top_k = (double)m->top_k;
	double imbalance = x->req->config.training.expert_imbalance;
	double share = x->tokens * x->etp / x->tp; /* part of the tensor-parallel ranks' tokens */
	struct experts ex = {
		.n_local = (double)m->experts / (double)par->ep,
		.tokens = x->sp ? x->tokens_seq : share,
		.copies = top_k,
		.rows = share * top_k * imbalance,
		.ffn = (double)m->expert_ffn_hidden / x->etp,
	};

	if (x->req->config.training.moe_dispatcher >= SC_DISPATCH_DEEPEP) {
		ex.copies = parts_of_token(x, (double)par->ep);
		if (x->env)
			ex.nodes = parts_of_token(x, x->env->span[SC_COMM_EP].n_nodes);
	}
	ex.sent = ex.tokens * ex.copies * imbalance;
	return ex;
}

double exchanged_width(const struct dims *x)
{
	const struct experts ex = experts_of(x);
	bool sums = x->req->config.training.moe_dispatcher >= SC_DISPATCH_DEEPEP;

	if (x->req->config.parallel.ep < 2)
		return 0;
	return (ex.copies * x->req->config.training.expert_imbalance + (sums ? 1 : ex.copies)) *
	       x->expert_h;
}

/* Says whether both products, with bias, clamp, activation and its cast between them, run in the
 * epilogues of two kernels (Transformer Engine's fused grouped MLP: mxfp8 on Blackwell). Graphs of
 * whole iterations ask for it: it takes the experts' numbers of tokens from the GPU (Megatron Core,
 * paged_stash.py;
 * --use-transformer-engine-op-fuser). */
static bool is_fused_mlp(const struct dims *x)
{
	return x->req->config.training.precision == SC_P_MXFP8 && x->quantized &&
	       x->traits->gated && (int)x->env->device->cuda_capability >= BLACKWELL &&
	       sc_block_is_replayed(x->block, x->env);
}

/* Adds a product an expert; `rows` is 0 if its input is cast (weight gradient, epilogue). */
static void grouped_gemm(const struct dims *x, enum sc_op_name name,
			 const struct sc_gemm_shape *shape, double rows)
{
	struct sc_op op = {SC_OP_GEMM, x->dtype, {.gemm = *shape}};

	if (rows > 0)
		quantize(x, rows * shape->k);
	add_host(x, SC_NAME_EXPERTS_HOST, shape->batch * x->sw->host_expert_us);
	sc_block_add_op(x->block, x->env, (uint16_t)name, &op);
}

/* With `behind` its input is what the other product's kernel wrote, if they are fused. */
static void grouped_linear(const struct dims *x, const struct experts *ex, const struct part *l,
			   bool behind)
{
	struct sc_gemm_shape shape = {
		.batch = ex->n_local, .m = ex->rows / ex->n_local, .n = l->n, .k = l->k};

	grouped_gemm(x, l->name, &shape, behind && is_fused_mlp(x) ? 0 : ex->rows);
}

/* Adds `n_exchanges` at once, beside `n_hidden` kernels. */
static void exchange(const struct dims *x, enum sc_op_name name, const struct experts *ex,
		     double n_exchanges, int n_hidden)
{
	bool gathers = x->req->config.training.moe_dispatcher == SC_DISPATCH_ALL_GATHER;
	double imbalance = x->req->config.training.expert_imbalance, bytes = x->expert_h * x->e;
	struct sc_block_comm comm = {
		.name = (uint16_t)name,
		.axis = SC_COMM_EP,
		.shape = {SC_ALL_TO_ALL, n_exchanges * ex->sent * bytes, x->storage},
		.n_hidden = n_hidden,
		.node_bytes = n_exchanges * ex->tokens * ex->nodes * imbalance * bytes,
	};

	if (gathers) {
		comm.shape.kind = name == SC_NAME_COMBINE ? SC_REDUCE_SCATTER : SC_ALL_GATHER;
		comm.shape.bytes =
			n_exchanges * ex->tokens * bytes * (double)x->req->config.parallel.ep;
	}
	sc_block_add_comm(x->block, x->env, &comm);
}

bool sc_transformer_may_pair(const struct sc_request *req)
{
	const struct sc_sharding_rule rule = sc_sharding_rule(req);

	return sc_model_is_moe(&req->config.model) && req->config.parallel.ep > 1 &&
	       !rule.weights && !(rule.gradients && rule.each) && !req->software.host_waits &&
	       !sc_offload_moves(&req->config.training.offload);
}

/* Says whether exchanges run beside others here; where passes are pairs, the pairs do it. */
static bool exchanges_run_beside(const struct dims *x)
{
	return x->req->config.training.moe_overlap &&
	       !(sc_schedule_traits(x->req->config.parallel.schedule).pairs &&
		 sc_transformer_may_pair(x->req));
}

void exchange_beside(const struct dims *x)
{
	struct experts ex = experts_of(x);

	if (exchanges_run_beside(x))
		exchange(x, SC_NAME_EXCHANGE, &ex, 2, ALL_KERNELS);
}

/* Copies tokens, once for each expert, into the order of experts; or back. */
static void reorder(const struct dims *x, enum sc_op_name name, double tokens, double copies)
{
	int n_kernels = name == SC_NAME_PERMUTE ? 2 : 3;

	add_rowwise(x, name, tokens * n_kernels * copies * x->expert_h * x->e, n_kernels);
}

static void sort_rows(const struct dims *x, enum sc_op_name name, const struct experts *ex)
{
	if (x->req->config.parallel.ep > 1 && ex->n_local > 1)
		add_rowwise(x, name, ex->rows * x->expert_h * (2 * x->e), 2);
}

/* Sends tokens to their experts, or their gradients: over expert ranks, then over the ranks that
 * split an expert, which have all of them already where they do not split the sequence. Kernels
 * that send a token once leave its copies to the receiver. */
static void dispatch(const struct dims *x, const struct experts *ex)
{
	bool copies_first = x->req->config.training.moe_dispatcher == SC_DISPATCH_ALL_TO_ALL;

	if (copies_first)
		reorder(x, SC_NAME_PERMUTE, ex->sent / ex->copies, ex->copies);
	if (!exchanges_run_beside(x))
		exchange(x, SC_NAME_DISPATCH, ex, 1, 0);
	if (x->sp && x->etp > 1)
		add_tp(x, SC_ALL_GATHER, ex->rows * x->expert_h, 0);
	if (copies_first)
		sort_rows(x, SC_NAME_PERMUTE, ex);
	else
		add_rowwise(x, SC_NAME_PERMUTE, (ex->sent + ex->rows) * x->expert_h * x->e, 1);
}

/* The combine of kernels that send a token once leaves nothing behind it for backward (Automodel,
 * fused_a2a.py, FusedCombine); else the sum by the router's order saves that order (torchtitan,
 * moe.py). */
static void combine(const struct dims *x, const struct experts *ex)
{
	bool copies_first = x->req->config.training.moe_dispatcher == SC_DISPATCH_ALL_TO_ALL;
	bool unneeded =
		x->stops_early && x->req->config.training.moe_dispatcher >= SC_DISPATCH_DEEPEP;

	if (copies_first)
		sort_rows(x, SC_NAME_UNPERMUTE, ex);
	else
		add_rowwise(x, SC_NAME_UNPERMUTE, (ex->sent + ex->rows) * x->expert_h * x->e, 1);
	if (x->etp > 1)
		add_tp(x, x->sp ? SC_REDUCE_SCATTER : SC_ALL_REDUCE, ex->rows * x->expert_h, 0);
	if (!exchanges_run_beside(x) && !unneeded)
		exchange(x, SC_NAME_COMBINE, ex, 1, 0);
	if (copies_first) /* weighted by the router and summed */
		reorder(x, SC_NAME_UNPERMUTE, ex->sent / ex->copies, ex->copies);
	if (!x->sp && x->etp < x->tp)
		add_tp(x, SC_ALL_GATHER, x->tokens * x->expert_h, 0);
}

/* Says whether experts' inputs are cast to fp32 to be weighed, and back: not by those who get a
 * token once (torchtitan, deepep.py: "avoid float32 conversion"). */
static bool weighs_in_fp32(const struct dims *x)
{
	return x->req->config.training.moe_dispatcher < SC_DISPATCH_DEEPEP &&
	       x->e < sc_dtype_bytes(SC_FP32);
}

double weighed_width(const struct dims *x)
{
	double fp32 = weighs_in_fp32(x) ? sc_dtype_bytes(SC_FP32) / x->e : 1;

	return x->sw->weighs_inputs ? fp32 * x->expert_h : 0;
}

/* Multiplies experts' inputs by the router's probabilities, by eager kernels; backward has the
 * gradients of both factors, that of a probability is summed (torchtitan, moe.py and deepep.py,
 * score_before_experts). */
static void weigh_inputs(const struct dims *x, const struct experts *ex, bool backward)
{
	const bool casts = weighs_in_fp32(x);
	double each = casts ? sc_dtype_bytes(SC_FP32) : x->e;
	double bytes = (backward ? 6 : 2) * each + (casts ? 2 * (x->e + each) : 0);

	if (x->sw->weighs_inputs)
		add_rowwise(x, backward ? SC_NAME_UNPERMUTE : SC_NAME_PERMUTE,
			    ex->rows * x->expert_h * bytes, (backward ? 3 : 1) + (casts ? 2 : 0));
}

static void route(const struct dims *x)
{
	add_rowwise(x, SC_NAME_TOP_K, x->tokens_seq * (double)x->model->experts * ROUTER_BYTES,
		    ROUTER_KERNELS);
}

/* Adds the last bias with the router's weights: for each expert a product in fp32 and a sum, all
 * joined and cast (Megatron Core, experts.py, TEGroupedMLP._apply_bias). Backward, the gradients of
 * both factors are products that are summed up. The first bias rides on its product. */
static void weigh_bias(const struct dims *x, const struct experts *ex, bool backward)
{
	double f = sc_dtype_bytes(SC_FP32), n = ex->rows * x->expert_h;
	double passes = backward ? 8 : 6;
	int kernels = (int)ex->n_local * (backward ? 5 : 2) + 2;

	if (x->biases && is_fused_mlp(x)) {
		if (backward) /* the gradients of both products' outputs are summed */
			add_rowwise(x, SC_NAME_EXPERT_BIAS,
				    n * x->e + ex->rows * x->gates * ex->ffn * x->e, 2);
	} else if (x->biases)
		add_rowwise(x, SC_NAME_EXPERT_BIAS, n * (passes * f + 2 * x->e), kernels);
}

/* Lets the GPU wait for the host, which reads how many tokens its experts get before it can launch
 * their products: it has nothing ahead then, and the GPU waits for what its launches from step
 * `first` on take longer than their kernels. With a fixed capacity it knows the numbers. */
static void wait_for_counts(const struct dims *x, size_t first)
{
	double late_us = 0, most_us = 0;

	if (x->sw->host_sync_us <= 0 || x->req->config.training.routing == SC_ROUTING_DROPPED ||
	    sc_block_is_replayed(x->block, x->env))
		return;
	for (size_t i = first; i < x->block->steps.n; i++) {
		const struct sc_step *step = &x->block->steps.at[i];

		late_us += step->host_us;
		most_us = fmax(most_us, late_us);
		late_us -= sc_cost_alone_us(&step->cost);
	}
	sc_block_add_wait(x->block, SC_NAME_EXPERTS_SYNC,
			  x->sw->host_sync_us / x->env->host_speed + most_us);
}

/* Pads each expert's rows to a multiple of what a block of scales covers, and back (Megatron Core,
 * experts.py: quantization_padding and quantization_unpadding); a fixed capacity is one, and
 * HybridEP permutes to one (dispatch_with_permute, pad_multiple). */
static void pad_rows(const struct dims *x, const struct experts *ex)
{
	if (x->sw->pads_experts && x->quantized &&
	    x->req->config.training.moe_dispatcher != SC_DISPATCH_HYBRIDEP &&
	    x->req->config.training.routing != SC_ROUTING_DROPPED)
		add_rowwise(x, SC_NAME_EXPERT_PADDING, ex->rows * x->expert_h * (2 * x->e), 1);
}

/* Clamps each half and joins both again; backward masks each, and joins (Megatron Core,
 * fused_bias_geglu.py, weighted_bias_quick_geglu_impl). */
static void clamp(const struct dims *x, const struct experts *ex, bool backward)
{
	double passes = backward ? 10 : 8;

	if (x->biases && !is_fused_mlp(x))
		add_rowwise(x, SC_NAME_EXPERT_CLAMP, ex->rows * ex->ffn * (passes * x->e), 3);
}

/* Copies, for backward and back, what came into buffers that hold the most rows that may come
 * (Megatron Core, paged_stash.py): both products' inputs as multiplied, and the activation's. */
static void stash(const struct dims *x, const struct experts *ex)
{
	double narrow = sc_dtype_bytes(x->dtype);
	double row = (x->expert_h + ex->ffn) * narrow + x->gates * ex->ffn * x->e;

	if (sc_block_is_replayed(x->block, x->env))
		add_rowwise(x, SC_NAME_EXPERT_STASH, 2 * ex->rows * row, 3);
}

void router_forward(const struct dims *x, const struct part *p)
{
	add_gemm(x, p->name, (struct mnk){x->tokens_seq, p->n, p->k});
	route(x);
}

/* Tells HybridEP's ranks where all tokens go: a byte a token and expert of each is gathered and
 * read through (DeepEP, csrc/hybrid_ep/executor, allgather_routing_map and metadata_preprocessing).
 * Backward goes the same ways. */
static void gather_routes(const struct dims *x, const struct experts *ex)
{
	double bytes = ex->tokens * (double)x->model->experts * (double)x->req->config.parallel.ep;
	struct sc_block_comm comm = {.name = SC_NAME_ROUTES,
				     .axis = SC_COMM_EP,
				     .shape = {SC_ALL_GATHER, bytes, SC_FP8},
				     .n_hidden = exchanges_run_beside(x) ? ALL_KERNELS : 0};

	if (x->req->config.training.moe_dispatcher != SC_DISPATCH_HYBRIDEP)
		return;
	sc_block_add_comm(x->block, x->env, &comm);
	add_rowwise(x, SC_NAME_TOP_K, bytes, 1);
}

void experts_up_forward(const struct dims *x, const struct part *p)
{
	struct experts ex = experts_of(x);

	gather_routes(x, &ex);
	dispatch(x, &ex);
	weigh_inputs(x, &ex, false);
	*x->counted = x->block->steps.n;
	pad_rows(x, &ex);
	grouped_linear(x, &ex, p, false);
}

void experts_act_again(const struct dims *x, const struct part *p)
{
	struct experts ex = experts_of(x);

	clamp(x, &ex, false);
	add_activation(x, ex.rows * p->n);
}

void experts_act_forward(const struct dims *x, const struct part *p)
{
	if (is_fused_mlp(x))
		add_rowwise(x, SC_NAME_FP8_CAST,
			    experts_of(x).rows * p->n * quantized_element_bytes(x), 1);
	else
		experts_act_again(x, p);
}

void experts_down_forward(const struct dims *x, const struct part *p)
{
	struct experts ex = experts_of(x);

	grouped_linear(x, &ex, p, true);
	weigh_bias(x, &ex, false);
	pad_rows(x, &ex);
	stash(x, &ex);
	combine(x, &ex);
	wait_for_counts(x, *x->counted);
	x->block->scope = SC_GRAPH_MOE | SC_GRAPH_ROUTER;
}

/* Runs a product on a rank's own tokens (Megatron Core, moe_layer.py, fc1_latent_proj and
 * fc2_latent_proj). */
static void latent(const struct dims *x, const struct part *p,
		   void (*run)(const struct dims *x, const struct part *p))
{
	struct dims own = *x;

	own.tokens = x->tokens_seq;
	run(&own, p);
}

void latent_forward(const struct dims *x, const struct part *p)
{
	latent(x, p, add_linear);
}

void latent_weights(const struct dims *x, const struct part *p)
{
	latent(x, p, add_wgrad);
}

void latent_backward(const struct dims *x, const struct part *p)
{
	latent(x, p, add_dgrad);
	latent_weights(x, p);
}

static void grouped_weights(const struct dims *x, const struct experts *ex, const struct part *l)
{
	const struct sc_gemm_shape weights = {.batch = ex->n_local,
					      .m = l->k,
					      .n = l->n,
					      .k = ex->rows / ex->n_local,
					      .sums_rows = true,
					      .block_scaled = sums_scaled_blocks(x),
					      .accumulate = x->sw->fused_grad_accumulation};

	if (!x->lora && !x->inputs_only)
		grouped_gemm(x, (enum sc_op_name)(l->name + 2), &weights, 0);
}

static void grouped_grads(const struct dims *x, const struct experts *ex, const struct part *l,
			  bool behind)
{
	const struct part grad = {.name = (enum sc_op_name)(l->name + 1), .n = l->k, .k = l->n};

	grouped_linear(x, ex, &grad, behind);
	grouped_weights(x, ex, l);
}

void router_weights(const struct dims *x, const struct part *p)
{
	if (!x->lora && !x->inputs_only)
		sum_rows(x, SC_NAME_ROUTER_WGRAD, (struct mnk){p->k, p->n, x->tokens_seq});
}

void router_backward(const struct dims *x, const struct part *p)
{
	route(x);
	add_gemm(x, SC_NAME_ROUTER_DGRAD, (struct mnk){x->tokens_seq, p->k, p->n});
	router_weights(x, p);
}

void experts_weights(const struct dims *x, const struct part *p)
{
	struct experts ex = experts_of(x);

	grouped_weights(x, &ex, p);
}

/* The combine's gradient comes first. */
void experts_down_backward(const struct dims *x, const struct part *p)
{
	struct experts ex = experts_of(x);

	dispatch(x, &ex);
	stash(x, &ex);
	pad_rows(x, &ex);
	weigh_bias(x, &ex, true);
	grouped_grads(x, &ex, p, false);
}

void experts_act_backward(const struct dims *x, const struct part *p)
{
	struct experts ex = experts_of(x);

	if (is_fused_mlp(x))
		add_rowwise(x, SC_NAME_FP8_CAST,
			    ex.rows * p->n * (x->e + 2 * quantized_element_bytes(x)), 1);
	else
		add_activation_grad(x, ex.rows * p->n);
	clamp(x, &ex, true);
}

/* The dispatch's gradient comes last. */
void experts_up_backward(const struct dims *x, const struct part *p)
{
	struct experts ex = experts_of(x);

	grouped_grads(x, &ex, p, true);
	pad_rows(x, &ex);
	weigh_inputs(x, &ex, true);
	combine(x, &ex);
}
