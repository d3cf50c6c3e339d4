/* Parameters of a rank's part of the model, FLOP of the whole, and the optimizer's update. */
#include <math.h>

#include "core/config/config_schedule.h"
#include "predict/matrix_steps.h"
#include "predict/transformer/transformer_priv.h"

/* The matrices of the layers, each tensor-parallel part alone, gate and up apart; not the embedding, the output layer and
 * norms, which those who step whole matrices step by Adam or SGD. */
enum { MAX_MATRICES = MAX_LINEARS + 4 };

static void list(struct sc_matrix *out, int *n, struct sc_matrix one)
{
	if (one.m > 0 && one.n > 0 && one.count > 0)
		out[(*n)++] = one;
}

/* Of so many layers, and of a mixture's without experts. */
static int list_matrices(const struct dims *x, double layers, double dense_layers,
			 struct sc_matrix out[MAX_MATRICES])
{
	const struct sc_model *m = x->model;
	const struct sc_config *cfg = &x->req->config;
	bool mixture = sc_model_is_moe(m);
	double with_experts = mixture ? layers : 0;
	double dense = dense_layers + (mixture ? 0 : layers);
	double all = dense + with_experts, matrices = x->gates + 1;
	double experts = (double)m->experts / (double)cfg->parallel.ep;
	double tokens = (double)cfg->training.global_batch / (double)cfg->parallel.dp * x->s;
	struct linear qkv[MAX_LINEARS];
	const struct linear proj = proj_linear(x);
	int n_qkv = qkv_linears(x, qkv), n = 0;

	for (int i = 0; i < n_qkv; i++)
		list(out, &n, (struct sc_matrix){qkv[i].n, qkv[i].k, all, false, tokens});
	list(out, &n, (struct sc_matrix){proj.n, proj.k, all, false, tokens});
	list(out, &n, (struct sc_matrix){x->ffn, x->h, dense * matrices, false, tokens});
	list(out, &n,
	     (struct sc_matrix){shared_width(x), x->h, with_experts * matrices, false, tokens});
	list(out, &n,
	     (struct sc_matrix){(double)m->expert_ffn_hidden / x->etp, x->h,
				with_experts * matrices * experts, true, tokens});
	return n;
}

double sc_transformer_matrix_bytes(const struct sc_request *request, const struct sc_update *update,
				   bool experts)
{
	const struct dims x = dims_of(request, NULL, 1, NULL);
	struct sc_matrix a[MAX_MATRICES];
	int n = list_matrices(&x, update->layers, update->dense_layers, a);
	double bytes = 0;

	for (int i = 0; i < n; i++)
		if (a[i].expert == experts)
			bytes += sc_matrix_bytes(request, &a[i], update->replicas.n_ranks);
	return bytes;
}

void sc_params_add(struct sc_params *sum, const struct sc_params *one, double n)
{
	sum->dense += n * one->dense;
	sum->expert += n * one->expert;
	sum->trainable += n * one->trainable;
	sum->trainable_expert += n * one->trainable_expert;
}

static void add_linear_params(const struct dims *x, const struct linear *l, struct sc_params *out)
{
	double n = l->n * l->k + (x->biases ? l->n : 0);
	double adapters =
		x->lora ? (l->adapter ? (double)x->req->config.training.lora_rank * (l->n + l->k)
				      : 0)
			: 0;

	out->dense += n + adapters;
	out->trainable += x->lora ? adapters : n;
}

static void add_plain_params(const struct dims *x, double n, struct sc_params *out)
{
	out->dense += n;
	out->trainable += x->lora ? 0 : n;
}

static void add_mlp_params(const struct dims *x, double ffn, struct sc_params *out)
{
	const struct linear up = up_linear(x, ffn), down = down_linear(x, ffn);

	add_linear_params(x, &up, out);
	add_linear_params(x, &down, out);
}

void sc_transformer_layer_params(const struct sc_request *request, bool is_dense,
				 struct sc_params *out)
{
	const struct dims x = dims_of(request, NULL, 1, NULL);
	const struct linear proj = proj_linear(&x);
	struct linear qkv[MAX_LINEARS];
	int n = qkv_linears(&x, qkv);

