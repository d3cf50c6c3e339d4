/* training.optimizer: bytes of its states and of its step as the papers say, and Muon's matrix
 * products. */
#include "base/units.h"
#include "example_fixture.h"
#include "runner.h"

static void set(struct sc_config *config, const char *path, const char *value)
{
	struct sc_err err = {0};

	ck_assert_msg(sc_config_set(config, &(struct sc_setting){path, value, "--set"}, &arena,
				    &err) == 0,
		      "%s", err.text);
}

static void load_named(const char *name, struct sc_config *config)
{
	int at = 0;

	while (strcmp(example_name(at), name) != 0)
		at++;
	load_example(at, config);
}

static struct sc_prediction *predict_config(struct sc_config *config)
{
	return predict_request(resolve_config(config), &opts);
}

static struct sc_prediction *predict_with(const char *optimizer, const char *grad_worker_frac)
{
	struct sc_config config;

	load_named("llama3-70b-nemo-h100.yaml", &config);
	set(&config, "parallel.sharding", "none");
	set(&config, "training.optimizer", optimizer);
	if (grad_worker_frac)
		set(&config, "training.grad_worker_frac", grad_worker_frac);
	return predict_config(&config);
}

static struct sc_prediction *predict(const char *optimizer)
{
	return predict_with(optimizer, NULL);
}

/* Bytes a parameter of states beside the fp32 weight; of a step: fp32 gradient, weight and states,
 * bf16 copy. */
static const struct {
	const char *name;
	double state_bytes, step_bytes;
} OPTIMIZERS[] = {
	{"adam", 8, 4 + 8 + 16 + 2},      {"sgd", 4, 4 + 8 + 8 + 2},
	{"lion", 4, 4 + 8 + 8 + 2},       {"adam8bit", 2 + 8 / 2048.0, 4 + 8 + 4 + 16 / 2048.0 + 2},
	{"lamb", 8, 4 + 8 + 16 + 2 + 16}, {"adafactor", 0, 4 + 8 + 2 + 8},
};

FIXTURE(set_up, tear_down)

LOOP_TEST(states_and_steps, N_OF(OPTIMIZERS))
{
	const struct sc_prediction *adam = predict("adam"), *p = predict(OPTIMIZERS[_i].name);
	double params =
		adam->memory.optimizer_gib / (8 + 4); /* two moments and the master weight */
	double ms = p->reading.breakdown_ms[SC_OWN_OPTIMIZER] -
		    adam->reading.breakdown_ms[SC_OWN_OPTIMIZER];
	double bytes =
		(OPTIMIZERS[_i].step_bytes - OPTIMIZERS[0].step_bytes) * params * SC_BYTES_PER_GIB;
	double peak_ms = bytes / 3.35e9; /* of an H100's memory */

	ck_assert_double_eq_tol(p->memory.optimizer_gib, params * (OPTIMIZERS[_i].state_bytes + 4),
				1e-6);
	ck_assert_double_ge(fabs(ms), fabs(peak_ms) * 0.98);
	ck_assert_double_le(fabs(ms), fabs(peak_ms) * 1.5 + 0.01);
}

/* Llama 3 70B's layer: width 8192, 8 of 64 heads for keys, feed-forward 28672; split over tp. Five
 * steps, each 4 m^2 n + 2 m^3 FLOP for a matrix m x n, m <= n. */
static double flop_of(double m, double n)
{
	double low = fmin(m, n), high = fmax(m, n);

	return 5 * (4 * low * low * high + 2 * low * low * low);
}

