/* Fitting to iterations: known coefficients come back, from clean and from spoiled tables; left-out
 * groups, duplicates, and what the names may be. */
#include "base/strbuf.h"
#include "runner.h"
#include "study/fit/fit_iterations.h"

#define HEADER                                                                         \
	"case,cluster.gpu,model.layers,model.hidden,training.micro_batch,parallel.tp," \
	"training.software,measured_ms\n"
#define TRUE_OP_US 50.0
#define TRUE_POWER 0.7

static struct sc_arena arena;
static struct sc_err err;
static struct sc_config base;
static struct sc_predict_opts predict_opts;

static void set(const char *path, const char *text)
{
	ck_assert_msg(
		sc_config_set(&base, &(struct sc_setting){path, text, "test"}, &arena, &err) == 0,
		"%s", err.text);
}

static void set_up(void)
{
	sc_arena_init(&arena, 1 << 14);
	memset(&err, 0, sizeof(err));
	sc_predict_opts_init(&predict_opts);
	sc_config_init(&base);
	set("cluster.gpu", "a100-sxm-80gb");
	set("gpus", "8");
	set("model.family", "gpt");
	set("model.heads", "16");
	set("model.seq", "1024");
	set("model.vocab", "51200");
	set("training.precision", "fp16");
	set("training.global_batch", "64");
}

static void tear_down(void)
{
	sc_arena_release(&arena);
}

/* A row of the table; what is measured is the prediction with the true values, times `factor`. */
struct row {
	const char *gpu, *software;
	int layers, hidden, micro_batch, tp;
	double factor;
};

static double measure(const struct row *row)
{
	static struct sc_prediction prediction;
	struct sc_catalog *catalog = sc_catalog_create();
	struct sc_predictor *predictor = sc_predictor_create();
	struct sc_config config = base;
	struct sc_request request;

	config.cluster.gpu = row->gpu;
	config.training.software = row->software;
	config.model.layers = row->layers;
	config.model.hidden = row->hidden;
	config.training.micro_batch = row->micro_batch;
	config.parallel.tp = row->tp;
	ck_assert_msg(sc_config_resolve(&config, catalog, NULL, &request, &err) == 0, "%s",
		      err.text);
	request.software.host_op_us = TRUE_OP_US;
	if (strcmp(row->gpu, "a100-sxm-80gb") == 0)
		request.device.gemm.power_eff = TRUE_POWER;
	ck_assert_int_eq(sc_predict(predictor, &request, &predict_opts, &prediction, &err), 0);
	sc_predictor_destroy(predictor);
	sc_catalog_destroy(catalog);
	return prediction.iteration_ms * row->factor;
}

static void append_row(struct sc_strbuf *text, const struct row *row)
{
	sc_strbuf_printf(text, "c,%s,%d,%d,%d,%d,%s,%.9g\n", row->gpu, row->layers, row->hidden,
			 row->micro_batch, row->tp, row->software, measure(row));
}

static struct sc_csv *parse(struct sc_strbuf *text)
{
	struct sc_csv *csv = sc_arena_alloc(&arena, sizeof(*csv));

	ck_assert_msg(sc_csv_parse(&(struct sc_source){sc_strbuf_get(text), text->n, "dir/t.csv"},
				   &arena, csv, &err) == 0,
		      "%s", err.text);
	sc_strbuf_release(text);
	return csv;
}

/* Small models, which the host bounds, and large ones, which the GPU does. Each tenth row, from the
 * third on, takes `spoiled` times as long. */
static struct sc_csv *table(double spoiled)
{
	struct sc_strbuf text = {0};

	sc_strbuf_append(&text, HEADER);
	for (int i = 0; i < 30; i++) {
		struct row row = {.gpu = "a100-sxm-80gb",
				  .software = "megatron-lm",
				  .layers = 4 + 4 * (i % 3),
				  .hidden = 1024 * (1 + i % 5),
				  .micro_batch = 1 << (i % 4),
				  .tp = 1 << (i % 2),
				  .factor = i % 10 == 3 ? spoiled : 1};

		append_row(&text, &row);
	}
	return parse(&text);
}

static const struct sc_itfit_name TWO[] = {{"software.host_op_us", (double)NAN},
					   {"device.gemm.power_eff", (double)NAN}};

