/* The critical path of the shown iteration as people read it: each part by the activity, or by what
 * the wait before it was for, and by its rank; the host's work by the ranges that it was in. */
#include <stdio.h>

#include "base/intern.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "trace/replay/replay_study.h"

/* The parts of the path, by text. */
struct names {
	struct sc_replay_result *result;
	const struct sc_trace_run *run;
	const struct sc_trace_graph *built;
	const struct sc_graph *graph;
	struct sc_intern *texts;
	struct sc_strbuf *text; /* scratch */
};

/* The host's work before a call: by what says most of where it was. */
static void tally_host(const struct names *names, const struct sc_path_part *part, uint32_t rank,
		       struct sc_tally *tally)
{
	const struct sc_trace_node *ref = &names->built->refs.at[part->segment->node];
	const struct sc_call *call = &names->run->ranks.at[rank].calls.at[ref->index];
	const struct sc_host_piece whole = {0, 1},
				   *pieces = call->n_pieces ? &names->run->ranks.at[rank]
								       .pieces.at[call->first_piece]
							    : &whole;
	const uint32_t n = call->n_pieces ? call->n_pieces : 1;
	uint32_t before =
		SC_NONE - 1; /* label of the piece before: one stay in a range counts once */
	double us = 0;

	for (uint32_t p = 0; p < n; p++)
		us += (double)pieces[p].us;
	for (uint32_t p = 0; p < n; p++) {
		const uint32_t label =
			pieces[p].range ? names->run->ranges.at[pieces[p].range].label : SC_NONE;

		sc_strbuf_clear(names->text);
		sc_strbuf_printf(
			names->text, "%s %s %s of %s", sc_gaps[SC_GAP_HOST].name,
			label != SC_NONE ? "in" : "before",
			sc_trace_run_name(names->run, label != SC_NONE ? label : call->name),
			names->result->ranks.at[rank].name);
		sc_tally_add(tally, sc_intern_add(names->texts, names->text->at),
			     part->us * (double)pieces[p].us / us,
			     label == before ? 0 : part->times);
		before = label;
	}
}

/* A segment of the path as text: an activity or the wait before it, and its rank. */
static void tally_segment(const void *ctx, const struct sc_path_part *part, struct sc_tally *tally)
{
	const struct sc_segment *s = part->segment;
	const struct names *names = ctx;
	const struct sc_lane *lane = &names->graph->lanes.at[names->graph->nodes.at[s->node].lane];
	const enum sc_gap gap = (enum sc_gap)s->gap;

	if (gap == SC_GAP_HOST && names->built->refs.at[s->node].kind == SC_TRACE_NODE_CALL) {
		tally_host(names, part, lane->class_id, tally);
		return;
	}
	if (gap == SC_GAP_UNEXPLAINED)
		names->result->unexplained_ms += part->us / SC_US_PER_MS;
	sc_strbuf_clear(names->text);
	if (gap != SC_GAP_NONE)
		sc_strbuf_append(names->text, sc_gaps[gap].name);
	if (gap != SC_GAP_NONE && gap != SC_GAP_LAUNCH)
		sc_strbuf_append(names->text, " before ");
	if (gap != SC_GAP_LAUNCH)
		sc_strbuf_append(names->text, names->result->node_names[s->node]);
	sc_strbuf_printf(names->text, " of %s", names->result->ranks.at[lane->class_id].name);
	sc_tally_add(tally, sc_intern_add(names->texts, names->text->at), part->us, part->times);
}

static const char *tally_name(const void *ctx, uint32_t id)
{
	const struct names *names = ctx;

	return sc_arena_strdup(&names->result->arena, sc_intern_get(names->texts, id));
}

static void class_name(const void *ctx, uint32_t class_id, char *buf, size_t n_buf)
{
	const struct names *names = ctx;

	snprintf(buf, n_buf, "%s", names->result->ranks.at[class_id].name);
}

void sc_replay_read(const struct replay_at *at, struct sc_reading_input *in)
{
	struct sc_replay_result *r = at->study->out;
	struct sc_reader reader = {.tally = {.by_id = {.n = 0}}};
	struct sc_intern texts = {.n_slots = 0};
	struct sc_strbuf text = {0};
	const struct names names = {
		r, &at->study->run, &at->s->graph, in->account.ran.graph, &texts, &text};

	in->info = (struct sc_op_info){.ctx = &names,
				       .tally = tally_segment,
				       .tally_name = tally_name,
				       .class_name = class_name};
	sc_read_timeline(&reader, in, &r->reading);
	sc_intern_release(&texts);
	sc_strbuf_release(&text);
	sc_reader_release(&reader);
}
