/* PyTorch execution traces: the ops of one iteration as a graph, with shapes and mostly without times.
 * Alone, they become events without a time, in the order of the file; with the Kineto trace of the same
 * run ("mate"), that trace's events with what the nodes add. */
#include <stdlib.h>
#include <string.h>

#include "trace/import/import_et_priv.h"

static void write_node(struct kineto_import *im, const struct et_node *node)
{
	const struct sc_import_name *found =
		sc_import_name(&im->names, node->name.at, node->name.n);
	const struct sc_import_name name = *found;
	struct sc_trace_lane lane;
	struct sc_trace_event event;
	struct sc_trace_comm comm;

	memset(&event, 0, sizeof(event));
	memset(&lane, 0, sizeof(lane));
	im->stats->n_repaired += name.n_repaired;
	im->stats->n_events++;
	im->stats->n_steps += (name.flags & SC_NAME_STEP) != 0;
	im->stats->n_calls += (name.flags & SC_NAME_CALL) != 0;
	lane.device = lane.stream = -1;
	lane.tid = node->tid > INT32_MAX || node->tid < INT32_MIN ? -1 : (int32_t)node->tid;
	event.cls = name.flags & (SC_NAME_STEP | SC_NAME_CALL) ? SC_EV_RANGE
		    : name.flags & SC_NAME_PARAM_COMMS         ? SC_EV_COMM
							       : SC_EV_OP;
	event.name = name.id;
	event.lane = sc_trace_writer_lane(im->out.writer, &lane);
	event.external_id = node->rf_id < 0 ? 0 : node->rf_id;
	event.shapes = sc_import_shapes(&im->names, &node->dims, &node->types);
	event.aux0 = node->seq_id;
	event.aux1 = node->fw_tid;
	event.flags = node->has_ts ? 0 : SC_EVF_NO_TIME;
	if (node->has_ts && !im->has_origin) {
		im->has_origin = true;
		im->origin_ns = node->ts_ns;
	}
	event.dur_ns = node->dur_ns;
	if (node->has_ts && (__builtin_sub_overflow(node->ts_ns, im->origin_ns, &event.start_ns) ||
			     !sc_event_in_range(&event))) {
		event.flags = SC_EVF_NO_TIME;
		event.start_ns = 0;
	}
	if (!sc_event_in_range(&event))
		event.dur_ns = 0;
	if (et_node_comm(&im->names, node, &comm))
		event.comm = sc_trace_writer_comm(im->out.writer, &comm);
	sc_trace_writer_add(im->out.writer, &event);
}

static enum sc_scan_rc take_node(void *ctx, struct sc_scan *scan)
{
	struct kineto_import *im = ctx;
	struct sc_scan again = *scan;
	struct kineto_event event;
	struct et_node node;
	enum sc_scan_rc rc;

	if (*scan->at != '{') {
		struct sc_scan_value other;

		rc = sc_scan_value(scan, &other);
		if (rc == SC_SCAN_OK) {
			im->stats->n_records++;
			sc_import_count_bad(im->stats, "not an object");
		}
		return rc;
	}
	rc = et_scan_node(scan, &node);
	if (rc)
		return rc;
	if (node.is_event && kineto_scan_event(&im->words, &again, &event) == SC_SCAN_OK) {
		kineto_emit(im, &event);
		return SC_SCAN_OK;
	}
	im->stats->n_records++;
	write_node(im, &node);
	return SC_SCAN_OK;
}

static void take_bad(void *ctx, bool is_item, const char *reason)
{
	struct kineto_import *im = ctx;

	im->stats->n_records += is_item;
	sc_import_count_bad(im->stats, reason);
}

