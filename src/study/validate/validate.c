/* Chooses rows, predicts them through a sweep, and scores them whole and by group. */
#include "study/validate/validate.h"

#include <math.h>
#include <string.h>

#include "base/csv_rows.h"
#include "base/fields.h"
#include "base/num.h"
#include "base/search.h"
#include "base/units.h"
#include "study/validate/kin.h"

/* ---- which rows ---- */

struct run {
	const struct sc_validate_opts *opts;
	struct sc_arena *arena;
	struct sc_validation *v;
	size_t *where, *by; /* columns of the options' */
	struct sc_err *err;
};

static int need_column(const struct run *run, const char *option, const char *name, size_t *out)
{
	const struct sc_csv *table = run->opts->table;
	int column = sc_csv_column(table, name);
	const char *near;

	if (column >= 0) {
		*out = (size_t)column;
		return 0;
	}
	near = sc_nearest(name, table->header, table->n_cols);
	return sc_err_set(run->err, SC_EUSAGE, "%s: no column \"%.64s\" in %.64s%s%.64s%s", option,
			  name, table->file, near ? "; did you mean \"" : "", near ? near : "",
			  near ? "\"?" : "");
}

static int find_columns(const struct run *run)
{
	const struct sc_validate_opts *opts = run->opts;
	const size_t *by = run->by;
	int rc = 0;

	for (size_t i = 0; i < opts->n_where && rc == 0; i++)
		rc = need_column(run, "--where", opts->where[i].column, &run->where[i]);
	for (size_t i = 0; i < opts->n_by && rc == 0; i++)
		rc = need_column(run, "--by", opts->by[i], &run->by[i]);
	for (size_t i = 0; i < opts->n_by && rc == 0; i++) {
		for (size_t j = 0; j < i && rc == 0; j++) {
			if (by[i] == by[j])
				rc = sc_err_set(run->err, SC_EUSAGE, "--by: %.64s is given twice",
						opts->by[i]);
		}
	}
	return rc;
}

/* A cell that is no number above 0 ends its row, not the run. */
static void skip_bad(const struct run *run, struct sc_case *c, const struct sc_err *why)
{
	c->skipped = sc_arena_printf(run->arena, "%s:%u:%u: %s", why->file, why->line, why->column,
				     why->text);
	run->v->n_failed++;
	if (run->v->n_bad++ == 0)
		run->v->bad = *why;
}

static void read_number(const struct run *run, struct sc_case *c, const char *column, double *out)
{
	const struct sc_csv *table = run->v->table;
	const char *text = sc_csv_cell(table, c->row, (size_t)sc_csv_column(table, column));
	struct sc_err own = {.code = SC_OK};

	if (c->skipped || !*text || (sc_parse_double(text, out) && *out > 0))
		return;
	sc_csv_cell_error(table, c->row, column, "a number above 0", &own);
	skip_bad(run, c, &own);
}

/* Lists the rows that --where chooses; times of one kind of operation are read later. */
static int choose_cases(const struct run *run)
{
	struct sc_validation *v = run->v;
	const struct sc_csv *table = v->table;
	const bool is_timed = !run->opts->kind;
	int measured = sc_csv_column(table, "measured_ms");
	int name = sc_csv_column(table, is_timed ? "case" : "sweep");

	if (is_timed && measured < 0)
		return sc_err_at(run->err, SC_EVALUE, table->file, 1, 0,
				 "the table has no column \"measured_ms\" to validate against");
	v->cases = sc_arena_calloc(run->arena, table->n_rows, sizeof(*v->cases));
	for (size_t row = 0; row < table->n_rows; row++) {
		struct sc_case *c = &v->cases[v->n_cases];
		const char *given = name < 0 ? "" : sc_csv_cell(table, row, (size_t)name);
		size_t i = 0;

		while (i < run->opts->n_where && strcmp(sc_csv_cell(table, row, run->where[i]),
							run->opts->where[i].value) == 0)
			i++;
		if (i < run->opts->n_where)
			continue;
		*c = (struct sc_case){
			.row = row,
			.name = *given ? given : sc_arena_printf(run->arena, "row %zu", row + 1)};
		if (is_timed && !*sc_csv_cell(table, row, (size_t)measured))
			c->skipped = "measured_ms is empty";
		else if (is_timed)
			read_number(run, c, "measured_ms", &c->measured_ms);
		v->n_cases++;
	}
	return 0;
}

/* ---- memory ---- */

static void read_memory(const struct run *run)
{
	struct sc_validation *v = run->v;
	int column = sc_csv_column(v->table, "memory_gib");

	v->has_memory = column >= 0 && !run->opts->kind;
	for (size_t i = 0; i < v->n_cases && v->has_memory; i++)
		read_number(run, &v->cases[i], "memory_gib", &v->cases[i].memory_gib);
}

