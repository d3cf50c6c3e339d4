/* stepcast fit: coefficients of a profile from measured times. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "core/foreign/nccl_tests.h"
#include "report/fit_report.h"
#include "study/fit/fit_iterations.h"

struct fit_args {
	struct sc_common common;
	struct sc_arg_list where, hold_out, keep, coefs, sets;
	const char *table, *device, *leave_out, *report;
	int kind, launch, curves, json, start_from_profile;
	int64_t folds, jobs;
};

#define SC_ARGS struct fit_args
static const char *const KINDS[] = {SC_FIT_KIND_NAMES, "iteration", NULL};
static const char *const LAUNCHES[] = {"auto", "none", "all", NULL};
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_CHOICE(
		kind, "kind", "KIND", KINDS,
		"which model: gemm, attention, attention_decode, rowwise, optimizer, embedding, host, collective or interference; or iteration"),
	SC_OPT_IN(
		table, "table", "CSV",
		"measured times, one per row, plain or gzip; for collectives also what nccl-tests printed"),
	SC_OPT_TEXT(
		device, "device", "NAME",
		"the GPU, as a100-sxm-80gb: its rows are taken, its profile is where the fit starts"),
	SC_OPT_LIST(
		where, "where", "COLUMN=VALUE",
		"take only rows with this value, or pattern as alps_*; given again, all must hold"),
	SC_OPT_INT(folds, "folds", "K", 2, SC_FIT_MAX_FOLDS,
		   "parts that are held out in turn (default: 5); a shape is never split"),
	SC_OPT_TEXT(
		leave_out, "leave-out", "COLUMN",
		"in place of folds: predict the rows of each value of the column by a fit of the others. COLUMN device "
		"takes all devices, by their datasheets; machine (collective) takes all machines; iteration takes columns "
		"A,B,... and each of their values together"),
	SC_OPT_LIST(
		hold_out, "hold-out", "COLUMN=VALUE",
		"in place of folds: predict the rows with any of these values by a fit of the others"),
	SC_OPT_LIST(
		keep, "keep", "BLOCK.NAME",
		"with --leave-out machine: coefficients that stay as the profile has them, since other measurements set them; a pattern as 'links nvlink4.*'; may be given again"),
	SC_OPT_CHOICE(
		launch, "launch", "WHICH", LAUNCHES,
		"sources whose times hold a launch: auto (default: where the shortest are far above the model), none or all"),
	SC_OPT_FLAG(
		curves, "curves",
		"gemm, collective: also keep the measured times by size; for collectives -o writes a whole fabric file"),
	SC_OPT_REPORT(report),
	SC_OPT_LIST(
		coefs, "coef", "NAME[=START]",
		"iteration: a coefficient, such as software.host_op_us or device.gemm.power_eff; may be given again"),
	SC_OPT_FLAG(
		start_from_profile, "start-from-profile",
		"iteration: search from the profile's values alone, not from other places, too"),
	SC_OPT_SET(sets),
	SC_OPT_JOBS(jobs),
	SC_OPT_JSON(json),
	{0},
};

/* The file to which the profile is written; NULL: none. */
static const char *profile_path(const struct fit_args *args)
{
	return strcmp(args->common.output, "-") != 0 ? args->common.output : NULL;
}

/* A file holds one profile. Its id is the file's stem, where that can be one; else the old one's.
 */
static int write_profile(const struct fit_args *args, const struct sc_fit *fit,
			 struct sc_arena *arena, struct sc_err *err)
{
	const char *path = profile_path(args);
	const char *old = fit->coefs->at[0].block;
	struct sc_strbuf text = {0};
	int rc;

	for (size_t i = 1; i < fit->coefs->n && args->kind == SC_FIT_ITERATION; i++) {
		const char *other = fit->coefs->at[i].block;

		if (strcmp(old, other) != 0)
			return sc_err_set(
				err, SC_EUSAGE,
				"-o writes one profile, and these coefficients are of %.64s "
				"and %.64s; leave -o out, or fit them apart",
				strchr(old, ':') + 1, strchr(other, ':') + 1);
	}
	old = args->kind == SC_FIT_ITERATION ? strchr(old, ':') + 1 : args->device;
	sc_yaml_fit(fit, sc_cli_profile_id(path, old, arena), &text);
	rc = sc_cli_write_text(path, &text, err);
	sc_strbuf_release(&text);
	return rc;
}

