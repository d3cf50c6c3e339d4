/* Rows of a sweep over processes. Rank 0 shares their list in rounds, a counter hands them out to all, and a gather
 * brings what they have done; what then is missing, rank 0 predicts itself. So results do not depend on who predicted
 * what, and after a loss those of the rounds before are taken. */
#include <assert.h>
#include <string.h>

#include "base/fnv.h"
#include "study/sweep/sweep_priv.h"

/* A round's rows of a thread, and those of all, which bounds what a gather brings; parts of a rank in a round. */
enum { ARENA_BYTES = 64 << 10, ROUND_ROWS = 64, MAX_ROUND = 256 << 10, PARTS = 8 };

/* Before the indices of the rows. */
struct work_head {
	size_t n;
	bool floors;
	struct sc_predict_opts opts;
};
/* Before the error's text and the warnings. */
struct row_head {
	size_t index, n_error, n_warnings;
	struct sc_outcome outcome;
};

/* The models and clusters that rows name. */
static uint64_t hash_named(uint64_t h, const struct sc_sweep *sweep)
{
	struct sc_config_table table = {.csv = sweep->cases, .base = sweep->base};
	const struct sc_config_files *const files[] = {&table.model, &table.cluster};
	struct sc_err err = {.code = SC_OK}; /* the run tells it */
	struct sc_arena arena;

	sc_arena_init(&arena, ARENA_BYTES);
	if (sc_config_table_bind(&table, &arena, &err) == 0)
		for (int f = 0; f < 2; f++)
			for (size_t i = 0; i < files[f]->n; i++)
				if (files[f]->at[i].rc == 0)
					h = sc_fields_hash(h, sc_config_fields,
							   &files[f]->at[i].section);
	sc_arena_release(&arena);
	return h;
}

/* These must be alike in all ranks: the program, the base with its model and cluster, the cases. */
static uint64_t fingerprint(const struct sc_sweep *sweep)
{
	const struct sc_csv *cases = sweep->cases;
	uint64_t h = sc_fnv(SC_FNV_START, SC_VERSION, sizeof(SC_VERSION));

	h = sc_fields_hash(h, sc_config_fields, sweep->base);
	h = sc_fnv(h, &cases->n_rows, sizeof(cases->n_rows));
	for (size_t i = 0; i < cases->n_cols; i++)
		h = sc_fnv(h, cases->header[i], strlen(cases->header[i]) + 1);
	for (size_t row = 0; row < cases->n_rows; row++)
		for (size_t i = 0; i < cases->n_cols; i++) {
			const char *cell = sc_csv_cell(cases, row, i);

			h = sc_fnv(h, cell, strlen(cell) + 1);
		}
	return hash_named(h, sweep);
}

/* The next n bytes. */
static void take(const char **at, void *out, size_t n)
{
	memcpy(out, *at, n);
	*at += n;
}

void sc_sweep_pack_row(struct run *run, size_t index, const struct sc_warnings *warnings)
{
	const struct sc_outcome *outcome = &run->out[index];
	struct row_head head;

	memset(&head, 0, sizeof(head));
	head.index = index;
	head.n_error = strlen(outcome->error);
	head.n_warnings =
		offsetof(struct sc_warnings, text) + warnings->n * sizeof(*warnings->text);
	head.outcome = *outcome;
	pthread_mutex_lock(&run->order.lock);
	sc_strbuf_append_n(&run->packed, (const char *)&head, sizeof(head));
	sc_strbuf_append_n(&run->packed, outcome->error, head.n_error);
	sc_strbuf_append_n(&run->packed, (const char *)warnings, head.n_warnings);
	pthread_mutex_unlock(&run->order.lock);
}

/* The others' rows of a round that begins at `begin`. */
static int take_packed(struct run *run, size_t begin, struct sc_err *err)
{
	const char *at = sc_strbuf_get(&run->packed), *end = at + run->packed.n;
	int rc = 0;

	while (at < end && rc == 0) {
		struct sc_warnings warnings = {.n = 0};
		struct sc_outcome *out;
		struct row_head head;

		take(&at, &head, sizeof(head));
		out = &run->out[begin + head.index];
		*out = head.outcome;
		out->error = sc_arena_strndup(run->arena, at, head.n_error);
		out->warnings = NULL; /* addresses of the helper's */
		out->band = NULL;
		at += head.n_error;
		take(&at, &warnings, head.n_warnings);
		rc = sc_sweep_put_row(run, begin + head.index, &warnings, err);
	}
	return rc;
}

