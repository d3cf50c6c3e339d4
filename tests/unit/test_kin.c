/* Runs that are not like their kin, by hand: who are kin, and from when on a run is unlike them. */
#include "arena_fixture.h"
#include "runner.h"
#include "study/validate/kin.h"

#define HEADER                                                                      \
	"case,suite,gpus,parallel.tp,parallel.pp,parallel.dp,training.micro_batch," \
	"training.global_batch,notes,measured_ms\n"

FIXTURE(arena_begin, arena_end)

static struct sc_validation find(const char *rows)
{
	const char *text = sc_arena_printf(&arena, HEADER "%s", rows);
	struct sc_csv *csv = sc_arena_alloc(&arena, sizeof(*csv));
	struct sc_validation v = {.table = csv};
	struct sc_config base;
	struct sc_err err = {0};

	sc_config_init(&base);
	ck_assert_int_eq(
		sc_csv_parse(&(struct sc_source){text, strlen(text), "t.csv"}, &arena, csv, &err),
		0);
	v.n_cases = csv->n_rows;
	v.cases = sc_arena_calloc(&arena, v.n_cases + 1, sizeof(*v.cases));
	for (size_t i = 0; i < v.n_cases; i++)
		v.cases[i] = (struct sc_case){.name = sc_csv_cell(csv, i, 0),
					      .row = i,
					      .measured_ms = strtod(sc_csv_cell(csv, i, 9), NULL)};
	ck_assert_msg(sc_kin_find(&base, &arena, &v, &err) == 0, "%s", err.text);
	return v;
}

/* 8 micro-batches in 800 ms are 100 ms each. Twice as many GPUs with 4 each in 820 ms are 205,
 * which is unlike; in 790 it is not. */
TEST(twice_as_long)
{
	struct sc_validation v = find("a,s,8,1,1,8,1,64,x,800\nb,s,16,1,1,16,1,64,y,820\n"
				      "c,s,16,1,1,16,1,64,z,790\n");

	ck_assert_uint_eq(v.n_unlike, 1);
	ck_assert_str_eq(v.cases[1].kin, "a");
	ck_assert_double_eq_tol(v.cases[1].over_kin, 2.05, 1e-9);
	ck_assert_ptr_null(v.cases[0].kin);
}

/* A pipeline's ramp is slots as well: 8 micro-batches on 4 stages are 11 slots, 2 are 5. */
TEST(ramp_counts)
{
	ck_assert_uint_eq(find("a,s,32,1,4,8,1,64,,1100\nb,s,32,1,4,8,1,16,,900\n").n_unlike, 0);
	ck_assert_uint_eq(find("a,s,32,1,4,8,1,64,,1100\nb,s,32,1,4,8,1,16,,1100\n").n_unlike, 1);
}

/* Another split, another suite, a single micro-batch and one whose micro-batches are not told have
 * no kin. */
TEST(no_kin)
{
	ck_assert_uint_eq(find("a,s,8,1,1,8,1,64,,800\nb,s,16,2,1,8,1,64,,8000\n"
			       "c,t,16,1,1,16,1,64,,8000\nd,s,64,1,1,64,1,64,,8000\n"
			       "e,s,16,1,1,16,,64,,8000\nf,s,16,1,1,16,1,64,,0\n")
				  .n_unlike,
			  0);
}
