/* Merging ranks whose clocks are known: matching, errors of the estimate, and bounds that hold. */
#include "base/rng.h"
#include "runner.h"
#include "trace/merge/merge.h"

#define US 1000.0
#define S 1e9

/* A job of which everything is known. */
struct script {
	int n_ranks, n_calls;
	double span_s, jitter_us, skew_us, drift_ppm, offset_us;
	double outliers; /* part of the ends that are late */
	double max_error_us;
	int n_seeds;
};

/* The rank's clock at a true time: what is to be undone. */
struct scripted_clock {
	double offset_ns, drift;
};

static int64_t local(const struct scripted_clock *c, double true_ns)
{
	return (int64_t)llround(true_ns + c->offset_ns + c->drift * true_ns);
}

static void add_call(struct sc_merge_rank *rank, const struct scripted_clock *c, double start_ns,
		     double end_ns)
{
	const struct sc_merge_call call = {
		.start_ns = local(c, start_ns),
		.end_ns = local(c, end_ns),
		.comm = 7,
		.seq = -1,
		.bytes = 1024,
		.barrier = true,
	};

	SC_VEC_PUSH(&rank->calls, call);
}

static void play(const struct script *s, int seed, struct scripted_clock *clocks,
		 struct sc_merge *m)
{
	const double period_ns = s->span_s * S / s->n_calls, transfer_ns = 20 * US;
	double *arrival = malloc((size_t)s->n_ranks * sizeof(*arrival));
	struct sc_rng rng;

	sc_rng_init(&rng, 1000 + (uint64_t)seed);
	for (int r = 0; r < s->n_ranks; r++) {
		clocks[r].offset_ns = r ? (2 * sc_rng_uniform(&rng) - 1) * s->offset_us * US : 0;
		clocks[r].drift = r ? (2 * sc_rng_uniform(&rng) - 1) * s->drift_ppm * 1e-6 : 0;
		sc_merge_add_rank(m, r, 0);
	}
	for (int k = 0; k < s->n_calls; k++) {
		double last = 0;

		for (int r = 0; r < s->n_ranks; r++) {
			arrival[r] = (k + 1) * period_ns + sc_rng_uniform(&rng) * s->skew_us * US;
			last = arrival[r] > last ? arrival[r] : last;
		}
		for (int r = 0; r < s->n_ranks; r++) {
			double end = last + transfer_ns + sc_rng_uniform(&rng) * s->jitter_us * US;

			if (sc_rng_uniform(&rng) < s->outliers)
				end += 300 * US;
			add_call(&m->ranks.at[r], &clocks[r], arrival[r], end);
		}
	}
	free(arrival);
}

/* ns that are missing from the correction at a true time. */
static double error_at(const struct sc_merge_rank *rank, const struct scripted_clock *c,
		       double true_ns)
{
	const int64_t shown = local(c, true_ns);

	return true_ns - (double)(shown + sc_merge_correction(rank, shown));
}

static const struct sc_merge_piece *piece_at(const struct sc_merge_rank *rank, int64_t ns)
{
	size_t i = 0;

	while (i + 1 < rank->pieces.n && ns >= rank->pieces.at[i].to_ns)
		i++;
	return &rank->pieces.at[i];
}

/* No run's largest error may be more than a study of the estimator by medians alone found in one
 * run each: 0.11, 0.46, 1.5, 4.5 and 6.4 us; the others are at most what the first of them were. */
static const struct script SCRIPTS[] = {
	{8, 2000, 20, 3, 100, 0, 5000, 0.05, 0.11, 10},
	{8, 200, 2, 3, 100, 0, 5000, 0.05, 0.46, 20},
	{8, 50, 0.5, 3, 100, 0, 5000, 0.05, 1.5, 20},
	{8, 500, 30, 3, 100, 20, 5000, 0.10, 0.46, 5},
	{64, 500, 50, 20, 100, 10, 5000, 0.10, 4.5, 2},
	{8, 4000, 600, 3, 100, 20, 5000, 0.05, 0.6, 2}, /* ten windows */
	{64, 200, 2, 3, 500, 0, 100, 0.05, 0.46, 2},
};

