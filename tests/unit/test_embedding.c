/* Embedding kernels: bytes by hand, what more work must cost, tiers; and, where the data folder is
 * beside the checkout, the published kernels. */
#include <unistd.h>

#include "arena_fixture.h"
#include "base/csv.h"
#include "base/units.h"
#include "models/embedding_kernel.h"
#include "models/op_model.h"
#include "models/row_reuse.h"
#include "runner.h"

#define DATA "../shared/data/embedding/"

static struct sc_device device;

static void load_device(const char *id)
{
	struct sc_err err = {.code = SC_OK};

	ck_assert_msg(sc_device_load(id, &arena, &device, &err) == 0, "%s", err.text);
}

static void setup(void)
{
	arena_begin();
	load_device("v100-sxm-32gb");
}

static double time_us(const struct sc_embedding_shape *shape)
{
	struct sc_op op = {.kind = SC_OP_EMBEDDING, .u.embedding = *shape};
	struct sc_op_time time;

	sc_op_model_get(op.kind)->time(&device, &op, &time);
	ck_assert(isfinite(time.total_us) && time.total_us >= 0);
	return time.total_us;
}

static struct sc_embedding_shape shape_of(const struct sc_embedding_use *uses, size_t n,
					  enum sc_embedding_pass pass)
{
	struct sc_embedding_shape shape;

	shape = sc_embedding_shape_of(&device, uses, n, pass);
	return shape;
}

static double use_us(const struct sc_embedding_use *use, enum sc_embedding_pass pass)
{
	struct sc_embedding_shape shape = shape_of(use, 1, pass);

	return time_us(&shape);
}

static void is_near(double got, double expected, double tolerance)
{
	ck_assert_msg(fabs(got - expected) <= tolerance * fabs(expected), "got %g, expected %g",
		      got, expected);
}

static struct sc_table a_table(int64_t rows, int64_t dim, double pooling)
{
	return (struct sc_table){.name = "t",
				 .rows = rows,
				 .dim = dim,
				 .count = 1,
				 .features = 1,
				 .pooling = pooling,
				 .reuse = {.kind = SC_REUSE_UNIFORM}};
}

/* ---- shapes ---- */

FIXTURE(setup, arena_end)

/* 2^40 rows: no lookup meets another. */
TEST(bytes_by_hand)
{
	struct sc_table table = a_table(INT64_C(1) << 40, 100, 4);
	struct sc_embedding_use use = {
		.table = &table, .samples = 1000, .optimizer = SC_ROW_ADAM, .output_bytes = 2};
	struct sc_embedding_shape s = shape_of(&use, 1, SC_EMBEDDING_FORWARD);

	table.count = 3;
	is_near(s.lookups, 4000, 1e-12);
	is_near(s.unique_rows, 4000, 1e-6);
	is_near(s.outputs, 1000, 1e-12);
	is_near(s.hbm_bytes, 4000 * 416.0, 1e-6); /* 400 bytes are 13 sectors */
	is_near(s.stream_bytes, 4000 * 8.0 + 1000 * (200 + 8.0), 1e-12);
	s = shape_of(&use, 1, SC_EMBEDDING_BACKWARD);
	is_near(s.tables, 3, 0);
	is_near(s.sort_keys, 12000, 1e-12);
	/* row and two moments (800 bytes), read and written */
	is_near(s.hbm_bytes, 3 * 4000 * 2 * (416 + 800.0), 1e-6);
	is_near(s.l2_bytes, 3 * 3000 * 200.0, 1e-6); /* gradients beyond each bag's first */
	is_near(s.longest_run, 1, 1e-6);
}

/* FBGEMM's backward pass writes a gradient for each lookup's weight, of its row and its bag's
 * gradient: it reads as many rows as forward once more. */