/* ---- the command ---- */

/* Rows that all have, or that --where chooses by, one name which no shipped device has are of the
 * user's own GPU:
 * --device says like which it is. A pattern chooses among names and is none. */
static void take_own_name(const struct fit_args *args, struct sc_where *where, struct sc_csv *table,
			  struct sc_arena *arena)
{
	const int column = sc_csv_column(table, "device");
	const char *own = column >= 0 && table->n_rows ? sc_csv_cell(table, 0, (size_t)column) : "";
	struct sc_device *known = sc_arena_alloc(arena, sizeof(*known));
	struct sc_where *chosen = NULL;

	for (size_t i = 0; i < args->where.n; i++)
		if (strcmp(where[i].column, "device") == 0)
			own = (chosen = &where[i])->value;
	for (size_t i = 0; i < table->n_rows && column >= 0 && !chosen; i++)
		if (strcmp(sc_csv_cell(table, i, (size_t)column), own) != 0)
			return;
	if (column < 0 || *own == '\0' || strpbrk(own, "*?[") || strcmp(own, args->device) == 0 ||
	    sc_device_load(own, arena, known, NULL) == 0)
		return;
	sc_cli_warn(&args->common, "no device %s is known: its rows are fitted from %s", own,
		    args->device);
	table->header[column] = "own device";
	if (chosen)
		chosen->column = table->header[column];
}

static int fit_kernels(const struct fit_args *args, struct sc_where *where, struct sc_arena *arena,
		       struct sc_fit *out, struct sc_err *err)
{
	struct sc_where *hold_out;
	struct sc_csv table;
	struct sc_fit_opts opts = {.table = &table,
				   .kind = (enum sc_fit_kind)args->kind,
				   .device = args->device,
				   .where = where,
				   .n_where = args->where.n,
				   .n_hold_out = args->hold_out.n,
				   .n_folds = (size_t)args->folds,
				   .launch = (enum sc_fit_launch)args->launch,
				   .leave_out = args->leave_out,
				   .keep = args->keep.at,
				   .n_keep = args->keep.n,
				   .curves = args->curves};
	int rc;

	if (args->common.words.n)
		return sc_err_set(err, SC_EUSAGE, "fit takes only options; what is \"%.64s\"?",
				  args->common.words.at[0]);
	if (args->kind < 0 || args->kind >= SC_FIT_LINEAR_ATTENTION)
		return sc_err_set(
			err, SC_EUSAGE,
			"fit needs --kind gemm, attention, attention_decode, rowwise, optimizer, embedding, host, "
			"collective, interference or iteration");
	if (!args->table)
		return sc_err_set(err, SC_EUSAGE, "fit needs --table CSV");
	if (!args->device)
		return sc_err_set(err, SC_EUSAGE, "fit needs --device NAME");
	if (profile_path(args) && sc_fit_takes_all(&opts))
		return sc_err_set(err, SC_EUSAGE,
				  "-o writes the profile of one device; leave out --leave-out %s",
				  args->leave_out);
	rc = sc_cli_pairs(&args->hold_out, "--hold-out", "COLUMN=VALUE", arena, &hold_out, err);
	if (rc)
		return rc;
	opts.hold_out = hold_out;
	rc = args->kind == SC_FIT_COLLECTIVE ? sc_nccl_tests_load(args->table, arena, &table, err)
					     : sc_csv_load(args->table, arena, &table, err);
	if (rc == 0)
		take_own_name(args, where, &table, arena);
	return rc ? rc : sc_fit_run(&opts, arena, out, err);
}

static int read_coefs(const struct sc_arg_list *texts, struct sc_arena *arena,
		      struct sc_itfit_name *out, struct sc_err *err)
{
	for (size_t i = 0; i < texts->n; i++) {
		const char *text = texts->at[i], *equals = strchr(text, '=');

		out[i] = (struct sc_itfit_name){text, (double)NAN};
		if (!equals)
			continue;
		out[i].name = sc_arena_strndup(arena, text, (size_t)(equals - text));
		if (!sc_parse_double(equals + 1, &out[i].start) || !(out[i].start > 0))
			return sc_err_set(err, SC_EUSAGE,
					  "--coef %.64s: expected a start above 0, got \"%.64s\"",
					  out[i].name, equals + 1);
	}
	return 0;
}

