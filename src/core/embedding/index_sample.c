/* A table's indices, streamed: how many, how many distinct, how often each. Counts are exact while the
 * distinct rows fit. Beyond, rows are sampled by their hash (Wegman's adaptive sampling; Flajolet 1990):
 * a row is in the sample from its first lookup on or never, so its count is exact, and the sample is thinned
 * by half whenever it is full. The frequent rows, which such a sample misses, are found besides (Misra
 * and Gries 1982) and counted in a second reading. Does not know whose table it is. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/embedding/index_reader_priv.h"
#include "core/embedding/reuse.h"

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

/* Rows of the sample stand for 2^level, but for the frequent ones, whose counts are known; the rest is
 * scaled to the lookups that are left. */
static void fill_histogram(const struct counter *sample, const struct counter *frequent,
			   double n_lookups, struct histogram *out)
{
	double weight = ldexp(1, (int)sample->level), left;
	struct histogram tail = {.n_lookups = 0};

	*out = (struct histogram){.n_lookups = 0};
	for (size_t i = 0; frequent->slots && i <= frequent->mask; i++)
		if (frequent->slots[i].count > 0)
			histogram_add(out, frequent->slots[i].count, 1);
	for (size_t i = 0; i <= sample->mask; i++) {
		const struct slot *slot = &sample->slots[i];

		if (slot->count == 0 ||
		    (frequent->slots && find_slot(frequent, slot->row)->count > 0))
			continue;
		histogram_add(&tail, slot->count, weight);
	}
	left = tail.n_lookups > 0 ? (n_lookups - out->n_lookups) / tail.n_lookups : 0;
	for (unsigned i = 0; i < MAX_BINS; i++) {
		out->rows[i] += tail.rows[i];
		out->lookups[i] += tail.lookups[i] * left;
	}
	out->highest_count = fmax(out->highest_count, tail.highest_count);
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

	while ((rc = sc_index_reader_next(reader, &row, err)) > 0) {
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
	while ((rc = sc_index_reader_next(reader, &row, err)) > 0) {
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
	int rc = sc_index_reader_open(&reader, path, err);

	if (rc)
		return rc;
	rc = count_once(&reader, c, err);
	*exact = c->sample.level == 0;
	if (rc == 0 && !(c->n_lookups > 0))
		rc = sc_err_at(err, SC_EVALUE, path, 0, 0, "no index in it");
	if (rc == 0 && !*exact) {
		rc = sc_index_reader_rewind(&reader, err);
		if (rc == 0)
			rc = count_frequent(&reader, &c->frequent, err);
	}
	sc_index_reader_close(&reader);
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
		fill_histogram(&c.sample, &c.frequent, c.n_lookups, &h);
		*out = (struct sc_index_sample){.highest = (double)c.highest, .exact = exact};
		fill_sample(&h, c.n_lookups, arena, out);
	}
	free(c.sample.slots);
	free(c.frequent.slots);
	return rc;
}
