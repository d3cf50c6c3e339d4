/* Floors of all candidates, memory first; then simulations, the least floor first, until no floor is below the leaders.
 * Batches of simulations have a fixed size and the leaders change between them alone, so what is simulated does not depend
 * on threads. A candidate is 24 bytes: its code, and what is known of it. */
#include "study/search/split_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/rng.h"
#include "base/search.h"
#include "base/stats.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/vec.h"
#include "study/search/search_priv.h"

/* What a time is worth: every objective is the time times what the GPUs of a row cost. */

const char *const sc_search_objective_names[] = {"time", "throughput", "cost", "energy", NULL};
const char *const sc_search_state_names[] = {"refused", "too_large", "left", "pruned", "simulated"};

static double number_of(const struct sc_searching *s, size_t row, int which)
{
	const struct sc_search_number *number = &s->numbers[which];

	return number->at[number->column < 0
				  ? 0
				  : sc_csv_digit(&s->out->cases, row, (size_t)number->column)];
}

/* Values are read once: a search looks at those of millions of rows. What is none stays the base's; its rows are refused. */
static void read_numbers(struct sc_searching *s)
{
	const struct sc_config *base = &s->facts->config;
	const struct {
		const char *path;
		int64_t base;
	} keys[] = {[SC_SEARCH_GPUS] = {"gpus", base->gpus},
		    [SC_SEARCH_BATCH] = {"training.global_batch", base->training.global_batch},
		    [SC_SEARCH_SEQ] = {"model.seq", base->model.seq}};

	for (int k = 0; k < SC_SEARCH_N_NUMBERS; k++) {
		const int column = sc_csv_column(&s->out->cases, keys[k].path);
		const struct sc_csv_digit *digit =
			column < 0 ? NULL : &s->out->cases.codes->column[column];
		const size_t n = digit ? digit->n : 1;

		s->numbers[k] = (struct sc_search_number){
			column, sc_arena_alloc(s->arena, n * sizeof(double))};
		for (size_t i = 0; i < n; i++) {
			int64_t value = keys[k].base;

			if (digit && !sc_parse_int(digit->values[i], &value))
				value = keys[k].base;
			s->numbers[k].at[i] = (double)value;
		}
	}
}

static bool wants(const struct sc_search *search, enum sc_search_objective objective)
{
	return search->objective[0] == objective ||
	       (search->pareto && search->objective[1] == objective);
}

/* `text`: a value of cluster.gpu, or NULL: the base's. */
static int load_device(const struct sc_searching *s, const char *text, struct sc_search_device *out,
		       struct sc_err *err)
{
	const struct sc_search *search = s->search;
	struct sc_request *request = sc_arena_calloc(s->arena, 1, sizeof(*request));
	struct sc_config config = s->facts->config;
	int rc = 0;

	*out = (struct sc_search_device){.usd_per_hour = -1};
	if (text) {
		config.cluster.gpu = text;
		rc = sc_config_resolve(&config, s->catalog, search->base->file, request, err);
	} else {
		*request = *s->facts;
	}
	if (rc)
		return rc;
	out->id = sc_arena_strdup(s->arena, request->device.id);
	out->watts = request->device.tdp_w;
	out->usd_per_hour = sc_run_price(&search->size, out->id,
					 text ? -1 : request->config.cluster.price_usd_gpu_hour);
	if ((wants(search, SC_SEARCH_COST) || search->size.n_prices) && out->usd_per_hour < 0)
		return sc_err_set(err, SC_EUSAGE,
				  "search: what does a %s cost? --price %s=USD_PER_HOUR, or "
				  "cluster.price_usd_gpu_hour",
				  out->id, out->id);
	if (wants(search, SC_SEARCH_ENERGY) && !(out->watts > 0))
		return sc_err_set(err, SC_EUNSUPPORTED, "search: the profile of %s has no tdp_w",
				  out->id);
	return 0;
}

