/* See the header. */
#include "report/c3_report.h"

#include <math.h>

#include "base/json_out.h"
#include "base/units.h"
#include "report/parts.h"

enum { C3_VERSION = 1, NAME_WIDTH = 34 };

static void append_known(struct sc_strbuf *out, int digits, double value)
{
	if (value > 0)
		sc_strbuf_printf(out, "%10.*f", digits, value);
	else
		sc_strbuf_printf(out, "%10s", "-");
}

static void append_score(const struct sc_c3_score *s, struct sc_strbuf *out)
{
	const double pct[] = {s->time.mape_pct, s->speedup.mape_pct, s->speedup.median_ape_pct};

	sc_strbuf_printf(out, "%-*.*s %6zu %6zu", NAME_WIDTH, NAME_WIDTH,
			 s->column ? s->value : "all", s->n_rows, s->speedup.n);
	for (int i = 0; i < 3; i++)
		sc_text_known(pct[i], 12, 2, out);
	sc_strbuf_append_char(out, '\n');
}

static void put_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_c3_table *table = result;

	sc_strbuf_printf(out, "%-*s %-24s%10s%10s%10s%10s%9s%10s%7s%10s\n", NAME_WIDTH, "case",
			 "policy", "GEMM us", "comm us", "both us", "measured", "speedup",
			 "measured", "ideal", "% of it");
	for (const struct sc_c3_case *c = table->cases; c < table->cases + table->n_cases; c++) {
		const struct sc_c3_result *r = &c->result;
		struct sc_strbuf policy = {0};

		sc_c3_choice_text(&c->choice, c->skipped ? c->choice.n : r->n, &policy);
		sc_strbuf_printf(out, "%-*.*s %-24s", NAME_WIDTH, NAME_WIDTH, c->name,
				 sc_strbuf_get(&policy));
		sc_strbuf_release(&policy);
		if (c->skipped) {
			sc_strbuf_printf(out, " skipped: %s\n", c->skipped);
			continue;
		}
		sc_strbuf_printf(out, "%10.1f%10.1f%10.1f", r->compute_us, r->comm_us, r->time_us);
		append_known(out, 1, c->measured_us);
		sc_strbuf_printf(out, "%9.2f", r->speedup);
		append_known(out, 2, c->measured_speedup);
		sc_strbuf_printf(out, "%7.2f", r->ideal);
		append_known(out, 0, isnan(r->fraction) ? 0 : SC_PCT * r->fraction);
		sc_strbuf_append_char(out, '\n');
	}
	if (table->all.time.n == 0)
		return;
	sc_strbuf_printf(out, "\n%-*s %6s %6s %12s %12s %12s\n", NAME_WIDTH, "", "rows", "n",
			 "time MAPE %", "speedup MAPE", "median");
	append_score(&table->all, out);
	for (size_t i = 0; i < table->n_groups; i++)
		append_score(&table->groups[i], out);
}

static void put_score(struct sc_json *json, json_t *object, const struct sc_c3_score *s)
{
	sc_json_int(json, object, "n_rows", (int64_t)s->n_rows);
	sc_json_int(json, object, "n", (int64_t)s->speedup.n);
	sc_json_known_real(json, object, "time_mape_pct", s->time.mape_pct);
	sc_json_known_real(json, object, "speedup_mape_pct", s->speedup.mape_pct);
	sc_json_known_real(json, object, "median_speedup_ape_pct", s->speedup.median_ape_pct);
}

/* 0: the table does not say. */
static double known(double value)
{
	return value > 0 ? value : (double)NAN;
}

