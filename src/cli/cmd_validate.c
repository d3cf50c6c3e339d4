/* stepcast validate: predictions against a table of measured times. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/start.h"
#include "report/sweep_report.h"
#include "study/validate/choices.h"

struct validate_args {
	struct sc_common common;
	struct sc_arg_list sets, where, by;
	const char *table, *out_cases, *out_likeness, *leave_out, *device, *report;
	double max_mape_pct; /* < 0: no bound */
	int kind;            /* enum sc_fit_kind; < 0: iterations */
	int json, choices;
	int64_t jobs, confidence;
};

#define SC_ARGS struct validate_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_CHOICE(
		kind, "kind", "KIND", sc_fit_kind_names,
		"rows are times of one operation or collective in time_us, as fit reads them, each on its own device, and no CONFIG is given: gemm, attention, attention_decode, rowwise, optimizer, embedding, host, collective, linear_attention, sparse_attention, mla or experts"),
	SC_OPT_TEXT(device, "device", "NAME", "with --kind: only rows of this GPU"),
	SC_OPT_IN(
		table, "table", "CASES.csv",
		"one measured case per row, with a column measured_ms; header cells with a dot are config keys"),
	SC_OPT_LIST(where, "where", "COLUMN=VALUE",
		    "take only rows with this value; given again, all must hold"),
	SC_OPT_LIST(by, "by", "COLUMN", "also score each value of the column; may be given again"),
	SC_OPT_NUMBER(max_mape_pct, "max-mape", "PCT", 0, 1e9,
		      "end with exit code 3 if the mean absolute error is above PCT percent"),
	SC_OPT_OUT(out_cases, "out-cases", "FILE.csv",
		   "write each case with its error, or why it was skipped"),
	SC_OPT_FLAG(
		choices, "choices",
		"also judge the choice of split: rows that differ in nothing but parallel.*, micro-batch, recomputation and offload"),
	SC_OPT_CONFIDENCE(confidence),
	SC_OPT_TEXT(
		leave_out, "leave-out", "COLUMN,...",
		"make a row's band without the measured rows that have the same: suite, cluster.gpu, training.software, model, nodes, bits"),
	SC_OPT_OUT(
		out_likeness, "out-likeness", "FILE.csv",
		"write the errors of the rows as configs/likeness.csv has them, from which bands are made"),
	SC_OPT_REPORT(report),
	SC_OPT_SET(sets),
	SC_OPT_JOBS(jobs),
	SC_OPT_JSON(json),
	{0},
};

static int check_args(const struct validate_args *args, struct sc_err *err)
{
	const struct sc_arg_list *words = &args->common.words;

	if (!args->table)
		return sc_err_set(err, SC_EUSAGE, "validate needs --table CASES.csv");
	if (args->kind < 0 && words->n < 1)
		return sc_err_set(err, SC_EUSAGE, "validate needs one CONFIG, or --kind");
	if (args->kind < 0 && words->n > 1)
		return sc_err_set(err, SC_EUSAGE,
				  "validate takes only one CONFIG; what is \"%.64s\"?",
				  words->at[1]);
	if (args->kind < 0 && args->device)
		return sc_err_set(err, SC_EUSAGE, "--device goes with --kind");
	if (args->kind >= 0 && (args->leave_out || args->out_likeness || args->choices ||
				args->confidence != SC_CONFIDENCE))
		return sc_err_set(
			err, SC_EUSAGE,
			"--kind: none of --leave-out, --out-likeness, --choices and --confidence goes with it");
	if (args->kind >= 0 && (words->n || args->sets.n))
		return sc_err_set(
			err, SC_EUSAGE,
			"with --kind the rows name their devices: neither CONFIG nor --set");
	return 0;
}

/* "suite,cluster.gpu" */
static int read_leave_out(const char *text, struct sc_arena *arena, unsigned *out,
			  struct sc_err *err)
{
	char *save = NULL, *word = strtok_r(sc_arena_strdup(arena, text), ",", &save);