static void take_member(void *ctx, const struct sc_scan_value *key,
			const struct sc_scan_value *value)
{
	struct kineto_import *im = ctx;
	struct sc_strbuf text = {0};
	int64_t number;

	if (sc_scan_is(key, "pid", 3) && sc_scan_any_integer(value, &number) && number > 0 &&
	    number <= INT32_MAX)
		im->out.identity.pid = (int32_t)number;
	if (sc_scan_is(key, "schema", 6) && value->kind == SC_SCAN_TEXT && value->n < 256) {
		sc_scan_decode(value->at, value->n, &text);
		sc_trace_writer_meta(im->out.writer, "file.schema", sc_strbuf_get(&text));
		sc_strbuf_release(&text);
	}
}

static int read_alone(struct kineto_import *im, struct sc_inflate *in, struct sc_err *err)
{
	static const struct sc_json_doc_ops doc_ops = {
		.list = "nodes", .item = take_node, .member = take_member, .bad = take_bad};
	struct sc_json_doc_result result;
	int rc = sc_json_doc_read(in, &doc_ops, im, &result, err);

	im->stats->in_bytes = sc_inflate_bytes(in);
	im->stats->truncated = result.truncated != NULL;
	im->stats->why_truncated = result.truncated;
	if (rc == 0 && (!result.found_list || im->stats->n_events == 0))
		rc = sc_err_at(err, SC_EFORMAT, im->out.in_path, 0, 0, "no nodes: %s",
			       result.truncated ? result.truncated : "the file has none");
	if (rc)
		return rc;
	im->stats->n_joined += sc_comm_join_finish(im->join, im->out.writer);
	sc_trace_writer_base(im->out.writer, im->origin_ns);
	return 0;
}

static int run(const char *path, const struct sc_import_opts *opts, struct sc_import_stats *stats,
	       struct sc_err *err)
{
	struct kineto_import im;
	struct sc_inflate *in;
	int rc;

	if (opts->mate)
		return et_run_with_mate(path, opts, stats, err);
	rc = sc_inflate_open(path, opts->progress, &in, err);
	if (rc)
		return rc;
	memset(&im, 0, sizeof(im));
	im.stats = stats;
	im.out = (struct sc_import_output){.in_path = path, .opts = opts};
	rc = sc_import_output_create(&im.out, "execution-trace", err);
	if (rc == 0) {
		kineto_begin(&im);
		rc = read_alone(&im, in, err);
		if (rc == 0)
			rc = sc_import_output_finish(&im.out, stats, err);
		kineto_end(&im);
	}
	sc_import_output_discard(&im.out);
	sc_inflate_close(in);
	return rc;
}

struct reading {
	void (*each)(void *ctx, const struct et_node *node);
	void *ctx;
};

static enum sc_scan_rc read_node(void *ctx, struct sc_scan *scan)
{
	struct reading *reading = ctx;
	struct et_node node;
	enum sc_scan_rc rc = et_scan_node(scan, &node);

	if (rc == SC_SCAN_OK && !node.is_event)
		reading->each(reading->ctx, &node);
	return rc;
}

int et_read(const char *path, void (*each)(void *ctx, const struct et_node *node), void *ctx,
	    struct sc_err *err)
{
	static const struct sc_json_doc_ops doc_ops = {.list = "nodes", .item = read_node};
	struct reading reading = {.each = each, .ctx = ctx};
	struct sc_json_doc_result result;
	struct sc_inflate *in;
	int rc = sc_inflate_open(path, NULL, &in, err);

	if (rc)
		return rc;
	rc = sc_json_doc_read(in, &doc_ops, &reading, &result, err);
	sc_inflate_close(in);
	if (rc == 0 && !result.found_list)
		rc = sc_err_at(err, SC_EFORMAT, path, 0, 0, "no nodes in it");
	return rc;
}

static bool probe(const char *path, const char *head, size_t n)
{
	size_t at = sc_import_first(head, n);

	(void)path;
	return at < n && head[at] == '{' &&
	       sc_import_has(head, n < 4096 ? n : 4096, "\"schema\"") &&
	       sc_import_has(head, n, "\"nodes\"") && !sc_import_has(head, n, "\"traceEvents\"");
}

const struct sc_importer sc_import_execution_trace = {
	.name = "execution trace", .probe = probe, .run = run};
