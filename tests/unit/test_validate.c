/* Grids, sweeps and validation: order, errors of single rows, scores by hand. */
#include "arena_fixture.h"
#include "runner.h"
#include "study/validate/validate.h"

#define TOLERANCE 1e-9
#define BASE_HEADER                                                                      \
	"cluster.gpu,gpus,model.family,model.layers,model.hidden,model.heads,model.seq," \
	"model.vocab,training.precision,training.global_batch,parallel.tp"
#define BASE_CELLS "a100-sxm-80gb,8,gpt,4,1024,16,1024,32000,fp16,8,"

static struct sc_err err;
static struct sc_config base;
static struct sc_predict_opts predict_opts;

static void set_up(void)
{
	arena_begin();
	memset(&err, 0, sizeof(err));
	sc_config_init(&base);
	sc_predict_opts_init(&predict_opts);
}

static struct sc_csv *table(const char *text)
{
	struct sc_csv *csv = sc_arena_alloc(&arena, sizeof(*csv));

	ck_assert_msg(sc_csv_parse(&(struct sc_source){text, strlen(text), "t.csv"}, &arena, csv,
				   &err) == 0,
		      "%s", err.text);
	return csv;
}

FIXTURE(set_up, arena_end)

/* ---- grids ---- */

TEST(test_grid_order)
{
	const char *axes[] = {"parallel.tp=1,2", "parallel.stage_layers=[1,2],[3]", "gpus=8"};
	static const char *const want[4][3] = {
		{"1", "[1,2]", "8"}, {"1", "[3]", "8"}, {"2", "[1,2]", "8"}, {"2", "[3]", "8"}};
	struct sc_csv grid;

	ck_assert_int_eq(sc_grid_build(axes, 3, &arena, &grid, &err), 0);
	ck_assert_uint_eq(grid.n_rows, 4);
	ck_assert_uint_eq(grid.n_cols, 3);
	ck_assert_str_eq(grid.header[1], "parallel.stage_layers");
	for (size_t row = 0; row < 4; row++) {
		for (size_t column = 0; column < 3; column++)
			ck_assert_str_eq(sc_csv_cell(&grid, row, column), want[row][column]);
	}
}

static const struct {
	const char *axis, *text;
} BAD_AXES[] = {
	{"parallel.tp", "--grid: expected PATH=A,B,..., got \"parallel.tp\""},
	{"=1", "--grid: expected PATH=A,B,..., got \"=1\""},
	{"parallel.tp=", "--grid: parallel.tp has an empty value"},
	{"parallel.tp=1,", "--grid: parallel.tp has an empty value"},
	{"parallel.tpp=1", "--grid: unknown key \"parallel.tpp\"; did you mean \"parallel.tp\"?"},
};

LOOP_TEST(test_bad_axis, N_OF(BAD_AXES))
{
	struct sc_csv grid;

	ck_assert_int_eq(sc_grid_build(&BAD_AXES[_i].axis, 1, &arena, &grid, &err), -SC_EUSAGE);
	ck_assert_str_eq(err.text, BAD_AXES[_i].text);
}

TEST(test_grid_too_large)
{
	const char *axes[4];
	char text[4096] = "parallel.tp=1", *end = text + strlen(text);
	struct sc_csv grid;

	for (int i = 0; i < 999; i++, end += 2)
		memcpy(end, ",1", 3);
	axes[0] = axes[1] = axes[2] = axes[3] = text;
	ck_assert_int_eq(sc_grid_build(axes, 4, &arena, &grid, &err), -SC_ELIMIT);
}

/* ---- sweeps ---- */

static struct sc_outcome *sweep(const struct sc_csv *cases, unsigned n_jobs)
{
	struct sc_outcome *out = sc_arena_calloc(&arena, cases->n_rows, sizeof(*out));
	struct sc_sweep s = {
		.base = &base, .cases = cases, .n_jobs = n_jobs, .opts = &predict_opts};

	ck_assert_msg(sc_sweep_run(&s, &arena, out, &err) == 0, "%s", err.text);
	return out;
}

