/* libstepcast's predict, sweep and shard: the runs of the commands, with results in memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_out.h"
#include "base/num.h"
#include "base/strbuf.h"
#include "base/threads.h"
#include "lib/api_priv.h"
#include "lib/predict_run.h"
#include "lib/shard_run.h"
#include "report/parts.h"
#include "report/sweep_report.h"
#include "study/sweep/sweep.h"

/* Results of libstepcast: JSON text, and values by name. Each is made of the other when asked for.
 */

struct stepcast_result {
	char *json, *plan; /* or NULL */
	json_t *tree;      /* or NULL */
};

/* `json` and `plan` (or NULL) are taken. */
static stepcast_result *api_result(char *json, char *plan)
{
	stepcast_result *result = sc_xcalloc(1, sizeof(*result));

	result->json = json;
	result->plan = plan;
	return result;
}

/* A row becomes an object, without its first columns, which the caller gave. Bytes that are not
 * UTF-8 become "?"; in a name they are an error. */
static stepcast_result *api_row(const struct sc_csv *row, size_t n_given, struct sc_err *err)
{
	struct sc_json json = {.root = json_object()};
	stepcast_result *result;

	for (size_t i = 0; i < row->n_cols; i++) {
		const char *name = row->header[i], *cell = sc_csv_cell(row, 0, i);

		/* No key with a value of its own (config_table.h): the same text in every row. */
		if (!*cell || (i < n_given && !strchr(name, '.') && strcmp(name, "gpus") != 0))
			sc_json_text(&json, json.root, name, *cell ? cell : NULL);
		else
			sc_json_cell(&json, json.root, name, cell);
	}
	if (json.err.code != SC_OK) {
		*err = json.err;
		sc_json_release(&json);
		return NULL;
	}
	result = api_result(NULL, NULL);
	result->tree = json.root;
	return result;
}

const char *stepcast_result_json(stepcast_result *result)
{
	if (result && !result->json)
		result->json = json_dumps(result->tree,
					  JSON_COMPACT | JSON_REAL_PRECISION(SC_JSON_DIGITS));
	return result ? result->json : NULL;
}

const char *stepcast_result_plan(stepcast_result *result)
{
	return result ? result->plan : NULL;
}

/* A member of that name, whole or up to its first point; in a list a number. */
static json_t *json_find(json_t *in, const char *name)
{
	const char *point = strchr(name, '.');
	json_t *at = json_object_get(in, name);
	char first[64];
	int64_t index;

	if (at)
		return at;
	if (!point)
		return sc_parse_int(name, &index) && index >= 0 ? json_array_get(in, (size_t)index)
								: NULL;
	if ((size_t)(point - name) >= sizeof(first))
		return NULL;
	memcpy(first, name, (size_t)(point - name));
	first[point - name] = '\0';
	return json_find(json_find(in, first), point + 1);
}

/* A text, or a number or a truth; NULL, and the error: there is none. */
static const json_t *value_named(stepcast_result *result, const char *name, bool text)
{
	struct sc_api_call call;
	const json_t *value;

	if (!result)
		return NULL;
	sc_api_enter(&call);
	if (!result->tree)
		result->tree = json_loads(result->json, 0, NULL);
	value = json_find(result->tree, name);
	if (text ? !json_is_string(value) : !json_is_number(value) && !json_is_boolean(value)) {
		sc_err_set(&call.err, SC_EVALUE, "the result has no %s \"%.64s\"",
			   text ? "text" : "number", name);
		value = NULL;
	}
	sc_api_leave(&call);
	return value;
}

int stepcast_result_number(stepcast_result *result, const char *name, double *value)
{
	const json_t *at = value_named(result, name, false);

	if (at)
		*value = json_is_boolean(at) ? json_is_true(at) : json_number_value(at);
	return at ? 0 : -1;
}

const char *stepcast_result_text(stepcast_result *result, const char *name)
{
	return json_string_value(value_named(result, name, true));
}

void stepcast_result_free(stepcast_result *result)
{
	if (!result)
		return;
	json_decref(result->tree);
	free(result->json);
	free(result->plan);
	free(result);
}

/* --- options --- */

