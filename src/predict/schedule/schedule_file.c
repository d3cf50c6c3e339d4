/* Reading, proving and writing a schedule's file, in CSV or JSON. The proof runs the order: every
 * pass stands there once and no rank waits for ever. */
#include "predict/schedule/schedule_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_cursor.h"
#include "base/vec.h"
#include "predict/schedule/schedule_priv.h"

/* A pass as it stands in the file. */
struct cell {
	uint32_t rank, stage, micro_batch;
	unsigned line, column;
	uint8_t kind;
	bool paired;
};
struct reader {
	const struct sc_source *source;
	struct sc_arena *arena;
	struct sc_err *err;
	struct cell *cells;
	size_t n_cells, max_cells;
	uint32_t n_ranks, n_stages, micro_batches;
	const char *at, *line_start, *end;
	unsigned line;
	uint32_t *seen[SC_N_PASS_KINDS]; /* [stage * micro_batches + micro-batch]: cell + 1 */
	uint32_t *rank_of;               /* by stage */
	SC_VEC(unsigned) rank_line;      /* line where each rank's cells begin */
};

#define FAIL(r, column, ...) \
	sc_err_at((r)->err, SC_EVALUE, (r)->source->file, (r)->line, column, __VA_ARGS__)
#define FAIL_AT(r, cell, ...) \
	sc_err_at((r)->err, SC_EVALUE, (r)->source->file, (cell)->line, (cell)->column, __VA_ARGS__)

enum { MAX_FILE_BYTES = 1 << 28 };

static const char LETTER[SC_N_PASS_KINDS] = {'F', 'B', 'I', 'W'};

static unsigned column_of(const struct reader *r, const char *at)
{
	return (unsigned)(at - r->line_start) + 1;
}

static bool read_number(const char **at, const char *end, uint32_t limit, uint32_t *out)
{
	const char *p = *at;
	uint64_t value = 0;

	while (p < end && *p >= '0' && *p <= '9' && value < limit)
		value = value * 10 + (uint64_t)(*p++ - '0');
	if (p == *at || value >= limit || (p < end && *p >= '0' && *p <= '9'))
		return false;
	*at = p;
	*out = (uint32_t)value;
	return true;
}

static bool is_word(const char *at, const char *end, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(end - at) >= n && memcmp(at, word, n) == 0;
}

/* Says whether a cell is no pass, whose stage and micro-batch are not kept. */
static bool skips(const char *at, const char *end)
{
	static const char *const WORDS[] = {"SEND_F",  "RECV_F",  "SEND_B",     "RECV_B",
					    "UNSHARD", "RESHARD", "REDUCE_GRAD"};
	enum { N_SENT = 4 }; /* these have a micro-batch */
	uint32_t number;

	for (size_t i = 0; i < sizeof(WORDS) / sizeof(WORDS[0]); i++) {
		const char *p = at + strlen(WORDS[i]);

		if (is_word(at, end, WORDS[i]))
			return (i >= N_SENT ||
				read_number(&p, end, SC_SCHEDULE_MAX_MICRO_BATCHES, &number)) &&
			       p == end;
	}
	return false;
}

static int read_pass(struct reader *r, const char *at, const char *end, bool paired)
{
	struct cell cell = {
		.rank = r->n_ranks, .line = r->line, .column = column_of(r, at), .paired = paired};
	const char *begin = at, *letter;
	int n = (int)(end - begin < 32 ? end - begin : 32);

	if (!read_number(&at, end, SC_SCHEDULE_MAX_STAGES, &cell.stage))
		return FAIL(r, cell.column,
			    "expected a stage below %d, a kind and a micro-batch, as 0F0, got "
			    "\"%.*s\"",
			    SC_SCHEDULE_MAX_STAGES, n, begin);
	if (skips(at, end))
		return 0;
	letter = at < end ? memchr(LETTER, *at, sizeof(LETTER)) : NULL;
	if (!letter)
		return FAIL(
			r, column_of(r, at),
			"unknown kind in \"%.*s\"; expected F, B, I, W, SEND_F, RECV_F, SEND_B, "
			"RECV_B, UNSHARD, RESHARD or REDUCE_GRAD behind the stage",
			n, begin);
	at++;
	if (!read_number(&at, end, SC_SCHEDULE_MAX_MICRO_BATCHES, &cell.micro_batch) || at != end)
		return FAIL(r, column_of(r, at),
			    "expected a micro-batch below %d and nothing behind it in \"%.*s\"",
			    SC_SCHEDULE_MAX_MICRO_BATCHES, n, begin);
	if (r->n_cells == r->max_cells)
		return FAIL(r, cell.column, "more than %d passes", SC_SCHEDULE_MAX_CELLS);
	cell.kind = (uint8_t)(letter - LETTER);
	r->cells[r->n_cells++] = cell;
	r->n_stages = cell.stage >= r->n_stages ? cell.stage + 1 : r->n_stages;
	if (cell.micro_batch >= r->micro_batches)
		r->micro_batches = cell.micro_batch + 1;
	return 0;
}

