/* stepcast c3: what overlapping a GEMM and a collective gains under each policy. */
#include <string.h>

#include "cli/commands.h"
#include "cli/start.h"
#include "report/c3_report.h"

struct c3_args {
	struct sc_common common;
	struct sc_arg_list policies, by;
	const char *table, *measured, *from, *device;
	int json;
};

#define AT(member) offsetof(struct c3_args, member)
static const struct sc_cli_option OPTIONS[] = {
	{.name = "table",
	 .kind = SC_ARG_TEXT,
	 .file = SC_FILE_IN,
	 .arg = "CASES.csv",
	 .offset = AT(table),
	 .help = "one pair a row: device, gpus, dtype, kind, m, n, k, collective, bytes, policy"},
	{.name = "measured",
	 .kind = SC_ARG_TEXT,
	 .file = SC_FILE_IN,
	 .arg = "TABLE.csv",
	 .offset = AT(measured),
	 .help = "the same with measured compute_us, comm_us, serial_us, overlapped_us: predictions beside "
		 "them"},
	{.name = "from",
	 .kind = SC_ARG_TEXT,
	 .file = SC_FILE_IN,
	 .arg = "DIR",
	 .offset = AT(from),
	 .help = "a recording: kernels that ran beside communication, and the same alone"},
	{.name = "device",
	 .kind = SC_ARG_TEXT,
	 .arg = "ID",
	 .offset = AT(device),
	 .help = "with --from: predict for this GPU (default: as the trace names it)"},
	{.name = "policy",
	 .kind = SC_ARG_LIST,
	 .arg = "NAME",
	 .offset = AT(policies),
	 .help = "predict each pair under this policy in place of its own; may be given again"},
	{.name = "by",
	 .kind = SC_ARG_LIST,
	 .arg = "COLUMN",
	 .offset = AT(by),
	 .help = "also score each value of the column; may be given again"},
	{.name = "json", .kind = SC_ARG_FLAG, .offset = AT(json), .help = "write JSON to stdout"},
	{0},
};

/* Every row once for each of the policies, in place of its own. What was measured stays with its own policy. */
static int with_policies(const struct c3_args *args, struct sc_arena *arena, struct sc_csv *table,
			 struct sc_err *err)
{
	int at = sc_csv_column(table, "policy"), measured = sc_csv_column(table, "overlapped_us");
	size_t n = args->policies.n, row = 0;
	struct sc_csv out = *table;
	struct sc_c3_choice choice;
	const char **cells;

	for (size_t i = 0; i < n; i++) {
		int rc = sc_c3_choice_parse(args->policies.at[i], "--policy: ", &choice, err);

		if (rc)
			return rc;
	}
	if (n == 0 || at < 0)
		return 0;
	out.n_rows = table->n_rows * n;
	cells = sc_arena_calloc(arena, out.n_rows * out.n_cols + 1, sizeof(*cells));
	out.cell = cells;
	out.line = sc_arena_calloc(arena, out.n_rows + 1, sizeof(*out.line));
	for (size_t r = 0; r < table->n_rows; r++)
		for (size_t i = 0; i < n; i++, row++, cells += out.n_cols) {
			memcpy(cells, &table->cell[r * out.n_cols], out.n_cols * sizeof(*cells));
			out.line[row] = table->line[r];
			if (measured >= 0 && strcmp(cells[at], args->policies.at[i]) != 0)
				cells[measured] = "";
			cells[at] = args->policies.at[i];
		}
	*table = out;
	return 0;
}

static int put_json(const void *ctx, FILE *out, struct sc_err *err)
{
	return sc_json_c3(ctx, out, err);
}

static int write_result(const struct c3_args *args, const struct sc_c3_table *table,
			struct sc_err *err)
{
	struct sc_strbuf text = {0};
	int rc;

	if (args->json)
		return sc_cli_write(args->common.output, put_json, table, err);
	sc_text_c3(table, &text);
	rc = sc_cli_write_text(args->common.output, &text, err);
	sc_strbuf_release(&text);
	return rc;
}

/* A table in which every row is wrong is bad data, not a result. */
static int check_any_predicted(const struct sc_c3_table *t, struct sc_err *err)
{
	for (size_t i = 0; i < t->n_cases; i++)
		if (!t->cases[i].skipped)
			return 0;
	if (t->n_cases == 0)
		return sc_err_at(err, SC_EVALUE, t->csv->file, 1, 0, "the table has no rows");
	return sc_err_at(err, SC_EVALUE, t->csv->file, t->csv->line[0], 0,
			 "no pair could be predicted; first: %s", t->cases[0].skipped);
}

