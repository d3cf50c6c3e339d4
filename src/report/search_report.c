/* A search and a scaling table, as text, JSON and CSV: the best candidates, near ties, and whether
 * it is proven. */
#include <math.h>
#include <string.h>

#include "base/json_out.h"
#include "base/units.h"
#include "report/forms.h"
#include "report/parts.h"
#include "report/sweep_report.h"
#include "study/search/split_search.h"

enum { SEARCH_VERSION = 1, MAX_POINTS = 500 };
/* A candidate that is as good as the best in so many draws of model error is a tie. */
#define TIE_SHARE 0.1

static int n_objectives(const struct sc_search_result *r)
{
	return r->search->pareto ? 2 : 1;
}

/* ---- text ---- */

/* The shown candidate of the least value. */
static size_t fastest_shown(const struct sc_search_result *r)
{
	size_t least = 0;

	for (size_t i = 1; i < r->n_shown; i++)
		if (r->shown[i].value[0] < r->shown[least].value[0])
			least = i;
	return least;
}

/* Tells how the best does without model error, which is proven where nothing was left. */
static void put_rule(const struct sc_search_result *r, struct sc_strbuf *out)
{
	const struct sc_search_shown *best = &r->shown[0], *least = &r->shown[fastest_shown(r)];
	const char *what = sc_search_objective_names[r->search->objective[0]];

	if (best == least) {
		sc_strbuf_printf(out, "  it has the least %s without model error, too%s\n", what,
				 r->proven ? ": proven" : "");
		return;
	}
	sc_strbuf_printf(out,
			 "  the least %s without model error%s is rank %zu's: %.2f %% less, regret "
			 "%.2f %% in place of %.2f %%\n",
			 what, r->proven ? ", proven," : " so far", (size_t)(least - r->shown) + 1,
			 100 * (1 - least->value[0] / best->value[0]), 100 * least->regret_frac,
			 100 * best->regret_frac);
}

/* The unit in which the values of an objective are printed. */
static const char *search_unit(const struct sc_search *search, enum sc_search_objective objective)
{
	static const char *const of_step[] = {"ms", "GPU-ms a sample", "USD", "kJ"};
	static const char *const of_run[] = {"h", "GPU-ms a sample", "USD", "kWh"};

	return (sc_search_is_run(search) ? of_run : of_step)[objective];
}

/* Prints a value of an objective; a run's time is printed as people count it. */
static void put_value(const struct sc_search_result *r, int i, double value, int width,
		      struct sc_strbuf *out)
{
	struct sc_strbuf time = {0};

	if (r->search->objective[i] == SC_SEARCH_TIME && sc_search_is_run(r->search)) {
		sc_text_ms(value * SC_MS_PER_HOUR, &time);
		sc_strbuf_printf(out, "%*s", width, sc_strbuf_get(&time));
	} else {
		sc_strbuf_printf(out, "%*.6g", width, value);
	}
	sc_strbuf_release(&time);
}

static void put_best(const struct sc_search_result *r, struct sc_strbuf *out)
{
	const struct sc_search_case c = sc_search_case_of(r, r->shown[0].row);
	const struct sc_outcome *o = c.outcome;
	const struct sc_time_unit unit = sc_time_unit_of(o->iteration_ms);

	sc_strbuf_printf(out, "best%s", r->proven ? "" : " so far");
	if (r->by_regret)
		sc_strbuf_printf(out, " by least expected regret (%.2f %%)",
				 100 * r->shown[0].regret_frac);
	else if (r->proven)
		sc_strbuf_append(out, ", proven under the model");
	if (!r->proven && r->floor_value > 0)
		sc_strbuf_printf(out, ", at most %.1f %% above what was left",
				 fmax(0, 100 * (r->shown[0].value[0] / r->floor_value - 1)));
	else if (!r->proven)
		sc_strbuf_append(out, ", with no bound on what was left");
	sc_strbuf_printf(out,
			 ": %.2f %s (%d %% band %.2f to %.2f), %.1f %% MFU, %.1f of %.1f GiB\n",
			 o->iteration_ms / unit.ms, unit.name, r->search->confidence_pct,
			 o->low_ms / unit.ms, o->high_ms / unit.ms, 100 * o->mfu, c.memory_gib,
			 c.capacity_gib);
	if (r->search->has_costs)
		sc_text_costs(&o->cost, out);
	if (r->by_regret)
		put_rule(r, out);
	for (int i = 0; i < n_objectives(r); i++) {
		enum sc_search_objective what = r->search->objective[i];
		bool run = sc_search_is_run(r->search) && what != SC_SEARCH_THROUGHPUT;

		if (what == SC_SEARCH_TIME && !run)
			continue;
		sc_strbuf_printf(out, "  %s%s: ", sc_search_objective_names[what],
				 run ? " of the run" : "");
		put_value(r, i, r->shown[0].value[i], 0, out);
		if (what != SC_SEARCH_TIME)
			sc_strbuf_printf(out, " %s", search_unit(r->search, what));
		sc_strbuf_append_char(out, '\n');
	}
	for (size_t i = 0; i < r->cases.n_cols; i++)
		sc_strbuf_printf(out, "  %-28s %s\n", r->cases.header[i],
				 sc_csv_cell(&r->cases, r->shown[0].row, i));
}