/* What an objective makes of a row's time. */
static double factor_of(const struct sc_searching *s, size_t row, int objective)
{
	const struct sc_search_device *device =
		&s->devices[s->device_column < 0
				    ? 0
				    : sc_csv_digit(&s->out->cases, row, (size_t)s->device_column)];
	const double one = (double)s->facts->config.training.global_batch;
	const double batch = number_of(s, row, SC_SEARCH_BATCH);
	const double seq = number_of(s, row, SC_SEARCH_SEQ);
	const double gpus = number_of(s, row, SC_SEARCH_GPUS);
	/* iterations that a row is worth: those of the run, or of the samples of one */
	double n = s->search->size.tokens > 0
			   ? s->search->size.tokens / (batch * seq)
			   : (s->search->size.samples > 0 ? s->search->size.samples : one) / batch;
	bool run = sc_search_is_run(s->search);

	switch (s->search->objective[objective]) {
	case SC_SEARCH_THROUGHPUT:
		return gpus / batch;
	case SC_SEARCH_COST:
		return gpus * n * device->usd_per_hour / SC_MS_PER_HOUR;
	case SC_SEARCH_ENERGY:
		return gpus * n * device->watts /
		       (run ? SC_W_PER_KW * SC_MS_PER_HOUR : SC_W_MS_PER_KJ);
	case SC_SEARCH_TIME:
	case SC_SEARCH_N_OBJECTIVES:
		break;
	}
	return run ? n / SC_MS_PER_HOUR : n;
}

/* The devices that rows name, or the base's. */
static int load_devices(struct sc_searching *s, struct sc_err *err)
{
	const int column = sc_csv_column(&s->out->cases, "cluster.gpu");
	const struct sc_csv_digit *digit = column < 0 ? NULL : &s->out->cases.codes->column[column];
	int rc = 0;

	s->device_column = column;
	s->devices = sc_arena_calloc(s->arena, digit ? digit->n : 1, sizeof(*s->devices));
	for (size_t i = 0; i < (digit ? digit->n : 1) && rc == 0; i++)
		rc = load_device(s, digit ? digit->values[i] : NULL, &s->devices[i], err);
	return rc;
}

/* Rows of a block lie side by side and share what a thread remembers; blocks of a batch of floors, at first and most. */
enum { BLOCK = 32, FIRST_BLOCKS = 16, MOST_BLOCKS = 512 };
enum { BATCH = 64, LEAST_SHARED = 16 };
#define FLOORS_FRAC 0.75 /* of a limit of time; what is left is for simulations */
#define SOON_S 0.1       /* between looks at the clock, where there is a limit */

struct ranked {
	double value;
	size_t row;
};
/* Values of both objectives, and the memory. */
struct leader {
	double x, y, gib;
	size_t row;
};
struct run {
	struct sc_searching s;
	SC_VEC(struct leader) leaders; /* all simulated, by x */
	struct sc_intern errors;
	struct sc_arena scratch; /* of a batch of floors */
	uint32_t large;          /* in fits: the capacity that the last one that is too large has */
	bool fits;               /* any does */
};

struct sc_search_case sc_search_case_of(const struct sc_search_result *result, size_t row)
{
	const struct sc_search_row *r = &result->rows[row];
	struct sc_search_case out = {.state = (enum sc_search_state)r->state};

	if (r->state == SC_SEARCH_REFUSED) {
		out.error = result->errors[r->at];
		return out;
	}
	if (r->at != SC_SEARCH_NONE) {
		const struct sc_search_fit *fit = &result->fits[r->at];

		out.memory_gib = fit->memory_gib;
		out.capacity_gib = fit->capacity_gib;
		memcpy(out.factor, fit->factor, sizeof(out.factor));
		out.outcome = r->state == SC_SEARCH_TOO_LARGE ? NULL : fit->outcome;
	}
	out.is_least = r->is_least;
	*(r->state == SC_SEARCH_TOO_LARGE ? &out.memory_gib : &out.floor_ms) = r->number;
	return out;
}

bool sc_search_is_over(const struct sc_searching *s, double frac)
{
	const struct sc_search *search = s->search;

	return (search->stop && *search->stop) ||
	       (search->time_limit_s > 0 && sc_now_s() - s->begin_s > frac * search->time_limit_s);
}

/* Predicts rows, as many outcomes. */
static int search_predict(const struct sc_searching *s, const struct sc_sweep *how,
			  struct sc_arena *arena, struct sc_outcome *out, struct sc_err *err)
{
	struct sc_predict_opts opts;
	struct sc_sweep sweep = *how;

	sc_predict_opts_init(&opts);
	if (s->search->confidence_pct > 0)
		opts.confidence_pct = s->search->confidence_pct;
	sweep.base = s->search->base;
	sweep.cases = &s->out->cases;
	sweep.n_jobs = s->search->n_jobs;
	sweep.catalog = s->catalog;
	if (how->n_rows >= LEAST_SHARED)
		sweep.ranks = s->search->ranks;
	sweep.size = s->search->has_costs ? &s->search->size : NULL;
	if (!sweep.opts)
		sweep.opts = &opts;
	return sc_sweep_run(&sweep, arena, out, err);
}

