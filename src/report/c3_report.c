/* Reports of C3 studies: tables of measured pairs, then pairs under every policy. */
#include "report/c3_report.h"

#include <math.h>

#include "base/json_out.h"
#include "base/units.h"
#include "report/figure.h"
#include "report/parts.h"

enum { C3_VERSION = 1, NAME_WIDTH = 34, CHOICE_CHARS = 64 };

/* "reserve:24", "reserve" where n is 0, "plain". */
static const char *choice_text(const struct sc_c3_choice *choice, double n, char out[CHOICE_CHARS])
{
	snprintf(out, CHOICE_CHARS, sc_c3_counts(choice->policy) && n >= 1 ? "%s:%.0f" : "%s",
		 sc_enum_name(sc_c3_policy_names, (int)choice->policy), n);
	return out;
}

/* Gains and losses that are smaller are none. */
#define EVEN 0.005

/* "gains 12 % (3 to 20), sure"; "loses 4 % (-12 to 5)": over one after the other. */
static void append_verdict(const struct sc_c3_result *r, struct sc_strbuf *out)
{
	const double gain = r->speedup - 1;
	const bool is_sure = r->low > 1 + EVEN || r->high < 1 - EVEN;

	if (fabs(gain) < EVEN && !is_sure)
		sc_strbuf_append(out, "gains nothing");
	else
		sc_strbuf_printf(out, "%s %.0f %%", gain < 0 ? "loses" : "gains",
				 SC_PCT * fabs(gain));
	if (r->high > r->low)
		sc_strbuf_printf(out, " (%+.0f to %+.0f)%s", SC_PCT * (r->low - 1),
				 SC_PCT * (r->high - 1), is_sure ? ", sure" : "");
}

static void put_verdict(struct sc_json *json, json_t *object, const struct sc_c3_result *r)
{
	struct sc_strbuf text = {0};

	append_verdict(r, &text);
	sc_json_text(json, object, "outcome", sc_strbuf_get(&text));
	sc_json_real(json, object, "low_speedup", r->low);
	sc_json_real(json, object, "high_speedup", r->high);
	if (r->best_us > 0)
		sc_json_real(json, object, "best_kernel_us", r->best_us);
	sc_strbuf_release(&text);
}

/* 0: the table does not say. */
static double positive_or_nan(double value)
{
	return value > 0 ? value : (double)NAN;
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

static void put_c3_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_c3_table *table = result;

	sc_strbuf_printf(out, "%-*s %-24s%10s%10s%10s%10s%9s%10s%7s%10s\n", NAME_WIDTH, "case",
			 "policy", "GEMM us", "comm us", "both us", "measured", "speedup",
			 "measured", "ideal", "% of it");
	for (const struct sc_c3_case *c = table->cases; c < table->cases + table->n_cases; c++) {
		const struct sc_c3_result *r = &c->result;
		char policy[CHOICE_CHARS];

		sc_strbuf_printf(out, "%-*.*s %-24s", NAME_WIDTH, NAME_WIDTH, c->name,
				 choice_text(&c->choice, c->skipped ? c->choice.n : r->n, policy));
		if (c->skipped) {
			sc_strbuf_printf(out, " skipped: %s\n", c->skipped);
			continue;
		}
		sc_strbuf_printf(out, "%10.1f%10.1f%10.1f", r->compute_us, r->comm_us, r->time_us);
		sc_text_known(positive_or_nan(c->measured_us), 9, 1, out);
		sc_strbuf_printf(out, "%9.2f", r->speedup);
		sc_text_known(positive_or_nan(c->measured_speedup), 9, 2, out);
		sc_strbuf_printf(out, "%7.2f", r->ideal);
		sc_text_known(positive_or_nan(SC_PCT * r->fraction), 9, 0, out);
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

static void put_case(struct sc_json *json, json_t *array, const struct sc_c3_table *table,
		     const struct sc_c3_case *c)
{
	int device = sc_csv_column(table->csv, "device");
	json_t *object = sc_json_object(json, array, NULL);
	const struct sc_c3_result *r = &c->result;
	char policy[CHOICE_CHARS];

	sc_json_text(json, object, "case", c->name);
	if (device >= 0)
		sc_json_text(json, object, "device",
			     sc_csv_cell(table->csv, c->row, (size_t)device));
	sc_json_text(json, object, "policy", choice_text(&c->choice, c->choice.n, policy));
	if (c->skipped) {
		sc_json_text(json, object, "skipped", c->skipped);
		return;
	}
	SC_JSON_PUT(json, object, *r, compute_us, comm_us, serial_us, speedup, compute_slowdown,
		    comm_slowdown);
	sc_json_real(json, object, "predicted_us", r->time_us);
	sc_json_known_real(json, object, "measured_us", positive_or_nan(c->measured_us));
	sc_json_known_real(json, object, "measured_speedup", positive_or_nan(c->measured_speedup));
	sc_json_real(json, object, "ideal_speedup", r->ideal);
	sc_json_known_real(json, object, "fraction_of_ideal", r->fraction);
	sc_json_known_real(json, object, "reserved_or_pieces", positive_or_nan(r->n));
	put_verdict(json, object, r);
}

static void put_c3_json(const void *result, struct sc_json *json)
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
					  positive_or_nan(c->measured_us),
					  r->speedup,
					  positive_or_nan(c->measured_speedup),
					  r->ideal,
					  r->fraction};
		char policy[CHOICE_CHARS];

		sc_csv_put_cell(out, c->name);
		fprintf(out, ",%s,",
			choice_text(&c->choice, c->skipped ? c->choice.n : r->n, policy));
		if (c->skipped)
			fputs(",,,,,,,,,", out);
		else
			sc_csv_put_numbers(out, numbers, sizeof(numbers) / sizeof(numbers[0]));
		sc_csv_put_cell(out, c->skipped ? c->skipped : "");
		putc('\n', out);
	}
	return sc_csv_end(out, err);
}

