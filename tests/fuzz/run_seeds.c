/* Runs a fuzz target over the files of a folder, in the order of their names, without libFuzzer:
 * each file whole, cut off at up to 64 places, and with single bytes changed. Usage: fuzz_<parser>
 * FOLDER */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { N_CUTS = 64, MAX_SEED_BYTES = 1 << 20 };

/* In a buffer of just this size, so that a sanitizer sees a read past the end. */
static void run_one(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

/* Returns the number of inputs made from one seed. */
static size_t run_variants(uint8_t *data, size_t size)
{
	static const uint8_t change[] = {0, '"', ':', '\n', '-', '{', 0xff};
	size_t step = size / N_CUTS + 1;
	size_t n_inputs = 1;

	run_one(data, size);
	for (size_t at = 0; at < size; at += step) {
		uint8_t kept = data[at];

		run_one(data, at);
		data[at] = change[n_inputs % sizeof(change)];
		run_one(data, size);
		data[at] = kept;
		n_inputs += 2;
	}
	return n_inputs;
}

/* Returns the number of inputs, or 0 if the file cannot be read. */
static size_t run_file(const char *path)
{
	static uint8_t data[MAX_SEED_BYTES + 1];
	FILE *file = fopen(path, "rb");
	size_t size;

	if (!file)
		return 0;
	size = fread(data, 1, sizeof(data), file);
	if (ferror(file) || !feof(file)) {
		fclose(file);
		return 0;
	}
	fclose(file);
	return run_variants(data, size);
}

static int is_seed(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
	struct dirent **entry;
	size_t n_inputs = 0;
	int n_seeds, failed = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	n_seeds = scandir(argv[1], &entry, is_seed, alphasort);
	if (n_seeds <= 0) {
		fprintf(stderr, "%s: no seeds: %s\n", argv[1], n_seeds ? strerror(errno) : "empty");
		return 1;
	}
	for (int i = 0; i < n_seeds; i++) {
		char path[4096];
		size_t n = 0;
		int len = snprintf(path, sizeof(path), "%s/%s", argv[1], entry[i]->d_name);

		if (len > 0 && (size_t)len < sizeof(path))
			n = run_file(path);
		if (!n) {
			fprintf(stderr, "%s: cannot be read, or larger than %d bytes\n", path,
				MAX_SEED_BYTES);
			failed = 1;
		}
		n_inputs += n;
		free(entry[i]);
	}
	free(entry);
	printf("%d seeds, %zu inputs\n", n_seeds, n_inputs);
	return failed;
}
