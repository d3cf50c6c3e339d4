/* The error band: the weighted quantile by hand, its laws, and what is said of one op. */
#include <unistd.h>

#include "base/stats.h"
#include "models/op_model.h"
#include "request_fixture.h"
#include "runner.h"

#define TOLERANCE 1e-9

static struct sc_request request;

static void resolve(const char *gpu, const char *keys)
{
	request = *request_of("gpus=8 cluster.gpus_per_node=8 cluster.nics_per_node=8 "
			      "cluster.nic_gbit_s=200 model.family=gpt model.layers=16 "
			      "model.heads=16 model.hidden=2048 model.seq=1024 model.vocab=51200 "
			      "training.global_batch=64 training.precision=bf16",
			      sc_arena_printf(&arena, "cluster.gpu=%s %s", gpu, keys));
}

static const struct sc_prediction *predict(int confidence_pct)
{
	struct sc_predict_opts opts;

	sc_predict_opts_init(&opts);
	ck_assert_int_eq(opts.confidence_pct, 80);
	opts.confidence_pct = confidence_pct;
	return predict_request(&request, &opts);
}

static void set_up(void)
{
	requests_begin();
	resolve("a100-sxm-80gb", "training.software=megatron-lm");
}

FIXTURE(set_up, requests_end)

/* ---- of an iteration ---- */

