/* Bytes of a file, plain or gzip (by content), as they come: in constant memory, members of a gzip
 * file one after the other, and what is whole of a file that was cut. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/progress.h"

struct sc_inflate;
/* `progress` (or NULL) counts the bytes of the file as they are read. `path` must outlive it. */
int sc_inflate_open(const char *path, struct sc_progress *progress, struct sc_inflate **out,
		    struct sc_err *err);
/* Up to *n bytes, which becomes how many: fewer only at the end. Damage ends the stream and is no
 * error: see below. */
int sc_inflate_read(struct sc_inflate *in, char *buf, size_t *n, struct sc_err *err);
/* NULL, or why the stream ended too soon: "the gzip stream is cut off". Static text. */
const char *sc_inflate_damage(const struct sc_inflate *in);
int64_t sc_inflate_bytes(const struct sc_inflate *in); /* uncompressed, so far */
void sc_inflate_close(struct sc_inflate *in);

/* A window on the bytes of a stream, of `cap` bytes at first. The caller frees `buf`. */
struct sc_inflate_window {
	struct sc_inflate *in;
	struct sc_err *err;
	char *buf;
	const char *at, *end; /* what is not used yet; then some zeros */
	size_t cap;
	bool eof;
	int rc; /* of reading */
};
enum { SC_INFLATE_PADDING = 32 };
/* Reads on; what lies before `at` is given up, and where the window is one piece it grows. False:
 * at the end, after an error, or if it has `max_bytes`. */
bool sc_inflate_more(struct sc_inflate_window *w, size_t max_bytes);
