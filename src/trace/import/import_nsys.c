/* Nsight Systems' SQLite exports: a trace for each process that used CUDA or NVTX. Times are ns
 * from the session's start, of which the UTC is in the file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/output.h"
#include "base/strbuf.h"
#include "trace/import/import_nsys_priv.h"
#include "trace/import/inflate_stream.h"

static const struct nsys_table nsys_tables[] = {
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

/* The columns differ by version: each is looked for before it is asked for. Only tables are read,
 * never views, and the schema is not trusted: a file cannot bring code of its own. */

enum { MAX_VALUE_BYTES = 16 << 20 };

/* Rows without a time of their own (records of events) have that of their call. */
static const char CALLS[] = "CUPTI_ACTIVITY_KIND_RUNTIME";
/* Waits have the correlation of the record that they are for, which has their eventSyncId. */
static const char RECORDS[] = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";

/* Names of a column, the first that is there; the second is a fallback. */
static const char *const COLUMNS[NSYS_N_COLUMNS][2] = {
	[NSYS_START] = {"start", "timestamp"},
	[NSYS_END] = {"end", NULL},
	[NSYS_WHOSE] = {"globalTid", "globalPid"},
	[NSYS_DEVICE] = {"deviceId", NULL},
	[NSYS_CONTEXT] = {"contextId", NULL},
	[NSYS_STREAM] = {"streamId", NULL},
	[NSYS_CORRELATION] = {"correlationId", NULL},
	[NSYS_BYTES] = {"bytes", NULL},
	[NSYS_FROM] = {"srcKind", NULL},
	[NSYS_TO] = {"dstKind", NULL},
	[NSYS_EVENT] = {"eventId", NULL},
	[NSYS_GRID_X] = {"gridX", NULL},
	[NSYS_GRID_Y] = {"gridY", NULL},
	[NSYS_GRID_Z] = {"gridZ", NULL},
	[NSYS_BLOCK_X] = {"blockX", NULL},
	[NSYS_BLOCK_Y] = {"blockY", NULL},
	[NSYS_BLOCK_Z] = {"blockZ", NULL},
	[NSYS_REGISTERS] = {"registersPerThread", NULL},
	[NSYS_STATIC_SHARED] = {"staticSharedMemory", NULL},
	[NSYS_DYNAMIC_SHARED] = {"dynamicSharedMemory", NULL},
	[NSYS_GRAPH] = {"graphId", NULL},
};
/* Columns with the id of a name; the first that is there. */
static const char *const NAME_IDS[] = {"demangledName", "shortName", "nameId", "textId"};

static int nsys_open(struct nsys_import *im, const char *path, struct sc_err *err)
{
	int rc = sqlite3_open_v2(path, &im->db, SQLITE_OPEN_READONLY, NULL);

	if (rc != SQLITE_OK)
		return sc_err_at(err, SC_EIO, im->path, 0, 0, "cannot read: %s",
				 sqlite3_errstr(rc));
	sqlite3_limit(im->db, SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES);
	sqlite3_db_config(im->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(im->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	return 0;
}

/* A statement of ours; NULL if the database cannot answer it. */
static sqlite3_stmt *nsys_prepare(struct nsys_import *im, const char *sql)
{
	sqlite3_stmt *stmt = NULL;

	sqlite3_prepare_v2(im->db, sql, -1, &stmt, NULL);
	return stmt;
}

/* The next row: false at the end; damage is noted in the statistics. */
static bool nsys_step(struct nsys_import *im, sqlite3_stmt *stmt)
{
	int rc = sqlite3_step(stmt);

	if (rc == SQLITE_ROW)
		return true;
	if (rc != SQLITE_DONE)
		im->stats->truncated = sqlite3_errstr(rc);
	return false;
}

/* One number, or `otherwise`. */
static int64_t nsys_number(struct nsys_import *im, const char *sql, int64_t otherwise)
{
	sqlite3_stmt *stmt = nsys_prepare(im, sql);
	int64_t value = otherwise;

	if (stmt && sqlite3_step(stmt) == SQLITE_ROW &&
	    sqlite3_column_type(stmt, 0) == SQLITE_INTEGER)
		value = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return value;
}

static bool nsys_has_table(struct nsys_import *im, const char *table)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
		 "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '%s' "
		 "AND sql LIKE 'CREATE TABLE%%'",
		 table);
	return nsys_number(im, sql, 0) == 1;
}

/* A statement about a table; NULL if it is not there or the database cannot answer. */
static sqlite3_stmt *nsys_ask(struct nsys_import *im, const char *table, const char *sql)
{
	return nsys_has_table(im, table) ? nsys_prepare(im, sql) : NULL;
}

static bool nsys_has_column(struct nsys_import *im, const char *table, const char *column)
{
	char sql[256];

	snprintf(sql, sizeof(sql), "SELECT 1 FROM pragma_table_info('%s') WHERE name = '%s'", table,
		 column);
	return nsys_number(im, sql, 0) == 1;
}

