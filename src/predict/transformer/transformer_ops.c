/* The ops of a Transformer layer, forward and backward, as Megatron-style stacks run them (Shoeybi
 * et al. 2019; Korthikanti et al. 2022 for sequence parallelism and selective recomputation).
 * Memory-bound ops are given by the tensors they read and write. */
#include "predict/transformer/transformer_ops.h"

#include "predict/transformer/transformer_memory.h"
#include "predict/transformer/transformer_priv.h"

/* Adds a norm: one kernel, three passes over the tensor. */
void add_norm(const struct dims *x, double n)
{
	add_rowwise(x, SC_NAME_NORM, n * (3 * x->e), 1);
}

/* Adds a norm's gradients: the data's; gamma's and beta's in two more passes with partial sums. */
void add_norm_grad(const struct dims *x, double n)
{
	add_rowwise(x, SC_NAME_NORM_GRAD, n * (10 * x->e), 2);
}

/* Keeps products in the storage's precision. */
void keep_wide(struct dims *x)
{
	x->dtype = x->storage;
	x->quantized = false;
}

/* Adds dropout of a sub-layer's output with its bias, and the residual's addition. */
static void join_forward(const struct dims *x, const struct part *p)
{
	double n = x->tokens_seq * p->n, mask = x->dropout ? 1 : 0;

	if (x->sw->fused_chains || (!x->biases && !x->dropout))
		add_rowwise(x, SC_NAME_BIAS_DROPOUT_ADD, n * (3 * x->e + mask), 1);
	else if (x->dropout)
		add_rowwise(x, SC_NAME_BIAS_DROPOUT_ADD, n * (7 * x->e + mask), 3);
	else
		add_rowwise(x, SC_NAME_BIAS_DROPOUT_ADD, n * (5 * x->e), 2);
}

static void join_backward(const struct dims *x, const struct part *p)
{
	double n = x->tokens_seq * p->n;

	/* The bias gradient's reduction over tokens follows dropout's gradient. */
	if (x->dropout)
		add_rowwise(x, SC_NAME_BIAS_DROPOUT_ADD_GRAD, n * (3 * x->e + 1), 2);
	else if (x->biases)
		add_rowwise(x, SC_NAME_BIAS_DROPOUT_ADD_GRAD, n * x->e, 1);
}

void add_activation(const struct dims *x, double n)
{
	add_rowwise(x, SC_NAME_ACTIVATION, n * ((x->traits->gated ? 3 : 2) * x->e), 1);
}

void add_activation_grad(const struct dims *x, double n)
{
	if (x->traits->gated)
		add_rowwise(x, SC_NAME_ACTIVATION_GRAD, n * (5 * x->e), 1);
	else if (x->biases) /* and the bias gradient's reduction */
		add_rowwise(x, SC_NAME_ACTIVATION_GRAD, n * (4 * x->e), 2);
	else
		add_rowwise(x, SC_NAME_ACTIVATION_GRAD, n * (3 * x->e), 1);
}

static void norm_forward(const struct dims *x, const struct part *p)
{
	double rows = p->flags & PART_WHOLE ? x->tokens_seq : x->tokens;

	add_norm(x, rows * p->n);
	if (p->k > 0)
		add_norm(x, rows * p->k);
}

/* A norm of the residual stream adds to its gradient. */
static void norm_backward(const struct dims *x, const struct part *p)
{
	double rows = p->flags & PART_WHOLE ? x->tokens_seq : x->tokens;

	add_norm_grad(x, rows * p->n);
	if (p->k > 0)
		add_norm_grad(x, rows * p->k);
	if (p->flags & PART_WHOLE)
		add_rowwise(x, SC_NAME_RESIDUAL_GRAD, rows * p->n * (3 * x->e), 1);
}

static void linear_forward(const struct dims *x, const struct part *p)
{
	if (p->flags & PART_ENTERS)
		enter_region(x, p);
	else if (p->flags & PART_LEAVES)
		leave_region(x, p);
	else
		add_linear(x, p);
}

static void activation_forward(const struct dims *x, const struct part *p)
{
	add_activation(x, x->tokens * p->n);
}

