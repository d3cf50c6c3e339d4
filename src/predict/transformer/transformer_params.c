/* The parameters of a rank's part of the model, the FLOP of the whole, and the optimizer's update:
 * sums over the parts of layers, and the matrices that optimizers step whole. */
#include <math.h>

#include "predict/matrix_steps.h"
#include "predict/predict.h"
#include "predict/transformer/transformer_priv.h"
#include "predict/transformer/transformer_tower.h"

/* The matrices of the layers, each tensor-parallel part alone, gate and up apart; not the router,
 * the embedding, the output layer and norms, which optimizers of matrices step by Adam or SGD. */
struct matrix_list {
	struct sc_matrix at[2 * SC_MAX_PARTS];
	enum sc_op_name name[2 * SC_MAX_PARTS];
	int n;
};

/* Puts a matrix; those of one name and one size are steps of one kind. */
static void matrix_put(struct matrix_list *to, enum sc_op_name name, struct sc_matrix one)
{
	int i = 0;

	while (i < to->n && !(to->name[i] == name && fabs(to->at[i].m - one.m) < 0.5 &&
			      fabs(to->at[i].n - one.n) < 0.5))
		i++;
	if (i < to->n) {
		to->at[i].count += one.count;
	} else {
		to->name[to->n] = name;
		to->at[to->n++] = one;
	}
}

/* Lists experts' matrices, or others. Products out of a feed-forward part count as into it. */
static void list_matrices(const struct layer *l, double layers, bool experts,
			  struct matrix_list *out)
{
	const struct dims *x = l->x;
	const struct sc_config *cfg = &x->req->config;
	double batch = (double)cfg->training.global_batch / (double)cfg->parallel.dp * x->s;

	for (const struct part *p = l->at; p < l->at + l->n; p++) {
		double tokens = batch * (p->share > 0 ? p->share : 1);
		bool expert = p->kind == SC_PART_EXPERTS_UP || p->kind == SC_PART_EXPERTS_DOWN;
		bool down = p->name == SC_NAME_MLP_DOWN || p->name == SC_NAME_EXPERT_DOWN;
		enum sc_op_name name = p->name == SC_NAME_MLP_DOWN      ? SC_NAME_MLP_UP
				       : p->name == SC_NAME_EXPERT_DOWN ? SC_NAME_EXPERT_UP
									: p->name;
		double m = p->n / p->joined, k = p->k;

		if (p->kind == SC_PART_ROUTER || !(p->joined > 0) || expert != experts)
			continue;
		matrix_put(out, name,
			   (struct sc_matrix){.m = down ? k : m,
					      .n = down ? m : k,
					      .count = layers * p->copies * p->joined,
					      .expert = expert,
					      .batch = p->copies,
					      .rows = tokens});
	}
}

static void list_all(const struct dims *x, const struct sc_update *update, struct matrix_list *out)
{
	out->n = 0;
	for (int experts = 0; experts < 2; experts++)
		for (int kind = SC_N_LAYER_KINDS - 1; kind >= 0; kind--) {
			struct layer l;

			if (!(update->layers.of[kind] > 0))
				continue;
			const struct dims own = dims_of_kind(x, kind);

			l = layer_of(&own, kind);
			list_matrices(&l, update->layers.of[kind], experts, out);
		}
	for (int i = 0; i < out->n; i++)
		out->at[i].shard = out->at[i].expert ? update->expert_shard : update->shard;
}

/* Returns the states that the busiest owner of whole matrices has beyond an even share, as if on
 * all ranks together. */
static double owner_bytes(const struct sc_request *request, const struct matrix_list *a,
			  bool experts)
{
	const double e = sc_moment_bytes(request) + sc_master_bytes(request);
	double elements = 0;
	int first = 0, n = 0;

	for (int i = 0; i < a->n; i++)
		if (a->at[i].expert == experts) {
			first = n++ > 0 ? first : i;
			elements += a->at[i].count * a->at[i].m * a->at[i].n;
		}
	return n > 0 ? elements * e * (sc_matrix_owner_excess(a->at + first, n) - 1) : 0;
}

/* Returns the parameters that Muon leaves to Adam: embeddings, the output layer, gains, biases and
 * routers (Jordan et al. 2024), on all shards. */
static double adam_params(const struct matrix_list *a, const struct sc_update *update)
{
	double rest = update->trainable;

	for (int i = 0; i < a->n; i++)
		if (!a->at[i].expert)
			rest -= a->at[i].count * a->at[i].m * a->at[i].n;
	return fmax(0, rest);
}

double sc_transformer_matrix_bytes(const struct sc_request *request, const struct sc_update *update,
				   bool experts)
{
	const bool muon = request->config.training.optimizer == SC_OPT_MUON;
	struct matrix_list a;
	double bytes = 0;

	if (sc_optimizer_traits_of(request->config.training.optimizer)->matrices == SC_MATRIX_NONE)
		return 0;

	const struct dims x = dims_of(request, NULL, 1, NULL);

	list_all(&x, update, &a);
	if (muon && !experts)
		bytes += adam_params(&a, update) * sc_moment_bytes(request);
	if (sc_muon_sharding(request) == SC_MUON_OWNER && !sc_sharding_rule(request).weights)
		return bytes + owner_bytes(request, &a, experts);
	for (int i = 0; i < a.n; i++)
		if (a.at[i].expert == experts)
			bytes += sc_matrix_bytes(request, &a.at[i], update->replicas.n_ranks);
	return bytes;
}

