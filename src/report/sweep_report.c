/* CSV as base/csv.h reads it: cells that need it are quoted, numbers have fixed digits. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_out.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "report/parts.h"
#include "report/sweep_report.h"
#include "study/validate/choices.h"

/* A sweep as JSON: what its page shows. */

enum { SWEEP_VERSION = 1, VALIDATE_VERSION = 1 };

void sc_json_outcome(struct sc_json *json, json_t *object, const struct sc_outcome *o,
		     bool has_costs)
{
	SC_JSON_PUT(json, object, *o, iteration_ms, low_ms, high_ms, capacity_gib);
	SC_JSON_PUT(json, object, *o, mfu, samples_per_s, tokens_per_s, fits);
	sc_json_real(json, object, "memory_gib", o->memory_total_gib);
	if (has_costs)
		sc_json_cost(json, object, &o->cost);
}

static void put_sweep_json(const void *result, struct sc_json *json)
{
	const struct sc_sweep_report *all = result;
	const struct sc_csv *cases = all->cases;
	size_t n_fit = 0, n_done = 0;
	json_t *list, *object, *config;

	sc_json_init(json, "stepcast/sweep", SWEEP_VERSION);
	sc_json_base(json, all->base);
	list = sc_json_array(json, json->root, "varied"); /* keys whose cells differ */
	for (size_t c = 0; c < cases->n_cols; c++)
		for (size_t r = 1; r < cases->n_rows; r++)
			if (strcmp(sc_csv_cell(cases, r, c), sc_csv_cell(cases, 0, c)) != 0) {
				sc_json_text(json, list, NULL, cases->header[c]);
				break;
			}
	list = sc_json_array(json, json->root, "cases");
	for (size_t i = 0; i < cases->n_rows; i++) {
		n_done += all->outcomes[i].code == SC_OK;
		n_fit += all->outcomes[i].code == SC_OK && all->outcomes[i].fits;
		object = sc_json_object(json, list, NULL);
		sc_json_int(json, object, "case", (int64_t)i + 1);
		config = sc_json_object(json, object, "config");
		for (size_t c = 0; c < cases->n_cols; c++)
			sc_json_cell(json, config, cases->header[c], sc_csv_cell(cases, i, c));
		if (all->outcomes[i].code != SC_OK)
			sc_json_text(json, object, "error", all->outcomes[i].error);
		else
			sc_json_outcome(json, object, &all->outcomes[i], all->size != NULL);
	}
	sc_json_verdict(json,
			n_fit == 0              ? SC_STANDS_BADLY
			: n_fit < cases->n_rows ? SC_STANDS_FAIR
						: SC_STANDS_WELL,
			"%s%zu of %zu cases fit the memory; %zu could not be predicted.",
			n_fit == 0 && n_done ? "Does not fit: " : "", n_fit, cases->n_rows,
			cases->n_rows - n_done);
}

const struct sc_forms sc_sweep_forms = {.json = put_sweep_json};

/* The columns that a sweep adds: doubles of struct sc_outcome, and texts, which have no offset. */
#define AT(member) offsetof(struct sc_outcome, member)
#define OWNER(owner) AT(breakdown_ms[owner])
#define COSTS(name, member)                                                                 \
	{name "_gpu_hours", AT(cost.member.gpu_hours)}, {name "_usd", AT(cost.member.usd)}, \
	{                                                                                   \
		name "_kwh", AT(cost.member.kwh)                                            \
	}