/* Over the run, in us; asserts that the bounds hold. */
static double largest_error(const struct script *s, const struct scripted_clock *clocks,
			    const struct sc_merge *m)
{
	double worst = 0;

	for (int r = 1; r < s->n_ranks; r++)
		for (double t = 0.01; t < 1; t += 0.03) {
			const double ns = s->span_s * S / s->n_calls +
					  t * s->span_s * S * (s->n_calls - 1) / s->n_calls;
			const double error = error_at(&m->ranks.at[r], &clocks[r], ns);
			const struct sc_merge_piece *p =
				piece_at(&m->ranks.at[r], local(&clocks[r], ns));

			worst = fmax(worst, fabs(error));
			ck_assert_double_ge(error, p->low_ns - 1);
			ck_assert_double_le(error, p->high_ns + 1);
		}
	return worst / US;
}

LOOP_TEST(test_scripted_clocks, N_OF(SCRIPTS))
{
	const struct script *s = &SCRIPTS[_i];

	for (int seed = 0; seed < n_cases(s->n_seeds); seed++) {
		struct scripted_clock clocks[64];
		struct sc_merge m = {.ranks = {0}};
		double error_us;

		play(s, seed, clocks, &m);
		sc_merge_match(&m);
		ck_assert_uint_eq(m.n_matched, (size_t)s->n_ranks * (size_t)s->n_calls);
		sc_merge_clocks(&m);
		for (int r = 1; r < s->n_ranks; r++)
			ck_assert_int_eq(m.ranks.at[r].basis, SC_MERGE_COLLECTIVES);
		error_us = largest_error(s, clocks, &m);
		ck_assert_msg(error_us <= s->max_error_us,
			      "script %d, seed %d: %.3f us, allowed %.3f", _i, seed, error_us,
			      s->max_error_us);
		sc_merge_release(&m);
	}
}

/* Ranks that begin to record at different calls: kinds give the order away. */
TEST(test_shifted_recordings)
{
	const struct script s = {4, 60, 1, 3, 50, 0, 1000, 0, 0, 1};
	struct scripted_clock clocks[4];
	struct sc_merge m = {.ranks = {0}};

	play(&s, 0, clocks, &m);
	for (size_t r = 0; r < 4; r++)
		for (size_t i = 0; i < m.ranks.at[r].calls.n; i++)
			m.ranks.at[r].calls.at[i].kind = (int32_t)(i * i % 7);
	/* Rank 2 lost its first three calls. */
	m.ranks.at[2].calls.n -= 3;
	for (size_t i = 0; i < m.ranks.at[2].calls.n; i++)
		m.ranks.at[2].calls.at[i] = m.ranks.at[2].calls.at[i + 3];
	sc_merge_match(&m);
	for (size_t i = 0; i < m.ranks.at[2].calls.n; i++)
		ck_assert_int_eq(m.ranks.at[2].calls.at[i].instance,
				 m.ranks.at[0].calls.at[i + 3].instance);
	ck_assert_uint_eq(m.n_matched, 4 * 60 - 3);
	sc_merge_release(&m);
}

TEST(test_numbers_before_order)
{
	struct sc_merge m = {.ranks = {0}};
	static const int64_t seqs[2][3] = {{5, 6, 7}, {6, 5, 7}};

	for (int r = 0; r < 2; r++) {
		struct sc_merge_rank *rank = sc_merge_add_rank(&m, r, 0);

		for (int i = 0; i < 3; i++) {
			const struct sc_merge_call call = {
				.start_ns = i, .end_ns = i + 1, .seq = seqs[r][i], .bytes = -1};

			SC_VEC_PUSH(&rank->calls, call);
		}
	}
	sc_merge_match(&m);
	ck_assert_int_eq(m.ranks.at[0].calls.at[0].instance, m.ranks.at[1].calls.at[1].instance);
	ck_assert_int_eq(m.ranks.at[0].calls.at[1].instance, m.ranks.at[1].calls.at[0].instance);
	ck_assert_int_eq(m.ranks.at[0].calls.at[2].instance, m.ranks.at[1].calls.at[2].instance);
	ck_assert_int_ne(m.ranks.at[0].calls.at[0].instance, m.ranks.at[0].calls.at[1].instance);
	sc_merge_release(&m);
}

