/* A line of nccl-tests: size, count, type [redop] [root], then out of place and in place time, algbw,
 * busbw and wrong elements. Everything else it prints is passed over. */
#include "base/nccl_tests.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/vec.h"

enum { MAX_WORDS = 16, TIMES = 8, BEFORE = 3, MAX_LOG_BYTES = 1 << 28 };

struct words {
	char text[MAX_WORDS][32];
	size_t n;
};

/* False: too many or too long, so no line of times. */
static bool split(const char *at, const char *end, struct words *out)
{
	out->n = 0;
	while (at < end) {
		size_t n = 0;

		while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
			at++;
		while (at + n < end && at[n] != ' ' && at[n] != '\t' && at[n] != '\r')
			n++;
		if (n == 0)
			return true;
		if (out->n == MAX_WORDS || n >= sizeof(out->text[0]))
			return false;
		memcpy(out->text[out->n], at, n);
		out->text[out->n++][n] = '\0';
		at += n;
	}
	return true;
}

static bool is_times(const struct words *w)
{
	double number;

	if (w->n < BEFORE + TIMES || w->n > BEFORE + TIMES + 2)
		return false;
	for (size_t i = 0; i < 2; i++)
		if (!sc_parse_double(w->text[i], &number) || !(number > 0))
			return false;
	if (sc_parse_double(w->text[2], &number)) /* a type is a word */
		return false;
	return sc_parse_double(w->text[w->n - TIMES], &number) && number > 0;
}

struct line {
	const char *cell[3];
	unsigned line;
};

static void make_table(const char *path, const struct line *lines, size_t n, struct sc_arena *arena,
		       struct sc_csv *out)
{
	static const char *const header[] = {"bytes", "time_us", "in_place_us"};

	*out = (struct sc_csv){.file = path, .n_cols = 3, .n_rows = n};
	out->header = sc_arena_alloc(arena, sizeof(header));
	memcpy(out->header, header, sizeof(header));
	out->cell = sc_arena_alloc(arena, n * 3 * sizeof(*out->cell));
	out->line = sc_arena_alloc(arena, n * sizeof(*out->line));
	for (size_t i = 0; i < n; i++) {
		memcpy(&out->cell[i * 3], lines[i].cell, sizeof(lines[i].cell));
		out->line[i] = lines[i].line;
	}
}

/* *found: there was a line of times. */
static void read_log(const struct sc_source *log, struct sc_arena *arena, struct sc_csv *out,
		     bool *found)
{
	SC_VEC(struct line) lines = {0};
	const char *end = log->text + log->n, *next;
	unsigned number = 1;
	struct words w;

	for (const char *at = log->text; at < end; at = next + 1, number++) {
		struct line line = {.line = number};

		next = memchr(at, '\n', (size_t)(end - at));
		if (!next)
			next = end;
		if (!split(at, next, &w) || !is_times(&w))
			continue;
		line.cell[0] = sc_arena_strdup(arena, w.text[0]);
		line.cell[1] = sc_arena_strdup(arena, w.text[w.n - TIMES]);
		line.cell[2] = sc_arena_strdup(arena, w.text[w.n - TIMES / 2]);
		SC_VEC_PUSH(&lines, line);
	}
	*found = lines.n > 0;
	if (*found)
		make_table(log->file, lines.at, lines.n, arena, out);
	SC_VEC_RELEASE(&lines);
}

int sc_nccl_tests_load(const char *path, struct sc_arena *arena, struct sc_csv *out,
		       struct sc_err *err)
{
	struct sc_source log = {.file = path};
	bool found;
	char *text;
	int rc = sc_file_read(path, MAX_LOG_BYTES, &text, &log.n, err);

	if (rc)
		return rc;
	log.text = text;
	read_log(&log, arena, out, &found);
	free(text);
	return found ? 0 : sc_csv_load(path, arena, out, err);
}
