/* What search and scale read alike. */
#ifndef SC_CLI_SEARCH_ARGS_H
#define SC_CLI_SEARCH_ARGS_H

#include "core/config/config.h"
#include "lib/options.h"

/* Allocators, libraries and longer samples need room: the default of --memory-margin. */
#define SC_CLI_MEMORY_MARGIN 0.05

/* "64:2048"; NULL is an error too. */
int sc_cli_parse_gpus(const char *text, int64_t *from, int64_t *to, struct sc_err *err);
struct sc_arg_list sc_cli_join(const struct sc_arg_list *a, const struct sc_arg_list *b,
			       struct sc_arena *arena);
/* Gives up what a split that is searched decides. */
void sc_cli_open_split(struct sc_config *config);

#endif
