/* Each thread has its own predictor and arena; a row costs no allocation once they are warm. Rows
 * that are done before an earlier one wait for it: `take` sees them in order. */
#include <stdlib.h>
#include <string.h>

#include "base/fnv.h"
#include "base/threads.h"
#include "study/sweep/sweep_priv.h"

enum { ROW_BLOCK_BYTES = 64 << 10, KEEP_BLOCK_BYTES = 16 << 10, ROWS_AT_A_TIME = 16 };

static int predict_row(const struct run *run, struct worker *worker, size_t row, struct sc_err *err)
{
	const struct sc_sweep *sweep = run->sweep;
	struct sc_evaluator *e = worker->evaluator;
	struct sc_config config;
	int rc = sc_config_table_row(run->table, row, &worker->scratch, &config, err);

	if (rc == 0)
		rc = sc_evaluate_resolve(
			e, &(struct sc_candidate){.base = &config, .file = sweep->cases->file},
			err);
	if (rc)
		return rc;
	return sweep->floors ? sc_evaluate_floor(e, err) : sc_evaluate_request(e, err);
}

static void take_memory(const struct sc_memory *memory, struct sc_outcome *out)
{
	out->memory_tensors_gib = memory->total_gib - memory->reserve_gib;
	out->memory_total_gib = memory->total_gib;
	out->capacity_gib = memory->capacity_gib;
	out->fits = sc_memory_fullness(memory) <= 1;
}

static void take_floor(const struct sc_floor *floor, struct sc_outcome *out)
{
	*out = (struct sc_outcome){.error = "",
				   .iteration_ms = floor->iteration_ms,
				   .memory_is_least = floor->is_least};
	take_memory(&floor->memory, out);
}

static void take_prediction(const struct sc_prediction *p, struct sc_outcome *out)
{
	*out = (struct sc_outcome){
		.error = "",
		.iteration_ms = p->iteration_ms,
		.low_ms = p->low_ms,
		.high_ms = p->high_ms,
		.band = p->band,
		.mfu = p->mfu,
		.network_gbps = p->network_gbps,
		.samples_per_s = p->samples_per_s,
		.tokens_per_s = p->tokens_per_s,
		.n_warnings = p->warnings.n,
	};
	take_memory(&p->memory, out);
	for (int owner = 0; owner < SC_N_OWNERS; owner++)
		out->breakdown_ms[owner] = p->reading.breakdown_ms[owner];
}

/* The error's file is this one; errors cut long names. */
static bool is_in(const struct sc_err *err, const char *file)
{
	struct sc_err other = {.code = SC_OK};

	sc_err_at(&other, err->code, file, 0, 0, " ");
	return strcmp(err->file, other.file) == 0;
}

/* Names the place of an error unless it is the table, whose row is known, or the base config. */
static const char *error_text(const struct sc_sweep *sweep, const struct sc_err *err,
			      struct sc_arena *arena)
{
	if (!err->file[0] || is_in(err, sweep->cases->file) || is_in(err, sweep->base->file))
		return sc_arena_strdup(arena, err->text);
	if (!err->line)
		return sc_arena_printf(arena, "%s: %s", err->file, err->text);
	if (!err->column)
		return sc_arena_printf(arena, "%s:%u: %s", err->file, err->line, err->text);
	return sc_arena_printf(arena, "%s:%u:%u: %s", err->file, err->line, err->column, err->text);
}

/* ---- in order ---- */

/* Predictions and costs equal to the last bit are of one case: some key has no effect there. */
static size_t find_same(struct order *order, struct sc_outcome *o, size_t row)
{
	double numbers[12 + SC_N_OWNERS] = {
		o->iteration_ms,        o->low_ms,        o->high_ms,       o->mfu,
		o->memory_total_gib,    o->capacity_gib,  o->samples_per_s, o->tokens_per_s,
		o->cost.step.gpu_hours, o->cost.step.usd, o->cost.step.kwh, o->cost.run.steps};

	if (o->code != SC_OK)
		return 0;
	memcpy(numbers + 12, o->breakdown_ms, sizeof(o->breakdown_ms));
	o->print = sc_fnv(SC_FNV_START, numbers, sizeof(numbers));
	return sc_likes_first(&order->likes, numbers, sizeof(numbers), row);
}

static int hand_over(struct run *run, size_t index, struct sc_err *err)
{
	struct sc_outcome *outcome = &run->out[index];
	int rc;

	outcome->warnings = run->order.warnings[index];
	outcome->same_as = find_same(&run->order, outcome, index);
	rc = run->sweep->take(run->sweep->ctx, index, outcome, err);
	free(run->order.warnings[index]);
	run->order.warnings[index] = NULL;
	outcome->warnings = NULL;
	return rc;
}

int sc_sweep_put_row(struct run *run, size_t index, const struct sc_warnings *warnings,
		     struct sc_err *err)
{
	size_t n_bytes = offsetof(struct sc_warnings, text) + warnings->n * sizeof(*warnings->text);
	struct order *order = &run->order;
	int rc = 0;

	sc_progress_add(run->sweep->progress, 1);
	if (run->is_done)
		run->is_done[index] = true;
	if (!run->sweep->take || sc_ranks_helps(run->sweep->ranks))
		return 0;
	pthread_mutex_lock(&order->lock);
	order->warnings[index] = sc_xmalloc(n_bytes);
	memcpy(order->warnings[index], warnings, n_bytes);
	for (; rc == 0 && order->next < order->n && order->warnings[order->next]; order->next++)
		rc = hand_over(run, order->next, err);
	pthread_mutex_unlock(&order->lock);
	return rc;
}