/* Reads a pair, as (0F1;3B0)OVERLAP_F_B. */
static int read_pair(struct reader *r, const char *at, const char *end)
{
	const char *close = memchr(at, ')', (size_t)(end - at));
	const char *half = close ? memchr(at, ';', (size_t)(close - at)) : NULL;
	int rc;

	if (!half || !is_word(close + 1, end, "OVERLAP_F_B") || end - close != 12)
		return FAIL(r, column_of(r, at),
			    "expected two passes that run together, as (0F1;3B0)OVERLAP_F_B");
	rc = read_pass(r, at + 1, half, true);
	return rc ? rc : read_pass(r, half + 1, close, false);
}

static int read_cell(struct reader *r, const char *begin, const char *end)
{
	return *begin == '(' ? read_pair(r, begin, end) : read_pass(r, begin, end, false);
}

static int begin_rank(struct reader *r)
{
	if (r->n_ranks == SC_SCHEDULE_MAX_RANKS)
		return FAIL(r, 1, "more than %d ranks", SC_SCHEDULE_MAX_RANKS);
	SC_VEC_PUSH(&r->rank_line, r->line);
	return 0;
}

static int read_lines(struct reader *r)
{
	int rc = 0;

	while (rc == 0 && r->at < r->end) {
		const char *end = memchr(r->at, '\n', (size_t)(r->end - r->at));

		end = end ? end : r->end;
		r->line++;
		r->line_start = r->at;
		rc = begin_rank(r);
		while (rc == 0 && r->at <= end) {
			const char *comma = memchr(r->at, ',', (size_t)(end - r->at));
			const char *begin = r->at, *stop = comma ? comma : end;

			r->at = stop + 1;
			while (begin < stop && *begin == ' ')
				begin++;
			while (stop > begin && (stop[-1] == ' ' || stop[-1] == '\r'))
				stop--;
			if (begin < stop)
				rc = read_cell(r, begin, stop);
		}
		r->at = end + 1;
		r->n_ranks++;
	}
	return rc;
}

/* ---- every pass once ---- */

static uint32_t *seen_at(const struct reader *r, int kind, uint32_t stage, uint32_t micro_batch)
{
	return &r->seen[kind][(size_t)stage * r->micro_batches + micro_batch];
}

static int place_cell(struct reader *r, size_t i)
{
	struct cell *c = &r->cells[i];
	uint32_t *seen = seen_at(r, c->kind, c->stage, c->micro_batch);

	if (r->rank_of[c->stage] != c->rank)
		return FAIL_AT(r, c, "rank %u runs stage %u, which rank %u has", c->rank, c->stage,
			       r->rank_of[c->stage]);
	if (*seen)
		return FAIL_AT(r, c, "rank %u runs %u%c%u twice; first in line %u, column %u",
			       c->rank, c->stage, LETTER[c->kind], c->micro_batch,
			       r->cells[*seen - 1].line, r->cells[*seen - 1].column);
	*seen = (uint32_t)i + 1;
	return 0;
}

static int check_passes(struct reader *r, uint32_t stage, uint32_t m)
{
	uint32_t f = *seen_at(r, SC_PASS_FORWARD, stage, m);
	uint32_t b = *seen_at(r, SC_PASS_BACKWARD, stage, m);
	uint32_t i = *seen_at(r, SC_PASS_BACKWARD_INPUT, stage, m);
	uint32_t w = *seen_at(r, SC_PASS_BACKWARD_WEIGHT, stage, m);
	unsigned rank = r->rank_of[stage];

	r->line = r->rank_line.at[rank];
	if (!f)
		return FAIL(r, 0, "rank %u lacks %uF%u", rank, stage, m);
	if (b && i)
		return FAIL_AT(r, &r->cells[i - 1],
			       "rank %u runs %uI%u beside the full backward %uB%u", rank, stage, m,
			       stage, m);
	if (!b && !i)
		return FAIL(r, 0, "rank %u lacks %uB%u, or %uI%u and %uW%u", rank, stage, m, stage,
			    m, stage, m);
	if (i && !w)
		return FAIL_AT(r, &r->cells[i - 1], "rank %u runs %uI%u and lacks %uW%u", rank,
			       stage, m, stage, m);
	return 0;
}

