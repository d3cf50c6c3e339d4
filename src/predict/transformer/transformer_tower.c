/* A tower in front of a language model: an encoder of images, whose layers attend both ways within
 * an image, and connectors of two products each to the language model's width (Qwen3-VL's mergers,
 * LLaVA's and Megatron Core's multimodal projector). It runs where the embedding does. Its layers
 * are a Transformer's of their own, so that they are parts of a list, too. */
#include "predict/transformer/transformer_tower.h"

#include <math.h>

#include "predict/transformer/transformer_memory.h"

bool sc_has_tower(const struct sc_request *request)
{
	return request->config.model.tower.layers > 0;
}

/* Makes the request one whose model is the tower, and whose samples are images. */
static void tower_request(const struct sc_request *request, struct sc_request *out)
{
	const struct sc_tower *tower = &request->config.model.tower;

	*out = *request;
	out->config.model = (struct sc_model){
		.family = SC_VISION,
		.layers = tower->layers,
		.hidden = tower->hidden,
		.heads = tower->heads,
		.kv_heads = tower->heads,
		.head_dim = tower->hidden / tower->heads,
		.ffn_hidden = tower->ffn_hidden,
		.vocab = 1,
		.seq = tower->patches,
		.biases = 1,
		.sliding_window = SC_NOT_GIVEN,
		.kv_lora_rank = SC_NOT_GIVEN,
		.v_head_dim = SC_NOT_GIVEN,
	};
	out->config.training.fill_fraction = 1;
	out->config.training.document_tokens = tower->patches;
	out->config.parallel.vocab_stages = SC_VOCAB_STAGES_NONE;
}

/* Returns the width of the patches that a connector joins to one token. */
static double merged_width(const struct sc_tower *tower)
{
	return fmax(1, (double)tower->merge) * (double)tower->hidden;
}

/* Returns one rank's part of either of a connector's two products. */
static struct part connector(const struct dims *x, bool second)
{
	const double wide = merged_width(&x->model->tower);

	return second ? (struct part){.name = SC_NAME_PATCH, .n = x->h, .k = wide / x->tp}
		      : (struct part){.name = SC_NAME_PATCH, .n = wide / x->tp, .k = wide};
}

/* Passes whose samples have less than an image run one or none: this is the share with images. */
static double passes_with_images(const struct dims *x)
{
	return fmin(1, x->b * x->model->tower.images);
}

static double images_of_pass(const struct dims *x)
{
	return fmax(1, x->b * x->model->tower.images);
}

/* Returns the language model's sizes with the tokens of the images, on which connectors work. */
static struct dims connector_dims(const struct dims *x)
{
	const struct sc_tower *tower = &x->model->tower;
	struct dims out = *x;

	out.tokens = images_of_pass(x) * (double)tower->patches / fmax(1, (double)tower->merge) *
		     fmax(1, (double)tower->connectors);
	return out;
}

void tower_forward(const struct dims *x)
{
	const struct sc_tower *tower = &x->model->tower;
	const struct part up = connector(x, false), down = connector(x, true);
	const struct dims c = connector_dims(x);
	const size_t begin = x->block->steps.n;
	struct sc_request own;
	struct dims t;
	size_t first;

	if (!(tower->images > 0))
		return;
	tower_request(x->req, &own);
	t = dims_of(&own, x->env, images_of_pass(x), x->block);
	t.counted = x->counted;
	add_gemm(&t, SC_NAME_PATCH, (struct mnk){t.tokens, t.h, (double)tower->patch_dim});
	first = x->block->steps.n;
	whole_layer_forward(&t, 0);
	sc_block_share(x->block, first, (double)tower->layers);
	add_linear(&c, &up);
	add_activation(&c, c.tokens * up.n);
	add_linear(&c, &down);
	if (x->tp > 1)
		add_tp(&c, SC_ALL_REDUCE, c.tokens * x->h, 0);
	sc_block_share(x->block, begin, passes_with_images(x));
}

