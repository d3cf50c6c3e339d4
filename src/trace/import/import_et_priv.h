/* Nodes of PyTorch execution traces. */
#ifndef SC_TRACE_IMPORT_ET_PRIV_H
#define SC_TRACE_IMPORT_ET_PRIV_H

#include "trace/import/import_kineto_priv.h"

struct et_node {
	bool is_event; /* a publisher put a Kineto event among the nodes: scan it as one */
	bool has_ts;
	struct sc_scan_value name, dims, types;
	struct sc_scan_value collective, dtype, group_name; /* n = 0: not said */
	int64_t rf_id, seq_id, tid, fw_tid;                 /* rf_id -1: not said */
	int64_t ts_ns, dur_ns, in_elems, out_elems, group_size;
};
/* One node; the same rules as an item of a document (trace/json_doc.h). */
enum sc_scan_rc et_scan_node(struct sc_scan *scan, struct et_node *out);
/* What a node says of a collective; false if nothing. */
bool et_node_comm(struct sc_import_names *names, const struct et_node *node,
		  struct sc_trace_comm *comm);
/* Reads only. */
int et_read(const char *path, void (*each)(void *ctx, const struct et_node *node), void *ctx,
	    struct sc_err *err);
/* The mate's events with what the nodes of `path` know besides (import_et_mate.c). */
int et_run_with_mate(const char *path, const struct sc_import_opts *opts,
		     struct sc_import_stats *stats, struct sc_err *err);

#endif