static void activation_backward(const struct dims *x, const struct part *p)
{
	add_activation_grad(x, x->tokens * p->n);
}

static void inner_backward(const struct dims *x, const struct part *p)
{
	add_dgrad(x, p);
	add_wgrad(x, p);
}

/* The functions of a kind of part: forward, backward, and the gradients of weights where they have
 * passes of their own. */
static const struct {
	void (*forward)(const struct dims *x, const struct part *p);
	void (*backward)(const struct dims *x, const struct part *p);
	void (*weights)(const struct dims *x, const struct part *p);
} RUN[SC_N_PART_KINDS] = {
	[SC_PART_NORM] = {norm_forward, norm_backward, NULL},
	[SC_PART_LINEAR] = {linear_forward, leave_region_backward, add_wgrad},
	[SC_PART_ROTARY] = {rotary, rotary_grad, NULL},
	[SC_PART_ATTENTION] = {attention_forward, attention_backward, NULL},
	[SC_PART_INNER] = {add_linear, inner_backward, add_wgrad},
	[SC_PART_SPARSE] = {sparse_forward, sparse_backward, NULL},
	[SC_PART_JOIN] = {join_forward, join_backward, NULL},
	[SC_PART_ACTIVATION] = {activation_forward, activation_backward, NULL},
	[SC_PART_ROUTER] = {router_forward, router_backward, router_weights},
	[SC_PART_EXPERTS_UP] = {experts_up_forward, experts_up_backward, experts_weights},
	[SC_PART_EXPERTS_ACTIVATION] = {experts_act_forward, experts_act_backward, NULL},
	[SC_PART_EXPERTS_DOWN] = {experts_down_forward, experts_down_backward, experts_weights},
	[SC_PART_LATENT] = {latent_forward, latent_backward, latent_weights},
	[SC_PART_GATE] = {activation_forward, activation_backward, NULL},
	[SC_PART_CONV] = {conv_forward, conv_backward, NULL},
	[SC_PART_SCAN] = {scan_forward, scan_backward, NULL},
	[SC_PART_APART] = {apart_forward, apart_backward, NULL},
	[SC_PART_GATED_JOIN] = {gated_join_forward, gated_join_backward, NULL},
	[SC_PART_CONCAT] = {concat_forward, concat_backward, NULL},
	[SC_PART_CROSS] = {cross_forward, cross_backward, NULL},
};

static void enter_scope(const struct dims *x, const struct part *p)
{
	if (p->scope)
		x->block->scope = p->scope;
}

/* Returns the sizes with the tokens that a part works on; `own` is room for them. */
static const struct dims *rows_of(const struct dims *x, const struct part *p, struct dims *own)
{
	if (!(p->share > 0))
		return x;
	*own = *x;
	own->tokens *= p->share;
	own->tokens_seq *= p->share;
	return own;
}

static void run_forward(const struct dims *x, const struct part *parts, int n)
{
	struct dims own;

	for (const struct part *p = parts; p < parts + n; p++) {
		enter_scope(x, p);
		RUN[p->kind].forward(rows_of(x, p, &own), p);
	}
}

/* Returns the first of the linear layers that end with part `i` and enter a region together, as
 * they read one input. */
static int region_begin(const struct part *parts, int i)
{
	while (!(parts[i].flags & PART_ENTERS))
		i--;
	return i;
}

static void run_backward(const struct layer *l)
{
	struct dims own;

	for (int i = l->n - 1; i >= 0; i--) {
		const struct part *p = &l->at[i];

		enter_scope(l->x, p);
		if (p->kind == SC_PART_LINEAR && !(p->flags & PART_LEAVES)) {
			int first = region_begin(l->at, i);

			enter_region_grad(rows_of(l->x, p, &own), &l->at[first], i - first + 1);
			i = first;
		} else
			RUN[p->kind].backward(rows_of(l->x, p, &own), p);
	}
}

