/* Finds the importer that a file is for, by its first bytes. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "trace/import/import_priv.h"
#include "trace/import/inflate_stream.h"

/* ---- Output gets its name at the end, when the rank is known ---- */

void sc_import_stem(const char *path, char *buf, size_t n_buf)
{
	static const char *const endings[] = {".gz",     ".json",   ".trace", ".pt",    ".et",
					      ".etplus", ".chakra", ".csv",   ".sqlite"};
	bool again = true;
	size_t n;

	snprintf(buf, n_buf, "%s", sc_file_name(path));
	while (again) {
		again = false;
		n = strlen(buf);
		for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
			size_t n_end = strlen(endings[i]);

			if (n > n_end && sc_ends_with(buf, endings[i])) {
				buf[n - n_end] = '\0';
				again = true;
				break;
			}
		}
	}
}

static bool take_number(const char *at, int32_t *out)
{
	const long long value = isdigit((unsigned char)*at) ? strtoll(at, NULL, 10) : -1;

	*out = value > INT32_MAX ? -1 : (int32_t)value;
	return *out >= 0;
}

/* The number in "rank3", "worker_3", "chakra.3.et"; -1 if there is none. */
static int32_t import_rank_of_name(const char *path)
{
	static const char *const words[] = {"rank", "worker", "Rank"};
	const char *name = sc_file_name(path), *dot;
	int32_t rank = -1;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const char *at = strstr(name, words[i]);

		if (!at)
			continue;
		at += strlen(words[i]);
		at += *at == '_' || *at == '-' || *at == '.';
		if (take_number(at, &rank))
			return rank;
	}
	for (dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
		const char *end = dot + 1 + strspn(dot + 1, "0123456789");

		/* "1.0.4.json" is a version. */
		if (dot > name && !isdigit((unsigned char)dot[-1]) && end > dot + 1 &&
		    (strncmp(end, ".et", 3) == 0 || strncmp(end, ".json", 5) == 0) &&
		    end - dot < 8 && take_number(dot + 1, &rank))
			return rank;
	}
	return -1;
}

/* A rank's file says in its name which one it is. */
static int settle_name(const struct sc_import_output *out, char *path, size_t n_path,
		       struct sc_err *err)
{
	const int32_t rank = out->identity.rank;
	char stem[256], number[32];
	int n;

	sc_import_stem(out->opts->stem ? out->opts->stem : out->in_path, stem, sizeof(stem));
	snprintf(number, sizeof(number), "rank%d", (int)rank);
	if (rank < 0 || (strncmp(stem, number, strlen(number)) == 0 &&
			 !isdigit((unsigned char)stem[strlen(number)])))
		n = snprintf(path, n_path, "%s/%s" SC_TRACE_SUFFIX, out->opts->dir, stem);
	else
		n = snprintf(path, n_path, "%s/%s.%s" SC_TRACE_SUFFIX, out->opts->dir, stem,
			     number);
	if (n < 0 || (size_t)n >= n_path)
		return sc_err_at(err, SC_EIO, out->opts->dir, 0, 0,
				 "the name of the output is too long");
	return 0;
}

int sc_import_output_create(struct sc_import_output *out, const char *source, struct sc_err *err)
{
	char path[4096];
	int rc;

	out->identity =
		(struct sc_trace_identity){.rank = -1, .world = -1, .local_rank = -1, .pid = -1};
	snprintf(out->identity.source, sizeof(out->identity.source), "%s", source);
	if (settle_name(out, path, sizeof(path), err) || sc_make_folder(out->opts->dir, err))
		return -SC_EIO;
	rc = sc_trace_writer_create(path, &out->identity, &out->writer, err);
	out->names.writer = out->writer;
	return rc;
}

int sc_import_output_finish(struct sc_import_output *out, struct sc_import_stats *stats,
			    struct sc_err *err)
{
	struct sc_trace_writer *writer = out->writer;
	int32_t rank = out->opts->rank >= 0 ? out->opts->rank : out->identity.rank;
	char path[4096];
	int rc;

	rank = rank >= 0 ? rank : import_rank_of_name(out->in_path);
	stats->rank = out->identity.rank = rank >= 0 ? rank : out->opts->other_rank;
	if (out->opts->rank >= 0 && out->identity.world > 0 &&
	    out->opts->rank >= out->identity.world)
		return sc_err_at(err, SC_EVALUE, out->in_path, 0, 0,
				 "--rank %d: the trace is of %d ranks, numbered from 0",
				 (int)out->opts->rank, (int)out->identity.world);
	rc = settle_name(out, path, sizeof(path), err);
	if (rc)
		return rc;
	out->writer = NULL;
	sc_trace_writer_identity(writer, &out->identity);
	/* One input may become several traces: each says what was lost since the last. */
	for (size_t i = 0; i < stats->n_reasons; i++) {
		struct sc_import_reason *bad = &stats->bad[i];

		if (bad->is_loss && bad->n > bad->n_said)
			sc_trace_writer_gap(writer, &(struct sc_trace_gap){SC_EV_OTHER,
									   bad->n - bad->n_said, 0,
									   0, bad->reason});
		bad->n_said = bad->n;
	}
	if (stats->truncated)
		sc_trace_writer_meta(writer, SC_META_PARTIAL, stats->truncated);
	return sc_trace_writer_finish(writer, path, err);
}

