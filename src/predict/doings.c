/* Lanes are in order each, and so is each kind of thing on a lane: the runs of a kind are merged when it is
 * asked for. */
#include "predict/doings.h"

#include <string.h>

void sc_doings_release(struct sc_doings *d)
{
	for (int k = 0; k < SC_N_DOINGS; k++) {
		SC_VEC_RELEASE(&d->kinds[k].all);
		SC_VEC_RELEASE(&d->kinds[k].runs);
	}
	SC_VEC_RELEASE(&d->merged);
	SC_VEC_RELEASE(&d->class_start);
	SC_VEC_RELEASE(&d->lane);
}

void sc_doings_begin(struct sc_doings *d, const struct sc_graph *g)
{
	const size_t n = g->classes.n;
	uint32_t *start;

	SC_VEC_RESERVE(&d->class_start, n + 2);
	SC_VEC_RESERVE(&d->lane, g->lanes.n + 1);
	start = d->class_start.at;
	memset(start, 0, (n + 2) * sizeof(*start));
	for (size_t i = 0; i < g->lanes.n; i++)
		start[g->lanes.at[i].class_id + 2]++;
	for (size_t i = 1; i < n; i++)
		start[i + 1] += start[i];
	for (uint32_t i = 0; i < g->lanes.n; i++)
		d->lane.at[start[g->lanes.at[i].class_id + 1]++] = i;
	d->class_id = SC_NONE;
}

/* ---- lane by lane ---- */

static void clear(struct sc_doings *d, int first)
{
	for (int k = first; k < SC_N_DOINGS; k++)
		d->kinds[k].all.n = d->kinds[k].runs.n = d->kinds[k].n_in_runs = 0;
}

static inline void put(struct sc_doings *d, int kind, struct sc_doing doing)
{
	if (doing.to_us > doing.from_us)
		SC_VEC_PUSH(&d->kinds[kind].all, doing);
}

/* What was put since the lane before is a run. */
static void end_lane(struct sc_doings *d)
{
	for (int k = 0; k < SC_N_DOINGS; k++) {
		struct sc_doing_list *list = &d->kinds[k];

		if (list->all.n > list->n_in_runs)
			SC_VEC_PUSH(&list->runs, (uint32_t)list->n_in_runs);
		list->n_in_runs = list->all.n;
	}
}

static inline double gap_us(const struct sc_cost *cost)
{
	return cost->gap != SC_GAP_NONE ? cost->latency_us : 0;
}

/* Members of groups transfer, and collectives of which one rank alone was recorded. */
static void put_work(struct sc_doings *d, const struct sc_ran *ran, uint32_t id)
{
	const struct sc_node *node = &ran->graph->nodes.at[id];
	const struct sc_cost *cost = &ran->graph->costs.at[node->cost];
	struct sc_doing work = {ran->timeline->start_us[id], ran->timeline->end_us[id], id};

	if (node->group != SC_NONE) {
		put(d, SC_DOES_TRANSFER, work);
		return;
	}
	work.from_us += gap_us(cost);
	if (cost->owner_frac[SC_OWN_COMM] >= 1)
		put(d, SC_DOES_TRANSFER, work);
	else
		put(d, node->kind == SC_NODE_COPY ? SC_DOES_COPY : SC_DOES_COMPUTE, work);
}

void sc_doings_work(struct sc_doings *d, const struct sc_ran *ran, uint32_t class_id)
{
	const struct sc_graph *g = ran->graph;
	const struct sc_timeline *tl = ran->timeline;

	clear(d, 0);
	d->class_id = class_id;
	for (uint32_t i = d->class_start.at[class_id]; i < d->class_start.at[class_id + 1]; i++) {
		if (g->lanes.at[d->lane.at[i]].kind == SC_LANE_HOST)
			continue;
		for (uint32_t id = g->lane_first[d->lane.at[i]]; id != SC_NONE;
		     id = g->lane_next[id])
			if (tl->end_us[id] > tl->start_us[id])
				put_work(d, ran, id);
		end_lane(d);
	}
}

static void put_waits(struct sc_doings *d, const struct sc_ran *ran, uint32_t id)
{
	const struct sc_node *node = &ran->graph->nodes.at[id];
	const struct sc_cost *cost = &ran->graph->costs.at[node->cost];
	const bool is_member = node->group != SC_NONE;
	const double ready_us = ran->timeline->ready_us[id], start_us = ran->timeline->start_us[id];
	const double gap_end_us = is_member ? ready_us : start_us + gap_us(cost);

	if (is_member && start_us > ready_us)
		put(d, SC_DOES_WAIT + (int)ran->wait(ran->ctx, id),
		    (struct sc_doing){ready_us, start_us, id});
	put(d, cost->gap == SC_GAP_UNEXPLAINED ? SC_DOES_NOTHING : SC_DOES_GAP,
	    (struct sc_doing){gap_end_us - gap_us(cost), gap_end_us, id});
}

static void put_host(struct sc_doings *d, const struct sc_ran *ran, uint32_t id)
{
	put(d, SC_DOES_HOST,
	    (struct sc_doing){ran->timeline->start_us[id], ran->timeline->end_us[id], id});
}

void sc_doings_waits(struct sc_doings *d, const struct sc_ran *ran, uint32_t class_id)
{
	const struct sc_graph *g = ran->graph;

	clear(d, SC_N_WORKS);
	for (uint32_t i = d->class_start.at[class_id]; i < d->class_start.at[class_id + 1]; i++) {
		const uint32_t lane = d->lane.at[i];
		const bool on_host = g->lanes.at[lane].kind == SC_LANE_HOST;

		for (uint32_t id = g->lane_first[lane]; id != SC_NONE; id = g->lane_next[id])
			(on_host ? put_host : put_waits)(d, ran, id);
		end_lane(d);
	}
}

/* ---- the order of time ---- */

/* Two runs, each in order, become one. */
static void merge_two(const struct sc_doing *at, const uint32_t bound[3], struct sc_doing *out)
{
	uint32_t i = bound[0], k = bound[1];

	while (i < bound[1] && k < bound[2])
		*out++ = at[i].from_us <= at[k].from_us ? at[i++] : at[k++];
	memcpy(out, &at[i], (bound[1] - i) * sizeof(*out));
	memcpy(out + (bound[1] - i), &at[k], (bound[2] - k) * sizeof(*out));
}

static void swap(struct sc_doings *d, struct sc_doing_list *list)
{
	struct sc_doing *at = list->all.at;
	const size_t cap = list->all.cap;

	list->all.at = d->merged.at;
	list->all.cap = d->merged.cap;
	d->merged.at = at;
	d->merged.cap = cap;
}

const struct sc_doing_list *sc_doings_in_order(struct sc_doings *d, enum sc_doing_kind kind)
{
	struct sc_doing_list *list = &d->kinds[kind];
	const uint32_t end = (uint32_t)list->all.n;

	while (list->runs.n > 1) {
		size_t n = 0;

		SC_VEC_RESERVE(&d->merged, list->all.n);
		for (size_t r = 0; r < list->runs.n; r += 2) {
			const uint32_t from = list->runs.at[r];
			const uint32_t bound[3] = {
				from, r + 1 < list->runs.n ? list->runs.at[r + 1] : end,
				r + 2 < list->runs.n ? list->runs.at[r + 2] : end};

			merge_two(list->all.at, bound, &d->merged.at[from]);
			list->runs.at[n++] = from;
		}
		list->runs.n = n;
		swap(d, list);
	}
	return list;
}
