/* The names that a prediction has for its timeline, and its memory. */
#include "report/chrome_trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json_stream.h"
#include "base/search.h"
#include "base/units.h"
#include "core/graph/graph.h"
#include "core/graph/timeline.h"
#include "predict/op_names.h"
#include "report/parts.h"
#include "report/replay_report.h"

/* A timeline of a prediction or replay; in a replay a node's launch gap is no part of its slice. */
struct shown {
	const struct sc_graph *graph;
	const struct sc_timeline *timeline;
	const struct sc_prediction *prediction; /* one is NULL */
	const struct sc_replay_result *replay;
};

/* Written event by event: a full timeline may have millions. Format: "Trace Event Format", Google.
 * Slices of a track that overlap are dropped by Perfetto, so what is rounded are begins and ends,
 * never lengths. */

enum { DECIMALS = 3 };

/* Whole nanoseconds, as microseconds. */
static double rounded_us(double us)
{
	return round(us * (double)SC_NS_PER_US) / (double)SC_NS_PER_US;
}

static void begin_event(struct sc_json_stream *json, const char *phase, const char *name,
			uint32_t class_id)
{
	sc_json_stream_object(json, NULL);
	sc_json_stream_text(json, "ph", phase);
	sc_json_stream_int(json, "pid", class_id);
	sc_json_stream_text(json, "name", name);
}

/* --- names of tracks --- */

/* Into a buffer of SC_CHROME_NAME bytes. */
static void class_name(const struct shown *t, uint32_t class_id, char *buf)
{
	const struct sc_prediction *p = t->prediction;

	if (t->replay)
		snprintf(buf, SC_CHROME_NAME, "%s", t->replay->ranks.at[class_id].name);
	else if (class_id < p->reading.n_classes)
		snprintf(buf, SC_CHROME_NAME, "%s (%u ranks)", p->reading.classes[class_id].name,
			 (unsigned)p->reading.classes[class_id].ranks);
	else
		snprintf(buf, SC_CHROME_NAME, "class %u (%u ranks)", (unsigned)class_id,
			 (unsigned)t->graph->classes.at[class_id].multiplicity);
}

void sc_chrome_op_name(uint32_t op, char *buf)
{
	const unsigned name = sc_op_unpack_name(op);

	if (op == SC_NONE)
		snprintf(buf, SC_CHROME_NAME, "-");
	else if (name >= SC_NAME_FORWARD_LEAD && name <= SC_NAME_BACKWARD_TAIL)
		snprintf(buf, SC_CHROME_NAME, "%s x %u, chunk %u", sc_op_name(name),
			 sc_op_unpack_layers(op), sc_op_unpack_chunk(op));
	else if (name >= SC_NAME_SEND_ACTIVATION && name <= SC_NAME_BACKWARD_TAIL)
		snprintf(buf, SC_CHROME_NAME, "%s, micro-batch %u, chunk %u", sc_op_name(name),
			 sc_op_unpack_micro_batch(op), sc_op_unpack_chunk(op));
	else
		snprintf(buf, SC_CHROME_NAME, "%s", sc_op_name(name));
}

static void put_name(struct sc_json_stream *json, uint32_t class_id, int64_t lane, const char *name)
{
	const bool of_thread = lane >= 0;

	begin_event(json, "M", of_thread ? "thread_name" : "process_name", class_id);
	if (of_thread)
		sc_json_stream_int(json, "tid", lane);
	sc_json_stream_object(json, "args");
	sc_json_stream_text(json, "name", name);
	sc_json_stream_end(json);
	sc_json_stream_end(json);
	begin_event(json, "M", of_thread ? "thread_sort_index" : "process_sort_index", class_id);
	if (of_thread)
		sc_json_stream_int(json, "tid", lane);
	sc_json_stream_object(json, "args");
	sc_json_stream_int(json, "sort_index", of_thread ? lane : class_id);
	sc_json_stream_end(json);
	sc_json_stream_end(json);
}

