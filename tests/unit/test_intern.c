/* Names to ids and back. */
#include "base/fnv.h"
#include "base/intern.h"
#include "runner.h"

static struct sc_intern table;

static void set_up(void)
{
	table = (struct sc_intern){0};
}

static void tear_down(void)
{
	sc_intern_release(&table);
}

FIXTURE(set_up, tear_down)

TEST(test_equal_texts_share_an_id)
{
	char again[] = "gemm";

	ck_assert_uint_eq(sc_intern_add(&table, "gemm"), 0);
	ck_assert_uint_eq(sc_intern_add(&table, "all-reduce"), 1);
	ck_assert_uint_eq(sc_intern_add(&table, ""), 2);
	ck_assert_uint_eq(sc_intern_add(&table, again), 0);
	ck_assert_uint_eq(sc_intern_add_n(&table, "gemm kernel", 4), 0);
	ck_assert_uint_eq(sc_intern_add_n(&table, "gemm kernel", 6), 3);
	ck_assert_uint_eq(sc_intern_count(&table), 4);
	again[0] = 'x';
	ck_assert_str_eq(sc_intern_get(&table, 0), "gemm");
	ck_assert_str_eq(sc_intern_get(&table, 2), "");
	ck_assert_str_eq(sc_intern_get(&table, 3), "gemm k");
}

TEST(test_texts_with_nul)
{
	ck_assert_uint_eq(sc_intern_add_n(&table, "a\0b", 3), 0);
	ck_assert_uint_eq(sc_intern_add_n(&table, "a\0c", 3), 1);
	ck_assert_uint_eq(sc_intern_add_n(&table, "a", 1), 2);
	ck_assert_uint_eq(sc_intern_add_n(&table, "a\0b", 3), 0);
	ck_assert_mem_eq(sc_intern_get(&table, 1), "a\0c", 4);
}

TEST(test_find)
{
	ck_assert_uint_eq(sc_intern_find(&table, "a"), SC_INTERN_NONE);
	sc_intern_add(&table, "a");
	ck_assert_uint_eq(sc_intern_find(&table, "a"), 0);
	ck_assert_uint_eq(sc_intern_find(&table, "b"), SC_INTERN_NONE);
	ck_assert_uint_eq(sc_intern_count(&table), 1);
}

TEST(test_many)
{
	enum { N = 20000 };
	const char *first = NULL;
	char name[32];

	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < N; i++) {
			snprintf(name, sizeof(name), "kernel_%u", (unsigned)i);
			ck_assert_uint_eq(sc_intern_add(&table, name), i);
			if (!first)
				first = sc_intern_get(&table, 0);
		}
	}
	ck_assert_uint_eq(sc_intern_count(&table), N);
	ck_assert_ptr_eq(sc_intern_get(&table, 0), first);
	ck_assert_str_eq(sc_intern_get(&table, N - 1), "kernel_19999");
}

/* Values of the reference implementation. */
TEST(test_fnv)
{
	ck_assert_uint_eq(sc_fnv(SC_FNV_START, "", 0), SC_FNV_START);
	ck_assert_uint_eq(sc_fnv(SC_FNV_START, "a", 1), UINT64_C(0xaf63dc4c8601ec8c));
	ck_assert_uint_eq(sc_fnv(sc_fnv(SC_FNV_START, "foo", 3), "bar", 3),
			  UINT64_C(0x85944171f73967e8));
}