static struct sc_progress *begin_progress(const struct run *run, const char *title, size_t total)
{
	const struct sc_search *search = run->s.search;

	return search->begin_progress ? search->begin_progress(search->ctx, title, total) : NULL;
}

/* ---- floors ---- */

/* Adds to a list in the arena, which has room for a power of two. */
static uint32_t add_to_list(struct run *run, void *list, size_t *n, const void *item,
			    size_t n_bytes)
{
	char *at = *(char **)list;

	if ((*n & (*n - 1)) == 0) {
		char *more = sc_arena_alloc(run->s.arena, 2 * (*n + 1) * n_bytes);

		if (*n)
			memcpy(more, at, *n * n_bytes);
		*(char **)list = at = more;
	}
	memcpy(at + *n * n_bytes, item, n_bytes);
	return (uint32_t)(*n)++;
}

static struct sc_search_row refused_row(struct run *run, const char *error)
{
	struct sc_search_result *out = run->s.out;
	const uint32_t id = sc_intern_add(&run->errors, error);

	if (id == out->n_errors) {
		error = sc_arena_strdup(run->s.arena, error);
		add_to_list(run, &out->errors, &out->n_errors, &error, sizeof(error));
	}
	return (struct sc_search_row){.state = SC_SEARCH_REFUSED, .at = id};
}

static struct sc_search_row judged_row(struct run *run, const struct sc_outcome *outcome,
				       size_t row)
{
	struct sc_search_result *out = run->s.out;
	const double gib = outcome->memory_total_gib, capacity = outcome->capacity_gib;
	struct sc_search_row made = {.number = gib, .is_least = outcome->memory_is_least};
	struct sc_search_fit fit = {.capacity_gib = capacity};

	if (outcome->code != SC_OK)
		return refused_row(run, outcome->error);
	if (outcome->fits && gib <= capacity * (1 - run->s.search->memory_margin)) {
		fit = (struct sc_search_fit){
			.memory_gib = gib,
			.capacity_gib = capacity,
			.factor = {factor_of(&run->s, row, 0), factor_of(&run->s, row, 1)}};

		made.state = SC_SEARCH_LEFT;
		made.number = outcome->iteration_ms;
		made.at = add_to_list(run, &out->fits, &out->n_fits, &fit, sizeof(fit));
		run->fits = true;
		return made;
	}
	if (out->n_fits == 0 || SC_ORDER(out->fits[run->large].capacity_gib, capacity) != 0)
		run->large = add_to_list(run, &out->fits, &out->n_fits, &fit, sizeof(fit));
	made.state = SC_SEARCH_TOO_LARGE;
	made.at = run->large;
	return made;
}

/* What no row takes less than, its FLOPs at peak: GPU-ms a sample. 0: rows differ in what decides that. */
static double least_gpu_ms(const struct sc_searching *s)
{
	static const char SAME[] =
		"gpus training.global_batch training.micro_batch training.recompute";
	struct sc_predictor *predictor = sc_predictor_create();
	struct sc_prediction *p = sc_arena_calloc(s->arena, 1, sizeof(*p));
	struct sc_predict_opts opts;
	bool same = s->facts->n_kinds <= 1;

	sc_predict_opts_init(&opts);
	for (size_t i = 0; i < s->out->cases.n_cols && same; i++)
		same = strncmp(s->out->cases.header[i], "parallel.", strlen("parallel.")) == 0 ||
		       strstr(SAME, s->out->cases.header[i]);
	if (same && sc_predict(predictor, s->facts, &opts, p, NULL) == 0)
		p->iteration_ms *= (p->mfu_causal > 0 ? p->mfu_causal : p->mfu) *
				   (double)s->facts->config.gpus /
				   (double)s->facts->config.training.global_batch;
	sc_predictor_destroy(predictor);
	return p->iteration_ms;
}

