/* The trace file while the host program runs: texts, lanes, configs and calls that events refer to
 * are numbered and wait for a frame; events go into columns (capture_columns.c); what was prepared
 * goes out in one write. Whatever cannot be kept is counted, and becomes a gap of the trace. */
#include "trace/capture/capture_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/capture/capture_columns.h"
#include "trace/capture/hash_ids.h"
#include "trace/format/event.h"
#include "trace/format/trace_frames.h"

enum {
	MAX_STRINGS = 4 << 20, /* different ones; then names are 0, and that is counted */
	MAX_ROWS_WAITING =
		SC_FRAME_MAX_GAPS, /* lanes, configs, comms, gaps, clocks that wait for a frame */
	MAX_TEXTS_WAITING = 1024,
	TEXT_BYTES = 128 << 10,
	MAX_TEXT = 32 << 10,
	FIRST_OUT_BYTES = 1 << 20
};

/* Texts that wait for their frame. */
struct texts {
	struct sc_text at[MAX_TEXTS_WAITING];
	size_t n, n_bytes;
	char bytes[TEXT_BYTES];
};
struct rows {
	size_t n, row_bytes;
	uint32_t next_id; /* of the first that waits */
	enum sc_frame_type type;
	union {
		struct sc_trace_lane lanes[MAX_ROWS_WAITING];
		struct sc_trace_config configs[MAX_ROWS_WAITING];
		struct sc_trace_comm comms[MAX_ROWS_WAITING];
		struct sc_trace_clock clocks[MAX_ROWS_WAITING];
		struct sc_trace_gap gaps[MAX_ROWS_WAITING];
		uint8_t bytes[1];
	} at;
};
struct sc_capture_file {
	int fd; /* -1: not open */
	uint64_t offset;
	uint8_t *out;
	size_t n_out, cap_out;
	struct sc_frame_coder *coder;
	struct sc_class_columns *classes[SC_N_EVENT_CLASSES];
	int64_t n_waiting[SC_N_EVENT_CLASSES]; /* events in `out` or in columns, not written */
	int64_t first_waiting_ns, last_waiting_ns;
	struct sc_hash_ids string_ids, lane_ids, config_ids;
	uint32_t next_string;
	struct texts strings, meta;
	char reasons[MAX_ROWS_WAITING][SC_FRAME_MAX_REASON + 1];
	struct rows lanes, configs, comms, clocks, gaps;
	int64_t n_lost;
};

struct sc_capture_file *sc_capture_file_create(void)
{
	struct sc_capture_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->fd = -1;
	file->coder = sc_frame_coder_create();
	file->out = malloc(FIRST_OUT_BYTES);
	if (!file->coder || !file->out) {
		sc_capture_file_destroy(file);
		return NULL;
	}
	file->cap_out = FIRST_OUT_BYTES;
	file->n_out = SC_FILE_HEADER_BYTES;
	sc_file_header_put(file->out);
	file->string_ids.limit = file->lane_ids.limit = file->config_ids.limit = MAX_STRINGS;
	file->next_string = 1;
	file->lanes = (struct rows){0, sizeof(struct sc_trace_lane), 1, SC_FRAME_LANES, {{{0}}}};
	file->configs =
		(struct rows){0, sizeof(struct sc_trace_config), 1, SC_FRAME_CONFIGS, {{{0}}}};
	file->comms = (struct rows){0, sizeof(struct sc_trace_comm), 1, SC_FRAME_COMMS, {{{0}}}};
	file->clocks = (struct rows){0, sizeof(struct sc_trace_clock), 0, SC_FRAME_CLOCKS, {{{0}}}};
	file->gaps = (struct rows){0, sizeof(struct sc_trace_gap), 0, SC_FRAME_GAPS, {{{0}}}};
	return file;
}

void sc_capture_file_destroy(struct sc_capture_file *file)
{
	if (!file)
		return;
	if (file->fd >= 0)
		close(file->fd);
	for (int i = 0; i < SC_N_EVENT_CLASSES; i++)
		sc_class_columns_destroy(file->classes[i]);
	sc_hash_ids_release(&file->string_ids);
	sc_hash_ids_release(&file->lane_ids);
	sc_hash_ids_release(&file->config_ids);
	sc_frame_coder_destroy(file->coder);
	free(file->out);
	free(file);
}

