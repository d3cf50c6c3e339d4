/* Each thread has its own predictor and arena; a row costs no allocation once they are warm. */
#include "study/sweep/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "core/config/config_table.h"

enum { ROW_BLOCK_BYTES = 64 << 10, KEEP_BLOCK_BYTES = 16 << 10, ROWS_AT_A_TIME = 16 };

/* What one thread needs. */
struct worker {
	struct sc_predictor *predictor;
	struct sc_arena scratch; /* of one row */
	struct sc_arena keep;    /* error texts */
	struct sc_prediction prediction;
	struct sc_request request;
};
struct run {
	const struct sc_sweep *sweep;
	const struct sc_config_table *table;
	struct sc_catalog *catalog;
	struct sc_outcome *out;
};

static int predict_row(const struct run *run, struct worker *worker, size_t row, struct sc_err *err)
{
	const struct sc_sweep *sweep = run->sweep;
	struct sc_config config;
	int rc = sc_config_table_row(run->table, row, sweep->base, &worker->scratch, &config, err);

	if (rc == 0)
		rc = sc_config_resolve(&config, run->catalog, sweep->cases->file, &worker->request,
				       err);
	if (rc == 0)
		rc = sc_predict(worker->predictor, &worker->request, sweep->opts,
				&worker->prediction, err);
	return rc;
}

static void take_prediction(const struct sc_prediction *p, struct sc_outcome *out)
{
	*out = (struct sc_outcome){
		.error = "",
		.iteration_ms = p->iteration_ms,
		.low_ms = p->low_ms,
		.high_ms = p->high_ms,
		.memory_total_gib = p->memory.total_gib,
		.mfu = p->mfu,
		.samples_per_s = p->samples_per_s,
		.tokens_per_s = p->tokens_per_s,
	};
	for (int owner = 0; owner < SC_N_OWNERS; owner++)
		out->breakdown_ms[owner] = p->breakdown_ms[owner];
}

/* Is that where the error says it is? Long names are cut in errors. */
static bool is_in(const struct sc_err *err, const char *file)
{
	struct sc_err other = {.code = SC_OK};

	sc_err_at(&other, err->code, file, 0, 0, " ");
	return strcmp(err->file, other.file) == 0;
}

/* Names the place unless it is the table, whose row is known, or the base config. */
static const char *error_text(const struct sc_sweep *sweep, const struct sc_err *err,
			      struct sc_arena *arena)
{
	if (!err->file[0] || is_in(err, sweep->cases->file) || is_in(err, sweep->base_file))
		return sc_arena_strdup(arena, err->text);
	if (!err->line)
		return sc_arena_printf(arena, "%s: %s", err->file, err->text);
	if (!err->column)
		return sc_arena_printf(arena, "%s:%u: %s", err->file, err->line, err->text);
	return sc_arena_printf(arena, "%s:%u:%u: %s", err->file, err->line, err->column, err->text);
}

static int run_row(void *shared, void *thread_ctx, size_t index, struct sc_err *err)
{
	const struct run *run = shared;
	struct worker *worker = thread_ctx;
	struct sc_arena_mark mark = sc_arena_mark(&worker->scratch);
	size_t row = run->sweep->rows ? run->sweep->rows[index] : index;
	struct sc_err own = {.code = SC_OK};

	(void)err; /* a row's error is its outcome */
	if (predict_row(run, worker, row, &own) == 0)
		take_prediction(&worker->prediction, &run->out[index]);
	else
		run->out[index] = (struct sc_outcome){
			.code = own.code,
			.error = error_text(run->sweep, &own, &worker->keep),
		};
	sc_arena_rewind(&worker->scratch, mark);
	sc_progress_add(run->sweep->progress, 1);
	return 0;
}

static struct worker *worker_create(void)
{
	struct worker *worker = sc_xmalloc(sizeof(*worker));

	worker->predictor = sc_predictor_create();
	sc_arena_init(&worker->scratch, ROW_BLOCK_BYTES);
	sc_arena_init(&worker->keep, KEEP_BLOCK_BYTES);
	return worker;
}

static void worker_destroy(struct worker *worker)
{
	sc_predictor_destroy(worker->predictor);
	sc_arena_release(&worker->scratch);
	sc_arena_release(&worker->keep);
	free(worker);
}

/* Error texts move from the threads' arenas to the caller's. */
static void keep_errors(struct sc_outcome *out, size_t n, struct sc_arena *arena)
{
	for (size_t i = 0; i < n; i++) {
		if (out[i].code != SC_OK)
			out[i].error = sc_arena_strdup(arena, out[i].error);
	}
}

static void run_rows(struct run *run, size_t n_rows, struct sc_arena *arena)
{
	unsigned n_jobs = run->sweep->n_jobs ? run->sweep->n_jobs : 1;
	void **workers = sc_xrealloc(NULL, n_jobs, sizeof(*workers));
	struct sc_work work = {
		.n_items = n_rows,
		.chunk = ROWS_AT_A_TIME,
		.n_jobs = n_jobs,
		.item = run_row,
		.shared = run,
		.contexts = workers,
	};

	for (unsigned i = 0; i < n_jobs; i++)
		workers[i] = worker_create();
	sc_parallel_for(&work, NULL);
	keep_errors(run->out, n_rows, arena);
	for (unsigned i = 0; i < n_jobs; i++)
		worker_destroy(workers[i]);
	free(workers);
}

int sc_sweep_run(const struct sc_sweep *sweep, struct sc_arena *arena, struct sc_outcome *out,
		 struct sc_err *err)
{
	struct run run = {.sweep = sweep, .out = out};
	struct sc_config_table table;
	int rc = sc_config_table_bind(sweep->cases, sweep->base_file, arena, &table, err);

	if (rc)
		return rc;
	run.table = &table;
	run.catalog = sc_catalog_create();
	run_rows(&run, sweep->rows ? sweep->n_rows : sweep->cases->n_rows, arena);
	sc_catalog_destroy(run.catalog);
	return 0;
}