/* Floors of some rows. */
static int judge_rows(struct run *run, const size_t *rows, size_t n, struct sc_err *err)
{
	struct sc_predict_opts opts;
	const struct sc_sweep sweep = {.rows = rows, .n_rows = n, .opts = &opts, .floors = true};
	struct sc_arena_mark mark = sc_arena_mark(&run->scratch);
	struct sc_outcome *outcomes = sc_arena_calloc(&run->scratch, n, sizeof(*outcomes));
	int rc;

	sc_predict_opts_init(&opts);
	opts.memory_first = true;
	opts.margin_frac = run->s.search->memory_margin;
	rc = search_predict(&run->s, &sweep, &run->scratch, outcomes, err);
	for (size_t i = 0; i < n && rc == 0; i++)
		run->s.out->rows[rows[i]] = judged_row(run, &outcomes[i], rows[i]);
	sc_arena_rewind(&run->scratch, mark);
	return rc;
}

static bool is_judged(const struct sc_search_row *row)
{
	return row->at != SC_SEARCH_NONE;
}

/* Rows that there was no time to judge are left with a floor at peak; blocks come in any order, so what there was time
 * for is like the rest. Without one that fits there is no answer: the first is found whatever the time. */
static int find_floors(struct run *run, struct sc_err *err)
{
	struct sc_search_result *out = run->s.out;
	const size_t n_rows = out->cases.n_rows, n_blocks = (n_rows + BLOCK - 1) / BLOCK;
	size_t *blocks = sc_xmalloc(n_blocks * sizeof(*blocks)), most = FIRST_BLOCKS, done = 0;
	size_t *rows = sc_xmalloc(MOST_BLOCKS * BLOCK * sizeof(*rows)), n_now;
	struct sc_progress *progress = begin_progress(run, "floors", n_rows);
	bool over = sc_search_is_over(&run->s, 1);
	struct sc_rng rng;
	int rc = 0;

	sc_rng_init(&rng, 1);
	for (size_t i = 0, to; i < n_blocks; i++) {
		to = sc_rng_below(&rng, i + 1);
		blocks[i] = blocks[to];
		blocks[to] = i;
	}
	for (size_t row = 0; row < n_rows; row++)
		out->rows[row] =
			(struct sc_search_row){.state = SC_SEARCH_LEFT, .at = SC_SEARCH_NONE};
	for (; done < n_blocks && rc == 0 && !(over && run->fits); done += n_now) {
		const double begin_s = sc_now_s();
		size_t n = 0;

		n_now = over ? 1 : n_blocks - done < most ? n_blocks - done : most;
		for (size_t i = 0, row; i < n_now; i++)
			for (row = blocks[done + i] * BLOCK;
			     row < n_rows && row / BLOCK == blocks[done + i]; row++)
				rows[n++] = row;
		rc = judge_rows(run, rows, n, err);
		sc_progress_add(progress, n_now * BLOCK);
		over = sc_search_is_over(&run->s, FLOORS_FRAC);
		if (most < MOST_BLOCKS && sc_now_s() - begin_s < SOON_S)
			most *= 2;
	}
	sc_progress_destroy(progress);
	free(blocks);
	free(rows);
	return rc;
}

/* ---- simulations ---- */

static double floor_value(const struct run *run, size_t row, int objective)
{
	const struct sc_search_row *r = &run->s.out->rows[row];

	return r->number * (is_judged(r) ? run->s.out->fits[r->at].factor[objective]
					 : factor_of(&run->s, row, objective));
}

static double value_of(const struct sc_search_fit *fit, int objective)
{
	return fit->factor[objective] * fit->outcome->iteration_ms;
}

static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return 2 * SC_ORDER(x->value, y->value) + SC_ORDER(x->row, y->row);
}

/* Can it be among those that are shown? */
static bool may_lead(const struct run *run, size_t row)
{
	double x = floor_value(run, row, 0), y = floor_value(run, row, 1);

	if (!run->s.search->pareto)
		return run->leaders.n < SC_SEARCH_MAX_SHOWN ||
		       x <= run->leaders.at[SC_SEARCH_MAX_SHOWN - 1].x;
	for (size_t i = 0; i < run->leaders.n; i++)
		if (run->leaders.at[i].x <= x && run->leaders.at[i].y <= y)
			return false;
	return true;
}