/* Communicators of their own never mix; a rank alone in one is counted. */
TEST(test_communicators)
{
	struct sc_merge m = {.ranks = {0}};

	for (int r = 0; r < 4; r++) {
		struct sc_merge_rank *rank = sc_merge_add_rank(&m, r, 0);
		struct sc_merge_call call = {.start_ns = 10, .end_ns = 20, .seq = -1, .bytes = -1};

		call.comm = r < 2 ? 1 : 2;
		SC_VEC_PUSH(&rank->calls, call);
		call.comm = 100 + (uint64_t)r;
		SC_VEC_PUSH(&rank->calls, call);
	}
	sc_merge_match(&m);
	ck_assert_int_eq(m.ranks.at[0].calls.at[0].instance, m.ranks.at[1].calls.at[0].instance);
	ck_assert_int_eq(m.ranks.at[2].calls.at[0].instance, m.ranks.at[3].calls.at[0].instance);
	ck_assert_int_ne(m.ranks.at[0].calls.at[0].instance, m.ranks.at[2].calls.at[0].instance);
	ck_assert_uint_eq(m.n_matched, 4);
	ck_assert_uint_eq(m.n_solo, 4);
	sc_merge_release(&m);
}

/* One host has one clock, however its ends differ; that difference is what the estimator would add.
 */
TEST(test_same_host)
{
	struct sc_merge m = {.ranks = {0}};

	for (int r = 0; r < 2; r++) {
		struct sc_merge_rank *rank = sc_merge_add_rank(&m, r, 99);

		for (int i = 0; i < 40; i++) {
			const struct sc_merge_call call = {.start_ns = i * 100000,
							   .end_ns = i * 100000 + 20000 - r * 3000,
							   .seq = -1,
							   .bytes = -1,
							   .barrier = true};

			SC_VEC_PUSH(&rank->calls, call);
		}
	}
	sc_merge_match(&m);
	sc_merge_clocks(&m);
	ck_assert_int_eq(m.ranks.at[1].basis, SC_MERGE_SAME_HOST);
	ck_assert_int_eq(sc_merge_correction(&m.ranks.at[1], 12345), 0);
	sc_merge_release(&m);
}

/* A rank that was recorded two steps later, on a clock that is seconds away: any shift fits calls
 * at even times, and the numbers of steps say which is right. With a clock that tells, they are not
 * asked. */
LOOP_TEST(test_steps_where_clocks_do_not_tell, 2)
{
	struct sc_merge m = {.ranks = {0}};

	for (int r = 0; r < 2; r++) {
		const struct scripted_clock c = {_i && r ? 1.23e9 : 0, 0};
		struct sc_merge_rank *rank = sc_merge_add_rank(&m, r, 0);

		for (int i = 2 * r; i < 6; i++) {
			add_call(rank, &c, i * 5e6, i * 5e6 + 20 * US);
			rank->calls.at[rank->calls.n - 1].step = 1 + (_i ? i : i - 2 * r);
		}
	}
	sc_merge_match(&m);
	for (size_t i = 0; i < 4; i++)
		ck_assert_int_eq(m.ranks.at[1].calls.at[i].instance,
				 m.ranks.at[0].calls.at[i + 2].instance);
	sc_merge_release(&m);
}

/* Four collectives whose ends differ by chance do not move a clock; one that they prove wrong is
 * what their ends say. */
