/* Nodes of Chakra execution traces, from either form. */
#ifndef SC_TRACE_IMPORT_CHAKRA_PRIV_H
#define SC_TRACE_IMPORT_CHAKRA_PRIV_H

#include "trace/import/import_priv.h"
#include "trace/import/json_doc.h"

/* MLCommons Chakra, schema/protobuf/et_def.proto */
enum chakra_type {
	CHAKRA_METADATA = 1,
	CHAKRA_MEM_LOAD = 2,
	CHAKRA_MEM_STORE = 3,
	CHAKRA_COMP = 4,
	CHAKRA_SEND = 5,
	CHAKRA_RECV = 6,
	CHAKRA_COLL = 7
};
struct chakra_node {
	struct sc_scan_value name, dims, types, group_name; /* n = 0: not said */
	int64_t type, start_us, dur_us;
	bool has_start;
	int64_t on_host; /* -1: not said */
	int64_t tid, stream, rf_id, seq_id, comm_type, comm_bytes, source,
		target; /* -1: not said */
};
void chakra_node_init(struct chakra_node *node);

struct chakra_import {
	struct sc_import_output out;
	struct sc_import_stats *stats;
	struct sc_import_names names;
	bool has_origin;
	int64_t origin_us;
};
void chakra_write(struct chakra_import *im, const struct chakra_node *node);

/* Each reads all nodes (import_chakra_proto.c, import_chakra_json.c). */
int chakra_read_proto(struct chakra_import *im, struct sc_inflate *in, struct sc_err *err);
int chakra_read_json(struct chakra_import *im, struct sc_inflate *in, struct sc_err *err);
bool chakra_probe_proto(const char *head, size_t n);
bool chakra_probe_json(const char *head, size_t n);

#endif
