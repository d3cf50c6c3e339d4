/* stepcast import: traces of other tools into our own form. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json_out.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "trace/format/trace_file.h"
#include "trace/import/import.h"

enum { IMPORT_VERSION = 1, MAX_STEM = 256 };

struct import_args {
	struct sc_common common;
	const char *mate;
	int64_t rank, jobs;
	int json;
};

#define SC_ARGS struct import_args
static const struct sc_cli_option OPTIONS[] = {
	SC_OPT_INT(
		rank, "rank", "N", 0, INT32_MAX,
		"the rank of the one FILE (default: what it says, else its name, else its place)"),
	SC_OPT_IN(
		mate, "mate", "TRACE",
		"the Kineto trace of the same run as the execution trace FILE: its times, the ops of both"),
	SC_OPT_JOBS(jobs),
	SC_OPT_JSON(json),
	{0},
};

struct one_file {
	const char *path;
	struct sc_import_opts opts;
	struct sc_import_stats stats;
	struct sc_err err;
	bool failed;
};
struct files {
	struct one_file *at;
	size_t n;
};

static int import_one(void *shared, void *thread_ctx, size_t index, struct sc_err *err)
{
	struct files *files = shared;
	struct one_file *file = &files->at[index];

	(void)thread_ctx;
	(void)err;
	file->failed = sc_import(file->path, &file->opts, &file->stats, &file->err) != 0;
	return 0;
}

static bool is_stem_of_other(const struct files *files, size_t index, const char *stem)
{
	char other[MAX_STEM];

	for (size_t i = 0; i < files->n; i++) {
		sc_import_stem(files->at[i].path, other, sizeof(other));
		if (i != index && strcmp(stem, other) == 0)
			return true;
	}
	return false;
}

/* Files of one name, from different folders, must not become one; nor one that is numbered for that
 * and one that is called so. */
static const char *unlike_stem(const struct files *files, size_t index, struct sc_arena *arena)
{
	const char *stem;
	char own[MAX_STEM];

	sc_import_stem(files->at[index].path, own, sizeof(own));
	if (!is_stem_of_other(files, index, own))
		return NULL;
	stem = sc_arena_printf(arena, "%s-%zu", own, index + 1);
	while (is_stem_of_other(files, index, stem))
		stem = sc_arena_printf(arena, "%s-%zu", stem, index + 1);
	return stem;
}

/* The same bytes under two names would be two ranks that never wait for each other. */
static bool is_same_file(const char *left, const char *right)
{
	FILE *a = fopen(left, "rb"), *b = fopen(right, "rb");
	struct stat of_a, of_b;
	bool same = a && b && fstat(fileno(a), &of_a) == 0 && fstat(fileno(b), &of_b) == 0 &&
		    S_ISREG(of_a.st_mode) && S_ISREG(of_b.st_mode) &&
		    of_a.st_size == of_b.st_size && of_a.st_size > 0;

	for (int c = 0; same && c != EOF;) {
		c = getc(a);
		same = c == getc(b);
	}
	if (a)
		fclose(a);
	if (b)
		fclose(b);
	return same;
}

static int check_args(const struct import_args *args, struct sc_err *err)
{
	if (args->common.words.n == 0)
		return sc_err_set(err, SC_EUSAGE, "import needs a FILE");
	if (strcmp(args->common.output, "-") == 0)
		return sc_err_set(err, SC_EUSAGE, "import needs -o DIR, the folder to write to");
	if (args->common.words.n > 1 && (args->rank >= 0 || args->mate))
		return sc_err_set(err, SC_EUSAGE, "--%s is for one FILE; there are %zu",
				  args->rank >= 0 ? "rank" : "mate", args->common.words.n);
	for (size_t i = 0; i < args->common.words.n; i++)
		for (size_t j = 0; j < i; j++)
			if (is_same_file(args->common.words.at[j], args->common.words.at[i]))
				return sc_err_at(
					err, SC_ECONFLICT, args->common.words.at[i], 0, 0,
					"the same as %s, byte for byte: a recording is one rank",
					args->common.words.at[j]);
	return 0;
}

