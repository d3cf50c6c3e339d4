/* Reports: valid JSON whatever the texts are, timelines that agree with the simulation, HTML that
 * cannot be broken out of, what-ifs that make sense. */
#include <jansson.h>

#include "predict/op_names.h"
#include "report/chrome_trace.h"
#include "report/config_show.h"
#include "report/parts.h"
#include "report/prediction_report.h"
#include "report/sweep_report.h"
#include "runner.h"

static struct sc_arena arena;
static struct sc_err err;
static struct sc_catalog *catalog;
static struct sc_evaluator *by;

static void load_request(const char *const *sets, size_t n)
{
	struct sc_config config;

	sc_config_init(&config);
	for (size_t i = 0; i + 1 < n; i += 2)
		ck_assert_msg(sc_config_set(&config,
					    &(struct sc_setting){sets[i], sets[i + 1], "test"},
					    &arena, &err) == 0,
			      "%s", err.text);
	ck_assert_msg(sc_config_resolve(&config, catalog, "test", &by->request, &err) == 0, "%s",
		      err.text);
}

static void set_up(void)
{
	static const char *const sets[] = {"cluster.gpu",
					   "a100-sxm-80gb",
					   "gpus",
					   "16",
					   "model.family",
					   "gpt",
					   "model.layers",
					   "8",
					   "model.hidden",
					   "2048",
					   "model.heads",
					   "16",
					   "model.seq",
					   "1024",
					   "model.vocab",
					   "51200",
					   "parallel.tp",
					   "4",
					   "parallel.pp",
					   "2",
					   "training.global_batch",
					   "16",
					   "training.precision",
					   "fp16",
					   "notes",
					   "a \"quoted\" <text>",
					   "schema",
					   "stepcast/1"};

	memset(&err, 0, sizeof(err));
	sc_arena_init(&arena, 1 << 14);
	catalog = sc_catalog_create();
	by = sc_evaluator_create(catalog);
	load_request(sets, sizeof(sets) / sizeof(sets[0]));
}

static void tear_down(void)
{
	sc_evaluator_destroy(by);
	sc_catalog_destroy(catalog);
	sc_arena_release(&arena);
}

static void predict(struct sc_predict_opts *opts)
{
	by->opts = *opts;
	ck_assert_msg(sc_evaluate_request(by, &err) == 0, "%s", err.text);
}

static int write_prediction(const struct sc_prediction_report *report, FILE *out, struct sc_err *to)
{
	struct sc_json json;

	sc_prediction_forms.json(report, &json);
	return sc_json_write(&json, out, to);
}

static json_t *read_back(FILE *file)
{
	json_error_t error;
	json_t *root;

	rewind(file);
	root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
	ck_assert_msg(root != NULL, "line %d: %s", error.line, error.text);
	fclose(file);
	return root;
}

/* ---- timeline ---- */

/* The spans of one lane do not overlap, and the last ends when the simulation does. */
static void check_spans(const json_t *events, double total_us)
{
	double *lane_end = sc_arena_calloc(&arena, 1024, sizeof(double)), last = 0;
	size_t i, n_spans = 0;
	json_t *event;

	json_array_foreach(events, i, event)
	{
		double ts, dur;
		size_t lane;

		if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0)
			continue;
		n_spans++;
		ts = json_number_value(json_object_get(event, "ts"));
		dur = json_number_value(json_object_get(event, "dur"));
		lane = (size_t)json_integer_value(json_object_get(event, "tid"));
		ck_assert_uint_lt(lane, 1024);
		ck_assert_double_ge(dur, 0);
		ck_assert_double_ge(ts, lane_end[lane] - 2e-3); /* written to the nanosecond */
		lane_end[lane] = ts + dur;
		last = fmax(last, ts + dur);
	}
	ck_assert_uint_gt(n_spans, 10);
	ck_assert_double_eq_tol(last, total_us, 2e-3);
}

/* Words under the last column of the left half; a column of the right half goes down whole; a long
 * word stays whole. */
static void check_fold(const char *text, size_t width, const char *folded)
{
	struct sc_strbuf out = {0};

	sc_text_fold(text, width, &out);
	ck_assert_str_eq(sc_strbuf_get(&out), folded);
	sc_strbuf_release(&out);
}