	*out = (struct sc_params){0};
	for (int i = 0; i < n; i++)
		add_linear_params(&x, &qkv[i], out);
	add_linear_params(&x, &proj, out);
	add_plain_params(&x, (x.traits->rms_norm ? 2 : 4) * x.h, out);
	if (sc_model_is_moe(&request->config.model) && !is_dense) {
		const struct sc_model *m = x.model;
		double n_local = (double)m->experts / (double)x.req->config.parallel.ep;
		double ffn = (double)m->expert_ffn_hidden / x.etp;

		add_plain_params(&x, (double)m->experts * x.h, out); /* router */
		out->expert = n_local * x.h * ffn * (x.gates + 1);
		if (x.biases)
			out->expert += n_local * (x.gates * ffn + x.h);
		out->trainable_expert = x.lora ? 0 : out->expert;
		if (m->shared_experts > 0)
			add_mlp_params(&x, shared_width(&x), out);
	} else
		add_mlp_params(&x, x.ffn, out);
}

void sc_transformer_embed_params(const struct sc_request *request, struct sc_params *out)
{
	const struct dims x = dims_of(request, NULL, 1, NULL);

	*out = (struct sc_params){0};
	add_plain_params(&x,
			 (x.vocab + (x.traits->learned_positions ? (double)x.model->seq : 0)) * x.h,
			 out);
}

void sc_transformer_head_params(const struct sc_request *request, struct sc_params *out)
{
	const struct dims x = dims_of(request, NULL, 1, NULL);

	*out = (struct sc_params){0};
	add_plain_params(&x, x.vocab * x.h, out);
	add_plain_params(&x, (double)x.model->mtp_layers * 2 * x.h * x.h / x.tp, out);
	if (x.model->mtp_layers > 0 && request->config.parallel.pp > 1 &&
	    !request->config.model.tied_embeddings) /* the embedding once more */
		add_plain_params(&x, x.vocab * x.h, out);
}

/* Multiply-adds per token of the linear layers of attention, all tensor-parallel ranks together; keys
 * and values that several ranks compute count once. */
static double attention_macs(const struct dims *x)
{
	const struct sc_model *m = x->model;
	struct linear list[MAX_LINEARS];
	double macs = x->ctx * x->h * x->tp;
	int n = qkv_linears(x, list);

	for (int i = 0; i < n; i++)
		macs += list[i].n * list[i].k * (list[i].replicated ? 1 : x->tp);
	if (!sc_model_is_mla(m))
		macs -= (x->kv_heads * x->tp - (double)m->kv_heads) * (x->d + x->d_v) * x->h;
	return macs;
}

static double layer_macs(const struct dims *x, bool has_experts)
{
	const struct sc_model *m = x->model;
	double ffn = (double)m->ffn_hidden, router = 0;

	if (has_experts) {
		ffn = (double)m->expert_ffn_hidden * (double)(m->top_k + m->shared_experts);
		router = (double)m->experts * x->h;
	}
	return attention_macs(x) + router + (x->gates + 1) * ffn * x->h;
}

/* Keys that a token attends to, mean of layers with a window and without. A window w of s keys is w for each, and
 * s(1 - w/2s) fewer at the begin where it is causal; without windows all s. */
static double mean_keys(const struct sc_model *m, double s, bool causal)
{
	const double w = fmin((double)m->sliding_window, s);
	double full = m->full_attention_every > 0 ? 1 / (double)m->full_attention_every : 0;

	if (m->sliding_window < 1 || w >= s)
		full = 1;
	return full * s * (causal ? 0.5 : 1) + (1 - full) * w * (causal ? 1 - w / (2 * s) : 1);
}

/* Frozen weights have no gradients; those of attention's own products are always two more passes.
 * Causal attention counts as full, as in Narayanan et al. 2021, and adapters are left out. */
