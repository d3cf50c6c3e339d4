/* libstepcast by its public header: the command's results, errors, options, rows, threads. */
#include <langinfo.h>
#include <locale.h>
#include <pthread.h>
#include <time.h>

#include "lib/stepcast.h"
#include "runner.h"

#define GPT "configs/examples/gpt-22b-selene.yaml"
#define ROOMY "b200-sxm-180gb" /* the model fits: command and library say the same */
#define DLRM "configs/examples/dlrm-dcnv2-h100.yaml"
enum { MAX_TEXT = 4 << 20, N_THREADS = 8, N_TP = 4 };

/* What the command prints; the caller's to free. */
static char *command(const char *arguments)
{
	char line[512], *text = calloc(MAX_TEXT, 1);
	const char *program = getenv("STEPCAST");
	FILE *out;

	snprintf(line, sizeof(line), "%s %s 2>/dev/null",
		 program ? program : "build/release/stepcast", arguments);
	out = popen(line, "r");
	ck_assert_ptr_nonnull(out);
	ck_assert_uint_lt(fread(text, 1, MAX_TEXT, out), MAX_TEXT);
	ck_assert_int_eq(pclose(out), 0);
	return text;
}

static stepcast_request *request(const char *path)
{
	stepcast_request *made = stepcast_request_file(path);

	ck_assert_msg(made != NULL, "%s", stepcast_error());
	return made;
}

static double number(stepcast_result *result, const char *name)
{
	double value = -1;

	ck_assert_msg(stepcast_result_number(result, name, &value) == 0, "no %s", name);
	return value;
}

TEST(test_predict_is_the_commands)
{
	static const char *const options[] = {"--explain", "--detail", "full"};
	char *want = command("predict " GPT " --set parallel.tp=4 --explain --detail full --json");
	stepcast_request *asked = request(GPT);
	stepcast_result *result;

	ck_assert_int_eq(stepcast_request_set(asked, "parallel.tp", "4"), 0);
	result = stepcast_predict(asked, options, 3);
	ck_assert_msg(result != NULL, "%s", stepcast_error());
	ck_assert_str_eq(stepcast_result_json(result), want);
	ck_assert_str_eq(stepcast_error(), "");
	ck_assert_double_gt(number(result, "iteration_ms"), 0);
	ck_assert_double_gt(number(result, "memory_gib.total"), 0);
	ck_assert_double_eq_tol(number(result, "classes.0.ranks"), 8, 1e-9);
	ck_assert_str_eq(stepcast_result_text(result, "schema"), "stepcast/predict");
	ck_assert_ptr_null(stepcast_result_text(result, "iteration_ms"));
	ck_assert_ptr_null(stepcast_result_plan(result));
	stepcast_result_free(result);
	stepcast_request_free(asked);
	free(want);
}

TEST(test_shard_is_the_commands)
{
	static const char *const options[] = {"--search", "0", "--draws=0"};
	char *want =
		command("shard " DLRM " --search 0 --draws=0 --json --set training.recompute=full");
	stepcast_request *asked = request(DLRM);
	stepcast_result *result;

	ck_assert_int_eq(stepcast_request_set(asked, "training.recompute", "full"), 0);
	result = stepcast_shard(asked, options, 3);
	ck_assert_msg(result != NULL, "%s", stepcast_error());
	ck_assert_str_eq(stepcast_result_json(result), want);
	ck_assert_ptr_nonnull(
		strstr(stepcast_result_text(result, "warnings.0"), "recompute has no effect"));
	ck_assert_ptr_nonnull(strstr(stepcast_result_plan(result), "\"embeddings\""));
	stepcast_result_free(result);
	stepcast_request_free(asked);
	free(want);
}

struct rows {
	size_t n, ends_at;
	double tp[8], ms[8];
};

