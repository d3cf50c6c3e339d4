/* The choice of split, by hand: what is a decision, what its repeat, and what suites weigh. */
#include <math.h>

#include "arena_fixture.h"
#include "runner.h"
#include "study/validate/choices.h"

#define TOLERANCE 1e-9
#define HEADER "case,suite,gpus,parallel.tp,training.global_batch,notes,ms\n"

FIXTURE(arena_begin, arena_end)

/* Cells "ms": "MEASURED/PREDICTED"; no prediction: skipped. */
static void find(const char *rows, struct sc_choices *out)
{
	const char *text = sc_arena_printf(&arena, HEADER "%s", rows);
	struct sc_csv *csv = sc_arena_alloc(&arena, sizeof(*csv));
	struct sc_validation v = {.table = csv};
	struct sc_err err = {0};

	ck_assert_int_eq(
		sc_csv_parse(&(struct sc_source){text, strlen(text), "t.csv"}, &arena, csv, &err),
		0);
	v.n_cases = csv->n_rows;
	v.cases = sc_arena_calloc(&arena, v.n_cases + 1, sizeof(*v.cases));
	for (size_t i = 0; i < v.n_cases; i++) {
		const char *ms = sc_csv_cell(csv, i, 6), *slash = strchr(ms, '/');

		v.cases[i] = (struct sc_case){.name = sc_csv_cell(csv, i, 0), .row = i};
		v.cases[i].measured_ms = strtod(ms, NULL);
		v.cases[i].skipped = slash ? NULL : "no";
		v.cases[i].outcome.iteration_ms = slash ? strtod(slash + 1, NULL) : 0;
	}
	sc_choices_find(&v, &arena, out);
}

TEST(nothing_to_choose)
{
	struct sc_choices c;

	find("", &c);
	ck_assert_uint_eq(c.n, 0);
	ck_assert(isnan(c.won_pct) && isnan(c.gain_pct));
	/* another number of GPUs, another suite, the same split twice, a row that was not predicted
	 */
	find("a,s,8,1,64,,100/90\nb,s,16,2,64,,50/50\nc,t,8,2,64,,90/90\nd,s,8,1.0,64,,100/90\n"
	     "e,s,8,4,64,,80\n",
	     &c);
	ck_assert_uint_eq(c.n, 0);
}

/* 103 for 100 is won, 104 is not; the gain is over the worst. Notes do not part. */
TEST(won_and_gained)
{
	struct sc_choices c;

	find("a,s,8,1,64,x,100/91\nb,s,8,2,64,y,103/90\nc,s,8,4,64,z,200/95\n", &c);
	ck_assert_uint_eq(c.n, 1);
	ck_assert_uint_eq(c.at[0].n_won, 1);
	ck_assert_uint_eq(c.at[0].n_splits, 3);
	ck_assert_str_eq(c.at[0].chosen->name, "b");
	ck_assert_str_eq(c.at[0].best->name, "a");
	ck_assert_double_eq_tol(c.at[0].loss, 0.03, TOLERANCE);
	ck_assert_double_eq_tol(c.won_pct, 100, TOLERANCE);
	ck_assert_double_eq_tol(c.gain_pct, 97, TOLERANCE);
	find("a,s,8,1,64,,100/91\nb,s,8,2,64,,104/90\n", &c);
	ck_assert_double_eq_tol(c.won_pct, 0, TOLERANCE);
	ck_assert_double_eq_tol(c.gain_pct, 0, TOLERANCE);
}

/* The same split measured again counts with its mean. */
TEST(repeated_rows_are_one_split)
{
	struct sc_choices c;

	find("a,s,8,1,64,,100/90\nb,s,8,2,64,,90/95\nc,s,8,1,64,,140/90\n", &c);
	ck_assert_uint_eq(c.at[0].n_splits, 2);
	ck_assert_double_eq_tol(c.at[0].loss, 120.0 / 90 - 1, TOLERANCE);
}

/* Three batches of one model are one vote, as is the one of 16 GPUs; suites weigh alike. */
TEST(one_vote_a_decision)
{
	struct sc_choices c;
	const char *rows = "a,s,8,1,64,,100/90\nb,s,8,2,64,,200/99\n"    /* won */
			   "c,s,8,1,128,,200/90\nd,s,8,2,128,,100/99\n"  /* lost */
			   "e,s,8,1,256,,200/90\nf,s,8,2,256,,100/99\n"  /* lost */
			   "g,s,16,1,64,,100/90\nh,s,16,2,64,,200/99\n"; /* won */

	find(rows, &c);
	ck_assert_uint_eq(c.n, 2);
	ck_assert_uint_eq(c.n_suites, 1);
	ck_assert_double_eq_tol(c.won_pct, 100 * (1.0 / 3 + 1) / 2, TOLERANCE);
	ck_assert_double_eq_tol(c.gain_pct, 100 * (1.0 / 3 + 1) / 2, TOLERANCE);
	find(sc_arena_printf(&arena, "%si,t,8,1,64,,110/90\nj,t,8,2,64,,100/99\n", rows), &c);
	ck_assert_uint_eq(c.n_suites, 2);
	ck_assert_double_eq_tol(c.won_pct, 100 * (1.0 / 3 + 1) / 4, TOLERANCE);
	ck_assert_double_eq_tol(c.gain_pct, 100 * ((1.0 / 3 + 1) / 2) / 1.1, TOLERANCE);
}
