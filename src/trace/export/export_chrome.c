/* Names, categories and arguments are those of libkineto's output_json.cpp: tools for it work. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_stream.h"
#include "base/num.h"
#include "base/search.h"
#include "base/units.h"
#include "base/vec.h"
#include "trace/export/export_priv.h"
#include "trace/import/import.h"

enum {
	PROCESSES_PER_FILE = 256, /* see export.h */
	HOST_PROCESS = 128,
	MAX_SIDES = 8,
	SIDE_TIDS = 1000000 /* between the tracks of a stream */
};

/* A slice of a stream, or of an operation of a job: viewers want those of a track nested. */
struct slice {
	int64_t start_ns, end_ns, pid, tid;
	uint32_t index; /* of the file's such slices */
};

struct chrome {
	struct sc_json_stream json;
	int64_t base_utc_ns; /* of ts 0 */
	const struct sc_export_run *run;
	size_t file;
	/* The file's correlations of device activities and of calls, sorted. */
	SC_VEC(uint32_t) started;
	SC_VEC(uint32_t) called;
	SC_VEC(struct slice) slices;
	SC_VEC(uint8_t)
	sides; /* of each slice, in the order of the file: its track, 0 that of the stream */
	size_t next_side;
	uint8_t side; /* of the event that is put */
};

/* --- where --- */

static int64_t process_id(const struct chrome *c, const struct sc_trace_lane *lane)
{
	int64_t device = lane->device < 0 ? 0 : lane->device;

	if (c->run->n_files == 1)
		return lane->is_stream ? device : lane->pid;
	return (int64_t)c->file * PROCESSES_PER_FILE +
	       (lane->is_stream ? device % HOST_PROCESS : HOST_PROCESS);
}

static int64_t thread_id(const struct sc_trace_lane *lane)
{
	return lane->is_stream ? lane->stream : lane->tid;
}

static void put_us(struct chrome *c, const char *key, int64_t ns)
{
	sc_json_stream_fixed(&c->json, key, sc_ns_us(ns), 3);
}

/* A time of the trace as the document has it. */
static int64_t document_ns(const struct chrome *c, const struct sc_trace *trace, int64_t ns)
{
	return sc_time_sub(
		sc_export_utc(c->run, c->file, sc_time_add(trace->identity.base_utc_ns, ns)),
		c->base_utc_ns);
}

static void put_place(struct chrome *c, const struct sc_trace *trace,
		      const struct sc_trace_event *event)
{
	const struct sc_trace_lane *lane = &trace->lanes.at[event->lane];

	sc_json_stream_int(&c->json, "pid", process_id(c, lane));
	sc_json_stream_int(&c->json, "tid", thread_id(lane) + (int64_t)c->side * SIDE_TIDS);
	put_us(c, "ts", document_ns(c, trace, event->start_ns));
}

static void put_metadata(struct chrome *c, const struct sc_trace_lane *lane, bool of_thread,
			 const char *what, const char *value)
{
	sc_json_stream_object(&c->json, NULL);
	sc_json_stream_text(&c->json, "ph", "M");
	sc_json_stream_text(&c->json, "name", what);
	sc_json_stream_int(&c->json, "pid", process_id(c, lane));
	sc_json_stream_int(&c->json, "tid", of_thread ? thread_id(lane) : 0);
	sc_json_stream_object(&c->json, "args");
	sc_json_stream_text(&c->json, strcmp(what, "process_labels") == 0 ? "labels" : "name",
			    value);
	sc_json_stream_end(&c->json);
	sc_json_stream_end(&c->json);
}

/* The value that the source said under such a key, or NULL. */
__attribute__((format(printf, 2, 3))) static const char *meta_said(const struct sc_trace *trace,
								   const char *fmt, ...)
{
	char key[96];
	va_list args;

	va_start(args, fmt);
	vsnprintf(key, sizeof(key), fmt, args);
	va_end(args);
	return sc_trace_meta_of(trace, key);
}

static void put_process(struct chrome *c, const struct sc_trace *trace,
			const struct sc_trace_lane *lane)
{
	const char *name = meta_said(trace, "process.%d", (int)process_id(c, lane));
	char text[96], label[32];

	snprintf(label, sizeof(label), lane->is_stream ? "GPU %d" : "CPU", (int)lane->device);
	snprintf(text, sizeof(text), "rank %d %s", (int)trace->identity.rank, label);
	put_metadata(c, lane, false, "process_name",
		     c->run->n_files > 1 ? text
		     : name              ? name
					 : "python");
	put_metadata(c, lane, false, "process_labels", label);
}