/* Reads the options of a library call into a command's struct. */
struct api_options {
	const char *const *words;
	size_t n;
	const char *command;
	const struct sc_cli_option *table;
};
static int api_options_read(const struct api_options *options, void *into, struct sc_api_call *call)
{
	struct sc_err *err = &call->err;
	const struct sc_command command = {.name = options->command, .options = options->table};
	char **words = sc_arena_calloc(&call->arena, options->n + 1, sizeof(*words));
	struct sc_common *common = into;
	int rc;

	for (size_t i = 0; i < options->n; i++)
		words[i] = sc_arena_strdup(&call->arena, options->words[i]);
	*common = sc_common_defaults;
	rc = sc_options_parse(&(struct sc_line){.command = &command,
						.argc = (int)options->n,
						.argv = words,
						.of_library = true},
			      into, &call->arena, err);
	if (rc == 0 && common->words.n)
		rc = sc_err_set(err, SC_EUSAGE, "%s: expected options alone, got \"%.64s\"",
				options->command, common->words.at[0]);
	return rc;
}

/* --- text in memory --- */

typedef int (*writer)(const void *ctx, FILE *out, struct sc_err *err);

/* NULL and the error; else the caller's to free. */
static char *write_text(writer write, const void *ctx, struct sc_err *err)
{
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);
	int rc;

	if (!out) {
		sc_err_set(err, SC_EIO, "cannot write into memory: %s", strerror(errno));
		return NULL;
	}
	rc = write(ctx, out, err);
	if (fclose(out) != 0 && rc == 0)
		rc = sc_err_set(err, SC_EIO, "cannot write into memory: %s", strerror(errno));
	if (rc == 0)
		return text;
	free(text);
	return NULL;
}

/* --- predict --- */

static int write_run_json(const void *ctx, FILE *out, struct sc_err *err)
{
	struct sc_json json = *(const struct sc_json *)ctx;

	return sc_json_write(&json, out, err);
}

/* The document as text. */
static char *write_json(const struct sc_forms *forms, const void *result, struct sc_err *err)
{
	struct sc_json json = {0};

	forms->json(result, &json);
	return write_text(write_run_json, &json, err);
}

static char *predict_as_json(const stepcast_request *request, const struct sc_predict_args *args,
			     struct sc_err *err)
{
	const struct sc_config *config = &request->config;
	struct sc_predict_run *run = sc_xcalloc(1, sizeof(*run));
	char *json = NULL;
	int rc;

	run->args = args;
	run->catalog = request->loaded->catalog;
	rc = sc_predict_run(run, config, config->file, err);
	if (rc == 0 && args->explain)
		rc = sc_predict_run_explain(run, config, config->file, err);
	if (rc == 0 && args->require_fit && sc_memory_fullness(&run->by->prediction.memory) > 1)
		rc = sc_err_set(err, SC_ECONFLICT, "--require-fit: needs %.1f of %.1f GiB a GPU",
				run->by->prediction.memory.total_gib,
				run->by->prediction.memory.capacity_gib);
	if (rc == 0)
		json = write_json(&sc_prediction_forms, &run->report, err);
	sc_predict_run_release(run);
	free(run);
	return json;
}

stepcast_result *stepcast_predict(const stepcast_request *request, const char *const *options,
				  size_t n_options)
{
	const struct api_options given = {options, n_options, "predict", sc_predict_options};
	struct sc_predict_args args = sc_predict_defaults;
	struct sc_api_call call;
	char *json = NULL;

	if (!request)
		return NULL;
	sc_api_enter(&call);
	if (api_options_read(&given, &args, &call) == 0)
		json = predict_as_json(request, &args, &call.err);
	sc_api_leave(&call);
	return json ? api_result(json, NULL) : NULL;
}

/* --- shard --- */

static stepcast_result *shard(const stepcast_request *given, struct sc_shard_args *args,
			      struct sc_arena *arena, struct sc_err *err)
{
	struct sc_request *request = sc_arena_calloc(arena, 1, sizeof(*request));
	struct sc_config config = given->config;
	struct sc_shard_report *report;
	struct sc_strbuf plan = {0};
	char *json;

	if (sc_config_resolve(&config, given->loaded->catalog, config.file, request, err))
		return NULL;
	report = sc_shard_run(args, request, arena, err);
	if (!report)
		return NULL;
	json = write_json(&sc_shard_forms, report, err);
	if (json)
		sc_shard_plan_print(&report->study->plans.at[0].solution.plan, &plan);
	sc_shard_report_release(report);
	return json ? api_result(json, sc_strbuf_detach(&plan)) : NULL;
}