static struct sc_itfit_opts two(void)
{
	return (struct sc_itfit_opts){
		.coefs = TWO, .n_coefs = 2, .n_jobs = 2, .predict = &predict_opts};
}

static int run(const struct sc_csv *csv, const struct sc_itfit_opts *opts, struct sc_fit *out)
{
	struct sc_itfit_opts own = *opts;

	own.base = &base;
	own.table = csv;
	return sc_itfit_run(&own, &arena, out, &err);
}

static struct sc_fit *fit(const struct sc_csv *csv, const struct sc_itfit_opts *opts)
{
	struct sc_fit *out = sc_arena_alloc(&arena, sizeof(*out));

	ck_assert_msg(run(csv, opts, out) == 0, "%s", err.text);
	return out;
}

FIXTURE(set_up, tear_down)

TEST(test_recovers)
{
	struct sc_itfit_opts opts = two();
	struct sc_fit *f = fit(table(1), &opts);

	ck_assert_uint_eq(f->n_rows, 30);
	ck_assert_str_eq(f->table, "t.csv");
	ck_assert_str_eq(f->coefs->at[0].block, "software:megatron-lm");
	ck_assert_str_eq(f->coefs->at[1].name, "gemm.power_eff");
	ck_assert_double_eq_tol(f->coefs->at[0].value, TRUE_OP_US, 0.01 * TRUE_OP_US);
	ck_assert_double_eq_tol(f->coefs->at[1].value, TRUE_POWER, 0.01 * TRUE_POWER);
	ck_assert_double_lt(f->in_sample.mape_pct, 0.5);
	ck_assert_double_gt(f->before.mape_pct, 5);
	ck_assert_double_lt(f->coefs->at[0].standard_error, 0.05 * TRUE_OP_US);
	ck_assert_ptr_null(f->leave_out);
	ck_assert(isnan(f->coefs->at[0].left_out_lowest));
}

/* Three rows of thirty are far off: the rest decide. */
TEST(test_robust)
{
	struct sc_itfit_opts opts = two();
	struct sc_fit *f = fit(table(3), &opts);

	ck_assert_double_eq_tol(f->coefs->at[0].value, TRUE_OP_US, 0.03 * TRUE_OP_US);
	ck_assert_double_eq_tol(f->coefs->at[1].value, TRUE_POWER, 0.03 * TRUE_POWER);
	ck_assert_double_lt(f->in_sample.median_ape_pct, 1);
}

TEST(test_same_on_any_threads)
{
	static const char *const columns[] = {"model.hidden"};
	struct sc_itfit_opts opts = two();
	struct sc_csv *csv = table(1.5);
	struct sc_fit *a, *b;

	opts.leave_out = columns;
	opts.n_leave_out = 1;
	opts.n_jobs = 1;
	a = fit(csv, &opts);
	opts.n_jobs = 5;
	b = fit(csv, &opts);
	for (int i = 0; i < 2; i++) {
		ck_assert(a->coefs->at[i].value == b->coefs->at[i].value);
		ck_assert(a->coefs->at[i].left_out_lowest == b->coefs->at[i].left_out_lowest);
	}
	ck_assert(a->held_out.mape_pct == b->held_out.mape_pct);
}

TEST(test_leave_out)
{
	static const char *const columns[] = {"model.layers", "parallel.tp"};
	struct sc_itfit_opts opts = two();
	struct sc_fit *f;
	size_t n = 0;

	opts.leave_out = columns;
	opts.n_leave_out = 2;
	f = fit(table(1), &opts);
	ck_assert_str_eq(f->leave_out, "model.layers, parallel.tp");
	ck_assert_uint_eq(f->n_folds, 6);
	for (size_t i = 0; i < f->n_regions; i++) {
		if (strcmp(f->regions[i].by, "group") != 0)
			continue;
		if (n == 0)
			ck_assert_str_eq(f->regions[i].value, "4, 1");
		n += f->regions[i].accuracy.n;
	}
	ck_assert_uint_eq(n, 30);
	ck_assert_uint_eq(f->held_out.n, 30);
	ck_assert_double_lt(f->held_out.mape_pct, 2);
	ck_assert_double_gt(f->coefs->at[1].left_out_lowest, TRUE_POWER - 0.03);
	ck_assert_double_lt(f->coefs->at[1].left_out_highest, TRUE_POWER + 0.03);
}