static void run_weights(const struct layer *l)
{
	for (int i = l->n - 1; i >= 0; i--) {
		const struct part *p = &l->at[i];

		if (p->kind == SC_PART_LINEAR && !(p->flags & PART_LEAVES)) {
			int first = region_begin(l->at, i);

			region_weights(l->x, &l->at[first], i - first + 1);
			i = first;
		} else if (RUN[p->kind].weights)
			RUN[p->kind].weights(l->x, p);
	}
}

static void layer_forward(const struct layer *l)
{
	if (l->has_experts)
		exchange_beside(l->x);
	enter_scope(l->x, l->at);
	add_host(l->x, SC_NAME_LAYER_HOST, l->x->sw->host_layer_us);
	run_forward(l->x, l->at, l->n);
}

/* Runs a layer's forward again. PyTorch's checkpoint without reentry stops when all saved tensors
 * are there: nothing needs the output of the last matrix product, or of a mixture's combine. */
static void layer_again(const struct layer *l)
{
	struct layer again = *l;
	struct dims own = *l->x;

	own.stops_early = l->x->sw->recompute_early_stop;
	again.x = &own;
	if (own.stops_early)
		again.n -= l->has_experts ? 1 : 2; /* the addition, and the product before it */
	layer_forward(&again);
}

static int find_part(const struct layer *l, enum sc_op_name name)
{
	int i = 0;

	while (l->at[i].name != name)
		i++;
	return i;
}

/* Runs again what a per-op policy does not keep: norms, rotations and activation, and every second
 * matrix product: keys, projection, one of the gates (torchtitan, activation_checkpoint.py: q, k,
 * v, o, w1, w3, w2). Grouped products and exchanges of tokens are not on its list. */
static void recompute_ops(const struct layer *l)
{
	const struct dims *x = l->x;

	add_norm(x, 2 * x->tokens_seq * x->h);
	add_gemm(x, SC_NAME_QKV, (struct mnk){x->tokens, x->kv_heads * x->d, x->h});
	add_linear(x, &l->at[find_part(l, SC_NAME_PROJ)]);
	if (l->has_experts) {
		int router = find_part(l, SC_NAME_ROUTER);

		run_forward(x, &l->at[router], l->n - 1 - router);
		return;
	}
	struct part gate = l->at[find_part(l, SC_NAME_MLP_UP)];

	gate.n /= gate.joined;
	add_linear(x, &gate);
	add_activation(x, x->tokens * x->ffn);
}

/* Runs a part again. A part that expands latents enters no region: its input is there (Megatron
 * Core, multi_latent_attention.py). A mixture's activation alone is not fused. */
static void part_again(const struct dims *x, const struct part *p)
{
	bool mixture = sc_recomputes(x->req, SC_RECOMPUTE_MOE);

	if (mixture && (p->again & SC_RECOMPUTE_MOE))
		enter_scope(x, p);
	if (p->kind == SC_PART_LINEAR && p->again == SC_RECOMPUTE_MLA_UP)
		add_linear(x, p);
	else if (p->kind == SC_PART_EXPERTS_ACTIVATION && !mixture)
		experts_act_again(x, p);
	else
		RUN[p->kind].forward(x, p);
}

/* Runs modules again, norms first, in one; attention's core is run again where its backward is. */
static void modules_again(const struct layer *l)
{
	static const int ORDER[] = {
		SC_RECOMPUTE_MLA_UP, SC_RECOMPUTE_DROPOUT,
		~(SC_RECOMPUTE_MLA_UP | SC_RECOMPUTE_DROPOUT | SC_RECOMPUTE_NORMS)};
	const struct dims *x = l->x;
	double norms = 0;

	for (int i = 0; i < l->n; i++)
		if (sc_recomputes(x->req, l->at[i].again & SC_RECOMPUTE_NORMS))
			norms += l->at[i].n;
	if (norms > 0)
		add_norm(x, x->tokens_seq * norms);
	for (int k = 0; k < 3; k++)
		for (int i = 0; i < l->n; i++)
			if (sc_recomputes(x->req, l->at[i].again & ORDER[k]))
				part_again(x, &l->at[i]);
}

