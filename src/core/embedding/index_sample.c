/* A table's indices, streamed: how many, how many distinct, how often each. Counts are exact while the
 * distinct rows fit. Beyond, rows are sampled by their hash (Wegman's adaptive sampling; Flajolet 1990):
 * a row is in the sample from its first lookup on or never, so its count is exact, and the sample is thinned
 * by half whenever it is full. The frequent rows, which such a sample misses, are found besides (Misra
 * and Gries 1982) and counted in a second reading. Does not know whose table it is. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "core/embedding/reuse.h"

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

/* Reads row indices one by one through a buffer: integers parted by blanks or commas; .npy with little-
 * endian int32 or int64 (NumPy's format, version 1 or 2); .bin with little-endian int64. */

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

static int index_reader_rewind(struct sc_index_reader *reader, struct sc_err *err)
{
	reader->line = 1;
	reader->at = reader->n = 0;
	reader->n_read = 0;
	return fseek(reader->file, reader->start, SEEK_SET) ? io_error(reader, err) : 0;
}

static void index_reader_close(struct sc_index_reader *reader)
{
	if (reader->file)
		fclose(reader->file);
	reader->file = NULL;
}

static int index_reader_open(struct sc_index_reader *reader, const char *path, struct sc_err *err)
{
	int rc;

	*reader = (struct sc_index_reader){.path = path, .line = 1};
	reader->file = fopen(path, "rb");
	if (!reader->file)
		return io_error(reader, err);
	rc = find_format(reader, err);
	if (rc == 0)
		rc = index_reader_rewind(reader, err);
	if (rc)
		index_reader_close(reader);
	return rc;
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

/* 1 and the next index; 0 at the end; negative: an error with line, or the index's number. */
static int index_reader_next(struct sc_index_reader *reader, uint64_t *out, struct sc_err *err)
{
	return reader->width > 0 ? next_binary(reader, out, err) : next_text(reader, out, err);
}

enum { MAX_BINS = 64, N_FREQUENT = 1024, DEFAULT_MAX_ROWS = 1 << 20 };

/* Rows and their counts, by open addressing; a slot with count 0 is free. */
struct slot {
	uint64_t row, count;
};
struct counter {
	struct slot *slots;
	size_t n, max, mask;
	unsigned level; /* kept: rows whose hash ends in so many zero bits */
};

/* splitmix64's finalizer: every bit of the result depends on every bit of the row. */
static uint64_t hash_row(uint64_t row)
{
	row = (row ^ (row >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	row = (row ^ (row >> 27)) * UINT64_C(0x94d049bb133111eb);
	return row ^ (row >> 31);
}

static void counter_init(struct counter *counter, size_t max)
{
	size_t size = 16;

	while (size < 2 * max)
		size *= 2;
	*counter = (struct counter){.max = max, .mask = size - 1};
	counter->slots = sc_xmalloc(size * sizeof(*counter->slots));
	memset(counter->slots, 0, size * sizeof(*counter->slots));
}

/* The row's slot, or the free one where it would be. The low bits choose the sample, the high ones the
 * place. */
static struct slot *find_slot(const struct counter *counter, uint64_t row)
{
	size_t at = (size_t)(hash_row(row) >> 20) & counter->mask;

	while (counter->slots[at].count > 0 && counter->slots[at].row != row)
		at = (at + 1) & counter->mask;
	return &counter->slots[at];
}

static void rebuild(struct counter *counter, uint64_t keep_mask, uint64_t less)
{
	struct counter old = *counter;

	counter_init(counter, old.max);
	counter->level = old.level;
	for (size_t i = 0; i <= old.mask; i++) {
		const struct slot *slot = &old.slots[i];

		if (slot->count <= less || (hash_row(slot->row) & keep_mask) != 0)
			continue;
		*find_slot(counter, slot->row) = (struct slot){slot->row, slot->count - less};
		counter->n++;
	}
	free(old.slots);
}

static uint64_t level_mask(const struct counter *counter)
{
	return (UINT64_C(1) << counter->level) - 1;
}

static void sample_add(struct counter *counter, uint64_t row)
{
	struct slot *slot;

	if ((hash_row(row) & level_mask(counter)) != 0)
		return;
	slot = find_slot(counter, row);
	if (slot->count++ > 0)
		return;
	slot->row = row;
	if (++counter->n < counter->max)
		return;
	counter->level++;
	rebuild(counter, level_mask(counter), 0);
}

/* Misra and Gries: whoever has more than 1 / (max + 1) of all lookups stays. */
static void frequent_add(struct counter *counter, uint64_t row)
{
	struct slot *slot = find_slot(counter, row);

	if (slot->count > 0 || counter->n < counter->max) {
		counter->n += slot->count++ == 0;
		slot->row = row;
		return;
	}
	rebuild(counter, 0, 1);
}

/* ---- the histogram ---- */

struct histogram {
	double rows[MAX_BINS], lookups[MAX_BINS];
	double n_lookups, highest_count;
};

/* Counts of 1, 2, 3-4, 5-8, ... */
static unsigned bin_of(uint64_t count)
{
	unsigned bin = 0;

	for (count--; count > 0; count >>= 1)
		bin++;
	return bin;
}

static void histogram_add(struct histogram *h, uint64_t count, double weight)
{
	unsigned bin = bin_of(count);

	h->rows[bin] += weight;
	h->lookups[bin] += weight * (double)count;
	h->n_lookups += weight * (double)count;
	h->highest_count = fmax(h->highest_count, (double)count);
}

static void fill_sample(const struct histogram *h, double n_lookups, struct sc_arena *arena,
			struct sc_index_sample *out)
{
	struct sc_reuse *r = &out->reuse;
	size_t n = 0;
	double n_unique = 0;

	for (size_t i = 0; i < MAX_BINS; i++) {
		n_unique += h->rows[i];
		n = h->rows[i] > 0 ? i + 1 : n;
	}
	*r = (struct sc_reuse){.kind = SC_REUSE_BINS, .n_lookups = n_lookups, .n_tables = 1};
	r->n_unique = fmin(n_unique, n_lookups);
	r->hot_frac = h->highest_count / n_lookups;
	r->row_bins = (struct sc_doubles){sc_arena_calloc(arena, n, sizeof(double)), n};
	r->lookup_bins = (struct sc_doubles){sc_arena_calloc(arena, n, sizeof(double)), n};
	for (size_t i = 0; i < n; i++) {
		r->row_bins.at[i] = h->rows[i] / n_unique;
		r->lookup_bins.at[i] = h->lookups[i] / n_lookups;
	}
	out->n_lookups = n_lookups;
	out->n_unique = r->n_unique;
	out->hot_frac = r->hot_frac;
}

/* ---- reading ---- */

struct counting {
	struct counter sample, frequent;
	double n_lookups;
	uint64_t highest;
};

static int count_once(struct sc_index_reader *reader, struct counting *c, struct sc_err *err)
{
	uint64_t row;
	int rc;

	while ((rc = index_reader_next(reader, &row, err)) > 0) {
		sample_add(&c->sample, row);
		frequent_add(&c->frequent, row);
		c->n_lookups++;
		c->highest = row > c->highest ? row : c->highest;
	}
	return rc;
}

/* Counts of the frequent rows start at 1, to tell them from free slots. */
static int count_frequent(struct sc_index_reader *reader, struct counter *frequent,
			  struct sc_err *err)
{
	uint64_t row;
	int rc;

	for (size_t i = 0; i <= frequent->mask; i++)
		frequent->slots[i].count = frequent->slots[i].count > 0;
	while ((rc = index_reader_next(reader, &row, err)) > 0) {
		struct slot *slot = find_slot(frequent, row);

		slot->count += slot->count > 0;
	}
	for (size_t i = 0; rc == 0 && i <= frequent->mask; i++)
		frequent->slots[i].count -= frequent->slots[i].count > 1;
	return rc;
}

static int read_all(const char *path, struct counting *c, bool *exact, struct sc_err *err)
{
	struct sc_index_reader reader;
	int rc = index_reader_open(&reader, path, err);

	if (rc)
		return rc;
	rc = count_once(&reader, c, err);
	*exact = c->sample.level == 0;
	if (rc == 0 && !(c->n_lookups > 0))
		rc = sc_err_at(err, SC_EVALUE, path, 0, 0, "no index in it");
	if (rc == 0 && !*exact) {
		rc = index_reader_rewind(&reader, err);
		if (rc == 0)
			rc = count_frequent(&reader, &c->frequent, err);
	}
	index_reader_close(&reader);
	return rc;
}

int sc_index_sample_load(const char *path, size_t max_rows, struct sc_arena *arena,
			 struct sc_index_sample *out, struct sc_err *err)
{
	struct counting c = {.n_lookups = 0};
	struct histogram h;
	bool exact;
	int rc;

	counter_init(&c.sample, max_rows > 0 ? max_rows : DEFAULT_MAX_ROWS);
	counter_init(&c.frequent, N_FREQUENT);
	rc = read_all(path, &c, &exact, err);
	if (rc == 0) {
		if (exact) {
			free(c.frequent.slots);
			c.frequent.slots = NULL;
		}
		/* Rows of the sample stand for 2^level, but for the frequent ones, whose counts are known; the rest is
		 * scaled to the lookups that are left. */
		double weight = ldexp(1, (int)c.sample.level), left;
		struct histogram tail = {.n_lookups = 0};

		h = (struct histogram){.n_lookups = 0};
		for (size_t i = 0; c.frequent.slots && i <= c.frequent.mask; i++)
			if (c.frequent.slots[i].count > 0)
				histogram_add(&h, c.frequent.slots[i].count, 1);
		for (size_t i = 0; i <= c.sample.mask; i++) {
			const struct slot *slot = &c.sample.slots[i];

			if (slot->count == 0 ||
			    (c.frequent.slots && find_slot(&c.frequent, slot->row)->count > 0))
				continue;
			histogram_add(&tail, slot->count, weight);
		}
		left = tail.n_lookups > 0 ? (c.n_lookups - h.n_lookups) / tail.n_lookups : 0;
		for (unsigned i = 0; i < MAX_BINS; i++) {
			h.rows[i] += tail.rows[i];
			h.lookups[i] += tail.lookups[i] * left;
		}
		h.highest_count = fmax(h.highest_count, tail.highest_count);
		*out = (struct sc_index_sample){.highest = (double)c.highest, .exact = exact};
		fill_sample(&h, c.n_lookups, arena, out);
	}
	free(c.sample.slots);
	free(c.frequent.slots);
	return rc;
}