TEST(test_sweep_keeps_going)
{
	struct sc_csv *cases = table(BASE_HEADER "\n" BASE_CELLS "1\n" BASE_CELLS "3\n" BASE_CELLS
						 "x\n" BASE_CELLS "8\n");
	struct sc_outcome *out = sweep(cases, 2);
	double sum = 0;

	ck_assert_int_eq(out[0].code, SC_OK);
	ck_assert_int_eq(out[1].code, SC_ECONFLICT);
	ck_assert_int_eq(out[2].code, SC_EVALUE);
	ck_assert_int_eq(out[3].code, SC_OK);
	ck_assert_str_eq(out[0].error, "");
	ck_assert_ptr_nonnull(strstr(out[2].error, "parallel.tp"));
	ck_assert_double_gt(out[0].iteration_ms, 0);
	ck_assert_double_le(out[0].low_ms, out[0].iteration_ms);
	ck_assert_double_ge(out[0].high_ms, out[0].iteration_ms);
	for (int owner = 0; owner < SC_N_OWNERS; owner++)
		sum += out[0].breakdown_ms[owner];
	ck_assert_double_eq_tol(sum, out[0].iteration_ms, 1e-6 * out[0].iteration_ms);
}

/* Chosen rows come out in the order asked for, whatever the number of threads. */
TEST(test_sweep_rows)
{
	struct sc_csv *cases = table(BASE_HEADER "\n" BASE_CELLS "1\n" BASE_CELLS "2\n" BASE_CELLS
						 "4\n" BASE_CELLS "8\n");
	struct sc_outcome *all = sweep(cases, 1), some[2];
	const size_t rows[] = {3, 1};
	struct sc_sweep s = {.base = &base,
			     .cases = cases,
			     .rows = rows,
			     .n_rows = 2,
			     .n_jobs = 3,
			     .opts = &predict_opts};

	ck_assert_int_eq(sc_sweep_run(&s, &arena, some, &err), 0);
	ck_assert_int_eq(memcmp(&some[0].iteration_ms, &all[3].iteration_ms, sizeof(double)), 0);
	ck_assert_int_eq(memcmp(&some[1].iteration_ms, &all[1].iteration_ms, sizeof(double)), 0);
}

TEST(test_sweep_bad_header)
{
	struct sc_csv *cases = table("case,paralel.tp\na,1\n");
	struct sc_outcome out[1];
	struct sc_sweep s = {.base = &base, .cases = cases, .n_jobs = 1, .opts = &predict_opts};

	ck_assert_int_eq(sc_sweep_run(&s, &arena, out, &err), -SC_EVALUE);
	ck_assert_ptr_nonnull(strstr(err.text, "parallel.tp"));
}

/* ---- validation ---- */

/* Measured times that are known multiples of the prediction, so that the scores are known. */
static struct sc_csv *measured_table(void)
{
	static const char *const suites[] = {"b", "a", "b", "b"};
	static const double ratio[] = {1.0, 0.8, 1.25, 0}; /* predicted / measured; 0: empty */
	double ms = sweep(table(BASE_HEADER "\n" BASE_CELLS "8\n"), 1)[0].iteration_ms;
	char text[2048], *end = text;

	end += sprintf(end, "case,suite,%s,measured_ms\n", BASE_HEADER);
	for (int i = 0; i < 4; i++) {
		end += sprintf(end, "c%d,%s,%s8,", i, suites[i], BASE_CELLS);
		end += ratio[i] > 0 ? sprintf(end, "%.17g\n", ms / ratio[i]) : sprintf(end, "\n");
	}
	sprintf(end, "c4,b,%s7,100\n", BASE_CELLS);
	return table(sc_arena_strdup(&arena, text));
}

static struct sc_validation *validate(const struct sc_csv *csv, const struct sc_where *where,
				      const char *by)
{
	struct sc_validation *v = sc_arena_calloc(&arena, 1, sizeof(*v));
	struct sc_validate_opts opts = {.base = &base,
					.table = csv,
					.where = where,
					.n_where = where ? 1 : 0,
					.by = &by,
					.n_by = by ? 1 : 0,
					.n_jobs = 2,
					.predict = &predict_opts};

	ck_assert_msg(sc_validate(&opts, &arena, v, &err) == 0, "%s", err.text);
	return v;
}

