/* Which node is which op of the Kineto trace of the same run. Newer files say it: "Record function id"
 * is rf_id. In some of the others "External id" is. Else ops are paired by name: the k-th of a name in
 * order of time is the k-th of that name by rf_id, which counts up in time; a trace of several
 * iterations has a multiple of the nodes, which then repeat. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/intern.h"
#include "base/search.h"
#include "base/vec.h"
#include "trace/import/import_et_priv.h"

enum { MIN_MATCH_PCT = 90 };

struct node {
	int64_t rf_id, seq_id;
	uint32_t name, shapes; /* in mate.texts; shapes: both lists with '\1' between */
	uint32_t comm;         /* index in mate.calls + 1 */
};
struct op {
	int64_t ts_ns, external_id, record_id;
	uint32_t name;
	uint32_t index; /* order in the file */
};
/* A collective call's node, kept as texts until there is a writer. */
struct call {
	struct et_node node;
};
struct mate {
	struct sc_arena arena;
	struct sc_intern texts;
	SC_VEC(struct node) nodes;
	SC_VEC(struct call) calls;
	SC_VEC(struct op) ops;
	uint32_t *node_of_op; /* index + 1, by order in the file */
	uint32_t next_op;
	int64_t n_joined;
};

static struct sc_scan_value keep(struct mate *mate, const struct sc_scan_value *value)
{
	struct sc_scan_value own = *value;

	if (value->n)
		own.at = sc_arena_memdup(&mate->arena, value->at, value->n);
	return own;
}

static void keep_call(struct mate *mate, const struct et_node *node, struct node *out)
{
	struct call call = {.node = *node};

	call.node.name = keep(mate, &node->name);
	call.node.dims = keep(mate, &node->dims);
	call.node.types = keep(mate, &node->types);
	call.node.collective = keep(mate, &node->collective);
	call.node.dtype = keep(mate, &node->dtype);
	call.node.group_name = keep(mate, &node->group_name);
	SC_VEC_PUSH(&mate->calls, call);
	out->comm = (uint32_t)mate->calls.n;
}

static uint32_t intern(struct mate *mate, const struct sc_scan_value *value)
{
	return sc_intern_add_n(&mate->texts, value->at, value->n);
}

static void take_node(void *ctx, const struct et_node *node)
{
	struct mate *mate = ctx;
	struct node own = {.rf_id = node->rf_id, .seq_id = node->seq_id};
	struct sc_strbuf shapes = {0};
	bool call = (node->name.n > 5 && memcmp(node->name.at, "nccl:", 5) == 0) ||
		    sc_scan_is(&node->name, "record_param_comms", 18);

	own.name = intern(mate, &node->name);
	if (node->dims.n)
		sc_strbuf_append_n(&shapes, node->dims.at, node->dims.n);
	sc_strbuf_append_char(&shapes, '\1');
	if (node->types.n)
		sc_strbuf_append_n(&shapes, node->types.at, node->types.n);
	own.shapes = sc_intern_add_n(&mate->texts, shapes.at, shapes.n);
	sc_strbuf_release(&shapes);
	if (call)
		keep_call(mate, node, &own);
	SC_VEC_PUSH(&mate->nodes, own);
}

static void take_op(void *ctx, const struct kineto_event *e)
{
	struct mate *mate = ctx;
	struct op op = {.ts_ns = e->has_ts ? e->ts_ns : 0,
			.external_id = kineto_num(e, NUM_EXTERNAL_ID, -1),
			.record_id = kineto_num(e, NUM_RECORD_FUNCTION, -1)};

	/* Those that are skipped for a fault are none. */
	if (!kineto_is_op(e) || !e->has_ts || e->bad_dur || (e->has_dur && e->dur_ns < 0))
		return;
	op.name = intern(mate, &e->name);
	op.index = (uint32_t)mate->ops.n;
	SC_VEC_PUSH(&mate->ops, op);
}

static int compare_rf(const void *a, const void *b)
{
	const struct node *x = a, *y = b;

	return x->rf_id < y->rf_id ? -1 : x->rf_id > y->rf_id;
}

static uint32_t find_rf(const struct mate *mate, int64_t rf_id)
{
	size_t low;

	SC_FIRST_NOT(low, i, 0, mate->nodes.n, mate->nodes.at[i].rf_id < rf_id);
	return low < mate->nodes.n && mate->nodes.at[low].rf_id == rf_id ? (uint32_t)low + 1 : 0;
}

