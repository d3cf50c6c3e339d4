/* Written event by event: a full timeline may have millions. Format: "Trace Event Format", Google. */
#include "report/chrome_trace.h"

#include <errno.h>
#include <string.h>

#include "report/labels.h"

enum { MAX_NODE_NAME = 96 };

struct writer {
	FILE *out;
	const struct sc_predictor *predictor;
	const struct sc_prediction *prediction;
	const struct sc_graph *graph;
	const struct sc_timeline *timeline;
	bool has_event;
};

static void put_string(FILE *out, const char *text)
{
	putc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20)
			fprintf(out, "\\u%04x", c);
		else
			putc(c, out);
	}
	putc('"', out);
}

static void begin_event(struct writer *w)
{
	fputs(w->has_event ? ",\n" : "\n", w->out);
	w->has_event = true;
}

static void put_class(struct writer *w, uint32_t class_id)
{
	const struct sc_prediction *p = w->prediction;
	char name[64];

	if (class_id < p->n_classes)
		snprintf(name, sizeof(name), "%s (%u ranks)", p->classes[class_id].name,
			 (unsigned)p->classes[class_id].ranks);
	else
		snprintf(name, sizeof(name), "class %u (%u ranks)", (unsigned)class_id,
			 (unsigned)w->graph->classes.at[class_id].multiplicity);
	begin_event(w);
	fprintf(w->out, "{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":",
		(unsigned)class_id);
	put_string(w->out, name);
	fputs("}}", w->out);
	begin_event(w);
	fprintf(w->out,
		"{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%u}}",
		(unsigned)class_id, (unsigned)class_id);
}

static void put_lane(struct writer *w, uint32_t lane_id)
{
	const struct sc_lane *lane = &w->graph->lanes.at[lane_id];

	begin_event(w);
	fprintf(w->out,
		"{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":"
		"\"%s\"}}",
		(unsigned)lane->class_id, (unsigned)lane_id,
		sc_lane_kind_name((enum sc_lane_kind)lane->kind));
	begin_event(w);
	fprintf(w->out,
		"{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_sort_index\",\"args\":"
		"{\"sort_index\":%u}}",
		(unsigned)lane->class_id, (unsigned)lane_id, (unsigned)lane_id);
}

static void put_span(struct writer *w, uint32_t node_id, const char *name, const char *kind,
		     const double us[2])
{
	const struct sc_node *node = &w->graph->nodes.at[node_id];
	const struct sc_lane *lane = &w->graph->lanes.at[node->lane];
	enum sc_reason reason = (enum sc_reason)w->timeline->reason[node_id];

	begin_event(w);
	fprintf(w->out,
		"{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"cat\":\"%s\","
		"\"name\":",
		(unsigned)lane->class_id, (unsigned)node->lane, us[0], us[1] - us[0], kind);
	put_string(w->out, name);
	fprintf(w->out, ",\"args\":{\"kind\":\"%s\",\"node\":%u,\"reason\":\"%s\"}}", kind,
		(unsigned)node_id, sc_reason_name(reason));
}

/* A group's member that waits for the others gets a span of its own for that. */
static void put_node(struct writer *w, uint32_t id)
{
	const struct sc_node *node = &w->graph->nodes.at[id];
	const struct sc_timeline *t = w->timeline;
	const double waits[2] = {t->ready_us[id], t->start_us[id]};
	const double runs[2] = {t->start_us[id], t->end_us[id]};
	char name[MAX_NODE_NAME], wait[MAX_NODE_NAME + 16];

	sc_predictor_op_name(w->predictor, node->op, name, sizeof(name));
	if (node->kind == SC_NODE_MEMBER && waits[1] > waits[0]) {
		snprintf(wait, sizeof(wait), "wait: %s", name);
		put_span(w, id, wait, "wait", waits);
	}
	if (runs[1] > runs[0])
		put_span(w, id, name, sc_node_kind_name((enum sc_node_kind)node->kind), runs);
}

int sc_chrome_trace_write(const struct sc_predictor *predictor,
			  const struct sc_prediction *prediction, FILE *out, struct sc_err *err)
{
	struct writer w = {
		.out = out,
		.predictor = predictor,
		.prediction = prediction,
		.graph = sc_predictor_graph(predictor),
		.timeline = sc_predictor_timeline(predictor),
	};

	fputs("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"schema\":\"stepcast/timeline\","
	      "\"version\":1},\"traceEvents\":[",
	      out);
	for (uint32_t i = 0; i < w.graph->classes.n; i++)
		put_class(&w, i);
	for (uint32_t i = 0; i < w.graph->lanes.n; i++)
		put_lane(&w, i);
	for (uint32_t i = 0; i < w.graph->nodes.n; i++)
		put_node(&w, i);
	fputs("\n]}\n", out);
	if (fflush(out) != 0 || ferror(out))
		return sc_err_set(err, SC_EIO, "cannot write the timeline: %s", strerror(errno));
	return 0;
}