static void put_case(struct sc_json *json, json_t *array, const struct sc_c3_table *table,
		     const struct sc_c3_case *c)
{
	int device = sc_csv_column(table->csv, "device");
	json_t *object = sc_json_object(json, array, NULL);
	const struct sc_c3_result *r = &c->result;
	struct sc_strbuf policy = {0};

	sc_json_text(json, object, "case", c->name);
	if (device >= 0)
		sc_json_text(json, object, "device",
			     sc_csv_cell(table->csv, c->row, (size_t)device));
	sc_c3_choice_text(&c->choice, c->choice.n, &policy);
	sc_json_text(json, object, "policy", sc_strbuf_get(&policy));
	sc_strbuf_release(&policy);
	if (c->skipped) {
		sc_json_text(json, object, "skipped", c->skipped);
		return;
	}
	sc_json_real(json, object, "compute_us", r->compute_us);
	sc_json_real(json, object, "comm_us", r->comm_us);
	sc_json_real(json, object, "serial_us", r->serial_us);
	sc_json_real(json, object, "predicted_us", r->time_us);
	sc_json_known_real(json, object, "measured_us", known(c->measured_us));
	sc_json_real(json, object, "speedup", r->speedup);
	sc_json_known_real(json, object, "measured_speedup", known(c->measured_speedup));
	sc_json_real(json, object, "ideal_speedup", r->ideal);
	sc_json_known_real(json, object, "fraction_of_ideal", r->fraction);
	sc_json_real(json, object, "compute_slowdown", r->compute_slowdown);
	sc_json_real(json, object, "comm_slowdown", r->comm_slowdown);
	sc_json_known_real(json, object, "reserved_or_pieces", known(r->n));
}

static void put_json(const void *result, struct sc_json *json)
{
	const struct sc_c3_table *table = result;
	enum { GOOD_PCT = 10, FAIR_PCT = 20 };
	json_t *cases, *groups, *column = NULL;

	sc_json_init(json, "stepcast/c3", C3_VERSION);
	if (table->all.speedup.n)
		sc_json_verdict(
			json,
			table->all.speedup.mape_pct < GOOD_PCT   ? SC_STANDS_WELL
			: table->all.speedup.mape_pct < FAIR_PCT ? SC_STANDS_FAIR
								 : SC_STANDS_BADLY,
			"%zu of %zu overlapped runs were measured; their speedups are predicted "
			"with a mean error of %.1f %%.",
			table->all.speedup.n, table->all.n_rows, table->all.speedup.mape_pct);
	else
		sc_json_verdict(json, SC_STANDS, "%zu overlapped runs, none measured.",
				table->n_cases);
	put_score(json, json->root, &table->all);
	cases = sc_json_array(json, json->root, "cases");
	for (size_t i = 0; i < table->n_cases; i++)
		put_case(json, cases, table, &table->cases[i]);
	groups = sc_json_object(json, json->root, "groups");
	for (const struct sc_c3_score *s = table->groups; s < table->groups + table->n_groups;
	     s++) {
		if (s == table->groups || s->column != s[-1].column)
			column = sc_json_object(json, groups, s->column);
		put_score(json, sc_json_object(json, column, s->value), s);
	}
}

static int put_csv(const void *result, FILE *out, struct sc_err *err)
{
	const struct sc_c3_table *table = result;

	fputs("case,policy,compute_us,comm_us,serial_us,predicted_us,measured_us,speedup,"
	      "measured_speedup,ideal_speedup,fraction_of_ideal,skipped\n",
	      out);
	for (size_t i = 0; i < table->n_cases; i++) {
		const struct sc_c3_case *c = &table->cases[i];
		const struct sc_c3_result *r = &c->result;
		const double numbers[] = {r->compute_us,
					  r->comm_us,
					  r->serial_us,
					  r->time_us,
					  known(c->measured_us),
					  r->speedup,
					  known(c->measured_speedup),
					  r->ideal,
					  r->fraction};
		struct sc_strbuf policy = {0};

		sc_c3_choice_text(&c->choice, c->skipped ? c->choice.n : r->n, &policy);
		sc_csv_put_cell(out, c->name);
		fprintf(out, ",%s,", sc_strbuf_get(&policy));
		for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
			if (!c->skipped && !isnan(numbers[k]))
				fprintf(out, "%.*g", SC_JSON_DIGITS, numbers[k]);
			putc(',', out);
		}
		sc_csv_put_cell(out, c->skipped ? c->skipped : "");
		putc('\n', out);
		sc_strbuf_release(&policy);
	}
	return sc_csv_end(out, err);
}

const struct sc_forms sc_c3_table_forms = {put_json, put_text, put_csv};
