/* The JSON form: {"workload_graph": [{"Id": 216, "Name": ..., "NodeType": 4, "runtime": 318, ...}]}. */
#include <string.h>

#include "trace/import/import_chakra_priv.h"

static void take_bool(const struct sc_scan_value *value, int64_t *out)
{
	if (sc_scan_is(value, "true", 4))
		*out = 1;
	else if (sc_scan_is(value, "false", 5))
		*out = 0;
	else
		sc_scan_any_integer(value, out);
}

static void take_field(const struct sc_scan_value *key, const struct sc_scan_value *value,
		       struct chakra_node *out)
{
	static const struct {
		const char *key;
		size_t offset;
	} numbers[] = {
		{"NodeType", offsetof(struct chakra_node, type)},
		{"runtime", offsetof(struct chakra_node, dur_us)},
		{"duration_micros", offsetof(struct chakra_node, dur_us)},
		{"comm_type", offsetof(struct chakra_node, comm_type)},
		{"comm_size", offsetof(struct chakra_node, comm_bytes)},
		{"comm_src", offsetof(struct chakra_node, source)},
		{"comm_dst", offsetof(struct chakra_node, target)},
		{"stream", offsetof(struct chakra_node, stream)},
		{"tid", offsetof(struct chakra_node, tid)},
		{"rf_id", offsetof(struct chakra_node, rf_id)},
	};
	int64_t number;

	if (sc_scan_is(key, "Name", 4) && value->kind == SC_SCAN_TEXT)
		out->name = *value;
	else if (sc_scan_is(key, "is_cpu_op", 9))
		take_bool(value, &out->on_host);
	else if (sc_scan_is(key, "pg_name", 7) && value->kind == SC_SCAN_TEXT)
		out->group_name = *value;
	else if (sc_scan_is(key, "start_time_micros", 17))
		out->has_start = sc_scan_any_integer(value, &out->start_us);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (sc_scan_is(key, numbers[i].key, strlen(numbers[i].key)) &&
		    sc_scan_any_integer(value, &number))
			memcpy((char *)out + numbers[i].offset, &number, sizeof(number));
	}
}

static enum sc_scan_rc take_node(void *ctx, struct sc_scan *scan)
{
	struct chakra_import *im = ctx;
	struct sc_scan_value key, value;
	struct chakra_node node;
	enum sc_scan_rc rc = sc_scan_open(scan, '{');

	chakra_node_init(&node);
	while (rc == SC_SCAN_OK) {
		rc = sc_scan_key(scan, &key);
		if (rc == SC_SCAN_OK)
			rc = sc_scan_value(scan, &value);
		if (rc == SC_SCAN_OK)
			take_field(&key, &value, &node);
	}
	if (rc != SC_SCAN_END)
		return rc;
	chakra_write(im, &node);
	return SC_SCAN_OK;
}

static void take_bad(void *ctx, bool is_item, const char *reason)
{
	struct chakra_import *im = ctx;

	im->stats->n_records += is_item;
	sc_import_count_bad(im->stats, reason);
}

int chakra_read_json(struct chakra_import *im, struct sc_inflate *in, struct sc_err *err)
{
	static const struct sc_json_doc_ops doc_ops = {
		.list = "workload_graph", .item = take_node, .bad = take_bad};
	struct sc_json_doc_result result;
	int rc = sc_json_doc_read(in, &doc_ops, im, &result, err);

	im->stats->truncated = result.truncated != NULL;
	im->stats->why_truncated = result.truncated;
	return rc;
}

bool chakra_probe_json(const char *head, size_t n)
{
	size_t at = sc_import_first(head, n);

	return at < n && head[at] == '{' &&
	       sc_import_has(head, n < 4096 ? n : 4096, "\"workload_graph\"");
}
