/* stepcast replay: recorded iterations simulated again, as they were and with changes. */
#include <string.h>

#include "base/num.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "cli/network.h"
#include "cli/start.h"
#include "models/collective/collective_files.h"
#include "report/replay_report.h"

enum { MAX_RANK = 1 << 30, MAX_GPUS = 1 << 24 };
#define MAX_FACTOR 1e6

struct replay_args {
	struct sc_common common;
	struct sc_arg_list scales, replaces, sets, without;
	int64_t step, jobs;
	int gaps, overlap, missing, what_if, json;
	const char *timeline, *report, *cluster, *range;
};

static const char *const GAPS[] = {[SC_GAPS_AUTO] = "auto",
				   [SC_GAPS_MEASURED] = "measured",
				   [SC_GAPS_TYPICAL] = "typical",
				   [SC_GAPS_NONE] = "none",
				   NULL};

static const char *const OVERLAPS[] = {[SC_OVERLAP_AS_RECORDED] = "as-recorded",
				       [SC_OVERLAP_NONE] = "none",
				       [SC_OVERLAP_FREE] = "free",
				       NULL};
static const char *const MISSING[] = {
	[SC_MISSING_RECORDED] = "recorded", [SC_MISSING_SYMMETRIC] = "symmetric", NULL};

#define SC_ARGS struct replay_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_LIST(
		scales, "scale", "SELECTOR=FACTOR",
		"these operations take FACTOR times as long, such as kernel:gemm=0.8; may be given again, and factors "
		"multiply"),
	SC_OPT_LIST(
		replaces, "replace", "SELECTOR=mean|model",
		"these operations take the mean of their type over all ranks, or what the models predict; may be given "
		"again, and the last that matches an operation wins"),
	SC_OPT_LIST(sets, "set", "gpus=N",
		    "another number of GPUs: more or fewer data-parallel replicas"),
	SC_OPT_LIST(without, "without-straggler", "RANK",
		    "a rank is no slower than the others are on average"),
	SC_OPT_CHOICE(
		gaps, "gaps", "auto|measured|typical|none", GAPS,
		"launch gaps of a changed replay (default auto: typical, trimmed of outliers)"),
	SC_OPT_CHOICE(
		overlap, "overlap", "none|as-recorded|free", OVERLAPS,
		"collectives run beside nothing (none), or beside all that the trace does not say to wait for them (free); default: as-recorded"),
	SC_OPT_CHOICE(
		missing, "missing", "recorded|symmetric", MISSING,
		"ranks that were not recorded: as late as they were (recorded, the default), or as early as the recorded ones (symmetric)"),
	SC_OPT_SWITCH(
		what_if, "what-if",
		"the cost of each rank's slowness, and slowdowns by rank, stage and operation (default: yes)"),
	SC_OPT_INT(
		step, "step", "STEP", 0, MAX_RANK,
		"the iteration whose critical path and timeline are shown (default: that of the median time)"),
	SC_OPT_IN(cluster, "cluster", "CONFIG",
		  "the config or the cluster whose GPUs and network the models take"),
	SC_OPT_TEXT(
		range, "iteration-range", "PATTERN",
		"the NVTX ranges or annotations that are iterations (default: ProfilerStep, else optimizer calls, else ranges named step or iteration, else what repeats)"),
	SC_OPT_JSON(json),
	SC_OPT_OUT(timeline, "timeline", "FILE.json",
		   "write the simulated timeline for Perfetto or chrome://tracing"),
	SC_OPT_REPORT(report),
	SC_OPT_JOBS(jobs),
	{0},
};

static int put_timeline(const void *ctx, FILE *out, struct sc_err *err)
{
	return sc_chrome_replay_write(ctx, out, err);
}

static int parse_change(const char *text, bool scales, struct sc_arena *arena,
			struct sc_replay_change *out, struct sc_err *err)
{
	const char *option = scales ? "--scale" : "--replace", *selector, *value;
	int rc = sc_cli_split(text, option, scales ? "SELECTOR=FACTOR" : "SELECTOR=mean|model",
			      arena, &selector, &value, err);