TEST(weights_have_gradients)
{
	const struct sc_table plain = {
		.rows = 1000000, .dim = 128, .pooling = 20, .reuse = {.kind = SC_REUSE_UNIFORM}};
	struct sc_table weighted = plain;

	weighted.weighted = true;
	for (int kernel = SC_KERNEL_TBE; kernel <= SC_KERNEL_PYTORCH; kernel++) {
		struct sc_embedding_use use = {.table = &plain,
					       .samples = 4096,
					       .kernel = (enum sc_embedding_kernel)kernel};
		const struct sc_embedding_shape without = shape_of(&use, 1, SC_EMBEDDING_BACKWARD);
		struct sc_embedding_shape with, reads;
		double rows;

		use.table = &weighted;
		with = shape_of(&use, 1, SC_EMBEDDING_BACKWARD);
		reads = shape_of(&use, 1, SC_EMBEDDING_FORWARD);
		rows = with.hbm_bytes + with.l2_bytes - without.hbm_bytes - without.l2_bytes;
		is_near(rows + 1,
			1 + (kernel == SC_KERNEL_TBE || kernel == SC_KERNEL_TBE_HIP
				     ? reads.hbm_bytes + reads.l2_bytes
				     : 0),
			1e-9);
	}
}

TEST(no_work_is_no_time)
{
	struct sc_table table = a_table(1000, 64, 10);
	struct sc_embedding_use use = {.table = &table, .samples = 0};
	struct sc_embedding_shape s;

	for (int pass = 0; pass <= SC_EMBEDDING_PREFETCH; pass++) {
		s = shape_of(&use, 1, (enum sc_embedding_pass)pass);
		ck_assert(time_us(&s) <= 0);
		s = shape_of(NULL, 0, (enum sc_embedding_pass)pass);
		ck_assert(time_us(&s) <= 0);
	}
}

/* Fused kernels of the parts are the sum of the parts. */
TEST(shards_add_up)
{
	struct sc_table table = a_table(1 << 20, 128, 10);
	struct sc_embedding_use whole = {.table = &table, .samples = 4096}, left = whole,
				half = whole;
	struct sc_embedding_shape all, sum;

	left.cols = 64;
	half.row_frac = 0.5;
	for (int pass = 0; pass <= SC_EMBEDDING_BACKWARD; pass++) {
		struct sc_embedding_use two[2] = {whole, whole};

		all = shape_of(two, 2, (enum sc_embedding_pass)pass);
		sum = shape_of(&whole, 1, (enum sc_embedding_pass)pass);
		is_near(all.hbm_bytes, 2 * sum.hbm_bytes, 1e-12);
		is_near(all.lookups, 2 * sum.lookups, 1e-12);
		all = shape_of(&whole, 1, (enum sc_embedding_pass)pass);
		sum = shape_of(&left, 1, (enum sc_embedding_pass)pass);
		is_near(sum.lookups, all.lookups, 1e-12);
		is_near(2 * (sum.hbm_bytes + sum.l2_bytes), all.hbm_bytes + all.l2_bytes, 1e-9);
		sum = shape_of(&half, 1, (enum sc_embedding_pass)pass);
		is_near(2 * sum.unique_rows, all.unique_rows, 1e-12);
		is_near(sum.outputs, all.outputs, 1e-12); /* partial sums of every sample */
	}
}

/* ---- times ---- */

TEST(more_work_takes_longer)
{
	struct sc_table table = a_table(1 << 22, 16, 1), wide = table, deep = table, rare = table;
	struct sc_embedding_use use = {.table = &table, .samples = 1024}, more = use;

	rare.rows *= 64;
	for (int pass = 0; pass <= SC_EMBEDDING_BACKWARD; pass++) {
		enum sc_embedding_pass p = (enum sc_embedding_pass)pass;

		wide.dim = deep.dim = rare.dim = table.dim = 16;
		for (int i = 0; i < 12; i++, table.pooling *= 1.7) {
			double us = use_us(&use, p);

			wide = deep = rare = table;
			wide.dim = 64;
			deep.pooling *= 1.5;
			rare.rows = table.rows * 64;
			more.table = &wide;
			ck_assert(use_us(&more, p) > us);
			more.table = &deep;
			ck_assert(use_us(&more, p) > us);
			more.table = &rare; /* fewer lookups of one row */
			ck_assert(use_us(&more, p) > us * (1 - 1e-9));
			more = use;
			more.samples *= 2;
			ck_assert(use_us(&more, p) > us);
			more = use;
		}
		table.pooling = 1;
	}
}

