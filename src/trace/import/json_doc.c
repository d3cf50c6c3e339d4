/* The window holds whole items: one that does not end in it is scanned again from its start when more
 * has been read. */
#include "trace/import/json_doc.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum { FIRST_WINDOW = 1 << 20, MAX_WASTE = 1 << 28, WASTE_SHARE = 4 };

struct doc {
	struct sc_inflate *in;
	const struct sc_json_doc_ops *ops;
	void *ctx;
	struct sc_json_doc_result *out;
	struct sc_err *err;
	char *buf;
	size_t cap; /* without the padding */
	struct sc_scan scan;
	bool eof;
	int rc;        /* of reading */
	int64_t waste; /* bytes scanned for items that then made no sense */
};

static bool stop(struct doc *doc, const char *why)
{
	if (!doc->out->truncated)
		doc->out->truncated = why;
	return false;
}

/* Reads on: what lies before `from`, where the scan begins again, is given up. False at the end of the file, or
 * if the window is full. */
static bool refill(struct doc *doc, const char *from)
{
	size_t keep = (size_t)(doc->scan.end - from), got;

	doc->scan.at = from;
	if (doc->eof || doc->rc)
		return false;
	if (keep == doc->cap && doc->cap >= SC_JSON_DOC_WINDOW)
		return false;
	if (keep == doc->cap) {
		/* The whole window is one piece. */
		doc->cap *= 2;
		doc->buf = sc_xrealloc(doc->buf, doc->cap + SC_SCAN_PADDING, 1);
	} else {
		memmove(doc->buf, from, keep);
	}
	got = doc->cap - keep;
	doc->rc = sc_inflate_read(doc->in, doc->buf + keep, &got, doc->err);
	doc->eof = got < doc->cap - keep;
	doc->scan.at = doc->buf;
	doc->scan.end = doc->buf + keep + got;
	memset(doc->buf + keep + got, 0, SC_SCAN_PADDING);
	return got > 0 && doc->rc == 0;
}

static bool peek(struct doc *doc, char *c)
{
	for (;;) {
		while (doc->scan.at < doc->scan.end &&
		       (*doc->scan.at == ' ' || *doc->scan.at == '\n' || *doc->scan.at == '\t' ||
			*doc->scan.at == '\r'))
			doc->scan.at++;
		if (doc->scan.at < doc->scan.end) {
			*c = *doc->scan.at;
			return true;
		}
		if (!refill(doc, doc->scan.at))
			return false;
	}
}

/* Passes over the rest of a list, object or text that is larger than the window. */
static bool skip_large(struct doc *doc)
{
	bool in_text = false;
	unsigned depth = 0;

	for (;;) {
		char c;

		if (doc->scan.at == doc->scan.end && !refill(doc, doc->scan.at))
			return false;
		c = *doc->scan.at++;
		if (in_text && c == '\\') {
			if (doc->scan.at == doc->scan.end && !refill(doc, doc->scan.at))
				return false;
			doc->scan.at++;
			continue;
		}
		if (c == '"')
			in_text = !in_text;
		else if (!in_text && (c == '{' || c == '['))
			depth++;
		else if (!in_text && (c == '}' || c == ']') && depth)
			depth--;
		else
			continue;
		if (!in_text && depth == 0)
			return true;
	}
}

/* Is this where an item ended and an object begins: "}, {"? Looks at most 256 bytes ahead. */
static bool is_boundary(const struct sc_scan *scan, const char **next)
{
	const char *at = scan->at + 1, *limit = scan->end - at > 256 ? at + 256 : scan->end;
	bool comma = false;

	for (; at < limit; at++) {
		if (*at == ',') {
			comma = true;
		} else if (*at == '{' || *at == ']') {
			*next = at;
			return comma || *at == ']';
		} else if (*at != ' ' && *at != '\n' && *at != '\r' && *at != '\t') {
			return false;
		}
	}
	return false;
}

/* After an item that makes no sense: to where the next one seems to begin. */
static bool resync(struct doc *doc)
{
	for (;;) {
		const char *at = memchr(doc->scan.at, '}', (size_t)(doc->scan.end - doc->scan.at)),
			   *next;

		doc->scan.at = at ? at : doc->scan.end;
		if ((!at || doc->scan.end - at < 256) && !doc->eof && refill(doc, doc->scan.at))
			continue;
		if (!at)
			return stop(doc, "nothing makes sense after a damaged event");
		if (is_boundary(&doc->scan, &next)) {
			doc->scan.at = next;
			return true;
		}
		doc->scan.at++;
	}
}

/* Each damaged item may make the scan look far ahead in vain; a file of nothing else must end. */
static bool add_waste(struct doc *doc, const char *start, const char *at)
{
	doc->waste += at - start;
	return doc->waste <= MAX_WASTE + WASTE_SHARE * sc_inflate_bytes(doc->in) ||
	       stop(doc, "too many of its events are damaged");
}