	if (rc == 0)
		rc = sc_selector_parse(selector, arena, &out->selector, err);
	if (rc)
		return rc;
	if (scales) {
		out->action = SC_REPLAY_SCALE;
		if (sc_parse_double(value, &out->factor) && out->factor >= 0 &&
		    out->factor <= MAX_FACTOR)
			return 0;
		return sc_err_set(err, SC_EUSAGE,
				  "--scale %.64s: expected a factor from 0 to %g, got \"%.32s\"",
				  selector, MAX_FACTOR, value);
	}
	out->action = strcmp(value, "mean") == 0 ? SC_REPLAY_MEAN : SC_REPLAY_MODEL;
	if (out->action == SC_REPLAY_MODEL && strcmp(value, "model") != 0)
		return sc_err_set(err, SC_EUSAGE,
				  "--replace %.64s: expected mean or model, got \"%.32s\"",
				  selector, value);
	return 0;
}

static int parse_set(const char *text, struct sc_arena *arena, int64_t *gpus, struct sc_err *err)
{
	const char *name, *value;
	int rc = sc_cli_split(text, "--set", "gpus=N", arena, &name, &value, err);

	if (rc)
		return rc;
	if (strcmp(name, "gpus") != 0)
		return sc_err_set(err, SC_EUSAGE, "--set %.64s: a replay can set gpus only", name);
	if (!sc_parse_int(value, gpus) || *gpus <= 0 || *gpus > MAX_GPUS)
		return sc_err_set(err, SC_EUSAGE,
				  "--set gpus: expected a number from 1 to %d, got \"%.32s\"",
				  MAX_GPUS, value);
	return 0;
}

/* A rank is compared with the mean of all others: without two of them, that is no mean. */
static int parse_without(const struct sc_arg_list *without, int64_t *rank, struct sc_err *err)
{
	*rank = -1;
	if (without->n == 0)
		return 0;
	if (without->n > 1)
		return sc_err_set(
			err, SC_EUSAGE,
			"--without-straggler: one rank, it was given %zu times; for several, "
			"give factors as --scale kernel,rank:%.16s=0.8",
			without->n, without->at[0]);
	if (!sc_parse_int(without->at[0], rank) || *rank < 0 || *rank > MAX_RANK)
		return sc_err_set(
			err, SC_EUSAGE,
			"--without-straggler: expected a rank from 0 to %d, got \"%.64s\"",
			MAX_RANK, without->at[0]);
	return 0;
}

/* Replaced first, then scaled: both hold. */
static int parse_opts(const struct replay_args *args, struct sc_arena *arena,
		      struct sc_replay_opts *opts, struct sc_err *err)
{
	const size_t n = args->scales.n + args->replaces.n;
	struct sc_replay_change *changes = sc_arena_calloc(arena, n + 1, sizeof(*changes));
	int rc = 0;

	sc_replay_opts_init(opts);
	opts->changes = changes;
	for (size_t i = 0; rc == 0 && i < args->replaces.n; i++)
		rc = parse_change(args->replaces.at[i], false, arena, &changes[opts->n_changes++],
				  err);
	for (size_t b = 1; rc == 0 && b < opts->n_changes; b++)
		for (size_t a = 0; a < b && rc == 0; a++)
			if (strcmp(changes[a].selector.text, changes[b].selector.text) == 0)
				rc = sc_err_set(err, SC_EUSAGE,
						"--replace %.64s: given twice; by what?",
						changes[b].selector.text);
	for (size_t i = 0; rc == 0 && i < args->scales.n; i++)
		rc = parse_change(args->scales.at[i], true, arena, &changes[opts->n_changes++],
				  err);
	for (size_t i = 0; rc == 0 && i < args->sets.n; i++)
		rc = parse_set(args->sets.at[i], arena, &opts->gpus, err);
	if (rc == 0 && args->sets.n > 1)
		rc = sc_err_set(err, SC_EUSAGE, "--set gpus: given %zu times; one number",
				args->sets.n);
	if (rc == 0)
		rc = parse_without(&args->without, &opts->without_rank, err);
	opts->gaps = (enum sc_replay_gaps)args->gaps;
	opts->overlap = (enum sc_replay_overlap)args->overlap;
	opts->missing = (enum sc_replay_missing)args->missing;
	opts->no_what_if = !args->what_if;
	opts->range = args->range;
	opts->show_step = args->step;
	opts->jobs = args->jobs > 0 ? (unsigned)args->jobs : sc_cpu_count();
	return rc;
}

/* The network of --cluster, if it is given: of a config, else of a cluster alone. What is neither
 * is a wrong config. */
