/* Samples of a table's indices: text, .npy and .bin (by its name): what
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

static void check_sample(const struct sc_reuse *reuse)
{
	double rows = 0, lookups = 0;

	expect(reuse->n_lookups >= 1 && reuse->n_unique > 0);
	expect(reuse->n_unique <= reuse->n_lookups);
	expect(reuse->hot_frac > 0 && reuse->hot_frac <= 1);
	expect(reuse->kind == SC_REUSE_BINS && reuse->row_bins.n == reuse->lookup_bins.n);
	for (size_t i = 0; i < reuse->row_bins.n; i++) {
		expect(reuse->row_bins.at[i] >= 0 && reuse->lookup_bins.at[i] >= 0);
		rows += reuse->row_bins.at[i];
		lookups += reuse->lookup_bins.at[i];
	}
	expect(is_one(rows) && is_one(lookups));
}

static void load(const char *path)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_reuse sample;
	struct sc_arena arena;

	sc_arena_init(&arena, 1024);
	if (sc_index_sample_load(path, &arena, &sample, &err) == 0)
		check_sample(&sample);
	else
		expect(err.code != SC_OK && err.text[0]);
	sc_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const endings[] = {"txt", "bin"};
	const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".";
	char path[64];

	for (int i = 0; i < 2; i++) {
		FILE *file;

		snprintf(path, sizeof(path), "%s/fuzz-index-%ld.%s", tmp, (long)getpid(),
			 endings[i]);
		file = fopen(path, "wb");
		if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
			abort();
		load(path);
		unlink(path);
	}
	return 0;
}
