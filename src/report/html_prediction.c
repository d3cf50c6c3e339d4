/* The page of one prediction. */
#include "report/prediction_report.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/config/config_schedule.h"
#include "report/html_reading.h"
#include "report/labels.h"
#include "report/schedule_report.h"
#include "report/text.h"

enum { MAX_DRAWN = 60000, MAX_STAGES_OVER_TIME = 16, MAX_POINTS = 400 };

static void put_request(struct sc_page *page, const struct sc_request *request,
			const struct sc_memory *memory)
{
	struct sc_strbuf line = {0};

	sc_text_model(request, &line);
	sc_page_text(page, "%s", sc_strbuf_get(&line));
	sc_strbuf_clear(&line);
	sc_text_cluster(request, &line);
	sc_strbuf_append(&line, "; ");
	sc_text_split(request, &line);
	sc_text_default(request, memory, &line);
	sc_page_text(page, "%s", sc_strbuf_get(&line));
	sc_strbuf_release(&line);
}

static void put_fit(struct sc_page *page, const struct sc_memory *m)
{
	const double full = sc_memory_fullness(m);
	struct sc_strbuf text = {0};

	sc_text_memory(m, &text);
	sc_page_verdict(page,
			full > 1      ? SC_VERDICT_BAD
			: full > 0.92 ? SC_VERDICT_FAIR
				      : SC_VERDICT_GOOD,
			"%s%s.", full > 1 ? "" : "Fits: ", sc_strbuf_get(&text));
	sc_strbuf_release(&text);
}

/* What takes most of the time, and what would shorten it most. */
static void put_cause(struct sc_page *page, const struct sc_prediction_report *report)
{
	const struct sc_prediction *p = report->prediction;
	const struct sc_explanation *e = report->explanation;
	const struct sc_alternatives *a = report->alternatives;
	const struct sc_what_if *best = NULL;
	int most = 0;

	for (int o = 1; o < SC_N_OWNERS; o++)
		if (p->reading.breakdown_ms[o] > p->reading.breakdown_ms[most])
			most = o;
	sc_page_text(page, "Most of it is %s: %.1f %%.", sc_owner_label((enum sc_owner)most),
		     100 * p->reading.breakdown_ms[most] / p->iteration_ms);
	for (size_t i = 0; e && i < SC_N_WHAT_IFS; i++)
		if (!best || e->what_if[i].gain_pct > best->gain_pct)
			best = &e->what_if[i];
	if (best)
		sc_page_text(page,
			     "Of the resources, %.0f %% %s would help most: %.1f %% less time.",
			     100 * (e->speed - 1), best->meaning, best->gain_pct);
	if (a && sc_alternatives_none_fits(a, p))
		sc_page_text(page, "%s.", SC_TEXT_SEARCH);
	else if (a && a->n && a->at[0].fits && sc_memory_fullness(&p->memory) > 1)
		sc_page_text(page, "Of the settings that fit, %s is the fastest: %.2f ms.",
			     a->at[0].settings, a->at[0].iteration_ms);
	else if (a && a->n && a->at[0].fits && a->at[0].gain_pct > 0)
		sc_page_text(page, "Of the settings, %s would help most: %.1f %% less time.",
			     a->at[0].settings, a->at[0].gain_pct);
}

static void put_totals(struct sc_page *page, const struct sc_prediction *p)
{
	char figure[64];

	snprintf(figure, sizeof(figure), "%.2f ms", p->iteration_ms);
	sc_page_figure(page, figure, "an iteration, 80 %% band %.2f to %.2f ms", p->low_ms,
		       p->high_ms);
	if (p->tokens_per_s > 0)
		sc_page_text(page, "%.2f samples/s, %.0f tokens/s, MFU %.1f %%", p->samples_per_s,
			     p->tokens_per_s, 100 * p->mfu);
	else
		sc_page_text(page, "%.0f samples/s, MFU %.1f %%", p->samples_per_s, 100 * p->mfu);
	if (p->mfu_causal > 0 && p->mfu_causal < p->mfu)
		sc_page_text(
			page,
			"MFU counts all of attention; of causal attention alone it is %.1f %%.",
			100 * p->mfu_causal);
}

