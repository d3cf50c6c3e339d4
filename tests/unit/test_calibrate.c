/* Calibration: a stack whose numbers are known is found again from its runs, one run helps, rows
 * that are not like their kin and profiles that differ are not taken for it, and the band is what
 * the formula says. */
#include "base/strbuf.h"
#include "core/config/likeness.h"
#include "runner.h"
#include "study/calibrate/calibrate.h"

#define HEADER                                                                  \
	"case,gpus,model.layers,model.hidden,parallel.tp,training.micro_batch," \
	"training.global_batch,training.software,measured_ms\n"

static struct sc_arena arena;
static struct sc_err err;
static struct sc_config base;
static struct sc_predict_opts predict_opts;
static struct sc_catalog *catalog;

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
	catalog = sc_catalog_create();
	sc_config_init(&base);
	set("cluster.gpu", "h100-sxm-80gb");
	set("model.family", "llama");
	set("model.heads", "16");
	set("model.seq", "4096");
	set("model.vocab", "32000");
	set("training.precision", "bf16");
}

static void tear_down(void)
{
	sc_catalog_destroy(catalog);
	sc_arena_release(&arena);
}

/* The numbers of a stack that nobody has described: slow attention, more bytes, a slow host, and 5
 * % on top. */
static void change(struct sc_software *software)
{
	software->attention_eff_hopper *= 0.5;
	software->elementwise_factor *= 1.4;
	software->host_step_us = 30000;
	software->level = 1.05;
}

static double time_of(int i, int gpus, void (*changes)(struct sc_software *))
{
	static struct sc_prediction prediction;
	struct sc_predictor *predictor = sc_predictor_create();
	struct sc_config config = base;
	struct sc_request request;

	config.gpus = gpus;
	config.model.layers = 4 + 4 * (i % 3);
	config.model.hidden = 1024 * (1 + i % 4);
	config.parallel.tp = 1 << (i % 2);
	config.training.micro_batch = 1 + i / 2 % 2;
	config.training.global_batch = gpus * (4 + i % 5 * 4);
	config.training.software = "megatron-lm";
	ck_assert_msg(sc_config_resolve(&config, catalog, NULL, &request, &err) == 0, "%s",
		      err.text);
	if (changes)
		changes(&request.software);
	ck_assert_int_eq(sc_predict(predictor, &request, &predict_opts, &prediction, &err), 0);
	sc_predictor_destroy(predictor);
	return prediction.iteration_ms;
}

static void append_row(struct sc_strbuf *text, int i, const char *software, double ms)
{
	sc_strbuf_printf(text, "c%d,8,%d,%d,%d,%d,%d,%s,%.9g\n", i, 4 + 4 * (i % 3),
			 1024 * (1 + i % 4), 1 << (i % 2), 1 + i / 2 % 2, 8 * (4 + i % 5 * 4),
			 software, ms);
}

static int calibrate(struct sc_strbuf *text, unsigned n_jobs, struct sc_calibration *out)
{
	struct sc_csv *csv = sc_arena_alloc(&arena, sizeof(*csv));
	const struct sc_itfit_opts opts = {
		.base = &base, .table = csv, .n_jobs = n_jobs, .predict = &predict_opts};

	ck_assert_int_eq(sc_csv_parse(&(struct sc_source){sc_strbuf_get(text), text->n, "t.csv"},
				      &arena, csv, &err),
			 0);
	return sc_calibrate(&opts, catalog, &arena, out, &err);
}

static void make_rows(struct sc_strbuf *text, int n)
{
	sc_strbuf_append(text, HEADER);
	for (int i = 0; i < n; i++)
		append_row(text, i, "megatron-lm", time_of(i, 8, change));
}

/* The error of `learned` on runs of 64 GPUs, which it has not seen. */
static const struct sc_calibration *learned;
static void take_learned(struct sc_software *software)
{
	for (size_t j = 0; j < learned->fit.coefs->n; j++) {
		const struct sc_fit_param *p = &learned->fit.coefs->at[j];
		const struct sc_field *key = sc_field_at(sc_software_fields, p->name);

		memcpy((char *)software + key->offset, &p->value, sizeof(p->value));
	}
}