/* What an iteration is like is seen by its request. */
TEST(like_of_a_request)
{
	static const struct {
		const char *gpu, *keys;
		const char *at[SC_N_LIKE_COLUMNS];
	} cases[] = {
		{"a100-sxm-80gb",
		 "training.software=megatron-lm",
		 {NULL, "a100-sxm-80gb", "megatron-lm", "dense", "one", "16", "none"}},
		{"h100-sxm-80gb",
		 "gpus=16 training.precision=fp8",
		 {NULL, "h100-sxm-80gb", "default-te", "dense", "many", "8", "infiniband"}},
		{"h100-sxm-80gb",
		 "training.precision=tf32 model.family=moe model.experts=8 model.top_k=2",
		 {NULL, "h100-sxm-80gb", "default-eager", "mixture", "one", "32", "none"}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		resolve(cases[i].gpu, cases[i].keys);
		for (int c = SC_LIKE_GPU; c < SC_N_LIKE_COLUMNS; c++)
			ck_assert_str_eq(request.band->like.at[c], cases[i].at[c]);
	}
}

/* A request that names no software gets the stack that its own words speak of. */
TEST(without_a_name_the_config_chooses_the_stack)
{
	static const struct {
		const char *gpu, *keys, *id;
	} cases[] = {
		{"h100-sxm-80gb", "training.precision=bf16", "default"},
		{"h100-sxm-80gb", "training.precision=bf16 parallel.sharding=zero1", "default"},
		{"h100-sxm-80gb", "training.precision=bf16 parallel.sharding=fsdp", "default-fsdp"},
		{"h100-sxm-80gb", "training.precision=fp8 parallel.sharding=fsdp", "default-fsdp"},
		{"h100-sxm-80gb", "training.precision=fp8", "default-te"},
		{"b200-sxm-180gb", "training.precision=bf16", "default-te"},
		{"a100-sxm-80gb",
		 "training.precision=bf16 model.family=bert training.unpadded=true", "default-te"},
		{"a100-sxm-80gb", "training.precision=fp16", "default-eager"},
		{"a100-sxm-80gb", "training.precision=amp_fp16 parallel.sharding=zero3",
		 "default-eager"},
		{"h100-sxm-80gb", "training.precision=fp8 training.software=torchtitan",
		 "torchtitan"},
		{"h100-sxm-80gb", "training.precision=fp16 training.software=default-te",
		 "default-te"},
		{"h100-sxm-80gb", "training.precision=bf16 training.software=megatron-core",
		 "megatron-core"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		resolve(cases[i].gpu, cases[i].keys);
		ck_assert_str_eq(request.software.id, cases[i].id);
	}
}

/* A stack without a name does as most of its kind where the request says nothing: a word of the
 * request is stronger. */
TEST(the_stack_without_a_name_has_habits)
{
	static const struct {
		const char *gpu, *keys;
		bool sequence_parallel, tp_overlap;
		int attention;
	} cases[] = {
		{"h100-sxm-80gb", "training.precision=bf16", false, false, SC_ATT_FLASH},
		{"h100-sxm-80gb", "training.precision=fp8", true, true, SC_ATT_FLASH},
		{"h100-sxm-80gb", "training.precision=fp16", false, false, SC_ATT_UNFUSED},
		{"h100-sxm-80gb", "training.precision=fp16 training.attention=flash", false, false,
		 SC_ATT_FLASH},
		/* what cannot be is no habit */
		{"h100-sxm-80gb", "training.precision=fp8 model.seq=1026", false, false,
		 SC_ATT_FLASH},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		resolve(cases[i].gpu, sc_arena_printf(&arena, "parallel.tp=4 %s", cases[i].keys));
		ck_assert_int_eq(request.config.parallel.sequence_parallel,
				 cases[i].sequence_parallel);
		ck_assert_int_eq(request.config.parallel.tp_overlap, cases[i].tp_overlap);
		ck_assert_int_eq(request.config.training.attention, cases[i].attention);
	}
}

/* As far up as down, in the logarithm; wider for more. */
TEST(wider_for_more_confidence)
{
	double before = 0;

	for (int pct = SC_CONFIDENCE_LEAST; pct <= SC_CONFIDENCE_MOST; pct++) {
		const struct sc_prediction *p = predict(pct);
		double up = p->high_ms / p->iteration_ms;

		ck_assert_double_eq_tol(up, p->iteration_ms / p->low_ms, TOLERANCE);
		ck_assert_double_ge(up, before);
		ck_assert_double_gt(up, 1);
		before = up;
	}
}

TEST(trends_are_said)
{
	request.device.fitted = "simt";
	ck_assert_uint_eq(predict(80)->warnings.n, 1);
	ck_assert_str_eq(predict(80)->warnings.text[0],
			 "gemm coefficients of a100-sxm-80gb: trend, not measured");
}

/* The block that counts is that of the precision: without tensor cores, "simt". */
LOOP_TEST(fp32_is_of_simt, 2)
{
	const struct sc_prediction *out;
	int n_trend = 0;

	resolve("v100-pcie-32gb", _i ? "training.precision=fp16" : "training.precision=fp32");
	out = predict(80);
	for (size_t i = 0; i < out->warnings.n; i++)
		n_trend += strstr(out->warnings.text[i], "trend") != NULL;
	ck_assert_int_eq(n_trend, _i);
}

/* ---- of lines ---- */

/* Errors of 10 rows here, 1 row there. */
static const char *const LINES[] = {
	"s1,g1,w1,dense,one,16,none,1 2 3 4 5 6 7 8 9 10",
	"s2,g1,w2,dense,one,16,none,100",
	"s2,g2,w1,dense,many,8,ib,30 60",
	"s3,g2,w2,mixture,many,8,ib,200",
};

static const struct sc_likeness *likeness_of(const char *const *lines, size_t n)
{
	char path[] = "/tmp/likenessXXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	const struct sc_likeness *out = NULL;
	struct sc_err err = {0};

	fputs("suite,cluster.gpu,training.software,model,nodes,bits,network,errors\n", file);
	for (size_t i = 0; i < n; i++)
		fprintf(file, "%s\n", lines[i]);
	fclose(file);
	ck_assert_msg(sc_likeness_load(path, &arena, &out, &err) == 0, "%s", err.text);
	unlink(path);
	return out;
}

static double half(const struct sc_likeness *likeness, struct sc_like like, unsigned leave_out,
		   int pct)
{
	struct sc_band band;

	sc_band_find(likeness, &like, leave_out, &band);
	return log(sc_band_factor(&band, pct));
}

#define LIKE(...) ((struct sc_like){.at = {__VA_ARGS__}})

/* One line counts as the root of its rows: of 10 and 1 alike in all that counts, sqrt(10) and 1. */
TEST(quantile_by_hand)
{
	const struct sc_likeness *l = likeness_of(LINES, 2);
	struct sc_like like = LIKE(NULL, "g1", "w1", "dense", "one", "16", "none");
	/* w1's rows 1.5 times w2's: 1.5 sqrt(10) of 1.5 sqrt(10) + 1 = 0.826 are up to 10 */
	const double each = 1.5 * sqrt(10) / 10, all = 10 * each + 1;

	ck_assert_double_eq_tol(half(l, like, 0, 80), ceil(0.80 * all / each) / 1000, TOLERANCE);
	ck_assert_double_eq_tol(half(l, like, 0, 50), ceil(0.50 * all / each) / 1000, TOLERANCE);
	ck_assert_double_eq_tol(half(l, like, 0, 90), 0.1, TOLERANCE);
}

/* Many suites of one kind of rows are no more than one of them all. */
TEST(alike_rows_count_together_whatever_their_suite)
{
	static const char *const one[] = {"s2,g1,w2,dense,one,16,none,100",
					  "s1,g1,w1,dense,one,16,none,1 2 3 4 5 6 7 8 9 10"};
	static const char *const two[] = {"s2,g1,w2,dense,one,16,none,100",
					  "s1,g1,w1,dense,one,16,none,1 2 3 4 5",
					  "s3,g1,w1,dense,one,16,none,6 7 8 9 10"};
	struct sc_like like = LIKE(NULL, "g1", "w2", "dense", "one", "16", "none");

	for (int pct = SC_CONFIDENCE_LEAST; pct <= SC_CONFIDENCE_MOST; pct++)
		ck_assert_double_eq_tol(half(likeness_of(one, 2), like, 0, pct),
					half(likeness_of(two, 3), like, 0, pct), TOLERANCE);
}

TEST(left_out_rows_do_not_count)
{
	const struct sc_likeness *l = likeness_of(LINES, 4), *without = likeness_of(LINES + 1, 3);
	struct sc_like like = LIKE("s1", "g1", "w1", "dense", "one", "16", "none");
	const unsigned suite_gpu = 1U << SC_LIKE_SUITE | 1U << SC_LIKE_GPU;

	for (int pct = SC_CONFIDENCE_LEAST; pct <= SC_CONFIDENCE_MOST; pct++) {
		ck_assert_double_eq_tol(half(l, like, suite_gpu, pct), half(without, like, 0, pct),
					TOLERANCE);
		/* of another GPU nothing is left out */
		like.at[SC_LIKE_GPU] = "g2";
		ck_assert_double_eq_tol(half(l, like, suite_gpu, pct), half(l, like, 0, pct),
					TOLERANCE);
		like.at[SC_LIKE_GPU] = "g1";
	}
	/* nobody's suite leaves nothing out; all left out: the largest error */
	like.at[SC_LIKE_SUITE] = NULL;
	ck_assert_double_eq_tol(half(l, like, suite_gpu, 80), half(l, like, 0, 80), TOLERANCE);
	like.at[SC_LIKE_SUITE] = "s1";
	ck_assert_double_eq_tol(half(likeness_of(LINES, 1), like, suite_gpu, 80), 0.01, TOLERANCE);
}

/* A pair that no row has gets at least what all rows alike give, and a row of it can only narrow
 * that. */
LOOP_TEST(never_narrower_for_a_pair_never_seen, 4)
{
	static const char *const models[] = {"dense", "mixture", "dlrm", "layers"};
	const struct sc_like unknown = LIKE(NULL, "g9", "w9", "?", "?", "?", "?");
	const struct sc_likeness *made = likeness_of(LINES, 4);

	for (int pct = SC_CONFIDENCE_LEAST; pct <= SC_CONFIDENCE_MOST; pct += 5) {
		struct sc_like like = LIKE(NULL, "g1", "w9", models[_i], "one", "16", "none");

		ck_assert_double_ge(half(made, like, 0, pct), half(made, unknown, 0, pct));
		like.at[SC_LIKE_GPU] = "g3";
		like.at[SC_LIKE_SOFTWARE] = "w1";
		ck_assert_double_ge(half(made, like, 0, pct), half(made, unknown, 0, pct));
	}
}

/* A kind of model that no row has is a stranger too: as if its pair had never been seen. */
TEST(a_kind_of_model_never_seen_is_a_stranger)
{
	static const char *const LINES_OF[] = {
		"s1,g1,w1,dense,one,16,none,1 2 3 4",
		"s1,g2,w1,dense,one,16,none,80 90",
		"s2,g9,read/w2,dense,many,32,ib,300",
	};
	const struct sc_likeness *l = likeness_of(LINES_OF, 3);
	const struct sc_like seen = LIKE(NULL, "g1", "w1", "dense", "one", "16", "none");
	const struct sc_like new = LIKE(NULL, "g1", "w1", "hybrid", "one", "16", "none");
	struct sc_band band;

	ck_assert(half(l, seen, 0, 50) < 0.01);
	ck_assert_double_eq_tol(half(l, new, 0, 50), 0.3, TOLERANCE);
	sc_band_find(l, &new, 0, &band);
	ck_assert(sc_band_is_seen(&band) && !sc_band_knows_model(&band));
}

/* A network that no row has is a stranger too, and never has a narrower band than one that was
 * seen, all else alike. */
TEST(a_network_never_seen_is_never_narrower)
{
	static const char *const LINES_OF[] = {
		"s1,g1,w1,dense,many,16,ib,1 2 3 4",
		"s1,g1,w1,dense,one,16,none,200",
		"s1,g2,w1,dense,many,16,ib,80 90",
		"s2,g9,read/w2,dense,many,32,ib,300",
	};
	const struct sc_likeness *made = likeness_of(LINES_OF, 4), *shipped = request.band->from;
	struct sc_like seen = LIKE(NULL, "g1", "w1", "dense", "many", "16", "ib"), new = seen;
	static const char *const GPUS[] = {"a100-sxm-80gb", "h100-sxm-80gb", "a new GPU"};
	static const char *const SOFTWARES[] = {"megatron-lm", "nemo", "default-te", "its own"};
	struct sc_band band;

	new.at[SC_LIKE_NETWORK] = "a new network";
	ck_assert(half(made, seen, 0, 50) < 0.01);
	/* all rows in one heap: 2 of the first line, 1 and 1.41 of the others */
	ck_assert_double_eq_tol(half(made, new, 0, 50), 0.08, TOLERANCE);
	ck_assert_double_eq_tol(half(made, new, 0, 80), 0.2, TOLERANCE);
	sc_band_find(made, &new, 0, &band);
	ck_assert(sc_band_is_seen(&band) && !sc_band_knows_network(&band));
	for (int i = 0; i < 3 * 4; i++)
		for (int pct = SC_CONFIDENCE_LEAST; pct <= SC_CONFIDENCE_MOST; pct += 5) {
			seen = LIKE(NULL, GPUS[i % 3], SOFTWARES[i / 3], "dense", "many", "16",
				    "infiniband");
			new = seen;
			new.at[SC_LIKE_NETWORK] = "slingshot";
			ck_assert_double_ge(half(shipped, new, 0, pct),
					    half(shipped, seen, 0, pct));
		}
}

/* Each strange software has one vote, whatever its number of rows; a default has the bands of
 * rows whose software was taken away, a profile without rows at least those of switches alone; a
 * pair that was seen has neither. */
TEST(strangers_have_bands_of_their_own)
{
	static const char *const STRANGERS[] = {
		"s1,g1,w1,dense,one,16,none,1 2 3 4",
		"s1,g9,default/w1,layers,many,32,ib,300",
		"s2,g9,default/w2,layers,many,32,ib,110 120 130 140 150 160 170 180 190",
		"s2,g9,read/w2,layers,many,32,ib,70",
	};
	const struct sc_likeness *l = likeness_of(STRANGERS, 4), *known = likeness_of(STRANGERS, 1);
	struct sc_like like = LIKE(NULL, "g1", "default-te", "dense", "one", "16", "none");
	struct sc_band band;

	ck_assert_double_eq_tol(half(l, like, 0, 50), 0.19, TOLERANCE);
	ck_assert_double_eq_tol(half(l, like, 0, 55), 0.3, TOLERANCE);
	sc_band_find(l, &like, 0, &band);
	ck_assert(sc_band_is_nameless(&band));
	ck_assert_uint_eq(sc_band_softwares(&band), 2);
	like.at[SC_LIKE_SOFTWARE] = "defaults-of-ours";
	ck_assert_double_eq_tol(half(l, like, 0, 50), 0.07, TOLERANCE);
	like.at[SC_LIKE_SOFTWARE] = "w1";
	for (int pct = SC_CONFIDENCE_LEAST; pct <= SC_CONFIDENCE_MOST; pct++)
		ck_assert_double_eq_tol(half(l, like, 0, pct), half(known, like, 0, pct),
					TOLERANCE);
}

/* Nobody's stack is as sure as one that is named, nor as unsure as a band without any knowledge. */
TEST(a_name_narrows_the_band)
{
	static const char *const GPUS[] = {"a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb"};
	static const char *const PRECISIONS[] = {"bf16", "fp16"};

	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 2; k++) {
			double named, nameless;

			resolve(GPUS[i],
				sc_arena_printf(&arena, "training.precision=%s", PRECISIONS[k]));
			nameless = log(sc_band_factor(request.band, 80));
			resolve(GPUS[i], sc_arena_printf(&arena,
							 "training.precision=%s "
							 "training.software=megatron-core",
							 PRECISIONS[k]));
			named = log(sc_band_factor(request.band, 80));
			ck_assert_double_ge(nameless, named);
			ck_assert_double_gt(nameless, 0.25);
			ck_assert_double_lt(nameless, 0.6);
		}
	}
}