/* --- frames into `out` --- */

static bool file_reserve(struct sc_capture_file *file, size_t n_more)
{
	size_t cap = file->cap_out;
	uint8_t *bigger;

	while (cap - file->n_out < n_more)
		cap *= 2;
	if (cap == file->cap_out)
		return true;
	bigger = realloc(file->out, cap);
	if (!bigger)
		return false;
	file->out = bigger;
	file->cap_out = cap;
	return true;
}

/* The frame that the coder has just made. */
static void keep_frame(struct sc_capture_file *file)
{
	if (!file_reserve(file, file->coder->n_out))
		return;
	memcpy(file->out + file->n_out, file->coder->out, file->coder->n_out);
	file->n_out += file->coder->n_out;
}

static void put_rows(struct sc_capture_file *file, struct rows *rows)
{
	if (!rows->n)
		return;
	sc_frame_put(file->coder,
		     (struct sc_frame_header){.type = (uint16_t)rows->type,
					      .count = (uint32_t)rows->n,
					      .first = rows->next_id},
		     rows->at.bytes, NULL);
	keep_frame(file);
	if (rows->next_id)
		rows->next_id += (uint32_t)rows->n;
	rows->n = 0;
}

/* `next`: of the first that waits; meta has no ids. */
static void put_texts(struct sc_capture_file *file, struct texts *texts, enum sc_frame_type type,
		      uint32_t *next)
{
	if (!texts->n)
		return;
	sc_frame_put(file->coder,
		     (struct sc_frame_header){.type = (uint16_t)type,
					      .count = (uint32_t)texts->n,
					      .first = next ? *next : 0},
		     NULL, texts->at);
	keep_frame(file);
	if (next)
		*next += (uint32_t)texts->n;
	texts->n = texts->n_bytes = 0;
}

static void put_gaps(struct sc_capture_file *file)
{
	if (!file->gaps.n)
		return;
	sc_frame_put_gaps(file->coder, file->gaps.at.gaps, file->gaps.n);
	keep_frame(file);
	file->gaps.n = 0;
}

/* The tables stand before the events that refer to them. */
static void put_tables(struct sc_capture_file *file)
{
	put_texts(file, &file->strings, SC_FRAME_STRINGS, &file->next_string);
	put_rows(file, &file->lanes);
	put_rows(file, &file->configs);
	put_rows(file, &file->comms);
}

static void add_gap(void *ctx, const struct sc_trace_gap *gap)
{
	struct sc_capture_file *file = ctx;
	char *reason;

	if (file->gaps.n == MAX_ROWS_WAITING)
		put_gaps(file);
	reason = file->reasons[file->gaps.n];
	snprintf(reason, sizeof(*file->reasons), "%s", gap->reason);
	file->gaps.at.gaps[file->gaps.n] = *gap;
	file->gaps.at.gaps[file->gaps.n++].reason = reason;
}

static void put_class(struct sc_capture_file *file, int cls)
{
	struct sc_class_columns *columns = file->classes[cls];
	struct sc_frame_header header;
	uint32_t n = columns->n;

	put_tables(file);
	if (!file_reserve(file, sc_class_columns_most(columns))) {
		columns->n = 0;
		file->n_lost += n;
		add_gap(file, &(struct sc_trace_gap){(uint8_t)cls, n, columns->first_ns,
						     columns->last_ns, "not enough memory"});
		return;
	}
	if (file->n_waiting[cls] == 0 || columns->first_ns < file->first_waiting_ns)
		file->first_waiting_ns = columns->first_ns;
	if (file->n_waiting[cls] == 0 || columns->last_ns > file->last_waiting_ns)
		file->last_waiting_ns = columns->last_ns;
	file->n_waiting[cls] += n;
	n = (uint32_t)sc_class_columns_put(columns, (uint8_t)cls, file->coder->next_seq++,
					   file->out + file->n_out, &header);
	file->n_out += n;
}

/* --- the sink --- */