static double predicted_gib(const struct sc_csv *table, const struct sc_case *c)
{
	int column = sc_csv_column(table, "memory_kind");
	const char *kind = column < 0 ? "" : sc_csv_cell(table, c->row, (size_t)column);

	return strstr(kind, "peak") ? c->outcome.memory_tensors_gib : c->outcome.memory_total_gib;
}

/* ---- predicting ---- */

const char *sc_validation_suite(const struct sc_csv *table, size_t row)
{
	int column = sc_csv_column(table, "suite");

	if (column < 0)
		column = sc_csv_column(table, "source");
	return column < 0 ? NULL : sc_csv_cell(table, row, (size_t)column);
}

static void leave_out(const struct sc_validate_opts *opts, struct sc_case *c)
{
	struct sc_like like = c->outcome.band->like;
	struct sc_band band;
	double factor;

	if (c->outcome.band->own_ln > 0)
		return; /* runs that are in no row of the file */
	like.at[SC_LIKE_SUITE] = sc_validation_suite(opts->table, c->row);
	sc_band_find(c->outcome.band->from, &like, opts->leave_out, &band);
	factor = sc_band_factor(&band, opts->predict->confidence_pct);
	c->outcome.low_ms = c->outcome.iteration_ms / factor;
	c->outcome.high_ms = c->outcome.iteration_ms * factor;
}

static int predict_cases(const struct run *run)
{
	const struct sc_validate_opts *opts = run->opts;
	struct sc_arena *arena = run->arena;
	struct sc_validation *v = run->v;
	struct sc_outcome *outcomes = sc_arena_calloc(arena, v->n_cases, sizeof(*outcomes));
	size_t *rows = sc_arena_calloc(arena, v->n_cases, sizeof(*rows));
	struct sc_sweep sweep = {
		.base = opts->base,
		.cases = v->table,
		.rows = rows,
		.n_jobs = opts->n_jobs,
		.opts = opts->predict,
		.catalog = opts->catalog,
	};
	size_t at = 0;
	int rc;

	for (size_t i = 0; i < v->n_cases; i++)
		if (!v->cases[i].skipped)
			rows[sweep.n_rows++] = v->cases[i].row;
	if (opts->progress)
		sweep.progress = opts->progress(opts->progress_ctx, sweep.n_rows);
	rc = sc_sweep_run(&sweep, arena, outcomes, run->err);
	sc_progress_destroy(sweep.progress);
	for (size_t i = 0; i < v->n_cases && rc == 0; i++) {
		struct sc_case *c = &v->cases[i];

		if (c->skipped)
			continue;
		c->outcome = outcomes[at++];
		if (c->outcome.code != SC_OK) {
			c->skipped = c->outcome.error;
			v->n_failed += c->outcome.code != SC_EUNSUPPORTED;
			continue;
		}
		v->n_warned += c->outcome.n_warnings > 0;
		c->error_pct = 100.0 * (c->outcome.iteration_ms / c->measured_ms - 1.0);
		c->predicted_gib = predicted_gib(v->table, c);
		if (opts->leave_out)
			leave_out(opts, c);
	}
	return rc;
}

static int guess_cases(const struct run *run)
{
	struct sc_arena *arena = run->arena;
	struct sc_validation *v = run->v;
	struct sc_fit_opts opts = {.table = v->table, .kind = *run->opts->kind, .device = ""};
	struct sc_fit_guess *guesses = sc_arena_calloc(arena, v->n_cases, sizeof(*guesses));
	size_t *rows = sc_arena_calloc(arena, v->n_cases, sizeof(*rows));
	int rc;

	for (size_t i = 0; i < v->n_cases; i++)
		rows[i] = v->cases[i].row;
	rc = sc_fit_guess_rows(&opts, rows, v->n_cases, arena, guesses, run->err);
	for (size_t i = 0; i < v->n_cases && rc == 0; i++) {
		const struct sc_fit_guess *guess = &guesses[i];
		struct sc_case *c = &v->cases[i];

		c->skipped = guess->skipped;
		if (guess->bad)
			skip_bad(run, c, guess->bad);
		if (c->skipped)
			continue;
		c->measured_ms = guess->measured_us / SC_US_PER_MS;
		c->outcome = (struct sc_outcome){.error = "",
						 .iteration_ms = guess->time_us / SC_US_PER_MS,
						 .low_ms = guess->low_us / SC_US_PER_MS,
						 .high_ms = guess->high_us / SC_US_PER_MS};
		c->error_pct = 100.0 * (guess->time_us / guess->measured_us - 1.0);
		v->n_warned += guess->warning != NULL;
		if (!v->first_warning)
			v->first_warning = guess->warning;
	}
	return rc;
}

/* ---- scoring ---- */