void sc_params_add(struct sc_params *sum, const struct sc_params *one, double n)
{
	sum->dense += n * one->dense;
	sum->expert += n * one->expert;
	sum->trainable += n * one->trainable;
	sum->trainable_expert += n * one->trainable_expert;
}

static void add_plain_params(const struct dims *x, double n, struct sc_params *out)
{
	out->dense += n;
	out->trainable += x->lora ? 0 : n;
}

static void add_part_params(const struct dims *x, const struct part *p, struct sc_params *out)
{
	double n = p->copies * (p->n * p->k + (x->biases && p->kind != SC_PART_ROUTER ? p->n : 0));

	if (p->kind == SC_PART_EXPERTS_UP || p->kind == SC_PART_EXPERTS_DOWN) {
		out->expert += n;
		out->trainable_expert += x->lora ? 0 : n;
		return;
	}
	add_plain_params(x, n + p->params, out);
	if (x->lora && (p->flags & PART_ADAPTED)) {
		double adapters = (double)x->req->config.training.lora_rank * (p->n + p->k);

		out->dense += adapters;
		out->trainable += adapters;
	}
}

struct sc_params params_of(const struct layer *l)
{
	struct sc_params out = {0};

	for (int i = 0; i < l->n; i++)
		add_part_params(l->x, &l->at[i], &out);
	return out;
}

void sc_transformer_layer_params(const struct sc_request *request, int kind, struct sc_params *out)
{
	const struct dims x = dims_of(request, NULL, 1, NULL), own = dims_of_kind(&x, kind);
	const struct layer l = layer_of(&own, kind);

	*out = params_of(&l);
}

static struct sc_params embed_params_of(const struct dims *x)
{
	struct sc_params out = {0}, tower;

	if (x->traits->denoises) {
		const struct layer l = dit_end_of(x, false);

		return params_of(&l);
	}

	add_plain_params(
		x, (x->vocab + (x->traits->learned_positions ? (double)x->model->seq : 0)) * x->h,
		&out);
	sc_tower_params(x->req, &tower);
	sc_params_add(&out, &tower, 1);
	return out;
}

void sc_transformer_embed_params(const struct sc_request *request, struct sc_params *out)
{
	const struct dims x = dims_of(request, NULL, 1, NULL);

	*out = embed_params_of(&x);
}

static struct sc_params head_params_of(const struct dims *x)
{
	struct sc_params out = {0};

	if (x->traits->denoises) {
		const struct layer l = dit_end_of(x, true);

		return params_of(&l);
	}
	add_plain_params(x, x->vocab * x->h, &out);
	return out;
}

void sc_transformer_head_params(const struct sc_request *request, struct sc_params *out)
{
	const struct dims x = dims_of(request, NULL, 1, NULL);

	*out = head_params_of(&x);
	add_plain_params(&x, (double)x.model->mtp_layers * 2 * x.h * x.h / x.tp, out);
	if (x.model->mtp_layers > 0 && request->config.parallel.pp > 1 &&
	    !request->config.model.tied_embeddings) /* the embedding once more */
		add_plain_params(&x, x.vocab * x.h, out);
}

void sc_transformer_model_params(const struct sc_request *request, struct sc_model_params *out)
{
	struct sc_request whole = *request; /* as one rank holds it that splits nothing */
	struct sc_parallel *p = &whole.config.parallel;
	const struct sc_model *m = &whole.config.model;
	const struct sc_layer_counts counts = sc_model_count(m, 0, m->layers);
	struct sc_params sum = {0}, head;
	struct dims x;

	p->tp = p->etp = p->ep = p->pp = p->cp = 1;
	p->vocab_stages = SC_VOCAB_STAGES_NONE;
	whole.config.training.trainable = SC_TRAIN_ALL;
	x = dims_of(&whole, NULL, 1, NULL);
	x.vocab = (double)m->vocab; /* papers count no padding */
	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
		if (counts.of[kind] > 0) {
			const struct dims own = dims_of_kind(&x, kind);
			const struct layer l = layer_of(&own, kind);
			const struct sc_params layer = params_of(&l);

			sc_params_add(&sum, &layer, counts.of[kind]);
		}
	head = embed_params_of(&x);
	sc_params_add(&sum, &head, 1);
	head = head_params_of(&x);
	if (!m->tied_embeddings)
		sc_params_add(&sum, &head, 1);
	out->total = sum.dense + sum.expert;
	out->active = sum.dense;
	if (sum.expert > 0)
		out->active += sum.expert * (double)m->top_k / (double)m->experts;
}

static double macs_of(const struct layer *l)
{
	double macs = 0;

	for (int i = 0; i < l->n; i++)
		macs += l->at[i].macs;
	return macs;
}

