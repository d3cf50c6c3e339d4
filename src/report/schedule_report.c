/* Drawing: a row a stage, time to the right; a letter or a colour a kind of pass. */
#include "report/schedule_report.h"

#include <float.h>
#include <math.h>

#include "report/figure.h"

enum { TEXT_COLUMNS = 68 };
static const char LETTERS[SC_N_PASS_KINDS] = {'F', 'B', 'I', 'W'};
static const char *const COLOURS[SC_N_PASS_KINDS] = {"#5b8ff9", "#f6bd16", "#61ddaa", "#9e9e9e"};

static double most_held(const struct sc_schedule_play *play)
{
	double most = 0;

	for (uint32_t s = 0; s < play->passes->map->pp; s++)
		most = fmax(most, play->peak[s]);
	return most;
}

void sc_schedule_to_text(const char *name, const struct sc_schedule_play *play,
			 struct sc_strbuf *out)
{
	double scale = play->makespan > 0 ? fmin(1, TEXT_COLUMNS / play->makespan) : 1;
	double most = most_held(play);

	if (*play->time_unit)
		scale = TEXT_COLUMNS / play->makespan;
	sc_strbuf_printf(
		out,
		"%s: %u stages, %u micro-batches; bubble %.2f %%%s, makespan %g%s, at most %.4g "
		"%s held",
		name, play->passes->map->pp, play->passes->micro_batches + play->passes->left_out,
		play->bubble_pct, play->passes->left_out ? " of what is shown" : "", play->makespan,
		play->time_unit, most, play->held_unit);
	if (play->passes->left_out)
		sc_strbuf_printf(out, "; %u micro-batches as those in the middle are not shown",
				 play->passes->left_out);
	sc_strbuf_append_char(out, '\n');
	for (uint32_t s = 0; s < play->passes->map->pp; s++) {
		const struct sc_slot *slots = sc_passes_of(play->passes, s);
		size_t at = (size_t)s * play->passes->stride;
		uint32_t i = 0, n = play->passes->n[s];
		double t;

		sc_strbuf_printf(out, "%4u %5.4g  ", s, play->peak[s]);
		for (int column = 0; (t = (column + 0.5) / scale) < play->makespan; column++) {
			while (i < n && play->end[at + i] <= t)
				i++;
			sc_strbuf_append_char(out, i < n && play->start[at + i] <= t
							   ? LETTERS[slots[i].kind]
							   : '.');
		}
		sc_strbuf_append_char(out, '\n');
	}
	/* as digits; over time as the rows above */
	sc_strbuf_printf(out, "held over time, in tenths of %.4g %s\n", most, play->held_unit);
	for (uint32_t s = 0; s < play->passes->map->pp; s++) {
		size_t at = (size_t)s * play->passes->stride;
		double now = play->held[s].before, t;
		uint32_t i = 0;

		sc_strbuf_printf(out, "%4u        ", s);
		for (int column = 0; (t = (column + 0.5) / scale) < play->makespan; column++) {
			for (; i < play->passes->n[s] && play->end[at + i] <= t; i++)
				now = play->after[at + i];
			sc_strbuf_append_char(out,
					      (char)('0' + (int)fmin(9, fmax(0, 10 * now / most))));
		}
		sc_strbuf_append_char(out, '\n');
	}
}

enum {
	ROW = 36,
	BAR = 20,
	STRIP = 12,
	LEFT = 60,
	WIDTH = 1600,
	MAX_NAMED = 6000, /* passes: of more, a picture has no names, as it would not be read but be
			     large */
	MAX_DRAWN = 60000, /* passes: of more, a document has no drawing */
	TIME_STEPS = 50000,
	HELD_STEPS = 1000
};

static bool is_large(const struct sc_schedule_play *play)
{
	return (size_t)play->passes->map->pp * play->passes->stride > MAX_NAMED;
}

/* The memory that a stage holds over time, a step a pass, is a strip below its passes. */
static void append_strip(const struct sc_schedule_play *play, uint32_t s, double unit,
			 struct sc_strbuf *out)
{
	size_t at = (size_t)s * play->passes->stride;
	double base = ROW * (s + 1.0), high = STRIP / most_held(play);

	sc_strbuf_printf(out, "<path fill=\"#e8684a\" fill-opacity=\"0.5\" d=\"M%d %.2fV%.2f", LEFT,
			 base, base - high * play->held[s].before);
	for (uint32_t i = 0; i < play->passes->n[s]; i++)
		sc_strbuf_printf(out, "H%.2fV%.2f", LEFT + unit * play->end[at + i],
				 base - high * play->after[at + i]);
	sc_strbuf_printf(out,
			 "H%.2fV%.2fZ\"><title>stage %u holds at most %.4g %s</title></path>\n",
			 LEFT + unit * play->makespan, base, s, play->peak[s], play->held_unit);
}

static void append_passes(const struct sc_schedule_play *play, uint32_t s, double unit,
			  struct sc_strbuf *out)
{
	const struct sc_slot *slots = sc_passes_of(play->passes, s);
	size_t at = (size_t)s * play->passes->stride;

	for (uint32_t i = 0; i < play->passes->n[s]; i++) {
		double x = LEFT + unit * play->start[at + i];
		double width = unit * (play->end[at + i] - play->start[at + i]);

		sc_strbuf_printf(out,
				 "<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" "
				 "fill=\"%s\" stroke=\"#fff\" stroke-width=\"0.3\">",
				 x, ROW * s + 3, width, BAR, COLOURS[slots[i].kind]);
		if (!is_large(play))
			sc_strbuf_printf(out, "<title>%u%c%u: %g to %g%s</title>",
					 slots[i].virtual_stage, LETTERS[slots[i].kind],
					 slots[i].micro_batch, play->start[at + i],
					 play->end[at + i], play->time_unit);
		sc_strbuf_append(out, "</rect>\n");
		if (width > 8)
			sc_strbuf_printf(out,
					 "<text x=\"%.2f\" y=\"%u\" "
					 "style=\"fill:#222\">%u</text>\n",
					 x + 2, ROW * s + 16, slots[i].micro_batch);
	}
}

