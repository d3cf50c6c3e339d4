/* A DLRM that reads sequences (HSTU, Zhai et al., arXiv:2402.17152;
 * meta-recsys/generative-recommenders, modules/dlrm_hstu.py, stu.py, preprocessors.py): MLPs make
 * tokens of the vectors that were looked up; layers of one UVQK product, pointwise attention over
 * each sample's own tokens and a gated output mix them; the last token meets the candidate's
 * vectors. Kernels are the fused ones (Triton). Lengths differ: attention takes their squares, and
 * one of many ranks has most. */
#include <gsl/gsl_cdf.h>
#include <math.h>

#include "predict/dlrm/dlrm_dense_priv.h"

#define ACTION_WIDTH 24.0 /* three bits of 8 elements (ActionEncoder) */
#define TIME_FEATURES 4.0 /* sine and cosine of hour and day (TimestampLayerNormPostprocessor) */

/* The widths of a token, of all heads, of the MLPs, and of the vectors of the first table and the
 * others. */
struct widths {
	double h, heads, inner, first, others;
	double tables; /* tables whose lookups are tokens */
};

static struct widths widths_of(const struct sc_model *model)
{
	const struct sc_hstu *hstu = &model->hstu;
	const struct sc_table *tables = model->tables.at;
	struct widths out = {.h = (double)hstu->hidden,
			     .heads = (double)(hstu->heads * hstu->head_dim),
			     .inner = (double)hstu->token_mlp};

	for (size_t i = 0; i < model->tables.n; i++)
		if (tables[i].sequence) {
			double width = (double)(tables[i].dim * tables[i].count);

			*(out.tables > 0 ? &out.others : &out.first) += width;
			out.tables += (double)tables[i].count;
		}
	return out;
}

/* Returns the expected maximum of so many normal numbers (Blom, 1958). */
static double expected_most(double n)
{
	return n > 1 ? gsl_cdf_ugaussian_Pinv((n - 0.375) / (n + 0.25)) : 0;
}

double sc_hstu_tokens(const struct sc_request *request, bool most)
{
	const struct sc_hstu *hstu = &request->config.model.hstu;
	const double samples = (double)request->config.training.micro_batch;

	return hstu->tokens * (1 + (most ? hstu->tokens_cv / sqrt(samples) *
						    expected_most((double)request->config.gpus)
					 : 0));
}

/* One product, or the equal ones of one MLP, with all that counts and kernels go by. */
struct product {
	enum sc_op_name name;
	double n, k;
	bool of_sample; /* its rows are samples, else tokens */
	bool again;     /* backward runs it again (STULayerConfig, recompute_uvqk) */
};
enum { MAX_BEFORE = 8, OF_LAYER = 2, MAX_BEHIND = 4 };

static int put_mlp(struct product *out, int at, double width, const struct widths *w)
{
	if (!(width > 0))
		return at;
	out[at++] = (struct product){SC_NAME_TOKEN_MLP, w->inner, width, false, false};
	out[at++] = (struct product){SC_NAME_TOKEN_MLP, w->h, w->inner, false, false};
	return at;
}

/* Lists the products before the layers: MLPs of the first table's vectors, of the others' together
 * and of a token's action, and one of a sample's vectors that are none of its tokens'. */
static int list_before(const struct sc_model *model, struct product *out)
{
	const struct widths w = widths_of(model);
	const struct sc_table *tables = model->tables.at;
	double single = 0;
	int n = 0;

	for (size_t i = 0; i < model->tables.n; i++)
		if (!tables[i].sequence)
			single += (double)(tables[i].dim * tables[i].count * tables[i].features);
	if (w.inner > 0) {
		n = put_mlp(out, n, w.first, &w);
		n = put_mlp(out, n, w.others, &w);
		n = put_mlp(out, n, ACTION_WIDTH, &w);
	}
	if (single > 0)
		out[n++] = (struct product){SC_NAME_TOKEN_MLP, w.h, single, true, false};
	return n;
}

static void list_layer(const struct widths *w, struct product out[OF_LAYER])
{
	out[0] = (struct product){SC_NAME_UVQK, 4 * w->heads, w->h, false, true};
	out[1] = (struct product){SC_NAME_STU_OUTPUT, w->h, 3 * w->heads, false, false};
}