/* Rows of two GPUs; without one of them nothing says what its clock is. */
static struct sc_csv *two_gpus(void)
{
	static const char *const gpus[] = {"a100-sxm-80gb", "h100-sxm-80gb"};
	struct sc_strbuf text = {0};

	sc_strbuf_append(&text, HEADER);
	for (int i = 0; i < 12; i++) {
		struct row row = {.gpu = gpus[i % 2],
				  .software = "megatron-lm",
				  .layers = 4 + i,
				  .hidden = 4096,
				  .micro_batch = 8,
				  .tp = 1,
				  .factor = 1};

		append_row(&text, &row);
	}
	return parse(&text);
}

TEST(test_undetermined)
{
	static const struct sc_itfit_name name = {"device:a100-sxm-80gb.gemm.power_eff", 0.5};
	static const char *const columns[] = {"cluster.gpu"};
	struct sc_itfit_opts opts = {.coefs = &name,
				     .n_coefs = 1,
				     .leave_out = columns,
				     .n_leave_out = 1,
				     .predict = &predict_opts};
	struct sc_fit *f = fit(two_gpus(), &opts);

	ck_assert_double_eq_tol(f->coefs->at[0].value, TRUE_POWER, 0.01);
	ck_assert_double_eq_tol(f->coefs->at[0].start, 0.5, 1e-12);
	ck_assert_double_gt(f->coefs->at[0].old, 0.7);
	ck_assert_uint_eq(f->n_folds, 2);
	/* without the rows that say it: the start, at half the clock */
	ck_assert_double_eq_tol(f->coefs->at[0].left_out_lowest, 0.5, 1e-12);
	ck_assert_double_eq_tol(f->coefs->at[0].left_out_highest, TRUE_POWER, 0.01);
	ck_assert_double_gt(f->held_out.bias_pct, 5);
}

/* fp8's clock, where no row runs fp8. */
TEST(test_no_effect)
{
	static const struct sc_itfit_name names[] = {{"device.gemm.power_eff_fp8", 0.5},
						     {"software.host_op_us", (double)NAN}};
	struct sc_itfit_opts opts = two();
	struct sc_fit *f;

	opts.coefs = names;
	f = fit(table(1), &opts);
	ck_assert_int_eq(f->coefs->at[0].status, SC_FIT_UNDETERMINED);
	ck_assert_double_eq_tol(f->coefs->at[0].value, 0.5, 1e-12);
	ck_assert_int_eq(f->coefs->at[1].status, SC_FIT_FITTED);
}

TEST(test_duplicates)
{
	static const struct row row = {"a100-sxm-80gb", "megatron-lm", 4, 1024, 1, 1, 1};
	struct sc_itfit_opts opts = two();
	struct sc_strbuf text = {0};
	struct row other = row;
	struct sc_fit *f;

	sc_strbuf_append(&text, HEADER);
	append_row(&text, &row);
	other.factor = 1.5; /* mean 1.25: 20 % off, both */
	append_row(&text, &other);
	other.layers = 8;
	append_row(&text, &other);
	f = fit(parse(&text), &opts);
	ck_assert_uint_eq(f->n_rows, 3);
	ck_assert_uint_eq(f->n_shapes, 2);
	ck_assert_uint_eq(f->n_repeated, 2);
	ck_assert_double_eq_tol(f->repeated_pct, 20, 1e-6);
}

TEST(test_skips)
{
	static const struct row row = {"a100-sxm-80gb", "megatron-lm", 4, 1024, 1, 1, 1};
	struct sc_itfit_opts opts = two();
	struct sc_strbuf text = {0};
	struct row other = row;
	struct sc_fit *f;

	sc_strbuf_append(&text, HEADER);
	for (other.layers = 4; other.layers < 8; other.layers++)
		append_row(&text, &other);
	sc_strbuf_append(&text, "odd,a100-sxm-80gb,4,1024,1,3,megatron-lm,100\n");
	f = fit(parse(&text), &opts);
	ck_assert_uint_eq(f->n_rows, 4);
	ck_assert_uint_eq(f->n_skipped, 1);
	ck_assert_str_eq(f->skipped[0].row, "odd");
}

