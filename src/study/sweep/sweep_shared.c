/* Shares the rows of a sweep over processes that all make the same sweeps, in rounds: a counter
 * hands the rows out and an exchange brings all of them to all. So results do not depend on who
 * predicted what, and after a loss those of the rounds before are taken. Where nothing takes rows
 * as they come, rank 0 goes on alone. */
#include <assert.h>
#include <string.h>

#include "study/sweep/sweep_priv.h"

/* The limits of a round: a rank's rows, those of all ranks, which bound what an exchange brings,
 * and the parts of a rank. They must not depend on a rank's own threads. */
enum { ROUND_ROWS = 4 << 10, MAX_ROUND = 64 << 10, PARTS = 8 };

/* The head of a packed row, before the error's text and the warnings. */
struct row_head {
	size_t index, n_error, n_warnings;
	struct sc_outcome outcome;
};

/* Copies the next n bytes, and moves on. */
static void take(const char **at, void *out, size_t n)
{
	memcpy(out, *at, n);
	*at += n;
}

void sc_sweep_pack_row(struct run *run, size_t index, const struct sc_warnings *warnings)
{
	const struct sc_outcome *outcome = &run->out[index];
	struct row_head head;

	memset(&head, 0, sizeof(head));
	head.index = index;
	head.n_error = strlen(outcome->error);
	head.n_warnings =
		offsetof(struct sc_warnings, text) + warnings->n * sizeof(*warnings->text);
	head.outcome = *outcome;
	pthread_mutex_lock(&run->order.lock);
	sc_strbuf_append_n(&run->packed, (const char *)&head, sizeof(head));
	sc_strbuf_append_n(&run->packed, outcome->error, head.n_error);
	sc_strbuf_append_n(&run->packed, (const char *)warnings, head.n_warnings);
	pthread_mutex_unlock(&run->order.lock);
}

/* Takes the rows that the others have packed. */
static int take_packed(struct run *run, struct sc_err *err)
{
	const char *at = sc_strbuf_get(&run->packed), *end = at + run->packed.n;
	int rc = 0;

	while (at < end && rc == 0) {
		struct sc_warnings warnings = {.n = 0};
		struct sc_outcome *out;
		struct row_head head;
		const char *error;

		take(&at, &head, sizeof(head));
		error = at;
		at += head.n_error;
		take(&at, &warnings, head.n_warnings);
		if (run->is_done[head.index])
			continue;
		out = &run->out[head.index];
		*out = head.outcome;
		out->error = sc_arena_strndup(run->arena, error, head.n_error);
		out->warnings = NULL; /* addresses of the other's */
		out->band = NULL;
		rc = sc_sweep_put_row(run, head.index, &warnings, err);
	}
	sc_strbuf_clear(&run->packed);
	return rc;
}

int sc_sweep_run_shared(struct run *run, struct sc_err *err)
{
	struct sc_ranks *ranks = run->sweep->ranks;
	const size_t of_all = (size_t)ranks->count * ROUND_ROWS;
	const size_t most = of_all < MAX_ROUND ? of_all : MAX_ROUND;
	struct sc_err lost = {.code = SC_OK};
	int rc = 0;

	assert(!run->sweep->opts->plan);
	if (!ranks->same)
		ranks->same = sc_sweep_fingerprint(run->sweep);
	run->is_done = sc_arena_calloc(run->arena, run->n_rows, sizeof(*run->is_done));
	for (size_t begin = 0, n, at; begin < run->n_rows && rc == 0; begin += n) {
		const size_t part = 1 + (run->n_rows - begin < most ? run->n_rows - begin : most) /
						((size_t)ranks->count * PARTS);

		n = run->n_rows - begin < most ? run->n_rows - begin : most;
		while (rc == 0 && (at = ranks->take(ranks, part)) < n)
			rc = sc_sweep_run_some(run, begin + at, n - at < part ? n - at : part, err);
		if (rc)
			break;
		if (ranks->exchange(ranks, &run->packed, &lost) == 0)
			rc = take_packed(run, err);
		else if (!ranks->is_lost || ranks->self || run->sweep->take)
			rc = sc_err_set(err, lost.code, "%s", lost.text);
		else
			rc = sc_sweep_run_some(run, begin, n = run->n_rows - begin, err);
	}
	sc_strbuf_release(&run->packed);
	return rc;
}
