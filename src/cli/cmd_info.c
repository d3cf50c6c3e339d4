/* stepcast info: what trace files have. */
#include <inttypes.h>
#include <string.h>

#include "base/json_out.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "report/parts.h"
#include "report/replay_report.h"
#include "trace/format/trace_file.h"
#include "trace/graph/iteration_ranges.h"
#include "trace/graph/mend_trace.h"

enum { INFO_VERSION = 1, MAX_MARK_EVENTS = 8 << 20 };

struct info_args {
	struct sc_common common;
	const char *report;
	int json, check;
};

#define SC_ARGS struct info_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_FLAG(check, "check", "read every event, not only the index; damage is exit code 3"),
	SC_OPT_REPORT(report),
	SC_OPT_JSON(json),
	{0},
};

struct file_info {
	const char *path;
	struct sc_trace tables;
	struct sc_trace_info info;
	size_t n_marks; /* iterations that ranges mark */
	char marked_by[128];
	int64_t n_broken; /* records of devices that cannot be */
	struct sc_trace_loss loss;
};
struct run_info {
	struct file_info *files;
	size_t n, n_damaged; /* files; damaged or partial */
};

static double bytes_per_event(const struct sc_trace_info *info)
{
	return info->counts.total ? (double)info->file_bytes / (double)info->counts.total : 0;
}

/* --- text --- */

static void put_info_row(struct sc_strbuf *out, const char *key)
{
	sc_strbuf_printf(out, "  %-9s ", key);
}

static void put_state(struct sc_strbuf *out, const struct file_info *file)
{
	const char *cut = sc_trace_meta_of(&file->tables, SC_META_PARTIAL);

	put_info_row(out, "state");
	if (file->tables.partial)
		sc_strbuf_printf(out, "partial: %s; what is whole counts",
				 cut ? cut : "it was not ended");
	else if (file->n_broken)
		sc_strbuf_printf(
			out,
			"whole; %" PRId64
			" records of the GPU cannot be, by its launches and streams: replay "
			"names them",
			file->n_broken);
	else
		sc_strbuf_append(out, "complete");
	if (file->tables.n_bad_frames)
		sc_strbuf_printf(out, "; %" PRId64 " damaged frames skipped",
				 file->tables.n_bad_frames);
	sc_strbuf_append(out, "\n");
	if (!file->loss.n_files)
		return;
	put_info_row(out, "loss");
	sc_trace_loss_text(&file->loss, out);
	sc_strbuf_append(out, "\n");
}

static void put_counts(struct sc_strbuf *out, const struct sc_trace_info *info)
{
	put_info_row(out, "events");
	sc_strbuf_printf(out, "%" PRId64 " in %" PRId64 " bytes", info->counts.total,
			 info->file_bytes);
	if (info->counts.total)
		sc_strbuf_printf(out, ", %.2f a piece, over %.3f ms", bytes_per_event(info),
				 (double)info->last_ns / (double)SC_NS_PER_MS -
					 (double)info->first_ns / (double)SC_NS_PER_MS);
	sc_strbuf_append(out, "\n");
	for (int cls = 0; cls < SC_N_EVENT_CLASSES; cls++) {
		if (info->counts.n[cls])
			sc_strbuf_printf(out, "    %-14s %12" PRId64 "\n",
					 sc_event_class_name((enum sc_event_class)cls),
					 info->counts.n[cls]);
	}
}

static void put_lanes(struct sc_strbuf *out, const struct sc_trace *tables)
{
	int64_t n_streams = 0, n_lanes = (int64_t)tables->lanes.n - 1;

	for (size_t i = 1; i < tables->lanes.n; i++)
		n_streams += tables->lanes.at[i].is_stream;
	put_info_row(out, "lanes");
	sc_strbuf_printf(out, "%" PRId64 " streams, %" PRId64 " threads\n", n_streams,
			 n_lanes - n_streams);
	for (size_t i = 1; i < tables->lanes.n; i++) {
		const struct sc_trace_lane *lane = &tables->lanes.at[i];

		if (!lane->is_stream)
			continue;
		sc_strbuf_printf(out, "    device %" PRId32 " stream %" PRId32 "%s%s\n",
				 lane->device, lane->stream, lane->name ? " " : "",
				 tables->strings.at[lane->name]);
	}
}

