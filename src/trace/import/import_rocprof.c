/* Reads what AMD's rocprofv3 writes: its JSON, of one process, and its CSV, where
 * <name>_kernel_trace.csv brings those of calls, copies and markers that lie beside it. Times are
 * ns of one clock of the host. The JSON names operations, kernels and markers in tables of numbers
 * that stand anywhere in the document, so that it is held as a whole. Forms: rocprofiler-sdk,
 * "Using rocprofv3", ROCm 6.2 to 7.1. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/csv.h"
#include "base/search.h"
#include "trace/import/import_priv.h"
#include "trace/import/inflate_stream.h"

#define ROC_ROOT "rocprofiler-sdk-tool"
static const size_t ROC_MAX_BYTES = (size_t)4 << 30;

/* Kinds of records: a list of the JSON, the end of a CSV's name, the column that names its rows. */
static const struct roc_kind {
	const char *list, *suffix, *column;
	uint8_t cls;
} ROC_KINDS[] = {
	{"kernel_dispatch", "_kernel_trace.csv", "Kernel_Name", SC_EV_KERNEL},
	{"memory_copy", "_memory_copy_trace.csv", "Direction", SC_EV_COPY},
	{"hip_api", "_hip_api_trace.csv", "Function", SC_EV_API},
	{"marker_api", "_marker_api_trace.csv", "Function", SC_EV_RANGE},
};
enum { N_ROC_KINDS = sizeof(ROC_KINDS) / sizeof(ROC_KINDS[0]) };

/* Numbers of a record: where each is in the JSON, and its column in a CSV. */
enum roc_number {
	ROC_START,
	ROC_END,
	ROC_THREAD,
	ROC_CORRELATION,
	ROC_STREAM,
	ROC_QUEUE,
	ROC_DEVICE,
	ROC_TO, /* of a copy: the device */
	ROC_BYTES,
	ROC_KIND, /* what these three are called stands in tables */
	ROC_OPERATION,
	ROC_KERNEL,
	ROC_N_NUMBERS
};
static const struct {
	const char *path[3], *column;
} ROC_NUMBERS[ROC_N_NUMBERS] = {
	[ROC_START] = {{"start_timestamp"}, "Start_Timestamp"},
	[ROC_END] = {{"end_timestamp"}, "End_Timestamp"},
	[ROC_THREAD] = {{"thread_id"}, "Thread_Id"},
	[ROC_CORRELATION] = {{"correlation_id", "internal"}, "Correlation_Id"},
	[ROC_STREAM] = {{"stream_id", "handle"}, "Stream_Id"},
	[ROC_QUEUE] = {{"dispatch_info", "queue_id", "handle"}, "Queue_Id"},
	[ROC_DEVICE] = {{"dispatch_info", "agent_id", "handle"}, "Agent_Id"},
	[ROC_TO] = {{"dst_agent_id", "handle"}, "Destination_Agent_Id"},
	[ROC_BYTES] = {{"bytes"}, "Bytes"},
	[ROC_KIND] = {{"kind"}, ""},
	[ROC_OPERATION] = {{"operation"}, ""},
	[ROC_KERNEL] = {{"dispatch_info", "kernel_id"}, ""},
};
struct roc_row {
	const char *name;
	size_t n_name;
	int64_t n[ROC_N_NUMBERS]; /* -1: not said */
};
struct roc_import {
	struct sc_import_output out;
	struct sc_import_stats *stats;
	bool has_origin;
	int64_t origin_ns;
};

static int32_t roc_id(int64_t id)
{
	return id < 0 ? -1 : (int32_t)(id & INT32_MAX);
}

/* "MEMORY_COPY_HOST_TO_DEVICE" is called as others call it. */
static const char *const COPIES[][2] = {{"HOST_TO_DEVICE", "Memcpy HtoD"},
					{"DEVICE_TO_HOST", "Memcpy DtoH"},
					{"DEVICE_TO_DEVICE", "Memcpy DtoD"},
					{"HOST_TO_HOST", "Memcpy HtoH"}};

