/* The trace is copied event by event into a new one, then the records that never got there are
 * added, and the new file takes the old one's name. What is in the file already is told by where
 * the frames of each buffer end: nothing is found twice. */
#include "trace/capture/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "trace/capture/host_ring.h"
#include "trace/capture/record_decode.h"
#include "trace/capture/record_links.h"
#include "trace/format/frame_file.h"
#include "trace/format/trace_file.h"

struct copy {
	struct sc_trace_writer *out;
	/* By old id the new one, in one piece of memory; NULL: not copied yet. */
	uint32_t *strings, *lanes, *configs, *comms;
	int64_t n_events;
	bool packs; /* and what is completed then, with the range that is an iteration or NULL: */
	struct sc_links links;
	const char *range;
	bool has_steps;
	unsigned n_steps;
};

/* --- the trace so far --- */

static uint32_t recover_put_text(const struct copy *copy, const char *text)
{
	return sc_trace_writer_string(copy->out, text, strlen(text));
}

static uint32_t put_comm_of(const struct copy *copy, struct sc_trace_comm comm)
{
	comm.collective = copy->strings[comm.collective];
	comm.dtype = copy->strings[comm.dtype];
	comm.group_name = copy->strings[comm.group_name];
	comm.group_ranks = copy->strings[comm.group_ranks];
	return sc_trace_writer_comm(copy->out, &comm);
}

static void copy_tables(struct copy *copy, const struct sc_trace *from)
{
	copy->strings =
		sc_xcalloc(from->strings.n + from->lanes.n + from->configs.n + from->comms.n,
			   sizeof(uint32_t));
	copy->lanes = copy->strings + from->strings.n;
	copy->configs = copy->lanes + from->lanes.n;
	copy->comms = copy->configs + from->configs.n;
	for (size_t i = 1; i < from->strings.n; i++)
		copy->strings[i] = recover_put_text(copy, from->strings.at[i]);
	for (size_t i = 1; i < from->lanes.n; i++) {
		struct sc_trace_lane lane = from->lanes.at[i];

		lane.name = copy->strings[lane.name];
		if (copy->packs && lane.is_stream && lane.device < 0)
			lane.device = sc_links_device(&copy->links, lane.context);
		copy->lanes[i] = sc_trace_writer_lane(copy->out, &lane);
	}
	for (size_t i = 1; i < from->configs.n; i++)
		copy->configs[i] = sc_trace_writer_config(copy->out, &from->configs.at[i]);
	for (size_t i = 1; i < from->comms.n; i++)
		copy->comms[i] = put_comm_of(copy, from->comms.at[i]);
	copy->range = copy->packs ? sc_trace_meta_of(from, "iteration.range") : NULL;
}

/* The iterations of a recording are named as in Kineto's traces: "ProfilerStep#0". */
static void put_step(struct copy *copy, const struct sc_trace_event *range)
{
	struct sc_trace_event step = {.cls = SC_EV_RANGE,
				      .lane = range->lane,
				      .start_ns = range->start_ns,
				      .dur_ns = range->dur_ns};
	char name[48];

	snprintf(name, sizeof(name), "ProfilerStep#%u", copy->n_steps++);
	step.name = recover_put_text(copy, name);
	sc_trace_writer_add(copy->out, &step);
}

static int copy_event(void *ctx, const struct sc_trace *from, const struct sc_trace_event *old,
		      struct sc_err *err)
{
	struct copy *copy = ctx;
	struct sc_trace_event event = *old;
	struct sc_trace_comm comm;

	(void)err;
	if (!copy->strings)
		copy_tables(copy, from);
	if (copy->packs)
		sc_links_complete(&copy->links, from, &event);
	if (copy->packs && event.cls == SC_EV_KERNEL &&
	    sc_links_call(&copy->links, from, &event, &comm))
		event.comm = put_comm_of(copy, comm);
	else
		event.comm = copy->comms[event.comm];
	event.name = copy->strings[event.name];
	event.shapes = copy->strings[event.shapes];
	event.lane = copy->lanes[event.lane];
	event.config = copy->configs[event.config];
	sc_trace_writer_add(copy->out, &event);
	copy->n_events++;
	if (copy->range && !copy->has_steps && old->cls == SC_EV_RANGE &&
	    strcmp(from->strings.at[old->name], copy->range) == 0)
		put_step(copy, &event);
	return 0;
}