static void put_shown(const struct sc_search_result *r, struct sc_strbuf *out)
{
	const struct sc_time_unit unit =
		sc_time_unit_of(sc_search_case_of(r, r->shown[0].row).outcome->iteration_ms);
	/* The time of a step stands in a column of its own. */
	const bool is_step =
		r->search->objective[0] == SC_SEARCH_TIME && !sc_search_is_run(r->search);
	size_t n_ties = 0;

	sc_strbuf_printf(out, "\n%s\n  rank", r->search->pareto ? "front" : "the best that differ");
	if (!is_step)
		sc_strbuf_printf(out, " %12s", sc_search_objective_names[r->search->objective[0]]);
	sc_strbuf_printf(out, " %12s %9s %6s %8s %8s  against the best\n",
			 r->search->pareto ? sc_search_objective_names[r->search->objective[1]]
					   : "loss %",
			 unit.name, "GiB", "best in", "regret");
	for (size_t i = 0; i < r->n_shown; i++) {
		const struct sc_search_shown *s = &r->shown[i];
		const struct sc_search_case c = sc_search_case_of(r, s->row);

		sc_strbuf_printf(out, "  %4zu ", i + 1);
		if (!is_step)
			put_value(r, 0, s->value[0], 12, out);
		if (r->search->pareto)
			put_value(r, 1, s->value[1], 12 + !is_step, out);
		else
			sc_strbuf_printf(out, "%*.2f", 12 + !is_step,
					 100 * (s->value[0] / r->shown[0].value[0] - 1));
		sc_strbuf_printf(out, " %9.2f %6.1f", c.outcome->iteration_ms / unit.ms,
				 c.memory_gib);
		if (isnan(s->best_in))
			sc_strbuf_printf(out, " %8s %8s", "-", "-");
		else
			sc_strbuf_printf(out, " %6.0f %% %6.2f %%", 100 * s->best_in,
					 100 * s->regret_frac);
		for (size_t k = 0; k < r->cases.n_cols;
		     k++) { /* what it has otherwise than the best */
			const char *value = sc_csv_cell(&r->cases, s->row, k);
			const char *key = r->cases.header[k], *dot = strrchr(key, '.');

			if (strcmp(value, sc_csv_cell(&r->cases, r->shown[0].row, k)) != 0)
				sc_strbuf_printf(out, "  %s %s", dot ? dot + 1 : key, value);
		}
		sc_strbuf_append(out, "\n");
		n_ties += i > 0 && s->best_in >= TIE_SHARE;
	}
	if (!isnan(r->shown[0].best_in))
		sc_strbuf_printf(
			out,
			"  best in: of %d draws of model error (kernels %.1f %%, links %.1f %%), shared "
			"by all\n",
			SC_SEARCH_DRAWS, 100 * r->error.kernels, 100 * r->error.links);
	if (n_ties)
		sc_strbuf_printf(
			out, "  a near tie: %zu other%s the best in %.0f %% of the draws or more\n",
			n_ties, n_ties > 1 ? "s are" : " is", 100 * TIE_SHARE);
}

