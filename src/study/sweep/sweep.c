/* Each thread has its own predictor and arena; a row costs no allocation once they are warm. Rows that
 * are done before an earlier one wait for it: `take` sees them in order. */
#include "study/sweep/sweep.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/fnv.h"
#include "base/progress.h"
#include "base/threads.h"
#include "base/units.h"
#include "core/config/config_table.h"
#include "study/schedule/schedule_choose.h"
#include "study/shard/shard_choose.h"

enum { ROW_BLOCK_BYTES = 64 << 10, KEEP_BLOCK_BYTES = 16 << 10, ROWS_AT_A_TIME = 16 };

/* What one thread needs. */
struct worker {
	struct sc_predictor *predictor;
	struct sc_arena scratch; /* of one row */
	struct sc_arena keep;    /* error texts */
	struct sc_prediction prediction;
	struct sc_request request;
};
/* What waits for its turn. */
struct order {
	pthread_mutex_t lock;
	size_t n, next;                /* rows; the first that is not taken */
	struct sc_warnings **warnings; /* of each row that is done and not taken */
	size_t *first_like, n_slots; /* 1 + row, by hash of the prediction; n_slots a power of 2 */
};
struct run {
	const struct sc_sweep *sweep;
	const struct sc_config_table *table;
	struct sc_catalog *catalog;
	struct sc_outcome *out;
	size_t n_rows;
	struct order order;
	struct worker *spare; /* of the thread that speaks with other ranks */
	unsigned *holder;   /* of each row: the rank that has it, or one of below; NULL: no ranks */
	struct sc_err lost; /* set if a rank is lost */
};
#define DONE ((unsigned)-1)

static int find_floor(const struct run *run, struct worker *worker, struct sc_err *err)
{
	struct sc_prediction *out = &worker->prediction;
	struct sc_floor low = {.iteration_ms = 0};
	int rc = sc_predict_floor(worker->predictor, &worker->request, run->sweep->opts, &low, err);

	memset(out->reading.breakdown_ms, 0, sizeof(out->reading.breakdown_ms));
	out->band = NULL;
	out->low_ms = out->high_ms = out->mfu = out->samples_per_s = out->tokens_per_s = 0;
	out->warnings.n = 0;
	out->iteration_ms = low.iteration_ms;
	out->memory = low.memory;
	return rc;
}

static int predict_row(const struct run *run, struct worker *worker, size_t row, struct sc_err *err)
{
	const struct sc_sweep *sweep = run->sweep;
	struct sc_config config;
	int rc = sc_config_table_row(run->table, row, &worker->scratch, &config, err);

	if (rc == 0)
		rc = sc_resolve_chosen(&(struct sc_schedule_ask){&config, run->catalog,
								 sweep->cases->file,
								 worker->predictor, sweep->opts},
				       &worker->request, err);
	if (rc == 0 && sweep->floors)
		return find_floor(run, worker, err);
	if (rc == 0)
		rc = sc_predict_chosen(worker->predictor, &worker->request, sweep->opts,
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
		.band = p->band,
		.memory_tensors_gib = p->memory.total_gib - p->memory.reserve_gib,
		.memory_total_gib = p->memory.total_gib,
		.capacity_gib = p->memory.capacity_gib,
		.fits = sc_memory_fullness(&p->memory) <= 1,
		.mfu = p->mfu,
		.network_gbps = p->network_gbps,
		.samples_per_s = p->samples_per_s,
		.tokens_per_s = p->tokens_per_s,
		.n_warnings = p->warnings.n,
	};
	for (int owner = 0; owner < SC_N_OWNERS; owner++)
		out->breakdown_ms[owner] = p->reading.breakdown_ms[owner];
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
	if (!err->file[0] || is_in(err, sweep->cases->file) || is_in(err, sweep->base->file))
		return sc_arena_strdup(arena, err->text);
	if (!err->line)
		return sc_arena_printf(arena, "%s: %s", err->file, err->text);
	if (!err->column)
		return sc_arena_printf(arena, "%s:%u: %s", err->file, err->line, err->text);
	return sc_arena_printf(arena, "%s:%u:%u: %s", err->file, err->line, err->column, err->text);
}

