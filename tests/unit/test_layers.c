/* A table of layers: its step counted by hand, its memory, bounds; and what drives a torus. */
#include "base/rng.h"
#include "base/units.h"
#include "core/machine/device.h"
#include "models/collective/collective.h"
#include "predict/predict.h"
#include "request_fixture.h"
#include "runner.h"

enum { N_RANDOM = 1000, MAX_ROWS = 8 };
static struct sc_config config;
static struct sc_layer_row rows[MAX_ROWS];
static bool layer_updates; /* in place of the software's */

/* No host, no latency, no losses: what is left is arithmetic. */
#define PLAIN                                                                              \
	"cluster.gpu=npu-ace gpus=16 training.software=astra-sim training.precision=fp16 " \
	"training.optimizer=sgd training.global_batch=32 "
#define TORUS                                                               \
	PLAIN "cluster.torus.dims=4,2,2 cluster.torus.link_gbps=400,50,50 " \
	      "cluster.torus.sm_gbps=80 c3.endpoint.sms=6 c3.endpoint.memory_gbps=450 "

static void set_up(void)
{
	requests_begin();
	sc_config_init(&config);
	layer_updates = false;
	config.model.family = SC_LAYERS;
	memset(rows, 0, sizeof(rows));
	for (int i = 0; i < 3; i++)
		rows[i] = (struct sc_layer_row){.name = "row",
						.flop = 1e9 * (i + 1),
						.bytes = 1e3,
						.params = 2e6 * (3 - i)};
	config.model.rows = (struct sc_structs){.at = rows, .n = 3};
}

static const struct sc_request *resolve(const char *overrides)
{
	struct sc_config cfg = config;
	struct sc_request *req;

	set_all(&cfg, overrides);
	req = resolve_config(&cfg);
	req->software.layer_updates = layer_updates;
	return req;
}

static const struct sc_prediction *predict(const char *overrides)
{
	return predict_request(resolve(overrides), NULL);
}

/* Cube roots of summed cubes: how an op model puts two limits together. */
static double both(double a, double b)
{
	return cbrt(a * a * a + b * b * b);
}

/* Of one row for two samples, forward or backward, on this share of a device. */
static double row_us(const struct sc_layer_row *row, bool backward, double tflops, double gbps)
{
	const double n = backward ? 2 : 1;

	return both(n * 2 * row->flop / (tflops * 1e6),
		    (n * 2 * row->bytes + n * row->params * 2) / (gbps * 1e3));
}

/* Moments none, weight, gradient and master in fp32: 12 bytes a parameter; the ramp of small
 * kernels on top. */
static double update_us(double params, double gbps)
{
	const struct sc_device *device = &resolve(TORUS)->device;

	return (12 * params + device->rowwise.half_bytes) / (gbps * 1e3);
}

/* 4x2x2, four bytes a parameter, no hops: the second dimension passes 2 * 1/2 / 4 of the payload
 * over 50 GB/s. */
#define REDUCE_US(params) (4 * (params) / 4 / (50 * 1e3))

/* Kernels send twice the payload there, and read 1.5 times that: at 450 GB/s longer than the links
 * take. */
static double read_us(double params)
{
	return 4 * params * 2 * 1.5 / (450 * 1e3);
}

FIXTURE(set_up, requests_end)

TEST(turns_are_a_sum)
{
	double us = REDUCE_US(12e6) + update_us(12e6, 900);

	for (int i = 0; i < 3; i++)
		us += row_us(&rows[i], false, 120, 900) + row_us(&rows[i], true, 120, 900);
	ck_assert_double_eq_tol(predict(TORUS "c3.policy=serial c3.endpoint.kind=ideal "
					      "c3.endpoint.sms=0 c3.endpoint.memory_gbps=1")
					->iteration_ms,
				us / 1e3, us / 1e3 * 2e-3); /* 1 of 900 GB/s is kept */
}

/* Each row's gradients are reduced in turn, when they are there, on what 6 SMs and half of the
 * memory leave. */
TEST(overlap_is_a_queue)
{
	const double tflops = 120 * 74.0 / 80, gbps = 450;
	double us = 0, done_us = 0;

	for (int i = 0; i < 3; i++)
		us += row_us(&rows[i], false, tflops, gbps);
	for (int i = 2; i >= 0; i--) {
		us += row_us(&rows[i], true, tflops, gbps);
		done_us = fmax(us, done_us) + read_us(rows[i].params);
	}
	us = fmax(us, done_us) + update_us(12e6, gbps);
	ck_assert_double_eq_tol(predict(TORUS "c3.policy=plain")->iteration_ms, us / 1e3,
				us / 1e3 * 1e-4);
}

