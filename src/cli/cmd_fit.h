/* What the parts of stepcast fit share: iterations have options and a result of their own. */
#ifndef SC_CLI_CMD_FIT_H
#define SC_CLI_CMD_FIT_H

#include "cli/start.h"

/* Options of --kind iteration; in the command's struct. */
struct sc_fit_iteration_args {
	struct sc_arg_list coefs, sets;
	int start_from_profile;
	int64_t jobs;
};
/* What --kind iteration reads of the command line. */
struct sc_fit_iteration_line {
	const struct sc_common *common;
	const struct sc_fit_iteration_args *own;
	const struct sc_arg_list *where;
	const char *table, *leave_out; /* leave_out: columns with commas between, or NULL */
	bool json;
};
int sc_cli_fit_iteration(const struct sc_fit_iteration_line *line, struct sc_arena *arena,
			 struct sc_err *err);
/* The id of a profile written to the file: its stem, or `old` where that can be no id. */
const char *sc_cli_profile_id(const char *path, const char *old, struct sc_arena *arena);

#endif