/* ---- in order ---- */

enum { N_NUMBERS = 12 + SC_N_OWNERS };

static void list_numbers(const struct sc_outcome *o, double *numbers)
{
	const double own[] = {o->iteration_ms,  o->low_ms,           o->high_ms,
			      o->mfu,           o->memory_total_gib, o->capacity_gib,
			      o->samples_per_s, o->tokens_per_s,     o->cost.step.gpu_hours,
			      o->cost.step.usd, o->cost.step.kwh,    o->cost.run.steps};

	memcpy(numbers, own, sizeof(own));
	memcpy(numbers + sizeof(own) / sizeof(own[0]), o->breakdown_ms, sizeof(o->breakdown_ms));
}

/* Predictions and costs that agree to the last bit are of one case: some key has no effect there. */
static size_t find_same(struct order *order, const struct sc_outcome *out, size_t row)
{
	double numbers[N_NUMBERS], other[N_NUMBERS];
	uint64_t hash;
	size_t slot;

	if (out[row].code != SC_OK)
		return 0;
	list_numbers(&out[row], numbers);
	hash = sc_fnv(SC_FNV_START, numbers, sizeof(numbers));
	slot = (size_t)(hash ^ hash >> 32) & (order->n_slots - 1);
	for (; order->first_like[slot]; slot = (slot + 1) & (order->n_slots - 1)) {
		list_numbers(&out[order->first_like[slot] - 1], other);
		if (memcmp(numbers, other, sizeof(numbers)) == 0)
			return order->first_like[slot];
	}
	order->first_like[slot] = row + 1;
	return 0;
}

static int hand_over(struct run *run, size_t index, struct sc_err *err)
{
	struct sc_outcome *outcome = &run->out[index];
	int rc;

	outcome->warnings = run->order.warnings[index];
	outcome->same_as = find_same(&run->order, run->out, index);
	rc = run->sweep->take(run->sweep->ctx, index, outcome, err);
	free(run->order.warnings[index]);
	run->order.warnings[index] = NULL;
	outcome->warnings = NULL;
	return rc;
}

/* A row is done; those whose turn it is are taken. */
static int put_row(struct run *run, size_t index, const struct sc_warnings *warnings,
		   struct sc_err *err)
{
	size_t n_bytes = offsetof(struct sc_warnings, text) + warnings->n * sizeof(*warnings->text);
	struct order *order = &run->order;
	int rc = 0;

	sc_progress_add(run->sweep->progress, 1);
	if (run->holder)
		run->holder[index] = DONE;
	if (!run->sweep->take)
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
	struct run *run = ctx;
	struct worker *worker = scratch;
	static const struct sc_warnings none;
	struct sc_arena_mark mark = sc_arena_mark(&worker->scratch);
	size_t row = run->sweep->rows ? run->sweep->rows[index] : index;
	struct sc_err own = {.code = SC_OK};
	bool failed;

	if (run->sweep->stop && *run->sweep->stop)
		return sc_err_set(err, SC_EIO, "the sweep was stopped");
	failed = predict_row(run, worker, row, &own) != 0;
	if (!failed)
		take_prediction(&worker->prediction, &run->out[index]);
	if (!failed && run->sweep->size && !run->sweep->floors)
		failed = sc_run_cost(&worker->request, &worker->prediction, run->sweep->size,
				     &run->out[index].cost, &own) != 0;
	if (failed)
		run->out[index] = (struct sc_outcome){
			.code = own.code,
			.error = error_text(run->sweep, &own, &worker->keep),
		};
	sc_arena_rewind(&worker->scratch, mark);
	return put_row(run, index, failed ? &none : &worker->prediction.warnings, err);
}

/* ---- several processes ----
 *
 * Rank 0 takes rows from its own threads' pool for ranks that have none, and puts
 * what comes back in its turn, so that results do not depend on who predicted what. A part is as long as what takes
 * a rank PART_S: what a lost one had is little. While a helper's threads work it says so, each second. */