double sc_transformer_model_flop(const struct sc_request *request, double *causal)
{
	const struct sc_model *m = &request->config.model;
	double mtp = (double)m->mtp_layers, layers = (double)m->layers + mtp, dense, macs,
	       attention;
	bool moe = sc_model_is_moe(m);
	const struct dims x = dims_of(request, NULL, 1, NULL);

	dense = moe ? (double)sc_model_dense_layers(m, 0, m->layers) : layers;
	macs = dense * layer_macs(&x, false) + (layers - dense) * layer_macs(&x, moe);
	/* Of the output layer, and of a masked model's transform before it, on the rows that need them. */
	double rows_frac = x.traits->masked_lm && x.sw->mlm_gather ? MASKED_FRACTION : 1;
	double transform = x.traits->masked_lm ? x.h * x.h : 0;

	macs += (1 + mtp) * (rows_frac * (x.h * (double)x.model->vocab + transform)) +
		mtp * 2 * x.h * x.h;
	attention = layers * (double)m->heads * (x.d + x.d_v);
	macs *= x.lora ? 2 : 3;
	if (causal)
		*causal = 2 * x.s_all *
			  (macs + 3 * attention * mean_keys(m, x.s_all, x.traits->causal));
	return 2 * x.s_all * (macs + 3 * attention * mean_keys(m, x.s_all, false));
}

double sc_transformer_gathered_bytes(const struct sc_request *request)
{
	const struct sc_training *tr = &request->config.training;
	enum sc_precision precision = tr->precision;

	if (sc_precision_dtype(precision) == SC_FP8 && request->software.gather_fp8 &&
	    tr->fp8_recipe != SC_FP8_ROWWISE)
		return sc_dtype_bytes(SC_FP8);
	return sc_dtype_bytes(sc_storage_dtype(precision));
}

static bool has_master(const struct sc_request *request)
{
	return sc_master_bytes(request) > 0;
}

static bool fuses_unscale(const struct sc_request *request)
{
	return request->software.fused_unscale && has_master(request) &&
	       request->config.parallel.sharding == SC_ZERO_NONE;
}

double sc_transformer_update_bytes(const struct sc_request *request)
{
	double f = sc_dtype_bytes(SC_FP32);
	const struct sc_optimizer_traits *t =
		sc_optimizer_traits_of(request->config.training.optimizer);

	return (fuses_unscale(request) || !has_master(request) ? sc_grad_bytes(request) : f) +
	       2 * (sc_updated_bytes(request) + t->moments * sc_moment_bytes(request)) +
	       t->more_bytes +
	       (has_master(request)
			? sc_dtype_bytes(sc_storage_dtype(request->config.training.precision))
			: 0);
}

/* What comes before the update of so many parameters, of which so many are this rank's. */
static void check_gradients(const struct dims *x, const struct sc_update *update, int n)
{
	double f = sc_dtype_bytes(SC_FP32), bytes = sc_grad_bytes(x->req);

	if (fuses_unscale(x->req)) { /* made one array, whose norm is taken */
		add_rowwise(x, SC_NAME_GRAD_NORM, update->updated * (3 * bytes), n);
		return;
	}
	if (has_master(x->req)) /* to fp32 master gradients, scaled; checked for infinities */
		add_rowwise(x, SC_NAME_GRAD_CHECK, update->params * (bytes + 2 * f), n);
	add_rowwise(x, SC_NAME_GRAD_NORM, update->updated * f, n);
	/* clipping scales the gradients once more */
	add_rowwise(x, SC_NAME_GRAD_NORM, update->updated * (2 * f), n);
}

void sc_transformer_optimizer(const struct sc_block_env *env, const struct sc_update *update,
			      struct sc_block *out)
{
	const struct sc_request *request = env->request;
	const int n = 4; /* of lists of tensors */
	const struct dims x = dims_of(request, env, 1, out);
	struct sc_matrix a[MAX_MATRICES];

	sc_block_clear(out);
	if (request->config.training.optimizer == SC_OPT_NONE)
		return;
	check_gradients(&x, update, n);
	struct sc_op op = {
		SC_OP_OPTIMIZER,
		SC_FP32,
		{.rowwise = {.read_bytes = update->updated * sc_transformer_update_bytes(request),
			     .n_kernels = n}}};
	sc_matrix_steps(env, a, list_matrices(&x, update->layers, update->dense_layers, a),
			&update->replicas, out);
	sc_block_add_op(out, env, SC_NAME_OPTIMIZER, &op);
	/* gradients are zeroed for the next iteration */
	if (!fuses_unscale(request)) /* set to none */
		add_rowwise(&x, SC_NAME_GRAD_ZERO, update->params * sc_grad_bytes(request), n);
}