static struct sc_progress *start_progress(void *ctx, size_t n_fits)
{
	return sc_cli_progress(ctx, "fit", n_fits);
}

static int fit_iterations(const struct fit_args *args, const struct sc_where *where,
			  struct sc_arena *arena, struct sc_fit *out, struct sc_err *err)
{
	struct sc_common common = args->common;
	struct sc_itfit_name *coefs = sc_arena_calloc(arena, args->coefs.n + 1, sizeof(*coefs));
	const char *left = args->leave_out, **columns;
	struct sc_predict_opts predict;
	struct sc_config config;
	struct sc_csv table;
	struct sc_itfit_opts opts = {.base = &config,
				     .table = &table,
				     .where = where,
				     .n_where = args->where.n,
				     .coefs = coefs,
				     .n_coefs = args->coefs.n,
				     .start_from_profile = args->start_from_profile,
				     .n_jobs = (unsigned)args->jobs,
				     .predict = &predict,
				     .progress = start_progress,
				     .progress_ctx = &common};
	int rc;

	if (args->device || args->report || args->hold_out.n || args->keep.n || args->curves)
		return sc_err_set(
			err, SC_EUSAGE,
			"fit --kind iteration takes none of --device, --hold-out, --keep, "
			"--curves and --report");
	if (args->common.words.n != 1)
		return sc_err_set(err, SC_EUSAGE,
				  "fit --kind iteration needs one CONFIG, the base of the table's "
				  "rows; got %zu",
				  args->common.words.n);
	if (!args->table)
		return sc_err_set(err, SC_EUSAGE, "fit needs --table CSV");
	if (!args->coefs.n)
		return sc_err_set(err, SC_EUSAGE,
				  "fit --kind iteration needs --coef, as software.host_op_us or "
				  "device.gemm.power_eff");
	columns = sc_arena_calloc(arena, left ? strlen(left) + 1 : 1, sizeof(*columns));
	opts.leave_out = columns;
	for (size_t n; left;
	     left = left[n] ? left + n + 1 : NULL) { /* "model.hidden,model.layers" */
		n = strcspn(left, ",");
		columns[opts.n_leave_out++] = sc_arena_strndup(arena, left, n);
	}
	sc_predict_opts_init(&predict);
	rc = read_coefs(&args->coefs, arena, coefs, err);
	if (rc == 0)
		rc = sc_cli_config(args->common.words.at[0], &args->sets, arena, &config, err);
	if (rc == 0)
		rc = sc_csv_load(args->table, arena, &table, err);
	return rc ? rc : sc_itfit_run(&opts, arena, out, err);
}

static int run_fit_command(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct fit_args *args = into;
	struct sc_arena *arena = call->arena;
	struct sc_where *where;
	struct sc_fit result;
	int rc = sc_cli_pairs(&args->where, "--where", "COLUMN=VALUE", arena, &where, err);

	if (rc == 0)
		rc = args->kind == SC_FIT_ITERATION
			     ? fit_iterations(args, where, arena, &result, err)
			     : fit_kernels(args, where, arena, &result, err);
	if (rc == 0 && profile_path(args))
		rc = write_profile(args, &result, arena, err);
	return rc ? rc : sc_cli_give(call, &sc_fit_forms, &result, err);
}