/* No kernel moves distinct rows and outputs faster than memory does. */
LOOP_TEST(never_under_the_roofline, 5)
{
	static const char *const ids[] = {"v100-sxm-32gb", "a100-sxm-80gb", "h100-sxm-80gb",
					  "b200-sxm-180gb", "mi350x"};

	load_device(ids[_i]);
	for (double pooling = 1; pooling < 300; pooling *= 4) {
		for (int64_t dim = 4; dim <= 2048; dim *= 4) {
			struct sc_table table = a_table(50000000, dim, pooling);
			struct sc_embedding_use use = {.table = &table, .samples = 65536};
			struct sc_embedding_shape s = shape_of(&use, 1, SC_EMBEDDING_FORWARD);
			double bytes = 4 * (double)dim * (s.unique_rows + s.outputs);

			ck_assert(time_us(&s) > sc_bytes_us(bytes, device.hbm_gbps));
			s = shape_of(&use, 1, SC_EMBEDDING_BACKWARD);
			bytes = 4 * (double)dim * (2 * s.unique_rows + s.outputs);
			ck_assert(time_us(&s) > sc_bytes_us(bytes, device.hbm_gbps));
		}
	}
}

TEST(optimizers_in_order)
{
	struct sc_table table = a_table(10000000, 128, 20);
	double last = 0;

	for (int k = SC_ROW_SGD; k <= SC_ROW_ADAM; k++) {
		struct sc_embedding_use use = {
			.table = &table, .samples = 8192, .optimizer = (enum sc_row_optimizer)k};
		double us = use_us(&use, SC_EMBEDDING_BACKWARD);

		ck_assert(us > last);
		last = us;
	}
}

TEST(tiers)
{
	struct sc_table table = a_table(10000000, 64, 10);
	struct sc_embedding_use use = {.table = &table, .samples = 8192};
	double hbm = use_us(&use, SC_EMBEDDING_FORWARD), last = 1e30;

	ck_assert(use_us(&use, SC_EMBEDDING_PREFETCH) <= 0);
	use.tier = SC_TIER_CACHED;
	for (double frac = 0; frac < 1; frac += 0.19) {
		double us;

		use.cache_frac = frac;
		us = use_us(&use, SC_EMBEDDING_PREFETCH);
		ck_assert(us < last);
		is_near(use_us(&use, SC_EMBEDDING_FORWARD), hbm, 0.1);
		last = us;
	}
	use.tier = SC_TIER_UVM;
	ck_assert(use_us(&use, SC_EMBEDDING_FORWARD) > 5 * hbm);
	use.tier = SC_TIER_SSD;
	ck_assert(use_us(&use, SC_EMBEDDING_FORWARD) > 500 * hbm);
}

TEST(cost_of_a_graph_node)
{
	struct sc_table table = a_table(10000000, 64, 10);
	struct sc_embedding_use use = {.table = &table, .samples = 8192, .tier = SC_TIER_UVM};
	struct sc_op op = {.kind = SC_OP_EMBEDDING};
	struct sc_cost cost;

	op.u.embedding = shape_of(&use, 1, SC_EMBEDDING_FORWARD);
	sc_op_cost(&device, &op, &cost);
	is_near(cost.latency_us + cost.work_us, time_us(&op.u.embedding), 1e-12);
	is_near(cost.owner_frac[SC_OWN_MEMORY], 1, 0);
	ck_assert(cost.demand[SC_RES_PCIE] > 0.9 && cost.demand[SC_RES_PCIE] <= 1);
	ck_assert(cost.demand[SC_RES_HBM] > 0 && cost.demand[SC_RES_HBM] < 0.5);
}

