/* The plan table that TorchRec's planner prints (torchrec/distributed/planner/stats.py): a header
 * of column names, right-aligned cells three spaces apart, a frame of '#', perhaps a logger's
 * prefix. Ranks are printed sorted, so that shards of unlike width cannot be told apart: the
 * narrower last one is taken to be on the last rank. The ranks of a host are not printed. */
#include <string.h>

#include "base/num.h"
#include "core/embedding/shard_plan_priv.h"

#define GAP "   "
enum { MAX_CELLS = 64, MAX_RANKS = 1 << 20 };
enum column { FQN, SHARDING, KERNEL, CACHE, DIM, ROWS, RANKS, N_COLUMNS };
static const char *const COLUMNS[N_COLUMNS] = {
	"FQN", "Sharding", "Compute Kernel", "Cache Load Factor", "Emb Dim", "Hash Size", "Ranks",
};
static const struct sc_name TYPES[] = {
	{"DP", SC_DATA_PARALLEL},
	{"TW", SC_TABLE_WISE},
	{"CW", SC_COLUMN_WISE},
	{"RW", SC_ROW_WISE},
	{"TWRW", SC_TABLE_ROW_WISE},
	{"TWCW", SC_TABLE_COLUMN_WISE},
	{"GS", SC_GRID},
	{0},
};

struct table_reader {
	const struct sc_plan_reader *common;
	const char *file;
	struct sc_shard_plan *plan;
	int column[N_COLUMNS]; /* cell of it, or -1 */
	size_t n_cells;        /* of the header; 0: not in the table */
	unsigned line;
	const char *line_at; /* a copy of it, in which cells end with a NUL */
	sc_plan_ranks ranks;
};

static int cell_fail(const struct table_reader *r, const char *at, struct sc_err *err,
		     const char *what)
{
	return sc_err_at(err, SC_EVALUE, r->file, r->line, (unsigned)(at - r->line_at) + 1, "%s",
			 what);
}

/* The cells of a line between '#' and '#'. */
static size_t split_cells(char *line, char **cells)
{
	char *at = strchr(line, '#'), *end = line + strlen(line);
	size_t n_cells = 0;

	if (!at)
		return 0;
	at++;
	while (end > at && strchr(" \r#", end[-1]))
		end--;
	*end = '\0';
	while (n_cells < MAX_CELLS && *(at += strspn(at, " "))) {
		cells[n_cells++] = at;
		at = strstr(at, GAP);
		if (!at)
			break;
		*at++ = '\0';
	}
	return n_cells;
}

/* Finds the columns of the table of parameters. */
static int read_header(struct table_reader *r, char *const *cells, size_t n_cells,
		       struct sc_err *err)
{
	r->n_cells = n_cells;
	for (int column = 0; column < N_COLUMNS; column++) {
		r->column[column] = -1;
		for (size_t i = 0; i < n_cells; i++)
			if (strncmp(cells[i], COLUMNS[column], strlen(COLUMNS[column])) == 0)
				r->column[column] = (int)i;
		if (r->column[column] < 0 && column != CACHE)
			return sc_err_at(err, SC_EFORMAT, r->file, r->line, 1,
					 "the plan table has no column \"%s\"", COLUMNS[column]);
	}
	return 0;
}

static bool read_int(const char *text, int64_t min, int64_t max, int64_t *out)
{
	return sc_parse_int(text, out) && *out >= min && *out <= max;
}

/* "128", or "1024 (128)" with the width of a slice. */
static bool read_dim(char *cell, int64_t *dim, int64_t *slice)
{
	char *open = strstr(cell, " ("), *close = open ? strchr(open, ')') : NULL;

	*slice = 0;
	if (open) {
		if (!close || close[1])
			return false;
		*open = *close = '\0';
		if (!read_int(open + 2, 1, SC_MAX_TABLE_DIM, slice))
			return false;
	}
	return read_int(cell, 1, SC_MAX_TABLE_DIM, dim) && *slice <= *dim;
}

/* Slices of `width` columns on the ranks in turn; `n_rows` row slices each (GRID). */
static bool add_columns(struct table_reader *r, int64_t width, size_t n_rows)
{
	const struct sc_table_placement *t = &r->plan->tables.at[r->plan->tables.n - 1];
	int64_t dim = t->dim, at = 0;
	size_t next = 0;

	for (; at < dim; at += width, next += n_rows) {
		int64_t cols = dim - at < width ? dim - at : width;

		if (r->ranks.n - next < n_rows)
			return false;
		sc_plan_add_rows(r->plan, r->ranks.at + next, n_rows, at, cols);
	}
	return next == r->ranks.n;
}