static int see_event(void *ctx, const struct sc_trace *from, const struct sc_trace_event *event,
		     struct sc_err *err)
{
	struct copy *copy = ctx;

	(void)err;
	copy->has_steps |= event->cls == SC_EV_RANGE &&
			   strncmp(from->strings.at[event->name], "ProfilerStep#", 13) == 0;
	sc_links_see(&copy->links, from, event);
	return 0;
}

static int copy_trace(struct copy *copy, const char *path, struct sc_err *err)
{
	struct sc_trace from;
	int rc = sc_trace_scan(path, copy_event, copy, &from, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < from.meta.n; i++)
		sc_trace_writer_meta(copy->out, from.meta.at[i].key, from.meta.at[i].value);
	for (size_t i = 0; i < from.clocks.n; i++)
		sc_trace_writer_clock(copy->out, from.clocks.at[i].trace_ns,
				      from.clocks.at[i].utc_ns);
	for (size_t i = 0; i < from.gaps.n; i++)
		sc_trace_writer_gap(copy->out, &from.gaps.at[i]);
	sc_trace_writer_identity(copy->out, &from.identity);
	sc_trace_release(&from);
	return 0;
}

/* --- what is whole --- */

/* The end of the whole frames of a file; 0: it has none, or is not there. */
static uint64_t whole_bytes(const char *path)
{
	uint8_t head[SC_FRAME_HEADER_BYTES];
	uint8_t *payload = malloc(SC_FRAME_MAX_PAYLOAD);
	FILE *file = fopen(path, "rb");
	uint64_t at = SC_FILE_HEADER_BYTES, end = 0;

	while (file && payload && fseeko(file, (off_t)at, SEEK_SET) == 0 &&
	       fread(head, sizeof(head), 1, file) == 1) {
		struct sc_frame_header header;
		size_t n_rest;

		if (!sc_frame_header_get(head, &header) || header.n_payload > SC_FRAME_MAX_PAYLOAD)
			break;
		n_rest = sc_frame_bytes(&header) - sizeof(head);
		if (fread(payload, 1, n_rest, file) != n_rest || !sc_frame_check(&header, payload))
			break;
		at += sizeof(head) + n_rest;
		end = at;
	}
	if (file)
		fclose(file);
	free(payload);
	return end;
}

/* Frames of a buffer or ring that was being written go: the raw file has all of it. */
static uint64_t cut_unfinished(const struct sc_raw_file *raw, const char *path)
{
	uint64_t whole = whole_bytes(path), cut = whole;

	for (uint32_t i = 0; i < raw->header->n_buffers; i++) {
		const struct sc_raw_buffer *buffer = &raw->header->buffers[i];

		if (buffer->frames_end > whole && buffer->frames_begin < cut)
			cut = buffer->frames_begin;
	}
	for (uint32_t i = 0; i < SC_RAW_RINGS; i++) {
		const struct sc_raw_ring *ring = &raw->header->rings[i];

		if (ring->frames_end > whole && ring->frames_begin < cut)
			cut = ring->frames_begin;
	}
	if (whole == 0)
		return 0;
	return truncate(path, (off_t)cut) == 0 ? cut : whole;
}

/* --- the rest, from the raw file --- */

