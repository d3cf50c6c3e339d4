/* Events are kept by class until a frame of them is full; then what their rows refer to is written,
 * and the frame. The first fault is kept for finish; after it nothing more is written. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/intern.h"
#include "base/output.h"
#include "trace/format/trace_file.h"
#include "trace/format/trace_frames.h"

enum {
	MAX_FACTS = 512,           /* meta and clocks that wait for the next frame */
	SNAPSHOT_BYTES = 64 << 20, /* all tables again after so much: a lost frame costs little */
	SNAPSHOT_SHARE = 32,       /* and at the end, if they are less than this part of the file */
	SNAPSHOT_MAX_SHARE = 4,    /* between, of what was written since the last */
	TEXT_ARENA_BYTES = 16 << 10
};

typedef SC_VEC(struct sc_trace_event) event_vec;
enum table_kind { STRINGS, LANES, CONFIGS, COMMS, N_TABLES };
/* The tables' types of frames, and the bytes of a row; 0: texts. */
static const struct {
	enum sc_frame_type type;
	size_t row_bytes;
} TABLES[N_TABLES] = {
	[STRINGS] = {SC_FRAME_STRINGS, 0},
	[LANES] = {SC_FRAME_LANES, sizeof(struct sc_trace_lane)},
	[CONFIGS] = {SC_FRAME_CONFIGS, sizeof(struct sc_trace_config)},
	[COMMS] = {SC_FRAME_COMMS, sizeof(struct sc_trace_comm)},
};
struct sc_trace_writer {
	struct sc_output *out;
	char *path;
	struct sc_err err;
	struct sc_frame_coder *coder;
	struct sc_trace_identity identity;
	bool identity_changed;
	struct sc_intern tables[N_TABLES]; /* their ids count from 0, those of the file from 1 */
	size_t n_written[N_TABLES];
	struct sc_trace_lane lane; /* that was asked for last */
	uint32_t lane_id;
	event_vec events[SC_N_EVENT_CLASSES];
	SC_VEC(struct sc_text) meta; /* key, value, ... */
	SC_VEC(struct sc_trace_clock) clocks;
	SC_VEC(struct sc_trace_gap) gaps;
	struct sc_arena facts; /* texts of meta and gaps that wait */
	int64_t offset, snapshot_offset;
	int64_t n_table_bytes; /* of the tables, each once */
};

/* --- frames out --- */

static void write_all(struct sc_trace_writer *w, const uint8_t *at, size_t n)
{
	while (n && w->err.code == SC_OK) {
		ssize_t done = write(sc_output_fd(w->out), at, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			sc_err_at(&w->err, SC_EIO, w->path, 0, 0, "cannot write: %s",
				  done < 0 ? strerror(errno) : "nothing was taken");
			return;
		}
		at += done;
		n -= (size_t)done;
		w->offset += done;
	}
}

/* The frame that the coder has. */
static void write_frame(struct sc_trace_writer *w)
{
	write_all(w, w->coder->out, w->coder->n_out);
}

/* How many of the n texts fit in one frame; at least one. */
static size_t count_fitting(const struct sc_text *texts, size_t n)
{
	size_t n_bytes = 0, i;

	for (i = 0; i < n && i < SC_FRAME_MAX_ROWS; i++) {
		n_bytes += texts[i].n;
		if (n_bytes > SC_FRAME_MAX_TEXT)
			break;
	}
	return i;
}

/* The rows that the file does not have, as many frames as it takes. */
static void write_table(struct sc_trace_writer *w, enum table_kind kind)
{
	const size_t row_bytes = TABLES[kind].row_bytes, n_all = w->tables[kind].entries.n;

	while (w->n_written[kind] < n_all) {
		const size_t from = w->n_written[kind];
		struct sc_frame_header header = {.type = (uint16_t)TABLES[kind].type,
						 .first = (int64_t)from + 1};
		size_t n = n_all - from < SC_FRAME_MAX_ROWS ? n_all - from : SC_FRAME_MAX_ROWS;
		struct sc_text *texts = sc_xmalloc(n * sizeof(*texts));
		char *rows = sc_xmalloc(n * row_bytes + 1);

		for (size_t i = 0; i < n; i++) {
			const struct sc_intern_entry *row = &w->tables[kind].entries.at[from + i];

			texts[i] = (struct sc_text){row->text, row->n_bytes};
			memcpy(rows + i * row_bytes, row->text, row_bytes);
		}
		n = row_bytes ? n : count_fitting(texts, n);
		header.count = (uint32_t)n;
		sc_frame_put(w->coder, header, row_bytes ? rows : NULL, row_bytes ? NULL : texts);
		w->n_table_bytes += (int64_t)w->coder->n_out;
		write_frame(w);
		w->n_written[kind] += n;
		free(texts);
		free(rows);
	}
}