#define PART_S 0.1
#define TICK_S 1.0
#define SILENT_S 30.0 /* of a rank that has rows: it is lost */
#define GRACE_S 0.4   /* between a signal and the end that follows it */
enum { ARENA_BYTES = 64 << 10, FIRST_PART = 4, LARGEST_PART = 256, PAUSE_US = 50, MAX_RANGES = 64 };
enum kind { READY = SC_RANKS_END + 1, WORK, ROWS, TICK, STOPPED, EXCUSE, DISMISS };

/* Before the indices of the rows. */
struct work_head {
	size_t n;
	bool floors;
	struct sc_predict_opts opts;
};
/* Before the error's text and the warnings. */
struct row_head {
	struct sc_outcome outcome;
	size_t n_error, n_warnings;
};

static void pause_us(int64_t us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * SC_NS_PER_US}, NULL);
}

/* The next n bytes of a message. */
static void take(struct sc_message *m, void *out, size_t n)
{
	assert(n <= m->n);
	memcpy(out, m->bytes, n);
	m->bytes += n;
	m->n -= n;
}

/* Of the models and clusters that rows name. */
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

/* What must be alike in all ranks: the program, the base with its model and cluster, the cases. */
static uint64_t fingerprint(const struct sc_sweep *sweep)
{
	const struct sc_csv *cases = sweep->cases;
	uint64_t h = sc_fnv(SC_FNV_START, SC_VERSION, sizeof(SC_VERSION));

	h = sc_fields_hash(h, sc_config_fields, sweep->base);
	h = sc_fnv(h, &cases->n_rows, sizeof(cases->n_rows));
	for (size_t i = 0; i < cases->n_cols; i++)
		h = sc_fnv(h, cases->header[i], strlen(cases->header[i]) + 1);
	for (size_t i = 0; i < cases->n_rows * cases->n_cols; i++)
		h = sc_fnv(h, cases->cell[i], strlen(cases->cell[i]) + 1);
	return hash_named(h, sweep);
}

/* ---- rank 0 ---- */

static int take_excuse(const struct sc_sweep *sweep, const struct sc_message *m, struct sc_err *err)
{
	return sc_err_set(err, SC_EIO, "rank %d of %d: %.*s", m->from, sc_ranks_count(sweep->ranks),
			  (int)m->n, m->bytes);
}

static int take_ready(const struct sc_sweep *sweep, struct sc_message *m, struct sc_err *err)
{
	uint64_t theirs;

	if (m->kind == STOPPED) {
		sc_ranks_leave(sweep->ranks, m->from);
		return 0;
	}
	if (m->kind != READY)
		return take_excuse(sweep, m, err);
	take(m, &theirs, sizeof(theirs));
	if (theirs == fingerprint(sweep))
		return 0;
	return sc_err_set(err, SC_EIO,
			  "rank %d of %d has other cases or another base: are the program and "
			  "the files the same there?",
			  m->from, sc_ranks_count(sweep->ranks));
}

int sc_sweep_muster(const struct sc_sweep *sweep, struct sc_err *err)
{
	int n_left = 0, rc = 0;
	double begin = sc_now_s();
	struct sc_message m;

	for (int rank = 1; sweep->ranks && rank < sc_ranks_count(sweep->ranks); rank++)
		n_left += !sc_ranks_has_left(sweep->ranks, rank);
	if (n_left)
		sc_ranks_heed(sweep->ranks, sweep->signal);
	while (n_left && rc == 0) {
		if (sc_ranks_next(sweep->ranks, &m)) {
			rc = take_ready(sweep, &m, err);
			n_left--;
		} else if (*sweep->signal || sc_now_s() - begin > SILENT_S) {
			sc_ranks_lost(sweep->ranks);
			return sc_err_set(err, SC_EIO, "%d of %d ranks do not begin", n_left,
					  sc_ranks_count(sweep->ranks));
		} else {
			pause_us(PAUSE_US);
		}
	}
	return rc;
}

