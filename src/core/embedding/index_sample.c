/* A table's indices, from a file: how many, how many distinct, how often each; not whose it is. */
#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "core/embedding/reuse.h"

enum { MAX_BYTES = 1 << 30, MAX_BINS = 64 };
#define NPY_MAGIC "\x93NUMPY"
enum { NPY_MAGIC_BYTES = 6, NPY_MAX_HEADER = 1 << 12, NPY_SHORT_PREFIX = 10, NPY_PREFIX = 12 };

struct indices {
	uint64_t *at;
	size_t n;
};

static int bad_npy(const struct sc_source *file, const char *text, struct sc_err *err)
{
	return sc_err_at(err, SC_EFORMAT, file->file, 0, 0, "not a NumPy file of indices: %s",
			 text);
}

/* NumPy's format, version 1 or 2: the bytes of an index, and where the first is. */
static int read_npy_header(const struct sc_source *file, size_t *start, unsigned *width,
			   struct sc_err *err)
{
	const unsigned char *prefix = (const unsigned char *)file->text;
	bool is_short = prefix[NPY_MAGIC_BYTES] == 1;
	char header[NPY_MAX_HEADER + 1];
	const char *type;
	size_t n;

	if (file->n < NPY_PREFIX || (!is_short && prefix[NPY_MAGIC_BYTES] != 2))
		return bad_npy(file, "cut off, or of an unknown version", err);
	*start = is_short ? NPY_SHORT_PREFIX : NPY_PREFIX;
	n = (size_t)prefix[8] | (size_t)prefix[9] << 8;
	if (!is_short)
		n |= (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
	if (n > NPY_MAX_HEADER)
		return bad_npy(file, "its header is too long", err);
	if (n > file->n - *start)
		return bad_npy(file, "its header is cut off", err);
	memcpy(header, file->text + *start, n);
	header[n] = '\0';
	*start += n;
	type = strstr(header, "'descr':");
	if (!type)
		return bad_npy(file, "its header has no 'descr'", err);
	type += strlen("'descr':");
	type += strspn(type, " ");
	*width = strncmp(type, "'<i8'", 5) == 0 ? 8 : strncmp(type, "'<i4'", 5) == 0 ? 4 : 0;
	return *width ? 0 : bad_npy(file, "its type is neither '<i8' nor '<i4'", err);
}

static int read_binary(const struct sc_source *file, size_t start, unsigned width,
		       struct indices *out, struct sc_err *err)
{
	const unsigned char *at = (const unsigned char *)file->text + start;

	if ((file->n - start) % width)
		return sc_err_at(err, SC_EFORMAT, file->file, 0, 0, "the last index is cut off");
	out->at = sc_xrealloc(NULL, (file->n - start) / width + 1, sizeof(*out->at));
	for (; out->n < (file->n - start) / width; out->n++, at += width) {
		uint64_t row = 0;

		for (unsigned i = 0; i < width; i++)
			row |= (uint64_t)at[i] << (8 * i);
		if (row >> (8 * width - 1))
			return sc_err_at(err, SC_EVALUE, file->file, 0, 0, "index %zu is negative",
					 out->n);
		out->at[out->n] = row;
	}
	return 0;
}

/* Integers parted by blanks or commas. */
static int read_text(const struct sc_source *file, struct indices *out, struct sc_err *err)
{
	const char *at = file->text, *end = at + file->n;
	unsigned line = 1;

	out->at = sc_xrealloc(NULL, file->n / 2 + 1, sizeof(*out->at));
	for (;;) {
		uint64_t row = 0;
		const char *first;

		for (; at < end && (isspace((unsigned char)*at) || *at == ','); at++)
			line += *at == '\n';
		if (at == end)
			return 0;
		for (first = at; isdigit((unsigned char)*at) &&
				 row <= ((uint64_t)INT64_MAX - (uint64_t)(*at - '0')) / 10;
		     at++)
			row = row * 10 + (uint64_t)(*at - '0');
		if (at == first || (at < end && !isspace((unsigned char)*at) && *at != ','))
			return sc_err_at(err, SC_EVALUE, file->file, line, 0,
					 "expected indices of rows: integers from 0 to 2^63 - 1");
		out->at[out->n++] = row;
	}
}

static int sample_read_file(const char *path, struct indices *out, struct sc_err *err)
{
	struct sc_source file;
	size_t start = 0;
	unsigned width = sc_ends_with(path, ".bin") ? 8 : 0;
	int rc = sc_file_read(path, MAX_BYTES, &file, err);

	if (file.n > NPY_MAGIC_BYTES && memcmp(file.text, NPY_MAGIC, NPY_MAGIC_BYTES) == 0)
		rc = read_npy_header(&file, &start, &width, err);
	if (rc == 0)
		rc = width ? read_binary(&file, start, width, out, err)
			   : read_text(&file, out, err);
	if (rc == 0 && out->n == 0)
		rc = sc_err_at(err, SC_EVALUE, path, 0, 0, "no index in it");
	sc_source_release(&file);
	return rc;
}

/* By some bits after the other, from the lowest. */
static void sort_indices(struct indices *x)
{
	enum { BITS = 12, N = 1 << BITS };
	uint64_t *to = sc_xrealloc(NULL, x->n, sizeof(*to)), all_bits = 0;

	for (size_t i = 0; i < x->n; i++)
		all_bits |= x->at[i];
	for (unsigned shift = 0; shift < 64 && all_bits >> shift; shift += BITS) {
		size_t end[N + 1] = {0};
		uint64_t *from = x->at;

		for (size_t i = 0; i < x->n; i++)
			end[(from[i] >> shift) % N + 1]++;
		for (size_t k = 1; k < N; k++)
			end[k] += end[k - 1];
		for (size_t i = 0; i < x->n; i++)
			to[end[(from[i] >> shift) % N]++] = from[i];
		x->at = to;
		to = from;
	}
	free(to);
}

int sc_index_sample_load(const char *path, struct sc_arena *arena, struct sc_reuse *out,
			 struct sc_err *err)
{
	struct indices all = {.n = 0};
	double rows[MAX_BINS] = {0}, lookups[MAX_BINS] = {0}, n_unique = 0, hottest = 0;
	int rc = sample_read_file(path, &all, err);
	size_t n_bins = 0;

	if (rc) {
		free(all.at);
		return rc;
	}
	sort_indices(&all);
	for (size_t i = 0, count; i < all.n; i += count, n_unique++) {
		size_t bin = 0;

		for (count = 1; i + count < all.n && all.at[i + count] == all.at[i];)
			count++;
		while ((count - 1) >> bin) /* 1, 2, 3-4, 5-8, ... */
			bin++;
		rows[bin]++;
		lookups[bin] += (double)count;
		hottest = fmax(hottest, (double)count);
		n_bins = bin < n_bins ? n_bins : bin + 1;
	}
	*out = (struct sc_reuse){.kind = SC_REUSE_BINS,
				 .n_lookups = (double)all.n,
				 .n_unique = n_unique,
				 .n_tables = 1,
				 .hot_frac = hottest / (double)all.n};
	out->row_bins = (struct sc_doubles){sc_arena_calloc(arena, n_bins, sizeof(double)), n_bins};
	out->lookup_bins =
		(struct sc_doubles){sc_arena_calloc(arena, n_bins, sizeof(double)), n_bins};
	for (size_t i = 0; i < n_bins; i++) {
		out->row_bins.at[i] = rows[i] / n_unique;
		out->lookup_bins.at[i] = lookups[i] / (double)all.n;
	}
	free(all.at);
	return 0;
}
