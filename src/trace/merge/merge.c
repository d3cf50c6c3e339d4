/* Ranks to be merged, and times on the common clock. */
#include "trace/merge/merge.h"

#include <math.h>
#include <stdlib.h>

#include "base/search.h"
#include "base/stats.h"

/* Finds which calls of different ranks are one collective. Within a communicator: by the number
 * that the source gives, else by order; since recordings may begin at different calls, the order is
 * shifted so that kinds and sizes agree best, and among equals so that the ends lie closest; where
 * clocks are too far apart to tell one call from the next, so that numbered steps are the same. */

enum { MAX_SHIFT = 64, MAX_COMPARED = 512 };

struct comm_call {
	uint64_t comm;
	uint32_t rank, call; /* indices */
};
/* Calls of one communicator on one rank, in order. */
struct track {
	const struct comm_call *calls;
	size_t n;
};

static struct sc_merge_call *call_of(const struct sc_merge *m, const struct track *t, size_t i)
{
	return &m->ranks.at[t->calls[i].rank].calls.at[t->calls[i].call];
}

SC_COMPARE(compare_comm_calls, struct comm_call,
	   4 * SC_ORDER(a->comm, b->comm) + 2 * SC_ORDER(a->rank, b->rank) +
		   SC_ORDER(a->call, b->call));

/* ---- by order ---- */

static bool calls_alike(const struct sc_merge_call *a, const struct sc_merge_call *b)
{
	return a->kind == b->kind && (a->bytes_differ || b->bytes_differ || a->bytes < 0 ||
				      b->bytes < 0 || a->bytes == b->bytes);
}

/* How well `b` fits `a` when its call i is a's call i + shift. */
struct fit {
	size_t n, n_alike;
	double middle_ns; /* median of end differences */
	double spread_ns; /* median distance of them from it */
};

static struct fit fit_at(const struct sc_merge *m, const struct track *a, const struct track *b,
			 int64_t shift, double *scratch)
{
	struct fit fit = {.n = 0};
	size_t n = 0;

	for (size_t i = 0; i < b->n && fit.n < MAX_COMPARED; i++) {
		const int64_t at = (int64_t)i + shift;

		if (at < 0 || at >= (int64_t)a->n)
			continue;
		fit.n++;
		if (!calls_alike(call_of(m, a, (size_t)at), call_of(m, b, i)))
			continue;
		fit.n_alike++;
		scratch[n++] =
			(double)(call_of(m, b, i)->end_ns - call_of(m, a, (size_t)at)->end_ns);
	}
	if (n == 0)
		return fit;
	fit.middle_ns = sc_median_sorting(scratch, n);
	for (size_t i = 0; i < n; i++)
		scratch[i] = fabs(scratch[i] - fit.middle_ns);
	fit.spread_ns = sc_median_sorting(scratch, n);
	return fit;
}

/* More alike calls are better. Of nearly as many, ends that differ by half as much or less by their
 * steadiness, else by their middle: calls of one kind and size at even times fit at any shift, but
 * clocks of hosts are not a whole iteration apart. */
static bool fits_better(const struct fit *a, const struct fit *best)
{
	const double part = a->n ? (double)a->n_alike / (double)a->n : 0;
	const double best_part = best->n ? (double)best->n_alike / (double)best->n : 0;

	if (a->n_alike == 0 || fabs(part - best_part) > 0.02)
		return part > best_part;
	if (a->n * 2 < best->n || best->n * 2 < a->n)
		return a->n > best->n;
	if (a->spread_ns < best->spread_ns / 2 || best->spread_ns < a->spread_ns / 2)
		return a->spread_ns < best->spread_ns;
	return fabs(a->middle_ns) < fabs(best->middle_ns) / 2;
}

static int64_t step_of(const struct sc_merge *m, const struct track *t, size_t i)
{
	return call_of(m, t, i)->step;
}

/* By which the first step that both have begins with the same call; 0: there is none. */
static int64_t shift_of_steps(const struct sc_merge *m, const struct track *a,
			      const struct track *b)
{
	for (size_t i = 0; i < b->n; i++)
		for (size_t k = 0; k < a->n && step_of(m, b, i) > 0; k++)
			if (step_of(m, a, k) == step_of(m, b, i))
				return (int64_t)k - (int64_t)i;
	return 0;
}

/* Can the ends say which call is which? They are further apart than half of the way from one call
 * to the next. */
static bool clock_tells(const struct sc_merge *m, const struct track *b, const struct fit *fit)
{
	const double all_ns = (double)(call_of(m, b, b->n - 1)->end_ns - call_of(m, b, 0)->end_ns);

	return b->n < 2 || fabs(fit->middle_ns) * 2 * (double)(b->n - 1) < all_ns;
}

static int64_t best_shift(const struct sc_merge *m, const struct track *a, const struct track *b)
{
	double *scratch = sc_xmalloc((MAX_COMPARED + 1) * sizeof(*scratch));
	struct fit best = fit_at(m, a, b, 0, scratch);
	const int64_t limit = (int64_t)(b->n < a->n ? a->n : b->n) / 2;
	/* Nothing is missing where as many calls were recorded and all are alike in order. */
	const bool whole = a->n == b->n && best.n_alike == best.n && a->n < 2 * MAX_SHIFT;
	int64_t shift = 0;

	for (int64_t s = 1; !whole && s <= MAX_SHIFT && s <= limit; s++) {
		for (int sign = -1; sign <= 1; sign += 2) {
			const struct fit fit = fit_at(m, a, b, sign * s, scratch);

			if (fits_better(&fit, &best)) {
				best = fit;
				shift = sign * s;
			}
		}
	}
	if (!clock_tells(m, b, &best)) {
		const int64_t by_steps = shift_of_steps(m, a, b);
		const struct fit fit = fit_at(m, a, b, by_steps, scratch);

		if (fit.n_alike == fit.n && fit.n)
			shift = by_steps;
	}
	free(scratch);
	return shift;
}