/* Keeps them ascending; what is predicted the same to the last digit leads once. */
static void take_leader(struct run *run, size_t row)
{
	const struct sc_search_fit *fit = &run->s.out->fits[run->s.out->rows[row].at];
	const struct leader now = {value_of(fit, 0), value_of(fit, 1),
				   fit->outcome->memory_total_gib, row};
	size_t i = 0;

	while (i < run->leaders.n && run->leaders.at[i].x < now.x)
		i++;
	for (size_t k = i; k < run->leaders.n && run->leaders.at[k].x <= now.x; k++)
		if (SC_ORDER(run->leaders.at[k].y, now.y) == 0 &&
		    SC_ORDER(run->leaders.at[k].gib, now.gib) == 0)
			return;
	SC_VEC_PUSH(&run->leaders, now);
	memmove(&run->leaders.at[i + 1], &run->leaders.at[i],
		(run->leaders.n - 1 - i) * sizeof(now));
	run->leaders.at[i] = now;
}

static int simulate(struct run *run, const struct ranked *order, size_t n_order, struct sc_err *err)
{
	struct sc_search_result *out = run->s.out;
	struct sc_progress *progress = begin_progress(run, "candidates", n_order);
	struct sc_outcome *outcomes;
	const bool timed = run->s.search->time_limit_s > 0;
	size_t rows[BATCH], n, i = 0, most = timed || sc_search_is_over(&run->s, 1) ? 1 : BATCH;
	int rc = 0;

	while (i < n_order && rc == 0 && !(sc_search_is_over(&run->s, 1) && run->leaders.n)) {
		const double begin_s = sc_now_s();
		size_t from = i;

		for (n = 0; i < n_order && n < most; i++) {
			if (may_lead(run, order[i].row))
				rows[n++] = order[i].row;
			else
				out->rows[order[i].row].state = SC_SEARCH_PRUNED;
		}
		outcomes = sc_arena_calloc(run->s.arena, n, sizeof(*outcomes));
		if (n)
			rc = search_predict(&run->s, &(struct sc_sweep){.rows = rows, .n_rows = n},
					    run->s.arena, outcomes, err);
		for (size_t k = 0; k < n && rc == 0; k++) {
			struct sc_search_row *r = &out->rows[rows[k]];

			if (outcomes[k].code != SC_OK) {
				*r = refused_row(run, outcomes[k].error);
				continue;
			}
			r->state = SC_SEARCH_SIMULATED;
			out->fits[r->at].outcome = &outcomes[k];
			take_leader(run, rows[k]);
		}
		sc_progress_add(progress, i - from);
		if (timed)
			most = (size_t)fmin(BATCH, 1 + SOON_S * (double)n / (sc_now_s() - begin_s));
	}
	sc_progress_destroy(progress);
	return rc;
}

/* ---- the result ---- */

static void show(struct run *run)
{
	struct sc_search_result *out = run->s.out;
	bool pareto = run->s.search->pareto;
	double least = HUGE_VAL;

	out->shown = sc_arena_calloc(run->s.arena, run->leaders.n, sizeof(*out->shown));
	for (size_t i = 0; i < run->leaders.n && (pareto || i < SC_SEARCH_MAX_SHOWN); i++) {
		const struct leader *l = &run->leaders.at[i];

		if (pareto && !(l->y < least))
			continue;
		least = l->y;
		out->shown[out->n_shown++] = (struct sc_search_shown){
			.row = l->row, .value = {l->x, l->y}, .best_in = NAN, .regret_frac = NAN};
	}
}

/* Rows that nobody judged get their floor at peak. */
static void count(struct run *run)
{
	struct sc_search_result *out = run->s.out;
	double least = -1;

	out->floor_value = HUGE_VAL;
	for (size_t row = 0; row < out->cases.n_rows; row++) {
		struct sc_search_row *r = &out->rows[row];

		out->n_in[r->state]++;
		if (r->state != SC_SEARCH_LEFT)
			continue;
		if (!is_judged(r)) {
			least = least < 0 ? least_gpu_ms(&run->s) : least;
			r->number = least * number_of(&run->s, row, SC_SEARCH_BATCH) /
				    number_of(&run->s, row, SC_SEARCH_GPUS);
		}
		out->floor_value = fmin(out->floor_value, floor_value(run, row, 0));
	}
	out->proven = out->n_in[SC_SEARCH_LEFT] == 0;
}

