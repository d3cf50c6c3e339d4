/* Chakra execution traces (MLCommons): graphs of compute and communication nodes with durations, mostly
 * without start times. Here: from a node to an event. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/units.h"
#include "trace/import/import_chakra_priv.h"

#define MAX_TIME_US (INT64_MAX / 2 / SC_NS_PER_US) /* see sc_event_in_range */

void chakra_node_init(struct chakra_node *node)
{
	*node = (struct chakra_node){.on_host = -1,
				     .tid = -1,
				     .stream = -1,
				     .rf_id = -1,
				     .seq_id = -1,
				     .comm_type = -1,
				     .comm_bytes = -1,
				     .source = -1,
				     .target = -1};
	node->name.at = "";
}

static int32_t to_32(int64_t value)
{
	return value < 0 || value > INT32_MAX ? -1 : (int32_t)value;
}

/* et_def.proto: CollectiveCommType */
static const char *collective_name(const struct chakra_node *node)
{
	static const char *const names[] = {
		"all_reduce", "reduce",         "all_gather",
		"gather",     "scatter",        "broadcast",
		"all_to_all", "reduce_scatter", "reduce_scatter_block",
		"barrier",
	};

	if (node->type == CHAKRA_SEND)
		return "send";
	if (node->type == CHAKRA_RECV)
		return "recv";
	if (node->comm_type >= 0 && node->comm_type < (int64_t)(sizeof(names) / sizeof(names[0])))
		return names[node->comm_type];
	return NULL;
}

static uint32_t write_comm(struct chakra_import *im, const struct chakra_node *node)
{
	const char *name = collective_name(node);
	struct sc_trace_comm comm;

	sc_trace_comm_init(&comm);
	if (name)
		comm.collective = sc_trace_writer_string(im->out.writer, name, strlen(name));
	comm.group_name = sc_import_text(&im->names, &node->group_name);
	comm.bytes = node->comm_bytes;
	comm.peer = to_32(node->type == CHAKRA_RECV ? node->source : node->target);
	return sc_trace_writer_comm(im->out.writer, &comm);
}

static bool is_comm(const struct chakra_node *node)
{
	return node->type >= CHAKRA_SEND && node->type <= CHAKRA_COLL;
}

/* Where it is not said, communication is the device's and everything else the host's. */
static bool on_host(const struct chakra_node *node)
{
	return node->on_host < 0 ? !is_comm(node) : node->on_host > 0;
}

static uint8_t class_of(const struct chakra_node *node)
{
	if (on_host(node))
		return is_comm(node) ? SC_EV_COMM : SC_EV_OP;
	return node->type == CHAKRA_MEM_LOAD || node->type == CHAKRA_MEM_STORE ? SC_EV_COPY
									       : SC_EV_KERNEL;
}

static uint32_t write_lane(struct chakra_import *im, const struct chakra_node *node)
{
	struct sc_trace_lane lane;

	memset(&lane, 0, sizeof(lane));
	lane.is_stream = !on_host(node);
	lane.device = lane.is_stream ? 0 : -1;
	lane.stream = lane.is_stream ? to_32(node->stream) : -1;
	lane.tid = lane.is_stream ? 0 : to_32(node->tid);
	return sc_trace_writer_lane(im->out.writer, &lane);
}

static const char *take_times(struct chakra_import *im, const struct chakra_node *node,
			      struct sc_trace_event *event)
{
	if (node->dur_us < 0 || node->dur_us > MAX_TIME_US)
		return "duration out of range";
	event->dur_ns = node->dur_us * SC_NS_PER_US;
	if (!node->has_start) {
		event->flags |= SC_EVF_NO_TIME;
		return NULL;
	}
	if (!im->has_origin)
		im->origin_us = node->start_us;
	im->has_origin = true;
	if (__builtin_sub_overflow(node->start_us, im->origin_us, &event->start_ns) ||
	    event->start_ns > MAX_TIME_US || event->start_ns < -MAX_TIME_US)
		return "time out of range";
	event->start_ns *= SC_NS_PER_US;
	return sc_event_in_range(event) ? NULL : "time out of range";
}