static void put_thread(struct chrome *c, const struct sc_trace *trace,
		       const struct sc_trace_lane *lane)
{
	int64_t pid = lane->is_stream ? lane->device : lane->pid;
	const char *name = meta_said(trace, "thread.%d.%d", (int)pid, (int)thread_id(lane));
	char text[32];

	snprintf(text, sizeof(text), lane->is_stream ? "stream %d" : "thread %d",
		 (int)thread_id(lane));
	if (lane->name)
		name = trace->strings.at[lane->name];
	put_metadata(c, lane, true, "thread_name", name ? name : text);
}

static void put_lanes(struct chrome *c, const struct sc_trace *trace)
{
	int64_t last = INT64_MIN;

	for (size_t i = 1; i < trace->lanes.n; i++) {
		const struct sc_trace_lane *lane = &trace->lanes.at[i];

		if (process_id(c, lane) != last)
			put_process(c, trace, lane);
		last = process_id(c, lane);
		put_thread(c, trace, lane);
	}
}

static void put_devices(struct chrome *c, const struct sc_trace *trace)
{
	sc_json_stream_array(&c->json, "deviceProperties");
	for (int i = 0; i < HOST_PROCESS; i++) {
		const char *name = meta_said(trace, "device.%d.name", i);
		const char *sms = meta_said(trace, "device.%d.sms", i);
		int64_t n_sms;

		if (!name)
			continue;
		sc_json_stream_object(&c->json, NULL);
		sc_json_stream_int(&c->json, "id", i);
		sc_json_stream_text(&c->json, "name", name);
		if (sms && sc_parse_int(sms, &n_sms))
			sc_json_stream_int(&c->json, "numSms", n_sms);
		sc_json_stream_end(&c->json);
	}
	sc_json_stream_end(&c->json);
}

/* --- events --- */

static const char *category_of_event(const struct sc_trace_event *event)
{
	static const char *const names[SC_N_EVENT_CLASSES] = {
		[SC_EV_KERNEL] = "kernel",
		[SC_EV_COPY] = "gpu_memcpy",
		[SC_EV_SET] = "gpu_memset",
		[SC_EV_API] = "cuda_runtime",
		[SC_EV_SYNC] = "cuda_sync",
		[SC_EV_EVENT_RECORD] = "cuda_event",
		[SC_EV_OP] = "cpu_op",
		[SC_EV_RANGE] = "user_annotation",
		[SC_EV_GPU_RANGE] = "gpu_user_annotation",
		[SC_EV_PYTHON] = "python_function",
		[SC_EV_OVERHEAD] = "overhead",
		[SC_EV_COMM] = "cpu_op",
		[SC_EV_JOB_OP] = "user_annotation",
		[SC_EV_GRAPH] = "kernel",
		[SC_EV_MARK] = "cpu_instant_event",
		[SC_EV_OTHER] = "Trace",
	};

	if (event->cls == SC_EV_API && event->flags & SC_EVF_DRIVER)
		return "cuda_driver";
	return names[event->cls];
}

static bool is_started(const struct sc_trace_event *event)
{
	return event->correlation && (event->cls == SC_EV_KERNEL || event->cls == SC_EV_COPY ||
				      event->cls == SC_EV_SET || event->cls == SC_EV_GRAPH);
}

static bool is_slice(const struct sc_trace *trace, const struct sc_trace_event *event)
{
	return event->cls != SC_EV_MARK &&
	       (event->cls == SC_EV_JOB_OP || trace->lanes.at[event->lane].is_stream);
}

SC_COMPARE(compare_ids, uint32_t, SC_ORDER(*a, *b));

/* The arrow from a call to what it started on the device, where the file has both. */
static void put_flow(struct chrome *c, const struct sc_trace *trace,
		     const struct sc_trace_event *event)
{
	bool ends = is_started(event) && c->called.n &&
		    bsearch(&event->correlation, c->called.at, c->called.n, sizeof(*c->called.at),
			    compare_ids);
	bool begins = event->cls == SC_EV_API && event->correlation && c->started.n &&
		      bsearch(&event->correlation, c->started.at, c->started.n,
			      sizeof(*c->started.at), compare_ids);

	if (!begins && !ends)
		return;
	sc_json_stream_object(&c->json, NULL);
	sc_json_stream_text(&c->json, "ph", ends ? "f" : "s");
	sc_json_stream_int(&c->json, "id", (int64_t)((uint64_t)c->file << 32 | event->correlation));
	put_place(c, trace, event);
	sc_json_stream_text(&c->json, "cat", "ac2g");
	sc_json_stream_text(&c->json, "name", "ac2g");
	if (ends)
		sc_json_stream_text(&c->json, "bp", "e");
	sc_json_stream_end(&c->json);
}