static void put_memory(struct sc_page *page, const struct sc_memory *memory)
{
	struct sc_share shares[SC_N_MEMORY_PARTS + 1];
	double room = memory->capacity_gib - memory->total_gib;

	for (size_t i = 0; i < SC_N_MEMORY_PARTS; i++)
		shares[i] =
			(struct sc_share){sc_memory_parts[i].name, sc_owner_color((enum sc_owner)i),
					  sc_memory_part_gib(memory, i)};
	shares[SC_N_MEMORY_PARTS] = (struct sc_share){"free", "#8888", room};
	sc_page_heading(page, "Memory of the fullest GPU");
	sc_chart_shares(page, "memory", shares, SC_N_MEMORY_PARTS + 1,
			room > 0 ? memory->capacity_gib : memory->total_gib);
	sc_page_table(page, "part|GiB#|%#");
	for (size_t i = 0; i < SC_N_MEMORY_PARTS; i++)
		sc_page_share(page, &shares[i], memory->total_gib);
	sc_page_table_end(page);
}

/* Steps: each point but the first comes twice, before and after. At most MAX_POINTS of them, for a page to pass on. */
static size_t memory_steps(const struct sc_schedule_play *play, uint32_t s, double *x, double *y)
{
	size_t at = (size_t)s * play->passes->stride, n = 0;
	uint32_t every = 1 + 2 * play->passes->n[s] / MAX_POINTS;
	double now = play->held[s].before, most = now;

	x[n] = 0;
	y[n++] = now;
	for (uint32_t i = 0; i < play->passes->n[s]; i++) {
		most = now = sc_play_held(play, s, i, now);
		for (uint32_t k = 1; k < every && i + 1 < play->passes->n[s]; k++) {
			now = sc_play_held(play, s, ++i, now);
			most = most > now ? most : now;
		}
		x[n] = play->end[at + i];
		y[n] = y[n - 1];
		n++;
		x[n] = play->end[at + i];
		y[n++] = most;
	}
	return n;
}

static void put_memory_over_time(struct sc_page *page, const struct sc_schedule_play *play,
				 double capacity_gib)
{
	uint32_t pp = play->passes->map->pp,
		 every = (pp + MAX_STAGES_OVER_TIME - 1) / MAX_STAGES_OVER_TIME;
	double *at = sc_xcalloc((size_t)2 * (pp + 1) * (MAX_POINTS + 8), sizeof(*at)), *next = at;
	double end[2] = {0, play->makespan}, room[2] = {capacity_gib, capacity_gib};
	struct sc_series series[MAX_STAGES_OVER_TIME + 1];
	char names[MAX_STAGES_OVER_TIME][24];
	size_t n = 0;

	for (uint32_t s = 0; s < pp; s += every, n++) {
		snprintf(names[n], sizeof(names[n]), "stage %u", s);
		series[n] = (struct sc_series){
			names[n], sc_chart_color(n), next, next + MAX_POINTS + 8, NULL, 0, SC_LINE};
		series[n].n = memory_steps(play, s, next, next + MAX_POINTS + 8);
		next += 2 * (MAX_POINTS + 8);
	}
	series[n++] = (struct sc_series){"capacity", "#c62f21", end, room, NULL, 2, SC_LINE};
	sc_page_heading(page, "Memory over time");
	sc_chart(page, &(struct sc_chart){.x_label = "ms",
					  .y_label = "GiB of a GPU",
					  .from_zero = true,
					  .series = series,
					  .n_series = n});
	free(at);
}

static void put_what_if(struct sc_page *page, const struct sc_explanation *e)
{
	char heading[64];

	snprintf(heading, sizeof(heading), "What %.0f %% more would buy", 100 * (e->speed - 1));
	sc_page_heading(page, heading);
	sc_page_table(page, "of|ms#|gain %#");
	for (size_t i = 0; i < SC_N_WHAT_IFS; i++) {
		sc_page_cell(page, "%s", e->what_if[i].meaning);
		sc_page_cell(page, "%.2f", e->what_if[i].iteration_ms);
		sc_page_cell(page, "%.2f", e->what_if[i].gain_pct);
	}
	sc_page_table_end(page);
}