/* A text of the table's own before one by id. */
static void put_name(struct nsys_import *im, const struct nsys_table *table, struct sc_strbuf *sql)
{
	sc_strbuf_append(sql, "coalesce(NULL");
	if (nsys_has_column(im, table->name, "text"))
		sc_strbuf_append(sql, ", t.text");
	for (size_t i = 0; i < sizeof(NAME_IDS) / sizeof(NAME_IDS[0]); i++) {
		if (nsys_has_column(im, table->name, NAME_IDS[i]))
			sc_strbuf_printf(sql, ", (SELECT value FROM StringIds WHERE id = t.%s)",
					 NAME_IDS[i]);
	}
	sc_strbuf_append(sql, ", NULL)");
}

static const char *column_of(struct nsys_import *im, const struct nsys_table *table, int column)
{
	if (column == NSYS_KIND)
		return table->kind && nsys_has_column(im, table->name, table->kind) ? table->kind
										    : NULL;
	for (int i = 0; i < 2; i++) {
		const char *name = COLUMNS[column][i];

		if (name && nsys_has_column(im, table->name, name))
			return name;
	}
	return NULL;
}

/* Checks that each table of activities has what it must; names what is missing. */
static int nsys_check(struct nsys_import *im, struct sc_err *err)
{
	static const int needed[] = {NSYS_START, NSYS_END, NSYS_WHOSE};

	for (const struct nsys_table *table = nsys_tables; table->name; table++) {
		bool is_activity = strncmp(table->name, "CUPTI_ACTIVITY_KIND_", 20) == 0 &&
				   nsys_has_table(im, table->name) &&
				   nsys_has_column(im, table->name, "correlationId") &&
				   strstr("KERNEL MEMCPY MEMSET RUNTIME", table->name + 20);

		for (size_t i = 0; is_activity && i < sizeof(needed) / sizeof(needed[0]); i++)
			if (!column_of(im, table, needed[i]))
				return sc_err_at(
					err, SC_EFORMAT, im->path, 0, 0,
					"the table %s has no column \"%s\": export it again with "
					"nsys export --type sqlite",
					table->name,
					needed[i] == NSYS_WHOSE ? "globalPid"
								: COLUMNS[needed[i]][0]);
		if (is_activity && !nsys_has_table(im, "StringIds"))
			return sc_err_at(
				err, SC_EFORMAT, im->path, 0, 0,
				"no table StringIds, which has the names of kernels and calls: export "
				"it again with nsys export --type sqlite");
	}
	return 0;
}

static bool has_calls(struct nsys_import *im)
{
	return nsys_has_table(im, CALLS) && nsys_has_column(im, CALLS, "correlationId") &&
	       nsys_has_column(im, CALLS, "start");
}

static bool has_records(struct nsys_import *im, const struct nsys_table *table)
{
	return table->cls == SC_EV_SYNC && nsys_has_column(im, table->name, "eventSyncId") &&
	       nsys_has_table(im, RECORDS) && column_of(im, &nsys_tables[0], NSYS_WHOSE) &&
	       nsys_has_column(im, RECORDS, "eventSyncId") &&
	       nsys_has_column(im, RECORDS, "correlationId") && column_of(im, table, NSYS_WHOSE);
}

static void put_column(struct nsys_import *im, const struct nsys_table *table, int column,
		       struct sc_strbuf *sql)
{
	const char *name = column_of(im, table, column);

	if (column == NSYS_NAME)
		put_name(im, table, sql);
	else if (column == NSYS_LABEL && table->labels && nsys_has_table(im, table->labels) &&
		 nsys_has_column(im, table->labels, "label") && column_of(im, table, NSYS_KIND))
		sc_strbuf_printf(sql, "(SELECT label FROM %s WHERE id = t.%s)", table->labels,
				 table->kind);
	else if (column == NSYS_START && !name)
		sc_strbuf_append(sql, has_calls(im) ? "call.start" : "NULL");
	else if (column == NSYS_RECORD && has_records(im, table))
		sc_strbuf_append(sql, "record.correlation");
	else if (name)
		sc_strbuf_printf(sql, "t.\"%s\"", name);
	else
		sc_strbuf_append(sql, "NULL");
}

/* Rows of a process as NSYS_N_COLUMNS columns; NULL if there is no such table. */
static sqlite3_stmt *nsys_select(struct nsys_import *im, const struct nsys_table *table)
{
	const char *whose;
	struct sc_strbuf sql = {0};
	sqlite3_stmt *stmt = NULL;

	if (!nsys_has_table(im, table->name))
		return NULL;
	whose = column_of(im, table, NSYS_WHOSE);
	sc_strbuf_append(&sql, "SELECT ");
	for (int i = 0; i < NSYS_N_COLUMNS; i++) {
		sc_strbuf_append(&sql, i ? ", " : "");
		put_column(im, table, i, &sql);
	}
	sc_strbuf_printf(&sql, " FROM %s t", table->name);
	if (!column_of(im, table, NSYS_START) && has_calls(im))
		sc_strbuf_printf(&sql,
				 " LEFT JOIN (SELECT correlationId AS id, min(start) AS start "
				 "FROM %s GROUP BY 1) call ON call.id = t.correlationId",
				 CALLS);
	if (has_records(im, table))
		sc_strbuf_printf(&sql,
				 " LEFT JOIN (SELECT eventSyncId AS id, max(correlationId) AS "
				 "correlation FROM %s WHERE id <> 0 AND (%s >> 24) & 16777215 = ?1 "
				 "GROUP BY 1) record ON record.id = "
				 "t.eventSyncId",
				 RECORDS, column_of(im, &nsys_tables[0], NSYS_WHOSE));
	if (whose)
		sc_strbuf_printf(&sql, " WHERE (t.%s >> 24) & 16777215 = ?1", whose);
	stmt = nsys_prepare(im, sc_strbuf_get(&sql));
	if (stmt && whose)
		sqlite3_bind_int64(stmt, 1, im->process);
	sc_strbuf_release(&sql);
	return stmt;
}