TEST(test_lines_are_folded_for_terminals)
{
	check_fold("", 20, "");
	check_fold("a line\n\nanother\n", 20, "a line\n\nanother\n");
	check_fold("model  gpt, of many layers\nb\n", 20,
		   "model  gpt, of many\n       layers\nb\n");
	check_fold("1  two three  fourth and more words\n", 20,
		   "1  two three\n    fourth and more\n    words\n");
	check_fold("no-blank-in-all-of-this-line\nshort", 20,
		   "no-blank-in-all-of-this-line\nshort");
	check_fold("  --------------------------- end\n", 20,
		   "  ---------------------------\n  end\n");
	check_fold("exactly twenty chars\n", 20, "exactly twenty chars\n");
}

FIXTURE(set_up, tear_down)

LOOP_TEST(test_timeline, 2)
{
	struct sc_predict_opts opts;
	FILE *file = tmpfile();
	json_t *root;

	sc_predict_opts_init(&opts);
	opts.keep_graph = true;
	opts.detail = _i ? SC_DETAIL_FULL : SC_DETAIL_COARSE;
	predict(&opts);
	ck_assert_int_eq(sc_chrome_trace_write(by->predictor, &by->prediction, file, &err), 0);
	root = read_back(file);
	check_spans(json_object_get(root, "traceEvents"),
		    sc_predictor_ran(by->predictor).timeline->total_us);
	ck_assert_double_eq_tol(sc_predictor_ran(by->predictor).timeline->total_us / 1e3,
				by->prediction.iteration_ms, 1e-6);
	json_decref(root);
}

/* A part of a pass says how many layers it is of, whichever of the pass's runs they are. */
TEST(names_of_parts)
{
	char name[SC_CHROME_NAME];

	sc_chrome_op_name(sc_op_pack(SC_NAME_BACKWARD, 2, 5), name);
	ck_assert_str_eq(name, "backward, micro-batch 5, chunk 2");
	sc_chrome_op_name(sc_op_pack(SC_NAME_BACKWARD_LAYERS, 2, 7 | 3u << SC_OP_LAYERS_BITS),
			  name);
	ck_assert_str_eq(name, "backward layers x 7, chunk 2");
}

/* ---- JSON ---- */

TEST(test_json)
{
	struct sc_explanation explanation;
	struct sc_predict_opts opts;
	FILE *file = tmpfile();
	json_t *root, *value;
	const char *key;
	double sum = 0;

	sc_predict_opts_init(&opts);
	predict(&opts);
	snprintf(by->prediction.warnings.text[0], sizeof(by->prediction.warnings.text[0]),
		 "a \"b\" \xff\n");
	by->prediction.warnings.n = 1;
	ck_assert_int_eq(sc_explain(by, &explanation, &err), 0);
	ck_assert_int_eq(
		write_prediction(&(struct sc_prediction_report){.request = &by->request,
								.prediction = &by->prediction,
								.explanation = &explanation},
				 file, &err),
		0);
	root = read_back(file);
	json_object_foreach(json_object_get(root, "breakdown_ms"), key, value) sum +=
		json_number_value(value);
	ck_assert_double_eq_tol(sum, by->prediction.iteration_ms,
				1e-6 * by->prediction.iteration_ms);
	ck_assert_str_eq(json_string_value(json_object_get(root, "schema")), "stepcast/predict");
	ck_assert(json_is_integer(json_object_get(root, "version")));
	ck_assert_uint_eq(json_array_size(json_object_get(root, "warnings")), 1);
	json_decref(root);
}