static bool is_like_gap(const struct sc_trace_gap *a, const struct sc_trace_gap *b)
{
	return a->cls == b->cls && (a->n < 0) == (b->n < 0) && strcmp(a->reason, b->reason) == 0;
}

/* Puts gaps of one class and reason together, at the first. */
static void put_gaps(struct sc_strbuf *out, const struct sc_trace *tables)
{
	for (size_t i = 0; i < tables->gaps.n; i++) {
		const struct sc_trace_gap *gap = &tables->gaps.at[i];
		double n_events = 0, ms = 0;
		size_t n_gaps = 0, first = 0;

		while (!is_like_gap(&tables->gaps.at[first], gap))
			first++;
		for (size_t k = first; k < tables->gaps.n && first == i; k++) {
			const struct sc_trace_gap *one = &tables->gaps.at[k];

			if (!is_like_gap(one, gap))
				continue;
			n_gaps++;
			n_events += (double)one->n;
			ms += ((double)one->last_ns - (double)one->first_ns) / (double)SC_NS_PER_MS;
		}
		if (!n_gaps)
			continue;
		put_info_row(out, "lost");
		if (gap->n < 0)
			sc_strbuf_append(out, "not known how many");
		else
			sc_strbuf_printf(out, "%.0f", n_events);
		sc_strbuf_printf(out, " of %s in %.3f ms: %s",
				 sc_event_class_name((enum sc_event_class)gap->cls), ms,
				 gap->reason);
		if (n_gaps > 1)
			sc_strbuf_printf(out, " (%zu times)", n_gaps);
		sc_strbuf_append(out, "\n");
	}
}

static void put_info_text(struct sc_strbuf *out, const struct file_info *file)
{
	const struct sc_trace_identity *id = &file->tables.identity;

	sc_strbuf_printf(out, "%s\n", file->path);
	put_info_row(out, "rank");
	if (id->rank < 0)
		sc_strbuf_append(out, "not known");
	else
		sc_strbuf_printf(out, "%" PRId32, id->rank);
	if (id->world > 0)
		sc_strbuf_printf(out, " of %" PRId32, id->world);
	sc_strbuf_append(out, "\n");
	put_info_row(out, "source");
	sc_strbuf_append(out, id->source[0] ? id->source : "not known");
	if (id->host[0])
		sc_strbuf_printf(out, ", host %s", id->host);
	if (id->pid >= 0)
		sc_strbuf_printf(out, ", process %" PRId32, id->pid);
	sc_strbuf_append(out, "\n");
	put_state(out, file);
	put_counts(out, &file->info);
	put_lanes(out, &file->tables);
	if (file->info.counts.n[SC_EV_KERNEL] || file->n_marks) {
		put_info_row(out, "steps");
		if (file->n_marks)
			sc_strbuf_printf(out, "%zu, ", file->n_marks);
		sc_strbuf_printf(out, "%s\n", file->marked_by);
	}
	put_gaps(out, &file->tables);
	for (size_t i = 0; i < file->tables.meta.n; i++) {
		const struct sc_trace_meta *meta = &file->tables.meta.at[i];

		put_info_row(out, i ? "" : "meta");
		sc_strbuf_printf(out, "%s = %s\n", meta->key, meta->value);
	}
}

static void put_all(const void *ctx, struct sc_strbuf *out)
{
	const struct run_info *run = ctx;
	int64_t n_events = 0, n_bytes = 0;

	for (size_t i = 0; i < run->n; i++) {
		put_info_text(out, &run->files[i]);
		n_events += run->files[i].info.counts.total;
		n_bytes += run->files[i].info.file_bytes;
	}
	if (run->n > 1)
		sc_strbuf_printf(out, "%zu files: %" PRId64 " events in %" PRId64 " bytes\n",
				 run->n, n_events, n_bytes);
	for (size_t i = 0; i < out->n; i++) { /* traces may say any bytes: none steers a terminal */
		unsigned char c = (unsigned char)out->at[i];

		if ((c < 0x20 && c != '\n') || c == 0x7F)
			out->at[i] = '?';
	}
}