static int put_event(void *ctx, const struct sc_trace *trace, const struct sc_trace_event *event,
		     struct sc_err *err)
{
	struct chrome *c = ctx;
	const int64_t end_ns = sc_time_add(event->start_ns, event->dur_ns);
	const bool is_instant = event->cls == SC_EV_MARK;

	c->side = is_slice(trace, event) ? c->sides.at[c->next_side++] : 0;
	sc_json_stream_object(&c->json, NULL);
	sc_json_stream_text(&c->json, "ph", is_instant ? "i" : "X");
	sc_json_stream_text(&c->json, "cat", category_of_event(event));
	sc_json_stream_text(&c->json, "name", trace->strings.at[event->name]);
	put_place(c, trace, event);
	/* Both ends are put on the clock: another clock's length would reach too far. */
	if (is_instant)
		sc_json_stream_text(&c->json, "s", "t");
	else
		put_us(c, "dur",
		       sc_time_sub(document_ns(c, trace, end_ns),
				   document_ns(c, trace, event->start_ns)));
	sc_chrome_put_args(&c->json, trace, event);
	sc_json_stream_end(&c->json);
	put_flow(c, trace, event);
	if (c->json.err.code != SC_OK)
		return sc_err_set(err, c->json.err.code, "%s", c->json.err.text);
	return 0;
}

static int collect_slice(void *ctx, const struct sc_trace *trace,
			 const struct sc_trace_event *event, struct sc_err *err)
{
	struct chrome *c = ctx;
	const struct sc_trace_lane *lane = &trace->lanes.at[event->lane];
	const struct slice slice = {event->start_ns, sc_time_add(event->start_ns, event->dur_ns),
				    process_id(c, lane), thread_id(lane), (uint32_t)c->slices.n};

	(void)err;
	if (is_started(event))
		SC_VEC_PUSH(&c->started, event->correlation);
	if (event->cls == SC_EV_API && event->correlation)
		SC_VEC_PUSH(&c->called, event->correlation);
	if (is_slice(trace, event))
		SC_VEC_PUSH(&c->slices, slice);
	return 0;
}

SC_COMPARE(compare_slices, struct slice,
	   16 * SC_ORDER(a->pid, b->pid) + 8 * SC_ORDER(a->tid, b->tid) +
		   4 * SC_ORDER(a->start_ns, b->start_ns) + 2 * SC_ORDER(b->end_ns, a->end_ns) +
		   SC_ORDER(a->index, b->index));

/* The first track of its stream on which a slice crosses none: it is in what is open, or behind. */
static void find_sides(struct chrome *c)
{
	struct {
		SC_VEC(int64_t) open; /* ends, of the outermost first */
	} side[MAX_SIDES] = {0};

	SC_VEC_RESERVE(&c->sides, c->slices.n + 1);
	c->sides.n = c->slices.n;
	SC_SORT(c->slices.at, c->slices.n, compare_slices);
	for (size_t i = 0; i < c->slices.n; i++) {
		const struct slice *s = &c->slices.at[i];
		uint8_t k = 0;

		if (i > 0 && (s->pid != s[-1].pid || s->tid != s[-1].tid))
			for (int n = 0; n < MAX_SIDES; n++)
				side[n].open.n = 0;
		for (; k < MAX_SIDES - 1; k++) {
			while (side[k].open.n && side[k].open.at[side[k].open.n - 1] <= s->start_ns)
				side[k].open.n--;
			if (!side[k].open.n || s->end_ns <= side[k].open.at[side[k].open.n - 1])
				break;
		}
		SC_VEC_PUSH(&side[k].open, s->end_ns);
		c->sides.at[s->index] = k;
	}
	for (int n = 0; n < MAX_SIDES; n++)
		SC_VEC_RELEASE(&side[n].open);
}

static int put_file(struct chrome *c, const char *path, struct sc_err *err)
{
	struct sc_trace tables = {.path = NULL};
	int rc;

	c->started.n = c->called.n = c->slices.n = c->next_side = 0;
	rc = sc_trace_scan(path, collect_slice, c, &tables, err);
	SC_SORT(c->started.at, c->started.n, compare_ids);
	SC_SORT(c->called.at, c->called.n, compare_ids);
	find_sides(c);
	if (rc == 0)
		put_lanes(c, &tables);
	sc_trace_release(&tables);
	tables = (struct sc_trace){.path = NULL};
	if (rc == 0)
		rc = sc_trace_scan(path, put_event, c, &tables, err);
	sc_trace_release(&tables);
	return rc;
}

