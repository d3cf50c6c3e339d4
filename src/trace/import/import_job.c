/* Operator timelines of a training job as CSV or CSV.gz: one row an operation of a worker, times in
 * seconds that start again at each step (the form of ByteDance's StragglerAnalysis). One trace file
 * a job: a lane for each worker and stream, steps laid one after another in time. What the
 * operations mean is not known here: trace/graph/load_job.c. */
#include "trace/import/import.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/intern.h"
#include "base/num.h"
#include "base/units.h"
#include "trace/import/import_priv.h"
#include "trace/import/inflate_stream.h"

enum { BUFFER_BYTES = 256 << 10, MAX_CELLS = 64, MAX_CELL_BYTES = 128, MAX_ID = 1 << 20 };
enum { MAX_TIME_S = 1000000000 };
static const int64_t MAX_END_NS = INT64_MAX / 4;

enum column {
	COL_DP,
	COL_STAGE,
	COL_STEP,
	COL_TYPE,
	COL_START,
	COL_DURATION,
	COL_SEQ,
	N_NEEDED,
	COL_RANK = N_NEEDED,
	COL_CHUNK,
	COL_BATCH,
	N_COLUMNS
};
static const char *const COLUMN_NAMES[N_COLUMNS] = {
	[COL_DP] = "dp_rank",  [COL_STAGE] = "stage",    [COL_STEP] = "step",
	[COL_TYPE] = "optype", [COL_START] = "start_ts", [COL_DURATION] = "duration",
	[COL_SEQ] = "seq_id",  [COL_RANK] = "rank",      [COL_CHUNK] = "mc",
	[COL_BATCH] = "mb_id",
};

enum { COLLECTIVES = 5, N_STREAMS }; /* streams of a worker */

struct step {
	int32_t id;
	int64_t offset_ns;
};
struct worker {
	int32_t rank;
	uint32_t lanes[N_STREAMS]; /* 0 = not used yet */
};
struct reader {
	const char *path;
	struct sc_trace_writer *writer;
	struct sc_import_stats *stats;
	int cell_of[N_COLUMNS]; /* -1: not in the file */
	size_t n_cells;
	SC_VEC(struct step) steps;
	SC_VEC(struct worker) workers;
	struct sc_intern step_ids, worker_ids; /* places of both */
	size_t step;                           /* of the row before */
	int64_t last_end_ns;
	int32_t n_dp, n_stages;
};

static size_t split_cells(char *line, char **cells)
{
	size_t n = 0;

	for (char *p = line;; p++) {
		if (n == MAX_CELLS)
			return MAX_CELLS + 1;
		cells[n++] = p;
		p = strchr(p, ',');
		if (!p)
			return n;
		*p = '\0';
	}
}

static int read_header(struct reader *r, char *line, struct sc_err *err)
{
	char *cells[MAX_CELLS];

	if (strncmp(line, "\xEF\xBB\xBF", 3) == 0) /* a mark of UTF-8 is none of the name */
		line += 3;
	r->n_cells = split_cells(line, cells);
	if (r->n_cells > MAX_CELLS)
		return sc_err_at(err, SC_ELIMIT, r->path, 1, 0, "more than %d columns", MAX_CELLS);
	for (int c = 0; c < N_COLUMNS; c++) {
		r->cell_of[c] = -1;
		for (size_t i = 0; i < r->n_cells; i++)
			if (strcmp(cells[i], COLUMN_NAMES[c]) == 0)
				r->cell_of[c] = (int)i;
		if (c < N_NEEDED && r->cell_of[c] < 0)
			return sc_err_at(err, SC_EFORMAT, r->path, 1, 0,
					 "an operator timeline needs the column \"%s\"",
					 COLUMN_NAMES[c]);
	}
	return 0;
}

static bool get_int(const struct reader *r, char *const *cells, enum column column, int64_t min,
		    int64_t max, int32_t *out)
{
	int64_t value;

	if (r->cell_of[column] < 0 || !*cells[r->cell_of[column]])
		return column >= N_NEEDED; /* stays -1 */
	if (!sc_parse_int(cells[r->cell_of[column]], &value) || value < min || value > max)
		return false;
	*out = (int32_t)value;
	return true;
}

static bool get_time(const struct reader *r, char *const *cells, enum column column, int64_t *out)
{
	double s;

	if (!sc_parse_double(cells[r->cell_of[column]], &s) || fabs(s) > MAX_TIME_S)
		return false;
	*out = llround(s * (double)SC_NS_PER_S);
	return true;
}

