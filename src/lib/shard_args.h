/* Constraints of `stepcast shard` as people write them. */
#ifndef SC_LIB_SHARD_ARGS_H
#define SC_LIB_SHARD_ARGS_H

#include "study/shard/shard.h"

typedef SC_VEC(struct sc_shard_constraint) sc_constraints;
/* Where a text was given: an option, or a line of a file. */
struct sc_constraint_at {
	const char *file; /* NULL: the option --constraint */
	unsigned line;
};
/* "pin TABLE rank=3 type=table_wise tier=fused", "forbid TABLE type=row_wise", "together A B",
 * "apart A B". A TABLE that ends in * is all that begin so (pin, forbid). Appends. */
int sc_constraint_parse(const char *text, const struct sc_constraint_at *at,
			const struct sc_shard_problem *problem, sc_constraints *out,
			struct sc_err *err);
/* A file of them, one a line; empty lines and those that begin with # are passed over. */
int sc_constraints_load(const char *path, const struct sc_shard_problem *problem,
			sc_constraints *out, struct sc_err *err);

#endif