static double error_elsewhere(const struct sc_calibration *c)
{
	double sum = 0;

	learned = c;
	for (int i = 0; i < 8; i++)
		sum += fabs(time_of(i, 64, c ? take_learned : NULL) / time_of(i, 64, change) - 1);
	return sum / 8;
}

FIXTURE(set_up, tear_down)

TEST(stack_is_found)
{
	struct sc_strbuf text = {0};
	struct sc_calibration c;

	make_rows(&text, 36);
	ck_assert_msg(calibrate(&text, 2, &c) == 0, "%s", err.text);
	ck_assert_double_gt(c.fit.before.mape_pct, 10);
	ck_assert_double_lt(c.fit.in_sample.mape_pct, 1.5);
	ck_assert_uint_eq(c.fit.held_out.n, 36);
	ck_assert_double_gt(c.fit.held_out.mape_pct, 1.05 * c.fit.in_sample.mape_pct);
	ck_assert_double_gt(error_elsewhere(NULL), 0.1);
	ck_assert_double_lt(error_elsewhere(&c), 0.03);
	for (size_t j = 0; j < c.fit.coefs->n; j++) {
		const struct sc_fit_param *p = &c.fit.coefs->at[j];

		/* No row has a network, or attention before Hopper: such numbers are not there. */
		ck_assert_str_ne(p->name, "net_eff");
		ck_assert_str_ne(p->name, "attention_eff");
		if (strcmp(p->name, "attention_eff_hopper") != 0)
			continue;
		ck_assert_int_eq(p->status, SC_FIT_FITTED);
		ck_assert_double_eq_tol(p->value / p->start, 0.5, 0.1);
	}
	sc_strbuf_release(&text);
}

static void slow_host(struct sc_software *software)
{
	software->host_layer_us = 1500;
}

/* At the start no run waits for the host's time of a layer, so nothing there says which way it
 * should go. */
TEST(slow_host_is_found)
{
	struct sc_strbuf text = {0};
	struct sc_calibration c;
	double found = 0;

	sc_strbuf_append(&text, HEADER);
	for (int i = 0; i < 12; i++)
		append_row(&text, i, "megatron-lm", time_of(i, 8, slow_host));
	ck_assert_msg(calibrate(&text, 2, &c) == 0, "%s", err.text);
	for (size_t j = 0; j < c.fit.coefs->n; j++)
		if (strcmp(c.fit.coefs->at[j].name, "host_layer_us") == 0)
			found = c.fit.coefs->at[j].value;
	ck_assert_msg(fabs(found / 1500 - 1) < 0.2 && c.fit.in_sample.mape_pct < 2,
		      "found %g, in sample %g", found, c.fit.in_sample.mape_pct);
	sc_strbuf_release(&text);
}

/* One run already takes away much of the error of its like; and a row that has nothing to say does
 * nothing. */
TEST(one_run)
{
	struct sc_strbuf text = {0};
	struct sc_calibration c;

	sc_strbuf_append(&text, HEADER);
	append_row(&text, 7, "megatron-lm", time_of(7, 8, change));
	ck_assert_msg(calibrate(&text, 1, &c) == 0, "%s", err.text);
	ck_assert_uint_eq(c.fit.held_out.n, 0);
	ck_assert_double_lt(error_elsewhere(&c), 0.7 * error_elsewhere(NULL));
	sc_strbuf_clear(&text);
	sc_strbuf_append(&text, HEADER);
	append_row(&text, 1, "megatron-lm", time_of(1, 8, NULL));
	ck_assert_int_eq(calibrate(&text, 1, &c), 0);
	for (size_t j = 0; j < c.fit.coefs->n; j++)
		ck_assert_double_eq_tol(c.fit.coefs->at[j].value, c.fit.coefs->at[j].start,
					1e-6 + 1e-3 * c.fit.coefs->at[j].start);
	sc_strbuf_release(&text);
}

/* A tenth of the rows took three times as long: they do not move the rest. Those that have kin are
 * named, and left out. */
