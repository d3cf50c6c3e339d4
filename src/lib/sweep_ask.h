/* What `stepcast sweep` may be asked: its options, for the command and the library. */
#ifndef SC_LIB_SWEEP_ASK_H
#define SC_LIB_SWEEP_ASK_H

#include "base/csv.h"
#include "base/ranks.h"
#include "base/strbuf.h"
#include "lib/options.h"

struct sc_sweep_args {
	struct sc_common common;
	struct sc_arg_list sets, grid;
	const char *table, *report;
	int64_t jobs;
	int json;
};
extern const struct sc_cli_option sc_sweep_options[];

/* The table or the grid that they ask for, with no column that the result has too. */
int sc_sweep_args_cases(const struct sc_sweep_args *args, struct sc_arena *arena,
			struct sc_csv *out, struct sc_err *err);

#endif