static bool share_round(struct run *run, size_t begin, size_t n)
{
	const struct sc_sweep *sweep = run->sweep;
	struct sc_strbuf bytes = {0};
	struct work_head head;
	bool shared;

	assert(!sweep->opts->plan); /* is no text */
	memset(&head, 0, sizeof(head));
	head = (struct work_head){n, sweep->floors, *sweep->opts};
	sc_strbuf_append_n(&bytes, (const char *)&head, sizeof(head));
	for (size_t i = begin; i < begin + n; i++) {
		size_t row = sweep->rows ? sweep->rows[i] : i;

		sc_strbuf_append_n(&bytes, (const char *)&row, sizeof(row));
	}
	shared = sc_ranks_share(sweep->ranks, &bytes);
	sc_strbuf_release(&bytes);
	return shared;
}

/* Until none of a round's rows is left to take. */
static int run_taken(struct run *run, size_t begin, size_t n, struct sc_err *err)
{
	struct sc_ranks *ranks = run->sweep->ranks;
	const size_t part = 1 + n / ((size_t)ranks->count * PARTS);
	size_t at;
	int rc = 0;

	while (rc == 0 && (at = sc_ranks_take(ranks, part)) < n)
		rc = sc_sweep_run_some(run, begin + at, n - at < part ? n - at : part, err);
	return rc;
}

static int run_missing(struct run *run, size_t begin, size_t end, struct sc_err *err)
{
	int rc = 0;

	for (size_t n; begin < end && rc == 0; begin += n + 1) {
		for (n = 0; begin + n < end && !run->is_done[begin + n];)
			n++;
		if (n)
			rc = sc_sweep_run_some(run, begin, n, err);
	}
	return rc;
}

int sc_sweep_run_shared(struct run *run, struct sc_err *err)
{
	struct sc_ranks *ranks = run->sweep->ranks;
	const size_t all = (size_t)ranks->count * (run->sweep->n_jobs + !run->sweep->n_jobs);
	const size_t most = all < MAX_ROUND / ROUND_ROWS ? all * ROUND_ROWS : MAX_ROUND;
	int rc = 0;

	if (sc_ranks_helps(ranks)) {
		rc = run_taken(run, 0, run->n_rows, err);
		sc_ranks_gather(ranks, &run->packed);
		return rc;
	}
	run->is_done = sc_arena_calloc(run->arena, run->n_rows, sizeof(*run->is_done));
	for (size_t begin = 0, n; begin < run->n_rows && rc == 0; begin += n) {
		n = run->n_rows - begin < most ? run->n_rows - begin : most;
		if (share_round(run, begin, n))
			rc = run_taken(run, begin, n, err);
		if (sc_ranks_gather(ranks, &run->packed) && rc == 0)
			rc = take_packed(run, begin, err);
		sc_strbuf_release(&run->packed);
		if (rc == 0)
			rc = run_missing(run, begin, begin + n, err);
	}
	return rc;
}

/* A helper's part in a round. */
static int run_round(const struct sc_sweep *sweep, const struct sc_strbuf *bytes,
		     struct sc_err *err)
{
	const char *at = sc_strbuf_get(bytes);
	struct sc_sweep own = *sweep;
	struct sc_outcome *outcomes;
	struct work_head head;
	struct sc_arena arena;
	size_t *rows;
	int rc;

	sc_arena_init(&arena, ARENA_BYTES);
	take(&at, &head, sizeof(head));
	rows = sc_arena_calloc(&arena, head.n, sizeof(*rows));
	take(&at, rows, head.n * sizeof(*rows));
	outcomes = sc_arena_calloc(&arena, head.n, sizeof(*outcomes));
	own.rows = rows;
	own.n_rows = head.n;
	own.opts = &head.opts;
	own.floors = head.floors;
	rc = sc_sweep_run(&own, &arena, outcomes, err);
	sc_arena_release(&arena);
	return rc;
}

int sc_sweep_begin(const struct sc_sweep *sweep, struct sc_err *err)
{
	struct sc_sweep own = *sweep;
	struct sc_strbuf bytes = {0};
	int rc;

	if (!sweep->ranks)
		return 0;
	sweep->ranks->signal = sweep->signal;
	rc = sc_ranks_agree(sweep->ranks, fingerprint(sweep), err);
	if (rc || !sc_ranks_helps(sweep->ranks))
		return rc;
	if (!sweep->catalog)
		own.catalog = sc_catalog_create();
	while (rc == 0 && sc_ranks_share(sweep->ranks, &bytes) && bytes.n)
		rc = run_round(&own, &bytes, err);
	if (!sweep->catalog)
		sc_catalog_destroy(own.catalog);
	sc_strbuf_release(&bytes);
	return rc;
}
