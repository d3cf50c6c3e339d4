/* See the header. */
#include "lib/sweep_ask.h"

#include "report/sweep_report.h"
#include "study/sweep/sweep.h"

#define SC_ARGS struct sc_sweep_args
const struct sc_cli_option sc_sweep_options[] = {
	SC_OPT_IN(
		table, "table", "CASES.csv",
		"one case a row; header cells with a dot are config keys, others are carried through"),
	SC_OPT_LIST(grid, "grid", "PATH=A,B,...",
		    "one axis of a grid; given again, all combinations, the last axis fastest"),
	SC_OPT_FLAG(json, "json", "write JSON to stdout; the CSV then only to -o"),
	SC_OPT_REPORT(report),
	SC_OPT_BASE_SET(sets),
	SC_OPT_JOBS(jobs),
	{0},
};

int sc_sweep_args_cases(const struct sc_sweep_args *args, struct sc_arena *arena,
			struct sc_csv *out, struct sc_err *err)
{
	int rc;

	if (!args->table == !args->grid.n)
		return sc_err_set(err, SC_EUSAGE, "sweep needs either --table or --grid");
	if (args->table)
		rc = sc_csv_load(args->table, arena, out, err);
	else
		rc = sc_grid_build(args->grid.at, args->grid.n, arena, out, err);
	return rc ? rc : sc_sweep_csv_check(out, err);
}