static bool keep_text(struct texts *texts, const char *text, size_t n)
{
	if (texts->n == MAX_TEXTS_WAITING || n > TEXT_BYTES - texts->n_bytes)
		return false;
	memcpy(texts->bytes + texts->n_bytes, text, n);
	texts->at[texts->n++] = (struct sc_text){texts->bytes + texts->n_bytes, n};
	texts->n_bytes += n;
	return true;
}

static uint32_t add_string(void *ctx, const char *text, size_t n)
{
	struct sc_capture_file *file = ctx;
	uint32_t id;
	int is_new;

	if (n > MAX_TEXT)
		n = MAX_TEXT;
	if (n == 0)
		return 0;
	id = sc_hash_ids_put(&file->string_ids, sc_hash_bytes(text, n), &is_new);
	if (is_new && !keep_text(&file->strings, text, n)) {
		put_texts(file, &file->strings, SC_FRAME_STRINGS, &file->next_string);
		keep_text(&file->strings, text, n);
	}
	return id;
}

static uint32_t add_row(struct sc_capture_file *file, struct rows *rows, const void *row)
{
	if (rows->n == MAX_ROWS_WAITING)
		put_tables(file);
	memcpy(rows->at.bytes + rows->n * rows->row_bytes, row, rows->row_bytes);
	rows->n++;
	return rows->next_id + (uint32_t)rows->n - 1;
}

/* The id of an equal row if there is one. */
static uint32_t add_unique(struct sc_capture_file *file, struct sc_hash_ids *ids, struct rows *rows,
			   const void *row)
{
	int is_new;
	uint32_t id = sc_hash_ids_put(ids, sc_hash_bytes(row, rows->row_bytes), &is_new);

	return is_new ? add_row(file, rows, row) : id;
}

static uint32_t add_lane(void *ctx, const struct sc_trace_lane *lane)
{
	struct sc_capture_file *file = ctx;

	return add_unique(file, &file->lane_ids, &file->lanes, lane);
}

static uint32_t add_config(void *ctx, const struct sc_trace_config *config)
{
	struct sc_capture_file *file = ctx;

	return add_unique(file, &file->config_ids, &file->configs, config);
}

static uint32_t add_comm(void *ctx, const struct sc_trace_comm *comm)
{
	struct sc_capture_file *file = ctx;

	return add_row(file, &file->comms, comm); /* calls have numbers: few are equal */
}

static void add_event(void *ctx, const struct sc_trace_event *event)
{
	struct sc_capture_file *file = ctx;
	struct sc_class_columns **columns = &file->classes[event->cls];

	if (!*columns) {
		*columns = sc_class_columns_create();
		if (!*columns) {
			file->n_lost++;
			add_gap(file, &(struct sc_trace_gap){event->cls, 1, event->start_ns,
							     event->start_ns, "not enough memory"});
			return;
		}
	}
	sc_class_columns_add(*columns, event);
	if ((*columns)->n == SC_FRAME_MAX_ROWS)
		put_class(file, event->cls);
}

static void add_meta(void *ctx, const char *key, const char *value)
{
	struct sc_capture_file *file = ctx;
	size_t n_key = strnlen(key, MAX_TEXT), n_value = strnlen(value, MAX_TEXT);

	if (file->meta.n + 2 > MAX_TEXTS_WAITING ||
	    n_key + n_value > TEXT_BYTES - file->meta.n_bytes)
		put_texts(file, &file->meta, SC_FRAME_META, NULL);
	keep_text(&file->meta, key, n_key);
	keep_text(&file->meta, value, n_value);
}

void sc_capture_file_sink(struct sc_capture_file *file, struct sc_event_sink *out)
{
	*out = (struct sc_event_sink){
		.ctx = file,
		.string = add_string,
		.lane = add_lane,
		.config = add_config,
		.comm = add_comm,
		.add = add_event,
		.gap = add_gap,
		.meta = add_meta,
	};
}

/* --- out to the disk --- */

bool sc_capture_file_is_open(const struct sc_capture_file *file)
{
	return file->fd >= 0;
}

