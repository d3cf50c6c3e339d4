/* Pairs that the command line of `stepcast c3` names. */
#ifndef SC_CLI_C3_ARGS_H
#define SC_CLI_C3_ARGS_H

#include "lib/options.h"
#include "study/c3/c3.h"

/* Every product with every collective. */
struct sc_c3_words {
	struct sc_arg_list gemms;       /* "8192,8192,8192,bf16": m, n, k, dtype (default bf16) */
	struct sc_arg_list collectives; /* "all_gather:64M" */
	int kind;                       /* enum sc_c3_kind */
	const char *cluster, *device;   /* a file; an id: either may be NULL */
	int64_t gpus;                   /* of the collective; 0: those of the GPU's usual node */
};
int sc_c3_words_pairs(const struct sc_c3_words *words, struct sc_arena *arena,
		      struct sc_c3_pairs *out, struct sc_err *err);
/* "1M:1G": sizes in bytes, K, M, G of 1024. */
int sc_c3_sizes_parse(const char *text, double *from, double *to, struct sc_err *err);

#endif
