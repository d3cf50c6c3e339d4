/* Which importer a file is for, by its first bytes. */

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "trace/import/import_priv.h"
#include "trace/import/inflate_stream.h"

enum { HEAD_BYTES = 64 << 10 };

static void count(struct sc_import_stats *stats, const char *reason, bool is_loss)
{
	for (size_t i = 0; i < stats->n_reasons; i++) {
		if (strcmp(stats->bad[i].reason, reason) == 0) {
			stats->bad[i].n++;
			return;
		}
	}
	if (stats->n_reasons == SC_IMPORT_MAX_REASONS) {
		stats->bad[SC_IMPORT_MAX_REASONS - 1].reason = "other reasons";
		stats->bad[SC_IMPORT_MAX_REASONS - 1].is_loss |= is_loss;
		stats->bad[SC_IMPORT_MAX_REASONS - 1].n++;
		return;
	}
	stats->bad[stats->n_reasons++] =
		(struct sc_import_reason){.reason = reason, .is_loss = is_loss, .n = 1};
}

void sc_import_count_bad(struct sc_import_stats *stats, const char *reason)
{
	count(stats, reason, true);
}

void sc_import_count_unused(struct sc_import_stats *stats, const char *reason)
{
	count(stats, reason, false);
}

/* The first that takes a file gets it: the surest signs first. */
static const struct sc_importer *const IMPORTERS[] = {
	&sc_import_execution_trace,
	&sc_import_chakra,
	&sc_import_kineto,
	&sc_import_job,
	&sc_import_nsys,
};

/* What a file that is for no importer looks like. */
static const char *looks_like(const char *head, size_t n)
{
	size_t at = sc_import_first(head, n);

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
	for (size_t i = 0; i < n; i++) {
		if (head[i] == '\0')
			return "a binary file of unknown kind";
	}
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
	for (size_t i = 0; !found && i < sizeof(IMPORTERS) / sizeof(IMPORTERS[0]); i++) {
		if (IMPORTERS[i]->probe(path, head, n))
			found = IMPORTERS[i];
	}
	if (found && opts->mate && found != &sc_import_execution_trace)
		rc = sc_err_at(err, SC_EUSAGE, path, 0, 0,
			       "a mate goes with an execution trace; this is %s", found->name);
	else if (!found)
		rc = sc_err_at(err, SC_EUNSUPPORTED, path, 0, 0, "not a trace: it looks like %s",
			       looks_like(head, n));
	free(head);
	if (rc)
		return rc;
	stats->importer = found->name;
	return found->run(path, opts, stats, err);
}
