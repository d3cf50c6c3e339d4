/* Nsight Systems' SQLite exports: a trace for each process that used CUDA or NVTX. Times are ns from the
 * session's start, of which the UTC is in the file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/output.h"
#include "trace/import/import_nsys_priv.h"
#include "trace/import/inflate_stream.h"

enum { MAX_PROCESSES = 4096, COPY_BYTES = 1 << 16, THREAD_NAME_TYPE = 39 };

static const char MAGIC[] = "SQLite format 3"; /* with its NUL */

const struct nsys_table nsys_tables[] = {
	{"CUPTI_ACTIVITY_KIND_CUDA_EVENT", SC_EV_EVENT_RECORD, NULL, NULL},
	{"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", SC_EV_SYNC, "syncType", "ENUM_CUPTI_SYNC_TYPE"},
	{"CUPTI_ACTIVITY_KIND_KERNEL", SC_EV_KERNEL, NULL, NULL},
	{"CUPTI_ACTIVITY_KIND_MEMCPY", SC_EV_COPY, "copyKind", "ENUM_CUDA_MEMCPY_OPER"},
	{"CUPTI_ACTIVITY_KIND_MEMSET", SC_EV_SET, NULL, NULL},
	{"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", SC_EV_GRAPH, NULL, NULL},
	{"CUPTI_ACTIVITY_KIND_RUNTIME", SC_EV_API, "eventClass", NULL},
	{"NVTX_EVENTS", SC_EV_RANGE, "eventType", NULL},
	{"PROFILER_OVERHEAD", SC_EV_OVERHEAD, NULL, NULL},
	{NULL, 0, NULL, NULL},
};

static bool probe_nsys(const char *path, const char *head, size_t n)
{
	(void)path;
	return n >= sizeof(MAGIC) && memcmp(head, MAGIC, sizeof(MAGIC)) == 0;
}

/* --- a packed database is unpacked beside the output --- */

static int copy_out(struct sc_inflate *in, FILE *out, struct sc_err *err)
{
	char *buf = sc_xmalloc(COPY_BYTES);
	size_t n = COPY_BYTES;
	int rc = 0;

	while (rc == 0 && n == COPY_BYTES) {
		rc = sc_inflate_read(in, buf, &n, err);
		if (rc == 0 && fwrite(buf, 1, n, out) != n)
			rc = sc_err_set(err, SC_EIO, "cannot unpack: %s", strerror(errno));
	}
	free(buf);
	return rc;
}

static int unpack(const struct nsys_import *im, struct sc_output *to, struct sc_progress *progress,
		  struct sc_err *err)
{
	struct sc_inflate *in;
	FILE *out = sc_output_stream(to);
	int rc = sc_inflate_open(im->path, progress, &in, err);

	if (rc == 0) {
		rc = copy_out(in, out, err);
		im->stats->in_bytes = sc_inflate_bytes(in);
		im->stats->why_truncated = sc_inflate_damage(in);
		im->stats->truncated = im->stats->why_truncated != NULL;
		sc_inflate_close(in);
	}
	if (rc == 0 && fflush(out) != 0)
		rc = sc_err_at(err, SC_EIO, sc_output_part(to), 0, 0, "cannot write: %s",
			       strerror(errno));
	return rc;
}

/* --- processes --- */

struct processes {
	int64_t id[MAX_PROCESSES];
	size_t n;
};

static void add_processes(struct nsys_import *im, const char *table, struct processes *all)
{
	const char *whose = nsys_has_column(im, table, "globalTid") ? "globalTid" : "globalPid";
	sqlite3_stmt *stmt;
	char sql[256];

	snprintf(sql, sizeof(sql), "SELECT DISTINCT (%s >> 24) & 16777215 FROM %s ORDER BY 1",
		 whose, table);
	stmt = nsys_has_table(im, table) ? nsys_prepare(im, sql) : NULL;
	while (stmt && all->n < MAX_PROCESSES && nsys_step(im, stmt)) {
		int64_t id = sqlite3_column_int64(stmt, 0);
		size_t i = 0;

		while (i < all->n && all->id[i] != id)
			i++;
		if (i == all->n)
			all->id[all->n++] = id;
	}
	sqlite3_finalize(stmt);
}

/* Ranges that MPI or the program name: "MPI Rank 3". */
static int32_t rank_of_process(struct nsys_import *im)
{
	sqlite3_stmt *stmt =
		nsys_has_table(im, "NVTX_EVENTS") && nsys_has_column(im, "NVTX_EVENTS", "globalTid")
			? nsys_prepare(im, "SELECT text FROM NVTX_EVENTS WHERE "
					   "eventType = ?1 AND text LIKE 'MPI Rank %' "
					   "AND (globalTid >> 24) & 16777215 = ?2")
			: NULL;
	int32_t rank = -1;

	if (!stmt)
		return -1;
	sqlite3_bind_int64(stmt, 1, THREAD_NAME_TYPE);
	sqlite3_bind_int64(stmt, 2, im->process);
	if (nsys_step(im, stmt)) {
		const char *name = (const char *)sqlite3_column_text(stmt, 0);
		char *end;
		long value = name && strlen(name) > 9 ? strtol(name + 9, &end, 10) : -1;

		rank = value < 0 || value > INT32_MAX ? -1 : (int32_t)value;
	}
	sqlite3_finalize(stmt);
	return rank;
}

