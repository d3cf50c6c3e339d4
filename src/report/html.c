/* The page: head line, a bar of who owns the iteration, a bar of memory, tables. */
#include "report/html.h"

#include "core/config/config_schedule.h"
#include "report/labels.h"
#include "report/schedule_report.h"
#include "report/text.h"

enum { BAR_WIDTH = 960, BAR_HEIGHT = 34, MIN_LABEL_WIDTH = 60 };

void sc_html_text(struct sc_strbuf *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			sc_strbuf_append(out, "&lt;");
			break;
		case '>':
			sc_strbuf_append(out, "&gt;");
			break;
		case '&':
			sc_strbuf_append(out, "&amp;");
			break;
		case '"':
			sc_strbuf_append(out, "&quot;");
			break;
		default:
			sc_strbuf_append_char(out, *text);
		}
	}
}

void sc_html_begin(const char *title, struct sc_strbuf *out)
{
	sc_strbuf_append(out,
			 "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
			 "<title>stepcast: ");
	sc_html_text(out, title);
	sc_strbuf_append(
		out,
		"</title>\n<style>\n"
		"body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto;"
		" padding: 0 1rem; color: #222; }\n"
		"h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }\n"
		"table { border-collapse: collapse; } td, th { padding: .15rem .8rem;"
		" border-bottom: 1px solid #ddd; text-align: left; }\n"
		"td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }\n"
		"svg { width: 100%; height: auto; } .big { font-size: 1.8rem; }\n"
		".key { display: inline-block; width: .8rem; height: .8rem;"
		" margin-right: .4rem; }\n</style>\n</head>\n<body>\n<h1>");
	sc_html_text(out, title);
	sc_strbuf_append(out, "</h1>\n");
}

void sc_html_end(struct sc_strbuf *out)
{
	sc_strbuf_append(out, "</body>\n</html>\n");
}

static void append_request(const struct sc_request *request, struct sc_strbuf *out)
{
	struct sc_strbuf line = {0};

	sc_strbuf_append(out, "<p>");
	sc_text_model(request, &line);
	sc_html_text(out, sc_strbuf_get(&line));
	sc_strbuf_clear(&line);
	sc_text_cluster(request, &line);
	sc_strbuf_append(&line, "; ");
	sc_text_split(request, &line);
	sc_strbuf_append(out, "<br>");
	sc_html_text(out, sc_strbuf_get(&line));
	sc_strbuf_append(out, "</p>\n");
	sc_strbuf_release(&line);
}

static void append_totals(const struct sc_prediction *p, struct sc_strbuf *out)
{
	sc_strbuf_printf(out,
			 "<p class=\"big\">%.2f ms <small>an iteration, 80 %% band %.2f to %.2f ms"
			 "</small></p>\n",
			 p->iteration_ms, p->low_ms, p->high_ms);
	sc_strbuf_printf(out,
			 "<p>%.2f samples/s, %.0f tokens/s, MFU %.1f %%, memory %.1f of %.1f GiB"
			 " a GPU",
			 p->samples_per_s, p->tokens_per_s, 100.0 * p->mfu, p->memory.total_gib,
			 p->memory.capacity_gib);
	sc_text_hosts(&p->memory, out);
	sc_strbuf_append(out, "</p>\n");
}

struct bar {
	struct sc_strbuf *out;
	double total, at;
};

static void bar_begin(struct bar *bar, const char *label)
{
	sc_strbuf_printf(bar->out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n",
			 BAR_WIDTH, BAR_HEIGHT, label);
}

static void bar_add(struct bar *bar, const char *label, const char *color, double value)
{
	double width = bar->total > 0 ? BAR_WIDTH * value / bar->total : 0;

	if (width <= 0)
		return;
	sc_strbuf_printf(
		bar->out,
		"<rect x=\"%.2f\" y=\"0\" width=\"%.2f\" height=\"%d\" fill=\"%s\"><title>%s "
		"%.1f %%</title></rect>\n",
		bar->at, width, BAR_HEIGHT, color, label, 100.0 * value / bar->total);
	if (width > MIN_LABEL_WIDTH)
		sc_strbuf_printf(bar->out,
				 "<text x=\"%.2f\" y=\"22\" font-size=\"14\" fill=\"#fff\">%.1f %%"
				 "</text>\n",
				 bar->at + 6, 100.0 * value / bar->total);
	bar->at += width;
}

