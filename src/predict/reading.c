/* The reading: accounts of all classes, then the iteration's critical path, in people's units. */
#include "predict/reading.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/units.h"

enum { LONG_VISIT = 3 }; /* turns from which on a visit to one place is a stretch of its own */
#define TIE_FRAC 1e-9

void sc_reader_release(struct sc_reader *reader)
{
	sc_accountant_release(&reader->accountant);
	SC_VEC_RELEASE(&reader->path.segments);
	SC_VEC_RELEASE(&reader->tally.by_id);
}

static void read_classes(struct sc_accountant *accountant, const struct sc_reading_input *in,
			 struct sc_reading *out)
{
	const size_t n = in->account.ran.graph->classes.n;
	double most_us = 0;

	out->busiest = 0;
	out->n_classes = n < SC_MAX_CLASSES_SHOWN ? n : SC_MAX_CLASSES_SHOWN;
	out->classes_left_out = n - out->n_classes;
	out->ranks_left_out = 0;
	for (uint32_t c = 0; c < n; c++) {
		struct sc_use use = {.busy_us = 0};

		if (in->brief && in->account.ran.graph->notes)
			use.active_us = sc_active_of_class_us(accountant, c);
		else
			sc_use_of_class(accountant, c, &use);
		if (c < out->n_classes) {
			struct sc_class_info *info = &out->classes[c];

			info->ranks = in->account.ran.graph->classes.at[c].multiplicity;
			info->busy_ms = use.busy_us / SC_US_PER_MS;
			info->comm_ms = use.comm_us / SC_US_PER_MS;
			info->idle_ms = fmax(0, out->iteration_ms - info->busy_ms);
			info->name[0] = '\0';
			if (!in->brief)
				in->info.class_name(in->info.ctx, c, info->name,
						    sizeof(info->name));
		} else {
			out->ranks_left_out += in->account.ran.graph->classes.at[c].multiplicity;
		}
		if (use.active_us > most_us * (1 + TIE_FRAC)) {
			most_us = use.active_us;
			out->busiest = c;
		}
	}
}

/* ---- the path as people read it: stretches of the same work, transfers included ---- */

struct stretch {
	uint32_t what, class_id, at[2]; /* the least and the greatest place */
	uint32_t turn;
	uint8_t reason;
	bool hops;
	double n_turns, owner_us[SC_N_OWNERS];
};
struct stretches {
	const struct sc_reading_input *in;
	struct sc_reading *out;
	struct stretch visit;   /* the visit to one place that goes on */
	struct stretch pending; /* short visits so far; n_turns 0: none */
};

static void finish_step(struct sc_path_step *step)
{
	double most = 0;

	for (int o = 0; o < SC_N_OWNERS; o++) {
		step->ms += step->owner_ms[o];
		if (step->owner_ms[o] > most) {
			most = step->owner_ms[o];
			step->owner = (enum sc_owner)o;
		}
	}
}

static void put_stretch(struct stretches *s, struct stretch *stretch)
{
	struct sc_reading *out = s->out;
	struct sc_path_step *step;

	if (stretch->n_turns <= 0)
		return;
	stretch->n_turns = 0;
	for (int o = 0; o < SC_N_OWNERS; o++)
		out->path_owner_ms[o] += stretch->owner_us[o] / SC_US_PER_MS;
	if (!s->in->info.place)
		return;
	if (out->n_path < SC_MAX_PATH_SHOWN) {
		step = &out->path[out->n_path++];
		*step = (struct sc_path_step){.class_id = stretch->class_id,
					      .reason = stretch->reason};
		if (out->n_path == SC_MAX_PATH_SHOWN)
			snprintf(step->what, sizeof(step->what), "rest of the path");
		else
			s->in->info.describe(s->in->info.ctx,
					     &(struct sc_stretch){stretch->what,
								  {stretch->at[0], stretch->at[1]}},
					     step->what, sizeof(step->what));
	}
	step = &out->path[out->n_path - 1];
	for (int o = 0; o < SC_N_OWNERS; o++)
		step->owner_ms[o] += stretch->owner_us[o] / SC_US_PER_MS;
}

static void merge(struct stretch *into, const struct stretch *from)
{
	if (into->n_turns <= 0) {
		*into = *from;
		return;
	}
	into->n_turns += from->n_turns;
	into->at[0] = from->at[0] < into->at[0] ? from->at[0] : into->at[0];
	into->at[1] = from->at[1] > into->at[1] ? from->at[1] : into->at[1];
	for (int o = 0; o < SC_N_OWNERS; o++)
		into->owner_us[o] += from->owner_us[o];
}

static void end_visit(struct stretches *s)
{
	if (s->visit.hops && s->visit.n_turns < LONG_VISIT) {
		merge(&s->pending, &s->visit);
	} else {
		put_stretch(s, &s->pending);
		put_stretch(s, &s->visit);
	}
	s->visit.n_turns = 0;
}

/* Ends the visit if the path goes on elsewhere. */
static void leave(struct stretches *s, const struct sc_place *to)
{
	const bool hops = s->visit.what == to->what && to->hops;

	if (s->visit.n_turns <= 0 || (s->visit.what == to->what && s->visit.at[0] == to->at))
		return;
	end_visit(s);
	if (!hops)
		put_stretch(s, &s->pending);
}