/* Streams are numbered where their calls were traced, else queues are what runs in order. */
static void roc_put(struct roc_import *im, uint8_t cls, struct roc_row row)
{
	const bool on_device = cls == SC_EV_KERNEL || cls == SC_EV_COPY;
	const struct sc_trace_lane lane = {
		.is_stream = on_device,
		.pid = on_device ? 0 : im->out.identity.pid,
		.tid = on_device ? 0 : roc_id(row.n[ROC_THREAD]),
		.device = on_device ? roc_id(row.n[cls == SC_EV_COPY ? ROC_TO : ROC_DEVICE]) : -1,
		.stream = on_device ? roc_id(row.n[row.n[ROC_STREAM] > 0 ? ROC_STREAM : ROC_QUEUE])
				    : -1,
	};
	struct sc_trace_event event = {.cls = cls,
				       .dur_ns = row.n[ROC_END] - row.n[ROC_START],
				       .correlation = (uint32_t)row.n[ROC_CORRELATION]};
	const struct sc_import_name *name;

	im->stats->n_records++;
	if (row.n[ROC_START] <= 0 || row.n[ROC_END] < row.n[ROC_START]) {
		sc_import_count_bad(im->stats, "no time, or an end before its start");
		return;
	}
	im->origin_ns = im->has_origin ? im->origin_ns : row.n[ROC_START];
	im->has_origin = true;
	for (size_t i = 0; i < sizeof(COPIES) / sizeof(COPIES[0]) && cls == SC_EV_COPY; i++) {
		const size_t n = strlen(COPIES[i][0]);

		if (row.n_name >= n && strncmp(row.name + row.n_name - n, COPIES[i][0], n) == 0) {
			row.name = COPIES[i][1];
			row.n_name = strlen(row.name);
		}
	}
	name = sc_import_name(&im->out.names, row.name, row.n_name);
	event.name = name->id;
	event.sub = cls == SC_EV_COPY ? name->copy_kind : 0;
	event.bytes = row.n[ROC_BYTES] > 0 ? row.n[ROC_BYTES] : 0;
	event.start_ns = row.n[ROC_START] - im->origin_ns;
	event.lane = sc_trace_writer_lane(im->out.writer, &lane);
	im->stats->n_repaired += name->n_repaired;
	im->stats->n_events++;
	im->stats->n_kernels += cls == SC_EV_KERNEL;
	im->stats->n_collectives += cls == SC_EV_KERNEL && (name->flags & SC_NAME_COMM) != 0;
	im->stats->n_nccl += cls == SC_EV_KERNEL && (name->flags & SC_NAME_NCCL) != 0;
	im->stats->n_steps += (name->flags & SC_NAME_STEP) != 0;
	sc_trace_writer_add(im->out.writer, &event);
}

/* ---- JSON ---- */

/* Texts by number: of kernels, of markers, of the operations of kinds. */
struct roc_text {
	int64_t key;
	struct sc_scan_value text;
};
struct roc_texts {
	SC_VEC(struct roc_text) list;
};

SC_COMPARE(compare_texts, struct roc_text, SC_ORDER(a->key, b->key));

static const struct sc_scan_value *roc_text_of(const struct roc_texts *texts, int64_t key)
{
	const struct roc_text wanted = {.key = key}, *found = NULL;

	if (texts->list.n)
		found = bsearch(&wanted, texts->list.at, texts->list.n, sizeof(wanted),
				compare_texts);
	return found ? &found->text : NULL;
}

/* The items of a member that is a list. */
static bool roc_begin(const struct sc_scan_value *object, const char *name, struct sc_scan *scan)
{
	struct sc_scan_value list;

	if (!sc_scan_member(object, name, &list) || list.kind != SC_SCAN_LIST)
		return false;
	*scan = sc_scan_into(&list);
	return sc_scan_open(scan, '[') == SC_SCAN_OK;
}

static bool roc_next(struct sc_scan *scan, struct sc_scan_value *item)
{
	return sc_scan_item(scan) == SC_SCAN_OK && sc_scan_value(scan, item) == SC_SCAN_OK;
}

/* [{"kernel_id": 7, "formatted_kernel_name": "..."}, ...] */
static void roc_take_texts(const struct sc_scan_value *object, const char *const member[3],
			   struct roc_texts *out)
{
	struct sc_scan_value item;
	struct roc_text one;
	struct sc_scan scan;

	if (roc_begin(object, member[0], &scan))
		while (roc_next(&scan, &item))
			if (sc_scan_member_integer(&item, member[1], &one.key) &&
			    sc_scan_member(&item, member[2], &one.text))
				SC_VEC_PUSH(&out->list, one);
	SC_SORT(out->list.at, out->list.n, compare_texts);
}