static void bar_end(struct bar *bar)
{
	sc_strbuf_append(bar->out, "</svg>\n");
}

static void append_row(struct sc_strbuf *out, const char *color, const char *name, double value,
		       double total)
{
	sc_strbuf_printf(out,
			 "<tr><td><span class=\"key\" style=\"background:%s\"></span>%s</td>"
			 "<td class=\"n\">%.2f</td><td class=\"n\">%.1f</td></tr>\n",
			 color, name, value, total > 0 ? 100.0 * value / total : 0);
}

static void append_breakdown(const struct sc_prediction *p, struct sc_strbuf *out)
{
	struct bar bar = {.out = out, .total = p->iteration_ms};

	sc_strbuf_append(out, "<h2>Where the time of the busiest GPU goes</h2>\n");
	bar_begin(&bar, "share of the iteration");
	for (int o = 0; o < SC_N_OWNERS; o++)
		bar_add(&bar, sc_owner_label((enum sc_owner)o), sc_owner_color((enum sc_owner)o),
			sc_without_dust(p->reading.breakdown_ms[o], p->iteration_ms));
	bar_end(&bar);
	sc_strbuf_append(out, "<table><tr><th>of the busiest GPU</th><th class=\"n\">ms</th>"
			      "<th class=\"n\">%</th></tr>\n");
	for (int o = 0; o < SC_N_OWNERS; o++)
		append_row(out, sc_owner_color((enum sc_owner)o), sc_owner_label((enum sc_owner)o),
			   sc_without_dust(p->reading.breakdown_ms[o], p->iteration_ms),
			   p->iteration_ms);
	sc_strbuf_append(out, "</table>\n");
}

static void append_memory(const struct sc_memory *memory, struct sc_strbuf *out)
{
	struct bar bar = {.out = out};

	bar.total =
		memory->capacity_gib > memory->total_gib ? memory->capacity_gib : memory->total_gib;
	sc_strbuf_append(out, "<h2>Memory of the fullest GPU</h2>\n");
	bar_begin(&bar, "memory");
	for (size_t i = 0; i < SC_N_MEMORY_PARTS; i++)
		bar_add(&bar, sc_memory_parts[i].name, sc_owner_color((enum sc_owner)i),
			sc_memory_part_gib(memory, i));
	if (memory->capacity_gib > memory->total_gib)
		bar_add(&bar, "free", "#ddd", memory->capacity_gib - memory->total_gib);
	bar_end(&bar);
	sc_strbuf_append(out, "<table><tr><th>part</th><th class=\"n\">GiB</th>"
			      "<th class=\"n\">%</th></tr>\n");
	for (size_t i = 0; i < SC_N_MEMORY_PARTS; i++)
		append_row(out, sc_owner_color((enum sc_owner)i), sc_memory_parts[i].name,
			   sc_memory_part_gib(memory, i), memory->total_gib);
	sc_strbuf_append(out, "</table>\n");
}

static void append_contributors(const struct sc_prediction *p, struct sc_strbuf *out)
{
	sc_strbuf_append(out,
			 "<h2>Largest contributors</h2>\n<table><tr><th>operation</th>"
			 "<th class=\"n\">ms</th><th class=\"n\">%</th><th class=\"n\">count</th>"
			 "</tr>\n");
	for (size_t i = 0; i < p->reading.n_contributors; i++) {
		sc_strbuf_append(out, "<tr><td>");
		sc_html_text(out, p->reading.contributors[i].what);
		sc_strbuf_printf(out,
				 "</td><td class=\"n\">%.2f</td><td class=\"n\">%.1f</td>"
				 "<td class=\"n\">%.0f</td></tr>\n",
				 p->reading.contributors[i].ms,
				 100.0 * p->reading.contributors[i].ms / p->iteration_ms,
				 p->reading.contributors[i].count);
	}
	sc_strbuf_append(out, "</table>\n");
}