LOOP_TEST(test_few_collectives, 2)
{
	struct sc_merge m = {.ranks = {0}};
	const double offset_us[2] = {0, _i ? 500 : 3};

	for (int r = 0; r < 2; r++) {
		const struct scripted_clock c = {offset_us[r] * US, 0};
		struct sc_merge_rank *rank = sc_merge_add_rank(&m, r, 0);

		for (int i = 0; i < 4; i++)
			add_call(rank, &c, i * 1e6, i * 1e6 + 20 * US);
	}
	sc_merge_match(&m);
	sc_merge_clocks(&m);
	ck_assert_int_eq(m.ranks.at[1].basis, SC_MERGE_FEW);
	if (_i == 0)
		ck_assert_int_eq(sc_merge_correction(&m.ranks.at[1], 12345), 0);
	else /* it cannot end before the other begins */
		ck_assert_double_eq_tol((double)sc_merge_correction(&m.ranks.at[1], 12345),
					-500 * US, 100);
	ck_assert_double_eq_tol(sc_merge_bound_ns(&m.ranks.at[1]), 20 * US, 100);
	sc_merge_release(&m);
}

/* Rank 2 meets rank 0 never, only rank 1: its clock comes by way of that. */
TEST(test_chain_of_groups)
{
	static const double offset_us[3] = {0, 400, -900};
	struct sc_merge m = {.ranks = {0}};

	for (int r = 0; r < 3; r++) {
		const struct scripted_clock c = {offset_us[r] * US, 0};
		struct sc_merge_rank *rank = sc_merge_add_rank(&m, r, 0);

		for (int i = 0; i < 30; i++)
			for (int group = 0; group < 2; group++) {
				if (r != group && r != group + 1)
					continue;
				add_call(rank, &c, (i * 2 + group) * 1e6,
					 (i * 2 + group) * 1e6 + 30 * US);
				rank->calls.at[rank->calls.n - 1].comm = (uint64_t)group + 1;
			}
	}
	sc_merge_match(&m);
	sc_merge_clocks(&m);
	ck_assert_uint_eq(m.ranks.at[2].parent, 1);
	ck_assert_double_eq_tol((double)sc_merge_correction(&m.ranks.at[1], 1000000), -400 * US,
				10);
	ck_assert_double_eq_tol((double)sc_merge_correction(&m.ranks.at[2], 1000000), 900 * US, 10);
	sc_merge_release(&m);
}

/* What cannot be one collective is not believed. */
TEST(test_contradictions)
{
	struct sc_merge m = {.ranks = {0}};

	for (int r = 0; r < 2; r++) {
		struct sc_merge_rank *rank = sc_merge_add_rank(&m, r, 0);

		for (int i = 0; i < 20; i++) {
			/* Rank 1's calls are at unrelated times. */
			const int64_t at = i * 1000000 + (r ? (i * 37 % 11) * 3000000 : 0);
			const struct sc_merge_call call = {.start_ns = at,
							   .end_ns = at + 20000,
							   .seq = i,
							   .bytes = -1,
							   .barrier = true};

			SC_VEC_PUSH(&rank->calls, call);
		}
	}
	sc_merge_match(&m);
	sc_merge_clocks(&m);
	ck_assert_int_eq(m.ranks.at[1].basis, SC_MERGE_HOST_CLOCK);
	ck_assert_int_eq(sc_merge_correction(&m.ranks.at[1], 5), 0);
	sc_merge_release(&m);
}

TEST(test_nothing)
{
	struct sc_merge m = {.ranks = {0}};

	sc_merge_match(&m);
	sc_merge_clocks(&m);
	sc_merge_add_rank(&m, 0, 0);
	sc_merge_add_rank(&m, 1, 0);
	sc_merge_match(&m);
	sc_merge_clocks(&m);
	ck_assert_int_eq(m.ranks.at[1].basis, SC_MERGE_HOST_CLOCK);
	ck_assert(isnan(sc_merge_bound_ns(&m.ranks.at[1])));
	sc_merge_release(&m);
}