static void put_others(const struct sc_search_result *r, struct sc_strbuf *out)
{
	const char *path = "";

	if (r->n_others)
		sc_strbuf_append(
			out, "\nwhat each setting is worth: the loss where it alone is changed");
	for (size_t i = 0; i < r->n_others; i++) {
		const struct sc_search_other *o = &r->others[i];

		if (strcmp(path, o->path) != 0)
			sc_strbuf_printf(out, "\n  %-28s", o->path);
		path = o->path;
		if (o->text)
			sc_strbuf_printf(out, "  %s: %.60s", o->value,
					 strncmp(o->text, "needs", 5) == 0 ? o->text : "refused");
		else
			sc_strbuf_printf(out, "  %s: %+.1f %%", o->value, 100 * o->loss);
	}
	if (r->n_others)
		sc_strbuf_append(out, "\n");
}

static void put_search_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_search_result *r = result;

	sc_strbuf_printf(
		out,
		"%zu candidates: %zu refused, %zu too large for %.0f %% of the memory, %zu "
		"pruned by their floor, %zu simulated",
		r->cases.n_rows, r->n_in[SC_SEARCH_REFUSED], r->n_in[SC_SEARCH_TOO_LARGE],
		100 * (1 - r->search->memory_margin), r->n_in[SC_SEARCH_PRUNED],
		r->n_in[SC_SEARCH_SIMULATED]);
	if (r->n_in[SC_SEARCH_LEFT])
		sc_strbuf_printf(out, ", %zu left for want of time", r->n_in[SC_SEARCH_LEFT]);
	sc_strbuf_append(out, "\n");
	put_best(r, out);
	put_shown(r, out);
	put_others(r, out);
}

/* ---- JSON ---- */

static void add_settings(const struct sc_search_result *r, size_t row, struct sc_json *json,
			 json_t *object)
{
	json_t *keys = sc_json_object(json, object, "config");

	for (size_t k = 0; k < r->cases.n_cols; k++)
		sc_json_cell(json, keys, r->cases.header[k], sc_csv_cell(&r->cases, row, k));
}

static void add_search_verdict(const struct sc_search_result *r, struct sc_json *json)
{
	if (r->by_regret && r->proven)
		sc_json_verdict(
			json, SC_STANDS_WELL,
			"The least expected regret of the %zu best of %zu candidates. Without "
			"model error rank %zu is the best, proven.",
			r->n_shown, r->cases.n_rows, fastest_shown(r) + 1);
	else if (r->proven)
		sc_json_verdict(json, SC_STANDS_WELL,
				"The best of %zu candidates, proven under the model.",
				r->cases.n_rows);
	else
		sc_json_verdict(json, SC_STANDS_FAIR,
				"The best so far: %zu candidates were left for want of time.",
				r->n_in[SC_SEARCH_LEFT]);
}

static void add_landscape(const struct sc_search_result *r, struct sc_json *json)
{
	json_t *landscape = sc_json_object(json, json->root, "landscape");
	json_t *simulated = sc_json_array(json, landscape, "simulated");

	for (size_t i = 0, n = 0; i < r->cases.n_rows && n < MAX_POINTS; i++) {
		const struct sc_search_case c = sc_search_case_of(r, i);
		json_t *point, *values;

		if (c.state != SC_SEARCH_SIMULATED)
			continue;
		n++;
		point = sc_json_object(json, simulated, NULL);
		add_settings(r, i, json, point);
		values = sc_json_object(json, point, "values");
		for (int k = 0; k < n_objectives(r); k++)
			sc_json_real(json, values,
				     sc_search_objective_names[r->search->objective[k]],
				     c.factor[k] * c.outcome->iteration_ms);
		sc_json_real(json, point, "memory_gib", c.memory_gib);
	}
}