static int run_row(void *ctx, void *scratch, size_t index, struct sc_err *err)
{
	static const struct sc_warnings none;
	struct run *run = ctx;
	const struct sc_sweep *sweep = run->sweep;
	struct worker *worker = scratch;
	const struct sc_evaluator *e = worker->evaluator;
	struct sc_arena_mark mark = sc_arena_mark(&worker->scratch);
	const struct sc_warnings *warnings = &none;
	struct sc_err own = {.code = SC_OK};
	struct sc_outcome *out;
	int rc;

	index += run->begin;
	out = &run->out[index];
	if (run->is_done && run->is_done[index])
		return 0;
	if (sweep->stop && *sweep->stop)
		return sc_err_set(err, SC_EIO, "the sweep was stopped");
	rc = predict_row(run, worker, sweep->rows ? sweep->rows[index] : index, &own);
	if (rc == 0 && sweep->floors) {
		take_floor(&e->floor, out);
	} else if (rc == 0) {
		take_prediction(&e->prediction, out);
		warnings = &e->prediction.warnings;
		if (sweep->size)
			rc = sc_run_cost(&e->request, &e->prediction, sweep->size, &out->cost,
					 &own);
	}
	if (rc) {
		*out = (struct sc_outcome){.code = own.code,
					   .error = error_text(sweep, &own, &worker->keep)};
		warnings = &none;
	}
	sc_arena_rewind(&worker->scratch, mark);
	if (run->is_done)
		sc_sweep_pack_row(run, index, warnings);
	return sc_sweep_put_row(run, index, warnings, err);
}

int sc_sweep_run_some(struct run *run, size_t begin, size_t n, struct sc_err *err)
{
	unsigned n_jobs = run->sweep->n_jobs ? run->sweep->n_jobs : 1;
	size_t chunk = n / n_jobs;
	struct sc_work work = {
		.n_items = n,
		.chunk = chunk < ROWS_AT_A_TIME ? chunk : ROWS_AT_A_TIME,
		.n_jobs = n_jobs,
		.item = run_row,
		.shared = run,
		.contexts = run->workers,
	};

	run->begin = begin;
	return sc_parallel_for(&work, err);
}

void **sc_sweep_workers_create(unsigned n, struct sc_catalog *catalog)
{
	void **workers = sc_xcalloc(n, sizeof(*workers));

	for (unsigned i = 0; i < n; i++) {
		struct worker *worker = workers[i] = sc_xmalloc(sizeof(*worker));

		worker->evaluator = sc_evaluator_create(catalog);
		sc_arena_init(&worker->scratch, ROW_BLOCK_BYTES);
		sc_arena_init(&worker->keep, KEEP_BLOCK_BYTES);
	}
	return workers;
}

void sc_sweep_workers_destroy(void **workers, unsigned n)
{
	for (unsigned i = 0; workers && i < n; i++) {
		struct worker *worker = workers[i];

		sc_evaluator_destroy(worker->evaluator);
		sc_arena_release(&worker->scratch);
		sc_arena_release(&worker->keep);
		free(worker);
	}
	free(workers);
}

static int run_rows(struct run *run, struct sc_err *err)
{
	const struct sc_ranks *ranks = run->sweep->ranks;
	unsigned n_jobs = run->sweep->n_jobs ? run->sweep->n_jobs : 1;
	struct sc_arena *arena = run->arena;
	struct order *order = &run->order;
	int rc;

	*order = (struct order){.n = run->sweep->take ? run->n_rows : 0};
	pthread_mutex_init(&order->lock, NULL);
	order->warnings = sc_arena_calloc(arena, order->n, sizeof(*order->warnings));
	run->workers = run->sweep->workers ? run->sweep->workers
					   : sc_sweep_workers_create(n_jobs, run->catalog);
	for (unsigned i = 0; i < n_jobs; i++) {
		struct worker *worker = run->workers[i];

		worker->evaluator->opts = *run->sweep->opts;
		worker->evaluator->opts.brief = true;
	}
	rc = ranks && !ranks->is_over ? sc_sweep_run_shared(run, err)
				      : sc_sweep_run_some(run, 0, run->n_rows, err);
	/* Error texts move from the threads' arenas to the caller's. */
	for (size_t i = 0; i < run->n_rows; i++)
		if (run->out[i].code != SC_OK)
			run->out[i].error = sc_arena_strdup(arena, run->out[i].error);
	for (unsigned i = 0; i < n_jobs; i++) {
		struct worker *worker = run->workers[i];

		sc_arena_rewind(&worker->keep, (struct sc_arena_mark){0});
	}
	if (!run->sweep->workers)
		sc_sweep_workers_destroy(run->workers, n_jobs);
	for (size_t i = order->next; i < order->n; i++)
		free(order->warnings[i]);
	sc_likes_release(&order->likes);
	pthread_mutex_destroy(&order->lock);
	return rc;
}

int sc_sweep_run(const struct sc_sweep *sweep, struct sc_arena *arena, struct sc_outcome *out,
		 struct sc_err *err)
{
	struct run run = {.sweep = sweep, .arena = arena, .out = out};
	struct sc_config_table table = {.csv = sweep->cases, .base = sweep->base};
	int rc = sc_config_table_bind(&table, arena, err);

	if (rc)
		return rc;
	run.table = &table;
	run.n_rows = sweep->rows ? sweep->n_rows : sweep->cases->n_rows;
	run.catalog = sweep->catalog ? sweep->catalog : sc_catalog_create();
	rc = run_rows(&run, err);
	if (!sweep->catalog)
		sc_catalog_destroy(run.catalog);
	return rc;
}