static void flush_facts(struct sc_trace_writer *w)
{
	for (size_t i = 0; i < w->meta.n;) {
		size_t n = count_fitting(w->meta.at + i, w->meta.n - i) / 2 * 2;

		sc_frame_put(w->coder,
			     (struct sc_frame_header){.type = SC_FRAME_META, .count = (uint32_t)n},
			     NULL, w->meta.at + i);
		write_frame(w);
		i += n;
	}
	if (w->clocks.n) {
		sc_frame_put(w->coder,
			     (struct sc_frame_header){.type = SC_FRAME_CLOCKS,
						      .count = (uint32_t)w->clocks.n},
			     w->clocks.at, NULL);
		write_frame(w);
	}
	if (w->gaps.n) {
		sc_frame_put_gaps(w->coder, w->gaps.at, w->gaps.n);
		write_frame(w);
	}
	w->meta.n = w->clocks.n = w->gaps.n = 0;
	sc_arena_release(&w->facts);
	sc_arena_init(&w->facts, TEXT_ARENA_BYTES);
}

/* Everything that events refer to and that is not in the file yet. From time to time, and at the
 * end if it costs little, all of it: then a damaged frame takes no names from events of others. */
static void write_tables(struct sc_trace_writer *w, bool at_end)
{
	bool is_cheap = w->n_table_bytes < w->offset / SNAPSHOT_SHARE;
	int64_t since = w->offset - w->snapshot_offset;

	/* Tables that are large themselves wait until the events outweigh them. */
	if ((at_end && is_cheap) ||
	    (since > SNAPSHOT_BYTES && since / SNAPSHOT_MAX_SHARE > w->n_table_bytes)) {
		w->snapshot_offset = w->offset;
		w->n_table_bytes = 0;
		w->identity_changed = true;
		memset(w->n_written, 0, sizeof(w->n_written));
	}
	if (w->identity_changed) {
		sc_frame_put_identity(w->coder, &w->identity);
		write_frame(w);
		w->identity_changed = false;
	}
	for (enum table_kind kind = STRINGS; kind < N_TABLES; kind++)
		write_table(w, kind);
	flush_facts(w);
}

static void write_events(struct sc_trace_writer *w, event_vec *events)
{
	if (!events->n)
		return;
	if (w->err.code == SC_OK) {
		write_tables(w, false);
		sc_frame_put_events(w->coder, events->at, events->n);
		write_frame(w);
	}
	events->n = 0;
}

/* --- the interface --- */

int sc_trace_writer_create(const char *path, const struct sc_trace_identity *identity,
			   struct sc_trace_writer **out, struct sc_err *err)
{
	uint8_t header[SC_FILE_HEADER_BYTES];
	struct sc_frame_coder *coder = sc_frame_coder_create();
	const size_t n = strlen(path) + 1;
	struct sc_trace_writer *w;
	struct sc_output *file;
	int rc;

	if (!coder)
		return sc_err_at(err, SC_EIO, path, 0, 0, "not enough memory to write a trace");
	rc = sc_output_create(path, false, &file, err);
	if (rc) {
		sc_frame_coder_destroy(coder);
		return rc;
	}
	w = sc_xcalloc(1, sizeof(*w));
	w->out = file;
	w->path = memcpy(sc_xmalloc(n), path, n);
	w->coder = coder;
	sc_arena_init(&w->facts, TEXT_ARENA_BYTES);
	sc_file_header_put(header);
	write_all(w, header, sizeof(header));
	w->identity = *identity;
	w->identity_changed = true;
	*out = w;
	return 0;
}

static uint32_t put_row(struct sc_trace_writer *w, enum table_kind kind, const void *row, size_t n)
{
	return sc_intern_add_n(&w->tables[kind], row, n) + 1;
}

uint32_t sc_trace_writer_string(struct sc_trace_writer *w, const char *text, size_t n)
{
	const char *end = memchr(text, '\0', n);

	if (end)
		n = (size_t)(end - text);
	if (n > SC_FRAME_MAX_STRING)
		n = SC_FRAME_MAX_STRING;
	return n ? put_row(w, STRINGS, text, n) : SC_TRACE_NO_ID;
}

