/* model.tower: parameters as published, FLOP by an independent count, and laws of images and frozen
 * layers. */
#include <math.h>

#include "base/units.h"
#include "predict/predict.h"
#include "predict/transformer/transformer_ops.h"
#include "request_fixture.h"
#include "runner.h"

FIXTURE(requests_begin, requests_end)

#define QWEN                                                                                \
	"model=models/qwen3-vl-8b.yaml cluster.gpu=h100-sxm-80gb gpus=16 model.seq=4096 "   \
	"training.software=megatron-core training.global_batch=64 training.precision=bf16 " \
	"training.micro_batch=1 "

static const struct sc_request *qwen(const char *more)
{
	struct sc_config cfg;

	sc_config_init(&cfg);
	set_all(&cfg, QWEN);
	set_all(&cfg, more);
	return resolve_config(&cfg);
}

/* 8,190,735,360 of the language model and 576,388,336 of the rest (expected.csv of the data
 * beside). */
TEST(parameters_are_as_published)
{
	struct sc_model_params params;

	sc_transformer_model_params(qwen(""), &params);
	ck_assert_double_eq_tol(params.total / (8190735360.0 + 576388336.0), 1, 1e-3);
}

/* Layers of an image's patches, whose products and attention go both ways; four connectors of four
 * patches. */
static double tower_macs(double images)
{
	const double h = 1152, patches = 1024, wide = 4 * h;
	const double layer = 4 * h * h + 2 * h * 4304 + 2 * h * patches;

	return images *
	       (patches * (27 * layer + 1536 * h) + 4 * patches / 4 * (wide * wide + wide * 4096));
}

LOOP_TEST(flop_are_those_of_its_products, 3)
{
	static const int IMAGES[] = {1, 2, 8};
	char text[64];
	double none = sc_transformer_model_flop(qwen("model.tower.images=0"), NULL), with;

	snprintf(text, sizeof(text), "model.tower.images=%d", IMAGES[_i]);
	with = sc_transformer_model_flop(qwen(text), NULL);
	ck_assert_double_eq_tol((with - none) / (6 * tower_macs(IMAGES[_i])), 1, 1e-3);
}

static const struct sc_prediction *predict(const char *more)
{
	return predict_request(qwen(more), NULL);
}

/* A step of its images takes no less than their FLOP at the GPU's peak, and not thrice that. */
TEST(images_take_their_products)
{
	double ms = predict("model.tower.images=16")->iteration_ms -
		    predict("model.tower.images=8")->iteration_ms;
	double least = 64.0 / 16 * 6 * tower_macs(8) / 989e9;

	ck_assert_double_ge(ms, least);
	ck_assert_double_le(ms, 3 * least);
}

/* More images, or layers that are trained, are never faster and never smaller. */
TEST(more_images_and_trained_layers_cost_more)
{
	static const char *const MORE[] = {"model.tower.images=0 model.tower.frozen=true",
					   "model.tower.images=2 model.tower.frozen=true",
					   "model.tower.images=2", "model.tower.images=4"};
	double last_ms = 0, last_gib = 0;

	for (int i = 0; i < N_OF(MORE); i++) {
		const struct sc_prediction *p = predict(MORE[i]);

		ck_assert_double_gt(p->iteration_ms, last_ms);
		ck_assert_double_ge(p->memory.total_gib, last_gib);
		last_ms = p->iteration_ms;
		last_gib = p->memory.total_gib;
	}
}

/* A pass runs one image or none: half an image a sample takes half of one's time, and none takes
 * none. */
TEST(rare_images_take_their_share)
{
	double none = predict("model.tower.images=0")->iteration_ms;
	double half = predict("model.tower.images=0.5")->iteration_ms - none;
	double one = predict("model.tower.images=1")->iteration_ms - none;

	ck_assert_double_eq_tol(half / one, 0.5, 0.03); /* the last pass overlaps reductions */
}

/* Adapters alone are trained, so that an idle tower is memory and nothing else. */
TEST(an_idle_tower_takes_no_time)
{
	static const char *const LORA = "training.trainable=lora training.lora_rank=16 "
					"model.tower.frozen=true model.tower.images=0";
	double idle[2];

	for (int i = 0; i < 2; i++) {
		char text[256];

		snprintf(text, sizeof(text), "%s model.tower.layers=%d", LORA, i ? 27 : 1);
		idle[i] = predict(text)->iteration_ms;
	}
	ck_assert_double_eq_tol(idle[1], idle[0], 1e-6 * idle[0]);
}

/* Packed texts are documents; an image's patches all attend to each other. */
TEST(documents_do_not_divide_images)
{
	double ms[2];

	for (int i = 0; i < 2; i++) {
		char text[128];
		int images = 2;

		ms[i] = 0;
		for (; images <= 4; images += 2) {
			snprintf(text, sizeof(text),
				 "model.tower.patches=4096 model.tower.images=%d "
				 "training.document_tokens=%d",
				 images, i ? 512 : 4096);
			ms[i] = predict(text)->iteration_ms - ms[i];
		}
	}
	ck_assert_double_eq_tol(ms[1] / ms[0], 1, 0.01);
}

/* Only the first stage has it. */
TEST(the_first_stage_runs_it)
{
	static const char *const PP = "parallel.pp=4 model.tower.images=";
	char text[64];
	double ms[2];

	for (int i = 0; i < 2; i++) {
		snprintf(text, sizeof(text), "%s%d", PP, i ? 16 : 0);
		ms[i] = predict(text)->iteration_ms;
	}
	/* 16 micro-batches of a replica wait for the tower's 16 images each. */
	ck_assert_double_ge(ms[1] - ms[0], 64.0 / 4 * 6 * tower_macs(16) / 989e9 * 0.9);
}

/* A GPU's share of its heads and widths. */
TEST(tensor_parallel_ranks_share_it)
{
	struct sc_params one, four;
	double embedding = 151936.0 * 4096;

	sc_transformer_embed_params(qwen("parallel.tp=1"), &one);
	sc_transformer_embed_params(qwen("parallel.tp=4"), &four);
	ck_assert_double_ge(four.dense, (one.dense - 1e6) / 4);
	ck_assert_double_le(four.dense - embedding / 4, (one.dense - embedding) / 4 * 1.05);
}