enum { TEXT = -1 };
static const struct column {
	const char *name;
	long offset;
} COLUMNS[] = {
	{"iteration_ms", AT(iteration_ms)},
	{"low_ms", AT(low_ms)},
	{"high_ms", AT(high_ms)},
	{"compute_ms", OWNER(SC_OWN_COMPUTE)},
	{"memory_bound_ms", OWNER(SC_OWN_MEMORY)},
	{"exposed_comm_ms", OWNER(SC_OWN_COMM)},
	{"bubble_ms", OWNER(SC_OWN_BUBBLE)},
	{"host_ms", OWNER(SC_OWN_HOST)},
	{"peer_wait_ms", OWNER(SC_OWN_PEER)},
	{"optimizer_ms", OWNER(SC_OWN_OPTIMIZER)},
	{"other_ms", OWNER(SC_OWN_OTHER)},
	{"memory_total_gib", AT(memory_total_gib)},
	{"capacity_gib", AT(capacity_gib)},
	{"fits", TEXT}, /* true, false */
	{"mfu", AT(mfu)},
	{"samples_per_s", AT(samples_per_s)},
	{"tokens_per_s", AT(tokens_per_s)},
	{"network_gbps", AT(network_gbps)},
	COSTS("step", step),
	{"run_steps", AT(cost.run.steps)},
	{"run_days", AT(cost.run.days)},
	COSTS("run", run),
	{"same_as", TEXT},  /* the first row with the same prediction, from 1 */
	{"warnings", TEXT}, /* "; " between them */
	{"error", TEXT},    /* why there is none */
};
enum { N_COLUMNS = sizeof(COLUMNS) / sizeof(COLUMNS[0]) };

/* Costs only where they are asked for. */
static bool has_column(const struct sc_run_size *size, const struct column *c)
{
	if (strncmp(c->name, "run_", 4) == 0)
		return size && (size->tokens > 0 || size->samples > 0);
	return size || strncmp(c->name, "step_", 5) != 0;
}

int sc_sweep_csv_check(const struct sc_csv *cases, struct sc_err *err)
{
	for (size_t i = 0; i < cases->n_cols; i++)
		for (size_t k = 0; k < N_COLUMNS; k++)
			if (strcmp(cases->header[i], COLUMNS[k].name) == 0)
				return sc_err_at(
					err, SC_ECONFLICT, cases->file, 1, 0,
					"column \"%s\" is one that sweep adds; rename or remove it",
					cases->header[i]);
	return 0;
}

int sc_sweep_csv_header(const struct sc_sweep_report *all, FILE *out, struct sc_err *err)
{
	const struct sc_csv *cases = all->cases;

	for (size_t i = 0; i < cases->n_cols; i++) {
		sc_csv_put_cell(out, cases->header[i]);
		putc(',', out);
	}
	for (size_t i = 0; i < N_COLUMNS; i++)
		if (has_column(all->size, &COLUMNS[i])) {
			if (all->part && strcmp(COLUMNS[i].name, "same_as") == 0)
				sc_sweep_part_print(all->part, out);
			else
				fputs(COLUMNS[i].name, out);
			putc(i + 1 < N_COLUMNS ? ',' : '\n', out);
		}
	return sc_csv_end(out, err);
}

static void put_text_cell(const char *column, const struct sc_outcome *outcome, bool is_part,
			  FILE *out)
{
	const struct sc_warnings *warnings = outcome->warnings;
	struct sc_strbuf text = {0};

	if (strcmp(column, "fits") == 0)
		fputs(outcome->fits ? "true" : "false", out);
	else if (strcmp(column, "same_as") == 0 && is_part)
		fprintf(out, "%016" PRIx64, outcome->print);
	else if (strcmp(column, "same_as") == 0 && outcome->same_as)
		fprintf(out, "%zu", outcome->same_as);
	else if (strcmp(column, "warnings") == 0) {
		for (size_t i = 0; warnings && i < warnings->n; i++)
			sc_strbuf_printf(&text, "%s%s", i ? "; " : "", warnings->text[i]);
		sc_csv_put_cell(out, sc_strbuf_get(&text));
	}
	sc_strbuf_release(&text);
}