static void put_svg(const void *result, struct sc_strbuf *out)
{
	const struct sc_c3_table *table = result;
	struct sc_figure figure = {.title = "predicted and measured speedup",
				   .x = "measured speedup",
				   .y = "predicted speedup"};

	for (size_t i = 0; i < table->n_cases; i++) {
		const struct sc_c3_case *c = &table->cases[i];
		struct sc_figure_point point = {.name = c->name,
						.x = positive_or_nan(c->measured_speedup),
						.y = c->result.speedup};

		choice_text(&c->choice, 0, point.series);
		if (!c->skipped)
			SC_VEC_PUSH(&figure.points, point);
	}
	sc_figure_scatter(&figure, out);
	SC_VEC_RELEASE(&figure.points);
}

const struct sc_forms sc_c3_table_forms = {
	.json = put_c3_json, .text = put_c3_text, .csv = put_csv, .svg = put_svg};

/* ---- pairs under every policy ---- */

enum { C3_PAIRS_VERSION = 1, BAR_CHARS = 28, MOST_BLOCKS = 12 };

/* Appends the advice as a rule: "plain below 32 MiB; else reserve 8 of 132 SMs"; nothing if no
 * sizes were tried. */
static void append_rule(const struct sc_c3_advice *a, struct sc_strbuf *out)
{
	char name[CHOICE_CHARS];

	for (size_t i = 0; i < a->n_changes; i++) {
		const struct sc_c3_change *change = &a->changes[i];
		const enum sc_c3_policy policy = a->choice[change->best].policy;

		sc_strbuf_append(out, i == 0 ? "" : i + 1 < a->n_changes ? "; " : "; else ");
		sc_strbuf_append(out,
				 policy == SC_C3_COPY_ENGINE
					 ? choice_text(&a->choice[change->best], change->n, name)
					 : sc_enum_name(sc_c3_policy_names, (int)policy));
		if (sc_c3_keeps(&(struct sc_c3_choice){policy, change->n}))
			sc_strbuf_printf(out, " %.0f of %lld SMs", change->n,
					 (long long)a->named->pair.transfer.device->sm_count);
		else if (policy == SC_C3_CHUNKED)
			sc_strbuf_printf(out, " in %.0f pieces", change->n);
		if (i + 1 < a->n_changes) {
			sc_strbuf_append(out, " below ");
			sc_text_bytes(a->changes[i + 1].bytes, out);
		}
	}
	if (a->n_changes == 1)
		sc_strbuf_append(out, " at all sizes");
}

