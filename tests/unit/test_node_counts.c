/* What a config makes of a graph is bounded: every software and family, with gradients in turns and
 * launches that block, and numbers of micro-batches beyond all memory. */
#include "core/profile/paths.h"
#include "request_fixture.h"

static void set_up(void)
{
	requests_begin();
}

static void tear_down(void)
{
	requests_end();
}

FIXTURE(set_up, tear_down)

static const char *const FAMILIES[] = {"models/gpt-1.7b.yaml",
				       "models/llama3-8b.yaml",
				       "models/mpt-7b.yaml",
				       "models/bert-large.yaml",
				       "models/opt-1.3b.yaml",
				       "models/qwen3-30b-a3b.yaml",
				       "models/dlrm-dcnv2.yaml sharding.planner=lookups",
				       "models/resnet50-layers.yaml"};

/* Coarse detail, so some nodes for each layer of each kind of ranks; a DLRM has several steps of
 * them. */
static size_t most_nodes(const char *family)
{
	return strstr(family, "dlrm") ? 20000 : 2000;
}

LOOP_TEST(every_software_and_family, N_OF(FAMILIES))
{
	static const char *const TURNS[] = {"c3.policy.dp=serial", "training.launch_blocking=true"};
	const char *const *ids;
	const size_t n = sc_config_ids("software", &arena, &ids);
	int n_predicted = 0;

	for (size_t i = 0; i < n; i++)
		for (int t = 0; t < N_OF(TURNS); t++) {
			struct sc_arena_mark mark = sc_arena_mark(&arena);
			struct sc_request *req = sc_arena_calloc(&arena, 1, sizeof(*req));
			struct sc_prediction *out = sc_arena_calloc(&arena, 1, sizeof(*out));
			struct sc_predict_opts opts;
			struct sc_config config;
			struct sc_err err = {0};

			sc_predict_opts_init(&opts);
			sc_config_init(&config);
			set_all(&config,
				sc_arena_printf(
					&arena,
					"cluster.gpu=h100-sxm-80gb gpus=16 model=%s "
					"training.global_batch=65536 training.software=%s %s",
					FAMILIES[_i], ids[i], TURNS[t]));
			if (sc_config_resolve(&config, catalog, "test", req, &err) == 0 &&
			    predict_chosen(req, &opts, out, &err) == 0) {
				ck_assert_msg(out->n_nodes < most_nodes(FAMILIES[_i]),
					      "%s, %s, %s: %zu nodes", FAMILIES[_i], ids[i],
					      TURNS[t], (size_t)out->n_nodes);
				n_predicted++;
			}
			sc_arena_rewind(&arena, mark);
		}
	ck_assert_int_gt(n_predicted, 10);
}

/* Refused before any memory is taken. */
TEST(graph_beyond_memory_is_refused)
{
	struct sc_predict_opts opts;
	struct sc_prediction out;
	struct sc_err err = {0};
	const struct sc_request *req = request_of(
		"cluster.gpu=h100-sxm-80gb gpus=64 model=models/gpt-175b.yaml parallel.tp=8 parallel.pp=8 "
		"training.global_batch=262144 training.micro_batch=1",
		"");

	sc_predict_opts_init(&opts);
	opts.detail = SC_DETAIL_FULL;
	ck_assert_int_eq(sc_predict(predictor, req, &opts, &out, &err), -SC_ELIMIT);
	ck_assert_msg(strstr(err.text, "use coarse detail"), "%s", err.text);
}