static void go_on(struct stretches *s, const struct sc_segment *segment, double us, double times)
{
	const struct sc_op_info *info = &s->in->info;
	const struct sc_graph *g = s->in->account.ran.graph;
	struct stretch *visit = &s->visit;
	struct sc_place place = {.turn = 0};

	if (info->place)
		place = info->place(info->ctx, segment->node, visit->what);

	if (!place.any || visit->n_turns <= 0) {
		leave(s, &place);
		if (visit->n_turns <= 0)
			*visit = (struct stretch){
				.what = place.what,
				.class_id = sc_graph_class_of(g, segment->node),
				.at = {place.at, place.at},
				.turn = place.turn + 1,
				.reason = segment->reason,
				.hops = place.hops,
			};
		if (visit->turn != place.turn)
			visit->n_turns += times;
		visit->turn = place.turn;
	}
	sc_segment_own(g, segment, us, visit->owner_us);
}

void sc_tally_add(struct sc_tally *tally, uint32_t id, double us, double count)
{
	const size_t n = tally->by_id.n;

	if (id >= n) {
		SC_VEC_RESERVE(&tally->by_id, (size_t)id + 1);
		memset(&tally->by_id.at[n], 0, (id + 1 - n) * sizeof(*tally->by_id.at));
		tally->by_id.n = (size_t)id + 1;
	}
	tally->by_id.at[id].us += us;
	tally->by_id.at[id].count += count;
}

struct part {
	double us, count;
	uint32_t id;
};

SC_COMPARE(by_time, struct part, 2 * SC_ORDER(b->us, a->us) + SC_ORDER(a->id, b->id));

static void read_path(struct sc_reader *reader, const struct sc_reading_input *in,
		      struct sc_reading *out)
{
	const struct sc_period *period = &in->account.period;
	const struct sc_ran *ran = &in->account.ran;
	struct stretches stretches = {.in = in, .out = out};

	sc_critical_path_walk(ran->graph, ran->timeline, in->last, &reader->path);
	for (size_t i = 0; i < reader->path.segments.n; i++) {
		const struct sc_segment *s = &reader->path.segments.at[i];
		const double us = sc_period_us(period, s->start_us, s->end_us);
		const double there_us =
			sc_overlap_us(s->start_us, s->end_us, period->from_us, period->to_us);

		if (us <= 0)
			continue;
		in->info.tally(in->info.ctx, &(struct sc_path_part){s, us, us / there_us},
			       &reader->tally);
		go_on(&stretches, s, us, us / there_us);
	}
	end_visit(&stretches);
	put_stretch(&stretches, &stretches.pending);
	double start_ms = 0;

	for (size_t i = 0; i < out->n_path; i++) {
		out->path[i].start_ms = start_ms;
		finish_step(&out->path[i]);
		start_ms += out->path[i].ms;
	}
}

void sc_read_timeline(struct sc_reader *reader, const struct sc_reading_input *in,
		      struct sc_reading *out)
{
	const struct sc_period *period = &in->account.period;
	const double us = sc_period_us(period, period->from_us, period->to_us);

	out->n_path = 0;
	memset(out->path_owner_ms, 0, sizeof(out->path_owner_ms));
	reader->tally.by_id.n = 0;
	out->from_us = period->from_us;
	out->to_us = period->n_repeats ? period->from_us : period->to_us;
	out->n_steps = in->n_steps ? in->n_steps : 1;
	out->iteration_ms = (period->is_quantized ? sc_quantize_us(us) : us) / SC_US_PER_MS;
	sc_accountant_begin(&reader->accountant, &in->account);
	read_classes(&reader->accountant, in, out);
	struct sc_account account;

	sc_account_of_class(&reader->accountant, out->busiest, &account);
	for (int o = 0; o < SC_N_OWNERS; o++)
		out->breakdown_ms[o] = account.owner_us[o] / SC_US_PER_MS;
	out->comm_ms = 0;
	out->n_contributors = 0;
	if (in->brief)
		return;
	out->comm_ms = sc_comm_of_class_us(&reader->accountant, out->busiest) / SC_US_PER_MS;
	read_path(reader, in, out);
	if (in->info.untangle)
		in->info.untangle(in->info.ctx, &reader->tally);
	struct part *parts = sc_xmalloc(reader->tally.by_id.n * sizeof(*parts) + 1);
	size_t n = 0;

	for (uint32_t id = 0; id < reader->tally.by_id.n; id++)
		if (reader->tally.by_id.at[id].us > 0)
			parts[n++] = (struct part){reader->tally.by_id.at[id].us,
						   reader->tally.by_id.at[id].count, id};
	SC_SORT(parts, n, by_time);
	out->n_contributors = n < SC_MAX_CONTRIBUTORS ? n : SC_MAX_CONTRIBUTORS;
	for (size_t i = 0; i < out->n_contributors; i++) {
		struct sc_contributor *to = &out->contributors[i];

		to->ms = parts[i].us / SC_US_PER_MS;
		to->count = parts[i].count;
		to->what = in->info.tally_name(in->info.ctx, parts[i].id);
	}
	free(parts);
}