/* Why a row is not an operation, or NULL. */
static const char *read_op(const struct reader *r, char *const *cells, struct sc_trace_event *event,
			   int32_t *rank)
{
	struct sc_trace_job *job = &event->job;
	const char *type = cells[r->cell_of[COL_TYPE]];

	*job = (struct sc_trace_job){.micro_batch = -1, .chunk = -1};
	if (!get_int(r, cells, COL_DP, 0, MAX_ID, &job->dp_rank) ||
	    !get_int(r, cells, COL_STAGE, 0, MAX_ID, &job->stage))
		return "bad worker";
	if (!get_int(r, cells, COL_STEP, 0, INT32_MAX, &job->step))
		return "bad step";
	if (!get_int(r, cells, COL_SEQ, 0, INT32_MAX, &job->seq) ||
	    !get_int(r, cells, COL_CHUNK, -1, MAX_ID, &job->chunk) ||
	    !get_int(r, cells, COL_BATCH, -1, INT32_MAX, &job->micro_batch))
		return "bad number";
	if (!get_time(r, cells, COL_START, &event->start_ns) ||
	    !get_time(r, cells, COL_DURATION, &event->dur_ns))
		return "bad time";
	if (event->dur_ns < 0)
		return "negative duration";
	if (!*type || strlen(type) > MAX_CELL_BYTES)
		return "bad operation name";
	*rank = -1;
	return get_int(r, cells, COL_RANK, 0, MAX_ID, rank) ? NULL : "bad rank";
}

/* A step whose clock starts again is laid behind the one before. */
static int64_t step_offset(struct reader *r, const struct sc_trace_event *event)
{
	struct step step = {.id = event->job.step};

	if (r->step < r->steps.n && r->steps.at[r->step].id == step.id)
		return r->steps.at[r->step].offset_ns;
	r->step = sc_intern_add_n(&r->step_ids, (const char *)&step.id, sizeof(step.id));
	if (r->step < r->steps.n)
		return r->steps.at[r->step].offset_ns;
	if (r->steps.n) {
		step.offset_ns = r->steps.at[r->steps.n - 1].offset_ns;
		if (event->start_ns + step.offset_ns < r->last_end_ns)
			step.offset_ns = r->last_end_ns - event->start_ns + SC_NS_PER_S;
	}
	SC_VEC_PUSH(&r->steps, step);
	return step.offset_ns;
}

/* Operations of one stream of a worker do not overlap. */
static const char *const STREAMS[] = {"compute",       "forward-send",  "forward-recv",
				      "backward-send", "backward-recv", "collectives"};

/* Without a column for it, ranks are numbered as they come. */
static uint32_t lane_of(struct reader *r, int32_t rank, const struct sc_trace_job *job,
			const char *type)
{
	const int32_t key[2] = {job->dp_rank, job->stage};
	const struct worker fresh = {.rank = rank < 0 ? (int32_t)r->workers.n : rank};
	const size_t at = sc_intern_add_n(&r->worker_ids, (const char *)key, sizeof(key));
	struct sc_trace_lane lane = {.device = -1, .stream = -1};
	size_t stream = 1;
	char name[96];
	int n;

	while (stream < COLLECTIVES && strcmp(type, STREAMS[stream]) != 0)
		stream++;
	if (stream == COLLECTIVES && !sc_ends_with(type, "-scatter") &&
	    !sc_ends_with(type, "-gather"))
		stream = 0;
	if (at == r->workers.n)
		SC_VEC_PUSH(&r->workers, fresh);
	if (!r->workers.at[at].lanes[stream]) {
		n = snprintf(name, sizeof(name), "dp %d, stage %d: %s", (int)job->dp_rank,
			     (int)job->stage, STREAMS[stream]);
		lane.pid = r->workers.at[at].rank;
		lane.tid = (int32_t)stream;
		lane.name = sc_trace_writer_string(r->writer, name, (size_t)n);
		r->workers.at[at].lanes[stream] = sc_trace_writer_lane(r->writer, &lane);
	}
	return r->workers.at[at].lanes[stream];
}

static void job_read_row(struct reader *r, char *line)
{
	char *cells[MAX_CELLS];
	struct sc_trace_event event = {.cls = SC_EV_JOB_OP};
	const char *why = "wrong number of cells", *type;
	int32_t rank;

	r->stats->n_records++;
	if (split_cells(line, cells) == r->n_cells)
		why = read_op(r, cells, &event, &rank);
	if (!why) {
		/* Many steps of years each: no sum of times may leave its range. */
		event.start_ns += step_offset(r, &event);
		if (event.start_ns > MAX_END_NS - event.dur_ns)
			why = "time out of range";
	}
	if (why) {
		sc_import_count_bad(r->stats, why);
		return;
	}
	if (event.start_ns + event.dur_ns > r->last_end_ns)
		r->last_end_ns = event.start_ns + event.dur_ns;
	type = cells[r->cell_of[COL_TYPE]];
	event.name = sc_trace_writer_string(r->writer, type, strlen(type));
	event.lane = lane_of(r, rank, &event.job, type);
	sc_trace_writer_add(r->writer, &event);
	r->stats->n_events++;
	if (event.job.dp_rank >= r->n_dp)
		r->n_dp = event.job.dp_rank + 1;
	if (event.job.stage >= r->n_stages)
		r->n_stages = event.job.stage + 1;
}