/* Lanes of one kind in a class are told apart by a number. */
static void put_lane(struct sc_json_stream *json, const struct sc_graph *graph, uint32_t id)
{
	const struct sc_lane *lane = &graph->lanes.at[id];
	const char *kind = sc_lane_kind_names[lane->kind];
	unsigned n_before = 0;
	char name[SC_CHROME_NAME];

	for (uint32_t i = id; i-- > 0 && graph->lanes.at[i].class_id == lane->class_id;)
		n_before += graph->lanes.at[i].kind == lane->kind;
	if (n_before)
		snprintf(name, sizeof(name), "%s %u", kind, n_before + 1);
	else
		snprintf(name, sizeof(name), "%s", kind);
	put_name(json, lane->class_id, id, name);
}

/* --- slices --- */

static void put_args(struct sc_json_stream *json, const struct shown *t, uint32_t id,
		     const char *kind)
{
	const struct sc_node *node = &t->graph->nodes.at[id];
	const struct sc_group *group =
		node->group == SC_NONE ? NULL : &t->graph->groups.at[node->group];
	const struct sc_cost *cost = &t->graph->costs.at[group ? group->cost : node->cost];
	int owner = 0; /* of most of it */

	for (int o = 1; o < SC_N_OWNERS; o++)
		if (cost->owner_frac[o] > cost->owner_frac[owner])
			owner = o;
	sc_json_stream_object(json, "args");
	sc_json_stream_text(json, "kind", kind);
	sc_json_stream_int(json, "node", id);
	sc_json_stream_text(json, "reason", sc_reason_names[t->timeline->reason[id]]);
	sc_json_stream_text(json, "owner", sc_owner_names[owner]);
	sc_json_stream_fixed(json, "alone_us", sc_cost_alone_us(cost), DECIMALS);
	if (cost->demand[SC_RES_SM] > 0)
		sc_json_stream_fixed(json, "sms_frac", cost->demand[SC_RES_SM], DECIMALS);
	if (group) {
		sc_json_stream_int(json, "group", node->group);
		sc_json_stream_int(json, "ranks", group->world);
	}
	sc_json_stream_end(json);
}

static void put_slice(struct sc_json_stream *json, const struct shown *t, uint32_t id,
		      const char *wait, double from_us, double to_us)
{
	const struct sc_node *node = &t->graph->nodes.at[id];
	const char *kind = wait ? "wait" : sc_node_kind_names[node->kind];
	const double begin = rounded_us(from_us);
	char own[SC_CHROME_NAME], name[SC_CHROME_NAME + 8];

	if (!(to_us > from_us))
		return;
	if (t->replay)
		snprintf(own, sizeof(own), "%s", t->replay->node_names[id]);
	else
		sc_chrome_op_name(node->op, own);
	snprintf(name, sizeof(name), "%s%s", wait ? wait : "", own);
	begin_event(json, "X", name, t->graph->lanes.at[node->lane].class_id);
	sc_json_stream_int(json, "tid", node->lane);
	sc_json_stream_fixed(json, "ts", begin, DECIMALS);
	sc_json_stream_fixed(json, "dur", rounded_us(to_us) - begin, DECIMALS);
	sc_json_stream_text(json, "cat", kind);
	put_args(json, t, id, kind);
	sc_json_stream_end(json);
}

/* When a node's own slice begins. */
static double begin_us(const struct shown *t, uint32_t id)
{
	const struct sc_node *node = &t->graph->nodes.at[id];
	const double latency = t->graph->costs.at[node->cost].latency_us;

	return t->timeline->start_us[id] +
	       (t->replay && node->kind != SC_NODE_MEMBER ? latency : 0);
}

/* --- arrows --- */

static void put_end(struct sc_json_stream *json, const struct shown *t, const uint32_t of[2],
		    bool is_start)
{
	const uint32_t id = of[is_start ? 0 : 1];
	const struct sc_node *node = &t->graph->nodes.at[id];

	begin_event(json, is_start ? "s" : "f",
		    t->graph->nodes.at[of[0]].kind == SC_NODE_LAUNCH ? "launch" : "group",
		    t->graph->lanes.at[node->lane].class_id);
	sc_json_stream_int(json, "tid", node->lane);
	sc_json_stream_int(json, "id", of[1]);
	sc_json_stream_text(json, "cat", "flow");
	sc_json_stream_fixed(json, "ts", rounded_us(begin_us(t, id)), DECIMALS);
	if (!is_start)
		sc_json_stream_text(json, "bp", "e");
	sc_json_stream_end(json);
}