int sc_sweep_csv_row(const struct sc_sweep_report *all, size_t row,
		     const struct sc_outcome *outcome, FILE *out, struct sc_err *err)
{
	const struct sc_csv *cases = all->cases;

	for (size_t i = 0; i < cases->n_cols; i++) {
		sc_csv_put_cell(out, sc_csv_cell(cases, row, i));
		putc(',', out);
	}
	for (size_t i = 0; i + 1 < N_COLUMNS; i++) {
		const struct column *c = &COLUMNS[i];
		bool owner = c->offset >= (long)OWNER(0) && c->offset < (long)OWNER(SC_N_OWNERS);
		double number = NAN;

		if (!has_column(all->size, c))
			continue;
		if (outcome->code == SC_OK && c->offset < 0)
			put_text_cell(c->name, outcome, all->part != NULL, out);
		else if (outcome->code == SC_OK)
			memcpy(&number, (const char *)outcome + c->offset, sizeof(number));
		if (owner)
			number = sc_without_dust(number, outcome->iteration_ms);
		sc_csv_put_numbers(out, &number, 1);
	}
	sc_csv_put_cell(out, outcome->error);
	putc('\n', out);
	return sc_csv_end(out, err);
}

/* case, the `by` columns, measured and predicted, error in percent, why it was skipped. */
static int put_validation_csv(const void *result, FILE *out, struct sc_err *err)
{
	const struct sc_validation *v = result;
	int *columns = sc_xrealloc(NULL, v->n_by + 1, sizeof(*columns));

	fputs("case,", out);
	for (size_t i = 0; i < v->n_by; i++) {
		columns[i] = sc_csv_column(v->table, v->by[i]);
		sc_csv_put_cell(out, v->by[i]);
		putc(',', out);
	}
	fputs("measured_ms,predicted_ms,low_ms,high_ms,error_pct,skipped\n", out);
	for (const struct sc_case *c = v->cases; c < v->cases + v->n_cases; c++) {
		const double numbers[] = {c->measured_ms > 0 ? c->measured_ms : (double)NAN,
					  c->outcome.iteration_ms, c->outcome.low_ms,
					  c->outcome.high_ms, c->error_pct};

		sc_csv_put_cell(out, c->name);
		putc(',', out);
		for (size_t i = 0; i < v->n_by; i++) {
			sc_csv_put_cell(out, sc_csv_cell(v->table, c->row, (size_t)columns[i]));
			putc(',', out);
		}
		sc_csv_put_numbers(out, numbers, c->skipped ? 1 : 5);
		fputs(c->skipped ? ",,,," : "", out);
		if (c->skipped)
			sc_csv_put_cell(out, c->skipped);
		putc('\n', out);
	}
	free(columns);
	return sc_csv_end(out, err);
}

static bool is_like_case(const struct sc_validation *v, const struct sc_case *a,
			 const struct sc_case *b)
{
	if (strcmp(sc_validation_suite(v->table, a->row), sc_validation_suite(v->table, b->row)))
		return false;
	for (int c = SC_LIKE_GPU; c < SC_N_LIKE_COLUMNS; c++)
		if (strcmp(a->outcome.band->like.at[c], b->outcome.band->like.at[c]) != 0)
			return false;
	return true;
}

int sc_likeness_csv_write(const void *validation, FILE *out, struct sc_err *err)
{
	const struct sc_validation *v = validation;
	bool *done = sc_xcalloc(v->n_cases + 1, sizeof(*done));

	if (v->n_cases && !sc_validation_suite(v->table, 0)) {
		free(done);
		return sc_err_at(err, SC_EVALUE, v->table->file, 1, 0,
				 "no column \"suite\" or \"source\", who measured the rows");
	}
	for (int c = 0; c < SC_N_LIKE_COLUMNS; c++)
		fprintf(out, "%s,", sc_like_columns[c]);
	fputs("errors\n", out);
	for (const struct sc_case *first = v->cases; first < v->cases + v->n_cases; first++) {
		if (done[first - v->cases] || first->skipped)
			continue;
		sc_csv_put_cell(out, sc_validation_suite(v->table, first->row));
		for (int c = SC_LIKE_GPU; c < SC_N_LIKE_COLUMNS; c++) {
			putc(',', out);
			sc_csv_put_cell(out, first->outcome.band->like.at[c]);
		}
		for (const struct sc_case *c = first; c < v->cases + v->n_cases; c++) {
			if (done[c - v->cases] || c->skipped || !is_like_case(v, first, c))
				continue;
			done[c - v->cases] = true;
			fprintf(out, "%c%.0f", c == first ? ',' : ' ',
				SC_PER_MILLE * fabs(log(c->measured_ms / c->outcome.iteration_ms)));
		}
		putc('\n', out);
	}
	free(done);
	return sc_csv_end(out, err);
}

