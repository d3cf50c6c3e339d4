/* Import of Kineto JSON against loading the same file whole, by python3 and by jansson; and the
 * memory of importing a large file. bench_import [MIB [LARGE_MIB]]: sizes of the generated traces
 * (default 64, and no large one). */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace/import/import.h"

enum { N_RUNS = 3, MIB = 1 << 20 };

/* The processor time of all children that have ended. */
static double children_s(const struct rusage *usage)
{
	return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
	       (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1e-6;
}

/* An op, its launch, its kernel and the flow between, as libkineto prints them. */
static void put_group(FILE *out, int64_t i)
{
	double ts = 4458676416788.0 + (double)i * 11.375;
	long long id = (long long)i;

	fprintf(out,
		"  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::op_%lld\", \"pid\": 2910249, \"tid\": "
		"2919752,\n    \"ts\": %.3f, \"dur\": 9.107,\n    \"args\": {\n      \"External id\": %lld,"
		"\"Record function id\": 0, \"Concrete Inputs\": [\"\", \"\", \"-1\"], \"Input type\": [\"float\", "
		"\"float\", \"Scalar\"], \"Input Dims\": [[%lld, 1024], [1024], []], \"Ev Idx\": %lld\n    }\n  },\n",
		id % 83, ts, id, id % 7 * 128, id);
	fprintf(out,
		"  {\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 2910249, "
		"\"tid\": 2919752,\n    \"ts\": %.3f, \"dur\": 3.018,\n    \"args\": {\n      \"External id\": %lld, "
		"\"cbid\": 211, \"correlation\": %lld\n    }\n  },\n  {\n    \"ph\": \"s\", \"id\": %lld, \"pid\": 2910249, "
		"\"tid\": 2919752, \"ts\": %.3f,\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"\n  },\n",
		ts + 3.5, id, id, id, ts + 3.5);
	fprintf(out,
		"  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void at::native::vectorized_elementwise_kernel<4, "
		"at::native::Functor_%lld<float>, at::detail::Array<char*, 2> >(int, at::detail::Array<char*, 2>)\", "
		"\"pid\": 0, \"tid\": 7,\n    \"ts\": %.3f, \"dur\": %.3f,\n    \"args\": {\n      \"External id\": %lld, "
		"\"queued\": 0, \"device\": 0, \"context\": 1,\n      \"stream\": 7, \"correlation\": %lld,\n      "
		"\"registers per thread\": 40, \"shared memory\": 400, \"blocks per SM\": 4.740741, \"warps per SM\": "
		"75.851852,\n      \"grid\": [%lld, 1, 1],\n      \"block\": [512, 1, 1],\n      \"est. achieved "
		"occupancy %%\": 75\n    }\n  },\n",
		id % 61, ts + 20.0, 1.0 + (double)(id % 97) * 0.271, id, id, 1 + id % 200);
}

static int64_t generate(const char *path, int64_t n_bytes)
{
	FILE *out = fopen(path, "wb");
	int64_t n_groups = 0;

	if (!out)
		exit(EXIT_FAILURE);
	fprintf(out, "{\n  \"schemaVersion\": 1,\n  \"traceEvents\": [\n");
	while (ftello(out) < n_bytes)
		put_group(out, n_groups++);
	fprintf(out,
		"  {\"name\": \"end\", \"ph\": \"i\", \"ts\": 1}\n  ],\n  \"baseTimeNanoseconds\": 1711964646000000000\n}\n");
	if (fclose(out) != 0)
		exit(EXIT_FAILURE);
	return n_groups * 4 + 1;
}

static void import_file(const char *path, const char *dir, int64_t n_want)
{
	struct sc_import_opts opts = {.dir = dir, .rank = 0, .other_rank = -1, .stem = "bench"};
	struct sc_import_stats stats;
	struct sc_err err = {.code = SC_OK};

	if (sc_import(path, &opts, &stats, &err) || stats.n_records != n_want) {
		fprintf(stderr, "import: %s\n", err.text);
		exit(EXIT_FAILURE);
	}
}