/* Why there is no answer. */
static int none(const struct run *run, struct sc_err *err)
{
	const struct sc_search_result *out = run->s.out;
	const size_t n = out->cases.n_rows;
	const char **refused = sc_arena_calloc(run->s.arena, n, sizeof(*refused));
	struct sc_text_count *why =
		sc_arena_calloc(run->s.arena, sc_intern_count(&run->errors) + 1, sizeof(*why));
	const struct sc_search_row *least = NULL;
	struct sc_strbuf text = {0};
	size_t n_refused = 0;
	double capacity_gib;

	for (size_t row = 0; row < n; row++) {
		const struct sc_search_row *r = &out->rows[row];

		if (r->state == SC_SEARCH_REFUSED)
			refused[n_refused++] = sc_intern_get(&run->errors, r->at);
		if (r->state == SC_SEARCH_TOO_LARGE && (!least || r->number < least->number))
			least = r;
	}
	if (!least) {
		const size_t n_why = sc_texts_count(refused, n_refused, why);

		for (size_t i = 0; i < n_why; i++)
			sc_strbuf_printf(&text, "%s %zu times %s", i ? ";" : "", why[i].n,
					 why[i].text);
		sc_err_set(err, SC_ECONFLICT, "search: none of %zu candidates can be:%s", n,
			   sc_strbuf_get(&text));
		sc_strbuf_release(&text);
		return -SC_ECONFLICT;
	}
	capacity_gib = out->fits[least->at].capacity_gib;
	if (least->number <= capacity_gib * (1 - run->s.search->memory_margin))
		return sc_err_set(
			err, SC_EMISFIT,
			"Does not fit: of none of %zu candidates does what training.offload keeps "
			"go into a node's memory and SSDs; offload less, or take more GPUs",
			out->cases.n_rows);
	return sc_err_set(
		err, SC_EMISFIT,
		"Does not fit: the smallest of %zu candidates needs %s%.1f of %.1f GiB, of which "
		"--memory-margin keeps %.0f %% free; take more GPUs or a smaller margin",
		out->cases.n_rows, least->is_least ? "at least " : "", least->number, capacity_gib,
		100 * run->s.search->memory_margin);
}

/* ---- */

/* What is said of the best: what each of its settings is worth, and how sure it is under model error. */

enum { FEW_ROWS = 16 }; /* predictions between looks at the clock */

/* ---- one setting at a time ---- */

/* Those that a floor kept from being simulated. */
static int simulate_unknown(struct sc_searching *s, const size_t *rows, size_t n,
			    struct sc_err *err)
{
	const struct sc_search_row *at = s->out->rows;
	size_t *unknown = sc_arena_calloc(s->arena, n + 1, sizeof(*unknown)), n_unknown = 0;
	struct sc_outcome *outcomes;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		if (at[rows[i]].state == SC_SEARCH_PRUNED || at[rows[i]].state == SC_SEARCH_LEFT)
			unknown[n_unknown++] = rows[i];
	if (n_unknown == 0)
		return 0;
	outcomes = sc_arena_calloc(s->arena, n_unknown, sizeof(*outcomes));
	for (size_t i = 0; i < n_unknown && rc == 0 && !sc_search_is_over(s, 1); i += FEW_ROWS) {
		size_t n_now = n_unknown - i < FEW_ROWS ? n_unknown - i : FEW_ROWS;

		rc = search_predict(s, &(struct sc_sweep){.rows = unknown + i, .n_rows = n_now},
				    s->arena, outcomes + i, err);
	}
	for (size_t i = 0; i < n_unknown && rc == 0; i++)
		s->out->fits[at[unknown[i]].at].outcome = &outcomes[i];
	return rc;
}

static void take_other(struct sc_searching *s, size_t row, size_t column)
{
	struct sc_search_result *out = s->out;
	const struct sc_search_case c = sc_search_case_of(out, row);
	struct sc_search_other *other = &out->others[out->n_others++];

	*other = (struct sc_search_other){.path = out->cases.header[column],
					  .value = sc_csv_cell(&out->cases, row, column)};
	if (c.state == SC_SEARCH_TOO_LARGE)
		other->text = sc_arena_printf(s->arena, "needs %s%.1f of %.1f GiB",
					      c.is_least ? "at least " : "", c.memory_gib,
					      c.capacity_gib);
	else if (c.state == SC_SEARCH_REFUSED)
		other->text = c.error;
	else if (c.outcome->code != SC_OK)
		other->text = c.outcome->error;
	else
		other->loss = c.factor[0] * c.outcome->iteration_ms / out->shown[0].value[0] - 1;
}

static int compare_codes(const void *a, const void *b)
{
	return SC_ORDER(*(const uint64_t *)a, *(const uint64_t *)b);
}

