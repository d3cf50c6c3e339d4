/* Ranks that are not alike: nodes with different kinds of GPU, slow ranks in every kind of group,
 * NVLink domains wider than a host, and clusters whose network is not given. */
#include "base/units.h"
#include "models/collective/collective.h"
#include "request_fixture.h"
#include "runner.h"

enum { MAX_NODES = 4 };
struct nodes {
	struct sc_gpu_nodes at[MAX_NODES];
	size_t n;
};
#define H "h100-sxm-80gb"
#define A "a100-sxm-80gb"
static const struct nodes FAST_SLOW = {{{H, 2}, {A, 2}}, 2}, SLOW_FAST = {{{A, 2}, {H, 2}}, 2},
			  FAST = {{{H, 4}}, 1}, SLOW = {{{A, 4}}, 1},
			  TURNS = {{{H, 1}, {A, 1}, {H, 1}, {A, 1}}, 4};

/* "key=value key=value ..." over a small Llama; `nodes` may be NULL. */
static struct sc_request *make_request(const struct nodes *nodes, const char *overrides)
{
	struct nodes *own = sc_arena_calloc(&arena, 1, sizeof(*own));
	struct sc_config cfg;

	sc_config_init(&cfg);
	set_all(&cfg,
		"gpus=32 model.family=llama model.hidden=4096 model.heads=32 model.layers=8 "
		"model.seq=2048 model.vocab=32000 training.precision=bf16 training.recompute=none "
		"training.attention=flash training.software=megatron-core "
		"training.global_batch=64 training.micro_batch=1");
	set_all(&cfg, overrides);
	if (nodes) {
		*own = *nodes;
		cfg.cluster.nodes = (struct sc_structs){own->at, own->n};
	}
	return resolve_config(&cfg);
}

#define NODE "cluster.gpus_per_node=8 cluster.nics_per_node=8 cluster.nic_gbit_s=200 "

static struct sc_prediction *run(const struct sc_request *req, const struct sc_predict_opts *opts)
{
	struct sc_prediction *out = sc_arena_calloc(&arena, 1, sizeof(*out));
	struct sc_predict_opts own;
	struct sc_err err = {0};

	sc_predict_opts_init(&own);
	ck_assert_msg(predict_chosen(req, opts ? opts : &own, out, &err) == 0, "%s", err.text);
	return out;
}

static double ms_of(const struct nodes *nodes, const char *overrides)
{
	return run(make_request(nodes, overrides), NULL)->iteration_ms;
}

FIXTURE(requests_begin, requests_end)

TEST(nodes_of_one_kind_are_a_plain_cluster)
{
	static const struct nodes pieces = {{{A, 1}, {A, 3}}, 2};
	static const char plain[] = NODE "cluster.gpu=" A " parallel.tp=4 parallel.pp=2";
	struct sc_prediction *a = run(make_request(NULL, plain), NULL);
	struct sc_prediction *b =
		run(make_request(&SLOW, NODE "parallel.tp=4 parallel.pp=2"), NULL);
	struct sc_prediction *c =
		run(make_request(&pieces, NODE "parallel.tp=4 parallel.pp=2"), NULL);

	ck_assert_int_eq(memcmp(a, b, sizeof(*a)), 0);
	ck_assert_int_eq(memcmp(a, c, sizeof(*a)), 0);
}

/* All replicas have as many samples, so the others wait for the slowest. */
TEST(replicas_wait_for_the_slower_kind)
{
	static const char text[] = NODE "parallel.tp=4";
	double fast = ms_of(&FAST, text), slow = ms_of(&SLOW, text);
	double mixed = ms_of(&FAST_SLOW, text);

	ck_assert_double_lt(fast, 0.7 * slow);
	ck_assert_double_eq_tol(mixed, slow, 0.02 * slow);
	/* but for the host that issues a collective, the first kind's */
	ck_assert_double_eq_tol(ms_of(&SLOW_FAST, text), mixed, 1e-3 * mixed);
	ck_assert_double_eq_tol(ms_of(&TURNS, text), mixed, 0.01 * mixed);
}

