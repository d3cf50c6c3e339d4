/* The names that a replay has for its timeline. */
#include "report/chrome_timeline.h"
#include "report/replay_report.h"

static void class_name(const void *ctx, uint32_t class_id, char *buf)
{
	const struct sc_replay_result *r = ctx;

	snprintf(buf, SC_CHROME_NAME, "%s", r->ranks.at[class_id].name);
}

static void node_name(const void *ctx, uint32_t node, char *buf)
{
	const struct sc_replay_result *r = ctx;

	snprintf(buf, SC_CHROME_NAME, "%s", r->node_names[node]);
}

static void put_step(const void *ctx, struct sc_json_stream *json)
{
	const struct sc_replay_result *r = ctx;

	sc_json_stream_int(json, "step", r->show_step);
}

int sc_chrome_replay_write(const struct sc_replay_result *r, FILE *out, struct sc_err *err)
{
	const struct sc_chrome_timeline timeline = {
		.graph = &r->graph,
		.timeline = &r->timeline,
		.ctx = r,
		.class_name = class_name,
		.node_name = node_name,
		.put_facts = put_step,
		.blank_latency = true,
	};

	return sc_chrome_timeline_write(&timeline, out, err);
}