/* Appends a policy with a bar of its time, of which the longest fills the line. */
static void append_policy(const struct sc_c3_advice *a, size_t p, struct sc_strbuf *out)
{
	const struct sc_c3_result *r = &a->result[p];
	char name[CHOICE_CHARS];
	double longest_us = 0;

	for (size_t k = 0; k < a->n; k++)
		if (a->applies[k])
			longest_us = fmax(longest_us, a->result[k].time_us);
	sc_strbuf_printf(out, "%c %-26s", a->best == p ? '*' : ' ',
			 choice_text(&a->choice[p], r->n, name));
	for (int i = 0; i < BAR_CHARS; i++)
		sc_strbuf_append_char(
			out, i < (int)lround(BAR_CHARS * r->time_us / longest_us) ? '#' : ' ');
	sc_strbuf_printf(out, "%10.1f%9.2f%8.2f", r->time_us, r->speedup, r->ideal);
	sc_text_known(round(SC_PCT * r->fraction) + 0.0, 7, 0, out);
	sc_strbuf_printf(out, "%8.2f%8.2f  ", r->compute_slowdown, r->comm_slowdown);
	for (size_t i = 0; i < r->limits.n; i++)
		sc_strbuf_printf(out, "%s%s to %.0f", i ? ", " : "",
				 sc_c3_limit_names[r->limits.at[i].what], r->limits.at[i].until_us);
	if (r->best_us > 0)
		sc_strbuf_printf(out, "; best kernel %.1f us", r->best_us);
	sc_strbuf_append_char(out, '\n');
}

/* The fastest first; of those alike the simplest. */
static void append_policies(const struct sc_c3_advice *a, struct sc_strbuf *out)
{
	bool shown[SC_C3_MAX_CHOICES] = {false};

	for (;;) {
		size_t next = a->n;

		for (size_t p = a->n; p-- > 0;)
			if (a->applies[p] && !shown[p] &&
			    (next == a->n || a->result[p].time_us <= a->result[next].time_us))
				next = p;
		if (next == a->n)
			return;
		shown[next] = true;
		append_policy(a, next, out);
	}
}

static void append_block(const struct sc_c3_advice *a, struct sc_strbuf *out)
{
	const struct sc_c3_result *any = &a->result[a->best];
	const struct sc_c3_pair *pair = &a->named->pair;
	const struct sc_transfer *t = &pair->transfer;
	const struct sc_gemm_shape *g = &pair->gemm.u.gemm;
	const char *between = "";
	char name[CHOICE_CHARS];

	/* "8192x6144x6144 bf16 and all_gather 64 MiB, 8 GPUs", "22 kernels and ..." */
	sc_strbuf_printf(out, "\n%s: ", a->named->name);
	if (pair->n_layer)
		sc_strbuf_printf(out, "%zu kernel%s", pair->n_layer, sc_plural(pair->n_layer));
	else if (g->batch > 1)
		sc_strbuf_printf(out, "%.0f x ", g->batch);
	if (!pair->n_layer)
		sc_strbuf_printf(out, "%.0fx%.0fx%.0f %s", g->m, g->n, g->k,
				 sc_enum_name(sc_dtype_names, (int)pair->gemm.dtype));
	sc_strbuf_printf(out, " and %s ", sc_collective_names[t->shape.kind]);
	sc_text_bytes(t->shape.bytes, out);
	sc_strbuf_printf(out, ", %d GPUs", t->n_ranks);
	if (t->n_nodes > 1)
		sc_strbuf_printf(out, " on %d nodes", t->n_nodes);
	sc_strbuf_printf(out, "\n  %s ", choice_text(&a->choice[a->best], any->n, name));
	append_verdict(any, out);
	sc_strbuf_printf(out,
			 "\n  alone %.1f and %.1f us, %s\n  %-54s%10s%9s%8s%8s%8s"
			 "%8s  %s\n",
			 any->compute_us, any->comm_us, sc_c3_class_names[a->class], "policy", "us",
			 "speedup", "ideal", "% of it", "kernel", "comm", "limited by, until us");
	append_policies(a, out);
	if (!a->n_changes)
		return;
	sc_strbuf_append(out, "  by size of the collective: ");
	append_rule(a, out);
	/* The rule, and each choice alone, costs so much beside the best of each size. */
	sc_strbuf_printf(
		out,
		"\n  it costs %.1f %% over the best of each size, at most %.1f; one policy at "
		"all sizes, mean and most %%: ",
		SC_PCT * a->rule_loss.mean_frac, SC_PCT * a->rule_loss.most_frac);
	for (size_t p = 0; p < a->n; p++) {
		if (!a->applies[p] || isnan(a->loss[p].mean_frac))
			continue;
		sc_strbuf_printf(out, "%s%s %.1f, %.1f", between,
				 choice_text(&a->choice[p], a->choice[p].n, name),
				 SC_PCT * a->loss[p].mean_frac, SC_PCT * a->loss[p].most_frac);
		between = "; ";
	}
	sc_strbuf_append_char(out, '\n');
}