TEST(rows_that_weigh_most)
{
	struct sc_band_rows rows[2];
	struct sc_band band;
	size_t n_all;

	sc_band_find(likeness_of(LINES, 4), &LIKE(NULL, "g1", "w1", "dense", "one", "16", "none"),
		     0, &band);
	ck_assert(sc_band_is_seen(&band));
	ck_assert_uint_eq(sc_band_sources(&band, rows, 2, &n_all), 2);
	ck_assert_uint_eq(n_all, 14);
	ck_assert_str_eq(rows[0].gpu, "g1");
	ck_assert_str_eq(rows[0].software, "w1");
	ck_assert_uint_eq(rows[0].n, 10);
	ck_assert_str_eq(rows[1].software, "w2");
	ck_assert_double_gt(rows[0].share, rows[1].share);
	band.like.at[SC_LIKE_SOFTWARE] = "w9";
	ck_assert(!sc_band_is_seen(&band));
}

LOOP_TEST(broken_files_are_refused, 3)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"suite,cluster.gpu,training.software,model,nodes,network,errors\n",
		 "no column \"bits\""},
		{"suite,cluster.gpu,training.software,model,nodes,bits,network,errors\n",
		 "no measured row"},
		{"suite,cluster.gpu,training.software,model,nodes,bits,network,errors\na,b,c,d,e,f,g,1 x\n",
		 "errors: expected whole numbers from 0 to 9999, got \"x\""},
	};
	char path[] = "/tmp/likenessXXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	const struct sc_likeness *out;
	struct sc_err err = {0};

	fputs(cases[_i].text, file);
	fclose(file);
	ck_assert_int_eq(sc_likeness_load(path, &arena, &out, &err), -SC_EVALUE);
	unlink(path);
	ck_assert_str_eq(err.text, cases[_i].message);
}