/* What rounding leaves of a difference is no time; the smallest real share stays. */
TEST(test_breakdown_without_dust)
{
	struct sc_predict_opts opts;
	struct sc_outcome outcome = {.error = "", .iteration_ms = 1000};
	struct sc_csv cases, back;
	char written[1024];
	FILE *json = tmpfile(), *csv = tmpfile();
	json_t *root, *breakdown;
	size_t n;

	ck_assert_double_eq(sc_without_dust(-3.5e-16, 1000), 0);
	ck_assert_double_eq(sc_without_dust(2e-6, 1000), 2e-6);
	ck_assert_double_eq(sc_without_dust(0, 0), 0);
	sc_predict_opts_init(&opts);
	predict(&opts);
	by->prediction.iteration_ms = 1000;
	by->prediction.reading.breakdown_ms[SC_OWN_BUBBLE] = outcome.breakdown_ms[SC_OWN_BUBBLE] =
		3.5e-16;
	by->prediction.reading.breakdown_ms[SC_OWN_HOST] = outcome.breakdown_ms[SC_OWN_HOST] = 2e-6;
	ck_assert_int_eq(
		write_prediction(&(struct sc_prediction_report){.request = &by->request,
								.prediction = &by->prediction},
				 json, &err),
		0);
	root = read_back(json);
	breakdown = json_object_get(root, "breakdown_ms");
	ck_assert_double_eq(json_number_value(json_object_get(breakdown, "bubble")), 0);
	ck_assert_double_eq_tol(json_number_value(json_object_get(breakdown, "host")), 2e-6, 1e-12);
	json_decref(root);
	ck_assert_int_eq(
		sc_csv_parse(&(struct sc_source){"case\na\n", 7, "t"}, &arena, &cases, &err), 0);
	ck_assert_int_eq(sc_sweep_csv_header(&(struct sc_sweep_report){.cases = &cases}, csv, &err),
			 0);
	ck_assert_int_eq(sc_sweep_csv_row(&(struct sc_sweep_report){.cases = &cases}, 0, &outcome,
					  csv, &err),
			 0);
	rewind(csv);
	n = fread(written, 1, sizeof(written), csv);
	fclose(csv);
	ck_assert_int_eq(sc_csv_parse(&(struct sc_source){written, n, "w"}, &arena, &back, &err),
			 0);
	ck_assert_str_eq(sc_csv_cell(&back, 0, (size_t)sc_csv_column(&back, "bubble_ms")), "0");
	ck_assert_str_eq(sc_csv_cell(&back, 0, (size_t)sc_csv_column(&back, "host_ms")), "2e-06");
}

TEST(test_json_refuses_what_is_not_finite)
{
	struct sc_predict_opts opts;
	FILE *file = tmpfile();

	sc_predict_opts_init(&opts);
	predict(&opts);
	by->prediction.mfu = (double)NAN;
	ck_assert_int_lt(
		write_prediction(&(struct sc_prediction_report){.request = &by->request,
								.prediction = &by->prediction},
				 file, &err),
		0);
	ck_assert_int_eq((int)ftell(file), 0);
	fclose(file);
}

/* ---- explain ---- */

TEST(test_faster_is_not_slower)
{
	struct sc_explanation explanation;
	struct sc_predict_opts opts;

	sc_predict_opts_init(&opts);
	predict(&opts);
	ck_assert_int_eq(sc_explain(by, &explanation, &err), 0);
	for (size_t i = 0; i < SC_N_WHAT_IFS; i++) {
		const struct sc_what_if *w = &explanation.what_if[i];

		ck_assert_msg(w->gain_pct > -1e-6, "%s: %g %%", w->resource, w->gain_pct);
		ck_assert_msg(w->gain_pct < 100.0 * (1.0 - 1.0 / explanation.speed) + 1e-6,
			      "%s: %g %%", w->resource, w->gain_pct);
	}
	ck_assert_double_gt(explanation.what_if[0].gain_pct, 0);
}

/* ---- text ---- */

/* Widths and shares survive numbers of any size. */
TEST(test_text_of_extremes)
{
	static const double values[] = {0, 1e-300, 1e12};
	struct sc_strbuf text = {0};
	struct sc_predict_opts opts;

	sc_predict_opts_init(&opts);
	predict(&opts);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		by->prediction.iteration_ms = values[i];
		for (int owner = 0; owner < SC_N_OWNERS; owner++)
			by->prediction.reading.breakdown_ms[owner] = values[i] / SC_N_OWNERS;
		sc_strbuf_clear(&text);
		sc_prediction_forms.text(
			&(struct sc_prediction_report){.request = &by->request,
						       .prediction = &by->prediction},
			&text);
		ck_assert_ptr_null(strstr(sc_strbuf_get(&text), "nan"));
		ck_assert_ptr_null(strstr(sc_strbuf_get(&text), "inf"));
	}
	sc_strbuf_release(&text);
}

/* ---- config show ---- */