static void put_devices(struct nsys_import *im)
{
	sqlite3_stmt *stmt =
		nsys_has_table(im, "TARGET_INFO_GPU")
			? nsys_prepare(im, "SELECT id, name, smCount FROM TARGET_INFO_GPU")
			: NULL;

	while (stmt && nsys_step(im, stmt)) {
		int id = sqlite3_column_int(stmt, 0);
		const char *name = (const char *)sqlite3_column_text(stmt, 1);
		char key[64], sms[32];

		snprintf(key, sizeof(key), "device.%d.name", id);
		snprintf(sms, sizeof(sms), "%d", sqlite3_column_int(stmt, 2));
		sc_trace_writer_meta(im->out.writer, key, name ? name : "");
		snprintf(key, sizeof(key), "device.%d.sms", id);
		sc_trace_writer_meta(im->out.writer, key, sms);
	}
	sqlite3_finalize(stmt);
}

static int import_process(struct nsys_import *im, const struct sc_import_opts *opts,
			  struct sc_err *err)
{
	int rc;

	im->out = (struct sc_import_output){.in_path = im->path, .opts = opts};
	rc = sc_import_output_create(&im->out, "nsys", err);
	if (rc)
		return rc;
	im->out.identity.pid = (int32_t)im->process;
	im->out.identity.rank = rank_of_process(im);
	sc_trace_writer_base(
		im->out.writer,
		nsys_number(im, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", 0));
	put_devices(im);
	nsys_load_records(im);
	for (const struct nsys_table *table = nsys_tables; table->name; table++) {
		sqlite3_stmt *rows = nsys_select(im, table);

		while (rows && nsys_step(im, rows))
			nsys_emit(im, table, rows);
		sqlite3_finalize(rows);
	}
	return sc_import_output_finish(&im->out, im->stats, err);
}

/* With several processes each gets its number into its name. */
static int import_processes(struct nsys_import *im, const struct sc_import_opts *opts,
			    struct sc_err *err)
{
	struct processes *all = sc_xmalloc(sizeof(*all));
	char stem[256], name[300];
	int rc = 0;

	all->n = 0;
	rc = nsys_check(im, err);
	for (const struct nsys_table *table = nsys_tables; rc == 0 && table->name; table++)
		add_processes(im, table->name, all);
	if (rc == 0 && all->n == 0)
		rc = sc_err_at(err, SC_EVALUE, im->path, 0, 0,
			       "an SQLite file without CUDA or NVTX events of Nsight Systems");
	im->has_calls = nsys_number(im,
				    "SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME "
				    "WHERE eventClass IN (0, 1) LIMIT 1",
				    0) == 1;
	sc_import_stem(opts->stem ? opts->stem : im->path, stem, sizeof(stem));
	if (strlen(stem) > 7 && strcmp(stem + strlen(stem) - 7, ".sqlite") == 0)
		stem[strlen(stem) - 7] = '\0';
	for (size_t i = 0; rc == 0 && i < all->n; i++) {
		struct sc_import_opts own = *opts;

		snprintf(name, sizeof(name), all->n > 1 ? "%s.pid%lld" : "%s", stem,
			 (long long)all->id[i]);
		own.stem = name;
		own.rank = all->n > 1 ? -1 : opts->rank;
		own.other_rank = all->n > 1 ? -1 : opts->other_rank;
		im->process = all->id[i];
		rc = import_process(im, &own, err);
	}
	free(all);
	return rc;
}

/* Where the database is: `path` itself, or unpacked into a part that is never given a name. */
static int find_database(const struct nsys_import *im, const struct sc_import_opts *opts,
			 struct sc_output **unpacked, struct sc_err *err)
{
	char head[sizeof(MAGIC)] = "", name[4096];
	FILE *file = fopen(im->path, "rb");
	bool is_plain;
	int rc;

	if (!file)
		return sc_err_at(err, SC_EIO, im->path, 0, 0, "cannot read: %s", strerror(errno));
	is_plain = fread(head, 1, sizeof(head), file) == sizeof(head) &&
		   memcmp(head, MAGIC, sizeof(head)) == 0;
	if (is_plain && fseek(file, 0, SEEK_END) == 0)
		im->stats->in_bytes = ftell(file);
	fclose(file);
	if (is_plain)
		return 0;
	if (sc_make_folder(opts->dir, err))
		return -SC_EIO;
	if ((size_t)snprintf(name, sizeof(name), "%s/unpacked.sqlite", opts->dir) >= sizeof(name))
		return sc_err_at(err, SC_EIO, opts->dir, 0, 0,
				 "the name of the folder is too long");
	rc = sc_output_create(name, unpacked, err);
	return rc ? rc : unpack(im, *unpacked, opts->progress, err);
}

static int import_nsys(const char *path, const struct sc_import_opts *opts,
		       struct sc_import_stats *stats, struct sc_err *err)
{
	struct nsys_import im = {.path = path, .stats = stats};
	struct sc_output *unpacked = NULL;
	int rc = find_database(&im, opts, &unpacked, err);

	if (rc == 0)
		rc = nsys_open(&im, unpacked ? sc_output_part(unpacked) : path, err);
	if (rc == 0)
		rc = import_processes(&im, opts, err);
	if (rc)
		sc_import_output_discard(&im.out);
	SC_VEC_RELEASE(&im.records);
	sqlite3_close(im.db);
	if (unpacked)
		sc_output_discard(unpacked);
	return rc;
}

const struct sc_importer sc_import_nsys = {.name = "nsys", .probe = probe_nsys, .run = import_nsys};
