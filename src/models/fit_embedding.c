/* A row of a measured table as an embedding kernel: `tables` alike tables in one kernel. Columns beside
 * the dims: pooling; zipf (of rows, else uniform); optimizer; sorted (false: the time holds no sort); warm;
 * unique_rows and longest_run (of each table), where the generator of the indices is known better
 * than a law says it. */
#include <math.h>
#include <string.h>

#include "base/fnv.h"
#include "models/embedding_kernel.h"
#include "models/fit_priv.h"

#define MAX_POOLING 1e6
#define MAX_ROWS 1e15
#define MAX_ZIPF 10.0

static const struct sc_name YES_NO[] = {{"false", 0}, {"true", 1}, {0}};

/* Cells that have a meaning when they are empty. */
static int read_numbers(const struct sc_fit_table *t, struct sc_table *table,
			struct sc_embedding_use *use)
{
	const struct {
		struct sc_fit_cell cell;
		double *to;
	} cells[] = {
		{{"pooling", 1e-3, MAX_POOLING, 1}, &table->pooling},
		{{"zipf", 0, MAX_ZIPF, 0}, &table->reuse.zipf},
		{{"unique_rows", 1, MAX_ROWS, 0}, &use->unique_rows},
		{{"longest_run", 1, MAX_ROWS, 0}, &use->longest_run},
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]) && rc == 0; i++)
		rc = sc_fit_cell_read(t, &cells[i].cell, cells[i].to);
	return rc;
}

int sc_fit_embedding_read(const struct sc_fit_table *t, bool backward, struct sc_fit_row *out)
{
	struct sc_embedding_shape *s = &out->op[0].u.embedding;
	struct sc_table table = {.rows = (int64_t)out->dim[1],
				 .dim = (int64_t)out->dim[2],
				 .count = (int64_t)out->dim[0],
				 .features = 1,
				 .storage = (int)out->op[0].dtype + 1};
	struct sc_embedding_use use = {.table = &table, .samples = out->dim[3]};
	int optimizer, sorted, warm, rc = read_numbers(t, &table, &use);

	if (rc == 0)
		rc = sc_fit_name_read(t, "optimizer", sc_row_optimizer_names, &optimizer);
	if (rc == 0)
		rc = sc_fit_name_read(t, "sorted", YES_NO, &sorted);
	if (rc == 0)
		rc = sc_fit_name_read(t, "warm", YES_NO, &warm);
	if (rc)
		return rc;
	table.reuse.kind = table.reuse.zipf > 0 ? SC_REUSE_ZIPF : SC_REUSE_UNIFORM;
	use.optimizer = optimizer < 0 ? SC_ROW_SGD : (enum sc_row_optimizer)optimizer;
	use.warm = warm == 1;
	*s = sc_embedding_shape_of(t->device, &use, 1,
				   backward ? SC_EMBEDDING_BACKWARD : SC_EMBEDDING_FORWARD);
	if (sorted == 0)
		s->sort_keys = 0;
	out->n_ops = 1;
	out->shape = sc_fnv(out->shape, &table.pooling, sizeof(table.pooling));
	return 0;
}

void sc_fit_embedding_mark(const struct sc_fit_problem *problem, struct sc_fit_params *params)
{
	bool reads = false, updates = false, has_runs = false, sorts = false;
	const struct {
		const char *name;
		const bool *seen;
	} needs[] = {
		{"hbm_eff", &reads},       {"update_eff", &updates}, {"row_cycles", &has_runs},
		{"run_cycles", &has_runs}, {"run_max", &has_runs},   {"sort_bytes", &sorts},
		{"sort_us", &sorts},
	};

	for (size_t i = 0; i < problem->n; i++) {
		const struct sc_embedding_shape *s = &problem->rows[i]->op[0].u.embedding;

		reads |= s->pass == SC_EMBEDDING_FORWARD || s->sort_keys > 0;
		updates |= s->pass == SC_EMBEDDING_BACKWARD;
		sorts |= s->sort_keys > 0;
		has_runs |= s->longest_run > 0;
	}
	for (size_t i = 0; i < params->n; i++)
		for (size_t k = 0; k < sizeof(needs) / sizeof(needs[0]); k++)
			if (strcmp(params->at[i].name, needs[k].name) == 0 && !*needs[k].seen)
				params->at[i].status = SC_FIT_UNDETERMINED;
}
