/* The first and last parts of a Transformer: embedding; output layer and loss, of a language model or of
 * a masked one (BERT). */
#include "predict/transformer/transformer_priv.h"

void embed_forward(const struct dims *x)
{
	double n = x->tokens * x->h;

	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	if (x->traits->learned_positions)
		/* word rows (masked outside the local vocabulary), position rows, their sum */
		add_rowwise(x, SC_NAME_EMBED_LOOKUP, n * (7 * x->e), 4);
	else
		add_rowwise(x, SC_NAME_EMBED_LOOKUP, n * ((x->tp > 1 ? 4 : 2) * x->e), 2);
	add_tp(x, x->sp ? SC_REDUCE_SCATTER : SC_ALL_REDUCE, n, 0);
	if (x->traits->masked_lm) { /* segment rows, norm */
		add_rowwise(x, SC_NAME_EMBED_LOOKUP, n * (4 * x->e), 2);
		add_norm(x, n);
	}
	if (x->dropout)
		add_rowwise(x, SC_NAME_EMBED_DROPOUT, x->tokens_seq * x->h * (2 * x->e + 1), 1);
}

void embed_backward(const struct dims *x)
{
	struct sc_params params;

	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	if (x->lora)
		return;
	if (x->traits->masked_lm)
		add_norm_grad(x, x->tokens * x->h);
	if (x->sp)
		add_tp(x, SC_ALL_GATHER, x->tokens * x->h, 0);
	/* the dense gradient is zeroed, then rows are added at the tokens' places */
	add_rowwise(x, SC_NAME_EMBED_GRAD,
		    x->tokens * x->h * ((x->traits->learned_positions ? 6 : 3) * x->e), 3);
	add_rowwise(x, SC_NAME_EMBED_GRAD, x->vocab * x->h * x->e, 1);
	sc_transformer_embed_params(x->req, &params);
	accumulate_gradients(x, params.dense);
}

static void loss_comm(const struct dims *x, double rows, int n)
{
	struct sc_block_comm comm = {SC_NAME_LOSS_COMM,
				     SC_COMM_TP,
				     {SC_ALL_REDUCE, rows * sc_dtype_bytes(SC_FP32), SC_FP32},
				     0,
				     0,
				     0,
				     0};

	for (int i = 0; i < n; i++)
		sc_block_add_comm(x->block, x->env, &comm);
}

/* The rows whose logits are computed. */
static double head_rows(const struct dims *x)
{
	return x->traits->masked_lm && x->sw->mlm_gather ? x->tokens * MASKED_FRACTION : x->tokens;
}

/* A copy of these sizes with the head's rows as tokens, in the storage's precision. */
static struct dims head_dims(const struct dims *x)
{
	struct dims head = *x;

	head.tokens = head_rows(x);
	head.dtype = x->storage;
	head.quantized = false;
	return head;
}

static struct linear logits_linear(const struct dims *x)
{
	return (struct linear){SC_NAME_LOGITS, x->vocab, x->h, .adapter = false};
}

static void transform_forward(const struct dims *head)
{
	const struct linear transform = {SC_NAME_MLM_TRANSFORM, head->h, head->h, .adapter = false};

	if (head->sw->mlm_gather)
		add_rowwise(head, SC_NAME_MASKED_GATHER, head->tokens * head->h * (2 * head->e), 2);
	add_linear(head, &transform);
	add_activation(head, head->tokens * head->h);
	add_norm(head, head->tokens * head->h);
}

static void transform_backward(const struct dims *head)
{
	const struct linear transform = {SC_NAME_MLM_TRANSFORM, head->h, head->h, .adapter = false};

	add_norm_grad(head, head->tokens * head->h);
	add_activation_grad(head, head->tokens * head->h);
	add_dgrad(head, &transform);
	add_wgrad(head, &transform);
	if (head->sw->mlm_gather)
		add_rowwise(head, SC_NAME_MASKED_GATHER, head->tokens * head->h * (2 * head->e), 2);
}

/* Multi-token prediction (DeepSeek-V3, arXiv:2412.19437, section 2.2): the embedding of the next token and what
 * came before, each normed, joined and projected; its layer is one of its stage's, and the output layer runs again. */