void chakra_write(struct chakra_import *im, const struct chakra_node *node)
{
	struct sc_import_name name;
	struct sc_trace_event event;
	const char *fault;

	memset(&event, 0, sizeof(event));
	im->stats->n_records++;
	if (node->type == CHAKRA_METADATA) {
		im->stats->n_metadata++;
		return;
	}
	fault = node->type < CHAKRA_METADATA || node->type > CHAKRA_COLL
			? "unknown type of node"
			: take_times(im, node, &event);
	if (fault) {
		sc_import_count_bad(im->stats, fault);
		return;
	}
	name = *sc_import_name(&im->names, node->name.at, node->name.n);
	im->stats->n_repaired += name.n_repaired;
	im->stats->n_events++;
	im->stats->n_steps += (name.flags & SC_NAME_STEP) != 0;
	event.name = name.id;
	event.cls = class_of(node);
	event.lane = write_lane(im, node);
	event.external_id = node->rf_id < 0 ? 0 : node->rf_id;
	event.shapes = sc_import_shapes(&im->names, &node->dims, &node->types);
	if (event.cls == SC_EV_OP)
		event.aux0 = node->seq_id;
	if (is_comm(node))
		event.comm = write_comm(im, node);
	if (event.cls == SC_EV_KERNEL) {
		im->stats->n_kernels++;
		im->stats->n_nccl += (name.flags & SC_NAME_NCCL) != 0;
		im->stats->n_collectives += is_comm(node) || (name.flags & SC_NAME_COMM);
		im->stats->n_joined += is_comm(node);
	}
	if (event.cls == SC_EV_COMM)
		im->stats->n_calls++;
	sc_trace_writer_add(im->out.writer, &event);
}

static bool probe(const char *path, const char *head, size_t n)
{
	(void)path;
	return chakra_probe_json(head, n) || chakra_probe_proto(head, n);
}

static int read_nodes(struct chakra_import *im, const char *path, const struct sc_import_opts *opts,
		      struct sc_err *err)
{
	enum { HEAD = 64 << 10 };
	char *head = sc_xmalloc(HEAD);
	struct sc_inflate *in;
	size_t n = HEAD;
	bool json = false;
	int rc = sc_inflate_open(path, NULL, &in, err);

	if (rc == 0) {
		rc = sc_inflate_read(in, head, &n, err);
		json = chakra_probe_json(head, n);
		sc_inflate_close(in);
	}
	free(head);
	if (rc == 0)
		rc = sc_inflate_open(path, opts->progress, &in, err);
	if (rc)
		return rc;
	rc = json ? chakra_read_json(im, in, err) : chakra_read_proto(im, in, err);
	im->stats->in_bytes = sc_inflate_bytes(in);
	sc_inflate_close(in);
	if (rc == 0 && im->stats->n_events == 0)
		rc = sc_err_at(err, SC_EFORMAT, path, 0, 0, "no nodes: %s",
			       im->stats->why_truncated ? im->stats->why_truncated
							: "the file has none that count");
	return rc;
}

static int run(const char *path, const struct sc_import_opts *opts, struct sc_import_stats *stats,
	       struct sc_err *err)
{
	struct chakra_import im;
	int rc;

	memset(&im, 0, sizeof(im));
	im.stats = stats;
	im.out = (struct sc_import_output){.in_path = path, .opts = opts};
	rc = sc_import_output_create(&im.out, "chakra", err);
	if (rc == 0) {
		sc_import_names_init(&im.names, im.out.writer);
		rc = read_nodes(&im, path, opts, err);
		if (rc == 0) {
			if (im.origin_us >= 0 && im.origin_us <= INT64_MAX / SC_NS_PER_US)
				sc_trace_writer_base(im.out.writer, im.origin_us * SC_NS_PER_US);
			rc = sc_import_output_finish(&im.out, stats, err);
		}
		sc_import_names_release(&im.names);
	}
	sc_import_output_discard(&im.out);
	return rc;
}

const struct sc_importer sc_import_chakra = {.name = "chakra", .probe = probe, .run = run};