void sc_capture_file_identity(struct sc_capture_file *file,
			      const struct sc_trace_identity *identity)
{
	sc_frame_put_identity(file->coder, identity);
	keep_frame(file);
}

int sc_capture_file_open(struct sc_capture_file *file, const char *path,
			 const struct sc_trace_identity *identity)
{
	file->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (file->fd < 0)
		return -errno;
	sc_capture_file_identity(file, identity);
	return 0;
}

void sc_capture_file_clock(struct sc_capture_file *file, int64_t trace_ns, int64_t utc_ns)
{
	if (file->clocks.n == MAX_ROWS_WAITING)
		file->clocks.n =
			0; /* nothing was written for a long time: older pairs say nothing */
	file->clocks.at.clocks[file->clocks.n++] = (struct sc_trace_clock){trace_ns, utc_ns};
}

void sc_capture_file_prepare(struct sc_capture_file *file, uint64_t *begin, uint64_t *end)
{
	*begin = *end = file->offset;
	if (file->fd < 0)
		return;
	put_tables(file);
	for (int i = 0; i < SC_N_EVENT_CLASSES; i++)
		if (file->classes[i] && file->classes[i]->n)
			put_class(file, i);
	put_rows(file, &file->clocks);
	put_texts(file, &file->meta, SC_FRAME_META, NULL);
	put_gaps(file);
	*end = file->offset + file->n_out;
}

static int write_all(int fd, const uint8_t *at, size_t n)
{
	while (n) {
		ssize_t done = write(fd, at, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done < 0 ? -errno : -EIO;
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

/* The file stays as it was; tables in it stay complete only if they are said again, so their frames
 * are kept for the next try and the events become gaps. */
static void lose_events(struct sc_capture_file *file, int error)
{
	char reason[128];

	snprintf(reason, sizeof(reason), "the trace could not be written: %s", strerror(error));
	for (int i = 0; i < SC_N_EVENT_CLASSES; i++) {
		if (!file->n_waiting[i])
			continue;
		file->n_lost += file->n_waiting[i];
		add_gap(file, &(struct sc_trace_gap){(uint8_t)i, file->n_waiting[i],
						     file->first_waiting_ns, file->last_waiting_ns,
						     reason});
	}
}

/* Leaves in `out` only the frames that are not events. */
static void keep_tables(struct sc_capture_file *file)
{
	size_t from = file->offset == 0 ? SC_FILE_HEADER_BYTES : 0, to = from;

	while (from < file->n_out) {
		struct sc_frame_header header;
		size_t n;

		if (!sc_frame_header_get(file->out + from, &header))
			break;
		n = sc_frame_bytes(&header);
		if (header.type != SC_FRAME_EVENTS) {
			memmove(file->out + to, file->out + from, n);
			to += n;
		}
		from += n;
	}
	file->n_out = to;
}

int sc_capture_file_write(struct sc_capture_file *file)
{
	int rc;

	if (file->fd < 0 || !file->n_out)
		return 0;
	rc = write_all(file->fd, file->out, file->n_out);
	if (rc) {
		if (ftruncate(file->fd, (off_t)file->offset) == 0)
			lseek(file->fd, (off_t)file->offset, SEEK_SET);
		lose_events(file, -rc);
		keep_tables(file);
	} else {
		file->offset += file->n_out;
		file->n_out = 0;
	}
	memset(file->n_waiting, 0, sizeof(file->n_waiting));
	return rc;
}

int sc_capture_file_finish(struct sc_capture_file *file)
{
	uint64_t begin, end;
	int rc;

	if (file->fd < 0)
		return 0;
	sc_capture_file_prepare(file, &begin, &end);
	rc = sc_capture_file_write(file);
	if (rc == 0) {
		sc_frame_put(file->coder, (struct sc_frame_header){.type = SC_FRAME_END}, NULL,
			     NULL);
		rc = write_all(file->fd, file->coder->out, file->coder->n_out);
	}
	if (close(file->fd) && rc == 0)
		rc = -errno;
	file->fd = -1;
	return rc;
}

int64_t sc_capture_file_lost(const struct sc_capture_file *file)
{
	return file->n_lost;
}