uint32_t sc_trace_writer_lane(struct sc_trace_writer *w, const struct sc_trace_lane *lane)
{
	/* Events come in runs of a lane. */
	if (!w->lane_id || memcmp(&w->lane, lane, sizeof(*lane)) != 0) {
		w->lane = *lane;
		w->lane_id = put_row(w, LANES, lane, sizeof(*lane));
	}
	return w->lane_id;
}

uint32_t sc_trace_writer_config(struct sc_trace_writer *w, const struct sc_trace_config *config)
{
	return put_row(w, CONFIGS, config, sizeof(*config));
}

uint32_t sc_trace_writer_comm(struct sc_trace_writer *w, const struct sc_trace_comm *comm)
{
	return put_row(w, COMMS, comm, sizeof(*comm));
}

void sc_trace_writer_add(struct sc_trace_writer *w, const struct sc_trace_event *event)
{
	event_vec *events = &w->events[event->cls];

	assert(event->cls < SC_N_EVENT_CLASSES);
	SC_VEC_PUSH(events, *event);
	if (events->n == SC_FRAME_MAX_ROWS)
		write_events(w, events);
}

void sc_trace_writer_clock(struct sc_trace_writer *w, int64_t trace_ns, int64_t utc_ns)
{
	SC_VEC_PUSH(&w->clocks, ((struct sc_trace_clock){trace_ns, utc_ns}));
	if (w->clocks.n == MAX_FACTS)
		flush_facts(w);
}

static struct sc_text keep_text(struct sc_trace_writer *w, const char *text)
{
	size_t n = strnlen(text, SC_FRAME_MAX_STRING);

	return (struct sc_text){sc_arena_strndup(&w->facts, text, n), n};
}

void sc_trace_writer_gap(struct sc_trace_writer *w, const struct sc_trace_gap *gap)
{
	struct sc_trace_gap own = *gap;

	assert(gap->cls < SC_N_EVENT_CLASSES);
	own.reason = keep_text(w, gap->reason).at;
	SC_VEC_PUSH(&w->gaps, own);
	if (w->gaps.n == SC_FRAME_MAX_GAPS)
		flush_facts(w);
}

void sc_trace_writer_meta(struct sc_trace_writer *w, const char *key, const char *value)
{
	SC_VEC_PUSH(&w->meta, keep_text(w, key));
	SC_VEC_PUSH(&w->meta, keep_text(w, value));
	if (w->meta.n == 2 * MAX_FACTS)
		flush_facts(w);
}

void sc_trace_writer_identity(struct sc_trace_writer *w, const struct sc_trace_identity *identity)
{
	w->identity_changed |= memcmp(&w->identity, identity, sizeof(*identity)) != 0;
	w->identity = *identity;
}

static void destroy_writer(struct sc_trace_writer *w)
{
	sc_frame_coder_destroy(w->coder);
	for (size_t i = 0; i < N_TABLES; i++)
		sc_intern_release(&w->tables[i]);
	for (size_t i = 0; i < SC_N_EVENT_CLASSES; i++)
		SC_VEC_RELEASE(&w->events[i]);
	SC_VEC_RELEASE(&w->meta);
	SC_VEC_RELEASE(&w->clocks);
	SC_VEC_RELEASE(&w->gaps);
	sc_arena_release(&w->facts);
	free(w->path);
	free(w);
}

int sc_trace_writer_finish(struct sc_trace_writer *w, const char *path, struct sc_err *err)
{
	int rc;

	for (size_t i = 0; i < SC_N_EVENT_CLASSES; i++)
		write_events(w, &w->events[i]);
	if (w->err.code == SC_OK) {
		write_tables(w, true);
		sc_frame_put(w->coder, (struct sc_frame_header){.type = SC_FRAME_END}, NULL, NULL);
		write_frame(w);
	}
	if (w->err.code != SC_OK) {
		rc = sc_err_at(err, w->err.code, w->err.file, 0, 0, "%s", w->err.text);
		sc_output_discard(w->out);
	} else {
		rc = sc_output_commit(w->out, path, err);
	}
	destroy_writer(w);
	return rc;
}

void sc_trace_writer_discard(struct sc_trace_writer *w)
{
	if (!w)
		return;
	sc_output_discard(w->out);
	destroy_writer(w);
}
