/* The plan table that TorchRec's planner prints (torchrec/distributed/planner/stats.py): a header of column
 * names, right-aligned cells three spaces apart, a frame of '#', perhaps a logger's prefix. Ranks are printed
 * sorted, so that shards of unlike width cannot be told apart: the narrower last one is taken to be on the
 * last rank. The ranks of a host are not printed. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "core/embedding/shard_plan_priv.h"

enum { GAP = 3, MAX_CELLS = 64, MAX_RANKS = 1 << 20 };
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

struct cell {
	const char *at;
	size_t n;
};
struct table_reader {
	const struct sc_plan_reader *common;
	const char *file;
	struct sc_shard_plan *plan;
	int column[N_COLUMNS]; /* cell of it, or -1 */
	size_t n_cells;
	unsigned line;
	const char *line_at;
	SC_VEC(int32_t) ranks;
	uint32_t world; /* rows of the table of ranks, 0: not printed */
};

static int bad(const struct table_reader *r, const char *at, struct sc_err *err, const char *what)
{
	return sc_err_at(err, SC_EVALUE, r->file, r->line, (unsigned)(at - r->line_at) + 1, "%s",
			 what);
}

/* The cells of a line between '#' and '#'. */
static size_t split(const char *line, size_t n, struct cell *cells)
{
	const char *begin = memchr(line, '#', n), *end = line + n;
	size_t n_cells = 0;

	if (!begin)
		return 0;
	while (end > begin + 1 && (end[-1] == ' ' || end[-1] == '\r' || end[-1] == '#'))
		end--;
	for (const char *at = begin + 1; at < end && n_cells < MAX_CELLS;) {
		struct cell cell;
		size_t n_spaces = 0;

		while (at < end && *at == ' ')
			at++;
		cell.at = at;
		for (; at < end && n_spaces < GAP; at++)
			n_spaces = *at == ' ' ? n_spaces + 1 : 0;
		cell.n = (size_t)(at - cell.at) - n_spaces;
		if (cell.n)
			cells[n_cells++] = cell;
	}
	return n_cells;
}

static bool cell_is(const struct cell *cell, const char *text)
{
	return cell->n == strlen(text) && memcmp(cell->at, text, cell->n) == 0;
}

/* Is it the header of the table of parameters? Then where its columns are. */
static bool read_header(struct table_reader *r, const struct cell *cells, size_t n_cells)
{
	bool is_header = n_cells > 1 && cell_is(&cells[0], "FQN");

	if (!is_header)
		return false;
	r->n_cells = n_cells;
	for (int column = 0; column < N_COLUMNS; column++) {
		r->column[column] = -1;
		for (size_t i = 0; i < n_cells; i++) {
			if (cells[i].n >= strlen(COLUMNS[column]) &&
			    memcmp(cells[i].at, COLUMNS[column], strlen(COLUMNS[column])) == 0)
				r->column[column] = (int)i;
		}
	}
	return true;
}

static bool cell_int(const struct cell *cell, int64_t min, int64_t max, int64_t *out)
{
	char text[32];

	if (cell->n >= sizeof(text))
		return false;
	memcpy(text, cell->at, cell->n);
	text[cell->n] = '\0';
	return sc_parse_int(text, out) && *out >= min && *out <= max;
}

/* "128", or "1024 (128)" with the width of a slice. */
static bool read_dim(const struct cell *cell, int64_t *dim, int64_t *slice)
{
	const char *open = memchr(cell->at, '(', cell->n);
	struct cell part = *cell;

	*slice = 0;
	if (open) {
		part = (struct cell){open + 1, (size_t)(cell->at + cell->n - open) - 1};
		if (!part.n || part.at[part.n - 1] != ')')
			return false;
		part.n--;
		if (!cell_int(&part, 1, SC_MAX_TABLE_DIM, slice))
			return false;
		part = (struct cell){cell->at, (size_t)(open - cell->at)};
		while (part.n && part.at[part.n - 1] == ' ')
			part.n--;
	}
	return cell_int(&part, 1, SC_MAX_TABLE_DIM, dim) && *slice <= *dim;
}

/* "0-95", "11,27,57" */
static bool read_ranks(struct table_reader *r, const struct cell *cell)
{
	const char *at = cell->at, *end = at + cell->n;

	r->ranks.n = 0;
	while (at < end) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		const char *stop = comma ? comma : end, *dash;
		int64_t first, last;
		struct cell part = {at, (size_t)(stop - at)};

		dash = memchr(at, '-', part.n);
		if (dash)
			part.n = (size_t)(dash - at);
		if (!cell_int(&part, 0, MAX_RANKS - 1, &first))
			return false;
		last = first;
		part = (struct cell){dash ? dash + 1 : at, dash ? (size_t)(stop - dash) - 1 : 1};
		if (dash && !cell_int(&part, first, MAX_RANKS - 1, &last))
			return false;
		if (r->ranks.n > MAX_RANKS)
			return false;
		for (; first <= last; first++)
			SC_VEC_PUSH(&r->ranks, (int32_t)first);
		at = comma ? comma + 1 : end;
	}
	return r->ranks.n > 0;
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
		sc_plan_add_rows(r->plan, r->ranks.at, n, 0, t->dim);
		for (size_t i = 0; i < n; i++) { /* all of it each */
			struct sc_shard *s = &r->plan->shards.at[t->first_shard + i];

			s->row_offset = 0;
			s->rows = t->rows;
		}
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

