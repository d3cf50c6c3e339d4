/* Laws of embedding kernels over random shapes on every GPU that has a profile: what changes little
 * costs little more, and skew saves traffic. */
#include <dirent.h>
#include <stdio.h>

#include "arena_fixture.h"
#include "base/rng.h"
#include "core/profile/paths.h"
#include "models/embedding_kernel.h"
#include "models/op_model.h"
#include "runner.h"

#define SKEW_TOL 2e-3 /* misses are found to a thousandth (models/row_reuse.c) */
enum { MAX_DEVICES = 128, N_RANDOM = 20000 };

static struct sc_device devices[MAX_DEVICES];
static size_t n_devices;

static void load_devices(void)
{
	struct sc_err err = {.code = SC_OK};
	const char *base;
	char path[512], id[256];
	DIR *dir;

	arena_begin();
	n_devices = 0;
	ck_assert_int_eq(
		sc_config_path((struct sc_config_ref){.at = "base.yaml"}, &arena, &base, &err), 0);
	snprintf(path, sizeof(path), "%.*sdevices", (int)(strrchr(base, '/') + 1 - base), base);
	dir = opendir(path);
	ck_assert(dir != NULL);
	for (const struct dirent *entry; (entry = readdir(dir));) {
		const char *end = strstr(entry->d_name, ".yaml");

		if (!end || strncmp(entry->d_name, "arch-", 5) == 0)
			continue;
		ck_assert_uint_lt(n_devices, MAX_DEVICES);
		snprintf(id, sizeof(id), "%.*s", (int)(end - entry->d_name), entry->d_name);
		ck_assert_msg(sc_device_load(id, &arena, &devices[n_devices++], &err) == 0, "%s",
			      err.text);
	}
	closedir(dir);
	ck_assert_uint_gt(n_devices, 40);
}

struct shape {
	const struct sc_device *device;
	struct sc_table table;
	struct sc_embedding_use use;
	enum sc_embedding_pass pass;
};

static double between(struct sc_rng *rng, double lo, double hi)
{
	return lo * pow(hi / lo, sc_rng_uniform(rng));
}

static void draw(struct sc_rng *rng, struct shape *out)
{
	const double rows = floor(between(rng, 10, 1e8)), dim = 4 * floor(between(rng, 1, 256));
	const double pooling = between(rng, 0.5, 300), samples = floor(between(rng, 1, 1e6));
	const size_t device = sc_rng_below(rng, n_devices);
	const uint64_t count = 1 + sc_rng_below(rng, 40), half = sc_rng_below(rng, 2);
	const uint64_t optimizer = sc_rng_below(rng, SC_ROW_ATOMIC_SGD + 1);
	const uint64_t kernel = sc_rng_below(rng, SC_N_EMBEDDING_KERNELS);
	const uint64_t pass = sc_rng_below(rng, 2), warm = sc_rng_below(rng, 4);

	*out = (struct shape){
		.device = &devices[device],
		.table = {.rows = (int64_t)rows,
			  .dim = (int64_t)dim,
			  .count = (int64_t)count,
			  .features = 1,
			  .pooling = pooling,
			  .storage = (half ? SC_FP16 : SC_FP32) + 1,
			  .reuse = {.kind = SC_REUSE_UNIFORM}},
		.use = {.samples = samples,
			.optimizer = (enum sc_row_optimizer)optimizer,
			.kernel = (enum sc_embedding_kernel)kernel,
			.warm = warm == 0},
		.pass = (enum sc_embedding_pass)pass,
	};
}

static struct sc_embedding_shape shape_of(struct shape *s)
{
	s->use.table = &s->table;
	return sc_embedding_shape_of(s->device, &s->use, 1, s->pass);
}

static double time_us(struct shape *s)
{
	struct sc_op op = {.kind = SC_OP_EMBEDDING, .u.embedding = shape_of(s)};
	struct sc_op_time time;

	sc_op_model_get(op.kind)->time(s->device, &op, &time);
	ck_assert(isfinite(time.total_us) && time.total_us > 0);
	return time.total_us;
}

