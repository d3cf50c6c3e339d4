/* The names that a prediction has for its timeline, and its memory. */
#include "report/chrome_trace.h"

#include "report/chrome_timeline.h"
#include "report/labels.h"

struct named {
	const struct sc_predictor *predictor;
	const struct sc_prediction *prediction;
	const struct sc_graph *graph;
};

static void class_name(const void *ctx, uint32_t class_id, char *buf)
{
	const struct named *named = ctx;
	const struct sc_prediction *p = named->prediction;
	unsigned ranks = named->graph->classes.at[class_id].multiplicity;

	if (class_id < p->reading.n_classes)
		snprintf(buf, SC_CHROME_NAME, "%s (%u ranks)", p->reading.classes[class_id].name,
			 (unsigned)p->reading.classes[class_id].ranks);
	else
		snprintf(buf, SC_CHROME_NAME, "class %u (%u ranks)", (unsigned)class_id, ranks);
}

static void node_name(const void *ctx, uint32_t node, char *buf)
{
	const struct named *named = ctx;

	sc_predictor_op_name(named->predictor, named->graph->nodes.at[node].op, buf,
			     SC_CHROME_NAME);
}

/* What the fullest GPU needs, part by part: it is not simulated over time. */
static void put_memory(const void *ctx, struct sc_json_stream *json)
{
	const struct named *named = ctx;
	const struct sc_memory *memory = &named->prediction->memory;
	char name[SC_CHROME_NAME];

	for (size_t i = 0; i < SC_N_MEMORY_PARTS; i++) {
		snprintf(name, sizeof(name), "memory at most, GiB: %s", sc_memory_parts[i].name);
		sc_chrome_counter(json, 0, name, 0, sc_memory_part_gib(memory, i));
	}
}

int sc_chrome_trace_write(const struct sc_predictor *predictor,
			  const struct sc_prediction *prediction, FILE *out, struct sc_err *err)
{
	const struct named named = {predictor, prediction, sc_predictor_graph(predictor)};
	const struct sc_chrome_timeline timeline = {
		.graph = named.graph,
		.timeline = sc_predictor_timeline(predictor),
		.ctx = &named,
		.class_name = class_name,
		.node_name = node_name,
		.put_more = put_memory,
	};

	return sc_chrome_timeline_write(&timeline, out, err);
}