TEST(muon_orthogonalises)
{
	const struct sc_prediction *sgd = predict("sgd"), *muon = predict("muon");
	const double tp = 4, pp = 4, peak_flop_ms = 989e9;
	double layer = flop_of((8192 + 2 * 1024) / tp, 8192) + flop_of(8192, 8192 / tp) +
		       3 * flop_of(28672 / tp, 8192);
	double least_ms = 80 / pp * layer / peak_flop_ms;
	double ms = muon->reading.breakdown_ms[SC_OWN_OPTIMIZER] -
		    sgd->reading.breakdown_ms[SC_OWN_OPTIMIZER];

	/* Adam has a second moment of the embedding and the norms, a few of a hundred parameters.
	 */
	ck_assert_double_gt(muon->memory.optimizer_gib, sgd->memory.optimizer_gib);
	ck_assert_double_lt(muon->memory.optimizer_gib, 1.05 * sgd->memory.optimizer_gib);
	ck_assert_double_ge(
		ms, 0.8 * least_ms); /* the embedding's share of the stage is not one of them */
	ck_assert_double_le(ms, 2.5 * least_ms);
}

/* The matrices of that layer, outputs by inputs, and how many: a rank's part of them. */
static const struct {
	double m, n, count;
} MATRICES[] = {{(8192 + 2 * 1024) / 4.0, 8192, 1}, {8192, 8192 / 4.0, 1}, {28672 / 4.0, 8192, 3}};
enum { N_MATRICES = 3, LAYERS = 20, REPLICAS = 4 };

static double gib_over_sgd(const struct sc_prediction *p)
{
	return p->memory.optimizer_gib - predict("sgd")->memory.optimizer_gib;
}

static double optimizer_ms(const struct sc_prediction *p)
{
	return p->reading.breakdown_ms[SC_OWN_OPTIMIZER];
}

/* L, R and their roots, in blocks of at most 1,024: 2 (m^2 + n^2) floats a block. A step of a
 * block: 4 m n (m + n) FLOP and every hundredth time 11 (m^3 + n^3). */
TEST(shampoo_by_its_formulas)
{
	const struct sc_prediction *p = predict("shampoo");
	double bytes = 0, flop = 0, ms = optimizer_ms(p) - optimizer_ms(predict("sgd"));

	for (int i = 0; i < N_MATRICES; i++) {
		double rows = ceil(MATRICES[i].m / 1024), columns = ceil(MATRICES[i].n / 1024);
		double m = MATRICES[i].m / rows, n = MATRICES[i].n / columns;
		double blocks = LAYERS * MATRICES[i].count * rows * columns;

		bytes += 4 * blocks * 2 * (m * m + n * n);
		flop += blocks * (4 * m * n * (m + n) + 11 * (m * m * m + n * n * n) / 100);
	}
	ck_assert_double_eq_tol(gib_over_sgd(p), bytes / SC_BYTES_PER_GIB, 1e-6);
	ck_assert_double_ge(ms, 0.8 * flop / 67e9); /* fp32 of an H100 */
	ck_assert_double_le(ms, 3 * flop / 67e9);
}

/* KAISA: factors m^2 + n^2 on every rank, eigenvectors and the inverse outer product m^2 + n^2 + m
 * n on a share of them; 4 m n (m + n) FLOP a step there. */
LOOP_TEST(kfac_by_its_formulas, 4)
{
	static const char *const fracs[] = {"0", "0.25", "0.5", "1"};
	static const double workers[] = {1, 1, 2, 4};
	const struct sc_prediction *p = predict_with("kfac", fracs[_i]), *all = predict("kfac");
	double bytes = 0, flop = 0, share = workers[_i] / REPLICAS;

	for (int i = 0; i < N_MATRICES; i++) {
		double m = MATRICES[i].m, n = MATRICES[i].n, count = LAYERS * MATRICES[i].count;

		bytes += 4 * count * (m * m + n * n + share * (m * m + n * n + m * n));
		flop += count * 4 * m * n * (m + n);
	}
	ck_assert_double_eq_tol(gib_over_sgd(p), bytes / SC_BYTES_PER_GIB, 1e-6);
	if (share < 1) {
		double less_ms = optimizer_ms(all) - optimizer_ms(p);

		ck_assert_double_ge(less_ms, 0.8 * (1 - share) * flop / 67e9);
		ck_assert_double_le(less_ms, 3 * (1 - share) * flop / 67e9);
		/* what they save is sent: gradients of all parameters, at each step */
		ck_assert_double_gt(p->reading.breakdown_ms[SC_OWN_COMM],
				    all->reading.breakdown_ms[SC_OWN_COMM]);
	}
}

