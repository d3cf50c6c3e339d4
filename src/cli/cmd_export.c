/* stepcast export: traces for other tools. */

#include "cli/commands.h"
#include "cli/start.h"
#include "trace/export/export.h"
#include "trace/format/trace_file.h"
#include "trace/format/trace_loss.h"
#include "trace/graph/build_trace.h"

static const char *const FORMATS[] = {
	[SC_EXPORT_CHROME] = "chrome",           [SC_EXPORT_CSV] = "csv",   [SC_EXPORT_OPS] = "ops",
	[SC_EXPORT_COLLECTIVES] = "collectives", [SC_EXPORT_HOST] = "host", NULL};

enum export_clock { CLOCK_MERGED, CLOCK_OWN };
static const char *const CLOCKS[] = {"merged", "own", NULL};

struct export_args {
	struct sc_common common;
	int format, clock;
	int64_t rank; /* -1: all */
	const char *device;
};

#define SC_ARGS struct export_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_CHOICE(
		format, "format", "chrome|csv|ops|collectives|host", FORMATS,
		"chrome (default): JSON as PyTorch's profiler writes it, for Perfetto and HTA; csv: events; ops, collectives, host: tables of what was measured"),
	SC_OPT_INT(rank, "rank", "R", 0, INT32_MAX, "only this rank (default: all in one file)"),
	SC_OPT_CHOICE(
		clock, "clock", "merged|own", CLOCKS,
		"chrome and csv of several ranks: times on one clock, that of the first (default), or each as its host's clock had it"),
	SC_OPT_TEXT(
		device, "device", "NAME",
		"tables: the GPU in the column device, as fit is to find it: a100-sxm-80gb (default: what the trace calls it)"),
	{0},
};

struct result {
	enum sc_export_format format;
	struct sc_export_run run;
};

static int put_result(const void *ctx, FILE *out, struct sc_err *err)
{
	const struct result *result = ctx;

	return sc_export_run(result->format, &result->run, out, err);
}

/* Keeps the files of the rank that is asked for. */
static int choose_rank(int64_t rank, const char *const *files, size_t n, const char **chosen,
		       size_t *n_chosen, struct sc_err *err)
{
	const struct sc_trace_load_opts opts = {.skip_events = true};

	*n_chosen = 0;
	for (size_t i = 0; i < n; i++) {
		struct sc_trace tables;
		int rc = sc_trace_load(files[i], &opts, &tables, err);

		if (rc)
			return rc;
		if (rank < 0 || tables.identity.rank == rank)
			chosen[(*n_chosen)++] = files[i];
		sc_trace_release(&tables);
	}
	if (*n_chosen == 0)
		return sc_err_set(err, SC_EVALUE, "no trace of rank %lld among %zu files",
				  (long long)rank, n);
	return 0;
}

static int export_traces(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct export_args *args = into;
	struct sc_arena *arena = call->arena;
	struct result result = {.format = (enum sc_export_format)args->format,
				.run.device = args->device};
	const char *const *files;
	struct sc_trace_loss loss;
	struct sc_trace_run clocks;
	const char **chosen;
	bool merges;
	size_t n;
	int rc = sc_trace_list(args->common.words.at[0], arena, &files, &n, err);

	if (rc)
		return rc;
	chosen = sc_arena_calloc(arena, n, sizeof(*chosen));
	rc = choose_rank(args->rank, files, n, chosen, &result.run.n_files, err);
	result.run.files = chosen;
	if (rc == 0)
		rc = sc_trace_loss_of_run(chosen, result.run.n_files, &loss, err);
	merges =
		args->format <= SC_EXPORT_CSV && args->clock != CLOCK_OWN && result.run.n_files > 1;
	if (rc == 0 && merges)
		rc = sc_trace_run_clocks(chosen, result.run.n_files, &clocks, err);
	if (rc)
		return rc;
	if (merges) {
		result.run.merge = &clocks.merge;
		result.run.base_utc_ns = clocks.base_ns;
	}
	rc = sc_cli_write(args->common.output, put_result, &result, err);
	if (merges)
		sc_trace_run_release(&clocks);
	if (rc == 0)
		sc_cli_warn_loss(&args->common, &loss);
	return rc;
}

const struct sc_command sc_command_export = {
	.name = "export",
	.n_words = 1,
	.words_asked = "one DIR or FILE",
	.summary = "write traces as Chrome/Perfetto JSON or CSV, or tables of measured times",
	.synopsis = "(DIR|FILE) [--format FORMAT] [--rank R] [--clock merged|own] [--output FILE]",
	.details =
		"chrome has the names, categories and arguments of PyTorch's profiler; with one rank HTA reads it as it "
		"is. With several ranks each gets processes of its own; \"clock\" in the file says what set its clock and "
		"how far off it may be. csv has one event a row, with times in UTC nanoseconds.\n\n"
		"ops has matrix products with their shapes (single precision on tensor cores is tf32; a product in "
		"backward is one of two gradients, and a row of its own); collectives has their sizes and times without "
		"waiting (quality good; bound, where peers were not recorded: waiting for them may be in it); host has the "
		"time of each op's launches; all have the columns that fit reads. For kernels beside collectives see "
		"stepcast c3 --from DIR --json.\n\n"
		"  stepcast export run --rank 0 --output rank0.json",
	.words = "file",
	.options = OPTIONS,
	.args_bytes = sizeof(struct export_args),
	.defaults = &(const struct export_args){.rank = -1},
	.run = export_traces,
};
