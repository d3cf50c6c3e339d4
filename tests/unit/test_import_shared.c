/* Every trace of the data folder beside the checkout: imported with the counts its facts.json says,
 * or refused for a good reason. Exits 77 where the folder is not. */
#include <dirent.h>
#include <jansson.h>

#include "import_fixture.h"
#include "runner.h"

enum { MAX_PATH = 1024 };

static const char *folder(void)
{
	const char *given = getenv("STEPCAST_TRACES");

	return given ? given : "../shared/data/traces";
}

static int64_t number(const json_t *facts, const char *key)
{
	const json_t *value = json_object_get(facts, key);

	ck_assert_msg(json_is_integer(value),
		      "facts.json: no number \"%s\"; make it again with facts.py, beside it", key);
	return json_integer_value(value);
}

static int import(const char *path, struct sc_import_stats *stats, struct sc_err *err)
{
	char dir[] = "/tmp/stepcast-import-XXXXXX", file[MAX_PATH];
	struct sc_import_opts opts = {.dir = dir, .rank = -1, .other_rank = -1};
	struct dirent *entry;
	DIR *list;
	int rc;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	rc = sc_import(path, &opts, stats, err);
	list = opendir(dir);
	while (list && (entry = readdir(list)) != NULL) {
		snprintf(file, sizeof(file), "%s/%.200s", dir, entry->d_name);
		unlink(file);
	}
	if (list)
		closedir(list);
	rmdir(dir);
	return rc;
}

static void check_kineto(const char *path, const json_t *facts)
{
	const json_t *dist = json_object_get(facts, "dist"), *rank = json_object_get(dist, "rank");
	struct sc_import_stats stats;
	struct sc_err err = {.code = SC_OK};

	ck_assert_msg(import(path, &stats, &err) == 0, "%s: %s", path, err.text);
	ck_assert_msg(stats.n_records == number(facts, "events"), "%s: events %lld", path,
		      (long long)stats.n_records);
	ck_assert_msg(stats.n_kernels == number(facts, "kernels"), "%s: kernels %lld", path,
		      (long long)stats.n_kernels);
	ck_assert_msg(stats.n_nccl == number(facts, "nccl"), "%s: nccl %lld", path,
		      (long long)stats.n_nccl);
	ck_assert_msg((size_t)stats.n_steps == json_array_size(json_object_get(facts, "steps")),
		      "%s: steps %lld", path, (long long)stats.n_steps);
	ck_assert_msg(!stats.truncated, "%s: truncated", path);
	if (json_is_integer(rank))
		ck_assert_int_eq(stats.rank, json_integer_value(rank));
}

static void check_nodes(const char *path, const json_t *facts)
{
	const char *schema = json_string_value(json_object_get(facts, "schema")), *key;
	struct sc_import_stats stats;
	struct sc_err err = {.code = SC_OK};
	json_t *value;
	int64_t n_calls = 0;

	if (import(path, &stats, &err)) {
		ck_assert_ptr_nonnull(strstr(err.text, schema ? "without times" : "no times"));
		return;
	}
	ck_assert_msg(stats.n_records == number(facts, "nodes"), "%s: nodes %lld", path,
		      (long long)stats.n_records);
	json_object_foreach(json_object_get(facts, "collectives"), key, value) n_calls +=
		json_integer_value(value);
	ck_assert_msg(stats.n_calls == n_calls, "%s: calls %lld", path, (long long)stats.n_calls);
}

static int check_set(const char *set)
{
	char path[MAX_PATH];
	json_t *facts, *file;
	int n_checked = 0;
	size_t i;

	snprintf(path, sizeof(path), "%s/%.200s/facts.json", folder(), set);
	facts = json_load_file(path, 0, NULL);
	if (!facts)
		return 0;
	json_array_foreach(facts, i, file)
	{
		const char *name = json_string_value(json_object_get(file, "file"));

		if (!name)
			continue;
		snprintf(path, sizeof(path), "%s/%.200s/%.200s", folder(), set, name);
		if (json_object_get(file, "events")) {
			check_kineto(path, file);
			n_checked++;
		} else if (json_object_get(file, "nodes")) {
			check_nodes(path, file);
			n_checked++;
		}
	}
	json_decref(facts);
	return n_checked;
}

NEEDS(folder())

TEST(counts_are_the_facts)
{
	struct dirent *entry;
	DIR *dir = opendir(folder());
	int n_checked = 0, n_sets = 0;

	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.' && takes_case(n_sets++, 100))
			n_checked += check_set(entry->d_name);
	closedir(dir);
	if (n_cases(100) == 100)
		ck_assert_int_ge(n_checked, 40);
}

/* Of the eight ranks no kernel says its arguments, and all are found. */
LOOP_TEST(every_collective_has_its_call, 8)
{
	struct sc_import_stats stats;
	struct sc_err err = {.code = SC_OK};
	char path[MAX_PATH];

	snprintf(path, sizeof(path), "%s/param-dlrm-8xv100/kineto/rank%d.pt.trace.json.gz",
		 folder(), _i);
	ck_assert_msg(import(path, &stats, &err) == 0, "%s", err.text);
	ck_assert_int_eq(stats.n_collectives, 8);
	ck_assert_int_eq(stats.n_joined, 8);
	ck_assert_int_eq(stats.rank, _i);
}

static const char *const REFUSED[][2] = {
	{"bytedance-straggler-st/timeline-ST.json.gz",
	 "none of its 6866 events is a profiler's (the first reason: unknown category)"},
	{"bytedance-straggler-st/result-ST.json.gz",
	 "not a trace: it looks like a JSON object that is no trace"},
};

LOOP_TEST(refused, N_OF(REFUSED))
{
	struct sc_import_stats stats;
	struct sc_err err = {.code = SC_OK};
	char path[MAX_PATH];

	snprintf(path, sizeof(path), "%s/%s", folder(), REFUSED[_i][0]);
	ck_assert_int_ne(import(path, &stats, &err), 0);
	ck_assert_str_eq(err.text, REFUSED[_i][1]);
}