int sc_sweep_dismiss(struct sc_ranks *ranks, struct sc_err *err)
{
	struct sc_strbuf nothing = {0};

	for (int rank = 1; ranks && rank < sc_ranks_count(ranks); rank++) {
		if (sc_ranks_has_left(ranks, rank) || sc_ranks_send(ranks, rank, DISMISS, &nothing))
			continue;
		sc_ranks_lost(ranks);
		return sc_err_set(err, SC_EIO, "rank %d of %d takes no word: it is lost", rank,
				  sc_ranks_count(ranks));
	}
	return 0;
}

/* What a rank has. */
struct part {
	size_t begin, n;        /* n 0: nothing */
	size_t n_next;          /* so many at the next time */
	double sent_s, heard_s; /* when it got it; when it last spoke */
};
struct lead {
	struct run *run;
	struct sc_pool *pool;
	struct part *part; /* of each rank */
	int n_ranks;
	double signal_s; /* 0: no signal yet */
};

static void lose(struct lead *lead, int rank, const char *why)
{
	struct part *part = &lead->part[rank];

	sc_err_set(&lead->run->lost, SC_EIO, "rank %d of %d %s", rank, lead->n_ranks, why);
	sc_ranks_lost(lead->run->sweep->ranks);
	sc_ranks_leave(lead->run->sweep->ranks, rank);
	sc_pool_fail(lead->pool, part->begin, -SC_EIO, &lead->run->lost);
	part->n = 0;
}

static bool send_part(const struct lead *lead, int rank)
{
	const struct sc_sweep *sweep = lead->run->sweep;
	const struct part *part = &lead->part[rank];
	struct sc_strbuf bytes = {0};
	struct work_head head;
	bool sent;

	assert(!sweep->opts->plan); /* is no text */
	memset(&head, 0, sizeof(head));
	head = (struct work_head){part->n, sweep->floors, *sweep->opts};
	sc_strbuf_append_n(&bytes, (const char *)&head, sizeof(head));
	for (size_t i = part->begin; i < part->begin + part->n; i++) {
		size_t row = sweep->rows ? sweep->rows[i] : i;

		sc_strbuf_append_n(&bytes, (const char *)&row, sizeof(row));
		lead->run->holder[i] = (unsigned)rank;
	}
	sent = sc_ranks_send(sweep->ranks, rank, WORK, &bytes);
	sc_strbuf_release(&bytes);
	return sent;
}

/* Work for all that have none; false: there is none. */
static bool hand_out(struct lead *lead)
{
	bool any = false;

	for (int rank = 1; rank < lead->n_ranks && lead->signal_s <= 0; rank++) {
		struct part *part = &lead->part[rank];

		if (part->n || sc_ranks_has_left(lead->run->sweep->ranks, rank))
			continue;
		part->n = sc_pool_take(lead->pool, part->n_next, &part->begin);
		if (part->n == 0)
			break;
		part->sent_s = part->heard_s = sc_now_s();
		any = true;
		if (!send_part(lead, rank))
			lose(lead, rank, "takes no work: it is lost");
	}
	return any;
}

static void take_row(struct lead *lead, size_t index, struct sc_message *m)
{
	struct run *run = lead->run;
	struct sc_warnings warnings = {.n = 0};
	struct sc_err err = {.code = SC_OK};
	struct row_head head;
	char *error;
	int rc;

	take(m, &head, sizeof(head));
	error = sc_arena_alloc(&run->spare->keep, head.n_error + 1);
	take(m, error, head.n_error);
	error[head.n_error] = '\0';
	take(m, &warnings, head.n_warnings);
	run->out[index] = head.outcome;
	run->out[index].error = error;
	run->out[index].warnings = NULL; /* addresses of the helper's */
	run->out[index].band = NULL;
	rc = put_row(run, index, &warnings, &err);
	if (rc)
		sc_pool_fail(lead->pool, index, rc, &err);
}

/* It was told to end: its rows are predicted here. */
static void take_back(struct lead *lead, struct part *part)
{
	for (size_t i = part->begin; i < part->begin + part->n; i++) {
		struct sc_err err = {.code = SC_OK};
		int rc = run_row(lead->run, lead->run->spare, i, &err);

		if (rc) {
			sc_pool_fail(lead->pool, i, rc, &err);
			break;
		}
	}
	part->n = 0;
}