TEST(test_config_show_reads_back)
{
	struct sc_strbuf shown = {0}, again = {0};
	struct sc_config config;
	struct sc_yaml *root;

	sc_config_show(&by->request, &shown);
	ck_assert_msg(sc_yaml_parse(&(struct sc_source){sc_strbuf_get(&shown), shown.n, "shown"},
				    &arena, &root, &err) == 0,
		      "%s", err.text);
	sc_config_init(&config);
	ck_assert_msg(sc_yaml_decode(root, sc_config_fields, &config, &arena, NULL, &err) == 0,
		      "%s", err.text);
	ck_assert_str_eq(config.notes, "a \"quoted\" <text>");
	ck_assert_int_eq(sc_config_resolve(&config, catalog, "shown", &by->request, &err), 0);
	sc_config_show(&by->request, &again);
	/* The same values; only where they came from has changed. */
	for (const char *a = sc_strbuf_get(&shown), *b = sc_strbuf_get(&again); *a && *b;) {
		size_t n = strcspn(a, "#\n");

		ck_assert_uint_eq(n, strcspn(b, "#\n"));
		ck_assert_int_eq(strncmp(a, b, n), 0);
		a += strcspn(a, "\n") + 1;
		b += strcspn(b, "\n") + 1;
	}
	sc_strbuf_release(&shown);
	sc_strbuf_release(&again);
}

/* ---- CSV ---- */

/* What is written is read back as it was, cells that need quotes included. */
TEST(test_sweep_csv_reads_back)
{
	const char text[] = "case,notes\n\"a,b\",\"say \"\"x\"\"\"\nplain,\"two\nlines\"\n";
	struct sc_warnings warnings = {.n = 2, .text = {"one, two", "three"}};
	struct sc_outcome outcomes[2] = {
		{.error = "",
		 .iteration_ms = 12.5,
		 .memory_total_gib = 80.5,
		 .capacity_gib = 80,
		 .warnings = &warnings,
		 .same_as = 7},
		{.code = SC_EVALUE, .error = "wrong, and \"why\""},
	};
	struct sc_csv cases, back;
	char written[1024];
	FILE *file = tmpfile();
	size_t n;

	ck_assert_int_eq(
		sc_csv_parse(&(struct sc_source){text, strlen(text), "t"}, &arena, &cases, &err),
		0);
	ck_assert_int_eq(
		sc_sweep_csv_header(&(struct sc_sweep_report){.cases = &cases}, file, &err), 0);
	for (size_t row = 0; row < 2; row++)
		ck_assert_int_eq(sc_sweep_csv_row(&(struct sc_sweep_report){.cases = &cases}, row,
						  &outcomes[row], file, &err),
				 0);
	rewind(file);
	n = fread(written, 1, sizeof(written), file);
	fclose(file);
	ck_assert_msg(sc_csv_parse(&(struct sc_source){written, n, "w"}, &arena, &back, &err) == 0,
		      "%s", err.text);
	ck_assert_uint_eq(back.n_rows, 2);
	ck_assert_str_eq(sc_csv_cell(&back, 0, 0), "a,b");
	ck_assert_str_eq(sc_csv_cell(&back, 0, 1), "say \"x\"");
	ck_assert_str_eq(sc_csv_cell(&back, 1, 1), "two\nlines");
	ck_assert_str_eq(sc_csv_cell(&back, 0, (size_t)sc_csv_column(&back, "iteration_ms")),
			 "12.5");
	ck_assert_str_eq(sc_csv_cell(&back, 0, (size_t)sc_csv_column(&back, "fits")), "false");
	ck_assert_str_eq(sc_csv_cell(&back, 0, (size_t)sc_csv_column(&back, "same_as")), "7");
	ck_assert_str_eq(sc_csv_cell(&back, 0, (size_t)sc_csv_column(&back, "warnings")),
			 "one, two; three");
	ck_assert_str_eq(sc_csv_cell(&back, 1, (size_t)sc_csv_column(&back, "fits")), "");
	ck_assert_str_eq(sc_csv_cell(&back, 1, (size_t)sc_csv_column(&back, "iteration_ms")), "");
	ck_assert_str_eq(sc_csv_cell(&back, 1, (size_t)sc_csv_column(&back, "error")),
			 "wrong, and \"why\"");
}

TEST(test_every_label)
{
	for (int i = 0; i < SC_N_OWNERS; i++) {
		ck_assert_uint_gt(strlen(sc_owner_labels[i]), 0);
	}
	for (int i = SC_BY_NONE; i <= SC_BY_RESOURCE; i++)
		ck_assert_uint_gt(strlen(sc_reason_names[i]), 0);
	for (int i = SC_NODE_HOST; i <= SC_NODE_MARK; i++)
		ck_assert_uint_gt(strlen(sc_node_kind_names[i]), 0);
	for (int i = SC_LANE_HOST; i <= SC_LANE_NIC; i++)
		ck_assert_uint_gt(strlen(sc_lane_kind_names[i]), 0);
}