static int load_network(const struct replay_args *args, struct sc_catalog *catalog,
			struct sc_arena *arena, struct sc_collective_time *out, struct sc_err *err)
{
	const struct sc_op_cluster alone = {.file = args->cluster};
	struct sc_request *request = sc_arena_calloc(arena, 1, sizeof(*request));
	struct sc_fabric *fabric = sc_arena_calloc(arena, 1, sizeof(*fabric));
	struct sc_err own = {.code = SC_OK};
	struct sc_config config;
	int rc;

	if (!args->cluster)
		return 0;
	rc = sc_cli_config(args->cluster, &(struct sc_arg_list){.n = 0}, arena, &config, &own);
	if (rc == 0)
		rc = sc_config_resolve(&config, catalog, args->cluster, request, err);
	else if ((rc = sc_op_cluster_load(&alone, arena, request, NULL)))
		*err = own;
	if (rc == 0)
		rc = sc_fabric_from_request(request, fabric, err);
	if (rc == 0)
		rc = sc_collective_files_load(request, arena, fabric, err);
	if (rc == 0)
		*out = sc_collective_time_of(fabric);
	return rc;
}

static int replay(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct replay_args *args = into;
	struct sc_arena *arena = call->arena;
	struct sc_replay_result *result = sc_arena_calloc(arena, 1, sizeof(*result));
	struct sc_replay_opts opts;
	int rc = parse_opts(args, arena, &opts, err);

	if (rc == 0)
		rc = load_network(args, call->catalog, arena, &opts.network, err);
	if (rc == 0)
		rc = sc_replay(args->common.words.at[0], &opts, result, err);
	if (rc)
		return rc;
	sc_cli_warn_loss(&args->common, &result->loss);
	sc_cli_warn_all(&args->common, &result->warnings);
	if (args->timeline)
		rc = sc_cli_write(args->timeline, put_timeline, result, err);
	if (rc == 0)
		rc = sc_cli_give(call, &sc_replay_forms, result, err);
	sc_replay_result_release(result);
	return rc;
}

const struct sc_command sc_command_replay = {
	.name = "replay",
	.n_words = 1,
	.words_asked = "one DIR of traces",
	.summary = "simulate recorded iterations again, as they were or with changes",
	.synopsis =
		"DIR [--scale SELECTOR=FACTOR]... [--replace SELECTOR=mean|model] "
		"[--set gpus=N] [--overlap none|free] "
		"[--missing symmetric] [--without-straggler RANK] [--json] [--timeline FILE.json] "
		"[--report FILE.html]",
	.details =
		"Replays the traces of DIR (see stepcast import): it simulates every iteration beside what was measured, "
		"predicts each from the others, and says what a step loses most by, where each rank's time goes, which ranks "
		"hold up the rest, what is on the critical path, and what changes would bring.\n\n"
		"A SELECTOR is terms joined by commas, all of which must hold: kernel, collective, p2p, copy, host or all; "
		"kernels of a family, as kernel:gemm; the same with a part of the name, as kernel:ampere; op:TEXT for a "
		"name of any kind; range:TEXT for the host's work in a range or operator, with a kind for what was launched "
		"there, as kernel,range:forward; rank:N, dp:N, stage:N, step:N. Launch gaps are host:launch.\n\n"
		"A replay keeps the recorded durations of computation, transfers (without the waiting in them) and launch "
		"gaps. It compares changes with a replay of typical gaps, since recorded gaps also contain waits that no "
		"trace explains.\n\n"
		"In traces of GPU streams, --overlap none makes collectives wait for all device work launched before them, "
		"and all work launched after them wait for their end; free drops the waits for collectives that were only "
		"inferred from times. --missing symmetric takes ranks that were not recorded to be as early as the "
		"recorded ones.\n\n"
		"  stepcast replay traces/job\n"
		"  stepcast replay traces/job --scale kernel:gemm,rank:0=0.5\n"
		"  stepcast replay run --overlap none\n"
		"  stepcast replay run --missing symmetric\n"
		"  stepcast replay traces/straggler --without-straggler 5 --json",
	.words = "file",
	.options = OPTIONS,
	.args_bytes = sizeof(struct replay_args),
	.defaults = &(const struct replay_args){.step = -1, .what_if = 1},
	.run = replay,
};