TEST(memory_is_a_sum)
{
	/* weights 2 bytes, gradients 4 and autograd's 2 where they are added up apart, master 4;
	 * two samples keep half of what they move */
	const struct sc_memory *m = &predict(PLAIN)->memory;

	ck_assert_double_eq_tol(m->weights_gib, 12e6 * 2 / SC_BYTES_PER_GIB, 1e-9);
	ck_assert_double_eq_tol(m->optimizer_gib, 12e6 * 8 / SC_BYTES_PER_GIB, 1e-9);
	ck_assert_double_eq_tol(m->gradients_gib, 12e6 * 6 / SC_BYTES_PER_GIB, 1e-9);
	ck_assert_double_eq_tol(m->activations_gib, 3 * 2 * 500 / SC_BYTES_PER_GIB, 1e-12);
}

static bool warns(const struct sc_warnings *warnings, const char *text)
{
	for (size_t i = 0; i < warnings->n; i++)
		if (strstr(warnings->text[i], text))
			return true;
	return false;
}

TEST(what_does_not_fit_is_said)
{
	const struct sc_prediction *p;

	rows[0].kept_bytes = 1e12;
	p = predict(PLAIN);
	ck_assert(warns(&p->warnings, "it will not fit"));
}

static double uniform(struct sc_rng *rng, double lo, double hi)
{
	return lo + (hi - lo) * sc_rng_uniform(rng);
}

static void random_rows(struct sc_rng *rng)
{
	config.model.rows.n = 1 + (size_t)(sc_rng_uniform(rng) * (MAX_ROWS - 1));
	for (size_t i = 0; i < config.model.rows.n; i++)
		rows[i] = (struct sc_layer_row){.name = "row",
						.flop = exp(uniform(rng, 10, 23)),
						.bytes = exp(uniform(rng, 5, 16)),
						.params = floor(exp(uniform(rng, 0, 17)))};
}

/* Overlap gains at most what the shorter side takes; more micro-batches cost no less. */
TEST(overlap_has_bounds)
{
	for (int i = 0; i < n_cases(N_RANDOM); i++) {
		struct sc_rng rng;
		double serial, plain, alone, more;

		sc_rng_init(&rng, (uint64_t)nth_case(i, N_RANDOM));
		random_rows(&rng);
		serial = predict(PLAIN "cluster.gpus_per_node=16 c3.policy.dp=serial "
				       "cluster.link_gbps=50")
				 ->iteration_ms;
		plain = predict(PLAIN "cluster.gpus_per_node=16 cluster.link_gbps=50")
				->iteration_ms;
		alone = predict(PLAIN "gpus=1 training.global_batch=2 cluster.gpus_per_node=1")
				->iteration_ms;
		more = predict(PLAIN "gpus=1 training.global_batch=2 cluster.gpus_per_node=1 "
				     "training.micro_batch=1")
			       ->iteration_ms;
		ck_assert_double_ge(plain, alone * (1 - 1e-9));
		ck_assert_double_ge(serial, alone * (1 - 1e-9));
		ck_assert_double_ge(more, alone * (1 - 1e-6));
	}
}

/* A forward that waits for its own layer's gradients alone is never later than one that waits for
 * all; what remains is the work. An update for each layer ramps up for each. */
TEST(own_updates_wait_for_less)
{
	const double ramp_us = update_us(0, 450);

	for (int i = 0; i < n_cases(N_RANDOM); i++) {
		struct sc_rng rng;
		double all, own, serial, work = update_us(0, 450);

		sc_rng_init(&rng, (uint64_t)nth_case(i, N_RANDOM));
		random_rows(&rng);
		for (size_t r = 0; r < config.model.rows.n; r++)
			work += row_us(&rows[r], false, 120 * 74.0 / 80, 450) +
				row_us(&rows[r], true, 120 * 74.0 / 80, 450) +
				update_us(rows[r].params, 450) - ramp_us;
		layer_updates = false;
		all = predict(TORUS "c3.policy=plain")->iteration_ms * 1e3;
		layer_updates = true;
		own = predict(TORUS "c3.policy=plain")->iteration_ms * 1e3;
		serial = predict(TORUS "c3.policy=serial")->iteration_ms * 1e3;
		ck_assert_double_le(own, all + (double)config.model.rows.n * ramp_us + 1e-3);
		ck_assert_double_ge(own, work * (1 - 1e-2));
		ck_assert_double_ge(serial, work * (1 - 1e-2));
	}
}

/* ---- tori ---- */

static void random_torus(struct sc_rng *rng, struct sc_fabric *out)
{
	static int64_t dims[3];
	static double gbps[3];

	for (int d = 0; d < 3; d++) {
		dims[d] = 1 + (int64_t)(sc_rng_uniform(rng) * 8);
		gbps[d] = exp(uniform(rng, 2, 7));
	}
	dims[0]++;
	*out = (struct sc_fabric){.torus = {.dims = {dims, 3},
					    .link_gbps = {gbps, 3},
					    .sm_gbps = 80,
					    .bus_gbps = exp(uniform(rng, 4, 8))},
				  .endpoint = {.kind = SC_ENDPOINT_SMS,
					       .sms = 1 + (int64_t)(sc_rng_uniform(rng) * 20),
					       .memory_gbps = exp(uniform(rng, 3, 8))}};
}