TEST(stages_on_different_kinds)
{
	static const char even[] = NODE "parallel.tp=4 parallel.pp=2";
	static const char fair[] = NODE "parallel.tp=4 parallel.pp=2 parallel.stage_layers=5,3";
	static const char unfair[] = NODE "parallel.tp=4 parallel.pp=2 parallel.stage_layers=3,5";
	double slow = ms_of(&SLOW, even), fast = ms_of(&FAST, even),
	       mixed = ms_of(&FAST_SLOW, even);

	ck_assert_double_lt(fast, mixed);
	ck_assert_double_le(mixed, slow);
	ck_assert_double_lt(ms_of(&FAST_SLOW, fair), 0.9 * mixed);
	ck_assert_double_gt(ms_of(&FAST_SLOW, unfair), 1.1 * mixed);
	ck_assert_double_lt(ms_of(&FAST, even), ms_of(&FAST, fair));
}

static const struct {
	const struct nodes *nodes;
	const char *overrides;
} CASES[] = {
	{&FAST_SLOW, NODE "parallel.tp=4 parallel.pp=4"},
	{&TURNS, NODE "parallel.tp=8 parallel.pp=2"},
	/* tensor-parallel groups over both kinds */
	{&TURNS, NODE "parallel.tp=16"},
	{&SLOW_FAST, NODE "parallel.tp=2 parallel.pp=2 parallel.virtual_stages=2"},
	{&FAST_SLOW, NODE "parallel.sharding=fsdp training.software=torchtitan"},
	{&FAST_SLOW, NODE "parallel.sharding=fsdp parallel.shard_ranks=8 "
			  "training.software=torchtitan"},
	{&FAST_SLOW, NODE "parallel.tp=2 parallel.cp=4"},
	/* expert groups over both kinds */
	{&TURNS, NODE "model.family=moe model.experts=16 model.top_k=2 "
		      "model.expert_ffn_hidden=2048 parallel.ep=16"},
};
enum { N_CASES = sizeof(CASES) / sizeof(CASES[0]) };

static void check_ways(const struct sc_request *req, const char *what)
{
	struct sc_predict_opts opts;
	double coarse, full, unfolded;

	sc_predict_opts_init(&opts);
	coarse = run(req, &opts)->iteration_ms;
	opts.unfolded = true;
	unfolded = run(req, &opts)->iteration_ms;
	opts.unfolded = false;
	opts.detail = SC_DETAIL_FULL;
	full = run(req, &opts)->iteration_ms;
	ck_assert_msg(fabs(coarse / unfolded - 1) < 1e-9, "folded %.6f unfolded %.6f ms: %s",
		      coarse, unfolded, what);
	/* Sharded gathers beside kernels of two kinds: 1.03 % at worst. */
	ck_assert_msg(fabs(coarse / full - 1) < 0.012, "coarse %.4f full %.4f ms: %s", coarse, full,
		      what);
}

LOOP_TEST(mixed_clusters_by_all_ways, N_CASES)
{
	check_ways(make_request(CASES[_i].nodes, CASES[_i].overrides), CASES[_i].overrides);
}

LOOP_TEST(mixed_is_never_faster_than_the_faster_kind, N_CASES)
{
	double mixed = ms_of(CASES[_i].nodes, CASES[_i].overrides);

	ck_assert_double_gt(mixed, ms_of(&FAST, CASES[_i].overrides));
	ck_assert_double_lt(mixed, 1.01 * ms_of(&SLOW, CASES[_i].overrides));
}

TEST(mfu_is_of_all_peaks)
{
	struct sc_request *req = make_request(&FAST_SLOW, NODE "parallel.tp=4 parallel.pp=2");
	struct sc_prediction *out = run(req, NULL);
	double peak = 16 * sc_request_device(req, 0)->peak_tflops[SC_BF16] +
		      16 * sc_request_device(req, 1)->peak_tflops[SC_BF16];

	ck_assert_double_eq_tol(
		out->mfu, sc_flop_us(out->model_flop, peak) / (out->iteration_ms * SC_US_PER_MS),
		1e-9);
}

static bool warns(const struct sc_prediction *out, const char *part)
{
	for (size_t i = 0; i < out->warnings.n; i++)
		if (strstr(out->warnings.text[i], part))
			return true;
	return false;
}