static struct sc_prediction *predict_frac(const char *name, const char *frac, const char *every)
{
	struct sc_config config;

	load_named(name, &config);
	set(&config, "training.optimizer", "kfac");
	set(&config, "training.grad_worker_frac", frac);
	set(&config, "training.inv_update_steps", every);
	return predict_config(&config);
}

static double comm_ms(const struct sc_prediction *p)
{
	return p->reading.breakdown_ms[SC_OWN_COMM];
}

/* A row of 8 is a node: its broadcasts take less than those to all 256, layer by layer, of which
 * each goes through all nodes; and where all have the eigenvectors nothing is sent but these, every
 * hundredth step. */
TEST(kfac_sends_to_neighbours)
{
	static const char bert[] = "bert-large-a100-256.yaml";
	const struct sc_prediction *none = predict_frac(bert, "0", "100");
	const struct sc_prediction *node = predict_frac(bert, "0.125", "100");
	const struct sc_prediction *all = predict_frac(bert, "1", "100");

	ck_assert_double_ge(comm_ms(none), 3 * comm_ms(node));
	ck_assert_double_ge(comm_ms(none) - comm_ms(all), 4 * 24 * 0.3); /* a hop is 10 us */
	ck_assert_double_gt(none->iteration_ms, all->iteration_ms);
	ck_assert_double_gt(comm_ms(predict_frac(bert, "1", "10")), 2 * comm_ms(all));
}

/* Of a table of layers: those that say their matrix. 54 layers on 64 ranks: one has the largest,
 * whatever the others do: 512 outputs, 9 times 512 inputs. */
TEST(kfac_of_a_table_of_layers)
{
	struct sc_config config;
	const struct sc_prediction *sgd, *kfac;
	const struct sc_layer_row *rows;
	double bytes = 0, flop = 9 * (pow(512, 3) + pow(9 * 512.0, 3));

	load_named("kaisa-resnet50-v100-64.yaml", &config);
	kfac = predict_frac("kaisa-resnet50-v100-64.yaml", "0", "1");
	rows = config.model.rows.at;
	for (size_t i = 0; i < config.model.rows.n; i++) {
		double m = rows[i].outputs, n = rows[i].inputs;

		ck_assert_double_eq(rows[i].flop, 2 * m * n * rows[i].positions);
		bytes += 4 * (m * m + n * n + (m * m + n * n + m * n) / 64);
	}
	set(&config, "training.optimizer", "sgd");
	sgd = predict_config(&config);
	ck_assert_double_eq_tol(kfac->memory.optimizer_gib - sgd->memory.optimizer_gib,
				bytes / SC_BYTES_PER_GIB, 1e-6);
	ck_assert_double_ge(kfac->reading.breakdown_ms[SC_OWN_COMPUTE] -
				    sgd->reading.breakdown_ms[SC_OWN_COMPUTE],
			    flop / 15.7e9);
}

/* Each expert's states over the ranks that have this expert: with more expert parallelism over
 * fewer, of fewer experts. */
static double expert_parallel_gib(const char *optimizer, const char *ep)
{
	struct sc_config config;

	load_named("qwen3-30b-a3b-h100.yaml", &config);
	set(&config, "parallel.sharding", "zero1");
	set(&config, "parallel.ep", ep);
	set(&config, "training.optimizer", optimizer);
	return predict_config(&config)->memory.optimizer_gib;
}

LOOP_TEST(expert_parallelism_keeps_sharded_states, 4)
{
	static const char *const eps[] = {"1", "2", "4", "8"};
	const double alone = expert_parallel_gib("shampoo", eps[0]);
	const double gib = expert_parallel_gib("shampoo", eps[_i]);

	ck_assert_double_gt(gib, expert_parallel_gib("adam", eps[_i]));
	ck_assert_double_eq_tol(gib, alone, 1e-6 * alone);
}
