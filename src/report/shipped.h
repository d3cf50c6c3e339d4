/* What is shipped, one line an entry: devices, models, clusters, software, examples, with their main figures and source. */
#ifndef SC_REPORT_SHIPPED_H
#define SC_REPORT_SHIPPED_H

#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"

enum sc_shipped {
	SC_SHIPPED_DEVICES,
	SC_SHIPPED_MODELS,
	SC_SHIPPED_CLUSTERS,
	SC_SHIPPED_SOFTWARE,
	SC_SHIPPED_EXAMPLES
};

struct sc_shipped_list {
	enum sc_shipped kind;
	const char *word; /* only ids, names and notes that have it, a case apart; NULL: all */
	struct sc_arena *arena;
};
/* A file that cannot be read is an error that names it; so is a word that nothing has. */
int sc_shipped_text(const struct sc_shipped_list *list, FILE *out, struct sc_err *err);
int sc_shipped_json(const struct sc_shipped_list *list, FILE *out, struct sc_err *err);

#endif
