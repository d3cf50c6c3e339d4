/* Columns and texts as predicted bits: what goes in comes out, small, and hostile bytes end soon. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "trace/column_model.h"
#include "trace/common_names.h"

enum { N_OUT = SC_MODEL_MAX_ROWS * 10 };

static struct sc_column_model *model;
static uint64_t values[SC_MODEL_MAX_ROWS], got[SC_MODEL_MAX_ROWS];
static uint32_t keys[SC_MODEL_MAX_ROWS];
static uint8_t out[N_OUT], text[4096];

static void set_up(void)
{
	model = sc_column_model_create();
	ck_assert_ptr_nonnull(model);
	memset(values, 0, sizeof(values));
	memset(keys, 0, sizeof(keys));
}

static void tear_down(void)
{
	sc_column_model_destroy(model);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Returns the bytes. */
static size_t expect_same(size_t n)
{
	size_t n_out = sc_column_model_put(model, keys, values, n, out, sizeof(out));

	ck_assert_uint_gt(n_out, 0);
	ck_assert(sc_column_model_get(model, keys, out, n_out, got, n));
	ck_assert_mem_eq(got, values, n * sizeof(*values));
	return n_out;
}

/* --- values --- */

/* Bits of the largest value: of all sizes up to it. */
static const unsigned sizes[] = {0, 1, 4, 15, 16, 17, 33, 63, 64};

START_TEST(test_values)
{
	uint64_t state = 4711;

	for (size_t i = 0; i < SC_MODEL_MAX_ROWS; i++) {
		uint64_t size = sizes[_i] ? next_random(&state) % sizes[_i] + 1 : 0;

		values[i] = size ? next_random(&state) >> (64 - size) : 0;
		keys[i] = (uint32_t)next_random(&state) % 7;
	}
	expect_same(SC_MODEL_MAX_ROWS);
	expect_same(1);
}
END_TEST

START_TEST(test_limits)
{
	values[0] = UINT64_MAX;
	values[1] = 0;
	values[2] = UINT64_C(1) << 63;
	keys[1] = UINT32_MAX;
	expect_same(3);
}
END_TEST

/* 16 values of which each key has four: 2 bits of 4, less than a byte in four rows; without keys twice that. */
START_TEST(test_keys_tell)
{
	const size_t n = 2000;
	uint64_t state = 5;
	size_t n_with, n_without;

	for (size_t i = 0; i < n; i++) {
		keys[i] = (uint32_t)next_random(&state) % 4;
		values[i] = keys[i] * 4 + next_random(&state) % 4;
	}
	n_with = expect_same(n);
	memset(keys, 0, sizeof(keys));
	n_without = expect_same(n);
	ck_assert_uint_lt(n_with, n * 3 / 10);
	ck_assert_uint_gt(n_without, n * 45 / 100);
	ck_assert_uint_lt(n_without, n * 6 / 10);
}
END_TEST

START_TEST(test_no_room)
{
	uint64_t state = 7;

	for (size_t i = 0; i < 100; i++)
		values[i] = next_random(&state);
	ck_assert_uint_eq(sc_column_model_put(model, keys, values, 100, out, 700), 0);
	ck_assert_uint_eq(sc_column_model_put(model, keys, values, 1, out, 0), 0);
}
END_TEST

/* So predictable that reading them takes long for so few bytes: refused by both sides. */
START_TEST(test_too_much_of_a_byte)
{
	for (size_t i = 0; i < SC_MODEL_MAX_ROWS; i++)
		values[i] = 0x155;
	ck_assert_uint_eq(
		sc_column_model_put(model, keys, values, SC_MODEL_MAX_ROWS, out, sizeof(out)), 0);
	memset(out, 0, 4);
	ck_assert(!sc_column_model_get(model, keys, out, 4, got, SC_MODEL_MAX_ROWS));
}
END_TEST

START_TEST(test_cut_values)
{
	uint64_t state = 11;
	size_t n_out;

	for (size_t i = 0; i < 200; i++)
		values[i] = next_random(&state);
	n_out = expect_same(200);
	ck_assert(!sc_column_model_get(model, keys, out, n_out / 2, got, 200) ||
		  memcmp(got, values, 200 * sizeof(*values)) != 0);
	sc_column_model_get(model, keys, out, 0, got, 200);
}
END_TEST

START_TEST(test_any_bytes)
{
	uint64_t state = 13 + (uint64_t)_i;

	for (size_t i = 0; i < 300; i++)
		out[i] = (uint8_t)next_random(&state);
	sc_column_model_get(model, keys, out, 300, got, 1000);
	sc_column_model_get_text(model, out, 300, text, sizeof(text));
}
END_TEST

/* --- texts --- */

static size_t put_text(const void *from, size_t n)
{
	size_t n_out = sc_column_model_put_text(model, from, n, out, sizeof(out));

	ck_assert_uint_gt(n_out, 0);
	ck_assert_uint_le(n, sizeof(text));
	ck_assert(sc_column_model_get_text(model, out, n_out, text, n));
	ck_assert_mem_eq(text, from, n);
	return n_out;
}

START_TEST(test_texts)
{
	static const char common[] =
		"aten::addmm\0cudaLaunchKernel\0ProfilerStep#2\0nccl:all_reduce";
	static const char own[] = "a name that nobody else has\0and another, quite another one";
	char repeated[4000];
	uint64_t state = 3;

	ck_assert_uint_lt(put_text(common, sizeof(common)), sizeof(common) / 2);
	ck_assert_uint_lt(put_text(own, sizeof(own)), sizeof(own));
	memset(repeated, 'x', sizeof(repeated));
	ck_assert_uint_lt(put_text(repeated, sizeof(repeated)), 60);
	for (size_t i = 0; i < sizeof(repeated); i++)
		repeated[i] = (char)next_random(&state);
	put_text(repeated, sizeof(repeated));
	ck_assert_uint_le(put_text("", 1), 2);
}
END_TEST

/* Files depend on every letter of the list. */
START_TEST(test_common_names)
{
	static uint8_t names[SC_NAMES_MAX_BYTES];
	size_t n = sc_common_names_put(names);
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ names[i]) * 16777619u;
	ck_assert_uint_eq(SC_NAMES_NUMBER, 1);
	ck_assert_uint_eq(n, 40600);
	ck_assert_uint_eq(hash, 0x9EDC3F98u);
}
END_TEST

static Suite *column_model_suite(void)
{
	Suite *suite = suite_create("column_model");
	TCase *tcase = tcase_create("column_model");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_loop_test(tcase, test_values, 0, sizeof(sizes) / sizeof(sizes[0]));
	tcase_add_test(tcase, test_limits);
	tcase_add_test(tcase, test_keys_tell);
	tcase_add_test(tcase, test_no_room);
	tcase_add_test(tcase, test_too_much_of_a_byte);
	tcase_add_test(tcase, test_cut_values);
	tcase_add_loop_test(tcase, test_any_bytes, 0, 20);
	tcase_add_test(tcase, test_texts);
	tcase_add_test(tcase, test_common_names);
	suite_add_tcase(suite, tcase);
	return suite;
}

TEST_MAIN(column_model_suite)