static void put_arrow(struct sc_json_stream *json, const struct shown *t, uint32_t from,
		      uint32_t to)
{
	const uint32_t of[2] = {from, to};

	if (!(t->timeline->end_us[from] > begin_us(t, from)) ||
	    !(t->timeline->end_us[to] > begin_us(t, to)))
		return; /* no slice to begin or end at */
	put_end(json, t, of, true);
	put_end(json, t, of, false);
}

static void put_launches(struct sc_json_stream *json, const struct shown *t)
{
	const struct sc_graph *g = t->graph;

	for (uint32_t id = 0; id < g->nodes.n; id++) {
		if (g->nodes.at[id].kind != SC_NODE_LAUNCH)
			continue;
		for (uint32_t i = g->succ_start[id]; i < g->succ_start[id + 1]; i++)
			if (g->nodes.at[g->succ[i]].kind == SC_NODE_KERNEL ||
			    g->nodes.at[g->succ[i]].kind == SC_NODE_COPY ||
			    g->nodes.at[g->succ[i]].kind == SC_NODE_MEMBER)
				put_arrow(json, t, id, g->succ[i]);
	}
}

/* Draws arrows from the member that came last to those that waited for it. */
static void put_groups(struct sc_json_stream *json, const struct shown *t)
{
	const struct sc_graph *g = t->graph;

	for (uint32_t group = 0; group < g->groups.n; group++) {
		uint32_t first = g->group_node_start[group], end = g->group_node_start[group + 1];
		uint32_t last = first;

		for (uint32_t i = first; i < end; i++)
			if (t->timeline->ready_us[g->group_node[i]] >
			    t->timeline->ready_us[g->group_node[last]])
				last = i;
		for (uint32_t i = first; i < end; i++)
			if (i != last)
				put_arrow(json, t, g->group_node[last], g->group_node[i]);
	}
}

/* --- counters --- */

struct change {
	double us, sms;
	uint32_t class_id;
};

SC_COMPARE(compare_changes, struct change,
	   2 * SC_ORDER(a->class_id, b->class_id) + SC_ORDER(a->us, b->us));

/* One value of a counter of a class. */
static void chrome_counter(struct sc_json_stream *json, uint32_t class_id, const char *name,
			   double us, double value)
{
	begin_event(json, "C", name, class_id);
	sc_json_stream_fixed(json, "ts", rounded_us(us), DECIMALS);
	sc_json_stream_object(json, "args");
	sc_json_stream_fixed(json, "value", value, DECIMALS);
	sc_json_stream_end(json);
	sc_json_stream_end(json);
}

static void put_sms(struct sc_json_stream *json, const struct shown *t)
{
	const struct sc_graph *g = t->graph;
	struct change *changes = sc_xmalloc((2 * g->nodes.n + 1) * sizeof(*changes));
	double now = 0;
	size_t n = 0;

	for (uint32_t id = 0; id < g->nodes.n; id++) {
		const struct sc_node *node = &g->nodes.at[id];
		uint32_t cost =
			node->group == SC_NONE ? node->cost : g->groups.at[node->group].cost;
		double sms = g->costs.at[cost].demand[SC_RES_SM];
		uint32_t class_id = g->lanes.at[node->lane].class_id;

		if (!(sms > 0) || !(t->timeline->end_us[id] > t->timeline->start_us[id]))
			continue;
		changes[n++] = (struct change){begin_us(t, id), sms, class_id};
		changes[n++] = (struct change){t->timeline->end_us[id], -sms, class_id};
	}
	SC_SORT(changes, n, compare_changes);
	for (size_t i = 0; i < n; i++) {
		const bool is_first = i == 0 || changes[i].class_id != changes[i - 1].class_id;
		const bool is_last = i + 1 == n || compare_changes(&changes[i], &changes[i + 1]);

		now = (is_first ? 0 : now) + changes[i].sms;
		if (is_last)
			chrome_counter(json, changes[i].class_id, "SMs asked for, share",
				       changes[i].us, fabs(now) < 1e-9 ? 0 : now);
	}
	free(changes);
}