static bool c3_does_not_fit(const struct sc_c3_advices *advices)
{
	return advices->memory && sc_memory_fullness(advices->memory) > 1;
}

static void put_advices_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_c3_advices *advices = result;

	if (c3_does_not_fit(advices)) {
		sc_text_memory(advices->memory, out);
		sc_strbuf_append(out, "\n\n");
	}
	sc_strbuf_printf(out, "  %-8s%9s%9s%6s  %-12s%8s%8s", "class", "kernel us", "comm us",
			 "ideal", "best", "us", "speedup");
	if (advices->n && advices->at[0].named->count > 0)
		sc_strbuf_printf(out, "%6s%9s", "times", "saves ms");
	sc_strbuf_append(out, "\n");
	for (const struct sc_c3_advice *a = advices->at; a < advices->at + advices->n; a++) {
		const struct sc_c3_result *r = &a->result[a->best];
		char policy[CHOICE_CHARS];

		sc_strbuf_printf(out, "%s\n  %-8s%9.1f%9.1f%6.2f  %-12s%8.1f%8.2f", a->named->name,
				 sc_c3_class_names[a->class], r->compute_us, r->comm_us, r->ideal,
				 choice_text(&a->choice[a->best], r->n, policy), r->time_us,
				 r->speedup);
		if (a->named->count > 0)
			sc_strbuf_printf(out, "%6.0f%9.2f", a->named->count,
					 a->named->count * (r->serial_us - r->time_us) /
						 SC_US_PER_MS);
		sc_strbuf_append_char(out, '\n');
	}
	for (size_t i = 0; i < advices->n && advices->n <= MOST_BLOCKS; i++)
		append_block(&advices->at[i], out);
}

static void put_advice_row(const struct sc_c3_advice *a, size_t p, FILE *out)
{
	const struct sc_c3_pair *pair = &a->named->pair;
	const struct sc_transfer *t = &pair->transfer;
	const struct sc_gemm_shape *g = &pair->gemm.u.gemm;
	const struct sc_c3_result *r = &a->result[p];
	const double none = pair->n_layer ? (double)NAN : 1;
	const double sizes[] = {none * g->m, none * g->n, none * g->k};
	const double times[] = {r->compute_us, r->comm_us, r->serial_us,
				r->time_us,    r->speedup, r->fraction};
	char choice[CHOICE_CHARS];
	struct sc_strbuf text = {0};

	sc_csv_put_cell(out, a->named->name);
	fprintf(out, ",%s,%d,%s,%s,", t->device->id, t->n_ranks,
		pair->n_layer ? "" : sc_enum_name(sc_dtype_names, (int)pair->gemm.dtype),
		sc_c3_kind_name(pair->kind, t->shape.kind));
	sc_csv_put_numbers(out, sizes, 3);
	fprintf(out, "%s,", sc_collective_names[t->shape.kind]);
	sc_csv_put_numbers(out, &t->shape.bytes, 1);
	fprintf(out, "%s,", choice_text(&a->choice[p], r->n, choice));
	sc_csv_put_numbers(out, times, 6);
	fprintf(out, "%s,%d,", sc_c3_class_names[a->class], a->best == p);
	if (a->best == p)
		append_rule(a, &text);
	sc_csv_put_cell(out, sc_strbuf_get(&text));
	putc('\n', out);
	sc_strbuf_release(&text);
}

