/* Kineto traces: what torch.profiler writes, 2021 to now. Here: the document around the events, and
 * the members beside them, which may come before or after. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/import/import_kineto_priv.h"
#include "trace/import/inflate_stream.h"

enum { MAX_MEMBERS = 256, MAX_GROUPS = 256, MAX_DEVICES = 64, MAX_TEXT = 1024 };

static void put_meta(struct kineto_import *im, const char *key, const struct sc_scan_value *value)
{
	size_t n = value->n < MAX_TEXT ? value->n : MAX_TEXT;
	struct sc_strbuf text = {0};

	sc_json_decode(value->at, n, &text);
	sc_trace_writer_meta(im->out.writer, key, sc_strbuf_get(&text));
	sc_strbuf_release(&text);
}

/* Calls `each` for the items of a list, at most `max` of them. */
static void for_items(struct kineto_import *im, const struct sc_scan_value *list, int max,
		      void (*each)(struct kineto_import *im, int index,
				   const struct sc_scan_value *item))
{
	struct sc_scan scan = sc_scan_into(list);
	struct sc_scan_value item;

	if (list->kind != SC_SCAN_LIST || sc_scan_open(&scan, '['))
		return;
	for (int i = 0; i < max && sc_scan_item(&scan) == SC_SCAN_OK; i++) {
		if (sc_scan_value(&scan, &item))
			return;
		each(im, i, &item);
	}
}

static void take_device(struct kineto_import *im, int index, const struct sc_scan_value *device)
{
	struct sc_scan_value value;
	int64_t id = index;
	char key[64];

	sc_scan_member_integer(device, "id", &id);
	snprintf(key, sizeof(key), "device.%lld.name", (long long)id);
	if (sc_scan_member(device, "name", &value))
		put_meta(im, key, &value);
	snprintf(key, sizeof(key), "device.%lld.sms", (long long)id);
	if (sc_scan_member(device, "numSms", &value))
		put_meta(im, key, &value);
}

static void take_group(struct kineto_import *im, int index, const struct sc_scan_value *group)
{
	struct sc_scan_value name, value;
	char key[128], text[64];

	if (sc_scan_member(group, "pg_name", &name) && name.n < sizeof(text)) {
		memcpy(text, name.at, name.n);
		text[name.n] = '\0';
	} else {
		snprintf(text, sizeof(text), "%d", index);
	}
	snprintf(key, sizeof(key), "group.%s.ranks", text);
	if (sc_scan_member(group, "ranks", &value))
		put_meta(im, key, &value);
	snprintf(key, sizeof(key), "group.%s.description", text);
	if (sc_scan_member(group, "pg_desc", &value))
		put_meta(im, key, &value);
}

static void take_distributed(struct kineto_import *im, const struct sc_scan_value *info)
{
	struct sc_scan_value value;
	int64_t number;

	if (sc_scan_member_integer(info, "rank", &number) && number >= 0 && number <= INT32_MAX)
		im->out.identity.rank = (int32_t)number;
	if (sc_scan_member_integer(info, "world_size", &number) && number > 0 &&
	    number <= INT32_MAX)
		im->out.identity.world = (int32_t)number;
	if (sc_scan_member(info, "backend", &value))
		put_meta(im, "distributed.backend", &value);
	if (sc_scan_member(info, "nccl_version", &value))
		put_meta(im, "distributed.nccl_version", &value);
	if (sc_scan_member(info, "pg_config", &value))
		for_items(im, &value, MAX_GROUPS, take_group);
}