static int read_line(struct reader *r, char *line, size_t n, struct sc_err *err)
{
	if (n && line[n - 1] == '\r')
		line[n - 1] = '\0';
	if (r->n_cells == 0)
		return read_header(r, line, err);
	if (*line)
		job_read_row(r, line);
	return 0;
}

static int read_lines(struct reader *r, struct sc_inflate_window *w, struct sc_err *err)
{
	char *end;
	int rc = 0;

	while (rc == 0 && sc_inflate_more(w, BUFFER_BYTES))
		while (rc == 0 && (end = memchr(w->at, '\n', (size_t)(w->end - w->at)))) {
			char *line = w->buf + (w->at - w->buf);

			*end = '\0';
			rc = read_line(r, line, (size_t)(end - line), err);
			w->at = end + 1;
		}
	rc = rc ? rc : w->rc;
	if (rc == 0 && !w->eof)
		rc = sc_err_at(err, SC_ELIMIT, r->path, (unsigned)(r->stats->n_records + 2), 0,
			       "a line of more than %d bytes", BUFFER_BYTES);
	r->stats->truncated = sc_inflate_damage(w->in);
	if (rc == 0 && w->at < w->end && !r->stats->truncated) /* a last line without its end */
		rc = read_line(r, w->buf + (w->at - w->buf), (size_t)(w->end - w->at), err);
	return rc;
}

static int job_read_file(struct reader *r, const struct sc_import_opts *opts, struct sc_err *err)
{
	struct sc_inflate_window window = {.cap = BUFFER_BYTES, .err = err};
	int rc = sc_inflate_open(r->path, opts->progress, &window.in, err);

	if (rc)
		return rc;
	rc = read_lines(r, &window, err);
	free(window.buf);
	r->stats->in_bytes = sc_inflate_bytes(window.in);
	sc_inflate_close(window.in);
	if (rc == 0 && r->n_cells == 0)
		rc = sc_err_at(err, SC_EFORMAT, r->path, 1, 0, "the file is empty");
	if (rc == 0 && r->stats->n_events == 0)
		rc = sc_err_at(err, SC_EFORMAT, r->path, 0, 0, "no row of it is an operation");
	return rc;
}

static void put_meta(struct reader *r)
{
	const struct {
		const char *key;
		int64_t value;
	} facts[] = {{"job.dp", r->n_dp},
		     {"job.stages", r->n_stages},
		     {"job.workers", (int64_t)r->workers.n},
		     {"job.steps", (int64_t)r->steps.n}};
	char text[32];

	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		snprintf(text, sizeof(text), "%lld", (long long)facts[i].value);
		sc_trace_writer_meta(r->writer, facts[i].key, text);
	}
	r->stats->n_steps = (int64_t)r->steps.n;
}

/* A trace of all ranks: neither its name nor its place among others says one. */
static int import_job(const char *path, const struct sc_import_opts *opts,
		      struct sc_import_stats *stats, struct sc_err *err)
{
	struct sc_import_opts own = {.dir = opts->dir,
				     .rank = -1,
				     .other_rank = -1,
				     .stem = opts->stem ? opts->stem : path,
				     .progress = opts->progress};
	struct sc_import_output out = {.in_path = "", .opts = &own};
	struct reader r = {.path = path, .stats = stats};
	int rc = sc_import_output_create(&out, "job", err);

	r.writer = out.writer;
	if (rc == 0)
		rc = job_read_file(&r, &own, err);
	if (rc == 0) {
		put_meta(&r);
		rc = sc_import_output_finish(&out, stats, err);
	}
	sc_import_output_discard(&out);
	SC_VEC_RELEASE(&r.steps);
	SC_VEC_RELEASE(&r.workers);
	sc_intern_release(&r.step_ids);
	sc_intern_release(&r.worker_ids);
	return rc;
}

static bool has_column(const char *line, size_t n, const char *name)
{
	const size_t n_name = strlen(name);

	for (size_t i = 0; i + n_name <= n; i++)
		if ((i == 0 || line[i - 1] == ',') && memcmp(line + i, name, n_name) == 0 &&
		    (i + n_name == n || line[i + n_name] == ',' || line[i + n_name] == '\r'))
			return true;
	return false;
}

static bool probe_job(const char *head, size_t n)
{
	const char *end = memchr(head, '\n', n);

	if (end)
		n = (size_t)(end - head);
	return has_column(head, n, COLUMN_NAMES[COL_TYPE]) &&
	       has_column(head, n, COLUMN_NAMES[COL_START]);
}

const struct sc_importer sc_import_job = {.name = "job", .probe = probe_job, .run = import_job};
