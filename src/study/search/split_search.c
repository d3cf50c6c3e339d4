/* Simulations of what fits, the least floor first, until no floor is below the leaders. Their
 * batches have a fixed size and the leaders change between them alone, so what is simulated does
 * not depend on threads. A candidate is the 16 bytes of what is known of it. */
#include "study/search/split_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "base/search.h"
#include "base/stats.h"
#include "base/strbuf.h"
#include "study/search/search_priv.h"

const char *const sc_search_objective_names[] = {"time", "throughput", "cost", "energy", NULL};
const char *const sc_search_state_names[] = {"refused", "too_large", "left", "pruned", "simulated"};

enum { BATCH = 64 };

struct ranked {
	double value;
	size_t row;
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
		const struct sc_search_fit *fit = sc_search_fit_of(result, r->at);

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

	return (search->stop && *search->stop) || (search->ranks && search->ranks->is_over) ||
	       (search->time_limit_s > 0 && sc_search_s(s) > frac * search->time_limit_s);
}

double sc_search_s(const struct sc_searching *s)
{
	const struct sc_ranks *ranks = s->search->ranks;

	return ranks && !ranks->is_over ? ranks->elapsed_s : sc_now_s() - s->begin_s;
}

int sc_search_predict(struct sc_searching *s, const struct sc_sweep *how, struct sc_outcome *out,
		      struct sc_err *err)
{
	struct sc_predict_opts opts;
	struct sc_sweep sweep = s->sweep;

	sc_predict_opts_init(&opts);
	if (s->search->confidence_pct > 0)
		opts.confidence_pct = s->search->confidence_pct;
	sweep.rows = how->rows;
	sweep.n_rows = how->n_rows;
	sweep.floors = how->floors;
	sweep.opts = how->opts ? how->opts : &opts;
	return sc_sweep_run(&sweep, how->floors ? &s->scratch : s->arena, out, err);
}

int sc_search_simulate(struct sc_searching *s, const size_t *rows, size_t n, struct sc_err *err)
{
	struct sc_outcome *outcomes = sc_arena_calloc(s->arena, n, sizeof(*outcomes));
	const struct sc_sweep sweep = {.rows = rows, .n_rows = n};
	int rc = n ? sc_search_predict(s, &sweep, outcomes, err) : 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		sc_search_fit_of(s->out, s->out->rows[rows[i]].at)->outcome = &outcomes[i];
	return rc;
}

static double floor_value(const struct sc_searching *s, size_t row, int objective)
{
	const struct sc_search_row *r = &s->out->rows[row];

	return r->number * (sc_search_is_judged(r)
				    ? sc_search_fit_of(s->out, r->at)->factor[objective]
				    : sc_search_factor(s, row, objective));
}

static double fit_value(const struct sc_search_fit *fit, int objective)
{
	return fit->factor[objective] * fit->outcome->iteration_ms;
}

static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return 2 * SC_ORDER(x->value, y->value) + SC_ORDER(x->row, y->row);
}

/* The row can be among those that are shown. */
static bool may_lead(const struct sc_searching *s, size_t row)
{
	double x = floor_value(s, row, 0), y = floor_value(s, row, 1);

	if (!s->search->pareto)
		return s->leaders.n < SC_SEARCH_MAX_SHOWN ||
		       x <= s->leaders.at[SC_SEARCH_MAX_SHOWN - 1].x;
	for (size_t i = 0; i < s->leaders.n; i++)
		if (s->leaders.at[i].x <= x && s->leaders.at[i].y <= y)
			return false;
	return true;
}

/* Keeps leaders ascending; rows that are predicted the same to the last digit lead once. */
static void take_leader(struct sc_searching *s, size_t row)
{
	const struct sc_search_fit *fit = sc_search_fit_of(s->out, s->out->rows[row].at);
	const struct sc_search_leader now = {fit_value(fit, 0), fit_value(fit, 1),
					     fit->outcome->memory_total_gib, row};
	size_t i = 0;

	while (i < s->leaders.n && s->leaders.at[i].x < now.x)
		i++;
	for (size_t k = i; k < s->leaders.n && s->leaders.at[k].x <= now.x; k++)
		if (SC_ORDER(s->leaders.at[k].y, now.y) == 0 &&
		    SC_ORDER(s->leaders.at[k].gib, now.gib) == 0)
			return;
	SC_VEC_PUSH(&s->leaders, now);
	memmove(&s->leaders.at[i + 1], &s->leaders.at[i], (s->leaders.n - 1 - i) * sizeof(now));
	s->leaders.at[i] = now;
}

