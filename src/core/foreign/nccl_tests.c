/* A line of nccl-tests: size, count, type [redop] [root], then out of place and in place time,
 * algbw, busbw and wrong elements. Lines of its head name the ranks and their hosts. Everything
 * else it prints is passed over. Which collective it is shows in the lines: does it add, has it a
 * root, busbw over algbw. */
#include "core/foreign/nccl_tests.h"

#include <math.h>
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
static bool split_words(const char *at, const char *end, struct words *out)
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

enum { N_TIMES = 3, N_CELLS = 7, MAX_HOSTS = 4096 };
static const char *const HEADER[N_CELLS] = {"bytes", "time_us", "in_place_us",  "collective",
					    "ranks", "nodes",   "gpus_per_node"};
struct line {
	const char *cell[N_TIMES];
	unsigned line;
	double ratio, blur; /* busbw / algbw, and how far their digits may be off; 0: not told */
	bool adds, has_root, in_place;
};
typedef SC_VEC(const char *) host_list;
struct log {
	SC_VEC(struct line) lines;
	host_list hosts;
	size_t n_ranks;
};

/* "#  Rank  0 Group  0 Pid  7 on  HOST device  0 ...": of one rank. */
static void read_rank(const char *at, const char *end, struct sc_arena *arena, struct log *log)
{
	char *text = sc_arena_strndup(arena, at, (size_t)(end - at));
	const char *rank = strstr(text, "Rank "), *on = strstr(text, " on ");
	const char *host = on ? on + strlen(" on ") : NULL;
	size_t n;

	if (*text != '#' || !rank || !on || rank > on)
		return;
	host += strspn(host, " ");
	n = strcspn(host, " \t\r");
	log->n_ranks++;
	for (size_t i = 0; i < log->hosts.n; i++)
		if (strlen(log->hosts.at[i]) == n && memcmp(log->hosts.at[i], host, n) == 0)
			return;
	if (n > 0 && log->hosts.n < MAX_HOSTS)
		SC_VEC_PUSH(&log->hosts, sc_arena_strndup(arena, host, n));
}

/* Half of the last digit. */
static double rounding_of(const char *text)
{
	const char *dot = strchr(text, '.');

	return 0.5 * pow(10, dot ? -(double)strlen(dot + 1) : 0);
}

/* Tells the kind by the line with the most bytes, whose digits are the most. Busbw is (n-1)/n of
 * algbw where each of n ranks keeps its part, else all of it, or more: told apart half-way, or,
 * where ranks are not named, at all of it. Between is "". An exchange cannot be in place. */
static const char *collective_of(const struct line *line, size_t n_ranks)
{
	double middle = n_ranks > 0 ? 1 - 0.5 / (double)n_ranks : 1;
	bool whole = line->ratio > middle;

	if (!(line->ratio > 0) || !(fabs(line->ratio - middle) > line->blur))
		return "";
	if (line->adds)
		return line->has_root ? "reduce" : whole ? "all_reduce" : "reduce_scatter";
	if (line->has_root)
		return whole ? "broadcast" : "scatter";
	return whole ? "send_recv" : line->in_place ? "all_gather" : "all_to_all";
}

static void make_table(const char *path, const struct log *log, struct sc_arena *arena,
		       struct sc_csv *out)
{
	size_t n = log->lines.n, hosts = log->hosts.n, cols = hosts > 0 ? N_CELLS : N_TIMES + 1;
	const char *tail[N_CELLS - N_TIMES] = {collective_of(&log->lines.at[n - 1], log->n_ranks)};

	if (hosts > 0) {
		tail[1] = sc_arena_printf(arena, "%zu", log->n_ranks);
		tail[2] = sc_arena_printf(arena, "%zu", hosts);
		tail[3] = sc_arena_printf(arena, "%zu", (log->n_ranks + hosts - 1) / hosts);
	}
	*out = (struct sc_csv){.file = path, .n_cols = cols, .n_rows = n};
	out->header = sc_arena_alloc(arena, sizeof(HEADER));
	memcpy(out->header, HEADER, sizeof(HEADER));
	out->cell = sc_arena_alloc(arena, n * cols * sizeof(*out->cell));
	out->line = sc_arena_alloc(arena, n * sizeof(*out->line));
	for (size_t i = 0; i < n; i++) {
		const char **row = &out->cell[i * cols];

		memcpy(row, log->lines.at[i].cell, sizeof(log->lines.at[i].cell));
		memcpy(row + N_TIMES, tail, (cols - N_TIMES) * sizeof(*row));
		out->line[i] = log->lines.at[i].line;
	}
}

/* *found: there was a line of times. */
static void read_log(const struct sc_source *text, struct sc_arena *arena, struct sc_csv *out,
		     bool *found)
{
	struct log log = {.n_ranks = 0};
	const char *end = text->text + text->n, *next;
	unsigned number = 1;
	struct words w;

	for (const char *at = text->text; at < end; at = next + 1, number++) {
		struct line line = {.line = number};

		next = memchr(at, '\n', (size_t)(end - at));
		if (!next)
			next = end;
		if (*at == '#')
			read_rank(at, next, arena, &log);
		if (!split_words(at, next, &w) || !is_times(&w))
			continue;
		char(*const times)[32] = (char(*)[32])(uintptr_t)w.text + w.n - TIMES;
		double algbw, busbw, root;

		line.cell[0] = sc_arena_strdup(arena, w.text[0]);
		line.cell[1] = sc_arena_strdup(arena, times[0]);
		line.cell[2] = sc_arena_strdup(arena, times[TIMES / 2]);
		line.adds = w.n > BEFORE + TIMES && strcmp(w.text[BEFORE], "none") != 0;
		line.has_root = w.n == BEFORE + TIMES + 2 &&
				sc_parse_double(w.text[BEFORE + 1], &root) && root >= 0;
		line.in_place = strcmp(times[TIMES - 1], "N/A") != 0;
		if (sc_parse_double(times[1], &algbw) && sc_parse_double(times[2], &busbw) &&
		    algbw > 0) {
			line.ratio = busbw / algbw;
			line.blur = (rounding_of(times[2]) + line.ratio * rounding_of(times[1])) /
				    algbw;
		}
		SC_VEC_PUSH(&log.lines, line);
	}
	*found = log.lines.n > 0;
	if (*found)
		make_table(text->file, &log, arena, out);
	SC_VEC_RELEASE(&log.lines);
	SC_VEC_RELEASE(&log.hosts);
}

int sc_nccl_tests_load(const char *path, struct sc_arena *arena, struct sc_csv *out,
		       struct sc_err *err)
{
	struct sc_source log;
	bool found = false;
	int rc = sc_file_read(path, MAX_LOG_BYTES, &log, err);

	if (rc == 0)
		read_log(&log, arena, out, &found);
	sc_source_release(&log);
	return rc || found ? rc : sc_csv_load(path, arena, out, err);
}
