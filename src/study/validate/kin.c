/* Sorts the runs of a table by kin, and compares each run's time for a micro-batch with the fastest
 * of its kin. A slot is a micro-batch, or its share of a pipeline's ramp. */
#include "study/validate/kin.h"

#include <string.h>

#include "base/search.h"
#include "core/config/config_table.h"

struct run {
	const char *kin; /* equal texts are kin */
	struct sc_case *c;
	double micro_batches,
		slot_ms; /* a slot: a micro-batch, or its share of a pipeline's ramp */
};

SC_COMPARE(by_kin, struct run,
	   4 * SC_ORDER(strcmp(a->kin, b->kin), 0) + 2 * SC_ORDER(a->slot_ms, b->slot_ms) +
		   SC_ORDER(a->c, b->c));

/* A column tells kin apart if it is a key of another kind; notes do not. */
static bool is_of_kin(const char *name)
{
	static const char *const sizes[] = {"parallel.dp", "training.global_batch",
					    "parallel.sharding", "parallel.shard_ranks"};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (strcmp(name, sizes[i]) == 0)
			return false;
	return strchr(name, '.') || strcmp(name, "model") == 0 || strcmp(name, "cluster") == 0 ||
	       strcmp(name, "suite") == 0;
}

static double at_least_one(int64_t given)
{
	return given > 1 ? (double)given : 1;
}

/* Counts a run's micro-batches and slots; false: they are not told. */
static bool count_slots(const struct sc_config *cfg, struct run *out)
{
	const struct sc_parallel *par = &cfg->parallel;
	const double stages = at_least_one(par->pp);
	const double ranks = at_least_one(par->tp) * stages * at_least_one(par->cp);
	const double dp = par->dp > 0 ? (double)par->dp : (double)cfg->gpus / ranks;

	if (cfg->training.micro_batch < 1 || cfg->training.global_batch < 1 || dp < 1)
		return false;
	out->micro_batches =
		(double)cfg->training.global_batch / dp / (double)cfg->training.micro_batch;
	out->slot_ms = out->c->measured_ms /
		       (out->micro_batches + (stages - 1) / at_least_one(par->virtual_stages));
	return out->micro_batches >= 1;
}

int sc_kin_find(const struct sc_config *base, struct sc_arena *arena, struct sc_validation *v,
		struct sc_err *err)
{
	struct sc_config_table table = {.csv = v->table, .base = base};
	struct run *runs = sc_arena_calloc(arena, v->n_cases + 1, sizeof(*runs));
	struct sc_strbuf text = {0};
	int rc = sc_config_table_bind(&table, arena, err);
	size_t n = 0;

	for (size_t i = 0; i < v->n_cases && rc == 0; i++) {
		struct sc_config config;

		runs[n].c = &v->cases[i];
		if (!(v->cases[i].measured_ms > 0) ||
		    sc_config_table_row(&table, v->cases[i].row, arena, &config, NULL) != 0 ||
		    !count_slots(&config, &runs[n]))
			continue;
		sc_strbuf_clear(&text);
		for (size_t k = 0; k < v->table->n_cols; k++)
			if (is_of_kin(v->table->header[k]))
				sc_strbuf_printf(&text, "%s\x1f",
						 sc_csv_cell(v->table, v->cases[i].row, k));
		runs[n++].kin = sc_arena_strdup(arena, sc_strbuf_get(&text));
	}
	sc_strbuf_release(&text);
	SC_SORT(runs, n, by_kin);
	for (size_t i = 1, first = 0; i < n; i++) {
		if (strcmp(runs[i].kin, runs[first].kin) != 0)
			first = i;
		if (runs[i].micro_batches < 2 ||
		    !(runs[i].slot_ms > SC_KIN_FACTOR * runs[first].slot_ms))
			continue;
		runs[i].c->kin = runs[first].c->name;
		runs[i].c->over_kin = runs[i].slot_ms / runs[first].slot_ms;
		v->n_unlike++;
	}
	return rc;
}
