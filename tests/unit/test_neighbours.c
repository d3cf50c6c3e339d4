/* A small step of a size changes the time of a unit of work little, or a warning says why: every
 * example, steps of seq, hidden, batch, micro-batch, vocabulary and GPUs. */
#include <inttypes.h>

#include "base/rng.h"
#include "example_fixture.h"
#include "runner.h"

#define MOST 1.15 /* times as long */

/* What a warning says of a step that is real, and not small to the machine. */
static const char *const CAUSES[] = {
	"does not divide",    /* a batch: replicas, or micro-batches, that wait for a fuller one */
	"no multiple of",     /* rows of operands that cannot be loaded whole */
	"do not fill nodes",  /* groups that lie askew on their nodes */
	"it sets their pace", /* the host, which launches experts' products one by one */
};
/* Real without a warning: a second replica is the first to exchange gradients. */
static bool begins_to_exchange(const struct sc_config *before, const struct sc_config *after)
{
	return before->parallel.dp == 1 && after->parallel.dp > 1;
}
/* As well: half as many micro-batches leave more of a pipeline empty, which the prediction shows as
 * its bubble. */
static bool empties_pipeline(const struct sc_config *before, const struct sc_config *after)
{
	const int64_t of_replicas = before->parallel.dp * after->training.micro_batch;

	return after->training.micro_batch > before->training.micro_batch &&
	       after->training.global_batch < before->parallel.pp * of_replicas;
}

struct point {
	bool done;
	double cost; /* of a unit of work */
	double samples_per_s;
	struct sc_warnings warnings;
};

static struct point predict(const struct sc_config *config)
{
	struct sc_prediction *out = sc_arena_calloc(&arena, 1, sizeof(*out));
	struct sc_request *req = sc_arena_calloc(&arena, 1, sizeof(*req));
	struct sc_err err = {0};
	struct point p = {.done = false};

	if (sc_config_resolve(config, catalog, NULL, req, &err) ||
	    predict_chosen(req, &opts, out, &err))
		return p; /* a neighbour that is refused */
	p.done = true;
	p.warnings = out->warnings;
	p.samples_per_s = out->samples_per_s;
	p.cost = req->config.model.family == SC_DLRM ? (double)req->config.gpus / out->samples_per_s
						     : 1 / out->mfu;
	return p;
}

static bool is_told(const struct sc_warnings *w)
{
	for (size_t i = 0; i < w->n; i++)
		for (size_t c = 0; c < sizeof(CAUSES) / sizeof(CAUSES[0]); c++)
			if (strstr(w->text[i], CAUSES[c]))
				return true;
	return false;
}

struct walk {
	const char *name; /* of the example */
	struct sc_config resolved;
	struct point here;
	int n_tried;
};

static void compare(struct walk *w, const struct sc_config *config, const char *key, int64_t value)
{
	struct point there = predict(config);
	double ratio;

	if (!there.done)
		return;
	w->n_tried++;
	ratio = there.cost / w->here.cost;
	if (ratio <= MOST && ratio >= 1 / MOST)
		return;
	if (is_told(ratio > 1 ? &there.warnings : &w->here.warnings) ||
	    begins_to_exchange(&w->resolved, config) || empties_pipeline(&w->resolved, config))
		return;
	ck_assert_msg(false, "%s: %s %" PRId64 " costs %.3f times as much, and nothing says why",
		      w->name, key, value, ratio);
}

static int64_t *seq(struct sc_config *c)
{
	return &c->model.seq;
}

static int64_t *hidden(struct sc_config *c)
{
	return &c->model.hidden;
}

static int64_t *vocab(struct sc_config *c)
{
	return &c->model.vocab;
}

static int64_t *global_batch(struct sc_config *c)
{
	return &c->training.global_batch;
}

static int64_t *micro_batch(struct sc_config *c)
{
	return &c->training.micro_batch;
}

static const struct {
	const char *key;
	int64_t *(*at)(struct sc_config *c);
} SIZES[] = {
	{"model.seq", seq},
	{"model.hidden", hidden},
	{"model.vocab", vocab},
	{"training.global_batch", global_batch},
	{"training.micro_batch", micro_batch},
};
enum { N_SIZES = sizeof(SIZES) / sizeof(SIZES[0]), N_STEPS = 11, N_SHORT = 200 };

/* One and two to each side; a per cent; some more to multiples that kernels like. */
static int64_t step(int64_t v, int i)
{
	const int64_t steps[N_STEPS] = {v - 1,
					v + 1,
					v - 2,
					v + 2,
					v * 99 / 100,
					v * 101 / 100,
					v * 97 / 800 * 8,
					v * 103 / 800 * 8,
					v * 98 / 6400 * 64,
					v * 102 / 6400 * 64,
					v * 104 / 12800 * 128};

	return steps[i];
}

