/* PyTorch execution traces: the ops of one iteration as a graph, with shapes and mostly without
 * times. With the Kineto trace of the same run ("mate") they become that trace's events with what
 * the nodes add. Alone only those are of use that a profiler's events were joined to.
 *
 * Which node is which op of the mate: newer files say it, "Record function id" is rf_id. In some of
 * the others "External id" is. Else ops are paired by name: the k-th of a name in order of time is
 * the k-th of that name by rf_id, which counts up in time; a trace of several iterations has a
 * multiple of the nodes, which then repeat. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/intern.h"
#include "base/search.h"
#include "base/vec.h"
#include "trace/import/import_kineto_priv.h"

enum { MIN_MATCH_PCT = 90 };

struct node {
	int64_t rf_id, seq_id;
	uint32_t name, dims, types; /* in mate.texts */
	struct sc_scan_value call;  /* of a collective call the whole node, as it stands there */
};
struct op {
	int64_t ts_ns, external_id, record_id;
	uint32_t name;
	uint32_t index; /* order in the file */
};
struct mate {
	struct sc_arena arena;
	struct sc_intern texts;
	SC_VEC(struct node) nodes;
	SC_VEC(struct op) ops;
	uint32_t *node_of_op; /* index + 1, by order in the file */
	uint32_t next_op;
	int64_t n_joined;
};

static uint32_t intern_text(struct mate *mate, const struct sc_scan_value *value)
{
	return sc_intern_add_n(&mate->texts, value->n ? value->at : "", value->n);
}

static void take_node(void *ctx, const struct kineto_event *e, const struct sc_scan_value *text)
{
	struct mate *mate = ctx;
	struct node node = {.rf_id = kineto_num(e, NUM_RECORD_FUNCTION, -1),
			    .seq_id = kineto_num(e, NUM_SEQUENCE, -1),
			    .name = intern_text(mate, &e->name),
			    .dims = intern_text(mate, kineto_text(e, TEXT_DIMS)),
			    .types = intern_text(mate, kineto_text(e, TEXT_TYPES))};

	if (e->phase)
		return; /* a Kineto event among the nodes */
	if ((e->name.n > 5 && memcmp(e->name.at, "nccl:", 5) == 0) ||
	    sc_scan_is(&e->name, "record_param_comms", 18)) {
		node.call = *text;
		node.call.at = sc_arena_memdup(&mate->arena, text->at, text->n + SC_SCAN_PADDING);
	}
	SC_VEC_PUSH(&mate->nodes, node);
}

static void keep_op(void *ctx, const struct kineto_event *e, const struct sc_scan_value *text)
{
	struct mate *mate = ctx;
	struct op op = {.ts_ns = e->has_ts ? e->ts_ns : 0,
			.external_id = kineto_num(e, NUM_EXTERNAL_ID, -1),
			.record_id = kineto_num(e, NUM_RECORD_FUNCTION, -1),
			.index = (uint32_t)mate->ops.n};

	(void)text;
	/* `each` of kineto_ops is called for these alone: those skipped for a fault are none. */
	if (e->phase != 'X' || (e->cat != CAT_OP && e->cat != CAT_ANNOTATION) || !e->has_ts ||
	    e->bad_dur || (e->has_dur && e->dur_ns < 0))
		return;
	op.name = intern_text(mate, &e->name);
	SC_VEC_PUSH(&mate->ops, op);
}

SC_COMPARE(compare_rf, struct node, SC_ORDER(a->rf_id, b->rf_id));

/* Pairs by one of the ids; false, and nothing paired, if the names then differ too often. */
static bool pair_by_id(struct mate *mate, bool record_id)
{
	const struct node *nodes = mate->nodes.at;
	size_t n_same = 0;

	for (size_t i = 0; i < mate->ops.n; i++) {
		const struct op *op = &mate->ops.at[i];
		int64_t id = record_id ? op->record_id : op->external_id;
		size_t at;

		SC_FIRST_NOT(at, k, 0, mate->nodes.n, nodes[k].rf_id < id);
		if (id > 0 && at < mate->nodes.n && nodes[at].rf_id == id &&
		    nodes[at].name == op->name) {
			mate->node_of_op[op->index] = (uint32_t)at + 1;
			n_same++;
		}
	}
	if (n_same * 100 >=
	    (mate->ops.n < mate->nodes.n ? mate->ops.n : mate->nodes.n) * MIN_MATCH_PCT)
		return true;
	memset(mate->node_of_op, 0, mate->ops.n * sizeof(*mate->node_of_op));
	return false;
}

SC_COMPARE(compare_ops, struct op,
	   4 * SC_ORDER(a->name, b->name) + 2 * SC_ORDER(a->ts_ns, b->ts_ns) +
		   SC_ORDER(a->index, b->index));

struct named {
	uint32_t name, node; /* node: index */
};

SC_COMPARE(compare_named, struct named,
	   2 * SC_ORDER(a->name, b->name) + SC_ORDER(a->node, b->node));