	for (*out = 0; word; word = strtok_r(NULL, ",", &save)) {
		int c = 0;

		while (c < SC_N_LIKE_COLUMNS && strcmp(sc_like_columns[c], word) != 0)
			c++;
		if (c == SC_N_LIKE_COLUMNS)
			return sc_err_set(
				err, SC_EUSAGE,
				"--leave-out: expected suite, cluster.gpu, training.software, "
				"model, nodes, bits or network, got \"%.64s\"",
				word);
		*out |= 1U << c;
	}
	return 0;
}

static struct sc_progress *start_progress(void *ctx, size_t n_rows)
{
	return sc_cli_progress(ctx, "validate", n_rows);
}

/* A table in which every row is wrong is bad data, not a result. */
static int check_any_predicted(const struct sc_validation *v, bool of_operations,
			       struct sc_err *err)
{
	const struct sc_csv *table = v->table;

	if (v->all.accuracy.n || !(v->n_failed || of_operations))
		return 0;
	if (v->n_bad)
		return sc_err_at(err, v->bad.code, v->bad.file, v->bad.line, v->bad.column,
				 "no case could be predicted; first: %s", v->bad.text);
	for (size_t i = 0; i < v->n_cases; i++) {
		const struct sc_case *c = &v->cases[i];

		/* Models may be unsupported as a whole; times of operations that nothing can be
		 * asked about have a wrong column, as the name of every GPU. */
		if (c->skipped && (of_operations || (c->outcome.code != SC_OK &&
						     c->outcome.code != SC_EUNSUPPORTED)))
			return sc_err_at(err, of_operations ? SC_EVALUE : c->outcome.code,
					 table->file, table->line[c->row], 0,
					 "no case could be predicted; first: %s", c->skipped);
	}
	return 0;
}

static int check_bound(const struct validate_args *args, const struct sc_validation *v)
{
	double mape = v->all.accuracy.mape_pct;

	if (args->max_mape_pct < 0 || mape <= args->max_mape_pct)
		return SC_EXIT_DONE;
	if (isnan(mape))
		fprintf(stderr, "check failed: no case was predicted, so the MAPE has no value\n");
	else
		fprintf(stderr, "check failed: MAPE %.4g %% is above the bound of %.4g %%\n", mape,
			args->max_mape_pct);
	return SC_EXIT_CHECK;
}

static int validate(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	struct validate_args *args = into;
	struct sc_arena *arena = call->arena;
	int *exit_code = &call->exit_code;
	struct sc_predict_opts predict;
	struct sc_config config;
	struct sc_csv table;
	enum sc_fit_kind kind = (enum sc_fit_kind)args->kind;
	struct sc_validate_opts opts = {
		.base = &config,
		.table = &table,
		.kind = args->kind < 0 ? NULL : &kind,
		.n_where = args->where.n,
		.by = args->by.at,
		.n_by = args->by.n,
		.n_jobs = sc_cli_jobs(call, args->jobs),
		.catalog = call->catalog,
		.predict = &predict,
		.progress = start_progress,
		.progress_ctx = &args->common,
	};
	struct sc_validation v;
	struct sc_choices choices;
	struct sc_where *where;
	int rc = check_args(args, err);

	if (rc == 0 && args->device) /* refused with the nearest of the known names */
		rc = sc_device_load(args->device, arena,
				    sc_arena_alloc(arena, sizeof(struct sc_device)), err);
	if (rc)
		return rc;
	sc_predict_opts_init(&predict);
	rc = sc_cli_pairs(&args->where, "--where", "COLUMN=VALUE", arena, &where, err);
	where[args->where.n] = (struct sc_where){"device", args->device};
	predict.confidence_pct = (int)args->confidence;
	if (rc == 0 && args->leave_out)
		rc = read_leave_out(args->leave_out, arena, &opts.leave_out, err);
	opts.where = where;
	opts.n_where += args->device != NULL;
	if (rc == 0 && args->kind < 0)
		rc = sc_cli_config(args->common.words.at[0], &args->sets, arena, &config, err);
	if (rc == 0)
		rc = sc_csv_load(args->table, arena, &table, err);
	if (rc == 0 && args->kind < 0)
		sc_cli_warn_headers(&args->common, &table);
	if (rc == 0)
		rc = sc_validate(&opts, arena, &v, err);
	if (rc == 0 && args->choices) {
		sc_choices_find(&v, arena, &choices);
		v.choices = &choices;
	}
	if (rc == 0 && v.n_cases == 0 && args->kind < 0)
		sc_cli_warn(&args->common, "no row of %s is chosen", args->table);
	else if (rc == 0 && v.n_cases == 0)
		rc = sc_err_at(err, SC_EVALUE, args->table, 0, 0, "no row is chosen");
	if (rc == 0 && v.n_bad && v.all.accuracy.n)
		sc_cli_warn(
			&args->common,
			"%zu of %zu rows are skipped for a cell that cannot be read; mend it or "
			"empty measured_ms; first: %s:%u:%u: %s",
			v.n_bad, v.n_cases, v.bad.file, v.bad.line, v.bad.column, v.bad.text);
	if (rc == 0 && v.first_warning)
		sc_cli_warn(&args->common,
			    "%zu of %zu rows have a network that is not told whole; first: %s",
			    v.n_warned, v.n_cases, v.first_warning);
	else if (rc == 0 && v.n_warned)
		sc_cli_warn(
			&args->common,
			"%zu of %zu cases have warnings; the column `warnings` of sweep lists them",
			v.n_warned, v.n_cases);
	if (rc == 0 && args->out_cases)
		rc = sc_cli_write(args->out_cases, sc_validation_forms.csv, &v, err);
	if (rc == 0 && args->out_likeness)
		rc = sc_cli_write(args->out_likeness, sc_likeness_csv_write, &v, err);
	if (rc == 0)
		rc = check_any_predicted(&v, args->kind >= 0, err);
	if (rc == 0)
		rc = sc_cli_give(call, &sc_validation_forms, &v, err);
	if (rc == 0)
		*exit_code = check_bound(args, &v);
	return rc;
}

