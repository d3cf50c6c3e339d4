/* Samples of a table's indices: text, .npy and .bin (by its name), counted exactly and from a sample. What
 * is accepted must be a histogram. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/embedding/reuse.h"
#include "fuzz.h"

static void expect(int holds)
{
	if (!holds)
		abort();
}

static int is_one(double sum)
{
	return fabs(sum - 1) < 1e-9;
}

static void check_sample(const struct sc_index_sample *sample)
{
	const struct sc_reuse *reuse = &sample->reuse;
	double rows = 0, lookups = 0;

	expect(sample->n_lookups >= 1 && sample->n_unique > 0);
	expect(sample->n_unique <= sample->n_lookups);
	expect(sample->hot_frac > 0 && sample->hot_frac <= 1);
	expect(sample->highest >= 0 && sample->highest <= 0x1p63);
	expect(reuse->kind == SC_REUSE_BINS && reuse->row_bins.n == reuse->lookup_bins.n);
	for (size_t i = 0; i < reuse->row_bins.n; i++) {
		expect(reuse->row_bins.at[i] >= 0 && reuse->lookup_bins.at[i] >= 0);
		rows += reuse->row_bins.at[i];
		lookups += reuse->lookup_bins.at[i];
	}
	expect(is_one(rows));
	expect(!sample->exact || is_one(lookups));
}

static void load(const char *path, size_t max_rows)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_index_sample sample;
	struct sc_arena arena;

	sc_arena_init(&arena, 1024);
	if (sc_index_sample_load(path, max_rows, &arena, &sample, &err) == 0)
		check_sample(&sample);
	else
		expect(err.code != SC_OK && err.text[0]);
	sc_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const endings[] = {"txt", "bin"};
	static const size_t max_rows[] = {1024, 8};
	const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".";
	char path[64];

	for (int i = 0; i < 2; i++) {
		FILE *file;

		snprintf(path, sizeof(path), "%s/fuzz-index-%ld.%s", tmp, (long)getpid(),
			 endings[i]);
		file = fopen(path, "wb");
		if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
			abort();
		for (int k = 0; k < 2; k++)
			load(path, max_rows[k]);
		unlink(path);
	}
	return 0;
}