static void put_all_json(const void *result, struct sc_json *json)
{
	const struct files *files = result;
	json_t *list;

	sc_json_init(json, "stepcast/import", IMPORT_VERSION);
	list = sc_json_array(json, json->root, "files");
	for (const struct one_file *file = files->at; file < files->at + files->n; file++) {
		const struct sc_import_stats *s = &file->stats;
		json_t *object = sc_json_object(json, list, NULL), *skipped;

		sc_json_text(json, object, "file", file->path);
		if (file->failed) {
			sc_json_text(json, object, "error", file->err.text);
			continue;
		}
		sc_json_text(json, object, "importer", s->importer);
		sc_json_known_int(json, object, "rank", s->rank);
		sc_json_int(json, object, "entries", s->n_records);
		sc_json_int(json, object, "events", s->n_events);
		sc_json_int(json, object, "flows", s->n_flows);
		sc_json_int(json, object, "names", s->n_metadata);
		sc_json_int(json, object, "kernels", s->n_kernels);
		sc_json_int(json, object, "collectives", s->n_collectives);
		sc_json_int(json, object, "nccl_kernels", s->n_nccl);
		sc_json_int(json, object, "collectives_with_call", s->n_joined);
		sc_json_int(json, object, "collective_calls", s->n_calls);
		sc_json_int(json, object, "steps", s->n_steps);
		sc_json_int(json, object, "input_bytes", s->in_bytes);
		sc_json_int(json, object, "repaired_bytes", s->n_repaired);
		if (s->n_nodes) {
			sc_json_int(json, object, "nodes", s->n_nodes);
			sc_json_int(json, object, "ops_with_node", s->n_nodes_joined);
		}
		sc_json_text(json, object, "truncated", s->truncated);
		skipped = sc_json_object(json, object, "skipped");
		for (size_t k = 0; k < s->n_reasons; k++)
			sc_json_int(json, skipped, s->bad[k].reason, s->bad[k].n);
	}
}

static void put_all_text(const void *result, struct sc_strbuf *out)
{
	const struct files *files = result;

	for (size_t i = 0; i < files->n; i++) {
		const struct sc_import_stats *s = &files->at[i].stats;

		if (files->at[i].failed)
			continue;
		sc_strbuf_printf(out, "%s: %s", files->at[i].path, s->importer);
		if (s->rank >= 0)
			sc_strbuf_printf(out, ", rank %d", (int)s->rank);
		sc_strbuf_append(out, "\n");
		sc_strbuf_printf(out, "  %lld events of %lld entries", (long long)s->n_events,
				 (long long)s->n_records);
		if (s->n_flows)
			sc_strbuf_printf(out, ", %lld flows", (long long)s->n_flows);
		if (s->n_metadata)
			sc_strbuf_printf(out, ", %lld names", (long long)s->n_metadata);
		sc_strbuf_printf(out, "\n  %lld kernels, %lld of them collectives",
				 (long long)s->n_kernels, (long long)s->n_collectives);
		if (s->n_collectives)
			sc_strbuf_printf(out, " (%lld with their call)", (long long)s->n_joined);
		sc_strbuf_printf(out, ", %lld steps\n", (long long)s->n_steps);
		if (s->n_nodes)
			sc_strbuf_printf(out, "  %lld nodes, found for %lld ops of the mate\n",
					 (long long)s->n_nodes, (long long)s->n_nodes_joined);
		for (size_t k = 0; k < s->n_reasons; k++)
			sc_strbuf_printf(out, "  skipped: %lld, %s\n", (long long)s->bad[k].n,
					 s->bad[k].reason);
		if (s->n_repaired)
			sc_strbuf_printf(out, "  %lld bytes of names were not UTF-8\n",
					 (long long)s->n_repaired);
		if (s->truncated)
			sc_strbuf_printf(out, "  truncated: %s; what came before is kept\n",
					 s->truncated);
	}
}

static const struct sc_forms FORMS = {.json = put_all_json, .text = put_all_text};

static void warn_of_ends(const struct import_args *args, const struct files *files)
{
	for (size_t i = 0; i < files->n; i++) {
		const struct one_file *file = &files->at[i];

		if (!file->failed && file->stats.truncated)
			sc_cli_warn(
				&args->common,
				"%s ends early: %s; what came before is kept, the trace is partial",
				file->path, file->stats.truncated);
		if (!file->failed && file->stats.n_nodes_joined < file->stats.n_nodes / 2)
			sc_cli_warn(
				&args->common,
				"%s: few of its nodes are found in its mate (n=%lld of %lld): they "
				"may be of different runs",
				file->path, (long long)file->stats.n_nodes_joined,
				(long long)file->stats.n_nodes);
	}
}

/* Two files of one rank are one too many: replay takes each for a rank of its own. */
static void warn_of_ranks(const struct import_args *args, const struct files *files)
{
	for (size_t i = 0; i < files->n; i++) {
		for (size_t j = 0; j < i; j++) {
			const struct one_file *a = &files->at[j], *b = &files->at[i];

			if (!a->failed && !b->failed && a->stats.rank >= 0 &&
			    a->stats.rank == b->stats.rank)
				sc_cli_warn(&args->common, "rank %d is in both %s and %s",
					    (int)a->stats.rank, a->path, b->path);
		}
	}
}

/* Traces that lie in the folder already. */
struct earlier {
	const char *const *files;
	struct timespec *written;
	size_t n;
};