static void take_member(struct kineto_import *im, const struct sc_scan_value *key,
			const struct sc_scan_value *value)
{
	char name[SC_SCAN_MAX_WORD + 8];
	int64_t number;

	if (sc_scan_is(key, "pid", 3) && sc_scan_any_integer(value, &number) && number > 0 &&
	    number <= INT32_MAX)
		im->out.identity.pid = (int32_t)number;
	if (sc_scan_is(key, "baseTimeNanoseconds", 19)) {
		if (sc_scan_any_integer(value, &number))
			im->base_ns = number;
	} else if (sc_scan_is(key, SC_CHROME_RANKS, sizeof(SC_CHROME_RANKS) - 1)) {
		if (sc_scan_any_integer(value, &number))
			im->n_ranks = number;
	} else if (sc_scan_is(key, SC_CHROME_PARTIAL, sizeof(SC_CHROME_PARTIAL) - 1)) {
		put_meta(im, SC_META_PARTIAL, value);
	} else if (sc_scan_is(key, "distributedInfo", 15)) {
		take_distributed(im, value);
	} else if (sc_scan_is(key, "deviceProperties", 16)) {
		for_items(im, value, MAX_DEVICES, take_device);
	} else if (sc_scan_is(key, "host_name", 9) && value->n < sizeof(im->out.identity.host)) {
		memset(im->out.identity.host, 0, sizeof(im->out.identity.host));
		memcpy(im->out.identity.host, value->at, value->n);
	} else if (value->kind != SC_SCAN_LIST && value->kind != SC_SCAN_OBJECT &&
		   key->n <= SC_SCAN_MAX_WORD && im->n_members < MAX_MEMBERS) {
		im->n_members++;
		memcpy(name, "file.", 5);
		memcpy(name + 5, key->at, key->n);
		name[5 + key->n] = '\0';
		put_meta(im, name, value);
	}
}

static enum sc_scan_rc take_item(struct kineto_import *im, struct sc_scan *scan)
{
	struct sc_scan_value text = {.at = scan->at};
	struct kineto_event event;
	enum sc_scan_rc rc = kineto_scan_event(&im->words, scan, &event);

	text.n = (size_t)(scan->at - text.at);
	if (rc == SC_SCAN_OK && im->read)
		im->read(im->read_ctx, &event, &text);
	else if (rc == SC_SCAN_OK)
		kineto_emit(im, &event);
	return rc;
}

static void take_bad(struct kineto_import *im, bool is_item, const char *reason)
{
	im->stats->n_records += is_item;
	sc_import_count_bad(im->stats, reason);
}

/* ---- the document: a window on it holds whole items. One that does not end in it is scanned again
 * from its start when more has been read ---- */

enum { FIRST_WINDOW = 1 << 20, MAX_WINDOW = 16 << 20, MAX_WASTE = 1 << 28, WASTE_SHARE = 4 };
static_assert((int)SC_INFLATE_PADDING >= (int)SC_SCAN_PADDING, "a scan reads so far");

struct doc {
	struct kineto_import *im;
	struct sc_inflate_window window;
	struct sc_scan scan; /* of the window */
	bool found_list;
	int64_t waste; /* bytes scanned for items that then made no sense */
};

static bool end_early(struct doc *doc, const char *why)
{
	if (!doc->im->stats->truncated)
		doc->im->stats->truncated = why;
	return false;
}

/* Reads on: what lies before `from`, where the scan begins again, is given up. False at the end of
 * the file, or if the window is full. */
static bool window_refill(struct doc *doc, const char *from)
{
	bool more;

	doc->window.at = from;
	more = sc_inflate_more(&doc->window, MAX_WINDOW);
	doc->scan.at = doc->window.at;
	doc->scan.end = doc->window.end;
	return more;
}

