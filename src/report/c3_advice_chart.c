/* Pairs under every policy as a chart, alone (SVG) or in a page: for each pair a bar of time a policy, over one
 * after the other; the line is the longer side alone. */
#include <math.h>

#include "base/units.h"
#include "report/c3_advice.h"
#include "report/page.h"
#include "report/text.h"

enum {
	WIDTH = 960,
	LEFT = 210,
	BARS = 600, /* px of the time one after the other */
	ROW = 18,
	HEAD = 30,
	GAP = 14
};

static const char *const COLORS[SC_N_C3_POLICIES] = {
	"#9498a0", "#4269d0", "#6cc5b0", "#3ca951", "#97bbf5",
	"#efb118", "#ff725c", "#a463f2", "#ff8ab7",
};

static int n_applying(const struct sc_c3_advice *a)
{
	int n = 0;

	for (size_t p = 0; p < a->n; p++)
		n += a->applies[p];
	return n;
}

static void append_label(struct sc_strbuf *out, double x, double y, const char *text)
{
	sc_strbuf_printf(out, "<text x=\"%.0f\" y=\"%.0f\">", x, y);
	sc_page_escape(out, text);
	sc_strbuf_append(out, "</text>\n");
}

static void append_bar(const struct sc_c3_advice *a, size_t p, double y, struct sc_strbuf *out)
{
	const struct sc_c3_result *r = &a->result[p];
	const double width = fmin(BARS * r->time_us / r->serial_us, WIDTH - LEFT - 140);
	struct sc_strbuf text = {0};

	sc_c3_policy_text(a, p, &text);
	append_label(out, 0, y + 13, sc_strbuf_get(&text));
	sc_strbuf_printf(out,
			 "<rect x=\"%d\" y=\"%.0f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n",
			 LEFT, y + 2, width, ROW - 4, COLORS[a->choice[p].policy]);
	sc_strbuf_clear(&text);
	sc_strbuf_printf(&text, "%.1f us, %.2f%s", r->time_us, r->speedup,
			 a->best == p ? ", best" : "");
	append_label(out, LEFT + width + 6, y + 13, sc_strbuf_get(&text));
	sc_strbuf_release(&text);
}

static double append_pair(const struct sc_c3_advice *a, double y, struct sc_strbuf *out)
{
	const struct sc_c3_result *any = &a->result[a->best];
	const double top = y + HEAD, ideal = LEFT + BARS / any->ideal;
	struct sc_strbuf text = {0};

	sc_strbuf_printf(&text, "%s: ", a->named->name);
	sc_c3_compute_text(&a->named->pair, &text);
	sc_strbuf_append(&text, ", ");
	sc_c3_comm_text(&a->named->pair, &text);
	append_label(out, 0, y + 20, sc_strbuf_get(&text));
	sc_strbuf_release(&text);
	y = top;
	for (size_t p = 0; p < a->n; p++) {
		if (!a->applies[p])
			continue;
		append_bar(a, p, y, out);
		y += ROW;
	}
	sc_strbuf_printf(out,
			 "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.0f\" y2=\"%.0f\" stroke=\"#222\" "
			 "stroke-dasharray=\"4 3\"/>\n",
			 ideal, ideal, top, y);
	return y + GAP;
}

void sc_svg_c3_advice(const struct sc_c3_advices *advices, struct sc_strbuf *out)
{
	double height = GAP, y = 0;

	for (size_t i = 0; i < advices->n; i++)
		height += HEAD + GAP + ROW * n_applying(&advices->at[i]);
	sc_strbuf_printf(out,
			 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" "
			 "font-family=\"sans-serif\" font-size=\"12\">\n",
			 WIDTH, height);
	for (size_t i = 0; i < advices->n; i++)
		y = append_pair(&advices->at[i], y, out);
	sc_strbuf_append(out, "</svg>\n");
}

static void put_row(struct sc_page *page, const struct sc_c3_advice *a)
{
	const struct sc_c3_result *r = &a->result[a->best];
	struct sc_strbuf text = {0};

	sc_page_cell(page, "%s", a->named->name);
	sc_page_cell(page, "%s", sc_c3_class_name(a->class));
	sc_page_cell(page, "%.1f", r->compute_us);
	sc_page_cell(page, "%.1f", r->comm_us);
	sc_page_cell(page, "%.2f", r->ideal);
	sc_c3_policy_text(a, a->best, &text);
	sc_page_cell(page, "%s", sc_strbuf_get(&text));
	sc_page_cell(page, "%.2f", r->speedup);
	sc_strbuf_clear(&text);
	sc_c3_changes_text(a, &text);
	sc_page_cell(page, "%s", sc_strbuf_get(&text));
	sc_strbuf_release(&text);
}

void sc_html_c3_advice(const char *title, const struct sc_c3_advices *advices,
		       struct sc_strbuf *out)
{
	struct sc_strbuf text = {0};
	struct sc_page page;

	sc_page_begin(&page, "c3", title, out);
	if (sc_c3_does_not_fit(advices)) {
		sc_text_memory(advices->memory, &text);
		sc_page_verdict(&page, SC_VERDICT_BAD, "%s.", sc_strbuf_get(&text));
	}
	sc_strbuf_release(&text);
	sc_page_heading(&page, "Best policy of each pair");
	sc_page_table(&page, "pair|class|kernel us#|comm us#|ideal#|best|speedup#|by size");
	for (size_t i = 0; i < advices->n; i++)
		put_row(&page, &advices->at[i]);
	sc_page_table_end(&page);
	sc_page_heading(&page, "Time under each policy");
	sc_svg_c3_advice(advices, out);
	sc_page_end(&page);
}
