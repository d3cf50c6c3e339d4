/* Read with pread, never mapped: a file that shrinks meanwhile gives a short read, not a signal. */
#include "trace/format/frame_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEARCH_BYTES = 64 << 10 };

/* Whether all n bytes could be read. */
static bool read_at(int fd, int64_t offset, void *out, size_t n)
{
	uint8_t *at = out;

	while (n) {
		ssize_t done = pread(fd, at, n, (off_t)offset);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		at += done;
		offset += done;
		n -= (size_t)done;
	}
	return true;
}

/* The header of the frame at `offset`, which must end before `limit`: 1; there is no frame: -1; it
 * goes beyond the limit: -2. Payloads are read and checked when they are asked for. */
static int read_header(struct sc_frame_file *file, int64_t offset, int64_t limit)
{
	int64_t left = limit - offset - SC_FRAME_HEADER_BYTES;
	uint8_t bytes[SC_FRAME_HEADER_BYTES];

	if (left < 0)
		return -2;
	if (!read_at(file->fd, offset, bytes, sizeof(bytes)) ||
	    !sc_frame_header_get(bytes, &file->header))
		return -1;
	file->header.offset = offset;
	return left < (int64_t)file->header.n_payload ? -2 : 1;
}

/* The next offset from `from` at which a frame's header stands; the file's size if none does. */
static int64_t find_frame(struct sc_frame_file *file, int64_t from)
{
	uint8_t *bytes = file->payload;
	struct sc_frame_header header;

	while (file->n_bytes - from >= SC_FRAME_HEADER_BYTES) {
		int64_t left = file->n_bytes - from;
		size_t n = left < SEARCH_BYTES ? (size_t)left : SEARCH_BYTES, at;

		if (!read_at(file->fd, from, bytes, n))
			break;
		for (at = 0; at + SC_FRAME_HEADER_BYTES <= n; at += SC_FRAME_ALIGN)
			if (sc_frame_header_get(bytes + at, &header))
				return from + (int64_t)at;
		from += (int64_t)at;
	}
	return file->n_bytes;
}

/* After bytes that are no frame: where the next one is, with the lost ones counted. */
static int64_t skip_damage(struct sc_frame_file *file, int64_t from, uint64_t next_seq)
{
	int64_t at = find_frame(file, from + SC_FRAME_ALIGN), most, lost = 1;

	if (at >= file->n_bytes || read_header(file, at, file->n_bytes) == -2)
		return file->n_bytes; /* a cut end, not damage */
	most = (at - from) / SC_FRAME_HEADER_BYTES;
	if (file->header.seq > next_seq && file->header.seq - next_seq <= (uint64_t)most)
		lost = (int64_t)(file->header.seq - next_seq);
	file->n_bad_frames += lost;
	return at;
}

static void scan_frames(struct sc_frame_file *file)
{
	int64_t at = SC_FILE_HEADER_BYTES;
	uint64_t next_seq = 0;

	file->partial = true;
	while (at < file->n_bytes) {
		int found = read_header(file, at, file->n_bytes);
		const struct sc_frame_header *header = &file->header;

		if (found == -2)
			break;
		if (found == -1) {
			at = skip_damage(file, at, next_seq);
			continue;
		}
		next_seq = header->seq + 1;
		if (header->type == SC_FRAME_END)
			file->partial = false;
		else if (header->type >= SC_FRAME_IDENTITY && header->type <= SC_FRAME_GAPS)
			SC_VEC_PUSH(&file->frames, *header);
		at += (int64_t)sc_frame_bytes(header);
	}
}

/* --- the interface --- */

int sc_frame_file_open(const char *path, struct sc_frame_file *out, struct sc_err *err)
{
	uint8_t bytes[SC_FILE_HEADER_BYTES];
	enum sc_file_kind kind = SC_FILE_OTHER;
	uint32_t version = 0;
	struct stat st;
	int rc = 0;

	*out = (struct sc_frame_file){.path = path,
				      .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
	if (out->fd < 0 || fstat(out->fd, &st) != 0)
		rc = sc_err_at(err, SC_EIO, path, 0, 0, "cannot read: %s", strerror(errno));
	else if (!S_ISREG(st.st_mode))
		rc = sc_err_at(err, SC_EIO, path, 0, 0, "not a file");
	else if (st.st_size >= SC_FILE_HEADER_BYTES && read_at(out->fd, 0, bytes, sizeof(bytes)))
		kind = sc_file_header_get(bytes, &version);
	if (rc == 0 && kind == SC_FILE_OTHER)
		rc = sc_err_at(err, SC_EFORMAT, path, 0, 0,
			       "not a trace of stepcast; other traces are read by stepcast import");
	else if (rc == 0 && kind == SC_FILE_OTHER_VERSION)
		rc = sc_err_at(
			err, SC_EUNSUPPORTED, path, 0, 0,
			"a trace of version %u; this stepcast reads version %d: import or record "
			"its source again, or read it with the stepcast that wrote it",
			(unsigned)version, SC_TRACE_VERSION);
	else if (rc == 0 && !(out->coder = sc_frame_coder_create()))
		rc = sc_err_at(err, SC_EIO, path, 0, 0, "not enough memory to read a trace");
	if (rc) {
		if (out->fd >= 0)
			close(out->fd);
		return rc;
	}
	out->n_bytes = (int64_t)st.st_size;
	out->payload = sc_xmalloc(SC_FRAME_MAX_PAYLOAD);
	scan_frames(out);
	return 0;
}

void sc_frame_file_close(struct sc_frame_file *file)
{
	close(file->fd);
	sc_frame_coder_destroy(file->coder);
	free(file->payload);
	SC_VEC_RELEASE(&file->frames);
}

bool sc_frame_file_read(struct sc_frame_file *file, const struct sc_frame_header *frame)
{
	file->header = *frame;
	if (frame->count <= SC_FRAME_MAX_ROWS &&
	    read_at(file->fd, frame->offset + SC_FRAME_HEADER_BYTES, file->payload,
		    frame->n_payload) &&
	    sc_frame_check(frame, file->payload))
		return true;
	file->n_bad_frames++;
	return false;
}