static struct earlier find_earlier(const char *dir, struct sc_arena *arena)
{
	struct earlier e = {.n = 0};
	struct stat st;

	if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode) ||
	    sc_trace_list(dir, arena, &e.files, &e.n, NULL) != 0)
		return (struct earlier){.n = 0};
	e.written = sc_arena_calloc(arena, e.n, sizeof(*e.written));
	for (size_t i = 0; i < e.n; i++)
		if (stat(e.files[i], &st) == 0)
			e.written[i] = st.st_mtim;
	return e;
}

/* Warns of earlier traces not written anew, because they would be taken for ranks of this run. */
static void warn_of_earlier(const struct import_args *args, const struct earlier *e)
{
	const char *first = NULL, *replaced = NULL;
	struct stat st;
	size_t n = 0, n_replaced = 0;

	for (size_t i = 0; i < e->n; i++) {
		if (stat(e->files[i], &st) != 0 || st.st_mtim.tv_sec != e->written[i].tv_sec ||
		    st.st_mtim.tv_nsec != e->written[i].tv_nsec) {
			replaced = replaced ? replaced : e->files[i];
			n_replaced++;
			continue;
		}
		first = first ? first : e->files[i];
		n++;
	}
	if (n_replaced)
		sc_cli_warn(&args->common,
			    "traces of an earlier import were replaced: n=%zu first=%s", n_replaced,
			    replaced);
	if (n)
		sc_cli_warn(&args->common,
			    "the folder has traces of an earlier import, which belong to the run "
			    "for replay: n=%zu first=%s",
			    n, first);
}

static int import(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct import_args *args = into;
	struct sc_arena *arena = call->arena;
	struct files files;
	struct sc_work work = {.item = import_one, .shared = &files};
	struct sc_progress *progress;
	const struct sc_arg_list *words = &args->common.words;
	struct earlier earlier;
	size_t total = 0;
	struct stat st;
	int rc = check_args(args, err);

	if (rc)
		return rc;
	earlier = find_earlier(args->common.output, arena);
	files.n = words->n;
	files.at = sc_arena_calloc(arena, words->n, sizeof(*files.at));
	for (size_t i = 0; i < words->n; i++) {
		files.at[i].path = words->at[i];
		if (stat(words->at[i], &st) == 0 && st.st_size > 0)
			total += (size_t)st.st_size;
	}
	work.n_items = files.n;
	work.n_jobs = sc_cli_jobs(call, args->jobs);
	progress = sc_cli_progress(&args->common, "importing", total);
	for (size_t i = 0; i < files.n; i++)
		files.at[i].opts = (struct sc_import_opts){
			.dir = args->common.output,
			.rank = (int32_t)args->rank,
			.other_rank = words->n > 1 ? (int32_t)i : -1,
			.stem = unlike_stem(&files, i, arena),
			.mate = args->mate,
			.progress = progress,
		};
	rc = sc_parallel_for(&work, err);
	sc_progress_destroy(progress);
	if (rc)
		return rc;
	for (size_t i = 0; i < files.n; i++)
		if (files.at[i].failed)
			call->exit_code = sc_cli_fail(&files.at[i].err);
	warn_of_ends(args, &files);
	warn_of_ranks(args, &files);
	warn_of_earlier(args, &earlier);
	return sc_cli_give(call, &FORMS, &files, err);
}

const struct sc_command sc_command_import = {
	.name = "import",
	.summary = "read traces of other tools into stepcast's trace files",
	.synopsis = "FILE... -o DIR [--rank N] [--mate TRACE] [--jobs N] [--json]",
	.details =
		"Reads traces and writes them to the folder DIR, one trace file for each FILE or rank; replay, info and "
		"export take that folder. The contents of a FILE, packed with gzip or not, say what it is:\n\n"
		"  Kineto           what torch.profiler writes, of any year, NVIDIA and AMD\n"
		"  execution trace  PyTorch's ExecutionTraceObserver with --mate, joined to the Kineto trace\n"
		"  Chakra           protobuf, of nodes with start times\n"
		"  Nsight Systems   exported as SQLite\n"
		"  rocprofv3        JSON, or NAME_kernel_trace.csv with the tables beside it\n"
		"  timeline         operations of a training job as CSV\n\n"
		"Several FILEs are several ranks. Damaged events are skipped and counted by reason; all that is whole of a "
		"file that was cut is kept.\n\n"
		"  stepcast import worker*.pt.trace.json.gz -o run",
	.words = "file",
	.options = OPTIONS,
	.output_arg = "DIR",
	.output_help = "the folder the trace files are written to",
	.args_bytes = sizeof(struct import_args),
	.defaults = &(const struct import_args){.rank = -1},
	.run = import,
};
