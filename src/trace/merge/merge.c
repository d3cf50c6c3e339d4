/* Ranks to be merged, and times on the common clock. */
#include "trace/merge/merge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/stats.h"

/* Which calls of different ranks are one collective. Within a communicator: by the number that the source
 * gives, else by order; since recordings may begin at different calls, the order is shifted so that kinds
 * and sizes agree best, and among equals so that the ends lie closest. */

enum { MAX_SHIFT = 64, MAX_COMPARED = 512 };

/* Calls of one communicator on one rank: indices of its calls, in order. */
struct track {
	size_t rank;
	uint64_t comm;
	uint32_t *call;
	size_t n;
	bool numbered; /* all have a seq */
	int64_t shift; /* of the order, against the first track of the communicator */
};
struct tracks {
	SC_VEC(struct track) list;
};

static const struct sc_merge_call *call_of(const struct sc_merge *m, const struct track *t,
					   size_t i)
{
	return &m->ranks.at[t->rank].calls.at[t->call[i]];
}

struct comm_call {
	uint64_t comm;
	uint32_t call;
};

static int compare_comm_calls(const void *left, const void *right)
{
	const struct comm_call *a = left, *b = right;

	return 2 * SC_ORDER(a->comm, b->comm) + SC_ORDER(a->call, b->call);
}

static void add_tracks(const struct sc_merge *m, size_t rank, struct tracks *out)
{
	const size_t n = m->ranks.at[rank].calls.n;
	struct comm_call *calls = sc_xmalloc((n + 1) * sizeof(*calls));

	for (size_t i = 0; i < n; i++)
		calls[i] = (struct comm_call){m->ranks.at[rank].calls.at[i].comm, (uint32_t)i};
	qsort(calls, n, sizeof(*calls), compare_comm_calls);
	for (size_t i = 0, end; i < n; i = end) {
		struct track t = {.rank = rank, .comm = calls[i].comm, .numbered = true};

		for (end = i; end < n && calls[end].comm == t.comm; end++)
			;
		t.n = end - i;
		t.call = sc_xmalloc(t.n * sizeof(*t.call));
		for (size_t k = 0; k < t.n; k++) {
			t.call[k] = calls[i + k].call;
			t.numbered = t.numbered && call_of(m, &t, k)->seq >= 0;
		}
		SC_VEC_PUSH(&out->list, t);
	}
	free(calls);
}

static int compare_tracks(const void *left, const void *right)
{
	const struct track *a = left, *b = right;

	return 2 * SC_ORDER(a->comm, b->comm) + SC_ORDER(a->rank, b->rank);
}

/* ---- by order ---- */

static bool alike(const struct sc_merge_call *a, const struct sc_merge_call *b)
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
		if (!alike(call_of(m, a, (size_t)at), call_of(m, b, i)))
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

/* More alike calls are better. Of nearly as many, ends that differ by half as much or less by their steadiness,
 * else by their middle: calls of one kind and size at even times fit at any shift, but clocks of hosts are
 * not a whole iteration apart. */
static bool better(const struct fit *a, const struct fit *best)
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

static int64_t best_shift(const struct sc_merge *m, const struct track *a, const struct track *b)
{
	double *scratch = sc_xmalloc((MAX_COMPARED + 1) * sizeof(*scratch));
	struct fit best = fit_at(m, a, b, 0, scratch);
	const int64_t limit = (int64_t)(b->n < a->n ? a->n : b->n) / 2;
	int64_t shift = 0;

	/* Where as many calls were recorded, and all are alike in order, nothing is missing. */
	if (a->n == b->n && best.n_alike == best.n && a->n < 2 * MAX_SHIFT) {
		free(scratch);
		return 0;
	}
	for (int64_t s = 1; s <= MAX_SHIFT && s <= limit; s++) {
		for (int sign = -1; sign <= 1; sign += 2) {
			const struct fit fit = fit_at(m, a, b, sign * s, scratch);

			if (better(&fit, &best)) {
				best = fit;
				shift = sign * s;
			}
		}
	}
	free(scratch);
	return shift;
}

/* ---- numbering ---- */

/* A call under the name that all its ranks have for it. */
struct keyed {
	int64_t number;
	int32_t kind;
	uint32_t track;
	struct sc_merge_call *call;
};

static int compare_keyed(const void *left, const void *right)
{
	const struct keyed *a = left, *b = right;

	return 4 * SC_ORDER(a->number, b->number) + 2 * SC_ORDER(a->kind, b->kind) +
	       SC_ORDER(a->track, b->track);
}

/* Same number and kind: one instance, in which a rank is once. */
static void number_instances(struct sc_merge *m, struct keyed *keyed, size_t n)
{
	qsort(keyed, n, sizeof(*keyed), compare_keyed);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && keyed[end].number == keyed[i].number &&
			      keyed[end].kind == keyed[i].kind &&
			      (end == i || keyed[end].track != keyed[end - 1].track);
		     end++)
			keyed[end].call->instance = (int32_t)m->n_members.n;
		if (end - i > 1)
			m->n_matched += end - i;
		SC_VEC_PUSH(&m->n_members, (uint32_t)(end - i));
	}
}

static void match_communicator(struct sc_merge *m, struct track *tracks, size_t n_tracks)
{
	bool numbered = true;
	struct keyed *keyed;
	size_t n = 0, total = 0;

	for (size_t t = 0; t < n_tracks; t++) {
		numbered = numbered && tracks[t].numbered;
		total += tracks[t].n;
	}
	if (n_tracks == 1)
		m->n_solo += total;
	keyed = sc_xmalloc((total + 1) * sizeof(*keyed));
	for (size_t t = 0; t < n_tracks; t++) {
		tracks[t].shift = numbered || t == 0 ? 0 : best_shift(m, &tracks[0], &tracks[t]);
		for (size_t i = 0; i < tracks[t].n; i++) {
			struct sc_merge_call *call =
				&m->ranks.at[tracks[t].rank].calls.at[tracks[t].call[i]];

			keyed[n++] = (struct keyed){
				.number = numbered ? call->seq : (int64_t)i + tracks[t].shift,
				.kind = call->kind,
				.track = (uint32_t)t,
				.call = call,
			};
		}
	}
	number_instances(m, keyed, n);
	free(keyed);
}

void sc_merge_match(struct sc_merge *merge)
{
	struct tracks tracks = {.list = {0}};

	merge->n_members.n = merge->n_calls = merge->n_matched = merge->n_solo = 0;
	for (size_t r = 0; r < merge->ranks.n; r++) {
		merge->n_calls += merge->ranks.at[r].calls.n;
		for (size_t i = 0; i < merge->ranks.at[r].calls.n; i++)
			merge->ranks.at[r].calls.at[i].instance = SC_MERGE_NO_INSTANCE;
		add_tracks(merge, r, &tracks);
	}
	if (tracks.list.n)
		qsort(tracks.list.at, tracks.list.n, sizeof(*tracks.list.at), compare_tracks);
	for (size_t i = 0, end; i < tracks.list.n; i = end) {
		for (end = i;
		     end < tracks.list.n && tracks.list.at[end].comm == tracks.list.at[i].comm;
		     end++)
			;
		match_communicator(merge, &tracks.list.at[i], end - i);
	}
	for (size_t i = 0; i < tracks.list.n; i++)
		free(tracks.list.at[i].call);
	SC_VEC_RELEASE(&tracks.list);
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

	for (size_t i = 0; i < rank->pieces.n; i++) {
		const double half = (rank->pieces.at[i].high_ns - rank->pieces.at[i].low_ns) / 2;

		if (isnan(widest) || half > widest)
			widest = half;
	}
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
