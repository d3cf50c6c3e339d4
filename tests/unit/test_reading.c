/* What a reading says: the account of a GPU on graphs computed by hand, the bubble that theory
 * gives, and that neighbours are told alike. */
#include "random_graph.h"
#include "request_fixture.h"
#include "runner.h"
#include "sim_fixture.h"

/* ---- the account, by hand ---- */

static struct sim_fixture f;
static struct sc_accountant accountant;
static struct sc_account account;
static struct sc_use use;
static enum sc_wait wait_kind;

static void begin_graph(void)
{
	fixture_begin(&f);
	memset(&accountant, 0, sizeof(accountant));
	wait_kind = SC_WAIT_PEERS;
}

static void end_graph(void)
{
	sc_accountant_release(&accountant);
	fixture_end(&f);
}

static enum sc_wait wait_of(const void *ctx, uint32_t node)
{
	(void)ctx;
	(void)node;
	return wait_kind;
}

static struct sc_cost owned(double us, enum sc_owner owner)
{
	struct sc_cost cost = {.work_us = us};

	cost.owner_frac[owner] = 1;
	return cost;
}

static uint32_t add_launch(uint32_t lane, double us)
{
	const struct sc_cost cost = owned(us, SC_OWN_HOST);

	return sc_graph_add_node(&f.g, SC_NODE_LAUNCH, lane,
				 (struct sc_node_use){sc_graph_add_cost(&f.g, &cost), SC_NONE});
}

static void account_of(uint32_t class_id, struct sc_period period)
{
	struct sc_account_input in = {.ran = {.graph = &f.g, .timeline = &f.tl, .wait = wait_of},
				      .period = period};
	double parts_us = 0, owners_us = 0;

	ck_assert_msg(fixture_run(&f) == SC_OK, "%s", f.err.text);
	if (!(in.period.to_us > 0))
		in.period.to_us = f.tl.total_us;
	sc_accountant_begin(&accountant, &in);
	sc_use_of_class(&accountant, class_id, &use);
	sc_account_of_class(&accountant, class_id, &account);
	for (int p = 0; p < SC_N_PARTS; p++)
		parts_us += account.part_us[p];
	for (int o = 0; o < SC_N_OWNERS; o++)
		owners_us += account.owner_us[o];
	ck_assert_double_eq_tol(parts_us,
				sc_period_us(&in.period, in.period.from_us, in.period.to_us), 1e-9);
	ck_assert_double_eq_tol(owners_us, parts_us, 1e-9);
}

static void ck_owner(enum sc_owner owner, double us)
{
	ck_assert_double_eq_tol(account.owner_us[owner], us, 1e-9);
}

FIXTURE(begin_graph, end_graph)

/* Launches of 3 us, kernels of 2 us: idle until each is launched, and the host runs ahead of none.
 */
TEST(idle_until_launched_is_the_hosts)
{
	const uint32_t c = add_class(&f, 1), gpu = add_lane(&f, c);
	const uint32_t host = sc_graph_add_lane(&f.g, c, SC_LANE_HOST);

	for (int i = 0; i < 4; i++)
		sc_graph_add_dep(&f.g, add_node(&f, gpu, work(0, 2)), add_launch(host, 3));
	account_of(c, (struct sc_period){.to_us = 0});
	ck_owner(SC_OWN_COMPUTE, 8);
	ck_owner(SC_OWN_HOST, 6);
	ck_assert_double_eq_tol(use.busy_us, 8, 1e-9);
}

/* A transfer of 10 us beside a kernel of 4 us: 6 us show. Of two kernels at once the first lane's
 * counts. */