static uint32_t put_string(void *ctx, const char *text, size_t n)
{
	return sc_trace_writer_string(ctx, text, n);
}
static uint32_t put_lane(void *ctx, const struct sc_trace_lane *lane)
{
	return sc_trace_writer_lane(ctx, lane);
}
static uint32_t put_config(void *ctx, const struct sc_trace_config *config)
{
	return sc_trace_writer_config(ctx, config);
}
static uint32_t put_comm(void *ctx, const struct sc_trace_comm *comm)
{
	return sc_trace_writer_comm(ctx, comm);
}
static void put_event(void *ctx, const struct sc_trace_event *event)
{
	sc_trace_writer_add(ctx, event);
}
static void put_gap(void *ctx, const struct sc_trace_gap *gap)
{
	if (gap->cls < SC_N_EVENT_CLASSES)
		sc_trace_writer_gap(ctx, gap);
}
static void put_meta(void *ctx, const char *key, const char *value)
{
	sc_trace_writer_meta(ctx, key, value);
}

/* Full buffers in their order, those that CUPTI still had, then the rings. */
static void decode_raw(struct sc_decoder *decoder, uint64_t written)
{
	struct sc_raw_header *header = decoder->raw->header;
	int index;

	while ((index = sc_raw_first_full(decoder->raw)) >= 0) {
		struct sc_raw_buffer *buffer = &header->buffers[index];

		if ((!buffer->frames_end || buffer->frames_end > written) &&
		    buffer->valid_bytes <= header->buffer_bytes)
			sc_decode_buffer(decoder, sc_raw_buffer_at(decoder->raw, (uint32_t)index),
					 buffer->valid_bytes, false);
		atomic_store(&buffer->state, SC_RAW_FREE); /* in our private copy */
	}
	for (uint32_t i = 0; i < header->n_buffers; i++) {
		if (atomic_load(&header->buffers[i].state) == SC_RAW_LENT)
			sc_decode_buffer(decoder, sc_raw_buffer_at(decoder->raw, i),
					 header->buffer_bytes, true);
	}
	for (uint32_t i = 0; i < SC_RAW_RINGS; i++) {
		struct sc_raw_ring *ring = &header->rings[i];
		bool is_written = ring->frames_end && ring->frames_end <= written;
		uint64_t at = is_written ? ring->next_tail : ring->tail;
		const struct sc_host_record *record;

		if (ring->head - at > SC_RAW_RING_BYTES)
			continue;
		while ((record = sc_host_ring_read(decoder->raw, i, &at)))
			sc_decode_host(decoder, record);
	}
}

static void put_count(struct sc_trace_writer *out, const char *key, int64_t n)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)n);
	sc_trace_writer_meta(out, key, text);
}

static int add_raw(struct copy *copy, struct sc_raw_file *raw, uint64_t written,
		   struct sc_recovery *result, struct sc_err *err)
{
	const struct sc_event_sink sink = {copy->out, put_string, put_lane, put_config,
					   put_comm,  put_event,  put_gap,  put_meta};
	struct sc_decoder decoder;

	if (!sc_decoder_init(&decoder, raw, &sink, false))
		return sc_err_set(err, SC_ELIMIT, "not enough memory to recover a trace");
	decode_raw(&decoder, written);
	result->n_recovered = decoder.counts.n_events;
	result->n_torn = decoder.counts.n_torn;
	result->n_unnamed = decoder.counts.n_unnamed;
	copy->n_events += decoder.counts.n_events;
	put_count(copy->out, "recovered.events", decoder.counts.n_events);
	put_count(copy->out, "recovered.torn_records", decoder.counts.n_torn);
	put_count(copy->out, "recovered.unnamed_kernels", decoder.counts.n_unnamed);
	sc_decoder_release(&decoder);
	return 0;
}

/* --- the new file --- */

/* Without an event there is nothing to keep. */
static int end_copy(struct copy *copy, int rc, struct sc_err *err)
{
	if (copy->out && rc == 0 && copy->n_events)
		rc = sc_trace_writer_finish(copy->out, NULL, err);
	else
		sc_trace_writer_discard(copy->out);
	sc_links_release(&copy->links);
	free(copy->strings);
	return rc;
}