/* --- the document --- */

/* Steps before and after the iteration have a track that shows which of them it is. */
static void put_iteration(struct sc_json_stream *json, const struct shown *t)
{
	const struct sc_reading *reading = &t->prediction->reading;
	const uint32_t after = (uint32_t)t->graph->classes.n;
	const double from = rounded_us(reading->from_us);
	char name[SC_CHROME_NAME];

	if (reading->n_steps < 2 || !(reading->to_us > reading->from_us))
		return;
	snprintf(name, sizeof(name), "the iteration, one of %u steps", reading->n_steps);
	put_name(json, after, -1, name);
	begin_event(json, "X", "iteration", after);
	sc_json_stream_int(json, "tid", 0);
	sc_json_stream_fixed(json, "ts", from, DECIMALS);
	sc_json_stream_fixed(json, "dur", rounded_us(reading->to_us) - from, DECIMALS);
	sc_json_stream_end(json);
}

static int chrome_timeline_write(const struct shown *t, FILE *out, struct sc_err *err)
{
	struct sc_json_stream json;
	char name[SC_CHROME_NAME];

	json = (struct sc_json_stream){.out = out};
	sc_json_stream_object(&json, NULL);
	sc_json_stream_text(&json, "displayTimeUnit", "ms");
	sc_json_stream_object(&json, "otherData");
	sc_json_stream_text(&json, "schema", "stepcast/timeline");
	sc_json_stream_int(&json, "version", 1);
	if (t->replay)
		sc_json_stream_int(&json, "step", t->replay->show_step);
	else
		sc_json_stream_int(&json, "steps", t->prediction->reading.n_steps);
	sc_json_stream_end(&json);
	sc_json_stream_array(&json, "traceEvents");
	for (uint32_t i = 0; i < t->graph->classes.n; i++) {
		class_name(t, i, name);
		put_name(&json, i, -1, name);
	}
	if (t->prediction)
		put_iteration(&json, t);
	for (uint32_t i = 0; i < t->graph->lanes.n; i++)
		put_lane(&json, t->graph, i);
	for (uint32_t i = 0; i < t->graph->nodes.n; i++) {
		if (t->graph->nodes.at[i].kind == SC_NODE_MEMBER) /* waits for the others */
			put_slice(&json, t, i, "wait: ", t->timeline->ready_us[i],
				  t->timeline->start_us[i]);
		put_slice(&json, t, i, NULL, begin_us(t, i), t->timeline->end_us[i]);
	}
	put_launches(&json, t);
	put_groups(&json, t);
	put_sms(&json, t);
	/* The fullest GPU's memory stands part by part at time 0: it is not simulated over time. */
	for (size_t i = 0; i < SC_N_MEMORY_PARTS && t->prediction; i++) {
		snprintf(name, sizeof(name), "memory at most, GiB: %s", sc_memory_parts[i].name);
		chrome_counter(&json, 0, name, 0, sc_memory_part_gib(&t->prediction->memory, i));
	}
	sc_json_stream_end(&json);
	sc_json_stream_end(&json);
	return sc_json_stream_finish(&json, err);
}

int sc_chrome_trace_write(const struct sc_predictor *predictor,
			  const struct sc_prediction *prediction, FILE *out, struct sc_err *err)
{
	const struct shown shown = {.graph = sc_predictor_ran(predictor).graph,
				    .timeline = sc_predictor_ran(predictor).timeline,
				    .prediction = prediction};

	return chrome_timeline_write(&shown, out, err);
}

int sc_chrome_replay_write(const struct sc_replay_result *r, FILE *out, struct sc_err *err)
{
	return chrome_timeline_write(
		&(struct shown){.graph = &r->graph, .timeline = &r->timeline, .replay = r}, out,
		err);
}
