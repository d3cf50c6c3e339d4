/* The configs of configs/examples, one after another: what holds of every prediction is tried on
 * them. */
#pragma once

#include <dirent.h>

#include "core/profile/paths.h"
#include "request_fixture.h"
#include "runner.h"

enum { MAX_EXAMPLES = 64, EXAMPLE_PATH = 512 };

static struct sc_predict_opts opts;
static char example[MAX_EXAMPLES][EXAMPLE_PATH];

static inline int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Fills `example`, in the order of names; how many there are. */
static inline int find_examples(void)
{
	struct sc_arena scratch;
	const char *base;
	char path[EXAMPLE_PATH];
	int n = 0;
	DIR *dir;

	sc_arena_init(&scratch, 1 << 12);
	if (sc_config_path((struct sc_config_ref){.at = "base.yaml"}, &scratch, &base, NULL))
		return 0;
	snprintf(path, sizeof(path), "%.*sexamples", (int)(strrchr(base, '/') + 1 - base), base);
	sc_arena_release(&scratch);
	dir = opendir(path);
	if (!dir)
		return 0;
	for (const struct dirent *entry; (entry = readdir(dir));) {
		if (n == MAX_EXAMPLES || !strstr(entry->d_name, ".yaml"))
			continue;
		snprintf(example[n++], EXAMPLE_PATH, "%.250s/%.250s", path, entry->d_name);
	}
	closedir(dir);
	qsort(example, (size_t)n, sizeof(example[0]), by_name);
	return n;
}

static inline void set_up(void)
{
	find_examples();
	requests_begin();
	sc_predict_opts_init(&opts);
}

static inline void tear_down(void)
{
	requests_end();
}

static inline const char *example_name(int i)
{
	return strrchr(example[i], '/') + 1;
}

static inline void load_example(int i, struct sc_config *config)
{
	struct sc_err err = {0};

	ck_assert_msg(sc_config_load(example[i], &arena, config, &err) == 0, "%s", err.text);
}