static int put_recording(const void *ctx, FILE *out, struct sc_err *err)
{
	return sc_json_c3_recording(ctx, out, err);
}

static int write_recording(const struct c3_args *args, const struct sc_c3_recording *recording,
			   struct sc_err *err)
{
	struct sc_strbuf text = {0};
	int rc;

	if (args->json)
		return sc_cli_write(args->common.output, put_recording, recording, err);
	sc_text_c3_recording(recording, &text);
	rc = sc_cli_write_text(args->common.output, &text, err);
	sc_strbuf_release(&text);
	return rc;
}

static int c3_from(const struct c3_args *args, struct sc_err *err)
{
	struct sc_c3_recording recording;
	int rc;

	if (args->table || args->measured || args->policies.n || args->by.n)
		return sc_err_set(
			err, SC_EUSAGE,
			"--from is of a recording: no --table, --measured, --policy or --by");
	rc = sc_c3_recording_load(args->from, args->device, &recording, err);
	if (rc)
		return rc;
	rc = write_recording(args, &recording, err);
	if (rc == 0) {
		sc_cli_warn_loss(&args->common, &recording.loss);
		sc_cli_warn_all(&args->common, &recording.warnings);
	}
	sc_c3_recording_release(&recording);
	return rc;
}

static int c3(const struct c3_args *args, struct sc_arena *arena, struct sc_err *err)
{
	const char *path = args->measured ? args->measured : args->table;
	struct sc_c3_table_opts opts = {.by = args->by.at, .n_by = args->by.n};
	struct sc_c3_table table;
	struct sc_csv csv;
	int rc;

	if (args->from)
		return c3_from(args, err);
	if (!path || (args->measured && args->table))
		return sc_err_set(err, SC_EUSAGE,
				  "c3 needs --table CASES.csv, --measured TABLE.csv or --from DIR");
	if (args->device)
		return sc_err_set(err, SC_EUSAGE, "--device goes with --from; tables name theirs");
	rc = sc_csv_load(path, arena, &csv, err);
	if (rc == 0)
		rc = with_policies(args, arena, &csv, err);
	if (rc == 0)
		rc = sc_c3_table_predict(&csv, &opts, arena, &table, err);
	if (rc == 0)
		rc = check_any_predicted(&table, err);
	return rc ? rc : write_result(args, &table, err);
}

static int run_c3(const struct sc_line *line)
{
	struct c3_args args = {.json = 0};
	struct sc_err err = {.code = SC_OK};
	struct sc_arena arena;
	int exit_code = SC_EXIT_DONE;

	sc_arena_init(&arena, SC_CLI_ARENA_BYTES);
	if (sc_cli_begin(line, &args, &arena, &exit_code) && c3(&args, &arena, &err))
		exit_code = sc_cli_fail(&err);
	sc_arena_release(&arena);
	return exit_code;
}

const struct sc_command sc_command_c3 = {
	.name = "c3",
	.words_asked = "no CONFIG",
	.summary = "what overlapping computation and communication gains",
	.synopsis =
		"(--table CASES.csv | --measured TABLE.csv | --from DIR [--device ID]) [--policy NAME]... "
		"[--by COLUMN]... [--json]",
	.details =
		"Predicts one GEMM and one collective on the GPUs of one node, together, under a policy: "
		"serial, plain (two streams), comm_first (the collective gets its SMs first), reserve[:N] "
		"(SMs kept for it), comm_first+reserve, copy_engine, copy_engine+cache_relief, chunked[:N] "
		"(the GEMM in pieces, as asynchronous tensor parallelism) and tile_fused. Without N, the "
		"best split is searched, and there are as many pieces as ranks.\n\n"
		"kind is independent, all_gather_gemm or gemm_reduce_scatter. m is as the GPU multiplies "
		"it, gathered rows included; bytes are those of nccl-tests. An empty compute_us or comm_us "
		"is predicted. The ideal speedup is the sum of the isolated times over the longer one; the "
		"share of it that is realised is (speedup - 1) / (ideal - 1).\n\n"
		"--from finds in a recording the kernels that ran beside those of collectives on one GPU, "
		"and the same kernels (name, grid, block, registers, shared memory, the op's shapes if recorded; of collectives kind, "
		"size and group) alone in the same trace. It says what each side lost, and what the model "
		"says from the time alone; a stretch is a maximal interval in which both run, its ideal "
		"speedup that of the times alone of what ran in it. Where the trace has no "
		"shapes, kernels of one launch may have different ones, which their slowdown then has in it.",
	.words = "",
	.options = OPTIONS,
	.run = run_c3,
};