static const char *told(const struct shape *s)
{
	static char text[256];

	snprintf(text, sizeof(text),
		 "%s rows=%lld dim=%lld count=%lld pooling=%g batch=%g storage=%d optimizer=%d "
		 "kernel=%d warm=%d pass=%d zipf=%g unique=%g",
		 s->device->id, (long long)s->table.rows, (long long)s->table.dim,
		 (long long)s->table.count, s->table.pooling, s->use.samples, s->table.storage,
		 (int)s->use.optimizer, (int)s->use.kernel, s->use.warm, (int)s->pass,
		 s->table.reuse.zipf, s->use.unique_rows);
	return text;
}

FIXTURE(load_devices, arena_end)

/* Hits end where the distinct rows no longer fit the cache, not at once. */
TEST(distinct_rows_go_continuously)
{
	struct sc_rng rng;
	struct shape s;

	sc_rng_init(&rng, 40);
	for (int i = 0; i < n_cases(N_RANDOM); i++) {
		double lookups, before, after;

		draw(&rng, &s);
		lookups = fmax(1.1, s.use.samples * s.table.pooling);
		s.use.unique_rows = between(&rng, 1, lookups / 1.05);
		before = time_us(&s);
		s.use.unique_rows *= 1.05;
		after = time_us(&s);
		/* a benchmark's rows that just fit were there without any traffic: steeper */
		ck_assert_msg(after <= (s.use.warm ? 1.15 : 1.1) * before &&
				      after >= before * (1 - 1e-9),
			      "%s: %g, then %g us", told(&s), before, after);
	}
}

/* The same where the distinct rows follow from the table's. */
TEST(larger_tables_go_continuously)
{
	struct sc_rng rng;
	struct shape s;

	sc_rng_init(&rng, 41);
	for (int i = 0; i < n_cases(N_RANDOM); i++) {
		double before, after;

		draw(&rng, &s);
		if (sc_rng_below(&rng, 2))
			s.table.reuse = (struct sc_reuse){.kind = SC_REUSE_ZIPF,
							  .zipf = between(&rng, 0.2, 3)};
		s.table.rows += 20; /* 5 % are a row */
		before = time_us(&s);
		s.table.rows += s.table.rows / 20;
		after = time_us(&s);
		ck_assert_msg(after <= 1.1 * before, "%s: %g, then %g us", told(&s), before, after);
	}
}

/* A more popular row is found in the cache more often. */
TEST(more_skew_never_moves_more)
{
	struct sc_rng rng;
	struct shape s;

	sc_rng_init(&rng, 42);
	for (int i = 0; i < n_cases(N_RANDOM); i++) {
		struct sc_embedding_shape before, after;

		draw(&rng, &s);
		if (sc_rng_below(&rng, 4))
			s.table.reuse = (struct sc_reuse){.kind = SC_REUSE_ZIPF,
							  .zipf = between(&rng, 0.01, 3)};
		before = shape_of(&s);
		s.table.reuse = (struct sc_reuse){
			.kind = SC_REUSE_ZIPF,
			.zipf = fmax(0.01, s.table.reuse.zipf * (1 + sc_rng_uniform(&rng)))};
		after = shape_of(&s);
		ck_assert_msg(after.hbm_bytes <= before.hbm_bytes * (1 + SKEW_TOL) + 1,
			      "%s: %g, then %g bytes", told(&s), before.hbm_bytes, after.hbm_bytes);
	}
}

/* One bag of PyTorch's takes as long as its chain of loads, and so do as many as an SM of A100 has
 * room for; twice as many take twice as long. FBGEMM's loads are four at a time. */