/* All hold as much; the smaller GPU is the one that it does not fit. */
TEST(memory_is_set_against_the_own_capacity)
{
	static const struct nodes small = {{{H, 2}, {"a100-sxm-40gb", 2}}, 2};
	static const char text[] = NODE "model.layers=40 parallel.tp=2 model.vocab=128000";
	struct sc_prediction *large = run(make_request(&FAST_SLOW, text), NULL);
	struct sc_prediction *out = run(make_request(&small, text), NULL);

	ck_assert_double_eq_tol(out->memory.total_gib, large->memory.total_gib, 1e-9);
	ck_assert_double_gt(large->memory.total_gib, 40);
	ck_assert_double_lt(large->memory.total_gib, 80);
	ck_assert_double_eq_tol(large->memory.capacity_gib, 80, 1e-9);
	ck_assert_double_eq_tol(out->memory.capacity_gib, 40, 1e-9);
	ck_assert(warns(out, "will not fit") && !warns(large, "will not fit"));
}

TEST(fabrics_of_kinds)
{
	struct sc_request *req = make_request(&FAST_SLOW, NODE);
	struct sc_fabric of[2], all;

	ck_assert_int_eq(sc_fabric_of_kind(req, 0, &of[0], NULL), 0);
	ck_assert_int_eq(sc_fabric_of_kind(req, 1, &of[1], NULL), 0);
	ck_assert_int_eq(sc_fabric_from_request(req, &all, NULL), 0);
	ck_assert_double_eq_tol(of[0].link_gbps, 450, 1e-9);
	ck_assert_double_eq_tol(of[1].link_gbps, 300, 1e-9);
	ck_assert(of[0].sm_arch == 90 && of[0].link.nvls_eff > 0);
	ck_assert(of[1].sm_arch == 80 && !(of[1].link.nvls_eff > 0));
	ck_assert_double_eq_tol(all.link_gbps, 300, 1e-9);
	ck_assert_double_eq_tol(all.link.eff, of[1].link.eff, 1e-12);
	ck_assert(all.sm_arch == 80 && all.sm_count == 108 && !(all.link.nvls_eff > 0));
	ck_assert_double_eq_tol(all.hbm_gbps, of[1].hbm_gbps, 1e-9);
	/* the same whichever comes first */
	req = make_request(&SLOW_FAST, NODE);
	ck_assert_int_eq(sc_fabric_from_request(req, &of[0], NULL), 0);
	ck_assert_double_eq_tol(of[0].link_gbps, all.link_gbps, 1e-9);
	ck_assert_double_eq_tol(of[0].pcie_gbps, all.pcie_gbps, 1e-9);
	ck_assert(of[0].sm_arch == 80 && of[0].sm_count == 108);
}

/* What stays on nodes of one kind goes at that kind's rates. */
TEST(groups_of_one_kind_have_their_own_fabric)
{
	static const char text[] = NODE
		"parallel.tp=8 parallel.pp=2 parallel.stage_layers=7,1 training.cuda_graphs=true";
	char slow[512];
	double own = ms_of(&FAST_SLOW, text);

	snprintf(slow, sizeof(slow), "%s cluster.link_gbps=300", text);
	ck_assert_double_gt(ms_of(&FAST_SLOW, slow), 1.005 * own);
}

/* ---- stragglers ---- */

static const char *const STRAGGLER_CASES[] = {
	NODE "cluster.gpu=" A " model.family=moe model.experts=16 model.top_k=2 "
	     "model.expert_ffn_hidden=2048 parallel.ep=8",
	/* expert groups over nodes, a pipeline */
	NODE "cluster.gpu=" A " model.family=moe model.experts=16 model.top_k=2 "
	     "model.expert_ffn_hidden=2048 parallel.ep=16 parallel.pp=2",
	NODE "cluster.gpu=" A " parallel.sharding=fsdp training.software=torchtitan",
	NODE "cluster.gpu=" A " parallel.sharding=fsdp parallel.shard_ranks=8 "
	     "training.software=torchtitan",
	NODE "cluster.gpu=" A " parallel.cp=4 parallel.tp=2",
	NODE "cluster.gpu=" A " parallel.tp=4 parallel.pp=4 training.trainable=lora",
};
enum { N_STRAGGLER_CASES = sizeof(STRAGGLER_CASES) / sizeof(STRAGGLER_CASES[0]) };