/* Lists the products that join the candidate's vectors and the last token. */
static int list_behind(const struct widths *w, struct product out[MAX_BEHIND])
{
	out[0] = (struct product){SC_NAME_TOKEN_MLP, w->h, w->first + w->others, true, false};
	out[1] = (struct product){SC_NAME_TOKEN_MLP, w->h, w->h, true, false};
	out[2] = (struct product){SC_NAME_TOKEN_MLP, w->h, w->h + TIME_FEATURES, true, false};
	return 3;
}

/* Returns the multiply-adds of causal attention forward, for a sample. */
static double attention_macs(const struct sc_hstu *hstu, double heads)
{
	return hstu->tokens * hstu->tokens * (1 + hstu->tokens_cv * hstu->tokens_cv) * heads;
}

static void count_products(struct sc_dlrm *dlrm, const struct product *list, int n)
{
	const double tokens = dlrm->request->config.model.hstu.tokens;

	for (int i = 0; i < n; i++) {
		dlrm->dense_params += list[i].n * list[i].k + list[i].n;
		dlrm->model_flop +=
			3 * 2 * list[i].n * list[i].k * (list[i].of_sample ? 1 : tokens);
	}
}

/* Adds the sizes. A layer keeps its input and attention's output for the most tokens that a rank
 * has; norm, UVQK product and gate are run again (recompute_normed_x, _uvqk, _y). */
void sc_hstu_sizes(struct sc_dlrm *dlrm)
{
	const struct sc_model *model = &dlrm->request->config.model;
	const struct widths w = widths_of(model);
	const double layers = (double)model->hstu.layers, norms = 2 * w.h + 2 * w.heads;
	const double e = sc_dtype_bytes(sc_storage_dtype(dlrm->request->config.training.precision));
	struct product list[MAX_BEFORE + MAX_BEHIND];
	double mlps = 0;
	int n = list_before(model, list);

	for (int i = 0; i < n; i++)
		mlps += list[i].of_sample ? 0 : list[i].n;
	count_products(dlrm, list, n);
	list_layer(&w, list);
	for (int64_t i = 0; i < model->hstu.layers; i++)
		count_products(dlrm, list, OF_LAYER);
	count_products(dlrm, list, list_behind(&w, list));
	dlrm->dense_params += layers * norms;
	dlrm->model_flop += layers * 3 * 2 * attention_macs(&model->hstu, w.heads);
	dlrm->kept_bytes += dlrm->batch * sc_hstu_tokens(dlrm->request, true) *
			    (layers * (w.h + w.heads) + mlps) * e;
}

static double tokens_of(const struct dense_part *p)
{
	return p->b * p->cls->tokens;
}

static struct dense_part rows_of(const struct dense_part *p, const struct product *of)
{
	struct dense_part out = *p;

	out.b = of->of_sample ? p->b : tokens_of(p);
	return out;
}

/* Adds products; SiLU and norms between the layers of an MLP are a pass each way. */
static void products_forward(const struct dense_part *p, const struct product *list, int n)
{
	for (int i = 0; i < n; i++) {
		const struct dense_part own = rows_of(p, &list[i]);

		dense_gemm(&own, list[i].name, list[i].n, list[i].k);
		if (list[i].name == SC_NAME_TOKEN_MLP)
			dense_rowwise(&own, SC_NAME_STU_NORM, own.b * list[i].n * 3 * p->e, 1);
	}
}

static void product_backward(const struct dense_part *p, const struct product *of)
{
	const struct dense_part own = rows_of(p, of);

	if (of->again)
		dense_gemm(&own, of->name, of->n, of->k);
	if (of->name == SC_NAME_TOKEN_MLP)
		dense_rowwise(&own, SC_NAME_STU_NORM_GRAD, own.b * of->n * 5 * p->e, 2);
	dense_gemm(&own, (enum sc_op_name)(of->name + 1), of->k, of->n);
	dense_wgrad(&own, (enum sc_op_name)(of->name + 2), of->n, of->k);
}