static void put_search_json(const void *result, struct sc_json *json)
{
	const struct sc_search_result *r = result;
	json_t *counts, *units, *shown, *others;

	sc_json_init(json, "stepcast/search", SEARCH_VERSION);
	sc_json_base(json, r->search->base);
	add_search_verdict(r, json);
	add_landscape(r, json);
	counts = sc_json_object(json, json->root, "candidates");
	for (int s = 0; s < SC_SEARCH_N_STATES; s++)
		sc_json_int(json, counts, sc_search_state_names[s], (int64_t)r->n_in[s]);
	sc_json_bool(json, json->root, "proven", r->proven);
	sc_json_bool(json, json->root, "pareto", r->search->pareto);
	sc_json_text(json, json->root, "best_by", r->by_regret ? "least_expected_regret" : "model");
	sc_json_real(json, json->root, "memory_margin_frac", r->search->memory_margin);
	units = sc_json_object(json, json->root, "units");
	others = sc_json_array(json, json->root, "objectives");
	for (int k = 0; k < n_objectives(r); k++) {
		const char *name = sc_search_objective_names[r->search->objective[k]];

		sc_json_text(json, others, NULL, name);
		sc_json_text(json, units, name, search_unit(r->search, r->search->objective[k]));
	}
	shown = sc_json_array(json, json->root, "best");
	for (size_t i = 0; i < r->n_shown; i++) {
		const struct sc_search_shown *s = &r->shown[i];
		json_t *object = sc_json_object(json, shown, NULL);
		json_t *values = sc_json_object(json, object, "values");

		add_settings(r, s->row, json, object);
		for (int k = 0; k < n_objectives(r); k++)
			sc_json_real(json, values,
				     sc_search_objective_names[r->search->objective[k]],
				     s->value[k]);
		sc_json_outcome(json, object, sc_search_case_of(r, s->row).outcome,
				r->search->has_costs);
		SC_JSON_KNOWN(json, object, *s, best_in, regret_frac);
	}
	others = sc_json_array(json, json->root, "settings");
	for (size_t i = 0; i < r->n_others; i++) {
		json_t *object = sc_json_object(json, others, NULL);

		sc_json_text(json, object, "path", r->others[i].path);
		sc_json_cell(json, object, "value", r->others[i].value);
		sc_json_known_real(json, object, "loss_frac",
				   r->others[i].text ? (double)NAN : r->others[i].loss);
		sc_json_text(json, object, "refused", r->others[i].text);
	}
}

/* ---- CSV ---- */

/* Columns: the keys; state; floor_ms, iteration_ms, low_ms, high_ms, memory_gib, capacity_gib:
 * empty where not known; the values of the objectives; error. */
static int put_csv(const void *result, FILE *out, struct sc_err *err)
{
	const struct sc_search_result *r = result;

	for (size_t i = 0; i < r->cases.n_cols; i++)
		fprintf(out, "%s,", r->cases.header[i]);
	fputs("state,floor_ms,iteration_ms,low_ms,high_ms,memory_gib,capacity_gib,", out);
	for (int i = 0; i < n_objectives(r); i++)
		fprintf(out, "%s,", sc_search_objective_names[r->search->objective[i]]);
	fputs("error\n", out);
	for (size_t row = 0; row < r->cases.n_rows; row++) {
		static const struct sc_outcome UNKNOWN = {
			.iteration_ms = (double)NAN, .low_ms = (double)NAN, .high_ms = (double)NAN};
		const struct sc_search_case c = sc_search_case_of(r, row);
		const struct sc_outcome *o = c.state == SC_SEARCH_SIMULATED ? c.outcome : &UNKNOWN;
		const bool has_memory = c.memory_gib > 0 && !c.is_least;
		const double numbers[] = {c.floor_ms > 0 ? c.floor_ms : (double)NAN,
					  o->iteration_ms,
					  o->low_ms,
					  o->high_ms,
					  has_memory ? c.memory_gib : (double)NAN,
					  c.capacity_gib > 0 ? c.capacity_gib : (double)NAN,
					  o->iteration_ms * c.factor[0],
					  o->iteration_ms * c.factor[1]};

		for (size_t i = 0; i < r->cases.n_cols; i++) {
			sc_csv_put_cell(out, sc_csv_cell(&r->cases, row, i));
			putc(',', out);
		}
		fprintf(out, "%s,", sc_search_state_names[c.state]);
		sc_csv_put_numbers(out, numbers, 6 + (size_t)n_objectives(r));
		sc_csv_put_cell(out, c.error ? c.error : "");
		putc('\n', out);
	}
	return sc_csv_end(out, err);
}

const struct sc_forms sc_search_forms = {
	.json = put_search_json, .text = put_search_text, .csv = put_csv};

/* ---- scaling ---- */

