/* A folder of configs of its own for a test, put before the installed ones. */
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "runner.h"

enum { FIXTURE_MAX_FILES = 32, FIXTURE_PATH = 256 };

static struct sc_arena arena;
static struct sc_err err;
static char folder[64];
static char written[FIXTURE_MAX_FILES][FIXTURE_PATH];
static int n_written;

/* Writes `text` to folder/name and returns the full path. */
static inline const char *write_file(const char *name, const char *text)
{
	char *path = written[n_written++];
	FILE *file;

	ck_assert_int_lt(n_written, FIXTURE_MAX_FILES);
	snprintf(path, FIXTURE_PATH, "%s/%s", folder, name);
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
	return path;
}

static const char *const fixture_folders[] = {"devices", "software", "models", "clusters", "other"};
enum { N_FIXTURE_FOLDERS = sizeof(fixture_folders) / sizeof(fixture_folders[0]) };

static inline void make_folders(void)
{
	for (int i = 0; i < N_FIXTURE_FOLDERS; i++) {
		char path[FIXTURE_PATH];

		snprintf(path, sizeof(path), "%s/%s", folder, fixture_folders[i]);
		ck_assert_int_eq(mkdir(path, 0700), 0);
	}
}

/* Over a shipped file of defaults, so that a new coefficient does not need a new fixture. */
#define ARCH_TEST                              \
	"schema: stepcast/1\n"                 \
	"defaults: devices/arch-ampere.yaml\n" \
	"arch: test\n"                         \
	"vendor: nvidia\n"                     \
	"gemm: {k_half: 90, k_half_batched: 123}\n"
#define DEVICE_TEST                                                  \
	"schema: stepcast/1\n"                                       \
	"defaults: devices/arch-test.yaml\n"                         \
	"id: test-gpu\n"                                             \
	"sm_count: 100\n"                                            \
	"boost_mhz: 1500\n"                                          \
	"peak_tflops: {fp32: 20, tf32: 150, fp16: 300, bf16: 300}\n" \
	"hbm_gib: 80\n"                                              \
	"hbm_gbps: 2000\n"                                           \
	"l2_mib: 40\n"                                               \
	"pcie_gbps: 31\n"                                            \
	"copy_engines: 5\n"                                          \
	"tdp_w: 400\n"                                               \
	"usual_gpus_per_node: 8\n"                                   \
	"usual_nics_per_node: 4\n"                                   \
	"usual_nic_gbit_s: 200\n"                                    \
	"gemm: {k_half: 77}\n"                                       \
	"sources: {hbm_gib: \"a datasheet\"}\n"

static inline void set_up(void)
{
	sc_arena_init(&arena, 1 << 14);
	memset(&err, 0, sizeof(err));
	n_written = 0;
	snprintf(folder, sizeof(folder), "/tmp/sc_test_configs_XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	make_folders();
	ck_assert_int_eq(setenv("STEPCAST_CONFIGS", folder, 1), 0);
	write_file("devices/arch-test.yaml", ARCH_TEST);
	write_file("devices/test-gpu.yaml", DEVICE_TEST);
}

static inline void tear_down(void)
{
	while (n_written > 0)
		unlink(written[--n_written]);
	for (int i = 0; i < N_FIXTURE_FOLDERS; i++) {
		char path[FIXTURE_PATH];

		snprintf(path, sizeof(path), "%s/%s", folder, fixture_folders[i]);
		rmdir(path);
	}
	rmdir(folder);
	sc_arena_release(&arena);
}

/* err as "file:line:col: error: text", with the fixture's folder cut off. */
static inline const char *message(void)
{
	static char buf[512];
	const char *text = sc_err_format(&err, buf, sizeof(buf));
	size_t n = strlen(folder);

	return strncmp(text, folder, n) == 0 ? text + n + 1 : text;
}