stepcast_result *stepcast_shard(const stepcast_request *request, const char *const *options,
				size_t n_options)
{
	const struct api_options given = {options, n_options, "shard", sc_shard_options};
	stepcast_result *result = NULL;
	struct sc_shard_args args = sc_shard_defaults;
	struct sc_api_call call;

	if (!request)
		return NULL;
	sc_api_enter(&call);
	if (api_options_read(&given, &args, &call) == 0)
		result = shard(request, &args, &call.arena, &call.err);
	sc_api_leave(&call);
	return result;
}

/* --- sweep --- */

/* A sink takes the rows, and holds the one that comes. */
struct sink {
	stepcast_row_fn take;
	void *ctx;
	struct sc_sweep_report report;
	size_t row;
	const struct sc_outcome *outcome;
	bool ended; /* it wants no more; rows that were begun may still come */
};

static int write_row(const void *ctx, FILE *out, struct sc_err *err)
{
	const struct sink *sink = ctx;
	int rc = sc_sweep_csv_header(&sink->report, out, err);

	return rc ? rc : sc_sweep_csv_row(&sink->report, sink->row, sink->outcome, out, err);
}

static int take_outcome(void *ctx, size_t index, const struct sc_outcome *outcome,
			struct sc_err *err)
{
	struct sink *sink = ctx;
	stepcast_result *result;
	struct sc_arena arena;
	struct sc_csv csv;
	char *text;
	int rc = -1;

	if (sink->ended)
		return -SC_EIO;
	sink->row = index;
	sink->outcome = outcome;
	text = write_text(write_row, sink, err);
	if (!text)
		return -1;
	sc_arena_init(&arena, 0);
	if (sc_csv_parse(&(struct sc_source){text, strlen(text), "row"}, &arena, &csv, err) == 0) {
		result = api_row(&csv, sink->report.cases->n_cols, err);
		rc = result ? 0 : -1;
		sink->ended = !result || sink->take(sink->ctx, sink->row, result) != 0;
		if (result && sink->ended)
			rc = sc_err_set(err, SC_EIO, "the sweep was ended at row %zu", sink->row);
		stepcast_result_free(result);
	}
	sc_arena_release(&arena);
	free(text);
	return rc;
}

static int sweep(const stepcast_request *request, const struct sc_sweep_args *args,
		 struct sink *sink, struct sc_api_call *call)
{
	struct sc_arena *arena = &call->arena;
	struct sc_err *err = &call->err;
	struct sc_predict_opts opts;
	struct sc_csv cases = {.file = NULL};
	struct sc_run_size size = {.tokens = 0};
	bool has_costs = false;
	struct sc_sweep job = {
		.base = &request->config,
		.cases = &cases,
		.n_jobs = (unsigned)args->jobs,
		.opts = &opts,
		.catalog = request->loaded->catalog,
		.take = take_outcome,
		.ctx = sink,
	};
	int rc;

	sc_predict_opts_init(&opts);
	opts.confidence_pct = (int)args->confidence;
	rc = sc_sweep_args_cases(args, arena, &cases, err);
	if (rc == 0)
		rc = sc_cost_args_read(&args->cost, job.base, arena, &size, &has_costs, err);
	job.size = has_costs ? &size : NULL;
	sink->report =
		(struct sc_sweep_report){.base = job.base, .cases = &cases, .size = job.size};
	if (rc == 0)
		rc = sc_sweep_run(&job, arena,
				  sc_arena_calloc(arena, cases.n_rows, sizeof(struct sc_outcome)),
				  err);
	return rc;
}

int stepcast_sweep(const stepcast_request *request, const char *const *options, size_t n_options,
		   stepcast_row_fn take, void *ctx)
{
	const struct api_options given = {options, n_options, "sweep", sc_sweep_options};
	struct sink sink = {.take = take, .ctx = ctx};
	struct sc_sweep_args args = sc_sweep_defaults;
	struct sc_api_call call;
	int rc;

	if (!request)
		return -1;
	args.jobs = sc_cpu_count();
	sc_api_enter(&call);
	rc = api_options_read(&given, &args, &call);
	if (rc == 0)
		rc = sweep(request, &args, &sink, &call);
	sc_api_leave(&call);
	return rc ? -1 : 0;
}