/* [{"kind": "HIP_RUNTIME_API", "operations": ["hipFree", ...]}, ...]: numbered by place. */
static void roc_take_operations(const struct sc_scan_value *strings, struct roc_texts *out)
{
	struct sc_scan_value kind, text;
	struct sc_scan scan, inner;

	if (!roc_begin(strings, "buffer_records", &scan))
		return;
	for (int64_t k = 0; roc_next(&scan, &kind); k++)
		for (int64_t i = roc_begin(&kind, "operations", &inner) ? 0 : -1;
		     i >= 0 && roc_next(&inner, &text); i++)
			SC_VEC_PUSH(&out->list, ((struct roc_text){k << 32 | i, text}));
}

struct roc_names {
	struct roc_texts operations, kernels, markers;
};

static void roc_json_row(struct roc_import *im, const struct roc_kind *kind,
			 const struct roc_names *names, const struct sc_scan_value *item)
{
	struct roc_row row = {.name = "unnamed"};
	const struct sc_scan_value *name;

	for (int i = 0; i < ROC_N_NUMBERS; i++) {
		const char *const *path = ROC_NUMBERS[i].path;
		struct sc_scan_value at = *item;

		row.n[i] = -1;
		while (path[1] && path < &ROC_NUMBERS[i].path[2] && sc_scan_member(&at, *path, &at))
			path++;
		sc_scan_member_integer(&at, *path, &row.n[i]);
	}
	name = kind->cls == SC_EV_KERNEL  ? roc_text_of(&names->kernels, row.n[ROC_KERNEL])
	       : kind->cls == SC_EV_RANGE ? roc_text_of(&names->markers, row.n[ROC_CORRELATION])
					  : NULL;
	if (!name && row.n[ROC_KIND] >= 0 && row.n[ROC_KIND] <= INT32_MAX)
		name = roc_text_of(&names->operations,
				   row.n[ROC_KIND] << 32 | row.n[ROC_OPERATION]);
	row.name = name ? name->at : row.name;
	row.n_name = name ? name->n : strlen(row.name);
	roc_put(im, kind->cls, row);
}

static void roc_json_process(struct roc_import *im, const struct sc_scan_value *process)
{
	static const char *const KERNELS[] = {"kernel_symbols", "kernel_id",
					      "formatted_kernel_name"};
	static const char *const MARKERS[] = {"marker_api", "key", "value"};
	struct roc_names names = {.operations = {{0}}};
	struct sc_scan_value all, item;
	int64_t pid = -1;
	struct sc_scan scan;

	if (sc_scan_member(process, "metadata", &all))
		sc_scan_member_integer(&all, "pid", &pid);
	im->out.identity.pid = roc_id(pid);
	roc_take_texts(process, KERNELS, &names.kernels);
	if (sc_scan_member(process, "strings", &all)) {
		roc_take_texts(&all, MARKERS, &names.markers);
		roc_take_operations(&all, &names.operations);
	}
	for (size_t k = 0; k < N_ROC_KINDS && sc_scan_member(process, "buffer_records", &all); k++)
		if (roc_begin(&all, ROC_KINDS[k].list, &scan))
			while (roc_next(&scan, &item))
				roc_json_row(im, &ROC_KINDS[k], &names, &item);
	SC_VEC_RELEASE(&names.operations.list);
	SC_VEC_RELEASE(&names.kernels.list);
	SC_VEC_RELEASE(&names.markers.list);
}

static int roc_json(struct roc_import *im, struct sc_inflate_window *w, struct sc_err *err)
{
	const char *path = im->out.in_path;
	struct sc_scan_value root, process;
	size_t n_processes = 0;
	struct sc_scan scan;

	while (sc_inflate_more(w, ROC_MAX_BYTES))
		;
	im->stats->in_bytes = sc_inflate_bytes(w->in);
	scan = (struct sc_scan){.at = w->at, .end = w->end};
	if (w->rc)
		return w->rc;
	if (!w->eof)
		return sc_err_at(err, SC_ELIMIT, path, 0, 0, "larger than 4 GiB");
	if (sc_inflate_damage(w->in) || sc_scan_value(&scan, &root) ||
	    !roc_begin(&root, ROC_ROOT, &scan))
		return sc_err_at(
			err, SC_EFORMAT, path, 0, 0,
			"rocprofv3's JSON, damaged or cut: it names its records at its end; "
			"write it again");
	while (roc_next(&scan, &process) && n_processes++ == 0)
		roc_json_process(im, &process);
	if (n_processes > 1)
		return sc_err_at(err, SC_EUNSUPPORTED, path, 0, 0,
				 "several processes in one JSON, which would become one rank: let "
				 "rocprofv3 write a file for each (-o %%pid%%)");
	return 0;
}