TEST(hidden_work_counts_once)
{
	const uint32_t c = add_class(&f, 1), gpu = add_lane(&f, c), side = add_lane(&f, c);
	const uint32_t comm = sc_graph_add_lane(&f.g, c, SC_LANE_COMM);
	const uint32_t group = add_group(&f, owned(10, SC_OWN_COMM), &c, 1);

	add_member(&f, comm, group);
	add_node(&f, gpu, owned(4, SC_OWN_COMPUTE));
	add_node(&f, side, owned(4, SC_OWN_MEMORY));
	account_of(c, (struct sc_period){.to_us = 0});
	ck_owner(SC_OWN_COMPUTE, 4);
	ck_owner(SC_OWN_COMM, 6);
	ck_assert_double_eq_tol(use.busy_us, 4, 1e-9);
	ck_assert_double_eq_tol(use.comm_us, 10, 1e-9);
}

/* The other class arrives after 9 us: what this one waits is a peer's, or the pipeline's. */
LOOP_TEST(waits_are_named, SC_WAIT_POSTED + 1)
{
	const uint32_t c[2] = {add_class(&f, 1), add_class(&f, 1)};
	const uint32_t lane[2] = {add_lane(&f, c[0]), add_lane(&f, c[1])};
	const uint32_t group = add_group(&f, owned(1, SC_OWN_COMM), c, 2);

	wait_kind = (enum sc_wait)_i;
	add_node(&f, lane[0], work(0, 2));
	add_node(&f, lane[1], work(0, 9));
	add_member(&f, lane[0], group);
	add_member(&f, lane[1], group);
	account_of(c[0], (struct sc_period){.to_us = 0});
	ck_owner(SC_OWN_COMPUTE, 2);
	ck_owner(SC_OWN_COMM, 1);
	ck_owner(_i == SC_WAIT_PEERS ? SC_OWN_PEER : SC_OWN_BUBBLE, 7);
}

/* A gap belongs to what ended it, and is no work. */
LOOP_TEST(gaps_are_owned_by_their_kind, SC_N_GAPS)
{
	static const enum sc_owner owners[SC_N_GAPS] = {
		[SC_GAP_NONE] = SC_OWN_COMPUTE,      [SC_GAP_HOST] = SC_OWN_HOST,
		[SC_GAP_LAUNCH] = SC_OWN_HOST,       [SC_GAP_QUEUE] = SC_OWN_HOST,
		[SC_GAP_PEER] = SC_OWN_PEER,         [SC_GAP_GRAPH] = SC_OWN_OTHER,
		[SC_GAP_UNEXPLAINED] = SC_OWN_OTHER,
	};
	const uint32_t c = add_class(&f, 1), gpu = add_lane(&f, c);
	struct sc_cost cost = work(5, 3);
	double path_us[SC_N_OWNERS];

	add_node(&f, gpu, work(0, 1));
	cost.gap = (unsigned char)_i;
	add_node(&f, gpu, cost);
	account_of(c, (struct sc_period){.to_us = 0});
	ck_owner(owners[_i], owners[_i] == SC_OWN_COMPUTE ? 9 : 5);
	ck_assert_double_eq_tol(use.busy_us, _i == SC_GAP_NONE ? 9 : 4, 1e-9);
	sc_critical_path_walk(&f.g, &f.tl, SC_NONE, &f.path);
	own_path(&f, path_us);
	ck_assert_double_eq_tol(path_us[owners[_i]], owners[_i] == SC_OWN_COMPUTE ? 9 : 5, 1e-9);
}

/* From 3 to 12 us, of which 4 to 6 us stand for three times as much. */
TEST(periods_are_cut_and_repeated)
{
	const uint32_t c = add_class(&f, 1), gpu = add_lane(&f, c);
	const struct sc_repeat stretch = {4, 6, 2};
	const struct sc_period period = {3, 12, &stretch, 1, false};

	add_node(&f, gpu, owned(5, SC_OWN_COMPUTE));
	add_node(&f, gpu, owned(20, SC_OWN_MEMORY));
	account_of(c, period);
	ck_owner(SC_OWN_COMPUTE, 2 + 2 * 1);
	ck_owner(SC_OWN_MEMORY, 7 + 2 * 1);
}