static int take(void *ctx, size_t index, stepcast_result *row)
{
	struct rows *rows = ctx;

	ck_assert_uint_eq(index, rows->n);
	rows->tp[rows->n] = number(row, "parallel.tp");
	if (stepcast_result_number(row, "iteration_ms", &rows->ms[rows->n]) != 0)
		rows->ms[rows->n] = -1;
	rows->n++;
	return rows->n == rows->ends_at;
}

TEST(test_sweep_gives_rows_in_order)
{
	static const char *const options[] = {"--grid", "parallel.tp=8,4,2,1", "--jobs=3"};
	stepcast_request *asked = request(GPT), *one;
	struct rows rows = {.n = 0};
	stepcast_result *result;

	ck_assert_msg(stepcast_sweep(asked, options, 3, take, &rows) == 0, "%s", stepcast_error());
	ck_assert_uint_eq(rows.n, 4);
	ck_assert_double_eq_tol(rows.tp[1], 4, 1e-9);
	ck_assert_double_lt(rows.ms[3], 0); /* a batch too small: a row, not a failure */
	one = stepcast_request_copy(asked);
	ck_assert_int_eq(stepcast_request_set(one, "parallel.tp", "4"), 0);
	result = stepcast_predict(one, NULL, 0);
	ck_assert_double_eq_tol(number(result, "iteration_ms"), rows.ms[1], 1e-6);
	stepcast_result_free(result);
	rows = (struct rows){.ends_at = 2};
	ck_assert_int_eq(stepcast_sweep(asked, options, 3, take, &rows), -1);
	ck_assert_uint_eq(rows.n, 2);
	ck_assert_ptr_nonnull(strstr(stepcast_error(), "ended at row 1"));
	stepcast_request_free(one);
	stepcast_request_free(asked);
}

static const struct {
	const char *text, *key, *value, *options[2], *error;
	enum stepcast_status status;
} WRONG[] = {
	{"gpus: [", NULL, NULL, {0}, "mine.yaml:2:1: error: ", STEPCAST_FORMAT},
	{"gpu: 8\n", NULL, NULL, {0}, "mine.yaml:1:1: error: unknown key", STEPCAST_VALUE},
	{"gpus: 8\n", "parallel.tpp", "8", {0}, "did you mean \"parallel.tp", STEPCAST_VALUE},
	{"gpus: 8\n",
	 NULL,
	 NULL,
	 {"--detial", "full"},
	 "did you mean \"--detail\"",
	 STEPCAST_USAGE},
	{"gpus: 8\n", NULL, NULL, {"--set", "gpus=8"}, "for the command only", STEPCAST_USAGE},
	{"gpus: 8\n", NULL, NULL, {"-o", "x.json"}, "for the command only", STEPCAST_USAGE},
	{"gpus: 8\n", NULL, NULL, {"-qv", "-h"}, "for the command only", STEPCAST_USAGE},
	{"gpus: 8\n",
	 NULL,
	 NULL,
	 {"--explain", "--no-progress"},
	 "for the command only",
	 STEPCAST_USAGE},
	{"gpus: 1\ncluster: {gpu: h100-sxm-80gb}\nmodel: models/llama3-8b.yaml\n"
	 "training: {global_batch: 1}\n",
	 NULL,
	 NULL,
	 {"--require-fit", "--explain"},
	 "--require-fit: needs ",
	 STEPCAST_CONFLICT},
	{NULL, NULL, NULL, {0}, "needs a text", STEPCAST_USAGE},
	{"gpus: 8\n", NULL, NULL, {"--explain", "x"}, "expected options alone", STEPCAST_USAGE},
	{"gpus: 8\n", NULL, NULL, {0}, "error: ", STEPCAST_VALUE},
};