static bool peek_char(struct doc *doc, char *c)
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
		if (!window_refill(doc, doc->scan.at))
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

		if (doc->scan.at == doc->scan.end && !window_refill(doc, doc->scan.at))
			return false;
		c = *doc->scan.at++;
		if (in_text && c == '\\') {
			if (doc->scan.at == doc->scan.end && !window_refill(doc, doc->scan.at))
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
static bool find_next_event(struct doc *doc)
{
	for (;;) {
		const char *at = memchr(doc->scan.at, '}', (size_t)(doc->scan.end - doc->scan.at)),
			   *next;

		doc->scan.at = at ? at : doc->scan.end;
		if ((!at || doc->scan.end - at < 256) && !doc->window.eof &&
		    window_refill(doc, doc->scan.at))
			continue;
		if (!at)
			return end_early(doc, "nothing makes sense after a damaged event");
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
	return doc->waste <= MAX_WASTE + WASTE_SHARE * sc_inflate_bytes(doc->window.in) ||
	       end_early(doc, "too many of its events are damaged");
}

/* Any value that is no object. */
static enum sc_scan_rc skip_item(struct doc *doc)
{
	struct sc_scan_value other;
	enum sc_scan_rc rc = sc_scan_value(&doc->scan, &other);

	if (rc == SC_SCAN_OK)
		take_bad(doc->im, true, "not an object");
	return rc;
}

/* One item, which begins at the scan. False: the document ends here. */
static bool read_item(struct doc *doc)
{
	for (;;) {
		const char *start = doc->scan.at;
		enum sc_scan_rc rc =
			*start == '{' ? take_item(doc->im, &doc->scan) : skip_item(doc);
		bool loose = doc->scan.loose;

		if (rc == SC_SCAN_MORE && window_refill(doc, start))
			continue;
		doc->scan.loose = false;
		if (rc == SC_SCAN_OK)
			return true;
		if (rc == SC_SCAN_MORE && (doc->window.rc || doc->window.eof))
			return !doc->window.rc && end_early(doc, "it ends inside an event");
		if (rc == SC_SCAN_MORE) {
			/* The scan looked at all of the window. */
			take_bad(doc->im, true, "larger than 16 MiB");
			return add_waste(doc, doc->scan.at, doc->scan.end) &&
			       (skip_large(doc) || end_early(doc, "it ends inside an event"));
		}
		if (!add_waste(doc, start, doc->scan.at))
			return false;
		doc->scan.at = start;
		if (loose) {
			take_bad(doc->im, true, "syntax error");
			return find_next_event(doc);
		}
		doc->scan.loose = true;
	}
}

/* Behind the '['. False: the document ends here. */
static bool read_items(struct doc *doc)
{
	char c;

	doc->found_list = true;
	while (peek_char(doc, &c)) {
		if (c == ']' || c == ',')
			doc->scan.at++;
		if (c == ']')
			return true;
		if (c != ',' && !read_item(doc))
			return false;
	}
	return end_early(doc, "it ends inside the list of events");
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
		bool is_list =
			rc == SC_SCAN_OK && sc_scan_is(&key, doc->im->list, strlen(doc->im->list));

		if (rc == SC_SCAN_OK && !is_list)
			rc = sc_scan_value(&doc->scan, &value);
		if (rc == SC_SCAN_MORE && window_refill(doc, start))
			continue;
		if (rc == SC_SCAN_END)
			return true;
		if (rc == SC_SCAN_BAD)
			return end_early(doc, "a syntax error outside of the events");
		if (rc == SC_SCAN_MORE) {
			/* Its value does not fit in the window, or the file ends. */
			if (doc->window.rc || doc->window.eof || sc_scan_key(&doc->scan, &key))
				return end_early(doc, CUT);
			take_bad(doc->im, false, "larger than 16 MiB");
			if (!skip_large(doc))
				return end_early(doc, CUT);
		} else if (!is_list && !doc->im->read) {
			take_member(doc->im, &key, &value);
		} else if (is_list) {
			if (!peek_char(doc, &c))
				return end_early(doc, CUT);
			if (c != '[')
				return end_early(doc, "its list of events is no list");
			doc->scan.at++;
			if (!read_items(doc))
				return false;
		}
	}
}

/* The document: what comes before its list, the items, and what comes after. */
static void read_document(struct doc *doc)
{
	char c;

	if (peek_char(doc, &c) && c == '\xEF' && doc->scan.end - doc->scan.at >= 3 &&
	    memcmp(doc->scan.at, "\xEF\xBB\xBF", 3) == 0)
		doc->scan.at += 3; /* the mark of UTF-8 */
	if (!peek_char(doc, &c)) {
		end_early(doc, "it is empty");
	} else if (c == '{') {
		doc->scan.at++;
		read_object(doc);
	} else if (c == '[' && strcmp(doc->im->list, KINETO_EVENTS) == 0) {
		doc->scan.at++;
		read_items(doc);
	} else {
		end_early(doc, "it is no JSON object");
	}
	if (!doc->im->stats->truncated && doc->window.rc == 0 && peek_char(doc, &c))
		take_bad(doc->im, false, "text after the end of the document, which is not read");
	if (sc_inflate_damage(doc->window.in))
		doc->im->stats->truncated = sc_inflate_damage(doc->window.in);
}

static int read_list(struct kineto_import *im, const char *path, struct sc_progress *progress,
		     struct sc_err *err)
{
	struct doc doc = {.im = im, .window = {.cap = FIRST_WINDOW, .err = err}};
	int rc = sc_inflate_open(path, progress, &doc.window.in, err);

	if (rc)
		return rc;
	kineto_words_init(&im->words);
	read_document(&doc);
	free(doc.window.buf);
	im->stats->in_bytes = sc_inflate_bytes(doc.window.in);
	sc_inflate_close(doc.window.in);
	if (doc.window.rc == 0 && !doc.found_list)
		return sc_err_at(err, SC_EFORMAT, path, 0, 0, "no %s: %s", im->list,
				 im->stats->truncated ? im->stats->truncated : "the file has none");
	return doc.window.rc;
}

static int check_events(const struct kineto_import *im, struct sc_err *err)
{
	const struct sc_import_stats *stats = im->stats;
	const char *path = im->out.in_path, *cut = stats->truncated;

	if (stats->n_records == 0)
		return sc_err_at(err, SC_EUNSUPPORTED, path, 0, 0, "the trace has no events%s%s",
				 cut ? ": " : "", cut ? cut : "");
	if (stats->n_events == 0 && strcmp(im->list, KINETO_EVENTS) != 0)
		return sc_err_at(err, SC_EUNSUPPORTED, path, 0, 0,
				 "an execution trace without times; import it with --mate, the "
				 "Kineto trace of the same run");
	if (stats->n_events == 0)
		return sc_err_at(err, SC_EUNSUPPORTED, path, 0, 0,
				 "none of its %lld events is a profiler's (the first reason: %s)",
				 (long long)stats->n_records,
				 stats->n_reasons ? stats->bad[0].reason : "flows or names only");
	if (im->n_ranks > 1)
		return sc_err_at(err, SC_EUNSUPPORTED, path, 0, 0,
				 "an export of %lld ranks in one file, which would become one "
				 "rank: export each with --rank",
				 (long long)im->n_ranks);
	if (im->many_callers)
		return sc_err_at(err, SC_EUNSUPPORTED, path, 0, 0,
				 "ranks fused into one file: several processes call the GPU, and "
				 "would become one rank; import the file of each rank");
	return 0;
}

static int write_all(struct kineto_import *im, struct sc_err *err)
{
	int rc = read_list(im, im->out.in_path, im->out.opts->progress, err);

	if (rc == 0)
		rc = check_events(im, err);
	if (rc)
		return rc;
	kineto_put_held(im);
	if (__builtin_add_overflow(im->base_ns, im->origin_ns, &im->out.identity.base_utc_ns))
		im->out.identity.base_utc_ns = 0;
	return sc_import_output_finish(&im->out, im->stats, err);
}

int kineto_run(struct kineto_import *im, const struct sc_import_opts *opts, struct sc_err *err)
{
	int rc;

	im->out.opts = opts;
	rc = sc_import_output_create(
		&im->out, strcmp(im->list, KINETO_EVENTS) == 0 ? "kineto" : "execution-trace", err);
	if (rc == 0) {
		im->join = sc_comm_join_create();
		rc = write_all(im, err);
		sc_comm_join_destroy(im->join);
		SC_VEC_RELEASE(&im->records);
	}
	sc_import_output_discard(&im->out);
	return rc;
}

int kineto_read(struct kineto_import *im, const char *path, struct sc_err *err)
{
	struct sc_import_stats stats = {.n_records = 0};
	int rc;

	im->stats = &stats;
	rc = read_list(im, path, NULL, err);
	im->stats = NULL;
	return rc;
}

/* An object with a key that only Kineto has, or a list of objects with phases. */
static bool is_kineto(const char *head, size_t n)
{
	size_t at = sc_import_first(head, n);

	if (at == n)
		return false;
	if (head[at] == '[')
		return sc_import_has(head, n < 4096 ? n : 4096, "\"ph\"");
	return head[at] == '{' && (sc_import_has(head, n, "\"traceEvents\"") ||
				   sc_import_has(head, n, "\"deviceProperties\"") ||
				   sc_import_has(head, n, "\"distributedInfo\"") ||
				   sc_import_has(head, n, "\"baseTimeNanoseconds\""));
}

static int kineto_import(const char *path, const struct sc_import_opts *opts,
			 struct sc_import_stats *stats, struct sc_err *err)
{
	struct kineto_import im = {.list = KINETO_EVENTS, .out.in_path = path, .stats = stats};

	return kineto_run(&im, opts, err);
}

const struct sc_importer sc_import_kineto = {
	.name = "kineto", .probe = is_kineto, .run = kineto_import};