/* ---- a validation ---- */

/* Null where there is no case to take it from. */
static void add_score(struct sc_json *json, json_t *object, const struct sc_score *score,
		      bool has_memory)
{
	json_t *skipped = sc_json_array(json, object, "skipped");

	sc_json_int(json, object, "n_rows", (int64_t)score->n_rows);
	sc_json_int(json, object, "n", (int64_t)score->accuracy.n);
	SC_JSON_KNOWN(json, object, score->accuracy, mape_pct, median_ape_pct, p90_ape_pct,
		      geomean_ape_pct, bias_pct);
	SC_JSON_KNOWN(json, object, *score, coverage_pct, band_pct);
	if (has_memory) {
		sc_json_int(json, object, "n_memory", (int64_t)score->memory.n);
		sc_json_known_real(json, object, "memory_mape_pct", score->memory.mape_pct);
	}
	for (size_t i = 0; i < score->n_skipped; i++) {
		json_t *row = sc_json_object(json, skipped, NULL);

		sc_json_text(json, row, "case", score->skipped[i]->name);
		sc_json_text(json, row, "reason", score->skipped[i]->skipped);
	}
}

static void add_validated(struct sc_json *json, const struct sc_validation *v)
{
	json_t *cases = sc_json_array(json, json->root, "cases");
	int group = v->n_groups ? sc_csv_column(v->table, v->groups[0].column) : -1;

	for (size_t i = 0; i < v->n_cases; i++) {
		const struct sc_case *c = &v->cases[i];
		json_t *row = sc_json_object(json, cases, NULL);

		sc_json_text(json, row, "case", c->name);
		if (group >= 0)
			sc_json_text(json, row, "group",
				     sc_csv_cell(v->table, c->row, (size_t)group));
		sc_json_known_real(json, row, "measured_ms", c->measured_ms);
		if (c->kin) {
			SC_JSON_PUT(json, row, *c, kin, over_kin);
		}
		if (c->skipped) {
			sc_json_text(json, row, "skipped", c->skipped);
			continue;
		}
		sc_json_real(json, row, "predicted_ms", c->outcome.iteration_ms);
		SC_JSON_PUT(json, row, c->outcome, low_ms, high_ms);
		sc_json_real(json, row, "error_pct", c->error_pct);
	}
}

static void add_choices(struct sc_json *json, const struct sc_choices *choices)
{
	json_t *object = sc_json_object(json, json->root, "choices");
	json_t *lost = sc_json_array(json, object, "lost");

	sc_json_int(json, object, "n_decisions", (int64_t)choices->n);
	sc_json_int(json, object, "n_suites", (int64_t)choices->n_suites);
	SC_JSON_KNOWN(json, object, *choices, won_pct, gain_pct);
	for (size_t i = 0; i < choices->n; i++) {
		const struct sc_choice *c = &choices->at[i];
		json_t *row;

		if (c->n_won == c->n_repeats)
			continue;
		row = sc_json_object(json, lost, NULL);
		SC_JSON_PUT(json, row, *c, suite, n_won, n_splits);
		sc_json_int(json, row, "n", (int64_t)c->n_repeats);
		sc_json_real(json, row, "loss_pct", SC_PCT * c->loss);
		sc_json_text(json, row, "chosen", c->chosen->name);
		sc_json_text(json, row, "best", c->best->name);
	}
}

