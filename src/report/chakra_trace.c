/* Protobuf by hand, as src/trace/import/import_chakra.c reads it: a file is a sequence of (length,
 * message), first a GlobalMetadata, then Nodes (MLCommons Chakra, schema/protobuf/et_def.proto,
 * v0.0.4; types of attributes as its feeder expects them, src/feeder/et_feeder_node.cpp). Times are
 * whole microseconds there, so what is rounded are begins and ends, never lengths. */
#include "report/chakra_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/output.h"
#include "base/strbuf.h"
#include "core/graph/op.h"
#include "predict/op_names.h"
#include "report/chrome_trace.h"

enum { WIRE_VARINT = 0, WIRE_BYTES = 2 };
enum { METADATA_VERSION = 1, METADATA_ATTR = 2 };
enum {
	NODE_ID = 1,
	NODE_NAME,
	NODE_TYPE,
	NODE_DATA_DEPS = 5,
	NODE_START,
	NODE_DURATION,
	NODE_ATTR = 10
};
enum { ATTR_NAME = 1, ATTR_INT32 = 7, ATTR_INT64 = 9, ATTR_BOOL = 27, ATTR_STRING = 29 };
enum node_type { MEM_LOAD = 2, MEM_STORE, COMP, SEND, RECV, COLL };
enum { CHAKRA_BARRIER = 9 };
/* CollectiveCommType */
static const int COMM_TYPES[SC_N_COLLECTIVES] = {
	[SC_ALL_REDUCE] = 0, [SC_REDUCE] = 1,    [SC_ALL_GATHER] = 2, [SC_GATHER] = 3,
	[SC_SCATTER] = 4,    [SC_BROADCAST] = 5, [SC_ALL_TO_ALL] = 6, [SC_REDUCE_SCATTER] = 7,
};

struct writer {
	FILE *out;
	const struct sc_graph *graph;
	const struct sc_timeline *timeline;
	struct sc_strbuf message, attr;
	uint32_t *pred_start, *pred; /* CSR: what each node waits for, its lane among it; of other
					classes their group says so */
};

static void put_varint(struct sc_strbuf *out, uint64_t value)
{
	for (; value > 0x7F; value >>= 7)
		sc_strbuf_append_char(out, (char)(value | 0x80));
	sc_strbuf_append_char(out, (char)value);
}

static void put_number(struct sc_strbuf *out, unsigned field, uint64_t value)
{
	put_varint(out, field << 3 | WIRE_VARINT);
	put_varint(out, value);
}

static void put_bytes(struct sc_strbuf *out, unsigned field, const char *bytes, size_t n)
{
	put_varint(out, field << 3 | WIRE_BYTES);
	put_varint(out, n);
	sc_strbuf_append_n(out, bytes, n);
}

/* Bytes or FLOP as a whole number; the cap is more than any model has. */
static uint64_t whole_number(double amount)
{
	return (uint64_t)llround(fmin(amount, 9e18));
}

/* A text where there is one, else a number of that kind. */
static void put_attr(struct writer *w, unsigned field, const char *name, unsigned kind,
		     uint64_t number, const char *text)
{
	sc_strbuf_clear(&w->attr);
	put_bytes(&w->attr, ATTR_NAME, name, strlen(name));
	if (text)
		put_bytes(&w->attr, ATTR_STRING, text, strlen(text));
	else
		put_number(&w->attr, kind, number);
	put_bytes(&w->message, field, sc_strbuf_get(&w->attr), w->attr.n);
}

static void put_message(struct writer *w)
{
	sc_strbuf_clear(&w->attr);
	put_varint(&w->attr, w->message.n);
	fwrite(sc_strbuf_get(&w->attr), 1, w->attr.n, w->out);
	fwrite(sc_strbuf_get(&w->message), 1, w->message.n, w->out);
	sc_strbuf_clear(&w->message);
}

/* ---- what a node waits for ---- */

static void find_preds(struct writer *w)
{
	const struct sc_graph *g = w->graph;
	uint32_t n;

	w->pred_start = sc_xcalloc(g->nodes.n + 1, sizeof(*w->pred_start));
	for (uint32_t id = 0; id < g->nodes.n; id++)
		w->pred_start[id] = (id ? w->pred_start[id - 1] : 0) + g->n_deps[id];
	n = g->nodes.n ? w->pred_start[g->nodes.n - 1] : 0;
	w->pred_start[g->nodes.n] = n;
	w->pred = sc_xmalloc((n + 1) * sizeof(*w->pred));
	for (uint32_t id = 0; id < g->nodes.n; id++) {
		for (uint32_t i = g->succ_start[id]; i < g->succ_start[id + 1]; i++)
			w->pred[--w->pred_start[g->succ[i]]] = id;
		if (g->lane_next[id] != SC_NONE)
			w->pred[--w->pred_start[g->lane_next[id]]] = id;
	}
}

/* ---- nodes ---- */

static enum node_type type_of(const struct sc_graph *g, const struct sc_node *node,
			      const struct sc_cost *cost)
{
	if (node->kind == SC_NODE_COPY)
		return sc_op_unpack_name(node->op) == SC_NAME_TO_HOST ? MEM_STORE : MEM_LOAD;
	if (node->group == SC_NONE || (!cost->comm && sc_cost_alone_us(cost) > 0))
		return COMP;
	if (cost->comm != 1 + SC_SEND_RECV)
		return COLL;
	return g->members.at[g->groups.at[node->group].first_member].class_id ==
			       g->lanes.at[node->lane].class_id
		       ? SEND
		       : RECV;
}