static int check_complete(struct reader *r)
{
	size_t n = (size_t)r->n_stages * r->micro_batches;
	int rc = 0;

	if (n > SC_SCHEDULE_MAX_CELLS)
		return FAIL(r, 0, "%u stages and %u micro-batches are more than %d passes forward",
			    r->n_stages, r->micro_batches, SC_SCHEDULE_MAX_CELLS);
	for (int k = 0; k < SC_N_PASS_KINDS; k++)
		r->seen[k] = sc_arena_calloc(r->arena, n, sizeof(uint32_t));
	r->rank_of = sc_arena_alloc(r->arena, r->n_stages * sizeof(uint32_t));
	memset(r->rank_of, 0xff, r->n_stages * sizeof(uint32_t));
	for (size_t i = 0; i < r->n_cells; i++)
		if (r->rank_of[r->cells[i].stage] == UINT32_MAX)
			r->rank_of[r->cells[i].stage] = r->cells[i].rank;
	for (uint32_t s = 0; s < r->n_stages; s++)
		if (r->rank_of[s] == UINT32_MAX)
			return FAIL(r, 0, "no rank runs stage %u, and there is a stage %u", s,
				    r->n_stages - 1);
	for (size_t i = 0; i < r->n_cells && rc == 0; i++)
		rc = place_cell(r, i);
	if (rc)
		return rc;
	/* A B beside a W is the backward of the input in older files. */
	for (size_t i = 0; i < r->n_cells; i++) {
		struct cell *c = &r->cells[i];
		uint32_t *whole = seen_at(r, SC_PASS_BACKWARD, c->stage, c->micro_batch);
		uint32_t *input = seen_at(r, SC_PASS_BACKWARD_INPUT, c->stage, c->micro_batch);

		if (c->kind != SC_PASS_BACKWARD_WEIGHT || !*whole || *input)
			continue;
		r->cells[*whole - 1].kind = SC_PASS_BACKWARD_INPUT;
		*input = *whole;
		*whole = 0;
	}
	for (uint32_t s = 0; s < r->n_stages && rc == 0; s++)
		for (uint32_t m = 0; m < r->micro_batches && rc == 0; m++)
			rc = check_passes(r, s, m);
	return rc;
}

static int make_map(struct reader *r, struct sc_stage_map *map)
{
	uint32_t *n = sc_arena_calloc(r->arena, r->n_ranks, sizeof(*n));

	*map = (struct sc_stage_map){.pp = r->n_ranks, .depth = r->n_stages, .replicas = 1};
	map->place = sc_arena_calloc(r->arena, r->n_stages, sizeof(*map->place));
	for (uint32_t s = 0; s < r->n_stages; s++)
		map->place[s] = (struct sc_stage_place){r->rank_of[s], n[r->rank_of[s]]++};
	map->n_chunks = n[0];
	for (uint32_t k = 0; k < r->n_ranks; k++) {
		r->line = r->rank_line.at[k];
		if (n[0] > 64)
			return FAIL(r, 0, "rank 0 runs %u stages, more than 64", n[0]);
		if (n[k] != n[0])
			return FAIL(r, 0,
				    "rank %u runs %u stages, and rank 0 runs %u; each has as many",
				    k, n[k], n[0]);
	}
	map->virtual_stage = sc_arena_calloc(r->arena, r->n_stages, sizeof(uint32_t));
	for (uint32_t s = 0; s < r->n_stages; s++)
		map->virtual_stage[map->place[s].stage * map->n_chunks + map->place[s].chunk] = s;
	return 0;
}

static void make_passes(const struct reader *r, struct sc_schedule_file *out)
{
	struct sc_passes *p = &out->passes;

	out->pairs = false;
	*p = (struct sc_passes){.map = &out->map, .micro_batches = r->micro_batches, .n_phases = 1};
	p->n = sc_arena_calloc(r->arena, r->n_ranks, sizeof(*p->n));
	p->stride = 3 * r->micro_batches * out->map.n_chunks;
	p->slots = sc_arena_calloc(r->arena, (size_t)p->stride * r->n_ranks, sizeof(*p->slots));
	for (size_t i = 0; i < r->n_cells; i++) {
		const struct cell *c = &r->cells[i];

		out->pairs |= c->paired;
		p->slots[(size_t)c->rank * p->stride + p->n[c->rank]++] = (struct sc_slot){
			.micro_batch = c->micro_batch,
			.virtual_stage = c->stage,
			.chunk = (uint16_t)out->map.place[c->stage].chunk,
			.kind = c->kind,
			.paired = c->paired,
		};
	}
}