TEST(huge_stays_finite)
{
	struct sc_table table = a_table(INT64_C(1) << 40, 1 << 20, 1e6);
	struct sc_embedding_use use = {.table = &table, .samples = 1e9, .skew = 1024};

	for (int pass = 0; pass <= SC_EMBEDDING_BACKWARD; pass++)
		ck_assert(use_us(&use, (enum sc_embedding_pass)pass) > 1e9);
	table.rows = 1;
	table.dim = 1;
	ck_assert(use_us(&use, SC_EMBEDDING_BACKWARD) > 1e9);
}

/* ---- published kernels ---- */

static void load_csv(const char *path, struct sc_csv *out)
{
	struct sc_err err = {.code = SC_OK};

	ck_assert_msg(sc_csv_load(path, &arena, out, &err) == 0, "%s", err.text);
}

static const char *cell(const struct sc_csv *csv, size_t row, const char *column)
{
	int at = sc_csv_column(csv, column);

	ck_assert_msg(at >= 0, "%s", column);
	return sc_csv_cell(csv, row, (size_t)at);
}

static double number(const struct sc_csv *csv, size_t row, const char *column)
{
	return strtod(cell(csv, row, column), NULL);
}

/* ml_perf_model's formula for V100, as sharding studies quote it (Lin et al. 2022): rows that stay
 * in the L2 by a uniform law, sectors, peak rates of its own measurement, a factor for narrow rows.
 */
static double ml_perf_model_us(const struct sc_csv *csv, size_t i)
{
	double b = number(csv, i, "batch_size"), e = number(csv, i, "num_embeddings");
	double l = number(csv, i, "bag_size"), d = number(csv, i, "embedding_dim");
	double t = number(csv, i, "num_tables"), c = d <= 32 ? 1.55 : d <= 64 ? 1.1 : 1;
	double in_l2 = fmin(fmin(0.9 * 6 * SC_BYTES_PER_MIB / ceil(80 * 32 / b) / 4 / d, e), b * l);
	double u = pow(1 - 1 / e, b * l), seen = e - u * e;
	double hit = seen <= in_l2 ? 1 - seen / (b * l)
				   : 1 - (in_l2 + (b * l - in_l2) * (e - in_l2) / e) / (b * l);
	double row = l * 32 * ceil(4 * d / 32), dram, l2;

	if (strstr(cell(csv, i, "kernel_name"), "backward"))
		return sc_bytes_us(2 * t * b * l * d * 4, 816.95);
	l2 = hit * row;
	dram = 32 + 64 + 32 * ceil(4 * l / 32) + (1 - hit) * row + 32 * ceil(4 * d / 32);
	return c * fmax(sc_bytes_us(t * b * dram, 816.95), sc_bytes_us(t * b * l2, 2847));
}

NEEDS(DATA "measured_v100_embedding_kernels.csv")