/* --- JSON --- */

static void put_json_facts(struct sc_json *json, json_t *parent, const struct sc_trace *tables)
{
	json_t *lanes = sc_json_array(json, parent, "lanes");
	json_t *gaps = sc_json_array(json, parent, "lost");
	json_t *meta = sc_json_array(json, parent, "meta");

	for (size_t i = 1; i < tables->lanes.n; i++) {
		const struct sc_trace_lane *lane = &tables->lanes.at[i];
		json_t *object = sc_json_object(json, lanes, NULL);

		if (lane->name)
			sc_json_text(json, object, "name", tables->strings.at[lane->name]);
		if (lane->is_stream) {
			SC_JSON_KNOWN(json, object, *lane, device, stream);
		} else {
			SC_JSON_PUT(json, object, *lane, pid, tid);
		}
	}
	for (size_t i = 0; i < tables->gaps.n; i++) {
		const struct sc_trace_gap *gap = &tables->gaps.at[i];
		json_t *object = sc_json_object(json, gaps, NULL);

		sc_json_text(json, object, "class",
			     sc_event_class_name((enum sc_event_class)gap->cls));
		sc_json_known_int(json, object, "n", gap->n);
		SC_JSON_PUT(json, object, *gap, first_ns, last_ns, reason);
	}
	for (size_t i = 0; i < tables->meta.n; i++) {
		json_t *pair = sc_json_object(json, meta, NULL);

		SC_JSON_PUT(json, pair, tables->meta.at[i], key, value);
	}
}

static void put_json_file(struct sc_json *json, json_t *parent, const struct file_info *file)
{
	const struct sc_trace_identity *id = &file->tables.identity;
	json_t *object = sc_json_object(json, parent, NULL);
	json_t *events = sc_json_object(json, object, "events");

	sc_json_text(json, object, "file", file->path);
	SC_JSON_KNOWN(json, object, *id, rank, world, pid);
	SC_JSON_PUT(json, object, *id, host, source);
	sc_json_bool(json, object, "partial", file->tables.partial);
	sc_json_int(json, object, "broken_records", file->n_broken);
	sc_json_int(json, object, "bad_frames", file->tables.n_bad_frames);
	sc_json_int(json, object, "base_utc_ns", file->tables.identity.base_utc_ns);
	SC_JSON_PUT(json, object, file->info, first_ns, last_ns, file_bytes, n_frames);
	sc_json_int(json, object, "n_events", file->info.counts.total);
	sc_json_real(json, object, "bytes_per_event", bytes_per_event(&file->info));
	for (int cls = 0; cls < SC_N_EVENT_CLASSES; cls++)
		sc_json_int(json, events, sc_event_class_name((enum sc_event_class)cls),
			    file->info.counts.n[cls]);
	sc_json_int(json, object, "n_steps", (int64_t)file->n_marks);
	sc_json_text(json, object, "steps_found", file->marked_by);
	sc_json_loss(json, object, &file->loss);
	put_json_facts(json, object, &file->tables);
}

static void put_info_document(const void *ctx, struct sc_json *json)
{
	const struct run_info *run = ctx;
	const char *gpu = run->n ? sc_trace_meta_of(&run->files[0].tables, "device.0.name") : NULL;
	json_t *files;

	sc_json_init(json, "stepcast/info", INFO_VERSION);
	sc_json_verdict(json, run->n_damaged ? SC_STANDS_FAIR : SC_STANDS_WELL,
			"%zu recorded file%s%s%s, %zu of them damaged or partial.", run->n,
			sc_plural(run->n), gpu ? " of " : "", gpu ? gpu : "", run->n_damaged);
	files = sc_json_array(json, json->root, "files");
	for (size_t i = 0; i < run->n; i++)
		put_json_file(json, files, &run->files[i]);
}

/* --- the command --- */

static int count_event(void *ctx, const struct sc_trace *trace, const struct sc_trace_event *event,
		       struct sc_err *err)
{
	struct sc_trace_counts *counts = ctx;

	(void)trace, (void)err;
	counts->n[event->cls]++;
	counts->total++;
	return 0;
}

