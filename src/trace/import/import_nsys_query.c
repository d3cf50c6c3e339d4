/* Which columns there are differs by version: each is looked for before it is asked for. Only tables
 * are read, never views, and the schema is not trusted: a file cannot bring code of its own. */
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "trace/import/import_nsys_priv.h"

enum { MAX_VALUE_BYTES = 16 << 20 };

/* Rows without a time of their own (records of events) have that of their call. */
static const char CALLS[] = "CUPTI_ACTIVITY_KIND_RUNTIME";

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
	[NSYS_EVENT] = {"eventId", NULL},
	[NSYS_EVENT_SYNC] = {"eventSyncId", NULL},
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

int nsys_open(struct nsys_import *im, const char *path, struct sc_err *err)
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

sqlite3_stmt *nsys_prepare(struct nsys_import *im, const char *sql)
{
	sqlite3_stmt *stmt = NULL;

	if (sqlite3_prepare_v2(im->db, sql, -1, &stmt, NULL) == SQLITE_OK)
		return stmt;
	sqlite3_finalize(stmt);
	return NULL;
}

bool nsys_step(struct nsys_import *im, sqlite3_stmt *stmt)
{
	int rc = sqlite3_step(stmt);

	if (rc == SQLITE_ROW)
		return true;
	if (rc != SQLITE_DONE) {
		im->stats->truncated = true;
		im->stats->why_truncated = sqlite3_errstr(rc);
	}
	return false;
}

int64_t nsys_number(struct nsys_import *im, const char *sql, int64_t otherwise)
{
	sqlite3_stmt *stmt = nsys_prepare(im, sql);
	int64_t value = otherwise;

	if (stmt && sqlite3_step(stmt) == SQLITE_ROW &&
	    sqlite3_column_type(stmt, 0) == SQLITE_INTEGER)
		value = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return value;
}

bool nsys_has_table(struct nsys_import *im, const char *table)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
		 "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '%s' "
		 "AND sql LIKE 'CREATE TABLE%%'",
		 table);
	return nsys_number(im, sql, 0) == 1;
}

bool nsys_has_column(struct nsys_import *im, const char *table, const char *column)
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

int nsys_check(struct nsys_import *im, struct sc_err *err)
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
	else if (name)
		sc_strbuf_printf(sql, "t.\"%s\"", name);
	else
		sc_strbuf_append(sql, "NULL");
}

sqlite3_stmt *nsys_select(struct nsys_import *im, const struct nsys_table *table)
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
	if (whose)
		sc_strbuf_printf(&sql, " WHERE (t.%s >> 24) & 16777215 = ?", whose);
	stmt = nsys_prepare(im, sc_strbuf_get(&sql));
	if (stmt && whose)
		sqlite3_bind_int64(stmt, 1, im->process);
	sc_strbuf_release(&sql);
	return stmt;
}