static void append_what_if(const struct sc_explanation *e, struct sc_strbuf *out)
{
	sc_strbuf_printf(out,
			 "<h2>What %.0f %% more would buy</h2>\n<table><tr><th>of</th>"
			 "<th class=\"n\">ms</th><th class=\"n\">gain %%</th></tr>\n",
			 100.0 * (e->speed - 1.0));
	for (size_t i = 0; i < SC_N_WHAT_IFS; i++)
		sc_strbuf_printf(out,
				 "<tr><td>%s</td><td class=\"n\">%.2f</td><td class=\"n\">%.2f</td>"
				 "</tr>\n",
				 e->what_if[i].meaning, e->what_if[i].iteration_ms,
				 e->what_if[i].gain_pct);
	sc_strbuf_append(out, "</table>\n");
}

static void append_path(const struct sc_prediction *p, struct sc_strbuf *out)
{
	sc_strbuf_append(out, "<h2>Critical path</h2>\n<table><tr><th>what</th>"
			      "<th class=\"n\">start ms</th><th class=\"n\">ms</th><th>mostly</th>"
			      "<th>waited for</th></tr>\n");
	for (size_t i = 0; i < p->reading.n_path; i++) {
		const struct sc_path_step *s = &p->reading.path[i];

		sc_strbuf_append(out, "<tr><td>");
		sc_html_text(out, s->what);
		sc_strbuf_printf(
			out,
			"</td><td class=\"n\">%.2f</td><td class=\"n\">%.2f</td><td>%s</td>"
			"<td>%s</td></tr>\n",
			s->start_ms, s->ms, sc_owner_label(s->owner),
			sc_reason_name((enum sc_reason)s->reason));
	}
	sc_strbuf_append(out, "</table>\n");
}

static void append_classes(const struct sc_prediction *p, struct sc_strbuf *out)
{
	sc_strbuf_append(
		out, "<h2>Ranks that do the same</h2>\n<table><tr><th>class</th>"
		     "<th class=\"n\">ranks</th><th class=\"n\">busy ms</th>"
		     "<th class=\"n\">idle ms</th><th class=\"n\">communication ms</th></tr>\n");
	for (size_t i = 0; i < p->reading.n_classes; i++) {
		sc_strbuf_append(out, "<tr><td>");
		sc_html_text(out, p->reading.classes[i].name);
		sc_strbuf_printf(out,
				 "</td><td class=\"n\">%u</td><td class=\"n\">%.2f</td>"
				 "<td class=\"n\">%.2f</td><td class=\"n\">%.2f</td></tr>\n",
				 (unsigned)p->reading.classes[i].ranks,
				 p->reading.classes[i].busy_ms, p->reading.classes[i].idle_ms,
				 p->reading.classes[i].comm_ms);
	}
	sc_strbuf_append(out, "</table>\n");
}

static void append_warnings(const struct sc_warnings *warnings, struct sc_strbuf *out)
{
	if (!warnings->n)
		return;
	sc_strbuf_append(out, "<h2>Warnings</h2>\n<ul>\n");
	for (size_t i = 0; i < warnings->n; i++) {
		sc_strbuf_append(out, "<li>");
		sc_html_text(out, warnings->text[i]);
		sc_strbuf_append(out, "</li>\n");
	}
	sc_strbuf_append(out, "</ul>\n");
}

enum { MAX_DRAWN = 50000 };

static void append_schedule(const struct sc_request *request, const struct sc_schedule_play *play,
			    struct sc_strbuf *out)
{
	const struct sc_parallel *par = &request->config.parallel;
	const char *name = par->schedule == SC_SCHED_FILE
				   ? par->schedule_file
				   : sc_enum_name(sc_schedule_names, (int)par->schedule);

	sc_strbuf_append(out, "<h2>Schedule</h2>\n");
	if ((size_t)play->passes->map->pp * play->passes->stride > MAX_DRAWN)
		sc_strbuf_printf(out, "<p>more than %d passes: not drawn</p>\n", MAX_DRAWN);
	else
		sc_schedule_to_div(name, play, out);
}

void sc_html_prediction(const char *title, const struct sc_request *request,
			const struct sc_prediction *p, const struct sc_html_more *more,
			struct sc_strbuf *out)
{
	sc_html_begin(title, out);
	append_request(request, out);
	append_totals(p, out);
	append_breakdown(p, out);
	append_memory(&p->memory, out);
	append_contributors(p, out);
	if (more->explanation)
		append_what_if(more->explanation, out);
	append_path(p, out);
	if (more->play)
		append_schedule(request, more->play, out);
	append_classes(p, out);
	append_warnings(&p->warnings, out);
	sc_html_end(out);
}