const struct sc_command sc_command_validate = {
	.name = "validate",
	.summary = "compare predictions with measured times",
	.synopsis =
		"CONFIG --table CASES.csv [--where COLUMN=VALUE]... [--by COLUMN]... [--max-mape PCT] "
		"[--out-cases FILE.csv] [--choices] [--confidence PCT] [--leave-out COLUMN,...] [--out-likeness FILE.csv] [--report FILE.html] [--json]; or --kind KIND --table CSV [--device NAME]",
	.details =
		"Predicts every row of the table over the base CONFIG and compares it with its column measured_ms. Rows "
		"that cannot be read or predicted are skipped with a reason, and do not change the exit code.\n\n"
		"With --kind the rows are times of single operations or collectives, with the columns of fit, predicted by "
		"the device's profile as it is shipped. The columns gpus_per_node, nodes, intra and inter describe the "
		"network of a collective:\n\n"
		"  intra   NVLink<g>_NVSwitch, NVLink<g>_direct_mesh, NVLink<g>_NVL<n>, NVLink_bridge, xGMI, PCIe, none\n"
		"  inter   <n>x<Gbit>Gb_<net> or <net>_<n>x<Gbit>Gb, with _SHARP where the switches add; a text of intra\n"
		"          where one domain of links spans the hosts; none\n\n"
		"Cells that say nothing stand for the device's usual node, with a warning.\n\n"
		"MAPE is the mean, median and p90 the percentiles, and geo the geometric mean of the absolute error in "
		"percent; bias is the mean signed error; cover is the share of measured times inside the predicted band, "
		"and band its median half-width.\n\n"
		"--choices takes the rows that differ in nothing but the split, and chooses the one that is predicted as "
		"the fastest. A choice is won if its measured time is at most 3 % above that of the best; its gain is the "
		"time that it saves against the worst, as a share of what the best saves. The same model on the same "
		"number of GPUs is one decision with one vote, whatever its batches, and every suite weighs alike.\n\n"
		"Bands come from how far the measured rows of configs/likeness.csv were from their predictions. The "
		"table's own rows may be among them: --leave-out suite,cluster.gpu says what the bands are worth to "
		"somebody else. A row's suite is in its column suite, else source.",
	.words = "file",
	.options = OPTIONS,
	.args_bytes = sizeof(struct validate_args),
	.defaults = &(const struct validate_args){.max_mape_pct = -1,
						  .kind = -1,
						  .confidence = SC_CONFIDENCE},
	.run = validate,
};
