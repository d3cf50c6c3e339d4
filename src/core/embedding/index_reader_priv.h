/* A stream of row indices: text, .npy or .bin, told apart by content and name. */
#ifndef SC_CORE_INDEX_READER_PRIV_H
#define SC_CORE_INDEX_READER_PRIV_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum { SC_INDEX_BUFFER = 1 << 16 };
struct sc_index_reader {
	FILE *file;
	const char *path; /* borrowed */
	unsigned width;   /* bytes of an index; 0 = text */
	long start;       /* of the first index */
	unsigned line;
	uint64_t n_read;
	size_t at, n; /* in buffer */
	unsigned char buffer[SC_INDEX_BUFFER];
};

int sc_index_reader_open(struct sc_index_reader *reader, const char *path, struct sc_err *err);
/* 1 and the next index; 0 at the end; negative: an error with line, or the index's number. */
int sc_index_reader_next(struct sc_index_reader *reader, uint64_t *out, struct sc_err *err);
int sc_index_reader_rewind(struct sc_index_reader *reader, struct sc_err *err);
void sc_index_reader_close(struct sc_index_reader *reader);

#endif
