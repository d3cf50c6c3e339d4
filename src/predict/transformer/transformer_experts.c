/* The feed-forward part of a mixture of experts on expert-parallel ranks: router, permutation, dispatch,
 * grouped GEMMs, combine (Megatron Core's all-to-all dispatcher). Every token goes to top_k experts
 * and those to the busiest rank set the pace (training.expert_imbalance). */
#include "predict/transformer/transformer_priv.h"

/* Bytes a rank reads and writes per router logit: softmax in fp32, top-k, maps, auxiliary loss. */
#define ROUTER_BYTES 40.0
enum { ROUTER_KERNELS = 12 };

struct experts {
	double n_local; /* experts on this rank */
	double sent;    /* tokens x top_k of an exchange, as the busiest rank sees it */
	double rows;    /* that the busiest rank works on */
	double ffn;
	struct linear up, down;
};

double shared_width(const struct dims *x)
{
	return (double)(x->model->expert_ffn_hidden * x->model->shared_experts) / x->tp;
}

static struct experts experts_of(const struct dims *x)
{
	const struct sc_model *m = x->model;
	double top_k = (double)m->top_k;
	double imbalance = x->req->config.training.expert_imbalance;
	double share = x->tokens * x->etp / x->tp; /* of the tensor-parallel ranks' tokens */
	double ffn = (double)m->expert_ffn_hidden / x->etp;

	return (struct experts){
		.n_local = (double)m->experts / (double)x->req->config.parallel.ep,
		.sent = (x->sp ? x->tokens_seq : share) * top_k * imbalance,
		.rows = share * top_k * imbalance,
		.ffn = ffn,
		.up = {.name = SC_NAME_EXPERT_UP, .n = x->gates * ffn, .k = x->h},
		.down = {.name = SC_NAME_EXPERT_DOWN, .n = x->h, .k = ffn},
	};
}

/* One product an expert; `rows` is 0 for a weight gradient, which works on what is cast already. */
static void grouped_gemm(const struct dims *x, enum sc_op_name name,
			 const struct sc_gemm_shape *shape, double rows)
{
	struct sc_op op = {SC_OP_GEMM, x->dtype, {.gemm = *shape}};

	if (rows > 0)
		quantize(x, rows * shape->k);
	sc_block_add_op(x->block, x->env, (uint16_t)name, &op);
}

static void grouped_linear(const struct dims *x, const struct experts *ex, const struct linear *l)
{
	struct sc_gemm_shape shape = {
		.batch = ex->n_local, .m = ex->rows / ex->n_local, .n = l->n, .k = l->k};

	grouped_gemm(x, l->name, &shape, ex->rows);
}

static void all_to_all(const struct dims *x, enum sc_op_name name, double n)
{
	struct sc_block_comm comm = {
		(uint16_t)name, SC_COMM_EP, {SC_ALL_TO_ALL, n * x->e, x->storage}, 0};

	sc_block_add_comm(x->block, x->env, &comm);
}

/* Tokens to their experts, or their gradients: over expert ranks, then over tensor ranks, which have
 * all of them already where they do not split the sequence. */
static void dispatch(const struct dims *x, const struct experts *ex)
{
	add_rowwise(x, SC_NAME_PERMUTE, ex->sent * x->h * (2 * x->e), 2);
	all_to_all(x, SC_NAME_DISPATCH, ex->sent * x->h);
	if (x->sp && x->etp > 1)
		add_tp(x, SC_ALL_GATHER, ex->rows * x->h, 0);
	if (x->req->config.parallel.ep > 1 && ex->n_local > 1) /* sorted by local expert */
		add_rowwise(x, SC_NAME_PERMUTE, ex->rows * x->h * (2 * x->e), 2);
}

static void combine(const struct dims *x, const struct experts *ex)
{
	if (x->req->config.parallel.ep > 1 && ex->n_local > 1)
		add_rowwise(x, SC_NAME_UNPERMUTE, ex->rows * x->h * (2 * x->e), 2);
	if (x->etp > 1)
		add_tp(x, x->sp ? SC_REDUCE_SCATTER : SC_ALL_REDUCE, ex->rows * x->h, 0);
	all_to_all(x, SC_NAME_COMBINE, ex->sent * x->h);
	/* weighted by the router and summed */
	add_rowwise(x, SC_NAME_UNPERMUTE, ex->sent * x->h * (3 * x->e), 3);
	if (!x->sp && x->etp < x->tp)
		add_tp(x, SC_ALL_GATHER, x->tokens * x->h, 0);
}

void experts_forward(const struct dims *x)
{
	struct experts ex = experts_of(x);
	double n_experts = (double)x->model->experts;

	add_gemm(x, SC_NAME_ROUTER, (struct mnk){x->tokens_seq, n_experts, x->h});
	add_rowwise(x, SC_NAME_TOP_K, x->tokens_seq * n_experts * ROUTER_BYTES, ROUTER_KERNELS);
	dispatch(x, &ex);
	grouped_linear(x, &ex, &ex.up);
	add_activation(x, ex.rows * ex.ffn);
	grouped_linear(x, &ex, &ex.down);
	combine(x, &ex);
	if (x->model->shared_experts > 0)
		mlp_forward(x, shared_width(x));
}

static void grouped_weights(const struct dims *x, const struct experts *ex, const struct linear *l)
{
	const struct sc_gemm_shape weights = {.batch = ex->n_local,
					      .m = l->k,
					      .n = l->n,
					      .k = ex->rows / ex->n_local,
					      .sums_rows = true,
					      .accumulate = x->sw->fused_grad_accumulation};

	if (!x->lora && !x->inputs_only)
		grouped_gemm(x, (enum sc_op_name)(l->name + 2), &weights, 0);
}

static void grouped_grads(const struct dims *x, const struct experts *ex, const struct linear *l)
{
	const struct linear grad = {.name = (enum sc_op_name)(l->name + 1), .n = l->k, .k = l->n};

	grouped_linear(x, ex, &grad);
	grouped_weights(x, ex, l);
}

static void router_weights(const struct dims *x)
{
	if (!x->lora && !x->inputs_only)
		sum_rows(x, SC_NAME_ROUTER_WGRAD,
			 (struct mnk){x->h, (double)x->model->experts, x->tokens_seq});
}

void experts_weights(const struct dims *x)
{
	struct experts ex = experts_of(x);

	if (x->model->shared_experts > 0)
		mlp_weights(x, shared_width(x));
	grouped_weights(x, &ex, &ex.down);
	grouped_weights(x, &ex, &ex.up);
	router_weights(x);
}

void experts_backward(const struct dims *x)
{
	struct experts ex = experts_of(x);
	double n_experts = (double)x->model->experts;

	if (x->model->shared_experts > 0)
		mlp_backward(x, shared_width(x));
	dispatch(x, &ex); /* the combine's gradient */
	grouped_grads(x, &ex, &ex.down);
	add_activation_grad(x, ex.rows * ex.ffn);
	grouped_grads(x, &ex, &ex.up);
	combine(x, &ex); /* the dispatch's gradient */
	add_rowwise(x, SC_NAME_TOP_K, x->tokens_seq * n_experts * ROUTER_BYTES, ROUTER_KERNELS);
	add_gemm(x, SC_NAME_ROUTER_DGRAD, (struct mnk){x->tokens_seq, x->h, n_experts});
	router_weights(x);
}
