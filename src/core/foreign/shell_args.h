/* The options of a training command, as a shell script or a bare command line has them: --name value, --name=value,
 * --flag. Variables, arrays (NAME=( ... ), "${NAME[@]}"), ${NAME:-default} and $((products)) are filled in from
 * plain assignments above. What is assigned under a condition, or by a program, is not known: it stays as it is
 * written, with its '$'. */
#ifndef SC_CORE_SHELL_ARGS_H
#define SC_CORE_SHELL_ARGS_H

#include "base/yaml.h"

#define SC_SHELL_PROGRAM "program" /* the key of the *.py that is run, without its folder */
enum { SC_SHELL_MAX_BYTES = 1 << 20, SC_SHELL_MAX_WORDS = 1 << 14 };
/* A mapping of the one command, not echo, that has the option `wanted` ("--num-layers"), with names as keys, dashes and all;
 * a flag is "true", several values a list; of an option given twice the last counts, as in argparse. Each has its
 * place in the text. Limits on the text, its words and what variables come to give SC_ELIMIT. */
int sc_shell_args_parse(const struct sc_source *text, const char *wanted, struct sc_arena *arena,
			struct sc_yaml **out, struct sc_err *err);

#endif