static void take_message(struct lead *lead, struct sc_message *m)
{
	struct part *part = &lead->part[m->from];
	double n;

	part->heard_s = sc_now_s();
	switch ((enum kind)m->kind) {
	case ROWS:
		n = (double)part->n * PART_S / (part->heard_s - part->sent_s + 1e-6);
		for (size_t i = 0; i < part->n; i++)
			take_row(lead, part->begin + i, m);
		part->n_next = n > LARGEST_PART ? LARGEST_PART : n < 1 ? 1 : (size_t)n;
		part->n = 0;
		break;
	case STOPPED:
		sc_ranks_leave(lead->run->sweep->ranks, m->from);
		take_back(lead, part);
		break;
	case EXCUSE:
		sc_ranks_leave(lead->run->sweep->ranks, m->from);
		take_excuse(lead->run->sweep, m, &lead->run->lost);
		sc_pool_fail(lead->pool, part->begin, -SC_EIO, &lead->run->lost);
		part->n = 0;
		break;
	case READY:
	case WORK:
	case TICK:
	case DISMISS:
		break;
	}
}

/* Who has rows and is silent is lost: a system that ends the program for a lost rank gives the others a second. */
static void find_lost(struct lead *lead)
{
	const volatile sig_atomic_t *signal = lead->run->sweep->signal;
	double now = sc_now_s();

	if (lead->signal_s <= 0 && signal && *signal)
		lead->signal_s = now;
	for (int rank = 1; rank < lead->n_ranks; rank++) {
		const struct part *part = &lead->part[rank];

		if (part->n && lead->signal_s > 0 && now - lead->signal_s > GRACE_S)
			lose(lead, rank,
			     "is lost: it gives no answer since the program was told to end");
		else if (part->n && now - part->heard_s > SILENT_S)
			lose(lead, rank, "is lost: it has been silent for 30 s");
	}
}

static void lead_ranks(struct sc_pool *pool, void *run)
{
	struct lead lead = {.run = run, .pool = pool};
	struct sc_ranks *ranks = lead.run->sweep->ranks;
	struct sc_message message;
	bool has_parts = false;

	lead.n_ranks = sc_ranks_count(ranks);
	lead.part =
		sc_arena_calloc(&lead.run->spare->keep, (size_t)lead.n_ranks, sizeof(*lead.part));
	for (int rank = 1; rank < lead.n_ranks; rank++)
		lead.part[rank].n_next = FIRST_PART;
	find_lost(&lead); /* the signal, before work is sent */
	while (hand_out(&lead) || has_parts || !sc_pool_is_done(pool)) {
		pause_us(PAUSE_US);
		while (sc_ranks_next(ranks, &message))
			take_message(&lead, &message);
		find_lost(&lead);
		has_parts = false;
		for (int rank = 1; rank < lead.n_ranks; rank++)
			has_parts = has_parts || lead.part[rank].n;
	}
}

static void list_missing(const struct run *run)
{
	const size_t *rows = run->sweep->rows;
	struct sc_strbuf *out = run->sweep->missing;
	size_t n = 0;

	for (size_t i = 0; out && i < run->n_rows; i++) {
		size_t from = rows ? rows[i] : i, to = from;
		unsigned holder = run->holder[i];

		if (holder == DONE)
			continue;
		while (i + 1 < run->n_rows && run->holder[i + 1] == holder &&
		       (rows ? rows[i + 1] : i + 1) == to + 1) {
			i++;
			to++;
		}
		if (n++ >= MAX_RANGES)
			continue;
		sc_strbuf_printf(out, "%s%zu", out->n ? ", " : "", from + 1);
		if (to > from)
			sc_strbuf_printf(out, "-%zu", to + 1);
		if (holder)
			sc_strbuf_printf(out, " (rank %u)", holder);
	}
	if (n > MAX_RANGES)
		sc_strbuf_printf(out, " and %zu more", n - MAX_RANGES);
}

/* ---- helpers ---- */

