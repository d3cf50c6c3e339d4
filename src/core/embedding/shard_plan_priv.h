/* Readers of plan formats and what they share. Each fills `out`, which begins empty and is released by the
 * caller on failure; sc_shard_plan_check comes after. */
#ifndef SC_CORE_SHARD_PLAN_PRIV_H
#define SC_CORE_SHARD_PLAN_PRIV_H

#include "base/intern.h"
#include "core/embedding/shard_plan.h"

struct sc_plan_text {
	const char *at;
	size_t n;
	const char *file;
};
struct sc_plan_reader {
	const struct sc_table_list *tables; /* sizes of formats without; may be empty */
	struct sc_arena *arena;
	struct sc_intern names; /* of `tables`, id = index; released by sc_shard_plan_parse */
};
/* Index of a table in reader->tables, or -1. */
int64_t sc_plan_table_find(const struct sc_plan_reader *reader, const char *name);
int sc_shard_plan_read_json(const struct sc_plan_reader *reader, const struct sc_plan_text *text,
			    struct sc_shard_plan *out, struct sc_err *err);
int sc_shard_plan_read_torchrec(const struct sc_plan_reader *reader,
				const struct sc_plan_text *text, struct sc_shard_plan *out,
				struct sc_err *err);
int sc_shard_plan_read_hugectr(const struct sc_plan_reader *reader, const struct sc_plan_text *text,
			       struct sc_shard_plan *out, struct sc_err *err);

/* Tables are named by their parameter; by module and parameter where the model has that name, or where two
 * modules have a parameter of the same name. */
void sc_plan_settle_names(const struct sc_plan_reader *reader, struct sc_shard_plan *plan);

/* Literals of Python as logs print them: [[0, 1], ['a', 2]], ("mp", [3]). A list is its elements'
 * count, then the elements. */
enum sc_literal_kind { SC_LIT_LIST, SC_LIT_INT, SC_LIT_TEXT };
struct sc_literal {
	enum sc_literal_kind kind;
	int64_t number;   /* INT; LIST: elements */
	const char *text; /* TEXT */
	uint32_t n_below; /* entries after it that are inside it */
	unsigned line, column;
};
typedef SC_VEC(struct sc_literal) sc_literals;
/* Reads the literal at text->at[*pos], which is [ or (; *pos moves behind it. Appended to `out`. */
int sc_literal_read(const struct sc_plan_text *text, size_t *pos, struct sc_arena *arena,
		    sc_literals *out, struct sc_err *err);
/* Line and column of a byte. */
void sc_plan_where(const struct sc_plan_text *text, size_t pos, unsigned *line, unsigned *column);

#endif
