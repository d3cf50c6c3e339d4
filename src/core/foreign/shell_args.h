/* The options of a training command as a log, ps or `stepcast config import --shim` print it: --name value, --name=value,
 * --flag, quotes, continued lines. Not a shell: what a script would fill in stays as it is written, with its '$'. */
#ifndef SC_CORE_SHELL_ARGS_H
#define SC_CORE_SHELL_ARGS_H

#include "base/yaml.h"

#define SC_SHELL_PROGRAM "program" /* the key of the *.py that is run, without its folder */
enum { SC_SHELL_MAX_BYTES = 1 << 20, SC_SHELL_MAX_WORDS = 1 << 14 };
/* A mapping of the one command, not echo, that has the option `wanted` ("--num-layers"), with names as keys, dashes and all;
 * a flag is "true", several values a list; of an option given twice the last counts, as in argparse. Each has its
 * place in the text. Limits on the text and its words give SC_ELIMIT. */
int sc_shell_args_parse(const struct sc_source *text, const char *wanted, struct sc_arena *arena,
			struct sc_yaml **out, struct sc_err *err);

#endif