/* Who does not ask why may give no place for it. */
TEST(test_bad_cell_needs_no_place_for_why)
{
	struct sc_itfit_opts opts = two();
	struct sc_strbuf text = {0};
	struct sc_fit f;

	sc_strbuf_append(&text, HEADER);
	sc_strbuf_append(&text, "bad,a100-sxm-80gb,many,1024,1,1,megatron-lm,100\n");
	opts.base = &base;
	opts.table = parse(&text);
	ck_assert_int_eq(sc_itfit_run(&opts, &arena, &f, NULL), -SC_EVALUE);
}

static const struct {
	const char *name, *text;
	double start;
} BAD_NAMES[] = {
	{"host_op_us", "expected software.FIELD or device.SECTION.FIELD", (double)NAN},
	{"software.host_op", "did you mean \"host_op_us\"?", (double)NAN},
	{"device.gemm.power_ef", "did you mean \"gemm.power_eff\"?", (double)NAN},
	{"device.sm_count", "only numbers that are not counts", (double)NAN},
	{"software.grad_sync", "only numbers that are not counts", (double)NAN},
	{"device.gemm", "only numbers that are not counts", (double)NAN},
	{"software:megatron.host_op_us", "the rows have the software megatron-lm", (double)NAN},
	{"device:a100-sxm-80gb", "the rows have the GPUs a100-sxm-80gb", (double)NAN},
	{"software.comm_latency_us", "it is 0 in the profile", (double)NAN},
	{"device.gemm.power_eff", "expected a start from 0.001 to 2", 2.5},
	{"software:megatron-lm.host_op_us", "is given twice", (double)NAN},
};

TEST(test_bad_name)
{
	const struct sc_csv *csv = table(1);

	for (int i = 0; i < N_OF(BAD_NAMES); i++) {
		const struct sc_itfit_name names[] = {{"software.host_op_us", (double)NAN},
						      {BAD_NAMES[i].name, BAD_NAMES[i].start}};
		struct sc_itfit_opts opts = two();
		struct sc_fit f;

		err = (struct sc_err){.code = SC_OK};
		opts.coefs = names;
		ck_assert_int_eq(run(csv, &opts, &f), -SC_EUSAGE);
		ck_assert_msg(strstr(err.text, BAD_NAMES[i].text), "%s", err.text);
	}
}

TEST(test_ambiguous)
{
	struct sc_itfit_opts opts = two();
	struct sc_fit f;

	opts.coefs = &TWO[1];
	opts.n_coefs = 1;
	ck_assert_int_eq(run(two_gpus(), &opts, &f), -SC_EUSAGE);
	ck_assert_msg(strstr(err.text, "device:a100-sxm-80gb.gemm.power_eff"), "%s", err.text);
}

TEST(test_bad_groups)
{
	static const char *const unknown[] = {"model.hiden"}, *const one[] = {"cluster.gpu"};
	struct sc_itfit_opts opts = two();
	struct sc_csv *csv = table(1);
	struct sc_fit f;

	opts.leave_out = unknown;
	opts.n_leave_out = 1;
	ck_assert_int_eq(run(csv, &opts, &f), -SC_EUSAGE);
	ck_assert_msg(strstr(err.text, "did you mean \"model.hidden\"?"), "%s", err.text);
	memset(&err, 0, sizeof(err));
	opts.leave_out = one;
	ck_assert_int_eq(run(csv, &opts, &f), -SC_EVALUE);
	ck_assert_msg(strstr(err.text, "all rows have one value of cluster.gpu"), "%s", err.text);
}

TEST(test_few_rows)
{
	struct sc_where where = {"model.hidden", "77"};
	struct sc_itfit_opts opts = two();
	struct sc_strbuf text = {0};
	struct sc_fit f;

	sc_strbuf_append(&text, HEADER "odd,a100-sxm-80gb,4,1024,1,3,megatron-lm,100\n");
	ck_assert_int_eq(run(parse(&text), &opts, &f), -SC_EVALUE);
	ck_assert_msg(
		strstr(err.text, "0 rows to fit, too few for 2 coefficients; first row skipped"),
		"%s", err.text);
	memset(&err, 0, sizeof(err));
	opts.where = &where;
	opts.n_where = 1;
	ck_assert_int_eq(run(table(1), &opts, &f), -SC_EVALUE);
	ck_assert_str_eq(err.text, "no row is chosen");
}