/* The name of the parameter is behind the last point, the module's path before it. */
static void read_name(struct table_reader *r, const struct cell *cell, struct sc_table_placement *t)
{
	const char *dot = NULL;

	for (size_t i = 0; i < cell->n; i++) {
		if (cell->at[i] == '.')
			dot = cell->at + i;
	}
	t->name = sc_arena_strndup(r->common->arena, dot ? dot + 1 : cell->at,
				   dot ? (size_t)(cell->at + cell->n - dot) - 1 : cell->n);
	t->module =
		dot ? sc_arena_strndup(r->common->arena, cell->at, (size_t)(dot - cell->at)) : NULL;
}

static int find_name(const struct sc_name *names, const struct cell *cell)
{
	for (; names->name; names++) {
		if (cell_is(cell, names->name))
			return names->value;
	}
	return -1;
}

static int read_row(struct table_reader *r, const struct cell *cells, struct sc_err *err)
{
	const struct cell *of[N_COLUMNS];
	struct sc_table_placement t = {.line = r->line, .column = 1};
	int64_t slice = 0;
	int type, tier;

	for (int column = 0; column < N_COLUMNS; column++)
		of[column] = r->column[column] < 0 ? NULL : &cells[r->column[column]];
	type = find_name(TYPES, of[SHARDING]);
	if (type < 0)
		return bad(r, of[SHARDING]->at, err,
			   "expected a sharding type: DP, TW, CW, RW, TWRW, TWCW or GS");
	tier = find_name(sc_tier_names, of[KERNEL]);
	if (tier < 0)
		return bad(r, of[KERNEL]->at, err, "unknown compute kernel");
	if (!read_dim(of[DIM], &t.dim, &slice))
		return bad(r, of[DIM]->at, err, "expected a dim, as 128 or 1024 (128)");
	if (!cell_int(of[ROWS], 1, (int64_t)SC_MAX_TABLE_ROWS, &t.rows))
		return bad(r, of[ROWS]->at, err, "expected a count of rows");
	if (!read_ranks(r, of[RANKS]))
		return bad(r, of[RANKS]->at, err, "expected ranks, as 3 or 0-7 or 1,4,6");
	read_name(r, of[FQN], &t);
	t.type = (enum sc_shard_type)type;
	t.tier = (enum sc_tier)tier;
	if (t.tier == SC_TIER_CACHED && of[CACHE] && of[CACHE]->n < 32) {
		char text[32];

		memcpy(text, of[CACHE]->at, of[CACHE]->n);
		text[of[CACHE]->n] = '\0';
		if (!sc_parse_double(text, &t.cache_frac) || t.cache_frac < 0 || t.cache_frac > 1)
			return bad(r, of[CACHE]->at, err, "expected a share of 0 to 1");
	}
	if (r->plan->tables.n >= SC_PLAN_MAX_TABLES)
		return bad(r, r->line_at, err, "too many tables");
	sc_plan_add_table(r->plan, &t);
	if (!add_shards(r, slice))
		return bad(r, of[RANKS]->at, err,
			   "the ranks do not fit the number of column slices");
	return 0;
}

static int read_line(struct table_reader *r, size_t n, bool *in_table, struct sc_err *err)
{
	struct cell cells[MAX_CELLS];
	size_t n_cells = split(r->line_at, n, cells);

	if (read_header(r, cells, n_cells)) {
		for (int column = 0; column < N_COLUMNS; column++) {
			if (r->column[column] < 0 && column != CACHE)
				return sc_err_at(err, SC_EFORMAT, r->file, r->line, 1,
						 "the plan table has no column \"%s\"",
						 COLUMNS[column]);
		}
		*in_table = true;
		return 0;
	}
	if (!*in_table) {
		/* A row of the table of ranks: "# 0   12.3 (20%)   0.0 (0%) ..." */
		int64_t rank;

		if (n_cells >= 4 && cell_int(&cells[0], r->world, r->world, &rank))
			r->world++;
		return 0;
	}
	if (n_cells && cells[0].n && cells[0].at[0] == '-')
		return 0;
	if (n_cells < r->n_cells) {
		*in_table = n_cells > 1;
		if (*in_table)
			return bad(r, r->line_at, err, "a row with fewer cells than the header");
		return 0;
	}
	return read_row(r, cells, err);
}

int sc_shard_plan_read_torchrec(const struct sc_plan_reader *reader, const struct sc_source *text,
				struct sc_shard_plan *out, struct sc_err *err)
{
	struct table_reader r = {.common = reader, .file = text->file, .plan = out};
	const char *end = text->text + text->n;
	bool in_table = false;
	int rc = 0;

	r.line_at = text->text;
	while (r.line_at < end && rc == 0) {
		const char *newline = memchr(r.line_at, '\n', (size_t)(end - r.line_at));
		size_t n = newline ? (size_t)(newline - r.line_at) : (size_t)(end - r.line_at);

		r.line++;
		rc = read_line(&r, n, &in_table, err);
		r.line_at += n + 1;
	}
	if (rc == 0 && out->tables.n == 0)
		rc = sc_err_at(err, SC_EFORMAT, text->file, 0, 0,
			       "no row of TorchRec's plan table was found");
	uint32_t world = r.world;

	for (size_t i = 0; i < r.plan->shards.n; i++) {
		if ((uint32_t)r.plan->shards.at[i].rank >= world)
			world = (uint32_t)r.plan->shards.at[i].rank + 1;
	}
	out->world = world;
	sc_plan_settle_names(reader, out);
	SC_VEC_RELEASE(&r.ranks);
	return rc;
}
