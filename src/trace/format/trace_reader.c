/* Tables come first, of all frames: later ones fill what a damaged frame lost; then events. */
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "trace/format/frame_file.h"
#include "trace/format/row_sort.h"
#include "trace/format/trace_file.h"

enum { ARENA_BYTES = 16 << 10 };

/* --- tables --- */

/* Before ids of a frame: how many entries the table may lack because frames were lost. */
static bool fits_behind(const struct sc_frame_file *file, size_t n_have)
{
	int64_t first = file->header.first, most = file->n_bad_frames * SC_FRAME_MAX_ROWS;

	if (most > file->n_bytes)
		most = file->n_bytes;
	return first >= 1 && first <= INT32_MAX && first - (int64_t)n_have <= most;
}

static bool add_strings(struct sc_frame_file *file, struct sc_trace *trace)
{
	size_t n = file->header.count, first = (size_t)file->header.first;
	struct sc_text *texts;
	bool good;

	if (!fits_behind(file, trace->strings.n))
		return false;
	texts = sc_xmalloc((n ? n : 1) * sizeof(*texts));
	good = sc_frame_get_texts(file->coder, &file->header, file->payload, texts, n);
	while (good && trace->strings.n < first + n)
		SC_VEC_PUSH(&trace->strings, NULL);
	for (size_t i = 0; good && i < n; i++) {
		if (!trace->strings.at[first + i])
			trace->strings.at[first + i] =
				sc_arena_strndup(&trace->arena, texts[i].at, texts[i].n);
	}
	free(texts);
	return good;
}

/* LANES, CONFIGS, COMMS: rows at their ids; what lies before and was lost is like row 0. */
#define ADD_ROWS(vec)                                                                \
	do {                                                                         \
		size_t first_ = (size_t)file->header.first, n_ = file->header.count; \
		size_t have_ = (vec)->n;                                             \
		if (!fits_behind(file, have_))                                       \
			return false;                                                \
		SC_VEC_RESERVE(vec, first_ + n_);                                    \
		if (!sc_frame_get_rows(file->coder, &file->header, file->payload,    \
				       (vec)->at + first_))                          \
			return false;                                                \
		for (; have_ < first_; have_++)                                      \
			(vec)->at[have_] = (vec)->at[0];                             \
		if ((vec)->n < first_ + n_)                                          \
			(vec)->n = first_ + n_;                                      \
		return true;                                                         \
	} while (0)

static bool add_gaps(struct sc_frame_file *file, struct sc_trace *trace)
{
	const size_t n = file->header.count;
	struct sc_text *reasons = sc_xmalloc((n ? n : 1) * sizeof(*reasons));
	struct sc_trace_gap *gaps;
	bool good;

	SC_VEC_RESERVE(&trace->gaps, trace->gaps.n + n + 1);
	gaps = trace->gaps.at + trace->gaps.n;
	good = sc_frame_get_rows(file->coder, &file->header, file->payload, gaps) &&
	       sc_frame_get_texts(file->coder, &file->header, file->payload, reasons, n);
	for (size_t i = 0; good && i < n; i++) {
		gaps[i].cls = gaps[i].cls < SC_N_EVENT_CLASSES ? gaps[i].cls : SC_EV_OTHER;
		gaps[i].reason = sc_arena_strndup(&trace->arena, reasons[i].at, reasons[i].n);
	}
	trace->gaps.n += good ? n : 0;
	free(reasons);
	return good;
}

static bool add_meta(struct sc_frame_file *file, struct sc_trace *trace, struct sc_intern *keys)
{
	size_t n = file->header.count / 2 * 2;
	struct sc_text *texts = sc_xmalloc((n ? n : 1) * sizeof(*texts));
	bool good = n == file->header.count &&
		    sc_frame_get_texts(file->coder, &file->header, file->payload, texts, n);

	for (size_t i = 0; good && i < n; i += 2) {
		struct sc_trace_meta pair;
		uint32_t id;

		pair.key = sc_arena_strndup(&trace->arena, texts[i].at, texts[i].n);
		pair.value = sc_arena_strndup(&trace->arena, texts[i + 1].at, texts[i + 1].n);
		id = sc_intern_add(keys, pair.key);
		if (id < trace->meta.n)
			trace->meta.at[id] = pair;
		else
			SC_VEC_PUSH(&trace->meta, pair);
	}
	free(texts);
	return good;
}

/* True too for what is no table. */
static bool add_table(struct sc_frame_file *file, struct sc_trace *trace, struct sc_intern *keys)
{
	const size_t n = file->header.count;

	switch (file->header.type) {
	case SC_FRAME_IDENTITY:
		return sc_frame_get_identity(file->coder, &file->header, file->payload,
					     &trace->identity);
	case SC_FRAME_META:
		return add_meta(file, trace, keys);
	case SC_FRAME_STRINGS:
		return add_strings(file, trace);
	case SC_FRAME_LANES:
		ADD_ROWS(&trace->lanes);
	case SC_FRAME_CONFIGS:
		ADD_ROWS(&trace->configs);
	case SC_FRAME_COMMS:
		ADD_ROWS(&trace->comms);
	case SC_FRAME_CLOCKS:
		SC_VEC_RESERVE(&trace->clocks, trace->clocks.n + n + 1);
		if (!sc_frame_get_rows(file->coder, &file->header, file->payload,
				       trace->clocks.at + trace->clocks.n))
			return false;
		trace->clocks.n += n;
		return true;
	case SC_FRAME_GAPS:
		return add_gaps(file, trace);
	default:
		return true;
	}
}