void sc_import_output_discard(struct sc_import_output *out)
{
	sc_trace_writer_discard(out->writer);
	out->writer = NULL;
	sc_import_names_release(&out->names);
}

enum { HEAD_BYTES = 64 << 10 };

static void count_reason(struct sc_import_stats *stats, const char *reason, bool is_loss)
{
	size_t i = 0;

	while (i < stats->n_reasons && strcmp(stats->bad[i].reason, reason) != 0)
		i++;
	if (i == SC_IMPORT_MAX_REASONS) {
		i--;
		stats->bad[i].reason = "other reasons";
		stats->bad[i].is_loss |= is_loss;
	} else if (i == stats->n_reasons) {
		stats->bad[stats->n_reasons++] =
			(struct sc_import_reason){.reason = reason, .is_loss = is_loss};
	}
	stats->bad[i].n++;
}

void sc_import_count_bad(struct sc_import_stats *stats, const char *reason)
{
	count_reason(stats, reason, true);
}

void sc_import_count_unused(struct sc_import_stats *stats, const char *reason)
{
	count_reason(stats, reason, false);
}

/* The first that takes a file gets it: the surest signs first. */
static const struct sc_importer *const IMPORTERS[] = {
	&sc_import_execution_trace, &sc_import_chakra, &sc_import_rocprof,
	&sc_import_kineto,          &sc_import_job,    &sc_import_nsys,
};

/* Profiles of other tools, some of which look like a known kind: what only they have, and what to
 * export instead. */
static const struct {
	const char *sign, *unless, *what;
} FOREIGN[] = {
	{"\"CommHash\"", "\"traceEvents\"",
	 "NCCL's example profiler plugin: it has no kernels but NCCL's; record the run with stepcast record or torch.profiler"},
	{"\"DurationNs\"", NULL,
	 "rocprof's results.json: record the run with rocprofv3 --output-format json or csv"},
	{"\"CPU functions\"", "\"cat\"",
	 "the old autograd profiler's, which does not say what was launched when: record the run with torch.profiler"},
};

static const char *foreign_kind(const char *head, size_t n)
{
	for (size_t i = 0; i < sizeof(FOREIGN) / sizeof(FOREIGN[0]); i++)
		if (sc_import_has(head, n, FOREIGN[i].sign) &&
		    !(FOREIGN[i].unless && sc_import_has(head, n, FOREIGN[i].unless)))
			return FOREIGN[i].what;
	return NULL;
}

/* The kind that a file which is for no importer looks like. */
static const char *looks_like(const char *head, size_t n)
{
	size_t at = sc_import_first(head, n);

	/* A packet of a trace is field 1 of its message. */
	if (n && head[0] == '\n' && memchr(head, '\0', n))
		return "Perfetto's binary trace (.pftrace): let rocprofv3 write JSON or CSV (--output-format)";
	if (at == n)
		return "an empty file";
	if (head[at] == '[') {
		at++;
		at += sc_import_first(head + at, n - at);
		if (at < n && head[at] == '[')
			return "a list of lists, as torch.profiler's memory timelines are";
		return "a JSON list that is no trace";
	}
	if (head[at] == '{' && sc_import_has(head, n, "\"workload_graph\""))
		return "Chakra's JSON, which says no times: import the profiler's own trace of the run";
	if (head[at] == '{')
		return "a JSON object that is no trace";
	for (size_t i = 0; i < n; i++)
		if (head[i] == '\0')
			return "a binary file of unknown kind";
	return "text of unknown kind";
}

static int read_head(const char *path, char **head, size_t *n, struct sc_err *err)
{
	struct sc_inflate *in;
	int rc = sc_inflate_open(path, NULL, &in, err);

	if (rc)
		return rc;
	*head = sc_xmalloc(HEAD_BYTES);
	*n = HEAD_BYTES;
	rc = sc_inflate_read(in, *head, n, err);
	if (rc)
		free(*head);
	sc_inflate_close(in);
	return rc;
}

int sc_import(const char *path, const struct sc_import_opts *opts, struct sc_import_stats *stats,
	      struct sc_err *err)
{
	const struct sc_importer *found = NULL;
	char *head;
	size_t n;
	int rc = read_head(path, &head, &n, err);

	if (rc)
		return rc;
	*stats = (struct sc_import_stats){.rank = -1};
	for (size_t i = 0;
	     !foreign_kind(head, n) && !found && i < sizeof(IMPORTERS) / sizeof(IMPORTERS[0]); i++)
		if (IMPORTERS[i]->probe(head, n))
			found = IMPORTERS[i];
	if (found && opts->mate && found != &sc_import_execution_trace)
		rc = sc_err_at(err, SC_EUSAGE, path, 0, 0,
			       "a mate goes with an execution trace; this is %s", found->name);
	else if (!found)
		rc = sc_err_at(err, SC_EUNSUPPORTED, path, 0, 0, "not a trace: it looks like %s",
			       foreign_kind(head, n) ? foreign_kind(head, n) : looks_like(head, n));
	free(head);
	if (rc)
		return rc;
	stats->importer = found->name;
	return found->run(path, opts, stats, err);
}
