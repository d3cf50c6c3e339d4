/* What `stepcast shard` may be asked: its options, for the command and the library. Apart from the run, since the
 * option table has names that sharding has too. */
#ifndef SC_LIB_SHARD_ASK_H
#define SC_LIB_SHARD_ASK_H

#include "lib/options.h"
#include "lib/shard_run.h"

struct sc_shard_args {
	struct sc_common common;
	struct sc_arg_list sets, plans, baselines, constraints;
	struct sc_shard_ask ask; /* whole after sc_shard_args_ask */
	int objective, json, pareto, device_constants;
	const char *report;
};
extern const struct sc_cli_option sc_shard_options[];

extern const struct sc_shard_args sc_shard_defaults; /* before they are parsed */
void sc_shard_args_ask(struct sc_shard_args *args);  /* after it */

#endif