/* Scores `cases`, n indices into v->cases. */
static void score_cases(const struct run *run, const size_t *cases, size_t n, struct sc_score *out)
{
	struct sc_arena *arena = run->arena;
	double *predicted = sc_arena_calloc(arena, n, sizeof(*predicted));
	double *measured = sc_arena_calloc(arena, n, sizeof(*measured));
	double *band = sc_arena_calloc(arena, n, sizeof(*band));
	size_t n_inside = 0, n_good = 0;

	*out = (struct sc_score){.n_rows = n};
	out->skipped = sc_arena_calloc(arena, n, sizeof(*out->skipped));
	for (size_t i = 0; i < n; i++) {
		const struct sc_case *c = &run->v->cases[cases[i]];

		if (c->skipped) {
			out->skipped[out->n_skipped++] = c;
			continue;
		}
		predicted[n_good] = c->outcome.iteration_ms;
		measured[n_good] = c->measured_ms;
		band[n_good++] = 100.0 * (c->outcome.high_ms - c->outcome.low_ms) / 2.0 /
				 c->outcome.iteration_ms;
		n_inside +=
			c->measured_ms >= c->outcome.low_ms && c->measured_ms <= c->outcome.high_ms;
	}
	out->accuracy = sc_accuracy_compute(predicted, measured, n_good, arena);
	out->coverage_pct = n_good ? 100.0 * (double)n_inside / (double)n_good : (double)NAN;
	out->band_pct = sc_median_sorting(band, n_good);
	n_good = 0;
	for (size_t i = 0; i < n; i++) {
		const struct sc_case *c = &run->v->cases[cases[i]];

		if (c->skipped || c->memory_gib <= 0)
			continue;
		predicted[n_good] = c->predicted_gib;
		measured[n_good++] = c->memory_gib;
	}
	out->memory = sc_accuracy_compute(predicted, measured, n_good, arena);
}

struct keyed {
	const char *value;
	size_t index; /* of the case */
};

SC_COMPARE(by_value, struct keyed,
	   2 * SC_ORDER(strcmp(a->value, b->value), 0) + SC_ORDER(a->index, b->index));

/* Adds the groups of one column to v->groups, which has room. */
static void score_column(const struct run *run, const char *name, size_t column)
{
	struct sc_arena *arena = run->arena;
	struct sc_validation *v = run->v;
	struct keyed *keyed = sc_arena_calloc(arena, v->n_cases, sizeof(*keyed));
	size_t *indices = sc_arena_calloc(arena, v->n_cases, sizeof(*indices)), end;

	for (size_t i = 0; i < v->n_cases; i++)
		keyed[i] = (struct keyed){sc_csv_cell(v->table, v->cases[i].row, column), i};
	SC_SORT(keyed, v->n_cases, by_value);
	for (size_t i = 0; i < v->n_cases; i++)
		indices[i] = keyed[i].index;
	for (size_t i = 0; i < v->n_cases; i = end) {
		struct sc_group_score *group = &v->groups[v->n_groups++];

		for (end = i; end < v->n_cases && strcmp(keyed[end].value, keyed[i].value) == 0;)
			end++;
		group->column = name;
		group->value = keyed[i].value;
		score_cases(run, indices + i, end - i, &group->score);
	}
}

int sc_validate(const struct sc_validate_opts *opts, struct sc_arena *arena,
		struct sc_validation *out, struct sc_err *err)
{
	struct sc_validation v = {.table = opts->table,
				  .by = opts->by,
				  .n_by = opts->n_by,
				  .confidence_pct = opts->kind ? SC_CONFIDENCE
							       : opts->predict->confidence_pct};
	const struct run run = {.opts = opts,
				.arena = arena,
				.v = &v,
				.where = sc_arena_calloc(arena, opts->n_where, sizeof(size_t)),
				.by = sc_arena_calloc(arena, opts->n_by, sizeof(size_t)),
				.err = err};
	size_t *indices;
	int rc = find_columns(&run);

	if (rc == 0)
		rc = choose_cases(&run);
	if (rc == 0)
		read_memory(&run);
	if (rc == 0)
		rc = opts->kind ? guess_cases(&run) : predict_cases(&run);
	if (rc == 0 && !opts->kind)
		rc = sc_kin_find(opts->base, arena, &v, err);
	if (rc)
		return rc;
	indices = sc_arena_calloc(arena, v.n_cases, sizeof(*indices));
	for (size_t i = 0; i < v.n_cases; i++)
		indices[i] = i;
	score_cases(&run, indices, v.n_cases, &v.all);
	v.groups = sc_arena_calloc(arena, v.n_cases * opts->n_by, sizeof(*v.groups));
	for (size_t i = 0; i < opts->n_by; i++)
		score_column(&run, opts->by[i], run.by[i]);
	*out = v;
	return 0;
}