static double us_on(const struct sc_fabric *f, enum sc_collective kind, double bytes)
{
	const struct sc_collective_shape shape = {kind, bytes, SC_FP32};
	const struct sc_span span = {16, 1, 16};
	const struct sc_cost cost = sc_collective_cost(f, &shape, &span, NULL);

	return sc_cost_alone_us(&cost);
}

/* More of anything is never slower; an engine never loses to kernels, and nothing to what is free.
 */
TEST(more_is_never_slower)
{
	for (int i = 0; i < n_cases(N_RANDOM); i++) {
		struct sc_rng rng;
		struct sc_fabric f, g;
		enum sc_collective kind;
		double us, engine_us;

		sc_rng_init(&rng, (uint64_t)nth_case(i, N_RANDOM));
		random_torus(&rng, &f);
		kind = (enum sc_collective)(sc_rng_uniform(&rng) * SC_N_COLLECTIVES);
		us = us_on(&f, kind, 1e8);
		g = f;
		g.endpoint.sms++;
		ck_assert_double_le(us_on(&g, kind, 1e8), us);
		g = f;
		g.endpoint.memory_gbps *= 1.5;
		ck_assert_double_le(us_on(&g, kind, 1e8), us);
		ck_assert_double_ge(us_on(&f, kind, 2e8), us);
		g = f;
		g.endpoint.kind = SC_ENDPOINT_ENGINE;
		engine_us = us_on(&g, kind, 1e8);
		ck_assert_double_le(engine_us, us);
		g.endpoint.kind = SC_ENDPOINT_IDEAL;
		ck_assert_double_le(us_on(&g, kind, 1e8), engine_us);
		/* all equal where nothing but links is short */
		g = f;
		g.endpoint = (struct sc_endpoint){SC_ENDPOINT_SMS, 1 << 20, 1e15};
		g.torus.bus_gbps = 1e15;
		f.endpoint.kind = SC_ENDPOINT_IDEAL;
		ck_assert_double_eq_tol(us_on(&g, kind, 1e8), us_on(&f, kind, 1e8), 1e-9 * us);
	}
}

static double sent_gbps(const struct sc_fabric *f)
{
	const struct sc_collective_shape shape = {SC_ALL_REDUCE, 1e9, SC_FP32};
	struct sc_torus_traffic traffic;

	sc_torus_traffic(f, &shape, &traffic);
	return traffic.sent / us_on(f, SC_ALL_REDUCE, 1e9) / 1e3;
}

static int64_t TORI[][3] = {{4, 2, 2}, {4, 4, 2}, {4, 4, 4}, {4, 8, 4}};

/* Bytes sent for each of the payload: 2, 2.125, 2.25, 2.3125 on the tori of the ACE paper. Kernels
 * read 1.5 times as many, an engine the payload: 128 GB/s of memory give 85 and 128 times as many
 * GB/s of network. */
LOOP_TEST(endpoints_as_derived, 4)
{
	static const double sigma[] = {2, 2.125, 2.25, 2.3125};
	double gbps[] = {4000, 500, 500};
	struct sc_fabric f = {.torus = {.dims = {TORI[_i], 3}, .link_gbps = {gbps, 3}},
			      .endpoint = {SC_ENDPOINT_SMS, 80, 128}};

	f.torus.sm_gbps = 80;
	ck_assert_double_eq_tol(sent_gbps(&f), 128 / 1.5, 1e-6);
	f.endpoint.kind = SC_ENDPOINT_ENGINE;
	ck_assert_double_eq_tol(sent_gbps(&f), 128 * sigma[_i], 1e-6);
	f.endpoint = (struct sc_endpoint){SC_ENDPOINT_SMS, 2, 1e9};
	ck_assert_double_eq_tol(sent_gbps(&f), 2 * 80 / 1.5, 1e-6);
	f.endpoint = (struct sc_endpoint){SC_ENDPOINT_ENGINE, 0, 1e9};
	f.torus.engine_sram_mib = 4;
	f.torus.hop_us = (struct sc_doubles){(double[]){100}, 1};
	ck_assert_double_le(sent_gbps(&f), /* 4 MiB in flight for as long as all hops take */
			    4 * 1048576 * sigma[_i] /
				    (200 * (double)(TORI[_i][0] + TORI[_i][1] + TORI[_i][2] - 3)) /
				    1e3);
}

/* All-to-all over a ring of four: ways of 0, 1, 2 and 1 hops, a mean of 1. */
TEST(all_to_all_takes_the_shortest_way)
{
	int64_t ring[] = {4}, pair[] = {4, 2};
	double gbps[] = {100};
	struct sc_fabric f = {.torus = {.dims = {ring, 1}, .link_gbps = {gbps, 1}},
			      .endpoint = {.kind = SC_ENDPOINT_IDEAL}};

	ck_assert_double_eq_tol(us_on(&f, SC_ALL_TO_ALL, 1e8), 1e3, 1e-6);
	f.torus.dims = (struct sc_ints){pair, 2}; /* half stays on its side */
	ck_assert_double_eq_tol(us_on(&f, SC_ALL_TO_ALL, 1e8), 1e3, 1e-6);
}