/* Attends to sequences of several lengths as to so many of one, with as many tokens and pairs. */
static void attend(const struct dense_part *p, bool backward)
{
	const struct sc_hstu *hstu = &p->model->hstu;
	const double spread = 1 + hstu->tokens_cv * hstu->tokens_cv;
	const double seq = p->cls->tokens * spread;
	struct sc_op op = {SC_OP_ATTENTION,
			   p->storage,
			   {.attention = {.batch = p->b / spread,
					  .heads = (double)hstu->heads,
					  .kv_heads = (double)hstu->heads,
					  .seq_q = seq,
					  .seq_kv = seq,
					  .head_dim = (double)hstu->head_dim,
					  .causal = true,
					  .backward = backward}}};

	const size_t first = p->block->steps.n;
	struct sc_cost *cost;

	sc_block_add_op(p->block, &p->cls->env,
			(uint16_t)(backward ? SC_NAME_JAGGED_GRAD : SC_NAME_JAGGED), &op);
	cost = &p->block->steps.at[first].cost;
	cost->work_us = sc_quantize_us(cost->work_us / p->habits->jagged_eff);
}

/* Adds the input norm, product and attention, whose output is normed and multiplied by U, beside
 * both: three tensors as wide as all heads, which dropout thins (triton_hstu_linear.py,
 * _ln_mul_dropout). */
static void layer_forward(const struct dense_part *p, const struct widths *w,
			  const struct product list[OF_LAYER])
{
	const double t = tokens_of(p);

	dense_rowwise(p, SC_NAME_STU_NORM, t * 2 * w->h * p->e, 1);
	products_forward(p, &list[0], 1);
	attend(p, false);
	dense_rowwise(p, SC_NAME_STU_NORM, t * (2 + 3) * w->heads * p->e, 1);
	products_forward(p, &list[1], 1);
}

static void layer_backward(const struct dense_part *p, const struct widths *w,
			   const struct product list[OF_LAYER])
{
	const double t = tokens_of(p);

	dense_rowwise(p, SC_NAME_STU_NORM, t * 2 * w->h * p->e, 1);
	dense_rowwise(p, SC_NAME_STU_NORM, t * (2 + 3) * w->heads * p->e, 1);
	product_backward(p, &list[1]);
	dense_rowwise(p, SC_NAME_STU_NORM_GRAD, t * (2 + 3 + 2) * w->heads * p->e, 2);
	attend(p, true);
	product_backward(p, &list[0]);
	dense_rowwise(p, SC_NAME_STU_NORM_GRAD, t * 5 * w->h * p->e, 2);
}

/* Lays out a sequence: vectors are cast, those of all tables but the first put side by side before;
 * tokens are joined with a sample's own, and positions and times added (concat_2D_jagged,
 * HSTUPositionalEncoder). Backward moves the same bytes. */
static void lay_out(const struct dense_part *p, const struct widths *w, bool backward)
{
	const double t = tokens_of(p), f = sc_dtype_bytes(SC_FP32);
	const double vectors = w->first * (f + p->e) + w->others * (2 * f + f + p->e);

	dense_rowwise(p, backward ? SC_NAME_STU_NORM_GRAD : SC_NAME_STU_NORM,
		      t * (vectors + (2 + 2 + 3) * w->h * p->e), 6);
}

void sc_hstu_ops(const struct dense_part *p, bool backward)
{
	const struct widths w = widths_of(p->model);
	struct product before[MAX_BEFORE], layer[OF_LAYER], behind[MAX_BEHIND];
	const int n_before = list_before(p->model, before), n_behind = list_behind(&w, behind);

	list_layer(&w, layer);
	if (!backward) {
		lay_out(p, &w, false);
		products_forward(p, before, n_before);
		for (int64_t i = 0; i < p->model->hstu.layers; i++)
			layer_forward(p, &w, layer);
		products_forward(p, behind, n_behind);
		return;
	}
	for (int i = n_behind; i-- > 0;)
		product_backward(p, &behind[i]);
	for (int64_t i = 0; i < p->model->hstu.layers; i++)
		layer_backward(p, &w, layer);
	for (int i = n_before; i-- > 0;)
		product_backward(p, &before[i]);
	lay_out(p, &w, true);
}