/* A communicator: the lane on which its first class joins it, and how many ranks of which join. */
static void put_group(struct writer *w, const struct sc_node *node, enum node_type type,
		      const struct sc_cost *cost)
{
	const struct sc_graph *g = w->graph;
	const struct sc_group *group = &g->groups.at[node->group];
	const struct sc_member *members = &g->members.at[group->first_member];
	uint32_t first = g->group_node[g->group_node_start[node->group]];
	struct sc_strbuf name = {0};

	sc_strbuf_printf(&name, "lane%u", (unsigned)g->nodes.at[first].lane);
	for (uint32_t i = 0; i < group->n_members; i++)
		sc_strbuf_printf(&name, ":%ux%u", (unsigned)members[i].class_id,
				 (unsigned)members[i].count);
	put_attr(w, NODE_ATTR, "pg_name", 0, 0, sc_strbuf_get(&name));
	put_attr(w, NODE_ATTR, "pg_size", ATTR_INT64, group->world, NULL);
	put_attr(w, NODE_ATTR, "comm_size", ATTR_INT64, whole_number(cost->amount), NULL);
	sc_strbuf_release(&name);
	if (type == COLL) {
		put_attr(w, NODE_ATTR, "comm_type", ATTR_INT64,
			 (uint64_t)(cost->comm ? COMM_TYPES[cost->comm - 1] : CHAKRA_BARRIER),
			 NULL);
		return;
	}
	put_attr(w, NODE_ATTR, "comm_src", ATTR_INT32, members[0].class_id, NULL);
	put_attr(w, NODE_ATTR, "comm_dst", ATTR_INT32, members[group->n_members - 1].class_id,
		 NULL);
	put_attr(w, NODE_ATTR, "comm_tag", ATTR_INT32, node->group & INT32_MAX, NULL);
}

static void put_node(struct writer *w, uint32_t id)
{
	const struct sc_graph *g = w->graph;
	const struct sc_node *node = &g->nodes.at[id];
	const struct sc_cost *cost =
		&g->costs.at[node->group == SC_NONE ? node->cost : g->groups.at[node->group].cost];
	const enum node_type type = type_of(g, node, cost);
	const bool on_host = g->lanes.at[node->lane].kind == SC_LANE_HOST;
	/* Times begin at 1, because 0 is a time that is not said. */
	const int64_t begin = 1 + llround(w->timeline->start_us[id]);
	char name[SC_CHROME_NAME];

	sc_chrome_op_name(node->op, name);
	put_number(&w->message, NODE_ID, id);
	put_bytes(&w->message, NODE_NAME, name, strlen(name));
	put_number(&w->message, NODE_TYPE, type);
	for (uint32_t i = w->pred_start[id]; i < w->pred_start[id + 1]; i++)
		if (sc_graph_class_of(g, w->pred[i]) == sc_graph_class_of(g, id))
			put_number(&w->message, NODE_DATA_DEPS, w->pred[i]);
	put_number(&w->message, NODE_START, (uint64_t)begin);
	put_number(&w->message, NODE_DURATION,
		   (uint64_t)(1 + llround(w->timeline->end_us[id]) - begin));
	put_attr(w, NODE_ATTR, "is_cpu_op", ATTR_BOOL, on_host, NULL);
	put_attr(w, NODE_ATTR, on_host ? "tid" : "stream", ATTR_INT64, node->lane, NULL);
	if (type >= SEND)
		put_group(w, node, type, cost);
	else if (type == COMP && cost->amount > 0 && !cost->comm)
		put_attr(w, NODE_ATTR, "num_ops", ATTR_INT64, whole_number(cost->amount), NULL);
	put_message(w);
}

int sc_chakra_write(const struct sc_predictor *predictor, const char *dir, struct sc_err *err)
{
	struct writer w = {.graph = sc_predictor_ran(predictor).graph,
			   .timeline = sc_predictor_ran(predictor).timeline};
	struct sc_strbuf path = {0};
	int rc = sc_make_folder(dir, err);

	find_preds(&w);
	for (uint32_t c = 0; c < w.graph->classes.n && rc == 0; c++) {
		struct sc_output *out;

		sc_strbuf_clear(&path);
		sc_strbuf_printf(&path, "%s/chakra.%u.et", dir, (unsigned)c);
		rc = sc_output_create(sc_strbuf_get(&path), false, &out, err);
		if (rc)
			break;
		w.out = sc_output_stream(out);
		put_bytes(&w.message, METADATA_VERSION, "0.0.4", 5);
		put_attr(&w, METADATA_ATTR, "schema", 0, 0, "stepcast-chakra.0.0.4");
		put_attr(&w, METADATA_ATTR, "ranks", ATTR_INT64,
			 w.graph->classes.at[c].multiplicity, NULL);
		put_message(&w);
		for (uint32_t id = 0; id < w.graph->nodes.n; id++)
			if (sc_graph_class_of(w.graph, id) == c)
				put_node(&w, id);
		rc = sc_output_commit(out, NULL, err);
	}
	sc_strbuf_release(&path);
	sc_strbuf_release(&w.message);
	sc_strbuf_release(&w.attr);
	free(w.pred_start);
	free(w.pred);
	return rc;
}