static int put_advices_csv(const void *result, FILE *out, struct sc_err *err)
{
	const struct sc_c3_advices *advices = result;

	fputs("case,device,gpus,dtype,kind,m,n,k,collective,bytes,policy,compute_us,comm_us,"
	      "serial_us,predicted_us,speedup,fraction_of_ideal,class,best,best_by_bytes\n",
	      out);
	for (size_t i = 0; i < advices->n; i++)
		for (size_t p = 0; p < advices->at[i].n; p++)
			if (advices->at[i].applies[p])
				put_advice_row(&advices->at[i], p, out);
	return sc_csv_end(out, err);
}

static void put_policy(struct sc_json *json, json_t *object, const struct sc_c3_result *r)
{
	json_t *limits;

	SC_JSON_PUT(json, object, *r, time_us, speedup, compute_slowdown, comm_slowdown);
	sc_json_real(json, object, "ideal_speedup", r->ideal);
	sc_json_known_real(json, object, "fraction_of_ideal", r->fraction);
	if (r->n >= 1)
		sc_json_real(json, object, "reserved_or_pieces", r->n);
	put_verdict(json, object, r);
	limits = sc_json_array(json, object, "limits");
	for (size_t i = 0; i < r->limits.n; i++) {
		json_t *limit = sc_json_object(json, limits, NULL);

		sc_json_text(json, limit, "resource", sc_c3_limit_names[r->limits.at[i].what]);
		sc_json_real(json, limit, "until_us", r->limits.at[i].until_us);
	}
}

/* Over the best of each size; null: it does not apply to all sizes. */
static void put_loss(struct sc_json *json, json_t *parent, const char *key,
		     const struct sc_c3_loss *loss)
{
	json_t *object = sc_json_object(json, parent, key);

	SC_JSON_KNOWN(json, object, *loss, mean_frac, most_frac);
}

static void put_advice(struct sc_json *json, json_t *object, const struct sc_c3_advice *a)
{
	const struct sc_c3_pair *pair = &a->named->pair;
	const struct sc_transfer *t = &pair->transfer;
	const struct sc_gemm_shape *g = &pair->gemm.u.gemm;
	const struct sc_c3_result *any = &a->result[a->best];
	json_t *policies = sc_json_object(json, object, "policies"), *changes;
	struct sc_strbuf rule = {0};
	char name[CHOICE_CHARS];

	sc_json_text(json, object, "name", a->named->name);
	sc_json_text(json, object, "kind", sc_c3_kind_name(pair->kind, t->shape.kind));
	sc_json_text(json, object, "class", sc_c3_class_names[a->class]);
	if (a->named->count > 0)
		sc_json_real(json, object, "times_an_iteration", a->named->count);
	sc_json_int(json, object, "n_kernels", pair->n_layer ? (int64_t)pair->n_layer : 1);
	if (!pair->n_layer && pair->gemm.kind == SC_OP_GEMM) {
		json_t *gemm = sc_json_object(json, object, "gemm");

		SC_JSON_PUT(json, gemm, *g, batch, m, n, k);
		sc_json_text(json, gemm, "dtype",
			     sc_enum_name(sc_dtype_names, (int)pair->gemm.dtype));
	}
	sc_json_text(json, object, "device", t->device->id);
	sc_json_text(json, object, "collective", sc_collective_names[t->shape.kind]);
	sc_json_real(json, object, "bytes", t->shape.bytes);
	sc_json_int(json, object, "gpus", t->n_ranks);
	sc_json_int(json, object, "nodes", t->n_nodes > 1 ? t->n_nodes : 1);
	SC_JSON_PUT(json, object, *any, compute_us, comm_us, serial_us);
	sc_json_real(json, object, "ideal_speedup", any->ideal);
	sc_json_text(json, object, "best",
		     choice_text(&a->choice[a->best], a->choice[a->best].n, name));
	for (size_t p = 0; p < a->n; p++)
		if (a->applies[p]) {
			json_t *policy = sc_json_object(
				json, policies, choice_text(&a->choice[p], a->choice[p].n, name));

			put_policy(json, policy, &a->result[p]);
			if (a->n_changes)
				put_loss(json, policy, "loss", &a->loss[p]);
		}
	changes = sc_json_array(json, object, "best_by_bytes");
	for (size_t i = 0; i < a->n_changes; i++) {
		json_t *change = sc_json_object(json, changes, NULL);

		sc_json_real(json, change, "from_bytes", a->changes[i].bytes);
		sc_json_text(json, change, "policy",
			     choice_text(&a->choice[a->changes[i].best],
					 a->choice[a->changes[i].best].n, name));
		if (a->changes[i].n >= 1)
			sc_json_real(json, change, "reserved_or_pieces", a->changes[i].n);
	}
	if (a->n_changes) {
		append_rule(a, &rule);
		sc_json_text(json, object, "rule", sc_strbuf_get(&rule));
		put_loss(json, object, "rule_loss", &a->rule_loss);
	}
	sc_strbuf_release(&rule);
}

