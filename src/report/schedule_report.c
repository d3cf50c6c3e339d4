/* Drawing: a row a stage, time to the right; a letter or a colour a kind of pass. */
#include "report/schedule_report.h"

#include <math.h>

enum { TEXT_COLUMNS = 120 };
static const char LETTERS[SC_N_PASS_KINDS] = {'F', 'B', 'I', 'W'};
static const char *const COLOURS[SC_N_PASS_KINDS] = {"#5b8ff9", "#f6bd16", "#61ddaa", "#9e9e9e"};

static double most_held(const struct sc_schedule_play *play)
{
	double most = 0;

	for (uint32_t s = 0; s < play->passes->map->pp; s++)
		most = fmax(most, play->peak[s]);
	return most;
}

static void append_row(const struct sc_schedule_play *play, uint32_t s, double scale,
		       struct sc_strbuf *out)
{
	const struct sc_slot *slots = sc_passes_of(play->passes, s);
	size_t at = (size_t)s * play->passes->stride;
	uint32_t i = 0;

	for (int column = 0; (column + 0.5) / scale < play->makespan; column++) {
		double t = (column + 0.5) / scale;

		while (i < play->passes->n[s] && play->end[at + i] <= t)
			i++;
		sc_strbuf_append_char(out, i < play->passes->n[s] && play->start[at + i] <= t
						   ? LETTERS[slots[i].kind]
						   : '.');
	}
}

void sc_schedule_to_text(const char *name, const struct sc_schedule_play *play,
			 struct sc_strbuf *out)
{
	double scale = play->makespan > 0 ? fmin(1, TEXT_COLUMNS / play->makespan) : 1;

	sc_strbuf_printf(out,
			 "%s: %u stages, %u micro-batches; bubble %.2f %%, makespan %g, at most %g "
			 "micro-batches held\n",
			 name, play->passes->map->pp, play->passes->micro_batches, play->bubble_pct,
			 play->makespan, most_held(play));
	for (uint32_t s = 0; s < play->passes->map->pp; s++) {
		sc_strbuf_printf(out, "%4u %5.4g  ", s, play->peak[s]);
		append_row(play, s, scale, out);
		sc_strbuf_append_char(out, '\n');
	}
}

void sc_schedule_to_svg(const char *name, const struct sc_schedule_play *play,
			struct sc_strbuf *out)
{
	const struct sc_passes *passes = play->passes;
	double unit = play->makespan > 0 ? 1600 / play->makespan : 1;

	sc_strbuf_printf(out,
			 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1700 %u\" "
			 "font-family=\"sans-serif\" font-size=\"9\">\n<title>%s</title>\n",
			 24 * passes->map->pp + 10, name);
	for (uint32_t s = 0; s < passes->map->pp; s++) {
		const struct sc_slot *slots = sc_passes_of(passes, s);
		size_t at = (size_t)s * passes->stride;

		sc_strbuf_printf(out, "<text x=\"4\" y=\"%u\">%u: %.3g</text>\n", 24 * s + 18, s,
				 play->peak[s]);
		for (uint32_t i = 0; i < passes->n[s]; i++) {
			double x = 60 + unit * play->start[at + i];
			double width = unit * (play->end[at + i] - play->start[at + i]);

			sc_strbuf_printf(out,
					 "<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"20\" "
					 "fill=\"%s\" stroke=\"#fff\" stroke-width=\"0.3\"><title>"
					 "%u%c%u</title></rect>\n",
					 x, 24 * s + 5, width, COLOURS[slots[i].kind],
					 slots[i].virtual_stage, LETTERS[slots[i].kind],
					 slots[i].micro_batch);
			if (width > 8)
				sc_strbuf_printf(out, "<text x=\"%.2f\" y=\"%u\">%u</text>\n",
						 x + 2, 24 * s + 18, slots[i].micro_batch);
		}
	}
	sc_strbuf_append(out, "</svg>\n");
}

void sc_schedule_to_html(const char *name, const struct sc_schedule_play *play,
			 struct sc_strbuf *out)
{
	sc_strbuf_printf(
		out,
		"<!doctype html>\n<meta charset=\"utf-8\">\n<title>%s</title>\n"
		"<p>%s: bubble %.2f %%, makespan %g. <input type=\"range\" min=\"1\" max=\"20\" "
		"value=\"1\" oninput=\"document.querySelector('svg').style.width="
		"this.value*100+'%%'\"></p>\n<div style=\"overflow-x:auto\">\n",
		name, name, play->bubble_pct, play->makespan);
	sc_schedule_to_svg(name, play, out);
	sc_strbuf_append(out, "</div>\n");
}

static void add_slots(struct sc_json *json, json_t *parent, const struct sc_schedule_play *play)
{
	json_t *list = sc_json_array(json, parent, "slots");

	for (uint32_t s = 0; s < play->passes->map->pp; s++)
		for (uint32_t i = 0; i < play->passes->n[s]; i++) {
			const struct sc_slot *slot = &sc_passes_of(play->passes, s)[i];
			size_t at = (size_t)s * play->passes->stride + i;
			char kind[2] = {LETTERS[slot->kind], 0};
			json_t *one = sc_json_object(json, list, NULL);

			sc_json_int(json, one, "rank", s);
			sc_json_int(json, one, "stage", slot->virtual_stage);
			sc_json_int(json, one, "micro_batch", slot->micro_batch);
			sc_json_text(json, one, "kind", kind);
			sc_json_real(json, one, "start", play->start[at]);
			sc_json_real(json, one, "end", play->end[at]);
		}
}

void sc_schedule_to_json(struct sc_json *json, json_t *parent, const char *name,
			 const struct sc_schedule_play *play)
{
	json_t *peaks;

	sc_json_text(json, parent, "name", name);
	sc_json_real(json, parent, "bubble_pct", play->bubble_pct);
	sc_json_real(json, parent, "makespan", play->makespan);
	sc_json_real(json, parent, "longest", play->longest);
	peaks = sc_json_array(json, parent, "peak_memory");
	for (uint32_t s = 0; s < play->passes->map->pp; s++)
		sc_json_real(json, peaks, NULL, play->peak[s]);
	add_slots(json, parent, play);
}
