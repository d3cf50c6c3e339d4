/* Whole files with a limit: sizes around it, packed bombs, endless files. */
#include <zlib.h>

#include "base/file.h"
#include "runner.h"

static FILE *file; /* without a name, gone when closed */
static char path[32];
static struct sc_err err;

static void set_up(void)
{
	file = tmpfile();
	ck_assert_ptr_nonnull(file);
	snprintf(path, sizeof(path), "/dev/fd/%d", fileno(file));
	memset(&err, 0, sizeof(err));
}

static void tear_down(void)
{
	fclose(file);
}

static void write_bytes(const char *mode, size_t n)
{
	static const char zeros[4096];
	gzFile out = gzopen(path, mode);

	ck_assert_ptr_nonnull(out);
	for (; n > sizeof(zeros); n -= sizeof(zeros))
		ck_assert_int_gt(gzwrite(out, zeros, sizeof(zeros)), 0);
	ck_assert_int_ge(gzwrite(out, zeros, (unsigned)n), 0);
	ck_assert_int_eq(gzclose(out), Z_OK);
}

static const struct {
	size_t n_bytes, limit;
	int rc;
} sizes[] = {
	{0, 0, 0},           {0, 10, 0},
	{1, 0, -SC_ELIMIT},  {4095, 4095, 0},
	{4096, 4096, 0},     {4096, 4095, -SC_ELIMIT},
	{100000, 100000, 0}, {100001, 100000, -SC_ELIMIT},
	{50000, 100000, 0},  {10000000, 100000, -SC_ELIMIT},
};

FIXTURE(set_up, tear_down)

/* Plain ("T" mode of zlib) and packed alike; packed, nothing is already more than 10 bytes. */
LOOP_TEST(test_sizes, N_OF(sizes))
{
	for (int packed = 0; packed < (sizes[_i].limit > 10 ? 2 : 1); packed++) {
		struct sc_source read;

		memset(&err, 0, sizeof(err));
		write_bytes(packed ? "wb9" : "wbT", sizes[_i].n_bytes);
		ck_assert_int_eq(sc_file_read(path, sizes[_i].limit, &read, &err), sizes[_i].rc);
		if (sizes[_i].rc) {
			ck_assert_ptr_null(read.text);
			ck_assert_ptr_nonnull(strstr(err.text, "the file is too large"));
			continue;
		}
		ck_assert_uint_eq(read.n, sizes[_i].n_bytes);
		ck_assert_int_eq(read.text[read.n], '\0');
		sc_source_release(&read);
	}
}

TEST(test_endless)
{
	struct sc_source read;

	ck_assert_int_eq(sc_file_read("/dev/zero", 100000, &read, &err), -SC_ELIMIT);
	ck_assert_str_eq(err.file, "/dev/zero");
}

TEST(test_names)
{
	ck_assert_str_eq(sc_file_name("a/b.c"), "b.c");
	ck_assert_str_eq(sc_file_name("b.c"), "b.c");
	ck_assert_str_eq(sc_file_name("a/"), "");
	ck_assert(sc_ends_with("a.csv", ".csv"));
	ck_assert(sc_ends_with(".csv", ".csv"));
	ck_assert(!sc_ends_with("csv", ".csv"));
	ck_assert(!sc_ends_with("a.csv.gz", ".csv"));
}

TEST(test_not_readable)
{
	struct sc_source read;

	ck_assert_int_eq(sc_file_read("/", 10, &read, &err), -SC_EIO);
	memset(&err, 0, sizeof(err));
	ck_assert_int_eq(sc_file_read("/proc/self/mem", 10, &read, &err), -SC_EIO);
	ck_assert_ptr_nonnull(strstr(err.text, "cannot be read"));
}

/* Sorted, hidden ones left out, and slashes at the end of the folder's name. */
TEST(folders_are_listed)
{
	static const char *const names[] = {"run.b.x", "run.a.x", ".run.c.x", "other.x", "run.a.y"};
	char folder[] = "/tmp/stepcast-list-XXXXXX", slashed[64], at[96];
	struct sc_arena arena = {0};
	const char *const *files;
	size_t n;

	ck_assert_ptr_nonnull(mkdtemp(folder));
	for (size_t i = 0; i < N_OF(names); i++) {
		snprintf(at, sizeof(at), "%s/%s", folder, names[i]);
		fclose(fopen(at, "w"));
	}
	snprintf(slashed, sizeof(slashed), "%s//", folder);
	ck_assert_int_eq(sc_folder_list(slashed, "run.", ".x", &arena, &files, &n, &err), 0);
	ck_assert_uint_eq(n, 2);
	for (size_t i = 0; i < n; i++) {
		snprintf(at, sizeof(at), "%s/%s", folder, names[1 - i]);
		ck_assert_str_eq(files[i], at);
	}
	for (size_t i = 0; i < N_OF(names); i++) {
		snprintf(at, sizeof(at), "%s/%s", folder, names[i]);
		remove(at);
	}
	remove(folder);
	ck_assert_int_eq(sc_folder_list(folder, "", "", &arena, &files, &n, &err), -SC_EIO);
	sc_arena_release(&arena);
}