LOOP_TEST(test_errors_say_why, N_OF(WRONG))
{
	stepcast_request *asked = stepcast_request_text(WRONG[_i].text, "mine.yaml");
	stepcast_result *result = NULL;
	size_t n = WRONG[_i].options[0] ? 2 : 0;
	int rc = 0;

	if (asked && WRONG[_i].key)
		rc = stepcast_request_set(asked, WRONG[_i].key, WRONG[_i].value);
	if (asked && rc == 0)
		result = stepcast_predict(asked, WRONG[_i].options, n);
	ck_assert_ptr_null(result);
	ck_assert_msg(strstr(stepcast_error(), WRONG[_i].error) != NULL, "%s", stepcast_error());
	ck_assert_int_eq(stepcast_error_status(), WRONG[_i].status);
	stepcast_request_free(asked);
}

/* Of NULL comes NULL, and what made it so is still said. */
TEST(test_null_keeps_the_error)
{
	stepcast_request *none = stepcast_request_file("none.yaml");
	stepcast_result *result = stepcast_predict(none, NULL, 0);
	struct stepcast_shard_cost cost;
	double ms;

	ck_assert_ptr_null(result);
	ck_assert_int_eq(stepcast_result_number(result, "iteration_ms", &ms), -1);
	ck_assert_ptr_null(stepcast_result_text(result, "schema"));
	ck_assert_ptr_null(stepcast_result_json(result));
	ck_assert_ptr_null(stepcast_result_plan(result));
	ck_assert_ptr_null(stepcast_shard(none, NULL, 0));
	ck_assert_ptr_null(stepcast_request_copy(none));
	ck_assert_ptr_null(stepcast_costs_of(none));
	ck_assert_int_eq(stepcast_request_set(none, "gpus", "8"), -1);
	ck_assert_int_eq(stepcast_sweep(none, NULL, 0, NULL, NULL), -1);
	ck_assert_int_eq(stepcast_costs_shard(NULL, "t", "row_wise", "fused", 1, 1, &cost), -1);
	ck_assert_ptr_nonnull(strstr(stepcast_error(), "none.yaml"));
	ck_assert_ptr_null(stepcast_request_file(NULL));
	ck_assert_ptr_nonnull(strstr(stepcast_error(), "needs a path"));
}

TEST(test_stdin_is_the_callers)
{
	ck_assert_ptr_null(stepcast_request_file("-"));
	ck_assert_int_eq(stepcast_error_status(), STEPCAST_IO);
}

TEST(test_missing_names_are_said)
{
	stepcast_request *asked = request(GPT);
	stepcast_result *result = stepcast_predict(asked, NULL, 0);
	double value;

	ck_assert_int_eq(stepcast_result_number(result, "iteration_s", &value), -1);
	ck_assert_ptr_nonnull(strstr(stepcast_error(), "no number \"iteration_s\""));
	ck_assert_ptr_null(stepcast_result_text(result, "iteration_ms"));
	ck_assert_ptr_nonnull(strstr(stepcast_error(), "no text \"iteration_ms\""));
	ck_assert_int_eq(stepcast_error_status(), STEPCAST_VALUE);
	stepcast_result_free(result);
	stepcast_request_free(asked);
}

/* What would fit is looked for where that is asked. */
TEST(test_settings_come_with_explain)
{
	static const char *const options[] = {"--explain"};
	stepcast_request *asked = request(GPT);

	ck_assert_int_eq(stepcast_request_set(asked, "training.recompute", "none"), 0);
	ck_assert_int_eq(stepcast_request_set(asked, "training.micro_batch", "4"), 0);
	for (size_t n = 0; n < 2; n++) {
		stepcast_result *result = stepcast_predict(asked, options, n);

		ck_assert_msg(result != NULL, "%s", stepcast_error());
		ck_assert_double_eq_tol(number(result, "fits"), 0, 1e-9);
		ck_assert_int_eq(strstr(stepcast_result_json(result), "\"settings\": [") != NULL,
				 n == 1);
		stepcast_result_free(result);
	}
	stepcast_request_free(asked);
}

