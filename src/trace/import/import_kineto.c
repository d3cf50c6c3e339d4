/* Kineto traces: what torch.profiler writes, 2021 to now. Here: the document around the events, and the
 * members beside them, which may come before or after. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/import/import_kineto_priv.h"

enum { MAX_MEMBERS = 256, MAX_GROUPS = 256, MAX_DEVICES = 64, MAX_TEXT = 1024 };

/* A member of an object taken as a whole. */
static bool find_member(const struct sc_scan_value *object, const char *name,
			struct sc_scan_value *out)
{
	struct sc_scan scan = sc_scan_into(object);
	struct sc_scan_value key;

	if (object->kind != SC_SCAN_OBJECT || sc_scan_open(&scan, '{'))
		return false;
	while (sc_scan_key(&scan, &key) == SC_SCAN_OK && sc_scan_value(&scan, out) == SC_SCAN_OK) {
		if (sc_scan_is(&key, name, strlen(name)))
			return true;
	}
	return false;
}

static bool find_integer(const struct sc_scan_value *object, const char *name, int64_t *out)
{
	struct sc_scan_value value;

	return find_member(object, name, &value) && sc_scan_any_integer(&value, out);
}

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

	find_integer(device, "id", &id);
	snprintf(key, sizeof(key), "device.%lld.name", (long long)id);
	if (find_member(device, "name", &value))
		put_meta(im, key, &value);
	snprintf(key, sizeof(key), "device.%lld.sms", (long long)id);
	if (find_member(device, "numSms", &value))
		put_meta(im, key, &value);
}

static void take_group(struct kineto_import *im, int index, const struct sc_scan_value *group)
{
	struct sc_scan_value name, value;
	char key[128], text[64];

	if (find_member(group, "pg_name", &name) && name.n < sizeof(text)) {
		memcpy(text, name.at, name.n);
		text[name.n] = '\0';
	} else {
		snprintf(text, sizeof(text), "%d", index);
	}
	snprintf(key, sizeof(key), "group.%s.ranks", text);
	if (find_member(group, "ranks", &value))
		put_meta(im, key, &value);
	snprintf(key, sizeof(key), "group.%s.description", text);
	if (find_member(group, "pg_desc", &value))
		put_meta(im, key, &value);
}

static void take_distributed(struct kineto_import *im, const struct sc_scan_value *info)
{
	struct sc_scan_value value;
	int64_t number;

	if (find_integer(info, "rank", &number) && number >= 0 && number <= INT32_MAX)
		im->out.identity.rank = (int32_t)number;
	if (find_integer(info, "world_size", &number) && number > 0 && number <= INT32_MAX)
		im->out.identity.world = (int32_t)number;
	if (find_member(info, "backend", &value))
		put_meta(im, "distributed.backend", &value);
	if (find_member(info, "nccl_version", &value))
		put_meta(im, "distributed.nccl_version", &value);
	if (find_member(info, "pg_config", &value))
		for_items(im, &value, MAX_GROUPS, take_group);
}

static void take_member(void *ctx, const struct sc_scan_value *key,
			const struct sc_scan_value *value)
{
	struct kineto_import *im = ctx;
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

static enum sc_scan_rc take_item(void *ctx, struct sc_scan *scan)
{
	struct kineto_import *im = ctx;
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

static void take_bad(void *ctx, bool is_item, const char *reason)
{
	struct kineto_import *im = ctx;

	im->stats->n_records += is_item;
	sc_import_count_bad(im->stats, reason);
}

static int read_list(struct kineto_import *im, const char *path, struct sc_progress *progress,
		     struct sc_err *err)
{
	const struct sc_json_doc_ops ops = {.list = im->list,
					    .bare_list = strcmp(im->list, KINETO_EVENTS) == 0,
					    .item = take_item,
					    .member = im->read ? NULL : take_member,
					    .bad = take_bad};
	struct sc_json_doc_result result;
	struct sc_inflate *in;
	int rc = sc_inflate_open(path, progress, &in, err);

	if (rc)
		return rc;
	kineto_words_init(&im->words);
	rc = sc_json_doc_read(in, &ops, im, &result, err);
	im->stats->in_bytes = sc_inflate_bytes(in);
	im->stats->truncated = result.truncated != NULL;
	im->stats->why_truncated = result.truncated;
	sc_inflate_close(in);
	if (rc == 0 && !result.found_list)
		rc = sc_err_at(err, SC_EFORMAT, path, 0, 0, "no %s: %s", im->list,
			       result.truncated ? result.truncated : "the file has none");
	return rc;
}

static int check_events(const struct kineto_import *im, struct sc_err *err)
{
	const struct sc_import_stats *stats = im->stats;
	const char *path = im->out.in_path, *cut = stats->why_truncated;

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
	return 0;
}

static int write_all(struct kineto_import *im, struct sc_err *err)
{
	int64_t base_ns;
	int rc = read_list(im, im->out.in_path, im->out.opts->progress, err);

	if (rc == 0)
		rc = check_events(im, err);
	if (rc)
		return rc;
	kineto_put_records(im);
	im->stats->n_joined += sc_comm_join_finish(im->join, im->out.writer);
	if (!__builtin_add_overflow(im->base_ns, im->origin_ns, &base_ns))
		sc_trace_writer_base(im->out.writer, base_ns);
	return sc_import_output_finish(&im->out, im->stats, err);
}

int kineto_run(struct kineto_import *im, const struct sc_import_opts *opts, struct sc_err *err)
{
	int rc;

	im->out.opts = opts;
	rc = sc_import_output_create(
		&im->out, strcmp(im->list, KINETO_EVENTS) == 0 ? "kineto" : "execution-trace", err);
	if (rc == 0) {
		sc_import_names_init(&im->names, im->out.writer);
		im->join = sc_comm_join_create();
		im->lanes = sc_xcalloc(KINETO_LANE_SLOTS, sizeof(*im->lanes));
		rc = write_all(im, err);
		sc_import_names_release(&im->names);
		sc_comm_join_destroy(im->join);
		free(im->lanes);
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
static bool probe(const char *path, const char *head, size_t n)
{
	size_t at = sc_import_first(head, n);

	(void)path;
	if (at == n)
		return false;
	if (head[at] == '[')
		return sc_import_has(head, n < 4096 ? n : 4096, "\"ph\"");
	return head[at] == '{' && (sc_import_has(head, n, "\"traceEvents\"") ||
				   sc_import_has(head, n, "\"deviceProperties\"") ||
				   sc_import_has(head, n, "\"distributedInfo\"") ||
				   sc_import_has(head, n, "\"baseTimeNanoseconds\""));
}

static int run(const char *path, const struct sc_import_opts *opts, struct sc_import_stats *stats,
	       struct sc_err *err)
{
	struct kineto_import im = {.list = KINETO_EVENTS, .out.in_path = path, .stats = stats};

	return kineto_run(&im, opts, err);
}

const struct sc_importer sc_import_kineto = {.name = "kineto", .probe = probe, .run = run};
