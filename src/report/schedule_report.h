/* A played schedule for people and programs: text of letters, SVG, HTML with it, JSON. */
#ifndef SC_REPORT_SCHEDULE_H
#define SC_REPORT_SCHEDULE_H

#include "base/json_out.h"
#include "base/strbuf.h"
#include "predict/schedule/schedule_run.h"

void sc_schedule_to_text(const char *name, const struct sc_schedule_play *play,
			 struct sc_strbuf *out);
void sc_schedule_to_svg(const char *name, const struct sc_schedule_play *play,
			struct sc_strbuf *out);
/* A piece of a page: what to know of it, and the picture, which can be stretched. */
void sc_schedule_to_div(const char *name, const struct sc_schedule_play *play,
			struct sc_strbuf *out);
/* n of them, with what they compare by. */
void sc_schedules_to_html(const char *const *names, const struct sc_schedule_play *const *plays,
			  size_t n, struct sc_strbuf *out);
/* name, bubble_pct, makespan, peak_memory[], slots[] of every stage, each with what is held after it. */
void sc_schedule_to_json(struct sc_json *json, json_t *parent, const char *name,
			 const struct sc_schedule_play *play);

#endif