/* In a process of its own, so that its memory can be told: the largest of all so far. Returns
 * its processor time in seconds. */
static double measure(void (*task)(const char *path, const char *dir, int64_t n_want),
		      const char *path, const char *dir, int64_t n_want, double *rss_mib)
{
	struct rusage usage;
	double before;
	pid_t child;
	int status;

	if (getrusage(RUSAGE_CHILDREN, &usage) != 0)
		exit(EXIT_FAILURE);
	before = children_s(&usage);
	child = fork();
	if (child == 0) {
		task(path, dir, n_want);
		_exit(EXIT_SUCCESS);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0 ||
	    getrusage(RUSAGE_CHILDREN, &usage) != 0)
		exit(EXIT_FAILURE);
	*rss_mib = (double)usage.ru_maxrss / 1024;
	return children_s(&usage) - before;
}

static void load_jansson(const char *path, const char *dir, int64_t n_want)
{
	json_t *root = json_load_file(path, 0, NULL);

	(void)dir;
	if ((int64_t)json_array_size(json_object_get(root, "traceEvents")) != n_want)
		exit(EXIT_FAILURE);
}

static void load_python(const char *path, const char *dir, int64_t n_want)
{
	(void)dir;
	(void)n_want;
	execlp("python3", "python3", "-c", "import json,sys; json.load(open(sys.argv[1]))", path,
	       (char *)NULL);
	_exit(EXIT_FAILURE);
}

static double best(void (*task)(const char *path, const char *dir, int64_t n_want),
		   const char *path, const char *dir, int64_t n_want, double *rss_mib)
{
	double least = 0;

	for (int i = 0; i < N_RUNS; i++) {
		double s = measure(task, path, dir, n_want, rss_mib);

		least = i == 0 || s < least ? s : least;
	}
	return least;
}

static void report(const char *what, double value, const char *unit)
{
	printf("%s\t%.1f\t%s\n", what, value, unit);
	fflush(stdout);
}

static void compare(const char *path, const char *dir, int64_t n_mib)
{
	int64_t n_events = generate(path, n_mib * MIB);
	double mb = (double)n_mib * MIB * 1e-6, rss, own, other;

	own = best(import_file, path, dir, n_events, &rss);
	report("import, one core", mb / own, "MB/s");
	report("import, one core", (double)n_events / own * 1e-6, "M events/s");
	report("import, memory", rss, "MiB");
	other = measure(load_jansson, path, dir, n_events, &rss);
	report("jansson, whole document", mb / other, "MB/s");
	report("jansson, memory", rss, "MiB");
	report("import is faster than jansson", other / own, "times");
	other = measure(load_python, path, dir, n_events, &rss);
	report("python3 json.load", mb / other, "MB/s");
	report("import is faster than python3", other / own, "times");
}

int main(int argc, char **argv)
{
	int64_t n_mib = argc > 1 ? strtoll(argv[1], NULL, 10) : 64;
	int64_t n_large = argc > 2 ? strtoll(argv[2], NULL, 10) : 0;
	char dir[] = "bench-import-XXXXXX", path[64], out[64];
	double rss;

	if (!mkdtemp(dir))
		return EXIT_FAILURE;
	snprintf(path, sizeof(path), "%s/trace.json", dir);
	snprintf(out, sizeof(out), "%s/bench.rank0.sctrace", dir);
	if (n_large > 0) {
		int64_t n_events = generate(path, n_large * MIB);
		double s = measure(import_file, path, dir, n_events, &rss);

		report("import of the large file", (double)n_large * MIB * 1e-6 / s, "MB/s");
		report("import of the large file, memory", rss, "MiB");
	}
	compare(path, dir, n_mib);
	unlink(path);
	unlink(out);
	rmdir(dir);
	return EXIT_SUCCESS;
}