/* The trace beside the raw file: by its name if it got one, else a new one. */
static void trace_path_of(const struct sc_raw_file *raw, const char *raw_path, char *out, size_t n)
{
	const char *name = raw->header->trace_name;
	int n_dir = (int)(sc_file_name(raw_path) - raw_path);
	size_t n_raw = strlen(raw_path);

	if (*name && !strchr(name, '/'))
		snprintf(out, n, "%.*s%s", n_dir, raw_path, name);
	else
		snprintf(out, n, "%.*s" SC_TRACE_SUFFIX, (int)(n_raw - strlen(SC_RAW_SUFFIX)),
			 raw_path);
}

/* No header on success: the process died before it could record anything, and the file is gone. */
static int open_raw(struct sc_raw_file *raw, const char *path, struct sc_err *err)
{
	int rc = sc_ends_with(sc_file_name(path), SC_RAW_SUFFIX) ? sc_raw_open(raw, path) : -EINVAL;

	if (rc == -ENODATA)
		rc = unlink(path) ? -errno : 0;
	if (rc == -EINVAL)
		return sc_err_at(err, SC_EFORMAT, path, 0, 0, "not the raw file of a recording");
	if (rc)
		return sc_err_at(err, SC_EIO, path, 0, 0, "cannot read: %s", strerror(-rc));
	return 0;
}

int sc_capture_recover(const char *raw_path, struct sc_recovery *out, struct sc_err *err)
{
	struct sc_raw_file raw = {.header = NULL};
	struct copy copy = {.out = NULL};
	struct sc_trace_identity identity = {
		.rank = -1, .world = -1, .local_rank = -1, .source = "capture"};
	uint64_t written;
	int rc = open_raw(&raw, raw_path, err);

	memset(out, 0, sizeof(*out));
	if (rc || !raw.header)
		return rc;
	identity.pid = raw.header->pid;
	identity.run_id = raw.header->run_id;
	identity.base_utc_ns = raw.header->base_utc_ns;
	trace_path_of(&raw, raw_path, out->path, sizeof(out->path));
	written = cut_unfinished(&raw, out->path);
	rc = sc_trace_writer_create(out->path, &identity, &copy.out, err);
	if (rc == 0 && written)
		rc = copy_trace(&copy, out->path, err);
	if (rc == 0)
		rc = add_raw(&copy, &raw, written, out, err);
	out->n_events = copy.n_events;
	out->write_error = raw.header->write_error;
	out->was_killed = !raw.header->has_ended;
	rc = end_copy(&copy, rc, err);
	sc_raw_close(&raw, rc == 0);
	return rc;
}

int sc_capture_pack(const char *trace_path, struct sc_recovery *out, struct sc_err *err)
{
	struct copy copy = {.packs = true};
	const struct sc_trace_identity identity = {.rank = -1, .world = -1, .local_rank = -1};
	int rc = sc_trace_writer_create(trace_path, &identity, &copy.out, err);
	struct sc_trace from;

	memset(out, 0, sizeof(*out));
	snprintf(out->path, sizeof(out->path), "%s", trace_path);
	if (rc == 0)
		rc = sc_trace_scan(trace_path, see_event, &copy, &from, err);
	if (rc == 0) { /* all of the trace was seen before it is copied */
		sc_links_settle(&copy.links);
		sc_trace_release(&from);
		rc = copy_trace(&copy, trace_path, err);
	}
	out->n_events = copy.n_events;
	return end_copy(&copy, rc, err);
}

bool sc_capture_is_running(const char *raw_path)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct sc_raw_file raw = {.header = NULL};
	char host[sizeof(raw.header->host)] = "";
	bool running = false;
	const int fd = open(raw_path, O_RDONLY | O_CLOEXEC);
	const bool can_lock = fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0;

	if (fd >= 0)
		close(fd);
	if (can_lock)
		return lock.l_type != F_UNLCK;
	/* If files cannot be locked, only the host itself knows. */
	if (sc_raw_open(&raw, raw_path) == 0) {
		gethostname(host, sizeof(host) - 1);
		running =
			strncmp(host, raw.header->host, sizeof(host)) != 0 ||
			(raw.header->pid > 0 && (kill(raw.header->pid, 0) == 0 || errno == EPERM));
		sc_raw_close(&raw, false);
	}
	return running;
}