/* ---- no rank waits for ever ---- */

static int report_wait(const struct reader *r, const struct sc_passes_ran *ran,
		       const struct cell *c)
{
	uint32_t stage = c->stage, m = c->micro_batch, at;
	int kind = SC_PASS_FORWARD;

	if (c->kind == SC_PASS_BACKWARD_WEIGHT)
		kind = SC_PASS_BACKWARD_INPUT;
	else if (c->kind == SC_PASS_FORWARD)
		stage--;
	else if (ran->done[0][(size_t)m * r->n_stages + stage] >= 0)
		kind = *seen_at(r, SC_PASS_BACKWARD, ++stage, m) ? SC_PASS_BACKWARD
								 : SC_PASS_BACKWARD_INPUT;
	at = *seen_at(r, kind, stage, m);
	return FAIL_AT(r, c,
		       "rank %u cannot run %u%c%u: it waits for %u%c%u of rank %u (line %u, column "
		       "%u), which does not run before it",
		       c->rank, c->stage, LETTER[c->kind], m, stage, LETTER[kind], m,
		       r->rank_of[stage], r->cells[at - 1].line, r->cells[at - 1].column);
}

/* Checks that the order runs; the ranks' cells lie one rank after another. */
static int check_order(const struct reader *r, const struct sc_passes *passes)
{
	struct sc_pass_times *times = sc_arena_calloc(r->arena, r->n_ranks, sizeof(*times));
	const struct cell *first = r->cells;
	struct sc_passes_ran ran;

	sc_passes_run(passes, times, r->arena, &ran);
	for (uint32_t k = 0; k < r->n_ranks; first += passes->n[k++])
		if (ran.n[k] < passes->n[k])
			return report_wait(r, &ran, &first[ran.n[k]]);
	return 0;
}

/* The project's own form of a schedule: {"schema": "stepcast/schedule/1", "ranks": [["0F0", "0B0"],
 * …]}, with comments. The cells are those of the CSV. */

#define SCHEMA "stepcast/schedule/1"

static int read_cells(struct reader *r, struct sc_json_cursor *c)
{
	int rc = 0;

	while (rc == 0 && sc_json_cursor_next(c)) {
		const char *begin;

		if (sc_json_cursor_peek(c) != '"') {
			sc_json_cursor_fail(c, SC_EVALUE, "expected a cell in quotes, as \"0F0\"");
			break;
		}
		begin = c->at + 1;
		r->line = c->line;
		r->line_start = c->line_start;
		if (!sc_json_cursor_text(c, r->arena))
			break;
		if (c->at - 1 == begin)
			rc = FAIL(
				r, (unsigned)(begin - r->line_start) + 1,
				"an empty cell; expected a stage, a kind and a micro-batch, as 0F0");
		else
			rc = read_cell(r, begin, c->at - 1);
	}
	return rc;
}

static int read_ranks(struct reader *r, struct sc_json_cursor *c)
{
	unsigned column;
	int rc = 0;

	if (!sc_json_cursor_open(c, '['))
		return 0;
	while (rc == 0 && sc_json_cursor_next(c)) {
		sc_json_cursor_where(c, &r->line, &column);
		rc = begin_rank(r);
		if (rc || !sc_json_cursor_open(c, '['))
			break;
		rc = read_cells(r, c);
		r->n_ranks++;
	}
	return rc;
}

/* Reads the object; the caller tells the cursor's faults. */
static int read_object(struct reader *r, struct sc_json_cursor *c)
{
	bool has_schema = false, has_ranks = false;
	const char *key;
	int rc = 0;

	sc_json_cursor_open(c, '{');
	while (rc == 0 && (key = sc_json_cursor_key(c, r->arena))) {
		bool is_schema = strcmp(key, "schema") == 0, is_ranks = strcmp(key, "ranks") == 0;

		if (!is_schema && !is_ranks)
			sc_json_cursor_fail(c, SC_EVALUE,
					    "unknown key \"%.32s\"; known keys: schema, ranks",
					    key);
		else if (is_schema ? has_schema : has_ranks)
			sc_json_cursor_fail(c, SC_EVALUE, "\"%s\" is given twice", key);
		else if (is_schema) {
			struct sc_json_cursor at = *c;
			const char *schema = sc_json_cursor_text(c, r->arena);

			if (schema && strcmp(schema, SCHEMA) != 0) {
				*c = at;
				sc_json_cursor_fail(c, SC_EVALUE,
						    "unknown schema \"%.32s\"; this reads \"%s\"",
						    schema, SCHEMA);
			}
		} else
			rc = read_ranks(r, c);
		has_schema |= is_schema;
		has_ranks |= is_ranks;
	}
	if (rc == 0)
		sc_json_cursor_finish(c);
	if (rc == 0 && !sc_json_cursor_failed(c) && !(has_schema && has_ranks))
		sc_json_cursor_fail(c, SC_EVALUE, "\"%s\" is missing",
				    has_schema ? "ranks" : "schema");
	return rc;
}