static bool add_shards(struct table_reader *r, int64_t slice)
{
	const struct sc_table_placement *t = &r->plan->tables.at[r->plan->tables.n - 1];
	int64_t n_slices = slice ? (t->dim + slice - 1) / slice : 1;
	size_t n = r->ranks.n;

	if (r->plan->shards.n + n > SC_PLAN_MAX_SHARDS)
		return false;
	switch (t->type) {
	case SC_DATA_PARALLEL:
		for (size_t i = 0; i < n; i++)
			sc_plan_add_shard(r->plan, &(struct sc_shard){.rank = r->ranks.at[i],
								      .rows = t->rows,
								      .cols = t->dim});
		return true;
	case SC_ROW_WISE:
	case SC_TABLE_ROW_WISE:
		sc_plan_add_rows(r->plan, r->ranks.at, n, 0, t->dim);
		return true;
	case SC_GRID:
		return (int64_t)n % n_slices == 0 &&
		       add_columns(r, slice ? slice : t->dim, n / (size_t)n_slices);
	default:
		return add_columns(r, slice ? slice : t->dim, 1);
	}
}

static int plan_read_row(struct table_reader *r, char *const *cells, struct sc_err *err)
{
	char *of[N_COLUMNS], *dot;
	struct sc_table_placement t = {.line = r->line, .column = 1};
	int64_t slice = 0;
	int type, tier;

	for (int column = 0; column < N_COLUMNS; column++)
		of[column] = r->column[column] < 0 ? NULL : cells[r->column[column]];
	if (sc_enum_parse(TYPES, of[SHARDING], &type, NULL))
		return cell_fail(r, of[SHARDING], err,
				 "expected a sharding type: DP, TW, CW, RW, TWRW, TWCW or GS");
	if (sc_enum_parse(sc_tier_names, of[KERNEL], &tier, NULL))
		return cell_fail(r, of[KERNEL], err, "unknown compute kernel");
	if (!read_dim(of[DIM], &t.dim, &slice))
		return cell_fail(r, of[DIM], err, "expected a dim, as 128 or 1024 (128)");
	if (!read_int(of[ROWS], 1, (int64_t)SC_MAX_TABLE_ROWS, &t.rows))
		return cell_fail(r, of[ROWS], err, "expected a count of rows");
	if (!sc_plan_ranks_parse(of[RANKS], MAX_RANKS, &r->ranks))
		return cell_fail(r, of[RANKS], err, "expected ranks, as 3 or 0-7 or 1,4,6");
	/* The name of the parameter is behind the last point, the module's path before it. */
	dot = strrchr(of[FQN], '.');
	t.name = dot ? dot + 1 : of[FQN];
	t.module = dot ? of[FQN] : NULL;
	if (dot)
		*dot = '\0';
	t.type = (enum sc_shard_type)type;
	t.tier = (enum sc_tier)tier;
	if (t.tier == SC_TIER_CACHED && of[CACHE] &&
	    (!sc_parse_double(of[CACHE], &t.cache_frac) || t.cache_frac < 0 || t.cache_frac > 1))
		return cell_fail(r, of[CACHE], err, "expected a share of 0 to 1");
	if (r->plan->tables.n >= SC_PLAN_MAX_TABLES)
		return cell_fail(r, r->line_at, err, "too many tables");
	sc_plan_add_table(r->plan, &t);
	if (!add_shards(r, slice))
		return cell_fail(r, of[RANKS], err,
				 "the ranks do not fit the number of column slices");
	return 0;
}

static int read_line(struct table_reader *r, char *line, struct sc_err *err)
{
	char *cells[MAX_CELLS];
	size_t n_cells = split_cells(line, cells);
	int64_t rank;

	r->line_at = line;
	if (n_cells > 1 && strcmp(cells[0], "FQN") == 0)
		return read_header(r, cells, n_cells, err);
	if (!r->n_cells) { /* a row of the table of ranks: "# 0   12.3 (20%)   0.0 (0%) ..." */
		if (n_cells >= 4 && read_int(cells[0], r->plan->world, r->plan->world, &rank))
			r->plan->world++;
		return 0;
	}
	if (n_cells && cells[0][0] == '-')
		return 0;
	if (n_cells >= r->n_cells)
		return plan_read_row(r, cells, err);
	if (n_cells > 1)
		return cell_fail(r, line, err, "a row with fewer cells than the header");
	r->n_cells = 0;
	return 0;
}

int sc_shard_plan_read_torchrec(const struct sc_plan_reader *reader, const struct sc_source *text,
				struct sc_shard_plan *out, struct sc_err *err)
{
	struct table_reader r = {.common = reader, .file = text->file, .plan = out};
	char *line = sc_arena_strndup(reader->arena, text->text, text->n), *next;
	int rc = 0;

	for (; line && rc == 0; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		r.line++;
		rc = read_line(&r, line, err);
	}
	if (rc == 0 && out->tables.n == 0)
		rc = sc_err_at(err, SC_EFORMAT, text->file, 0, 0,
			       "no row of TorchRec's plan table was found");
	sc_plan_settle(reader, out, true);
	SC_VEC_RELEASE(&r.ranks);
	return rc;
}