static bool is_small(int64_t before, int64_t after)
{
	double change = fabs((double)(after - before));

	return after > 0 && after != before && change <= fmax(2, 0.05 * (double)before);
}

/* A step each way at least: what is one less is often refused. */
static void walk_sizes(struct walk *w)
{
	const int n = n_cases(N_STEPS) > 1 ? n_cases(N_STEPS) : 2;

	for (int s = 0; s < N_SIZES; s++) {
		int64_t value = *SIZES[s].at(&w->resolved);

		for (int i = 0; value != SC_NOT_GIVEN && i < n; i++) {
			struct sc_config config = w->resolved;

			*SIZES[s].at(&config) = step(value, i);
			if (is_small(value, step(value, i)))
				compare(w, &config, SIZES[s].key, step(value, i));
		}
	}
}

/* Replicas more or fewer, each with the same work. */
static void walk_gpus(struct walk *w)
{
	const struct sc_config *base = &w->resolved;
	int64_t dp = base->parallel.dp;

	for (int64_t more = dp > 2 ? -2 : 1 - dp; more <= 2; more++) {
		struct sc_config config = *base;

		config.parallel.dp = dp + more;
		config.gpus = base->gpus / dp * (dp + more);
		config.training.global_batch = base->training.global_batch / dp * (dp + more);
		if (base->training.global_batch % dp == 0 && more)
			compare(w, &config, "gpus", config.gpus);
	}
}

FIXTURE(set_up, tear_down)

LOOP_TEST(small_steps_are_small, find_examples())
{
	struct walk w = {.name = example_name(_i)};
	struct sc_request *req = sc_arena_calloc(&arena, 1, sizeof(*req));
	struct sc_config config;
	struct sc_err err = {0};

	load_example(_i, &config);
	ck_assert_msg(sc_config_resolve(&config, catalog, NULL, req, &err) == 0, "%s", err.text);
	w.resolved = req->config; /* with head_dim and all that would follow a step */
	w.here = predict(&config);
	ck_assert(w.here.done);
	walk_sizes(&w);
	walk_gpus(&w);
	ck_assert_int_gt(w.n_tried, 0);
}

/* Of short sequences, whose attention is a few tiles of queries; beyond a tile's edge, too. */
LOOP_TEST(more_tokens_take_longer, n_cases(N_SHORT))
{
	static const char *const GPUS[] = {"b200-sxm-180gb", "h100-sxm-80gb", "a100-sxm-80gb",
					   "v100-sxm-16gb", "mi300x"};
	static const char *const FAMILIES[] = {"bert", "gpt", "llama"};
	struct sc_rng rng;
	double samples_per_s[2];
	struct point p;

	sc_rng_init(&rng, (uint64_t)_i);
	const int tp = 1 << sc_rng_below(&rng, 3), cp = 1 << sc_rng_below(&rng, 3);
	const int seq = cp * 128 << sc_rng_below(&rng, 5);
	const int more = 2 * tp * cp * (1 + (int)sc_rng_below(&rng, 12));
	const int batch = 1 << sc_rng_below(&rng, 3), heads = 4 << sc_rng_below(&rng, 4);
	const char *gpu = GPUS[sc_rng_below(&rng, 5)], *family = FAMILIES[sc_rng_below(&rng, 3)];

	for (int i = 0; i < 2; i++) {
		struct sc_config config;
		struct sc_err err = {0};
		char text[512], *save = NULL;

		snprintf(text, sizeof(text),
			 "cluster.gpu=%s cluster.gpus_per_node=8 cluster.nics_per_node=8 "
			 "cluster.nic_gbit_s=400 model.family=%s model.layers=8 model.hidden=%d "
			 "model.heads=%d model.vocab=32000 model.seq=%d gpus=%d parallel.tp=%d "
			 "parallel.cp=%d training.global_batch=%d training.micro_batch=%d "
			 "training.precision=fp16 training.attention=flash "
			 "training.software=megatron-core",
			 gpu, family, heads * 64, heads, seq + i * more, tp * cp, tp, cp, batch,
			 batch);
		sc_config_init(&config);
		for (char *word = strtok_r(text, " ", &save); word;
		     word = strtok_r(NULL, " ", &save)) {
			char *value = strchr(word, '=');

			*value++ = '\0';
			ck_assert_int_eq(sc_config_set(&config,
						       &(struct sc_setting){word, value, "test"},
						       &arena, &err),
					 0);
		}
		p = predict(&config);
		ck_assert(p.done);
		samples_per_s[i] = p.samples_per_s;
	}
	ck_assert_msg(
		samples_per_s[1] < 1.005 * samples_per_s[0],
		"%s on %s, heads %d, tp %d, cp %d, batch %d: seq %d takes %.4f times as long as %d",
		family, gpu, heads, tp, cp, batch, seq + more, samples_per_s[0] / samples_per_s[1],
		seq);
}