static void tick_ranks(struct sc_pool *pool, void *run)
{
	const struct run *own = run;
	struct sc_strbuf nothing = {0};
	double last = sc_now_s();

	while (!sc_pool_is_done(pool)) {
		pause_us(PAUSE_US);
		if (sc_now_s() - last < TICK_S)
			continue;
		sc_ranks_send(own->sweep->ranks, 0, TICK, &nothing);
		last = sc_now_s();
	}
}

static int pack_row(void *ctx, size_t index, const struct sc_outcome *outcome, struct sc_err *err)
{
	struct row_head head = {.outcome = *outcome, .n_error = strlen(outcome->error)};
	struct sc_strbuf *out = ctx;

	(void)index;
	(void)err;
	head.n_warnings = offsetof(struct sc_warnings, text) +
			  outcome->warnings->n * sizeof(*outcome->warnings->text);
	sc_strbuf_append_n(out, (const char *)&head, sizeof(head));
	sc_strbuf_append_n(out, (const char *)outcome->error, head.n_error);
	sc_strbuf_append_n(out, (const char *)outcome->warnings, head.n_warnings);
	return 0;
}

static int do_part(const struct sc_sweep *sweep, struct sc_message *m, struct sc_err *err)
{
	struct sc_sweep own = *sweep;
	struct sc_strbuf bytes = {0};
	struct sc_outcome *outcomes;
	struct work_head head;
	struct sc_arena arena;
	size_t *rows;
	int rc;

	sc_arena_init(&arena, ARENA_BYTES);
	take(m, &head, sizeof(head));
	rows = sc_arena_calloc(&arena, head.n, sizeof(*rows));
	take(m, rows, head.n * sizeof(*rows));
	outcomes = sc_arena_calloc(&arena, head.n, sizeof(*outcomes));
	own.rows = rows;
	own.n_rows = head.n;
	own.opts = &head.opts;
	own.floors = head.floors;
	own.stop = sweep->signal;
	own.take = pack_row;
	own.ctx = &bytes;
	rc = sc_sweep_run(&own, &arena, outcomes, err);
	if (rc == 0 && !sc_ranks_send(sweep->ranks, 0, ROWS, &bytes))
		rc = sc_err_set(err, SC_EIO, "rank 0 takes no rows");
	sc_strbuf_release(&bytes);
	sc_arena_release(&arena);
	return rc;
}

void sc_sweep_excuse(struct sc_ranks *ranks, const struct sc_err *why)
{
	struct sc_strbuf text = {0};

	sc_strbuf_append(&text, why->text);
	sc_ranks_send(ranks, 0, EXCUSE, &text);
	sc_strbuf_release(&text);
}

static int serve(const struct sc_sweep *sweep, struct sc_err *err)
{
	struct sc_strbuf nothing = {0};
	struct sc_message message;
	int rc = 0;

	while (rc == 0 && !*sweep->signal) {
		if (!sc_ranks_next(sweep->ranks, &message)) {
			pause_us(PAUSE_US);
			continue;
		}
		if (message.kind == DISMISS)
			return 0;
		if (message.kind == SC_RANKS_END) {
			sc_ranks_leave(sweep->ranks, sc_ranks_self(sweep->ranks));
			return 0;
		}
		rc = do_part(sweep, &message, err);
	}
	if (!*sweep->signal)
		return rc;
	sc_ranks_send(sweep->ranks, 0, STOPPED, &nothing);
	sc_ranks_leave(sweep->ranks, sc_ranks_self(sweep->ranks));
	return 0;
}

int sc_sweep_serve(const struct sc_sweep *sweep, struct sc_err *err)
{
	const uint64_t same = fingerprint(sweep);
	struct sc_sweep own = *sweep;
	struct sc_strbuf ready = {0};
	int rc;

	sc_ranks_heed(sweep->ranks, sweep->signal);
	sc_strbuf_append_n(&ready, (const char *)&same, sizeof(same));
	sc_ranks_send(sweep->ranks, 0, READY, &ready);
	sc_strbuf_release(&ready);
	if (!sweep->catalog)
		own.catalog = sc_catalog_create();
	rc = serve(&own, err);
	if (!sweep->catalog)
		sc_catalog_destroy(own.catalog);
	return rc;
}