/* A window has w of s for each token, and s(1 - w/2s) fewer at the begin where it is causal. */
double mean_keys(double reach, double s, bool causal)
{
	const double w = fmin(reach, s);

	return w * (causal ? 1 - w / (2 * s) : 1);
}

/* Frozen weights have no gradients; attention's own products always have two more passes. Causal
 * attention counts as full, as in Narayanan et al. 2021, but no farther than a token's document,
 * and adapters are left out. */
double sc_transformer_model_flop(const struct sc_request *request, double *causal)
{
	const struct sc_model *m = &request->config.model;
	double mtp = (double)m->mtp_layers, macs = 0, keys = 0, causal_keys = 0, sparse = 0;
	double causal_sparse = 0;
	const struct sc_layer_counts counts = sc_model_count(m, 0, m->layers + m->mtp_layers);
	const struct dims x = dims_of(request, NULL, 1, NULL);
	const double s = fmin((double)request->config.training.document_tokens, x.s_all);

	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
		if (counts.of[kind] > 0) {
			const enum sc_mixer mixer = sc_model_kind(m, kind).mixer;
			const double n = counts.of[kind];
			const bool windows = m->sliding_window > 0 && mixer != SC_MIX_FULL;
			const double reach = windows ? (double)m->sliding_window : s;

			const struct dims own = dims_of_kind(&x, kind);
			const struct layer l = layer_of(&own, kind);
			const double heads = (double)m->heads * (own.d + own.d_v);

			macs += n * macs_of(&l);
			if (sc_mixer_is_sparse(mixer)) {
				sparse += n * sparse_macs(&x, mixer, false);
				causal_sparse += n * sparse_macs(&x, mixer, true);
			} else if (sc_model_has_attention(m, kind)) {
				keys += n * heads * mean_keys(reach, s, false);
				causal_keys += n * heads * mean_keys(reach, s, x.traits->causal);
			}
		}
	/* The output layer, and a masked model's transform before it, work on rows that need it. */
	double rows_frac = x.traits->masked_lm && x.sw->mlm_gather ? MASKED_FRACTION : 1;
	double transform = x.traits->masked_lm ? x.h * x.h : 0;

	macs += (1 + mtp) * (rows_frac * (x.h * (double)x.model->vocab + transform)) +
		mtp * 2 * x.h * x.h;
	for (int tail = 0; x.traits->denoises && tail < 2; tail++) {
		const struct layer l = dit_end_of(&x, tail);

		macs += macs_of(&l);
	}
	macs *= x.lora ? 2 : 3;
	if (causal)
		*causal = 2 * x.s_all * (macs + 3 * causal_keys + 3 * causal_sparse) +
			  sc_tower_flop(request);
	return 2 * x.s_all * (macs + 3 * keys + 3 * sparse) + sc_tower_flop(request);
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

/* Adds the checks before the update of `params` gradients, of which `updated` are this rank's. */
static void check_gradients(const struct dims *x, const struct sc_update *update, int n)
{
	double f = sc_dtype_bytes(SC_FP32), bytes = sc_grad_bytes(x->req);

	if (fuses_unscale(x->req)) { /* one array is made, whose norm is taken */
		add_rowwise(x, SC_NAME_GRAD_NORM, update->updated * (3 * bytes), n);
		return;
	}
	if (has_master(x->req)) /* to fp32 master gradients, scaled; checked for infinities */
		add_rowwise(x, SC_NAME_GRAD_CHECK, update->params * (bytes + 2 * f), n);
	add_rowwise(x, SC_NAME_GRAD_NORM, update->updated * f, n);
	/* Clipping scales the gradients once more. */
	add_rowwise(x, SC_NAME_GRAD_NORM, update->updated * (2 * f), n);
}

void sc_transformer_optimizer(const struct sc_block_env *env, const struct sc_update *update,
			      struct sc_block *out)
{
	const struct sc_request *request = env->request;
	const int n = 4; /* a kernel for each list of tensors */
	const struct dims x = dims_of(request, env, 1, out);
	struct matrix_list a;

	sc_block_clear(out);
	if (request->config.training.optimizer == SC_OPT_NONE)
		return;
	check_gradients(&x, update, n);
	struct sc_op op = {
		SC_OP_OPTIMIZER,
		SC_FP32,
		{.rowwise = {.read_bytes = update->updated * sc_transformer_update_bytes(request),
			     .n_kernels = n}}};
	if (sc_optimizer_traits_of(request->config.training.optimizer)->matrices !=
	    SC_MATRIX_NONE) {
		list_all(&x, update, &a);
		sc_matrix_steps(env, a.at, a.n, &update->replicas, out);
		if (request->config.training.optimizer == SC_OPT_MUON)
			op.u.rowwise.read_bytes += 2 * sc_moment_bytes(request) *
						   adam_params(&a, update) /
						   fmax(1, update->shard.n_ranks);
	}
	sc_block_add_op(out, env, SC_NAME_OPTIMIZER, &op);
	/* Gradients are zeroed for the next iteration, or set to none. */
	if (!fuses_unscale(request))
		add_rowwise(&x, SC_NAME_GRAD_ZERO, update->params * sc_grad_bytes(request), n);
}
