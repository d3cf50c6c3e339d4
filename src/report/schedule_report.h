/* A played schedule for people and programs: text of letters, SVG, JSON. */
#pragma once

#include "base/json_out.h"
#include "base/strbuf.h"
#include "predict/schedule/schedule.h"

void sc_schedule_to_text(const char *name, const struct sc_schedule_play *play,
			 struct sc_strbuf *out);
void sc_schedule_to_svg(const char *name, const struct sc_schedule_play *play,
			struct sc_strbuf *out);
/* name, bubble_pct, makespan, peak_memory[], and a drawing of few bytes, unless there are very many
 * passes. */
void sc_schedule_to_json(struct sc_json *json, json_t *parent, const char *name,
			 const struct sc_schedule_play *play);
/* The elements of slots[]: the passes of every stage, each with what is held after it. */
void sc_schedule_put_slots(const struct sc_schedule_play *play, struct sc_json_stream *out);