TEST(test_scores)
{
	struct sc_validation *v = validate(measured_table(), NULL, "suite");

	ck_assert_uint_eq(v->all.n_rows, 5);
	ck_assert_uint_eq(v->all.accuracy.n, 3);
	ck_assert_uint_eq(v->all.n_skipped, 2);
	ck_assert_str_eq(v->all.skipped[0]->name, "c3");
	ck_assert_str_eq(v->all.skipped[0]->skipped, "measured_ms is empty");
	ck_assert_str_eq(v->all.skipped[1]->name, "c4");
	ck_assert_uint_eq(v->n_failed, 1);
	/* errors 0, -20 % and +25 % */
	ck_assert_double_eq_tol(v->all.accuracy.mape_pct, 15.0, TOLERANCE);
	ck_assert_double_eq_tol(v->all.accuracy.median_ape_pct, 20.0, TOLERANCE);
	ck_assert_double_eq_tol(v->all.accuracy.bias_pct, 5.0 / 3.0, TOLERANCE);
	ck_assert_uint_eq(v->n_groups, 2);
	ck_assert_str_eq(v->groups[0].value, "a");
	ck_assert_str_eq(v->groups[1].value, "b");
	ck_assert_double_eq_tol(v->groups[0].score.accuracy.mape_pct, 20.0, TOLERANCE);
	ck_assert_double_eq_tol(v->groups[1].score.accuracy.mape_pct, 12.5, TOLERANCE);
	ck_assert_uint_eq(v->groups[1].score.n_rows, 4);
	ck_assert_uint_eq(v->groups[1].score.n_skipped, 2);
	ck_assert_double_ge(v->all.coverage_pct, 100.0 / 3.0 - TOLERANCE);
	ck_assert_double_gt(v->all.band_pct, 0);
}

TEST(test_where)
{
	struct sc_where where = {"suite", "a"}, none = {"suite", "z"};
	struct sc_csv *csv = measured_table();
	struct sc_validation *v = validate(csv, &where, NULL);

	ck_assert_uint_eq(v->all.n_rows, 1);
	ck_assert_double_eq_tol(v->cases[0].error_pct, -20.0, TOLERANCE);
	v = validate(csv, &none, "suite");
	ck_assert_uint_eq(v->all.n_rows, 0);
	ck_assert_uint_eq(v->n_groups, 0);
	ck_assert(isnan(v->all.accuracy.mape_pct));
	ck_assert(isnan(v->all.coverage_pct));
}

static const struct {
	const char *text, *where, *by[2], *message;
	size_t n_by;
	int rc;
} BAD_TABLES[] = {
	{"case,gpus\na,8\n", NULL, {NULL}, "no column \"measured_ms\"", 0, -SC_EVALUE},
	{"case,measured_ms\na,1\n", "cas", {NULL}, "did you mean \"case\"?", 0, -SC_EUSAGE},
	{"case,measured_ms\na,1\n", NULL, {"suite"}, "no column \"suite\"", 1, -SC_EUSAGE},
	{"case,measured_ms\na,1\n", NULL, {"case", "case"}, "case is given twice", 2, -SC_EUSAGE},
};

LOOP_TEST(test_bad_tables, N_OF(BAD_TABLES))
{
	struct sc_where where = {BAD_TABLES[_i].where, "a"};
	struct sc_validate_opts opts = {.base = &base,
					.table = table(BAD_TABLES[_i].text),
					.where = &where,
					.n_where = BAD_TABLES[_i].where ? 1 : 0,
					.by = BAD_TABLES[_i].by,
					.n_by = BAD_TABLES[_i].n_by,
					.n_jobs = 1,
					.predict = &predict_opts};
	struct sc_validation v;

	ck_assert_int_eq(sc_validate(&opts, &arena, &v, &err), BAD_TABLES[_i].rc);
	ck_assert_msg(strstr(err.text, BAD_TABLES[_i].message) != NULL, "%s", err.text);
}

/* Their rows are skipped, and the place of the first is said. */
TEST(test_bad_cells)
{
	struct sc_validation *v = validate(
		table("case,measured_ms,memory_gib\na,fast,\nb,0,\nc,-3,\nd,1,x\n"), NULL, NULL);

	ck_assert_uint_eq(v->n_bad, 4);
	ck_assert_uint_eq(v->all.n_skipped, 4);
	ck_assert_uint_eq(v->bad.line, 2);
	ck_assert_uint_eq(v->bad.column, 3);
	ck_assert_str_eq(v->bad.text, "measured_ms: expected a number above 0, got \"fast\"");
	ck_assert_msg(strstr(v->cases[3].skipped, ":5:5: memory_gib: expected") != NULL, "%s",
		      v->cases[3].skipped);
}