LOOP_TEST(a_straggler_slows_every_kind_of_group, N_STRAGGLER_CASES)
{
	static int64_t rank[] = {3};
	static struct sc_straggler slow = {.ranks = {rank, 1}, .slowdown = 1.5};
	struct sc_request *req = make_request(NULL, STRAGGLER_CASES[_i]);
	double base = run(req, NULL)->iteration_ms, with;

	req->config.stragglers = (struct sc_structs){&slow, 1};
	with = run(req, NULL)->iteration_ms;
	ck_assert_msg(with > 1.1 * base && with < 1.5 * base, "%g ms, without %g: %s", with, base,
		      STRAGGLER_CASES[_i]);
	check_ways(req, STRAGGLER_CASES[_i]);
}

TEST(a_straggler_of_the_faster_kind_may_hide)
{
	static int64_t rank[] = {0};
	static struct sc_straggler slow = {.ranks = {rank, 1}, .slowdown = 1.2};
	struct sc_request *req = make_request(&FAST_SLOW, NODE "parallel.tp=4");
	double base = run(req, NULL)->iteration_ms;

	req->config.stragglers = (struct sc_structs){&slow, 1};
	ck_assert_double_eq_tol(run(req, NULL)->iteration_ms, base, 0.005 * base);
	rank[0] = 31;
	ck_assert_double_gt(run(req, NULL)->iteration_ms, 1.1 * base);
}

/* ---- domains wider than a host ---- */

#define HOSTS_OF_4                                                           \
	"cluster.gpu=gb200 cluster.gpus_per_node=4 cluster.nics_per_node=4 " \
	"cluster.nic_gbit_s=400 "

/* Groups over four hosts use links inside a domain, NICs outside. */
LOOP_TEST(groups_over_hosts_use_links, 3)
{
	static const char *const GROUPS[] = {
		"parallel.tp=16 training.cuda_graphs=true",
		"model.family=moe model.experts=32 model.top_k=4 model.expert_ffn_hidden=2048 "
		"parallel.ep=16",
		"parallel.cp=16",
	};
	char text[512];
	double hosts, domain, node;

	snprintf(text, sizeof(text), HOSTS_OF_4 "cluster.scale_up_gpus=4 %s", GROUPS[_i]);
	hosts = ms_of(NULL, text);
	snprintf(text, sizeof(text), HOSTS_OF_4 "cluster.scale_up_gpus=32 %s", GROUPS[_i]);
	domain = ms_of(NULL, text);
	snprintf(text, sizeof(text),
		 "cluster.gpu=gb200 cluster.gpus_per_node=32 cluster.nics_per_node=32 "
		 "cluster.nic_gbit_s=400 %s",
		 GROUPS[_i]);
	node = ms_of(NULL, text);
	ck_assert_msg(domain < 0.95 * hosts, "%g ms on links, %g over NICs", domain, hosts);
	ck_assert_double_eq_tol(domain, node, 1e-6 * node);
}

/* ---- a network that is not given ---- */

TEST(the_usual_network_is_taken)
{
	struct sc_prediction *usual = run(make_request(NULL, "cluster.gpu=" A), NULL);
	struct sc_prediction *given = run(make_request(NULL, "cluster.gpu=" A " " NODE), NULL);

	ck_assert(warns(usual, "NICs are not given; the usual node of " A " is taken"));
	ck_assert(!warns(given, "NICs"));
	ck_assert_double_eq_tol(usual->iteration_ms, given->iteration_ms, 1e-12);
	/* of two kinds, the slower network; of one node, none is needed */
	usual = run(make_request(&FAST_SLOW, ""), NULL);
	ck_assert(
		warns(usual, "the usual node of " A " is taken: nics_per_node 8, nic_gbit_s 200"));
	usual = run(make_request(NULL, "gpus=8 cluster.gpu=" A), NULL);
	ck_assert(!warns(usual, "NICs"));
}