static int take_text(void *ctx, size_t index, stepcast_result *row)
{
	static const char *const sha[] = {"12e4567", "1234e5", "00042", "true", "a?b"};
	size_t *n = ctx;

	ck_assert_str_eq(stepcast_result_text(row, "sha"), sha[index]);
	ck_assert_double_eq_tol(number(row, "parallel.tp"), 4, 1e-9);
	++*n;
	return 0;
}

TEST(test_carried_columns_are_text)
{
	char path[] = "/tmp/sc_libraryXXXXXX";
	const char *const options[] = {"--table", path};
	stepcast_request *asked = request(GPT);
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "w");
	size_t n = 0;

	ck_assert_ptr_nonnull(file);
	fputs("sha,parallel.tp\n12e4567,4\n1234e5,4\n00042,4\ntrue,4\na\377b,4\n", file);
	fclose(file);
	ck_assert_msg(stepcast_sweep(asked, options, 2, take_text, &n) == 0, "%s",
		      stepcast_error());
	ck_assert_uint_eq(n, 5);
	remove(path);
	stepcast_request_free(asked);
}

TEST(test_copies_go_their_own_ways)
{
	stepcast_request *first = request(GPT), *second, *third;
	stepcast_result *a, *b;

	ck_assert_int_eq(stepcast_request_set(first, "parallel.tp", "4"), 0);
	ck_assert_int_eq(stepcast_request_set(first, "parallel.tp", "x"), -1); /* nothing changes */
	second = stepcast_request_copy(first);
	third = stepcast_request_copy(first);
	ck_assert_int_eq(stepcast_request_set(third, "parallel.tp", "8"), 0);
	a = stepcast_predict(first, NULL, 0);
	stepcast_request_free(first);
	b = stepcast_predict(second, NULL, 0);
	ck_assert_str_eq(stepcast_result_json(a), stepcast_result_json(b));
	stepcast_result_free(b);
	b = stepcast_predict(third, NULL, 0);
	ck_assert_str_ne(stepcast_result_json(a), stepcast_result_json(b));
	stepcast_result_free(a);
	stepcast_result_free(b);
	stepcast_request_free(second);
	stepcast_request_free(third);
}

TEST(test_shards_add_up)
{
	static const char *const kernels[] = {"fused", "fused_uvm", "fused_uvm_caching"};
	stepcast_request *asked = request(DLRM);
	stepcast_costs *costs = stepcast_costs_of(asked);
	struct stepcast_shard_cost whole, half;

	stepcast_request_free(asked);
	ck_assert_msg(costs != NULL, "%s", stepcast_error());
	for (size_t i = 0; i < 3; i++) {
		ck_assert_int_eq(stepcast_costs_shard(costs, "cat_0", "table_wise", kernels[i],
						      40000000, 128, &whole),
				 0);
		ck_assert_int_eq(stepcast_costs_shard(costs, "cat_0", "column_wise", kernels[i],
						      40000000, 64, &half),
				 0);
		ck_assert_double_gt(half.forward_ms, 0);
		ck_assert_double_le(half.forward_ms, whole.forward_ms);
		ck_assert_double_gt(2 * half.forward_ms, whole.forward_ms * (1 - 1e-9));
		ck_assert_double_eq_tol(2 * half.comms_ms, whole.comms_ms, 1e-9);
	}
	ck_assert_int_eq(
		stepcast_costs_shard(costs, "cat_0", "row_wise", "fused", 40000001, 128, &whole),
		-1);
	ck_assert_int_eq(stepcast_costs_shard(costs, "none", "row_wise", "fused", 1, 1, &whole),
			 -1);
	ck_assert_int_eq(stepcast_costs_shard(costs, "cat_0", "rows", "fused", 1, 1, &whole), -1);
	stepcast_costs_free(costs);
}

static int take_in_own_locale(void *ctx, size_t index, stepcast_result *row)
{
	int *n_wrong = ctx;

	(void)index;
	(void)row;
	*n_wrong += strcmp(nl_langinfo(CODESET), "ANSI_X3.4-1968") != 0;
	return 0;
}