/* Finds the steps that ranges mark; none in a trace with more calls than memory should hold. */
static int find_steps(struct file_info *file, struct sc_err *err)
{
	const struct sc_trace_load_opts opts = {.classes = 1u << SC_EV_API | 1u << SC_EV_RANGE |
							   1u << SC_EV_KERNEL | 1u << SC_EV_COPY |
							   1u << SC_EV_SET | 1u << SC_EV_GRAPH};
	const struct sc_trace_counts *counts = &file->info.counts;
	int64_t n_acts = counts->n[SC_EV_KERNEL] + counts->n[SC_EV_COPY] + counts->n[SC_EV_SET];
	struct sc_trace_mended mended;
	struct sc_trace trace;
	struct sc_marks marks;
	int rc;

	snprintf(file->marked_by, sizeof(file->marked_by), "not marked");
	if (counts->n[SC_EV_RANGE] + n_acts == 0)
		return 0;
	if (counts->n[SC_EV_RANGE] + counts->n[SC_EV_API] + n_acts > MAX_MARK_EVENTS) {
		snprintf(file->marked_by, sizeof(file->marked_by),
			 "not looked for, too many calls");
		return 0;
	}
	rc = sc_trace_load(file->path, &opts, &trace, err);
	if (rc)
		return rc;
	if (sc_marks_find(&trace, NULL, &marks)) {
		file->n_marks = marks.list.n;
		sc_marks_text(marks.found_by, trace.strings.at[marks.name], file->marked_by);
	}
	sc_trace_mend(&trace, &mended);
	for (int i = 0; i < SC_N_BROKEN; i++)
		file->n_broken += mended.broken[i].n;
	SC_VEC_RELEASE(&marks.list);
	sc_trace_release(&trace);
	return 0;
}

static const struct sc_forms forms = {.json = put_info_document, .text = put_all};

static int info(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct info_args *args = into;
	struct sc_arena *arena = call->arena;
	struct run_info run = {.n = 0};
	const char *const *paths;
	size_t n, n_read = 0;
	int rc = sc_trace_list(args->common.words.at[0], arena, &paths, &n, err);

	if (rc)
		return rc;
	run.files = sc_arena_calloc(arena, n, sizeof(*run.files));
	for (; n_read < n && rc == 0; n_read++) {
		struct file_info *file = &run.files[n_read];

		file->path = paths[n_read];
		rc = sc_trace_stat(file->path, &file->tables, &file->info, err);
		if (rc == 0)
			rc = find_steps(file, err);
		if (rc == 0 &&
		    args->check) { /* what can be read, in place of what the index says */
			struct sc_trace_counts counts = {.total = 0};
			struct sc_trace read = {.path = NULL};

			rc = sc_trace_scan(file->path, count_event, &counts, &read, err);
			if (rc == 0) {
				file->info.counts = counts;
				file->tables.n_bad_frames = read.n_bad_frames;
			}
			sc_trace_release(&read);
		}
		if (rc == 0)
			sc_trace_loss(&file->tables, &file->info, &file->loss);
		run.n_damaged += file->tables.n_bad_frames || file->tables.partial;
	}
	run.n = n_read;
	if (rc == 0)
		rc = sc_cli_give(call, &forms, &run, err);
	if (rc == 0 && args->check && run.n_damaged) {
		fprintf(stderr, "check failed: %zu of %zu files are damaged or partial\n",
			run.n_damaged, run.n);
		call->exit_code = SC_EXIT_CHECK;
	}
	for (size_t i = 0; i < n_read; i++)
		sc_trace_release(&run.files[i].tables);
	return rc;
}

const struct sc_command sc_command_info = {
	.name = "info",
	.n_words = 1,
	.words_asked = "one DIR or FILE",
	.summary = "show what trace files have: ranks, events by class, streams, losses",
	.synopsis = "(DIR|FILE) [--check] [--json] [--report FILE.html]",
	.details =
		"Says of each .sctrace file in a folder, or of one file, which process wrote it, whether it is complete, "
		"how many events of each class it has, bytes per event, streams, and what the recording lost and why. It "
		"reads files that were cut or damaged as far as they are whole.",
	.words = "file",
	.options = OPTIONS,
	.args_bytes = sizeof(struct info_args),
	.run = info,
};