/* out->others: rows of codes that differ from the best's in one digit. Without them where the search is over before. */
static int find_worth(struct sc_searching *s, struct sc_err *err)
{
	struct sc_search_result *out = s->out;
	const struct sc_csv_codes *codes = out->cases.codes;
	const size_t best = out->shown[0].row;
	SC_VEC(size_t) rows = {0};
	SC_VEC(size_t) columns = {0};
	int rc = 0;

	for (size_t column = 0; column < out->cases.n_cols && !sc_search_is_over(s, 1); column++)
		for (size_t i = 0; i < codes->column[column].n; i++) {
			const struct sc_csv_digit *digit = &codes->column[column];
			const uint64_t code =
				codes->row[best] +
				(i - sc_csv_digit(&out->cases, best, column)) * digit->unit;
			const uint64_t *found = bsearch(&code, codes->row, out->cases.n_rows,
							sizeof(code), compare_codes);
			const size_t row = found ? (size_t)(found - codes->row) : best;

			if (row == best || !is_judged(&out->rows[row]))
				continue;
			SC_VEC_PUSH(&rows, row);
			SC_VEC_PUSH(&columns, column);
		}
	rc = simulate_unknown(s, rows.at, rows.n, err);
	out->others = sc_arena_calloc(s->arena, rows.n + 1, sizeof(*out->others));
	for (size_t i = 0; i < rows.n && rc == 0 && !sc_search_is_over(s, 1); i++)
		take_other(s, rows.at[i], columns.at[i]);
	SC_VEC_RELEASE(&rows);
	SC_VEC_RELEASE(&columns);
	return rc;
}

/* ---- model error ---- */

static double drawn_value(const struct sc_search_result *r, size_t i,
			  const struct sc_outcome *outcomes)
{
	return r->fits[r->rows[r->shown[i].row].at].factor[0] * outcomes[i].iteration_ms;
}

/* Adds what one draw says of those shown. */
static void judge(struct sc_searching *s, const struct sc_outcome *outcomes)
{
	struct sc_search_result *out = s->out;
	double least = HUGE_VAL, n_least = 0;

	for (size_t i = 0; i < out->n_shown; i++)
		least = fmin(least, drawn_value(out, i, outcomes));
	for (size_t i = 0; i < out->n_shown; i++)
		n_least += drawn_value(out, i, outcomes) <= least;
	for (size_t i = 0; i < out->n_shown; i++) {
		double value = drawn_value(out, i, outcomes);

		out->shown[i].regret_frac += (value / least - 1) / SC_SEARCH_DRAWS;
		if (value <= least)
			out->shown[i].best_in += 1 / n_least / SC_SEARCH_DRAWS;
	}
}

/* best_in and regret_frac of out->shown, and its order; without them where the search is over before. */
static int search_regret(struct sc_searching *s, struct sc_err *err)
{
	struct sc_search_result *out = s->out;
	struct sc_outcome *outcomes = sc_arena_calloc(s->arena, out->n_shown, sizeof(*outcomes));
	size_t *rows = sc_arena_calloc(s->arena, out->n_shown, sizeof(*rows));
	struct sc_rng rng;
	int rc = 0, d = 0;

	out->error = sc_model_error_of(s->facts);
	sc_rng_init(&rng, 1);
	for (size_t i = 0; i < out->n_shown; i++) {
		rows[i] = out->shown[i].row;
		out->shown[i].best_in = out->shown[i].regret_frac = 0;
	}
	for (; d < SC_SEARCH_DRAWS && rc == 0 && !sc_search_is_over(s, 1); d++) {
		struct sc_predict_opts opts;

		sc_model_error_draw(&out->error, &rng, &opts);
		rc = search_predict(
			s, &(struct sc_sweep){.rows = rows, .n_rows = out->n_shown, .opts = &opts},
			s->arena, outcomes, err);
		if (rc == 0)
			judge(s, outcomes);
	}
	for (size_t i = 0; i < out->n_shown && d < SC_SEARCH_DRAWS; i++)
		out->shown[i].best_in = out->shown[i].regret_frac = (double)NAN;
	out->by_regret = rc == 0 && d == SC_SEARCH_DRAWS && !s->search->pareto;
	/* the least expected regret first; equal ones stay in their order */
	for (size_t i = 1, k; out->by_regret && i < out->n_shown; i++) {
		const struct sc_search_shown now = out->shown[i];

		for (k = i; k > 0 && now.regret_frac < out->shown[k - 1].regret_frac; k--)
			out->shown[k] = out->shown[k - 1];
		out->shown[k] = now;
	}
	return rc;
}

