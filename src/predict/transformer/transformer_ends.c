/* The ops of a Transformer's ends: its embedding, and the output layer with the loss, again for
 * each layer of multi-token prediction. Memory-bound ops are given by tensors read and written. */
#include "predict/transformer/transformer_ops.h"
#include "predict/transformer/transformer_priv.h"
#include "predict/transformer/transformer_tower.h"

void embed_forward(const struct dims *x)
{
	double n = x->tokens * x->h;

	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	if (x->traits->learned_positions)
		/* Word rows (masked outside the local vocabulary) and position rows are summed. */
		add_rowwise(x, SC_NAME_EMBED_LOOKUP, n * (7 * x->e), 4);
	else
		add_rowwise(x, SC_NAME_EMBED_LOOKUP, n * ((x->tp > 1 ? 4 : 2) * x->e), 2);
	add_tp(x, x->sp ? SC_REDUCE_SCATTER : SC_ALL_REDUCE, n, 0);
	if (x->traits->masked_lm) { /* segment rows and a norm */
		add_rowwise(x, SC_NAME_EMBED_LOOKUP, n * (4 * x->e), 2);
		add_norm(x, n);
	}
	if (x->dropout)
		add_rowwise(x, SC_NAME_EMBED_DROPOUT, x->tokens_seq * x->h * (2 * x->e + 1), 1);
	if (sc_has_tower(x->req))
		tower_forward(x);
}

void embed_backward(const struct dims *x)
{
	struct sc_params params, tower;

	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	if (x->lora)
		return;
	if (sc_has_tower(x->req))
		tower_backward(x);
	if (x->traits->masked_lm)
		add_norm_grad(x, x->tokens * x->h);
	if (x->sp)
		add_tp(x, SC_ALL_GATHER, x->tokens * x->h, 0);
	/* The dense gradient is zeroed, then rows are added at the tokens' places. */
	add_rowwise(x, SC_NAME_EMBED_GRAD,
		    x->tokens * x->h * ((x->traits->learned_positions ? 6 : 3) * x->e), 3);
	add_rowwise(x, SC_NAME_EMBED_GRAD, x->vocab * x->h * x->e, 1);
	sc_transformer_embed_params(x->req, &params);
	sc_tower_params(x->req, &tower); /* the tower's layers add their own */
	accumulate_gradients(x, params.dense - tower.dense, 0);
}

/* Returns these sizes with the head's rows as tokens, in the storage's precision. */
static struct dims head_dims(const struct dims *x)
{
	struct dims head = *x;

	head.tokens =
		x->traits->masked_lm && x->sw->mlm_gather ? x->tokens * MASKED_FRACTION : x->tokens;
	keep_wide(&head);
	return head;
}

static struct part logits_linear(const struct dims *x)
{
	return (struct part){.name = SC_NAME_LOGITS, .n = x->vocab, .k = x->h};
}

/* Multi-token prediction (DeepSeek-V3, arXiv:2412.19437, section 2.2) joins and projects the
 * embedding of the next token and what came before, each normed; its layer is one of its stage's,
 * and the output layer runs again. */
static struct part mtp_linear(const struct dims *x)
{
	return (struct part){.name = SC_NAME_MTP_PROJ, .n = x->h / x->tp, .k = 2 * x->h};
}

/* A masked language model transforms before its output layer. */
static struct part transform_linear(const struct dims *x)
{
	return (struct part){.name = SC_NAME_MLM_TRANSFORM, .n = x->h, .k = x->h};
}