/* A row that fitted by its least memory may not fit by all of it. */
static bool take_memory(struct sc_searching *s, struct sc_search_row *r,
			const struct sc_outcome *outcome)
{
	if (!r->is_least)
		return true;
	sc_search_fit_of(s->out, r->at)->memory_gib = outcome->memory_total_gib;
	r->is_least = false;
	if (sc_search_fits(s, outcome))
		return true;
	r->state = SC_SEARCH_TOO_LARGE;
	r->number = outcome->memory_total_gib;
	return false;
}

static int simulate(struct sc_searching *s, const struct ranked *order, size_t n_order,
		    struct sc_err *err)
{
	struct sc_search_result *out = s->out;
	struct sc_progress *progress =
		s->search->begin_progress
			? s->search->begin_progress(s->search->ctx, "candidates", n_order)
			: NULL;
	const bool timed = s->search->time_limit_s > 0;
	size_t rows[BATCH], n, i = 0, most = timed || sc_search_is_over(s, 1) ? 1 : BATCH;
	int rc = 0;

	while (i < n_order && rc == 0 && !(sc_search_is_over(s, 1) && s->leaders.n)) {
		const double begin_s = sc_search_s(s);
		size_t from = i;

		for (n = 0; i < n_order && n < most; i++) {
			if (may_lead(s, order[i].row))
				rows[n++] = order[i].row;
			else
				out->rows[order[i].row].state = SC_SEARCH_PRUNED;
		}
		rc = sc_search_simulate(s, rows, n, err);
		for (size_t k = 0; k < n && rc == 0; k++) {
			struct sc_search_row *r = &out->rows[rows[k]];
			const struct sc_outcome *outcome = sc_search_fit_of(out, r->at)->outcome;

			r->state = SC_SEARCH_SIMULATED;
			if (outcome->code != SC_OK)
				*r = sc_search_refuse(s, outcome->error);
			else if (take_memory(s, r, outcome))
				take_leader(s, rows[k]);
		}
		sc_progress_add(progress, i - from);
		if (timed)
			most = (size_t)fmin(BATCH, 1 + SC_SEARCH_SOON_S * (double)n /
								   (sc_search_s(s) - begin_s));
	}
	sc_progress_destroy(progress);
	return rc;
}

static void show(struct sc_searching *s)
{
	struct sc_search_result *out = s->out;
	bool pareto = s->search->pareto;
	double least = HUGE_VAL;

	out->shown = sc_arena_calloc(s->arena, s->leaders.n, sizeof(*out->shown));
	for (size_t i = 0; i < s->leaders.n && (pareto || i < SC_SEARCH_MAX_SHOWN); i++) {
		const struct sc_search_leader *l = &s->leaders.at[i];

		if (pareto && !(l->y < least))
			continue;
		least = l->y;
		out->shown[out->n_shown++] = (struct sc_search_shown){
			.row = l->row, .value = {l->x, l->y}, .best_in = NAN, .regret_frac = NAN};
	}
}

/* Counts rows by state; rows that nobody judged get their floor at peak. */
static void count(struct sc_searching *s)
{
	struct sc_search_result *out = s->out;
	double least = -1;

	out->errors =
		sc_arena_calloc(s->arena, sc_intern_count(&s->errors) + 1, sizeof(*out->errors));
	for (uint32_t id = 0; id < sc_intern_count(&s->errors); id++)
		out->errors[id] = sc_arena_strdup(s->arena, sc_intern_get(&s->errors, id));
	out->floor_value = HUGE_VAL;
	for (size_t row = 0; row < out->cases.n_rows; row++) {
		struct sc_search_row *r = &out->rows[row];

		out->n_in[r->state]++;
		if (r->state != SC_SEARCH_LEFT)
			continue;
		if (!sc_search_is_judged(r)) {
			least = least < 0 ? sc_search_least_gpu_ms(s) : least;
			r->number = least * sc_search_number(s, row, SC_SEARCH_BATCH) /
				    sc_search_number(s, row, SC_SEARCH_GPUS);
		}
		out->floor_value = fmin(out->floor_value, floor_value(s, row, 0));
	}
	out->proven = out->n_in[SC_SEARCH_LEFT] == 0;
}