static void put_advices_json(const void *result, struct sc_json *json)
{
	const struct sc_c3_advices *advices = result;
	const double least_gain = 1.01;
	struct sc_strbuf text = {0};
	double best = 0;
	size_t n = 0, n_sure = 0;
	json_t *pairs;

	sc_json_init(json, "stepcast/c3-pairs", C3_PAIRS_VERSION);
	if (advices->memory)
		sc_json_bool(json, json->root, "fits", !c3_does_not_fit(advices));
	if (advices->request)
		sc_json_request(json, advices->request);
	for (size_t i = 0; i < advices->n; i++) {
		const struct sc_c3_advice *a = &advices->at[i];

		n += a->result[a->best].speedup >= least_gain;
		n_sure += a->result[a->best].low >= least_gain;
		if (a->result[a->best].speedup > best)
			best = a->result[a->best].speedup;
	}
	if (c3_does_not_fit(advices)) {
		sc_text_memory(advices->memory, &text);
		sc_strbuf_append(&text, ". ");
	}
	sc_json_verdict(
		json,
		text.n ? SC_STANDS_BADLY
		: n    ? SC_STANDS_WELL
		       : SC_STANDS_FAIR,
		"%sOverlapped, %zu of %zu pairs gain 1 %% or more over one after the other, %zu surely; "
		"at best %.2f times.",
		sc_strbuf_get(&text), n, advices->n, n_sure, best);
	sc_strbuf_release(&text);
	pairs = sc_json_array(json, json->root, "pairs");
	for (size_t i = 0; i < advices->n; i++)
		put_advice(json, sc_json_object(json, pairs, NULL), &advices->at[i]);
}

/* The mark is the ideal: the longer of the two alone. */
static void put_advices_svg(const void *result, struct sc_strbuf *out)
{
	const struct sc_c3_advices *advices = result;
	struct sc_figure figure = {.title = "computation beside communication under each policy",
				   .y = "time of both, us; the mark: the longer of the two alone"};

	for (size_t i = 0; i < advices->n; i++)
		for (size_t p = 0; p < advices->at[i].n; p++) {
			const struct sc_c3_advice *a = &advices->at[i];
			const struct sc_c3_result *r = &a->result[p];
			struct sc_figure_point point = {.name = a->named->name,
							.x = fmax(r->compute_us, r->comm_us),
							.y = r->time_us};

			choice_text(&a->choice[p], a->choice[p].n, point.series);
			if (a->applies[p])
				SC_VEC_PUSH(&figure.points, point);
		}
	sc_figure_bars(&figure, out);
	SC_VEC_RELEASE(&figure.points);
}

const struct sc_forms sc_c3_advice_forms = {.json = put_advices_json,
					    .text = put_advices_text,
					    .csv = put_advices_csv,
					    .svg = put_advices_svg};