static void recompute(const struct layer *l)
{
	const struct dims *x = l->x;
	int mode = x->req->config.training.recompute;
	size_t first = x->block->steps.n;

	if (mode == SC_RECOMPUTE_FULL) {
		if (sc_checkpoint_ranks(x->req) > 1)
			add_tp(x, SC_ALL_GATHER, x->tokens * x->h, 0);
		layer_again(l);
		sc_block_share(x->block, first, sc_recompute_frac(x->req));
	} else if (mode == SC_RECOMPUTE_SELECTIVE && x->sw->selective == SC_SELECTIVE_OPS) {
		recompute_ops(l);
	} else {
		modules_again(l);
	}
}

void layer_backward(const struct dims *x, int kind)
{
	const struct layer l = layer_of(x, kind);
	const struct sc_params params = params_of(&l);

	recompute(&l);
	if (l.has_experts)
		exchange_beside(x);
	x->block->scope = SC_GRAPH_MLP;
	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	run_backward(&l);
	accumulate_gradients(x, params.dense, params.expert);
}

/* Multiplies the inputs and gradients that backward of the input has left. */
static void layer_weights(const struct dims *x, int kind)
{
	const struct layer l = layer_of(x, kind);
	const struct sc_params params = params_of(&l);

	run_weights(&l);
	accumulate_gradients(x, params.dense, params.expert);
}

/* Returns the weights of products that stay in the storage's precision. */
static double apart_params(const struct layer *l)
{
	double n = 0;

	for (const struct part *p = l->at; p < l->at + l->n; p++)
		n += p->kind == SC_PART_APART ? p->n * p->k : 0;
	return n;
}

void whole_layer_forward(const struct dims *x, int kind)
{
	const struct layer l = layer_of(x, kind);
	const struct sc_params params = params_of(&l);

	cast_weights(x, params.dense + params.expert - apart_params(&l));
	layer_forward(&l);
}

/* Adds an end of a diffusion transformer. The loss, a mean square over patches, is not counted. */
static void dit_end(const struct dims *x, enum sc_block_id id)
{
	const struct layer l = dit_end_of(x, id == SC_BLOCK_HEAD_F || id == SC_BLOCK_HEAD_B);

	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	if (id == SC_BLOCK_EMBED_F || id == SC_BLOCK_HEAD_F) {
		run_forward(x, l.at, l.n);
	} else {
		run_backward(&l);
		accumulate_gradients(x, params_of(&l).dense, 0);
	}
}

/* The functions of the blocks: each runs one part of the model, or of a layer. */
static void (*const ENDS[SC_BLOCK_LAYER_F])(const struct dims *x) = {
	[SC_BLOCK_EMBED_F] = embed_forward, [SC_BLOCK_HEAD_F] = head_forward,
	[SC_BLOCK_HEAD_B] = head_backward,  [SC_BLOCK_EMBED_B] = embed_backward,
	[SC_BLOCK_HEAD_I] = head_backward,  [SC_BLOCK_HEAD_W] = head_weights,
};
static void (*const LAYERS[SC_N_LAYER_BLOCKS])(const struct dims *x, int kind) = {
	whole_layer_forward, layer_backward, layer_backward, layer_weights};

void sc_transformer_block(const struct sc_block_env *env, enum sc_block_id id, double samples,
			  struct sc_block *out)
{
	struct dims x = dims_of(env->request, env, samples, out);
	const int of_layer = (int)id - SC_BLOCK_LAYER_F, part = of_layer % SC_N_LAYER_BLOCKS;
	size_t counted = 0;

	sc_block_clear(out);
	x.counted = &counted;
	if (of_layer >= 0)
		x = dims_of_kind(&x, of_layer / SC_N_LAYER_BLOCKS);
	x.inputs_only =
		of_layer < 0 ? id == SC_BLOCK_HEAD_I : part == SC_BLOCK_LAYER_I - SC_BLOCK_LAYER_F;
	if (of_layer >= 0)
		LAYERS[part](&x, of_layer / SC_N_LAYER_BLOCKS);
	else if (ENDS[id] && x.traits->denoises)
		dit_end(&x, id);
	else if (ENDS[id])
		ENDS[id](&x);
}