/* "a100-sxm-80gb and others: ": of the rows that were predicted. */
static void text_gpus(const struct sc_validation *v, struct sc_strbuf *out)
{
	const int device = sc_csv_column(v->table, "device");
	const char *first = NULL;
	bool others = false;

	for (size_t i = 0; i < v->n_cases; i++) {
		const struct sc_case *c = &v->cases[i];
		const char *gpu = c->outcome.band ? c->outcome.band->like.at[SC_LIKE_GPU]
				  : device >= 0   ? sc_csv_cell(v->table, c->row, (size_t)device)
						  : NULL;

		first = first || c->skipped ? first : gpu;
		others |= first && gpu && !c->skipped && strcmp(first, gpu) != 0;
	}
	if (first)
		sc_strbuf_printf(out, "%s%s: ", first, others ? " and others" : "");
}

static void put_validation_json(const void *result, struct sc_json *json)
{
	const struct sc_validation *v = result;
	const struct sc_score *all = &v->all;
	const int most_pct = v->confidence_pct - 15, half_pct = v->confidence_pct - 30;
	json_t *groups, *column = NULL;
	struct sc_strbuf gpus = {0};
	const char *name = NULL;

	sc_json_init(json, "stepcast/validate", VALIDATE_VERSION);
	sc_json_text(json, json->root, "table", v->table->file);
	text_gpus(v, &gpus);
	/* The bands are the promise: where they hold, all is well. */
	sc_json_verdict(
		json,
		all->accuracy.n == 0 || all->coverage_pct < half_pct ? SC_STANDS_BADLY
		: all->n_skipped || all->coverage_pct < most_pct     ? SC_STANDS_FAIR
								     : SC_STANDS_WELL,
		"%s%zu of %zu rows were predicted; %.0f %% of the measured times are in their "
		"bands, which should hold %d %%.",
		sc_strbuf_get(&gpus), all->accuracy.n, all->n_rows,
		all->accuracy.n ? all->coverage_pct : 0, v->confidence_pct);
	sc_strbuf_release(&gpus);
	sc_json_int(json, json->root, "confidence_pct", v->confidence_pct);
	add_score(json, json->root, &v->all, v->has_memory);
	add_validated(json, v);
	if (v->choices)
		add_choices(json, v->choices);
	groups = sc_json_object(json, json->root, "groups");
	for (size_t i = 0; i < v->n_groups; i++) {
		const struct sc_group_score *group = &v->groups[i];

		if (group->column != name)
			column = sc_json_object(json, groups, group->column);
		name = group->column;
		add_score(json, sc_json_object(json, column, group->value), &group->score,
			  v->has_memory);
	}
}

enum { MAX_SKIPPED_REASONS = 8, MAX_UNLIKE = 8 };

static void append_score(struct sc_strbuf *out, const char *name, const struct sc_score *s)
{
	sc_strbuf_printf(out, "%-28.60s %6zu %6zu", *name ? name : "(empty)", s->n_rows,
			 s->accuracy.n);
	sc_text_known(s->accuracy.mape_pct, 8, 2, out);
	sc_text_known(s->accuracy.median_ape_pct, 8, 2, out);
	sc_text_known(s->accuracy.p90_ape_pct, 8, 2, out);
	sc_text_known(s->accuracy.geomean_ape_pct, 8, 2, out);
	sc_text_known(s->accuracy.bias_pct, 8, 2, out);
	sc_text_known(s->coverage_pct, 8, 2, out);
	sc_text_known(s->band_pct, 8, 2, out);
	sc_strbuf_append_char(out, '\n');
}

static void append_header(struct sc_strbuf *out, const char *name)
{
	sc_strbuf_printf(out, "%-28.60s %6s %6s %8s %8s %8s %8s %8s %8s %8s\n", name, "rows", "n",
			 "MAPE %", "median %", "p90 %", "geo %", "bias %", "cover %", "band %");
}