/* --- the document --- */

/* ts 0 is the earliest start of all files. */
static int find_base(struct chrome *c, struct sc_err *err)
{
	bool found = false;

	for (size_t i = 0; i < c->run->n_files; i++) {
		struct sc_trace tables = {.path = NULL};
		struct sc_trace_info info;
		int64_t utc_ns;
		int rc = sc_trace_stat(c->run->files[i], &tables, &info, err);

		if (rc)
			return rc;
		utc_ns = sc_export_utc(c->run, i,
				       sc_time_add(tables.identity.base_utc_ns, info.first_ns));
		if (info.counts.total && (!found || utc_ns < c->base_utc_ns)) {
			c->base_utc_ns = utc_ns;
			found = true;
		}
		sc_trace_release(&tables);
	}
	return 0;
}

/* Writes what set the clock of each rank, and how far off it may be. */
static void put_clocks(struct chrome *c)
{
	const struct sc_merge *merge = c->run->merge;

	sc_json_stream_array(&c->json, "clock");
	for (size_t i = 0; i < merge->ranks.n; i++) {
		const struct sc_merge_rank *rank = &merge->ranks.at[i];
		const double bound_us = sc_merge_bound_ns(rank) / (double)SC_NS_PER_US;

		sc_json_stream_object(&c->json, NULL);
		sc_json_stream_int(&c->json, "rank", rank->rank);
		sc_json_stream_text(&c->json, "set_by", sc_merge_basis_name(rank->basis));
		if (rank->pieces.n)
			put_us(c, "offset_us", llround(rank->pieces.at[0].offset_ns));
		if (isfinite(bound_us))
			sc_json_stream_fixed(&c->json, "error_at_most_us", bound_us, 3);
		if (isfinite(rank->spread_ns))
			sc_json_stream_fixed(&c->json, "median_deviation_us",
					     rank->spread_ns / (double)SC_NS_PER_US, 3);
		sc_json_stream_end(&c->json);
	}
	sc_json_stream_end(&c->json);
}

static int put_head(struct chrome *c, const char *path, struct sc_err *err)
{
	struct sc_trace_load_opts opts = {.skip_events = true};
	struct sc_trace tables;
	int rc = sc_trace_load(path, &opts, &tables, err);

	if (rc)
		return rc;
	sc_json_stream_object(&c->json, NULL);
	sc_json_stream_int(&c->json, "schemaVersion", 1);
	if (c->run->n_files == 1)
		put_devices(c, &tables);
	if (c->run->n_files == 1 && tables.identity.rank >= 0) {
		sc_json_stream_object(&c->json, "distributedInfo");
		sc_json_stream_text(&c->json, "backend", "nccl");
		sc_json_stream_int(&c->json, "rank", tables.identity.rank);
		if (tables.identity.world >= 0)
			sc_json_stream_int(&c->json, "world_size", tables.identity.world);
		sc_json_stream_end(&c->json);
	}
	if (c->run->n_files == 1 && tables.partial) {
		const char *why = meta_said(&tables, SC_META_PARTIAL);

		sc_json_stream_text(&c->json, SC_CHROME_PARTIAL,
				    why ? why : "its trace file was not ended");
	}
	if (c->run->n_files > 1)
		sc_json_stream_int(&c->json, SC_CHROME_RANKS, (int64_t)c->run->n_files);
	if (c->run->merge)
		put_clocks(c);
	sc_json_stream_text(&c->json, "displayTimeUnit", "ms");
	sc_json_stream_int(&c->json, "baseTimeNanoseconds", c->base_utc_ns);
	sc_json_stream_array(&c->json, "traceEvents");
	sc_trace_release(&tables);
	return 0;
}

int sc_export_chrome(const struct sc_export_run *run, FILE *out, struct sc_err *err)
{
	struct chrome c = {.run = run};
	int rc = find_base(&c, err);

	if (rc)
		return rc;
	c.json = (struct sc_json_stream){.out = out};
	rc = put_head(&c, run->files[0], err);
	for (; rc == 0 && c.file < run->n_files; c.file++)
		rc = put_file(&c, run->files[c.file], err);
	while (c.json.depth)
		sc_json_stream_end(&c.json);
	if (sc_json_stream_finish(&c.json, rc ? NULL : err) && rc == 0)
		rc = -(int)c.json.err.code;
	SC_VEC_RELEASE(&c.started);
	SC_VEC_RELEASE(&c.called);
	SC_VEC_RELEASE(&c.slices);
	SC_VEC_RELEASE(&c.sides);
	return rc;
}