/* An id that the tables do not have (its frame was lost) becomes 0. */
static inline void bound_id(uint32_t *id, size_t n)
{
	if (*id >= n)
		*id = SC_TRACE_NO_ID;
}

static void bound_tables(struct sc_trace *trace)
{
	size_t n = trace->strings.n;

	for (size_t i = 0; i < n; i++)
		if (!trace->strings.at[i])
			trace->strings.at[i] = "";
	for (size_t i = 0; i < trace->lanes.n; i++)
		bound_id(&trace->lanes.at[i].name, n);
	for (size_t i = 0; i < trace->comms.n; i++) {
		struct sc_trace_comm *comm = &trace->comms.at[i];

		bound_id(&comm->collective, n);
		bound_id(&comm->dtype, n);
		bound_id(&comm->group_name, n);
		bound_id(&comm->group_ranks, n);
	}
}

static void init_trace(struct sc_trace *trace, const char *path)
{
	struct sc_trace_comm nothing;

	*trace = (struct sc_trace){
		.identity = {.rank = -1, .world = -1, .local_rank = -1, .pid = -1}};
	sc_arena_init(&trace->arena, ARENA_BYTES);
	trace->path = sc_arena_strdup(&trace->arena, path);
	SC_VEC_PUSH(&trace->strings, "");
	SC_VEC_PUSH(&trace->lanes, ((struct sc_trace_lane){.device = -1, .stream = -1}));
	SC_VEC_PUSH(&trace->configs, (struct sc_trace_config){0});
	sc_trace_comm_init(&nothing);
	SC_VEC_PUSH(&trace->comms, nothing);
}

static void load_tables(struct sc_frame_file *file, struct sc_trace *trace)
{
	struct sc_intern keys = {.n_slots = 0};

	for (size_t i = 0; i < file->frames.n; i++) {
		const struct sc_frame_header *frame = &file->frames.at[i];

		if (frame->type == SC_FRAME_EVENTS)
			continue;
		if (sc_frame_file_read(file, frame) && !add_table(file, trace, &keys))
			file->n_bad_frames++;
	}
	sc_intern_release(&keys);
	bound_tables(trace);
}

const char *sc_trace_meta_of(const struct sc_trace *trace, const char *key)
{
	for (size_t i = 0; i < trace->meta.n; i++)
		if (strcmp(trace->meta.at[i].key, key) == 0)
			return trace->meta.at[i].value;
	return NULL;
}

/* --- events --- */

static bool read_events(struct sc_frame_file *file, const struct sc_frame_header *frame,
			const struct sc_trace *trace, struct sc_trace_event *out)
{
	bool good;

	if (!sc_frame_file_read(file, frame))
		return false;
	good = sc_frame_get_rows(file->coder, &file->header, file->payload, out);
	for (size_t i = 0; good && i < frame->count; i++)
		good = out[i].start_ns >= frame->first && sc_event_in_range(&out[i]);
	if (!good) {
		file->n_bad_frames++;
		return false;
	}
	for (size_t i = 0; i < frame->count; i++) {
		out[i].cls = (uint8_t)frame->sub;
		bound_id(&out[i].name, trace->strings.n);
		bound_id(&out[i].lane, trace->lanes.n);
		bound_id(&out[i].config, trace->configs.n);
		bound_id(&out[i].comm, trace->comms.n);
		bound_id(&out[i].shapes, trace->strings.n);
	}
	return true;
}

static bool has_events(const struct sc_frame_header *frame)
{
	return frame->type == SC_FRAME_EVENTS && frame->sub < SC_N_EVENT_CLASSES &&
	       frame->count > 0 && frame->count <= SC_FRAME_MAX_ROWS;
}

/* --- the interface --- */

static bool is_wanted(const struct sc_frame_header *frame, const struct sc_trace_load_opts *opts)
{
	return has_events(frame) && (!opts || !opts->classes || opts->classes >> frame->sub & 1);
}

/* Loads what `opts` asks for, by start, into trace->events; of equal starts that which was written
 * first comes first. A frame's memory is given back with its last event. */
static int load_events(struct sc_frame_file *file, const struct sc_trace_load_opts *opts,
		       struct sc_trace *trace, struct sc_err *err)
{
	struct block {
		struct sc_trace_event *events;
		uint32_t n_left;
	} * blocks;
	size_t n_events = 0, n_blocks = 0, n;
	SC_VEC(struct sc_row_key) keys = {0};
	struct sc_row_key *sorted;