/* ---- numbering ---- */

/* A call under the name that all its ranks have for it. */
struct keyed {
	int64_t number;
	int32_t kind;
	uint32_t rank;
	struct sc_merge_call *call;
};

SC_COMPARE(compare_keyed, struct keyed,
	   4 * SC_ORDER(a->number, b->number) + 2 * SC_ORDER(a->kind, b->kind) +
		   SC_ORDER(a->rank, b->rank));

/* Same number and kind: one instance, in which a rank is once. */
static void number_instances(struct sc_merge *m, struct keyed *keyed, size_t n)
{
	SC_SORT(keyed, n, compare_keyed);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && keyed[end].number == keyed[i].number &&
			      keyed[end].kind == keyed[i].kind &&
			      (end == i || keyed[end].rank != keyed[end - 1].rank);
		     end++)
			keyed[end].call->instance = (int32_t)m->n_members.n;
		if (end - i > 1)
			m->n_matched += end - i;
		SC_VEC_PUSH(&m->n_members, (uint32_t)(end - i));
	}
}

/* All calls of a communicator, by rank. */
static void match_communicator(struct sc_merge *m, const struct comm_call *calls, size_t n)
{
	struct keyed *keyed = sc_xmalloc(n * sizeof(*keyed));
	const struct track all = {calls, n};
	struct track first = all;
	bool numbered = true;

	for (size_t i = 0; i < n; i++)
		numbered = numbered && call_of(m, &all, i)->seq >= 0;
	for (size_t i = 0, end; i < n; i = end) {
		struct track track = {.calls = &calls[i]};
		int64_t shift = 0;

		for (end = i; end < n && calls[end].rank == calls[i].rank; end++)
			;
		track.n = end - i;
		if (i == 0)
			first = track;
		else if (!numbered)
			shift = best_shift(m, &first, &track);
		for (size_t k = 0; k < track.n; k++) {
			struct sc_merge_call *call = call_of(m, &track, k);

			keyed[i + k] = (struct keyed){
				.number = numbered ? call->seq : (int64_t)k + shift,
				.kind = call->kind,
				.rank = calls[i].rank,
				.call = call,
			};
		}
	}
	if (first.n == n)
		m->n_solo += n;
	number_instances(m, keyed, n);
	free(keyed);
}

void sc_merge_match(struct sc_merge *merge)
{
	SC_VEC(struct comm_call) calls = {0};

	merge->n_members.n = merge->n_matched = merge->n_solo = 0;
	for (size_t r = 0; r < merge->ranks.n; r++)
		for (size_t i = 0; i < merge->ranks.at[r].calls.n; i++)
			SC_VEC_PUSH(&calls, ((struct comm_call){merge->ranks.at[r].calls.at[i].comm,
								(uint32_t)r, (uint32_t)i}));
	merge->n_calls = calls.n;
	SC_SORT(calls.at, calls.n, compare_comm_calls);
	for (size_t i = 0, end; i < calls.n; i = end) {
		for (end = i; end < calls.n && calls.at[end].comm == calls.at[i].comm; end++)
			;
		match_communicator(merge, &calls.at[i], end - i);
	}
	SC_VEC_RELEASE(&calls);
}

void sc_merge_release(struct sc_merge *merge)
{
	for (size_t r = 0; r < merge->ranks.n; r++) {
		SC_VEC_RELEASE(&merge->ranks.at[r].calls);
		SC_VEC_RELEASE(&merge->ranks.at[r].pieces);
	}
	SC_VEC_RELEASE(&merge->ranks);
	SC_VEC_RELEASE(&merge->n_members);
}

struct sc_merge_rank *sc_merge_add_rank(struct sc_merge *merge, int32_t rank, uint64_t host)
{
	const struct sc_merge_rank new_rank = {
		.rank = rank,
		.host = host,
		.basis = SC_MERGE_HOST_CLOCK,
		.spread_ns = NAN,
	};

	SC_VEC_PUSH(&merge->ranks, new_rank);
	return &merge->ranks.at[merge->ranks.n - 1];
}

int64_t sc_merge_correction(const struct sc_merge_rank *rank, int64_t ns)
{
	const struct sc_merge_piece *piece;
	size_t i = 0;

	if (rank->pieces.n == 0)
		return 0;
	while (i + 1 < rank->pieces.n && ns >= rank->pieces.at[i].to_ns)
		i++;
	piece = &rank->pieces.at[i];
	return (int64_t)llround(piece->offset_ns + piece->drift * (double)(ns - piece->from_ns));
}

double sc_merge_bound_ns(const struct sc_merge_rank *rank)
{
	double widest = NAN;

	for (size_t i = 0; i < rank->pieces.n; i++)
		widest = fmax(widest, (rank->pieces.at[i].high_ns - rank->pieces.at[i].low_ns) / 2);
	return widest;
}

const char *sc_merge_basis_name(enum sc_merge_basis basis)
{
	static const char *const names[] = {
		[SC_MERGE_REFERENCE] = "reference",     [SC_MERGE_SAME_HOST] = "same host",
		[SC_MERGE_COLLECTIVES] = "collectives", [SC_MERGE_FEW] = "few collectives",
		[SC_MERGE_HOST_CLOCK] = "host clock",
	};

	return names[basis];
}