static void append_skipped(struct sc_strbuf *out, const struct sc_score *score)
{
	const size_t n_all = score->n_skipped;
	const char **texts = sc_xcalloc(n_all + 1, sizeof(*texts));
	struct sc_text_count *reasons = sc_xcalloc(n_all + 1, sizeof(*reasons));
	size_t n, n_left = n_all;

	for (size_t i = 0; i < n_all; i++)
		texts[i] = score->skipped[i]->skipped;
	n = sc_texts_count(texts, n_all, reasons);
	if (n)
		sc_strbuf_printf(out, "\nskipped %zu of %zu rows\n", n_all, score->n_rows);
	for (size_t i = 0; i < n && i < MAX_SKIPPED_REASONS; i++) {
		sc_strbuf_printf(out, "%6zu  %s (first: %s)\n", reasons[i].n, reasons[i].text,
				 score->skipped[reasons[i].first]->name);
		n_left -= reasons[i].n;
	}
	if (n_left)
		sc_strbuf_printf(out, "%6zu  for other reasons; --json and --out-cases list them\n",
				 n_left);
	free(texts);
	free(reasons);
}

void sc_text_unlike(const struct sc_validation *v, struct sc_strbuf *out)
{
	size_t n = 0;

	if (v->n_unlike)
		sc_strbuf_printf(out,
				 "\n%zu rows are not like their kin, which differ in replicas, "
				 "sharding of states and batch alone: a micro-batch takes\n",
				 v->n_unlike);
	for (size_t i = 0; i < v->n_cases; i++) {
		const struct sc_case *c = &v->cases[i];

		if (c->kin && n++ < MAX_UNLIKE)
			sc_strbuf_printf(out, "  %s %.1f times as long as in %s\n", c->name,
					 c->over_kin, c->kin);
	}
	if (n > MAX_UNLIKE)
		sc_strbuf_printf(out, "  and %zu more; --json lists them\n", n - MAX_UNLIKE);
}

static void append_choices(struct sc_strbuf *out, const struct sc_choices *choices)
{
	if (!choices->n) {
		sc_strbuf_append(out, "\nchoice of split: no rows differ in nothing else\n");
		return;
	}
	sc_strbuf_printf(
		out,
		"\nchoice of split: %zu decisions of %zu suites, %.1f %% won (within %.0f %% of "
		"the best), %.1f %% of the possible gain\n",
		choices->n, choices->n_suites, choices->won_pct, SC_PCT * SC_CHOICE_WON,
		choices->gain_pct);
	for (size_t i = 0; i < choices->n; i++) {
		const struct sc_choice *c = &choices->at[i];

		if (c->n_won < c->n_repeats)
			sc_strbuf_printf(
				out,
				"  %s lost %zu of %zu, by %.1f %% on average; at worst, of %zu "
				"splits, %s (%.6g ms) for %s (%.6g ms)\n",
				c->suite, c->n_repeats - c->n_won, c->n_repeats, SC_PCT * c->loss,
				c->n_splits, c->chosen->name, c->chosen->measured_ms, c->best->name,
				c->best->measured_ms);
	}
}

/* One line for all, one for each group, what was skipped, and the choices. */
static void put_validation_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_validation *v = result;
	const char *column = NULL;

	append_header(out, "");
	append_score(out, "all", &v->all);
	if (v->has_memory)
		sc_strbuf_printf(out, "memory: memory_mape_pct %.2f over n_memory %zu\n",
				 v->all.memory.mape_pct, v->all.memory.n);
	for (size_t i = 0; i < v->n_groups; i++) {
		const struct sc_group_score *group = &v->groups[i];

		if (group->column != column) {
			sc_strbuf_append_char(out, '\n');
			append_header(out, group->column);
		}
		column = group->column;
		append_score(out, group->value, &group->score);
	}
	append_skipped(out, &v->all);
	sc_text_unlike(v, out);
	if (v->choices)
		append_choices(out, v->choices);
}

const struct sc_forms sc_validation_forms = {
	.json = put_validation_json, .text = put_validation_text, .csv = put_validation_csv};
