/* stepcast: predicts the time of one training step on a GPU cluster. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cli/commands.h"
#include "cli/start.h"

/* A result that did not reach its reader is no result: a full disk, a closed pipe. */
static int check_stdout(int exit_code)
{
	struct sc_err err = {.code = SC_OK};
	int failed = ferror(stdout);

	errno = 0;
	if (fclose(stdout) == 0 && !failed)
		return exit_code;
	if (exit_code == SC_EXIT_DATA || exit_code == SC_EXIT_USAGE)
		return exit_code; /* an error was printed */
	sc_err_set(&err, SC_EIO, "cannot write to stdout: %s",
		   errno ? strerror(errno) : "an earlier write failed");
	return sc_cli_fail(&err);
}

static void end_without_memory(void)
{
	fputs("stepcast: error: out of memory\n", stderr);
	exit(SC_EXIT_DATA);
}

int main(int argc, char **argv)
{
	sc_on_out_of_memory(end_without_memory);
	return check_stdout(sc_cli_run(argc, argv));
}