static void account_of_all(struct sc_use *uses, struct sc_account *accounts, double *active_us)
{
	const struct sc_repeat repeat = {0.2 * f.tl.total_us, 0.4 * f.tl.total_us, 3};
	const struct sc_account_input in = {.ran = {.graph = &f.g, .timeline = &f.tl},
					    .period = {0, f.tl.total_us, &repeat, 1, false}};

	sc_accountant_begin(&accountant, &in);
	for (uint32_t c = 0; c < f.g.classes.n; c++) {
		sc_use_of_class(&accountant, c, &uses[c]);
		sc_account_of_class(&accountant, c, &accounts[c]);
		active_us[c] =
			f.g.notes ? sc_active_of_class_us(&accountant, c) : uses[c].active_us;
	}
}

/* A graph whose starts are kept in order is read as any other, whatever order its costs make. */
LOOP_TEST(starts_that_are_kept_do_not_show, n_cases(400))
{
	struct sc_graph_notes *notes = sc_xcalloc(1, sizeof(*notes));
	struct sc_use uses[2][PLAN_CLASSES];
	struct sc_account accounts[2][PLAN_CLASSES];
	double active_us[2][PLAN_CLASSES];
	static uint32_t id[PLAN_NODES];
	static struct plan plan;
	struct sc_rng rng;

	sc_rng_init(&rng, (uint64_t)_i);
	memset(uses, 0, sizeof(uses));
	memset(accounts, 0, sizeof(accounts));
	plan_init(&plan, (uint64_t)_i, &(struct plan_opts){.shared = _i % 2});
	plan_build(&plan, &f.g, NULL, SC_NONE, id);
	for (int run = 0; run < 4; run++) {
		ck_assert_int_eq(fixture_run(&f), SC_OK);
		for (int keeps = 0; keeps < 2; keeps++) {
			f.g.notes = keeps ? notes : NULL;
			account_of_all(uses[keeps], accounts[keeps], active_us[keeps]);
		}
		f.g.notes = NULL;
		ck_assert_mem_eq(uses[0], uses[1], sizeof(uses[0]));
		ck_assert_mem_eq(accounts[0], accounts[1], sizeof(accounts[0]));
		for (uint32_t c = 0; c < f.g.classes.n; c++)
			ck_assert_double_eq_tol(active_us[0][c], active_us[1][c],
						1e-12 * f.tl.total_us);
		for (size_t i = 0; i < f.g.costs.n; i++)
			f.g.costs.at[i].work_us *= 2 * sc_rng_uniform(&rng);
	}
	f.g.notes = notes;
}

/* ---- predictions ---- */

/* "key=value ..." over a pipeline of equal stages: next to no embedding, head or host. */
static void predict(const char *overrides, struct sc_prediction *out)
{
	const char *keys =
		"model.family=gpt cluster.gpu=a100-sxm-80gb cluster.gpus_per_node=8 "
		"cluster.nics_per_node=8 cluster.nic_gbit_s=200 model.hidden=8192 "
		"model.heads=64 model.seq=2048 model.vocab=512 model.layers=64 "
		"training.precision=bf16 training.recompute=none training.attention=flash "
		"training.micro_batch=1 training.software=megatron-core";

	*out = *predict_request(request_of(keys, overrides), NULL);
}

FIXTURE(requests_begin, requests_end)

/* (p - 1) / (m + p - 1) of what lies between the step's start and its optimizer. */
TEST(equal_stages_have_the_bubble_of_theory)
{
	static struct sc_prediction out;
	static const int stages[] = {2, 4, 8, 16}, batches[] = {1, 4, 16, 64, 512};

	for (size_t i = 0; i < 4; i++)
		for (size_t k = 0; k < 5; k++) {
			const int p = stages[i], m = batches[k];
			const double theory = (double)(p - 1) / (m + p - 1);
			const double *ms = out.reading.breakdown_ms;
			char keys[128];
			double share;

			snprintf(keys, sizeof(keys),
				 "gpus=%d parallel.pp=%d parallel.schedule=1f1b "
				 "training.global_batch=%d",
				 p, p, m);
			predict(keys, &out);
			share = ms[SC_OWN_BUBBLE] / (out.iteration_ms - ms[SC_OWN_OPTIMIZER]);
			ck_assert_msg(fabs(share - theory) < 0.02, "%.4f, theory %.4f: %s", share,
				      theory, keys);
		}
}