/* Pairs by one of the ids; false, and nothing paired, if the names then differ too often. */
static bool pair_by_id(struct mate *mate, bool record_id)
{
	size_t n_same = 0;

	for (size_t i = 0; i < mate->ops.n; i++) {
		const struct op *op = &mate->ops.at[i];
		int64_t id = record_id ? op->record_id : op->external_id;
		uint32_t found = id > 0 ? find_rf(mate, id) : 0;

		if (found && mate->nodes.at[found - 1].name != op->name)
			found = 0;
		mate->node_of_op[op->index] = found;
		n_same += found != 0;
	}
	if (n_same * 100 >=
	    (mate->ops.n < mate->nodes.n ? mate->ops.n : mate->nodes.n) * MIN_MATCH_PCT)
		return true;
	memset(mate->node_of_op, 0, mate->ops.n * sizeof(*mate->node_of_op));
	return false;
}

static int compare_ops(const void *a, const void *b)
{
	const struct op *x = a, *y = b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

struct named {
	uint32_t name, node; /* node: index */
};

static int compare_named(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* Nodes are in order of rf_id; runs of a name in both lists are paired, if one is a multiple. */
static void pair_by_name(struct mate *mate)
{
	struct named *named = sc_xmalloc((mate->nodes.n + 1) * sizeof(*named));
	size_t op = 0, at = 0;

	for (size_t i = 0; i < mate->nodes.n; i++)
		named[i] = (struct named){.name = mate->nodes.at[i].name, .node = (uint32_t)i};
	qsort(named, mate->nodes.n, sizeof(*named), compare_named);
	qsort(mate->ops.at, mate->ops.n, sizeof(*mate->ops.at), compare_ops);
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

static void fill_op(void *ctx, struct kineto_import *im, struct sc_trace_event *event,
		    struct sc_trace_comm *comm)
{
	struct mate *mate = ctx;
	uint32_t op = mate->next_op++, found = op < mate->ops.n ? mate->node_of_op[op] : 0;
	const struct sc_intern_entry *shapes;
	struct sc_scan_value dims = {.kind = SC_SCAN_LIST}, types = dims;
	struct sc_trace_comm own;
	const struct node *node;
	const char *mark;

	if (!found)
		return;
	node = &mate->nodes.at[found - 1];
	shapes = &mate->texts.entries.at[node->shapes];
	mate->n_joined++;
	mark = memchr(shapes->text, '\1', shapes->n_bytes);
	if (!event->shapes && mark) {
		dims.at = shapes->text;
		dims.n = (size_t)(mark - shapes->text);
		types.at = mark + 1;
		types.n = shapes->n_bytes - dims.n - 1;
		event->shapes = sc_import_shapes(&im->names, &dims, &types);
	}
	if (event->aux0 < 0)
		event->aux0 = node->seq_id;
	if (node->comm && et_node_comm(&im->names, &mate->calls.at[node->comm - 1].node, &own))
		sc_import_comm_fill(comm, &own);
}

static int pair_all(struct mate *mate, const char *path, const char *mate_path, struct sc_err *err)
{
	int rc = et_read(path, take_node, mate, err);

	if (rc == 0)
		rc = kineto_read(mate_path, take_op, mate, err);
	if (rc)
		return rc;
	mate->node_of_op = sc_xmalloc((mate->ops.n + 1) * sizeof(*mate->node_of_op));
	memset(mate->node_of_op, 0, (mate->ops.n + 1) * sizeof(*mate->node_of_op));
	if (mate->nodes.n)
		qsort(mate->nodes.at, mate->nodes.n, sizeof(*mate->nodes.at), compare_rf);
	if (mate->nodes.n && mate->ops.n && !pair_by_id(mate, true) && !pair_by_id(mate, false))
		pair_by_name(mate);
	return 0;
}

int et_run_with_mate(const char *path, const struct sc_import_opts *opts,
		     struct sc_import_stats *stats, struct sc_err *err)
{
	struct mate mate;
	struct kineto_import im = {
		.out.in_path = opts->mate, .stats = stats, .ops = {.each = fill_op, .ctx = &mate}};
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
	SC_VEC_RELEASE(&mate.calls);
	SC_VEC_RELEASE(&mate.ops);
	free(mate.node_of_op);
	return rc;
}
