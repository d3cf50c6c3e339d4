/* A JSON document too large to hold, whose bulk is one list: {"traceEvents": [...], ...}. The items of
 * the list are handed out one by one as they stream past; damage costs only what it hits. Memory is a
 * window of at most SC_JSON_DOC_WINDOW. */
#ifndef SC_TRACE_JSON_DOC_H
#define SC_TRACE_JSON_DOC_H

#include "trace/import/inflate_stream.h"
#include "trace/import/json_scan.h"

enum { SC_JSON_DOC_WINDOW = 16 << 20 }; /* what is larger than this in one piece is skipped */

struct sc_json_doc_ops {
	const char *list; /* the member whose items come one by one */
	bool bare_list;   /* the document may also be that list itself */
	/* Scans one item, an object. Has no effect unless it returns SC_SCAN_OK: it is called again after
	 * SC_SCAN_MORE with a larger window, and after SC_SCAN_BAD with a loose scan. */
	enum sc_scan_rc (*item)(void *ctx, struct sc_scan *scan);
	/* Any other member, whole. May be NULL. */
	void (*member)(void *ctx, const struct sc_scan_value *key,
		       const struct sc_scan_value *value);
	/* An item or member that was skipped. */
	void (*bad)(void *ctx, bool is_item, const char *reason);
};
struct sc_json_doc_result {
	bool found_list;
	const char *truncated; /* NULL, or why the document is not whole; static text */
};
/* Fails only if the file cannot be read; that it is no JSON at all shows in the result. */
int sc_json_doc_read(struct sc_inflate *in, const struct sc_json_doc_ops *ops, void *ctx,
		     struct sc_json_doc_result *out, struct sc_err *err);

#endif