/* Reads all cells of a JSON file. */
static int read_json(struct reader *r)
{
	struct sc_json_cursor c;
	int rc;

	sc_json_cursor_init(&c, r->source->text, r->source->n, r->source->file);
	c.comments = true;
	rc = read_object(r, &c);
	if (rc || !sc_json_cursor_failed(&c))
		return rc;
	return sc_err_at(r->err, c.err.code, c.err.file, c.err.line, c.err.column, "%s",
			 c.err.text);
}

int sc_schedule_file_parse(const struct sc_source *source, struct sc_arena *arena,
			   struct sc_schedule_file *out, struct sc_err *err)
{
	size_t n = 1;

	for (size_t i = 0; i < source->n; i++)
		n += source->text[i] == ',' || source->text[i] == '\n' || source->text[i] == ';';
	struct reader r = {.source = source,
			   .arena = arena,
			   .err = err,
			   .max_cells = n < SC_SCHEDULE_MAX_CELLS ? n : SC_SCHEDULE_MAX_CELLS,
			   .at = source->text,
			   .end = source->n ? source->text + source->n : source->text};
	int rc;

	r.cells = sc_arena_calloc(arena, r.max_cells, sizeof(*r.cells));
	/* A file of cells never begins so. */
	size_t i = 0;

	while (i < source->n && strchr(" \t\r\n", source->text[i]))
		i++;
	rc = (i < source->n && source->text[i] && strchr("{/[", source->text[i])) ? read_json(&r)
										  : read_lines(&r);
	if (rc == 0 && r.n_cells == 0)
		rc = FAIL(&r, 0, "no passes: expected a line of cells for every rank, as 0F0,0B0");
	if (rc == 0)
		rc = check_complete(&r);
	if (rc == 0)
		rc = make_map(&r, &out->map);
	if (rc == 0) {
		make_passes(&r, out);
		sc_passes_mark_last(&out->passes);
		rc = check_order(&r, &out->passes);
	}
	SC_VEC_RELEASE(&r.rank_line);
	return rc;
}

int sc_schedule_file_load(const char *path, struct sc_arena *arena, struct sc_schedule_file *out,
			  struct sc_err *err)
{
	struct sc_source source;
	int rc = sc_file_read(path, MAX_FILE_BYTES, &source, err);

	if (rc == 0)
		rc = sc_schedule_file_parse(&source, arena, out, err);
	sc_source_release(&source);
	return rc;
}

static void write_pass(const struct sc_slot *slot, FILE *out)
{
	fprintf(out, "%u%c%u", slot->virtual_stage, LETTER[slot->kind], slot->micro_batch);
}

void sc_schedule_file_write(const struct sc_passes *passes, const char *note, FILE *out)
{
	const uint32_t pp = passes->map->pp;

	if (note)
		fprintf(out,
			"// %s\n// A rank a line; a cell is stage, kind and micro-batch: F forward, B "
			"backward,\n// I backward of inputs, W of weights.\n"
			"{\n  \"schema\": \"stepcast/schedule/1\",\n  \"ranks\": [\n",
			note);
	for (uint32_t s = 0; s < pp; s++) {
		fputs(note ? "    [" : "", out);
		/* Each pass or pair of a rank is a cell within `quote`. */
		const char *quote = note ? "\"" : "";
		const struct sc_slot *slots = sc_passes_of(passes, s);

		for (uint32_t i = 0; i < passes->n[s]; i++) {
			bool pair = slots[i].paired && i + 1 < passes->n[s];

			fprintf(out, "%s%s%s", i ? "," : "", quote, pair ? "(" : "");
			write_pass(&slots[i], out);
			if (pair) {
				fputc(';', out);
				write_pass(&slots[++i], out);
				fputs(")OVERLAP_F_B", out);
			}
			fputs(quote, out);
		}
		fputs(!note ? "\n" : s + 1 < pp ? "],\n" : "]\n", out);
	}
	if (note)
		fputs("  ]\n}\n", out);
}