/* The base with a split that any number of GPUs allows: for what the values of keys depend on. */
static int find_facts(struct sc_searching *s, struct sc_err *err)
{
	struct sc_config config = *s->search->base;
	struct sc_parallel *par = &config.parallel;
	int64_t batch = config.training.global_batch;
	int rc;

	par->tp = par->pp = par->cp = par->ep = par->virtual_stages = 1;
	par->dp = par->etp = par->shard_ranks = SC_NOT_GIVEN;
	par->schedule = SC_SCHED_1F1B;
	par->stage_layers.n = 0;
	par->layout = NULL;
	par->sequence_parallel = par->tp_overlap = false;
	par->vocab_stages = SC_VOCAB_STAGES_NONE;
	config.training.micro_batch = 1;
	if (batch > 0 && batch < config.gpus)
		config.training.global_batch = config.gpus;
	s->facts = sc_arena_calloc(s->arena, 1, sizeof(*s->facts));
	rc = sc_config_resolve(&config, s->catalog, config.file, s->facts, err);
	if (rc == 0 && batch > 0)
		s->facts->config.training.global_batch = batch;
	return rc;
}

/* A default chooses its stack by what each config says; splits are compared, so one stack runs them all. */
static void pin_software(struct sc_searching *s)
{
	struct sc_search *search = sc_arena_alloc(s->arena, sizeof(*search));
	struct sc_config *base = sc_arena_alloc(s->arena, sizeof(*base));

	if (s->search->base->training.software)
		return;
	*search = *s->search;
	*base = *search->base;
	base->training.software = sc_arena_strdup(s->arena, s->facts->software.id);
	search->base = base;
	s->search = s->out->search = search;
}

static int search_all(struct run *run, struct sc_err *err)
{
	const struct sc_search *search = run->s.search;
	struct sc_search_result *out = run->s.out;
	size_t n = 0;
	int rc = sc_search_space(&run->s, err);

	if (rc)
		return rc;
	rc = sc_sweep_begin(&(struct sc_sweep){.base = search->base,
					       .cases = &out->cases,
					       .n_jobs = search->n_jobs,
					       .catalog = run->s.catalog,
					       .ranks = search->ranks,
					       .signal = search->stop,
					       .size = search->has_costs ? &search->size : NULL},
			    err);
	if (rc || sc_ranks_helps(search->ranks))
		return rc;
	out->rows = sc_arena_alloc(run->s.arena, out->cases.n_rows * sizeof(*out->rows));
	read_numbers(&run->s);
	rc = load_devices(&run->s, err);
	if (rc == 0)
		rc = find_floors(run, err);
	if (rc == 0) {
		/* rows that are known to fit, the least floor first */
		struct ranked *order =
			sc_arena_alloc(&run->scratch, (out->n_fits + 1) * sizeof(*order));

		for (size_t row = 0; row < out->cases.n_rows; row++)
			if (out->rows[row].state == SC_SEARCH_LEFT && is_judged(&out->rows[row]))
				order[n++] = (struct ranked){floor_value(run, row, 0), row};
		if (n)
			qsort(order, n, sizeof(*order), compare_ranked);
		rc = simulate(run, order, n, err);
	}
	if (rc)
		return rc;
	count(run);
	if (run->leaders.n == 0)
		return none(run, err);
	show(run);
	if (run->s.search->best_only)
		return 0;
	rc = search_regret(&run->s, err);
	return rc ? rc : find_worth(&run->s, err);
}

int sc_search_run(const struct sc_search *search, struct sc_arena *arena,
		  struct sc_search_result *out, struct sc_err *err)
{
	struct run run = {
		.s = {.search = search, .arena = arena, .out = out, .begin_s = sc_now_s()}};
	int rc;

	*out = (struct sc_search_result){.search = search};
	if (search->base->model.family == SC_DLRM)
		return sc_err_set(
			err, SC_EUNSUPPORTED,
			"search splits Transformers; stepcast shard finds plans of a DLRM");
	sc_arena_init(&run.scratch, 1 << 20);
	run.s.catalog = sc_catalog_create();
	rc = find_facts(&run.s, err);
	if (rc == 0)
		pin_software(&run.s);
	if (rc == 0)
		rc = search_all(&run, err);
	SC_VEC_RELEASE(&run.leaders);
	sc_intern_release(&run.errors);
	sc_arena_release(&run.scratch);
	sc_catalog_destroy(run.s.catalog);
	return rc;
}