static int run_rows(struct run *run, struct sc_arena *arena, struct sc_err *err)
{
	unsigned n_jobs = run->sweep->n_jobs ? run->sweep->n_jobs : 1;
	void **workers = sc_xrealloc(NULL, n_jobs + 1, sizeof(*workers));
	/* With other ranks small parts, so that all have some. */
	size_t n_threads =
		n_jobs * (run->holder ? 2 * (size_t)sc_ranks_count(run->sweep->ranks) : 1);
	size_t chunk = run->n_rows / n_threads;
	struct order *order = &run->order;
	struct sc_work work = {
		.n_items = run->n_rows,
		.chunk = chunk < ROWS_AT_A_TIME ? chunk : ROWS_AT_A_TIME,
		.n_jobs = n_jobs,
		.item = run_row,
		.shared = run,
		.contexts = workers,
	};
	int rc;

	*order = (struct order){.n = run->sweep->take ? run->n_rows : 0, .n_slots = 4};
	while (order->n_slots < 2 * order->n)
		order->n_slots *= 2;
	pthread_mutex_init(&order->lock, NULL);
	order->warnings = sc_arena_calloc(arena, order->n, sizeof(*order->warnings));
	order->first_like = sc_arena_calloc(arena, order->n_slots, sizeof(*order->first_like));
	for (unsigned i = 0; i <= n_jobs; i++) {
		struct worker *worker = workers[i] = sc_xmalloc(sizeof(*worker));

		worker->predictor = sc_predictor_create();
		sc_arena_init(&worker->scratch, ROW_BLOCK_BYTES);
		sc_arena_init(&worker->keep, KEEP_BLOCK_BYTES);
	}
	run->spare = workers[n_jobs];
	if (run->holder)
		work.beside = sc_ranks_helps(run->sweep->ranks) ? tick_ranks : lead_ranks;
	rc = sc_parallel_for(&work, err);
	/* What is done behind a row that is missing. */
	for (int end = 0; run->holder && rc && order->next < order->n && end == 0; order->next++)
		if (order->warnings[order->next])
			end = hand_over(run, order->next, err);
	if (run->holder && rc)
		list_missing(run);
	/* Error texts move from the threads' arenas to the caller's. */
	for (size_t i = 0; i < run->n_rows; i++)
		if (run->out[i].code != SC_OK)
			run->out[i].error = sc_arena_strdup(arena, run->out[i].error);
	for (unsigned i = 0; i <= n_jobs; i++) {
		struct worker *worker = workers[i];

		sc_predictor_destroy(worker->predictor);
		sc_arena_release(&worker->scratch);
		sc_arena_release(&worker->keep);
		free(worker);
	}
	free(workers);
	for (size_t i = order->next; i < order->n; i++)
		free(order->warnings[i]);
	pthread_mutex_destroy(&order->lock);
	return rc;
}

int sc_sweep_run(const struct sc_sweep *sweep, struct sc_arena *arena, struct sc_outcome *out,
		 struct sc_err *err)
{
	struct run run = {.sweep = sweep, .out = out};
	struct sc_config_table table = {.csv = sweep->cases, .base = sweep->base};
	struct sc_err own = {.code = SC_OK};
	int rc = sc_config_table_bind(&table, arena, err);

	if (rc)
		return rc;
	run.table = &table;
	run.n_rows = sweep->rows ? sweep->n_rows : sweep->cases->n_rows;
	run.catalog = sweep->catalog ? sweep->catalog : sc_catalog_create();
	if (sweep->ranks && sc_ranks_count(sweep->ranks) > 1)
		run.holder = sc_arena_calloc(arena, run.n_rows, sizeof(*run.holder));
	rc = run_rows(&run, arena, &own);
	if (rc)
		*err = run.lost.code ? run.lost : own;
	if (!sweep->catalog)
		sc_catalog_destroy(run.catalog);
	return rc;
}
