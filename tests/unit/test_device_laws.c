/* Laws of the shipped GPUs: narrower formats are no slower, nor are larger boards of an
 * architecture, no precision is above its peak, and one that the hardware lacks is refused. */
#include "core/profile/paths.h"
#include "models/op_model.h"
#include "request_fixture.h"

enum { MAX_DEVICES = 64 };
static struct sc_device device[MAX_DEVICES];
static int n_devices;

static void set_up(void)
{
	const char *const *ids;
	size_t n;

	requests_begin();
	n = sc_config_ids("devices", &arena, &ids);
	n_devices = 0;
	for (size_t i = 0; i < n; i++) {
		struct sc_err err = {0};

		if (strncmp(ids[i], "arch-", 5) == 0)
			continue;
		ck_assert_int_lt(n_devices, MAX_DEVICES);
		ck_assert_msg(sc_device_load(ids[i], &arena, &device[n_devices++], &err) == 0, "%s",
			      err.text);
	}
}

static void tear_down(void)
{
	requests_end();
}

FIXTURE(set_up, tear_down)

#define SIDE 8192.0

/* TFLOP/s of a large product; 0: the device has no such math. */
static double rate_tflops(const struct sc_device *d, enum sc_dtype dtype, enum sc_load load)
{
	struct sc_op op = {SC_OP_GEMM,
			   dtype,
			   {.gemm = {.batch = 1, .m = SIDE, .n = SIDE, .k = SIDE, .load = load}}};
	struct sc_op_time t;

	if (!(d->peak_tflops[dtype] > 0))
		return 0;
	sc_op_model_get(SC_OP_GEMM)->time(d, &op, &t);
	return 2 * SIDE * SIDE * SIDE / t.total_us / 1e6;
}

LOOP_TEST(narrower_formats_are_no_slower, 2)
{
	static const enum sc_dtype ORDER[] = {SC_FP32, SC_TF32, SC_BF16, SC_FP8, SC_FP4};

	for (int i = 0; i < n_devices; i++) {
		double before = 0;

		for (int t = 0; t < N_OF(ORDER); t++) {
			const double now =
				rate_tflops(&device[i], ORDER[t], _i ? SC_LOAD_BURST : SC_LOAD_RUN);

			if (!(now > 0))
				continue;
			ck_assert_double_le(now, device[i].peak_tflops[ORDER[t]]);
			ck_assert_msg(now >= before * 0.999,
				      "%s: %g TFLOP/s in format %d, %g before", device[i].id, now,
				      (int)ORDER[t], before);
			before = now;
		}
	}
}

/* As datasheets round. */
static bool has_more(const struct sc_device *a, const struct sc_device *b)
{
	const double less = 0.995;

	for (int type = 0; type < SC_N_DTYPES; type++)
		if (b->peak_tflops[type] < a->peak_tflops[type] * less)
			return false;
	return strcmp(a->arch, b->arch) == 0 && b->sm_count >= a->sm_count &&
	       b->boost_mhz >= a->boost_mhz * less && b->hbm_gbps >= a->hbm_gbps * less &&
	       b->l2_mib >= a->l2_mib && b->tdp_w >= a->tdp_w;
}

/* What an architecture gets of its peak was measured, and differs from one to the next: MI300X has
 * more of everything than H100 and is slower; npu-ace is an ideal machine of simulators. Rates of
 * GB200 are of its own iterations, 3.5 % below those of B200 in fp4. */
TEST(device_with_more_is_no_slower)
{
	int n = 0;

	for (int a = 0; a < n_devices; a++)
		for (int b = 0; b < n_devices; b++) {
			if (a == b || strncmp(device[a].id, "npu-", 4) == 0 ||
			    !has_more(&device[a], &device[b]))
				continue;
			for (int type = 0; type < SC_N_DTYPES; type++) {
				const double of_a = rate_tflops(&device[a], (enum sc_dtype)type, 0),
					     of_b = rate_tflops(&device[b], (enum sc_dtype)type, 0);

				ck_assert_msg(of_b >= of_a * 0.96,
					      "%s: %g TFLOP/s in format %d, %s %g", device[a].id,
					      of_a, type, device[b].id, of_b);
			}
			n++;
		}
	ck_assert_int_gt(n, 40);
}

/* Precisions of configs and what their math needs. */
static const struct {
	const char *name;
	enum sc_dtype dtype;
	bool mx;
} PRECISIONS[] = {{"fp32", SC_FP32, false}, {"tf32", SC_TF32, false}, {"fp16", SC_FP16, false},
		  {"bf16", SC_BF16, false}, {"fp8", SC_FP8, false},   {"mxfp8", SC_FP8, true},
		  {"mxfp4", SC_FP4, true},  {"nvfp4", SC_FP4, false}};

/* Of a model that computes much for each byte. */
LOOP_TEST(no_precision_is_above_its_peak, N_OF(PRECISIONS))
{
	for (int i = 0; i < n_devices; i++) {
		const struct sc_device *d = &device[i];
		struct sc_request *req = sc_arena_calloc(&arena, 1, sizeof(*req));
		const bool can =
			d->peak_tflops[PRECISIONS[_i].dtype] > 0 &&
			(!PRECISIONS[_i].mx || d->mx_formats) &&
			(strcmp(PRECISIONS[_i].name, "nvfp4") != 0 || d->cuda_capability > 0);
		struct sc_config config;
		struct sc_err err = {0};
		char text[512];

		snprintf(
			text, sizeof(text),
			"cluster.gpu=%s cluster.gpus_per_node=1 gpus=1 model.family=gpt model.layers=2 "
			"model.hidden=16384 model.heads=128 model.seq=4096 training.global_batch=4 "
			"training.micro_batch=4 training.precision=%s",
			d->id, PRECISIONS[_i].name);
		sc_config_init(&config);
		set_all(&config, text);
		ck_assert_msg((sc_config_resolve(&config, catalog, "test", req, &err) == 0) == can,
			      "%s: %s", text, err.text);
		if (!can) {
			ck_assert_msg(strstr(err.text, "its peaks in TFLOP/s"), "%s", err.text);
			continue;
		}
		ck_assert_double_le(predict_request(req, NULL)->mfu, 1);
	}
}
