/* Where config files are found, and what is said when they are not. */
#include "config_fixture.h"
#include "core/profile/paths.h"
#include "runner.h"

static const char *find(const char *ref, const char *from)
{
	const char *path = NULL;

	ck_assert_int_eq(sc_config_path((struct sc_config_ref){.at = ref, .from = from}, &arena,
					&path, &err),
			 0);
	return path;
}

FIXTURE(set_up, tear_down)

TEST(beside_the_naming_file_comes_first)
{
	const char *installed = write_file("models/a.yaml", "{}");
	char from[FIXTURE_PATH], beside[FIXTURE_PATH];

	snprintf(from, sizeof(from), "%s/other/request.yaml", folder);
	snprintf(beside, sizeof(beside), "%s/other/a.yaml", folder);
	ck_assert_str_eq(find("models/a.yaml", from), installed);
	write_file("other/a.yaml", "{}");
	ck_assert_str_eq(find("a.yaml", from), beside);
	/* A folder `models` beside the file would win, too. */
	snprintf(from, sizeof(from), "%s/request.yaml", folder);
	ck_assert_str_eq(find("models/a.yaml", from), installed);
}

TEST(the_environment_comes_before_the_installed)
{
	const char *mine = write_file("devices/a100-sxm-80gb.yaml", "{}");

	ck_assert_str_eq(find("devices/a100-sxm-80gb.yaml", NULL), mine);
	ck_assert_int_eq(unlink(mine), 0);
	ck_assert_str_ne(find("devices/a100-sxm-80gb.yaml", NULL), mine);
}

TEST(absolute_paths_are_taken_as_they_are)
{
	const char *path = write_file("other/x.yaml", "{}");

	ck_assert_str_eq(find(path, "/nowhere/y.yaml"), path);
	ck_assert_int_eq(sc_config_path((struct sc_config_ref){.at = "/nowhere/z.yaml"}, &arena,
					&path, &err),
			 -SC_EIO);
	ck_assert_str_eq(err.text, "cannot read /nowhere/z.yaml");
}

TEST(not_found_says_where_or_which)
{
	const char *path = "untouched";

	write_file("models/gpt-9b.yaml", "{}");
	ck_assert_int_eq(
		sc_config_path((struct sc_config_ref){.at = "models/gpt-9c.yaml", .from = "r.yaml"},
			       &arena, &path, &err),
		-SC_EIO);
	ck_assert_str_eq(err.text,
			 "no file \"models/gpt-9c.yaml\"; did you mean \"models/gpt-9b.yaml\"?");
	memset(&err, 0, sizeof(err));
	ck_assert_int_ne(
		sc_config_path((struct sc_config_ref){.at = "zzzzzzzz.yaml", .from = "r.yaml"},
			       &arena, &path, &err),
		0);
	ck_assert_str_eq(err.text,
			 "no file \"zzzzzzzz.yaml\"; looked beside the file that names it, in "
			 "$STEPCAST_CONFIGS and in the installed configs");
	ck_assert_str_eq(path, "untouched");
	ck_assert_int_eq(sc_config_path((struct sc_config_ref){.at = ""}, &arena, &path, NULL),
			 -SC_EVALUE);
}

TEST(ids_are_sorted_and_unique)
{
	const char *const *ids;
	size_t n, n_a100 = 0;

	write_file("devices/a100-sxm-80gb.yaml", "{}");
	write_file("devices/not-a-profile.txt", "");
	n = sc_config_ids("devices", &arena, &ids);
	ck_assert_uint_gt(n, 3);
	for (size_t i = 0; i < n; i++) {
		ck_assert(i == 0 || strcmp(ids[i - 1], ids[i]) < 0);
		ck_assert_ptr_null(strstr(ids[i], "not-a-profile"));
		n_a100 += strcmp(ids[i], "a100-sxm-80gb") == 0;
	}
	ck_assert_uint_eq(n_a100, 1);
	ck_assert_uint_eq(sc_config_ids("no-such-folder", &arena, &ids), 0);
}
