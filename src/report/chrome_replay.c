/* Written event by event: a replayed step may have millions of nodes. */
#include <stdio.h>

#include "base/json_stream.h"
#include "report/labels.h"
#include "report/replay_report.h"

enum { DECIMALS = 3, MAX_NAME = 96 };

static void put_names(struct sc_json_stream *json, const struct sc_replay_result *r)
{
	for (uint32_t i = 0; i < r->graph.classes.n; i++) {
		char name[MAX_NAME];

		if (i < r->ranks.n && r->ranks.n == r->graph.classes.n)
			snprintf(name, sizeof(name), "%s", r->ranks.at[i].name);
		else
			snprintf(name, sizeof(name), "rank class %u", (unsigned)i);
		sc_json_stream_object(json, NULL);
		sc_json_stream_text(json, "ph", "M");
		sc_json_stream_int(json, "pid", i);
		sc_json_stream_text(json, "name", "process_name");
		sc_json_stream_object(json, "args");
		sc_json_stream_text(json, "name", name);
		sc_json_stream_end(json);
		sc_json_stream_end(json);
	}
	for (uint32_t i = 0; i < r->graph.lanes.n; i++) {
		const struct sc_lane *lane = &r->graph.lanes.at[i];

		sc_json_stream_object(json, NULL);
		sc_json_stream_text(json, "ph", "M");
		sc_json_stream_int(json, "pid", lane->class_id);
		sc_json_stream_int(json, "tid", i);
		sc_json_stream_text(json, "name", "thread_name");
		sc_json_stream_object(json, "args");
		sc_json_stream_text(json, "name", sc_lane_kind_name((enum sc_lane_kind)lane->kind));
		sc_json_stream_end(json);
		sc_json_stream_end(json);
	}
}

static void put_span(struct sc_json_stream *json, const struct sc_replay_result *r, uint32_t node,
		     const char *what, const double us[2])
{
	const struct sc_node *n = &r->graph.nodes.at[node];

	if (!(us[1] > us[0]))
		return;
	sc_json_stream_object(json, NULL);
	sc_json_stream_text(json, "ph", "X");
	sc_json_stream_int(json, "pid", r->graph.lanes.at[n->lane].class_id);
	sc_json_stream_int(json, "tid", n->lane);
	sc_json_stream_fixed(json, "ts", us[0], DECIMALS);
	sc_json_stream_fixed(json, "dur", us[1] - us[0], DECIMALS);
	sc_json_stream_text(json, "cat", what);
	sc_json_stream_text(json, "name", r->node_names[node]);
	sc_json_stream_object(json, "args");
	sc_json_stream_text(json, "reason",
			    sc_reason_name((enum sc_reason)r->timeline.reason[node]));
	sc_json_stream_end(json);
	sc_json_stream_end(json);
}

/* What a node waited for its peers is a span of its own; its launch gap is left blank. */
static void put_node(struct sc_json_stream *json, const struct sc_replay_result *r, uint32_t id)
{
	const struct sc_node *node = &r->graph.nodes.at[id];
	const struct sc_timeline *t = &r->timeline;
	const double waits[2] = {t->ready_us[id], t->start_us[id]};
	double runs[2] = {t->start_us[id], t->end_us[id]};

	if (node->kind == SC_NODE_MEMBER)
		put_span(json, r, id, "wait", waits);
	else
		runs[0] += r->graph.costs.at[node->cost].latency_us;
	put_span(json, r, id, sc_node_kind_name((enum sc_node_kind)node->kind), runs);
}

int sc_chrome_replay_write(const struct sc_replay_result *r, FILE *out, struct sc_err *err)
{
	struct sc_json_stream json;

	sc_json_stream_init(&json, out);
	sc_json_stream_object(&json, NULL);
	sc_json_stream_text(&json, "displayTimeUnit", "ms");
	sc_json_stream_object(&json, "otherData");
	sc_json_stream_text(&json, "schema", "stepcast/timeline");
	sc_json_stream_int(&json, "version", 1);
	sc_json_stream_int(&json, "step", r->show_step);
	sc_json_stream_end(&json);
	sc_json_stream_array(&json, "traceEvents");
	put_names(&json, r);
	for (uint32_t i = 0; i < r->graph.nodes.n; i++)
		put_node(&json, r, i);
	sc_json_stream_end(&json);
	sc_json_stream_end(&json);
	return sc_json_stream_finish(&json, err);
}
