/* zlib over read(2). */
#include "trace/import/inflate_stream.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/arena.h"

enum { IN_BYTES = 256 << 10, MIN_GZIP = 2, MAX_PIECE = 1 << 30 };

struct sc_inflate {
	const char *path;
	struct sc_progress *progress;
	int fd;
	bool gzip, eof, in_member;
	const char *damage;
	int64_t n_out;
	z_stream z; /* next_in, avail_in: what of `in` is not used yet, for plain files too */
	unsigned char in[IN_BYTES];
};

/* At most *n bytes, which becomes how many there are. */
static int read_some(struct sc_inflate *in, void *buf, size_t *n, struct sc_err *err)
{
	ssize_t got;

	do
		got = read(in->fd, buf, *n);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return sc_err_at(err, SC_EIO, in->path, 0, 0, "cannot read: %s", strerror(errno));
	in->eof = got == 0;
	*n = (size_t)got;
	sc_progress_add(in->progress, (uint64_t)got);
	return 0;
}

/* More input, if there is none: avail_in stays 0 only at the end. */
static int input_refill(struct sc_inflate *in, struct sc_err *err)
{
	size_t n = IN_BYTES;
	int rc;

	if (in->z.avail_in > 0 || in->eof)
		return 0;
	rc = read_some(in, in->in, &n, err);
	in->z.next_in = in->in;
	in->z.avail_in = rc ? 0 : (uInt)n;
	return rc;
}

int sc_inflate_open(const char *path, struct sc_progress *progress, struct sc_inflate **out,
		    struct sc_err *err)
{
	struct sc_inflate *in = sc_xmalloc(sizeof(*in));
	struct stat st;
	int rc = 0;

	memset(in, 0, offsetof(struct sc_inflate, in));
	in->path = path;
	in->progress = progress;
	/* Input is read more than once: a pipe would wait for ever, here or the second time. */
	in->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (in->fd < 0 || fstat(in->fd, &st) != 0)
		rc = sc_err_at(err, SC_EIO, path, 0, 0, "cannot read: %s", strerror(errno));
	else if (S_ISDIR(st.st_mode))
		rc = sc_err_at(err, SC_EIO, path, 0, 0, "cannot read: it is a directory");
	else if (!S_ISREG(st.st_mode))
		rc = sc_err_at(err, SC_EIO, path, 0, 0, "cannot read: it is a pipe or device");
	if (rc == 0)
		rc = input_refill(in, err);
	if (rc == 0 && in->z.avail_in >= MIN_GZIP && in->z.next_in[0] == 0x1F &&
	    in->z.next_in[1] == 0x8B) {
		in->gzip = in->in_member = true;
		if (inflateInit2(&in->z, MAX_WBITS + 16) != Z_OK)
			rc = sc_err_at(err, SC_EIO, path, 0, 0, "zlib does not start");
	}
	if (rc) {
		sc_inflate_close(in);
		return rc;
	}
	*out = in;
	return 0;
}

static int read_plain(struct sc_inflate *in, char *buf, size_t *n, struct sc_err *err)
{
	size_t have = in->z.avail_in < *n ? in->z.avail_in : *n;
	int rc = 0;

	if (have)
		memcpy(buf, in->z.next_in, have);
	in->z.next_in += have;
	in->z.avail_in -= (uInt)have;
	while (rc == 0 && have < *n && !in->eof) {
		size_t got = *n - have;

		rc = read_some(in, buf + have, &got, err);
		have += rc ? 0 : got;
	}
	*n = have;
	return rc;
}

static int inflate_some(struct sc_inflate *in, struct sc_err *err)
{
	int rc = input_refill(in, err), state;

	if (rc)
		return rc;
	if (in->z.avail_in == 0) {
		in->damage = "the gzip stream is cut off";
		return 0;
	}
	state = inflate(&in->z, Z_NO_FLUSH);
	if (state == Z_STREAM_END) {
		/* Another member may follow; what is not one (padding, a signature) is not ours. */
		rc = input_refill(in, err);
		in->in_member = rc == 0 && in->z.avail_in > 0 && in->z.next_in[0] == 0x1F;
		state = in->in_member ? inflateReset(&in->z) : Z_OK;
	}
	if (state != Z_OK && state != Z_BUF_ERROR)
		in->damage = "the gzip stream is damaged";
	return rc;
}

static int read_gzip(struct sc_inflate *in, char *buf, size_t *n, struct sc_err *err)
{
	int rc = 0;

	assert(*n <= MAX_PIECE);
	in->z.next_out = (unsigned char *)buf;
	in->z.avail_out = (uInt)*n;
	while (rc == 0 && in->z.avail_out > 0 && in->in_member && !in->damage)
		rc = inflate_some(in, err);
	*n -= in->z.avail_out;
	return rc;
}

int sc_inflate_read(struct sc_inflate *in, char *buf, size_t *n, struct sc_err *err)
{
	int rc = in->gzip ? read_gzip(in, buf, n, err) : read_plain(in, buf, n, err);

	if (rc == 0)
		in->n_out += (int64_t)*n;
	return rc;
}

bool sc_inflate_more(struct sc_inflate_window *w, size_t max_bytes)
{
	size_t keep = (size_t)(w->end - w->at), got;

	if (w->eof || w->rc || (keep == w->cap && w->cap >= max_bytes))
		return false;
	if (!w->buf || keep == w->cap) {
		w->cap *= w->buf ? 2 : 1;
		w->buf = sc_xrealloc(w->buf, w->cap + SC_INFLATE_PADDING, 1);
	} else {
		memmove(w->buf, w->at, keep);
	}
	got = w->cap - keep;
	w->rc = sc_inflate_read(w->in, w->buf + keep, &got, w->err);
	w->eof = got < w->cap - keep;
	w->at = w->buf;
	w->end = w->buf + keep + got;
	memset(w->buf + keep + got, 0, SC_INFLATE_PADDING);
	return got > 0 && w->rc == 0;
}

const char *sc_inflate_damage(const struct sc_inflate *in)
{
	return in->damage;
}

int64_t sc_inflate_bytes(const struct sc_inflate *in)
{
	return in->n_out;
}

void sc_inflate_close(struct sc_inflate *in)
{
	if (!in)
		return;
	if (in->gzip)
		inflateEnd(&in->z);
	if (in->fd >= 0)
		close(in->fd);
	free(in);
}
