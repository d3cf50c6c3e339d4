/* training.muon_sharding: what each way to share Muon's matrices out computes, sends and holds, by
 * hand and as laws over random configs. */
#include <math.h>

#include "base/units.h"
#include "predict/predict.h"
#include "random_config.h"
#include "runner.h"

enum { N_RANDOM = 300, N_AT_ONCE = 100 };

/* The same request by each way. */
static const char *const WAYS[] = {"training.muon_sharding=none", "training.muon_sharding=owner",
				   "training.muon_sharding=parts"};
enum { NONE, OWNER, PARTS, N_WAYS };

FIXTURE(requests_begin, requests_end)

#define LLAMA                                                                                   \
	"model=models/llama2-7b.yaml cluster.gpu=h100-sxm-80gb gpus=8 cluster.gpus_per_node=8 " \
	"model.seq=4096 training.software=megatron-core training.global_batch=8 "               \
	"training.precision=bf16 training.optimizer=muon training.micro_batch=1 parallel.tp=1 " \
	"parallel.pp=1 "

static const struct sc_prediction *llama(const char *more)
{
	struct sc_config cfg;

	sc_config_init(&cfg);
	set_all(&cfg, LLAMA);
	set_all(&cfg, more);
	return predict_request(resolve_config(&cfg), NULL);
}

static double step_ms(const char *more)
{
	return llama(more)->reading.breakdown_ms[SC_OWN_OPTIMIZER];
}

/* Llama 2 7B: 32 layers of one matrix 12288 x 4096, one 4096 x 4096 and three 11008 x 4096. Five
 * steps of 4 m^2 n + 2 m^3. */
static double orthogonalising_flop(void)
{
	const double m = 4096, n[] = {12288, 4096, 11008, 11008, 11008};
	double flop = 0;

	for (int i = 0; i < 5; i++)
		flop += 32 * 5 * (4 * m * m * n[i] + 2 * m * m * m);
	return flop;
}

TEST(owners_share_products_evenly_where_matrices_divide)
{
	const double all_ms = orthogonalising_flop() / 989e9;
	double none = step_ms("parallel.sharding=zero1 training.muon_sharding=none");
	double owner = step_ms("parallel.sharding=zero1 training.muon_sharding=owner");
	double parts = step_ms("parallel.sharding=zero1 training.muon_sharding=parts");

	/* 32 or 96 of a size over eight ranks: seven of eight products are others'. */
	ck_assert_double_ge(none - owner, 7.0 / 8 * all_ms);
	ck_assert_double_le(none - owner, 7.0 / 8 * all_ms * 1.6);
	/* One more, the largest, of 160 matrices. */
	ck_assert_double_gt(parts, owner);
	ck_assert_double_le(parts - owner, (none - owner) * 8 / 7 * 2 / 160);
}

TEST(all_ranks_gather_what_is_spread_over_them)
{
	const double bytes = 2.0 * 32 * 4096 * (12288 + 4096 + 3 * 11008);
	double none = llama("parallel.sharding=zero1 training.muon_sharding=none")->iteration_ms;
	double whole = llama("parallel.sharding=zero1 training.muon_sharding=owner")->iteration_ms;
	double products = step_ms("parallel.sharding=zero1 training.muon_sharding=none") -
			  step_ms("parallel.sharding=zero1 training.muon_sharding=owner");
	double gather = none - whole - products, least = 7.0 / 8 * bytes / 450e6;

	ck_assert_double_ge(gather, least);
	ck_assert_double_le(gather, 2.5 * least);
}

/* Three of a size over eight ranks: somebody has a whole one, and its states; the layer's other
 * matrices fall to others. */
TEST(the_busiest_owner_has_a_whole_matrix)
{
	const double layer = 4096.0 * (12288 + 4096 + 3 * 11008), most = 4096.0 * 12288;
	const struct sc_prediction *owner =
		llama("model.layers=1 parallel.sharding=zero1 training.muon_sharding=owner");
	const struct sc_prediction *none =
		llama("model.layers=1 parallel.sharding=zero1 training.muon_sharding=none");
	double more = (owner->memory.optimizer_gib - none->memory.optimizer_gib) * SC_BYTES_PER_GIB;

	ck_assert_double_eq_tol(more / ((most - layer / 8) * 8), 1, 1e-6); /* moment and master */
}

/* Adam steps the embedding, the output layer and the norms, with a second moment in fp32: Muon
 * holds that much beside the one moment and the master weight that each parameter has. */
TEST(adam_steps_what_is_no_matrix)
{
	const double layer = 4096.0 * (12288 + 4096 + 3 * 11008), ends = 2.0 * 32000 * 4096;
	const double gains = 4096.0 * 2 * 32, all = 32 * layer + ends + gains;
	const double held = llama("parallel.sharding=none")->memory.optimizer_gib;

	ck_assert_double_eq_tol(held * SC_BYTES_PER_GIB / (8 * all + 4 * (ends + gains)), 1, 1e-9);
}

TEST(owners_stand_by_default_where_states_are_sharded)
{
	ck_assert_double_eq_tol(
		llama("parallel.sharding=zero1")->iteration_ms,
		llama("parallel.sharding=zero1 training.muon_sharding=owner")->iteration_ms, 1e-9);
	ck_assert_double_eq_tol(
		llama("parallel.sharding=none")->iteration_ms,
		llama("parallel.sharding=none training.muon_sharding=none")->iteration_ms, 1e-9);
}

/* Neither more ranks' products nor what they gather is ever less than a share of them; it holds no
 * more but whole matrices. */
LOOP_TEST(sharing_matrices_out_is_never_slower, N_RANDOM / N_AT_ONCE)
{
	static struct sc_prediction out[N_WAYS];
	int n_compared = 0;

	for (int i = 0; i < n_cases(N_AT_ONCE); i++) {
		const uint64_t seed = (uint64_t)(_i * N_AT_ONCE + i);
		struct sc_predict_opts opts;
		struct sc_err err = {0};
		bool have[N_WAYS] = {false};

		sc_predict_opts_init(&opts);
		for (int way = 0; way < N_WAYS; way++) {
			struct sc_request request;
			struct sc_config config;

			load_random(seed, &config);
			set_all(&config,
				"training.optimizer=muon cluster.nic_gbit_s=400 cluster.nics_per_node=8");
			set_all(&config, WAYS[way]);
			have[way] =
				sc_config_resolve(&config, catalog, NULL, &request, &err) == 0 &&
				sc_predict(predictor, &request, &opts, &out[way], &err) == 0;
		}
		if (!have[OWNER])
			continue;
		ck_assert(have[NONE]);
		n_compared++;
		for (int way = OWNER; way < N_WAYS; way++)
			if (have[way]) {
				ck_assert_msg(out[way].iteration_ms <=
						      out[NONE].iteration_ms * (1 + 1e-9),
					      "seed %llu, %s: %g over %g ms",
					      (unsigned long long)seed, WAYS[way],
					      out[way].iteration_ms, out[NONE].iteration_ms);
				ck_assert_double_ge(out[way].memory.total_gib,
						    out[NONE].memory.total_gib - 1e-9);
			}
	}
	ck_assert_int_gt(n_compared, 0);
}