enum { MAX_PROCESSES = 4096, COPY_BYTES = 1 << 16, THREAD_NAME_TYPE = 39 };

static const char MAGIC[] = "SQLite format 3"; /* with its NUL */

static bool probe_nsys(const char *head, size_t n)
{
	return n >= sizeof(MAGIC) && memcmp(head, MAGIC, sizeof(MAGIC)) == 0;
}

/* --- a packed database is unpacked beside the output --- */

static int unpack_database(const struct nsys_import *im, struct sc_output *to,
			   struct sc_progress *progress, struct sc_err *err)
{
	size_t n = COPY_BYTES;
	struct sc_inflate *in;
	char *buf;
	FILE *out = sc_output_stream(to);
	int rc = sc_inflate_open(im->path, progress, &in, err);

	if (rc)
		return rc;
	buf = sc_xmalloc(COPY_BYTES);
	while (rc == 0 && n == COPY_BYTES) {
		rc = sc_inflate_read(in, buf, &n, err);
		if (rc == 0 && fwrite(buf, 1, n, out) != n)
			rc = sc_err_set(err, SC_EIO, "cannot unpack: %s", strerror(errno));
	}
	free(buf);
	if (rc == 0 && fflush(out) != 0)
		rc = sc_err_at(err, SC_EIO, sc_output_part(to), 0, 0, "cannot write: %s",
			       strerror(errno));
	im->stats->in_bytes = sc_inflate_bytes(in);
	im->stats->truncated = sc_inflate_damage(in);
	sc_inflate_close(in);
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
	stmt = nsys_ask(im, table, sql);
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

/* Threads that MPI or the program name: "MPI Rank 3". */
static int32_t rank_of_process(struct nsys_import *im)
{
	int64_t rank = -1;
	char sql[256];

	snprintf(sql, sizeof(sql),
		 "SELECT CAST(substr(text, 10) AS INTEGER) FROM NVTX_EVENTS WHERE eventType = %d "
		 "AND text LIKE 'MPI Rank _%%' AND (globalTid >> 24) & 16777215 = %lld",
		 THREAD_NAME_TYPE, (long long)im->process);
	if (nsys_has_table(im, "NVTX_EVENTS"))
		rank = nsys_number(im, sql, -1);
	return rank < 0 || rank > INT32_MAX ? -1 : (int32_t)rank;
}

static void put_devices(struct nsys_import *im)
{
	sqlite3_stmt *stmt =
		nsys_ask(im, "TARGET_INFO_GPU", "SELECT id, name, smCount FROM TARGET_INFO_GPU");

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
	im->out.identity.base_utc_ns =
		nsys_number(im, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", 0);
	put_devices(im);
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
		rc = sc_err_at(
			err, SC_EVALUE, im->path, 0, 0,
			nsys_number(im, "SELECT 1 FROM sqlite_master WHERE name LIKE 'rocpd%'", 0)
				? "rocprofv3's rocpd database: turn it into CSV (rocpd convert "
				  "--output-format csv), and import NAME_kernel_trace.csv"
				: "an SQLite file without CUDA or NVTX events of Nsight Systems");
	if (rc == 0 && !nsys_number(im,
				    "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name "
				    "GLOB 'CUPTI_ACTIVITY_KIND_*' LIMIT 1",
				    0))
		rc = sc_err_at(err, SC_EVALUE, im->path, 0, 0,
			       "it has no CUDA calls or activities: record it with nsys profile "
			       "--trace=cuda,nvtx");
	im->has_calls = nsys_number(im,
				    "SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME "
				    "WHERE eventClass IN (0, 1) LIMIT 1",
				    0) == 1;
	sc_import_stem(opts->stem ? opts->stem : im->path, stem, sizeof(stem));
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

/* Finds the database: `path` itself, or unpacked into a part that is never given a name. */
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
	rc = sc_output_create(name, false, unpacked, err);
	return rc ? rc : unpack_database(im, *unpacked, opts->progress, err);
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
	sqlite3_close(im.db);
	if (unpacked)
		sc_output_discard(unpacked);
	return rc;
}

const struct sc_importer sc_import_nsys = {.name = "nsys", .probe = probe_nsys, .run = import_nsys};