/* Nodes are in order of rf_id; runs of a name in both lists are paired, if one is a multiple. */
static void pair_by_name(struct mate *mate)
{
	struct named *named = sc_xmalloc((mate->nodes.n + 1) * sizeof(*named));
	size_t op = 0, at = 0;

	for (size_t i = 0; i < mate->nodes.n; i++)
		named[i] = (struct named){.name = mate->nodes.at[i].name, .node = (uint32_t)i};
	SC_SORT(named, mate->nodes.n, compare_named);
	SC_SORT(mate->ops.at, mate->ops.n, compare_ops);
	while (op < mate->ops.n) {
		uint32_t name = mate->ops.at[op].name;
		size_t end = op, first, n;

		while (end < mate->ops.n && mate->ops.at[end].name == name)
			end++;
		while (at < mate->nodes.n && named[at].name < name)
			at++;
		first = at;
		while (at < mate->nodes.n && named[at].name == name)
			at++;
		n = at - first;
		for (size_t i = op; n && (end - op) % n == 0 && i < end; i++)
			mate->node_of_op[mate->ops.at[i].index] =
				named[first + (i - op) % n].node + 1;
		op = end;
	}
	free(named);
}

static struct sc_scan_value list_of(const struct mate *mate, uint32_t id)
{
	const struct sc_intern_entry *entry = &mate->texts.entries.at[id];

	return (struct sc_scan_value){.kind = SC_SCAN_LIST, .at = entry->text, .n = entry->n_bytes};
}

/* Fills in what the node of an op knows besides. */
static void fill_op(void *ctx, struct kineto_import *im, struct sc_trace_event *event,
		    struct sc_trace_comm *comm)
{
	struct mate *mate = ctx;
	uint32_t op = mate->next_op++, found = op < mate->ops.n ? mate->node_of_op[op] : 0;
	const struct node *node = found ? &mate->nodes.at[found - 1] : NULL;
	struct sc_scan_value dims, types;

	if (!node)
		return;
	mate->n_joined++;
	dims = list_of(mate, node->dims);
	types = list_of(mate, node->types);
	if (!event->shapes)
		event->shapes = sc_import_shapes(&im->out.names, &dims, &types);
	if (event->aux0 < 0)
		event->aux0 = node->seq_id;
	if (node->call.n) {
		struct sc_scan scan = sc_scan_into(&node->call);
		struct sc_trace_comm own;
		struct kineto_event e;

		kineto_scan_event(&im->words, &scan, &e);
		kineto_comm(im, &e, sc_import_name(&im->out.names, e.name.at, e.name.n)->flags,
			    &own);
		sc_import_comm_fill(comm, &own);
	}
}

static int pair_all(struct mate *mate, const char *path, const char *mate_path, struct sc_err *err)
{
	struct kineto_import nodes = {.list = KINETO_NODES, .read = take_node, .read_ctx = mate};
	struct kineto_import ops = {.list = KINETO_EVENTS, .read = keep_op, .read_ctx = mate};
	int rc = kineto_read(&nodes, path, err);

	if (rc == 0)
		rc = kineto_read(&ops, mate_path, err);
	if (rc)
		return rc;
	mate->node_of_op = sc_xmalloc((mate->ops.n + 1) * sizeof(*mate->node_of_op));
	memset(mate->node_of_op, 0, (mate->ops.n + 1) * sizeof(*mate->node_of_op));
	SC_SORT(mate->nodes.at, mate->nodes.n, compare_rf);
	if (mate->nodes.n && mate->ops.n && !pair_by_id(mate, true) && !pair_by_id(mate, false))
		pair_by_name(mate);
	return 0;
}

static int run_with_mate(const char *path, const struct sc_import_opts *opts,
			 struct sc_import_stats *stats, struct sc_err *err)
{
	struct mate mate;
	struct kineto_import im = {.list = KINETO_EVENTS,
				   .out.in_path = opts->mate,
				   .stats = stats,
				   .ops = {.each = fill_op, .ctx = &mate}};
	struct sc_import_opts own = *opts;
	int rc;

	memset(&mate, 0, sizeof(mate));
	sc_arena_init(&mate.arena, 64 << 10);
	if (!own.stem)
		own.stem = path;
	rc = pair_all(&mate, path, opts->mate, err);
	if (rc == 0)
		rc = kineto_run(&im, &own, err);
	if (rc == 0 && mate.n_joined == 0)
		sc_import_count_unused(stats, "nodes that are no op of the mate: all");
	stats->n_nodes = (int64_t)mate.nodes.n;
	stats->n_nodes_joined = mate.n_joined;
	sc_intern_release(&mate.texts);
	sc_arena_release(&mate.arena);
	SC_VEC_RELEASE(&mate.nodes);
	SC_VEC_RELEASE(&mate.ops);
	free(mate.node_of_op);
	return rc;
}

static int et_run(const char *path, const struct sc_import_opts *opts,
		  struct sc_import_stats *stats, struct sc_err *err)
{
	struct kineto_import im = {.list = KINETO_NODES, .out.in_path = path, .stats = stats};

	return opts->mate ? run_with_mate(path, opts, stats, err) : kineto_run(&im, opts, err);
}

static bool is_et(const char *head, size_t n)
{
	size_t at = sc_import_first(head, n);

	return at < n && head[at] == '{' &&
	       sc_import_has(head, n < 4096 ? n : 4096, "\"schema\"") &&
	       sc_import_has(head, n, "\"nodes\"") && !sc_import_has(head, n, "\"traceEvents\"");
}

const struct sc_importer sc_import_execution_trace = {
	.name = "execution trace", .probe = is_et, .run = et_run};