TEST(strange_rows)
{
	struct sc_strbuf text = {0};
	struct sc_calibration c;

	sc_strbuf_append(&text, HEADER);
	for (int i = 0; i < 30; i++)
		append_row(&text, i, "megatron-lm", time_of(i, 8, change) * (i % 10 == 3 ? 3 : 1));
	ck_assert_int_eq(calibrate(&text, 2, &c), 0);
	ck_assert_double_lt(error_elsewhere(&c), 0.05);
	sc_strbuf_clear(&text);
	make_rows(&text, 4);
	sc_strbuf_printf(&text, "odd,16,4,1024,1,1,%d,megatron-lm,%.9g\n", 16 * 8,
			 5 * time_of(0, 8, change));
	ck_assert_int_eq(calibrate(&text, 2, &c), 0);
	ck_assert_uint_eq(c.validation->n_unlike, 1);
	ck_assert_uint_eq(c.fit.n_rows, 4);
	sc_strbuf_release(&text);
}

TEST(refused)
{
	struct sc_strbuf text = {0};
	struct sc_calibration c;

	make_rows(&text, 2);
	append_row(&text, 2, "nemo", 100);
	ck_assert_int_eq(calibrate(&text, 1, &c), -SC_EUSAGE);
	ck_assert_msg(strstr(err.text, "megatron-core and nemo") != NULL, "%s", err.text);
	memset(&err, 0, sizeof(err));
	sc_strbuf_clear(&text);
	sc_strbuf_append(&text, HEADER "a,8,4,1024,1,1,64,megatron-lm,\n");
	ck_assert_int_eq(calibrate(&text, 1, &c), -SC_EVALUE);
	ck_assert_ptr_nonnull(strstr(err.text, "measured_ms is empty"));
	memset(&err, 0, sizeof(err));
	sc_strbuf_clear(&text);
	sc_strbuf_append(&text, HEADER "a,8,4,1024,1,1,64,megatron-lm,nan\n");
	ck_assert_int_lt(calibrate(&text, 1, &c), 0);
	ck_assert_uint_eq(err.line, 2);
	sc_strbuf_release(&text);
}

TEST(same_on_any_jobs)
{
	struct sc_strbuf text = {0};
	struct sc_calibration a, b;

	make_rows(&text, 6);
	ck_assert_int_eq(calibrate(&text, 1, &a), 0);
	ck_assert_int_eq(calibrate(&text, 3, &b), 0);
	ck_assert_uint_eq(a.fit.coefs->n, b.fit.coefs->n);
	for (size_t j = 0; j < a.fit.coefs->n; j++)
		ck_assert_mem_eq(&a.fit.coefs->at[j].value, &b.fit.coefs->at[j].value,
				 sizeof(double));
	sc_strbuf_release(&text);
}

/* Between what the start leaves once its level is known and what the runs leave; the more of these,
 * the nearer to that. */
TEST(band_by_hand)
{
	double last = sc_calibration_band_ln(0.45, 0, 1);

	ck_assert_double_eq_tol(sc_calibration_band_ln(0.45, 0, 1), 0.9 * 0.45 * sqrt(1.0 / 2),
				1e-3);
	ck_assert_double_eq_tol(sc_calibration_band_ln(0, 0.1, 5), 1.2816 * 0.1 * sqrt(5.0 / 6),
				1e-3);
	ck_assert_double_eq_tol(sc_calibration_band_ln(0, 0.1, 1000000), 1.2816 * 0.1, 1e-3);
	for (size_t k = 2; k < 200; k++) {
		const double now = sc_calibration_band_ln(0.45, 0.01, k);

		ck_assert_double_lt(now, last);
		last = now;
	}
}

/* A profile's own band is the band, 80 % by what it says, and wider the surer it shall be. */
TEST(own_band)
{
	struct sc_band band = {.own_ln = 0};

	sc_band_take_own(&band, 0.2);
	ck_assert_double_eq_tol(sc_band_factor(&band, 80), exp(0.2), 1e-12);
	for (int pct = SC_CONFIDENCE_LEAST + 1; pct <= SC_CONFIDENCE_MOST; pct++)
		ck_assert_double_gt(sc_band_factor(&band, pct), sc_band_factor(&band, pct - 1));
	ck_assert_double_lt(sc_band_factor(&band, 95), exp(0.4));
}