TEST(v100_kernels)
{
	struct sc_csv csv;
	double ours[2] = {0}, theirs[2] = {0};

	load_csv(DATA "measured_v100_embedding_kernels.csv", &csv);
	ck_assert_uint_eq(csv.n_rows, 20);
	for (size_t i = 0; i < csv.n_rows; i++) {
		bool back = strstr(cell(&csv, i, "kernel_name"), "backward") != NULL;
		struct sc_table table = a_table((int64_t)number(&csv, i, "num_embeddings"),
						(int64_t)number(&csv, i, "embedding_dim"),
						number(&csv, i, "bag_size"));
		struct sc_embedding_use use = {.table = &table,
					       .samples = number(&csv, i, "batch_size"),
					       .optimizer = SC_ROW_ATOMIC_SGD,
					       .warm = true};
		double us = number(&csv, i, "kernel_us");

		table.count = (int64_t)number(&csv, i, "num_tables");
		ours[back] +=
			fabs(use_us(&use, back ? SC_EMBEDDING_BACKWARD : SC_EMBEDDING_FORWARD) /
				     us -
			     1) /
			10;
		theirs[back] += fabs(ml_perf_model_us(&csv, i) / us - 1) / 10;
	}
	ck_assert_msg(ours[0] < 0.05 && ours[1] < 0.03, "MAPE %.3f forward, %.3f backward", ours[0],
		      ours[1]);
	ck_assert_msg(ours[0] < theirs[0] / 2 && ours[1] < theirs[1] / 2,
		      "MAPE of ml_perf_model %.3f forward, %.3f backward", theirs[0], theirs[1]);
}

enum { N_SHARDS = 10, MAX_TABLES = 32 };

static double shard_us(const struct sc_csv *csv, const char *name, double keys[2])
{
	struct sc_table tables[MAX_TABLES];
	struct sc_embedding_use uses[MAX_TABLES];
	struct sc_embedding_shape shape;
	size_t n = 0;

	keys[0] = keys[1] = 0;
	for (size_t i = 0; i < csv->n_rows && n < MAX_TABLES; i++) {
		if (strcmp(cell(csv, i, "config"), name) != 0)
			continue;
		tables[n] = a_table((int64_t)number(csv, i, "rows"), (int64_t)number(csv, i, "dim"),
				    number(csv, i, "pooling_factor"));
		tables[n].storage = SC_FP16 + 1;
		uses[n] = (struct sc_embedding_use){.table = &tables[n], .samples = 2048};
		keys[0] += (double)(tables[n].rows * tables[n].dim);
		keys[1] += (double)tables[n].dim * tables[n].pooling;
		n++;
	}
	ck_assert_uint_gt(n, 0);
	shape = shape_of(uses, n, SC_EMBEDDING_BACKWARD);
	shape.sort_keys = 0; /* the times are of the kernels after it */
	return time_us(&shape);
}

static double kendall_tau(const double *a, const double *b, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++) {
			double x = (a[i] - a[j]) * (b[i] - b[j]);

			sum += (x > 0) - (x < 0);
		}
	return sum / (double)(n * (n - 1) / 2);
}

/* Ten production shards of FBGEMM on MI350; none was fitted. */
TEST(production_shards_in_order)
{
	struct sc_csv times, tables;
	double measured[N_SHARDS], ours[N_SHARDS], size[N_SHARDS], lookups[N_SHARDS], keys[2];
	const char *last = "";
	size_t n = 0;

	load_csv(DATA "measured_fbgemm_tbe_mi350.csv", &times);
	load_csv(DATA "tables_fbgemm_production_shards.csv", &tables);
	load_device("mi350x");
	for (size_t i = 0; i < times.n_rows && n < N_SHARDS; i++) {
		const char *config = cell(&times, i, "config");

		/* one shard was timed twice */
		if (strcmp(cell(&times, i, "variant"), "noflag_baseline") != 0 ||
		    strcmp(config, last) == 0)
			continue;
		last = config;
		measured[n] = number(&times, i, "median_us");
		ours[n] = shard_us(&tables, config, keys);
		size[n] = keys[0];
		lookups[n++] = keys[1];
	}
	ck_assert_uint_eq(n, N_SHARDS);
	ck_assert_msg(kendall_tau(measured, ours, n) >= 0.9, "tau %.3f (size %.2f, lookups %.2f)",
		      kendall_tau(measured, ours, n), kendall_tau(measured, size, n),
		      kendall_tau(measured, lookups, n));
	ck_assert(kendall_tau(measured, ours, n) > kendall_tau(measured, size, n) + 0.2);
	ck_assert(kendall_tau(measured, ours, n) > kendall_tau(measured, lookups, n) + 0.2);
}
