/* stepcast calibrate: a stack's own runs as a software profile. */
#include <string.h>

#include "cli/commands.h"
#include "cli/start.h"
#include "report/fit_report.h"

struct calibrate_args {
	struct sc_common common;
	struct sc_arg_list sets, where;
	const char *table;
	int json;
	int64_t jobs;
};

#define SC_ARGS struct calibrate_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_IN(
		table, "table", "CASES.csv",
		"one measured run per row, with a column measured_ms; header cells with a dot are config keys"),
	SC_OPT_LIST(where, "where", "COLUMN=VALUE",
		    "take only rows with this value; given again, all must hold"),
	SC_OPT_SET(sets),
	SC_OPT_JOBS(jobs),
	SC_OPT_JSON(json),
	{0},
};

static int write_profile(const char *path, const struct sc_calibration *c, struct sc_arena *arena,
			 struct sc_err *err)
{
	struct sc_strbuf text = {0};
	const char *id = sc_cli_profile_id(path, "", arena);
	int rc;

	if (!*id || strcmp(id, c->software) == 0)
		return sc_err_set(
			err, SC_EUSAGE,
			"-o %.128s: the file's stem names the profile: letters, digits, . _ and -, and "
			"not %.64s, which it starts from",
			path, c->software);
	sc_yaml_calibration(c, id, &text);
	rc = sc_cli_write_text(path, &text, err);
	sc_strbuf_release(&text);
	return rc;
}

static int run_calibrate(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct calibrate_args *args = into;
	struct sc_arena *arena = call->arena;
	struct sc_predict_opts predict;
	struct sc_config config;
	struct sc_csv table;
	struct sc_calibration calibration;
	struct sc_where *where;
	struct sc_itfit_opts opts = {.base = &config,
				     .table = &table,
				     .n_where = args->where.n,
				     .n_jobs = sc_cli_jobs(call, args->jobs),
				     .predict = &predict};
	int rc;

	if (args->common.words.n != 1)
		return sc_err_set(
			err, SC_EUSAGE,
			"calibrate needs one CONFIG, the base of the table's rows; got %zu",
			args->common.words.n);
	if (!args->table)
		return sc_err_set(err, SC_EUSAGE, "calibrate needs --table CASES.csv");
	sc_predict_opts_init(&predict);
	rc = sc_cli_pairs(&args->where, "--where", "COLUMN=VALUE", arena, &where, err);
	opts.where = where;
	if (rc == 0)
		rc = sc_cli_config(args->common.words.at[0], &args->sets, arena, &config, err);
	if (rc == 0)
		rc = sc_csv_load(args->table, arena, &table, err);
	if (rc == 0)
		sc_cli_warn_headers(&args->common, &table);
	if (rc == 0)
		rc = sc_calibrate(&opts, call->catalog, arena, &calibration, err);
	if (rc == 0 && strcmp(args->common.output, "-") != 0)
		rc = write_profile(args->common.output, &calibration, arena, err);
	return rc ? rc : sc_cli_give(call, &sc_calibration_forms, &calibration, err);
}

const struct sc_command sc_command_calibrate = {
	.name = "calibrate",
	.summary = "make a software profile from your own measured runs",
	.synopsis =
		"CONFIG --table CASES.csv [--where COLUMN=VALUE]... [--set PATH=VALUE]... [-o FILE.yaml] [--json]",
	.details =
		"Learns a stack from a few of its runs: one already helps. The table is that of validate, read over CONFIG; its "
		"rows have one software profile, where the calibration starts: the default, or better the "
		"answers to what config stack asks, which are worth more than a first run. What it moves is "
		"not asked: the speed of elementwise kernels and of attention, shares of links and network, latencies, the "
		"host's times and the level of all, each at first as sure as the shipped profiles agree on it.\n\n"
		"-o writes a software profile; its name is the file's stem. Put it into the folder software of "
		"STEPCAST_CONFIGS, and name it as training.software. It says its own band, made of the start's and of what is "
		"left of the runs' errors, which from 20 runs on are cross-validated. The report says what was learned, what "
		"the runs hardly tell, which runs would, and what more of them would bring.\n\n"
		"Rows that are not like their kin are left out, and named: where a run takes over twice as long for a "
		"micro-batch as the fastest that differs in replicas, sharding of states and batch alone, something else than "
		"its setting made it slow.\n\n"
		"  stepcast calibrate base.yaml --table my-runs.csv -o software/my-stack.yaml\n"
		"  STEPCAST_CONFIGS=. stepcast predict run.yaml --set training.software=my-stack",
	.words = "file",
	.options = OPTIONS,
	.output_arg = "FILE.yaml",
	.output_help =
		"write the software profile here; the report goes to stdout (default: no file)",
	.args_bytes = sizeof(struct calibrate_args),
	.run = run_calibrate,
};