static void logits_forward(const struct dims *x)
{
	struct dims head = head_dims(x);
	const struct part logits = logits_linear(&head);
	double n_logits = head.tokens * x->vocab, f = sc_dtype_bytes(SC_FP32);

	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	if (x->traits->masked_lm) {
		const struct part transform = transform_linear(&head);

		if (head.sw->mlm_gather)
			add_rowwise(&head, SC_NAME_MASKED_GATHER,
				    head.tokens * head.h * (2 * head.e), 2);
		add_linear(&head, &transform);
		add_activation(&head, head.tokens * head.h);
		add_norm(&head, head.tokens * head.h);
	} else
		add_norm(x, x->tokens_seq * x->h);
	if (x->sp)
		add_tp(x, SC_ALL_GATHER, x->tokens * x->h, 0);
	cast_weights(&head, x->vocab * x->h);
	add_linear(&head, &logits);
	/* Logits go to fp32; row maximum, subtraction, exponentials, sum, division in place (kept).
	 * Fused, one pass finds the statistics and one the gradient, in place. */
	if (x->sw->fused_loss)
		add_rowwise(x, SC_NAME_CROSS_ENTROPY, n_logits * (2 * x->e), 2);
	else
		add_rowwise(x, SC_NAME_CROSS_ENTROPY, n_logits * (x->e + f + 7 * f), 7);
	struct sc_block_comm comm = {
		SC_NAME_LOSS_COMM,
		SC_COMM_TP,
		{SC_ALL_REDUCE, head.tokens * sc_dtype_bytes(SC_FP32), SC_FP32},
		0,
		0,
		0,
		0};

	for (int i = 0; i < 3; i++)
		sc_block_add_comm(x->block, x->env, &comm);
}

void head_forward(const struct dims *x)
{
	logits_forward(x);
	for (int64_t i = 0; i < x->model->mtp_layers; i++) {
		const struct part proj = mtp_linear(x);

		embed_forward(x);
		add_norm(x, 2 * x->tokens_seq * x->h);
		add_linear(x, &proj);
		if (x->tp > 1)
			add_tp(x, SC_ALL_GATHER, x->tokens * x->h, 0);
		logits_forward(x);
	}
}

static void logits_backward(const struct dims *x)
{
	struct dims head = head_dims(x);
	const struct part logits = logits_linear(&head);
	double n_logits = head.tokens * x->vocab, f = sc_dtype_bytes(SC_FP32);

	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	/* Probabilities minus targets, times the loss gradient, return to activations' dtype. */
	if (x->sw->fused_loss)
		add_rowwise(x, SC_NAME_CROSS_ENTROPY_GRAD, n_logits * (2 * x->e), 1);
	else
		add_rowwise(x, SC_NAME_CROSS_ENTROPY_GRAD, n_logits * (2 * f + f + x->e), 3);
	enter_region_grad(&head, &logits, 1);
	if (x->traits->masked_lm) {
		const struct part transform = transform_linear(&head);

		add_norm_grad(&head, head.tokens * head.h);
		add_activation_grad(&head, head.tokens * head.h);
		add_dgrad(&head, &transform);
		add_wgrad(&head, &transform);
		if (head.sw->mlm_gather)
			add_rowwise(&head, SC_NAME_MASKED_GATHER,
				    head.tokens * head.h * (2 * head.e), 2);
	} else
		add_norm_grad(x, x->tokens_seq * x->h);
	accumulate_gradients(x, x->vocab * x->h, 0);
}

void head_backward(const struct dims *x)
{
	for (int64_t i = 0; i < x->model->mtp_layers; i++) {
		logits_backward(x);
		const struct part proj = mtp_linear(x);

		add_dgrad(x, &proj);
		if (x->tp > 1)
			add_tp(x, x->sp ? SC_REDUCE_SCATTER : SC_ALL_REDUCE, 2 * x->tokens * x->h,
			       0);
		add_wgrad(x, &proj);
		add_norm_grad(x, 2 * x->tokens_seq * x->h);
		embed_backward(x);
		accumulate_gradients(x, proj.n * proj.k, 0);
	}
	logits_backward(x);
}

static void logits_weights(const struct dims *x)
{
	struct dims head = head_dims(x);
	const struct part logits = logits_linear(&head);
	const struct part transform = transform_linear(&head);

	region_weights(&head, &logits, 1);
	if (x->traits->masked_lm)
		add_wgrad(&head, &transform);
	accumulate_gradients(x, x->vocab * x->h, 0);
}

void head_weights(const struct dims *x)
{
	const struct part proj = mtp_linear(x);

	logits_weights(x);
	for (int64_t i = 0; i < x->model->mtp_layers; i++) {
		logits_weights(x);
		add_wgrad(x, &proj);
	}
}