const struct sc_command sc_command_fit = {
	.name = "fit",
	.summary = "fit a profile's coefficients to measured times",
	.synopsis =
		"--kind KIND --table CSV --device NAME [--where COLUMN=VALUE]... "
		"[--folds K | --leave-out COLUMN [--keep BLOCK.NAME]... | --hold-out COLUMN=VALUE...] [--launch WHICH] "
		"[--curves] [--report FILE.html] [-o FILE.yaml] [--json]; or --kind iteration CONFIG "
		"--table CASES.csv --coef NAME[=START]... [--leave-out COLUMN[,COLUMN]]",
	.details =
		"Fits the coefficients of one model to the table's rows of one device, by robust least squares in log "
		"time: outliers weigh less, and a coefficient that the rows do not determine keeps its value and is named. "
		"The report has the errors in sample and for rows held out in turn.\n\n"
		"  gemm        m n k time_us [batch] [op: linear, bmm] [pass: fwd, bwd] [dtype]\n"
		"              [regime: step, as op has it; sustained (default): a loop of a second; burst]\n"
		"              [includes: product (default), cast+product, with the cast of the input from\n"
		"              bf16 and the search for its scale, as variant says]\n"
		"  attention   heads seq head_dim time_us [batch] [kv_heads] [seq_kv] [causal] [pass] [dtype]\n"
		"  attention_decode  heads kv_len head_dim time_us [batch] [kv_heads] [dtype] [kv_dtype]: one new token a "
		"sequence\n"
		"  rowwise     op rows cols time_us [pass] [dtype]; op: add, gelu, softmax, layernorm, rmsnorm\n"
		"  optimizer   params time_us [bytes: of one parameter]\n"
		"  embedding   tables rows dim time_us [batch] [pooling] [zipf] [unique_rows: of a table] [longest_run]\n"
		"              [pass] [optimizer] [dtype] [kernel] [sorted: false, no sort] [warm: true, rows cached]\n"
		"  host        time_us [launches]\n"
		"  interference alone_us beside_frac blocks comm_blocks time_us [computes] [collective] [comm_load], as c3 "
		"--from -o FILE.csv writes them;\n"
		"              or compute_us comm_us overlapped_us m bytes policy [n] [kind] [gpus] [ctas] [collective], "
		"as c3 --measured reads them\n"
		"  collective  collective bytes ranks time_us [nodes] [gpus_per_node] [intra] [inter] [sweep] [algo] "
		"[quality]\n\n"
		"The table of a collective may be what nccl-tests or rccl-tests printed; its lines say which collective, "
		"ranks and hosts.\n\n"
		"A table without a column device belongs to --device; it may have a column source. The backward pass of a "
		"gemm is both of its gradients. Rows with an empty time do not count; a time that is no positive number is "
		"an error. Collectives of the quality bound, which export gives to times that may contain waiting, do not "
		"count either, unless --where names that column. -o writes a device file based on the device's own, to put "
		"into the folder devices of the configs; for collectives, entries of a fabric file.\n\n"
		"--curves keeps the measured times beside the coefficients. A weight matrix (n, k) of a gemm with times at "
		"three sizes m or more is then predicted forward from its own times, others by the formula. For "
		"collectives -o writes the whole file of one machine: put it into the folder fabrics, and name it in a "
		"config as cluster.fabric.\n\n"
		"--kind collective --leave-out machine says what the shared model is worth on a machine that it has never "
		"seen: it takes the rows of all devices, and predicts those of each value of the column machine by a fit "
		"of all others, in which machines weigh alike and which starts from values of no machine.\n\n"
		"Times that were taken around the call of an op rather than its kernel contain the host's part: max(floor, "
		"launch + kernel), fitted for each op of such a source.\n\n"
		"  stepcast fit --kind gemm --table gemm.csv.gz --device h100-sxm-80gb -o my-h100.yaml\n\n"
		"--kind iteration fits what no kernel table shows, such as host costs or the clock under load, to whole "
		"measured iterations; the table is that of validate, read over CONFIG. A coefficient is any number of a "
		"software or device profile, by its keys: software.host_op_us, device.gemm.power_eff, or "
		"software:megatron-lm.host_op_us and device:v100-sxm-16gb.gemm.power_eff where the rows have several. It "
		"stays within the bounds of its key, and within a factor of 1000. The fit minimises the mean "
		"|ln(predicted/measured)|, and a small penalty on the distance from the start: the profile's value, or "
		"START. --leave-out predicts the rows of each value by a fit of the others, which shows what the fit is "
		"worth elsewhere; give neutral STARTs where the profile was fitted to these very rows. -o writes a profile, "
		"if all coefficients belong to one.\n\n"
		"  stepcast fit --kind iteration base.yaml --table mine.csv --coef software.host_op_us --coef "
		"software.comm_latency_us=20 --leave-out model.hidden -o my-stack.yaml",
	.words = "file",
	.options = OPTIONS,
	.output_arg = "FILE.yaml",
	.output_help =
		"write the fitted profile here; the report goes to stdout (default: no file)",
	.args_bytes = sizeof(struct fit_args),
	.defaults = &(const struct fit_args){.kind = -1, .folds = SC_FIT_FOLDS},
	.run = run_fit_command,
};