static void put_path(struct sc_page *page, const struct sc_prediction *p)
{
	sc_page_heading(page, "Critical path");
	sc_page_table(page, "what|start ms#|ms#|mostly|waited for");
	for (size_t i = 0; i < p->reading.n_path; i++) {
		const struct sc_path_step *s = &p->reading.path[i];

		sc_page_cell(page, "%s", s->what);
		sc_page_cell(page, "%.2f", s->start_ms);
		sc_page_cell(page, "%.2f", s->ms);
		sc_page_cell(page, "%s", sc_owner_label(s->owner));
		sc_page_cell(page, "%s", sc_reason_name((enum sc_reason)s->reason));
	}
	sc_page_table_end(page);
}

static void put_classes(struct sc_page *page, const struct sc_prediction *p)
{
	sc_page_heading(page, "Ranks that do the same");
	sc_page_table(page, "class|ranks#|busy ms#|idle ms#|communication ms#");
	for (size_t i = 0; i < p->reading.n_classes; i++) {
		sc_page_cell(page, "%s", p->reading.classes[i].name);
		sc_page_cell(page, "%u", (unsigned)p->reading.classes[i].ranks);
		sc_page_cell(page, "%.2f", p->reading.classes[i].busy_ms);
		sc_page_cell(page, "%.2f", p->reading.classes[i].idle_ms);
		sc_page_cell(page, "%.2f", p->reading.classes[i].comm_ms);
	}
	sc_page_table_end(page);
}

static void put_schedule(struct sc_page *page, const struct sc_request *request,
			 const struct sc_schedule_play *play)
{
	const struct sc_parallel *par = &request->config.parallel;
	const char *name = par->schedule == SC_SCHED_FILE
				   ? par->schedule_file
				   : sc_enum_name(sc_schedule_names, (int)par->schedule);

	sc_page_heading(page, "Schedule");
	if ((size_t)play->passes->map->pp * play->passes->stride > MAX_DRAWN)
		sc_page_text(page, "More than %d passes: not drawn.", MAX_DRAWN);
	else
		sc_schedule_to_div(name, play, page->out);
}

static void put_alternatives(struct sc_page *page, const struct sc_alternatives *a)
{
	if (!a->n)
		return;
	sc_page_heading(page, "What other settings would do");
	sc_page_table(page, "settings|ms#|gain %#|GiB#|GiB saved#|");
	for (size_t i = 0; i < a->n; i++) {
		sc_page_cell(page, "%s", a->at[i].settings);
		sc_page_number(page, 2, a->at[i].iteration_ms);
		sc_page_number(page, 2, a->at[i].gain_pct);
		sc_page_number(page, 2, a->at[i].memory_gib);
		sc_page_number(page, 2, a->at[i].saved_gib);
		sc_page_cell(page, "%s", a->at[i].fits ? "fits" : "does not fit");
	}
	sc_page_table_end(page);
}

static void put_cost(struct sc_page *page, const struct sc_run_cost *cost)
{
	struct sc_strbuf text = {0};

	sc_text_cost(cost, &text);
	sc_page_text(page, "%s", sc_strbuf_get(&text));
	sc_strbuf_release(&text);
}

void sc_html_prediction(const char *title, const struct sc_prediction_report *report,
			struct sc_strbuf *out)
{
	const struct sc_prediction *p = report->prediction;
	struct sc_page page;

	sc_page_begin(&page, "predict", title, out);
	put_request(&page, report->request, &p->memory);
	put_totals(&page, p);
	if (report->cost)
		put_cost(&page, report->cost);
	put_fit(&page, &p->memory);
	put_cause(&page, report);
	sc_page_warnings(&page, &p->warnings);
	sc_page_breakdown(&page, &p->reading);
	put_memory(&page, &p->memory);
	if (report->explanation)
		put_what_if(&page, report->explanation);
	if (report->alternatives)
		put_alternatives(&page, report->alternatives);
	if (report->play) {
		put_schedule(&page, report->request, report->play);
		put_memory_over_time(&page, report->play, p->memory.capacity_gib);
	}
	sc_page_contributors(&page, &p->reading);
	put_path(&page, p);
	put_classes(&page, p);
	sc_page_config(&page, report->request);
	sc_page_end(&page);
}