TEST(bags_wait_for_their_rows)
{
	struct shape s = {.table = {.rows = INT64_C(1) << 40, .dim = 32, .pooling = 100},
			  .use = {.samples = 1, .kernel = SC_KERNEL_PYTORCH}};
	double chain_us = (2 * 0.56 * 466 + 100 * (466 + 100)) / 1410, one, room;

	for (size_t i = 0; i < n_devices; i++)
		if (strcmp(devices[i].id, "a100-sxm-80gb") == 0)
			s.device = &devices[i];
	ck_assert(s.device != NULL);
	one = time_us(&s);
	ck_assert_double_eq_tol(one, s.device->embedding.fixed_us + chain_us, 0.1);
	s.use.samples = 32 * 108;
	room = time_us(&s);
	ck_assert(room < 1.2 * one);
	s.use.samples *= 64;
	ck_assert_double_eq_tol(time_us(&s) / (room - s.device->embedding.fixed_us), 64, 1);
	s.use.kernel = SC_KERNEL_TBE;
	ck_assert(time_us(&s) < 0.75 * 64 * room);
	s.use.samples = 1;
	ck_assert_double_eq_tol(time_us(&s) / one, 0.26, 0.02);
}

/* Rows that the last cache holds come no faster than SMs take them, 30.3 bytes a clock and SM.
 * Memory twice as fast brings V100's nearly twice as fast, and B200's no faster. */
TEST(sms_take_rows_of_the_cache)
{
	static const struct {
		const char *device;
		double rate; /* of rows with memory twice as fast */
	} cases[] = {{"v100-sxm-32gb", 1.85}, {"b200-sxm-180gb", 1}};

	for (size_t i = 0; i < N_OF(cases); i++) {
		struct shape s = {.table = {.rows = 1000, .dim = 1024, .count = 1, .pooling = 64},
				  .use = {.samples = 65536, .output_bytes = 0.001}};
		const double bytes = 65536.0 * 64 * 1024 * 4;
		struct sc_device faster;
		double one;

		for (size_t d = 0; d < n_devices; d++)
			if (strcmp(devices[d].id, cases[i].device) == 0)
				s.device = &devices[d];
		ck_assert(s.device != NULL);
		one = time_us(&s);
		ck_assert(one > bytes / (30.34 * (double)s.device->sm_count * s.device->boost_mhz));
		faster = *s.device;
		faster.hbm_gbps *= 2;
		s.device = &faster;
		ck_assert_double_eq_tol(one / time_us(&s), cases[i].rate, 0.06);
	}
}

/* Gradients of PyTorch's are tensors as wide as the weights: those of 16 bits cost more, not less,
 * for they are read and written once more to be unscaled. */
TEST(sparse_gradients_are_as_wide_as_weights)
{
	struct sc_table t = {
		.rows = INT64_C(1) << 40, .dim = 128, .pooling = 1, .storage = SC_FP32 + 1};
	struct shape s = {.table = t,
			  .device = &devices[0],
			  .use = {.samples = 1000, .kernel = SC_KERNEL_PYTORCH},
			  .pass = SC_EMBEDDING_BACKWARD};
	const double bytes = 1000 * 128 * 4;
	struct sc_embedding_shape wide = shape_of(&s), narrow;

	s.use.output_bytes = 2;
	narrow = shape_of(&s);
	ck_assert_double_eq_tol(wide.copy_bytes, 4 * bytes, 1); /* copied, scaled */
	ck_assert_double_eq_tol(narrow.copy_bytes, 5.5 * bytes, 1);
	ck_assert_double_eq_tol(wide.hbm_bytes, 2 * bytes, 1e-3 * bytes);
	ck_assert(narrow.sort_keys <= 0);
	s.use.optimizer = SC_ROW_ADAM;
	ck_assert(shape_of(&s).sort_keys > 0);
	s.use.kernel = SC_KERNEL_HUGECTR; /* sums of gradients, written and read */
	ck_assert_double_eq_tol(shape_of(&s).copy_bytes, 2 * bytes, 1e-3 * bytes);
}