/* Any value that is no object. */
static enum sc_scan_rc skip_item(struct doc *doc)
{
	struct sc_scan_value other;
	enum sc_scan_rc rc = sc_scan_value(&doc->scan, &other);

	if (rc == SC_SCAN_OK)
		doc->ops->bad(doc->ctx, true, "not an object");
	return rc;
}

/* One item, which begins at the scan. False: the document ends here. */
static bool read_item(struct doc *doc)
{
	for (;;) {
		const char *start = doc->scan.at;
		enum sc_scan_rc rc =
			*start == '{' ? doc->ops->item(doc->ctx, &doc->scan) : skip_item(doc);
		bool loose = doc->scan.loose;

		if (rc == SC_SCAN_MORE && refill(doc, start))
			continue;
		doc->scan.loose = false;
		if (rc == SC_SCAN_OK)
			return true;
		if (rc == SC_SCAN_MORE && (doc->rc || doc->eof))
			return !doc->rc && stop(doc, "it ends inside an event");
		if (rc == SC_SCAN_MORE) {
			/* The scan looked at all of the window. */
			doc->ops->bad(doc->ctx, true, "larger than 16 MiB");
			return add_waste(doc, doc->scan.at, doc->scan.end) &&
			       (skip_large(doc) || stop(doc, "it ends inside an event"));
		}
		if (!add_waste(doc, start, doc->scan.at))
			return false;
		doc->scan.at = start;
		if (loose) {
			doc->ops->bad(doc->ctx, true, "syntax error");
			return resync(doc);
		}
		doc->scan.loose = true;
	}
}

/* Behind the '['. False: the document ends here. */
static bool read_list(struct doc *doc)
{
	char c;

	doc->out->found_list = true;
	while (peek(doc, &c)) {
		if (c == ']' || c == ',')
			doc->scan.at++;
		if (c == ']')
			return true;
		if (c != ',' && !read_item(doc))
			return false;
	}
	return stop(doc, "it ends inside the list of events");
}

/* Behind the '{'. False: the document ends here. */
static bool read_object(struct doc *doc)
{
	static const char CUT[] = "it ends inside a member";
	struct sc_scan_value key, value;
	char c;

	for (;;) {
		const char *start = doc->scan.at;
		enum sc_scan_rc rc = sc_scan_key(&doc->scan, &key);
		bool is_list = rc == SC_SCAN_OK &&
			       sc_scan_is(&key, doc->ops->list, strlen(doc->ops->list));

		if (rc == SC_SCAN_OK && !is_list)
			rc = sc_scan_value(&doc->scan, &value);
		if (rc == SC_SCAN_MORE && refill(doc, start))
			continue;
		if (rc == SC_SCAN_END)
			return true;
		if (rc == SC_SCAN_BAD)
			return stop(doc, "a syntax error outside of the events");
		if (rc == SC_SCAN_MORE) {
			/* Its value does not fit in the window, or the file ends. */
			if (doc->rc || doc->eof || sc_scan_key(&doc->scan, &key))
				return stop(doc, CUT);
			doc->ops->bad(doc->ctx, false, "larger than 16 MiB");
			if (!skip_large(doc))
				return stop(doc, CUT);
		} else if (!is_list && doc->ops->member) {
			doc->ops->member(doc->ctx, &key, &value);
		} else if (is_list) {
			if (!peek(doc, &c))
				return stop(doc, CUT);
			if (c != '[')
				return stop(doc, "its list of events is no list");
			doc->scan.at++;
			if (!read_list(doc))
				return false;
		}
	}
}

int sc_json_doc_read(struct sc_inflate *in, const struct sc_json_doc_ops *ops, void *ctx,
		     struct sc_json_doc_result *out, struct sc_err *err)
{
	struct doc doc = {.in = in, .ops = ops, .ctx = ctx, .out = out, .err = err};
	char c;

	*out = (struct sc_json_doc_result){.found_list = false};
	doc.cap = FIRST_WINDOW;
	doc.buf = sc_xmalloc(doc.cap + SC_SCAN_PADDING);
	memset(doc.buf, 0, SC_SCAN_PADDING);
	doc.scan.at = doc.scan.end = doc.buf;
	if (peek(&doc, &c) && c == '\xEF' && doc.scan.end - doc.scan.at >= 3 &&
	    memcmp(doc.scan.at, "\xEF\xBB\xBF", 3) == 0)
		doc.scan.at += 3; /* the mark of UTF-8 */
	if (!peek(&doc, &c)) {
		stop(&doc, "it is empty");
	} else if (c == '{') {
		doc.scan.at++;
		read_object(&doc);
	} else if (c == '[' && ops->bare_list) {
		doc.scan.at++;
		read_list(&doc);
	} else {
		stop(&doc, "it is no JSON object");
	}
	if (!out->truncated && doc.rc == 0 && peek(&doc, &c))
		ops->bad(ctx, false, "text after the end of the document, which is not read");
	if (sc_inflate_damage(in))
		out->truncated = sc_inflate_damage(in);
	free(doc.buf);
	return doc.rc;
}