void sc_schedule_to_svg(const char *name, const struct sc_schedule_play *play,
			struct sc_strbuf *out)
{
	uint32_t pp = play->passes->map->pp;
	double unit = play->makespan > 0 ? WIDTH / play->makespan : 1;

	sc_strbuf_printf(out,
			 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" "
			 "font-family=\"sans-serif\" font-size=\"9\">\n<title>",
			 WIDTH + LEFT + 40, ROW * pp + 10);
	sc_svg_text(name, out);
	sc_strbuf_append(out, "</title>\n");
	for (uint32_t s = 0; s < pp; s++) {
		sc_strbuf_printf(out, "<text x=\"4\" y=\"%u\">%u: %.3g</text>\n", ROW * s + 16, s,
				 play->peak[s]);
		append_passes(play, s, unit, out);
		append_strip(play, s, unit, out);
	}
	sc_strbuf_append(out, "</svg>\n");
}

/* A rank's picture in few bytes: times count in shares of the makespan, and memory, at first and
 * after each pass, in thousandths of the most. Where there are many passes, their micro-batches
 * have no names. */
static void add_rank(struct sc_json *json, json_t *ranks, const struct sc_schedule_play *play,
		     uint32_t s)
{
	const struct sc_slot *slots = sc_passes_of(play->passes, s);
	const size_t at = (size_t)s * play->passes->stride;
	json_t *rank = sc_json_object(json, ranks, NULL), *batches = NULL, *stages = NULL;
	json_t *gaps = sc_json_array(json, rank, "gap"), *lengths, *held;
	struct sc_strbuf kinds = {0};
	const double step = fmax(most_held(play), DBL_MIN) / HELD_STEPS;
	int64_t last = 0;

	held = sc_json_array(json, rank, "held");
	sc_json_int(json, held, NULL, llround(play->held[s].before / step));
	lengths = sc_json_array(json, rank, "length");
	if (!is_large(play)) {
		batches = sc_json_array(json, rank, "micro_batch");
		stages = sc_json_array(json, rank, "stage");
	}
	for (uint32_t i = 0; i < play->passes->n[s]; i++) {
		int64_t from = llround(TIME_STEPS * play->start[at + i] / play->makespan);
		int64_t to = llround(TIME_STEPS * play->end[at + i] / play->makespan);

		sc_json_int(json, gaps, NULL, from - last);
		sc_json_int(json, lengths, NULL, to - from);
		last = to;
		sc_json_int(json, held, NULL, llround(play->after[at + i] / step));
		sc_strbuf_append_char(&kinds, LETTERS[slots[i].kind]);
		if (batches) {
			sc_json_int(json, batches, NULL, slots[i].micro_batch);
			sc_json_int(json, stages, NULL, slots[i].virtual_stage);
		}
	}
	sc_json_text(json, rank, "kind", sc_strbuf_get(&kinds));
	sc_strbuf_release(&kinds);
}

void sc_schedule_put_slots(const struct sc_schedule_play *play, struct sc_json_stream *out)
{
	for (uint32_t s = 0; s < play->passes->map->pp; s++)
		for (uint32_t i = 0; i < play->passes->n[s]; i++) {
			const struct sc_slot *slot = &sc_passes_of(play->passes, s)[i];
			size_t at = (size_t)s * play->passes->stride + i;
			char kind[2] = {LETTERS[slot->kind], 0};

			sc_json_stream_object(out, NULL);
			sc_json_stream_real(out, "end", play->end[at]);
			sc_json_stream_real(out, "held", play->after[at]);
			sc_json_stream_text(out, "kind", kind);
			sc_json_stream_int(out, "micro_batch", slot->micro_batch);
			sc_json_stream_int(out, "rank", s);
			sc_json_stream_int(out, "stage", slot->virtual_stage);
			sc_json_stream_real(out, "start", play->start[at]);
			sc_json_stream_end(out);
		}
}

void sc_schedule_to_json(struct sc_json *json, json_t *parent, const char *name,
			 const struct sc_schedule_play *play)
{
	json_t *peaks, *drawing;

	sc_json_text(json, parent, "name", name);
	SC_JSON_PUT(json, parent, *play, bubble_pct, makespan, longest);
	sc_json_text(json, parent, "time_unit", *play->time_unit ? play->time_unit + 1 : "");
	sc_json_text(json, parent, "memory_unit", play->held_unit);
	sc_json_int(json, parent, "left_out", play->passes->left_out);
	peaks = sc_json_array(json, parent, "peak_memory");
	for (uint32_t s = 0; s < play->passes->map->pp; s++)
		sc_json_real(json, peaks, NULL, play->peak[s]);
	if ((size_t)play->passes->map->pp * play->passes->stride > MAX_DRAWN ||
	    !(play->makespan > 0))
		return;
	drawing = sc_json_object(json, parent, "drawing");
	sc_json_int(json, drawing, "time_steps", TIME_STEPS);
	sc_json_int(json, drawing, "held_steps", HELD_STEPS);
	drawing = sc_json_array(json, drawing, "ranks");
	for (uint32_t s = 0; s < play->passes->map->pp; s++)
		add_rank(json, drawing, play, s);
}