static struct linear mtp_linear(const struct dims *x)
{
	return (struct linear){SC_NAME_MTP_PROJ, x->h / x->tp, 2 * x->h, .adapter = false};
}

static void mtp_forward(const struct dims *x)
{
	const struct linear proj = mtp_linear(x);

	embed_forward(x);
	add_norm(x, 2 * x->tokens_seq * x->h);
	add_linear(x, &proj);
	if (x->tp > 1)
		add_tp(x, SC_ALL_GATHER, x->tokens * x->h, 0);
}

static void mtp_backward(const struct dims *x)
{
	const struct linear proj = mtp_linear(x);

	add_dgrad(x, &proj);
	if (x->tp > 1)
		add_tp(x, x->sp ? SC_REDUCE_SCATTER : SC_ALL_REDUCE, 2 * x->tokens * x->h, 0);
	add_wgrad(x, &proj);
	add_norm_grad(x, 2 * x->tokens_seq * x->h);
	embed_backward(x);
	accumulate_gradients(x, proj.n * proj.k);
}

static void logits_forward(const struct dims *x)
{
	struct dims head = head_dims(x);
	const struct linear logits = logits_linear(&head);
	double n_logits = head.tokens * x->vocab, f = sc_dtype_bytes(SC_FP32);

	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	if (x->traits->masked_lm)
		transform_forward(&head);
	else
		add_norm(x, x->tokens_seq * x->h);
	if (x->sp)
		add_tp(x, SC_ALL_GATHER, x->tokens * x->h, 0);
	cast_weights(&head, x->vocab * x->h);
	add_linear(&head, &logits);
	/* to fp32; row maximum, subtraction, exponentials, sum, division in place (kept). Fused: one pass
	 * for the statistics, one for the gradient, in place */
	if (x->sw->fused_loss)
		add_rowwise(x, SC_NAME_CROSS_ENTROPY, n_logits * (2 * x->e), 2);
	else
		add_rowwise(x, SC_NAME_CROSS_ENTROPY, n_logits * (x->e + f + 7 * f), 7);
	loss_comm(x, head.tokens, 3);
}

void head_forward(const struct dims *x)
{
	logits_forward(x);
	for (int64_t i = 0; i < x->model->mtp_layers; i++) {
		mtp_forward(x);
		logits_forward(x);
	}
}

static void logits_backward(const struct dims *x)
{
	struct dims head = head_dims(x);
	const struct linear logits = logits_linear(&head);
	double n_logits = head.tokens * x->vocab, f = sc_dtype_bytes(SC_FP32);

	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	/* probabilities minus targets, times the loss gradient; back to the activations' dtype */
	if (x->sw->fused_loss)
		add_rowwise(x, SC_NAME_CROSS_ENTROPY_GRAD, n_logits * (2 * x->e), 1);
	else
		add_rowwise(x, SC_NAME_CROSS_ENTROPY_GRAD, n_logits * (2 * f + f + x->e), 3);
	enter_region_grad(&head, &logits, 1);
	if (x->traits->masked_lm)
		transform_backward(&head);
	else
		add_norm_grad(x, x->tokens_seq * x->h);
	accumulate_gradients(x, x->vocab * x->h);
}

void head_backward(const struct dims *x)
{
	for (int64_t i = 0; i < x->model->mtp_layers; i++) {
		logits_backward(x);
		mtp_backward(x);
	}
	logits_backward(x);
}

static void logits_weights(const struct dims *x)
{
	struct dims head = head_dims(x);
	const struct linear logits = logits_linear(&head);
	const struct linear transform = {SC_NAME_MLM_TRANSFORM, head.h, head.h, .adapter = false};

	region_weights(&head, &logits, 1);
	if (x->traits->masked_lm)
		add_wgrad(&head, &transform);
	accumulate_gradients(x, x->vocab * x->h);
}

void head_weights(const struct dims *x)
{
	const struct linear proj = mtp_linear(x);

	logits_weights(x);
	for (int64_t i = 0; i < x->model->mtp_layers; i++) {
		logits_weights(x);
		add_wgrad(x, &proj);
	}
}