/* Adds the backward pass of layers that learn, and of the patches' product. */
static void layers_backward(const struct dims *x)
{
	const struct sc_tower *tower = &x->model->tower;
	const size_t first = x->block->steps.n;
	struct sc_request own;
	struct dims t;

	tower_request(x->req, &own);
	t = dims_of(&own, x->env, images_of_pass(x), x->block);
	t.counted = x->counted;
	layer_backward(&t, 0);
	sc_block_share(x->block, first, (double)tower->layers);
	sum_rows(&t, SC_NAME_PATCH + 2, (struct mnk){t.h, (double)tower->patch_dim, t.tokens});
}

/* Frozen layers have no gradients; connectors learn, but beside adapters. */
void tower_backward(const struct dims *x)
{
	const struct part up = connector(x, false), down = connector(x, true);
	const struct dims c = connector_dims(x);
	const size_t begin = x->block->steps.n;

	if (x->lora || !(x->model->tower.images > 0))
		return;
	add_dgrad(&c, &down);
	add_wgrad(&c, &down);
	add_activation_grad(&c, c.tokens * up.n);
	add_wgrad(&c, &up);
	if (!(x->model->tower.frozen > 0)) {
		add_dgrad(&c, &up);
		layers_backward(x);
	}
	sc_block_share(x->block, begin, passes_with_images(x));
}

/* Counts a rank's part of layers and connectors, with biases, and all of the patches' product. */
void sc_tower_params(const struct sc_request *request, struct sc_params *out)
{
	const struct sc_tower *tower = &request->config.model.tower;
	const double wide = merged_width(tower), tp = (double)request->config.parallel.tp;
	const double h = (double)request->config.model.hidden;
	const double joins =
		fmax(1, (double)tower->connectors) * ((wide * wide + wide * h + wide) / tp + h);
	struct sc_request own;
	struct sc_params layer;
	bool frozen = tower->frozen > 0, lora;

	*out = (struct sc_params){0};
	if (!sc_has_tower(request))
		return;
	tower_request(request, &own);
	lora = own.config.training.trainable == SC_TRAIN_LORA;
	own.config.training.trainable = SC_TRAIN_ALL;
	sc_transformer_layer_params(&own, 0, &layer);
	layer.dense *= (double)tower->layers;
	layer.dense += (double)(tower->patch_dim + 1) * (double)tower->hidden;
	out->dense = layer.dense + joins;
	out->trainable = lora ? 0 : frozen ? joins : out->dense;
}

double sc_tower_flop(const struct sc_request *request)
{
	const struct sc_tower *tower = &request->config.model.tower;
	const double wide = merged_width(tower), patches = tower->images * (double)tower->patches;
	const bool lora = request->config.training.trainable == SC_TRAIN_LORA;
	struct sc_request own;
	double layer = 0, joins;

	if (!sc_has_tower(request))
		return 0;
	tower_request(request, &own);
	own.config.training.trainable = SC_TRAIN_ALL;

	const struct dims t = dims_of(&own, NULL, 1, NULL);
	const struct layer l = layer_of(&t, 0);

	for (int i = 0; i < l.n; i++)
		layer += l.at[i].macs;
	layer += (double)tower->heads * 2 * t.d * (double)tower->patches;
	layer = (double)tower->layers * layer + t.h * (double)tower->patch_dim;
	joins = fmax(1, (double)tower->connectors) / fmax(1, (double)tower->merge) * wide *
		(wide + (double)request->config.model.hidden);
	return 2 * patches * ((lora || tower->frozen > 0 ? 1 : 3) * layer + (lora ? 1 : 3) * joins);
}

double sc_tower_kept_bytes(const struct sc_request *request, double samples)
{
	const struct sc_tower *tower = &request->config.model.tower;
	struct sc_request own;

	if (!sc_has_tower(request) || tower->frozen > 0)
		return 0;
	tower_request(request, &own);
	return (double)tower->layers * sc_layer_bytes_of(&own, samples * tower->images, 0).kept;
}