static void put_scaling_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_scaling *scaling = result;
	const struct sc_search *search = scaling->search;
	const bool run = sc_search_is_run(search);

	sc_strbuf_printf(out, "%s scaling, the best split of each size%s\n",
			 scaling->weak ? "weak" : "strong",
			 !search->has_costs ? ""
			 : run              ? "; cost of the run"
					    : "; cost of a step");
	sc_strbuf_printf(out, "%8s %12s %12s %9s %7s %8s", "gpus", "iteration", "tokens/s",
			 "speedup", "eff %", "GiB");
	if (search->has_costs)
		sc_strbuf_printf(out, " %12s %12s %12s", "GPU-hours", "USD", "kWh");
	if (run)
		sc_strbuf_printf(out, " %12s", "takes");
	sc_strbuf_append(out, "  split\n");
	for (size_t i = 0; i < scaling->n; i++) {
		const struct sc_scaling_point *p = &scaling->points[i];
		const struct sc_amounts *cost = run ? &p->best.cost.run : &p->best.cost.step;
		const double amounts[] = {cost->gpu_hours, cost->usd, cost->kwh};
		struct sc_strbuf cell = {0};

		if (p->error) {
			sc_strbuf_printf(out, "%8lld  %s\n", (long long)p->gpus, p->error);
			continue;
		}
		sc_strbuf_printf(out, "%8lld", (long long)p->gpus);
		sc_text_ms(p->best.iteration_ms, &cell);
		sc_strbuf_printf(out, " %12s", sc_strbuf_get(&cell));
		sc_strbuf_clear(&cell);
		sc_text_grouped(p->best.tokens_per_s, &cell);
		sc_strbuf_printf(out, " %12s %9.2f %7.1f %8.1f", sc_strbuf_get(&cell), p->speedup,
				 100 * p->efficiency, p->best.memory_total_gib);
		for (size_t k = 0; k < 3 + (size_t)run && search->has_costs; k++) {
			sc_strbuf_clear(&cell);
			if (k == 3)
				sc_text_ms(cost->days * 24 * SC_MS_PER_HOUR, &cell);
			else if (isfinite(amounts[k]))
				sc_text_grouped(amounts[k], &cell);
			sc_strbuf_printf(out, " %12s", cell.n ? sc_strbuf_get(&cell) : "-");
		}
		sc_strbuf_release(&cell);
		sc_strbuf_printf(out, "  %s%s\n", p->split, p->proven ? "" : " (not proven)");
	}
}

static void put_scaling_json(const void *result, struct sc_json *json)
{
	const struct sc_scaling *scaling = result;
	const struct sc_scaling_point *points = scaling->points, *last = NULL;
	json_t *array;
	size_t n = 0;

	sc_json_init(json, "stepcast/scale", SEARCH_VERSION);
	sc_json_base(json, scaling->search->base);
	for (size_t i = 0; i < scaling->n; i++)
		if (!points[i].error) {
			last = &points[i];
			n++;
		}
	if (last)
		sc_json_verdict(
			json, n == scaling->n ? SC_STANDS_WELL : SC_STANDS_FAIR,
			"%zu of %zu sizes have a split that fits; at %lld GPUs the throughput is "
			"%.2f times the first's, efficiency %.0f %%.",
			n, scaling->n, (long long)last->gpus, last->speedup,
			100 * last->efficiency);
	else
		sc_json_verdict(json, SC_STANDS_BADLY, "Does not fit: no size has a split: %s.",
				scaling->n ? points[0].error : "none was asked for");
	sc_json_text(json, json->root, "scaling", scaling->weak ? "weak" : "strong");
	array = sc_json_array(json, json->root, "points");
	for (size_t i = 0; i < scaling->n; i++) {
		const struct sc_scaling_point *p = &points[i];
		json_t *object = sc_json_object(json, array, NULL);

		SC_JSON_PUT(json, object, *p, gpus, error);
		if (p->error)
			continue;
		sc_json_outcome(json, object, &p->best, scaling->search->has_costs);
		SC_JSON_PUT(json, object, *p, speedup, efficiency, split, proven);
	}
}

const struct sc_forms sc_scaling_forms = {.json = put_scaling_json, .text = put_scaling_text};