/* ---- one op ---- */

static struct sc_op_time gemm_time(double m)
{
	struct sc_op op = {SC_OP_GEMM, SC_FP16, {.gemm = {1, m, 1024, 1024, false, false}}};
	struct sc_op_time time;

	sc_op_model_get(SC_OP_GEMM)->time(&request.device, &op, &time);
	return time;
}

TEST(short_kernels_extrapolate)
{
	struct sc_op_time small = gemm_time(128), large = gemm_time(65536);

	request.device.band.shortest_us = 2 * small.total_us;
	small = gemm_time(128);
	large = gemm_time(65536);
	ck_assert(small.measured && small.extrapolated);
	ck_assert(large.measured && !large.extrapolated);
	ck_assert_double_eq_tol(small.spread_frac, hypot(large.spread_frac, 0.15), TOLERANCE);
}

TEST(long_kernels_extrapolate)
{
	struct sc_op_time small = gemm_time(8192), large = gemm_time(65536);

	ck_assert(!large.extrapolated);
	request.device.band.longest_us = large.total_us / 2;
	small = gemm_time(8192);
	large = gemm_time(65536);
	ck_assert(!small.extrapolated);
	ck_assert(large.measured && large.extrapolated);
	ck_assert_double_eq_tol(large.spread_frac, hypot(small.spread_frac, 0.15), TOLERANCE);
	request.device.band.longest_us = 0;
	ck_assert(!gemm_time(1e9).extrapolated);
}

LOOP_TEST(blocks_are_whole_words, 8)
{
	static const struct {
		const char *fitted;
		bool gemm;
	} cases[] = {{NULL, false},    {"", false},    {"gemm", true},   {"simt gemm", true},
		     {"gemms", false}, {"gem", false}, {" gemm ", true}, {"simt  gemm", true}};

	request.device.fitted = cases[_i].fitted;
	ck_assert_int_eq(sc_device_is_fitted(&request.device, "gemm"), cases[_i].gemm);
	ck_assert_int_eq(gemm_time(65536).measured, cases[_i].gemm);
}
