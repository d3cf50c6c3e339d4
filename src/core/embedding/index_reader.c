/* Reads row indices one by one through a buffer: integers parted by blanks or commas; .npy with little-
 * endian int32 or int64 (NumPy's format, version 1 or 2); .bin with little-endian int64. */
#include "core/embedding/index_reader_priv.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define NPY_MAGIC "\x93NUMPY"
enum { NPY_MAGIC_BYTES = 6, NPY_MAX_HEADER = 1 << 12, NPY_SHORT_PREFIX = 10, NPY_PREFIX = 12 };

static int io_error(const struct sc_index_reader *reader, struct sc_err *err)
{
	return sc_err_at(err, SC_EIO, reader->path, 0, 0, "%s", strerror(errno));
}

/* ---- .npy ---- */

static int bad_npy(const struct sc_index_reader *reader, const char *text, struct sc_err *err)
{
	return sc_err_at(err, SC_EFORMAT, reader->path, 0, 0, "not a NumPy file of indices: %s",
			 text);
}

static int parse_npy(struct sc_index_reader *reader, const char *header, struct sc_err *err)
{
	const char *type = strstr(header, "'descr':");

	if (!type)
		return bad_npy(reader, "its header has no 'descr'", err);
	type += strlen("'descr':");
	type += strspn(type, " ");
	if (strncmp(type, "'<i8'", 5) == 0)
		reader->width = 8;
	else if (strncmp(type, "'<i4'", 5) == 0)
		reader->width = 4;
	else
		return bad_npy(reader, "its type is neither '<i8' nor '<i4'", err);
	return 0;
}

static int open_npy(struct sc_index_reader *reader, const unsigned char *prefix, size_t n_prefix,
		    struct sc_err *err)
{
	char header[NPY_MAX_HEADER + 1];
	bool is_short = prefix[NPY_MAGIC_BYTES] == 1;
	size_t start = is_short ? NPY_SHORT_PREFIX : NPY_PREFIX, n;

	if (n_prefix < NPY_PREFIX || (!is_short && prefix[NPY_MAGIC_BYTES] != 2))
		return bad_npy(reader, "cut off, or of an unknown version", err);
	n = (size_t)prefix[8] | (size_t)prefix[9] << 8;
	if (!is_short)
		n |= (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
	if (n > NPY_MAX_HEADER)
		return bad_npy(reader, "its header is too long", err);
	if (fseek(reader->file, (long)start, SEEK_SET) || fread(header, 1, n, reader->file) != n)
		return bad_npy(reader, "its header is cut off", err);
	header[n] = '\0';
	reader->start = (long)(start + n);
	return parse_npy(reader, header, err);
}

/* ---- the stream ---- */

static int find_format(struct sc_index_reader *reader, struct sc_err *err)
{
	unsigned char prefix[NPY_PREFIX];
	size_t n = fread(prefix, 1, sizeof(prefix), reader->file), n_path = strlen(reader->path);

	if (n < sizeof(prefix) && ferror(reader->file))
		return io_error(reader, err);
	if (n > NPY_MAGIC_BYTES && memcmp(prefix, NPY_MAGIC, NPY_MAGIC_BYTES) == 0)
		return open_npy(reader, prefix, n, err);
	if (n_path > 4 && strcmp(reader->path + n_path - 4, ".bin") == 0)
		reader->width = 8;
	return 0;
}

int sc_index_reader_open(struct sc_index_reader *reader, const char *path, struct sc_err *err)
{
	int rc;

	*reader = (struct sc_index_reader){.path = path, .line = 1};
	reader->file = fopen(path, "rb");
	if (!reader->file)
		return io_error(reader, err);
	rc = find_format(reader, err);
	if (rc == 0)
		rc = sc_index_reader_rewind(reader, err);
	if (rc)
		sc_index_reader_close(reader);
	return rc;
}

int sc_index_reader_rewind(struct sc_index_reader *reader, struct sc_err *err)
{
	reader->line = 1;
	reader->at = reader->n = 0;
	reader->n_read = 0;
	return fseek(reader->file, reader->start, SEEK_SET) ? io_error(reader, err) : 0;
}

void sc_index_reader_close(struct sc_index_reader *reader)
{
	if (reader->file)
		fclose(reader->file);
	reader->file = NULL;
}

/* Moves what is left to the front and reads on. False: nothing more came. */
static bool refill(struct sc_index_reader *reader)
{
	size_t left = reader->n - reader->at, got;

	memmove(reader->buffer, reader->buffer + reader->at, left);
	got = fread(reader->buffer + left, 1, SC_INDEX_BUFFER - left, reader->file);
	reader->at = 0;
	reader->n = left + got;
	return got > 0;
}

static int bad_index(const struct sc_index_reader *reader, struct sc_err *err)
{
	if (reader->width > 0)
		return sc_err_at(err, SC_EVALUE, reader->path, 0, 0, "index %llu is negative",
				 (unsigned long long)reader->n_read);
	return sc_err_at(err, SC_EVALUE, reader->path, reader->line, 0,
			 "expected indices of rows: integers from 0 to 2^63 - 1");
}

static int next_binary(struct sc_index_reader *reader, uint64_t *out, struct sc_err *err)
{
	uint64_t row = 0;

	if (reader->n - reader->at < reader->width && !refill(reader)) {
		if (reader->n == reader->at)
			return ferror(reader->file) ? io_error(reader, err) : 0;
		return sc_err_at(err, SC_EFORMAT, reader->path, 0, 0, "the last index is cut off");
	}
	if (reader->n - reader->at < reader->width)
		return next_binary(reader, out, err); /* a short read: once more, or the end */
	for (unsigned i = 0; i < reader->width; i++)
		row |= (uint64_t)reader->buffer[reader->at + i] << (8 * i);
	reader->at += reader->width;
	if (row >> (8 * reader->width - 1))
		return bad_index(reader, err);
	reader->n_read++;
	*out = row;
	return 1;
}

/* The byte at hand, or -1 at the end. */
static int peek(struct sc_index_reader *reader)
{
	if (reader->at == reader->n && !refill(reader))
		return -1;
	return reader->buffer[reader->at];
}

static int next_text(struct sc_index_reader *reader, uint64_t *out, struct sc_err *err)
{
	uint64_t row = 0;
	int c;

	while ((c = peek(reader)) >= 0 && (isspace(c) || c == ',')) {
		reader->line += c == '\n';
		reader->at++;
	}
	if (c < 0)
		return ferror(reader->file) ? io_error(reader, err) : 0;
	if (!isdigit(c))
		return bad_index(reader, err);
	for (; (c = peek(reader)) >= 0 && isdigit(c); reader->at++) {
		uint64_t digit = (uint64_t)(c - '0');

		if (row > ((uint64_t)INT64_MAX - digit) / 10)
			return bad_index(reader, err);
		row = row * 10 + digit;
	}
	if (c >= 0 && !isspace(c) && c != ',')
		return bad_index(reader, err);
	reader->n_read++;
	*out = row;
	return 1;
}

int sc_index_reader_next(struct sc_index_reader *reader, uint64_t *out, struct sc_err *err)
{
	return reader->width > 0 ? next_binary(reader, out, err) : next_text(reader, out, err);
}