/* Tells why there is no answer. */
static int none(const struct sc_searching *s, struct sc_err *err)
{
	const struct sc_search_result *out = s->out;
	const size_t n = out->cases.n_rows;
	const char **refused = sc_arena_calloc(s->arena, n, sizeof(*refused));
	struct sc_text_count *why =
		sc_arena_calloc(s->arena, sc_intern_count(&s->errors) + 1, sizeof(*why));
	const struct sc_search_row *least = NULL;
	struct sc_strbuf text = {0};
	size_t n_refused = 0;
	double capacity_gib;

	for (size_t row = 0; row < n; row++) {
		const struct sc_search_row *r = &out->rows[row];

		if (r->state == SC_SEARCH_REFUSED)
			refused[n_refused++] = out->errors[r->at];
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
	capacity_gib = sc_search_fit_of(out, least->at)->capacity_gib;
	if (least->number <= capacity_gib * (1 - s->search->memory_margin))
		return sc_err_set(
			err, SC_EMISFIT,
			"Does not fit: where the GPUs have room, all of %zu candidates offload more "
			"than a node's memory and SSDs hold (cluster.host_memory_gib); offload "
			"less, or take more GPUs",
			out->cases.n_rows);
	return sc_err_set(
		err, SC_EMISFIT,
		"Does not fit: the smallest of %zu candidates needs %s%.1f of %.1f GiB, of which "
		"--memory-margin keeps %.0f %% free; take more GPUs, a smaller margin, or --choose "
		"training.offload.optimizer=none,cpu",
		out->cases.n_rows, least->is_least ? "at least " : "", least->number, capacity_gib,
		100 * s->search->memory_margin);
}

/* Resolves the base with a split that any number of GPUs allows, because the values of keys depend
 * on its facts. */
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

/* A default chooses its stack by what each config says; splits are compared, so one stack runs them
 * all. */
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

static int search_all(struct sc_searching *s, struct sc_err *err)
{
	const struct sc_search *search = s->search;
	struct sc_search_result *out = s->out;
	size_t n = 0;
	int rc = sc_search_space(s, err);

	if (rc)
		return rc;
	s->sweep = (struct sc_sweep){
		.base = search->base,
		.cases = &out->cases,
		.n_jobs = search->n_jobs,
		.catalog = s->catalog,
		.workers = sc_sweep_workers_create(search->n_jobs + !search->n_jobs, s->catalog),
		.ranks = search->ranks,
		.size = search->has_costs ? &search->size : NULL};
	out->rows = sc_arena_alloc(s->arena, out->cases.n_rows * sizeof(*out->rows));
	rc = sc_search_read_values(s, err);
	if (rc == 0)
		rc = sc_search_floors(s, err);
	if (rc == 0) {
		/* The order has the rows that are known to fit, the least floor first. */
		struct ranked *order =
			sc_arena_alloc(&s->scratch, (out->n_fits + 1) * sizeof(*order));

		for (size_t row = 0; row < out->cases.n_rows; row++)
			if (out->rows[row].state == SC_SEARCH_LEFT &&
			    sc_search_is_judged(&out->rows[row]))
				order[n++] = (struct ranked){floor_value(s, row, 0), row};
		if (n)
			qsort(order, n, sizeof(*order), compare_ranked);
		rc = simulate(s, order, n, err);
	}
	if (rc)
		return rc;
	count(s);
	if (s->leaders.n == 0)
		return none(s, err);
	show(s);
	if (s->search->best_only)
		return 0;
	rc = sc_search_regret(s, err);
	return rc ? rc : sc_search_others(s, err);
}

int sc_search_run(const struct sc_search *search, struct sc_arena *arena,
		  struct sc_search_result *out, struct sc_err *err)
{
	struct sc_searching s = {
		.search = search, .arena = arena, .out = out, .begin_s = sc_now_s()};
	int rc;

	*out = (struct sc_search_result){.search = search};
	if (search->base->model.family == SC_DLRM)
		return sc_err_set(
			err, SC_EUNSUPPORTED,
			"search splits Transformers; stepcast shard finds plans of a DLRM");
	if (search->ranks) {
		search->ranks->signal = search->stop;
		search->ranks->begin_s = s.begin_s;
		search->ranks->elapsed_s = 0;
	}
	sc_arena_init(&s.scratch, 1 << 20);
	s.catalog = sc_catalog_create();
	rc = find_facts(&s, err);
	if (rc == 0)
		pin_software(&s);
	if (rc == 0)
		rc = search_all(&s, err);
	sc_sweep_workers_destroy(s.sweep.workers, search->n_jobs + !search->n_jobs);
	SC_VEC_RELEASE(&s.leaders);
	sc_intern_release(&s.errors);
	sc_arena_release(&s.scratch);
	sc_catalog_destroy(s.catalog);
	return rc;
}