	for (size_t i = 0; i < file->frames.n; i++)
		if (is_wanted(&file->frames.at[i], opts)) {
			n_events += file->frames.at[i].count;
			n_blocks++;
		}
	if (n_blocks > UINT32_MAX / SC_FRAME_MAX_ROWS)
		return sc_err_at(err, SC_ELIMIT, file->path, 0, 0,
				 "%zu events are too many to load at once; choose classes",
				 n_events);
	blocks = sc_xcalloc(n_blocks + 1, sizeof(*blocks));
	n_blocks = 0;
	for (size_t i = 0; i < file->frames.n; i++) {
		const struct sc_frame_header *frame = &file->frames.at[i];
		struct block *block = &blocks[n_blocks];

		if (!is_wanted(frame, opts))
			continue;
		block->events = sc_xrealloc(NULL, frame->count, sizeof(*block->events));
		if (!read_events(file, frame, trace, block->events)) {
			free(block->events);
			continue;
		}
		/* The order of int64 as that of uint64. */
		for (uint32_t k = 0; k < frame->count; k++)
			SC_VEC_PUSH(&keys,
				    ((struct sc_row_key){
					    .time = (uint64_t)block->events[k].start_ns ^
						    UINT64_C(1) << 63,
					    .row = (uint32_t)n_blocks * SC_FRAME_MAX_ROWS + k}));
		block->n_left = frame->count;
		n_blocks++;
	}
	n = keys.n;
	SC_VEC_RESERVE(&keys, 2 * n + 1);
	sorted = sc_row_sort(keys.at, keys.at + n, n);
	SC_VEC_RESERVE(&trace->events, n);
	for (size_t i = 0; i < n; i++) {
		struct block *block = &blocks[sorted[i].row / SC_FRAME_MAX_ROWS];

		trace->events.at[i] = block->events[sorted[i].row % SC_FRAME_MAX_ROWS];
		if (--block->n_left == 0)
			free(block->events);
	}
	trace->events.n = n;
	free(blocks);
	SC_VEC_RELEASE(&keys);
	return 0;
}

/* The file and its tables. */
static int open_trace(const char *path, struct sc_frame_file *file, struct sc_trace *trace,
		      struct sc_err *err)
{
	int rc = sc_frame_file_open(path, file, err);

	if (rc)
		return rc;
	init_trace(trace, path);
	load_tables(file, trace);
	trace->partial = file->partial || sc_trace_meta_of(trace, SC_META_PARTIAL);
	trace->n_bad_frames = file->n_bad_frames;
	return 0;
}

int sc_trace_load(const char *path, const struct sc_trace_load_opts *opts, struct sc_trace *out,
		  struct sc_err *err)
{
	struct sc_frame_file file;
	int rc = open_trace(path, &file, out, err);

	if (rc)
		return rc;
	if (!opts || !opts->skip_events)
		rc = load_events(&file, opts, out, err);
	out->n_bad_frames = file.n_bad_frames;
	sc_frame_file_close(&file);
	if (rc)
		sc_trace_release(out);
	return rc;
}

void sc_trace_release(struct sc_trace *trace)
{
	SC_VEC_RELEASE(&trace->strings);
	SC_VEC_RELEASE(&trace->lanes);
	SC_VEC_RELEASE(&trace->configs);
	SC_VEC_RELEASE(&trace->comms);
	SC_VEC_RELEASE(&trace->events);
	SC_VEC_RELEASE(&trace->meta);
	SC_VEC_RELEASE(&trace->gaps);
	SC_VEC_RELEASE(&trace->clocks);
	sc_arena_release(&trace->arena);
}

int sc_trace_scan(const char *path, sc_trace_event_fn each, void *ctx, struct sc_trace *trace,
		  struct sc_err *err)
{
	struct sc_trace_event *events;
	struct sc_frame_file file;
	int rc = open_trace(path, &file, trace, err);

	if (rc)
		return rc;
	events = sc_xmalloc(SC_FRAME_MAX_ROWS * sizeof(*events));
	for (size_t i = 0; i < file.frames.n && rc == 0; i++) {
		const struct sc_frame_header *frame = &file.frames.at[i];

		if (!has_events(frame) || !read_events(&file, frame, trace, events))
			continue;
		for (size_t k = 0; k < frame->count && rc == 0; k++)
			rc = each(ctx, trace, &events[k], err);
	}
	free(events);
	trace->n_bad_frames = file.n_bad_frames;
	sc_frame_file_close(&file);
	return rc;
}

int sc_trace_stat(const char *path, struct sc_trace *tables, struct sc_trace_info *out,
		  struct sc_err *err)
{
	struct sc_frame_file file;
	int rc = open_trace(path, &file, tables, err);

	if (rc)
		return rc;
	*out = (struct sc_trace_info){.file_bytes = file.n_bytes,
				      .n_frames = (int64_t)file.frames.n};
	for (size_t i = 0; i < file.frames.n; i++) {
		const struct sc_frame_header *frame = &file.frames.at[i];

		if (!has_events(frame))
			continue;
		if (!out->counts.total || frame->first < out->first_ns)
			out->first_ns = frame->first;
		if (!out->counts.total || frame->last > out->last_ns)
			out->last_ns = frame->last;
		out->counts.n[frame->sub] += frame->count;
		out->counts.total += frame->count;
	}
	sc_frame_file_close(&file);
	return 0;
}