/* ---- CSV ---- */

static int roc_csv(struct roc_import *im, const struct roc_kind *kind, const char *path,
		   struct sc_err *err)
{
	struct sc_arena arena;
	struct sc_csv csv;
	int rc, name;

	sc_arena_init(&arena, 1 << 20);
	rc = sc_csv_load(path, &arena, &csv, err);
	name = rc ? -1 : sc_csv_column(&csv, kind->column);
	if (rc == 0 && name < 0)
		rc = sc_err_at(err, SC_EFORMAT, path, 1, 0,
			       "a table of rocprofv3 without the column \"%s\": give NAME%s, which "
			       "brings the others of that name",
			       kind->column, ROC_KINDS[0].suffix);
	for (size_t i = 0; rc == 0 && i < csv.n_rows; i++) {
		struct roc_row row = {.name = sc_csv_cell(&csv, i, (size_t)name)};

		/* "Agent 2", "2" */
		for (int k = 0; k < ROC_N_NUMBERS; k++) {
			const int c = sc_csv_column(&csv, ROC_NUMBERS[k].column);
			const char *cell = c < 0 ? "" : sc_csv_cell(&csv, i, (size_t)c);

			cell += strcspn(cell, "0123456789");
			row.n[k] = *cell ? strtoll(cell, NULL, 10) : -1;
		}
		row.n_name = strlen(row.name);
		roc_put(im, kind->cls, row);
	}
	sc_arena_release(&arena);
	return rc;
}

/* The table of kernels, with those beside it. */
static int roc_tables(struct roc_import *im, struct sc_err *err)
{
	const char *path = im->out.in_path, *suffix = strstr(path, ROC_KINDS[0].suffix);
	char other[4096];
	int rc = roc_csv(im, &ROC_KINDS[0], path, err);

	for (size_t k = 1; rc == 0 && suffix && k < N_ROC_KINDS; k++) {
		snprintf(other, sizeof(other), "%.*s%s%s", (int)(suffix - path), path,
			 ROC_KINDS[k].suffix, suffix + strlen(ROC_KINDS[0].suffix));
		if (access(other, R_OK) == 0)
			rc = roc_csv(im, &ROC_KINDS[k], other, err);
	}
	return rc;
}

/* ---- all ---- */

static bool is_json(const char *head, size_t n)
{
	const size_t at = sc_import_first(head, n);

	return at < n && head[at] == '{';
}

static bool probe_rocprof(const char *head, size_t n)
{
	return is_json(head, n) ? sc_import_has(head, n, "\"" ROC_ROOT "\"")
				: sc_import_has(head, n < 1024 ? n : 1024, "Start_Timestamp");
}

static int import_rocprof(const char *path, const struct sc_import_opts *opts,
			  struct sc_import_stats *stats, struct sc_err *err)
{
	struct roc_import im = {.out = {.in_path = path, .opts = opts}, .stats = stats};
	struct sc_inflate_window w = {.cap = 1 << 20, .err = err};
	int rc = sc_inflate_open(path, opts->progress, &w.in, err);

	if (rc)
		return rc;
	sc_inflate_more(&w, ROC_MAX_BYTES);
	rc = w.rc ? w.rc : sc_import_output_create(&im.out, "rocprofv3", err);
	if (rc == 0)
		rc = is_json(w.at, (size_t)(w.end - w.at)) ? roc_json(&im, &w, err)
							   : roc_tables(&im, err);
	if (rc == 0 && stats->n_events == 0)
		rc = sc_err_at(err, SC_EUNSUPPORTED, path, 0, 0, "the trace has no events");
	im.out.identity.base_utc_ns = im.origin_ns;
	if (rc == 0)
		rc = sc_import_output_finish(&im.out, stats, err);
	sc_import_output_discard(&im.out);
	free(w.buf);
	sc_inflate_close(w.in);
	return rc;
}

const struct sc_importer sc_import_rocprof = {
	.name = "rocprofv3", .probe = probe_rocprof, .run = import_rocprof};