/* What a point in numbers hangs on: C's locale on every thread while we work, the caller's after
 * it. */
TEST(test_the_locale_is_ours_and_then_the_callers)
{
	static const char *const options[] = {"--grid", "parallel.tp=1,2,4,8", "--jobs=3"};
	stepcast_request *asked = request(GPT);
	int n_wrong = 0;

	if (setlocale(LC_ALL, "C.UTF-8")) {
		ck_assert_int_eq(stepcast_sweep(asked, options, 3, take_in_own_locale, &n_wrong),
				 0);
		ck_assert_int_eq(n_wrong, 0);
		ck_assert_str_eq(nl_langinfo(CODESET), "UTF-8");
		setlocale(LC_ALL, "C");
	}
	stepcast_request_free(asked);
}

/* --- threads --- */

struct thread {
	pthread_t id;
	const stepcast_request *shared;
	char *const *want; /* of each tp */
	double seconds;
	unsigned first, n_done;
	bool differs;
};

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static stepcast_result *predict_tp(const stepcast_request *shared, unsigned i)
{
	static const char *const tp[N_TP] = {"2", "4", "8", "8"};
	stepcast_request *own = stepcast_request_copy(shared);
	stepcast_result *result = NULL;

	if (stepcast_request_set(own, "parallel.tp", tp[i % N_TP]) == 0 &&
	    stepcast_request_set(own, "training.global_batch", i % 2 ? "64" : "32") == 0)
		result = stepcast_predict(own, NULL, 0);
	stepcast_request_free(own);
	return result;
}

static void *predict_many(void *arg)
{
	struct thread *t = arg;
	double end_s = now_s() + t->seconds;

	do {
		unsigned i = (t->first + t->n_done++) % N_TP;
		stepcast_result *result = predict_tp(t->shared, i);

		t->differs |= !result || strcmp(stepcast_result_json(result), t->want[i]) != 0;
		stepcast_result_free(result);
	} while (t->n_done < N_TP || now_s() < end_s);
	return NULL;
}

/* STEPCAST_LIBRARY_SECONDS: for so long; else each thread once for each request. */
TEST(test_threads_get_the_commands_results)
{
	static const char *const lines[N_TP] = {
		"2 --set training.global_batch=32", "4 --set training.global_batch=64",
		"8 --set training.global_batch=32", "8 --set training.global_batch=64"};
	const char *seconds = getenv("STEPCAST_LIBRARY_SECONDS");
	stepcast_request *shared = request(GPT);
	struct thread threads[N_THREADS];
	char *want[N_TP], line[256];
	unsigned n = 0;

	ck_assert_int_eq(stepcast_request_set(shared, "cluster.gpu", ROOMY), 0);
	for (unsigned i = 0; i < N_TP; i++) {
		snprintf(line, sizeof(line),
			 "predict " GPT " --json --set cluster.gpu=" ROOMY " --set parallel.tp=%s",
			 lines[i]);
		want[i] = command(line);
	}
	for (unsigned i = 0; i < N_THREADS; i++) {
		threads[i] = (struct thread){.shared = shared,
					     .want = want,
					     .first = i,
					     .seconds = seconds ? strtod(seconds, NULL) : 0};
		ck_assert_int_eq(pthread_create(&threads[i].id, NULL, predict_many, &threads[i]),
				 0);
	}
	for (unsigned i = 0; i < N_THREADS; i++) {
		pthread_join(threads[i].id, NULL);
		ck_assert_msg(!threads[i].differs, "thread %u differs from the command", i);
		n += threads[i].n_done;
	}
	if (seconds)
		printf("%u predictions in %u threads\n", n, (unsigned)N_THREADS);
	for (unsigned i = 0; i < N_TP; i++)
		free(want[i]);
	stepcast_request_free(shared);
}