/* Neighbours in one key: steps that change little themselves. */
static const struct {
	const char *keys, *step;
	int from, to, by;
} WALKS[] = {
	{"gpus=64 parallel.pp=16 parallel.tp=4 model.vocab=51200", "training.global_batch", 32, 48,
	 1},
	{"gpus=64 parallel.pp=8 parallel.tp=2 parallel.dp=4 model.vocab=51200",
	 "training.global_batch", 64, 128, 4},
	{"gpus=32 parallel.pp=4 parallel.tp=8 training.global_batch=32", "model.ffn_hidden", 32768,
	 34816, 128},
	{"gpus=32 parallel.pp=4 parallel.tp=8 training.global_batch=32", "model.vocab", 51200,
	 57344, 512},
	{"gpus=128 parallel.pp=16 parallel.ep=8 model.family=moe model.layers=61 model.experts=64 "
	 "model.top_k=8 model.expert_ffn_hidden=2048 model.hidden=4096 model.heads=32",
	 "training.global_batch", 256, 384, 8},
	{"gpus=16 parallel.dp=16 parallel.sharding=fsdp cluster.nics_per_node=1 "
	 "training.software=torchtitan training.global_batch=16",
	 "cluster.nic_gbit_s", 100, 400, 10},
};

LOOP_TEST(neighbours_are_told_alike, N_OF(WALKS))
{
	static struct sc_prediction now, before;
	double most = 0;

	for (int value = WALKS[_i].from; value <= WALKS[_i].to; value += WALKS[_i].by) {
		char keys[512];
		double moved = 0, change;

		snprintf(keys, sizeof(keys), "%s %s=%d", WALKS[_i].keys, WALKS[_i].step, value);
		predict(keys, &now);
		for (int o = 0; o < SC_N_OWNERS && value > WALKS[_i].from; o++)
			moved += fabs(now.reading.breakdown_ms[o] / now.iteration_ms -
				      before.reading.breakdown_ms[o] / before.iteration_ms) /
				 2;
		change = value > WALKS[_i].from ? fabs(now.iteration_ms / before.iteration_ms - 1)
						: 0;
		ck_assert_msg(moved <= 0.02 + 2 * change,
			      "%.3f of the time moved to other parts, the time changed by %.3f: %s",
			      moved, change, keys);
		most = fmax(most, moved);
		before = now;
	}
	printf("%-90.90s moves at most %.2f %% a step\n", WALKS[_i].keys, 100 * most);
}

/* The case that showed it: 48 s, of which every stage but the ends is busy 43 s. */
TEST(a_pipeline_of_many_stages_is_not_all_bubble)
{
	static struct sc_prediction out;
	const double *ms = out.reading.breakdown_ms;

	predict("gpus=2048 model.family=moe-mla model.layers=61 model.hidden=7168 model.heads=128 "
		"model.seq=4096 model.vocab=129280 model.experts=256 model.top_k=8 "
		"model.expert_ffn_hidden=2048 cluster.gpu=h100-sxm-80gb cluster.nic_gbit_s=400 "
		"parallel.pp=16 parallel.ep=64 training.global_batch=15360",
		&out);
	ck_assert_double_lt(ms[SC_OWN_BUBBLE], 0.2 * out.iteration_ms);
	ck_assert_double_eq_tol(out.reading.path_owner_ms[SC_OWN_BUBBLE], 0, 1e-9);
}
